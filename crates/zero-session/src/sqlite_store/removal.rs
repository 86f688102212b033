//! Deletes sessions in pieces, so that no other write waits for a large one.
//!
//! The first transaction marks the session: from then on it cannot be found, and its key and label are
//! free. The following ones remove its rows, each for a few milliseconds. Rows that a killed process
//! left behind are removed by the next one. A session whose rows are damaged stays behind alone.

use std::time::{Duration, Instant};

use rusqlite::{Connection, OptionalExtension};

use super::database_error::DatabaseError;
use super::sessions::{kept_ancestors_sql, readable_text};
use crate::store::IdleSession;
use crate::stored_form::to_sql_int;

/// How long one piece removes rows before it is committed, and others write. A step that has begun
/// is completed.
const PIECE_TIME: Duration = Duration::from_millis(4);
/// Maximum number of bytes that one piece removes; a larger entry is a piece of its own. Deleted
/// content is overwritten, so a piece writes as much as it removes.
const PIECE_BYTES: i64 = 256 * 1024;
/// Maximum number of bytes and rows that one step removes; the time is looked at between steps.
const STEP_BYTES: i64 = 64 * 1024;
const STEP_ROWS: i64 = 64;
/// Pages that one piece gives back to the file system at most.
const VACUUM_PAGES: u32 = 64;
/// Free pages that the file keeps for new content.
const FREE_PAGES_KEPT: i64 = 256;
/// Sessions whose deletion has begun that are listed at once.
const LIST_MAX: i64 = 512;

/// Begins the deletion of a session.
pub(super) fn mark(db: &Connection, session: i64) -> Result<(), DatabaseError> {
    db.prepare_cached("UPDATE sessions SET removed = 1 WHERE row = ?")?.execute([session])?;
    Ok(())
}

/// Begins the deletion of an idle session, unless anything has happened in it since it was listed, or
/// the session that started it is to be kept.
pub(super) fn mark_idle(db: &Connection, listed: &IdleSession) -> Result<bool, DatabaseError> {
    let mut mark = db.prepare_cached(&format!(
        "UPDATE sessions SET removed = 1
         WHERE row IN (SELECT row FROM live_sessions
             WHERE id = ? AND label IS NULL AND updated_ms = ? AND epoch = ?
                 AND NOT EXISTS (SELECT 1 FROM runs
                     WHERE runs.session = live_sessions.row AND runs.end IS NULL)
                 AND NOT EXISTS ({}))",
        kept_ancestors_sql()
    ))?;
    let claim = to_sql_int(listed.claim.0);
    Ok(mark.execute((listed.id.as_str(), listed.updated_ms, claim))? > 0)
}

/// Begins the deletion of a session that can only be found by its owner and key.
pub(super) fn mark_by_key(db: &Connection, owner: &str, key: &str) -> Result<bool, DatabaseError> {
    let sql = "UPDATE sessions SET removed = 1 WHERE owner = ? AND key = ? AND removed = 0";
    Ok(db.prepare_cached(sql)?.execute((owner, key))? > 0)
}

