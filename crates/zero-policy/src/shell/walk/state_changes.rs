//! Collects the changes that commands make to the state of the shell that runs them.

use std::collections::HashSet;

use super::super::analysis::{UncertaintyKind, WorkingFolders};
use super::super::arg::ShellArg;
use super::super::ast::{
    AssignmentValue, CommandList, ParameterOperation, ShellCommand, ShellCommandKind, ShellWord,
    SimpleCommand, WordPart,
};
use super::super::shell_state::{ShellState, VariableValue, is_number};
use super::{NodeContext, ScriptWalker, arithmetic, arithmetic_words, variable_setters};

impl ScriptWalker<'_> {
    /// A loop's body may have run before: the variables it changes are unknown at its start.
    pub(super) fn forget_changes(
        &mut self,
        lists: &[&CommandList],
        state: &mut ShellState,
        context: NodeContext,
    ) {
        let mut changes = StateChanges::new(state, &self.functions);
        for list in lists {
            changes.collect_list(list);
        }
        let StateChanges { variables, numbers, moves, anything, distrusts, .. } = changes;
        if distrusts {
            self.distrust_variables(context, state);
        }
        if moves {
            self.moved = true;
            state.folders = WorkingFolders::Unknown;
        }
        if anything {
            *state = state.without_variables();
        }
        for name in numbers {
            let value =
                if state.is_number(&name) { VariableValue::Number } else { VariableValue::Unknown };
            state.set(&name, value);
        }
        for name in variables {
            state.set(&name, VariableValue::Unknown);
        }
    }

    /// Records that variables may not have the assigned value from here on.
    pub(super) fn distrust_variables(&mut self, context: NodeContext, state: &mut ShellState) {
        let is_new = state.distrust_variables();
        *state = state.without_variables();
        if is_new && self.bodies > 0 {
            // Their bodies were analyzed under other assumptions.
            let reason = "functions may find variables that do not hold what they assign";
            let span = context.span.unwrap_or_default();
            self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason.to_owned());
        }
    }

    /// Whether running the list at any time would change the state of the shell.
    pub(super) fn changes_shell_state(&mut self, list: &CommandList, state: &ShellState) -> bool {
        let mut changes = StateChanges::new(state, &self.functions);
        changes.collect_list(list);
        let StateChanges { variables, numbers, moves, anything, calls, .. } = changes;
        self.called.extend(calls);
        moves || anything || !variables.is_empty() || !numbers.is_empty()
    }
}

pub(super) fn may_change_folder(
    command: &ShellCommand,
    state: &ShellState,
    functions: &HashSet<String>,
) -> bool {
    let mut changes = StateChanges::new(state, functions);
    changes.collect_command(command);
    changes.moves
}

/// The changes to the state of the shell.
struct StateChanges<'s> {
    before: &'s ShellState,
    /// Names that are functions somewhere.
    functions: &'s HashSet<String>,
    variables: Vec<String>,
    /// Variables that only change to other numbers.
    numbers: Vec<String>,
    moves: bool,
    /// Whether unknown changes are possible.
    anything: bool,
    /// Whether variables may no longer have the assigned value.
    distrusts: bool,
    /// Names that are called and are not functions.
    calls: Vec<String>,
}

impl<'s> StateChanges<'s> {
    fn new(before: &'s ShellState, functions: &'s HashSet<String>) -> Self {
        Self {
            before,
            functions,
            variables: Vec::new(),
            numbers: Vec::new(),
            moves: false,
            anything: false,
            distrusts: false,
            calls: Vec::new(),
        }
    }

    fn collect_list(&mut self, list: &CommandList) {
        for item in &list.items {
            for command in &item.pipeline.commands {
                self.collect_command(command);
            }
        }
    }

    fn collect_command(&mut self, command: &ShellCommand) {
        for redirect in &command.redirects {
            self.numbers.extend(redirect.variable.clone());
            self.collect_word(&redirect.target);
        }
        match &command.kind {
            ShellCommandKind::Simple(simple) => self.collect_simple_command(simple),
            ShellCommandKind::Group(list) => self.collect_list(list),
            ShellCommandKind::If { branches, otherwise } => {
                for (condition, body) in branches {
                    self.collect_list(condition);
                    self.collect_list(body);
                }
                if let Some(otherwise) = otherwise {
                    self.collect_list(otherwise);
                }
            }
            ShellCommandKind::While { condition, body } => {
                self.collect_list(condition);
                self.collect_list(body);
            }
            ShellCommandKind::For { variable, words, body, .. } => {
                self.collect_words(words.as_deref().unwrap_or_default());
                self.variables.push(variable.clone());
                self.collect_list(body);
            }
            ShellCommandKind::ArithmeticFor { header, body } => {
                self.numbers.extend(arithmetic::collect_names(header));
                self.collect_list(body);
            }
            ShellCommandKind::Case { subject, arms } => {
                self.collect_word(subject);
                for (patterns, body) in arms {
                    self.collect_words(patterns);
                    self.collect_list(body);
                }
            }
            ShellCommandKind::Arithmetic(word) => {
                self.numbers.extend(arithmetic::collect_names(word))
            }
            // Their changes do not leave the subshell.
            ShellCommandKind::Subshell(_) | ShellCommandKind::Coprocess(_) => {}
            ShellCommandKind::Test(words) => {
                self.collect_words(words);
                let compares = |word: &ShellWord| {
                    matches!(&word.parts[..], [WordPart::Text { text, .. }]
                        if arithmetic::NUMERIC_COMPARISONS.contains(&text.as_str()) || text == "-v")
                };
                if words.iter().any(compares) {
                    let sets = words.iter().filter(|word| arithmetic::assigns_variables(word));
                    self.numbers.extend(sets.flat_map(arithmetic::collect_names));
                }
            }
            ShellCommandKind::Function { body, .. } => self.collect_command(body),
        }
    }

