//! A request to run a service.

use std::path::PathBuf;

use zero_core::CommandLimitChange;
use zero_policy::HostPattern;

use crate::launcher::LaunchAccess;

/// A request to run a program beside calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRequest {
    /// Its name in records and folders, such as `mcp-github`: letters, digits, `-`, `_`.
    pub name: String,
    /// The program and its arguments; no shell interprets them.
    pub words: Vec<String>,
    /// The folder in which it starts; the workspace's first folder when absent.
    pub folder: Option<PathBuf>,
    /// Variables in addition to the usual ones. Their values may be secrets and are not recorded.
    pub variables: Vec<(String, String)>,
    /// Allowed hosts, in addition to those that settings and rules allow to commands.
    pub network: Vec<HostPattern>,
    /// Writable folders, in addition to those of commands.
    pub writable: Vec<PathBuf>,
    /// Limits that differ from those of commands.
    pub limits: CommandLimitChange,
    /// Its general access.
    pub access: LaunchAccess,
}
