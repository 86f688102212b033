//! Why a login was not made, and what to do about it.

use std::time::Duration;

use rmcp::transport::auth::AuthError;

use super::renewal::describe_error;
use crate::client::credentials::CredentialError;
use crate::client::http::McpHttpError;

/// Why a login was not made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoginError {
    /// Settings already say how requests prove who sends them.
    #[error(
        "settings give this server an `Authorization` header, which is used instead of a login; \
         remove it to log in"
    )]
    HeaderConfigured,
    /// The server answers without one.
    #[error("the server wants no login")]
    NotRequired,
    /// The server could not be asked.
    #[error(transparent)]
    Http(#[from] McpHttpError),
    /// Who issues logins for the server could not be found out.
    #[error("it could not be found out how to log in at this server: {0}")]
    Discovery(String),
    /// The address for the browser is none to send anybody to.
    #[error("the server names no safe address for logging in")]
    BadAuthorizationUrl,
    /// Nothing says as whom zero logs in.
    #[error(
        "the issuer of logins registers no clients by itself: register one there by hand, with the \
         redirect address `{redirect_uri}`, and set `oauth.clientId` (and `oauth.clientSecret`, \
         `oauth.callbackPort`) in the settings of this server"
    )]
    NoClient {
        /// Where the browser is sent back to.
        redirect_uri: String,
    },
    /// The issuer will not register zero.
    #[error(
        "zero could not be registered as a client ({why}); register one by hand, with the redirect \
         address `{redirect_uri}`, and set `oauth.clientId` in the settings of this server"
    )]
    Registration {
        /// What it says.
        why: String,
        /// Where the browser is sent back to.
        redirect_uri: String,
    },
    /// The port for the browser is taken.
    #[error(
        "port {port} of this machine, where the browser is to be sent back to, is not free: {why}"
    )]
    Port {
        /// Which one; 0 for any.
        port: u16,
        /// What the system says.
        why: String,
    },
    /// Nobody logged in.
    #[error("nobody logged in within {} s", .after.as_secs())]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// What was pasted is not where the browser was sent back to.
    #[error("that is not the address that the browser was sent back to: {0}")]
    Pasted(&'static str),
    /// What came back belongs to another login.
    #[error("what came back belongs to another login, and was refused; start again")]
    StateMismatch,
    /// What came back is from somebody else.
    #[error("what came back is not from the issuer that was asked, and was refused")]
    IssuerMismatch,
    /// The person or the issuer said no.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// The login could not be kept.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

impl LoginError {
    pub(super) fn refused(error: &AuthError) -> Self {
        Self::Refused(describe_error(error))
    }
}
