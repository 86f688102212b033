//! Settings for hooks: commands that run before and after calls (`hooks`).

use std::path::Path;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use zero_core::schema_violation::join_pointer;
use zero_core::text_shortening::shorten_end;
use zero_runtime::{HOOK_WORDS_MAX, Hook, HookFailureAction, LaunchAccess, ToolPattern};

use crate::layer_kind::SettingsLayerKind;
use crate::{command_line, program_path};

/// The keys below `hooks`; each is a list that files extend.
pub const LISTS: [&str; 2] = [BEFORE_KEY, AFTER_KEY];
pub(crate) const BEFORE_KEY: &str = "hooks.PreToolUse";
pub(crate) const AFTER_KEY: &str = "hooks.PostToolUse";
/// The time limit of a hook that sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Commands that run before and after calls. They can deny a call, request approval for it, rewrite
/// its input or add a note; they cannot allow anything.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HooksSettings {
    /// Commands that run before a call, in order.
    #[serde(rename = "PreToolUse")]
    #[schemars(length(max = 16))]
    before: Vec<HookSetting>,
    /// Commands that run after a call and get its result.
    #[serde(rename = "PostToolUse")]
    #[schemars(length(max = 16))]
    after: Vec<HookSetting>,
}

/// A command that runs before or after calls.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct HookSetting {
    /// The tools it applies to: a name such as `Bash`, several as `Edit|Write` or in an array,
    /// `server__*`, `mcp__*`, or `*` for all tools, which is the default.
    #[serde(default, rename = "match")]
    #[schemars(schema_with = "names_schema")]
    tools: Option<ToolNamesSetting>,
    /// One program with its arguments, such as `.zero/hooks/no-push`; no shell interprets it. It
    /// gets the call as JSON on stdin.
    command: String,
    /// Time limit in milliseconds; 10000 when absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 60000))]
    timeout_ms: Option<u64>,
    /// `read`: it can change nothing and has no network. `write`: it has the access of commands.
    #[serde(default)]
    access: HookAccessSetting,
    /// What happens to a call if its hook crashes, times out or prints an invalid answer. Only for
    /// hooks before a call.
    #[serde(default)]
    on_failure: Option<HookFailureSetting>,
}

/// Names of tools: one string with `|` between them, or a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ToolNamesSetting {
    One(String),
    Many(Vec<String>),
}

/// The access of a hook.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum HookAccessSetting {
    /// Read-only, without network.
    #[default]
    Read,
    /// The access of commands.
    Write,
}

/// What happens to a call if its hook fails.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum HookFailureSetting {
    /// The call is denied. This is the default.
    Deny,
    /// The user decides.
    Ask,
    /// The call continues without the hook.
    Ignore,
}

impl HookSetting {
    /// The tool names, each with its JSON pointer below the hook.
    fn tool_names(&self) -> Vec<(String, &str)> {
        match &self.tools {
            None => vec![("match".to_owned(), "*")],
            Some(ToolNamesSetting::One(names)) => {
                names.split('|').map(|name| ("match".to_owned(), name)).collect()
            }
            Some(ToolNamesSetting::Many(names)) => {
                let pointer = |index: usize| join_pointer("match", &index.to_string());
                names.iter().enumerate().map(|(at, name)| (pointer(at), name.as_str())).collect()
            }
        }
    }

    /// Converts the setting, except for its source and the files it uses.
    fn to_hook(&self) -> Result<Hook, String> {
        let names = self.tool_names();
        let tools = names.iter().map(|(_, name)| ToolPattern::parse(name));
        Ok(Hook {
            tools: tools.collect::<Result<_, _>>().map_err(|error| error.to_string())?,
            words: command_line::split_words(&self.command)?,
            timeout: self.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis),
            access: match self.access {
                HookAccessSetting::Read => LaunchAccess::ReadOnly,
                HookAccessSetting::Write => LaunchAccess::AsCommands,
            },
            on_failure: match self.on_failure {
                None | Some(HookFailureSetting::Deny) => HookFailureAction::Deny,
                Some(HookFailureSetting::Ask) => HookFailureAction::Ask,
                Some(HookFailureSetting::Ignore) => HookFailureAction::Ignore,
            },
            files: Vec::new(),
            written_at: String::new(),
        })
    }
}

