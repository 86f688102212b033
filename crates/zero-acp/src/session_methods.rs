//! The session methods of the protocol, one function each.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{
    CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest, DeleteSessionResponse,
    ForkSessionRequest, ForkSessionResponse, ListSessionsRequest, ListSessionsResponse,
    LoadSessionRequest, LoadSessionResponse, Meta, NewSessionRequest, NewSessionResponse,
    ResumeSessionRequest, ResumeSessionResponse, SessionConfigOptionValue, SessionInfo,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use zero_client::{GatewayLinkError, ListRequest, SessionChange};

use crate::acp_agent::{AcpAgent, MethodResponse, close_and_wait};
use crate::config::DisconnectPolicy;
use crate::rpc_error;
use crate::session::ActiveSession;
use crate::session_setup::{self, PreparedSession, SessionSpec};

/// Sessions per page, unless the client asks for fewer.
const PAGE_SIZE_DEFAULT: u64 = 50;
/// Most sessions per page.
const PAGE_MAX: u64 = 200;
/// The folder reported for sessions whose folder is unknown. The protocol requires one, and no
/// session can work in this one.
const UNKNOWN_CWD: &str = "/";

pub(crate) async fn new_session(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: NewSessionRequest = rpc_error::parse_params("session/new", params)?;
    let spec = SessionSpec {
        id: None,
        cwd: request.cwd,
        additional: request.additional_directories,
        servers: request.mcp_servers,
        meta: request.meta,
    };
    let _opening = agent.opening.lock().await;
    let opened = agent.open_session(spec).await?;
    let response = {
        let choices = opened.active.options();
        NewSessionResponse::new(opened.active.id.clone())
            .modes(choices.modes())
            .config_options(choices.options())
    };
    Ok(MethodResponse::new(response)?.with_session(register_session(&agent, opened)))
}

pub(crate) async fn load_session(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: LoadSessionRequest = rpc_error::parse_params("session/load", params)?;
    let spec = SessionSpec {
        id: Some(request.session_id.0.to_string()),
        cwd: request.cwd,
        additional: request.additional_directories,
        servers: request.mcp_servers,
        meta: request.meta,
    };
    // Other sessions can be opened while the client reads the history of this one.
    let (mut opened, loading) = {
        let _opening = agent.opening.lock().await;
        let opened = reopen(&agent, spec).await?;
        let loading = agent.start_loading(&opened.active.id.0);
        (opened, loading)
    };
    if let Err(error) = opened.replay_history().await {
        opened.active.handle.leave().await;
        return Err(error);
    }
    let response = {
        let choices = opened.active.options();
        LoadSessionResponse::new().modes(choices.modes()).config_options(choices.options())
    };
    let opened = register_session(&agent, opened);
    drop(loading);
    Ok(MethodResponse::new(response)?.with_session(opened))
}

pub(crate) async fn resume_session(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: ResumeSessionRequest = rpc_error::parse_params("session/resume", params)?;
    let spec = SessionSpec {
        id: Some(request.session_id.0.to_string()),
        cwd: request.cwd,
        additional: request.additional_directories,
        servers: request.mcp_servers,
        meta: request.meta,
    };
    let _opening = agent.opening.lock().await;
    let opened = reopen(&agent, spec).await?;
    let response = {
        let choices = opened.active.options();
        ResumeSessionResponse::new().modes(choices.modes()).config_options(choices.options())
    };
    Ok(MethodResponse::new(response)?.with_session(register_session(&agent, opened)))
}

