//! Folders that exist as long as a process uses them, however that process ends.
//!
//! A session's folder is removed when the session ends, but a process that is killed cannot do
//! that. So each such folder has a lock that its users share and that the kernel releases when they
//! die: the last user removes the folder, and the next process that starts removes folders without
//! users.
//!
//! The lock is created before the folder and removed after it, so a folder without a lock is
//! unused.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use crate::state_dir::StateDir;

/// Where the locks are, in zero's own folder.
const LOCKS: &str = "leases";
/// Separates the shelf (the parent folder) and the folder's name in the name of its lock.
const SEPARATOR: char = '@';
/// How often to recreate a lock that another process is removing.
const TRIES_MAX: u32 = 200;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);
/// Most folders that one sweep removes; the next one continues.
const SWEPT_MAX: usize = 64;
/// Most names that one sweep checks.
const SCANNED_MAX: usize = 4_096;

/// A folder in use. Dropping it removes the folder, unless another process uses it too.
#[derive(Debug)]
pub struct FolderLease {
    state: StateDir,
    subfolder: &'static str,
    name: String,
    lock: File,
}

impl FolderLease {
    /// Acquires the folder `name` on a shelf, which is a folder in `state`, and creates it.
    pub fn acquire(state: &StateDir, subfolder: &'static str, name: &str) -> io::Result<Self> {
        let locks = state.child(LOCKS);
        let lock_name = lock_name(subfolder, name);
        for _ in 0..TRIES_MAX {
            let lock = locks.lock_file(&lock_name)?;
            // A process that holds it exclusively is about to remove it.
            lock.lock_shared()?;
            if is_current_lock(&locks, &lock_name, &lock) {
                let lease = Self { state: state.clone(), subfolder, name: name.to_owned(), lock };
                lease.folder().create()?;
                return Ok(lease);
            }
            std::thread::sleep(PAUSE);
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "its lock is removed again and again"))
    }

    /// Whether some process holds a lease on the folder. A lock that cannot be examined counts as
    /// held.
    pub fn is_held(state: &StateDir, subfolder: &str, name: &str) -> bool {
        if !state.child(subfolder).child(name).path().is_dir() {
            return false;
        }
        match state.child(LOCKS).existing_lock_file(&lock_name(subfolder, name)) {
            // Released when the file is closed.
            Ok(Some(lock)) => lock.try_lock().is_err(),
            // It is created before the folder.
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Whether the folder and its lock still exist. Without them, other processes do not know of it.
    pub fn is_intact(&self) -> bool {
        let lock = lock_name(self.subfolder, &self.name);
        self.folder().path().is_dir()
            && is_current_lock(&self.state.child(LOCKS), &lock, &self.lock)
    }

    /// The leased folder.
    #[must_use]
    pub fn folder(&self) -> StateDir {
        self.state.child(self.subfolder).child(&self.name)
    }
}

impl Drop for FolderLease {
    fn drop(&mut self) {
        // Release it first, to lock it exclusively; a process that acquires it in between keeps the
        // folder.
        let _ = self.lock.unlock();
        remove_unused(&self.state, self.subfolder, &self.name, &self.lock);
    }
}

/// Removes the unused folders of these shelves. Returns how many were removed.
pub fn sweep(state: &StateDir, shelves: &[&'static str]) -> usize {
    let locks = state.child(LOCKS);
    let mut swept = 0;
    for subfolder in shelves {
        let names = state.child(subfolder).list_names().unwrap_or_default();
        for name in names.iter().take(SCANNED_MAX) {
            if swept >= SWEPT_MAX {
                return swept;
            }
            // Anything but a folder is not a lease.
            if !state.child(subfolder).child(name).path().is_dir() {
                continue;
            }
            let Ok(lock) = locks.lock_file(&lock_name(subfolder, name)) else { continue };
            swept += usize::from(remove_unused(state, subfolder, name, &lock));
        }
    }
    swept
}

/// Removes a folder and its lock if no process holds it. A folder that cannot be removed now stays
/// with its lock, private in zero's own folder, for the next sweep.
fn remove_unused(state: &StateDir, subfolder: &str, name: &str, lock: &File) -> bool {
    let (locks, lock_name) = (state.child(LOCKS), lock_name(subfolder, name));
    if lock.try_lock().is_err() || !is_current_lock(&locks, &lock_name, lock) {
        return false;
    }
    let removed = state.child(subfolder).child(name).remove_all().is_ok();
    if removed {
        let _ = locks.remove(&lock_name);
    }
    removed
}

fn lock_name(subfolder: &str, name: &str) -> String {
    format!("{subfolder}{SEPARATOR}{name}")
}

/// Whether a lock is still the one that others find under its name.
fn is_current_lock(locks: &StateDir, name: &str, lock: &File) -> bool {
    let here = lock.metadata().map(|facts| (facts.dev(), facts.ino()));
    let there = locks.path().join(name).symlink_metadata();
    let there = there.map(|facts| (facts.dev(), facts.ino()));
    matches!((here, there), (Ok(here), Ok(there)) if here == there)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    const SHELF: &str = "tmp";

    fn state() -> (tempfile::TempDir, StateDir) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        (temp, state)
    }

    #[track_caller]
    fn check(state: &StateDir, folders: &[&str]) {
        assert_eq!(state.child(SHELF).list_names().unwrap(), folders);
        let locks: Vec<String> = folders.iter().map(|name| lock_name(SHELF, name)).collect();
        assert_eq!(state.child(LOCKS).list_names().unwrap(), locks);
    }

    #[test]
    fn last_lease_holder_removes_folder() {
        let (_temp, state) = state();
        let one = FolderLease::acquire(&state, SHELF, "a").unwrap();
        std::fs::write(one.folder().path().join("file"), "x").unwrap();
        let two = FolderLease::acquire(&state, SHELF, "a").unwrap();
        let other = FolderLease::acquire(&state, SHELF, "b").unwrap();
        assert!(one.is_intact());
        drop(one);
        check(&state, &["a", "b"]);
        assert_eq!(sweep(&state, &[SHELF]), 0, "all are in use");
        drop(two);
        check(&state, &["b"]);
        drop(other);
        check(&state, &[]);
    }

    #[test]
    fn folder_of_killed_process_is_swept() {
        let (_temp, state) = state();
        let lease = FolderLease::acquire(&state, SHELF, "killed").unwrap();
        std::fs::write(lease.folder().path().join("file"), "x").unwrap();
        // As the kernel does for a killed process.
        lease.lock.unlock().unwrap();
        std::mem::forget(lease);
        // A folder from before there were locks.
        state.child(SHELF).child("old").create().unwrap();
        let used = FolderLease::acquire(&state, SHELF, "used").unwrap();
        std::fs::write(state.child(SHELF).path().join("killed.record"), "theirs").unwrap();
        assert!(FolderLease::is_held(&state, SHELF, "used"));
        for unused in ["killed", "old", "never"] {
            assert!(!FolderLease::is_held(&state, SHELF, unused), "{unused}");
        }
        let locks = ["killed", "used"].map(|name| lock_name(SHELF, name));
        assert_eq!(state.child(LOCKS).list_names().unwrap(), locks, "the question creates none");
        assert_eq!(sweep(&state, &[SHELF, "none"]), 2);
        assert_eq!(state.child(SHELF).list_names().unwrap(), ["killed.record", "used"]);
        assert_eq!(state.child(LOCKS).list_names().unwrap(), [lock_name(SHELF, "used")]);
        drop(used);
    }

    #[test]
    fn folder_that_cannot_be_removed_keeps_lock() {
        let (_temp, state) = state();
        let lease = FolderLease::acquire(&state, SHELF, "a").unwrap();
        let path = lease.folder().path().to_owned();
        std::fs::remove_dir(&path).unwrap();
        assert!(!lease.is_intact());
        std::fs::write(&path, "in the way").unwrap();
        drop(lease);
        check(&state, &["a"]);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_eq!(sweep(&state, &[SHELF]), 1);
        check(&state, &[]);
    }

    #[test]
    fn sweep_is_bounded() {
        let (_temp, state) = state();
        for number in 0..=SWEPT_MAX {
            state.child(SHELF).child(&number.to_string()).create().unwrap();
        }
        assert_eq!(sweep(&state, &[SHELF]), SWEPT_MAX);
        assert_eq!(sweep(&state, &[SHELF]), 1);
    }

    #[test]
    fn folder_survives_concurrent_acquire_and_release() {
        let (_temp, state) = state();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let lease = FolderLease::acquire(&state, SHELF, "a").unwrap();
                        assert!(lease.folder().path().is_dir());
                        sweep(&state, &[SHELF]);
                        assert!(lease.folder().path().is_dir());
                    }
                });
            }
        });
        check(&state, &[]);
    }
}
