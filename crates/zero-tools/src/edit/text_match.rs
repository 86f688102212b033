//! Finds where a text occurs in another, literally or with a few tolerated differences.
//!
//! For a tolerant comparison both texts are folded: tolerated differences are removed or brought
//! into one form. Line ends are never removed, so a match has as many lines as the text searched
//! for.

use std::ops::Range;

use memchr::memmem;

use super::apply::MatchTolerance;

/// Largest text in which differences are tolerated, in bytes. A larger one must match literally.
const FOLD_BYTES_MAX: usize = 16_000_000;

/// A byte range of a text.
pub(super) type MatchRange = Range<usize>;

/// Returns all matches of `old` in order, by the least tolerant comparison that finds any. Matches
/// may overlap.
pub(super) fn find_matches(text: &[u8], old: &str) -> Option<(Vec<MatchRange>, MatchTolerance)> {
    let ladder = MatchTolerance::ORDER.into_iter();
    ladder.filter(|tolerance| is_applicable(*tolerance, text, old)).find_map(|tolerance| {
        let places = match tolerance {
            MatchTolerance::Exact => find_exact(text, old),
            _ => find_folded(text, old, tolerance),
        };
        (!places.is_empty()).then_some((places, tolerance))
    })
}

fn is_applicable(tolerance: MatchTolerance, text: &[u8], old: &str) -> bool {
    let can_fold = text.len() <= FOLD_BYTES_MAX;
    match tolerance {
        // A caller that writes plain newlines does not see line endings, so matches that differ
        // only in those are equal to it.
        MatchTolerance::Exact => {
            let sees_endings = !old.contains('\n') || old.contains('\r');
            sees_endings || !can_fold || memmem::find(text, b"\r\n").is_none()
        }
        _ => can_fold,
    }
}

fn find_exact(text: &[u8], old: &str) -> Vec<MatchRange> {
    let starts = find_occurrences(text, old.as_bytes(), 0);
    starts.into_iter().map(|at| extend_over_return(text, at..at + old.len())).collect()
}

fn find_folded(text: &[u8], old: &str, tolerance: MatchTolerance) -> Vec<MatchRange> {
    let folded = FoldedText::new(text, tolerance);
    let pattern = FoldedPattern::variants(old, tolerance);
    let mut places: Vec<MatchRange> =
        pattern.iter().flat_map(|patterns| folded.find(patterns)).collect();
    places.sort_by_key(|place| (place.start, place.end));
    places.dedup();
    places
}

/// Returns where `needle` occurs, without overlap except for its last `shared` bytes. If it occurs
/// only once, overlapping occurrences are searched for, too: `aa` occurs twice in `aaa`.
fn find_occurrences(text: &[u8], needle: &[u8], shared: usize) -> Vec<usize> {
    let finder = memmem::Finder::new(needle);
    let step = needle.len().saturating_sub(shared).max(1);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text.get(from..).and_then(|rest| finder.find(rest)) {
        found.push(from + at);
        from += at + step;
    }
    if let [only] = found[..]
        && let Some(at) = finder.find(&text[only + 1..])
    {
        found.push(only + 1 + at);
    }
    found
}

/// Extends a match that starts between the `\r` and the `\n` of a line ending over the `\r`.
fn extend_over_return(text: &[u8], place: MatchRange) -> MatchRange {
    let splits_ending =
        text[place.clone()].starts_with(b"\n") && text[..place.start].ends_with(b"\r");
    // A match that ends with `\r` would reach into the next one.
    let reaches_on = text[place.clone()].ends_with(b"\r");
    if splits_ending && !reaches_on { place.start - 1..place.end } else { place }
}

/// A folded text to search for.
struct FoldedPattern {
    bytes: Vec<u8>,
    /// Whether it must start at the start of a line.
    from_line_start: bool,
    /// Whether it must end at the end of a line.
    to_line_end: bool,
}

impl FoldedPattern {
    /// Returns the folded forms that match `old`.
    ///
    /// White space counts as the end of a line only where a line ends. At the end of `old` this is
    /// open: either the white space occurs as written, or the line ends there. A first line of
    /// white space alone is an empty line, not the end of any line.
    fn variants(old: &str, tolerance: MatchTolerance) -> Vec<Self> {
        let whole = Self {
            bytes: fold_pattern(old, tolerance),
            from_line_start: false,
            to_line_end: false,
        };
        if tolerance == MatchTolerance::LineEndings {
            return vec![whole];
        }
        // Of white space alone nothing would be left to match.
        if old.trim().is_empty() {
            return Vec::new();
        }
        let from_line_start = old.split_once('\n').is_some_and(|(first, _)| {
            let first = first.strip_suffix('\r').unwrap_or(first);
            !first.is_empty() && first.bytes().all(is_blank)
        });
        let mut forms = vec![Self { from_line_start, ..whole }];
        let trimmed = old.trim_end_matches([' ', '\t', '\r']);
        if trimmed.len() < old.len() {
            let bytes = fold_pattern(trimmed, tolerance);
            forms.push(Self { bytes, from_line_start, to_line_end: true });
        }
        forms
    }
}

fn fold_pattern(old: &str, tolerance: MatchTolerance) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(old.len());
    fold(old.as_bytes(), tolerance, TextEnd::Open, |_, kept| bytes.extend_from_slice(kept));
    bytes
}

