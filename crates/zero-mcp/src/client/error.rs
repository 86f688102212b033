//! [`ServerUnavailableError`]: why a server cannot be used, with all known details.

use serde::{Deserialize, Serialize};
use zero_core::text_shortening::tail;
use zero_core::{ErrorReason, ToolError};

/// Maximum length of the error output in a message for the model, in bytes. The status has more.
const TAIL_IN_MESSAGE_MAX: usize = 1_000;

/// Why a server cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ServerUnavailableError {
    /// What happened.
    pub message: String,
    /// Exit code of its process, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Signal that killed its process, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The end of its error output. Untrusted text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// Whether an attempt with the other protocol would fail for the same reason.
    #[serde(skip)]
    pub(crate) is_settled: bool,
    /// What the sandbox blocked, and the settings that would allow it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ServerUnavailableError {
    /// Creates an error with only a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Converts it to the error of a tool call.
    pub fn to_tool_error(&self, alias: &str) -> ToolError {
        let mut message = format!("MCP server `{alias}`: {}", self.message);
        if !self.stderr_tail.is_empty() {
            let tail = tail(&self.stderr_tail, TAIL_IN_MESSAGE_MAX);
            message.push_str(&format!("; the end of its error output:\n{}", tail.trim_end()));
        }
        for note in &self.notes {
            message.push_str(&format!("\nnote: {note}"));
        }
        let mut error =
            ToolError::failed(ErrorReason::ServerUnavailable, message).with_detail("server", alias);
        if let Some(code) = self.exit_code {
            error = error.with_detail("exit_code", code);
        }
        if let Some(signal) = self.signal {
            error = error.with_detail("signal", signal);
        }
        error
    }
}
