//! Commands that change the shell itself: where it is, what its variables hold.

use super::super::analysis::{DoubtKind, Folders, NodeKind};
use super::super::arg::Arg;
use super::super::ast::{Part, Span, Word};
use super::super::state::{State, Value};
use super::changes::changes_the_shell;
use super::{After, Here, Input, Trap, Walker};

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
        // `command` and `builtin` pass functions by.
        let direct = own.len() == argv.len();
        if let Some(function) = state.function(&name).filter(|_| direct).cloned() {
            let span = here.span.unwrap_or_default();
            for arg in &rest {
                self.evaluated_later(arg, span, here);
            }
            let same_place = function.folders == state.folders;
            if !function.certain {
                self.invoke(argv.clone(), false, &state, here, input);
            }
            self.call(&name, same_place, &argv, &state, here, span);
            if function.moves {
                self.move_to(Folders::Unknown, &mut state);
            }
            return After::either(state.without_variables());
        }
        let sets = rest.first().is_some_and(|arg| arg.certain_start().starts_with("-v"));
        self.check_builtin(&name, here, sets);
        match name.as_str() {
            "eval" => {
                // What it runs it runs here: `eval "cd x"` moves this shell.
                let node = self.invoke_only(argv, &state, here);
                let words = match &rest[..] {
                    [Arg::Known(first), words @ ..] if first == "--" => words,
                    words => words,
                };
                let text = joined(words);
                self.script(&text, here.below(node), &mut state);
                return After::either(state);
            }
            "cd" | "pushd" => {
                let failed = state.clone();
                self.invoke(argv, false, &state, here, input);
                let folders = self.entered(&name, &rest, &state);
                self.move_to(folders, &mut state);
                return After { succeeded: state, failed };
            }
            "popd" => self.move_to(Folders::Unknown, &mut state),
            "trap" => {
                self.trap(argv, &rest, here, &state);
                return After::either(state);
            }
            "shopt" | "set" => self.options(&name, &rest, here),
            "export" | "declare" | "typeset" | "local" | "readonly" => {
                self.declare(&name, &rest, here, &mut state);
            }
            "read" | "mapfile" | "readarray" | "getopts" | "printf" | "let" | "unset" | "wait"
            | "test" | "[" => self.sets_variables(&name, &rest, here, &mut state),
            "source" | "." => {
                self.invoke(argv, false, &state, here, input);
                self.move_to(Folders::Unknown, &mut state);
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

    fn move_to(&mut self, folders: Folders, state: &mut State) {
        self.moved = true;
        state.folders = folders;
    }

    /// Where `cd` and `pushd` lead.
    fn entered(&self, builtin: &str, args: &[Arg], state: &State) -> Folders {
        let mut args = args;
        let mut physical = false;
        while let [Arg::Known(first), rest @ ..] = args
            && first.starts_with('-')
        {
            args = rest;
            match first.as_str() {
                "--" => break,
                "-L" | "-e" | "-@" if builtin == "cd" => {}
                "-P" if builtin == "cd" => physical = true,
                // `-` is where it came from, `-1` a place on a stack, `-n` goes nowhere.
                _ => return Folders::Unknown,
            }
        }
        match args {
            [] if builtin == "cd" => match self.home.and_then(std::path::Path::to_str) {
                Some(home) => state.folders.enter(home),
                None => Folders::Unknown,
            },
            [Arg::Known(path)] if path.starts_with('+') && builtin == "pushd" => Folders::Unknown,
            // It leads through links, and `..` afterwards is not what the name says.
            _ if physical => Folders::Unknown,
            [Arg::Known(path)] => state.folders.enter(path),
            _ => Folders::Unknown,
        }
    }

    /// `trap` has a text run later.
    fn trap(&mut self, argv: Vec<Arg>, args: &[Arg], here: Here, state: &State) {
        let study = crate::program::study(&argv);
        let node = self.invoke_only(argv, state, here);
        let here = here.below(node);
        let at_end_only = args
            .iter()
            .skip_while(|arg| arg.as_known() == Some("--"))
            .skip(1)
            .all(|signal| matches!(signal.as_known(), Some("EXIT" | "exit" | "0")));
        for run in study.runs {
            let crate::program::Run::Script { text, .. } = run else { continue };
            let changes = text
                .as_known()
                .is_none_or(|text| changes_the_shell(&super::super::parse(text).list, state));
            if changes && !at_end_only {
                let reason = "what `trap` runs at any time may change the shell".to_owned();
                self.doubt(here, here.span.unwrap_or_default(), DoubtKind::Unresolved, reason);
            }
            let dialect = self.dialect;
            self.trapped.push(Trap { text, here, state: state.clone(), dialect });
        }
    }

    /// Options of the shell that change how the rest of a script is read or run.
    fn options(&mut self, builtin: &str, args: &[Arg], here: Here) {
        const HARMLESS: &[&str] = &[
            "-s",
            "-u",
            "-q",
            "-p",
            "nullglob",
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
                let plain = |arg: &Arg| arg.as_known().is_some_and(|arg| HARMLESS.contains(&arg));
                sets && !args.iter().all(plain)
            }
            _ => args.iter().take_while(|arg| arg.as_known() != Some("--")).any(changes_reading),
        };
        if changes {
            let reason = "it changes how the shell reads what follows".to_owned();
            self.doubt(here, here.span.unwrap_or_default(), DoubtKind::Unresolved, reason);
        }
    }

    fn declare(&mut self, builtin: &str, args: &[Arg], here: Here, state: &mut State) {
        let span = here.span.unwrap_or_default();
        let mut fixed = builtin == "readonly";
        for arg in args {
            let start = arg.certain_start().to_owned();
            let name: String = start
                .chars()
                .take_while(|char| char.is_ascii_alphanumeric() || *char == '_')
                .collect();
            let whole = start.len() > name.len() || matches!(arg, Arg::Known(_));
            if start.starts_with('-') || start.starts_with('+') {
                // `-n` makes a name stand for another, others change whatever is assigned later.
                let letters = start.get(1..).unwrap_or_default();
                if arg.as_known().is_none() || letters.contains(['n', 'i', 'l', 'u', 'c']) {
                    let reason = "what is assigned may not be what a variable holds".to_owned();
                    self.doubt(here, span, DoubtKind::Unresolved, reason);
                }
                fixed |= letters.contains('r');
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
            if fixed {
                state.fix(&name);
            }
        }
    }

    /// Builtins that set variables named in their arguments, or evaluate them as numbers.
    fn sets_variables(&mut self, builtin: &str, args: &[Arg], here: Here, state: &mut State) {
        let span = here.span.unwrap_or_default();
        for arg in args {
            self.evaluated_later(arg, span, here);
        }
        if builtin == "unset" {
            let gone = |arg: &Arg| match arg.as_known() {
                Some(name) => state.function(name).is_some() || name.starts_with("-f"),
                None => true,
            };
            if args.iter().any(gone) {
                let reason = "a function may be gone afterwards".to_owned();
                self.doubt(here, span, DoubtKind::Unresolved, reason);
            }
        }
        if builtin == "let" {
            self.let_numbers(args, here, state);
            return;
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
                        // Without it the shell falls back on something else.
                        let matters = matches!(name, "HOME" | "PATH" | "PWD" | "OLDPWD");
                        if builtin != "unset" || matters {
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
    }

    /// `let` calculates each of its arguments.
    fn let_numbers(&mut self, args: &[Arg], here: Here, state: &mut State) {
        for arg in args {
            let text = arg.to_string();
            let part = Part::Text { text, quoted: true };
            let word = Word { parts: vec![part], span: here.span.unwrap_or_default() };
            if arg.as_known().is_some() {
                self.arithmetic(&word, here, state);
            } else {
                *state = state.without_variables();
            }
        }
    }
}

/// Whether an argument of `set` changes how the rest is read: `-k`, `-P`, `-o posix`, `+B`.
fn changes_reading(arg: &Arg) -> bool {
    let Some(text) = arg.as_known() else { return arg.may_be_option() };
    let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
    let named =
        matches!(text, "posix" | "keyword" | "physical" | "braceexpand" | "history" | "histexpand");
    named || letters.contains(['k', 'P', 'B', 'H'])
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
