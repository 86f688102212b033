//! [`FolderHandle`]: an open folder, through which files below it are listed and opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use zero_core::ToolError;

use crate::file_error;
use crate::file_facts::{FileFacts, FileType};
use crate::open_beneath;
use crate::resolved_path::{folder_flags, refuse_procfs, wrong_type_error};

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its name within the folder.
    pub name: OsString,
    /// Its type; links are not followed.
    pub file_type: FileType,
    /// Size in bytes; zero for anything but ordinary files.
    pub size: u64,
}

/// An open folder. It stays the same folder even if its path is renamed or replaced.
#[derive(Clone, Debug)]
pub struct FolderHandle {
    dir: Arc<OwnedFd>,
    path: PathBuf,
    shown: String,
}

impl FolderHandle {
    pub(crate) fn new(dir: OwnedFd, path: &Path, shown: &str) -> Self {
        Self { dir: Arc::new(dir), path: path.to_owned(), shown: shown.to_owned() }
    }

    /// Opens a folder of zero's own, whose path no other user can change.
    pub fn open_own(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self::new(dir, path, &path.display().to_string()))
    }

    /// Opens a folder below this one, without following a link at any step.
    pub fn folder_beneath(&self, relative: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let dir = open_beneath::open(&self.dir, relative, flags)?;
        let path = self.path.join(relative);
        Ok(Self::new(dir, &path, &path.display().to_string()))
    }

    /// Removes a file of this folder, or a link; a missing one is not an error.
    pub fn remove_file(&self, name: &str) -> io::Result<()> {
        debug_assert!(!name.contains('/') && name != "..", "a file of this folder");
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file in this folder, which must not exist, for its owner only.
    pub fn create_file(&self, name: &str) -> io::Result<File> {
        debug_assert!(!name.contains('/') && name != "..", "a file of this folder");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(File::from(rustix::fs::openat(&self.dir, name, flags, mode)?))
    }

    /// Its canonical path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its entries, unsorted.
    pub fn entries(&self) -> Result<Vec<FolderEntry>, ToolError> {
        let fail = |errno| file_error::from_errno("list", &self.shown, errno);
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            // An entry that disappeared after the listing is skipped.
            if let Ok(stat) = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                let facts = FileFacts::from_stat(&stat);
                let size = if facts.file_type == FileType::File { facts.size } else { 0 };
                entries.push(FolderEntry {
                    name: name.to_owned(),
                    file_type: facts.file_type,
                    size,
                });
            }
        }
        Ok(entries)
    }

    /// Opens an ordinary file anywhere below this folder for reading, without following a link at
    /// any step. `None` if it is not an ordinary file, does not exist, or cannot be read.
    pub fn open_beneath(&self, relative: &Path) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(open_beneath::open(&self.dir, relative, flags).ok()?);
        (FileFacts::from_file(&file).ok()?.file_type == FileType::File).then_some(file)
    }

    /// The facts of a file below this folder, found without following a link at any step.
    pub fn facts_beneath(&self, relative: &Path) -> Option<FileFacts> {
        let (above, name) = (relative.parent()?, relative.file_name()?);
        let dir = open_beneath::open(&self.dir, above, folder_flags()).ok()?;
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileFacts::from_stat(&stat))
    }

    /// Opens the ordinary file that a name leads to, following links, for libraries that only take
    /// names. A relative name starts in this folder. Returns an error for what must not be read: a
    /// pipe or device, which may block or never end, or a file of the kernel's process file system.
    pub fn open_named(&self, name: &Path) -> Result<OpenedEntry, ToolError> {
        let Ok(stat) = rustix::fs::statat(&self.dir, name, AtFlags::empty()) else {
            return Ok(OpenedEntry::Nothing);
        };
        let shown = name.display().to_string();
        match FileFacts::from_stat(&stat).file_type {
            FileType::File => {}
            FileType::Directory => return Ok(OpenedEntry::Folder),
            other => return Err(wrong_type_error(&shown, other)),
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(&self.dir, name, flags, Mode::empty()) else {
            return Ok(OpenedEntry::Nothing);
        };
        refuse_procfs(&file, &shown)?;
        let file = File::from(file);
        match FileFacts::from_file(&file).map(|facts| facts.file_type) {
            Ok(FileType::File) => Ok(OpenedEntry::File(file)),
            Ok(other) => Err(wrong_type_error(&shown, other)),
            Err(_) => Ok(OpenedEntry::Nothing),
        }
    }
}

/// What a name leads to.
#[derive(Debug)]
pub enum OpenedEntry {
    /// Nothing, or nothing that can be read.
    Nothing,
    /// A folder, or a link to one; it is not opened.
    Folder,
    /// An ordinary file, open for reading.
    File(File),
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::{FinalLinkMode, Workspace};
    use std::os::unix::fs::symlink;
    use zero_core::ErrorReason;

