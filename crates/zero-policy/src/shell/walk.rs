//! From a tree to what it would do: every command that may run, where, on which files.
//!
//! The walk follows the shell: a subshell forgets what it changed, `&&` goes on where the command
//! before it succeeded, a loop's body may have run before. Where two ways meet, both are kept. What
//! cannot be followed becomes a [`Uncertainty`], so that silence always means "seen and understood".

mod arithmetic;
mod assignments;
mod builtins;
mod compound;
mod invocations;
mod pipelines;
mod printed_names;
mod shell_dialect;
mod state_changes;
mod variable_setters;
mod words;

use std::collections::HashSet;
use std::path::Path;

use super::analysis::{
    AnalysisNode, AnalysisNodeKind, FileUse, ScriptAnalysis, Uncertainty, UncertaintyKind,
    WorkingFolders,
};
use super::arg::ShellArg;
use super::ast::{
    CommandList, ListItem, ListOperator, Redirection, RedirectionKind, ShellCommand, SimpleCommand,
    SourceSpan,
};
use super::shell_state::{ShellState, VariableValue};
use crate::program::FileAccess;
use assignments::guess_elements;
use shell_dialect::ShellDialect;
use words::{arithmetic_words, may_expand_to_nothing};

/// Levels of commands within commands that are followed: groups, substitutions, wrappers, inner
/// scripts. What lies deeper makes the whole line unjudgeable.
const DEPTH_MAX: usize = 150;
/// Values of a `for` loop that are looked at one by one.
const LOOP_VALUES_MAX: usize = 8;
/// Nodes after which loops are no longer looked at value by value.
const LOOP_NODES_MAX: usize = 50_000;
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
const TOO_LARGE: &str = "the commands in it are too many to be judged";

/// Follows a script that runs in `folder`.
pub fn analyze_script(text: &str, folder: &Path, home: Option<&Path>) -> ScriptAnalysis {
    let mut walker = ScriptWalker::new(home);
    let mut state = ShellState::new(folder);
    let here = NodeContext { parent: None, span: None };
    walker.walk_text(text, None, here, &mut state);
    walker.walk_traps(&state);
    if state.is_exhausted() {
        walker.record_too_much(here);
    }
    walker.analysis
}

/// Follows a program that is run without a shell.
pub(crate) fn analyze_program(
    argv: &[String],
    folder: &Path,
    home: Option<&Path>,
) -> ScriptAnalysis {
    let mut walker = ScriptWalker::new(home);
    let state = ShellState::new(folder);
    let argv: Vec<ShellArg> = argv.iter().map(ShellArg::known).collect();
    let here = NodeContext { parent: None, span: Some(SourceSpan::default()) };
    walker.invoke(argv, false, &state, here, &StdinSource::Nothing);
    walker.walk_traps(&state);
    walker.analysis
}

/// Where in the result something goes.
#[derive(Clone, Copy, Debug)]
struct NodeContext {
    /// The node it hangs from.
    parent: Option<usize>,
    /// The place of everything inside an inner text; `None` in the text that was given.
    span: Option<SourceSpan>,
}

impl NodeContext {
    fn with_parent(self, parent: usize) -> Self {
        Self { parent: Some(parent), ..self }
    }
}

/// What a command reads from its standard input.
#[derive(Clone, Debug)]
enum StdinSource {
    /// Nothing that the script says.
    Nothing,
    /// These texts, and no others.
    Texts(Vec<ShellArg>),
    /// What other commands of the pipeline print.
    Piped(PipedOutput),
}

/// What the commands of a pipeline print, as far as it is known.
#[derive(Clone, Debug, Default)]
struct PipedOutput {
    /// Texts that are among it.
    texts: Vec<ShellArg>,
    /// When it is nothing but names of files: the folders they lie in.
    names: Option<Vec<ShellArg>>,
}

