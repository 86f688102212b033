//! Checks a session store for damage, within a time limit.
//!
//! Two kinds of damage: pages that SQLite cannot read, which concern every session with rows on
//! them, and rows whose text zero cannot read, which concern one session. A session whose deletion
//! has begun is checked too: damage keeps it in the file.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, InterruptHandle};

use super::database_error::DatabaseError;
use super::database_file::{self, ConnectionAccess};
use super::sessions::{self, readable_text};
use super::{ledger, runs};
use crate::event::EventKind;
use crate::message::ModelMessage;
use crate::store::{GrantRecord, StoreError};

/// Most problems of pages that are listed.
const PROBLEMS_MAX: usize = 20;
/// Most damaged sessions that are listed.
const SESSIONS_MAX: usize = 100;

const VERB: &str = "check its file";

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreCheck {
    /// Damaged pages, in the words of SQLite.
    pub problems: Vec<String>,
    /// Sessions of which something cannot be read.
    pub sessions: Vec<DamagedSession>,
    /// Whether everything was checked within the time limit.
    pub is_complete: bool,
}

/// A session of which something cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DamagedSession {
    /// Number of its row in the store.
    pub row: i64,
    /// The owner of the session.
    pub owner: String,
    /// The key of the session.
    pub key: String,
    /// Entries of its ledger that cannot be read.
    pub entries: u64,
    /// Messages of its transcripts that cannot be read.
    pub messages: u64,
    /// Runs and grants of it that cannot be read.
    pub runs_and_grants: u64,
    /// Whether its row does not fit its entries or transcripts, so that nothing can be added.
    pub is_inconsistent: bool,
    /// Whether rows of it are on damaged pages.
    pub has_damaged_pages: bool,
    /// Whether its owner or key cannot be read, so that only its row names it.
    pub has_unreadable_name: bool,
    /// Whether its name, settings or usage cannot be read.
    pub has_unreadable_settings: bool,
    /// Whether it is deleted already, and what is left of it cannot be removed.
    pub is_deleted: bool,
}

impl DamagedSession {
    fn is_damaged(&self) -> bool {
        let is_content_damaged = self.entries > 0
            || self.messages > 0
            || self.runs_and_grants > 0
            || self.is_inconsistent;
        // Of a deleted session only pages matter: rows are removed without being read.
        let is_in_use = !self.is_deleted;
        self.has_damaged_pages || is_in_use && (is_content_damaged || self.has_unreadable_settings)
    }
}

/// Checks a file that is already set up. Changes nothing.
pub(super) fn check(path: &Path, time_max: Duration) -> Result<StoreCheck, StoreError> {
    let checked = (|| {
        let db = database_file::connect(path, ConnectionAccess::Read)?;
        let _deadline = Deadline::start(db.get_interrupt_handle(), time_max);
        let mut found = StoreCheck::default();
        let until = Instant::now().checked_add(time_max);
        found.is_complete = match check_all(&db, until, &mut found) {
            Err(error) if is_interrupt(&error) => false,
            is_complete => is_complete?,
        };
        Ok(found)
    })();
    checked.map_err(|error: DatabaseError| error.into_store_error(VERB, path))
}

/// Interrupts the queries of a connection after a time, unless it is dropped before.
struct Deadline {
    _done: mpsc::SyncSender<()>,
}

impl Deadline {
    fn start(queries: InterruptHandle, time_max: Duration) -> Self {
        let (done, waiting) = mpsc::sync_channel::<()>(1);
        std::thread::spawn(move || {
            if waiting.recv_timeout(time_max) == Err(mpsc::RecvTimeoutError::Timeout) {
                queries.interrupt();
                // A query that begins later is interrupted as well.
                while waiting.recv_timeout(Duration::from_millis(1))
                    == Err(mpsc::RecvTimeoutError::Timeout)
                {
                    queries.interrupt();
                }
            }
        });
        Self { _done: done }
    }
}

