//! Commands that change the shell itself: its folder and variables.

use super::super::analysis::{AnalysisNodeKind, UncertaintyKind, WorkingFolders};
use super::super::arg::ShellArg;
use super::super::ast::SourceSpan;
use super::super::shell_state::{ShellState, VariableValue};
use super::{ExitStates, NodeContext, ScriptWalker, StdinSource, TrapHandler};
use crate::program::{CommandClass, find_sourced_file};
use crate::word_list::words;

impl ScriptWalker<'_> {
    /// Runs a command in the shell itself.
    pub(super) fn run_in_shell(
        &mut self,
        argv: Vec<ShellArg>,
        mut state: ShellState,
        context: NodeContext,
        input: &StdinSource,
    ) -> ExitStates {
        let Some(own) = inner_words(&argv) else {
            // It is unknown whether a builtin runs, and which.
            self.invoke(argv, false, &state, context, input);
            self.change_folders(WorkingFolders::Unknown, &mut state);
            return ExitStates::from_single(state.without_variables());
        };
        let (name, rest) = match own.split_first() {
            Some((ShellArg::Known(name), rest)) => (name.clone(), rest.to_vec()),
            _ => (String::new(), Vec::new()),
        };
        // `command` and `builtin` skip functions.
        let direct = own.len() == argv.len();
        if direct && is_declaration_builtin(&name) && self.functions.contains(&name) {
            // The function may not be defined when this runs.
            self.walk_declaration(&name, &rest, context, &mut state.clone());
        }
        if let Some(function) = state.function(&name).filter(|_| direct).cloned() {
            let span = context.span.unwrap_or_default();
            for arg in &rest {
                self.check_deferred_evaluation(arg, span, context);
            }
            self.record_listed_folders(&rest, &state, context);
            let same_place = function.folders == state.folders;
            // The program of that name may run anyway: the function may be unset, or may never have
            // been defined.
            let analysis = crate::program::analyze(&argv);
            let known = analysis.class != CommandClass::Opaque
                || analysis.critical.is_some()
                || !analysis.runs.is_empty();
            if known || !function.certain {
                self.invoke(argv.clone(), false, &state, context, input);
            }
            self.call_function(&name, same_place, &argv, &state, context, span);
            if function.moves {
                self.change_folders(WorkingFolders::Unknown, &mut state);
            }
            return ExitStates::from_single(state.without_variables());
        }
        if argv.first().is_some_and(|program| program.as_known().is_none()) {
            // It may be `cd`, `read` or `eval`.
            self.invoke(argv, false, &state, context, input);
            self.change_folders(WorkingFolders::Unknown, &mut state);
            return ExitStates::from_single(state.without_variables());
        }
        if direct && self.functions.contains(&name) {
            // It may be a function that was not defined yet when this was analyzed.
            self.invoke(argv, false, &state, context, input);
            self.change_folders(WorkingFolders::Unknown, &mut state);
            return ExitStates::from_single(state.without_variables());
        }
        if self.in_body {
            self.called.insert(name.clone());
        }
        let sets = rest.first().is_some_and(|arg| arg.known_prefix().starts_with("-v"));
        self.check_builtin(&name, context, sets);
        match name.as_str() {
            "eval" => {
                // It runs its commands in this shell: `eval "cd x"` changes the folder.
                let node = self.invoke_only(argv, &state, context);
                let words = match &rest[..] {
                    [ShellArg::Known(first), words @ ..] if first == "--" => words,
                    words => words,
                };
                let text = join_eval_words(words);
                self.walk_inner_script(&text, context.with_parent(node), &mut state);
                return ExitStates::from_single(state);
            }
            "cd" | "pushd" => {
                let failed = state.clone();
                self.invoke(argv, false, &state, context, input);
                let folders = self.resolve_cd_target(&name, &rest, &state);
                let certain = self.can_enter(&folders);
                self.change_folders(folders, &mut state);
                return ExitStates { succeeded: state, failed, certain };
            }
            "popd" => self.change_folders(WorkingFolders::Unknown, &mut state),
            "trap" => {
                self.walk_trap(argv, &rest, context, &state);
                return ExitStates::from_single(state);
            }
            "shopt" | "set" => {
                self.check_shell_options(&name, &rest, context);
                set_positional_arguments(&name, &rest, &mut state);
            }
            name if is_declaration_builtin(name) => {
                self.walk_declaration(name, &rest, context, &mut state);
            }
            "read" | "mapfile" | "readarray" | "getopts" | "printf" | "let" | "unset" | "wait"
            | "test" | "[" => self.walk_variable_setter(&name, &rest, context, &mut state),
            "source" | "." => {
                self.invoke(argv, false, &state, context, input);
                // A file that is allowed to run may go where it wants, and so what follows it is not
                // judged more strictly than the file itself.
                if find_sourced_file(&rest).is_none() {
                    self.change_folders(WorkingFolders::Unknown, &mut state);
                }
                return ExitStates::from_single(state.without_variables());
            }
            _ => {}
        }
        self.invoke(argv, false, &state, context, input);
        ExitStates::from_single(state)
    }

    /// Calls a function, whose body was analyzed at its definition.
    fn call_function(
        &mut self,
        name: &str,
        same_place: bool,
        argv: &[ShellArg],
        state: &ShellState,
        context: NodeContext,
        span: SourceSpan,
    ) {
        let node = self.invoke_only(argv.to_vec(), state, context);
        if let Some(super::super::analysis::AnalysisNode {
            kind: AnalysisNodeKind::Command(invocation),
            ..
        }) = self.analysis.nodes.get_mut(node)
        {
            // Not the program of that name: the function, whose effects are those of its body.
            invocation.analysis.class = CommandClass::Wrapper;
        }
        if !same_place {
            let reason = format!("`{name}` was defined while the shell was in another folder");
            self.record_uncertainty(
                context.with_parent(node),
                span,
                UncertaintyKind::Unresolved,
                reason,
            );
        }
    }

    fn can_enter(&self, folders: &WorkingFolders) -> bool {
        match (self.is_folder, folders) {
            (Some(is_folder), WorkingFolders::OneOf(folders)) => {
                folders.iter().all(|folder| is_folder(folder))
            }
            _ => false,
        }
    }

    fn change_folders(&mut self, folders: WorkingFolders, state: &mut ShellState) {
        self.moved = true;
        state.folders = folders;
    }

    /// The target of `cd` and `pushd`.
    fn resolve_cd_target(
        &self,
        builtin: &str,
        args: &[ShellArg],
        state: &ShellState,
    ) -> WorkingFolders {
        let args = match args {
            [ShellArg::Known(first), rest @ ..] if first == "--" => rest,
            // `-P` resolves symlinks, `-` is the previous folder, `-1` an entry of the stack.
            [first, ..] if first.known_prefix().starts_with('-') => return WorkingFolders::Unknown,
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
            // The result of `link/..` depends on whether symlinks are followed: shells do not, unless
            // the path without it cannot be entered. The current folder always can.
            [ShellArg::Known(path)] if leads_back(path) && !state.folders.is_kept_by(path) => {
                WorkingFolders::Unknown
            }
            [ShellArg::Known(path)] => state.folders.enter(path),
            _ => WorkingFolders::Unknown,
        }
    }

    /// `trap` registers a script that runs later.
    fn walk_trap(
        &mut self,
        argv: Vec<ShellArg>,
        args: &[ShellArg],
        context: NodeContext,
        state: &ShellState,
    ) {
        let analysis = crate::program::analyze(&argv);
        let node = self.invoke_only(argv, state, context);
        let node_context = context.with_parent(node);
        let at_end_only = args
            .iter()
            .skip_while(|arg| arg.as_known() == Some("--"))
            .skip(1)
            .all(|signal| matches!(signal.as_known(), Some("EXIT" | "exit" | "0")));
        for run in analysis.runs {
            let crate::program::NestedExecution::Script { text, .. } = run else { continue };
            let changes = text.as_known().is_none_or(|text| {
                self.changes_shell_state(&super::super::parse(text).list, state)
            });
            if changes && !at_end_only {
                let reason = "what `trap` runs at any time may change the shell".to_owned();
                self.record_uncertainty(
                    node_context,
                    node_context.span.unwrap_or_default(),
                    UncertaintyKind::Unresolved,
                    reason,
                );
            }
            let dialect = self.dialect;
            self.trapped.push(TrapHandler {
                text,
                context: node_context,
                state: state.clone(),
                dialect,
            });
        }
    }

    /// Checks for shell options that change how the rest of a script is parsed or run.
    fn check_shell_options(&mut self, builtin: &str, args: &[ShellArg], context: NodeContext) {
        const HARMLESS: &[&str] = words!(
            "-s -u -q -p failglob inherit_errexit checkwinsize cmdhist histappend nocasematch"
        );
        let changes = match builtin {
            "shopt" => {
                let sets = args
                    .iter()
                    .any(|arg| arg.may_be_option() && !matches!(arg.as_known(), Some("-q" | "-p")));
                let plain =
                    |arg: &ShellArg| arg.as_known().is_some_and(|arg| HARMLESS.contains(&arg));
                sets && !args.iter().all(plain)
            }
            _ => args.iter().take_while(|arg| arg.as_known() != Some("--")).any(changes_parsing),
        };
        if changes {
            let reason = "it changes how the shell reads what follows".to_owned();
            self.record_uncertainty(
                context,
                context.span.unwrap_or_default(),
                UncertaintyKind::Unresolved,
                reason,
            );
        }
    }
}

