//! The gateway: what all connections share, and how it ends.

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

/// A gateway. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<GatewayInner>,
}

/// What all connections share.
pub(crate) struct GatewayInner {
    /// All sessions of this gateway, whoever owns them.
    pub(crate) sessions: SessionManager,
    /// Who may use it.
    pub(crate) auth: AuthConfig,
    /// Its bounds.
    pub(crate) limits: GatewayLimits,
    /// The gateway's version, as clients are told.
    pub(crate) version: String,
    /// What the tools of this machine did.
    pub(crate) tool_metrics: Arc<dyn MetricsSource>,
    /// When it started.
    pub(crate) started: Instant,
    /// Connections that were greeted and are there.
    pub(crate) connections: AtomicU64,
    pub(crate) guard: RequestFilter,
    pub(crate) limiter: AuthLimiter,
    pub(crate) slots: ConnectionLimiter,
    pub(crate) reads: ReadLimiter,
    /// Who does the work of sessions elsewhere.
    pub(crate) hosts: ToolHostTable,
    /// Nobody is let in any more.
    pub(crate) closing: CancellationToken,
    /// Every connection ends.
    pub(crate) stopped: CancellationToken,
    /// Connections and requests at work.
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
    /// A gateway that nobody can reach yet.
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

    /// Serves a client in this process, as whom it says. It is asked for nothing.
    pub fn attach_pipe(&self, end: ServerPipeEnd, who: Principal) {
        let gateway = Arc::clone(&self.inner);
        let link = PipeTransport::new(end);
        self.inner.tasks.spawn(connection::run_connection(gateway, link, PeerOrigin::Process(who)));
    }

    /// Stops: lets nobody in any more, tells everybody, gives runs so long to end, and then closes
    /// every connection. Whoever calls it again waits for the same end.
    pub async fn shut_down(&self, grace: Duration) {
        self.inner.shut_down.get_or_init(|| self.inner.stop(grace)).await;
    }
}

/// A connection is known until this is dropped.
pub(crate) struct RegistrationGuard<'a> {
    gateway: &'a GatewayInner,
    number: u64,
}

impl GatewayInner {
    /// Lets a connection hear what all hear; not when the gateway has stopped.
    pub(crate) fn register(self: &Arc<Self>, outbox: &SendQueue) -> Option<RegistrationGuard<'_>> {
        self.heartbeat.get_or_init(|| {
            tokio::spawn(heartbeat::run_heartbeat(Arc::downgrade(self)));
        });
        let mut registry = self.lock_registry();
        // Under the lock, or one could come in between the stop and the farewell to all.
        if self.stopped.is_cancelled() {
            return None;
        }
        let number = registry.next;
        registry.next += 1;
        registry.by_number.insert(number, outbox.clone());
        self.connections.store(registry.by_number.len() as u64, Ordering::Relaxed);
        Some(RegistrationGuard { gateway: self, number })
    }

    /// The ways out of all connections that were greeted.
    pub(crate) fn send_queues(&self) -> Vec<SendQueue> {
        self.lock_registry().by_number.values().cloned().collect()
    }

    /// How every connection ends when the gateway does.
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
        // Who reads nothing is not waited for.
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
