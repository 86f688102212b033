//! A list that is narrowed by typing, to choose one of many rows.

use std::io;

use super::key::Key;
use super::key_reader::KeyReader;
use super::live_area::{CursorPosition, LiveArea};
use super::text_field::{FieldLines, TextField};
use super::{
    FAINT, STRONG, TerminalStream, WindowSize, escape_line, text_columns, truncate_to_columns,
};

/// Longest text to search for, in characters.
const FILTER_CHARS_MAX: usize = 200;
/// Rows besides those of the list.
const FRAME_ROWS: usize = 4;
const LABEL: &str = "Search:";

/// Rows to choose from.
struct FilterList<'a> {
    rows: &'a [String],
    filter: TextField,
    /// Index among the rows that match.
    cursor: usize,
}

/// Lets the user choose a row; `None` if they do not. The cursor begins at the current
/// choice.
pub fn choose_row(
    stream: &TerminalStream,
    keys: &KeyReader,
    rows: &[String],
    current: Option<usize>,
) -> io::Result<Option<usize>> {
    let filter = TextField::new("", FILTER_CHARS_MAX, FieldLines::One);
    let cursor = current.filter(|current| *current < rows.len()).unwrap_or(0);
    let mut list = FilterList { rows, filter, cursor };
    let mut area = LiveArea::new(stream);
    keys.discard()?;
    let chosen = loop {
        let (painted, cursor) = list.render(stream, stream.window_size());
        area.paint(&painted, Some(cursor))?;
        match keys.next_key()? {
            None | Some(Key::Escape | Key::Ctrl('c' | 'd')) => break None,
            Some(Key::Enter | Key::Ctrl('j')) => {
                if let Some(chosen) = list.matches().get(list.cursor) {
                    break Some(*chosen);
                }
            }
            Some(key) => list.apply_key(key),
        }
    };
    let line = chosen.and_then(|at| rows.get(at)).map_or("(nothing chosen)", String::as_str);
    let columns = stream.window_size().columns;
    area.finish(&truncate_to_columns(&escape_line(line), columns - 1))?;
    Ok(chosen)
}

impl FilterList<'_> {
    /// The rows that contain every word of the filter, whatever its case.
    fn matches(&self) -> Vec<usize> {
        let filter = self.filter.text().to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let fits = |row: &String| {
            let row = row.to_lowercase();
            words.iter().all(|word| row.contains(word))
        };
        let fitting = self.rows.iter().enumerate().filter(|(_, row)| fits(row));
        fitting.map(|(at, _)| at).collect()
    }

    fn apply_key(&mut self, key: Key) {
        let last = self.matches().len().saturating_sub(1);
        match key {
            Key::Up => self.cursor = self.cursor.saturating_sub(1),
            Key::Down => self.cursor = (self.cursor + 1).min(last),
            Key::PageUp => self.cursor = self.cursor.saturating_sub(10),
            Key::PageDown => self.cursor = (self.cursor + 10).min(last),
            key => {
                let before = self.filter.text();
                self.filter.apply_key(key);
                if self.filter.text() != before {
                    self.cursor = 0;
                }
            }
        }
    }

    fn render(&self, stream: &TerminalStream, size: WindowSize) -> (Vec<String>, CursorPosition) {
        let room = size.columns - 1;
        let found = self.matches();
        let rows_max = size.rows.saturating_sub(FRAME_ROWS).max(1);
        let first = (self.cursor + 1).saturating_sub(rows_max);
        let label_columns = text_columns(LABEL) + 1;
        let (lines, cursor) = self.filter.layout(room.saturating_sub(label_columns), 1);
        let typed = lines.first().cloned().unwrap_or_default();
        let mut rows = vec![format!("{} {typed}", stream.paint(STRONG, LABEL))];
        for (at, index) in found.iter().enumerate().skip(first).take(rows_max) {
            let text = self.rows.get(*index).map_or("", String::as_str);
            let mark = if at == self.cursor { "›" } else { " " };
            let line = truncate_to_columns(&format!("{mark} {}", escape_line(text)), room);
            let style = if at == self.cursor { STRONG } else { anstyle::Style::new() };
            rows.push(stream.paint(style, &line).into_owned());
        }
        let count = format!("  {} of {}; Enter: choose; Esc: cancel", found.len(), self.rows.len());
        rows.push(stream.paint(FAINT, &truncate_to_columns(&count, room)).into_owned());
        (rows, CursorPosition { row: 0, column: label_columns + cursor.column })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerSource, Terminal};

    #[test]
    fn typing_narrows_the_list() {
        let rows: Vec<String> = [
            "2 h  brave-otter  Fix the tests",
            "1 d  calm-fox  Write docs",
            "3 d  red-owl  fix CI",
        ]
        .map(str::to_owned)
        .to_vec();
        for (typed, expected) in [
            ("\r", Some(0)),
            ("\x1b[B\r", Some(1)),
            ("fix ci\r", Some(2)),
            ("FIX\x1b[B\r", Some(2)),
            ("nothing\r\x15\r", Some(0)),
            ("\x03", None),
            ("fix", None),
        ] {
            let stream = Terminal::for_test().err.with_columns(80).without_colours();
            let keys = AnswerSource::from_keys(typed).open_keys_for_test();
            assert_eq!(choose_row(&stream, &keys, &rows, None).unwrap(), expected, "{typed:?}");
        }
        for (typed, expected) in [("\r", 2), ("\x1b[A\r", 1), ("docs\r", 1)] {
            let stream = Terminal::for_test().err.with_columns(80).without_colours();
            let keys = AnswerSource::from_keys(typed).open_keys_for_test();
            let chosen = choose_row(&stream, &keys, &rows, Some(2)).unwrap();
            assert_eq!(chosen, Some(expected), "{typed:?}");
        }
    }

    #[test]
    fn list_fits_window() {
        let rows: Vec<String> = (0..500).map(|row| format!("row {row}")).collect();
        let stream = Terminal::for_test().err.with_columns(80).without_colours();
        let filter = TextField::new("", 9, FieldLines::One);
        let list = FilterList { rows: &rows, filter, cursor: 300 };
        let (painted, _) = list.render(&stream, WindowSize { rows: 24, columns: 80 });
        assert_eq!(painted.len(), 22);
        assert!(painted.contains(&"› row 300".to_owned()), "{painted:?}");
    }
}
