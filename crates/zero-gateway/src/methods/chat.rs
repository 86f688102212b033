//! `chat.…`, `agent.wait` and `health`.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use zero_core::RunId;
use zero_core::event::{Event, EventKind, PromptAttachment, RunOutcome};
use zero_runtime::clock::now_ms;
use zero_session::output_schema::OutputSchema;
use zero_session::sessions::{
    Prompt, PromptAuthority, PromptPrecedence, SendOutcome, SlashHandling,
};
use zero_session::store::RunRecord;
use zero_wire::ErrorPayload;
use zero_wire::chat::{
    AgentWaitParams, AgentWaitResult, AgentWaitStatus, ChatAbortParams, ChatAbortResult,
    ChatAttachment, ChatHistoryParams, ChatHistoryResult, ChatMessage, ChatSendParams,
    ChatSendResult, ChatSendStatus, HealthParams, HealthResult, QueueMode, ReplyDisposition,
    TerminalReply,
};
use zero_wire::method::TokenScope;

use super::parse_thinking;
use super::sessions::check_session_id;
use crate::authenticated_connection::AuthenticatedConnection;
use crate::error_payloads::{quote_input, to_error_shape};
use crate::ledger_tail::READ_BYTES_MAX;
use crate::openclaw_relay::{run_failure, run_text};
use crate::read_limiter::run_blocking;
use crate::{history, ledger_tail};

/// Maximum number of images per prompt.
const ATTACHMENTS_MAX: usize = 32;
/// Maximum size of all images of a prompt, in bytes of base64.
const ATTACHMENT_BYTES_MAX: usize = 20 * 1024 * 1024;
/// Maximum timeout of a run.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Default timeout of `agent.wait`.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// Maximum timeout of `agent.wait`.
const WAIT_MAX: Duration = Duration::from_secs(10 * 60);
/// Default number of messages that `chat.history` returns.
const HISTORY_DEFAULT: usize = 200;
/// Maximum offset of `chat.history`.
const HISTORY_OFFSET_MAX: u64 = 100_000;
/// Stop reason of a run that a client aborted.
const STOPPED_BY_CLIENT: &str = "rpc";

pub(super) async fn send(
    peer: &Arc<AuthenticatedConnection>,
    params: ChatSendParams,
) -> Result<ChatSendResult, ErrorPayload> {
    let says_whence =
        params.system_input_provenance.is_some() || params.system_provenance_receipt.is_some();
    if says_whence && !peer.has_scope(TokenScope::Admin) {
        return Err(ErrorPayload::invalid("system provenance fields require admin scope"));
    }
    let key = peer.resolve_key(&params.session_key, params.agent_id.as_deref())?;
    let run = RunId::new(params.idempotency_key.as_str()).map_err(|error| {
        ErrorPayload::invalid(format!("invalid chat.send params: idempotencyKey: {error}"))
    })?;
    let expected = params.session_id.clone();
    let interrupts = params.queue_mode == Some(QueueMode::Interrupt);
    let precedence = match params.queue_mode {
        Some(QueueMode::Steer) => PromptPrecedence::Steering { by: STOPPED_BY_CLIENT },
        _ => PromptPrecedence::Last,
    };
    let prompt = Prompt {
        folder_access: peer.folder_access(),
        precedence,
        ..build_prompt(params, prompt_permissions(peer))?
    };

    let session = match peer.find_session(&key).await? {
        Some(session) => session,
        // A request that would be refused must not create a session.
        None if expected.is_some() => return Err(peer.session_not_found(&key)),
        None => {
            peer.sessions().check_prompt(&key.key, &prompt).map_err(to_error_shape)?;
            peer.open_session(&key).await?
        }
    };
    if let Some(expected) = expected {
        check_session_id(&session, &expected)?;
    }
    // Subscribes before the run can send its first event.
    peer.watch_session(&session).await?;
    let sessions = peer.sessions();
    if interrupts {
        // A prompt that is sent again must not stop its own run.
        let known = sessions.store().find_run(Some(&session.owner), &run).await;
        let known = known.map_err(|error| to_error_shape(error.into()))?;
        if known.is_none() {
            sessions.abort(&key, None, STOPPED_BY_CLIENT).await.map_err(to_error_shape)?;
        }
    }
    let sent = sessions.send(&key, run.clone(), prompt).await.map_err(to_error_shape)?;
    let (status, error) = match sent {
        SendOutcome::Started => (ChatSendStatus::Started, None),
        SendOutcome::InFlight => (ChatSendStatus::InFlight, None),
        SendOutcome::Ended(known) => end_status(&known),
    };
    Ok(ChatSendResult { run_id: run.into(), status, error })
}

