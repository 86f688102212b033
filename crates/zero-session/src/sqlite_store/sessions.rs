//! Sessions as rows, and their grants.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Params, Row, named_params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use zero_core::SessionId;

use super::database_error::DatabaseError;
use crate::event::TokenUsage;
use crate::key::{SessionAddress, SessionKey};
use crate::store::{
    ClaimEpoch, GrantRecord, IdleSession, IdleSessionQuery, NewSession, OwnerSize, OwnerUsage,
    SessionPage, SessionPatch, SessionQuery, SessionRecord, StoreError, StoreUsage,
    TranscriptStart, UnnamedSession,
};
use crate::stored_form::{self, fold_case, from_sql_int, path_bytes, to_sql_int};

/// Returns the session at an address.
pub(super) fn find_by_address(
    db: &Connection,
    address: &SessionAddress,
) -> Result<Option<SessionRecord>, DatabaseError> {
    let sql = "SELECT * FROM live_sessions WHERE owner = ? AND key = ?";
    query_one(db, sql, (&address.owner, address.key.as_str()))
}

/// Returns the session with an id.
pub(super) fn find_by_id(
    db: &Connection,
    id: &SessionId,
) -> Result<Option<SessionRecord>, DatabaseError> {
    query_one(db, "SELECT * FROM live_sessions WHERE id = ?", [id.as_str()])
}

/// Returns the id of the session at an address, and reads nothing else of it.
pub(super) fn find_id(
    db: &Connection,
    address: &SessionAddress,
) -> Result<Option<SessionId>, DatabaseError> {
    let mut find = db.prepare_cached("SELECT id FROM live_sessions WHERE owner = ? AND key = ?")?;
    let mut rows = find.query((&address.owner, address.key.as_str()))?;
    rows.next()?.map(|row| read_id(row.get(0)?)).transpose()
}

fn read_id(id: String) -> Result<SessionId, DatabaseError> {
    SessionId::new(id).map_err(|error| DatabaseError::invalid_data("the id of a session", error))
}

/// Row id of a session, used by the other tables.
pub(super) fn find_row(db: &Connection, id: &SessionId) -> Result<i64, DatabaseError> {
    let mut statement = db.prepare_cached("SELECT row FROM live_sessions WHERE id = ?")?;
    let row = statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
    row.ok_or_else(|| no_session_error(id))
}

pub(super) fn no_session_error(id: &SessionId) -> DatabaseError {
    StoreError::NoSession(id.to_string()).into()
}

pub(super) fn create(
    db: &Connection,
    id: &SessionId,
    new: &NewSession,
    now_ms: i64,
) -> Result<SessionRecord, DatabaseError> {
    let address = SessionAddress::new(&new.owner, new.key.clone());
    if let Some(existing) = find_by_address(db, &address)? {
        return Ok(existing);
    }
    if count_owned(db, new)? >= new.owned_max {
        return Err(StoreError::TooMany(new.owned_max).into());
    }
    check_label(db, new.label.as_deref(), &address)?;
    let record = SessionRecord {
        id: id.clone(),
        key: new.key.clone(),
        label: new.label.clone(),
        title: None,
        agent: new.key.agent().to_owned(),
        model: new.model.clone(),
        mode: new.mode,
        thinking: None,
        cwd: new.cwd.clone(),
        owner: new.owner.clone(),
        tool_host: new.tool_host.clone(),
        created_ms: now_ms,
        updated_ms: now_ms,
        transcript: 1,
        usage: TokenUsage::default(),
        context_tokens: None,
        parent: new.parent.clone(),
    };
    db.prepare_cached(
        "INSERT INTO sessions (id, key, key_folded, agent, owner, tool_host, created_ms, updated_ms,
             transcript, usage, last_seq, parent)
         VALUES (:id, :key, :folded, :agent, :owner, '', :now, :now, 1, :usage, 0, :parent)",
    )?
    .execute(named_params! {
        ":id": id.as_str(),
        ":key": new.key.as_str(),
        ":folded": fold_case(new.key.as_str()),
        ":agent": record.agent,
        ":owner": record.owner,
        ":now": now_ms,
        ":usage": to_json(&record.usage)?,
        ":parent": record.parent.as_ref().map(SessionId::as_str),
    })?;
    super::transcripts::insert(db, db.last_insert_rowid(), 1, TranscriptStart::Opened, now_ms)?;
    save(db, &record)?;
    Ok(record)
}

