//! The port to the session storage.
//!
//! A conformance suite (`tests/it/store_conformance.rs`) checks the same guarantees for every
//! implementation: acknowledged writes survive the death of the process, a sequence number is
//! assigned once, and a run begins once even if the request is repeated.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use zero_core::{Budget, RunId, SessionId};
use zero_policy::PermissionMode;
pub use zero_runtime::GrantRecord;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::ToolBackendError;

use crate::event::{Event, EventKind, RewindScope, RunOutcome, TokenUsage};
use crate::key::{SessionAddress, SessionKey};
use crate::message::ModelMessage;
use crate::open_question::{OpenQuestion, QuestionScope};
use crate::run_usage::{RunUsage, RunUsageQuery, UsageTotal};

/// Stores sessions. A write is acknowledged only once it would survive the death of the process. An
/// unknown session id results in [`StoreError::NoSession`].
pub trait Store: Send + Sync {
    /// Returns the session at an address.
    fn session(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>>;

    /// Returns the session with an id.
    fn session_by_id(
        &self,
        id: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>>;

    /// Returns the id of the session at an address, also if nothing else of it can be read.
    fn session_id(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        let address = address.clone();
        Box::pin(async move { Ok(self.session(&address).await?.map(|record| record.id)) })
    }

    /// Creates a session; returns the existing one unchanged if the owner has one with that key.
    /// Fails with [`StoreError::TooMany`] if the owner has reached their limit.
    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<SessionRecord, StoreError>>;

    /// Creates a copy of a session, in one transaction: its settings, its current transcript and the
    /// ledger since the last reset, renumbered from 1. It has no label, grants or runs, and its
    /// usage starts at zero. Where the copied texts name the session's id, such as in paths of stored
    /// results, they name the id of the copy. `last` is its last entry.
    ///
    /// Fails unless the claim of the point is the current one, and with [`StoreError::KeyTaken`] or
    /// [`StoreError::TooMany`].
    fn fork(
        &self,
        session: &SessionId,
        point: ForkPoint,
        fork: NewFork,
        last: NewEvent,
    ) -> BoxFuture<'_, Result<SessionRecord, StoreError>>;

    /// Returns the sessions that match and their total number. The most recently active session
    /// comes first; of two with the same time, the one created later.
    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<SessionPage, StoreError>>;

    /// Changes settings of a session; `None` if it does not exist. Refuses a label that another
    /// session of its owner has.
    fn patch(
        &self,
        address: &SessionAddress,
        patch: SessionPatch,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>>;

    /// Claims a session for a process. Only one process holds a session that has unfinished runs;
    /// one without can be claimed by any process. `dead` is the claim of a process that has died:
    /// it is taken over.
    fn claim(
        &self,
        session: &SessionId,
        node: &str,
        dead: Option<ClaimEpoch>,
    ) -> BoxFuture<'_, Result<ClaimOutcome, StoreError>>;

    /// Deletes a session with all its data, if the claim is the current one. Other writes do not
    /// wait for a large one.
    fn delete(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Deletes an idle session, unless since it was listed it was given a label, claimed or used, or
    /// the session that started it was given a label or is at work; all of that is checked in the
    /// transaction that deletes it. Its space is reclaimed later.
    fn delete_idle(&self, session: &IdleSession) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Deletes a session whose id cannot be read, so that no process can hold it. Returns whether it
    /// was there. Its space is reclaimed later.
    fn delete_unreadable(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Sessions whose id, owner or key cannot be read, so that no command can name them. At most
    /// [`UnnamedSession::LIST_MAX`].
    fn unnamed_sessions(&self) -> BoxFuture<'_, Result<Vec<UnnamedSession>, StoreError>>;

    /// Deletes the session of that row, if its id, owner or key cannot be read. Returns whether it
    /// was there. Its space is reclaimed later.
    fn delete_unnamed(&self, row: i64) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Removes what is left of deleted sessions, for example after a crash, and gives free space
    /// back, in steps between which others write. Returns the deleted sessions that damage keeps
    /// from being removed.
    fn reclaim(&self) -> BoxFuture<'_, Result<Vec<UnremovedSession>, StoreError>>;

    /// Sessions without a label and without unfinished runs, the least recently active first. Those
    /// of sub-agents are as active as the sessions that started them, and listed after these only if
    /// these are listed, or are gone.
    fn idle_sessions(
        &self,
        query: IdleSessionQuery,
    ) -> BoxFuture<'_, Result<Vec<IdleSession>, StoreError>>;

    /// Owners with at least that many sessions, without those of sub-agents, those with most first;
    /// at most [`OwnerUsage::LIST_MAX`].
    fn large_owners(&self, sessions_min: u64)
    -> BoxFuture<'_, Result<Vec<OwnerUsage>, StoreError>>;

    /// The size of all sessions of each owner, as [`Store::size`] counts it, the largest first; at
    /// most [`OwnerSize::LIST_MAX`].
    fn owner_sizes(&self) -> BoxFuture<'_, Result<Vec<OwnerSize>, StoreError>>;

    /// How much the store holds.
    fn usage(&self) -> BoxFuture<'_, Result<StoreUsage, StoreError>>;

    /// Appends entries to a session's ledger, all or none, in order; returns them with sequence
    /// numbers. With a claim, only if it is the current one. Entries of a run only while it is open,
    /// so that nothing follows its end; otherwise [`StoreError::RunNotOpen`].
    fn append(
        &self,
        session: &SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;

    /// Like [`Store::append`], but acknowledged only once the entries would also survive a power
    /// cut, and with them every earlier write.
    fn append_durable(
        &self,
        session: &SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;

    /// Entries after a sequence number, oldest first, within the limit.
    fn events(
        &self,
        session: &SessionId,
        after: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;

    /// The newest entries before a sequence number, oldest first, within the limit, counted from
    /// the newest. `u64::MAX` covers all entries.
    fn last_events(
        &self,
        session: &SessionId,
        before: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>>;

    /// Sequence number of the newest entry; 0 if there is none.
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

    /// The messages of a transcript; of the current one if no number is given.
    fn transcript(
        &self,
        session: &SessionId,
        number: Option<u64>,
    ) -> BoxFuture<'_, Result<Transcript, StoreError>>;

    /// Appends messages to the current transcript, if the claim is the current one.
    fn add_messages(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Starts a new transcript with these messages and returns its number; the old one is kept.
    /// Clears the known number of context tokens. Fails unless the claim is the current one.
    fn start_transcript(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        why: TranscriptStart,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Claims the session for the run's process and begins the run, in one transaction that would
    /// survive a power cut: a prompt that was accepted is never run twice. If a run of the session's
    /// owner has the id already, returns that.
    fn begin_run(&self, run: NewRun) -> BoxFuture<'_, Result<BeginRunOutcome, StoreError>>;

    /// Ends a run: writes its last entries and outcome in one transaction, and adds its token usage
    /// to the session. Returns `None` and writes nothing if the run has already ended or is
    /// unknown. Fails unless the claim is the current one.
    fn end_run(
        &self,
        run: &RunAddress,
        claim: ClaimEpoch,
        end: RunOutcome,
        usage: TokenUsage,
        last: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Option<Vec<Event>>, StoreError>>;

    /// Reads a run; `None` if it was never begun.
    fn run(&self, run: &RunAddress) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>>;

    /// Finds the run of an owner with that id, or without an owner, the newest of all with it.
    fn find_run(
        &self,
        owner: Option<&str>,
        run: &RunId,
    ) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>>;

    /// Runs that have begun and not ended, of one session or of all; oldest first.
    fn unfinished_runs(
        &self,
        session: Option<&SessionId>,
    ) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>>;

    /// The open questions of unfinished runs, oldest first; at most [`OpenQuestion::OWNER_LIST_MAX`]
    /// of each owner, so that those of one owner do not hide others, and [`OpenQuestion::LIST_MAX`]
    /// of all. Only those of sessions whose tools run with the gateway are kept. See
    /// [`crate::open_question`].
    fn open_questions(
        &self,
        scope: QuestionScope<'_>,
    ) -> BoxFuture<'_, Result<Vec<OpenQuestion>, StoreError>>;

    /// The open question with that id.
    fn open_question(&self, id: &str) -> BoxFuture<'_, Result<Option<OpenQuestion>, StoreError>>;

    /// Lets any process claim a session again in which a run waits for an answer, if the claim is
    /// the current one.
    fn release_claim(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Records that a process continues an unfinished run, if the claim is the current one.
    fn adopt_run(
        &self,
        run: &RunAddress,
        claim: ClaimEpoch,
        node: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// What runs have used, oldest first; at most [`RunUsageQuery::PAGE_MAX`] of them. It is derived
    /// from the ledger in the same transactions, and stays when a session is deleted.
    fn run_usages(&self, query: RunUsageQuery) -> BoxFuture<'_, Result<Vec<RunUsage>, StoreError>>;

    /// What all selected runs have used together, except one of them. Budgets need it before each
    /// request to a model, so that it must not take longer with each run of the day.
    fn usage_total(
        &self,
        query: RunUsageQuery,
        except: Option<RunAddress>,
    ) -> BoxFuture<'_, Result<UsageTotal, StoreError>>;

    /// The points before which a session can be rewound, oldest first: its prompts and its rewinds.
    fn rewind_points(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<RewindPoint>, StoreError>>;

    /// Stores a rewind, in one transaction that would survive a power cut: the entry about it, which
    /// is [`EventKind::Rewound`], and if there is a position, a new transcript with the messages
    /// before it. The old one is kept. Fails unless the claim is the current one.
    fn rewind(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        position: Option<TranscriptPosition>,
        entry: NewEvent,
    ) -> BoxFuture<'_, Result<Event, StoreError>>;

    /// The grants of a session.
    fn grants(&self, session: &SessionId) -> BoxFuture<'_, Result<Vec<GrantRecord>, StoreError>>;

    /// Replaces the grants of a session.
    fn set_grants(
        &self,
        session: &SessionId,
        grants: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Changes the grants of a session by the difference between two sets, in one transaction.
    /// What other processes stored meanwhile stays.
    fn change_grants(
        &self,
        session: &SessionId,
        before: Vec<GrantRecord>,
        after: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>>;

    /// A number that is another one after another process has written; `None` if no other process
    /// can write, or if that is not known. It may change without a reason.
    fn foreign_mark(&self) -> BoxFuture<'_, Option<i64>> {
        Box::pin(std::future::ready(None))
    }

    /// Checks that the store can write.
    fn check_ready(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Number of sessions.
    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Size of a session in bytes: its entries and the messages of all its transcripts, as stored.
    fn size(&self, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>>;
}

/// A stored session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Id of the session; never reused, not even for the same key.
    pub id: SessionId,
    /// The key that clients address it by; one session per owner and key.
    pub key: SessionKey,
    /// Label chosen by the user; unique among the sessions of its owner.
    pub label: Option<String>,
    /// Short description of its topic.
    pub title: Option<String>,
    /// Name of its agent; initially the agent of the key.
    pub agent: String,
    /// Model that overrides the agent's.
    pub model: Option<String>,
    /// Permission mode that overrides the agent's.
    pub mode: Option<PermissionMode>,
    /// Thinking effort that overrides the agent's.
    pub thinking: Option<String>,
    /// Working folder; the gateway's own if `None`.
    pub cwd: Option<PathBuf>,
    /// Owner, by the name of their token.
    pub owner: String,
    /// Where its tools run: with the gateway, or with a client.
    pub tool_host: ToolHostLocation,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_ms: i64,
    /// Time of the last activity: of its creation, of its newest entry or of a use without one
    /// ([`SessionPatch::used_ms`]), in milliseconds since the Unix epoch.
    pub updated_ms: i64,
    /// Number of its current transcript, from 1.
    pub transcript: u64,
    /// Total token usage.
    pub usage: TokenUsage,
    /// Tokens that the next request would send, if known.
    pub context_tokens: Option<u64>,
    /// The session that started it, if it is one of a sub-agent.
    pub parent: Option<SessionId>,
}

impl SessionRecord {
    /// Owner and key of the session.
    pub fn address(&self) -> SessionAddress {
        SessionAddress::new(&self.owner, self.key.clone())
    }
}

/// Where the tools of a session run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "at")]
pub enum ToolHostLocation {
    /// On the gateway's machine, executed by the gateway itself.
    Gateway,
    /// At a client; the gateway never executes calls for it.
    Client {
        /// Name of the client.
        name: String,
    },
}

/// A session to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewSession {
    /// Its key; an existing session of the owner with that key is returned unchanged.
    pub key: SessionKey,
    /// Label chosen by the user.
    pub label: Option<String>,
    /// Working folder.
    pub cwd: Option<PathBuf>,
    /// Selected model.
    pub model: Option<String>,
    /// Selected permission mode.
    pub mode: Option<PermissionMode>,
    /// Owner that creates it.
    pub owner: String,
    /// Maximum number of sessions of the owner, including this one and without those of sub-agents; for
    /// that of a sub-agent, of those that its parent has started.
    pub owned_max: u64,
    /// Where its tools run.
    pub tool_host: ToolHostLocation,
    /// The session that starts it, if it is one of a sub-agent.
    pub parent: Option<SessionId>,
}

/// Up to where a session is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkPoint {
    /// All of it. The claim is held, so that no run is in the middle.
    End(ClaimEpoch),
    /// Without its unfinished runs: no message and no ledger entry of them is copied.
    LastCompleted,
    /// Before an entry, with the messages before a position.
    Before {
        /// Sequence number of the first entry that is not copied.
        seq: u64,
        /// The messages that are copied.
        position: TranscriptPosition,
    },
}

/// A place in the transcripts of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TranscriptPosition {
    /// Number of the transcript.
    pub transcript: u64,
    /// Number of its messages before the place.
    pub messages: u64,
}

/// A point before which a session can be rewound or copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewindPoint {
    /// Sequence number of the entry that it is before.
    pub seq: u64,
    /// Time of that entry, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// The entry.
    pub kind: RewindPointKind,
    /// Where the transcript was. Unknown for a prompt that waits or never ran, and in a copy if the
    /// copy does not have that transcript.
    pub position: Option<TranscriptPosition>,
}

impl RewindPoint {
    /// Most characters of a prompt that are stored with its point.
    pub const WORDS_CHARS_MAX: usize = 200;
}

/// What a rewind point is before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RewindPointKind {
    /// A prompt.
    Prompt {
        /// Its number in the session, from 1.
        number: u64,
        /// Its first words, in one line.
        words: String,
    },
    /// A rewind.
    Rewind {
        /// Its id.
        id: String,
        /// The entry before which it left the conversation; `None` if it rewound only files.
        before: Option<u64>,
        /// What it took back.
        scope: RewindScope,
    },
}

/// A copy of a session to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFork {
    /// Its id, which no session has.
    pub id: SessionId,
    /// Its key, which no session of the owner may have.
    pub key: SessionKey,
    /// Short description of its topic.
    pub title: Option<String>,
    /// Maximum number of sessions of the owner, including this one.
    pub owned_max: u64,
}

/// Changes to a session: `None` keeps a field, `Some(None)` clears it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPatch {
    /// Label; refused if another session of the owner has it.
    pub label: Option<Option<String>>,
    /// Short description of its topic.
    pub title: Option<Option<String>>,
    /// Name of its agent, which cannot be cleared.
    pub agent: Option<String>,
    /// The model to use instead of the agent's.
    pub model: Option<Option<String>>,
    /// The permission mode to use instead of the agent's.
    pub mode: Option<Option<PermissionMode>>,
    /// Thinking effort that overrides the agent's.
    pub thinking: Option<Option<String>>,
    /// Working folder.
    pub cwd: Option<Option<PathBuf>>,
    /// Where its tools run.
    pub tool_host: Option<ToolHostLocation>,
    /// Tokens that the next request would send.
    pub context_tokens: Option<u64>,
    /// Time of a use that leaves no entry, such as that of a client that hosts the tools, in
    /// milliseconds since the Unix epoch. It counts as activity if it is later than the last one.
    pub used_ms: Option<i64>,
}

/// Selects sessions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionQuery {
    /// Maximum number of sessions, at most [`SessionQuery::LIMIT_MAX`]; 100 if `None`.
    pub limit: Option<usize>,
    /// Number of matching sessions to skip.
    pub offset: usize,
    /// Text to find in key, label or title, ignoring case. A text of more than
    /// [`SessionQuery::SEARCH_CHARS_MAX`] characters matches nothing.
    pub search: Option<String>,
    /// Exactly this label.
    pub label: Option<String>,
    /// Only sessions of the agent with exactly this name.
    pub agent: Option<String>,
    /// Only sessions that this owner opened, by token name.
    pub owner: Option<String>,
    /// Only sessions active since this time, in milliseconds since the Unix epoch.
    pub updated_since_ms: Option<i64>,
    /// Only sessions with this working folder.
    pub cwd: Option<PathBuf>,
    /// Only sessions of sub-agents that this session started. Without it, none of sub-agents.
    pub parent: Option<SessionId>,
}

impl SessionQuery {
    /// Maximum number of sessions per page.
    pub const LIMIT_MAX: usize = 1000;
    /// Maximum length of a search text, in characters.
    pub const SEARCH_CHARS_MAX: usize = 1000;

    /// How many matching sessions the page covers.
    pub fn page_size(&self) -> usize {
        self.limit.unwrap_or(100).min(Self::LIMIT_MAX)
    }

    /// Where the next page begins, if there is one. Sessions that cannot be read are in no page, but
    /// count, so that no other one is in two pages. An empty page is the last one.
    pub fn next_offset(&self, total: u64) -> Option<u64> {
        let next = self.offset.saturating_add(self.page_size()) as u64;
        (next < total && self.page_size() > 0).then_some(next)
    }
}

/// A page of sessions and the total number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionPage {
    /// The sessions of this page, latest activity first. Those that cannot be read are missing.
    pub sessions: Vec<SessionRecord>,
    /// Total number of matching sessions.
    pub total: u64,
}

/// Selects idle sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleSessionQuery {
    /// Only sessions of this owner.
    pub owner: Option<String>,
    /// Only sessions whose last activity was before this time, in milliseconds since the Unix epoch.
    pub updated_before_ms: i64,
    /// Maximum number of sessions.
    pub limit: usize,
}

/// A session that nothing happens in.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleSession {
    /// Its id.
    pub id: SessionId,
    /// Its owner and key.
    pub address: SessionAddress,
    /// Time of the last activity, in milliseconds since the Unix epoch.
    pub updated_ms: i64,
    /// Its size, as [`Store::size`] counts it.
    pub bytes: u64,
    /// Number of its claim.
    pub claim: ClaimEpoch,
}

/// A deleted session of which something is still stored, because it is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnremovedSession {
    /// The owner it had, as far as that can be read.
    pub owner: String,
    /// The key it had, as far as that can be read.
    pub key: String,
    /// What is damaged and what to do.
    pub problem: String,
}

/// A session whose id, owner or key cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnnamedSession {
    /// Number of its row in the store.
    pub row: i64,
    /// Its owner, as far as that can be read.
    pub owner: String,
    /// Its key, as far as that can be read.
    pub key: String,
}

impl UnnamedSession {
    /// Maximum number of sessions that are listed.
    pub const LIST_MAX: usize = 100;
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreUsage {
    /// Number of sessions.
    pub sessions: u64,
    /// Size of the store in bytes, without free space.
    pub bytes: u64,
    /// Free space that the store keeps for new content, in bytes.
    pub free_bytes: u64,
}

/// How much an owner has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerUsage {
    /// The owner, by the name of their token.
    pub owner: String,
    /// Number of their sessions.
    pub sessions: u64,
}

/// How large the sessions of an owner are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerSize {
    /// The owner, by the name of their token.
    pub owner: String,
    /// Their size in bytes, with those of sub-agents.
    pub bytes: u64,
}

impl OwnerSize {
    /// Maximum number of owners that are listed.
    pub const LIST_MAX: usize = 10_000;
}

impl OwnerUsage {
    /// Maximum number of owners that are listed.
    pub const LIST_MAX: usize = 100;

    /// Number of sessions from which an owner with that limit is near it: nine tenths.
    pub fn near(sessions_max: u64) -> u64 {
        sessions_max.saturating_sub(sessions_max / 10)
    }
}

/// Limit of one ledger read. Clients influence the size of entries, so reads on behalf of a client
/// limit the bytes too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LedgerReadLimit {
    /// Maximum number of entries.
    pub entries: usize,
    /// Maximum size in bytes of JSON. One entry is always returned whatever its size; otherwise a
    /// reader could not get past it.
    pub bytes: usize,
}

impl LedgerReadLimit {
    /// A limit on the number of entries only.
    pub const fn with_entries(entries: usize) -> Self {
        Self { entries, bytes: usize::MAX }
    }

    /// How many of these sizes fit, in order.
    pub fn count_fitting(self, weights: impl IntoIterator<Item = usize>) -> usize {
        let mut bytes = 0_usize;
        let fits = |(at, weight): &(usize, usize)| {
            bytes = bytes.saturating_add(*weight);
            *at == 0 || bytes <= self.bytes
        };
        weights.into_iter().take(self.entries).enumerate().take_while(fits).count()
    }
}

/// The stored grants after a change: grants that were dropped between `before` and `after` are
/// removed, and an added one replaces an answer about the same scope.
pub fn merge_grants(
    mut stored: Vec<GrantRecord>,
    before: &[GrantRecord],
    after: &[GrantRecord],
) -> Vec<GrantRecord> {
    let dropped = |grant: &GrantRecord| before.contains(grant) && !after.contains(grant);
    let added: Vec<&GrantRecord> = after.iter().filter(|grant| !before.contains(grant)).collect();
    stored.retain(|grant| !dropped(grant) && !added.iter().any(|added| added.grant == grant.grant));
    stored.extend(added.into_iter().cloned());
    stored
}

/// An entry without a sequence number.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// The run it belongs to.
    pub run: Option<RunId>,
    /// Time, in milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// Kind and data of the entry.
    pub kind: EventKind,
}

impl NewEvent {
    /// What a rewind point says of the rewind that the entry is about.
    pub fn rewind(&self) -> Option<RewindPointKind> {
        match &self.kind {
            EventKind::Rewound { rewind, before, scope, .. } => Some(RewindPointKind::Rewind {
                id: rewind.clone(),
                before: scope.has_conversation().then_some(*before),
                scope: *scope,
            }),
            _ => None,
        }
    }

