//! `zero.sessions.…`: zero's own view of sessions, with real folders, ledger entries and available
//! choices.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::{ContextBreakdown, SessionId};
use zero_runtime::file_rewind::{FileConflict, RewoundChange};
use zero_runtime::tool_backend::{PromptCommand, ToolBackendError};
use zero_session::PermissionMode;
use zero_session::agent::DIRECT;
use zero_session::key::SessionAddress;
use zero_session::model::ModelInfo;
use zero_session::open_question::QuestionScope;
use zero_session::rewind_arguments::RewindTarget;
use zero_session::sessions::{
    OpenSessionOptions, PromptSummary, RewindOptions, RewindOutcome, SessionError,
};
use zero_session::slash_commands::built_in_commands;
use zero_session::store::{
    LedgerReadLimit, SessionPatch, SessionQuery, SessionRecord, StoreError, ToolHostLocation,
};
use zero_wire::ErrorPayload;
use zero_wire::approvals::Acknowledgement;
use zero_wire::method::TokenScope;
use zero_wire::zero_sessions::{
    PromptInfo, RewindConflict, RewoundChangeInfo, SessionChoicesParams, SessionChoicesResult,
    SessionEventsParams, SessionEventsResult, SessionForkParams, SessionInfo, SessionKeyParams,
    SessionOpenParams, SessionPromptsParams, SessionPromptsResult, SessionRewindParams,
    SessionRewindResult, SessionSetParams, SessionSubscribeResult, SlashCommandInfo,
    ZeroSessionsListParams, ZeroSessionsListResult,
};

use super::parse_thinking;
use super::sessions::{check_label, check_model, session_model};
use crate::authenticated_connection::AuthenticatedConnection;
use crate::error_payloads::{forbidden_error, quote_input, to_error_shape};

/// Maximum number of entries per response.
const EVENTS_MAX: u32 = 1_000;
/// Maximum size of these entries, in bytes of JSON; at least one entry is always returned.
const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of prompts per response.
const PROMPTS_MAX: u64 = 1_000;
/// Maximum length of a title, in characters.
const TITLE_LEN_MAX: usize = 200;

pub(super) async fn open(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionOpenParams,
) -> Result<SessionInfo, ErrorPayload> {
    let cwd = params.cwd.as_deref().map(parse_folder).transpose()?;
    let mode = params.mode.as_deref().map(parse_mode).transpose()?;
    check_mode_permission(peer, mode)?;
    if let Some(model) = &params.model {
        check_model(peer.sessions(), model)?;
    }
    let key = match (&params.session_key, params.label) {
        (Some(written), None) => peer.resolve_key(written, None)?,
        (None, Some(label)) => {
            let found = peer.find_session_by_label(&label).await?;
            found.ok_or_else(|| to_error_shape(SessionError::NoLabel(label)))?.address()
        }
        _ => {
            let why = "invalid zero.sessions.open params: give one of sessionKey and label";
            return Err(ErrorPayload::invalid(why));
        }
    };
    if let Some(model) = &params.model {
        peer.sessions().models().get(Some(model)).map_err(|error| to_error_shape(error.into()))?;
    }
    if let Some(cwd) = &cwd {
        check_folder_access(peer, &key, cwd).await?;
    }
    let agent = params.agent.map(|agent| agent.to_lowercase());
    if let Some(agent) = &agent {
        peer.sessions().check_agent(&key.key, agent).map_err(to_error_shape)?;
    }
    // Checks ownership before any change, so that no session of another owner is modified.
    let mut session = if params.require_existing {
        peer.require_session(&key).await?
    } else {
        peer.open_session_in(&key, cwd.clone()).await?
    };
    let is_named = agent.is_some() || params.model.is_some();
    let is_elsewhere = cwd.is_some() && cwd != session.cwd;
    let changes = is_elsewhere || mode.is_some() || is_named || params.reset;
    if changes {
        let options = OpenSessionOptions {
            key: Some(key.key.to_string()),
            label: None,
            owner: key.owner,
            cwd,
            folder_access: peer.folder_access(),
            agent,
            model: params.model,
            mode,
            reset: params.reset,
            require_existing: true,
            leave_as_is: false,
            tool_host: None,
        };
        session = peer.sessions().open(options).await.map_err(to_error_shape)?;
    }
    let last_seq = peer.watch_session(&session).await?;
    session_info(peer, session, last_seq).await
}

