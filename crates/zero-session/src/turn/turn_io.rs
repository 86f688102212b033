//! What goes into a [`ConversationTurn`](super::Turn) and what comes out.

use std::sync::Arc;

use zero_core::{FileLocation, ToolCall, ToolKind, ToolOutcome};
use zero_runtime::DialectName;

use crate::event::{EventKind, PlanEntry, RunOutcome, TokenUsage};
use crate::message::ModelMessage;
use crate::model::{ModelError, ModelEvent, ModelRequest, ThinkingEffort, TokenPrices};
use zero_runtime::tool_backend::{ToolBackendError, ToolList};

/// How a run is to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnConfig {
    /// The dialect in which the model is told what became of its calls; `None` where a person reads it.
    pub dialect: Option<DialectName>,
    /// Calls are named after this and their number, so it must differ from run to run.
    pub call_seed: u128,
    /// How often the model may be asked.
    pub turns_max: u32,
    /// Calls that only look, at a time.
    pub parallel_calls_max: usize,
    /// How much the model should think.
    pub thinking: ThinkingEffort,
    /// Tokens the model can take; 0 when that is not known.
    pub context_window: u64,
    /// Whether the model takes pictures.
    pub takes_images: bool,
    /// What the model costs.
    pub prices: Option<TokenPrices>,
    /// How full the window may be before the transcript is summed up, in percent.
    pub compact_at_percent: u8,
    /// Identical steps in a row before a person is asked.
    pub repeats_before_asking: u32,
    /// Identical steps in a row before the run is stopped.
    pub repeats_max: u32,
    /// Tokens that the transcript without the new prompt takes, where that is known.
    pub context_tokens: Option<u64>,
}

/// What a run is for.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnGoal {
    /// An answer to this message.
    Answer(ModelMessage),
    /// Nothing but a shorter transcript.
    Compact,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnInput {
    /// The run begins.
    Begin,
    /// What there is to work with, asked for by [`TurnAction::LoadContext`].
    Context(Result<RequestContext, ToolBackendError>),
    /// The model says something.
    Model(ModelEvent),
    /// The model gave no answer.
    ModelFailed(ModelError),
    /// What a call will do is known better.
    Described {
        /// Id of the tool call that is described.
        call: String,
        /// What it will do, in one line.
        title: String,
        /// How to picture it.
        kind: ToolKind,
        /// Places it is about.
        locations: Vec<FileLocation>,
    },
    /// A call says how far it is.
    Progress {
        /// Id of the tool call that reports progress.
        call: String,
        /// What it says.
        message: String,
    },
    /// A call is over.
    CallEnded {
        /// Id of the tool call that ended.
        call: String,
        /// What became of it.
        outcome: ToolOutcome,
    },
    /// What the person said about going on, asked for by [`TurnAction::AskUser`].
    Guard(LoopGuardAnswer),
    /// The summary, asked for by [`TurnAction::Summarise`].
    Summary(Result<TranscriptSummary, ModelError>),
    /// The run is to end this way, now.
    Stop(RunOutcome),
}

/// What there is to work with for one request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestContext {
    /// What the model is told about itself and its work.
    pub system: String,
    /// The tools it may use.
    pub tools: ToolList,
}

/// What a person says about a run that goes round in circles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopGuardAnswer {
    /// Let it.
    Continue,
    /// Stop it; also when nobody answers.
    Stop,
}

/// What the model wrote when it was asked to sum up.
#[derive(Clone, Debug, PartialEq)]
pub struct TranscriptSummary {
    /// The summary.
    pub text: String,
    /// What it took.
    pub usage: TokenUsage,
    /// The plan of the session as it stands, which no summary is trusted to tell.
    pub plan: Vec<PlanEntry>,
}

/// Something to be done.
#[expect(clippy::large_enum_variant, reason = "an action is done as soon as it is decided")]
#[derive(Clone, Debug, PartialEq)]
pub enum TurnAction {
    /// Find out what there is to work with; give [`TurnInput::Context`].
    LoadContext,
    /// Ask the model; give [`TurnInput::ModelClient`] and [`TurnInput::ModelFailed`].
    AskModel(ModelRequest),
    /// Write into the ledger, and show.
    Show(EventKind),
    /// Make a call; give [`TurnInput::CallEnded`]. What was to be shown and saved before it has to be
    /// written before it begins.
    RunCall(ToolCall),
    /// Ask whether to go on; give [`TurnInput::Guard`].
    AskUser(String),
    /// Ask the model for a summary; give [`TurnInput::TranscriptSummary`].
    Summarise(ModelRequest),
    /// Begin a new transcript with these messages.
    StartTranscript(Vec<Arc<ModelMessage>>),
    /// Add messages to the transcript.
    Save(Vec<Arc<ModelMessage>>),
    /// Stop the calls that run; each still gives [`TurnInput::CallEnded`].
    CancelCalls,
    /// The run is over. Comes exactly once, and nothing after it.
    Finish(RunOutcome),
}
