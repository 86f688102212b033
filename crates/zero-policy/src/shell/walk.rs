//! Walks the tree of a script and collects its effects: every command that may run, its folders and
//! files.
//!
//! The walk follows the shell: changes in a subshell are dropped, `&&` continues with the state
//! after success, a loop's body may have run before. Where two paths join, both states are kept.
//! A construct that cannot be followed becomes an [`Uncertainty`], so a script without one is fully
//! understood.

mod arithmetic;
mod array_values;
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
use super::variables::VariableEffect;
use crate::program::{FileAccess, FileTouch, PackageManager};
use array_values::{ArrayNames, is_list_word};
use shell_dialect::ShellDialect;
use words::{arithmetic_words, may_expand_to_nothing};

/// Deepest nesting that is followed: groups, substitutions, wrappers, inner scripts. Deeper nesting
/// makes the whole line unbounded.
const DEPTH_MAX: usize = 150;
/// Most values of a `for` loop that are analyzed one by one.
const LOOP_VALUES_MAX: usize = 8;
/// Number of nodes after which loops are no longer analyzed value by value.
const LOOP_NODES_MAX: usize = 50_000;
/// Number of nodes after which nothing more is followed.
const NODES_MAX: usize = 100_000;
/// Most bytes of inner scripts that are parsed, in total.
const INNER_BYTES_MAX: usize = 1024 * 1024;
/// Most inner scripts that are parsed, in total.
const SCRIPTS_MAX: usize = 4_000;
/// Most words of commands that are analyzed, in total; those of a wrapper count again inside it.
const WORDS_MAX: usize = 1_000_000;
/// Most texts of a pipeline that are tracked. A shell that reads one is uncertain in any case.
const PIPED_TEXTS_MAX: usize = 8;
/// Longest label of a node, in characters.
const LABEL_CHARS_MAX: usize = 240;

/// Why a script is not followed to its end.
const TOO_LARGE: &str = "it has too many commands to check";

/// Analyzes a script that runs in `folder`.
pub fn analyze_script(text: &str, folder: &Path, home: Option<&Path>) -> ScriptAnalysis {
    analyze_command_line(text, folder, home, None)
}

/// The same for a script whose `TMPDIR` is `temp`, if that is known.
pub(crate) fn analyze_command_line(
    text: &str,
    folder: &Path,
    home: Option<&Path>,
    temp: Option<&Path>,
) -> ScriptAnalysis {
    let state = ShellState::new(folder).with_temp(temp);
    walk_script(text, state, ScriptWalker::new(home))
}

/// Analyzes a script under the assumption that the shell can enter the folders for which
/// `is_folder` returns true. Correct only for a script that changes nothing.
pub(crate) fn analyze_reading_script<'a>(
    text: &'a str,
    folder: &Path,
    home: Option<&'a Path>,
    temp: Option<&Path>,
    is_folder: &'a dyn Fn(&Path) -> bool,
) -> ScriptAnalysis {
    walk_script(
        text,
        ShellState::new(folder).with_temp(temp),
        ScriptWalker { is_folder: Some(is_folder), ..ScriptWalker::new(home) },
    )
}

fn walk_script<'a>(
    text: &'a str,
    mut state: ShellState,
    mut walker: ScriptWalker<'a>,
) -> ScriptAnalysis {
    let context = NodeContext { parent: None, span: None };
    walker.walk_text(text, None, context, &mut state);
    walker.walk_traps(&state);
    walker.check_unknown_values();
    if state.is_exhausted() {
        walker.record_too_much(context);
    }
    walker.finish()
}

/// Analyzes a program that runs without a shell.
pub(crate) fn analyze_program(
    argv: &[String],
    folder: &Path,
    home: Option<&Path>,
) -> ScriptAnalysis {
    let mut walker = ScriptWalker::new(home);
    let state = ShellState::new(folder);
    let argv: Vec<ShellArg> = argv.iter().map(ShellArg::known).collect();
    let context = NodeContext { parent: None, span: Some(SourceSpan::default()) };
    walker.invoke(argv, false, &state, context, &StdinSource::Nothing);
    walker.walk_traps(&state);
    walker.check_unknown_values();
    walker.finish()
}

