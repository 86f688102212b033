//! Bytes that are listed as numbers in a text: `[116, 111]`, `74:6f`, `0x74,0x6f`, `0164 0157`, `U+0074 U+006F`.
//!
//! Such a list begins anywhere in a line, and goes over any number of lines. The text between its
//! numbers is ignored. Text is sampled: a list that is long enough for a value contains three
//! neighbours of the sampled positions, and other text hardly ever has three that could be part of one.

use std::ops::Range;

/// Fewest numbers: as many as the shortest value has characters.
const NUMBERS_MIN: usize = super::VALUE_CHARS_MIN;
/// Shortest list: numbers have two digits and a sign between them.
const LIST_BYTES_MIN: usize = NUMBERS_MIN * 3 - 1;
/// Number of sampled positions in the shortest list, and their distance.
const SAMPLES: usize = 3;
const SAMPLE_BYTES: usize = LIST_BYTES_MIN / SAMPLES;
/// Most digits of a number, with leading zeros.
const DIGITS_MAX: usize = 4;

/// How much of a list is kept that the text may go on with.
const OPEN_BYTES_MAX: usize = 16 * 1024;

/// How the numbers of a list are read.
const RADIXES: [u32; 3] = [10, 16, 8];

/// How a byte can be part of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ListRole {
    Other = 0,
    Sign = 1,
    Digit = 2,
}

const ROLES: [ListRole; 256] = {
    let mut roles = [ListRole::Other; 256];
    // `x` and `u` begin numbers: `0x74`, `u0074`.
    let signs = b" \t\r\n,:;.&#|+-{}[]()\\\"'xXuU";
    let mut at = 0;
    while at < signs.len() {
        roles[signs[at] as usize] = ListRole::Sign;
        at += 1;
    }
    let mut at = 0;
    while at < roles.len() {
        if (at as u8).is_ascii_hexdigit() {
            roles[at] = ListRole::Digit;
        }
        at += 1;
    }
    roles
};

/// Consecutive numbers that are bytes.
#[derive(Debug, Default)]
pub(super) struct NumberRun {
    pub(super) bytes: Vec<u8>,
    /// Where the number of each byte is in the text.
    places: Vec<Range<usize>>,
}

impl NumberRun {
    /// Where the numbers of these bytes are in the text.
    pub(super) fn numbers_of(&self, bytes: &Range<usize>) -> Option<Range<usize>> {
        let first = self.places.get(bytes.start)?;
        let last = self.places.get(bytes.end.checked_sub(1)?)?;
        Some(first.start..last.end)
    }
}

/// All lists of bytes in a text, each in every way in which it can be read.
pub(super) fn find_runs(text: &[u8]) -> Vec<NumberRun> {
    let mut runs = Vec::new();
    let (mut at, mut samples, mut from) = (0, 0, 0);
    while let Some(byte) = text.get(at) {
        samples = if role(*byte) == ListRole::Other { 0 } else { samples + 1 };
        if samples < SAMPLES {
            at += SAMPLE_BYTES;
            continue;
        }
        let list = list_around(text, at, from);
        (at, samples, from) = (list.end, 0, list.end);
        if list.len() >= LIST_BYTES_MIN {
            read_list(text, list, &mut runs);
        }
    }
    runs
}

/// Where the list begins that a text ends with, and what can be read of it. It may go on.
pub(super) fn open_list(text: &[u8]) -> Option<(usize, Vec<NumberRun>)> {
    let at = text.len().checked_sub(1)?;
    let from = text.len().saturating_sub(OPEN_BYTES_MAX);
    let list = list_around(text, at, from);
    let start = digit_groups(text, list.clone()).next()?.start;
    let runs = RADIXES.map(|radix| {
        let mut runs = Vec::new();
        read_numbers(text, list.clone(), radix, 1, &mut runs);
        runs.pop().filter(|run| run.places.last().is_some_and(|last| is_last(text, last)))
    });
    Some((start, runs.into_iter().flatten().collect()))
}

/// Whether no number follows, except for the mark of one.
fn is_last(text: &[u8], number: &Range<usize>) -> bool {
    let rest = text.get(number.end..).unwrap_or_default();
    rest.iter().all(|byte| role(*byte) != ListRole::Digit || *byte == b'0')
}

fn role(byte: u8) -> ListRole {
    ROLES[usize::from(byte)]
}

/// The bytes around a position that may be a list, from `from` on.
fn list_around(text: &[u8], at: usize, from: usize) -> Range<usize> {
    let is_part = |byte: &u8| role(*byte) != ListRole::Other;
    let before = text.get(from..at).unwrap_or_default().iter().rev().take_while(|it| is_part(it));
    let after = text.get(at..).unwrap_or_default().iter().take_while(|it| is_part(it));
    at - before.count()..at + after.count()
}

