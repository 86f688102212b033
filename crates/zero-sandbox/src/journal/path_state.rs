//! [`PathState`]: what is at a path, without contents; and [`TreeRoots`], which reaches paths below
//! the folders of a workspace without following a link.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, FileType as KernelFileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::content_digest::sha256;
use super::git_index;
use super::portable_path::PortablePath;
use crate::open_beneath;

/// Deepest folder that is visited: a tree that is deeper does not occur in real projects.
const DEPTH_MAX: usize = 512;
/// Most paths that could not be read that are collected.
const UNREAD_MAX: usize = 20;

/// What is at a path. Two states are equal if the path was not changed in between: contents are
/// compared by size and modification time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(super) enum PathState {
    Absent,
    File {
        size: u64,
        /// Seconds and nanoseconds.
        mtime: (i64, u64),
        mode: u32,
    },
    Symlink {
        target: PortablePath,
    },
    Folder {
        mode: u32,
    },
    /// A socket, pipe or device.
    Special {
        mode: u32,
    },
}

/// Device and number of an inode.
pub(super) type InodeKey = (u64, u64);

impl PathState {
    /// The state of a path with this stat.
    pub(super) fn from_stat(slot: &PathSlot, stat: &Stat) -> Result<Self, Errno> {
        Self::from_entry(&slot.folder, &slot.name, stat)
    }

    fn from_entry(folder: &OwnedFd, name: &OsStr, stat: &Stat) -> Result<Self, Errno> {
        let mode = stat.st_mode & 0o7777;
        Ok(match KernelFileType::from_raw_mode(stat.st_mode) {
            KernelFileType::RegularFile => Self::File {
                size: u64::try_from(stat.st_size).unwrap_or(0),
                mtime: (stat.st_mtime, stat.st_mtime_nsec),
                mode,
            },
            KernelFileType::Symlink => Self::Symlink { target: read_link(folder, name)? },
            KernelFileType::Directory => Self::Folder { mode },
            _ => Self::Special { mode },
        })
    }

    /// The permissions of a file, pipe or folder.
    pub(super) fn mode(&self) -> Option<u32> {
        match self {
            Self::File { mode, .. } | Self::Folder { mode } | Self::Special { mode } => Some(*mode),
            Self::Absent | Self::Symlink { .. } => None,
        }
    }

    /// The size of a file, 0 for anything else.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::File { size, .. } => *size,
            _ => 0,
        }
    }
}

/// Device and number of the inode of a stat.
pub(super) fn inode_key(stat: &Stat) -> InodeKey {
    (stat.st_dev, stat.st_ino)
}

/// Open handles on the folders of a workspace.
#[derive(Debug)]
pub(super) struct TreeRoots {
    roots: Vec<(PathBuf, OwnedFd)>,
}

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct PathSlot {
    pub(super) folder: Arc<OwnedFd>,
    pub(super) name: OsString,
}

impl TreeRoots {
    pub(super) fn open<'a>(paths: impl Iterator<Item = &'a Path>) -> io::Result<Self> {
        let open = |path: &Path| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok((path.to_owned(), rustix::fs::openat(CWD, path, flags, Mode::empty())?))
        };
        Ok(Self { roots: paths.map(open).collect::<io::Result<_>>()? })
    }

    /// Whether a path is in one of the folders.
    pub(super) fn contains(&self, path: &Path) -> bool {
        self.roots.iter().any(|(root, _)| path.starts_with(root))
    }

    /// Whether a path is one of the folders itself.
    pub(super) fn is_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|(root, _)| path == root)
    }

    /// The name of an absolute path in its parent folder. Any link on the way is an error.
    pub(super) fn slot(&self, path: &Path) -> Result<PathSlot, Errno> {
        let longest = self.roots.iter().filter(|(root, _)| path.starts_with(root));
        let (root, handle) =
            longest.max_by_key(|(root, _)| root.as_os_str().len()).ok_or(Errno::XDEV)?;
        let relative = path.strip_prefix(root).map_err(|_| Errno::XDEV)?;
        let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
            return Err(Errno::BUSY);
        };
        let folder = open_beneath::open(handle, parent, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(PathSlot { folder: Arc::new(folder), name: name.to_owned() })
    }

    /// The state of a path. A path whose folder does not exist is absent.
    pub(super) fn state(&self, path: &Path) -> Result<PathState, Errno> {
        let slot = match self.slot(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(PathState::Absent),
            slot => slot?,
        };
        match slot.stat()? {
            Some(stat) => PathState::from_stat(&slot, &stat),
            None => Ok(PathState::Absent),
        }
    }

    /// A digest of what is staged, if a path is the index of a git repository.
    pub(super) fn staged(&self, path: &Path) -> Option<String> {
        if !git_index::is_index(path) {
            return None;
        }
        let slot = self.slot(path).ok()?;
        git_index::read_digest(&slot.folder, &slot.name)
    }

    /// A digest of everything below a path, or of the file there: names, kinds, inodes, modes, targets
    /// of links, and size and time of each file that has no other name. `None` if not everything can
    /// be read.
    pub(super) fn digest(&self, path: &Path) -> Option<String> {
        let slot = self.slot(path).ok()?;
        let stat = slot.stat().ok()??;
        let mut lines = Vec::new();
        let mut add = |inner: &Path, state: &PathState, stat: &Stat| {
            let name = inner.strip_prefix(path).unwrap_or(inner);
            // A file with another name may be written to by that name.
            let is_shared = matches!(state, PathState::File { .. }) && stat.st_nlink > 1;
            let state = if is_shared { None } else { Some(state) };
            lines.push(format!("{name:?} {:?} {state:?}\n", inode_key(stat)));
        };
        match PathState::from_stat(&slot, &stat).ok()? {
            PathState::Folder { .. } => {
                let unread = self.walk(path, &mut |inner, state, stat| add(&inner, &state, stat));
                if !unread.ok()?.is_empty() {
                    return None;
                }
            }
            state => add(path, &state, &stat),
        }
        lines.sort_unstable();
        Some(sha256(lines.concat().as_bytes()))
    }

    /// Calls `visit` with everything below a folder, parents first. Returns the paths that could not
    /// be read, or are too deep: nothing is known of what is in them.
    pub(super) fn walk(
        &self,
        folder: &Path,
        visit: &mut dyn FnMut(PathBuf, PathState, &Stat),
    ) -> Result<Vec<(PathBuf, Errno)>, Errno> {
        let slot = self.slot(folder)?;
        let handle = slot.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut unread = Vec::new();
        walk_folder(&handle, folder, 0, visit, &mut unread);
        Ok(unread)
    }
}

