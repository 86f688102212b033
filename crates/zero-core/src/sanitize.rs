//! Sanitizes untrusted text for display: it cannot move the cursor, hide other text, reverse the
//! reading direction or imitate zero's own messages.

use std::borrow::Cow;

use crate::text_shortening::one_line;

/// Longest single line of untrusted text, in characters.
const LINE_CHARS_MAX: usize = 200;

/// One line of text, for a title or a name; unsafe characters become spaces.
pub fn to_line(text: &str) -> String {
    one_line(text, LINE_CHARS_MAX)
}

/// One line of text within backticks.
pub fn to_quoted_line(text: &str) -> String {
    format!("`{}`", to_line(text).replace('`', "'"))
}

/// The first character that is unsafe in prose. Line breaks and tabs are safe.
pub fn find_unsafe_char(text: &str) -> Option<char> {
    text.chars().find(|c| !is_safe_in_prose(*c) && !matches!(c, '\n' | '\t'))
}

/// A Markdown code block with a fence that the text cannot close.
pub fn to_code_block(text: &str, language: &str) -> String {
    let text = replace_unsafe_chars(text);
    let delimiter = code_fence(&text);
    format!("{delimiter}{language}\n{text}\n{delimiter}")
}

/// A line of backticks that nothing in a text can close.
pub fn code_fence(text: &str) -> String {
    "`".repeat(longest_backtick_run(text).saturating_add(1).max(3))
}

/// How many backticks follow each other in a text at the most.
pub fn longest_backtick_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

/// Prose of several lines with unsafe characters replaced by `U+FFFD`.
pub fn replace_unsafe_chars(text: &str) -> String {
    let keeps = |c: char| is_safe_in_prose(c) || c == '\n' || c == '\t';
    text.chars().map(|c| if keeps(c) { c } else { '\u{FFFD}' }).collect()
}

/// Error output that is safe to print: each unsafe character is shown as an escape. Carriage returns
/// are removed.
pub fn escape_unsafe_chars(text: &str) -> String {
    escape_lines(&text.replace('\r', "")).into_owned()
}

/// Text of several lines with each unsafe character shown as an escape.
pub fn escape_lines(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| !is_safe_char(c) && !matches!(c, '\n' | '\t'))
}

/// Prose of several lines with each unsafe character shown as an escape.
pub fn escape_prose(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| !is_safe_in_prose(c) && !matches!(c, '\n' | '\t'))
}

/// Text in one line with each unsafe character shown as an escape, also line breaks and tabs.
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| !is_safe_char(c))
}

/// Text with some characters shown as escapes of a string literal.
pub fn escape_chars(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    escape_chars_with(text, is_escaped, |c, escaped| escaped.extend(c.escape_default()))
}

