//! Putting a file in its place in one step: written beside, flushed, read back, renamed.
//!
//! Whoever looks at the path at any moment, also after a crash, sees the old file or the new one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use zero_core::{ErrorReason, ToolError};

use crate::file_attributes::{self, FileAttributes};
use crate::file_error;
use crate::file_facts::FileFacts;
use crate::resolved_path::ResolvedPath;

/// A file about to take a place.
pub(crate) struct FileReplacement<'a> {
    /// The place.
    pub(crate) target: &'a ResolvedPath,
    /// Name of the file while it is being written, in the same folder.
    pub(crate) temp: &'a str,
    /// What stands there now; it must still stand there at the last moment.
    pub(crate) old: Option<&'a Stat>,
    /// Mode and owner; without them, those of the old file or the person's defaults.
    pub(crate) attributes: Option<FileAttributes>,
}

impl FileReplacement<'_> {
    /// Writes the file and puts it in its place. On failure nothing is left behind.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<FileFacts, ToolError> {
        let made;
        let folder = if self.target.missing_folders.is_empty() {
            self.target.folder()
        } else {
            made = create_folders(self.target).map_err(|errno| self.write_error(errno))?;
            made.as_fd()
        };
        let result = self.write_in(folder, bytes);
        if result.is_err() {
            let _ = rustix::fs::unlinkat(folder, self.temp, AtFlags::empty());
            remove_created_folders(self.target);
        }
        result
    }

    fn write_in(&self, folder: BorrowedFd<'_>, bytes: &[u8]) -> Result<FileFacts, ToolError> {
        let attributes = self.attributes.or_else(|| self.old.map(FileAttributes::from_stat));
        // Without attributes to keep, the person's umask decides. With them, nobody else may look
        // before they are in force.
        let mode = if attributes.is_some() { 0o600 } else { 0o666 };
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file: File =
            rustix::fs::openat(folder, self.temp, flags, Mode::from_raw_mode(mode))
                .map_err(|errno| self.write_error(errno))?
                .into();
        file.write_all(bytes).map_err(|error| self.write_io_error(&error))?;
        if self.old.is_some() {
            self.copy_xattrs_from_old(folder, &file);
        }
        if let Some(attributes) = attributes {
            attributes.apply(&file).map_err(|errno| self.write_error(errno))?;
        }
        file.sync_all()
            .and_then(|()| verify(&mut file, bytes))
            .map_err(|error| self.write_io_error(&error))?;
        let facts = FileFacts::from_file(&file).map_err(|error| self.write_io_error(&error))?;
        let flush = FolderFlush::prepare(folder);
        check_unchanged(self.target, self.old)?;
        // A new file never replaces one that somebody else made meanwhile.
        let rename = if self.old.is_some() { rename_over } else { rename_without_replace };
        rename(folder, self.temp, &self.target.name).map_err(|errno| self.write_error(errno))?;
        flush.run();
        Ok(facts)
    }

    /// Puts a link in the place.
    pub(crate) fn write_link(&self, points_at: &Path) -> Result<(), ToolError> {
        let folder = self.target.folder();
        let flush = FolderFlush::prepare(folder);
        rustix::fs::symlinkat(points_at, folder, self.temp)
            .and_then(|()| rename_over(folder, self.temp, &self.target.name))
            .map_err(|errno| {
                let _ = rustix::fs::unlinkat(folder, self.temp, AtFlags::empty());
                file_error::from_errno("restore the link", self.target.display_path(), errno)
            })?;
        flush.run();
        Ok(())
    }

    fn copy_xattrs_from_old(&self, folder: BorrowedFd<'_>, file: &File) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        if let Ok(original) = rustix::fs::openat(folder, &self.target.name, flags, Mode::empty()) {
            file_attributes::copy_xattrs(original, file);
        }
    }

    fn write_error(&self, errno: Errno) -> ToolError {
        file_error::from_errno("write", self.target.display_path(), errno)
    }

    fn write_io_error(&self, error: &io::Error) -> ToolError {
        file_error::from_io("write", self.target.display_path(), error)
    }
}

