//! Bytes that a program printed as numbers: `xxd`, `hexdump`, `od`.
//!
//! Such a line has an offset, some numbers, and often the characters once more. A value goes over several
//! lines, in pieces that the view cannot join, so that the numbers are decoded and searched. Lines with
//! a part of a value are replaced whole, because their characters show the same.

use std::io::BufRead as _;
use std::ops::Range;

/// Fewest numbers without an offset: in a line of which more follows, and in all lines of a dump.
const BARE_NUMBERS_MIN: usize = 4;
/// Fewest and most digits of an offset.
const OFFSET_DIGITS: std::ops::RangeInclusive<usize> = 4..=16;
/// Digits of offsets that no colon ends: `od -Ax`, `od` and `hexdump`, and `hexdump -C`.
const SHORT_OFFSET_DIGITS: usize = 6;
const PLAIN_OFFSET_DIGITS: usize = 7;
const CANONICAL_OFFSET_DIGITS: usize = 8;
/// Bits of an octal digit.
const OCTAL_DIGIT_BITS: usize = 3;
/// Digits of a byte as a binary number, of `xxd -b`.
const BINARY_DIGITS: usize = 8;
/// Most digits of a decimal number.
const DECIMAL_DIGITS_MAX: usize = 20;
/// Bytes of the type in which decimal numbers are read.
const DECIMAL_BYTES: usize = size_of::<i128>();
/// Longest name of a character that cannot be printed, of `od -a`: `nl`, `esc`.
const NAME_CHARS_MAX: usize = 3;

/// How the bytes of a line are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberFormat {
    /// Words with this many hexadecimal digits.
    Hexadecimal(usize),
    /// Words with this many octal digits.
    Octal(usize),
    /// Decimal numbers of this many bytes, maybe negative.
    Decimal(usize),
    /// Bytes with eight binary digits.
    Binary,
    /// Characters, and escapes for those that cannot be printed.
    Characters,
}

/// The numbers of a line.
struct LineNumbers {
    format: NumberFormat,
    /// The bytes, word by word.
    words: Vec<Vec<u8>>,
    /// Whether no offset precedes them.
    is_bare: bool,
}

/// A line of numbers.
struct DumpLine {
    /// Where it is in the text, without its line break.
    range: Range<usize>,
    numbers: LineNumbers,
}

/// Consecutive lines of one format.
#[derive(Default)]
pub(super) struct ByteDump {
    lines: Vec<DumpLine>,
    /// For each line, the number of bytes in it and in all lines above.
    ends: Vec<usize>,
}

impl ByteDump {
    fn push(&mut self, line: DumpLine) {
        let bytes: usize = line.numbers.words.iter().map(Vec::len).sum();
        self.ends.push(self.ends.last().copied().unwrap_or(0) + bytes);
        self.lines.push(line);
    }

    fn format(&self) -> Option<NumberFormat> {
        self.lines.last().map(|line| line.numbers.format)
    }

    /// Whether there are enough numbers: a few of them without an offset are anything.
    fn is_certain(&self) -> bool {
        let numbers = self.lines.iter().map(|line| line.numbers.words.len()).sum::<usize>();
        numbers >= BARE_NUMBERS_MIN || self.lines.iter().any(|line| !line.numbers.is_bare)
    }

    /// The bytes in the order in which they are printed and, if words have several bytes, in that of
    /// machines that begin with the lowest.
    pub(super) fn byte_orders(&self) -> Vec<Vec<u8>> {
        let words = || self.lines.iter().flat_map(|line| &line.numbers.words);
        let printed: Vec<u8> = words().flatten().copied().collect();
        let swapped: Vec<u8> = words().flat_map(|word| word.iter().rev()).copied().collect();
        if printed == swapped { vec![printed] } else { vec![printed, swapped] }
    }

    /// The lines of the text in which these bytes are.
    pub(super) fn lines_of(&self, bytes: &Range<usize>) -> Option<Range<usize>> {
        let first = self.ends.partition_point(|end| *end <= bytes.start);
        let last = self.ends.partition_point(|end| *end < bytes.end);
        let last = self.lines.get(last).or(self.lines.last())?;
        Some(self.lines.get(first)?.range.start..last.range.end)
    }
}

