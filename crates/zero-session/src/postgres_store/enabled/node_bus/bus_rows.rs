//! The rows of the bus: which processes there are, and what they ask each other.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use super::super::database::{Database, SqlValues, TransactionKind};
use super::super::postgres_error::PostgresError;
use super::CHANNEL;
use crate::node_bus::{BusSecret, ClusterIdentity, ClusterName, NodeRequestRefusal};

/// How long a process counts as there after it was seen.
const SEEN_MAX: &str = "interval '6 seconds'";
/// Maximum number of requests that are taken at once; each may be large.
const TAKEN_MAX: i64 = 4;

/// A request that this process has to execute.
pub(super) struct TakenRequest {
    pub(super) id: i64,
    pub(super) from: String,
    pub(super) body: Bytes,
}

/// What a request has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestState {
    /// Its recipient has not seen it yet.
    New,
    /// Its recipient executes it.
    Taken,
    /// It was answered or refused.
    Ended,
    /// It is gone.
    Missing,
}

/// Name and secret of the cluster.
pub(in super::super) async fn read_cluster(
    database: &Database,
) -> Result<ClusterIdentity, PostgresError> {
    let sql = "SELECT name, secret FROM zero.cluster";
    let rows = database.single(TransactionKind::Read, sql, &[]).await?;
    let invalid = |why: &str| PostgresError::invalid_data("the row of the cluster", why);
    let row = rows.first().ok_or_else(|| invalid("there is none"))?;
    let name = ClusterName::new(row.try_get(0)?).map_err(|error| invalid(&error.to_string()))?;
    let secret: &[u8] = row.try_get(1)?;
    let secret = secret.try_into().map_err(|_| invalid("its secret has another length"))?;
    Ok(ClusterIdentity { name, secret: BusSecret::new(secret) })
}

/// Says that this process is there; `false` if its name belongs to another one.
pub(super) async fn announce(
    database: &Database,
    node: &str,
    instance: i64,
) -> Result<bool, PostgresError> {
    let sql = format!(
        "INSERT INTO zero.bus_nodes AS known (name, instance, seen) VALUES ($1, $2, clock_timestamp())
         ON CONFLICT (name) DO UPDATE SET seen = clock_timestamp(), instance = $2
             WHERE known.instance = $2 OR known.seen < clock_timestamp() - {SEEN_MAX}
         RETURNING 1"
    );
    let rows = database.single(TransactionKind::Write, &sql, &[&node, &instance]).await?;
    Ok(!rows.is_empty())
}

/// Removes rows that no process waits for any more.
pub(super) async fn sweep(database: &Database) -> Result<(), PostgresError> {
    for sql in [
        "DELETE FROM zero.bus_requests WHERE expires < clock_timestamp() - interval '1 minute'",
        "DELETE FROM zero.bus_nodes WHERE seen < clock_timestamp() - interval '1 hour'",
    ] {
        database.single(TransactionKind::Write, sql, &[]).await?;
    }
    Ok(())
}

/// Says that this process has ended.
pub(super) async fn leave(
    database: &Database,
    node: &str,
    instance: i64,
) -> Result<(), PostgresError> {
    let sql = "DELETE FROM zero.bus_nodes WHERE name = $1 AND instance = $2";
    database.single(TransactionKind::Write, sql, &[&node, &instance]).await.map(drop)
}

/// Whether a process is there.
pub(super) async fn is_there(database: &Database, node: &str) -> Result<bool, PostgresError> {
    let sql = format!(
        "SELECT 1 FROM zero.bus_nodes WHERE name = $1 AND seen >= clock_timestamp() - {SEEN_MAX}"
    );
    Ok(!database.single(TransactionKind::Read, &sql, &[&node]).await?.is_empty())
}

/// Writes a request; `false` if its recipient is not there.
pub(super) async fn ask(
    database: &Database,
    id: i64,
    sender: &str,
    recipient: &str,
    within: Duration,
    body: &[u8],
    wakes: bool,
) -> Result<bool, PostgresError> {
    let sql = format!(
        "INSERT INTO zero.bus_requests (id, sender, recipient, asked, expires, body)
         SELECT $1, $2, name, clock_timestamp(),
             clock_timestamp() + $4 * interval '1 millisecond', $5
         FROM zero.bus_nodes WHERE name = $3 AND seen >= clock_timestamp() - {SEEN_MAX}
         RETURNING {}",
        wake_sql(wakes, "'q' || recipient")
    );
    // Longer than any caller waits, and short enough to be added to a date.
    let within = i64::try_from(within.as_millis()).unwrap_or(i64::MAX).min(86_400_000);
    let values: SqlValues<'_> = &[&id, &sender, &recipient, &within, &Some(body)];
    Ok(!database.single(TransactionKind::Write, &sql, values).await?.is_empty())
}

