//! Decides the next step of a run, without side effects.
//!
//! Takes events and returns actions; uses no clock, tasks or randomness. Tests can therefore try
//! every order of events, including a stop at every point. [`crate::sessions`] performs the actions
//! and reports the results.

pub(crate) mod call_batch;
mod compaction;
pub(crate) mod context_meter;
pub(crate) mod context_parts;
mod loop_guard;
mod result_trimming;
pub(crate) mod transcript_repair;
mod turn_io;

use std::sync::Arc;

use zero_core::ToolOutcome;
use zero_core::text_shortening::one_line;

use self::call_batch::{BatchedCall, CallBatch};
use self::compaction::TranscriptSplit;
use self::context_meter::{ContextMeter, text_tokens};
use self::loop_guard::{LoopGuard, LoopVerdict};
pub use self::turn_io::{
    LoopGuardAnswer, ParallelCalls, RequestContext, ResumePoint, ResumedCall, ResumedWait,
    TranscriptSummary, TurnAction, TurnConfig, TurnGoal, TurnInput,
};
use crate::event::{CompactionExtent, EventKind, RunOutcome, TokenUsage};
use crate::message::{MessageBlock, ModelMessage, join_text, share_messages};
use crate::model::cost::with_cost;
use crate::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelFallback, ModelReply, ModelRequest,
    ModelStopReason, UNBOUNDED,
};
use crate::output_schema::OutputSchema;
use zero_runtime::tool_backend::ToolBackendError;

/// Advice if a conversation cannot be made to fit.
const TOO_LONG: &str = "reset the session, or choose a model with a larger window";

/// How often the model may correct an answer that does not fit the schema.
const CORRECTIONS_MAX: u32 = 2;
/// Characters of the reason why a model is not available.
const REASON_CHARS_MAX: usize = 300;

/// The state of one run.
#[derive(Clone, Debug)]
pub struct Turn {
    config: TurnConfig,
    transcript: Vec<Arc<ModelMessage>>,
    goal: TurnGoal,
    context: RequestContext,
    phase: TurnPhase,
    turns: u32,
    calls_made: u64,
    usage: TokenUsage,
    meter: ContextMeter,
    guard: LoopGuard,
    /// Text of the current reply that was already shown.
    streamed: String,
    /// Tokens of the current reply so far, roughly; 0 if nothing of it has arrived.
    received_tokens: u64,
    /// Whether the transcript was compacted for the pending request.
    summed_up: bool,
    /// Answers that did not fit the schema.
    misfits: u32,
}

#[derive(Clone, Debug)]
enum TurnPhase {
    New,
    LoadingContext,
    /// Like loading, for a compaction that the user requested. The text says what to keep.
    LoadingForCompaction(String),
    /// Like loading, with the calls of a parked run.
    Resuming(Vec<ResumedCall>),
    AwaitingModel,
    RunningCalls(CallBatch),
    AwaitingUser,
    Compacting {
        why: CompactionReason,
        kept_messages: Vec<ModelMessage>,
        extent: CompactionExtent,
    },
    Stopping {
        batch: CallBatch,
        end: RunOutcome,
    },
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompactionReason {
    /// The context window is nearly full.
    Budget,
    /// The provider reported that the context is too long.
    Overflow,
    /// The user requested it.
    Requested,
}

impl Turn {
    /// Creates a run on a valid transcript: see [`transcript_repair::repair`].
    pub fn new(config: TurnConfig, transcript: Vec<ModelMessage>, goal: TurnGoal) -> Self {
        let meter = ContextMeter::new(config.context_tokens);
        let guard = LoopGuard::new(config.repeats_before_asking);
        Self {
            config,
            transcript: share_messages(transcript),
            goal,
            context: RequestContext::default(),
            phase: TurnPhase::New,
            turns: 0,
            calls_made: 0,
            usage: TokenUsage::default(),
            meter,
            guard,
            streamed: String::new(),
            received_tokens: 0,
            summed_up: false,
            misfits: 0,
        }
    }

