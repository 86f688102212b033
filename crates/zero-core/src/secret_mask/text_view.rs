//! The view of a text in which values are compared: different spellings of a value look the same.
//!
//! White space, control characters, quotes, backslashes, commas, `+` and `-` are left out, `%41`, `%2541`, `\u0041`, `\u{41}`,
//! `\x41`, `\101`, `&#65;` and `&amp;` are decoded, terminal sequences are skipped, `_` is `/`, and capital letters are
//! small. Characters that are not seen, and bytes that are not text, are left out. So a value is found if it is
//! wrapped, indented, quoted, a list of characters, in capitals, part of a diff, a URL or a page, or in either
//! alphabet of base64. The values are compared in the same view,
//! so leaving out more never hides one.

use std::ops::Range;

use super::FormMatch;
use crate::sanitize;

/// Longest terminal sequence.
const SEQUENCE_BYTES_MAX: usize = 64;
/// Most digits of a character in `\u{1f511}` and `&#x1f511;`.
const CODE_DIGITS_MAX: usize = 7;
/// Characters that pages write as words.
const ENTITIES: [(&[u8], u8); 5] =
    [(b"amp;", b'&'), (b"lt;", b'<'), (b"gt;", b'>'), (b"quot;", b'"'), (b"apos;", b'\'')];
/// Longest rest of an entity after its `&`: `#x`, the digits and `;`.
const ENTITY_BYTES_MAX: usize = CODE_DIGITS_MAX + 3;
const ESCAPE: u8 = 0x1b;
/// The halves in which JSON writes characters beyond the first 65,536.
const HIGH_HALVES: Range<u32> = 0xd800..0xdc00;
const LOW_HALVES: Range<u32> = 0xdc00..0xe000;

/// How a byte appears in the view.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum ByteRole {
    LeftOut = 0,
    Shown = 1,
    /// It may begin an escape.
    Special = 2,
}

const ROLES: [u8; 256] = {
    let mut roles = [ByteRole::Shown as u8; 256];
    let left_out = b" \x7f+-\"',";
    let mut at = 0;
    while at < left_out.len() {
        roles[left_out[at] as usize] = ByteRole::LeftOut as u8;
        at += 1;
    }
    // Line breaks, tabs and other control characters.
    let mut at = 0;
    while at < b' ' as usize {
        roles[at] = ByteRole::LeftOut as u8;
        at += 1;
    }
    roles[b'\\' as usize] = ByteRole::Special as u8;
    roles[b'%' as usize] = ByteRole::Special as u8;
    roles[b'&' as usize] = ByteRole::Special as u8;
    roles[ESCAPE as usize] = ByteRole::Special as u8;
    // It may begin a character that is not seen, or be no character at all.
    let mut at = 0x80;
    while at < roles.len() {
        roles[at] = ByteRole::Special as u8;
        at += 1;
    }
    roles
};

/// The bytes as they are compared: base64 has two alphabets, and a program may print capitals.
const SHOWN: [u8; 256] = {
    let mut shown = [0; 256];
    let mut at = 0;
    while at < shown.len() {
        shown[at] = if at == b'_' as usize { b'/' } else { (at as u8).to_ascii_lowercase() };
        at += 1;
    }
    shown
};

/// What several bytes of a text stand for.
struct EscapeUnit {
    /// Length in the text.
    len: usize,
    bytes: [u8; 4],
    count: usize,
}

impl EscapeUnit {
    fn new(len: usize, decoded: &[u8]) -> Self {
        let mut unit = Self { len, bytes: [0; 4], count: 0 };
        // A backslash that was encoded is left out like any other.
        let is_shown = |byte: &&u8| ROLES[usize::from(**byte)] != 0 && **byte != b'\\';
        for byte in decoded.iter().filter(is_shown).take(4) {
            unit.bytes[unit.count] = SHOWN[usize::from(*byte)];
            unit.count += 1;
        }
        unit
    }
}

