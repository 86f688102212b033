//! [`ManagedServer`], a server that all its users share: started on demand, watched while it runs,
//! restarted after failures, stopped when idle. [`ServerLease`] is one host's use of it.
//!
//! After a failure, a server is not restarted for a while, longer with each failure in a row. A
//! broken server is thus not started again and again, and every call in the meantime fails
//! immediately with the reason. The user can restart it at any time, from any zero process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client_transport::ServerConnector;
use super::connection::{ClosingServers, McpConnection};
use super::error::ServerUnavailableError;
use super::identity::ServerIdentity;
use super::secrets::ServerSecrets;
use super::server_cache::{ProtocolEra, ServerCache, ServerCacheEntry};
use super::status::ServerPhase;
use super::tool_listing::ToolListing;
use crate::server_definition::McpServerDefinition;

/// A server that has not been used for this long is stopped.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);
/// Delay after the first failure; it doubles with each further one.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// After this many failures in a row, the delay is [`LONG_RETRY_PAUSE`].
const FAILURES_MAX: u32 = 5;
/// Delay after [`FAILURES_MAX`] failures in a row.
const LONG_RETRY_PAUSE: Duration = Duration::from_secs(5 * 60);
/// A call waits for a delay of at most this long; otherwise it fails immediately.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);
/// After a connection of at least this long, failures are counted from zero again.
const STABLE_UPTIME: Duration = Duration::from_secs(60);
/// How long list changes are collected before the list is fetched again.
const RELIST_PAUSE: Duration = Duration::from_millis(250);
/// Longest such pause, for a list that changes all the time.
const RELIST_PAUSE_MAX: Duration = Duration::from_secs(60);
/// After this many calls in a row without an answer, the server is restarted.
const UNANSWERED_CALLS_MAX: u32 = 3;

/// A server that all its users share.
pub(crate) struct ManagedServer {
    pub(crate) identity: ServerIdentity,
    definition: McpServerDefinition,
    /// Secrets that must not occur in messages about the server.
    pub(crate) secrets: ServerSecrets,
    connector: Arc<dyn ServerConnector>,
    catalogue: ServerCache,
    elicits: bool,
    users: AtomicUsize,
    /// Locked while the server is started or stopped.
    starting: tokio::sync::Mutex<()>,
    /// Locked while the cache entry is written.
    writing: Arc<tokio::sync::Mutex<()>>,
    /// Processes of failed starts.
    endings: ClosingServers,
    state: Mutex<ManagedServerState>,
    listing: watch::Sender<Option<Arc<ToolListing>>>,
}

struct ManagedServerState {
    phase: ServerPhase,
    connection: Option<Arc<McpConnection>>,
    protocol_era: Option<ProtocolEra>,
    /// Number of failures in a row.
    failures: u32,
    /// The server is not started before this.
    rests_until: Option<Instant>,
    last_error: Option<ServerUnavailableError>,
    starts: u32,
    /// Number of failed attempts to start it.
    failed_starts: u32,
    /// The mark of the last request to restart when it last started.
    restart_mark: Option<Vec<u8>>,
    /// Cancels the current attempt to start it.
    give_up: CancellationToken,
}

/// Outcome of an attempt to start a server.
type ConnectResult = Result<(Arc<McpConnection>, ToolListing), ServerUnavailableError>;

/// State of a server at one moment.
pub(crate) struct ServerSnapshot {
    pub(crate) phase: ServerPhase,
    pub(crate) connection: Option<Arc<McpConnection>>,
    pub(crate) last_error: Option<ServerUnavailableError>,
    pub(crate) rests_for: Option<Duration>,
    pub(crate) starts: u32,
}

impl ManagedServer {
    pub(crate) fn new(
        identity: ServerIdentity,
        definition: McpServerDefinition,
        connector: Arc<dyn ServerConnector>,
        catalogue: ServerCache,
        elicits: bool,
    ) -> Self {
        let known = catalogue.load(&identity);
        let phase = match &known.listing {
            Some(_) => ServerPhase::Known,
            None => ServerPhase::Unknown,
        };
        let state = ManagedServerState {
            phase,
            connection: None,
            protocol_era: known.era,
            failures: 0,
            rests_until: None,
            last_error: known.last_error,
            starts: 0,
            failed_starts: 0,
            restart_mark: None,
            give_up: CancellationToken::new(),
        };
        Self {
            identity,
            secrets: ServerSecrets::from_transport(&definition.transport),
            definition,
            connector,
            catalogue,
            elicits,
            users: AtomicUsize::new(0),
            starting: tokio::sync::Mutex::default(),
            writing: Arc::default(),
            endings: ClosingServers::default(),
            state: Mutex::new(state),
            listing: watch::Sender::new(known.listing.map(Arc::new)),
        }
    }

