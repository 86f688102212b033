//! Changes the content of a file without replacing it.
//!
//! A file that is replaced by a rename loses the read-only mounts that running sandboxes have on it.
//! So a file that is mounted in other sandboxes has to be written in place. That is not atomic:
//! the file is small, and its old content is written back if writing fails.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::open_beneath;

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum InPlaceEditError {
    /// Another program is changing it.
    #[error("another program is changing it")]
    Locked,
    /// Its content is not the expected one.
    #[error("it was changed meanwhile")]
    Changed,
    /// It is a link, a folder or something else, or has several names.
    #[error("it is not an ordinary file with one name")]
    NotAFile,
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for InPlaceEditError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP | Errno::NOTDIR | Errno::ISDIR => Self::NotAFile,
            errno => Self::System(errno.into()),
        }
    }
}

/// Replaces the content of the file `relative` below `root`, if it is exactly `expected`. Links below
/// `root` are not followed. While it writes, it holds the lock file that git uses.
pub fn rewrite_in_place(
    root: &Path,
    relative: &Path,
    expected: &[u8],
    content: &[u8],
) -> Result<(), InPlaceEditError> {
    let (Some(folder), Some(name)) = (relative.parent(), relative.file_name()) else {
        return Err(InPlaceEditError::NotAFile);
    };
    let top = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = rustix::fs::open(root, top, Mode::empty())?;
    let folder = open_beneath::open(&root, folder, OFlags::DIRECTORY | OFlags::RDONLY)?;
    let mut lock = name.to_owned();
    lock.push(".lock");
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(&folder, &lock, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => {}
        Err(Errno::EXIST) => return Err(InPlaceEditError::Locked),
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = open_beneath::open(&folder, Path::new(name), flags);
    let done = opened
        .map_err(InPlaceEditError::from)
        .and_then(|file| rewrite(File::from(file), expected, content));
    // If it cannot be removed, git says so and names it.
    let _ = rustix::fs::unlinkat(&folder, &lock, AtFlags::empty());
    done
}

fn rewrite(mut file: File, expected: &[u8], content: &[u8]) -> Result<(), InPlaceEditError> {
    let facts = file.metadata()?;
    if !facts.is_file() || facts.nlink() != 1 {
        return Err(InPlaceEditError::NotAFile);
    }
    let mut found = Vec::new();
    let bytes_max = expected.len() as u64 + 1;
    (&file).take(bytes_max).read_to_end(&mut found)?;
    if found != expected {
        return Err(InPlaceEditError::Changed);
    }
    if let Err(error) = write_content(&mut file, content) {
        // The disk may be full; the old content has room.
        let _ = write_content(&mut file, expected);
        return Err(error.into());
    }
    Ok(())
}

fn write_content(file: &mut File, content: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(content)?;
    file.set_len(content.len() as u64)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn content_changes_and_file_stays() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        std::fs::create_dir(root.join("d")).unwrap();
        let path = root.join("d/f");
        std::fs::write(&path, "old content").unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        rewrite_in_place(root, Path::new("d/f"), b"old content", b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), inode);
        assert!(!root.join("d/f.lock").exists());
        // Nothing happens to another content.
        let changed = rewrite_in_place(root, Path::new("d/f"), b"old content", b"x");
        assert!(matches!(changed, Err(InPlaceEditError::Changed)), "{changed:?}");
        let longer = rewrite_in_place(root, Path::new("d/f"), b"ne", b"x");
        assert!(matches!(longer, Err(InPlaceEditError::Changed)), "{longer:?}");
        std::fs::write(root.join("d/f.lock"), "").unwrap();
        let locked = rewrite_in_place(root, Path::new("d/f"), b"new", b"x");
        assert!(matches!(locked, Err(InPlaceEditError::Locked)), "{locked:?}");
        assert!(root.join("d/f.lock").exists(), "it is not ours");
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn links_and_other_names_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("target"), "a").unwrap();
        symlink("../target", root.join("d/link")).unwrap();
        symlink("d", root.join("e")).unwrap();
        std::fs::write(root.join("d/f"), "a").unwrap();
        std::fs::hard_link(root.join("d/f"), root.join("other")).unwrap();
        for path in ["d/link", "e/f", "d/f", "d", ".."] {
            let refused = rewrite_in_place(root, Path::new(path), b"a", b"b");
            assert!(refused.is_err(), "{path}");
        }
        assert_eq!(std::fs::read(root.join("target")).unwrap(), b"a");
        assert_eq!(std::fs::read(root.join("other")).unwrap(), b"a");
    }
}