/// Returns whether everything was checked.
fn check_all(
    db: &Connection,
    until: Option<Instant>,
    found: &mut StoreCheck,
) -> Result<bool, DatabaseError> {
    let mut pages = db.prepare(&format!("PRAGMA quick_check({PROBLEMS_MAX})"))?;
    for problem in pages.query_map([], |row| row.get::<_, String>(0))? {
        match problem.map_err(DatabaseError::from) {
            Ok(problem) if problem == "ok" => {}
            Ok(problem) => found.problems.push(problem),
            Err(error) if error.is_damaged_page() => {
                found.problems.push("the check itself meets a damaged page".to_owned());
                break;
            }
            Err(error) => return Err(error),
        }
    }
    let mut sessions = db.prepare("SELECT * FROM sessions ORDER BY row")?;
    let mut rows = sessions.query([])?;
    loop {
        let row = match rows.next().map_err(DatabaseError::from) {
            // Which sessions follow cannot be read.
            Err(error) if error.is_damaged_page() => {
                found.problems.push("the list of sessions is on damaged pages".to_owned());
                return Ok(true);
            }
            row => row?,
        };
        let Some(row) = row else { return Ok(true) };
        // Many small queries may all end before they are interrupted.
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(false);
        }
        let mut session = DamagedSession {
            row: row.get("row")?,
            has_unreadable_name: row.get_ref("owner")?.as_str().is_err()
                || row
                    .get("key")
                    .map_err(DatabaseError::from)
                    .and_then(sessions::read_key)
                    .is_err(),
            owner: readable_text(row.get_ref("owner")?),
            key: readable_text(row.get_ref("key")?),
            is_deleted: row.get::<_, i64>("removed")? != 0,
            has_unreadable_settings: sessions::read_record(row).is_err(),
            ..DamagedSession::default()
        };
        match check_session(db, session.row, &mut session) {
            Err(error) if error.is_damaged_page() => session.has_damaged_pages = true,
            checked => checked?,
        }
        if session.is_damaged() && found.sessions.len() < SESSIONS_MAX {
            found.sessions.push(session);
        }
    }
}

fn check_session(
    db: &Connection,
    row: i64,
    found: &mut DamagedSession,
) -> Result<(), DatabaseError> {
    let mut entries =
        db.prepare_cached("SELECT body FROM events WHERE session = ? ORDER BY seq")?;
    let mut rows = entries.query([row])?;
    while let Some(row) = rows.next()? {
        let kind = ledger::read_body(row.get_ref(0)?);
        if matches!(kind, EventKind::Opaque(opaque) if opaque.is_damaged()) {
            found.entries += 1;
        }
    }
    let mut messages = db.prepare_cached(
        "SELECT body FROM messages WHERE session = ? ORDER BY transcript, position",
    )?;
    let mut rows = messages.query([row])?;
    while let Some(row) = rows.next()? {
        let body = row.get_ref(0)?.as_str().ok();
        if body.and_then(|body| serde_json::from_str::<ModelMessage>(body).ok()).is_none() {
            found.messages += 1;
        }
    }
    if !found.is_deleted {
        check_runs_and_grants(db, row, found)?;
        found.is_inconsistent = is_inconsistent(db, row)?;
    }
    Ok(())
}

fn check_runs_and_grants(
    db: &Connection,
    row: i64,
    found: &mut DamagedSession,
) -> Result<(), DatabaseError> {
    let mut runs = db.prepare_cached(&format!("{} WHERE runs.session = ?", runs::SELECT))?;
    let mut rows = runs.query([row])?;
    while let Some(row) = rows.next()? {
        found.runs_and_grants += u64::from(runs::read_record(row).is_err());
    }
    let mut grants = db.prepare_cached("SELECT body FROM grants WHERE session = ?")?;
    let mut rows = grants.query([row])?;
    while let Some(row) = rows.next()? {
        let body = row.get_ref(0)?.as_str().ok();
        let is_readable =
            body.is_some_and(|body| serde_json::from_str::<GrantRecord>(body).is_ok());
        found.runs_and_grants += u64::from(!is_readable);
    }
    Ok(())
}

/// Whether the next entry would get a number that is taken, or the transcript is missing that the
/// next message belongs to.
fn is_inconsistent(db: &Connection, row: i64) -> Result<bool, DatabaseError> {
    let mut find = db.prepare_cached(
        "SELECT 1 FROM sessions WHERE row = ?1 AND (
             last_seq < (SELECT coalesce(max(seq), 0) FROM events WHERE session = ?1)
             OR transcript NOT IN (SELECT number FROM transcripts WHERE session = ?1))",
    )?;
    Ok(find.exists([row])?)
}

fn is_interrupt(error: &DatabaseError) -> bool {
    matches!(error, DatabaseError::Sqlite { code: ErrorCode::OperationInterrupted, .. })
}
