//! What the chat needs from the program that it is part of.

use std::sync::Arc;

use serde_json::{Map, Value};
use zero_client::GatewayLocality;
use zero_client::wire::SessionInfo;
use zero_core::event::{ApprovalRequest, UserQuestion};
use zero_policy::PermissionMode;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::ToolBackend;
use zero_runtime::{ApprovalAnswer, WithdrawalNote};
use zero_terminal::{PromptTurn, TerminalTheme};

/// The program around a chat: it opens tools, asks questions and keeps what was typed.
pub trait ChatHost: Send + Sync {
    /// Opens the tools of a session on this machine. Their questions use `turn`.
    fn open_tools<'a>(
        &'a self,
        session: &'a SessionInfo,
        locality: GatewayLocality,
        turn: &'a PromptTurn,
    ) -> BoxFuture<'a, Result<ChatTools, String>>;

    /// Asks the user a question of the gateway. Returns `accept`, `decline` or `cancel`, and the
    /// values.
    fn ask_question<'a>(
        &'a self,
        question: UserQuestion,
        withdrawal: WithdrawalNote,
        turn: &'a PromptTurn,
    ) -> BoxFuture<'a, (&'static str, Map<String, Value>)>;

    /// Asks the user about an approval request of the gateway.
    fn ask_approval<'a>(
        &'a self,
        request: ApprovalRequest,
        withdrawal: WithdrawalNote,
        turn: &'a PromptTurn,
    ) -> BoxFuture<'a, ApprovalAnswer>;

    /// Runs a command of zero that asks, such as `undo`, on the terminal. The chat has left the
    /// terminal meanwhile. Returns what went wrong, if anything.
    fn run_dialog(&self, args: Vec<String>) -> BoxFuture<'_, Result<(), String>>;

    /// Runs a command of zero that does not ask, such as `usage`. Returns its output, as rows that are
    /// escaped and styled.
    fn run_command(&self, args: Vec<String>) -> BoxFuture<'_, Result<String, String>>;

    /// Where a model could come from: keys and servers that were found, for the user.
    fn find_models(&self) -> BoxFuture<'_, Vec<String>>;

    /// What commands can do at most on this machine, in a few words.
    fn sandbox_state(&self) -> BoxFuture<'_, String>;

    /// What the user's own program makes of the status, as one line; `None` if there is no program.
    fn run_status_program(&self, status: Value) -> BoxFuture<'_, Option<Result<String, String>>>;

    /// Stores the colors that the user chose. Returns what went wrong, if anything.
    fn save_theme(&self, theme: TerminalTheme) -> Result<(), String>;

    /// The image on the user's clipboard, if one is there; else why that cannot be known.
    fn read_clipboard_image(&self) -> BoxFuture<'_, Result<Option<ClipboardImage>, String>>;

    /// Whether a path names an image that exists.
    fn is_image(&self, path: &str) -> bool;

    /// Lets the user edit a text in their editor; `None` if it was left unchanged or failed.
    fn edit_text<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<String, String>>;

    /// Whether a slash command calls a tool directly, as `/read` does.
    fn is_direct_command(&self, word: &str) -> bool;

    /// A name for a new session, which no other one has.
    fn new_session_name(&self) -> String;

    /// Files of the folder, relative to it, for completion; bounded.
    fn list_files(&self) -> BoxFuture<'_, Vec<String>>;

    /// Branch of the folder's repository, for the status line.
    fn current_branch(&self) -> BoxFuture<'_, Option<String>>;

    /// Prompts of earlier chats, oldest first.
    fn load_history(&self) -> Vec<String>;

    /// Adds a prompt to the history.
    fn add_history(&self, prompt: &str);

    /// The text that was being typed when a chat of this folder ended unexpectedly.
    fn load_draft(&self) -> Option<String>;

    /// Keeps the text that is being typed; an empty one removes it.
    fn save_draft(&self, text: &str);

    /// Puts a text on the clipboard, as far as the terminal allows it.
    fn copy_text(&self, text: &str) -> Result<(), String>;
}

/// An image that was on the clipboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClipboardImage {
    /// Its media type, such as `image/png`.
    pub mime: String,
    /// Its bytes in base64.
    pub data: String,
}

/// The tools of a session on this machine.
pub struct ChatTools {
    /// Runs the calls.
    pub backend: Arc<dyn ToolBackend>,
    /// The permission mode of the settings or the command line.
    pub own_mode: PermissionMode,
}
