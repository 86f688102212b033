//! What the web console shows of this machine, made by the same code as `zero audit`, `zero policy`
//! and `zero doctor`.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use zero_core::sanitize;
use zero_gateway::MachineReports;
use zero_policy::PermissionMode;
use zero_runtime::audit::AuditLog;
use zero_sandbox::Workspace;
use zero_settings::SettingsLayerKind;
use zero_settings::document::SettingsDocument;
use zero_settings::edit::{self, ValueEdit};
use zero_tools::diff::file_diff;
use zero_wire::machine::{
    AuditListParams, AuditListResult, AuditRecordInfo, AuditVerifyResult, MachineDoctorResult,
    PolicyExplainParams, PolicyExplainResult, PolicyRuleLists, PolicyRulesResult, PolicySaveParams,
    PolicySaveResult, PolicySimulateParams, PolicySimulateResult,
};

use super::policy_explain::ExplainedCall;
use super::policy_simulate::{Simulation, SimulationLimit};
use super::{audit_query, audit_show, audit_verify, doctor};
use crate::AppContext;
use crate::cli::{PolicyContextArgs, PolicySimulateArgs};
use crate::error_chain::describe_error;
use crate::exit::UsageError;
use crate::settings_file_edit::EditableSettingsFile;

/// Time span of a simulation, if the client names none.
const SIMULATED_DEFAULT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bound of a simulation, after which it says where it stopped.
const SIMULATION_LIMIT: SimulationLimit =
    SimulationLimit { rows: 200_000, time: Duration::from_secs(20) };
/// Rules that a draft may add and remove: the file is parsed again for each.
const RULE_CHANGES_MAX: usize = 500;
/// The lists of rules in a settings file.
const LISTS: [&str; 3] = ["allow", "ask", "deny"];

/// Reports on the machine that the gateway runs on.
pub(super) struct LocalMachineReports {
    app: AppContext,
    /// Folder of calls that name none.
    cwd: PathBuf,
}

impl LocalMachineReports {
    pub(super) fn new(app: &AppContext, cwd: &Path) -> Self {
        Self { app: app.clone(), cwd: cwd.to_owned() }
    }

    fn explain(&self, call: &PolicyExplainParams) -> anyhow::Result<PolicyExplainResult> {
        let (tool, input) = match (&call.command, &call.tool) {
            (Some(command), None) => ("Bash", json!({ "command": command })),
            (None, Some(tool)) => {
                (tool.as_str(), Value::Object(call.input.clone().unwrap_or_default()))
            }
            _ => return Err(usage("give one of `command` and `tool`")),
        };
        let workspace = call.cwd.as_ref().map_or_else(|| self.cwd.clone(), PathBuf::from);
        if !workspace.is_absolute() {
            return Err(usage("`cwd` has to be an absolute path"));
        }
        let place =
            PolicyContextArgs { workspace: Some(workspace), home: None, settings: Vec::new() };
        let mode = parse_mode(call.mode.as_deref())?;
        convert(ExplainedCall::new(&self.app, &place, mode, tool, &input)?.to_json())
    }

    fn simulate(&self, draft: &PolicySimulateParams) -> anyhow::Result<PolicySimulateResult> {
        let since = draft.since_ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let span = since.map(|since| Timestamp::now().duration_since(since));
        let span = span.and_then(|span| Duration::try_from(span).ok());
        let args = PolicySimulateArgs {
            since: span.unwrap_or(SIMULATED_DEFAULT),
            settings: Vec::new(),
            workspace: None,
            home: None,
            mode: parse_mode(draft.mode.as_deref())?,
            json: true,
        };
        let Some(rules) = &draft.rules else {
            return convert(Simulation::run(&self.app, &args, SIMULATION_LIMIT)?.to_json());
        };
        let workspace = self.open_workspace()?;
        let file = EditableSettingsFile::new(&self.app, &workspace, SettingsLayerKind::User)?;
        let text = with_rules(&file.read_text()?, rules)?;
        file.check_text(&text)?;
        // In a folder of its own that only the user can read: settings may name secrets.
        let folder = tempfile::Builder::new().prefix("zero-draft").tempdir()?;
        let path = folder.path().join("settings.json");
        zero_sandbox::ConfigFile::Own(path.clone()).write(text.as_bytes())?;
        let config = self.app.config.clone().with_draft_settings(path);
        let app = AppContext { config, ..self.app.clone() };
        convert(Simulation::run(&app, &args, SIMULATION_LIMIT)?.to_json())
    }

