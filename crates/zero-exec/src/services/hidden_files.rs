//! What is hidden from a service, and whether that is still all that has to be.
//!
//! What a service may not read is hidden by mounts, which are made once, when it starts. A file that
//! comes to be denied later is not hidden, and one that is replaced is not hidden any more: its mount
//! goes with the file that was there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::ToolError;
use zero_sandbox::path_survey::{self, FileIdentity};

use super::ServiceHost;
use crate::profile;

/// What is hidden from a service, file by file as it was when it started.
pub(super) struct HiddenFiles {
    host: Arc<ServiceHost>,
    hidden: BTreeMap<PathBuf, Option<FileIdentity>>,
}

impl HiddenFiles {
    /// Of one from which `masked` will be hidden: to be called before it is.
    pub(super) fn new(host: Arc<ServiceHost>, masked: &[PathBuf]) -> Self {
        let identified = |path: &PathBuf| (path.clone(), path_survey::read_identity(path));
        Self { host, hidden: masked.iter().map(identified).collect() }
    }

    /// Whether it can see something that must be hidden from what starts now, or nobody can say.
    pub(super) fn is_outdated(&self) -> bool {
        match self.host.list_hidden_paths() {
            Ok(now) => now.iter().any(|path| self.is_exposed(path)),
            Err(_) => true,
        }
    }

    fn is_exposed(&self, path: &Path) -> bool {
        let is_there = path_survey::read_identity(path);
        is_there.is_some() && self.hidden.get(path) != Some(&is_there)
    }
}

impl ServiceHost {
    pub(super) fn list_hidden_paths(&self) -> Result<Vec<PathBuf>, ToolError> {
        profile::list_hidden_paths(&self.commands, &*self.policy, &self.workspace)
    }
}
