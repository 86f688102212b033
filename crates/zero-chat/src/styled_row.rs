//! Rows of text with styles: their width, and how they are cut and wrapped.
//!
//! A row holds escaped text and the sequences that set styles, which take no columns. Nothing here is
//! given untrusted text that was not escaped before.

use std::borrow::Cow;

use zero_core::sanitize::escape_lines;
use zero_terminal::{escape_prose, text_columns};

/// Ends all styles.
const STYLE_RESET: &str = "\x1b[0m";
/// Distance of tab stops.
const TAB_COLUMNS: usize = 8;
/// Smallest room in which text is wrapped.
const ROOM_MIN: usize = 8;

/// A part of a row.
enum RowUnit<'a> {
    /// A sequence that sets a style.
    Style(&'a str),
    Letter(char),
}

/// The parts of a row, in order.
struct RowUnits<'a> {
    rest: &'a str,
}

impl<'a> Iterator for RowUnits<'a> {
    type Item = RowUnit<'a>;

    fn next(&mut self) -> Option<RowUnit<'a>> {
        let letter = self.rest.chars().next()?;
        let style = match letter {
            '\x1b' => self.rest.find('m').and_then(|end| self.rest.get(..=end)),
            _ => None,
        };
        let length = style.map_or(letter.len_utf8(), str::len);
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some(style.map_or(RowUnit::Letter(letter), RowUnit::Style))
    }
}

fn units(row: &str) -> RowUnits<'_> {
    RowUnits { rest: row }
}

/// Most columns that a character takes. The selector of the emoji form makes the character before it
/// wider.
pub(crate) fn letter_columns(letter: char) -> usize {
    match letter {
        '\u{FE0F}' => 1,
        ' '..='~' => 1,
        letter => text_columns(letter.encode_utf8(&mut [0; 4])),
    }
}

/// The letters of a row and where they are in it, without its styles.
pub(crate) fn row_letters(row: &str) -> impl Iterator<Item = (usize, char)> {
    let mut at = 0;
    units(row).filter_map(move |unit| {
        let start = at;
        match unit {
            RowUnit::Style(style) => {
                at += style.len();
                None
            }
            RowUnit::Letter(letter) => {
                at += letter.len_utf8();
                Some((start, letter))
            }
        }
    })
}

/// Columns of a row, without its styles.
pub(crate) fn row_columns(row: &str) -> usize {
    let columns = units(row).map(|unit| match unit {
        RowUnit::Style(_) => 0,
        RowUnit::Letter(letter) => letter_columns(letter),
    });
    columns.sum()
}

/// The text of a row, without its styles.
pub(crate) fn row_text(row: &str) -> Cow<'_, str> {
    if !row.contains('\x1b') {
        return Cow::Borrowed(row);
    }
    let letters = units(row).filter_map(|unit| match unit {
        RowUnit::Style(_) => None,
        RowUnit::Letter(letter) => Some(letter),
    });
    Cow::Owned(letters.collect())
}

/// The beginning of a row that fits into so many columns, with `ellipsis` where it was cut.
pub(crate) fn truncate_row(row: &str, columns: usize, ellipsis: &str) -> String {
    if row_columns(row) <= columns {
        return row.to_owned();
    }
    let ellipsis = if text_columns(ellipsis) <= columns { ellipsis } else { "" };
    let room = columns - text_columns(ellipsis);
    let mut kept = String::new();
    let mut used = 0;
    let mut is_styled = false;
    for unit in units(row) {
        match unit {
            RowUnit::Style(style) => {
                is_styled = style != STYLE_RESET;
                kept.push_str(style);
            }
            RowUnit::Letter(letter) => {
                used += letter_columns(letter);
                if used > room {
                    break;
                }
                kept.push(letter);
            }
        }
    }
    kept.push_str(ellipsis);
    if is_styled {
        kept.push_str(STYLE_RESET);
    }
    kept
}

/// Splits a row into rows of at most `columns` columns. The rows after the first have the same indent
/// and the same styles, so that a part of a line never begins where zero's own marks are.
pub fn wrap_row(row: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(ROOM_MIN);
    if row_columns(row) <= columns {
        return vec![row.to_owned()];
    }
    let indent = row_text(row).chars().take_while(|letter| *letter == ' ').count();
    let indent = " ".repeat(indent.clamp(2, columns / 2));
    let mut rows = Vec::new();
    let (mut current, mut used) = (String::new(), 0);
    // The styles since the last one that ended all.
    let mut active = String::new();
    for unit in units(row) {
        match unit {
            RowUnit::Style(style) => {
                match style {
                    STYLE_RESET => active.clear(),
                    style => active.push_str(style),
                }
                current.push_str(style);
            }
            RowUnit::Letter(letter) => {
                let width = letter_columns(letter);
                if used + width > columns {
                    if !active.is_empty() {
                        current.push_str(STYLE_RESET);
                    }
                    let next = format!("{indent}{active}");
                    rows.push(std::mem::replace(&mut current, next));
                    used = indent.len();
                }
                used += width;
                current.push(letter);
            }
        }
    }
    rows.push(current);
    rows
}

