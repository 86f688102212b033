//! Keys that bring back prompts from the history: up and down at the edge of the text, and the search.

use zero_core::sanitize::escape_line;
use zero_terminal::char_columns;
use zero_terminal::input_event::{KeyCode, KeyStroke};
use zero_terminal::live_area::CursorPosition;

use super::folded_paste::PasteTable;
use super::grapheme::{round_down, slice, step_back};
use super::prompt_history::{HistorySearch, HistoryWalk};
use super::row_layout::{ComposerLayout, RowLayout};
use super::{Composer, ComposerEvent, PreviousCommand, RowDirection};

impl Composer {
    /// Moves the cursor by a row, or to another entry of the history at the first and the last row.
    pub(super) fn move_by_row(
        &mut self,
        direction: RowDirection,
        previous: PreviousCommand,
    ) -> ComposerEvent {
        // Right after an entry was shown, the keys go on to the next one, whatever rows it has.
        let is_untouched = self.buffer.cursor() == self.entry_cursor();
        if self.current_walk().is_some() && is_untouched && self.walk_history(direction) {
            return ComposerEvent::Edited;
        }
        let (rows, cursor) = (self.rows(), self.buffer.cursor());
        let column = match previous {
            PreviousCommand::RowMove { column } => column,
            _ => rows.column_at(cursor),
        };
        let at = match direction {
            RowDirection::Up => rows.row_above(cursor, column),
            RowDirection::Down => rows.row_below(cursor, column),
        };
        if let Some(at) = at {
            self.buffer.move_to(at);
            self.previous = PreviousCommand::RowMove { column };
            return ComposerEvent::Edited;
        }
        match self.walk_history(direction) {
            true => ComposerEvent::Edited,
            false => ComposerEvent::Ignored,
        }
    }

    /// Where the cursor is after an entry of the history is shown.
    fn entry_cursor(&self) -> usize {
        let text = self.buffer.text();
        match &self.vim {
            Some(vim) if !vim.is_insert => step_back(text, text.len(), 1),
            _ => text.len(),
        }
    }

    /// The walk through the history, unless the entry was edited since.
    fn current_walk(&self) -> Option<&HistoryWalk> {
        self.walk.as_ref().filter(|walk| walk.revision == self.buffer.revision())
    }

    /// Shows the next entry that begins with what is before the cursor, or the draft again. Returns whether
    /// there was one.
    fn walk_history(&mut self, direction: RowDirection) -> bool {
        let shown = self.text();
        let walk = match self.walk.take_if(|walk| walk.revision == self.buffer.revision()) {
            Some(walk) => walk,
            None if direction == RowDirection::Down => return false,
            None => HistoryWalk {
                prefix: self.pastes.expand(self.buffer.before_cursor()),
                index: self.history.len(),
                draft: self.buffer.text().to_owned(),
                draft_cursor: self.buffer.cursor(),
                revision: self.buffer.revision(),
            },
        };
        let is_accepted = |entry: &str| entry.starts_with(&walk.prefix) && entry != shown;
        let found = match direction {
            RowDirection::Up => self.history.find_older(walk.index, is_accepted),
            RowDirection::Down => self.history.find_newer(walk.index, is_accepted),
        };
        let found = found.map(|(index, entry)| (index, entry.to_owned()));
        match (found, direction) {
            (Some((index, entry)), _) => {
                self.walk = Some(HistoryWalk { index, ..walk });
                let is_shown = self.replace_with_foreign(0..self.buffer.text().len(), &entry);
                let revision = self.buffer.revision();
                if let Some(walk) = &mut self.walk {
                    walk.revision = revision;
                }
                is_shown == ComposerEvent::Edited
            }
            (None, RowDirection::Up) => {
                // Only a walk that shows an entry is one.
                self.walk = Some(walk).filter(|walk| walk.index < self.history.len());
                false
            }
            (None, RowDirection::Down) => {
                self.buffer.replace_all(&walk.draft, walk.draft_cursor);
                true
            }
        }
    }

    /// Applies a key to the search of the history. `None` if there is none, or if the key ended it and is
    /// meant for the text.
    pub(super) fn apply_to_search(&mut self, stroke: KeyStroke) -> Option<ComposerEvent> {
        let search = self.search.as_mut()?;
        let KeyStroke { code, ctrl, alt, .. } = stroke;
        match code {
            KeyCode::Char(letter) if !ctrl && !alt => search.extend(letter, &self.history),
            KeyCode::Char('r') if ctrl => search.find_next(&self.history),
            KeyCode::Char('h') if ctrl => search.shorten(&self.history),
            KeyCode::Backspace => search.shorten(&self.history),
            KeyCode::Char('c' | 'g') if ctrl => return Some(self.abandon_search()),
            KeyCode::Escape => return Some(self.abandon_search()),
            KeyCode::Enter | KeyCode::Tab => self.accept_search(),
            _ => {
                self.accept_search();
                return None;
            }
        }
        Some(ComposerEvent::Edited)
    }

    /// The entry that was found, or the draft, and the query below it.
    pub(super) fn layout_search(
        &self,
        search: &HistorySearch,
        columns: usize,
        rows_max: usize,
    ) -> ComposerLayout {
        let (query, column) = render_query(search, columns);
        let mut rows = match search.found.and_then(|index| self.history.entry(index)) {
            _ if rows_max <= 1 => Vec::new(),
            Some(entry) => {
                let pastes = PasteTable::default();
                let at = entry.find(&search.query).unwrap_or(0);
                let at = round_down(entry, at);
                RowLayout::new(entry, &pastes, columns).rows_around(at, rows_max - 1).rows
            }
            None => self.rows().rows_around(self.buffer.cursor(), rows_max - 1).rows,
        };
        rows.push(query);
        ComposerLayout { cursor: CursorPosition { row: rows.len() - 1, column }, rows }
    }

    fn abandon_search(&mut self) -> ComposerEvent {
        self.search = None;
        ComposerEvent::Abandoned
    }

    /// Ends a search: the entry that was found becomes the text.
    pub(super) fn accept_search(&mut self) {
        let found = self.search.take().and_then(|search| search.found);
        if let Some(entry) = found.and_then(|index| self.history.entry(index)).map(str::to_owned) {
            self.replace_with_foreign(0..self.buffer.text().len(), &entry);
        }
    }
}

/// The row that shows a query, and the column behind it. Of a long query, the end is shown.
fn render_query(search: &HistorySearch, columns: usize) -> (String, usize) {
    let is_missing = !search.query.is_empty() && search.found.is_none();
    let label = if is_missing { "no match: " } else { "search: " };
    let row = format!("{label}{}", escape_line(&search.query));
    let room = columns.max(8) - 1;
    let (mut start, mut used) = (row.len(), 0);
    for (at, letter) in row.char_indices().rev() {
        if used + char_columns(letter) > room {
            break;
        }
        (start, used) = (at, used + char_columns(letter));
    }
    (slice(&row, start..row.len()).to_owned(), used)
}
