//! [`ResolvedPath`]: a path with a fixed meaning, through which files are read and written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;
use zero_core::{ErrorReason, TargetPath, ToolError};

use crate::file_error;
use crate::file_facts::{FileFacts, FileType};
use crate::folder_handle::FolderHandle;
use crate::open_beneath;
use crate::workspace::WorkspaceRoot;

/// A path whose meaning is fixed: its folder is held open, so that renaming or replacing a folder
/// above cannot redirect it.
#[derive(Clone, Debug)]
pub struct ResolvedPath {
    target: TargetPath,
    shown: String,
    /// The innermost folder that exists.
    pub(crate) folder: Arc<OwnedFd>,
    /// Folders that would have to be created below it.
    pub(crate) missing_folders: Vec<OsString>,
    /// Name within its folder; `.` for a workspace root itself.
    pub(crate) name: OsString,
}

impl ResolvedPath {
    pub(crate) fn open(
        root: &WorkspaceRoot,
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
        // A target outside of every root may be above the folder we would open from.
        let relative = folder_path.strip_prefix(&root.path).unwrap_or(Path::new(""));
        let fail = |errno| file_error::from_errno("look up", &shown, errno);
        let folder = open_beneath::open(&root.dir, relative, folder_flags()).map_err(fail)?;
        refuse_procfs(&folder, &shown)?;
        Ok(Self { target, shown, folder: Arc::new(folder), missing_folders: missing, name })
    }

    /// The target that policy decides about.
    pub fn target(&self) -> &TargetPath {
        &self.target
    }

    /// The canonical path, without links.
    pub fn path(&self) -> &Path {
        self.target.canonical()
    }

    /// The path as it is shown to users and models.
    pub fn display_path(&self) -> &str {
        &self.shown
    }

    /// The facts of what is there now; `None` if it does not exist.
    pub fn facts(&self) -> Result<Option<FileFacts>, ToolError> {
        Ok(self.stat()?.map(|stat| FileFacts::from_stat(&stat)))
    }

    /// Refuses a file that the user may not write, even if permission on its folder would let us
    /// replace it, and a new file in a folder that they may not write.
    pub fn check_writable(&self) -> Result<(), ToolError> {
        let name = match self.stat()? {
            Some(_) => self.name.as_os_str(),
            None => OsStr::new("."),
        };
        let access = rustix::fs::Access::WRITE_OK;
        match rustix::fs::accessat(&self.folder, name, access, AtFlags::EACCESS) {
            Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
                Err(file_error::from_errno("write", &self.shown, errno))
            }
            // Other errors say nothing about permission; the write itself will report them.
            _ => Ok(()),
        }
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

    /// Opens it for reading. Only an ordinary file is opened: a pipe would block, and a device may
    /// act on being opened. The type is checked before and, on the descriptor, after opening.
    pub fn open_file(&self) -> Result<File, ToolError> {
        match self.facts()?.map(|facts| facts.file_type) {
            Some(FileType::File) => {}
            Some(other) => return Err(wrong_type_error(&self.shown, other)),
            None => return Err(self.not_found_error()),
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
            .map_err(|errno| file_error::from_errno("open", &self.shown, errno))?
            .into();
        let facts = FileFacts::from_file(&file)
            .map_err(|e| file_error::from_io("look up", &self.shown, &e))?;
        match facts.file_type {
            FileType::File => Ok(file),
            other => Err(wrong_type_error(&self.shown, other)),
        }
    }

    /// Opens it as a folder. Fails if it is anything else.
    pub fn open_folder(&self) -> Result<FolderHandle, ToolError> {
        match self.facts()?.map(|facts| facts.file_type) {
            Some(FileType::Directory) => {}
            Some(FileType::File | FileType::Symlink) => {
                let message = format!("`{}` is a file; name a folder", self.shown);
                return Err(ToolError::invalid(ErrorReason::NotDirectory, message)
                    .with_detail("file", self.shown.as_str()));
            }
            Some(FileType::Special) => {
                return Err(wrong_type_error(&self.shown, FileType::Special));
            }
            None => return Err(self.not_found_error()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())
            .map_err(|errno| file_error::from_errno("open", &self.shown, errno))?;
        Ok(FolderHandle::new(dir, self.path(), &self.shown))
    }

    /// The names beside it, for "did you mean"; at most `max` entries are read.
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

    /// The innermost folder that exists, as it is shown, and the first missing name in it.
    pub fn first_missing(&self) -> (String, String) {
        let name = self.missing_folders.first().unwrap_or(&self.name);
        let folder = match self.folder_display_path().to_string_lossy() {
            folder if folder.is_empty() => ".".to_owned(),
            folder => folder.into_owned(),
        };
        (folder, name.to_string_lossy().into_owned())
    }

    /// The path shown for one of [`ResolvedPath::siblings`].
    pub fn sibling_display_path(&self, name: &str) -> String {
        self.folder_display_path().join(name).display().to_string()
    }

    /// The innermost folder that exists, as it is shown.
    fn folder_display_path(&self) -> &Path {
        let above = self.missing_folders.len() + 1;
        Path::new(&self.shown).ancestors().nth(above).unwrap_or(Path::new(""))
    }

    /// The error for a path that does not exist.
    pub fn not_found_error(&self) -> ToolError {
        let message = format!("`{}` does not exist", self.shown);
        ToolError::not_found(ErrorReason::Io, message)
            .with_detail("file", self.shown.as_str())
            .with_detail("errno", "ENOENT")
    }

    pub(crate) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn folder_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY
}

pub(crate) fn refuse_procfs(folder: &OwnedFd, shown: &str) -> Result<(), ToolError> {
    #[cfg(target_os = "linux")]
    if rustix::fs::fstatfs(folder).is_ok_and(|fs| fs.f_type == rustix::fs::PROC_SUPER_MAGIC) {
        let message = format!(
            "`{shown}` is part of the kernel's process file system, not a file; use a command to read it"
        );
        return Err(
            ToolError::invalid(ErrorReason::SpecialFile, message).with_detail("file", shown)
        );
    }
    let _ = (folder, shown);
    Ok(())
}

pub(crate) fn wrong_type_error(shown: &str, found: FileType) -> ToolError {
    let (reason, message) = match found {
        FileType::Directory => (
            ErrorReason::IsDirectory,
            format!("`{shown}` is a folder; list it or name a file in it"),
        ),
        FileType::Symlink => (ErrorReason::BadPath, format!("`{shown}` is a link")),
        FileType::File | FileType::Special => (
            ErrorReason::SpecialFile,
            format!("`{shown}` is a pipe, socket or device, not a file; it was not opened"),
        ),
    };
    ToolError::invalid(reason, message).with_detail("file", shown)
}
