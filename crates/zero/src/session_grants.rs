//! Grants that the user gives at this terminal, stored with their session so that its next run has
//! them too.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use zero_core::SessionId;
use zero_session::store::{GrantRecord, Store, StoreError};

/// Stores the grants of one session. Grants that another process stores meanwhile stay.
pub(crate) struct SessionGrants {
    /// Owned by the gateway in this process, whose end closes it.
    store: Weak<dyn Store>,
    session: SessionId,
    /// The grants that are not stored yet.
    latest: Mutex<Option<Vec<GrantRecord>>>,
    /// The grants that were read or written last; only the difference from them is written.
    known: tokio::sync::Mutex<Vec<GrantRecord>>,
}

impl SessionGrants {
    /// The grants that a session starts with.
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        session: SessionId,
        known: Vec<GrantRecord>,
    ) -> Arc<Self> {
        let store = Arc::downgrade(store);
        Arc::new(Self { store, session, latest: Mutex::default(), known: known.into() })
    }

    /// Notes that these are all grants now. Returns at once; they are stored in the background.
    pub(crate) fn replace(self: &Arc<Self>, grants: Vec<GrantRecord>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(grants);
        // Without a runtime the process is about to end, and its last step stores them.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let grants = Arc::clone(self);
            runtime.spawn(async move { grants.store_latest().await });
        }
    }

    /// Stores what is not stored yet.
    pub(crate) async fn store_latest(&self) {
        // Held while it is written, so that one write follows the other.
        let mut known = self.known.lock().await;
        let latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(grants) = latest else { return };
        let Some(store) = self.store.upgrade() else {
            tracing::warn!(session = %self.session, "the session store closed before grants were stored");
            return;
        };
        let stored = store.change_grants(&self.session, known.clone(), grants.clone()).await;
        match stored {
            Ok(()) => *known = grants,
            // The grant holds in this process; the next one asks again.
            Err(error) => self.report_failure(&error),
        }
    }

    fn report_failure(&self, error: &StoreError) {
        tracing::warn!(session = %self.session, %error, "the grants of this session could not be stored");
    }
}
