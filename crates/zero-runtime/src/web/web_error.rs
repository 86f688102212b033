//! Why a web request failed.

use std::error::Error;
use std::time::Duration;

use zero_core::text_shortening::one_line;

use super::network_guard::UnreachableError;

/// Why a web request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// The gate refused the connection.
    #[error(transparent)]
    Refused(#[from] UnreachableError),
    /// The HTTP client could not be created.
    #[error("could not create an HTTP client: {why}")]
    Client {
        /// The cause.
        why: String,
    },
    /// Connecting failed.
    #[error("could not connect to {origin}: {why}")]
    Connect {
        /// The origin.
        origin: String,
        /// The cause.
        why: String,
    },
    /// A time limit was exceeded.
    #[error("{what} did not arrive within {} s; try again later", .after.as_secs())]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// The time limit.
        after: Duration,
    },
    /// The response is too large.
    #[error("{what} is larger than {bytes_max} bytes; request a smaller page")]
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// The limit.
        bytes_max: usize,
    },
    /// The response is invalid.
    #[error("the server's response is invalid: {why}")]
    Unusable {
        /// The parse error.
        why: String,
    },
    /// A redirect that is not followed.
    #[error("the server redirects to `{to}`, which is not followed")]
    Redirect {
        /// Its target, without path and query.
        to: String,
    },
    /// The connection broke.
    #[error("the connection to {origin} broke: {why}")]
    Broken {
        /// The origin.
        origin: String,
        /// The cause.
        why: String,
    },
}

/// What is waited for before the first byte of a response arrives.
pub(super) const CONNECTION: &str = "a connection";
pub(super) const RESPONSE_HEAD: &str = "an answer";

impl WebError {
    /// Whether another attempt may succeed: nothing arrived yet, or the connection broke.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken { .. } => true,
            Self::TimedOut { what, .. } => [CONNECTION, RESPONSE_HEAD].contains(what),
            Self::Refused(_)
            | Self::Client { .. }
            | Self::TooLarge { .. }
            | Self::Unusable { .. }
            | Self::Redirect { .. } => false,
        }
    }
}

/// Untrusted text for an error: one short line without control characters.
pub fn shorten_untrusted(text: &[u8]) -> Option<String> {
    const CHARS_MAX: usize = 200;
    // Enough for the characters that are shown.
    let start = text.get(..text.len().min(CHARS_MAX * 8)).unwrap_or_default();
    let shown = one_line(&String::from_utf8_lossy(start), CHARS_MAX);
    (!shown.is_empty()).then_some(shown)
}

/// Converts an error of the HTTP client. Its own message contains the URL with its query, and is
/// not used.
pub fn from_reqwest_error(origin: &str, error: &reqwest::Error, connect: Duration) -> WebError {
    let mut source = error.source();
    let mut why = None;
    for _ in 0..16 {
        let Some(error) = source else { break };
        if let Some(unreachable) = error.downcast_ref::<UnreachableError>() {
            return WebError::Refused(unreachable.clone());
        }
        why = Some(error.to_string());
        source = error.source();
    }
    let why = why.and_then(|why| shorten_untrusted(why.as_bytes()));
    let why = why.unwrap_or_else(|| "unknown cause".to_owned());
    let origin = origin.to_owned();
    if error.is_timeout() && error.is_connect() {
        return WebError::TimedOut { what: CONNECTION, after: connect };
    }
    match error.is_connect() {
        true => WebError::Connect { origin, why },
        false => WebError::Broken { origin, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], expected: Option<&str>) {
        assert_eq!(shorten_untrusted(text).as_deref(), expected);
    }

    #[test]
    fn untrusted_text_becomes_one_short_clean_line() {
        check(b"", None);
        check(b"\r\n\t ", None);
        check(b"<h1>Oops</h1>\r\n\x1b[31mred", Some("<h1>Oops</h1> [31mred"));
        check("a\u{202e}b\u{200b}c".as_bytes(), Some("a b c"));
        check(b"\xff\xfe", Some("\u{fffd}\u{fffd}"));
        let long = "x".repeat(1000);
        check(long.as_bytes(), Some(&format!("{}…", "x".repeat(200))));
    }
}