/// Watches a session that another gateway has opened.
pub(super) async fn watch_opened(
    peer: &Arc<AuthenticatedConnection>,
    opened: SessionInfo,
) -> Result<SessionInfo, ErrorPayload> {
    let session = peer.require_session(&peer.resolve_key(&opened.session_key, None)?).await?;
    let last_seq = peer.watch_session(&session).await?;
    Ok(SessionInfo { last_seq, ..opened })
}

/// Checks that the client may use a folder of this machine, before anything is created for it. A
/// folder of a client that hosts the tools is not checked here.
async fn check_folder_access(
    peer: &AuthenticatedConnection,
    key: &SessionAddress,
    cwd: &Path,
) -> Result<(), ErrorPayload> {
    let Err(out) = peer.folder_access().check_unresolved(cwd) else { return Ok(()) };
    match peer.find_session(key).await?.map(|session| session.tool_host) {
        Some(ToolHostLocation::Client { .. }) => Ok(()),
        _ => Err(to_error_shape(ToolBackendError::from(out).into())),
    }
}

fn parse_folder(text: &str) -> Result<PathBuf, ErrorPayload> {
    let path = PathBuf::from(text);
    if !path.is_absolute() || text.contains('\0') {
        let why = format!("cwd has to be an absolute path, not `{}`", quote_input(text));
        return Err(ErrorPayload::invalid(why));
    }
    Ok(path)
}

/// A mode that asks less answers approvals in advance, so it requires the approvals scope.
fn check_mode_permission(
    peer: &AuthenticatedConnection,
    mode: Option<PermissionMode>,
) -> Result<(), ErrorPayload> {
    match mode {
        Some(mode) if mode.accepts_edits() && !peer.has_scope(TokenScope::Approvals) => {
            Err(forbidden_error(&format!("mode {mode}"), TokenScope::Approvals))
        }
        _ => Ok(()),
    }
}

fn parse_mode(word: &str) -> Result<PermissionMode, ErrorPayload> {
    let found = PermissionMode::ALL.into_iter().find(|mode| mode.as_str() == word);
    found.ok_or_else(|| {
        let known = PermissionMode::ALL.map(PermissionMode::as_str).join(", ");
        let word = quote_input(word);
        ErrorPayload::invalid(format!("there is no mode `{word}`; the modes are {known}"))
    })
}

pub(super) async fn show(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionKeyParams,
) -> Result<SessionInfo, ErrorPayload> {
    let session = peer.require_session(&peer.resolve_key(&params.session_key, None)?).await?;
    let last = last_seq(peer, &session).await?;
    session_info(peer, session, last).await
}

/// Sequence number of the newest entry; 0 in an empty ledger.
async fn last_seq(
    peer: &AuthenticatedConnection,
    session: &SessionRecord,
) -> Result<u64, ErrorPayload> {
    let last = peer.sessions().store().last_seq(&session.id).await;
    last.map_err(|error| to_error_shape(error.into()))
}

async fn session_info(
    peer: &AuthenticatedConnection,
    session: SessionRecord,
    last_seq: u64,
) -> Result<SessionInfo, ErrorPayload> {
    let waiting = open_questions(peer, QuestionScope::Session(&session.id)).await?;
    session_info_with(peer, session, last_seq, &waiting).await
}

/// How many questions of each session wait for an answer.
async fn open_questions(
    peer: &AuthenticatedConnection,
    scope: QuestionScope<'_>,
) -> Result<HashMap<SessionId, u64>, ErrorPayload> {
    let approvals = peer.sessions().pending_approvals(scope).await.map_err(to_error_shape)?;
    let questions = peer.sessions().pending_questions(scope).await.map_err(to_error_shape)?;
    let approvals = approvals.into_iter().map(|pending| pending.session);
    let mut waiting = HashMap::new();
    for session in approvals.chain(questions.into_iter().map(|pending| pending.session)) {
        let count: &mut u64 = waiting.entry(session).or_default();
        *count = count.saturating_add(1);
    }
    Ok(waiting)
}

