//! The existing files and folders that mounts make read-only for a command.
//!
//! A mount ends when a program outside the sandbox replaces the file by renaming another one over
//! it, as git and many editors do. From then on the sandbox has the new file without protection.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_sandbox::SandboxProfile;
use zero_sandbox::path_survey::{self, FileIdentity};
use zero_sandbox::quarantine;

use crate::git_facts::{self, GitSetting};

/// Names of files with settings of git, in the folder of a repository.
const CONFIG_NAMES: &[&str] = &["config", "config.worktree"];

/// A path with a mount, as it was before the command.
#[derive(Debug)]
pub(super) struct MountedPath {
    path: PathBuf,
    identity: FileIdentity,
    /// The settings in it that make git run something.
    helpers: BTreeSet<GitSetting>,
}

impl MountedPath {
    /// The existing paths that the profile protects where a command could change them otherwise.
    pub(super) fn list(profile: &SandboxProfile) -> Vec<Self> {
        let paths = profile.protected.iter().chain(&profile.protected_files);
        let is_inside = |path: &&PathBuf| profile.writable.iter().any(|at| path.starts_with(at));
        paths.filter(is_inside).filter_map(|path| Self::read(path)).collect()
    }

    /// An empty one may be the placeholder of another sandbox, which comes and goes; such names are
    /// watched as missing.
    fn read(path: &Path) -> Option<Self> {
        if quarantine::is_empty(path) {
            return None;
        }
        let identity = path_survey::read_identity(path)?;
        Some(Self { path: path.to_owned(), identity, helpers: read_helpers(path) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something else is at the path now.
    pub(super) fn is_replaced(&self) -> bool {
        path_survey::read_identity(&self.path).is_some_and(|now| now != self.identity)
    }

    /// The names of the settings that make git run something and were not there before.
    pub(super) fn new_helpers(&self) -> Vec<String> {
        let now = read_helpers(&self.path);
        now.difference(&self.helpers).map(|setting| setting.name.clone()).collect()
    }
}

fn read_helpers(path: &Path) -> BTreeSet<GitSetting> {
    let name = path.file_name().and_then(|name| name.to_str());
    match name.is_some_and(|name| CONFIG_NAMES.contains(&name)) {
        true => git_facts::list_helper_settings(path),
        false => BTreeSet::new(),
    }
}
