//! Moves files that a command must not create out of the way, and keeps them.
//!
//! They are never deleted: the user may have created one of them at the same time, and no work may
//! be lost. No link is followed here, since the command may have created a link on the path as
//! well.

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

/// Most bytes that are copied from another disk; larger files stay there, under another name.
const COPY_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Most files and folders that are copied from another disk.
const COPY_ENTRIES_MAX: usize = 5_000;
/// How many names are tried for a slot in the quarantine.
const NAMES_MAX: u32 = 1_000;

/// What is at a path below a folder; links are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Nothing exists there.
    Missing,
    /// A file, a folder or something else that is not a link.
    Present,
    /// A link, at the path itself or above it.
    Link {
        /// The path of the link, relative to the folder.
        at: PathBuf,
        /// The target, as written in the link.
        target: PathBuf,
    },
}

/// Inspects `path`, which must be below `root`. This is done for more than a hundred paths around
/// each command, so nothing is allocated for it.
pub fn inspect(root: &Path, path: &Path) -> EntryKind {
    debug_assert!(path.starts_with(root), "{} is elsewhere", path.display());
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

/// Whether a path is an empty folder or an empty file, as placeholders are.
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

/// A folder of zero's own for files that were moved away.
#[derive(Clone, Debug)]
pub struct Quarantine {
    folder: StateDir,
}

impl Quarantine {
    /// Uses this folder, which is created when first needed.
    pub fn new(folder: StateDir) -> Self {
        Self { folder }
    }

    /// Moves what is at `relative` below `root` into the quarantine, and returns its new path. On
    /// another disk it is copied first; if that fails, it is renamed beside its old path.
    pub fn move_in(&self, root: &Path, relative: &Path) -> io::Result<PathBuf> {
        let (parent, name) = open_parent(root, relative)?;
        let (number, slot_path) = self.create_slot()?;
        let target =
            rustix::fs::open(&slot_path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut moved = rustix::fs::renameat(&parent, name, &target, name);
        if moved == Err(Errno::ACCESS) {
            // A folder without write permission cannot be moved, and the command may rely on that.
            moved = make_writable(&parent, name)
                .and_then(|()| rustix::fs::renameat(&parent, name, &target, name));
        }
        match moved {
            Ok(()) => return Ok(slot_path.join(name)),
            Err(Errno::XDEV) => {}
            Err(errno) => return Err(errno.into()),
        }
        // First moved away in one step, to a name that cannot be guessed and is not in use.
        let mut aside = name.to_owned();
        aside.push(format!(".taken-{number}"));
        let no_replace = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&parent, name, &parent, &aside, no_replace)?;
        let aside = root.join(relative.with_file_name(aside));
        let mut budget = QuarantineBudget { bytes: COPY_BYTES_MAX, entries: COPY_ENTRIES_MAX };
        match copy_tree(&aside, &slot_path.join(name), &mut budget)
            .and_then(|()| remove_copy(&aside))
        {
            Ok(()) => Ok(slot_path.join(name)),
            // Nothing is lost: all of it is still there.
            Err(_) => Ok(aside),
        }
    }

    fn create_slot(&self) -> io::Result<(String, PathBuf)> {
        self.folder.create()?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default().as_micros();
        for number in 0..NAMES_MAX {
            let name = format!("{now}-{number}");
            let slot_path = self.folder.path().join(&name);
            match DirBuilder::new().mode(0o700).create(&slot_path) {
                Ok(()) => return Ok((name, slot_path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no name in the quarantine is free"))
    }
}

/// Lets the owner write to a folder and to the folder `name` in it, unless that is a link.
fn make_writable(parent: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let with_owner = |stat: &rustix::fs::Stat| Mode::from_raw_mode(stat.st_mode) | Mode::RWXU;
    rustix::fs::fchmod(parent, with_owner(&rustix::fs::fstat(parent)?))?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(folder) => rustix::fs::fchmod(&folder, with_owner(&rustix::fs::fstat(&folder)?)),
        // Anything but a folder can be moved with permission on its parent alone.
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Creates a link at `relative` below `root`, where nothing exists.
pub fn create_link(root: &Path, relative: &Path, target: &Path) -> io::Result<()> {
    let (parent, name) = open_parent(root, relative)?;
    Ok(rustix::fs::symlinkat(target, parent, name)?)
}

/// Opens the parent folder of a path without following links.
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
        let too_much = || io::Error::new(io::ErrorKind::FileTooLarge, "too large to copy");
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

/// Removes what was copied. Its name was just made up, so no other file has it.
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
    fn empty_paths_differ_from_non_empty() {
        let fixture = QuarantineFixture::new();
        fs::create_dir(fixture.path("none")).unwrap();
        fs::write(fixture.path("empty"), "").unwrap();
        symlink("none", fixture.path("link")).unwrap();
        assert!(is_empty(&fixture.path("none")) && is_empty(&fixture.path("empty")));
        for name in ["work", "work/.vscode/tasks.json", "link", "missing"] {
            assert!(!is_empty(&fixture.path(name)), "{name}");
        }
    }

    #[test]
    fn quarantine_moves_folder_with_contents() {
        let fixture = QuarantineFixture::new();
        let kept = fixture.quarantine(&fixture.path("kept"), ".vscode").unwrap();
        assert!(kept.starts_with(fixture.path("kept")));
        assert_eq!(fs::read_to_string(kept.join("tasks.json")).unwrap(), "made");
        assert!(!fixture.path("work/.vscode").exists());
    }

    #[test]
    fn quarantine_copies_from_other_disk() {
        let fixture = QuarantineFixture::new();
        symlink("/etc/passwd", fixture.path("work/.vscode/link")).unwrap();
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let kept = fixture.quarantine(elsewhere.path(), ".vscode").unwrap();
        assert!(kept.starts_with(elsewhere.path()));
        assert_eq!(fs::read_to_string(kept.join("tasks.json")).unwrap(), "made");
        assert_eq!(fs::read_link(kept.join("link")).unwrap(), Path::new("/etc/passwd"));
        assert_eq!(fs::read_dir(fixture.path("work")).unwrap().count(), 0);
    }

    #[test]
    fn uncopyable_entry_is_renamed_in_place() {
        let fixture = QuarantineFixture::new();
        let large = File::create(fixture.path("work/.vscode/large")).unwrap();
        large.set_len(COPY_BYTES_MAX + 1).unwrap();
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let kept = fixture.quarantine(elsewhere.path(), ".vscode").unwrap();
        assert!(kept.starts_with(fixture.path("work")) && kept.join("large").exists(), "{kept:?}");
        assert!(!fixture.path("work/.vscode").exists());
    }

    #[test]
    fn quarantine_moves_link_without_following() {
        let fixture = QuarantineFixture::new();
        symlink(fixture.path("outside"), fixture.path("work/.github")).unwrap();
        let work = fixture.path("work");
        let kind = inspect(&work, &work.join(".github/workflows"));
        let target = fixture.path("outside");
        assert_eq!(kind, EntryKind::Link { at: ".github".into(), target });
        fixture.quarantine(&fixture.path("kept"), ".github/workflows").unwrap_err();
        assert!(fixture.path("outside/workflows/mine").exists());
        let kept = fixture.quarantine(&fixture.path("kept"), ".github").unwrap();
        assert!(kept.is_symlink() && fixture.path("outside/workflows/mine").exists());
        assert_eq!(inspect(&work, &work.join(".github/workflows")), EntryKind::Missing);
        create_link(&work, Path::new("new"), Path::new("there")).unwrap();
        create_link(&work, Path::new("new"), Path::new("there")).unwrap_err();
        assert_eq!(inspect(&work, &work.join(".vscode/tasks.json")), EntryKind::Present);
    }
}
