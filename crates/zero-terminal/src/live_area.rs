//! Rows at the end of the output that are painted again in place.

use std::io;

use super::live_row::LiveRow;
use super::{TerminalStream, WindowSize};

pub use super::live_row::CursorPosition;

/// Rows that are replaced by the next ones. A row that does not fit into the window goes on in the next
/// one; if they are more than the window has, those around the cursor are shown: a terminal cannot replace
/// what it has scrolled away. Where a window that became narrower wraps them, they are found again, as far
/// as it is known what the terminal does.
pub struct LiveArea<'a> {
    stream: &'a TerminalStream,
    painted: Option<PaintedRows>,
}

/// What is on the terminal.
struct PaintedRows {
    rows: Vec<LiveRow>,
    /// Counted from the first row of the area.
    cursor: CursorPosition,
    /// Width of the window at that time.
    columns: usize,
}

impl<'a> LiveArea<'a> {
    /// An area below what the stream has shown so far.
    pub fn new(stream: &'a TerminalStream) -> Self {
        Self { stream, painted: None }
    }

    /// Replaces the rows. The cursor is put to `cursor`, or to the end of the last row.
    pub fn paint(&mut self, rows: &[String], cursor: Option<CursorPosition>) -> io::Result<()> {
        if self.stream.appends_only() {
            return self.append(rows);
        }
        let mut text = self.erase_sequence();
        let window = self.stream.true_window_size();
        let (rows, cursor) = fit_rows(rows, cursor, window);
        let written: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        text.push_str(&written.join("\n"));
        let last = rows.len().saturating_sub(1);
        let end = rows.last().map_or(0, |row| row.columns);
        let mut painted = CursorPosition { row: last, column: end };
        if let Some(cursor) = cursor {
            painted = CursorPosition { row: cursor.row.min(last), ..cursor };
            if painted.row < last {
                text.push_str(&format!("\x1b[{}A", last - painted.row));
            }
            text.push('\r');
            if cursor.column > 0 {
                text.push_str(&format!("\x1b[{}C", cursor.column));
            }
        }
        self.painted = Some(PaintedRows { rows, cursor: painted, columns: window.columns });
        self.stream.write(&text)
    }

    /// Removes the rows and writes what stays, with a line end.
    pub fn finish(mut self, line: &str) -> io::Result<()> {
        if self.stream.appends_only() {
            self.append(&[line.to_owned()])?;
            return self.stream.write("\n");
        }
        let text = self.erase_sequence();
        self.stream.write(&format!("{text}{line}\n"))
    }

    /// Writes what is new below what was written: the rest of the last row, or the rows that changed.
    fn append(&mut self, rows: &[String]) -> io::Result<()> {
        let rows: Vec<LiveRow> =
            rows.iter().map(|row| LiveRow { text: row.clone(), columns: 0 }).collect();
        let before = self.painted.take().map(|painted| painted.rows).unwrap_or_default();
        let new: Vec<&LiveRow> = rows.iter().filter(|row| !before.contains(row)).collect();
        let text = match (before.last(), rows.last()) {
            (Some(old), Some(last)) if last != old => {
                let others = new.iter().filter(|row| **row != last);
                match last.text.strip_prefix(old.text.as_str()) {
                    Some(rest) if others.clone().next().is_none() => rest.to_owned(),
                    _ => others.chain([&last]).map(|row| format!("\n{}", row.text)).collect(),
                }
            }
            (Some(_), Some(last)) if !new.is_empty() => {
                new.iter().chain([&last]).map(|row| format!("\n{}", row.text)).collect()
            }
            (Some(_), _) => String::new(),
            (None, _) => rows.iter().map(|row| row.text.as_str()).collect::<Vec<_>>().join("\n"),
        };
        let cursor = CursorPosition { row: 0, column: 0 };
        self.painted = Some(PaintedRows { rows, cursor, columns: 0 });
        self.stream.write(&text)
    }

    fn erase_sequence(&mut self) -> String {
        let Some(PaintedRows { rows, cursor, columns }) = self.painted.take() else {
            return String::new();
        };
        let present = self.stream.true_window_size().columns;
        let above = match present == columns {
            true => cursor.row,
            false => self.stream.reflow().rows_above_cursor(&rows, cursor, present),
        };
        match above {
            0 => "\r\x1b[J".to_owned(),
            above => format!("\x1b[{above}A\r\x1b[J"),
        }
    }
}

