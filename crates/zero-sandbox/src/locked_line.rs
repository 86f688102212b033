//! A short line in a file that several processes update under a lock.
//!
//! The line is written in place and not flushed, which costs a system call and no disk access. The
//! kernel releases the lock when its holder dies, for whatever reason.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use crate::StateDir;
use crate::state_dir::NO_LINK;

/// How long to wait for the lock. Holders need microseconds, so a longer wait means that one was
/// suspended.
const WAIT_MAX: Duration = Duration::from_secs(15);
/// First pause between two attempts; each is longer than the one before.
const PAUSE_FIRST: Duration = Duration::from_micros(20);
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_millis(2);
/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: usize = 256;

/// A file with one short line, and a lock on it.
#[derive(Debug)]
pub struct LockedLine {
    file: File,
}

impl LockedLine {
    /// Opens the file for changing it, and creates it and the folder if needed.
    #[expect(clippy::disallowed_methods, reason = "zero's own file, in its own folder")]
    pub fn open(dir: &StateDir, name: &str) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(NO_LINK);
        let file = dir.open_to_write(name, &options)?;
        reserve(&file)?;
        Ok(Self { file })
    }

    /// Opens an existing file for reading it; `None` if it does not exist.
    pub fn open_existing(dir: &StateDir, name: &str) -> io::Result<Option<Self>> {
        match dir.open(name) {
            Ok(file) => Ok(Some(Self { file })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for the exclusive lock. Fails with [`io::ErrorKind::TimedOut`] after 15 s.
    pub fn lock(&self) -> io::Result<LockedLineGuard<'_>> {
        self.wait_for_lock(File::try_lock)
    }

    /// Waits until no process changes the line; others may read it too. Fails like [`Self::lock`].
    pub fn lock_shared(&self) -> io::Result<LockedLineGuard<'_>> {
        self.wait_for_lock(File::try_lock_shared)
    }

    fn wait_for_lock(
        &self,
        try_lock: impl Fn(&File) -> Result<(), TryLockError>,
    ) -> io::Result<LockedLineGuard<'_>> {
        let mut pause = PAUSE_FIRST;
        let mut started_at = None;
        loop {
            match try_lock(&self.file) {
                Ok(()) => return Ok(LockedLineGuard { file: &self.file }),
                Err(TryLockError::Error(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => {}
            }
            if started_at.get_or_insert_with(Instant::now).elapsed() >= WAIT_MAX {
                let message = "another process holds its lock and does not release it";
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// The line while no other process can change it. Dropping it releases the lock.
#[derive(Debug)]
pub struct LockedLineGuard<'a> {
    file: &'a File,
}

impl LockedLineGuard<'_> {
    /// Reads the file, or its beginning if it is long. Returns `None` if the file was removed;
    /// others may then use a new one.
    pub fn read(&self) -> io::Result<Option<Vec<u8>>> {
        if rustix::fs::fstat(self.file)?.st_nlink == 0 {
            return Ok(None);
        }
        let mut line = vec![0; LINE_BYTES_MAX];
        let length = self.file.read_at(&mut line, 0)?;
        line.truncate(length);
        Ok(Some(line))
    }

    /// Writes a line, which must have the same length as the one before.
    pub fn write(&self, line: &[u8]) -> io::Result<()> {
        self.file.write_all_at(line, 0)
    }
}

impl Drop for LockedLineGuard<'_> {
    fn drop(&mut self) {
        // If it cannot be released, it is released with the process.
        let _ = self.file.unlock();
    }
}

/// Makes sure that a line fits on the disk before a caller relies on it.
fn reserve(file: &File) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::FallocateFlags;
        use rustix::io::Errno;
        let bytes = LINE_BYTES_MAX as u64;
        match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, bytes) {
            // A file system without reservations reports a full disk at the write.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn lock_is_exclusive_and_removal_is_noticed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::new(temp.path().join("made"));
        assert!(LockedLine::open_existing(&dir, "line").unwrap().is_none());
        let line = LockedLine::open(&dir, "line").unwrap();
        let other = LockedLine::open_existing(&dir, "line").unwrap().unwrap();
        let held = line.lock().unwrap();
        held.write(b"one").unwrap();
        assert!(matches!(other.file.try_lock_shared(), Err(TryLockError::WouldBlock)));
        std::thread::scope(|scope| {
            let (begins, begun) = std::sync::mpsc::channel();
            let waits = scope.spawn(move || {
                begins.send(()).unwrap();
                other.lock_shared().unwrap().read().unwrap()
            });
            begun.recv().unwrap();
            held.write(b"two").unwrap();
            drop(held);
            assert_eq!(waits.join().unwrap().as_deref(), Some(&b"two"[..]));
        });
        std::fs::remove_file(dir.path().join("line")).unwrap();
        assert_eq!(line.lock().unwrap().read().unwrap(), None);
    }
}
