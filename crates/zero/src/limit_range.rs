//! Sets a limit from a flag or a settings file, and refuses what no host could work under.

use zero_core::HostLimits;

/// Most calls that may run, or wait, at once: more would only be a slip.
const CALLS_MAX: usize = 1_000_000;

/// Sets a limit; the error says what is wrong with it.
pub(crate) fn set_limit(limits: &mut HostLimits, name: &str, value: &str) -> Result<(), String> {
    let mut changed = limits.clone();
    let done = changed.set(name, value);
    let calls = match name {
        "session-calls" => changed.session_calls_max,
        "host-calls" => changed.host_calls_max,
        "queue-calls" => changed.queue_calls_max,
        _ => {
            done.map_err(|error| error.to_string())?;
            *limits = changed;
            return Ok(());
        }
    };
    if done.is_err() || calls > CALLS_MAX {
        return Err(format!(
            "limit `{name}`: `{value}` is not a whole number from 1 to {CALLS_MAX}"
        ));
    }
    *limits = changed;
    Ok(())
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
