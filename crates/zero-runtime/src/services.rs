//! Programs that run beside calls and for all of them: servers that bring tools, commands that
//! list them.
//!
//! A service is confined as the commands of a session are: it may change the workspace and its own
//! temporary folder, reads no secret, and reaches only the hosts that are allowed. It has a
//! scrubbed environment, its own network and its own end: when its [`Service`] is dropped, no
//! process of it is left. Nobody is asked about it, since it stands in settings that a person wrote
//! or trusted; a rule that denies its command holds all the same.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use zero_core::{CommandLimitChange, ToolError};
use zero_policy::HostPattern;
use zero_sandbox::running::Ended;

/// A program to run beside calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRequest {
    /// What it is called in records and folders, such as `mcp-github`: letters, digits, `-`, `_`.
    pub name: String,
    /// The program and its arguments; no shell looks at them.
    pub words: Vec<String>,
    /// Where it starts; the workspace's first folder when absent.
    pub folder: Option<PathBuf>,
    /// Variables on top of the usual few. Their values may be secrets: they are not recorded.
    pub variables: Vec<(String, String)>,
    /// Hosts it may reach beside those that settings and rules allow to commands.
    pub network: Vec<HostPattern>,
    /// Folders it may change beside those that commands may.
    pub writable: Vec<PathBuf>,
    /// Limits that differ from those of commands.
    pub limits: CommandLimitChange,
}

/// A program that runs beside calls. Dropping it ends every process that came of it.
pub struct Service {
    /// Where its input goes; dropping it ends the input.
    pub stdin: Option<OwnedFd>,
    /// Where its output comes from.
    pub stdout: Option<OwnedFd>,
    /// Where its error output comes from.
    pub stderr: Option<OwnedFd>,
    /// The number of the process at the top of its tree.
    pub pid: i32,
}

impl Service {
    /// Asks its main process to end, by SIGTERM. It may take its time.
    pub fn terminate(&self) {}

    /// Ends every process of it at once.
    pub fn kill(&self) {}

    /// How it ended; waits for it.
    pub async fn ended(&self) -> Ended {
        std::future::pending().await
    }

    /// What is to be known of it for a person, such as hosts it was refused and what of its
    /// confinement is missing.
    pub fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Starts services for a host. Cheap to clone, and keeps no tool alive.
#[derive(Clone)]
pub struct Services {}

impl Services {
    /// Starts a program. Blocks for as long as its walls take to be put up.
    pub fn start(&self, _request: &ServiceRequest) -> Result<Service, ToolError> {
        Err(ToolError::failed(zero_core::Reason::Io, "not wired yet"))
    }
}
