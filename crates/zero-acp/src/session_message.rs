//! What comes to the task of a session: whatever happens, whoever says it, as letters in one box.

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{SessionUpdate, ToolCallUpdate};
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

/// Letters that wait.
const MESSAGES_MAX: usize = 1_024;

/// What comes to the task of a session.
pub(crate) enum SessionMessage {
    /// The client says something to the agent.
    Prompt(Box<PromptMessage>),
    /// It wants everything stopped.
    CancelAll,
    /// It wants one prompt stopped.
    CancelRun(String),
    /// A prompt came to the gateway, or did not.
    PromptFailed { run: String, how: Box<PromptSendFailure> },
    /// A run was stopped and has not said so in time.
    CancelOverdue(String),
    /// Something happened at the gateway.
    GatewayUpdate(Box<GatewayUpdate>),
    /// The tools here know what a call will do.
    CallDescribed { call: String, title: String, kind: ToolKind, locations: Vec<FileLocation> },
    /// A call was allowed and runs.
    CallStarted { call: String },
    /// A command printed something.
    OutputAvailable { call: String, printed: Arc<OutputBuffer> },
    /// The tools here ask whether a call may run.
    RequestApproval(Box<ApprovalMessage>),
    /// Something is asked on behalf of a tool here.
    Elicit(Box<client_questions::ElicitationMessage>),
    /// A question is put as a choice; it is asked once the call is told that stands for it.
    ShowChoice { question: String, message: String, shown: oneshot::Sender<ToolCallUpdate> },
    /// Such a question is over: `allow_once`, `reject_once` or `cancelled`.
    ChoiceEnded { question: String, answer: &'static str },
    /// Something to tell that nothing else brings.
    SendUpdates(Vec<SessionUpdate>),
    /// Words of zero's own for the person.
    Remark(String),
    /// The client makes a call itself.
    ClientCallStarted { call: String, tool: String, input: Value },
    /// A call is over that the ledger does not know of; whoever waits hears when that was told.
    ClientCallEnded { call: String, end: Arc<ToolOutcome>, told: oneshot::Sender<()> },
    /// It is over with this session.
    Close { done: oneshot::Sender<()>, runs: DisconnectPolicy },
}

impl SessionMessage {
    /// Whether it only tells what happened.
    pub(crate) fn is_informational(&self) -> bool {
        matches!(
            self,
            Self::GatewayUpdate(_)
                | Self::CallDescribed { .. }
                | Self::CallStarted { .. }
                | Self::OutputAvailable { .. }
        )
    }
}

/// A prompt, and who waits for its end.
pub(crate) struct PromptMessage {
    pub(crate) run: String,
    pub(crate) said: PromptContent,
    pub(crate) thinking: Option<String>,
    pub(crate) responder: Responder<Value>,
}

/// What became of a prompt that will never be a run.
pub(crate) enum PromptSendFailure {
    /// It was stopped before it was sent.
    Cancelled,
    /// It could not be sent.
    Failed(Error),
}

/// A question of the tools here, and who waits for the answer.
pub(crate) struct ApprovalMessage {
    pub(crate) request: ApprovalRequest,
    pub(crate) reply: oneshot::Sender<ApprovalAnswer>,
}

/// Where letters go.
#[derive(Clone)]
pub(crate) struct SessionSender {
    letters: mpsc::Sender<SessionMessage>,
}

impl SessionSender {
    pub(crate) fn new() -> (Self, mpsc::Receiver<SessionMessage>) {
        let (letters, received) = mpsc::channel(MESSAGES_MAX);
        (Self { letters }, received)
    }

    /// Puts a letter in; waits for room.
    pub(crate) async fn send(&self, letter: SessionMessage) {
        let _ = self.letters.send(letter).await;
    }

    /// Puts a letter in if there is room; gives it back otherwise.
    pub(crate) fn try_send(&self, letter: SessionMessage) -> Result<(), SessionMessage> {
        use tokio::sync::mpsc::error::TrySendError;
        self.letters.try_send(letter).map_err(|error| match error {
            TrySendError::Full(letter) | TrySendError::Closed(letter) => letter,
        })
    }
}
