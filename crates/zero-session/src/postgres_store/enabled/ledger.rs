//! Ledger entries with their sequence numbers.
//!
//! The row of a session counts its entries. A transaction that changes it has its lock until the commit, so
//! entries become visible in the order of their numbers.

use serde::Deserialize;
use tokio_postgres::Row;
use zero_core::{RunId, SessionId};

use super::claims::{claim_lost_error, no_session_error};
use super::database::{Database, SqlValues, Transaction, TransactionKind};
use super::postgres_error::PostgresError;
use super::{open_questions, run_usages};
use crate::event::Event;
use crate::store::{ClaimEpoch, LedgerReadLimit, StoreError};
use crate::stored_form::{EncodedEvents, decode_event, from_sql_int, to_sql_int};

/// Entries whose sizes one statement looks at.
const READ_ROWS_MAX: i64 = 4096;

/// Numbers and writes entries, if the claim is the current one and the runs of `$10` are open; no row
/// otherwise.
///
/// The session is locked first, then the runs. A lock that was waited for is of the newest state of a
/// row, although the statement reads everything else as it was when it began: a run whose end was
/// committed meanwhile is left out by its lock.
const APPEND: &str = "
    WITH locked AS MATERIALIZED (
        SELECT row_id FROM zero.sessions
        WHERE id = $1 AND NOT removed AND ($2::int8 IS NULL OR epoch = $2) FOR UPDATE),
    open_runs AS MATERIALIZED (
        SELECT runs.id FROM zero.runs JOIN locked ON runs.session = locked.row_id
        WHERE runs.id = ANY ($10::text[]) AND runs.outcome IS NULL FOR SHARE OF runs),
    appendable AS MATERIALIZED (
        SELECT row_id FROM locked
        WHERE (SELECT count(*) FROM open_runs) = cardinality($10::text[])),
    changed AS (
        UPDATE zero.sessions SET last_seq = last_seq + $3, updated_ms = greatest(updated_ms, $4),
            bytes = bytes + $5
        FROM appendable WHERE sessions.row_id = appendable.row_id
        RETURNING sessions.row_id, last_seq - $3 AS before),
    inserted AS (
        INSERT INTO zero.events (session, seq, run, time_ms, is_reset, body)
        SELECT changed.row_id, changed.before + entry.position, entry.run, entry.time_ms,
            entry.is_reset, entry.body
        FROM changed, unnest($6::text[], $7::int8[], $8::bool[], $9::text[]) WITH ORDINALITY
            AS entry (run, time_ms, is_reset, body, position))
    SELECT row_id, before + 1 FROM changed";

/// What [`APPEND`] has instead of its `$1` to `$10`, in that order.
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
    open_runs: Vec<&'a str>,
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
            open_runs: Vec::new(),
        }
    }

    /// Values for entries whose runs must be open.
    fn with_open_runs(mut self, entries: &'a EncodedEvents) -> Self {
        self.open_runs = entries.named_runs().into_iter().collect();
        self
    }

    fn as_values(&self) -> [&dyn super::database::SqlValue; 10] {
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
            &self.open_runs,
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
    let values = AppendValues::new(session, claim, entries).with_open_runs(entries);
    let rows = database.single(TransactionKind::Write, APPEND, &values.as_values()).await?;
    if let Some(row) = rows.first() {
        return Ok(from_sql_int(row.try_get(1)?));
    }
    let find: SqlValues<'_> = &[&values.session, &values.open_runs];
    let found = database.single(TransactionKind::Read, FIND_REFUSAL, find).await?;
    Err(refusal(session, claim, found.first())?)
}

/// What a refused append is explained by: the claim, and the first of the runs that is not open.
const FIND_REFUSAL: &str = "
    SELECT epoch, (SELECT named.id FROM unnest($2::text[]) WITH ORDINALITY AS named (id, position)
        WHERE NOT EXISTS (SELECT 1 FROM zero.runs WHERE runs.session = sessions.row_id
            AND runs.id = named.id AND runs.outcome IS NULL)
        ORDER BY named.position LIMIT 1)
    FROM zero.sessions WHERE id = $1 AND NOT removed";

/// Why nothing was appended.
fn refusal(
    session: &SessionId,
    claim: Option<ClaimEpoch>,
    found: Option<&Row>,
) -> Result<PostgresError, PostgresError> {
    let Some(row) = found else { return Ok(no_session_error(session)) };
    let (epoch, run): (i64, Option<String>) = (row.try_get(0)?, row.try_get(1)?);
    let has_claim = claim.is_none_or(|claim| claim.0 == from_sql_int(epoch));
    Ok(match run {
        Some(run) if has_claim => StoreError::RunNotOpen(run).into(),
        _ => claim_lost_error(session),
    })
}

/// Writes entries and what follows from them, and returns the sequence number of the first. Those of
/// a run only if it is open.
pub(super) async fn append(
    transaction: &Transaction,
    session: &SessionId,
    claim: Option<ClaimEpoch>,
    entries: &EncodedEvents,
) -> Result<u64, PostgresError> {
    let values = AppendValues::new(session, claim, entries).with_open_runs(entries);
    insert(transaction, session, claim, entries, &values).await
}

/// Writes the entries of a transaction that itself begins, ends or rewinds runs.
pub(super) async fn append_in_transaction(
    transaction: &Transaction,
    session: &SessionId,
    entries: &EncodedEvents,
) -> Result<u64, PostgresError> {
    let values = AppendValues::new(session, None, entries);
    insert(transaction, session, None, entries, &values).await
}

async fn insert(
    transaction: &Transaction,
    session: &SessionId,
    claim: Option<ClaimEpoch>,
    entries: &EncodedEvents,
    values: &AppendValues<'_>,
) -> Result<u64, PostgresError> {
    let Some(row) = transaction.first(APPEND, &values.as_values()).await? else {
        let find: SqlValues<'_> = &[&values.session, &values.open_runs];
        let found = transaction.first(FIND_REFUSAL, find).await?;
        return Err(refusal(session, claim, found.as_ref())?);
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
