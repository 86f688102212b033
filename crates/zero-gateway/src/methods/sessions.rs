//! `sessions.…`: sessions in the OpenClaw-compatible protocol.

use std::sync::Arc;

use zero_core::SessionId;
use zero_runtime::clock::now_ms;
use zero_session::agent::DIRECT;
use zero_session::model::{ModelInfo, ThinkingEffort};
use zero_session::sessions::{SessionError, SessionManager};
use zero_session::store::{SessionPatch, SessionQuery, SessionRecord};
use zero_wire::ErrorPayload;
use zero_wire::sessions::{
    SessionEntry, SessionListDefaults, SessionPreview, SessionRow, SessionsDeleteParams,
    SessionsDeleteResult, SessionsGetParams, SessionsGetResult, SessionsListParams,
    SessionsListResult, SessionsPatchParams, SessionsPatchResult, SessionsPreviewParams,
    SessionsPreviewResult, SessionsResetParams, SessionsResetResult, SessionsResolveParams,
    SessionsResolveResult, ThinkingLevel,
};

use super::parse_thinking;
use crate::authenticated_connection::{AuthenticatedConnection, StoredSession};
use crate::error_payloads::{forbidden_error, quote_input, to_error_shape};
use crate::history;
use crate::ledger_tail::READ_BYTES_MAX;

/// Default number of sessions per page.
const PAGE_DEFAULT: u64 = 100;
/// Maximum number of sessions per page.
const PAGE_MAX: u64 = 1_000;
/// Maximum number of messages that `sessions.get` returns.
const MESSAGES_MAX: u64 = 10_000;
/// Maximum number of sessions per preview request.
const PREVIEWS_MAX: usize = 64;
/// Maximum number of ledger bytes read for one preview.
const PREVIEW_BYTES_MAX: usize = 512 * 1024;
/// Default and maximum number of messages per session in a preview.
const PREVIEW_ITEMS: (u64, u64) = (12, 50);
/// Default and maximum number of characters per message in a preview.
const PREVIEW_CHARS: (u64, u64) = (240, 2_000);
/// Maximum length of a label, in characters.
pub(super) const LABEL_LEN_MAX: usize = 512;

pub(super) async fn list(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionsListParams,
) -> Result<SessionsListResult, ErrorPayload> {
    let ts = now_ms();
    let titles = params.include_derived_titles.unwrap_or(false);
    let sessions = peer.sessions();
    let parent = match params.spawned_by.as_deref().filter(|key| !key.trim().is_empty()) {
        Some(key) => Some(peer.require_session(&peer.resolve_key(key, None)?).await?.id),
        None => None,
    };
    let query = SessionQuery { parent, ..build_query(params, ts, peer.visible_owner()) };
    let page = sessions.list(query.clone()).await.map_err(to_error_shape)?;
    let row = |session: &SessionRecord| session_row(peer, session, titles);
    let rows: Vec<SessionRow> = page.sessions.iter().map(row).collect();
    let next_offset = query.next_offset(page.total);
    Ok(SessionsListResult {
        ts,
        count: rows.len() as u64,
        total_count: page.total,
        has_more: next_offset.is_some(),
        next_offset,
        defaults: list_defaults(sessions),
        sessions: rows,
    })
}

fn build_query(params: SessionsListParams, now_ms: i64, owner: Option<&str>) -> SessionQuery {
    let usize_of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let minutes = params.active_minutes.map(|minutes| i64::try_from(minutes).unwrap_or(i64::MAX));
    let since = |minutes: i64| now_ms.saturating_sub(minutes.saturating_mul(60_000));
    let nonblank = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    SessionQuery {
        limit: Some(usize_of(params.limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX))),
        offset: usize_of(params.offset.unwrap_or(0)),
        search: nonblank(params.search).map(|text| text.trim().to_owned()),
        label: nonblank(params.label),
        agent: nonblank(params.agent_id).map(|agent| agent.to_lowercase()),
        owner: owner.map(str::to_owned),
        updated_since_ms: minutes.map(since),
        cwd: None,
        parent: None,
    }
}

/// Properties of the session's model; empty if the session needs no model.
pub(super) fn session_model(
    sessions: &SessionManager,
    session: &SessionRecord,
) -> Option<ModelInfo> {
    let of_agent =
        || sessions.agents().get(&session.agent).and_then(|agent| agent.model.as_deref());
    let name = session.model.as_deref().or_else(of_agent);
    if name == Some(DIRECT) {
        return None;
    }
    sessions.models().get(name).ok().map(|model| model.info().clone())
}

