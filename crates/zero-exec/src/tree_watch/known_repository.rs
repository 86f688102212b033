//! [`KnownRepository`]: a repository in a folder of dependencies that was checked.

use std::path::Path;

use zero_sandbox::path_survey::{self, FileIdentity};

/// The folders of a repository that was checked: others may be moved to the same paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownRepository {
    pub(super) git: FileIdentity,
    pub(super) hooks: Option<FileIdentity>,
}

impl KnownRepository {
    pub(super) fn read(git: &Path) -> Option<Self> {
        let hooks = path_survey::read_identity(&git.join("hooks"));
        Some(Self { git: path_survey::read_identity(git)?, hooks })
    }
}
