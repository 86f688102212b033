//! Words of somebody else that a person sees, made harmless: nothing in them can move the cursor, hide
//! other words, reverse the reading or pass for words of zero's own.

/// Longest single line of somebody else that is shown, in characters.
const LINE_CHARS_MAX: usize = 200;
/// Most characters of a text that are looked at for such a line.
const LINE_CHARS_READ: usize = 16 * LINE_CHARS_MAX;

/// One line of text, for a title or a name.
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

/// The first character of a text that would do more than be read. Line breaks and tabs are text.
pub fn find_unsafe_char(text: &str) -> Option<char> {
    text.chars().find(|c| !is_safe_char(*c) && !matches!(c, '\n' | '\t'))
}

/// Text of several lines, as a block that Markdown in it cannot leave.
pub fn to_code_block(text: &str, language: &str) -> String {
    let text = replace_unsafe_chars(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat((longest + 1).max(3));
    format!("{fence}{language}\n{text}\n{fence}")
}

/// Text of several lines that does nothing but be read.
pub fn replace_unsafe_chars(text: &str) -> String {
    let keeps = |c: char| is_safe_char(c) || c == '\n' || c == '\t';
    text.chars().map(|c| if keeps(c) { c } else { '\u{FFFD}' }).collect()
}

/// The beginning of a text, with a mark where it was cut.
pub fn truncate(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Error output as text that does nothing but be read: what would do more is shown as an escape, so
/// that it can be told what was there.
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

/// Whether a character shows as itself and leaves its neighbours alone.
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