    /// Returns the actions for an input. An input that does not fit the current state is ignored,
    /// such as a reply that arrives after a stop.
    pub fn step(&mut self, input: TurnInput) -> Vec<TurnAction> {
        let mut actions = Vec::new();
        match input {
            TurnInput::Begin => self.begin(&mut actions),
            TurnInput::Context(context) => self.handle_context(context, &mut actions),
            TurnInput::Model(event) => self.handle_model_event(event, &mut actions),
            TurnInput::ModelFailed(error) => self.handle_model_failure(error, &mut actions),
            TurnInput::Described { call, title, kind, locations } if self.is_running(&call) => {
                let (title, kind) = (Some(title), Some(kind));
                actions.push(TurnAction::Show(EventKind::ToolUpdated {
                    call,
                    title,
                    kind,
                    locations,
                    progress: None,
                    begins: false,
                    subagent: None,
                }));
            }
            TurnInput::Progress { call, progress } if self.is_running(&call) => {
                actions.push(TurnAction::Show(EventKind::ToolUpdated {
                    call,
                    title: None,
                    kind: None,
                    locations: Vec::new(),
                    progress: Some(progress),
                    begins: false,
                    subagent: None,
                }));
            }
            TurnInput::Subagent { call, session_key } if self.is_running(&call) => {
                actions.push(TurnAction::Show(EventKind::ToolUpdated {
                    call,
                    title: None,
                    kind: None,
                    locations: Vec::new(),
                    progress: None,
                    begins: false,
                    subagent: Some(session_key),
                }));
            }
            TurnInput::Described { .. }
            | TurnInput::Progress { .. }
            | TurnInput::Subagent { .. } => {}
            TurnInput::CallEnded { call, outcome } => {
                self.handle_call_end(&call, outcome, &mut actions)
            }
            TurnInput::Used(usage) if !matches!(self.phase, TurnPhase::Finished) => {
                self.add_usage(usage);
                self.report_usage(&mut actions);
            }
            TurnInput::Used(_) => {}
            TurnInput::Guard(answer) => self.handle_guard_answer(answer, &mut actions),
            TurnInput::Summary(summary) => self.handle_summary(summary, &mut actions),
            TurnInput::Stop(end) => self.stop(end, &mut actions),
        }
        actions
    }

    /// Token usage of the run so far.
    pub fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Tokens that the next request would send, if known.
    pub fn context_tokens(&self) -> u64 {
        self.meter.estimate(&self.context, &self.transcript)
    }

    fn begin(&mut self, actions: &mut Vec<TurnAction>) {
        if !matches!(self.phase, TurnPhase::New) {
            return;
        }
        match self.goal.clone() {
            TurnGoal::Answer(prompt) => {
                self.add_message(prompt, actions);
                self.next_request(actions);
            }
            TurnGoal::Compact(focus) => {
                self.phase = TurnPhase::LoadingForCompaction(focus);
                actions.push(TurnAction::LoadContext);
            }
            TurnGoal::Resume(point) => {
                (self.usage, self.calls_made) = (point.usage, point.usage.tool_calls);
                self.turns = point.turns;
                match point.waits {
                    ResumedWait::Guard(why) => {
                        self.phase = TurnPhase::AwaitingUser;
                        actions.push(TurnAction::AskUser(why));
                    }
                    ResumedWait::Model => self.next_request(actions),
                    ResumedWait::Calls(calls) => {
                        self.phase = TurnPhase::Resuming(calls);
                        actions.push(TurnAction::LoadContext);
                    }
                }
            }
        }
    }

