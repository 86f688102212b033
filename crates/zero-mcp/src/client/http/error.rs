//! [`McpHttpError`]: why a server over HTTP did not answer, and what to do about it.

use std::error::Error;

use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use zero_runtime::web::{UnreachableError, WebError};

use crate::client::credentials::CredentialError;
use crate::server_definition::ServerAlias;

/// Why a server over HTTP did not answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum McpHttpError {
    /// The request failed, as any web request can.
    #[error(transparent)]
    Web(WebError),
    /// The server redirects to another origin, which must be configured in settings.
    #[error(
        "the server redirects to `{to}`, which is not followed; if that is right, change its `url` in settings"
    )]
    Redirect {
        /// The other origin, without path and query.
        to: String,
    },
    /// Its configuration is invalid.
    #[error("{0}")]
    Settings(String),
    /// It answered with an HTTP error.
    #[error("the server answered HTTP {status}{}", .detail.as_ref().map_or(String::new(), |detail| format!(": {detail}")))]
    Status {
        /// The status code.
        status: u16,
        /// Its explanation, shortened.
        detail: Option<String>,
    },
    /// It requires a login, and there is none.
    #[error("the server requires a login; run `zero mcp login {alias}`")]
    LoginNeeded {
        /// Name of the server in settings.
        alias: ServerAlias,
    },
    /// It no longer accepts the login.
    #[error("the login has expired or was revoked; run `zero mcp login {alias}`")]
    LoginEnded {
        /// Name of the server in settings.
        alias: ServerAlias,
    },
    /// It refuses the `Authorization` header from settings.
    #[error("the server refuses the `Authorization` header in its settings; correct or remove it")]
    HeaderRefused,
    /// The login lacks a scope.
    #[error("the login lacks the scope `{scope}`; run `zero mcp login {alias}`")]
    ScopeNeeded {
        /// Name of the server in settings.
        alias: ServerAlias,
        /// The scopes that it requires.
        scope: String,
    },
    /// The login has the required scope, and the server refuses nevertheless.
    #[error(
        "the server refuses this although the login has the scope `{scope}`; logging in again does not help"
    )]
    ScopeUseless {
        /// The scopes that it requires.
        scope: String,
    },
    /// The login could not be renewed now.
    #[error("the login could not be renewed: {why}")]
    Renewal {
        /// Why not.
        why: String,
    },
    /// The login could not be read or stored.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

impl McpHttpError {
    /// Creates the error of an invalid response.
    pub(crate) fn unusable(why: impl Into<String>) -> Self {
        WebError::Unusable { why: why.into() }.into()
    }

    /// Whether another request to this server would fail for the same reason.
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

/// Finds the [`McpHttpError`] that caused an error of the SDK.
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
        // Some SDK errors do not return their cause as `source`.
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
