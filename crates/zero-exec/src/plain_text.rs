//! Converts terminal output to plain text.
//!
//! Removes colours, titles, cursor movements and other control characters. A line that was
//! overwritten keeps its last state, and invalid UTF-8 becomes `U+FFFD`. One pass over the bytes;
//! an unterminated sequence hides a bounded number of bytes.

use zero_sandbox::output_collector::StreamSegment;

/// Longest escape sequence in bytes; a longer one is treated as text.
const SEQUENCE_BYTES_MAX: usize = 4_096;

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;
const BACKSPACE: u8 = 0x08;

/// The plain text of a command's output.
pub fn strip(bytes: &[u8]) -> String {
    let mut plain = PlainTextParser::default();
    plain.push(bytes);
    plain.finish()
}

/// The plain text of consecutive segments, whichever stream they came from.
pub fn strip_runs<'a>(runs: impl Iterator<Item = StreamSegment<'a>>) -> String {
    let mut plain = PlainTextParser::default();
    for run in runs {
        plain.push(run.bytes);
    }
    plain.finish()
}

/// The position within an escape sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Text,
    /// After an escape character.
    Escape,
    /// After an escape character and a byte that takes one more.
    EscapeMore,
    /// In a control sequence: parameters up to a final byte.
    Control,
    /// In a string for the terminal, such as a title: up to a bell or `ESC \`.
    Str,
    /// In such a string, after an escape character.
    StrEscape,
}

/// The parser. It keeps the current line separately, so that the line can be overwritten.
#[derive(Debug, Default)]
struct PlainTextParser {
    state: EscapeState,
    /// Bytes of the current sequence so far.
    sequence: usize,
    /// Whether the current string may contain line breaks: an image may, a title or a link may not.
    has_lines: bool,
    done: Vec<u8>,
    line: Vec<u8>,
    /// The last byte was a carriage return.
    returned: bool,
}

