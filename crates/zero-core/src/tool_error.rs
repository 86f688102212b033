//! The error of a call.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::SchemaViolation;

/// The kinds of errors. Every client knows these five.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// Policy, the user or the operating system denied the call.
    PermissionDenied,
    /// The tool, file or folder does not exist.
    NotFound,
    /// The call did not finish in time.
    Timeout,
    /// The input is invalid; the same input will fail again.
    InvalidInput,
    /// The call ran and failed.
    ExecutionFailed,
}

impl ErrorType {
    /// All kinds, in the order in which they are listed.
    pub const ALL: [Self; 5] = [
        Self::PermissionDenied,
        Self::NotFound,
        Self::Timeout,
        Self::InvalidInput,
        Self::ExecutionFailed,
    ];

    /// Stable name for clients, metrics and audit rows.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PermissionDenied => "permission_denied",
            Self::NotFound => "not_found",
            Self::Timeout => "timeout",
            Self::InvalidInput => "invalid_input",
            Self::ExecutionFailed => "execution_failed",
        }
    }
}

/// Refines an [`ErrorType`]; stored in `details.reason`. Messages may change; these names may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorReason {
    /// No tool has that name.
    UnknownTool,
    /// The input does not match its schema.
    SchemaViolation,
    /// The user rejected the call.
    Rejected,
    /// The call needs approval, and there is no user to ask.
    NoApprover,
    /// A rule denies the call.
    Denied,
    /// The folder is not trusted.
    Untrusted,
    /// The caller stopped the call.
    Cancelled,
    /// zero stopped, or lost the hosting client, before the outcome was known.
    Interrupted,
    /// The deadline expired.
    Deadline,
    /// The tool failed too often recently and is suspended.
    CircuitOpen,
    /// Too many calls are waiting.
    QueueFull,
    /// A memory, CPU, file or process limit was reached.
    ResourceExhausted,
    /// The file changed since it was last read, or was never read.
    StaleFile,
    /// The text to replace is not in the file.
    NoMatch,
    /// The text to replace occurs more than once.
    AmbiguousMatch,
    /// The call would change nothing.
    NoChange,
    /// A line number is outside the file.
    OutOfRange,
    /// The file is larger than its limit.
    TooLarge,
    /// The file is not text.
    Binary,
    /// The path is a folder, and a file is required.
    IsDirectory,
    /// The path is a file, and a folder is required.
    NotDirectory,
    /// A pipe, device, socket or kernel file.
    SpecialFile,
    /// The path is malformed or contains a symlink loop.
    BadPath,
    /// The text cannot be written in the file's encoding.
    Encoding,
    /// The pattern does not parse.
    BadPattern,
    /// The disk or quota is full.
    DiskFull,
    /// The file system refuses writes.
    ReadOnly,
    /// The operating system refuses access.
    AccessDenied,
    /// Another call or process uses the same resource.
    Busy,
    /// A temporary failure; a retry may succeed.
    Transient,
    /// A remote tool ran and reported a failure.
    RemoteFailure,
    /// The server or command that provides the tool is unreachable or sends invalid answers.
    ServerUnavailable,
    /// The tool panicked.
    Panic,
    /// Any other operating system error.
    Io,
}

impl ErrorReason {
    /// Whether the tool itself is at fault, and not its input, the user or the state of the disk.
    /// Only these failures open a circuit breaker.
    pub fn is_tool_fault(self) -> bool {
        matches!(self, Self::Transient | Self::Panic | Self::Io)
    }

    /// Whether a rule, missing trust or the user denied the call, or no user could approve it.
    pub fn is_denial(self) -> bool {
        matches!(self, Self::Denied | Self::Untrusted | Self::NoApprover | Self::Rejected)
    }
}

/// Why a call returned no result. The message is for the model and the user, the other fields for
/// programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolError {
    /// Name of the tool, as the caller wrote it.
    pub tool: String,
    /// Kind of the error.
    pub error_type: ErrorType,
    /// What happened and what to do next.
    pub message: String,
    /// Data for programs, with `reason` among it unless the error of another program has none.
    #[serde(default)]
    pub details: Map<String, Value>,
}

