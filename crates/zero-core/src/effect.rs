//! The effects of a call, declared before it runs.
//!
//! Tools declare effects; policy, sandbox and audit use them. A path effect has both the path as
//! written and the canonical path, because a deny rule must match either and an allow rule must
//! match both.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where a canonical path is, relative to the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathZone {
    /// Beneath one of the workspace roots.
    Workspace,
    /// In the folder with this session's own oversized results.
    Spill,
    /// Anywhere else.
    Outside,
}

/// A resolved path: [`TargetPath::canonical`] contains no `..`, link or `~`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetPath {
    written: String,
    canonical: PathBuf,
    whereabouts: PathZone,
}

impl TargetPath {
    /// Combines a path as written with its canonical path. Only the code that resolved it should
    /// call this.
    pub fn new(written: impl Into<String>, canonical: PathBuf, whereabouts: PathZone) -> Self {
        Self { written: written.into(), canonical, whereabouts }
    }

    /// The path as the caller wrote it.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The absolute path with links resolved.
    pub fn canonical(&self) -> &Path {
        &self.canonical
    }

    /// Where the path is, relative to the workspace.
    pub fn zone(&self) -> PathZone {
        self.whereabouts
    }
}

/// A command to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommandExecution {
    /// The command line.
    pub command: CommandLine,
    /// The folder it runs in; the workspace's first when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<TargetPath>,
    /// Variables set in addition to the usual ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<(String, String)>,
    /// Whether it asks to change the workspace even if it seems to need less.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub write_access: bool,
    /// Whether it asks for the network of commands even if it seems to need none, or only some
    /// hosts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub network_access: bool,
    /// Whether it asks to run outside the sandbox, which only a person can allow, for this once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub outside_sandbox: bool,
}

/// The command line of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum CommandLine {
    /// A text for a shell.
    Shell(String),
    /// A program and its arguments; no shell interprets them.
    Program(Vec<String>),
}

impl CommandExecution {
    /// A text for a shell, run in the workspace's first folder.
    pub fn from_shell(text: impl Into<String>) -> Self {
        let command = CommandLine::Shell(text.into());
        Self::new(command)
    }

    /// A command that runs in the workspace's first folder.
    pub fn new(command: CommandLine) -> Self {
        Self {
            command,
            folder: None,
            variables: Vec::new(),
            write_access: false,
            network_access: false,
            outside_sandbox: false,
        }
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

/// One effect of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "target", rename_all = "snake_case")]
pub enum Effect {
    /// Reads a file, the entries of a folder or everything beneath it.
    Read(TargetPath),
    /// Creates or changes a file.
    Write(TargetPath),
    /// Removes a file.
    Delete(TargetPath),
    /// Runs a command.
    Exec(CommandExecution),
    /// Connects to a host.
    Net(String),
    /// Calls a tool of an MCP server.
    Mcp {
        /// Alias of the server.
        server: String,
        /// The server's own name for the tool.
        tool: String,
        /// Whether its definition is still the approved one.
        #[serde(skip_serializing_if = "ToolDefinitionState::is_steady")]
        definition: ToolDefinitionState,
    },
    /// Asks the user a question.
    Ask,
    /// Changes state that zero itself stores, such as a task list.
    State(String),
    /// Stores or removes a note for later sessions.
    Note(NoteChange),
    /// Connects to a private host that the user's own settings name for this tool.
    Endpoint(String),
}

/// A change of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoteChange {
    /// Its owner: `project` or `user`.
    pub scope: String,
    /// The name of the note.
    pub name: String,
    /// Whether the note is removed.
    pub forgets: bool,
    /// Its file, if that is in the workspace: file rules apply to it, too.
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

    /// The object of the effect, as text.
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

    /// The path of this effect, if it has one.
    pub fn path(&self) -> Option<&TargetPath> {
        match self {
            Self::Read(path) | Self::Write(path) | Self::Delete(path) => Some(path),
            _ => None,
        }
    }

    /// The command of this effect, if it has one.
    pub fn execution(&self) -> Option<&CommandExecution> {
        match self {
            Self::Exec(execution) => Some(execution),
            _ => None,
        }
    }

    /// True if the effect is limited to what needs no approval: reads of the workspace or of the
    /// session's own results, questions, and zero's own state.
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

/// Whether the definition of a remote tool is still the approved one. Approval covers the tool's
/// description, so a server that changes it later needs approval again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolDefinitionState {
    /// Unchanged, or never approved.
    #[default]
    Steady,
    /// Its name, description or schemas changed since the approval.
    Changed,
}

impl ToolDefinitionState {
    /// Whether the definition is unchanged.
    pub fn is_steady(&self) -> bool {
        *self == Self::Steady
    }
}

/// All effects of one call.
pub type Effects = Vec<Effect>;
