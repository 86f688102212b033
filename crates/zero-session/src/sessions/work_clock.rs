//! Measures how long a run works. The time it waits for answers of people does not count.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The clock of a run.
pub(crate) struct WorkClock {
    started: Instant,
    /// How long the run had worked before it was parked.
    before: Duration,
    waits: Mutex<WaitTotal>,
}

/// The waits of a run. Those that overlap count once.
#[derive(Default)]
struct WaitTotal {
    open: usize,
    since: Option<Instant>,
    total: Duration,
}

impl WorkClock {
    /// Starts the clock of a run that has worked so long before.
    pub(crate) fn start(before: Duration) -> Arc<Self> {
        Arc::new(Self { started: Instant::now(), before, waits: Mutex::default() })
    }

    /// How long the run has worked.
    pub(crate) fn elapsed(&self) -> Duration {
        let waits = self.lock();
        let open = waits.since.map_or(Duration::ZERO, |since| since.elapsed());
        let here = self.started.elapsed().saturating_sub(waits.total).saturating_sub(open);
        self.before.saturating_add(here)
    }

    /// Stops the clock until the guard is dropped.
    pub(crate) fn pause(self: &Arc<Self>) -> WorkPauseGuard {
        let mut waits = self.lock();
        waits.open += 1;
        waits.since.get_or_insert_with(Instant::now);
        WorkPauseGuard(Arc::clone(self))
    }

    fn lock(&self) -> MutexGuard<'_, WaitTotal> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The clock stands still until this is dropped.
pub(crate) struct WorkPauseGuard(Arc<WorkClock>);

impl Drop for WorkPauseGuard {
    fn drop(&mut self) {
        let mut waits = self.0.lock();
        waits.open -= 1;
        if waits.open == 0 {
            let waited = waits.since.take().map_or(Duration::ZERO, |since| since.elapsed());
            waits.total += waited;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_do_not_count_and_overlaps_count_once() {
        let clock = WorkClock::start(Duration::ZERO);
        let pass = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        pass(1).await;
        let first = clock.pause();
        pass(10).await;
        let second = clock.pause();
        pass(10).await;
        drop(first);
        pass(10).await;
        assert_eq!(clock.elapsed(), Duration::from_secs(1));
        drop(second);
        pass(2).await;
        assert_eq!(clock.elapsed(), Duration::from_secs(3));
    }
}
