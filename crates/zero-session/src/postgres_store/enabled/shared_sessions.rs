//! What the processes that share the database know of each other's sessions.

use zero_core::SessionId;

use super::claims::no_session_error;
use super::database::{Database, SqlValues, TransactionKind};
use super::ledger;
use super::postgres_error::PostgresError;
use super::sessions::read_id;
use crate::cluster_node::{AbandonedSession, EventsBySession, HOME_SEPARATOR, SessionPlacement};
use crate::store::{LedgerReadLimit, ToolHostLocation};
use crate::stored_form::{from_sql_int, to_json, to_sql_int};

pub(super) async fn list_abandoned(
    database: &Database,
) -> Result<Vec<AbandonedSession>, PostgresError> {
    let list = "SELECT id, home, tool_host <> $1 FROM zero.sessions
        WHERE row_id IN (SELECT session FROM zero.runs WHERE outcome IS NULL) AND NOT removed
            AND NOT EXISTS (SELECT 1 FROM zero.open_questions
                WHERE open_questions.session = sessions.row_id)
            AND NOT EXISTS (SELECT 1 FROM zero.nodes
                WHERE name = sessions.node AND lease_until > clock_timestamp())
        ORDER BY row_id LIMIT $2";
    let gateway = to_json(&ToolHostLocation::Gateway)?;
    let values: SqlValues<'_> = &[&gateway, &to_sql_int(AbandonedSession::LIST_MAX)];
    let rows = database.single(TransactionKind::Read, list, values).await?;
    rows.iter()
        .map(|row| {
            Ok(AbandonedSession {
                session: read_id(row.try_get(0)?)?,
                home: row.try_get(1)?,
                has_client_tools: row.try_get(2)?,
            })
        })
        .collect()
}

pub(super) async fn bind_home(
    database: &Database,
    session: &SessionId,
    home: &str,
) -> Result<String, PostgresError> {
    // Without a write for a session that has one.
    let find = "SELECT home FROM zero.sessions WHERE id = $1 AND NOT removed";
    let rows = database.single(TransactionKind::Read, find, &[&session.as_str()]).await?;
    let row = rows.first().ok_or_else(|| no_session_error(session))?;
    if let Some(home) = row.try_get(0)? {
        return Ok(home);
    }
    let bind = "UPDATE zero.sessions SET home = coalesce(home, $2) WHERE id = $1 AND NOT removed
                RETURNING home";
    let values: SqlValues<'_> = &[&session.as_str(), &home];
    let rows = database.single(TransactionKind::Write, bind, values).await?;
    let row = rows.first().ok_or_else(|| no_session_error(session))?;
    Ok(row.try_get(0)?)
}

pub(super) async fn find_placement(
    database: &Database,
    session: &SessionId,
) -> Result<SessionPlacement, PostgresError> {
    let find = "WITH live AS (SELECT name FROM zero.nodes WHERE lease_until > clock_timestamp())
        SELECT
            (SELECT name FROM live WHERE name = sessions.node AND EXISTS (SELECT 1 FROM zero.runs
                WHERE runs.session = sessions.row_id AND runs.outcome IS NULL)),
            (SELECT name FROM live WHERE name = sessions.tool_server),
            home,
            (SELECT name FROM live WHERE starts_with(name, sessions.home || $2) LIMIT 1)
        FROM zero.sessions WHERE id = $1 AND NOT removed";
    let separator = HOME_SEPARATOR.to_string();
    let values: SqlValues<'_> = &[&session.as_str(), &separator];
    let rows = database.single(TransactionKind::Read, find, values).await?;
    let row = rows.first().ok_or_else(|| no_session_error(session))?;
    Ok(SessionPlacement {
        holder: row.try_get(0)?,
        tool_server: row.try_get(1)?,
        home: row.try_get(2)?,
        home_node: row.try_get(3)?,
    })
}

