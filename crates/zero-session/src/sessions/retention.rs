//! Removes sessions that the user does not want to keep any longer.
//!
//! Nothing is removed unless a rule says so. A session that has a label, a run, or a client that hosts
//! its tools, for this process or another one, or that was active in the last day, is always kept, and
//! so are the sessions of its sub-agents.

use std::sync::Arc;
use std::time::Duration;

use zero_runtime::clock::now_ms;
use zero_sandbox::expiry;

use crate::sessions::{SessionError, SessionManager, SessionManagerInner, run_detached};
use crate::store::{IdleSession, IdleSessionQuery, OwnerSize, UnremovedSession};

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
    /// Size of the store in bytes above which sessions are removed, of the owners that have more than
    /// a fair part of it, those that were idle longest first.
    pub store_bytes_max: Option<u64>,
}

/// What a pass removed, or would remove.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PruneReport {
    /// The sessions that are removed; at most 10,000.
    pub removed: Vec<IdleSession>,
    /// Sessions that could not be removed, and why. They do not stop the others.
    pub failed: Vec<(IdleSession, String)>,
    /// Sessions that were deleted earlier, and of which damage keeps something in the store.
    pub unremoved: Vec<UnremovedSession>,
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
    /// go on meanwhile. One that cannot be removed does not stop the others.
    pub async fn prune(
        &self,
        rules: RetentionRules,
        mode: PruneMode,
    ) -> Result<PruneReport, SessionError> {
        let inner = Arc::clone(&self.inner);
        run_detached(async move { inner.prune(rules, mode).await }).await
    }
}

impl SessionManagerInner {
    async fn prune(
        self: &Arc<Self>,
        rules: RetentionRules,
        mode: PruneMode,
    ) -> Result<PruneReport, SessionError> {
        let store = &self.config.store;
        let query = |owner: Option<String>, idle: Duration| IdleSessionQuery {
            owner,
            updated_before_ms: ms_before_now(idle),
            limit: PASS_MAX,
        };
        if mode == PruneMode::Remove {
            // The space of sessions that are already deleted counts as free.
            store.reclaim().await?;
        }
        let mut left = store.usage().await?.bytes;
        let mut shares = store.owner_sizes().await?;
        let mut report = PruneReport::default();
        if let Some(idle) = rules.idle_max {
            for session in store.idle_sessions(query(None, idle.max(RECENT_MAX))).await? {
                self.prune_session(session, mode, &mut left, &mut report).await;
            }
        }
        if let Some(most) = rules.store_bytes_max.filter(|most| left > *most) {
            for session in &report.removed {
                let share = shares.iter_mut().find(|it| it.owner == session.address.owner);
                if let Some(share) = share {
                    share.bytes = share.bytes.saturating_sub(session.bytes);
                }
            }
            let part = fair_part(&shares, left, most);
            shares.retain(|share| share.bytes > part);
            for OwnerSize { owner, bytes: mut share_left } in shares {
                for session in store.idle_sessions(query(Some(owner), RECENT_MAX)).await? {
                    if share_left <= part || left <= most || report.removed.len() >= PASS_MAX {
                        break;
                    }
                    if !report.has_tried(&session) {
                        let before = left;
                        self.prune_session(session, mode, &mut left, &mut report).await;
                        share_left = share_left.saturating_sub(before - left);
                    }
                }
            }
        }
        if mode == PruneMode::Remove {
            report.unremoved = store.reclaim().await?;
        }
        Ok(report)
    }

    async fn prune_session(
        self: &Arc<Self>,
        session: IdleSession,
        mode: PruneMode,
        left: &mut u64,
        report: &mut PruneReport,
    ) {
        let is_served = self.config.nodes.is_served_elsewhere(&session.id);
        let removed = match mode {
            _ if is_served => Ok(false),
            PruneMode::DryRun => Ok(true),
            PruneMode::Remove => self.remove_idle(&session).await,
        };
        match removed {
            Ok(true) => {
                *left = left.saturating_sub(session.bytes);
                report.removed.push(session);
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(session = %session.address.key, %error, "a session is not removed");
                report.failed.push((session, error.to_string()));
            }
        }
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
        let mut report = PruneReport::default();
        for session in self.config.store.idle_sessions(query).await? {
            self.prune_session(session, PruneMode::Remove, &mut 0, &mut report).await;
        }
        if !report.removed.is_empty() {
            self.reclaim_in_background();
        }
        Ok(!report.removed.is_empty())
    }

    /// Deletes a session unless something has happened in it since it was listed, or it is in use.
    async fn remove_idle(self: &Arc<Self>, listed: &IdleSession) -> Result<bool, SessionError> {
        let state = self.session_state(&listed.id);
        let removed = async {
            let _nothing_new = state.sending.lock().await;
            if !state.is_empty() || !self.config.store.delete_idle(listed).await? {
                return Ok(false);
            }
            self.config.backend_factory.discard_session(&listed.id).await;
            Ok(true)
        };
        let removed = removed.await;
        self.evict_state(&state);
        removed
    }
}

impl PruneReport {
    fn has_tried(&self, session: &IdleSession) -> bool {
        let failed = self.failed.iter().map(|(session, _)| session);
        self.removed.iter().chain(failed).any(|tried| tried.id == session.id)
    }
}

/// The size up to which the sessions of an owner are kept if the store, of which the sessions are a
/// part, may have `most` bytes.
fn fair_part(shares: &[OwnerSize], store_bytes: u64, most: u64) -> u64 {
    let sizes: Vec<u64> = shares.iter().map(|share| share.bytes).collect();
    let all: u64 = sizes.iter().sum();
    // What the store needs besides shrinks with the sessions.
    let most = u128::from(most) * u128::from(all) / u128::from(store_bytes.max(all).max(1));
    expiry::fair_part(sizes, u64::try_from(most).unwrap_or(u64::MAX))
}

/// The time so long ago, in milliseconds since the Unix epoch.
pub(super) fn ms_before_now(time: Duration) -> i64 {
    now_ms().saturating_sub(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}
