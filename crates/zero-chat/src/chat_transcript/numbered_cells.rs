//! The cells of a transcript by their numbers, for who shows any part of it.
//!
//! Finished cells are numbered in their order and keep their numbers while older ones are dropped. After
//! them comes one number for the text that is being written.

use std::ops::Range;

use super::ChatTranscript;
use crate::cell::{Cell, CellKind};
use crate::cell_view::{Fold, render_cell};
use crate::styled_row::wrap_row;

/// Rows of an unfinished text that are kept.
pub(super) const OPEN_ROWS_MAX: usize = 5_000;

impl ChatTranscript {
    /// Number of the oldest cell that is kept.
    pub(crate) fn first_number(&self) -> u64 {
        self.dropped_cells
    }

    /// The number after the last finished cell, which is that of the text that is being written.
    pub(crate) fn end_number(&self) -> u64 {
        self.dropped_cells + self.finished.len() as u64
    }

    /// The finished cell with a number.
    pub(crate) fn numbered_cell(&self, number: u64) -> Option<&Cell> {
        let at = number.checked_sub(self.dropped_cells)?;
        self.finished.get(usize::try_from(at).ok()?)
    }

    /// The numbers of the rows that are kept of the text that is being written.
    pub(crate) fn open_row_numbers(&self) -> Range<u64> {
        self.dropped_open_rows..self.dropped_open_rows + self.open_rows.len() as u64
    }

    /// One of these rows, in rows that are not wider than `columns`.
    pub(crate) fn wrap_open_row(&self, number: u64, columns: usize) -> Vec<String> {
        let at = number.checked_sub(self.dropped_open_rows).and_then(|at| usize::try_from(at).ok());
        at.and_then(|at| self.open_rows.get(at)).map_or_else(Vec::new, |row| wrap_row(row, columns))
    }

    /// The rows of a finished cell, none wider than `columns` if these are at least 8, with the blank row
    /// that separates it from what is before.
    pub(crate) fn numbered_rows(&self, number: u64, columns: usize, fold: Fold) -> Vec<String> {
        let Some(cell) = self.numbered_cell(number) else { return Vec::new() };
        let rows = render_cell(cell, &self.stream, columns, self.options, fold);
        if rows.is_empty() {
            return rows;
        }
        let before = self.kind_before(number);
        let is_separated = before.is_some_and(|before| before.is_separated_from(cell.kind()));
        let blank = is_separated.then(String::new);
        blank.into_iter().chain(rows.iter().flat_map(|row| wrap_row(row, columns))).collect()
    }

    /// The kind of the cell before, of those that have rows.
    fn kind_before(&self, number: u64) -> Option<CellKind> {
        let before = (self.first_number()..number).rev();
        let mut shown = before.filter_map(|number| self.numbered_cell(number));
        let has_rows = |cell: &&Cell| match cell {
            Cell::RunEnd(_) => {
                !render_cell(cell, &self.stream, 80, self.options, Fold::Folded).is_empty()
            }
            _ => true,
        };
        shown.find(has_rows).map(Cell::kind)
    }
}
