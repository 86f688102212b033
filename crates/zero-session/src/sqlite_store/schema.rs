//! The database schema and its migrations.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::database_error::DatabaseError;
use crate::store::StoreError;

/// Application id of zero's files: `zero` in ASCII.
const APPLICATION_ID: i32 = 0x7a65_726f;

/// What the migrations together lead to, for new files: applying them one by one takes milliseconds.
const CURRENT_SCHEMA: &str = include_str!("current_schema.sql");

/// The migrations from each version to the next. A released migration is never changed. A
/// new one also goes into `current_schema.sql`.
const MIGRATIONS: &[&str] = &[
    SCHEMA_V1,
    SCHEMA_V2_SESSION_BYTES,
    SCHEMA_V3_TOOL_OUTCOMES,
    SCHEMA_V4_SESSION_CLAIMS,
    SCHEMA_V5_KEYS_PER_OWNER,
    SCHEMA_V6_COMPLETED_POINT,
    SCHEMA_V7_RUN_USAGE,
    SCHEMA_V8_REWIND_POINTS,
    SCHEMA_V9_OPEN_QUESTIONS,
    SCHEMA_V10_SUBAGENTS,
    SCHEMA_V11_RUN_IDS_PER_OWNER,
];

/// `…_folded` columns are used for search: see [`crate::stored_form::fold_case`]. A folder is stored
/// as bytes, as in the system.
const SCHEMA_V1: &str = "
    CREATE TABLE sessions (
        row INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        key TEXT NOT NULL UNIQUE,
        key_folded TEXT NOT NULL,
        label TEXT UNIQUE,
        label_folded TEXT,
        title TEXT,
        title_folded TEXT,
        agent TEXT NOT NULL,
        model TEXT,
        mode TEXT,
        thinking TEXT,
        cwd BLOB,
        owner TEXT NOT NULL,
        tool_host TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        transcript INTEGER NOT NULL,
        usage TEXT NOT NULL,
        context_tokens INTEGER,
        last_seq INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE events (
        session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        run TEXT,
        time_ms INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE transcripts (
        session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        why TEXT NOT NULL,
        started_ms INTEGER NOT NULL,
        PRIMARY KEY (session, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE messages (
        session INTEGER NOT NULL,
        transcript INTEGER NOT NULL,
        position INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, transcript, position),
        FOREIGN KEY (session, transcript) REFERENCES transcripts (session, number)
            ON DELETE CASCADE
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE runs (
        row INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
        node TEXT NOT NULL,
        started_ms INTEGER NOT NULL,
        ended_ms INTEGER,
        end TEXT,
        usage TEXT NOT NULL
    ) STRICT;
    CREATE INDEX runs_by_session ON runs (session);
    CREATE INDEX runs_unsettled ON runs (started_ms) WHERE end IS NULL;
    CREATE TABLE grants (
        session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, position)
    ) STRICT, WITHOUT ROWID;
";

/// The size of a session is updated as it grows; computing it would read the whole session.
const SCHEMA_V2_SESSION_BYTES: &str = "
    ALTER TABLE sessions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE sessions SET bytes =
        (SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM events WHERE session = row)
        + (SELECT coalesce(sum(length(CAST(body AS BLOB))), 0) FROM messages WHERE session = row);
    CREATE INDEX sessions_by_owner ON sessions (owner);
";

/// The entry for the end of a call now contains its whole outcome. The tables and existing entries
/// do not change; old entries are converted when read. The new version number prevents an
/// older zero from opening a file that it cannot read.
const SCHEMA_V3_TOOL_OUTCOMES: &str = "";

/// The process that holds a session, and the number of its claim. A session with unfinished runs is
/// held by the process that began the newest.
const SCHEMA_V4_SESSION_CLAIMS: &str = "
    ALTER TABLE sessions ADD COLUMN node TEXT;
    ALTER TABLE sessions ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    UPDATE sessions SET node = (SELECT node FROM runs
        WHERE runs.session = sessions.row AND runs.end IS NULL ORDER BY runs.row DESC LIMIT 1);
    CREATE INDEX runs_unfinished_by_session ON runs (session) WHERE end IS NULL;
";

/// Keys and labels are unique per owner. A session whose deletion has begun is marked, and no
/// longer read: see [`super::removal`]. SQLite cannot drop a column's `UNIQUE`, so the table is
/// copied. Foreign keys are off meanwhile, since dropping the old table would delete what refers to
/// it.
const SCHEMA_V5_KEYS_PER_OWNER: &str = "
    CREATE TABLE sessions_v5 (
        row INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        key TEXT NOT NULL,
        key_folded TEXT NOT NULL,
        label TEXT,
        label_folded TEXT,
        title TEXT,
        title_folded TEXT,
        agent TEXT NOT NULL,
        model TEXT,
        mode TEXT,
        thinking TEXT,
        cwd BLOB,
        owner TEXT NOT NULL,
        tool_host TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        transcript INTEGER NOT NULL,
        usage TEXT NOT NULL,
        context_tokens INTEGER,
        last_seq INTEGER NOT NULL,
        bytes INTEGER NOT NULL DEFAULT 0,
        node TEXT,
        epoch INTEGER NOT NULL DEFAULT 0,
        removed INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    INSERT INTO sessions_v5 (row, id, key, key_folded, label, label_folded, title, title_folded,
            agent, model, mode, thinking, cwd, owner, tool_host, created_ms, updated_ms, transcript,
            usage, context_tokens, last_seq, bytes, node, epoch)
        SELECT row, id, key, key_folded, label, label_folded, title, title_folded,
            agent, model, mode, thinking, cwd, owner, tool_host, created_ms, updated_ms, transcript,
            usage, context_tokens, last_seq, bytes, node, epoch FROM sessions;
    DROP TABLE sessions;
    ALTER TABLE sessions_v5 RENAME TO sessions;
    CREATE UNIQUE INDEX sessions_by_key ON sessions (owner, key) WHERE removed = 0;
    CREATE UNIQUE INDEX sessions_by_label ON sessions (owner, label)
        WHERE removed = 0 AND label IS NOT NULL;
    CREATE INDEX sessions_removed ON sessions (row) WHERE removed = 1;
    CREATE VIEW live_sessions AS SELECT * FROM sessions WHERE removed = 0;
";

/// The transcript, and the number of its messages, before the oldest unfinished run: see
/// [`super::runs`]. Unknown for runs that an older zero began.
const SCHEMA_V6_COMPLETED_POINT: &str = "
    ALTER TABLE sessions ADD COLUMN completed_transcript INTEGER;
    ALTER TABLE sessions ADD COLUMN completed_messages INTEGER;
";

/// What runs used, which is kept when their sessions are deleted. The model of earlier runs is only in
/// their entries and not looked up.
const SCHEMA_V7_RUN_USAGE: &str = "
    CREATE TABLE run_usage (
        run TEXT NOT NULL PRIMARY KEY,
        session TEXT NOT NULL,
        session_key TEXT NOT NULL,
        owner TEXT NOT NULL,
        agent TEXT NOT NULL,
        model TEXT NOT NULL,
        started_ms INTEGER NOT NULL,
        usage TEXT NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX run_usage_by_time ON run_usage (started_ms, run);
    CREATE INDEX run_usage_by_session ON run_usage (session);
    INSERT INTO run_usage
        SELECT runs.id, sessions.id, sessions.key, sessions.owner, sessions.agent,
            coalesce(sessions.model, '(unknown)'), runs.started_ms, runs.usage
        FROM runs JOIN sessions ON sessions.row = runs.session;
";

/// The points before which a session can be rewound: its prompts, and its rewinds. `before` is the
/// entry before which a rewind left the conversation. Prompts of an older zero have none.
const SCHEMA_V8_REWIND_POINTS: &str = "
    CREATE TABLE rewind_points (
        session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
        seq INTEGER NOT NULL,
        run TEXT,
        time_ms INTEGER NOT NULL,
        words TEXT NOT NULL,
        rewind TEXT,
        before INTEGER,
        scope TEXT,
        transcript INTEGER,
        messages INTEGER,
        PRIMARY KEY (session, seq)
    ) STRICT, WITHOUT ROWID;
";

/// Questions of unfinished runs: see [`crate::open_question`]. Runs of an older zero have none, since
/// it ended them when it stopped. The options of a run are needed to continue it.
const SCHEMA_V9_OPEN_QUESTIONS: &str = "
    CREATE TABLE open_questions (
        row INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
        run TEXT NOT NULL,
        asked_ms INTEGER NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX open_questions_by_session ON open_questions (session);
    CREATE INDEX open_questions_by_run ON open_questions (run);
    ALTER TABLE runs ADD COLUMN options TEXT;
";

/// The session that started the session of a sub-agent, and the run of the user's prompt to whose
/// budgets a sub-agent's run counts.
const SCHEMA_V10_SUBAGENTS: &str = "
    ALTER TABLE sessions ADD COLUMN parent TEXT;
    CREATE INDEX sessions_by_parent ON sessions (parent) WHERE parent IS NOT NULL;
    ALTER TABLE run_usage ADD COLUMN root_run TEXT;
    ALTER TABLE run_usage ADD COLUMN root_session TEXT;
    ALTER TABLE run_usage ADD COLUMN root_agent TEXT;
    CREATE INDEX run_usage_by_root_run ON run_usage (root_run) WHERE root_run IS NOT NULL;
    CREATE INDEX run_usage_by_root_session ON run_usage (root_session)
        WHERE root_session IS NOT NULL;
";

/// Ids of runs are unique per owner. As in [`SCHEMA_V5_KEYS_PER_OWNER`], the tables are copied.
const SCHEMA_V11_RUN_IDS_PER_OWNER: &str = "
    CREATE TABLE runs_v11 (
        row INTEGER PRIMARY KEY,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
        node TEXT NOT NULL,
        started_ms INTEGER NOT NULL,
        ended_ms INTEGER,
        end TEXT,
        usage TEXT NOT NULL,
        options TEXT
    ) STRICT;
    INSERT INTO runs_v11 (row, owner, id, session, node, started_ms, ended_ms, end, usage, options)
        SELECT runs.row, sessions.owner, runs.id, runs.session, runs.node, runs.started_ms,
            runs.ended_ms, runs.end, runs.usage, runs.options
        FROM runs JOIN sessions ON sessions.row = runs.session;
    DROP TABLE runs;
    ALTER TABLE runs_v11 RENAME TO runs;
    CREATE UNIQUE INDEX runs_by_id ON runs (id, owner);
    CREATE INDEX runs_by_session ON runs (session, id);
    CREATE INDEX runs_unsettled ON runs (started_ms) WHERE end IS NULL;
    CREATE INDEX runs_unfinished_by_session ON runs (session) WHERE end IS NULL;
    CREATE TABLE run_usage_v11 (
        run TEXT NOT NULL,
        session TEXT NOT NULL,
        session_key TEXT NOT NULL,
        owner TEXT NOT NULL,
        agent TEXT NOT NULL,
        model TEXT NOT NULL,
        started_ms INTEGER NOT NULL,
        usage TEXT NOT NULL,
        root_run TEXT,
        root_session TEXT,
        root_agent TEXT,
        PRIMARY KEY (run, session)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO run_usage_v11 SELECT run, session, session_key, owner, agent, model, started_ms, usage,
            root_run, root_session, root_agent FROM run_usage;
    DROP TABLE run_usage;
    ALTER TABLE run_usage_v11 RENAME TO run_usage;
    CREATE INDEX run_usage_by_time ON run_usage (started_ms, run, session);
    CREATE INDEX run_usage_by_session ON run_usage (session);
    CREATE INDEX run_usage_by_root_run ON run_usage (root_run) WHERE root_run IS NOT NULL;
    CREATE INDEX run_usage_by_root_session ON run_usage (root_session)
        WHERE root_session IS NOT NULL;
";

/// Checks that the file is new or has a known version.
pub(super) fn check_version(connection: &Connection, path: &Path) -> Result<(), DatabaseError> {
    // In one transaction, since another process may be creating the tables.
    read_version(&connection.unchecked_transaction()?, path).map(drop)
}

/// Applies the missing migrations in one transaction.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), DatabaseError> {
    if read_version(&connection.unchecked_transaction()?, path)? == MIGRATIONS.len() {
        return Ok(());
    }
    // Without effect inside a transaction; see `SCHEMA_V5_KEYS_PER_OWNER`.
    connection.execute_batch("PRAGMA foreign_keys = OFF")?;
    let migrated = apply_migrations(connection, path);
    connection.execute_batch("PRAGMA foreign_keys = ON")?;
    migrated
}

fn apply_migrations(connection: &mut Connection, path: &Path) -> Result<(), DatabaseError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again, since another process may have been faster.
    let taken = read_version(&transaction, path)?;
    match taken {
        0 => transaction.execute_batch(CURRENT_SCHEMA)?,
        _ => MIGRATIONS.iter().skip(taken).try_for_each(|step| transaction.execute_batch(step))?,
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(
        None,
        "user_version",
        i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX),
    )?;
    Ok(transaction.commit()?)
}

/// Number of applied migrations, read within a transaction.
fn read_version(connection: &Transaction<'_>, path: &Path) -> Result<usize, DatabaseError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application = number("application_id")?;
    let version = number("user_version")?;
    let tables: i64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let refused = |why: String| Err(StoreError::Broken { verb: "open", why }.into());
    let path = path.display();
    match (application, usize::try_from(version)) {
        (0, Ok(0)) if tables == 0 => Ok(0),
        (APPLICATION_ID, Ok(version)) if (1..=MIGRATIONS.len()).contains(&version) => Ok(version),
        (APPLICATION_ID, Ok(version)) if version > MIGRATIONS.len() => refused(format!(
            "`{path}` was written by a newer zero (its version is {version}, this zero knows {}); \
             update zero, or let it keep its sessions elsewhere",
            MIGRATIONS.len()
        )),
        _ => refused(format!("`{path}` is a database, but not one of zero's; name another file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definitions of all tables, indexes and views. `ALTER TABLE` has its own way of writing
    /// them, which differs in spaces and quotes.
    fn definitions(steps: &[&str]) -> Vec<String> {
        let connection = Connection::open_in_memory().unwrap();
        steps.iter().for_each(|step| connection.execute_batch(step).unwrap());
        let sql = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(|sql| sql.unwrap().replace(|c: char| c.is_whitespace() || c == '"', "")).collect()
    }

    #[test]
    fn new_file_has_the_schema_of_a_migrated_one() {
        let migrated = definitions(MIGRATIONS);
        assert!(migrated.len() > 15, "{migrated:?}");
        assert_eq!(definitions(&[CURRENT_SCHEMA]), migrated);
    }
}
