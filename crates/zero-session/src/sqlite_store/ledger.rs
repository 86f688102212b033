//! Ledger entries with their sequence numbers.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row};
use zero_core::{RunId, SessionId};

use super::claims;
use super::database_error::DatabaseError;
use super::sessions::{find_row, no_session_error};
use super::{open_questions, run_usages};
use crate::event::{Event, EventKind, OpaqueEvent};
use crate::store::{ClaimEpoch, LedgerReadLimit, StoreError};
use crate::stored_form::{EncodedEvents, decode_event, from_sql_int, to_sql_int};

/// Writes entries and returns the sequence number of the first. Those of a run only if it is open: a
/// write that was under way when its process was taken for dead may come after the end.
pub(super) fn append(
    db: &Connection,
    session: &SessionId,
    claim: Option<ClaimEpoch>,
    entries: &EncodedEvents,
) -> Result<u64, DatabaseError> {
    let session = find_claimed(db, session, claim)?;
    for run in entries.named_runs() {
        let mut find =
            db.prepare_cached("SELECT 1 FROM runs WHERE session = ? AND id = ? AND end IS NULL")?;
        if !find.exists((session.row, run))? {
            return Err(StoreError::RunNotOpen(run.to_owned()).into());
        }
    }
    insert(db, &session, entries)
}

/// Writes the entries of a transaction that itself begins, ends or rewinds runs.
pub(super) fn append_in_transaction(
    db: &Connection,
    session: &SessionId,
    entries: &EncodedEvents,
) -> Result<u64, DatabaseError> {
    insert(db, &find_claimed(db, session, None)?, entries)
}

/// A session that entries are written to.
struct LedgerOwner<'a> {
    id: &'a SessionId,
    row: i64,
    last_seq: i64,
}

/// The session, if the claim is the current one.
fn find_claimed<'a>(
    db: &Connection,
    session: &'a SessionId,
    claim: Option<ClaimEpoch>,
) -> Result<LedgerOwner<'a>, DatabaseError> {
    // Two statements, because `UPDATE … RETURNING` stores its result in a temporary table.
    let mut find =
        db.prepare_cached("SELECT row, last_seq, epoch FROM live_sessions WHERE id = ?")?;
    let found = find.query_row([session.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    let (row, last_seq, epoch) = found.optional()?.ok_or_else(|| no_session_error(session))?;
    if let Some(claim) = claim {
        claims::check_epoch(session, epoch, claim)?;
    }
    Ok(LedgerOwner { id: session, row, last_seq })
}

fn insert(
    db: &Connection,
    &LedgerOwner { id, row, last_seq }: &LedgerOwner<'_>,
    entries: &EncodedEvents,
) -> Result<u64, DatabaseError> {
    let more = to_sql_int(entries.rows.len() as u64);
    db.prepare_cached(
        "UPDATE sessions SET last_seq = last_seq + ?, updated_ms = max(updated_ms, ?),
             bytes = bytes + ?
         WHERE row = ?",
    )?
    .execute((more, entries.newest_ms, to_sql_int(entries.bytes as u64), row))?;
    let first = last_seq.saturating_add(1);
    let mut insert = db.prepare_cached(
        "INSERT INTO events (session, seq, run, time_ms, body) VALUES (?, ?, ?, ?, ?)",
    )?;
    for (entry, seq) in entries.rows.iter().zip(first..) {
        insert.execute((row, seq, &entry.run, entry.time_ms, &entry.body))?;
    }
    run_usages::apply(db, id, &entries.usages)?;
    for entry in &entries.questions {
        let asking = |at: usize| entries.rows.get(at).map(|row| (row.time_ms, row.body.as_str()));
        open_questions::apply(db, row, entry, asking)?;
    }
    Ok(from_sql_int(first))
}

pub(super) fn read_after(
    db: &Connection,
    session: &SessionId,
    after: u64,
    most: LedgerReadLimit,
) -> Result<Vec<Event>, DatabaseError> {
    let row = find_row(db, session)?;
    let read = || {
        // The size is in the row header, so long entries are not read to determine it.
        let weights = "SELECT seq, octet_length(body) FROM events WHERE session = ? AND seq > ?
                       ORDER BY seq";
        let Some(last) = find_last_fitting(db, weights, (row, to_sql_int(after)), most)? else {
            return Ok(Vec::new());
        };
        read_range(db, row, to_sql_int(after).saturating_add(1), last)
    };
    match read() {
        Err(error) if error.is_damaged_page() => {
            let seqs = after.saturating_add(1)..=last_seq(db, session)?;
            read_singly(db, row, seqs, most)
        }
        events => events,
    }
}

pub(super) fn read_before(
    db: &Connection,
    session: &SessionId,
    before: u64,
    most: LedgerReadLimit,
) -> Result<Vec<Event>, DatabaseError> {
    let row = find_row(db, session)?;
    let read = || {
        let weights = "SELECT seq, octet_length(body) FROM events WHERE session = ? AND seq < ?
                       ORDER BY seq DESC";
        let Some(first) = find_last_fitting(db, weights, (row, to_sql_int(before)), most)? else {
            return Ok(Vec::new());
        };
        read_range(db, row, first, to_sql_int(before).saturating_sub(1))
    };
    match read() {
        Err(error) if error.is_damaged_page() => {
            let last = last_seq(db, session)?.min(before.saturating_sub(1));
            let mut events = read_singly(db, row, (1..=last).rev(), most)?;
            events.reverse();
            Ok(events)
        }
        events => events,
    }
}

/// Reads entries one by one, so that those on damaged pages do not stop the others. Each of them is
/// reported in its place: a reader that goes on after the last entry gets past them.
fn read_singly(
    db: &Connection,
    session: i64,
    seqs: impl Iterator<Item = u64>,
    most: LedgerReadLimit,
) -> Result<Vec<Event>, DatabaseError> {
    let mut events: Vec<Event> = Vec::new();
    let mut bytes = 0_usize;
    for seq in seqs.take(most.entries) {
        // The time of a damaged entry is not known; it is close to that of its neighbour.
        let time_ms = events.last().map_or(0, |event| event.time_ms);
        let (event, weight) = read_single(db, session, seq, time_ms)?;
        bytes = bytes.saturating_add(weight);
        if !events.is_empty() && bytes > most.bytes {
            break;
        }
        events.push(event);
    }
    Ok(events)
}

/// An entry and its size. One that is on a damaged page, or lost with it, is reported as such.
fn read_single(
    db: &Connection,
    session: i64,
    seq: u64,
    time_ms: i64,
) -> Result<(Event, usize), DatabaseError> {
    let damaged = |problem: &str| {
        let kind = EventKind::Opaque(OpaqueEvent::unreadable(problem));
        (Event { seq, run: None, time_ms, kind }, problem.len())
    };
    let read = || {
        let mut statement = db.prepare_cached(
            "SELECT seq, run, time_ms, body FROM events WHERE session = ? AND seq = ?",
        )?;
        let mut rows = statement.query((session, to_sql_int(seq)))?;
        let Some(row) = rows.next()? else { return Ok(damaged("it is missing from the file")) };
        let weight = row.get_ref(3)?.as_bytes().map_or(0, <[u8]>::len);
        Ok((read_event(row)?, weight))
    };
    match read() {
        Err(DatabaseError::Sqlite { code: ErrorCode::DatabaseCorrupt, message, .. }) => {
            Ok(damaged(&format!("it is on a damaged page ({message})")))
        }
        event => event,
    }
}

/// The last row that fits together with all rows before it; each row is a sequence number and a
/// size.
fn find_last_fitting(
    db: &Connection,
    sql: &str,
    with: impl Params,
    most: LedgerReadLimit,
) -> Result<Option<i64>, DatabaseError> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query_map(with, |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
    let mut failed = None;
    let mut seqs = Vec::new();
    let weights = std::iter::from_fn(|| match rows.next()? {
        Ok((seq, weight)) => {
            seqs.push(seq);
            Some(usize::try_from(weight).unwrap_or(usize::MAX))
        }
        Err(error) => {
            failed = Some(error);
            None
        }
    });
    // Reads at most one row beyond the last that fits.
    let fitting = most.count_fitting(weights);
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(fitting.checked_sub(1).and_then(|at| seqs.get(at).copied())),
    }
}