    /// Whether a word may be an option.
    fn may_be_option(word: &ShellWord) -> bool {
        match word.parts.first() {
            Some(WordPart::Text { text, .. }) => text.starts_with(['-', '+']) || text.is_empty(),
            _ => true,
        }
    }

    /// Adds the variables that arguments name, if they are plain words.
    fn collect_named_variables(&mut self, builtin: &str, simple: &SimpleCommand) -> bool {
        let args: Vec<ShellArg> = simple
            .words
            .iter()
            .skip(1)
            .map(|word| match &word.parts[..] {
                [WordPart::Text { text, .. }] => ShellArg::known(text.as_str()),
                _ => ShellArg::Unknown { starts_with: String::new(), written: String::new() },
            })
            .collect();
        let named = variable_setters::find_set_variables(builtin, &args);
        let seen = named.is_some();
        self.variables.extend(named.unwrap_or_default());
        seen
    }

    /// Whether it is an element of a list, whose subscript is evaluated.
    fn is_array_element(word: &ShellWord) -> bool {
        word.parts
            .iter()
            .any(|part| matches!(part, WordPart::Text { text, .. } if text.contains('[')))
    }

    fn collect_words(&mut self, words: &[ShellWord]) {
        for word in words {
            self.collect_word(word);
        }
    }

    /// Adds expansions that assign.
    fn collect_word(&mut self, word: &ShellWord) {
        for part in &word.parts {
            match part {
                WordPart::Parameter(parameter) => {
                    if parameter.operation == ParameterOperation::Assign {
                        self.variables.push(parameter.name.clone());
                    }
                    self.collect_words(&parameter.words);
                    let calculated = arithmetic_words(parameter).iter();
                    let sets = calculated.filter(|word| arithmetic::assigns_variables(word));
                    self.numbers.extend(sets.flat_map(arithmetic::collect_names));
                }
                WordPart::Arithmetic(inner) => {
                    self.numbers.extend(arithmetic::collect_names(inner));
                    self.collect_word(inner);
                }
                WordPart::Text { .. } | WordPart::Command { .. } | WordPart::Process { .. } => {}
            }
        }
    }

    fn collect_simple_command(&mut self, simple: &SimpleCommand) {
        self.collect_words(&simple.words);
        for assignment in &simple.assignments {
            let is_number = match &assignment.value {
                AssignmentValue::Scalar(word) => {
                    self.collect_word(word);
                    assignment.subscript.is_none() && is_always_number(word)
                }
                AssignmentValue::Array(words) => {
                    self.collect_words(words);
                    let subscripts = words.iter().filter_map(arithmetic::parse_subscript);
                    self.numbers
                        .extend(subscripts.flat_map(|word| arithmetic::collect_names(&word)));
                    false
                }
            };
            if let Some(subscript) = &assignment.subscript {
                self.numbers.extend(arithmetic::collect_names(subscript));
                self.collect_word(subscript);
            }
            let list = if is_number { &mut self.numbers } else { &mut self.variables };
            list.push(assignment.name.clone());
        }
        let Some(program) = simple.words.first() else { return };
        match &program.parts[..] {
            [WordPart::Text { text, .. }] => match text.as_str() {
                "readonly" | "declare" | "typeset" | "local" => {
                    self.anything = true;
                    self.distrusts |=
                        text == "readonly" || simple.words.iter().skip(1).any(Self::may_be_option);
                }
                "cd" | "pushd" | "popd" => self.moves = true,
                "read" | "unset" if self.collect_named_variables(text, simple) => {}
                "eval" | "source" | "." | "command" | "builtin" => {
                    self.moves = true;
                    self.anything = true;
                }
                "printf" if !simple.words.get(1).is_some_and(Self::may_be_option) => {}
                "wait" if simple.words.len() == 1 => {}
                "test" | "[" if !simple.words.iter().skip(1).any(Self::is_array_element) => {}
                "read" | "export" | "printf" | "mapfile" | "readarray" | "getopts" | "let"
                | "unset" | "set" | "shopt" | "trap" | "wait" | "test" | "[" => {
                    self.anything = true;
                }
                name => {
                    if let Some(function) = self.before.function(name) {
                        self.moves |= function.moves;
                        self.anything = true;
                    } else if self.functions.contains(name) {
                        self.moves = true;
                        self.anything = true;
                    } else {
                        self.calls.push(name.to_owned());
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

/// Whether a word expands to a number whatever the variables are.
fn is_always_number(word: &ShellWord) -> bool {
    !word.parts.is_empty()
        && word.parts.iter().all(|part| match part {
            WordPart::Text { text, .. } => is_number(text),
            WordPart::Arithmetic(_) => true,
            WordPart::Parameter(parameter) => parameter.operation == ParameterOperation::Length,
            WordPart::Command { .. } | WordPart::Process { .. } => false,
        })
}
