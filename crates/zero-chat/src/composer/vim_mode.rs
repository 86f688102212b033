//! The keys of vim's normal mode, read into commands: counts, operators, motions and text objects.
//!
//! Only keys are read here. `vim_edit.rs` applies the commands to a text.

use zero_terminal::input_event::{KeyCode, KeyStroke};

use super::word_motion::WordKind;

/// Largest count.
const COUNT_MAX: usize = 9_999;

/// What vim knows between keys.
#[derive(Debug)]
pub(super) struct VimMode {
    /// Whether keys insert text.
    pub(super) is_insert: bool,
    /// What was deleted or copied last.
    pub(super) register: VimRegister,
    count: Option<usize>,
    operator: Option<(VimOperator, usize)>,
    prefix: Option<KeyPrefix>,
}

/// Text that `p` inserts.
#[derive(Debug, Default)]
pub(super) struct VimRegister {
    /// The text; without its last line end if it is whole lines.
    pub(super) text: String,
    /// Whether it is whole lines.
    pub(super) is_linewise: bool,
}

/// Keys that need another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyPrefix {
    /// `g`
    Go,
    /// `r`
    Replace,
    /// `i` after an operator.
    Inner,
    /// `a` after an operator.
    Around,
}

/// What is done with a part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VimOperator {
    /// `d`
    Delete,
    /// `c`
    Change,
    /// `y`
    Yank,
}

/// Where the cursor goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VimMotion {
    /// `h`
    Left,
    /// `l`
    Right,
    /// `k`
    Up,
    /// `j`
    Down,
    /// `w` or `W`
    NextWord(WordKind),
    /// `b` or `B`
    PreviousWord(WordKind),
    /// `e` or `E`
    WordEnd(WordKind),
    /// `0`
    LineStart,
    /// `^`
    FirstLetter,
    /// `$`
    LineEnd,
    /// `gg`, or the line of a count.
    TextStart,
    /// `G`, or the line of a count.
    TextEnd,
}

/// What an operator is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VimTarget {
    /// From the cursor to where a motion leads.
    Motion(VimMotion),
    /// Whole lines: `dd`.
    Lines,
    /// The word at the cursor: `iw`.
    InnerWord,
    /// The word with the blanks around it: `aw`.
    AroundWord,
}

/// Where text is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InsertPosition {
    /// `i`
    BeforeCursor,
    /// `a`
    AfterCursor,
    /// `I`
    FirstLetter,
    /// `A`
    LineEnd,
    /// `o`
    NewLineBelow,
    /// `O`
    NewLineAbove,
}

/// A command of normal mode; a count is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VimCommand {
    /// Moves the cursor. `None` is no count, which `gg` and `G` tell apart from 1.
    Move(VimMotion, Option<usize>),
    /// Applies an operator.
    Operate(VimOperator, VimTarget, Option<usize>),
    /// Goes to insert mode.
    Insert(InsertPosition),
    /// Inserts the register after the cursor.
    PutAfter(usize),
    /// Inserts the register before the cursor.
    PutBefore(usize),
    /// Replaces characters by one.
    Replace(char, usize),
    /// Undoes changes.
    Undo(usize),
    /// Makes them again.
    Redo(usize),
    /// Shows a folded paste.
    Unfold,
    /// Ends the input.
    Submit,
    /// Ends the input and interrupts what is running.
    SubmitNow,
    /// The key was read, and more are needed or none make sense of it.
    Pending,
    /// The key means nothing here.
    Unknown,
}

impl VimMode {
    /// Insert mode, as at the start of each prompt.
    pub(super) fn new() -> Self {
        Self {
            is_insert: true,
            register: VimRegister::default(),
            count: None,
            operator: None,
            prefix: None,
        }
    }

    /// Goes to insert mode and forgets keys that were read.
    pub(super) fn begin_insert(&mut self) {
        self.is_insert = true;
        self.forget_keys();
    }

    fn forget_keys(&mut self) {
        (self.count, self.operator, self.prefix) = (None, None, None);
    }

