//! The words of zero: names, calls, effects, results and errors.
//!
//! Every other crate speaks in these types. Nothing here reads a clock, a file, a socket or an
//! environment variable, and nothing here knows a protocol, so the crate never fails for want of
//! the outside world: it has none.

pub mod call;
pub mod command_limits;
pub mod effect;
pub mod error;
pub mod event;
pub mod extra_roots;
pub mod id;
pub mod limits;
pub mod name;
pub mod result;
pub mod session_key;
pub mod shown;
pub mod spec;
pub mod violation;

pub use call::ToolCall;
pub use command_limits::{CommandLimit, CommandLimitChange, CommandLimits};
pub use effect::{
    CommandLine, Definition, Effect, Effects, Execution, NoteChange, TargetPath, Whereabouts,
};
pub use error::{ErrorType, Reason, ToolError};
pub use extra_roots::ExtraRoots;
pub use id::{CallId, RunId, SessionId};
pub use limits::{ByteSize, Limits};
pub use name::ToolName;
pub use result::{Content, Display, FileDiff, Location, ToolResult};
pub use session_key::{InvalidKey, SessionKey};
pub use spec::{Category, Kind, Risk, TimeoutClass, ToolSpec};
pub use violation::Violation;
