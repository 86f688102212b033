//! Restores the state before a set of changes.
//!
//! Every step records what it replaces in a set of its own, so that an undo can be undone, and every
//! step may be repeated: an undo that a crash interrupted is completed by running it again.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::change_recorder::ChangeRecorder;
use super::change_set::{BeforeState, ChangeSet, SetItem, image_name};
use super::file_copy;
use super::open_set::{BYTES, INODE, TREE, exists};
use super::path_state::{PathSlot, PathState, TreeRoots, inode_key};
use crate::state_dir::StateDir;

/// Most paths of conflicts that are collected.
const CONFLICTS_MAX: usize = 1_000;

/// A path that was changed after the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeConflict {
    /// The path.
    pub path: PathBuf,
    /// `changed`, `deleted`, `created`, `unreadable`, or `perhaps changed` if the program ran beside the
    /// user, who may have changed the path meanwhile.
    pub what: &'static str,
}

/// The paths that are not as the set left them, or whose state is unknown.
pub(super) fn find_conflicts(
    set: &ChangeSet,
    dir: &StateDir,
    roots: &TreeRoots,
) -> Vec<ChangeConflict> {
    let mut conflicts = Vec::new();
    let mut known = HashSet::new();
    let mut new_folders = Vec::new();
    for (path, item) in set.paths() {
        let now = roots.state(&path);
        // The user's own `git status` refreshes the index.
        let is_refreshed = || item.staged.is_some() && roots.staged(&path) == item.staged;
        if now.as_ref() != Ok(&item.after) && !is_refreshed() {
            let what = match (&item.after, &now) {
                (_, Err(_)) => "unreadable",
                (_, Ok(PathState::Absent)) => "deleted",
                (PathState::Absent, _) => "created",
                _ => "changed",
            };
            conflicts.push(ChangeConflict { path: path.clone(), what });
        }
        if let Some(BeforeState::Stored { image, digest, .. }) = &item.before
            && !is_tree_untouched(dir, *image, digest.as_deref())
        {
            conflicts.push(ChangeConflict { path: path.clone(), what: "changed in the journal" });
        }
        let is_new = !matches!(item.before, Some(BeforeState::Folder { .. }));
        if is_new && matches!(item.after, PathState::Folder { .. }) && item.before.is_some() {
            new_folders.push(path.clone());
        }
        known.insert(path);
        if conflicts.len() >= CONFLICTS_MAX {
            return conflicts;
        }
    }
    for folder in new_folders {
        let mut visit = |path: PathBuf, _: PathState, _: &Stat| {
            if !known.contains(&path) && conflicts.len() < CONFLICTS_MAX {
                conflicts.push(ChangeConflict { path, what: "created" });
            }
        };
        match roots.walk(&folder, &mut visit) {
            Ok(unread) => {
                let unread = unread.into_iter();
                conflicts
                    .extend(unread.map(|(path, _)| ChangeConflict { path, what: "unreadable" }));
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => conflicts.push(ChangeConflict { path: folder, what: "unreadable" }),
        }
    }
    conflicts
}

/// The paths that existed before a program that ran beside the user, and that it changed: others may have
/// changed them meanwhile.
pub(super) fn list_shared(set: &ChangeSet) -> Vec<ChangeConflict> {
    if !set.header.origin.is_beside {
        return Vec::new();
    }
    let existed = |item: &SetItem| {
        item.before.as_ref().is_some_and(|before| !matches!(before, BeforeState::Absent))
    };
    let shared = set.paths().filter(|(_, item)| existed(item));
    shared
        .take(CONFLICTS_MAX)
        .map(|(path, _)| ChangeConflict { path, what: "perhaps changed" })
        .collect()
}

/// Whether a tree that an undo moved here is as it was. A process that has a folder of it open can
/// still write to it, without the checks for files that it must not create.
fn is_tree_untouched(dir: &StateDir, image: u64, digest: Option<&str>) -> bool {
    let name = image_name(image, TREE);
    // It was moved back before a crash.
    if !exists(dir, &name) {
        return true;
    }
    let now = TreeRoots::open(std::iter::once(dir.path()))
        .ok()
        .and_then(|roots| roots.digest(&dir.path().join(&name)));
    now.is_some() && now.as_deref() == digest
}

/// Restores the state before `set`, whose images are in `dir`. Returns the paths that could not be
/// restored, and why.
pub(super) fn restore(
    set: &ChangeSet,
    dir: &StateDir,
    recorder: &mut ChangeRecorder,
) -> io::Result<Vec<(PathBuf, io::Error)>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = rustix::fs::open(dir.path(), flags, Mode::empty())?;
    let mut restoration =
        Restoration { dir, handle, recorder, modes: Vec::new(), filled: HashSet::new() };
    let mut failures = Vec::new();
    for item in &set.items {
        restoration.find_moved(item);
    }
    // A file without a path comes first: its contents are complete before it gets a name.
    for item in set.items.iter().filter(|item| item.path.is_none()) {
        if let Some(BeforeState::File { image, state, .. }) = &item.before
            && let Err(error) = restoration.fill_nameless(*image, state)
        {
            failures.push((PathBuf::new(), error));
        }
    }
    // Parents come before what is in them.
    let mut paths: Vec<_> = set.paths().collect();
    paths.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (path, item) in paths {
        let Some(before) = &item.before else { continue };
        if let Err(error) = restoration.restore_path(&path, before) {
            failures.push((path, error));
        }
    }
    for (path, mode) in std::mem::take(&mut restoration.modes).into_iter().rev() {
        let slot = restoration.recorder.roots().slot(&path);
        if let Err(errno) = slot.and_then(|slot| slot.set_mode(mode)) {
            failures.push((path, errno.into()));
        }
    }
    Ok(failures)
}

