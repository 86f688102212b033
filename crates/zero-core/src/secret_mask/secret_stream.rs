//! Replaces secret values in output that arrives in pieces.

use std::borrow::Cow;
use std::sync::Arc;

use super::fragment_index::SearchBudget;
use super::{CutEdges, SecretMask, byte_dump, text_view};

/// Most bytes that are held back. A value with more white space inside is replaced as far as it came.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// Replaces secret values in a stream. The beginning of a value at the end of a piece is held back
/// until the rest of it arrives.
#[derive(Debug)]
pub struct SecretStream {
    mask: Arc<SecretMask>,
    pending_bytes: Vec<u8>,
}

impl SecretStream {
    /// A stream of which nothing has arrived.
    pub fn new(mask: Arc<SecretMask>) -> Self {
        Self { mask, pending_bytes: Vec::new() }
    }

    /// Takes a piece, and returns what can be shown.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.mask.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut text = std::mem::take(&mut self.pending_bytes);
        text.extend_from_slice(bytes);
        let ranges = self.mask.find_ranges(&text, CutEdges::Excluded);
        // What an escape means is known when all of it is there.
        let whole = text_view::open_escape(&text).unwrap_or(text.len());
        let view = text_view::build(text.get(..whole).unwrap_or_default());
        let mut budget = SearchBudget::for_view(&view);
        let open = self.mask.index.find_open_end(&view, 1, &mut budget);
        let open = open.map(|open| text_view::map_position(&text, open.start));
        let dump = byte_dump::open_lines(&text, self.mask.index.form_bytes_max());
        let mut until = open.unwrap_or(whole).min(dump.unwrap_or(whole));
        // A value that was found may be the beginning of a longer one.
        if let Some((range, _)) = ranges.iter().find(|(range, _)| range.contains(&until)) {
            until = range.start;
        }
        if text.len() - until > HELD_BYTES_MAX {
            // The rest of a long value is found by its next piece.
            until = open.unwrap_or(whole);
        }
        if text.len() - until > HELD_BYTES_MAX {
            return Cow::Owned(self.mask.mask_bytes(&text).into_owned());
        }
        self.pending_bytes = text.split_off(until);
        let begun = ranges.into_iter().filter(|(range, _)| range.start < until);
        let shown: Vec<_> =
            begun.map(|(range, owner)| (range.start..range.end.min(until), owner)).collect();
        Cow::Owned(if shown.is_empty() { text } else { self.mask.replace(&text, &shown) })
    }

    /// The rest, when nothing more arrives.
    pub fn finish(&mut self) -> Vec<u8> {
        let pending_bytes = std::mem::take(&mut self.pending_bytes);
        self.mask.mask_bytes(&pending_bytes).into_owned()
    }
}
