//! Completes a set: compares the recorded paths with what is there when the command has ended, and
//! stores those that differ.
//!
//! [`SetCompletion`] goes through the lines in the order of their paths, so that a folder comes before
//! what is in it. Images that no undo needs are removed at the end.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType as KernelFileType, Stat};
use rustix::io::Errno;

use super::change_set::{
    BeforeState, ChangeSet, LOSSES_MAX, SetItem, SetSummary, describe_loss, image_name, portable,
};
use super::open_set::{INODE, OpenSet, TREE};
use super::path_state::{InodeKey, PathSlot, PathState, TreeRoots, inode_key};
use super::portable_path::PortablePath;
use crate::state_dir::StateDir;

/// How a set is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetEnding {
    Regular,
    /// By another process, after a crash.
    AfterCrash,
}

/// Compares the paths of a set with their state before, and stores those that differ. Returns `None`
/// if nothing changed and nothing was lost.
pub(super) fn complete_set(
    mut set: OpenSet,
    roots: &TreeRoots,
    losses: Vec<String>,
    ending: SetEnding,
) -> io::Result<Option<SetSummary>> {
    let mut lines = std::mem::take(&mut set.lines);
    lines.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut completion = SetCompletion {
        set: &set,
        roots,
        summary: SetSummary {
            losses,
            is_interrupted: ending == SetEnding::AfterCrash,
            ..SetSummary::default()
        },
        items: Vec::new(),
        used: HashSet::new(),
        away: HashSet::new(),
        locations: HashMap::new(),
        may_move: lines.iter().any(|(_, before)| matches!(before, BeforeState::File { .. })),
        unread: Vec::new(),
        closed_folders: Vec::new(),
        absent: None,
    };
    for (path, before) in lines {
        completion.compare(path.as_deref(), before)?;
    }
    completion.add_closed_folders();
    completion.add_unread_losses();
    completion.find_moved_files();
    if completion.items.is_empty() && completion.summary.losses.is_empty() {
        return Ok(None);
    }
    completion.remove_unneeded_images()?;
    let SetCompletion { summary, items, .. } = completion;
    let complete = ChangeSet { header: set.header, summary: summary.clone(), items };
    complete.write(&set.dir)?;
    Ok(Some(summary))
}

/// A set whose lines are compared one after another.
struct SetCompletion<'a> {
    set: &'a OpenSet,
    roots: &'a TreeRoots,
    summary: SetSummary,
    items: Vec<SetItem>,
    /// Images that an undo needs.
    used: HashSet<u64>,
    /// Images of files that are not where they were.
    away: HashSet<u64>,
    /// Where files are now.
    locations: HashMap<InodeKey, PortablePath>,
    /// Whether there were files before, which can have moved.
    may_move: bool,
    /// Nothing is known of these, so they are not undone.
    unread: Vec<(PathBuf, Errno)>,
    /// Folders that their owner cannot change, as before. An undo opens those in which it changes
    /// something.
    closed_folders: Vec<(PathBuf, BeforeState, PathState)>,
    /// A path that does not exist, so that nothing below it does.
    absent: Option<PathBuf>,
}

