//! Translates the events of a session into protocol updates. Pure: ledger entries and tool reports
//! in, client updates out.
//!
//! Only the update kinds of version 1 are sent to every client; some clients fail on an unknown
//! kind.

mod approval_content;
mod call_content;
mod call_index;
mod call_view;
mod entry_updates;
mod message_assembler;
mod prompt_response;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Instant;

use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, ContentBlock, ContentChunk, Notice, NoticeSeverity,
    SessionInfoUpdate, SessionUpdate, TerminalId, ToolCallContent, ToolCallUpdate,
};
use serde_json::Value;
use zero_client::wire::SessionInfo;
use zero_core::event::{
    ApprovalRequest, Event, EventKind, RunOutcome, TokenUsage, describe_compaction,
    describe_fallback,
};
use zero_core::{FileLocation, RunId, ToolKind, ToolOutcome, ToolResult};

pub(crate) use self::approval_content::permission_options;
use self::call_content::CallResultView;
use self::call_index::CallIndex;
use self::call_view::{CallFacts, CallView, FactRank, TITLE_CHARS_MAX};
use self::entry_updates::{
    add_costs, call_title, change_updates, clean_title, entry_remark_update, format_rfc3339,
    plan_update, usage_update, user_message_updates,
};
use self::message_assembler::{MessageAssembler, MessageKind};
pub(crate) use self::prompt_response::build_response;
use crate::client_features::ClientFeatures;
use crate::text_sanitizer::{shorten_for_display, visible_line};

/// Longest plan step or notice, in characters.
const LINE_CHARS_MAX: usize = 1000;
/// Most bytes of a compaction summary that is shown.
const SUMMARY_BYTES_MAX: usize = 256 * 1024;

/// Whether an entry is live or replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryMode {
    /// It happens now; the client knows its own prompts.
    Live,
    /// It happens now, in a run that another client started.
    Observed,
    /// It is replayed to a client that knows nothing yet.
    Replay,
}

/// What a question belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuestionAnchor {
    /// A call that waits for the answer.
    Call,
    /// Nothing else: a call is shown that represents only the question.
    Standalone,
}

/// What the client was sent so far, as far as later updates depend on it.
pub(crate) struct UpdatePresenter {
    caps: ClientFeatures,
    cwd: PathBuf,
    assembler: MessageAssembler,
    calls: CallIndex,
    /// Cost of the runs that have ended, in US dollars.
    spent: Option<f64>,
    /// Number of remarks of zero so far.
    remarks: u32,
}

impl UpdatePresenter {
    /// Creates the presenter of a session in a folder.
    pub(crate) fn new(caps: ClientFeatures, cwd: PathBuf) -> Self {
        Self {
            caps,
            cwd,
            assembler: MessageAssembler::default(),
            calls: CallIndex::default(),
            spent: None,
            remarks: 0,
        }
    }

    /// The state of a session that is opened or loaded: its title and context usage.
    pub(crate) fn present_session_info(&mut self, info: &SessionInfo) -> Vec<SessionUpdate> {
        self.spent = info.usage.cost_usd;
        let mut update = SessionInfoUpdate::new();
        if let Some(title) = &info.title {
            update = update.title(visible_line(title, TITLE_CHARS_MAX));
        }
        if let Some(time) = format_rfc3339(info.updated_ms) {
            update = update.updated_at(time);
        }
        let mut updates = vec![SessionUpdate::SessionInfoUpdate(update)];
        if let (Some(used), Some(size)) = (info.context_tokens, info.context_window) {
            updates.extend(usage_update(used, size, self.spent));
        }
        updates
    }

    /// A remark of zero at the end of a run's answer.
    pub(crate) fn present_closing_remark(
        &mut self,
        run: Option<&RunId>,
        text: &str,
    ) -> SessionUpdate {
        let text = format!("\n\n[zero] {}\n", visible_line(text, LINE_CHARS_MAX));
        let message = self.assembler.message_id(run, MessageKind::Answer);
        SessionUpdate::AgentMessageChunk(ContentChunk::new(text.into()).message_id(message))
    }

