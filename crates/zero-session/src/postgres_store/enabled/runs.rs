//! Runs: each begins once and ends once.

use tokio_postgres::Row;
use zero_core::RunId;

use super::claims::{self, LockedSession};
use super::database::Transaction;
use super::postgres_error::PostgresError;
use super::sessions::{add_usage, from_json, read_id};
use super::{ledger, rewind_points};
use crate::event::TokenUsage;
use crate::store::{ClaimEpoch, ClaimOutcome, NewRun, RunAddress, RunRecord};
use crate::stored_form::{EncodedEvents, RunEnd, RunInsertion, to_json};

/// Columns of a [`RunRecord`]; the table of sessions is joined.
const SELECT: &str = "SELECT runs.id, sessions.id AS session_id, runs.node, runs.started_ms,
        runs.ended_ms, runs.outcome, runs.usage, runs.options,
        EXISTS (SELECT 1 FROM zero.open_questions
            WHERE open_questions.session = runs.session AND open_questions.run = runs.id)
            AS has_open_question
    FROM zero.runs JOIN zero.sessions ON sessions.row_id = runs.session AND NOT sessions.removed";

pub(super) async fn begin(
    transaction: &Transaction,
    run: &NewRun,
    words: Option<&str>,
    first: &EncodedEvents,
) -> Result<RunInsertion, PostgresError> {
    if let Some(existing) = find_existing(transaction, run).await? {
        return Ok(RunInsertion::Existing(existing));
    }
    let (session, claim) = claims::claim(transaction, &run.session, &run.node, None).await?;
    // Another request may have begun it while this one waited for the lock.
    if let Some(existing) = find_existing(transaction, run).await? {
        return Ok(RunInsertion::Existing(existing));
    }
    let claim = match claim {
        ClaimOutcome::Claimed(claim) => claim,
        ClaimOutcome::Held(claim) => return Ok(RunInsertion::Held(claim)),
    };
    if !claims::has_unfinished_runs(transaction, session.row).await? {
        mark_completed(transaction, session.row).await?;
    }
    // A run with this id can only belong to a session whose deletion has begun.
    transaction
        .run(
            "DELETE FROM zero.runs USING zero.sessions
             WHERE sessions.row_id = $1 AND runs.owner = sessions.owner AND runs.id = $2",
            &[&session.row, &run.id.as_str()],
        )
        .await?;
    transaction
        .run(
            "INSERT INTO zero.runs (owner, id, session, node, started_ms, usage, options)
             SELECT owner, $1, row_id, $3, $4, $5, $6 FROM zero.sessions WHERE row_id = $2",
            &[
                &run.id.as_str(),
                &session.row,
                &run.node.as_str(),
                &run.started_ms,
                &to_json(&TokenUsage::default())?,
                &to_json(&run.options)?,
            ],
        )
        .await?;
    let first_seq = ledger::append_in_transaction(transaction, &run.session, first).await?;
    if let Some(words) = words {
        rewind_points::insert_prompt(transaction, session.row, first_seq, run, words).await?;
        rewind_points::set_position(transaction, session.row).await?;
    }
    Ok(RunInsertion::Inserted { first_seq, claim })
}

/// Ends a run and returns the sequence number of the first of its last entries; `None` if it had
/// already ended or is unknown.
pub(super) async fn end(
    transaction: &Transaction,
    run: &RunAddress,
    claim: ClaimEpoch,
    end: &RunEnd,
    last: &EncodedEvents,
) -> Result<Option<u64>, PostgresError> {
    let Some(session) = lock_unfinished(transaction, run).await? else { return Ok(None) };
    if session.epoch != claim {
        return Err(claims::claim_lost_error(&run.session));
    }
    let id = run.run.as_str();
    transaction
        .run(
            "UPDATE zero.runs SET ended_ms = $3, outcome = $4, usage = $5
             WHERE session = $1 AND id = $2",
            &[&session.row, &id, &end.ended_ms, &to_json(&end.outcome)?, &to_json(&end.usage)?],
        )
        .await?;
    let older = transaction
        .first(
            "SELECT 1 FROM zero.runs WHERE session = $1 AND outcome IS NULL
                 AND row_id < (SELECT row_id FROM zero.runs WHERE session = $1 AND id = $2)
             LIMIT 1",
            &[&session.row, &id],
        )
        .await?;
    if older.is_none() {
        mark_completed(transaction, session.row).await?;
    }
    rewind_points::set_position(transaction, session.row).await?;
    add_usage(transaction, session.row, end.usage).await?;
    ledger::append_in_transaction(transaction, &run.session, last).await.map(Some)
}

