//! Rows of a text on a terminal: where lines are wrapped, and which rows are shown.
//!
//! Only the rows around the cursor are made. For that, a long line is cut into chunks that are wrapped each
//! on its own; where chunks meet, a row may be shorter than it could be.

use std::collections::VecDeque;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;
use zero_terminal::live_area::CursorPosition;

use super::cluster_display::display_cluster;
use super::folded_paste::PasteTable;
use super::grapheme::{line_range, previous_boundary, round_up, slice};

/// Fewest columns that text is laid out for.
const COLUMNS_MIN: usize = 8;
/// Bytes of a line that are wrapped together.
const CHUNK_BYTES: usize = if cfg!(test) { 64 } else { 8 << 10 };

/// Rows that are ready to be printed, and the cursor among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComposerLayout {
    /// The rows: escaped, without styles, each at most as wide as was asked for.
    pub rows: Vec<String>,
    /// Position of the cursor, counted from the first of these rows.
    pub cursor: CursorPosition,
}

/// A text that is wrapped to a width.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLayout<'a> {
    text: &'a str,
    pastes: &'a PasteTable,
    /// Columns for text.
    room: usize,
}

/// One row: a part of a line.
type RowRange = Range<usize>;

impl<'a> RowLayout<'a> {
    /// Wraps a text for so many columns. The last column stays free, for the cursor behind a full row.
    pub(super) fn new(text: &'a str, pastes: &'a PasteTable, columns: usize) -> Self {
        Self { text, pastes, room: columns.max(COLUMNS_MIN) - 1 }
    }

    /// The rows around a position. Rows before it come first, but some behind it stay visible.
    pub(super) fn rows_around(&self, at: usize, rows_max: usize) -> ComposerLayout {
        let others_max = rows_max.max(1) - 1;
        let chunk = self.chunk_at(at);
        let rows = self.wrap_chunk(chunk.clone());
        let index = row_index(&rows, at);
        let current = rows.get(index).cloned().unwrap_or(at..at);
        let column = self.column_of(&current, at);

        let mut behind: Vec<RowRange> = rows.iter().skip(index + 1).cloned().collect();
        let mut next = self.next_chunk(&chunk);
        while let Some(chunk) = next.filter(|_| behind.len() < others_max) {
            behind.extend(self.wrap_chunk(chunk.clone()));
            next = self.next_chunk(&chunk);
        }
        let mut before: VecDeque<RowRange> = rows.into_iter().take(index).collect();
        let mut previous = self.previous_chunk(&chunk);
        while let Some(chunk) = previous.filter(|_| before.len() < others_max) {
            for row in self.wrap_chunk(chunk.clone()).into_iter().rev() {
                before.push_front(row);
            }
            previous = self.previous_chunk(&chunk);
        }

        let context = behind.len().min(rows_max / 3);
        let before_count = before.len().min(others_max.saturating_sub(context));
        let behind_count = behind.len().min(others_max - before_count);
        let before = before.iter().skip(before.len() - before_count);
        let shown = before.chain([&current]).chain(behind.iter().take(behind_count));
        ComposerLayout {
            rows: shown.map(|row| self.render(row)).collect(),
            cursor: CursorPosition { row: before_count, column },
        }
    }

    /// The position in the row above, in this column or before it; `None` in the first row.
    pub(super) fn row_above(&self, at: usize, column: usize) -> Option<usize> {
        let chunk = self.chunk_at(at);
        let rows = self.wrap_chunk(chunk.clone());
        let row = match row_index(&rows, at).checked_sub(1) {
            Some(index) => rows.get(index).cloned(),
            None => self.wrap_chunk(self.previous_chunk(&chunk)?).pop(),
        };
        row.map(|row| self.position_in(&row, column))
    }

    /// The position in the row below, in this column or before it; `None` in the last row.
    pub(super) fn row_below(&self, at: usize, column: usize) -> Option<usize> {
        let chunk = self.chunk_at(at);
        let rows = self.wrap_chunk(chunk.clone());
        let row = match rows.get(row_index(&rows, at) + 1) {
            Some(row) => Some(row.clone()),
            None => self.wrap_chunk(self.next_chunk(&chunk)?).into_iter().next(),
        };
        row.map(|row| self.position_in(&row, column))
    }