fn walk_folder(
    handle: &OwnedFd,
    path: &Path,
    depth: usize,
    visit: &mut dyn FnMut(PathBuf, PathState, &Stat),
    unread: &mut Vec<(PathBuf, Errno)>,
) {
    let names = match list_names(handle) {
        _ if depth > DEPTH_MAX => return skip(unread, path.to_owned(), Errno::NAMETOOLONG),
        Ok(names) => names,
        Err(errno) => return skip(unread, path.to_owned(), errno),
    };
    for name in names {
        let inner_path = path.join(&name);
        let (state, stat) = match read_state(handle, &name) {
            Ok(Some(read)) => read,
            // Removed meanwhile.
            Ok(None) => continue,
            Err(errno) => {
                skip(unread, inner_path, errno);
                continue;
            }
        };
        let is_folder = matches!(state, PathState::Folder { .. });
        visit(inner_path.clone(), state, &stat);
        if is_folder {
            match open_entry(handle, &name, OFlags::RDONLY | OFlags::DIRECTORY) {
                Ok(inner) => walk_folder(&inner, &inner_path, depth + 1, visit, unread),
                Err(Errno::NOENT) => {}
                Err(errno) => skip(unread, inner_path, errno),
            }
        }
    }
}

/// The state and stat of a name in a folder; `None` if it does not exist.
fn read_state(folder: &OwnedFd, name: &OsStr) -> Result<Option<(PathState, Stat)>, Errno> {
    let Some(stat) = stat_entry(folder, name)? else { return Ok(None) };
    Ok(Some((PathState::from_entry(folder, name, &stat)?, stat)))
}

fn stat_entry(folder: &OwnedFd, name: &OsStr) -> Result<Option<Stat>, Errno> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Opens a name in a folder; a link is an error, and a pipe does not block.
fn open_entry(folder: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::openat(folder, name, flags, Mode::empty())
}

fn read_link(folder: &OwnedFd, name: &OsStr) -> Result<PortablePath, Errno> {
    use std::os::unix::ffi::OsStringExt as _;
    let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
    Ok(Path::new(&OsString::from_vec(target.into_bytes())).into())
}

fn skip(unread: &mut Vec<(PathBuf, Errno)>, path: PathBuf, errno: Errno) {
    if unread.len() < UNREAD_MAX {
        unread.push((path, errno));
    }
}

/// The names in an open folder.
pub(super) fn list_names(folder: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

impl PathSlot {
    pub(super) fn stat(&self) -> Result<Option<Stat>, Errno> {
        stat_entry(&self.folder, &self.name)
    }

    /// Opens what is there; a link is an error, and a pipe does not block.
    pub(super) fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        open_entry(&self.folder, &self.name, flags)
    }

    /// Changes the mode of what is there. A link is an error: another process may put one there at
    /// any time, and its target is anywhere.
    pub(super) fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        use std::os::fd::AsRawFd as _;
        let handle = self.open(OFlags::PATH)?;
        let stat = rustix::fs::fstat(&handle)?;
        if KernelFileType::from_raw_mode(stat.st_mode) == KernelFileType::Symlink {
            return Err(Errno::LOOP);
        }
        // `fchmod` takes no handle that is only a path.
        let inode = format!("/proc/self/fd/{}", handle.as_raw_fd());
        rustix::fs::chmodat(CWD, inode, Mode::from_raw_mode(mode), AtFlags::empty())
    }

    pub(super) fn unlink(&self) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty())
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the test uses real files directly")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn mode_of_link_target_is_never_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
        std::fs::create_dir_all(root.join("inner")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::set_permissions(&outside, PermissionsExt::from_mode(0o750)).unwrap();
        symlink(&outside, root.join("link")).unwrap();
        let roots = TreeRoots::open(std::iter::once(root.as_path())).unwrap();
        let link = roots.slot(&root.join("link")).unwrap();
        assert_eq!(link.set_mode(0o777), Err(Errno::LOOP));
        assert_eq!(mode(&outside), 0o750);
        roots.slot(&root.join("inner")).unwrap().set_mode(0o711).unwrap();
        assert_eq!(mode(&root.join("inner")), 0o711);
    }
}
