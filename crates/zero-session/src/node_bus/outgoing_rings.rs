//! Rings that are to be sent, of which only the last of each session counts.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use zero_core::SessionId;

/// Maximum number of sessions with rings to be sent. Further ones are found by polling.
const SESSIONS_MAX: usize = 10_000;

/// Collects rings until they can be sent.
#[derive(Default)]
pub(crate) struct OutgoingRings {
    rings: Mutex<HashMap<SessionId, u64>>,
    added: Notify,
}

impl OutgoingRings {
    /// Adds a ring. Never waits.
    pub(crate) fn add(&self, session: &SessionId, seq: u64) {
        let mut rings = self.lock();
        if let Some(newest) = rings.get_mut(session) {
            *newest = seq.max(*newest);
        } else if rings.len() < SESSIONS_MAX {
            rings.insert(session.clone(), seq);
        } else {
            return;
        }
        drop(rings);
        self.added.notify_one();
    }

    /// Waits for rings and takes at most `most` of them.
    pub(crate) async fn take(&self, most: usize) -> Vec<(SessionId, u64)> {
        loop {
            let taken = self.try_take(most);
            if !taken.is_empty() {
                return taken;
            }
            self.added.notified().await;
        }
    }

    fn try_take(&self, most: usize) -> Vec<(SessionId, u64)> {
        let mut rings = self.lock();
        if rings.len() <= most {
            return rings.drain().collect();
        }
        let sessions: Vec<SessionId> = rings.keys().take(most).cloned().collect();
        sessions.into_iter().filter_map(|session| rings.remove_entry(&session)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, u64>> {
        // The table is consistent even after a panic.
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rings_of_a_session_are_merged_and_bounded() {
        let rings = OutgoingRings::default();
        let session = |number: usize| SessionId::new(format!("s{number}")).unwrap();
        for seq in [2, 5, 3] {
            rings.add(&session(0), seq);
        }
        assert_eq!(rings.take(10).await, [(session(0), 5)]);
        for number in 0..=SESSIONS_MAX {
            rings.add(&session(number), 1);
        }
        assert_eq!(rings.take(4).await.len(), 4);
        assert_eq!(rings.take(usize::MAX).await.len(), SESSIONS_MAX - 4);
    }
}
