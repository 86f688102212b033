//! State that all connections share, and the shutdown of the gateway.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use qrcodegen::{QrCode, QrCodeEcc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zero_session::sessions::SessionManager;
use zero_wire::devices::DeviceInviteResult;
use zero_wire::method::TokenScope;
use zero_wire::{CloseReason, close, events};

use crate::auth::AuthConfig;
use crate::auth_limiter::AuthLimiter;
use crate::connection_limiter::{ConnectionLimiter, ConnectionLimits};
use crate::device_registry::DeviceRegistry;
use crate::gateway_config::{GatewayConfig, GatewayLimits};
use crate::handshake_table::{HandshakeLimits, HandshakeTable};
use crate::heartbeat;
use crate::machine_reports::MachineReports;
use crate::metric_families::MetricsSource;
use crate::node_messages::announce_handover;
use crate::read_limiter::{ReadLimiter, ReadLimits};
use crate::request_filter::RequestFilter;
use crate::send_queue::SendQueue;
use crate::tool_host_table::ToolHostTable;

/// State shared by all connections.
pub(crate) struct GatewayInner {
    /// All sessions of this gateway, of every owner.
    pub(crate) sessions: SessionManager,
    /// Who may use it.
    pub(crate) auth: AuthConfig,
    /// Its paired devices.
    pub(crate) devices: DeviceRegistry,
    /// What it reports on its machine, if it does.
    pub(crate) machine: Option<Arc<dyn MachineReports>>,
    /// The address by which browsers reach the console, if it was told one.
    pub(crate) public_url: Option<String>,
    /// Its bounds.
    pub(crate) limits: GatewayLimits,
    /// Version string sent to clients.
    pub(crate) version: String,
    /// Metrics of the tools on this machine.
    pub(crate) tool_metrics: Arc<dyn MetricsSource>,
    /// When it started.
    pub(crate) started: Instant,
    /// Number of open connections that completed the handshake.
    pub(crate) connections: AtomicU64,
    pub(crate) guard: RequestFilter,
    pub(crate) limiter: AuthLimiter,
    pub(crate) slots: ConnectionLimiter,
    pub(crate) handshakes: Arc<HandshakeTable>,
    pub(crate) reads: ReadLimiter,
    /// Connections that host the tools of sessions.
    pub(crate) hosts: ToolHostTable,
    /// Cancelled when no new clients are accepted.
    pub(crate) closing: CancellationToken,
    /// Every connection ends.
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
    by_number: HashMap<u64, RegisteredConnection>,
}

/// A connection that completed the handshake.
struct RegisteredConnection {
    outbox: SendQueue,
    /// Id of its paired device.
    device: Option<String>,
}

/// Removes the connection from the gateway's list on drop.
pub(crate) struct RegistrationGuard<'a> {
    gateway: &'a GatewayInner,
    number: u64,
}

impl GatewayInner {
    /// Creates a gateway that has no listener yet.
    pub(crate) fn new(config: GatewayConfig) -> Self {
        let limits = config.limits;
        let slots = ConnectionLimiter::new(ConnectionLimits {
            connections_max: limits.connections_max,
            connections_per_address_max: limits.connections_per_address_max,
        });
        let handshakes = HandshakeTable::new(HandshakeLimits {
            all_max: limits.unauthenticated_max,
            per_address_max: limits.unauthenticated_per_address_max,
            silent_grace: limits.silent_grace,
            grace: limits.handshake_grace,
        });
        let reads = ReadLimiter::new(ReadLimits {
            total_max: limits.reads_max,
            owner_max: limits.reads_per_token_max,
            requests_max: limits.read_requests_max,
            wait_max: limits.read_wait,
        });
        Self {
            sessions: config.sessions,
            auth: config.auth,
            devices: DeviceRegistry::new(config.console.devices, config.console.folders),
            machine: config.console.machine,
            public_url: config.console.public_url,
            version: config.version,
            tool_metrics: config.tool_metrics,
            started: Instant::now(),
            connections: AtomicU64::new(0),
            guard: RequestFilter::new(&config.allowed_hosts, &config.allowed_origins),
            limiter: AuthLimiter::new(limits.tries.clone()),
            slots,
            handshakes,
            reads,
            hosts: ToolHostTable::default(),
            closing: CancellationToken::new(),
            stopped: CancellationToken::new(),
            tasks: TaskTracker::new(),
            registry: Mutex::default(),
            heartbeat: OnceLock::new(),
            shut_down: tokio::sync::OnceCell::new(),
            limits,
        }
    }

