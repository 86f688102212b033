//! The editor for what the user types: several lines, undo, history, folded pastes, Emacs and vim keys.
//!
//! It is a pure state machine: keys and pastes go in, rows to show come out. It reads no clock and no file
//! and writes nothing. Every part of it has a bound, and a key costs the same in a large text, except for
//! moving bytes: rows are made only around the cursor.

mod cluster_display;
mod completion_token;
mod edit_command;
mod folded_paste;
mod grapheme;
mod history_edit;
mod kill_ring;
mod prompt_history;
mod row_layout;
#[cfg(test)]
mod tests;
mod text_buffer;
mod undo_stack;
mod vim_edit;
mod vim_mode;
mod vim_motion;
mod word_motion;

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;

use zero_terminal::input_event::{KeyCode, KeyStroke};

pub use self::completion_token::{CompletionToken, CompletionTokenKind};
use self::edit_command::{EditCommand, command_of};
use self::folded_paste::{PasteTable, has_token_chars, is_long_paste, is_token};
use self::grapheme::slice;
use self::kill_ring::{KillDirection, KillRing};
use self::prompt_history::{HistorySearch, HistoryWalk, PromptHistory};
pub use self::row_layout::ComposerLayout;
use self::row_layout::RowLayout;
use self::text_buffer::TextBuffer;
use self::undo_stack::ChangeKind;
use self::vim_mode::VimMode;
use self::word_motion::{big_word_left, word_left, word_right};

/// Most bytes of a text, pastes included. Input that would exceed this is rejected and changes
/// nothing.
pub const TEXT_BYTES_MAX: usize = 2 << 20;
/// Columns that rows are assumed to have before the first layout.
const COLUMNS_USUAL: usize = 80;

/// A text that is being written, with its cursor, its past and what was sent before.
#[derive(Debug)]
pub struct Composer {
    buffer: TextBuffer,
    pastes: PasteTable,
    kill_ring: KillRing,
    history: PromptHistory,
    walk: Option<HistoryWalk>,
    search: Option<HistorySearch>,
    /// `None` with Emacs keys.
    vim: Option<VimMode>,
    previous: PreviousCommand,
    /// Columns of the last layout: the keys up and down move in its rows.
    columns: Cell<usize>,
}

/// Which keys the editor understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditMode {
    /// Keys insert text; Ctrl and Alt make commands of them.
    #[default]
    Emacs,
    /// Escape leads to a mode in which keys are commands.
    Vim,
}

/// What a key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComposerEvent {
    /// The text, the cursor or the mode may have changed.
    Edited,
    /// The user is done: [`Composer::take`] returns the text.
    Submit,
    /// The same, and what is running should not be waited for.
    SubmitNow,
    /// The key means nothing to the editor.
    Ignored,
    /// The user left a search of the history; the text is as before.
    Abandoned,
    /// The text would be longer than [`TEXT_BYTES_MAX`]. Nothing has changed.
    Refused,
}

/// What the command before this one was, where it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PreviousCommand {
    /// Text was cut: the next cut belongs to it.
    Kill,
    /// Text that was cut was inserted, from here to the cursor.
    Yank { start: usize },
    /// The cursor moved by rows and would be in this column if each row were long enough.
    RowMove { column: usize },
    #[default]
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowDirection {
    Up,
    Down,
}

impl Composer {
    /// An empty editor. The history is oldest first; of more than 1,000 entries the newest are used.
    pub fn new(history: Vec<String>, mode: EditMode) -> Self {
        let mut composer = Self {
            buffer: TextBuffer::default(),
            pastes: PasteTable::default(),
            kill_ring: KillRing::default(),
            history: PromptHistory::new(history),
            walk: None,
            search: None,
            vim: (mode == EditMode::Vim).then(VimMode::new),
            previous: PreviousCommand::Other,
            columns: Cell::new(COLUMNS_USUAL),
        };
        composer.begin_vim_insert();
        composer
    }

