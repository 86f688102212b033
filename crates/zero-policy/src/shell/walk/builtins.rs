//! Commands that change the shell itself: where it is, what its variables hold.

use super::super::analysis::{AnalysisNodeKind, UncertaintyKind, WorkingFolders};
use super::super::arg::ShellArg;
use super::super::ast::SourceSpan;
use super::super::shell_state::ShellState;
use super::{ExitStates, NodeContext, ScriptWalker, StdinSource, TrapHandler};
use crate::program::CommandClass;

impl ScriptWalker<'_> {
    /// Runs a command in the shell itself.
    pub(super) fn run_here(
        &mut self,
        argv: Vec<ShellArg>,
        mut state: ShellState,
        here: NodeContext,
        input: &StdinSource,
    ) -> ExitStates {
        let Some(own) = own_words(&argv) else {
            // Whether and which builtin runs is not known.
            self.invoke(argv, false, &state, here, input);
            self.move_to(WorkingFolders::Unknown, &mut state);
            return ExitStates::either(state.without_variables());
        };
        let (name, rest) = match own.split_first() {
            Some((ShellArg::Known(name), rest)) => (name.clone(), rest.to_vec()),
            _ => (String::new(), Vec::new()),
        };
        // `command` and `builtin` pass functions by.
        let direct = own.len() == argv.len();
        if let Some(function) = state.function(&name).filter(|_| direct).cloned() {
            let span = here.span.unwrap_or_default();
            for arg in &rest {
                self.evaluated_later(arg, span, here);
            }
            let same_place = function.folders == state.folders;
            // The program of that name may run all the same: the function may be gone, or may
            // never have been one.
            let study = crate::program::study(&argv);
            let known = study.nature != CommandClass::Program
                || study.critical.is_some()
                || !study.runs.is_empty();
            if known || !function.certain {
                self.invoke(argv.clone(), false, &state, here, input);
            }
            self.call(&name, same_place, &argv, &state, here, span);
            if function.moves {
                self.move_to(WorkingFolders::Unknown, &mut state);
            }
            return ExitStates::either(state.without_variables());
        }
        if argv.first().is_some_and(|program| program.as_known().is_none()) {
            // It may be `cd`, `read` or `eval`.
            self.invoke(argv, false, &state, here, input);
            self.move_to(WorkingFolders::Unknown, &mut state);
            return ExitStates::either(state.without_variables());
        }
        if direct && self.functions.contains(&name) {
            // It may be a function that was not yet one where this was looked at.
            self.invoke(argv, false, &state, here, input);
            self.move_to(WorkingFolders::Unknown, &mut state);
            return ExitStates::either(state.without_variables());
        }
        if self.in_body {
            self.called.insert(name.clone());
        }
        let sets = rest.first().is_some_and(|arg| arg.certain_start().starts_with("-v"));
        self.check_builtin(&name, here, sets);
        match name.as_str() {
            "eval" => {
                // What it runs it runs here: `eval "cd x"` moves this shell.
                let node = self.invoke_only(argv, &state, here);
                let words = match &rest[..] {
                    [ShellArg::Known(first), words @ ..] if first == "--" => words,
                    words => words,
                };
                let text = joined(words);
                self.script(&text, here.below(node), &mut state);
                return ExitStates::either(state);
            }
            "cd" | "pushd" => {
                let failed = state.clone();
                self.invoke(argv, false, &state, here, input);
                let folders = self.entered(&name, &rest, &state);
                self.move_to(folders, &mut state);
                return ExitStates { succeeded: state, failed };
            }
            "popd" => self.move_to(WorkingFolders::Unknown, &mut state),
            "trap" => {
                self.trap(argv, &rest, here, &state);
                return ExitStates::either(state);
            }
            "shopt" | "set" => {
                self.options(&name, &rest, here);
                set_arguments(&name, &rest, &mut state);
            }
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                self.declare(&name, &rest, here, &mut state);
            }
            "read" | "mapfile" | "readarray" | "getopts" | "printf" | "let" | "unset" | "wait"
            | "test" | "[" => self.sets_variables(&name, &rest, here, &mut state),
            "source" | "." => {
                self.invoke(argv, false, &state, here, input);
                self.move_to(WorkingFolders::Unknown, &mut state);
                return ExitStates::either(state.without_variables());
            }
            _ => {}
        }
        self.invoke(argv, false, &state, here, input);
        ExitStates::either(state)
    }

    /// A function is called: its body was looked at where it was defined.
    fn call(
        &mut self,
        name: &str,
        same_place: bool,
        argv: &[ShellArg],
        state: &ShellState,
        here: NodeContext,
        span: SourceSpan,
    ) {
        let node = self.invoke_only(argv.to_vec(), state, here);
        if let Some(super::super::analysis::AnalysisNode {
            kind: AnalysisNodeKind::Command(invocation),
            ..
        }) = self.analysis.nodes.get_mut(node)
        {
            // Not the program of that name: the function, which does what its body does.
            invocation.study.nature = CommandClass::Wrapper;
        }
        if !same_place {
            let reason = format!("`{name}` was defined while the shell was in another folder");
            self.doubt(here.below(node), span, UncertaintyKind::Unresolved, reason);
        }
    }

    fn move_to(&mut self, folders: WorkingFolders, state: &mut ShellState) {
        self.moved = true;
        state.folders = folders;
    }

    /// Where `cd` and `pushd` lead.
    fn entered(&self, builtin: &str, args: &[ShellArg], state: &ShellState) -> WorkingFolders {
        let args = match args {
            [ShellArg::Known(first), rest @ ..] if first == "--" => rest,
            // `-P` leads through links, `-` is where it came from, `-1` a place on a stack.
            [first, ..] if first.certain_start().starts_with('-') => {
                return WorkingFolders::Unknown;
            }
            args => args,
        };
        match args {
            [] if builtin == "cd" => match self.home.and_then(std::path::Path::to_str) {
                Some(home) => state.folders.enter(home),
                None => WorkingFolders::Unknown,
            },
            [ShellArg::Known(path)] if path.starts_with('+') && builtin == "pushd" => {
                WorkingFolders::Unknown
            }
            // What `link/..` is depends on whether links are followed.
            [ShellArg::Known(path)] if goes_back(path) => WorkingFolders::Unknown,
            [ShellArg::Known(path)] => state.folders.enter(path),
            _ => WorkingFolders::Unknown,
        }
    }

    /// `trap` has a text run later.
    fn trap(
        &mut self,
        argv: Vec<ShellArg>,
        args: &[ShellArg],
        here: NodeContext,
        state: &ShellState,
    ) {
        let study = crate::program::study(&argv);
        let node = self.invoke_only(argv, state, here);
        let here = here.below(node);
        let at_end_only = args
            .iter()
            .skip_while(|arg| arg.as_known() == Some("--"))
            .skip(1)
            .all(|signal| matches!(signal.as_known(), Some("EXIT" | "exit" | "0")));
        for run in study.runs {
            let crate::program::NestedExecution::Script { text, .. } = run else { continue };
            let changes = text
                .as_known()
                .is_none_or(|text| self.changes_the_shell(&super::super::parse(text).list, state));
            if changes && !at_end_only {
                let reason = "what `trap` runs at any time may change the shell".to_owned();
                self.doubt(
                    here,
                    here.span.unwrap_or_default(),
                    UncertaintyKind::Unresolved,
                    reason,
                );
            }
            let dialect = self.dialect;
            self.trapped.push(TrapHandler { text, here, state: state.clone(), dialect });
        }
    }

    /// Options of the shell that change how the rest of a script is read or run.
    fn options(&mut self, builtin: &str, args: &[ShellArg], here: NodeContext) {
        const HARMLESS: &[&str] = &[
            "-s",
            "-u",
            "-q",
            "-p",
            "failglob",
            "inherit_errexit",
            "checkwinsize",
            "cmdhist",
            "histappend",
            "nocasematch",
        ];
        let changes = match builtin {
            "shopt" => {
                let sets = args
                    .iter()
                    .any(|arg| arg.may_be_option() && !matches!(arg.as_known(), Some("-q" | "-p")));
                let plain =
                    |arg: &ShellArg| arg.as_known().is_some_and(|arg| HARMLESS.contains(&arg));
                sets && !args.iter().all(plain)
            }
            _ => args.iter().take_while(|arg| arg.as_known() != Some("--")).any(changes_reading),
        };
        if changes {
            let reason = "it changes how the shell reads what follows".to_owned();
            self.doubt(here, here.span.unwrap_or_default(), UncertaintyKind::Unresolved, reason);
        }
    }
}

