//! Why a request was not done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a request was not done. Clients branch on `code` and `details.code`, never on the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorPayload {
    /// Which kind.
    pub code: ErrorCode,
    /// What was wrong and what to do next.
    #[schemars(length(min = 1))]
    pub message: String,
    /// Facts for programs; `code` refines the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether the same request may succeed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// Kinds of error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// Unknown method, wrong parameters, not found, wrong credentials.
    InvalidRequest,
    /// The scope that it needs was not granted.
    Forbidden,
    /// The device is not known.
    NotPaired,
    /// Nobody waits for that answer.
    ApprovalNotFound,
    /// Not now.
    Unavailable,
    /// Nothing is linked.
    NotLinked,
    /// The agent took too long.
    AgentTimeout,
    /// One that this version does not know.
    #[serde(untagged)]
    Other(String),
}

impl ErrorCode {
    /// Whether the same request would be refused again.
    pub fn is_callers_fault(&self) -> bool {
        matches!(self, Self::InvalidRequest | Self::Forbidden | Self::ApprovalNotFound)
    }
}

impl ErrorPayload {
    /// An error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retryable: None, retry_after_ms: None }
    }

    /// A request that cannot be done as it is.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// Adds facts for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
