//! Settings for what `zero undo` can take back (`undo`).

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use zero_core::ByteSize;
use zero_runtime::UndoSettings;

/// Whether the changes of commands are recorded unless a setting says otherwise.
const COMMANDS_DEFAULT: bool = true;

/// The keys below `undo`.
pub const KEYS: [&str; 3] = ["undo.commands", "undo.days", "undo.bytes"];

/// What `zero undo` can take back. Only your own settings apply here, never a project's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct UndoSection {
    /// Whether zero records what commands change, so that it can be undone; `true` when absent.
    pub commands: Option<bool>,
    /// How many days the changes of a command are kept; 30 when absent.
    #[schemars(range(min = 1))]
    pub days: Option<u32>,
    /// Bytes on disk for the changes of commands in one workspace, above which the oldest are
    /// removed; 2,000,000,000 when absent.
    #[schemars(range(min = 1))]
    pub bytes: Option<u64>,
}

impl UndoSection {
    /// The settings with the defaults for what is absent.
    pub(crate) fn to_settings(self) -> UndoSettings {
        let mut undo = UndoSettings {
            commands: self.commands.unwrap_or(COMMANDS_DEFAULT),
            ..UndoSettings::default()
        };
        if let Some(bytes) = self.bytes {
            undo.limits.bytes_max = ByteSize::bytes(bytes);
        }
        if let Some(days) = self.days {
            undo.limits.age_max = Some(Duration::from_secs(u64::from(days) * 24 * 60 * 60));
        }
        undo
    }
}

#[cfg(test)]
mod tests {
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayerKind, WorkspaceSettings};

    #[test]
    fn project_cannot_change_what_undo_keeps() {
        const TEXT: &str = r#"{"undo": {"commands": false, "days": 3, "bytes": 5000}}"#;
        let undo = |kind| {
            let layers = parse_layers(&[(kind, TEXT)]);
            WorkspaceSettings::merge(&layers, TrustState::assumed()).undo()
        };
        let own = undo(SettingsLayerKind::User);
        assert!(!own.commands);
        assert_eq!(
            (own.limits.bytes_max.get(), own.limits.age_max.unwrap().as_secs()),
            (5_000, 259_200)
        );
        assert!(undo(SettingsLayerKind::Project).commands);
    }
}
