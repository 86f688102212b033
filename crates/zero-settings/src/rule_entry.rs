//! A permission rule of a settings file, parsed once.
//!
//! The text is parsed when its file is checked, and the parsed rule is stored. No code parses it a
//! second time, so an accepted deny rule cannot be lost to an ignored error.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use zero_core::HostLimits;
use zero_core::host_limits::InvalidLimitError;
use zero_core::text_shortening::shorten_end;
use zero_policy::rule::{RuleError, RuleOwner};
use zero_policy::{PolicyRule, RuleSource, Verdict};

use crate::layer_kind::SettingsLayerKind;
use crate::parsed_setting::{SettingFailure, SettingSource};
use crate::settings_schema::{ExplainedRuleSetting, RuleSetting};

/// The file name of rules that come with a request.
pub const REQUEST_FILE_NAME: &str = "request";

/// Parses the text of a rule. Tests pass a parser that fails.
pub(crate) type RuleParser<'a> =
    dyn FnMut(&str, Verdict, RuleSource) -> Result<PolicyRule, RuleError> + 'a;

/// A permission rule with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleEntry {
    /// The rule, with its source and the limits it raises.
    pub rule: PolicyRule,
    /// The rule as written.
    pub text: String,
    /// The file, with `~` for the user's home folder.
    pub source_file: String,
    /// The line in `source_file`, from 1.
    pub line: u32,
    /// The owner of the file.
    pub layer: SettingsLayerKind,
    /// Calls that the rule must and must not match, and its reason.
    pub examples: ExplainedRuleSetting,
}

impl RuleEntry {
    pub(crate) fn parse(
        value: &Value,
        verdict: Verdict,
        at: &SettingSource<'_>,
        parse_rule: &mut RuleParser<'_>,
    ) -> Result<Self, SettingFailure> {
        let setting = RuleSetting::deserialize(value).map_err(SettingFailure::unusable)?;
        let examples = setting.into_explained();
        let owner = match at.layer {
            SettingsLayerKind::User | SettingsLayerKind::Flag => RuleOwner::User,
            SettingsLayerKind::Project | SettingsLayerKind::Local => RuleOwner::Project,
        };
        // A request has no meaningful lines.
        let line = (at.file != REQUEST_FILE_NAME).then_some(at.line);
        let source = RuleSource { name: at.file.to_owned(), line, owner };
        let rule = parse_rule(&examples.rule, verdict, source).map_err(|error| {
            SettingFailure::wrong("", describe_rule_error(&examples.rule, &error))
        })?;
        let limits = match examples.limits.is_empty() {
            true => Default::default(),
            false => {
                check_raises_limits(&rule)?;
                examples.limit_changes().map_err(|(name, error)| match error {
                    InvalidLimitError::UnknownName { .. } => SettingFailure::unusable(error),
                    _ => SettingFailure::wrong(&format!("/limits/{name}"), error.to_string()),
                })?
            }
        };
        Ok(Self {
            rule: rule.with_limits(limits),
            text: examples.rule.clone(),
            source_file: at.file.to_owned(),
            line: at.line,
            layer: at.layer,
            examples,
        })
    }

    /// Why the rule is risky, if it allows nearly anything.
    pub fn overbroad_reason(&self) -> Option<String> {
        self.rule.overbroad_reason()
    }

    /// Why a deny or ask rule matches less than it seems to. `is_elsewhere` returns whether a path
    /// exists on the machine, but not in the workspace.
    pub fn narrow_reason(&self, is_elsewhere: &dyn Fn(&Path) -> bool) -> Option<String> {
        self.rule.narrow_reason(is_elsewhere)
    }

    /// A copy of the rule that raises no limits.
    pub(crate) fn without_limits(&self) -> Self {
        let mut entry = self.clone();
        entry.rule = entry.rule.with_limits(Default::default());
        entry.examples.limits.clear();
        entry
    }
}

fn describe_rule_error(text: &str, error: &RuleError) -> String {
    format!("rule `{}`: {error}", shorten_end(text, 80))
}

/// Fails if this rule cannot raise limits.
fn check_raises_limits(rule: &PolicyRule) -> Result<(), SettingFailure> {
    if rule.verdict == Verdict::Deny {
        let what =
            "a rule in `deny` cannot raise limits, because it allows nothing; remove `limits`";
        return Err(SettingFailure::wrong("/limits", what.to_owned()));
    }
    if !rule.tool_name().is_some_and(|tool| HostLimits::COMMAND_TOOLS.contains(&tool)) {
        let what =
            "only a rule for commands, such as `Bash(make:*)`, can raise limits; remove `limits`";
        return Err(SettingFailure::wrong("/limits", what.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkspaceSettings;
    use crate::layer::SettingsLayer;
    use crate::trust::TrustState;

    const TWO_RULES: &str =
        r#"{"permissions": {"allow": ["Bash"], "deny": [{"rule": "Bash(rm:*)", "why": "no"}]}}"#;

    /// The active rules if the parser fails at its `failing`th call, and the number of calls.
    fn load_rules(failing: usize) -> (Result<Vec<String>, Vec<String>>, usize) {
        let mut calls = 0;
        let mut parser = |text: &str, verdict, source| {
            calls += 1;
            if calls == failing {
                Err(RuleError::Empty)
            } else {
                PolicyRule::parse(text, verdict, source)
            }
        };
        let layer = SettingsLayer::parse_with(
            SettingsLayerKind::Project,
            "f".to_owned(),
            TWO_RULES.as_bytes(),
            &mut parser,
        );
        let rules = layer.map(|layer| {
            let settings = WorkspaceSettings::merge(&[layer], TrustState::assumed());
            settings.policy_rules().iter().map(|rule| format!("{} {rule}", rule.verdict)).collect()
        });
        let rules = rules
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<String>>());
        (rules, calls)
    }

    #[test]
    fn rule_parse_failure_refuses_settings() {
        let first = ["f:1:28: rule `Bash`: ".to_owned() + &RuleError::Empty.to_string()];
        assert_eq!(load_rules(1).0, Err(first.to_vec()));
        let second = ["f:1:46: rule `Bash(rm:*)`: ".to_owned() + &RuleError::Empty.to_string()];
        assert_eq!(load_rules(2).0, Err(second.to_vec()));
    }

    #[test]
    fn rule_is_parsed_once_and_kept() {
        let (rules, calls) = load_rules(3);
        assert_eq!(rules.unwrap(), ["allow Bash", "deny Bash(rm:*)"]);
        assert_eq!(calls, 2, "one call per rule, including later uses");
    }
}
