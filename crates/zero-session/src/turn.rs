//! The next step of a run, decided without doing anything.
//!
//! What happened goes in, what is to be done comes out: no clock, no task, no chance. That is what
//! lets every order of events be tried, a stop at every point of it included. [`crate::sessions`]
//! does what is decided here and reports back.

mod budget;
mod calls;
mod compaction;
mod guard;
mod steps;
pub(crate) mod transcript;

use std::sync::Arc;

use self::budget::Meter;
use self::calls::{Batch, CallPlan};
use self::compaction::Split;
use self::guard::{LoopGuard, Verdict};
pub use self::steps::{
    Action, CallOrder, Goal, GuardAnswer, Input, Summary, TurnConfig, Workbench,
};
use crate::event::{RunEnd, Usage, What};
use crate::hands::{CallEnd, HandsError};
use crate::message::{Block, Message, shared, text_of};
use crate::model::{ModelError, ModelErrorKind, ModelEvent, ModelRequest, Reply, Stop, UNBOUNDED};

/// What to do when a conversation cannot be made to fit.
const TOO_LONG: &str = "reset the session, or choose a model with a larger window";

/// One run.
#[derive(Clone, Debug)]
pub struct Turn {
    config: TurnConfig,
    transcript: Vec<Arc<Message>>,
    goal: Goal,
    bench: Workbench,
    phase: Phase,
    turns: u32,
    calls_made: u64,
    usage: Usage,
    meter: Meter,
    guard: LoopGuard,
    /// Text of the present answer that was shown.
    streamed: String,
    /// Whether the transcript was summed up for the request that is due.
    summed_up: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    New,
    Looking,
    Asking,
    Calling(Batch),
    Guarding,
    Compacting { why: CompactWhy, kept: Vec<Message> },
    Stopping { batch: Batch, end: RunEnd },
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompactWhy {
    /// The window is getting full.
    Budget,
    /// The provider says that it is too much.
    Overflow,
    /// The person wants it.
    Wanted,
}

impl Turn {
    /// A run on a transcript that is valid: see [`transcript::mend`].
    pub fn new(config: TurnConfig, transcript: Vec<Message>, goal: Goal) -> Self {
        let meter = Meter::new(config.context_tokens);
        let guard = LoopGuard::new(config.repeats_before_asking, config.repeats_max);
        Self {
            config,
            transcript: shared(transcript),
            goal,
            bench: Workbench::default(),
            phase: Phase::New,
            turns: 0,
            calls_made: 0,
            usage: Usage::default(),
            meter,
            guard,
            streamed: String::new(),
            summed_up: false,
        }
    }

    /// What is to be done now that this happened. What does not fit the moment is ignored: an answer
    /// that comes after a stop has nobody to hear it.
    pub fn step(&mut self, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Begin => self.begin(&mut actions),
            Input::Bench(bench) => self.looked(bench, &mut actions),
            Input::Model(event) => self.heard(event, &mut actions),
            Input::ModelFailed(error) => self.model_failed(error, &mut actions),
            Input::Described { call, title, kind, locations } if self.runs(&call) => {
                let (title, kind) = (Some(title), Some(kind));
                let told = What::ToolUpdated { call, title, kind, locations, progress: None };
                actions.push(Action::Show(told));
            }
            Input::Progress { call, message } if self.runs(&call) => {
                actions.push(Action::Show(What::ToolUpdated {
                    call,
                    title: None,
                    kind: None,
                    locations: Vec::new(),
                    progress: Some(message),
                }));
            }
            Input::Described { .. } | Input::Progress { .. } => {}
            Input::CallEnded { call, end } => self.call_ended(&call, end, &mut actions),
            Input::Guard(answer) => self.guard_answered(answer, &mut actions),
            Input::Summary(summary) => self.summed_up(summary, &mut actions),
            Input::Stop(end) => self.stop(end, &mut actions),
        }
        actions
    }

