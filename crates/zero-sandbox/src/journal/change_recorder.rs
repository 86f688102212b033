//! [`ChangeRecorder`]: stores the state of paths before a command, or an undo, touches them.
//!
//! Each path is recorded once, when it is first touched, and nothing below a folder that the command
//! made. A failure here never makes the command fail: a change that cannot be recorded is a loss,
//! which the summary names.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType as KernelFileType, OFlags, Stat, StatxFlags};
use rustix::io::Errno;
use zero_core::{ByteSize, ToolError};

use super::change_set::{
    self, BeforeState, LOG, LOSSES_MAX, LogLine, SetHeader, SetLimits, SetOrigin, SetSummary,
    describe_loss, image_name, portable,
};
use super::file_copy;
use super::journal_store::JournalStore;
use super::open_set::{BYTES, INODE, OpenSet, TREE, exists};
use super::path_state::{PathSlot, PathState, TreeRoots, inode_key, list_names};
use super::set_completion::{SetEnding, complete_set};
use crate::command_capture::capture_guard::CaptureGuard;

/// Suffix of a copy that is not complete.
const BYTES_DRAFT: &str = "draft";

/// Most bytes that are copied before a command writes to them: the command waits for the copies.
const COPY_BYTES_MAX: ByteSize = ByteSize::megabytes(500);
/// Most paths of one set, and of one that is open for days.
const ITEMS_MAX: usize = 2_000_000;
const BESIDE_ITEMS_MAX: usize = 200_000;

/// Records the changes of one command. A set is stored only once something is recorded.
#[derive(Debug)]
pub struct ChangeRecorder {
    store: JournalStore,
    roots: TreeRoots,
    origin: SetOrigin,
    limits: SetLimits,
    set: Option<OpenSet>,
    losses: Vec<String>,
    /// The folder of the path that was recorded last, and how long it is not looked up again.
    last_folder: Option<KeptFolder>,
    folder_age_max: Duration,
    guard: Option<CaptureGuard>,
}

/// A folder that was opened a moment ago.
#[derive(Debug)]
struct KeptFolder {
    path: PathBuf,
    handle: Arc<OwnedFd>,
    since: Instant,
}

/// What is known of a path.
enum PathKnowledge {
    /// It has a line, with this index.
    Recorded(usize),
    /// It did not exist before the command.
    New,
    Unknown,
}

impl ChangeRecorder {
    pub(super) fn new(
        store: JournalStore,
        roots: TreeRoots,
        origin: SetOrigin,
        limits: SetLimits,
    ) -> Self {
        Self {
            store,
            roots,
            origin,
            limits,
            set: None,
            losses: Vec::new(),
            last_folder: None,
            folder_age_max: Duration::ZERO,
            guard: None,
        }
    }

    /// What tells later processes whether the command runs. Nothing may be recorded yet.
    pub(crate) fn set_guard(&mut self, guard: CaptureGuard) {
        self.guard = Some(guard);
    }

    /// The same command is recorded by another recorder.
    pub(crate) fn take_guard_of(&mut self, other: &Self) {
        self.guard.clone_from(&other.guard);
    }

    /// Does not look a folder up again for this long, unless [`Self::forget_folder`] says that another one
    /// may be there.
    pub(crate) fn keep_folder(&mut self, age_max: Duration) {
        self.folder_age_max = age_max;
    }

    /// Looks the next folder up.
    pub(crate) fn forget_folder(&mut self) {
        self.last_folder = None;
    }

    /// Continues a set that was left by a crash. `log` is its locked log.
    pub(super) fn resume(
        store: JournalStore,
        roots: TreeRoots,
        (id, log): (u64, File),
    ) -> io::Result<Self> {
        let dir = store.set_dir(id);
        let (header, lines) = change_set::read_log(&dir)?;
        let mut set = OpenSet::new(id, dir, header, log)?;
        let mut losses = Vec::new();
        for line in lines {
            match line {
                LogLine::Before { path, before } => {
                    set.insert(path.map(|path| path.to_path()), before);
                }
                LogLine::Complete { path } => set.mark_complete(&path.to_path()),
                LogLine::Loss { text } => losses.push(text),
                LogLine::Beside => set.header.origin.is_beside = true,
            }
        }
        let origin = set.header.origin.clone();
        let recorder = Self::new(store, roots, origin, SetLimits::NONE);
        Ok(Self { set: Some(set), losses, ..recorder })
    }

