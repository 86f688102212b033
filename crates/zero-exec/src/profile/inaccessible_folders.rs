//! Folders whose mode keeps the person out, and so a command of theirs, until it changes the mode.
//!
//! What lies behind such a folder can neither be hidden nor held one by one, because nobody can
//! reach it to put anything in its place. So all of the folder is.

use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::{self, PathReachability};

/// What has to be hidden so that `path` is. `None` where no command can ever reach it.
pub(super) fn find_maskable_path(path: PathBuf) -> Option<PathBuf> {
    match path_survey::check_reachability(&path) {
        PathReachability::Open | PathReachability::Missing => Some(path),
        PathReachability::Closed(folder) => path_survey::can_open(&folder).then_some(folder),
    }
}

/// What is held, as far as it can be.
#[derive(Debug, Default)]
pub(super) struct InaccessiblePaths {
    pub(super) writable: Vec<PathBuf>,
    pub(super) folders: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
}

impl InaccessiblePaths {
    /// Holds each path, or else the folder in which nothing can stand in for it: then that stays as
    /// it is, and is no folder to be changed, even if it is one of the workspace.
    pub(super) fn new(writable: Vec<PathBuf>, folders: Vec<PathBuf>, files: Vec<PathBuf>) -> Self {
        let in_the_way = |path: &PathBuf| find_blocking_folder(path, &writable);
        let (mut held, mut closed) = (Self::default(), Vec::new());
        for (paths, kept) in [(folders, &mut held.folders), (files, &mut held.files)] {
            for path in paths {
                match in_the_way(&path) {
                    Some(folder) => closed.push(folder),
                    None => kept.push(path),
                }
            }
        }
        held.writable = writable.into_iter().filter(|folder| !closed.contains(folder)).collect();
        closed.sort();
        closed.dedup();
        held.folders.extend(closed);
        held
    }
}

/// The folder on the way to `path`, from a writable one on, that cannot be entered, or to which
/// what is missing cannot be added.
fn find_blocking_folder(path: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    let inside = |root: &PathBuf| Some((root.clone(), path.strip_prefix(root).ok()?));
    // From the outermost on.
    let (mut at, rest) =
        writable.iter().filter_map(inside).max_by_key(|(_, rest)| rest.components().count())?;
    for part in rest.components() {
        let next = at.join(part);
        match path_survey::check_reachability(&next) {
            PathReachability::Open => at = next,
            PathReachability::Missing if path_survey::can_add_to(&at) => return None,
            PathReachability::Missing | PathReachability::Closed(_) => return Some(at),
        }
    }
    None
}
