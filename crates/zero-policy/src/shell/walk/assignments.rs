//! Assignments: what a variable holds afterwards, and what setting it may change.

use super::super::analysis::UncertaintyKind;
use super::super::arg::ShellArg;
use super::super::ast::{AssignmentValue, SourceSpan, VariableAssignment};
use super::super::shell_state::{ShellState, VariableValue};
use super::super::variables;
use super::{NodeContext, ScriptWalker, arithmetic};

impl ScriptWalker<'_> {
    /// Sets a variable, for good where it `lasts`.
    pub(super) fn assign(
        &mut self,
        assignment: &VariableAssignment,
        lasts: bool,
        here: NodeContext,
        state: &mut ShellState,
    ) {
        if let Some(subscript) = &assignment.subscript {
            self.word(subscript, here, state);
            self.calculated(subscript, here, state);
        }
        let value = match &assignment.value {
            AssignmentValue::Scalar(word) => {
                self.parts(word, here, state);
                let value = self.scalar(word, state);
                self.evaluated_later(&value, assignment.span, here);
                match VariableValue::of(&value) {
                    VariableValue::Unknown if self.is_number(word, state) => VariableValue::Number,
                    VariableValue::Unknown => match self.scalar(word, &state.guessing()) {
                        ShellArg::Known(text) => VariableValue::Guess(vec![text]),
                        _ => VariableValue::Unknown,
                    },
                    value => value,
                }
            }
            AssignmentValue::Array(words) => {
                let mut elements = Vec::new();
                for word in words {
                    if let Some(subscript) = arithmetic::subscript(word) {
                        self.calculated(&subscript, here, state);
                    }
                    elements.extend(self.word(word, here, state));
                }
                guess_of(&elements)
            }
        };
        let plain = assignment.subscript.is_none() && !assignment.append;
        let value = match value {
            value if plain && lasts => value,
            // What is set for one command only may still be seen by `eval` and by functions.
            VariableValue::Known(text) if !assignment.append => VariableValue::Guess(vec![text]),
            value @ VariableValue::Guess(_) if !assignment.append => value,
            _ => VariableValue::Unknown,
        };
        state.set(&assignment.name, value);
    }

    /// Notes a text such as `a[$(id)]`: where the shell takes it for a number, it runs what is in it.
    pub(super) fn evaluated_later(
        &mut self,
        value: &ShellArg,
        span: SourceSpan,
        here: NodeContext,
    ) {
        let text = value.certain_start();
        if text.contains('[') && (text.contains("$(") || text.contains('`')) {
            let reason = "a subscript with a substitution runs when it is evaluated".to_owned();
            self.doubt(here, span, UncertaintyKind::Unresolved, reason);
        }
    }

    /// Notes that a variable is set that changes what runs.
    pub(super) fn assigned(&mut self, name: &str, span: SourceSpan, here: NodeContext) {
        if variables::changes_what_runs(name) {
            let reason = format!("setting `{name}` can change what runs");
            self.doubt(here, span, UncertaintyKind::Altered, reason);
        }
    }
}

/// What a list holds, when all of it is known: a guess, because elements are not followed.
pub(super) fn guess_of(elements: &[ShellArg]) -> VariableValue {
    let texts: Option<Vec<String>> =
        elements.iter().map(|element| element.as_known().map(str::to_owned)).collect();
    texts.filter(|texts| !texts.is_empty()).map_or(VariableValue::Unknown, VariableValue::Guess)
}
