//! A path whose meaning is settled, held by the folder it lies in.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use zero_core::{Reason, TargetPath, ToolError};

use crate::beneath;
use crate::file_error;
use crate::workspace::Root;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// An ordinary file.
    File,
    /// A folder.
    Directory,
    /// A link.
    Symlink,
    /// A pipe, socket or device.
    Special,
}

impl FileType {
    fn of(kind: rustix::fs::FileType) -> Self {
        match kind {
            rustix::fs::FileType::RegularFile => Self::File,
            rustix::fs::FileType::Directory => Self::Directory,
            rustix::fs::FileType::Symlink => Self::Symlink,
            _ => Self::Special,
        }
    }
}

/// What is known of a file without reading it. Two equal ones mean the same, unchanged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// What it is.
    pub file_type: FileType,
    /// Size in bytes.
    pub size: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub modified_ns: i128,
    device: u64,
    inode: u64,
}

impl FileFacts {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            file_type: FileType::of(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ns: i128::from(stat.st_mtime) * 1_000_000_000 + stat.st_mtime_nsec as i128,
            device: stat.st_dev,
            inode: stat.st_ino,
        }
    }

    /// The facts of a file held open.
    pub fn of_file(file: &File) -> std::io::Result<Self> {
        Ok(Self::of(&rustix::fs::fstat(file)?))
    }

    /// When it was last changed.
    pub fn modified(&self) -> SystemTime {
        let seconds = u64::try_from(self.modified_ns / 1_000_000_000).unwrap_or(0);
        UNIX_EPOCH + Duration::from_secs(seconds)
    }
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub file_type: FileType,
    /// Size in bytes, for ordinary files.
    pub size: u64,
}

/// A path whose meaning is settled: the folder it lies in is held open, so nothing that happens to
/// the names above can redirect it.
#[derive(Clone, Debug)]
pub struct Located {
    target: TargetPath,
    shown: String,
    /// The innermost folder that exists.
    pub(crate) folder: Arc<OwnedFd>,
    /// Folders that would have to be made below it.
    pub(crate) missing_folders: Vec<OsString>,
    /// Name within its folder; `.` for a root itself.
    pub(crate) name: OsString,
}

impl Located {
    pub(crate) fn open(
        root: &Root,
        target: TargetPath,
        shown: String,
        existing: &Path,
        mut missing: Vec<OsString>,
    ) -> Result<Self, ToolError> {
        let (folder_path, name) = match missing.pop() {
            Some(name) => (existing, name),
            None if existing == root.path => (existing, OsString::from(".")),
            None => (
                existing.parent().unwrap_or(existing),
                existing.file_name().unwrap_or(OsStr::new(".")).to_owned(),
            ),
        };
        // A target outside every root may lie above the folder we would open from.
        let relative = folder_path.strip_prefix(&root.path).unwrap_or(Path::new(""));
        let fail = |errno| file_error::from_errno("look up", &shown, errno);
        let folder = beneath::open(&root.dir, relative, folder_flags()).map_err(fail)?;
        refuse_procfs(&folder, &shown)?;
        Ok(Self { target, shown, folder: Arc::new(folder), missing_folders: missing, name })
    }

    /// What policy decides about.
    pub fn target(&self) -> &TargetPath {
        &self.target
    }

    /// The canonical path.
    pub fn path(&self) -> &Path {
        self.target.canonical()
    }

    /// The path as it is shown to people and models.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// What stands there now; `None` when nothing does.
    pub fn facts(&self) -> Result<Option<FileFacts>, ToolError> {
        Ok(self.stat()?.map(|stat| FileFacts::of(&stat)))
    }

