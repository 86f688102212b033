//! The state that all users of a link share: the connection and the sessions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zero_wire::client::{GatewayClient, GatewayClientError, ReconnectBackoff};
use zero_wire::zero_sessions::{SessionOpenParams, ZeroSessionsOpen};

use super::event_dispatch;
use crate::gateway_dialer::{GatewayConnection, GatewayDialer, GatewayLocality};
use crate::gateway_update::GatewayUpdate;
use crate::link_error::GatewayLinkError;
use crate::session_slot::{HostedTools, HostingClaim, SessionSlot};

/// Longest time after a failed dial in which requests get the same error without another dial. It
/// is short, because the user may have fixed the cause.
const FAILED_DIAL_PAUSE_MAX: Duration = Duration::from_secs(3);
/// Most sessions that one link can have open.
const SLOTS_MAX: usize = 256;

/// The state that all users of a link share.
pub(crate) struct SharedLink {
    dial: Arc<dyn GatewayDialer>,
    /// How long a lost connection is redialled before its sessions are told that it is lost.
    return_max: Duration,
    phase: watch::Sender<LinkPhase>,
    /// Held while dialling, so that there is one dial at a time.
    dialling: tokio::sync::Mutex<DialState>,
    slots: Mutex<BTreeMap<u64, Arc<SessionSlot>>>,
    /// Counter for the numbers of connections, sessions and attachments.
    numbers: AtomicU64,
    /// Number of entries for sessions that are not open.
    strays: AtomicU64,
}

/// The state of the connection.
#[derive(Clone)]
enum LinkPhase {
    /// There is no connection.
    Down,
    /// It was lost and is being redialled, with the error of the last dial.
    Reconnecting(Option<GatewayLinkError>),
    /// It is established.
    Connected(Arc<LinkConnection>),
    /// It is closed for good.
    Closed,
}

/// One established connection to the gateway; a reconnect makes a new one.
pub(crate) struct LinkConnection {
    /// Identifies it within the link.
    pub(crate) number: u64,
    /// Sends requests.
    pub(crate) client: GatewayClient,
    /// The kind of the gateway.
    pub(crate) kind: GatewayKind,
    /// Where the gateway runs.
    pub(crate) locality: GatewayLocality,
    over: CancellationToken,
}

/// The kind of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayKind {
    /// A gateway of zero, which has a ledger.
    Native,
    /// Another OpenClaw-compatible gateway.
    OpenClaw,
}

/// The state of failed dials.
#[derive(Default)]
struct DialState {
    backoff: ReconnectBackoff,
    resting: Option<(Instant, GatewayLinkError)>,
}

/// How long to wait for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconnectWait {
    /// For a new request: fails at once if the gateway is unreachable.
    Now,
    /// For a request in progress: waits as long as the connection is redialled.
    UntilReconnected,
}

impl SharedLink {
    pub(super) fn new(dial: Arc<dyn GatewayDialer>, return_max: Duration) -> Arc<Self> {
        Arc::new(Self {
            dial,
            return_max,
            phase: watch::Sender::new(LinkPhase::Down),
            dialling: tokio::sync::Mutex::default(),
            slots: Mutex::default(),
            numbers: AtomicU64::new(1),
            strays: AtomicU64::new(0),
        })
    }

    pub(super) fn location(&self) -> String {
        self.dial.location()
    }

    /// Returns the connection; makes one if there is none.
    pub(crate) async fn ensure_connected(
        self: &Arc<Self>,
        reconnect_wait: ReconnectWait,
    ) -> Result<Arc<LinkConnection>, GatewayLinkError> {
        let mut phases = self.phase.subscribe();
        // Each iteration waits for a change or returns.
        loop {
            let phase = phases.borrow_and_update().clone();
            match phase {
                LinkPhase::Connected(up) => return Ok(up),
                LinkPhase::Closed => return Err(closed_error()),
                LinkPhase::Reconnecting(Some(error)) if reconnect_wait == ReconnectWait::Now => {
                    return Err(error);
                }
                LinkPhase::Reconnecting(_) => {
                    phases.changed().await.map_err(|_| closed_error())?;
                }
                LinkPhase::Down => {
                    let mut dialling = self.dialling.lock().await;
                    if !matches!(*self.phase.borrow(), LinkPhase::Down) {
                        continue;
                    }
                    if let Some((until, error)) = &dialling.resting
                        && Instant::now() < *until
                    {
                        return Err(error.clone());
                    }
                    let made = self.establish().await;
                    match &made {
                        Ok(_) => *dialling = DialState::default(),
                        Err(error) => dialling.pause_after(error.clone()),
                    }
                    return made;
                }
            }
        }
    }

