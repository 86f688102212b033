//! Why a server is of no use right now, with all that is known about it.

use serde::{Deserialize, Serialize};

/// Why a server is of no use right now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ServerError {
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
}

impl ServerError {
    /// An error of which only this is known.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}
