//! The calls of one answer: which may run now, what became of them, what the model is told.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;
use zero_core::ToolKind;
use zero_runtime::name_suggestions::suggest_names;

use crate::event::{EventKind, ResultContent, ToolCallStatus};
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput};
use crate::turn::{ToolCallRequest, TurnAction};
use zero_runtime::tool_backend::{BackendResult, CatalogEntry};

/// Names of tools that a model is told which named none of them.
const KNOWN_MAX: usize = 100;
/// Names that look like the one it used.
const NEAREST_MAX: usize = 3;

/// Whether the model could write a call to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallCompleteness {
    Complete,
    Truncated,
}

/// A call, and what is known of it before it runs.
#[derive(Clone, Debug)]
pub(super) struct BatchedCall {
    id: String,
    /// The id that the transcript refers to it by.
    transcript_id: String,
    name: String,
    input: Value,
    kind: ToolKind,
    read_only: bool,
    /// Why it cannot run at all.
    hopeless: Option<String>,
    state: BatchedCallState,
}

#[derive(Clone, Debug)]
enum BatchedCallState {
    Waiting,
    Running,
    Ended(BackendResult),
}

impl BatchedCall {
    pub(super) fn new(
        id: String,
        transcript_id: String,
        name: String,
        input: &ToolInput,
        written: CallCompleteness,
        tools: &[CatalogEntry],
    ) -> Self {
        let tool = tools.iter().find(|tool| tool.name == name);
        let hopeless = match (tool, input, written) {
            (_, _, CallCompleteness::Truncated) => Some(
                "the answer was cut before this call was complete, so it was not run; write less at a time, for example in several calls"
                    .to_owned(),
            ),
            (None, ..) => Some(unknown_tool_message(&name, tools)),
            (_, ToolInput::Unreadable { why, .. }, _) => Some(format!(
                "the arguments are not valid JSON ({why}), so `{name}` was not run; write them again as one JSON object"
            )),
            _ => None,
        };
        let input = match input {
            ToolInput::Json(json) => json.to_value(),
            ToolInput::Unreadable { unreadable, .. } => {
                serde_json::json!({ "unreadable": unreadable })
            }
        };
        Self {
            id,
            transcript_id,
            name,
            input,
            kind: tool.map_or(ToolKind::Other, |tool| tool.kind),
            read_only: tool.is_some_and(|tool| tool.read_only),
            hopeless,
            state: BatchedCallState::Waiting,
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.state, BatchedCallState::Running)
    }

    /// Whether the transcript refers to it by that id.
    pub(super) fn has_transcript_id(&self, id: &str) -> bool {
        self.transcript_id == id
    }

    fn show_start(&self, actions: &mut Vec<TurnAction>) {
        actions.push(TurnAction::Show(EventKind::ToolStarted {
            call: self.id.clone(),
            name: self.name.clone(),
            title: self.name.clone(),
            kind: self.kind,
            input: self.input.clone(),
            locations: Vec::new(),
        }));
    }

    fn finish(&mut self, end: BackendResult, actions: &mut Vec<TurnAction>) {
        actions.push(TurnAction::Show(EventKind::ToolEnded {
            call: self.id.clone(),
            status: end.status,
            content: end.content.clone(),
            display: end.display.clone(),
            locations: end.locations.clone(),
        }));
        if let Some(entries) = end.plan.clone() {
            actions.push(TurnAction::Show(EventKind::Plan { entries }));
        }
        self.state = BatchedCallState::Ended(end);
    }

    fn to_result_block(&self) -> MessageBlock {
        let (mut content, is_error) = match &self.state {
            BatchedCallState::Ended(end) => {
                (end.content.clone(), end.status != ToolCallStatus::Completed)
            }
            BatchedCallState::Waiting | BatchedCallState::Running => {
                let text = "not run: the run was stopped before its turn came".to_owned();
                (vec![ResultContent::Text { text }], true)
            }
        };
        if content.is_empty() {
            content.push(ResultContent::Text { text: "(no output)".to_owned() });
        }
        let (id, name) = (self.transcript_id.clone(), self.name.clone());
        MessageBlock::ToolResult { id, name, content, is_error }
    }

