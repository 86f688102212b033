//! Waits for a lock that another process may hold.
//!
//! The kernel releases these locks when their holder dies, for whatever reason. So a held lock
//! always belongs to a live process, whatever its container or process ID.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Duration;

use zero_core::ToolError;

/// How long to wait for a lock.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const POLL: Duration = Duration::from_millis(2);

/// Why the lock was not acquired.
pub(crate) enum LockError {
    /// Another process held it during the whole wait.
    Held,
    /// The wait was cancelled.
    Cancelled(ToolError),
    /// A system call failed.
    System(io::Error),
}

/// Waits for the lock on a file; dropping the file releases it.
pub(crate) fn wait_for_lock(
    file: File,
    still_wanted: impl Fn() -> Result<(), ToolError>,
) -> Result<File, LockError> {
    let mut waited = Duration::ZERO;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if waited < WAIT_MAX => {
                still_wanted().map_err(LockError::Cancelled)?;
                std::thread::sleep(POLL);
                waited += POLL;
            }
            Err(TryLockError::WouldBlock) => return Err(LockError::Held),
            Err(TryLockError::Error(error)) => return Err(LockError::System(error)),
        }
    }
}