fn end_status(run: &RunRecord) -> (ChatSendStatus, Option<String>) {
    match &run.end {
        None => (ChatSendStatus::InFlight, None),
        Some(RunOutcome::Aborted { .. }) => (ChatSendStatus::Timeout, None),
        Some(end) => match run_failure(end) {
            Some(failure) => (ChatSendStatus::Error, Some(failure.message)),
            None => (ChatSendStatus::Ok, None),
        },
    }
}

/// Whether a prompt of this client may choose a mode that asks less.
fn prompt_permissions(peer: &AuthenticatedConnection) -> PromptAuthority {
    if peer.has_scope(TokenScope::Approvals) {
        PromptAuthority::CanApprove
    } else {
        PromptAuthority::PromptOnly
    }
}

/// Validates the prompt and its attachments.
fn build_prompt(params: ChatSendParams, leave: PromptAuthority) -> Result<Prompt, ErrorPayload> {
    if params.message.trim().is_empty() && params.attachments.is_empty() {
        return Err(ErrorPayload::invalid("message or attachment required"));
    }
    if params.message.contains('\0') {
        return Err(ErrorPayload::invalid("message must not contain null bytes"));
    }
    let reading = match params.suppress_command_interpretation {
        Some(true) => SlashHandling::Verbatim,
        _ => SlashHandling::Commands,
    };
    let text = match params.system_provenance_receipt {
        Some(receipt) => format!("{receipt}\n\n{}", params.message),
        None => params.message,
    };
    let budget = params.budget.unwrap_or_default();
    budget.check().map_err(|why| ErrorPayload::invalid(format!("invalid budget: {why}")))?;
    let output_schema = params.output_schema.map(OutputSchema::new).transpose();
    let output_schema = output_schema
        .map_err(|why| ErrorPayload::invalid(format!("invalid outputSchema: the schema {why}")))?;
    let timeout = params.timeout_ms.filter(|millis| *millis > 0);
    Ok(Prompt {
        text,
        attachments: parse_attachments(params.attachments)?,
        thinking: params.thinking.as_deref().map(parse_thinking).transpose()?,
        timeout: timeout.map(|millis| Duration::from_millis(millis).min(TIMEOUT_MAX)),
        budget,
        output_schema,
        reading,
        leave,
        ..Prompt::default()
    })
}

fn parse_attachments(
    attachments: Vec<ChatAttachment>,
) -> Result<Vec<PromptAttachment>, ErrorPayload> {
    if attachments.len() > ATTACHMENTS_MAX {
        return Err(ErrorPayload::invalid(format!(
            "{} attachments are more than {ATTACHMENTS_MAX}; send fewer",
            attachments.len()
        )));
    }
    let length = |given: &ChatAttachment| given.content.as_ref().map_or(0, String::len);
    let bytes: usize = attachments.iter().map(length).sum();
    if bytes > ATTACHMENT_BYTES_MAX {
        return Err(ErrorPayload::invalid(format!(
            "attachments of {bytes} bytes are more than {ATTACHMENT_BYTES_MAX}; send smaller ones"
        )));
    }
    attachments
        .into_iter()
        .zip(1..)
        .map(|(attachment, number)| {
            let wrong = |why| ErrorPayload::invalid(format!("attachment {number}: {why}"));
            parse_attachment(attachment).map_err(wrong)
        })
        .collect()
}

