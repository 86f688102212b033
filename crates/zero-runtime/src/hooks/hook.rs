//! A hook, as settings describe it.

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
    /// The tools it is for.
    pub tools: Vec<ToolPattern>,
    /// The program and its arguments; no shell looks at them.
    pub words: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
    /// What it may do at all.
    pub access: LaunchAccess,
    /// What becomes of a call when it fails. After a call there is nothing left to decide.
    pub on_failure: HookFailureAction,
    /// The files of the workspace that it names, as whoever lets it run has seen them.
    pub files: Vec<HookFile>,
    /// Where it stands, for a person.
    pub written_at: String,
}

impl Hook {
    /// Whether it is for a tool, by its canonical name.
    pub fn is_for(&self, tool: &str) -> bool {
        self.tools.iter().any(|pattern| pattern.matches(tool))
    }

    /// Its words in one line, for a person, without secrets.
    pub fn command(&self) -> String {
        redaction::redact_text(&self.words.join(" ")).into_owned()
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hook {} ({})", to_quoted_line(&self.command()), self.written_at)
    }
}

/// What becomes of a call when its hook fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookFailureAction {
    /// It is denied.
    #[default]
    Deny,
    /// A person decides.
    Ask,
    /// It goes on as if there were no such hook.
    Ignore,
}
