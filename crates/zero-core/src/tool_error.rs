//! Why a call gave no result.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::SchemaViolation;

/// The five kinds of failure every client knows.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ErrorType {
    /// Policy, a person or the operating system said no.
    PermissionDenied,
    /// The tool, file or folder does not exist.
    NotFound,
    /// It did not finish in time.
    Timeout,
    /// The input is wrong; the same input will fail again.
    InvalidInput,
    /// It was tried and failed.
    ExecutionFailed,
}

impl ErrorType {
    /// All of them, in the order they are listed to people.
    pub const ALL: [Self; 5] = [
        Self::PermissionDenied,
        Self::NotFound,
        Self::Timeout,
        Self::InvalidInput,
        Self::ExecutionFailed,
    ];

    /// Stable word for clients, metrics and audit rows.
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

/// Refines an [`ErrorType`]; stands in `details.reason`. Messages may be reworded; these may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorReason {
    /// No tool has that name.
    UnknownTool,
    /// The input does not fit its schema.
    SchemaViolation,
    /// A person said no.
    Rejected,
    /// A person would have to be asked and nobody can be.
    NoApprover,
    /// A rule said no.
    Denied,
    /// The folder is not trusted.
    Untrusted,
    /// The caller stopped the call.
    Cancelled,
    /// zero stopped, or lost who ran the call, before it was known what became of it.
    Interrupted,
    /// It did not finish in time.
    Deadline,
    /// The tool failed too often lately and rests.
    CircuitOpen,
    /// Too many calls are waiting.
    QueueFull,
    /// A memory, processor, file or process limit was hit.
    ResourceExhausted,
    /// The file changed since it was last read, or was never read.
    StaleFile,
    /// The text to replace is not in the file.
    NoMatch,
    /// The text to replace is there more than once.
    AmbiguousMatch,
    /// The call would change nothing.
    NoChange,
    /// A line number lies outside the file.
    OutOfRange,
    /// The file is larger than its limit.
    TooLarge,
    /// The file is not text.
    Binary,
    /// A folder stands where a file is needed.
    IsDirectory,
    /// A file stands where a folder is needed.
    NotDirectory,
    /// A pipe, device, socket or kernel file.
    SpecialFile,
    /// The path itself is malformed or leads round in circles.
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
    /// Somebody else is at work on the same thing.
    Busy,
    /// A passing failure; the same call may succeed.
    Transient,
    /// A remote tool ran and says that it failed.
    RemoteFailure,
    /// The server or command that brings the tool cannot be reached, or answers nonsense.
    ServerUnavailable,
    /// The tool has a bug and stopped.
    Panic,
    /// Any other failure of the operating system.
    Io,
}

impl ErrorReason {
    /// True for failures that say the tool itself is unwell, as opposed to its input, the person,
    /// or the state of the disk. Only these open a circuit.
    pub fn is_tool_fault(self) -> bool {
        matches!(self, Self::Transient | Self::Panic | Self::Io)
    }
}

/// Why a call gave no result. The model and the person read the message, programs the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolError {
    /// The tool, by the name the caller used.
    pub tool: String,
    /// Which of the five kinds.
    pub error_type: ErrorType,
    /// What happened and what to do next.
    pub message: String,
    /// Facts for programs; `reason` is among them, but for errors of other programs that name none.
    #[serde(default)]
    pub details: Map<String, Value>,
}

impl ToolError {
    /// An error without the tool's name, which the pipeline fills in.
    pub fn new(
        error_type: ErrorType,
        reason: ErrorReason,
        message: impl Into<Cow<'static, str>>,
    ) -> Self {
        let mut details = Map::new();
        details.insert("reason".to_owned(), serde_json::to_value(reason).unwrap_or_default());
        Self { tool: String::new(), error_type, message: message.into().into_owned(), details }
    }

    /// A wrong input.
    pub fn invalid(reason: ErrorReason, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorType::InvalidInput, reason, message)
    }

    /// Something that does not exist.
    pub fn not_found(reason: ErrorReason, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorType::NotFound, reason, message)
    }

    /// Something that was tried and failed.
    pub fn failed(reason: ErrorReason, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorType::ExecutionFailed, reason, message)
    }

    /// The caller stopped the call.
    pub fn cancelled() -> Self {
        Self::failed(
            ErrorReason::Cancelled,
            "cancelled before it finished; nothing more will happen",
        )
    }

    /// Adds a fact for programs.
    #[must_use]
    pub fn with_detail(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Names the tool, by the name the caller used.
    #[must_use]
    pub fn with_tool(mut self, tool: &str) -> Self {
        tool.clone_into(&mut self.tool);
        self
    }

    /// The refinement in `details.reason`.
    pub fn reason(&self) -> Option<ErrorReason> {
        serde_json::from_value(self.details.get("reason")?.clone()).ok()
    }

    /// All violations of a schema as one error: the message says each, `details` holds them.
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

    /// True when it says the tool itself is unwell: counts towards its circuit breaker.
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
