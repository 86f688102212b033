//! `if`, `while`, `for`, `select` and `case`.

use super::reader::ScriptReader;
use crate::shell::ast::{CommandList, ShellCommandKind, ShellWord};

impl ScriptReader<'_> {
    pub(super) fn parse_if(&mut self) -> ShellCommandKind {
        let mut branches = Vec::new();
        let mut otherwise = None;
        self.expect_reserved("if");
        loop {
            let condition = self.parse_body();
            self.expect_reserved("then");
            let body = self.parse_body();
            branches.push((condition, body));
            if !self.eat_reserved("elif") {
                break;
            }
        }
        if self.eat_reserved("else") {
            otherwise = Some(self.parse_body());
        }
        self.expect_reserved("fi");
        ShellCommandKind::If { branches, otherwise }
    }

    pub(super) fn parse_while(&mut self) -> ShellCommandKind {
        if !self.eat_reserved("while") {
            self.eat_reserved("until");
        }
        let condition = self.parse_body();
        let body = self.parse_delimited_list("do", "done");
        ShellCommandKind::While { condition, body }
    }

    /// `for` and `select`.
    pub(super) fn parse_for(&mut self) -> ShellCommandKind {
        let is_for = self.eat_reserved("for");
        if !is_for {
            self.eat_reserved("select");
        }
        self.skip_blanks();
        if is_for && self.is_at("((") {
            return self.parse_arithmetic_for();
        }
        let variable = self.parse_name_word("a variable").unwrap_or_default();
        self.skip_blanks();
        let mut words = None;
        if !self.eat(";") {
            self.skip_newlines();
            if self.eat_reserved("in") {
                words = Some(self.parse_words_of_line());
            }
        }
        ShellCommandKind::For { variable, words, asks: !is_for, body: self.parse_loop_body() }
    }

    /// Words up to `;` or the end of the line, which is consumed.
    fn parse_words_of_line(&mut self) -> Vec<ShellWord> {
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.parse_argument_word() {
                Some(word) => words.push(word),
                None if (!self.is_at_clause_end() && self.eat(";")) || self.eat_newline() => break,
                None => {
                    self.fail_unexpected();
                    break;
                }
            }
        }
        words
    }

    /// `do … done`, or `{ … }`, which bash accepts as well.
    fn parse_loop_body(&mut self) -> CommandList {
        self.skip_newlines();
        if self.peek_reserved() == Some("{") {
            self.parse_delimited_list("{", "}")
        } else {
            self.parse_delimited_list("do", "done")
        }
    }

    fn parse_arithmetic_for(&mut self) -> ShellCommandKind {
        let Some(header) = self.parse_arithmetic_command() else {
            self.fail("expected `))`");
            return ShellCommandKind::Arithmetic(ShellWord::default());
        };
        let divisions: usize = header.texts().map(|text| text.matches(';').count()).sum();
        if divisions != 2 {
            self.fail("expected three expressions in `for (( … ))`");
        }
        self.skip_blanks();
        if !self.is_at_clause_end() {
            self.eat(";");
        }
        ShellCommandKind::ArithmeticFor { header, body: self.parse_loop_body() }
    }

    pub(super) fn parse_case(&mut self) -> ShellCommandKind {
        self.expect_reserved("case");
        self.skip_blanks();
        let subject = self.parse_argument_word().unwrap_or_else(|| {
            self.fail_unexpected();
            ShellWord::default()
        });
        self.expect_reserved("in");
        let mut arms = Vec::new();
        loop {
            self.skip_newlines();
            if self.eat_reserved("esac") {
                break;
            }
            let patterns = self.parse_case_patterns();
            let body = self.parse_list();
            arms.push((patterns, body));
            if self.eat(";;&") || self.eat(";;") || self.eat(";&") {
                continue;
            }
            self.expect_reserved("esac");
            break;
        }
        ShellCommandKind::Case { subject, arms }
    }

    /// `a | b)`, with or without the leading parenthesis.
    fn parse_case_patterns(&mut self) -> Vec<ShellWord> {
        let mut patterns = Vec::new();
        self.eat("(");
        loop {
            self.skip_blanks();
            match self.parse_argument_word() {
                Some(word) => patterns.push(word),
                None => self.fail_unexpected(),
            }
            self.skip_blanks();
            if !self.eat("|") {
                break;
            }
        }
        self.expect(")", "after a pattern");
        patterns
    }
}
