//! The form in which stores keep entries, messages and names: the same in each of them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use zero_core::prompt_folder::strip_folder;
use zero_core::text_shortening::one_line;

use crate::event::{Event, EventKind, OpaqueEvent, RunOutcome, TokenUsage};
use crate::message::ModelMessage;
use crate::open_question::QuestionEntry;
use crate::run_usage::UsageEntry;
use crate::store::{
    BeginRunOutcome, ClaimEpoch, NewEvent, RewindPoint, RewindPointKind, RunRecord, SessionClaim,
    TranscriptPosition, TranscriptStart,
};

/// Serialized entries. The caller serializes them before a store does its part, so that other
/// callers do not wait for that.
pub(crate) struct EncodedEvents {
    pub(crate) rows: Vec<EncodedEvent>,
    /// Time of the newest entry.
    pub(crate) newest_ms: i64,
    /// Total size in bytes.
    pub(crate) bytes: usize,
    /// What they say about the usage of runs.
    pub(crate) usages: Vec<UsageEntry>,
    /// What they say about open questions.
    pub(crate) questions: Vec<QuestionEntry>,
}

/// One serialized entry.
pub(crate) struct EncodedEvent {
    pub(crate) run: Option<String>,
    pub(crate) time_ms: i64,
    pub(crate) body: String,
}

impl EncodedEvents {
    pub(crate) fn from_events(events: &[NewEvent]) -> Result<Self, serde_json::Error> {
        let mut entries = Self {
            rows: Vec::with_capacity(events.len()),
            newest_ms: i64::MIN,
            bytes: 0,
            usages: events.iter().filter_map(UsageEntry::from_event).collect(),
            questions: QuestionEntry::from_events(events),
        };
        for event in events {
            let run = event.run.as_ref().map(|run| run.as_str().to_owned());
            let body = to_json(&event.kind)?;
            entries.bytes = entries.bytes.saturating_add(body.len());
            entries.newest_ms = entries.newest_ms.max(event.time_ms);
            entries.rows.push(EncodedEvent { run, time_ms: event.time_ms, body });
        }
        Ok(entries)
    }

    /// The runs that the entries belong to, each once.
    pub(crate) fn named_runs(&self) -> BTreeSet<&str> {
        self.rows.iter().filter_map(|row| row.run.as_deref()).collect()
    }
}

/// Result of inserting a run.
#[expect(clippy::large_enum_variant, reason = "few at a time, each for a moment")]
pub(crate) enum RunInsertion {
    /// The run was inserted: the sequence number of its first entry, and the claim of its process.
    Inserted { first_seq: u64, claim: ClaimEpoch },
    /// The run already existed.
    Existing(RunRecord),
    /// Another process holds the session.
    Held(SessionClaim),
}

impl RunInsertion {
    /// The result for the caller of the store. The entries get the numbers under which they were stored.
    pub(crate) fn into_outcome(self, first: Vec<NewEvent>) -> BeginRunOutcome {
        match self {
            Self::Inserted { first_seq, claim } => {
                BeginRunOutcome::Started { events: assign_seqs(first_seq, first), claim }
            }
            Self::Existing(record) => BeginRunOutcome::AlreadyStarted(record),
            Self::Held(claim) => BeginRunOutcome::Held(claim),
        }
    }
}

/// How a run ended.
pub(crate) struct RunEnd {
    pub(crate) outcome: RunOutcome,
    pub(crate) usage: TokenUsage,
    pub(crate) ended_ms: i64,
}

/// A rewind to be stored.
pub(crate) struct RewindRow {
    pub(crate) kind: RewindPointKind,
    /// Where the transcript goes on, if the conversation was rewound.
    pub(crate) position: Option<TranscriptPosition>,
    pub(crate) time_ms: i64,
}

/// Assigns sequence numbers to entries that were written.
pub(crate) fn assign_seqs(first: u64, entries: Vec<NewEvent>) -> Vec<Event> {
    let numbered = entries.into_iter().zip(first..);
    numbered
        .map(|(NewEvent { run, time_ms, kind }, seq)| Event { seq, run, time_ms, kind })
        .collect()
}

/// The content of an entry. One that cannot be read is reported in its place, so that the entries
/// around it stay readable.
pub(crate) fn decode_event(body: &str) -> EventKind {
    serde_json::from_str(body)
        .unwrap_or_else(|problem| EventKind::Opaque(OpaqueEvent::unreadable(&problem.to_string())))
}

/// Serialized messages and their total size in bytes.
pub(crate) fn encode_messages(
    messages: &[Arc<ModelMessage>],
) -> Result<(Vec<String>, usize), serde_json::Error> {
    let bodies =
        messages.iter().map(|message| to_json(&**message)).collect::<Result<Vec<String>, _>>()?;
    let bytes = bodies.iter().map(String::len).sum();
    Ok((bodies, bytes))
}

/// The first words of the prompt among the first entries of a run.
pub(crate) fn prompt_words(first: &[NewEvent]) -> Option<String> {
    first.iter().find_map(|event| match &event.kind {
        EventKind::Prompt { text, .. } => {
            Some(one_line(strip_folder(text), RewindPoint::WORDS_CHARS_MAX))
        }
        _ => None,
    })
}

/// The word for why a transcript was started.
pub(crate) fn transcript_start_word(why: TranscriptStart) -> &'static str {
    match why {
        TranscriptStart::Opened => "opened",
        TranscriptStart::Reset => "reset",
        TranscriptStart::Compacted => "compacted",
        TranscriptStart::Rewound => "rewound",
    }
}

/// Folds the case of a text for comparison. SQLite itself folds ASCII only, and Postgres as the
/// database was set up.
pub(crate) fn fold_case(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// A folder as the system names it, which need not be text.
pub(crate) fn path_bytes(path: &Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

pub(crate) fn to_json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(value)
}

/// Converts a number for databases, which store signed integers.
pub(crate) fn to_sql_int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a stored number back.
pub(crate) fn from_sql_int(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}
