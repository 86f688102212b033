//! Unix sockets on which the host's processes listen.
//!
//! A mount that is read-only does not keep anybody from connecting to a socket on it, and a filter
//! of system calls does not see paths. So each one that exists when a command starts is hidden:
//! container engines, desktop buses, agents that hold keys. Sockets that are made later, in a
//! folder that is neither `/run` nor `/tmp`, can be reached.

use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// The kernel's list, for the network namespace we are in.
const LIST: &str = "/proc/net/unix";

/// The sockets that have a path.
#[expect(clippy::disallowed_methods, reason = "the kernel's list is no person's file")]
pub(crate) fn listening() -> Vec<PathBuf> {
    let list = std::fs::read(LIST).unwrap_or_default();
    paths(&String::from_utf8_lossy(&list))
        .filter_map(|path| path.canonicalize().ok())
        .filter(|path| path.metadata().is_ok_and(|facts| facts.file_type().is_socket()))
        .collect()
}

fn paths(list: &str) -> impl Iterator<Item = PathBuf> {
    list.lines().skip(1).filter_map(|line| {
        // Seven columns, then the path, which may hold anything.
        let at = line.find(" /")? + 1;
        line.get(at..).map(PathBuf::from)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_with_a_path_are_found() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000: 00000002 00000000 00010000 0001 01 123 /run/docker.sock\n\
                    0000: 00000002 00000000 00010000 0001 01 124 @/tmp/.X11-unix/X0\n\
                    0000: 00000003 00000000 00000000 0001 03 125\n\
                    0000: 00000002 00000000 00000000 0002 01 126 /a b/log\n";
        let found: Vec<_> = paths(list).collect();
        assert_eq!(found, [PathBuf::from("/run/docker.sock"), PathBuf::from("/a b/log")]);
    }

    #[test]
    fn a_socket_of_this_process_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("door");
        let door = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(listening().contains(&path));
        drop(door);
    }
}
