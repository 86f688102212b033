//! Ledger entries with their sequence numbers.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, Row};
use zero_core::{RunId, SessionId};

use super::claims;
use super::database_error::DatabaseError;
use super::sessions::{find_row, from_sql_int, no_session_error, to_json, to_sql_int};
use super::{open_questions, run_usages};
use crate::event::{Event, EventKind, OpaqueEvent};
use crate::open_question::QuestionEntry;
use crate::run_usage::UsageEntry;
use crate::store::{ClaimEpoch, LedgerReadLimit, NewEvent};

/// Serialized entries. The caller serializes them, so that the writer thread has less work.
pub(super) struct EncodedEvents {
    rows: Vec<EncodedEvent>,
    /// Time of the newest entry.
    newest_ms: i64,
    /// Total size in bytes.
    pub(super) bytes: usize,
    /// What they say about the usage of runs.
    usages: Vec<UsageEntry>,
    /// What they say about open questions.
    questions: Vec<QuestionEntry>,
}

struct EncodedEvent {
    run: Option<String>,
    time_ms: i64,
    body: String,
}

impl EncodedEvents {
    pub(super) fn from_events(events: &[NewEvent]) -> Result<Self, DatabaseError> {
        let mut entries = Self {
            rows: Vec::with_capacity(events.len()),
            newest_ms: i64::MIN,
            bytes: 0,
            usages: events.iter().filter_map(UsageEntry::from_event).collect(),
            questions: QuestionEntry::from_events(events),
        };
        for event in events {
            let run = event.run.as_ref().map(|run| run.as_str().to_owned());
            let body = to_json(&event.kind)?;
            entries.bytes = entries.bytes.saturating_add(body.len());
            entries.newest_ms = entries.newest_ms.max(event.time_ms);
            entries.rows.push(EncodedEvent { run, time_ms: event.time_ms, body });
        }
        Ok(entries)
    }
}

/// Writes entries and returns the sequence number of the first.
pub(super) fn append(
    db: &Connection,
    session: &SessionId,
    claim: Option<ClaimEpoch>,
    entries: &EncodedEvents,
) -> Result<u64, DatabaseError> {
    // Two statements, because `UPDATE … RETURNING` stores its result in a temporary table.
    let mut find =
        db.prepare_cached("SELECT row, last_seq, epoch FROM live_sessions WHERE id = ?")?;
    let found = find.query_row([session.as_str()], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    });
    let (row, last, epoch) = found.optional()?.ok_or_else(|| no_session_error(session))?;
    if let Some(claim) = claim {
        claims::check_epoch(session, epoch, claim)?;
    }
    let more = to_sql_int(entries.rows.len() as u64);
    db.prepare_cached(
        "UPDATE sessions SET last_seq = last_seq + ?, updated_ms = max(updated_ms, ?),
             bytes = bytes + ?
         WHERE row = ?",
    )?
    .execute((more, entries.newest_ms, to_sql_int(entries.bytes as u64), row))?;
    let first = last.saturating_add(1);
    let mut insert = db.prepare_cached(
        "INSERT INTO events (session, seq, run, time_ms, body) VALUES (?, ?, ?, ?, ?)",
    )?;
    for (entry, seq) in entries.rows.iter().zip(first..) {
        insert.execute((row, seq, &entry.run, entry.time_ms, &entry.body))?;
    }
    run_usages::apply(db, session, &entries.usages)?;
    for entry in &entries.questions {
        let asking = |at: usize| entries.rows.get(at).map(|row| (row.time_ms, row.body.as_str()));
        open_questions::apply(db, row, entry, asking)?;
    }
    Ok(from_sql_int(first))
}

/// Assigns sequence numbers to the entries.
pub(super) fn assign_seqs(first: u64, entries: Vec<NewEvent>) -> Vec<Event> {
    let numbered = entries.into_iter().zip(first..);
    numbered
        .map(|(NewEvent { run, time_ms, kind }, seq)| Event { seq, run, time_ms, kind })
        .collect()
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

/// The content of an entry. One that cannot be read is reported in its place, so that the entries
/// around it stay readable.
pub(super) fn read_body(body: ValueRef<'_>) -> EventKind {
    let parsed = body.as_str().map_err(|error| error.to_string());
    let parsed =
        parsed.and_then(|body| serde_json::from_str(body).map_err(|error| error.to_string()));
    parsed.unwrap_or_else(|problem| EventKind::Opaque(OpaqueEvent::unreadable(&problem)))
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
