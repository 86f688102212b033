//! Detects what a command has left in its sandbox when none of its processes is left.
//!
//! A sandbox is reused for the next command of the same kind, which must find nothing that it would
//! not find in a new one. Mounts cannot be changed from inside, writable files are the host's, and
//! there are no processes. The remaining state belongs to the namespaces: shared memory, semaphores
//! and message queues, by path and by key, and the sandbox's own `/dev`.
//!
//! The init process opens each of these before the first command and takes a [`ResidueSnapshot`].
//! The supervisor compares it from outside after each command with a [`ResidueDetector`]: no
//! process inside can change what the kernel reports through a descriptor.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

/// Where the sandbox's message queues are, if they are mounted.
pub(crate) const MESSAGE_QUEUES: &str = "/dev/mqueue";

/// Files and folders that belong to the sandbox.
const PRIVATE_FILES: [&str; 5] = ["/dev", "/dev/pts", "/dev/pts/ptmx", "/dev/shm", MESSAGE_QUEUES];
/// IPC objects that have a key and no path.
const IPC_LISTS: [&str; 3] = ["/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"];
/// The number of descriptors that [`open_all`] returns.
pub(crate) const HANDLE_COUNT: usize = PRIVATE_FILES.len() + IPC_LISTS.len();
/// How much of a list is read. A longer one counts as changed.
const LIST_BYTES_MAX: usize = 4096;

/// Opens all files and lists, from inside the sandbox.
pub(super) fn open_all() -> Option<Vec<OwnedFd>> {
    // With `O_PATH`, because opening `ptmx` for reading would create a terminal.
    let files = PRIVATE_FILES.iter().map(|path| (path, OFlags::PATH));
    let lists = IPC_LISTS.iter().map(|path| (path, OFlags::RDONLY));
    let open = |(path, flags): (&&str, OFlags)| {
        rustix::fs::open(*path, flags | OFlags::CLOEXEC, Mode::empty()).ok()
    };
    files.chain(lists).map(open).collect()
}

/// The state of all files and lists at one moment.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResidueSnapshot {
    files: Vec<ResidueStat>,
    lists: Vec<String>,
}

impl ResidueSnapshot {
    /// Takes a snapshot. Returns `None` if one cannot be read: then it is not known what is left.
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

/// The open files and lists with their state before the first command.
#[derive(Debug)]
pub(super) struct ResidueDetector {
    handles: Vec<OwnedFd>,
    before: ResidueSnapshot,
}

/// Facts about a file or folder, and about its file system.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ResidueStat {
    mode: u32,
    owner: (u32, u32),
    /// In a file system in memory, it grows with each entry of a folder.
    size: i64,
    files_used: u64,
    blocks_used: u64,
}

impl ResidueDetector {
    pub(super) fn new(handles: Vec<OwnedFd>, before: ResidueSnapshot) -> Self {
        Self { handles, before }
    }

    /// Whether everything is as before the first command.
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
        // One more entry in a list, and one more name in a folder.
        std::fs::write(&lists[2], "key size\n1 2\n").unwrap();
        assert!(!before.is_clean());
        let before = traces();
        std::fs::write(folder.path().join("more"), "").unwrap();
        assert!(!before.is_clean());
        // A missing descriptor, and a list that is too long to compare.
        assert_eq!(ResidueSnapshot::capture(&handles().split_off(1)), None);
        std::fs::write(&lists[0], "x".repeat(LIST_BYTES_MAX)).unwrap();
        assert_eq!(ResidueSnapshot::capture(&handles()), None);
    }
}
