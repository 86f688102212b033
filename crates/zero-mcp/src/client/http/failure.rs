//! Why a server that is reached by HTTP gave no answer, and what to do about it.

use std::error::Error;
use std::time::Duration;

use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use zero_runtime::web::{Unreachable, WebError};

use crate::client::credentials::CredentialError;
use crate::definition::Alias;

/// Why a server that is reached by HTTP gave no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum HttpError {
    /// It may not be connected to.
    #[error(transparent)]
    Refused(#[from] Unreachable),
    /// Its description in settings cannot be used.
    #[error("{0}")]
    Settings(String),
    /// It could not be connected to.
    #[error("{origin} could not be reached: {why}")]
    Connect {
        /// Where.
        origin: String,
        /// Why not.
        why: String,
    },
    /// It took too long.
    #[error("{what} did not come within {} s", .after.as_secs())]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        after: Duration,
    },
    /// It sent too much.
    #[error("{what} is larger than {bytes_max} bytes, and was not read further")]
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// How large it may be.
        bytes_max: usize,
    },
    /// It says no, in HTTP.
    #[error("the server answered HTTP {status}{}", .said.as_ref().map_or(String::new(), |said| format!(": {said}")))]
    Status {
        /// The code.
        status: u16,
        /// What it says of it, shortened.
        said: Option<String>,
    },
    /// It sent something that is no answer.
    #[error("the server's answer is unusable: {why}")]
    Unusable {
        /// What is wrong with it.
        why: String,
    },
    /// It sends elsewhere.
    #[error(
        "the server redirects to `{to}`, which is not followed; if that is right, change its `url` in settings"
    )]
    Redirect {
        /// Where to, without path and query.
        to: String,
    },
    /// The connection broke.
    #[error("the connection to {origin} broke: {why}")]
    Broken {
        /// Where to.
        origin: String,
        /// How.
        why: String,
    },
    /// It wants a login, and there is none.
    #[error("the server wants a login; run: zero mcp login {alias}")]
    LoginNeeded {
        /// The server.
        alias: Alias,
    },
    /// It no longer accepts the login there is.
    #[error("the login has ended or was taken back; run: zero mcp login {alias}")]
    LoginEnded {
        /// The server.
        alias: Alias,
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
        alias: Alias,
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

impl HttpError {
    /// Whether it has nothing to do with what was said, so that saying it otherwise changes nothing.
    pub(crate) fn is_settled(&self) -> bool {
        match self {
            Self::Refused(_)
            | Self::Settings(_)
            | Self::Connect { .. }
            | Self::Redirect { .. }
            | Self::LoginNeeded { .. }
            | Self::LoginEnded { .. }
            | Self::HeaderRefused
            | Self::ScopeNeeded { .. }
            | Self::ScopeUseless { .. }
            | Self::Renewal { .. }
            | Self::Credentials(_) => true,
            Self::TimedOut { .. }
            | Self::TooLarge { .. }
            | Self::Status { .. }
            | Self::Unusable { .. }
            | Self::Broken { .. } => false,
        }
    }
}

impl From<WebError> for HttpError {
    fn from(error: WebError) -> Self {
        match error {
            WebError::Refused(unreachable) => Self::Refused(unreachable),
            WebError::Client { .. } => Self::Settings(error.to_string()),
            WebError::Connect { origin, why } => Self::Connect { origin, why },
            WebError::TimedOut { what, after } => Self::TimedOut { what, after },
            WebError::TooLarge { what, bytes_max } => Self::TooLarge { what, bytes_max },
            WebError::Unusable { why } => Self::Unusable { why },
            WebError::Redirect { to } => Self::Redirect { to },
            WebError::Broken { origin, why } => Self::Broken { origin, why },
        }
    }
}

impl From<HttpError> for StreamableHttpError<HttpError> {
    fn from(error: HttpError) -> Self {
        Self::Client(error)
    }
}

/// The [`HttpError`] that an error of the SDK was caused by.
pub fn http_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a HttpError> {
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
