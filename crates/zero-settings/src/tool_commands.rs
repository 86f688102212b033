//! Settings for tools that a command provides (`tools`): one command lists them, another calls
//! them.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::command_line;
use zero_core::text_shortening::shorten_end;

/// Tools that your own command provides.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ToolsSettings {
    /// A command that prints the tools as a JSON array of function declarations, such as `./tools
    /// list`: one program with its arguments; no shell interprets it.
    tool_discovery_command: Option<String>,
    /// A command that makes a call: it gets the tool's name as an additional argument and the input
    /// as JSON on stdin, and prints the result.
    tool_call_command: Option<String>,
}

/// The commands that provide tools, and the location of their setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCommands {
    /// The command line that lists the tools.
    pub discovery: Vec<String>,
    /// The command line that makes a call, without the tool's name; absent if only `discovery` is
    /// set.
    pub call: Option<Vec<String>>,
    /// Whether the discovery command belongs to this project, which is trusted. It may then run
    /// before its tools are requested.
    pub is_of_project: bool,
    /// File and line of the discovery command.
    pub written_at: String,
}

/// The keys that hold a command line.
pub const COMMAND_LINES: [&str; 3] =
    ["mcp.mcpServerCommand", "tools.toolDiscoveryCommand", "tools.toolCallCommand"];

/// Invalid command lines, by JSON pointer.
pub(crate) fn find_wrong_command_lines(value: &Value) -> Vec<(String, String)> {
    let pointers = COMMAND_LINES.map(|key| format!("/{}", key.replace('.', "/")));
    let wrong = pointers.into_iter().filter_map(|pointer| {
        let line = value.pointer(&pointer)?.as_str()?;
        let what = command_line::split_words(line).err()?;
        let shown = shorten_end(line, 80);
        Some((pointer, format!("`{shown}` {what}")))
    });
    wrong.collect()
}

/// Whether a program can be started from a folder: an existing path, or a name in `PATH`.
pub fn is_program_found(program: &str, folder: &Path, search_path: &[std::path::PathBuf]) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let runs = |path: &Path| {
        std::fs::metadata(path)
            .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return runs(&folder.join(program));
    }
    search_path.iter().any(|folder| runs(&folder.join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayerKind, WorkspaceSettings};

    #[track_caller]
    fn check(text: &str, trust_state: TrustState, expected: Option<(&[&str], Option<&[&str]>)>) {
        let settings = WorkspaceSettings::merge(
            &parse_layers(&[(SettingsLayerKind::Project, text)]),
            trust_state,
        );
        let found = settings.tool_commands();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let expected = expected.map(|(discovery, call)| ToolCommands {
            discovery: owned(discovery),
            call: call.map(owned),
            is_of_project: true,
            written_at: "project:1".to_owned(),
        });
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn tool_commands_require_trusted_folder() {
        let both =
            r#"{"tools": {"toolDiscoveryCommand": "./t 'a b'", "toolCallCommand": "./t call"}}"#;
        let trusted = || TrustState::assumed();
        check(both, trusted(), Some((&["./t", "a b"], Some(&["./t", "call"]))));
        check(both, TrustState::Never, None);
        let only = r#"{"tools": {"toolDiscoveryCommand": "t"}}"#;
        check(only, trusted(), Some((&["t"], None)));
        check(r#"{"tools": {"toolCallCommand": "t"}}"#, trusted(), None);
        check("{}", trusted(), None);
    }

    #[test]
    fn program_is_found_by_path_or_name() {
        let path = [std::path::PathBuf::from("/bin")];
        for (program, expected) in
            [("sh", true), ("/bin/sh", true), ("./sh", true), ("bin/sh", false), ("no-such", false)]
        {
            assert_eq!(is_program_found(program, Path::new("/bin"), &path), expected, "{program}");
        }
    }
}
