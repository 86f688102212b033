//! Text that others wrote, made safe to show: no character in it can pass for another line, another
//! field or another order of letters, and none of it is cut without saying so.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is not seen, or changes how its neighbours are. Joiners stay: emoji and some
/// scripts need them.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// In one line of at most so many characters, blanks drawn together.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        let blank = (!line.is_empty()).then_some(' ');
        for c in blank.into_iter().chain(word.chars()) {
            if count >= chars_max {
                line.push('…');
                return line;
            }
            count += 1;
            push_visible(&mut line, c);
        }
    }
    line
}

/// Whole, with line breaks and tabs as they are and everything else that is not seen spelled out.
pub(crate) fn make_visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_deceptive(c) && !matches!(c, '\n' | '\t')) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\n' | '\t' => shown.push(c),
            '\r' if rest.peek() == Some(&'\n') => {}
            c => push_visible(&mut shown, c),
        }
    }
    Cow::Owned(shown)
}

/// Whole, in one line: what is not seen is spelled out, also line breaks.
pub(crate) fn escape_to_line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        push_visible(&mut shown, c);
    }
    shown
}

fn push_visible(line: &mut String, c: char) {
    match c {
        '\n' | '\r' | '\t' => line.extend(c.escape_default()),
        c if is_deceptive(c) => line.extend(c.escape_unicode()),
        c => line.push(c),
    }
}

/// As a block of code that nothing inside can end.
pub(crate) fn code_block(text: &str, language: &str) -> String {
    let fence = "`".repeat(longest_backtick_run(text).saturating_add(1).max(3));
    let last = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    format!("{fence}{language}\n{text}{last}{fence}")
}

/// As code within a line.
pub(crate) fn inline_code(text: &str) -> String {
    let text = escape_to_line(text);
    let ticks = longest_backtick_run(&text);
    if ticks == 0 {
        return format!("`{text}`");
    }
    let fence = "`".repeat(ticks.saturating_add(1));
    format!("{fence} {text} {fence}")
}

fn longest_backtick_run(text: &str) -> usize {
    let (mut longest, mut here) = (0_usize, 0_usize);
    for c in text.chars() {
        here = if c == '`' { here.saturating_add(1) } else { 0 };
        longest = longest.max(here);
    }
    longest
}

/// Its beginning and its end where it is longer than so many bytes, with a line between that says how
/// much is left out.
pub(crate) fn shorten_middle(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let head = text.floor_char_boundary(bytes_max / 3 * 2);
    let tail = text.ceil_char_boundary(text.len().saturating_sub(bytes_max / 3));
    let (Some(first), Some(last)) = (text.get(..head), text.get(tail..)) else {
        return Cow::Borrowed("");
    };
    let mut short = String::with_capacity(bytes_max.saturating_add(64));
    let left_out = tail.saturating_sub(head);
    // Writing to a string cannot fail.
    let _ = write!(short, "{first}\n[… {left_out} bytes are not shown …]\n{last}");
    Cow::Owned(short)
}

/// Its end, of at most so many bytes.
pub(crate) fn tail(text: &str, bytes_max: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(bytes_max));
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(made: impl AsRef<str>, expected: &str) {
        assert_eq!(made.as_ref(), expected);
    }

    #[test]
    fn one_line_collapses_and_escapes_hidden_characters() {
        check(one_line("  a\n\tb  ", 10), "a b");
        check(one_line("a\u{202e}b\u{1b}[31m", 40), "a\\u{202e}b\\u{1b}[31m");
        check(one_line("äöüß", 2), "äö…");
        check(one_line("äöüß", 4), "äöüß");
        check(one_line("👩\u{200d}💻", 9), "👩\u{200d}💻");
    }

    #[test]
    fn make_visible_keeps_line_breaks() {
        check(make_visible("a\r\nb\tc"), "a\nb\tc");
        check(make_visible("rm x\r ls"), "rm x\\r ls");
        check(make_visible("a\u{200b}\u{7}"), "a\\u{200b}\\u{7}");
        check(escape_to_line("a\nb"), "a\\nb");
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
        check(shorten_middle("abc", 3), "abc");
        check(shorten_middle("aaabbbccc", 6), "aaab\n[… 3 bytes are not shown …]\ncc");
        check(shorten_middle("ääää", 6), "ää\n[… 2 bytes are not shown …]\nä");
        check(tail("äb", 2), "b");
        check(tail("äb", 3), "äb");
    }
}
