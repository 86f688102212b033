//! Translates the events of a gateway without a ledger into ledger entries of one session.
//!
//! Pure: event payloads in, entries out. Each run starts and ends once, each started call ends, and
//! no text is repeated or omitted.

use std::collections::{BTreeMap, VecDeque};
use tokio::time::Instant;

use serde_json::Value;
use zero_core::event::{Event, EventKind, PromptAttachment, RunOutcome};
use zero_core::{ErrorReason, RunId, ToolError};

use super::approval::parse_approval;
use super::cumulative_text::TextStage;
use super::run::{OpenClawRun, message_texts};
use super::run_end;

/// Live entries are numbered after those of the history.
pub(crate) const LIVE_BASE: u64 = 1 << 32;
/// Ended runs that are remembered.
const OVER_MAX: usize = 256;
/// Active runs that are tracked.
const RUNS_MAX: usize = 256;

/// The translator of one session.
pub(crate) struct OpenClawTranslator {
    seq: u64,
    agent: String,
    model: String,
    context_window: u64,
    runs: BTreeMap<String, OpenClawRun>,
    over: VecDeque<String>,
    /// Pending questions with the run that asks.
    questions: BTreeMap<String, Option<RunId>>,
}

/// The state of a run according to `agent.wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunWaitOutcome {
    /// It has ended, and its end was emitted.
    Ended,
    /// It continues, or the gateway does not know it.
    Unresolved,
}

impl OpenClawTranslator {
    pub(crate) fn new(agent: String, model: String, context_window: u64) -> Self {
        Self {
            seq: LIVE_BASE,
            agent,
            model,
            context_window,
            runs: BTreeMap::new(),
            over: VecDeque::new(),
            questions: BTreeMap::new(),
        }
    }

    /// Registers a run that is started here.
    pub(crate) fn expect_run(
        &mut self,
        run: &str,
        text: String,
        attached: Vec<PromptAttachment>,
        now_ms: i64,
    ) {
        let prompt = Some((text, attached));
        let expected = OpenClawRun {
            prompt,
            is_ours: true,
            since_ms: now_ms,
            since: Some(Instant::now()),
            ..OpenClawRun::default()
        };
        self.runs.entry(run.to_owned()).or_insert(expected);
    }

    /// Forgets a run that was refused before its first event.
    pub(crate) fn forget_run(&mut self, run: &str) {
        if self.runs.get(run).is_some_and(|run| !run.is_begun) {
            self.runs.remove(run);
        }
    }

    /// Whether a run is tracked.
    pub(crate) fn is_tracking(&self, run: &str) -> bool {
        self.runs.contains_key(run)
    }

    /// Whether a run has emitted anything.
    pub(crate) fn has_started(&self, run: &str) -> bool {
        self.over.iter().any(|over| over == run)
            || self.runs.get(run).is_some_and(|run| run.is_begun)
    }

    /// Records a change of the session.
    pub(crate) fn record_change(&mut self, fields: Vec<(&str, String)>, now_ms: i64) -> Vec<Event> {
        let kind = |(field, value): (&str, String)| {
            let kind = EventKind::Changed { field: field.to_owned(), value: Some(value) };
            self.new_entry(None, now_ms, kind)
        };
        fields.into_iter().map(kind).collect()
    }

    /// The active runs, each with its age in milliseconds. A clock that was set back makes no run
    /// younger, and a machine that slept makes none younger either.
    pub(crate) fn active_runs(&self, now_ms: i64) -> Vec<(String, i64)> {
        let age = |run: &OpenClawRun| {
            let elapsed = run.since.map_or(0, |since| since.elapsed().as_millis());
            let elapsed = i64::try_from(elapsed).unwrap_or(i64::MAX);
            elapsed.max(now_ms.saturating_sub(run.since_ms))
        };
        self.runs.iter().map(|(id, run)| (id.clone(), age(run))).collect()
    }

    /// Whether a call or question belongs to this session.
    pub(crate) fn has_call(&self, call: &str) -> bool {
        self.runs.values().any(|run| run.calls.contains(call))
    }

    /// The gateway accepted the prompt.
    pub(crate) fn handle_accepted(&mut self, run: &str, now_ms: i64) -> Vec<Event> {
        self.record_run_events(run, now_ms, |_, _| {})
    }

    /// Handles a `chat` event.
    pub(crate) fn handle_chat(&mut self, payload: &Value, now_ms: i64) -> Vec<Event> {
        let Some(run) = payload.get("runId").and_then(Value::as_str) else { return Vec::new() };
        let end = run_end::parse_run_end(payload);
        if end.is_none() && payload.get("state").and_then(Value::as_str) != Some("delta") {
            return Vec::new();
        }
        let message = payload.get("message").filter(|message| message.is_object());
        let usage = payload.get("usage").map(run_end::parse_usage);
        let new = payload.get("deltaText").and_then(Value::as_str);
        let stage = if end.is_some() { TextStage::Final } else { TextStage::Partial(new) };
        let mut events = self.record_run_events(run, now_ms, |run, events| {
            if let Some(message) = message {
                let (thoughts, text) = message_texts(message);
                run.update_thoughts(&thoughts, events);
                events.extend(
                    run.text.update_whole(&text, stage).map(|text| EventKind::Text { text }),
                );
            } else if let Some(new) = new.filter(|_| end.is_none()) {
                events.extend(run.text.append(new).map(|text| EventKind::Text { text }));
            }
            if let Some(usage) = usage {
                run.usage = usage;
            }
        });
        if let Some(end) = end {
            events.extend(self.end_run(run, end, now_ms));
        }
        events
    }

