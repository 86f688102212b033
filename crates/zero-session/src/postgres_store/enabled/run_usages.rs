//! What runs have used; kept when their sessions are deleted.

use tokio_postgres::Row;
use zero_core::{RunId, SessionId};

use super::database::{Database, SqlValue, Transaction, TransactionKind};
use super::postgres_error::PostgresError;
use super::sessions::{from_json, read_id, storable};
use crate::event::{RootRun, TokenUsage};
use crate::run_usage::{
    RunUsage, RunUsageOwner, RunUsageQuery, StoredUsage, UsageEntry, UsageTotal,
};
use crate::store::RunAddress;
use crate::stored_form::{to_json, to_sql_int};

/// Columns of a [`RunUsage`].
const COLUMNS: &str = "run, session, session_key, owner, agent, model, started_ms,
    usage::text AS usage, root_run, root_session, root_agent";

/// Selects runs; the values are those of [`QueryValues`].
const FILTER: &str = "started_ms >= $1 AND ($2::text IS NULL OR owner = $2)
    AND ($3::text IS NULL OR agent = $3 OR root_agent = $3)
    AND ($4::text IS NULL OR session = $4 OR root_session = $4)
    AND ($5::text IS NULL OR run = $5 OR root_run = $5)
    AND ($6::int8 IS NULL OR (started_ms, run, session) > ($6, $7::text, $8::text))";

struct QueryValues<'a> {
    since_ms: i64,
    owner: Option<String>,
    agent: Option<String>,
    session: Option<&'a str>,
    run: Option<&'a str>,
    after_ms: Option<i64>,
    after_run: Option<&'a str>,
    after_session: Option<&'a str>,
}

impl<'a> QueryValues<'a> {
    fn new(query: &'a RunUsageQuery) -> Self {
        let text = |text: &Option<String>| text.as_deref().map(|text| storable(text).into_owned());
        Self {
            since_ms: query.since_ms,
            owner: text(&query.owner),
            agent: text(&query.agent),
            session: query.session.as_ref().map(SessionId::as_str),
            run: query.run.as_ref().map(RunId::as_str),
            after_ms: query.after.as_ref().map(|(started_ms, _)| *started_ms),
            after_run: query.after.as_ref().map(|(_, after)| after.run.as_str()),
            after_session: query.after.as_ref().map(|(_, after)| after.session.as_str()),
        }
    }

    /// The values, and more of them after these.
    fn with<'v>(&'v self, more: &[&'v dyn SqlValue]) -> Vec<&'v dyn SqlValue> {
        let own: [&dyn SqlValue; 8] = [
            &self.since_ms,
            &self.owner,
            &self.agent,
            &self.session,
            &self.run,
            &self.after_ms,
            &self.after_run,
            &self.after_session,
        ];
        own.into_iter().chain(more.iter().copied()).collect()
    }
}

/// Updates the usage of runs from entries that are written in the same transaction.
pub(super) async fn apply(
    transaction: &Transaction,
    session: &SessionId,
    entries: &[UsageEntry],
) -> Result<(), PostgresError> {
    let mut current: Option<RunUsage> = None;
    for entry in entries {
        if current.as_ref().is_none_or(|current| current.run != entry.run) {
            write(transaction, current.take().as_ref()).await?;
            current = find(transaction, session, &entry.run).await?;
        }
        match &mut current {
            Some(current) => current.apply(entry),
            None => {
                current = RunUsage::begin(entry, read_owner(transaction, session).await?);
            }
        }
    }
    write(transaction, current.as_ref()).await
}

async fn read_owner(
    transaction: &Transaction,
    session: &SessionId,
) -> Result<RunUsageOwner, PostgresError> {
    let read = "SELECT owner, key FROM zero.sessions WHERE id = $1";
    let found = transaction.first(read, &[&session.as_str()]).await?;
    let row = found.ok_or_else(|| super::claims::no_session_error(session))?;
    let (owner, session_key) = (row.try_get(0)?, row.try_get(1)?);
    Ok(RunUsageOwner { session: session.clone(), session_key, owner })
}

async fn find(
    transaction: &Transaction,
    session: &SessionId,
    run: &RunId,
) -> Result<Option<RunUsage>, PostgresError> {
    let sql = format!("SELECT {COLUMNS} FROM zero.run_usage WHERE run = $1 AND session = $2");
    let found = transaction.first(&sql, &[&run.as_str(), &session.as_str()]).await?;
    found.as_ref().map(read_row).transpose()
}

async fn write(transaction: &Transaction, usage: Option<&RunUsage>) -> Result<(), PostgresError> {
    let Some(usage) = usage else { return Ok(()) };
    let root = usage.root.as_ref();
    let root_agent = root.map(|root| storable(&root.agent));
    transaction
        .run(
            "INSERT INTO zero.run_usage (run, session, session_key, owner, agent, model, started_ms,
                 usage, root_run, root_session, root_agent)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8::text::jsonb, $9, $10, $11)
             ON CONFLICT (run, session) DO UPDATE SET model = excluded.model, usage = excluded.usage",
            &[
                &usage.run.as_str(),
                &usage.session.as_str(),
                &usage.session_key.as_str(),
                &usage.owner.as_str(),
                &&*storable(&usage.agent),
                &&*storable(&usage.model),
                &usage.started_ms,
                &to_json(&usage.to_stored())?,
                &root.map(|root| root.run.as_str()),
                &root.map(|root| root.session.as_str()),
                &root_agent.as_deref(),
            ],
        )
        .await
}