    /// The connection, if there is one at this moment.
    pub(crate) fn current_connection(&self) -> Option<Arc<LinkConnection>> {
        match &*self.phase.borrow() {
            LinkPhase::Connected(up) => Some(Arc::clone(up)),
            _ => None,
        }
    }

    /// Dials, and opens every session again.
    async fn establish(self: &Arc<Self>) -> Result<Arc<LinkConnection>, GatewayLinkError> {
        let GatewayConnection { client, events, locality } = self.dial.dial().await?;
        let is_own = client.has_capability("zero.sessions");
        let over = CancellationToken::new();
        let up = Arc::new(LinkConnection {
            number: self.next_number(),
            client,
            kind: if is_own { GatewayKind::Native } else { GatewayKind::OpenClaw },
            locality,
            over: over.clone(),
        });
        event_dispatch::listen(Arc::downgrade(self), up.number, over.clone(), events);
        // If the setup fails, no events of this connection are read.
        let unfinished = over.drop_guard();
        let mut back = Vec::new();
        for slot in self.slots() {
            match self.reopen(&slot, &up).await {
                Ok(()) => back.push(slot),
                Err(
                    error
                    @ (GatewayClientError::Closed { .. } | GatewayClientError::Timeout { .. }),
                ) => {
                    return Err(error.into());
                }
                Err(error) => {
                    // The other sessions can continue without it.
                    slot.inbox.push_status(GatewayUpdate::Lost(session_error(error, &slot.key())));
                }
            }
        }
        let is_published = self.phase.send_if_modified(|phase| {
            let is_over = up.over.is_cancelled() || matches!(phase, LinkPhase::Closed);
            if !is_over {
                *phase = LinkPhase::Connected(Arc::clone(&up));
            }
            !is_over
        });
        if !is_published {
            return Err(lost_again_error());
        }
        unfinished.disarm();
        back.iter().for_each(|slot| slot.inbox.push_status(GatewayUpdate::Reconnected));
        Ok(up)
    }

    async fn reopen(
        self: &Arc<Self>,
        slot: &Arc<SessionSlot>,
        up: &Arc<LinkConnection>,
    ) -> Result<(), GatewayClientError> {
        match (up.kind, &slot.openclaw) {
            (GatewayKind::Native, None) => self.reopen_native(slot, up).await,
            (GatewayKind::OpenClaw, Some(openclaw)) => openclaw.reopen(self, slot, up).await,
            _ => Err(GatewayClientError::Protocol {
                what: "the gateway is one of another kind than before".to_owned(),
            }),
        }
    }

    /// Opens a session of zero's own gateway on another connection, as it is.
    pub(crate) async fn reopen_native(
        self: &Arc<Self>,
        slot: &Arc<SessionSlot>,
        up: &Arc<LinkConnection>,
    ) -> Result<(), GatewayClientError> {
        let params = SessionOpenParams {
            session_key: Some(slot.key()),
            require_existing: true,
            ..SessionOpenParams::default()
        };
        slot.update_info(self.request_on::<ZeroSessionsOpen>(up, params).await?);
        if let Some(hosted) = slot.hosted_tools() {
            self.attach_tools(slot, up, hosted, HostingClaim::Restore).await?;
        }
        Ok(())
    }

    /// Handles the end of a connection: open sessions are notified, and it is redialled for them.
    pub(crate) fn handle_connection_loss(self: &Arc<Self>, number: u64) {
        let slots = self.slots();
        let next = if slots.is_empty() { LinkPhase::Down } else { LinkPhase::Reconnecting(None) };
        let mut ended_connection = None;
        self.phase.send_if_modified(|phase| match phase {
            LinkPhase::Connected(up) if up.number == number => {
                ended_connection = Some(Arc::clone(up));
                *phase = next;
                true
            }
            _ => false,
        });
        let Some(ended) = ended_connection else { return };
        ended.over.cancel();
        for slot in &slots {
            slot.detach();
            slot.inbox.push_status(GatewayUpdate::Disconnected);
        }
        if !slots.is_empty() {
            tokio::spawn(Arc::clone(self).reconnect());
        }
    }

