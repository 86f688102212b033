//! A conversation with an agent, in the terminal.
//!
//! Finished output is written into the terminal's own scrollback, once. Only a few rows below it, the
//! live area, are painted again: what is running, the text that the user types, the status. The cells
//! of the transcript are the truth, and everything on the screen is made from them.

mod bounded_text;
mod call_cell;
mod cell;
mod cell_view;
mod chat;
mod chat_command;
mod chat_error;
mod chat_host;
mod chat_loop;
mod chat_session;
mod chat_transcript;
mod completion_menu;
pub mod composer;
mod full_screen;
pub mod inline_screen;
mod keyboard;
mod screen_lease;
mod session_row;
mod status_line;
mod stream_writer;
mod styled_row;
mod terminal_focus;
mod terminal_modes;
mod transcript_view;

pub use self::bounded_text::BoundedText;
pub use self::call_cell::{CallCell, CallState, FinishedCall, SubagentReport};
pub use self::cell::{
    AnswerCell, Cell, CompactionCell, PlanCell, PromptCell, QuestionCell, RunEndCell, ThoughtCell,
};
pub use self::cell_view::{Fold, ViewOptions, render_cell};
pub use self::chat::{ChatConfig, ChatEnd, ChatSignals, run};
pub use self::chat_error::ChatError;
pub use self::chat_host::{ChatHost, ChatTools, ClipboardImage};
pub use self::chat_transcript::{ChatTranscript, SessionUsage};
pub use self::composer::EditMode;
pub use self::inline_screen::TerminalKind;
pub use self::session_row::describe_session;
pub use self::status_line::StatusFacts;
pub use self::styled_row::wrap_row;
pub use self::transcript_view::{TranscriptView, ViewRow, ViewWindow};