pub(super) fn last_seq(db: &Connection, session: &SessionId) -> Result<u64, DatabaseError> {
    let mut statement = db.prepare_cached("SELECT last_seq FROM live_sessions WHERE id = ?")?;
    let last = statement.query_row([session.as_str()], |row| row.get(0)).optional()?;
    last.map(from_sql_int).ok_or_else(|| no_session_error(session))
}

/// The content of an entry; see [`decode_event`].
pub(super) fn read_body(body: ValueRef<'_>) -> EventKind {
    match body.as_str() {
        Ok(body) => decode_event(body),
        Err(problem) => EventKind::Opaque(OpaqueEvent::unreadable(&problem.to_string())),
    }
}

/// Entries of an inclusive range of sequence numbers, oldest first.
fn read_range(
    db: &Connection,
    session: i64,
    first: i64,
    last: i64,
) -> Result<Vec<Event>, DatabaseError> {
    let mut statement = db.prepare_cached(
        "SELECT seq, run, time_ms, body FROM events WHERE session = ? AND seq BETWEEN ? AND ?
         ORDER BY seq",
    )?;
    let mut rows = statement.query((session, first, last))?;
    let mut events = Vec::new();
    while let Some(row) = rows.next()? {
        events.push(read_event(row)?);
    }
    Ok(events)
}

/// The entry in a row of sequence number, run, time and content.
fn read_event(row: &Row<'_>) -> Result<Event, DatabaseError> {
    // An invalid id belongs to no run that zero knows.
    let run = row.get_ref(1)?.as_str().ok().and_then(|run| RunId::new(run).ok());
    Ok(Event {
        seq: from_sql_int(row.get(0)?),
        run,
        time_ms: row.get(2)?,
        kind: read_body(row.get_ref(3)?),
    })
}
