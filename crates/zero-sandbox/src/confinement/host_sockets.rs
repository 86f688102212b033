//! Lists the Unix sockets on which processes of the host listen, to hide them from commands.
//!
//! A read-only mount does not prevent connecting to a socket on it, and a seccomp filter does not
//! see paths. So each socket that exists when a command starts is hidden: container engines,
//! desktop buses, agents that hold keys.
//!
//! The kernel reports the name under which each socket was bound. A relative name is searched in
//! the working folders of the processes we can see, and in folders that the caller names. Not
//! hidden, outside of `/run` and `/tmp`: sockets that are created later; those that were moved, or
//! bound by a relative name in a folder that is no process's working folder any more; and those of
//! another network namespace, which include those of other commands and may be reached.
//!
//! A socket in a folder that file modes close to this user is left alone: a command has no
//! privileges and cannot enter the folder, and neither can bubblewrap, which would fail to hide it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::kernel_file;
use crate::profile::SandboxProfile;

/// The kernel's list for our network namespace.
const SOCKET_TABLE: &str = "/proc/net/unix";

/// Number of columns of [`SOCKET_TABLE`] before the socket's name.
const COLUMNS_BEFORE_NAME: usize = 7;

/// Most processes whose working folder is read, and the time limit for that. It usually takes a few
/// milliseconds; the limit is high so that a busy machine does not leave a socket visible.
const PROCESSES_MAX: usize = 2_000;
const SEARCH_MAX: Duration = Duration::from_secs(2);
/// Most relative names that are searched.
const RELATIVE_MAX: usize = 64;

/// The sockets that existed at one moment.
#[derive(Debug)]
pub(crate) struct HostSockets(BTreeSet<PathBuf>);

impl HostSockets {
    /// Lists the sockets for a command that starts in `folder`.
    pub(crate) fn for_command(profile: &SandboxProfile, folder: &Path) -> Self {
        Self::read(profile.writable.iter().map(PathBuf::as_path).chain([folder]))
    }

    /// Lists all sockets that have a path. Relative names are searched in `folders` too.
    #[expect(clippy::disallowed_methods, reason = "the kernel's list is not a user's file")]
    fn read<'a>(folders: impl Iterator<Item = &'a Path>) -> Self {
        let list = std::fs::read(SOCKET_TABLE).unwrap_or_default();
        let (absolute, relative): (Vec<_>, Vec<_>) =
            parse_names(&list).partition(|name| name.is_absolute());
        let mut candidates: Vec<PathBuf> = absolute.into_iter().map(Path::to_owned).collect();
        if !relative.is_empty() {
            let relative: BTreeSet<&Path> = relative.into_iter().take(RELATIVE_MAX).collect();
            let folders: BTreeSet<PathBuf> =
                folders.map(Path::to_owned).chain(read_process_folders()).collect();
            for folder in &folders {
                candidates.extend(relative.iter().map(|name| folder.join(name)));
            }
        }
        // A socket that merely has the same name is hidden as well, which is harmless.
        let found = candidates.into_iter().filter_map(|path| path.canonicalize().ok());
        let user = UserIdentity::read();
        let is_hidden = |path: &PathBuf| is_socket(path) && user.can_reach(path);
        Self(found.filter(is_hidden).collect())
    }

    /// Those that still exist; others need not be hidden.
    pub(crate) fn existing(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path).filter(|path| is_socket(path))
    }
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|facts| facts.file_type().is_socket())
}

/// The user and the groups of this process, which are those of its commands.
struct UserIdentity {
    user: u32,
    groups: Vec<u32>,
}

impl UserIdentity {
    fn read() -> Self {
        let own = rustix::process::getegid();
        let others = rustix::process::getgroups().unwrap_or_default();
        let groups = others.into_iter().chain([own]).map(rustix::process::Gid::as_raw).collect();
        Self { user: rustix::process::geteuid().as_raw(), groups }
    }

    /// Whether every folder above a path can be entered without privileges. Unknown counts as yes.
    fn can_reach(&self, path: &Path) -> bool {
        path.ancestors().skip(1).all(|folder| {
            rustix::fs::stat(folder).map_or(true, |stat| {
                self.can_enter(stat.st_uid, stat.st_gid, stat.st_mode) || has_access_list(folder)
            })
        })
    }

