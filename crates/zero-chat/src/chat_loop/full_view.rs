//! The chat on the alternate screen: the transcript fills the window, and keys scroll, search, fold and
//! copy it. With `--fullscreen` it is there all the time, above the input; else while Ctrl-T shows it.

use std::io;

use zero_terminal::input_event::{KeyCode, KeyStroke};
use zero_terminal::live_area::CursorPosition;
use zero_terminal::{FAINT, STRONG, WindowSize, escape_line, truncate_to_columns};

use super::ChatLoop;
use crate::cell_view::Fold;
use crate::full_screen::{FullScreen, WheelMode};
use crate::transcript_view::{TranscriptView, ViewWindow};

/// Rows of one step of the wheel.
const WHEEL_ROWS: isize = 3;
/// Longest text that is searched, in characters.
const NEEDLE_CHARS_MAX: usize = 200;
/// Columns before the transcript while keys select its cells.
const GUTTER_COLUMNS: usize = 2;

/// The transcript on the alternate screen.
pub(super) struct FullView {
    pub(super) screen: FullScreen,
    pub(super) view: TranscriptView,
    /// Whether keys are for the transcript, and not for the input.
    has_keys: bool,
    /// What is being typed to search.
    needle: Option<String>,
    /// What the last key led to.
    note: Option<String>,
}

impl ChatLoop {
    /// Fills the window from now on.
    pub(super) fn enter_full_screen(&mut self) -> io::Result<()> {
        let wheel = match self.config.fullscreen {
            true => WheelMode::Reports,
            false => WheelMode::Arrows,
        };
        let stream = &self.config.stream;
        let size = stream.true_window_size();
        let screen = FullScreen::enter(stream, size, self.config.terminal, wheel)?;
        let fold = if self.config.fullscreen { Fold::Folded } else { Fold::Open };
        let view = TranscriptView::new(fold);
        self.full = Some(FullView { screen, view, has_keys: false, needle: None, note: None });
        Ok(())
    }

    /// Gives the keys to the transcript.
    pub(super) fn show_transcript(&mut self) {
        if self.is_plain() {
            return self.notice("with --plain, all of it is above");
        }
        if self.full.is_none() {
            let entered = self.screen.suspend().and_then(|()| self.enter_full_screen());
            if let Err(error) = entered {
                return self.notice(&format!("could not show it: {error}"));
            }
        }
        if let Some(full) = &mut self.full {
            full.has_keys = true;
        }
        self.paint_soon();
    }

    /// Gives the keys back to the input.
    pub(super) fn leave_transcript(&mut self) {
        if !self.config.fullscreen {
            self.full = None;
            // What the terminal did to the screen before while another one was shown is its affair.
            self.resized_at = tokio::time::Instant::now();
        } else if let Some(full) = &mut self.full {
            (full.has_keys, full.needle, full.note) = (false, None, None);
            full.view.deselect();
            full.view.scroll_to_end();
        }
        self.paint_soon();
    }

    /// Whether keys are for the transcript.
    pub(super) fn is_transcript_shown(&self) -> bool {
        self.full.as_ref().is_some_and(|full| full.has_keys)
    }

    pub(super) fn turn_wheel(&mut self, is_up: bool) {
        self.scroll_full(if is_up { -WHEEL_ROWS } else { WHEEL_ROWS });
    }

    /// Scrolls the transcript by pages; false if there is none.
    pub(super) fn scroll_page(&mut self, is_up: bool) -> bool {
        let Some(full) = &self.full else { return false };
        let rows = isize::try_from(full.screen.size().rows / 2).unwrap_or(1).max(1);
        self.scroll_full(if is_up { -rows } else { rows });
        true
    }

    fn scroll_full(&mut self, rows: isize) {
        self.with_view(|view, window| view.scroll(window, rows));
    }

