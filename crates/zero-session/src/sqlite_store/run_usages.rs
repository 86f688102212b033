//! What runs have used; kept when their sessions are deleted.

use rusqlite::{Connection, OptionalExtension as _, Row, ToSql};
use zero_core::{RunId, SessionId};

use super::database_error::DatabaseError;
use super::sessions::{from_json, to_json};
use crate::event::{RootRun, TokenUsage};
use crate::run_usage::{
    RunUsage, RunUsageOwner, RunUsageQuery, StoredUsage, UsageEntry, UsageTotal,
};
use crate::store::RunAddress;

/// The numbers of a usage, in the order in which they are summed.
const SUMMED_FIELDS: [&str; 10] = [
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "requests",
    "tool_calls",
    "work_ms",
    "failed_calls",
    "call_ms",
    "failed_runs",
];

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
            current = find(db, session, &entry.run)?;
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

fn find(
    db: &Connection,
    session: &SessionId,
    run: &RunId,
) -> Result<Option<RunUsage>, DatabaseError> {
    let mut find = db.prepare_cached("SELECT * FROM run_usage WHERE run = ? AND session = ?")?;
    let found = find.query_row([run.as_str(), session.as_str()], |row| Ok(read_row(row)));
    found.optional()?.transpose()
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
        to_json(&usage.to_stored())?,
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

/// What selects runs in SQL: the condition, and its values.
fn select(query: &RunUsageQuery) -> (String, Vec<Box<dyn ToSql>>) {
    let mut text = "started_ms >= ?".to_owned();
    let mut values: Vec<Box<dyn ToSql>> = vec![Box::new(query.since_ms)];
    let session = query.session.as_ref().map(|session| session.as_str().to_owned());
    let run = query.run.as_ref().map(|run| run.as_str().to_owned());
    let conditions = [
        (&[" AND owner = ?"][..], query.owner.clone()),
        (OF_AGENT, query.agent.clone()),
        (OF_SESSION, session),
        (OF_RUN, run),
    ];
    for (condition, value) in conditions {
        if let Some(value) = value {
            text.extend(condition.iter().copied());
            values.extend(condition.iter().map(|_| Box::new(value.clone()) as Box<dyn ToSql>));
        }
    }
    if let Some((started_ms, RunAddress { session, run })) = &query.after {
        text.push_str(" AND (started_ms, run, session) > (?, ?, ?)");
        let text = |id: &str| Box::new(id.to_owned()) as Box<dyn ToSql>;
        values.extend([Box::new(*started_ms), text(run.as_str()), text(session.as_str())]);
    }
    (text, values)
}

/// What the selected runs have used together, except one of them.
pub(super) fn sum(
    db: &Connection,
    query: &RunUsageQuery,
    except: Option<&RunAddress>,
) -> Result<UsageTotal, DatabaseError> {
    let (condition, mut values) = select(query);
    // No run has an empty id.
    let except = except.map_or(["", ""], |one| [one.run.as_str(), one.session.as_str()]);
    values.extend(except.map(|id| Box::new(id.to_owned()) as Box<dyn ToSql>));
    let field = |name: &str| format!("json_extract(usage, '$.{name}')");
    let fields = SUMMED_FIELDS.map(|name| match name {
        // The time of a sub-agent is part of its parent's.
        "work_ms" => format!("total(iif(root_run IS NULL, {}, 0))", field(name)),
        _ => format!("total({})", field(name)),
    });
    let unpriced = ["input_tokens", "output_tokens"]
        .map(|name| format!("total(iif({} IS NULL, {}, 0))", field("cost_usd"), field(name)));
    let text = format!(
        "SELECT count(*), sum({}), {}, {} FROM run_usage
         WHERE {condition} AND NOT (run = ? AND session = ?)",
        field("cost_usd"),
        fields.join(", "),
        unpriced.join(", ")
    );
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    let total = db.prepare_cached(&text)?.query_row(&*values, |row| {
        // A sum is exact up to 2^53, and huge ones stay huge.
        let number = |at: usize| row.get::<_, f64>(at).map(|sum| sum as u64);
        Ok(UsageTotal {
            runs: row.get::<_, i64>(0)?.unsigned_abs(),
            usage: TokenUsage {
                cost_usd: row.get(1)?,
                input_tokens: number(2)?,
                output_tokens: number(3)?,
                cache_read_tokens: number(4)?,
                cache_write_tokens: number(5)?,
                requests: number(6)?,
                tool_calls: number(7)?,
                work_ms: number(8)?,
                failed_calls: number(9)?,
                call_ms: number(10)?,
                failed_runs: number(11)?,
            },
            unpriced_input_tokens: number(12)?,
            unpriced_output_tokens: number(13)?,
        })
    });
    Ok(total?)
}

/// The selected runs, oldest first, at most [`RunUsageQuery::PAGE_MAX`].
pub(super) fn list(db: &Connection, query: &RunUsageQuery) -> Result<Vec<RunUsage>, DatabaseError> {
    let (condition, values) = select(query);
    let text = format!(
        "SELECT * FROM run_usage WHERE {condition} ORDER BY started_ms, run, session LIMIT {}",
        RunUsageQuery::PAGE_MAX
    );
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
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
            "DELETE FROM run_usage WHERE (run, session) IN
                 (SELECT run, session FROM run_usage WHERE started_ms < ? LIMIT {})",
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
    let stored: String = row.get("usage")?;
    let StoredUsage { usage, earlier } = from_json("the usage of a run", &stored)?;
    Ok(RunUsage {
        run: RunId::new(run).map_err(|error| id("the run of a usage", error))?,
        session: SessionId::new(session).map_err(|error| id("the session of a usage", error))?,
        session_key: row.get("session_key")?,
        owner: row.get("owner")?,
        agent: row.get("agent")?,
        model: row.get("model")?,
        started_ms: row.get("started_ms")?,
        usage,
        earlier,
        root: read_root(row)?,
    })
}
