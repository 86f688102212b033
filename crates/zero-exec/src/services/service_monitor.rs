//! Supervises a running service: notices its end at once and then cleans up.
//!
//! Each service has its own thread that sleeps until the end. The cleanup (file checks, audit
//! record) blocks, so it needs a thread anyway.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use zero_sandbox::ConfinementGap;
use zero_sandbox::running_command::{CommandExit, KillHandle, KillReason, RunningCommand};

use crate::check_pace::CheckPace;
use crate::launcher::PreparedLaunch;
use crate::new_files::NewFileSubscription;
use crate::session_network::NetworkUseGuard;
use crate::tree_watch::{TreeWatch, WatchReport};

/// The services of this process that may still run.
static LIVE_SERVICES: Mutex<Vec<Weak<ServiceMonitor>>> = Mutex::new(Vec::new());

/// Ends every service of this process, and waits until what they left behind is checked.
pub(super) fn end_all(limit: Duration) {
    let live = std::mem::take(&mut *LIVE_SERVICES.lock().unwrap_or_else(PoisonError::into_inner));
    let live: Vec<Arc<ServiceMonitor>> = live.iter().filter_map(Weak::upgrade).collect();
    // First all of them, so that none goes on while another is waited for.
    live.iter().for_each(|service| service.kill());
    live.iter().for_each(|service| service.wait(limit));
}

fn register_live(service: &Arc<ServiceMonitor>) {
    let mut live = LIVE_SERVICES.lock().unwrap_or_else(PoisonError::into_inner);
    live.retain(|service| service.strong_count() > 0);
    live.push(Arc::downgrade(service));
}

/// Waits for the end of a service. One that creates a repository in which git would run code is
/// killed, because the user works in the same folder meanwhile; then a warning says so. Settings that
/// it may not create are quarantined. Returns what was found.
fn wait_checked(running: &RunningCommand, watch: &TreeWatch) -> (CommandExit, WatchReport) {
    let wait_for_end = || running.wait(Duration::MAX).unwrap_or_else(CommandExit::new_lost);
    if !watch.covers_workspace() {
        return (wait_for_end(), WatchReport::default());
    }
    let (subscription, has_ended) = (NewFileSubscription::new(), AtomicBool::new(false));
    let killer = running.kill_handle();
    std::thread::scope(|scope| {
        let check = || check_service(watch, &subscription, &has_ended, &killer);
        let thread = std::thread::Builder::new().name("zero-service-check".to_owned());
        let checker = thread.spawn_scoped(scope, check);
        let exit = wait_for_end();
        has_ended.store(true, Ordering::Relaxed);
        subscription.wake();
        let report = match checker {
            Ok(checker) => checker.join().unwrap_or_default(),
            // It is checked when it has ended.
            Err(_) => WatchReport::default(),
        };
        (exit, report)
    })
}

/// Checks what a service creates until it has ended, or is killed because of it.
fn check_service(
    watch: &TreeWatch,
    subscription: &NewFileSubscription,
    has_ended: &AtomicBool,
    killer: &KillHandle,
) -> WatchReport {
    let mut report = WatchReport::default();
    subscription.set_folders(watch.changeable_folders());
    let mut pace = CheckPace::new();
    loop {
        let new = subscription.wait(pace.pause());
        if has_ended.load(Ordering::Relaxed) {
            return report;
        }
        let started = Instant::now();
        let is_all = pace.is_due(&new);
        let find = AssertUnwindSafe(|| match is_all {
            true => watch.quarantine_settings(),
            false => watch.quarantine_new_settings(&new),
        });
        report.merge(catch_unwind(find).unwrap_or_default());
        let is_git = is_all || new.may_concern_git();
        let find = AssertUnwindSafe(|| is_git.then(|| watch.find_git_code()).flatten());
        let stop_reason = match catch_unwind(find).unwrap_or_default() {
            Some(path) => Some(format!(
                "the service was killed because `{}` was created, which services may not create",
                path.display()
            )),
            None if report.is_full() => {
                let reason = "the service was killed because it created too many files that services may not create";
                Some(reason.to_owned())
            }
            None => None,
        };
        if let Some(reason) = stop_reason {
            killer.kill(KillReason::Asked);
            report.warnings.push(reason);
            return report;
        }
        if is_all {
            pace.record_check(started.elapsed());
        }
        if !new.is_empty() {
            std::thread::sleep(CheckPace::rest_after(started.elapsed()));
        }
    }
}

