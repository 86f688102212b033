//! Exit codes of `zero`. Scripts rely on these numbers, so they never change.

use std::process::ExitCode;

use zero_core::ToolError;
use zero_policy::Verdict;

/// How a `zero` process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitOutcome {
    /// Success.
    Ok = 0,
    /// A tool returned an error, a check failed, or zero failed.
    Error = 1,
    /// Invalid command line or environment: flags, JSON, dialect, workspace, state folder.
    Usage = 2,
    /// A rule or the user denied it, or no user could approve it.
    Denied = 3,
    /// `zero run`: a token or turn limit or a budget ended the run.
    Limit = 4,
    /// `zero run --output-schema`: the answer does not fit the schema.
    Misfit = 5,
    /// `zero run --park`, `zero questions answer`: the run waits for an answer.
    Parked = 6,
    /// `zero policy`: zero would ask for approval.
    WouldAsk = 10,
    /// `zero policy`: the call would be denied.
    WouldDeny = 20,
    /// Interrupted by a signal; 128 + SIGINT, as shells report it.
    Interrupted = 130,
}

impl ExitOutcome {
    /// Exit code for a failed tool call.
    pub fn from_error(error: &ToolError) -> Self {
        match error.reason() {
            Some(reason) if reason.is_denial() => Self::Denied,
            _ => Self::Error,
        }
    }

    /// Exit code for a policy verdict on a call that is not run.
    pub fn from_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Ok,
            Verdict::Ask => Self::WouldAsk,
            Verdict::Deny => Self::WouldDeny,
        }
    }

    /// Numeric exit code.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<ExitOutcome> for ExitCode {
    fn from(exit: ExitOutcome) -> Self {
        Self::from(exit.code())
    }
}

/// An error in the command line or the environment; exits with [`ExitOutcome::Usage`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
