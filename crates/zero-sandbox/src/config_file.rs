//! Reads and writes configuration files: the user's own, and those of a workspace.
//!
//! The two are trusted differently. Users may keep their own file anywhere and link to it, so links
//! are followed, also for writing. A file of the workspace came with a checkout: it must be below
//! the workspace's folder without a link on the way, or a repository could make zero read or
//! overwrite any file. Both must be ordinary files of limited size, and both are replaced in one
//! step: a temporary file is written, flushed and renamed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::canonical_path::{self, FinalLinkMode};
use crate::file_attributes::{self, FileAttributes};
use crate::file_facts::{FileFacts, FileType};
use crate::file_lock::{self, LockError};
use crate::{StateDir, open_beneath};

/// Why a configuration file could not be read or written. The messages start with "it", for a
/// caller that names the file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigFileError {
    /// It is a link, and links are not followed here.
    #[error("it is a link")]
    Link,
    /// It is a link whose target does not exist.
    #[error("it is a link whose target does not exist")]
    Dangling,
    /// Its folder is a link or a file.
    #[error("its folder is a link or a file")]
    NoFolder,
    /// It is a folder, pipe, socket or device.
    #[error("it is not an ordinary file")]
    NotAFile,
    /// It is larger than the limit.
    #[error("it is larger than {} bytes", bytes_max)]
    TooLarge {
        /// The limit in bytes.
        bytes_max: u64,
    },
    /// Another process of zero held the lock during the whole wait.
    #[error("another zero is changing it")]
    Locked,
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for ConfigFileError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Link,
            // The kernel also returns this for a link if it was to open a folder.
            Errno::NOTDIR => Self::NoFolder,
            errno => Self::System(errno.into()),
        }
    }
}

/// A configuration file, by its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigFile {
    /// The user's own, at an absolute path; links are followed.
    Own(PathBuf),
    /// A file of a workspace, below the folder `root`; links below that are not followed.
    Beneath {
        /// The workspace's folder.
        root: PathBuf,
        /// The path below `root`.
        relative: PathBuf,
    },
}

impl ConfigFile {
    /// Its full path.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Own(path) => path.clone(),
            Self::Beneath { root, relative } => root.join(relative),
        }
    }

    /// Reads the file; `None` if it does not exist.
    pub fn read(&self, bytes_max: u64) -> Result<Option<Vec<u8>>, ConfigFileError> {
        let Some(location) = self.open_location()? else { return self.check_absent() };
        let Some(stat) = location.stat()? else { return self.check_absent() };
        refuse_special(&stat)?;
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file =
            File::from(rustix::fs::openat(&location.folder, &location.name, flags, Mode::empty())?);
        // It may have been replaced since the check above.
        refuse_special(&rustix::fs::fstat(&file)?)?;
        let mut bytes = Vec::new();
        file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(ConfigFileError::TooLarge { bytes_max });
        }
        Ok(Some(bytes))
    }

    /// Handles a missing file. A dangling link is an error: its target may be on a disk that is not
    /// mounted now.
    fn check_absent(&self) -> Result<Option<Vec<u8>>, ConfigFileError> {
        let Self::Own(path) = self else { return Ok(None) };
        let leads_nowhere = |path: &Path| {
            let is_link = rustix::fs::lstat(path)
                .is_ok_and(|stat| FileFacts::from_stat(&stat).file_type == FileType::Symlink);
            is_link && matches!(rustix::fs::stat(path), Err(Errno::NOENT))
        };
        if path.ancestors().any(leads_nowhere) {
            return Err(ConfigFileError::Dangling);
        }
        Ok(None)
    }

    /// Replaces the contents, and creates the folders above if needed. An existing file keeps its
    /// mode and owner; a new file of the user's own is private.
    pub fn write(&self, bytes: &[u8]) -> Result<(), ConfigFileError> {
        let location = self.create_location()?;
        let old = location.stat()?;
        if let Some(stat) = &old {
            refuse_special(stat)?;
            check_writable(&location)?;
        }
        let temp = temporary_name(&location.name);
        let written = location.replace(&temp, bytes, old.as_ref(), self.new_mode());
        if written.is_err() {
            let _ = rustix::fs::unlinkat(&location.folder, &temp, AtFlags::empty());
        }
        written
    }

    fn new_mode(&self) -> u32 {
        match self {
            Self::Own(_) => 0o600,
            // Files of a checkout are shared, within the user's umask.
            Self::Beneath { .. } => 0o666,
        }
    }

    /// Opens its folder; `None` if that does not exist.
    fn open_location(&self) -> Result<Option<ConfigFileLocation>, ConfigFileError> {
        let opened = match self {
            Self::Own(path) => {
                let path = resolve_links(path)?;
                let (above, name) = split_name(&path)?;
                (rustix::fs::open(above, folder_flags(), Mode::empty()), name.to_owned())
            }
            Self::Beneath { root, relative } => {
                let (above, name) = split_name(relative)?;
                // A workspace that does not exist has no files.
                let opened = rustix::fs::open(root, folder_flags(), Mode::empty())
                    .and_then(|root| open_beneath::open(&root, above, folder_flags()));
                (opened, name.to_owned())
            }
        };
        match opened {
            (Ok(folder), name) => Ok(Some(ConfigFileLocation { folder, name })),
            (Err(Errno::NOENT), _) => Ok(None),
            (Err(errno), _) => Err(errno.into()),
        }
    }

    /// Opens its folder, and creates missing folders.
    fn create_location(&self) -> Result<ConfigFileLocation, ConfigFileError> {
        match self {
            Self::Own(path) => {
                let path = resolve_links(path)?;
                let (above, name) = split_name(&path)?;
                StateDir::new(above).create()?;
                let folder = rustix::fs::open(above, folder_flags(), Mode::empty())?;
                Ok(ConfigFileLocation { folder, name: name.to_owned() })
            }
            Self::Beneath { root, relative } => {
                let (above, name) = split_name(relative)?;
                let mut folder = rustix::fs::open(root, folder_flags(), Mode::empty())?;
                for step in above.components() {
                    let step = Path::new(step.as_os_str());
                    match rustix::fs::mkdirat(&folder, step, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno.into()),
                    }
                    folder = open_beneath::open(&folder, step, folder_flags())?;
                }
                Ok(ConfigFileLocation { folder, name: name.to_owned() })
            }
        }
    }
}

