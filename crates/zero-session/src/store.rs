//! The port to where sessions are kept.
//!
//! One conformance suite (`tests/it/store_conformance.rs`) holds every implementation to the same promises:
//! what was acknowledged is there after the process is killed; an event's number is given once;
//! a run is begun once, whoever asks again.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zero_core::{RunId, SessionId};
use zero_policy::PermissionMode;
pub use zero_runtime::GrantRecord;
use zero_runtime::tool::BoxFuture;

use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::key::SessionKey;
use crate::message::ModelMessage;

/// Where sessions are kept. Everything is acknowledged only once it would survive the death of the
/// process. Whoever names a session by an id that nobody has is told [`StoreError::NoSession`].
pub trait Store: Send + Sync {
    /// The session of a key.
    fn session(&self, key: &SessionKey)
    -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>>;

    /// The session of an id.
    fn session_by_id(
        &self,
        id: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>>;

    /// Makes a session; the one that is there, unchanged, if the key has one already. An owner who has as
    /// many as they may gets no other ([`StoreError::TooMany`]).
    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<SessionRecord, StoreError>>;

    /// Sessions that fit, with how many fit in all: the one where something happened last comes
    /// first, and of two at the same time the one that was made last.
    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<SessionPage, StoreError>>;

    /// Changes some of a session; `None` where there is none. A label that another session has is
    /// refused.
    fn patch(
        &self,
        key: &SessionKey,
        patch: SessionPatch,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>>;

    /// Removes a session with all that belongs to it; false where there is none.
    fn delete(&self, key: &SessionKey) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Writes entries into a session's ledger, all or none, in order; gives them their numbers.
    fn append(
        &self,
        session: &SessionId,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;

    /// Entries after a number, oldest first: as many as fit.
    fn events(
        &self,
        session: &SessionId,
        after: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;

    /// The newest entries before a number, oldest first: as many as fit, counted from the newest.
    /// Before `u64::MAX` is all of them.
    fn last_events(
        &self,
        session: &SessionId,
        before: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;

    /// Number of the newest entry; 0 when there is none.
    fn last_seq(&self, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            Ok(self
                .last_events(&session, u64::MAX, LedgerReadLimit::with_entries(1))
                .await?
                .last()
                .map_or(0, |event| event.seq))
        })
    }

    /// The messages of a transcript; of the present one when no number is given.
    fn transcript(
        &self,
        session: &SessionId,
        number: Option<u64>,
    ) -> BoxFuture<'_, Result<Transcript, StoreError>>;

    /// Adds messages to the present transcript.
    fn add_messages(
        &self,
        session: &SessionId,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Begins a new transcript with these messages and gives its number; the old one stays. What
    /// the next request would send is not known any more.
    fn start_transcript(
        &self,
        session: &SessionId,
        why: TranscriptStart,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Begins a run, once: whoever comes again with the same id gets the one that is there.
    fn begin_run(&self, run: NewRun) -> BoxFuture<'_, Result<BeginRunOutcome, StoreError>>;

    /// Settles a run: writes its last entries and how it ended, together, and adds what it took to
    /// what its session took. `None` when it was settled before, or nobody knows it; then nothing is
    /// written.
    fn end_run(
        &self,
        run: &RunId,
        end: RunOutcome,
        usage: TokenUsage,
        last: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Option<Vec<Event>>, StoreError>>;

    /// Reads the run of that id; `None` if it was never begun.
    fn run(&self, run: &RunId) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>>;

    /// Runs that were begun and not settled, of this session or of all; oldest first.
    fn unfinished_runs(
        &self,
        session: Option<&SessionId>,
    ) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>>;

    /// What a person settled for the rest of a session.
    fn grants(&self, session: &SessionId) -> BoxFuture<'_, Result<Vec<GrantRecord>, StoreError>>;

    /// Puts these in the place of what stood.
    fn set_grants(
        &self,
        session: &SessionId,
        grants: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Whether it answers.
    fn check_ready(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// How many sessions it has.
    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Bytes that a session takes: its entries and the messages of all its transcripts, as they are
    /// kept.
    fn size(&self, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>>;
}

/// A session as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its id: never reused, not even for the same key.
    pub id: SessionId,
    /// The key that clients address it by; one session per key.
    pub key: SessionKey,
    /// What people call it; no two sessions share one.
    pub label: Option<String>,
    /// What it is about, in a few words.
    pub title: Option<String>,
    /// Name of the agent that answers; at first that of the key.
    pub agent: String,
    /// The model chosen for it, instead of the agent's.
    pub model: Option<String>,
    /// The mode chosen for it, instead of the agent's.
    pub mode: Option<PermissionMode>,
    /// How much its model should think, instead of what the agent says.
    pub thinking: Option<String>,
    /// The folder it works in; the gateway's own when absent.
    pub cwd: Option<PathBuf>,
    /// Who opened it, by the name of their token.
    pub owner: String,
    /// Where its tools run: with the gateway, or with a client.
    pub tool_host: ToolHostLocation,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// When something last happened in it: when it was made, or the time of its newest entry.
    pub updated_ms: i64,
    /// Number of its present transcript, from 1.
    pub transcript: u64,
    /// What it took in all.
    pub usage: TokenUsage,
    /// Tokens that the next request would send, as far as known.
    pub context_tokens: Option<u64>,
}

/// Where the tools of a session run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "at")]
pub enum ToolHostLocation {
    /// On the gateway's machine, run by the gateway itself.
    Gateway,
    /// With a client; the gateway never runs anything for it.
    Client {
        /// What the client calls itself.
        name: String,
    },
}

/// A session to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSession {
    /// Its key; an existing session of that key is returned unchanged.
    pub key: SessionKey,
    /// What people call it.
    pub label: Option<String>,
    /// The folder it works in.
    pub cwd: Option<PathBuf>,
    /// The model chosen for it.
    pub model: Option<String>,
    /// The mode chosen for it.
    pub mode: Option<PermissionMode>,
    /// Who opens it.
    pub owner: String,
    /// How many sessions they may have with it.
    pub owned_max: u64,
    /// Where its tools run.
    pub tool_host: ToolHostLocation,
}

/// Changes of a session: `None` leaves a field, `Some(None)` clears it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPatch {
    /// What people call it; refused if another session has it.
    pub label: Option<Option<String>>,
    /// What it is about, in a few words.
    pub title: Option<Option<String>>,
    /// Name of its agent, which cannot be cleared.
    pub agent: Option<String>,
    /// The model to use instead of the agent's.
    pub model: Option<Option<String>>,
    /// The permission mode to use instead of the agent's.
    pub mode: Option<Option<PermissionMode>>,
    /// How much its model should think, instead of what the agent says.
    pub thinking: Option<Option<String>>,
    /// The folder.
    pub cwd: Option<Option<PathBuf>>,
    /// Where its tools run.
    pub tool_host: Option<ToolHostLocation>,
    /// What the next request would send.
    pub context_tokens: Option<u64>,
}

/// Which sessions are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionQuery {
    /// At most so many, and never more than [`SessionQuery::LIMIT_MAX`]; a hundred when absent.
    pub limit: Option<usize>,
    /// After so many.
    pub offset: usize,
    /// Text in key, label or title, whatever the case. One of more than
    /// [`SessionQuery::SEARCH_CHARS_MAX`] characters is in none.
    pub search: Option<String>,
    /// Exactly this label.
    pub label: Option<String>,
    /// Only sessions of the agent with exactly this name.
    pub agent: Option<String>,
    /// Only sessions that this owner opened, by token name.
    pub owner: Option<String>,
    /// In which something happened since then, in milliseconds since 1970.
    pub updated_since_ms: Option<i64>,
    /// In this folder.
    pub cwd: Option<PathBuf>,
}

impl SessionQuery {
    /// Most sessions of one page.
    pub const LIMIT_MAX: usize = 1000;
    /// Longest text that is searched for, in characters.
    pub const SEARCH_CHARS_MAX: usize = 1000;
}

/// Some sessions, and how many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPage {
    /// The sessions of this page, latest activity first.
    pub sessions: Vec<SessionRecord>,
    /// How many fit in all.
    pub total: u64,
}

/// How much of a ledger is read at once. What one entry weighs, a client decides; so whoever reads for
/// a client says how many bytes it can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerReadLimit {
    /// So many entries.
    pub entries: usize,
    /// So many bytes of what they say, in JSON. One entry fits whatever it weighs, or nobody would
    /// ever get past it.
    pub bytes: usize,
}

impl LedgerReadLimit {
    /// So many entries, whatever they weigh.
    pub const fn with_entries(entries: usize) -> Self {
        Self { entries, bytes: usize::MAX }
    }

    /// How many of these weights fit, in their order.
    pub fn count_fitting(self, weights: impl IntoIterator<Item = usize>) -> usize {
        let mut bytes = 0_usize;
        let fits = |(at, weight): &(usize, usize)| {
            bytes = bytes.saturating_add(*weight);
            *at == 0 || bytes <= self.bytes
        };
        weights.into_iter().take(self.entries).enumerate().take_while(fits).count()
    }
}

/// An entry that has no number yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// When, in milliseconds since 1970.
    pub time_ms: i64,
    /// What happened, with the data of that kind of entry.
    pub what: EventKind,
}

/// The messages that a model is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// Its number within the session, from 1.
    pub number: u64,
    /// Its messages, oldest first.
    pub messages: Vec<ModelMessage>,
}

/// Why a transcript begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptStart {
    /// The session is new.
    Opened,
    /// Somebody wanted to start over.
    Reset,
    /// The one before was summed up.
    Compacted,
}

