//! From a tree to what it would do: every command that may run, where, on which files.
//!
//! The walk follows the shell: a subshell forgets what it changed, `&&` goes on where the command
//! before it succeeded, a loop's body may have run before. Where two ways meet, both are kept. What
//! cannot be followed becomes a [`Doubt`], so that silence always means "seen and understood".

mod builtins;
mod changes;
mod dialect;
mod names;
mod numbers;
mod runs;

use std::collections::HashSet;
use std::path::Path;

use super::analysis::{Analysis, Doubt, DoubtKind, FileUse, Folders, Node, NodeKind};
use super::arg::Arg;
use super::ast::{
    AssignedValue, Assignment, Command, CommandKind, Item, Joint, List, Operation, Parameter, Part,
    Pipeline, Redirect, RedirectKind, Simple, Span, Word,
};
use super::expand::{self, Tilde};
use super::state::{Function, State, Value, is_number};
use super::variables;
use crate::program::Access;
use changes::{forget_changes, moves};
use dialect::Dialect;

/// Levels of commands within commands that are followed: groups, substitutions, wrappers, inner
/// scripts. What lies deeper makes the whole line unjudgeable.
const DEPTH_MAX: usize = 150;
/// Values of a `for` loop that are looked at one by one.
const LOOP_VALUES_MAX: usize = 8;
/// Nodes after which loops are no longer looked at value by value.
const NODES_COMFORTABLE: usize = 50_000;
/// Nodes after which nothing is followed any more.
const NODES_MAX: usize = 100_000;
/// Bytes of inner scripts that are read, all together.
const INNER_BYTES_MAX: usize = 1024 * 1024;
/// Texts of a pipeline that are followed. A shell that reads one is doubted in any case.
const PIPED_TEXTS_MAX: usize = 8;
/// Characters of a node's label.
const LABEL_CHARS_MAX: usize = 240;

/// Why a script is not followed to its end.
const TOO_MUCH: &str = "the commands in it are too many to be judged";

/// Follows a script that runs in `folder`.
pub fn script(text: &str, folder: &Path, home: Option<&Path>) -> Analysis {
    let mut walker = Walker::new(home);
    let mut state = State::new(folder);
    walker.text(text, None, Here { parent: None, span: None }, &mut state);
    walker.traps(&state);
    walker.analysis
}

/// Follows a program that is run without a shell.
pub(crate) fn program(argv: &[String], folder: &Path, home: Option<&Path>) -> Analysis {
    let mut walker = Walker::new(home);
    let state = State::new(folder);
    let argv: Vec<Arg> = argv.iter().map(Arg::known).collect();
    let here = Here { parent: None, span: Some(Span::default()) };
    walker.invoke(argv, false, &state, here, &Input::Nothing);
    walker.traps(&state);
    walker.analysis
}

/// Where in the result something goes.
#[derive(Clone, Copy, Debug)]
struct Here {
    /// The node it hangs from.
    parent: Option<usize>,
    /// The place of everything inside an inner text; `None` in the text that was given.
    span: Option<Span>,
}

impl Here {
    fn below(self, parent: usize) -> Self {
        Self { parent: Some(parent), ..self }
    }
}

/// What a command reads from its standard input.
#[derive(Clone, Debug)]
enum Input {
    /// Nothing that the script says.
    Nothing,
    /// These texts, and no others.
    Texts(Vec<Arg>),
    /// What other commands of the pipeline print.
    Piped(Piped),
}

/// What the commands of a pipeline print, as far as it is known.
#[derive(Clone, Debug, Default)]
struct Piped {
    /// Texts that are among it.
    texts: Vec<Arg>,
    /// When it is nothing but names of files: the folders they lie in.
    names: Option<Vec<Arg>>,
}

