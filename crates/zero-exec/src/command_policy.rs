//! Decides what a started program may read, change and connect to.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use zero_policy::{ConnectDeniedError, ConnectPermission, ConnectRequest, GrantScope};
use zero_sandbox::{Workspace, path_survey};

/// Decides what a running program may change, read and connect to. Every default implementation
/// gives the strictest answer.
pub trait CommandPolicy: Send + Sync {
    /// Whether commands may change an otherwise protected path because the user wrote a rule for
    /// it.
    fn may_change(&self, _canonical: &Path) -> bool {
        false
    }

    /// The files and folders that commands must not read because a rule denies them, at most
    /// `_most` of them.
    fn denied_files(&self, _workspace: &Workspace, _most: usize) -> DeniedFiles {
        DeniedFiles::All(Vec::new())
    }

    /// The files and folders outside the workspace that rules allow to read, with all that is in
    /// them.
    fn readable_paths(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// The existing files and folders of the workspace that commands must not change because a rule
    /// denies it, at most `_most` of them. `None` if no rule does.
    fn denied_changes(&self, _workspace: &Workspace, _most: usize) -> Option<DeniedChanges> {
        None
    }

    /// Whether a confined command may connect to a host. The user cannot be asked at this point.
    fn authorize_host(
        &self,
        _reach: ConnectRequest<'_>,
    ) -> Result<ConnectPermission, ConnectDeniedError> {
        Err(ConnectDeniedError::NoRule)
    }

    /// Whether [`CommandPolicy::authorize_host`] could allow any host with these grants and no
    /// hosts from settings. If not, commands get no network at all.
    fn can_allow_any_host(&self, _grants: &[GrantScope]) -> bool {
        false
    }

    /// Whether a command may use an address that an allowed host resolved to. `inside` describes
    /// the network the address belongs to if it is not a public one.
    fn authorize_address(
        &self,
        _address: IpAddr,
        _inside: Option<&'static str>,
    ) -> Result<(), ConnectDeniedError> {
        Err(ConnectDeniedError::NoRule)
    }
}

/// The files of a workspace that rules deny commands to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeniedChanges {
    /// The files and folders; a folder stands for everything in it, a link for itself.
    pub paths: BTreeSet<PathBuf>,
    /// What those of them that are links lead to.
    pub link_targets: Vec<PathBuf>,
    /// The number of rules, if there are more files than the requested maximum, or the search
    /// exceeded its bounds.
    pub too_many: Option<usize>,
}

impl DeniedChanges {
    /// The existing paths that a mount can make read-only: no links, but what they lead to.
    pub(crate) fn into_protected(self) -> Vec<PathBuf> {
        let is_there = |path: &PathBuf| path_survey::file_type(path).is_some();
        let own = self.paths.into_iter().filter(|path| !path_survey::is_link(path));
        own.chain(self.link_targets).filter(is_there).collect()
    }
}

/// The files that rules deny to commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeniedFiles {
    /// All of them, as canonical paths; a folder stands for everything in it.
    All(Vec<PathBuf>),
    /// More than the requested maximum, or the search exceeded its bounds.
    TooMany {
        /// The number of rules that deny it.
        rules: usize,
    },
}

/// Denies every change and connection, and hides no files.
pub(crate) struct StrictestPolicy;

impl CommandPolicy for StrictestPolicy {}
