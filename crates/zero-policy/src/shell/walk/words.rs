//! Words: what runs within them, and the arguments they become.

use super::super::analysis::{AnalysisNodeKind, UncertaintyKind};
use super::super::arg::ShellArg;
use super::super::ast::{
    CommandList, ParameterExpansion, ParameterOperation, Redirection, RedirectionKind, ShellWord,
    SimpleCommand, SourceSpan, WordPart,
};
use super::super::expand::{self, TildeContext};
use super::super::shell_state::{ShellState, VariableValue};
use super::shell_dialect::ShellDialect;
use super::{DEPTH_MAX, NodeContext, ScriptWalker};

impl<'a> ScriptWalker<'a> {
    /// Runs the substitutions in a word and says what arguments it becomes.
    pub(super) fn word(
        &mut self,
        word: &ShellWord,
        here: NodeContext,
        state: &mut ShellState,
    ) -> Vec<ShellArg> {
        self.check_braces(word, here);
        self.parts(word, here, state);
        self.arguments(word, state)
    }

    pub(super) fn arguments(&self, word: &ShellWord, state: &ShellState) -> Vec<ShellArg> {
        expand::arguments(word, self.written(word), state, self.home)
    }

    pub(super) fn scalar(&self, word: &ShellWord, state: &ShellState) -> ShellArg {
        expand::scalar(word, self.written(word), TildeContext::Assigned, state, self.home)
    }

    /// The text that a redirection gives.
    pub(super) fn input_text(&self, redirect: &Redirection, state: &ShellState) -> ShellArg {
        let tilde = match redirect.kind {
            RedirectionKind::HereString => TildeContext::Argument,
            _ => TildeContext::Never,
        };
        expand::scalar(&redirect.target, self.written(&redirect.target), tilde, state, self.home)
    }

    pub(super) fn written(&self, word: &ShellWord) -> &'a str {
        self.source.get(word.span.start..word.span.end).unwrap_or("…")
    }

    /// Whether its arguments are assignments, as with `export`.
    pub(super) fn declares(&self, simple: &SimpleCommand) -> bool {
        const NAMES: &[&str] = &["export", "declare", "typeset", "local", "readonly"];
        let first = simple.words.first().map(|word| &word.parts[..]);
        self.dialect == ShellDialect::Bash
            && matches!(first, Some([WordPart::Text { text, quoted: false }])
                if NAMES.contains(&text.as_str()) && !self.functions.contains(text))
    }

    pub(super) fn declared(&self, word: &ShellWord, state: &ShellState) -> Option<Vec<ShellArg>> {
        let written = self.written(word);
        expand::declaration(word, written, state, self.home).map(|only| vec![only])
    }

    /// The arguments that words become if the guesses are right, when that makes a difference.
    pub(super) fn guess(
        &self,
        words: &[ShellWord],
        argv: &[ShellArg],
        declares: bool,
        state: &ShellState,
    ) -> Option<Vec<ShellArg>> {
        if argv.iter().all(|arg| !matches!(arg, ShellArg::Unknown { .. })) {
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
    pub(super) fn parts(&mut self, word: &ShellWord, here: NodeContext, state: &mut ShellState) {
        for part in &word.parts {
            match part {
                WordPart::Text { .. } => {}
                WordPart::Parameter(parameter) => self.parameter(parameter, word.span, here, state),
                WordPart::Command { list, .. } => {
                    self.substitution("$( )", list, word, here, state)
                }
                WordPart::Process { list } => self.substitution("<( )", list, word, here, state),
                WordPart::Arithmetic(inner) => self.arithmetic(inner, here, state),
            }
        }
    }

    fn parameter(
        &mut self,
        parameter: &ParameterExpansion,
        span: SourceSpan,
        here: NodeContext,
        state: &mut ShellState,
    ) {
        for word in &parameter.words {
            self.nested(word, here, state);
        }
        for word in calculated_words(parameter) {
            self.calculated(word, here, state);
        }
        match parameter.operation {
            ParameterOperation::Assign => {
                self.assigned(&parameter.name, span, here);
                state.set(&parameter.name, VariableValue::Unknown);
            }
            ParameterOperation::Indirect => {
                let reason = format!(
                    "what `${{…{}…}}` stands for is only known when it runs",
                    parameter.name
                );
                self.doubt(here, span, UncertaintyKind::Unresolved, reason);
            }
            _ => {}
        }
    }

    /// A word inside a word: bounded like commands inside commands.
    pub(super) fn nested(&mut self, word: &ShellWord, here: NodeContext, state: &mut ShellState) {
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
        list: &CommandList,
        word: &ShellWord,
        here: NodeContext,
        state: &mut ShellState,
    ) {
        let here = here.below(self.node(here, word.span, label, AnalysisNodeKind::Structure));
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
pub(super) fn may_vanish(word: &ShellWord) -> bool {
    !word.parts.is_empty()
        && word.parts.iter().all(|part| match part {
            WordPart::Parameter(parameter) => !parameter.quoted || expand::is_list(parameter),
            WordPart::Command { quoted, .. } => !quoted,
            _ => false,
        })
}

/// The words of an expansion that are taken for numbers: subscripts, and where a part starts.
pub(super) fn calculated_words(parameter: &ParameterExpansion) -> &[ShellWord] {
    let words = &parameter.words[..];
    match parameter.operation {
        ParameterOperation::Plain | ParameterOperation::Length | ParameterOperation::Substring => {
            words
        }
        // Only one of them is the value or the pattern.
        ParameterOperation::Default
        | ParameterOperation::Assign
        | ParameterOperation::Alternative
        | ParameterOperation::Error
        | ParameterOperation::Change
        | ParameterOperation::Indirect => words.split_last().map_or(&[], |(_, before)| before),
    }
}