    /// Redials until it succeeds, fails for good or is no longer needed.
    async fn reconnect(self: Arc<Self>) {
        let deadline = Instant::now() + self.return_max;
        let mut backoff = ReconnectBackoff::new();
        loop {
            let mut dialling = self.dialling.lock().await;
            if !matches!(*self.phase.borrow(), LinkPhase::Reconnecting(_)) {
                return;
            }
            if self.slots().is_empty() {
                self.phase.send_replace(LinkPhase::Down);
                return;
            }
            let Err(error) = self.establish().await else {
                *dialling = DialState::default();
                return;
            };
            tracing::debug!(%error, "the gateway is not back yet");
            if !error.is_transient() || Instant::now() >= deadline {
                dialling.pause_after(error.clone());
                self.give_up(&error);
                return;
            }
            drop(dialling);
            self.phase.send_if_modified(|phase| match phase {
                LinkPhase::Reconnecting(last) => {
                    *last = Some(error);
                    true
                }
                _ => false,
            });
            let wait = backoff.next_delay().min(deadline.duration_since(Instant::now()));
            tokio::time::sleep(wait).await;
        }
    }

    fn give_up(&self, error: &GatewayLinkError) {
        self.phase.send_if_modified(|phase| match phase {
            LinkPhase::Reconnecting(_) => {
                *phase = LinkPhase::Down;
                true
            }
            _ => false,
        });
        for slot in self.slots() {
            slot.inbox.push_status(GatewayUpdate::Lost(error.clone()));
        }
    }

    /// Closes the connection and leaves every session.
    pub(super) async fn close(&self) {
        let before = self.phase.send_replace(LinkPhase::Closed);
        let slots = std::mem::take(&mut *self.lock_slots());
        slots.values().for_each(|slot| slot.leave());
        if let LinkPhase::Connected(up) = before {
            up.client.close().await;
        }
    }

    /// A number that was not used before.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The sessions, oldest first.
    pub(crate) fn slots(&self) -> Vec<Arc<SessionSlot>> {
        self.lock_slots().values().cloned().collect()
    }

    /// Checks whether another session can be opened.
    pub(crate) fn check_capacity(&self) -> Result<(), GatewayLinkError> {
        if self.lock_slots().len() < SLOTS_MAX {
            return Ok(());
        }
        Err(GatewayLinkError::Refused {
            code: zero_wire::ErrorCode::Unavailable,
            message: format!("{SLOTS_MAX} sessions are open already; close one first"),
            detail: None,
        })
    }

    /// Adds a session; it receives events from now on.
    pub(crate) fn add_slot(&self, slot: &Arc<SessionSlot>) {
        self.lock_slots().insert(slot.number, Arc::clone(slot));
    }

    /// Removes a session; it receives no more events. Returns another session of the same key, if
    /// there is one.
    pub(crate) fn remove_slot(&self, slot: &SessionSlot) -> Option<Arc<SessionSlot>> {
        let mut slots = self.lock_slots();
        slots.remove(&slot.number);
        let key = slot.key();
        slots.values().find(|other| other.has_key(&key)).cloned()
    }

    /// Attaches the tools of a session on a connection.
    pub(crate) async fn attach_tools(
        self: &Arc<Self>,
        slot: &SessionSlot,
        up: &Arc<LinkConnection>,
        hosted: HostedTools,
        claim: HostingClaim,
    ) -> Result<(), GatewayClientError> {
        slot.attach_tools(&up.client, hosted, claim, self.next_number()).await
    }

    pub(super) fn count_stray(&self) {
        self.strays.fetch_add(1, Ordering::Relaxed);
    }

    /// How many entries belonged to no open session.
    pub(crate) fn stray_count(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    fn lock_slots(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<SessionSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DialState {
    fn pause_after(&mut self, error: GatewayLinkError) {
        // A settings error is not cached: the user may be fixing the file.
        if let GatewayLinkError::Settings { .. } = error {
            self.resting = None;
            return;
        }
        let until = Instant::now() + self.backoff.next_delay().min(FAILED_DIAL_PAUSE_MAX);
        self.resting = Some((until, error));
    }
}

/// Converts a refusal into the error of a session.
pub(crate) fn session_error(error: GatewayClientError, key: &str) -> GatewayLinkError {
    GatewayLinkError::from(error).for_session(key)
}

fn closed_error() -> GatewayLinkError {
    GatewayLinkError::Unreachable {
        message: "the connection to the gateway was closed here; open another one".to_owned(),
        is_passing: false,
    }
}

fn lost_again_error() -> GatewayLinkError {
    GatewayLinkError::Unreachable {
        message: "the gateway closed the connection; see whether it still runs, and try again"
            .to_owned(),
        is_passing: true,
    }
}