pub(super) fn list(db: &Connection, query: &SessionQuery) -> Result<SessionPage, DatabaseError> {
    const FILTER_SQL: &str = "
        (:search IS NULL OR instr(key_folded, :search) > 0 OR instr(label_folded, :search) > 0
            OR instr(title_folded, :search) > 0)
        AND (:label IS NULL OR label = :label)
        AND (:agent IS NULL OR agent = :agent)
        AND (:owner IS NULL OR owner = :owner)
        AND (:since IS NULL OR updated_ms >= :since)
        AND (:cwd IS NULL OR cwd = :cwd)
        AND parent IS :parent";
    let is_too_long = |text: &String| text.chars().nth(SessionQuery::SEARCH_CHARS_MAX).is_some();
    if query.search.as_ref().is_some_and(is_too_long) {
        return Ok(SessionPage::default());
    }
    let search = query.search.as_deref().map(fold_case);
    let cwd = query.cwd.as_deref().map(path_bytes);
    let parent = query.parent.as_ref().map(SessionId::as_str);
    let limit = query.page_size();
    let mut count =
        db.prepare_cached(&format!("SELECT count(*) FROM live_sessions WHERE {FILTER_SQL}"))?;
    let total: i64 = count.query_row(
        named_params! {
            ":search": search, ":label": query.label, ":agent": query.agent,
            ":owner": query.owner, ":since": query.updated_since_ms, ":cwd": cwd,
            ":parent": parent,
        },
        |row| row.get(0),
    )?;
    let mut page = db.prepare_cached(&format!(
        "SELECT * FROM live_sessions WHERE {FILTER_SQL}
         ORDER BY updated_ms DESC, row DESC LIMIT :limit OFFSET :offset"
    ))?;
    let mut rows = page.query(named_params! {
        ":search": search, ":label": query.label, ":agent": query.agent,
        ":owner": query.owner, ":since": query.updated_since_ms, ":cwd": cwd, ":parent": parent,
        ":limit": to_sql_int(limit as u64), ":offset": to_sql_int(query.offset as u64),
    })?;
    let mut sessions = Vec::new();
    while let Some(row) = rows.next()? {
        match read_record(row) {
            // The others are listed without it; `zero doctor` names it.
            Err(error @ DatabaseError::InvalidData(_)) => {
                tracing::error!(?error, "a session cannot be listed");
            }
            record => sessions.push(record?),
        }
    }
    Ok(SessionPage { sessions, total: from_sql_int(total) })
}

pub(super) fn patch(
    db: &Connection,
    address: &SessionAddress,
    patch: &SessionPatch,
) -> Result<Option<SessionRecord>, DatabaseError> {
    let Some(before) = find_by_address(db, address)? else { return Ok(None) };
    let mut record = before.clone();
    if let Some(label) = &patch.label {
        check_label(db, label.as_deref(), address)?;
    }
    apply_change(&mut record.label, &patch.label);
    apply_change(&mut record.title, &patch.title);
    apply_change(&mut record.agent, &patch.agent);
    apply_change(&mut record.model, &patch.model);
    apply_change(&mut record.mode, &patch.mode);
    apply_change(&mut record.thinking, &patch.thinking);
    apply_change(&mut record.cwd, &patch.cwd);
    apply_change(&mut record.tool_host, &patch.tool_host);
    if patch.context_tokens.is_some() {
        record.context_tokens = patch.context_tokens;
    }
    record.updated_ms = patch.used_ms.map_or(before.updated_ms, |used| used.max(before.updated_ms));
    if record != before {
        save(db, &record)?;
    }
    Ok(Some(record))
}

fn apply_change<T: Clone>(field: &mut T, wanted: &Option<T>) {
    if let Some(wanted) = wanted {
        field.clone_from(wanted);
    }
}

/// The sessions that led to the one of the table `live_sessions` around it, which is of a sub-agent.
const ANCESTORS_SQL: &str = "
    WITH RECURSIVE ancestors (row, parent, label, updated_ms) AS (
        SELECT row, parent, label, updated_ms FROM live_sessions AS parents
        WHERE parents.id = live_sessions.parent
        UNION SELECT parents.row, parents.parent, parents.label, parents.updated_ms
        FROM live_sessions AS parents JOIN ancestors ON parents.id = ancestors.parent)";