/// A hook of a settings file, parsed once when the file is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedHook(Hook);

impl ParsedHook {
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        let setting = HookSetting::deserialize(value).map_err(|error| error.to_string())?;
        setting.to_hook().map(Self)
    }

    /// The command line's arguments, with the program's path resolved.
    pub(crate) fn command_words(
        &self,
        layer: SettingsLayerKind,
        home: Option<&Path>,
    ) -> Vec<String> {
        let mut words = self.0.words.clone();
        if let Some(program) = words.first_mut() {
            *program = program_path::resolve_command(std::mem::take(program), layer, home);
        }
        words
    }

    /// The hook, the program's path settled.
    pub(crate) fn to_hook(&self, layer: SettingsLayerKind, home: Option<&Path>) -> Hook {
        Hook { words: self.command_words(layer, home), ..self.0.clone() }
    }
}

/// Hooks that match the schema but are invalid, by JSON pointer.
pub(crate) fn find_wrong_hooks(file: &Value) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for key in LISTS {
        let list = format!("/{}", key.replace('.', "/"));
        let hooks = file.pointer(&list).and_then(Value::as_array).into_iter().flatten();
        for (index, value) in hooks.enumerate() {
            let Ok(hook) = HookSetting::deserialize(value) else { continue };
            let pointer = join_pointer(&list, &index.to_string());
            let trouble = match command_line::split_words(&hook.command) {
                Ok(words) if words.len() > HOOK_WORDS_MAX => {
                    Some(format!("has more than {HOOK_WORDS_MAX} words; use a script"))
                }
                Ok(_) => None,
                Err(what) => Some(what.to_string()),
            };
            if let Some(what) = trouble {
                let shown = shorten_end(&hook.command, 80);
                wrong.push((join_pointer(&pointer, "command"), format!("`{shown}` {what}")));
            }
            let names = hook.tool_names();
            if names.is_empty() {
                let what = "`match` is empty; name a tool, or remove it to match all".to_owned();
                wrong.push((join_pointer(&pointer, "match"), what));
            }
            for (relative, name) in names {
                if let Err(what) = ToolPattern::parse(name) {
                    let shown = zero_core::sanitize::to_quoted_line(name);
                    let what = format!("{shown} is not a valid tool pattern: {what}");
                    wrong.push((format!("{pointer}/{relative}"), what));
                }
            }
            if key == AFTER_KEY && hook.on_failure.is_some() {
                let what = "`onFailure` applies only to hooks before a call; remove it";
                wrong.push((join_pointer(&pointer, "onFailure"), what.to_owned()));
            }
        }
    }
    wrong
}

