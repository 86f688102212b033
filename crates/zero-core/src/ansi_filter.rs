//! Removes terminal control sequences from the output of a command.
//!
//! Sequences that set the title, the clipboard or a mode, or that make the terminal reply, are removed.
//! Colours pass only to a terminal; plain text keeps the last state of an overwritten line. The text
//! arrives in pieces, and a sequence may be cut anywhere. An unterminated sequence hides at most
//! `SEQUENCE_CHARS_MAX` characters.

use std::mem;

/// Longest sequence, in characters; anything longer is text.
const SEQUENCE_CHARS_MAX: usize = 4_096;
/// Longest sequence that is passed on to a terminal, in characters.
const STYLE_CHARS_MAX: usize = 32;

/// Which sequences pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsiFilterMode {
    /// Colours and cursor moves within the text, for a terminal.
    Styled,
    /// None. An overwritten line keeps only its last state.
    PlainText,
}

/// Filters text that arrives in pieces.
#[derive(Clone, Debug)]
pub struct AnsiFilter {
    mode: AnsiFilterMode,
    state: AnsiFilterState,
    /// Length of the current sequence, in characters.
    sequence_chars: usize,
    /// Parameters of the current control sequence that may be passed on.
    parameters: String,
    /// Whether the current string may contain line breaks: an image may, a title or a link may not.
    has_lines: bool,
    /// The last character was a carriage return; the next decides whether it ends or overwrites the line.
    returned: bool,
}

/// Position within a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnsiFilterState {
    Text,
    /// After an escape.
    Escape,
    /// After an escape and a character that is followed by exactly one more.
    EscapeMore,
    /// In a control sequence: parameters until a final character.
    Control,
    /// In a string for the terminal, such as a title: up to a bell or `ESC \`.
    Str,
    /// In such a string, after an escape character.
    StrEscape,
}

/// Returns the output of a command as plain text. Invalid UTF-8 becomes `U+FFFD`.
pub fn strip(bytes: &[u8]) -> String {
    AnsiFilter::filter_all(AnsiFilterMode::PlainText, &String::from_utf8_lossy(bytes))
}

/// Returns consecutive pieces as plain text; a piece may end within a character.
pub fn strip_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> String {
    strip(&pieces.flatten().copied().collect::<Vec<u8>>())
}

impl AnsiFilter {
    /// A filter that has read nothing.
    pub fn new(mode: AnsiFilterMode) -> Self {
        Self {
            mode,
            state: AnsiFilterState::Text,
            sequence_chars: 0,
            parameters: String::new(),
            has_lines: false,
            returned: false,
        }
    }

    /// All at once.
    pub fn filter_all(mode: AnsiFilterMode, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        Self::new(mode).filter(text, &mut clean);
        clean
    }

    /// Adds a piece to what is shown already.
    pub fn filter(&mut self, piece: &str, shown: &mut String) {
        for c in piece.chars() {
            self.read_char(c, shown);
        }
    }

    fn read_char(&mut self, c: char, shown: &mut String) {
        if self.state != AnsiFilterState::Text {
            self.sequence_chars = self.sequence_chars.saturating_add(1);
            // A line break or excessive length ends what is not a real sequence.
            let is_endless = self.sequence_chars > SEQUENCE_CHARS_MAX;
            let may_go_on = self.state == AnsiFilterState::Str && self.has_lines;
            if is_endless || (c == '\n' && !may_go_on) {
                self.state = AnsiFilterState::Text;
            }
        }
        self.state = match (self.state, c) {
            (AnsiFilterState::Str, '\u{1b}') => AnsiFilterState::StrEscape,
            (AnsiFilterState::Str, '\u{7}' | '\u{9c}') => AnsiFilterState::Text,
            (AnsiFilterState::Str, _) => AnsiFilterState::Str,
            (AnsiFilterState::StrEscape, '\\') => AnsiFilterState::Text,
            (_, '\u{1b}') => {
                self.sequence_chars = 0;
                AnsiFilterState::Escape
            }
            (AnsiFilterState::Escape | AnsiFilterState::StrEscape, '[') => {
                self.parameters.clear();
                AnsiFilterState::Control
            }
            (AnsiFilterState::Escape | AnsiFilterState::StrEscape, ']' | 'P' | 'X' | '^' | '_') => {
                self.has_lines = c != ']';
                AnsiFilterState::Str
            }
            (
                AnsiFilterState::Escape | AnsiFilterState::StrEscape | AnsiFilterState::EscapeMore,
                ' '..='/',
            ) => AnsiFilterState::EscapeMore,
            (
                AnsiFilterState::Escape | AnsiFilterState::StrEscape | AnsiFilterState::EscapeMore,
                '0'..='~',
            ) => AnsiFilterState::Text,
            (AnsiFilterState::Control, ' '..='?') => {
                if self.parameters.len() < STYLE_CHARS_MAX {
                    self.parameters.push(c);
                }
                AnsiFilterState::Control
            }
            (AnsiFilterState::Control, '@'..='~') => {
                self.end_control(c, shown);
                AnsiFilterState::Text
            }
            // Anything that has no place in a sequence ends it.
            (_, c) => self.read_text(c, shown),
        };
    }

