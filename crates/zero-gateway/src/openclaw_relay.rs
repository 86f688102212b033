//! Translates ledger entries into events of the OpenClaw protocol: `chat`, `agent`,
//! `exec.approval.…`.
//!
//! Pure: takes ledger entries and returns events for one connection. A run's reply is sent as one
//! cumulative text, also across tool calls, so a client that lost an event or connected late gets
//! the full text with the next one. Because each delta repeats the earlier text, deltas of a long
//! reply are held back until enough is new. The bytes sent therefore stay proportional to the
//! length of the reply.
//!
//! Not here: the source of the entries (`session_watcher`) and clients that receive the ledger
//! itself.

mod translation;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zero_core::event::{
    ApprovalRequest, Event, EventKind, RunOutcome, TokenUsage, describe_compaction,
    describe_fallback,
};
use zero_core::{RunId, ToolKind};
use zero_wire::chat::ChatMessage;
use zero_wire::events::{
    AGENT, APPROVAL_REQUESTED, APPROVAL_RESOLVED, AgentEvent, AgentStream, ApprovalRequestedEvent,
    ApprovalResolvedEvent, CHAT, ChatEvent, ChatRunState,
};

use crate::send_queue::SendQueue;

pub(crate) use translation::{allowed_decisions, approval_command, run_failure};

/// Maximum size of a reply that is sent, in bytes of JSON; the history has the rest. An update
/// contains the reply and its thoughts several times, and all copies have to fit into the send
/// queue.
const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Appended to a reply that was truncated.
const REPLY_CUT: &str = "\n\n[the reply is longer than can be shown here]";
/// A reply shorter than this is sent without being held back.
const SHORT_REPLY_BYTES: usize = 4 * 1024;
/// A longer reply is sent once 1/`NEW_SHARE` of it is new.
const NEW_SHARE: usize = 64;
/// Maximum number of pending questions that are repeated for clients that connect late.
const QUESTIONS_MAX: usize = 256;

/// One event for a connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RelayEvent {
    /// Text and outcome of a run.
    Chat(Box<ChatEvent>),
    /// Activity of a run.
    Agent(Box<AgentEvent>),
    /// An approval is requested.
    ApprovalRequested(Box<ApprovalRequestedEvent>),
    /// An approval was answered.
    ApprovalResolved(ApprovalResolvedEvent),
}

impl RelayEvent {
    /// Sends the event. Returns false if the connection is closed.
    pub(crate) fn send(&self, outbox: &SendQueue) -> bool {
        match self {
            Self::Chat(event) => outbox.send_event(CHAT, event),
            Self::Agent(event) => outbox.send_event(AGENT, event),
            Self::ApprovalRequested(event) => outbox.send_event(APPROVAL_REQUESTED, event),
            Self::ApprovalResolved(event) => outbox.send_event(APPROVAL_RESOLVED, event),
        }
    }
}

/// Optional event kinds a connection subscribes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RelayInterest {
    /// Tool events.
    pub(crate) tools: bool,
    /// Approval requests.
    pub(crate) approvals: bool,
}

/// Session fields that are part of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelaySessionInfo {
    /// The session's full key, such as `agent:main:main`.
    pub(crate) key: String,
    /// Name of the session's agent, such as `main`.
    pub(crate) agent: String,
    /// Where the session's tools run.
    pub(crate) host: String,
}

/// Produces the events of one session for one connection.
pub(crate) struct OpenClawRelay {
    about: Arc<RelaySessionInfo>,
    interest: RelayInterest,
    runs: BTreeMap<RunId, RunRelayState>,
    questions: BTreeMap<String, ApprovalRequestedEvent>,
}

impl OpenClawRelay {
    /// Initializes the state from the newest ledger entries. Only active runs matter; `active`
    /// names runs that may have begun before the first of these entries.
    pub(crate) fn from_history(
        about: Arc<RelaySessionInfo>,
        interest: RelayInterest,
        active: impl IntoIterator<Item = RunId>,
        earlier: &[Event],
    ) -> Self {
        let runs = active.into_iter().map(|run| (run, RunRelayState::default())).collect();
        let mut relay = Self { about, interest, runs, questions: BTreeMap::new() };
        for event in earlier {
            relay.apply_event(event, &mut RelayOutput::Closed);
        }
        relay
    }

