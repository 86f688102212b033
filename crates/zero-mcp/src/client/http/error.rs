//! Why a server that is reached by HTTP gave no answer, and what to do about it.

use std::error::Error;

use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use zero_runtime::web::{UnreachableError, WebError};

use crate::client::credentials::CredentialError;
use crate::server_definition::ServerAlias;

/// Why a server that is reached by HTTP gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum McpHttpError {
    /// Nothing came from it, as from any other place of the web.
    #[error(transparent)]
    Web(WebError),
    /// It sends elsewhere, which is for settings to say.
    #[error(
        "the server redirects to `{to}`, which is not followed; if that is right, change its `url` in settings"
    )]
    Redirect {
        /// Where to, without path and query.
        to: String,
    },
    /// Its description in settings cannot be used.
    #[error("{0}")]
    Settings(String),
    /// It says no, in HTTP.
    #[error("the server answered HTTP {status}{}", .said.as_ref().map_or(String::new(), |said| format!(": {said}")))]
    Status {
        /// The code.
        status: u16,
        /// What it says of it, shortened.
        said: Option<String>,
    },
    /// It wants a login, and there is none.
    #[error("the server wants a login; run: zero mcp login {alias}")]
    LoginNeeded {
        /// The server.
        alias: ServerAlias,
    },
    /// It no longer accepts the login there is.
    #[error("the login has ended or was taken back; run: zero mcp login {alias}")]
    LoginEnded {
        /// The server.
        alias: ServerAlias,
    },
    /// It does not accept the `Authorization` that settings give.
    #[error("the server does not accept the `Authorization` header in its settings")]
    HeaderRefused,
    /// The login does not cover what was asked for.
    #[error(
        "the login does not cover this: the server wants `{scope}`; run: zero mcp login {alias}"
    )]
    ScopeNeeded {
        /// The server.
        alias: ServerAlias,
        /// What it wants.
        scope: String,
    },
    /// The login covers what the server wants, and it refuses all the same.
    #[error(
        "the server refuses this although the login covers `{scope}`; logging in again does not help"
    )]
    ScopeUseless {
        /// What it wants.
        scope: String,
    },
    /// The login could not be renewed for now.
    #[error("the login could not be renewed: {why}")]
    Renewal {
        /// Why not.
        why: String,
    },
    /// The login could not be read or kept.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

impl McpHttpError {
    /// An answer that is none.
    pub(crate) fn unusable(why: impl Into<String>) -> Self {
        WebError::Unusable { why: why.into() }.into()
    }

    /// Whether it has nothing to do with what was said, so that saying it otherwise changes nothing.
    pub(crate) fn is_conclusive(&self) -> bool {
        match self {
            Self::Web(error) => match error {
                WebError::Refused(_)
                | WebError::Client { .. }
                | WebError::Connect { .. }
                | WebError::Redirect { .. } => true,
                WebError::TimedOut { .. }
                | WebError::TooLarge { .. }
                | WebError::Unusable { .. }
                | WebError::Broken { .. } => false,
            },
            Self::Redirect { .. }
            | Self::Settings(_)
            | Self::LoginNeeded { .. }
            | Self::LoginEnded { .. }
            | Self::HeaderRefused
            | Self::ScopeNeeded { .. }
            | Self::ScopeUseless { .. }
            | Self::Renewal { .. }
            | Self::Credentials(_) => true,
            Self::Status { .. } => false,
        }
    }
}

impl From<WebError> for McpHttpError {
    fn from(error: WebError) -> Self {
        match error {
            WebError::Redirect { to } => Self::Redirect { to },
            error => Self::Web(error),
        }
    }
}

impl From<UnreachableError> for McpHttpError {
    fn from(unreachable: UnreachableError) -> Self {
        Self::Web(unreachable.into())
    }
}

impl From<McpHttpError> for StreamableHttpError<McpHttpError> {
    fn from(error: McpHttpError) -> Self {
        Self::Client(error)
    }
}

/// The [`McpHttpError`] that an error of the SDK was caused by.
pub fn find_http_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a McpHttpError> {
    const DEPTH_MAX: usize = 16;
    let mut next = Some(error);
    for _ in 0..DEPTH_MAX {
        let error = next?;
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        if let Some(StreamableHttpError::Client(found)) = error.downcast_ref() {
            return Some(found);
        }
        // Its source is hidden behind a box in some of the SDK's errors.
        next = match error.downcast_ref::<rmcp::service::ClientInitializeError>() {
            Some(rmcp::service::ClientInitializeError::TransportError { error, .. }) => Some(error),
            _ => match error.downcast_ref::<rmcp::service::ServiceError>() {
                Some(rmcp::service::ServiceError::TransportSend(error)) => Some(error),
                _ => match error.downcast_ref::<DynamicTransportError>() {
                    Some(error) => Some(error.error.as_ref()),
                    None => error.source(),
                },
            },
        };
    }
    None
}