struct ScriptWalker<'a> {
    home: Option<&'a Path>,
    analysis: ScriptAnalysis,
    depth: usize,
    /// Bytes of inner scripts that were read.
    inner_bytes: usize,
    /// Scripts that were read.
    scripts: usize,
    /// Words of commands that were looked at.
    words: usize,
    /// What `trap` is to run later, which may be anywhere the shell goes.
    trapped: Vec<TrapHandler>,
    /// Whether some shell has gone elsewhere.
    moved: bool,
    /// The shell that reads what is followed.
    dialect: ShellDialect,
    /// The text being followed, for showing words as they are written.
    source: &'a str,
    /// Arguments of the current command that are names of files, and the folders they lie in.
    listed: Vec<(ShellArg, Vec<ShellArg>)>,
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
struct TrapHandler {
    text: ShellArg,
    here: NodeContext,
    state: ShellState,
    dialect: ShellDialect,
}

/// How the shell goes on after something that may fail.
struct ExitStates {
    succeeded: ShellState,
    failed: ShellState,
}

impl ExitStates {
    fn from_single(state: ShellState) -> Self {
        Self { failed: state.clone(), succeeded: state }
    }

    fn merge(self) -> ShellState {
        // When both are the same, only one is left, and what it holds can be changed in place.
        if self.succeeded.is_same(&self.failed) {
            return self.succeeded;
        }
        self.succeeded.merge(&self.failed)
    }
}

impl<'a> ScriptWalker<'a> {
    fn new(home: Option<&'a Path>) -> Self {
        Self {
            home,
            analysis: ScriptAnalysis::default(),
            depth: 0,
            inner_bytes: 0,
            scripts: 0,
            words: 0,
            trapped: Vec::new(),
            moved: false,
            dialect: ShellDialect::Bash,
            source: "",
            listed: Vec::new(),
            functions: HashSet::new(),
            called: HashSet::new(),
            bodies: 0,
            in_body: false,
        }
    }

