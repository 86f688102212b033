//! The next step of a run, decided without doing anything.
//!
//! What happened goes in, what is to be done comes out: no clock, no task, no chance. That is what
//! lets every order of events be tried, a stop at every point of it included. [`crate::sessions`]
//! does what is decided here and reports back.

mod call_batch;
mod compaction;
mod context_meter;
mod loop_guard;
pub(crate) mod transcript_repair;
mod turn_io;

use std::sync::Arc;

use self::call_batch::{BatchedCall, CallBatch};
use self::compaction::TranscriptSplit;
use self::context_meter::ContextMeter;
use self::loop_guard::{LoopGuard, LoopVerdict};
pub use self::turn_io::{
    LoopGuardAnswer, RequestContext, ToolCallRequest, TranscriptSummary, TurnAction, TurnConfig,
    TurnGoal, TurnInput,
};
use crate::event::{EventKind, RunOutcome, TokenUsage};
use crate::message::{MessageBlock, ModelMessage, shared, text_of};
use crate::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelReply, ModelRequest, ModelStopReason, UNBOUNDED,
};
use crate::tool_backend::{BackendResult, ToolBackendError};

/// What to do when a conversation cannot be made to fit.
const TOO_LONG: &str = "reset the session, or choose a model with a larger window";

/// One run.
#[derive(Clone, Debug)]
pub struct Turn {
    config: TurnConfig,
    transcript: Vec<Arc<ModelMessage>>,
    goal: TurnGoal,
    bench: RequestContext,
    phase: TurnPhase,
    turns: u32,
    calls_made: u64,
    usage: TokenUsage,
    meter: ContextMeter,
    guard: LoopGuard,
    /// Text of the present answer that was shown.
    streamed: String,
    /// Whether the transcript was summed up for the request that is due.
    summed_up: bool,
}

#[derive(Clone, Debug)]
enum TurnPhase {
    New,
    Looking,
    Asking,
    Calling(CallBatch),
    Guarding,
    Compacting { why: CompactionReason, kept: Vec<ModelMessage> },
    Stopping { batch: CallBatch, end: RunOutcome },
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompactionReason {
    /// The window is getting full.
    Budget,
    /// The provider says that it is too much.
    Overflow,
    /// The person wants it.
    Wanted,
}

impl Turn {
    /// A run on a transcript that is valid: see [`transcript_repair::mend`].
    pub fn new(config: TurnConfig, transcript: Vec<ModelMessage>, goal: TurnGoal) -> Self {
        let meter = ContextMeter::new(config.context_tokens);
        let guard = LoopGuard::new(config.repeats_before_asking, config.repeats_max);
        Self {
            config,
            transcript: shared(transcript),
            goal,
            bench: RequestContext::default(),
            phase: TurnPhase::New,
            turns: 0,
            calls_made: 0,
            usage: TokenUsage::default(),
            meter,
            guard,
            streamed: String::new(),
            summed_up: false,
        }
    }

    /// What is to be done now that this happened. What does not fit the moment is ignored: an answer
    /// that comes after a stop has nobody to hear it.
    pub fn step(&mut self, input: TurnInput) -> Vec<TurnAction> {
        let mut actions = Vec::new();
        match input {
            TurnInput::Begin => self.begin(&mut actions),
            TurnInput::Bench(bench) => self.looked(bench, &mut actions),
            TurnInput::Model(event) => self.heard(event, &mut actions),
            TurnInput::ModelFailed(error) => self.model_failed(error, &mut actions),
            TurnInput::Described { call, title, kind, locations } if self.runs(&call) => {
                let (title, kind) = (Some(title), Some(kind));
                let told = EventKind::ToolUpdated { call, title, kind, locations, progress: None };
                actions.push(TurnAction::Show(told));
            }
            TurnInput::Progress { call, message } if self.runs(&call) => {
                actions.push(TurnAction::Show(EventKind::ToolUpdated {
                    call,
                    title: None,
                    kind: None,
                    locations: Vec::new(),
                    progress: Some(message),
                }));
            }
            TurnInput::Described { .. } | TurnInput::Progress { .. } => {}
            TurnInput::CallEnded { call, end } => self.call_ended(&call, end, &mut actions),
            TurnInput::Guard(answer) => self.guard_answered(answer, &mut actions),
            TurnInput::Summary(summary) => self.summed_up(summary, &mut actions),
            TurnInput::Stop(end) => self.stop(end, &mut actions),
        }
        actions
    }

