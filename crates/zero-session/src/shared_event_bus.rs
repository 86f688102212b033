//! The event bus of a process that shares its store with other machines.
//!
//! Entries of this process are delivered directly, and rung for on the [`NodeBus`]. When others ring, one
//! task reads what is new in all sessions that have subscribers here, in one statement. The store is the
//! truth: entries that are announced late, twice or never are found by their numbers. While the bus does
//! not work, the task looks at the sequence numbers of these sessions by itself.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use zero_core::SessionId;

use crate::cluster_node::SharedSessionStore;
use crate::event::Event;
use crate::event_bus::{DeliverySender, EventBus, Subscription};
use crate::local_event_bus::LocalEventBus;
use crate::node_bus::{Doorbell, DoorbellSignal, NodeBus, NodeBusState};
use crate::store::{LedgerReadLimit, StoreError};

/// How often the task checks whether the bus works, and reads the sequence numbers while it does
/// not.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Most sessions that one statement asks for.
const SESSIONS_MAX: usize = 1_000;
/// Most sessions whose entries one statement reads.
const READ_SESSIONS_MAX: usize = 256;
/// Limits of such a read; the number is that of one session.
const PAGE: LedgerReadLimit = LedgerReadLimit { entries: 256, bytes: 4 * 1024 * 1024 };
/// Pause between two reads, so that entries that come at the same time are read together.
const READ_PAUSE: Duration = Duration::from_millis(2);

/// Delivers the entries of all processes to subscribers in this one.
pub struct SharedEventBus {
    inner: Arc<SharedBus>,
}

struct SharedBus {
    local: LocalEventBus,
    shared: Arc<dyn SharedSessionStore>,
    node_bus: Arc<dyn NodeBus>,
    table: Mutex<WatchTable>,
    /// Notified when a session is behind.
    behind: Notify,
}

/// The sessions with subscribers.
#[derive(Default)]
struct WatchTable {
    watched: HashMap<SessionId, WatchedLedger>,
    /// Those with entries that are to be read, the one that waits longest first.
    behind: VecDeque<SessionId>,
}

/// How far the subscribers of a session are.
struct WatchedLedger {
    /// The newest entry that was delivered, once one was.
    delivered: Option<u64>,
    /// The newest entry that is known to be in the store.
    known: u64,
    is_queued: bool,
    /// The task that waits at the doorbell.
    doorman: AbortHandle,
}

impl Drop for WatchedLedger {
    fn drop(&mut self) {
        self.doorman.abort();
    }
}

impl SharedEventBus {
    /// Delivers entries of other processes, until the bus is dropped.
    pub fn start(shared: Arc<dyn SharedSessionStore>, node_bus: Arc<dyn NodeBus>) -> Self {
        let inner = Arc::new(SharedBus {
            local: LocalEventBus::new(),
            shared,
            node_bus,
            table: Mutex::default(),
            behind: Notify::new(),
        });
        tokio::spawn(deliver_entries(Arc::downgrade(&inner)));
        Self { inner }
    }
}

impl EventBus for SharedEventBus {
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]) {
        let Some(last) = events.last() else { return };
        if let Some(watched) = self.inner.lock().watched.get_mut(session) {
            // Should an entry of another process be between them, subscribers see the gap.
            watched.delivered = watched.delivered.max(Some(last.seq));
        }
        self.inner.local.publish(session, events);
        self.inner.node_bus.ring(session, last.seq);
    }

    fn subscribe(&self, session: &SessionId, sender: &DeliverySender) -> Subscription {
        let subscription = self.inner.local.subscribe(session, sender);
        // Afterwards, so that the session is not taken for one without subscribers.
        let mut table = self.inner.lock();
        if !table.watched.contains_key(session) {
            let doorbell = self.inner.node_bus.doorbell(session);
            let waiting = wait_at_door(Arc::downgrade(&self.inner), session.clone(), doorbell);
            let doorman = tokio::spawn(waiting).abort_handle();
            let watched = WatchedLedger { delivered: None, known: 0, is_queued: false, doorman };
            table.watched.insert(session.clone(), watched);
        }
        subscription
    }
}

impl WatchTable {
    /// Notes that the store has entries up to a number. Returns whether the session was added to
    /// those that are to be read.
    fn note(&mut self, session: &SessionId, last: u64) -> bool {
        let Some(watched) = self.watched.get_mut(session) else { return false };
        watched.known = watched.known.max(last);
        let is_behind = watched.delivered.is_none_or(|delivered| delivered < watched.known);
        if !is_behind || watched.known == 0 || watched.is_queued {
            return false;
        }
        watched.is_queued = true;
        self.behind.push_back(session.clone());
        true
    }

