//! How editors are served, as settings say it.

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `acp`.
pub const KEYS: [&str; 2] = ["acp.overlap", "acp.onExit"];

/// How editors are served. Only your own settings count here, never a project's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct AcpSettings {
    /// What a second prompt does while one is at work in its session; `queue` when absent.
    pub overlap: PromptOverlapSetting,
    /// What becomes of what agents work on when the editor goes away; `abort` when absent.
    pub on_exit: EditorExitSetting,
}

/// What a second prompt does while one is at work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptOverlapSetting {
    /// It waits for its turn.
    #[default]
    Queue,
    /// The one at work is stopped.
    Replace,
}

/// What becomes of what agents work on when the editor goes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EditorExitSetting {
    /// It is stopped.
    #[default]
    Abort,
    /// A gateway elsewhere goes on with it.
    Detach,
}

impl AcpSettings {
    /// The same with the one field that another names.
    pub(crate) fn with_field(self, field: Self) -> Self {
        let Self { overlap, on_exit } = field;
        let usual = Self::default();
        Self {
            overlap: if overlap == usual.overlap { self.overlap } else { overlap },
            on_exit: if on_exit == usual.on_exit { self.on_exit } else { on_exit },
        }
    }
}