pub(super) async fn set_tool_server(
    database: &Database,
    session: &SessionId,
    node: &str,
) -> Result<(), PostgresError> {
    let set = "UPDATE zero.sessions SET tool_server = $2 WHERE id = $1 AND NOT removed";
    let values: SqlValues<'_> = &[&session.as_str(), &node];
    database.single(TransactionKind::Write, set, values).await.map(drop)
}

pub(super) async fn clear_tool_server(
    database: &Database,
    session: &SessionId,
    node: &str,
) -> Result<(), PostgresError> {
    let clear = "UPDATE zero.sessions SET tool_server = NULL WHERE id = $1 AND tool_server = $2";
    let values: SqlValues<'_> = &[&session.as_str(), &node];
    database.single(TransactionKind::Write, clear, values).await.map(drop)
}

pub(super) async fn list_misplaced(
    database: &Database,
    node: &str,
) -> Result<Vec<SessionId>, PostgresError> {
    let list = "SELECT id FROM zero.sessions
        WHERE node = $1 AND node <> '' AND NOT removed AND tool_server <> node
            AND EXISTS (SELECT 1 FROM zero.nodes
                WHERE name = sessions.tool_server AND lease_until > clock_timestamp())
            AND EXISTS (SELECT 1 FROM zero.runs
                WHERE runs.session = sessions.row_id AND runs.outcome IS NULL)";
    let rows = database.single(TransactionKind::Read, list, &[&node]).await?;
    rows.iter().map(|row| read_id(row.try_get(0)?)).collect()
}

/// Entries of several sessions, of each after a sequence number.
pub(super) async fn list_new_events(
    database: &Database,
    after: &[(SessionId, u64)],
    most: LedgerReadLimit,
) -> Result<EventsBySession, PostgresError> {
    const READ: &str = "
        SELECT position, seq, run, time_ms, body FROM (
            SELECT position, entry.*,
                sum(octet_length(entry.body)) OVER (ORDER BY position, seq)::int8 AS total,
                row_number() OVER (ORDER BY position, seq) AS number
            FROM unnest($1::text[], $2::int8[]) WITH ORDINALITY AS read (id, after, position)
                JOIN zero.sessions ON sessions.id = read.id AND NOT removed
                CROSS JOIN LATERAL (
                    SELECT seq, run, time_ms, body FROM zero.events
                    WHERE events.session = sessions.row_id AND seq > read.after
                    ORDER BY seq LIMIT $3) AS entry) AS entries
        WHERE total <= $4 OR number = 1 ORDER BY position, seq";
    let ids: Vec<&str> = after.iter().map(|(session, _)| session.as_str()).collect();
    let seqs: Vec<i64> = after.iter().map(|(_, seq)| to_sql_int(*seq)).collect();
    let (entries, bytes) = (to_sql_int(most.entries as u64), to_sql_int(most.bytes as u64));
    let rows =
        database.single(TransactionKind::Read, READ, &[&ids, &seqs, &entries, &bytes]).await?;
    let mut found: EventsBySession = Vec::new();
    for row in &rows {
        let event = ledger::read_event(row, 1)?;
        let position = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(usize::MAX);
        let Some((session, _)) = after.get(position.wrapping_sub(1)) else { continue };
        match found.last_mut() {
            Some((last, events)) if last == session => events.push(event),
            _ => found.push((session.clone(), vec![event])),
        }
    }
    Ok(found)
}

pub(super) async fn list_last_seqs(
    database: &Database,
    sessions: &[SessionId],
) -> Result<Vec<(SessionId, u64)>, PostgresError> {
    let ids: Vec<&str> = sessions.iter().map(SessionId::as_str).collect();
    let list = "SELECT id, last_seq FROM zero.sessions WHERE id = ANY($1) AND NOT removed";
    let rows = database.single(TransactionKind::Read, list, &[&ids]).await?;
    rows.iter().map(|row| Ok((read_id(row.try_get(0)?)?, from_sql_int(row.try_get(1)?)))).collect()
}
