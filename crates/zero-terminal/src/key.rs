//! The keys that a question knows: letters, control characters and those that move.

use super::input_event::{InputEvent, KeyCode, KeyStroke};

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// The key that ends a line.
    Enter,
    /// Ctrl and a letter, in lower case.
    Ctrl(char),
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
    /// No key: the window has another size, or keys count from now on, so that what is shown has to be
    /// painted again.
    Repaint,
    /// A key without a meaning here.
    Unknown,
}

/// The keys of an input event. Input without a meaning at a question becomes one key without a meaning, so
/// that no letter of it can answer.
pub(crate) fn into_keys(event: InputEvent) -> Vec<Key> {
    match event {
        InputEvent::Key(stroke) => vec![to_key(stroke)],
        // The marks around a paste keep it from being the answer of one key.
        InputEvent::Paste(text) => {
            let letters = text.chars().map(|letter| match letter {
                '\n' => Key::Ctrl('j'),
                letter => Key::Char(letter),
            });
            [Key::Unknown].into_iter().chain(letters).chain([Key::Unknown]).collect()
        }
        InputEvent::Unknown => vec![Key::Unknown],
        InputEvent::Wheel { .. }
        | InputEvent::FocusGained
        | InputEvent::FocusLost
        | InputEvent::CursorReport { .. }
        | InputEvent::KeyboardReport
        | InputEvent::DeviceAttributes
        | InputEvent::Background { .. } => Vec::new(),
    }
}

fn to_key(stroke: KeyStroke) -> Key {
    let KeyStroke { code, ctrl, alt, shift } = stroke;
    if let (KeyCode::Char(letter @ 'a'..='z'), true, false) = (code, ctrl, alt) {
        return Key::Ctrl(letter);
    }
    if ctrl || alt || (shift && !matches!(code, KeyCode::Char(_))) {
        return Key::Unknown;
    }
    match code {
        KeyCode::Char(letter) => Key::Char(letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Tab => Key::Ctrl('i'),
        KeyCode::Escape => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Function(_) => Key::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input_decoder::InputDecoder;

    #[track_caller]
    fn check(bytes: &[u8], expected: &[Key]) {
        let mut decoder = InputDecoder::default();
        let mut events = Vec::new();
        decoder.push(bytes, &mut events);
        events.extend(decoder.finish());
        let keys: Vec<Key> = events.into_iter().flat_map(into_keys).collect();
        assert_eq!(keys, expected, "{bytes:?}");
        assert!(!decoder.is_pending());
    }

    #[test]
    fn bytes_become_keys() {
        use Key::*;
        check(b"y\r", &[Char('y'), Enter]);
        check("ü界".as_bytes(), &[Char('ü'), Char('界')]);
        check(b"\x1b", &[Escape]);
        check(b"\x03\x04\n", &[Ctrl('c'), Ctrl('d'), Ctrl('j')]);
        check(b"\x7f\x08", &[Backspace, Backspace]);
        check(b"\x1b[A\x1b[B\x1bOC\x1b[D", &[Up, Down, Right, Left]);
        check(b"\x1b[5~\x1b[6~\x1b[3~\x1b[1~\x1b[F", &[PageUp, PageDown, Delete, Home, End]);
    }

    #[test]
    fn unknown_sequence_is_one_key() {
        use Key::*;
        // No part of it may answer a question.
        check(b"\x1b[1;5yn", &[Unknown, Char('n')]);
        check(b"\x1by", &[Unknown]);
        check(b"\x1b[200~y\x1b[201~", &[Unknown, Char('y'), Unknown]);
        check(b"\xff\xfey", &[Unknown, Unknown, Char('y')]);
        check(b"\x1b[", &[Unknown]);
        check(b"\x1b[13;5u\x1b[121;5u", &[Unknown, Ctrl('y')]);
        // Reports of the terminal are no keys at all.
        check(b"\x1b[I\x1b[O\x1b[<64;1;1M", &[]);
    }
}