/// The position of a new node in the result.
#[derive(Clone, Copy, Debug)]
struct NodeContext {
    /// Its parent.
    parent: Option<usize>,
    /// The position of everything inside an inner script; `None` in the given text.
    span: Option<SourceSpan>,
}

impl NodeContext {
    fn with_parent(self, parent: usize) -> Self {
        Self { parent: Some(parent), ..self }
    }
}

/// The standard input of a command.
#[derive(Clone, Debug)]
enum StdinSource {
    /// Not set by the script.
    Nothing,
    /// Exactly these texts.
    Texts(Vec<ShellArg>),
    /// The output of other commands of the pipeline.
    Piped(PipedOutput),
}

/// The output of the commands of a pipeline, as far as known.
#[derive(Clone, Debug, Default)]
struct PipedOutput {
    /// Texts that it contains.
    texts: Vec<ShellArg>,
    /// The folders of the files, if it consists of file names only.
    names: Option<Vec<ShellArg>>,
}

struct ScriptWalker<'a> {
    home: Option<&'a Path>,
    /// Whether the shell can enter a folder, if that is known.
    is_folder: Option<&'a dyn Fn(&Path) -> bool>,
    analysis: ScriptAnalysis,
    depth: usize,
    /// Bytes of inner scripts parsed so far.
    inner_bytes: usize,
    /// Scripts parsed so far.
    scripts: usize,
    /// Words of commands analyzed so far.
    words: usize,
    /// Scripts that `trap` runs later, in any folder of the shell.
    trapped: Vec<TrapHandler>,
    /// Whether some shell has changed its folder.
    moved: bool,
    /// The shell that reads the current text.
    dialect: ShellDialect,
    /// The current text, to show words as written.
    source: &'a str,
    /// Arguments of the current command that are file names, and the folders of the files.
    listed: Vec<(ShellArg, Vec<ShellArg>)>,
    /// Positions of the arguments of the current declaration that are lists in the source, and how
    /// they are written.
    declared_lists: Vec<(usize, &'a str)>,
    /// Names that may be arrays.
    arrays: ArrayNames,
    /// Names that are functions somewhere, so that they may not mean the program.
    functions: HashSet<String>,
    /// Names that functions and traps call and that were not functions then.
    called: HashSet<String>,
    /// Function bodies analyzed so far.
    bodies: usize,
    /// Whether a function's body is being analyzed.
    in_body: bool,
    /// Whether a variable of unknown effect is set for the current command and what it runs.
    altered_environment: bool,
    /// Registries of package managers that variables name.
    registries: Vec<(PackageManager, String)>,
    /// Whether one is exported somewhere. It counts for the whole script: a function may be called
    /// later.
    exports: bool,
}

/// A script that a shell runs later.
#[derive(Clone, Debug)]
struct TrapHandler {
    text: ShellArg,
    context: NodeContext,
    state: ShellState,
    dialect: ShellDialect,
}

/// The states of the shell after something that may fail.
struct ExitStates {
    succeeded: ShellState,
    failed: ShellState,
    /// Whether it does not fail. Commands that would run after a failure are analyzed all the same.
    certain: bool,
}

impl ExitStates {
    fn from_single(state: ShellState) -> Self {
        Self { failed: state.clone(), succeeded: state, certain: false }
    }

    fn merge(self) -> ShellState {
        // If both are the same, keep only one, so that it can be changed in place.
        if self.certain || self.succeeded.is_same(&self.failed) {
            return self.succeeded;
        }
        self.succeeded.merge(&self.failed)
    }
}

impl<'a> ScriptWalker<'a> {
    fn new(home: Option<&'a Path>) -> Self {
        Self {
            home,
            is_folder: None,
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
            declared_lists: Vec::new(),
            arrays: ArrayNames::default(),
            functions: HashSet::new(),
            called: HashSet::new(),
            bodies: 0,
            in_body: false,
            altered_environment: false,
            registries: Vec::new(),
            exports: false,
        }
    }

    fn finish(mut self) -> ScriptAnalysis {
        if self.exports {
            self.analysis.distrust_environment();
        }
        self.analysis
    }

