//! Texts cut to a bound. No cut divides a character, and a function that returns a `String` marks
//! where it cut.

use std::borrow::Cow;

use crate::sanitize::is_safe_char;

/// The beginning of a text, of at most so many bytes.
pub fn head(text: &str, bytes_max: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes_max)).unwrap_or_default()
}

/// The end of a text, of at most so many bytes.
pub fn tail(text: &str, bytes_max: usize) -> &str {
    text.get(text.ceil_char_boundary(text.len().saturating_sub(bytes_max))..).unwrap_or_default()
}

/// The beginning of a text, of at most so many characters.
pub fn head_chars(text: &str, chars_max: usize) -> &str {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    }
}

/// The beginning of a text, of at most so many characters and `…` where it was cut.
pub fn shorten_end(text: &str, chars_max: usize) -> String {
    let kept = head_chars(text, chars_max);
    if kept.len() == text.len() { text.to_owned() } else { format!("{kept}…") }
}

/// The beginning of a text, of at most so many characters with the `…` where it was cut.
pub fn shorten_to_fit(text: &str, chars_max: usize) -> String {
    match chars_max.checked_sub(1) {
        Some(kept_max) if head_chars(text, chars_max).len() < text.len() => {
            shorten_end(text, kept_max)
        }
        Some(_) => text.to_owned(),
        None => String::new(),
    }
}

/// The more important end of a long text. It gets two thirds of the space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFocus {
    /// The beginning, such as that of a file.
    Start,
    /// The end, such as that of a command's output.
    End,
}

/// Shortens a text that is longer than `bytes_max` bytes to its beginning and end, with `mark`, which
/// gets the number of omitted bytes, between them.
pub fn shorten_middle(
    text: &str,
    bytes_max: usize,
    focus: TextFocus,
    mark: impl FnOnce(usize) -> String,
) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let third = bytes_max / 3;
    let (head_max, tail_max) = match focus {
        TextFocus::Start => (bytes_max.saturating_sub(third), third),
        TextFocus::End => (third, bytes_max.saturating_sub(third)),
    };
    let (head, tail) = (head(text, head_max), tail(text, tail_max));
    let left_out = text.len().saturating_sub(head.len()).saturating_sub(tail.len());
    Cow::Owned(format!("{head}{}{tail}", mark(left_out)))
}

/// Number of bytes at the end that begin a character and do not end it.
pub fn incomplete_char_len(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(CHARACTER_BYTES_MAX - 1).enumerate() {
        let char_len = match byte {
            0x80..0xc0 => continue,
            0xc2..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf5 => 4,
            _ => return 0,
        };
        return if back + 1 < char_len { back + 1 } else { 0 };
    }
    0
}

/// Number of bytes at the start that end a character which began before them.
pub fn char_remainder_len(bytes: &[u8]) -> usize {
    let is_rest = |byte: &&u8| (0x80..0xc0).contains(*byte);
    bytes.iter().take(CHARACTER_BYTES_MAX - 1).take_while(is_rest).count()
}

/// Bytes of the longest UTF-8 character.
const CHARACTER_BYTES_MAX: usize = 4;

/// The words of a text in one line of at most so many characters, for a title, a name or a message.
/// Blanks, line breaks and unsafe characters between them become one space.
pub fn one_line(text: &str, chars_max: usize) -> String {
    join_words(text.split(|c: char| c.is_whitespace() || !is_safe_char(c)), chars_max)
}

/// Words with one space between them, of at most so many characters. No more are read than fit.
pub fn join_words<'a>(words: impl Iterator<Item = &'a str>, chars_max: usize) -> String {
    let mut line = String::new();
    let mut left = chars_max;
    for word in words.filter(|word| !word.is_empty()) {
        let blank = (!line.is_empty()).then_some(' ');
        for c in blank.into_iter().chain(word.chars()) {
            if left == 0 {
                line.push('…');
                return line;
            }
            left -= 1;
            line.push(c);
        }
    }
    line
}

/// Quotes untrusted text in an error message: at most `chars_max` characters, escaped as in a string
/// literal.
pub fn excerpt(text: &str, chars_max: usize) -> String {
    let kept = head_chars(text, chars_max);
    let mark = if kept.len() < text.len() { "…" } else { "" };
    format!("{}{mark}", kept.escape_debug())
}