/// Whether a builtin declares variables, so that its arguments are assignments.
pub(super) fn is_declaration_builtin(name: &str) -> bool {
    matches!(name, "export" | "declare" | "typeset" | "local" | "readonly")
}

/// Whether an argument of `set` changes the parsing of the rest: `-k`, `-P`, `-o posix`, `+B`.
fn changes_parsing(arg: &ShellArg) -> bool {
    let Some(text) = arg.as_known() else { return arg.may_be_option() };
    let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
    let named = words!("posix keyword physical braceexpand history histexpand allexport noglob")
        .contains(&text);
    named || letters.contains(['k', 'P', 'B', 'H', 'a', 'f'])
}

/// `set -- a b` sets the arguments `$1` and `$2`.
fn set_positional_arguments(builtin: &str, args: &[ShellArg], state: &mut ShellState) {
    if builtin != "set" {
        return;
    }
    let operands = match args.iter().position(|arg| arg.as_known() == Some("--")) {
        Some(at) => args.get(at + 1..).unwrap_or_default(),
        None if args.first().is_some_and(ShellArg::may_be_option) => return,
        None => args,
    };
    state.set("@", VariableValue::from_elements(operands));
}

/// Whether a path enters a folder and leaves it again.
fn leads_back(path: &str) -> bool {
    let is_name = |part: &&str| !matches!(*part, "" | "." | "..");
    path.split('/').skip_while(|part| !is_name(part)).any(|part| part == "..")
}

/// The words after `command` and `builtin`, which run in the shell itself. `None` if what they run
/// is unknown.
fn inner_words(argv: &[ShellArg]) -> Option<&[ShellArg]> {
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
                        // It only prints what would run.
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

/// Words joined like `eval` does.
fn join_eval_words(words: &[ShellArg]) -> ShellArg {
    let known: Option<Vec<&str>> = words.iter().map(ShellArg::as_known).collect();
    match known {
        Some(known) => ShellArg::Known(known.join(" ")),
        None => {
            let written: Vec<String> = words.iter().map(ToString::to_string).collect();
            ShellArg::Unknown { starts_with: String::new(), written: written.join(" ") }
        }
    }
}