/// The view of a text. It is never longer than the text.
pub(super) fn build(text: &[u8]) -> Vec<u8> {
    let mut view = vec![0; text.len()];
    let (mut at, mut len) = (0, 0);
    while at < text.len() {
        let mut special = text.len();
        for (offset, byte) in text[at..].iter().enumerate() {
            let role = ROLES[usize::from(*byte)];
            if role == ByteRole::Special as u8 {
                special = at + offset;
                break;
            }
            // No branch: text has white space at every word.
            view[len] = SHOWN[usize::from(*byte)];
            len += usize::from(role);
        }
        at = special;
        if at < text.len() {
            let unit = decode_escape(text, at);
            for byte in unit.bytes.iter().take(unit.count) {
                view[len] = *byte;
                len += 1;
            }
            at += unit.len;
        }
    }
    view.truncate(len);
    view
}

/// The ranges of a text that these matches in its view come from.
pub(super) fn map_ranges(text: &[u8], found: Vec<FormMatch>) -> Vec<(Range<usize>, usize)> {
    let mut ranges = Vec::with_capacity(found.len());
    let mut open = found.into_iter().peekable();
    let (mut at, mut len, mut start) = (0, 0, 0);
    while let (Some(next), Some(byte)) = (open.peek(), text.get(at)) {
        let (taken, count) = match ROLES[usize::from(*byte)] {
            role if role == ByteRole::Special as u8 => {
                let unit = decode_escape(text, at);
                (unit.len, unit.count)
            }
            role => (1, usize::from(role)),
        };
        if (len..len + count).contains(&next.range.start) {
            start = at;
        }
        len += count;
        at += taken;
        if len >= next.range.end {
            ranges.push((start..at, next.owner));
            open.next();
            // The next one may begin in the same unit.
            start = at;
        }
    }
    ranges
}

/// The position in a text at which this position of its view begins.
pub(super) fn map_position(text: &[u8], position: usize) -> usize {
    let found = FormMatch { range: position..position + 1, owner: 0 };
    map_ranges(text, vec![found]).first().map_or(text.len(), |(range, _)| range.start)
}

/// Where an escape begins that the text ends in the middle of.
pub(super) fn open_escape(text: &[u8]) -> Option<usize> {
    let from = text.len().saturating_sub(SEQUENCE_BYTES_MAX);
    let tail = text.get(from..)?;
    let is_open = |at: &usize| match tail.get(*at) {
        Some(b'%') => {
            // `%25` may be the beginning of `%2541`.
            let mark = if tail.get(at + 1..at + 3) == Some(b"25") { at + 3 } else { at + 1 };
            let rest = tail.get(mark..).unwrap_or_default();
            rest.len() < 2 && rest.iter().all(u8::is_ascii_hexdigit)
        }
        Some(b'\\') => {
            let mark = at + tail[*at..].iter().take_while(|byte| **byte == b'\\').count();
            let digits = |most: usize| {
                let count = hex_digits(tail, mark + 1);
                count < most && mark + 1 + count == tail.len()
            };
            match tail.get(mark) {
                None => true,
                Some(b'u') if tail.get(mark + 1) == Some(&b'{') => {
                    is_open_code(tail.get(mark + 2..).unwrap_or_default())
                }
                // The second half of a pair may follow the first.
                Some(b'u') => digits(4) || is_half_pair(tail, mark + 1),
                Some(b'x') => digits(2),
                Some(b'0'..=b'3') => {
                    let digits = tail.get(mark..).unwrap_or_default();
                    digits.len() < 3 && digits.iter().all(|byte| (b'0'..=b'7').contains(byte))
                }
                Some(_) => false,
            }
        }
        Some(b'&') => is_open_entity(tail.get(at + 1..).unwrap_or_default()),
        Some(&ESCAPE) => sequence_len(tail, *at).is_none(),
        Some(byte) if !byte.is_ascii() => is_half_character(tail.get(*at..).unwrap_or_default()),
        _ => false,
    };
    (0..tail.len()).find(is_open).map(|at| from + at)
}