    /// What the run took so far.
    pub fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Tokens that the next request would send, as far as known.
    pub fn context_tokens(&self) -> u64 {
        self.meter.estimate(&self.bench, &self.transcript)
    }

    fn begin(&mut self, actions: &mut Vec<TurnAction>) {
        if !matches!(self.phase, TurnPhase::New) {
            return;
        }
        match self.goal.clone() {
            TurnGoal::Answer(prompt) => {
                self.add(prompt, actions);
                self.next_request(actions);
            }
            TurnGoal::Compact => self.compact(CompactionReason::Wanted, actions),
        }
    }

    /// The next request, unless there were enough.
    fn next_request(&mut self, actions: &mut Vec<TurnAction>) {
        if self.turns >= self.config.turns_max {
            return self.finish(RunOutcome::MaxTurns { turns: self.turns }, actions);
        }
        self.summed_up = false;
        self.phase = TurnPhase::Looking;
        actions.push(TurnAction::LookAround);
    }

    fn looked(
        &mut self,
        bench: Result<RequestContext, ToolBackendError>,
        actions: &mut Vec<TurnAction>,
    ) {
        if !matches!(self.phase, TurnPhase::Looking) {
            return;
        }
        match bench {
            Ok(bench) => {
                self.bench = bench;
                if self.is_too_full() {
                    self.compact(CompactionReason::Budget, actions);
                } else {
                    self.ask(actions);
                }
            }
            Err(error) => self.finish(failed("tool_host", error.to_string()), actions),
        }
    }

    fn is_too_full(&self) -> bool {
        let tokens = self.context_tokens();
        self.meter.wants_compaction(
            tokens,
            self.config.context_window,
            self.config.compact_at_percent,
        )
    }

    fn ask(&mut self, actions: &mut Vec<TurnAction>) {
        self.turns = self.turns.saturating_add(1);
        self.streamed.clear();
        self.phase = TurnPhase::Asking;
        actions.push(TurnAction::AskModel(ModelRequest {
            system: self.bench.system.clone(),
            messages: transcript_repair::seen_by(&self.transcript, self.config.takes_images),
            tools: self.bench.tools.definitions(),
            output_tokens_max: None,
            thinking: self.config.thinking,
        }));
    }

    fn heard(&mut self, event: ModelEvent, actions: &mut Vec<TurnAction>) {
        if !matches!(self.phase, TurnPhase::Asking) {
            return;
        }
        match event {
            ModelEvent::Text(text) if !text.is_empty() => {
                self.streamed.push_str(&text);
                actions.push(TurnAction::Show(EventKind::Text { text }));
            }
            ModelEvent::Thought(text) if !text.is_empty() => {
                actions.push(TurnAction::Show(EventKind::Thought { text }));
            }
            ModelEvent::Retrying { error, after, attempts } => {
                let text = format!(
                    "{error}; trying again in {} (attempt {})",
                    seconds(after),
                    attempts.saturating_add(1)
                );
                actions.push(notice("retry", text));
            }
            ModelEvent::Done(reply) => self.replied(reply, actions),
            ModelEvent::Text(_) | ModelEvent::Thought(_) | ModelEvent::ToolUse { .. } => {}
        }
    }

