//! Commands that run, and those that they run in turn.

use super::super::analysis::{DoubtKind, Invocation, NodeKind};
use super::super::arg::Arg;
use super::super::ast::{CommandKind, Part, Span};
use super::super::state::State;
use super::dialect::Dialect;
use super::{DEPTH_MAX, Here, Input, NODES_MAX, Piped, WORDS_MAX, Walker};
use crate::program::{self, Access, Run, Study, Touch};

/// Words of its input that a command is looked at with.
const INPUT_WORDS_MAX: usize = 64;
/// How `find` writes the name it has found.
const FOUND: &str = "{}";

impl Walker<'_> {
    /// Notes that a command runs, with all that it does and runs.
    pub(super) fn invoke(
        &mut self,
        argv: Vec<Arg>,
        more_arguments: bool,
        state: &State,
        here: Here,
        input: &Input,
    ) {
        self.invoke_on(argv, more_arguments, None, state, here, input);
    }

    /// Notes that a command runs, without what it runs in turn. The node is returned.
    pub(super) fn invoke_only(&mut self, argv: Vec<Arg>, state: &State, here: Here) -> usize {
        let study = Study { runs: Vec::new(), ..program::study(&argv) };
        self.command_node(argv, false, study, state, here)
    }

    fn invoke_on(
        &mut self,
        mut argv: Vec<Arg>,
        more_arguments: bool,
        names: Option<&[Arg]>,
        state: &State,
        here: Here,
        input: &Input,
    ) {
        let span = here.span.unwrap_or_default();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.too_deep(here, span);
            self.depth -= 1;
            return;
        }
        self.words += argv.len();
        if self.words > WORDS_MAX || self.analysis.nodes.len() > NODES_MAX {
            self.too_much(here);
            self.depth -= 1;
            return;
        }
        if more_arguments {
            argv.push(found());
        }
        let mut study = program::study(&argv);
        if let Some(names) = names {
            study.touches = place_found(study.touches, names);
        }
        let roots: Vec<Arg> = study
            .touches
            .iter()
            .filter(|touch| touch.access == Access::Read && touch.recursive)
            .map(|touch| touch.path.clone())
            .collect();
        let runs = std::mem::take(&mut study.runs);
        let around = self.dialect;
        let program = argv.first().and_then(Arg::as_known).unwrap_or_default();
        self.dialect = Dialect::of(program, around);
        let finds = finds_files(program);
        let sets_options = sets_shell_options(program, &argv);
        let given = if is_shell(program) { argv.clone() } else { Vec::new() };
        // With `-a` it takes the names from that file instead.
        let takes_names = program.rsplit('/').next() == Some("xargs") && study.touches.is_empty();
        let in_this_shell = matches!(program, "command" | "builtin" | "exec");
        let node = self.command_node(argv, more_arguments, study, state, here);
        let here = here.below(node);
        if sets_options {
            let reason = "it changes how the shell reads its commands".to_owned();
            self.doubt(here, span, DoubtKind::Unresolved, reason);
        }
        for run in runs {
            if let Run::Command { argv, .. } = &run
                && let Some(Arg::Known(inner)) = argv.first()
                && only_in_a_shell(inner)
                && !in_this_shell
            {
                let reason = format!("`{inner}` is part of a shell; what runs here is not known");
                self.doubt(here, span, DoubtKind::Unresolved, reason);
            }
            let names = match input {
                _ if finds => Some(roots.as_slice()),
                Input::Piped(Piped { names: Some(names), .. }) if takes_names => Some(&names[..]),
                _ => None,
            };
            let state = match &run {
                Run::Script { text, .. } => with_arguments(text, &given, state),
                _ => state.clone(),
            };
            self.run(run, names, &state, here, span, input);
        }
        self.dialect = around;
        self.depth -= 1;
    }

    fn run(
        &mut self,
        run: Run,
        names: Option<&[Arg]>,
        state: &State,
        here: Here,
        span: Span,
        input: &Input,
    ) {
        match run {
            Run::Command { argv, variables, folder, more_arguments } => {
                for (name, value) in &variables {
                    self.assigned(name, span, here);
                    self.evaluated_later(value, span, here);
                }
                let state = self.moved(folder.as_ref(), state);
                if argv.is_empty() {
                    return;
                }
                if more_arguments {
                    self.invoke_with_input(&argv, &state, here, input);
                }
                self.invoke_on(argv, more_arguments, names, &state, here, input);
            }
            Run::Script { text, folder } => {
                let mut state = self.moved(folder.as_ref(), state).outside();
                self.script(&text, here, &mut state);
            }
            Run::ScriptFromInput => self.script_from(input, state, here, span),
            Run::Unknown(why) => {
                self.doubt(here, span, DoubtKind::Unresolved, why.to_owned());
            }
        }
    }

    /// A command that gets its arguments from its input, with those that are known to come.
    fn invoke_with_input(&mut self, argv: &[Arg], state: &State, here: Here, input: &Input) {
        let texts = match input {
            Input::Nothing => &[][..],
            Input::Texts(texts) => &texts[..],
            Input::Piped(piped) => &piped.texts[..],
        };
        for text in texts.iter().filter_map(Arg::as_known) {
            let words = text.split_whitespace().take(INPUT_WORDS_MAX).map(Arg::known);
            let whole: Vec<Arg> = argv.iter().cloned().chain(words).collect();
            if whole.len() > argv.len() {
                self.invoke_on(whole, false, None, state, here, &Input::Nothing);
            }
        }
    }

    /// Follows the text of an inner shell.
    pub(super) fn script(&mut self, text: &Arg, here: Here, state: &mut State) {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.too_deep(here, here.span.unwrap_or_default());
        } else if let Arg::Known(text) = text {
            self.text(text, Some("script"), here, state);
        } else {
            let span = here.span.unwrap_or_default();
            let reason = format!("the script `{text}` is only known when it runs");
            self.doubt(here, span, DoubtKind::Unresolved, reason);
            // What stands in it for certain is judged all the same: it may be denied.
            let written = match text {
                Arg::Unknown { written, .. } => written.as_str(),
                Arg::Known(text) | Arg::Pattern(text) => text,
            };
            // It may be the text itself, into which a name is put, or its source, which the shell
            // expands first.
            let source = template(written);
            let is_same = source.as_deref().is_some_and(|text| text.trim() == written.trim());
            let text = (!is_same).then(|| written.to_owned());
            for reading in source.into_iter().chain(text) {
                self.text(&reading, Some("script"), here, &mut state.without_variables());
            }
        }
        self.depth -= 1;
    }

    fn script_from(&mut self, input: &Input, state: &State, here: Here, span: Span) {
        let (texts, certain) = match input {
            Input::Nothing => (&[][..], false),
            Input::Texts(texts) => (&texts[..], true),
            Input::Piped(piped) => (&piped.texts[..], false),
        };
        for text in texts {
            self.script(text, here, &mut state.outside());
        }
        if !certain {
            let reason = "it runs commands that it reads from its input".to_owned();
            self.doubt(here, span, DoubtKind::Unresolved, reason);
        }
    }

    fn moved(&self, folder: Option<&Arg>, state: &State) -> State {
        let folders = match folder {
            None => state.folders.clone(),
            // `..` leads to where the folder really lies, not to where its name says.
            Some(Arg::Known(path)) if !path.split('/').any(|part| part == "..") => {
                state.folders.enter(path)
            }
            Some(_) => super::super::analysis::Folders::Unknown,
        };
        let mut moved = state.clone();
        moved.folders = folders;
        moved
    }

    /// The node of a command with the files and hosts it touches and the doubts about it.
    fn command_node(
        &mut self,
        argv: Vec<Arg>,
        more_arguments: bool,
        study: Study,
        state: &State,
        here: Here,
    ) -> usize {
        let span = here.span.unwrap_or_default();
        let label = argv.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let state = self.moved(study.folder.as_ref(), state);
        let unknown = argv.first().is_some_and(|program| program.as_known().is_none());
        let (touches, hosts) = (study.touches.clone(), study.hosts.clone());
        let caution = study.caution.clone();
        let invocation = Invocation { argv, study, folders: state.folders.clone(), more_arguments };
        let node = self.node(here, span, &label, NodeKind::Command(Box::new(invocation)));
        let here = here.below(node);
        if unknown {
            let reason = "which program runs is only known when it runs".to_owned();
            self.doubt(here, span, DoubtKind::Unresolved, reason);
        }
        if let Some(caution) = caution {
            self.doubt(here, span, DoubtKind::Altered, caution);
        }
        for Touch { access, path, recursive } in touches {
            let folders = self.listed.iter().find(|(names, _)| *names == path).cloned();
            match folders {
                Some((_, folders)) if access == Access::Read => {
                    for folder in folders {
                        self.file(access, &folder, true, false, &state, here, span);
                    }
                }
                _ => self.file(access, &path, recursive, false, &state, here, span),
            }
        }
        for host in hosts {
            self.node(here, span, &format!("connect to {host}"), NodeKind::Host(host.clone()));
        }
        node
    }
}