    fn rules(&self) -> anyhow::Result<PolicyRulesResult> {
        let workspace = self.open_workspace()?;
        let file = EditableSettingsFile::new(&self.app, &workspace, SettingsLayerKind::User)?;
        let text = file.read_text()?;
        Ok(PolicyRulesResult {
            rules: read_rules(&text)?,
            version: text_version(&text),
            file: file.shown,
        })
    }

    fn save(&self, draft: &PolicySaveParams) -> anyhow::Result<PolicySaveResult> {
        let workspace = self.open_workspace()?;
        let file = EditableSettingsFile::new(&self.app, &workspace, SettingsLayerKind::User)?;
        let before = file.read_text()?;
        if text_version(&before) != draft.version {
            let what = format!("{} was changed in the meantime; load its rules again", file.shown);
            return Err(UsageError(what).into());
        }
        let text = with_rules(&before, &draft.rules)?;
        file.check_text(&text)?;
        let written = draft.write && text != before;
        if written {
            file.replace_text(&before, &text)?;
        }
        let diff = rule_diff(&file.shown, &read_rules(&before)?, &read_rules(&text)?);
        let version = text_version(if written { &text } else { &before });
        Ok(PolicySaveResult { file: file.shown, diff, written, version })
    }

    fn open_workspace(&self) -> anyhow::Result<Workspace> {
        Ok(self.app.config.open_workspace(std::slice::from_ref(&self.cwd))?)
    }
}

impl MachineReports for LocalMachineReports {
    fn list_audit(&self, query: &AuditListParams) -> Result<AuditListResult, String> {
        let state = self.app.config.state_dir().map_err(|error| error.to_string())?;
        audit_query::list(&AuditLog::new(&state), query, audit_query::SEARCH_TIME_MAX)
            .map_err(|error| format!("could not read the audit log: {error}"))
    }

    fn show_audit(&self, call: &str) -> Result<AuditRecordInfo, String> {
        describe(audit_show::show_record(&self.app, call).and_then(convert))
    }

    fn verify_audit(&self) -> Result<AuditVerifyResult, String> {
        describe(audit_verify::verify_whole_log(&self.app).and_then(convert))
    }

    fn explain_policy(&self, call: &PolicyExplainParams) -> Result<PolicyExplainResult, String> {
        describe(self.explain(call))
    }

    fn read_rules(&self) -> Result<PolicyRulesResult, String> {
        describe(self.rules())
    }

    fn simulate_policy(
        &self,
        draft: &PolicySimulateParams,
    ) -> Result<PolicySimulateResult, String> {
        describe(self.simulate(draft))
    }

    fn save_rules(&self, draft: &PolicySaveParams) -> Result<PolicySaveResult, String> {
        describe(self.save(draft))
    }

    fn run_doctor(&self) -> Result<MachineDoctorResult, String> {
        describe(convert(doctor::examine(&self.app)))
    }
}

/// What a command prints as JSON, as a type of the protocol.
fn convert<T: DeserializeOwned>(printed: Value) -> anyhow::Result<T> {
    serde_json::from_value(printed).context("the report has an unexpected form")
}

fn describe<T>(made: anyhow::Result<T>) -> Result<T, String> {
    made.map_err(|error| describe_error(&error))
}

fn usage(what: &str) -> anyhow::Error {
    UsageError(what.to_owned()).into()
}

fn parse_mode(word: Option<&str>) -> anyhow::Result<Option<PermissionMode>> {
    let Some(word) = word else { return Ok(None) };
    let found = PermissionMode::ALL.into_iter().find(|mode| mode.as_str() == word);
    found.map(Some).ok_or_else(|| {
        let word = sanitize::to_quoted_line(word);
        usage(&format!("there is no mode {word}"))
    })
}