struct Walker<'a> {
    home: Option<&'a Path>,
    analysis: Analysis,
    depth: usize,
    /// Bytes of inner scripts that were read.
    inner_bytes: usize,
    /// What `trap` is to run later, which may be anywhere the shell goes.
    trapped: Vec<Trap>,
    /// Whether some shell has gone elsewhere.
    moved: bool,
    /// The shell that reads what is followed.
    dialect: Dialect,
    /// The text being followed, for showing words as they are written.
    source: &'a str,
    /// Arguments of the current command that are names of files, and the folders they lie in.
    listed: Vec<(Arg, Vec<Arg>)>,
    /// Names that are functions somewhere, so that they may not mean the program.
    functions: HashSet<String>,
}

/// A text that a shell runs later.
#[derive(Clone, Debug)]
struct Trap {
    text: Arg,
    here: Here,
    state: State,
    dialect: Dialect,
}

/// How the shell goes on after something that may fail.
struct After {
    succeeded: State,
    failed: State,
}

impl After {
    fn either(state: State) -> Self {
        Self { failed: state.clone(), succeeded: state }
    }

    fn joined(self) -> State {
        // When both are the same, only one is left, and what it holds can be changed in place.
        if self.succeeded.is_same(&self.failed) {
            return self.succeeded;
        }
        self.succeeded.or(&self.failed)
    }
}

impl<'a> Walker<'a> {
    fn new(home: Option<&'a Path>) -> Self {
        Self {
            home,
            analysis: Analysis::default(),
            depth: 0,
            inner_bytes: 0,
            trapped: Vec::new(),
            moved: false,
            dialect: Dialect::Bash,
            source: "",
            listed: Vec::new(),
            functions: HashSet::new(),
        }
    }

    /// Follows a text as the shell would, in `state`.
    fn text(&mut self, text: &str, label: Option<&str>, here: Here, state: &mut State) {
        self.inner_bytes += text.len();
        if label.is_some() && self.inner_bytes > INNER_BYTES_MAX {
            self.too_much(here);
            return;
        }
        self.check_dialect(text, here);
        let parsed = super::parse(text);
        let here = match label {
            Some(label) => here.below(self.node(here, Span::default(), label, NodeKind::Structure)),
            None => here,
        };
        // The walker borrows the text for as long as it follows it; inner texts live shorter.
        let mut inner = Walker {
            home: self.home,
            analysis: std::mem::take(&mut self.analysis),
            depth: self.depth,
            inner_bytes: self.inner_bytes,
            trapped: std::mem::take(&mut self.trapped),
            moved: self.moved,
            dialect: self.dialect,
            source: text,
            listed: Vec::new(),
            functions: std::mem::take(&mut self.functions),
        };
        // All of them beforehand: a function may be called before the line that defines another.
        inner.functions.extend(names::functions_in(text).map(str::to_owned));
        let after = inner.list(&parsed.list, here, state.clone());
        *state = after.joined();
        if let Some(error) = parsed.error {
            inner.unparsed(text, &error, here);
        }
        self.analysis = inner.analysis;
        self.functions = inner.functions;
        self.inner_bytes = inner.inner_bytes;
        self.trapped = inner.trapped;
        self.moved = inner.moved;
    }

    /// Follows what was trapped: it runs at the end or at any time, with whatever the variables hold
    /// then, wherever the shell is.
    fn traps(&mut self, state: &State) {
        let mut next = 0;
        // A trap may set another one.
        while let Some(Trap { text, here, state: set, dialect }) = self.trapped.get(next).cloned() {
            self.dialect = dialect;
            let mut at = set.without_variables();
            at.folders = if self.moved { Folders::Unknown } else { state.folders.clone() };
            self.script(&text, here, &mut at);
            next += 1;
        }
    }

    fn unparsed(&mut self, text: &str, error: &super::SyntaxError, here: Here) {
        let kind = if error.is_too_deep() { DoubtKind::Unbounded } else { DoubtKind::Unresolved };
        let at = error.at.min(text.len());
        self.doubt(here, Span { start: at, end: text.len() }, kind, error.to_string());
        // From the error's line on: what stands before it was parsed, and is judged as such.
        let from = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let rest = text.get(from..).unwrap_or(text);
        let unparsed = self.analysis.unparsed.get_or_insert_with(String::new);
        unparsed.push_str(rest);
        unparsed.push('\n');
    }

