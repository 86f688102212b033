//! Database errors, with messages that say what to do next.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// Why an operation failed. One error may apply to many callers.
#[derive(Clone, Debug)]
pub(super) enum DatabaseError {
    /// The operation was refused; the file is intact and nothing was written.
    Refused(StoreError),
    /// An error of SQLite.
    Sqlite {
        /// SQLite's error code.
        code: ErrorCode,
        /// The extended error code.
        number: i32,
        /// SQLite's message.
        message: String,
    },
    /// The stored data is invalid.
    InvalidData(String),
}

impl DatabaseError {
    /// Error for stored data that cannot be parsed.
    pub(super) fn invalid_data(what: &str, error: impl std::fmt::Display) -> Self {
        Self::InvalidData(format!("{what} cannot be understood: {error}"))
    }

    /// Whether another process locked the file for too long.
    pub(super) fn is_busy(&self) -> bool {
        matches!(
            self,
            Self::Sqlite { code: ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, .. }
        )
    }

    /// Whether a page of the file is damaged.
    pub(super) fn is_damaged_page(&self) -> bool {
        matches!(self, Self::Sqlite { code: ErrorCode::DatabaseCorrupt, .. })
    }

    /// Converts the error for a caller that tried to `verb`.
    pub(super) fn into_store_error(self, verb: &'static str, path: &Path) -> StoreError {
        if self.is_busy() {
            return StoreError::Busy;
        }
        let path = path.display();
        let why = match self {
            Self::Refused(error) => return error,
            Self::InvalidData(what) => {
                let why = format!(
                    "in `{path}`, {what}; other sessions can be used: run `zero doctor` to see \
                     which are damaged, then delete those with `zero sessions delete`, or put a \
                     copy from before in its place"
                );
                return StoreError::Damaged { verb, why };
            }
            Self::Sqlite { code, number, message } => match code {
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                    let why = format!(
                        "`{path}` is damaged ({message}); nothing was removed: run `zero doctor` \
                         to see which sessions that concerns, put a copy from before in its \
                         place, or move it away together with `{path}-wal` and `{path}-shm` to \
                         start without its sessions"
                    );
                    return StoreError::Damaged { verb, why };
                }
                // No write of zero breaks a rule of the tables, unless what is stored breaks one already.
                ErrorCode::ConstraintViolation => {
                    let why = format!(
                        "in `{path}`, what is stored does not fit together ({message}); other \
                         sessions can be used: run `zero doctor` to see which are damaged, then \
                         delete those with `zero sessions delete`, or put a copy from before in \
                         its place"
                    );
                    return StoreError::Damaged { verb, why };
                }
                ErrorCode::DiskFull => {
                    let why = format!(
                        "there is no room for `{path}` to grow ({message}); make room, then try again"
                    );
                    return StoreError::NoSpace { verb, why };
                }
                ErrorCode::ReadOnly => format!(
                    "`{path}` may not be written ({message}); see to it that you own it and that \
                     its disk is writable"
                ),
                ErrorCode::CannotOpen | ErrorCode::PermissionDenied => format!(
                    "`{path}` does not open ({message}); see to it that it is a file of yours, in \
                     a folder of yours"
                ),
                ErrorCode::SystemIoFailure => format!(
                    "the disk failed under `{path}` ({message}, {number}); check the disk and how \
                     full it is"
                ),
                _ => format!("`{path}`: {message} ({number})"),
            },
        };
        StoreError::Broken { verb, why }
    }
}

impl From<StoreError> for DatabaseError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<serde_json::Error> for DatabaseError {
    fn from(error: serde_json::Error) -> Self {
        Self::invalid_data("what is to be kept", error)
    }
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> Self {
        match error {
            rusqlite::Error::SqliteFailure(failure, message) => Self::Sqlite {
                code: failure.code,
                number: failure.extended_code,
                message: message.unwrap_or_else(|| failure.to_string()),
            },
            other => Self::invalid_data("a row", other),
        }
    }
}
