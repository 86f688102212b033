//! Errors of Postgres, with messages that say what to do next.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;
use zero_core::error_chain::describe_causes;

use crate::store::StoreError;

/// Why an operation failed.
#[derive(Debug)]
pub(super) enum PostgresError {
    /// The operation was refused; nothing was written.
    Refused(StoreError),
    /// An error of the database, or of the connection to it.
    Database(tokio_postgres::Error),
    /// No connection became free, or the database did not answer in time.
    TimedOut(&'static str),
    /// What is stored is invalid.
    InvalidData(String),
}

impl PostgresError {
    /// Error for stored data that cannot be parsed.
    pub(super) fn invalid_data(what: &str, error: impl std::fmt::Display) -> Self {
        Self::InvalidData(format!("{what} cannot be understood: {error}"))
    }

    /// Whether the same transaction may succeed if it is run again, from its beginning: another one was
    /// in its way, and nothing of it is stored.
    pub(super) fn is_retryable(&self) -> bool {
        let Self::Database(error) = self else { return false };
        error.code().is_some_and(|code| {
            [
                SqlState::T_R_SERIALIZATION_FAILURE,
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::UNIQUE_VIOLATION,
            ]
            .contains(code)
        })
    }

    /// Converts the error for a caller that tried to `verb`. `server` names the database without a
    /// password.
    pub(super) fn into_store_error(self, verb: &'static str, server: &str) -> StoreError {
        let error = match self {
            Self::Refused(error) => return error,
            Self::InvalidData(what) => {
                let why = format!(
                    "in the database {server}, {what}; other sessions can be used: delete the damaged \
                     ones with `zero sessions delete`, or restore a backup"
                );
                return StoreError::Damaged { verb, why };
            }
            Self::TimedOut(what) => {
                tracing::warn!(server, what, "the database is too slow");
                return StoreError::Busy;
            }
            Self::Database(error) => error,
        };
        let Some(database) = error.as_db_error() else {
            return StoreError::Broken { verb, why: describe_connection_error(&error, server) };
        };
        let (code, message) = (database.code(), database.message());
        let why = match code.code() {
            // Busy: timeouts, locks, conflicts, too many connections, starting up.
            "57014" | "55P03" | "40001" | "40P01" | "23505" | "53300" | "57P03" => {
                tracing::warn!(server, code = code.code(), message, "the database is too busy");
                return StoreError::Busy;
            }
            "28P01" | "28000" => format!(
                "the database {server} refuses the login ({message}); check the user and the password"
            ),
            "3D000" => format!(
                "there is no such database: {server} ({message}); create it, or correct the address"
            ),
            "42501" => format!(
                "the database {server} does not permit it ({message}); make its user the owner of the \
                 schema `zero`, or run `GRANT CREATE ON DATABASE …` for it"
            ),
            "25006" => format!(
                "the database {server} is read-only ({message}); it may be a replica: use the address \
                 of the primary server"
            ),
            "53100" => {
                let why = format!(
                    "the disk of the database {server} is full ({message}); make room there, then try again"
                );
                return StoreError::NoSpace { verb, why };
            }
            "42P01" | "3F000" | "42703" => format!(
                "the tables in the database {server} are not those of this zero ({message}); was the \
                 schema `zero` changed or dropped?"
            ),
            "57P01" | "57P02" => format!(
                "the database {server} is shutting down ({message}); whether this change is stored is \
                 not known"
            ),
            "XX001" | "XX002" => {
                let why = format!(
                    "the database {server} is damaged ({message}); restore a backup or see the manual \
                     of Postgres"
                );
                return StoreError::Damaged { verb, why };
            }
            code => format!("the database {server}: {message} ({code})"),
        };
        StoreError::Broken { verb, why }
    }
}

/// The error of a connection, with its causes. They contain no password.
fn describe_connection_error(error: &tokio_postgres::Error, server: &str) -> String {
    let text = describe_causes(error);
    match error.is_closed() {
        true => format!(
            "the connection to the database {server} was lost ({text}); whether this change is stored \
             is not known"
        ),
        false => format!(
            "the database {server} cannot be used ({text}); check its address, that it runs, and \
             whether it needs TLS (`sslmode`)"
        ),
    }
}

impl From<StoreError> for PostgresError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl From<serde_json::Error> for PostgresError {
    fn from(error: serde_json::Error) -> Self {
        Self::invalid_data("what is to be kept", error)
    }
}

impl From<PoolError> for PostgresError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Database(error),
            PoolError::Timeout(_) => Self::TimedOut("no connection became free in time"),
            other => Self::Refused(StoreError::Broken {
                verb: "connect to the database",
                why: other.to_string(),
            }),
        }
    }
}
