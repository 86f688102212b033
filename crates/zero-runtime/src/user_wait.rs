//! The time that a call spends waiting for the user's answers.
//!
//! It says nothing about the tool, so statistics leave it out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Adds up the time until the user answered, also if the call was stopped before.
#[derive(Debug, Default)]
pub(crate) struct UserWaitClock {
    micros: AtomicU64,
}

impl UserWaitClock {
    /// Counts the time until the guard is dropped.
    pub(crate) fn start(&self) -> UserWaitGuard<'_> {
        UserWaitGuard { clock: self, started_at: Instant::now() }
    }

    /// The time so far.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

/// A question that is open.
pub(crate) struct UserWaitGuard<'a> {
    clock: &'a UserWaitClock,
    started_at: Instant,
}

impl Drop for UserWaitGuard<'_> {
    fn drop(&mut self) {
        let micros = u64::try_from(self.started_at.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.clock.micros.fetch_add(micros, Ordering::Relaxed);
    }
}
