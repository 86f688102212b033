//! Output of a job that was not read yet. Bounded: the oldest bytes are dropped.

use std::collections::VecDeque;

use zero_core::text_shortening::{char_remainder_len, incomplete_char_len};
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
            let partial_line =
                last.bytes.split_off(last.bytes.len() - incomplete_char_len(&last.bytes));
            self.push(last.stream, &partial_line);
        }
        (taken.into(), std::mem::take(&mut self.lost))
    }

    /// A copy of the unread output, and the number of bytes before it that were dropped.
    pub(super) fn snapshot(&self) -> (Vec<OutputChunk>, u64) {
        let mut copy = Self { pieces: self.pieces.clone(), len: self.len, lost: self.lost };
        copy.take(UnreadRemainder::Never)
    }

    /// Bytes that were not read.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that can be taken while more may come: an incomplete character at the end is not.
    pub(super) fn readable_len(&self) -> usize {
        let partial_len = self.pieces.back().map_or(0, |last| incomplete_char_len(&last.bytes));
        self.len.saturating_sub(partial_len)
    }

    fn shorten(&mut self) {
        let mut surplus = self.len.saturating_sub(BYTES_MAX);
        if surplus == 0 {
            return;
        }
        self.lost += surplus as u64;
        self.len -= surplus;
        while surplus > 0 {
            let Some(first) = self.pieces.front_mut() else { return };
            let dropped_len = surplus.min(first.bytes.len());
            surplus -= dropped_len;
            if dropped_len == first.bytes.len() {
                self.pieces.pop_front();
            } else {
                first.bytes.drain(..dropped_len);
            }
        }
        // The rest of a character whose beginning was dropped.
        if let Some(first) = self.pieces.front_mut() {
            let rest = char_remainder_len(&first.bytes);
            first.bytes.drain(..rest);
            self.len -= rest;
            self.lost += rest as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn character_is_not_split() {
        let mut unread = UnreadOutput::default();
        unread.push(OutputStream::Stdout, b"a\xc3");
        let one = |bytes: &[u8]| {
            vec![OutputChunk { stream: OutputStream::Stdout, bytes: bytes.to_vec() }]
        };
        assert_eq!(unread.take(UnreadRemainder::MayCome).0, one(b"a"));
        assert_eq!((unread.len(), unread.readable_len()), (1, 0));
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
        // The kept part begins with a whole character.
        unread.push(OutputStream::Stdout, "é".repeat(BYTES_MAX).as_bytes());
        unread.push(OutputStream::Stdout, b"x");
        let (pieces, lost) = unread.take(UnreadRemainder::Never);
        let text = std::str::from_utf8(&pieces[0].bytes).unwrap();
        assert_eq!(text.len() as u64 + lost, 2 * BYTES_MAX as u64 + 1);
    }
}