    /// Makes the calls of a parked run that are left, once the tools are known.
    fn resume_calls(&mut self, calls: Vec<ResumedCall>, actions: &mut Vec<TurnAction>) {
        let (dialect, tools) = (self.config.dialect, &self.context.tools);
        let first = self.calls_made.saturating_sub(calls.len() as u64);
        let readiness = |number: u64| match self.config.calls_max {
            Some(most) if number >= most => call_batch::CallReadiness::OverBudget,
            _ => call_batch::CallReadiness::Ready,
        };
        let resume =
            |(call, number)| BatchedCall::resume(call, readiness(number), dialect, tools, actions);
        let calls = calls.into_iter().zip(first..).map(resume).collect();
        self.phase = TurnPhase::RunningCalls(CallBatch::new(calls, dialect));
        self.advance(actions);
    }

    /// Sends the next request, unless the limit is reached.
    fn next_request(&mut self, actions: &mut Vec<TurnAction>) {
        if self.turns >= self.config.turns_max {
            return self.finish(RunOutcome::MaxTurns { turns: self.turns }, actions);
        }
        self.summed_up = false;
        self.phase = TurnPhase::LoadingContext;
        actions.push(TurnAction::LoadContext);
    }

    fn handle_context(
        &mut self,
        context: Result<RequestContext, ToolBackendError>,
        actions: &mut Vec<TurnAction>,
    ) {
        let resumed = match &mut self.phase {
            TurnPhase::LoadingContext => None,
            TurnPhase::LoadingForCompaction(focus) => {
                let focus = std::mem::take(focus);
                // It works without the tools, which only the count needs.
                self.context = context.unwrap_or_default();
                return self.compact(CompactionReason::Requested, &focus, actions);
            }
            TurnPhase::Resuming(calls) => Some(std::mem::take(calls)),
            _ => return,
        };
        match context {
            Ok(context) => {
                self.context = context;
                if let Some(calls) = resumed {
                    self.resume_calls(calls, actions);
                    return;
                }
                if self.needs_compaction() {
                    self.trim_results(actions);
                }
                if self.needs_compaction() {
                    self.compact(CompactionReason::Budget, "", actions);
                } else {
                    self.ask_model(actions);
                }
            }
            Err(error) => self.finish(failed_end("tool_host", error.to_string()), actions),
        }
    }

    fn needs_compaction(&self) -> bool {
        let tokens = self.context_tokens();
        self.meter.needs_compaction(
            tokens,
            self.config.context_window,
            self.config.compact_at_percent,
        )
    }

    /// Shortens results that no longer matter, before anything is summarized.
    fn trim_results(&mut self, actions: &mut Vec<TurnAction>) {
        let window = self.config.context_window;
        let tools = &self.context.tools;
        let Some(trimmed) = result_trimming::trim(&self.transcript, tools, window) else { return };
        let result_trimming::TrimmedTranscript { messages, results, tokens } = trimmed;
        self.transcript = messages;
        self.meter.subtract(tokens);
        let results = match results {
            1 => "1 tool result".to_owned(),
            results => format!("{results} tool results"),
        };
        let text = format!(
            "the context window is nearly full; trimmed {results} that were read again or are old (about {tokens} tokens)"
        );
        actions.push(notice_action("compaction", text));
        actions.push(TurnAction::StartTranscript(self.transcript.clone()));
    }

    fn ask_model(&mut self, actions: &mut Vec<TurnAction>) {
        self.turns = self.turns.saturating_add(1);
        self.streamed.clear();
        self.received_tokens = 0;
        self.phase = TurnPhase::AwaitingModel;
        let output_schema = self.config.output_schema.clone();
        let form = output_schema.as_ref().map(OutputSchema::instruction).unwrap_or_default();
        actions.push(TurnAction::AskModel(ModelRequest {
            system: format!("{}{form}", self.context.system),
            messages: transcript_repair::adapt_for_model(
                &self.transcript,
                self.config.takes_images,
            ),
            tools: self.context.tools.definitions(),
            output_tokens_max: None,
            thinking: self.config.thinking,
            output_schema,
        }));
    }

