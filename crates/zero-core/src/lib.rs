//! The shared vocabulary of zero: names, calls, effects, results and errors.
//!
//! Every other crate uses these types. Nothing here reads a clock, a file, a socket or an
//! environment variable, and nothing here knows a protocol, so this crate has no failures that
//! depend on the outside.

pub mod ansi_filter;
pub mod budget;
pub mod call_progress;
pub mod call_usage;
pub mod command_limits;
pub mod context_breakdown;
pub mod digit_grouping;
pub mod effect;
pub mod error_chain;
pub mod error_severity;
pub mod event;
pub mod extra_root_certificates;
pub mod front_matter;
pub mod hexadecimal;
pub mod host_limits;
pub mod id;
pub mod loopback_host;
pub mod prompt_folder;
pub mod result_metadata;
pub mod sanitize;
pub mod schema_violation;
pub mod secret_mask;
pub mod session_key;
pub mod shell_quoting;
pub mod signal_name;
pub mod text_shortening;
pub mod thinking_effort;
pub mod tool_arguments;
pub mod tool_call;
pub mod tool_error;
pub mod tool_name;
pub mod tool_outcome;
pub mod tool_result;
pub mod tool_spec;
pub mod usage_dimension;

pub use budget::Budget;
pub use call_progress::CallProgress;
pub use call_usage::CallUsage;
pub use command_limits::{
    CommandLimit, CommandLimitChange, CommandLimits, LimitProfile, MachineResources,
};
pub use context_breakdown::{ContextBreakdown, ContextPart, ContextPartKind, TokenCountSource};
pub use effect::{
    CommandExecution, CommandLine, Effect, Effects, NoteChange, PathZone, TargetPath,
    ToolDefinitionState,
};
pub use error_severity::ErrorSeverity;
pub use extra_root_certificates::ExtraRootCertificates;
pub use front_matter::{FrontMatter, FrontMatterError};
pub use host_limits::{ByteSize, HostLimitChange, HostLimits};
pub use id::{CallId, RunId, SessionId};
pub use result_metadata::{ResultFallback, ResultMetadata};
pub use schema_violation::SchemaViolation;
pub use secret_mask::{SecretMask, SecretStream, SecretValue};
pub use session_key::{InvalidSessionKeyError, SessionAddress, SessionKey};
pub use signal_name::signal_name;
pub use thinking_effort::ThinkingEffort;
pub use tool_arguments::ToolArguments;
pub use tool_call::ToolCall;
pub use tool_error::{ErrorReason, ErrorType, ToolError};
pub use tool_name::{CLIENT_TERMINAL, CLIENT_TOOL_SOURCE, ToolName};
pub use tool_outcome::ToolOutcome;
pub use tool_result::{FileDiff, FileLocation, ResultDisplay, ToolResult, ToolResultPart};
pub use tool_spec::{RiskLevel, TimeoutClass, ToolCategory, ToolKind, ToolSpec};
pub use usage_dimension::UsageDimension;
