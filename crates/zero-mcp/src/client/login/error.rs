//! [`LoginError`]: why a login failed, and what to do about it.

use std::time::Duration;

use rmcp::transport::auth::AuthError;

use super::renewal::describe_error;
use crate::client::credentials::CredentialError;
use crate::client::http::McpHttpError;

/// Why a login failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LoginError {
    /// Settings contain an `Authorization` header for the server.
    #[error(
        "the settings of this server contain an `Authorization` header, which is used instead of a \
         login; remove it to log in"
    )]
    HeaderConfigured,
    /// The server answers without a login.
    #[error("the server requires no login")]
    NotRequired,
    /// The server could not be reached.
    #[error(transparent)]
    Http(#[from] McpHttpError),
    /// The authorization server could not be discovered.
    #[error("cannot determine how to log in at this server: {0}")]
    Discovery(String),
    /// The authorization URL is not safe to open.
    #[error("the server names no https URL for the login; check its `url` in settings")]
    BadAuthorizationUrl,
    /// There is no OAuth client to log in with.
    #[error(
        "the issuer does not register clients automatically; register one there manually, with the \
         redirect URI `{redirect_uri}`, and set `oauth.clientId` (and `oauth.clientSecret`, \
         `oauth.callbackPort`) in the settings of this server"
    )]
    NoClient {
        /// Where the browser is redirected to.
        redirect_uri: String,
    },
    /// The authorization server refused to register a client.
    #[error(
        "the issuer refused to register zero as a client ({why}); register one manually, with the \
         redirect URI `{redirect_uri}`, and set `oauth.clientId` in the settings of this server"
    )]
    Registration {
        /// Its explanation.
        why: String,
        /// Where the browser is redirected to.
        redirect_uri: String,
    },
    /// The callback port could not be bound.
    #[error(
        "cannot listen on port {port} of this machine, to which the browser is redirected: {why}"
    )]
    Port {
        /// The port; 0 for any.
        port: u16,
        /// Error of the operating system.
        why: String,
    },
    /// The user did not log in in time.
    #[error(
        "no login within {} s; run the command again, or pass `--paste` if the browser runs on \
         another machine",
        .after.as_secs()
    )]
    TimedOut {
        /// The time limit.
        after: Duration,
    },
    /// The pasted text is not the URL that the browser was redirected to.
    #[error("this is not the URL that the browser was redirected to: {0}")]
    Pasted(&'static str),
    /// The response belongs to another login.
    #[error("the response belongs to another login and was refused; start again")]
    StateMismatch,
    /// The response is from another issuer.
    #[error(
        "the response is not from the expected issuer and was refused; start again, and check the \
         server's `url`"
    )]
    IssuerMismatch,
    /// The user or the issuer refused the login.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// The login could not be stored.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
}

impl LoginError {
    pub(super) fn refused(error: &AuthError) -> Self {
        Self::Refused(describe_error(error))
    }
}
