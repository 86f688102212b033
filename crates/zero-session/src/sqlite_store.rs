//! A session store in one SQLite file.
//!
//! A single thread writes: it takes all queued writes, commits them as one transaction and only
//! then acknowledges them. Acknowledged writes therefore survive `kill -9`, and many concurrent
//! sessions cost little more than one. Reads use their own connections. Several processes may open
//! the same file.
//!
//! Not guaranteed: the last writes before a power failure. A commit reaches the kernel immediately
//! and the disk a little later.

mod checkpoint;
mod claims;
mod database_error;
mod database_file;
mod forks;
mod integrity;
mod ledger;
mod open_questions;
mod reader_pool;
mod removal;
mod rewind_points;
mod run_usages;
mod runs;
mod schema;
mod sessions;
mod transcripts;
mod transfer;
mod writer_thread;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use zero_core::{RunId, SessionId};
use zero_runtime::clock::now_ms;
use zero_runtime::tool::BoxFuture;

use self::checkpoint::Checkpointer;
use self::database_error::DatabaseError;
pub use self::integrity::{DamagedSession, StoreCheck};
use self::reader_pool::ReaderPool;
use self::writer_thread::{WriteDurability, WriterThread};
use crate::event::{Event, RunOutcome, TokenUsage};
use crate::key::SessionAddress;
use crate::message::ModelMessage;
use crate::open_question::{OpenQuestion, QuestionScope};
use crate::run_usage::{self, RunUsage, RunUsageQuery, UsageTotal};
use crate::store::{
    BeginRunOutcome, ClaimEpoch, ClaimOutcome, ForkPoint, GrantRecord, IdleSession,
    IdleSessionQuery, LedgerReadLimit, NewEvent, NewFork, NewRun, NewSession, OwnerSize,
    OwnerUsage, RewindPoint, RunAddress, RunRecord, SessionPage, SessionPatch, SessionQuery,
    SessionRecord, Store, StoreError, StoreUsage, Transcript, TranscriptPosition, TranscriptStart,
    UnnamedSession, UnremovedSession, merge_grants,
};
use crate::stored_form::{
    EncodedEvents, RewindRow, RunEnd, assign_seqs, encode_messages, prompt_words,
};

/// The next change of a log that was last changed before this has another time: file systems round
/// times, to two seconds at the most.
const SETTLED_AFTER_MS: i64 = 3_000;
/// How long an answer about a log that does not change is used.
const KNOWN_MARK_TIME_MAX: Duration = Duration::from_secs(10);

/// Stores sessions in a SQLite file. Dropping it waits for queued writes and closes the file.
pub struct SqliteStore {
    // Dropped first, so that the writer is the last to close the file and removes its log.
    readers: ReaderPool,
    writer: WriterThread,
    path: Arc<Path>,
    known_mark: Mutex<Option<KnownMark>>,
}

/// An answer of [`Store::foreign_mark`], and the log for which it holds.
#[derive(Clone, Copy)]
struct KnownMark {
    mark: i64,
    stamp: LogStamp,
    read_at: Instant,
}

impl KnownMark {
    /// Not for ever: a writer changes the log before others see what it wrote, and times can be set
    /// back.
    fn holds_for(&self, stamp: Option<LogStamp>) -> bool {
        Some(self.stamp) == stamp && self.read_at.elapsed() < KNOWN_MARK_TIME_MAX
    }
}

/// Which file the write-ahead log is, its size, and the time of its last change in seconds and
/// nanoseconds. Every write changes them, by whatever process.
#[derive(Clone, Copy, PartialEq, Eq)]
struct LogStamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl LogStamp {
    /// `None` if there is no log.
    fn read(database: &Path) -> Option<Self> {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let log = Path::new(&log).symlink_metadata().ok()?;
        Some(Self { inode: log.ino(), bytes: log.len(), changed: (log.mtime(), log.mtime_nsec()) })
    }

    /// Whether a write that is still to come would have another time: the clock of a file system
    /// may be coarse.
    fn is_settled(&self) -> bool {
        now_ms().saturating_sub(self.changed.0.saturating_mul(1_000)) > SETTLED_AFTER_MS
    }
}