    /// Handles an `agent` event.
    pub(crate) fn handle_agent(&mut self, payload: &Value, now_ms: i64) -> Vec<Event> {
        let word = |key: &str| payload.get(key).and_then(Value::as_str);
        let (Some(run), Some(stream)) = (word("runId"), word("stream")) else { return Vec::new() };
        let time_ms = payload.get("ts").and_then(Value::as_i64).unwrap_or(now_ms);
        let data = payload.get("data").unwrap_or(&Value::Null);
        let phase = data.get("phase").and_then(Value::as_str).unwrap_or_default();
        match stream {
            "lifecycle" if phase == "start" => {
                if let Some(model) = data.get("model").and_then(Value::as_str) {
                    model.clone_into(&mut self.model);
                }
                self.record_run_events(run, time_ms, |_, _| {})
            }
            "lifecycle" if phase == "notice" => {
                self.record_run_events(run, time_ms, |_, events| {
                    let word =
                        |key: &str| data.get(key).and_then(Value::as_str).unwrap_or_default();
                    let (topic, text) = (word("topic").to_owned(), word("text").to_owned());
                    events.push(EventKind::Notice { topic, text });
                })
            }
            "thinking" => self.record_run_events(run, time_ms, |run, events| {
                match (data.get("text").and_then(Value::as_str), data.get("delta")) {
                    (Some(text), _) => run.update_thoughts(text, events),
                    (None, Some(Value::String(more))) => {
                        let new = run.thoughts.append(more);
                        events.extend(new.map(|text| EventKind::Thought { text }));
                    }
                    _ => {}
                }
            }),
            "item" if data.get("kind").and_then(Value::as_str) == Some("preamble") => {
                let id = data.get("itemId").and_then(Value::as_str).unwrap_or_default();
                let text = data.get("progressText").and_then(Value::as_str).unwrap_or_default();
                self.record_run_events(run, time_ms, |run, events| {
                    events.extend(
                        run.text.update_item(id, text).map(|text| EventKind::Text { text }),
                    );
                })
            }
            "tool" => self.record_run_events(run, time_ms, |run, events| {
                run.handle_tool_event(phase, data, events)
            }),
            "usage" => {
                let known = data.get("contextWindow").and_then(Value::as_u64);
                let context_window = known.unwrap_or(self.context_window);
                let context = data.get("contextTokens").and_then(Value::as_u64);
                self.record_run_events(run, time_ms, |run, events| {
                    run.usage = run_end::parse_usage(data);
                    if let Some(context_tokens) = context.filter(|_| context_window > 0) {
                        let run_usage = run.usage;
                        events.push(EventKind::UsageReported {
                            run_usage,
                            context_tokens,
                            context_window,
                        });
                    }
                })
            }
            _ => Vec::new(),
        }
    }

    /// Handles an `exec.approval.requested` event of this session.
    pub(crate) fn handle_approval_request(&mut self, payload: &Value, now_ms: i64) -> Vec<Event> {
        let Some(id) = payload.get("id").and_then(Value::as_str) else { return Vec::new() };
        if self.questions.contains_key(id) {
            return Vec::new();
        }
        let request = payload.get("request").unwrap_or(&Value::Null);
        let run = request.get("runId").and_then(Value::as_str);
        let run = run.map(str::to_owned).or_else(|| self.find_run_of_call(request));
        let mut events = Vec::new();
        if let Some(run) = &run {
            events = self.record_run_events(run, now_ms, |run, _| run.text.interrupt());
        }
        let run = run.and_then(|run| RunId::new(run.as_str()).ok());
        self.questions.insert(id.to_owned(), run.clone());
        let expires_ms = payload.get("expiresAtMs").and_then(Value::as_i64).unwrap_or(i64::MAX);
        let request = parse_approval(id, request, expires_ms);
        events.push(self.new_entry(run, now_ms, EventKind::ApprovalRequested(request)));
        events
    }

    /// Handles an `exec.approval.resolved` event.
    pub(crate) fn handle_approval_resolved(&mut self, payload: &Value, now_ms: i64) -> Vec<Event> {
        let word = |key: &str| payload.get(key).and_then(Value::as_str);
        let Some(id) = word("id") else { return Vec::new() };
        let Some(run) = self.questions.remove(id) else { return Vec::new() };
        let answer = match word("decision") {
            Some("allow-once") => "allow_once",
            Some("allow-always") => "allow_always",
            _ => "reject_once",
        };
        let by = word("resolvedBy").unwrap_or("the gateway").to_owned();
        let kind = EventKind::ApprovalResolved { id: id.to_owned(), answer: answer.to_owned(), by };
        vec![self.new_entry(run, now_ms, kind)]
    }