    /// Presents a ledger entry. The end of a run is the response to its prompt, not an update.
    /// Questions are presented by [`present_approval`](Self::present_approval) and
    /// [`present_choice`](Self::present_choice).
    pub(crate) fn present_entry(
        &mut self,
        event: &Event,
        moment: DeliveryMode,
    ) -> Vec<SessionUpdate> {
        let run = event.run.as_ref();
        let is_live = moment != DeliveryMode::Replay;
        match &event.kind {
            EventKind::Prompt { text, attachments } if moment != DeliveryMode::Live => {
                user_message_updates(run, event.seq, text, attachments)
            }
            EventKind::Text { text } => self.present_text(run, MessageKind::Answer, text),
            EventKind::Thought { text } => self.present_text(run, MessageKind::Thought, text),
            EventKind::ToolStarted { call, name, title, kind, input, locations, .. } => {
                self.assembler.break_message(run);
                let named = match locations.is_empty() {
                    true => call_content::input_locations(*kind, input),
                    false => locations.clone(),
                };
                let facts = CallFacts {
                    rank: FactRank::Named,
                    title: Some(call_title(name, title, *kind, input)),
                    kind: Some(*kind),
                    name: Some(name),
                    input: Some(call_content::raw_input(input)),
                    is_rewritten: false,
                    locations: &named,
                };
                self.learn_call(call, run, facts).1
            }
            EventKind::ToolUpdated { call, title, kind, locations, progress, .. } => {
                let facts = CallFacts {
                    title: title.as_deref().map(clean_title),
                    kind: *kind,
                    locations,
                    ..CallFacts::empty(FactRank::Described)
                };
                let (known, mut updates) = self.learn_call(call, run, facts);
                if let (Some(call), Some(progress), true) = (known, progress, is_live) {
                    updates.extend(wrap_updates(call.report_progress(progress)));
                }
                updates
            }
            EventKind::ToolEnded { call, outcome, .. } => {
                self.assembler.break_message(run);
                self.end_call(call, run, outcome)
            }
            EventKind::Plan { entries } => vec![plan_update(entries)],
            EventKind::ApprovalResolved { id, answer, .. } if is_live => {
                self.resolve_question(id, answer)
            }
            EventKind::UsageReported { run_usage, context_tokens, context_window } if is_live => {
                let cost = add_costs(self.spent, run_usage.cost_usd);
                usage_update(*context_tokens, *context_window, cost).into_iter().collect()
            }
            EventKind::Notice { topic, text } => self.present_notice(event, topic, text, moment),
            EventKind::Compacted { summary, tokens_before, tokens_after, extent } => {
                let text = describe_compaction(*tokens_before, *tokens_after, *extent);
                self.present_compaction(event, summary, &text)
            }
            EventKind::ModelFallback { from, to, reason } => {
                let text = describe_fallback(from, to, reason);
                self.present_notice(event, "fallback", &text, moment)
            }
            EventKind::Changed { field, value } => change_updates(field, value.as_deref(), moment),
            EventKind::RunEnded { end, usage } => self.present_run_end(event, end, *usage, moment),
            EventKind::Opaque(opaque) => self.present_opaque(event, &opaque.describe()),
            // A run that rewinds answers what it did.
            EventKind::Rewound { prompt, scope, files, .. } if event.run.is_none() => {
                self.present_opaque(event, &scope.describe_rewind(*prompt, *files))
            }
            EventKind::Prompt { .. }
            | EventKind::RunStarted { .. }
            | EventKind::ApprovalRequested(_)
            | EventKind::ApprovalResolved { .. }
            | EventKind::QuestionAsked(_)
            | EventKind::QuestionAnswered { .. }
            | EventKind::UsageReported { .. }
            | EventKind::Reset { .. }
            | EventKind::Rewound { .. } => Vec::new(),
        }
    }

