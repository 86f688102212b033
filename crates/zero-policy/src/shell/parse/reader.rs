//! The parser's input, its position, and its errors.

use super::heredoc::PendingHeredoc;
use super::{DEPTH_MAX, ShellSyntaxError};
use crate::shell::ast::{CommandList, ShellWord, SourceSpan};

/// Reads one text. Backticks and here-documents are separate texts, each with its own reader.
pub(super) struct ScriptReader<'t> {
    pub(super) text: &'t str,
    /// Always on a character boundary.
    pub(super) pos: usize,
    depth: usize,
    error: Option<ShellSyntaxError>,
    /// Set by an error that ends this text.
    failed: bool,
    /// For an inner text: the span of the whole text in the outer one.
    whole: Option<SourceSpan>,
    /// Here-documents announced on this line, whose bodies follow it.
    pub(super) pending: Vec<PendingHeredoc>,
    /// The bodies of all here-documents of this text.
    pub(super) bodies: Vec<ShellWord>,
    /// Whether a `$( … )` of this text is open.
    pub(super) in_substitution: bool,
    /// Whether bash counts parentheses here, including those inside expansions.
    pub(super) counting_parens: bool,
    /// How many bytes may still be parsed again, here and in inner texts: an inner text is parsed
    /// twice, and so is a `((` that starts two subshells. Nesting multiplies that.
    reread_budget: usize,
}

/// Error message for a script that is nested too deeply.
pub(super) const TOO_DEEP: &str = "nested too deeply";

