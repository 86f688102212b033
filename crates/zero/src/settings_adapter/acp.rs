//! Converts the settings for editors.

use zero_acp::{ClientPreferences, DisconnectPolicy, FolderPrefixPolicy, TerminalPolicy};
use zero_client::OverlapPolicy;
use zero_settings::WorkspaceSettings;
use zero_settings::acp::{EditorExitSetting, EditorTerminalSetting, PromptOverlapSetting};

/// Returns the preferences for editors in the user's own settings.
pub(crate) fn client_preferences(settings: &WorkspaceSettings) -> ClientPreferences {
    let acp = settings.acp();
    ClientPreferences {
        overlap: match acp.overlap {
            PromptOverlapSetting::Queue => OverlapPolicy::Queue,
            PromptOverlapSetting::Replace => OverlapPolicy::Replace,
        },
        on_eof: match acp.on_exit {
            EditorExitSetting::Abort => DisconnectPolicy::Abort,
            EditorExitSetting::Detach => DisconnectPolicy::Detach,
        },
        terminal: match acp.terminal {
            EditorTerminalSetting::Never => TerminalPolicy::Never,
            EditorTerminalSetting::Ask => TerminalPolicy::Ask,
        },
        folder_prefix: match acp.prefix_cwd {
            None | Some(true) => FolderPrefixPolicy::Always,
            Some(false) => FolderPrefixPolicy::Never,
        },
    }
}

#[cfg(test)]
mod tests {
    use zero_settings::{SettingsLayerKind, TrustState};

    use super::super::tests::parse_layers;
    use super::*;

    #[track_caller]
    fn check(layer: SettingsLayerKind, text: &str, expected: ClientPreferences) {
        let settings =
            WorkspaceSettings::merge(&parse_layers(&[(layer, text)]), TrustState::assumed());
        assert_eq!(client_preferences(&settings), expected, "{text}");
    }

    #[test]
    fn acp_settings_count_only_in_user_file() {
        let all = r#"{"acp": {"overlap": "replace", "onExit": "detach", "terminal": "ask",
            "prefixCwd": false}}"#;
        let preferences = ClientPreferences {
            overlap: OverlapPolicy::Replace,
            on_eof: DisconnectPolicy::Detach,
            terminal: TerminalPolicy::Ask,
            folder_prefix: FolderPrefixPolicy::Never,
        };
        check(SettingsLayerKind::User, all, preferences);
        check(SettingsLayerKind::Project, all, ClientPreferences::default());
        check(SettingsLayerKind::User, "{}", ClientPreferences::default());
        let one =
            ClientPreferences { overlap: OverlapPolicy::Replace, ..ClientPreferences::default() };
        check(SettingsLayerKind::User, r#"{"acp": {"overlap": "replace"}}"#, one);
    }
}
