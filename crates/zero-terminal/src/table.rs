//! Tables with aligned columns that fit the width of the terminal.
//!
//! If a table is too wide, its widest columns become narrower and their texts are wrapped. If that is
//! not enough, the columns that do not fit follow in a table of their own, with the first column
//! repeated, so that every column stays visible. Ids and keys, which the user
//! copies, are never broken.

use anstyle::Style;

use super::{STRONG, TerminalStream, escape_line};

/// Spaces between two columns.
const COLUMN_GAP: usize = 2;
/// A column is not made narrower than this, in characters, unless its text is shorter.
const COLUMN_CHARS_MIN: usize = 8;
/// Most lines of one cell; the last one then ends in an ellipsis.
const CELL_LINES_MAX: usize = 6;

/// One table cell. Its text is escaped, and wrapped only if the table is too wide.
#[derive(Clone, Debug)]
pub struct TableCell {
    text: String,
    style: Style,
    /// Whether it is never wrapped.
    is_whole: bool,
}

impl TableCell {
    /// Cell that is never wrapped, such as an id that the user copies.
    pub fn whole(text: impl AsRef<str>) -> Self {
        Self { is_whole: true, ..Self::from(text) }
    }

    /// Cell with a style.
    pub fn styled(text: impl AsRef<str>, style: Style) -> Self {
        Self { text: escape_line(text.as_ref()).into_owned(), style, is_whole: false }
    }
}

impl<T: AsRef<str>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self::styled(text, Style::new())
    }
}

/// Table with a heading row.
#[derive(Clone, Debug)]
pub struct TextTable {
    rows: Vec<Vec<TableCell>>,
}