/// Copies a session up to now, or up to a prompt, and opens the copy, which has an id of its own.
pub(crate) async fn fork_session(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: ForkSessionRequest = rpc_error::parse_params("session/fork", params)?;
    let id = request.session_id.0.to_string();
    let mut spec = SessionSpec {
        id: None,
        cwd: request.cwd,
        additional: request.additional_directories,
        servers: request.mcp_servers,
        meta: request.meta,
    };
    let prompt = fork_prompt(spec.meta.as_ref())?;
    // Check first: a session that cannot be opened is not copied.
    agent.check_spec(&spec).await?;
    let source = match agent.sessions().get(&id) {
        Some(active) => active.handle.info().session_key,
        None => session_setup::key_of_id(&id).to_owned(),
    };
    let copy = session_setup::new_session_key();
    let key = agent.config.link.fork(&source, &copy, prompt).await;
    let key = key.map_err(|error| match error {
        GatewayLinkError::NoSession { .. } => rpc_error::no_session(&id),
        error => rpc_error::from_link_error(&error),
    })?;
    spec.id = Some(key.clone());
    let _opening = agent.opening.lock().await;
    let opened = match agent.open_session(spec).await {
        Ok(opened) => opened,
        Err(error) => {
            // The client does not know the id of the copy, so it would never be used.
            if let Err(error) = agent.config.link.delete(&key).await {
                tracing::warn!(%error, session = key, "a copy that could not be opened is left");
            }
            return Err(error);
        }
    };
    let response = {
        let choices = opened.active.options();
        ForkSessionResponse::new(opened.active.id.clone())
            .modes(choices.modes())
            .config_options(choices.options())
    };
    Ok(MethodResponse::new(response)?.with_session(register_session(&agent, opened)))
}

/// The prompt before which a copy ends: `_meta.zero.prompt`.
fn fork_prompt(meta: Option<&Meta>) -> Result<Option<u64>, Error> {
    let Some(prompt) = meta.and_then(|meta| meta.get("zero")?.get("prompt")) else {
        return Ok(None);
    };
    match prompt.as_u64() {
        Some(number) if number > 0 => Ok(Some(number)),
        _ => Err(rpc_error::invalid_params("`_meta.zero.prompt` is not the number of a prompt")),
    }
}

/// Opens an existing session under the id that the client knows. If it is already open on this
/// connection it is closed first: the client starts over with it.
async fn reopen(agent: &Arc<AcpAgent>, spec: SessionSpec) -> Result<PreparedSession, Error> {
    if spec.id.as_ref().is_some_and(|id| agent.loading().contains(id)) {
        let message = "this session is being loaded; wait for the answer to that request";
        return Err(rpc_error::bad_request(message));
    }
    // Check first: a failed open must not close the session that is open.
    agent.check_spec(&spec).await?;
    let known = spec.id.as_ref().and_then(|id| agent.sessions().remove(id));
    if let Some(known) = known {
        close_and_wait(&known, DisconnectPolicy::Abort).await;
    }
    agent.open_session(spec).await
}

fn register_session(agent: &AcpAgent, opened: PreparedSession) -> PreparedSession {
    let id = opened.active.id.0.to_string();
    agent.sessions().insert(id, Arc::clone(&opened.active));
    opened
}

pub(crate) async fn list_sessions(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: ListSessionsRequest = rpc_error::parse_params("session/list", params)?;
    if request.cwd.as_ref().is_some_and(|cwd| !cwd.is_absolute()) {
        return Err(rpc_error::invalid_params("`cwd` has to be an absolute path"));
    }
    let offset = match &request.cursor {
        None => 0,
        Some(cursor) => {
            cursor.strip_prefix("after:").and_then(|offset| offset.parse().ok()).ok_or_else(
                || rpc_error::invalid_params("`cursor` is not one that `session/list` gave"),
            )?
        }
    };
    let limit =
        request.meta.as_ref().and_then(|meta| meta.get("limit").or_else(|| meta.get("pageSize")));
    let limit = match limit {
        None => PAGE_SIZE_DEFAULT,
        Some(limit) => limit
            .as_u64()
            .filter(|limit| *limit > 0)
            .ok_or_else(|| rpc_error::invalid_params("`_meta.limit` has to be a number above 0"))?,
    };
    let is_of_folder = request.cwd.is_some();
    let cwd = request.cwd.map(|cwd| cwd.display().to_string());
    let listing = ListRequest { cwd, offset, limit: limit.min(PAGE_MAX) };
    let listed = agent
        .config
        .link
        .list(listing)
        .await
        .map_err(|error| rpc_error::from_link_error(&error))?;
    let sessions = listed.sessions.into_iter().filter_map(|info| {
        let updated = Timestamp::from_millisecond(info.updated_ms).ok();
        let session = match info.cwd {
            Some(cwd) => SessionInfo::new(info.session_key, PathBuf::from(cwd)),
            // A session with an unknown folder does not match a folder filter.
            None if is_of_folder => return None,
            None => SessionInfo::new(info.session_key, PathBuf::from(UNKNOWN_CWD))
                .meta(unknown_cwd_meta()),
        };
        Some(session.title(info.title).updated_at(updated.map(|time| time.to_string())))
    });
    let cursor = listed.next_offset.map(|offset| format!("after:{offset}"));
    MethodResponse::new(ListSessionsResponse::new(sessions.collect()).next_cursor(cursor))
}