    fn list(&mut self, list: &List, here: Here, state: State) -> After {
        let mut after = After::either(state);
        // The shell's own state while a list such as `a && b &` is followed, which runs in another.
        let mut own: Option<State> = None;
        for item in &list.items {
            after = match item.joint {
                Joint::Then => {
                    let before = own.take().unwrap_or_else(|| after.joined());
                    own = item.background.then(|| before.clone());
                    self.item(item, here, before)
                }
                Joint::And => {
                    let now = self.item(item, here, after.succeeded);
                    After { failed: after.failed.or(&now.failed), succeeded: now.succeeded }
                }
                Joint::Or => {
                    let now = self.item(item, here, after.failed);
                    After { succeeded: after.succeeded.or(&now.succeeded), failed: now.failed }
                }
            };
        }
        own.map_or(after, After::either)
    }

    fn item(&mut self, item: &Item, here: Here, state: State) -> After {
        let after = self.pipeline(&item.pipeline, here, state);
        // `!` turns it round, and may stand there twice.
        if item.pipeline.negated { After::either(after.joined()) } else { after }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, here: Here, state: State) -> After {
        if let [only] = &pipeline.commands[..] {
            return self.command(only, here, state, Input::Nothing);
        }
        let span = match (pipeline.commands.first(), pipeline.commands.last()) {
            (Some(first), Some(last)) => Span { start: first.span.start, end: last.span.end },
            _ => Span::default(),
        };
        let here = here.below(self.node(here, span, "pipeline", NodeKind::Structure));
        let mut piped: Option<Piped> = None;
        for command in &pipeline.commands {
            // Each runs in a shell of its own.
            let input = piped.clone().map_or(Input::Nothing, Input::Piped);
            self.command(command, here, state.clone(), input);
            piped = Some(self.printed(command, piped, &state));
        }
        After::either(state)
    }

    /// What a command hands on to the next one of a pipeline.
    fn printed(&self, command: &Command, before: Option<Piped>, state: &State) -> Piped {
        let is_text = |redirect: &&Redirect| {
            matches!(redirect.kind, RedirectKind::HereDocument | RedirectKind::HereString)
        };
        let mut printed = before.unwrap_or_default();
        let here = command.redirects.iter().filter(is_text);
        printed.texts.extend(here.map(|redirect| self.input_text(redirect, state)));
        printed.texts.truncate(PIPED_TEXTS_MAX);
        let names = printed.names.take();
        let CommandKind::Simple(simple) = &command.kind else { return printed };
        let words: Vec<Arg> =
            simple.words.iter().flat_map(|word| self.arguments(word, state)).collect();
        let Some((Arg::Known(program), rest)) = words.split_first() else { return printed };
        if matches!(program.as_str(), "echo" | "printf") {
            let text = rest.iter().filter_map(Arg::as_known).collect::<Vec<_>>().join(" ");
            printed.texts.push(Arg::Known(text.replace("\\n", "\n")));
            printed.texts.extend(rest.iter().filter(|arg| arg.as_known().is_some()).cloned());
        }
        printed.texts.dedup();
        printed.texts.truncate(PIPED_TEXTS_MAX);
        // What is read from elsewhere is no longer what came through the pipe.
        let reads_else = command.redirects.iter().any(|redirect| {
            let span = redirect.span;
            self.source.get(span.start..span.end).is_none_or(|written| written.contains('<'))
        });
        if !self.functions.contains(program) {
            printed.names = names::names_printed(&words, names.filter(|_| !reads_else));
        }
        printed
    }

    fn command(&mut self, command: &Command, here: Here, state: State, input: Input) -> After {
        self.depth += 1;
        let after = if self.depth > DEPTH_MAX {
            self.too_deep(here, command.span);
            After::either(state)
        } else if self.analysis.nodes.len() > NODES_MAX {
            self.too_much(here);
            After::either(state)
        } else {
            self.command_within(command, here, state, input)
        };
        self.depth -= 1;
        after
    }

