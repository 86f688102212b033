//! Simple commands: assignments, a program, arguments, and redirections between them.

use super::reader::ScriptReader;
use super::word::{WordStyle, push_text};
use crate::shell::ast::{
    AssignmentValue, Redirection, ShellCommand, ShellCommandKind, ShellWord, SimpleCommand,
    VariableAssignment, WordPart,
};

/// Builtins whose arguments may be `NAME=( … )`.
const DECLARING_BUILTINS: [&str; 5] = ["declare", "export", "local", "readonly", "typeset"];

/// The start of an assignment: `NAME=`, `NAME+=`, `NAME[i]=`.
struct AssignmentHead {
    name: String,
    subscript: Option<ShellWord>,
    append: bool,
}

impl ScriptReader<'_> {
    /// A simple command, or the definition of a function; `None` after an error.
    pub(super) fn parse_simple_command(&mut self, start: usize) -> Option<ShellCommand> {
        let mut simple = SimpleCommand::default();
        let mut redirects = Vec::new();
        // After a redirection or an operator, `NAME=( … )` is no longer an argument of `declare`.
        let mut declaring = false;
        loop {
            self.skip_blanks();
            if let Some(redirect) = self.parse_redirection() {
                redirects.push(redirect);
                declaring = false;
                continue;
            }
            if self.peek() == Some(b'(') {
                let alone = simple.assignments.is_empty() && redirects.is_empty();
                return match &simple.words[..] {
                    [word] if alone => self.parse_function_after_name(start, word.function_name()),
                    _ => {
                        self.fail_unexpected();
                        build_simple_command(self, simple, redirects, start)
                    }
                };
            }
            let position = self.pos;
            let word = if simple.words.is_empty() {
                match self.parse_assignment() {
                    Ok(assignment) => {
                        simple.assignments.push(assignment);
                        continue;
                    }
                    Err(word) => word,
                }
            } else if declaring {
                self.parse_declared_word()
            } else {
                self.parse_argument_word()
            };
            let Some(word) = word else { break };
            self.reject_element_descriptor(position);
            let first = simple.words.is_empty();
            declaring |=
                first && word.plain_text().is_some_and(|t| DECLARING_BUILTINS.contains(&&t[..]));
            simple.words.push(word);
        }
        build_simple_command(self, simple, redirects, start)
    }

    /// `{name[i]}> file` sets an element to a descriptor. It is not supported, and parsing it as a
    /// word would be wrong.
    fn reject_element_descriptor(&mut self, start: usize) {
        let word = self.text.get(start..self.pos).unwrap_or_default();
        if matches!(self.current_byte(), Some(b'<' | b'>'))
            && word.starts_with('{')
            && word.ends_with('}')
            && word.contains('[')
        {
            self.fail("a descriptor in an array");
        }
    }

    /// `() body` after the name of a function.
    fn parse_function_after_name(
        &mut self,
        start: usize,
        name: Option<String>,
    ) -> Option<ShellCommand> {
        let Some(name) = name else {
            self.fail("expected a plain name before `()`");
            return None;
        };
        self.eat("(");
        self.skip_blanks();
        self.expect(")", "after the name of a function");
        self.parse_function_body(start, name)
    }

    /// An assignment, or else the word at this position, if any.
    fn parse_assignment(&mut self) -> Result<VariableAssignment, Option<ShellWord>> {
        let start = self.pos;
        let head = match self.parse_assignment_head() {
            Ok(head) => head,
            Err(parts) => return Err(self.parse_word_from(start, parts, WordStyle::Argument)),
        };
        let value =
            if self.peek() == Some(b'(') {
                if head.subscript.is_some() {
                    self.fail("a list cannot be assigned to an element");
                }
                AssignmentValue::Array(self.parse_array_elements())
            } else {
                let position = self.pos;
                let word = self.parse_word_from(position, Vec::new(), WordStyle::Argument);
                AssignmentValue::Scalar(word.unwrap_or_else(|| ShellWord {
                    parts: Vec::new(),
                    span: self.span_from(position),
                }))
            };
        let AssignmentHead { name, subscript, append } = head;
        Ok(VariableAssignment { name, subscript, append, value, span: self.span_from(start) })
    }

    /// The start of an assignment, or else the parsed part of a word.
    fn parse_assignment_head(&mut self) -> Result<AssignmentHead, Vec<WordPart>> {
        let mut parts = Vec::new();
        let name = self.parse_identifier();
        if name.is_empty() {
            return Err(parts);
        }
        push_text(&mut parts, &name, false);
        let mut subscript = None;
        if self.peek() == Some(b'[') {
            let word = self.parse_subscript();
            push_text(&mut parts, "[", false);
            word.parts.iter().for_each(|part| push_part(&mut parts, part));
            push_text(&mut parts, "]", false);
            subscript = Some(word);
        }
        let append = self.is_at("+=");
        if append || self.peek() == Some(b'=') {
            self.eat(if append { "+=" } else { "=" });
            return Ok(AssignmentHead { name, subscript, append });
        }
        Err(parts)
    }

    /// An argument of `declare` and similar builtins: `NAME=( … )` is one word.
    fn parse_declared_word(&mut self) -> Option<ShellWord> {
        let start = self.pos;
        let mut parts = Vec::new();
        let name = self.parse_identifier();
        push_text(&mut parts, &name, false);
        let sign = ["+=(", "=("].into_iter().find(|sign| self.is_at(sign));
        let Some(sign) = sign.filter(|_| !name.is_empty()) else {
            return self.parse_word_from(start, parts, WordStyle::Argument);
        };
        self.eat(sign.trim_end_matches('('));
        push_text(&mut parts, sign, false);
        for (index, element) in self.parse_array_elements().iter().enumerate() {
            if index > 0 {
                push_text(&mut parts, " ", false);
            }
            element.parts.iter().for_each(|part| push_part(&mut parts, part));
        }
        push_text(&mut parts, ")", false);
        Some(ShellWord { parts, span: self.span_from(start) })
    }

    /// `( … )` after the `=`.
    fn parse_array_elements(&mut self) -> Vec<ShellWord> {
        self.parse_nested(|reader| {
            let mut elements = Vec::new();
            reader.eat("(");
            loop {
                reader.skip_newlines();
                let start = reader.pos;
                let mut parts = Vec::new();
                if reader.peek() == Some(b'[') {
                    let word = reader.parse_subscript();
                    push_text(&mut parts, "[", false);
                    word.parts.iter().for_each(|part| push_part(&mut parts, part));
                    push_text(&mut parts, "]", false);
                }
                match reader.parse_word_from(start, parts, WordStyle::Argument) {
                    Some(element) => elements.push(element),
                    None => break,
                }
            }
            reader.expect(")", "at the end of an array");
            if !reader.is_at_word_end() {
                reader.fail("unexpected text after an array");
            }
            elements
        })
    }

    /// The identifier at this position; empty if there is none.
    pub(super) fn parse_identifier(&mut self) -> String {
        let mut name = String::new();
        while let Some(byte) = self.peek() {
            let fits = byte == b'_' || byte.is_ascii_alphabetic();
            if !(fits || (byte.is_ascii_digit() && !name.is_empty())) {
                break;
            }
            name.push(char::from(byte));
            self.pos += 1;
        }
        name
    }
}

fn build_simple_command(
    reader: &mut ScriptReader<'_>,
    simple: SimpleCommand,
    redirects: Vec<Redirection>,
    start: usize,
) -> Option<ShellCommand> {
    if simple == SimpleCommand::default() && redirects.is_empty() {
        reader.fail_unexpected();
        return None;
    }
    Some(ShellCommand {
        kind: ShellCommandKind::Simple(simple),
        redirects,
        span: reader.span_from(start),
    })
}

/// Adds a part; merges text with text of the same quoting.
fn push_part(parts: &mut Vec<WordPart>, part: &WordPart) {
    match part {
        WordPart::Text { text, quoted } => push_text(parts, text, *quoted),
        other => parts.push(other.clone()),
    }
}
