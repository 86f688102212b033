//! A chat: one session at a time, its screen, and the keys that the user presses.

use std::borrow::Cow;
use std::sync::Arc;

use zero_client::{GatewayLink, OpenRequest, SessionChange};
use zero_terminal::{AnswerSource, TerminalStream};

use crate::cell_view::ViewOptions;
use crate::chat_error::ChatError;
use crate::chat_host::ChatHost;
use crate::chat_loop::ChatLoop;
use crate::composer::EditMode;
use crate::inline_screen::TerminalKind;
use crate::status_line::StatusFacts;

/// What a chat is started with.
pub struct ChatConfig {
    /// The gateway that has the sessions.
    pub link: GatewayLink,
    /// The program around the chat.
    pub host: Arc<dyn ChatHost>,
    /// The session to open.
    pub open: OpenRequest,
    /// Where everything is written.
    pub stream: TerminalStream,
    /// Where keys are read.
    pub keys: AnswerSource,
    /// How the terminal behaves.
    pub terminal: TerminalKind,
    /// What is shown, and how.
    pub view: ViewOptions,
    /// Turns the message of an error, which is meant for a model, into one for the user.
    pub error_text: fn(&str) -> Cow<'_, str>,
    /// Whether the chat fills the window, on the alternate screen.
    pub fullscreen: bool,
    /// What the status line says of this machine.
    pub facts: StatusFacts,
    /// Keys of the input.
    pub edit_mode: EditMode,
    /// What to change about the session once it is open.
    pub change: SessionChange,
    /// A prompt to send at once.
    pub prompt: Option<String>,
    /// The folder, for people.
    pub folder: String,
    /// What is written to the terminal to get the user's attention.
    pub signals: ChatSignals,
}

/// Sequences that get the user's attention, where the settings want them.
#[derive(Clone, Debug, Default)]
pub struct ChatSignals {
    /// When a question appears.
    pub question: Option<String>,
    /// When a run ends while the user looks elsewhere.
    pub run_end: Option<String>,
    /// Runs that took less time need no attention, in seconds.
    pub min_seconds: u64,
}

/// How a chat ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatEnd {
    /// Key of the session that was open last.
    pub session_key: String,
    /// Whether anything was sent to it.
    pub was_used: bool,
}

/// Runs a chat until the user leaves or the terminal is gone.
pub async fn run(config: ChatConfig) -> Result<ChatEnd, ChatError> {
    ChatLoop::start(config).await?.run().await
}