    /// Creates a one-time code that pairs a device. `None` if the system has no random numbers. `page` is
    /// the address of the console where the gateway was told no public one.
    pub(crate) fn invite_device(
        &self,
        scopes: Vec<TokenScope>,
        owner: &str,
        page: Option<&str>,
    ) -> Option<DeviceInviteResult> {
        let (code, expires_at_ms) = self.devices.invite(scopes, owner)?;
        let url = self.public_url.as_ref().map(|url| format!("{}/", url.trim_end_matches('/')));
        let qr_rows = url.as_deref().or(page).map(encode_qr_rows).unwrap_or_default();
        Some(DeviceInviteResult { code, expires_at_ms, url, qr_rows })
    }

    /// Registers a connection for events that go to all. Returns `None` after shutdown.
    pub(crate) fn register(
        self: &Arc<Self>,
        outbox: &SendQueue,
        device: Option<&String>,
    ) -> Option<RegistrationGuard<'_>> {
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
        let connection = RegisteredConnection { outbox: outbox.clone(), device: device.cloned() };
        registry.by_number.insert(number, connection);
        self.connections.store(registry.by_number.len() as u64, Ordering::Relaxed);
        Some(RegistrationGuard { gateway: self, number })
    }

    /// Send queues of all connections that completed the handshake.
    pub(crate) fn send_queues(&self) -> Vec<SendQueue> {
        self.lock_registry().by_number.values().map(|known| known.outbox.clone()).collect()
    }

    /// Send queues of the connections of a paired device.
    pub(crate) fn device_queues(&self, device: &str) -> Vec<SendQueue> {
        let registry = self.lock_registry();
        let of_it = |known: &&RegisteredConnection| known.device.as_deref() == Some(device);
        registry.by_number.values().filter(of_it).map(|known| known.outbox.clone()).collect()
    }

    /// Closes the connections of a paired device at once; returns their number.
    pub(crate) fn close_device(&self, device: &str, why: &str) -> u64 {
        let queues = self.device_queues(device);
        for queue in &queues {
            queue.abort(close::POLICY, why);
        }
        queues.len() as u64
    }

    /// Close reason sent when the gateway shuts down.
    pub(crate) fn shutdown_close_reason(&self) -> CloseReason {
        CloseReason::new(close::RESTART, "service restart")
    }

    /// Begins to shut down, as if the process had been asked to end.
    pub(crate) fn start_drain(self: &Arc<Self>) {
        let gateway = Arc::clone(self);
        tokio::spawn(async move { gateway.shut_down(gateway.limits.shutdown_grace).await });
    }

    /// Shuts down once; further calls wait for the same shutdown.
    pub(crate) async fn shut_down(&self, grace: Duration) {
        self.shut_down.get_or_init(|| self.stop(grace)).await;
    }

    async fn stop(&self, grace: Duration) {
        self.closing.cancel();
        let event = events::ShutdownEvent {
            reason: "service restart".to_owned(),
            restart_expected_ms: None,
        };
        for outbox in self.send_queues() {
            outbox.send_event(events::SHUTDOWN, &event);
        }
        self.sessions.shut_down(grace).await;
        announce_handover(&self.sessions).await;
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

/// Rows of the modules of a QR code, `1` if dark; none if the text is too long.
fn encode_qr_rows(text: &str) -> Vec<String> {
    let Ok(code) = QrCode::encode_text(text, QrCodeEcc::Low) else { return Vec::new() };
    let digit = |column, row| if code.get_module(column, row) { '1' } else { '0' };
    let row = |row| (0..code.size()).map(|column| digit(column, row)).collect();
    (0..code.size()).map(row).collect()
}
