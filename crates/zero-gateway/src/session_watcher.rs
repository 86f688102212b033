//! Delivers the events of watched sessions to a connection.
//!
//! One task per connection owns the state of all its subscriptions, so the events of a session stay
//! in order. The bus may drop entries when the task is too slow. The task detects this by a gap in
//! the sequence numbers and reads the missing entries from the store. A client that reads slowly
//! gets further entries of a ledger from the store, too, once it has read what is queued. A
//! connection therefore receives every entry exactly once, or it is closed.
//!
//! If the end of a run cannot be recorded, the ledger has no entry about it; the client is informed
//! separately.
//!
//! The bus knows only what this process writes. Entries that another process writes, such as the
//! turns of a second editor on the same store, are found by a change of the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde::Serialize;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zero_core::event::{Event, EventKind, RunOutcome, TokenUsage};
use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;
use zero_session::event_bus::{
    Delivery, DeliveryReceiver, DeliverySender, Subscription, delivery_channel,
};
use zero_session::sessions::{SessionError, SessionManager, UnrecordedEnd};
use zero_session::store::{LedgerReadLimit, SessionRecord, StoreError, ToolHostLocation};
use zero_wire::zero_sessions::{RUN_UNRECORDED, RunUnrecorded, SESSION_EVENT};
use zero_wire::{ErrorCode, ErrorPayload};

use crate::error_payloads::to_error_shape;
use crate::ledger_tail::{self, READ_BYTES_MAX};
use crate::openclaw_relay::{
    FlushScope, OpenClawRelay, RelayEvent, RelayInterest, RelaySessionInfo, SendCapacity,
};
use crate::read_limiter::run_blocking;
use crate::send_queue::SendQueue;

/// Maximum number of sessions one connection may watch.
const SESSIONS_MAX: usize = 512;
/// Capacity of the subscription queue; the bus drops entries beyond it.
const ENTRIES_MAX: usize = 1_024;
/// Capacity of the task's request queue.
const COMMANDS_MAX: usize = 64;
/// Limits of one read from the store.
const PAGE_LIMITS: LedgerReadLimit = LedgerReadLimit { entries: 1_000, bytes: 4 * 1024 * 1024 };
/// Number of entries after which the task yields.
const YIELD_AFTER: usize = 64;
/// Maximum time for which text of a long reply is held back.
const HOLD_MAX: Duration = Duration::from_millis(100);
/// Most watched sessions with which entries of other processes are looked for: each costs a read.
const SHARED_SESSIONS_MAX: usize = 16;
/// Close code: the server cannot continue with this connection, but the client may reconnect.
const CLOSE_TRY_AGAIN: u16 = 1013;

/// Event format of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchAudience {
    /// Ledger entries.
    Ledger,
    /// Events of the OpenClaw protocol.
    OpenClaw(RelayInterest),
    /// Approval events of the OpenClaw protocol only: for clients that may answer approvals but not
    /// read.
    Approver,
}

impl WatchAudience {
    /// The interest with which the OpenClaw relay is created; `None` for ledger clients.
    fn interest(self) -> Option<RelayInterest> {
        match self {
            Self::Ledger => None,
            Self::OpenClaw(interest) => Some(interest),
            Self::Approver => Some(RelayInterest { tools: false, approvals: true }),
        }
    }

    /// Whether the client receives this event.
    fn can_receive(self, event: &RelayEvent) -> bool {
        self != Self::Approver
            || matches!(event, RelayEvent::ApprovalRequested(_) | RelayEvent::ApprovalResolved(_))
    }
}

/// The connection's handle to the task.
pub(crate) struct WatchHandle {
    orders: mpsc::Sender<WatchCommand>,
}

enum WatchCommand {
    /// Subscribe to a session; returns the number of the last entry before the subscription.
    Watch { session: Box<SessionRecord>, done: oneshot::Sender<Result<u64, ErrorPayload>> },
    /// End the subscription.
    Unwatch { session: SessionId, done: oneshot::Sender<()> },
}

impl WatchHandle {
    /// Starts the task for a client of `owner`; it ends when `gone` is cancelled.
    pub(crate) fn start(
        sessions: SessionManager,
        outbox: SendQueue,
        audience: WatchAudience,
        owner: String,
        disconnected: CancellationToken,
    ) -> Self {
        let unrecorded_ends = sessions.unrecorded_ends();
        Self::start_with_ends(sessions, outbox, audience, owner, disconnected, unrecorded_ends)
    }

