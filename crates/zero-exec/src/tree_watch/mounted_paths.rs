//! The existing files and folders that mounts make read-only for a command, or hide from it.
//!
//! A mount ends when a program outside the sandbox replaces the file by renaming another one over
//! it, as git and many editors do. From then on the sandbox has the new file without protection: a
//! command can change what was read-only, and read what was hidden.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_sandbox::SandboxProfile;
use zero_sandbox::path_survey::{self, FileIdentity, LinkTracer};
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

/// The paths that mounts hide from a command, as they were before it.
#[derive(Debug, Default)]
pub(super) struct HiddenMounts(Vec<(PathBuf, FileIdentity)>);

impl HiddenMounts {
    /// The existing paths with a mount of their own. Paths in a hidden folder have none, and need
    /// none.
    pub(super) fn list(profile: &SandboxProfile) -> Self {
        let mut tracer = LinkTracer::default();
        let mut real = |paths: &[PathBuf]| -> BTreeSet<PathBuf> {
            paths.iter().filter_map(|path| tracer.canonicalize(path)).collect()
        };
        let masked = real(&profile.masked);
        let shown = real(&[&*profile.readable, &*profile.writable].concat());
        let is_visible = |path: &&PathBuf| {
            let mut above = path.ancestors().skip(1);
            let nearest = above.find(|folder| masked.contains(*folder) || shown.contains(*folder));
            nearest.is_none_or(|folder| !masked.contains(folder))
        };
        let identify = |path: &PathBuf| Some((path.clone(), path_survey::read_identity(path)?));
        Self(masked.iter().filter(is_visible).filter_map(identify).collect())
    }

    /// The first path at which something else is now, which the command can therefore read.
    pub(super) fn find_replaced(&self) -> Option<&Path> {
        let is_replaced = |(path, identity): &&(PathBuf, FileIdentity)| {
            path_survey::read_identity(path).is_some_and(|now| now != *identity)
        };
        self.0.iter().find(is_replaced).map(|(path, _)| path.as_path())
    }
}

fn read_helpers(path: &Path) -> BTreeSet<GitSetting> {
    let name = path.file_name().and_then(|name| name.to_str());
    match name.is_some_and(|name| CONFIG_NAMES.contains(&name)) {
        true => git_facts::list_helper_settings(path),
        false => BTreeSet::new(),
    }
}
