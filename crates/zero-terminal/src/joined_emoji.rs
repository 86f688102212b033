//! Emoji that consist of several, joined by a character that is not drawn.
//!
//! Between other letters, that character hides something and is shown as an escape.

use std::borrow::Cow;

use zero_core::sanitize;

/// Joins two emoji to one.
const JOINER: char = '\u{200D}';

/// Prose with each unsafe character shown as an escape; joined emoji stay.
pub fn escape_prose(text: &str) -> Cow<'_, str> {
    if !text.contains(JOINER) {
        return sanitize::escape_prose(text);
    }
    let mut escaped = String::with_capacity(text.len());
    let mut from = 0;
    for (at, joiner) in text.match_indices(JOINER) {
        let after = at + joiner.len();
        let before_it = text.get(..at).and_then(|before| before.chars().next_back());
        let after_it = text.get(after..).and_then(|after| after.chars().next());
        let has_emoji_before = before_it.is_some_and(|c| is_emoji(c) || c == '\u{FE0F}');
        if has_emoji_before && after_it.is_some_and(is_emoji) {
            escaped.push_str(&sanitize::escape_prose(text.get(from..at).unwrap_or_default()));
            escaped.push(JOINER);
            from = after;
        }
    }
    escaped.push_str(&sanitize::escape_prose(text.get(from..).unwrap_or_default()));
    Cow::Owned(escaped)
}

/// Whether a character can be a part of a joined emoji.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{21FF}' | '\u{2600}'..='\u{27BF}' | '\u{2B00}'..='\u{2BFF}')
        || matches!(c, '\u{1F000}'..='\u{1FAFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_emoji_are_joined() {
        for kept in ["👩\u{200D}💻 ok", "🏳\u{FE0F}\u{200D}🌈", "👨🏽\u{200D}⚕\u{FE0F}", "plain"]
        {
            assert_eq!(escape_prose(kept), kept);
        }
        for (text, escaped) in [
            ("rm\u{200D} x", "rm\\u{200d} x"),
            ("👩\u{200D}x", "👩\\u{200d}x"),
            ("\u{200D}💻", "\\u{200d}💻"),
            ("👩\u{200D}💻\u{202E}", "👩\u{200D}💻\\u{202e}"),
            ("👩\u{200D}\u{200D}💻", "👩\\u{200d}\\u{200d}💻"),
        ] {
            assert_eq!(escape_prose(text), escaped);
        }
    }
}
