//! What a command prints, without what a terminal obeys: its words and colours pass, orders to the
//! terminal (titles, the clipboard, modes, answers to type back) do not. It comes in pieces, and an
//! order may be cut anywhere.

/// Longest order that is remembered; a longer one is dropped like any other.
const SEQUENCE_CHARS_MAX: usize = 32;
/// Characters of a text order that are swallowed. Output must not vanish because one was never ended.
const SWALLOWED_MAX: usize = 4096;

/// What is kept besides words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnsiFilterMode {
    /// Colours and moves within the text, for a terminal.
    Styled,
    /// Nothing, for plain text: a line that is written over is written over.
    PlainText,
}

/// Takes what is printed piece by piece.
#[derive(Clone, Debug)]
pub(super) struct AnsiFilter {
    keep: AnsiFilterMode,
    state: AnsiFilterState,
    order: String,
    swallowed: usize,
    /// A return was read, and it is not known yet whether the line ends or is written over.
    returned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnsiFilterState {
    Plain,
    Escape,
    Sequence,
    StringSequence,
    StringEscape,
    Charset,
}

impl AnsiFilter {
    pub(super) fn new(keep: AnsiFilterMode) -> Self {
        Self {
            keep,
            state: AnsiFilterState::Plain,
            order: String::new(),
            swallowed: 0,
            returned: false,
        }
    }

    /// All at once.
    pub(super) fn filter_all(keep: AnsiFilterMode, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        Self::new(keep).filter(text, &mut clean);
        clean
    }

    /// Adds a piece to what is shown already.
    pub(super) fn filter(&mut self, piece: &str, shown: &mut String) {
        for c in piece.chars() {
            self.read_char(c, shown);
        }
    }

    fn read_char(&mut self, c: char, shown: &mut String) {
        match (self.state, c) {
            (AnsiFilterState::StringSequence, '\u{1b}') => {
                self.state = AnsiFilterState::StringEscape
            }
            (AnsiFilterState::StringSequence, '\u{7}' | '\u{9c}') => {
                self.state = AnsiFilterState::Plain
            }
            (AnsiFilterState::StringSequence, '\n') => self.read_plain(c, shown),
            (AnsiFilterState::StringSequence, _) => {
                self.swallowed = self.swallowed.saturating_add(1);
                if self.swallowed > SWALLOWED_MAX {
                    self.state = AnsiFilterState::Plain;
                }
            }
            (AnsiFilterState::StringEscape, '\\') | (AnsiFilterState::Charset, ' '..='~') => {
                self.state = AnsiFilterState::Plain
            }
            (_, '\u{1b}') => self.state = AnsiFilterState::Escape,
            (AnsiFilterState::Escape | AnsiFilterState::StringEscape, c) => {
                self.read_escape(c, shown)
            }
            (AnsiFilterState::Sequence, c) => self.read_sequence(c, shown),
            (AnsiFilterState::Plain | AnsiFilterState::Charset, c) => self.read_plain(c, shown),
        }
    }

    fn read_escape(&mut self, c: char, shown: &mut String) {
        match c {
            '[' => self.begin_sequence(),
            ']' | 'P' | 'X' | '^' | '_' => self.begin_string(),
            '(' | ')' | '*' | '+' | '-' | '.' | '/' | '#' | '%' | ' ' => {
                self.state = AnsiFilterState::Charset
            }
            '!'..='~' => self.state = AnsiFilterState::Plain,
            c => self.read_plain(c, shown),
        }
    }

    fn begin_sequence(&mut self) {
        self.order.clear();
        self.state = AnsiFilterState::Sequence;
    }

    fn begin_string(&mut self) {
        self.swallowed = 0;
        self.state = AnsiFilterState::StringSequence;
    }

    fn read_sequence(&mut self, c: char, shown: &mut String) {
        match c {
            ' '..='?' => {
                if self.order.len() < SEQUENCE_CHARS_MAX {
                    self.order.push(c);
                }
            }
            '@'..='~' => {
                self.state = AnsiFilterState::Plain;
                let is_short = self.order.len() < SEQUENCE_CHARS_MAX;
                let is_numbers =
                    self.order.bytes().all(|b| b.is_ascii_digit() || b";:".contains(&b));
                let is_look = matches!(c, 'm' | 'K' | 'J' | 'A'..='H');
                if self.keep == AnsiFilterMode::Styled && is_short && is_numbers && is_look {
                    shown.push_str("\u{1b}[");
                    shown.push_str(&self.order);
                    shown.push(c);
                }
            }
            c => self.read_plain(c, shown),
        }
    }

    fn read_plain(&mut self, c: char, shown: &mut String) {
        self.state = AnsiFilterState::Plain;
        match c {
            '\u{9b}' => self.begin_sequence(),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.begin_string(),
            '\r' | '\u{8}' if self.keep == AnsiFilterMode::Styled => shown.push(c),
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
            '\t' => shown.push(c),
            c if c.is_control() => {}
            c => {
                if std::mem::take(&mut self.returned) {
                    shown.truncate(shown.rfind('\n').map_or(0, |end| end.saturating_add(1)));
                }
                shown.push(c);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However it is cut into pieces, the same comes out.
    #[track_caller]
    fn check(keep: AnsiFilterMode, printed: &str, expected: &str) {
        assert_eq!(AnsiFilter::filter_all(keep, printed), expected, "{printed:?} whole");
        let (mut washer, mut shown) = (AnsiFilter::new(keep), String::new());
        for c in printed.chars() {
            washer.filter(c.encode_utf8(&mut [0; 4]), &mut shown);
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
        check("a\u{9d}52;c;x\u{9c}b\u{90}q\u{9c}c\u{9b}31md", "abc\u{1b}[31md");
        check("a\u{7}\u{0}b\u{7f}", "ab");
        check("a\u{1b}]never ended\nb", "a\nb");
        check("a\u{1b}\u{1b}[31mb", "a\u{1b}[31mb");
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
    fn unterminated_sequence_hides_bounded_output() {
        let printed = format!("\u{1b}]{}end", "x".repeat(SWALLOWED_MAX + 1));
        check(AnsiFilterMode::PlainText, &printed, "end");
    }
}