    /// The tools have described a call. The ledger may be slower or faster; the first of the two
    /// announces the call.
    pub(crate) fn present_description(
        &mut self,
        call: &str,
        title: &str,
        kind: ToolKind,
        locations: &[FileLocation],
    ) -> Vec<SessionUpdate> {
        let facts = CallFacts {
            title: Some(clean_title(title)),
            kind: Some(kind),
            locations,
            ..CallFacts::empty(FactRank::Described)
        };
        self.learn_call(call, None, facts).1
    }

    /// A call was allowed and runs.
    pub(crate) fn present_call_start(&mut self, call: &str) -> Vec<SessionUpdate> {
        let (known, mut updates) = self.learn_call(call, None, CallFacts::empty(FactRank::Guessed));
        if let Some(call) = known {
            call.clear_questions();
            updates.extend(wrap_updates(call.start()));
        }
        updates
    }

    /// A command prints while it runs. A terminal gets the output at once; other clients see its
    /// tail, at most four times a second, see [`UpdatePresenter::next_output_due`].
    pub(crate) fn present_output(
        &mut self,
        call: &str,
        text: &str,
        now: Instant,
    ) -> Vec<SessionUpdate> {
        let (known, mut updates) = self.learn_call(call, None, CallFacts::empty(FactRank::Guessed));
        if let Some(call) = known {
            updates.extend(wrap_updates(call.append_output(text, now)));
        }
        updates
    }

    /// When output that was held back can be [presented](Self::present_held_output).
    pub(crate) fn next_output_due(&self) -> Option<Instant> {
        self.calls.open_calls().filter_map(CallView::snapshot_due).min()
    }

    /// The output that was held back until now.
    pub(crate) fn present_held_output(&mut self, now: Instant) -> Vec<SessionUpdate> {
        let calls = self.calls.open_calls_mut().filter(|call| call.snapshot_due().is_some());
        wrap_updates(calls.filter_map(|call| call.take_snapshot(now)).collect::<Vec<_>>())
    }

    /// The client makes a call that is not in the ledger.
    pub(crate) fn present_client_call(
        &mut self,
        call: &str,
        tool: &str,
        input: &Value,
    ) -> Vec<SessionUpdate> {
        let named = call_content::input_locations(ToolKind::Other, input);
        let facts = CallFacts {
            locations: &named,
            title: Some(call_title(tool, "", ToolKind::Other, input)),
            name: Some(tool),
            input: Some(call_content::raw_input(input)),
            ..CallFacts::empty(FactRank::Named)
        };
        self.learn_call(call, None, facts).1
    }

    /// A call that is not in the ledger has ended. If it was never shown, its end is not shown
    /// either.
    pub(crate) fn present_client_call_end(
        &mut self,
        call: &str,
        outcome: &ToolOutcome,
    ) -> Vec<SessionUpdate> {
        if !self.calls.contains(call) {
            return Vec::new();
        }
        let mut updates = self.end_call(call, None, outcome);
        updates.extend(outcome.result().and_then(ToolResult::plan).map(plan_update));
        updates
    }

    /// The user is asked about a call: the updates to send first, and the call as shown in the
    /// question.
    pub(crate) fn present_approval(
        &mut self,
        request: &ApprovalRequest,
    ) -> (Vec<SessionUpdate>, ToolCallUpdate) {
        let about =
            if request.call.is_empty() { QuestionAnchor::Standalone } else { QuestionAnchor::Call };
        let call = if about == QuestionAnchor::Standalone { &request.id } else { &request.call };
        let rewritten = request.input.as_deref().cloned();
        let is_rewritten = rewritten.is_some();
        let input = rewritten.or_else(|| approval_content::question_input(request));
        let facts = CallFacts {
            title: Some(approval_content::question_title(request, TITLE_CHARS_MAX)),
            kind: approval_content::question_kind(request),
            name: (about == QuestionAnchor::Call && !request.tool.is_empty())
                .then_some(&*request.tool),
            input: input.as_ref().map(call_content::raw_input),
            is_rewritten,
            ..CallFacts::empty(FactRank::Asked)
        };
        let shown = approval_content::question_content(request, &self.cwd);
        self.present_question(call, about, &request.id, facts, shown)
    }