    fn can_enter(&self, owner: u32, group: u32, mode: u32) -> bool {
        let needed = match (owner == self.user, self.groups.contains(&group)) {
            (true, _) => 0o100,
            (false, true) => 0o010,
            (false, false) => 0o001,
        };
        mode & needed != 0
    }
}

/// Whether a folder has an access list, which may let users in whom the mode keeps out.
fn has_access_list(folder: &Path) -> bool {
    rustix::fs::getxattr(folder, "system.posix_acl_access", &mut [0_u8; 0]).is_ok()
}

/// The names in the list, without abstract ones.
fn parse_names(list: &[u8]) -> impl Iterator<Item = &Path> {
    list.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let mut rest = line;
        for _ in 0..COLUMNS_BEFORE_NAME {
            // Numbers are aligned to the right.
            rest = rest.trim_ascii_start();
            let end = rest.iter().position(|byte| *byte == b' ')?;
            rest = rest.get(end..)?;
        }
        // A name may contain anything, also leading spaces.
        let name = rest.get(1..).filter(|name| !name.is_empty() && !name.starts_with(b"@"))?;
        Some(Path::new(OsStr::from_bytes(name)))
    })
}

/// The working folders of all processes that we may inspect.
fn read_process_folders() -> BTreeSet<PathBuf> {
    let until = Instant::now() + SEARCH_MAX;
    let names = kernel_file::list_names(Path::new("/proc")).unwrap_or_default();
    let pids = names.into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.take(PROCESSES_MAX)
        .take_while(|_| Instant::now() < until)
        .filter_map(|pid| rustix::fs::readlink(format!("/proc/{pid}/cwd"), Vec::new()).ok())
        .map(|folder| PathBuf::from(OsStr::from_bytes(folder.as_bytes())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_with_path_are_parsed() {
        let list = b"Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000: 00000002 00000000 00010000 0001 01 123 /run/docker.sock\n\
            0000: 00000002 00000000 00010000 0001 01 124 @/tmp/.X11-unix/X0\n\
            0000: 00000003 00000000 00000000 0001 03 125\n\
            0000: 00000003 00000000 00000000 0001 03   12 door\n\
            0000: 00000003 00000000 00000000 0001 03   12 ../a /door\n\
            0000: 00000002 00000000 00000000 0002 01 127 /not \xff text\n\
            0000: 00000002 00000000 00000000 0002 01 126 /a b/log\n\
            0000: 0000";
        let expected: [&[u8]; 5] =
            [b"/run/docker.sock", b"door", b"../a /door", b"/not \xff text", b"/a b/log"];
        let found: Vec<_> = parse_names(list).map(|name| name.as_os_str().as_bytes()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
    fn socket_of_this_process_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        for name in [OsStr::new("door"), OsStr::from_bytes(b"not \xff text")] {
            let path = folder.join(name);
            let door = std::os::unix::net::UnixListener::bind(&path).unwrap();
            let sockets = HostSockets::read(std::iter::empty());
            assert!(sockets.existing().any(|there| there == path));
            std::fs::remove_file(&path).unwrap();
            assert!(!sockets.existing().any(|there| there == path));
            drop(door);
        }
    }

    #[test]
    fn folder_modes_decide_for_user_without_privileges() {
        let (root, me) = (
            UserIdentity { user: 0, groups: vec![0] },
            UserIdentity { user: 1000, groups: vec![1000, 27] },
        );
        for (owner, group, mode, by_root, by_me) in [
            (0, 0, 0o755, true, true),
            (0, 0, 0o700, true, false),
            (1000, 1000, 0o700, false, true),
            (7, 27, 0o750, false, true),
            (7, 7, 0o750, false, false),
            (1000, 1000, 0o077, true, false),
        ] {
            let seen = [&root, &me].map(|user| user.can_enter(owner, group, mode));
            assert_eq!(seen, [by_root, by_me], "{owner} {group} {mode:o}");
        }
    }

    #[test]
    fn process_folders_include_own_folder() {
        let own = PathBuf::from("/proc/self/cwd").canonicalize().unwrap();
        assert!(read_process_folders().contains(&own));
    }
}
