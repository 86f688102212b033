//! Lists and pipelines.

use super::reader::{ScriptReader, is_word_break};
use crate::shell::ast::{
    CommandList, ListItem, ListOperator, Pipeline, ShellCommand, ShellCommandKind, SimpleCommand,
};

/// Words with a special meaning at the start of a command.
pub(super) const RESERVED: [&str; 22] = [
    "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for",
    "function", "if", "in", "select", "then", "time", "until", "while",
];

/// Reserved words that end a list.
const CLOSING: [&str; 8] = ["then", "do", "done", "fi", "elif", "else", "esac", "}"];

impl ScriptReader<'_> {
    /// Parses commands up to something that cannot start one: `)`, `;;`, `fi`, the end. The caller
    /// checks whether that is valid.
    pub(super) fn parse_list(&mut self) -> CommandList {
        let mut items: Vec<ListItem> = Vec::new();
        // Start of the current `&&` list.
        let mut start = 0;
        let mut joint = ListOperator::Then;
        loop {
            self.skip_newlines();
            if self.is_at_list_end() {
                if joint != ListOperator::Then {
                    self.fail_unexpected();
                }
                break;
            }
            let (commands, negated) = self.parse_pipeline();
            if !commands.is_empty() {
                let pipeline = Pipeline { commands, negated };
                items.push(ListItem { joint, pipeline, background: false });
            }
            self.skip_blanks();
            joint = ListOperator::Then;
            if self.eat("&&") {
                joint = ListOperator::And;
                continue;
            }
            if self.eat("||") {
                joint = ListOperator::Or;
                continue;
            }
            if self.is_at_clause_end() {
                break;
            }
            if self.eat("&") {
                items.iter_mut().skip(start).for_each(|item| item.background = true);
            } else if !self.eat(";") && !self.eat_newline() {
                break;
            }
            start = items.len();
        }
        CommandList { items }
    }

    /// A list that must not be empty, for a compound command.
    pub(super) fn parse_body(&mut self) -> CommandList {
        let list = self.parse_list();
        if list.items.is_empty() {
            self.fail_unexpected();
        }
        list
    }

    fn is_at_list_end(&mut self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => self.is_at_clause_end(),
            _ => self.peek_reserved().is_some_and(|word| CLOSING.contains(&word)),
        }
    }

    /// Whether a `;;`, `;&` or `;;&` of `case` is next.
    pub(super) fn is_at_clause_end(&mut self) -> bool {
        self.is_at(";;") || self.is_at(";&")
    }

    fn parse_pipeline(&mut self) -> (Vec<ShellCommand>, bool) {
        let start = self.pos;
        let mut prefixed = false;
        let mut negated = false;
        loop {
            self.skip_blanks();
            if self.eat_reserved("!") {
                negated = true;
                // If an earlier line enabled `extglob`, this is a pattern.
                if self.current_byte() == Some(b'(') {
                    self.fail("`!(` has two meanings");
                }
            } else if self.eat_reserved("time") {
                self.skip_time_options();
            } else {
                break;
            }
            prefixed = true;
        }
        if prefixed
            && (matches!(self.peek(), None | Some(b'\n' | b';')) && !self.is_at_clause_end())
        {
            let kind = ShellCommandKind::Simple(SimpleCommand::default());
            let nothing = ShellCommand { kind, redirects: Vec::new(), span: self.span_from(start) };
            return (vec![nothing], negated);
        }
        let mut commands = Vec::new();
        loop {
            commands.extend(self.parse_command());
            self.skip_blanks();
            if self.is_at("||") || !(self.eat("|&") || self.eat("|")) {
                break;
            }
            self.skip_newlines();
        }
        (commands, negated)
    }

    /// Skips `-p` and `--` after `time`.
    fn skip_time_options(&mut self) {
        for option in ["-p", "--"] {
            self.skip_blanks();
            if let Some(end) = self.match_end(option)
                && self.is_word_end_at(end)
            {
                self.pos = end;
            }
        }
    }

    /// The reserved word at this position, if any.
    pub(super) fn peek_reserved(&mut self) -> Option<&'static str> {
        let first = self.peek()?;
        let alike = RESERVED.into_iter().filter(|word| word.as_bytes().first() == Some(&first));
        alike
            .into_iter()
            .find(|word| self.match_end(word).is_some_and(|end| self.is_word_end_at(end)))
    }

    /// Consumes a reserved word if it is next.
    pub(super) fn eat_reserved(&mut self, word: &str) -> bool {
        match self.match_end(word) {
            Some(end) if self.is_word_end_at(end) => {
                self.pos = end;
                true
            }
            _ => false,
        }
    }

    /// Consumes a reserved word; fails if it is not next.
    pub(super) fn expect_reserved(&mut self, word: &str) {
        self.skip_newlines();
        if !self.eat_reserved(word) && !self.has_failed() {
            let message = format!("expected `{word}`");
            self.fail(message);
        }
    }

    /// Whether a word really ends at `end`. A process substitution may follow directly: `if<(x)` is
    /// one word.
    pub(super) fn is_word_end_at(&mut self, end: usize) -> bool {
        let position = std::mem::replace(&mut self.pos, end);
        let breaks =
            self.peek().is_none_or(is_word_break) && !self.is_at("<(") && !self.is_at(">(");
        self.pos = position;
        breaks
    }
}