    /// Does something with the view in its present window.
    fn with_view<T>(
        &mut self,
        act: impl FnOnce(&mut TranscriptView, ViewWindow<'_>) -> T,
    ) -> Option<T> {
        let full = self.full.as_mut()?;
        let WindowSize { rows, columns } = full.screen.size();
        let gutter = if full.has_keys { GUTTER_COLUMNS } else { 0 };
        let window = ViewWindow {
            transcript: &self.transcript,
            columns: columns.saturating_sub(gutter + 1),
            rows: rows.saturating_sub(1).max(1),
        };
        Some(act(&mut full.view, window))
    }

    /// A key while the transcript has them.
    pub(super) fn handle_view_key(&mut self, stroke: KeyStroke) {
        let Some(full) = &mut self.full else { return };
        full.note = None;
        if full.needle.is_some() {
            return self.edit_needle(stroke);
        }
        let page = isize::try_from(full.screen.size().rows.saturating_sub(2)).unwrap_or(1).max(1);
        let KeyStroke { code, ctrl, shift, .. } = stroke;
        match code {
            KeyCode::Char('c' | 't') if ctrl => self.leave_transcript(),
            KeyCode::Escape if !full.view.needle().is_empty() => {
                self.with_view(|view, window| view.search(window, ""));
            }
            KeyCode::Escape | KeyCode::Char('q') => self.leave_transcript(),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_full(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll_full(-1),
            KeyCode::PageDown | KeyCode::Char(' ' | 'f') => self.scroll_full(page),
            KeyCode::PageUp | KeyCode::Char('b') => self.scroll_full(-page),
            KeyCode::Home | KeyCode::Char('g') => {
                self.with_view(|view, window| view.scroll_to_start(window));
            }
            KeyCode::End | KeyCode::Char('G') => full.view.scroll_to_end(),
            KeyCode::Tab => {
                self.with_view(|view, window| view.select(window, !shift));
            }
            KeyCode::Char('[') => {
                self.with_view(|view, window| view.select(window, false));
            }
            KeyCode::Char(']') => {
                self.with_view(|view, window| view.select(window, true));
            }
            KeyCode::Enter | KeyCode::Char('o') => {
                self.with_view(|view, window| {
                    if view.selected().is_none() {
                        view.select(window, false);
                    }
                    view.toggle_fold(window);
                });
            }
            KeyCode::Char('O') => full.view.toggle_all(),
            KeyCode::Char('/') => full.needle = Some(String::new()),
            KeyCode::Char(letter @ ('n' | 'N')) => self.find_next(letter == 'N'),
            KeyCode::Char('c' | 'y') => self.copy_selected(),
            _ => {}
        }
    }

    fn edit_needle(&mut self, stroke: KeyStroke) {
        let Some(full) = &mut self.full else { return };
        let Some(needle) = &mut full.needle else { return };
        match stroke {
            KeyStroke { code: KeyCode::Char('c'), ctrl: true, .. }
            | KeyStroke { code: KeyCode::Escape, .. } => full.needle = None,
            KeyStroke { code: KeyCode::Char('u'), ctrl: true, .. } => needle.clear(),
            KeyStroke { code: KeyCode::Char(letter), ctrl: false, alt: false, .. }
                if needle.chars().count() < NEEDLE_CHARS_MAX =>
            {
                needle.push(letter);
            }
            KeyStroke { code: KeyCode::Backspace, .. } => {
                needle.pop();
            }
            KeyStroke { code: KeyCode::Enter, .. } => {
                let needle = full.needle.take().unwrap_or_default();
                let found = self.with_view(|view, window| view.search(window, &needle));
                self.note_match(found);
            }
            _ => {}
        }
    }

    /// A paste while the transcript has the keys.
    pub(super) fn paste_into_view(&mut self, text: &str) {
        if let Some(needle) = self.full.as_mut().and_then(|full| full.needle.as_mut()) {
            let line = text.lines().next().unwrap_or_default();
            let room = NEEDLE_CHARS_MAX.saturating_sub(needle.chars().count());
            needle.extend(line.chars().take(room));
        }
    }

    fn find_next(&mut self, is_forward: bool) {
        let found = self.with_view(|view, window| view.find_next(window, is_forward));
        self.note_match(found);
    }

    fn note_match(&mut self, found: Option<bool>) {
        if let (Some(full), Some(false)) = (&mut self.full, found) {
            full.note = Some("no match; n: older, N: newer".to_owned());
        }
    }

    fn copy_selected(&mut self) {
        let selected = self.with_view(|view, window| {
            if view.selected().is_none() {
                view.select(window, false);
            }
            view.selected()
        });
        let cell = selected.flatten().and_then(|number| self.transcript.numbered_cell(number));
        let note = match cell.map(|cell| self.config.host.copy_text(&cell.source_text())) {
            Some(Ok(())) => "copied".to_owned(),
            Some(Err(why)) => format!("could not copy: {why}"),
            None => "there is nothing to copy yet".to_owned(),
        };
        if let Some(full) = &mut self.full {
            full.note = Some(note);
        }
    }

    /// Paints the transcript, and below it the input or what keys do.
    pub(super) fn paint_full(&mut self) -> io::Result<()> {
        // The cells are what is shown.
        if self.config.fullscreen {
            self.finished.clear();
        }
        let (below, cursor) = match self.is_transcript_shown() {
            true => (vec![self.render_view_keys()], None),
            false => {
                let (rows, cursor) = self.render_live_area();
                (rows, Some(cursor))
            }
        };
        let Some(full) = &mut self.full else { return Ok(()) };
        let WindowSize { rows, columns } = full.screen.size();
        let gutter = if full.has_keys { GUTTER_COLUMNS } else { 0 };
        let below_first = below.len().saturating_sub(rows);
        let above = rows.saturating_sub(below.len());
        let window = ViewWindow {
            transcript: &self.transcript,
            columns: columns.saturating_sub(gutter + 1),
            rows: above,
        };
        let page = if above > 0 { full.view.page(window) } else { Vec::new() };
        let selected = full.view.selected();
        let stream = &self.config.stream;
        let mark = if self.config.view.ascii || self.config.view.plain { "| " } else { "▌ " };
        let mut picture: Vec<String> = Vec::with_capacity(rows);
        // A short transcript is next to the input, as on any terminal.
        picture.resize(above.saturating_sub(page.len()), String::new());
        picture.extend(page.into_iter().map(|row| match (gutter, Some(row.cell) == selected) {
            (0, _) => row.text,
            (_, true) => format!("{}{}", stream.paint(STRONG, mark), row.text),
            (_, false) => format!("  {}", row.text),
        }));
        let cursor = cursor.map(|CursorPosition { row, column }| CursorPosition {
            row: above + row.saturating_sub(below_first),
            column: column.min(columns.saturating_sub(1)),
        });
        picture.extend(below.into_iter().skip(below_first));
        full.screen.update(&picture, cursor)
    }

    /// The row with the keys of the transcript.
    fn render_view_keys(&self) -> String {
        let Some(full) = &self.full else { return String::new() };
        let columns = full.screen.size().columns.saturating_sub(1);
        let text = match (&full.needle, &full.note) {
            (Some(needle), _) => format!("search: {}_", escape_line(needle)),
            (None, Some(note)) => escape_line(note).into_owned(),
            (None, None) => {
                let end = if full.view.is_at_end() { "end; " } else { "" };
                format!(
                    "{end}q: back; /: search; Tab: select; Enter: fold; O: all; c: copy; arrows, space, b, g, G: move"
                )
            }
        };
        let text = truncate_to_columns(&text, columns);
        self.config.stream.paint(FAINT, &text).into_owned()
    }

    /// Leaves room for another writer below the last rows, on the alternate screen.
    pub(super) fn lend_full_screen(&mut self) -> io::Result<()> {
        let size = self.config.stream.true_window_size();
        let Some(full) = &mut self.full else { return Ok(()) };
        full.view.scroll_to_end();
        let window = ViewWindow {
            transcript: &self.transcript,
            columns: size.columns.saturating_sub(1),
            rows: size.rows / 2,
        };
        let rows: Vec<String> = full.view.page(window).into_iter().map(|row| row.text).collect();
        full.screen.resize(size);
        full.screen.suspend(&rows)
    }

    /// The last rows of the transcript, for the screen that comes back when the chat ends.
    pub(super) fn last_rows(&mut self) -> String {
        let size = self.config.stream.true_window_size();
        let Some(full) = &mut self.full else { return String::new() };
        full.view.scroll_to_end();
        let window = ViewWindow {
            transcript: &self.transcript,
            columns: size.columns.saturating_sub(1),
            rows: size.rows.saturating_sub(4).max(1),
        };
        full.view.page(window).into_iter().map(|row| row.text + "\n").collect()
    }
}
