//! The word before the cursor that can be completed: a command at the start, or a path after `@`.

use std::ops::Range;

use super::folded_paste::is_token;
use super::grapheme::slice;

/// Longest word that is completed, in bytes.
const TOKEN_BYTES_MAX: usize = 4_096;

/// A word that can be completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionToken {
    /// What the word names.
    pub kind: CompletionTokenKind,
    /// What was typed so far, without `/`, `@` and quotation marks.
    pub query: String,
    /// Whether the path is within quotation marks.
    pub is_quoted: bool,
    /// Where the word is, up to the cursor, in the text with folded pastes.
    pub(super) range: Range<usize>,
}

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionTokenKind {
    /// A command: `/word` at the very start of the text.
    Command,
    /// A path: `@path`, or `@"a path"`.
    Path,
}

/// Finds the word that ends at the cursor.
pub(super) fn find_token(text: &str, cursor: usize) -> Option<CompletionToken> {
    let mut earliest = cursor.saturating_sub(TOKEN_BYTES_MAX);
    while !text.is_char_boundary(earliest) {
        earliest += 1;
    }
    let before = slice(text, earliest..cursor);
    let line = before.rsplit(|letter| letter == '\n' || is_token(letter)).next()?;
    find_command(text, cursor).or_else(|| {
        let (start, is_quoted) = find_quoted(line).or_else(|| find_word(line))?;
        let sign = if is_quoted { 2 } else { 1 };
        let start = cursor - line.len() + start;
        Some(CompletionToken {
            kind: CompletionTokenKind::Path,
            query: slice(text, start + sign..cursor).to_owned(),
            is_quoted,
            range: start..cursor,
        })
    })
}

fn find_command(text: &str, cursor: usize) -> Option<CompletionToken> {
    let word = slice(text, 0..cursor.min(TOKEN_BYTES_MAX)).strip_prefix('/')?;
    let is_word =
        cursor <= TOKEN_BYTES_MAX && !word.contains(|c: char| c.is_whitespace() || is_token(c));
    is_word.then(|| CompletionToken {
        kind: CompletionTokenKind::Command,
        query: word.to_owned(),
        is_quoted: false,
        range: 0..cursor,
    })
}

/// The last `@"` without an end.
fn find_quoted(line: &str) -> Option<(usize, bool)> {
    let start = line.rfind("@\"").filter(|start| begins_word(line, *start))?;
    let is_open = !line.get(start + 2..)?.contains('"');
    is_open.then_some((start, true))
}

fn find_word(line: &str) -> Option<(usize, bool)> {
    let word = line.rfind(char::is_whitespace);
    let word = word.map_or(line, |at| line.get(at..).unwrap_or_default().trim_start());
    let start = line.len() - word.len();
    let offset = word.char_indices().find(|(at, letter)| *letter == '@' && begins_word(word, *at));
    let start = start + offset?.0;
    (!line.get(start..)?.starts_with("@\"")).then_some((start, false))
}

/// Whether a word can begin here: an address such as `me@example.org` has no path in it.
fn begins_word(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|before| before.chars().next_back());
    before.is_none_or(|letter| {
        letter.is_whitespace() || matches!(letter, '(' | '[' | '{' | '<' | ',' | ':')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks what is found at the `|` in the text: the word, and what was typed of the name.
    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str)>) {
        let cursor = text.find('|').unwrap();
        let text = text.replace('|', "");
        let found = find_token(&text, cursor);
        let found =
            found.as_ref().map(|token| (slice(&text, token.range.clone()), token.query.as_str()));
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn command_is_at_very_start() {
        check("|", None);
        check("/|", Some(("/", "")));
        check("/mo|", Some(("/mo", "mo")));
        check("/mo|del x", Some(("/mo", "mo")));
        check("|/mo", None);
        check("/model x|", None);
        check(" /mo|", None);
        check("a\n/mo|", None);
        check("/model @sr|", Some(("@sr", "sr")));
    }

    #[test]
    fn path_follows_at_sign() {
        check("@|", Some(("@", "")));
        check("see @src/ma|in.rs", Some(("@src/ma", "src/ma")));
        check("see (@src|", Some(("@src", "src")));
        check("me@example.org|", None);
        check("see @src |", None);
        check("see\n@a|", Some(("@a", "a")));
        check("\u{e0200}@a|", Some(("@a", "a")));
        check("日本 @é|", Some(("@é", "é")));
    }

    #[test]
    fn quoted_path_has_spaces() {
        check("see @\"my do|", Some(("@\"my do", "my do")));
        check("see @\"|", Some(("@\"", "")));
        check("see @\"my doc\"|", None);
        check("see @\"my doc\" @x|", Some(("@x", "x")));
        check("x@\"my do|", None);
    }

    #[test]
    fn long_word_is_not_completed() {
        check(&format!("/{}|", "x".repeat(TOKEN_BYTES_MAX)), None);
        check(&format!("@{}|", "x".repeat(TOKEN_BYTES_MAX)), None);
        check(&format!("{} @x|", "é".repeat(TOKEN_BYTES_MAX)), Some(("@x", "x")));
    }
}
