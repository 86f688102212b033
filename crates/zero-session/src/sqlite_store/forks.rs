//! Copies of sessions.

use rusqlite::{Connection, OptionalExtension};
use zero_core::SessionId;

use super::claims;
use super::database_error::DatabaseError;
use super::{ledger, sessions};
use crate::key::SessionAddress;
use crate::session_copy::{MessageRange, end_of_entries, new_session, settings_patch};
use crate::store::{ForkPoint, NewFork, SessionRecord, StoreError};
use crate::stored_form::{EncodedEvents, to_sql_int};

/// Copies a session: its settings, its current transcript, and its ledger since the last reset.
pub(super) fn fork(
    db: &Connection,
    source: &SessionId,
    point: ForkPoint,
    fork: &NewFork,
    last: &EncodedEvents,
    now_ms: i64,
) -> Result<SessionRecord, DatabaseError> {
    let from = match point {
        ForkPoint::End(claim) => claims::check(db, source, claim)?,
        ForkPoint::LastCompleted | ForkPoint::Before { .. } => sessions::find_row(db, source)?,
    };
    let record =
        sessions::find_by_id(db, source)?.ok_or_else(|| sessions::no_session_error(source))?;
    let address = SessionAddress::new(&record.owner, fork.key.clone());
    if sessions::find_by_address(db, &address)?.is_some() {
        return Err(StoreError::KeyTaken(fork.key.clone()).into());
    }
    sessions::create(db, &fork.id, &new_session(&record, fork), now_ms)?;
    let is_at_end = match point {
        ForkPoint::End(_) => true,
        ForkPoint::LastCompleted => !claims::has_unfinished_runs(db, from)?,
        ForkPoint::Before { .. } => false,
    };
    let completed = completed_messages(db, from)?;
    let transcript = to_sql_int(record.transcript);
    let messages = MessageRange::before(point, is_at_end, transcript, completed)?;
    let end_seq = end_of_entries(point);
    let patch = settings_patch(record, fork, is_at_end);
    sessions::patch(db, &address, &patch)?;
    let to = sessions::find_row(db, &fork.id)?;
    let ids = (source.as_str(), fork.id.as_str());
    copy_messages(db, from, to, messages, ids)?;
    copy_entries(db, from, to, end_seq, ids)?;
    copy_rewind_points(db, from, to, end_seq, messages)?;
    ledger::append_in_transaction(db, &fork.id, last)?;
    sessions::find_by_id(db, &fork.id)?.ok_or_else(|| sessions::no_session_error(&fork.id))
}

/// The transcript and the end of the messages before the oldest unfinished run; `None` if an older zero
/// began it.
fn completed_messages(db: &Connection, session: i64) -> Result<Option<(i64, i64)>, DatabaseError> {
    let mut read = db.prepare_cached(
        "SELECT completed_transcript, completed_messages FROM sessions WHERE row = ?",
    )?;
    let (transcript, end): (Option<i64>, Option<i64>) =
        read.query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(transcript.zip(end))
}

/// Copies messages to the first transcript of the copy.
fn copy_messages(
    db: &Connection,
    from: i64,
    to: i64,
    messages: MessageRange,
    (old, new): (&str, &str),
) -> Result<(), DatabaseError> {
    db.prepare_cached(
        "INSERT INTO messages (session, transcript, position, body)
         SELECT ?2, 1, position, replace(body, ?3, ?4) FROM messages
         WHERE session = ?1 AND transcript = ?5 AND position < ?6",
    )?
    .execute((from, to, old, new, messages.transcript, messages.end))?;
    Ok(())
}

/// The last reset before an entry; 0 if there is none.
fn last_reset(db: &Connection, session: i64, end_seq: i64) -> Result<i64, DatabaseError> {
    let mut find = db.prepare_cached(
        "SELECT seq FROM events WHERE session = ? AND seq < ? AND body LIKE '%\"type\":\"reset\"%'
             AND json_valid(body) AND json_extract(body, '$.type') = 'reset'
         ORDER BY seq DESC LIMIT 1",
    )?;
    Ok(find.query_row((session, end_seq), |row| row.get(0)).optional()?.unwrap_or(0))
}

/// Copies the rewind points of the copied entries. The copy has one transcript, so that only those in
/// it keep their position.
fn copy_rewind_points(
    db: &Connection,
    from: i64,
    to: i64,
    end_seq: i64,
    messages: MessageRange,
) -> Result<(), DatabaseError> {
    let reset = last_reset(db, from, end_seq)?;
    db.prepare_cached(
        "WITH copied AS (
             SELECT seq, row_number() OVER (ORDER BY seq) AS new_seq FROM events
             WHERE session = ?1 AND seq > ?3 AND seq < ?4 AND (run IS NULL OR run NOT IN
                 (SELECT id FROM runs WHERE runs.session = ?1 AND runs.end IS NULL)))
         INSERT INTO rewind_points (session, seq, time_ms, words, rewind, before, scope,
             transcript, messages)
         SELECT ?2, copied.new_seq, time_ms, words, rewind,
             (SELECT new_seq FROM copied WHERE copied.seq = points.before), scope,
             CASE WHEN transcript = ?5 AND messages < ?6 THEN 1 END,
             CASE WHEN transcript = ?5 AND messages < ?6 THEN messages END
         FROM rewind_points AS points JOIN copied ON copied.seq = points.seq
         WHERE points.session = ?1",
    )?
    .execute((from, to, reset, end_seq, messages.transcript, messages.end))?;
    Ok(())
}

fn copy_entries(
    db: &Connection,
    from: i64,
    to: i64,
    end_seq: i64,
    (old, new): (&str, &str),
) -> Result<(), DatabaseError> {
    let reset = last_reset(db, from, end_seq)?;
    db.prepare_cached(
        "INSERT INTO events (session, seq, run, time_ms, body)
         SELECT ?2, row_number() OVER (ORDER BY seq), run, time_ms, replace(body, ?4, ?5)
         FROM events WHERE session = ?1 AND seq > ?3 AND seq < ?6 AND (run IS NULL OR run NOT IN
             (SELECT id FROM runs WHERE runs.session = ?1 AND runs.end IS NULL))",
    )?
    .execute((from, to, reset, old, new, end_seq))?;
    db.prepare_cached(
        "UPDATE sessions SET
             last_seq = (SELECT coalesce(max(seq), 0) FROM events WHERE session = ?1),
             bytes = (SELECT coalesce(sum(octet_length(body)), 0) FROM events WHERE session = ?1)
                 + (SELECT coalesce(sum(octet_length(body)), 0) FROM messages WHERE session = ?1)
         WHERE row = ?1",
    )?
    .execute([to])?;
    Ok(())
}