/// The name that `find` or `xargs` puts in.
fn found() -> Arg {
    Arg::Unknown { starts_with: String::new(), written: FOUND.to_owned() }
}

/// Puts the folders in which names are found where a name is to be put in.
fn place_found(touches: Vec<Touch>, names: &[Arg]) -> Vec<Touch> {
    let mut placed = Vec::new();
    for touch in touches {
        if is_found(&touch.path) && !names.is_empty() {
            placed.extend(names.iter().map(|root| Touch {
                access: touch.access,
                path: root.clone(),
                recursive: true,
            }));
        } else {
            placed.push(touch);
        }
    }
    placed
}

/// Whether it is a name that was found, or another beside it: `{}`, `{}.bak`. `/etc/{}` is none.
fn is_found(path: &Arg) -> bool {
    let Arg::Unknown { written, .. } = path else { return false };
    written.strip_prefix(FOUND).is_some_and(|rest| !rest.contains(['/', '$', '`', '{']))
}

fn finds_files(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "find" | "fd" | "fdfind")
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "sh" | "bash" | "rbash" | "dash" | "zsh" | "ksh")
}

/// What a shell that is given a script knows of the arguments behind it.
fn with_arguments(script: &Arg, argv: &[Arg], state: &State) -> State {
    let mut state = state.clone();
    let at = argv.iter().position(|arg| arg == script);
    if let Some([name, arguments @ ..]) = at.and_then(|at| argv.get(at + 1..)) {
        state.set("0", super::guess_of(std::slice::from_ref(name)));
        state.set("@", super::guess_of(arguments));
    }
    state
}

