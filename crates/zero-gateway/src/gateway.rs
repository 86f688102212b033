//! The gateway: state shared by all connections, and shutdown.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zero_session::sessions::SessionManager;
use zero_wire::frame::{BUFFERED_BYTES_MAX, PAYLOAD_BYTES_MAX, UNKNOWN_SENDER_BYTES_MAX};
use zero_wire::pipe::ServerPipeEnd;
use zero_wire::{CloseReason, close, events};

use crate::auth::{AuthConfig, Principal};
use crate::auth_limiter::{AuthAttemptLimits, AuthLimiter};
use crate::connection::{self, PeerOrigin};
use crate::connection_limiter::{ConnectionLimiter, ConnectionLimits};
use crate::heartbeat;
use crate::metric_families::MetricsSource;
use crate::pipe_transport::PipeTransport;
use crate::read_limiter::{ReadLimiter, ReadLimits};
use crate::request_filter::RequestFilter;
use crate::send_queue::{SendQueue, SendQueueLimits};
use crate::tool_host_table::ToolHostTable;

/// Minimum number of open files reserved for sessions and tools.
const RESERVED_FILES_MIN: u64 = 64;
/// Maximum number of open files reserved for sessions and tools.
const RESERVED_FILES_MAX: u64 = 4_096;

/// Configuration of a gateway.
pub struct GatewayConfig {
    /// The sessions that clients access.
    pub sessions: SessionManager,
    /// Accepted credentials.
    pub auth: AuthConfig,
    /// Limits of the gateway.
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
}

/// Limits of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayLimits {
    /// Maximum size of a message before authentication, in bytes.
    pub stranger_bytes_max: usize,
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
    /// Maximum number of unauthenticated connections; further ones wait to be accepted.
    pub strangers_max: usize,
    /// Maximum number of unauthenticated connections per remote address; further ones are dropped.
    pub strangers_per_address_max: usize,
    /// Maximum number of concurrent requests per connection.
    pub requests_max: usize,
    /// Maximum number of concurrent reads of histories and ledgers.
    pub reads_max: usize,
    /// Maximum number of concurrent reads per token. A connection has one at a time.
    pub reads_per_token_max: usize,
    /// Maximum number of reads per token that are queued or running.
    pub reads_asked_max: usize,
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
    /// How long active runs may continue after shutdown begins.
    pub shutdown_grace: Duration,
    /// How long connections stay open after that, so that clients receive the last events of runs.
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
    /// Lowers the connection limits so that connections fit into `files` open files, next to those
    /// reserved for sessions and tools. Excess connections are then refused with a reason instead
    /// of left waiting.
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

/// A gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<GatewayInner>,
}

/// State shared by all connections.
pub(crate) struct GatewayInner {
    /// All sessions of this gateway, of every owner.
    pub(crate) sessions: SessionManager,
    /// Accepted credentials.
    pub(crate) auth: AuthConfig,
    /// Limits of the gateway.
    pub(crate) limits: GatewayLimits,
    /// Version string sent to clients.
    pub(crate) version: String,
    /// Metrics of the tools on this machine.
    pub(crate) tool_metrics: Arc<dyn MetricsSource>,
    /// Start time.
    pub(crate) started: Instant,
    /// Number of open connections that completed the handshake.
    pub(crate) connections: AtomicU64,
    pub(crate) guard: RequestFilter,
    pub(crate) limiter: AuthLimiter,
    pub(crate) slots: ConnectionLimiter,
    pub(crate) reads: ReadLimiter,
    /// Connections that host the tools of sessions.
    pub(crate) hosts: ToolHostTable,
    /// Cancelled when no new clients are accepted.
    pub(crate) closing: CancellationToken,
    /// Cancelled when every connection has to end.
    pub(crate) stopped: CancellationToken,
    /// Running connections and requests.
    pub(crate) tasks: TaskTracker,
    registry: Mutex<ConnectionRegistry>,
    heartbeat: OnceLock<()>,
    shut_down: tokio::sync::OnceCell<()>,
}

#[derive(Default)]
struct ConnectionRegistry {
    next: u64,
    by_number: HashMap<u64, SendQueue>,
}