    /// Whether the command runs beside the user.
    pub fn is_beside(&self) -> bool {
        self.origin.is_beside
    }

    /// Says that the command runs beside the user from now on.
    pub fn set_beside(&mut self) {
        self.origin.is_beside = true;
        if let Some(set) = &mut self.set {
            set.header.origin.is_beside = true;
            // After a crash, it would count as one that the user waited for.
            let _ = set.append(&LogLine::Beside);
        }
    }

    /// Whether a path is in one of the recorded folders.
    pub fn covers(&self, path: &Path) -> bool {
        self.roots.contains(path) && !path.starts_with(self.store.own_folder())
    }

    /// Whether a path did not exist before, because the folder it is in did not.
    pub fn is_in_new_folder(&self, path: &Path) -> bool {
        matches!(self.knowledge(path), PathKnowledge::New)
    }

    /// Whether a path did not exist before.
    pub fn is_new(&self, path: &Path) -> bool {
        let Some(set) = &self.set else { return false };
        match self.knowledge(path) {
            PathKnowledge::New => true,
            PathKnowledge::Recorded(at) => {
                matches!(set.lines.get(at), Some((_, BeforeState::Absent)))
            }
            PathKnowledge::Unknown => false,
        }
    }

    /// The folder above a path that did not exist before. Unlike
    /// [`Self::is_in_new_folder`], one that was something else before does not count.
    pub(crate) fn made_folder_above(&self, path: &Path) -> Option<PathBuf> {
        let set = self.set.as_ref()?;
        let above = path.ancestors().skip(1);
        let mut above = above.take_while(|above| !self.roots.is_root(above));
        // The outermost recorded folder is the one that was made, and none is recorded below it.
        let made = above.find(|above| {
            let line = set.by_path.get(*above).and_then(|at| set.lines.get(*at));
            matches!(line, Some((_, BeforeState::Absent)))
        });
        made.map(Path::to_owned)
    }

    /// Records the state of a path before it is created, changed in its mode, replaced or removed.
    pub fn record(&mut self, path: &Path) {
        if let Err(error) = self.try_record(path) {
            self.add_loss(path, &error);
        }
    }

    /// Records a path that is about to be removed. An empty folder that is recorded now contains
    /// only new paths afterwards.
    pub fn record_removal(&mut self, path: &Path) {
        self.record(path);
        if self.is_empty_folder(path) {
            self.mark_complete(path);
        }
    }

    /// Records a path with everything below it, before it is moved.
    pub fn record_tree(&mut self, path: &Path) {
        if let Err(error) = self.try_record_tree(path) {
            self.add_loss(path, &error);
        }
    }

    /// Records a file and its contents, before it is written to.
    pub fn record_contents(&mut self, path: &Path) {
        if let Err(error) = self.try_record_contents(path) {
            self.add_loss(path, &error);
        }
    }

    /// Records a path whose mode is about to be changed.
    pub fn record_attributes(&mut self, path: &Path) {
        let recorded = self.try_record(path).and_then(|()| self.image_of_file(path).map(drop));
        if let Err(error) = recorded {
            self.add_loss(path, &error);
        }
    }

    /// Notes a change that could not be recorded.
    pub fn note_loss(&mut self, text: &str) {
        if self.losses.len() < LOSSES_MAX && !self.losses.iter().any(|known| known == text) {
            self.losses.push(text.to_owned());
            if let Some(set) = &mut self.set {
                let _ = set.append(&LogLine::Loss { text: text.to_owned() });
            }
        }
    }

    fn add_loss(&mut self, path: &Path, error: &io::Error) {
        self.note_loss(&describe_loss(path, error));
    }

