//! Copies of sessions.

use rusqlite::{Connection, OptionalExtension};
use zero_core::SessionId;

use super::claims;
use super::database_error::DatabaseError;
use super::ledger::{self, EncodedEvents};
use super::sessions::{self, to_sql_int};
use crate::key::SessionAddress;
use crate::store::{ForkPoint, NewFork, NewSession, SessionPatch, SessionRecord, StoreError};

/// The messages that a copy gets.
#[derive(Clone, Copy)]
struct MessageRange {
    transcript: i64,
    /// The position after the last one.
    end: i64,
}

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
        ForkPoint::LastCompleted => sessions::find_row(db, source)?,
    };
    let record =
        sessions::find_by_id(db, source)?.ok_or_else(|| sessions::no_session_error(source))?;
    let address = SessionAddress::new(&record.owner, fork.key.clone());
    if sessions::find_by_address(db, &address)?.is_some() {
        return Err(StoreError::KeyTaken(fork.key.clone()).into());
    }
    let new = NewSession {
        key: fork.key.clone(),
        label: None,
        cwd: record.cwd.clone(),
        model: record.model.clone(),
        mode: record.mode,
        owner: record.owner.clone(),
        owned_max: fork.owned_max,
        tool_host: record.tool_host.clone(),
        parent: None,
    };
    sessions::create(db, &fork.id, &new, now_ms)?;
    let is_at_end = match point {
        ForkPoint::End(_) => true,
        ForkPoint::LastCompleted => !claims::has_unfinished_runs(db, from)?,
    };
    let messages = match is_at_end {
        true => MessageRange { transcript: to_sql_int(record.transcript), end: i64::MAX },
        false => completed_messages(db, from)?.ok_or(StoreError::Busy)?,
    };
    let patch = SessionPatch {
        title: Some(fork.title.clone()),
        agent: Some(record.agent),
        thinking: Some(record.thinking),
        context_tokens: record.context_tokens.filter(|_| is_at_end),
        ..SessionPatch::default()
    };
    sessions::patch(db, &address, &patch)?;
    let to = sessions::find_row(db, &fork.id)?;
    let ids = (source.as_str(), fork.id.as_str());
    copy_messages(db, from, to, messages, ids)?;
    copy_entries(db, from, to, ids)?;
    ledger::append(db, &fork.id, None, last)?;
    sessions::find_by_id(db, &fork.id)?.ok_or_else(|| sessions::no_session_error(&fork.id))
}

/// The messages before the oldest unfinished run; `None` if an older zero began it.
fn completed_messages(
    db: &Connection,
    session: i64,
) -> Result<Option<MessageRange>, DatabaseError> {
    let mut read = db.prepare_cached(
        "SELECT completed_transcript, completed_messages FROM sessions WHERE row = ?",
    )?;
    let (transcript, end): (Option<i64>, Option<i64>) =
        read.query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(transcript.zip(end).map(|(transcript, end)| MessageRange { transcript, end }))
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

fn copy_entries(
    db: &Connection,
    from: i64,
    to: i64,
    (old, new): (&str, &str),
) -> Result<(), DatabaseError> {
    let mut find = db.prepare_cached(
        "SELECT seq FROM events WHERE session = ? AND body LIKE '%\"type\":\"reset\"%'
             AND json_valid(body) AND json_extract(body, '$.type') = 'reset'
         ORDER BY seq DESC LIMIT 1",
    )?;
    let reset: i64 = find.query_row([from], |row| row.get(0)).optional()?.unwrap_or(0);
    db.prepare_cached(
        "INSERT INTO events (session, seq, run, time_ms, body)
         SELECT ?2, row_number() OVER (ORDER BY seq), run, time_ms, replace(body, ?4, ?5)
         FROM events WHERE session = ?1 AND seq > ?3 AND (run IS NULL OR run NOT IN
             (SELECT id FROM runs WHERE runs.session = ?1 AND runs.end IS NULL))",
    )?
    .execute((from, to, reset, old, new))?;
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