    /// Applies a key.
    pub fn apply(&mut self, stroke: KeyStroke) -> ComposerEvent {
        if let Some(event) = self.apply_to_search(stroke) {
            return event;
        }
        match &mut self.vim {
            Some(vim) if !vim.is_insert => {
                let command = vim.read_key(stroke);
                return self.run_vim(command);
            }
            Some(_) if stroke == KeyStroke::plain(KeyCode::Escape) => {
                self.previous = PreviousCommand::Other;
                self.begin_vim_normal();
                return ComposerEvent::Edited;
            }
            Some(_) | None => {}
        }
        let previous = std::mem::take(&mut self.previous);
        command_of(stroke).map_or(ComposerEvent::Ignored, |command| self.run(command, previous))
    }

    /// Inserts a paste at the cursor. One of more than 8 lines or 1,000 characters becomes a token that is
    /// moved over and removed as one character; Ctrl-O shows its text. Returns [`ComposerEvent::Edited`]
    /// or [`ComposerEvent::Refused`].
    pub fn paste(&mut self, text: &str) -> ComposerEvent {
        self.accept_search();
        self.previous = PreviousCommand::Other;
        let at = self.buffer.cursor();
        if self.expanded_len().saturating_add(text.len()) > TEXT_BYTES_MAX {
            return ComposerEvent::Refused;
        }
        // With too many tokens already, a paste is inserted as it is.
        match Some(text).filter(|text| is_long_paste(text)).and_then(|text| self.fold(text)) {
            Some(token) => {
                self.buffer.replace(at..at, token.encode_utf8(&mut [0; 4]), ChangeKind::Single);
                ComposerEvent::Edited
            }
            None => self.replace_with_foreign(at..at, text),
        }
    }

    /// The text, with pastes expanded.
    pub fn text(&self) -> String {
        self.pastes.expand(self.buffer.text())
    }

    /// Replaces the text, such as by a draft or by what an editor returned. The cursor is at its end. It can
    /// be undone. Returns [`ComposerEvent::Edited`] or [`ComposerEvent::Refused`].
    pub fn set_text(&mut self, text: &str) -> ComposerEvent {
        self.search = None;
        self.previous = PreviousCommand::Other;
        self.replace_with_foreign(0..self.buffer.text().len(), text)
    }

    /// Removes the text. It can be undone.
    pub fn clear(&mut self) {
        self.search = None;
        self.walk = None;
        self.previous = PreviousCommand::Other;
        self.buffer.replace_all("", 0);
        self.begin_vim_insert();
    }

    /// Removes and returns the text, with pastes expanded, and adds it to the history. The undo history becomes empty.
    pub fn take(&mut self) -> String {
        let text = self.text();
        self.history.push(text.clone());
        self.clear();
        self.buffer.forget_undo();
        self.begin_vim_insert();
        self.release_pastes();
        text
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.buffer.text().is_empty()
    }

    /// The rows around the cursor, at most `rows_max` and at least one. Fewer than 8 columns count as 8.
    pub fn layout(&self, columns: usize, rows_max: usize) -> ComposerLayout {
        self.columns.set(columns);
        match &self.search {
            Some(search) => self.layout_search(search, columns, rows_max),
            None => self.rows().rows_around(self.buffer.cursor(), rows_max),
        }
    }

    /// The word before the cursor that can be completed.
    pub fn completion_token(&self) -> Option<CompletionToken> {
        let takes_text = self.vim.as_ref().is_none_or(|vim| vim.is_insert) && self.search.is_none();
        let find = || completion_token::find_token(self.buffer.text(), self.buffer.cursor());
        takes_text.then(find).flatten()
    }

    /// Replaces the word that [`Composer::completion_token`] returns, including its `/` or `@` and an opening
    /// quotation mark. A quotation mark after the cursor is replaced by one at the end of `replacement`.
    pub fn complete(&mut self, replacement: &str) -> ComposerEvent {
        let Some(CompletionToken { mut range, is_quoted, .. }) = self.completion_token() else {
            return ComposerEvent::Ignored;
        };
        if is_quoted && replacement.ends_with('"') && self.buffer.char_after() == Some('"') {
            range.end += 1;
        }
        self.previous = PreviousCommand::Other;
        self.replace_with_foreign(range, replacement)
    }