/// Removes a file or link.
pub(crate) fn remove(target: &ResolvedPath) -> Result<(), ToolError> {
    let flush = FolderFlush::prepare(target.folder());
    rustix::fs::unlinkat(target.folder(), &target.name, AtFlags::empty())
        .map_err(|errno| file_error::from_errno("remove", target.display_path(), errno))?;
    flush.run();
    Ok(())
}

/// Refuses a file that the person may not write: that its folder lets us replace it is no leave.
pub(crate) fn check_writable(target: &ResolvedPath) -> Result<(), ToolError> {
    let access = rustix::fs::accessat(
        target.folder(),
        &target.name,
        rustix::fs::Access::WRITE_OK,
        AtFlags::EACCESS,
    );
    match access {
        Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
            Err(file_error::from_errno("write", target.display_path(), errno))
        }
        // Any other answer says nothing about leave; the write itself will tell.
        _ => Ok(()),
    }
}

/// Removes a folder if it is empty; one that is in use stays, and that is no error.
pub(crate) fn remove_empty_folder(target: &ResolvedPath) {
    let _ = rustix::fs::unlinkat(target.folder(), &target.name, AtFlags::REMOVEDIR);
}

/// Fails when what stands there is not what was decided about.
pub(crate) fn check_unchanged(target: &ResolvedPath, seen: Option<&Stat>) -> Result<(), ToolError> {
    let now = target.stat()?;
    if now.as_ref().map(FileFacts::from_stat) == seen.map(FileFacts::from_stat) {
        return Ok(());
    }
    let message = format!(
        "`{}` was changed by somebody else in this moment; read it again",
        target.display_path()
    );
    Err(ToolError::failed(ErrorReason::StaleFile, message)
        .with_detail("file", target.display_path()))
}

/// Reads back what was written: a disk that lies is noticed before the old file is given up.
fn verify(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.rewind()?;
    let mut chunk = [0_u8; 16 * 1024];
    let mut rest = bytes;
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 && rest.is_empty() {
            return Ok(());
        }
        if count == 0 || rest.len() < count || rest[..count] != chunk[..count] {
            return Err(io::Error::other("what was written did not read back the same"));
        }
        rest = &rest[count..];
    }
}

/// Renames within a folder, replacing what has the name.
fn rename_over(folder: BorrowedFd<'_>, from: &str, to: &OsStr) -> Result<(), Errno> {
    rustix::fs::renameat(folder, from, folder, to)
}

/// Renames within a folder to a name that nobody has. A file system that cannot do that in one
/// step gets a second name for the file instead, which fails in the same way when the name is taken.
fn rename_without_replace(folder: BorrowedFd<'_>, from: &str, to: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            rustix::fs::unlinkat(folder, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// Makes the folders a new file needs, each beneath the one before, and returns the innermost.
fn create_folders(target: &ResolvedPath) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = rustix::fs::openat(target.folder(), ".", flags, Mode::empty())?;
    for name in &target.missing_folders {
        match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        here = rustix::fs::openat(&here, name, flags, Mode::empty())?;
    }
    Ok(here)
}

/// Takes back the folders of a write that failed; one that is in use by now stays.
fn remove_created_folders(target: &ResolvedPath) {
    for depth in (1..=target.missing_folders.len()).rev() {
        let folder: PathBuf = target.missing_folders[..depth].iter().collect();
        let _ = rustix::fs::unlinkat(target.folder(), folder, AtFlags::REMOVEDIR);
    }
}

/// Makes a change to a folder survive a power cut.
///
/// It is prepared before the change and cannot fail after it: what is done is done, and must not be
/// reported as if it were not. A folder that may be written but not read cannot be flushed.
struct FolderFlush(Option<OwnedFd>);

impl FolderFlush {
    fn prepare(folder: BorrowedFd<'_>) -> Self {
        // The handle at hand may be a mere reference; flushing needs one that can be read.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self(rustix::fs::openat(folder, ".", flags, Mode::empty()).ok())
    }

    fn run(self) {
        if let Some(folder) = self.0 {
            let _ = rustix::fs::fsync(folder);
        }
    }
}
