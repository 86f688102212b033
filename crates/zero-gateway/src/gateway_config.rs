//! Configuration and limits of a gateway.

use std::sync::Arc;
use std::time::Duration;

use zero_runtime::tool_backend::FolderAccess;
use zero_session::sessions::SessionManager;
use zero_wire::frame::{BUFFERED_BYTES_MAX, PAYLOAD_BYTES_MAX, UNAUTHENTICATED_BYTES_MAX};

use crate::auth::AuthConfig;
use crate::auth_limiter::AuthAttemptLimits;
use crate::device_registry::{DeviceStore, NoDeviceStore};
use crate::machine_reports::MachineReports;
use crate::metric_families::MetricsSource;
use crate::send_queue::SendQueueLimits;

/// Minimum number of open files reserved for sessions and tools.
const RESERVED_FILES_MIN: u64 = 64;
/// Maximum number of open files reserved for sessions and tools.
const RESERVED_FILES_MAX: u64 = 4_096;

/// Configuration of a gateway.
pub struct GatewayConfig {
    /// The sessions that clients access.
    pub sessions: SessionManager,
    /// Credentials and their principals.
    pub auth: AuthConfig,
    /// Limits on connections, messages and reads.
    pub limits: GatewayLimits,
    /// Version string sent to clients.
    pub version: String,
    /// Browser origins that may connect, such as `https://app.example:8443`. All other pages are
    /// refused, including pages served from this machine.
    pub allowed_origins: Vec<String>,
    /// Host names besides this machine's own that requests may be addressed to, without a port.
    pub allowed_hosts: Vec<String>,
    /// Metrics of the tools on this machine.
    pub tool_metrics: Arc<dyn MetricsSource>,
    /// What the web console needs.
    pub console: ConsoleConfig,
}

/// What the web console needs besides sessions.
pub struct ConsoleConfig {
    /// Where paired devices are stored.
    pub devices: Arc<dyn DeviceStore>,
    /// Folders of this machine in which sessions of paired devices without the admin scope may work.
    pub folders: FolderAccess,
    /// Reports on the machine; without them, the methods that need them are refused.
    pub machine: Option<Arc<dyn MachineReports>>,
    /// The address by which browsers reach it, if that is not the one the gateway listens on.
    pub public_url: Option<String>,
}

impl Default for ConsoleConfig {
    /// Forgets devices at the end of the process, and reports nothing.
    fn default() -> Self {
        Self {
            devices: Arc::new(NoDeviceStore),
            folders: FolderAccess::Folders([].into()),
            machine: None,
            public_url: None,
        }
    }
}

/// Bounds of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Maximum size of a message before authentication, in bytes.
    pub unauthenticated_bytes_max: usize,
    /// Maximum size of a message after authentication, in bytes.
    pub payload_bytes_max: usize,
    /// Maximum size of the queue for one client, in bytes.
    pub buffered_bytes_max: usize,
    /// Maximum number of messages in the queue for one client.
    pub buffered_messages_max: usize,
    /// Maximum number of WebSocket connections; further ones are refused.
    pub connections_max: usize,
    /// Maximum number of connections per remote address.
    pub connections_per_address_max: usize,
    /// Maximum number of unauthenticated connections. At the limit, a new one takes the place of the
    /// oldest.
    pub unauthenticated_max: usize,
    /// The same per remote address.
    pub unauthenticated_per_address_max: usize,
    /// How long an unauthenticated connection that sends nothing keeps its place at the limit.
    pub silent_grace: Duration,
    /// How long every other unauthenticated connection keeps its place at the limit.
    pub handshake_grace: Duration,
    /// Maximum number of concurrent requests per connection.
    pub requests_max: usize,
    /// Maximum number of concurrent reads of histories and ledgers.
    pub reads_max: usize,
    /// Maximum number of concurrent reads per token. A connection has one at a time.
    pub reads_per_token_max: usize,
    /// Maximum number of reads per token that are queued or running.
    pub read_requests_max: usize,
    /// How long a read may wait in the queue.
    pub read_wait: Duration,
    /// Limits for failed authentication attempts.
    pub tries: AuthAttemptLimits,
    /// Time limit for the TLS handshake, and for receiving a request head.
    pub head_time: Duration,
    /// Time limit for a client to send `connect`.
    pub handshake_time: Duration,
    /// How long a client may take to receive the close frame.
    pub close_grace: Duration,
    /// Interval of `tick` events.
    pub tick_interval: Duration,
    /// Interval of pings; also the time limit for a pong.
    pub ping_interval: Duration,
    /// How long a client that hosts tools may say nothing about a call, although its connection is
    /// alive. The call then ends. A call with a shorter deadline ends soon after that.
    pub tool_host_silence_max: Duration,
    /// How long active runs may continue after shutdown begins.
    pub shutdown_grace: Duration,
    /// How long connections stay open after that, so that clients receive the last events of runs.
    pub last_words: Duration,
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            unauthenticated_bytes_max: UNAUTHENTICATED_BYTES_MAX,
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            buffered_bytes_max: BUFFERED_BYTES_MAX,
            buffered_messages_max: 100_000,
            connections_max: 16_384,
            connections_per_address_max: 256,
            unauthenticated_max: 512,
            unauthenticated_per_address_max: 32,
            silent_grace: Duration::from_millis(100),
            handshake_grace: Duration::from_secs(1),
            requests_max: 256,
            reads_max: 4,
            reads_per_token_max: 2,
            read_requests_max: 1_024,
            read_wait: Duration::from_secs(30),
            tries: AuthAttemptLimits::default(),
            head_time: Duration::from_secs(5),
            handshake_time: Duration::from_secs(15),
            close_grace: Duration::from_secs(1),
            tick_interval: Duration::from_secs(30),
            ping_interval: Duration::from_secs(25),
            tool_host_silence_max: Duration::from_secs(15 * 60),
            shutdown_grace: Duration::from_secs(10),
            last_words: Duration::from_millis(200),
        }
    }
}

impl GatewayLimits {
    /// Lowers the connection limits so that connections fit into `files` open files, next to those
    /// reserved for sessions and tools. Excess connections are then refused with a reason instead
    /// of left waiting.
    #[must_use]
    pub fn within_open_files(mut self, files: u64) -> Self {
        let own = (files / 4).clamp(RESERVED_FILES_MIN, RESERVED_FILES_MAX);
        let room = usize::try_from(files.saturating_sub(own)).unwrap_or(usize::MAX);
        self.unauthenticated_max = self.unauthenticated_max.min(room / 4).max(1);
        let room = room.saturating_sub(self.unauthenticated_max);
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
    fn check(files: u64, unauthenticated: usize, connections: usize) {
        let limits = GatewayLimits::default().within_open_files(files);
        assert_eq!(
            (limits.unauthenticated_max, limits.connections_max),
            (unauthenticated, connections)
        );
        let all = (unauthenticated + connections) as u64;
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
