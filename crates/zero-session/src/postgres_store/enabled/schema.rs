//! The tables and their migrations.

use super::database::{Database, Transaction, TransactionKind};
use super::postgres_error::PostgresError;
use crate::store::StoreError;

/// The oldest server that is supported, as it numbers itself.
const SERVER_MIN: i32 = 130_000;
/// Number of the lock that a migration holds: `zero` in ASCII.
const MIGRATION_LOCK: i64 = 0x7a65_726f;

/// The migrations from each version to the next. A released migration is never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("run_ids_per_owner.sql"),
    include_str!("session_homes.sql"),
    include_str!("cluster.sql"),
];

/// Checks that the server can be used, and applies the missing migrations, in one transaction. Of
/// several processes that start together, one does.
pub(super) async fn prepare(database: &Database) -> Result<(), PostgresError> {
    check_server(database).await?;
    let transaction = database.begin(TransactionKind::Read).await?;
    let read = read_version(&transaction, &database.description).await;
    if transaction.finish(read).await? == MIGRATIONS.len() {
        return Ok(());
    }
    let transaction = database.begin(TransactionKind::Migration).await?;
    let migrated = migrate(&transaction, &database.description).await;
    transaction.finish(migrated).await
}

async fn check_server(database: &Database) -> Result<(), PostgresError> {
    let facts = database
        .single(
            TransactionKind::Read,
            "SELECT current_setting('server_version_num')::int4, current_setting('server_encoding'),
                 current_setting('synchronous_commit'), pg_is_in_recovery()",
            &[],
        )
        .await?;
    let Some(facts) = facts.first() else { return Ok(()) };
    let (version, encoding): (i32, String) = (facts.try_get(0)?, facts.try_get(1)?);
    let (durability, is_replica): (String, bool) = (facts.try_get(2)?, facts.try_get(3)?);
    let server = &database.description;
    if is_replica {
        return Err(open_error(format!(
            "the database {server} is read-only, because its server is a replica; use the address of \
             the primary server"
        )));
    }
    if version < SERVER_MIN {
        return Err(open_error(format!(
            "the server of {server} is too old (its version is {}); use Postgres {} or newer",
            version / 10_000,
            SERVER_MIN / 10_000
        )));
    }
    if encoding != "UTF8" {
        return Err(open_error(format!(
            "the encoding of the database {server} is {encoding}; create one with \
             `ENCODING 'UTF8' TEMPLATE template0`"
        )));
    }
    if durability == "off" {
        return Err(open_error(format!(
            "the database {server} forgets its last writes in a crash (`synchronous_commit` is off); \
             set it to `on` for this user or database"
        )));
    }
    Ok(())
}

/// Fails unless the database can be written to, with the tables of this zero.
pub(super) async fn check_writable(database: &Database) -> Result<(), PostgresError> {
    // Takes the lock that a write takes, and changes nothing.
    let sql = "WITH found AS (SELECT version FROM zero.schema_version FOR UPDATE)
               SELECT version FROM found";
    let rows = database.single(TransactionKind::Write, sql, &[]).await?;
    let version: i32 = rows.first().map_or(Ok(0), |row| row.try_get(0))?;
    check_version(version, &database.description).map(drop)
}

async fn migrate(transaction: &Transaction, server: &str) -> Result<(), PostgresError> {
    // Others wait here, and find nothing left to do.
    transaction.run("SELECT pg_advisory_xact_lock($1)", &[&MIGRATION_LOCK]).await?;
    let version = read_version(transaction, server).await?;
    if version == 0 {
        transaction
            .run_script(
                "CREATE SCHEMA IF NOT EXISTS zero;
                 CREATE TABLE zero.schema_version (version INT4 NOT NULL);
                 INSERT INTO zero.schema_version VALUES (0)",
            )
            .await?;
    }
    for step in MIGRATIONS.iter().skip(version) {
        transaction.run_script(step).await?;
    }
    let version = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    transaction.run("UPDATE zero.schema_version SET version = $1", &[&version]).await
}

/// Number of applied migrations.
async fn read_version(transaction: &Transaction, server: &str) -> Result<usize, PostgresError> {
    let found = transaction
        .first(
            "SELECT to_regclass('zero.schema_version') IS NOT NULL,
                 (SELECT count(*) FROM pg_class WHERE relnamespace =
                     (SELECT oid FROM pg_namespace WHERE nspname = 'zero'))",
            &[],
        )
        .await?;
    let (has_version, relations) = match found {
        Some(row) => (row.try_get::<_, bool>(0)?, row.try_get::<_, i64>(1)?),
        None => (false, 0),
    };
    if !has_version {
        return match relations {
            0 => Ok(0),
            _ => Err(open_error(format!(
                "the schema `zero` in the database {server} belongs to another program; use another \
                 database"
            ))),
        };
    }
    let row = transaction.first("SELECT version FROM zero.schema_version", &[]).await?;
    let version: i32 = row.map_or(Ok(0), |row| row.try_get(0))?;
    check_version(version, server)
}

fn check_version(version: i32, server: &str) -> Result<usize, PostgresError> {
    match usize::try_from(version) {
        Ok(version) if (1..=MIGRATIONS.len()).contains(&version) => Ok(version),
        _ => Err(open_error(format!(
            "the tables in the database {server} are of a newer zero (their version is {version}, this \
             zero knows {}); update zero",
            MIGRATIONS.len()
        ))),
    }
}

fn open_error(why: String) -> PostgresError {
    StoreError::Broken { verb: "open", why }.into()
}
