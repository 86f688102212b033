//! What the last step inside the walls says to the one who keeps the command outside.
//!
//! Bubblewrap tells how a command ended by its own exit code, where a signal looks like a code. So
//! the step that becomes the command's first process says it itself, in records of a fixed size on
//! a pipe, which are read as a whole or not at all.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::spawner::syscalls::ResourceUsage;

const RECORD_BYTES: usize = 32;
const FIELD_BYTES: usize = 8;

/// One word from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InitReport {
    /// The program runs, and every wall stands.
    Started,
    /// The walls stand, and the program does not run: the step that failed and the system's number.
    NotRun { step: u8, errno: i32 },
    /// The program returned.
    Returned { code: i32, last: ExitSummary },
    /// A signal ended the program.
    Signalled { signal: i32, last: ExitSummary },
}

/// What there is to say at the end, however it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExitSummary {
    /// Processes that are still there, besides those of the walls.
    pub(crate) leftover: u32,
    /// What was used by those that are not.
    pub(crate) used: ResourceUsage,
}

impl InitReport {
    pub(crate) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut used = [0; 2];
        let (kind, value, more) = match self {
            Self::Started => (1, 0, 0),
            Self::NotRun { step, errno } => (2, errno, u32::from(step)),
            Self::Returned { code, last } => (3, code, last.encode_fields(&mut used)),
            Self::Signalled { signal, last } => (4, signal, last.encode_fields(&mut used)),
        };
        let mut bytes = [0; RECORD_BYTES];
        let [kind, value, more] = [kind, value.cast_unsigned(), more].map(u64::from);
        let fields = [kind | value << 32, more, used[0], used[1]];
        for (place, field) in bytes.chunks_exact_mut(FIELD_BYTES).zip(fields) {
            place.copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; RECORD_BYTES]) -> Option<Self> {
        let parts = bytes.chunks_exact(FIELD_BYTES);
        let mut fields = parts.map(|part| u64::from_ne_bytes(part.try_into().unwrap_or_default()));
        let (first, more) = (fields.next()?, u32::try_from(fields.next()?).ok()?);
        let (cpu_time, largest_bytes) = (Duration::from_micros(fields.next()?), fields.next()?);
        let value = u32::try_from(first >> 32).ok()?.cast_signed();
        let last = ExitSummary { leftover: more, used: ResourceUsage { cpu_time, largest_bytes } };
        match first & u64::from(u32::MAX) {
            1 => Some(Self::Started),
            2 => Some(Self::NotRun { step: u8::try_from(more).ok()?, errno: value }),
            3 => Some(Self::Returned { code: value, last }),
            4 => Some(Self::Signalled { signal: value, last }),
            _ => None,
        }
    }

    /// The next word, if there is one: [`io::ErrorKind::WouldBlock`] when there may be one later,
    /// nothing when there will be none.
    pub(crate) fn read(from: &OwnedFd) -> io::Result<Option<Self>> {
        let mut bytes = [0; RECORD_BYTES];
        match rustix::io::read(from, &mut bytes)? {
            RECORD_BYTES => Ok(Self::from_bytes(bytes)),
            _ => Ok(None),
        }
    }
}

impl ExitSummary {
    /// Puts what was used into two fields, and gives the third.
    fn encode_fields(self, used: &mut [u64; 2]) -> u32 {
        let micros = self.used.cpu_time.as_micros();
        *used = [u64::try_from(micros).unwrap_or(u64::MAX), self.used.largest_bytes];
        self.leftover
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_report_survives_round_trip() {
        let used = ResourceUsage { cpu_time: Duration::from_micros(7), largest_bytes: 1 << 40 };
        let words = [
            InitReport::Started,
            InitReport::NotRun { step: 7, errno: -2 },
            InitReport::Returned { code: 255, last: ExitSummary { leftover: 0, used } },
            InitReport::Signalled { signal: 9, last: ExitSummary { leftover: 3, used } },
        ];
        for word in words {
            assert_eq!(InitReport::from_bytes(word.to_bytes()), Some(word));
        }
        assert_eq!(InitReport::from_bytes([0; RECORD_BYTES]), None);
    }
}
