//! Transcripts: the messages sent to models.

use zero_core::SessionId;

use super::claims::{LockedSession, claim_lost_error, no_session_error};
use super::database::{Database, Transaction, TransactionKind};
use super::postgres_error::PostgresError;
use super::sessions::{from_json, insert_transcript};
use crate::message::ModelMessage;
use crate::store::{ClaimEpoch, StoreError, Transcript, TranscriptStart};
use crate::stored_form::{from_sql_int, to_sql_int};

/// The messages of a transcript; of the current one if no number is given.
pub(super) async fn read(
    transaction: &Transaction,
    session: &SessionId,
    requested_generation: Option<u64>,
) -> Result<Transcript, PostgresError> {
    let find = "SELECT row_id, transcript FROM zero.sessions WHERE id = $1 AND NOT removed";
    let found = transaction.first(find, &[&session.as_str()]).await?;
    let found = found.ok_or_else(|| no_session_error(session))?;
    let (row, present): (i64, i64) = (found.try_get(0)?, found.try_get(1)?);
    let generation = requested_generation.map_or(present, to_sql_int);
    if !(1..=present).contains(&generation) {
        let number = from_sql_int(generation);
        return Err(StoreError::NoTranscript { session: session.to_string(), number }.into());
    }
    let read = "SELECT body FROM zero.messages WHERE session = $1 AND transcript = $2
                ORDER BY position";
    let mut messages = Vec::new();
    for row in transaction.rows(read, &[&row, &generation]).await? {
        let mut message: ModelMessage = from_json("a message", row.try_get(0)?)?;
        message.shrink_to_fit();
        messages.push(message);
    }
    Ok(Transcript { number: from_sql_int(generation), messages })
}

/// Appends messages to the current transcript, if the claim is the current one, in one round trip.
pub(super) async fn append(
    database: &Database,
    session: &SessionId,
    claim: ClaimEpoch,
    bodies: &[String],
) -> Result<(), PostgresError> {
    const APPEND: &str = "
        WITH changed AS (
            UPDATE zero.sessions SET last_message = last_message + $3, bytes = bytes + $4
            WHERE id = $1 AND epoch = $2 AND NOT removed
            RETURNING row_id, transcript, last_message - $3 AS before),
        inserted AS (
            INSERT INTO zero.messages (session, transcript, position, body)
            SELECT changed.row_id, changed.transcript, changed.before + message.position, message.body
            FROM changed, unnest($5::text[]) WITH ORDINALITY AS message (body, position))
        SELECT 1 FROM changed";
    let texts: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let (id, claim) = (session.as_str(), to_sql_int(claim.0));
    let (count, bytes) = (to_sql_int(bodies.len() as u64), byte_count(bodies));
    let kind = TransactionKind::Write;
    let rows = database.single(kind, APPEND, &[&id, &claim, &count, &bytes, &texts]).await?;
    if !rows.is_empty() {
        return Ok(());
    }
    let find = "SELECT 1 FROM zero.sessions WHERE id = $1 AND NOT removed";
    let found = database.single(TransactionKind::Read, find, &[&id]).await?;
    Err(if found.is_empty() { no_session_error(session) } else { claim_lost_error(session) })
}

/// Starts a new transcript of a locked session, with these messages.
pub(super) async fn start_transcript(
    transaction: &Transaction,
    session: &LockedSession,
    why: TranscriptStart,
    bodies: &[String],
    now_ms: i64,
) -> Result<u64, PostgresError> {
    let next = session.transcript.saturating_add(1);
    insert_transcript(transaction, session.row, next, why, now_ms).await?;
    let texts: Vec<&str> = bodies.iter().map(String::as_str).collect();
    transaction
        .run(
            "INSERT INTO zero.messages (session, transcript, position, body)
             SELECT $1, $2, position, body
             FROM unnest($3::text[]) WITH ORDINALITY AS message (body, position)",
            &[&session.row, &next, &texts],
        )
        .await?;
    transaction
        .run(
            "UPDATE zero.sessions SET transcript = $2, last_message = $3, context_tokens = NULL,
                 bytes = bytes + $4
             WHERE row_id = $1",
            &[&session.row, &next, &to_sql_int(bodies.len() as u64), &byte_count(bodies)],
        )
        .await?;
    Ok(from_sql_int(next))
}

fn byte_count(bodies: &[String]) -> i64 {
    to_sql_int(bodies.iter().map(String::len).sum::<usize>() as u64)
}