/// Waits for the lock that prevents two processes of zero from changing the same file at once.
/// Dropping the returned file releases it.
pub fn lock(state: &StateDir, name: &str) -> Result<File, ConfigFileError> {
    file_lock::wait_for_lock(state.lock_file(name)?, || Ok(())).map_err(|failure| match failure {
        LockError::System(error) => ConfigFileError::System(error),
        // The wait is never cancelled.
        LockError::Held | LockError::Cancelled(_) => ConfigFileError::Locked,
    })
}

/// A name in an open folder.
struct ConfigFileLocation {
    folder: OwnedFd,
    name: OsString,
}

impl ConfigFileLocation {
    fn stat(&self) -> Result<Option<Stat>, ConfigFileError> {
        match rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn replace(
        &self,
        temp: &OsStr,
        bytes: &[u8],
        old: Option<&Stat>,
        new_mode: u32,
    ) -> Result<(), ConfigFileError> {
        // With attributes to keep, no other user may read the file before they are set.
        let mode = if old.is_some() { 0o600 } else { new_mode };
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode);
        let mut file = File::from(rustix::fs::openat(&self.folder, temp, flags, mode)?);
        file.write_all(bytes)?;
        if let Some(old) = old {
            copy_xattrs_from(self.folder.as_fd(), &self.name, &file);
            FileAttributes::from_stat(old).apply(&file)?;
        }
        file.sync_all()?;
        rustix::fs::renameat(&self.folder, temp, &self.folder, &self.name)?;
        // The file is in place; a folder that cannot be flushed does not undo that.
        let _ = rustix::fs::fsync(&self.folder);
        Ok(())
    }
}

/// The path with its links resolved, as far as it exists.
fn resolve_links(path: &Path) -> Result<PathBuf, ConfigFileError> {
    let found = canonical_path::canonicalize(Path::new("/"), path, FinalLinkMode::Follow)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    Ok(found.missing.iter().fold(found.existing, |path, name| path.join(name)))
}

fn split_name(path: &Path) -> Result<(&Path, &OsStr), ConfigFileError> {
    path.parent().zip(path.file_name()).ok_or(ConfigFileError::NotAFile)
}

fn refuse_special(stat: &Stat) -> Result<(), ConfigFileError> {
    match FileFacts::from_stat(stat).file_type {
        FileType::File => Ok(()),
        FileType::Symlink => Err(ConfigFileError::Link),
        FileType::Directory | FileType::Special => Err(ConfigFileError::NotAFile),
    }
}

/// Refuses a file that the user may not write, even if permission on its folder would let us
/// replace it.
fn check_writable(location: &ConfigFileLocation) -> Result<(), ConfigFileError> {
    let write = rustix::fs::Access::WRITE_OK;
    match rustix::fs::accessat(&location.folder, &location.name, write, AtFlags::EACCESS) {
        Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(errno.into()),
        // Other errors say nothing about permission; the write itself will report them.
        _ => Ok(()),
    }
}

fn copy_xattrs_from(folder: BorrowedFd<'_>, name: &OsStr, file: &File) {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if let Ok(original) = rustix::fs::openat(folder, name, flags, Mode::empty()) {
        file_attributes::copy_xattrs(original, file);
    }
}

