//! Messages to the task of a session.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{SessionUpdate, TerminalId, ToolCallUpdate};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use zero_client::GatewayUpdate;
use zero_core::event::ApprovalRequest;
use zero_core::{FileLocation, ToolKind, ToolOutcome};
use zero_runtime::ApprovalAnswer;

use crate::client_questions;
use crate::config::DisconnectPolicy;
use crate::output_buffer::OutputBuffer;
use crate::prompt_content::PromptContent;

/// Messages that may wait.
const MESSAGES_MAX: usize = 1_024;

/// A message to the task of a session.
pub(crate) enum SessionMessage {
    /// The client sends a prompt.
    Prompt(Box<PromptMessage>),
    /// The client cancels everything.
    CancelAll,
    /// The client cancels one prompt.
    CancelRun(String),
    /// A prompt could not be sent to the gateway.
    PromptFailed { run: String, failure: Box<PromptSendFailure> },
    /// A run was cancelled and has not ended in time.
    CancelOverdue(String),
    /// An update from the gateway.
    GatewayUpdate(Box<GatewayUpdate>),
    /// The tools here have described a call.
    CallDescribed { call: String, title: String, kind: ToolKind, locations: Vec<FileLocation> },
    /// A call was allowed and runs.
    CallStarted { call: String },
    /// A call runs its command in this terminal of the client.
    TerminalOpened { call: String, terminal: TerminalId },
    /// A command printed output.
    OutputAvailable { call: String, printed: Arc<OutputBuffer> },
    /// The tools here ask whether a call may run.
    RequestApproval(Box<ApprovalMessage>),
    /// A tool here asks the user a question.
    Elicit(Box<client_questions::ElicitationMessage>),
    /// A question is shown as a choice; `shown` is signalled once its call was sent.
    ShowChoice { question: String, message: String, shown: oneshot::Sender<ToolCallUpdate> },
    /// A choice has ended: `allow_once`, `reject_once` or `cancelled`.
    ChoiceEnded { question: String, answer: &'static str },
    /// Further updates to send.
    SendUpdates(Vec<SessionUpdate>),
    /// A remark of zero for the user.
    Remark(String),
    /// The client makes a call itself.
    ClientCallStarted { call: String, tool: String, input: Value },
    /// A call that is not in the ledger has ended; `done` is signalled after the update was sent.
    UnrecordedCallEnded { call: String, end: Arc<ToolOutcome>, done: oneshot::Sender<()> },
    /// Close the session.
    Close { done: oneshot::Sender<()>, runs: DisconnectPolicy },
}

impl SessionMessage {
    /// Whether the message only reports something and asks for no action.
    pub(crate) fn is_informational(&self) -> bool {
        matches!(
            self,
            Self::GatewayUpdate(_)
                | Self::CallDescribed { .. }
                | Self::CallStarted { .. }
                | Self::TerminalOpened { .. }
                | Self::OutputAvailable { .. }
        )
    }
}

/// A prompt, and the responder for its answer.
pub(crate) struct PromptMessage {
    pub(crate) run: String,
    pub(crate) content: PromptContent,
    pub(crate) thinking: Option<String>,
    pub(crate) responder: Responder<Value>,
}

/// Why a prompt did not become a run.
pub(crate) enum PromptSendFailure {
    /// It was cancelled before it was sent.
    Cancelled,
    /// It could not be sent.
    Failed(Error),
}

/// A permission question of the tools here, and the channel for its answer.
pub(crate) struct ApprovalMessage {
    pub(crate) request: ApprovalRequest,
    pub(crate) reply: oneshot::Sender<ApprovalAnswer>,
}

/// Sends messages to the task of a session.
#[derive(Clone)]
pub(crate) struct SessionSender {
    messages: mpsc::Sender<SessionMessage>,
}

impl SessionSender {
    pub(crate) fn new() -> (Self, mpsc::Receiver<SessionMessage>) {
        let (messages, received) = mpsc::channel(MESSAGES_MAX);
        (Self { messages }, received)
    }

    /// Whether the session's task receives messages.
    pub(crate) fn is_open(&self) -> bool {
        !self.messages.is_closed()
    }

    /// Sends a message; waits while the queue is full.
    pub(crate) async fn send(&self, message: SessionMessage) {
        let _ = self.messages.send(message).await;
    }

    /// Sends a message if the queue has room; returns it otherwise.
    pub(crate) fn try_send(&self, message: SessionMessage) -> Result<(), SessionMessage> {
        use tokio::sync::mpsc::error::TrySendError;
        self.messages.try_send(message).map_err(|error| match error {
            TrySendError::Full(message) | TrySendError::Closed(message) => message,
        })
    }
}
