//! Runs: each begins once and ends once.
//!
//! Messages of a run are added to the transcript while it works. Where they begin is stored with the
//! session, so that a copy can leave them out. Runs of a session work in the order in which they
//! began; those that wait have no messages yet.

use rusqlite::{Connection, OptionalExtension as _, Row};
use zero_core::{RunId, SessionId};

use super::claims;
use super::database_error::DatabaseError;
use super::sessions::{add_usage, find_row, from_json, no_session_error, to_json};
use super::{ledger, rewind_points};
use crate::event::TokenUsage;
use crate::store::{ClaimEpoch, ClaimOutcome, RunAddress, RunOptions, RunRecord};
use crate::stored_form::{EncodedEvents, RunEnd, RunInsertion};

/// Columns of a [`RunRecord`].
pub(super) const SELECT: &str = "SELECT runs.*, live_sessions.id AS session_id,
         EXISTS (SELECT 1 FROM open_questions
             WHERE open_questions.session = runs.session AND open_questions.run = runs.id)
             AS has_open_question
     FROM runs JOIN live_sessions ON live_sessions.row = runs.session";

/// A run to be inserted.
pub(super) struct RunRow {
    pub(super) id: RunId,
    pub(super) session: SessionId,
    pub(super) node: String,
    pub(super) started_ms: i64,
    /// The first words of its prompt.
    pub(super) words: Option<String>,
    pub(super) options: RunOptions,
}

pub(super) fn begin(
    db: &Connection,
    run: &RunRow,
    first: &EncodedEvents,
) -> Result<RunInsertion, DatabaseError> {
    let owner = read_owner(db, &run.session)?;
    if let Some(existing) = find_by_id(db, Some(&owner), &run.id)? {
        return Ok(RunInsertion::Existing(existing));
    }
    let claim = match claims::claim(db, &run.session, &run.node, None)? {
        ClaimOutcome::Claimed(claim) => claim,
        ClaimOutcome::Held(claim) => return Ok(RunInsertion::Held(claim)),
    };
    let session = find_row(db, &run.session)?;
    if !claims::has_unfinished_runs(db, session)? {
        mark_completed(db, session)?;
    }
    // A run with this id can only belong to a session whose deletion has begun.
    db.prepare_cached("DELETE FROM runs WHERE owner = ? AND id = ?")?
        .execute((&owner, run.id.as_str()))?;
    db.prepare_cached(
        "INSERT INTO runs (owner, id, session, node, started_ms, usage, options)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute((
        &owner,
        run.id.as_str(),
        session,
        &run.node,
        run.started_ms,
        to_json(&TokenUsage::default())?,
        to_json(&run.options)?,
    ))?;
    let first_seq = ledger::append_in_transaction(db, &run.session, first)?;
    if let Some(words) = &run.words {
        let (id, time_ms) = (&run.id, run.started_ms);
        rewind_points::insert_prompt(db, session, first_seq, id, time_ms, words)?;
        rewind_points::set_position(db, session)?;
    }
    Ok(RunInsertion::Inserted { first_seq, claim })
}

fn read_owner(db: &Connection, session: &SessionId) -> Result<String, DatabaseError> {
    let mut read = db.prepare_cached("SELECT owner FROM live_sessions WHERE id = ?")?;
    let owner = read.query_row([session.as_str()], |row| row.get(0)).optional()?;
    owner.ok_or_else(|| no_session_error(session))
}

/// Ends a run and returns the sequence number of the first of its last entries; `None` if it had
/// already ended or is unknown.
pub(super) fn end(
    db: &Connection,
    run: &RunAddress,
    claim: ClaimEpoch,
    end: &RunEnd,
    last: &EncodedEvents,
) -> Result<Option<u64>, DatabaseError> {
    let Some(record) = find(db, run)? else { return Ok(None) };
    if record.end.is_some() {
        return Ok(None);
    }
    let session = claims::check(db, &run.session, claim)?;
    let id = run.run.as_str();
    db.prepare_cached(
        "UPDATE runs SET ended_ms = ?, end = ?, usage = ? WHERE session = ? AND id = ?",
    )?
    .execute((end.ended_ms, to_json(&end.outcome)?, to_json(&end.usage)?, session, id))?;
    let mut find_older = db.prepare_cached(
        "SELECT 1 FROM runs WHERE session = ?1 AND end IS NULL
             AND row < (SELECT row FROM runs WHERE session = ?1 AND id = ?2) LIMIT 1",
    )?;
    if !find_older.exists((session, id))? {
        mark_completed(db, session)?;
    }
    rewind_points::set_position(db, session)?;
    add_usage(db, session, end.usage)?;
    ledger::append_in_transaction(db, &run.session, last).map(Some)
}

