//! Sessions as rows, and their grants.

use std::borrow::Cow;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use zero_core::SessionId;

use super::claims::no_session_error;
use super::database::{Database, SqlValue, SqlValues, Transaction, TransactionKind};
use super::ledger;
use super::postgres_error::PostgresError;
use crate::event::TokenUsage;
use crate::key::{SessionAddress, SessionKey};
use crate::store::{
    ClaimEpoch, GrantRecord, IdleSession, IdleSessionQuery, NewSession, OwnerSize, OwnerUsage,
    SessionPage, SessionPatch, SessionQuery, SessionRecord, StoreError, StoreUsage,
    TranscriptStart, UnnamedSession,
};
use crate::stored_form::{
    fold_case, from_sql_int, path_bytes, to_json, to_sql_int, transcript_start_word,
};

/// Columns of a [`SessionRecord`].
const COLUMNS: &str = "id, key, label, title, agent, model, mode, thinking, cwd, owner, tool_host,
    created_ms, updated_ms, transcript, usage, context_tokens, parent";
/// Rows that a search for damaged sessions reads at once.
const PAGE_ROWS: i64 = 1000;

/// A text that the database can store: it has no zero character.
pub(super) fn storable(text: &str) -> Cow<'_, str> {
    match text.contains('\0') {
        true => Cow::Owned(text.replace('\0', "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

fn storable_option(text: Option<&str>) -> Option<String> {
    text.map(|text| storable(text).into_owned())
}

/// Selects one session: by `condition`, which has the values.
pub(super) async fn find(
    database: &Database,
    condition: &str,
    values: SqlValues<'_>,
) -> Result<Option<SessionRecord>, PostgresError> {
    let sql = format!("SELECT {COLUMNS} FROM zero.sessions WHERE {condition} AND NOT removed");
    let rows = database.single(TransactionKind::Read, &sql, values).await?;
    rows.first().map(read_record).transpose()
}

/// The id of the session at an address; nothing else of it is read.
pub(super) async fn find_id(
    database: &Database,
    address: &SessionAddress,
) -> Result<Option<SessionId>, PostgresError> {
    let sql = format!("SELECT id FROM zero.sessions WHERE {BY_ADDRESS} AND NOT removed");
    let owner = storable(&address.owner);
    let values: SqlValues<'_> = &[&&*owner, &address.key.as_str()];
    let rows = database.single(TransactionKind::Read, &sql, values).await?;
    rows.first().map(|row| read_id(row.try_get(0)?)).transpose()
}

pub(super) const BY_ADDRESS: &str = "owner = $1 AND key = $2";
pub(super) const BY_ID: &str = "id = $1";

/// Locks the session at an address and returns it with its row.
async fn lock_at(
    transaction: &Transaction,
    address: &SessionAddress,
) -> Result<Option<SessionRecord>, PostgresError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM zero.sessions WHERE {BY_ADDRESS} AND NOT removed FOR UPDATE"
    );
    let owner = storable(&address.owner);
    let found = transaction.first(&sql, &[&&*owner, &address.key.as_str()]).await?;
    found.as_ref().map(read_record).transpose()
}

/// The session with an id, read within a transaction.
pub(super) async fn read(
    transaction: &Transaction,
    id: &SessionId,
) -> Result<SessionRecord, PostgresError> {
    let sql = format!("SELECT {COLUMNS} FROM zero.sessions WHERE id = $1 AND NOT removed");
    let found = transaction.first(&sql, &[&id.as_str()]).await?;
    read_record(&found.ok_or_else(|| no_session_error(id))?)
}

/// Whether the owner has a session with that key. None can be made until the transaction ends.
pub(super) async fn lock_owner(
    transaction: &Transaction,
    address: &SessionAddress,
) -> Result<bool, PostgresError> {
    let owner = storable(&address.owner);
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended('zero sessions of ' || $1, 0))";
    transaction.run(lock, &[&&*owner]).await?;
    Ok(lock_at(transaction, address).await?.is_some())
}

