//! The link between a row and the previous one.
//!
//! A line of the log ends with `,"seq":N,"prev":"…","hash":"…"}`. `seq` is the row's number in the
//! whole log, from 1; `prev` is the hash of the previous row, 64 zeros for the first; `hash` is the
//! SHA-256 of the line's bytes before `,"hash":"`. So a hash covers its row and all earlier rows,
//! and any tool that can split a line can check it.

use std::fmt;
use std::str::FromStr;

use zero_sandbox::journal::sha256;

/// The number of a row and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainPosition {
    /// The number, from 1; 0 is the position before the first row.
    pub seq: u64,
    /// The hash, 64 lower-case hexadecimal digits.
    pub hash: String,
}

impl ChainPosition {
    /// The position before the first row.
    pub(super) fn origin() -> Self {
        Self { seq: 0, hash: "0".repeat(HASH_LEN) }
    }
}

impl fmt::Display for ChainPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, self.hash)
    }
}

/// A text that is not a chain position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write it as SEQ:HASH, as `zero audit verify` prints it: a number and 64 hexadecimal digits"
)]
pub struct InvalidChainPosition;

impl FromStr for ChainPosition {
    type Err = InvalidChainPosition;

    fn from_str(text: &str) -> Result<Self, InvalidChainPosition> {
        let (seq, hash) = text.trim().split_once(':').ok_or(InvalidChainPosition)?;
        let (seq, hash) = (parse_seq(seq).ok_or(InvalidChainPosition)?, hash.to_ascii_lowercase());
        if is_hash(&hash) { Ok(Self { seq, hash }) } else { Err(InvalidChainPosition) }
    }
}

/// The link recorded in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainLink {
    /// The row's number, and its recorded hash.
    pub pin: ChainPosition,
    /// The recorded hash of the previous row.
    pub prev: String,
    /// The actual hash of the line's bytes.
    pub computed: String,
}

impl ChainLink {
    /// Parses the end of a line; `None` if it has no link.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line.strip_suffix(b"\n").unwrap_or(line)).ok()?;
        let (body, hash) = line.strip_suffix("\"}")?.rsplit_once(HASH)?;
        let (rest, prev) = body.strip_suffix('"')?.rsplit_once(PREV)?;
        let (_, seq) = rest.rsplit_once(SEQ)?;
        let seq = parse_seq(seq)?;
        (is_hash(hash) && is_hash(prev)).then(|| Self {
            pin: ChainPosition { seq, hash: hash.to_owned() },
            prev: prev.to_owned(),
            computed: sha256(body.as_bytes()),
        })
    }

    /// Whether the recorded hash is the actual one.
    pub fn is_valid(&self) -> bool {
        self.pin.hash == self.computed
    }
}

/// Links a row, given as a JSON object, to the previous one. Returns the line and its position.
pub(super) fn link_row(object: &[u8], before: &ChainPosition) -> Option<(Vec<u8>, ChainPosition)> {
    let seq = before.seq.checked_add(1)?;
    let open = object.strip_suffix(b"}")?;
    let mut line = Vec::with_capacity(open.len() + 2 * HASH_LEN + 64);
    line.extend_from_slice(open);
    for part in [SEQ, &seq.to_string(), PREV, &before.hash, "\""] {
        line.extend_from_slice(part.as_bytes());
    }
    let hash = sha256(&line);
    for part in [HASH, &hash, "\"}"] {
        line.extend_from_slice(part.as_bytes());
    }
    Some((line, ChainPosition { seq, hash }))
}

const SEQ: &str = ",\"seq\":";
const PREV: &str = ",\"prev\":\"";
const HASH: &str = ",\"hash\":\"";
const HASH_LEN: usize = 64;
/// Highest accepted number: every JSON parser can represent it and its successor.
const SEQ_MAX: u64 = 1 << 53;

pub(super) fn is_hash(text: &str) -> bool {
    text.len() == HASH_LEN && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Parses a number in its canonical form: digits without leading zeros.
fn parse_seq(text: &str) -> Option<u64> {
    let seq = text.parse().ok().filter(|seq| (1..SEQ_MAX).contains(seq))?;
    (seq.to_string() == text).then_some(seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_row_reveals_position_and_every_change() {
        let (first, pin) = link_row(br#"{"a":1}"#, &ChainPosition::origin()).unwrap();
        let text = String::from_utf8(first.clone()).unwrap();
        let zeros = "0".repeat(64);
        assert_eq!(text, format!(r#"{{"a":1,"seq":1,"prev":"{zeros}","hash":"{}"}}"#, pin.hash));
        let (second, _) = link_row(br#"{"a":2}"#, &pin).unwrap();
        let link = ChainLink::parse(&second).unwrap();
        assert_eq!((link.pin.seq, &link.prev, link.is_valid()), (2, &pin.hash, true));
        for at in 0..first.len() {
            let mut changed = first.clone();
            changed[at] ^= 1;
            let is_right = ChainLink::parse(&changed).is_some_and(|link| link.is_valid());
            assert!(!is_right, "byte {at} of {text}");
        }
    }

    #[test]
    fn chain_position_round_trips() {
        let pin = ChainPosition { seq: 12, hash: "ab".repeat(32) };
        assert_eq!(pin.to_string().parse(), Ok(pin));
        let hash = "0".repeat(64);
        for bad in ["", "12", "12:", "12:ab", "0:ab", &format!("x:{hash}"), &format!("012:{hash}")]
        {
            assert_eq!(bad.parse::<ChainPosition>(), Err(InvalidChainPosition), "{bad}");
        }
    }
}
