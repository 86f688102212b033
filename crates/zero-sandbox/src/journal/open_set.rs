//! [`OpenSet`]: a set of recorded changes while its command runs.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::change_set::{self, BeforeState, LogLine, SetHeader, image_name};
use super::git_index;
use super::path_state::{InodeKey, PathState, TreeRoots};
use crate::disk_space::DiskSpace;
use crate::state_dir::StateDir;

/// Suffixes of the files of an image; see [`change_set`].
pub(super) const INODE: &str = "inode";
pub(super) const BYTES: &str = "bytes";
pub(super) const TREE: &str = "tree";

/// A set in progress.
#[derive(Debug)]
pub(super) struct OpenSet {
    pub(super) id: u64,
    pub(super) dir: StateDir,
    pub(super) header: SetHeader,
    /// The open folder of the set.
    pub(super) handle: OwnedFd,
    /// Locked as long as the set is in progress.
    log: File,
    pub(super) lines: Vec<(Option<PathBuf>, BeforeState)>,
    /// The index in `lines` of each path.
    pub(super) by_path: HashMap<PathBuf, usize>,
    /// Images of the files that have one.
    pub(super) by_inode: HashMap<InodeKey, u64>,
    /// The states of these files when their image was made.
    pub(super) states: HashMap<u64, PathState>,
    /// Images whose contents were copied.
    pub(super) copied: HashSet<u64>,
    /// Files that are too large to copy; a loss if they are changed.
    pub(super) uncopied: HashMap<u64, String>,
    pub(super) next_image: u64,
    pub(super) copied_bytes: u64,
    /// How much may be copied, by the free space at the start.
    pub(super) copy_room: u64,
}

impl OpenSet {
    /// A set without lines. `log` is its locked log.
    pub(super) fn new(id: u64, dir: StateDir, header: SetHeader, log: File) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(dir.path(), flags, Mode::empty())?;
        let space = DiskSpace::measure(&handle);
        Ok(Self {
            id,
            dir,
            header,
            handle,
            log,
            lines: Vec::new(),
            by_path: HashMap::new(),
            by_inode: HashMap::new(),
            states: HashMap::new(),
            copied: HashSet::new(),
            uncopied: HashMap::new(),
            next_image: 0,
            copied_bytes: 0,
            copy_room: space.map_or(u64::MAX, DiskSpace::room_for_copies),
        })
    }

    /// Writes a line to the log, so that it survives a crash.
    pub(super) fn append(&mut self, line: &LogLine) -> io::Result<()> {
        change_set::write_line(&mut self.log, line)
    }

    pub(super) fn insert(&mut self, path: Option<PathBuf>, before: BeforeState) {
        match &before {
            BeforeState::File { image, inode, state } => {
                self.next_image = self.next_image.max(image + 1);
                self.by_inode.insert(*inode, *image);
                self.states.entry(*image).or_insert_with(|| state.clone());
            }
            BeforeState::Stored { image, .. } => self.next_image = self.next_image.max(image + 1),
            _ => {}
        }
        if let Some(path) = &path {
            self.by_path.insert(path.clone(), self.lines.len());
        }
        self.lines.push((path, before));
    }

    /// Says that everything in a folder has a line.
    pub(super) fn mark_complete(&mut self, path: &Path) {
        let line = self.by_path.get(path).and_then(|at| self.lines.get_mut(*at));
        if let Some((_, BeforeState::Folder { is_complete, .. })) = line {
            *is_complete = true;
        }
    }

    /// Whether a path is an index of git that stages what it did before.
    pub(super) fn is_refreshed(&self, roots: &TreeRoots, path: &Path, image: u64) -> bool {
        let Some(staged) = roots.staged(path) else { return false };
        let kind = if exists(&self.dir, &image_name(image, BYTES)) { BYTES } else { INODE };
        git_index::read_digest(&self.handle, image_name(image, kind)) == Some(staged)
    }
}

/// Whether a set has a file of this name.
pub(super) fn exists(dir: &StateDir, name: &str) -> bool {
    dir.path().join(name).symlink_metadata().is_ok()
}
