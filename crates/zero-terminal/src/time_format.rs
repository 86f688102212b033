//! Formats timestamps and durations for display.

use std::time::Duration;

use jiff::Timestamp;

/// Timestamp to the second, in UTC.
pub fn format_short_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Duration in microseconds, milliseconds or seconds, depending on its size.
pub fn format_short_duration(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Time since something happened, in its largest unit.
pub fn format_age(age: Duration) -> String {
    const MINUTE: u64 = 60;
    const HOUR: u64 = 60 * MINUTE;
    const DAY: u64 = 24 * HOUR;
    match age.as_secs() {
        secs @ ..MINUTE => format!("{secs} s"),
        secs @ ..HOUR => format!("{} min", secs / MINUTE),
        secs @ ..DAY => format!("{} h", secs / HOUR),
        secs => format!("{} d", secs / DAY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_has_one_unit() {
        for (secs, shown) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min"),
            (7_199, "1 h"),
            (86_400, "1 d"),
            (9_999_999, "115 d"),
        ] {
            assert_eq!(format_age(Duration::from_secs(secs)), shown);
        }
    }

    #[test]
    fn durations_use_fitting_unit() {
        for (micros, shown) in
            [(0, "0 µs"), (999, "999 µs"), (1_500, "1.5 ms"), (30_000_000, "30.0 s")]
        {
            assert_eq!(format_short_duration(Duration::from_micros(micros)), shown);
        }
    }
}
