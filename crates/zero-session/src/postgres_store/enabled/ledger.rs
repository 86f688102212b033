//! Ledger entries with their sequence numbers.
//!
//! The row of a session counts its entries. A transaction that changes it has its lock until the commit, so
//! entries become visible in the order of their numbers.

use serde::Deserialize;
use tokio_postgres::Row;
use zero_core::{RunId, SessionId};

use super::claims::{claim_lost_error, no_session_error};
use super::database::{Database, Transaction, TransactionKind};
use super::postgres_error::PostgresError;
use super::{open_questions, run_usages};
use crate::event::Event;
use crate::store::{ClaimEpoch, LedgerReadLimit};
use crate::stored_form::{EncodedEvents, decode_event, from_sql_int, to_sql_int};

/// Entries whose sizes one statement looks at.
const READ_ROWS_MAX: i64 = 4096;

/// Numbers and writes entries, if the claim is the current one; no row otherwise.
const APPEND: &str = "
    WITH changed AS (
        UPDATE zero.sessions SET last_seq = last_seq + $3, updated_ms = greatest(updated_ms, $4),
            bytes = bytes + $5
        WHERE id = $1 AND NOT removed AND ($2::int8 IS NULL OR epoch = $2)
        RETURNING row_id, last_seq - $3 AS before),
    inserted AS (
        INSERT INTO zero.events (session, seq, run, time_ms, is_reset, body)
        SELECT changed.row_id, changed.before + entry.position, entry.run, entry.time_ms,
            entry.is_reset, entry.body
        FROM changed, unnest($6::text[], $7::int8[], $8::bool[], $9::text[]) WITH ORDINALITY
            AS entry (run, time_ms, is_reset, body, position))
    SELECT row_id, before + 1 FROM changed";

/// What [`APPEND`] has instead of its `$1` to `$9`, in that order.
struct AppendValues<'a> {
    session: &'a str,
    claim: Option<i64>,
    count: i64,
    newest_ms: i64,
    bytes: i64,
    runs: Vec<Option<&'a str>>,
    times_ms: Vec<i64>,
    resets: Vec<bool>,
    bodies: Vec<&'a str>,
}

impl<'a> AppendValues<'a> {
    fn new(session: &'a SessionId, claim: Option<ClaimEpoch>, entries: &'a EncodedEvents) -> Self {
        let rows = &entries.rows;
        Self {
            session: session.as_str(),
            claim: claim.map(|claim| to_sql_int(claim.0)),
            count: to_sql_int(rows.len() as u64),
            newest_ms: entries.newest_ms,
            bytes: to_sql_int(entries.bytes as u64),
            runs: rows.iter().map(|row| row.run.as_deref()).collect(),
            times_ms: rows.iter().map(|row| row.time_ms).collect(),
            resets: rows.iter().map(|row| is_reset(&row.body)).collect(),
            bodies: rows.iter().map(|row| row.body.as_str()).collect(),
        }
    }

    fn as_values(&self) -> [&dyn super::database::SqlValue; 9] {
        [
            &self.session,
            &self.claim,
            &self.count,
            &self.newest_ms,
            &self.bytes,
            &self.runs,
            &self.times_ms,
            &self.resets,
            &self.bodies,
        ]
    }
}

