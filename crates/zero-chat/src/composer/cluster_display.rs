//! What is shown for one grapheme cluster: text that takes the same columns on every terminal.
//!
//! Terminals disagree on emoji that are joined or modified, and a wrong guess puts the cursor into the wrong
//! column. So the parts of a joined emoji are shown side by side, and selectors and skin tones are left out.
//! Whatever else is invisible is shown as an escape.

use std::borrow::Cow;

use zero_core::sanitize::{escape_line, is_safe_char};
use zero_terminal::char_columns;

use super::folded_paste::{PasteTable, is_token};

/// Distance of tab stops.
const TAB_COLUMNS: usize = 4;
/// Most columns of a cluster: enough for every escape and for the emoji of a family.
const CLUSTER_COLUMNS_MAX: usize = 12;
/// Most characters of a cluster that are shown, since any number of marks can stand on a letter.
const CLUSTER_CHARS_MAX: usize = 16;

/// The text to show, and its columns.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ClusterDisplay<'a> {
    /// The text, escaped.
    pub(super) text: Cow<'a, str>,
    /// Columns that it takes, at least 1.
    pub(super) columns: usize,
}

/// Shows a cluster that begins in column `used` of a row, within at most `columns_max` columns.
pub(super) fn display_cluster<'a>(
    cluster: &'a str,
    used: usize,
    columns_max: usize,
    pastes: &'a PasteTable,
) -> ClusterDisplay<'a> {
    let Some(first) = cluster.chars().next() else {
        return ClusterDisplay { text: Cow::Borrowed(""), columns: 0 };
    };
    if cluster.len() == 1 && (first.is_ascii_graphic() || first == ' ') {
        return measure(Cow::Borrowed(cluster), columns_max);
    }
    if first == '\t' {
        let columns = TAB_COLUMNS - used % TAB_COLUMNS;
        return ClusterDisplay { text: Cow::Owned(" ".repeat(columns)), columns };
    }
    if let Some(label) =
        Some(first).filter(|first| is_token(*first)).and_then(|token| pastes.label(token))
    {
        return measure(Cow::Borrowed(label), columns_max);
    }
    let text = if is_plain(cluster) { Cow::Borrowed(cluster) } else { show_unusual(cluster) };
    measure(text, columns_max.min(CLUSTER_COLUMNS_MAX))
}

/// Whether a cluster can be shown as it is.
fn is_plain(cluster: &str) -> bool {
    let is_shown = |letter: char| is_safe_char(letter) && !is_skin_tone(letter);
    cluster.chars().all(is_shown)
        && sum_columns(cluster) > 0
        && cluster.chars().count() <= CLUSTER_CHARS_MAX
}

fn show_unusual(cluster: &str) -> Cow<'_, str> {
    let is_joined = cluster.chars().next().is_some_and(|first| {
        !first.is_ascii()
            && !first.is_whitespace()
            && is_safe_char(first)
            && char_columns(first) > 0
    });
    let is_left_out = |at: usize, letter: char| {
        let is_invisible = matches!(letter, '\u{200D}' | '\u{FE0E}' | '\u{FE0F}');
        at > 0 && is_joined && (is_invisible || is_skin_tone(letter))
    };
    let mut shown = String::new();
    let letters = cluster.chars().enumerate().filter(|(at, letter)| !is_left_out(*at, *letter));
    for (_, letter) in letters.take(CLUSTER_CHARS_MAX) {
        shown.push_str(&escape_line(letter.encode_utf8(&mut [0; 4])));
    }
    // A mark without a letter would be drawn on whatever is before it.
    if sum_columns(&shown) == 0 {
        shown.insert(0, '\u{25CC}');
    }
    Cow::Owned(shown)
}

fn is_skin_tone(letter: char) -> bool {
    ('\u{1F3FB}'..='\u{1F3FF}').contains(&letter)
}

fn sum_columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

fn measure(text: Cow<'_, str>, columns_max: usize) -> ClusterDisplay<'_> {
    let columns = sum_columns(&text);
    if columns <= columns_max {
        return ClusterDisplay { text, columns };
    }
    // Measured by characters, unlike a string: that is never less, however terminals join them.
    let (mut kept, mut columns) = (String::new(), 1);
    for letter in text.chars() {
        columns += char_columns(letter);
        if columns > columns_max {
            columns -= char_columns(letter);
            break;
        }
        kept.push(letter);
    }
    kept.push('…');
    ClusterDisplay { text: Cow::Owned(kept), columns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cluster: &str, shown: &str, columns: usize) {
        let pastes = PasteTable::default();
        let display = display_cluster(cluster, 1, 40, &pastes);
        assert_eq!((display.text.as_ref(), display.columns), (shown, columns), "{cluster:?}");
    }

    #[test]
    fn cluster_takes_same_columns_everywhere() {
        check("a", "a", 1);
        check("界", "界", 2);
        check("e\u{301}", "e\u{301}", 1);
        check("\t", "   ", 3);
        check("👩\u{200d}💻", "👩💻", 4);
        check("👨\u{200d}👩\u{200d}👧\u{200d}👦", "👨👩👧👦", 8);
        check("👍🏽", "👍", 2);
        check("⚠\u{fe0f}", "⚠", 1);
        check("🇩🇪", "🇩🇪", 2);
    }

    #[test]
    fn invisible_cluster_is_escaped() {
        check("\x1b", "\\u{1b}", 6);
        check("\r", "\\r", 2);
        check("\u{202e}", "\\u{202e}", 8);
        check("\u{200d}", "\\u{200d}", 8);
        check("a\u{200d}", "a\\u{200d}", 9);
        check(" \u{200d}", " \\u{200d}", 9);
        check("\u{e0041}", "\\u{e0041}", 9);
        check("\u{301}", "\u{25cc}\u{301}", 1);
        check("🏽", "🏽", 2);
    }

    #[test]
    fn long_cluster_is_bounded() {
        let pastes = PasteTable::default();
        for cluster in
            [format!("a{}", "\u{301}".repeat(9_999)), "👩\u{200d}".repeat(9_999), "ᄀ".repeat(99)]
        {
            let display = display_cluster(&cluster, 0, 7, &pastes);
            assert!(display.columns <= 7 && display.text.chars().count() <= 17, "{display:?}");
        }
    }
}
