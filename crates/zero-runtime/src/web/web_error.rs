//! Why nothing came from the web.

use std::error::Error;
use std::time::Duration;

use zero_core::text_shortening::one_line;

use super::network_guard::UnreachableError;

/// Why nothing came from the web.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// It may not be connected to.
    #[error(transparent)]
    Refused(#[from] UnreachableError),
    /// No client could be made.
    #[error("no HTTP client could be made: {why}")]
    Client {
        /// Why not.
        why: String,
    },
    /// It could not be connected to.
    #[error("{origin} could not be reached: {why}")]
    Connect {
        /// Where.
        origin: String,
        /// Why not.
        why: String,
    },
    /// It took too long.
    #[error("{what} did not come within {} s", .after.as_secs())]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        after: Duration,
    },
    /// It sent too much.
    #[error("{what} is larger than {bytes_max} bytes, and was not read further")]
    TooLarge {
        /// What was too large.
        what: &'static str,
        /// How large it may be.
        bytes_max: usize,
    },
    /// It sent something that is no answer.
    #[error("the server's answer is unusable: {why}")]
    Unusable {
        /// What is wrong with it.
        why: String,
    },
    /// It sends elsewhere.
    #[error("the server redirects to `{to}`, which is not followed")]
    Redirect {
        /// Where to, without path and query.
        to: String,
    },
    /// The connection broke.
    #[error("the connection to {origin} broke: {why}")]
    Broken {
        /// Where to.
        origin: String,
        /// How.
        why: String,
    },
}

/// What a stranger says, for an error: one line, no control characters, not long.
pub fn shorten_untrusted(text: &[u8]) -> Option<String> {
    const CHARS_MAX: usize = 200;
    // More than enough to find the characters that are shown.
    let start = text.get(..text.len().min(CHARS_MAX * 8)).unwrap_or_default();
    let shown = one_line(&String::from_utf8_lossy(start), CHARS_MAX);
    (!shown.is_empty()).then_some(shown)
}

/// Why the HTTP client failed. Its own words name the address with its query, and are not used.
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
    let why = why.unwrap_or_else(|| "no reason is known".to_owned());
    let origin = origin.to_owned();
    if error.is_timeout() && error.is_connect() {
        return WebError::TimedOut { what: "a connection", after: connect };
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