/// Text with some characters written by `write`.
pub fn escape_chars_with(
    text: &str,
    is_escaped: impl Fn(char) -> bool,
    write: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len().saturating_add(16));
    for c in text.chars() {
        if is_escaped(c) { write(c, &mut escaped) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// Whether a character is visible and does not affect its neighbours.
pub fn is_safe_char(c: char) -> bool {
    // Printable ASCII, which most text is, needs no table.
    matches!(c, ' '..='~') || !c.is_control() && !is_hidden_char(c)
}

/// Whether a character is safe in prose, where nothing depends on each character. The selectors
/// that choose between the text and the emoji form of a symbol are common there.
pub fn is_safe_in_prose(c: char) -> bool {
    is_safe_char(c) || matches!(c, '\u{FE0E}' | '\u{FE0F}')
}

/// Whether a character is drawn as nothing or as a blank, although it is no space, or changes how
/// its neighbours are drawn. Contains all that Unicode calls ignorable by default.
fn is_hidden_char(c: char) -> bool {
    matches!(
        c,
        // Soft hyphen, and the joiner of graphemes.
        '\u{00AD}' | '\u{034F}'
            // Direction of text.
            | '\u{061C}' | '\u{200E}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            // Fillers and vowels of Hangul and Khmer that are not drawn.
            | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' | '\u{3164}' | '\u{FFA0}'
            // Selectors of variants, of Mongolian and in general, and a Mongolian separator.
            | '\u{180B}'..='\u{180F}' | '\u{FE00}'..='\u{FE0F}'
            // Spaces without width, joiners, line separators and other formatting.
            | '\u{200B}'..='\u{200D}' | '\u{2028}'..='\u{2029}' | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}' | '\u{FFF0}'..='\u{FFFB}'
            // The Braille pattern without dots.
            | '\u{2800}'
            // Formatting of shorthand, of music and of hieroglyphs.
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{13430}'..='\u{1343F}'
            // Tags, and further selectors of variants.
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(to_line(text), expected, "{text:?}");
    }

    #[test]
    fn sanitized_line_holds_no_control_characters() {
        check("List files", "List files");
        check("a\n\n  b\tc", "a b c");
        check("\u{1b}[2Jgone\u{7}", "[2Jgone");
        check("abc\u{202E}fed", "abc fed");
        check("é ü 日本", "é ü 日本");
        check(&"x".repeat(500), &format!("{}…", "x".repeat(200)));
        assert_eq!(to_quoted_line("a`b"), "`a'b`");
    }

    #[test]
    fn unsafe_characters_are_escaped() {
        assert_eq!(escape_unsafe_chars("a\tb\r\n\u{1b}[2J é"), "a\tb\n\\u{1b}[2J é");
        assert_eq!(escape_unsafe_chars("x\u{202E}y\u{200B}"), "x\\u{202e}y\\u{200b}");
        assert_eq!(escape_lines("a\tb\r\n\u{7}"), "a\tb\\r\n\\u{7}");
        assert_eq!(escape_line("a\tb\n\u{200d}"), "a\\tb\\n\\u{200d}");
    }

    #[test]
    fn hidden_characters_are_escaped() {
        for c in [
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{1160}',
            '\u{17b4}',
            '\u{17b5}',
            '\u{180b}',
            '\u{180e}',
            '\u{180f}',
            '\u{200b}',
            '\u{200e}',
            '\u{2028}',
            '\u{202a}',
            '\u{202e}',
            '\u{2066}',
            '\u{206f}',
            '\u{2800}',
            '\u{3164}',
            '\u{fe00}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fff9}',
            '\u{1bca0}',
            '\u{1d173}',
            '\u{e0000}',
            '\u{e0041}',
            '\u{e0100}',
            '\u{e01ef}',
            '\u{e0fff}',
        ] {
            let (text, escaped) = (format!("a{c}b"), format!("a{}b", c.escape_default()));
            assert_eq!(escape_line(&text), escaped);
            assert_eq!(escape_lines(&text), escaped);
            assert_eq!(escape_prose(&text), escaped);
            assert_eq!(to_line(&text), "a b");
            assert_eq!(replace_unsafe_chars(&text), "a\u{FFFD}b");
        }
    }

    #[test]
    fn only_prose_keeps_emoji_selectors() {
        let text = "\u{26a0}\u{fe0f}";
        assert_eq!(escape_line(text), "\u{26a0}\\u{fe0f}");
        assert_eq!(escape_lines(text), "\u{26a0}\\u{fe0f}");
        assert_eq!(escape_prose(text), text);
        assert_eq!(replace_unsafe_chars(text), text);
        assert_eq!(find_unsafe_char(text), None);
    }

    #[test]
    fn code_block_fence_cannot_be_closed_from_within() {
        assert_eq!(to_code_block("a", "json"), "```json\na\n```");
        assert_eq!(to_code_block("x\n```\n**bold**", ""), "````\nx\n```\n**bold**\n````");
        assert_eq!(to_code_block("a\u{1b}b\r", ""), "```\na\u{FFFD}b\u{FFFD}\n```");
    }
}