    /// The error for an entry that is not about a rewind.
    pub fn not_a_rewind() -> StoreError {
        let why = "the entry is not about a rewind".to_owned();
        StoreError::Broken { verb: "rewind a session", why }
    }
}

/// The messages of a conversation as sent to the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transcript {
    /// Its number within the session, from 1.
    pub number: u64,
    /// Its messages, oldest first.
    pub messages: Vec<ModelMessage>,
}

impl Transcript {
    /// The place after its last message.
    pub(crate) fn end(&self) -> TranscriptPosition {
        TranscriptPosition { transcript: self.number, messages: self.messages.len() as u64 }
    }
}

/// Why a transcript was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TranscriptStart {
    /// The session is new.
    Opened,
    /// The session was reset.
    Reset,
    /// The previous transcript was compacted.
    Compacted,
    /// The conversation was rewound.
    Rewound,
}

/// Names a run. Its id is the idempotency key that a client chose, and unique among the runs of an
/// owner only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunAddress {
    /// Id of the session that the run belongs to.
    pub session: SessionId,
    /// Id of the run.
    pub run: RunId,
}

impl RunAddress {
    /// The address of a run of a session.
    pub fn new(session: &SessionId, run: &RunId) -> Self {
        Self { session: session.clone(), run: run.clone() }
    }
}