    fn handle_model_event(&mut self, event: ModelEvent, actions: &mut Vec<TurnAction>) {
        if !matches!(self.phase, TurnPhase::AwaitingModel) {
            return;
        }
        self.received_tokens = self.received_tokens.saturating_add(match &event {
            ModelEvent::Text(text) | ModelEvent::Thought(text) => text_tokens(text),
            ModelEvent::ToolUse { name, .. } => text_tokens(name),
            ModelEvent::Retrying { .. } | ModelEvent::FellBack(_) | ModelEvent::Done(_) => 0,
        });
        match event {
            ModelEvent::Text(text) if !text.is_empty() => {
                self.streamed.push_str(&text);
                actions.push(TurnAction::Show(EventKind::Text { text }));
            }
            ModelEvent::Thought(text) if !text.is_empty() => {
                actions.push(TurnAction::Show(EventKind::Thought { text }));
            }
            ModelEvent::Retrying { error, after, attempts } => {
                self.usage.requests = self.usage.requests.saturating_add(1);
                let text = format!(
                    "{error}; trying again in {} (attempt {})",
                    format_seconds(after),
                    attempts.saturating_add(1)
                );
                actions.push(notice_action("retry", text));
            }
            ModelEvent::FellBack(fallback) => self.switch_model(&fallback, actions),
            ModelEvent::Done(reply) => self.handle_reply(reply, actions),
            ModelEvent::Text(_) | ModelEvent::Thought(_) | ModelEvent::ToolUse { .. } => {}
        }
    }

    /// Another model answers from now on, with its own window and prices. The request that failed
    /// counts.
    fn switch_model(&mut self, fallback: &ModelFallback, actions: &mut Vec<TurnAction>) {
        self.usage.requests = self.usage.requests.saturating_add(1);
        let ModelFallback { from, to, error } = fallback;
        // What was used until now is that of the first one.
        self.report_usage(actions);
        self.config.context_window = to.context_window;
        self.config.takes_images = to.takes_images;
        self.config.prices = to.prices;
        actions.push(TurnAction::Show(EventKind::ModelFallback {
            from: from.clone(),
            to: to.name.clone(),
            reason: one_line(&error.message, REASON_CHARS_MAX),
        }));
    }

    fn handle_reply(&mut self, reply: ModelReply, actions: &mut Vec<TurnAction>) {
        self.add_usage(reply.usage);
        let blocks = transcript_repair::drop_blank_text(reply.blocks);
        let text = join_text(&blocks);
        let says_nothing = text.trim().is_empty() && self.streamed.trim().is_empty();
        let misfit = self.config.output_schema.as_ref();
        let misfit = misfit.and_then(|schema| schema.parse_answer(&text).err());
        if self.streamed.is_empty() && !text.is_empty() {
            actions.push(TurnAction::Show(EventKind::Text { text: text.into_owned() }));
        }
        let is_call = |block: &MessageBlock| matches!(block, MessageBlock::ToolUse { .. });
        let cut = reply.stop == ModelStopReason::MaxTokens && blocks.last().is_some_and(is_call);
        if let ModelStopReason::Refusal(message) = reply.stop {
            let text_blocks = blocks.into_iter().filter(|block| !is_call(block)).collect();
            self.add_assistant_message(text_blocks, actions);
            self.meter.record_usage(reply.usage, &self.context, &self.transcript);
            self.report_usage(actions);
            return self.finish(refused_end(message), actions);
        }
        if !blocks.iter().any(is_call) {
            self.add_assistant_message(blocks, actions);
            self.meter.record_usage(reply.usage, &self.context, &self.transcript);
            self.report_usage(actions);
            let end = match reply.stop {
                ModelStopReason::MaxTokens => RunOutcome::MaxTokens,
                _ => RunOutcome::Completed,
            };
            if let (Some(why), RunOutcome::Completed) = (&misfit, &end) {
                return self.correct_answer(why, actions);
            }
            if says_nothing && end == RunOutcome::Completed {
                let text = "the model gave an empty answer; send the prompt again, or say more";
                actions.push(notice_action("empty_answer", text.to_owned()));
            }
            return self.finish(end, actions);
        }
        let (blocks, plans) = self.plan_calls(blocks, cut);
        self.add_assistant_message(blocks, actions);
        self.meter.record_usage(reply.usage, &self.context, &self.transcript);
        self.report_usage(actions);
        let mut batch = CallBatch::new(plans, self.config.dialect);
        batch.announce_and_start(self.config.parallel_calls, actions);
        self.phase = TurnPhase::RunningCalls(batch);
        self.advance(actions);
    }

