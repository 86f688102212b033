//! Connections and transactions.
//!
//! Statements have no names, so that a pooler may give each transaction another connection to the
//! server. Settings that a transaction needs, such as its time limit, are made in it.

use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime, Timeouts};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::postgres_error::PostgresError;
use super::server_address::ServerAddress;
use super::tls::RustlsConnect;
use crate::cluster_node::StoreConnections;
use crate::store::StoreError;

/// Maximum number of connections of one process.
const CONNECTIONS_MAX: usize = 16;
/// How long an operation waits for a free connection.
const CONNECTION_WAIT_MAX: Duration = Duration::from_secs(15);
/// How long a connection may take to be made, with its handshakes.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long the answer to a statement may take. The server itself stops it a little earlier.
const STATEMENT_MAX: Duration = Duration::from_secs(35);

/// Begins a transaction that reads one snapshot.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL statement_timeout = '30s'; SET LOCAL idle_in_transaction_session_timeout = '30s'";
/// Begins a transaction that locks rows. Each statement sees what was committed before it, so that
/// what is read after a lock is what the one that had the lock before has written.
const BEGIN_WRITE: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE;
    SET LOCAL statement_timeout = '30s'; SET LOCAL lock_timeout = '20s';
    SET LOCAL idle_in_transaction_session_timeout = '30s'";
/// Begins the transaction that changes the tables.
const BEGIN_MIGRATION: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE;
    SET LOCAL statement_timeout = '30min'; SET LOCAL lock_timeout = '5min';
    SET LOCAL client_min_messages = warning";
/// Begins a transaction that copies sessions, and sees one snapshot.
const BEGIN_TRANSFER: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE;
    SET LOCAL statement_timeout = '5min'; SET LOCAL lock_timeout = '20s';
    SET LOCAL idle_in_transaction_session_timeout = '30min'";
/// How long a statement of a migration or copy may take.
const MIGRATION_MAX: Duration = Duration::from_secs(31 * 60);

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionKind {
    Read,
    Write,
    Migration,
    Transfer,
}

impl TransactionKind {
    fn begin(self) -> &'static str {
        match self {
            Self::Read => BEGIN_READ,
            Self::Write => BEGIN_WRITE,
            Self::Migration => BEGIN_MIGRATION,
            Self::Transfer => BEGIN_TRANSFER,
        }
    }

    fn answer_time_max(self) -> Duration {
        match self {
            Self::Read | Self::Write => STATEMENT_MAX,
            Self::Migration | Self::Transfer => MIGRATION_MAX,
        }
    }
}

/// A value of a statement. Its type is stated, so that the server need not be asked.
pub(super) trait SqlValue: ToSql + Sync {
    fn sql_type(&self) -> Type;
    fn as_sql(&self) -> &(dyn ToSql + Sync);
}

macro_rules! sql_values {
    ($($rust:ty => $sql:ident),* $(,)?) => {
        $(impl SqlValue for $rust {
            fn sql_type(&self) -> Type {
                Type::$sql
            }

            fn as_sql(&self) -> &(dyn ToSql + Sync) {
                self
            }
        })*
    };
}

sql_values! {
    &str => TEXT,
    String => TEXT,
    Option<&str> => TEXT,
    Option<String> => TEXT,
    i64 => INT8,
    i32 => INT4,
    Option<i64> => INT8,
    bool => BOOL,
    Option<&[u8]> => BYTEA,
    Vec<&str> => TEXT_ARRAY,
    Vec<String> => TEXT_ARRAY,
    Vec<Option<&str>> => TEXT_ARRAY,
    Vec<i64> => INT8_ARRAY,
    Vec<Option<i64>> => INT8_ARRAY,
    Vec<Option<&[u8]>> => BYTEA_ARRAY,
    Vec<bool> => BOOL_ARRAY,
}

/// The values of a statement.
pub(super) type SqlValues<'a> = &'a [&'a dyn SqlValue];

fn with_types<'a>(values: SqlValues<'a>) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    values.iter().map(|value| (value.as_sql(), value.sql_type())).collect()
}

/// The database, with a bounded number of connections.
pub(super) struct Database {
    pool: Pool,
    /// Names it, without a password.
    pub(super) description: String,
}

impl Database {
    /// Connects to nothing yet.
    pub(super) fn new(address: ServerAddress, tls: RustlsConnect) -> Result<Self, StoreError> {
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(address.config, tls, recycling);
        let waits = Timeouts {
            wait: Some(CONNECTION_WAIT_MAX),
            create: Some(CONNECT_MAX),
            recycle: Some(CONNECT_MAX),
        };
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .runtime(Runtime::Tokio1)
            .timeouts(waits)
            .build()
            .map_err(|error| StoreError::Broken { verb: "open", why: error.to_string() })?;
        Ok(Self { pool, description: address.description })
    }

