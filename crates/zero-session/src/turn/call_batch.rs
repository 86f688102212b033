//! The calls of one reply: which can run now, their results, and the results message.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;
use zero_core::{CallId, ErrorReason, ToolCall, ToolError, ToolKind, ToolOutcome, ToolResult};
use zero_runtime::DialectName;
use zero_runtime::dialect::{render_for_model, render_plain};
use zero_runtime::name_suggestions::suggest_names;

use crate::event::{EventKind, ResultContent, ToolCallStatus};
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput};
use crate::turn::{ParallelCalls, ResumedCall, TurnAction};
use zero_runtime::tool_backend::CatalogEntry;

/// Maximum number of tool names in the error for an unknown tool.
const KNOWN_MAX: usize = 100;
/// Maximum number of similar names suggested.
const NEAREST_MAX: usize = 3;

/// Canonical name of the tool that reads the output of background jobs.
const JOB_OUTPUT_TOOL: &str = "BashOutput";

/// Canonical name of the tool that starts sub-agents.
pub(crate) const TASK_TOOL: &str = "Task";

/// Result of a call that did not start.
pub(crate) const NOT_RUN: &str = "not run: the run was stopped before its turn came";

/// Result of a call beyond the budget of tool calls.
pub(crate) const CALLS_USED_UP: &str =
    "not run: the budget of tool calls is used up; finish with what you have";

/// Whether a call can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallReadiness {
    Ready,
    /// The model did not write it completely.
    Truncated,
    /// The budget allows no more calls.
    OverBudget,
}

/// A call and its state before execution.
#[derive(Clone, Debug)]
pub(super) struct BatchedCall {
    id: CallId,
    /// The id of the call in the transcript.
    transcript_id: String,
    name: String,
    input: Value,
    kind: ToolKind,
    read_only: bool,
    /// Whether it only looks at background jobs.
    reads_jobs: bool,
    /// Whether it starts a sub-agent. Sub-agents work side by side.
    is_task: bool,
    /// Why the call cannot run at all.
    hopeless: Option<ToolError>,
    state: BatchedCallState,
    /// Whether it was announced as a call that waits for others.
    waits: bool,
}

#[derive(Clone, Debug)]
enum BatchedCallState {
    Waiting,
    Running,
    Ended {
        status: ToolCallStatus,
        /// Result content for the model.
        rendered: Vec<ResultContent>,
        /// Equal for outcomes that the loop guard counts as the same; `None` if it does not
        /// count, because the call found a job still running.
        digest: Option<u64>,
    },
}

impl BatchedCall {
    pub(super) fn new(
        id: CallId,
        transcript_id: String,
        name: String,
        input: &ToolInput,
        readiness: CallReadiness,
        tools: &[CatalogEntry],
    ) -> Self {
        let tool = tools.iter().find(|tool| tool.name == name);
        let hopeless = match (tool, input, readiness) {
            (_, _, CallReadiness::OverBudget) => {
                Some(ToolError::failed(ErrorReason::ResourceExhausted, CALLS_USED_UP))
            }
            (_, _, CallReadiness::Truncated) => Some(ToolError::invalid(
                ErrorReason::SchemaViolation,
                "the answer was cut before this call was complete, so it was not run; write less at a time, for example in several calls",
            )),
            (None, ..) => Some(ToolError::not_found(
                ErrorReason::UnknownTool,
                unknown_tool_message(&name, tools),
            )),
            (_, ToolInput::Unreadable { why, .. }, _) => Some(ToolError::invalid(
                ErrorReason::SchemaViolation,
                format!(
                    "the arguments are not valid JSON ({why}), so `{name}` was not run; write them again as one JSON object"
                ),
            )),
            _ => None,
        };
        let hopeless = hopeless.map(|error| error.with_tool(&name));
        let input = match input {
            ToolInput::Json(json) => json.to_value(),
            ToolInput::Unreadable { unreadable, .. } => {
                serde_json::json!({ "unreadable": unreadable })
            }
        };
        let reads_jobs = tool.is_some_and(|tool| tool.canonical == JOB_OUTPUT_TOOL)
            && input.get("stdin").is_none();
        Self {
            id,
            transcript_id,
            name,
            input,
            kind: tool.map_or(ToolKind::Other, |tool| tool.kind),
            read_only: tool.is_some_and(|tool| tool.read_only),
            reads_jobs,
            is_task: tool.is_some_and(|tool| tool.canonical == TASK_TOOL),
            hopeless,
            state: BatchedCallState::Waiting,
            waits: false,
        }
    }