    /// Asks again for an answer that fits the schema, or fails.
    fn correct_answer(&mut self, why: &str, actions: &mut Vec<TurnAction>) {
        self.misfits = self.misfits.saturating_add(1);
        if self.misfits > CORRECTIONS_MAX {
            let message = format!(
                "the answer does not fit the schema after {CORRECTIONS_MAX} corrections: {why}; simplify the schema, or choose another model"
            );
            return self.finish(failed_end("output_schema", message), actions);
        }
        let text = format!(
            "the answer does not fit the schema: {why}; asking again ({} of {CORRECTIONS_MAX})",
            self.misfits
        );
        actions.push(notice_action("output_schema", text));
        let correction = format!(
            "Your answer does not fit the JSON Schema: {why}\nAnswer again with the whole JSON value, and with nothing else."
        );
        self.add_message(ModelMessage::user(correction), actions);
        self.next_request(actions);
    }

    /// Gives each call its own id, and makes the ids in the transcript present and unique.
    fn plan_calls(
        &mut self,
        blocks: Vec<MessageBlock>,
        cut: bool,
    ) -> (Vec<MessageBlock>, Vec<BatchedCall>) {
        let used = transcript_repair::call_ids(&self.transcript);
        let mut plans: Vec<BatchedCall> = Vec::new();
        let last = blocks.len().saturating_sub(1);
        let mut kept_blocks = Vec::with_capacity(blocks.len());
        for (at, block) in blocks.into_iter().enumerate() {
            let MessageBlock::ToolUse { id, name, input, opaque } = block else {
                kept_blocks.push(block);
                continue;
            };
            let own = zero_core::CallId::from_bits(
                self.config.call_seed.wrapping_add(u128::from(self.calls_made)),
            );
            let is_over_budget = self.config.calls_max.is_some_and(|most| self.calls_made >= most);
            self.calls_made = self.calls_made.saturating_add(1);
            self.usage.tool_calls = self.calls_made;
            let is_used =
                used.contains(id.as_str()) || plans.iter().any(|plan| plan.has_transcript_id(&id));
            let id = if id.is_empty() || is_used { own.as_str().to_owned() } else { id };
            let state = if cut && at == last {
                call_batch::CallReadiness::Truncated
            } else if is_over_budget {
                call_batch::CallReadiness::OverBudget
            } else {
                call_batch::CallReadiness::Ready
            };
            plans.push(BatchedCall::new(
                own,
                id.clone(),
                name.clone(),
                &input,
                state,
                &self.context.tools,
            ));
            kept_blocks.push(MessageBlock::ToolUse { id, name, input, opaque });
        }
        (kept_blocks, plans)
    }

    /// Starts the calls that can run; continues with the next request when none is left.
    fn advance(&mut self, actions: &mut Vec<TurnAction>) {
        let TurnPhase::RunningCalls(batch) = &mut self.phase else { return };
        batch.start_ready(self.config.parallel_calls, actions);
        if !batch.is_finished() {
            return;
        }
        let (results, fingerprint) = (batch.to_results_message(), batch.fingerprint());
        self.add_message(results, actions);
        let Some(fingerprint) = fingerprint else {
            self.guard.reset();
            return self.next_request(actions);
        };
        match self.guard.judge(fingerprint) {
            LoopVerdict::Continue => self.next_request(actions),
            LoopVerdict::Ask(repeats) => {
                self.phase = TurnPhase::AwaitingUser;
                actions.push(TurnAction::AskUser(format!(
                    "The agent did the same {repeats} times in a row, with the same outcome. Continue?"
                )));
            }
        }
    }