fn parse_attachment(attachment: ChatAttachment) -> Result<PromptAttachment, String> {
    if let Some(kind) = attachment.kind.as_deref().filter(|kind| *kind != "image") {
        return Err(format!("only images can be taken, not `{}`", quote_input(kind)));
    }
    let content = attachment.content.ok_or("it has no content; put the bytes there, in base64")?;
    let (named, base64) = match content.strip_prefix("data:") {
        Some(url) => {
            let (head, base64) = url.split_once(',').ok_or("its data URL has no comma")?;
            let named = head.strip_suffix(";base64").ok_or("its data URL is not base64")?;
            (Some(named.to_owned()), base64)
        }
        None => (None, content.as_str()),
    };
    let mime = attachment.mime_type.or(named).filter(|mime| !mime.is_empty());
    let mime = mime.ok_or("its mimeType is missing")?.to_lowercase();
    let subtype = mime.strip_prefix("image/").unwrap_or_default();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
    if subtype.is_empty() || subtype.len() > 64 || !subtype.bytes().all(allowed) {
        return Err(format!("only images can be taken, not `{}`", quote_input(&mime)));
    }
    let padding = DecodePaddingMode::Indifferent;
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(padding);
    let lenient = GeneralPurpose::new(&alphabet::STANDARD, config);
    let bytes = lenient.decode(base64).map_err(|_| "its content is not base64".to_owned())?;
    if bytes.is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok(PromptAttachment { mime, data: STANDARD.encode(bytes), name: attachment.file_name })
}

pub(super) async fn abort(
    peer: &Arc<AuthenticatedConnection>,
    params: ChatAbortParams,
) -> Result<ChatAbortResult, ErrorPayload> {
    let idle = ChatAbortResult { ok: true, aborted: false, run_ids: Vec::new() };
    let key = peer.resolve_key(&params.session_key, params.agent_id.as_deref())?;
    let Some(session) = peer.find_session(&key).await? else { return Ok(idle) };
    let run = match params.run_id {
        None => None,
        Some(id) => match RunId::new(id) {
            Ok(run) => Some(run),
            Err(_) => return Ok(idle),
        },
    };
    peer.watch_session(&session).await?;
    let stopped = peer
        .sessions()
        .abort(&key, run.as_ref(), STOPPED_BY_CLIENT)
        .await
        .map_err(to_error_shape)?;
    let run_ids: Vec<String> = stopped.into_iter().map(String::from).collect();
    Ok(ChatAbortResult { ok: true, aborted: !run_ids.is_empty(), run_ids })
}

pub(super) async fn history(
    peer: &Arc<AuthenticatedConnection>,
    params: ChatHistoryParams,
) -> Result<ChatHistoryResult, ErrorPayload> {
    let key = peer.resolve_key(&params.session_key, params.agent_id.as_deref())?;
    let mut result = ChatHistoryResult {
        session_key: peer.key_text(&key),
        session_id: None,
        messages: Vec::new(),
        thinking_level: None,
    };
    let Some(session) = peer.find_session(&key).await? else { return Ok(result) };
    peer.watch_session(&session).await?;
    let most = params.limit.map_or(HISTORY_DEFAULT, |limit| limit.clamp(1, 1_000) as usize);
    let without = params.offset.map_or(0, |offset| offset.min(HISTORY_OFFSET_MAX) as usize);
    let store = peer.sessions().store();
    let finish = move |mut messages: Vec<ChatMessage>| {
        messages.truncate(messages.len().saturating_sub(without));
        if let Some(chars_max) = params.max_chars {
            history::shorten_messages(&mut messages, chars_max as usize);
        }
        messages
    };
    let messages =
        history::read_messages(store.as_ref(), &session.id, most + without, READ_BYTES_MAX, finish)
            .await;
    result.messages = messages.map_err(|error| to_error_shape(error.into()))?;
    result.session_id = Some(session.id.to_string());
    result.thinking_level = session.thinking;
    Ok(result)
}

pub(super) async fn wait(
    peer: &Arc<AuthenticatedConnection>,
    params: AgentWaitParams,
) -> Result<AgentWaitResult, ErrorPayload> {
    let unknown = AgentWaitResult {
        run_id: params.run_id.clone(),
        status: AgentWaitStatus::Timeout,
        ended_at: None,
        error: None,
        terminal_reply: None,
    };
    let Ok(run) = RunId::new(params.run_id) else { return Ok(unknown) };
    let Some(known) = find_visible_run(peer, &run).await? else { return Ok(unknown) };
    let Some(session) = peer.find_session_by_id(&known.session).await? else { return Ok(unknown) };
    peer.watch_session(&session).await?;
    let most = params.timeout_ms.map_or(WAIT_DEFAULT, Duration::from_millis).min(WAIT_MAX);
    let waited =
        peer.sessions().wait_for_run(&session.owner, &run, most).await.map_err(to_error_shape)?;
    let Some(record) = waited else { return Ok(unknown) };
    let Some(end) = &record.end else { return Ok(unknown) };
    let text = read_run_text(peer, &record).await?;
    Ok(wait_result(&record, end, text))
}