/// A name beside the file that no other process or thread uses.
fn temporary_name(name: &OsStr) -> OsString {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let now = jiff::Timestamp::now().as_nanosecond();
    let mut temp = OsString::from(".");
    temp.push(name);
    temp.push(format!(".zero-{process}-{count}-{now:x}"));
    temp
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const MAX: u64 = 10;

    #[track_caller]
    fn check(file: &ConfigFile, expected: &str) {
        let seen = match file.read(MAX) {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(bytes)) => String::from_utf8(bytes).unwrap(),
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(seen, expected, "{file:?}");
    }

    fn list_names(folder: &Path) -> Vec<String> {
        StateDir::new(folder).list_names().unwrap()
    }

    #[test]
    fn links_are_followed_for_own_file_but_not_in_workspace() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("work/.zero")).unwrap();
        std::fs::create_dir_all(root.join("linked/real")).unwrap();
        std::fs::write(root.join("outside"), "outside").unwrap();
        std::fs::write(root.join("work/.zero/plain"), "plain").unwrap();
        std::fs::write(root.join("work/.zero/full"), "0123456789").unwrap();
        std::fs::write(root.join("work/.zero/large"), "0123456789x").unwrap();
        std::fs::create_dir(root.join("work/.zero/folder")).unwrap();
        symlink("../../outside", root.join("work/.zero/leak")).unwrap();
        symlink("plain", root.join("work/.zero/inner")).unwrap();
        symlink("real", root.join("linked/.zero")).unwrap();
        std::fs::write(root.join("linked/real/plain"), "x").unwrap();
        let pipe = root.join("work/.zero/pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (path, own, beneath) in [
            ("work/.zero/plain", "plain", "plain"),
            ("work/.zero/full", "0123456789", "0123456789"),
            (
                "work/.zero/large",
                "error: it is larger than 10 bytes",
                "error: it is larger than 10 bytes",
            ),
            ("work/.zero/gone", "nothing", "nothing"),
            ("work/none/gone", "nothing", "nothing"),
            (
                "work/.zero/folder",
                "error: it is not an ordinary file",
                "error: it is not an ordinary file",
            ),
            (
                "work/.zero/pipe",
                "error: it is not an ordinary file",
                "error: it is not an ordinary file",
            ),
            ("work/.zero/leak", "outside", "error: it is a link"),
            ("work/.zero/inner", "plain", "error: it is a link"),
            ("linked/.zero/plain", "x", "error: its folder is a link or a file"),
        ] {
            check(&ConfigFile::Own(root.join(path)), own);
            let (folder, relative) = path.split_once('/').unwrap();
            let file =
                ConfigFile::Beneath { root: root.join(folder), relative: PathBuf::from(relative) };
            check(&file, beneath);
        }
    }

    #[test]
    fn new_own_file_is_private_and_old_file_keeps_mode() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("config/zero/settings.json");
        let file = ConfigFile::Own(path.clone());
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        file.write(b"{}").unwrap();
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        file.write(b"{ }").unwrap();
        assert_eq!((mode(), file.read(MAX).unwrap().unwrap()), (0o644, b"{ }".to_vec()));
        assert_eq!(
            list_names(path.parent().unwrap()),
            ["settings.json"],
            "nothing is left beside it"
        );
    }

    #[test]
    fn own_link_is_written_through_even_if_dangling() {
        let temp = tempfile::tempdir().unwrap();
        let link = temp.path().join("settings.json");
        symlink("dotfiles/zero.json", &link).unwrap();
        let file = ConfigFile::Own(link.clone());
        for text in ["1", "2"] {
            file.write(text.as_bytes()).unwrap();
            let target = temp.path().join("dotfiles/zero.json");
            assert_eq!(std::fs::read_to_string(target).unwrap(), text);
            assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        }
    }

    #[test]
    fn dangling_own_link_is_not_a_missing_file() {
        let temp = tempfile::tempdir().unwrap();
        let link = temp.path().join("settings.json");
        symlink("unmounted/zero.json", &link).unwrap();
        symlink("unmounted", temp.path().join("config")).unwrap();
        for path in [link, temp.path().join("config/settings.json")] {
            let read = ConfigFile::Own(path.clone()).read(100);
            assert!(matches!(read, Err(ConfigFileError::Dangling)), "{path:?}: {read:?}");
        }
        let missing = ConfigFile::Own(temp.path().join("none/settings.json"));
        assert!(matches!(missing.read(100), Ok(None)));
        let root = temp.path().join("none");
        let missing = ConfigFile::Beneath { root, relative: ".zero/s.json".into() };
        assert!(matches!(missing.read(100), Ok(None)), "a workspace that does not exist");
    }

    #[test]
    fn workspace_file_cannot_redirect_writes() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().join("work");
        std::fs::create_dir(&root).unwrap();
        std::fs::create_dir(temp.path().join("outside")).unwrap();
        let file = ConfigFile::Beneath { root: root.clone(), relative: ".zero/s.json".into() };
        file.write(b"new").unwrap();
        check(&file, "new");
        std::fs::remove_file(root.join(".zero/s.json")).unwrap();
        symlink("../../outside/s.json", root.join(".zero/s.json")).unwrap();
        assert!(matches!(file.write(b"x"), Err(ConfigFileError::Link)));
        std::fs::remove_dir_all(root.join(".zero")).unwrap();
        symlink("../outside", root.join(".zero")).unwrap();
        assert!(matches!(file.write(b"x"), Err(ConfigFileError::NoFolder)));
        assert!(list_names(&temp.path().join("outside")).is_empty());
    }
}
