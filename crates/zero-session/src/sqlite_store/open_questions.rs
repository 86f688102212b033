//! Questions of unfinished runs that wait for an answer.

use rusqlite::{Connection, OptionalExtension as _, Row};
use zero_core::{RunId, SessionId};

use super::database_error::DatabaseError;
use super::ledger;
use super::sessions::to_json;
use crate::open_question::{OpenQuestion, QuestionContent, QuestionEntry};
use crate::store::ToolHostLocation;

const COLUMNS: &str = "SELECT live_sessions.id, open_questions.run, open_questions.asked_ms,
         open_questions.body
     FROM open_questions JOIN live_sessions ON live_sessions.row = open_questions.session";

/// Updates the open questions from an entry that is written in the same transaction. `entry_at` has
/// the time and the content of each entry.
pub(super) fn apply<'a>(
    db: &Connection,
    session: i64,
    entry: &QuestionEntry,
    entry_at: impl Fn(usize) -> Option<(i64, &'a str)>,
) -> Result<(), DatabaseError> {
    match entry {
        QuestionEntry::Asked { at, id, run } => {
            let Some((asked_ms, body)) = entry_at(*at) else { return Ok(()) };
            // A client that hosts the tools asks its own user, and takes the question with it. What a
            // sub-agent asks is recorded in the session that the user started.
            db.prepare_cached(
                "INSERT OR IGNORE INTO open_questions (id, session, run, asked_ms, body)
                 SELECT ?, row, ?, ?, ? FROM sessions
                 WHERE row = ? AND tool_host = ? AND parent IS NULL",
            )?
            .execute((
                id,
                run.as_str(),
                asked_ms,
                body,
                session,
                to_json(&ToolHostLocation::Gateway)?,
            ))?;
        }
        QuestionEntry::Resolved { id } => {
            db.prepare_cached("DELETE FROM open_questions WHERE id = ?")?.execute([id])?;
        }
        QuestionEntry::RunEnded { run } => {
            db.prepare_cached("DELETE FROM open_questions WHERE session = ? AND run = ?")?
                .execute((session, run.as_str()))?;
        }
    }
    Ok(())
}

/// Open questions of a session, an owner or of all, oldest first. One that cannot be read is left out.
pub(super) fn list(
    db: &Connection,
    session: Option<&SessionId>,
    owner: Option<&str>,
) -> Result<Vec<OpenQuestion>, DatabaseError> {
    // If there are too many, the oldest ones of each owner stay.
    let mut statement = db.prepare_cached(&format!(
        "WITH numbered AS (
             SELECT open_questions.row, row_number()
                 OVER (PARTITION BY live_sessions.owner ORDER BY open_questions.row) AS number
             FROM open_questions JOIN live_sessions ON live_sessions.row = open_questions.session
             WHERE (?1 IS NULL OR live_sessions.id = ?1) AND (?2 IS NULL OR live_sessions.owner = ?2))
         {COLUMNS} WHERE open_questions.row IN
             (SELECT row FROM numbered WHERE number <= {} ORDER BY number, row LIMIT {})
         ORDER BY open_questions.row",
        OpenQuestion::OWNER_LIST_MAX,
        OpenQuestion::LIST_MAX
    ))?;
    let mut rows = statement.query((session.map(SessionId::as_str), owner))?;
    let mut questions = Vec::new();
    while let Some(row) = rows.next()? {
        questions.extend(read_row(row)?);
    }
    Ok(questions)
}

pub(super) fn find(db: &Connection, id: &str) -> Result<Option<OpenQuestion>, DatabaseError> {
    let mut find = db.prepare_cached(&format!("{COLUMNS} WHERE open_questions.id = ?"))?;
    let found = find.query_row([id], |row| Ok(read_row(row))).optional()?;
    Ok(found.transpose()?.flatten())
}

fn read_row(row: &Row<'_>) -> Result<Option<OpenQuestion>, DatabaseError> {
    let (session, run): (String, String) = (row.get(0)?, row.get(1)?);
    let content = QuestionContent::from_event(&ledger::read_body(row.get_ref(3)?));
    let (Ok(session), Ok(run), Some(content)) = (SessionId::new(session), RunId::new(run), content)
    else {
        tracing::error!("an open question cannot be read");
        return Ok(None);
    };
    Ok(Some(OpenQuestion { session, run, asked_ms: row.get(2)?, content }))
}