    /// Appends the events that a late subscriber needs: all text so far and the pending questions.
    pub(crate) fn catch_up(&mut self, events: &mut Vec<RelayEvent>) {
        self.flush(FlushScope::All, events);
        if self.interest.approvals {
            events.extend(self.questions.values().map(|request_event| {
                RelayEvent::ApprovalRequested(Box::new(request_event.clone()))
            }));
        }
    }

    /// Processes the next ledger entry. Text is buffered until [`OpenClawRelay::flush`] or the next
    /// event of another kind.
    pub(crate) fn handle_event(
        &mut self,
        event: &Event,
        capacity: SendCapacity,
        events: &mut Vec<RelayEvent>,
    ) {
        self.apply_event(event, &mut RelayOutput::Open { events, capacity });
    }

    /// Sends buffered text: all of it, or only where enough is new.
    pub(crate) fn flush(&mut self, which: FlushScope, events: &mut Vec<RelayEvent>) {
        for (run, track) in &mut self.runs {
            if which == FlushScope::All || track.has_enough_new() {
                let output = &mut RelayOutput::Open { events, capacity: SendCapacity::Ample };
                RunEventWriter { about: &self.about, run, track, output, time_ms: None }
                    .flush_text();
            }
        }
    }

    /// Whether text is buffered.
    pub(crate) fn has_held_text(&self) -> bool {
        self.runs.values().any(RunRelayState::has_new)
    }

    /// Whether a run is active.
    pub(crate) fn is_busy(&self) -> bool {
        !self.runs.is_empty()
    }

    fn apply_event(&mut self, event: &Event, output: &mut RelayOutput<'_>) {
        self.apply_question(event, output);
        let Some(run) = &event.run else { return };
        if let EventKind::RunEnded { end, usage } = &event.kind {
            self.questions.retain(|_, request_event| {
                request_event.request.run_id.as_deref() != Some(run.as_str())
            });
            if let Some(mut track) = self.runs.remove(run) {
                self.run_writer(run, &mut track, event, output).write_end(end, usage);
            }
            return;
        }
        let begins = matches!(event.kind, EventKind::Prompt { .. } | EventKind::RunStarted { .. });
        let known = self.runs.remove(run);
        // Entries of a run that is over, or whose start was not seen, are ignored.
        let Some(mut track) = known.or_else(|| begins.then(RunRelayState::default)) else { return };
        let interest = self.interest;
        self.run_writer(run, &mut track, event, output).write_event(&event.kind, interest);
        self.runs.insert(run.clone(), track);
    }

    fn run_writer<'a, 'b>(
        &'a self,
        run: &'a RunId,
        track: &'a mut RunRelayState,
        event: &Event,
        output: &'a mut RelayOutput<'b>,
    ) -> RunEventWriter<'a, 'b> {
        RunEventWriter { about: &self.about, run, track, output, time_ms: Some(event.time_ms) }
    }

    /// Processes questions, which belong to the session and may name no run.
    fn apply_question(&mut self, event: &Event, output: &mut RelayOutput<'_>) {
        match &event.kind {
            EventKind::ApprovalRequested(request) => {
                let request_event = translation::approval_requested(
                    request,
                    &self.about,
                    event.run.as_ref(),
                    event.time_ms,
                );
                if self.interest.approvals {
                    output.emit(|| RelayEvent::ApprovalRequested(Box::new(request_event.clone())));
                }
                if self.questions.len() < QUESTIONS_MAX {
                    self.questions.insert(request.id.clone(), request_event);
                }
            }
            EventKind::ApprovalResolved { id, answer, by } => {
                self.questions.remove(id);
                if self.interest.approvals {
                    output.emit(|| {
                        RelayEvent::ApprovalResolved(translation::approval_resolved(
                            id,
                            answer,
                            by,
                            event.time_ms,
                        ))
                    });
                }
            }
            _ => {}
        }
    }
}