    /// A call of a run that was parked; shows its end if the ledger has none.
    pub(super) fn resume(
        call: ResumedCall,
        readiness: CallReadiness,
        dialect: Option<DialectName>,
        tools: &[CatalogEntry],
        actions: &mut Vec<TurnAction>,
    ) -> Self {
        let mut unrecorded = Vec::new();
        let mut resumed =
            Self::new(call.id, call.transcript_id, call.name, &call.input, readiness, tools);
        resumed.waits = call.waits_for_others;
        if let Some(outcome) = call.outcome {
            resumed.finish(outcome, dialect, &mut unrecorded);
        }
        if !call.is_end_recorded {
            actions.append(&mut unrecorded);
        }
        resumed
    }

    fn is_running(&self) -> bool {
        matches!(self.state, BatchedCallState::Running)
    }

    /// Whether it may run at the same time as others of its kind.
    fn is_concurrent(&self) -> bool {
        self.read_only || self.is_task
    }

    /// Whether the transcript uses that id for the call.
    pub(super) fn has_transcript_id(&self, id: &str) -> bool {
        self.transcript_id == id
    }

    fn show_start(&self, actions: &mut Vec<TurnAction>) {
        actions.push(TurnAction::Show(EventKind::ToolStarted {
            call: self.id.as_str().to_owned(),
            name: self.name.clone(),
            title: self.name.clone(),
            kind: self.kind,
            input: self.input.clone(),
            locations: Vec::new(),
            waits: self.waits,
            transcript_id: Some(self.transcript_id.clone()),
        }));
    }

    /// Shows that a call begins that was announced as waiting, so that the ledger knows which calls
    /// of a killed process never began.
    fn show_begin(&self, actions: &mut Vec<TurnAction>) {
        actions.push(TurnAction::Show(EventKind::ToolUpdated {
            call: self.id.as_str().to_owned(),
            title: None,
            kind: None,
            locations: Vec::new(),
            progress: None,
            begins: true,
            subagent: None,
        }));
    }

    fn finish(
        &mut self,
        outcome: ToolOutcome,
        dialect: Option<DialectName>,
        actions: &mut Vec<TurnAction>,
    ) {
        let rendered = render_outcome(dialect, &self.name, &outcome);
        let counts = !(self.reads_jobs && has_running_job(&outcome));
        let digest = counts.then(|| outcome_digest(&outcome, &rendered));
        let status = outcome.status();
        let plan = outcome.result().and_then(ToolResult::plan).map(<[_]>::to_vec);
        let ended = EventKind::tool_ended(self.id.as_str(), outcome);
        actions.push(TurnAction::Show(ended));
        actions.extend(plan.map(|entries| TurnAction::Show(EventKind::Plan { entries })));
        self.state = BatchedCallState::Ended { status, rendered, digest };
    }

    fn to_result_block(&self) -> MessageBlock {
        let (content, status) = match &self.state {
            BatchedCallState::Ended { status, rendered, .. } => (rendered.clone(), *status),
            BatchedCallState::Waiting | BatchedCallState::Running => {
                let content = vec![ResultContent::Text { text: NOT_RUN.to_owned() }];
                (content, ToolCallStatus::Cancelled)
            }
        };
        result_block(self.transcript_id.clone(), self.name.clone(), content, status)
    }

    /// Identifies equal calls: the same tool, arguments regardless of field order, and outcome.
    /// `None` if the call cannot be a repeat.
    fn fingerprint(&self) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        hash_json(&self.input, &mut hasher);
        if let BatchedCallState::Ended { digest, .. } = &self.state {
            (*digest)?.hash(&mut hasher);
        }
        Some(hasher.finish())
    }
}