    fn handle_call_end(&mut self, call: &str, outcome: ToolOutcome, actions: &mut Vec<TurnAction>) {
        let (TurnPhase::RunningCalls(batch) | TurnPhase::Stopping { batch, .. }) = &mut self.phase
        else {
            return;
        };
        if !batch.finish_call(call, outcome, actions) {
            return;
        }
        match self.phase {
            TurnPhase::Stopping { .. } => self.finish_when_idle(actions),
            _ => self.advance(actions),
        }
    }

    fn is_running(&self, call: &str) -> bool {
        match &self.phase {
            TurnPhase::RunningCalls(batch) | TurnPhase::Stopping { batch, .. } => {
                batch.is_running(call)
            }
            _ => false,
        }
    }

    fn handle_guard_answer(&mut self, answer: LoopGuardAnswer, actions: &mut Vec<TurnAction>) {
        if !matches!(self.phase, TurnPhase::AwaitingUser) {
            return;
        }
        match answer {
            LoopGuardAnswer::Continue => {
                self.guard.reset();
                self.next_request(actions);
            }
            LoopGuardAnswer::Stop => {
                let text = "stopped: the agent did the same over and over and may not continue; tell it what to do differently";
                actions.push(notice_action("loop_guard", text.to_owned()));
                self.finish(aborted_end("loop_guard"), actions);
            }
        }
    }

    fn handle_model_failure(&mut self, error: ModelError, actions: &mut Vec<TurnAction>) {
        if !matches!(self.phase, TurnPhase::AwaitingModel) {
            return;
        }
        if error.kind == ModelErrorKind::ContextLength
            && self.streamed.is_empty()
            && !self.summed_up
        {
            return self.compact(CompactionReason::Overflow, "", actions);
        }
        self.count_broken_off();
        self.save_streamed_text(actions);
        let end = match error.kind {
            ModelErrorKind::Refusal => refused_end(error.message),
            ModelErrorKind::Cancelled => aborted_end("model"),
            ModelErrorKind::ContextLength => context_overflow_end(&error.message),
            kind => failed_end(kind.as_str(), error.message),
        };
        self.finish(end, actions);
    }

    fn compact(&mut self, why: CompactionReason, focus: &str, actions: &mut Vec<TurnAction>) {
        let window = self.config.context_window;
        let split = compaction::split(&self.transcript, window);
        let extent = split.extent();
        let TranscriptSplit { summed_up, kept_messages: kept } = split;
        if summed_up.is_empty() {
            return self.skip_compaction(why, actions);
        }
        let text = match why {
            CompactionReason::Budget => {
                "the context window is nearly full; compacting the conversation"
            }
            CompactionReason::Overflow => {
                "the conversation is too long for the model; compacting it"
            }
            CompactionReason::Requested => "compacting the conversation",
        };
        actions.push(notice_action("compaction", text.to_owned()));
        actions.push(TurnAction::Summarise(compaction::build_request(&summed_up, window, focus)));
        self.phase = TurnPhase::Compacting { why, kept_messages: kept, extent };
    }

