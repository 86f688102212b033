//! Rate limit for failed authentication attempts.
//!
//! Failed attempts are counted per address and for all addresses together. Loopback is included,
//! since a page in a local browser connects from there too. After too many failures an address is
//! locked for a while and even the right token is refused; otherwise an attacker could continue
//! guessing during the lock. The lock for loopback is short, so that a typo in one local program
//! does not block the others for long.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::address_group::AddressGroup;
use crate::auth::AuthError;

/// Addresses tracked at a time; further ones are refused until entries expire.
const ADDRESSES_MAX: usize = 4096;
/// How long an address stays exempt from the global lock after a successful authentication.
const TRUST_DURATION: Duration = Duration::from_secs(60 * 60);

/// Limits for failed authentication attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthAttemptLimits {
    /// Failed attempts per address within `window`.
    pub per_address_max: u32,
    /// Failed attempts of all remote addresses together within `window`.
    pub total_max: u32,
    /// How long a failed attempt counts.
    pub window: Duration,
    /// How long an address is locked after too many failures.
    pub lock: Duration,
    /// Lock time for loopback, and for all remote addresses after too many failures in total.
    pub short_lock: Duration,
    /// Delay of the response to the first failed attempt; it doubles with each further one.
    pub delay_first: Duration,
    /// Upper bound of this delay.
    pub delay_max: Duration,
}

impl Default for AuthAttemptLimits {
    fn default() -> Self {
        Self {
            per_address_max: 10,
            total_max: 200,
            window: Duration::from_secs(60),
            lock: Duration::from_secs(5 * 60),
            short_lock: Duration::from_secs(30),
            delay_first: Duration::from_millis(250),
            delay_max: Duration::from_secs(5),
        }
    }
}

/// Reason for a denied attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthDenial {
    /// The credentials were wrong; the response must be delayed by this time.
    BadCredentials(AuthError, Duration),
    /// The address is locked; the credentials were not checked.
    Locked {
        /// Time until the next attempt is checked.
        retry_after: Duration,
    },
}

/// Counts failed attempts.
pub(crate) struct AuthLimiter {
    limits: AuthAttemptLimits,
    state: Mutex<AttemptState>,
}

#[derive(Default)]
struct AttemptState {
    failed: HashMap<AddressGroup, AttemptTally>,
    all: Option<AttemptTally>,
    let_in: HashMap<AddressGroup, Instant>,
}

#[derive(Clone, Copy)]
struct AttemptTally {
    since: Instant,
    failures: u32,
    locked_until: Option<Instant>,
}

