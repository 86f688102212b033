//! Settings for editors (`acp`).

use schemars::JsonSchema;
use serde::Deserialize;

/// The keys below `acp`.
pub const KEYS: [&str; 4] = ["acp.overlap", "acp.onExit", "acp.terminal", "acp.prefixCwd"];

/// How zero serves editors. Only your own settings apply here, never a project's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct AcpSettings {
    /// What a second prompt does while a run is active in its session; `queue` when absent.
    pub overlap: PromptOverlapSetting,
    /// What happens to running agents when the editor disconnects; `abort` when absent.
    pub on_exit: EditorExitSetting,
    /// Whether the agent can run commands in a terminal of the editor, outside the sandbox; `never`
    /// when absent.
    pub terminal: EditorTerminalSetting,
    /// Whether prompts begin with the session's folder; `true` when absent.
    pub prefix_cwd: Option<bool>,
}

/// What a second prompt does while a run is active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptOverlapSetting {
    /// It waits until the run has finished.
    #[default]
    Queue,
    /// The active run is stopped.
    Replace,
}

/// What happens to running agents when the editor disconnects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EditorExitSetting {
    /// They are stopped.
    #[default]
    Abort,
    /// They continue in a remote gateway.
    Detach,
}

/// Whether the agent can run commands in a terminal of the editor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EditorTerminalSetting {
    /// It cannot. All commands run in the sandbox.
    #[default]
    Never,
    /// It can, and you are asked before each command.
    Ask,
}

impl AcpSettings {
    /// Returns these settings with the one field that `field` sets.
    pub(crate) fn with_field(self, field: Self) -> Self {
        let Self { overlap, on_exit, terminal, prefix_cwd } = field;
        let usual = Self::default();
        Self {
            overlap: if overlap == usual.overlap { self.overlap } else { overlap },
            on_exit: if on_exit == usual.on_exit { self.on_exit } else { on_exit },
            terminal: if terminal == usual.terminal { self.terminal } else { terminal },
            prefix_cwd: prefix_cwd.or(self.prefix_cwd),
        }
    }
}