/// A run to be started.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// Its id, which serves as the idempotency key of the prompt; see [`RunAddress`].
    pub id: RunId,
    /// Id of the session that the run belongs to.
    pub session: SessionId,
    /// Name of the process that executes it.
    pub node: String,
    /// Start time, in milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// What its prompt set for it.
    pub options: RunOptions,
    /// Its first entries, written in the same transaction.
    pub first: Vec<NewEvent>,
}

/// What a prompt set for its run, kept so that the run can continue in another process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Thinking effort, by its word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Time after which the run is stopped, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How much the run may spend.
    pub budget: Budget,
    /// Schema that its answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<serde_json::Value>,
    /// Folders that its sender may use; unknown if `None`. Only kept if another machine may continue
    /// the run, like what follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folders: Option<RunFolders>,
    /// Whether a leading `/` is text for the model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_verbatim: bool,
    /// Whether its sender may answer approvals.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub can_approve: bool,
}

/// Folders that the sender of a prompt may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunFolders {
    /// Any.
    Anywhere,
    /// These and what is below them.
    Below(Vec<String>),
}

/// Result of beginning a run.
#[expect(clippy::large_enum_variant, reason = "few at a time, each for a moment")]
#[derive(Clone, Debug, PartialEq)]
pub enum BeginRunOutcome {
    /// The run was created.
    Started {
        /// Its first entries.
        events: Vec<Event>,
        /// The claim that its writes need.
        claim: ClaimEpoch,
    },
    /// The run already existed.
    AlreadyStarted(RunRecord),
    /// Another process holds the session.
    Held(SessionClaim),
}

