//! Syntax that only bash supports. A script for `sh` is parsed like one for bash, but another shell
//! may read the same text differently: `((rm x))` is arithmetic in one and a command in the other.

use super::super::analysis::UncertaintyKind;
use super::super::ast::{ShellWord, SourceSpan, WordPart};
use super::{NodeContext, ScriptWalker};
use crate::word_list::words;

/// The shell that reads a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellDialect {
    /// Certainly bash, so its extensions apply.
    Bash,
    /// Any shell that `sh` may be.
    Any,
}

/// Builtins of bash that other shells lack or define differently.
const BUILTINS: &[&str] = words!(
    "declare typeset let source shopt mapfile readarray pushd popd builtin coproc select function \
     enable printf [[ compgen complete caller dirs"
);

/// Syntax that other shells read differently.
const SIGNS: &[&str] = &[
    "[[",
    "$'",
    "$\"",
    "<<<",
    "&>",
    "|&",
    "<(",
    ">(",
    "$[",
    ";&",
    ";;&",
    "+=",
    "=(",
    "function ",
    "select ",
    "coproc ",
    "time ",
];

impl ShellDialect {
    /// The shell that reads the scripts of a program.
    pub(super) fn for_program(program: &str, around: Self) -> Self {
        let name = program.rsplit('/').next().unwrap_or(program);
        match name.trim_start_matches('-') {
            "bash" | "rbash" => Self::Bash,
            "eval" | "trap" | "alias" | "mapfile" | "readarray" | "command" | "builtin" => around,
            _ => Self::Any,
        }
    }
}

impl ScriptWalker<'_> {
    /// Reports a text that has another meaning in another shell.
    pub(super) fn check_dialect(&mut self, text: &str, context: NodeContext) {
        if self.dialect == ShellDialect::Bash {
            return;
        }
        let text = text.replace("\\\n", "");
        let double = text.match_indices("((").any(|(at, _)| {
            let before = text.get(..at).unwrap_or_default();
            !before.ends_with('$')
        });
        if double || SIGNS.iter().any(|sign| text.contains(sign)) {
            self.record_other_meaning(context, SourceSpan::default());
        }
    }

    /// Reports a builtin that another shell lacks. `printf` has an option only in bash.
    pub(super) fn check_builtin(&mut self, name: &str, context: NodeContext, variable: bool) {
        let matters = BUILTINS.contains(&name) && (name != "printf" || variable);
        if self.dialect == ShellDialect::Any && matters {
            self.record_other_meaning(context, SourceSpan::default());
        }
    }

    /// Reports braces and tildes that other shells do not expand.
    pub(super) fn check_braces(&mut self, word: &ShellWord, context: NodeContext) {
        if self.dialect == ShellDialect::Bash {
            return;
        }
        let plain = word.parts.iter().filter_map(|part| match part {
            WordPart::Text { text, quoted: false } => Some(text.as_str()),
            _ => None,
        });
        let (mut opens, mut divides) = (false, false);
        for text in plain {
            // In an argument, only bash expands `~` after these.
            divides |= text.contains("=~") || text.contains(":~");
            opens |= text.contains('{');
            divides |= opens && (text.contains(',') || text.contains(".."));
        }
        if divides {
            self.record_other_meaning(context, word.span);
        }
    }

    fn record_other_meaning(&mut self, context: NodeContext, span: SourceSpan) {
        let reason = "a shell other than bash may interpret it differently".to_owned();
        self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
    }
}
