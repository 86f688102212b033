//! Bytes that a program printed as numbers: `xxd`, `hexdump`, `od`.
//!
//! Such a line has an offset, some numbers, and often the characters once more. A value goes over several
//! lines, in pieces that the view cannot join, so that the numbers are decoded and searched. Lines with
//! a part of a value are replaced whole, because their characters show the same.

use std::ops::Range;

/// Fewest numbers in a line without an offset.
const BARE_NUMBERS_MIN: usize = 4;
/// Fewest and most digits of an offset.
const OFFSET_DIGITS: std::ops::RangeInclusive<usize> = 4..=16;
/// Digits of offsets that no colon ends: `od -Ax`, `od` and `hexdump`, and `hexdump -C`.
const SHORT_OFFSET_DIGITS: usize = 6;
const PLAIN_OFFSET_DIGITS: usize = 7;
const CANONICAL_OFFSET_DIGITS: usize = 8;
/// Longest name of a character that cannot be printed, of `od -a`: `nl`, `esc`.
const NAME_CHARS_MAX: usize = 3;

/// How the bytes of a line are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberFormat {
    /// Words with this many hexadecimal digits.
    Hexadecimal(usize),
    /// Words with this many octal digits.
    Octal(usize),
    /// Characters, and escapes for those that cannot be printed.
    Characters,
}

/// A line of numbers.
struct DumpLine {
    /// Where it is in the text, without its line break.
    range: Range<usize>,
    format: NumberFormat,
    /// Its bytes, word by word.
    words: Vec<Vec<u8>>,
}

impl DumpLine {
    fn len(&self) -> usize {
        self.words.iter().map(Vec::len).sum()
    }
}

/// Consecutive lines of one format.
pub(super) struct ByteDump {
    lines: Vec<DumpLine>,
}

impl ByteDump {
    /// The bytes in the order in which they are printed and, if words have several bytes, in that of
    /// machines that begin with the lowest.
    pub(super) fn byte_orders(&self) -> Vec<Vec<u8>> {
        let words = || self.lines.iter().flat_map(|line| &line.words);
        let printed: Vec<u8> = words().flatten().copied().collect();
        let swapped: Vec<u8> = words().flat_map(|word| word.iter().rev()).copied().collect();
        if printed == swapped { vec![printed] } else { vec![printed, swapped] }
    }

    /// The lines of the text in which these bytes are.
    pub(super) fn lines_of(&self, bytes: &Range<usize>) -> Option<Range<usize>> {
        let mut end = 0;
        let spans = self.lines.iter().map(|line| {
            let start = end;
            end += line.len();
            (start..end, &line.range)
        });
        let mut hit = spans.filter(|(span, _)| span.start < bytes.end && bytes.start < span.end);
        let (_, first) = hit.next()?;
        let last = hit.last().map_or(first, |(_, range)| range);
        Some(first.start..last.end)
    }
}

/// All dumps in a text.
pub(super) fn find_dumps(text: &[u8]) -> Vec<ByteDump> {
    let mut dumps: Vec<ByteDump> = Vec::new();
    let mut is_open = false;
    for range in line_ranges(text) {
        let line = text.get(range.clone()).unwrap_or_default();
        // A star stands for lines that are like the one above.
        if is_open && line.trim_ascii() == b"*" {
            continue;
        }
        let Some((format, words)) = read_line(line) else {
            is_open = false;
            continue;
        };
        let line = DumpLine { range, format, words };
        match dumps.last_mut().filter(|dump| is_open && dump.has_format(format)) {
            Some(dump) => dump.lines.push(line),
            None => dumps.push(ByteDump { lines: vec![line] }),
        }
        is_open = true;
    }
    dumps
}

impl ByteDump {
    fn has_format(&self, format: NumberFormat) -> bool {
        self.lines.last().is_some_and(|line| line.format == format)
    }
}