impl PlainTextParser {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.push_byte(*byte);
        }
    }

    fn push_byte(&mut self, byte: u8) {
        if self.state != EscapeState::Text {
            self.sequence += 1;
            // A line break or excessive length ends what is not a real sequence.
            let is_endless = self.sequence > SEQUENCE_BYTES_MAX;
            let may_go_on = self.state == EscapeState::Str && self.has_lines;
            if is_endless || (byte == b'\n' && !may_go_on) {
                self.state = EscapeState::Text;
            }
        }
        self.state = match (self.state, byte) {
            (EscapeState::Text, ESCAPE) => {
                self.sequence = 0;
                EscapeState::Escape
            }
            (EscapeState::Text, byte) => {
                self.push_text_byte(byte);
                EscapeState::Text
            }
            (EscapeState::Escape, b'[') => EscapeState::Control,
            (EscapeState::Escape, b']' | b'P' | b'X' | b'^' | b'_') => {
                self.has_lines = byte != b']';
                EscapeState::Str
            }
            (EscapeState::Escape, b' '..=b'/') => EscapeState::EscapeMore,
            (EscapeState::Escape | EscapeState::StrEscape, ESCAPE) => EscapeState::Escape,
            (EscapeState::EscapeMore, b' '..=b'/') => EscapeState::EscapeMore,
            (EscapeState::Escape | EscapeState::EscapeMore, _) => EscapeState::Text,
            (EscapeState::Control, b'@'..=b'~') => EscapeState::Text,
            // A byte that cannot be part of a control sequence ends it.
            (EscapeState::Control, ESCAPE) => EscapeState::Escape,
            (EscapeState::Control, byte) if byte >= 0x80 => {
                self.push_text_byte(byte);
                EscapeState::Text
            }
            (EscapeState::Control, _) => EscapeState::Control,
            (EscapeState::Str, BELL) => EscapeState::Text,
            (EscapeState::Str, ESCAPE) => EscapeState::StrEscape,
            (EscapeState::Str, _) => EscapeState::Str,
            (EscapeState::StrEscape, b'\\') => EscapeState::Text,
            (EscapeState::StrEscape, _) => EscapeState::Str,
        };
    }

    fn push_text_byte(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.returned = false;
                self.done.append(&mut self.line);
                self.done.push(b'\n');
            }
            b'\r' => self.returned = true,
            BACKSPACE => {
                // Removes a whole character.
                while self.line.pop_if(|byte| (0x80..0xc0).contains(byte)).is_some() {}
                self.line.pop();
            }
            b'\t' => self.write_byte(byte),
            0..0x20 | 0x7f => {}
            byte => self.write_byte(byte),
        }
    }

    fn write_byte(&mut self, byte: u8) {
        if std::mem::take(&mut self.returned) {
            // A carriage return restarts the line.
            self.line.clear();
        }
        self.line.push(byte);
    }

    fn finish(mut self) -> String {
        self.done.append(&mut self.line);
        let text = String::from_utf8_lossy(&self.done);
        // Removes the two-byte control characters.
        text.chars().filter(|letter| !('\u{80}'..='\u{9f}').contains(letter)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(bytes: impl AsRef<[u8]>, expected: &str) {
        assert_eq!(
            strip(bytes.as_ref()),
            expected,
            "{:?}",
            String::from_utf8_lossy(bytes.as_ref())
        );
    }

    #[test]
    fn terminal_sequences_are_removed() {
        check("plain\ntext\n", "plain\ntext\n");
        check("a\tb", "a\tb");
        check("\x1b[1;31mred\x1b[0m", "red");
        check("\x1b[38;2;1;2;3mtrue colour\x1b[m", "true colour");
        check("\x1b[2J\x1b[H\x1b[?25lscreen", "screen");
        check("\x1b]0;title\x07text", "text");
        check("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1bP1;2|device\x1b\\x", "x");
        check("\x1b_application\x1b\\x", "x");
        check("\x1b(Bcharset\x1b=keypad\x1bM", "charsetkeypad");
        check("\x1b\x1b[1mtwice", "twice");
        check("be\x07ll \x00null \x7fdel", "bell null del");
        check("c1 \u{9b}31m", "c1 31m");
    }

    #[test]
    fn overwritten_line_keeps_last_state() {
        check("10%\r50%\r100%\ndone\n", "100%\ndone\n");
        check("windows\r\nlines\r\n", "windows\nlines\n");
        check("10%\r50%\r", "50%");
        check("a\r\r\nb", "a\nb");
        check("x\r\x1b[Ky", "y");
        check("abc\x08\x08d", "ad");
        check("é\x08e", "e");
        check("\x08a", "a");
    }

    #[test]
    fn invalid_utf8_is_kept_where_possible() {
        check(b"a\xffb\xc3", "a\u{fffd}b\u{fffd}");
        check(b"\xe2\x82\xac", "€");
    }

    #[test]
    fn unterminated_sequence_does_not_hide_text() {
        check("\x1b[31\nshown", "\nshown");
        check("\x1b]0;title\nshown", "\nshown");
        check("\x1bPpicture\nof lines\x1b\\shown", "shown");
        check(format!("\x1b]0;{}\nend", "x".repeat(SEQUENCE_BYTES_MAX)), "xxx\nend");
        check("cut \x1b[3", "cut ");
        check("cut \x1b", "cut ");
    }

    proptest! {
        #[test]
        fn output_contains_no_control_characters(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let plain = strip(&bytes);
            prop_assert!(plain.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{plain:?}");
            prop_assert_eq!(strip(plain.as_bytes()), plain);
        }

        #[test]
        fn splitting_the_input_does_not_change_the_text(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0_usize..100) {
            let mut plain = PlainTextParser::default();
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            plain.push(first);
            plain.push(second);
            prop_assert_eq!(plain.finish(), strip(&bytes));
        }
    }
}
