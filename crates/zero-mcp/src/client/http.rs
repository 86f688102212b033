//! Servers that are reached by HTTP.
//!
//! The SDK drives the protocol: sessions, streams, what to do when a session is gone. What comes in
//! and where it goes is ours: every connection passes the [`NetworkGuard`], every body, event and
//! head is bounded, secrets go to the origin they were written for and to no other, and no proxy,
//! cookie or redirect is taken from elsewhere.

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

/// The bounds of what is said by HTTP.
#[derive(Clone, Copy, Debug)]
pub struct McpHttpClientLimits {
    /// Longest reply, and longest event of a stream, in bytes.
    pub message_bytes_max: usize,
    /// How long connecting may take, TLS included.
    pub connect_time: Duration,
    /// How long the head of an answer may take where nobody works on it.
    pub head_time: Duration,
    /// How long the head of an answer to a call may take. A server without streams sends it when the
    /// call is done; whoever calls gives up earlier.
    pub call_head_time: Duration,
    /// How long a body may be without a byte.
    pub idle_time: Duration,
    /// How long a whole body may take.
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

/// How often a stream that broke is taken up again, one after the other.
const RESUMES_MAX: usize = 5;
/// Longest pause before that.
const RESUME_PAUSE_MAX: Duration = Duration::from_secs(30);

/// Prepares the connection to a server; nothing is sent before the SDK does. Errors of the transport
/// lead to an [`McpHttpError`]: see [`find_http_error`].
pub fn connect(
    alias: &ServerAlias,
    endpoint: &HttpEndpoint,
    guard: &NetworkGuard,
    credentials: Arc<dyn LoginStore>,
    troubles: ConnectionDiagnostics,
) -> Result<impl Transport<RoleClient> + use<>, McpHttpError> {
    connect_within(McpHttpClientLimits::default(), alias, endpoint, guard, credentials, troubles)
}

/// The same with other bounds.
pub fn connect_within(
    limits: McpHttpClientLimits,
    alias: &ServerAlias,
    endpoint: &HttpEndpoint,
    guard: &NetworkGuard,
    credentials: Arc<dyn LoginStore>,
    troubles: ConnectionDiagnostics,
) -> Result<impl Transport<RoleClient> + use<>, McpHttpError> {
    let exchange = McpHttpClient::new(limits, alias, endpoint, guard, credentials, troubles)?;
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
