//! Replaces secret values in output that arrives in pieces.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use super::fragment_index::SearchBudget;
use super::numbered_lines::NumberedLines;
use super::{CutEdges, SecretMask, byte_dump, number_run, numbered_lines, text_view};

/// Most bytes that are held back. A value with more white space inside is replaced as far as it came.
const HELD_BYTES_MAX: usize = 64 * 1024;

/// Numbers with which a list may begin a value without being held back: a few at the end of a line are
/// anything, such as an exit code or a port.
const SHOWN_NUMBERS_MAX: usize = 2;

/// Replaces secret values in a stream. The beginning of a value at the end of a piece is held back
/// until the rest of it arrives.
#[derive(Debug)]
pub struct SecretStream {
    mask: Arc<SecretMask>,
    pending_bytes: Vec<u8>,
    /// How much of it was shown. It may be the beginning of a list of numbers that goes on.
    shown: usize,
}

impl SecretStream {
    /// A stream of which nothing has arrived.
    pub fn new(mask: Arc<SecretMask>) -> Self {
        Self { mask, pending_bytes: Vec::new(), shown: 0 }
    }

    /// Takes a piece, and returns what can be shown.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if self.mask.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let shown = std::mem::take(&mut self.shown);
        let mut text = std::mem::take(&mut self.pending_bytes);
        text.extend_from_slice(bytes);
        let mut ranges = self.mask.find_ranges(&text, CutEdges::Excluded);
        // An escape can be decoded only when it is complete.
        let whole = text_view::open_escape(&text).unwrap_or(text.len());
        let view = text_view::build(text.get(..whole).unwrap_or_default());
        let mut budget = SearchBudget::for_view(&view);
        let open = self.mask.index.find_open_end(&view, 1, &mut budget);
        let open = open.map(|open| text_view::map_position(&text, open.start));
        let dump = byte_dump::open_lines(&text, self.mask.index.form_bytes_max());
        let (list, begun) = self.find_open_list(&text);
        let lines = numbered_lines::find_open(&text);
        let numbered = lines.as_ref().and_then(|lines| self.find_open_line(lines));
        let mut until = [open, dump, begun, numbered].into_iter().flatten().fold(whole, usize::min);
        // A value that was found may be the beginning of a longer one.
        if let Some((range, _)) = ranges.iter().find(|(range, _)| range.contains(&until)) {
            until = range.start;
        }
        if text.len() - until > HELD_BYTES_MAX {
            // The rest of a long value is found by its next piece.
            until = open.unwrap_or(whole);
        }
        if text.len() - until > HELD_BYTES_MAX {
            until = text.len();
            ranges = self.mask.find_ranges(&text, CutEdges::Included);
        }
        let until = until.max(shown);
        let clean = self.replace_part(&text, shown..until, ranges);
        let line = lines.map(|lines| lines.line_at(until));
        let kept = [list, line].into_iter().flatten().fold(until, usize::min);
        self.shown = until - kept;
        self.pending_bytes = text.split_off(kept);
        Cow::Owned(clean)
    }

    /// Whether the end of what arrived is not shown yet.
    pub fn is_holding(&self) -> bool {
        self.pending_bytes.len() > self.shown
    }

    /// The rest, when nothing more arrives.
    pub fn finish(&mut self) -> Vec<u8> {
        let pending_bytes = std::mem::take(&mut self.pending_bytes);
        let ranges = self.mask.find_ranges(&pending_bytes, CutEdges::Included);
        let shown = std::mem::take(&mut self.shown);
        self.replace_part(&pending_bytes, shown..pending_bytes.len(), ranges)
    }

    /// A part of a text, without the values in it.
    fn replace_part(
        &self,
        text: &[u8],
        part: Range<usize>,
        ranges: Vec<(Range<usize>, usize)>,
    ) -> Vec<u8> {
        let inside = ranges.into_iter().filter_map(|(range, owner)| {
            let (start, end) = (range.start.max(part.start), range.end.min(part.end));
            (start < end).then(|| (start - part.start..end - part.start, owner))
        });
        let inside: Vec<_> = inside.collect();
        self.mask.replace(text.get(part).unwrap_or_default(), &inside)
    }

    /// Where a value begins in the numbered lines that a text ends with.
    fn find_open_line(&self, lines: &NumberedLines) -> Option<usize> {
        let view = text_view::build(&lines.bytes);
        let mut budget = SearchBudget::for_view(&view);
        let open = self.mask.index.find_open_end(&view, 1, &mut budget)?;
        lines.position_of(text_view::map_position(&lines.bytes, open.start))
    }

    /// Where a list of numbers begins that a text ends with, and the first of its numbers with which a value
    /// begins.
    fn find_open_list(&self, text: &[u8]) -> (Option<usize>, Option<usize>) {
        let Some((start, runs)) = number_run::open_list(text) else { return (None, None) };
        let begun = runs.iter().filter_map(|run| {
            let view = text_view::build(&run.bytes);
            let mut budget = SearchBudget::for_view(&view);
            let open = self.mask.index.find_open_end(&view, SHOWN_NUMBERS_MAX + 1, &mut budget)?;
            let first = text_view::map_position(&run.bytes, open.start);
            run.numbers_of(&(first..first + 1)).map(|number| number.start)
        });
        (Some(start), begun.min())
    }
}
