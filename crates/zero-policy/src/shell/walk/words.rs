//! Words: the commands in them, and the arguments they expand to.

use super::super::analysis::{
    AnalysisNodeKind, COMMAND_SUBSTITUTION, PROCESS_SUBSTITUTION, UncertaintyKind,
};
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
    /// Runs the substitutions in a word and returns its arguments.
    pub(super) fn walk_word(
        &mut self,
        word: &ShellWord,
        context: NodeContext,
        state: &mut ShellState,
    ) -> Vec<ShellArg> {
        self.check_braces(word, context);
        self.walk_word_parts(word, context, state);
        self.expand_arguments(word, state)
    }

    pub(super) fn expand_arguments(&self, word: &ShellWord, state: &ShellState) -> Vec<ShellArg> {
        expand::expand_arguments(word, self.source_text(word), state, self.home)
    }

    pub(super) fn expand_scalar(&self, word: &ShellWord, state: &ShellState) -> ShellArg {
        expand::expand_scalar(
            word,
            self.source_text(word),
            TildeContext::Assigned,
            state,
            self.home,
        )
    }

    /// The text that a redirection provides.
    pub(super) fn expand_input_text(&self, redirect: &Redirection, state: &ShellState) -> ShellArg {
        let tilde = match redirect.kind {
            RedirectionKind::HereString => TildeContext::Argument,
            _ => TildeContext::Never,
        };
        expand::expand_scalar(
            &redirect.target,
            self.source_text(&redirect.target),
            tilde,
            state,
            self.home,
        )
    }

    pub(super) fn source_text(&self, word: &ShellWord) -> &'a str {
        self.source.get(word.span.start..word.span.end).unwrap_or("…")
    }

    /// Whether its arguments are assignments, as with `export`.
    pub(super) fn is_declaration(&self, simple: &SimpleCommand) -> bool {
        const NAMES: &[&str] = &["export", "declare", "typeset", "local", "readonly"];
        let first = simple.words.first().map(|word| &word.parts[..]);
        self.dialect == ShellDialect::Bash
            && matches!(first, Some([WordPart::Text { text, quoted: false }])
                if NAMES.contains(&text.as_str()) && !self.functions.contains(text))
    }

    pub(super) fn expand_declared(
        &self,
        word: &ShellWord,
        state: &ShellState,
    ) -> Option<Vec<ShellArg>> {
        let written = self.source_text(word);
        expand::expand_declaration(word, written, state, self.home).map(|only| vec![only])
    }

    /// The arguments if the guesses are right; `None` if that makes no difference.
    pub(super) fn expand_with_guesses(
        &self,
        words: &[ShellWord],
        argv: &[ShellArg],
        declares: bool,
        state: &ShellState,
    ) -> Option<Vec<ShellArg>> {
        if argv.iter().all(|arg| !matches!(arg, ShellArg::Unknown { .. })) {
            return None;
        }
        let state = state.with_guesses();
        let mut guess = Vec::new();
        for word in words {
            let declared = self.expand_declared(word, &state).filter(|_| declares);
            guess.extend(declared.unwrap_or_else(|| self.expand_arguments(word, &state)));
        }
        (!guess.is_empty() && guess != argv).then_some(guess)
    }

    /// Runs the substitutions in a word.
    pub(super) fn walk_word_parts(
        &mut self,
        word: &ShellWord,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        for part in &word.parts {
            match part {
                WordPart::Text { .. } => {}
                WordPart::Parameter(parameter) => {
                    self.walk_parameter(parameter, word.span, context, state)
                }
                WordPart::Command { list, .. } => {
                    self.walk_substitution(COMMAND_SUBSTITUTION, list, word, context, state)
                }
                WordPart::Process { list } => {
                    self.walk_substitution(PROCESS_SUBSTITUTION, list, word, context, state)
                }
                WordPart::Arithmetic(inner) => self.walk_arithmetic(inner, context, state),
            }
        }
    }

    fn walk_parameter(
        &mut self,
        parameter: &ParameterExpansion,
        span: SourceSpan,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        for word in &parameter.words {
            self.walk_nested_word(word, context, state);
        }
        for word in arithmetic_words(parameter) {
            self.walk_calculation(word, context, state);
        }
        match parameter.operation {
            ParameterOperation::Assign => {
                self.check_assigned_variable(&parameter.name, span, context);
                state.set(&parameter.name, VariableValue::Unknown);
            }
            ParameterOperation::Indirect => {
                let reason = format!(
                    "what `${{…{}…}}` stands for is only known when it runs",
                    parameter.name
                );
                self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
            }
            _ => {}
        }
    }

    /// A word inside a word; its depth is bounded like that of commands.
    pub(super) fn walk_nested_word(
        &mut self,
        word: &ShellWord,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.record_too_deep(context, word.span);
        } else {
            self.walk_word_parts(word, context, state);
        }
        self.depth -= 1;
    }

    fn walk_substitution(
        &mut self,
        label: &str,
        list: &CommandList,
        word: &ShellWord,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        let node_context = context.with_parent(self.add_node(
            context,
            word.span,
            label,
            AnalysisNodeKind::Structure,
        ));
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.record_too_deep(node_context, word.span);
        } else {
            self.walk_list(list, node_context, state.clone());
        }
        self.depth -= 1;
    }
}

/// Whether the word is one unquoted expansion, which may expand to no word at all.
pub(super) fn may_expand_to_nothing(word: &ShellWord) -> bool {
    !word.parts.is_empty()
        && word.parts.iter().all(|part| match part {
            WordPart::Parameter(parameter) => !parameter.quoted || expand::is_word_list(parameter),
            WordPart::Command { quoted, .. } => !quoted,
            _ => false,
        })
}

/// The words of an expansion that are evaluated as numbers: subscripts and offsets.
pub(super) fn arithmetic_words(parameter: &ParameterExpansion) -> &[ShellWord] {
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
