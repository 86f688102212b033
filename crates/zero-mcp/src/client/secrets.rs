//! [`ServerSecrets`]: the values of a server's variables and headers, which must not be shown.
//!
//! Servers quote them, mostly when they complain: in their error output, in lines that are not
//! messages, in refusals. That text becomes part of errors, status and files. There, each value is
//! replaced by its name, and everything that looks like another secret is redacted as everywhere.

use std::fmt;

use zero_runtime::redaction;

use super::error::ServerUnavailableError;
use crate::server_definition::{ServerLaunch, ServerTransport};

/// Minimum length of a value: shorter ones are not secrets, and would match everywhere.
const VALUE_CHARS_MIN: usize = 6;

/// The values that settings give a server, with their names. Cheap enough to clone.
#[derive(Clone, Default)]
pub(crate) struct ServerSecrets {
    /// Longest value first, so that a value within a longer one does not leave parts of it.
    values: Vec<(String, String)>,
}

impl ServerSecrets {
    /// Collects the secrets of a server.
    pub(crate) fn from_transport(transport: &ServerTransport) -> Self {
        match transport {
            ServerTransport::Command(launch) => Self::from_launch(launch),
            ServerTransport::Http(endpoint) => {
                let secret = endpoint.login.client_secret.iter();
                let secret = secret.map(|secret| ("client secret", secret.as_str()));
                Self::new(as_str_pairs(&endpoint.headers).chain(secret))
            }
        }
    }

    /// Collects the secrets of a server that zero starts.
    pub(crate) fn from_launch(launch: &ServerLaunch) -> Self {
        Self::new(as_str_pairs(&launch.variables))
    }

    fn new<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut values = Vec::new();
        for (name, value) in pairs {
            let value = value.trim();
            // A server may quote only the last word of `Bearer abc`.
            let last = value.split_whitespace().next_back().unwrap_or_default();
            for value in [value, last] {
                let pair = (name.to_owned(), value.to_owned());
                if value.chars().count() >= VALUE_CHARS_MIN && !values.contains(&pair) {
                    values.push(pair);
                }
            }
        }
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// Replaces the secrets in a text, and redacts what looks like a secret.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.values {
            if text.contains(value) {
                text = text.replace(value, &placeholder(name));
            }
        }
        redaction::redact_text(&text).into_owned()
    }

    /// Like [`Self::redact`], for a text whose beginning was cut off, perhaps within a secret.
    pub(crate) fn redact_tail(&self, text: &str) -> String {
        let rest_of = |value: &str| {
            let ends = value.char_indices().skip(1).map(|(at, _)| value[at..].to_owned());
            let mut ends = ends.take_while(|end| end.chars().count() >= VALUE_CHARS_MIN);
            ends.find(|end| text.starts_with(end))
        };
        let cut = self.values.iter().find_map(|(name, value)| Some((name, rest_of(value)?)));
        match cut {
            Some((name, end)) => {
                let rest = text.get(end.len()..).unwrap_or_default();
                self.redact(&format!("{}{rest}", placeholder(name)))
            }
            None => self.redact(text),
        }
    }

    /// Replaces the secrets in an error.
    pub(crate) fn redact_error(&self, error: ServerUnavailableError) -> ServerUnavailableError {
        ServerUnavailableError {
            message: self.redact(&error.message),
            stderr_tail: self.redact(&error.stderr_tail),
            notes: error.notes.iter().map(|note| self.redact(note)).collect(),
            ..error
        }
    }
}

impl fmt::Debug for ServerSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.iter().map(|(name, _)| name)).finish()
    }
}

fn as_str_pairs(pairs: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Text that replaces a value.
fn placeholder(name: &str) -> String {
    format!("[{name}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_secrets() -> ServerSecrets {
        let pairs = [
            ("PART", "hunter"),
            ("KEY", "hunter2-and-more"),
            ("PIN", "12345"),
            ("X-Auth", "Custom zyxwvut"),
        ];
        ServerSecrets::new(pairs.into_iter())
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(sample_secrets().redact_tail(text), expected, "{text:?}");
    }

    #[test]
    fn redaction_replaces_value_with_its_name() {
        check("nothing of it", "nothing of it");
        check("bad key hunter2-and-more!", "bad key [KEY]!");
        check("a hunter came", "a [PART] came");
        check("12345", "12345");
        check("Custom zyxwvut", "[X-Auth]");
        check("got zyxwvut", "got [X-Auth]");
        check("er2-and-more\nnext", "[KEY]\nnext");
        check("and more", "and more");
        let found = "x ghp_0123456789abcdefghijABCDEFGHIJ012345";
        assert!(!sample_secrets().redact(found).contains("ghp_0123456789abc"));
    }

    #[test]
    fn debug_output_hides_values() {
        assert!(!format!("{:?}", sample_secrets()).contains("hunter"));
    }
}