    /// The same for a run. A call that is known only from the question ends with the run.
    pub(crate) fn present_run_approval(
        &mut self,
        run: Option<&RunId>,
        request: &ApprovalRequest,
    ) -> (Vec<SessionUpdate>, ToolCallUpdate) {
        let update = self.present_approval(request);
        let known = self.calls.get_mut(&request.call).filter(|call| call.run.is_none());
        if let Some(call) = known {
            call.run = run.cloned();
        }
        update
    }

    /// The user is asked to choose: the call that represents the question, and the same call as
    /// shown in the question.
    pub(crate) fn present_choice(
        &mut self,
        question: &str,
        message: &str,
    ) -> (Vec<SessionUpdate>, ToolCallUpdate) {
        let title = clean_title(message);
        let shown = (title != message).then(|| ToolCallContent::from(message)).into_iter();
        let facts = CallFacts { title: Some(title), ..CallFacts::empty(FactRank::Asked) };
        // A question can need several choices in a row; each is shown as a call of its own.
        let ids = (1..).map(|number| choice_call_id(question, number));
        let call = ids.into_iter().find(|id| !self.calls.contains(id)).unwrap_or_default();
        self.present_question(&call, QuestionAnchor::Standalone, question, facts, shown.collect())
    }

    fn present_question(
        &mut self,
        call: &str,
        about: QuestionAnchor,
        question: &str,
        facts: CallFacts<'_>,
        shown: Vec<ToolCallContent>,
    ) -> (Vec<SessionUpdate>, ToolCallUpdate) {
        let (known, updates) = self.learn_call(call, None, facts);
        let update = match known {
            Some(call) => {
                if about == QuestionAnchor::Standalone {
                    call.mark_lone_question();
                }
                call.ask_question(question, shown)
            }
            None => ToolCallUpdate::new(call.to_owned(), Default::default()),
        };
        (updates, update)
    }

    /// Handles the answer to a question: `allow_once`, `allow_always`, `reject_once`,
    /// `reject_always`, `expired` or `cancelled`.
    pub(crate) fn resolve_question(&mut self, question: &str, answer: &str) -> Vec<SessionUpdate> {
        let content_updates =
            self.calls.open_calls_mut().find_map(|call| call.answer_question(question, answer));
        self.calls.drop_ended();
        wrap_updates(content_updates.unwrap_or_default())
    }

    /// Ends the calls that represent only a question, when no question is pending.
    pub(crate) fn end_lone_questions(&mut self) -> Vec<SessionUpdate> {
        self.close_calls("the question was withdrawn", |_, call| call.is_lone_question())
    }

    /// The run that a call belongs to; `None` if it is not known or the call has ended.
    pub(crate) fn call_run(&self, call: &str) -> Option<&RunId> {
        self.calls.get(call)?.run.as_ref()
    }

    /// Ends the open calls that match by name and run; nothing more is expected of them.
    pub(crate) fn abandon_matching(
        &mut self,
        words: &str,
        which: impl Fn(&str, Option<&RunId>) -> bool,
    ) -> Vec<SessionUpdate> {
        self.close_calls(words, |name, call| which(name, call.run.as_ref()))
    }

    /// Ends all open calls; nothing more is expected of them.
    pub(crate) fn abandon_all(&mut self, words: &str) -> Vec<SessionUpdate> {
        self.close_calls(words, |_, _| true)
    }

