//! What is recorded of connections, and where.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use zero_core::CallId;
use zero_policy::Verdict;

use super::proxy_request::ConnectTarget;

/// Where connections are recorded. The proxy calls it on threads that may block.
pub trait ConnectionLog: Send + Sync {
    /// Fails where a record cannot be written: then no connection is made.
    fn ensure_writable(&self) -> io::Result<()>;

    /// Writes the record of a connection that has ended.
    fn write(&self, record: ConnectionRecord) -> io::Result<()>;
}

/// What became of one connection.
#[derive(Clone, Debug)]
pub struct ConnectionRecord {
    /// When it began.
    pub time: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// The call whose connection it is, where that is known.
    pub call: Option<CallId>,
    /// Where the client wanted to go, if it came so far. A name can be made to carry a secret out.
    pub target: Option<ConnectTarget>,
    /// What the client spoke: a stable word.
    pub protocol: &'static str,
    /// The address that was connected to.
    pub address: Option<IpAddr>,
    /// How it was decided, if it came so far.
    pub decision: Option<ConnectionDecision>,
    /// How it ended.
    pub status: ConnectionStatus,
    /// What there is to know about its end.
    pub message: Option<String>,
    /// Bytes that the client sent.
    pub sent_bytes: u64,
    /// Bytes that the client received from the host.
    pub received_bytes: u64,
}

/// How a connection was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionDecision {
    /// What was decided; only `Allow` lets the connection be made.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// Where that rule is written.
    pub source: Option<String>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// One of both sides closed it.
    Ok,
    /// It was not allowed.
    Denied,
    /// Something took too long.
    TimedOut,
    /// The client went away, or the proxy ended.
    Cancelled,
    /// It could not be made, or what was said on it made no sense.
    Failed,
}