/// The rows as the window can show them, and where the cursor is among them.
fn fit_rows(
    rows: &[String],
    cursor: Option<CursorPosition>,
    window: WindowSize,
) -> (Vec<LiveRow>, Option<CursorPosition>) {
    let columns = window.columns.max(1);
    let (mut fitted, mut at): (Vec<LiveRow>, _) = (Vec::new(), None);
    for (index, row) in rows.iter().enumerate() {
        let parts = LiveRow::divide(row, columns);
        if let Some(cursor) = cursor.filter(|cursor| cursor.row == index) {
            let below = (cursor.column / columns).min(parts.len() - 1);
            let column = (cursor.column - below * columns).min(columns - 1);
            at = Some(CursorPosition { row: fitted.len() + below, column });
        }
        fitted.extend(parts);
    }
    let rows_max = window.rows.max(1);
    if let Some(too_many) = fitted.len().checked_sub(rows_max).filter(|count| *count > 0) {
        let first = at.map_or(too_many, |at| at.row.min(too_many));
        fitted.drain(..first);
        fitted.truncate(rows_max);
        at = at.map(|at| CursorPosition { row: at.row - first, ..at });
    }
    (fitted, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Terminal;

    /// What a window shows after some output, its rows that are empty at the end left out.
    fn screen_of(written: &str, columns: usize, rows: u16) -> String {
        let mut terminal = vt100::Parser::new(rows, u16::try_from(columns).unwrap(), 1_000);
        // As the line discipline does.
        terminal.process(written.replace('\n', "\r\n").as_bytes());
        terminal.screen().contents().trim_end().to_owned()
    }

    #[test]
    fn rows_that_are_too_wide_are_replaced_whole() {
        for columns in 20..=80 {
            let stream = Terminal::for_test().err.with_columns(columns);
            stream.write("above\n").unwrap();
            let mut area = LiveArea::new(&stream);
            let rows = |mark: &str| {
                let note = format!("{mark}? (a new question; the one before was withdrawn, 界界) ");
                vec![format!("{mark} {}", "long ".repeat(15)), "short".to_owned(), note]
            };
            for mark in ["one", "two", "three"] {
                area.paint(&rows(mark), None).unwrap();
            }
            let all = screen_of(&stream.written_text(), columns, 24).replace(['\n', ' '], "");
            let long = format!("three{}", "long".repeat(15));
            let note = "three?(anewquestion;theonebeforewaswithdrawn,界界)";
            assert_eq!(all, format!("above{long}short{note}"), "{columns}");
            area.finish("end").unwrap();
            assert_eq!(screen_of(&stream.written_text(), columns, 24), "above\nend", "{columns}");
        }
    }

    #[test]
    fn nothing_is_painted_again_where_output_is_only_appended() {
        let stream = Terminal::for_test().err.with_columns(80);
        stream.set_appends_only();
        let mut area = LiveArea::new(&stream);
        let rows = |rows: &[&str]| rows.iter().map(|row| (*row).to_owned()).collect::<Vec<_>>();
        area.paint(&rows(&["y yes", "n no", "Allow? "]), None).unwrap();
        area.paint(&rows(&["y yes", "n no", "Allow? "]), None).unwrap();
        area.paint(&rows(&["y yes", "n no", "(what?)", "Allow? "]), None).unwrap();
        area.paint(&rows(&["Enter: done", "Why? "]), None).unwrap();
        area.paint(&rows(&["Enter: done", "Why? a"]), None).unwrap();
        area.paint(&rows(&["Enter: done", "Why? ab"]), None).unwrap();
        area.paint(&rows(&["Enter: done", "Why? a"]), None).unwrap();
        area.paint(&rows(&["y yes", "n no", "Allow? "]), None).unwrap();
        area.finish("Allow? no").unwrap();
        assert_eq!(
            stream.written_text(),
            "y yes\nn no\nAllow? \n(what?)\nAllow? \nEnter: done\nWhy? ab\nWhy? a\ny yes\nn no\nAllow? no\n"
        );
    }

    #[test]
    fn area_is_never_higher_than_the_window() {
        let window = WindowSize { rows: 4, columns: 20 };
        let rows: Vec<String> = (0..9).map(|row| format!("row {row}")).collect();
        let shown = |cursor: Option<usize>| {
            let cursor = cursor.map(|row| CursorPosition { row, column: 2 });
            let (fitted, at) = fit_rows(&rows, cursor, window);
            let texts: Vec<String> = fitted.into_iter().map(|row| row.text).collect();
            (texts.join(" "), at.map(|at| at.row))
        };
        assert_eq!(shown(None), ("row 5 row 6 row 7 row 8".to_owned(), None));
        assert_eq!(shown(Some(0)), ("row 0 row 1 row 2 row 3".to_owned(), Some(0)));
        assert_eq!(shown(Some(3)), ("row 3 row 4 row 5 row 6".to_owned(), Some(0)));
        assert_eq!(shown(Some(8)), ("row 5 row 6 row 7 row 8".to_owned(), Some(3)));
    }

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