    fn handle_summary(
        &mut self,
        summary: Result<TranscriptSummary, ModelError>,
        actions: &mut Vec<TurnAction>,
    ) {
        let TurnPhase::Compacting { why, kept_messages: kept, extent } = &mut self.phase else {
            return;
        };
        let (why, kept, extent) = (*why, std::mem::take(kept), *extent);
        let (summary, plan) = match summary {
            Ok(summary) => {
                for fallback in &summary.fallbacks {
                    self.switch_model(fallback, actions);
                }
                self.add_usage(summary.usage);
                let plan = summary.plan;
                match compaction::accept_summary(&summary.text, summary.stop) {
                    Ok(text) => (text, plan),
                    Err(error) => return self.handle_compaction_failure(why, &error, actions),
                }
            }
            Err(error) => return self.handle_compaction_failure(why, &error, actions),
        };
        let tokens_before = self.context_tokens();
        let window = self.config.context_window;
        let extent = Some(CompactionExtent { steps_kept: plan.len() as u64, ..extent });
        let plan = compaction::format_plan(&plan, window);
        let compacted = vec![compaction::build_message(&summary, plan, kept).into()];
        self.meter.replace(&self.context, &self.transcript, &compacted);
        self.transcript = compacted;
        self.summed_up = true;
        actions.push(TurnAction::StartTranscript(self.transcript.clone()));
        let tokens_after = self.context_tokens();
        actions.push(TurnAction::Show(EventKind::Compacted {
            summary,
            tokens_before,
            tokens_after,
            extent,
        }));
        match why {
            CompactionReason::Requested => self.finish(RunOutcome::Completed, actions),
            CompactionReason::Budget => self.ask_model(actions),
            CompactionReason::Overflow => {
                // The same request in shorter form, which was already counted.
                self.turns = self.turns.saturating_sub(1);
                self.ask_model(actions);
            }
        }
    }

    fn skip_compaction(&mut self, why: CompactionReason, actions: &mut Vec<TurnAction>) {
        if why == CompactionReason::Requested {
            let text = "There is nothing to compact yet.".to_owned();
            actions.push(TurnAction::Show(EventKind::Text { text }));
            return self.finish(RunOutcome::Completed, actions);
        }
        let text = "there is nothing before the last message; send less at once";
        let error = ModelError::new(ModelErrorKind::ContextLength, text);
        self.handle_compaction_failure(why, &error, actions);
    }

    /// Continues without a summary if there is space, and ends the run otherwise.
    fn handle_compaction_failure(
        &mut self,
        why: CompactionReason,
        error: &ModelError,
        actions: &mut Vec<TurnAction>,
    ) {
        let text = format!("the conversation could not be compacted: {error}");
        // The next request does not fail the same way at once.
        self.meter.postpone_compaction(&self.context, &self.transcript);
        match why {
            CompactionReason::Requested => {
                self.finish(failed_end(error.kind.as_str(), text), actions)
            }
            CompactionReason::Budget if self.context_tokens() < self.config.context_window => {
                actions.push(notice_action(
                    "compaction",
                    format!("{text}; going on while there is room"),
                ));
                self.ask_model(actions);
            }
            CompactionReason::Budget | CompactionReason::Overflow => {
                actions.push(notice_action("compaction", text.clone()));
                self.finish(context_overflow_end(&text), actions);
            }
        }
    }

    fn stop(&mut self, end: RunOutcome, actions: &mut Vec<TurnAction>) {
        match std::mem::replace(&mut self.phase, TurnPhase::Finished) {
            TurnPhase::RunningCalls(mut batch) => {
                batch.cancel_waiting(actions);
                self.phase = TurnPhase::Stopping { batch, end };
                actions.push(TurnAction::CancelCalls);
                self.finish_when_idle(actions);
            }
            TurnPhase::AwaitingModel => {
                self.count_broken_off();
                self.save_streamed_text(actions);
                self.finish(end, actions);
            }
            phase @ (TurnPhase::Stopping { .. } | TurnPhase::Finished) => self.phase = phase,
            TurnPhase::New
            | TurnPhase::LoadingContext
            | TurnPhase::LoadingForCompaction(_)
            | TurnPhase::Resuming(_)
            | TurnPhase::AwaitingUser
            | TurnPhase::Compacting { .. } => {
                self.finish(end, actions);
            }
        }
    }

