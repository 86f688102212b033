//! A run whose process cannot reach the database waits for it, and goes on.
//!
//! Whether the last write of such a run is stored is not known. The process claims the session again under
//! the next number, after which that write is either stored or never will be, and writes what is missing. Then
//! the run continues from its ledger, as one of a dead process does. Another process may be faster, once the
//! lease of this one has run out.
//!
//! A store without other processes is not waited for: its file does not come back by itself.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::sessions::ledger_outbox::LedgerOutbox;
use crate::sessions::session_state::{ActiveRun, SessionState};
use crate::sessions::takeover::ContinuationReason;
use crate::sessions::{SessionError, SessionManagerInner};
use crate::store::StoreError;

/// Delays before further attempts to reach the store; the last one is repeated.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    RETRY_DELAY_MAX,
];
const RETRY_DELAY_MAX: Duration = Duration::from_millis(500);
/// How often to ask whether the lease of this process is valid again.
const LEASE_INTERVAL: Duration = Duration::from_millis(50);

impl SessionManagerInner {
    /// Whether a run waits for the store after this error, instead of ending.
    pub(super) fn waits_for_store(&self, active: &ActiveRun, error: &StoreError) -> bool {
        error.is_passing() && self.can_wait_for_store(active)
    }

    /// Whether a run waits for a store that does not answer.
    pub(super) fn can_wait_for_store(&self, active: &ActiveRun) -> bool {
        // The run of a sub-agent ends with the call that started it.
        self.config.nodes.cluster().is_some() && active.subagent.is_none()
    }

    /// The same for an error that the run has met.
    pub(super) fn is_store_lost(&self, active: &ActiveRun, outbox: &LedgerOutbox) -> bool {
        outbox.failure().is_some_and(|error| self.waits_for_store(active, error))
    }

    /// Waits until the store has everything that a run has written. Fails if another process has the run,
    /// or this one ends.
    pub(super) async fn wait_for_store(
        &self,
        state: &SessionState,
        active: &ActiveRun,
        outbox: &mut LedgerOutbox,
    ) -> Result<(), StoreError> {
        let mut delays = RETRY_DELAYS.into_iter();
        loop {
            let written = async {
                state.recorder.renew_claim(&active.run, self.config.nodes.local_name()).await?;
                outbox.write_rest().await
            };
            let Err(error) = written.await else { return Ok(()) };
            let is_leaving = self.closing.is_cancelled() || active.handover_token().is_cancelled();
            if is_leaving || !self.waits_for_store(active, &error) {
                return Err(error);
            }
            tracing::warn!(run = %active.run, %error, "a run waits for the database");
            sleep(delays.next().unwrap_or(RETRY_DELAY_MAX)).await;
        }
    }

    /// Continues a run that has lost the store, before all other prompts of its session.
    pub(super) async fn continue_after_outage(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        active: &ActiveRun,
        outbox: &mut LedgerOutbox,
    ) {
        if let Err(error) = self.wait_for_store(state, active, outbox).await {
            return self.give_up(active, &error);
        }
        if active.handover_token().is_cancelled() {
            return self.release_parked_run(state, active).await;
        }
        // Calls may begin only under a lease.
        while !self.config.nodes.can_act() && !self.closing.is_cancelled() {
            sleep(LEASE_INTERVAL).await;
        }
        self.unregister_run(active);
        let mut delays = RETRY_DELAYS.into_iter();
        while let Err(error) = self.try_continue(state, active).await {
            let is_passing = matches!(
                &error,
                SessionError::Store(error) if self.waits_for_store(active, error)
            );
            if !is_passing || self.closing.is_cancelled() {
                tracing::warn!(run = %active.run, %error, "a run could not be continued");
                return;
            }
            sleep(delays.next().unwrap_or(RETRY_DELAY_MAX)).await;
        }
    }

    async fn try_continue(
        self: &Arc<Self>,
        state: &Arc<SessionState>,
        active: &ActiveRun,
    ) -> Result<(), SessionError> {
        let (store, recorder) = (&self.config.store, &state.recorder);
        let _order = state.sending.lock().await;
        // The answer to an earlier attempt may have been lost.
        recorder.renew_claim(&active.run, self.config.nodes.local_name()).await?;
        let record = store.session_by_id(&active.session).await?;
        let record = record.ok_or_else(|| StoreError::NoSession(active.session.to_string()))?;
        let run = store.run(&active.address()).await?;
        let Some(run) = run.filter(|run| run.end.is_none()) else { return Ok(()) };
        let claim = recorder.run_claim(&active.run);
        self.continue_run(state, claim, &record, &run, ContinuationReason::StoreLost).await
    }

    /// Leaves a run to another process.
    pub(super) fn give_up(&self, active: &ActiveRun, error: &StoreError) {
        let (session, run) = (&active.session, &active.run);
        tracing::warn!(%session, %run, %error, "a run goes on in another process");
        if matches!(error, StoreError::ClaimLost(_)) {
            self.counted.fenced.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        self.unregister_run(active);
    }
}