impl Gateway {
    /// Creates a gateway that does not listen anywhere yet.
    pub fn new(config: GatewayConfig) -> Self {
        let limits = config.limits;
        let slots = ConnectionLimiter::new(ConnectionLimits {
            strangers_max: limits.strangers_max,
            strangers_per_address_max: limits.strangers_per_address_max,
            connections_max: limits.connections_max,
            connections_per_address_max: limits.connections_per_address_max,
        });
        let reads = ReadLimiter::new(ReadLimits {
            all_max: limits.reads_max,
            of_one_max: limits.reads_per_token_max,
            asked_max: limits.reads_asked_max,
            wait_max: limits.read_wait,
        });
        let inner = GatewayInner {
            sessions: config.sessions,
            auth: config.auth,
            version: config.version,
            tool_metrics: config.tool_metrics,
            started: Instant::now(),
            connections: AtomicU64::new(0),
            guard: RequestFilter::new(&config.allowed_hosts, &config.allowed_origins),
            limiter: AuthLimiter::new(limits.tries.clone()),
            slots,
            reads,
            hosts: ToolHostTable::default(),
            closing: CancellationToken::new(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
            registry: Mutex::default(),
            heartbeat: OnceLock::new(),
            shut_down: tokio::sync::OnceCell::new(),
            limits,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Serves a client in this process as the given principal, without authentication.
    pub fn attach_pipe(&self, end: ServerPipeEnd, who: Principal) {
        let gateway = Arc::clone(&self.inner);
        let link = PipeTransport::new(end);
        self.inner.tasks.spawn(connection::run_connection(gateway, link, PeerOrigin::Process(who)));
    }

    /// Shuts down: stops accepting clients, notifies connected ones, gives runs `grace` to finish,
    /// and closes every connection. Further calls wait for the same shutdown.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.shut_down.get_or_init(|| self.inner.stop(grace)).await;
    }
}

/// Removes the connection from the gateway's list on drop.
pub(crate) struct RegistrationGuard<'a> {
    gateway: &'a GatewayInner,
    number: u64,
}

impl GatewayInner {
    /// Registers a connection for events that go to all. Returns `None` after shutdown.
    pub(crate) fn register(self: &Arc<Self>, outbox: &SendQueue) -> Option<RegistrationGuard<'_>> {
        self.heartbeat.get_or_init(|| {
            tokio::spawn(heartbeat::run_heartbeat(Arc::downgrade(self)));
        });
        let mut registry = self.lock_registry();
        // Checked under the lock; otherwise a connection could register between the shutdown and
        // the close of all queues.
        if self.stopped.is_cancelled() {
            return None;
        }
        let number = registry.next;
        registry.next += 1;
        registry.by_number.insert(number, outbox.clone());
        self.connections.store(registry.by_number.len() as u64, Ordering::Relaxed);
        Some(RegistrationGuard { gateway: self, number })
    }

    /// Send queues of all connections that completed the handshake.
    pub(crate) fn send_queues(&self) -> Vec<SendQueue> {
        self.lock_registry().by_number.values().cloned().collect()
    }

    /// Close reason sent when the gateway shuts down.
    pub(crate) fn shutdown_close_reason(&self) -> CloseReason {
        CloseReason::new(close::RESTART, "service restart")
    }

    async fn stop(&self, grace: Duration) {
        self.closing.cancel();
        let told = events::ShutdownEvent {
            reason: "service restart".to_owned(),
            restart_expected_ms: None,
        };
        for outbox in self.send_queues() {
            outbox.send_event(events::SHUTDOWN, &told);
        }
        self.sessions.shut_down(grace).await;
        if !self.lock_registry().by_number.is_empty() {
            tokio::time::sleep(self.limits.last_words).await;
        }
        self.stopped.cancel();
        let farewell = self.shutdown_close_reason();
        for outbox in self.send_queues() {
            outbox.close(farewell.code, &farewell.reason);
        }
        self.tasks.close();
        // A client that does not read is not waited for any longer.
        if timeout(self.limits.close_grace * 2, self.tasks.wait()).await.is_err() {
            for outbox in self.send_queues() {
                outbox.abort(farewell.code, &farewell.reason);
            }
            let _ = timeout(self.limits.close_grace * 2, self.tasks.wait()).await;
        }
    }

    fn lock_registry(&self) -> MutexGuard<'_, ConnectionRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RegistrationGuard<'_> {
    fn drop(&mut self) {
        let mut registry = self.gateway.lock_registry();
        registry.by_number.remove(&self.number);
        self.gateway.connections.store(registry.by_number.len() as u64, Ordering::Relaxed);
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
