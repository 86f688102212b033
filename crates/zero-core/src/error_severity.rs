//! How bad the error of a call is, for statistics.

use crate::{ErrorReason, ErrorType};

/// How bad an error is. The names are those of statistics and metrics, and do not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorSeverity {
    /// The caller can correct it: another input, another path.
    Low,
    /// Something outside of the call was in the way: a rule, the user, a server, a full queue.
    Medium,
    /// The call ran and failed, or did not finish in time.
    High,
    /// zero or its machine does not work as it should: a bug, or a full disk.
    Critical,
}

impl ErrorSeverity {
    /// All severities, from the least to the worst.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The severity of an error of this type, and reason if it has one.
    pub fn of(error_type: ErrorType, reason: Option<ErrorReason>) -> Self {
        match (error_type, reason) {
            (_, Some(ErrorReason::Panic | ErrorReason::DiskFull)) => Self::Critical,
            (_, Some(ErrorReason::Cancelled)) => Self::Low,
            (ErrorType::InvalidInput | ErrorType::NotFound, _) => Self::Low,
            (ErrorType::PermissionDenied, _) => Self::Medium,
            (
                ErrorType::ExecutionFailed,
                Some(
                    ErrorReason::QueueFull
                    | ErrorReason::CircuitOpen
                    | ErrorReason::Busy
                    | ErrorReason::Transient
                    | ErrorReason::RemoteFailure
                    | ErrorReason::ServerUnavailable,
                ),
            ) => Self::Medium,
            (ErrorType::Timeout | ErrorType::ExecutionFailed, _) => Self::High,
        }
    }

    /// Stable name for statistics and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }

    /// Whether the work of the user suffers: no other input would have avoided the error.
    pub fn affects_user(self) -> bool {
        self >= Self::High
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_depends_on_type_and_reason() {
        use ErrorReason as R;
        use ErrorSeverity::{Critical, High, Low, Medium};
        use ErrorType as T;
        for (error_type, reason, expected) in [
            (T::InvalidInput, Some(R::SchemaViolation), Low),
            (T::NotFound, None, Low),
            (T::ExecutionFailed, Some(R::Cancelled), Low),
            (T::PermissionDenied, Some(R::Denied), Medium),
            (T::ExecutionFailed, Some(R::ServerUnavailable), Medium),
            (T::ExecutionFailed, Some(R::Transient), Medium),
            (T::Timeout, Some(R::Deadline), High),
            (T::ExecutionFailed, None, High),
            (T::ExecutionFailed, Some(R::ResourceExhausted), High),
            (T::ExecutionFailed, Some(R::Panic), Critical),
            (T::InvalidInput, Some(R::DiskFull), Critical),
        ] {
            assert_eq!(
                ErrorSeverity::of(error_type, reason),
                expected,
                "{error_type:?} {reason:?}"
            );
        }
        assert_eq!(ErrorSeverity::ALL.map(ErrorSeverity::affects_user), [false, false, true, true]);
    }
}
