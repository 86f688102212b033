//! Settings for sub-agents (`subagents`).

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `subagents`.
pub const KEYS: [&str; 2] = ["subagents.maxParallel", "subagents.maxDepth"];

/// How many sub-agents may work for a run. Only your own settings apply here, never a project's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct SubagentSettings {
    /// How many sub-agents of a run work at the same time; 8 when absent. Others wait.
    #[schemars(range(min = 1, max = 64))]
    pub max_parallel: Option<usize>,
    /// How deep sub-agents may start others; 1 when absent: they start none. 0 turns sub-agents off.
    #[schemars(range(max = 5))]
    pub max_depth: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::TrustState;
    use crate::workspace_settings::tests::parse_layers;
    use crate::{SettingsLayerKind, WorkspaceSettings};

    #[test]
    fn subagents_are_read_from_user_file_only() {
        const TEXT: &str = r#"{"subagents": {"maxParallel": 3, "maxDepth": 0}}"#;
        let read = |kind| {
            let layers = parse_layers(&[(kind, TEXT)]);
            WorkspaceSettings::merge(&layers, TrustState::assumed()).subagents()
        };
        let expected = SubagentSettings { max_parallel: Some(3), max_depth: Some(0) };
        assert_eq!(read(SettingsLayerKind::User), expected);
        assert_eq!(read(SettingsLayerKind::Project), SubagentSettings::default());
    }
}
