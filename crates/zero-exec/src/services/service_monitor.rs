//! A service while it runs: its end is noticed at once, and what it left is settled then.
//!
//! A thread of its own sleeps until the end. What there is to do then, looking after files and
//! writing a record, blocks, so it would need one anyway.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use zero_sandbox::ConfinementGap;
use zero_sandbox::running_command::{CommandExit, KillHandle, KillReason, RunningCommand};

use crate::launcher::PreparedLaunch;
use crate::session_network::NetworkUseGuard;
use crate::tree_watch::WatchReport;

/// A service while it runs, and afterwards.
pub(super) struct ServiceMonitor {
    killer: KillHandle,
    /// Whether somebody here wanted its end.
    is_asked: AtomicBool,
    missing: Vec<ConfinementGap>,
    state: Mutex<ServiceState>,
    ended: Condvar,
    /// For those who wait without a thread.
    ended_later: Notify,
}

struct ServiceState {
    network: NetworkUseGuard,
    ended: Option<CommandExit>,
    /// What was to be known when it ended.
    notes: Vec<String>,
}

impl ServiceMonitor {
    /// Attends to a service that was just started; `at_end` is told how it ended and whether that
    /// was asked for. When this fails, the service is gone.
    pub(super) fn start(
        mut running: RunningCommand,
        ready: PreparedLaunch,
        at_end: impl FnOnce(&CommandExit, bool) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let PreparedLaunch { watch, network, start, .. } = ready;
        // `at_end` ends what only this service has, and may do so right here.
        drop(start);
        let state = ServiceState { network, ended: None, notes: Vec::new() };
        let attended = Arc::new(Self {
            killer: running.kill_handle(),
            is_asked: AtomicBool::new(false),
            missing: std::mem::take(&mut running.confinement.missing),
            state: Mutex::new(state),
            ended: Condvar::new(),
            ended_later: Notify::new(),
        });
        let attendant = Arc::clone(&attended);
        std::thread::Builder::new().name("zero-service".to_owned()).spawn(move || {
            let ended = running.wait(Duration::MAX).unwrap_or_else(CommandExit::new_lost);
            // Whatever happened, nothing of it is left when it counts as ended.
            drop(running);
            // Whoever waits must hear of the end, also when this is what breaks.
            let settled = catch_unwind(AssertUnwindSafe(|| watch.finish())).unwrap_or_default();
            let is_asked = attendant.is_asked.load(Ordering::Relaxed);
            let _ = catch_unwind(AssertUnwindSafe(|| at_end(&ended, is_asked)));
            attendant.finish(ended, &settled);
        })?;
        Ok(attended)
    }

    fn finish(&self, ended: CommandExit, settled: &WatchReport) {
        let mut state = self.lock();
        let network = std::mem::take(&mut state.network).notes();
        let taken = settled.taken_away.iter().map(|taken| {
            let (path, kept_at) = (taken.path.display(), taken.kept_at.display());
            format!(
                "`{path}` was taken away: it is {}, which services may not create; it lies in `{kept_at}` now",
                taken.why
            )
        });
        state.notes = network.into_iter().chain(taken).chain(settled.warnings.clone()).collect();
        state.ended = Some(ended);
        drop(state);
        self.ended.notify_all();
        self.ended_later.notify_waiters();
    }

    pub(super) fn terminate(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.killer.terminate();
    }

    pub(super) fn kill(&self) {
        self.is_asked.store(true, Ordering::Relaxed);
        self.killer.kill(KillReason::Asked);
    }

    pub(super) async fn wait_ended(&self) -> CommandExit {
        loop {
            // Before the look, so that nothing is missed after it.
            let news = self.ended_later.notified();
            if let Some(ended) = self.lock().ended.clone() {
                return ended;
            }
            news.await;
        }
    }

    /// Waits until it has ended and all is settled, though not longer than `limit`.
    pub(super) fn wait(&self, limit: Duration) {
        let still_runs = |state: &mut ServiceState| state.ended.is_none();
        drop(self.ended.wait_timeout_while(self.lock(), limit, still_runs));
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let missing = self.missing.iter().map(|gap| {
            format!("not enforced here, by leave of the settings: `{}`: {}", gap.property, gap.why)
        });
        let state = self.lock();
        missing.chain(state.network.notes()).chain(state.notes.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