/// Checks that a model can be selected.
pub(super) fn check_model(sessions: &SessionManager, name: &str) -> Result<(), ErrorPayload> {
    if name == DIRECT {
        return Ok(());
    }
    sessions.models().get(Some(name)).map(drop).map_err(|error| to_error_shape(error.into()))
}

fn list_defaults(sessions: &SessionManager) -> SessionListDefaults {
    let model = sessions.models().get(None).ok().map(|model| model.info().clone());
    model_defaults(model)
}

fn model_defaults(model: Option<ModelInfo>) -> SessionListDefaults {
    SessionListDefaults {
        context_tokens: model.as_ref().and_then(ModelInfo::window),
        model: model.map(|model| model.name),
    }
}

fn session_row(
    peer: &AuthenticatedConnection,
    session: &SessionRecord,
    titles: bool,
) -> SessionRow {
    let model = session_model(peer.sessions(), session);
    let level =
        |thinking: ThinkingEffort| ThinkingLevel { id: thinking.as_str().to_owned(), label: None };
    SessionRow {
        key: peer.key_text(&session.address()),
        kind: "direct".to_owned(),
        session_id: Some(session.id.to_string()),
        label: session.label.clone(),
        display_name: session.label.clone().or_else(|| session.title.clone()),
        derived_title: session.title.clone().filter(|_| titles),
        updated_at: session.updated_ms,
        thinking_level: Some(thinking_level(session)),
        thinking_levels: ThinkingEffort::ALL.map(level).to_vec(),
        total_tokens: session.context_tokens,
        total_tokens_fresh: Some(session.context_tokens.is_some()),
        context_tokens: model.as_ref().and_then(ModelInfo::window),
        model: session.model.clone().or(model.map(|model| model.name)),
        spawned_cwd: session.cwd.as_ref().map(|cwd| cwd.display().to_string()),
        input_tokens: Some(session.usage.input_tokens),
        output_tokens: Some(session.usage.output_tokens),
    }
}

fn thinking_level(session: &SessionRecord) -> String {
    session.thinking.clone().unwrap_or_else(|| ThinkingEffort::Default.as_str().to_owned())
}

pub(super) async fn resolve(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionsResolveParams,
) -> Result<SessionsResolveResult, ErrorPayload> {
    let may_be_missing = params.allow_missing.unwrap_or(false);
    let agent = params.agent_id.clone();
    let (found, missing) = match parse_selector(params)? {
        SessionSelector::Key(written) => {
            let key = peer.resolve_key(&written, agent.as_deref())?;
            let found = match peer.find_stored_session(&key).await? {
                StoredSession::Readable(session) => Some(*session),
                StoredSession::Missing => None,
                // Its key is known, which is enough to delete it.
                StoredSession::Damaged(_) => {
                    let agent_id = Some(key.key.agent().to_owned());
                    let key = Some(peer.key_text(&key));
                    return Ok(SessionsResolveResult { ok: true, key, agent_id });
                }
            };
            (found, SessionError::NotFound(written))
        }
        SessionSelector::Id(written) => {
            let found = match SessionId::new(strip_transcript(&written)) {
                Ok(id) => peer.find_session_by_id(&id).await?,
                Err(_) => None,
            };
            (found, SessionError::NotFound(written))
        }
        SessionSelector::Label(label) => {
            (peer.find_session_by_label(&label).await?, SessionError::NoLabel(label))
        }
    };
    let fits = |session: &SessionRecord| {
        agent.as_ref().is_none_or(|agent| agent.to_lowercase() == session.agent)
    };
    match found.filter(fits) {
        Some(session) => Ok(SessionsResolveResult {
            ok: true,
            key: Some(peer.key_text(&session.address())),
            agent_id: Some(session.agent),
        }),
        None if may_be_missing => Ok(SessionsResolveResult::default()),
        None => Err(to_error_shape(missing)),
    }
}

#[derive(Debug, PartialEq)]
enum SessionSelector {
    Key(String),
    Id(String),
    Label(String),
}

