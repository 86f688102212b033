//! What a job wrote since somebody last looked, up to a bound: the newest is kept.

use std::collections::VecDeque;

use zero_sandbox::drain::Stream;

/// Bytes that are kept.
const BYTES_MAX: usize = 1_000_000;

/// Bytes that came from one stream without any of the other in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where they came from.
    pub stream: Stream,
    /// What came.
    pub bytes: Vec<u8>,
}

/// What nobody has read yet.
#[derive(Debug, Default)]
pub(super) struct Unread {
    pieces: VecDeque<Piece>,
    len: usize,
    lost: u64,
}

impl Unread {
    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        match self.pieces.back_mut() {
            Some(last) if last.stream == stream => last.bytes.extend_from_slice(bytes),
            _ => self.pieces.push_back(Piece { stream, bytes: bytes.to_vec() }),
        }
        self.len += bytes.len();
        // Seldom, and then half of it: moving what is kept takes time.
        if self.len > 2 * BYTES_MAX {
            self.shorten();
        }
    }

    /// Takes what is there, and how many bytes before it are lost.
    pub(super) fn take(&mut self) -> (Vec<Piece>, u64) {
        self.shorten();
        self.len = 0;
        (std::mem::take(&mut self.pieces).into(), std::mem::take(&mut self.lost))
    }

    /// Bytes that nobody has read.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_kept_and_the_rest_is_counted() {
        let mut unread = Unread::default();
        unread.push(Stream::Stdout, b"a");
        unread.push(Stream::Stderr, b"b");
        unread.push(Stream::Stderr, b"c");
        let piece = |stream, bytes: &[u8]| Piece { stream, bytes: bytes.to_vec() };
        let expected = vec![piece(Stream::Stdout, b"a"), piece(Stream::Stderr, b"bc")];
        assert_eq!(unread.take(), (expected, 0));
        assert_eq!(unread.take(), (vec![], 0));
        for number in 0..30_u8 {
            let stream = if number % 2 == 0 { Stream::Stdout } else { Stream::Stderr };
            unread.push(stream, &vec![number; 100_000]);
        }
        assert!(unread.len() <= 2 * BYTES_MAX);
        let (pieces, lost) = unread.take();
        let kept: usize = pieces.iter().map(|piece| piece.bytes.len()).sum();
        assert_eq!((kept, lost), (BYTES_MAX, 2_000_000));
        assert_eq!(pieces.last().unwrap().bytes.last(), Some(&29));
    }
}
