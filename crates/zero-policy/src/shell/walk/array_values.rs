//! Values that `declare` and similar builtins evaluate: for an array, bash reads a value that begins
//! with `(` as a list and runs the substitutions in it, even if the value was quoted or came from a
//! variable.

use std::collections::{HashMap, HashSet};

use super::super::analysis::UncertaintyKind;
use super::super::arg::ShellArg;
use super::super::ast::{ShellWord, SourceSpan, WordPart};
use super::super::shell_state::{ShellState, is_set_by_shell};
use super::variable_setters::is_identifier;
use super::{NodeContext, ScriptWalker};

/// Longest argument in which the names of arrays are searched, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Names that may be arrays somewhere in a script, and declarations that matter if they are.
///
/// It counts for the whole script: a loop or a function may reach an earlier line later.
#[derive(Debug, Default)]
pub(super) struct ArrayNames {
    names: HashSet<String>,
    /// Whether any name may be an array.
    any: bool,
    /// Where a name is first declared with a value that is only known at run time.
    unknown_values: HashMap<String, (NodeContext, SourceSpan)>,
}

impl ArrayNames {
    pub(super) fn insert(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    pub(super) fn insert_any(&mut self) {
        self.any = true;
    }

    /// Adds the names that a text uses with a subscript, as in `x[0]=1` or `${x[0]:=1}`.
    pub(super) fn insert_subscripted(&mut self, text: &str) {
        let text = text.replace("\\\n", "");
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
        for (at, _) in text.match_indices('[') {
            let before = text.get(..at).unwrap_or_default();
            let name = before.rsplit(|char| !is_part(char)).next().unwrap_or_default();
            if is_identifier(name) {
                self.insert(name);
            }
        }
        self.any |= text.contains("coproc");
    }

    /// Adds the names in an argument of a builtin that sets variables: the argument itself, its
    /// part before a subscript, or the value at the end of an option.
    pub(super) fn insert_argument(&mut self, arg: &ShellArg) {
        let Some(text) = arg.as_known().filter(|text| text.len() <= NAME_BYTES_MAX) else {
            return self.insert_any();
        };
        let target = text.split(['[', '=', '+']).next().unwrap_or(text);
        for (at, _) in target.char_indices() {
            if let Some(name) = target.get(at..).filter(|name| is_identifier(name)) {
                self.insert(name);
            }
        }
    }

    fn may_be_array(&self, name: &str) -> bool {
        self.any || self.names.contains(name) || is_set_by_shell(name)
    }
}

impl ScriptWalker<'_> {
    /// Analyzes the value in an argument of `declare` and similar builtins, if it may be evaluated.
    /// `value` is the argument after the name, from its `=` or subscript on.
    pub(super) fn walk_declared_value(
        &mut self,
        name: &str,
        value: &ShellArg,
        evaluation: ValueEvaluation,
        context: NodeContext,
        state: &ShellState,
    ) {
        let span = context.span.unwrap_or_default();
        let start = value.known_prefix();
        let is_element = start.starts_with('[');
        if is_element {
            self.arrays.insert(name);
        }
        let list = match start.strip_prefix("+=").or_else(|| start.strip_prefix('=')) {
            Some(text) => Some(text),
            None => start.find("=(").and_then(|at| start.get(at + 1..)),
        };
        let list = list.filter(|text| text.starts_with('('));
        match (list, value.as_known()) {
            (Some(list), Some(_)) => {
                // The same as an assignment of this list.
                let script = ShellArg::known(format!("{name}={list}"));
                self.walk_inner_script(&script, context, &mut state.clone());
            }
            (None, Some(_)) => {}
            (Some(_), None) => self.record_unknown_list(name, context, span),
            (None, None) => {
                let is_open = is_element || start.ends_with('=');
                match evaluation {
                    _ if !is_open => {}
                    ValueEvaluation::Always => self.record_unknown_list(name, context, span),
                    _ if is_element => self.record_unknown_list(name, context, span),
                    ValueEvaluation::IfArray => {
                        let first = self.arrays.unknown_values.entry(name.to_owned());
                        first.or_insert((context, span));
                    }
                    ValueEvaluation::Never => {}
                }
            }
        }
    }

    /// Reports the declarations whose unknown value is evaluated because the name may be an array.
    pub(super) fn check_unknown_values(&mut self) {
        let arrays = std::mem::take(&mut self.arrays);
        let mut found: Vec<_> = arrays
            .unknown_values
            .iter()
            .filter(|(name, _)| arrays.may_be_array(name))
            .map(|(name, (context, span))| (name.clone(), *context, *span))
            .collect();
        found.sort_by_key(|(name, _, span)| (span.start, name.clone()));
        for (name, here, span) in found {
            self.record_unknown_list(&name, here, span);
        }
    }

    fn record_unknown_list(&mut self, name: &str, context: NodeContext, span: SourceSpan) {
        let reason = format!("the value of the array `{name}` may hold a command");
        self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
    }
}

/// Whether a declaration evaluates a value that begins with `(`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueEvaluation {
    /// It makes the name an array.
    Always,
    /// Only if the name is an array already.
    IfArray,
    /// `export` and `readonly` without an option for arrays.
    Never,
}

impl ValueEvaluation {
    pub(super) fn new(builtin: &str, args: &[ShellArg]) -> Self {
        let makes_array = args.iter().any(|arg| {
            let start = arg.known_prefix();
            arg.may_be_option() && (arg.as_known().is_none() || start.contains(['a', 'A']))
        });
        match builtin {
            _ if makes_array => Self::Always,
            "export" | "readonly" => Self::Never,
            _ => Self::IfArray,
        }
    }
}

/// Whether a word of a declaration is a list in the source, as in `declare x=(a b)`. Its
/// substitutions are parts of the word, and quotes in it count.
pub(super) fn is_list_word(word: &ShellWord) -> bool {
    let Some(WordPart::Text { text, quoted: false }) = word.parts.first() else { return false };
    // An unquoted parenthesis occurs in no other word.
    text.split_once("=(").is_some_and(|(name, _)| is_identifier(name.trim_end_matches('+')))
}
