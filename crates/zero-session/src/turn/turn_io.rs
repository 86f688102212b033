//! Inputs and actions of a [`Turn`](super::Turn).

use std::sync::Arc;

use zero_core::{CallId, CallProgress, FileLocation, ToolCall, ToolKind, ToolOutcome};
use zero_runtime::DialectName;

use crate::event::{EventKind, PlanEntry, RunOutcome, TokenUsage};
use crate::message::{ModelMessage, ToolInput};
use crate::model::{
    ModelError, ModelEvent, ModelFallback, ModelRequest, ModelStopReason, ThinkingEffort,
    TokenPrices,
};
use crate::output_schema::OutputSchema;
use zero_runtime::tool_backend::{ToolBackendError, ToolList};

/// Configuration of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnConfig {
    /// The dialect of results for the model; `None` if the user reads them.
    pub dialect: Option<DialectName>,
    /// Call ids are this number plus the index of the call, so it must differ between runs.
    pub call_seed: u128,
    /// Maximum number of model requests.
    pub turns_max: u32,
    /// Maximum number of tool calls; `None` is no limit.
    pub calls_max: Option<u64>,
    /// How many calls may run at the same time.
    pub parallel_calls: ParallelCalls,
    /// Thinking effort.
    pub thinking: ThinkingEffort,
    /// Context window in tokens; 0 if unknown.
    pub context_window: u64,
    /// Whether the model accepts images.
    pub takes_images: bool,
    /// Prices of the model.
    pub prices: Option<TokenPrices>,
    /// Share of the window, in percent, above which the transcript is compacted.
    pub compact_at_percent: u8,
    /// Identical steps in a row after which the user is asked.
    pub repeats_before_asking: u32,
    /// Tokens of the transcript without the new prompt, if known.
    pub context_tokens: Option<u64>,
    /// Schema that the answer must fit.
    pub output_schema: Option<OutputSchema>,
}

/// How many calls may run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParallelCalls {
    /// Maximum number of concurrent read-only calls.
    pub reads_max: usize,
    /// Maximum number of concurrent sub-agents.
    pub tasks_max: usize,
}

/// Goal of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnGoal {
    /// Reply to this message.
    Answer(ModelMessage),
    /// Only compact the transcript. The text says what the user wants kept; it may be empty.
    Compact(String),
    /// Continue a run that was parked.
    Resume(ResumePoint),
}

/// Where a parked run continues.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumePoint {
    /// What the run waited for.
    pub waits: ResumedWait,
    /// What the run has used.
    pub usage: TokenUsage,
    /// Its model requests.
    pub turns: u32,
    /// The model that it had fallen back to.
    pub model: Option<String>,
}

/// What a parked run waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum ResumedWait {
    /// The calls of its last reply, in the order of the reply.
    Calls(Vec<ResumedCall>),
    /// The user's leave to continue, with the reason.
    Guard(String),
    /// The next reply of the model: its process was lost.
    Model,
}

/// A call of a parked run.
#[derive(Clone, Debug, PartialEq)]
pub struct ResumedCall {
    /// Its id in the ledger.
    pub id: CallId,
    /// Its id in the transcript.
    pub transcript_id: String,
    /// The tool in the dialect of the model.
    pub name: String,
    /// Its arguments.
    pub input: ToolInput,
    /// How it ended; `None` if it is made now.
    pub outcome: Option<ToolOutcome>,
    /// Whether its end is in the ledger.
    pub is_end_recorded: bool,
    /// Whether the ledger says that it waits for other calls.
    pub waits_for_others: bool,
}

/// An event for the run.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnInput {
    /// The run begins.
    Begin,
    /// The request context, in response to [`TurnAction::LoadContext`].
    Context(Result<RequestContext, ToolBackendError>),
    /// An event of the model's reply.
    Model(ModelEvent),
    /// The model gave no reply.
    ModelFailed(ModelError),
    /// A call has a more precise description.
    Described {
        /// Id of the tool call that is described.
        call: String,
        /// One-line description of its effect.
        title: String,
        /// Kind of the tool, for display.
        kind: ToolKind,
        /// Files that it concerns.
        locations: Vec<FileLocation>,
    },
    /// Progress of a call.
    Progress {
        /// Id of the tool call that reports progress.
        call: String,
        /// The message, and how much is done.
        progress: CallProgress,
    },
    /// A call has started a sub-agent.
    Subagent {
        /// Id of the tool call.
        call: String,
        /// Key of the sub-agent's session.
        session_key: String,
    },
    /// A call has ended.
    CallEnded {
        /// Id of the tool call that ended.
        call: String,
        /// Outcome of the call.
        outcome: ToolOutcome,
    },
    /// A call used the model for itself.
    Used(TokenUsage),
    /// The user's answer to [`TurnAction::AskUser`].
    Guard(LoopGuardAnswer),
    /// The summary, in response to [`TurnAction::Summarise`].
    Summary(Result<TranscriptSummary, ModelError>),
    /// The run must end now with this outcome.
    Stop(RunOutcome),
}

/// System prompt and tools of one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestContext {
    /// The system prompt.
    pub system: String,
    /// The tools that the model may use.
    pub tools: ToolList,
}

/// The user's decision about a run that repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopGuardAnswer {
    /// Continue the run.
    Continue,
    /// Stop the run; also if there is no answer.
    Stop,
}

/// A summary written by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptSummary {
    /// The summary.
    pub text: String,
    /// Why it ends. Only a complete one may replace a transcript.
    pub stop: ModelStopReason,
    /// Token usage of the request.
    pub usage: TokenUsage,
    /// The current plan of the session, which is not left to the summary.
    pub plan: Vec<PlanEntry>,
    /// The models that stood in for others until it was written.
    pub fallbacks: Vec<Arc<ModelFallback>>,
}

/// An action to perform.
#[expect(clippy::large_enum_variant, reason = "an action is done as soon as it is decided")]
#[derive(Clone, Debug, PartialEq)]
pub enum TurnAction {
    /// Load the request context; results in [`TurnInput::Context`].
    LoadContext,
    /// Send a request to the model; results in [`TurnInput::Model`] and [`TurnInput::ModelFailed`].
    AskModel(ModelRequest),
    /// Write an event to the ledger and publish it.
    Show(EventKind),
    /// Execute a call; results in [`TurnInput::CallEnded`]. Earlier events and messages must be
    /// written before it starts.
    RunCall {
        /// The call.
        call: ToolCall,
        /// Whether it changes nothing. The start of any other call must survive a power cut.
        read_only: bool,
    },
    /// Ask the user whether to continue; results in [`TurnInput::Guard`].
    AskUser(String),
    /// Ask the model for a summary; results in [`TurnInput::Summary`].
    Summarise(ModelRequest),
    /// Start a new transcript with these messages.
    StartTranscript(Vec<Arc<ModelMessage>>),
    /// Append messages to the transcript.
    Save(Vec<Arc<ModelMessage>>),
    /// Cancel the running calls; each still results in [`TurnInput::CallEnded`].
    CancelCalls,
    /// The run has ended. Returned exactly once, as the last action.
    Finish(RunOutcome),
}