/// Number of a session's claim. It grows whenever the session goes to another process. Every write
/// of a run carries the number of its process, so a process that was taken for dead cannot write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimEpoch(pub u64);

/// The process that holds a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionClaim {
    /// Name of the process.
    pub node: String,
    /// Number of its claim.
    pub epoch: ClaimEpoch,
}

/// Result of claiming a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The session is held by the process that asked.
    Claimed(ClaimEpoch),
    /// Another process has unfinished runs in it.
    Held(SessionClaim),
}

/// A stored run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its id, as given when the run began.
    pub id: RunId,
    /// Id of the session that the run belongs to.
    pub session: SessionId,
    /// Name of the process that executes it.
    pub node: String,
    /// Start time, in milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// End time, in milliseconds since the Unix epoch.
    pub ended_ms: Option<i64>,
    /// Its outcome; `None` while it is active.
    pub end: Option<RunOutcome>,
    /// Token usage.
    pub usage: TokenUsage,
    /// What its prompt set for it.
    pub options: RunOptions,
    /// Whether it has an open question.
    pub has_open_question: bool,
}

impl RunRecord {
    /// The session and the id of the run.
    pub fn address(&self) -> RunAddress {
        RunAddress::new(&self.session, &self.id)
    }
}

/// Why a store operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another session of the owner has that label.
    #[error(
        "the label `{label}` belongs to session `{key}`; choose another, or remove it there first"
    )]
    LabelTaken {
        /// The requested label.
        label: String,
        /// The session that has it.
        key: SessionKey,
    },
    /// The owner has a session with that key.
    #[error("there is a session `{0}` already; choose another key")]
    KeyTaken(SessionKey),
    /// The owner has reached the maximum number of sessions.
    #[error("there are {0} sessions of yours, and no more are kept; remove some first")]
    TooMany(u64),
    /// The session does not exist.
    #[error("there is no session `{0}`")]
    NoSession(String),
    /// Another process has taken the session over.
    #[error("another process of zero has taken over session `{0}`; send the prompt again")]
    ClaimLost(String),
    /// The run has ended, or is unknown.
    #[error("run `{0}` has ended or was never begun, so nothing can be added to it")]
    RunNotOpen(String),
    /// The session has no such transcript.
    #[error("session `{session}` has no transcript {number}")]
    NoTranscript {
        /// Id of the session that was read.
        session: String,
        /// The requested transcript number.
        number: u64,
    },
    /// The storage cannot be read or written.
    #[error("the session store cannot {verb}: {why}")]
    Broken {
        /// The operation, as a verb.
        verb: &'static str,
        /// The cause.
        why: String,
    },
    /// The disk of the storage is full.
    #[error("the session store cannot {verb}: {why}")]
    NoSpace {
        /// The operation, as a verb.
        verb: &'static str,
        /// Which disk, and what to do.
        why: String,
    },
    /// Part of what is stored cannot be read. The rest can be used.
    #[error("the session store cannot {verb}: {why}")]
    Damaged {
        /// The operation, as a verb.
        verb: &'static str,
        /// What is damaged and what to do.
        why: String,
    },
    /// The write queue is full, or the file is locked.
    #[error("the session store is too busy; try again in a moment")]
    Busy,
}

impl StoreError {
    /// Whether the same request may succeed later, although nothing is repaired.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Broken { .. } | Self::Busy)
    }

    /// Why the tools of a session cannot be found: a run waits for a store that does not answer.
    pub(crate) fn to_backend_error(&self) -> ToolBackendError {
        match self.is_passing() {
            true => ToolBackendError::StoreUnavailable(self.to_string()),
            false => ToolBackendError::Workspace(self.to_string()),
        }
    }
}
