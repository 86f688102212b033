//! Runs whose prompts were answered `cancelled` before they were heard to end.
//!
//! A gateway that is away hears of it later: the wish to stop them is carried on without anybody
//! waiting for it. One that is heard of although nobody carries it any more is stopped again.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use zero_client::{GatewayLinkError, SessionHandle};

/// Runs that are kept in mind. A session has few of them.
const RUNS_MAX: usize = 64;
/// How long a gateway may be away that a run has to be stopped at.
const AWAY_MAX: Duration = Duration::from_secs(10 * 60);
/// How long is waited before the second try, and at most before a later one.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// Stops a run, also at a gateway that is away, but not for ever.
pub(crate) async fn stop_run(near: &SessionHandle, run: &str) {
    let until = Instant::now() + AWAY_MAX;
    let mut wait = RETRY_DELAY;
    loop {
        let Err(error) = near.abort(run).await else { return };
        // However it cannot be reached: what stands before it may say so in its own way.
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

/// Such runs of a session, the oldest first, each with what carries the wish to stop it.
#[derive(Default)]
pub(crate) struct CancelledRuns {
    runs: VecDeque<(String, JoinHandle<()>)>,
}

impl CancelledRuns {
    /// Keeps a run in mind that `carrier` stops.
    pub(crate) fn add(&mut self, run: String, carrier: JoinHandle<()>) {
        if self.runs.len() >= RUNS_MAX {
            // It is carried on all the same.
            self.runs.pop_front();
        }
        self.runs.push_back((run, carrier));
    }

    /// A run is over.
    pub(crate) fn remove(&mut self, run: &str) {
        self.runs.retain(|(known, _)| known != run);
    }

    /// A run is heard of. One of these is stopped again, unless that is under way.
    pub(crate) fn stop_again(&mut self, run: &str, near: &SessionHandle) {
        let of_run = self.runs.iter_mut().find(|(known, _)| known == run);
        if let Some((run, carrier)) = of_run.filter(|(_, carrier)| carrier.is_finished()) {
            let (near, run) = (near.clone(), run.clone());
            *carrier = tokio::spawn(async move { stop_run(&near, &run).await });
        }
    }

    /// What is under way.
    pub(crate) fn stop_tasks(&mut self) -> impl Iterator<Item = &mut JoinHandle<()>> {
        self.runs.iter_mut().map(|(_, carrier)| carrier).filter(|carrier| !carrier.is_finished())
    }
}
