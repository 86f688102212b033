//! What the commands of vim's normal mode do to the text.

use super::grapheme::{line_range, next_boundary, previous_boundary, slice, step_forward};
use super::undo_stack::ChangeKind;
use super::vim_mode::{InsertPosition, VimCommand, VimMotion, VimOperator, VimRegister, VimTarget};
use super::vim_motion::{OperatorRange, first_letter, move_by, operator_range};
use super::{Composer, ComposerEvent, PreviousCommand, RowDirection, TEXT_BYTES_MAX};

impl Composer {
    /// Leaves insert mode. Everything that was inserted is undone at once.
    pub(super) fn begin_vim_normal(&mut self) {
        if let Some(vim) = &mut self.vim {
            vim.is_insert = false;
        }
        self.buffer.undo_stack_mut().end_session();
        let (start, cursor) = (self.buffer.line_start(), self.buffer.cursor());
        if cursor > start {
            self.buffer.move_left();
        }
    }

    /// Goes to insert mode, in which all changes are undone at once.
    pub(super) fn begin_vim_insert(&mut self) {
        if let Some(vim) = &mut self.vim {
            vim.begin_insert();
            self.buffer.undo_stack_mut().begin_session();
        }
    }

    /// Runs a command of normal mode.
    pub(super) fn run_vim(&mut self, command: VimCommand) -> ComposerEvent {
        let previous = std::mem::take(&mut self.previous);
        let event = match command {
            VimCommand::Unknown => ComposerEvent::Ignored,
            VimCommand::Pending => ComposerEvent::Edited,
            VimCommand::Submit => ComposerEvent::Submit,
            VimCommand::SubmitNow => ComposerEvent::SubmitNow,
            VimCommand::Unfold => self.unfold(),
            VimCommand::Move(motion, count) => self.move_in_normal(motion, count, previous),
            VimCommand::Operate(operator, target, count) => self.operate(operator, target, count),
            VimCommand::Insert(position) => self.insert_at(position),
            VimCommand::PutAfter(count) => self.put(count, PutSide::After),
            VimCommand::PutBefore(count) => self.put(count, PutSide::Before),
            VimCommand::Replace(letter, count) => self.replace_letters(letter, count),
            VimCommand::Undo(count) => {
                (0..count).take_while(|_| self.buffer.undo()).count();
                ComposerEvent::Edited
            }
            VimCommand::Redo(count) => {
                (0..count).take_while(|_| self.buffer.redo()).count();
                ComposerEvent::Edited
            }
        };
        self.keep_cursor_on_letter();
        event
    }

    /// In normal mode the cursor is on a character, not behind the last one of a line.
    fn keep_cursor_on_letter(&mut self) {
        let is_insert = self.vim.as_ref().is_none_or(|vim| vim.is_insert);
        let cursor = self.buffer.cursor();
        let line = line_range(self.buffer.text(), cursor);
        if !is_insert && cursor == line.end && cursor > line.start {
            let at = previous_boundary(self.buffer.text(), cursor);
            // A walk through the history goes on only while nothing moved the cursor away.
            self.buffer.move_to(at);
        }
    }

    fn move_in_normal(
        &mut self,
        motion: VimMotion,
        count: Option<usize>,
        mut previous: PreviousCommand,
    ) -> ComposerEvent {
        let direction = match motion {
            VimMotion::Up => RowDirection::Up,
            VimMotion::Down => RowDirection::Down,
            _ => {
                let at = move_by(self.buffer.text(), self.buffer.cursor(), motion, count);
                self.buffer.move_to(at);
                return ComposerEvent::Edited;
            }
        };
        let mut event = ComposerEvent::Ignored;
        for _ in 0..count.unwrap_or(1) {
            match self.move_by_row(direction, previous) {
                ComposerEvent::Ignored => break,
                moved => event = moved,
            }
            previous = self.previous;
        }
        event
    }

