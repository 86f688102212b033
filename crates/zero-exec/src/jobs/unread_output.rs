//! Output of a job that was not read yet. Bounded: the oldest bytes are dropped.

use std::collections::VecDeque;

use zero_sandbox::output_collector::OutputStream;

/// Most bytes that are kept.
pub const BYTES_MAX: usize = 1_000_000;

/// Consecutive bytes of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputChunk {
    /// The stream that the bytes came from.
    pub stream: OutputStream,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Whether more output can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnreadRemainder {
    /// More can follow, so the end may be an incomplete character.
    MayCome,
    /// The output is complete.
    Never,
}

/// Output that was not read yet.
#[derive(Debug, Default)]
pub(super) struct UnreadOutput {
    pieces: VecDeque<OutputChunk>,
    len: usize,
    lost: u64,
}

impl UnreadOutput {
    pub(super) fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.pieces.back_mut() {
            Some(last) if last.stream == stream => last.bytes.extend_from_slice(bytes),
            _ => self.pieces.push_back(OutputChunk { stream, bytes: bytes.to_vec() }),
        }
        self.len += bytes.len();
        // Drops half at once, and therefore rarely: moving the rest takes time.
        if self.len > 2 * BYTES_MAX {
            self.shorten();
        }
    }

    /// Takes the unread output, and the number of bytes before it that were dropped.
    pub(super) fn take(&mut self, rest: UnreadRemainder) -> (Vec<OutputChunk>, u64) {
        self.shorten();
        let mut taken = std::mem::take(&mut self.pieces);
        self.len = 0;
        if rest == UnreadRemainder::MayCome
            && let Some(last) = taken.back_mut()
        {
            let begun = last.bytes.split_off(last.bytes.len() - incomplete_char_len(&last.bytes));
            self.push(last.stream, &begun);
        }
        (taken.into(), std::mem::take(&mut self.lost))
    }

    /// Bytes that were not read.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    fn shorten(&mut self) {
        let mut surplus = self.len.saturating_sub(BYTES_MAX);
        self.lost += surplus as u64;
        self.len -= surplus;
        while surplus > 0 {
            let Some(first) = self.pieces.front_mut() else { return };
            let gone = surplus.min(first.bytes.len());
            surplus -= gone;
            if gone == first.bytes.len() {
                self.pieces.pop_front();
            } else {
                first.bytes.drain(..gone);
            }
        }
    }
}

/// The number of bytes at the end that are an incomplete character.
pub(crate) fn incomplete_char_len(bytes: &[u8]) -> usize {
    /// Bytes of the longest UTF-8 character.
    const CHARACTER_BYTES_MAX: usize = 4;
    for (back, byte) in bytes.iter().rev().take(CHARACTER_BYTES_MAX - 1).enumerate() {
        let char_len = match byte {
            0x80..0xc0 => continue,
            0xc2..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf5 => 4,
            _ => return 0,
        };
        return if back + 1 < char_len { back + 1 } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_is_not_split() {
        #[track_caller]
        fn check(bytes: &[u8], held_back: usize) {
            assert_eq!(incomplete_char_len(bytes), held_back, "{bytes:?}");
        }
        check(b"", 0);
        check(b"abc", 0);
        check("é".as_bytes(), 0);
        check(b"a\xc3", 1);
        check(b"a\xe2\x82", 2);
        check("a€".as_bytes(), 0);
        check(b"\xf0\x9f\x98", 3);
        check("😀".as_bytes(), 0);
        check(b"\x80\x80\x80\x80", 0);
        check(b"\xff", 0);
        let mut unread = UnreadOutput::default();
        unread.push(OutputStream::Stdout, b"a\xc3");
        let one = |bytes: &[u8]| {
            vec![OutputChunk { stream: OutputStream::Stdout, bytes: bytes.to_vec() }]
        };
        assert_eq!(unread.take(UnreadRemainder::MayCome).0, one(b"a"));
        assert_eq!(unread.len(), 1);
        unread.push(OutputStream::Stdout, b"\xa9");
        assert_eq!(unread.take(UnreadRemainder::MayCome).0, one("é".as_bytes()));
        unread.push(OutputStream::Stdout, b"\xc3");
        assert_eq!(unread.take(UnreadRemainder::Never).0, one(b"\xc3"));
    }

    #[test]
    fn newest_output_is_kept_and_rest_counted() {
        let mut unread = UnreadOutput::default();
        unread.push(OutputStream::Stdout, b"a");
        unread.push(OutputStream::Stderr, b"b");
        unread.push(OutputStream::Stderr, b"c");
        let piece = |stream, bytes: &[u8]| OutputChunk { stream, bytes: bytes.to_vec() };
        let expected = vec![piece(OutputStream::Stdout, b"a"), piece(OutputStream::Stderr, b"bc")];
        assert_eq!(unread.take(UnreadRemainder::Never), (expected, 0));
        assert_eq!(unread.take(UnreadRemainder::Never), (vec![], 0));
        for number in 0..30_u8 {
            let stream = if number % 2 == 0 { OutputStream::Stdout } else { OutputStream::Stderr };
            unread.push(stream, &vec![number; 100_000]);
        }
        assert!(unread.len() <= 2 * BYTES_MAX);
        let (pieces, lost) = unread.take(UnreadRemainder::Never);
        let kept: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        assert_eq!((kept, lost), (BYTES_MAX, 2_000_000));
        assert_eq!(pieces.last().unwrap().bytes.last(), Some(&29));
    }
}