/// Whether an entry says that the session was reset.
pub(super) fn is_reset(body: &str) -> bool {
    #[derive(Deserialize)]
    struct EntryType<'a> {
        r#type: &'a str,
    }
    body.contains(r#""type":"reset""#)
        && serde_json::from_str(body).is_ok_and(|entry: EntryType<'_>| entry.r#type == "reset")
}

/// Writes entries that change nothing else, in one round trip. Returns the number of the first.
pub(super) async fn append_alone(
    database: &Database,
    session: &SessionId,
    claim: Option<ClaimEpoch>,
    entries: &EncodedEvents,
) -> Result<u64, PostgresError> {
    let values = AppendValues::new(session, claim, entries);
    let rows = database.single(TransactionKind::Write, APPEND, &values.as_values()).await?;
    if let Some(row) = rows.first() {
        return Ok(from_sql_int(row.try_get(1)?));
    }
    let find = "SELECT 1 FROM zero.sessions WHERE id = $1 AND NOT removed";
    let found = database.single(TransactionKind::Read, find, &[&session.as_str()]).await?;
    Err(if found.is_empty() { no_session_error(session) } else { claim_lost_error(session) })
}

/// Writes entries and what follows from them, and returns the sequence number of the first.
pub(super) async fn append(
    transaction: &Transaction,
    session: &SessionId,
    claim: Option<ClaimEpoch>,
    entries: &EncodedEvents,
) -> Result<u64, PostgresError> {
    let values = AppendValues::new(session, claim, entries);
    let Some(row) = transaction.first(APPEND, &values.as_values()).await? else {
        let find = "SELECT 1 FROM zero.sessions WHERE id = $1 AND NOT removed";
        let found = transaction.first(find, &[&session.as_str()]).await?;
        return Err(match found {
            Some(_) => claim_lost_error(session),
            None => no_session_error(session),
        });
    };
    let (session_row, first): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    run_usages::apply(transaction, session, &entries.usages).await?;
    for entry in &entries.questions {
        open_questions::apply(transaction, session_row, entry, &entries.rows).await?;
    }
    Ok(from_sql_int(first))
}

/// Entries after a sequence number, oldest first.
pub(super) async fn read_after(
    transaction: &Transaction,
    session: &SessionId,
    after: u64,
    most: LedgerReadLimit,
) -> Result<Vec<Event>, PostgresError> {
    const READ: &str = "
        SELECT seq, run, time_ms, body, total FROM (
            SELECT seq, run, time_ms, body, sum(octet_length(body)) OVER (ORDER BY seq)::int8 AS total,
                row_number() OVER (ORDER BY seq) AS number
            FROM zero.events WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3) AS entries
        WHERE total <= $4 OR (number = 1 AND $5) ORDER BY seq";
    read_pages(transaction, session, to_sql_int(after), most, READ).await
}

/// The newest entries before a sequence number, oldest first.
pub(super) async fn read_before(
    transaction: &Transaction,
    session: &SessionId,
    before: u64,
    most: LedgerReadLimit,
) -> Result<Vec<Event>, PostgresError> {
    const READ: &str = "
        SELECT seq, run, time_ms, body, total FROM (
            SELECT seq, run, time_ms, body,
                sum(octet_length(body)) OVER (ORDER BY seq DESC)::int8 AS total,
                row_number() OVER (ORDER BY seq DESC) AS number
            FROM zero.events WHERE session = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3) AS entries
        WHERE total <= $4 OR (number = 1 AND $5) ORDER BY seq DESC";
    let mut events = read_pages(transaction, session, to_sql_int(before), most, READ).await?;
    events.reverse();
    Ok(events)
}

/// Reads pages from a position on, until the limit is reached. The first entry always fits.
async fn read_pages(
    transaction: &Transaction,
    session: &SessionId,
    mut position: i64,
    most: LedgerReadLimit,
    read: &str,
) -> Result<Vec<Event>, PostgresError> {
    let row = find_row(transaction, session).await?;
    let (mut events, mut bytes) = (Vec::new(), to_sql_int(most.bytes as u64));
    loop {
        let missing = to_sql_int(most.entries.saturating_sub(events.len()) as u64);
        let page_max = missing.min(READ_ROWS_MAX);
        if page_max == 0 {
            return Ok(events);
        }
        let is_first = events.is_empty();
        let rows = transaction.rows(read, &[&row, &position, &page_max, &bytes, &is_first]).await?;
        for row in &rows {
            events.push(read_event(row, 0)?);
        }
        let Some(last) = rows.last() else { return Ok(events) };
        if to_sql_int(rows.len() as u64) < page_max {
            return Ok(events);
        }
        position = last.try_get(0)?;
        bytes = bytes.saturating_sub(last.try_get(4)?);
    }
}

/// The entry in a row whose columns from `first` on are sequence number, run, time and content.
pub(super) fn read_event(row: &Row, first: usize) -> Result<Event, PostgresError> {
    // An invalid id belongs to no run that zero knows.
    let run = row.try_get::<_, Option<&str>>(first + 1)?.and_then(|run| RunId::new(run).ok());
    Ok(Event {
        seq: from_sql_int(row.try_get(first)?),
        run,
        time_ms: row.try_get(first + 2)?,
        kind: decode_event(row.try_get(first + 3)?),
    })
}

/// Row of a session, used by the other tables.
pub(super) async fn find_row(
    transaction: &Transaction,
    session: &SessionId,
) -> Result<i64, PostgresError> {
    let find = "SELECT row_id FROM zero.sessions WHERE id = $1 AND NOT removed";
    let found = transaction.first(find, &[&session.as_str()]).await?;
    Ok(found.ok_or_else(|| no_session_error(session))?.try_get(0)?)
}
