//! Translates the message history of a gateway into ledger entries.

use std::collections::BTreeSet;

use serde_json::Value;
use zero_core::event::{Event, EventKind, ResultContent, RunOutcome, TokenUsage, ToolCallStatus};
use zero_core::{ErrorReason, RunId, ToolError, ToolOutcome};

use super::run::message_texts;
use super::tool_calls;

/// Entries for messages, numbered from 1.
pub(crate) fn build_entries(messages: &[Value]) -> Vec<Event> {
    let mut past = HistoryBuilder::default();
    for message in messages {
        past.add_message(message);
    }
    past.end_run();
    past.events
}

#[derive(Default)]
struct HistoryBuilder {
    events: Vec<Event>,
    runs: u64,
    run: Option<RunId>,
    open: BTreeSet<String>,
    time_ms: i64,
}

impl HistoryBuilder {
    fn add_message(&mut self, message: &Value) {
        self.time_ms = message.get("timestamp").and_then(Value::as_i64).unwrap_or(self.time_ms);
        match message.get("role").and_then(Value::as_str) {
            Some("user") => {
                let (_, text) = message_texts(message);
                self.end_run();
                self.begin_run();
                self.push_event(EventKind::Prompt { text, attachments: Vec::new() });
            }
            Some("assistant") => self.add_reply(message),
            Some("toolResult") => self.add_tool_results(message),
            _ => {}
        }
    }

    fn add_reply(&mut self, message: &Value) {
        self.begin_run();
        let blocks = match message.get("content") {
            Some(Value::Array(blocks)) => blocks.as_slice(),
            _ => {
                let (_, text) = message_texts(message);
                return self.add_text(text);
            }
        };
        for block in blocks {
            let word = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
            match word("type").as_deref() {
                Some("text") => self.add_text(word("text").unwrap_or_default()),
                Some("thinking") => {
                    if let Some(text) = word("thinking").filter(|text| !text.is_empty()) {
                        self.push_event(EventKind::Thought { text });
                    }
                }
                Some("toolCall") => {
                    let input = block.get("arguments").cloned().unwrap_or(Value::Null);
                    self.start_call(word("id"), word("name"), input);
                }
                _ => {}
            }
        }
    }

    fn add_text(&mut self, text: String) {
        if !text.is_empty() {
            self.push_event(EventKind::Text { text });
        }
    }

    fn start_call(&mut self, call: Option<String>, name: Option<String>, input: Value) {
        let Some(call) = call else { return };
        let name = name.unwrap_or_else(|| "tool".to_owned());
        if self.open.insert(call.clone()) {
            let (title, kind) =
                (tool_calls::call_title(&name, &input), tool_calls::tool_kind(&name));
            let locations = tool_calls::argument_locations(&input);
            self.push_event(EventKind::ToolStarted {
                call,
                name,
                title,
                kind,
                input,
                locations,
                waits: false,
                transcript_id: None,
            });
        }
    }

    /// Adds the tool results: one next to the message, or several in it.
    fn add_tool_results(&mut self, message: &Value) {
        self.begin_run();
        let blocks = message.get("content").and_then(Value::as_array);
        let inner: Vec<&Value> = blocks
            .into_iter()
            .flatten()
            .filter(|block| block.get("toolCallId").is_some())
            .collect();
        let all = if inner.is_empty() { vec![message] } else { inner };
        for result in all {
            let word = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
            let Some(call) = word("toolCallId") else { continue };
            self.start_call(Some(call.clone()), word("toolName"), Value::Null);
            let content = match word("text") {
                Some(text) => vec![ResultContent::Text { text }],
                None => tool_calls::parse_content(result),
            };
            let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
            let status = if is_error { ToolCallStatus::Failed } else { ToolCallStatus::Completed };
            self.open.remove(&call);
            let outcome = ToolOutcome::from_content(status, content, None, Vec::new());
            self.push_event(EventKind::tool_ended(call, outcome));
        }
    }

    fn begin_run(&mut self) {
        if self.run.is_none() {
            self.runs += 1;
            self.run = RunId::new(format!("history-{}", self.runs)).ok();
        }
    }

    fn end_run(&mut self) {
        if self.run.is_none() {
            return;
        }
        for call in std::mem::take(&mut self.open) {
            let text = "the gateway did not report the outcome";
            let error = ToolError::failed(ErrorReason::Interrupted, text);
            self.push_event(EventKind::tool_ended(call, error.into()));
        }
        self.push_event(EventKind::RunEnded {
            end: RunOutcome::Completed,
            usage: TokenUsage::default(),
        });
        self.run = None;
    }

    fn push_event(&mut self, kind: EventKind) {
        let seq = self.events.len() as u64 + 1;
        let run = self.run.clone();
        self.events.push(Event { seq, run, time_ms: self.time_ms, kind });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(messages: Value) -> Vec<String> {
        let events = build_entries(messages.as_array().unwrap());
        for (event, seq) in events.iter().zip(1..) {
            assert_eq!(event.seq, seq);
        }
        let line = |event: &Event| {
            let run = event.run.as_ref().map(ToString::to_string).unwrap_or_default();
            let what = match &event.kind {
                EventKind::Prompt { text, .. } => format!("prompt {text}"),
                EventKind::Text { text } => format!("text {text}"),
                EventKind::Thought { text } => format!("thought {text}"),
                EventKind::ToolStarted { call, title, .. } => format!("start {call} {title}"),
                EventKind::ToolEnded { call, status, .. } => format!("end {call} {status:?}"),
                EventKind::RunEnded { .. } => "ended".to_owned(),
                other => format!("{other:?}"),
            };
            format!("{run} {what}").replace("history-", "")
        };
        events.iter().map(line).collect()
    }

    #[test]
    fn messages_of_both_gateway_kinds_become_entries() {
        let theirs = json!([
            {"role": "user", "content": "hi", "timestamp": 1},
            {"role": "assistant", "timestamp": 2, "content": [
                {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "I look"},
                {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "/a"}},
                {"type": "toolCall", "id": "c2", "name": "exec", "arguments": {"command": "ls"}}]},
            {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "isError": true,
                "content": [{"type": "text", "text": "no"}]},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": [{"type": "text", "text": "more"}]},
        ]);
        assert_eq!(
            lines(theirs),
            [
                "1 prompt hi",
                "1 thought hm",
                "1 text I look",
                "1 start c1 read: /a",
                "1 start c2 exec: ls",
                "1 end c1 Failed",
                "1 text done",
                "1 end c2 Interrupted",
                "1 ended",
                "2 prompt more",
                "2 ended",
            ]
        );
        let ours = json!([
            {"role": "assistant", "content": [
                {"type": "toolCall", "id": "c1", "name": "Read", "arguments": {}}]},
            {"role": "toolResult", "content": [
                {"type": "toolResult", "toolCallId": "c1", "text": "ok", "isError": false}]},
        ]);
        assert_eq!(lines(ours), ["1 start c1 Read", "1 end c1 Completed", "1 ended"]);
        assert!(lines(json!([])).is_empty());
        assert!(lines(json!([{"role": "system", "content": "x"}, 7])).is_empty());
    }
}
