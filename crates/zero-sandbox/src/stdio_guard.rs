//! Keeps our own output for those it is meant for.
//!
//! A program that speaks a protocol on stdout is broken by one line that somebody else prints there: a
//! library, a panic, a child that was given it. So the real stdout is kept under a number that nobody
//! knows and no child is given, and what is still written to stdout comes out of stderr.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::stdio::{dup2_stdout, stderr, stdout};

/// Numbers below this have a meaning of their own.
const FIRST_FREE: i32 = 3;

/// Takes stdout away from everybody else, and gives it. Must be called once, before anything is
/// written.
pub fn take_stdout() -> io::Result<OwnedFd> {
    let own = fcntl_dupfd_cloexec(stdout(), FIRST_FREE)?;
    dup2_stdout(stderr())?;
    Ok(own)
}
