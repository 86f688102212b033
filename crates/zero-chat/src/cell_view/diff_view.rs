//! The rows of a diff, with the words emphasised that differ between a line and its replacement.

use std::borrow::Cow;

use anstyle::Style;
use zero_terminal::code_highlight::CodeHighlighter;
use zero_terminal::diff_line_style;

use super::row_writer::{BODY_INDENT, RowWriter};
use crate::styled_row::clean_exactly;

/// Longest lines that are compared, in bytes.
const COMPARED_BYTES_MAX: usize = 2_000;

/// Adds the first rows of a unified diff, at most `lines_max`.
pub(super) fn push_diff(writer: &mut RowWriter<'_>, unified: &str, path: &str, lines_max: usize) {
    // Each character of a change counts.
    let lines: Vec<String> = unified.lines().map(clean_exactly).collect();
    let changes = find_changes(&lines);
    let mut highlighter = CodeHighlighter::for_file(writer.stream, path);
    for (line, change) in lines.iter().zip(changes).take(lines_max) {
        let row = match line.split_at_checked(1) {
            // Unchanged lines are highlighted as code; the others have the colors of the change.
            // The code after it is the new one.
            Some((" ", code)) if highlighter.is_active() => {
                render_context(writer, code, &mut highlighter)
            }
            Some(("+", code)) => {
                highlighter.highlight(code);
                render_line(writer, line, change)
            }
            Some(("@", _)) => {
                highlighter = CodeHighlighter::for_file(writer.stream, path);
                render_line(writer, line, change)
            }
            _ => render_line(writer, line, change),
        };
        writer.push_row(row);
    }
    writer.push_more(BODY_INDENT, lines.len().saturating_sub(lines_max));
}

/// The bytes of a line that differ from the line which it replaces, or which replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ChangedPart {
    start: usize,
    end: usize,
}

fn render_context(writer: &RowWriter<'_>, code: &str, highlighter: &mut CodeHighlighter) -> String {
    let spans = highlighter.highlight(code);
    let painted = spans.iter().map(|span| writer.stream.paint(span.style, span.text));
    format!("{} {}", " ".repeat(BODY_INDENT), painted.collect::<String>())
}

fn render_line<'a>(writer: &RowWriter<'_>, line: &'a str, change: Option<ChangedPart>) -> String {
    let style = diff_line_style(line);
    let paint = |style: Style, text: Option<&'a str>| -> Cow<'a, str> {
        let text = text.unwrap_or_default();
        if text.is_empty() { Cow::Borrowed("") } else { writer.stream.paint(style, text) }
    };
    let indent = " ".repeat(BODY_INDENT);
    match change {
        Some(ChangedPart { start, end }) => format!(
            "{indent}{}{}{}",
            paint(style, line.get(..start)),
            paint(style.bold().underline(), line.get(start..end)),
            paint(style, line.get(end..)),
        ),
        None => format!("{indent}{}", paint(style, Some(line))),
    }
}

/// Compares each removed line with the added one that replaces it, if lines follow each other so.
fn find_changes(lines: &[String]) -> Vec<Option<ChangedPart>> {
    let mut changes = vec![None; lines.len()];
    let count_from = |start: usize, sign: char| {
        let rest = lines.get(start..).unwrap_or_default();
        rest.iter().take_while(|line| line.starts_with(sign)).count()
    };
    let mut at = 0;
    while at < lines.len() {
        let removed = count_from(at, '-');
        let added = count_from(at + removed, '+');
        for offset in 0..removed.min(added) {
            let (old_at, new_at) = (at + offset, at + removed + offset);
            let (Some(old), Some(new)) = (lines.get(old_at), lines.get(new_at)) else { continue };
            if let Some((old_part, new_part)) = compare_lines(old, new) {
                changes[old_at] = old_part;
                changes[new_at] = new_part;
            }
        }
        at += (removed + added).max(1);
    }
    changes
}

/// What differs between two lines of a diff: what is left without their common beginning and end,
/// extended to whole words. `None` if they have so little in common that all of it would differ.
fn compare_lines(old: &str, new: &str) -> Option<(Option<ChangedPart>, Option<ChangedPart>)> {
    if old.len().max(new.len()) > COMPARED_BYTES_MAX {
        return None;
    }
    let (old_text, new_text) = (old.get(1..)?, new.get(1..)?);
    let common = |pair: &(char, char)| pair.0 == pair.1;
    let width = |pair: (char, char)| pair.0.len_utf8();
    let prefix: usize = old_text.chars().zip(new_text.chars()).take_while(common).map(width).sum();
    let prefix = word_start(old_text, prefix).min(word_start(new_text, prefix));
    let (old_rest, new_rest) = (old_text.get(prefix..)?, new_text.get(prefix..)?);
    let suffix: usize =
        old_rest.chars().rev().zip(new_rest.chars().rev()).take_while(common).map(width).sum();
    let suffix = word_end(old_rest, suffix).min(word_end(new_rest, suffix));
    let blanks = |text: Option<&str>| text.unwrap_or_default().trim().is_empty();
    if blanks(old_text.get(..prefix)) && blanks(old_rest.get(old_rest.len() - suffix..)) {
        return None;
    }
    let part = |rest: &str| {
        let (start, end) = (prefix + 1, prefix + 1 + rest.len() - suffix);
        (start < end).then_some(ChangedPart { start, end })
    };
    Some((part(old_rest), part(new_rest)))
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Where the word begins that a common beginning ends in; the same place if it ends between words.
fn word_start(text: &str, at: usize) -> usize {
    let next_is_word = text.get(at..).is_some_and(|rest| rest.starts_with(is_word));
    let before = text.get(..at).unwrap_or_default();
    if next_is_word { before.trim_end_matches(is_word).len() } else { at }
}

/// Length of a common end without the word that it begins in.
fn word_end(text: &str, length: usize) -> usize {
    let at = text.len() - length;
    let last_is_word = text.get(..at).is_some_and(|rest| rest.ends_with(is_word));
    let end = text.get(at..).unwrap_or_default();
    if last_is_word { end.trim_start_matches(is_word).len() } else { length }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: Option<(&str, &str)>) {
        let (old, new) = (format!("-{old}"), format!("+{new}"));
        let changes = find_changes(&[old.clone(), new.clone()]);
        let text = |line: &'_ str, change: Option<ChangedPart>| {
            change.map_or(String::new(), |part| line[part.start..part.end].to_owned())
        };
        let found = (text(&old, changes[0]), text(&new, changes[1]));
        let (old_part, new_part) = expected.unwrap_or_default();
        assert_eq!(found, (old_part.to_owned(), new_part.to_owned()));
    }

    #[test]
    fn changed_words_are_whole() {
        check("let foobar = 1;", "let foobaz = 1;", Some(("foobar", "foobaz")));
        check("call(a)", "call(a, b)", Some(("", ", b")));
        check("a b c", "a c", Some(("b ", "")));
        check("let x = é1;", "let x = é2;", Some(("é1", "é2")));
        check("same", "same", Some(("", "")));
        check("aaa", "bbb", None);
        check("    aaa", "    bbb", None);
        check("", "x", None);
        let long = "x ".repeat(COMPARED_BYTES_MAX);
        check(&long, &format!("{long}y"), None);
    }

    #[test]
    fn lines_are_compared_in_pairs() {
        let lines = ["@@", "-a 1", "-b 1", "+a 2", " c", "-d", "+e f", "+d"].map(str::to_owned);
        let changed: Vec<bool> = find_changes(&lines).iter().map(Option::is_some).collect();
        assert_eq!(changed, [false, true, false, true, false, false, false, false]);
    }
}
