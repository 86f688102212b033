//! The escapes of `$'…'`.

/// The text between the quotes, with its escapes replaced. A NUL ends it, as in bash. `None` if the
/// resulting bytes are not UTF-8 or depend on the locale.
pub(super) fn decode(raw: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        bytes.extend(before.bytes());
        let (length, value) = parse_escape(escape.get(1..).unwrap_or_default())?;
        rest = escape.get(1 + length..).unwrap_or_default();
        match value {
            AnsiCEscape::Char('\0') | AnsiCEscape::Byte(0) => return String::from_utf8(bytes).ok(),
            AnsiCEscape::Byte(byte) => bytes.push(byte),
            AnsiCEscape::Char(c) => bytes.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            AnsiCEscape::None => bytes.push(b'\\'),
        }
    }
    bytes.extend(rest.bytes());
    String::from_utf8(bytes).ok()
}

/// The value of an escape.
enum AnsiCEscape {
    Byte(u8),
    Char(char),
    /// Not an escape: the backslash itself.
    None,
}

/// The escape after a backslash, and its length in bytes.
fn parse_escape(text: &str) -> Option<(usize, AnsiCEscape)> {
    let Some(first) = text.chars().next() else { return Some((0, AnsiCEscape::None)) };
    let simple = match first {
        'a' => 0x07,
        'b' => 0x08,
        'e' | 'E' => 0x1B,
        'f' => 0x0C,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 0x0B,
        '\\' | '\'' | '"' | '?' => first as u8,
        '0'..='7' => return Some(parse_byte(text, 0, 3, 8)),
        'x' if text.starts_with("x{") => return parse_braced_hex(text),
        'x' => return Some(parse_byte(text, 1, 2, 16)),
        'u' => return parse_unicode(text, 4),
        'U' => return parse_unicode(text, 8),
        'c' => return parse_control(text),
        _ => return Some((0, AnsiCEscape::None)),
    };
    Some((1, AnsiCEscape::Byte(simple)))
}

/// Up to `max` digits after `skip` bytes, as one byte.
fn parse_byte(text: &str, skip: usize, max: usize, radix: u32) -> (usize, AnsiCEscape) {
    let (length, value) = parse_digits(text.get(skip..).unwrap_or_default(), max, radix);
    if length == 0 {
        return (0, AnsiCEscape::None);
    }
    (skip + length, AnsiCEscape::Byte((value & 0xFF) as u8))
}

fn parse_digits(text: &str, max: usize, radix: u32) -> (usize, u32) {
    let values = text.chars().take(max).map_while(|c| c.to_digit(radix));
    values.fold((0, 0_u32), |(length, value), digit| {
        (length + 1, value.wrapping_mul(radix).wrapping_add(digit))
    })
}

/// `x{HHH}`.
fn parse_braced_hex(text: &str) -> Option<(usize, AnsiCEscape)> {
    let (length, value) = parse_digits(text.get(2..).unwrap_or_default(), usize::MAX, 16);
    let end = 2 + length;
    // Without digits or the closing brace, versions disagree on its meaning.
    (length > 0 && text.get(end..)?.starts_with('}'))
        .then_some((end + 1, AnsiCEscape::Byte((value & 0xFF) as u8)))
}

fn parse_unicode(text: &str, max: usize) -> Option<(usize, AnsiCEscape)> {
    let (length, value) = parse_digits(text.get(1..).unwrap_or_default(), max, 16);
    if length == 0 {
        return Some((0, AnsiCEscape::None));
    }
    Some((1 + length, AnsiCEscape::Char(char::from_u32(value)?)))
}

/// `cX`.
fn parse_control(text: &str) -> Option<(usize, AnsiCEscape)> {
    let Some(character) = text.chars().nth(1) else { return Some((0, AnsiCEscape::None)) };
    let length = if text.starts_with("c\\\\") { 3 } else { 2 };
    let byte = u8::try_from(character).ok().filter(u8::is_ascii)?;
    let value = if byte == b'?' { 0x7F } else { byte.to_ascii_uppercase() & 0x1F };
    Some((length, AnsiCEscape::Byte(value)))
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[track_caller]
    fn check(raw: &str, expected: Option<&str>) {
        assert_eq!(decode(raw).as_deref(), expected, "{raw}");
    }

    #[test]
    fn ansi_c_escapes_decode_like_bash() {
        check(r"a\tb\nc", Some("a\tb\nc"));
        check(r"\a\b\e\E\f\r\v\\\'\?", Some("\x07\x08\x1B\x1B\x0C\r\x0B\\'?"));
        check(r#"\""#, Some("\""));
        check(r"\x72\x6d", Some("rm"));
        check(r"\x{72}m", Some("rm"));
        check(r"\162\155\60", Some("rm0"));
        check(r"\u0072\U0000006d\u00e9", Some("rmé"));
        check(r"\xc3\xa9", Some("é"));
        check(r"\ca\cZ\c?\c\\x", Some("\x01\x1A\x7F\x1Cx"));
        check(r"\q\xzz\u", Some(r"\q\xzz\u"));
        check("é\\n", Some("é\n"));
    }

    #[test]
    fn ansi_c_nul_ends_text() {
        check(r"ab\0cd", Some("ab"));
        check(r"ab\x00cd", Some("ab"));
        check(r"ab\400cd", Some("ab"));
        check(r"ab\c@cd", Some("ab"));
    }

    #[test]
    fn ansi_c_invalid_utf8_is_refused() {
        check(r"\xff", None);
        check(r"\ud800", None);
        check(r"\cé", None);
        check(r"\x{", None);
    }
}
