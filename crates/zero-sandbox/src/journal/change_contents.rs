//! [`ChangedFile`]: what a recorded change did to a file, with the text before and now, for people to
//! look at.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use rustix::fs::OFlags;
use zero_core::ToolError;

use super::Journal;
use super::change_record::RecordedState;
use super::change_set::{BeforeState, ChangeSet, SetItem, image_name};
use super::file_snapshot::FileSnapshot;
use super::open_set::{BYTES, INODE, exists};
use super::path_state::{PathState, TreeRoots};
use crate::state_dir::StateDir;

/// Largest file whose text is read.
const TEXT_BYTES_MAX: u64 = 256 * 1024;

/// A file that a recorded change made, changed or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path, as displayed.
    pub path: String,
    /// What was there before.
    pub before: FileContents,
    /// What is there now.
    pub after: FileContents,
    /// Its permissions before and now, if only they differ.
    pub modes: Option<(u32, u32)>,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContents {
    /// Nothing.
    Absent,
    /// A file with this text.
    Text(String),
    /// A file that is too large to show, or no text.
    Binary {
        /// Its size.
        bytes: u64,
    },
    /// A link with this target.
    Symlink(String),
    /// A folder.
    Folder,
    /// A socket, pipe or device, or something that could not be read.
    Other,
}

impl FileContents {
    fn from_bytes(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        match String::from_utf8(bytes) {
            Ok(text) if len <= TEXT_BYTES_MAX && !text.contains('\0') => Self::Text(text),
            _ => Self::Binary { bytes: len },
        }
    }

    fn read(file: File) -> io::Result<Self> {
        let size = file.metadata()?.len();
        if size > TEXT_BYTES_MAX {
            return Ok(Self::Binary { bytes: size });
        }
        let mut bytes = Vec::new();
        file.take(TEXT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(Self::from_bytes(bytes))
    }
}

impl Journal {
    /// The files of change `id`, at most `most` of them, and how many there are.
    pub fn changed_files(
        &self,
        id: u64,
        most: usize,
    ) -> Result<(Vec<ChangedFile>, usize), ToolError> {
        if !self.is_set(id) {
            return Ok((vec![self.changed_file(id)?], 1));
        }
        let failed = |error: io::Error| self.store.set_error(id, &error);
        let dir = self.store.set_dir(id);
        let set = ChangeSet::read(&dir).map_err(failed)?;
        let roots = TreeRoots::open(self.workspace.roots()).map_err(failed)?;
        let mut files: Vec<_> = set.paths().filter(|(_, item)| item.is_change()).collect();
        files.sort_by(|(a, _), (b, _)| a.cmp(b));
        let count = files.len();
        let shown = files.iter().take(most).map(|(path, item)| {
            let before = read_before(&roots, &dir, path, item);
            let after = read_now(&roots, path, &item.after);
            let modes = match &item.before {
                Some(BeforeState::Folder { mode, .. }) => Some(*mode),
                Some(BeforeState::File { state, .. }) => state.mode(),
                _ => None,
            };
            let modes = modes.zip(item.after.mode()).filter(|(old, new)| old != new);
            ChangedFile { path: self.workspace.display_path(path), before, after, modes }
        });
        Ok((shown.collect(), count))
    }

    /// The file of a change that a tool made.
    fn changed_file(&self, id: u64) -> Result<ChangedFile, ToolError> {
        let record = self.store.read_record(id)?;
        let path = record.path.to_path();
        let before = match &record.before {
            RecordedState::Absent => FileContents::Absent,
            RecordedState::Symlink { target } => {
                FileContents::Symlink(target.to_path().display().to_string())
            }
            RecordedState::File { sha256, .. } => {
                FileContents::from_bytes(self.store.read_before(id, sha256)?)
            }
        };
        let after = match self.read(&self.resolve_target(&path)?)? {
            FileSnapshot::Absent => FileContents::Absent,
            FileSnapshot::Symlink { target } => FileContents::Symlink(target.display().to_string()),
            FileSnapshot::File { bytes, .. } => FileContents::from_bytes(bytes),
        };
        Ok(ChangedFile { path: self.workspace.display_path(&path), before, after, modes: None })
    }

    /// The paths of change `id` that are not below a new folder of it.
    pub fn changed_paths(&self, id: u64) -> Result<Vec<std::path::PathBuf>, ToolError> {
        if !self.is_set(id) {
            return Ok(vec![self.store.read_record(id)?.path.to_path()]);
        }
        let set = ChangeSet::read(&self.store.set_dir(id));
        let set = set.map_err(|error| self.store.set_error(id, &error))?;
        let own = set.paths().filter(|(_, item)| item.before.is_some() && item.is_change());
        Ok(own.map(|(path, _)| path).collect())
    }

    /// The number of the newest change, 0 if there is none.
    pub fn newest_id(&self) -> Result<u64, ToolError> {
        Ok(self.all_ids()?.last().copied().unwrap_or(0))
    }

    /// The changes after number `after` that are complete, oldest first.
    pub fn ids_after(&self, after: u64) -> Result<Vec<u64>, ToolError> {
        let mut ids = self.all_ids()?;
        ids.retain(|id| *id > after);
        Ok(ids)
    }
}

fn read_before(roots: &TreeRoots, dir: &StateDir, path: &Path, item: &SetItem) -> FileContents {
    match &item.before {
        None | Some(BeforeState::Absent) => FileContents::Absent,
        Some(BeforeState::Folder { .. }) => FileContents::Folder,
        Some(BeforeState::Symlink { target }) => {
            FileContents::Symlink(target.to_path().display().to_string())
        }
        Some(BeforeState::Stored { .. }) => FileContents::Other,
        Some(BeforeState::File { image, .. }) => {
            let stored = [BYTES, INODE].map(|kind| image_name(*image, kind));
            let stored = stored.iter().find(|name| exists(dir, name));
            let contents = match (stored, &item.moved_to) {
                (Some(name), _) => dir.open(name).and_then(FileContents::read),
                // The file itself was not changed, only its place or its mode.
                (None, Some(moved_to)) => open_file(roots, &moved_to.to_path()),
                (None, None) => open_file(roots, path),
            };
            contents.unwrap_or(FileContents::Other)
        }
    }
}

fn read_now(roots: &TreeRoots, path: &Path, after: &PathState) -> FileContents {
    match after {
        PathState::Absent => FileContents::Absent,
        PathState::Folder { .. } => FileContents::Folder,
        PathState::Symlink { target } => {
            FileContents::Symlink(target.to_path().display().to_string())
        }
        PathState::Special { .. } => FileContents::Other,
        PathState::File { .. } => open_file(roots, path).unwrap_or(FileContents::Other),
    }
}

fn open_file(roots: &TreeRoots, path: &Path) -> io::Result<FileContents> {
    FileContents::read(File::from(roots.slot(path)?.open(OFlags::RDONLY)?))
}