fn decode_escape(text: &[u8], at: usize) -> EscapeUnit {
    match text.get(at) {
        Some(b'%') => {
            let twice = hex_value(text, at + 3, 2).filter(|_| text[at + 1..].starts_with(b"25"));
            match (twice, hex_value(text, at + 1, 2)) {
                (Some(code), _) => EscapeUnit::new(5, &[u8::try_from(code).unwrap_or(b'?')]),
                (None, Some(code)) => EscapeUnit::new(3, &[u8::try_from(code).unwrap_or(b'?')]),
                (None, None) => EscapeUnit::new(1, b"%"),
            }
        }
        Some(b'\\') => {
            // Text may be escaped several times over.
            let run = text[at..].iter().take_while(|byte| **byte == b'\\').count();
            match text.get(at + run) {
                Some(b'n' | b'r' | b't') => EscapeUnit::new(run + 1, b""),
                Some(b'u') => match decode_character(text, at + run + 1) {
                    Some((len, character)) => character_unit(run + 1 + len, character),
                    None => EscapeUnit::new(run, b""),
                },
                Some(b'0'..=b'3') => match radix_value(text, at + run, 3, 8) {
                    Some(code) => EscapeUnit::new(run + 3, &[u8::try_from(code).unwrap_or(b'?')]),
                    None => EscapeUnit::new(run, b""),
                },
                Some(b'x') => match hex_value(text, at + run + 1, 2) {
                    Some(code) => EscapeUnit::new(run + 3, &[u8::try_from(code).unwrap_or(b'?')]),
                    None => EscapeUnit::new(run, b""),
                },
                _ => EscapeUnit::new(run, b""),
            }
        }
        Some(b'&') => match decode_entity(text.get(at + 1..).unwrap_or_default()) {
            Some((len, character)) => character_unit(1 + len, character),
            None => EscapeUnit::new(1, b"&"),
        },
        Some(&ESCAPE) => EscapeUnit::new(sequence_len(text, at).unwrap_or(1), b""),
        _ => match first_character(text.get(at..).unwrap_or_default()) {
            Some(character) => character_unit(character.len_utf8(), character),
            None => EscapeUnit::new(1, b""),
        },
    }
}

