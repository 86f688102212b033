//! Finished output in the terminal's own scrollback, and a live area of a few rows below it.
//!
//! Finished lines are written once, with real line ends, and then belong to the terminal. The live area
//! is wherever the output ends: it is reached by moves relative to the cursor, never by a row number,
//! and there is no scroll region. So whatever the terminal does when its window changes, the finished
//! lines are its affair, and only one question is left: where is the first row of the live area?
//!
//! # Where the cursor is between two updates
//!
//! The safest place is the first column of the live area's first row. Nothing of the live area is above
//! it, so that rows that are rewrapped, cut or dropped cannot hide where the area starts, and neither can
//! a change of the window that this program does not know of yet. (On terminals that move the cursor when
//! rows below it are rewrapped, it is the last row.) But the user wants to see the cursor in
//! the text that they type, and input methods and screen readers look for it there. Hence
//! [`CursorDisplay`]: [`CursorDisplay::Real`] leaves the terminal's cursor in the text, and the way back
//! is computed from what [`ReflowKind`] says; [`CursorDisplay::Drawn`] leaves it at the safe place, hidden,
//! and draws a cursor. `Drawn` is the default, and a resize switches back to it, because more are likely
//! to follow.
//!
//! # What remains
//!
//! - If the live area takes more rows than the new window has (a wide row takes fifteen when a window of
//!   300 columns becomes one of 20), the terminal moves its upper rows into the scrollback. No sequence
//!   reaches them there, and they stay. tmux keeps its last row at the bottom, also an empty one: it moves
//!   rows into the scrollback as soon as there are fewer rows above the live area than rewrapping adds.
//! - With `Real` and [`ReflowKind::AllButCursorLine`], a window that becomes narrower than rows below the
//!   cursor and lower at the same time: how many of them the terminal dropped is not known.
//! - With `Real`, if the terminal changed its width and the program writes before it knows, rows of the
//!   live area may stay above it, or finished rows above it may be erased. So `Real` is for a program
//!   that waits for the user. With `Drawn` this cannot happen, except on terminals of the kind
//!   [`ReflowKind::AllButCursorLine`].

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use zero_terminal::WindowSize;
use zero_terminal::live_area::CursorPosition;
use zero_terminal::live_row::{LiveRow, RowCursor};
pub use zero_terminal::terminal_kind::{ReflowKind, TerminalKind};

/// Rows that the live area may always have.
const ROWS_MIN: usize = 3;
/// The part of the window that the live area takes at most.
const WINDOW_PART: usize = 3;

/// How the cursor in the live area is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorDisplay {
    /// The terminal's own cursor is in the text. For a program that waits for the user.
    Real,
    /// The terminal's cursor is hidden, and a cell in reverse video takes its place. For a program that
    /// writes by itself, and while the window changes.
    Drawn,
}

/// Most rows of a live area in a window: a third of them, and at least 3.
pub(crate) fn live_rows_max(size: WindowSize) -> usize {
    (size.rows / WINDOW_PART).max(ROWS_MIN).min(size.rows.max(1))
}

/// Writes finished lines into the scrollback and paints a live area below them.
///
/// The cursor must be in the first column of a row when it starts, and after another part of the program wrote.
#[derive(Debug)]
pub struct InlineScreen<W> {
    out: W,
    size: WindowSize,
    kind: TerminalKind,
    display: CursorDisplay,
    painted: PaintedArea,
    is_cursor_hidden: bool,
    /// Whether everything below the live area is known to be empty.
    is_empty_below: bool,
    has_left: bool,
}

/// The live area on the terminal, and where the terminal's cursor is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PaintedArea {
    rows: Vec<LiveRow>,
    cursor_row: usize,
    cursor_column: usize,
    is_cursor_visible: bool,
}

impl<W: Write> InlineScreen<W> {
    /// Starts below what is on the terminal. Writes nothing yet.
    pub fn new(out: W, size: WindowSize, kind: TerminalKind) -> Self {
        Self {
            out,
            size,
            kind,
            display: CursorDisplay::Drawn,
            painted: PaintedArea::default(),
            is_cursor_hidden: false,
            is_empty_below: false,
            has_left: false,
        }
    }

    /// Chooses how the next update shows the cursor: `Real` if nothing but the user's own text is going
    /// to change, and the window has kept its size for a while; else `Drawn`.
    pub fn set_cursor_display(&mut self, display: CursorDisplay) {
        self.display = display;
    }

    /// Most rows that the live area has in this window: a third of them, and at least 3.
    pub fn rows_max(&self) -> usize {
        live_rows_max(self.size)
    }