    /// Column of a position in its row.
    pub(super) fn column_at(&self, at: usize) -> usize {
        let rows = self.wrap_chunk(self.chunk_at(at));
        rows.get(row_index(&rows, at)).map_or(0, |row| self.column_of(row, at))
    }

    /// The chunk with a position. The end of a line belongs to the last chunk of the line.
    fn chunk_at(&self, at: usize) -> Range<usize> {
        let line = line_range(self.text, at);
        if line.len() <= CHUNK_BYTES {
            return line;
        }
        let cluster = if at == line.end { previous_boundary(self.text, at) } else { at };
        let index = (cluster - line.start) / CHUNK_BYTES;
        let bound = |index: usize| {
            let at = (line.start + index * CHUNK_BYTES).min(line.end);
            round_up(self.text, at)
        };
        bound(index)..bound(index + 1)
    }

    fn next_chunk(&self, chunk: &Range<usize>) -> Option<Range<usize>> {
        match self.text.as_bytes().get(chunk.end)? {
            b'\n' => Some(self.chunk_at(chunk.end + 1)),
            _ => Some(self.chunk_at(chunk.end)),
        }
    }

    fn previous_chunk(&self, chunk: &Range<usize>) -> Option<Range<usize>> {
        let before = chunk.start.checked_sub(1)?;
        match self.text.as_bytes().get(before)? {
            b'\n' => Some(self.chunk_at(before)),
            _ => Some(self.chunk_at(previous_boundary(self.text, chunk.start))),
        }
    }

    /// The rows of a chunk, at least one. A row ends behind a space if there is one.
    fn wrap_chunk(&self, chunk: Range<usize>) -> Vec<RowRange> {
        let mut rows = Vec::new();
        let mut start = chunk.start;
        while let Some(end) = self.row_end(start, chunk.end) {
            rows.push(start..end);
            start = end;
        }
        rows.push(start..chunk.end);
        rows
    }

    /// Where a row ends that begins at `start`; `None` if all of the chunk fits into it.
    fn row_end(&self, start: usize, chunk_end: usize) -> Option<usize> {
        let (mut used, mut word) = (0, None);
        for (offset, cluster) in slice(self.text, start..chunk_end).grapheme_indices(true) {
            used += display_cluster(cluster, used, self.room, self.pastes).columns;
            if used > self.room && offset > 0 {
                return Some(word.unwrap_or(start + offset));
            }
            if matches!(cluster, " " | "\t") {
                word = Some(start + offset + cluster.len());
            }
        }
        None
    }

    fn column_of(&self, row: &RowRange, at: usize) -> usize {
        let clusters = slice(self.text, row.start..at.min(row.end)).graphemes(true);
        clusters.fold(0, |used, cluster| used + self.columns_of(cluster, used))
    }

    fn columns_of(&self, cluster: &str, used: usize) -> usize {
        display_cluster(cluster, used, self.room, self.pastes).columns
    }

    /// The last position of a row that is not behind a column.
    fn position_in(&self, row: &RowRange, column: usize) -> usize {
        let (mut used, mut last) = (0, row.start);
        for (offset, cluster) in slice(self.text, row.clone()).grapheme_indices(true) {
            last = row.start + offset;
            used += self.columns_of(cluster, used);
            if used > column {
                return last;
            }
        }
        // The end of a row that is continued is already the start of the next one.
        let ends_line = matches!(self.text.as_bytes().get(row.end), None | Some(b'\n'));
        if ends_line { row.end } else { last }
    }

    fn render(&self, row: &RowRange) -> String {
        let (mut shown, mut used) = (String::new(), 0);
        for cluster in slice(self.text, row.clone()).graphemes(true) {
            let display = display_cluster(cluster, used, self.room, self.pastes);
            shown.push_str(&display.text);
            used += display.columns;
        }
        shown
    }
}

