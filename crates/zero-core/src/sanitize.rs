//! Sanitizes untrusted text for display: it cannot move the cursor, hide other text, reverse the
//! reading direction or imitate zero's own messages.

/// Longest single line of untrusted text, in characters.
const LINE_CHARS_MAX: usize = 200;
/// Most characters of a text that are read for such a line.
const LINE_CHARS_READ: usize = 16 * LINE_CHARS_MAX;

/// One line of text, for a title or a name; unsafe characters become spaces.
pub fn to_line(text: &str) -> String {
    let read = text.chars().take(LINE_CHARS_READ);
    let text: String = read.map(|c| if is_safe_char(c) { c } else { ' ' }).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    truncate(&words.join(" "), LINE_CHARS_MAX)
}

/// One line of text within backticks.
pub fn to_quoted_line(text: &str) -> String {
    format!("`{}`", to_line(text).replace('`', "'"))
}

/// The first unsafe character of a text. Line breaks and tabs are safe.
pub fn find_unsafe_char(text: &str) -> Option<char> {
    text.chars().find(|c| !is_safe_char(*c) && !matches!(c, '\n' | '\t'))
}

/// A Markdown code block with a fence that the text cannot close.
pub fn to_code_block(text: &str, language: &str) -> String {
    let text = replace_unsafe_chars(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}{language}\n{text}\n{fence}")
}

/// Text of several lines with unsafe characters replaced by `U+FFFD`.
pub fn replace_unsafe_chars(text: &str) -> String {
    let keeps = |c: char| is_safe_char(c) || c == '\n' || c == '\t';
    text.chars().map(|c| if keeps(c) { c } else { '\u{FFFD}' }).collect()
}

/// The first `chars_max` characters of a text, with `…` if it was cut.
pub fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Text of several lines with unsafe characters escaped, so that the reader sees what was there.
pub fn escape_unsafe_chars(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => escaped.push(c),
            '\r' => {}
            _ if is_safe_char(c) => escaped.push(c),
            _ => escaped.extend(c.escape_unicode()),
        }
    }
    escaped
}

/// Whether a character is visible and does not affect its neighbours.
pub fn is_safe_char(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{00AD}'
            | '\u{061C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{FFF9}'..='\u{FFFB}'
            | '\u{E0000}'..='\u{E007F}'
    );
    !c.is_control() && !is_invisible
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
    }

    #[test]
    fn code_block_fence_cannot_be_closed_from_within() {
        assert_eq!(to_code_block("a", "json"), "```json\na\n```");
        assert_eq!(to_code_block("x\n```\n**bold**", ""), "````\nx\n```\n**bold**\n````");
        assert_eq!(to_code_block("a\u{1b}b\r", ""), "```\na\u{FFFD}b\u{FFFD}\n```");
    }
}
