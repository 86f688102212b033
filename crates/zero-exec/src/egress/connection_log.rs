//! The record of a connection, and where it is written.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use zero_core::CallId;
use zero_policy::Verdict;

use super::proxy_request::ConnectTarget;

/// Where connections are recorded. The proxy calls it on threads that may block.
pub trait ConnectionLog: Send + Sync {
    /// Fails if a record could not be written; then the proxy makes no connection.
    fn ensure_writable(&self) -> io::Result<()>;

    /// Writes the record of a connection that has ended.
    fn write(&self, record: ConnectionRecord) -> io::Result<()>;
}

/// The record of one connection.
#[derive(Clone, Debug)]
pub struct ConnectionRecord {
    /// When the connection was accepted.
    pub time: Timestamp,
    /// Time from accept to close.
    pub duration: Duration,
    /// The call that opened the connection, if known.
    pub call: Option<CallId>,
    /// The requested host and port, if the request was readable. A host name can carry secret
    /// data, so the log must redact it.
    pub target: Option<ConnectTarget>,
    /// The client's protocol, as a stable word.
    pub protocol: &'static str,
    /// The address that the proxy connected to.
    pub address: Option<IpAddr>,
    /// The policy decision, if the request got that far.
    pub decision: Option<ConnectionDecision>,
    /// How the connection ended.
    pub status: ConnectionStatus,
    /// Details about the end, such as the error.
    pub message: Option<String>,
    /// Bytes that the client sent.
    pub sent_bytes: u64,
    /// Bytes that the client received.
    pub received_bytes: u64,
}

/// The policy decision about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionDecision {
    /// Only `Allow` lets the connection be made.
    pub verdict: Verdict,
    /// Why the policy decided so, in words.
    pub reason: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// Where that rule is written.
    pub source: Option<String>,
    /// Who was asked about the connection while it waited, and the answer.
    pub answer_source: Option<String>,
    /// The grants that the answer created for the session, as rules.
    pub grants: Vec<String>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// One side closed it.
    Ok,
    /// The policy denied it.
    Denied,
    /// A time limit was exceeded.
    TimedOut,
    /// The client disconnected, or the proxy shut down.
    Cancelled,
    /// The connection failed, or the client sent something malformed.
    Failed,
}