    fn replied(&mut self, reply: ModelReply, actions: &mut Vec<TurnAction>) {
        self.count(reply.usage);
        let blocks = transcript_repair::worth_keeping(reply.blocks);
        let text = text_of(&blocks);
        let says_nothing = text.trim().is_empty() && self.streamed.trim().is_empty();
        if self.streamed.is_empty() && !text.is_empty() {
            actions.push(TurnAction::Show(EventKind::Text { text: text.into_owned() }));
        }
        let is_call = |block: &MessageBlock| matches!(block, MessageBlock::ToolUse { .. });
        let cut = reply.stop == ModelStopReason::MaxTokens && blocks.last().is_some_and(is_call);
        if let ModelStopReason::Refusal(message) = reply.stop {
            let said = blocks.into_iter().filter(|block| !is_call(block)).collect();
            self.add_said(said, actions);
            self.meter.answered(reply.usage, &self.bench, &self.transcript);
            self.report_usage(actions);
            return self.finish(refused(message), actions);
        }
        if !blocks.iter().any(is_call) {
            self.add_said(blocks, actions);
            self.meter.answered(reply.usage, &self.bench, &self.transcript);
            self.report_usage(actions);
            let end = match reply.stop {
                ModelStopReason::MaxTokens => RunOutcome::MaxTokens,
                _ => RunOutcome::Completed,
            };
            if says_nothing && end == RunOutcome::Completed {
                let text = "the model gave an empty answer; send the prompt again, or say more";
                actions.push(notice("empty_answer", text.to_owned()));
            }
            return self.finish(end, actions);
        }
        let (blocks, plans) = self.plan(blocks, cut);
        self.add_said(blocks, actions);
        self.meter.answered(reply.usage, &self.bench, &self.transcript);
        self.report_usage(actions);
        self.phase = TurnPhase::Calling(CallBatch::new(plans));
        self.advance(actions);
    }

    /// Gives each call its own id, and the transcript ids that are there and unlike each other.
    fn plan(
        &mut self,
        blocks: Vec<MessageBlock>,
        cut: bool,
    ) -> (Vec<MessageBlock>, Vec<BatchedCall>) {
        let used = transcript_repair::call_ids(&self.transcript);
        let mut plans: Vec<BatchedCall> = Vec::new();
        let last = blocks.len().saturating_sub(1);
        let mut kept = Vec::with_capacity(blocks.len());
        for (at, block) in blocks.into_iter().enumerate() {
            let MessageBlock::ToolUse { id, name, input, opaque } = block else {
                kept.push(block);
                continue;
            };
            let own = zero_core::CallId::from_bits(
                self.config.call_seed.wrapping_add(u128::from(self.calls_made)),
            );
            self.calls_made = self.calls_made.saturating_add(1);
            let own = String::from(own);
            let is_used =
                used.contains(id.as_str()) || plans.iter().any(|plan| plan.is_known_as(&id));
            let id = if id.is_empty() || is_used { own.clone() } else { id };
            let cut = if cut && at == last {
                call_batch::CallCompleteness::Half
            } else {
                call_batch::CallCompleteness::Whole
            };
            plans.push(BatchedCall::new(
                own,
                id.clone(),
                name.clone(),
                &input,
                cut,
                &self.bench.tools,
            ));
            kept.push(MessageBlock::ToolUse { id, name, input, opaque });
        }
        (kept, plans)
    }

    /// Starts the calls whose turn it is; goes on when there is none left.
    fn advance(&mut self, actions: &mut Vec<TurnAction>) {
        let TurnPhase::Calling(batch) = &mut self.phase else { return };
        batch.start_some(self.config.parallel_calls_max, actions);
        if !batch.is_over() {
            return;
        }
        let (results, fingerprint) = (batch.results(), batch.fingerprint());
        self.add(results, actions);
        match self.guard.judge(fingerprint) {
            LoopVerdict::GoOn => self.next_request(actions),
            LoopVerdict::Ask(repeats) => {
                self.phase = TurnPhase::Guarding;
                actions.push(TurnAction::AskPerson(format!(
                    "The agent did the same {repeats} times in a row, with the same outcome. Let it go on?"
                )));
            }
            LoopVerdict::Stop(repeats) => {
                let text = format!(
                    "stopped: the agent did the same {repeats} times in a row, with the same outcome; tell it what to do differently"
                );
                actions.push(notice("loop_guard", text));
                self.finish(aborted("loop_guard"), actions);
            }
        }
    }

    fn call_ended(&mut self, call: &str, end: BackendResult, actions: &mut Vec<TurnAction>) {
        let (TurnPhase::Calling(batch) | TurnPhase::Stopping { batch, .. }) = &mut self.phase
        else {
            return;
        };
        if !batch.end(call, end, actions) {
            return;
        }
        match self.phase {
            TurnPhase::Stopping { .. } => self.stop_when_quiet(actions),
            _ => self.advance(actions),
        }
    }

    fn runs(&self, call: &str) -> bool {
        match &self.phase {
            TurnPhase::Calling(batch) | TurnPhase::Stopping { batch, .. } => batch.runs(call),
            _ => false,
        }
    }