/// Takes requests to execute them. Each is taken once, and none after its time.
pub(super) async fn take(
    database: &Database,
    node: &str,
    instance: i64,
) -> Result<Vec<TakenRequest>, PostgresError> {
    let rows = database
        .single(
            TransactionKind::Write,
            "WITH fresh AS (
                 SELECT id FROM zero.bus_requests
                 WHERE recipient = $1 AND NOT is_taken AND expires > clock_timestamp()
                     AND EXISTS (SELECT 1 FROM zero.bus_nodes WHERE name = $1 AND instance = $2)
                 ORDER BY asked LIMIT $3 FOR UPDATE SKIP LOCKED)
             UPDATE zero.bus_requests AS request SET is_taken = true FROM fresh
             WHERE request.id = fresh.id RETURNING request.id, request.sender, request.body",
            &[&node, &instance, &TAKEN_MAX],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let body: Option<&[u8]> = row.try_get(2)?;
            let body = Bytes::copy_from_slice(body.unwrap_or_default());
            Ok(TakenRequest { id: row.try_get(0)?, from: row.try_get(1)?, body })
        })
        .collect()
}

/// Writes the end of a request.
pub(super) async fn finish(
    database: &Database,
    id: i64,
    end: Result<&[u8], NodeRequestRefusal>,
    wakes: bool,
) -> Result<(), PostgresError> {
    let (outcome, answer) = match end {
        Ok(answer) => (0, Some(answer)),
        Err(NodeRequestRefusal::Busy) => (1, None),
        Err(NodeRequestRefusal::Failed) => (2, None),
        Err(NodeRequestRefusal::AnswerTooLarge) => (3, None),
    };
    let sql = format!(
        "UPDATE zero.bus_requests SET outcome = $2, answer = $3, body = NULL WHERE id = $1
         RETURNING {}",
        wake_sql(wakes, "'a' || id")
    );
    let values: SqlValues<'_> = &[&id, &outcome, &answer];
    database.single(TransactionKind::Write, &sql, values).await.map(drop)
}

/// What requests have come to. Those that are gone are left out.
pub(super) async fn states(
    database: &Database,
    ids: &[i64],
) -> Result<HashMap<i64, RequestState>, PostgresError> {
    let sql = "SELECT id, is_taken, outcome IS NOT NULL FROM zero.bus_requests WHERE id = ANY($1)";
    let rows = database.single(TransactionKind::Read, sql, &[&ids.to_vec()]).await?;
    rows.iter()
        .map(|row| {
            let state = match (row.try_get(1)?, row.try_get(2)?) {
                (_, true) => RequestState::Ended,
                (true, false) => RequestState::Taken,
                (false, false) => RequestState::New,
            };
            Ok((row.try_get(0)?, state))
        })
        .collect()
}

/// Deletes a request that has ended and returns its end; `None` if it has not, or is gone.
pub(super) async fn end(
    database: &Database,
    id: i64,
) -> Result<Option<Result<Bytes, NodeRequestRefusal>>, PostgresError> {
    let sql = "DELETE FROM zero.bus_requests WHERE id = $1 AND outcome IS NOT NULL
               RETURNING outcome, answer";
    let rows = database.single(TransactionKind::Write, sql, &[&id]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let answer: Option<&[u8]> = row.try_get(1)?;
    Ok(Some(match row.try_get::<_, i32>(0)? {
        0 => Ok(Bytes::copy_from_slice(answer.unwrap_or_default())),
        1 => Err(NodeRequestRefusal::Busy),
        3 => Err(NodeRequestRefusal::AnswerTooLarge),
        _ => Err(NodeRequestRefusal::Failed),
    }))
}

/// Deletes a request that its recipient has not taken; `false` if it has, or if it is gone.
pub(super) async fn withdraw(database: &Database, id: i64) -> Result<bool, PostgresError> {
    let sql = "DELETE FROM zero.bus_requests WHERE id = $1 AND NOT is_taken RETURNING 1";
    Ok(!database.single(TransactionKind::Write, sql, &[&id]).await?.is_empty())
}

/// Notifies other processes that sessions have new entries.
pub(super) async fn notify(database: &Database, payloads: &[String]) -> Result<(), PostgresError> {
    let sql = "SELECT pg_notify($1, payload)::text FROM unnest($2) AS payload";
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    database.single(TransactionKind::Write, sql, &[&CHANNEL, &payloads]).await.map(drop)
}

/// Sends a text to a channel.
pub(super) async fn notify_channel(
    database: &Database,
    channel: &str,
) -> Result<(), PostgresError> {
    let sql = "SELECT pg_notify($1, '')::text";
    database.single(TransactionKind::Write, sql, &[&channel]).await.map(drop)
}

/// An expression that wakes the listeners, if there are any.
fn wake_sql(wakes: bool, payload: &str) -> String {
    match wakes {
        true => format!("pg_notify('{CHANNEL}', {payload})::text"),
        false => "NULL::text".to_owned(),
    }
}
