//! Copies sessions from or to a SQLite file.

use std::path::{Path, PathBuf};

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use zero_runtime::tool::BoxFuture;

use super::database_error::DatabaseError;
use super::{SqliteStore, database_file};
use crate::store::{RunOptions, StoreError};
use crate::store_transfer::{
    ColumnType, PAGE_BYTES_MAX, PAGE_ROWS_MAX, RUN_USAGE, SESSIONS, SessionPresence, StoredRow,
    StoredValue, TransferEnd, TransferSession, TransferStore, TransferTable, canonical_json,
};
use crate::stored_form::to_json;

const READ: &str = "read a session for a copy";
const WRITE: &str = "copy a session";

impl SqliteStore {
    /// Opens the file for a copy. Its operations block on the disk.
    pub fn open_transfer(path: &Path) -> Result<TransferStore, StoreError> {
        let opened = database_file::open(path)?;
        Ok(TransferStore(Box::new(SqliteEnd { connection: opened.writer, path: opened.path })))
    }
}

/// A file, with at most one open transaction.
struct SqliteEnd {
    connection: Connection,
    path: PathBuf,
}

impl SqliteEnd {
    /// Runs an operation at once and returns its result as one that was waited for.
    fn done<'a, T: Send + 'a>(
        &self,
        verb: &'static str,
        operation: impl FnOnce(&Connection) -> Result<T, DatabaseError>,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let done = operation(&self.connection);
        let done = done.map_err(|failure| failure.into_store_error(verb, &self.path));
        Box::pin(std::future::ready(done))
    }
}

impl TransferEnd for SqliteEnd {
    fn sessions<'a>(
        &'a mut self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Vec<TransferSession>, StoreError>> {
        self.done(READ, |db| {
            let list =
                "SELECT id, owner, key, label FROM live_sessions WHERE id > ? ORDER BY id LIMIT ?";
            let mut list = db.prepare_cached(list)?;
            let rows = list.query_map((after, PAGE_ROWS_MAX as i64), |row| {
                Ok(TransferSession {
                    id: row.get(0)?,
                    owner: row.get(1)?,
                    key: row.get(2)?,
                    label: row.get(3)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn find<'a>(
        &'a mut self,
        session: &'a TransferSession,
    ) -> BoxFuture<'a, Result<SessionPresence, StoreError>> {
        self.done(READ, |db| {
            let mut find = db.prepare_cached("SELECT removed FROM sessions WHERE id = ?")?;
            let removed: Option<bool> =
                find.query_row([&session.id], |row| row.get(0)).optional()?;
            if let Some(is_removed) = removed {
                return Ok(match is_removed {
                    true => SessionPresence::Deleted,
                    false => SessionPresence::Present,
                });
            }
            let mut find = "SELECT 1 FROM live_sessions WHERE owner = ? AND key = ?";
            if db.prepare_cached(find)?.exists((&session.owner, &session.key))? {
                return Ok(SessionPresence::KeyTaken);
            }
            find = "SELECT 1 FROM live_sessions WHERE owner = ? AND label = ?";
            Ok(match db.prepare_cached(find)?.exists((&session.owner, &session.label))? {
                true => SessionPresence::LabelTaken,
                false => SessionPresence::Missing,
            })
        })
    }

    fn rows<'a>(
        &'a mut self,
        table: &'static TransferTable,
        session: &'a str,
        after: &'a [StoredValue],
    ) -> BoxFuture<'a, Result<Vec<StoredRow>, StoreError>> {
        self.done(READ, |db| {
            let mut values: Vec<Value> = Vec::new();
            let mut conditions: Vec<String> = Vec::new();
            if let Some(owner) = owner_condition(table) {
                conditions.push(owner.to_owned());
                values.push(Value::Text(session.to_owned()));
            }
            if !after.is_empty() {
                let names: Vec<&str> = key_names(table).collect();
                let marks = vec!["?"; names.len()].join(", ");
                conditions.push(format!("({}) > ({marks})", names.join(", ")));
                values.extend(after.iter().map(to_value));
            }
            let filter = match conditions.is_empty() {
                true => String::new(),
                false => format!(" WHERE {}", conditions.join(" AND ")),
            };
            let select = format!(
                "SELECT {} FROM {}{filter} ORDER BY {} LIMIT {PAGE_ROWS_MAX}",
                column_names(table),
                table.name,
                key_names(table).collect::<Vec<_>>().join(", ")
            );
            let mut select = db.prepare_cached(&select)?;
            let mut found = select.query(params_from_iter(values))?;
            let (mut rows, mut bytes) = (Vec::new(), 0);
            while bytes < PAGE_BYTES_MAX
                && let Some(row) = found.next()?
            {
                let row = read_row(table, row)?;
                if table.has_bodies
                    && let Some(StoredValue::Text(body)) = row.last()
                {
                    bytes += body.len();
                }
                rows.push(row);
            }
            Ok(rows)
        })
    }

    fn same_usages<'a>(
        &'a mut self,
        rows: &'a [StoredRow],
    ) -> BoxFuture<'a, Result<Vec<StoredRow>, StoreError>> {
        self.done(READ, |db| {
            let select = format!(
                "SELECT {} FROM run_usage WHERE run = ? AND session = ?",
                column_names(&RUN_USAGE)
            );
            let mut select = db.prepare_cached(&select)?;
            let mut found = Vec::new();
            for row in rows {
                let key = row.iter().take(RUN_USAGE.key_columns).map(to_value);
                let mut same = select.query(params_from_iter(key))?;
                if let Some(row) = same.next()? {
                    found.push(read_row(&RUN_USAGE, row)?);
                }
            }
            Ok(found)
        })
    }

    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.done(WRITE, |db| Ok(db.execute_batch("BEGIN")?))
    }

    fn insert<'a>(
        &'a mut self,
        table: &'static TransferTable,
        session: &'a str,
        rows: &'a [StoredRow],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.done(WRITE, |db| {
            let mut names = column_names(table);
            let mut marks = vec!["?"; table.columns.len()].join(", ");
            let owner: &[Value] = &[Value::Text(session.to_owned())];
            let owner = match table.name == SESSIONS.name || table.name == RUN_USAGE.name {
                true => &[],
                false => {
                    names = format!("session, {names}");
                    marks = format!("(SELECT row FROM sessions WHERE id = ?), {marks}");
                    owner
                }
            };
            // A run of a copy is one of no process.
            if table.name == "runs" {
                names += ", node";
                marks += ", ''";
            }
            let conflict = match table.name == RUN_USAGE.name {
                true => " ON CONFLICT (run, session) DO NOTHING",
                false => "",
            };
            let insert = format!("INSERT INTO {} ({names}) VALUES ({marks}){conflict}", table.name);
            let mut insert = db.prepare_cached(&insert)?;
            for row in rows {
                let values = owner.iter().cloned().chain(row.iter().map(to_value));
                insert.execute(params_from_iter(values))?;
            }
            Ok(())
        })
    }

    fn complete<'a>(&'a mut self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.done(WRITE, |db| {
            // Not null: without a holder, a run could begin beside the one that is unfinished.
            let release = "UPDATE sessions SET node = '' WHERE id = ? AND EXISTS
                (SELECT 1 FROM runs WHERE runs.session = sessions.row AND runs.end IS NULL)";
            db.execute(release, [session])?;
            Ok(())
        })
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.done(WRITE, |db| Ok(db.execute_batch("COMMIT")?))
    }

    fn roll_back(&mut self) -> BoxFuture<'_, ()> {
        // An error may have ended the transaction already.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::warn!(%error, "a copy that failed could not be rolled back");
        }
        Box::pin(std::future::ready(()))
    }
}

