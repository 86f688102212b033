//! Assignments: the value of a variable afterwards, and the effects of setting it.

use super::super::analysis::UncertaintyKind;
use super::super::arg::ShellArg;
use super::super::ast::{AssignmentValue, SourceSpan, VariableAssignment};
use super::super::shell_state::{ShellState, VariableValue};
use super::super::variables::VariableEffect;
use super::{NodeContext, ScriptWalker, arithmetic};
use crate::program::{PackageManager, registry_addresses};

/// Most registries that the variables of a script name, and the longest address of one, in bytes.
const REGISTRIES_MAX: usize = 8;
const REGISTRY_BYTES_MAX: usize = 512;

impl ScriptWalker<'_> {
    /// Sets a variable; `lasts` says whether it outlives the command.
    pub(super) fn walk_assignment(
        &mut self,
        assignment: &VariableAssignment,
        lasts: bool,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        if assignment.subscript.is_some() || matches!(assignment.value, AssignmentValue::Array(_)) {
            self.arrays.insert(&assignment.name);
        }
        if let Some(subscript) = &assignment.subscript {
            self.walk_word(subscript, context, state);
            self.walk_calculation(subscript, context, state);
        }
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) => {
                self.walk_word_parts(word, context, state);
                let value = self.expand_scalar(word, state);
                self.check_deferred_evaluation(&value, assignment.span, context);
                match VariableValue::from_arg(&value) {
                    VariableValue::Unknown if self.is_number(word, state) => VariableValue::Number,
                    VariableValue::Unknown => match self.expand_scalar(word, &state.with_guesses())
                    {
                        ShellArg::Known(text) => VariableValue::Guess(vec![text]),
                        _ => VariableValue::Unknown,
                    },
                    value => value,
                }
            }
            AssignmentValue::Array(words) => {
                let mut elements = Vec::new();
                for word in words {
                    if let Some(subscript) = arithmetic::parse_subscript(word) {
                        self.walk_calculation(&subscript, context, state);
                    }
                    elements.extend(self.walk_word(word, context, state));
                }
                self.record_listed_folders(&elements, state, context);
                VariableValue::from_elements(&elements)
            }
        };
        let plain = assignment.subscript.is_none() && !assignment.append;
        let value = match value {
            value if plain && lasts => value,
            // A variable set for one command is still visible to `eval` and functions.
            VariableValue::Known(text) if !assignment.append => VariableValue::Guess(vec![text]),
            value @ VariableValue::Guess(_) if !assignment.append => value,
            _ => VariableValue::Unknown,
        };
        state.set(&assignment.name, value);
    }

    /// The value of an assignment, as far as it is known.
    pub(super) fn assigned_value(
        &self,
        assignment: &VariableAssignment,
        state: &ShellState,
    ) -> Option<ShellArg> {
        match &assignment.value {
            AssignmentValue::Scalar(word) if !assignment.append => {
                Some(self.expand_scalar(word, state))
            }
            AssignmentValue::Scalar(_) | AssignmentValue::Array(_) => None,
        }
    }

    /// Reports a text such as `a[$(id)]`: if the shell evaluates it as a number, it runs the
    /// command in it.
    pub(super) fn check_deferred_evaluation(
        &mut self,
        value: &ShellArg,
        span: SourceSpan,
        context: NodeContext,
    ) {
        let text = value.known_prefix();
        if text.contains('[') && (text.contains("$(") || text.contains('`')) {
            let reason = "a subscript with a substitution runs when it is evaluated".to_owned();
            self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
        }
    }

    /// Reports a variable that changes which code runs; its value is not known.
    pub(super) fn check_assigned_variable(
        &mut self,
        name: &str,
        span: SourceSpan,
        context: NodeContext,
    ) {
        self.check_assigned_value(name, None, span, context);
    }

    /// Reports a variable that changes which code runs if it has this value.
    pub(super) fn check_assigned_value(
        &mut self,
        name: &str,
        value: Option<&ShellArg>,
        span: SourceSpan,
        context: NodeContext,
    ) {
        if VariableEffect::new(name, value) == VariableEffect::Steers {
            self.note_registries(name, value);
            let reason = format!("setting `{name}` can change what runs");
            self.record_uncertainty(context, span, UncertaintyKind::Altered, reason);
        }
    }

    /// Remembers the registries that a variable names, for the commands that follow.
    fn note_registries(&mut self, name: &str, value: Option<&ShellArg>) {
        let manager = PackageManager::from_registry_variable(name);
        let (Some(manager), Some(value)) = (manager, value.and_then(ShellArg::as_known)) else {
            return;
        };
        let named = registry_addresses(value).filter(|it| it.len() <= REGISTRY_BYTES_MAX);
        let named = named.map(|address| (manager, address.to_owned()));
        let room = REGISTRIES_MAX.saturating_sub(self.registries.len());
        self.registries.extend(named.take(room));
    }
}