    /// Handles the answer of `agent.wait` for a run. The end of its text may have been missed.
    pub(crate) fn handle_wait_result(
        &mut self,
        run: &str,
        answer: &Value,
        now_ms: i64,
    ) -> (RunWaitOutcome, Vec<Event>) {
        let word = |key: &str| answer.get(key).and_then(Value::as_str);
        let end = match word("status") {
            Some("ok") => RunOutcome::Completed,
            Some("error") => run_end::failed_with_message(word("error")),
            _ => return (RunWaitOutcome::Unresolved, Vec::new()),
        };
        let reply = answer.get("terminalReply").and_then(|reply| reply.get("text"));
        let text = reply.and_then(Value::as_str).unwrap_or_default();
        (RunWaitOutcome::Ended, self.finish_run(run, text, end, now_ms))
    }

    /// Ends a run whose end is known from another source than its own events.
    pub(crate) fn finish_run(
        &mut self,
        run: &str,
        text: &str,
        end: RunOutcome,
        now_ms: i64,
    ) -> Vec<Event> {
        if !self.runs.contains_key(run) {
            return Vec::new();
        }
        let mut events = self.record_run_events(run, now_ms, |run, events| {
            if !text.is_empty() {
                events.extend(
                    run.text
                        .update_whole(text, TextStage::Final)
                        .map(|text| EventKind::Text { text }),
                );
            }
        });
        events.extend(self.end_run(run, end, now_ms));
        events
    }

    /// Stops tracking a run whose state is unknown. Returns whether it was started here.
    pub(crate) fn drop_run(&mut self, run: &str) -> bool {
        self.remember_ended(run);
        self.runs.remove(run).is_some_and(|run| run.is_ours)
    }

    fn find_run_of_call(&self, request: &Value) -> Option<String> {
        let call = request.get("toolCallId").and_then(Value::as_str)?;
        let of = self.runs.iter().find(|(_, run)| run.calls.contains(call));
        of.map(|(id, _)| id.clone())
    }

    /// Emits events of a run, its start first. Events of an ended run are ignored.
    fn record_run_events(
        &mut self,
        id: &str,
        time_ms: i64,
        words: impl FnOnce(&mut OpenClawRun, &mut Vec<EventKind>),
    ) -> Vec<Event> {
        let Ok(run_id) = RunId::new(id) else { return Vec::new() };
        if self.over.iter().any(|over| over == id)
            || (!self.runs.contains_key(id) && self.runs.len() >= RUNS_MAX)
        {
            return Vec::new();
        }
        let mut run = self.runs.remove(id).unwrap_or_default();
        let mut events = Vec::new();
        if let Some((text, attachments)) = run.prompt.take() {
            events.push(EventKind::Prompt { text, attachments });
        }
        if !std::mem::replace(&mut run.is_begun, true) {
            if run.since_ms == 0 {
                run.since_ms = time_ms;
            }
            events.push(EventKind::RunStarted {
                agent: self.agent.clone(),
                model: self.model.clone(),
                parent: None,
            });
        }
        words(&mut run, &mut events);
        self.runs.insert(id.to_owned(), run);
        events.into_iter().map(|kind| self.new_entry(Some(run_id.clone()), time_ms, kind)).collect()
    }

    fn end_run(&mut self, id: &str, end: RunOutcome, time_ms: i64) -> Vec<Event> {
        let (Some(run), Ok(run_id)) = (self.runs.remove(id), RunId::new(id)) else {
            return Vec::new();
        };
        self.remember_ended(id);
        let reason = match end {
            RunOutcome::Aborted { .. } => ErrorReason::Cancelled,
            _ => ErrorReason::Interrupted,
        };
        let mut events = Vec::new();
        for call in run.calls {
            let text = "the run ended before the gateway reported the outcome";
            events.push(EventKind::tool_ended(call, ToolError::failed(reason, text).into()));
        }
        let of_run = |asker: &Option<RunId>| asker.as_ref() == Some(&run_id);
        let open: Vec<String> = self
            .questions
            .iter()
            .filter(|(_, run)| of_run(run))
            .map(|(id, _)| id.clone())
            .collect();
        for id in open {
            self.questions.remove(&id);
            let (answer, by) = ("cancelled".to_owned(), "the gateway".to_owned());
            events.push(EventKind::ApprovalResolved { id, answer, by });
        }
        events.push(EventKind::RunEnded { end, usage: run.usage });
        events.into_iter().map(|kind| self.new_entry(Some(run_id.clone()), time_ms, kind)).collect()
    }

    fn remember_ended(&mut self, run: &str) {
        if self.over.len() >= OVER_MAX {
            self.over.pop_front();
        }
        self.over.push_back(run.to_owned());
    }

    fn new_entry(&mut self, run: Option<RunId>, time_ms: i64, kind: EventKind) -> Event {
        self.seq += 1;
        Event { seq: self.seq, run, time_ms, kind }
    }
}

#[cfg(test)]
mod tests;
