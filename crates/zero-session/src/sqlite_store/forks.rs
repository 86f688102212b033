//! Copies of sessions.

use rusqlite::{Connection, OptionalExtension};
use zero_core::SessionId;

use super::claims;
use super::database_error::DatabaseError;
use super::ledger::{self, EncodedEvents};
use super::sessions;
use crate::key::SessionAddress;
use crate::store::{ClaimEpoch, NewFork, NewSession, SessionPatch, SessionRecord, StoreError};

/// Copies a session: its settings, its current transcript, and its ledger since the last reset.
pub(super) fn fork(
    db: &Connection,
    source: &SessionId,
    claim: ClaimEpoch,
    fork: &NewFork,
    last: &EncodedEvents,
    now_ms: i64,
) -> Result<SessionRecord, DatabaseError> {
    let from = claims::check(db, source, claim)?;
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
    };
    sessions::create(db, &fork.id, &new, now_ms)?;
    let patch = SessionPatch {
        title: Some(fork.title.clone()),
        agent: Some(record.agent),
        thinking: Some(record.thinking),
        context_tokens: record.context_tokens,
        ..SessionPatch::default()
    };
    sessions::patch(db, &address, &patch)?;
    let to = sessions::find_row(db, &fork.id)?;
    let ids = (source.as_str(), fork.id.as_str());
    copy_messages(db, from, to, ids)?;
    copy_entries(db, from, to, ids)?;
    ledger::append(db, &fork.id, None, last)?;
    sessions::find_by_id(db, &fork.id)?.ok_or_else(|| sessions::no_session_error(&fork.id))
}

/// Copies the current transcript to the first one of the copy.
fn copy_messages(
    db: &Connection,
    from: i64,
    to: i64,
    (old, new): (&str, &str),
) -> Result<(), DatabaseError> {
    db.prepare_cached(
        "INSERT INTO messages (session, transcript, position, body)
         SELECT ?2, 1, position, replace(body, ?3, ?4) FROM messages
         WHERE session = ?1 AND transcript = (SELECT transcript FROM sessions WHERE row = ?1)",
    )?
    .execute((from, to, old, new))?;
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
         SELECT ?2, seq - ?3, run, time_ms, replace(body, ?4, ?5) FROM events
         WHERE session = ?1 AND seq > ?3",
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
