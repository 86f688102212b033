//! Tables with aligned columns, truncated at the width of the terminal.

use anstyle::Style;
use zero_core::text_shortening::shorten_to_fit;

use super::{STRONG, TerminalStream, escape_line};

/// Spaces between two columns.
const COLUMN_GAP: usize = 2;

/// One table cell. Its text is escaped and stays on one line.
#[derive(Clone, Debug)]
pub(crate) struct TableCell {
    text: String,
    style: Style,
}

impl TableCell {
    /// Cell with a style.
    pub(crate) fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: escape_line(text.as_ref()).into_owned(), style }
    }
}

impl<T: AsRef<str>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Table with a heading row.
#[derive(Clone, Debug)]
pub(crate) struct TextTable {
    rows: Vec<Vec<TableCell>>,
}

impl TextTable {
    /// Creates a table without rows.
    pub(crate) fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(|heading| TableCell::styled(heading, STRONG)).into()] }
    }

    /// Adds a row; it must have one cell per heading.
    pub(crate) fn add_row<const N: usize>(&mut self, cells: [TableCell; N]) {
        debug_assert_eq!(N, self.rows[0].len(), "a row has one cell per heading");
        self.rows.push(cells.into());
    }

    /// Renders the table for a stream; on a terminal, no line is wider than the terminal.
    pub(crate) fn render(&self, stream: &TerminalStream) -> String {
        let widths = self.column_widths();
        let mut text = String::new();
        for row in &self.rows {
            let mut left = stream.columns.unwrap_or(usize::MAX);
            let last = row.iter().rposition(|cell| !cell.text.is_empty()).unwrap_or(0);
            for (column, cell) in row.iter().enumerate().take(last + 1) {
                let shown = shorten_to_fit(&cell.text, left);
                let used = shown.chars().count();
                text.push_str(&stream.paint(cell.style, &shown));
                left = left.saturating_sub(used);
                if column < last {
                    let pad = (widths[column] + COLUMN_GAP).saturating_sub(used).min(left);
                    text.extend(std::iter::repeat_n(' ', pad));
                    left -= pad;
                }
            }
            text.push('\n');
        }
        text
    }

    fn column_widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.rows[0].len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Terminal;

    #[test]
    fn columns_are_aligned_and_cut_at_window_edge() {
        let mut table = TextTable::new(["NAME", "ABOUT"]);
        table.add_row(["Read".into(), "reads a\nfile of any size".into()]);
        table.add_row(["ReadMany".into(), "reads".into()]);
        table.add_row(["x".into(), "".into()]);
        let stream = Terminal::for_test().out;
        assert_eq!(
            table.render(&stream),
            "NAME      ABOUT\nRead      reads a\\nfile of any size\nReadMany  reads\nx\n"
        );
        let shown = table.render(&stream.with_columns(16));
        assert!(shown.contains("Read      reads…\n"), "{shown}");
        assert!(shown.starts_with("\x1b[1mNAME\x1b[0m"), "{shown}");
    }
}
