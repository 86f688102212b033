//! Reports of the init process inside a sandbox to the supervisor outside.
//!
//! Bubblewrap reports the end of a command by its own exit code, in which a signal looks like a
//! code. So the init process sends an [`InitReport`] itself, as a record of fixed size on a pipe,
//! which is read as a whole or not at all.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::spawner::syscalls::ResourceUsage;

const RECORD_BYTES: usize = 48;
const FIELD_BYTES: usize = 8;

/// One report from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitReport {
    /// The program runs, and the whole sandbox is in force.
    Started,
    /// The sandbox is in force, but the program does not run: the failed step and the error number.
    NotRun { step: u8, errno: i32 },
    /// The program exited with a code.
    Returned { code: i32, last: ExitSummary },
    /// A signal ended the program.
    Signalled { signal: i32, last: ExitSummary },
}

/// What is reported at the end of a command in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExitSummary {
    /// Processes that still run, besides those of the sandbox.
    pub(crate) leftover: u32,
    /// The resources used by those that ended.
    pub(crate) used: ResourceUsage,
}

impl InitReport {
    pub(crate) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut used = [0; 4];
        let (kind, value, more) = match self {
            Self::Started => (1, 0, 0),
            Self::NotRun { step, errno } => (2, errno, u32::from(step)),
            Self::Returned { code, last } => (3, code, last.encode_fields(&mut used)),
            Self::Signalled { signal, last } => (4, signal, last.encode_fields(&mut used)),
        };
        let mut bytes = [0; RECORD_BYTES];
        let [kind, value, more] = [kind, value.cast_unsigned(), more].map(u64::from);
        let fields = [kind | value << 32, more].into_iter().chain(used);
        for (slot, field) in bytes.chunks_exact_mut(FIELD_BYTES).zip(fields) {
            slot.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; RECORD_BYTES]) -> Option<Self> {
        let parts = bytes.chunks_exact(FIELD_BYTES);
        let mut fields = parts.map(|part| u64::from_ne_bytes(part.try_into().unwrap_or_default()));
        let (first, more) = (fields.next()?, u32::try_from(fields.next()?).ok()?);
        let used = ResourceUsage {
            cpu_time: Duration::from_micros(fields.next()?),
            largest_bytes: fields.next()?,
            read_bytes: fields.next()?,
            written_bytes: fields.next()?,
        };
        let value = u32::try_from(first >> 32).ok()?.cast_signed();
        let last = ExitSummary { leftover: more, used };
        match first & u64::from(u32::MAX) {
            1 => Some(Self::Started),
            2 => Some(Self::NotRun { step: u8::try_from(more).ok()?, errno: value }),
            3 => Some(Self::Returned { code: value, last }),
            4 => Some(Self::Signalled { signal: value, last }),
            _ => None,
        }
    }

    /// Reads the next report. Returns [`io::ErrorKind::WouldBlock`] if one may come later, and
    /// `None` if none will.
    pub(crate) fn read(from: &OwnedFd) -> io::Result<Option<Self>> {
        let mut bytes = [0; RECORD_BYTES];
        match rustix::io::read(from, &mut bytes)? {
            RECORD_BYTES => Ok(Self::from_bytes(bytes)),
            _ => Ok(None),
        }
    }
}

impl ExitSummary {
    /// Encodes the resources into four fields, and returns the fifth.
    fn encode_fields(self, used: &mut [u64; 4]) -> u32 {
        let ResourceUsage { cpu_time, largest_bytes, read_bytes, written_bytes } = self.used;
        let micros = u64::try_from(cpu_time.as_micros()).unwrap_or(u64::MAX);
        *used = [micros, largest_bytes, read_bytes, written_bytes];
        self.leftover
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_report_survives_round_trip() {
        let used = ResourceUsage {
            cpu_time: Duration::from_micros(7),
            largest_bytes: 1 << 40,
            read_bytes: 3 << 9,
            written_bytes: 5 << 33,
        };
        let reports = [
            InitReport::Started,
            InitReport::NotRun { step: 7, errno: -2 },
            InitReport::Returned { code: 255, last: ExitSummary { leftover: 0, used } },
            InitReport::Signalled { signal: 9, last: ExitSummary { leftover: 3, used } },
        ];
        for report in reports {
            assert_eq!(InitReport::from_bytes(report.to_bytes()), Some(report));
        }
        assert_eq!(InitReport::from_bytes([0; RECORD_BYTES]), None);
    }
}
