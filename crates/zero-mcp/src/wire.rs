//! The MCP transport below the SDK, for both sides: reads and validates messages, and limits them.
//!
//! The peer may be broken or hostile. It may write endless lines, nest values endlessly, send
//! answers to requests that were never made, mix its log with its messages, or never read. Each of
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
mod message_limits;
mod outbound_queue;
mod pending_requests;
mod role;
mod sanitize;
#[cfg(test)]
mod tests;

pub use connection_diagnostics::{
    ConnectionDiagnostics, DiagnosticsReport, DisconnectCause, MalformedTool,
};
pub use line_transport::LineTransport;
pub(crate) use message_intake::find_refusal;
pub use message_intake::{IntakeOutcome, MessageIntake};
pub use message_limits::McpMessageLimits;
pub use outbound_queue::McpSendError;
pub use pending_requests::McpRequestKind;
pub use role::ConnectionRole;
