//! Settings for `zero update` (`update`).

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `update`.
pub const KEYS: [&str; 3] = [ENABLED_KEY, "update.address", "update.publicKey"];
/// The key that turns updates off.
pub const ENABLED_KEY: &str = "update.enabled";

/// Where `zero update` finds releases. zero never looks for them by itself. Only your own settings apply here, never a
/// project's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct UpdateSettings {
    /// Whether `zero update` may look for releases and replace zero; true when absent.
    pub enabled: Option<bool>,
    /// Address of the folder with the files of the newest release; the one that zero was installed from when absent.
    pub address: Option<String>,
    /// Public key of minisign that releases must be signed with; the one of the installed release when absent.
    pub public_key: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayerKind, WorkspaceSettings};

    #[test]
    fn update_is_read_from_user_file_only() {
        const TEXT: &str = r#"{"update": {"enabled": false, "address": "https://a.example/", "publicKey": "RWQ"}}"#;
        let read = |kind| {
            let layers = parse_layers(&[(kind, TEXT)]);
            WorkspaceSettings::merge(&layers, TrustState::assumed()).update()
        };
        let expected = UpdateSettings {
            enabled: Some(false),
            address: Some("https://a.example/".to_owned()),
            public_key: Some("RWQ".to_owned()),
        };
        assert_eq!(read(SettingsLayerKind::User), expected);
        assert_eq!(read(SettingsLayerKind::Project), UpdateSettings::default());
    }
}
