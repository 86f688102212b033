//! The whole transcript as rows for a screen of its own.

use super::ChatTranscript;
use crate::cell::Cell;
use crate::cell_view::{Fold, render_cell};
use crate::styled_row::wrap_row;

/// Most rows that are rendered; older ones are left out.
const PAGE_ROWS_MAX: usize = 200_000;

impl ChatTranscript {
    /// Everything that is kept of the session, with blank lines between cells. No row is wider than
    /// `columns`, if these are at least 8.
    pub fn page_rows(&self, columns: usize) -> Vec<String> {
        let cells: Vec<&Cell> = self.cells().collect();
        let mut groups: Vec<Vec<String>> = Vec::new();
        let (mut count, mut next_kind) = (0, None);
        // The latest cells matter most, so that they are rendered first.
        for cell in cells.into_iter().rev() {
            let rows = render_cell(cell, &self.stream, columns, self.options, Fold::Open);
            if rows.is_empty() {
                continue;
            }
            let mut rows: Vec<String> =
                rows.iter().flat_map(|row| wrap_row(row, columns)).collect();
            if next_kind.is_some_and(|next| cell.kind().is_separated_from(next)) {
                rows.push(String::new());
            }
            next_kind = Some(cell.kind());
            count += rows.len();
            groups.push(rows);
            if count > PAGE_ROWS_MAX {
                break;
            }
        }
        let mut rows: Vec<String> = groups.into_iter().rev().flatten().collect();
        rows.drain(..rows.len().saturating_sub(PAGE_ROWS_MAX));
        rows
    }
}