    /// Writes finished lines, each ending in `\n`, and replaces the rows of the live area, as one
    /// update. Rows that are unchanged are not written again; if nothing changed, nothing is written.
    ///
    /// Rows are cut at the window's width. If they are more than [`Self::rows_max`], the last ones are
    /// shown, and the one with the cursor. Without a cursor, the terminal's is hidden.
    pub fn update(
        &mut self,
        finished: &str,
        rows: &[String],
        cursor: Option<CursorPosition>,
    ) -> io::Result<()> {
        let target = self.lay_out(rows, cursor);
        if self.has_left || (finished.is_empty() && target == self.painted) {
            return Ok(());
        }
        let has_same_rows = finished.is_empty() && target.rows == self.painted.rows;
        let mut update = self.begin_update(!has_same_rows);
        let mut old_rows = std::mem::take(&mut self.painted.rows);
        if !finished.is_empty() || !self.is_empty_below {
            update.move_to_row(0);
            update.erase_below();
            update.text.push_str(&finished.replace("\r\n", "\n").replace('\n', "\r\n"));
            if !finished.is_empty() && !finished.ends_with('\n') {
                update.text.push_str("\r\n");
            }
            old_rows.clear();
            self.is_empty_below = true;
        }
        update.paint_rows(&old_rows, &target.rows);
        update.move_to_row(target.cursor_row);
        update.move_to_column(target.cursor_column);
        self.end_update(update, target)
    }

    /// The window has another size: removes what is left of the live area, wherever the terminal put
    /// it. The caller then calls [`Self::update`] with rows for the new size, at once, and sets
    /// [`CursorDisplay::Real`] again when the window has kept its size for a while.
    pub fn resize(&mut self, size: WindowSize) -> io::Result<()> {
        self.size = size;
        self.display = CursorDisplay::Drawn;
        if self.has_left || self.painted.rows.is_empty() {
            return Ok(());
        }
        let mut update = self.begin_update(true);
        update.row = self.rows_above_cursor();
        update.move_to_row(0);
        update.erase_below();
        self.is_empty_below = true;
        let is_cursor_visible = false;
        self.end_update(update, PaintedArea { is_cursor_visible, ..PaintedArea::default() })
    }

    /// Removes the live area and shows the cursor where it began, so that another writer may follow. The
    /// next update paints below that.
    pub fn suspend(&mut self) -> io::Result<()> {
        if self.has_left || (self.painted.rows.is_empty() && !self.is_cursor_hidden) {
            return Ok(());
        }
        let mut update = self.begin_update(true);
        update.row = self.rows_above_cursor();
        update.move_to_row(0);
        if !self.painted.rows.is_empty() {
            update.erase_below();
        }
        let is_cursor_visible = true;
        self.end_update(update, PaintedArea { is_cursor_visible, ..PaintedArea::default() })?;
        // The state in which the other writer leaves the screen is unknown.
        self.is_empty_below = false;
        Ok(())
    }

    /// Removes the live area for good: later updates write nothing.
    pub fn leave(&mut self) -> io::Result<()> {
        let left = self.suspend();
        self.has_left = true;
        left
    }

    /// Chooses the rows that are shown, and cuts them.
    fn lay_out(&self, rows: &[String], cursor: Option<CursorPosition>) -> PaintedArea {
        let last = rows.len().saturating_sub(1);
        let cursor = cursor
            .filter(|_| !rows.is_empty())
            .map(|cursor| CursorPosition { row: cursor.row.min(last), ..cursor });
        let first = rows.len().saturating_sub(self.rows_max());
        let cursor_row = cursor.map(|cursor| cursor.row);
        // The row of the cursor takes the place of the first row that would be shown.
        let hidden_cursor_row = cursor_row.filter(|row| *row < first);
        let shown = match hidden_cursor_row {
            Some(row) => std::iter::once(row).chain(first + 1..rows.len()),
            None if first < rows.len() => std::iter::once(first).chain(first + 1..rows.len()),
            None => return PaintedArea::default(),
        };
        let is_real =
            self.display == CursorDisplay::Real && self.kind.reflow != ReflowKind::Unknown;
        let mut area = PaintedArea::default();
        for (index, source) in shown.enumerate() {
            let row_cursor = match cursor {
                Some(cursor) if cursor.row == source && is_real => {
                    area.cursor_row = index;
                    area.cursor_column = cursor.column.min(self.size.columns.saturating_sub(1));
                    area.is_cursor_visible = true;
                    RowCursor::Real(cursor.column)
                }
                Some(cursor) if cursor.row == source => RowCursor::Drawn(cursor.column),
                _ => RowCursor::Elsewhere,
            };
            let source = rows.get(source).map(String::as_str).unwrap_or_default();
            area.rows.push(LiveRow::new(source, self.size.columns, row_cursor));
        }
        if !area.is_cursor_visible && self.kind.reflow == ReflowKind::AllButCursorLine {
            // Rows below the cursor would move it: it is put where there are none.
            area.cursor_row = area.rows.len().saturating_sub(1);
        }
        area
    }