/// Finds out whether one of them is kept because of a label or a run.
pub(super) fn kept_ancestors_sql() -> String {
    format!(
        "{ANCESTORS_SQL} SELECT 1 FROM ancestors WHERE label IS NOT NULL OR EXISTS (SELECT 1 FROM runs
             WHERE runs.session = ancestors.row AND runs.end IS NULL)"
    )
}

pub(super) fn list_idle(
    db: &Connection,
    query: &IdleSessionQuery,
) -> Result<Vec<IdleSession>, DatabaseError> {
    let kept_ancestors = kept_ancestors_sql();
    let mut list = db.prepare_cached(&format!(
        "SELECT id, owner, key, updated_ms, bytes, epoch, max(updated_ms, coalesce(
                 ({ANCESTORS_SQL} SELECT max(updated_ms) FROM ancestors), 0)) AS active_ms
         FROM live_sessions
         WHERE label IS NULL AND active_ms < ?1 AND (?2 IS NULL OR owner = ?2)
             AND NOT EXISTS (SELECT 1 FROM runs
                 WHERE runs.session = live_sessions.row AND runs.end IS NULL)
             AND NOT EXISTS ({kept_ancestors})
         ORDER BY active_ms, row"
    ))?;
    let mut rows = list.query((query.updated_before_ms, query.owner.as_deref()))?;
    let mut sessions = Vec::new();
    // Counted here, since sessions that cannot be read take no part of the limit.
    while sessions.len() < query.limit
        && let Some(row) = rows.next()?
    {
        match read_idle(row) {
            // The others are listed without it; `zero doctor` names it.
            Err(error @ DatabaseError::InvalidData(_)) => {
                tracing::error!(?error, "an idle session cannot be listed");
            }
            session => sessions.push(session?),
        }
    }
    Ok(sessions)
}

fn read_idle(row: &Row<'_>) -> Result<IdleSession, DatabaseError> {
    Ok(IdleSession {
        id: read_id(row.get(0)?)?,
        address: SessionAddress::new(row.get::<_, String>(1)?, read_key(row.get(2)?)?),
        updated_ms: row.get(3)?,
        bytes: from_sql_int(row.get(4)?),
        claim: ClaimEpoch(from_sql_int(row.get(5)?)),
    })
}

/// Sessions whose id, owner or key cannot be read.
pub(super) fn list_unnamed(db: &Connection) -> Result<Vec<UnnamedSession>, DatabaseError> {
    let mut list =
        db.prepare_cached("SELECT id, owner, key, row FROM live_sessions ORDER BY row")?;
    let mut rows = list.query([])?;
    let mut sessions = Vec::new();
    while sessions.len() < UnnamedSession::LIST_MAX
        && let Some(row) = rows.next()?
    {
        if is_unnamed(row)? {
            sessions.push(UnnamedSession {
                row: row.get(3)?,
                owner: readable_text(row.get_ref(1)?),
                key: readable_text(row.get_ref(2)?),
            });
        }
    }
    Ok(sessions)
}

/// Whether there is a session in that row whose id, owner or key cannot be read.
pub(super) fn is_unnamed_row(db: &Connection, row: i64) -> Result<bool, DatabaseError> {
    let mut find = db.prepare_cached("SELECT id, owner, key FROM live_sessions WHERE row = ?")?;
    let mut rows = find.query([row])?;
    rows.next()?.map_or(Ok(false), is_unnamed)
}

