//! Pipelines: what one command prints is what the next one reads.

use super::super::analysis::NodeKind;
use super::super::arg::Arg;
use super::super::ast::{
    Command, CommandKind, Item, Part, Pipeline, Redirect, RedirectKind, Span, Word,
};
use super::super::state::State;
use super::{After, Here, Input, PIPED_TEXTS_MAX, Piped, Walker, names};

impl Walker<'_> {
    pub(super) fn pipeline(&mut self, pipeline: &Pipeline, here: Here, state: State) -> After {
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

    /// For a word such as `$(git ls-files)`, which becomes names of files: the folders they lie in.
    pub(super) fn names_listed(&self, word: &Word, state: &State) -> Option<Vec<Arg>> {
        let [Part::Command { list, .. }] = &word.parts[..] else { return None };
        let [Item { pipeline, background: false, .. }] = &list.items[..] else { return None };
        let mut printed = None;
        for command in &pipeline.commands {
            printed = Some(self.printed(command, printed, state));
        }
        printed?.names
    }
}
