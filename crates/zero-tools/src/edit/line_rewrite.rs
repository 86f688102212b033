//! What is put in the place of a text, line by line.
//!
//! Who replaces ten lines often means to change one of them. The lines that stay are the file's
//! own: with the line ending and the white space they have there, not as they were written down.

use similar::{Algorithm, DiffOp, DiffTag};

use super::apply::MatchTolerance;
use super::text_match::MatchRange;

/// Most lines compared each with each; of more, only the first and last that stay are found.
const COMPARED_LINES_MAX: usize = 4_000;

/// A text to be put where another one stands.
pub(super) struct LineRewrite<'a> {
    lines: Vec<(TextLine<'a>, LineSource)>,
    tolerance: MatchTolerance,
}

/// What becomes of a line.
#[derive(Clone, Copy)]
enum LineSource {
    /// It is this line of the old text.
    Same(usize),
    /// It stands for this line of the old text.
    InsteadOf(usize),
    /// It is one more.
    Added,
}

impl<'a> LineRewrite<'a> {
    /// Settles which lines of `old` stay in `new`.
    pub(super) fn new(old: &str, new: &'a str, tolerance: MatchTolerance) -> Self {
        let new = split_lines(new.as_bytes());
        let old = split_lines(old.as_bytes());
        let sources = line_sources(&line_contents(&old), &line_contents(&new));
        Self { lines: new.into_iter().zip(sources).collect(), tolerance }
    }

    /// Appends to `result` what takes the place of the text at `place`.
    pub(super) fn append_to(
        &self,
        place: &MatchRange,
        endings: &mut LineEndingFinder<'_>,
        result: &mut Vec<u8>,
    ) {
        let there = split_lines(&endings.text[place.clone()]);
        for (line, source) in &self.lines {
            let (own, stays) = match source {
                LineSource::Same(index) => (there.get(*index), true),
                LineSource::InsteadOf(index) => (there.get(*index), false),
                LineSource::Added => (None, false),
            };
            result.extend_from_slice(own.filter(|_| stays).unwrap_or(line).content);
            let ending = match (line.ending, own.map_or("", |own| own.ending)) {
                ("", _) => "",
                // What was found to the letter may be given other endings by writing them out.
                ("\r\n", _) if self.tolerance == MatchTolerance::Exact => "\r\n",
                (_, "") => endings.ending_at(place),
                (_, own) => own,
            };
            result.extend_from_slice(ending.as_bytes());
        }
    }
}

/// Where each line of `new` comes from.
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

/// A line and how it ends; the last one of a text does not end.
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

/// How the lines of a text end.
pub(super) struct LineEndingFinder<'a> {
    text: &'a [u8],
    /// The last newline of all.
    last: Option<usize>,
    /// The newline found last, which is often the one after the next place, too.
    next: usize,
}

impl<'a> LineEndingFinder<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        let next = memchr::memchr(b'\n', text).unwrap_or(0);
        Self { text, last: memchr::memrchr(b'\n', text), next }
    }

    /// How lines end around a place: within it, else where it stands, else above. Places must come
    /// in order.
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
