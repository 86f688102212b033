//! What the web console shows of this machine, made by the same code as `zero audit`, `zero policy`
//! and `zero doctor`.

use std::collections::HashSet;
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
        let before = file.read_text()?;
        let text = with_rules(&before, rules)?;
        file.check_draft(&before, &text)?;
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
        file.check_draft(&before, &text)?;
        let written = draft.write && text != before;
        if written {
            file.replace_text(&before, &text)?;
        }
        let diff = settings_diff(&file.shown, &before, &text)?;
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
        describe(audit_verify::verify_newest(&self.app).and_then(convert))
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

/// The change of the file, line by line. Its lines may hold secrets, also beside rules: comments, and
/// texts that are neither rules nor names of settings, are hidden in the same way on both sides.
fn settings_diff(file: &str, before: &str, after: &str) -> anyhow::Result<String> {
    if before == after {
        return Ok(String::new());
    }
    let mut rules = HashSet::new();
    for lists in [read_rules(before)?, read_rules(after)?] {
        for rule in [lists.allow, lists.ask, lists.deny].iter().flatten() {
            collect_texts(rule, &mut rules);
        }
    }
    let shown = |text: &str| hide_texts(text, &rules);
    Ok(file_diff(file, Some(&shown(before)), Some(&shown(after))).unified)
}

/// All texts in a value, with the names of fields.
fn collect_texts(value: &Value, texts: &mut HashSet<String>) {
    match value {
        Value::String(text) => drop(texts.insert(text.clone())),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(fields) => {
            for (name, value) in fields {
                texts.insert(name.clone());
                collect_texts(value, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces what comments say, and texts that are not to be shown, by an ellipsis. Lines stay lines.
fn hide_texts(text: &str, shown: &HashSet<String>) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['"', '/']) {
        let (before, from) = rest.split_at(start);
        hidden.push_str(before);
        let length = match from {
            _ if from.starts_with("//") => {
                hidden.push_str("// …");
                from.find('\n').unwrap_or(from.len())
            }
            _ if from.starts_with("/*") => {
                let end = from.find("*/").map_or(from.len(), |end| end + 2);
                let breaks = from[..end].matches('\n').count();
                hidden.push_str(&format!("/* …{} */", "\n".repeat(breaks)));
                end
            }
            _ if from.starts_with('"') => {
                let end = string_end(from);
                let (literal, after) = from.split_at(end);
                let is_name = after.trim_start().starts_with(':');
                let is_shown = serde_json::from_str::<String>(literal)
                    .is_ok_and(|value| is_name && is_plain_name(&value) || shown.contains(&value));
                hidden.push_str(if is_shown { literal } else { "\"…\"" });
                end
            }
            _ => {
                hidden.push('/');
                1
            }
        };
        rest = from.get(length..).unwrap_or_default();
    }
    hidden.push_str(rest);
    hidden
}

/// Whether this may be the name of a setting, of a model or of a server.
fn is_plain_name(name: &str) -> bool {
    const NAME_CHARS_MAX: usize = 64;
    let is_plain = |character: char| character.is_alphanumeric() || "-_.".contains(character);
    name.chars().count() <= NAME_CHARS_MAX && name.chars().all(is_plain)
}

/// Where a string literal at the beginning of a text ends.
fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
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
    fn diff_is_that_of_the_file_without_its_secrets() {
        let rules = lists(&["Bash(make:*)", "Bash(git log:*)"], &["Read(.env)"]);
        let after = with_rules(SETTINGS, &rules).unwrap();
        let diff = settings_diff("settings.json", SETTINGS, &after).unwrap();
        // Applied to what is shown of the old text, it gives what is shown of the new one.
        let lines = |mark: char| {
            let kept = diff.lines().filter(|line| line.starts_with([' ', mark]));
            kept.map(|line| line.get(1..).unwrap()).collect::<Vec<_>>().join("\n")
        };
        let texts = ["Bash(make:*)", "Bash(git log:*)", "Read(.env)", "Read(/docs/**)"];
        let shown = texts.map(str::to_owned).into();
        assert!(hide_texts(SETTINGS, &shown).contains(lines('-').trim_end()), "{diff}");
        assert!(hide_texts(&after, &shown).contains(lines('+').trim_end()), "{diff}");
        assert!(
            diff.contains("-      \"Read(/docs/**)\"") && diff.contains("Read(.env)"),
            "{diff}"
        );
        assert!(!diff.contains("s3cret") && !diff.contains("Mine"), "{diff}");
        assert_eq!(settings_diff("settings.json", &after, &after).unwrap(), "");
    }

    #[test]
    fn texts_beside_rules_are_hidden_in_any_layout() {
        // In one line with secrets, also in comments and names.
        let before = r#"{"web":{"key":"s3\"cret"},/* s3cret
            s3cret */"env":{"s3cret key":1},"permissions":{"allow":["Edit","Read"]}} // s3cret"#;
        let after = with_rules(before, &lists(&["Edit"], &["Read(//s3t/*)"])).unwrap();
        let diff = settings_diff("settings.json", before, &after).unwrap();
        assert!(!diff.contains("cret"), "{diff}");
        for shown in [r#""web":{"key":"…"}"#, r#""Edit""#, r#"Read(//s3t/*)"#, r#""…":1"#] {
            assert!(diff.contains(shown), "{shown}: {diff}");
        }
    }

    #[test]
    fn version_tells_texts_apart() {
        assert_eq!(text_version(SETTINGS), text_version(SETTINGS));
        assert_ne!(text_version(SETTINGS), text_version("{}"));
    }
}
