//! Limits and rules of the right form: whether they mean something.

use serde::Deserialize;
use serde_json::Value;
use zero_core::HostLimits;
use zero_core::host_limits::InvalidLimitError;
use zero_policy::rule::{RuleError, RuleOwner};
use zero_policy::{PolicyRule, RuleSource, Verdict};

use super::document::join_pointer;
use super::settings_schema::{ExplainedRuleSetting, LimitSetting, RuleSetting};
use crate::limit_range;

/// Limits of the right form whose value means nothing.
pub(super) fn find_wrong_limits(value: &Value) -> Vec<(String, String)> {
    let in_object = |pointer: String, tool: &str| {
        let limits = value.pointer(&pointer).and_then(Value::as_object).into_iter().flatten();
        let wrong = limits.filter_map(|(name, limit)| {
            Some((join_pointer(&pointer, name), find_wrong_limit(&format!("{tool}{name}"), limit)?))
        });
        wrong.collect::<Vec<_>>()
    };
    let of_tools = HostLimits::COMMAND_TOOLS
        .iter()
        .flat_map(|tool| in_object(join_pointer("/limits", tool), &format!("{tool}.")));
    in_object("/limits".to_owned(), "").into_iter().chain(of_tools).collect()
}

/// What is wrong with a limit that has the right form.
fn find_wrong_limit(name: &str, limit: &Value) -> Option<String> {
    let text = match (LimitSetting::deserialize(limit), limit) {
        // The schema has told them.
        (Ok(LimitSetting::Number(0)), _) => return None,
        (Ok(value), _) => value.to_text(),
        // `4.0` and what no number of ours can hold.
        (Err(_), Value::Number(number)) => number.to_string(),
        (Err(_), _) => return None,
    };
    let mut usual = HostLimits::default();
    match usual.set(name, &text) {
        // Also told by the schema.
        Err(InvalidLimitError::UnknownName { .. }) => None,
        _ => limit_range::set_limit(&mut HostLimits::default(), name, &text).err(),
    }
}

/// Rules of the right form that are none.
pub(super) fn find_wrong_rules(value: &Value) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for verdict in Verdict::ALL {
        let list = format!("/permissions/{verdict}");
        let rules = value.pointer(&list).and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            let Ok(rule) = RuleSetting::deserialize(rule) else { continue };
            let rule = rule.into_explained();
            let pointer = join_pointer(&list, &index.to_string());
            if let Err(what) = check_rule(&rule.rule, verdict) {
                wrong.push((pointer, what));
            } else if let Err((name, what)) = check_limit_changes(&rule, verdict) {
                let inside = join_pointer(&pointer, "limits");
                wrong.push((name.map_or(inside.clone(), |name| join_pointer(&inside, name)), what));
            }
        }
    }
    wrong
}

/// Whether a rule can raise what it raises.
fn check_limit_changes(
    rule: &ExplainedRuleSetting,
    verdict: Verdict,
) -> Result<(), (Option<&str>, String)> {
    if rule.limits.is_empty() {
        return Ok(());
    }
    if verdict == Verdict::Deny {
        let what = "a rule in `deny` lets nothing run, so it can raise no limits; remove `limits`";
        return Err((None, what.to_owned()));
    }
    let is_of_commands = parse_rule(&rule.rule, verdict).is_ok_and(|rule| {
        rule.tool_name().is_some_and(|tool| HostLimits::COMMAND_TOOLS.contains(&tool))
    });
    if !is_of_commands {
        let what = "only a rule for commands, such as `Bash(make:*)`, can raise their limits; remove `limits`";
        return Err((None, what.to_owned()));
    }
    rule.limit_changes().map(drop).map_err(|(name, what)| (Some(name), what))
}

/// Whether a text is a rule.
pub(crate) fn check_rule(text: &str, verdict: Verdict) -> Result<(), String> {
    parse_rule(text, verdict).map(drop).map_err(|error| {
        let text: String = text.chars().take(80).collect();
        format!("rule `{text}`: {error}")
    })
}

fn parse_rule(text: &str, verdict: Verdict) -> Result<PolicyRule, RuleError> {
    let source = RuleSource { name: String::new(), line: None, owner: RuleOwner::Person };
    PolicyRule::parse(text, verdict, source)
}
