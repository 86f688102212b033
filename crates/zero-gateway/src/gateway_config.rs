//! What a gateway is made of, and its bounds.

use std::sync::Arc;
use std::time::Duration;

use zero_session::sessions::SessionManager;
use zero_wire::frame::{BUFFERED_BYTES_MAX, PAYLOAD_BYTES_MAX, UNKNOWN_SENDER_BYTES_MAX};

use crate::auth::AuthConfig;
use crate::auth_limiter::AuthAttemptLimits;
use crate::metric_families::MetricsSource;
use crate::send_queue::SendQueueLimits;

/// Fewest files that are left to sessions and tools.
const RESERVED_FILES_MIN: u64 = 64;
/// Most files that are.
const RESERVED_FILES_MAX: u64 = 4_096;

/// What a gateway is made of.
pub struct GatewayConfig {
    /// The sessions it is in front of.
    pub sessions: SessionManager,
    /// Who may use it.
    pub auth: AuthConfig,
    /// Its bounds.
    pub limits: GatewayLimits,
    /// Its version, as clients are told.
    pub version: String,
    /// Origins whose pages may use it, such as `https://app.example:8443`. No page may otherwise,
    /// not even one of this machine.
    pub allowed_origins: Vec<String>,
    /// Names besides this machine's own that requests may be addressed to, without a port.
    pub allowed_hosts: Vec<String>,
    /// What the tools of this machine did.
    pub tool_metrics: Arc<dyn MetricsSource>,
}

/// Bounds of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Bytes of a message before its sender is known.
    pub stranger_bytes_max: usize,
    /// Bytes of a message afterwards.
    pub payload_bytes_max: usize,
    /// Bytes that may wait for one client.
    pub buffered_bytes_max: usize,
    /// Messages that may wait for one client.
    pub buffered_messages_max: usize,
    /// WebSocket connections at a time, of all addresses; more are refused.
    pub connections_max: usize,
    /// Connections of one address of another machine.
    pub connections_per_address_max: usize,
    /// Connections at a time whose senders are not known yet; more wait to be taken.
    pub strangers_max: usize,
    /// The same of one address of another machine; more are dropped.
    pub strangers_per_address_max: usize,
    /// Requests of one connection at a time.
    pub requests_max: usize,
    /// Reads of a history or a ledger at a time.
    pub reads_max: usize,
    /// The same with one token; of one connection it is one.
    pub reads_per_token_max: usize,
    /// The same that may wait, with one token.
    pub reads_asked_max: usize,
    /// How long one waits for its turn.
    pub read_wait: Duration,
    /// How often somebody may guess.
    pub tries: AuthAttemptLimits,
    /// How long TLS and the head of a request may take, each.
    pub head_time: Duration,
    /// How long a client may take to say who it is.
    pub handshake_time: Duration,
    /// How long it may take to hear that a connection ends.
    pub close_grace: Duration,
    /// Time between two ticks.
    pub tick_interval: Duration,
    /// Time between two pings, and for the answer to one.
    pub ping_interval: Duration,
    /// How long runs have to end when the gateway stops.
    pub shutdown_grace: Duration,
    /// How long what runs said last then has to reach the clients, from task to task.
    pub last_words: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            stranger_bytes_max: UNKNOWN_SENDER_BYTES_MAX,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            buffered_bytes_max: BUFFERED_BYTES_MAX,
            buffered_messages_max: 100_000,
            connections_max: 16_384,
            connections_per_address_max: 256,
            strangers_max: 512,
            strangers_per_address_max: 32,
            requests_max: 256,
            reads_max: 4,
            reads_per_token_max: 2,
            reads_asked_max: 1_024,
            read_wait: Duration::from_secs(30),
            tries: AuthAttemptLimits::default(),
            head_time: Duration::from_secs(10),
            handshake_time: Duration::from_secs(15),
            close_grace: Duration::from_secs(1),
            tick_interval: Duration::from_secs(30),
            ping_interval: Duration::from_secs(25),
            shutdown_grace: Duration::from_secs(10),
            last_words: Duration::from_millis(200),
        }
    }
}

impl GatewayLimits {
    /// Bounded so that connections fit into so many open files, beside what sessions and tools
    /// need: one too many is then told so, and not left waiting.
    #[must_use]
    pub fn within_open_files(mut self, files: u64) -> Self {
        let own = (files / 4).clamp(RESERVED_FILES_MIN, RESERVED_FILES_MAX);
        let room = usize::try_from(files.saturating_sub(own)).unwrap_or(usize::MAX);
        self.strangers_max = self.strangers_max.min(room / 4).max(1);
        let room = room.saturating_sub(self.strangers_max);
        self.connections_max = self.connections_max.min(room).max(1);
        self
    }

    pub(crate) fn send_queue_limits(&self) -> SendQueueLimits {
        SendQueueLimits {
            bytes_max: self.buffered_bytes_max,
            messages_max: self.buffered_messages_max,
            message_bytes_max: self.payload_bytes_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: u64, strangers: usize, connections: usize) {
        let limits = GatewayLimits::default().within_open_files(files);
        assert_eq!((limits.strangers_max, limits.connections_max), (strangers, connections));
        let all = (strangers + connections) as u64;
        assert!(all < files.max(3), "{all} do not fit into {files} files");
    }

    #[test]
    fn connection_limits_fit_open_file_limit() {
        check(0, 1, 1);
        check(64, 1, 1);
        check(96, 8, 24);
        check(1_024, 192, 576);
        check(4_096, 512, 2_560);
        check(1_048_576, 512, 16_384);
        check(u64::MAX, 512, 16_384);
    }
}