    fn close_calls(
        &mut self,
        words: &str,
        which: impl Fn(&str, &CallView) -> bool,
    ) -> Vec<SessionUpdate> {
        let mut updates = Vec::new();
        self.calls.for_each_open(|name, call| {
            if which(name, call) {
                updates.extend(call.abandon(words));
            }
        });
        self.calls.drop_ended();
        wrap_updates(updates)
    }

    /// Updates what is known about a call; `None` for a call that has ended.
    /// A call runs its command in a terminal of the client, which shows it from now on.
    pub(crate) fn present_terminal(
        &mut self,
        call: &str,
        terminal: TerminalId,
    ) -> Vec<SessionUpdate> {
        let (known, mut updates) = self.learn_call(call, None, CallFacts::empty(FactRank::Guessed));
        if let Some(call) = known {
            updates.extend(wrap_updates(call.open_client_terminal(terminal)));
        }
        updates
    }

    fn learn_call(
        &mut self,
        call: &str,
        run: Option<&RunId>,
        facts: CallFacts<'_>,
    ) -> (Option<&mut CallView>, Vec<SessionUpdate>) {
        let mut updates = Vec::new();
        // Some gateways reuse a call id; the client sees another call.
        let uses = match self.calls.prior_uses_of_ended(call) {
            Some(uses) if facts.rank == FactRank::Named => Some(uses.saturating_add(1)),
            Some(_) => return (None, updates),
            None => (!self.calls.contains(call)).then_some(0),
        };
        match uses {
            Some(uses) => {
                let id = match uses {
                    0 => call.to_owned(),
                    again => format!("{call}#{}", again.saturating_add(1)),
                };
                let (mut known, announced) =
                    CallView::announce(id, facts, self.caps.shows_output, &self.cwd);
                known.uses = uses;
                if let Some(mut removed_call) = self.calls.add(call, known) {
                    let words = "too many calls are open; this one is not followed";
                    updates.extend(wrap_updates(removed_call.abandon(words)));
                }
                updates.push(SessionUpdate::ToolCall(announced));
            }
            None => {
                let update =
                    self.calls.get_mut(call).and_then(|known| known.merge_facts(facts, &self.cwd));
                updates.extend(wrap_updates(update));
            }
        }
        let mut known = self.calls.get_mut(call);
        if let Some(known) = known.as_mut().filter(|known| known.run.is_none()) {
            known.run = run.cloned();
        }
        (known, updates)
    }

    fn end_call(
        &mut self,
        call: &str,
        run: Option<&RunId>,
        outcome: &ToolOutcome,
    ) -> Vec<SessionUpdate> {
        let cwd = self.cwd.clone();
        let (known, mut updates) = self.learn_call(call, run, CallFacts::empty(FactRank::Guessed));
        if let Some(call) = known {
            updates.extend(wrap_updates(call.finish(&CallResultView::new(outcome), &cwd)));
        }
        self.calls.drop_ended();
        updates
    }

    fn present_text(
        &mut self,
        run: Option<&RunId>,
        kind: MessageKind,
        text: &str,
    ) -> Vec<SessionUpdate> {
        if text.is_empty() {
            return Vec::new();
        }
        let chunk = ContentChunk::new(text.into()).message_id(self.assembler.message_id(run, kind));
        vec![match kind {
            MessageKind::Answer => SessionUpdate::AgentMessageChunk(chunk),
            MessageKind::Thought => SessionUpdate::AgentThoughtChunk(chunk),
        }]
    }

    /// Clients that do not support notices get them as thoughts, apart from the answer. A replay
    /// includes only the notice that says why a run stopped.
    fn present_notice(
        &self,
        event: &Event,
        topic: &str,
        text: &str,
        moment: DeliveryMode,
    ) -> Vec<SessionUpdate> {
        let text = visible_line(text, LINE_CHARS_MAX);
        let is_past =
            moment == DeliveryMode::Replay && (self.caps.takes_notices || topic != "loop_guard");
        if text.is_empty() || is_past {
            return Vec::new();
        }
        if !self.caps.takes_notices {
            return vec![entry_remark_update(event, &text)];
        }
        let severity = match topic {
            "retry" | "fallback" | "loop_guard" => NoticeSeverity::Warning,
            _ => NoticeSeverity::Info,
        };
        vec![SessionUpdate::Notice(Notice::new(severity, text))]
    }

