//! Columns that text takes on a terminal, and rows of text that fit into them.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Distance of tab stops.
const TAB_COLUMNS: usize = 8;

/// Columns of a text without control characters.
pub fn text_columns(text: &str) -> usize {
    text.width()
}

/// Columns of a character; a tab has its largest width.
pub fn char_columns(letter: char) -> usize {
    match letter {
        '\t' => TAB_COLUMNS,
        letter => letter.width().unwrap_or(0),
    }
}

/// The beginning of a line that fits into so many columns, with `…` where it was cut.
pub fn truncate_to_columns(line: &str, columns: usize) -> String {
    if text_columns(line) <= columns {
        return line.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for letter in line.chars() {
        used += char_columns(letter);
        if used > columns {
            break;
        }
        kept.push(letter);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(text_columns("aü界"), 4);
        for (columns, expected) in
            [(0, ""), (1, "…"), (2, "a…"), (3, "aü…"), (4, "aü界"), (9, "aü界")]
        {
            assert_eq!(truncate_to_columns("aü界", columns), expected, "{columns}");
        }
        assert_eq!(truncate_to_columns("界界界", 4), "界…");
    }
}
