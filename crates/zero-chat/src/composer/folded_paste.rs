//! Pastes that are shown as one short token, such as `[pasted 120 lines]`.
//!
//! In the text, a token is one character of a range that Unicode has not assigned and never draws. As a
//! character it is moved over, removed, undone and yanked like any other, and as a control it never joins
//! a grapheme cluster. A text that contains such a character of its own is always folded, so that each one
//! in the text of the editor is a token.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::grapheme::slice;

/// Characters that stand for tokens.
const TOKEN_CHARS: RangeInclusive<char> = '\u{E0200}'..='\u{E0FFF}';
/// Most lines of a paste that is shown as it is.
const SHOWN_LINES_MAX: usize = 8;
/// Most characters of a paste that is shown as it is.
const SHOWN_CHARS_MAX: usize = 1_000;
/// Most tokens at a time.
const TOKENS_MAX: usize = 1_000;
/// Most bytes of all folded pastes together.
const FOLDED_BYTES_MAX: usize = 16 << 20;

/// The pastes behind the tokens of a text.
#[derive(Debug, Default)]
pub(super) struct PasteTable {
    pastes: BTreeMap<char, FoldedPaste>,
    bytes: usize,
}

#[derive(Debug)]
struct FoldedPaste {
    text: String,
    label: String,
}

/// Whether a character stands for a token.
pub(super) fn is_token(letter: char) -> bool {
    TOKEN_CHARS.contains(&letter)
}

/// Whether a text has characters that the editor itself uses.
pub(super) fn has_token_chars(text: &str) -> bool {
    text.contains(is_token)
}

/// Whether a paste is too long to be shown.
pub(super) fn is_long_paste(text: &str) -> bool {
    text.lines().nth(SHOWN_LINES_MAX).is_some() || text.chars().nth(SHOWN_CHARS_MAX).is_some()
}

impl PasteTable {
    /// Stores a paste and returns its token, or `None` if there are too many already.
    pub(super) fn fold(&mut self, text: &str) -> Option<char> {
        if self.pastes.len() >= TOKENS_MAX || self.is_full(text.len()) {
            return None;
        }
        let token = TOKEN_CHARS.clone().find(|token| !self.pastes.contains_key(token))?;
        self.bytes += text.len();
        let paste = FoldedPaste { text: text.to_owned(), label: label_paste(text) };
        self.pastes.insert(token, paste);
        Some(token)
    }

    /// Whether tokens that nothing refers to should be released before so many bytes are stored.
    pub(super) fn is_full(&self, bytes: usize) -> bool {
        self.pastes.len() >= TOKENS_MAX || self.bytes + bytes > FOLDED_BYTES_MAX
    }

    /// Releases the pastes that occur in none of the texts.
    pub(super) fn retain_used<'a>(&mut self, texts: impl Iterator<Item = &'a str>) {
        if self.pastes.is_empty() {
            return;
        }
        let used: std::collections::BTreeSet<char> =
            texts.flat_map(str::chars).filter(|letter| is_token(*letter)).collect();
        self.pastes.retain(|token, _| used.contains(token));
        self.bytes = self.pastes.values().map(|paste| paste.text.len()).sum();
    }

    /// The paste behind a token.
    pub(super) fn paste(&self, token: char) -> Option<&str> {
        self.pastes.get(&token).map(|paste| paste.text.as_str())
    }

    /// What is shown for a token.
    pub(super) fn label(&self, token: char) -> Option<&str> {
        self.pastes.get(&token).map(|paste| paste.label.as_str())
    }

    /// Bytes of a text with its tokens expanded.
    pub(super) fn expanded_len(&self, text: &str) -> usize {
        if self.pastes.is_empty() {
            return text.len();
        }
        let tokens = text.chars().filter(|letter| is_token(*letter));
        tokens.fold(text.len(), |length, token| {
            length - token.len_utf8() + self.paste(token).map_or(0, str::len)
        })
    }

    /// A text with its tokens expanded.
    pub(super) fn expand(&self, text: &str) -> String {
        if self.pastes.is_empty() {
            return text.to_owned();
        }
        let mut expanded = String::with_capacity(self.expanded_len(text));
        let mut copied = 0;
        for (at, letter) in text.char_indices().filter(|(_, letter)| is_token(*letter)) {
            expanded.push_str(slice(text, copied..at));
            expanded.push_str(self.paste(letter).unwrap_or_default());
            copied = at + letter.len_utf8();
        }
        expanded.push_str(slice(text, copied..text.len()));
        expanded
    }
}

fn label_paste(text: &str) -> String {
    match text.lines().count() {
        0 | 1 => match text.chars().count() {
            1 => "[pasted 1 character]".to_owned(),
            letters => format!("[pasted {letters} characters]"),
        },
        lines => format!("[pasted {lines} lines]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paste_is_long_beyond_lines_or_characters() {
        for (text, expected) in [
            ("x\n".repeat(8), false),
            ("x\n".repeat(9), true),
            (format!("{}x", "\n".repeat(8)), true),
            ("é".repeat(1_000), false),
            ("é".repeat(1_001), true),
            (String::new(), false),
        ] {
            assert_eq!(is_long_paste(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn token_expands_to_paste() {
        let mut table = PasteTable::default();
        let first = table.fold("one\ntwo\n").unwrap();
        let second = table.fold("\u{E0200}").unwrap();
        let text = format!("a{first}b{second}{first}");
        assert_eq!(table.expand(&text), "aone\ntwo\nb\u{E0200}one\ntwo\n");
        assert_eq!(table.expanded_len(&text), table.expand(&text).len());
        assert_eq!(table.label(first), Some("[pasted 2 lines]"));
        assert_eq!(table.label(second), Some("[pasted 1 character]"));
    }

    #[test]
    fn unused_paste_is_released() {
        let mut table = PasteTable::default();
        let (first, second) = (table.fold("one").unwrap(), table.fold("two").unwrap());
        table.retain_used([format!("x{second}").as_str()].into_iter());
        assert_eq!((table.paste(first), table.paste(second)), (None, Some("two")));
        assert_eq!(table.bytes, 3);
        assert_eq!(table.fold("three"), Some(first));
    }

    #[test]
    fn table_is_bounded() {
        let mut table = PasteTable::default();
        let large = "x".repeat(5 << 20);
        let folded = std::iter::repeat_with(|| table.fold(&large)).take(9).flatten().count();
        assert_eq!(folded, 3);
        let mut table = PasteTable::default();
        let folded = std::iter::repeat_with(|| table.fold("x")).take(TOKENS_MAX + 9).flatten();
        assert_eq!(folded.count(), TOKENS_MAX);
    }
}
