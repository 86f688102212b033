//! Sets a limit from a flag or a settings file, and rejects values outside the usable range.

use zero_core::{HostLimitChange, HostLimits};

/// Largest value of the call-count limits; anything larger is a typing mistake.
const CALLS_MAX: usize = 1_000_000;

/// Parses a limit; the error says what is wrong with it.
pub fn parse_limit(name: &str, value: &str) -> Result<HostLimitChange, String> {
    let parsed = HostLimitChange::parse(name, value);
    let calls = |limits: &HostLimits| match name {
        "session-calls" => Some(limits.session_calls_max),
        "host-calls" => Some(limits.host_calls_max),
        "queue-calls" => Some(limits.queue_calls_max),
        _ => None,
    };
    let mut limits = HostLimits::default();
    if calls(&limits).is_none() {
        return parsed.map_err(|error| error.to_string());
    }
    if let Ok(change) = parsed {
        limits.apply(&change);
        if calls(&limits).is_some_and(|calls| calls <= CALLS_MAX) {
            return Ok(change);
        }
    }
    Err(format!("limit `{name}`: `{value}` is not a whole number from 1 to {CALLS_MAX}"))
}

/// Sets a limit; the error says what is wrong with it.
pub fn set_limit(limits: &mut HostLimits, name: &str, value: &str) -> Result<(), String> {
    parse_limit(name, value).map(|change| limits.apply(&change))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, value: &str, fits: bool) {
        let mut limits = HostLimits::default();
        let done = set_limit(&mut limits, name, value);
        assert_eq!(done.is_ok(), fits, "{name}={value}: {done:?}");
        assert_eq!(limits == HostLimits::default(), !fits, "{name}={value}");
    }

    #[test]
    fn call_count_limit_has_range() {
        for name in ["session-calls", "host-calls", "queue-calls"] {
            check(name, "1", true);
            check(name, "1000000", true);
            for bad in ["0", "1000001", "18446744073709551615", "99999999999999999999", "4.0", ""] {
                check(name, bad, false);
            }
        }
        check("file-timeout", "5s", true);
        check("file-timeout", "0s", false);
        check("speed", "1", false);
    }
}
