//! The event bus of a process that shares its store with other machines.
//!
//! Entries of this process are delivered directly. For those of others, one task looks at the sequence
//! numbers of all sessions that have subscribers here, in one statement, and reads what is new. The
//! store is the truth: what is announced late or twice is found by its number.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use zero_core::SessionId;

use crate::cluster_node::SharedSessionStore;
use crate::event::Event;
use crate::event_bus::{DeliverySender, EventBus, Subscription};
use crate::local_event_bus::LocalEventBus;
use crate::store::{LedgerReadLimit, Store, StoreError};

/// How often the task looks.
const INTERVAL: Duration = Duration::from_millis(200);
/// Most sessions that are looked up in one statement.
const SESSIONS_MAX: usize = 1_000;
/// Limits of one read.
const PAGE: LedgerReadLimit = LedgerReadLimit { entries: 1_000, bytes: 4 * 1024 * 1024 };

/// Delivers the entries of all processes to subscribers in this one.
pub struct SharedEventBus {
    inner: Arc<SharedBus>,
}

struct SharedBus {
    local: LocalEventBus,
    /// The newest entry that was delivered, of each session with subscribers.
    delivered: Mutex<HashMap<SessionId, u64>>,
    /// Notified when somebody knows that there is something new.
    doorbell: Notify,
}

impl SharedEventBus {
    /// Starts to look for entries of other processes, until the bus is dropped.
    pub fn start(store: Arc<dyn Store>, shared: Arc<dyn SharedSessionStore>) -> Self {
        let inner = Arc::new(SharedBus {
            local: LocalEventBus::new(),
            delivered: Mutex::default(),
            doorbell: Notify::new(),
        });
        tokio::spawn(watch(Arc::downgrade(&inner), store, shared));
        Self { inner }
    }

    /// Looks for new entries at once.
    pub fn ring(&self) {
        self.inner.doorbell.notify_one();
    }
}

impl EventBus for SharedEventBus {
    fn publish(&self, session: &SessionId, events: &[Arc<Event>]) {
        if let Some(last) = events.last()
            && let Some(delivered) = self.inner.lock_delivered().get_mut(session)
        {
            // Should an entry of another process be between them, subscribers see the gap.
            *delivered = (*delivered).max(last.seq);
        }
        self.inner.local.publish(session, events);
    }

    fn subscribe(&self, session: &SessionId, sender: &DeliverySender) -> Subscription {
        self.inner.local.subscribe(session, sender)
    }
}

impl SharedBus {
    fn lock_delivered(&self) -> MutexGuard<'_, HashMap<SessionId, u64>> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(
        &self,
        store: &dyn Store,
        shared: &dyn SharedSessionStore,
    ) -> Result<(), StoreError> {
        let watched = self.local.subscribed_sessions();
        self.lock_delivered().retain(|session, _| watched.contains(session));
        let watched: Vec<SessionId> = watched.into_iter().collect();
        for some in watched.chunks(SESSIONS_MAX) {
            for (session, last) in shared.last_seqs(some.to_vec()).await? {
                let delivered = self.lock_delivered().get(&session).copied();
                // Where a subscriber is cannot be known, but it sees a gap before the last entry.
                let after = delivered.unwrap_or_else(|| last.saturating_sub(1));
                match self.deliver(store, &session, after, last).await {
                    Err(StoreError::NoSession(_)) => {}
                    delivered => delivered?,
                }
            }
        }
        Ok(())
    }

    async fn deliver(
        &self,
        store: &dyn Store,
        session: &SessionId,
        mut after: u64,
        last: u64,
    ) -> Result<(), StoreError> {
        while after < last {
            let events = store.events(session, after, PAGE).await?;
            let Some(newest) = events.last().map(|event| event.seq) else { break };
            let events: Vec<Arc<Event>> = events.into_iter().map(Arc::new).collect();
            self.local.publish(session, &events);
            after = newest;
        }
        let mut delivered = self.lock_delivered();
        let newest = delivered.entry(session.clone()).or_insert(after);
        *newest = (*newest).max(after);
        Ok(())
    }
}

/// Runs until the bus is gone.
async fn watch(bus: Weak<SharedBus>, store: Arc<dyn Store>, shared: Arc<dyn SharedSessionStore>) {
    loop {
        let Some(strong) = bus.upgrade() else { return };
        if let Err(error) = strong.look(&*store, &*shared).await {
            tracing::warn!(%error, "entries of other gateways cannot be read");
        }
        let _ = tokio::time::timeout(INTERVAL, strong.doorbell.notified()).await;
    }
}
