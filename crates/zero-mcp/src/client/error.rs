//! Why a server is of no use right now, with all that is known about it.

use serde::{Deserialize, Serialize};
use zero_core::{ErrorReason, ToolError};

/// Longest part of a server's error output in a message for the model, in bytes. Status has more.
const TAIL_IN_MESSAGE_MAX: usize = 1_000;

/// Why a server is of no use right now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ServerUnavailableError {
    /// What happened.
    pub message: String,
    /// The exit code of its process, where it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The signal that ended its process, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The end of what it wrote to its error output. Text of somebody nobody vouches for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr_tail: String,
    /// Whether it has nothing to do with how the server was asked.
    #[serde(skip)]
    pub(crate) is_settled: bool,
    /// What its confinement refused it, and the settings that would allow that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ServerUnavailableError {
    /// An error of which only this is known.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// The same as the outcome of a call.
    pub fn to_tool_error(&self, alias: &str) -> ToolError {
        let mut message = format!("MCP server `{alias}`: {}", self.message);
        if !self.stderr_tail.is_empty() {
            let start = self.stderr_tail.len().saturating_sub(TAIL_IN_MESSAGE_MAX);
            let tail = &self.stderr_tail[self.stderr_tail.ceil_char_boundary(start)..];
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
