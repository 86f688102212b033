//! Parses one command of a pipeline, of any kind.

use super::list::RESERVED;
use super::reader::ScriptReader;
use crate::shell::ast::{CommandList, ShellCommand, ShellCommandKind, ShellWord};

impl ScriptReader<'_> {
    /// One command with its redirections; `None` after an error.
    pub(super) fn parse_command(&mut self) -> Option<ShellCommand> {
        self.skip_blanks();
        let start = self.pos;
        if let Some(command) = self.parse_compound_command() {
            return Some(command);
        }
        match self.peek_reserved() {
            Some("function") => self.parse_function_definition(start),
            Some("coproc") => self.parse_coprocess(start),
            // In the middle of a pipeline it is an ordinary program.
            Some("time") | None => self.parse_simple_command(start),
            Some(_) => {
                self.fail_unexpected();
                None
            }
        }
    }

    /// A compound command with its redirections, if one starts here.
    pub(super) fn parse_compound_command(&mut self) -> Option<ShellCommand> {
        self.skip_blanks();
        let start = self.pos;
        let read: fn(&mut Self) -> ShellCommandKind = match self.peek()? {
            b'(' => Self::parse_parenthesis,
            _ => match self.peek_reserved()? {
                "{" => Self::parse_group,
                "if" => Self::parse_if,
                "while" | "until" => Self::parse_while,
                "for" | "select" => Self::parse_for,
                "case" => Self::parse_case,
                "[[" => Self::parse_conditional,
                _ => return None,
            },
        };
        let kind = self.parse_nested(|reader| Some(read(reader)))?;
        let mut redirects = Vec::new();
        loop {
            self.skip_blanks();
            match self.parse_redirection() {
                Some(redirect) => redirects.push(redirect),
                None => break,
            }
        }
        Some(ShellCommand { kind, redirects, span: self.span_from(start) })
    }

    /// Parses `(( … ))` if the text is arithmetic, otherwise the subshell `( … )`.
    fn parse_parenthesis(&mut self) -> ShellCommandKind {
        if self.is_at("((")
            && let Some(word) = self.parse_arithmetic_command()
        {
            return ShellCommandKind::Arithmetic(word);
        }
        self.eat("(");
        let list = self.parse_body();
        self.expect(")", "at the end of a subshell");
        ShellCommandKind::Subshell(list)
    }

    fn parse_group(&mut self) -> ShellCommandKind {
        ShellCommandKind::Group(self.parse_delimited_list("{", "}"))
    }

    /// A list between two reserved words.
    pub(super) fn parse_delimited_list(&mut self, open: &str, close: &str) -> CommandList {
        self.expect_reserved(open);
        let list = self.parse_body();
        self.expect_reserved(close);
        list
    }

    /// `function NAME`, with or without `()`.
    fn parse_function_definition(&mut self, start: usize) -> Option<ShellCommand> {
        self.eat_reserved("function");
        self.skip_blanks();
        let name = self.parse_name_word("a function")?;
        self.skip_blanks();
        let position = self.pos;
        if self.eat("(") {
            self.skip_blanks();
            if !self.eat(")") {
                self.pos = position;
            }
        }
        self.parse_function_body(start, name)
    }

    /// The body of a function; it must be a compound command.
    pub(super) fn parse_function_body(
        &mut self,
        start: usize,
        name: String,
    ) -> Option<ShellCommand> {
        self.skip_newlines();
        let Some(body) = self.parse_compound_command() else {
            self.fail_unexpected();
            return None;
        };
        let kind = ShellCommandKind::Function { name, body: Box::new(body) };
        Some(ShellCommand { kind, redirects: Vec::new(), span: self.span_from(start) })
    }

    /// `coproc COMMAND`, `coproc NAME COMPOUND`.
    fn parse_coprocess(&mut self, start: usize) -> Option<ShellCommand> {
        self.eat_reserved("coproc");
        self.skip_blanks();
        let position = self.pos;
        let named = |reader: &mut Self| {
            let name = reader.take_until(|byte| !byte.is_ascii_alphanumeric() && byte != b'_');
            (!name.is_empty()).then(|| reader.parse_compound_command())?
        };
        let body = match self.parse_compound_command() {
            Some(body) => body,
            None if self.peek_reserved().is_some() => {
                self.fail_unexpected();
                return None;
            }
            None => match named(self) {
                Some(body) => body,
                None => {
                    // After an error the reader stays at the end.
                    self.pos = if self.has_failed() { self.pos } else { position };
                    self.parse_simple_command(position)?
                }
            },
        };
        // Bash may take the first word for a name.
        if let ShellCommandKind::Simple(simple) = &body.kind
            && let Some(second) = simple.words.get(1).and_then(ShellWord::plain_text)
            && RESERVED.contains(&&second[..])
        {
            self.fail("a reserved word after `coproc` and a word");
        }
        let kind = ShellCommandKind::Coprocess(Box::new(body));
        Some(ShellCommand { kind, redirects: Vec::new(), span: self.span_from(start) })
    }

    /// A word that is a name: it must be plain text.
    pub(super) fn parse_name_word(&mut self, of: &str) -> Option<String> {
        match self.parse_argument_word().and_then(|word| word.function_name()) {
            Some(name) => Some(name),
            None => {
                let message = format!("expected the name of {of}");
                self.fail(message);
                None
            }
        }
    }
}