fn parse_selector(params: SessionsResolveParams) -> Result<SessionSelector, ErrorPayload> {
    let nonblank = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let (key, id, label) =
        (nonblank(params.key), nonblank(params.session_id), nonblank(params.label));
    match (key, id, label) {
        (Some(key), None, None) => Ok(SessionSelector::Key(key)),
        (None, Some(id), None) => Ok(SessionSelector::Id(id)),
        (None, None, Some(label)) => Ok(SessionSelector::Label(label)),
        (None, None, None) => Err(ErrorPayload::invalid(
            "invalid sessions.resolve params: give one of key, sessionId and label",
        )),
        _ => Err(ErrorPayload::invalid(
            "invalid sessions.resolve params: give only one of key, sessionId and label",
        )),
    }
}

pub(super) async fn get(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionsGetParams,
) -> Result<SessionsGetResult, ErrorPayload> {
    let key = peer.resolve_key(&params.key, params.agent_id.as_deref())?;
    let Some(session) = peer.find_session(&key).await? else {
        return Ok(SessionsGetResult::default());
    };
    peer.watch_session(&session).await?;
    let most = params.limit.unwrap_or(MESSAGES_MAX).min(MESSAGES_MAX) as usize;
    let store = peer.sessions().store();
    let messages =
        history::read_messages(store.as_ref(), &session.id, most, READ_BYTES_MAX, |messages| {
            messages
        })
        .await;
    Ok(SessionsGetResult { messages: messages.map_err(|error| to_error_shape(error.into()))? })
}

pub(super) async fn reset(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionsResetParams,
) -> Result<SessionsResetResult, ErrorPayload> {
    let key = peer.resolve_key(&params.key, params.agent_id.as_deref())?;
    let session = match peer.find_session(&key).await? {
        Some(_) => peer.sessions().reset(&key).await.map_err(to_error_shape)?,
        None => peer.open_session(&key).await?,
    };
    let entry = session_entry(&session);
    Ok(SessionsResetResult { ok: true, key: peer.key_text(&key), entry })
}

fn session_entry(session: &SessionRecord) -> SessionEntry {
    SessionEntry {
        session_id: format!("{}.{}", session.id, session.transcript),
        updated_at: session.updated_ms,
        label: session.label.clone(),
        model: session.model.clone(),
        thinking_level: Some(thinking_level(session)),
    }
}

/// Removes the transcript part of an entry's id; the rest is the session id.
fn strip_transcript(id: &str) -> &str {
    match id.rsplit_once('.') {
        Some((session, number)) if number.bytes().all(|b| b.is_ascii_digit()) => session,
        _ => id,
    }
}

pub(super) async fn patch(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionsPatchParams,
) -> Result<SessionsPatchResult, ErrorPayload> {
    let key = peer.resolve_key(&params.key, params.agent_id.as_deref())?;
    if !peer.has_scope(params.required_scope()) {
        let what = "sessions.patch of more than label, model, thinkingLevel and fastMode";
        return Err(forbidden_error(what, params.required_scope()));
    }
    check_fields(&params)?;
    let expected = params.expected_session_id.clone();
    let patch = parse_changes(params)?;
    if let Some(Some(model)) = &patch.model {
        check_model(peer.sessions(), model)?;
    }
    // A client may patch a session before its first prompt, so the session is created.
    let mut session = peer.open_session(&key).await?;
    if let Some(expected) = expected.as_ref().and_then(serde_json::Value::as_str) {
        check_session_id(&session, expected)?;
    }
    if patch != SessionPatch::default() {
        session = peer.sessions().patch(&key, patch).await.map_err(to_error_shape)?;
    }
    let resolved = model_defaults(session_model(peer.sessions(), &session));
    Ok(SessionsPatchResult {
        ok: true,
        key: peer.key_text(&key),
        entry: session_entry(&session),
        resolved,
    })
}

/// Accepted fields. The last ones only affect how a client displays a session; zero ignores them.
const PATCHABLE: [&str; 12] = [
    "key",
    "agentId",
    "expectedSessionId",
    "label",
    "model",
    "thinkingLevel",
    "fastMode",
    "verboseLevel",
    "traceLevel",
    "reasoningLevel",
    "responseUsage",
    "elevatedLevel",
];

