//! How often it is checked what a running program created.

use std::time::Duration;

/// The pause before the first check; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The longest pause between two checks, unless a check takes long.
const PAUSE_MAX: Duration = Duration::from_secs(4);
/// How much longer than a check the pause after it is at least, so that a large folder does not keep
/// a processor busy.
const PAUSE_FACTOR: u32 = 20;

/// The pauses between the checks of programs that run on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckPace(Duration);

impl CheckPace {
    pub(crate) fn new() -> Self {
        Self(PAUSE_MIN)
    }

    /// How long to wait before the next check.
    pub(crate) fn pause(self) -> Duration {
        self.0
    }

    /// Sets the next pause after a check that took this long.
    pub(crate) fn record_check(&mut self, duration: Duration) {
        self.0 = PAUSE_MAX.min(self.0 * 2).max(duration * PAUSE_FACTOR);
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
            pauses.push(pace.pause().as_millis());
            pace.record_check(took);
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 4_000, 20_000]);
        assert_eq!(pace.pause(), PAUSE_MAX);
    }
}