    /// Rows of the live area above the cursor, as the terminal has arranged them in the present window.
    fn rows_above_cursor(&self) -> usize {
        let PaintedArea { rows, cursor_row, cursor_column, .. } = &self.painted;
        let cursor = CursorPosition { row: *cursor_row, column: *cursor_column };
        self.kind.reflow.rows_above_cursor(rows, cursor, self.size.columns)
    }

    fn begin_update(&mut self, hides_cursor: bool) -> ScreenUpdate {
        let mut text = String::new();
        if self.kind.synchronized {
            text.push_str("\x1b[?2026h");
        }
        if hides_cursor && !self.is_cursor_hidden {
            text.push_str("\x1b[?25l");
            self.is_cursor_hidden = true;
        }
        let PaintedArea { cursor_row, cursor_column, .. } = self.painted;
        ScreenUpdate { text, row: cursor_row, column: Some(cursor_column) }
    }

    fn end_update(&mut self, mut update: ScreenUpdate, painted: PaintedArea) -> io::Result<()> {
        if painted.is_cursor_visible == self.is_cursor_hidden {
            update.text.push_str(match painted.is_cursor_visible {
                true => "\x1b[?25h",
                false => "\x1b[?25l",
            });
            self.is_cursor_hidden = !painted.is_cursor_visible;
        }
        if self.kind.synchronized {
            update.text.push_str("\x1b[?2026l");
        }
        self.painted = painted;
        self.out.write_all(update.text.as_bytes())?;
        self.out.flush()
    }
}

/// The bytes of one update, and where they leave the cursor.
#[derive(Debug)]
struct ScreenUpdate {
    text: String,
    /// Row, counted from the first one of the live area.
    row: usize,
    /// Column; `None` after text was written.
    column: Option<usize>,
}

impl ScreenUpdate {
    /// Goes to the first column of a row. Below the last one a new row begins.
    fn move_to_row(&mut self, row: usize) {
        if self.column != Some(0) {
            self.text.push('\r');
            self.column = Some(0);
        }
        match row.checked_sub(self.row) {
            // Line ends, and not moves: at the end of the screen they make room.
            Some(down) => self.text.extend(std::iter::repeat_n('\n', down)),
            None => self.push_move(self.row - row, 'A'),
        }
        self.row = row;
    }

    /// Goes to a column, from the first one.
    fn move_to_column(&mut self, column: usize) {
        if column > 0 {
            self.push_move(column, 'C');
        }
        self.column = Some(column);
    }

    fn push_move(&mut self, count: usize, direction: char) {
        match count {
            1 => self.text.push_str("\x1b["),
            count => self.text.push_str(&format!("\x1b[{count}")),
        }
        self.text.push(direction);
    }

    /// Erases the row of the cursor, which is in its first column, and everything below.
    ///
    /// Some terminals save the whole screen in the scrollback if it is erased from its first cell. So
    /// the first row is erased alone, and the rest from its second cell.
    fn erase_below(&mut self) {
        self.text.push_str("\x1b[K\x1b[C\x1b[J\r");
    }

    /// Writes the rows that changed, and removes those that no longer exist.
    fn paint_rows(&mut self, old: &[LiveRow], new: &[LiveRow]) {
        let is_changed = |(index, row): &(usize, &LiveRow)| old.get(*index) != Some(*row);
        let changed: Vec<(usize, &LiveRow)> = new.iter().enumerate().filter(is_changed).collect();
        if !changed.is_empty() {
            // If the window is narrower than known, a row is cut and stays one row.
            self.text.push_str("\x1b[?7l");
            for (index, row) in changed {
                self.move_to_row(index);
                // Erased before it is written, and as a whole: a terminal may keep cells that are
                // erased at the end of a row, and rewrap them.
                if old.get(index).is_some_and(|old| old.columns > row.columns) {
                    self.text.push_str("\x1b[K");
                }
                self.text.push_str(&row.text);
                self.column = None;
            }
            self.text.push_str("\x1b[?7h");
        }
        if old.len() > new.len() {
            self.move_to_row(new.len());
            match new.is_empty() {
                true => self.erase_below(),
                false => self.text.push_str("\x1b[J"),
            }
        }
    }
}