/// Index of the row with a position: the last one that does not begin behind it.
fn row_index(rows: &[RowRange], at: usize) -> usize {
    rows.iter().rposition(|row| row.start <= at).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &[&str]) {
        let pastes = PasteTable::default();
        let layout = RowLayout::new(text, &pastes, columns).rows_around(text.len(), 99);
        assert_eq!(layout.rows, expected, "{text:?}");
    }

    #[test]
    fn lines_are_wrapped_behind_spaces() {
        check("", 10, &[""]);
        check("one two three", 10, &["one two ", "three"]);
        check("abcdefghijkl", 10, &["abcdefghi", "jkl"]);
        check("abcdefghi", 10, &["abcdefghi"]);
        check("a\n\nb\n", 10, &["a", "", "b", ""]);
        check("界界界界界", 10, &["界界界界", "界"]);
        check("a\tb\tc", 9, &["a   b   ", "c"]);
        check("a\x1bb", 10, &["a\\u{1b}b"]);
        check("e\u{301}e\u{301}", 8, &["e\u{301}e\u{301}"]);
        check("\u{e0041}x", 8, &["\\u{e00…", "x"]);
    }

    #[test]
    fn rows_scroll_with_cursor_and_show_some_behind_it() {
        let pastes = PasteTable::default();
        let text = (0..20).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        let layout = RowLayout::new(&text, &pastes, 20);
        let shown = |at: usize| {
            let ComposerLayout { rows, cursor } = layout.rows_around(at, 6);
            (rows.join(" "), cursor.row)
        };
        assert_eq!(shown(0), ("0 1 2 3 4 5".to_owned(), 0));
        assert_eq!(shown(2), ("0 1 2 3 4 5".to_owned(), 1));
        assert_eq!(shown(12), ("3 4 5 6 7 8".to_owned(), 3));
        assert_eq!(shown(text.len()), ("14 15 16 17 18 19".to_owned(), 5));
        let one = layout.rows_around(12, 1);
        assert_eq!((one.rows, one.cursor.row), (vec!["6".to_owned()], 0));
        assert_eq!(layout.rows_around(12, 0).rows, ["6"]);
    }

    #[test]
    fn cursor_behind_full_row_has_a_column() {
        let pastes = PasteTable::default();
        let layout = RowLayout::new("abcdefghi", &pastes, 10).rows_around(9, 5);
        assert_eq!(layout.cursor, CursorPosition { row: 0, column: 9 });
        let layout = RowLayout::new("abcdefghij", &pastes, 10).rows_around(9, 5);
        assert_eq!(layout.cursor, CursorPosition { row: 1, column: 0 });
    }

    #[test]
    fn rows_above_and_below_keep_column() {
        let pastes = PasteTable::default();
        let text = "abc\nd\n\u{4e00}\u{4e00}";
        let layout = RowLayout::new(text, &pastes, 20);
        assert_eq!(layout.row_above(2, 2), None);
        assert_eq!(layout.row_below(2, 2), Some(5));
        assert_eq!(layout.row_below(5, 2), Some(9));
        assert_eq!(layout.row_below(5, 3), Some(9));
        assert_eq!(layout.row_above(9, 2), Some(5));
        assert_eq!(layout.row_above(5, 9), Some(3));
        assert_eq!(layout.row_below(9, 2), None);
    }

    #[test]
    fn chunks_cover_long_line() {
        let pastes = PasteTable::default();
        for unit in ["abc de ", "🇩🇪", "e\u{301}", "👩\u{200d}💻"] {
            let text = format!("x\n{}\ny", unit.repeat(60));
            let layout = RowLayout::new(&text, &pastes, 20);
            let (mut chunk, mut rows) = (layout.chunk_at(0), Vec::new());
            loop {
                rows.push(chunk.clone());
                let Some(next) = layout.next_chunk(&chunk) else { break };
                assert_eq!(layout.previous_chunk(&next), Some(chunk), "{unit:?}");
                chunk = next;
            }
            assert!(rows.len() > 4, "{rows:?}");
            let joined: String = rows.into_iter().map(|chunk| slice(&text, chunk)).collect();
            assert_eq!(joined, text.replace('\n', ""));
        }
    }
}