/// Where the lines begin that a text ends with and that a value may go on from, if they have this many
/// bytes at most.
pub(super) fn open_lines(text: &[u8], bytes_max: usize) -> Option<usize> {
    let last = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let rest = text.get(last..).unwrap_or_default();
    // The beginning of a line is not yet known to be one, and belongs to the lines above.
    let is_begun = rest.iter().all(|byte| byte.is_ascii_hexdigit() || b": *".contains(byte));
    let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let is_line = digits > 0 && (digits >= *OFFSET_DIGITS.start() || digits == rest.len());
    let mut start = (is_begun && is_line).then_some(last);
    let mut end = if is_begun { last } else { text.len() };
    let mut bytes = 0;
    while bytes < bytes_max && end > 0 {
        let before = text.get(..end).unwrap_or_default();
        let before = before.strip_suffix(b"\n").unwrap_or(before);
        let from = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = before.get(from..).unwrap_or_default();
        if line.trim_ascii() != b"*" {
            let Some((_, words)) = read_line(line) else { break };
            bytes += words.iter().map(Vec::len).sum::<usize>();
            start = Some(from);
        }
        end = from;
    }
    start
}

fn line_ranges(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    text.split(|byte| *byte == b'\n').map(move |line| {
        let range = start..start + line.len();
        start = range.end + 1;
        range
    })
}