/// The rules in the text of a settings file.
fn read_rules(text: &str) -> anyhow::Result<PolicyRuleLists> {
    let document = SettingsDocument::parse("", text.as_bytes());
    let document =
        document.map_err(|_| usage("the settings file is not valid; `zero doctor` says why"))?;
    let list = |name: &str| {
        let found = document.value().pointer(&format!("/permissions/{name}"));
        found.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let [allow, ask, deny] = LISTS.map(list);
    Ok(PolicyRuleLists { allow, ask, deny })
}

/// The text with these rules. Rules that stay keep their place and comments.
fn with_rules(text: &str, rules: &PolicyRuleLists) -> anyhow::Result<String> {
    let known = read_rules(text)?;
    let lists =
        [(&known.allow, &rules.allow), (&known.ask, &rules.ask), (&known.deny, &rules.deny)];
    let mut edits = Vec::new();
    for (name, (old, new)) in LISTS.into_iter().zip(lists) {
        let removed = old.iter().filter(|rule| !new.contains(rule)).cloned().map(ValueEdit::Remove);
        let added = new.iter().filter(|rule| !old.contains(rule)).cloned().map(ValueEdit::Add);
        edits.extend(removed.chain(added).map(|edit| (name, edit)).take(RULE_CHANGES_MAX + 1));
    }
    if edits.len() > RULE_CHANGES_MAX {
        return Err(usage(&format!(
            "the draft changes more than {RULE_CHANGES_MAX} rules; change fewer at a time, or edit the file"
        )));
    }
    let mut text = text.to_owned();
    for (name, edit) in edits {
        if let Some(edited) = edit::apply(&text, &["permissions", name], &edit)? {
            text = edited;
        }
    }
    Ok(text)
}

/// The changed rules, one per line. Made of the rules alone: the lines of the file may hold secrets,
/// also beside rules.
fn rule_diff(file: &str, before: &PolicyRuleLists, after: &PolicyRuleLists) -> String {
    let diff = file_diff(file, Some(&rule_lines(before)), Some(&rule_lines(after)));
    let changed = diff.unified.lines().filter(|line| !line.starts_with(' '));
    changed.flat_map(|line| [line, "\n"]).collect()
}

fn rule_lines(rules: &PolicyRuleLists) -> String {
    let lists = LISTS.into_iter().zip([&rules.allow, &rules.ask, &rules.deny]);
    let lines = lists.flat_map(|(name, list)| list.iter().map(move |rule| (name, rule)));
    lines.map(|(name, rule)| format!("{name} {rule}\n")).collect()
}

/// Tells versions of a file apart.
fn text_version(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = r#"{
  // Mine.
  "permissions": {
    "allow": [
      "Bash(make:*)", // builds
      "Read(/docs/**)"
    ]
  },
  "web": {"key": "s3cret"}
}
"#;

    fn lists(allow: &[&str], deny: &[&str]) -> PolicyRuleLists {
        let values = |rules: &[&str]| rules.iter().map(|rule| json!(rule)).collect();
        PolicyRuleLists { allow: values(allow), ask: Vec::new(), deny: values(deny) }
    }

    #[test]
    fn rules_are_changed_and_nothing_else() {
        let rules = lists(&["Bash(make:*)", "Bash(git log:*)"], &["Read(.env)"]);
        let text = with_rules(SETTINGS, &rules).unwrap();
        assert_eq!(read_rules(&text).unwrap(), rules);
        assert!(text.contains("// Mine.") && text.contains("// builds"), "{text}");
        assert!(text.contains("s3cret"), "{text}");
        assert_eq!(with_rules(&text, &rules).unwrap(), text);
    }

    #[test]
    fn number_of_changed_rules_is_bounded() {
        let rules: Vec<String> =
            (0..=RULE_CHANGES_MAX).map(|number| format!("Bash(make {number})")).collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let error = with_rules("{}", &lists(&rules, &[])).unwrap_err().to_string();
        assert!(error.contains("500 rules"), "{error}");
        let (most, _) = rules.split_at(RULE_CHANGES_MAX);
        let text = with_rules("{}", &lists(most, &[])).unwrap();
        assert_eq!(read_rules(&text).unwrap().allow.len(), RULE_CHANGES_MAX);
    }

    #[test]
    fn diff_has_the_changed_rules_and_nothing_else() {
        // In one line with a secret.
        let before = r#"{"web":{"key":"s3cret"},"permissions":{"allow":["Bash(make:*)","Edit"]}}"#;
        let rules = lists(&["Bash(make:*)"], &["Read(.env)"]);
        let after = with_rules(before, &rules).unwrap();
        let (before, after) = (read_rules(before).unwrap(), read_rules(&after).unwrap());
        let diff = rule_diff("settings.json", &before, &after);
        let changed: Vec<&str> = diff.lines().filter(|line| !line.starts_with('@')).collect();
        assert_eq!(changed, [r#"-allow "Edit""#, r#"+deny "Read(.env)""#], "{diff}");
        assert_eq!(rule_diff("settings.json", &after, &after), "");
    }

    #[test]
    fn version_tells_texts_apart() {
        assert_eq!(text_version(SETTINGS), text_version(SETTINGS));
        assert_ne!(text_version(SETTINGS), text_version("{}"));
    }
}