    fn guard_answered(&mut self, answer: LoopGuardAnswer, actions: &mut Vec<TurnAction>) {
        if !matches!(self.phase, TurnPhase::Guarding) {
            return;
        }
        match answer {
            LoopGuardAnswer::GoOn => self.next_request(actions),
            LoopGuardAnswer::Stop => {
                let text = "stopped: the agent did the same over and over, and nobody let it go on";
                actions.push(notice("loop_guard", text.to_owned()));
                self.finish(aborted("loop_guard"), actions);
            }
        }
    }

    fn model_failed(&mut self, error: ModelError, actions: &mut Vec<TurnAction>) {
        if !matches!(self.phase, TurnPhase::Asking) {
            return;
        }
        if error.kind == ModelErrorKind::ContextLength
            && self.streamed.is_empty()
            && !self.summed_up
        {
            return self.compact(CompactionReason::Overflow, actions);
        }
        self.keep_streamed(actions);
        let end = match error.kind {
            ModelErrorKind::Refusal => refused(error.message),
            ModelErrorKind::Cancelled => aborted("model"),
            ModelErrorKind::ContextLength => too_long(&error.message),
            kind => failed(kind.word(), error.message),
        };
        self.finish(end, actions);
    }

    fn compact(&mut self, why: CompactionReason, actions: &mut Vec<TurnAction>) {
        let window = self.config.context_window;
        let TranscriptSplit { summed_up, kept } = compaction::split(&self.transcript, window);
        if summed_up.is_empty() {
            return self.nothing_to_sum_up(why, actions);
        }
        let text = match why {
            CompactionReason::Budget => {
                "the model's window is nearly full; summing up what came before"
            }
            CompactionReason::Overflow => {
                "the conversation is too long for the model; summing it up"
            }
            CompactionReason::Wanted => "summing up the conversation",
        };
        actions.push(notice("compaction", text.to_owned()));
        actions.push(TurnAction::Summarise(compaction::request(&summed_up, window)));
        self.phase = TurnPhase::Compacting { why, kept };
    }

    fn summed_up(
        &mut self,
        summary: Result<TranscriptSummary, ModelError>,
        actions: &mut Vec<TurnAction>,
    ) {
        let TurnPhase::Compacting { why, kept } = &mut self.phase else { return };
        let (why, kept) = (*why, std::mem::take(kept));
        let (summary, plan) = match summary {
            Ok(summary) => {
                self.count(summary.usage);
                (summary.text.trim().to_owned(), summary.plan)
            }
            Err(error) => return self.not_compacted(why, &error, actions),
        };
        if summary.is_empty() {
            let error = ModelError::new(ModelErrorKind::Server, "the model wrote an empty summary");
            return self.not_compacted(why, &error, actions);
        }
        let tokens_before = self.context_tokens();
        let window = self.config.context_window;
        let plan = compaction::plan(&plan, window);
        self.transcript = vec![compaction::message(&summary, plan, kept).into()];
        self.meter.restarted(&self.bench, &self.transcript);
        self.summed_up = true;
        actions.push(TurnAction::Restart(self.transcript.clone()));
        let tokens_after = self.context_tokens();
        actions.push(TurnAction::Show(EventKind::Compacted {
            summary,
            tokens_before,
            tokens_after,
        }));
        match why {
            CompactionReason::Wanted => self.finish(RunOutcome::Completed, actions),
            CompactionReason::Budget => self.ask(actions),
            CompactionReason::Overflow => {
                // The same request again, only shorter: it was counted before.
                self.turns = self.turns.saturating_sub(1);
                self.ask(actions);
            }
        }
    }

    fn nothing_to_sum_up(&mut self, why: CompactionReason, actions: &mut Vec<TurnAction>) {
        if why == CompactionReason::Wanted {
            let text = "There is nothing to sum up yet.".to_owned();
            actions.push(TurnAction::Show(EventKind::Text { text }));
            return self.finish(RunOutcome::Completed, actions);
        }
        let text = "there is nothing before the last message";
        let error = ModelError::new(ModelErrorKind::ContextLength, text);
        self.not_compacted(why, &error, actions);
    }

