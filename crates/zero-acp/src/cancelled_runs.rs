//! Runs whose prompts were answered `cancelled` before the gateway confirmed their end.
//!
//! A background task delivers the abort request, also when the gateway is unreachable at first. If
//! a run still reports events after its task has ended, it is stopped again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use zero_client::{GatewayLinkError, SessionHandle};

/// Runs that are remembered; the oldest are forgotten first.
const RUNS_MAX: usize = 64;
/// Longest time to retry an abort at an unreachable gateway.
const AWAY_MAX: Duration = Duration::from_secs(10 * 60);
/// Delay before the second try; it doubles up to `RETRY_DELAY_MAX`.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// Aborts a run, with retries while the gateway is unreachable, for `AWAY_MAX` at most.
pub(crate) async fn stop_run(handle: &SessionHandle, run: &str) {
    let until = Instant::now() + AWAY_MAX;
    let mut wait = RETRY_DELAY;
    loop {
        let Err(error) = handle.abort(run).await else { return };
        // A proxy in front of the gateway may report this with another error.
        let is_away = matches!(error, GatewayLinkError::Unreachable { .. }) || error.is_transient();
        if !is_away || Instant::now() >= until {
            tracing::warn!(%error, run, "a run could not be stopped");
            return;
        }
        tracing::debug!(%error, run, "a run cannot be stopped yet");
        sleep(wait).await;
        wait = wait.saturating_mul(2).min(RETRY_DELAY_MAX);
    }
}

/// The cancelled runs of a session, oldest first, each with the task that aborts it.
#[derive(Default)]
pub(crate) struct CancelledRuns {
    runs: VecDeque<(String, JoinHandle<()>)>,
}

impl CancelledRuns {
    /// Remembers a run that the task `carrier` aborts.
    pub(crate) fn add(&mut self, run: String, carrier: JoinHandle<()>) {
        if self.runs.len() >= RUNS_MAX {
            // The task of the forgotten run continues.
            self.runs.pop_front();
        }
        self.runs.push_back((run, carrier));
    }

    /// Forgets a run that has ended.
    pub(crate) fn remove(&mut self, run: &str) {
        self.runs.retain(|(known, _)| known != run);
    }

    /// Handles an event of a run: if it is a cancelled one, it is aborted again, unless its task is
    /// still at work.
    pub(crate) fn stop_again(&mut self, run: &str, handle: &SessionHandle) {
        let of_run = self.runs.iter_mut().find(|(known, _)| known == run);
        if let Some((run, carrier)) = of_run.filter(|(_, carrier)| carrier.is_finished()) {
            let (handle, run) = (handle.clone(), run.clone());
            *carrier = tokio::spawn(async move { stop_run(&handle, &run).await });
        }
    }

    /// The tasks that abort runs.
    pub(crate) fn stop_tasks(&mut self) -> impl Iterator<Item = &mut JoinHandle<()>> {
        self.runs.iter_mut().map(|(_, carrier)| carrier).filter(|carrier| !carrier.is_finished())
    }
}