    fn knowledge(&self, path: &Path) -> PathKnowledge {
        let Some(set) = &self.set else { return PathKnowledge::Unknown };
        if let Some(at) = set.by_path.get(path) {
            return PathKnowledge::Recorded(*at);
        }
        for above in path.ancestors().skip(1) {
            if self.roots.is_root(above) {
                break;
            }
            let Some((_, before)) = set.by_path.get(above).and_then(|at| set.lines.get(*at)) else {
                continue;
            };
            return match before {
                BeforeState::Folder { is_complete: false, .. } => PathKnowledge::Unknown,
                _ => PathKnowledge::New,
            };
        }
        PathKnowledge::Unknown
    }

    fn try_record(&mut self, path: &Path) -> io::Result<()> {
        if self.roots.is_root(path) || !matches!(self.knowledge(path), PathKnowledge::Unknown) {
            return Ok(());
        }
        let Some((slot, stat)) = self.read_slot(path)? else { return Ok(()) };
        let Some(stat) = stat else { return self.insert(Some(path), BeforeState::Absent) };
        let before = match PathState::from_stat(&slot, &stat)? {
            PathState::Symlink { target } => BeforeState::Symlink { target },
            PathState::Folder { mode } => BeforeState::Folder { mode, is_complete: false },
            state => {
                let image = self.store_image(&slot, &stat)?;
                // The file may have been changed through another name already.
                let known = self.set.as_ref().and_then(|set| set.states.get(&image).cloned());
                let state = known.unwrap_or(state);
                BeforeState::File { image, state, inode: inode_key(&stat) }
            }
        };
        self.insert(Some(path), before)
    }

