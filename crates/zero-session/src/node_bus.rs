//! The port through which the processes of one cluster reach each other.
//!
//! A bus carries two things: rings ("the ledger of this session has entries up to number N") and requests
//! that one process sends to another and that are answered. It is never the truth: a ring may get lost,
//! and what a request changes is in the store before it is answered. A process that missed a ring finds the
//! entries in the store.
//!
//! Processes with another [`ClusterName`] do not exist for each other, even on the same server.

mod bus_counters;
mod doorbell;
#[cfg(feature = "cluster")]
mod doorbell_poller;
mod node_bus_store;
#[cfg(feature = "cluster")]
mod outgoing_rings;
mod request_server;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;

pub(crate) use self::bus_counters::BusCounters;
pub(crate) use self::doorbell::DoorbellRegistry;
pub use self::doorbell::{Doorbell, DoorbellSignal};
#[cfg(feature = "cluster")]
pub(crate) use self::doorbell_poller::{DoorbellHints, DoorbellPoller};
pub use self::node_bus_store::{BusSecret, ClusterIdentity, NodeBusStore};
#[cfg(feature = "cluster")]
pub(crate) use self::outgoing_rings::OutgoingRings;
#[cfg(feature = "cluster")]
pub(crate) use self::request_server::NodeRequestRefusal;
pub(crate) use self::request_server::RequestServer;

/// Maximum size of the body of a request or an answer: more than a frame of the gateway's protocol.
pub const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of requests of others that a process works on at a time.
pub const REQUESTS_MAX: usize = 256;
/// Maximum length of the name of a process, in bytes.
pub const NODE_NAME_BYTES_MAX: usize = 255;

/// Connects the processes of one cluster.
pub trait NodeBus: Send + Sync {
    /// Name of this process. No other process has or had it.
    fn local_node(&self) -> &str;

    /// Lets all processes, this one included, know that the ledger of a session has entries up to `seq`.
    /// Never waits. Rings of one session may be merged into the last of them, and may get lost.
    fn ring(&self, session: &SessionId, seq: u64);

    /// Receives the rings of a session from now on. To miss nothing, read the store after this.
    fn doorbell(&self, session: &SessionId) -> Doorbell;

    /// Sends a request to a process and waits for its answer.
    fn request(
        &self,
        node: &str,
        body: Bytes,
        within: Duration,
    ) -> BoxFuture<'_, Result<Bytes, NodeBusError>>;

    /// Answers the requests of others from now on. Until then they are refused as [`NodeBusError::Busy`].
    /// The bus keeps the handler alive.
    fn serve(&self, handler: Arc<dyn NodeRequestHandler>);

    /// Whether the bus works, and what it has done.
    fn status(&self) -> NodeBusStatus;
}

/// Answers requests of other processes.
pub trait NodeRequestHandler: Send + Sync {
    /// Answers a request of the process `from`. It runs to its end, also when no process waits for the answer
    /// any more.
    fn answer(self: Arc<Self>, from: String, body: Bytes) -> BoxFuture<'static, Bytes>;
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeBusError {
    /// No process has that name any more. The request was not executed.
    #[error("the gateway `{0}` cannot be reached; it has ended or lost its connection")]
    NoSuchNode(String),
    /// The process has too many requests, or does not answer any yet. The request was not executed.
    #[error("the gateway `{0}` is busy; try again")]
    Busy(String),
    /// The request is larger than [`BODY_BYTES_MAX`]. It was not sent.
    #[error(
        "a request of {bytes} bytes is too large for another gateway; {BODY_BYTES_MAX} are allowed"
    )]
    TooLarge {
        /// Size of its body.
        bytes: usize,
    },
    /// The bus does not work at the moment. The request was not sent.
    #[error("other gateways cannot be reached: {why}")]
    Unavailable {
        /// The cause, without passwords.
        why: String,
    },
    /// No answer came in time. Whether the request was executed is not known.
    #[error("the gateway `{node}` did not answer within {} ms", within.as_millis())]
    TimedOut {
        /// Name of the process.
        node: String,
        /// How long was waited.
        within: Duration,
    },
    /// The process failed while it executed the request, or its answer was lost or too large. It is
    /// not known which part of it was executed.
    #[error("the gateway `{node}` gave no answer: {why}")]
    Interrupted {
        /// Name of the process.
        node: String,
        /// What happened.
        why: String,
    },
}

impl NodeBusError {
    /// Whether the request may have been executed, wholly or in part. Otherwise it can be sent again.
    pub fn may_have_run(&self) -> bool {
        match self {
            Self::TimedOut { .. } | Self::Interrupted { .. } => true,
            Self::NoSuchNode(_)
            | Self::Busy(_)
            | Self::TooLarge { .. }
            | Self::Unavailable { .. } => false,
        }
    }
}

/// Whether a bus works, and what it has done since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeBusStatus {
    /// Whether other processes can be reached.
    pub state: NodeBusState,
    /// How long a message took from this process to the bus and back, when that was measured last.
    pub round_trip: Option<Duration>,
    /// Counts since the start.
    pub counts: NodeBusCounts,
}

/// Whether other processes can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeBusState {
    /// They can.
    Connected,
    /// They cannot, at the moment.
    Disconnected {
        /// The cause, without passwords.
        why: String,
    },
}

/// What a bus has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeBusCounts {
    /// Rings that were sent, after merging.
    pub rings_sent: u64,
    /// Rings that were received.
    pub rings_received: u64,
    /// Requests that were sent.
    pub requests_sent: u64,
    /// Requests of others that were executed.
    pub requests_served: u64,
    /// Requests of others that were refused, because there were too many.
    pub requests_refused: u64,
    /// Messages that were ignored, because they were malformed, forged, repeated, late or of another
    /// cluster.
    pub messages_ignored: u64,
    /// How often the connection was lost.
    pub connections_lost: u64,
}

/// Name of a cluster: 1 to 64 lower-case letters, digits or `-`, of which the first is no `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName(String);

/// The name of a cluster is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` cannot be the name of a cluster; it has 1 to {} lower-case letters, digits or `-`, and does not begin with `-`",
    .0.escape_debug(),
    ClusterName::LEN_MAX
)]
pub struct InvalidClusterNameError(String);

impl ClusterName {
    /// Maximum length.
    pub const LEN_MAX: usize = 64;

    /// Checks a name.
    pub fn new(name: &str) -> Result<Self, InvalidClusterNameError> {
        let is_allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let is_valid = (1..=Self::LEN_MAX).contains(&name.len())
            && name.bytes().all(is_allowed)
            && !name.starts_with('-');
        match is_valid {
            true => Ok(Self(name.to_owned())),
            false => Err(InvalidClusterNameError(name.to_owned())),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for ClusterName {
    fn default() -> Self {
        Self("zero".to_owned())
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_names_are_checked() {
        let long = "a".repeat(65);
        for (name, is_valid) in [
            ("zero", true),
            ("a", true),
            ("eu-1", true),
            (&long[1..], true),
            ("", false),
            (&long, false),
            ("-a", false),
            ("A", false),
            ("a.b", false),
            ("a*", false),
            (">", false),
            ("a b", false),
            ("ä", false),
        ] {
            assert_eq!(ClusterName::new(name).is_ok(), is_valid, "{name}");
        }
    }
}
