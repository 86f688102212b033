//! Compound commands: groups, conditions, loops, functions.

use super::super::analysis::{AnalysisNodeKind, UncertaintyKind, WorkingFolders};
use super::super::arg::ShellArg;
use super::super::ast::{CommandList, ShellCommand, ShellCommandKind, ShellWord, SourceSpan};
use super::super::shell_state::{ShellFunction, ShellState, VariableValue, is_number};
use super::state_changes::may_change_folder;
use super::{
    ExitStates, LOOP_NODES_MAX, LOOP_VALUES_MAX, NodeContext, PipedOutput, ScriptWalker,
    StdinSource,
};

impl ScriptWalker<'_> {
    pub(super) fn walk_compound_command(
        &mut self,
        command: &ShellCommand,
        node_context: NodeContext,
        mut state: ShellState,
        input: StdinSource,
    ) -> ExitStates {
        let span = command.span;
        if let ShellCommandKind::Simple(simple) = &command.kind {
            let input = self
                .walk_redirections(&command.redirects, node_context, &mut state)
                .unwrap_or(input);
            return self.walk_simple_command(simple, span, node_context, state, &input);
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
        let context = node_context.with_parent(self.add_node(
            node_context,
            span,
            label,
            AnalysisNodeKind::Structure,
        ));
        self.walk_redirections(&command.redirects, context, &mut state);
        match &command.kind {
            ShellCommandKind::Simple(_) => ExitStates::from_single(state),
            ShellCommandKind::Subshell(list) => {
                self.walk_list(list, context, state.clone());
                ExitStates::from_single(state)
            }
            ShellCommandKind::Group(list) => self.walk_list(list, context, state),
            ShellCommandKind::If { branches, otherwise } => {
                self.walk_branches(branches, otherwise.as_ref(), context, state)
            }
            ShellCommandKind::While { condition, body } => {
                self.forget_changes(&[condition, body], &mut state, context);
                let checked = self.walk_list(condition, context, state.clone());
                // `until` continues after a failed condition.
                let checked = checked.merge();
                let after = self.walk_list(body, context, checked.clone());
                ExitStates::from_single(checked.merge(&after.merge()).merge(&state))
            }
            ShellCommandKind::For { variable, words, asks, body } => {
                if *asks {
                    let reason = "what `select` sets depends on an answer".to_owned();
                    self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
                }
                self.walk_for_loop(variable, words.as_deref(), body, span, context, state)
            }
            ShellCommandKind::ArithmeticFor { header, body } => {
                self.walk_arithmetic(header, context, &mut state);
                self.forget_changes(&[body], &mut state, context);
                let after = self.walk_list(body, context, state.clone());
                ExitStates::from_single(state.merge(&after.merge()))
            }
            ShellCommandKind::Case { subject, arms } => {
                self.walk_word(subject, context, &mut state);
                let mut ends = state.clone();
                for (patterns, body) in arms {
                    for pattern in patterns {
                        self.walk_word(pattern, context, &mut state);
                    }
                    // An arm may be entered from the one before it.
                    ends = ends.merge(&self.walk_list(body, context, ends.clone()).merge());
                }
                ExitStates::from_single(ends)
            }
            ShellCommandKind::Arithmetic(word) => {
                self.walk_arithmetic(word, context, &mut state);
                ExitStates::from_single(state)
            }
            ShellCommandKind::Test(words) => {
                for word in words {
                    self.walk_word(word, context, &mut state);
                }
                self.walk_test_operands(words, span, context, &mut state);
                ExitStates::from_single(state)
            }
            ShellCommandKind::Function { name, body } => {
                self.walk_function(name, body, context, &mut state);
                ExitStates::from_single(state)
            }
            ShellCommandKind::Coprocess(body) => {
                // It sets a variable to descriptor numbers, and that may be any variable.
                let reason = "`coproc` sets variables of its own".to_owned();
                self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
                self.walk_command(
                    body,
                    context,
                    state.clone(),
                    StdinSource::Piped(PipedOutput::default()),
                );
                ExitStates::from_single(state.without_variables())
            }
        }
    }

    fn walk_branches(
        &mut self,
        branches: &[(CommandList, CommandList)],
        otherwise: Option<&CommandList>,
        context: NodeContext,
        state: ShellState,
    ) -> ExitStates {
        let mut ends: Option<ShellState> = None;
        let mut undecided = state;
        for (condition, body) in branches {
            let checked = self.walk_list(condition, context, undecided);
            let end = self.walk_list(body, context, checked.succeeded).merge();
            ends = Some(ends.map_or_else(|| end.clone(), |ends| ends.merge(&end)));
            undecided = checked.failed;
        }
        if let Some(otherwise) = otherwise {
            undecided = self.walk_list(otherwise, context, undecided).merge();
        }
        ExitStates::from_single(
            ends.map_or_else(|| undecided.clone(), |ends| ends.merge(&undecided)),
        )
    }

    fn walk_for_loop(
        &mut self,
        variable: &str,
        words: Option<&[ShellWord]>,
        body: &CommandList,
        span: SourceSpan,
        context: NodeContext,
        mut state: ShellState,
    ) -> ExitStates {
        let mut values: Option<Vec<ShellArg>> = words.map(|_| Vec::new());
        for word in words.unwrap_or_default() {
            let arguments = self.walk_word(word, context, &mut state);
            if let Some(values) = &mut values {
                values.extend(arguments);
            }
        }
        self.record_listed_folders(values.as_deref().unwrap_or_default(), &state, context);
        self.check_assigned_variable(variable, span, context);
        self.forget_changes(&[body], &mut state, context);
        let before = state.clone();
        let are_numbers = values.as_deref().is_some_and(|values| {
            values.iter().all(|value| value.as_known().is_some_and(is_number))
        });
        let are_numbers =
            are_numbers || words.is_some_and(|words| self.are_numbers(words, &before));
        let otherwise = if are_numbers { VariableValue::Number } else { VariableValue::Unknown };
        let known = values.filter(|values| {
            let resolved = values.iter().all(|value| !matches!(value, ShellArg::Unknown { .. }));
            let few = values.len() <= LOOP_VALUES_MAX;
            resolved && few && !values.is_empty() && self.analysis.nodes.len() < LOOP_NODES_MAX
        });
        for value in known.as_deref().unwrap_or_default() {
            self.check_deferred_evaluation(value, span, context);
        }
        let known: Option<Vec<VariableValue>> =
            known.map(|known| known.iter().map(VariableValue::from_arg).collect());
        let mut end = before.clone();
        let values = known.unwrap_or_else(|| vec![otherwise]);
        for value in values {
            let mut state = before.clone();
            state.set(variable, value);
            end = end.merge(&self.walk_list(body, context, state).merge());
        }
        ExitStates::from_single(end)
    }

    /// Analyzes a function's body at its definition, with unknown variables.
    fn walk_function(
        &mut self,
        name: &str,
        body: &ShellCommand,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        let moves = may_change_folder(body, state, &self.functions);
        if self.called.contains(name) {
            let reason = format!("`{name}` was not a function when it was called");
            self.record_uncertainty(context, body.span, UncertaintyKind::Unresolved, reason);
        }
        self.functions.insert(name.to_owned());
        let mut inside = state.without_variables();
        let text = self.source.get(body.span.start..body.span.end);
        if moves && text.is_none_or(|text| text.contains(name)) {
            // It may call itself, from any folder it has changed to.
            inside.folders = WorkingFolders::Unknown;
        }
        self.bodies += 1;
        let within = std::mem::replace(&mut self.in_body, true);
        self.walk_command(body, context, inside, StdinSource::Piped(PipedOutput::default()));
        self.in_body = within;
        let folders = state.folders.clone();
        if !state.define(name, ShellFunction { folders, moves, certain: true }) {
            let reason = "it defines too many functions to check".to_owned();
            self.record_uncertainty(context, body.span, UncertaintyKind::Unresolved, reason);
        }
    }
}