/// A text without what is tolerated, enclosed in two newlines that are not part of it, so that
/// every line starts and ends at a newline.
struct FoldedText<'a> {
    text: &'a [u8],
    bytes: Vec<u8>,
    /// For each place where bytes were removed: the folded offset and the source offset from which
    /// they correspond again.
    jumps: Vec<(usize, usize)>,
}

impl<'a> FoldedText<'a> {
    fn new(text: &'a [u8], tolerance: MatchTolerance) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + 2);
        bytes.push(b'\n');
        let mut jump = (1, 0);
        let mut jumps = vec![jump];
        fold(text, tolerance, TextEnd::LineEnd, |at, kept| {
            if jump.1 + (bytes.len() - jump.0) != at {
                jump = (bytes.len(), at);
                jumps.push(jump);
            }
            bytes.extend_from_slice(kept);
        });
        jumps.push((bytes.len(), text.len()));
        bytes.push(b'\n');
        Self { text, bytes, jumps }
    }

    fn find(&self, pattern: &FoldedPattern) -> Vec<MatchRange> {
        let newline = |there: bool| if there { &b"\n"[..] } else { b"" };
        let (before, after) = (newline(pattern.from_line_start), newline(pattern.to_line_end));
        let needle = [before, &pattern.bytes, after].concat();
        // The enclosing newlines exist only for these conditions.
        let first = 1 - before.len();
        let within = &self.bytes[first..self.bytes.len() - 1 + after.len()];
        let place = |at: usize| {
            let (at, last) = (at + first, at + first + needle.len() - 1);
            let start =
                if pattern.from_line_start { self.source_end(at) } else { self.source_start(at) };
            let end = if pattern.to_line_end {
                self.line_end_offset(last)
            } else {
                self.source_end(last)
            };
            extend_over_return(self.text, start..end)
        };
        find_occurrences(within, &needle, after.len()).into_iter().map(place).collect()
    }

    /// Returns where in the source a folded byte comes from.
    fn source_start(&self, at: usize) -> usize {
        let jump = self.jumps.partition_point(|(folded, _)| *folded <= at).checked_sub(1);
        jump.map_or(0, |jump| self.jumps[jump].1 + (at - self.jumps[jump].0))
    }

    /// Returns where in the source the text of a folded byte ends.
    fn source_end(&self, at: usize) -> usize {
        if at == 0 {
            return 0;
        }
        let start = self.source_start(at);
        let rest = &self.text[start..];
        let length = match rest.first() {
            Some(first) if *first != self.bytes[at] => {
                plain_punctuation(rest).map_or(1, |(_, length)| length)
            }
            _ => 1,
        };
        start + length
    }

    /// Returns where in the source the line ends whose newline is this folded byte.
    fn line_end_offset(&self, newline: usize) -> usize {
        let at = self.source_start(newline);
        let splits_ending = self.text[at..].starts_with(b"\n") && self.text[..at].ends_with(b"\r");
        at - usize::from(splits_ending)
    }
}

/// How the end of a text is treated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextEnd {
    /// It is the end of a line.
    LineEnd,
    /// More text may follow.
    Open,
}

/// Passes every part that is kept to `keep`, with its source offset.
fn fold(text: &[u8], tolerance: MatchTolerance, end: TextEnd, mut keep: impl FnMut(usize, &[u8])) {
    let endings_only = tolerance == MatchTolerance::LineEndings;
    let folds = |byte: u8| if endings_only { byte == b'\r' } else { is_blank(byte) };
    let typographic = |byte: u8| tolerance == MatchTolerance::Punctuation && !byte.is_ascii();
    let run_of = |rest: &[u8], is_separator: &dyn Fn(u8) -> bool| {
        rest.iter().position(|byte| !is_separator(*byte)).unwrap_or(rest.len())
    };
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let blanks = run_of(rest, &folds);
        if blanks > 0 {
            let ends_line = match rest.get(blanks) {
                Some(byte) => *byte == b'\n',
                None => end == TextEnd::LineEnd && !endings_only,
            };
            let dropped = match (ends_line, endings_only) {
                (false, _) => 0,
                (true, true) => 1,
                (true, false) => blanks,
            };
            if dropped < blanks {
                keep(at, &rest[..blanks - dropped]);
            }
            at += blanks;
        } else if typographic(rest[0]) {
            let (plain, length) = plain_punctuation(rest).unwrap_or((rest[0], 1));
            keep(at, &[plain]);
            at += length;
        } else {
            let plain = run_of(rest, &|byte| !folds(byte) && !typographic(byte));
            keep(at, &rest[..plain]);
            at += plain;
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// Returns the plain form of the typographic character at the start of `rest`, and the length of
/// the latter.
fn plain_punctuation(rest: &[u8]) -> Option<(u8, usize)> {
    const FORMS: &[(&[char], u8)] = &[
        (&['\u{2018}', '\u{2019}', '\u{201A}', '\u{201B}'], b'\''),
        (&['\u{201C}', '\u{201D}', '\u{201E}', '\u{201F}'], b'"'),
        (
            &['\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2015}', '\u{2212}'],
            b'-',
        ),
        (
            &['\u{00A0}', '\u{2002}', '\u{2003}', '\u{2009}', '\u{200A}', '\u{202F}', '\u{3000}'],
            b' ',
        ),
    ];
    let head = &rest[..rest.len().min(4)];
    let first = head.utf8_chunks().next()?.valid().chars().next()?;
    let (_, plain) = FORMS.iter().find(|(characters, _)| characters.contains(&first))?;
    Some((*plain, first.len_utf8()))
}