    pub(crate) fn stat(&self) -> Result<Option<Stat>, ToolError> {
        if !self.missing_folders.is_empty() {
            return Ok(None);
        }
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(file_error::from_errno("look up", &self.shown, errno)),
        }
    }

    /// Opens it for reading. Only an ordinary file is opened: a pipe would block, a device may act
    /// on being opened. The kind is looked at before and, on the handle, after.
    pub fn open_file(&self) -> Result<File, ToolError> {
        match self.facts()?.map(|facts| facts.file_type) {
            Some(FileType::File) => {}
            Some(other) => return Err(wrong_type(&self.shown, other)),
            None => return Err(self.not_found()),
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
            .map_err(|errno| file_error::from_errno("open", &self.shown, errno))?
            .into();
        let facts = FileFacts::of_file(&file)
            .map_err(|e| file_error::from_io("look up", &self.shown, &e))?;
        match facts.file_type {
            FileType::File => Ok(file),
            other => Err(wrong_type(&self.shown, other)),
        }
    }

    /// Opens it as a folder.
    pub fn open_folder(&self) -> Result<Folder, ToolError> {
        match self.facts()?.map(|facts| facts.file_type) {
            Some(FileType::Directory) => {}
            Some(FileType::File | FileType::Symlink) => {
                let message = format!("`{}` is a file; name a folder", self.shown);
                return Err(ToolError::invalid(Reason::NotDirectory, message)
                    .with("file", self.shown.as_str()));
            }
            Some(FileType::Special) => return Err(wrong_type(&self.shown, FileType::Special)),
            None => return Err(self.not_found()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
            .map_err(|errno| file_error::from_errno("open", &self.shown, errno))?;
        Ok(Folder { dir: Arc::new(dir), path: self.path().to_owned(), shown: self.shown.clone() })
    }

    /// Names of what stands beside it, for "did you mean"; at most `max` of them are looked at.
    pub fn siblings(&self, max: usize) -> Vec<String> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listing = rustix::fs::openat(&self.folder, ".", flags, Mode::empty())
            .and_then(rustix::fs::Dir::new);
        let Ok(listing) = listing else { return Vec::new() };
        listing
            .take(max)
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != "..")
            .collect()
    }

    /// The innermost folder that exists, as it is shown, and the name looked for in it.
    pub fn first_missing(&self) -> (String, String) {
        let name = self.missing_folders.first().unwrap_or(&self.name);
        let folder = match self.shown_folder().to_string_lossy() {
            folder if folder.is_empty() => ".".to_owned(),
            folder => folder.into_owned(),
        };
        (folder, name.to_string_lossy().into_owned())
    }

    /// The path shown for one of [`Located::siblings`].
    pub fn shown_sibling(&self, name: &str) -> String {
        self.shown_folder().join(name).display().to_string()
    }

    /// The innermost folder that exists, as it is shown.
    fn shown_folder(&self) -> &Path {
        let above = self.missing_folders.len() + 1;
        Path::new(&self.shown).ancestors().nth(above).unwrap_or(Path::new(""))
    }

    /// The error for a path at which nothing stands.
    pub fn not_found(&self) -> ToolError {
        let message = format!("`{}` does not exist", self.shown);
        ToolError::not_found(Reason::Io, message).with("file", self.shown.as_str())
    }

    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

/// A folder held open for walking.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: Arc<OwnedFd>,
    path: PathBuf,
    shown: String,
}

impl Folder {
    /// Its canonical path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it holds, unsorted.
    pub fn entries(&self) -> Result<Vec<DirEntry>, ToolError> {
        let fail = |errno| file_error::from_errno("list", &self.shown, errno);
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            // An entry that vanished between the listing and the look is simply gone.
            if let Ok(stat) = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                let facts = FileFacts::of(&stat);
                let size = if facts.file_type == FileType::File { facts.size } else { 0 };
                entries.push(DirEntry { name: name.to_owned(), file_type: facts.file_type, size });
            }
        }
        Ok(entries)
    }

    /// Opens an ordinary file somewhere beneath this folder for reading, without following a link
    /// at any step. `None` when it is not an ordinary file, is gone, or may not be read.
    pub fn open_beneath(&self, relative: &Path) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(beneath::open(&self.dir, relative, flags).ok()?);
        (FileFacts::of_file(&file).ok()?.file_type == FileType::File).then_some(file)
    }

    /// What is known of something beneath this folder, found without following a link at any step.
    pub fn facts_beneath(&self, relative: &Path) -> Option<FileFacts> {
        Lookout::new(self).facts(relative)
    }

    /// Opens the ordinary file that a name leads to, links followed, as a library will that takes
    /// nothing but names. A relative name starts here. An error is what must not be read: a pipe
    /// or device, which may block or never end, or one of the kernel's views of processes.
    pub fn open_named(&self, name: &Path) -> Result<Named, ToolError> {
        let Ok(stat) = rustix::fs::statat(&self.dir, name, AtFlags::empty()) else {
            return Ok(Named::Nothing);
        };
        let shown = name.display().to_string();
        match FileFacts::of(&stat).file_type {
            FileType::File => {}
            FileType::Directory => return Ok(Named::Folder),
            other => return Err(wrong_type(&shown, other)),
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(&self.dir, name, flags, Mode::empty()) else {
            return Ok(Named::Nothing);
        };
        refuse_procfs(&file, &shown)?;
        let file = File::from(file);
        match FileFacts::of_file(&file).map(|facts| facts.file_type) {
            Ok(FileType::File) => Ok(Named::File(file)),
            Ok(other) => Err(wrong_type(&shown, other)),
            Err(_) => Ok(Named::Nothing),
        }
    }
}

