//! The folder for results of a session that are too large to be shown.
//!
//! Most sessions have none, so the folder is created with its first file.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zero_sandbox::folder_lease::FolderLease;
use zero_sandbox::{StateDir, path_survey};

use crate::spill_quota::{self, SpillQuota};

/// A folder for results that are too large to be shown; created with its first file.
#[derive(Debug)]
pub struct SpillFolder {
    folder: StateDir,
    hold: Mutex<SpillRetention>,
    quota: SpillQuota,
}

/// How long the folder exists.
#[derive(Debug)]
enum SpillRetention {
    /// It stays.
    Permanent,
    /// Not created yet; the first file takes a lease on the folder of that name.
    Uncreated { state: StateDir, subfolder: &'static str, name: String },
    /// Removed with the last lease.
    Leased { _lease: FolderLease },
    /// The session is over.
    Ended,
}

impl SpillFolder {
    /// A folder that is never removed.
    pub fn new_permanent(folder: StateDir) -> Self {
        let hold = Mutex::new(SpillRetention::Permanent);
        Self { folder, hold, quota: SpillQuota::default() }
    }

    /// Limits the size of its files together.
    #[must_use]
    pub fn with_quota(self, quota: SpillQuota) -> Self {
        Self { quota, ..self }
    }

    /// The folder `name` in a subfolder of the state folder, which is removed when its last user ends.
    /// An existing folder is leased at once, because its session continues here.
    pub fn new_leased(state: &StateDir, subfolder: &'static str, name: &str) -> io::Result<Self> {
        let folder = state.child(subfolder).child(name);
        let hold = match path_survey::exists(folder.path()) {
            true => {
                SpillRetention::Leased { _lease: FolderLease::acquire(state, subfolder, name)? }
            }
            false => {
                SpillRetention::Uncreated { state: state.clone(), subfolder, name: name.to_owned() }
            }
        };
        Ok(Self { folder, hold: Mutex::new(hold), quota: SpillQuota::default() })
    }

    /// Where the folder is, or will be.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Bytes that a new file may have. Files that are written at the same time have the same room.
    pub fn room(&self) -> u64 {
        self.quota.room(&self.folder)
    }

    /// Creates a new file; fails if it exists, or if there is no [room](Self::room).
    pub fn create_new(&self, name: &str) -> io::Result<File> {
        self.create_bounded(name).map(|(file, _)| file)
    }

    /// Like [`Self::create_new`], with the number of bytes that the file may have.
    pub(crate) fn create_bounded(&self, name: &str) -> io::Result<(File, u64)> {
        let room = self.room();
        if room == 0 {
            return Err(spill_quota::full_error());
        }
        self.quota.note_results()?;
        let mut hold = self.lock_retention();
        match &*hold {
            SpillRetention::Permanent | SpillRetention::Leased { .. } => {}
            SpillRetention::Uncreated { state, subfolder, name } => {
                let lease = FolderLease::acquire(state, subfolder, name)?;
                *hold = SpillRetention::Leased { _lease: lease };
            }
            SpillRetention::Ended => {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the session is over"));
            }
        }
        // The lock is still held, so a concurrent `end` removes this file too.
        Ok((self.folder.create_new(name)?, room))
    }

    /// Removes a file.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    /// Removes the files that are older than `age_max`.
    pub fn remove_older(&self, age_max: Duration) {
        for name in self.folder.list_names().unwrap_or_default() {
            if self.folder.age(&name).is_ok_and(|age| age > age_max) {
                let _ = self.folder.remove(&name);
            }
        }
    }

    /// Ends the session's use: the folder is removed unless another process uses it.
    pub fn end(&self) {
        let mut hold = self.lock_retention();
        if !matches!(*hold, SpillRetention::Permanent) {
            *hold = SpillRetention::Ended;
        }
    }

    fn lock_retention(&self) -> MutexGuard<'_, SpillRetention> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn state() -> (tempfile::TempDir, StateDir) {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        (temp, state)
    }

    #[test]
    fn folder_is_created_on_first_file_and_removed_at_end() {
        let (temp, state) = state();
        let folder = SpillFolder::new_leased(&state, "spill", "sess_1").unwrap();
        assert!(!temp.path().join("state").exists(), "nothing is created beforehand");
        folder.create_new("a.txt").unwrap().write_all(b"a").unwrap();
        let other = SpillFolder::new_leased(&state, "spill", "sess_1").unwrap();
        folder.end();
        assert!(folder.path().join("a.txt").exists(), "another user still holds it");
        assert_eq!(folder.create_new("c.txt").unwrap_err().to_string(), "the session is over");
        other.create_new("b.txt").unwrap();
        assert!(other.create_new("a.txt").is_err(), "no file is overwritten");
        other.end();
        assert!(!folder.path().exists());
        SpillFolder::new_leased(&state, "spill", "sess_2").unwrap().end();
    }

    #[test]
    fn results_of_session_and_owner_are_bounded() {
        use crate::spill_quota::OwnerSpace;
        let (_temp, state) = state();
        let open = |owner: &str, session: &str| {
            let (results, sessions) = (state.child("spill-sessions"), state.child(owner));
            let space = OwnerSpace::new(results.clone(), sessions, session).with_bytes(25);
            let quota = SpillQuota::default().with_session_bytes(20).with_owner(space);
            SpillFolder::new_permanent(results.child(session)).with_quota(quota)
        };
        let write = |folder: &SpillFolder, name: &str, bytes: usize| {
            folder.create_new(name)?.write_all(&vec![b'x'; bytes])
        };
        let first = open("ann", "one");
        assert_eq!(first.room(), 20);
        write(&first, "a", 15).unwrap();
        // A folder measures its own files each time, and those of the owner when it is opened.
        assert_eq!(open("ann", "one").room(), 5);
        assert_eq!(open("ann", "two").room(), 10, "the owner's other session counts");
        write(&open("ann", "two"), "a", 10).unwrap();
        let error = write(&open("ann", "one"), "b", 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
        assert!(error.to_string().contains("`zero prune`"), "{error}");
        assert_eq!(open("bob", "three").room(), 20, "another owner is not concerned");
        // Deleted files do not count.
        state.child("spill-sessions").child("one").remove_all().unwrap();
        assert_eq!(open("ann", "two").room(), 10);
    }

    #[test]
    fn permanent_folder_survives_end() {
        let (_temp, state) = state();
        let folder = SpillFolder::new_permanent(state.child("spill-calls").child("x"));
        folder.create_new("a.txt").unwrap();
        folder.end();
        folder.create_new("b.txt").unwrap();
        folder.remove_older(Duration::from_secs(3600));
        assert!(folder.path().join("a.txt").exists());
        folder.remove("a.txt").unwrap();
        assert!(!folder.path().join("a.txt").exists());
    }
}