pub(super) async fn create(
    transaction: &Transaction,
    id: &SessionId,
    new: &NewSession,
    now_ms: i64,
) -> Result<SessionRecord, PostgresError> {
    let address = SessionAddress::new(&new.owner, new.key.clone());
    if let Some(existing) = lock_at(transaction, &address).await? {
        return Ok(existing);
    }
    if lock_owner(transaction, &address).await?
        && let Some(existing_session) = lock_at(transaction, &address).await?
    {
        return Ok(existing_session);
    }
    if count_owned(transaction, new).await? >= new.owned_max {
        return Err(StoreError::TooMany(new.owned_max).into());
    }
    check_label(transaction, new.label.as_deref(), &address).await?;
    let owner = storable(&new.owner).into_owned();
    let record = SessionRecord {
        id: id.clone(),
        key: new.key.clone(),
        label: storable_option(new.label.as_deref()),
        title: None,
        agent: new.key.agent().to_owned(),
        model: storable_option(new.model.as_deref()),
        mode: new.mode,
        thinking: None,
        cwd: new.cwd.clone(),
        owner,
        tool_host: new.tool_host.clone(),
        created_ms: now_ms,
        updated_ms: now_ms,
        transcript: 1,
        usage: TokenUsage::default(),
        context_tokens: None,
        parent: new.parent.clone(),
    };
    let made = transaction
        .first(
            "INSERT INTO zero.sessions (id, key, key_folded, agent, owner, tool_host, created_ms,
                 updated_ms, transcript, usage, parent)
             VALUES ($1, $2, $3, $4, $5, '', $6, $6, 1, $7, $8) RETURNING row_id",
            &[
                &id.as_str(),
                &new.key.as_str(),
                &fold_case(new.key.as_str()),
                &record.agent.as_str(),
                &record.owner.as_str(),
                &now_ms,
                &to_json(&record.usage)?,
                &record.parent.as_ref().map(SessionId::as_str),
            ],
        )
        .await?;
    let row: i64 = made.ok_or_else(|| no_session_error(id))?.try_get(0)?;
    insert_transcript(transaction, row, 1, TranscriptStart::Opened, now_ms).await?;
    save(transaction, &record).await?;
    Ok(record)
}

/// The session is given by its row. Transcripts are numbered from 1, without gaps.
pub(super) async fn insert_transcript(
    transaction: &Transaction,
    session: i64,
    number: i64,
    why: TranscriptStart,
    now_ms: i64,
) -> Result<(), PostgresError> {
    let sql = "INSERT INTO zero.transcripts (session, number, why, started_ms)
               VALUES ($1, $2, $3, $4)";
    transaction.run(sql, &[&session, &number, &transcript_start_word(why), &now_ms]).await
}

pub(super) async fn list(
    transaction: &Transaction,
    query: &SessionQuery,
) -> Result<SessionPage, PostgresError> {
    const FILTER: &str = "NOT removed
        AND ($1::text IS NULL OR strpos(key_folded, $1) > 0 OR strpos(label_folded, $1) > 0
            OR strpos(title_folded, $1) > 0)
        AND ($2::text IS NULL OR label = $2)
        AND ($3::text IS NULL OR agent = $3)
        AND ($4::text IS NULL OR owner = $4)
        AND ($5::int8 IS NULL OR updated_ms >= $5)
        AND ($6::bytea IS NULL OR cwd = $6)
        AND parent IS NOT DISTINCT FROM $7";
    let is_too_long = |text: &String| text.chars().nth(SessionQuery::SEARCH_CHARS_MAX).is_some();
    if query.search.as_ref().is_some_and(is_too_long) {
        return Ok(SessionPage::default());
    }
    let search = query.search.as_deref().map(|text| fold_case(&storable(text)));
    let label = storable_option(query.label.as_deref());
    let agent = storable_option(query.agent.as_deref());
    let owner = storable_option(query.owner.as_deref());
    let cwd = query.cwd.as_deref().map(path_bytes);
    let parent = query.parent.as_ref().map(SessionId::as_str);
    let limit = to_sql_int(query.page_size() as u64);
    let offset = to_sql_int(query.offset as u64);
    let filter: [&dyn SqlValue; 7] =
        [&search, &label, &agent, &owner, &query.updated_since_ms, &cwd, &parent];
    let count = format!("SELECT count(*) FROM zero.sessions WHERE {FILTER}");
    let total = transaction.first(&count, &filter).await?;
    let total: i64 = total.map_or(Ok(0), |row| row.try_get(0))?;
    let page = format!(
        "SELECT {COLUMNS} FROM zero.sessions WHERE {FILTER}
         ORDER BY updated_ms DESC, row_id DESC LIMIT $8 OFFSET $9"
    );
    let values: Vec<&dyn SqlValue> =
        filter.into_iter().chain([&limit as &dyn SqlValue, &offset]).collect();
    let mut sessions = Vec::new();
    for row in transaction.rows(&page, &values).await? {
        match read_record(&row) {
            // The others are listed without it.
            Err(error @ PostgresError::InvalidData(_)) => {
                tracing::error!(?error, "a session cannot be listed");
            }
            record => sessions.push(record?),
        }
    }
    Ok(SessionPage { sessions, total: from_sql_int(total) })
}