    /// What the run took so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Tokens that the next request would send, as far as known.
    pub fn context_tokens(&self) -> u64 {
        self.meter.estimate(&self.bench, &self.transcript)
    }

    fn begin(&mut self, actions: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::New) {
            return;
        }
        match self.goal.clone() {
            Goal::Answer(prompt) => {
                self.add(prompt, actions);
                self.next_request(actions);
            }
            Goal::Compact => self.compact(CompactWhy::Wanted, actions),
        }
    }

    /// The next request, unless there were enough.
    fn next_request(&mut self, actions: &mut Vec<Action>) {
        if self.turns >= self.config.turns_max {
            return self.finish(RunEnd::MaxTurns { turns: self.turns }, actions);
        }
        self.summed_up = false;
        self.phase = Phase::Looking;
        actions.push(Action::LookAround);
    }

    fn looked(&mut self, bench: Result<Workbench, HandsError>, actions: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Looking) {
            return;
        }
        match bench {
            Ok(bench) => {
                self.bench = bench;
                if self.is_too_full() {
                    self.compact(CompactWhy::Budget, actions);
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

    fn ask(&mut self, actions: &mut Vec<Action>) {
        self.turns = self.turns.saturating_add(1);
        self.streamed.clear();
        self.phase = Phase::Asking;
        actions.push(Action::AskModel(ModelRequest {
            system: self.bench.system.clone(),
            messages: transcript::seen_by(&self.transcript, self.config.takes_images),
            tools: self.bench.tools.definitions(),
            output_tokens_max: None,
            thinking: self.config.thinking,
        }));
    }

    fn heard(&mut self, event: ModelEvent, actions: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Asking) {
            return;
        }
        match event {
            ModelEvent::Text(text) if !text.is_empty() => {
                self.streamed.push_str(&text);
                actions.push(Action::Show(What::Text { text }));
            }
            ModelEvent::Thought(text) if !text.is_empty() => {
                actions.push(Action::Show(What::Thought { text }));
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

    fn replied(&mut self, reply: Reply, actions: &mut Vec<Action>) {
        self.count(reply.usage);
        let blocks = transcript::worth_keeping(reply.blocks);
        let text = text_of(&blocks);
        let says_nothing = text.trim().is_empty() && self.streamed.trim().is_empty();
        if self.streamed.is_empty() && !text.is_empty() {
            actions.push(Action::Show(What::Text { text: text.into_owned() }));
        }
        let is_call = |block: &Block| matches!(block, Block::ToolUse { .. });
        let cut = reply.stop == Stop::MaxTokens && blocks.last().is_some_and(is_call);
        if let Stop::Refusal(message) = reply.stop {
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
                Stop::MaxTokens => RunEnd::MaxTokens,
                _ => RunEnd::Completed,
            };
            if says_nothing && end == RunEnd::Completed {
                let text = "the model gave an empty answer; send the prompt again, or say more";
                actions.push(notice("empty_answer", text.to_owned()));
            }
            return self.finish(end, actions);
        }
        let (blocks, plans) = self.plan(blocks, cut);
        self.add_said(blocks, actions);
        self.meter.answered(reply.usage, &self.bench, &self.transcript);
        self.report_usage(actions);
        self.phase = Phase::Calling(Batch::new(plans));
        self.advance(actions);
    }

    /// Gives each call its own id, and the transcript ids that are there and unlike each other.
    fn plan(&mut self, blocks: Vec<Block>, cut: bool) -> (Vec<Block>, Vec<CallPlan>) {
        let used = transcript::call_ids(&self.transcript);
        let mut plans: Vec<CallPlan> = Vec::new();
        let last = blocks.len().saturating_sub(1);
        let mut kept = Vec::with_capacity(blocks.len());
        for (at, block) in blocks.into_iter().enumerate() {
            let Block::ToolUse { id, name, input, opaque } = block else {
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
            let cut = if cut && at == last { calls::Written::Half } else { calls::Written::Whole };
            plans.push(CallPlan::new(
                own,
                id.clone(),
                name.clone(),
                &input,
                cut,
                &self.bench.tools,
            ));
            kept.push(Block::ToolUse { id, name, input, opaque });
        }
        (kept, plans)
    }

    /// Starts the calls whose turn it is; goes on when there is none left.
    fn advance(&mut self, actions: &mut Vec<Action>) {
        let Phase::Calling(batch) = &mut self.phase else { return };
        batch.start_some(self.config.parallel_calls_max, actions);
        if !batch.is_over() {
            return;
        }
        let (results, fingerprint) = (batch.results(), batch.fingerprint());
        self.add(results, actions);
        match self.guard.judge(fingerprint) {
            Verdict::GoOn => self.next_request(actions),
            Verdict::Ask(repeats) => {
                self.phase = Phase::Guarding;
                actions.push(Action::AskPerson(format!(
                    "The agent did the same {repeats} times in a row, with the same outcome. Let it go on?"
                )));
            }
            Verdict::Stop(repeats) => {
                let text = format!(
                    "stopped: the agent did the same {repeats} times in a row, with the same outcome; tell it what to do differently"
                );
                actions.push(notice("loop_guard", text));
                self.finish(aborted("loop_guard"), actions);
            }
        }
    }

    fn call_ended(&mut self, call: &str, end: CallEnd, actions: &mut Vec<Action>) {
        let (Phase::Calling(batch) | Phase::Stopping { batch, .. }) = &mut self.phase else {
            return;
        };
        if !batch.end(call, end, actions) {
            return;
        }
        match self.phase {
            Phase::Stopping { .. } => self.stop_when_quiet(actions),
            _ => self.advance(actions),
        }
    }

    fn runs(&self, call: &str) -> bool {
        match &self.phase {
            Phase::Calling(batch) | Phase::Stopping { batch, .. } => batch.runs(call),
            _ => false,
        }
    }

    fn guard_answered(&mut self, answer: GuardAnswer, actions: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Guarding) {
            return;
        }
        match answer {
            GuardAnswer::GoOn => self.next_request(actions),
            GuardAnswer::Stop => {
                let text = "stopped: the agent did the same over and over, and nobody let it go on";
                actions.push(notice("loop_guard", text.to_owned()));
                self.finish(aborted("loop_guard"), actions);
            }
        }
    }

    fn model_failed(&mut self, error: ModelError, actions: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Asking) {
            return;
        }
        if error.kind == ModelErrorKind::ContextLength
            && self.streamed.is_empty()
            && !self.summed_up
        {
            return self.compact(CompactWhy::Overflow, actions);
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

    fn compact(&mut self, why: CompactWhy, actions: &mut Vec<Action>) {
        let window = self.config.context_window;
        let Split { summed_up, kept } = compaction::split(&self.transcript, window);
        if summed_up.is_empty() {
            return self.nothing_to_sum_up(why, actions);
        }
        let text = match why {
            CompactWhy::Budget => "the model's window is nearly full; summing up what came before",
            CompactWhy::Overflow => "the conversation is too long for the model; summing it up",
            CompactWhy::Wanted => "summing up the conversation",
        };
        actions.push(notice("compaction", text.to_owned()));
        actions.push(Action::Summarise(compaction::request(&summed_up, window)));
        self.phase = Phase::Compacting { why, kept };
    }

    fn summed_up(&mut self, summary: Result<Summary, ModelError>, actions: &mut Vec<Action>) {
        let Phase::Compacting { why, kept } = &mut self.phase else { return };
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
        actions.push(Action::Restart(self.transcript.clone()));
        let tokens_after = self.context_tokens();
        actions.push(Action::Show(What::Compacted { summary, tokens_before, tokens_after }));
        match why {
            CompactWhy::Wanted => self.finish(RunEnd::Completed, actions),
            CompactWhy::Budget => self.ask(actions),
            CompactWhy::Overflow => {
                // The same request again, only shorter: it was counted before.
                self.turns = self.turns.saturating_sub(1);
                self.ask(actions);
            }
        }
    }

    fn nothing_to_sum_up(&mut self, why: CompactWhy, actions: &mut Vec<Action>) {
        if why == CompactWhy::Wanted {
            let text = "There is nothing to sum up yet.".to_owned();
            actions.push(Action::Show(What::Text { text }));
            return self.finish(RunEnd::Completed, actions);
        }
        let text = "there is nothing before the last message";
        let error = ModelError::new(ModelErrorKind::ContextLength, text);
        self.not_compacted(why, &error, actions);
    }

    /// Goes on without a summary where there is room, and ends where there is none.
    fn not_compacted(&mut self, why: CompactWhy, error: &ModelError, actions: &mut Vec<Action>) {
        let text = format!("the conversation could not be summed up: {error}");
        match why {
            CompactWhy::Wanted => self.finish(failed(error.kind.word(), text), actions),
            CompactWhy::Budget if self.context_tokens() < self.config.context_window => {
                actions.push(notice("compaction", format!("{text}; going on while there is room")));
                self.ask(actions);
            }
            CompactWhy::Budget | CompactWhy::Overflow => {
                actions.push(notice("compaction", text.clone()));
                self.finish(too_long(&text), actions);
            }
        }
    }

    fn stop(&mut self, end: RunEnd, actions: &mut Vec<Action>) {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Calling(batch) => {
                self.phase = Phase::Stopping { batch, end };
                actions.push(Action::CancelCalls);
                self.stop_when_quiet(actions);
            }
            Phase::Asking => {
                self.keep_streamed(actions);
                self.finish(end, actions);
            }
            phase @ (Phase::Stopping { .. } | Phase::Over) => self.phase = phase,
            Phase::New | Phase::Looking | Phase::Guarding | Phase::Compacting { .. } => {
                self.finish(end, actions);
            }
        }
    }

    fn stop_when_quiet(&mut self, actions: &mut Vec<Action>) {
        let Phase::Stopping { batch, end } = &self.phase else { return };
        if batch.is_quiet() {
            let (results, end) = (batch.results(), end.clone());
            self.add(results, actions);
            self.finish(end, actions);
        }
    }

    fn finish(&mut self, end: RunEnd, actions: &mut Vec<Action>) {
        self.phase = Phase::Over;
        actions.push(Action::Finish(end));
    }

    /// What was shown of an answer that never came to its end is what the model is told it said.
    fn keep_streamed(&mut self, actions: &mut Vec<Action>) {
        let text = std::mem::take(&mut self.streamed);
        self.add_said(transcript::worth_keeping(vec![Block::text(text)]), actions);
    }

    fn add_said(&mut self, blocks: Vec<Block>, actions: &mut Vec<Action>) {
        let says = |block: &Block| !matches!(block, Block::Thinking { .. });
        if blocks.iter().any(says) {
            self.add(Message::assistant(blocks), actions);
        }
    }

    fn add(&mut self, message: Message, actions: &mut Vec<Action>) {
        self.meter.add(&message);
        let message = Arc::new(message);
        self.transcript.push(Arc::clone(&message));
        actions.push(Action::Save(vec![message]));
    }

    fn count(&mut self, usage: Usage) {
        self.usage += budget::priced(usage, self.config.prices);
    }

    fn report_usage(&self, actions: &mut Vec<Action>) {
        actions.push(Action::Show(What::UsageReported {
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

fn notice(topic: &str, text: String) -> Action {
    Action::Show(What::Notice { topic: topic.to_owned(), text })
}

fn aborted(by: &str) -> RunEnd {
    RunEnd::Aborted { by: by.to_owned() }
}

fn failed(kind: &str, message: String) -> RunEnd {
    RunEnd::Failed { kind: kind.to_owned(), message }
}

fn too_long(why: &str) -> RunEnd {
    failed("context_length", format!("{why}; {TOO_LONG}"))
}

fn refused(message: String) -> RunEnd {
    let empty = message.trim().is_empty();
    let message = if empty { "the model declined to answer".to_owned() } else { message };
    RunEnd::Refused { message }
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