impl ToolError {
    /// An error without the tool's name, which the pipeline sets.
    pub fn new(
        error_type: ErrorType,
        reason: ErrorReason,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let mut details = Map::new();
        details.insert("reason".to_owned(), serde_json::to_value(reason).unwrap_or_default());
        Self { tool: String::new(), error_type, message: message.into().into_owned(), details }
    }

    /// An error for invalid input.
    pub fn invalid(reason: ErrorReason, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorType::InvalidInput, reason, message)
    }

    /// An error for something that does not exist.
    pub fn not_found(reason: ErrorReason, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorType::NotFound, reason, message)
    }

    /// An error for a failed execution.
    pub fn failed(reason: ErrorReason, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorType::ExecutionFailed, reason, message)
    }

    /// The error of a call that the caller cancelled.
    pub fn cancelled() -> Self {
        Self::failed(
            ErrorReason::Cancelled,
            "cancelled before it finished; nothing more will happen",
        )
    }

    /// Adds a detail for programs.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Sets the tool's name, as the caller used it.
    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        tool.clone_into(&mut self.tool);
        self
    }

    /// The reason in `details.reason`.
    pub fn reason(&self) -> Option<ErrorReason> {
        serde_json::from_value(self.details.get("reason")?.clone()).ok()
    }

    /// Marks a failure as temporary, so that a call without side effects is made again: after
    /// `retry_after`, if the other side named a time.
    #[must_use]
    pub fn into_transient(self, retry_after: Option<Duration>) -> Self {
        let marked = self.with_detail("transient", true);
        match retry_after {
            Some(after) => {
                let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                marked.with_detail("retry_after_ms", after_ms)
            }
            None => marked,
        }
    }

    /// Whether another attempt may succeed.
    pub fn is_transient(&self) -> bool {
        self.reason() == Some(ErrorReason::Transient)
            || self.details.get("transient") == Some(&Value::Bool(true))
    }

    /// The time to wait before another attempt, if the other side named one.
    pub fn retry_after(&self) -> Option<Duration> {
        self.details.get("retry_after_ms")?.as_u64().map(Duration::from_millis)
    }

    /// Combines all schema violations into one error: the message lists them, `details` contains
    /// them.
    pub fn from_violations(violations: &[SchemaViolation]) -> Self {
        let mut message = match violations.len() {
            1 => String::from("the input does not fit the schema"),
            n => format!("the input does not fit the schema in {n} places"),
        };
        for violation in violations {
            message.push_str("\n- ");
            message.push_str(&violation.to_string());
        }
        Self::invalid(ErrorReason::SchemaViolation, message)
            .with_detail("violations", serde_json::to_value(violations).unwrap_or_default())
    }

    /// Whether the tool itself is at fault, so that the error counts for its circuit breaker.
    pub fn is_tool_fault(&self) -> bool {
        match self.error_type {
            ErrorType::Timeout => true,
            ErrorType::ExecutionFailed => self.reason().is_none_or(ErrorReason::is_tool_fault),
            ErrorType::PermissionDenied | ErrorType::NotFound | ErrorType::InvalidInput => false,
        }
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_error_serializes_to_four_fields() {
        let error =
            ToolError::not_found(ErrorReason::Io, "no").with_detail("file", "a").with_tool("Read");
        assert_eq!(
            serde_json::to_string(&error).expect("plain data"),
            r#"{"tool":"Read","error_type":"not_found","message":"no","details":{"reason":"io","file":"a"}}"#
        );
        assert_eq!(error.reason(), Some(ErrorReason::Io));
    }

    #[test]
    fn only_tool_faults_count_against_tool() {
        assert!(ToolError::failed(ErrorReason::Panic, "").is_tool_fault());
        assert!(ToolError::new(ErrorType::Timeout, ErrorReason::Deadline, "").is_tool_fault());
        assert!(!ToolError::cancelled().is_tool_fault());
        assert!(!ToolError::failed(ErrorReason::DiskFull, "").is_tool_fault());
        assert!(!ToolError::invalid(ErrorReason::NoMatch, "").is_tool_fault());
    }
}
