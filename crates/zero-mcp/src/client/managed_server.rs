//! One server, whoever uses it: started when it is needed, watched while it runs, started again
//! after it failed, stopped when nobody has used it for a while.
//!
//! A server that fails rests before it is started again, longer each time, and after several
//! failures in a row for minutes: what is broken is not hammered, and every call meanwhile hears at
//! once why. A person can start it anew at any time, from any zero.

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

/// A server that nobody has used for this long is stopped.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);
/// First rest after a failure; it doubles with each.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// After this many failures in a row a server rests for long.
const FAILURES_MAX: u32 = 5;
/// How long that is.
const LONG_RETRY_PAUSE: Duration = Duration::from_secs(5 * 60);
/// A rest of at most this long is waited for.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);
/// A connection that lived this long was a good one: its end is the first failure again.
const STABLE_UPTIME: Duration = Duration::from_secs(60);
/// How long changes of a list are collected before it is asked for again.
const RELIST_PAUSE: Duration = Duration::from_millis(250);
/// The longest such pause, for a list that changes all the time.
const RELIST_PAUSE_MAX: Duration = Duration::from_secs(60);
/// A server that does not answer this many calls in a row is started anew.
const UNANSWERED_CALLS_MAX: u32 = 3;

/// One server, whoever uses it.
pub(crate) struct ManagedServer {
    pub(crate) identity: ServerIdentity,
    definition: McpServerDefinition,
    /// What nothing that is told of it may hold.
    pub(crate) secrets: ServerSecrets,
    connector: Arc<dyn ServerConnector>,
    catalogue: ServerCache,
    elicits: bool,
    users: AtomicUsize,
    /// Held by whoever starts or stops it.
    starting: tokio::sync::Mutex<()>,
    /// Held while what is known of it is written down.
    writing: Arc<tokio::sync::Mutex<()>>,
    /// Processes of starts that failed.
    endings: ClosingServers,
    state: Mutex<ManagedServerState>,
    listing: watch::Sender<Option<Arc<ToolListing>>>,
}

struct ManagedServerState {
    phase: ServerPhase,
    connection: Option<Arc<McpConnection>>,
    era: Option<ProtocolEra>,
    /// Failures in a row.
    failures: u32,
    /// Not to be started before this.
    rests_until: Option<Instant>,
    last_error: Option<ServerUnavailableError>,
    starts: u32,
    /// Attempts to start it that failed.
    failed_starts: u32,
    /// Gives up the attempt that is being made.
    give_up: CancellationToken,
}

/// How an attempt to start a server went.
type ConnectResult = Result<(Arc<McpConnection>, ToolListing), ServerUnavailableError>;