/// The full text of a run, as its events would carry it.
pub(crate) fn run_text(events: &[Event], run: &RunId) -> String {
    let mut track = RunRelayState::default();
    for event in events.iter().filter(|event| event.run.as_ref() == Some(run)) {
        track.apply(&event.kind);
    }
    track.text.content
}

/// Which buffered text is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushScope {
    /// The text of all runs, however little is new.
    All,
    /// The text of runs with enough new text.
    EnoughNew,
}

/// Whether the send queue has capacity for large events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendCapacity {
    /// It has.
    Ample,
    /// The queue is long: buffered text is sent later, together with text that arrives until then.
    Low,
}

/// Where events go; they are discarded while the history is processed.
enum RelayOutput<'a> {
    Open { events: &'a mut Vec<RelayEvent>, capacity: SendCapacity },
    Closed,
}

impl RelayOutput<'_> {
    fn emit(&mut self, make_event: impl FnOnce() -> RelayEvent) {
        if let Self::Open { events: all, .. } = self {
            all.push(make_event());
        }
    }
}

/// State of one run.
#[derive(Default)]
struct RunRelayState {
    /// Sequence number of the run's events on this connection.
    seq: u64,
    started_ms: Option<i64>,
    /// Time of the run's last text, in milliseconds since the Unix epoch.
    reply_ms: i64,
    text: StreamedText,
    thoughts: StreamedText,
    calls: BTreeMap<String, RelayedCall>,
}

/// A growing text and the length already sent.
#[derive(Default)]
struct StreamedText {
    content: String,
    /// Size of the text in bytes of JSON.
    json_bytes: usize,
    sent: usize,
    /// Another event came after the last text, so the next text starts a new paragraph.
    interrupted: bool,
    cut: bool,
}

/// A call that has not ended.
struct RelayedCall {
    name: String,
    title: String,
    kind: ToolKind,
}

impl StreamedText {
    fn append(&mut self, more: &str) {
        if more.is_empty() || self.cut {
            return;
        }
        if std::mem::take(&mut self.interrupted) && !self.content.is_empty() {
            self.push_bounded(if self.content.ends_with('\n') { "\n" } else { "\n\n" });
        }
        self.push_bounded(more);
    }

    /// Appends as much of `more` as fits.
    fn push_bounded(&mut self, more: &str) {
        let mut bytes = self.json_bytes;
        let too_long = more.char_indices().find(|(_, character)| {
            bytes = bytes.saturating_add(json_char_bytes(*character));
            bytes > REPLY_BYTES_MAX
        });
        let Some((end, _)) = too_long else {
            self.json_bytes = bytes;
            return self.content.push_str(more);
        };
        self.cut = true;
        self.content.push_str(more.get(..end).unwrap_or_default());
        self.content.push_str(REPLY_CUT);
    }

    fn new_bytes(&self) -> usize {
        self.content.len() - self.sent
    }

    /// Returns the whole text and its unsent part, and marks all of it as sent.
    fn take_new(&mut self) -> Option<(&str, &str)> {
        let new = self.content.get(self.sent..).filter(|new| !new.is_empty())?;
        self.sent = self.content.len();
        Some((&self.content, new))
    }
}

/// Length of a character in a JSON string, in bytes.
fn json_char_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

impl RunRelayState {
    /// Updates the state of the run with an entry.
    fn apply(&mut self, kind: &EventKind) {
        match kind {
            EventKind::Text { text } => {
                self.thoughts.interrupted = true;
                self.text.append(text);
            }
            EventKind::Thought { text } => self.thoughts.append(text),
            EventKind::ToolStarted { call, name, title, kind, .. } => {
                self.text.interrupted = true;
                self.thoughts.interrupted = true;
                let known = RelayedCall { name: name.clone(), title: title.clone(), kind: *kind };
                self.calls.insert(call.clone(), known);
            }
            EventKind::ToolUpdated { call, title, kind, .. } => {
                if let Some(known) = self.calls.get_mut(call) {
                    known.title = title.clone().unwrap_or_else(|| std::mem::take(&mut known.title));
                    known.kind = kind.unwrap_or(known.kind);
                }
            }
            _ => {}
        }
    }