pub(super) async fn patch(
    transaction: &Transaction,
    address: &SessionAddress,
    patch: &SessionPatch,
) -> Result<Option<SessionRecord>, PostgresError> {
    let Some(before) = lock_at(transaction, address).await? else { return Ok(None) };
    if let Some(label) = &patch.label {
        check_label(transaction, label.as_deref(), address).await?;
    }
    let mut record = before.clone();
    let change_text = |field: &mut Option<String>, wanted: &Option<Option<String>>| {
        if let Some(wanted) = wanted {
            *field = storable_option(wanted.as_deref());
        }
    };
    change_text(&mut record.label, &patch.label);
    change_text(&mut record.title, &patch.title);
    change_text(&mut record.model, &patch.model);
    change_text(&mut record.thinking, &patch.thinking);
    if let Some(agent) = &patch.agent {
        record.agent = storable(agent).into_owned();
    }
    if let Some(mode) = patch.mode {
        record.mode = mode;
    }
    if let Some(cwd) = &patch.cwd {
        record.cwd.clone_from(cwd);
    }
    if let Some(tool_host) = &patch.tool_host {
        record.tool_host.clone_from(tool_host);
    }
    if patch.context_tokens.is_some() {
        record.context_tokens = patch.context_tokens;
    }
    record.updated_ms = patch.used_ms.map_or(before.updated_ms, |used| used.max(before.updated_ms));
    if record != before {
        save(transaction, &record).await?;
    }
    Ok(Some(record))
}

/// Writes the settings of a session.
async fn save(transaction: &Transaction, record: &SessionRecord) -> Result<(), PostgresError> {
    let folded = |text: &Option<String>| text.as_deref().map(fold_case);
    transaction
        .run(
            "UPDATE zero.sessions SET label = $2, label_folded = $3, title = $4, title_folded = $5,
                 agent = $6, model = $7, mode = $8, thinking = $9, cwd = $10, tool_host = $11,
                 context_tokens = $12, updated_ms = $13
             WHERE id = $1",
            &[
                &record.id.as_str(),
                &record.label.as_deref(),
                &folded(&record.label),
                &record.title.as_deref(),
                &folded(&record.title),
                &record.agent.as_str(),
                &record.model.as_deref(),
                &record.mode.map(|mode| mode.as_str()),
                &record.thinking.as_deref(),
                &record.cwd.as_deref().map(path_bytes),
                &to_json(&record.tool_host)?,
                &record.context_tokens.map(to_sql_int),
                &record.updated_ms,
            ],
        )
        .await
}

/// Refuses a label that another session of the owner has. A unique index refuses one that another
/// transaction gives at the same time; then this one is run again.
async fn check_label(
    transaction: &Transaction,
    label: Option<&str>,
    address: &SessionAddress,
) -> Result<(), PostgresError> {
    let Some(label) = label else { return Ok(()) };
    let find = "SELECT key FROM zero.sessions WHERE owner = $1 AND label = $2 AND NOT removed";
    let (owner, stored) = (storable(&address.owner), storable(label));
    let found = transaction.first(find, &[&&*owner, &&*stored]).await?;
    let Some(row) = found else { return Ok(()) };
    let key = read_key(row.try_get(0)?)?;
    match key == address.key {
        true => Ok(()),
        false => Err(StoreError::LabelTaken { label: label.to_owned(), key }.into()),
    }
}

/// The sessions that led to the one of the table `sessions` around it, which is of a sub-agent.
const ANCESTORS_SQL: &str = "
    WITH RECURSIVE ancestors (row_id, parent, label, updated_ms) AS (
        SELECT parents.row_id, parents.parent, parents.label, parents.updated_ms
        FROM zero.sessions AS parents WHERE parents.id = sessions.parent AND NOT parents.removed
        UNION SELECT parents.row_id, parents.parent, parents.label, parents.updated_ms
        FROM zero.sessions AS parents JOIN ancestors ON parents.id = ancestors.parent
        WHERE NOT parents.removed)";