async fn session_info_with(
    peer: &AuthenticatedConnection,
    session: SessionRecord,
    last_seq: u64,
    waiting: &HashMap<SessionId, u64>,
) -> Result<SessionInfo, ErrorPayload> {
    let sessions = peer.sessions();
    let model = session_model(sessions, &session);
    let runs = sessions.unfinished_runs(&session.id).await.map_err(to_error_shape)?;
    Ok(SessionInfo {
        run_ids: runs.into_iter().map(String::from).collect(),
        open_questions: waiting.get(&session.id).copied().unwrap_or_default(),
        session_key: peer.key_text(&session.address()),
        session_id: session.id.into(),
        label: session.label,
        title: session.title,
        agent: session.agent,
        context_window: model.as_ref().and_then(ModelInfo::window),
        model: session.model.or(model.map(|model| model.name)).unwrap_or_else(|| DIRECT.to_owned()),
        mode: session.mode.map(|mode| mode.as_str().to_owned()),
        thinking: session.thinking,
        cwd: session.cwd.map(|cwd| cwd.display().to_string()),
        tool_host: match session.tool_host {
            ToolHostLocation::Gateway => None,
            ToolHostLocation::Client { name } => Some(name),
        },
        created_ms: session.created_ms,
        updated_ms: session.updated_ms,
        transcript: session.transcript,
        last_seq,
        usage: session.usage,
        context_tokens: session.context_tokens,
        owner: None,
    })
}

pub(super) async fn list(
    peer: &Arc<AuthenticatedConnection>,
    params: ZeroSessionsListParams,
) -> Result<ZeroSessionsListResult, ErrorPayload> {
    let usize_of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let query = SessionQuery {
        limit: params.limit.map(usize_of),
        offset: usize_of(params.offset.unwrap_or(0)),
        owner: peer.visible_owner().map(str::to_owned),
        cwd: params.cwd.as_deref().map(parse_folder).transpose()?,
        ..SessionQuery::default()
    };
    let page = peer.sessions().list(query.clone()).await.map_err(to_error_shape)?;
    let next_offset = query.next_offset(page.total);
    let sees_others = query.owner.is_none();
    let waiting = open_questions(peer, peer.question_scope()).await?;
    let mut sessions = Vec::with_capacity(page.sessions.len());
    for session in page.sessions {
        match peer.sessions().store().last_seq(&session.id).await {
            Ok(last) => {
                let owner = sees_others.then(|| session.owner.clone());
                let info = session_info_with(peer, session, last, &waiting).await?;
                sessions.push(SessionInfo { owner, ..info });
            }
            // The session was deleted concurrently.
            Err(StoreError::NoSession(_)) => {}
            Err(error) => return Err(to_error_shape(error.into())),
        }
    }
    Ok(ZeroSessionsListResult { sessions, next_offset })
}

pub(super) async fn subscribe(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionKeyParams,
) -> Result<SessionSubscribeResult, ErrorPayload> {
    let session = peer.require_session(&peer.resolve_key(&params.session_key, None)?).await?;
    let last_seq = peer.watch_session(&session).await?;
    Ok(SessionSubscribeResult { session_key: peer.key_text(&session.address()), last_seq })
}

pub(super) async fn unsubscribe(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionKeyParams,
) -> Result<Acknowledgement, ErrorPayload> {
    let key = peer.resolve_key(&params.session_key, None)?;
    if let Some(session) = peer.find_session(&key).await? {
        peer.unwatch_session(&session.id).await;
    }
    // A host has to hear of its session. One that was deleted is found by its key.
    peer.stop_hosting_at(&key);
    Ok(Acknowledgement { ok: true })
}

pub(super) async fn events(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionEventsParams,
) -> Result<SessionEventsResult, ErrorPayload> {
    let session = peer.require_session(&peer.resolve_key(&params.session_key, None)?).await?;
    let most = params.limit.unwrap_or(EVENTS_MAX).clamp(1, EVENTS_MAX) as usize;
    let store = peer.sessions().store();
    let most = LedgerReadLimit { entries: most, bytes: EVENT_BYTES_MAX };
    let events = store.events(&session.id, params.after, most).await;
    let events = events.map_err(|error| to_error_shape(error.into()))?;
    let has_more = match events.last() {
        Some(last) => last.seq < last_seq(peer, &session).await?,
        None => false,
    };
    Ok(SessionEventsResult { events, has_more })
}