    /// Reads a key of normal mode.
    pub(super) fn read_key(&mut self, stroke: KeyStroke) -> VimCommand {
        let has_keys = self.count.is_some() || self.operator.is_some() || self.prefix.is_some();
        let command = match self.prefix.take() {
            Some(prefix) => self.read_after_prefix(prefix, stroke),
            None => self.read_command(stroke),
        };
        match command {
            VimCommand::Pending => {}
            VimCommand::Unknown => {
                self.forget_keys();
                // A key that ends a command which cannot be completed does only that.
                if has_keys && !stroke.ctrl && !stroke.alt {
                    return VimCommand::Pending;
                }
            }
            _ => self.forget_keys(),
        }
        command
    }

    fn read_command(&mut self, stroke: KeyStroke) -> VimCommand {
        let KeyStroke { code, ctrl, alt, .. } = stroke;
        let count = self.total_count();
        let times = count.unwrap_or(1);
        match code {
            KeyCode::Enter if ctrl => VimCommand::SubmitNow,
            KeyCode::Enter if !alt && !stroke.shift => VimCommand::Submit,
            KeyCode::Char('r') if ctrl => VimCommand::Redo(times),
            KeyCode::Char('z' | '_' | '/') if ctrl && !stroke.shift => VimCommand::Undo(times),
            KeyCode::Char('o') if ctrl => VimCommand::Unfold,
            _ if ctrl || alt => VimCommand::Unknown,
            KeyCode::Char(digit @ '0'..='9') if digit != '0' || self.count.is_some() => {
                let digit = digit.to_digit(10).map_or(0, |digit| digit as usize);
                self.count = Some((self.count.unwrap_or(0) * 10 + digit).min(COUNT_MAX));
                VimCommand::Pending
            }
            _ => match (read_motion(code), self.operator) {
                (Some(motion), Some((operator, _))) => {
                    VimCommand::Operate(operator, VimTarget::Motion(motion), count)
                }
                (Some(motion), None) => VimCommand::Move(motion, count),
                (None, Some((operator, _))) => self.read_target(operator, code, count),
                (None, None) => self.read_action(code, count),
            },
        }
    }

    /// A key after an operator that is not a motion.
    fn read_target(
        &mut self,
        operator: VimOperator,
        code: KeyCode,
        count: Option<usize>,
    ) -> VimCommand {
        self.prefix = match code {
            KeyCode::Char('g') => Some(KeyPrefix::Go),
            KeyCode::Char('i') => Some(KeyPrefix::Inner),
            KeyCode::Char('a') => Some(KeyPrefix::Around),
            _ => None,
        };
        match (operator, code) {
            _ if self.prefix.is_some() => VimCommand::Pending,
            (VimOperator::Delete, KeyCode::Char('d'))
            | (VimOperator::Change, KeyCode::Char('c'))
            | (VimOperator::Yank, KeyCode::Char('y')) => {
                VimCommand::Operate(operator, VimTarget::Lines, count)
            }
            _ => VimCommand::Unknown,
        }
    }

    fn read_action(&mut self, code: KeyCode, count: Option<usize>) -> VimCommand {
        use VimOperator::{Change, Delete, Yank};
        let times = count.unwrap_or(1);
        let operate =
            |operator, motion| VimCommand::Operate(operator, VimTarget::Motion(motion), count);
        let letter = match code {
            KeyCode::Char(letter) => letter,
            KeyCode::Delete => return operate(Delete, VimMotion::Right),
            _ => return VimCommand::Unknown,
        };
        match letter {
            'd' | 'c' | 'y' => {
                let operator = match letter {
                    'd' => Delete,
                    'c' => Change,
                    _ => Yank,
                };
                self.operator = Some((operator, self.count.take().unwrap_or(0)));
                VimCommand::Pending
            }
            'g' => self.wait_for(KeyPrefix::Go),
            'r' => self.wait_for(KeyPrefix::Replace),
            'x' => operate(Delete, VimMotion::Right),
            'X' => operate(Delete, VimMotion::Left),
            'D' => operate(Delete, VimMotion::LineEnd),
            'C' => operate(Change, VimMotion::LineEnd),
            's' => operate(Change, VimMotion::Right),
            'S' => VimCommand::Operate(Change, VimTarget::Lines, count),
            'Y' => VimCommand::Operate(Yank, VimTarget::Lines, count),
            'p' => VimCommand::PutAfter(times),
            'P' => VimCommand::PutBefore(times),
            'u' => VimCommand::Undo(times),
            'i' => VimCommand::Insert(InsertPosition::BeforeCursor),
            'a' => VimCommand::Insert(InsertPosition::AfterCursor),
            'I' => VimCommand::Insert(InsertPosition::FirstLetter),
            'A' => VimCommand::Insert(InsertPosition::LineEnd),
            'o' => VimCommand::Insert(InsertPosition::NewLineBelow),
            'O' => VimCommand::Insert(InsertPosition::NewLineAbove),
            _ => VimCommand::Unknown,
        }
    }

