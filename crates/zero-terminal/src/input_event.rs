//! What a terminal sends while the user types: key strokes with their modifiers, pastes, and reports.

/// One piece of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputEvent {
    /// A key was pressed.
    Key(KeyStroke),
    /// Text was pasted; line ends are `\n`.
    Paste(String),
    /// The wheel of the mouse was turned by one step.
    Wheel {
        /// Whether towards what came before.
        is_up: bool,
    },
    /// The terminal's window is now the one that gets the keys.
    FocusGained,
    /// Another window gets the keys.
    FocusLost,
    /// Where the cursor is, as the terminal reports it; counted from 0.
    CursorReport {
        /// The row.
        row: usize,
        /// The column.
        column: usize,
    },
    /// The terminal understands the kitty keyboard protocol.
    KeyboardReport,
    /// What kind of terminal it is. Every terminal answers this question, so an answer to a question
    /// that was asked before has arrived by now, or never will.
    DeviceAttributes,
    /// The color of the terminal's background.
    Background {
        /// Whether dark letters can be read on it.
        is_light: bool,
    },
    /// Something without a meaning here. It never counts as another key.
    Unknown,
}

/// A key with the modifiers that were held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyStroke {
    /// The key.
    pub code: KeyCode,
    /// Whether Ctrl was held.
    pub ctrl: bool,
    /// Whether Alt was held.
    pub alt: bool,
    /// Whether Shift was held; for a character it is already part of the character.
    pub shift: bool,
}

/// A key without modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyCode {
    /// A character. With Ctrl it is a lower-case letter or a sign.
    Char(char),
    /// The key that ends a line.
    Enter,
    /// Goes to the next choice; with Shift to the one before.
    Tab,
    /// Goes back.
    Escape,
    /// Removes the character before the cursor.
    Backspace,
    /// Removes the character after the cursor.
    Delete,
    /// One row up.
    Up,
    /// One row down.
    Down,
    /// One character back.
    Left,
    /// One character on.
    Right,
    /// To the start of the line.
    Home,
    /// To the end of the line.
    End,
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// A function key, from 1.
    Function(u8),
}

impl KeyStroke {
    /// A key without modifiers.
    pub const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    /// Ctrl and a character.
    pub const fn ctrl(letter: char) -> Self {
        Self { ctrl: true, ..Self::plain(KeyCode::Char(letter)) }
    }

    /// Alt and a character.
    pub const fn alt(letter: char) -> Self {
        Self { alt: true, ..Self::plain(KeyCode::Char(letter)) }
    }
}