    /// Returns its last tool listing.
    pub(crate) fn listing(&self) -> Option<Arc<ToolListing>> {
        self.listing.borrow().clone()
    }

    /// Subscribes to its tool listings.
    pub(crate) fn subscribe_listings(&self) -> watch::Receiver<Option<Arc<ToolListing>>> {
        self.listing.subscribe()
    }

    /// Returns its current state.
    pub(crate) fn snapshot(&self) -> ServerSnapshot {
        let state = self.state();
        let now = Instant::now();
        ServerSnapshot {
            phase: state.phase,
            connection: state.connection.clone(),
            last_error: state.last_error.clone(),
            rests_for: state
                .rests_until
                .and_then(|until| until.checked_duration_since(now))
                .filter(|left| !left.is_zero()),
            starts: state.starts,
        }
    }

    /// Returns an open connection, and starts the server if there is none.
    pub(crate) async fn open_connection(
        self: &Arc<Self>,
    ) -> Result<Arc<McpConnection>, ServerUnavailableError> {
        let mut outdated = None;
        if let Some(connection) = self.live_connection() {
            if connection.handler.running_calls() > 0 || !connection.monitor.is_outdated().await {
                return Ok(connection);
            }
            outdated = Some(connection);
        }
        // In a separate task, so that a cancelled caller does not abort a start that others wait
        // for, or leave a server half stopped.
        let server = Arc::clone(self);
        let started = tokio::spawn(async move {
            if let Some(outdated) = outdated {
                server.retire(&outdated).await;
            }
            server.start().await
        });
        started.await.unwrap_or_else(|_| Err(ServerUnavailableError::new("zero is shutting down")))
    }

    /// Stops a server that can still read files which have been denied since it started. The next
    /// start hides them. A server with running calls is stopped later, when it is idle.
    async fn retire(&self, connection: &Arc<McpConnection>) {
        let _one = self.starting.lock().await;
        if self.is_current(connection) && connection.close_if_idle() {
            tracing::debug!(server = %self.definition.alias, "stopping an outdated server");
            self.close_connection().await;
        }
    }

    /// Restarts it, whatever its state and however often it failed.
    pub(crate) async fn reconnect(
        self: &Arc<Self>,
    ) -> Result<Arc<McpConnection>, ServerUnavailableError> {
        // Every zero process with this state directory sees it, including this one.
        self.catalogue.request_restart(&self.identity);
        self.stop().await;
        {
            let mut state = self.state();
            (state.failures, state.rests_until) = (0, None);
        }
        self.open_connection().await
    }

    /// Stops it, also while it starts. The next call starts it again.
    pub(crate) async fn stop(&self) {
        // A start may take half a minute, and this one is no longer needed.
        self.state().give_up.cancel();
        let _one = self.starting.lock().await;
        self.close_connection().await;
        self.endings.end_now().await;
        // Wait for a cache write of the old state, so that it cannot overwrite a later one.
        drop(self.writing.lock().await);
    }

    /// Records that a connection has ended, so that the next call starts the server again.
    pub(crate) async fn report_disconnected(&self, connection: &Arc<McpConnection>) {
        self.handle_disconnect(connection).await;
    }

    /// Records that a call was answered, which ends a series of failures.
    pub(crate) fn report_answered(&self) {
        let mut state = self.state();
        (state.failures, state.rests_until) = (0, None);
    }

    /// Records that a call was not answered in time. After several in a row the server counts as
    /// hung, and the next call restarts it.
    pub(crate) async fn report_unanswered(&self, connection: &Arc<McpConnection>) {
        if connection.silences.load(Ordering::Relaxed) < UNANSWERED_CALLS_MAX {
            return;
        }
        connection.close().await;
        let error = ServerUnavailableError::new(format!(
            "it did not answer {UNANSWERED_CALLS_MAX} calls in a row"
        ));
        self.record_failure(connection, error);
    }

    fn live_connection(&self) -> Option<Arc<McpConnection>> {
        let (connection, mark) = {
            let state = self.state();
            (state.connection.clone()?, state.restart_mark.clone())
        };
        let is_marked = || {
            let now = self.catalogue.restart_mark(&self.identity);
            now.is_some() && now != mark
        };
        (connection.is_open() && !is_marked()).then_some(connection)
    }

