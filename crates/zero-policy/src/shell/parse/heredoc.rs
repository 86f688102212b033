//! Here-documents: read at the end of their line, and inserted into the tree at the end of parsing.

use super::reader::ScriptReader;
use super::word::{QuotingContext, push_text};
use crate::shell::ast::{
    AssignmentValue, CommandList, RedirectionKind, ShellCommand, ShellCommandKind, ShellWord,
    WordPart,
};

/// A here-document whose body was not read yet.
#[derive(Debug)]
pub(super) struct PendingHeredoc {
    /// Its index in [`ScriptReader::bodies`].
    pub(super) number: usize,
    pub(super) delimiter: String,
    pub(super) quoted: bool,
    pub(super) strip_tabs: bool,
}

impl ScriptReader<'_> {
    /// Reads the bodies of the here-documents that the last line announced.
    pub(super) fn read_heredocs(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let start = self.pos;
            let text = self.read_heredoc_text(&pending);
            let span = self.span_from(start);
            let mut parts = Vec::new();
            if pending.quoted {
                push_text(&mut parts, &text, true);
            } else {
                parts = self.read_within(&text, span, |inner| inner.parse_heredoc_parts());
            }
            if let Some(body) = self.bodies.get_mut(pending.number) {
                *body = ShellWord { parts, span };
            }
        }
    }

    /// The lines up to the delimiter, or to the end.
    fn read_heredoc_text(&mut self, pending: &PendingHeredoc) -> String {
        let mut body = String::new();
        while !self.remaining_text().is_empty() {
            let start = self.pos;
            let (line, joined) = self.read_heredoc_line(pending.quoted);
            let mut line = &line[..];
            let mut stripped = 0;
            if pending.strip_tabs && line.strip_suffix('\n') != Some(&pending.delimiter[..]) {
                let rest = line.trim_start_matches('\t');
                stripped = line.len() - rest.len();
                line = rest;
            }
            let Some(after) = line.strip_prefix(&pending.delimiter[..]) else {
                body.push_str(line);
                continue;
            };
            if after == "\n" {
                break;
            }
            // Within `$( … )` bash accepts the `)` and more after the delimiter.
            if self.in_substitution && after.contains(')') {
                if joined || !after.starts_with(')') {
                    self.fail("a `)` in a line that starts like the end of a here-document");
                } else {
                    self.pos = start + stripped + pending.delimiter.len();
                }
                break;
            }
            body.push_str(line);
        }
        body
    }

    /// One line with its newline, and whether it was joined from several. The last line may lack
    /// its newline; bash adds it.
    fn read_heredoc_line(&mut self, quoted: bool) -> (String, bool) {
        let end = self.remaining_text().find('\n').unwrap_or(self.remaining_text().len());
        let whole = self.remaining_text().get(..end).unwrap_or_default();
        if quoted || !whole.contains('\\') {
            self.pos = (self.pos + end + 1).min(self.text.len());
            return (format!("{whole}\n"), false);
        }
        let mut line = String::new();
        let mut joined = false;
        loop {
            line.push_str(self.take_until(|byte| matches!(byte, b'\n' | b'\\')));
            match self.next_char() {
                Some('\\') => match self.next_char() {
                    Some('\n') => joined = true,
                    Some(next) => line.extend(['\\', next]),
                    None => self.fail("a backslash at the end"),
                },
                _ => break,
            }
        }
        line.push('\n');
        (line, joined)
    }

    /// Parses the whole text as the body of a here-document that is expanded.
    fn parse_heredoc_parts(&mut self) -> Vec<WordPart> {
        let mut parts = Vec::new();
        loop {
            let text = self.take_until(|byte| matches!(byte, b'$' | b'`' | b'\\'));
            if !text.is_empty() {
                push_text(&mut parts, text, true);
            }
            match self.current_byte() {
                None => break,
                Some(b'\\') => self.parse_escaped_in_quotes(&mut parts, "$`\\"),
                Some(_) => self.parse_expansion(&mut parts, QuotingContext::Heredoc),
            }
        }
        // Here-documents within substitutions of this one.
        self.fill_parts(&mut parts);
        parts
    }

    /// Inserts the bodies into their redirections.
    pub(super) fn fill_heredocs(&mut self, list: &mut CommandList) {
        if self.bodies.is_empty() {
            return;
        }
        for item in &mut list.items {
            item.pipeline.commands.iter_mut().for_each(|command| self.fill_command(command));
        }
    }

    fn fill_command(&mut self, command: &mut ShellCommand) {
        for redirect in &mut command.redirects {
            let is_open = redirect.target.span.end == usize::MAX;
            if redirect.kind == RedirectionKind::HereDocument && is_open {
                let body = self.bodies.get_mut(redirect.target.span.start);
                redirect.target = body.map(std::mem::take).unwrap_or_default();
            } else {
                self.fill_word(&mut redirect.target);
            }
        }
        match &mut command.kind {
            ShellCommandKind::Simple(simple) => {
                for assignment in &mut simple.assignments {
                    self.fill_words(assignment.subscript.as_mut_slice());
                    match &mut assignment.value {
                        AssignmentValue::Scalar(word) => self.fill_word(word),
                        AssignmentValue::Array(words) => self.fill_words(words),
                    }
                }
                self.fill_words(&mut simple.words);
            }
            ShellCommandKind::Subshell(list) | ShellCommandKind::Group(list) => {
                self.fill_heredocs(list)
            }
            ShellCommandKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    self.fill_heredocs(condition);
                    self.fill_heredocs(body);
                }
                otherwise.iter_mut().for_each(|list| self.fill_heredocs(list));
            }
            ShellCommandKind::While { condition, body } => {
                self.fill_heredocs(condition);
                self.fill_heredocs(body);
            }
            ShellCommandKind::For { words, body, .. } => {
                words.iter_mut().for_each(|words| self.fill_words(words));
                self.fill_heredocs(body);
            }
            ShellCommandKind::ArithmeticFor { header, body } => {
                self.fill_word(header);
                self.fill_heredocs(body);
            }
            ShellCommandKind::Case { subject, arms } => {
                self.fill_word(subject);
                for (patterns, body) in arms {
                    self.fill_words(patterns);
                    self.fill_heredocs(body);
                }
            }
            ShellCommandKind::Arithmetic(word) => self.fill_word(word),
            ShellCommandKind::Test(words) => self.fill_words(words),
            ShellCommandKind::Function { body, .. } | ShellCommandKind::Coprocess(body) => {
                self.fill_command(body);
            }
        }
    }

    fn fill_words(&mut self, words: &mut [ShellWord]) {
        words.iter_mut().for_each(|word| self.fill_word(word));
    }

    fn fill_word(&mut self, word: &mut ShellWord) {
        self.fill_parts(&mut word.parts);
    }

    fn fill_parts(&mut self, parts: &mut [WordPart]) {
        for part in parts {
            match part {
                WordPart::Text { .. } => {}
                WordPart::Parameter(parameter) => self.fill_words(&mut parameter.words),
                WordPart::Command { list, .. } | WordPart::Process { list } => {
                    self.fill_heredocs(list)
                }
                WordPart::Arithmetic(word) => self.fill_word(word),
            }
        }
    }
}
