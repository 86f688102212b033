//! The time after which a server wants to be asked again.

use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

/// Longest time that is added to a pause at random.
const JITTER_MAX: Duration = Duration::from_millis(250);

/// A pause made a little longer, so that callers that were refused together do not return together.
pub fn add_jitter(pause: Duration) -> Duration {
    pause + JITTER_MAX.mul_f64(fastrand::f64())
}

/// The retry delay of the headers: `retry-after-ms`, or seconds or a date in `Retry-After`.
pub fn retry_after_header(headers: &HeaderMap) -> Option<Duration> {
    let value = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str| {
        text.parse::<f64>().ok().and_then(|number| Duration::try_from_secs_f64(number).ok())
    };
    if let Some(time) = value("retry-after-ms").and_then(number) {
        return Some(time / 1000);
    }
    let text = value("retry-after")?;
    number(text).or_else(|| {
        let date = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
        let wait = date.duration_since(Timestamp::now());
        Some(Duration::try_from(wait).unwrap_or_default())
    })
}