/// Whether id, owner or key, the first columns of the row, cannot be read.
fn is_unnamed(row: &Row<'_>) -> Result<bool, DatabaseError> {
    let name = || {
        read_id(row.get(0)?)?;
        row.get::<_, String>(1)?;
        read_key(row.get(2)?)
    };
    match name() {
        Ok(_) => Ok(false),
        Err(DatabaseError::InvalidData(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

pub(super) fn read_key(key: String) -> Result<SessionKey, DatabaseError> {
    SessionKey::try_from(key)
        .map_err(|error| DatabaseError::invalid_data("the key of a session", error))
}

/// Owners with at least that many sessions.
pub(super) fn large_owners(
    db: &Connection,
    sessions_min: u64,
) -> Result<Vec<OwnerUsage>, DatabaseError> {
    let mut list = db.prepare_cached(
        "SELECT owner, count(*) AS sessions FROM live_sessions WHERE parent IS NULL GROUP BY owner
         HAVING sessions >= ? ORDER BY sessions DESC, owner LIMIT ?",
    )?;
    let limit = to_sql_int(OwnerUsage::LIST_MAX as u64);
    let owners = list.query_map((to_sql_int(sessions_min), limit), |row| {
        let owner = readable_text(row.get_ref(0)?);
        Ok(OwnerUsage { owner, sessions: from_sql_int(row.get(1)?) })
    })?;
    Ok(owners.collect::<Result<_, _>>()?)
}

pub(super) fn owner_sizes(db: &Connection) -> Result<Vec<OwnerSize>, DatabaseError> {
    let mut list = db.prepare_cached(
        "SELECT owner, sum(bytes) AS size FROM live_sessions GROUP BY owner
         ORDER BY size DESC, owner LIMIT ?",
    )?;
    let owners = list.query_map([to_sql_int(OwnerSize::LIST_MAX as u64)], |row| {
        let owner = readable_text(row.get_ref(0)?);
        Ok(OwnerSize { owner, bytes: from_sql_int(row.get(1)?) })
    })?;
    Ok(owners.collect::<Result<_, _>>()?)
}

pub(super) fn usage(db: &Connection) -> Result<StoreUsage, DatabaseError> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let (page, pages, free) =
        (number("page_size")?, number("page_count")?, number("freelist_count")?);
    let bytes = |pages: i64| from_sql_int(pages.saturating_mul(page));
    Ok(StoreUsage {
        sessions: count(db)?,
        bytes: bytes(pages.saturating_sub(free)),
        free_bytes: bytes(free),
    })
}

pub(super) fn count(db: &Connection) -> Result<u64, DatabaseError> {
    let mut count = db.prepare_cached("SELECT count(*) FROM live_sessions")?;
    Ok(from_sql_int(count.query_row([], |row| row.get(0))?))
}

/// The sessions beside a new one: of its parent, or of its owner without those of sub-agents.
fn count_owned(db: &Connection, new: &NewSession) -> Result<u64, DatabaseError> {
    let count = match &new.parent {
        Some(parent) => db
            .prepare_cached("SELECT count(*) FROM live_sessions WHERE parent = ?")?
            .query_row([parent.as_str()], |row| row.get(0))?,
        None => db
            .prepare_cached(
                "SELECT count(*) FROM live_sessions WHERE owner = ? AND parent IS NULL",
            )?
            .query_row([&new.owner], |row| row.get(0))?,
    };
    Ok(from_sql_int(count))
}

pub(super) fn size(db: &Connection, session: &SessionId) -> Result<u64, DatabaseError> {
    let mut read = db.prepare_cached("SELECT bytes FROM live_sessions WHERE id = ?")?;
    let bytes = read.query_row([session.as_str()], |row| row.get(0)).optional()?;
    bytes.map(from_sql_int).ok_or_else(|| no_session_error(session))
}

/// Adds to the total token usage of a session.
pub(super) fn add_usage(
    db: &Connection,
    session: i64,
    more: TokenUsage,
) -> Result<(), DatabaseError> {
    let mut read = db.prepare_cached("SELECT usage FROM sessions WHERE row = ?")?;
    let text: String = read.query_row([session], |row| row.get(0))?;
    let mut usage: TokenUsage = from_json("the usage of a session", &text)?;
    usage += more;
    db.prepare_cached("UPDATE sessions SET usage = ? WHERE row = ?")?
        .execute((to_json(&usage)?, session))?;
    Ok(())
}

pub(super) fn grants(
    db: &Connection,
    session: &SessionId,
) -> Result<Vec<GrantRecord>, DatabaseError> {
    let session = find_row(db, session)?;
    let mut read =
        db.prepare_cached("SELECT body FROM grants WHERE session = ? ORDER BY position")?;
    let mut rows = read.query([session])?;
    let mut grants = Vec::new();
    while let Some(row) = rows.next()? {
        grants.push(from_json("a grant", &row.get::<_, String>(0)?)?);
    }
    Ok(grants)
}

pub(super) fn set_grants(
    db: &Connection,
    session: &SessionId,
    grants: &[GrantRecord],
) -> Result<(), DatabaseError> {
    let session = find_row(db, session)?;
    db.prepare_cached("DELETE FROM grants WHERE session = ?")?.execute([session])?;
    let mut insert =
        db.prepare_cached("INSERT INTO grants (session, position, body) VALUES (?, ?, ?)")?;
    for (grant, position) in grants.iter().zip(0_i64..) {
        insert.execute((session, position, to_json(grant)?))?;
    }
    Ok(())
}

/// Refuses a label that another session of the owner has.
fn check_label(
    db: &Connection,
    label: Option<&str>,
    address: &SessionAddress,
) -> Result<(), DatabaseError> {
    let Some(label) = label else { return Ok(()) };
    let sql = "SELECT * FROM live_sessions WHERE owner = ? AND label = ?";
    match query_one(db, sql, (&address.owner, label))? {
        Some(other) if other.key != address.key => {
            Err(StoreError::LabelTaken { label: label.to_owned(), key: other.key }.into())
        }
        _ => Ok(()),
    }
}

/// Writes the settings of a session.
fn save(db: &Connection, record: &SessionRecord) -> Result<(), DatabaseError> {
    db.prepare_cached(
        "UPDATE sessions SET label = :label, label_folded = :label_folded, title = :title,
             title_folded = :title_folded, agent = :agent, model = :model, mode = :mode, thinking = :thinking,
             cwd = :cwd, tool_host = :tool_host, context_tokens = :context_tokens,
             updated_ms = :updated
         WHERE id = :id",
    )?
    .execute(named_params! {
        ":label": record.label,
        ":label_folded": record.label.as_deref().map(fold_case),
        ":title": record.title,
        ":title_folded": record.title.as_deref().map(fold_case),
        ":agent": record.agent,
        ":model": record.model,
        ":mode": record.mode.map(|mode| mode.as_str()),
        ":thinking": record.thinking,
        ":cwd": record.cwd.as_deref().map(path_bytes),
        ":tool_host": to_json(&record.tool_host)?,
        ":context_tokens": record.context_tokens.map(to_sql_int),
        ":updated": record.updated_ms,
        ":id": record.id.as_str(),
    })?;
    Ok(())
}

fn query_one(
    db: &Connection,
    sql: &str,
    with: impl Params,
) -> Result<Option<SessionRecord>, DatabaseError> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(with)?;
    rows.next()?.map(read_record).transpose()
}

pub(super) fn read_record(row: &Row<'_>) -> Result<SessionRecord, DatabaseError> {
    let id: String = row.get("id")?;
    let key: String = row.get("key")?;
    let mode: Option<String> = row.get("mode")?;
    let cwd: Option<Vec<u8>> = row.get("cwd")?;
    let mode = mode.map(|mode| mode.parse()).transpose();
    Ok(SessionRecord {
        id: read_id(id)?,
        key: read_key(key)?,
        label: row.get("label")?,
        title: row.get("title")?,
        agent: row.get("agent")?,
        model: row.get("model")?,
        mode: mode.map_err(|error| DatabaseError::invalid_data("the mode of a session", error))?,
        thinking: row.get("thinking")?,
        cwd: cwd.map(|cwd| PathBuf::from(OsString::from_vec(cwd))),
        owner: row.get("owner")?,
        tool_host: from_json(
            "where the tools of a session run",
            &row.get::<_, String>("tool_host")?,
        )?,
        created_ms: row.get("created_ms")?,
        updated_ms: row.get("updated_ms")?,
        transcript: from_sql_int(row.get("transcript")?),
        usage: from_json("the usage of a session", &row.get::<_, String>("usage")?)?,
        context_tokens: row.get::<_, Option<i64>>("context_tokens")?.map(from_sql_int),
        parent: row.get::<_, Option<String>>("parent")?.map(read_id).transpose()?,
    })
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, DatabaseError> {
    Ok(stored_form::to_json(value)?)
}

pub(super) fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, DatabaseError> {
    serde_json::from_str(text).map_err(|error| DatabaseError::invalid_data(what, error))
}

/// A text as far as it can be read.
pub(super) fn readable_text(value: ValueRef<'_>) -> String {
    value.as_bytes().map(String::from_utf8_lossy).unwrap_or_default().into_owned()
}
