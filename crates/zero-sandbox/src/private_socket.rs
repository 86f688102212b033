//! Unix sockets in zero's own folders, between processes of the same user.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

use crate::state_dir::StateDir;

/// Longest path that an address of a socket can have, in bytes.
const ADDRESS_BYTES_MAX: usize = 100;

/// Listens at a name in a folder, which is created if needed. The name must not exist.
pub fn listen(folder: &StateDir, name: &str) -> io::Result<UnixListener> {
    folder.create()?;
    with_address(folder, name, |address| UnixListener::bind(address))
}

/// Connects to a name in a folder.
pub fn connect(folder: &StateDir, name: &str) -> io::Result<UnixStream> {
    with_address(folder, name, |address| UnixStream::connect(address))
}

/// Whether the other end belongs to the user of this process, or to the administrator.
pub fn is_own_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// Calls `open` with a path to the socket that is short enough for an address.
fn with_address<T>(
    folder: &StateDir,
    name: &str,
    open: impl FnOnce(&PathBuf) -> io::Result<T>,
) -> io::Result<T> {
    let path = folder.path().join(name);
    if path.as_os_str().len() <= ADDRESS_BYTES_MAX {
        return open(&path);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(folder.path(), flags, Mode::empty())?;
    use std::os::fd::AsRawFd as _;
    open(&PathBuf::from(format!("/proc/self/fd/{}/{name}", handle.as_raw_fd())))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn socket_is_reached_in_short_and_long_folders() {
        let temp = tempfile::tempdir().unwrap();
        for folder in ["short".to_owned(), "long".repeat(50)] {
            let folder = StateDir::new(temp.path().join(folder));
            let listener = listen(&folder, "socket").unwrap();
            let mut client = connect(&folder, "socket").unwrap();
            client.write_all(b"x").unwrap();
            let (mut served, _) = listener.accept().unwrap();
            assert!(is_own_user(&served));
            let mut byte = [0];
            served.read_exact(&mut byte).unwrap();
            assert_eq!(&byte, b"x");
        }
    }
}
