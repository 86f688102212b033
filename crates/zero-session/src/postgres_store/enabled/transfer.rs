//! Copies sessions from or to a Postgres database.

use tokio_postgres::Row;
use zero_runtime::tool::BoxFuture;

use super::PostgresStore;
use super::database::{Database, SqlValue, Transaction, TransactionKind};
use super::ledger::is_reset;
use super::postgres_error::PostgresError;
use crate::postgres_store::PostgresOptions;
use crate::store::{StoreError, ToolHostLocation};
use crate::store_transfer::{
    ColumnType, PAGE_BYTES_MAX, PAGE_ROWS_MAX, RUN_USAGE, SESSIONS, SessionPresence, StoredRow,
    StoredValue, TransferColumn, TransferEnd, TransferSession, TransferStore, TransferTable,
    canonical_json,
};
use crate::stored_form::to_json;

const READ: &str = "read a session for a copy";
const WRITE: &str = "copy a session";

impl PostgresStore {
    /// Connects to the database for a copy. Sessions whose tools work on a disk get `home`, the name of the
    /// machine with that disk.
    pub async fn open_transfer(
        options: &PostgresOptions,
        home: &str,
    ) -> Result<TransferStore, StoreError> {
        let database = Self::connect(options).await?.database;
        let home = home.to_owned();
        Ok(TransferStore(Box::new(PostgresEnd { database, home, transaction: None })))
    }
}

/// A database, with at most one open transaction.
struct PostgresEnd {
    database: Database,
    home: String,
    transaction: Option<Transaction>,
}

impl PostgresEnd {
    async fn query(&self, sql: &str, values: &[&dyn SqlValue]) -> Result<Vec<Row>, PostgresError> {
        match &self.transaction {
            Some(transaction) => transaction.rows(sql, values).await,
            None => self.database.single(TransactionKind::Read, sql, values).await,
        }
    }

    fn report<T>(
        &self,
        verb: &'static str,
        done: Result<T, PostgresError>,
    ) -> Result<T, StoreError> {
        done.map_err(|error| error.into_store_error(verb, &self.database.description))
    }

    async fn list(&self, after: &str) -> Result<Vec<TransferSession>, PostgresError> {
        let list = format!(
            "SELECT id, owner, key, label FROM zero.sessions WHERE id > $1 AND NOT removed
             ORDER BY id LIMIT {PAGE_ROWS_MAX}"
        );
        let rows = self.query(&list, &[&after]).await?;
        rows.iter()
            .map(|row| {
                Ok(TransferSession {
                    id: row.try_get(0)?,
                    owner: row.try_get(1)?,
                    key: row.try_get(2)?,
                    label: row.try_get(3)?,
                })
            })
            .collect()
    }

    async fn find_presence(
        &self,
        session: &TransferSession,
    ) -> Result<SessionPresence, PostgresError> {
        let find = "SELECT
            (SELECT removed FROM zero.sessions WHERE id = $1),
            EXISTS (SELECT 1 FROM zero.sessions WHERE owner = $2 AND key = $3 AND NOT removed),
            EXISTS (SELECT 1 FROM zero.sessions WHERE owner = $2 AND label = $4 AND NOT removed)";
        let (id, owner) = (session.id.as_str(), session.owner.as_str());
        let (key, label) = (session.key.as_str(), session.label.as_deref());
        let rows = self.query(find, &[&id, &owner, &key, &label]).await?;
        let Some(row) = rows.first() else { return Ok(SessionPresence::Missing) };
        Ok(match (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?) {
            (Some(true), _, _) => SessionPresence::Deleted,
            (Some(false), _, _) => SessionPresence::Present,
            (None, true, _) => SessionPresence::KeyTaken,
            (None, false, true) => SessionPresence::LabelTaken,
            (None, false, false) => SessionPresence::Missing,
        })
    }

