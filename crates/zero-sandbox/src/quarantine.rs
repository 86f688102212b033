//! Takes away what should not be there, and keeps it.
//!
//! What a command made that it must not make is moved out of the way, never deleted: a person may
//! have made it meanwhile, and nobody's work is lost. Nothing here follows a link, since whoever
//! made the thing may have made the way to it as well.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::open_beneath;
use crate::path_survey;
use crate::state_dir::{NO_LINK, StateDir};

/// Bytes that are copied from another disk; what is larger stays there, under another name.
const COPY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Files and folders that are copied from another disk.
const COPY_ENTRIES_MAX: usize = 5_000;
/// Names that are tried for what is kept.
const NAMES_MAX: u32 = 1_000;

/// What lies at a path beneath a folder, without following a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Nothing.
    Missing,
    /// A file, a folder or something else that is no link.
    Present,
    /// A link, there or on the way.
    Link {
        /// The link, beneath the folder.
        at: PathBuf,
        /// What it says.
        target: PathBuf,
    },
}

/// Looks at `path`, which lies beneath `root`. That is done for more than a hundred paths around each
/// command, so nothing is built to ask.
pub fn inspect(root: &Path, path: &Path) -> EntryKind {
    debug_assert!(path.starts_with(root), "{} lies elsewhere", path.display());
    let below = |path: &Path| path.strip_prefix(root).map(Path::to_owned).unwrap_or_default();
    let steps = path.ancestors().take_while(|step| *step != root).count();
    for step in (0..steps).rev().filter_map(|up| path.ancestors().nth(up)) {
        let Ok(stat) = rustix::fs::lstat(step) else { return EntryKind::Missing };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return match fs::read_link(step) {
                Ok(target) => EntryKind::Link { at: below(step), target },
                Err(_) => EntryKind::Missing,
            };
        }
    }
    EntryKind::Present
}

/// Whether a path is a folder or a file with nothing in it: what stands in for something is.
pub fn is_empty(path: &Path) -> bool {
    let Ok(stat) = rustix::fs::lstat(path) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => stat.st_size == 0,
        FileType::Directory => {
            matches!(
                path_survey::scan_folder(path, 0, |_, _| {}),
                path_survey::ScanOutcome::Whole(_)
            )
        }
        _ => false,
    }
}

/// A folder of zero's own for what was taken away.
#[derive(Clone, Debug)]
pub struct Quarantine {
    folder: StateDir,
}

impl Quarantine {
    /// Keeps things in this folder, which is made when first needed.
    pub fn new(folder: StateDir) -> Self {
        Self { folder }
    }

    /// Moves what lies at `relative` beneath `root` here, and says where it lies now. On another
    /// disk it is copied first; where that cannot be done it gets another name beside the old one.
    pub fn move_in(&self, root: &Path, relative: &Path) -> io::Result<PathBuf> {
        let (parent, name) = open_parent(root, relative)?;
        let (number, place) = self.create_slot()?;
        let target = rustix::fs::open(&place, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut moved = rustix::fs::renameat(&parent, name, &target, name);
        if moved == Err(Errno::ACCESS) {
            // A folder that nobody may write to cannot be moved, and whoever made it knows.
            moved = make_writable(&parent, name)
                .and_then(|()| rustix::fs::renameat(&parent, name, &target, name));
        }
        match moved {
            Ok(()) => return Ok(place.join(name)),
            Err(Errno::XDEV) => {}
            Err(errno) => return Err(errno.into()),
        }
        // First out of the way in one step, under a name that nobody can guess or has.
        let mut aside = name.to_owned();
        aside.push(format!(".taken-{number}"));
        let no_replace = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&parent, name, &parent, &aside, no_replace)?;
        let aside = root.join(relative.with_file_name(aside));
        let mut budget = QuarantineBudget { bytes: COPY_BYTES_MAX, entries: COPY_ENTRIES_MAX };
        match copy_tree(&aside, &place.join(name), &mut budget).and_then(|()| remove_copy(&aside)) {
            Ok(()) => Ok(place.join(name)),
            // Nothing is lost: all of it still lies there.
            Err(_) => Ok(aside),
        }
    }

