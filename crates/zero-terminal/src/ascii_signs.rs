//! Signs in ASCII, for terminals whose locale has no others.

use std::borrow::Cow;

/// The text with each sign that zero uses, and some that models like, replaced by one of ASCII that is as
/// wide. Letters stay: nothing in ASCII stands for them.
pub(crate) fn replace_signs(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|letter| ascii_sign(letter).is_some()) {
        return Cow::Borrowed(text);
    }
    text.chars().map(|letter| ascii_sign(letter).unwrap_or(letter)).collect::<String>().into()
}

fn ascii_sign(letter: char) -> Option<char> {
    Some(match letter {
        '─' | '━' | '–' | '—' | '‐' | '‑' => '-',
        '│' | '┃' | '┆' => '|',
        '└' | '├' | '┌' | '┐' | '┘' | '┤' | '┬' | '┴' | '┼' | '╭' | '╮' | '╯' | '╰' => {
            '+'
        }
        '›' | '▸' | '↪' | '→' => '>',
        '‹' | '←' => '<',
        '●' | '•' | '✻' => '*',
        '◦' | '○' | '☐' => 'o',
        '⊘' | '✗' | '☑' => 'x',
        '✓' => 'v',
        '■' | '█' | '▌' => '#',
        '…' => '~',
        '·' => '.',
        '‘' | '’' => '\'',
        '“' | '”' => '"',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text_columns;

    #[test]
    fn signs_are_replaced_and_letters_stay() {
        assert_eq!(replace_signs("● a · b › c…"), "* a . b > c~");
        assert_eq!(replace_signs("│ ü 界 ─┆ “x”"), "| ü 界 -| \"x\"");
        assert!(matches!(replace_signs("plain ü"), Cow::Borrowed(_)));
    }

    #[test]
    fn sign_is_as_wide_as_before() {
        let signs = ('\u{80}'..'\u{3000}').filter(|letter| ascii_sign(*letter).is_some());
        for sign in signs {
            assert_eq!(text_columns(&sign.to_string()), 1, "{sign}");
        }
    }
}