    /// A folder `base` with one entry of each kind, beside a folder with a secret.
    fn open_fixture(temp: &Path) -> FolderHandle {
        std::fs::create_dir_all(temp.join("base/sub")).unwrap();
        std::fs::create_dir(temp.join("outside")).unwrap();
        for file in ["base/file", "base/sub/file", "base/sub/other", "outside/secret"] {
            std::fs::write(temp.join(file), "text").unwrap();
        }
        for (points_at, link) in
            [("file", "link"), ("../outside", "leak"), ("/dev/null", "null"), ("gone", "dangling")]
        {
            symlink(points_at, temp.join("base").join(link)).unwrap();
        }
        symlink("/proc/self/status", temp.join("base/proc")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(temp.join("base/pipe")).status();
        assert!(made.unwrap().success());
        let workspace = Workspace::open(&[temp.join("base")], None).unwrap();
        workspace.resolve(".", FinalLinkMode::Follow).unwrap().open_folder().unwrap()
    }

    #[test]
    fn open_beneath_opens_only_plain_files_without_links() {
        let temp = tempfile::tempdir().unwrap();
        let folder = open_fixture(temp.path());
        for (path, opens, looks_like) in [
            ("file", true, Some(FileType::File)),
            ("sub/file", true, Some(FileType::File)),
            ("sub/other", true, Some(FileType::File)),
            ("sub/gone", false, None),
            ("sub", false, Some(FileType::Directory)),
            ("pipe", false, Some(FileType::Special)),
            ("link", false, Some(FileType::Symlink)),
            ("leak", false, Some(FileType::Symlink)),
            ("leak/secret", false, None),
            ("../outside/secret", false, None),
        ] {
            let path = Path::new(path);
            assert_eq!(folder.open_beneath(path).is_some(), opens, "{path:?}");
            let facts = folder.facts_beneath(path);
            assert_eq!(facts.map(|facts| facts.file_type), looks_like, "{path:?}");
        }
    }

    #[test]
    fn changes_stay_in_the_folder_that_was_opened() {
        let temp = tempfile::tempdir().unwrap();
        open_fixture(temp.path());
        let base = FolderHandle::open_own(&temp.path().join("base")).unwrap();
        for bad in ["leak", "../outside", "sub/../../outside", "file", "gone"] {
            assert!(base.folder_beneath(Path::new(bad)).is_err(), "{bad}");
        }
        assert!(FolderHandle::open_own(&temp.path().join("base/leak")).is_err());
        let sub = base.folder_beneath(Path::new("sub")).unwrap();
        // Another process replaces it with a link to another folder.
        std::fs::rename(temp.path().join("base/sub"), temp.path().join("base/moved")).unwrap();
        symlink("../outside", temp.path().join("base/sub")).unwrap();
        assert_eq!(sub.entries().unwrap().len(), 2);
        sub.remove_file("secret").unwrap();
        sub.remove_file("file").unwrap();
        std::io::Write::write_all(&mut sub.create_file("made").unwrap(), b"made").unwrap();
        assert!(sub.create_file("other").is_err(), "it exists");
        assert_eq!(std::fs::read(temp.path().join("outside/secret")).unwrap(), b"text");
        assert!(!temp.path().join("outside/made").exists());
        assert_eq!(std::fs::read(temp.path().join("base/moved/made")).unwrap(), b"made");
        assert!(!temp.path().join("base/moved/file").exists());
        // A link is removed, not what it leads to.
        base.remove_file("leak").unwrap();
        assert!(temp.path().join("outside/secret").exists());
    }

    #[test]
    fn open_named_opens_only_plain_files() {
        let temp = tempfile::tempdir().unwrap();
        let folder = open_fixture(temp.path());
        for (name, expected) in [
            ("file", Ok("file")),
            ("link", Ok("file")),
            ("leak/secret", Ok("file")),
            ("sub", Ok("folder")),
            ("dangling", Ok("nothing")),
            ("gone", Ok("nothing")),
            ("pipe", Err(Some(ErrorReason::SpecialFile))),
            ("null", Err(Some(ErrorReason::SpecialFile))),
            #[cfg(target_os = "linux")]
            ("proc", Err(Some(ErrorReason::SpecialFile))),
        ] {
            let describe = |named| match named {
                OpenedEntry::Nothing => "nothing",
                OpenedEntry::Folder => "folder",
                OpenedEntry::File(_) => "file",
            };
            for name in [Path::new(name), &temp.path().join("base").join(name)] {
                let found = folder.open_named(name).map(describe).map_err(|error| error.reason());
                assert_eq!(found, expected, "{name:?}");
            }
        }
    }
}
