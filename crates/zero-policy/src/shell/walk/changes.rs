//! What running something would change in the shell that runs it.

use super::super::analysis::Folders;
use super::super::ast::{AssignedValue, Command, CommandKind, List, Operation, Part, Simple, Word};
use super::super::state::{State, Value, is_number};
use super::numbers;

/// A loop's body may have run before: what it changes is not known at its start.
pub(super) fn forget_changes(lists: &[&List], state: &mut State) {
    let mut changes = Changes::new(state);
    for list in lists {
        changes.list(list);
    }
    let Changes { variables, numbers, moves, anything, .. } = changes;
    if moves {
        state.folders = Folders::Unknown;
    }
    if anything {
        *state = state.without_variables();
    }
    for name in numbers {
        let value = if state.is_number(&name) { Value::Number } else { Value::Unknown };
        state.set(&name, value);
    }
    for name in variables {
        state.set(&name, Value::Unknown);
    }
}

/// Whether running something would change anything in the shell that runs it.
pub(super) fn changes_the_shell(list: &List, state: &State) -> bool {
    let mut changes = Changes::new(state);
    changes.list(list);
    let Changes { variables, numbers, moves, anything, .. } = changes;
    moves || anything || !variables.is_empty() || !numbers.is_empty()
}

pub(super) fn moves(command: &Command, state: &State) -> bool {
    let mut changes = Changes::new(state);
    changes.command(command);
    changes.moves
}

/// What running something would change in the shell that runs it.
struct Changes<'s> {
    before: &'s State,
    variables: Vec<String>,
    /// Variables that only become other numbers.
    numbers: Vec<String>,
    moves: bool,
    /// Something may be changed that cannot be seen here.
    anything: bool,
}

impl<'s> Changes<'s> {
    fn new(before: &'s State) -> Self {
        Self { before, variables: Vec::new(), numbers: Vec::new(), moves: false, anything: false }
    }

    fn list(&mut self, list: &List) {
        for item in &list.items {
            for command in &item.pipeline.commands {
                self.command(command);
            }
        }
    }

    fn command(&mut self, command: &Command) {
        for redirect in &command.redirects {
            self.numbers.extend(redirect.variable.clone());
            self.word(&redirect.target);
        }
        match &command.kind {
            CommandKind::Simple(simple) => self.simple(simple),
            CommandKind::Group(list) => self.list(list),
            CommandKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    self.list(condition);
                    self.list(body);
                }
                if let Some(otherwise) = otherwise {
                    self.list(otherwise);
                }
            }
            CommandKind::While { condition, body } => {
                self.list(condition);
                self.list(body);
            }
            CommandKind::For { variable, words, body, .. } => {
                self.words(words.as_deref().unwrap_or_default());
                self.variables.push(variable.clone());
                self.list(body);
            }
            CommandKind::ArithmeticFor { header, body } => {
                self.numbers.extend(numbers::names(header));
                self.list(body);
            }
            CommandKind::Case { subject, arms } => {
                self.word(subject);
                for (patterns, body) in arms {
                    self.words(patterns);
                    self.list(body);
                }
            }
            CommandKind::Arithmetic(word) => self.numbers.extend(numbers::names(word)),
            // What these change stays in them.
            CommandKind::Subshell(_) | CommandKind::Coprocess(_) => {}
            CommandKind::Test(words) => self.words(words),
            CommandKind::Function { body, .. } => self.command(body),
        }
    }

    /// Notes variables that can no longer be changed afterwards.
    fn fixes(&self, always: bool, simple: &Simple) {
        let texts = || {
            simple.words.iter().skip(1).filter_map(|word| match word.parts.first() {
                Some(Part::Text { text, .. }) => Some(text.as_str()),
                _ => None,
            })
        };
        if always || texts().any(|text| text.starts_with('-') && text.contains('r')) {
            for text in texts() {
                self.before.fix(text.split(['=', '+', '[']).next().unwrap_or(text));
            }
        }
    }

    /// Notes the variables that arguments name; `false` when not all of them are plain words.
    fn names_variables(&mut self, simple: &Simple) -> bool {
        let mut named = vec!["REPLY".to_owned(), "MAPFILE".to_owned()];
        for word in simple.words.iter().skip(1) {
            let [Part::Text { text, .. }] = &word.parts[..] else { return false };
            named.push(text.clone());
        }
        self.variables.extend(named);
        true
    }

    fn words(&mut self, words: &[Word]) {
        for word in words {
            self.word(word);
        }
    }

    /// Expansions that assign.
    fn word(&mut self, word: &Word) {
        for part in &word.parts {
            match part {
                Part::Parameter(parameter) => {
                    if parameter.operation == Operation::Assign {
                        self.variables.push(parameter.name.clone());
                    }
                    self.words(&parameter.words);
                }
                Part::Arithmetic(inner) => {
                    self.numbers.extend(numbers::names(inner));
                    self.word(inner);
                }
                Part::Text { .. } | Part::Command { .. } | Part::Process { .. } => {}
            }
        }
    }

    fn simple(&mut self, simple: &Simple) {
        self.words(&simple.words);
        for assignment in &simple.assignments {
            let counts = match &assignment.value {
                AssignedValue::Scalar(word) => {
                    self.word(word);
                    assignment.subscript.is_none() && counts(word)
                }
                AssignedValue::Array(words) => {
                    self.words(words);
                    false
                }
            };
            let list = if counts { &mut self.numbers } else { &mut self.variables };
            list.push(assignment.name.clone());
        }
        let Some(program) = simple.words.first() else { return };
        match &program.parts[..] {
            [Part::Text { text, .. }] => match text.as_str() {
                "readonly" | "declare" | "typeset" | "local" => {
                    self.anything = true;
                    self.fixes(text == "readonly", simple);
                }
                "cd" | "pushd" | "popd" => self.moves = true,
                "read" | "mapfile" | "readarray" | "unset" if self.names_variables(simple) => {}
                "eval" | "source" | "." | "command" | "builtin" => {
                    self.moves = true;
                    self.anything = true;
                }
                "read" | "export" | "printf" | "mapfile" | "readarray" | "getopts" | "let"
                | "unset" | "set" => {
                    self.anything = true;
                }
                name => {
                    if let Some(function) = self.before.function(name) {
                        self.moves |= function.moves;
                        self.anything = true;
                    }
                }
            },
            _ => {
                self.moves = true;
                self.anything = true;
            }
        }
    }
}

/// Whether a word becomes a number whatever the variables hold.
fn counts(word: &Word) -> bool {
    !word.parts.is_empty()
        && word.parts.iter().all(|part| match part {
            Part::Text { text, .. } => is_number(text),
            Part::Arithmetic(_) => true,
            Part::Parameter(parameter) => parameter.operation == Operation::Length,
            Part::Command { .. } | Part::Process { .. } => false,
        })
}