pub(super) async fn set(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionSetParams,
) -> Result<SessionInfo, ErrorPayload> {
    let key = peer.resolve_key(&params.session_key, None)?;
    let patch = parse_changes(params)?;
    check_mode_permission(peer, patch.mode.flatten())?;
    if let Some(Some(model)) = &patch.model {
        check_model(peer.sessions(), model)?;
    }
    let mut session = peer.require_session(&key).await?;
    if patch != SessionPatch::default() {
        session = peer.sessions().patch(&key, patch).await.map_err(to_error_shape)?;
    }
    let last = last_seq(peer, &session).await?;
    session_info(peer, session, last).await
}

/// Converts the requested changes; an empty string clears a field.
fn parse_changes(params: SessionSetParams) -> Result<SessionPatch, ErrorPayload> {
    let nonblank = |text: String| Some(text).filter(|text| !text.trim().is_empty());
    let level = |word: String| parse_thinking(&word).map(|level| level.as_str().to_owned());
    Ok(SessionPatch {
        label: params
            .label
            .map(|label| nonblank(label).map(check_label).transpose())
            .transpose()?,
        title: params
            .title
            .map(|title| nonblank(title).map(check_title).transpose())
            .transpose()?,
        agent: params.agent.map(|agent| agent.to_lowercase()),
        model: params.model.map(nonblank),
        mode: params
            .mode
            .map(|word| nonblank(word).map(|word| parse_mode(&word)).transpose())
            .transpose()?,
        thinking: params.thinking.map(|word| nonblank(word).map(level).transpose()).transpose()?,
        ..SessionPatch::default()
    })
}

fn check_title(title: String) -> Result<String, ErrorPayload> {
    let title = title.trim();
    if title.chars().count() > TITLE_LEN_MAX || title.chars().any(char::is_control) {
        let why = format!("a title has at most {TITLE_LEN_MAX} characters and no line breaks");
        return Err(ErrorPayload::invalid(why));
    }
    Ok(title.to_owned())
}

pub(super) async fn fork(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionForkParams,
) -> Result<SessionInfo, ErrorPayload> {
    let address = peer.resolve_key(&params.session_key, None)?;
    let source = peer.require_session(&address).await?;
    // The copy belongs to the owner of the session, even if another user makes it.
    let names_other =
        |key: &str| SessionAddress::split_text(key).is_some_and(|(owner, _)| owner != source.owner);
    if params.key.as_deref().is_some_and(names_other) {
        let why = "a copy belongs to the owner of its session; give a key without another owner";
        return Err(ErrorPayload::invalid(why));
    }
    let key = params.key.map(|written| peer.resolve_key(&written, None)).transpose()?;
    let key = key.map(|copy| copy.key.to_string());
    let forked = peer.sessions().fork(&address, key.as_deref(), params.prompt).await;
    let forked = forked.map_err(to_error_shape)?;
    let last = last_seq(peer, &forked).await?;
    session_info(peer, forked, last).await
}

pub(super) async fn prompts(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionPromptsParams,
) -> Result<SessionPromptsResult, ErrorPayload> {
    let session = peer.require_session(&peer.resolve_key(&params.session_key, None)?).await?;
    let prompts = peer.sessions().list_prompts(&session.address()).await.map_err(to_error_shape)?;
    let prompt = |prompt: PromptSummary| PromptInfo {
        number: prompt.number,
        seq: prompt.seq,
        time_ms: prompt.time_ms,
        words: prompt.words,
        in_effect: prompt.is_in_effect,
        has_conversation: prompt.has_position,
        files: prompt.files,
        commands: prompt.commands,
    };
    let (total, offset) = (prompts.len() as u64, params.offset.unwrap_or(0));
    let count = params.limit.unwrap_or(PROMPTS_MAX).clamp(1, PROMPTS_MAX);
    let usize_of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let page = prompts.into_iter().skip(usize_of(offset)).take(usize_of(count));
    let prompts: Vec<PromptInfo> = page.map(prompt).collect();
    let next = offset.saturating_add(prompts.len() as u64);
    let has_more = next < total;
    let next_offset = has_more.then_some(next);
    Ok(SessionPromptsResult { prompts, total_count: total, has_more, next_offset })
}

pub(super) async fn context(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionKeyParams,
) -> Result<ContextBreakdown, ErrorPayload> {
    let session = peer.require_session(&peer.resolve_key(&params.session_key, None)?).await?;
    let report = peer.sessions().context_breakdown(session, peer.folder_access()).await;
    report.map_err(to_error_shape)
}

