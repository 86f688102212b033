//! The free space of disks, and how much of it must stay free.

use std::os::fd::AsFd;

use crate::running_command::ExitCause;

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

    /// The limit that is exceeded if this was the space at the start and `free` is left.
    pub(crate) fn find_exceeded_limit(self, free: u64, growth_max: u64) -> Option<ExitCause> {
        let used = self.free.saturating_sub(free);
        let reserve = self.reserve();
        if used > growth_max {
            return Some(ExitCause::DiskLimit { limit: growth_max, used });
        }
        (free < reserve).then_some(ExitCause::DiskFull { reserve, free })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    #[track_caller]
    fn check(size: u64, before: u64, now: u64, expected: Option<ExitCause>) {
        let start = DiskSpace { free: before, size };
        assert_eq!(start.find_exceeded_limit(now, 20 * GB), expected, "{before} {now} of {size}");
    }

    #[test]
    fn growth_and_reserve_are_limited() {
        check(1000 * GB, 500 * GB, 481 * GB, None);
        let limit = ExitCause::DiskLimit { limit: 20 * GB, used: 21 * GB };
        check(1000 * GB, 500 * GB, 479 * GB, Some(limit));
        check(1000 * GB, 500 * GB, 600 * GB, None);
        let full = |reserve, free| Some(ExitCause::DiskFull { reserve, free });
        check(100 * GB, 12 * GB, 5 * GB, None);
        check(100 * GB, 12 * GB, 4 * GB, full(5 * GB, 4 * GB));
        check(10 * GB, 5 * GB, GB - 1, full(GB, GB - 1));
        // Nearly full at the start.
        check(1000 * GB, 8 * GB, 7 * GB, None);
        check(1000 * GB, 8 * GB, 3 * GB, full(4 * GB, 3 * GB));
        check(1000 * GB, 0, 0, None);
    }

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
