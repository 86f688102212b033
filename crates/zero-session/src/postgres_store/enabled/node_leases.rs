//! The leases of the processes that share the database, by its clock.

use std::time::Duration;

use zero_core::SessionId;

use super::database::{Database, Transaction, TransactionKind};
use super::postgres_error::PostgresError;
use super::sessions::read_id;
use crate::cluster_node::HOME_SEPARATOR;
use crate::node_lease::LiveNode;
use crate::store::ClaimEpoch;
use crate::stored_form::{from_sql_int, to_sql_int};

/// Milliseconds as an interval, from `$2`.
const LEASE: &str = "clock_timestamp() + $2 * interval '1 millisecond'";

/// Number of the lock that a registration holds: `node` in ASCII.
const REGISTRATION_LOCK: i64 = 0x6e6f_6465;

fn to_millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX)
}

/// Gives a lease to a new process; `false` if the name is taken, or its home by a process that lives. Names
/// are kept for a day after the lease has run out.
pub(super) async fn register(
    database: &Database,
    node: &str,
    lease: Duration,
) -> Result<bool, PostgresError> {
    let sweep = "DELETE FROM zero.nodes WHERE lease_until < clock_timestamp() - interval '1 day'";
    database.single(TransactionKind::Write, sweep, &[]).await?;
    let insert = format!(
        "INSERT INTO zero.nodes (name, lease_until)
         SELECT $1, {LEASE} WHERE NOT EXISTS (SELECT 1 FROM zero.nodes
             WHERE starts_with(name, $3) AND lease_until > clock_timestamp())
         ON CONFLICT (name) DO NOTHING RETURNING 1"
    );
    let home = node.split_once(HOME_SEPARATOR).map_or(node, |(home, _)| home);
    let prefix = format!("{home}{HOME_SEPARATOR}");
    let values: super::database::SqlValues<'_> = &[&node, &to_millis(lease), &prefix];
    let transaction = database.begin(TransactionKind::Write).await?;
    let inserted = async {
        // Of two processes with one home, the second one sees the first.
        transaction.run("SELECT pg_advisory_xact_lock($1)", &[&REGISTRATION_LOCK]).await?;
        Ok(transaction.first(&insert, values).await?.is_some())
    };
    let inserted = inserted.await;
    transaction.finish(inserted).await
}

/// Extends a lease; `false` if the process is not registered.
pub(super) async fn renew(
    database: &Database,
    node: &str,
    lease: Duration,
) -> Result<bool, PostgresError> {
    let renew = format!("UPDATE zero.nodes SET lease_until = {LEASE} WHERE name = $1 RETURNING 1");
    let values: super::database::SqlValues<'_> = &[&node, &to_millis(lease)];
    Ok(!database.single(TransactionKind::Write, &renew, values).await?.is_empty())
}

/// Ends a lease at once. The name is kept.
pub(super) async fn end(database: &Database, node: &str) -> Result<(), PostgresError> {
    let end = "UPDATE zero.nodes SET lease_until = least(lease_until, clock_timestamp())
               WHERE name = $1";
    database.single(TransactionKind::Write, end, &[&node]).await.map(drop)
}

/// Whether a process has a lease. It cannot be renewed until the transaction ends: a process that
/// renews it afterwards, and then asks what it holds, sees what the transaction has taken from it.
pub(super) async fn lock_live(
    transaction: &Transaction,
    node: &str,
) -> Result<bool, PostgresError> {
    let lock = "SELECT 1 FROM zero.nodes WHERE name = $1 FOR SHARE";
    if transaction.first(lock, &[&node]).await?.is_none() {
        return Ok(false);
    }
    let read = "SELECT lease_until > clock_timestamp() FROM zero.nodes WHERE name = $1";
    let found = transaction.first(read, &[&node]).await?;
    found.map_or(Ok(false), |row| Ok(row.try_get(0)?))
}

/// The processes whose leases have not run out.
pub(super) async fn list_live(database: &Database) -> Result<Vec<LiveNode>, PostgresError> {
    let rows = database
        .single(
            TransactionKind::Read,
            "SELECT name, (extract(epoch FROM lease_until - clock_timestamp()) * 1000)::int8,
                 (SELECT count(*) FROM zero.sessions WHERE node = nodes.name AND node <> ''
                     AND NOT removed AND EXISTS (SELECT 1 FROM zero.runs
                         WHERE runs.session = sessions.row_id AND runs.outcome IS NULL))
             FROM zero.nodes WHERE lease_until > clock_timestamp() ORDER BY name LIMIT $1",
            &[&to_sql_int(LiveNode::LIST_MAX as u64)],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok(LiveNode {
                name: row.try_get(0)?,
                lease_left: Duration::from_millis(from_sql_int(row.try_get(1)?)),
                sessions: from_sql_int(row.try_get(2)?),
            })
        })
        .collect()
}

/// The sessions with unfinished runs that a process holds.
pub(super) async fn list_held(
    database: &Database,
    node: &str,
) -> Result<Vec<(SessionId, ClaimEpoch)>, PostgresError> {
    let list = "SELECT id, epoch FROM zero.sessions
                WHERE node = $1 AND node <> '' AND NOT removed AND EXISTS (SELECT 1 FROM zero.runs
                    WHERE runs.session = sessions.row_id AND runs.outcome IS NULL)";
    let rows = database.single(TransactionKind::Read, list, &[&node]).await?;
    rows.iter()
        .map(|row| Ok((read_id(row.try_get(0)?)?, ClaimEpoch(from_sql_int(row.try_get(1)?)))))
        .collect()
}