struct Restoration<'a> {
    dir: &'a StateDir,
    /// The open folder of the set.
    handle: OwnedFd,
    recorder: &'a mut ChangeRecorder,
    /// Modes of folders, which are set when everything is in them.
    modes: Vec<(PathBuf, u32)>,
    /// Images whose contents were restored.
    filled: HashSet<u64>,
}

impl Restoration<'_> {
    fn restore_path(&mut self, path: &Path, before: &BeforeState) -> io::Result<()> {
        match before {
            BeforeState::Absent => match self.recorder.roots().slot(path) {
                // The folder it was in does not exist any more.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
                Err(errno) => Err(errno.into()),
                Ok(_) => self.recorder.take(path),
            },
            BeforeState::Folder { mode, .. } => self.restore_folder(path, *mode),
            BeforeState::Symlink { target } => self.restore_link(path, &target.to_path()),
            BeforeState::File { image, state, inode } => {
                self.restore_file(path, *image, state, *inode)
            }
            BeforeState::Stored { image, mode, digest } => {
                if !is_tree_untouched(self.dir, *image, digest.as_deref()) {
                    return Err(io::Error::other("it was changed in the journal"));
                }
                self.restore_stored(path, *image, *mode)
            }
        }
    }

    fn has_image(&self, name: &str) -> bool {
        rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn stat(&self, path: &Path) -> io::Result<(PathSlot, Option<Stat>)> {
        let slot = self.recorder.roots().slot(path)?;
        let stat = slot.stat()?;
        Ok((slot, stat))
    }

    /// Takes away what is at a path, and records that the path is free.
    fn clear(&mut self, path: &Path) -> io::Result<()> {
        self.recorder.take(path)?;
        self.recorder.record(path);
        Ok(())
    }

    fn restore_folder(&mut self, path: &Path, mode: u32) -> io::Result<()> {
        let (slot, stat) = self.stat(path)?;
        let now = stat.map(|stat| PathState::from_stat(&slot, &stat)).transpose()?;
        // Writable until everything is in it.
        let working = mode | 0o700;
        if let Some(PathState::Folder { mode: now }) = now {
            // If a crash follows, it has another mode for a while.
            if now != mode || now != working {
                self.recorder.record(path);
            }
            if now != working {
                slot.set_mode(working)?;
            }
        } else {
            self.clear(path)?;
            rustix::fs::mkdirat(&slot.folder, &slot.name, Mode::from_raw_mode(0o700))?;
            slot.set_mode(working)?;
        }
        if working != mode {
            self.modes.push((path.to_owned(), mode));
        }
        Ok(())
    }

    fn restore_link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        let (slot, stat) = self.stat(path)?;
        let now = stat.map(|stat| PathState::from_stat(&slot, &stat)).transpose()?;
        if matches!(&now, Some(PathState::Symlink { target: now }) if now.to_path() == target) {
            return Ok(());
        }
        self.clear(path)?;
        Ok(rustix::fs::symlinkat(target, &slot.folder, &slot.name)?)
    }

    fn restore_file(
        &mut self,
        path: &Path,
        image: u64,
        state: &PathState,
        inode: (u64, u64),
    ) -> io::Result<()> {
        let (slot, stat) = self.stat(path)?;
        let is_here = stat.is_some_and(|stat| inode_key(&stat) == inode);
        let (link, bytes) = (image_name(image, INODE), image_name(image, BYTES));
        if !is_here {
            if self.has_image(&link) {
                self.clear(path)?;
                let at = (&slot.folder, &slot.name);
                rustix::fs::linkat(&self.handle, &link, at.0, at.1, AtFlags::empty())?;
            } else if self.has_image(&bytes) {
                self.clear(path)?;
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let mode = Mode::from_raw_mode(0o600);
                drop(rustix::fs::openat(&slot.folder, &slot.name, flags, mode)?);
                self.filled.remove(&image);
            } else {
                return Err(io::Error::other("its contents were not recorded"));
            }
        }
        if self.has_image(&bytes) && self.filled.insert(image) {
            if is_here {
                self.recorder.record_contents(path);
            } else {
                self.recorder.record_linked(&slot)?;
            }
            self.fill(&slot, image, state)?;
        }
        let (PathState::File { mode, .. } | PathState::Special { mode }) = state else {
            return Ok(());
        };
        let now = slot.stat()?.map(|stat| PathState::from_stat(&slot, &stat)).transpose()?;
        if now.as_ref().is_some_and(|now| now.bytes() != state.bytes()) {
            return Err(io::Error::other("its contents were not recorded"));
        }
        if now.as_ref().and_then(PathState::mode).is_some_and(|now| now != *mode) {
            // The file may have another name, in a tree that was taken away.
            self.recorder.record_attributes(path);
            slot.set_mode(*mode)?;
        }
        Ok(())
    }

    /// Links a file that the command moved into the set again, before anything is taken away.
    fn find_moved(&self, item: &SetItem) {
        let (Some(moved_to), Some(BeforeState::File { image, inode, .. })) =
            (&item.moved_to, &item.before)
        else {
            return;
        };
        let link = image_name(*image, INODE);
        // If this fails, the file is not found when it is restored, which is reported.
        if !self.has_image(&link)
            && let Ok(slot) = self.recorder.roots().slot(&moved_to.to_path())
        {
            let from = (&slot.folder, &slot.name);
            let linked = rustix::fs::linkat(from.0, from.1, &self.handle, &link, AtFlags::empty());
            let stat = || rustix::fs::statat(&self.handle, &link, AtFlags::SYMLINK_NOFOLLOW);
            // Another process may have put a file there. The link is compared and not the place,
            // which can change at any time.
            if linked.is_ok() && !stat().is_ok_and(|stat| inode_key(&stat) == *inode) {
                let _ = rustix::fs::unlinkat(&self.handle, &link, AtFlags::empty());
            }
        }
    }

    fn fill_nameless(&mut self, image: u64, state: &PathState) -> io::Result<()> {
        let (link, bytes) = (image_name(image, INODE), image_name(image, BYTES));
        if !self.has_image(&link) {
            return Ok(());
        }
        let folder = Arc::new(rustix::io::fcntl_dupfd_cloexec(&self.handle, 0)?);
        let slot = PathSlot { folder, name: link.into() };
        self.recorder.record_linked(&slot)?;
        match state {
            _ if self.has_image(&bytes) => {
                self.filled.insert(image);
                self.fill(&slot, image, state)
            }
            PathState::File { mode, .. } => Ok(slot.set_mode(*mode)?),
            _ => Ok(()),
        }
    }

    /// Writes the stored contents into the file, so that all names of it get them.
    fn fill(&self, slot: &PathSlot, image: u64, state: &PathState) -> io::Result<()> {
        let PathState::File { mtime, mode, .. } = state else { return Ok(()) };
        let opened = match slot.open(OFlags::WRONLY) {
            Err(Errno::ACCESS) => {
                slot.set_mode(mode | 0o200)?;
                slot.open(OFlags::WRONLY)
            }
            opened => opened,
        };
        let to = File::from(opened?);
        file_copy::copy(&self.dir.open(&image_name(image, BYTES))?, &to)?;
        rustix::fs::fchmod(&to, Mode::from_raw_mode(*mode))?;
        let time = Timespec { tv_sec: mtime.0, tv_nsec: i64::try_from(mtime.1).unwrap_or(0) };
        let times = Timestamps { last_access: time, last_modification: time };
        Ok(rustix::fs::futimens(&to, &times)?)
    }

    fn restore_stored(&mut self, path: &Path, image: u64, mode: u32) -> io::Result<()> {
        let name = image_name(image, TREE);
        if !self.has_image(&name) {
            // Moved back before a crash.
            return Ok(());
        }
        let (slot, _) = self.stat(path)?;
        self.clear(path)?;
        rustix::fs::renameat(&self.handle, &name, &slot.folder, &slot.name)?;
        match slot.stat()? {
            Some(stat) if PathState::from_stat(&slot, &stat)? == (PathState::Folder { mode }) => {
                Ok(())
            }
            Some(stat)
                if matches!(PathState::from_stat(&slot, &stat)?, PathState::Folder { .. }) =>
            {
                Ok(slot.set_mode(mode)?)
            }
            _ => Ok(()),
        }
    }
}
