//! What the agent needs of the program it is part of: something to work with in a folder.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zero_core::SessionId;
use zero_policy::PermissionMode;
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{CallApprover, ToolBackend, ToolBackendError};
use zero_runtime::{Editor, Elicitor};

/// Makes the tools of a session, beside its files.
pub trait ToolHostFactory: Send + Sync {
    /// Whether these folders can be worked in, before a session is made for them.
    fn check_folders<'a>(
        &'a self,
        cwd: &'a Path,
        additional: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<(), ToolBackendError>>;

    /// Makes ready what [`open`](Self::open) needs in these folders, while other things are done for a
    /// session that will work there. It stays ready as long as what is given is kept; whatever is wrong
    /// is told when they are opened.
    fn prepare<'a>(
        &'a self,
        cwd: &'a Path,
        additional: &'a [PathBuf],
    ) -> BoxFuture<'a, Box<dyn Any + Send>>;

    /// Where a folder leads, as tools name it: links may be on the way to it. `None` when it cannot
    /// be worked in.
    fn resolve_folder<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, Option<PathBuf>>;

    /// Tools for a session in a folder, by this machine's settings. Nothing slow happens here that
    /// can wait for a first call.
    fn open(
        &self,
        order: ToolHostRequest,
    ) -> BoxFuture<'_, Result<SessionToolHost, ToolHostOpenError>>;
}

/// Why there is nothing to work with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolHostOpenError {
    /// The folder cannot be worked in.
    #[error(transparent)]
    Backend(#[from] ToolBackendError),
    /// The settings that hold there cannot be used; this says where they stand and what to do.
    #[error("{0}")]
    Settings(String),
}

/// Servers that bring tools to a bench, and take a while to start.
pub trait ServerStartup: Send + Sync {
    /// Waits for those whose tools nobody knows yet, but no longer than this; gives those that are
    /// not there then.
    fn wait_for_servers(&self, most: Duration) -> BoxFuture<'_, Vec<UnavailableServer>>;
}

/// A server that has brought nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnavailableServer {
    /// What it is called.
    pub name: String,
    /// Why it did not start; none while it is still starting.
    pub why: Option<String>,
}

/// What is wanted.
pub struct ToolHostRequest {
    /// Id of the session that the tools are for.
    pub session: SessionId,
    /// The folder to work in.
    pub cwd: PathBuf,
    /// Further folders of the project.
    pub additional: Vec<PathBuf>,
    /// How much may be done without asking; that of the settings when absent.
    pub mode: Option<PermissionMode>,
    /// How the person is asked whether a call may run.
    pub approver: Arc<dyn CallApprover>,
    /// How the person is asked something on behalf of a tool.
    pub elicitor: Arc<dyn Elicitor>,
    /// The editor's buffers, where it shares them.
    pub editor: Option<Arc<dyn Editor>>,
    /// The MCP servers that the editor names for this session.
    pub servers: Vec<SessionMcpServer>,
}

/// What there is.
pub struct SessionToolHost {
    /// The tools.
    pub hands: Arc<dyn ToolBackend>,
    /// How much the settings here let be done without asking.
    pub own_mode: PermissionMode,
    /// The servers that bring further tools.
    pub arrivals: Arc<dyn ServerStartup>,
}

/// An MCP server that an editor names. It has no `Debug`: values may be secrets.
#[derive(Clone)]
pub struct SessionMcpServer {
    /// What it is called.
    pub name: String,
    /// How it is reached.
    pub how: SessionServerTransport,
}

/// How an MCP server is reached.
#[derive(Clone)]
pub enum SessionServerTransport {
    /// It is started.
    Command {
        /// The program, absolute.
        command: PathBuf,
        /// Its arguments.
        args: Vec<String>,
        /// What its environment has besides.
        env: BTreeMap<String, String>,
    },
    /// It has an address.
    Http {
        /// The address.
        url: String,
        /// What requests carry.
        headers: BTreeMap<String, String>,
    },
}