    /// Follows a text as the shell would, in `state`.
    fn walk_text(
        &mut self,
        text: &str,
        label: Option<&str>,
        here: NodeContext,
        state: &mut ShellState,
    ) {
        self.inner_bytes += text.len();
        self.scripts += 1;
        let much = self.inner_bytes > INNER_BYTES_MAX || self.scripts > SCRIPTS_MAX;
        if label.is_some() && much {
            self.record_too_much(here);
            return;
        }
        self.check_dialect(text, here);
        let parsed = super::parse(text);
        let here = match label {
            Some(label) => here.with_parent(self.add_node(
                here,
                SourceSpan::default(),
                label,
                AnalysisNodeKind::Structure,
            )),
            None => here,
        };
        // The walker borrows the text for as long as it follows it; inner texts live shorter.
        let mut inner = ScriptWalker {
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
        inner.functions.extend(printed_names::find_defined_functions(text).map(str::to_owned));
        let after = inner.walk_list(&parsed.list, here, state.clone());
        *state = after.merge();
        if let Some(error) = parsed.error {
            inner.record_unparsed(text, &error, here);
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
    fn walk_traps(&mut self, state: &ShellState) {
        let mut next = 0;
        // A trap may set another one.
        while let Some(TrapHandler { text, here, state: set, dialect }) =
            self.trapped.get(next).cloned()
        {
            self.dialect = dialect;
            let mut at = set.without_variables();
            at.folders = if self.moved { WorkingFolders::Unknown } else { state.folders.clone() };
            self.walk_inner_script(&text, here, &mut at);
            next += 1;
        }
    }

    fn record_unparsed(&mut self, text: &str, error: &super::ShellSyntaxError, here: NodeContext) {
        let kind = if error.is_too_deep() {
            UncertaintyKind::Unbounded
        } else {
            UncertaintyKind::Unresolved
        };
        let at = error.at.min(text.len());
        self.record_uncertainty(
            here,
            SourceSpan { start: at, end: text.len() },
            kind,
            error.to_string(),
        );
        // From the error's line on: what stands before it was parsed, and is judged as such.
        let from = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let rest = text.get(from..).unwrap_or(text);
        let unparsed = self.analysis.unparsed.get_or_insert_with(String::new);
        unparsed.push_str(rest);
        unparsed.push('\n');
    }

    fn walk_list(
        &mut self,
        list: &CommandList,
        here: NodeContext,
        state: ShellState,
    ) -> ExitStates {
        let mut after = ExitStates::from_single(state);
        // The shell's own state while a list such as `a && b &` is followed, which runs in another.
        let mut own: Option<ShellState> = None;
        for item in &list.items {
            after = match item.joint {
                ListOperator::Then => {
                    let before = own.take().unwrap_or_else(|| after.merge());
                    own = item.background.then(|| before.clone());
                    self.walk_item(item, here, before)
                }
                ListOperator::And => {
                    let now = self.walk_item(item, here, after.succeeded);
                    ExitStates { failed: after.failed.merge(&now.failed), succeeded: now.succeeded }
                }
                ListOperator::Or => {
                    let now = self.walk_item(item, here, after.failed);
                    ExitStates {
                        succeeded: after.succeeded.merge(&now.succeeded),
                        failed: now.failed,
                    }
                }
            };
        }
        own.map_or(after, ExitStates::from_single)
    }

    fn walk_item(&mut self, item: &ListItem, here: NodeContext, state: ShellState) -> ExitStates {
        let after = self.walk_pipeline(&item.pipeline, here, state);
        // `!` turns it round, and may stand there twice.
        if item.pipeline.negated { ExitStates::from_single(after.merge()) } else { after }
    }

    fn walk_command(
        &mut self,
        command: &ShellCommand,
        here: NodeContext,
        state: ShellState,
        input: StdinSource,
    ) -> ExitStates {
        self.depth += 1;
        let after = if self.depth > DEPTH_MAX {
            self.record_too_deep(here, command.span);
            ExitStates::from_single(state)
        } else if self.analysis.nodes.len() > NODES_MAX {
            self.record_too_much(here);
            ExitStates::from_single(state)
        } else {
            self.walk_compound_command(command, here, state, input)
        };
        self.depth -= 1;
        after
    }

    fn record_too_deep(&mut self, here: NodeContext, span: SourceSpan) {
        let reason = format!("commands are nested more than {DEPTH_MAX} levels deep");
        self.record_uncertainty(here, span, UncertaintyKind::Unbounded, reason);
    }

    fn record_too_much(&mut self, here: NodeContext) {
        let already = self.analysis.nodes.last().is_some_and(|node| node.label == TOO_LARGE);
        if !already {
            self.record_uncertainty(
                here,
                SourceSpan::default(),
                UncertaintyKind::Unbounded,
                TOO_LARGE.to_owned(),
            );
        }
    }

    /// Opens what the redirections name; the input they give, if they give one.
    fn walk_redirections(
        &mut self,
        redirects: &[Redirection],
        here: NodeContext,
        state: &mut ShellState,
    ) -> Option<StdinSource> {
        let mut input = None;
        for redirect in redirects {
            let span = redirect.span;
            if let Some(name) = &redirect.variable {
                self.check_assigned_variable(name, span, here);
                state.set(name, VariableValue::Number);
            }
            let accesses: &[FileAccess] = match redirect.kind {
                RedirectionKind::Read => &[FileAccess::Read],
                RedirectionKind::Write => &[FileAccess::Write],
                RedirectionKind::ReadWrite => &[FileAccess::Read, FileAccess::Write],
                RedirectionKind::Duplicate => {
                    self.walk_word(&redirect.target, here, state);
                    continue;
                }
                RedirectionKind::HereDocument | RedirectionKind::HereString => {
                    self.walk_word_parts(&redirect.target, here, state);
                    input = Some(StdinSource::Texts(vec![self.expand_input_text(redirect, state)]));
                    continue;
                }
            };
            let mut paths = self.walk_word(&redirect.target, here, state);
            let target = std::slice::from_ref(&redirect.target);
            paths
                .extend(self.expand_with_guesses(target, &paths, false, state).unwrap_or_default());
            for path in paths {
                for access in accesses {
                    self.record_file(*access, &path, false, true, state, here, span);
                }
            }
            if redirect.kind != RedirectionKind::Write {
                input = Some(StdinSource::Piped(PipedOutput::default()));
            }
        }
        input
    }

    fn walk_simple_command(
        &mut self,
        simple: &SimpleCommand,
        span: SourceSpan,
        here: NodeContext,
        mut state: ShellState,
        input: &StdinSource,
    ) -> ExitStates {
        let mut argv = Vec::new();
        // How many words at the start may turn out to be none.
        let mut vanishing = 0;
        let mut listed = Vec::new();
        let declares = self.is_declaration(simple);
        for word in &simple.words {
            let arguments = self.walk_word(word, here, &mut state);
            let arguments =
                self.expand_declared(word, &state).filter(|_| declares).unwrap_or(arguments);
            let all_before = argv.len() == vanishing;
            if let ([only], Some(folders)) = (&arguments[..], self.find_listed_names(word, &state))
            {
                listed.push((only.clone(), folders));
            }
            argv.extend(arguments);
            if all_before && may_expand_to_nothing(word) {
                vanishing = argv.len();
            }
        }
        let guess = self.expand_with_guesses(&simple.words, &argv, declares, &state);
        // `IFS= read` says how this one `read` splits its line, and is forgotten after it.
        let reads = argv.first().and_then(ShellArg::as_known) == Some("read")
            && state.function("read").is_none();
        for assignment in &simple.assignments {
            self.walk_assignment(assignment, argv.is_empty(), here, &mut state);
            if !(reads && assignment.name == "IFS") {
                self.check_assigned_variable(&assignment.name, assignment.span, here);
            }
        }
        if argv.is_empty() {
            return ExitStates::from_single(state);
        }
        let here = NodeContext { span: here.span.or(Some(span)), ..here };
        // What is only guessed is no reason to allow anything, but reason enough to deny it.
        if let Some(guess) = guess {
            self.invoke(guess, false, &state, here, input);
        }
        self.listed = listed;
        // `$x rm y` runs `rm` when `$x` turns out to be empty.
        if let Some(rest) = argv.get(vanishing..).filter(|rest| vanishing > 0 && !rest.is_empty()) {
            self.invoke(rest.to_vec(), false, &state, here, input);
        }
        let after = self.run_in_shell(argv, state, here, input);
        self.listed.clear();
        after
    }

    #[expect(clippy::too_many_arguments, reason = "all that is known of a file that is touched")]
    fn record_file(
        &mut self,
        access: FileAccess,
        path: &ShellArg,
        recursive: bool,
        redirected: bool,
        state: &ShellState,
        here: NodeContext,
        span: SourceSpan,
    ) {
        if redirected && let Some(address) = path.as_known().and_then(parse_socket_address) {
            let label = format!("connect to {address}");
            self.add_node(here, span, &label, AnalysisNodeKind::Host(ShellArg::known(address)));
            return;
        }
        let verb = match access {
            FileAccess::Read => "read",
            FileAccess::Write => "write",
            FileAccess::Delete => "delete",
        };
        let folders = state.folders.clone();
        let file = FileUse { access, path: path.clone(), folders, recursive, redirected };
        self.add_node(here, span, &format!("{verb} {path}"), AnalysisNodeKind::File(file));
    }

    fn record_uncertainty(
        &mut self,
        here: NodeContext,
        span: SourceSpan,
        kind: UncertaintyKind,
        reason: String,
    ) {
        let label = reason.clone();
        self.add_node(
            here,
            span,
            &label,
            AnalysisNodeKind::Uncertainty(Uncertainty { reason, kind }),
        );
    }

    fn add_node(
        &mut self,
        here: NodeContext,
        span: SourceSpan,
        label: &str,
        kind: AnalysisNodeKind,
    ) -> usize {
        let label = match label.char_indices().nth(LABEL_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &label[..end]),
            None => label.to_owned(),
        };
        let span = here.span.unwrap_or(span);
        self.analysis.nodes.push(AnalysisNode { parent: here.parent, label, span, kind });
        self.analysis.nodes.len() - 1
    }
}

impl VariableValue {
    fn from_arg(arg: &ShellArg) -> Self {
        match arg {
            ShellArg::Known(text) => Self::Known(text.clone()),
            ShellArg::Pattern(pattern) => Self::Pattern(pattern.clone()),
            ShellArg::Unknown { .. } => Self::Unknown,
        }
    }
}

/// `/dev/tcp/host/port`: a file to nobody but the shell, which connects instead.
fn parse_socket_address(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/"))?;
    Some(rest.split('/').next().unwrap_or(rest))
}