    /// What makes two calls the same: the tool, its arguments whatever their order, the outcome.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        hash_json(&self.input, &mut hasher);
        if let BatchedCallState::Ended(end) = &self.state {
            (end.status == ToolCallStatus::Completed).hash(&mut hasher);
            for piece in &end.content {
                match piece {
                    ResultContent::Text { text } => text.hash(&mut hasher),
                    ResultContent::Image { data, .. } => data.hash(&mut hasher),
                }
            }
        }
        hasher.finish()
    }
}

/// The calls of one answer.
#[derive(Clone, Debug)]
pub(super) struct CallBatch {
    calls: Vec<BatchedCall>,
}

impl CallBatch {
    pub(super) fn new(calls: Vec<BatchedCall>) -> Self {
        Self { calls }
    }

    /// Starts the calls whose turn it is. Calls that only look run side by side; any other runs
    /// alone, after all before it and before all after it.
    pub(super) fn start_ready(&mut self, parallel_max: usize, actions: &mut Vec<TurnAction>) {
        let mut running = self.calls.iter().filter(|call| call.is_running()).count();
        let mut all_look = self.calls.iter().all(|call| !call.is_running() || call.read_only);
        for call in &mut self.calls {
            if !matches!(call.state, BatchedCallState::Waiting) {
                continue;
            }
            if let Some(why) = call.hopeless.take() {
                call.show_start(actions);
                call.finish(BackendResult::from_text(ToolCallStatus::Failed, why), actions);
                continue;
            }
            let beside = call.read_only && all_look && running < parallel_max;
            if running > 0 && !beside {
                return;
            }
            running = running.saturating_add(1);
            all_look = call.read_only;
            call.state = BatchedCallState::Running;
            call.show_start(actions);
            actions.push(TurnAction::RunCall(ToolCallRequest {
                id: call.id.clone(),
                tool: call.name.clone(),
                input: call.input.clone(),
            }));
        }
    }

    /// Notes the end of a call that runs; false for any other.
    pub(super) fn finish_call(
        &mut self,
        id: &str,
        end: BackendResult,
        actions: &mut Vec<TurnAction>,
    ) -> bool {
        let call = self.calls.iter_mut().find(|call| call.id == id && call.is_running());
        call.map(|call| call.finish(end, actions)).is_some()
    }

    pub(super) fn is_running(&self, id: &str) -> bool {
        self.calls.iter().any(|call| call.id == id && call.is_running())
    }

    /// Whether every call has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.calls.iter().all(|call| matches!(call.state, BatchedCallState::Ended(_)))
    }

    /// Whether no call runs.
    pub(super) fn is_idle(&self) -> bool {
        !self.calls.iter().any(BatchedCall::is_running)
    }

    /// What the model is told, in the order of its calls.
    pub(super) fn to_results_message(&self) -> ModelMessage {
        ModelMessage {
            role: MessageRole::User,
            blocks: self.calls.iter().map(BatchedCall::to_result_block).collect(),
        }
    }

    /// The same for the same calls with the same outcome. The same call twice at a time counts once.
    pub(super) fn fingerprint(&self) -> u64 {
        let calls: BTreeSet<u64> = self.calls.iter().map(BatchedCall::fingerprint).collect();
        let mut hasher = DefaultHasher::new();
        calls.hash(&mut hasher);
        hasher.finish()
    }
}

fn unknown_tool_message(name: &str, tools: &[CatalogEntry]) -> String {
    let known = || tools.iter().map(|tool| tool.name.as_str());
    let near = suggest_names(name, known(), NEAREST_MAX);
    let mut text = format!("there is no tool `{name}`");
    if let Some(first) = near.first() {
        text.push_str(&format!("; did you mean `{first}`?"));
    }
    let names: Vec<&str> = known().take(KNOWN_MAX).collect();
    match (names.is_empty(), near.is_empty()) {
        (true, _) => text.push_str("; there are no tools here"),
        (false, true) => text.push_str(&format!("; the tools are {}", names.join(", "))),
        (false, false) => text.push_str(&format!(" The tools are {}", names.join(", "))),
    }
    text
}

/// Objects count as the same whatever the order of their fields.
fn hash_json(value: &Value, hasher: &mut DefaultHasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Null => {}
        Value::Bool(yes) => yes.hash(hasher),
        Value::Number(number) => number.to_string().hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(items) => {
            items.len().hash(hasher);
            for item in items {
                hash_json(item, hasher);
            }
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            fields.len().hash(hasher);
            for (name, value) in fields {
                name.hash(hasher);
                hash_json(value, hasher);
            }
        }
    }
}
