//! Assigns message ids to the chunks of a model's answer. Ids consist of the run and a count, so
//! that a replay yields the same ids.

use std::collections::HashMap;

use agent_client_protocol::v1::schema::MessageId;
use zero_core::RunId;

/// Runs that are remembered; a session has few active ones.
const RUNS_MAX: usize = 256;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    /// Text for the user.
    Answer,
    /// The model's reasoning, shown apart from its answer.
    Thought,
}

/// The messages of the active runs.
#[derive(Debug, Default)]
pub(super) struct MessageAssembler {
    runs: HashMap<Option<RunId>, RunMessages>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RunMessages {
    messages: u32,
    kind: Option<MessageKind>,
}

impl MessageAssembler {
    /// The id of the message that the next chunk belongs to.
    pub(super) fn message_id(&mut self, run: Option<&RunId>, kind: MessageKind) -> MessageId {
        if self.runs.len() >= RUNS_MAX && !self.runs.contains_key(&run.cloned()) {
            self.runs.clear();
        }
        let run_messages = self.runs.entry(run.cloned()).or_default();
        if run_messages.kind != Some(kind) {
            run_messages.kind = Some(kind);
            run_messages.messages = run_messages.messages.saturating_add(1);
        }
        run_message_id(run, &run_messages.messages.to_string())
    }

    /// Starts a new message with the next chunk.
    pub(super) fn break_message(&mut self, run: Option<&RunId>) {
        if let Some(run_messages) = self.runs.get_mut(&run.cloned()) {
            run_messages.kind = None;
        }
    }

    /// Forgets a run that has ended.
    pub(super) fn end_run(&mut self, run: Option<&RunId>) {
        self.runs.remove(&run.cloned());
    }
}

/// The id of a message of a run.
pub(super) fn run_message_id(run: Option<&RunId>, which: &str) -> MessageId {
    let run = run.map_or("session", RunId::as_str);
    MessageId::new(format!("{run}:{which}"))
}
