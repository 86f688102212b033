//! The session that a chat shows, with its tools on this machine.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use zero_client::wire::{SessionChoicesResult, SessionInfo};
use zero_client::{
    GatewayLink, GatewayLinkError, OpenRequest, OverlapPolicy, SendRequest, SessionHandle,
    SessionUpdates,
};
use zero_core::event::{Event, PromptAttachment};
use zero_runtime::prompt_mentions::read_mentions;
use zero_runtime::tool_backend::ToolBackend;
use zero_terminal::PromptTurn;

use crate::chat::ChatError;
use crate::chat_host::ChatHost;

/// Name of the chat among the hosts of tools.
const HOST_NAME: &str = "zero chat";
/// Entries of an earlier conversation that are shown.
const HISTORY_MAX: u64 = 2_000;

/// An open session.
pub(crate) struct ChatSession {
    pub(crate) handle: SessionHandle,
    pub(crate) updates: SessionUpdates,
    pub(crate) backend: Arc<dyn ToolBackend>,
    /// The mode of the settings or the command line, if the session has none of its own.
    pub(crate) own_mode: String,
    pub(crate) choices: SessionChoicesResult,
    /// What was said before.
    pub(crate) history: Vec<Event>,
}

/// A prompt to send.
pub(crate) struct PromptRequest {
    pub(crate) text: String,
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
        handle.host_tools(HOST_NAME, Arc::clone(&tools.backend), tools.own_mode).await?;
        let choices = handle.choices().await?;
        let own_mode = tools.own_mode.to_string();
        Ok(Self { handle, updates, backend: tools.backend, own_mode, choices, history })
    }

    /// The permission mode that applies.
    pub(crate) fn mode(&self) -> String {
        self.handle.info().mode.unwrap_or_else(|| self.own_mode.clone())
    }

    /// Names of the session's slash commands.
    pub(crate) fn command_names(&self) -> Vec<String> {
        self.choices.commands.iter().map(|command| command.name.clone()).collect()
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
    let PromptRequest { mut text, overlap } = request;
    let mut attachments = Vec::new();
    let mut notes = Vec::new();
    if !text.starts_with('/') {
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
