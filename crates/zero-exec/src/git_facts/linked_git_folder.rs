//! The git folder to which the `.git` file of a working folder leads.
//!
//! A command could have written the file, so the folder counts only if it points back at the working
//! folder, which no command can forge.

use std::path::{Path, PathBuf};

use zero_sandbox::{path_survey, quarantine};

use super::{PointerTarget, may_be_git_folder, read_git_values, read_pointer};

/// The git folder that the `.git` file of a working folder names, if it points back. Of a worktree, the
/// folder that all worktrees share, which contains its own one.
pub(crate) fn find_linked_folder(work: &Path) -> Option<PathBuf> {
    let git_file = work.join(".git");
    // A link to another worktree's file would be pointed back at as well.
    if is_link(work, &git_file) {
        return None;
    }
    let PointerTarget::Folder(named) = read_pointer(&git_file, b"gitdir: ") else { return None };
    let own = path_survey::canonicalize(&named)?;
    match read_pointer(&own.join("commondir"), b"") {
        PointerTarget::Folder(common) => {
            let common = path_survey::canonicalize(&common)?;
            let PointerTarget::Folder(back) = read_pointer(&own.join("gitdir"), b"") else {
                return None;
            };
            let is_ours = path_survey::canonicalize(&back)? == git_file
                && own.parent() == Some(&common.join("worktrees"))
                && may_be_git_folder(&common);
            is_ours.then_some(common)
        }
        PointerTarget::Missing => {
            let back = read_git_values(&own.join("config"), "core.worktree");
            let back = back.last()?;
            let is_ours = path_survey::canonicalize(&own.join(back))?.as_path() == work
                && may_be_git_folder(&own);
            is_ours.then_some(own)
        }
        PointerTarget::Unknown => None,
    }
}

fn is_link(folder: &Path, file: &Path) -> bool {
    matches!(quarantine::inspect(folder, file), quarantine::EntryKind::Link { .. })
}