    async fn start(self: &Arc<Self>) -> Result<Arc<McpConnection>, ServerUnavailableError> {
        let failed_before = self.state().failed_starts;
        let _one = self.starting.lock().await;
        if let Some(connection) = self.live_connection() {
            return Ok(connection);
        }
        if self.users.load(Ordering::Acquire) == 0 {
            return Err(ServerUnavailableError::new("it is no longer used"));
        }
        let give_up = {
            let mut state = self.state();
            // A caller that waited for a start that failed gets its error instead of starting the
            // server once more.
            if state.failed_starts != failed_before {
                return Err(state.last_error.clone().unwrap_or_default());
            }
            state.give_up = CancellationToken::new();
            state.give_up.clone()
        };
        let opened = tokio::select! {
            biased;
            () = give_up.cancelled() => {
                self.state().phase = ServerPhase::Stopped;
                return Err(ServerUnavailableError::new("it was stopped before it had started"));
            }
            opened = self.try_to_start() => opened?,
        };
        match opened {
            Ok((connection, listing)) => {
                {
                    let mut state = self.state();
                    state.phase = ServerPhase::Ready;
                    state.connection = Some(Arc::clone(&connection));
                    state.protocol_era = Some(connection.protocol_era);
                    state.last_error = None;
                }
                self.publish(listing).await;
                tokio::spawn(Arc::clone(self).watch(Arc::clone(&connection)));
                Ok(connection)
            }
            Err(error) => {
                {
                    let mut state = self.state();
                    // The cached protocol may be the cause of the failure.
                    state.protocol_era = None;
                    state.failed_starts = state.failed_starts.wrapping_add(1);
                    state.record_failure(error.clone());
                }
                self.save_cache().await;
                Err(error)
            }
        }
    }

    /// Makes one attempt to start it. The outer error means that it is still too early for an
    /// attempt.
    async fn try_to_start(&self) -> Result<ConnectResult, ServerUnavailableError> {
        self.close_connection().await;
        self.wait_for_retry().await?;
        // Read before it starts: a request from now on concerns the server that starts now.
        let restart_mark = self.catalogue.restart_mark(&self.identity);
        let protocol_era = {
            let mut state = self.state();
            state.restart_mark = restart_mark;
            state.phase = ServerPhase::Starting;
            state.starts = state.starts.saturating_add(1);
            state.protocol_era
        };
        let opening = McpConnection::open(
            &*self.connector,
            &self.definition,
            protocol_era,
            self.elicits,
            &self.endings,
        );
        Ok(opening.await.map_err(|error| self.secrets.redact_error(error)))
    }

    /// Waits for a short delay to pass. A long one is an error.
    async fn wait_for_retry(&self) -> Result<(), ServerUnavailableError> {
        let left = {
            let state = self.state();
            let now = Instant::now();
            let left = state.rests_until.map(|until| until.saturating_duration_since(now));
            match left {
                Some(left) if left > RETRY_WAIT_MAX => {
                    let mut error = state.last_error.clone().unwrap_or_default();
                    error.message = format!(
                        "{}; it failed {} times in a row and is not started again for {} s, or until `zero mcp reconnect {}`",
                        error.message,
                        state.failures,
                        left.as_secs().max(1),
                        self.definition.alias
                    );
                    return Err(error);
                }
                left => left.unwrap_or_default(),
            }
        };
        tokio::time::sleep(left).await;
        Ok(())
    }

    async fn close_connection(&self) {
        let old = {
            let mut state = self.state();
            let old = state.connection.take();
            if old.is_some() {
                state.phase = ServerPhase::Stopped;
            }
            old
        };
        if let Some(old) = old {
            old.close().await;
        }
    }

    /// Watches a connection while it is open.
    async fn watch(self: Arc<Self>, connection: Arc<McpConnection>) {
        let mut pause = RELIST_PAUSE;
        let mut listed_at = Instant::now();
        loop {
            let idle_left =
                IDLE_MAX.saturating_sub(connection.idle_time()).max(Duration::from_secs(1));
            tokio::select! {
                () = connection.wait_for_end() => {
                    self.handle_disconnect(&connection).await;
                    return;
                }
                () = connection.handler.list_changed.notified() => {
                    // A list that changes all the time is fetched less and less often.
                    pause = match listed_at.elapsed() < pause * 4 {
                        true => (pause * 2).min(RELIST_PAUSE_MAX),
                        false => RELIST_PAUSE,
                    };
                    tokio::select! {
                        () = connection.wait_for_end() => continue,
                        () = tokio::time::sleep(pause) => {}
                    }
                    if let Err(error) = self.refresh_listing(&connection).await {
                        tracing::warn!(
                            server = %self.definition.alias, %error, "cannot fetch a changed tool list"
                        );
                    }
                    listed_at = Instant::now();
                }
                () = tokio::time::sleep(idle_left) => {
                    if connection.idle_time() >= IDLE_MAX {
                        let _one = self.starting.lock().await;
                        let is_ours = self.is_current(&connection);
                        if is_ours && connection.idle_time() >= IDLE_MAX {
                            self.close_connection().await;
                            return;
                        }
                    }
                }
            }
        }
    }

