//! Servers over HTTP.
//!
//! The SDK drives the protocol: sessions, streams, expired sessions. This module controls the input
//! and the connections: every connection passes the [`NetworkGuard`], every body, event and header
//! is limited, secrets are sent only to the origin for which they were configured, and proxies,
//! cookies and cross-origin redirects are not used.

mod error;
mod event_stream;
mod mcp_http_client;
mod message_reader;
mod token_provider;

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::transport::Transport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};

pub use zero_runtime::web::{NetworkGuard, UnreachableError};

pub use self::error::{McpHttpError, find_http_error};

use self::mcp_http_client::McpHttpClient;
use crate::client::credentials::LoginStore;
use crate::server_definition::{HttpEndpoint, ServerAlias};
use crate::wire::ConnectionDiagnostics;

/// Limits of HTTP requests and responses.
#[derive(Clone, Copy, Debug)]
pub struct McpHttpClientLimits {
    /// Maximum size of a response body and of an event, in bytes.
    pub message_bytes_max: usize,
    /// Time limit for connecting, including TLS.
    pub connect_time: Duration,
    /// Time limit for the head of a response, except to a tool call.
    pub head_time: Duration,
    /// Time limit for the head of the response to a tool call. A server without streams sends it
    /// when the call is done; the caller usually gives up earlier.
    pub call_head_time: Duration,
    /// Time limit between two chunks of a body.
    pub idle_time: Duration,
    /// Time limit for a whole body.
    pub body_time: Duration,
}

impl Default for McpHttpClientLimits {
    fn default() -> Self {
        Self {
            message_bytes_max: 8 * 1024 * 1024,
            connect_time: Duration::from_secs(10),
            head_time: Duration::from_secs(60),
            call_head_time: crate::server_definition::CALL_TIMEOUT_MAX + Duration::from_secs(60),
            idle_time: Duration::from_secs(30),
            body_time: Duration::from_secs(120),
        }
    }
}

/// How often in a row a broken stream is resumed.
const RESUMES_MAX: usize = 5;
/// Longest delay before a stream is resumed.
const RESUME_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Prepares the transport to a server; sends nothing. [`find_http_error`] finds the
/// [`McpHttpError`] in the errors of the transport.
pub fn connect(
    alias: &ServerAlias,
    endpoint: &HttpEndpoint,
    guard: &NetworkGuard,
    credentials: Arc<dyn LoginStore>,
    diagnostics: ConnectionDiagnostics,
) -> Result<impl Transport<RoleClient> + use<>, McpHttpError> {
    connect_within(McpHttpClientLimits::default(), alias, endpoint, guard, credentials, diagnostics)
}

/// Like [`connect`], with other limits.
pub fn connect_within(
    limits: McpHttpClientLimits,
    alias: &ServerAlias,
    endpoint: &HttpEndpoint,
    guard: &NetworkGuard,
    credentials: Arc<dyn LoginStore>,
    diagnostics: ConnectionDiagnostics,
) -> Result<impl Transport<RoleClient> + use<>, McpHttpError> {
    let exchange = McpHttpClient::new(limits, alias, endpoint, guard, credentials, diagnostics)?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(endpoint.url.as_str())
        .max_sse_event_size(limits.message_bytes_max)
        .reinit_on_expired_session(true);
    let mut resume = ExponentialBackoff::default();
    resume.max_times = Some(RESUMES_MAX);
    resume.max_delay = Some(RESUME_PAUSE_MAX);
    config.retry_config = Arc::new(resume);
    Ok(StreamableHttpClientTransport::with_client(exchange, config))
}

#[cfg(test)]
pub(crate) mod tests;