/// Finds out whether one of them is kept because of a label or a run.
pub(super) fn kept_ancestors_sql() -> String {
    format!(
        "{ANCESTORS_SQL} SELECT 1 FROM ancestors WHERE label IS NOT NULL OR EXISTS (
             SELECT 1 FROM zero.runs
             WHERE runs.session = ancestors.row_id AND runs.outcome IS NULL)"
    )
}

pub(super) async fn list_idle(
    database: &Database,
    query: &IdleSessionQuery,
) -> Result<Vec<IdleSession>, PostgresError> {
    let list = format!(
        "SELECT id, owner, key, updated_ms, bytes, epoch FROM (
             SELECT *, greatest(updated_ms, (
                 {ANCESTORS_SQL} SELECT max(updated_ms) FROM ancestors)) AS active_ms
             FROM zero.sessions
             WHERE NOT removed AND label IS NULL AND ($2::text IS NULL OR owner = $2)
                 AND NOT EXISTS (SELECT 1 FROM zero.runs
                     WHERE runs.session = sessions.row_id AND runs.outcome IS NULL)
                 AND NOT EXISTS ({})) AS idle
         WHERE active_ms < $1 ORDER BY active_ms, row_id LIMIT $3",
        kept_ancestors_sql()
    );
    let owner = storable_option(query.owner.as_deref());
    let limit = to_sql_int(query.limit as u64);
    let values: SqlValues<'_> = &[&query.updated_before_ms, &owner, &limit];
    let rows = database.single(TransactionKind::Read, &list, values).await?;
    let mut sessions = Vec::new();
    for row in rows {
        match read_idle(&row) {
            // The others are listed without it.
            Err(error @ PostgresError::InvalidData(_)) => {
                tracing::error!(?error, "an idle session cannot be listed");
            }
            session => sessions.push(session?),
        }
    }
    Ok(sessions)
}

fn read_idle(row: &Row) -> Result<IdleSession, PostgresError> {
    Ok(IdleSession {
        id: read_id(row.try_get(0)?)?,
        address: SessionAddress::new(row.try_get::<_, String>(1)?, read_key(row.try_get(2)?)?),
        updated_ms: row.try_get(3)?,
        bytes: from_sql_int(row.try_get(4)?),
        claim: ClaimEpoch(from_sql_int(row.try_get(5)?)),
    })
}

/// Sessions whose id or key cannot be read.
pub(super) async fn list_unnamed(
    transaction: &Transaction,
) -> Result<Vec<UnnamedSession>, PostgresError> {
    let list = "SELECT row_id, id, owner, key FROM zero.sessions
                WHERE NOT removed AND row_id > $1 ORDER BY row_id LIMIT $2";
    let (mut sessions, mut after) = (Vec::new(), i64::MIN);
    loop {
        let rows = transaction.rows(list, &[&after, &PAGE_ROWS]).await?;
        let Some(last) = rows.last() else { return Ok(sessions) };
        after = last.try_get(0)?;
        for row in &rows {
            if is_unnamed(row)? {
                sessions.push(UnnamedSession {
                    row: row.try_get(0)?,
                    owner: row.try_get(2)?,
                    key: row.try_get(3)?,
                });
            }
            if sessions.len() == UnnamedSession::LIST_MAX {
                return Ok(sessions);
            }
        }
    }
}

/// Begins the deletion of a session in that row, if its id or key cannot be read.
pub(super) async fn remove_unnamed(
    transaction: &Transaction,
    row: i64,
) -> Result<bool, PostgresError> {
    let find = "SELECT row_id, id, owner, key FROM zero.sessions
                WHERE row_id = $1 AND NOT removed FOR UPDATE";
    let found = transaction.first(find, &[&row]).await?;
    let is_there = found.as_ref().map_or(Ok(false), is_unnamed)?;
    if is_there {
        let remove = "UPDATE zero.sessions SET removed = true WHERE row_id = $1";
        transaction.run(remove, &[&row]).await?;
    }
    Ok(is_there)
}