    fn finish_when_idle(&mut self, actions: &mut Vec<TurnAction>) {
        let TurnPhase::Stopping { batch, end } = &self.phase else { return };
        if batch.is_idle() {
            let (results, end) = (batch.to_results_message(), end.clone());
            self.add_message(results, actions);
            self.finish(end, actions);
        }
    }

    fn finish(&mut self, end: RunOutcome, actions: &mut Vec<TurnAction>) {
        self.phase = TurnPhase::Finished;
        actions.push(TurnAction::Finish(end));
    }

    /// Saves the shown text of an incomplete reply, so that the transcript matches what the user
    /// saw.
    fn save_streamed_text(&mut self, actions: &mut Vec<TurnAction>) {
        let text = std::mem::take(&mut self.streamed);
        self.add_assistant_message(
            transcript_repair::drop_blank_text(vec![MessageBlock::text(text)]),
            actions,
        );
    }

    fn add_assistant_message(&mut self, blocks: Vec<MessageBlock>, actions: &mut Vec<TurnAction>) {
        let says = |block: &MessageBlock| !matches!(block, MessageBlock::Thinking { .. });
        if blocks.iter().any(says) {
            self.add_message(ModelMessage::assistant(blocks), actions);
        }
    }

    fn add_message(&mut self, message: ModelMessage, actions: &mut Vec<TurnAction>) {
        self.meter.add(&message);
        let message = Arc::new(message);
        self.transcript.push(Arc::clone(&message));
        actions.push(TurnAction::Save(vec![message]));
    }

    fn add_usage(&mut self, usage: TokenUsage) {
        // A reply without a model, which only the user reads, needed no request.
        let least = u64::from(self.config.dialect.is_some());
        let usage = TokenUsage { requests: usage.requests.max(least), ..usage };
        self.usage += with_cost(usage, self.config.prices.as_ref());
    }

    /// Counts a request whose reply broke off. Providers report the usage at the end, and bill what they
    /// sent until then, so that it is estimated. A request that brought nothing costs nothing. The end of
    /// the run reports it.
    fn count_broken_off(&mut self) {
        let output_tokens = std::mem::take(&mut self.received_tokens);
        if output_tokens > 0 {
            let input_tokens = self.context_tokens();
            self.add_usage(TokenUsage { input_tokens, output_tokens, ..TokenUsage::default() });
        }
    }

    fn report_usage(&self, actions: &mut Vec<TurnAction>) {
        actions.push(TurnAction::Show(EventKind::UsageReported {
            run_usage: self.usage,
            context_tokens: self.context_tokens(),
            // An unbounded window is reported as none.
            context_window: match self.config.context_window {
                UNBOUNDED.. => 0,
                window => window,
            },
        }));
    }
}

fn notice_action(topic: &str, text: String) -> TurnAction {
    TurnAction::Show(EventKind::Notice { topic: topic.to_owned(), text })
}

fn aborted_end(by: &str) -> RunOutcome {
    RunOutcome::Aborted { by: by.to_owned() }
}

fn failed_end(kind: &str, message: String) -> RunOutcome {
    RunOutcome::Failed { kind: kind.to_owned(), message }
}

fn context_overflow_end(why: &str) -> RunOutcome {
    failed_end("context_length", format!("{why}; {TOO_LONG}"))
}

fn refused_end(message: String) -> RunOutcome {
    let empty = message.trim().is_empty();
    let message = if empty { "the model declined to answer".to_owned() } else { message };
    RunOutcome::Refused { message }
}

/// Formats a delay for the user.
fn format_seconds(time: std::time::Duration) -> String {
    match time.as_millis() {
        0 => "a moment".to_owned(),
        millis if millis < 1000 => format!("{millis} ms"),
        millis => format!("{} s", millis.div_ceil(1000)),
    }
}

#[cfg(test)]
mod tests;
