//! What goes over the wire, bounded: our own transport under the SDK, for both sides.
//!
//! Whoever is at the other end may be broken or hostile. It may write lines without end, nest
//! without end, answer what nobody asked, mix its log into its answers, or never read. Here each of
//! that has a bound and is counted in [`ConnectionDiagnostics`]; an answer that cannot be taken becomes an error
//! for the one who waits for it, at once, and one bad tool or content block leaves its neighbours
//! alone.
//!
//! [`LineTransport`] is the transport over pipes. [`MessageIntake`] is what it does with each message that comes
//! in, for other transports to do the same.

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

/// How much is taken from the other end, and how long it may take to read what it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct McpMessageLimits {
    /// Longest line. The rest of a longer one is read and thrown away.
    pub line_bytes_max: usize,
    /// Deepest nesting of a message.
    pub depth_max: usize,
    /// Most values in a message. Parsed, each takes some hundred bytes however short it is.
    pub nodes_max: usize,
    /// How long the other end may let us wait until it reads on.
    pub write_timeout: Duration,
    /// Messages that wait to be written.
    pub queue_max: usize,
    /// Requests of the other end that are worked on at a time.
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