    /// Goes on without a summary where there is room, and ends where there is none.
    fn not_compacted(
        &mut self,
        why: CompactionReason,
        error: &ModelError,
        actions: &mut Vec<TurnAction>,
    ) {
        let text = format!("the conversation could not be summed up: {error}");
        match why {
            CompactionReason::Wanted => self.finish(failed(error.kind.word(), text), actions),
            CompactionReason::Budget if self.context_tokens() < self.config.context_window => {
                actions.push(notice("compaction", format!("{text}; going on while there is room")));
                self.ask(actions);
            }
            CompactionReason::Budget | CompactionReason::Overflow => {
                actions.push(notice("compaction", text.clone()));
                self.finish(too_long(&text), actions);
            }
        }
    }

    fn stop(&mut self, end: RunOutcome, actions: &mut Vec<TurnAction>) {
        match std::mem::replace(&mut self.phase, TurnPhase::Over) {
            TurnPhase::Calling(batch) => {
                self.phase = TurnPhase::Stopping { batch, end };
                actions.push(TurnAction::CancelCalls);
                self.stop_when_quiet(actions);
            }
            TurnPhase::Asking => {
                self.keep_streamed(actions);
                self.finish(end, actions);
            }
            phase @ (TurnPhase::Stopping { .. } | TurnPhase::Over) => self.phase = phase,
            TurnPhase::New
            | TurnPhase::Looking
            | TurnPhase::Guarding
            | TurnPhase::Compacting { .. } => {
                self.finish(end, actions);
            }
        }
    }

    fn stop_when_quiet(&mut self, actions: &mut Vec<TurnAction>) {
        let TurnPhase::Stopping { batch, end } = &self.phase else { return };
        if batch.is_quiet() {
            let (results, end) = (batch.results(), end.clone());
            self.add(results, actions);
            self.finish(end, actions);
        }
    }

    fn finish(&mut self, end: RunOutcome, actions: &mut Vec<TurnAction>) {
        self.phase = TurnPhase::Over;
        actions.push(TurnAction::Finish(end));
    }

    /// What was shown of an answer that never came to its end is what the model is told it said.
    fn keep_streamed(&mut self, actions: &mut Vec<TurnAction>) {
        let text = std::mem::take(&mut self.streamed);
        self.add_said(transcript_repair::worth_keeping(vec![MessageBlock::text(text)]), actions);
    }

    fn add_said(&mut self, blocks: Vec<MessageBlock>, actions: &mut Vec<TurnAction>) {
        let says = |block: &MessageBlock| !matches!(block, MessageBlock::Thinking { .. });
        if blocks.iter().any(says) {
            self.add(ModelMessage::assistant(blocks), actions);
        }
    }

    fn add(&mut self, message: ModelMessage, actions: &mut Vec<TurnAction>) {
        self.meter.add(&message);
        let message = Arc::new(message);
        self.transcript.push(Arc::clone(&message));
        actions.push(TurnAction::Save(vec![message]));
    }

    fn count(&mut self, usage: TokenUsage) {
        self.usage += context_meter::priced(usage, self.config.prices);
    }

    fn report_usage(&self, actions: &mut Vec<TurnAction>) {
        actions.push(TurnAction::Show(EventKind::UsageReported {
            run_usage: self.usage,
            context_tokens: self.context_tokens(),
            // A bound that nothing reaches is none.
            context_window: match self.config.context_window {
                UNBOUNDED.. => 0,
                window => window,
            },
        }));
    }
}

fn notice(topic: &str, text: String) -> TurnAction {
    TurnAction::Show(EventKind::Notice { topic: topic.to_owned(), text })
}

fn aborted(by: &str) -> RunOutcome {
    RunOutcome::Aborted { by: by.to_owned() }
}

fn failed(kind: &str, message: String) -> RunOutcome {
    RunOutcome::Failed { kind: kind.to_owned(), message }
}

fn too_long(why: &str) -> RunOutcome {
    failed("context_length", format!("{why}; {TOO_LONG}"))
}

fn refused(message: String) -> RunOutcome {
    let empty = message.trim().is_empty();
    let message = if empty { "the model declined to answer".to_owned() } else { message };
    RunOutcome::Refused { message }
}

/// A time to wait, as people read it.
fn seconds(time: std::time::Duration) -> String {
    match time.as_millis() {
        0 => "a moment".to_owned(),
        millis if millis < 1000 => format!("{millis} ms"),
        millis => format!("{} s", millis.div_ceil(1000)),
    }
}

#[cfg(test)]
mod tests;
