//! Removes sessions that the user does not want to keep any longer.
//!
//! Nothing is removed unless a rule says so. A session that has a label, a run, or a client that hosts
//! its tools for this process, or that was active in the last day, is always kept.

use std::sync::Arc;
use std::time::Duration;

use zero_runtime::clock::now_ms;

use crate::sessions::{SessionError, SessionManager, SessionManagerInner, run_detached};
use crate::store::{IdleSession, IdleSessionQuery, StoreError};

/// Sessions that were active within this time are kept, whatever the rules say.
const RECENT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum number of sessions that one pass removes.
const PASS_MAX: usize = 10_000;
/// Number of sessions that are removed to make room for a new one.
const ROOM: usize = 100;

/// Which sessions are no longer kept. By default all are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionRules {
    /// How long a session is kept after its last activity; for ever if `None`.
    pub idle_max: Option<Duration>,
    /// Size of the store in bytes above which the sessions that were idle longest are removed.
    pub store_bytes_max: Option<u64>,
}

/// Whether a pass removes what it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneMode {
    /// Only reports it.
    DryRun,
    /// Removes it.
    Remove,
}

impl SessionManager {
    /// Removes the sessions that the rules no longer keep, and gives free space back. Other sessions
    /// go on meanwhile. Returns what was removed, or would be; at most 10,000 sessions.
    pub async fn prune(
        &self,
        rules: RetentionRules,
        mode: PruneMode,
    ) -> Result<Vec<IdleSession>, SessionError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move { inner.prune(rules, mode).await }).await
    }
}

impl SessionManagerInner {
    async fn prune(
        self: &Arc<Self>,
        rules: RetentionRules,
        mode: PruneMode,
    ) -> Result<Vec<IdleSession>, SessionError> {
        let store = &self.config.store;
        let query = |idle: Duration| IdleSessionQuery {
            owner: None,
            updated_before_ms: ms_before_now(idle),
            limit: PASS_MAX,
        };
        if mode == PruneMode::Remove {
            // The space of sessions that are already deleted counts as free.
            self.reclaim_space().await;
        }
        let mut left = store.usage().await?.bytes;
        let mut removed = Vec::new();
        if let Some(idle) = rules.idle_max {
            for session in store.idle_sessions(query(idle.max(RECENT_MAX))).await? {
                self.prune_session(session, mode, &mut left, &mut removed).await?;
            }
        }
        if let Some(most) = rules.store_bytes_max.filter(|most| left > *most) {
            for session in store.idle_sessions(query(RECENT_MAX)).await? {
                if left <= most || removed.len() >= PASS_MAX {
                    break;
                }
                if !removed.iter().any(|removed: &IdleSession| removed.id == session.id) {
                    self.prune_session(session, mode, &mut left, &mut removed).await?;
                }
            }
        }
        if mode == PruneMode::Remove {
            self.reclaim_space().await;
        }
        Ok(removed)
    }

    /// Removes what is left of deleted sessions. It goes on at the next start if it fails.
    async fn reclaim_space(&self) {
        if let Err(error) = self.config.store.reclaim().await {
            tracing::warn!(%error, "the space of deleted sessions could not be given back");
        }
    }

    async fn prune_session(
        self: &Arc<Self>,
        session: IdleSession,
        mode: PruneMode,
        left: &mut u64,
        removed: &mut Vec<IdleSession>,
    ) -> Result<(), SessionError> {
        if mode == PruneMode::DryRun || self.remove_idle(&session).await? {
            *left = left.saturating_sub(session.bytes);
            removed.push(session);
        }
        Ok(())
    }

    /// Makes room for a new session of an owner that has reached the limit. Returns whether there is
    /// some now.
    pub(super) async fn make_room(self: &Arc<Self>, owner: &str) -> Result<bool, SessionError> {
        let Some(idle) = self.config.limits.retention.idle_max else { return Ok(false) };
        let query = IdleSessionQuery {
            owner: Some(owner.to_owned()),
            updated_before_ms: ms_before_now(idle.max(RECENT_MAX)),
            limit: ROOM,
        };
        let mut has_room = false;
        for session in self.config.store.idle_sessions(query).await? {
            has_room |= self.remove_idle(&session).await?;
        }
        Ok(has_room)
    }

    /// Deletes a session unless something has happened in it since it was listed, or it is in use.
    async fn remove_idle(self: &Arc<Self>, listed: &IdleSession) -> Result<bool, SessionError> {
        let store = &self.config.store;
        let state = self.session_state(&listed.id);
        let removed = async {
            let _nothing_new = state.sending.lock().await;
            let now = store.session_by_id(&listed.id).await?;
            let is_same =
                now.is_some_and(|now| now.updated_ms == listed.updated_ms && now.label.is_none());
            if !is_same || !state.is_empty() {
                return Ok(false);
            }
            // A process that begins a run meanwhile takes the claim.
            let claim = match self.claim_session(&state.recorder).await {
                Ok(claim) => claim,
                Err(SessionError::Busy(_)) => return Ok(false),
                Err(error) => return Err(error),
            };
            match store.delete(&listed.id, claim).await {
                Ok(()) => {
                    self.config.backend_factory.remove_results(&listed.id).await;
                    Ok(true)
                }
                Err(StoreError::NoSession(_) | StoreError::ClaimLost(_)) => Ok(false),
                Err(error) => Err(error.into()),
            }
        };
        let removed = removed.await;
        self.evict_state(&state);
        removed
    }
}

fn ms_before_now(time: Duration) -> i64 {
    now_ms().saturating_sub(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}
