//! How editors are served, as settings say it.

use schemars::JsonSchema;
use serde::Deserialize;
use zero_acp::{ClientPreferences, DisconnectPolicy};
use zero_client::OverlapPolicy;

use super::WorkspaceSettings;
use super::parsed_setting::ParsedSetting;

/// The keys below `acp`.
pub(crate) const KEYS: [&str; 2] = ["acp.overlap", "acp.onExit"];

/// How editors are served. Only your own settings count here, never a project's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub(crate) struct AcpSettings {
    /// What a second prompt does while one is at work in its session; `queue` when absent.
    overlap: PromptOverlapSetting,
    /// What becomes of what agents work on when the editor goes away; `abort` when absent.
    on_exit: EditorExitSetting,
}

/// What a second prompt does while one is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PromptOverlapSetting {
    /// It waits for its turn.
    #[default]
    Queue,
    /// The one at work is stopped.
    Replace,
}

/// What becomes of what agents work on when the editor goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum EditorExitSetting {
    /// It is stopped.
    #[default]
    Abort,
    /// A gateway elsewhere goes on with it.
    Detach,
}

impl WorkspaceSettings {
    /// What the person's own settings say of editors.
    pub(crate) fn client_preferences(&self) -> ClientPreferences {
        let fields = self.active_entries().filter_map(|entry| match &entry.parsed {
            ParsedSetting::Acp(field) => Some(*field),
            _ => None,
        });
        let said = fields.fold(AcpSettings::default(), AcpSettings::with_field);
        ClientPreferences {
            overlap: match said.overlap {
                PromptOverlapSetting::Queue => OverlapPolicy::Queue,
                PromptOverlapSetting::Replace => OverlapPolicy::Replace,
            },
            on_eof: match said.on_exit {
                EditorExitSetting::Abort => DisconnectPolicy::Abort,
                EditorExitSetting::Detach => DisconnectPolicy::Detach,
            },
        }
    }
}

impl AcpSettings {
    /// The same with the one field that another names.
    fn with_field(self, field: Self) -> Self {
        let Self { overlap, on_exit } = field;
        let usual = Self::default();
        Self {
            overlap: if overlap == usual.overlap { self.overlap } else { overlap },
            on_exit: if on_exit == usual.on_exit { self.on_exit } else { on_exit },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SettingsLayerKind;
    use super::super::tests::parse_layers;
    use super::*;
    use crate::trust::TrustState;

    #[track_caller]
    fn check(layer: SettingsLayerKind, text: &str, expected: ClientPreferences) {
        let settings =
            WorkspaceSettings::merge(&parse_layers(&[(layer, text)]), TrustState::assumed());
        assert_eq!(settings.client_preferences(), expected, "{text}");
    }

    #[test]
    fn acp_settings_count_only_in_user_file() {
        let both = r#"{"acp": {"overlap": "replace", "onExit": "detach"}}"#;
        let said =
            ClientPreferences { overlap: OverlapPolicy::Replace, on_eof: DisconnectPolicy::Detach };
        check(SettingsLayerKind::User, both, said);
        check(SettingsLayerKind::Project, both, ClientPreferences::default());
        check(SettingsLayerKind::User, "{}", ClientPreferences::default());
        let one =
            ClientPreferences { overlap: OverlapPolicy::Replace, ..ClientPreferences::default() };
        check(SettingsLayerKind::User, r#"{"acp": {"overlap": "replace"}}"#, one);
    }
}