    fn too_deep(&mut self, here: Here, span: Span) {
        let reason = format!("commands are nested more than {DEPTH_MAX} levels deep");
        self.doubt(here, span, DoubtKind::Unbounded, reason);
    }

    fn too_much(&mut self, here: Here) {
        let already = self.analysis.nodes.last().is_some_and(|node| node.label == TOO_MUCH);
        if !already {
            self.doubt(here, Span::default(), DoubtKind::Unbounded, TOO_MUCH.to_owned());
        }
    }

    fn command_within(
        &mut self,
        command: &Command,
        here: Here,
        mut state: State,
        input: Input,
    ) -> After {
        let span = command.span;
        if let CommandKind::Simple(simple) = &command.kind {
            let input = self.redirects(&command.redirects, here, &mut state).unwrap_or(input);
            return self.simple(simple, span, here, state, &input);
        }
        let label = match &command.kind {
            CommandKind::Simple(_) => "",
            CommandKind::Subshell(_) => "( )",
            CommandKind::Group(_) => "{ }",
            CommandKind::If { .. } => "if",
            CommandKind::While { .. } => "loop",
            CommandKind::For { .. } | CommandKind::ArithmeticFor { .. } => "for",
            CommandKind::Case { .. } => "case",
            CommandKind::Arithmetic(_) => "(( ))",
            CommandKind::Test(_) => "[[ ]]",
            CommandKind::Function { name, .. } => &format!("function {name}"),
            CommandKind::Coprocess(_) => "coproc",
        };
        let here = here.below(self.node(here, span, label, NodeKind::Structure));
        self.redirects(&command.redirects, here, &mut state);
        match &command.kind {
            CommandKind::Simple(_) => After::either(state),
            CommandKind::Subshell(list) => {
                self.list(list, here, state.clone());
                After::either(state)
            }
            CommandKind::Group(list) => self.list(list, here, state),
            CommandKind::If { branches, otherwise } => {
                self.branches(branches, otherwise.as_ref(), here, state)
            }
            CommandKind::While { condition, body } => {
                forget_changes(&[condition, body], &mut state);
                let checked = self.list(condition, here, state.clone());
                // `until` goes on where the condition failed.
                let checked = checked.joined();
                let after = self.list(body, here, checked.clone());
                After::either(checked.or(&after.joined()).or(&state))
            }
            CommandKind::For { variable, words, asks, body } => {
                if *asks {
                    let reason = "what `select` sets depends on an answer".to_owned();
                    self.doubt(here, span, DoubtKind::Unresolved, reason);
                }
                self.for_each(variable, words.as_deref(), body, span, here, state)
            }
            CommandKind::ArithmeticFor { header, body } => {
                self.arithmetic(header, here, &mut state);
                forget_changes(&[body], &mut state);
                let after = self.list(body, here, state.clone());
                After::either(state.or(&after.joined()))
            }
            CommandKind::Case { subject, arms } => {
                self.word(subject, here, &mut state);
                let mut ends = state.clone();
                for (patterns, body) in arms {
                    for pattern in patterns {
                        self.word(pattern, here, &mut state);
                    }
                    // An arm may be entered from the one before it.
                    ends = ends.or(&self.list(body, here, ends.clone()).joined());
                }
                After::either(ends)
            }
            CommandKind::Arithmetic(word) => {
                self.arithmetic(word, here, &mut state);
                After::either(state)
            }
            CommandKind::Test(words) => {
                for word in words {
                    self.word(word, here, &mut state);
                }
                self.tested(words, span, here, &state);
                After::either(state)
            }
            CommandKind::Function { name, body } => {
                self.function(name, body, here, &mut state);
                After::either(state)
            }
            CommandKind::Coprocess(body) => {
                // It sets a variable to numbers, and that may be any variable.
                let reason = "`coproc` sets variables of its own".to_owned();
                self.doubt(here, span, DoubtKind::Unresolved, reason);
                self.command(body, here, state.clone(), Input::Piped(Piped::default()));
                After::either(state.without_variables())
            }
        }
    }

