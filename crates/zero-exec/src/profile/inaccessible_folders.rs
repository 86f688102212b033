//! Folders whose mode denies access to the user, and to commands until they change the mode.
//!
//! Paths inside such a folder cannot be hidden or made read-only one by one, because no mount can
//! be placed there. So the whole folder is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_sandbox::FileType;
use zero_sandbox::path_survey::{self, LinkTracer, PathReachability};

/// The path that must be hidden so that `path` is hidden. `None` if no command can ever reach it.
pub(super) fn find_maskable_path(path: PathBuf) -> Option<PathBuf> {
    match path_survey::check_reachability(&path) {
        PathReachability::Open | PathReachability::Missing => Some(path),
        PathReachability::Closed(folder) => path_survey::can_open(&folder).then_some(folder),
    }
}

/// Read-only paths, adjusted for inaccessible folders.
#[derive(Debug, Default)]
pub(super) struct InaccessiblePaths {
    pub(super) writable: Vec<PathBuf>,
    pub(super) folders: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
}

impl InaccessiblePaths {
    /// Makes each path read-only, or the folder in which no mount can be placed. That folder then
    /// counts as not writable, even if it belongs to the workspace.
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

    /// Keeps only the folders writable in which these paths are made, changed or removed. Paths in
    /// a protected or masked folder stay inaccessible.
    pub(super) fn narrow_to(&mut self, paths: &BTreeSet<PathBuf>, masked: &[PathBuf]) {
        let mut tracer = LinkTracer::default();
        let masked: Vec<PathBuf> =
            masked.iter().filter_map(|path| tracer.canonicalize(path)).collect();
        let is_closed = |folder: &Path| {
            let mut closed = self.folders.iter().chain(&self.files).chain(&masked);
            closed.any(|path| folder.starts_with(path))
        };
        let mut writable: Vec<PathBuf> = paths
            .iter()
            .filter_map(|path| find_changed_folder(path, &self.writable))
            .filter(|folder| !is_closed(folder))
            .collect();
        writable.sort();
        // A folder with a mount of its own could not be removed or renamed.
        writable.dedup_by(|later, earlier| later.starts_with(earlier));
        let is_inside = |path: &PathBuf| writable.iter().any(|folder| path.starts_with(folder));
        self.folders.retain(is_inside);
        self.files.retain(is_inside);
        self.writable = writable;
    }
}

/// The folder that has to be writable so that `path` can be made, changed or removed: the innermost
/// one above it that exists, within a writable folder. `None` if it is in no writable folder.
fn find_changed_folder(path: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    let around = writable.iter().filter(|folder| path.starts_with(folder));
    let root = around.max_by_key(|folder| folder.as_os_str().len())?;
    let is_folder = |path: &Path| path_survey::file_type(path) == Some(FileType::Directory);
    let above = path.ancestors().skip(1).take_while(|above| above.starts_with(root));
    let folder = above.into_iter().find(|above| is_folder(above));
    Some(folder.unwrap_or(root).to_owned())
}

/// The first folder on the way from a writable folder to `path` that cannot be entered, or to which
/// a missing entry cannot be added.
fn find_blocking_folder(path: &Path, writable: &[PathBuf]) -> Option<PathBuf> {
    let inside = |root: &PathBuf| Some((root.clone(), path.strip_prefix(root).ok()?));
    // From the outermost folder inwards.
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
