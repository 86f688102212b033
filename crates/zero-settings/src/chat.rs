//! Settings for the chat in the terminal (`chat`).

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `chat`.
pub const KEYS: [&str; 4] = ["chat.theme", "chat.fullscreen", "chat.vim", STATUS_LINE_KEY];
/// The key of the program.
pub const STATUS_LINE_KEY: &str = "chat.statusLine";

/// How `zero chat` looks. Only your own settings apply here, never a project's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ChatSettings {
    /// Colors: `auto` when absent.
    pub theme: Option<ChatTheme>,
    /// Whether the chat fills the window, as with `--fullscreen`; `false` when absent.
    pub fullscreen: Option<bool>,
    /// Whether the input has the keys of vi, as with `--vim`; `false` when absent.
    pub vim: Option<bool>,
    /// Program of yours and its arguments that makes the status line: it gets JSON on stdin and prints
    /// one line. It runs outside the sandbox and must not be in a workspace.
    pub status_line: Option<Vec<String>>,
}

/// For which background colors are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChatTheme {
    /// Colors for the background that the terminal reports; else its own palette.
    Auto,
    /// A light background.
    Light,
    /// A dark background.
    Dark,
    /// No colors.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayerKind, WorkspaceSettings};

    #[test]
    fn project_cannot_name_a_program() {
        const TEXT: &str = r#"{"chat": {"theme": "light", "fullscreen": true, "vim": true,
            "statusLine": ["my-status", "--short"]}}"#;
        let read = |kind| {
            let layers = parse_layers(&[(kind, TEXT)]);
            WorkspaceSettings::merge(&layers, TrustState::assumed()).chat()
        };
        let expected = ChatSettings {
            theme: Some(ChatTheme::Light),
            fullscreen: Some(true),
            vim: Some(true),
            status_line: Some(vec!["my-status".to_owned(), "--short".to_owned()]),
        };
        assert_eq!(read(SettingsLayerKind::User), expected);
        assert_eq!(read(SettingsLayerKind::Project), ChatSettings::default());
    }
}