impl TextTable {
    /// Creates a table without rows.
    pub fn new<const N: usize>(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(|heading| TableCell::styled(heading, STRONG)).into()] }
    }

    /// Adds a row; it must have one cell per heading.
    pub fn add_row<const N: usize>(&mut self, cells: [TableCell; N]) {
        debug_assert_eq!(N, self.rows[0].len(), "a row has one cell per heading");
        self.rows.push(cells.into());
    }

    /// Renders the table for a stream; on a terminal, no line is wider than the terminal.
    pub fn render(&self, stream: &TerminalStream) -> String {
        let natural = self.column_widths();
        let Some(columns) = stream.columns else {
            let all: Vec<usize> = (0..natural.len()).collect();
            return self.render_columns(stream, &all, &natural);
        };
        let groups = split_columns(&natural, &self.narrowest_widths(&natural), columns);
        let tables: Vec<String> = groups
            .iter()
            .map(|(group, widths)| self.render_columns(stream, group, widths))
            .collect();
        tables.join("\n")
    }

    /// Renders some of the columns. If they are too wide because the first one is whole, it has lines
    /// of its own, which a terminal wraps without breaking what the user copies.
    fn render_columns(&self, stream: &TerminalStream, group: &[usize], widths: &[usize]) -> String {
        let mut text = String::new();
        let total = widths.iter().sum::<usize>() + widths.len().saturating_sub(1) * COLUMN_GAP;
        let is_whole = |row: &Vec<TableCell>| row.first().is_some_and(|cell| cell.is_whole);
        let is_stacked =
            stream.columns.is_some_and(|columns| total > columns) && self.rows.iter().any(is_whole);
        for row in &self.rows {
            let mut row: Vec<&TableCell> =
                group.iter().filter_map(|column| row.get(*column)).collect();
            let mut widths = widths;
            if is_stacked && let ([first, rest @ ..], [_, rest_widths @ ..]) = (&row[..], widths) {
                text.push_str(&stream.paint(first.style, &first.text));
                text.push('\n');
                (row, widths) = (rest.to_vec(), rest_widths);
            }
            let cells: Vec<Vec<String>> =
                row.iter().zip(widths).map(|(cell, width)| wrap(&cell.text, *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1).max(1);
            for line in 0..height {
                render_line(&mut text, stream, &row, &cells, widths, line);
            }
        }
        text
    }

    /// How narrow each column may become: no heading and no whole cell is broken.
    fn narrowest_widths(&self, natural: &[usize]) -> Vec<usize> {
        let heading = |cell: &TableCell| {
            cell.text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0)
        };
        let headings = self.rows.first().into_iter().flatten().map(heading);
        let narrow =
            |(heading, natural): (usize, &usize)| heading.max(COLUMN_CHARS_MIN).min(*natural);
        let mut narrowest: Vec<usize> = headings.zip(natural).map(narrow).collect();
        for row in &self.rows {
            for (width, cell) in narrowest.iter_mut().zip(row).filter(|(_, cell)| cell.is_whole) {
                *width = (*width).max(cell.text.chars().count());
            }
        }
        narrowest
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

/// Appends one line of a row. A terminal that is too narrow for the narrowest columns cuts it.
fn render_line(
    text: &mut String,
    stream: &TerminalStream,
    row: &[&TableCell],
    cells: &[Vec<String>],
    widths: &[usize],
    line: usize,
) {
    let part = |column: usize| cells[column].get(line).map_or("", String::as_str);
    let mut left = stream.columns.unwrap_or(usize::MAX);
    let last = (0..row.len()).rev().find(|column| !part(*column).is_empty()).unwrap_or(0);
    for (column, cell) in row.iter().enumerate().take(last + 1) {
        let shown: String = part(column).chars().take(left).collect();
        let used = shown.chars().count();
        if !shown.is_empty() {
            text.push_str(&stream.paint(cell.style, &shown));
        }
        left = left.saturating_sub(used);
        if column < last {
            let pad = (widths[column] + COLUMN_GAP).saturating_sub(used).min(left);
            text.extend(std::iter::repeat_n(' ', pad));
            left -= pad;
        }
    }
    text.push('\n');
}

/// The columns of each table that fits, with their widths. Each begins with the first column.
fn split_columns(
    natural: &[usize],
    narrowest: &[usize],
    columns: usize,
) -> Vec<(Vec<usize>, Vec<usize>)> {
    let total = |group: &[usize]| {
        let widths = group.iter().filter_map(|column| narrowest.get(*column)).sum::<usize>();
        widths + group.len().saturating_sub(1) * COLUMN_GAP
    };
    let mut groups: Vec<Vec<usize>> = vec![vec![0]];
    for column in 1..natural.len() {
        let Some(group) = groups.last_mut() else { break };
        group.push(column);
        // A table has at least two columns, also where they do not fit.
        if group.len() > 2 && total(group) > columns {
            group.pop();
            groups.push(vec![0, column]);
        }
    }
    let with_widths = |group: Vec<usize>| {
        let pick = |widths: &[usize]| -> Vec<usize> {
            group.iter().filter_map(|column| widths.get(*column).copied()).collect()
        };
        let mut widths = pick(natural);
        shrink_widest(&mut widths, &pick(narrowest), columns);
        (group, widths)
    };
    groups.into_iter().map(with_widths).collect()
}

/// Takes characters from the widest column until all fit, or none can become narrower.
fn shrink_widest(widths: &mut [usize], narrowest: &[usize], columns: usize) {
    let gaps = widths.len().saturating_sub(1) * COLUMN_GAP;
    loop {
        let total = widths.iter().sum::<usize>() + gaps;
        let shrinkable =
            widths.iter_mut().zip(narrowest).filter(|(width, least)| **width > **least);
        let Some((widest, _)) = shrinkable.max_by_key(|(width, _)| **width) else { return };
        if total <= columns {
            return;
        }
        *widest -= 1;
    }
}

/// The lines of a text in a column: broken at spaces, and within a word that is longer than a line.
fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width || width == 0 {
        return vec![text.to_owned()];
    }
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split(' ') {
        let mut rest: Vec<char> = word.chars().collect();
        loop {
            let used = line.chars().count();
            let gap = usize::from(used > 0);
            let room = width.saturating_sub(used + gap);
            if rest.len() <= room {
                line.extend(std::iter::repeat_n(' ', gap).chain(rest));
                break;
            }
            // A long word, such as a path, fills the line and goes on in the next one.
            if rest.len() > width && room > 0 {
                line.extend(std::iter::repeat_n(' ', gap).chain(rest.drain(..room)));
            }
            lines.push(std::mem::take(&mut line));
        }
    }
    lines.push(line);
    if lines.len() > CELL_LINES_MAX {
        lines.truncate(CELL_LINES_MAX);
        if let Some(last) = lines.last_mut() {
            *last = last.chars().take(width.saturating_sub(1)).chain(['…']).collect();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Terminal;

    #[test]
    fn columns_are_aligned_and_wrapped_at_window_edge() {
        let mut table = TextTable::new(["NAME", "ABOUT"]);
        table.add_row(["Read".into(), "reads a\nfile of any size".into()]);
        table.add_row(["ReadMany".into(), "reads".into()]);
        table.add_row(["x".into(), "".into()]);
        let stream = Terminal::for_test().out;
        assert_eq!(
            table.render(&stream),
            "NAME      ABOUT\nRead      reads a\\nfile of any size\nReadMany  reads\nx\n"
        );
        let shown = table.render(&stream.with_columns(24).without_colours());
        assert_eq!(
            shown,
            "NAME      ABOUT\nRead      reads a\\nfile\n          of any size\nReadMany  reads\nx\n"
        );
    }

    #[test]
    fn whole_cell_is_never_broken() {
        let id = "ask_0123456789abcdef0123456789abcdef0123";
        let mut table = TextTable::new(["QUESTION", "SESSION", "WHAT", "ANSWERS"]);
        let session = "agent:main:somebody-has-a-long-name-for-this";
        let answers = "allow_once allow_always reject_once reject_always";
        table.add_row([TableCell::whole(id), session.into(), "Run `x`".into(), answers.into()]);
        let stream = Terminal::for_test().out.with_columns(30).without_colours();
        let shown = table.render(&stream);
        assert!(shown.contains(&format!("{id}\nagent:ma\n")), "{shown}");
        assert!(shown.contains("ANSWERS\n") && shown.contains("Run `x`"), "{shown}");
        for columns in [60, 80, 110] {
            let stream = Terminal::for_test().out.with_columns(columns).without_colours();
            let shown = table.render(&stream);
            assert!(shown.contains(id), "{columns}: {shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= columns), "{shown}");
        }
    }

    #[test]
    fn every_column_stays_visible_at_80_columns() {
        let mut table = TextTable::new(["TOOL", "PATH", "WHY", "TIME"]);
        let path = "/home/somebody/projects/".repeat(5);
        table.add_row([
            "Read".into(),
            path.as_str().into(),
            "it is outside the workspace, and no rule allows it; zero asks".into(),
            "12 ms".into(),
        ]);
        let shown = table.render(&Terminal::for_test().out.with_columns(80).without_colours());
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.lines().next().unwrap().ends_with("TIME"), "{shown}");
        assert!(shown.contains("12 ms"), "{shown}");
        let wrapped: String = shown.lines().skip(1).map(|line| &line[6..]).collect();
        assert!(wrapped.contains("/home/somebody/projects"), "{shown}");
    }

    #[test]
    fn columns_that_do_not_fit_follow_in_their_own_table() {
        let mut table = TextTable::new(["TOOL", "CALLS", "CANCELLED", "TIMEOUTS", "ERRORS"]);
        table.add_row(["Bash".into(), "12".into(), "0".into(), "3".into(), "no_match 2".into()]);
        let stream = Terminal::for_test().out.with_columns(24).without_colours();
        assert_eq!(
            table.render(&stream),
            "TOOL  CALLS  CANCELLED\nBash  12     0\n\nTOOL  TIMEOUTS  ERRORS\nBash  3         no_match\n                2\n"
        );
    }

    #[test]
    fn long_cell_ends_in_ellipsis() {
        let lines = wrap(&"word ".repeat(100), 10);
        assert_eq!(lines.len(), CELL_LINES_MAX);
        assert!(lines.last().unwrap().ends_with('…'));
        assert!(lines.iter().all(|line| line.chars().count() <= 10), "{lines:?}");
    }
}
