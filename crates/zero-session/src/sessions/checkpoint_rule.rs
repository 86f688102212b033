//! Which prompts are checkpoints: those that went to a model.
//!
//! A prompt that zero answers itself, such as `/context`, and a call by the user, such as `/read`,
//! are entries of the ledger, too, but users do not mean them by "the last prompt". In a session
//! without a model, the calls are all there is, so they count.

use std::collections::HashMap;

use zero_core::RunId;

use crate::agent::DIRECT;
use crate::direct_model::is_shorthand;
use crate::event::{Event, EventKind, RunOutcome, TokenUsage};
use crate::slash_commands::is_built_in;

/// What the ledger says of the prompts of a session.
#[derive(Debug, Default)]
pub(super) struct CheckpointRule {
    runs: HashMap<RunId, u64>,
    commands: HashMap<u64, CommandRun>,
}

/// What became of a prompt that begins with a slash.
#[derive(Debug)]
struct CommandRun {
    name: String,
    is_without_model: bool,
    has_request: bool,
    has_call: bool,
    is_completed: bool,
}

impl CheckpointRule {
    /// Adds an entry of the ledger. Entries of prompts that were not added are ignored.
    pub(super) fn add(&mut self, event: &Event) {
        let Some(run) = &event.run else { return };
        if let EventKind::Prompt { text, .. } = &event.kind
            && let Some(after) = text.strip_prefix('/')
        {
            let name = after.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
            self.runs.insert(run.clone(), event.seq);
            self.commands.insert(
                event.seq,
                CommandRun {
                    name,
                    is_without_model: false,
                    has_request: false,
                    has_call: false,
                    is_completed: false,
                },
            );
        }
        let seq = self.runs.get(run);
        let Some(command) = seq.and_then(|seq| self.commands.get_mut(seq)) else { return };
        let asked = |usage: &TokenUsage| usage.requests > 0;
        match &event.kind {
            EventKind::RunStarted { model, .. } => command.is_without_model = model == DIRECT,
            EventKind::ToolStarted { .. } => command.has_call = true,
            EventKind::UsageReported { run_usage, .. } => command.has_request |= asked(run_usage),
            EventKind::RunEnded { end, usage } => {
                command.has_request |= asked(usage);
                command.is_completed = *end == RunOutcome::Completed;
            }
            _ => {}
        }
    }

    /// Whether the prompt with this sequence number is a checkpoint.
    pub(super) fn is_checkpoint(&self, seq: u64) -> bool {
        self.commands.get(&seq).is_none_or(CommandRun::is_checkpoint)
    }
}

impl CommandRun {
    fn is_checkpoint(&self) -> bool {
        match self.name.as_str() {
            // Its request is for a summary.
            "compact" => false,
            _ if self.is_without_model => self.has_call,
            _ if self.has_request => true,
            // Sent, but not answered.
            "init" => true,
            name if is_built_in(name) || is_shorthand(name) => false,
            // An unknown command is answered at once; one of the user's own goes to the model.
            _ => !self.is_completed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events by their names, for the prompt with sequence number 1.
    #[track_caller]
    fn check(prompt: &str, events: &str, expected: bool) {
        let mut rule = CheckpointRule::default();
        let usage = |requests| TokenUsage { requests, ..TokenUsage::default() };
        let kind = |name: &str| match name {
            "model" | "direct" => EventKind::RunStarted {
                agent: "main".to_owned(),
                model: name.to_owned(),
                parent: None,
            },
            "used" => EventKind::UsageReported {
                run_usage: usage(1),
                context_tokens: 0,
                context_window: 0,
            },
            "call" => EventKind::ToolStarted {
                call: "1".to_owned(),
                name: "Read".to_owned(),
                title: String::new(),
                kind: zero_core::ToolKind::Read,
                input: serde_json::Value::Null,
                locations: Vec::new(),
                waits: false,
                transcript_id: None,
            },
            "done" => EventKind::RunEnded { end: RunOutcome::Completed, usage: usage(0) },
            "failed" => EventKind::RunEnded {
                end: RunOutcome::Failed { kind: "server".to_owned(), message: String::new() },
                usage: usage(0),
            },
            name => panic!("{name}"),
        };
        let first = EventKind::Prompt { text: prompt.to_owned(), attachments: Vec::new() };
        let kinds = std::iter::once(first).chain(events.split_whitespace().map(kind));
        for (seq, kind) in (1..).zip(kinds) {
            let run = Some(RunId::from_bits(1));
            rule.add(&Event { seq, run, time_ms: 0, kind });
        }
        assert_eq!(rule.is_checkpoint(1), expected, "{prompt}: {events}");
    }

    #[test]
    fn only_prompts_to_a_model_are_checkpoints() {
        check("hello", "model done", true);
        check("hello", "", true);
        check("/context", "model done", false);
        check("/Rewind 2", "model", false);
        check("/compact", "model used done", false);
        check("/read a", "model call done", false);
        check("/hlep", "model done", false);
        check("/review this", "model used done", true);
        check("/review this", "model failed", true);
        check("/review this", "", true);
        check("/init", "model failed", true);
        // Sent as a prompt word by word.
        check("/context", "model used done", true);
        check("/read a", "direct call done", true);
        check("/help", "direct done", false);
    }
}
