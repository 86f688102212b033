//! A row of the live area, cut to the window.

use crate::text_width::text_columns;

/// A position in an area, counted from its first row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorPosition {
    /// The row.
    pub row: usize,
    /// The column.
    pub column: usize,
}

/// A row as it is written: text and SGR sequences, nothing that moves the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRow {
    /// What is written. It ends without a style.
    pub text: String,
    /// Columns that it takes.
    pub columns: usize,
}

/// What is done to the row that contains the cursor.
#[derive(Clone, Copy, Debug)]
pub enum RowCursor {
    /// The cursor is in another row.
    Elsewhere,
    /// The terminal's cursor will be in this column. There is a character in it, a space if need be: a
    /// terminal that rewraps the row then knows where the cursor belongs.
    Real(usize),
    /// The cursor is drawn in this column.
    Drawn(usize),
}

const REVERSE_ON: &str = "\x1b[7m";
const REVERSE_OFF: &str = "\x1b[27m";
const RESET: &str = "\x1b[0m";
/// A space that a terminal keeps, also at the end of a row: it has a style, which is invisible.
const KEPT_SPACE: &str = "\x1b[2m \x1b[0m";
const REVERSE_SPACE: &str = "\x1b[7m \x1b[0m";

impl LiveRow {
    /// Cuts the row so that the window's last column stays free, except for a cursor. Spaces without a
    /// style at the end of a row are removed: only some terminals count them as part of the row.
    pub fn new(source: &str, window_columns: usize, cursor: RowCursor) -> Self {
        let last_column = window_columns.saturating_sub(1);
        let (cursor, is_drawn) = match cursor {
            RowCursor::Elsewhere => (None, false),
            RowCursor::Real(column) => (Some(column.min(last_column)), false),
            RowCursor::Drawn(column) => (Some(column.min(last_column)), true),
        };
        let mut row = Self { text: String::with_capacity(source.len()), columns: 0 };
        let (mut is_styled, mut is_reversed, mut is_cursor_passed) = (false, false, false);
        // Bytes, columns and style up to the last character that is not such a space.
        let mut kept = (0, 0, false);
        for piece in pieces(source) {
            let (letter, width) = match piece {
                RowPiece::Style(style) => {
                    row.text.push_str(style);
                    is_styled = !matches!(style, "\x1b[m" | RESET);
                    continue;
                }
                RowPiece::Letter { letter, width } => (letter, width),
            };
            if row.columns + width > last_column {
                break;
            }
            if width > 0 && is_reversed {
                row.text.push_str(REVERSE_OFF);
                is_reversed = false;
            }
            let holds_cursor = cursor.is_some_and(|cursor| cursor < row.columns + width);
            if holds_cursor && !is_cursor_passed && width > 0 {
                is_cursor_passed = true;
                if is_drawn {
                    row.text.push_str(REVERSE_ON);
                    is_reversed = true;
                }
            }
            row.text.push(letter);
            row.columns += width;
            if letter != ' ' || is_styled || is_reversed {
                kept = (row.text.len(), row.columns, is_styled || is_reversed);
            }
        }
        row.text.truncate(kept.0);
        row.columns = kept.1;
        if kept.2 {
            row.text.push_str(RESET);
        }
        if let Some(column) = cursor.filter(|column| *column >= row.columns) {
            row.text.extend(std::iter::repeat_n(' ', column - row.columns));
            row.text.push_str(if is_drawn { REVERSE_SPACE } else { KEPT_SPACE });
            row.columns = column + 1;
        }
        row
    }

    /// Divides what is written into rows that fit into a window, so that the terminal wraps none of
    /// them itself. Each has its styles.
    pub(crate) fn divide(source: &str, window_columns: usize) -> Vec<Self> {
        let mut rows = vec![Self { text: String::new(), columns: 0 }];
        let mut styles = String::new();
        for piece in pieces(source) {
            let Some(row) = rows.last_mut() else { break };
            match piece {
                RowPiece::Style(style) => {
                    row.text.push_str(style);
                    match style {
                        "\x1b[m" | RESET => styles.clear(),
                        style => styles.push_str(style),
                    }
                }
                RowPiece::Letter { letter, width } if row.columns + width <= window_columns => {
                    row.text.push(letter);
                    row.columns += width;
                }
                RowPiece::Letter { letter, width } => {
                    if !styles.is_empty() {
                        row.text.push_str(RESET);
                    }
                    rows.push(Self { text: format!("{styles}{letter}"), columns: width });
                }
            }
        }
        rows
    }

    /// Rows that it takes in a window of another width, on a terminal that rewraps it.
    pub fn wrapped_rows(&self, window_columns: usize) -> usize {
        self.wrapped_row_of(usize::MAX, window_columns) + 1
    }

    /// In which of those rows the character in a column is.
    pub fn wrapped_row_of(&self, column: usize, window_columns: usize) -> usize {
        let (mut row, mut used, mut passed) = (0, 0, 0);
        for piece in pieces(&self.text) {
            let RowPiece::Letter { width, .. } = piece else { continue };
            // A wide character is not divided.
            if used + width > window_columns && used > 0 {
                (row, used) = (row + 1, 0);
            }
            (used, passed) = (used + width, passed + width);
            if column < passed {
                break;
            }
        }
        row
    }
}

enum RowPiece<'a> {
    /// An SGR sequence.
    Style(&'a str),
    /// A character, and the columns that it adds.
    Letter { letter: char, width: usize },
}

