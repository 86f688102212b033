//! Who waits for entries of which session in this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use zero_core::SessionId;

/// Receives the rings of one session until it is dropped.
pub struct Doorbell {
    session: SessionId,
    receiver: watch::Receiver<DoorbellSignal>,
    registry: Arc<DoorbellRegistry>,
}

/// What is known of the ledger of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DoorbellSignal {
    /// The store has entries up to this number.
    UpTo(u64),
    /// The store no longer has the session.
    Removed,
}

impl Doorbell {
    /// Waits for the next ring and returns the newest. Can be cancelled without missing one.
    pub async fn rung(&mut self) -> DoorbellSignal {
        // The sender is in the registry until the last doorbell of the session is dropped.
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        *self.receiver.borrow_and_update()
    }
}

impl Drop for Doorbell {
    fn drop(&mut self) {
        let mut table = self.registry.lock();
        // This one counts as well.
        if table.get(&self.session).is_some_and(|sender| sender.receiver_count() <= 1) {
            table.remove(&self.session);
        }
    }
}

/// The doorbells of a process.
#[derive(Default)]
pub(crate) struct DoorbellRegistry {
    table: Mutex<HashMap<SessionId, watch::Sender<DoorbellSignal>>>,
}

impl DoorbellRegistry {
    /// Adds a doorbell.
    pub(crate) fn add(self: &Arc<Self>, session: &SessionId) -> Doorbell {
        let mut table = self.lock();
        let sender = table
            .entry(session.clone())
            .or_insert_with(|| watch::Sender::new(DoorbellSignal::UpTo(0)));
        let receiver = sender.subscribe();
        Doorbell { session: session.clone(), receiver, registry: Arc::clone(self) }
    }

    /// Rings the doorbells of a session, unless they know as much.
    pub(crate) fn ring(&self, session: &SessionId, ring: DoorbellSignal) {
        if let Some(sender) = self.lock().get(session) {
            sender.send_if_modified(|newest| {
                let is_new = ring > *newest;
                *newest = ring.max(*newest);
                is_new
            });
        }
    }

    /// The sessions with doorbells, sorted.
    #[cfg(feature = "cluster")]
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let mut sessions: Vec<SessionId> = self.lock().keys().cloned().collect();
        sessions.sort_unstable();
        sessions
    }

    /// Whether a session has doorbells.
    #[cfg(feature = "cluster")]
    pub(crate) fn has(&self, session: &SessionId) -> bool {
        self.lock().contains_key(session)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, watch::Sender<DoorbellSignal>>> {
        // The table is consistent even after a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn last_dropped_doorbell_leaves_nothing() {
        let registry = Arc::new(DoorbellRegistry::default());
        let session = SessionId::new("a").unwrap();
        let (first, mut second) = (registry.add(&session), registry.add(&session));
        drop(first);
        registry.ring(&session, DoorbellSignal::UpTo(3));
        assert_eq!(second.rung().await, DoorbellSignal::UpTo(3));
        drop(second);
        assert!(registry.lock().is_empty());
        registry.ring(&session, DoorbellSignal::UpTo(4));
        assert!(registry.lock().is_empty());
    }

    #[tokio::test]
    async fn doorbell_rings_only_for_what_is_new() {
        let registry = Arc::new(DoorbellRegistry::default());
        let session = SessionId::new("a").unwrap();
        let mut doorbell = registry.add(&session);
        for seq in [5, 3, 5] {
            registry.ring(&session, DoorbellSignal::UpTo(seq));
        }
        assert_eq!(doorbell.rung().await, DoorbellSignal::UpTo(5));
        registry.ring(&session, DoorbellSignal::UpTo(4));
        assert!(!doorbell.receiver.has_changed().unwrap());
        registry.ring(&session, DoorbellSignal::Removed);
        registry.ring(&session, DoorbellSignal::UpTo(9));
        assert_eq!(doorbell.rung().await, DoorbellSignal::Removed);
    }
}