/// What a name leads to.
#[derive(Debug)]
pub enum Named {
    /// Nothing, or nothing that may be read.
    Nothing,
    /// A folder.
    Folder,
    /// An ordinary file, open for reading.
    File(File),
}

/// Looks at one thing after another beneath a folder, without following a link at any step.
///
/// The folder it looked in last stays open: neighbours then take one system call each, and a
/// shorter one than their whole path would.
#[derive(Debug)]
pub struct Lookout<'a> {
    folder: &'a Folder,
    last: Option<(PathBuf, OwnedFd)>,
}

impl<'a> Lookout<'a> {
    /// Looks beneath `folder`.
    pub fn new(folder: &'a Folder) -> Self {
        Self { folder, last: None }
    }

    /// What is known of something; `None` when it is gone or a link leads to it.
    pub fn facts(&mut self, relative: &Path) -> Option<FileFacts> {
        let (above, name) = (relative.parent()?, relative.file_name()?);
        let is_near = self.last.as_ref().is_some_and(|(last, _)| last == above);
        if !is_near {
            let dir = beneath::open(&self.folder.dir, above, folder_flags()).ok()?;
            self.last = Some((above.to_owned(), dir));
        }
        let (_, dir) = self.last.as_ref()?;
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileFacts::of(&stat))
    }
}

#[cfg(target_os = "linux")]
fn folder_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY
}

#[cfg(not(target_os = "linux"))]
fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY
}

fn refuse_procfs(folder: &OwnedFd, shown: &str) -> Result<(), ToolError> {
    #[cfg(target_os = "linux")]
    if rustix::fs::fstatfs(folder).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC) {
        let message = format!(
            "`{shown}` is the kernel's view of processes, not a file; use a command to look at it"
        );
        return Err(ToolError::invalid(Reason::SpecialFile, message).with("file", shown));
    }
    let _ = (folder, shown);
    Ok(())
}

fn wrong_type(shown: &str, found: FileType) -> ToolError {
    let (reason, message) = match found {
        FileType::Directory => {
            (Reason::IsDirectory, format!("`{shown}` is a folder; list it or name a file in it"))
        }
        FileType::Symlink => (Reason::BadPath, format!("`{shown}` is a link")),
        FileType::File | FileType::Special => (
            Reason::SpecialFile,
            format!("`{shown}` is a pipe, socket or device, not a file; it was not opened"),
        ),
    };
    ToolError::invalid(reason, message).with("file", shown)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::{LastLink, Workspace};
    use std::os::unix::fs::symlink;

    /// A folder `base` with one of everything, beside a folder with a secret.
    fn folder(temp: &Path) -> Folder {
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
        workspace.locate(".", LastLink::Follow).unwrap().open_folder().unwrap()
    }

    #[test]
    fn only_an_ordinary_file_is_opened_and_no_link_is_followed_on_the_way() {
        let temp = tempfile::tempdir().unwrap();
        let folder = folder(temp.path());
        let mut lookout = Lookout::new(&folder);
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
            assert_eq!(lookout.facts(path), facts, "{path:?}");
        }
    }

    #[test]
    fn a_name_is_opened_when_it_leads_to_an_ordinary_file() {
        let temp = tempfile::tempdir().unwrap();
        let folder = folder(temp.path());
        for (name, expected) in [
            ("file", Ok("file")),
            ("link", Ok("file")),
            ("leak/secret", Ok("file")),
            ("sub", Ok("folder")),
            ("dangling", Ok("nothing")),
            ("gone", Ok("nothing")),
            ("pipe", Err(Some(Reason::SpecialFile))),
            ("null", Err(Some(Reason::SpecialFile))),
            #[cfg(target_os = "linux")]
            ("proc", Err(Some(Reason::SpecialFile))),
        ] {
            let word = |named| match named {
                Named::Nothing => "nothing",
                Named::Folder => "folder",
                Named::File(_) => "file",
            };
            for name in [Path::new(name), &temp.path().join("base").join(name)] {
                let found = folder.open_named(name).map(word).map_err(|error| error.reason());
                assert_eq!(found, expected, "{name:?}");
            }
        }
    }
}
