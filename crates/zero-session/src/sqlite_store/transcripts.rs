//! Transcripts: the messages sent to models.

use rusqlite::{Connection, OptionalExtension};
use zero_core::SessionId;

use super::database_error::DatabaseError;
use super::sessions::{from_json, no_session_error};
use crate::message::ModelMessage;
use crate::store::{StoreError, Transcript, TranscriptStart};
use crate::stored_form::{from_sql_int, to_sql_int, transcript_start_word};

/// The messages of a transcript; of the current one if no number is given.
pub(super) fn read(
    db: &Connection,
    session: &SessionId,
    requested_generation: Option<u64>,
) -> Result<Transcript, DatabaseError> {
    let (row, present) = find_current(db, session)?;
    let generation = requested_generation.map_or(present, to_sql_int);
    if !(1..=present).contains(&generation) {
        let number = from_sql_int(generation);
        return Err(StoreError::NoTranscript { session: session.to_string(), number }.into());
    }
    let mut read = db.prepare_cached(
        "SELECT body FROM messages WHERE session = ? AND transcript = ? ORDER BY position",
    )?;
    let mut rows = read.query((row, generation))?;
    let mut messages = Vec::new();
    while let Some(row) = rows.next()? {
        let body = row.get_ref(0)?;
        let body =
            body.as_str().map_err(|error| DatabaseError::invalid_data("a message", error))?;
        let mut message: ModelMessage = from_json("a message", body)?;
        message.shrink_to_fit();
        messages.push(message);
    }
    Ok(Transcript { number: from_sql_int(generation), messages })
}

/// Appends messages to the current transcript.
pub(super) fn append(
    db: &Connection,
    session: &SessionId,
    bodies: &[String],
) -> Result<(), DatabaseError> {
    let (row, transcript) = find_current(db, session)?;
    append_to(db, row, transcript, bodies)
}

/// Starts a new transcript with these messages.
pub(super) fn start_transcript(
    db: &Connection,
    session: &SessionId,
    why: TranscriptStart,
    bodies: &[String],
    now_ms: i64,
) -> Result<u64, DatabaseError> {
    let (row, present) = find_current(db, session)?;
    let next = present.saturating_add(1);
    insert(db, row, next, why, now_ms)?;
    append_to(db, row, next, bodies)?;
    db.prepare_cached("UPDATE sessions SET transcript = ?, context_tokens = NULL WHERE row = ?")?
        .execute((next, row))?;
    Ok(from_sql_int(next))
}

/// Inserts a transcript.
pub(super) fn insert(
    db: &Connection,
    session: i64,
    transcript: i64,
    why: TranscriptStart,
    now_ms: i64,
) -> Result<(), DatabaseError> {
    let why = transcript_start_word(why);
    db.prepare_cached(
        "INSERT INTO transcripts (session, number, why, started_ms) VALUES (?, ?, ?, ?)",
    )?
    .execute((session, transcript, why, now_ms))?;
    Ok(())
}

/// The session's row id and its current transcript number.
fn find_current(db: &Connection, session: &SessionId) -> Result<(i64, i64), DatabaseError> {
    let mut read = db.prepare_cached("SELECT row, transcript FROM live_sessions WHERE id = ?")?;
    let found = read.query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)));
    found.optional()?.ok_or_else(|| no_session_error(session))
}

fn append_to(
    db: &Connection,
    session: i64,
    transcript: i64,
    bodies: &[String],
) -> Result<(), DatabaseError> {
    let mut last = db.prepare_cached(
        "SELECT coalesce(max(position), 0) FROM messages WHERE session = ? AND transcript = ?",
    )?;
    let last: i64 = last.query_row((session, transcript), |row| row.get(0))?;
    let mut insert = db.prepare_cached(
        "INSERT INTO messages (session, transcript, position, body) VALUES (?, ?, ?, ?)",
    )?;
    for (body, position) in bodies.iter().zip(last.saturating_add(1)..) {
        insert.execute((session, transcript, position, body))?;
    }
    let bytes: usize = bodies.iter().map(String::len).sum();
    db.prepare_cached("UPDATE sessions SET bytes = bytes + ? WHERE row = ?")?
        .execute((to_sql_int(bytes as u64), session))?;
    Ok(())
}
