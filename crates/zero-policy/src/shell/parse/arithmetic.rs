//! Arithmetic: `(( … ))`, `$(( … ))`, `$[ … ]`, subscripts.
//!
//! Its text is expanded as in double quotes, and a subscript in it is expanded once more: `$((
//! a[\$(id)] ))` and `$(( a['$(id)'] ))` run `id`. So a quoted `$` or backtick is an error. Before
//! that, bash counts parentheses, including those in `$(case a in a) …)`: if they are unbalanced,
//! it runs `$(( … ))` as a command. So expansions in it must be balanced.

use super::DEPTH_MAX;
use super::reader::{ScriptReader, TOO_DEEP};
use super::word::{QuotingContext, push_text};
use crate::shell::ast::{ShellWord, WordPart};

/// The end of an arithmetic text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArithmeticEnd {
    /// `)`, with nested pairs counted.
    Parenthesis,
    /// `]`, with nested pairs counted.
    Bracket,
    /// `]` within `${ … }`, with nested pairs counted. Bash searches for the `}` first.
    BracketInBraces,
    /// `}`.
    Brace,
}

impl ArithmeticEnd {
    fn opening_byte(self) -> Option<u8> {
        match self {
            Self::Parenthesis => Some(b'('),
            Self::Bracket | Self::BracketInBraces => Some(b'['),
            Self::Brace => None,
        }
    }

    fn closing_byte(self) -> u8 {
        match self {
            Self::Parenthesis => b')',
            Self::Bracket | Self::BracketInBraces => b']',
            Self::Brace => b'}',
        }
    }
}

impl ScriptReader<'_> {
    /// Parses `(( … ))`; `None` if it is two nested subshells.
    pub(super) fn parse_arithmetic_command(&mut self) -> Option<ShellWord> {
        let start = self.pos;
        let bodies = self.bodies.len();
        self.eat("((");
        let word = self.parse_arithmetic_text(ArithmeticEnd::Parenthesis);
        self.eat(")");
        if self.current_byte() == Some(b')') {
            self.pos += 1;
            self.require_plain(&word);
            return Some(word);
        }
        if self.has_failed() {
            return Some(word);
        }
        if self.peek() == Some(b')') {
            self.fail("a broken line between `)` and `)`");
        }
        self.bodies.truncate(bodies);
        self.rewind(start);
        None
    }

    /// Parses `$(( … ))`, or a command substitution that starts with a subshell. Bash decides by
    /// counting parentheses, and takes the `)` of a `case` for the end; that case is an error here.
    pub(super) fn parse_dollar_parentheses(
        &mut self,
        parts: &mut Vec<WordPart>,
        quoting: QuotingContext,
    ) {
        let start = self.pos;
        let bodies = self.bodies.len();
        self.eat("$((");
        let word =
            self.parse_nested(|reader| reader.parse_arithmetic_text(ArithmeticEnd::Parenthesis));
        self.eat(")");
        if self.peek() == Some(b')') || self.has_failed() {
            self.eat(")");
            self.require_plain(&word);
            parts.push(WordPart::Arithmetic(word));
            return;
        }
        self.parse_nested(|reader| reader.parse_arithmetic_text(ArithmeticEnd::Parenthesis));
        if self.has_failed() {
            parts.push(WordPart::Arithmetic(word));
            return;
        }
        let end = self.pos;
        self.bodies.truncate(bodies);
        self.rewind(start);
        self.eat("$(");
        let list = self.parse_substitution_body();
        if self.pos != end + 1 {
            self.fail("`$((` is neither arithmetic nor clearly a command");
        }
        parts.push(WordPart::Command { list, quoted: quoting.is_quoted() });
    }

    /// `$[ … ]`.
    pub(super) fn parse_dollar_brackets(&mut self, parts: &mut Vec<WordPart>) {
        self.eat("$[");
        let word = self.parse_nested(|reader| reader.parse_arithmetic_text(ArithmeticEnd::Bracket));
        self.expect("]", "after `$[`");
        self.require_plain(&word);
        parts.push(WordPart::Arithmetic(word));
    }

    /// `[ … ]` after the name of a variable.
    pub(super) fn parse_subscript(&mut self) -> ShellWord {
        self.parse_subscript_until(ArithmeticEnd::Bracket)
    }

    pub(super) fn parse_subscript_until(&mut self, arithmetic_end: ArithmeticEnd) -> ShellWord {
        self.eat("[");
        let word = self.parse_nested(|reader| reader.parse_arithmetic_text(arithmetic_end));
        self.expect("]", "after a subscript");
        self.require_plain(&word);
        word
    }

    /// Parses text up to its end marker, which the caller consumes.
    pub(super) fn parse_arithmetic_text(&mut self, arithmetic_end: ArithmeticEnd) -> ShellWord {
        let start = self.pos;
        let counting = std::mem::replace(
            &mut self.counting_parens,
            arithmetic_end == ArithmeticEnd::Parenthesis,
        );
        let mut parts = Vec::new();
        let mut depth = 0_usize;
        let stops = |byte| b"'\"$`\\()[]{}<>".contains(&byte);
        loop {
            push_text(&mut parts, self.take_until(stops), false);
            match self.peek() {
                None => {
                    self.fail("unexpected end of an arithmetic expression");
                    break;
                }
                Some(byte) if byte == arithmetic_end.closing_byte() && depth == 0 => break,
                // The character after a line continuation.
                Some(byte) if !stops(byte) => {}
                Some(b'}') if arithmetic_end == ArithmeticEnd::BracketInBraces => {
                    self.fail("a `}` within a subscript");
                }
                Some(b'\'') => {
                    push_text(&mut parts, "'", true);
                    self.parse_single_quoted(&mut parts);
                    push_text(&mut parts, "'", true);
                }
                Some(b'"') => self.parse_double_quoted(&mut parts),
                Some(b'$' | b'`') => {
                    let start = self.pos;
                    self.parse_expansion(&mut parts, QuotingContext::Within);
                    if let Some(open) = arithmetic_end.opening_byte() {
                        self.require_balanced(start, open, arithmetic_end.closing_byte());
                    }
                }
                Some(b'\\') => self.parse_escaped_in_quotes(&mut parts, "$`\"\\"),
                Some(b'<' | b'>')
                    if arithmetic_end != ArithmeticEnd::Parenthesis && !self.is_at_word_end() =>
                {
                    self.parse_process_substitution(&mut parts);
                }
                Some(byte) => {
                    if Some(byte) == arithmetic_end.opening_byte() {
                        depth += 1;
                        if depth > DEPTH_MAX {
                            self.fail(TOO_DEEP);
                            break;
                        }
                    } else if byte == arithmetic_end.closing_byte() {
                        depth -= 1;
                    }
                    self.pos += 1;
                    push_text(&mut parts, char::from(byte).encode_utf8(&mut [0; 4]), false);
                }
            }
        }
        self.counting_parens = counting;
        ShellWord { parts, span: self.span_from(start) }
    }

    /// Fails if an arithmetic text contains something that a second expansion would run.
    pub(super) fn require_plain(&mut self, word: &ShellWord) {
        if word.texts().any(|text| text.contains(['$', '`'])) {
            self.fail("a quoted expansion within arithmetic");
        }
    }
}