/// Whether the id or the key, in the second and fourth column, cannot be read.
fn is_unnamed(row: &Row) -> Result<bool, PostgresError> {
    let (id, key) = (row.try_get(1)?, row.try_get(3)?);
    Ok(read_id(id).is_err() || read_key(key).is_err())
}

/// Begins the deletion of the session at an address, if its id cannot be read.
pub(super) async fn remove_unreadable(
    transaction: &Transaction,
    address: &SessionAddress,
) -> Result<bool, PostgresError> {
    let find = "SELECT row_id, id FROM zero.sessions
                WHERE owner = $1 AND key = $2 AND NOT removed FOR UPDATE";
    let owner = storable(&address.owner);
    let Some(row) = transaction.first(find, &[&&*owner, &address.key.as_str()]).await? else {
        return Ok(false);
    };
    if read_id(row.try_get(1)?).is_ok() {
        return Ok(false);
    }
    let remove = "UPDATE zero.sessions SET removed = true WHERE row_id = $1";
    transaction.run(remove, &[&row.try_get::<_, i64>(0)?]).await?;
    Ok(true)
}

/// Owners with at least that many sessions.
pub(super) async fn large_owners(
    database: &Database,
    sessions_min: u64,
) -> Result<Vec<OwnerUsage>, PostgresError> {
    let rows = database
        .single(
            TransactionKind::Read,
            "SELECT owner, count(*) AS sessions FROM zero.sessions
             WHERE NOT removed AND parent IS NULL GROUP BY owner HAVING count(*) >= $1 ORDER BY sessions DESC, owner LIMIT $2",
            &[&to_sql_int(sessions_min), &to_sql_int(OwnerUsage::LIST_MAX as u64)],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let sessions = from_sql_int(row.try_get(1)?);
            Ok(OwnerUsage { owner: row.try_get(0)?, sessions })
        })
        .collect()
}

/// The size of all sessions of each owner.
pub(super) async fn owner_sizes(database: &Database) -> Result<Vec<OwnerSize>, PostgresError> {
    let list = "SELECT owner, sum(bytes)::int8 AS size FROM zero.sessions WHERE NOT removed
                GROUP BY owner ORDER BY size DESC, owner LIMIT $1";
    let limit = to_sql_int(OwnerSize::LIST_MAX as u64);
    let rows = database.single(TransactionKind::Read, list, &[&limit]).await?;
    rows.iter()
        .map(|row| {
            let bytes = from_sql_int(row.try_get(1)?);
            Ok(OwnerSize { owner: row.try_get(0)?, bytes })
        })
        .collect()
}

pub(super) async fn usage(database: &Database) -> Result<StoreUsage, PostgresError> {
    let rows = database
        .single(
            TransactionKind::Read,
            "SELECT (SELECT count(*) FROM zero.sessions WHERE NOT removed),
                 (SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::int8 FROM pg_class
                     JOIN pg_namespace ON pg_namespace.oid = relnamespace
                     WHERE nspname = 'zero' AND relkind = 'r')",
            &[],
        )
        .await?;
    let Some(row) = rows.first() else { return Ok(StoreUsage::default()) };
    // The server keeps free space for new content, and does not say how much without a long search.
    Ok(StoreUsage {
        sessions: from_sql_int(row.try_get(0)?),
        bytes: from_sql_int(row.try_get(1)?),
        free_bytes: 0,
    })
}

pub(super) async fn count(database: &Database) -> Result<u64, PostgresError> {
    let sql = "SELECT count(*) FROM zero.sessions WHERE NOT removed";
    let rows = database.single(TransactionKind::Read, sql, &[]).await?;
    rows.first().map_or(Ok(0), |row| Ok(from_sql_int(row.try_get(0)?)))
}

/// The sessions beside a new one: of its parent, or of its owner without those of sub-agents.
async fn count_owned(transaction: &Transaction, new: &NewSession) -> Result<u64, PostgresError> {
    let found = match &new.parent {
        Some(parent) => {
            let sql = "SELECT count(*) FROM zero.sessions WHERE parent = $1 AND NOT removed";
            transaction.first(sql, &[&parent.as_str()]).await?
        }
        None => {
            let sql = "SELECT count(*) FROM zero.sessions
                       WHERE owner = $1 AND parent IS NULL AND NOT removed";
            transaction.first(sql, &[&&*storable(&new.owner)]).await?
        }
    };
    found.map_or(Ok(0), |row| Ok(from_sql_int(row.try_get(0)?)))
}