/// Which rows are those of a session.
fn owner_condition(table: &TransferTable) -> Option<&'static str> {
    match table.name {
        name if name == SESSIONS.name => Some("id = ? AND removed = 0"),
        name if name == RUN_USAGE.name => None,
        _ => Some("session = (SELECT row FROM sessions WHERE id = ?)"),
    }
}

/// The columns that name a row.
fn key_names(table: &TransferTable) -> impl Iterator<Item = &'static str> {
    table.columns.iter().take(table.key_columns).map(|column| column.name)
}

/// All columns, each in quotes: `end` is a word of SQL.
fn column_names(table: &TransferTable) -> String {
    let names = table.columns.iter().map(|column| format!("\"{}\"", column.name));
    names.collect::<Vec<_>>().join(", ")
}

fn read_row(table: &TransferTable, row: &rusqlite::Row<'_>) -> Result<StoredRow, DatabaseError> {
    let mut values = StoredRow::with_capacity(table.columns.len());
    for (place, column) in table.columns.iter().enumerate() {
        values.push(match (row.get_ref(place)?, column.column_type) {
            // Runs of an older zero have none.
            (ValueRef::Null, _) if column.name == "options" => {
                StoredValue::Text(to_json(&RunOptions::default())?)
            }
            (ValueRef::Null, _) => StoredValue::Null,
            (ValueRef::Integer(number), _) => StoredValue::Int(number),
            (ValueRef::Blob(bytes), _) => StoredValue::Bytes(bytes.to_vec()),
            (ValueRef::Text(text), column_type) => {
                let name = || format!("`{}` of `{}`", column.name, table.name);
                let text = std::str::from_utf8(text)
                    .map_err(|error| DatabaseError::invalid_data(&name(), error))?;
                StoredValue::Text(match column_type {
                    ColumnType::Json => canonical_json(text)
                        .map_err(|error| DatabaseError::invalid_data(&name(), error))?,
                    _ => text.to_owned(),
                })
            }
            (ValueRef::Real(_), _) => {
                let name = format!("`{}` of `{}`", column.name, table.name);
                return Err(DatabaseError::invalid_data(&name, "it is a fraction"));
            }
        });
    }
    Ok(values)
}

fn to_value(value: &StoredValue) -> Value {
    match value {
        StoredValue::Null => Value::Null,
        StoredValue::Int(number) => Value::Integer(*number),
        StoredValue::Text(text) => Value::Text(text.clone()),
        StoredValue::Bytes(bytes) => Value::Blob(bytes.clone()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::store_transfer::all_tables;

    #[test]
    fn every_column_is_copied_or_recreated() {
        let temp = tempfile::tempdir().unwrap();
        let opened = database_file::open(&temp.path().join("sessions.db")).unwrap();
        let names = |sql: &str| -> BTreeSet<String> {
            let mut query = opened.writer.prepare(sql).unwrap();
            query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let copied: BTreeSet<String> = all_tables().map(|table| table.name.to_owned()).collect();
        assert_eq!(names("SELECT name FROM sqlite_schema WHERE type = 'table'"), copied);
        for table in all_tables() {
            let mut stored =
                names(&format!("SELECT name FROM pragma_table_info('{}')", table.name));
            for name in ["row", "node", "removed"] {
                stored.remove(name);
            }
            // The number of the session's row. In the table of usages, it is an id.
            if table.name != RUN_USAGE.name {
                stored.remove("session");
            }
            let copied: BTreeSet<String> =
                table.columns.iter().map(|column| column.name.to_owned()).collect();
            assert_eq!(stored, copied, "{}", table.name);
        }
    }
}
