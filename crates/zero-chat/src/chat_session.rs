//! The session that a chat shows, with its tools on this machine.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zero_client::wire::{SessionChoicesResult, SessionInfo};
use zero_client::{
    GatewayLink, GatewayLinkError, LocalMode, LocalModeBackend, OpenRequest, OverlapPolicy,
    SendRequest, SessionHandle, SessionUpdates,
};
use zero_core::RunId;
use zero_core::event::{ApprovalRequest, Event, EventKind, PromptAttachment, UserQuestion};
use zero_policy::PermissionMode;
use zero_runtime::prompt_mentions::read_mentions;
use zero_runtime::tool_backend::ToolBackend;
use zero_terminal::PromptTurn;

use crate::chat_error::ChatError;
use crate::chat_host::ChatHost;

/// The model of sessions that have none.
pub(crate) const DIRECT: &str = "direct";
/// Entries of an earlier conversation that are shown.
const HISTORY_MAX: u64 = 2_000;

/// An open session.
pub(crate) struct ChatSession {
    pub(crate) handle: SessionHandle,
    pub(crate) updates: SessionUpdates,
    pub(crate) backend: Arc<dyn ToolBackend>,
    /// The permission mode of the tools here.
    pub(crate) mode: Arc<LocalMode>,
    pub(crate) choices: SessionChoicesResult,
    /// What was said before.
    pub(crate) history: Vec<Event>,
}

/// What a session that is opened waits for.
#[derive(Default)]
pub(crate) struct UnfinishedWork {
    /// The run that answers.
    pub(crate) run: Option<RunId>,
    pub(crate) questions: Vec<UserQuestion>,
    pub(crate) approvals: Vec<ApprovalRequest>,
}

/// A prompt to send.
pub(crate) struct PromptRequest {
    pub(crate) text: String,
    /// Images that were pasted into it.
    pub(crate) images: Vec<PromptAttachment>,
    pub(crate) overlap: OverlapPolicy,
}

impl ChatSession {
    /// Opens a session and hosts its tools here.
    pub(crate) async fn open(
        link: &GatewayLink,
        host: &dyn ChatHost,
        request: OpenRequest,
        turn: &PromptTurn,
    ) -> Result<Self, ChatError> {
        let (handle, updates) = link.open(request).await?;
        let info = handle.info();
        let history = read_history(&handle, &info).await?;
        let tools =
            host.open_tools(&info, handle.locality(), turn).await.map_err(ChatError::Tools)?;
        let mode = Arc::new(LocalMode::new(handle.locality(), tools.own_mode, &info));
        let backend: Arc<dyn ToolBackend> =
            Arc::new(LocalModeBackend::new(tools.backend, Arc::clone(&mode)));
        // Which of several chats runs the tools is known by the process.
        let name = format!("zero chat {}", std::process::id());
        // Requests of the gateway are limited by the local mode, and not again by the settings.
        handle.host_tools(&name, Arc::clone(&backend), PermissionMode::Auto).await?;
        let choices = handle.choices().await?;
        Ok(Self { handle, updates, backend, mode, choices, history })
    }

    /// The runs that have not ended, and the unanswered questions, of the session's earlier entries.
    pub(crate) fn unfinished_work(&self) -> UnfinishedWork {
        let mut matters = UnfinishedWork::default();
        for event in &self.history {
            match &event.kind {
                EventKind::RunStarted { parent: None, .. } => matters.run.clone_from(&event.run),
                EventKind::RunEnded { .. } if matters.run == event.run => {
                    matters = UnfinishedWork::default();
                }
                EventKind::QuestionAsked(question) => matters.questions.push(question.clone()),
                EventKind::QuestionAnswered { id, .. } => {
                    matters.questions.retain(|question| question.id != *id);
                }
                EventKind::ApprovalRequested(request) => matters.approvals.push(request.clone()),
                EventKind::ApprovalResolved { id, .. } => {
                    matters.approvals.retain(|request| request.id != *id);
                }
                _ => {}
            }
        }
        let active = self.handle.info().run_ids;
        match matters.run.as_ref().is_some_and(|run| active.iter().any(|id| id == run.as_str())) {
            true => matters,
            false => UnfinishedWork::default(),
        }
    }

    /// Whether the session knows a slash command. Without a model, it explains what it does not know.
    pub(crate) fn has_command(&self, word: &str) -> bool {
        let known = self.choices.commands.iter();
        self.handle.info().model == DIRECT || { known }
            .any(|command| command.name.eq_ignore_ascii_case(word))
    }
}

/// The latest entries of a session's ledger.
async fn read_history(
    handle: &SessionHandle,
    info: &SessionInfo,
) -> Result<Vec<Event>, GatewayLinkError> {
    let mut after = info.last_seq.saturating_sub(HISTORY_MAX);
    let mut events: Vec<Event> = Vec::new();
    // Each page advances by at least one entry.
    while after < info.last_seq {
        let page = handle.read_events(after).await?;
        let Some(last) = page.events.last().map(|event| event.seq).filter(|last| *last > after)
        else {
            break;
        };
        after = last;
        events.extend(page.events.into_iter().filter(|event| event.seq <= info.last_seq));
        if !page.has_more {
            break;
        }
    }
    Ok(events)
}

/// Attaches what a prompt mentions and sends it. Returns notes for the user.
pub(crate) async fn send_prompt(
    handle: SessionHandle,
    backend: Arc<dyn ToolBackend>,
    request: PromptRequest,
    cancel: CancellationToken,
) -> Result<Vec<String>, GatewayLinkError> {
    let PromptRequest { mut text, images: mut attachments, overlap } = request;
    let mut notes = Vec::new();
    if !text.starts_with('/') {
        // Their tools are offered to this prompt already.
        if let Some(missing) = cancel.run_until_cancelled(backend.wait_for_servers()).await {
            notes.extend(missing.iter().map(ToString::to_string));
        }
        handle.refresh_tool_offer().await?;
        let (contents, found) = read_mentions(&*backend, &text, &cancel).await;
        for mention in found {
            notes.extend(
                mention.problem.map(|why| format!("`@{}` was not attached: {why}", mention.path)),
            );
        }
        contents.append_to(&mut text);
        attachments.extend(
            contents.images.into_iter().map(|(mime, data, path)| PromptAttachment {
                mime,
                name: Some(path),
                data,
            }),
        );
    }
    let run = format!("run_{:032x}", fastrand::u128(..));
    handle.send(SendRequest { run, text, attachments, thinking: None, overlap }).await?;
    Ok(notes)
}
