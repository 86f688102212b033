//! What went wrong on a connection without ending it, for whoever asks how a server is doing.
//!
//! Everything here is counted without end but kept within bounds: the first few of each kind say
//! what is the matter, and a flood of them takes no memory.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;

/// Samples that are kept of each kind.
const SAMPLES_MAX: usize = 5;
/// Longest sample, in characters.
const SAMPLE_CHARS_MAX: usize = 200;
/// Quarantined tools that are kept with their reasons.
const QUARANTINED_MAX: usize = 256;

/// The troubles of one connection. Cheap to clone; all clones are the same.
#[derive(Clone, Default)]
pub struct ConnectionDiagnostics(Arc<Mutex<DiagnosticsReport>>);

/// What went wrong so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DiagnosticsReport {
    /// Lines that were no messages.
    pub noise: u64,
    /// The first few of them, shortened, control characters escaped.
    pub noise_samples: Vec<String>,
    /// Messages that were refused.
    pub refused: u64,
    /// Why the first few were.
    pub refused_samples: Vec<String>,
    /// Answers to nothing: late, sent twice, or to an id that nobody used.
    pub unasked_answers: u64,
    /// Notifications that came.
    pub notifications: u64,
    /// Parts of messages that were mended or left out so that the rest could be taken.
    pub mended: u64,
    /// What was done to the first few.
    pub mended_samples: Vec<String>,
    /// Tools that were left out of the list, by name.
    pub quarantined: Vec<MalformedTool>,
    /// Those beyond the ones that are kept.
    pub quarantined_more: u64,
    /// Why the connection is closed, if it is.
    pub closed: Option<DisconnectCause>,
}

/// A tool that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MalformedTool {
    /// Its name, or where it stood in the list.
    pub tool: String,
    /// Why, such as `its input schema is missing`.
    pub reason: String,
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DisconnectCause {
    /// The other end closed it.
    ByPeer,
    /// We closed it.
    ByUs,
    /// The other end did not read what it was sent.
    WriteTimedOut {
        /// How long it was given.
        after: Duration,
    },
    /// It could not be read any more.
    ReadFailed {
        /// What the system says.
        why: String,
    },
    /// It could not be written to any more.
    WriteFailed {
        /// What the system says.
        why: String,
    },
}

impl fmt::Display for DisconnectCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByPeer => f.write_str("the other end closed the connection"),
            Self::ByUs => f.write_str("the connection was closed here"),
            Self::WriteTimedOut { after } => {
                write!(f, "the other end read nothing of what it was sent for {after:?}")
            }
            Self::ReadFailed { why } => write!(f, "reading failed: {why}"),
            Self::WriteFailed { why } => write!(f, "writing failed: {why}"),
        }
    }
}

impl ConnectionDiagnostics {
    /// What went wrong so far.
    pub fn report(&self) -> DiagnosticsReport {
        self.lock().clone()
    }

    /// Why the connection is closed, if it is.
    pub fn close_cause(&self) -> Option<DisconnectCause> {
        self.lock().closed.clone()
    }

    /// Forgets the tools that were left out, since the list is about to be asked for anew.
    pub fn forget_quarantined(&self) {
        let mut report = self.lock();
        report.quarantined.clear();
        report.quarantined_more = 0;
    }

    /// Notes a tool that is left out.
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

    /// Notes a line that was no message.
    pub fn record_noise(&self, line: &[u8]) {
        let mut report = self.lock();
        report.noise += 1;
        if report.noise_samples.len() < SAMPLES_MAX {
            let head = line.get(..4 * SAMPLE_CHARS_MAX).unwrap_or(line);
            report.noise_samples.push(sanitize_sample(&String::from_utf8_lossy(head)));
        }
    }

    /// Notes a message that was refused.
    pub fn record_refusal(&self, why: &str) {
        let mut report = self.lock();
        report.refused += 1;
        add_sample(&mut report.refused_samples, why);
    }

    /// Notes a part that was mended or left out.
    pub fn record_repair(&self, what: &str) {
        let mut report = self.lock();
        report.mended += 1;
        add_sample(&mut report.mended_samples, what);
    }

    /// Notes an answer to nothing.
    pub(crate) fn record_unsolicited_answer(&self) {
        self.lock().unasked_answers += 1;
    }

    /// Notes a notification.
    pub(crate) fn record_notification(&self) {
        self.lock().notifications += 1;
    }

    /// Notes why the connection is closed. The first reason stays.
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

/// A text from the other end, fit to be shown: short, on one line, without control characters.
pub(crate) fn sanitize_sample(text: &str) -> String {
    let mut shown = String::new();
    for (count, character) in text.trim().chars().enumerate() {
        if count == SAMPLE_CHARS_MAX {
            shown.push('…');
            break;
        }
        if character.is_control() || is_invisible(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Characters that turn around or hide what stands beside them.
pub(crate) fn is_invisible(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
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
