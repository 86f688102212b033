//! Commands that change the shell itself: where it is, what its variables hold.

use super::super::analysis::{DoubtKind, Folders, NodeKind};
use super::super::arg::Arg;
use super::super::ast::Span;
use super::super::state::{State, Value};
use super::{After, Here, Input, Walker};

impl Walker<'_> {
    /// Runs a command in the shell itself.
    pub(super) fn run_here(
        &mut self,
        argv: Vec<Arg>,
        mut state: State,
        here: Here,
        input: &Input,
    ) -> After {
        let own = own_words(&argv);
        let (name, rest) = match own.split_first() {
            Some((Arg::Known(name), rest)) => (name.clone(), rest.to_vec()),
            _ => (String::new(), Vec::new()),
        };
        if let Some(function) = state.function(&name).cloned() {
            let span = here.span.unwrap_or_default();
            self.call(&name, function.folders == state.folders, &argv, &state, here, span);
            if function.moves {
                state.folders = Folders::Unknown;
            }
            return After::either(state.without_variables());
        }
        match name.as_str() {
            "eval" => {
                // What it runs it runs here: `eval "cd x"` moves this shell.
                let node = self.invoke_only(argv, &state, here);
                let text = joined(&rest);
                self.script(&text, here.below(node), &mut state);
                return After::either(state);
            }
            "cd" | "pushd" => {
                let failed = state.clone();
                self.invoke(argv, false, &state, here, input);
                state.folders = self.entered(&rest, &state);
                return After { succeeded: state, failed };
            }
            "popd" => state.folders = Folders::Unknown,
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                self.declare(&rest, here, &mut state);
            }
            "read" | "mapfile" | "readarray" | "getopts" | "printf" | "let" | "unset" | "wait"
            | "test" | "[" => self.sets_variables(&name, &rest, here, &mut state),
            "source" | "." => {
                self.invoke(argv, false, &state, here, input);
                state.folders = Folders::Unknown;
                return After::either(state.without_variables());
            }
            _ => {}
        }
        self.invoke(argv, false, &state, here, input);
        After::either(state)
    }

    /// A function is called: its body was looked at where it was defined.
    fn call(
        &mut self,
        name: &str,
        same_place: bool,
        argv: &[Arg],
        state: &State,
        here: Here,
        span: Span,
    ) {
        let node = self.invoke_only(argv.to_vec(), state, here);
        if let Some(super::super::analysis::Node { kind: NodeKind::Command(invocation), .. }) =
            self.analysis.nodes.get_mut(node)
        {
            // Not the program of that name: the function, which does what its body does.
            invocation.study.nature = crate::program::Nature::Wrapper;
        }
        if !same_place {
            let reason = format!("`{name}` was defined while the shell was in another folder");
            self.doubt(here.below(node), span, DoubtKind::Unresolved, reason);
        }
    }

    /// Where `cd` leads.
    fn entered(&self, args: &[Arg], state: &State) -> Folders {
        let path = args
            .iter()
            .find(|arg| !matches!(arg.as_known(), Some("-L" | "-P" | "-e" | "-@" | "--" | "-n")));
        match path {
            None => match self.home.and_then(std::path::Path::to_str) {
                Some(home) => state.folders.enter(home),
                None => Folders::Unknown,
            },
            // `-` is where it came from, `+1` a place on a stack.
            Some(Arg::Known(path)) if path == "-" || path.starts_with('+') => Folders::Unknown,
            Some(Arg::Known(path)) => state.folders.enter(path),
            Some(_) => Folders::Unknown,
        }
    }

    fn declare(&mut self, args: &[Arg], here: Here, state: &mut State) {
        let span = here.span.unwrap_or_default();
        for arg in args {
            let start = arg.certain_start().to_owned();
            let name: String = start
                .chars()
                .take_while(|char| char.is_ascii_alphanumeric() || *char == '_')
                .collect();
            let whole = start.len() > name.len() || matches!(arg, Arg::Known(_));
            if start.starts_with('-') || start.starts_with('+') {
                // `-n` makes a name stand for another, `-f` exports functions.
                if start.contains('n') && start.starts_with('-') && !start.starts_with("--") {
                    let reason = "a name that stands for another variable".to_owned();
                    self.doubt(here, span, DoubtKind::Unresolved, reason);
                }
                continue;
            }
            if !whole || name.is_empty() {
                let reason = format!("which variable `{arg}` sets is only known when it runs");
                self.doubt(here, span, DoubtKind::Unresolved, reason);
                *state = state.without_variables();
                continue;
            }
            self.evaluated_later(arg, span, here);
            if start.len() > name.len() {
                self.assigned(&name, span, here);
                let value = match arg {
                    Arg::Known(text) => text
                        .get(name.len()..)
                        .and_then(|rest| rest.strip_prefix('='))
                        .map_or(Value::Unknown, |value| Value::Known(value.to_owned())),
                    _ => Value::Unknown,
                };
                state.set(&name, value);
            }
        }
    }

    /// Builtins that set variables named in their arguments, or evaluate them as numbers.
    fn sets_variables(&mut self, builtin: &str, args: &[Arg], here: Here, state: &mut State) {
        let span = here.span.unwrap_or_default();
        for arg in args {
            self.evaluated_later(arg, span, here);
        }
        let names: Vec<&Arg> = match builtin {
            "printf" => {
                let at = args.iter().position(|arg| arg.certain_start().starts_with("-v"));
                at.and_then(|at| args.get(at..at + 2))
                    .map_or(Vec::new(), |pair| pair.iter().collect())
            }
            "test" | "[" => Vec::new(),
            _ => args.iter().collect(),
        };
        for arg in names {
            match arg {
                Arg::Known(name) => {
                    let name = name.strip_prefix("-v").unwrap_or(name);
                    let name = name.split(['[', '=', '+', '-']).next().unwrap_or(name);
                    if !name.is_empty() {
                        if builtin != "unset" {
                            self.assigned(name, span, here);
                        }
                        state.set(name, Value::Unknown);
                    }
                }
                _ if builtin == "unset" || builtin == "let" => *state = state.without_variables(),
                arg if arg.certain_start().is_empty() => {
                    let reason = format!("which variable `{arg}` sets is only known when it runs");
                    self.doubt(here, span, DoubtKind::Unresolved, reason);
                }
                _ => {}
            }
        }
        if builtin == "let" || builtin == "read" {
            // `read` without a name sets REPLY, `let` calculates.
            state.set("REPLY", Value::Unknown);
        }
    }
}

/// The words after `command` and `builtin`, which run what follows in the shell itself.
fn own_words(argv: &[Arg]) -> &[Arg] {
    let mut words = argv;
    while let [Arg::Known(first), rest @ ..] = words
        && matches!(first.as_str(), "command" | "builtin")
        && rest.first().is_some_and(|next| !next.may_be_option())
    {
        words = rest;
    }
    words
}

/// Words joined as `eval` joins them.
fn joined(words: &[Arg]) -> Arg {
    let known: Option<Vec<&str>> = words.iter().map(Arg::as_known).collect();
    match known {
        Some(known) => Arg::Known(known.join(" ")),
        None => {
            let written: Vec<String> = words.iter().map(ToString::to_string).collect();
            Arg::Unknown { starts_with: String::new(), written: written.join(" ") }
        }
    }
}