    async fn page(
        &self,
        table: &'static TransferTable,
        session: &str,
        after: &[StoredValue],
    ) -> Result<Vec<StoredRow>, PostgresError> {
        let mut values: Vec<&dyn SqlValue> = Vec::new();
        let mut conditions: Vec<String> = Vec::new();
        if let Some(owner) = owner_condition(table) {
            conditions.push(owner.to_owned());
            values.push(&session);
        }
        let key: Vec<&str> = table
            .columns
            .iter()
            .take(table.key_columns)
            .map(|column| name(table, column))
            .collect();
        let key = key.join(", ");
        if !after.is_empty() {
            let first = values.len() + 1;
            let marks: Vec<String> =
                (first..first + after.len()).map(|place| format!("${place}")).collect();
            conditions.push(format!("({key}) > ({})", marks.join(", ")));
            for value in after {
                values.push(match value {
                    StoredValue::Int(number) => number,
                    StoredValue::Text(text) => text,
                    StoredValue::Null | StoredValue::Bytes(_) => {
                        return Err(PostgresError::InvalidData("a key has no value".to_owned()));
                    }
                });
            }
        }
        let filter = match conditions.is_empty() {
            true => String::new(),
            false => format!("WHERE {}", conditions.join(" AND ")),
        };
        let page = format!(
            "SELECT * FROM zero.{} {filter} ORDER BY {key} LIMIT {PAGE_ROWS_MAX}",
            table.name
        );
        let columns = read_columns(table);
        let select = match table.has_bodies {
            false => format!("SELECT {columns} FROM ({page}) AS page ORDER BY {key}"),
            // At least one, however large it is.
            true => format!(
                "SELECT {columns} FROM (SELECT *, sum(octet_length(body)) OVER (ORDER BY {key}
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS bytes_before
                     FROM ({page}) AS page) AS counted
                 WHERE coalesce(bytes_before, 0) < {PAGE_BYTES_MAX} ORDER BY {key}"
            ),
        };
        let rows = self.query(&select, &values).await?;
        rows.iter().map(|row| read_row(table, row)).collect()
    }

    async fn read_same_usages(&self, rows: &[StoredRow]) -> Result<Vec<StoredRow>, PostgresError> {
        let select = format!(
            "SELECT {} FROM zero.run_usage WHERE (run, session) IN
                (SELECT * FROM unnest($1::text[], $2::text[]))",
            read_columns(&RUN_USAGE)
        );
        let found = self.query(&select, &[&texts(rows, 0), &texts(rows, 1)]).await?;
        found.iter().map(|row| read_row(&RUN_USAGE, row)).collect()
    }

    async fn write(
        &self,
        table: &'static TransferTable,
        session: &str,
        rows: &[StoredRow],
    ) -> Result<(), PostgresError> {
        let mut names: Vec<String> = Vec::new();
        let mut selected: Vec<String> = Vec::new();
        let mut arrays: Vec<String> = Vec::new();
        let mut values: Vec<Box<dyn SqlValue + Send + '_>> = Vec::new();
        if owner_condition(table).is_some() && table.name != SESSIONS.name {
            values.push(Box::new(session));
            names.push("session".to_owned());
            selected.push("(SELECT row_id FROM zero.sessions WHERE id = $1)".to_owned());
        }
        let mut aliases: Vec<String> = Vec::new();
        for (place, column) in table.columns.iter().enumerate() {
            let number = values.len() + 1;
            names.push(name(table, column).to_owned());
            aliases.push(format!("c{place}"));
            let is_json = column.column_type == ColumnType::Json;
            selected.push(format!("c{place}{}", if is_json { "::jsonb" } else { "" }));
            let (sql_type, array): (_, Box<dyn SqlValue + Send + '_>) = match column.column_type {
                ColumnType::Int => ("int8", Box::new(ints(rows, place))),
                ColumnType::Bytes => ("bytea", Box::new(blobs(rows, place))),
                ColumnType::Text | ColumnType::Json => ("text", Box::new(texts(rows, place))),
            };
            arrays.push(format!("${number}::{sql_type}[]"));
            values.push(array);
        }
        match table.name {
            // A run of a copy is one of no process.
            "runs" => {
                names.push("node".to_owned());
                selected.push("''".to_owned());
            }
            "events" => {
                let body = table.columns.len() - 1;
                let resets: Vec<bool> =
                    rows.iter().map(|row| text_of(row, body).is_some_and(is_reset)).collect();
                arrays.push(format!("${}::bool[]", values.len() + 1));
                values.push(Box::new(resets));
                names.push("is_reset".to_owned());
                aliases.push("is_reset".to_owned());
                selected.push("new.is_reset".to_owned());
            }
            _ => {}
        }
        let insert = format!(
            "INSERT INTO zero.{} ({}) SELECT {} FROM unnest({}) AS new ({}){}",
            table.name,
            names.join(", "),
            selected.join(", "),
            arrays.join(", "),
            aliases.join(", "),
            if table.name == RUN_USAGE.name {
                " ON CONFLICT (run, session) DO NOTHING"
            } else {
                ""
            }
        );
        let values: Vec<&dyn SqlValue> =
            values.iter().map(|value| -> &dyn SqlValue { &**value }).collect();
        self.query(&insert, &values).await.map(drop)
    }

    async fn derive(&self, session: &str) -> Result<(), PostgresError> {
        // Not null: without a holder, a run could begin beside the one that is unfinished.
        let complete = "UPDATE zero.sessions SET
            last_message = coalesce((SELECT max(position) FROM zero.messages
                WHERE messages.session = row_id AND messages.transcript = sessions.transcript), 0),
            node = CASE WHEN EXISTS (SELECT 1 FROM zero.runs
                WHERE runs.session = row_id AND outcome IS NULL) THEN '' END,
            home = CASE WHEN tool_host = $2 THEN $3 END
            WHERE id = $1";
        let gateway = to_json(&ToolHostLocation::Gateway)?;
        self.query(complete, &[&session, &gateway, &self.home.as_str()]).await.map(drop)
    }
}