/// Marks the folder as unknown, whatever path the entry has.
fn unknown_cwd_meta() -> Meta {
    Meta::from_iter([("zero".to_owned(), json!({"cwdUnknown": true}))])
}

pub(crate) async fn close_session(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: CloseSessionRequest = rpc_error::parse_params("session/close", params)?;
    let id = &*request.session_id.0;
    let active = agent.sessions().remove(id).ok_or_else(|| rpc_error::session_not_open(id))?;
    close_and_wait(&active, DisconnectPolicy::Abort).await;
    MethodResponse::new(CloseSessionResponse::new())
}

pub(crate) async fn delete_session(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: DeleteSessionRequest = rpc_error::parse_params("session/delete", params)?;
    let id = &*request.session_id.0;
    let active = agent.sessions().remove(id);
    let key = match &active {
        Some(active) => active.handle.info().session_key,
        None => id.to_owned(),
    };
    if let Some(active) = active {
        close_and_wait(&active, DisconnectPolicy::Abort).await;
    }
    agent.config.link.delete(&key).await.map_err(|error| rpc_error::from_link_error(&error))?;
    MethodResponse::new(DeleteSessionResponse::new())
}

pub(crate) async fn set_mode(agent: Arc<AcpAgent>, params: Value) -> Result<MethodResponse, Error> {
    let request: SetSessionModeRequest = rpc_error::parse_params("session/set_mode", params)?;
    let active = agent.find_session(&request.session_id.0)?;
    let change = active.options().choose_mode(&request.mode_id.0);
    let change = change.map_err(|error| rpc_error::invalid_params(error.to_string()))?;
    self::apply_change(&active, change).await?;
    MethodResponse::new(SetSessionModeResponse::new())
}

pub(crate) async fn set_option(
    agent: Arc<AcpAgent>,
    params: Value,
) -> Result<MethodResponse, Error> {
    let request: SetSessionConfigOptionRequest =
        rpc_error::parse_params("session/set_config_option", params)?;
    let active = agent.find_session(&request.session_id.0)?;
    let value = match &request.value {
        SessionConfigOptionValue::ValueId { value } => value.0.to_string(),
        SessionConfigOptionValue::Boolean { value } => value.to_string(),
        _ => return Err(rpc_error::invalid_params("`value` has to be one of the option's values")),
    };
    let change = active.options().choose(&request.config_id.0, &value);
    let change = change.map_err(|error| rpc_error::invalid_params(error.to_string()))?;
    self::apply_change(&active, change).await?;
    let options = active.options().options();
    MethodResponse::new(SetSessionConfigOptionResponse::new(options))
}

/// Applies a change that the user chose. A mode applies here even if the gateway rejects it.
async fn apply_change(active: &ActiveSession, change: SessionChange) -> Result<(), Error> {
    let own_mode = &active.own_mode;
    let chosen = change.mode.map(|mode| (mode, own_mode.choose(mode)));
    if chosen.is_some() {
        // Before the gateway is asked: a slow answer must not delay a stricter mode.
        apply_mode_to_tools(active).await?;
    }
    let changed = active.handle.change(change).await;
    match (&changed, chosen) {
        (_, None) => {}
        (Err(_), Some((mode, before))) => {
            own_mode.revert_choice(mode, before);
            apply_mode_to_tools(active).await?;
        }
        (Ok(info), Some(_)) => own_mode.confirm_stored(info.last_seq),
    }
    {
        let mut choices = active.options();
        choices.own_mode = own_mode.chosen_mode();
        if let Ok(info) = &changed {
            choices.info = info.clone();
        }
    }
    changed.map_err(|error| rpc_error::from_link_error(&error))?;
    match chosen {
        None => Ok(()),
        Some(_) => apply_mode_to_tools(active).await,
    }
}

/// Applies the mode of the session to its tools.
async fn apply_mode_to_tools(active: &ActiveSession) -> Result<(), Error> {
    active
        .own_mode
        .apply_to_backend(&*active.backend)
        .await
        .map_err(|error| rpc_error::from_backend_error(&error))
}