    /// Says that there is an entry that cannot be shown, also in a replay.
    fn present_opaque(&self, event: &Event, text: &str) -> Vec<SessionUpdate> {
        let text = visible_line(text, LINE_CHARS_MAX);
        vec![match self.caps.takes_notices {
            true => SessionUpdate::Notice(Notice::new(NoticeSeverity::Info, text)),
            false => entry_remark_update(event, &text),
        }]
    }

    /// Whether the client was shown a call.
    pub(crate) fn has_shown(&self, call: &str) -> bool {
        self.calls.contains(call)
    }

    /// Whether the client supports notices. Others get them in the messages of a turn.
    pub(crate) fn supports_notices(&self) -> bool {
        self.caps.takes_notices
    }

    /// A remark of zero that is not a ledger entry, separate from the agent's messages.
    pub(crate) fn present_remark(&mut self, text: &str) -> SessionUpdate {
        let text = visible_line(text, LINE_CHARS_MAX);
        if self.caps.takes_notices {
            return SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, text));
        }
        self.remarks = self.remarks.saturating_add(1);
        entry_updates::remark_update(self.remarks, &text)
    }

    fn present_compaction(&self, event: &Event, summary: &str, text: &str) -> Vec<SessionUpdate> {
        if !self.caps.takes_compaction {
            return vec![entry_remark_update(event, text)];
        }
        let summary = shorten_for_display(summary, SUMMARY_BYTES_MAX);
        let summary = format!("{text}\n\n{summary}");
        let id = format!("compaction-{}", event.seq);
        let update = CompactionUpdate::new(id, CompactionStatus::Completed)
            .summary(vec![ContentBlock::from(summary)]);
        vec![SessionUpdate::CompactionUpdate(update)]
    }

    fn present_run_end(
        &mut self,
        event: &Event,
        end: &RunOutcome,
        usage: TokenUsage,
        moment: DeliveryMode,
    ) -> Vec<SessionUpdate> {
        let run = event.run.as_ref();
        // Editors show little or nothing of a stop reason.
        let remark = end.describe_limit();
        let remark = remark.map(|text| self.present_closing_remark(run, &text));
        self.assembler.end_run(run);
        let words = match end {
            RunOutcome::Aborted { .. } => "stopped with the run",
            RunOutcome::Interrupted => "zero stopped before the outcome was known",
            _ => "the run ended before the outcome was known",
        };
        let mut updates = match run {
            Some(run) => {
                // A session has one run at a time, so a question without a run belongs to this one.
                self.close_calls(words, |_, call| {
                    call.run.as_ref() == Some(run) || call.is_lone_question()
                })
            }
            None => Vec::new(),
        };
        updates.extend(remark);
        if moment != DeliveryMode::Replay {
            self.spent = add_costs(self.spent, usage.cost_usd);
            let update =
                format_rfc3339(event.time_ms).map(|time| SessionInfoUpdate::new().updated_at(time));
            updates.extend(update.map(SessionUpdate::SessionInfoUpdate));
        }
        updates
    }
}

/// Id of the call that represents a choice of a question.
fn choice_call_id(question: &str, number: usize) -> String {
    match number {
        1 => format!("question_{question}"),
        _ => format!("question_{question}_{number}"),
    }
}

fn wrap_updates(updates: impl IntoIterator<Item = ToolCallUpdate>) -> Vec<SessionUpdate> {
    updates.into_iter().map(SessionUpdate::ToolCallUpdate).collect()
}
