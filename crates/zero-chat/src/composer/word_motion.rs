//! Where words begin and end.
//!
//! Characters are read one by one, and the result is rounded to a cluster: that costs the length of the word,
//! whatever the text is.

use super::folded_paste::is_token;
use super::grapheme::{round_down, round_up, slice};
use zero_terminal::char_columns;

/// What a character is to words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharClass {
    /// A space, a tab or a line end.
    Blank,
    /// A letter, a digit or `_`.
    Letter,
    /// Anything else that is visible.
    Sign,
    /// A folded paste: a word of its own.
    Token,
}

/// What counts as a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordKind {
    /// Letters, or signs.
    Small,
    /// Everything between blanks.
    Big,
}

/// The class of a character; `None` for a mark, which belongs to the character before it.
pub(super) fn classify(letter: char, kind: WordKind) -> Option<CharClass> {
    match letter {
        letter if letter.is_whitespace() => Some(CharClass::Blank),
        letter if is_token(letter) => Some(CharClass::Token),
        letter if letter.is_alphanumeric() || letter == '_' => match kind {
            WordKind::Small => Some(CharClass::Letter),
            WordKind::Big => Some(CharClass::Sign),
        },
        letter if char_columns(letter) == 0 && !letter.is_control() => None,
        _ => Some(CharClass::Sign),
    }
}

/// End of the run of characters that `is_in_run` accepts. Marks are part of every run.
pub(super) fn run_end(
    text: &str,
    at: usize,
    kind: WordKind,
    is_in_run: impl Fn(CharClass) -> bool,
) -> usize {
    let ends = |letter: char| classify(letter, kind).is_some_and(|class| !is_in_run(class));
    let end = slice(text, at..text.len()).find(ends).map_or(text.len(), |length| at + length);
    round_up(text, end)
}

/// Start of the run of characters before a position that `is_in_run` accepts.
pub(super) fn run_start(
    text: &str,
    at: usize,
    kind: WordKind,
    is_in_run: impl Fn(CharClass) -> bool,
) -> usize {
    let mut start = at;
    for (offset, letter) in slice(text, 0..at).char_indices().rev() {
        match classify(letter, kind) {
            Some(class) if is_in_run(class) => start = offset,
            Some(_) => break,
            None => {}
        }
    }
    round_down(text, start)
}

/// Position behind the next word: characters between words are skipped first.
pub(super) fn word_right(text: &str, at: usize) -> usize {
    let start = run_end(text, at, WordKind::Small, |class| !is_word(class));
    match class_at(text, start, WordKind::Small) {
        Some(CharClass::Token) => start + text_len_at(text, start),
        _ => run_end(text, start, WordKind::Small, |class| class == CharClass::Letter),
    }
}

/// Start of the word before a position: characters between words are skipped first.
pub(super) fn word_left(text: &str, at: usize) -> usize {
    let end = run_start(text, at, WordKind::Small, |class| !is_word(class));
    match slice(text, 0..end).chars().next_back() {
        Some(letter) if is_token(letter) => end - letter.len_utf8(),
        _ => run_start(text, end, WordKind::Small, |class| class == CharClass::Letter),
    }
}

/// Start of what is between blanks before a position, blanks directly before it included.
pub(super) fn big_word_left(text: &str, at: usize) -> usize {
    let end = run_start(text, at, WordKind::Big, |class| class == CharClass::Blank);
    run_start(text, end, WordKind::Big, |class| class != CharClass::Blank)
}

/// The class of the character at a position. A mark without a letter is a sign.
pub(super) fn class_at(text: &str, at: usize, kind: WordKind) -> Option<CharClass> {
    let letter = slice(text, at..text.len()).chars().next()?;
    Some(classify(letter, kind).unwrap_or(CharClass::Sign))
}

fn is_word(class: CharClass) -> bool {
    matches!(class, CharClass::Letter | CharClass::Token)
}

fn text_len_at(text: &str, at: usize) -> usize {
    slice(text, at..text.len()).chars().next().map_or(0, char::len_utf8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, at: usize, expected: (usize, usize, usize)) {
        let found = (word_left(text, at), word_right(text, at), big_word_left(text, at));
        assert_eq!(found, expected, "{text:?} at {at}");
    }

    #[test]
    fn words_end_at_signs_and_blanks() {
        let text = "git commit -am 'x_1'";
        check(text, 0, (0, 3, 0));
        check(text, 3, (0, 10, 0));
        check(text, 7, (4, 10, 4));
        check(text, 15, (12, 19, 11));
        check(text, 20, (16, 20, 15));
    }

    #[test]
    fn marks_and_wide_letters_belong_to_words() {
        let text = "cafe\u{301} 日本!";
        check(text, 0, (0, 6, 0));
        check(text, 6, (0, 13, 0));
        check(text, 14, (7, 14, 7));
        check("👍 👩\u{200d}💻", 16, (0, 16, 5));
    }

    #[test]
    fn token_is_a_word() {
        let text = "a\u{e0200}\u{e0201}b";
        check(text, 1, (0, 5, 0));
        check(text, 5, (1, 9, 0));
        check(text, 9, (5, 10, 0));
    }
}
