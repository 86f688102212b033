//! What the last step inside the walls says to the one who keeps the command outside.
//!
//! Bubblewrap tells how a command ended by its own exit code, where a signal looks like a code. So
//! the step that becomes the command's first process says it itself, in records of a fixed size on
//! a pipe, which are read as a whole or not at all.

use std::io;
use std::os::fd::OwnedFd;

const RECORD_BYTES: usize = 16;

/// One word from inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The program runs, and every wall stands.
    Started,
    /// The walls stand, and the program does not run: the step that failed and the system's number.
    NotRun { step: u8, errno: i32 },
    /// The program returned.
    Returned { code: i32, leftover: u32 },
    /// A signal ended the program.
    Signalled { signal: i32, leftover: u32 },
}

impl Word {
    pub(crate) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let (kind, value, more) = match self {
            Self::Started => (1, 0, 0),
            Self::NotRun { step, errno } => (2, errno, u32::from(step)),
            Self::Returned { code, leftover } => (3, code, leftover),
            Self::Signalled { signal, leftover } => (4, signal, leftover),
        };
        let mut bytes = [0; RECORD_BYTES];
        let parts = [u32::to_ne_bytes(kind), i32::to_ne_bytes(value), u32::to_ne_bytes(more)];
        for (place, part) in bytes.chunks_exact_mut(4).zip(parts) {
            place.copy_from_slice(&part);
        }
        bytes
    }

    fn from_bytes(bytes: [u8; RECORD_BYTES]) -> Option<Self> {
        let mut parts = bytes.chunks_exact(4).map(|part| part.try_into().unwrap_or_default());
        let (kind, value, more) = (parts.next()?, parts.next()?, parts.next()?);
        let (value, more) = (i32::from_ne_bytes(value), u32::from_ne_bytes(more));
        match u32::from_ne_bytes(kind) {
            1 => Some(Self::Started),
            2 => Some(Self::NotRun { step: u8::try_from(more).ok()?, errno: value }),
            3 => Some(Self::Returned { code: value, leftover: more }),
            4 => Some(Self::Signalled { signal: value, leftover: more }),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_arrives_as_it_was_said() {
        let words = [
            Word::Started,
            Word::NotRun { step: 7, errno: 2 },
            Word::Returned { code: 255, leftover: 0 },
            Word::Signalled { signal: 9, leftover: 3 },
        ];
        for word in words {
            assert_eq!(Word::from_bytes(word.to_bytes()), Some(word));
        }
        assert_eq!(Word::from_bytes([0; RECORD_BYTES]), None);
    }
}
