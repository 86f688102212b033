//! The MCP transport below the SDK, for both sides: reads and validates messages, and limits them.
//!
//! The peer may be broken or hostile. It may write endless lines, nest values endlessly, send
//! answers to requests that nobody made, mix its log with its messages, or never read. Each of
//! these is limited and counted in [`ConnectionDiagnostics`]. An answer that cannot be used becomes
//! an immediate error for the request that waits for it. One invalid tool or content block does not
//! affect the others.
//!
//! [`LineTransport`] is the transport over pipes. [`MessageIntake`] is how it processes each
//! incoming message; other transports use it, too.

mod connection_diagnostics;
mod envelope;
pub(crate) mod json_scan;
mod line_transport;
mod message_intake;
mod outbound_queue;
mod pending_requests;
mod role;
mod sanitize;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use connection_diagnostics::{
    ConnectionDiagnostics, DiagnosticsReport, DisconnectCause, MalformedTool,
};
pub use line_transport::LineTransport;
pub(crate) use message_intake::find_refusal;
pub use message_intake::{IntakeOutcome, MessageIntake};
pub use outbound_queue::McpSendError;
pub use pending_requests::McpRequestKind;
pub use role::ConnectionRole;

/// Limits for the messages of a peer, and for the time that it may take to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpMessageLimits {
    /// Maximum length of a line, in bytes. The rest of a longer one is read and dropped.
    pub line_bytes_max: usize,
    /// Maximum nesting depth of a message.
    pub depth_max: usize,
    /// Maximum number of values in a message. Each takes some hundred bytes once parsed, however
    /// short it is.
    pub nodes_max: usize,
    /// How long the peer may not read.
    pub write_timeout: Duration,
    /// Maximum number of messages that wait to be written.
    pub queue_max: usize,
    /// Maximum number of the peer's requests that are processed at a time.
    pub requests_max: usize,
}

impl Default for McpMessageLimits {
    fn default() -> Self {
        Self {
            line_bytes_max: 8 << 20,
            depth_max: 128,
            nodes_max: 200_000,
            write_timeout: Duration::from_secs(5),
            queue_max: 64,
            requests_max: 256,
        }
    }
}
