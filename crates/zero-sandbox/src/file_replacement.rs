//! Replaces a file in one step: writes a temporary file beside it, flushes it, reads it back and
//! renames it.
//!
//! At any moment, also after a crash, the path shows either the old file or the new one.

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
use crate::file_facts::{FileFacts, FileType};
use crate::resolved_path::ResolvedPath;

/// A file that is about to be written.
pub(crate) struct FileReplacement<'a> {
    /// Where to write it.
    pub(crate) target: &'a ResolvedPath,
    /// Name of the temporary file in the same folder.
    pub(crate) temp: &'a str,
    /// The stat of what is there now; it must still be the same at the last moment.
    pub(crate) old: Option<&'a Stat>,
    /// Mode and owner; if `None`, those of the old file or the user's defaults.
    pub(crate) attributes: Option<FileAttributes>,
}

impl FileReplacement<'_> {
    /// Writes the file and moves it to its path. On failure nothing is left behind.
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
        // The mode of a link says nothing about the file that replaces it.
        let is_link = |stat: &&Stat| FileFacts::from_stat(stat).file_type == FileType::Symlink;
        let old = self.old.filter(|stat| !is_link(stat)).map(FileAttributes::from_stat);
        let attributes = self.attributes.or(old);
        // Without attributes to keep, the user's umask applies. With them, no other user may read
        // the file before they are set.
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
        // A new file never replaces one that another program created meanwhile.
        let rename = if self.old.is_some() { rename_over } else { rename_without_replace };
        rename(folder, self.temp, &self.target.name).map_err(|errno| self.write_error(errno))?;
        flush.run();
        Ok(facts)
    }

    /// Writes a link to the path.
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

/// Removes a folder if it is empty. One that is in use stays, which is not an error.
pub(crate) fn remove_empty_folder(target: &ResolvedPath) {
    let _ = rustix::fs::unlinkat(target.folder(), &target.name, AtFlags::REMOVEDIR);
}

/// Fails if the path has changed since the decision.
pub(crate) fn check_unchanged(target: &ResolvedPath, seen: Option<&Stat>) -> Result<(), ToolError> {
    let now = target.stat()?;
    if now.as_ref().map(FileFacts::from_stat) == seen.map(FileFacts::from_stat) {
        return Ok(());
    }
    let message = format!(
        "`{}` was changed by another program in this moment; read it again",
        target.display_path()
    );
    Err(ToolError::failed(ErrorReason::StaleFile, message)
        .with_detail("file", target.display_path()))
}

/// Reads the file back: a faulty disk is noticed before the old file is replaced.
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
            return Err(io::Error::other("the written data did not read back unchanged"));
        }
        rest = &rest[count..];
    }
}

/// Renames within a folder, replacing what has the name.
fn rename_over(folder: BorrowedFd<'_>, from: &str, to: &OsStr) -> Result<(), Errno> {
    rustix::fs::renameat(folder, from, folder, to)
}

/// Renames within a folder to an unused name. On a file system that cannot do that in one step, a
/// second name is linked instead, which also fails if the name is in use.
fn rename_without_replace(folder: BorrowedFd<'_>, from: &str, to: &OsStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(folder, from, folder, to, AtFlags::empty())?;
            rustix::fs::unlinkat(folder, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// Creates the folders that a new file needs, each below the previous one, and returns the
/// innermost.
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

/// Removes the folders that were created for a failed write; one that is in use by now stays.
fn remove_created_folders(target: &ResolvedPath) {
    for depth in (1..=target.missing_folders.len()).rev() {
        let folder: PathBuf = target.missing_folders[..depth].iter().collect();
        let _ = rustix::fs::unlinkat(target.folder(), folder, AtFlags::REMOVEDIR);
    }
}

/// Makes a change of a folder survive a power cut.
///
/// It is prepared before the change and cannot fail after it: a change that was made must not be
/// reported as failed. A folder that can be written but not read cannot be flushed.
struct FolderFlush(Option<OwnedFd>);

impl FolderFlush {
    fn prepare(folder: BorrowedFd<'_>) -> Self {
        // The descriptor at hand may be opened with `O_PATH`; flushing needs one that can be read.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self(rustix::fs::openat(folder, ".", flags, Mode::empty()).ok())
    }

    fn run(self) {
        if let Some(folder) = self.0 {
            let _ = rustix::fs::fsync(folder);
        }
    }
}
