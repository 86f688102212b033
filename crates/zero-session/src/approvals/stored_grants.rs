//! The stored grants of a session, which several processes may change.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use zero_core::SessionId;
use zero_runtime::GrantRecord;

use crate::store::Store;

/// Stores the grants of one session, and notices those that another process revoked.
pub struct StoredGrants {
    /// Weak, so that grants that are never stored do not keep the store open.
    store: Weak<dyn Store>,
    session: SessionId,
    /// The grants that are not stored yet; only the latest set is written.
    latest: Mutex<Option<Vec<GrantRecord>>>,
    /// The grants in use here that are stored. Only the difference from them is written, since
    /// another process may have stored grants of its own.
    known: tokio::sync::Mutex<Vec<GrantRecord>>,
}

impl StoredGrants {
    /// The grants that a session starts with, as the store has them.
    pub fn new(store: &Arc<dyn Store>, session: SessionId, known: Vec<GrantRecord>) -> Arc<Self> {
        let store = Arc::downgrade(store);
        Arc::new(Self { store, session, latest: Mutex::default(), known: known.into() })
    }

    /// Sets the grants that the tools of the session start with, as the store has them.
    pub(crate) async fn set_known(&self, grants: Vec<GrantRecord>) {
        *self.known.lock().await = grants;
    }

    /// Notes that these are all grants now. Returns at once; they are stored in the background.
    pub fn replace(self: &Arc<Self>, grants: Vec<GrantRecord>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(grants);
        // Without a runtime the process is about to end; [`Self::store_latest`] can be its last step.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let grants = Arc::clone(self);
            runtime.spawn(async move { grants.store_latest().await });
        }
    }

    /// Stores what is not stored yet.
    pub async fn store_latest(&self) {
        // Held while it is written, so that one write follows the other.
        self.write_latest(&mut *self.known.lock().await).await;
    }

    async fn write_latest(&self, known: &mut Vec<GrantRecord>) {
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(grants) = latest else { return };
        let session = &self.session;
        let Some(store) = self.store.upgrade() else {
            tracing::warn!(%session, "the session store closed before grants were stored");
            return;
        };
        match store.change_grants(session, known.clone(), grants.clone()).await {
            Ok(()) => *known = grants,
            // The grant holds in this process; the next one asks again.
            Err(error) => {
                tracing::warn!(%session, %error, "the grants of this session could not be stored");
            }
        }
    }

    /// The grants that are in use here and no longer stored; each is reported once. If the store
    /// cannot be read, it is not known which of them are still valid: then all that allow something
    /// are reported.
    pub async fn take_revoked(&self) -> Vec<GrantRecord> {
        let mut known = self.known.lock().await;
        self.write_latest(&mut known).await;
        if known.is_empty() {
            return Vec::new();
        }
        let Some(store) = self.store.upgrade() else { return Vec::new() };
        let stored = store.grants(&self.session).await;
        let is_kept = |grant: &GrantRecord| match &stored {
            Ok(stored) => stored.contains(grant),
            Err(_) => !grant.allowed,
        };
        let (kept, revoked) = known.drain(..).partition(is_kept);
        *known = kept;
        if let Err(error) = &stored {
            let session = &self.session;
            tracing::warn!(%session, %error, "the grants of this session could not be read");
        }
        revoked
    }
}
