//! [`ReconnectBackoff`]: how long to wait before the next attempt to connect. The delay starts at
//! one second and doubles up to 30 seconds.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// Computes the delay before each attempt to connect. Up to half of the delay is random, so that
/// the clients of a restarted gateway do not all reconnect at once.
#[derive(Clone, Debug)]
pub struct ReconnectBackoff {
    next: Duration,
}

impl ReconnectBackoff {
    /// Creates a backoff that starts with the shortest delay.
    pub fn new() -> Self {
        Self { next: FIRST }
    }

    /// Returns the delay before the next attempt, and doubles the one after it.
    pub fn next_delay(&mut self) -> Duration {
        let longest = self.next;
        self.next = (longest * 2).min(LONGEST);
        longest.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Starts again with the shortest delay, after a connection succeeded.
    pub fn reset(&mut self) {
        *self = Self::new();
    }
}

impl Default for ReconnectBackoff {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_limit_and_reset() {
        let mut backoff = ReconnectBackoff::new();
        for most in [1, 2, 4, 8, 16, 30, 30, 30] {
            let most = Duration::from_secs(most);
            let delay = backoff.next_delay();
            assert!((most / 2..=most).contains(&delay), "{delay:?} of {most:?}");
        }
        backoff.reset();
        assert!(backoff.next_delay() <= FIRST);
    }

    #[test]
    fn delays_include_jitter() {
        let delays: Vec<Duration> =
            (0..100).map(|_| ReconnectBackoff::new().next_delay()).collect();
        assert!(delays.iter().any(|delay| delay != &delays[0]));
    }
}