    fn operate(
        &mut self,
        operator: VimOperator,
        target: VimTarget,
        count: Option<usize>,
    ) -> ComposerEvent {
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        let OperatorRange { range, is_linewise } =
            operator_range(text, cursor, operator, target, count);
        let removed = slice(text, range.clone()).to_owned();
        if let Some(vim) = self.vim.as_mut().filter(|_| is_linewise || !removed.is_empty()) {
            vim.register = VimRegister { text: removed, is_linewise };
        }
        match operator {
            VimOperator::Yank if is_linewise => {}
            VimOperator::Yank => self.buffer.move_to(range.start),
            VimOperator::Change => {
                self.begin_vim_insert();
                self.buffer.replace(range.clone(), "", ChangeKind::Single);
                self.buffer.move_to(range.start);
            }
            VimOperator::Delete if is_linewise => {
                // The line end behind the lines goes too, or the one before the last lines.
                let end = range.end.saturating_add(1);
                let range = match self.buffer.text().len() {
                    length if end <= length => range.start..end,
                    _ => range.start.saturating_sub(1)..range.end,
                };
                self.buffer.replace(range, "", ChangeKind::Single);
                let at = first_letter(self.buffer.text(), self.buffer.cursor());
                self.buffer.move_to(at);
            }
            VimOperator::Delete => self.buffer.replace(range, "", ChangeKind::Single),
        }
        ComposerEvent::Edited
    }

    fn insert_at(&mut self, position: InsertPosition) -> ComposerEvent {
        let is_new_line =
            matches!(position, InsertPosition::NewLineBelow | InsertPosition::NewLineAbove);
        if is_new_line && self.expanded_len() >= TEXT_BYTES_MAX {
            return ComposerEvent::Refused;
        }
        self.begin_vim_insert();
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        let line = line_range(text, cursor);
        match position {
            InsertPosition::BeforeCursor => {}
            InsertPosition::AfterCursor => {
                let at = step_forward(text, cursor, 1);
                self.buffer.move_to(at);
            }
            InsertPosition::FirstLetter => {
                let at = first_letter(text, cursor);
                self.buffer.move_to(at);
            }
            InsertPosition::LineEnd => self.buffer.move_to(line.end),
            InsertPosition::NewLineBelow => {
                self.buffer.replace(line.end..line.end, "\n", ChangeKind::Single);
            }
            InsertPosition::NewLineAbove => {
                self.buffer.replace(line.start..line.start, "\n", ChangeKind::Single);
                self.buffer.move_to(line.start);
            }
        }
        ComposerEvent::Edited
    }

    fn put(&mut self, count: usize, side: PutSide) -> ComposerEvent {
        let Some(register) = self.vim.as_ref().map(|vim| &vim.register) else {
            return ComposerEvent::Ignored;
        };
        let is_linewise = register.is_linewise;
        if register.text.is_empty() && !is_linewise {
            return ComposerEvent::Edited;
        }
        // Measured before it is repeated: a large count must not make a large text.
        let bytes = (self.pastes.expanded_len(&register.text) + 1).saturating_mul(count);
        if self.expanded_len().saturating_add(bytes) > TEXT_BYTES_MAX {
            return ComposerEvent::Refused;
        }
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        let line = line_range(text, cursor);
        let (at, inserted) = match (is_linewise, side) {
            (true, PutSide::After) => (line.end, format!("\n{}", register.text).repeat(count)),
            (true, PutSide::Before) => (line.start, format!("{}\n", register.text).repeat(count)),
            (false, PutSide::After) => (step_forward(text, cursor, 1), register.text.repeat(count)),
            (false, PutSide::Before) => (cursor, register.text.repeat(count)),
        };
        self.buffer.replace(at..at, &inserted, ChangeKind::Single);
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        let at = match (is_linewise, side) {
            (true, PutSide::After) => first_letter(text, next_boundary(text, at)),
            (true, PutSide::Before) => first_letter(text, at),
            (false, _) => previous_boundary(text, cursor),
        };
        self.buffer.move_to(at);
        ComposerEvent::Edited
    }

    fn replace_letters(&mut self, letter: char, count: usize) -> ComposerEvent {
        let (text, cursor) = (self.buffer.text(), self.buffer.cursor());
        let end = step_forward(text, cursor, count);
        let has_enough = cursor < end && step_forward(text, cursor, count - 1) < end;
        if !has_enough {
            return ComposerEvent::Edited;
        }
        let times = if letter == '\n' { 1 } else { count };
        let inserted = letter.to_string().repeat(times);
        let event = self.replace_with_foreign(cursor..end, &inserted);
        if event == ComposerEvent::Edited && letter != '\n' {
            let at = previous_boundary(self.buffer.text(), self.buffer.cursor());
            self.buffer.move_to(at);
        }
        event
    }
}

/// Where the register is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PutSide {
    After,
    Before,
}
