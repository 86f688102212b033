//! The points before which a session can be rewound or copied: its prompts, and its rewinds.
//!
//! Where the transcript was is known once no earlier run is left: a prompt that waits for another gets
//! its position when that one ends.

use zero_core::SessionId;

use super::claims;
use super::database::Transaction;
use super::postgres_error::PostgresError;
use super::sessions::{from_json, storable};
use super::{ledger, transcripts};
use crate::store::{
    ClaimEpoch, NewEvent, NewRun, RewindPoint, RewindPointKind, StoreError, TranscriptPosition,
    TranscriptStart,
};
use crate::stored_form::{EncodedEvents, RewindRow, from_sql_int, to_json, to_sql_int};

/// Stores the point before a prompt, without a position.
pub(super) async fn insert_prompt(
    transaction: &Transaction,
    session: i64,
    seq: u64,
    run: &NewRun,
    words: &str,
) -> Result<(), PostgresError> {
    let sql = "INSERT INTO zero.rewind_points (session, seq, run, time_ms, words)
               VALUES ($1, $2, $3, $4, $5)";
    let (seq, run_id, words) = (to_sql_int(seq), run.id.as_str(), storable(words));
    transaction.run(sql, &[&session, &seq, &run_id, &run.started_ms, &&*words]).await
}

/// Stores where the transcript is as the position of the oldest unfinished run.
pub(super) async fn set_position(
    transaction: &Transaction,
    session: i64,
) -> Result<(), PostgresError> {
    transaction
        .run(
            "UPDATE zero.rewind_points
             SET transcript = sessions.transcript, messages = sessions.last_message
             FROM zero.sessions
             WHERE sessions.row_id = $1 AND rewind_points.session = $1
                 AND rewind_points.transcript IS NULL AND rewind_points.run =
                     (SELECT id FROM zero.runs WHERE runs.session = $1 AND outcome IS NULL
                      ORDER BY row_id LIMIT 1)",
            &[&session],
        )
        .await
}

/// The points of a session, oldest first.
pub(super) async fn list(
    transaction: &Transaction,
    session: &SessionId,
) -> Result<Vec<RewindPoint>, PostgresError> {
    let row = ledger::find_row(transaction, session).await?;
    let sql = "SELECT seq, time_ms, words, rewind, before, transcript, messages, scope
               FROM zero.rewind_points WHERE session = $1 ORDER BY seq";
    let (mut points, mut number) = (Vec::new(), 0);
    for row in transaction.rows(sql, &[&row]).await? {
        let kind = match row.try_get::<_, Option<String>>(3)? {
            Some(id) => {
                let before = row.try_get::<_, Option<i64>>(4)?.map(from_sql_int);
                let scope = from_json("the scope of a rewind", row.try_get(7)?)?;
                RewindPointKind::Rewind { id, before, scope }
            }
            None => {
                number += 1;
                RewindPointKind::Prompt { number, words: row.try_get(2)? }
            }
        };
        let transcript = row.try_get::<_, Option<i64>>(5)?.map(from_sql_int);
        let messages = row.try_get::<_, Option<i64>>(6)?.map(from_sql_int);
        points.push(RewindPoint {
            seq: from_sql_int(row.try_get(0)?),
            time_ms: row.try_get(1)?,
            kind,
            position: transcript
                .zip(messages)
                .map(|(transcript, messages)| TranscriptPosition { transcript, messages }),
        });
    }
    Ok(points)
}

/// Stores a rewind: a new transcript with the messages before a point, and the entry about it. Returns
/// the sequence number of that.
pub(super) async fn rewind(
    transaction: &Transaction,
    session: &SessionId,
    claim: ClaimEpoch,
    rewind: &RewindRow,
    entry: &EncodedEvents,
) -> Result<u64, PostgresError> {
    let locked = claims::lock_claimed(transaction, session, claim).await?;
    if let Some(position) = rewind.position {
        let from = to_sql_int(position.transcript);
        if !(1..=locked.transcript).contains(&from) {
            let (session, number) = (session.to_string(), position.transcript);
            return Err(StoreError::NoTranscript { session, number }.into());
        }
        let why = TranscriptStart::Rewound;
        let next =
            transcripts::start_transcript(transaction, &locked, why, &[], rewind.time_ms).await?;
        let messages = to_sql_int(position.messages);
        copy_messages(transaction, locked.row, from, messages, to_sql_int(next)).await?;
    }
    let seq = ledger::append_in_transaction(transaction, session, entry).await?;
    let RewindPointKind::Rewind { id, before, scope } = &rewind.kind else {
        return Err(NewEvent::not_a_rewind().into());
    };
    transaction
        .run(
            "INSERT INTO zero.rewind_points (session, seq, time_ms, words, rewind, before, scope,
                 transcript, messages)
             VALUES ($1, $2, $3, '', $4, $5, $6, $7, $8)",
            &[
                &locked.row,
                &to_sql_int(seq),
                &rewind.time_ms,
                &id.as_str(),
                &before.map(to_sql_int),
                &to_json(scope)?,
                &locked.transcript,
                &locked.last_message,
            ],
        )
        .await?;
    Ok(seq)
}

/// Copies the first messages of a transcript to the current, empty one of the session.
async fn copy_messages(
    transaction: &Transaction,
    session: i64,
    from: i64,
    count: i64,
    to: i64,
) -> Result<(), PostgresError> {
    let copy = "INSERT INTO zero.messages (session, transcript, position, body)
                SELECT session, $4, position, body FROM zero.messages
                WHERE session = $1 AND transcript = $2 AND position <= $3";
    transaction.run(copy, &[&session, &from, &count, &to]).await?;
    transaction
        .run(
            "UPDATE zero.sessions SET last_message = copied.last, bytes = sessions.bytes + copied.bytes
             FROM (SELECT coalesce(max(position), 0) AS last,
                       coalesce(sum(octet_length(body)), 0)::int8 AS bytes
                   FROM zero.messages WHERE session = $1 AND transcript = $2) AS copied
             WHERE row_id = $1",
            &[&session, &to],
        )
        .await
}
