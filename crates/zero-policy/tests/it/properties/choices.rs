//! Bytes as a sequence of choices, so that a shrinking test and a mutating fuzzer build the same
//! inputs from them.

/// The remaining bytes. When none are left, every choice is the first.
pub(crate) struct ChoiceSource<'b> {
    bytes: &'b [u8],
}

impl<'b> ChoiceSource<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    /// Picks one of these.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next_below(from.len())]
    }

    /// A number below `limit`, which fits a byte.
    pub(crate) fn next_below(&mut self, limit: usize) -> usize {
        let (byte, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        usize::from(*byte) % limit
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.next_below(times) == times - 1
    }

    /// All remaining bytes, as text.
    pub(crate) fn remaining_text(&mut self) -> String {
        String::from_utf8_lossy(std::mem::take(&mut self.bytes)).into_owned()
    }
}
