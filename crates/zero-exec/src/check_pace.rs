//! How often it is checked what a running program created.

use std::time::{Duration, Instant};

use crate::new_files::NewFiles;

/// The pause before the first check; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause between two checks, unless a check takes long.
const PAUSE_MAX: Duration = Duration::from_secs(4);
/// How much longer than a check the pause after it is at least, so that a large folder does not keep
/// a processor busy.
const PAUSE_FACTOR: u32 = 20;

/// The same for a check of files that the kernel reported: a program that creates such files again and
/// again keeps a quarter of a processor busy.
const REPORT_FACTOR: u32 = 3;

/// The pauses between the checks of programs that run on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckPace {
    pause: Duration,
    /// When everything is checked next.
    next: Instant,
}

impl CheckPace {
    pub(crate) fn new() -> Self {
        Self { pause: PAUSE_MIN, next: Instant::now() + PAUSE_MIN }
    }

    /// How long to wait before everything is checked again.
    pub(crate) fn pause(self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    /// Whether everything is checked now: nothing was reported, or not all, or it was put off by reports
    /// for long enough. A program that changes files all the time would put it off for ever.
    pub(crate) fn is_due(self, reported: &NewFiles) -> bool {
        reported.is_empty() || reported.is_incomplete || self.pause().is_zero()
    }

    /// Sets the next pause after a check of everything that took this long.
    pub(crate) fn record_check(&mut self, duration: Duration) {
        self.pause = PAUSE_MAX.min(self.pause * 2).max(duration * PAUSE_FACTOR);
        self.next = Instant::now() + self.pause;
    }

    /// How long to rest after a check of what the kernel reported that took this long.
    pub(crate) fn rest_after(duration: Duration) -> Duration {
        duration * REPORT_FACTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_with_the_duration_of_checks() {
        let mut pace = CheckPace::new();
        let mut pauses = Vec::new();
        for took in [0, 0, 0, 0, 0, 1, 0].map(Duration::from_secs) {
            pauses.push(pace.pause.as_millis());
            pace.record_check(took);
            let left = pace.pause();
            assert!(left <= pace.pause && left > pace.pause / 2, "it counts from now on");
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 4_000, 20_000]);
        assert_eq!(pace.pause, PAUSE_MAX);
    }

    #[test]
    fn steady_reports_do_not_put_off_the_check_of_everything() {
        let some = NewFiles { paths: ["config".into()].into(), is_incomplete: false };
        let part = NewFiles { is_incomplete: true, ..some.clone() };
        let mut pace = CheckPace::new();
        pace.record_check(Duration::from_secs(1));
        assert!(!pace.is_due(&some) && pace.is_due(&part) && pace.is_due(&NewFiles::default()));
        pace.next = Instant::now();
        assert!(pace.is_due(&some));
    }
}