/// The run with that id of the client's owner, else one that the client may see.
async fn find_visible_run(
    peer: &AuthenticatedConnection,
    run: &RunId,
) -> Result<Option<RunRecord>, ErrorPayload> {
    let store = peer.sessions().store();
    let find = async |owner| {
        store.find_run(owner, run).await.map_err(|error| to_error_shape(error.into()))
    };
    match find(Some(peer.owner())).await? {
        None if peer.visible_owner().is_none() => find(None).await,
        found => Ok(found),
    }
}

/// The text of a run, as far back as the ledger can be read.
async fn read_run_text(
    peer: &Arc<AuthenticatedConnection>,
    record: &RunRecord,
) -> Result<String, ErrorPayload> {
    let turn = peer.acquire_read_permit().await?;
    let run = record.id.clone();
    let begins = move |event: &Event| {
        matches!(event.kind, EventKind::Prompt { .. }) && event.run.as_ref() == Some(&run)
    };
    let enough = move |events: &[Event]| events.iter().any(&begins);
    let store = peer.sessions().store();
    let tail =
        ledger_tail::read_tail(store.as_ref(), &record.session, READ_BYTES_MAX, enough).await;
    let (tail, run) = (tail.map_err(|error| to_error_shape(error.into()))?, record.id.clone());
    let text = run_blocking(move || {
        let _turn = turn;
        run_text(&tail.events, &run)
    });
    text.await.map_err(|error| to_error_shape(error.into()))
}

fn wait_result(run: &RunRecord, end: &RunOutcome, text: String) -> AgentWaitResult {
    let error = match end {
        RunOutcome::Aborted { by } => Some(format!("the run was stopped ({by})")),
        _ => run_failure(end).map(|failure| failure.message),
    };
    let disposition =
        if text.trim().is_empty() { ReplyDisposition::Empty } else { ReplyDisposition::Visible };
    AgentWaitResult {
        run_id: run.id.to_string(),
        status: if error.is_some() { AgentWaitStatus::Error } else { AgentWaitStatus::Ok },
        ended_at: run.ended_ms,
        error,
        terminal_reply: Some(TerminalReply { disposition, text }),
    }
}

