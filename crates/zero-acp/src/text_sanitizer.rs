//! Makes untrusted text safe to display: no character can imitate a line break, a field or another
//! text direction, and truncation is always marked.

use std::borrow::Cow;

use zero_core::sanitize::{self, code_fence, longest_backtick_run};
use zero_core::text_shortening::{self, TextFocus};

/// Whether a character of prose is invisible or changes the display of its neighbours. Joiners are
/// allowed: emoji and some scripts need them.
fn is_deceptive(c: char) -> bool {
    !sanitize::is_safe_in_prose(c) && !matches!(c, '\u{200c}' | '\u{200d}')
}

/// In one line of at most `chars_max` characters, before some are escaped, with runs of whitespace
/// collapsed.
pub(crate) fn visible_line(text: &str, chars_max: usize) -> String {
    escape_to_line(&text_shortening::join_words(text.split_whitespace(), chars_max))
}

/// Complete, with line breaks and tabs; other invisible characters are escaped.
pub(crate) fn make_visible(text: &str) -> String {
    let is_escaped = |c| is_deceptive(c) && !matches!(c, '\n' | '\t');
    sanitize::escape_chars(&text.replace("\r\n", "\n"), is_escaped).into_owned()
}

/// Complete and in one line: all invisible characters are escaped, line breaks included.
pub(crate) fn escape_to_line(text: &str) -> String {
    sanitize::escape_chars(text, is_deceptive).into_owned()
}

/// Like [`visible_line`], for what the user has to decide on: every hidden character is escaped, line breaks
/// and special spaces included. Runs of plain spaces are one, so that they push nothing out of sight.
pub(crate) fn escaped_line(text: &str, chars_max: usize) -> String {
    let words: Vec<&str> = text.trim().split(' ').filter(|word| !word.is_empty()).collect();
    let line = text_shortening::shorten_end(&words.join(" "), chars_max);
    sanitize::escape_line(&line).into_owned()
}

/// Like [`make_visible`], for what the user has to decide on: every hidden character is escaped.
pub(crate) fn make_exact(text: &str) -> String {
    sanitize::escape_lines(&text.replace("\r\n", "\n")).into_owned()
}

/// As a Markdown code block whose fence the text cannot close.
pub(crate) fn code_block(text: &str, language: &str) -> String {
    let delimiter = code_fence(text);
    let last = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{delimiter}{language}\n{text}{last}{delimiter}")
}

/// As inline code, with every hidden character escaped.
pub(crate) fn inline_code(text: &str) -> String {
    let text = sanitize::escape_line(text);
    let ticks = longest_backtick_run(&text);
    if ticks == 0 {
        return format!("`{text}`");
    }
    let delimiter = "`".repeat(ticks.saturating_add(1));
    format!("{delimiter} {text} {delimiter}")
}

/// Keeps the beginning and the end of a text longer than `bytes_max`, with a line between them that
/// says how much is omitted.
pub(crate) fn shorten_for_display(text: &str, bytes_max: usize) -> Cow<'_, str> {
    text_shortening::shorten_middle(text, bytes_max, TextFocus::Start, |left_out| {
        format!("\n[… {left_out} bytes are not shown …]\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(made: impl AsRef<str>, expected: &str) {
        assert_eq!(made.as_ref(), expected);
    }

    #[test]
    fn visible_line_collapses_and_escapes_hidden_characters() {
        check(visible_line("  a\n\tb  ", 10), "a b");
        check(visible_line("a\u{202e}b\u{1b}[31m", 40), "a\\u{202e}b\\u{1b}[31m");
        check(visible_line("äöüß", 2), "äö…");
        check(visible_line("äöüß", 4), "äöüß");
        check(visible_line("👩\u{200d}💻", 9), "👩\u{200d}💻");
    }

    #[test]
    fn make_visible_keeps_line_breaks() {
        check(make_visible("a\r\nb\tc"), "a\nb\tc");
        check(make_visible("rm x\r ls"), "rm x\\r ls");
        check(make_visible("a\u{200b}\u{7}"), "a\\u{200b}\\u{7}");
        check(escape_to_line("a\nb"), "a\\nb");
    }

    #[test]
    fn exact_text_also_escapes_joiners_and_selectors() {
        let text = "👩\u{200d}💻 \u{26a0}\u{fe0f}";
        check(visible_line(text, 20), text);
        check(make_visible(text), text);
        let exact = "👩\\u{200d}💻 \u{26a0}\\u{fe0f}";
        check(escaped_line(text, 20), exact);
        check(escaped_line(" rm a\nrm b ", 20), "rm a\\nrm b");
        check(escaped_line("rm     abc", 4), "rm a…");
        check(make_exact(text), exact);
        check(inline_code(text), &format!("`{exact}`"));
        check(make_exact("a\r\nb\u{3164}\tc"), "a\nb\\u{3164}\tc");
    }

    #[test]
    fn code_fences_cannot_be_escaped() {
        check(code_block("a", "sh"), "```sh\na\n```");
        check(code_block("a\n```\nb\n", ""), "````\na\n```\nb\n````");
        check(inline_code("a`b"), "`` a`b ``");
        check(inline_code("a\nb"), "`a\\nb`");
    }

    #[test]
    fn shortened_text_counts_omitted_bytes() {
        check(shorten_for_display("abc", 3), "abc");
        check(shorten_for_display("aaabbbccc", 6), "aaab\n[… 3 bytes are not shown …]\ncc");
        check(shorten_for_display("ääää", 6), "ää\n[… 2 bytes are not shown …]\nä");
    }
}