impl SqliteStore {
    /// Opens or creates the file, readable by its owner only. Blocks on the disk, so call it before
    /// serving requests.
    ///
    /// A file that is damaged, belongs to another program, or was created by a newer zero is left
    /// unchanged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let opened = database_file::open(path)?;
        let path: Arc<Path> = opened.path.into();
        let readers = ReaderPool::new(Arc::clone(&path));
        let checkpoints = Checkpointer::start(&path, opened.is_new)?;
        let writer = WriterThread::start(opened.writer, Some(checkpoints), Arc::clone(&path))?;
        Ok(Self { readers, writer, path, known_mark: Mutex::default() })
    }

    /// Looks for damage in the file, for at most the given time. Blocks on the disk.
    pub fn check(&self, time_max: Duration) -> Result<StoreCheck, StoreError> {
        integrity::check(&self.path, time_max)
    }

    async fn append_entries(
        &self,
        session: SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
        durability: WriteDurability,
    ) -> Result<Vec<Event>, StoreError> {
        const VERB: &str = "write the ledger";
        let rows = self.map_database_error(VERB, EncodedEvents::from_events(&entries))?;
        let bytes = rows.bytes;
        let append = move |db: &_| ledger::append(db, &session, claim, &rows);
        let first = self.writer.write_with(durability, VERB, bytes, append).await?;
        Ok(assign_seqs(first, entries))
    }

    /// Rewrites the file without free space, and so that the space of later deletions is given back.
    /// Needs about as much free disk space as the file takes. Blocks, and all other users of the
    /// file wait meanwhile.
    pub fn compact(path: &Path) -> Result<(), StoreError> {
        let opened = database_file::open(path)?;
        let vacuum = "PRAGMA auto_vacuum = INCREMENTAL; VACUUM;";
        let done = opened.writer.execute_batch(vacuum).map_err(DatabaseError::from);
        done.map_err(|failure| failure.into_store_error("compact", &opened.path))
    }

    /// Counts a piece of a deletion. The log is moved into the file from time to time; otherwise it
    /// grows until a writer has to do that, and all wait for it.
    async fn note_piece(&self, pieces: &mut u32, weight: u32) -> Result<(), StoreError> {
        *pieces = pieces.saturating_add(weight);
        if *pieces < CHECKPOINT_PIECES {
            return Ok(());
        }
        *pieces = 0;
        let path = Arc::clone(&self.path);
        let moved = tokio::task::spawn_blocking(move || checkpoint::move_log(&path)).await;
        match moved {
            Ok(moved) => self.map_database_error("tidy", moved),
            // The runtime is ending; the next start goes on.
            Err(_) => Err(StoreError::Busy),
        }
    }

    /// Removes the rows of a session whose deletion has begun, in pieces.
    async fn remove_deleted(&self, session: i64, pieces: &mut u32) -> Result<(), StoreError> {
        let remove = move |db: &_| removal::remove_piece(db, session);
        loop {
            let piece = self.writer.write("remove a session", 0, remove).await?;
            self.note_piece(pieces, piece.weight).await?;
            if !piece.has_more {
                return Ok(());
            }
        }
    }

    async fn describe_unremoved(
        &self,
        session: i64,
        problem: String,
    ) -> Result<UnremovedSession, StoreError> {
        let read = move |db: &_| removal::name(db, session);
        let (owner, key) = match self.readers.read("look up a session", read).await {
            Err(StoreError::Damaged { .. }) => Default::default(),
            name => name?,
        };
        tracing::error!(owner, key, problem, "a deleted session is damaged and stays in the file");
        Ok(UnremovedSession { owner, key, problem })
    }

    /// Converts a database error into a store error that names the file.
    fn map_database_error<T, E: Into<DatabaseError>>(
        &self,
        verb: &'static str,
        made: Result<T, E>,
    ) -> Result<T, StoreError> {
        made.map_err(|failure| failure.into().into_store_error(verb, &self.path))
    }
}

/// Number of pieces of a deletion after which the log is moved into the file. Few, since a commit
/// waits for the disk while much of the log is flushed.
const CHECKPOINT_PIECES: u32 = 4;
/// Size charged to the queue for a small change, in bytes, besides its texts.
const SMALL_CHANGE_BYTES: usize = 1024;

