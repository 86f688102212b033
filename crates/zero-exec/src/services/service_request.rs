//! A program that somebody wants to run beside calls.

use std::path::PathBuf;

use zero_core::CommandLimitChange;
use zero_policy::HostPattern;

use crate::launcher::LaunchAccess;

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
    /// What it may do at all.
    pub access: LaunchAccess,
}