fn names_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"anyOf": [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 64},
    ]})
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use zero_runtime::HookSettings;

    use super::*;
    use crate::WorkspaceSettings;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;

    fn load_hooks(files: &[(SettingsLayerKind, &str)], trust_state: TrustState) -> HookSettings {
        WorkspaceSettings::merge(&parse_layers(files), trust_state)
            .hooks(Some(Path::new("/home/me")))
    }

    fn command_lines(hooks: &[Hook]) -> Vec<String> {
        hooks.iter().map(|hook| format!("{} {}", hook.written_at, hook.command())).collect()
    }

    #[test]
    fn hooks_of_trusted_files_run_in_order() {
        let user =
            "{\"hooks\": {\"PreToolUse\": [{\"command\": \"a 'b c'\"},\n{\"command\": \"d\"}]}}";
        let project = r#"{"hooks": {"PreToolUse": [{"command": "./evil"}], "PostToolUse": [{"command": "./fmt"}]}}"#;
        let files = [(SettingsLayerKind::User, user), (SettingsLayerKind::Project, project)];
        let trusted = load_hooks(&files, TrustState::assumed());
        assert_eq!(
            command_lines(&trusted.before),
            ["project:1 ./evil", "user:1 a b c", "user:2 d"]
        );
        assert_eq!(trusted.before[1].words, ["a", "b c"]);
        assert_eq!(command_lines(&trusted.after), ["project:1 ./fmt"]);
        let untrusted = load_hooks(&files, TrustState::Never);
        assert_eq!(command_lines(&untrusted.before), ["user:1 a b c", "user:2 d"]);
        assert!(untrusted.after.is_empty());
    }

    #[test]
    fn relative_hook_path_in_user_settings_is_not_workspace_path() {
        let text = r#"{"hooks": {"PreToolUse": [{"command": ".zero/hooks/no"}, {"command": "/bin/no -x"}]}}"#;
        let found = load_hooks(&[(SettingsLayerKind::User, text)], TrustState::assumed()).before;
        let expected = ["user:1 /home/me/.zero/hooks/no", "user:1 /bin/no -x"];
        assert_eq!(command_lines(&found), expected);
        let trusted = TrustState::assumed();
        let found = load_hooks(&[(SettingsLayerKind::Project, text)], trusted).before;
        assert_eq!(command_lines(&found), ["project:1 .zero/hooks/no", "project:1 /bin/no -x"]);
    }

    #[test]
    fn omitted_hook_fields_use_strict_defaults() {
        let text = r#"{"hooks": {"PreToolUse": [{"command": "a"}, {"command": "b", "match": "Edit|write_file",
            "timeoutMs": 60000, "access": "write", "onFailure": "ignore"}, {"command": "c", "match": ["mcp__*", "LS"]}]}}"#;
        let found = load_hooks(&[(SettingsLayerKind::User, text)], TrustState::assumed()).before;
        let [plain, full, listed] = &found[..] else { panic!("{found:?}") };
        assert_eq!((plain.timeout, plain.access), (DEFAULT_TIMEOUT, LaunchAccess::ReadOnly));
        assert_eq!((plain.on_failure, plain.is_for("Anything")), (HookFailureAction::Deny, true));
        assert_eq!((full.timeout.as_secs(), full.access), (60, LaunchAccess::AsCommands));
        assert_eq!(full.on_failure, HookFailureAction::Ignore);
        assert!(full.is_for("Edit") && full.is_for("Write") && !full.is_for("Read"));
        assert!(listed.is_for("a__b") && listed.is_for("LS") && !listed.is_for("Edit"));
    }

    #[test]
    fn meaningless_hooks_are_reported() {
        #[track_caller]
        fn check(key: &str, hook: Value, expected: &[(&str, &str)]) {
            let found = find_wrong_hooks(&json!({ "hooks": {key: [{"command": "fine"}, hook]} }));
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for ((pointer, what), (at, part)) in found.iter().zip(expected) {
                assert_eq!(*pointer, format!("/hooks/{key}/1/{at}"));
                assert!(what.contains(part), "{what}");
            }
        }
        check("PreToolUse", json!({"command": "a", "onFailure": "ask", "match": "*"}), &[]);
        check("PreToolUse", json!({"command": "a | b"}), &[("command", "not a single command")]);
        check("PreToolUse", json!({"command": ""}), &[("command", "is empty")]);
        check("PreToolUse", json!({"command": "a ".repeat(256)}), &[]);
        let long = json!({"command": "a ".repeat(257)});
        check("PreToolUse", long, &[("command", "more than 256 words")]);
        check("PreToolUse", json!({"command": "a", "match": "Bsh|Edit"}), &[("match", "Bash")]);
        check("PreToolUse", json!({"command": "a", "match": ["LS", ""]}), &[("match/1", "empty")]);
        check(
            "PreToolUse",
            json!({"command": "a", "match": "Bash(ls)"}),
            &[("match", "the input")],
        );
        check("PreToolUse", json!({"command": "a", "match": []}), &[("match", "is empty")]);
        check(
            "PostToolUse",
            json!({"command": "a", "onFailure": "ignore"}),
            &[("onFailure", "only to hooks before a call")],
        );
    }
}