/// The numbers of a line, as bytes.
fn read_line(line: &[u8]) -> Option<(NumberFormat, Vec<Vec<u8>>)> {
    let line = line.trim_ascii();
    // Nearly every line ends here.
    if !line.first().is_some_and(u8::is_ascii_hexdigit) {
        return None;
    }
    let first = words(line).next()?;
    let rest = line.get(first.len()..).unwrap_or_default();
    let digits = first.strip_suffix(b":").unwrap_or(first);
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    if first.len() > digits.len() && is_number && OFFSET_DIGITS.contains(&digits.len()) {
        // The characters follow two spaces.
        let numbers = rest.trim_ascii_start();
        let end = numbers.windows(2).position(|pair| pair == b"  ").unwrap_or(numbers.len());
        return read_words(numbers.get(..end).unwrap_or_default(), 1);
    }
    let next = words(rest).next().unwrap_or_default();
    let is_offset = match digits.len() {
        SHORT_OFFSET_DIGITS => !next.is_empty() && next.len() != SHORT_OFFSET_DIGITS,
        PLAIN_OFFSET_DIGITS => !next.is_empty(),
        CANONICAL_OFFSET_DIGITS => next.len() == 2,
        _ => false,
    };
    if is_number && is_offset {
        let end = rest.iter().position(|byte| matches!(byte, b'|' | b'>')).unwrap_or(rest.len());
        let numbers = rest.get(..end).unwrap_or_default();
        return read_characters(rest).or_else(|| read_words(numbers, 1));
    }
    read_words(line, BARE_NUMBERS_MIN)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Numbers of the same length, at least `count_min`. The last may be shorter, and what follows them is
/// left out.
fn read_words(text: &[u8], count_min: usize) -> Option<(NumberFormat, Vec<Vec<u8>>)> {
    let digits = words(text).map(|word| {
        let word = word.strip_suffix(b",").unwrap_or(word);
        word.strip_prefix(b"0x").unwrap_or(word)
    });
    let mut digits = digits.peekable();
    let format = match digits.peek()?.len() {
        len @ (2 | 4 | 8 | 16) => NumberFormat::Hexadecimal(len),
        len @ (3 | 6) => NumberFormat::Octal(len),
        _ => return None,
    };
    let mut numbers: Vec<Vec<u8>> = Vec::new();
    for word in digits {
        let Some(number) = read_number(word, format) else { break };
        numbers.push(number);
    }
    (numbers.len() >= count_min).then_some((format, numbers))
}

fn read_number(word: &[u8], format: NumberFormat) -> Option<Vec<u8>> {
    let read = |digits: &[u8], radix: u32| {
        digits.iter().try_fold(0_u32, |number, digit| {
            Some(number * radix + char::from(*digit).to_digit(radix)?)
        })
    };
    match format {
        NumberFormat::Hexadecimal(len) if word.len() <= len && word.len().is_multiple_of(2) => {
            word.chunks(2).map(|pair| u8::try_from(read(pair, 16)?).ok()).collect()
        }
        NumberFormat::Octal(3) if word.len() == 3 => Some(vec![u8::try_from(read(word, 8)?).ok()?]),
        NumberFormat::Octal(6) if word.len() == 6 => {
            Some(u16::try_from(read(word, 8)?).ok()?.to_be_bytes().to_vec())
        }
        _ => None,
    }
}

/// The columns of `od -c` and `od -a`.
fn read_characters(text: &[u8]) -> Option<(NumberFormat, Vec<Vec<u8>>)> {
    let is_name =
        |word: &[u8]| word.len() <= NAME_CHARS_MAX && word.iter().all(u8::is_ascii_lowercase);
    let mut characters = Vec::new();
    let mut has_character = false;
    for word in words(text) {
        match word {
            [byte] => {
                characters.push(vec![*byte]);
                has_character = true;
            }
            [b'\\', _] => characters.push(b"\n".to_vec()),
            name if is_name(name) => characters.push(b" ".to_vec()),
            octal => characters.push(read_number(octal, NumberFormat::Octal(3))?),
        }
    }
    has_character.then_some((NumberFormat::Characters, characters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let dumps = find_dumps(text.as_bytes());
        let orders = dumps.iter().flat_map(ByteDump::byte_orders);
        let shown: Vec<String> =
            orders.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect();
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn numbers_are_decoded() {
        check("00000000: 4142 4344 450a            ABCDE.\n", &["ABCDE\n", "BADC\nE"]);
        check("00000000: 41 42 43  4142\n00000003: 44  D\n", &["ABCD"]);
        check(
            "00000000  41 42 43 44 45 46 47 48  49 4a  |ABCDEFGHIJ|\n0000000a\n",
            &["ABCDEFGHIJ"],
        );
        check("0000000 4241 4443\n*\n0000040 4645\n0000042\n", &["BADCFE", "ABCDEF"]);
        check("0000000 44434241 48474645\n", &["DCBAHGFE", "ABCDEFGH"]);
        check("0000000 101 102 103\n", &["ABC"]);
        check("0000000 041101 042103\n", &["BADC", "ABCD"]);
        check("0000000   A   P   I  \\n 303 251\n", &["API\n\u{e9}"]);
        check("0000000 303 251   A   |  \\n\n", &["\u{e9}A|\n"]);
        check("0000000   A  sp   B  nl\n", &["A B "]);
        check("000000 41 42 43  >ABC<\n", &["ABC"]);
        check(" 41 42 43 44 45\n", &["ABCDE"]);
        check("  0x41, 0x42, 0x43, 0x44,\n", &["ABCD"]);
    }

    #[test]
    fn ordinary_text_is_no_dump() {
        for text in [
            "",
            "add a face",
            "12:30 ok",
            "1234567",
            "deadbeef cafe\n",
            "2026-11-17 x y\n",
            "1234567 is a number",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn open_lines_are_those_at_the_end() {
        let text = b"ls\n00000000: 4142\n00000002: 4344\n";
        assert_eq!(open_lines(text, 100), Some(3));
        assert_eq!(open_lines(text, 2), Some(18));
        assert_eq!(open_lines(b"00000000: 4142\nok\n", 100), None);
        assert_eq!(open_lines(b"ok\n00000000: 41", 100), Some(3));
        assert_eq!(open_lines(b"ok\n0000000", 100), Some(3));
        assert_eq!(open_lines(b"00000000: 4142\n0", 100), Some(0));
        assert_eq!(open_lines(b"ok\nadd", 100), Some(3));
        assert_eq!(open_lines(b"ok\n10 20", 100), None);
        assert_eq!(open_lines(b"*\n", 100), None);
    }
}