    fn wait_for(&mut self, prefix: KeyPrefix) -> VimCommand {
        self.prefix = Some(prefix);
        VimCommand::Pending
    }

    fn read_after_prefix(&mut self, prefix: KeyPrefix, stroke: KeyStroke) -> VimCommand {
        let count = self.total_count();
        let operator = self.operator.map(|(operator, _)| operator);
        match (prefix, stroke.code, operator) {
            _ if stroke.ctrl || stroke.alt => VimCommand::Unknown,
            (KeyPrefix::Replace, KeyCode::Char(letter), _) => {
                VimCommand::Replace(letter, count.unwrap_or(1))
            }
            (KeyPrefix::Replace, KeyCode::Enter, _) => {
                VimCommand::Replace('\n', count.unwrap_or(1))
            }
            (KeyPrefix::Go, KeyCode::Char('g'), None) => {
                VimCommand::Move(VimMotion::TextStart, count)
            }
            (KeyPrefix::Go, KeyCode::Char('g'), Some(operator)) => {
                VimCommand::Operate(operator, VimTarget::Motion(VimMotion::TextStart), count)
            }
            (KeyPrefix::Inner, KeyCode::Char('w'), Some(operator)) => {
                VimCommand::Operate(operator, VimTarget::InnerWord, count)
            }
            (KeyPrefix::Around, KeyCode::Char('w'), Some(operator)) => {
                VimCommand::Operate(operator, VimTarget::AroundWord, count)
            }
            _ => VimCommand::Unknown,
        }
    }

    /// The counts before and after an operator, multiplied.
    fn total_count(&self) -> Option<usize> {
        let before = self.operator.map(|(_, count)| count).filter(|count| *count > 0);
        match (before, self.count) {
            (Some(before), count) => Some((before * count.unwrap_or(1)).min(COUNT_MAX)),
            (None, count) => count,
        }
    }
}

fn read_motion(code: KeyCode) -> Option<VimMotion> {
    Some(match code {
        KeyCode::Char('h') | KeyCode::Left | KeyCode::Backspace => VimMotion::Left,
        KeyCode::Char('l' | ' ') | KeyCode::Right => VimMotion::Right,
        KeyCode::Char('k') | KeyCode::Up => VimMotion::Up,
        KeyCode::Char('j') | KeyCode::Down => VimMotion::Down,
        KeyCode::Char('w') => VimMotion::NextWord(WordKind::Small),
        KeyCode::Char('W') => VimMotion::NextWord(WordKind::Big),
        KeyCode::Char('b') => VimMotion::PreviousWord(WordKind::Small),
        KeyCode::Char('B') => VimMotion::PreviousWord(WordKind::Big),
        KeyCode::Char('e') => VimMotion::WordEnd(WordKind::Small),
        KeyCode::Char('E') => VimMotion::WordEnd(WordKind::Big),
        KeyCode::Char('0') | KeyCode::Home => VimMotion::LineStart,
        KeyCode::Char('^') => VimMotion::FirstLetter,
        KeyCode::Char('$') | KeyCode::End => VimMotion::LineEnd,
        KeyCode::Char('G') => VimMotion::TextEnd,
        _ => return None,
    })
}
