//! Deletes sessions in pieces, so that no other write waits for a large one.
//!
//! The first transaction marks the session: from then on nobody finds it, and its key and label are
//! free. The following ones remove its rows, a bounded number of bytes each. Rows that a killed
//! process left behind are removed by the next one.

use rusqlite::{Connection, OptionalExtension};

use super::database_error::DatabaseError;

/// Maximum number of bytes that one piece removes; a larger entry is a piece of its own. Deleted
/// content is overwritten, so a piece writes as much as it removes.
const PIECE_BYTES: i64 = 256 * 1024;
/// Maximum number of rows that one piece removes.
const PIECE_ROWS: i64 = 512;
/// Pages that one piece gives back to the file system.
const VACUUM_PAGES: i64 = 64;
/// Free pages that the file keeps for new content.
const FREE_PAGES_KEPT: i64 = 256;

/// Begins the deletion of a session.
pub(super) fn mark(db: &Connection, session: i64) -> Result<(), DatabaseError> {
    db.prepare_cached("UPDATE sessions SET removed = 1 WHERE row = ?")?.execute([session])?;
    Ok(())
}

/// Removes a piece of a session whose deletion has begun; `false` if there is none.
pub(super) fn remove_piece(db: &Connection) -> Result<bool, DatabaseError> {
    let mut find = db.prepare_cached("SELECT row FROM sessions WHERE removed = 1 LIMIT 1")?;
    let found: Option<i64> = find.query_row([], |row| row.get(0)).optional()?;
    let Some(session) = found else { return Ok(false) };
    let is_empty = !remove_runs(db, session)?
        && !remove_messages(db, session)?
        && !remove_events(db, session)?;
    if is_empty {
        // What is left is small; it goes by the foreign keys.
        db.prepare_cached("DELETE FROM sessions WHERE row = ?")?.execute([session])?;
    }
    Ok(true)
}

fn remove_runs(db: &Connection, session: i64) -> Result<bool, DatabaseError> {
    let mut delete = db.prepare_cached(
        "DELETE FROM runs WHERE row IN (SELECT row FROM runs WHERE session = ? LIMIT ?)",
    )?;
    Ok(delete.execute((session, PIECE_ROWS))? > 0)
}

fn remove_messages(db: &Connection, session: i64) -> Result<bool, DatabaseError> {
    let mut sizes = db.prepare_cached(
        "SELECT octet_length(body), transcript, position FROM messages WHERE session = ?
         ORDER BY transcript, position LIMIT ?",
    )?;
    let mut rows = sizes.query((session, PIECE_ROWS))?;
    let (mut bytes, mut last) = (0_i64, None);
    while let Some(row) = rows.next()? {
        last = Some((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        bytes = bytes.saturating_add(row.get(0)?);
        if bytes >= PIECE_BYTES {
            break;
        }
    }
    let Some((transcript, position)) = last else { return Ok(false) };
    db.prepare_cached(
        "DELETE FROM messages WHERE session = ? AND (transcript, position) <= (?, ?)",
    )?
    .execute((session, transcript, position))?;
    Ok(true)
}

fn remove_events(db: &Connection, session: i64) -> Result<bool, DatabaseError> {
    let mut sizes = db.prepare_cached(
        "SELECT octet_length(body), seq FROM events WHERE session = ? ORDER BY seq LIMIT ?",
    )?;
    let mut rows = sizes.query((session, PIECE_ROWS))?;
    let (mut bytes, mut last) = (0_i64, None);
    while let Some(row) = rows.next()? {
        last = Some(row.get::<_, i64>(1)?);
        bytes = bytes.saturating_add(row.get(0)?);
        if bytes >= PIECE_BYTES {
            break;
        }
    }
    let Some(last) = last else { return Ok(false) };
    db.prepare_cached("DELETE FROM events WHERE session = ? AND seq <= ?")?
        .execute((session, last))?;
    Ok(true)
}

/// Gives some free pages back to the file system; `false` if few are free. A file that was made
/// before zero set `auto_vacuum` keeps them for new content.
pub(super) fn vacuum_piece(db: &Connection) -> Result<bool, DatabaseError> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    const INCREMENTAL: i64 = 2;
    if number("auto_vacuum")? != INCREMENTAL || number("freelist_count")? <= FREE_PAGES_KEPT {
        return Ok(false);
    }
    // SQLite frees a page with each step of the statement.
    let mut vacuum = db.prepare_cached(&format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"))?;
    let mut pages = vacuum.query([])?;
    while pages.next()?.is_some() {}
    Ok(true)
}
