//! What all users of a link share: the connection, as it stands, and the sessions.

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

/// Longest time after a failed dial in which the next who asks is told the same without a dial. They
/// may have mended it meanwhile.
const FAILED_DIAL_PAUSE_MAX: Duration = Duration::from_secs(3);
/// Sessions that one link may have open.
const SLOTS_MAX: usize = 256;

/// What all users of a link share.
pub(crate) struct SharedLink {
    dial: Arc<dyn GatewayDialer>,
    /// How long a lost connection is dialled again before its sessions are told that it is gone.
    return_max: Duration,
    phase: watch::Sender<LinkPhase>,
    /// One dials at a time.
    dialling: tokio::sync::Mutex<DialState>,
    slots: Mutex<BTreeMap<u64, Arc<SessionSlot>>>,
    /// Numbers connections, sessions and attachments.
    numbers: AtomicU64,
    /// Entries of sessions that nobody has open.
    strays: AtomicU64,
}

/// How the connection stands.
#[derive(Clone)]
enum LinkPhase {
    /// There is none.
    Down,
    /// It was lost and is being dialled again. What the last dial said.
    Reconnecting(Option<GatewayLinkError>),
    /// It is there.
    Connected(Arc<LinkConnection>),
    /// There will be none any more.
    Closed,
}

/// One established connection to the gateway; a reconnect makes a new one.
pub(crate) struct LinkConnection {
    /// Names it.
    pub(crate) number: u64,
    /// To ask by.
    pub(crate) client: GatewayClient,
    /// What kind of gateway it is.
    pub(crate) side: GatewayKind,
    /// Where it leads.
    pub(crate) place: GatewayLocality,
    over: CancellationToken,
}

/// What kind of gateway it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatewayKind {
    /// One of zero's own: it has a ledger.
    Native,
    /// Another one of the family.
    OpenClaw,
}

/// What is known of dials that failed.
#[derive(Default)]
struct DialState {
    backoff: ReconnectBackoff,
    resting: Option<(Instant, GatewayLinkError)>,
}

/// For whom a connection is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconnectWait {
    /// For a new request: who cannot be reached is not waited for.
    Now,
    /// For one that was under way: it waits as long as the connection is dialled again.
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

    /// A connection; makes one, if there is none.
    pub(crate) async fn ensure_connected(
        self: &Arc<Self>,
        patience: ReconnectWait,
    ) -> Result<Arc<LinkConnection>, GatewayLinkError> {
        let mut phases = self.phase.subscribe();
        // Each turn waits for a change, or is the last.
        loop {
            let phase = phases.borrow_and_update().clone();
            match phase {
                LinkPhase::Connected(up) => return Ok(up),
                LinkPhase::Closed => return Err(closed_error()),
                LinkPhase::Reconnecting(Some(error)) if patience == ReconnectWait::Now => {
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

    /// Dials, and opens every session anew.
    async fn establish(self: &Arc<Self>) -> Result<Arc<LinkConnection>, GatewayLinkError> {
        let GatewayConnection { client, events, place } = self.dial.dial().await?;
        let is_own = client.has_capability("zero.sessions");
        let over = CancellationToken::new();
        let up = Arc::new(LinkConnection {
            number: self.next_number(),
            client,
            side: if is_own { GatewayKind::Native } else { GatewayKind::OpenClaw },
            place,
            over: over.clone(),
        });
        event_dispatch::listen(Arc::downgrade(self), up.number, over.clone(), events);
        // Nothing is heard by a connection that comes to nothing.
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
                    // Others can go on without it.
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
        match (up.side, &slot.voice) {
            (GatewayKind::Native, None) => self.reopen_native(slot, up).await,
            (GatewayKind::OpenClaw, Some(voice)) => voice.reopen(self, slot, up).await,
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

    /// A connection ended. Sessions that are open are told, and want it back.
    pub(crate) fn handle_connection_loss(self: &Arc<Self>, number: u64) {
        let slots = self.slots();
        let next = if slots.is_empty() { LinkPhase::Down } else { LinkPhase::Reconnecting(None) };
        let mut ended = None;
        self.phase.send_if_modified(|phase| match phase {
            LinkPhase::Connected(up) if up.number == number => {
                ended = Some(Arc::clone(up));
                *phase = next;
                true
            }
            _ => false,
        });
        let Some(ended) = ended else { return };
        ended.over.cancel();
        for slot in &slots {
            slot.detach();
            slot.inbox.push_status(GatewayUpdate::Disconnected);
        }
        if !slots.is_empty() {
            tokio::spawn(Arc::clone(self).reconnect());
        }
    }

    /// Dials again until it works, or is of no use any more.
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

    /// Ends the connection, and leaves every session.
    pub(super) async fn close(&self) {
        let before = self.phase.send_replace(LinkPhase::Closed);
        let slots = std::mem::take(&mut *self.lock_slots());
        slots.values().for_each(|slot| slot.leave());
        if let LinkPhase::Connected(up) = before {
            up.client.close().await;
        }
    }

    /// A number that was not given before.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// The sessions, the oldest first.
    pub(crate) fn slots(&self) -> Vec<Arc<SessionSlot>> {
        self.lock_slots().values().cloned().collect()
    }

    /// Whether there is room for another session.
    pub(crate) fn check_capacity(&self) -> Result<(), GatewayLinkError> {
        if self.lock_slots().len() < SLOTS_MAX {
            return Ok(());
        }
        Err(GatewayLinkError::Refused {
            code: zero_wire::ErrorCode::Unavailable,
            message: format!("{SLOTS_MAX} sessions are open already; close one first"),
        })
    }

    /// A session hears from now on.
    pub(crate) fn add_slot(&self, slot: &Arc<SessionSlot>) {
        self.lock_slots().insert(slot.number, Arc::clone(slot));
    }

    /// It hears no more. Gives another one of the same key, if there is one.
    pub(crate) fn remove_slot(&self, slot: &SessionSlot) -> Option<Arc<SessionSlot>> {
        let mut slots = self.lock_slots();
        slots.remove(&slot.number);
        let key = slot.key();
        slots.values().find(|other| other.has_key(&key)).cloned()
    }

    /// Hosts the tools of a session on a connection.
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

    /// How many entries found no session.
    pub(crate) fn stray_count(&self) -> u64 {
        self.strays.load(Ordering::Relaxed)
    }

    fn lock_slots(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<SessionSlot>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DialState {
    fn pause_after(&mut self, error: GatewayLinkError) {
        // What a person wrote is read again at once: they may be mending it.
        if let GatewayLinkError::Settings { .. } = error {
            self.resting = None;
            return;
        }
        let until = Instant::now() + self.backoff.next_delay().min(FAILED_DIAL_PAUSE_MAX);
        self.resting = Some((until, error));
    }
}

/// What a refusal says of a session.
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
