//! Commands made of commands: groups, conditions, loops, functions.

use super::super::analysis::{DoubtKind, Folders, NodeKind};
use super::super::arg::Arg;
use super::super::ast::{Command, CommandKind, List, Span, Word};
use super::super::state::{Function, State, Value, is_number};
use super::changes::moves;
use super::{After, Here, Input, LOOP_VALUES_MAX, NODES_COMFORTABLE, Piped, Walker};

impl Walker<'_> {
    pub(super) fn command_within(
        &mut self,
        command: &Command,
        here: Here,
        mut state: State,
        input: Input,
    ) -> After {
        let span = command.span;
        if let CommandKind::Simple(simple) = &command.kind {
            let input = self.redirects(&command.redirects, here, &mut state).unwrap_or(input);
            return self.simple(simple, span, here, state, &input);
        }
        let label = match &command.kind {
            CommandKind::Simple(_) => "",
            CommandKind::Subshell(_) => "( )",
            CommandKind::Group(_) => "{ }",
            CommandKind::If { .. } => "if",
            CommandKind::While { .. } => "loop",
            CommandKind::For { .. } | CommandKind::ArithmeticFor { .. } => "for",
            CommandKind::Case { .. } => "case",
            CommandKind::Arithmetic(_) => "(( ))",
            CommandKind::Test(_) => "[[ ]]",
            CommandKind::Function { name, .. } => &format!("function {name}"),
            CommandKind::Coprocess(_) => "coproc",
        };
        let here = here.below(self.node(here, span, label, NodeKind::Structure));
        self.redirects(&command.redirects, here, &mut state);
        match &command.kind {
            CommandKind::Simple(_) => After::either(state),
            CommandKind::Subshell(list) => {
                self.list(list, here, state.clone());
                After::either(state)
            }
            CommandKind::Group(list) => self.list(list, here, state),
            CommandKind::If { branches, otherwise } => {
                self.branches(branches, otherwise.as_ref(), here, state)
            }
            CommandKind::While { condition, body } => {
                self.forget_changes(&[condition, body], &mut state, here);
                let checked = self.list(condition, here, state.clone());
                // `until` goes on where the condition failed.
                let checked = checked.joined();
                let after = self.list(body, here, checked.clone());
                After::either(checked.or(&after.joined()).or(&state))
            }
            CommandKind::For { variable, words, asks, body } => {
                if *asks {
                    let reason = "what `select` sets depends on an answer".to_owned();
                    self.doubt(here, span, DoubtKind::Unresolved, reason);
                }
                self.for_each(variable, words.as_deref(), body, span, here, state)
            }
            CommandKind::ArithmeticFor { header, body } => {
                self.arithmetic(header, here, &mut state);
                self.forget_changes(&[body], &mut state, here);
                let after = self.list(body, here, state.clone());
                After::either(state.or(&after.joined()))
            }
            CommandKind::Case { subject, arms } => {
                self.word(subject, here, &mut state);
                let mut ends = state.clone();
                for (patterns, body) in arms {
                    for pattern in patterns {
                        self.word(pattern, here, &mut state);
                    }
                    // An arm may be entered from the one before it.
                    ends = ends.or(&self.list(body, here, ends.clone()).joined());
                }
                After::either(ends)
            }
            CommandKind::Arithmetic(word) => {
                self.arithmetic(word, here, &mut state);
                After::either(state)
            }
            CommandKind::Test(words) => {
                for word in words {
                    self.word(word, here, &mut state);
                }
                self.tested(words, span, here, &mut state);
                After::either(state)
            }
            CommandKind::Function { name, body } => {
                self.function(name, body, here, &mut state);
                After::either(state)
            }
            CommandKind::Coprocess(body) => {
                // It sets a variable to numbers, and that may be any variable.
                let reason = "`coproc` sets variables of its own".to_owned();
                self.doubt(here, span, DoubtKind::Unresolved, reason);
                self.command(body, here, state.clone(), Input::Piped(Piped::default()));
                After::either(state.without_variables())
            }
        }
    }

    fn branches(
        &mut self,
        branches: &[(List, List)],
        otherwise: Option<&List>,
        here: Here,
        state: State,
    ) -> After {
        let mut ends: Option<State> = None;
        let mut undecided = state;
        for (condition, body) in branches {
            let checked = self.list(condition, here, undecided);
            let end = self.list(body, here, checked.succeeded).joined();
            ends = Some(ends.map_or_else(|| end.clone(), |ends| ends.or(&end)));
            undecided = checked.failed;
        }
        if let Some(otherwise) = otherwise {
            undecided = self.list(otherwise, here, undecided).joined();
        }
        After::either(ends.map_or_else(|| undecided.clone(), |ends| ends.or(&undecided)))
    }

    fn for_each(
        &mut self,
        variable: &str,
        words: Option<&[Word]>,
        body: &List,
        span: Span,
        here: Here,
        mut state: State,
    ) -> After {
        let mut values: Option<Vec<Arg>> = words.map(|_| Vec::new());
        for word in words.unwrap_or_default() {
            let arguments = self.word(word, here, &mut state);
            if let Some(values) = &mut values {
                values.extend(arguments);
            }
        }
        self.assigned(variable, span, here);
        self.forget_changes(&[body], &mut state, here);
        let before = state.clone();
        let counts = values.as_deref().is_some_and(|values| {
            values.iter().all(|value| value.as_known().is_some_and(is_number))
        });
        let counts = counts || words.is_some_and(|words| self.are_numbers(words, &before));
        let otherwise = if counts { Value::Number } else { Value::Unknown };
        let known = values.filter(|values| {
            let resolved = values.iter().all(|value| !matches!(value, Arg::Unknown { .. }));
            let few = values.len() <= LOOP_VALUES_MAX;
            resolved && few && !values.is_empty() && self.analysis.nodes.len() < NODES_COMFORTABLE
        });
        for value in known.as_deref().unwrap_or_default() {
            self.evaluated_later(value, span, here);
        }
        let known: Option<Vec<Value>> = known.map(|known| known.iter().map(Value::of).collect());
        let mut end = before.clone();
        let values = known.unwrap_or_else(|| vec![otherwise]);
        for value in values {
            let mut state = before.clone();
            state.set(variable, value);
            end = end.or(&self.list(body, here, state).joined());
        }
        After::either(end)
    }

    /// A function's body is looked at where it is defined, with variables that may hold anything.
    fn function(&mut self, name: &str, body: &Command, here: Here, state: &mut State) {
        let moves = moves(body, state, &self.functions);
        if self.called.contains(name) {
            let reason = format!("`{name}` was no function where it was called");
            self.doubt(here, body.span, DoubtKind::Unresolved, reason);
        }
        self.functions.insert(name.to_owned());
        let mut inside = state.without_variables();
        let text = self.source.get(body.span.start..body.span.end);
        if moves && text.is_none_or(|text| text.contains(name)) {
            // It may call itself, from wherever it has gone.
            inside.folders = Folders::Unknown;
        }
        self.bodies += 1;
        let within = std::mem::replace(&mut self.in_body, true);
        self.command(body, here, inside, Input::Piped(Piped::default()));
        self.in_body = within;
        let folders = state.folders.clone();
        if !state.define(name, Function { folders, moves, certain: true }) {
            let reason = "more functions than anybody follows".to_owned();
            self.doubt(here, body.span, DoubtKind::Unresolved, reason);
        }
    }
}