    fn branches(
        &mut self,
        branches: &[(List, List)],
        otherwise: Option<&List>,
        here: Here,
        state: State,
    ) -> After {
        let mut ends: Option<State> = None;
        let mut undecided = state;
        for (condition, body) in branches {
            let checked = self.list(condition, here, undecided);
            let end = self.list(body, here, checked.succeeded).joined();
            ends = Some(ends.map_or_else(|| end.clone(), |ends| ends.or(&end)));
            undecided = checked.failed;
        }
        if let Some(otherwise) = otherwise {
            undecided = self.list(otherwise, here, undecided).joined();
        }
        After::either(ends.map_or_else(|| undecided.clone(), |ends| ends.or(&undecided)))
    }

    fn for_each(
        &mut self,
        variable: &str,
        words: Option<&[Word]>,
        body: &List,
        span: Span,
        here: Here,
        mut state: State,
    ) -> After {
        let mut values: Option<Vec<Arg>> = words.map(|_| Vec::new());
        for word in words.unwrap_or_default() {
            let arguments = self.word(word, here, &mut state);
            if let Some(values) = &mut values {
                values.extend(arguments);
            }
        }
        self.assigned(variable, span, here);
        forget_changes(&[body], &mut state);
        let before = state.clone();
        let counts = values.as_deref().is_some_and(|values| {
            values.iter().all(|value| value.as_known().is_some_and(is_number))
        });
        let counts = counts || words.is_some_and(|words| self.are_numbers(words, &before));
        let otherwise = if counts { Value::Number } else { Value::Unknown };
        let known = values.filter(|values| {
            let resolved = values.iter().all(|value| !matches!(value, Arg::Unknown { .. }));
            let few = values.len() <= LOOP_VALUES_MAX;
            resolved && few && !values.is_empty() && self.analysis.nodes.len() < NODES_COMFORTABLE
        });
        for value in known.as_deref().unwrap_or_default() {
            self.evaluated_later(value, span, here);
        }
        let known: Option<Vec<Value>> = known.map(|known| known.iter().map(Value::of).collect());
        let mut end = before.clone();
        let values = known.unwrap_or_else(|| vec![otherwise]);
        for value in values {
            let mut state = before.clone();
            state.set(variable, value);
            end = end.or(&self.list(body, here, state).joined());
        }
        After::either(end)
    }

    /// A function's body is looked at where it is defined, with variables that may hold anything.
    fn function(&mut self, name: &str, body: &Command, here: Here, state: &mut State) {
        let moves = moves(body, state);
        self.functions.insert(name.to_owned());
        let mut inside = state.without_variables();
        let text = self.source.get(body.span.start..body.span.end);
        if moves && text.is_none_or(|text| text.contains(name)) {
            // It may call itself, from wherever it has gone.
            inside.folders = Folders::Unknown;
        }
        self.command(body, here, inside, Input::Piped(Piped::default()));
        let folders = state.folders.clone();
        if !state.define(name, Function { folders, moves, certain: true }) {
            let reason = "more functions than anybody follows".to_owned();
            self.doubt(here, body.span, DoubtKind::Unresolved, reason);
        }
    }

    /// Opens what the redirections name; the input they give, if they give one.
    fn redirects(
        &mut self,
        redirects: &[Redirect],
        here: Here,
        state: &mut State,
    ) -> Option<Input> {
        let mut input = None;
        for redirect in redirects {
            let span = redirect.span;
            if let Some(name) = &redirect.variable {
                self.assigned(name, span, here);
                state.set(name, Value::Number);
            }
            let accesses: &[Access] = match redirect.kind {
                RedirectKind::Read => &[Access::Read],
                RedirectKind::Write => &[Access::Write],
                RedirectKind::ReadWrite => &[Access::Read, Access::Write],
                RedirectKind::Duplicate => {
                    self.word(&redirect.target, here, state);
                    continue;
                }
                RedirectKind::HereDocument | RedirectKind::HereString => {
                    self.parts(&redirect.target, here, state);
                    input = Some(Input::Texts(vec![self.input_text(redirect, state)]));
                    continue;
                }
            };
            for path in self.word(&redirect.target, here, state) {
                for access in accesses {
                    self.file(*access, &path, false, true, state, here, span);
                }
            }
            if redirect.kind != RedirectKind::Write {
                input = Some(Input::Piped(Piped::default()));
            }
        }
        input
    }

