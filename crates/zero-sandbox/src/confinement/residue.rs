//! What a command can leave in its walls when no process of it is left.
//!
//! Walls are used again for the next command of the same kind, which must not find anything that it
//! would not find behind new ones. Mounts cannot be changed from inside, files that can be written to
//! are the host's, and there are no processes. What is left to look at belongs to the namespaces:
//! shared memory, semaphores and messages, by path and by key, and the child's own `/dev`.
//!
//! The last step opens each of these before the first command and notes what there is. Whoever keeps
//! the walls looks again from outside, after each command: what the kernel says through a handle,
//! nobody inside can change.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// Where the child's queues of messages are, where they can be seen at all.
pub(crate) const MESSAGE_QUEUES: &str = "/dev/mqueue";

/// Files and folders of the child's own.
const PRIVATE_FILES: [&str; 5] = ["/dev", "/dev/pts", "/dev/pts/ptmx", "/dev/shm", MESSAGE_QUEUES];
/// What has a key and no path.
const IPC_LISTS: [&str; 3] = ["/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"];
/// How many handles that are.
pub(crate) const HANDLE_COUNT: usize = PRIVATE_FILES.len() + IPC_LISTS.len();
/// How much of a list is read. A longer one is not as it was.
const LIST_BYTES_MAX: usize = 4096;

/// Opens all of them, from inside.
pub(super) fn open_all() -> Option<Vec<OwnedFd>> {
    // To open a terminal for more than a look would make one.
    let files = PRIVATE_FILES.iter().map(|path| (path, OFlags::PATH));
    let lists = IPC_LISTS.iter().map(|path| (path, OFlags::RDONLY));
    let open = |(path, flags): (&&str, OFlags)| {
        rustix::fs::open(*path, flags | OFlags::CLOEXEC, Mode::empty()).ok()
    };
    files.chain(lists).map(open).collect()
}

/// All that they say at one moment.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResidueSnapshot {
    files: Vec<ResidueStat>,
    lists: Vec<String>,
}

impl ResidueSnapshot {
    /// What they say now. None where one does not: then nobody knows what is left there.
    pub(super) fn capture(handles: &[OwnedFd]) -> Option<Self> {
        let (files, lists) = handles.split_at_checked(PRIVATE_FILES.len())?;
        if lists.len() != IPC_LISTS.len() {
            return None;
        }
        Some(Self {
            files: files.iter().map(ResidueStat::from_file).collect::<Option<_>>()?,
            lists: lists.iter().map(read_list).collect::<Option<_>>()?,
        })
    }
}

/// What they said before the first command.
#[derive(Debug)]
pub(super) struct ResidueDetector {
    handles: Vec<OwnedFd>,
    before: ResidueSnapshot,
}

/// What is known of a file or folder, and of the file system in which it is.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ResidueStat {
    mode: u32,
    owner: (u32, u32),
    /// One more for each name in it, in a file system that is in memory.
    size: i64,
    files_used: u64,
    blocks_used: u64,
}

impl ResidueDetector {
    pub(super) fn new(handles: Vec<OwnedFd>, before: ResidueSnapshot) -> Self {
        Self { handles, before }
    }

    /// Whether nothing is there that was not there before.
    pub(super) fn is_clean(&self) -> bool {
        ResidueSnapshot::capture(&self.handles).is_some_and(|now| now == self.before)
    }
}

impl ResidueStat {
    fn from_file(file: &OwnedFd) -> Option<Self> {
        let (facts, system) = (rustix::fs::fstat(file).ok()?, rustix::fs::fstatfs(file).ok()?);
        Some(Self {
            mode: facts.st_mode,
            owner: (facts.st_uid, facts.st_gid),
            size: facts.st_size,
            files_used: system.f_files.saturating_sub(system.f_ffree),
            blocks_used: system.f_blocks.saturating_sub(system.f_bfree),
        })
    }
}

fn read_list(list: &OwnedFd) -> Option<String> {
    let mut bytes = vec![0; LIST_BYTES_MAX];
    let mut len = 0;
    while let Some(rest) = bytes.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(list, rest, u64::try_from(len).ok()?).ok()? {
            0 => {
                bytes.truncate(len);
                return String::from_utf8(bytes).ok();
            }
            count => len += count,
        }
    }
    None
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn residue_is_detected() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let lists: Vec<_> =
            (0..IPC_LISTS.len()).map(|at| folder.path().join(at.to_string())).collect();
        lists.iter().for_each(|list| std::fs::write(list, "key size\n").unwrap());
        let handles = || -> Vec<OwnedFd> {
            let folders = (0..PRIVATE_FILES.len()).map(|_| folder.path().to_owned());
            folders.chain(lists.clone()).map(|path| File::open(path).unwrap().into()).collect()
        };
        let traces =
            || ResidueDetector::new(handles(), ResidueSnapshot::capture(&handles()).unwrap());
        let before = traces();
        assert!(before.is_clean());
        // One more in a list, and a name in a folder.
        std::fs::write(&lists[2], "key size\n1 2\n").unwrap();
        assert!(!before.is_clean());
        let before = traces();
        std::fs::write(folder.path().join("more"), "").unwrap();
        assert!(!before.is_clean());
        // One that is missing, and a list that is too long to tell.
        assert_eq!(ResidueSnapshot::capture(&handles().split_off(1)), None);
        std::fs::write(&lists[0], "x".repeat(LIST_BYTES_MAX)).unwrap();
        assert_eq!(ResidueSnapshot::capture(&handles()), None);
    }
}