/// A service, while it runs and afterwards.
pub(super) struct ServiceMonitor {
    killer: KillHandle,
    /// Whether zero itself requested the end.
    is_requested: AtomicBool,
    missing: Vec<ConfinementGap>,
    state: Mutex<ServiceState>,
    ended_signal: Condvar,
    /// For waiters that must not block their thread.
    ended_later: Notify,
}

struct ServiceState {
    network: NetworkUseGuard,
    exit: Option<CommandExit>,
    /// The notes at the end of the service.
    notes: Vec<String>,
}

impl ServiceMonitor {
    /// Supervises a service that was just started. `at_end` gets the exit status and whether zero
    /// requested the end. If this fails, the service has been killed.
    pub(super) fn start(
        mut running: RunningCommand,
        ready: PreparedLaunch,
        at_end: impl FnOnce(&CommandExit, bool) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let PreparedLaunch { watch, network, start, capture, .. } = ready;
        let state = ServiceState { network, exit: None, notes: Vec::new() };
        let attended = Arc::new(Self {
            killer: running.kill_handle(),
            is_requested: AtomicBool::new(false),
            missing: std::mem::take(&mut running.confinement.missing),
            state: Mutex::new(state),
            ended_signal: Condvar::new(),
            ended_later: Notify::new(),
        });
        register_live(&attended);
        // The end of all sessions has waited for this start, and now finds the service. It is dropped
        // here because `at_end` ends what only this service has, and may do so right here.
        drop(start);
        let attendant = Arc::clone(&attended);
        std::thread::Builder::new().name("zero-service".to_owned()).spawn(move || {
            let (command_exit, mut report) = wait_checked(&running, &watch);
            // No process of the service may be left when it counts as ended.
            drop(running);
            // Waiters must learn of the end even if the check panics.
            let last = catch_unwind(AssertUnwindSafe(|| watch.finish()))
                .unwrap_or_else(|_| WatchReport::new_unfinished());
            report.merge(last);
            // Stored before any caller learns of the end.
            drop(capture.map(|capture| capture.finish()));
            let is_requested = attendant.is_requested.load(Ordering::Relaxed);
            let _ = catch_unwind(AssertUnwindSafe(|| at_end(&command_exit, is_requested)));
            attendant.finish(command_exit, &report);
        })?;
        Ok(attended)
    }

    fn finish(&self, exit: CommandExit, report: &WatchReport) {
        let mut state = self.lock();
        let network = std::mem::take(&mut state.network);
        // Programs do not say which host the proxy could not reach.
        let failures = network.failure_notes();
        let notes = network.notes().into_iter().chain(failures);
        state.notes = notes.chain(report.notes("services")).collect();
        state.exit = Some(exit);
        drop(state);
        self.ended_signal.notify_all();
        self.ended_later.notify_waiters();
    }

    pub(super) fn terminate(&self) {
        self.is_requested.store(true, Ordering::Relaxed);
        self.killer.terminate();
    }

    pub(super) fn kill(&self) {
        self.is_requested.store(true, Ordering::Relaxed);
        self.killer.kill(KillReason::Asked);
    }

    pub(super) async fn wait_ended(&self) -> CommandExit {
        loop {
            // Registered before the check, so that no notification is missed.
            let ended = self.ended_later.notified();
            if let Some(exit) = self.lock().exit.clone() {
                return exit;
            }
            ended.await;
        }
    }

    /// Waits up to `limit` for the end and the cleanup.
    pub(super) fn wait(&self, limit: Duration) {
        let still_runs = |state: &mut ServiceState| state.exit.is_none();
        drop(self.ended_signal.wait_timeout_while(self.lock(), limit, still_runs));
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let missing = self.missing.iter().map(|gap| {
            format!("not enforced here, as your settings allow: `{}`: {}", gap.property, gap.why)
        });
        let state = self.lock();
        missing.chain(state.network.notes()).chain(state.notes.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, ServiceState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