    fn simple(
        &mut self,
        simple: &Simple,
        span: Span,
        here: Here,
        mut state: State,
        input: &Input,
    ) -> After {
        let mut argv = Vec::new();
        // How many words at the start may turn out to be none.
        let mut vanishing = 0;
        let mut listed = Vec::new();
        for word in &simple.words {
            let arguments = self.word(word, here, &mut state);
            let all_before = argv.len() == vanishing;
            if let ([only], Some(folders)) = (&arguments[..], self.names_listed(word, &state)) {
                listed.push((only.clone(), folders));
            }
            argv.extend(arguments);
            if all_before && may_vanish(word) {
                vanishing = argv.len();
            }
        }
        // `IFS= read` says how this one `read` splits its line, and is forgotten after it.
        let reads = argv.first().and_then(Arg::as_known) == Some("read")
            && state.function("read").is_none();
        for assignment in &simple.assignments {
            let value = self.assign(assignment, argv.is_empty(), here, &mut state);
            let harmless = reads && assignment.name == "IFS"
                || variables::is_harmless(&assignment.name, &value);
            if !harmless {
                self.assigned(&assignment.name, assignment.span, here);
            }
        }
        if argv.is_empty() {
            return After::either(state);
        }
        let here = Here { span: here.span.or(Some(span)), ..here };
        self.listed = listed;
        // `$x rm y` runs `rm` when `$x` turns out to be empty.
        if let Some(rest) = argv.get(vanishing..).filter(|rest| vanishing > 0 && !rest.is_empty()) {
            self.invoke(rest.to_vec(), false, &state, here, input);
        }
        let after = self.run_here(argv, state, here, input);
        self.listed.clear();
        after
    }

    /// For a word such as `$(git ls-files)`, which becomes names of files: the folders they lie in.
    fn names_listed(&self, word: &Word, state: &State) -> Option<Vec<Arg>> {
        let [Part::Command { list, .. }] = &word.parts[..] else { return None };
        let [Item { pipeline, background: false, .. }] = &list.items[..] else { return None };
        let mut printed = None;
        for command in &pipeline.commands {
            printed = Some(self.printed(command, printed, state));
        }
        printed?.names
    }

    /// Sets a variable, for good where it `lasts`; the value it gets.
    fn assign(
        &mut self,
        assignment: &Assignment,
        lasts: bool,
        here: Here,
        state: &mut State,
    ) -> Value {
        if let Some(subscript) = &assignment.subscript {
            self.word(subscript, here, state);
            self.calculated(subscript, here, state);
        }
        let value = match &assignment.value {
            AssignedValue::Scalar(word) => {
                self.parts(word, here, state);
                let value = self.scalar(word, state);
                self.evaluated_later(&value, assignment.span, here);
                match Value::of(&value) {
                    Value::Unknown if self.is_number(word, state) => Value::Number,
                    value => value,
                }
            }
            AssignedValue::Array(words) => {
                for word in words {
                    self.word(word, here, state);
                }
                Value::Unknown
            }
        };
        let plain = assignment.subscript.is_none() && !assignment.append;
        let value = if plain { value } else { Value::Unknown };
        // What is set for one command only may still be seen by `eval` and by functions.
        state.set(&assignment.name, if lasts { value.clone() } else { Value::Unknown });
        value
    }

    /// Notes a text such as `a[$(id)]`: where the shell takes it for a number, it runs what is in it.
    fn evaluated_later(&mut self, value: &Arg, span: Span, here: Here) {
        let text = value.certain_start();
        if text.contains('[') && (text.contains("$(") || text.contains('`')) {
            let reason = "a subscript with a substitution runs when it is evaluated".to_owned();
            self.doubt(here, span, DoubtKind::Unresolved, reason);
        }
    }

