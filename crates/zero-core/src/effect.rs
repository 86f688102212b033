//! What a call will touch, said before it runs.
//!
//! Effects are the currency between tools, policy, sandbox and audit. A path effect carries both
//! the path as it was written and the canonical one it denotes, because a rule that denies must
//! match on either and a rule that allows must match on both.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where a canonical path lies, seen from the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathZone {
    /// Beneath one of the workspace roots.
    Workspace,
    /// In the folder that holds this session's own oversized results.
    Spill,
    /// Anywhere else.
    Outside,
}

/// A path whose meaning is settled: no `..`, link or `~` is left in [`TargetPath::canonical`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetPath {
    written: String,
    canonical: PathBuf,
    whereabouts: PathZone,
}

impl TargetPath {
    /// Binds a path as written to what it denotes. Only whoever resolved it should call this.
    pub fn new(written: impl Into<String>, canonical: PathBuf, whereabouts: PathZone) -> Self {
        Self { written: written.into(), canonical, whereabouts }
    }

    /// The path as the caller wrote it.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The absolute path it denotes, links resolved.
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// Where it lies, seen from the workspace.
    pub fn zone(&self) -> PathZone {
        self.whereabouts
    }
}

/// A command as it is to be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandExecution {
    /// What runs.
    pub command: CommandLine,
    /// The folder it runs in; the workspace's first when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<TargetPath>,
    /// Variables set for it on top of the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
}

/// What a command is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CommandLine {
    /// A text for a shell.
    Shell(String),
    /// A program and its arguments; no shell looks at them.
    Program(Vec<String>),
}

impl CommandExecution {
    /// A text for a shell, in the workspace's first folder.
    pub fn from_shell(text: impl Into<String>) -> Self {
        let command = CommandLine::Shell(text.into());
        Self { command, folder: None, variables: Vec::new() }
    }
}

impl fmt::Display for CommandExecution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.command {
            CommandLine::Shell(text) => f.write_str(text),
            CommandLine::Program(words) => f.write_str(&words.join(" ")),
        }
    }
}

/// One thing a call does to the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "target", rename_all = "snake_case")]
pub enum Effect {
    /// Reads a file, a folder's entries or everything beneath a folder.
    Read(TargetPath),
    /// Creates or changes a file.
    Write(TargetPath),
    /// Removes a file.
    Delete(TargetPath),
    /// Runs a command.
    Exec(CommandExecution),
    /// Talks to a host.
    Net(String),
    /// Uses a tool of an MCP server.
    Mcp {
        /// Alias of the server.
        server: String,
        /// The server's own name for the tool.
        tool: String,
        /// Whether it is still what was approved.
        #[serde(skip_serializing_if = "ToolDefinitionState::is_steady")]
        definition: ToolDefinitionState,
    },
    /// Puts a question to the person.
    Ask,
    /// Changes state that zero keeps itself, such as a task list.
    State(String),
    /// Keeps or forgets a note that later sessions are told.
    Note(NoteChange),
    /// Talks to a host inside that the person's own settings name for this tool.
    Endpoint(String),
}

/// What becomes of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoteChange {
    /// Whose it is: `project` or `user`.
    pub scope: String,
    /// Its name.
    pub name: String,
    /// Whether it goes.
    pub forgets: bool,
    /// Its file, where that lies in the workspace: rules for files hold there, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<TargetPath>,
}

impl Effect {
    /// Stable word for audit rows and rules.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Read(_) => "read",
            Self::Write(_) => "write",
            Self::Delete(_) => "delete",
            Self::Exec(_) => "exec",
            Self::Net(_) => "net",
            Self::Mcp { .. } => "mcp",
            Self::Ask => "ask",
            Self::State(_) => "state",
            Self::Note(_) => "note",
            Self::Endpoint(_) => "endpoint",
        }
    }

    /// What it is done to, as text.
    pub fn target(&self) -> String {
        match self {
            Self::Read(path) | Self::Write(path) | Self::Delete(path) => {
                path.canonical().display().to_string()
            }
            Self::Exec(execution) => execution.to_string(),
            Self::Net(text) | Self::State(text) | Self::Endpoint(text) => text.clone(),
            Self::Note(NoteChange { scope, name, .. }) => format!("{scope}/{name}"),
            Self::Mcp { server, tool, .. } => format!("{server}/{tool}"),
            Self::Ask => String::new(),
        }
    }

    /// The path this effect is about, if it is about one.
    pub fn path(&self) -> Option<&TargetPath> {
        match self {
            Self::Read(path) | Self::Write(path) | Self::Delete(path) => Some(path),
            _ => None,
        }
    }

    /// The command this effect is about, if it is about one.
    pub fn execution(&self) -> Option<&CommandExecution> {
        match self {
            Self::Exec(execution) => Some(execution),
            _ => None,
        }
    }

    /// True when it stays in what the workspace's owner handed over: reads of the workspace or of
    /// the session's own results, questions, and zero's own state.
    pub fn is_contained(&self) -> bool {
        match self {
            Self::Read(path) => path.zone() != PathZone::Outside,
            Self::Write(path) | Self::Delete(path) => path.zone() == PathZone::Workspace,
            Self::Ask | Self::State(_) => true,
            Self::Exec(_) | Self::Net(_) | Self::Mcp { .. } | Self::Note(_) | Self::Endpoint(_) => {
                false
            }
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path) => write!(f, "read {}", path.canonical().display()),
            Self::Write(path) => write!(f, "write {}", path.canonical().display()),
            Self::Delete(path) => write!(f, "delete {}", path.canonical().display()),
            Self::Exec(command) => write!(f, "run `{command}`"),
            Self::Net(host) | Self::Endpoint(host) => write!(f, "connect to {host}"),
            Self::Note(NoteChange { scope, name, forgets: true, .. }) => {
                write!(f, "forget the note `{name}` ({scope})")
            }
            Self::Note(NoteChange { scope, name, .. }) => {
                write!(f, "keep the note `{name}` ({scope})")
            }
            Self::Mcp { server, tool, .. } => write!(f, "use `{tool}` of MCP server `{server}`"),
            Self::Ask => f.write_str("ask you"),
            Self::State(what) => write!(f, "change {what}"),
        }
    }
}

/// Whether a remote tool is still what was approved. Whoever approves a tool approves what it says
/// about itself: a server that rewrites that later is asked about again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolDefinitionState {
    /// It is, or it was never approved.
    #[default]
    Steady,
    /// Its name, description or schemas changed since.
    Changed,
}

impl ToolDefinitionState {
    /// Whether nothing is to be said of it.
    pub fn is_steady(&self) -> bool {
        *self == Self::Steady
    }
}

/// All effects of one call.
pub type Effects = Vec<Effect>;