/// A number that the row of a session has.
pub(super) async fn read_number(
    database: &Database,
    session: &SessionId,
    column: &str,
) -> Result<u64, PostgresError> {
    let sql = format!("SELECT {column} FROM zero.sessions WHERE id = $1 AND NOT removed");
    let rows = database.single(TransactionKind::Read, &sql, &[&session.as_str()]).await?;
    let row = rows.first().ok_or_else(|| no_session_error(session))?;
    Ok(from_sql_int(row.try_get(0)?))
}

/// Adds to the total token usage of a session, whose row is locked.
pub(super) async fn add_usage(
    transaction: &Transaction,
    session: i64,
    more: TokenUsage,
) -> Result<(), PostgresError> {
    let read = "SELECT usage FROM zero.sessions WHERE row_id = $1";
    let Some(row) = transaction.first(read, &[&session]).await? else { return Ok(()) };
    let mut usage: TokenUsage = from_json("the usage of a session", row.try_get(0)?)?;
    usage += more;
    let write = "UPDATE zero.sessions SET usage = $1 WHERE row_id = $2";
    transaction.run(write, &[&to_json(&usage)?, &session]).await
}

pub(super) async fn grants(
    transaction: &Transaction,
    session: &SessionId,
) -> Result<Vec<GrantRecord>, PostgresError> {
    let row = ledger::find_row(transaction, session).await?;
    let read = "SELECT body FROM zero.grants WHERE session = $1 ORDER BY position";
    let rows = transaction.rows(read, &[&row]).await?;
    rows.iter().map(|row| from_json("a grant", row.try_get(0)?)).collect()
}

/// Replaces the grants of a session, whose row is locked.
pub(super) async fn set_grants(
    transaction: &Transaction,
    session: i64,
    grants: &[GrantRecord],
) -> Result<(), PostgresError> {
    transaction.run("DELETE FROM zero.grants WHERE session = $1", &[&session]).await?;
    let bodies = grants.iter().map(to_json).collect::<Result<Vec<String>, _>>()?;
    let insert = "INSERT INTO zero.grants (session, position, body)
                  SELECT $1, position, body
                  FROM unnest($2::text[]) WITH ORDINALITY AS given (body, position)";
    transaction.run(insert, &[&session, &bodies]).await
}

fn read_record(row: &Row) -> Result<SessionRecord, PostgresError> {
    let mode: Option<&str> = row.try_get("mode")?;
    let mode = mode.map(str::parse).transpose();
    let cwd: Option<Vec<u8>> = row.try_get("cwd")?;
    Ok(SessionRecord {
        id: read_id(row.try_get("id")?)?,
        key: read_key(row.try_get("key")?)?,
        label: row.try_get("label")?,
        title: row.try_get("title")?,
        agent: row.try_get("agent")?,
        model: row.try_get("model")?,
        mode: mode.map_err(|error| PostgresError::invalid_data("the mode of a session", error))?,
        thinking: row.try_get("thinking")?,
        cwd: cwd.map(|cwd| PathBuf::from(OsString::from_vec(cwd))),
        owner: row.try_get("owner")?,
        tool_host: from_json("where the tools of a session run", row.try_get("tool_host")?)?,
        created_ms: row.try_get("created_ms")?,
        updated_ms: row.try_get("updated_ms")?,
        transcript: from_sql_int(row.try_get("transcript")?),
        usage: from_json("the usage of a session", row.try_get("usage")?)?,
        context_tokens: row.try_get::<_, Option<i64>>("context_tokens")?.map(from_sql_int),
        parent: row.try_get::<_, Option<String>>("parent")?.map(read_id).transpose()?,
    })
}

pub(super) fn read_id(id: String) -> Result<SessionId, PostgresError> {
    SessionId::new(id).map_err(|error| PostgresError::invalid_data("the id of a session", error))
}

fn read_key(key: String) -> Result<SessionKey, PostgresError> {
    SessionKey::try_from(key)
        .map_err(|error| PostgresError::invalid_data("the key of a session", error))
}

pub(super) fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, PostgresError> {
    serde_json::from_str(text).map_err(|error| PostgresError::invalid_data(what, error))
}