pub(super) async fn health(
    peer: &Arc<AuthenticatedConnection>,
    _params: HealthParams,
) -> Result<HealthResult, ErrorPayload> {
    let sessions = peer.sessions();
    let stats = sessions.stats();
    let broken = sessions.store().check_ready().await.err();
    let problem =
        broken.map(|error| to_error_shape(error.into()).message).or_else(|| stats.problem());
    let up = peer.gateway().started.elapsed();
    Ok(HealthResult {
        ok: problem.is_none(),
        ts: now_ms(),
        uptime_ms: u64::try_from(up.as_millis()).unwrap_or(u64::MAX),
        default_agent_id: sessions.agents().default_id().to_owned(),
        running: stats.running,
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(mime: Option<&str>, content: &str) -> ChatAttachment {
        ChatAttachment {
            mime_type: mime.map(str::to_owned),
            content: Some(content.to_owned()),
            ..ChatAttachment::default()
        }
    }

    #[track_caller]
    fn check(given: ChatAttachment, expected: &str) {
        let taken = parse_attachment(given).map(|taken| format!("{} {}", taken.mime, taken.data));
        assert_eq!(taken.unwrap_or_else(|error| error), expected);
    }

    #[test]
    fn images_are_accepted_in_common_encodings() {
        check(image(Some("image/png"), "aGk="), "image/png aGk=");
        check(image(Some("IMAGE/PNG"), "aGk"), "image/png aGk=");
        check(image(None, "data:image/webp;base64,aGk="), "image/webp aGk=");
        check(image(Some("image/png"), "data:image/webp;base64,aGk="), "image/png aGk=");
    }

    #[test]
    fn non_images_are_refused() {
        check(image(None, "aGk="), "its mimeType is missing");
        check(image(Some("text/html"), "aGk="), "only images can be taken, not `text/html`");
        check(image(Some("image/"), "aGk="), "only images can be taken, not `image/`");
        check(image(Some("image/a\nb"), "aGk="), "only images can be taken, not `image/a\\nb`");
        check(image(Some("image/png"), "a b"), "its content is not base64");
        check(image(Some("image/png"), ""), "it is empty");
        check(image(None, "data:image/png,aGk="), "its data URL is not base64");
        check(image(None, "data:image/png;base64"), "its data URL has no comma");
        let audio =
            ChatAttachment { kind: Some("audio".into()), ..image(Some("audio/wav"), "aGk=") };
        check(audio, "only images can be taken, not `audio`");
        let nothing = ChatAttachment { content: None, ..image(Some("image/png"), "") };
        check(nothing, "it has no content; put the bytes there, in base64");
    }

    #[test]
    fn attachments_are_limited() {
        let many = vec![image(Some("image/png"), "aGk="); ATTACHMENTS_MAX + 1];
        let error = parse_attachments(many).unwrap_err();
        assert_eq!(error.message, "33 attachments are more than 32; send fewer");
        let large = image(Some("image/png"), &"A".repeat(ATTACHMENT_BYTES_MAX + 1));
        let error = parse_attachments(vec![large]).unwrap_err();
        assert!(error.message.starts_with("attachments of 20971521 bytes are more than"));
        let error = parse_attachments(vec![image(Some("image/png"), "aGk="), image(None, "aGk=")]);
        assert_eq!(error.unwrap_err().message, "attachment 2: its mimeType is missing");
    }

    #[test]
    fn empty_prompt_is_refused() {
        let params =
            |message: &str| ChatSendParams { message: message.into(), ..Default::default() };
        let refused =
            |params| build_prompt(params, PromptAuthority::PromptOnly).unwrap_err().message;
        assert_eq!(refused(params(" \n")), "message or attachment required");
        assert_eq!(refused(params("a\0b")), "message must not contain null bytes");
        let image_only = ChatSendParams {
            attachments: vec![image(Some("image/png"), "aGk=")],
            timeout_ms: Some(u64::MAX),
            thinking: Some("high".into()),
            ..params("")
        };
        let taken = build_prompt(image_only, PromptAuthority::PromptOnly).unwrap();
        assert_eq!((taken.attachments.len(), taken.timeout), (1, Some(TIMEOUT_MAX)));
        assert_eq!(
            build_prompt(
                ChatSendParams { timeout_ms: Some(0), ..params("a") },
                PromptAuthority::PromptOnly
            )
            .unwrap()
            .timeout,
            None
        );
        let receipt =
            ChatSendParams { system_provenance_receipt: Some("From x".into()), ..params("hello") };
        assert_eq!(
            build_prompt(receipt, PromptAuthority::PromptOnly).unwrap().text,
            "From x\n\nhello"
        );
    }

    #[test]
    fn resent_prompt_reports_run_end() {
        let run = |end| RunRecord {
            id: RunId::new("r").unwrap(),
            session: zero_core::SessionId::new("s").unwrap(),
            node: String::new(),
            started_ms: 0,
            ended_ms: Some(9),
            end,
            usage: Default::default(),
            options: Default::default(),
            has_open_question: false,
        };
        let failed = RunOutcome::Failed { kind: "auth".into(), message: "no key".into() };
        let aborted = RunOutcome::Aborted { by: "rpc".into() };
        for (end, status, error, waited) in [
            (RunOutcome::Completed, ChatSendStatus::Ok, None, AgentWaitStatus::Ok),
            (RunOutcome::MaxTokens, ChatSendStatus::Ok, None, AgentWaitStatus::Ok),
            (aborted, ChatSendStatus::Timeout, None, AgentWaitStatus::Error),
            (failed, ChatSendStatus::Error, Some("no key".to_owned()), AgentWaitStatus::Error),
        ] {
            assert_eq!(end_status(&run(Some(end.clone()))), (status, error), "{end:?}");
            let result = wait_result(&run(Some(end.clone())), &end, "so far".into());
            assert_eq!(result.status, waited, "{end:?}");
            assert_eq!(result.terminal_reply.unwrap().disposition, ReplyDisposition::Visible);
        }
        assert_eq!(end_status(&run(None)), (ChatSendStatus::InFlight, None));
    }
}
