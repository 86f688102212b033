//! What happened in a session, told in the family's words: `chat`, `agent`, `exec.approval.…`.
//!
//! Pure: entries of the ledger in, events for one connection out. A run's reply is told as one
//! cumulative text, also across tool calls, so that whoever lost an event, or came late, has all of
//! it with the next one. Since each delta repeats what was said, deltas of a long reply are held
//! back until enough is new: the bytes sent stay proportional to the bytes said.
//!
//! Not here: where the entries come from (`watch`), clients that hear the ledger itself.

mod translation;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use zero_core::event::{ApprovalRequest, Event, EventKind, RunOutcome, TokenUsage};
use zero_core::{RunId, ToolKind};
use zero_wire::chat::ChatMessage;
use zero_wire::events::{
    AGENT, APPROVAL_REQUESTED, APPROVAL_RESOLVED, AgentEvent, AgentStream, ApprovalRequestedEvent,
    ApprovalResolvedEvent, CHAT, ChatEvent, ChatRunState,
};

use crate::send_queue::SendQueue;

pub(crate) use translation::{allowed_decisions, approval_command, run_failure};

/// Most bytes of a reply that are told, in JSON; the rest is in the history. An update repeats the
/// reply and its thoughts a few times, which have to fit into what may wait for a client.
const REPLY_BYTES_MAX: usize = 4 * 1024 * 1024;
/// What stands where a longer reply is cut.
const REPLY_CUT: &str = "\n\n[the reply is longer than can be shown here]";
/// A reply shorter than this is told as it comes.
const SHORT_REPLY_BYTES: usize = 4 * 1024;
/// Of a longer one, this share has to be new.
const NEW_SHARE: usize = 64;
/// Questions that are remembered for whoever comes late.
const QUESTIONS_MAX: usize = 256;

/// One event for a connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RelayEvent {
    /// What a run says, and how it ends.
    Chat(Box<ChatEvent>),
    /// What a run does.
    Agent(Box<AgentEvent>),
    /// A person is asked.
    ApprovalRequested(Box<ApprovalRequestedEvent>),
    /// They answered.
    ApprovalResolved(ApprovalResolvedEvent),
}

impl RelayEvent {
    /// Sends it; false when the connection is gone.
    pub(crate) fn send(&self, outbox: &SendQueue) -> bool {
        match self {
            Self::Chat(event) => outbox.send_event(CHAT, event),
            Self::Agent(event) => outbox.send_event(AGENT, event),
            Self::ApprovalRequested(event) => outbox.send_event(APPROVAL_REQUESTED, event),
            Self::ApprovalResolved(event) => outbox.send_event(APPROVAL_RESOLVED, event),
        }
    }
}

/// What a connection wants to hear beside the chat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RelayInterest {
    /// What tools do.
    pub(crate) tools: bool,
    /// Whether calls may run.
    pub(crate) approvals: bool,
}

/// What events say of their session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelaySessionInfo {
    /// The session's full key, such as `agent:main:main`.
    pub(crate) key: String,
    /// Name of the session's agent, such as `main`.
    pub(crate) agent: String,
    /// Where its tools run.
    pub(crate) host: String,
}

/// Tells one connection of one session.
pub(crate) struct OpenClawRelay {
    about: Arc<RelaySessionInfo>,
    interest: RelayInterest,
    runs: BTreeMap<RunId, RunRelayState>,
    questions: BTreeMap<String, ApprovalRequestedEvent>,
}

impl OpenClawRelay {
    /// Begins with what is known of the newest entries of the ledger. Only runs that are not over
    /// matter; `active` names those that may have begun before the first of these entries.
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

    /// What a late listener has to hear first: all that was said so far, and what is still asked.
    pub(crate) fn catch_up(&mut self, told: &mut Vec<RelayEvent>) {
        self.flush(FlushScope::All, told);
        if self.interest.approvals {
            told.extend(
                self.questions
                    .values()
                    .map(|asked| RelayEvent::ApprovalRequested(Box::new(asked.clone()))),
            );
        }
    }

    /// Takes the next entry of the ledger. Text is gathered until [`OpenClawRelay::flush`] or until
    /// something else happens.
    pub(crate) fn handle_event(
        &mut self,
        event: &Event,
        room: SendCapacity,
        told: &mut Vec<RelayEvent>,
    ) {
        self.apply_event(event, &mut RelayOutput::Open { told, room });
    }

