//! A hook from settings.

use std::fmt;
use std::time::Duration;

use zero_core::sanitize::to_quoted_line;
use zero_exec::LaunchAccess;

use super::hook_files::HookFile;
use super::tool_pattern::ToolPattern;
use crate::redaction;

/// A command that runs before or after calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The tools it applies to.
    pub tools: Vec<ToolPattern>,
    /// The program and its arguments; no shell interprets them.
    pub words: Vec<String>,
    /// Its time limit.
    pub timeout: Duration,
    /// Its access to files and network.
    pub access: LaunchAccess,
    /// What happens to a call if the hook fails. Ignored after a call.
    pub on_failure: HookFailureAction,
    /// The workspace files that it uses, as they were when it was approved.
    pub files: Vec<HookFile>,
    /// Where it is configured, for messages.
    pub written_at: String,
}

impl Hook {
    /// Whether it applies to a tool, given by its canonical name.
    pub fn is_for(&self, tool: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(tool))
    }

    /// Its command line for display, without secrets.
    pub fn command(&self) -> String {
        redaction::redact_text(&self.words.join(" ")).into_owned()
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hook {} ({})", to_quoted_line(&self.command()), self.written_at)
    }
}

/// What happens to a call if its hook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookFailureAction {
    /// The call is denied.
    #[default]
    Deny,
    /// The user decides.
    Ask,
    /// The call continues without the hook.
    Ignore,
}