/// A character that this many bytes of a text stand for.
fn character_unit(len: usize, character: char) -> EscapeUnit {
    match is_unseen(character) {
        true => EscapeUnit::new(len, b""),
        false => EscapeUnit::new(len, character.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// The character that the rest of an entity stands for, and its length.
fn decode_entity(rest: &[u8]) -> Option<(usize, char)> {
    if let Some((name, byte)) = ENTITIES.iter().find(|(name, _)| rest.starts_with(name)) {
        return Some((name.len(), char::from(*byte)));
    }
    let code = rest.strip_prefix(b"#")?;
    let (mark, radix) = match code.first() {
        Some(b'x' | b'X') => (2, 16),
        _ => (1, 10),
    };
    let (len, character) = decode_code(rest, mark, radix, b';')?;
    Some((mark + len, character))
}

/// The character with the code that a sign ends, and the length of both.
fn decode_code(text: &[u8], at: usize, radix: u32, end: u8) -> Option<(usize, char)> {
    let code = text.get(at..)?.iter().take(CODE_DIGITS_MAX + 1);
    let digits = code.clone().position(|byte| *byte == end).filter(|digits| *digits > 0)?;
    let character = char::from_u32(radix_value(text, at, digits, radix)?)?;
    Some((digits + 1, character))
}

/// Whether digits may go on that a `}` ends.
fn is_open_code(digits: &[u8]) -> bool {
    digits.len() <= CODE_DIGITS_MAX && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Whether an entity may go on.
fn is_open_entity(rest: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'#';
    rest.len() < ENTITY_BYTES_MAX && rest.iter().all(is_part)
}

/// The character that a text begins with; `None` if its first bytes are not UTF-8.
fn first_character(text: &[u8]) -> Option<char> {
    let start = text.get(..text.len().min(4))?;
    match std::str::from_utf8(start) {
        Ok(start) => start.chars().next(),
        Err(error) => {
            let valid = start.get(..error.valid_up_to())?;
            std::str::from_utf8(valid).ok()?.chars().next()
        }
    }
}

/// Whether a text is the beginning of a character, without its end.
fn is_half_character(text: &[u8]) -> bool {
    text.len() < 4
        && std::str::from_utf8(text)
            .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

/// Whether a character is not seen, is a space or is the sign for bytes that are not text.
fn is_unseen(character: char) -> bool {
    character.is_whitespace() || !sanitize::is_safe_char(character) || character == '\u{fffd}'
}

/// The character with these hexadecimal digits, and their length. One beyond the first 65,536 takes
/// two escapes.
fn decode_character(text: &[u8], at: usize) -> Option<(usize, char)> {
    if text.get(at) == Some(&b'{') {
        let (len, character) = decode_code(text, at + 1, 16, b'}')?;
        return Some((1 + len, character));
    }
    let first = hex_value(text, at, 4)?;
    if !HIGH_HALVES.contains(&first) {
        return char::from_u32(first).map(|character| (4, character));
    }
    let rest = text.get(at + 4..).unwrap_or_default();
    let run = rest.iter().take_while(|byte| **byte == b'\\').count();
    let second = hex_value(rest, run + 1, 4).filter(|half| LOW_HALVES.contains(half))?;
    let is_pair = run > 0 && rest.get(run) == Some(&b'u');
    let code = 0x1_0000 + ((first - HIGH_HALVES.start) << 10) + (second - LOW_HALVES.start);
    char::from_u32(code).filter(|_| is_pair).map(|character| (4 + run + 5, character))
}

/// Whether a text ends in the first half of a pair or before the end of the second.
fn is_half_pair(text: &[u8], at: usize) -> bool {
    let is_high = hex_value(text, at, 4).is_some_and(|half| HIGH_HALVES.contains(&half));
    let rest = text.get(at + 4..).unwrap_or_default();
    let run = rest.iter().take_while(|byte| **byte == b'\\').count();
    let digits = rest.get(run + 1..).unwrap_or_default();
    let can_go_on = match rest.get(run) {
        None => true,
        Some(b'u') => run > 0 && digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit),
        Some(_) => false,
    };
    is_high && can_go_on
}

/// Length of a terminal sequence such as that of a colour; `None` if its end is missing.
fn sequence_len(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at + 1) {
        None => None,
        Some(b'[') => {
            let rest = text.get(at + 2..).unwrap_or_default();
            let is_last = |byte: &u8| (0x40..=0x7e).contains(byte);
            match rest.iter().take(SEQUENCE_BYTES_MAX).position(is_last) {
                Some(last) => Some(last + 3),
                None if rest.len() >= SEQUENCE_BYTES_MAX => Some(1),
                None => None,
            }
        }
        Some(_) => Some(1),
    }
}

fn hex_value(text: &[u8], at: usize, digits: usize) -> Option<u32> {
    radix_value(text, at, digits, 16)
}

/// The number that these digits are; the caller bounds how many there are.
fn radix_value(text: &[u8], at: usize, digits: usize, radix: u32) -> Option<u32> {
    text.get(at..at + digits)?.iter().try_fold(0_u32, |value, byte| {
        value.checked_mul(radix)?.checked_add(char::from(*byte).to_digit(radix)?)
    })
}

/// Number of hexadecimal digits at a position.
fn hex_digits(text: &[u8], at: usize) -> usize {
    text.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_hexdigit()).count()
}