    /// Tells gathered text: all of it, or only where enough is new.
    pub(crate) fn flush(&mut self, which: FlushScope, told: &mut Vec<RelayEvent>) {
        for (run, track) in &mut self.runs {
            if which == FlushScope::All || track.has_enough_new() {
                let ears = &mut RelayOutput::Open { told, room: SendCapacity::Ample };
                RunEventWriter { about: &self.about, run, track, ears, time_ms: None }.flush_text();
            }
        }
    }

    /// Whether text is held back.
    pub(crate) fn has_held_text(&self) -> bool {
        self.runs.values().any(RunRelayState::has_new)
    }

    /// Whether a run is not over.
    pub(crate) fn is_busy(&self) -> bool {
        !self.runs.is_empty()
    }

    fn apply_event(&mut self, event: &Event, ears: &mut RelayOutput<'_>) {
        self.apply_question(event, ears);
        let Some(run) = &event.run else { return };
        if let EventKind::RunEnded { end, usage } = &event.what {
            self.questions.retain(|_, asked| asked.request.run_id.as_deref() != Some(run.as_str()));
            if let Some(mut track) = self.runs.remove(run) {
                self.run_writer(run, &mut track, event, ears).write_end(end, usage);
            }
            return;
        }
        let begins = matches!(event.what, EventKind::Prompt { .. } | EventKind::RunStarted { .. });
        let known = self.runs.remove(run);
        // A run that is over, or was never begun, has nothing to say.
        let Some(mut track) = known.or_else(|| begins.then(RunRelayState::default)) else { return };
        let interest = self.interest;
        self.run_writer(run, &mut track, event, ears).write_event(&event.what, interest);
        self.runs.insert(run.clone(), track);
    }

    fn run_writer<'a, 'b>(
        &'a self,
        run: &'a RunId,
        track: &'a mut RunRelayState,
        event: &Event,
        ears: &'a mut RelayOutput<'b>,
    ) -> RunEventWriter<'a, 'b> {
        RunEventWriter { about: &self.about, run, track, ears, time_ms: Some(event.time_ms) }
    }

    /// Questions concern a session, also where no run is named.
    fn apply_question(&mut self, event: &Event, ears: &mut RelayOutput<'_>) {
        match &event.what {
            EventKind::ApprovalRequested(request) => {
                let asked = translation::approval_requested(
                    request,
                    &self.about,
                    event.run.as_ref(),
                    event.time_ms,
                );
                if self.interest.approvals {
                    ears.emit(|| RelayEvent::ApprovalRequested(Box::new(asked.clone())));
                }
                if self.questions.len() < QUESTIONS_MAX {
                    self.questions.insert(request.id.clone(), asked);
                }
            }
            EventKind::ApprovalResolved { id, answer, by } => {
                self.questions.remove(id);
                if self.interest.approvals {
                    ears.emit(|| {
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

/// All that a run says in these entries, as its events tell it.
pub(crate) fn run_text(events: &[Event], run: &RunId) -> String {
    let mut track = RunRelayState::default();
    for event in events.iter().filter(|event| event.run.as_ref() == Some(run)) {
        track.apply(&event.what);
    }
    track.text.said
}

/// Which gathered text is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushScope {
    /// The text of all runs, however little is new.
    All,
    /// That of runs which said enough new.
    EnoughNew,
}

/// Whether much can be said now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendCapacity {
    /// It can.
    Ample,
    /// Much waits to be sent: gathered text is told later, with what is said until then.
    Low,
}

/// Whether anybody listens: not while the past is gone through.
enum RelayOutput<'a> {
    Open { told: &'a mut Vec<RelayEvent>, room: SendCapacity },
    Closed,
}

impl RelayOutput<'_> {
    fn emit(&mut self, told: impl FnOnce() -> RelayEvent) {
        if let Self::Open { told: all, .. } = self {
            all.push(told());
        }
    }
}

/// What is known of a run.
#[derive(Default)]
struct RunRelayState {
    /// Counts its events on this connection.
    seq: u64,
    started_ms: Option<i64>,
    /// When it last said something.
    said_ms: i64,
    text: StreamedText,
    thoughts: StreamedText,
    calls: BTreeMap<String, RelayedCall>,
}

/// A growing text, and how much of it was told.
#[derive(Default)]
struct StreamedText {
    said: String,
    /// Bytes of it, in JSON.
    json_bytes: usize,
    told: usize,
    /// Something else happened since, so what follows is a new paragraph.
    interrupted: bool,
    cut: bool,
}

/// A call that is not over.
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
        if std::mem::take(&mut self.interrupted) && !self.said.is_empty() {
            self.push_bounded(if self.said.ends_with('\n') { "\n" } else { "\n\n" });
        }
        self.push_bounded(more);
    }

    /// Adds as much as there is room for.
    fn push_bounded(&mut self, more: &str) {
        let mut bytes = self.json_bytes;
        let too_long = more.char_indices().find(|(_, character)| {
            bytes = bytes.saturating_add(json_char_bytes(*character));
            bytes > REPLY_BYTES_MAX
        });
        let Some((end, _)) = too_long else {
            self.json_bytes = bytes;
            return self.said.push_str(more);
        };
        self.cut = true;
        self.said.push_str(more.get(..end).unwrap_or_default());
        self.said.push_str(REPLY_CUT);
    }

    fn new_bytes(&self) -> usize {
        self.said.len() - self.told
    }

    /// All, and what is new of it; from now on nothing is new.
    fn take_new(&mut self) -> Option<(&str, &str)> {
        let new = self.said.get(self.told..).filter(|new| !new.is_empty())?;
        self.told = self.said.len();
        Some((&self.said, new))
    }
}

/// How long a character is in a text of JSON.
fn json_char_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        _ => character.len_utf8(),
    }
}