/// A line of untrusted prose or output, safe to show and without tabs.
pub(crate) fn clean_prose(line: &str) -> String {
    expand_tabs(&escape_prose(line.trim_end())).into_owned()
}

/// Like [`clean_prose`], for a line of which each character counts, and for one whose width must be
/// the same on every terminal.
pub(crate) fn clean_exactly(line: &str) -> String {
    expand_tabs(&escape_lines(line.trim_end())).into_owned()
}

/// Replaces tabs by blanks up to the next tab stop: how wide a tab is depends on the terminal, and a
/// row must have a known width.
pub(crate) fn expand_tabs(row: &str) -> Cow<'_, str> {
    if !row.contains('\t') {
        return Cow::Borrowed(row);
    }
    let mut expanded = String::with_capacity(row.len() + TAB_COLUMNS);
    let mut used = 0;
    for unit in units(row) {
        match unit {
            RowUnit::Style(style) => expanded.push_str(style),
            RowUnit::Letter('\t') => {
                let blanks = TAB_COLUMNS - used % TAB_COLUMNS;
                expanded.extend(std::iter::repeat_n(' ', blanks));
                used += blanks;
            }
            RowUnit::Letter(letter) => {
                used += letter_columns(letter);
                expanded.push(letter);
            }
        }
    }
    Cow::Owned(expanded)
}

/// Splits a line of prose without styles at words: the first row has `first` columns, the others
/// `room`. A word that is wider, such as an address, stays whole: broken, it could not be copied.
pub(crate) fn wrap_words(line: &str, first: usize, room: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let (mut row, mut used) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let bare: usize = word.trim_end_matches(' ').chars().map(letter_columns).sum();
        let limit = if rows.is_empty() { first } else { room }.max(ROOM_MIN);
        if used > 0 && bare > 0 && used + bare > limit && !row.trim().is_empty() {
            row.truncate(row.trim_end_matches(' ').len());
            rows.push(std::mem::take(&mut row));
            used = 0;
        }
        row.push_str(word);
        used += word.chars().map(letter_columns).sum::<usize>();
    }
    row.truncate(row.trim_end_matches(' ').len());
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_take_no_columns() {
        let row = "\x1b[1mab\x1b[0m界";
        assert_eq!((row_columns(row), &*row_text(row)), (4, "ab界"));
        assert_eq!(row_columns("\u{26a0}\u{fe0f}"), 2);
    }

    #[test]
    fn truncated_row_ends_its_styles() {
        let row = "\x1b[1mabcd\x1b[0mef";
        assert_eq!(truncate_row(row, 6, "…"), row);
        assert_eq!(truncate_row(row, 5, "…"), "\x1b[1mabcd\x1b[0m…");
        assert_eq!(truncate_row(row, 3, "…"), "\x1b[1mab…\x1b[0m");
        assert_eq!(truncate_row("abcdef", 5, "..."), "ab...");
        assert_eq!(truncate_row("abcdef", 2, "..."), "ab");
        assert_eq!(truncate_row("界界", 3, "…"), "界…");
        assert_eq!(truncate_row("ab", 0, "…"), "");
    }

    #[test]
    fn wrapped_row_keeps_indent_and_styles() {
        let row = "    \x1b[2m0123456789\x1b[0m";
        assert_eq!(wrap_row(row, 10), ["    \x1b[2m012345\x1b[0m", "    \x1b[2m6789\x1b[0m"]);
        assert_eq!(wrap_row("0123456789", 8), ["01234567", "  89"]);
        assert_eq!(wrap_row("", 8), [""]);
    }

    #[test]
    fn tabs_reach_their_stops() {
        assert_eq!(expand_tabs("a\tb\t\x1b[1m\tc"), "a       b       \x1b[1m        c");
        assert_eq!(expand_tabs("ab"), "ab");
    }

    #[test]
    fn untrusted_text_cannot_set_styles() {
        assert_eq!(clean_prose("\x1b[2J\tm \n"), "\\u{1b}[2J       m");
        assert_eq!(clean_prose("\u{26a0}\u{fe0f}"), "\u{26a0}\u{fe0f}");
        assert_eq!(clean_exactly("\u{26a0}\u{fe0f}"), "\u{26a0}\\u{fe0f}");
    }

    #[test]
    fn words_wrap_and_keep_indent_and_long_words() {
        let check = |line: &str, expected: &[&str]| assert_eq!(wrap_words(line, 8, 10), expected);
        check("one two three four", &["one two", "three four"]);
        check("  one two", &["  one", "two"]);
        check("0123456789abc d", &["0123456789abc", "d"]);
        check("", &[""]);
        check("   ", &[""]);
    }
}