impl AuthLimiter {
    pub(crate) fn new(limits: AuthAttemptLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// Checks an attempt. Check and count are one atomic step, so concurrent attempts cannot evade
    /// the limit.
    pub(crate) fn attempt<T>(
        &self,
        from: IpAddr,
        now: Instant,
        check: impl FnOnce() -> Result<T, AuthError>,
    ) -> Result<T, AuthDenial> {
        let group = AddressGroup::from(from);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(retry_after) = self.remaining_lock(&mut state, group, now) {
            return Err(AuthDenial::Locked { retry_after });
        }
        match check() {
            Ok(principal) => {
                // A success clears no failures: the holder of one token may be guessing another.
                insert_bounded(&mut state.let_in, group, now, |since| {
                    now.duration_since(*since) < TRUST_DURATION
                });
                Ok(principal)
            }
            Err(problem) if problem.is_guess() => Err(AuthDenial::BadCredentials(
                problem,
                self.record_failure(&mut state, group, now),
            )),
            Err(problem) => Err(AuthDenial::BadCredentials(problem, Duration::ZERO)),
        }
    }

    fn remaining_lock(
        &self,
        state: &mut AttemptState,
        group: AddressGroup,
        now: Instant,
    ) -> Option<Duration> {
        let lasting = |tally: &AttemptTally| {
            tally.locked_until.filter(|until| *until > now).map(|until| until.duration_since(now))
        };
        if let Some(left) = state.failed.get(&group).and_then(lasting) {
            return Some(left);
        }
        if group == AddressGroup::ThisMachine || is_trusted(state, group, now) {
            return None;
        }
        if let Some(left) = state.all.as_ref().and_then(lasting) {
            return Some(left);
        }
        if state.failed.len() >= ADDRESSES_MAX && !state.failed.contains_key(&group) {
            state.failed.retain(|_, tally| self.is_relevant(tally, now));
        }
        // An attempt that cannot be counted is denied.
        let full = state.failed.len() >= ADDRESSES_MAX && !state.failed.contains_key(&group);
        full.then_some(self.limits.short_lock)
    }

    /// Whether a tally can still affect a decision.
    fn is_relevant(&self, tally: &AttemptTally, now: Instant) -> bool {
        match tally.locked_until {
            Some(until) => until > now,
            None => now.duration_since(tally.since) < self.limits.window,
        }
    }

    /// Counts a failure and returns the delay of its response.
    fn record_failure(
        &self,
        state: &mut AttemptState,
        group: AddressGroup,
        now: Instant,
    ) -> Duration {
        let limits = &self.limits;
        let here = group == AddressGroup::ThisMachine;
        let fresh = AttemptTally { since: now, failures: 0, locked_until: None };
        let add = |tally: &mut AttemptTally, max: u32, lock: Duration| {
            if !self.is_relevant(tally, now) {
                *tally = fresh;
            }
            tally.failures = tally.failures.saturating_add(1);
            if tally.failures >= max {
                tally.locked_until = Some(now + lock);
            }
            tally.failures
        };
        if !here {
            add(state.all.get_or_insert(fresh), limits.total_max, limits.short_lock);
        }
        let lock = if here { limits.short_lock } else { limits.lock };
        let tally = state.failed.entry(group).or_insert(fresh);
        let failures = add(tally, limits.per_address_max, lock);
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        limits.delay_first.saturating_mul(doubled).min(limits.delay_max)
    }
}

fn is_trusted(state: &AttemptState, group: AddressGroup, now: Instant) -> bool {
    state.let_in.get(&group).is_some_and(|since| now.duration_since(*since) < TRUST_DURATION)
}

/// Inserts an entry, unless the map is still full after removing irrelevant entries.
fn insert_bounded<T>(
    known: &mut HashMap<AddressGroup, T>,
    group: AddressGroup,
    value: T,
    matters: impl Fn(&T) -> bool,
) {
    if known.len() >= ADDRESSES_MAX && !known.contains_key(&group) {
        known.retain(|_, value| matters(value));
    }
    if known.len() < ADDRESSES_MAX || known.contains_key(&group) {
        known.insert(group, value);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::auth::Principal;

    const HERE: &str = "127.0.0.1";
    const THERE: &str = "192.0.2.7";

    struct LimiterFixture {
        limiter: AuthLimiter,
        start: Instant,
    }

    impl LimiterFixture {
        fn new(limits: AuthAttemptLimits) -> Self {
            Self { limiter: AuthLimiter::new(limits), start: Instant::now() }
        }

        /// The result of an attempt at `second`, as text.
        fn attempt(&self, second: u64, from: &str, result: Result<(), AuthError>) -> String {
            let now = self.start + Duration::from_secs(second);
            let principal = Principal::new("x", Vec::new());
            let from = from.parse().unwrap();
            match self.limiter.attempt(from, now, || result.map(|()| principal)) {
                Ok(_) => "in".to_owned(),
                Err(AuthDenial::BadCredentials(_, delay)) => {
                    format!("wrong, {} ms", delay.as_millis())
                }
                Err(AuthDenial::Locked { retry_after }) => {
                    format!("locked {} s", retry_after.as_secs())
                }
            }
        }

        #[track_caller]
        fn check(&self, second: u64, from: &str, result: Result<(), AuthError>, expected: &str) {
            assert_eq!(self.attempt(second, from, result), expected, "{from} at {second} s");
        }
    }

    const WRONG: Result<(), AuthError> = Err(AuthError::TokenMismatch);

    #[test]
    fn failed_attempts_slow_down_then_lock() {
        let table = LimiterFixture::new(AuthAttemptLimits::default());
        for delay in [250, 500, 1000, 2000, 4000, 5000, 5000, 5000, 5000, 5000] {
            table.check(1, THERE, WRONG, &format!("wrong, {delay} ms"));
        }
        table.check(2, THERE, WRONG, "locked 299 s");
        table.check(2, THERE, Ok(()), "locked 299 s");
        table.check(2, "192.0.2.8", Ok(()), "in");
        table.check(300, THERE, Ok(()), "locked 1 s");
        table.check(301, THERE, Ok(()), "in");
        table.check(301, THERE, WRONG, "wrong, 250 ms");
    }

    #[test]
    fn loopback_is_locked_only_briefly() {
        let table = LimiterFixture::new(AuthAttemptLimits::default());
        for at in 0..10_u8 {
            let from = format!("127.0.0.{}", at + 1);
            assert!(table.attempt(0, &from, WRONG).starts_with("wrong"), "{from}");
        }
        table.check(1, HERE, Ok(()), "locked 29 s");
        table.check(1, "::1", Ok(()), "locked 29 s");
        table.check(30, HERE, Ok(()), "in");
    }

    #[test]
    fn every_guess_counts_regardless_of_other_fields() {
        let guesses = [
            AuthError::DeviceTokenMismatch,
            AuthError::BootstrapTokenInvalid,
            AuthError::PasswordMismatch,
            AuthError::TokenMismatch,
        ];
        for guess in guesses {
            let table = LimiterFixture::new(AuthAttemptLimits::default());
            for _ in 0..10 {
                assert!(table.attempt(0, HERE, Err(guess)).starts_with("wrong"));
            }
            table.check(0, HERE, Ok(()), "locked 30 s");
        }
    }

    #[test]
    fn missing_credentials_do_not_count_as_guess() {
        let table = LimiterFixture::new(AuthAttemptLimits::default());
        for _ in 0..50 {
            table.check(0, HERE, Err(AuthError::TokenMissing), "wrong, 0 ms");
        }
        table.check(0, HERE, Ok(()), "in");
    }

    #[test]
    fn success_does_not_reset_failures() {
        let table = LimiterFixture::new(AuthAttemptLimits::default());
        for _ in 0..9 {
            table.attempt(0, THERE, WRONG);
            table.check(0, THERE, Ok(()), "in");
        }
        table.check(0, THERE, WRONG, "wrong, 5000 ms");
        table.check(0, THERE, Ok(()), "locked 300 s");
    }

    #[test]
    fn expired_failures_do_not_count() {
        let table = LimiterFixture::new(AuthAttemptLimits::default());
        for second in [0, 10, 20, 30, 40, 50, 55, 56, 57] {
            table.attempt(second, THERE, WRONG);
        }
        table.check(61, THERE, WRONG, "wrong, 250 ms");
    }

    #[test]
    fn global_limit_spares_trusted_addresses() {
        let table = LimiterFixture::new(AuthAttemptLimits {
            total_max: 20,
            ..AuthAttemptLimits::default()
        });
        table.check(0, "198.51.100.1", Ok(()), "in");
        for at in 0..20_u8 {
            table.attempt(1, &Ipv4Addr::new(203, 0, 113, at).to_string(), WRONG);
        }
        table.check(1, THERE, Ok(()), "locked 30 s");
        table.check(1, "198.51.100.1", Ok(()), "in");
        table.check(1, HERE, Ok(()), "in");
        table.check(31, THERE, Ok(()), "in");
    }

    #[test]
    fn tracked_addresses_are_bounded_and_overflow_is_denied() {
        let table = LimiterFixture::new(AuthAttemptLimits {
            total_max: u32::MAX,
            ..AuthAttemptLimits::default()
        });
        let address =
            |at: usize| Ipv4Addr::from(0x0a00_0000 + u32::try_from(at).unwrap()).to_string();
        for at in 0..ADDRESSES_MAX {
            table.check(0, &address(at), WRONG, "wrong, 250 ms");
        }
        table.check(0, &address(ADDRESSES_MAX), Ok(()), "locked 30 s");
        table.check(0, &address(0), WRONG, "wrong, 500 ms");
        table.check(0, HERE, Ok(()), "in");
        table.check(60, &address(ADDRESSES_MAX), WRONG, "wrong, 250 ms");
        let state = table.limiter.state.lock().unwrap();
        assert!(state.failed.len() <= ADDRESSES_MAX + 1, "{}", state.failed.len());
    }
}