fn digit_groups(text: &[u8], list: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = list.start;
    std::iter::from_fn(move || {
        let rest = text.get(at..list.end)?;
        let start = at + rest.iter().position(|byte| role(*byte) == ListRole::Digit)?;
        let digits = text.get(start..list.end)?.iter();
        at = start + digits.take_while(|byte| role(**byte) == ListRole::Digit).count();
        Some(start..at)
    })
}

fn read_list(text: &[u8], list: Range<usize>, runs: &mut Vec<NumberRun>) {
    // Words such as `add a face` are no numbers, and neither is white space.
    let groups = digit_groups(text, list.clone());
    if groups.filter(|group| group.len() <= DIGITS_MAX).take(NUMBERS_MIN).count() < NUMBERS_MIN {
        return;
    }
    for radix in RADIXES {
        read_numbers(text, list.clone(), radix, NUMBERS_MIN, runs);
    }
}

/// Adds each run of at least this many numbers.
fn read_numbers(
    text: &[u8],
    list: Range<usize>,
    radix: u32,
    numbers_min: usize,
    runs: &mut Vec<NumberRun>,
) {
    let mut open = NumberRun::default();
    let mut close = |run: &mut NumberRun| {
        let whole = std::mem::take(run);
        if whole.bytes.len() >= numbers_min {
            runs.push(whole);
        }
    };
    for group in digit_groups(text, list) {
        let digits = text.get(group.clone()).unwrap_or_default();
        // The mark of `0x74`.
        if digits == b"0" && matches!(text.get(group.end), Some(b'x' | b'X')) {
            continue;
        }
        match read_byte(digits, radix) {
            Some(byte) => {
                open.bytes.push(byte);
                open.places.push(group);
            }
            None => close(&mut open),
        }
    }
    close(&mut open);
}

fn read_byte(digits: &[u8], radix: u32) -> Option<u8> {
    if digits.len() > DIGITS_MAX {
        return None;
    }
    let number = digits
        .iter()
        .try_fold(0, |number, digit| Some(number * radix + char::from(*digit).to_digit(radix)?))?;
    u8::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let runs = find_runs(text.as_bytes());
        let shown: Vec<_> = runs.iter().map(|run| String::from_utf8_lossy(&run.bytes)).collect();
        assert!(shown.iter().any(|shown| shown.contains(expected)), "{text}: {shown:?}");
    }

    #[test]
    fn lists_of_numbers_are_decoded() {
        let secret = b"tok_live_9f";
        let join = |number: &dyn Fn(&u8) -> String, sign: &str| -> String {
            secret.iter().map(number).collect::<Vec<_>>().join(sign)
        };
        let hex = |byte: &u8| format!("{byte:02x}");
        for text in [
            join(&|byte| byte.to_string(), ", "),
            join(&|byte| byte.to_string(), ",\n  "),
            join(&hex, ":"),
            join(&hex, " "),
            join(&hex, ", 0x"),
            join(&|byte| format!("{byte:#x}"), ","),
            join(&|byte| format!("U+{byte:04X}"), " "),
            join(&|byte| format!("{byte:03o}"), "-"),
            join(&|byte| format!("&#{byte};"), ""),
        ] {
            check(&text, "tok_live_9f");
            check(&format!("the data is [{text}], and so on"), "tok_live_9f");
        }
    }

    #[test]
    fn numbers_of_bytes_are_found() {
        let text = b"see [65, 66, 67, 68, 69, 70, 71, 72] there";
        let run = &find_runs(text)[0];
        assert_eq!(run.bytes, b"ABCDEFGH");
        assert_eq!(&text[run.numbers_of(&(1..3)).unwrap()], b"66, 67");
        assert_eq!(run.numbers_of(&(7..9)), None);
    }

    #[test]
    fn ordinary_text_is_not_a_list() {
        for text in [
            "",
            "add a face, be a cab; dead beef",
            "1, 2, 3",
            "2026-11-17 12:30",
            "        \n\n      ",
        ] {
            assert!(find_runs(text.as_bytes()).is_empty(), "{text}");
        }
    }

    #[test]
    fn open_list_begins_with_its_numbers() {
        let open = |text: &str| {
            let (start, runs) = open_list(text.as_bytes())?;
            Some((start, runs.into_iter().map(|run| run.bytes).collect::<Vec<_>>()))
        };
        assert_eq!(
            open("the list 116, 111, 10"),
            Some((9, vec![b"to\n".to_vec(), vec![0x10], b"NI\x08".to_vec()]))
        );
        assert_eq!(open("the list 116, 111, 10 ok"), None);
        assert_eq!(open("listening on 127.0.0.1:3000\n").map(|(start, _)| start), Some(13));
        assert_eq!(open("ok\n"), None);
        assert_eq!(open(""), None);
    }
}
