//! Removes a folder that is hard to remove.
//!
//! Programs remove their own write permission on folders (module caches do), or nest them deeper
//! than a process can have open files. Here every folder of ours is made writable first, and a
//! nested folder is moved up to the top before it is emptied, so that two descriptors are enough
//! for any depth. Everything goes by descriptor and name, and no link is followed.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

/// Names that are read at once.
const BATCH: usize = 1_024;
/// Most batches per call: anything larger is left for another time.
const BATCHES_MAX: usize = 100_000;
/// How many names are tried for a folder that is moved up.
const NAMES_MAX: u32 = 1_000;

/// Removes the folder at `path` with everything in it; a missing one is not an error.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let top = match open_writable(CWD, path) {
        Err(Errno::NOENT) => return Ok(()),
        top => top?,
    };
    let mut removal = FolderRemoval { top, moved: 0, batches: 0 };
    while let Some(names) = removal.next_batch(&removal.top)? {
        for name in names {
            match rustix::fs::unlinkat(&removal.top, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => removal.remove_folder(&name)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        removal.count_batch()?;
    }
    Ok(rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

struct FolderRemoval {
    top: OwnedFd,
    /// Folders that were moved up, for unique names.
    moved: u32,
    batches: usize,
}

impl FolderRemoval {
    /// Removes a folder directly below the top. Folders in it are moved to the top.
    fn remove_folder(&mut self, name: &CString) -> io::Result<()> {
        let folder = open_writable(&self.top, name.as_c_str())?;
        while let Some(inner) = self.next_batch(&folder)? {
            for inner in inner {
                match rustix::fs::unlinkat(&folder, &inner, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(Errno::ISDIR) => self.move_up(&folder, &inner)?,
                    Err(errno) => return Err(errno.into()),
                }
            }
            self.count_batch()?;
        }
        Ok(rustix::fs::unlinkat(&self.top, name, AtFlags::REMOVEDIR)?)
    }

    fn move_up(&mut self, from: &OwnedFd, name: &CString) -> io::Result<()> {
        if rustix::fs::unlinkat(from, name, AtFlags::REMOVEDIR).is_ok() {
            return Ok(());
        }
        // Moving a folder needs write permission on it, since its `..` changes.
        drop(open_writable(from, name.as_c_str())?);
        for _ in 0..NAMES_MAX {
            self.moved = self.moved.wrapping_add(1);
            let new = format!("removed-{}", self.moved);
            match rustix::fs::renameat(from, name, &self.top, new) {
                Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                moved => return Ok(moved?),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Some of the names in a folder; `None` if it is empty.
    fn next_batch(&self, folder: &OwnedFd) -> io::Result<Option<Vec<CString>>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(folder)? {
            let name = entry?.file_name().to_owned();
            if name.as_bytes() != b"." && name.as_bytes() != b".." {
                names.push(name);
            }
            if names.len() >= BATCH {
                break;
            }
        }
        Ok((!names.is_empty()).then_some(names))
    }

    fn count_batch(&mut self) -> io::Result<()> {
        self.batches += 1;
        if self.batches > BATCHES_MAX { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
    }
}

/// Opens a folder to change its entries, and grants its owner access if that is us.
fn open_writable(
    above: impl std::os::fd::AsFd,
    name: impl rustix::path::Arg,
) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(above, name, flags | OFlags::PATH, Mode::empty())?;
    let facts = rustix::fs::fstat(&found)?;
    let is_ours = facts.st_uid == rustix::process::geteuid().as_raw();
    if is_ours && !Mode::from_raw_mode(facts.st_mode).contains(Mode::RWXU) {
        grant_owner_access(std::os::fd::AsFd::as_fd(&found))?;
    }
    rustix::fs::openat(&found, c".", flags | OFlags::RDONLY, Mode::empty())
}

/// Changes the mode of the open folder, not of anything that has its name by now.
fn grant_owner_access(folder: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), Mode::RWXU)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Has a script create something in a folder and removes it, as a user who is bound by modes.
    #[track_caller]
    fn check(script: &str) {
        std::thread::scope(|scope| scope.spawn(|| check_as_nobody(script)).join()).unwrap();
    }

    #[expect(unsafe_code, reason = "only a system call changes the user of a single thread")]
    fn check_as_nobody(script: &str) {
        if rustix::process::geteuid().is_root() {
            // SAFETY: takes numbers only, and this thread does nothing else in its life.
            let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
            assert_eq!(changed, 0);
        }
        let place = tempfile::tempdir().unwrap();
        let (kept, folder) = (place.path().join("kept"), place.path().join("folder"));
        std::fs::create_dir_all(kept.join("inside")).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let mut shell = std::process::Command::new("bash");
        let made = shell.args(["-ec", script]).current_dir(&folder).status().unwrap();
        assert!(made.success(), "{script}");
        remove(&folder).unwrap();
        assert!(!folder.exists(), "{script}");
        assert!(kept.join("inside").exists(), "a link was followed: {script}");
        remove(&folder).unwrap();
    }

    #[test]
    fn folder_removal_removes_any_content() {
        check("mkdir -p a/b/c; touch a/b/c/d a/e; chmod -R a-w .");
        check("mkdir -p a/b/c; touch a/b/c/d; chmod 0 a/b/c a/b a .");
        check("mkfifo pipe; ln -s ../kept link; mkdir a; ln -s ../../kept a/link; chmod a-w a");
        check(
            "mkdir removed-1 removed-2 x x/y; touch removed-1/f removed-2/f x/y/z; chmod a-w x/y",
        );
        check("for i in $(seq 3000); do : > f$i; done; mkdir a; chmod 500 a");
        check("perl -e 'for (1..1500) { mkdir \"d\"; chdir \"d\" } open F, \">f\"'");
    }

    #[test]
    fn non_utf8_names_and_sockets_are_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("folder");
        let inner = folder.join(OsStr::from_bytes(b"not \xff text"));
        std::fs::create_dir_all(inner.join("x")).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(inner.join("door")).unwrap();
        std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o500)).unwrap();
        remove(&folder).unwrap();
        assert!(!folder.exists());
    }

    #[test]
    fn link_in_place_of_folder_is_kept() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("kept")).unwrap();
        std::os::unix::fs::symlink("kept", place.path().join("link")).unwrap();
        assert!(remove(&place.path().join("link")).is_err());
        assert!(place.path().join("kept").exists());
    }
}