    /// Analyzes a text as the shell would run it, in `state`.
    fn walk_text(
        &mut self,
        text: &str,
        label: Option<&str>,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        self.inner_bytes += text.len();
        self.scripts += 1;
        let much = self.inner_bytes > INNER_BYTES_MAX || self.scripts > SCRIPTS_MAX;
        if label.is_some() && much {
            self.record_too_much(context);
            return;
        }
        self.check_dialect(text, context);
        let parsed = super::parse(text);
        let node_context = match label {
            Some(label) => context.with_parent(self.add_node(
                context,
                SourceSpan::default(),
                label,
                AnalysisNodeKind::Structure,
            )),
            None => context,
        };
        // The walker borrows the text while it follows it; inner texts live shorter.
        let mut inner = ScriptWalker {
            home: self.home,
            is_folder: self.is_folder,
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
            declared_lists: Vec::new(),
            arrays: std::mem::take(&mut self.arrays),
            functions: std::mem::take(&mut self.functions),
            called: std::mem::take(&mut self.called),
            bodies: self.bodies,
            in_body: self.in_body,
            altered_environment: self.altered_environment,
            registries: self.registries.clone(),
            exports: self.exports,
        };
        // All of them in advance: a function may be called before the line that defines another
        // one.
        inner.functions.extend(printed_names::find_defined_functions(text).map(str::to_owned));
        inner.arrays.insert_subscripted(text);
        let after = inner.walk_list(&parsed.list, node_context, state.clone());
        *state = after.merge();
        if let Some(error) = parsed.error {
            inner.record_unparsed(text, &error, node_context);
        }
        self.analysis = inner.analysis;
        self.arrays = inner.arrays;
        self.functions = inner.functions;
        self.called = inner.called;
        self.bodies = inner.bodies;
        self.exports = inner.exports;
        self.inner_bytes = inner.inner_bytes;
        self.scripts = inner.scripts;
        self.words = inner.words;
        self.trapped = inner.trapped;
        self.moved = inner.moved;
    }

    /// Analyzes trapped scripts: they run at the end or at any time, with any values of the
    /// variables, in any folder of the shell.
    fn walk_traps(&mut self, state: &ShellState) {
        let mut next = 0;
        // A trap may set another one.
        while let Some(TrapHandler { text, context: here, state: set, dialect }) =
            self.trapped.get(next).cloned()
        {
            self.dialect = dialect;
            let mut at = set.without_variables();
            at.folders = if self.moved { WorkingFolders::Unknown } else { state.folders.clone() };
            self.walk_inner_script(&text, here, &mut at);
            next += 1;
        }
    }

    fn record_unparsed(
        &mut self,
        text: &str,
        error: &super::ShellSyntaxError,
        context: NodeContext,
    ) {
        let kind = if error.is_too_deep() {
            UncertaintyKind::Unbounded
        } else {
            UncertaintyKind::Unresolved
        };
        let at = error.at.min(text.len());
        self.record_uncertainty(
            context,
            SourceSpan { start: at, end: text.len() },
            kind,
            format!("the command cannot be parsed: {error}"),
        );
        // From the line of the error on: the lines before it were parsed and are evaluated as such.
        let from = text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let rest = text.get(from..).unwrap_or(text);
        let unparsed = self.analysis.unparsed.get_or_insert_with(String::new);
        unparsed.push_str(rest);
        unparsed.push('\n');
    }

    fn walk_list(
        &mut self,
        list: &CommandList,
        context: NodeContext,
        state: ShellState,
    ) -> ExitStates {
        let mut after = ExitStates::from_single(state);
        // The shell's own state while a background list such as `a && b &` runs in another one.
        let mut own: Option<ShellState> = None;
        for item in &list.items {
            after = match item.joint {
                ListOperator::Then => {
                    let before = own.take().unwrap_or_else(|| after.merge());
                    own = item.background.then(|| before.clone());
                    self.walk_item(item, context, before)
                }
                ListOperator::And => {
                    let now = self.walk_item(item, context, after.succeeded);
                    ExitStates {
                        failed: after.failed.merge(&now.failed),
                        succeeded: now.succeeded,
                        certain: after.certain && now.certain,
                    }
                }
                ListOperator::Or => {
                    let now = self.walk_item(item, context, after.failed);
                    ExitStates {
                        succeeded: after.succeeded.merge(&now.succeeded),
                        failed: now.failed,
                        certain: false,
                    }
                }
            };
        }
        own.map_or(after, ExitStates::from_single)
    }