    /// Notes that a variable is set that changes what runs.
    fn assigned(&mut self, name: &str, span: Span, here: Here) {
        if variables::changes_what_runs(name) {
            let reason = format!("setting `{name}` can change what runs");
            self.doubt(here, span, DoubtKind::Altered, reason);
        }
    }

    /// Runs the substitutions in a word and says what arguments it becomes.
    fn word(&mut self, word: &Word, here: Here, state: &mut State) -> Vec<Arg> {
        self.check_braces(word, here);
        self.parts(word, here, state);
        self.arguments(word, state)
    }

    fn arguments(&self, word: &Word, state: &State) -> Vec<Arg> {
        expand::arguments(word, self.written(word), state, self.home)
    }

    fn scalar(&self, word: &Word, state: &State) -> Arg {
        expand::scalar(word, self.written(word), Tilde::Assigned, state, self.home)
    }

    /// The text that a redirection gives.
    fn input_text(&self, redirect: &Redirect, state: &State) -> Arg {
        let tilde = match redirect.kind {
            RedirectKind::HereString => Tilde::Argument,
            _ => Tilde::Never,
        };
        expand::scalar(&redirect.target, self.written(&redirect.target), tilde, state, self.home)
    }

    fn written(&self, word: &Word) -> &'a str {
        self.source.get(word.span.start..word.span.end).unwrap_or("…")
    }

    /// Runs the substitutions in a word.
    fn parts(&mut self, word: &Word, here: Here, state: &mut State) {
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
    fn nested(&mut self, word: &Word, here: Here, state: &mut State) {
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

    #[expect(clippy::too_many_arguments, reason = "all that is known of a file that is touched")]
    fn file(
        &mut self,
        access: Access,
        path: &Arg,
        recursive: bool,
        redirected: bool,
        state: &State,
        here: Here,
        span: Span,
    ) {
        if redirected && let Some(address) = path.as_known().and_then(socket_address) {
            let label = format!("connect to {address}");
            self.node(here, span, &label, NodeKind::Host(Arg::known(address)));
            return;
        }
        let verb = match access {
            Access::Read => "read",
            Access::Write => "write",
            Access::Delete => "delete",
        };
        let folders = state.folders.clone();
        let file = FileUse { access, path: path.clone(), folders, recursive, redirected };
        self.node(here, span, &format!("{verb} {path}"), NodeKind::File(file));
    }

    fn doubt(&mut self, here: Here, span: Span, kind: DoubtKind, reason: String) {
        let label = reason.clone();
        self.node(here, span, &label, NodeKind::Doubt(Doubt { reason, kind }));
    }

    fn node(&mut self, here: Here, span: Span, label: &str, kind: NodeKind) -> usize {
        let label = match label.char_indices().nth(LABEL_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &label[..end]),
            None => label.to_owned(),
        };
        let span = here.span.unwrap_or(span);
        self.analysis.nodes.push(Node { parent: here.parent, label, span, kind });
        self.analysis.nodes.len() - 1
    }
}

impl Value {
    fn of(arg: &Arg) -> Self {
        match arg {
            Arg::Known(text) => Self::Known(text.clone()),
            Arg::Pattern(pattern) => Self::Pattern(pattern.clone()),
            Arg::Unknown { .. } => Self::Unknown,
        }
    }
}

/// `/dev/tcp/host/port`: a file to nobody but the shell, which connects instead.
fn socket_address(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/"))?;
    Some(rest.split('/').next().unwrap_or(rest))
}

/// Whether an unquoted expansion makes up all of a word, which may then become no word at all.
fn may_vanish(word: &Word) -> bool {
    !word.parts.is_empty()
        && word.parts.iter().all(|part| match part {
            Part::Parameter(parameter) => !parameter.quoted || expand::is_list(parameter),
            Part::Command { quoted, .. } => !quoted,
            _ => false,
        })
}

/// The words of an expansion that are taken for numbers: subscripts, and where a part starts.
fn calculated_words(parameter: &Parameter) -> &[Word] {
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
