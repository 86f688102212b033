//! Settings for language servers (`lspServers`): additional ones, and changes to the built-in ones.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Value;
use zero_core::CommandLimitChange;
use zero_core::host_limits::InvalidLimitError;
use zero_core::schema_violation::join_pointer;
use zero_lsp::server_definition::{self, NAME_LEN_MAX};
use zero_lsp::{FileLanguage, LanguageServerDefinition};

use crate::layer_kind::SettingsLayerKind;
use crate::limit_setting::{LimitSetting, command_limits_schema, parse_command_limits};
use crate::program_path;

/// One language server. Under the name of a built-in server, the fields override its defaults;
/// under another name, `command` and `extensions` are required.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct LspServerSetting {
    /// The program to start: a name or a path. A relative path starts at the workspace in a
    /// project's settings and at the home folder in your own. It must communicate over stdin and
    /// stdout.
    command: Option<String>,
    /// Its arguments, such as `--stdio`.
    args: Vec<String>,
    /// Environment variables, in addition to the usual ones.
    env: BTreeMap<String, String>,
    /// The files it handles: file name suffixes such as `.py`, each with the server's id of the
    /// language.
    extensions: BTreeMap<String, String>,
    /// The server's own initialization options.
    #[schemars(schema_with = "any_schema")]
    initialization_options: Option<Value>,
    /// The server's own settings by section, such as `{"python": {"analysis": {"typeCheckingMode":
    /// "strict"}}}`.
    #[schemars(schema_with = "any_schema")]
    settings: Option<Value>,
    /// Resource limits that differ from the defaults, such as `{"command-memory": "4GB"}`.
    #[schemars(schema_with = "command_limits_schema")]
    limits: BTreeMap<String, LimitSetting>,
    /// Whether the server is disabled.
    disabled: bool,
}

/// A language server of a settings file, parsed once.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedLspServer {
    setting: LspServerSetting,
    limits: CommandLimitChange,
}

impl ParsedLspServer {
    pub(crate) fn parse(value: &Value) -> Result<Self, String> {
        let setting = LspServerSetting::deserialize(value).map_err(|error| error.to_string())?;
        let limits =
            parse_command_limits(&setting.limits).map_err(|(_, error)| error.to_string())?;
        Ok(Self { setting, limits })
    }
}

/// The language servers in settings.
#[derive(Debug, Default)]
pub struct ConfiguredLspServers {
    /// Servers that may be started, including built-in ones, in order of preference.
    pub definitions: Vec<LanguageServerDefinition>,
    /// The names of disabled servers, each with the location of that setting.
    pub turned_off: Vec<(String, String)>,
}

impl ConfiguredLspServers {
    /// Merges the servers of the settings, each with its name, layer and location, with the built-in
    /// ones. `home` is the user's home folder.
    pub(crate) fn new<'a>(
        servers: impl Iterator<Item = (&'a str, &'a ParsedLspServer, SettingsLayerKind, String)>,
        home: Option<&Path>,
    ) -> Self {
        let known = server_definition::builtin_servers();
        let (mut own, mut turned_off) = (Vec::new(), Vec::new());
        for (name, server, layer, location) in servers {
            let ParsedLspServer { mut setting, limits } = server.clone();
            setting.command =
                setting.command.map(|command| program_path::resolve_command(command, layer, home));
            if setting.disabled {
                turned_off.push((name.to_owned(), location));
                continue;
            }
            let known = known.iter().find(|known| known.name == name).cloned();
            let definition = setting.apply_to(name, known.unwrap_or_default(), location);
            own.push(LanguageServerDefinition { limits, ..definition });
        }
        let off: Vec<String> = turned_off.iter().map(|(name, _)| name.clone()).collect();
        Self { definitions: server_definition::merge_with_builtin(own, &off), turned_off }
    }
}

impl LspServerSetting {
    /// The built-in definition with the fields of this setting, except for limits.
    fn apply_to(
        self,
        name: &str,
        known: LanguageServerDefinition,
        written_at: String,
    ) -> LanguageServerDefinition {
        let command = self.command.map(|command| std::iter::once(command).chain(self.args));
        let languages = self.extensions.into_iter().map(|(ending, id)| FileLanguage {
            ending: ending.strip_prefix('.').unwrap_or(&ending).to_owned(),
            id,
        });
        let languages: Vec<FileLanguage> = languages.collect();
        LanguageServerDefinition {
            name: name.to_owned(),
            commands: command.map_or(known.commands, |words| vec![words.collect()]),
            languages: if languages.is_empty() { known.languages } else { languages },
            variables: self.env.into_iter().collect(),
            initialization_options: self
                .initialization_options
                .unwrap_or(known.initialization_options),
            settings: self.settings.unwrap_or(known.settings),
            limits: CommandLimitChange::default(),
            how_to_get: known.how_to_get,
            written_at: Some(written_at),
        }
    }
}