    fn create_slot(&self) -> io::Result<(String, PathBuf)> {
        self.folder.create()?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_micros();
        for number in 0..NAMES_MAX {
            let name = format!("{now}-{number}");
            let place = self.folder.path().join(&name);
            match DirBuilder::new().mode(0o700).create(&place) {
                Ok(()) => return Ok((name, place)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name is free for what is kept"))
    }
}

/// Lets its owner write to a folder and to what lies in it under this name, unless that is a link.
fn make_writable(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let with_owner = |stat: &rustix::fs::Stat| Mode::from_raw_mode(stat.st_mode) | Mode::RWXU;
    rustix::fs::fchmod(parent, with_owner(&rustix::fs::fstat(parent)?))?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(folder) => rustix::fs::fchmod(&folder, with_owner(&rustix::fs::fstat(&folder)?)),
        // What is no folder is moved by right of the one it lies in.
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Makes a link at `relative` beneath `root`, where nothing is.
pub fn create_link(root: &Path, relative: &Path, target: &Path) -> io::Result<()> {
    let (parent, name) = open_parent(root, relative)?;
    Ok(rustix::fs::symlinkat(target, parent, name)?)
}

/// Opens the folder in which something lies, by a way without links.
fn open_parent<'a>(root: &Path, relative: &'a Path) -> io::Result<(OwnedFd, &'a OsStr)> {
    let name = relative.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags | OFlags::PATH, Mode::empty())?;
    let above = relative.parent().unwrap_or(Path::new(""));
    Ok((open_beneath::open(&root, above, flags | OFlags::RDONLY)?, name))
}

struct QuarantineBudget {
    bytes: u64,
    entries: usize,
}

#[expect(clippy::disallowed_methods, reason = "what a command made, on its way to zero's folder")]
fn copy_tree(from: &Path, to: &Path, budget: &mut QuarantineBudget) -> io::Result<()> {
    let mut open = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = open.pop() {
        let too_much = || io::Error::new(io::ErrorKind::FileTooLarge, "more than is copied");
        budget.entries = budget.entries.checked_sub(1).ok_or_else(too_much)?;
        let facts = from.symlink_metadata()?;
        if facts.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if facts.is_dir() {
            DirBuilder::new().mode(0o700).create(&to)?;
            for entry in fs::read_dir(&from)? {
                let name = entry?.file_name();
                open.push((from.join(&name), to.join(&name)));
                if open.len() > budget.entries {
                    return Err(too_much());
                }
            }
        } else if facts.is_file() {
            let source = OpenOptions::new().read(true).custom_flags(NO_LINK).open(&from)?;
            let mut target =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to)?;
            let copied = io::copy(&mut source.take(budget.bytes + 1), &mut target)?;
            budget.bytes = budget.bytes.checked_sub(copied).ok_or_else(too_much)?;
            target.sync_all()?;
        } else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "neither file nor folder"));
        }
    }
    Ok(())
}

/// Removes what was copied. Its name is one that was just made up, so nothing else has it.
#[expect(clippy::disallowed_methods, reason = "what was copied a moment ago")]
fn remove_copy(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::symlink;

    struct QuarantineFixture {
        temp: tempfile::TempDir,
    }

    impl QuarantineFixture {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            for folder in ["work/.vscode", "outside/workflows"] {
                fs::create_dir_all(temp.path().join(folder)).unwrap();
            }
            fs::write(temp.path().join("work/.vscode/tasks.json"), "made").unwrap();
            fs::write(temp.path().join("outside/workflows/mine"), "mine").unwrap();
            Self { temp }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().join(name)
        }

        fn quarantine(&self, folder: &Path, name: &str) -> io::Result<PathBuf> {
            Quarantine::new(StateDir::new(folder)).move_in(&self.path("work"), Path::new(name))
        }
    }

    #[test]
    fn empty_paths_are_told_from_non_empty() {
        let place = QuarantineFixture::new();
        fs::create_dir(place.path("none")).unwrap();
        fs::write(place.path("empty"), "").unwrap();
        symlink("none", place.path("link")).unwrap();
        assert!(is_empty(&place.path("none")) && is_empty(&place.path("empty")));
        for name in ["work", "work/.vscode/tasks.json", "link", "missing"] {
            assert!(!is_empty(&place.path(name)), "{name}");
        }
    }

    #[test]
    fn quarantine_moves_folder_with_contents() {
        let place = QuarantineFixture::new();
        let kept = place.quarantine(&place.path("kept"), ".vscode").unwrap();
        assert!(kept.starts_with(place.path("kept")));
        assert_eq!(fs::read_to_string(kept.join("tasks.json")).unwrap(), "made");
        assert!(!place.path("work/.vscode").exists());
    }

    #[test]
    fn quarantine_copies_from_other_disk() {
        let place = QuarantineFixture::new();
        symlink("/etc/passwd", place.path("work/.vscode/link")).unwrap();
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let kept = place.quarantine(elsewhere.path(), ".vscode").unwrap();
        assert!(kept.starts_with(elsewhere.path()));
        assert_eq!(fs::read_to_string(kept.join("tasks.json")).unwrap(), "made");
        assert_eq!(fs::read_link(kept.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert_eq!(fs::read_dir(place.path("work")).unwrap().count(), 0);
    }

    #[test]
    fn uncopyable_entry_is_renamed_in_place() {
        let place = QuarantineFixture::new();
        let large = File::create(place.path("work/.vscode/large")).unwrap();
        large.set_len(COPY_BYTES_MAX + 1).unwrap();
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let kept = place.quarantine(elsewhere.path(), ".vscode").unwrap();
        assert!(kept.starts_with(place.path("work")) && kept.join("large").exists(), "{kept:?}");
        assert!(!place.path("work/.vscode").exists());
    }

    #[test]
    fn quarantine_moves_link_without_following() {
        let place = QuarantineFixture::new();
        symlink(place.path("outside"), place.path("work/.github")).unwrap();
        let work = place.path("work");
        let standing = inspect(&work, &work.join(".github/workflows"));
        let target = place.path("outside");
        assert_eq!(standing, EntryKind::Link { at: ".github".into(), target });
        place.quarantine(&place.path("kept"), ".github/workflows").unwrap_err();
        assert!(place.path("outside/workflows/mine").exists());
        let kept = place.quarantine(&place.path("kept"), ".github").unwrap();
        assert!(kept.is_symlink() && place.path("outside/workflows/mine").exists());
        assert_eq!(inspect(&work, &work.join(".github/workflows")), EntryKind::Missing);
        create_link(&work, Path::new("new"), Path::new("there")).unwrap();
        create_link(&work, Path::new("new"), Path::new("there")).unwrap_err();
        assert_eq!(inspect(&work, &work.join(".vscode/tasks.json")), EntryKind::Present);
    }
}
