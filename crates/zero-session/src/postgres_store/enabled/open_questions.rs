//! Questions of unfinished runs that wait for an answer.

use tokio_postgres::Row;
use zero_core::{RunId, SessionId};

use super::database::{Database, Transaction, TransactionKind};
use super::postgres_error::PostgresError;
use super::sessions::storable;
use crate::open_question::{OpenQuestion, QuestionContent, QuestionEntry};
use crate::store::ToolHostLocation;
use crate::stored_form::{EncodedEvent, decode_event, to_json, to_sql_int};

const SELECT: &str = "SELECT sessions.id, questions.run, questions.asked_ms, questions.body
    FROM zero.open_questions AS questions
    JOIN zero.sessions ON sessions.row_id = questions.session AND NOT sessions.removed";

/// Updates the open questions from an entry that is written in the same transaction, among `rows`.
pub(super) async fn apply(
    transaction: &Transaction,
    session: i64,
    entry: &QuestionEntry,
    rows: &[EncodedEvent],
) -> Result<(), PostgresError> {
    match entry {
        QuestionEntry::Asked { at, id, run } => {
            let Some(row) = rows.get(*at) else { return Ok(()) };
            // A client that hosts the tools asks its own user, and takes the question with it. What
            // a sub-agent asks is recorded in the session that the user started.
            transaction
                .run(
                    "INSERT INTO zero.open_questions (id, session, run, asked_ms, body)
                     SELECT $1, row_id, $2, $3, $4 FROM zero.sessions
                     WHERE row_id = $5 AND tool_host = $6 AND parent IS NULL
                     ON CONFLICT (id) DO NOTHING",
                    &[
                        &&*storable(id),
                        &run.as_str(),
                        &row.time_ms,
                        &row.body.as_str(),
                        &session,
                        &to_json(&ToolHostLocation::Gateway)?,
                    ],
                )
                .await
        }
        QuestionEntry::Resolved { id } => {
            let sql = "DELETE FROM zero.open_questions WHERE id = $1";
            transaction.run(sql, &[&&*storable(id)]).await
        }
        QuestionEntry::RunEnded { run } => {
            let sql = "DELETE FROM zero.open_questions WHERE session = $1 AND run = $2";
            transaction.run(sql, &[&session, &run.as_str()]).await
        }
    }
}

/// Open questions of a session, an owner or of all, oldest first. One that cannot be read is left out.
pub(super) async fn list(
    database: &Database,
    session: Option<&str>,
    owner: Option<&str>,
) -> Result<Vec<OpenQuestion>, PostgresError> {
    // If there are too many, the oldest ones of each owner stay.
    let sql = format!(
        "WITH numbered AS (
             SELECT questions.row_id, row_number()
                 OVER (PARTITION BY sessions.owner ORDER BY questions.row_id) AS number
             FROM zero.open_questions AS questions
             JOIN zero.sessions ON sessions.row_id = questions.session AND NOT sessions.removed
             WHERE ($1::text IS NULL OR sessions.id = $1)
                 AND ($2::text IS NULL OR sessions.owner = $2))
         {SELECT} WHERE questions.row_id IN
             (SELECT row_id FROM numbered WHERE number <= $3 ORDER BY number, row_id LIMIT $4)
         ORDER BY questions.row_id"
    );
    let owner_max = to_sql_int(OpenQuestion::OWNER_LIST_MAX as u64);
    let all_max = to_sql_int(OpenQuestion::LIST_MAX as u64);
    let values: super::database::SqlValues<'_> = &[&session, &owner, &owner_max, &all_max];
    let rows = database.single(TransactionKind::Read, &sql, values).await?;
    let mut questions = Vec::new();
    for row in &rows {
        questions.extend(read_row(row)?);
    }
    Ok(questions)
}

pub(super) async fn find(
    database: &Database,
    id: &str,
) -> Result<Option<OpenQuestion>, PostgresError> {
    let sql = format!("{SELECT} WHERE questions.id = $1");
    let rows = database.single(TransactionKind::Read, &sql, &[&&*storable(id)]).await?;
    rows.first().map_or(Ok(None), read_row)
}

fn read_row(row: &Row) -> Result<Option<OpenQuestion>, PostgresError> {
    let (session, run): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let content = QuestionContent::from_event(&decode_event(row.try_get(3)?));
    let (Ok(session), Ok(run), Some(content)) = (SessionId::new(session), RunId::new(run), content)
    else {
        tracing::error!("an open question cannot be read");
        return Ok(None);
    };
    Ok(Some(OpenQuestion { session, run, asked_ms: row.try_get(2)?, content }))
}