/// Refuses fields that zero does not support, so that the client does not assume they took effect.
fn check_fields(params: &SessionsPatchParams) -> Result<(), ErrorPayload> {
    let fields = serde_json::to_value(params).unwrap_or_default();
    let given = fields.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let unknown: Vec<&str> =
        given.map(|(name, _)| name.as_str()).filter(|name| !PATCHABLE.contains(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let unknown = unknown.join(", ");
    Err(ErrorPayload::invalid(format!("sessions.patch: zero has no {unknown}; leave it out")))
}

/// Checks that the session still has the id that the client knows.
pub(super) fn check_session_id(session: &SessionRecord, id: &str) -> Result<(), ErrorPayload> {
    if strip_transcript(id) == session.id.as_str() {
        return Ok(());
    }
    let key = &session.key;
    Err(ErrorPayload::invalid(format!("the session {key} was replaced; read it again")))
}

fn parse_changes(params: SessionsPatchParams) -> Result<SessionPatch, ErrorPayload> {
    let level = |level: Option<String>| {
        level.map(|level| parse_thinking(&level).map(|level| level.as_str().to_owned())).transpose()
    };
    Ok(SessionPatch {
        label: params.label.map(|label| label.map(check_label).transpose()).transpose()?,
        model: params.model,
        thinking: params.thinking_level.map(level).transpose()?,
        ..SessionPatch::default()
    })
}

/// Validates a session label.
pub(super) fn check_label(label: String) -> Result<String, ErrorPayload> {
    let label = label.trim();
    let length = label.chars().count();
    if length == 0 || length > LABEL_LEN_MAX || label.chars().any(char::is_control) {
        return Err(ErrorPayload::invalid(format!(
            "`{}` is not a valid label: use 1 to {LABEL_LEN_MAX} characters without line breaks",
            quote_input(label)
        )));
    }
    Ok(label.to_owned())
}

pub(super) async fn delete(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionsDeleteParams,
) -> Result<SessionsDeleteResult, ErrorPayload> {
    let key = peer.resolve_key(&params.key, params.agent_id.as_deref())?;
    let is_there = match peer.find_stored_session(&key).await? {
        StoredSession::Missing => false,
        StoredSession::Readable(session) => {
            check_delete_conditions(&session, &params)?;
            true
        }
        // Conditions cannot be checked; without any, a damaged session can be deleted.
        StoredSession::Damaged(error) if has_delete_conditions(&params) => return Err(error),
        StoredSession::Damaged(_) => true,
    };
    let mut deleted = false;
    if is_there {
        let id = peer.sessions().store().session_id(&key).await.ok().flatten();
        deleted = peer.sessions().delete(&key).await.map_err(to_error_shape)?;
        if let Some(id) = id {
            peer.stop_hosting(&id);
            peer.unwatch_session(&id).await;
        }
    }
    let archived = Vec::new();
    Ok(SessionsDeleteResult { ok: true, key: peer.key_text(&key), deleted, archived })
}

fn has_delete_conditions(params: &SessionsDeleteParams) -> bool {
    params.expected_session_id.is_some()
        || params.expected_session_updated_at.is_some()
        || params.archived_only == Some(true)
}

fn check_delete_conditions(
    session: &SessionRecord,
    params: &SessionsDeleteParams,
) -> Result<(), ErrorPayload> {
    if let Some(expected) = &params.expected_session_id {
        check_session_id(session, expected)?;
    }
    let is_newer = |known: f64| session.updated_ms as f64 > known;
    if params.expected_session_updated_at.is_some_and(is_newer) {
        let why = format!("the session {} has changed since; read it again", session.key);
        return Err(ErrorPayload::invalid(why));
    }
    if params.archived_only == Some(true) {
        let why = format!("the session {} is not archived; zero archives none", session.key);
        return Err(ErrorPayload::invalid(why));
    }
    Ok(())
}

pub(super) async fn preview(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionsPreviewParams,
) -> Result<SessionsPreviewResult, ErrorPayload> {
    if params.keys.len() > PREVIEWS_MAX {
        return Err(ErrorPayload::invalid(format!(
            "{} keys are more than {PREVIEWS_MAX}; ask for fewer at a time",
            params.keys.len()
        )));
    }
    let most = params.limit.unwrap_or(PREVIEW_ITEMS.0).clamp(1, PREVIEW_ITEMS.1) as usize;
    let chars = params.max_chars.unwrap_or(PREVIEW_CHARS.0).clamp(20, PREVIEW_CHARS.1) as usize;
    let mut previews = Vec::new();
    for written in params.keys {
        let found = match peer.resolve_key(&written, None) {
            Ok(key) => peer.find_session(&key).await?,
            Err(_) => None,
        };
        let mut preview =
            SessionPreview { key: written, status: "missing".to_owned(), items: Vec::new() };
        if let Some(session) = found {
            // Tool calls are messages without text; most of them are near the end.
            let store = peer.sessions().store();
            let finish = move |messages: Vec<_>| history::preview_items(&messages, most, chars);
            let items = history::read_messages(
                store.as_ref(),
                &session.id,
                most * 4,
                PREVIEW_BYTES_MAX,
                finish,
            );
            preview.items = items.await.map_err(|error| to_error_shape(error.into()))?;
            let status = if preview.items.is_empty() { "empty" } else { "ok" };
            status.clone_into(&mut preview.status);
        }
        previews.push(preview);
    }
    Ok(SessionsPreviewResult { ts: now_ms(), previews })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zero_wire::method::TokenScope;

    #[test]
    fn selector_requires_exactly_one_field() {
        let some = |text: &str| Some(text.to_owned());
        let params = |key, session_id, label| SessionsResolveParams {
            key,
            session_id,
            label,
            ..SessionsResolveParams::default()
        };
        let check = |params, expected: Result<SessionSelector, &str>| {
            let selector = parse_selector(params).map_err(|error| error.message);
            let says = |text: &str| format!("invalid sessions.resolve params: {text}");
            assert_eq!(selector, expected.map_err(says));
        };
        check(params(some("k"), None, None), Ok(SessionSelector::Key("k".into())));
        check(params(None, some("i"), some(" ")), Ok(SessionSelector::Id("i".into())));
        check(params(None, None, some("l")), Ok(SessionSelector::Label("l".into())));
        check(params(None, None, None), Err("give one of key, sessionId and label"));
        check(params(some("k"), None, some("l")), Err("give only one of key, sessionId and label"));
    }

    #[test]
    fn page_is_limited_and_filtered_by_owner() {
        let query_of = |limit, minutes| {
            let params = SessionsListParams {
                limit,
                active_minutes: minutes,
                search: Some(" bug ".to_owned()),
                label: Some(String::new()),
                ..SessionsListParams::default()
            };
            build_query(params, 600_000, Some("me"))
        };
        assert_eq!(query_of(None, None).limit, Some(100));
        assert_eq!(query_of(Some(0), None).limit, Some(1));
        assert_eq!(query_of(Some(u64::MAX), None).limit, Some(1_000));
        let query = query_of(None, Some(9));
        assert_eq!(query.updated_since_ms, Some(60_000));
        assert_eq!(query.owner.as_deref(), Some("me"));
        assert_eq!((query.search.as_deref(), query.label), (Some("bug"), None));
        assert!(query_of(None, Some(u64::MAX)).updated_since_ms.unwrap() < 0);
    }

    #[test]
    fn patch_accepts_known_fields_and_null_clears() {
        let params: SessionsPatchParams = serde_json::from_value(serde_json::json!({
            "key": "main", "label": null, "thinkingLevel": "minimal", "fastMode": true
        }))
        .unwrap();
        assert_eq!(params.required_scope(), TokenScope::Write);
        check_fields(&params).unwrap();
        let expected = SessionPatch {
            label: Some(None),
            thinking: Some(Some("low".to_owned())),
            ..SessionPatch::default()
        };
        assert_eq!(parse_changes(params).unwrap(), expected);
        let params: SessionsPatchParams = serde_json::from_value(serde_json::json!({
            "key": "main", "elevatedLevel": null, "traceLevel": "on"
        }))
        .unwrap();
        assert_eq!(params.required_scope(), TokenScope::Admin);
        check_fields(&params).unwrap();
        let params: SessionsPatchParams = serde_json::from_value(serde_json::json!({
            "key": "main", "permissionMode": "read-only", "execAsk": null
        }))
        .unwrap();
        let message = "sessions.patch: zero has no permissionMode; leave it out";
        assert_eq!(check_fields(&params).unwrap_err().message, message);
    }

    #[test]
    fn label_must_be_one_line() {
        assert_eq!(check_label(" Bug 7 ".to_owned()).unwrap(), "Bug 7");
        for bad in ["", "  ", "a\nb", &"x".repeat(513)] {
            assert!(check_label(bad.to_owned()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn transcript_id_names_its_session() {
        assert_eq!(strip_transcript("sess_1.2"), "sess_1");
        assert_eq!(strip_transcript("sess_1"), "sess_1");
        assert_eq!(strip_transcript("a.b"), "a.b");
    }
}
