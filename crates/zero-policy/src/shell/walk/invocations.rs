//! Commands, and the commands that they run.

use super::super::analysis::{AnalysisNodeKind, CommandInvocation, FileUse, UncertaintyKind};
use super::super::arg::ShellArg;
use super::super::ast::{ShellCommandKind, SourceSpan, WordPart};
use super::super::shell_state::{ShellState, VariableValue};
use super::super::variables::VariableEffect;
use super::shell_dialect::ShellDialect;
use super::{DEPTH_MAX, NODES_MAX, NodeContext, PipedOutput, ScriptWalker, StdinSource, WORDS_MAX};
use crate::program::{self, CommandAnalysis, FileAccess, FileTouch, NestedExecution};
use crate::word_list::words;

/// Most words of its input that a command is analyzed with.
const INPUT_WORDS_MAX: usize = 64;
/// The placeholder of `find` for a found name.
const FOUND_PLACEHOLDER: &str = "{}";

impl ScriptWalker<'_> {
    /// Adds a command, with its effects and everything that it runs.
    pub(super) fn invoke(
        &mut self,
        argv: Vec<ShellArg>,
        more_arguments: bool,
        state: &ShellState,
        context: NodeContext,
        input: &StdinSource,
    ) {
        self.invoke_with_names(argv, more_arguments, None, state, context, input);
    }

    /// Adds a command, without what it runs. Returns its node.
    pub(super) fn invoke_only(
        &mut self,
        argv: Vec<ShellArg>,
        state: &ShellState,
        context: NodeContext,
    ) -> usize {
        let analysis = CommandAnalysis { runs: Vec::new(), ..program::analyze(&argv) };
        self.add_command_node(argv, false, analysis, state, context)
    }

    fn invoke_with_names(
        &mut self,
        mut argv: Vec<ShellArg>,
        more_arguments: bool,
        names: Option<&[ShellArg]>,
        state: &ShellState,
        context: NodeContext,
        input: &StdinSource,
    ) {
        let span = context.span.unwrap_or_default();
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.record_too_deep(context, span);
            self.depth -= 1;
            return;
        }
        self.words += argv.len();
        if self.words > WORDS_MAX || self.analysis.nodes.len() > NODES_MAX {
            self.record_too_much(context);
            self.depth -= 1;
            return;
        }
        if more_arguments {
            argv.push(found_placeholder());
        }
        let mut analysis = program::analyze(&argv);
        if let Some(names) = names {
            analysis.touches = substitute_found_folders(analysis.touches, names);
        }
        let roots: Vec<ShellArg> = analysis
            .touches
            .iter()
            .filter(|touch| touch.access == FileAccess::Read && touch.recursive)
            .map(|touch| touch.path.clone())
            .collect();
        let runs = std::mem::take(&mut analysis.runs);
        let around = self.dialect;
        let program = argv.first().and_then(ShellArg::as_known).unwrap_or_default();
        self.dialect = ShellDialect::for_program(program, around);
        let finds = finds_files(program);
        let sets_options = sets_shell_options(program, &argv);
        let argument = if is_shell(program) { argv.clone() } else { Vec::new() };
        // With `-a` it reads the names from that file instead.
        let takes_names =
            program.rsplit('/').next() == Some("xargs") && analysis.touches.is_empty();
        let in_this_shell = matches!(program, "command" | "builtin" | "exec");
        let node = self.add_command_node(argv, more_arguments, analysis, state, context);
        let node_context = context.with_parent(node);
        if sets_options {
            let reason = "it changes how the shell reads its commands".to_owned();
            self.record_uncertainty(node_context, span, UncertaintyKind::Unresolved, reason);
        }
        for run in runs {
            if let NestedExecution::Command { argv, .. } = &run
                && let Some(ShellArg::Known(inner)) = argv.first()
                && is_shell_only(inner)
                && !in_this_shell
            {
                let reason = format!("`{inner}` is part of a shell; what runs here is not known");
                self.record_uncertainty(node_context, span, UncertaintyKind::Unresolved, reason);
            }
            let names = match input {
                _ if finds => Some(roots.as_slice()),
                StdinSource::Piped(PipedOutput { names: Some(names), .. }) if takes_names => {
                    Some(&names[..])
                }
                _ => None,
            };
            let state = match &run {
                NestedExecution::Script { text, .. } => {
                    set_script_arguments(text, &argument, state)
                }
                _ => state.clone(),
            };
            self.walk_nested_execution(run, names, &state, node_context, span, input);
        }
        self.dialect = around;
        self.depth -= 1;
    }

    fn walk_nested_execution(
        &mut self,
        run: NestedExecution,
        names: Option<&[ShellArg]>,
        state: &ShellState,
        context: NodeContext,
        span: SourceSpan,
        input: &StdinSource,
    ) {
        match run {
            NestedExecution::Command { argv, variables, folder, more_arguments } => {
                let around = self.altered_environment;
                for (name, value) in &variables {
                    self.check_assigned_value(name, Some(value), span, context);
                    self.check_deferred_evaluation(value, span, context);
                    self.altered_environment |=
                        VariableEffect::new(name, Some(value)) == VariableEffect::Unknown;
                }
                let state = self.state_in_folder(folder.as_ref(), state);
                if !argv.is_empty() {
                    if more_arguments {
                        self.invoke_with_input(&argv, &state, context, input);
                    }
                    self.invoke_with_names(argv, more_arguments, names, &state, context, input);
                }
                self.altered_environment = around;
            }
            NestedExecution::Script { text, folder } => {
                let mut state = self.state_in_folder(folder.as_ref(), state).for_child_process();
                self.walk_inner_script(&text, context, &mut state);
            }
            NestedExecution::ScriptFromInput => {
                self.walk_script_from_input(input, state, context, span)
            }
            NestedExecution::Unknown(why) => {
                self.record_uncertainty(context, span, UncertaintyKind::Unresolved, why.to_owned());
            }
        }
    }

    /// Analyzes a command that gets arguments from its input, with the known ones.
    fn invoke_with_input(
        &mut self,
        argv: &[ShellArg],
        state: &ShellState,
        context: NodeContext,
        input: &StdinSource,
    ) {
        let texts = match input {
            StdinSource::Nothing => &[][..],
            StdinSource::Texts(texts) => &texts[..],
            StdinSource::Piped(piped) => &piped.texts[..],
        };
        for text in texts.iter().filter_map(ShellArg::as_known) {
            let words = text.split_whitespace().take(INPUT_WORDS_MAX).map(ShellArg::known);
            let whole: Vec<ShellArg> = argv.iter().cloned().chain(words).collect();
            if whole.len() > argv.len() {
                self.invoke_with_names(whole, false, None, state, context, &StdinSource::Nothing);
            }
        }
    }

    /// Analyzes the script of an inner shell.
    pub(super) fn walk_inner_script(
        &mut self,
        text: &ShellArg,
        context: NodeContext,
        state: &mut ShellState,
    ) {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            self.record_too_deep(context, context.span.unwrap_or_default());
        } else if let ShellArg::Known(text) = text {
            self.walk_text(text, Some("script"), context, state);
        } else {
            let span = context.span.unwrap_or_default();
            let reason = format!("the script `{text}` is only known when it runs");
            self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
            // The known part is evaluated anyway: it may be denied.
            let written = match text {
                ShellArg::Unknown { written, .. } => written.as_str(),
                ShellArg::Known(text) | ShellArg::Pattern(text) => text,
            };
            // It may be the text itself, with a name inserted, or its source, which the shell
            // expands first.
            let source = build_script_template(written);
            let is_same = source.as_deref().is_some_and(|text| text.trim() == written.trim());
            let text = (!is_same).then(|| written.to_owned());
            for reading in source.into_iter().chain(text) {
                self.walk_text(&reading, Some("script"), context, &mut state.without_variables());
            }
        }
        self.depth -= 1;
    }

    fn walk_script_from_input(
        &mut self,
        input: &StdinSource,
        state: &ShellState,
        context: NodeContext,
        span: SourceSpan,
    ) {
        let (texts, certain) = match input {
            StdinSource::Nothing => (&[][..], false),
            StdinSource::Texts(texts) => (&texts[..], true),
            StdinSource::Piped(piped) => (&piped.texts[..], false),
        };
        for text in texts {
            self.walk_inner_script(text, context, &mut state.for_child_process());
        }
        if !certain {
            let reason = "it runs commands that it reads from its input".to_owned();
            self.record_uncertainty(context, span, UncertaintyKind::Unresolved, reason);
        }
    }

    fn state_in_folder(&self, folder: Option<&ShellArg>, state: &ShellState) -> ShellState {
        let folders = match folder {
            None => state.folders.clone(),
            // `..` leads to the real parent of the folder, not to the parent in its name.
            Some(ShellArg::Known(path)) if !path.split('/').any(|part| part == "..") => {
                state.folders.enter(path)
            }
            Some(_) => super::super::analysis::WorkingFolders::Unknown,
        };
        let mut moved = state.clone();
        moved.folders = folders;
        moved
    }

    /// Adds the node of a command with its files, hosts and uncertainties.
    fn add_command_node(
        &mut self,
        argv: Vec<ShellArg>,
        more_arguments: bool,
        analysis: CommandAnalysis,
        state: &ShellState,
        context: NodeContext,
    ) -> usize {
        let span = context.span.unwrap_or_default();
        let label = argv.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let state = self.state_in_folder(analysis.folder.as_ref(), state);
        let unknown = argv.first().is_some_and(|program| program.as_known().is_none());
        let (touches, hosts) = (analysis.touches.clone(), analysis.hosts.clone());
        let caution = analysis.caution.clone();
        let mut invocation = CommandInvocation {
            argv,
            analysis,
            folders: state.folders.clone(),
            more_arguments,
            registries: self.registries.clone(),
        };
        if self.altered_environment {
            invocation.distrust_environment();
        }
        let node =
            self.add_node(context, span, &label, AnalysisNodeKind::Command(Box::new(invocation)));
        let node_context = context.with_parent(node);
        if unknown {
            let reason = "the program is only known at run time".to_owned();
            self.record_uncertainty(node_context, span, UncertaintyKind::Unresolved, reason);
        }
        if let Some(caution) = caution {
            self.record_uncertainty(node_context, span, UncertaintyKind::Altered, caution);
        }
        for touch in touches {
            let folders = self.listed.iter().find(|(names, _)| *names == touch.path).cloned();
            match folders {
                Some((_, folders)) if touch.access == FileAccess::Read => {
                    for path in folders {
                        let listed = FileTouch { access: touch.access, path, recursive: true };
                        let file = FileUse::new(listed, state.folders.clone(), false);
                        self.record_file(file, node_context, span);
                    }
                }
                _ => {
                    let file = FileUse::new(touch, state.folders.clone(), false);
                    self.record_file(file, node_context, span);
                }
            }
        }
        for host in hosts {
            self.add_node(
                node_context,
                span,
                &format!("connect to {host}"),
                AnalysisNodeKind::Host(host.clone()),
            );
        }
        node
    }
}