/// The calls of one reply.
#[derive(Clone, Debug)]
pub(super) struct CallBatch {
    calls: Vec<BatchedCall>,
    /// The dialect of results for the model; `None` if the user reads them.
    dialect: Option<DialectName>,
}

impl CallBatch {
    pub(super) fn new(calls: Vec<BatchedCall>, dialect: Option<DialectName>) -> Self {
        Self { calls, dialect }
    }

    /// Shows all calls before any of them starts, so that clients know what follows; then starts
    /// those that can run.
    pub(super) fn announce_and_start(
        &mut self,
        parallel: ParallelCalls,
        actions: &mut Vec<TurnAction>,
    ) {
        let mut starts = Vec::new();
        self.start_ready(parallel, &mut starts);
        for call in &mut self.calls {
            call.waits = matches!(call.state, BatchedCallState::Waiting);
            call.show_start(actions);
        }
        actions.append(&mut starts);
    }

    /// Starts the calls that can run. Read-only calls and sub-agents run concurrently; any other call
    /// runs alone, after all earlier and before all later ones.
    pub(super) fn start_ready(&mut self, parallel: ParallelCalls, actions: &mut Vec<TurnAction>) {
        let running = || self.calls.iter().filter(|call| call.is_running());
        let mut tasks = running().filter(|call| call.is_task).count();
        let mut others = running().count() - tasks;
        let mut all_concurrent = running().all(BatchedCall::is_concurrent);
        for call in &mut self.calls {
            if !matches!(call.state, BatchedCallState::Waiting) {
                continue;
            }
            if let Some(why) = call.hopeless.take() {
                call.finish(why.into(), self.dialect, actions);
                continue;
            }
            let (count, max) = match call.is_task {
                true => (&mut tasks, parallel.tasks_max),
                false => (&mut others, parallel.reads_max),
            };
            let is_beside = call.is_concurrent() && all_concurrent && *count < max;
            *count = count.saturating_add(1);
            if tasks + others > 1 && !is_beside {
                return;
            }
            all_concurrent = call.is_concurrent();
            call.state = BatchedCallState::Running;
            if call.waits {
                call.show_begin(actions);
            }
            let order = ToolCall {
                id: call.id.clone(),
                session: None,
                tool: call.name.clone(),
                input: call.input.clone(),
                timeout: None,
            };
            actions.push(TurnAction::RunCall { call: order, read_only: call.read_only });
        }
    }

    /// Ends the announced calls that will not start.
    pub(super) fn cancel_waiting(&mut self, actions: &mut Vec<TurnAction>) {
        let waiting = |call: &&mut BatchedCall| matches!(call.state, BatchedCallState::Waiting);
        for call in self.calls.iter_mut().filter(waiting) {
            let error = ToolError::failed(ErrorReason::Cancelled, NOT_RUN).with_tool(&call.name);
            call.finish(error.into(), self.dialect, actions);
        }
    }

    /// Records the end of a running call; returns false for any other call.
    pub(super) fn finish_call(
        &mut self,
        id: &str,
        outcome: ToolOutcome,
        actions: &mut Vec<TurnAction>,
    ) -> bool {
        let call = self.calls.iter_mut().find(|call| call.id.as_str() == id && call.is_running());
        call.map(|call| call.finish(outcome, self.dialect, actions)).is_some()
    }

    pub(super) fn is_running(&self, id: &str) -> bool {
        self.calls.iter().any(|call| call.id.as_str() == id && call.is_running())
    }

    /// Whether every call has ended.
    pub(super) fn is_finished(&self) -> bool {
        self.calls.iter().all(|call| matches!(call.state, BatchedCallState::Ended { .. }))
    }

    /// Whether no call is running.
    pub(super) fn is_idle(&self) -> bool {
        !self.calls.iter().any(BatchedCall::is_running)
    }