/// Whether an argument of `set` changes how the rest is read: `-k`, `-P`, `-o posix`, `+B`.
fn changes_reading(arg: &ShellArg) -> bool {
    let Some(text) = arg.as_known() else { return arg.may_be_option() };
    let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
    let named = matches!(
        text,
        "posix"
            | "keyword"
            | "physical"
            | "braceexpand"
            | "history"
            | "histexpand"
            | "allexport"
            | "noglob"
    );
    named || letters.contains(['k', 'P', 'B', 'H', 'a', 'f'])
}

/// `set -- a b` sets the arguments `$1` and `$2`.
fn set_arguments(builtin: &str, args: &[ShellArg], state: &mut ShellState) {
    if builtin != "set" {
        return;
    }
    let operands = match args.iter().position(|arg| arg.as_known() == Some("--")) {
        Some(at) => args.get(at + 1..).unwrap_or_default(),
        None if args.first().is_some_and(ShellArg::may_be_option) => return,
        None => args,
    };
    state.set("@", super::guess_of(operands));
}

/// Whether a path leads into a folder and out of it again.
fn goes_back(path: &str) -> bool {
    let is_name = |part: &&str| !matches!(*part, "" | "." | "..");
    path.split('/').skip_while(|part| !is_name(part)).any(|part| part == "..")
}

/// The words after `command` and `builtin`, which run what follows in the shell itself. `None`
/// when what they run cannot be told.
fn own_words(argv: &[ShellArg]) -> Option<&[ShellArg]> {
    let mut words = argv;
    while let [ShellArg::Known(first), rest @ ..] = words
        && matches!(first.as_str(), "command" | "builtin")
    {
        let mut rest = rest;
        while let [option, after @ ..] = rest
            && option.may_be_option()
        {
            match option.as_known() {
                Some("-") => break,
                Some("--") => {
                    rest = after;
                    break;
                }
                Some(letters) if first == "command" => {
                    if letters.contains(['v', 'V']) {
                        // It only says what would run.
                        return Some(argv);
                    }
                    if letters.chars().skip(1).any(|letter| letter != 'p') {
                        return None;
                    }
                    rest = after;
                }
                _ => return None,
            }
        }
        words = rest;
    }
    Some(words)
}

/// Words joined as `eval` joins them.
fn joined(words: &[ShellArg]) -> ShellArg {
    let known: Option<Vec<&str>> = words.iter().map(ShellArg::as_known).collect();
    match known {
        Some(known) => ShellArg::Known(known.join(" ")),
        None => {
            let written: Vec<String> = words.iter().map(ToString::to_string).collect();
            ShellArg::Unknown { starts_with: String::new(), written: written.join(" ") }
        }
    }
}
