//! Keys as a terminal sends them: letters, control characters and escape sequences.

/// Longest escape sequence that is taken as one key, in bytes.
const SEQUENCE_BYTES_MAX: usize = 32;

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
    /// A key without a meaning here.
    Unknown,
}

/// Turns the bytes of a terminal into keys.
#[derive(Debug, Default)]
pub struct KeyDecoder {
    pending: Vec<u8>,
}

impl KeyDecoder {
    /// Whether the bytes so far could go on: an Escape alone, or a part of a letter.
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Adds a byte; returns a key if it completes one.
    pub fn push(&mut self, byte: u8) -> Option<Key> {
        self.pending.push(byte);
        let key = match self.pending.as_slice() {
            [0x1b] | [0x1b, b'[' | b'O'] => return None,
            [0x1b, b'[', .., last] | [0x1b, b'O', last] => match last {
                0x40..=0x7e => parse_sequence(&self.pending),
                _ if self.pending.len() < SEQUENCE_BYTES_MAX => return None,
                _ => Key::Unknown,
            },
            // Alt and a key.
            [0x1b, ..] => Key::Unknown,
            [b'\r'] => Key::Enter,
            [0x7f | 0x08] => Key::Backspace,
            [control @ 1..=0x1a] => Key::Ctrl(char::from(control + b'a' - 1)),
            [0 | 0x1c..=0x1f] => Key::Unknown,
            bytes => match std::str::from_utf8(bytes) {
                Ok(text) => text.chars().next().map_or(Key::Unknown, Key::Char),
                Err(error) if error.error_len().is_none() && bytes.len() < 4 => return None,
                Err(_) => Key::Unknown,
            },
        };
        self.pending.clear();
        Some(key)
    }

    /// The key of the bytes so far, if no more follow.
    pub fn finish(&mut self) -> Option<Key> {
        let pending = std::mem::take(&mut self.pending);
        match pending.as_slice() {
            [] => None,
            [0x1b] => Some(Key::Escape),
            _ => Some(Key::Unknown),
        }
    }
}

fn parse_sequence(bytes: &[u8]) -> Key {
    match bytes.get(2..).unwrap_or_default() {
        b"A" => Key::Up,
        b"B" => Key::Down,
        b"C" => Key::Right,
        b"D" => Key::Left,
        b"H" | b"1~" | b"7~" => Key::Home,
        b"F" | b"4~" | b"8~" => Key::End,
        b"3~" => Key::Delete,
        b"5~" => Key::PageUp,
        b"6~" => Key::PageDown,
        _ => Key::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &[Key]) {
        let mut decoder = KeyDecoder::default();
        let mut keys: Vec<Key> = bytes.iter().filter_map(|byte| decoder.push(*byte)).collect();
        keys.extend(decoder.finish());
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
    fn sequence_without_meaning_is_one_key() {
        use Key::*;
        // No part of it may answer a question.
        check(b"\x1b[1;5yn", &[Unknown, Char('n')]);
        check(b"\x1by", &[Unknown]);
        check(b"\x1b[200~y\x1b[201~", &[Unknown, Char('y'), Unknown]);
        check(b"\xff\xfey", &[Unknown, Unknown, Char('y')]);
        check(b"\x1b[", &[Unknown]);
        let long = [b"\x1b[".as_slice(), &[b'1'; SEQUENCE_BYTES_MAX]].concat();
        check(&long, &[Unknown, Char('1'), Char('1')]);
    }
}