    /// The mode of vim, to be shown: `INSERT` or `NORMAL`; `None` with Emacs keys.
    pub fn mode_label(&self) -> Option<&'static str> {
        let vim = self.vim.as_ref()?;
        Some(if vim.is_insert { "INSERT" } else { "NORMAL" })
    }

    fn run(&mut self, command: EditCommand, previous: PreviousCommand) -> ComposerEvent {
        use EditCommand::*;
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        let (line_start, line_end) = (self.buffer.line_start(), self.buffer.line_end());
        match command {
            Insert(letter) => return self.type_letter(letter),
            InsertNewline => return self.type_letter('\n'),
            EraseBack => self.buffer.erase_back(),
            EraseForwardIfAny if text.is_empty() => return ComposerEvent::Ignored,
            EraseForward | EraseForwardIfAny => self.buffer.erase_forward(),
            MoveLeft => self.buffer.move_left(),
            MoveRight => self.buffer.move_right(),
            MoveUp => return self.move_by_row(RowDirection::Up, previous),
            MoveDown => return self.move_by_row(RowDirection::Down, previous),
            MoveToLineStart => self.buffer.move_to(line_start),
            MoveToLineEnd => self.buffer.move_to(line_end),
            MoveToStart => self.buffer.move_to(0),
            MoveToEnd => self.buffer.move_to(usize::MAX),
            MoveWordLeft => self.buffer.move_to(word_left(text, cursor)),
            MoveWordRight => self.buffer.move_to(word_right(text, cursor)),
            KillWordLeft => self.kill(word_left(text, cursor), previous),
            KillBigWordLeft => self.kill(big_word_left(text, cursor), previous),
            KillWordRight => self.kill(word_right(text, cursor), previous),
            // At the edge of a line, its line end is cut, so that the key can be repeated.
            KillToLineStart if cursor == line_start => {
                self.kill(cursor.saturating_sub(1), previous)
            }
            KillToLineStart => self.kill(line_start, previous),
            KillToLineEnd if cursor == line_end => self.kill(cursor + 1, previous),
            KillToLineEnd => self.kill(line_end, previous),
            Yank => return self.yank(),
            YankOlder => return self.yank_older(previous),
            Undo => _ = self.buffer.undo(),
            Redo => _ = self.buffer.redo(),
            Unfold => return self.unfold(),
            SearchHistory => self.search = Some(HistorySearch::default()),
            Submit if self.buffer.char_before() == Some('\\') => {
                self.buffer.replace(cursor - 1..cursor, "\n", ChangeKind::Single);
            }
            Submit => return ComposerEvent::Submit,
            SubmitNow => return ComposerEvent::SubmitNow,
        }
        ComposerEvent::Edited
    }

    fn type_letter(&mut self, letter: char) -> ComposerEvent {
        if self.expanded_len() + letter.len_utf8() > TEXT_BYTES_MAX {
            return ComposerEvent::Refused;
        }
        let mut bytes = [0; 4];
        let typed = letter.encode_utf8(&mut bytes);
        if is_token(letter) {
            return self.paste(typed);
        }
        self.buffer.insert(typed, ChangeKind::Typed);
        ComposerEvent::Edited
    }

    /// Replaces a part of the text by text from elsewhere, in which no character is a token.
    fn replace_with_foreign(&mut self, range: Range<usize>, text: &str) -> ComposerEvent {
        let removed = self.pastes.expanded_len(slice(self.buffer.text(), range.clone()));
        if (self.expanded_len() - removed).saturating_add(text.len()) > TEXT_BYTES_MAX {
            return ComposerEvent::Refused;
        }
        let Some(text) = self.protect(text) else { return ComposerEvent::Refused };
        self.buffer.replace(range, &text, ChangeKind::Single);
        ComposerEvent::Edited
    }

    /// A text in which each token is one of ours: with others in it, it becomes a token itself.
    fn protect<'a>(&mut self, text: &'a str) -> Option<Cow<'a, str>> {
        match has_token_chars(text) {
            true => self.fold(text).map(|token| Cow::Owned(token.to_string())),
            false => Some(Cow::Borrowed(text)),
        }
    }

    fn fold(&mut self, text: &str) -> Option<char> {
        if self.pastes.is_full(text.len()) {
            self.release_pastes();
        }
        if self.pastes.is_full(text.len()) {
            self.buffer.forget_undo();
            self.begin_undo_session();
            self.kill_ring = KillRing::default();
            self.release_pastes();
        }
        self.pastes.fold(text)
    }

    /// Forgetting what can be undone also ends the group of vim's insert mode: it begins again.
    fn begin_undo_session(&mut self) {
        if self.vim.as_ref().is_some_and(|vim| vim.is_insert) {
            self.buffer.undo_stack_mut().begin_session();
        }
    }

    /// Releases pastes that nothing refers to.
    fn release_pastes(&mut self) {
        let texts = [self.buffer.text()].into_iter();
        let texts = texts.chain(self.buffer.undo_stack().texts()).chain(self.kill_ring.texts());
        let texts = texts.chain(self.walk.as_ref().map(|walk| walk.draft.as_str()));
        let texts = texts.chain(self.vim.as_ref().map(|vim| vim.register.text.as_str()));
        self.pastes.retain_used(texts);
    }

    fn expanded_len(&self) -> usize {
        self.pastes.expanded_len(self.buffer.text())
    }

    /// Cuts from the cursor to a position.
    fn kill(&mut self, to: usize, previous: PreviousCommand) {
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        let to = to.min(text.len());
        let direction = if to < cursor { KillDirection::Back } else { KillDirection::Forward };
        let range = cursor.min(to)..cursor.max(to);
        let cut = slice(text, range.clone()).to_owned();
        self.previous = PreviousCommand::Kill;
        match previous {
            _ if cut.is_empty() => self.previous = previous,
            PreviousCommand::Kill => self.kill_ring.extend(cut, direction),
            _ => self.kill_ring.push(cut),
        }
        self.buffer.replace(range, "", ChangeKind::Single);
    }

    fn yank(&mut self) -> ComposerEvent {
        let Some(text) = self.kill_ring.last() else { return ComposerEvent::Edited };
        if self.expanded_len() + self.pastes.expanded_len(text) > TEXT_BYTES_MAX {
            return ComposerEvent::Refused;
        }
        self.previous = PreviousCommand::Yank { start: self.buffer.cursor() };
        self.buffer.insert(text, ChangeKind::Single);
        ComposerEvent::Edited
    }

    fn yank_older(&mut self, previous: PreviousCommand) -> ComposerEvent {
        let PreviousCommand::Yank { start } = previous else { return ComposerEvent::Edited };
        let range = start..self.buffer.cursor();
        let removed = self.pastes.expanded_len(slice(self.buffer.text(), range.clone()));
        let kept = self.expanded_len() - removed;
        self.previous = previous;
        let Some(text) = self.kill_ring.rotate() else { return ComposerEvent::Edited };
        if kept + self.pastes.expanded_len(text) > TEXT_BYTES_MAX {
            return ComposerEvent::Refused;
        }
        self.buffer.replace(range, text, ChangeKind::Single);
        ComposerEvent::Edited
    }

    /// Replaces the token after the cursor, or else the one before it, by its text.
    fn unfold(&mut self) -> ComposerEvent {
        let cursor = self.buffer.cursor();
        let after = self.buffer.char_after().map(|letter| (cursor, letter));
        let before = self.buffer.char_before().map(|letter| (cursor - letter.len_utf8(), letter));
        let token = [after, before].into_iter().flatten().find(|(_, letter)| is_token(*letter));
        let Some((at, token)) = token else { return ComposerEvent::Ignored };
        if let Some(paste) = self.pastes.paste(token).filter(|paste| !has_token_chars(paste)) {
            self.buffer.replace(at..at + token.len_utf8(), paste, ChangeKind::Single);
        }
        ComposerEvent::Edited
    }

    fn rows(&self) -> RowLayout<'_> {
        RowLayout::new(self.buffer.text(), &self.pastes, self.columns.get())
    }
}