    fn has_new(&self) -> bool {
        self.text.new_bytes() + self.thoughts.new_bytes() > 0
    }

    fn has_enough_new(&self) -> bool {
        let new = self.text.new_bytes() + self.thoughts.new_bytes();
        let all = self.text.content.len() + self.thoughts.content.len();
        new > 0 && (all < SHORT_REPLY_BYTES || new >= all / NEW_SHARE)
    }

    fn message(&self) -> Option<ChatMessage> {
        translation::reply_message(&self.thoughts.content, &self.text.content, self.reply_ms)
    }
}

/// Writes the events of one run.
struct RunEventWriter<'a, 'b> {
    about: &'a RelaySessionInfo,
    run: &'a RunId,
    track: &'a mut RunRelayState,
    output: &'a mut RelayOutput<'b>,
    /// Time of the event; the time of the run's last text if unknown.
    time_ms: Option<i64>,
}

impl RunEventWriter<'_, '_> {
    fn write_event(&mut self, kind: &EventKind, interest: RelayInterest) {
        if let EventKind::Text { .. } | EventKind::Thought { .. } = kind {
            self.track.reply_ms = self.time_ms.unwrap_or_default();
            return self.track.apply(kind);
        }
        // Sends earlier text first, to keep the order.
        self.flush_text_if_capacity();
        self.track.apply(kind);
        match kind {
            EventKind::RunStarted { model, .. } => {
                self.track.started_ms = self.time_ms;
                let model = model.clone();
                self.write_lifecycle(
                    json!({"phase": "start", "startedAt": self.time_ms, "model": model}),
                );
            }
            EventKind::ToolStarted { call, input, .. } if interest.tools => {
                self.write_tool(call, "start", |data| {
                    data["args"] = input.clone();
                });
            }
            // A call begins that was announced before, which these clients do not tell apart.
            EventKind::ToolUpdated {
                title: None,
                kind: None,
                progress: None,
                begins: true,
                ..
            } => {}
            EventKind::ToolUpdated { call, locations, progress, .. } if interest.tools => {
                let shown = translation::partial_result(progress.as_ref());
                self.write_tool_details(call, "update", "partialResult", shown, locations);
            }
            EventKind::ToolEnded { call, status, outcome } => {
                if interest.tools {
                    let shown = translation::tool_result(*status, outcome);
                    let locations = outcome.locations();
                    self.write_tool_details(call, "result", "result", shown, &locations);
                }
                self.track.calls.remove(call);
            }
            EventKind::ApprovalRequested(request) => {
                let ApprovalRequest { id, call, .. } = request;
                self.write_lifecycle(
                    json!({"phase": "waiting-approval", "approvalId": id, "toolCallId": call}),
                );
                // The OpenClaw bridge uses this event to find calls that run no command.
                if interest.approvals {
                    let request_event = translation::approval_json(request, self.about);
                    self.write_agent(|| AgentStream::Approval(request_event));
                }
            }
            EventKind::ApprovalResolved { id, answer, .. } => {
                let decision = translation::parse_decision(answer);
                self.write_lifecycle(
                    json!({"phase": "approval-resolved", "approvalId": id, "decision": decision}),
                );
            }
            EventKind::UsageReported { run_usage, context_tokens, context_window } => {
                let mut usage = translation::usage_json(run_usage);
                usage["contextTokens"] = json!(context_tokens);
                usage["contextWindow"] = json!(context_window);
                self.write_agent(|| AgentStream::Usage(usage));
            }
            EventKind::Notice { topic, text } => {
                self.write_lifecycle(json!({"phase": "notice", "topic": topic, "text": text}));
            }
            EventKind::Compacted { tokens_before, tokens_after, extent, .. } => {
                let text = describe_compaction(*tokens_before, *tokens_after, *extent);
                self.write_lifecycle(
                    json!({"phase": "notice", "topic": "compaction", "text": text}),
                );
            }
            EventKind::ModelFallback { from, to, reason } => {
                let text = describe_fallback(from, to, reason);
                self.write_lifecycle(json!({"phase": "notice", "topic": "fallback", "text": text}));
            }
            _ => {}
        }
    }

