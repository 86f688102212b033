//! Why it is not known what must be protected.

use zero_core::{ErrorReason, ErrorType, ToolError};

/// There is too much to check, so that nothing may be changed unasked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProtectionLimit {
    /// A clause that follows "because".
    pub(super) reason: String,
    pub(super) advice: &'static str,
}

impl ProtectionLimit {
    /// The error of a command that would change files.
    pub(super) fn to_error(&self) -> ToolError {
        let Self { reason, advice } = self;
        let message = format!("no command can change files here: {reason}; {advice}");
        ToolError::new(ErrorType::PermissionDenied, ErrorReason::AccessDenied, message)
    }
}
