//! Deletes sessions in pieces, so that no transaction takes long.
//!
//! The first transaction marks the session: from then on it cannot be found, and its key and label are
//! free. The following ones remove its rows. Rows that a killed process left behind are removed by
//! the next one; several may do so at once.

use zero_core::SessionId;

use super::claims;
use super::database::{Database, SqlValues, Transaction, TransactionKind};
use super::postgres_error::PostgresError;
use super::sessions::kept_ancestors_sql;
use crate::store::{ClaimEpoch, IdleSession};
use crate::stored_form::to_sql_int;

/// Rows that one piece removes.
const PIECE_ROWS: i64 = 2000;
/// Sessions whose deletion has begun that are listed at once.
const LIST_MAX: i64 = 512;

/// Begins the deletion of a session, if the claim is the current one.
pub(super) async fn mark_claimed(
    transaction: &Transaction,
    session: &SessionId,
    claim: ClaimEpoch,
) -> Result<(), PostgresError> {
    let row = claims::lock_claimed(transaction, session, claim).await?.row;
    let mark = "UPDATE zero.sessions SET removed = true WHERE row_id = $1";
    transaction.run(mark, &[&row]).await
}

/// Begins the deletion of an idle session, unless anything has happened in it since it was listed, or
/// the session that started it is to be kept.
pub(super) async fn mark_idle(
    transaction: &Transaction,
    listed: &IdleSession,
) -> Result<bool, PostgresError> {
    // Locked first, so that a run that begins meanwhile is seen by the next statement.
    let lock = "SELECT row_id FROM zero.sessions WHERE id = $1 AND NOT removed FOR UPDATE";
    if transaction.first(lock, &[&listed.id.as_str()]).await?.is_none() {
        return Ok(false);
    }
    let mark = format!(
        "UPDATE zero.sessions SET removed = true
         WHERE id = $1 AND NOT removed AND label IS NULL AND updated_ms = $2 AND epoch = $3
             AND NOT EXISTS (SELECT 1 FROM zero.runs
                 WHERE runs.session = sessions.row_id AND runs.outcome IS NULL)
             AND NOT EXISTS ({})
         RETURNING 1",
        kept_ancestors_sql()
    );
    let claim = to_sql_int(listed.claim.0);
    let values: SqlValues<'_> = &[&listed.id.as_str(), &listed.updated_ms, &claim];
    let marked = transaction.first(&mark, values).await?;
    Ok(marked.is_some())
}

/// Removes the rows of all sessions whose deletion has begun.
pub(super) async fn remove_marked(database: &Database) -> Result<(), PostgresError> {
    let list = "SELECT row_id FROM zero.sessions WHERE removed AND row_id > $1
                ORDER BY row_id LIMIT $2";
    let mut after = i64::MIN;
    loop {
        let rows = database.single(TransactionKind::Read, list, &[&after, &LIST_MAX]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in &rows {
            after = row.try_get(0)?;
            remove_rows(database, after).await?;
        }
    }
}

async fn remove_rows(database: &Database, session: i64) -> Result<(), PostgresError> {
    for table in ["zero.messages", "zero.events"] {
        let sql = format!(
            "WITH removed AS (DELETE FROM {table} WHERE ctid = ANY (ARRAY(
                 SELECT ctid FROM {table} WHERE session = $1 LIMIT $2)) RETURNING 1)
             SELECT count(*) FROM removed"
        );
        loop {
            let kind = TransactionKind::Write;
            let rows = database.single(kind, &sql, &[&session, &PIECE_ROWS]).await?;
            // Fewer than a piece may mean that another process removes them too.
            if rows.first().map_or(Ok(0), |row| row.try_get::<_, i64>(0))? == 0 {
                break;
            }
        }
    }
    // The remaining rows are few; the foreign keys remove them. While another process removes rows, the
    // session stays, so that they are found again if that process dies.
    let sql = "DELETE FROM zero.sessions WHERE row_id = $1 AND removed
                   AND NOT EXISTS (SELECT 1 FROM zero.events WHERE session = $1)
                   AND NOT EXISTS (SELECT 1 FROM zero.messages WHERE session = $1)";
    database.single(TransactionKind::Write, sql, &[&session]).await.map(drop)
}