    fn walk_item(
        &mut self,
        item: &ListItem,
        context: NodeContext,
        state: ShellState,
    ) -> ExitStates {
        let after = self.walk_pipeline(&item.pipeline, context, state);
        // `!` inverts the exit status, and may occur twice.
        if item.pipeline.negated { ExitStates::from_single(after.merge()) } else { after }
    }

    fn walk_command(
        &mut self,
        command: &ShellCommand,
        context: NodeContext,
        state: ShellState,
        input: StdinSource,
    ) -> ExitStates {
        self.depth += 1;
        let after = if self.depth > DEPTH_MAX {
            self.record_too_deep(context, command.span);
            ExitStates::from_single(state)
        } else if self.analysis.nodes.len() > NODES_MAX {
            self.record_too_much(context);
            ExitStates::from_single(state)
        } else {
            self.walk_compound_command(command, context, state, input)
        };
        self.depth -= 1;
        after
    }

    fn record_too_deep(&mut self, context: NodeContext, span: SourceSpan) {
        let reason = format!("commands are nested more than {DEPTH_MAX} levels deep");
        self.record_uncertainty(context, span, UncertaintyKind::Unbounded, reason);
    }

    fn record_too_much(&mut self, context: NodeContext) {
        let already = self.analysis.nodes.last().is_some_and(|node| node.label == TOO_LARGE);
        if !already {
            self.record_uncertainty(
                context,
                SourceSpan::default(),
                UncertaintyKind::Unbounded,
                TOO_LARGE.to_owned(),
            );
        }
    }