/// Locks the session of a run; `None` if the run is unknown or has ended.
async fn lock_unfinished(
    transaction: &Transaction,
    run: &RunAddress,
) -> Result<Option<LockedSession>, PostgresError> {
    let is_open = |found: Option<RunRecord>| found.is_some_and(|found| found.end.is_none());
    if !is_open(find(transaction, run).await?) {
        return Ok(None);
    }
    let session = claims::lock(transaction, &run.session).await?;
    // Another request may have ended it while this one waited for the lock.
    Ok(is_open(find(transaction, run).await?).then_some(session))
}

/// Records that a process continues an unfinished run.
pub(super) async fn adopt(
    transaction: &Transaction,
    run: &RunAddress,
    claim: ClaimEpoch,
    node: &str,
) -> Result<(), PostgresError> {
    if find(transaction, run).await?.is_none() {
        return Ok(());
    }
    let session = claims::lock_claimed(transaction, &run.session, claim).await?;
    let adopt = "UPDATE zero.runs SET node = $1
                 WHERE session = $2 AND id = $3 AND outcome IS NULL";
    transaction.run(adopt, &[&node, &session.row, &run.run.as_str()]).await
}

/// Stores that the transcript up to here is of runs that have ended.
async fn mark_completed(transaction: &Transaction, session: i64) -> Result<(), PostgresError> {
    let mark = "UPDATE zero.sessions
                SET completed_transcript = transcript, completed_messages = last_message + 1
                WHERE row_id = $1";
    transaction.run(mark, &[&session]).await
}

pub(super) async fn find(
    transaction: &Transaction,
    run: &RunAddress,
) -> Result<Option<RunRecord>, PostgresError> {
    let sql = format!("{SELECT} WHERE sessions.id = $1 AND runs.id = $2");
    let found = transaction.first(&sql, &[&run.session.as_str(), &run.run.as_str()]).await?;
    found.as_ref().map(read_record).transpose()
}

/// The run of an owner with that id; without an owner, the newest of all.
pub(super) async fn find_by_id(
    transaction: &Transaction,
    owner: Option<&str>,
    run: &RunId,
) -> Result<Option<RunRecord>, PostgresError> {
    let sql = format!(
        "{SELECT} WHERE runs.id = $1 AND ($2::text IS NULL OR runs.owner = $2)
         ORDER BY runs.row_id DESC LIMIT 1"
    );
    let found = transaction.first(&sql, &[&run.as_str(), &owner]).await?;
    found.as_ref().map(read_record).transpose()
}

/// The run of the same owner that has the id of a new one.
async fn find_existing(
    transaction: &Transaction,
    run: &NewRun,
) -> Result<Option<RunRecord>, PostgresError> {
    let sql = format!(
        "{SELECT} WHERE runs.id = $1
             AND runs.owner = (SELECT owner FROM zero.sessions WHERE id = $2)"
    );
    let found = transaction.first(&sql, &[&run.id.as_str(), &run.session.as_str()]).await?;
    found.as_ref().map(read_record).transpose()
}

/// Runs that have begun and not ended, oldest first.
pub(super) async fn list_unfinished(
    transaction: &Transaction,
    session: Option<&str>,
) -> Result<Vec<RunRecord>, PostgresError> {
    let sql = format!(
        "{SELECT} WHERE runs.outcome IS NULL AND ($1::text IS NULL OR sessions.id = $1)
         ORDER BY runs.started_ms, runs.row_id"
    );
    let mut runs = Vec::new();
    for row in transaction.rows(&sql, &[&session]).await? {
        match read_record(&row) {
            // Does not concern the other sessions.
            Err(error @ PostgresError::InvalidData(_)) if session.is_none() => {
                tracing::error!(?error, "a run cannot be read");
            }
            record => runs.push(record?),
        }
    }
    Ok(runs)
}

fn read_record(row: &Row) -> Result<RunRecord, PostgresError> {
    let id: String = row.try_get("id")?;
    let end: Option<&str> = row.try_get("outcome")?;
    Ok(RunRecord {
        id: RunId::new(id)
            .map_err(|error| PostgresError::invalid_data("the id of a run", error))?,
        session: read_id(row.try_get("session_id")?)?,
        node: row.try_get("node")?,
        started_ms: row.try_get("started_ms")?,
        ended_ms: row.try_get("ended_ms")?,
        end: end.map(|end| from_json("the end of a run", end)).transpose()?,
        usage: from_json("the usage of a run", row.try_get("usage")?)?,
        options: from_json("the options of a run", row.try_get("options")?)?,
        has_open_question: row.try_get("has_open_question")?,
    })
}