/// Servers that match the schema but are invalid, by JSON pointer.
pub(crate) fn find_wrong_servers(file: &Value) -> Vec<(String, String)> {
    let pointer = "/lspServers";
    let servers = file.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
    let mut wrong = Vec::new();
    for (name, server) in servers {
        let pointer = join_pointer(pointer, name);
        let Ok(setting) = LspServerSetting::deserialize(server) else { continue };
        let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_fine) {
            let what = format!(
                "`{}` is not a valid name of a language server: use 1 to {NAME_LEN_MAX} letters, digits, `-` or `_`",
                zero_core::sanitize::to_line(name)
            );
            wrong.push((pointer.clone(), what));
        }
        match parse_command_limits(&setting.limits) {
            // The schema check reports these.
            Ok(_) | Err((_, InvalidLimitError::UnknownName { .. })) => {}
            Err((limit, error)) => {
                let limit = join_pointer(&join_pointer(&pointer, "limits"), limit);
                wrong.push((limit, error.to_string()));
            }
        }
        if setting.command.is_none() && !setting.args.is_empty() {
            let what = "`args` needs a `command`; add it".to_owned();
            wrong.push((join_pointer(&pointer, "args"), what));
        }
        let is_known = server_definition::builtin_servers().iter().any(|known| known.name == *name);
        if is_known || setting.disabled {
            continue;
        }
        for (field, is_missing) in [
            ("command", setting.command.as_ref().is_none_or(String::is_empty)),
            ("extensions", setting.extensions.is_empty()),
        ] {
            if is_missing {
                let names: Vec<String> = server_definition::builtin_servers()
                    .into_iter()
                    .map(|known| known.name)
                    .collect();
                let what = format!(
                    "`{name}` is not a built-in language server, so it needs `{field}`; built-in servers: {}",
                    names.join(", ")
                );
                wrong.push((pointer.clone(), what));
            }
        }
    }
    wrong
}

fn any_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({})
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::WorkspaceSettings;
    use crate::program_path::resolve_command;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;

    fn load_servers(
        kind: SettingsLayerKind,
        text: &str,
        trust_state: TrustState,
    ) -> ConfiguredLspServers {
        WorkspaceSettings::merge(&parse_layers(&[(kind, text)]), trust_state)
            .lsp_servers(Some(Path::new("/me")))
    }

    #[test]
    fn lsp_server_can_be_added_changed_or_disabled() {
        let text = r#"{"lspServers": {
            "clangd": {"args": [], "limits": {"command-memory": "4GB"}},
            "gopls": {"disabled": true},
            "mine": {"command": "./my-server", "args": ["--stdio"], "extensions": {".my": "my"},
                "env": {"A": "b"}, "settings": {"my": 1}}}}"#;
        let servers = load_servers(SettingsLayerKind::User, text, TrustState::assumed());
        let find = |name: &str| servers.definitions.iter().find(|server| server.name == name);
        let mine = find("mine").unwrap();
        assert_eq!(mine.commands, [["/me/my-server", "--stdio"]]);
        assert_eq!(mine.language_id(std::path::Path::new("x/a.my")), Some("my"));
        assert_eq!(mine.settings, json!({"my": 1}));
        let clangd = find("clangd").unwrap();
        assert!(
            clangd.commands.len() > 1 && !clangd.limits.is_empty() && clangd.written_at.is_some()
        );
        assert!(find("gopls").is_none() && find("rust-analyzer").is_some());
        assert_eq!(servers.turned_off.len(), 1);
    }

    #[test]
    fn untrusted_folder_adds_no_lsp_server() {
        let text = r#"{"lspServers": {"mine": {"command": "./evil", "extensions": {"py": "python"}},
            "clangd": {"command": "./evil"}}}"#;
        for (trust_state, expected) in [(TrustState::Never, false), (TrustState::assumed(), true)] {
            let servers = load_servers(SettingsLayerKind::Project, text, trust_state);
            let evil = |server: &LanguageServerDefinition| {
                server
                    .commands
                    .iter()
                    .any(|words| words.first().is_some_and(|word| word == "./evil"))
            };
            assert_eq!(servers.definitions.iter().filter(|s| evil(s)).count() == 2, expected);
            assert_eq!(servers.definitions.iter().any(evil), expected);
        }
    }

    #[test]
    fn program_path_resolves_relative_to_its_layer() {
        #[track_caller]
        fn check(command: &str, [of_project, of_user]: [&str; 2]) {
            for (layer, expected) in [
                (SettingsLayerKind::Project, of_project),
                (SettingsLayerKind::Local, of_project),
                (SettingsLayerKind::User, of_user),
                (SettingsLayerKind::Flag, of_user),
            ] {
                let found = resolve_command(command.to_owned(), layer, Some(Path::new("/me")));
                assert_eq!(found, expected, "{layer:?}");
            }
        }
        check("clangd", ["clangd"; 2]);
        check("/opt/clangd", ["/opt/clangd"; 2]);
        check("~/bin/x", ["/me/bin/x"; 2]);
        check("./node_modules/.bin/x", ["./node_modules/.bin/x", "/me/node_modules/.bin/x"]);
        check("bin/../x", ["bin/../x", "/me/x"]);
        assert_eq!(resolve_command("bin/x".to_owned(), SettingsLayerKind::User, None), "/bin/x");
    }

    #[test]
    fn meaningless_lsp_servers_are_reported() {
        #[track_caller]
        fn check(server: Value, expected: &[(&str, &str)]) {
            let found = find_wrong_servers(&json!({ "lspServers": server }));
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for ((pointer, what), (at, part)) in found.iter().zip(expected) {
                assert_eq!(pointer, at);
                assert!(what.contains(part), "{what}");
            }
        }
        check(json!({"clangd": {}, "gopls": {"disabled": true}, "x": {"disabled": true}}), &[]);
        check(
            json!({"mine": {}}),
            &[("/lspServers/mine", "needs `command`"), ("/lspServers/mine", "needs `extensions`")],
        );
        check(json!({"clangd": {"args": ["x"]}}), &[("/lspServers/clangd/args", "`command`")]);
        check(json!({"a b": {"disabled": true}}), &[("/lspServers/a b", "is not a valid name")]);
        check(
            json!({"clangd": {"limits": {"command-memory": "1"}}}),
            &[("/lspServers/clangd/limits/command-memory", "command-memory")],
        );
    }
}
