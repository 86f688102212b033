//! The free space of disks, and how much of it must stay free.

use std::os::fd::AsFd;

/// The least space that stays free on a disk, in bytes.
const RESERVE_BYTES_MIN: u64 = 1_000_000_000;
/// The least share of a disk that stays free, as a divisor: 5 %.
const RESERVE_DIVISOR: u64 = 20;

/// The space of a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    pub(crate) free: u64,
    pub(crate) size: u64,
}

impl DiskSpace {
    /// `None` for file systems that do not say how large they are.
    pub(crate) fn measure(folder: impl AsFd) -> Option<Self> {
        let stat = rustix::fs::fstatvfs(folder).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        (stat.f_blocks > 0).then(|| Self { free: bytes(stat.f_bavail), size: bytes(stat.f_blocks) })
    }

    /// The space that stays free. On a disk that is nearly full, half of what was free, so that
    /// small commands still run.
    pub(crate) fn reserve(self) -> u64 {
        (self.size / RESERVE_DIVISOR).max(RESERVE_BYTES_MIN).min(self.free / 2)
    }

    /// What zero itself may add for a command, whose limits count it: half of what the command could.
    pub(crate) fn room_for_copies(self) -> u64 {
        self.free.saturating_sub(self.reserve()) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_leave_room_for_their_command() {
        const MB: u64 = 1_000_000;
        #[track_caller]
        fn check(free: u64, size: u64, reserve: u64, copies: u64) {
            let space = DiskSpace { free, size };
            assert_eq!((space.reserve(), space.room_for_copies()), (reserve, copies));
        }
        check(800 * MB, 800 * MB, 400 * MB, 200 * MB);
        check(500_000 * MB, 1_000_000 * MB, 50_000 * MB, 225_000 * MB);
        check(0, 800 * MB, 0, 0);
    }
}