    /// Passes a control sequence on if it only changes how text looks, or moves within it.
    fn end_control(&self, last: char, shown: &mut String) {
        let is_short = self.parameters.len() < STYLE_CHARS_MAX;
        let is_numbers = self.parameters.bytes().all(|b| b.is_ascii_digit() || b";:".contains(&b));
        let is_look = matches!(last, 'm' | 'K' | 'J' | 'A'..='H');
        if self.mode == AnsiFilterMode::Styled && is_short && is_numbers && is_look {
            shown.push_str("\u{1b}[");
            shown.push_str(&self.parameters);
            shown.push(last);
        }
    }

    fn read_text(&mut self, c: char, shown: &mut String) -> AnsiFilterState {
        let is_styled = self.mode == AnsiFilterMode::Styled;
        match c {
            '\r' | '\u{8}' if is_styled => shown.push(c),
            '\r' => self.returned = true,
            '\u{8}' => {
                if !shown.ends_with('\n') {
                    shown.pop();
                }
            }
            '\n' => {
                self.returned = false;
                shown.push(c);
            }
            // This includes the single characters that old terminals take for `ESC [` or the start of
            // a string. Without them, what follows is text, which must not be hidden: the model
            // reads it.
            c if c.is_control() && c != '\t' => {}
            c => {
                if mem::take(&mut self.returned) {
                    shown.truncate(shown.rfind('\n').map_or(0, |end| end.saturating_add(1)));
                }
                shown.push(c);
            }
        }
        AnsiFilterState::Text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check_strip(bytes: impl AsRef<[u8]>, expected: &str) {
        let bytes = bytes.as_ref();
        assert_eq!(strip(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
    }

    /// However it is cut into pieces, the same comes out.
    #[track_caller]
    fn check(mode: AnsiFilterMode, printed: &str, expected: &str) {
        assert_eq!(AnsiFilter::filter_all(mode, printed), expected, "{printed:?} whole");
        let (mut filter, mut shown) = (AnsiFilter::new(mode), String::new());
        for c in printed.chars() {
            filter.filter(c.encode_utf8(&mut [0; 4]), &mut shown);
        }
        assert_eq!(shown, expected, "{printed:?} in pieces");
    }

    #[test]
    fn styled_mode_keeps_colors_and_drops_control_sequences() {
        let check = |printed, expected| check(AnsiFilterMode::Styled, printed, expected);
        check("\u{1b}[1;31mred\u{1b}[0m\r\n", "\u{1b}[1;31mred\u{1b}[0m\r\n");
        check("10%\r20%\u{1b}[K", "10%\r20%\u{1b}[K");
        check("a\u{1b}]52;c;ZXZpbA==\u{7}b", "ab");
        check("a\u{1b}]0;title\u{1b}\\b", "ab");
        check("a\u{1b}[?1049hb\u{1b}[6nc\u{1b}cd\u{1b}(Be", "abcde");
        check("a\u{7}\u{0}b\u{7f}", "ab");
        check("a\u{1b}]never ended\nb", "a\nb");
        check("a\u{1b}\u{1b}[31mb", "a\u{1b}[31mb");
    }

    #[test]
    fn c1_characters_hide_no_text() {
        for mode in [AnsiFilterMode::Styled, AnsiFilterMode::PlainText] {
            for c in '\u{80}'..='\u{9f}' {
                check(mode, &format!("a{c}0;b\nc\u{9c}d"), "a0;b\ncd");
            }
            check(mode, "a\u{9b}31mb", "a31mb");
        }
    }

    #[test]
    fn plain_mode_keeps_text_only() {
        let check = |printed, expected| check(AnsiFilterMode::PlainText, printed, expected);
        check("\u{1b}[1;31mred\u{1b}[0m\r\n", "red\n");
        check("one\n10%\r20%\r\n", "one\n20%\n");
        check("ab\u{8}c", "ac");
        check("\n\u{8}c", "\nc");
        check("ü\u{1b}[2Jö", "üö");
    }

    #[test]
    fn new_escape_in_a_string_starts_a_sequence() {
        check(AnsiFilterMode::Styled, "\u{1b}]0;a\u{1b}[31mb", "\u{1b}[31mb");
        check(AnsiFilterMode::Styled, "\u{1b}[1m\u{9d}a\u{1b}[2mb", "\u{1b}[1ma\u{1b}[2mb");
    }

    #[test]
    fn terminal_sequences_are_removed() {
        check_strip("plain\ntext\n", "plain\ntext\n");
        check_strip("a\tb", "a\tb");
        check_strip("\x1b[1;31mred\x1b[0m", "red");
        check_strip("\x1b[38;2;1;2;3mtrue colour\x1b[m", "true colour");
        check_strip("\x1b[2J\x1b[H\x1b[?25lscreen", "screen");
        check_strip("\x1b]0;title\x07text", "text");
        check_strip("\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\", "link");
        check_strip("\x1bP1;2|device\x1b\\x", "x");
        check_strip("\x1b_application\x1b\\x", "x");
        check_strip("\x1b(Bcharset\x1b=keypad\x1bM", "charsetkeypad");
        check_strip("\x1b\x1b[1mtwice", "twice");
        check_strip("be\x07ll \x00null \x7fdel", "bell null del");
        check_strip("c1 \u{9b}31m", "c1 31m");
    }

    #[test]
    fn overwritten_line_keeps_last_state() {
        check_strip("10%\r50%\r100%\ndone\n", "100%\ndone\n");
        check_strip("windows\r\nlines\r\n", "windows\nlines\n");
        check_strip("10%\r50%\r", "50%");
        check_strip("a\r\r\nb", "a\nb");
        check_strip("x\r\x1b[Ky", "y");
        check_strip("abc\x08\x08d", "ad");
        check_strip("é\x08e", "e");
        check_strip("\x08a", "a");
    }

    #[test]
    fn invalid_utf8_is_kept_where_possible() {
        check_strip(b"a\xffb\xc3", "a\u{fffd}b\u{fffd}");
        check_strip(b"\xe2\x82\xac", "€");
    }

    #[test]
    fn unterminated_sequence_does_not_hide_text() {
        check_strip("\x1b[31\nshown", "\nshown");
        check_strip("\x1b]0;title\nshown", "\nshown");
        check_strip("\x1bPpicture\nof lines\x1b\\shown", "shown");
        check_strip(format!("\x1b]0;{}\nend", "x".repeat(SEQUENCE_CHARS_MAX)), "xxx\nend");
        check_strip("cut \x1b[3", "cut ");
        check_strip("cut \x1b", "cut ");
    }

    proptest! {
        #[test]
        fn nothing_a_terminal_acts_on_is_left(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let plain = strip(&bytes);
            prop_assert!(plain.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{plain:?}");
            prop_assert_eq!(strip(plain.as_bytes()), plain);
        }

        #[test]
        fn pieces_are_one_text(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0_usize..100) {
            let (first, second) = bytes.split_at(at.min(bytes.len()));
            prop_assert_eq!(strip_pieces([first, second].into_iter()), strip(&bytes));
        }

        #[test]
        fn filter_does_not_depend_on_where_text_is_cut(text in "[\\PC\u{1b}\u{9b}\u{9d}\\[\\]\r\n\u{8};m]{0,40}") {
            for mode in [AnsiFilterMode::Styled, AnsiFilterMode::PlainText] {
                let (mut filter, mut shown) = (AnsiFilter::new(mode), String::new());
                for c in text.chars() {
                    filter.filter(c.encode_utf8(&mut [0; 4]), &mut shown);
                }
                prop_assert_eq!(&shown, &AnsiFilter::filter_all(mode, &text));
            }
        }
    }
}
