//! Watches how much of the disks a command fills.
//!
//! No kernel limits what a process tree adds to a disk without quotas that an administrator sets up.
//! So the free space is compared with that at the start. It says how full a disk is, not who filled
//! it: bytes that other programs write meanwhile count as well.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};

use crate::disk_space::DiskSpace;
use crate::profile::SandboxProfile;
use crate::running_command::ExitCause;

/// Interval between two checks.
pub(crate) const DISK_TICK: Duration = Duration::from_millis(250);
/// The least size of a file that a command can write, in bytes. On a disk that is nearly full, small
/// files are left to the check of its free space, which says what is wrong.
const FILE_BYTES_MIN: u64 = 10_000_000;

/// Bits of the free space after the first one that count: steps of an eighth at most.
const ROOM_BITS: u32 = 3;

/// The disks that a command can fill.
#[derive(Debug)]
pub(crate) struct DiskWatch {
    disks: Vec<WatchedDisk>,
    /// Bytes that a command may add to each of them.
    growth_max: u64,
}

#[derive(Debug)]
struct WatchedDisk {
    folder: OwnedFd,
    space: DiskSpace,
}

/// The largest file that a command can write now without using the space that stays free: the disks
/// are checked a few times a second, and one file can grow faster than that.
pub(crate) fn free_bytes_for_file(profile: &SandboxProfile) -> u64 {
    DiskWatch::start(profile).largest_file()
}

impl DiskWatch {
    /// Measures the disks of all folders that a command may change, before it starts.
    pub(crate) fn start(profile: &SandboxProfile) -> Self {
        let folders = profile.writable.iter().chain([&profile.tmp]);
        Self::for_folders(folders.map(|folder| &**folder), profile.limits.disk_bytes)
    }

    fn for_folders<'a>(folders: impl Iterator<Item = &'a Path>, growth_max: u64) -> Self {
        let mut seen = BTreeSet::new();
        let mut disks = Vec::new();
        for path in folders {
            // A folder that does not exist is not made for the command either.
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let Ok(folder) = rustix::fs::open(path, flags, Mode::empty()) else { continue };
            let is_new = rustix::fs::fstat(&folder).is_ok_and(|stat| seen.insert(stat.st_dev));
            if let Some(space) = DiskSpace::measure(&folder).filter(|_| is_new) {
                disks.push(WatchedDisk { folder, space });
            }
        }
        Self { disks, growth_max }
    }

    /// The largest file that leaves the reserve of some disk free, rounded down: a sandbox is reused
    /// only for the same limits, and the free space changes all the time.
    fn largest_file(&self) -> u64 {
        let room = |disk: &WatchedDisk| disk.space.free.saturating_sub(disk.space.reserve());
        // A disk that does not say how large it is has no reserve.
        let largest = self.disks.iter().map(room).max().unwrap_or(u64::MAX).max(FILE_BYTES_MIN);
        let dropped_bits = largest.ilog2().saturating_sub(ROOM_BITS);
        largest >> dropped_bits << dropped_bits
    }

    /// Whether there is a disk to watch.
    pub(crate) fn is_needed(&self) -> bool {
        !self.disks.is_empty()
    }

    /// Checks the disks, and returns the limit that one exceeds.
    pub(crate) fn inspect(&self) -> Option<ExitCause> {
        self.disks.iter().find_map(|disk| {
            let now = DiskSpace::measure(&disk.folder)?;
            disk.space.find_exceeded_limit(now.free, self.growth_max)
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[test]
    fn one_file_leaves_the_reserve_free() {
        let temp = tempfile::tempdir().unwrap();
        let largest = |free, size| {
            let mut watch = DiskWatch::for_folders([temp.path()].into_iter(), 0);
            watch.disks[0].space = DiskSpace { free, size };
            watch.largest_file()
        };
        for (free, size, room) in
            [(50 * GB, 100 * GB, 45 * GB), (4 * GB, 1000 * GB, 2 * GB), (0, GB, FILE_BYTES_MIN)]
        {
            let largest = largest(free, size);
            assert!(largest <= room && largest > room - room / 8, "{largest} of {room}");
        }
        // It is the same after a command that wrote a little.
        assert_eq!(largest(50 * GB, 100 * GB), largest(50 * GB - 1_000_000, 100 * GB));
        let nowhere = DiskWatch::for_folders([Path::new("/nowhere")].into_iter(), 0);
        assert!(nowhere.largest_file() > u64::MAX / 2);
    }

    #[test]
    fn each_disk_is_watched_once() {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = (root.path().join("a"), root.path().join("b"));
        std::fs::create_dir_all(&one).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        let folders = [&*one, &*other, Path::new("/nowhere")];
        let watch = DiskWatch::for_folders(folders.into_iter(), u64::MAX);
        assert_eq!(watch.disks.len(), 1);
        assert!(!DiskWatch::for_folders([Path::new("/nowhere")].into_iter(), 0).is_needed());
    }
}
