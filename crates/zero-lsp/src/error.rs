//! Why a language server gave no answer, and what to do about it.

use std::time::Duration;

use zero_core::{ErrorReason, ErrorType, ToolError};

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LspError {
    /// No server is known for a file.
    #[error(
        "no language server is known for `{file}`; servers are known for {known}; another can be set as `lspServers` in settings"
    )]
    NoServerKnown {
        /// The file, as it is shown.
        file: String,
        /// The endings of names for which there is one.
        known: String,
    },
    /// None of those that are known is installed.
    #[error("no language server for `{file}` is installed: {how}; `zero doctor` lists them")]
    NotInstalled {
        /// The file, as it is shown.
        file: String,
        /// How to get one.
        how: String,
    },
    /// Nobody has said that the folder is trusted, and a server may run what it finds there.
    #[error("no language server runs for `{folder}`: {why}")]
    Untrusted {
        /// The folder of the workspace.
        folder: String,
        /// How it stands, and what to do.
        why: String,
    },
    /// As many run as may.
    #[error("{0} language servers run already and all are at work; try again when one is done")]
    TooMany(usize),
    /// It failed too often lately.
    #[error("`{server}` failed {failures} times lately and is left alone for {} s; last: {why}", rest.as_secs())]
    CoolingDown {
        /// The server.
        server: String,
        /// How often it failed.
        failures: usize,
        /// How long it is left alone.
        rest: Duration,
        /// How it failed last.
        why: String,
    },
    /// It cannot be started.
    #[error("`{server}` could not be started: {why}")]
    NotStarted {
        /// The server.
        server: String,
        /// Why not.
        why: String,
    },
    /// What has its name only stands in for it.
    #[error("`{server}` is not installed: `{program}` only stands in for it; it comes {how}")]
    RustupProxy {
        /// The server.
        server: String,
        /// The program.
        program: String,
        /// How to get it.
        how: String,
    },
    /// It is gone, or of no use any more.
    #[error("`{server}` failed: {why}")]
    Unavailable {
        /// The server.
        server: String,
        /// What became of it.
        why: String,
    },
    /// It can see files that it may not, because they came after it.
    #[error(
        "`{server}` was ended, since it could see a file that may not be read, which was made or replaced after it had started; ask again"
    )]
    Outdated {
        /// The server.
        server: String,
    },
    /// It took too long.
    #[error("`{server}` did not answer `{what}` within {} s; it may still be reading the project: try again later", limit.as_secs())]
    TimedOut {
        /// The server.
        server: String,
        /// What it was asked.
        what: String,
        /// How long it had.
        limit: Duration,
    },
    /// It says that it cannot do it.
    #[error("`{server}` refused `{what}`: {message}")]
    Refused {
        /// The server.
        server: String,
        /// What it was asked.
        what: String,
        /// Its number for the reason.
        code: i64,
        /// Its words.
        message: String,
    },
    /// It does not do such things at all.
    #[error("`{server}` does not offer `{what}`")]
    Unsupported {
        /// The server.
        server: String,
        /// What it was asked.
        what: String,
    },
    /// Its answer makes no sense.
    #[error("`{server}` answered `{what}` with nonsense")]
    InvalidResponse {
        /// The server.
        server: String,
        /// What it was asked.
        what: String,
    },
}

impl LspError {
    /// Whether another try with a new server may go better.
    pub fn is_worth_restart(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Outdated { .. })
    }

    /// As the caller of a tool gets it. A server that fails says nothing about the tool, which works
    /// on with others.
    pub fn to_tool_error(&self) -> ToolError {
        let message = self.to_string();
        match self {
            Self::NoServerKnown { .. } | Self::NotInstalled { .. } | Self::RustupProxy { .. } => {
                ToolError::not_found(ErrorReason::ServerUnavailable, message)
            }
            Self::Untrusted { .. } => {
                ToolError::new(ErrorType::PermissionDenied, ErrorReason::Untrusted, message)
            }
            Self::Refused { .. } | Self::Unsupported { .. } => {
                ToolError::failed(ErrorReason::RemoteFailure, message)
            }
            Self::TooMany(_)
            | Self::CoolingDown { .. }
            | Self::NotStarted { .. }
            | Self::Unavailable { .. }
            | Self::Outdated { .. }
            | Self::TimedOut { .. }
            | Self::InvalidResponse { .. } => {
                ToolError::failed(ErrorReason::ServerUnavailable, message)
            }
        }
    }
}
