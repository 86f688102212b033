//! [`CaptureGuard`]: tells later processes of zero whether a recorded command still runs.
//!
//! If zero is killed, its command is killed a moment later, and the last call that it was allowed to
//! make may take effect in between. The record must not be compared with the files before that.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// How often a process that waits looks again.
const POLL: Duration = Duration::from_millis(2);

/// A name that a socket has as long as a process of the command, or its supervisor, holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CaptureGuard(String);

impl CaptureGuard {
    /// Gives a socket a new name.
    pub(super) fn bind(socket: impl AsFd) -> io::Result<Self> {
        // Seeded with random numbers of the kernel, so that no other process can take the name
        // first.
        let random = || RandomState::new().build_hasher().finish();
        let guard = Self(format!("zero-capture-{:016x}{:016x}", random(), random()));
        rustix::net::bind(socket, &guard.address()?)?;
        Ok(guard)
    }

    /// The guard with the name that another process wrote down.
    pub(crate) fn from_name(name: &str) -> Self {
        Self(name.to_owned())
    }

    /// The name to write down.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Waits until no process holds the socket, and returns whether that is so.
    pub(crate) fn wait_until_gone(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while self.is_held() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }

    fn is_held(&self) -> bool {
        let taken = self.address().and_then(|address| {
            let socket: OwnedFd = rustix::net::socket_with(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )?;
            rustix::net::bind(&socket, &address)
        });
        taken == Err(Errno::ADDRINUSE)
    }

    fn address(&self) -> rustix::io::Result<SocketAddrUnix> {
        SocketAddrUnix::new_abstract_name(self.0.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::socketpair;

    use super::*;

    #[test]
    fn guard_is_held_until_its_last_socket_is_closed() {
        let pair =
            || socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, given) = pair().unwrap();
        let guard = CaptureGuard::bind(&given).unwrap();
        let known = CaptureGuard::from_name(guard.name());
        let copy = given.try_clone().unwrap();
        drop(given);
        assert!(!known.wait_until_gone(Duration::ZERO));
        drop(copy);
        assert!(known.wait_until_gone(Duration::ZERO));
        drop(ours);
    }
}
