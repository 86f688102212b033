//! Commands made of commands: groups, conditions, loops, functions.

use super::super::analysis::{AnalysisNodeKind, UncertaintyKind, WorkingFolders};
use super::super::arg::ShellArg;
use super::super::ast::{CommandList, ShellCommand, ShellCommandKind, ShellWord, SourceSpan};
use super::super::shell_state::{ShellFunction, ShellState, VariableValue, is_number};
use super::state_changes::moves;
use super::{
    ExitStates, LOOP_VALUES_MAX, NODES_COMFORTABLE, NodeContext, PipedOutput, ScriptWalker,
    StdinSource,
};

impl ScriptWalker<'_> {
    pub(super) fn command_within(
        &mut self,
        command: &ShellCommand,
        here: NodeContext,
        mut state: ShellState,
        input: StdinSource,
    ) -> ExitStates {
        let span = command.span;
        if let ShellCommandKind::Simple(simple) = &command.kind {
            let input = self.redirects(&command.redirects, here, &mut state).unwrap_or(input);
            return self.simple(simple, span, here, state, &input);
        }
        let label = match &command.kind {
            ShellCommandKind::Simple(_) => "",
            ShellCommandKind::Subshell(_) => "( )",
            ShellCommandKind::Group(_) => "{ }",
            ShellCommandKind::If { .. } => "if",
            ShellCommandKind::While { .. } => "loop",
            ShellCommandKind::For { .. } | ShellCommandKind::ArithmeticFor { .. } => "for",
            ShellCommandKind::Case { .. } => "case",
            ShellCommandKind::Arithmetic(_) => "(( ))",
            ShellCommandKind::Test(_) => "[[ ]]",
            ShellCommandKind::Function { name, .. } => &format!("function {name}"),
            ShellCommandKind::Coprocess(_) => "coproc",
        };
        let here = here.below(self.node(here, span, label, AnalysisNodeKind::Structure));
        self.redirects(&command.redirects, here, &mut state);
        match &command.kind {
            ShellCommandKind::Simple(_) => ExitStates::either(state),
            ShellCommandKind::Subshell(list) => {
                self.list(list, here, state.clone());
                ExitStates::either(state)
            }
            ShellCommandKind::Group(list) => self.list(list, here, state),
            ShellCommandKind::If { branches, otherwise } => {
                self.branches(branches, otherwise.as_ref(), here, state)
            }
            ShellCommandKind::While { condition, body } => {
                self.forget_changes(&[condition, body], &mut state, here);
                let checked = self.list(condition, here, state.clone());
                // `until` goes on where the condition failed.
                let checked = checked.joined();
                let after = self.list(body, here, checked.clone());
                ExitStates::either(checked.or(&after.joined()).or(&state))
            }
            ShellCommandKind::For { variable, words, asks, body } => {
                if *asks {
                    let reason = "what `select` sets depends on an answer".to_owned();
                    self.doubt(here, span, UncertaintyKind::Unresolved, reason);
                }
                self.for_each(variable, words.as_deref(), body, span, here, state)
            }
            ShellCommandKind::ArithmeticFor { header, body } => {
                self.arithmetic(header, here, &mut state);
                self.forget_changes(&[body], &mut state, here);
                let after = self.list(body, here, state.clone());
                ExitStates::either(state.or(&after.joined()))
            }
            ShellCommandKind::Case { subject, arms } => {
                self.word(subject, here, &mut state);
                let mut ends = state.clone();
                for (patterns, body) in arms {
                    for pattern in patterns {
                        self.word(pattern, here, &mut state);
                    }
                    // An arm may be entered from the one before it.
                    ends = ends.or(&self.list(body, here, ends.clone()).joined());
                }
                ExitStates::either(ends)
            }
            ShellCommandKind::Arithmetic(word) => {
                self.arithmetic(word, here, &mut state);
                ExitStates::either(state)
            }
            ShellCommandKind::Test(words) => {
                for word in words {
                    self.word(word, here, &mut state);
                }
                self.tested(words, span, here, &mut state);
                ExitStates::either(state)
            }
            ShellCommandKind::Function { name, body } => {
                self.function(name, body, here, &mut state);
                ExitStates::either(state)
            }
            ShellCommandKind::Coprocess(body) => {
                // It sets a variable to numbers, and that may be any variable.
                let reason = "`coproc` sets variables of its own".to_owned();
                self.doubt(here, span, UncertaintyKind::Unresolved, reason);
                self.command(body, here, state.clone(), StdinSource::Piped(PipedOutput::default()));
                ExitStates::either(state.without_variables())
            }
        }
    }

    fn branches(
        &mut self,
        branches: &[(CommandList, CommandList)],
        otherwise: Option<&CommandList>,
        here: NodeContext,
        state: ShellState,
    ) -> ExitStates {
        let mut ends: Option<ShellState> = None;
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
        ExitStates::either(ends.map_or_else(|| undecided.clone(), |ends| ends.or(&undecided)))
    }

    fn for_each(
        &mut self,
        variable: &str,
        words: Option<&[ShellWord]>,
        body: &CommandList,
        span: SourceSpan,
        here: NodeContext,
        mut state: ShellState,
    ) -> ExitStates {
        let mut values: Option<Vec<ShellArg>> = words.map(|_| Vec::new());
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
        let otherwise = if counts { VariableValue::Number } else { VariableValue::Unknown };
        let known = values.filter(|values| {
            let resolved = values.iter().all(|value| !matches!(value, ShellArg::Unknown { .. }));
            let few = values.len() <= LOOP_VALUES_MAX;
            resolved && few && !values.is_empty() && self.analysis.nodes.len() < NODES_COMFORTABLE
        });
        for value in known.as_deref().unwrap_or_default() {
            self.evaluated_later(value, span, here);
        }
        let known: Option<Vec<VariableValue>> =
            known.map(|known| known.iter().map(VariableValue::of).collect());
        let mut end = before.clone();
        let values = known.unwrap_or_else(|| vec![otherwise]);
        for value in values {
            let mut state = before.clone();
            state.set(variable, value);
            end = end.or(&self.list(body, here, state).joined());
        }
        ExitStates::either(end)
    }

    /// A function's body is looked at where it is defined, with variables that may hold anything.
    fn function(
        &mut self,
        name: &str,
        body: &ShellCommand,
        here: NodeContext,
        state: &mut ShellState,
    ) {
        let moves = moves(body, state, &self.functions);
        if self.called.contains(name) {
            let reason = format!("`{name}` was no function where it was called");
            self.doubt(here, body.span, UncertaintyKind::Unresolved, reason);
        }
        self.functions.insert(name.to_owned());
        let mut inside = state.without_variables();
        let text = self.source.get(body.span.start..body.span.end);
        if moves && text.is_none_or(|text| text.contains(name)) {
            // It may call itself, from wherever it has gone.
            inside.folders = WorkingFolders::Unknown;
        }
        self.bodies += 1;
        let within = std::mem::replace(&mut self.in_body, true);
        self.command(body, here, inside, StdinSource::Piped(PipedOutput::default()));
        self.in_body = within;
        let folders = state.folders.clone();
        if !state.define(name, ShellFunction { folders, moves, certain: true }) {
            let reason = "more functions than anybody follows".to_owned();
            self.doubt(here, body.span, UncertaintyKind::Unresolved, reason);
        }
    }
}