    /// Notes that the store no longer has a session.
    fn forget(&mut self, session: &SessionId) {
        if let Some(watched) = self.watched.get_mut(session) {
            watched.known = watched.delivered.unwrap_or_default();
        }
    }

    /// Takes sessions whose entries are to be read, each with the number of the last one that was
    /// delivered.
    fn take_behind(&mut self) -> Vec<(SessionId, u64)> {
        let mut taken = Vec::new();
        while taken.len() < READ_SESSIONS_MAX
            && let Some(session) = self.behind.pop_front()
        {
            let Some(watched) = self.watched.get_mut(&session) else { continue };
            watched.is_queued = false;
            // Where a new subscriber is cannot be known, but it sees a gap before the last entry.
            let after = watched.delivered.unwrap_or_else(|| watched.known.saturating_sub(1));
            if after < watched.known {
                taken.push((session, after));
            }
        }
        taken
    }
}

impl SharedBus {
    fn lock(&self) -> MutexGuard<'_, WatchTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, session: &SessionId, last: u64) {
        if self.lock().note(session, last) {
            self.behind.notify_one();
        }
    }

    /// Forgets sessions that have no subscribers any more.
    fn forget_unwatched(&self) {
        let mut table = self.lock();
        let subscribed = self.local.subscribed_sessions();
        table.watched.retain(|session, _| subscribed.contains(session));
    }

    /// Looks at the sequence numbers of all sessions with subscribers.
    async fn look(&self) -> Result<(), StoreError> {
        let watched: Vec<SessionId> = self.lock().watched.keys().cloned().collect();
        for some in watched.chunks(SESSIONS_MAX) {
            for (session, last) in self.shared.last_seqs(some.to_vec()).await? {
                self.note(&session, last);
            }
        }
        Ok(())
    }

    /// Reads and delivers what is new in some sessions that are behind.
    async fn read(&self) -> Result<(), StoreError> {
        let taken = self.lock().take_behind();
        if taken.is_empty() {
            return Ok(());
        }
        let read = self.shared.new_events(taken.clone(), PAGE).await;
        if read.is_err() {
            let mut table = self.lock();
            for (session, _) in &taken {
                table.note(session, 0);
            }
        }
        let read = read?;
        let missing = taken.iter().filter(|(session, _)| read.iter().all(|(it, _)| it != session));
        // The limit may have left nothing for them. If no session has new entries, these sessions
        // were deleted.
        let missing: Vec<SessionId> = match read.is_empty() {
            true => Vec::new(),
            false => missing.map(|(session, _)| session.clone()).collect(),
        };
        for (session, events) in read {
            let Some(newest) = events.last().map(|event| event.seq) else { continue };
            let events: Vec<Arc<Event>> = events.into_iter().map(Arc::new).collect();
            self.local.publish(&session, &events);
            let mut table = self.lock();
            if let Some(watched) = table.watched.get_mut(&session) {
                watched.delivered = watched.delivered.max(Some(newest));
            }
            // There may be more than one page.
            table.note(&session, newest);
        }
        let mut table = self.lock();
        for session in missing {
            table.note(&session, 0);
        }
        Ok(())
    }

    fn can_be_rung(&self) -> bool {
        self.node_bus.status().state == NodeBusState::Connected
    }
}

/// Notes the rings for a session, until it has no subscribers or the bus is gone.
async fn wait_at_door(bus: Weak<SharedBus>, session: SessionId, mut doorbell: Doorbell) {
    loop {
        let signal = doorbell.rung().await;
        let Some(bus) = bus.upgrade() else { return };
        match signal {
            DoorbellSignal::UpTo(last) => bus.note(&session, last),
            DoorbellSignal::Removed => bus.lock().forget(&session),
        }
    }
}

/// Runs until the bus is gone.
async fn deliver_entries(bus: Weak<SharedBus>) {
    let mut next_look = Instant::now() + LOOK_INTERVAL;
    loop {
        let Some(strong) = bus.upgrade() else { return };
        let delivered = strong.read().await;
        let has_failed = delivered.is_err();
        if let Err(error) = delivered {
            tracing::warn!(%error, "entries of other gateways cannot be read");
        }
        if Instant::now() >= next_look {
            strong.forget_unwatched();
            if !strong.can_be_rung()
                && let Err(error) = strong.look().await
            {
                tracing::warn!(%error, "entries of other gateways cannot be looked for");
            }
            next_look = Instant::now() + LOOK_INTERVAL;
        }
        if has_failed {
            sleep_until(next_look).await;
            continue;
        }
        if strong.lock().behind.is_empty() {
            tokio::select! {
                () = strong.behind.notified() => {}
                () = sleep_until(next_look) => {}
            }
        }
        drop(strong);
        sleep(READ_PAUSE).await;
    }
}