/// How a server stands, at a glance.
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
            era: known.era,
            failures: 0,
            rests_until: None,
            last_error: known.last_error,
            starts: 0,
            failed_starts: 0,
            give_up: CancellationToken::new(),
        };
        Self {
            identity,
            secrets: ServerSecrets::from_transport(&definition.reach),
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

    /// What it listed last.
    pub(crate) fn listing(&self) -> Option<Arc<ToolListing>> {
        self.listing.borrow().clone()
    }

    /// Hears of every new list.
    pub(crate) fn subscribe_listings(&self) -> watch::Receiver<Option<Arc<ToolListing>>> {
        self.listing.subscribe()
    }

    /// How it stands.
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

    /// An open connection; starts the server where there is none.
    pub(crate) async fn open_connection(
        self: &Arc<Self>,
    ) -> Result<Arc<McpConnection>, ServerUnavailableError> {
        let mut outdated = None;
        if let Some(connection) = self.live_connection() {
            if connection.handler.running_calls() > 0 || !connection.witness.is_outdated().await {
                return Ok(connection);
            }
            outdated = Some(connection);
        }
        // In a task of its own, so that a caller who gives up does not take the start down that
        // others wait for, nor leaves a server half ended.
        let server = Arc::clone(self);
        let started = tokio::spawn(async move {
            if let Some(outdated) = outdated {
                server.retire(&outdated).await;
            }
            server.start().await
        });
        started.await.unwrap_or_else(|_| Err(ServerUnavailableError::new("zero is shutting down")))
    }

    /// Ends a server that can see what may not be read, because that came after it: the next is
    /// started without that in sight. One that is at work ends when it has nothing to do.
    async fn retire(&self, connection: &Arc<McpConnection>) {
        let _one = self.starting.lock().await;
        if self.is_current(connection) && connection.close_if_idle() {
            tracing::debug!(server = %self.definition.alias, "a server ends: it sees too much");
            self.close_connection().await;
        }
    }

    /// Starts it anew, whatever it does now and however often it failed.
    pub(crate) async fn reconnect(
        self: &Arc<Self>,
    ) -> Result<Arc<McpConnection>, ServerUnavailableError> {
        // Seen by every zero that shares this state, ours included.
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
        // A start may take half a minute, and nobody wants this one any more.
        self.state().give_up.cancel();
        let _one = self.starting.lock().await;
        self.close_connection().await;
        self.endings.end_now().await;
        // What is being written down belongs to what was there, not to what comes after.
        drop(self.writing.lock().await);
    }

    /// Notes that a connection was found gone, so that the next call starts the server again.
    pub(crate) async fn report_disconnected(&self, connection: &Arc<McpConnection>) {
        self.handle_disconnect(connection).await;
    }

    /// Notes that a call was answered: whatever failed before is over.
    pub(crate) fn report_answered(&self) {
        let mut state = self.state();
        (state.failures, state.rests_until) = (0, None);
    }

    /// Notes that a call was not answered in time. A server that leaves one after the other so
    /// hangs, and the next call starts it anew.
    pub(crate) async fn report_unanswered(&self, connection: &Arc<McpConnection>) {
        if connection.silences.load(Ordering::Relaxed) < UNANSWERED_CALLS_MAX {
            return;
        }
        connection.close().await;
        let error = ServerUnavailableError::new(format!(
            "it left {UNANSWERED_CALLS_MAX} calls in a row without an answer"
        ));
        self.record_failure(connection, error);
    }

    fn live_connection(&self) -> Option<Arc<McpConnection>> {
        let connection = self.state().connection.clone()?;
        let is_marked = || {
            self.catalogue
                .restart_request_age(&self.identity)
                .is_some_and(|age| age < connection.opened.elapsed())
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
            return Err(ServerUnavailableError::new("nobody uses it any more"));
        }
        let give_up = {
            let mut state = self.state();
            // Whoever waited for a start that failed has heard how it went, and does not wait for
            // another one.
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
                    state.era = Some(connection.era);
                    state.last_error = None;
                }
                self.publish(listing).await;
                tokio::spawn(Arc::clone(self).watch(Arc::clone(&connection)));
                Ok(connection)
            }
            Err(error) => {
                {
                    let mut state = self.state();
                    // What was known of it may be what is wrong.
                    state.era = None;
                    state.failed_starts = state.failed_starts.wrapping_add(1);
                    state.record_failure(error.clone());
                }
                self.save_cache().await;
                Err(error)
            }
        }
    }

    /// Makes one attempt to start it; that it still rests is no attempt.
    async fn try_to_start(&self) -> Result<ConnectResult, ServerUnavailableError> {
        self.close_connection().await;
        self.wait_for_retry().await?;
        let era = {
            let mut state = self.state();
            state.phase = ServerPhase::Starting;
            state.starts = state.starts.saturating_add(1);
            state.era
        };
        let opening = McpConnection::open(
            &*self.connector,
            &self.definition,
            era,
            self.elicits,
            &self.endings,
        );
        Ok(opening.await.map_err(|error| self.secrets.redact_error(error)))
    }

    /// Waits for a short rest to be over; a long one is told.
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

    /// Sees to a connection while it lives.
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
                    // A list that changes all the time is asked for less and less often.
                    pause = match listed_at.elapsed() < pause * 4 {
                        true => (pause * 2).min(RELIST_PAUSE_MAX),
                        false => RELIST_PAUSE,
                    };
                    tokio::select! {
                        () = connection.wait_for_end() => continue,
                        () = tokio::time::sleep(pause) => {}
                    }
                    match connection.relist().await {
                        Ok(listing) => self.publish(listing).await,
                        Err(error) => tracing::warn!(
                            server = %self.definition.alias, %error, "a changed list could not be had"
                        ),
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
        self.state().connection.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, connection))
    }

    /// Notes that a connection ended; by itself, unless we ended it.
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

    /// Whether this is the first who says so.
    fn record_failure(
        &self,
        connection: &Arc<McpConnection>,
        error: ServerUnavailableError,
    ) -> bool {
        let mut state = self.state();
        let is_first = state.connection.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, connection));
        if is_first {
            state.connection = None;
            state.record_failure(error);
        }
        is_first
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

    /// Writes down what is known. One at a time, also when nobody waits for it any more, so that what
    /// was known last is what stands there.
    async fn save_cache(&self) {
        let alone = Arc::clone(&self.writing).lock_owned().await;
        let remembered = {
            let state = self.state();
            ServerCacheEntry {
                era: state.era,
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

/// Somebody's use of a server.
pub(crate) struct ServerLease(Arc<ManagedServer>);

impl ServerLease {
    pub(crate) fn new(server: Arc<ManagedServer>) -> Self {
        server.users.fetch_add(1, Ordering::AcqRel);
        Self(server)
    }

    pub(crate) fn server(&self) -> &Arc<ManagedServer> {
        &self.0
    }

    /// Ends this use; the server is stopped where it was the last.
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