/// The name that `find` or `xargs` inserts.
fn found_placeholder() -> ShellArg {
    ShellArg::Unknown { starts_with: String::new(), written: FOUND_PLACEHOLDER.to_owned() }
}

/// Replaces the placeholder of found names by the folders they are found in.
fn substitute_found_folders(touches: Vec<FileTouch>, names: &[ShellArg]) -> Vec<FileTouch> {
    let mut placed = Vec::new();
    for touch in touches {
        if is_found_placeholder(&touch.path) && !names.is_empty() {
            placed.extend(names.iter().map(|root| FileTouch {
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

/// Whether it is a found name, or another one in the same folder: `{}`, `{}.bak`. `/etc/{}` is not.
fn is_found_placeholder(path: &ShellArg) -> bool {
    let ShellArg::Unknown { written, .. } = path else { return false };
    written.strip_prefix(FOUND_PLACEHOLDER).is_some_and(|rest| !rest.contains(['/', '$', '`', '{']))
}

fn finds_files(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "find" | "fd" | "fdfind")
}

fn is_shell(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    matches!(name, "sh" | "bash" | "rbash" | "dash" | "zsh" | "ksh")
}

/// Sets the known arguments of a script in the state of its shell.
fn set_script_arguments(script: &ShellArg, argv: &[ShellArg], state: &ShellState) -> ShellState {
    let mut state = state.clone();
    let at = argv.iter().position(|arg| arg == script);
    if let Some([name, arguments @ ..]) = at.and_then(|at| argv.get(at + 1..)) {
        state.set("0", VariableValue::from_elements(std::slice::from_ref(name)));
        state.set("@", VariableValue::from_elements(arguments));
    }
    state
}

/// `bash -O dotglob`, `bash -o posix`: options can change the meaning of a script.
fn sets_shell_options(program: &str, argv: &[ShellArg]) -> bool {
    let mut takes_name = false;
    let args = argv.iter().skip(1).filter_map(ShellArg::as_known);
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

/// A script with unknown parts, which become a variable that is not set.
fn build_script_template(written: &str) -> Option<String> {
    let parsed = super::super::parse(written);
    let mut text = String::new();
    for item in &parsed.list.items {
        for command in &item.pipeline.commands {
            let ShellCommandKind::Simple(simple) = &command.kind else { continue };
            for word in &simple.words {
                for part in &word.parts {
                    match part {
                        WordPart::Text { text: known, .. } => text.push_str(known),
                        _ => text.push_str("$_"),
                    }
                }
                text.push(' ');
            }
        }
    }
    // A text that is completely unknown has no content.
    let says_something = text.replace("$_", "").chars().any(|char| !char.is_whitespace());
    says_something.then_some(text)
}

/// Commands that change the shell they run in, so they are always builtins.
fn is_shell_only(name: &str) -> bool {
    words!(
        "trap shopt set unset export declare local readonly typeset eval source . alias unalias \
         enable let mapfile readarray getopts cd pushd popd bind complete hash shift coproc"
    )
    .contains(&name)
}
