//! Reserves stdout for protocol messages.
//!
//! A program that speaks a protocol on stdout is broken by a single line that something else prints
//! there: a library, a panic, a child that inherited it. So the real stdout is moved to a
//! descriptor that no other code knows and no child inherits, and anything else that is written to
//! stdout goes to stderr.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdout, stderr, stdout};

/// Lower numbers are the standard streams.
const FIRST_FREE: i32 = 3;

/// Takes stdout for the caller and redirects further output to stderr. Call it once, before
/// anything is written.
pub fn take_stdout() -> io::Result<OwnedFd> {
    let own = fcntl_dupfd_cloexec(stdout(), FIRST_FREE)?;
    dup2_stdout(stderr())?;
    Ok(own)
}