/// The first sentence of a description, on one line and without its full stop.
pub fn first_sentence(description: &str) -> String {
    let paragraph = description.split("\n\n").next().unwrap_or_default();
    let line = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let end = line.find(". ").unwrap_or(line.len());
    line[..end].trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_keep_whole_characters() {
        assert_eq!(
            (head("äb", 0), head("äb", 1), head("äb", 2), head("äb", 9)),
            ("", "", "ä", "äb")
        );
        assert_eq!(
            (tail("bä", 0), tail("bä", 1), tail("bä", 2), tail("bä", 9)),
            ("", "", "ä", "bä")
        );
        assert_eq!(
            (head_chars("äöü", 0), head_chars("äöü", 2), head_chars("äöü", 3)),
            ("", "äö", "äöü")
        );
    }

    #[test]
    fn shortened_end_is_marked_only_where_cut() {
        assert_eq!(shorten_end("äöüß", 4), "äöüß");
        assert_eq!(shorten_end("äöüß", 2), "äö…");
        assert_eq!(shorten_to_fit("äöüß", 4), "äöüß");
        assert_eq!(shorten_to_fit("äöüß", 3), "äö…");
        assert_eq!(shorten_to_fit("äöüß", 1), "…");
        assert_eq!(shorten_to_fit("äöüß", 0), "");
        assert_eq!(shorten_to_fit("", 1), "");
    }

    #[test]
    fn shortened_middle_counts_omitted_bytes() {
        let check = |text: &str, bytes_max, focus, expected: &str| {
            let shown = shorten_middle(text, bytes_max, focus, |bytes| format!("<{bytes}>"));
            assert_eq!(shown, expected);
        };
        check("abc", 3, TextFocus::Start, "abc");
        check("aaabbbccc", 6, TextFocus::Start, "aaab<3>cc");
        check("aaabbbccc", 6, TextFocus::End, "aa<3>bccc");
        check("aaabbbccc", 7, TextFocus::End, "aa<2>bbccc");
        check("ääää", 6, TextFocus::Start, "ää<2>ä");
        check("ääää", 5, TextFocus::Start, "ää<4>");
        check("ääää", 4, TextFocus::Start, "ä<6>");
        check("abc", 0, TextFocus::End, "<3>");
    }

    #[test]
    fn parts_of_characters_are_measured() {
        let check = |bytes: &[u8], at_start: usize, at_end: usize| {
            assert_eq!(
                (char_remainder_len(bytes), incomplete_char_len(bytes)),
                (at_start, at_end),
                "{bytes:?}"
            );
        };
        check(b"", 0, 0);
        check(b"abc", 0, 0);
        check("é".as_bytes(), 0, 0);
        check(b"a\xc3", 0, 1);
        check(b"\xa9a\xe2\x82", 1, 2);
        check("a€".as_bytes(), 0, 0);
        check(b"\xf0\x9f\x98", 0, 3);
        check(b"\x9f\x98\x80 \xf0\x9f\x98\x80", 3, 0);
        check(b"\x80\x80\x80\x80", 3, 0);
        check(b"\xff", 0, 0);
    }

    #[test]
    fn one_line_has_single_spaces_and_no_unsafe_characters() {
        assert_eq!(one_line("  a\n\tb\u{1b}[2J\u{202e}c ", 40), "a b [2J c");
        assert_eq!(one_line("ab cd", 5), "ab cd");
        assert_eq!(one_line("ab cd", 4), "ab c…");
        assert_eq!(one_line("ab cd", 2), "ab…");
        assert_eq!(one_line("ab  \n", 2), "ab");
        assert_eq!(one_line(" \u{200b}\n", 9), "");
    }

    #[test]
    fn excerpt_is_escaped_and_marked_where_cut() {
        assert_eq!(excerpt("a\n\u{1b}\"é", 9), "a\\n\\u{1b}\\\"é");
        assert_eq!(excerpt("a\nb", 2), "a\\n…");
    }

    #[test]
    fn description_is_cut_to_first_sentence() {
        for (description, expected) in [
            ("Reads a file. Long ones are cut.", "Reads a file"),
            ("Reads\na file such as `a.rs`.\n\nMore.", "Reads a file such as `a.rs`"),
            ("", ""),
        ] {
            assert_eq!(first_sentence(description), expected);
        }
    }
}
