//! From a tree to what it would do: every command that may run, where, on which files.
//!
//! The walk follows the shell: a subshell forgets what it changed, `&&` goes on where the command
//! before it succeeded, a loop's body may have run before. Where two ways meet, both are kept. What
//! cannot be followed becomes a [`Doubt`], so that silence always means "seen and understood".

mod assign;
mod builtins;
mod changes;
mod compound;
mod dialect;
mod names;
mod numbers;
mod pipes;
mod runs;
mod setters;
mod words;

use std::collections::HashSet;
use std::path::Path;

use super::analysis::{Analysis, Doubt, DoubtKind, FileUse, Folders, Node, NodeKind};
use super::arg::Arg;
use super::ast::{Command, Item, Joint, List, Redirect, RedirectKind, Simple, Span};
use super::state::{State, Value};
use crate::program::Access;
use assign::guess_of;
use dialect::Dialect;
use words::{calculated_words, may_vanish};

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
/// Inner scripts that are read, all together.
const SCRIPTS_MAX: usize = 4_000;
/// Words of commands that are looked at, all together; a wrapper's are looked at again within it.
const WORDS_MAX: usize = 1_000_000;
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
    let here = Here { parent: None, span: None };
    walker.text(text, None, here, &mut state);
    walker.traps(&state);
    if state.is_exhausted() {
        walker.too_much(here);
    }
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
    /// Scripts that were read.
    scripts: usize,
    /// Words of commands that were looked at.
    words: usize,
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
    /// Names that functions and traps call and that were no functions then.
    called: HashSet<String>,
    /// Functions whose bodies were looked at.
    bodies: usize,
    /// Whether a function's body is being looked at.
    in_body: bool,
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
            scripts: 0,
            words: 0,
            trapped: Vec::new(),
            moved: false,
            dialect: Dialect::Bash,
            source: "",
            listed: Vec::new(),
            functions: HashSet::new(),
            called: HashSet::new(),
            bodies: 0,
            in_body: false,
        }
    }

    /// Follows a text as the shell would, in `state`.
    fn text(&mut self, text: &str, label: Option<&str>, here: Here, state: &mut State) {
        self.inner_bytes += text.len();
        self.scripts += 1;
        let much = self.inner_bytes > INNER_BYTES_MAX || self.scripts > SCRIPTS_MAX;
        if label.is_some() && much {
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
            scripts: self.scripts,
            words: self.words,
            trapped: std::mem::take(&mut self.trapped),
            moved: self.moved,
            dialect: self.dialect,
            source: text,
            listed: Vec::new(),
            functions: std::mem::take(&mut self.functions),
            called: std::mem::take(&mut self.called),
            bodies: self.bodies,
            in_body: self.in_body,
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
        self.called = inner.called;
        self.bodies = inner.bodies;
        self.inner_bytes = inner.inner_bytes;
        self.scripts = inner.scripts;
        self.words = inner.words;
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
            let mut paths = self.word(&redirect.target, here, state);
            let target = std::slice::from_ref(&redirect.target);
            paths.extend(self.guess(target, &paths, false, state).unwrap_or_default());
            for path in paths {
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
        let declares = self.declares(simple);
        for word in &simple.words {
            let arguments = self.word(word, here, &mut state);
            let arguments = self.declared(word, &state).filter(|_| declares).unwrap_or(arguments);
            let all_before = argv.len() == vanishing;
            if let ([only], Some(folders)) = (&arguments[..], self.names_listed(word, &state)) {
                listed.push((only.clone(), folders));
            }
            argv.extend(arguments);
            if all_before && may_vanish(word) {
                vanishing = argv.len();
            }
        }
        let guess = self.guess(&simple.words, &argv, declares, &state);
        // `IFS= read` says how this one `read` splits its line, and is forgotten after it.
        let reads = argv.first().and_then(Arg::as_known) == Some("read")
            && state.function("read").is_none();
        for assignment in &simple.assignments {
            self.assign(assignment, argv.is_empty(), here, &mut state);
            if !(reads && assignment.name == "IFS") {
                self.assigned(&assignment.name, assignment.span, here);
            }
        }
        if argv.is_empty() {
            return After::either(state);
        }
        let here = Here { span: here.span.or(Some(span)), ..here };
        // What is only guessed is no reason to allow anything, but reason enough to deny it.
        if let Some(guess) = guess {
            self.invoke(guess, false, &state, here, input);
        }
        self.listed = listed;
        // `$x rm y` runs `rm` when `$x` turns out to be empty.
        if let Some(rest) = argv.get(vanishing..).filter(|rest| vanishing > 0 && !rest.is_empty()) {
            self.invoke(rest.to_vec(), false, &state, here, input);
        }
        let after = self.run_here(argv, state, here, input);
        self.listed.clear();
        after
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
