//! Waiting for a lock that another process may hold.
//!
//! The kernel frees these locks when their holder dies, however it dies. So a lock that is held
//! means somebody alive is at work, whichever container or process number they have.

use std::fs::{File, TryLockError};
use std::io;
use std::time::Duration;

use zero_core::ToolError;

/// How long a lock is waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Pause between two tries.
const POLL: Duration = Duration::from_millis(2);

/// Why there is no lock.
pub(crate) enum LockError {
    /// Somebody else holds it, and held it all the time.
    Held,
    /// The waiting was called off.
    Cancelled(ToolError),
    /// The system would not lock.
    System(io::Error),
}

/// Waits for the lock on a file; dropping the file frees it.
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