/// All dumps in a text. A line of decimal numbers may be one of others, too, so that it may be in two.
pub(super) fn find_dumps(text: &[u8], lines: &[Range<usize>]) -> Vec<ByteDump> {
    let mut usual = DumpCollector::new(read_line);
    let mut decimal = DumpCollector::new(read_decimal_line);
    let mut next = 0;
    for range in lines {
        if range.start != next {
            usual.close();
            decimal.close();
        }
        next = range.end + 1;
        let line = text.get(range.clone()).unwrap_or_default().trim_ascii();
        usual.push(line, range.clone());
        decimal.push(line, range.clone());
    }
    let mut dumps = usual.finish();
    dumps.extend(decimal.finish());
    dumps
}

/// The lines that may be part of a dump or have a number, without their line breaks. Hardly any line of
/// other text is one.
pub(super) fn find_candidates(text: &[u8]) -> Vec<Range<usize>> {
    let is_candidate = |range: &Range<usize>| {
        let line = text.get(range.clone()).unwrap_or_default();
        let first = line.iter().find(|byte| !byte.is_ascii_whitespace());
        first.is_some_and(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'-' | b'*'))
    };
    line_ranges(text).filter(is_candidate).collect()
}

/// Collects consecutive lines.
struct DumpCollector {
    read: fn(&[u8], Option<NumberFormat>) -> Option<LineNumbers>,
    dumps: Vec<ByteDump>,
    open: Option<ByteDump>,
}

impl DumpCollector {
    fn new(read: fn(&[u8], Option<NumberFormat>) -> Option<LineNumbers>) -> Self {
        Self { read, dumps: Vec::new(), open: None }
    }

    fn push(&mut self, line: &[u8], range: Range<usize>) {
        // A star stands for lines that are like the one above.
        if self.open.is_some() && line == b"*" {
            return;
        }
        let format = self.open.as_ref().and_then(ByteDump::format);
        let Some(numbers) = (self.read)(line, format) else { return self.close() };
        if format != Some(numbers.format) {
            self.close();
        }
        self.open.get_or_insert_default().push(DumpLine { range, numbers });
    }

    fn close(&mut self) {
        self.dumps.extend(self.open.take().filter(ByteDump::is_certain));
    }

    fn finish(mut self) -> Vec<ByteDump> {
        self.close();
        self.dumps
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
            let numbers = read_line(line, None).or_else(|| read_decimal_line(line, None));
            // A line with a few numbers is anything, and must not be held back.
            let is_dump = |it: &LineNumbers| !it.is_bare || it.words.len() >= BARE_NUMBERS_MIN;
            let Some(numbers) = numbers.filter(is_dump) else { break };
            bytes += numbers.words.iter().map(Vec::len).sum::<usize>();
            start = Some(from);
        }
        end = from;
    }
    start
}

fn line_ranges(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let (mut rest, mut start) = (text, 0);
    std::iter::from_fn(move || {
        // As fast as the C library searches.
        let len = rest.skip_until(b'\n').ok().filter(|len| *len > 0)?;
        let end = start + len;
        let is_ended = text.get(end - 1) == Some(&b'\n');
        let range = start..end - usize::from(is_ended);
        start = end;
        Some(range)
    })
}

/// The part of a line with numbers.
struct NumberColumns<'a> {
    numbers: &'a [u8],
    /// The numbers and what follows them; `None` if characters cannot stand in place of numbers.
    characters: Option<&'a [u8]>,
    is_bare: bool,
}

/// Finds the numbers of a line, after its offset.
fn split_line(line: &[u8]) -> Option<NumberColumns<'_>> {
    let line = line.trim_ascii();
    if !line.first().is_some_and(|byte| byte.is_ascii_hexdigit() || *byte == b'-') {
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
        let numbers = numbers.get(..end).unwrap_or_default();
        return Some(NumberColumns { numbers, characters: None, is_bare: false });
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
        return Some(NumberColumns { numbers, characters: Some(rest), is_bare: false });
    }
    Some(NumberColumns { numbers: line, characters: None, is_bare: true })
}