    fn start_with_ends(
        sessions: SessionManager,
        outbox: SendQueue,
        audience: WatchAudience,
        owner: String,
        disconnected: CancellationToken,
        unrecorded_ends: broadcast::Receiver<UnrecordedEnd>,
    ) -> Self {
        let (orders, receiver) = mpsc::channel(COMMANDS_MAX);
        let (sender, listener) = delivery_channel(ENTRIES_MAX);
        let watched = HashMap::new();
        let watcher = SessionWatcher {
            sessions,
            outbox,
            audience,
            owner,
            sender,
            watched,
            is_behind: false,
            touches: 0,
            foreign_writes: None,
            unrecorded_ends,
        };
        tokio::spawn(async move {
            let work = watcher.run(receiver, listener);
            disconnected.run_until_cancelled(work).await;
        });
        Self { orders }
    }

    /// Subscribes to a session. Every entry after this returns is delivered. Returns the sequence
    /// number of the last entry before the subscription.
    pub(crate) async fn watch(&self, session: &SessionRecord) -> Result<u64, ErrorPayload> {
        let (done, answer) = oneshot::channel();
        let order = WatchCommand::Watch { session: Box::new(session.clone()), done };
        self.orders.send(order).await.map_err(|_| closing_error())?;
        answer.await.map_err(|_| closing_error())?
    }

    /// Ends the subscription.
    pub(crate) async fn unwatch(&self, session: &SessionId) {
        let (done, answer) = oneshot::channel();
        let order = WatchCommand::Unwatch { session: session.clone(), done };
        if self.orders.send(order).await.is_ok() {
            let _ = answer.await;
        }
    }
}

/// Error for a request that arrives after the task has ended.
pub(crate) fn closing_error() -> ErrorPayload {
    ErrorPayload::new(ErrorCode::Unavailable, "the connection is closing; connect again")
}

struct SessionWatcher {
    sessions: SessionManager,
    outbox: SendQueue,
    audience: WatchAudience,
    /// Owner of the client's sessions; events of others name theirs.
    owner: String,
    sender: DeliverySender,
    watched: HashMap<SessionId, WatchedSession>,
    /// Whether entries were left out because the client reads too slowly.
    is_behind: bool,
    /// Request counter, used to find the least recently requested session.
    touches: u64,
    /// Tells when to look for entries of other processes; `None` while no session is watched.
    foreign_writes: Option<watch::Receiver<()>>,
    /// Runs whose ends cannot be recorded.
    unrecorded_ends: broadcast::Receiver<UnrecordedEnd>,
}

struct WatchedSession {
    key: Arc<str>,
    /// Sequence number of the next expected entry.
    next: u64,
    /// Translates entries for OpenClaw-compatible clients.
    relay: Option<OpenClawRelay>,
    touched: u64,
    /// The run about whose unrecorded end the client was told last.
    told_unrecorded: Option<RunId>,
    _subscription: Subscription,
}

struct ConnectionClosed;

