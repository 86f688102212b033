//! Paths that commands must not create or change and that no mount protects.

use std::path::PathBuf;

/// Most entries of a folder that is only checked afterwards, because there are too many mounts; a
/// larger one is made read-only as well.
pub(crate) const UNHELD_ENTRIES_MAX: usize = 1_000;

/// A path that must not be created beneath a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForbiddenPath {
    pub(crate) folder: PathBuf,
    pub(crate) relative: PathBuf,
    pub(crate) why: &'static str,
}
