//! Formats timestamps and durations for display.

use std::time::Duration;

use jiff::Timestamp;

/// Timestamp to the second, in UTC.
pub(crate) fn format_short_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Duration in microseconds, milliseconds or seconds, depending on its size.
pub(crate) fn format_short_duration(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_use_fitting_unit() {
        for (micros, shown) in
            [(0, "0 µs"), (999, "999 µs"), (1_500, "1.5 ms"), (30_000_000, "30.0 s")]
        {
            assert_eq!(format_short_duration(Duration::from_micros(micros)), shown);
        }
    }
}