impl SetCompletion<'_> {
    /// Adds an item for a line whose path differs from its state before.
    fn compare(&mut self, path: Option<&Path>, before: BeforeState) -> io::Result<()> {
        let Some(after) = self.read_state(path, &before)? else { return Ok(()) };
        self.note_absent_folder(path, &before, &after);
        if !self.count_change(path, &before, &after) {
            if let (Some(path), BeforeState::Folder { mode, .. }) = (path, &before)
                && is_closed(*mode)
            {
                self.closed_folders.push((path.to_owned(), before, after));
            }
            return Ok(());
        }
        self.summary.bytes += after.bytes();
        if let (true, Some(path), PathState::File { .. }) = (self.may_move, path, &after)
            && let Some(inode) = self.read_inode(path, &after)
        {
            self.locations.insert(inode, portable(path));
        }
        let is_new_folder = !matches!(before, BeforeState::Folder { .. })
            && matches!(after, PathState::Folder { .. });
        self.items.push(SetItem {
            path: path.map(portable),
            before: Some(before),
            after,
            moved_to: None,
            staged: path.and_then(|path| self.roots.staged(path)),
        });
        if let (true, Some(path)) = (is_new_folder, path) {
            self.add_new_tree(path);
        }
        Ok(())
    }

    /// The state of a line's file now; `None` if it is not known.
    fn read_state(
        &mut self,
        path: Option<&Path>,
        before: &BeforeState,
    ) -> io::Result<Option<PathState>> {
        let Some(path) = path else {
            let BeforeState::File { image, .. } = before else { return Ok(None) };
            let folder = Arc::new(rustix::io::fcntl_dupfd_cloexec(&self.set.handle, 0)?);
            let slot = PathSlot { folder, name: image_name(*image, INODE).into() };
            let stat = slot.stat()?;
            let state = stat.map(|stat| PathState::from_stat(&slot, &stat)).transpose()?;
            return Ok(Some(state.unwrap_or(PathState::Absent)));
        };
        if self.is_below_absent(path) {
            return Ok(Some(PathState::Absent));
        }
        match self.roots.state(path) {
            Ok(after) => Ok(Some(after)),
            Err(errno) => {
                self.unread.push((path.to_owned(), errno));
                Ok(None)
            }
        }
    }

    fn is_below_absent(&self, path: &Path) -> bool {
        self.absent.as_ref().is_some_and(|absent| path.starts_with(absent))
    }

    /// Remembers a folder that is gone: what was in it need not be looked up.
    fn note_absent_folder(&mut self, path: Option<&Path>, before: &BeforeState, after: &PathState) {
        if let (Some(path), PathState::Absent, BeforeState::Folder { .. }) = (path, after, before)
            && !self.is_below_absent(path)
        {
            self.absent = Some(path.to_owned());
        }
    }

    /// Counts a change. Returns false if the state is the same as before.
    fn count_change(
        &mut self,
        path: Option<&Path>,
        before: &BeforeState,
        after: &PathState,
    ) -> bool {
        match (before, after) {
            (BeforeState::Absent, PathState::Absent) => return false,
            (BeforeState::Absent, _) => self.summary.created += 1,
            (BeforeState::File { image, state, inode }, _) => {
                return self.count_file_change(path, (*image, state, *inode), after);
            }
            (BeforeState::Symlink { target }, PathState::Symlink { target: now })
                if target == now =>
            {
                return false;
            }
            (BeforeState::Folder { mode, .. }, PathState::Folder { mode: now }) if mode == now => {
                return false;
            }
            (BeforeState::Stored { image, .. }, _) => {
                self.used.insert(*image);
                self.count_change_or_removal(after);
            }
            _ => self.count_change_or_removal(after),
        }
        true
    }

    fn count_change_or_removal(&mut self, after: &PathState) {
        match after {
            PathState::Absent => self.summary.removed += 1,
            _ => self.summary.changed += 1,
        }
    }

    /// The same for a file with an image.
    fn count_file_change(
        &mut self,
        path: Option<&Path>,
        (image, state, inode): (u64, &PathState, InodeKey),
        after: &PathState,
    ) -> bool {
        let is_refreshed = path.is_some_and(|path| {
            state.mode() == after.mode() && self.set.is_refreshed(self.roots, path, image)
        });
        if is_refreshed {
            return false;
        }
        let is_in_place = path.and_then(|path| self.read_inode(path, after)) == Some(inode);
        if state == after && (is_in_place || path.is_none()) {
            return false;
        }
        match is_in_place || path.is_none() {
            true => self.summary.changed += 1,
            false => self.count_change_or_removal(after),
        }
        self.summary.bytes += state.bytes();
        self.summary.losses.extend(self.set.uncopied.get(&image).cloned());
        self.used.insert(image);
        if !is_in_place {
            self.away.insert(image);
        }
        true
    }

    /// The inode at a path whose state is known.
    fn read_inode(&self, path: &Path, state: &PathState) -> Option<InodeKey> {
        if *state == PathState::Absent {
            return None;
        }
        let stat = self.roots.slot(path).and_then(|slot| slot.stat());
        stat.ok().flatten().map(|stat| inode_key(&stat))
    }

    /// Adds an item for everything below a folder that the command made.
    fn add_new_tree(&mut self, folder: &Path) {
        let roots = self.roots;
        let walked = roots.walk(folder, &mut |path, after, stat| {
            self.summary.created += 1;
            self.summary.bytes += after.bytes();
            let staged = roots.staged(&path);
            let path = portable(&path);
            if let (true, PathState::File { .. }) = (self.may_move, &after) {
                self.locations.insert(inode_key(stat), path.clone());
            }
            let path = Some(path);
            self.items.push(SetItem { path, before: None, after, moved_to: None, staged });
        });
        self.unread.extend(walked.unwrap_or_else(|errno| vec![(folder.to_owned(), errno)]));
    }

    /// Adds items for the closed folders in which something changed.
    fn add_closed_folders(&mut self) {
        if self.closed_folders.is_empty() {
            return;
        }
        let paths = self.items.iter().filter_map(|item| Some(item.path.as_ref()?.to_path()));
        let changed: HashSet<PathBuf> =
            paths.filter_map(|path| path.parent().map(Path::to_owned)).collect();
        self.closed_folders.retain(|(path, ..)| changed.contains(path));
        self.items.extend(self.closed_folders.drain(..).map(|(path, before, after)| SetItem {
            path: Some(portable(&path)),
            before: Some(before),
            after,
            moved_to: None,
            staged: None,
        }));
    }

    fn add_unread_losses(&mut self) {
        let room = LOSSES_MAX.saturating_sub(self.summary.losses.len());
        let unread = self.unread.iter().take(room);
        self.summary.losses.extend(unread.map(|(path, errno)| describe_loss(path, errno)));
    }

    /// A file that only moved is found at its new path, and needs no further link meanwhile.
    fn find_moved_files(&mut self) {
        let mut moved = HashSet::new();
        for item in &mut self.items {
            if let Some(BeforeState::File { image, inode, .. }) = &item.before
                && self.away.contains(image)
                && let Some(path) = self.locations.get(inode)
            {
                item.moved_to = Some(path.clone());
                moved.insert(*image);
            }
        }
        self.away.retain(|image| !moved.contains(image));
    }

    /// Removes the images that no undo needs, and measures the others.
    fn remove_unneeded_images(&mut self) -> io::Result<()> {
        let OpenSet { dir, handle, .. } = self.set;
        for name in dir.list_names()? {
            let image = name.split_once('.').and_then(|(image, _)| image.parse::<u64>().ok());
            match image {
                // The file is where it was: a further link would only make others wonder.
                Some(image) if name.ends_with(INODE) && !self.away.contains(&image) => {
                    dir.remove(&name)?;
                }
                Some(image) if self.used.contains(&image) => {
                    self.summary.held_bytes += held_bytes(handle, dir, &name);
                }
                // A tree is never dropped: it is the only copy.
                Some(_) if !name.ends_with(TREE) => dir.remove(&name)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether the owner of a folder with this mode cannot add and remove names in it.
fn is_closed(mode: u32) -> bool {
    mode & 0o300 != 0o300
}

/// Bytes on disk that a file of an image keeps from being freed.
fn held_bytes(handle: &OwnedFd, dir: &StateDir, name: &str) -> u64 {
    match rustix::fs::statat(handle, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if KernelFileType::from_raw_mode(stat.st_mode) == KernelFileType::Directory => {
            tree_bytes(&dir.path().join(name))
        }
        // Another name of it is in use.
        Ok(stat) if stat.st_nlink > 1 => 0,
        Ok(stat) => u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
        Err(_) => 0,
    }
}

fn tree_bytes(folder: &Path) -> u64 {
    let mut bytes = 0;
    let add = &mut |_: PathBuf, state: PathState, _: &Stat| bytes += state.bytes();
    if let (Some(parent), Ok(roots)) =
        (folder.parent(), TreeRoots::open(folder.parent().into_iter()))
    {
        debug_assert!(folder.starts_with(parent));
        let _ = roots.walk(folder, add);
    }
    bytes
}