    /// Writes the final events of a run, the only ones that report its end.
    fn write_end(&mut self, end: &RunOutcome, usage: &TokenUsage) {
        if let RunOutcome::Budget { message } = end {
            // Clients of OpenClaw show the text of a run, and do not know this end.
            self.track.text.interrupted = true;
            self.track.text.append(&format!("[{message}]"));
        }
        self.flush_text_if_capacity();
        let failed = run_failure(end);
        let mut life = json!({
            "phase": if failed.is_some() { "error" } else { "end" },
            "startedAt": self.track.started_ms,
            "endedAt": self.time_ms,
        });
        if let Some(failure) = &failed {
            life["error"] = json!(failure.message);
        } else if let RunOutcome::Aborted { .. } = end {
            life["aborted"] = json!(true);
        }
        self.write_lifecycle(life);
        let message = self.track.message();
        self.write_chat(|| translation::final_chat_state(end, usage, message));
    }

    fn flush_text_if_capacity(&mut self) {
        if let RelayOutput::Open { capacity: SendCapacity::Ample, .. } = self.output {
            self.flush_text();
        }
    }

    fn flush_text(&mut self) {
        if !self.track.has_new() || matches!(self.output, RelayOutput::Closed) {
            return;
        }
        let words = |(text, new): (&str, &str)| json!({"text": text, "delta": new});
        if let Some(data) = self.track.thoughts.take_new().map(words) {
            self.write_agent(|| AgentStream::Thinking(data));
        }
        let new =
            self.track.text.take_new().map(|(text, new)| (words((text, new)), new.to_owned()));
        let mut delta_text = String::new();
        if let Some((data, new)) = new {
            self.write_agent(|| AgentStream::Assistant(data));
            delta_text = new;
        }
        if let Some(message) = self.track.message() {
            self.write_chat(|| ChatRunState::Delta { message, delta_text });
        }
    }

    fn write_tool_details(
        &mut self,
        call: &str,
        phase: &str,
        field: &str,
        mut shown: translation::OpenClawToolResult,
        locations: &[zero_core::FileLocation],
    ) {
        if let Some(known) = self.track.calls.get(call) {
            shown.details["title"] = json!(known.title);
            shown.details["kind"] = json!(known.kind.as_str());
        }
        if !locations.is_empty() {
            shown.details["locations"] = json!(locations);
        }
        self.write_tool(call, phase, |data| {
            if let Some(is_error) = shown.is_error {
                data["isError"] = json!(is_error);
            }
            data[field] = json!({"content": shown.content, "details": shown.details});
        });
    }

    fn write_tool(&mut self, call: &str, phase: &str, more: impl FnOnce(&mut Value)) {
        let name = self.track.calls.get(call).map_or("", |call| call.name.as_str());
        let mut data = json!({"phase": phase, "name": name, "toolCallId": call});
        more(&mut data);
        self.write_agent(|| AgentStream::Tool(data));
    }

    fn write_lifecycle(&mut self, data: Value) {
        self.write_agent(|| AgentStream::Lifecycle(data));
    }

    fn write_agent(&mut self, stream: impl FnOnce() -> AgentStream) {
        if matches!(self.output, RelayOutput::Closed) {
            return;
        }
        let event = AgentEvent {
            run_id: self.run.to_string(),
            session_key: self.about.key.clone(),
            seq: self.next_seq(),
            ts: self.time_ms.unwrap_or(self.track.reply_ms),
            stream: stream(),
        };
        self.output.emit(|| RelayEvent::Agent(Box::new(event)));
    }

    fn write_chat(&mut self, state: impl FnOnce() -> ChatRunState) {
        if matches!(self.output, RelayOutput::Closed) {
            return;
        }
        let event = ChatEvent {
            run_id: self.run.to_string(),
            session_key: self.about.key.clone(),
            agent_id: Some(self.about.agent.clone()),
            seq: self.next_seq(),
            state: state(),
        };
        self.output.emit(|| RelayEvent::Chat(Box::new(event)));
    }

    fn next_seq(&mut self) -> u64 {
        self.track.seq += 1;
        self.track.seq
    }
}

#[cfg(test)]
mod tests;
