//! [`LspError`]: why a query has no result, and what to do about it.

use std::time::Duration;

use zero_core::{ErrorReason, ErrorType, ToolError};

/// Why a query has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LspError {
    /// No server is defined for files of this kind.
    #[error(
        "no language server is configured for `{file}`, only for {known}; add one under `lspServers` in settings"
    )]
    NoServerKnown {
        /// Path of the file, as shown to the user.
        file: String,
        /// The file name extensions for which a server is defined.
        known: String,
    },
    /// Servers are defined for the file, but none of them is installed.
    #[error("no language server for `{file}` is installed: {how}; `zero doctor` lists them")]
    NotInstalled {
        /// Path of the file, as shown to the user.
        file: String,
        /// How to install one.
        how: String,
    },
    /// The folder is not trusted, and a server may run code that it finds there.
    #[error("no language server runs for `{folder}`: {why}")]
    Untrusted {
        /// The workspace folder.
        folder: String,
        /// The trust state of the folder, and what to do.
        why: String,
    },
    /// The limit of running servers is reached, and all of them are in use.
    #[error("{0} language servers are running and all are in use; try again later")]
    TooMany(usize),
    /// The server failed too often recently.
    #[error("`{server}` failed {failures} times recently and can be started again in {} s; last failure: {why}", rest.as_secs())]
    CoolingDown {
        /// Name of the server.
        server: String,
        /// Number of recent failures.
        failures: usize,
        /// How long until it may be started again.
        rest: Duration,
        /// The last failure.
        why: String,
    },
    /// The server could not be started.
    #[error("`{server}` could not be started: {why}")]
    NotStarted {
        /// Name of the server.
        server: String,
        /// The reason, with what the server wrote.
        why: String,
    },
    /// The program found is a rustup proxy, and the server behind it is not installed.
    #[error("`{server}` is not installed: `{program}` is only a rustup proxy; install it {how}")]
    RustupProxy {
        /// Name of the server.
        server: String,
        /// Path of the proxy.
        program: String,
        /// How to install the server.
        how: String,
    },
    /// The server exited, or was killed because it misbehaved.
    #[error("`{server}` failed: {why}")]
    Unavailable {
        /// Name of the server.
        server: String,
        /// The reason.
        why: String,
    },
    /// The server was ended because it could see a file that was denied after it had started.
    #[error(
        "`{server}` was stopped because a file that it may not read was created or replaced after it had started; try again"
    )]
    Outdated {
        /// Name of the server.
        server: String,
    },
    /// The server did not answer in time.
    #[error("`{server}` did not answer `{what}` within {} s; it may still be indexing the project; try again later", limit.as_secs())]
    TimedOut {
        /// Name of the server.
        server: String,
        /// Method of the request.
        what: String,
        /// The time limit.
        limit: Duration,
    },
    /// The server answered with an error.
    #[error("`{server}` refused `{what}`: {message}")]
    Refused {
        /// Name of the server.
        server: String,
        /// Method of the request.
        what: String,
        /// The JSON-RPC error code.
        code: i64,
        /// The error message of the server.
        message: String,
    },
    /// The server does not have the capability.
    #[error("`{server}` does not offer `{what}`")]
    Unsupported {
        /// Name of the server.
        server: String,
        /// Method of the request.
        what: String,
    },
    /// The result does not have the form that the protocol demands.
    #[error("`{server}` answered `{what}` with an invalid result")]
    InvalidResponse {
        /// Name of the server.
        server: String,
        /// Method of the request.
        what: String,
    },
}

impl LspError {
    /// Returns whether the same query may succeed with a restarted server.
    pub fn is_worth_restart(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Outdated { .. })
    }

    /// Returns the error for the caller of a tool. A failed server does not make the tool fail: it
    /// still works with others.
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
