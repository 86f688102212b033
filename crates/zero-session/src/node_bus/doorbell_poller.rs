//! Looks in the store for entries whose rings were lost.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use zero_core::SessionId;

use super::{DoorbellRegistry, DoorbellSignal};
use crate::last_seq_store::LastSeqStore;
use crate::store::StoreError;

/// Maximum number of sessions that one query asks for.
const SESSIONS_PER_QUERY_MAX: usize = 1_000;
/// Pause between two polls.
const POLL_PAUSE: Duration = Duration::from_millis(2);

/// Where the poller is to look before its time.
#[derive(Default)]
pub(crate) struct DoorbellHints {
    sessions: Mutex<BTreeSet<SessionId>>,
    is_all: AtomicBool,
    added: Notify,
}

impl DoorbellHints {
    /// Looks at all sessions.
    pub(crate) fn add_all(&self) {
        self.is_all.store(true, Ordering::SeqCst);
        self.added.notify_one();
    }

    /// Looks at one session.
    pub(crate) fn add(&self, session: SessionId) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(session);
        self.added.notify_one();
    }

    /// Waits for hints and takes them; `None` stands for all sessions.
    async fn take(&self) -> Option<Vec<SessionId>> {
        loop {
            if self.is_all.swap(false, Ordering::SeqCst) {
                return None;
            }
            let taken =
                std::mem::take(&mut *self.sessions.lock().unwrap_or_else(PoisonError::into_inner));
            if !taken.is_empty() {
                return Some(taken.into_iter().collect());
            }
            self.added.notified().await;
        }
    }
}

/// Finds in the store what rings have been lost for, the last one of a session included.
pub(crate) struct DoorbellPoller {
    store: Arc<dyn LastSeqStore>,
    doorbells: Arc<DoorbellRegistry>,
    /// Sessions that the store had.
    known: BTreeSet<SessionId>,
}

impl DoorbellPoller {
    pub(crate) fn new(store: Arc<dyn LastSeqStore>, doorbells: Arc<DoorbellRegistry>) -> Self {
        Self { store, doorbells, known: BTreeSet::new() }
    }

    /// Polls for ever: after each interval, and what is hinted at.
    pub(crate) async fn run(mut self, interval: impl Fn() -> Duration, hints: &DoorbellHints) {
        loop {
            let hinted = tokio::time::timeout(interval(), hints.take()).await;
            let sessions = match hinted {
                Ok(Some(sessions)) => sessions,
                Ok(None) | Err(_) => {
                    let sessions = self.doorbells.sessions();
                    self.known.retain(|session| sessions.binary_search(session).is_ok());
                    sessions
                }
            };
            if let Err(error) = self.poll(&sessions).await {
                tracing::warn!(%error, "new entries of sessions could not be looked for");
            }
            tokio::time::sleep(POLL_PAUSE).await;
        }
    }

    async fn poll(&mut self, sessions: &[SessionId]) -> Result<(), StoreError> {
        for some in sessions.chunks(SESSIONS_PER_QUERY_MAX) {
            let mut missing: BTreeSet<&SessionId> = some.iter().collect();
            for (session, seq) in self.store.last_seqs(some.to_vec()).await? {
                missing.remove(&session);
                self.doorbells.ring(&session, DoorbellSignal::UpTo(seq));
                self.known.insert(session);
            }
            for session in missing {
                if self.known.contains(session) {
                    self.doorbells.ring(session, DoorbellSignal::Removed);
                }
            }
        }
        Ok(())
    }
}