pub(super) async fn rewind(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionRewindParams,
) -> Result<SessionRewindResult, ErrorPayload> {
    let target = match (params.prompt, params.undo) {
        (None, false) => RewindTarget::LastPrompt,
        (Some(number), false) => RewindTarget::Prompt(number),
        (None, true) => RewindTarget::LastRewind,
        (Some(_), true) => {
            let why = "invalid zero.sessions.rewind params: give one of prompt and undo";
            return Err(ErrorPayload::invalid(why));
        }
    };
    if params.force && !peer.has_scope(TokenScope::Approvals) {
        return Err(forbidden_error("force", TokenScope::Approvals));
    }
    let session = peer.require_session(&peer.resolve_key(&params.session_key, None)?).await?;
    let options = RewindOptions {
        target,
        scope: params.scope,
        overwrite: params.force,
        folder_access: peer.folder_access(),
    };
    let rewound = peer.sessions().rewind(&session.address(), options).await;
    let RewindOutcome { session, prompt, scope, is_done, files, unrecorded } =
        rewound.map_err(to_error_shape)?;
    let last = last_seq(peer, &session).await?;
    let files = files.unwrap_or_default();
    let change = |change: RewoundChange| RewoundChangeInfo {
        id: change.id,
        tool: change.tool,
        subject: change.subject,
        action: change.action,
        files: change.files,
    };
    let conflict =
        |conflict: FileConflict| RewindConflict { path: conflict.path, what: conflict.what };
    let (number, words) = prompt.unzip();
    Ok(SessionRewindResult {
        rewound: is_done,
        session: session_info(peer, session, last).await?,
        prompt: number,
        prompt_words: words,
        scope,
        changes: files.changes.into_iter().map(change).collect(),
        change_count: files.change_count,
        file_count: files.file_count,
        conflicts: files.conflicts.into_iter().map(conflict).collect(),
        conflict_count: files.conflict_count,
        unrecorded,
    })
}

pub(super) async fn choices(
    peer: &Arc<AuthenticatedConnection>,
    params: SessionChoicesParams,
) -> Result<SessionChoicesResult, ErrorPayload> {
    let sessions = peer.sessions();
    let commands = match &params.session_key {
        Some(written) => {
            let session = peer.require_session(&peer.resolve_key(written, None)?).await?;
            sessions.list_commands(session, peer.folder_access()).await.map_err(to_error_shape)?
        }
        None => built_in_commands(),
    };
    let command = |command: PromptCommand| SlashCommandInfo {
        name: command.name,
        description: command.description,
        argument_hint: command.argument_hint,
    };
    let models = sessions.models();
    let is_text_only =
        |name: &&str| models.get(Some(name)).is_ok_and(|model| !model.info().takes_images);
    Ok(SessionChoicesResult {
        text_only_models: models.names().filter(is_text_only).map(str::to_owned).collect(),
        agents: sessions.agents().list().map(|agent| agent.id.clone()).collect(),
        default_agent: sessions.agents().default_id().to_owned(),
        models: models.names().map(str::to_owned).collect(),
        default_model: models.default_name().map(str::to_owned),
        modes: PermissionMode::ALL.map(|mode| mode.as_str().to_owned()).to_vec(),
        commands: commands.into_iter().map(command).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_must_be_absolute() {
        assert_eq!(parse_folder("/work/x").unwrap(), PathBuf::from("/work/x"));
        for bad in ["", "x", "./x", "~/x", "/a\0b"] {
            let error = parse_folder(bad).unwrap_err();
            assert!(error.message.starts_with("cwd has to be an absolute path"), "{bad:?}");
        }
    }

    #[test]
    fn empty_text_clears_field() {
        let params = SessionSetParams {
            session_key: "main".to_owned(),
            mode: Some("plan".to_owned()),
            label: Some(String::new()),
            title: Some(" Fix it ".to_owned()),
            ..SessionSetParams::default()
        };
        let expected = SessionPatch {
            mode: Some(Some(PermissionMode::Plan)),
            label: Some(None),
            title: Some(Some("Fix it".to_owned())),
            ..SessionPatch::default()
        };
        assert_eq!(parse_changes(params).unwrap(), expected);
        let params =
            SessionSetParams { mode: Some("yolo".to_owned()), ..SessionSetParams::default() };
        let message = "there is no mode `yolo`; the modes are ask, accept-edits, plan, auto";
        assert_eq!(parse_changes(params).unwrap_err().message, message);
    }
}
