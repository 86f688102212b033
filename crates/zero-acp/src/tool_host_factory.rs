//! The interface that the embedding program implements: creates the tool host of a session.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use zero_core::{CallId, SessionId, ToolError, ToolName, ToolResult};
use zero_policy::PermissionMode;
use zero_runtime::session_results::ResultLifetime;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{CallApprover, ToolBackend, ToolBackendError};
use zero_runtime::{Editor, Elicitor};

/// Creates the tool hosts of sessions, next to their files.
pub trait ToolHostFactory: Send + Sync {
    /// Checks whether a session can work in these folders, before it is created.
    fn check_folders<'a>(
        &'a self,
        cwd: &'a Path,
        additional: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<(), ToolBackendError>>;

    /// Prepares what [`open`](Self::open) needs in these folders, concurrently with other setup.
    /// The preparation lasts as long as the returned value is kept; errors are reported by `open`.
    fn prepare<'a>(
        &'a self,
        cwd: &'a Path,
        additional: &'a [PathBuf],
    ) -> BoxFuture<'a, Box<dyn Any + Send>>;

    /// Resolves the symlinks of a folder, to the path that tools use. `None` if a session cannot
    /// work in it.
    fn resolve_folder<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, Option<PathBuf>>;

    /// Opens the tools of a session in a folder, under this machine's settings. Slow work that can
    /// wait for the first call is not done here.
    fn open(
        &self,
        order: ToolHostRequest,
    ) -> BoxFuture<'_, Result<SessionToolHost, ToolHostOpenError>>;
}

/// Why a tool host cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolHostOpenError {
    /// The folder cannot be used.
    #[error(transparent)]
    Backend(#[from] ToolBackendError),
    /// The settings for the folder are invalid; the message names the file and what to do.
    #[error("{0}")]
    Settings(String),
}

/// Parameters for opening a tool host.
pub struct ToolHostRequest {
    /// Id of the session that the tools are for.
    pub session: SessionId,
    /// The working folder.
    pub cwd: PathBuf,
    /// Additional folders of the project.
    pub additional: Vec<PathBuf>,
    /// The permission mode; the one from settings when absent.
    pub mode: Option<PermissionMode>,
    /// Asks the user whether a call may run.
    pub approver: Arc<dyn CallApprover>,
    /// Asks the user a question on behalf of a tool.
    pub elicitor: Arc<dyn Elicitor>,
    /// The editor's buffers, if it shares them.
    pub editor: Option<Arc<dyn Editor>>,
    /// The MCP servers that the editor names for this session.
    pub servers: Vec<SessionMcpServer>,
    /// The tools that the editor provides in this session.
    pub tools: Vec<ClientTool>,
    /// How long the session's oversized results exist.
    pub result_lifetime: ResultLifetime,
}

/// A tool that the client provides.
pub struct ClientTool {
    /// How the client defines it.
    pub definition: ClientToolDefinition,
    /// Has the client run its calls.
    pub caller: Arc<dyn ClientToolCaller>,
}

/// The definition of a client's tool, checked and bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientToolDefinition {
    /// Its name among the tools of the session: `acp__NAME`.
    pub registered: ToolName,
    /// The client's name for it.
    pub name: String,
    /// Its name for people; one line.
    pub display_name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its input, an object.
    pub input_schema: Value,
    /// What its calls do.
    pub kind: ClientToolKind,
}

/// What the calls of a client's tool do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientToolKind {
    /// Whatever the client does with them.
    Other,
    /// They run the command in the field `command`, in a terminal of the client.
    Terminal,
}

/// Has the client run calls of its tools.
pub trait ClientToolCaller: Send + Sync {
    /// Has a call run, and waits for its result for `most` at most. Dropping the future tells the
    /// client that the result is no longer needed.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        call: &'a CallId,
        input: Value,
        most: Duration,
    ) -> BoxFuture<'a, Result<ToolResult, ToolError>>;
}

/// An open tool host.
pub struct SessionToolHost {
    /// Runs the tool calls.
    pub backend: Arc<dyn ToolBackend>,
    /// The permission mode from settings.
    pub own_mode: PermissionMode,
}

/// An MCP server that an editor names. It has no `Debug`: values may be secrets.
#[derive(Clone)]
pub struct SessionMcpServer {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: SessionServerTransport,
}

/// How an MCP server is reached.
#[derive(Clone)]
pub enum SessionServerTransport {
    /// A local process.
    Command {
        /// The program; an absolute path.
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// Additional environment variables.
        env: BTreeMap<String, String>,
    },
    /// An HTTP server.
    Http {
        /// Its URL.
        url: String,
        /// Headers of each request.
        headers: BTreeMap<String, String>,
    },
}
