//! Words: what runs within them, and the arguments they become.

use super::super::analysis::{DoubtKind, NodeKind};
use super::super::arg::Arg;
use super::super::ast::{
    List, Operation, Parameter, Part, Redirect, RedirectKind, Simple, Span, Word,
};
use super::super::expand::{self, Tilde};
use super::super::state::{State, Value};
use super::dialect::Dialect;
use super::{DEPTH_MAX, Here, Walker};

impl<'a> Walker<'a> {
    /// Runs the substitutions in a word and says what arguments it becomes.
    pub(super) fn word(&mut self, word: &Word, here: Here, state: &mut State) -> Vec<Arg> {
        self.check_braces(word, here);
        self.parts(word, here, state);
        self.arguments(word, state)
    }

    pub(super) fn arguments(&self, word: &Word, state: &State) -> Vec<Arg> {
        expand::arguments(word, self.written(word), state, self.home)
    }

    pub(super) fn scalar(&self, word: &Word, state: &State) -> Arg {
        expand::scalar(word, self.written(word), Tilde::Assigned, state, self.home)
    }

    /// The text that a redirection gives.
    pub(super) fn input_text(&self, redirect: &Redirect, state: &State) -> Arg {
        let tilde = match redirect.kind {
            RedirectKind::HereString => Tilde::Argument,
            _ => Tilde::Never,
        };
        expand::scalar(&redirect.target, self.written(&redirect.target), tilde, state, self.home)
    }

    pub(super) fn written(&self, word: &Word) -> &'a str {
        self.source.get(word.span.start..word.span.end).unwrap_or("…")
    }

    /// Whether its arguments are assignments, as with `export`.
    pub(super) fn declares(&self, simple: &Simple) -> bool {
        const NAMES: &[&str] = &["export", "declare", "typeset", "local", "readonly"];
        let first = simple.words.first().map(|word| &word.parts[..]);
        self.dialect == Dialect::Bash
            && matches!(first, Some([Part::Text { text, quoted: false }])
                if NAMES.contains(&text.as_str()) && !self.functions.contains(text))
    }

    pub(super) fn declared(&self, word: &Word, state: &State) -> Option<Vec<Arg>> {
        let written = self.written(word);
        expand::declaration(word, written, state, self.home).map(|only| vec![only])
    }

    /// The arguments that words become if the guesses are right, when that makes a difference.
    pub(super) fn guess(
        &self,
        words: &[Word],
        argv: &[Arg],
        declares: bool,
        state: &State,
    ) -> Option<Vec<Arg>> {
        if argv.iter().all(|arg| !matches!(arg, Arg::Unknown { .. })) {
            return None;
        }
        let state = state.guessing();
        let mut guess = Vec::new();
        for word in words {
            let declared = self.declared(word, &state).filter(|_| declares);
            guess.extend(declared.unwrap_or_else(|| self.arguments(word, &state)));
        }
        (!guess.is_empty() && guess != argv).then_some(guess)
    }

    /// Runs the substitutions in a word.
    pub(super) fn parts(&mut self, word: &Word, here: Here, state: &mut State) {
        for part in &word.parts {
            match part {
                Part::Text { .. } => {}
                Part::Parameter(parameter) => self.parameter(parameter, word.span, here, state),
                Part::Command { list, .. } => self.substitution("$( )", list, word, here, state),
                Part::Process { list } => self.substitution("<( )", list, word, here, state),
                Part::Arithmetic(inner) => self.arithmetic(inner, here, state),
            }
        }
    }

    fn parameter(&mut self, parameter: &Parameter, span: Span, here: Here, state: &mut State) {
        for word in &parameter.words {
            self.nested(word, here, state);
        }
        for word in calculated_words(parameter) {
            self.calculated(word, here, state);
        }
        match parameter.operation {
            Operation::Assign => {
                self.assigned(&parameter.name, span, here);
                state.set(&parameter.name, Value::Unknown);
            }
            Operation::Indirect => {
                let reason = format!(
                    "what `${{…{}…}}` stands for is only known when it runs",
                    parameter.name
                );
                self.doubt(here, span, DoubtKind::Unresolved, reason);
            }
            _ => {}
        }
    }

    /// A word inside a word: bounded like commands inside commands.
    pub(super) fn nested(&mut self, word: &Word, here: Here, state: &mut State) {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.too_deep(here, word.span);
        } else {
            self.parts(word, here, state);
        }
        self.depth -= 1;
    }

    fn substitution(
        &mut self,
        label: &str,
        list: &List,
        word: &Word,
        here: Here,
        state: &mut State,
    ) {
        let here = here.below(self.node(here, word.span, label, NodeKind::Structure));
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.too_deep(here, word.span);
        } else {
            self.list(list, here, state.clone());
        }
        self.depth -= 1;
    }
}

/// Whether an unquoted expansion makes up all of a word, which may then become no word at all.
pub(super) fn may_vanish(word: &Word) -> bool {
    !word.parts.is_empty()
        && word.parts.iter().all(|part| match part {
            Part::Parameter(parameter) => !parameter.quoted || expand::is_list(parameter),
            Part::Command { quoted, .. } => !quoted,
            _ => false,
        })
}

/// The words of an expansion that are taken for numbers: subscripts, and where a part starts.
pub(super) fn calculated_words(parameter: &Parameter) -> &[Word] {
    let words = &parameter.words[..];
    match parameter.operation {
        Operation::Plain | Operation::Length | Operation::Substring => words,
        // Only one of them is the value or the pattern.
        Operation::Default
        | Operation::Assign
        | Operation::Alternative
        | Operation::Error
        | Operation::Change
        | Operation::Indirect => words.split_last().map_or(&[], |(_, before)| before),
    }
}