impl TransferEnd for PostgresEnd {
    fn sessions<'a>(
        &'a mut self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Vec<TransferSession>, StoreError>> {
        Box::pin(async move { self.report(READ, self.list(after).await) })
    }

    fn find<'a>(
        &'a mut self,
        session: &'a TransferSession,
    ) -> BoxFuture<'a, Result<SessionPresence, StoreError>> {
        Box::pin(async move { self.report(READ, self.find_presence(session).await) })
    }

    fn rows<'a>(
        &'a mut self,
        table: &'static TransferTable,
        session: &'a str,
        after: &'a [StoredValue],
    ) -> BoxFuture<'a, Result<Vec<StoredRow>, StoreError>> {
        Box::pin(async move { self.report(READ, self.page(table, session, after).await) })
    }

    fn same_usages<'a>(
        &'a mut self,
        rows: &'a [StoredRow],
    ) -> BoxFuture<'a, Result<Vec<StoredRow>, StoreError>> {
        Box::pin(async move { self.report(READ, self.read_same_usages(rows).await) })
    }

    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let begun = self.database.begin(TransactionKind::Transfer).await;
            self.transaction = Some(self.report(WRITE, begun)?);
            Ok(())
        })
    }

    fn insert<'a>(
        &'a mut self,
        table: &'static TransferTable,
        session: &'a str,
        rows: &'a [StoredRow],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.report(WRITE, self.write(table, session, rows).await) })
    }

    fn complete<'a>(&'a mut self, session: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move { self.report(WRITE, self.derive(session).await) })
    }

    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let Some(transaction) = self.transaction.take() else { return Ok(()) };
            let committed = transaction.finish(Ok(())).await;
            self.report(WRITE, committed)
        })
    }

    fn roll_back(&mut self) -> BoxFuture<'_, ()> {
        // Without an end, its connection is closed, and the server rolls it back.
        self.transaction = None;
        Box::pin(std::future::ready(()))
    }
}

/// Which rows are those of a session.
fn owner_condition(table: &TransferTable) -> Option<&'static str> {
    match table.name {
        name if name == SESSIONS.name => Some("id = $1 AND NOT removed"),
        name if name == RUN_USAGE.name => None,
        _ => Some("session = (SELECT row_id FROM zero.sessions WHERE id = $1)"),
    }
}

/// The name of a column here.
fn name(table: &TransferTable, column: &TransferColumn) -> &'static str {
    match (table.name, column.name) {
        ("runs", "end") => "outcome",
        (_, name) => name,
    }
}

fn read_columns(table: &TransferTable) -> String {
    let columns = table.columns.iter().map(|column| match column.column_type {
        ColumnType::Json => format!("{}::text", name(table, column)),
        _ => name(table, column).to_owned(),
    });
    columns.collect::<Vec<_>>().join(", ")
}

fn read_row(table: &TransferTable, row: &Row) -> Result<StoredRow, PostgresError> {
    let mut values = StoredRow::with_capacity(table.columns.len());
    for (place, column) in table.columns.iter().enumerate() {
        let value = match column.column_type {
            ColumnType::Int => row.try_get::<_, Option<i64>>(place)?.map(StoredValue::Int),
            ColumnType::Bytes => row.try_get::<_, Option<Vec<u8>>>(place)?.map(StoredValue::Bytes),
            ColumnType::Text => row.try_get::<_, Option<String>>(place)?.map(StoredValue::Text),
            ColumnType::Json => {
                let text = row.try_get::<_, Option<String>>(place)?;
                text.map(|text| canonical_json(&text).map(StoredValue::Text)).transpose()?
            }
        };
        values.push(value.unwrap_or(StoredValue::Null));
    }
    Ok(values)
}

fn text_of(row: &StoredRow, place: usize) -> Option<&str> {
    match row.get(place) {
        Some(StoredValue::Text(text)) => Some(text),
        _ => None,
    }
}

fn texts(rows: &[StoredRow], place: usize) -> Vec<Option<&str>> {
    rows.iter().map(|row| text_of(row, place)).collect()
}

fn ints(rows: &[StoredRow], place: usize) -> Vec<Option<i64>> {
    let int = |row: &StoredRow| match row.get(place) {
        Some(StoredValue::Int(number)) => Some(*number),
        _ => None,
    };
    rows.iter().map(int).collect()
}

fn blobs(rows: &[StoredRow], place: usize) -> Vec<Option<&[u8]>> {
    rows.iter()
        .map(|row| match row.get(place) {
            Some(StoredValue::Bytes(bytes)) => Some(bytes.as_slice()),
            _ => None,
        })
        .collect()
}
