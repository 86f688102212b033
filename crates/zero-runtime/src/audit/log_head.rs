//! The file that records where the log ends.
//!
//! If rows are removed from the end, the rest is still a valid chain. `head` records the last row,
//! so that the removal is detected. It also records the length of that row's file: while the length
//! is the same, the next row can be added without reading the file.

use jiff::civil::Date;

use super::chain_link::{ChainPosition, is_hash};

/// The name of the file.
pub(super) const HEAD: &str = "head";

/// The end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogHead {
    /// The last row.
    pub(super) pin: ChainPosition,
    /// The day of the file that contains it.
    pub(super) day: Date,
    /// The length of that file including the row, in bytes.
    pub(super) size: u64,
}

impl LogHead {
    /// The file's one line, which always has the same length.
    pub(super) fn to_line(&self) -> String {
        let Self { pin: ChainPosition { seq, hash }, day, size } = self;
        format!("{seq:020} {hash} {day} {size:020}\n")
    }

    /// Parses the line; `None` if it is malformed.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
        let mut parts = line.split(' ');
        let (seq, hash) = (parts.next()?.parse().ok()?, parts.next().filter(|hash| is_hash(hash))?);
        let (day, size) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let pin = ChainPosition { seq, hash: hash.to_owned() };
        let head = Self { pin, day, size };
        (parts.next().is_none() && seq < 1 << 53).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_round_trips_with_fixed_length() {
        let hash = "0f".repeat(32);
        for (seq, size) in [(1, 0), (1 << 52, u64::MAX)] {
            let pin = ChainPosition { seq, hash: hash.clone() };
            let head = LogHead { pin, day: jiff::civil::date(2026, 1, 2), size };
            assert_eq!(head.to_line().len(), 118);
            assert_eq!(LogHead::parse(head.to_line().as_bytes()), Some(head));
        }
        for bad in ["", "\n", "1 2 3 4\n", &format!("1 {hash} 2026-01-02 7")] {
            assert_eq!(LogHead::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