impl RunRelayState {
    /// Takes in what an entry says of the run.
    fn apply(&mut self, what: &EventKind) {
        match what {
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
        let all = self.text.said.len() + self.thoughts.said.len();
        new > 0 && (all < SHORT_REPLY_BYTES || new >= all / NEW_SHARE)
    }

    fn message(&self) -> Option<ChatMessage> {
        translation::reply_message(&self.thoughts.said, &self.text.said, self.said_ms)
    }
}

/// Tells of one run.
struct RunEventWriter<'a, 'b> {
    about: &'a RelaySessionInfo,
    run: &'a RunId,
    track: &'a mut RunRelayState,
    ears: &'a mut RelayOutput<'b>,
    /// When what is told happened; when the run last spoke, otherwise.
    time_ms: Option<i64>,
}

impl RunEventWriter<'_, '_> {
    fn write_event(&mut self, what: &EventKind, interest: RelayInterest) {
        if let EventKind::Text { .. } | EventKind::Thought { .. } = what {
            self.track.said_ms = self.time_ms.unwrap_or_default();
            return self.track.apply(what);
        }
        // What was said before is heard before.
        self.flush_text_if_capacity();
        self.track.apply(what);
        match what {
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
            EventKind::ToolUpdated { call, locations, progress, .. } if interest.tools => {
                let shown = translation::partial_result(progress.as_deref());
                self.write_tool_details(call, "update", "partialResult", shown, locations);
            }
            EventKind::ToolEnded { call, status, outcome } => {
                if interest.tools {
                    let shown = translation::tool_result(*status, outcome);
                    let locations = outcome.locations();
                    self.write_tool_details(call, "result", "result", shown, locations);
                }
                self.track.calls.remove(call);
            }
            EventKind::ApprovalRequested(request) => {
                let ApprovalRequest { id, call, .. } = request;
                self.write_lifecycle(
                    json!({"phase": "waiting-approval", "approvalId": id, "toolCallId": call}),
                );
                // By this one the family's bridge finds calls that run no command.
                if interest.approvals {
                    let asked = translation::approval_json(request, self.about);
                    self.write_agent(|| AgentStream::Approval(asked));
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
            _ => {}
        }
    }

    /// The last events of a run: the only ones that say it is over.
    fn write_end(&mut self, end: &RunOutcome, usage: &TokenUsage) {
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
        if let RelayOutput::Open { room: SendCapacity::Ample, .. } = self.ears {
            self.flush_text();
        }
    }

    fn flush_text(&mut self) {
        if !self.track.has_new() || matches!(self.ears, RelayOutput::Closed) {
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
        if matches!(self.ears, RelayOutput::Closed) {
            return;
        }
        let event = AgentEvent {
            run_id: self.run.to_string(),
            session_key: self.about.key.clone(),
            seq: self.next_seq(),
            ts: self.time_ms.unwrap_or(self.track.said_ms),
            stream: stream(),
        };
        self.ears.emit(|| RelayEvent::Agent(Box::new(event)));
    }

    fn write_chat(&mut self, state: impl FnOnce() -> ChatRunState) {
        if matches!(self.ears, RelayOutput::Closed) {
            return;
        }
        let event = ChatEvent {
            run_id: self.run.to_string(),
            session_key: self.about.key.clone(),
            agent_id: Some(self.about.agent.clone()),
            seq: self.next_seq(),
            state: state(),
        };
        self.ears.emit(|| RelayEvent::Chat(Box::new(event)));
    }

    fn next_seq(&mut self) -> u64 {
        self.track.seq += 1;
        self.track.seq
    }
}

#[cfg(test)]
mod tests;