/// `bash -O dotglob`, `bash -o posix`: what a script means is up to options.
fn sets_shell_options(program: &str, argv: &[Arg]) -> bool {
    let mut takes_name = false;
    let args = argv.iter().skip(1).filter_map(Arg::as_known);
    for arg in args.filter(|_| is_shell(program)) {
        let is_option = arg.starts_with(['-', '+']) && arg.len() > 1;
        if !is_option {
            if !takes_name || matches!(arg, "posix" | "noglob" | "physical" | "keyword") {
                return takes_name;
            }
            takes_name = false;
        } else if arg == "--posix" {
            return true;
        } else if !arg.starts_with("--") {
            if arg.contains(['O', 'f', 'k', 'B', 'P', 'a']) {
                return true;
            }
            takes_name = arg.contains('o');
        }
    }
    false
}

/// The text of a script of which parts are unknown: those become a variable that nobody set.
fn template(written: &str) -> Option<String> {
    let parsed = super::super::parse(written);
    let mut text = String::new();
    for item in &parsed.list.items {
        for command in &item.pipeline.commands {
            let CommandKind::Simple(simple) = &command.kind else { continue };
            for word in &simple.words {
                for part in &word.parts {
                    match part {
                        Part::Text { text: known, .. } => text.push_str(known),
                        _ => text.push_str("$_"),
                    }
                }
                text.push(' ');
            }
        }
    }
    // A text that is nothing but a hole says nothing.
    let says_something = text.replace("$_", "").chars().any(|char| !char.is_whitespace());
    says_something.then_some(text)
}

/// Commands that change the shell they run in, so that no program can be them.
fn only_in_a_shell(name: &str) -> bool {
    matches!(
        name,
        "trap"
            | "shopt"
            | "set"
            | "unset"
            | "export"
            | "declare"
            | "local"
            | "readonly"
            | "typeset"
            | "eval"
            | "source"
            | "."
            | "alias"
            | "unalias"
            | "enable"
            | "let"
            | "mapfile"
            | "readarray"
            | "getopts"
            | "cd"
            | "pushd"
            | "popd"
            | "bind"
            | "complete"
            | "hash"
            | "shift"
            | "coproc"
    )
}
