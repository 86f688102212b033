//! Keeps the beginning and the end of a stream that is too long to keep: [`HeadTail`] for one
//! stream, [`InterleavedOutput`] for two.

use std::collections::VecDeque;

/// The stream that a byte was written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Error output.
    Stderr,
}

/// The beginning and the end of a stream.
#[derive(Clone, Debug)]
pub struct HeadTail {
    head: Vec<u8>,
    head_max: usize,
    /// Up to twice `tail_max`, so that bytes are seldom moved.
    tail: Vec<u8>,
    tail_max: usize,
    total: u64,
}

impl HeadTail {
    pub(super) fn new(head_max: usize, tail_max: usize) -> Self {
        Self { head: Vec::new(), head_max, tail: Vec::new(), tail_max, total: 0 }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let to_head = (self.head_max - self.head.len().min(self.head_max)).min(bytes.len());
        let (head, rest) = bytes.split_at(to_head);
        self.head.extend_from_slice(head);
        let skipped = rest.len().saturating_sub(self.tail_max);
        let rest = rest.get(skipped..).unwrap_or_default();
        if self.tail.len() + rest.len() > self.tail_max.saturating_mul(2) {
            let wanted = self.tail_max - rest.len().min(self.tail_max);
            self.tail.drain(..self.tail.len().saturating_sub(wanted));
        }
        self.tail.extend_from_slice(rest);
    }

    /// The beginning.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The end, after [`Self::head`].
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        let from = self.tail.len().saturating_sub(self.tail_max);
        self.tail.get(from..).unwrap_or_default()
    }

    /// All bytes of the stream.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Bytes between head and tail that were not kept.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.total - (self.head.len() + self.tail().len()) as u64
    }
}

/// The beginning and the end of two streams, in the order their bytes came.
#[derive(Clone, Debug)]
pub struct InterleavedOutput {
    bytes: HeadTail,
    head_runs: Vec<(OutputStream, usize)>,
    tail_runs: VecDeque<(OutputStream, usize)>,
    /// Total length of `tail_runs`.
    tail_len: usize,
}

/// Consecutive bytes of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamSegment<'a> {
    /// The stream they were written to.
    pub stream: OutputStream,
    /// The bytes as written; may begin or end within a character.
    pub bytes: &'a [u8],
}

impl InterleavedOutput {
    pub(super) fn new(head_max: usize, tail_max: usize) -> Self {
        Self {
            bytes: HeadTail::new(head_max, tail_max),
            head_runs: Vec::new(),
            tail_runs: VecDeque::new(),
            tail_len: 0,
        }
    }

    pub(super) fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let head_before = self.bytes.head.len();
        self.bytes.push(bytes);
        let to_head = self.bytes.head.len() - head_before;
        match self.head_runs.last_mut() {
            Some((last, len)) if *last == stream => *len += to_head,
            _ if to_head > 0 => self.head_runs.push((stream, to_head)),
            _ => {}
        }
        let to_tail = bytes.len() - to_head;
        match self.tail_runs.back_mut() {
            Some((last, len)) if *last == stream => *len += to_tail,
            _ if to_tail > 0 => self.tail_runs.push_back((stream, to_tail)),
            _ => {}
        }
        self.tail_len += to_tail;
        let mut surplus = self.tail_len.saturating_sub(self.bytes.tail_max);
        self.tail_len -= surplus;
        while let Some((_, len)) = self.tail_runs.front_mut().filter(|_| surplus > 0) {
            let gone = surplus.min(*len);
            *len -= gone;
            surplus -= gone;
            if *len == 0 {
                self.tail_runs.pop_front();
            }
        }
    }

    /// The beginning.
    pub fn head(&self) -> impl Iterator<Item = StreamSegment<'_>> {
        split_segments(self.bytes.head(), self.head_runs.iter())
    }

    /// The end, after [`Self::head`].
    pub fn tail(&self) -> impl Iterator<Item = StreamSegment<'_>> {
        split_segments(self.bytes.tail(), self.tail_runs.iter())
    }

    /// All bytes of both streams.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.bytes.total_bytes()
    }

    /// Bytes between head and tail that were not kept.
    #[must_use]
    pub fn omitted_bytes(&self) -> u64 {
        self.bytes.omitted_bytes()
    }
}

fn split_segments<'a>(
    bytes: &'a [u8],
    runs: impl Iterator<Item = &'a (OutputStream, usize)>,
) -> impl Iterator<Item = StreamSegment<'a>> {
    let mut rest = bytes;
    runs.map(move |(stream, len)| {
        let (bytes, after) = rest.split_at_checked(*len).unwrap_or((rest, &[]));
        rest = after;
        StreamSegment { stream: *stream, bytes }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pieces: &[&str], expected: &str) {
        let mut mixed = InterleavedOutput::new(3, 4);
        for piece in pieces {
            let stream =
                if piece.starts_with('-') { OutputStream::Stderr } else { OutputStream::Stdout };
            mixed.push(stream, piece.as_bytes());
        }
        let text = |run: StreamSegment<'_>| {
            let sign = if run.stream == OutputStream::Stderr { "e" } else { "o" };
            format!("{sign}{}", String::from_utf8_lossy(run.bytes))
        };
        let head: Vec<_> = mixed.head().map(text).collect();
        let tail: Vec<_> = mixed.tail().map(text).collect();
        let seen = format!("{} … {} … {}", head.join(" "), mixed.omitted_bytes(), tail.join(" "));
        assert_eq!(seen, expected, "{pieces:?}");
    }

    #[test]
    fn interleaved_streams_keep_order() {
        check(&[], " … 0 … ");
        check(&["a", "-b", "c"], "oa e-b … 0 … oc");
        check(&["abcdefghij"], "oabc … 3 … oghij");
        check(&["ab", "cd", "-e", "fg"], "oabc … 1 … e-e ofg");
    }

    proptest! {
        #[test]
        fn head_and_tail_are_those_of_the_whole(
            pieces in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..20)), 0..30),
            head in 0_usize..40,
            tail in 0_usize..40,
        ) {
            let mut mixed = InterleavedOutput::new(head, tail);
            let mut whole = Vec::new();
            for (is_error, bytes) in &pieces {
                let stream = if *is_error { OutputStream::Stderr } else { OutputStream::Stdout };
                mixed.push(stream, bytes);
                whole.extend(bytes.iter().map(|byte| (stream, *byte)));
            }
            let flat = |runs: Vec<StreamSegment<'_>>| -> Vec<(OutputStream, u8)> {
                runs.iter().flat_map(|run| run.bytes.iter().map(|byte| (run.stream, *byte))).collect()
            };
            let (first, rest) = whole.split_at(head.min(whole.len()));
            prop_assert_eq!(flat(mixed.head().collect()), first);
            prop_assert_eq!(flat(mixed.tail().collect()), &rest[rest.len().saturating_sub(tail)..]);
            prop_assert_eq!(mixed.total_bytes(), whole.len() as u64);
            prop_assert!(mixed.bytes.tail.len() <= 2 * tail);
        }
    }
}