impl Store for SqliteStore {
    fn session(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let address = address.clone();
        let find = move |db: &_| sessions::find_by_address(db, &address);
        Box::pin(self.readers.read("look up a session", find))
    }

    fn session_by_id(
        &self,
        id: &SessionId,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let id = id.clone();
        Box::pin(self.readers.read("look up a session", move |db| sessions::find_by_id(db, &id)))
    }

    fn session_id(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<Option<SessionId>, StoreError>> {
        let address = address.clone();
        let find = move |db: &_| sessions::find_id(db, &address);
        Box::pin(self.readers.read("look up a session", find))
    }

    fn create(&self, session: NewSession) -> BoxFuture<'_, Result<SessionRecord, StoreError>> {
        let id = SessionId::from_bits(fastrand::u128(..));
        Box::pin(self.writer.write("make a session", SMALL_CHANGE_BYTES, move |db| {
            sessions::create(db, &id, &session, now_ms())
        }))
    }

    fn fork(
        &self,
        session: &SessionId,
        point: ForkPoint,
        fork: NewFork,
        last: NewEvent,
    ) -> BoxFuture<'_, Result<SessionRecord, StoreError>> {
        const VERB: &str = "copy a session";
        let session = session.clone();
        Box::pin(async move {
            let last = self.map_database_error(VERB, EncodedEvents::from_events(&[last]))?;
            let copy = move |db: &_| forks::fork(db, &session, point, &fork, &last, now_ms());
            self.writer.write_with(WriteDurability::Machine, VERB, SMALL_CHANGE_BYTES, copy).await
        })
    }

    fn list(&self, query: SessionQuery) -> BoxFuture<'_, Result<SessionPage, StoreError>> {
        Box::pin(self.readers.read("list sessions", move |db| sessions::list(db, &query)))
    }

    fn patch(
        &self,
        address: &SessionAddress,
        patch: SessionPatch,
    ) -> BoxFuture<'_, Result<Option<SessionRecord>, StoreError>> {
        let address = address.clone();
        Box::pin(self.writer.write("change a session", SMALL_CHANGE_BYTES, move |db| {
            sessions::patch(db, &address, &patch)
        }))
    }

    fn claim(
        &self,
        session: &SessionId,
        node: &str,
        dead: Option<ClaimEpoch>,
    ) -> BoxFuture<'_, Result<ClaimOutcome, StoreError>> {
        let (session, node) = (session.clone(), node.to_owned());
        Box::pin(self.writer.write("claim a session", SMALL_CHANGE_BYTES, move |db| {
            claims::claim(db, &session, &node, dead)
        }))
    }

    fn delete(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        Box::pin(async move {
            let mark = move |db: &_| removal::mark(db, claims::check(db, &session, claim)?);
            self.writer.write("remove a session", SMALL_CHANGE_BYTES, mark).await?;
            // The session is gone already; its remains are removed at the next deletion.
            if let Err(error) = self.reclaim().await {
                tracing::warn!(%error, "what is left of a deleted session could not be removed");
            }
            Ok(())
        })
    }

    fn delete_idle(&self, session: &IdleSession) -> BoxFuture<'_, Result<bool, StoreError>> {
        let session = session.clone();
        Box::pin(self.writer.write("remove a session", SMALL_CHANGE_BYTES, move |db| {
            removal::mark_idle(db, &session)
        }))
    }

    fn delete_unreadable(
        &self,
        address: &SessionAddress,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let address = address.clone();
        Box::pin(self.writer.write("remove a session", SMALL_CHANGE_BYTES, move |db| {
            match sessions::find_id(db, &address) {
                Ok(_) => Ok(false),
                Err(DatabaseError::InvalidData(_)) => {
                    removal::mark_by_key(db, &address.owner, address.key.as_str())
                }
                Err(error) => Err(error),
            }
        }))
    }

    fn unnamed_sessions(&self) -> BoxFuture<'_, Result<Vec<UnnamedSession>, StoreError>> {
        Box::pin(self.readers.read("list damaged sessions", sessions::list_unnamed))
    }

    fn delete_unnamed(&self, row: i64) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(self.writer.write("remove a session", SMALL_CHANGE_BYTES, move |db| {
            let is_there = sessions::is_unnamed_row(db, row)?;
            if is_there {
                removal::mark(db, row)?;
            }
            Ok(is_there)
        }))
    }

    fn reclaim(&self) -> BoxFuture<'_, Result<Vec<UnremovedSession>, StoreError>> {
        Box::pin(async move {
            let (mut pieces, mut after, mut unremoved) = (0_u32, 0, Vec::new());
            loop {
                let list = move |db: &_| removal::list(db, after);
                let sessions = self.readers.read("list deleted sessions", list).await?;
                let Some(last) = sessions.last() else { break };
                after = *last;
                for session in sessions {
                    match self.remove_deleted(session, &mut pieces).await {
                        // The others are removed nevertheless.
                        Err(StoreError::Damaged { why, .. }) => {
                            unremoved.push(self.describe_unremoved(session, why).await?);
                        }
                        removed => removed?,
                    }
                }
            }
            let kept_ms = i64::from(run_usage::KEPT_DAYS) * 24 * 60 * 60 * 1_000;
            let before_ms = now_ms().saturating_sub(kept_ms);
            while self.writer.write("tidy", 0, move |db| run_usages::expire(db, before_ms)).await? {
                self.note_piece(&mut pieces, 1).await?;
            }
            loop {
                match self.writer.write("shrink", 0, removal::vacuum_piece).await {
                    Ok(true) => self.note_piece(&mut pieces, 1).await?,
                    Ok(false) => break,
                    // The space is used for new content.
                    Err(error @ StoreError::Damaged { .. }) => {
                        tracing::warn!(%error, "free space cannot be given back");
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(unremoved)
        })
    }

    fn idle_sessions(
        &self,
        query: IdleSessionQuery,
    ) -> BoxFuture<'_, Result<Vec<IdleSession>, StoreError>> {
        Box::pin(self.readers.read("list idle sessions", move |db| sessions::list_idle(db, &query)))
    }

    fn usage(&self) -> BoxFuture<'_, Result<StoreUsage, StoreError>> {
        Box::pin(self.readers.read("measure the store", sessions::usage))
    }

    fn large_owners(
        &self,
        sessions_min: u64,
    ) -> BoxFuture<'_, Result<Vec<OwnerUsage>, StoreError>> {
        let list = move |db: &_| sessions::large_owners(db, sessions_min);
        Box::pin(self.readers.read("count sessions", list))
    }

    fn owner_sizes(&self) -> BoxFuture<'_, Result<Vec<OwnerSize>, StoreError>> {
        Box::pin(self.readers.read("measure sessions", sessions::owner_sizes))
    }

    fn append(
        &self,
        session: &SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        Box::pin(self.append_entries(session.clone(), claim, entries, WriteDurability::Process))
    }

    fn append_durable(
        &self,
        session: &SessionId,
        claim: Option<ClaimEpoch>,
        entries: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        Box::pin(self.append_entries(session.clone(), claim, entries, WriteDurability::Machine))
    }

    fn events(
        &self,
        session: &SessionId,
        after: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        let session = session.clone();
        let read = move |db: &_| ledger::read_after(db, &session, after, most);
        Box::pin(self.readers.read_long("read the ledger", read))
    }

    fn last_events(
        &self,
        session: &SessionId,
        before: u64,
        most: LedgerReadLimit,
    ) -> BoxFuture<'_, Result<Vec<Event>, StoreError>> {
        let session = session.clone();
        let read = move |db: &_| ledger::read_before(db, &session, before, most);
        Box::pin(self.readers.read_long("read the ledger", read))
    }

    fn last_seq(&self, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let session = session.clone();
        Box::pin(
            self.readers.read("count ledger entries", move |db| ledger::last_seq(db, &session)),
        )
    }

    fn transcript(
        &self,
        session: &SessionId,
        number: Option<u64>,
    ) -> BoxFuture<'_, Result<Transcript, StoreError>> {
        let session = session.clone();
        Box::pin(
            self.readers
                .read("read a transcript", move |db| transcripts::read(db, &session, number)),
        )
    }

    fn add_messages(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        const VERB: &str = "add to a transcript";
        let session = session.clone();
        Box::pin(async move {
            let (bodies, bytes) = self.map_database_error(VERB, encode_messages(&messages))?;
            let add = move |db: &_| {
                claims::check(db, &session, claim)?;
                transcripts::append(db, &session, &bodies)
            };
            self.writer.write(VERB, bytes, add).await
        })
    }

    fn start_transcript(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        why: TranscriptStart,
        messages: Vec<Arc<ModelMessage>>,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        const VERB: &str = "begin a transcript";
        let session = session.clone();
        Box::pin(async move {
            let (bodies, bytes) = self.map_database_error(VERB, encode_messages(&messages))?;
            let begin = move |db: &_| {
                claims::check(db, &session, claim)?;
                transcripts::start_transcript(db, &session, why, &bodies, now_ms())
            };
            self.writer.write(VERB, bytes, begin).await
        })
    }

    fn begin_run(&self, run: NewRun) -> BoxFuture<'_, Result<BeginRunOutcome, StoreError>> {
        const VERB: &str = "begin a run";
        Box::pin(async move {
            let NewRun { id, session, node, started_ms, options, first } = run;
            let words = prompt_words(&first);
            let rows = self.map_database_error(VERB, EncodedEvents::from_events(&first))?;
            let bytes = rows.bytes;
            let run = runs::RunRow { id, session, node, started_ms, options, words };
            let begin = move |db: &_| runs::begin(db, &run, &rows);
            let insertion = self.writer.write_with(WriteDurability::Machine, VERB, bytes, begin);
            Ok(insertion.await?.into_outcome(first))
        })
    }

    fn end_run(
        &self,
        run: &RunAddress,
        claim: ClaimEpoch,
        end: RunOutcome,
        usage: TokenUsage,
        last: Vec<NewEvent>,
    ) -> BoxFuture<'_, Result<Option<Vec<Event>>, StoreError>> {
        const VERB: &str = "settle a run";
        let run = run.clone();
        Box::pin(async move {
            let rows = self.map_database_error(VERB, EncodedEvents::from_events(&last))?;
            let bytes = rows.bytes;
            let ended_ms = last.last().map_or_else(now_ms, |event| event.time_ms);
            let end = RunEnd { outcome: end, usage, ended_ms };
            let settle = move |db: &_| runs::end(db, &run, claim, &end, &rows);
            let first = self.writer.write(VERB, bytes, settle).await?;
            Ok(first.map(|first| assign_seqs(first, last)))
        })
    }

    fn run(&self, run: &RunAddress) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let run = run.clone();
        Box::pin(self.readers.read("look up a run", move |db| runs::find(db, &run)))
    }

    fn find_run(
        &self,
        owner: Option<&str>,
        run: &RunId,
    ) -> BoxFuture<'_, Result<Option<RunRecord>, StoreError>> {
        let (owner, run) = (owner.map(str::to_owned), run.clone());
        let find = move |db: &Connection| runs::find_by_id(db, owner.as_deref(), &run);
        Box::pin(self.readers.read("look up a run", find))
    }

    fn unfinished_runs(
        &self,
        session: Option<&SessionId>,
    ) -> BoxFuture<'_, Result<Vec<RunRecord>, StoreError>> {
        let session = session.cloned();
        Box::pin(
            self.readers.read("list unfinished runs", move |db| {
                runs::list_unfinished(db, session.as_ref())
            }),
        )
    }

    fn open_questions(
        &self,
        scope: QuestionScope<'_>,
    ) -> BoxFuture<'_, Result<Vec<OpenQuestion>, StoreError>> {
        let (session, owner) = (scope.session().cloned(), scope.owner().map(str::to_owned));
        Box::pin(self.readers.read("list open questions", move |db| {
            open_questions::list(db, session.as_ref(), owner.as_deref())
        }))
    }

    fn open_question(&self, id: &str) -> BoxFuture<'_, Result<Option<OpenQuestion>, StoreError>> {
        let id = id.to_owned();
        Box::pin(self.readers.read("look up a question", move |db| open_questions::find(db, &id)))
    }

    fn release_claim(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        let release = move |db: &_| claims::release(db, &session, claim);
        Box::pin(self.writer.write("release a session", 0, release))
    }

    fn adopt_run(
        &self,
        run: &RunAddress,
        claim: ClaimEpoch,
        node: &str,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let (run, node) = (run.clone(), node.to_owned());
        let adopt = move |db: &_| runs::adopt(db, &run, claim, &node);
        Box::pin(self.writer.write("continue a run", 0, adopt))
    }

    fn run_usages(&self, query: RunUsageQuery) -> BoxFuture<'_, Result<Vec<RunUsage>, StoreError>> {
        Box::pin(self.readers.read("read the usage", move |db| run_usages::list(db, &query)))
    }

    fn usage_total(
        &self,
        query: RunUsageQuery,
        except: Option<RunAddress>,
    ) -> BoxFuture<'_, Result<UsageTotal, StoreError>> {
        let sum = move |db: &Connection| run_usages::sum(db, &query, except.as_ref());
        Box::pin(self.readers.read("sum the usage", sum))
    }

    fn rewind_points(
        &self,
        session: &SessionId,
    ) -> BoxFuture<'_, Result<Vec<RewindPoint>, StoreError>> {
        let session = session.clone();
        let list = move |db: &_| rewind_points::list(db, &session);
        Box::pin(self.readers.read("list prompts", list))
    }

    fn rewind(
        &self,
        session: &SessionId,
        claim: ClaimEpoch,
        position: Option<TranscriptPosition>,
        entry: NewEvent,
    ) -> BoxFuture<'_, Result<Event, StoreError>> {
        const VERB: &str = "rewind a session";
        let session = session.clone();
        Box::pin(async move {
            let rows = self.map_database_error(
                VERB,
                EncodedEvents::from_events(std::slice::from_ref(&entry)),
            )?;
            let kind = entry.rewind().ok_or_else(NewEvent::not_a_rewind)?;
            let row = RewindRow { kind, position, time_ms: entry.time_ms };
            let rewind = move |db: &_| rewind_points::rewind(db, &session, claim, &row, &rows);
            let written =
                self.writer.write_with(WriteDurability::Machine, VERB, SMALL_CHANGE_BYTES, rewind);
            let NewEvent { run, time_ms, kind } = entry;
            Ok(Event { seq: written.await?, run, time_ms, kind })
        })
    }

    fn grants(&self, session: &SessionId) -> BoxFuture<'_, Result<Vec<GrantRecord>, StoreError>> {
        let session = session.clone();
        Box::pin(self.readers.read("read grants", move |db| sessions::grants(db, &session)))
    }

    fn set_grants(
        &self,
        session: &SessionId,
        grants: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        Box::pin(self.writer.write("write grants", SMALL_CHANGE_BYTES, move |db| {
            sessions::set_grants(db, &session, &grants)
        }))
    }

    fn change_grants(
        &self,
        session: &SessionId,
        before: Vec<GrantRecord>,
        after: Vec<GrantRecord>,
    ) -> BoxFuture<'_, Result<(), StoreError>> {
        let session = session.clone();
        Box::pin(self.writer.write("write grants", SMALL_CHANGE_BYTES, move |db| {
            let stored = sessions::grants(db, &session)?;
            sessions::set_grants(db, &session, &merge_grants(stored, &before, &after))
        }))
    }

    fn foreign_mark(&self) -> BoxFuture<'_, Option<i64>> {
        // Does not change by what the connection writes itself, and it writes all of this process.
        let read = |db: &Connection| {
            Ok(db.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0))?)
        };
        Box::pin(async move {
            let stamp = LogStamp::read(&self.path).filter(LogStamp::is_settled);
            let known = *self.known_mark.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = known.filter(|known| known.holds_for(stamp)) {
                return Some(known.mark);
            }
            let mark = self.writer.read_idle(read).await;
            let mut known = self.known_mark.lock().unwrap_or_else(PoisonError::into_inner);
            *known = stamp.zip(mark).map(|(stamp, mark)| KnownMark {
                mark,
                stamp,
                read_at: Instant::now(),
            });
            mark
        })
    }

    fn check_ready(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            self.readers.read("read", |db| sessions::count(db).map(drop)).await?;
            // An empty transaction verifies that the writer runs and gets the lock.
            self.writer.write("write", 0, |_| Ok(())).await
        })
    }

    fn count(&self) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(self.readers.read("count sessions", sessions::count))
    }

    fn size(&self, session: &SessionId) -> BoxFuture<'_, Result<u64, StoreError>> {
        let session = session.clone();
        Box::pin(self.readers.read("measure a session", move |db| sessions::size(db, &session)))
    }
}