/// What the selected runs have used together, except one of them.
pub(super) async fn sum(
    database: &Database,
    query: &RunUsageQuery,
    except: Option<&RunAddress>,
) -> Result<UsageTotal, PostgresError> {
    let number = |name: &str| format!("(usage ->> '{name}')::numeric");
    // Exact, and as text since sums may be larger than any number of the protocol.
    let sum = |value: &str, condition: &str| {
        format!("least(coalesce(sum({value}){condition}, 0), {})::text", u64::MAX)
    };
    let unpriced = " FILTER (WHERE usage ->> 'cost_usd' IS NULL)";
    let columns = [
        sum(&number("input_tokens"), ""),
        sum(&number("output_tokens"), ""),
        sum(&number("cache_read_tokens"), ""),
        sum(&number("cache_write_tokens"), ""),
        sum(&number("requests"), ""),
        sum(&number("tool_calls"), ""),
        // The time of a sub-agent is part of its parent's.
        sum(&number("work_ms"), " FILTER (WHERE root_run IS NULL)"),
        sum(&number("failed_calls"), ""),
        sum(&number("call_ms"), ""),
        sum(&number("failed_runs"), ""),
        sum(&number("input_tokens"), unpriced),
        sum(&number("output_tokens"), unpriced),
    ];
    let sql = format!(
        "SELECT count(*), sum((usage ->> 'cost_usd')::float8), {} FROM zero.run_usage
         WHERE {FILTER} AND NOT (run = $9 AND session = $10)",
        columns.join(", ")
    );
    let values = QueryValues::new(query);
    // No run has an empty id.
    let (run, session) = except.map_or(("", ""), |one| (one.run.as_str(), one.session.as_str()));
    let rows =
        database.single(TransactionKind::Read, &sql, &values.with(&[&run, &session])).await?;
    let Some(row) = rows.first() else { return Ok(UsageTotal::default()) };
    let total = |at: usize| -> Result<u64, PostgresError> {
        let text: &str = row.try_get(at)?;
        text.parse().map_err(|error| PostgresError::invalid_data("a sum of usage", error))
    };
    Ok(UsageTotal {
        runs: row.try_get::<_, i64>(0)?.unsigned_abs(),
        usage: TokenUsage {
            cost_usd: row.try_get(1)?,
            input_tokens: total(2)?,
            output_tokens: total(3)?,
            cache_read_tokens: total(4)?,
            cache_write_tokens: total(5)?,
            requests: total(6)?,
            tool_calls: total(7)?,
            work_ms: total(8)?,
            failed_calls: total(9)?,
            call_ms: total(10)?,
            failed_runs: total(11)?,
        },
        unpriced_input_tokens: total(12)?,
        unpriced_output_tokens: total(13)?,
    })
}

/// The selected runs, oldest first, at most [`RunUsageQuery::PAGE_MAX`].
pub(super) async fn list(
    database: &Database,
    query: &RunUsageQuery,
) -> Result<Vec<RunUsage>, PostgresError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM zero.run_usage WHERE {FILTER} ORDER BY started_ms, run, session
         LIMIT $9"
    );
    let values = QueryValues::new(query);
    let limit = to_sql_int(RunUsageQuery::PAGE_MAX as u64);
    let rows = database.single(TransactionKind::Read, &sql, &values.with(&[&limit])).await?;
    rows.iter().map(read_row).collect()
}

/// Removes the usage of some runs that began before a time; returns whether there may be more.
pub(super) async fn expire(database: &Database, before_ms: i64) -> Result<bool, PostgresError> {
    let limit = to_sql_int(RunUsageQuery::PAGE_MAX as u64);
    let rows = database
        .single(
            TransactionKind::Write,
            "WITH removed AS (DELETE FROM zero.run_usage WHERE (run, session) IN
                 (SELECT run, session FROM zero.run_usage WHERE started_ms < $1
                  ORDER BY run, session LIMIT $2)
                 RETURNING 1)
             SELECT count(*) FROM removed",
            &[&before_ms, &limit],
        )
        .await?;
    Ok(rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))? == limit)
}

fn read_row(row: &Row) -> Result<RunUsage, PostgresError> {
    let run = |id: String| {
        RunId::new(id).map_err(|error| PostgresError::invalid_data("the run of a usage", error))
    };
    let text = |name: &str| row.try_get::<_, Option<String>>(name);
    let root = match (text("root_run")?, text("root_session")?, text("root_agent")?) {
        (Some(root), Some(session), Some(agent)) => {
            Some(RootRun { session: read_id(session)?, run: run(root)?, agent })
        }
        _ => None,
    };
    let StoredUsage { usage, earlier } = from_json("the usage of a run", row.try_get("usage")?)?;
    Ok(RunUsage {
        run: run(row.try_get("run")?)?,
        session: read_id(row.try_get("session")?)?,
        session_key: row.try_get("session_key")?,
        owner: row.try_get("owner")?,
        agent: row.try_get("agent")?,
        model: row.try_get("model")?,
        started_ms: row.try_get("started_ms")?,
        usage,
        earlier,
        root,
    })
}