/// Stores that the transcript up to here is of runs that have ended.
fn mark_completed(db: &Connection, session: i64) -> Result<(), DatabaseError> {
    db.prepare_cached(
        "UPDATE sessions SET completed_transcript = transcript,
             completed_messages = (SELECT coalesce(max(position) + 1, 0) FROM messages
                 WHERE messages.session = ?1 AND messages.transcript = sessions.transcript)
         WHERE row = ?1",
    )?
    .execute([session])?;
    Ok(())
}

pub(super) fn find(db: &Connection, run: &RunAddress) -> Result<Option<RunRecord>, DatabaseError> {
    let mut statement =
        db.prepare_cached(&format!("{SELECT} WHERE live_sessions.id = ? AND runs.id = ?"))?;
    let mut rows = statement.query((run.session.as_str(), run.run.as_str()))?;
    rows.next()?.map(read_record).transpose()
}

/// The run of an owner with that id; without an owner, the newest of all.
pub(super) fn find_by_id(
    db: &Connection,
    owner: Option<&str>,
    run: &RunId,
) -> Result<Option<RunRecord>, DatabaseError> {
    let mut statement = db.prepare_cached(&format!(
        "{SELECT} WHERE runs.id = ?2 AND (?1 IS NULL OR runs.owner = ?1)
         ORDER BY runs.row DESC LIMIT 1"
    ))?;
    let mut rows = statement.query((owner, run.as_str()))?;
    rows.next()?.map(read_record).transpose()
}

/// Records that a process continues an unfinished run.
pub(super) fn adopt(
    db: &Connection,
    run: &RunAddress,
    claim: ClaimEpoch,
    node: &str,
) -> Result<(), DatabaseError> {
    if find(db, run)?.is_none() {
        return Ok(());
    }
    let session = claims::check(db, &run.session, claim)?;
    db.prepare_cached("UPDATE runs SET node = ? WHERE session = ? AND id = ? AND end IS NULL")?
        .execute((node, session, run.run.as_str()))?;
    Ok(())
}

/// Runs that have begun and not ended, oldest first.
pub(super) fn list_unfinished(
    db: &Connection,
    session: Option<&SessionId>,
) -> Result<Vec<RunRecord>, DatabaseError> {
    let mut statement = db.prepare_cached(&format!(
        "{SELECT} WHERE runs.end IS NULL
             AND (?1 IS NULL OR runs.session = (SELECT row FROM live_sessions WHERE id = ?1))
         ORDER BY runs.started_ms, runs.row"
    ))?;
    let mut rows = statement.query([session.map(SessionId::as_str)])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        match read_record(row) {
            // Does not concern the other sessions.
            Err(error @ DatabaseError::InvalidData(_)) if session.is_none() => {
                tracing::error!(?error, "a run cannot be read");
            }
            record => runs.push(record?),
        }
    }
    Ok(runs)
}

pub(super) fn read_record(row: &Row<'_>) -> Result<RunRecord, DatabaseError> {
    let id: String = row.get("id")?;
    let session: String = row.get("session_id")?;
    let end: Option<String> = row.get("end")?;
    let usage: String = row.get("usage")?;
    Ok(RunRecord {
        id: RunId::new(id)
            .map_err(|error| DatabaseError::invalid_data("the id of a run", error))?,
        session: SessionId::new(session)
            .map_err(|error| DatabaseError::invalid_data("the session of a run", error))?,
        node: row.get("node")?,
        started_ms: row.get("started_ms")?,
        ended_ms: row.get("ended_ms")?,
        end: end.map(|end| from_json("the end of a run", &end)).transpose()?,
        usage: from_json("the usage of a run", &usage)?,
        // An older zero stored none.
        options: match row.get::<_, Option<String>>("options")? {
            Some(options) => from_json("the options of a run", &options)?,
            None => RunOptions::default(),
        },
        has_open_question: row.get("has_open_question")?,
    })
}
