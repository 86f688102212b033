//! What the exit code of `zero` says. Scripts rely on these numbers; they never change.

use std::process::ExitCode;

use zero_core::{ErrorReason, ToolError};
use zero_policy::Verdict;

/// How a run of `zero` ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitOutcome {
    /// Done.
    Ok = 0,
    /// A tool gave an error, a check failed, or zero itself could not go on.
    Error = 1,
    /// The command line or the environment was wrong: flags, JSON, dialect, workspace, state folder.
    Usage = 2,
    /// A rule or a person said no, or nobody was there to say yes.
    Denied = 3,
    /// `zero run`: a limit of tokens or turns ended it.
    Limit = 4,
    /// `zero policy`: a person would be asked.
    WouldAsk = 10,
    /// `zero policy`: it would be denied.
    WouldDeny = 20,
    /// Somebody interrupted it, as shells know it.
    Interrupted = 130,
}

impl ExitOutcome {
    /// How a failed call ends the program.
    pub fn from_error(error: &ToolError) -> Self {
        match error.reason() {
            Some(
                ErrorReason::Denied
                | ErrorReason::Untrusted
                | ErrorReason::NoApprover
                | ErrorReason::Rejected,
            ) => Self::Denied,
            _ => Self::Error,
        }
    }

    /// How a verdict on a call that nobody makes ends the program.
    pub fn from_verdict(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allow => Self::Ok,
            Verdict::Ask => Self::WouldAsk,
            Verdict::Deny => Self::WouldDeny,
        }
    }

    /// The number the shell sees.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<ExitOutcome> for ExitCode {
    fn from(exit: ExitOutcome) -> Self {
        Self::from(exit.code())
    }
}

/// A command line that cannot be carried out; ends the program with [`ExitOutcome::TokenUsage`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);