    fn try_record_tree(&mut self, path: &Path) -> io::Result<()> {
        self.try_record(path)?;
        let is_folder = match self.knowledge(path) {
            PathKnowledge::Recorded(at) => self.set.as_ref().is_some_and(|set| {
                let before = set.lines.get(at).map(|(_, before)| before);
                matches!(before, Some(BeforeState::Folder { is_complete: false, .. }))
            }),
            PathKnowledge::New | PathKnowledge::Unknown => false,
        };
        if !is_folder {
            return Ok(());
        }
        let slot = self.roots.slot(path)?;
        let names = match slot.open(OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(folder) => list_names(&folder)?,
            // It was replaced since it was recorded, when its contents were recorded too.
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        for name in names {
            self.try_record_tree(&path.join(name))?;
        }
        self.mark_complete(path);
        Ok(())
    }

    fn try_record_contents(&mut self, path: &Path) -> io::Result<()> {
        self.try_record(path)?;
        match self.image_of_file(path)? {
            Some((image, slot, stat)) => self.copy_contents(image, &slot, &stat),
            None => Ok(()),
        }
    }

    /// The image of the file at a recorded path; `None` if the command made the file.
    fn image_of_file(&mut self, path: &Path) -> io::Result<Option<(u64, PathSlot, Stat)>> {
        let Some((slot, Some(stat))) = self.read_slot(path)? else { return Ok(None) };
        if KernelFileType::from_raw_mode(stat.st_mode) != KernelFileType::RegularFile {
            return Ok(None);
        }
        let inode = inode_key(&stat);
        let known = self.set.as_ref().and_then(|set| set.by_inode.get(&inode).copied());
        let image = match known {
            Some(image) => image,
            None if stat.st_nlink <= 1 => return Ok(None),
            // It has another name, which may be an older one.
            None => {
                let image = self.store_image(&slot, &stat)?;
                let state = PathState::from_stat(&slot, &stat)?;
                self.insert(None, BeforeState::File { image, state, inode })?;
                image
            }
        };
        Ok(Some((image, slot, stat)))
    }

    /// Records a file that only a link in a set names, before it is written to. For an undo.
    pub(super) fn record_linked(&mut self, slot: &PathSlot) -> io::Result<()> {
        let Some(stat) = slot.stat()? else { return Ok(()) };
        let inode = inode_key(&stat);
        let known = self.set.as_ref().and_then(|set| set.by_inode.get(&inode).copied());
        let image = match known {
            Some(image) => image,
            None => {
                let image = self.store_image(slot, &stat)?;
                let state = PathState::from_stat(slot, &stat)?;
                self.insert(None, BeforeState::File { image, state, inode })?;
                image
            }
        };
        self.copy_contents(image, slot, &stat)
    }

    /// The slot and stat of a path; `None` if its folder does not exist, so that nothing can be
    /// changed there.
    fn read_slot(&mut self, path: &Path) -> io::Result<Option<(PathSlot, Option<Stat>)>> {
        let slot = match self.kept_slot(path) {
            Some(slot) => slot,
            None => match self.roots.slot(path) {
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                Err(errno) => return Err(errno.into()),
                Ok(slot) => slot,
            },
        };
        let stat = slot.stat()?;
        Ok(Some((slot, stat)))
    }

    /// The slot of a path in the folder of the path before.
    fn kept_slot(&mut self, path: &Path) -> Option<PathSlot> {
        if self.folder_age_max.is_zero() || self.roots.is_root(path) {
            return None;
        }
        let (parent, name) = (path.parent()?, path.file_name()?);
        let is_kept = self.last_folder.as_ref().is_some_and(|kept| {
            kept.path.as_os_str() == parent.as_os_str()
                && kept.since.elapsed() < self.folder_age_max
        });
        if !is_kept {
            let handle = Arc::clone(&self.roots.slot(path).ok()?.folder);
            let (path, since) = (parent.to_owned(), Instant::now());
            self.last_folder = Some(KeptFolder { path, handle, since });
        }
        let folder = Arc::clone(&self.last_folder.as_ref()?.handle);
        Some(PathSlot { folder, name: name.to_owned() })
    }

    fn is_empty_folder(&self, path: &Path) -> bool {
        let opened =
            self.roots.slot(path).and_then(|slot| slot.open(OFlags::RDONLY | OFlags::DIRECTORY));
        opened.and_then(|folder| list_names(&folder)).is_ok_and(|names| names.is_empty())
    }

    fn mark_complete(&mut self, path: &Path) {
        let Some(set) = &mut self.set else { return };
        if set.by_path.contains_key(path) {
            set.mark_complete(path);
            let _ = set.append(&LogLine::Complete { path: portable(path) });
        }
    }

    fn insert(&mut self, path: Option<&Path>, before: BeforeState) -> io::Result<()> {
        let most = if self.origin.is_beside { BESIDE_ITEMS_MAX } else { ITEMS_MAX };
        let set = self.open_set()?;
        if set.lines.len() >= most {
            return Err(io::Error::other("too many files changed"));
        }
        set.append(&LogLine::Before { path: path.map(portable), before: before.clone() })?;
        set.insert(path.map(Path::to_owned), before);
        Ok(())
    }

    /// Links the file into the set, or copies it where it cannot be linked.
    fn store_image(&mut self, slot: &PathSlot, stat: &Stat) -> io::Result<u64> {
        let set = self.open_set()?;
        if let Some(image) = set.by_inode.get(&inode_key(stat)) {
            return Ok(*image);
        }
        let image = set.next_image;
        set.next_image += 1;
        let name = image_name(image, INODE);
        match rustix::fs::linkat(&slot.folder, &slot.name, &set.handle, &name, AtFlags::empty()) {
            Ok(()) => {}
            // Another file system or mount, too many links, or a file of another user.
            Err(_)
                if KernelFileType::from_raw_mode(stat.st_mode) == KernelFileType::RegularFile =>
            {
                self.copy_contents(image, slot, stat)?;
            }
            Err(errno) => return Err(errno.into()),
        }
        if let Some(set) = &mut self.set {
            set.by_inode.insert(inode_key(stat), image);
        }
        Ok(image)
    }

    fn copy_contents(&mut self, image: u64, slot: &PathSlot, stat: &Stat) -> io::Result<()> {
        // An undo keeps what it replaces, whatever its size.
        let limit = (self.limits != SetLimits::NONE)
            .then(|| COPY_BYTES_MAX.min(self.limits.bytes_max).get());
        let set = self.open_set()?;
        // A copy that was made before a crash is the older one.
        if !set.copied.insert(image) || exists(&set.dir, &image_name(image, BYTES)) {
            return Ok(());
        }
        // Holes take no space.
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        let exceeds = |most: u64| bytes > most.saturating_sub(set.copied_bytes);
        let problem = match limit {
            Some(most) if exceeds(most) => Some("too much to copy before it is written to"),
            // The limits of a command count all bytes written to the disk, by any process.
            Some(_) if exceeds(set.copy_room) => {
                Some("more than the disk of zero's state has room for")
            }
            _ => None,
        };
        if let Some(problem) = problem {
            let (size, name) = (ByteSize::bytes(bytes), slot.name.display());
            set.uncopied.insert(image, format!("`{name}` has {size}, {problem}"));
            return Ok(());
        }
        let from = match slot.open(OFlags::RDONLY) {
            // What an undo replaces is kept. Its mode is recorded, should a crash follow.
            Err(Errno::ACCESS) if limit.is_none() => open_closed_file(slot, stat)?,
            opened => opened?,
        };
        let from = File::from(from);
        let (draft, name) = (image_name(image, BYTES_DRAFT), image_name(image, BYTES));
        set.dir.remove(&draft)?;
        let to = set.dir.create_new(&draft)?;
        file_copy::copy(&from, &to)?;
        set.dir.rename(&draft, &name)?;
        set.copied_bytes += bytes;
        Ok(())
    }

    fn open_set(&mut self) -> io::Result<&mut OpenSet> {
        match &mut self.set {
            Some(_) => {}
            none => {
                // The command may need the space of changes that are kept beyond the limits.
                if self.limits != SetLimits::NONE {
                    self.store.expire_excess(&self.limits);
                }
                let (id, dir) = self.store.claim_set()?;
                let header = SetHeader {
                    time: jiff::Timestamp::now().to_string(),
                    origin: self.origin.clone(),
                    guard: self.guard.as_ref().map(|guard| guard.name().to_owned()),
                };
                let mut log = dir.create_new(LOG)?;
                log.lock()?;
                change_set::write_line(&mut log, &header)?;
                *none = Some(OpenSet::new(id, dir, header, log)?);
            }
        }
        self.set.as_mut().ok_or_else(|| io::ErrorKind::Other.into())
    }

    /// Takes whatever is at a path away, into the set. For an undo.
    pub(super) fn take(&mut self, path: &Path) -> io::Result<()> {
        let slot = self.roots.slot(path)?;
        let Some(stat) = slot.stat()? else { return Ok(()) };
        let image = match self.knowledge(path) {
            PathKnowledge::Recorded(at) => {
                match self.set.as_ref().and_then(|set| set.lines.get(at)) {
                    // Recorded before a crash, and perhaps not moved.
                    Some((_, BeforeState::Stored { image, .. })) => *image,
                    Some((_, BeforeState::Absent)) => return self.remove_tree(path),
                    // The path was replaced after a crash: its content is kept, but no entry refers
                    // to it.
                    _ => self.open_set()?.next_image,
                }
            }
            PathKnowledge::New => return self.remove_tree(path),
            PathKnowledge::Unknown => {
                let set = self.open_set()?;
                if !is_same_mount(&set.handle, &slot.folder) {
                    self.try_record_tree(path)?;
                    return self.remove_tree(path);
                }
                let image = set.next_image;
                let mode = stat.st_mode & 0o7777;
                // Computed before the move: files that are added from now on are not restored.
                let digest = self.roots.digest(path);
                self.insert(Some(path), BeforeState::Stored { image, mode, digest })?;
                image
            }
        };
        let set = self.open_set()?;
        set.next_image = set.next_image.max(image + 1);
        let name = image_name(image, TREE);
        if set.dir.path().join(&name).symlink_metadata().is_ok() {
            return self.remove_tree(path);
        }
        make_movable(&slot);
        Ok(rustix::fs::renameat(&slot.folder, &slot.name, &set.handle, &name)?)
    }

    /// Removes what the set has already, or what an interrupted undo made.
    fn remove_tree(&self, path: &Path) -> io::Result<()> {
        let slot = self.roots.slot(path)?;
        match slot.stat()? {
            None => Ok(()),
            Some(stat)
                if KernelFileType::from_raw_mode(stat.st_mode) == KernelFileType::Directory =>
            {
                make_movable(&slot);
                let folder = slot.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
                for name in list_names(&folder)? {
                    self.remove_tree(&path.join(name))?;
                }
                Ok(rustix::fs::unlinkat(&slot.folder, &slot.name, AtFlags::REMOVEDIR)?)
            }
            Some(_) => Ok(slot.unlink()?),
        }
    }

    /// The number of the set, if anything was recorded.
    pub fn id(&self) -> Option<u64> {
        self.set.as_ref().map(|set| set.id)
    }

    /// The folders whose paths are recorded.
    pub(super) fn roots(&self) -> &TreeRoots {
        &self.roots
    }

    /// Removes what was recorded.
    pub fn discard(self) {
        if let Some(set) = &self.set {
            self.store.remove_set(set.id);
        }
    }

    /// Compares the paths with their state before, and stores those that differ. Returns `None` if
    /// nothing changed. The command must have ended.
    pub fn finish(self) -> Result<Option<(u64, SetSummary)>, ToolError> {
        self.finish_as(SetEnding::Regular)
    }

    pub(super) fn finish_as(
        mut self,
        ending: SetEnding,
    ) -> Result<Option<(u64, SetSummary)>, ToolError> {
        self.record_new_in_complete_folders();
        let Self { store, roots, set, losses, limits, .. } = self;
        let Some(set) = set else {
            let summary = SetSummary { losses, ..SetSummary::default() };
            return Ok((!summary.losses.is_empty()).then_some((0, summary)));
        };
        let id = set.id;
        let finished = complete_set(set, &roots, losses, ending);
        let finished = finished.map_err(|error| store.set_error(id, &error))?;
        match finished {
            Some(mut summary) => {
                if store.is_check_due(id, summary.held_bytes, &limits) {
                    store.expire_sets(&limits, Some(id));
                }
                let (held, most) = (ByteSize::bytes(summary.held_bytes), limits.bytes_max);
                if held > most {
                    // The user is told before they are lost.
                    summary.excess = Some(format!(
                        "they take {held}, more than the {most} that are kept, and are removed with \
                         the next command that changes files"
                    ));
                }
                Ok(Some((id, summary)))
            }
            None => {
                store.remove_set(id);
                Ok(None)
            }
        }
    }

    /// Adds a line for everything new in folders that were recorded completely and exist again.
    fn record_new_in_complete_folders(&mut self) {
        let Some(set) = &self.set else { return };
        let complete = set.lines.iter().filter_map(|(path, before)| match before {
            BeforeState::Folder { is_complete: true, .. } => path.clone(),
            _ => None,
        });
        for folder in complete.collect::<Vec<_>>() {
            let opened = self
                .roots
                .slot(&folder)
                .and_then(|slot| slot.open(OFlags::RDONLY | OFlags::DIRECTORY));
            let Ok(names) = opened.and_then(|folder| list_names(&folder)) else { continue };
            for name in names {
                let path = folder.join(name);
                let is_known = self.set.as_ref().is_some_and(|set| set.by_path.contains_key(&path));
                if !is_known && let Err(error) = self.insert(Some(&path), BeforeState::Absent) {
                    self.add_loss(&path, &error);
                }
            }
        }
    }
}

/// Opens a file that its owner may not read.
fn open_closed_file(slot: &PathSlot, stat: &Stat) -> Result<OwnedFd, Errno> {
    let mode = stat.st_mode & 0o7777;
    slot.set_mode(mode | 0o400)?;
    let opened = slot.open(OFlags::RDONLY);
    slot.set_mode(mode)?;
    opened
}

/// A folder without permission to write cannot be moved, since its `..` changes.
fn make_movable(slot: &PathSlot) {
    if let Ok(Some(stat)) = slot.stat()
        && KernelFileType::from_raw_mode(stat.st_mode) == KernelFileType::Directory
        && stat.st_mode & 0o700 != 0o700
    {
        let _ = slot.set_mode(stat.st_mode & 0o7777 | 0o700);
    }
}

fn is_same_mount(a: impl AsFd, b: impl AsFd) -> bool {
    let mount = |fd: &dyn AsFd| {
        let facts = rustix::fs::statx(fd.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID);
        facts.ok().map(|facts| (facts.stx_dev_major, facts.stx_dev_minor, facts.stx_mnt_id))
    };
    mount(&a).is_some() && mount(&a) == mount(&b)
}