    fn is_current(&self, connection: &Arc<McpConnection>) -> bool {
        self.state()
            .connection
            .as_ref()
            .is_some_and(|own_connection| Arc::ptr_eq(own_connection, connection))
    }

    /// Records that a connection ended, unless zero closed it.
    async fn handle_disconnect(&self, connection: &Arc<McpConnection>) {
        if connection.is_closing() || !self.is_current(connection) {
            return;
        }
        let error = self.secrets.redact_error(connection.end_reason().await);
        if connection.opened.elapsed() >= STABLE_UPTIME && self.is_current(connection) {
            self.state().failures = 0;
        }
        if self.record_failure(connection, error) {
            self.save_cache().await;
        }
    }

    /// Records a failure of a connection. Returns false if it was recorded already.
    fn record_failure(
        &self,
        connection: &Arc<McpConnection>,
        error: ServerUnavailableError,
    ) -> bool {
        let mut state = self.state();
        let is_first = state
            .connection
            .as_ref()
            .is_some_and(|own_connection| Arc::ptr_eq(own_connection, connection));
        if is_first {
            state.connection = None;
            state.record_failure(error);
        }
        is_first
    }

    /// Fetches the tool list if the server announced a change, without the pause that spares busy
    /// servers: a call must not be sent under a definition that the server has withdrawn.
    pub(crate) async fn refresh_listing(
        &self,
        connection: &McpConnection,
    ) -> Result<(), ServerUnavailableError> {
        let _one = connection.handler.relisting.lock().await;
        if !connection.handler.take_list_change() {
            return Ok(());
        }
        match connection.relist().await {
            Ok(listing) => {
                self.publish(listing).await;
                Ok(())
            }
            Err(error) => {
                connection.handler.mark_list_outdated();
                Err(error)
            }
        }
    }

    async fn publish(&self, listing: ToolListing) {
        let is_new = self.listing.send_if_modified(|known| {
            let is_new = known.as_deref() != Some(&listing);
            if is_new {
                *known = Some(Arc::new(listing));
            }
            is_new
        });
        if is_new || self.state().starts == 1 {
            self.save_cache().await;
        }
    }

    /// Saves what is known of the server. One write at a time, and it completes even if the caller
    /// is cancelled, so that the last state is what the file contains.
    async fn save_cache(&self) {
        let alone = Arc::clone(&self.writing).lock_owned().await;
        let remembered = {
            let state = self.state();
            ServerCacheEntry {
                era: state.protocol_era,
                listing: self.listing().map(|listing| (*listing).clone()),
                last_error: state.last_error.clone(),
            }
        };
        let (catalogue, identity) = (self.catalogue.clone(), self.identity.clone());
        let written = tokio::task::spawn_blocking(move || {
            catalogue.save(&identity, &remembered);
            drop(alone);
        });
        let _ = written.await;
    }

    fn state(&self) -> MutexGuard<'_, ManagedServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ManagedServerState {
    fn record_failure(&mut self, error: ServerUnavailableError) {
        self.phase = ServerPhase::Failed;
        self.failures = self.failures.saturating_add(1);
        self.last_error = Some(error);
        let rest = match self.failures {
            FAILURES_MAX.. => LONG_RETRY_PAUSE,
            failures => RETRY_PAUSE * 2_u32.pow(failures.saturating_sub(1)),
        };
        self.rests_until = Some(Instant::now() + rest.mul_f64(0.5 + fastrand::f64() / 2.0));
    }
}

/// One host's use of a server.
pub(crate) struct ServerLease(Arc<ManagedServer>);

impl ServerLease {
    pub(crate) fn new(server: Arc<ManagedServer>) -> Self {
        server.users.fetch_add(1, Ordering::AcqRel);
        Self(server)
    }

    pub(crate) fn server(&self) -> &Arc<ManagedServer> {
        &self.0
    }

    /// Ends this use, and stops the server if it was the last.
    pub(crate) async fn end(self) {
        let server = Arc::clone(&self.0);
        drop(self);
        if server.users.load(Ordering::Acquire) == 0 {
            server.stop().await;
        }
    }
}

impl Drop for ServerLease {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::AcqRel);
    }
}