impl SessionWatcher {
    async fn run(
        mut self,
        mut orders: mpsc::Receiver<WatchCommand>,
        mut listener: DeliveryReceiver,
    ) {
        let mut in_a_row: usize = 0;
        let mut hold_until = None;
        loop {
            // Unconstrained, because tokio's coop budget would make a full subscription look empty.
            let waiting = tokio::task::unconstrained(listener.next()).now_or_never();
            let step = match waiting {
                Some(None) => return,
                Some(Some(delivery)) => {
                    in_a_row += 1;
                    self.handle_delivery(delivery).await
                }
                None => {
                    // If the task drained a full queue without finding it empty, the bus may have
                    // dropped entries meanwhile.
                    let was_deaf = std::mem::take(&mut in_a_row) >= ENTRIES_MAX;
                    if was_deaf && self.catch_up_all().await.is_err() {
                        return;
                    }
                    if self.flush(&mut hold_until).is_err() {
                        return;
                    }
                    if self.watched.is_empty() {
                        self.foreign_writes = None;
                    }
                    let (outbox, is_behind) = (self.outbox.clone(), self.is_behind);
                    let is_shared = self.watched.len() <= SHARED_SESSIONS_MAX;
                    tokio::select! {
                        () = outbox.wait_uncrowded(), if is_behind => {
                            self.is_behind = false;
                            self.catch_up_all().await
                        }
                        order = orders.recv() => match order {
                            Some(order) => self.run_command(order).await,
                            None => return,
                        },
                        delivery = listener.next() => match delivery {
                            Some(delivery) => {
                                in_a_row = 1;
                                self.handle_delivery(delivery).await
                            }
                            None => return,
                        },
                        () = wait_until(hold_until) => Ok(()),
                        () = wait_for_change(&mut self.foreign_writes), if is_shared => {
                            self.catch_up_all().await
                        }
                        end = self.unrecorded_ends.recv() => match end {
                            Ok(end) => self.report_unrecorded(&end),
                            // Each failed attempt is reported.
                            Err(broadcast::error::RecvError::Lagged(_)) => Ok(()),
                            Err(broadcast::error::RecvError::Closed) => return,
                        },
                    }
                }
            };
            if step.is_err() {
                return;
            }
            // A busy subscription must not delay buffered text, requests and other connections.
            if in_a_row % YIELD_AFTER == YIELD_AFTER - 1 {
                let obeyed = match orders.try_recv() {
                    Ok(order) => self.run_command(order).await,
                    Err(_) => Ok(()),
                };
                if obeyed.and_then(|()| self.flush(&mut hold_until)).is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
    }

    /// Sends buffered text. Text that is too short for a delta waits a little.
    fn flush(&mut self, hold_until: &mut Option<Instant>) -> Result<(), ConnectionClosed> {
        let is_due = hold_until.is_some_and(|until| until <= Instant::now());
        let which = if is_due { FlushScope::All } else { FlushScope::EnoughNew };
        let mut holds = false;
        for relay in self.watched.values_mut().filter_map(|watched| watched.relay.as_mut()) {
            // A slow client receives fewer updates of a growing text instead of being disconnected.
            if !self.outbox.is_crowded() {
                let mut events = Vec::new();
                relay.flush(which, &mut events);
                send_all(&self.outbox, self.audience, &events)?;
            }
            holds |= relay.has_held_text();
        }
        *hold_until = match *hold_until {
            _ if !holds => None,
            Some(until) if !is_due => Some(until),
            _ => Some(Instant::now() + HOLD_MAX),
        };
        Ok(())
    }

    async fn handle_delivery(&mut self, delivery: Delivery) -> Result<(), ConnectionClosed> {
        let Some(watched) = self.watched.get_mut(&delivery.session) else { return Ok(()) };
        if delivery.event.seq < watched.next {
            return Ok(());
        }
        if watched.relay.is_none() && self.outbox.is_crowded() {
            self.is_behind = true;
            return Ok(());
        }
        if delivery.event.seq > watched.next {
            return self.catch_up(&delivery.session).await;
        }
        watched.deliver(&delivery.event, &self.outbox, self.audience)
    }

    /// Tells the client once that the end of a run is not recorded, and once that it will not be.
    fn report_unrecorded(&mut self, end: &UnrecordedEnd) -> Result<(), ConnectionClosed> {
        let Some(watched) = self.watched.get_mut(&end.session) else { return Ok(()) };
        let is_known = watched.told_unrecorded.as_ref() == Some(&end.run);
        if is_known && !end.is_abandoned {
            return Ok(());
        }
        watched.told_unrecorded = Some(end.run.clone());
        watched.deliver_unrecorded(end, &self.outbox, self.audience)
    }

    async fn catch_up_all(&mut self) -> Result<(), ConnectionClosed> {
        let all: Vec<SessionId> = self.watched.keys().cloned().collect();
        for session in all {
            self.catch_up(&session).await?;
        }
        Ok(())
    }

    /// Reads missed entries from the store.
    async fn catch_up(&mut self, session: &SessionId) -> Result<(), ConnectionClosed> {
        let store = Arc::clone(self.sessions.store());
        let Some(watched) = self.watched.get_mut(session) else { return Ok(()) };
        // Each page advances by at least one entry, so the loop ends at the end of the ledger.
        loop {
            match store.events(session, watched.next - 1, PAGE_LIMITS).await {
                Ok(events) if events.is_empty() => return Ok(()),
                Ok(events) => {
                    for event in &events {
                        // An entry for a ledger client can be read later as well.
                        if watched.relay.is_none() && self.outbox.is_crowded() {
                            self.is_behind = true;
                            return Ok(());
                        }
                        watched.deliver(event, &self.outbox, self.audience)?;
                    }
                }
                Err(StoreError::NoSession(_)) => {
                    self.watched.remove(session);
                    return Ok(());
                }
                Err(error) => {
                    tracing::warn!(%error, "missed entries of a ledger cannot be read");
                    let reason = match error {
                        StoreError::Damaged { .. } => {
                            "events were missed and are damaged; run `zero doctor` at the gateway"
                        }
                        _ => "events were missed and cannot be read; connect again",
                    };
                    self.outbox.close(CLOSE_TRY_AGAIN, reason);
                    return Err(ConnectionClosed);
                }
            }
        }
    }

    async fn run_command(&mut self, order: WatchCommand) -> Result<(), ConnectionClosed> {
        match order {
            WatchCommand::Watch { session, done } => {
                let mut events = Vec::new();
                // Before the ledger is read, so that nothing is missed in between.
                self.foreign_writes.get_or_insert_with(|| self.sessions.foreign_writes());
                let watched = self.watch_session(&session, &mut events).await;
                let _ = done.send(watched);
                send_all(&self.outbox, self.audience, &events)?;
                // Sessions that were deleted elsewhere do not count.
                match self.watched.len() == SHARED_SESSIONS_MAX + 1 {
                    true => self.catch_up_all().await,
                    false => Ok(()),
                }
            }
            WatchCommand::Unwatch { session, done } => {
                self.watched.remove(&session);
                let _ = done.send(());
                Ok(())
            }
        }
    }

    async fn watch_session(
        &mut self,
        session: &SessionRecord,
        events: &mut Vec<RelayEvent>,
    ) -> Result<u64, ErrorPayload> {
        self.touches += 1;
        let touched = self.touches;
        if let Some(watched) = self.watched.get_mut(&session.id) {
            watched.touched = touched;
            return Ok(watched.next - 1);
        }
        self.evict_idle()?;
        // Subscribes before reading the ledger. Entries between the two arrive twice and are
        // recognized by their sequence number.
        let subscription = self.sessions.bus().subscribe(&session.id, &self.sender);
        let (last, relay) = match self.audience.interest() {
            None => {
                let store = self.sessions.store();
                (store.last_seq(&session.id).await, None)
            }
            Some(interest) => match self.build_relay(session, interest).await {
                Ok((last, mut relay)) => {
                    relay.catch_up(events);
                    (Ok(last), Some(relay))
                }
                Err(error) => (Err(error), None),
            },
        };
        let last = last.map_err(|error| to_error_shape(error.into()))?;
        let key = Arc::from(session.address().to_text(&self.owner));
        let watched = WatchedSession {
            key,
            next: last + 1,
            relay,
            touched,
            told_unrecorded: None,
            _subscription: subscription,
        };
        self.watched.insert(session.id.clone(), watched);
        Ok(last)
    }

    async fn build_relay(
        &self,
        session: &SessionRecord,
        interest: RelayInterest,
    ) -> Result<(u64, OpenClawRelay), StoreError> {
        let active = match self.sessions.unfinished_runs(&session.id).await {
            Ok(active) => active,
            Err(SessionError::Store(error)) => return Err(error),
            Err(_) => Vec::new(),
        };
        let begins = |run: &RunId, event: &Event| {
            event.run.as_ref() == Some(run) && matches!(event.kind, EventKind::Prompt { .. })
        };
        let run_id = active.clone();
        let enough = move |events: &[Event]| {
            run_id.iter().all(|run| events.iter().any(|event| begins(run, event)))
        };
        let store = self.sessions.store();
        let tail =
            ledger_tail::read_tail(store.as_ref(), &session.id, READ_BYTES_MAX, enough).await?;
        let about = Arc::new(relay_info(session, &self.owner));
        run_blocking(move || {
            (tail.last_seq(), OpenClawRelay::from_history(about, interest, active, &tail.events))
        })
        .await
    }

    /// OpenClaw-compatible clients never unsubscribe, so the least recently requested idle session
    /// is removed. Other clients unsubscribe themselves.
    fn evict_idle(&mut self) -> Result<(), ErrorPayload> {
        if self.watched.len() < SESSIONS_MAX {
            return Ok(());
        }
        let is_idle =
            |watched: &WatchedSession| watched.relay.as_ref().is_some_and(|r| !r.is_busy());
        let idle = self.watched.iter().filter(|(_, watched)| is_idle(watched));
        let oldest = idle.min_by_key(|(_, watched)| watched.touched).map(|(id, _)| id.clone());
        match oldest {
            Some(oldest) => {
                self.watched.remove(&oldest);
                Ok(())
            }
            None => Err(ErrorPayload::invalid(format!(
                "this connection watches {SESSIONS_MAX} sessions already; unsubscribe from one, \
                 or open another connection"
            ))),
        }
    }
}

impl WatchedSession {
    /// Delivers the next entry.
    fn deliver(
        &mut self,
        event: &Event,
        outbox: &SendQueue,
        audience: WatchAudience,
    ) -> Result<(), ConnectionClosed> {
        if event.seq < self.next {
            return Ok(());
        }
        self.next = event.seq + 1;
        let Some(relay) = &mut self.relay else {
            let payload = SessionEventRef { session_key: &self.key, event };
            return if outbox.send_event(SESSION_EVENT, &payload) {
                Ok(())
            } else {
                Err(ConnectionClosed)
            };
        };
        let mut events = Vec::new();
        let capacity = if outbox.is_crowded() { SendCapacity::Low } else { SendCapacity::Ample };
        relay.handle_event(event, capacity, &mut events);
        send_all(outbox, audience, &events)
    }
}

impl WatchedSession {
    /// Other gateways of the OpenClaw protocol have no ledger: their clients see a notice, or the end itself.
    fn deliver_unrecorded(
        &mut self,
        end: &UnrecordedEnd,
        outbox: &SendQueue,
        audience: WatchAudience,
    ) -> Result<(), ConnectionClosed> {
        let message = end.message.clone();
        let Some(relay) = &mut self.relay else {
            let payload = RunUnrecorded {
                session_key: self.key.to_string(),
                run_id: end.run.to_string(),
                message,
                is_abandoned: end.is_abandoned,
            };
            return match outbox.send_event(RUN_UNRECORDED, &payload) {
                true => Ok(()),
                false => Err(ConnectionClosed),
            };
        };
        let kind = match end.is_abandoned {
            true => EventKind::RunEnded {
                end: RunOutcome::Failed { kind: "store".to_owned(), message },
                usage: TokenUsage::default(),
            },
            false => EventKind::Notice { topic: "unrecorded".to_owned(), text: message },
        };
        let event = Event { seq: self.next, run: Some(end.run.clone()), time_ms: now_ms(), kind };
        let mut events = Vec::new();
        relay.handle_event(&event, SendCapacity::Ample, &mut events);
        send_all(outbox, audience, &events)
    }
}

/// [`zero_wire::zero_sessions::SessionEvent`] that borrows the entry.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionEventRef<'a> {
    session_key: &'a str,
    event: &'a Event,
}

fn relay_info(session: &SessionRecord, owner: &str) -> RelaySessionInfo {
    RelaySessionInfo {
        key: session.address().to_text(owner),
        agent: session.agent.clone(),
        host: host_label(&session.tool_host).to_owned(),
    }
}

/// Label of the place where a session's tools run.
pub(crate) fn host_label(location: &ToolHostLocation) -> &str {
    match location {
        ToolHostLocation::Gateway => "gateway",
        ToolHostLocation::Client { name } => name,
    }
}

fn send_all(
    outbox: &SendQueue,
    audience: WatchAudience,
    events: &[RelayEvent],
) -> Result<(), ConnectionClosed> {
    let mut visible = events.iter().filter(|event| audience.can_receive(event));
    if visible.all(|event| event.send(outbox)) { Ok(()) } else { Err(ConnectionClosed) }
}

async fn wait_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Waits until another process has written; forever if writes of other processes are not monitored.
async fn wait_for_change(writes: &mut Option<watch::Receiver<()>>) {
    let changed = match writes {
        Some(writes) => writes.changed().await.is_ok(),
        None => false,
    };
    if !changed {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
