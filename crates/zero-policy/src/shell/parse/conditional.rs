//! `[[ … ]]`.

use super::reader::ScriptReader;
use super::word::{WordStyle, push_text};
use crate::shell::ast::{ShellCommandKind, ShellWord};

/// Letters of operators before one operand: `-f file`.
const UNARY: &str = "abcdefghknoprstuvwxzGLNORS";

/// Operators between two operands, and how the second is parsed.
const BINARY: [(&str, WordStyle); 13] = [
    ("=~", WordStyle::Regex),
    ("==", WordStyle::Pattern),
    ("=", WordStyle::Pattern),
    ("!=", WordStyle::Pattern),
    ("-ef", WordStyle::Argument),
    ("-nt", WordStyle::Argument),
    ("-ot", WordStyle::Argument),
    ("-eq", WordStyle::Argument),
    ("-ne", WordStyle::Argument),
    ("-lt", WordStyle::Argument),
    ("-le", WordStyle::Argument),
    ("-gt", WordStyle::Argument),
    ("-ge", WordStyle::Argument),
];

/// Operators whose operands are arithmetic expressions.
const ARITHMETIC: [&str; 6] = ["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];

impl ScriptReader<'_> {
    pub(super) fn parse_conditional(&mut self) -> ShellCommandKind {
        let mut words = Vec::new();
        self.expect_reserved("[[");
        self.parse_conditions(&mut words);
        self.skip_blanks();
        if !self.eat_reserved("]]") {
            self.fail("expected `]]`");
        }
        ShellCommandKind::Test(words)
    }

    /// Conditions joined by `&&` and `||`.
    fn parse_conditions(&mut self, words: &mut Vec<ShellWord>) {
        loop {
            self.skip_newlines();
            while self.eat_reserved("!") {
                self.skip_newlines();
            }
            if self.eat("(") {
                self.parse_nested(|reader| reader.parse_conditions(words));
                self.expect(")", "within `[[`");
                self.skip_newlines();
            } else {
                self.parse_condition(words);
            }
            self.skip_blanks();
            if !(self.eat("&&") || self.eat("||")) {
                break;
            }
        }
    }

    fn parse_condition(&mut self, words: &mut Vec<ShellWord>) {
        let Some(first) = self.parse_operand(WordStyle::Argument) else { return };
        self.skip_blanks();
        let text = first.plain_text().unwrap_or_default();
        if text.len() == 2 && text.strip_prefix('-').is_some_and(|letter| UNARY.contains(letter)) {
            let Some(operand) = self.parse_operand(WordStyle::Argument) else { return };
            // The subscript of `-v 'a[…]'` is expanded.
            if text == "-v" {
                self.require_plain(&operand);
            }
            words.extend([first, operand]);
            self.skip_newlines();
            return;
        }
        let start = self.pos;
        let Some((sign, style)) = self.parse_binary_operator() else {
            words.push(first);
            return;
        };
        let mut parts = Vec::new();
        push_text(&mut parts, sign, false);
        let operator = ShellWord { parts, span: self.span_from(start) };
        self.skip_blanks();
        let Some(second) = self.parse_operand(style) else {
            words.extend([first, operator]);
            return;
        };
        if ARITHMETIC.contains(&sign) {
            self.require_plain(&first);
            self.require_plain(&second);
        }
        words.extend([first, operator, second]);
        self.skip_newlines();
    }

    fn parse_operand(&mut self, style: WordStyle) -> Option<ShellWord> {
        let word = if self.peek_reserved() == Some("]]") {
            None
        } else {
            self.parse_word_from(self.pos, Vec::new(), style)
        };
        if word.is_none() {
            self.fail_unexpected();
        }
        word
    }

    fn parse_binary_operator(&mut self) -> Option<(&'static str, WordStyle)> {
        for sign in ["<", ">"] {
            if self.is_at_word_end() && self.eat(sign) {
                return Some((sign, WordStyle::Argument));
            }
        }
        BINARY.into_iter().find(|(sign, _)| self.eat_reserved(sign))
    }
}