    /// Opens the targets of redirections; returns the standard input, if they set one.
    fn walk_redirections(
        &mut self,
        redirects: &[Redirection],
        context: NodeContext,
        state: &mut ShellState,
    ) -> Option<StdinSource> {
        let mut input = None;
        for redirect in redirects {
            let span = redirect.span;
            if let Some(name) = &redirect.variable {
                self.check_assigned_variable(name, span, context);
                state.set(name, VariableValue::Number);
            }
            let accesses: &[FileAccess] = match redirect.kind {
                RedirectionKind::Read => &[FileAccess::Read],
                RedirectionKind::Write => &[FileAccess::Write],
                RedirectionKind::ReadWrite => &[FileAccess::Read, FileAccess::Write],
                RedirectionKind::Duplicate => {
                    self.walk_word(&redirect.target, context, state);
                    continue;
                }
                RedirectionKind::HereDocument | RedirectionKind::HereString => {
                    self.walk_word_parts(&redirect.target, context, state);
                    input = Some(StdinSource::Texts(vec![self.expand_input_text(redirect, state)]));
                    continue;
                }
            };
            let mut paths = self.walk_word(&redirect.target, context, state);
            let target = std::slice::from_ref(&redirect.target);
            paths
                .extend(self.expand_with_guesses(target, &paths, false, state).unwrap_or_default());
            for path in paths {
                for access in accesses {
                    let touch = FileTouch { access: *access, path: path.clone(), recursive: false };
                    self.record_file(
                        FileUse::new(touch, state.folders.clone(), true),
                        context,
                        span,
                    );
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
        context: NodeContext,
        mut state: ShellState,
        input: &StdinSource,
    ) -> ExitStates {
        let mut argv = Vec::new();
        // How many words at the start may expand to nothing.
        let mut vanishing = 0;
        let mut listed = Vec::new();
        let mut lists = Vec::new();
        let declares = self.is_declaration(simple);
        for word in &simple.words {
            let arguments = self.walk_word(word, context, &mut state);
            let arguments =
                self.expand_declared(word, &state).filter(|_| declares).unwrap_or(arguments);
            let all_before = argv.len() == vanishing;
            if let ([only], Some(folders)) = (&arguments[..], self.find_listed_names(word, &state))
            {
                listed.push((only.clone(), folders));
            }
            if is_list_word(word) {
                lists.push((argv.len(), self.source_text(word)));
            }
            argv.extend(arguments);
            if all_before && may_expand_to_nothing(word) {
                vanishing = argv.len();
            }
        }
        let guess = self.expand_with_guesses(&simple.words, &argv, declares, &state);
        // `IFS= read` only affects how this `read` splits its line.
        let reads = argv.first().and_then(ShellArg::as_known) == Some("read")
            && state.function("read").is_none();
        let around = self.altered_environment;
        for assignment in &simple.assignments {
            self.walk_assignment(assignment, argv.is_empty(), context, &mut state);
            let (name, value) = (&assignment.name, self.assigned_value(assignment, &state));
            if !(reads && name == "IFS") {
                self.check_assigned_value(name, value.as_ref(), assignment.span, context);
            }
            self.altered_environment |=
                VariableEffect::new(name, value.as_ref()) == VariableEffect::Unknown;
        }
        if argv.is_empty() {
            self.altered_environment = around;
            return ExitStates::from_single(state);
        }
        let is_function = |name: &str| self.functions.contains(name);
        self.exports |= self.altered_environment
            && argv.first().and_then(ShellArg::as_known).is_none_or(is_function);
        let node_context = NodeContext { span: context.span.or(Some(span)), ..context };
        // A guess never allows a command, but can deny it.
        if let Some(guess) = guess {
            self.invoke(guess, false, &state, node_context, input);
        }
        self.listed = listed;
        self.declared_lists = lists;
        // `$x rm y` runs `rm` if `$x` is empty.
        if let Some(rest) = argv.get(vanishing..).filter(|rest| vanishing > 0 && !rest.is_empty()) {
            self.invoke(rest.to_vec(), false, &state, node_context, input);
        }
        let after = self.run_in_shell(argv, state, node_context, input);
        self.listed.clear();
        self.declared_lists.clear();
        self.altered_environment = around;
        after
    }

    /// Adds the folders that globs list, for words that are no arguments of a command.
    fn record_listed_folders(
        &mut self,
        words: &[ShellArg],
        state: &ShellState,
        context: NodeContext,
    ) {
        let span = context.span.unwrap_or_default();
        for folder in words.iter().filter_map(ShellArg::listed_folder) {
            let touch = FileTouch { access: FileAccess::Read, path: folder, recursive: false };
            self.record_file(FileUse::new(touch, state.folders.clone(), false), context, span);
        }
    }

    fn record_file(&mut self, file: FileUse, context: NodeContext, span: SourceSpan) {
        let address = file.path.as_known().filter(|_| file.redirected);
        if let Some(address) = address.and_then(parse_socket_address) {
            let label = format!("connect to {address}");
            self.add_node(context, span, &label, AnalysisNodeKind::Host(ShellArg::known(address)));
            return;
        }
        let verb = match file.access {
            FileAccess::Read => "read",
            FileAccess::Write => "write",
            FileAccess::Delete => "delete",
        };
        let label = format!("{verb} {}", file.path);
        self.add_node(context, span, &label, AnalysisNodeKind::File(file));
    }

    fn record_uncertainty(
        &mut self,
        context: NodeContext,
        span: SourceSpan,
        kind: UncertaintyKind,
        reason: String,
    ) {
        let label = reason.clone();
        self.add_node(
            context,
            span,
            &label,
            AnalysisNodeKind::Uncertainty(Uncertainty { reason, kind }),
        );
    }

    fn add_node(
        &mut self,
        context: NodeContext,
        span: SourceSpan,
        label: &str,
        kind: AnalysisNodeKind,
    ) -> usize {
        let label = match label.char_indices().nth(LABEL_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &label[..end]),
            None => label.to_owned(),
        };
        let span = context.span.unwrap_or(span);
        self.analysis.nodes.push(AnalysisNode { parent: context.parent, label, span, kind });
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

/// `/dev/tcp/host/port`: the shell connects instead of opening a file.
fn parse_socket_address(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/"))?;
    Some(rest.split('/').next().unwrap_or(rest))
}