    /// How many connections there are.
    pub(super) fn connections(&self) -> StoreConnections {
        let status = self.pool.status();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        StoreConnections {
            open: count(status.size),
            used: count(status.size.saturating_sub(status.available)),
            waiting: count(status.waiting),
            most: count(status.max_size),
        }
    }

    /// Runs one statement in a transaction of its own, without waiting for the answer of each step.
    pub(super) async fn single(
        &self,
        kind: TransactionKind,
        sql: &str,
        values: SqlValues<'_>,
    ) -> Result<Vec<Row>, PostgresError> {
        let transaction = Transaction { client: Some(self.pool.get().await?), kind };
        let values = with_types(values);
        let client = transaction.client()?;
        // Sent in this order at once. If the statement fails, the last step rolls back.
        let all = async {
            tokio::join!(
                client.batch_execute(kind.begin()),
                client.query_typed(sql, &values),
                client.batch_execute("COMMIT"),
            )
        };
        let (begun, rows, committed) = timed(kind, all).await?;
        let rows = begun.and(rows).and_then(|rows| committed.map(|()| rows));
        transaction.give_back();
        Ok(rows?)
    }

    /// Begins a transaction.
    pub(super) async fn begin(&self, kind: TransactionKind) -> Result<Transaction, PostgresError> {
        let transaction = Transaction { client: Some(self.pool.get().await?), kind };
        match timed(kind, transaction.client()?.batch_execute(kind.begin())).await? {
            // The server was restarted since the connection was used last. Nothing was done yet.
            Err(error) if error.is_closed() => {
                drop(transaction);
                self.pool.retain(|client, _| !client.is_closed());
                let again = Transaction { client: Some(self.pool.get().await?), kind };
                timed(kind, again.client()?.batch_execute(kind.begin())).await??;
                Ok(again)
            }
            begun => begun.map(|()| transaction).map_err(Into::into),
        }
    }
}

/// Fails if the server does not answer in time.
async fn timed<T>(
    kind: TransactionKind,
    answer: impl Future<Output = T>,
) -> Result<T, PostgresError> {
    let answer = tokio::time::timeout(kind.answer_time_max(), answer).await;
    answer.map_err(|_| PostgresError::TimedOut("the server did not answer in time"))
}

/// An open transaction. When it is dropped without an end, its connection is closed, so that the
/// server rolls it back and the connection is not used again.
pub(super) struct Transaction {
    /// `None` once it has ended.
    client: Option<Object>,
    kind: TransactionKind,
}

impl Transaction {
    fn client(&self) -> Result<&Object, PostgresError> {
        self.client.as_ref().ok_or(PostgresError::TimedOut("the transaction has ended"))
    }

    /// Returns the connection to the pool.
    fn give_back(mut self) {
        self.client = None;
    }

    /// Runs a statement and returns its rows.
    pub(super) async fn rows(
        &self,
        sql: &str,
        values: SqlValues<'_>,
    ) -> Result<Vec<Row>, PostgresError> {
        let values = with_types(values);
        Ok(timed(self.kind, self.client()?.query_typed(sql, &values)).await??)
    }

    /// Runs a statement and returns its first row.
    pub(super) async fn first(
        &self,
        sql: &str,
        values: SqlValues<'_>,
    ) -> Result<Option<Row>, PostgresError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }

    /// Runs a statement without a result.
    pub(super) async fn run(&self, sql: &str, values: SqlValues<'_>) -> Result<(), PostgresError> {
        self.rows(sql, values).await.map(drop)
    }

    /// Runs statements without values.
    pub(super) async fn run_script(&self, sql: &str) -> Result<(), PostgresError> {
        Ok(timed(self.kind, self.client()?.batch_execute(sql)).await??)
    }

    /// Commits if the result is good, and rolls back otherwise.
    pub(super) async fn finish<T>(
        self,
        result: Result<T, PostgresError>,
    ) -> Result<T, PostgresError> {
        let end = if result.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = timed(self.kind, self.client()?.batch_execute(end)).await;
        match (result, ended) {
            (result, Ok(Ok(()))) => {
                self.give_back();
                result
            }
            // Why it was rolled back says more than why that failed.
            (Err(error), _) => Err(error),
            (Ok(_), Ok(Err(error))) => Err(error.into()),
            (Ok(_), Err(error)) => Err(error),
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}