/// A run to be begun.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Its id, which is what makes a prompt the same prompt.
    pub id: RunId,
    /// Id of the session that the run belongs to.
    pub session: SessionId,
    /// The process that runs it.
    pub node: String,
    /// When, in milliseconds since 1970.
    pub started_ms: i64,
    /// Its first entries, written together with it.
    pub first: Vec<NewEvent>,
}

/// Whether a run was begun now.
#[derive(Clone, Debug, PartialEq)]
pub enum BeginRunOutcome {
    /// It was; these are its first entries.
    Started(Vec<Event>),
    /// It was begun before.
    AlreadyStarted(RunRecord),
}

/// A run as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its id, as given when the run was begun.
    pub id: RunId,
    /// Id of the session that the run belongs to.
    pub session: SessionId,
    /// The process that runs it.
    pub node: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: i64,
    /// When it ended.
    pub ended_ms: Option<i64>,
    /// How it ended; `None` while it runs.
    pub end: Option<RunOutcome>,
    /// What it took.
    pub usage: TokenUsage,
}

/// Why the store did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another session has that label.
    #[error(
        "the label `{label}` belongs to session `{key}`; choose another, or take it away there first"
    )]
    LabelTaken {
        /// The label that was asked for.
        label: String,
        /// The session that has it.
        key: SessionKey,
    },
    /// Who wants a session has as many as they may.
    #[error("there are {0} sessions of yours, and no more are kept; remove some first")]
    TooMany(u64),
    /// There is no such session.
    #[error("there is no session `{0}`")]
    NoSession(String),
    /// The session has no such transcript.
    #[error("session `{session}` has no transcript {number}")]
    NoTranscript {
        /// Id of the session that was read.
        session: String,
        /// The transcript number that was asked for.
        number: u64,
    },
    /// What is kept cannot be read or written.
    #[error("the session store cannot {verb}: {why}")]
    Broken {
        /// What it was to do.
        verb: &'static str,
        /// What happened.
        why: String,
    },
    /// Too much waits to be written.
    #[error("the session store is too busy; try again in a moment")]
    Busy,
}