    /// The results for the model, in the order of its calls.
    pub(super) fn to_results_message(&self) -> ModelMessage {
        ModelMessage {
            role: MessageRole::User,
            blocks: self.calls.iter().map(BatchedCall::to_result_block).collect(),
        }
    }

    /// Equal for the same calls with the same outcomes. Duplicate calls in one batch count once.
    /// `None` if no call can be a repeat, since all of them looked at jobs that still run.
    pub(super) fn fingerprint(&self) -> Option<u64> {
        let calls: BTreeSet<u64> = self.calls.iter().filter_map(BatchedCall::fingerprint).collect();
        if calls.is_empty() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        calls.hash(&mut hasher);
        Some(hasher.finish())
    }
}

/// An outcome as the model gets it; in no dialect if the user reads it.
pub(crate) fn render_outcome(
    dialect: Option<DialectName>,
    name: &str,
    outcome: &ToolOutcome,
) -> Vec<ResultContent> {
    match dialect {
        Some(dialect) => render_for_model(dialect, name, outcome),
        None => render_plain(outcome),
    }
}

/// The result of a call in the transcript, never empty.
pub(crate) fn result_block(
    id: String,
    name: String,
    mut content: Vec<ResultContent>,
    status: ToolCallStatus,
) -> MessageBlock {
    if content.is_empty() {
        content.push(ResultContent::Text { text: "(no output)".to_owned() });
    }
    MessageBlock::ToolResult { id, name, content, is_error: status != ToolCallStatus::Completed }
}

fn unknown_tool_message(name: &str, tools: &[CatalogEntry]) -> String {
    let known = || tools.iter().map(|tool| tool.name.as_str());
    let similar = suggest_names(name, known(), NEAREST_MAX);
    let mut text = format!("there is no tool `{name}`");
    if let Some(first) = similar.first() {
        text.push_str(&format!("; did you mean `{first}`?"));
    }
    let names: Vec<&str> = known().take(KNOWN_MAX).collect();
    match (names.is_empty(), similar.is_empty()) {
        (true, _) => text.push_str("; there are no tools here"),
        (false, true) => text.push_str(&format!("; the tools are {}", names.join(", "))),
        (false, false) => text.push_str(&format!(" The tools are {}", names.join(", "))),
    }
    text
}

/// Whether the result lists a background job that still runs.
fn has_running_job(outcome: &ToolOutcome) -> bool {
    let jobs = outcome.result().and_then(|result| result.structured.get("jobs")?.as_array());
    jobs.is_some_and(|jobs| {
        jobs.iter().any(|job| job.get("status").and_then(Value::as_str) == Some("running"))
    })
}

/// Digest of what the model was told of an outcome. Of an error, only type, reason and message
/// count: other details, such as the file with the full output, differ from call to call.
fn outcome_digest(outcome: &ToolOutcome, rendered: &[ResultContent]) -> u64 {
    let mut hasher = DefaultHasher::new();
    match outcome {
        ToolOutcome::Result(_) => {
            for piece in rendered {
                match piece {
                    ResultContent::Text { text } => text.hash(&mut hasher),
                    ResultContent::Image { data, .. } => data.hash(&mut hasher),
                }
            }
        }
        ToolOutcome::Error(error) => {
            let reason = error.details.get("reason").and_then(Value::as_str);
            (error.error_type, reason, &error.message).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Hashes objects independently of the order of their fields.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(error: ToolError) -> u64 {
        let outcome = ToolOutcome::from(error);
        outcome_digest(&outcome, &render_plain(&outcome))
    }

    #[test]
    fn outcome_digest_ignores_details_of_one_call() {
        let error = |file: &str| {
            ToolError::failed(ErrorReason::RemoteFailure, "no").with_detail("spill_file", file)
        };
        assert_eq!(digest(error("/a")), digest(error("/b")));
        assert_ne!(digest(error("/a")), digest(ToolError::failed(ErrorReason::Io, "no")));
        let other = ToolError::failed(ErrorReason::RemoteFailure, "yes");
        assert_ne!(digest(error("/a")), digest(other));
    }
}
