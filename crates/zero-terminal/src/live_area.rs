//! Rows at the end of the output that are painted again in place.

use std::io;

use super::TerminalStream;

/// Rows that are replaced by the next ones. They must fit into the window, in both directions: a
/// terminal that wraps or scrolls them cannot be told to replace them.
pub struct LiveArea<'a> {
    stream: &'a TerminalStream,
    /// Row of the cursor, counted from the first row of the area; `None` if nothing is painted.
    cursor_row: Option<usize>,
}

/// A position in an area, counted from its first row and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorPosition {
    /// The row.
    pub row: usize,
    /// The column.
    pub column: usize,
}

impl<'a> LiveArea<'a> {
    /// An area below what the stream has shown so far.
    pub fn new(stream: &'a TerminalStream) -> Self {
        Self { stream, cursor_row: None }
    }

    /// Replaces the rows. The cursor is put to `cursor`, or to the end of the last row.
    pub fn paint(&mut self, rows: &[String], cursor: Option<CursorPosition>) -> io::Result<()> {
        let mut text = self.erase_sequence();
        text.push_str(&rows.join("\n"));
        let last = rows.len().saturating_sub(1);
        let mut row = last;
        if let Some(cursor) = cursor {
            row = cursor.row.min(last);
            if row < last {
                text.push_str(&format!("\x1b[{}A", last - row));
            }
            text.push('\r');
            if cursor.column > 0 {
                text.push_str(&format!("\x1b[{}C", cursor.column));
            }
        }
        self.cursor_row = Some(row);
        self.stream.write(&text)
    }

    /// Removes the rows and writes what stays, with a line end.
    pub fn finish(mut self, line: &str) -> io::Result<()> {
        let text = self.erase_sequence();
        self.stream.write(&format!("{text}{line}\n"))
    }

    fn erase_sequence(&mut self) -> String {
        match self.cursor_row.take() {
            Some(0) => "\r\x1b[J".to_owned(),
            Some(row) => format!("\x1b[{row}A\r\x1b[J"),
            None => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Terminal;

    #[test]
    fn area_replaces_exactly_its_rows() {
        let stream = Terminal::for_test().err.with_columns(80);
        let mut area = LiveArea::new(&stream);
        let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        area.paint(&rows(&["a", "b", "c"]), None).unwrap();
        area.paint(&rows(&["d", "e"]), Some(CursorPosition { row: 0, column: 1 })).unwrap();
        area.paint(&rows(&["f"]), None).unwrap();
        area.finish("end").unwrap();
        assert_eq!(
            stream.written_text(),
            "a\nb\nc\x1b[2A\r\x1b[Jd\ne\x1b[1A\r\x1b[1C\r\x1b[Jf\r\x1b[Jend\n"
        );
    }
}
