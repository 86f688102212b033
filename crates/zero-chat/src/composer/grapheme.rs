//! Boundaries between grapheme clusters, so that the cursor is never inside a character.
//!
//! A line end is always a cluster of its own, also after a carriage return. That keeps each question
//! within one line, and a line the same whatever follows it.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

/// The part of a text, or nothing if the range is not one of its parts.
pub(super) fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or_default()
}

/// Start of the line that contains a position.
pub(super) fn line_start(text: &str, at: usize) -> usize {
    slice(text, 0..at).rfind('\n').map_or(0, |end| end + 1)
}

/// End of the line that contains a position, before its line end.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    slice(text, at..text.len()).find('\n').map_or(text.len(), |length| at + length)
}

/// The line that contains a position, without its line end.
pub(super) fn line_range(text: &str, at: usize) -> Range<usize> {
    line_start(text, at)..line_end(text, at)
}

/// The first boundary after a position; the end of the text if there is none.
pub(super) fn next_boundary(text: &str, at: usize) -> usize {
    if text.as_bytes().get(at) == Some(&b'\n') {
        return at + 1;
    }
    let line = line_range(text, at);
    let mut cursor = GraphemeCursor::new(at - line.start, line.len(), true);
    match cursor.next_boundary(slice(text, line.clone()), 0) {
        Ok(Some(boundary)) => line.start + boundary,
        Ok(None) | Err(_) => line.end,
    }
}

/// The last boundary before a position; the start of the text if there is none.
pub(super) fn previous_boundary(text: &str, at: usize) -> usize {
    let line = line_range(text, at);
    if at == line.start {
        return at.saturating_sub(1);
    }
    let mut cursor = GraphemeCursor::new(at - line.start, line.len(), true);
    match cursor.prev_boundary(slice(text, line.clone()), 0) {
        Ok(Some(boundary)) => line.start + boundary,
        Ok(None) | Err(_) => line.start,
    }
}

/// Whether the cursor may be at a position.
pub(super) fn is_boundary(text: &str, at: usize) -> bool {
    if !text.is_char_boundary(at) {
        return false;
    }
    let line = line_range(text, at);
    let mut cursor = GraphemeCursor::new(at - line.start, line.len(), true);
    cursor.is_boundary(slice(text, line), 0).unwrap_or(true)
}

/// The position, or the next boundary if it is inside a cluster.
pub(super) fn round_up(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    if is_boundary(text, at) { at } else { next_boundary(text, at) }
}

/// The position, or the boundary before it if it is inside a cluster.
pub(super) fn round_down(text: &str, at: usize) -> usize {
    let at = round_char_down(text, at);
    if is_boundary(text, at) { at } else { previous_boundary(text, at) }
}

/// The position, or the start of the character that it is inside of.
fn round_char_down(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The position so many clusters further on in the same line, or its end.
pub(super) fn step_forward(text: &str, at: usize, count: usize) -> usize {
    let end = line_end(text, at);
    let mut clusters = slice(text, at..end).grapheme_indices(true);
    clusters.nth(count).map_or(end, |(offset, _)| at + offset)
}

/// The position so many clusters back in the same line, or its start.
pub(super) fn step_back(text: &str, at: usize, count: usize) -> usize {
    let start = line_start(text, at);
    let Some(before) = count.checked_sub(1) else { return at };
    let mut clusters = slice(text, start..at).grapheme_indices(true).rev();
    clusters.nth(before).map_or(start, |(offset, _)| start + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, boundaries: &[usize]) {
        let found: Vec<usize> = (0..=text.len()).filter(|at| is_boundary(text, *at)).collect();
        assert_eq!(found, boundaries, "{text:?}");
        for pair in boundaries.windows(2) {
            assert_eq!(next_boundary(text, pair[0]), pair[1], "{text:?}");
            assert_eq!(previous_boundary(text, pair[1]), pair[0], "{text:?}");
        }
        assert_eq!(next_boundary(text, text.len()), text.len());
        assert_eq!(previous_boundary(text, 0), 0);
    }

    #[test]
    fn cluster_is_crossed_as_one() {
        check("", &[0]);
        check("ab", &[0, 1, 2]);
        check("e\u{301}x", &[0, 3, 4]);
        check("👩\u{200d}💻!", &[0, 11, 12]);
        check("🇩🇪🇫🇷", &[0, 8, 16]);
        check("a\r\nb", &[0, 1, 2, 3, 4]);
        check("\n\u{301}\n", &[0, 1, 3, 4]);
    }

    #[test]
    fn position_inside_cluster_is_rounded() {
        let text = "ae\u{301}b";
        assert_eq!((round_down(text, 2), round_up(text, 2)), (1, 4));
        assert_eq!((round_down(text, 3), round_up(text, 3)), (1, 4));
        assert_eq!((round_down(text, 9), round_up(text, 9)), (5, 5));
    }

    #[test]
    fn steps_stay_in_line() {
        let text = "ab\ncd\nef";
        assert_eq!(step_forward(text, 3, 1), 4);
        assert_eq!(step_forward(text, 3, 9), 5);
        assert_eq!(step_back(text, 5, 1), 4);
        assert_eq!(step_back(text, 5, 9), 3);
        assert_eq!(step_back(text, 5, 0), 5);
        assert_eq!(step_forward(text, 5, 0), 5);
    }
}
