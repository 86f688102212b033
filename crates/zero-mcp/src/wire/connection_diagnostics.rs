//! [`ConnectionDiagnostics`]: problems on a connection that did not end it, for status reports.
//!
//! Everything is counted, but only the first few of each kind are stored, so a flood of problems
//! uses no memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zero_core::sanitize::escape_line;
use zero_core::text_shortening::shorten_end;

use serde::Serialize;

/// Maximum number of stored samples of each kind.
const SAMPLES_MAX: usize = 5;
/// Maximum length of a sample, in characters.
const SAMPLE_CHARS_MAX: usize = 200;
/// Maximum number of malformed tools that are stored with their reasons.
const QUARANTINED_MAX: usize = 256;

/// Problems of one connection. Cheap to clone; all clones share their data.
#[derive(Clone, Default)]
pub struct ConnectionDiagnostics(Arc<Mutex<DiagnosticsReport>>);

/// The problems so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiagnosticsReport {
    /// Number of lines that are not messages.
    pub noise: u64,
    /// The first few of them, shortened, with control characters escaped.
    pub noise_samples: Vec<String>,
    /// Number of messages that were refused.
    pub refused: u64,
    /// Why the first few were refused.
    pub refused_samples: Vec<String>,
    /// Number of answers without a request: late, repeated, or with an unknown id.
    pub unasked_answers: u64,
    /// Number of notifications.
    pub notifications: u64,
    /// Number of message parts that were repaired or left out so that the rest could be used.
    pub mended: u64,
    /// What was repaired in the first few.
    pub mended_samples: Vec<String>,
    /// Malformed tools that were left out of the list.
    pub quarantined: Vec<MalformedTool>,
    /// Number of malformed tools beyond those stored.
    pub quarantined_more: u64,
    /// Why the connection was closed, if it was.
    pub closed: Option<DisconnectCause>,
}

/// A tool that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MalformedTool {
    /// Name of the tool, or its position in the list.
    pub tool: String,
    /// Why, such as `its input schema is missing`.
    pub reason: String,
}

/// Why a connection was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DisconnectCause {
    /// The peer closed it.
    ByPeer,
    /// This side closed it.
    ByUs,
    /// The peer did not read.
    WriteTimedOut {
        /// The time limit.
        after: Duration,
    },
    /// Reading failed.
    ReadFailed {
        /// Error of the operating system.
        why: String,
    },
    /// Writing failed.
    WriteFailed {
        /// Error of the operating system.
        why: String,
    },
}

impl fmt::Display for DisconnectCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByPeer => f.write_str("the other end closed the connection"),
            Self::ByUs => f.write_str("the connection was closed here"),
            Self::WriteTimedOut { after } => {
                write!(f, "the other end did not read its messages for {after:?}")
            }
            Self::ReadFailed { why } => write!(f, "reading failed: {why}"),
            Self::WriteFailed { why } => write!(f, "writing failed: {why}"),
        }
    }
}

impl ConnectionDiagnostics {
    /// Returns the problems so far.
    pub fn report(&self) -> DiagnosticsReport {
        self.lock().clone()
    }

    /// Returns why the connection was closed, if it was.
    pub fn close_cause(&self) -> Option<DisconnectCause> {
        self.lock().closed.clone()
    }

    /// Forgets the malformed tools, before the list is fetched again.
    pub fn forget_quarantined(&self) {
        let mut report = self.lock();
        report.quarantined.clear();
        report.quarantined_more = 0;
    }

    /// Records a tool that is left out.
    pub fn quarantine(&self, tool: &str, reason: &str) {
        let mut report = self.lock();
        if report.quarantined.len() < QUARANTINED_MAX {
            report.quarantined.push(MalformedTool {
                tool: sanitize_sample(tool),
                reason: sanitize_sample(reason),
            });
        } else {
            report.quarantined_more += 1;
        }
    }

    /// Records a line that is not a message.
    pub fn record_noise(&self, line: &[u8]) {
        let mut report = self.lock();
        report.noise += 1;
        if report.noise_samples.len() < SAMPLES_MAX {
            let head = line.get(..4 * SAMPLE_CHARS_MAX).unwrap_or(line);
            report.noise_samples.push(sanitize_sample(&String::from_utf8_lossy(head)));
        }
    }

    /// Records a message that was refused.
    pub fn record_refusal(&self, why: &str) {
        let mut report = self.lock();
        report.refused += 1;
        add_sample(&mut report.refused_samples, why);
    }

    /// Records a part that was repaired or left out.
    pub fn record_repair(&self, what: &str) {
        let mut report = self.lock();
        report.mended += 1;
        add_sample(&mut report.mended_samples, what);
    }

    /// Records an answer without a request.
    pub(crate) fn record_unsolicited_answer(&self) {
        self.lock().unasked_answers += 1;
    }

    pub(crate) fn record_notification(&self) {
        self.lock().notifications += 1;
    }

    /// Records why the connection was closed. The first reason is kept.
    pub fn record_close(&self, why: DisconnectCause) {
        self.lock().closed.get_or_insert(why);
    }

    fn lock(&self) -> MutexGuard<'_, DiagnosticsReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add_sample(samples: &mut Vec<String>, text: &str) {
    if samples.len() < SAMPLES_MAX {
        samples.push(sanitize_sample(text));
    }
}

/// Makes a text of the peer safe to show: short, on one line, without control characters.
pub(crate) fn sanitize_sample(text: &str) -> String {
    escape_line(&shorten_end(text.trim(), SAMPLE_CHARS_MAX)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_are_counted_without_using_memory() {
        let troubles = ConnectionDiagnostics::default();
        for number in 0..10_000 {
            troubles.record_noise(&[b'x'; 4096]);
            troubles.record_refusal("no");
            troubles.quarantine(&number.to_string(), "its name is empty");
        }
        let report = troubles.report();
        assert_eq!((report.noise, report.refused), (10_000, 10_000));
        assert_eq!(report.noise_samples.len(), SAMPLES_MAX);
        assert_eq!(report.noise_samples[0].chars().count(), SAMPLE_CHARS_MAX + 1);
        assert_eq!(report.quarantined.len() as u64 + report.quarantined_more, 10_000);
    }

    #[test]
    fn samples_contain_no_terminal_control() {
        assert_eq!(sanitize_sample("a\x1b[31mb\u{202e}\n"), "a\\u{1b}[31mb\\u{202e}");
    }
}
