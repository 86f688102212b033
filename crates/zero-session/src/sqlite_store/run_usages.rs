//! What runs have used; kept when their sessions are deleted.

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql};
use zero_core::{RunId, SessionId};

use super::database_error::DatabaseError;
use super::sessions::{from_json, to_json};
use crate::event::RootRun;
use crate::run_usage::{RunUsage, RunUsageOwner, RunUsageQuery, UsageEntry};

/// Updates the usage of runs from entries that are written in the same transaction.
pub(super) fn apply(
    db: &Connection,
    session: &SessionId,
    entries: &[UsageEntry],
) -> Result<(), DatabaseError> {
    let mut current: Option<RunUsage> = None;
    for entry in entries {
        if current.as_ref().is_none_or(|current| current.run != entry.run) {
            write(db, current.take().as_ref())?;
            current = find(db, &entry.run)?;
        }
        match &mut current {
            Some(current) => current.apply(entry),
            None => current = RunUsage::begin(entry, read_owner(db, session)?),
        }
    }
    write(db, current.as_ref())
}

fn read_owner(db: &Connection, session: &SessionId) -> Result<RunUsageOwner, DatabaseError> {
    let mut read = db.prepare_cached("SELECT owner, key FROM sessions WHERE id = ?")?;
    let (owner, session_key) =
        read.query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(RunUsageOwner { session: session.clone(), session_key, owner })
}

fn find(db: &Connection, run: &RunId) -> Result<Option<RunUsage>, DatabaseError> {
    let mut find = db.prepare_cached("SELECT * FROM run_usage WHERE run = ?")?;
    find.query_row([run.as_str()], |row| Ok(read_row(row))).optional()?.transpose()
}

fn write(db: &Connection, usage: Option<&RunUsage>) -> Result<(), DatabaseError> {
    let Some(usage) = usage else { return Ok(()) };
    let root = usage.root.as_ref();
    db.prepare_cached(
        "INSERT OR REPLACE INTO run_usage (run, session, session_key, owner, agent, model,
             started_ms, usage, root_run, root_session, root_agent)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute((
        usage.run.as_str(),
        usage.session.as_str(),
        &usage.session_key,
        &usage.owner,
        &usage.agent,
        &usage.model,
        usage.started_ms,
        to_json(&usage.usage)?,
        root.map(|root| root.run.as_str()),
        root.map(|root| root.session.as_str()),
        root.map(|root| &*root.agent),
    ))?;
    Ok(())
}

/// A run and those of its sub-agents, each as often as it has a value.
const OF_AGENT: &[&str] = &[" AND (agent = ?", " OR root_agent = ?)"];
const OF_SESSION: &[&str] = &[" AND (session = ?", " OR root_session = ?)"];
const OF_RUN: &[&str] = &[" AND (run = ?", " OR root_run = ?)"];

/// The selected runs, oldest first, at most [`RunUsageQuery::PAGE_MAX`].
pub(super) fn list(db: &Connection, query: &RunUsageQuery) -> Result<Vec<RunUsage>, DatabaseError> {
    let mut text = "SELECT * FROM run_usage WHERE started_ms >= ?".to_owned();
    let mut values: Vec<&dyn ToSql> = vec![&query.since_ms];
    let session = query.session.as_ref().map(SessionId::as_str);
    let run = query.run.as_ref().map(RunId::as_str);
    let conditions = [
        (&[" AND owner = ?"][..], query.owner.as_ref().map(|owner| owner as &dyn ToSql)),
        (OF_AGENT, query.agent.as_ref().map(|agent| agent as &dyn ToSql)),
        (OF_SESSION, session.as_ref().map(|session| session as &dyn ToSql)),
        (OF_RUN, run.as_ref().map(|run| run as &dyn ToSql)),
    ];
    for (condition, value) in conditions {
        if let Some(value) = value {
            text.extend(condition.iter().copied());
            values.extend(condition.iter().map(|_| value));
        }
    }
    let after = query.after.as_ref().map(|(started_ms, run)| (*started_ms, run.as_str()));
    if let Some((started_ms, run)) = &after {
        text.push_str(" AND (started_ms, run) > (?, ?)");
        values.extend([started_ms as &dyn ToSql, run]);
    }
    text.push_str(&format!(" ORDER BY started_ms, run LIMIT {}", RunUsageQuery::PAGE_MAX));
    let mut statement = db.prepare_cached(&text)?;
    let mut rows = statement.query(&*values)?;
    let mut usages = Vec::new();
    while let Some(row) = rows.next()? {
        usages.push(read_row(row)?);
    }
    Ok(usages)
}

/// Removes the usage of some runs that began before a time; returns whether there may be more.
pub(super) fn expire(db: &Connection, before_ms: i64) -> Result<bool, DatabaseError> {
    let removed = db
        .prepare_cached(&format!(
            "DELETE FROM run_usage WHERE run IN
                 (SELECT run FROM run_usage WHERE started_ms < ? LIMIT {})",
            RunUsageQuery::PAGE_MAX
        ))?
        .execute([before_ms])?;
    Ok(removed == RunUsageQuery::PAGE_MAX)
}

fn read_root(row: &Row<'_>) -> Result<Option<RootRun>, DatabaseError> {
    let text = |name: &str| row.get::<_, Option<String>>(name);
    let (Some(run), Some(session), Some(agent)) =
        (text("root_run")?, text("root_session")?, text("root_agent")?)
    else {
        return Ok(None);
    };
    let invalid = |error| DatabaseError::invalid_data("the run of a sub-agent", error);
    let (run, session) =
        (RunId::new(run).map_err(invalid)?, SessionId::new(session).map_err(invalid)?);
    Ok(Some(RootRun { session, run, agent }))
}

fn read_row(row: &Row<'_>) -> Result<RunUsage, DatabaseError> {
    let id = |what: &'static str, error| DatabaseError::invalid_data(what, error);
    let (run, session): (String, String) = (row.get("run")?, row.get("session")?);
    let usage: String = row.get("usage")?;
    Ok(RunUsage {
        run: RunId::new(run).map_err(|error| id("the run of a usage", error))?,
        session: SessionId::new(session).map_err(|error| id("the session of a usage", error))?,
        session_key: row.get("session_key")?,
        owner: row.get("owner")?,
        agent: row.get("agent")?,
        model: row.get("model")?,
        started_ms: row.get("started_ms")?,
        usage: from_json("the usage of a run", &usage)?,
        root: read_root(row)?,
    })
}
