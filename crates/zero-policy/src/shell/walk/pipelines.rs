//! Pipelines: the output of one command is the input of the next.

use super::super::analysis::AnalysisNodeKind;
use super::super::arg::ShellArg;
use super::super::ast::{
    ListItem, Pipeline, Redirection, RedirectionKind, ShellCommand, ShellCommandKind, ShellWord,
    SourceSpan, WordPart,
};
use super::super::shell_state::ShellState;
use super::{
    ExitStates, NodeContext, PIPED_TEXTS_MAX, PipedOutput, ScriptWalker, StdinSource, printed_names,
};

impl ScriptWalker<'_> {
    pub(super) fn walk_pipeline(
        &mut self,
        pipeline: &Pipeline,
        context: NodeContext,
        state: ShellState,
    ) -> ExitStates {
        if let [only] = &pipeline.commands[..] {
            return self.walk_command(only, context, state, StdinSource::Nothing);
        }
        let span = match (pipeline.commands.first(), pipeline.commands.last()) {
            (Some(first), Some(last)) => SourceSpan { start: first.span.start, end: last.span.end },
            _ => SourceSpan::default(),
        };
        let node_context = context.with_parent(self.add_node(
            context,
            span,
            "pipeline",
            AnalysisNodeKind::Structure,
        ));
        let mut piped: Option<PipedOutput> = None;
        for command in &pipeline.commands {
            // Each command runs in a subshell.
            let input = piped.clone().map_or(StdinSource::Nothing, StdinSource::Piped);
            self.walk_command(command, node_context, state.clone(), input);
            piped = Some(self.find_piped_output(command, piped, &state));
        }
        ExitStates::from_single(state)
    }

    /// The output that a command passes to the next one of a pipeline.
    fn find_piped_output(
        &self,
        command: &ShellCommand,
        before: Option<PipedOutput>,
        state: &ShellState,
    ) -> PipedOutput {
        let is_text = |redirect: &&Redirection| {
            matches!(redirect.kind, RedirectionKind::HereDocument | RedirectionKind::HereString)
        };
        let mut printed = before.unwrap_or_default();
        let here = command.redirects.iter().filter(is_text);
        printed.texts.extend(here.map(|redirect| self.expand_input_text(redirect, state)));
        printed.texts.truncate(PIPED_TEXTS_MAX);
        let names = printed.names.take();
        let ShellCommandKind::Simple(simple) = &command.kind else { return printed };
        let words: Vec<ShellArg> =
            simple.words.iter().flat_map(|word| self.expand_arguments(word, state)).collect();
        let Some((ShellArg::Known(program), rest)) = words.split_first() else { return printed };
        if matches!(program.as_str(), "echo" | "printf") {
            let text = rest.iter().filter_map(ShellArg::as_known).collect::<Vec<_>>().join(" ");
            printed.texts.push(ShellArg::Known(text.replace("\\n", "\n")));
            printed.texts.extend(rest.iter().filter(|arg| arg.as_known().is_some()).cloned());
        }
        printed.texts.dedup();
        printed.texts.truncate(PIPED_TEXTS_MAX);
        // A redirected input is not the output of the pipe.
        let reads_else = command.redirects.iter().any(|redirect| {
            let span = redirect.span;
            self.source.get(span.start..span.end).is_none_or(|written| written.contains('<'))
        });
        if !self.functions.contains(program) {
            printed.names =
                printed_names::find_printed_names(&words, names.filter(|_| !reads_else));
        }
        printed
    }

    /// For a word such as `$(git ls-files)`, which expands to file names: the folders of the files.
    pub(super) fn find_listed_names(
        &self,
        word: &ShellWord,
        state: &ShellState,
    ) -> Option<Vec<ShellArg>> {
        let [WordPart::Command { list, .. }] = &word.parts[..] else { return None };
        let [ListItem { pipeline, background: false, .. }] = &list.items[..] else { return None };
        let mut printed = None;
        for command in &pipeline.commands {
            printed = Some(self.find_piped_output(command, printed, state));
        }
        printed?.names
    }
}