/// Divides a row. Control characters and other sequences are left out: they could move the cursor.
fn pieces(source: &str) -> impl Iterator<Item = RowPiece<'_>> {
    let mut rest = source;
    std::iter::from_fn(move || {
        loop {
            let letter = rest.chars().next()?;
            if let Some(parameters) = rest.strip_prefix("\x1b[") {
                let end = parameters.find(|c: char| ('\x40'..='\x7e').contains(&c));
                let end = end.map_or(rest.len(), |end| end + 3);
                let (sequence, after) = rest.split_at(end);
                rest = after;
                if sequence.ends_with('m') {
                    return Some(RowPiece::Style(sequence));
                }
                continue;
            }
            rest = rest.get(letter.len_utf8()..).unwrap_or_default();
            match letter {
                '\t' => return Some(RowPiece::Letter { letter: ' ', width: 1 }),
                letter if letter.is_control() => {}
                // It makes the character before it wide, on terminals that know it.
                '\u{fe0f}' => return Some(RowPiece::Letter { letter, width: 1 }),
                letter => {
                    let width = text_columns(letter.encode_utf8(&mut [0; 4]));
                    return Some(RowPiece::Letter { letter, width });
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, columns: usize, cursor: RowCursor, text: &str, used: usize) {
        let row = LiveRow::new(source, columns, cursor);
        assert_eq!((row.text.as_str(), row.columns), (text, used), "{source:?} in {columns}");
    }

    #[test]
    fn row_is_cut_before_last_column() {
        use RowCursor::*;
        check("abcdef", 7, Elsewhere, "abcdef", 6);
        check("abcdef", 6, Elsewhere, "abcde", 5);
        check("a界界", 5, Elsewhere, "a界", 3);
        check("\x1b[1mab\x1b[31mcdef", 5, Elsewhere, "\x1b[1mab\x1b[31mcd\x1b[0m", 4);
        check("\x1b[1mab\x1b[0mcdef", 5, Elsewhere, "\x1b[1mab\x1b[0mcd", 4);
        check("a\nb\tc\x1b[2Jd\x07\x1b[5", 20, Elsewhere, "ab cd", 5);
        check("\x1b[1mab\x1b[0m  ", 10, Elsewhere, "\x1b[1mab\x1b[0m", 2);
        check("\x1b[41mab \x1b[0m  ", 10, Elsewhere, "\x1b[41mab \x1b[0m", 3);
        check("\x1b[1m\x1b[0m   ", 10, Elsewhere, "", 0);
        check("abc", 1, Elsewhere, "", 0);
        check("abc", 0, Elsewhere, "", 0);
    }

    #[test]
    fn rows_are_divided_with_their_styles() {
        #[track_caller]
        fn check(source: &str, columns: usize, expected: &[(&str, usize)]) {
            let rows = LiveRow::divide(source, columns);
            let rows: Vec<(&str, usize)> =
                rows.iter().map(|row| (row.text.as_str(), row.columns)).collect();
            assert_eq!(rows, expected, "{source:?} in {columns}");
        }
        check("", 4, &[("", 0)]);
        check("abcd", 4, &[("abcd", 4)]);
        check("abcde ", 4, &[("abcd", 4), ("e ", 2)]);
        check("a界界", 4, &[("a界", 3), ("界", 2)]);
        let divided = [("\x1b[1mab\x1b[0m", 2), ("\x1b[1mc\x1b[0md", 2)];
        check("\x1b[1mabc\x1b[0md", 2, &divided);
    }

    #[test]
    fn cursor_has_cell() {
        use RowCursor::*;
        check("abc", 10, Real(1), "abc", 3);
        check("abc", 10, Real(3), "abc\x1b[2m \x1b[0m", 4);
        check("", 10, Real(2), "  \x1b[2m \x1b[0m", 3);
        check("abc", 4, Real(9), "abc\x1b[2m \x1b[0m", 4);
        check("abc", 10, Drawn(1), "a\x1b[7mb\x1b[27mc", 3);
        check("a界c", 10, Drawn(2), "a\x1b[7m界\x1b[27mc", 4);
        check("ae\u{301}c", 10, Drawn(1), "a\x1b[7me\u{301}\x1b[27mc", 3);
        check("abc", 10, Drawn(4), "abc \x1b[7m \x1b[0m", 5);
        check("\x1b[1mab", 10, Drawn(1), "\x1b[1ma\x1b[7mb\x1b[0m", 2);
        check("a  ", 10, Drawn(1), "a\x1b[7m \x1b[0m", 2);
    }

    #[test]
    fn wrapped_rows_follow_wide_characters() {
        let row = LiveRow::new("\x1b[1mabcdefghi\x1b[0m", 80, RowCursor::Elsewhere);
        for (columns, rows) in [(80, 1), (9, 1), (8, 2), (5, 2), (4, 3), (3, 3), (2, 5)] {
            assert_eq!(row.wrapped_rows(columns), rows, "{columns}");
        }
        assert_eq!(row.wrapped_row_of(0, 4), 0);
        assert_eq!(row.wrapped_row_of(4, 4), 1);
        assert_eq!(row.wrapped_row_of(8, 4), 2);
        let row = LiveRow::new("界界界界", 80, RowCursor::Elsewhere);
        assert_eq!([row.wrapped_rows(8), row.wrapped_rows(5), row.wrapped_rows(3)], [1, 2, 4]);
        assert_eq!(LiveRow::new("", 80, RowCursor::Elsewhere).wrapped_rows(3), 1);
    }
}
