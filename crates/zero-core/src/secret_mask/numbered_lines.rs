//! Lines with their number before them, as `cat -n`, `nl` and `grep -n ''` print them.
//!
//! A value that is wrapped over several lines has a number inside then. The lines are joined without
//! their numbers, and searched like any text.

use std::ops::Range;

use super::byte_dump;

/// Most digits of a number.
const DIGITS_MAX: usize = 9;
/// Most bytes of lines that the text may go on with.
const OPEN_BYTES_MAX: usize = 16 * 1024;
/// Signs between a number and its line.
const SIGNS: &[u8] = b"\t :.)|-";

/// Consecutive lines, without their numbers.
#[derive(Debug, Default)]
pub(super) struct NumberedLines {
    pub(super) bytes: Vec<u8>,
    starts: Vec<NumberedLineStart>,
    /// Where the last line ends in the text, with its line break.
    end: usize,
}

/// Where a line begins.
#[derive(Clone, Copy, Debug)]
struct NumberedLineStart {
    /// In the text, with its number.
    line: usize,
    /// In the text, after its number.
    text: usize,
    /// In the joined lines.
    joined: usize,
}

impl NumberedLines {
    /// Adds a line with a number of so many bytes.
    fn push(&mut self, text: &[u8], line: Range<usize>, number: usize) {
        let start = line.start + number;
        let joined = self.bytes.len();
        self.starts.push(NumberedLineStart { line: line.start, text: start, joined });
        self.bytes.extend_from_slice(text.get(start..line.end).unwrap_or_default());
        self.end = line.end;
    }

    /// Where these bytes are in the text.
    pub(super) fn place_of(&self, bytes: &Range<usize>) -> Option<Range<usize>> {
        let last = bytes.end.checked_sub(1)?;
        Some(self.position_of(bytes.start)?..self.position_of(last)? + 1)
    }

    /// Where a byte is in the text.
    pub(super) fn position_of(&self, byte: usize) -> Option<usize> {
        let start = self.start_of(byte)?;
        Some(start.text + byte - start.joined)
    }

    /// Where the line begins, with its number, that a position of the text is in; the last line, if it is
    /// below.
    pub(super) fn line_at(&self, position: usize) -> usize {
        let line = self.starts.partition_point(|start| start.line <= position);
        let start = line.checked_sub(1).and_then(|line| self.starts.get(line));
        start.map_or(position, |start| start.line.min(position))
    }

    fn start_of(&self, byte: usize) -> Option<NumberedLineStart> {
        let line = self.starts.partition_point(|start| start.joined <= byte).checked_sub(1)?;
        self.starts.get(line).copied()
    }
}

/// All runs of two and more lines whose numbers follow each other.
pub(super) fn find_all(text: &[u8], lines: &[Range<usize>]) -> Vec<NumberedLines> {
    let mut found = collect_runs(text, lines);
    found.retain(|lines| lines.starts.len() > 1);
    found
}

/// The numbered lines that a text ends with. Of the last one, not all of its number may be there.
pub(super) fn find_open(text: &[u8]) -> Option<NumberedLines> {
    let last = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let rest = text.get(last..)?;
    let digits = rest.iter().skip_while(|byte| **byte == b' ');
    let is_begun = digits.clone().all(u8::is_ascii_digit) && digits.count() <= DIGITS_MAX;
    let whole = if is_begun { last } else { text.len() };
    let before = text.get(..whole)?;
    let runs = collect_runs(before, &byte_dump::find_candidates(before));
    let runs = runs.into_iter().next_back().filter(|run| run.end == whole);
    let mut lines = runs.unwrap_or_default();
    if is_begun && !rest.is_empty() {
        lines.push(text, last..text.len(), rest.len());
    }
    let first = lines.starts.last()?.line;
    (text.len() - first <= OPEN_BYTES_MAX).then_some(lines)
}

fn collect_runs(text: &[u8], lines: &[Range<usize>]) -> Vec<NumberedLines> {
    let mut found = Vec::new();
    let mut open: Option<(u32, NumberedLines)> = None;
    for line in lines {
        // With its line break.
        let range = line.start..text.len().min(line.end + 1);
        let numbered = read_number(text.get(range.clone()).unwrap_or_default());
        open = match (open.take(), numbered) {
            (Some((last, mut run)), Some((number, before)))
                if number == last + 1 && run.end == range.start =>
            {
                run.push(text, range, before);
                Some((number, run))
            }
            (closed, numbered) => {
                found.extend(closed.map(|(_, run)| run));
                numbered.map(|(number, before)| {
                    let mut run = NumberedLines::default();
                    run.push(text, range, before);
                    (number, run)
                })
            }
        };
    }
    found.extend(open.map(|(_, run)| run));
    found
}

/// The number of a line, and how many bytes precede its text.
fn read_number(line: &[u8]) -> Option<(u32, usize)> {
    let blanks = line.iter().take_while(|byte| **byte == b' ').count();
    let rest = line.get(blanks..)?;
    let digits = rest.iter().take(DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 || digits > DIGITS_MAX {
        return None;
    }
    let number = std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()?;
    let sign = rest.get(digits).filter(|byte| SIGNS.contains(byte))?;
    let more = rest.get(digits + 1).filter(|byte| *sign != b'\t' && **byte == b' ');
    Some((number, blanks + digits + 1 + usize::from(more.is_some())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found = find_all(text.as_bytes(), &byte_dump::find_candidates(text.as_bytes()));
        let shown: Vec<_> = found.iter().map(|it| String::from_utf8_lossy(&it.bytes)).collect();
        assert_eq!(shown, expected, "{text:?}");
    }

    #[test]
    fn lines_are_joined_without_their_numbers() {
        check("     1\tabc\n     2\tdef\n", &["abc\ndef\n"]);
        check("9:abc\n10:def", &["abc\ndef"]);
        check("1. abc\n2. def\nx\n7) a\n8) b\n", &["abc\ndef\n", "a\nb\n"]);
        check("1 a\n3 b\n4 c\n", &["b\nc\n"]);
        check("12345 a\n", &[]);
        check("a\n2 b\n\n3 c\n", &[]);
        check("1234567890 a\n1234567891 b\n", &[]);
    }

    #[test]
    fn places_are_those_of_the_text() {
        let text = "x\n 1\tabc\n 2\tdef\n";
        let lines = byte_dump::find_candidates(text.as_bytes());
        let lines = &find_all(text.as_bytes(), &lines)[0];
        assert_eq!(&text[lines.place_of(&(1..6)).unwrap()], "bc\n 2\tde");
        assert_eq!([2, 8, 9, 11, 99].map(|at| lines.line_at(at)), [2, 2, 9, 9, 9]);
    }

    #[test]
    fn open_lines_are_those_at_the_end() {
        let open = |text: &str| {
            let lines = find_open(text.as_bytes())?;
            Some((lines.line_at(text.len()), String::from_utf8(lines.bytes).unwrap()))
        };
        assert_eq!(open("x\n1 a\n2 b\n"), Some((6, "a\nb\n".to_owned())));
        assert_eq!(open("x\n1 a\n  2"), Some((6, "a\n".to_owned())));
        assert_eq!(open("x\n  2"), Some((2, String::new())));
        assert_eq!(open("1 a\n2 b\nx"), None);
        assert_eq!(open("x\n"), None);
        assert_eq!(open(""), None);
    }
}