/// The numbers of a line, as bytes. `expected` is the format of the line above: the last line of a dump
/// may be shorter than a word.
fn read_line(line: &[u8], expected: Option<NumberFormat>) -> Option<LineNumbers> {
    let NumberColumns { numbers, characters, is_bare } = split_line(line)?;
    let characters = characters.and_then(read_characters);
    let (format, words) = characters.or_else(|| read_words(numbers, expected))?;
    let is_whole = || words.len() == self::words(numbers).count();
    // A single number continues a dump, but does not begin one.
    let count_min = if expected == Some(format) { 1 } else { 2 };
    let is_dump =
        !is_bare || words.len() >= BARE_NUMBERS_MIN || words.len() >= count_min && is_whole();
    is_dump.then_some(LineNumbers { format, words, is_bare })
}

/// The same for a line of decimal numbers, which has nothing else in it. The largest number tells how many
/// bytes each has; the last line of a dump may have smaller ones.
fn read_decimal_line(line: &[u8], expected: Option<NumberFormat>) -> Option<LineNumbers> {
    let NumberColumns { numbers, is_bare, .. } = split_line(line)?;
    let mut values = Vec::new();
    for word in words(numbers) {
        values.push(read_decimal(word)?);
    }
    let size = values.iter().map(|value| decimal_size(*value)).max()?;
    let format = match expected {
        Some(format @ NumberFormat::Decimal(whole)) if whole >= size => format,
        _ => NumberFormat::Decimal(size),
    };
    let NumberFormat::Decimal(size) = format else { return None };
    let bytes =
        |value: &i128| value.to_be_bytes().iter().skip(DECIMAL_BYTES - size).copied().collect();
    let words: Vec<Vec<u8>> = values.iter().map(bytes).collect();
    let is_dump = words.len() > usize::from(is_bare);
    is_dump.then_some(LineNumbers { format, words, is_bare })
}

fn read_decimal(word: &[u8]) -> Option<i128> {
    let digits = word.strip_prefix(b"-").unwrap_or(word);
    let is_number = !digits.is_empty()
        && digits.len() <= DECIMAL_DIGITS_MAX
        && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| is_number)?.parse().ok()
}

