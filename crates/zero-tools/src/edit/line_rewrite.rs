//! Builds the replacement for a text line by line ([`LineRewrite`]).
//!
//! A model that replaces ten lines often wants to change one of them. Lines that stay the same are
//! taken from the file, with the line ending and the white space that they have there, and not from
//! the model's copy.

use similar::{Algorithm, DiffOp, DiffTag};

use super::apply::MatchTolerance;
use super::text_match::MatchRange;

/// Most lines compared pairwise. Beyond that, only equal lines at the start and the end are found.
const COMPARED_LINES_MAX: usize = 4_000;

/// The replacement of one text by another.
pub(super) struct LineRewrite<'a> {
    lines: Vec<(TextLine<'a>, LineSource)>,
    tolerance: MatchTolerance,
}

/// Where a line of the new text comes from.
#[derive(Clone, Copy)]
enum LineSource {
    /// It equals this line of the old text.
    Same(usize),
    /// It replaces this line of the old text.
    InsteadOf(usize),
    /// It is an added line.
    Added,
}

impl<'a> LineRewrite<'a> {
    /// Finds out which lines of `old` stay in `new`.
    pub(super) fn new(old: &str, new: &'a str, tolerance: MatchTolerance) -> Self {
        let new = split_lines(new.as_bytes());
        let old = split_lines(old.as_bytes());
        let sources = line_sources(&line_contents(&old), &line_contents(&new));
        Self { lines: new.into_iter().zip(sources).collect(), tolerance }
    }

    /// Appends the replacement of the text at `place` to `result`.
    pub(super) fn append_to(
        &self,
        place: &MatchRange,
        endings: &mut LineEndingFinder<'_>,
        result: &mut Vec<u8>,
    ) {
        let original_lines = split_lines(&endings.text[place.clone()]);
        for (line, source) in &self.lines {
            let (own, stays) = match source {
                LineSource::Same(index) => (original_lines.get(*index), true),
                LineSource::InsteadOf(index) => (original_lines.get(*index), false),
                LineSource::Added => (None, false),
            };
            result.extend_from_slice(own.filter(|_| stays).unwrap_or(line).content);
            let ending = match (line.ending, own.map_or("", |own| own.ending)) {
                ("", _) => "",
                // A literal match with `\r\n` in the new text means that these endings are
                // intended.
                ("\r\n", _) if self.tolerance == MatchTolerance::Exact => "\r\n",
                (_, "") => endings.ending_at(place),
                (_, own) => own,
            };
            result.extend_from_slice(ending.as_bytes());
        }
    }
}

/// Returns the source of each line of `new`.
fn line_sources(old: &[&[u8]], new: &[&[u8]]) -> Vec<LineSource> {
    let mut sources = vec![LineSource::Added; new.len()];
    for change in diff_lines(old, new) {
        let (tag, was, is) = change.as_tag_tuple();
        for (was, is) in was.zip(is) {
            sources[is] = match tag {
                DiffTag::Equal => LineSource::Same(was),
                _ => LineSource::InsteadOf(was),
            };
        }
    }
    sources
}

fn diff_lines(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    if old.len() + new.len() <= COMPARED_LINES_MAX {
        return similar::capture_diff_slices(Algorithm::Myers, old, new);
    }
    let same = |pairs: &mut dyn Iterator<Item = (&&[u8], &&[u8])>| {
        pairs.take_while(|(a, b)| a == b).count()
    };
    let head = same(&mut old.iter().zip(new));
    let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    vec![
        DiffOp::Equal { old_index: 0, new_index: 0, len: head },
        DiffOp::Replace {
            old_index: head,
            old_len: old_end - head,
            new_index: head,
            new_len: new_end - head,
        },
        DiffOp::Equal { old_index: old_end, new_index: new_end, len: tail },
    ]
}

/// A line and its ending; the last line of a text has none.
struct TextLine<'a> {
    content: &'a [u8],
    ending: &'static str,
}

fn line_contents<'a>(lines: &[TextLine<'a>]) -> Vec<&'a [u8]> {
    lines.iter().map(|line| line.content).collect()
}

fn split_lines(text: &[u8]) -> Vec<TextLine<'_>> {
    let mut start = 0;
    let mut lines = Vec::new();
    for newline in memchr::memchr_iter(b'\n', text) {
        let content = &text[start..newline];
        lines.push(match content.strip_suffix(b"\r") {
            Some(content) => TextLine { content, ending: "\r\n" },
            None => TextLine { content, ending: "\n" },
        });
        start = newline + 1;
    }
    lines.push(TextLine { content: &text[start..], ending: "" });
    lines
}

/// Finds out which line endings a text uses.
pub(super) struct LineEndingFinder<'a> {
    text: &'a [u8],
    /// Offset of the last newline.
    last: Option<usize>,
    /// Offset of the newline found last, which is often the one after the next match, too.
    next: usize,
}

impl<'a> LineEndingFinder<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        let next = memchr::memchr(b'\n', text).unwrap_or(0);
        Self { text, last: memchr::memrchr(b'\n', text), next }
    }

    /// Returns the line ending around a match: the one inside it, else the one of its line, else
    /// the one above. Matches must be given in order.
    pub(super) fn ending_at(&mut self, place: &MatchRange) -> &'static str {
        let newline = match (memchr::memchr(b'\n', &self.text[place.clone()]), self.last) {
            (Some(within), _) => place.start + within,
            (None, None) => return "\n",
            (None, Some(last)) if last < place.end => last,
            (None, Some(_)) => self.next_newline_from(place.end),
        };
        if self.text[..newline].ends_with(b"\r") { "\r\n" } else { "\n" }
    }

    fn next_newline_from(&mut self, at: usize) -> usize {
        if self.next < at {
            self.next = at + memchr::memchr(b'\n', &self.text[at..]).unwrap_or(0);
        }
        self.next
    }
}
