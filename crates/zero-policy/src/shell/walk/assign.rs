//! Assignments: what a variable holds afterwards, and what setting it may change.

use super::super::analysis::DoubtKind;
use super::super::arg::Arg;
use super::super::ast::{AssignedValue, Assignment, Span};
use super::super::state::{State, Value};
use super::super::variables;
use super::{Here, Walker, numbers};

impl Walker<'_> {
    /// Sets a variable, for good where it `lasts`.
    pub(super) fn assign(
        &mut self,
        assignment: &Assignment,
        lasts: bool,
        here: Here,
        state: &mut State,
    ) {
        if let Some(subscript) = &assignment.subscript {
            self.word(subscript, here, state);
            self.calculated(subscript, here, state);
        }
        let value = match &assignment.value {
            AssignedValue::Scalar(word) => {
                self.parts(word, here, state);
                let value = self.scalar(word, state);
                self.evaluated_later(&value, assignment.span, here);
                match Value::of(&value) {
                    Value::Unknown if self.is_number(word, state) => Value::Number,
                    Value::Unknown => match self.scalar(word, &state.guessing()) {
                        Arg::Known(text) => Value::Guess(vec![text]),
                        _ => Value::Unknown,
                    },
                    value => value,
                }
            }
            AssignedValue::Array(words) => {
                let mut elements = Vec::new();
                for word in words {
                    if let Some(subscript) = numbers::subscript(word) {
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
            Value::Known(text) if !assignment.append => Value::Guess(vec![text]),
            value @ Value::Guess(_) if !assignment.append => value,
            _ => Value::Unknown,
        };
        state.set(&assignment.name, value);
    }

    /// Notes a text such as `a[$(id)]`: where the shell takes it for a number, it runs what is in it.
    pub(super) fn evaluated_later(&mut self, value: &Arg, span: Span, here: Here) {
        let text = value.certain_start();
        if text.contains('[') && (text.contains("$(") || text.contains('`')) {
            let reason = "a subscript with a substitution runs when it is evaluated".to_owned();
            self.doubt(here, span, DoubtKind::Unresolved, reason);
        }
    }

    /// Notes that a variable is set that changes what runs.
    pub(super) fn assigned(&mut self, name: &str, span: Span, here: Here) {
        if variables::changes_what_runs(name) {
            let reason = format!("setting `{name}` can change what runs");
            self.doubt(here, span, DoubtKind::Altered, reason);
        }
    }
}

/// What a list holds, when all of it is known: a guess, because elements are not followed.
pub(super) fn guess_of(elements: &[Arg]) -> Value {
    let texts: Option<Vec<String>> =
        elements.iter().map(|element| element.as_known().map(str::to_owned)).collect();
    texts.filter(|texts| !texts.is_empty()).map_or(Value::Unknown, Value::Guess)
}
