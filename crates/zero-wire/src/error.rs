//! [`ErrorPayload`], the error of a refused request, and [`ErrorCode`], its kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a request was refused. Clients branch on `code` and `details.code`, never on the message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorPayload {
    /// Kind of the error.
    pub code: ErrorCode,
    /// What is wrong and what to do next.
    #[schemars(length(min = 1))]
    pub message: String,
    /// Details for programs; `details.code` refines the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether the same request may succeed later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// How long to wait before a retry, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// `details.code` of the error for a session that does not exist.
pub const SESSION_NOT_FOUND: &str = "SESSION_NOT_FOUND";

/// Kind of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// Unknown method, wrong parameters, not found, or wrong credentials.
    InvalidRequest,
    /// The token lacks the scope that the method needs.
    Forbidden,
    /// The gateway does not know the device.
    NotPaired,
    /// No approval with this id is pending.
    ApprovalNotFound,
    /// Temporarily not possible.
    Unavailable,
    /// A channel is not linked. zero never sends it.
    NotLinked,
    /// The agent took too long.
    AgentTimeout,
    /// A code that this version does not know.
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
    /// Creates an error without details.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, retryable: None, retry_after_ms: None }
    }

    /// Creates an [`ErrorCode::InvalidRequest`] error.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// Adds details for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}