/// The bytes that programs print such a number for.
fn decimal_size(value: i128) -> usize {
    let bits = i128::BITS - value.unsigned_abs().leading_zeros();
    match bits {
        0..=8 => 1,
        9..=16 => 2,
        17..=32 => 4,
        _ => 8,
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Numbers of the same length. The last may be shorter, and what follows them is left out.
fn read_words(text: &[u8], expected: Option<NumberFormat>) -> Option<(NumberFormat, Vec<Vec<u8>>)> {
    let digits = || {
        words(text).map(|word| {
            let word = word.strip_suffix(b",").unwrap_or(word);
            word.strip_prefix(b"0x").unwrap_or(word)
        })
    };
    let first = digits().next()?;
    let is_binary = |word: &[u8]| word.iter().all(|digit| matches!(digit, b'0' | b'1'));
    let format = match (first.len(), expected) {
        // A line with a single word that is shorter than those above.
        (len, Some(NumberFormat::Hexadecimal(whole)))
            if len == whole || len < whole && digits().count() == 1 =>
        {
            NumberFormat::Hexadecimal(whole)
        }
        (BINARY_DIGITS, _) if digits().all(is_binary) => NumberFormat::Binary,
        (len @ (2 | 4 | 8 | 16), _) => NumberFormat::Hexadecimal(len),
        (len @ (3 | 6 | 11 | 22), _) => NumberFormat::Octal(len),
        _ => return None,
    };
    let mut numbers: Vec<Vec<u8>> = Vec::new();
    for word in digits() {
        let Some(number) = read_number(word, format) else { break };
        numbers.push(number);
    }
    (!numbers.is_empty()).then_some((format, numbers))
}

fn read_number(word: &[u8], format: NumberFormat) -> Option<Vec<u8>> {
    let read = |digits: &[u8], radix: u32| {
        digits.iter().try_fold(0_u32, |number, digit| {
            number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)
        })
    };
    let byte = |digits: &[u8], radix: u32| u8::try_from(read(digits, radix)?).ok();
    match format {
        NumberFormat::Hexadecimal(len) if word.len() <= len && word.len().is_multiple_of(2) => {
            word.chunks(2).map(|pair| byte(pair, 16)).collect()
        }
        NumberFormat::Octal(3) if word.len() == 3 => Some(vec![byte(word, 8)?]),
        NumberFormat::Octal(len) if word.len() == len => {
            let number = u64::from_str_radix(std::str::from_utf8(word).ok()?, 8).ok()?;
            let size = len * OCTAL_DIGIT_BITS / 8;
            Some(number.to_be_bytes().get(size_of::<u64>() - size..)?.to_vec())
        }
        NumberFormat::Binary if word.len() == BINARY_DIGITS => Some(vec![byte(word, 2)?]),
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

    fn collect_dumps(
        text: &[u8],
        read: fn(&[u8], Option<NumberFormat>) -> Option<LineNumbers>,
    ) -> Vec<ByteDump> {
        let mut collector = DumpCollector::new(read);
        line_ranges(text).for_each(|range| collector.push(text[range.clone()].trim_ascii(), range));
        collector.finish()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let dumps = collect_dumps(text.as_bytes(), read_line);
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
        check("0000000 10420641101\n", &["DCBA", "ABCD"]);
        check("0000000   A   P   I  \\n 303 251\n", &["API\n\u{e9}"]);
        check("0000000 303 251   A   |  \\n\n", &["\u{e9}A|\n"]);
        check("0000000   A  sp   B  nl\n", &["A B "]);
        check("000000 41 42 43  >ABC<\n", &["ABC"]);
        check(" 41 42 43 44 45\n", &["ABCDE"]);
        check("  0x41, 0x42, 0x43, 0x44,\n", &["ABCD"]);
    }

    #[test]
    fn short_last_line_belongs_to_the_dump() {
        check("00000000: 4142 4344  ABCD\n00000004: 45  E\n", &["ABCDE", "BADCE"]);
        check("00000000: 41424344  ABCD\n00000004: 454647  EFG\n", &["ABCDEFG", "DCBAGFE"]);
        check("4142 4344 4546 4748\n494a\n", &["ABCDEFGHIJ", "BADCFEHGJI"]);
    }

    #[test]
    fn narrow_lines_without_offsets_are_decoded_together() {
        check("4241 4443\n4645 4847\n", &["BADCFEHG", "ABCDEFGH"]);
        check("4241 4443\n", &[]);
    }

    #[test]
    fn decimal_and_binary_numbers_are_decoded() {
        let decimal = |text: &str, expected: &[u8]| {
            let dumps = collect_dumps(text.as_bytes(), read_decimal_line);
            let bytes: Vec<u8> = dumps.iter().flat_map(ByteDump::byte_orders).flatten().collect();
            assert_eq!(bytes, expected, "{text}");
        };
        decimal("0000000  65  80 116   9\n0000004  65\n0000005\n", b"APt\tA");
        decimal("   65   80  -61  -87\n", "AP\u{e9}".as_bytes());
        decimal("  65  80\n  66  67\n", b"APBC");
        decimal("  65  80\n", b"");
        decimal("0000000 16961  17219\n0000004     69\n", b"BACC\0EABCCE\0");
        decimal("0000000  1145258561  1212630597\n", b"DCBAHGFEABCDEFGH");
        decimal("0000000  5208208757389214273\n", b"HGFEDCBAABCDEFGH");
        decimal("0000000  -15423\n", b"\xc3\xc1\xc1\xc3");
        check("00000000: 01000001 01010000  AP\n00000002: 01001001  I\n", &["API"]);
    }

    #[test]
    fn lines_of_bytes_are_found() {
        let text = b"00000000: 4142  AB\n*\n00000002: 4344  CD\n00000004: 45  E\n";
        let dumps = find_dumps(text, &find_candidates(text));
        let shown = |bytes: Range<usize>| {
            let range = dumps[0].lines_of(&bytes).unwrap();
            String::from_utf8_lossy(&text[range]).into_owned()
        };
        assert_eq!(shown(0..2), "00000000: 4142  AB");
        assert_eq!(shown(2..3), "00000002: 4344  CD");
        assert_eq!(shown(3..5), "00000002: 4344  CD\n00000004: 45  E");
        assert_eq!(dumps[0].lines_of(&(9..10)), None);
    }

    #[test]
    fn ordinary_text_is_not_a_dump() {
        for text in [
            "",
            "add a face",
            "12:30 ok",
            "1234567",
            "deadbeef cafe\n",
            "2026-11-17 x y\n",
            "1234567 is a number",
            "7 8",
            "12345678901234567890",
        ] {
            let lines = find_candidates(text.as_bytes());
            assert!(find_dumps(text.as_bytes(), &lines).is_empty(), "{text}");
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