impl<'t> ScriptReader<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            pos: 0,
            depth: 0,
            error: None,
            failed: false,
            whole: None,
            pending: Vec::new(),
            bodies: Vec::new(),
            in_substitution: false,
            counting_parens: false,
            reread_budget: text.len().saturating_mul(8).saturating_add(4096),
        }
    }

    /// Parses the whole text as a script.
    pub(super) fn parse_script(mut self) -> (CommandList, Option<ShellSyntaxError>) {
        let list = self.parse_whole_script();
        (list, self.error)
    }

    fn parse_whole_script(&mut self) -> CommandList {
        let mut list = self.parse_list();
        if self.pos < self.text.len() {
            self.fail_unexpected();
        }
        self.fill_heredocs(&mut list);
        list
    }

    /// Parses an inner text, whose position is `span`. Its errors do not end this text: bash parses
    /// it only when it runs.
    pub(super) fn read_within<T: Default>(
        &mut self,
        text: &str,
        span: SourceSpan,
        read: impl FnOnce(&mut ScriptReader<'_>) -> T,
    ) -> T {
        if !self.spend_reread_budget(text.len()) {
            return T::default();
        }
        self.parse_nested(|outer| {
            let mut inner = ScriptReader::new(text);
            inner.depth = outer.depth;
            inner.whole = Some(span);
            inner.reread_budget = outer.reread_budget;
            let found = read(&mut inner);
            outer.reread_budget = inner.reread_budget;
            if outer.error.is_none() {
                outer.error = inner.error;
            }
            found
        })
    }

    /// Parses an inner text as a script, whose position is `span`.
    pub(super) fn parse_script_within(&mut self, text: &str, span: SourceSpan) -> CommandList {
        self.read_within(text, span, |inner| inner.parse_whole_script())
    }

    /// Parses one level deeper; fails if that is too deep.
    pub(super) fn parse_nested<T: Default>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        if self.depth >= DEPTH_MAX {
            self.fail(TOO_DEEP);
            return T::default();
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// Records the first error and ends the text here.
    pub(super) fn fail(&mut self, message: impl Into<String>) {
        // The position may be inside a character; report the start of the character.
        let here = || self.text.floor_char_boundary(self.pos.min(self.text.len()));
        let at = self.whole.map_or_else(here, |span| span.start);
        if self.error.is_none() {
            self.error = Some(ShellSyntaxError { message: message.into(), at });
        }
        self.failed = true;
        self.pos = self.text.len();
    }

    /// Fails with an error for the current character.
    pub(super) fn fail_unexpected(&mut self) {
        if self.failed {
            return;
        }
        let message = match self.remaining_text().chars().next() {
            None => "unexpected end of the script".to_owned(),
            Some('\n') => "unexpected end of the line".to_owned(),
            Some(_) => {
                let end = |c: char| c.is_whitespace() || ";&|<>()".contains(c);
                let word: String =
                    self.remaining_text().chars().take(20).take_while(|c| !end(*c)).collect();
                let sign = || self.remaining_text().chars().take(1).collect();
                format!("unexpected `{}`", if word.is_empty() { sign() } else { word })
            }
        };
        self.fail(message);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns to `pos` to parse the text in another way.
    pub(super) fn rewind(&mut self, pos: usize) {
        if self.spend_reread_budget(self.pos.saturating_sub(pos)) {
            self.pos = pos;
        }
    }

    /// Takes `bytes` from the budget for repeated parsing; returns false and fails if it is
    /// exhausted.
    fn spend_reread_budget(&mut self, bytes: usize) -> bool {
        let left = self.reread_budget.checked_sub(bytes);
        match left {
            Some(left) => self.reread_budget = left,
            None => self.fail("too much text has to be parsed more than once"),
        }
        left.is_some()
    }

    /// Fails unless brackets and quotes in the text since `start` are balanced. Then bash, which
    /// only counts, finds the same end as this parser.
    pub(super) fn require_balanced(&mut self, start: usize, open: u8, close: u8) {
        let text = self.text.get(start..self.pos).unwrap_or_default();
        if !self.spend_reread_budget(text.len()) {
            return;
        }
        let (mut depth, mut single, mut double) = (0_isize, 0_usize, 0_usize);
        let mut commented = false;
        for byte in text.bytes() {
            depth += isize::from(byte == open) - isize::from(byte == close);
            single += usize::from(byte == b'\'');
            double += usize::from(byte == b'"');
            commented |= byte == b'\n';
            if depth < 0 {
                break;
            }
        }
        // A comment ends at a newline before the end of the text.
        commented &= text.contains('#');
        if depth != 0 || single % 2 != 0 || double % 2 != 0 || commented {
            self.fail("an expansion with something unbalanced within counted parentheses");
        }
    }

    pub(super) fn span_from(&self, start: usize) -> SourceSpan {
        self.whole.unwrap_or(SourceSpan { start, end: self.pos.max(start) })
    }

    pub(super) fn remaining_text(&self) -> &'t str {
        self.text.get(self.pos..).unwrap_or_default()
    }

    /// The byte at this position, without skipping.
    pub(super) fn current_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    /// The byte at this position, after line continuations.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.pos = self.skip_continuations_from(self.pos);
        self.current_byte()
    }

    fn skip_continuations_from(&self, mut pos: usize) -> usize {
        while self.text.as_bytes().get(pos..).is_some_and(|rest| rest.starts_with(b"\\\n")) {
            pos += 2;
        }
        pos
    }

    /// The end of `expected` if it is next, allowing line continuations in it.
    pub(super) fn match_end(&mut self, expected: &str) -> Option<usize> {
        let mut pos = self.pos;
        for byte in expected.bytes() {
            pos = self.skip_continuations_from(pos);
            if self.text.as_bytes().get(pos) != Some(&byte) {
                return None;
            }
            pos += 1;
        }
        Some(pos)
    }

    pub(super) fn is_at(&mut self, expected: &str) -> bool {
        self.match_end(expected).is_some()
    }

    /// Consumes `expected` if it is next.
    pub(super) fn eat(&mut self, expected: &str) -> bool {
        match self.match_end(expected) {
            Some(end) => {
                self.pos = end;
                true
            }
            None => false,
        }
    }

    /// Consumes `expected`; fails if it is not next.
    pub(super) fn expect(&mut self, expected: &str, what: &str) {
        if !self.eat(expected) {
            let message = format!("expected `{expected}` {what}");
            self.fail(message);
        }
    }

    /// Consumes one character, without skipping.
    pub(super) fn next_char(&mut self) -> Option<char> {
        let next = self.remaining_text().chars().next()?;
        self.pos += next.len_utf8();
        Some(next)
    }

    /// Consumes the text up to a byte for which `stops` returns true, or the end.
    pub(super) fn take_until(&mut self, stops: impl Fn(u8) -> bool) -> &'t str {
        let rest = self.remaining_text();
        let end = rest.bytes().position(stops).unwrap_or(rest.len());
        self.pos += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Skips blanks, and a comment up to the end of its line.
    pub(super) fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.pos += 1;
        }
        if self.current_byte() == Some(b'#') {
            self.take_until(|byte| byte == b'\n');
        }
    }

    /// Skips blanks, comments and newlines, with the here-documents after them.
    pub(super) fn skip_newlines(&mut self) {
        self.skip_blanks();
        while self.eat_newline() {
            self.skip_blanks();
        }
    }

    /// Consumes a newline and the here-documents after it.
    pub(super) fn eat_newline(&mut self) -> bool {
        if self.peek() != Some(b'\n') {
            return false;
        }
        self.pos += 1;
        self.read_heredocs();
        true
    }
}

/// Whether a byte ends an unquoted word.
pub(super) fn is_word_break(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
}
