//! Checks whether the files hidden from a service are still all that must be hidden.
//!
//! Mounts hide files from a service and are made once, at its start. A file that is denied later is
//! not hidden, and a file that is replaced is no longer hidden: its mount disappears with the
//! replaced file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::ToolError;
use zero_sandbox::path_survey::{self, FileIdentity};

use super::ServiceHost;
use crate::profile;

/// The files hidden from a service, as they were at its start.
pub(super) struct HiddenFiles {
    host: Arc<ServiceHost>,
    hidden: BTreeMap<PathBuf, Option<FileIdentity>>,
}

impl HiddenFiles {
    /// Records the state of `masked`. Call it before the service starts.
    pub(super) fn new(host: Arc<ServiceHost>, masked: &[PathBuf]) -> Self {
        let identified = |path: &PathBuf| (path.clone(), path_survey::read_identity(path));
        Self { host, hidden: masked.iter().map(identified).collect() }
    }

    /// Whether the service can see a path that must be hidden from a program that starts now. Also
    /// true if that cannot be determined.
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