/// Rows of the sessions whose deletion has begun, after a row, in order; all of them if there are
/// fewer than [`LIST_MAX`].
pub(super) fn list(db: &Connection, after: i64) -> Result<Vec<i64>, DatabaseError> {
    let mut list = db.prepare_cached(
        "SELECT row FROM sessions WHERE removed = 1 AND row > ? ORDER BY row LIMIT ?",
    )?;
    let rows = list.query_map((after, LIST_MAX), |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Owner and key of a session, as far as they can be read.
pub(super) fn name(db: &Connection, session: i64) -> Result<(String, String), DatabaseError> {
    let mut find = db.prepare_cached("SELECT owner, key FROM sessions WHERE row = ?")?;
    let found = find.query_row([session], |row| {
        Ok((readable_text(row.get_ref(0)?), readable_text(row.get_ref(1)?)))
    });
    Ok(found.optional()?.unwrap_or_default())
}

/// What one piece of a deletion did.
pub(super) struct RemovedPiece {
    /// How much of [`PIECE_BYTES`] it removed; more than one for a large entry.
    pub(super) weight: u32,
    /// Whether something is left.
    pub(super) has_more: bool,
}

impl RemovedPiece {
    fn new(bytes: i64, has_more: bool) -> Self {
        let weight = u32::try_from(bytes / PIECE_BYTES).unwrap_or(u32::MAX).max(1);
        Self { weight, has_more }
    }
}

/// Removes a piece of a session whose deletion has begun.
pub(super) fn remove_piece(db: &Connection, session: i64) -> Result<RemovedPiece, DatabaseError> {
    let started_at = Instant::now();
    let mut bytes = 0_i64;
    for rows in [&RUNS, &MESSAGES, &EVENTS] {
        while let Some(removed) = remove_step(db, session, rows)? {
            bytes = bytes.saturating_add(removed);
            if bytes >= PIECE_BYTES || started_at.elapsed() >= PIECE_TIME {
                return Ok(RemovedPiece::new(bytes, true));
            }
        }
    }
    // The remaining rows are few; the foreign keys remove them.
    db.prepare_cached("DELETE FROM sessions WHERE row = ?")?.execute([session])?;
    Ok(RemovedPiece::new(bytes, false))
}

/// The rows of a session in one table, ordered by two columns.
struct SessionRows {
    /// Size and position of each row, in order.
    sizes: &'static str,
    /// Deletes the rows up to a position.
    delete: &'static str,
}

const RUNS: SessionRows = SessionRows {
    sizes: "SELECT 0, 0, row FROM runs WHERE session = ? ORDER BY row LIMIT ?",
    delete: "DELETE FROM runs WHERE session = ? AND ? = 0 AND row <= ?",
};
const MESSAGES: SessionRows = SessionRows {
    sizes: "SELECT octet_length(body), transcript, position FROM messages WHERE session = ?
            ORDER BY transcript, position LIMIT ?",
    delete: "DELETE FROM messages WHERE session = ? AND (transcript, position) <= (?, ?)",
};
const EVENTS: SessionRows = SessionRows {
    sizes: "SELECT octet_length(body), 0, seq FROM events WHERE session = ? ORDER BY seq LIMIT ?",
    delete: "DELETE FROM events WHERE session = ? AND ? = 0 AND seq <= ?",
};

/// Removes the first rows and returns their size; `None` if there are none.
fn remove_step(
    db: &Connection,
    session: i64,
    of: &SessionRows,
) -> Result<Option<i64>, DatabaseError> {
    let mut sizes = db.prepare_cached(of.sizes)?;
    let mut rows = sizes.query((session, STEP_ROWS))?;
    let (mut bytes, mut last) = (0_i64, None);
    while let Some(row) = rows.next()? {
        last = Some((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        bytes = bytes.saturating_add(row.get(0)?);
        if bytes >= STEP_BYTES {
            break;
        }
    }
    let Some((major, minor)) = last else { return Ok(None) };
    drop(rows);
    db.prepare_cached(of.delete)?.execute((session, major, minor))?;
    Ok(Some(bytes))
}

/// Gives some free pages back to the file system; `false` if few are free. A file that was made
/// before zero set `auto_vacuum` keeps them for new content.
pub(super) fn vacuum_piece(db: &Connection) -> Result<bool, DatabaseError> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    const INCREMENTAL: i64 = 2;
    if number("auto_vacuum")? != INCREMENTAL || number("freelist_count")? <= FREE_PAGES_KEPT {
        return Ok(false);
    }
    let started_at = Instant::now();
    let mut vacuum = db.prepare_cached("PRAGMA incremental_vacuum")?;
    let mut pages = vacuum.query([])?;
    // SQLite frees a page with each step of the statement.
    for _ in 0..VACUUM_PAGES {
        if started_at.elapsed() >= PIECE_TIME || pages.next()?.is_none() {
            break;
        }
    }
    Ok(true)
}
