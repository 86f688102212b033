//! An active run: its text and its calls.

use std::collections::BTreeSet;
use tokio::time::Instant;

use serde_json::Value;
use zero_core::ToolKind;
use zero_core::event::{EventKind, PromptAttachment, TokenUsage, ToolCallStatus};

use super::cumulative_text::{CumulativeText, TextStage};
use super::tool_calls;

/// An active run.
#[derive(Default)]
pub(super) struct OpenClawRun {
    /// The prompt that started it, until it was emitted.
    pub(super) prompt: Option<(String, Vec<PromptAttachment>)>,
    /// Whether it was started here.
    pub(super) is_ours: bool,
    pub(super) is_begun: bool,
    /// When it was first seen.
    pub(super) since_ms: i64,
    /// The same on the monotonic clock.
    pub(super) since: Option<Instant>,
    pub(super) text: CumulativeText,
    pub(super) thoughts: CumulativeText,
    pub(super) calls: BTreeSet<String>,
    pub(super) usage: TokenUsage,
}

impl OpenClawRun {
    /// Updates the thoughts; `whole` contains all of them so far.
    pub(super) fn update_thoughts(&mut self, whole: &str, events: &mut Vec<EventKind>) {
        if !whole.is_empty() {
            let new = self.thoughts.update_whole(whole, TextStage::Partial(None));
            events.extend(new.map(|text| EventKind::Thought { text }));
        }
    }

    /// Handles an event of one of its calls.
    pub(super) fn handle_tool_event(
        &mut self,
        phase: &str,
        data: &Value,
        events: &mut Vec<EventKind>,
    ) {
        let word = |key: &str| data.get(key).and_then(Value::as_str);
        let Some(call) = word("toolCallId") else { return };
        let name = word("name").unwrap_or("tool");
        self.text.interrupt();
        self.thoughts.interrupt();
        // A client that connects late sees calls that started earlier.
        if self.calls.insert(call.to_owned()) {
            let args = data.get("args").cloned().unwrap_or(Value::Null);
            events.push(EventKind::ToolStarted {
                call: call.to_owned(),
                name: name.to_owned(),
                title: tool_calls::call_title(name, &args),
                kind: tool_calls::tool_kind(name),
                locations: tool_calls::argument_locations(&args),
                input: args,
                waits: false,
                transcript_id: None,
            });
        }
        match phase {
            "update" => {
                let partial = data.get("partialResult").unwrap_or(&Value::Null);
                let details = partial.get("details").unwrap_or(&Value::Null);
                let (title, kind) = parse_description(details);
                let progress = tool_calls::parse_progress(partial);
                let locations = tool_calls::result_locations(details);
                let call = call.to_owned();
                events.push(EventKind::ToolUpdated {
                    call,
                    title,
                    kind,
                    locations,
                    progress: progress.map(zero_core::CallProgress::new),
                    begins: false,
                    subagent: None,
                });
            }
            "result" => {
                let result = data.get("result").unwrap_or(&Value::Null);
                let details = result.get("details").unwrap_or(&Value::Null);
                let is_error = data.get("isError").and_then(Value::as_bool).unwrap_or(false);
                let (title, kind) = parse_description(details);
                if title.is_some() || kind.is_some() {
                    let (call, locations, progress) = (call.to_owned(), Vec::new(), None);
                    events.push(EventKind::ToolUpdated {
                        call,
                        title,
                        kind,
                        locations,
                        progress,
                        begins: false,
                        subagent: None,
                    });
                }
                self.calls.remove(call);
                let outcome = tool_calls::parse_outcome(parse_status(is_error, details), result);
                events.push(EventKind::tool_ended(call, outcome));
            }
            _ => {}
        }
    }
}

fn parse_description(details: &Value) -> (Option<String>, Option<ToolKind>) {
    let word = |key: &str| details.get(key).and_then(Value::as_str);
    (word("title").map(str::to_owned), word("kind").and_then(tool_calls::parse_kind))
}

/// The status of an ended call. An error is never reported as a success.
pub(super) fn parse_status(is_error: bool, details: &Value) -> ToolCallStatus {
    let status = details.get("status").cloned().unwrap_or(Value::Null);
    match serde_json::from_value(status) {
        Ok(ToolCallStatus::Completed) | Err(_) if is_error => ToolCallStatus::Failed,
        Ok(status) if is_error => status,
        _ => ToolCallStatus::Completed,
    }
}

/// The thoughts and the text of a message.
pub(crate) fn message_texts(message: &Value) -> (String, String) {
    let (mut thoughts, mut texts) = (Vec::new(), Vec::new());
    match message.get("content") {
        Some(Value::String(text)) => texts.push(text.as_str()),
        Some(Value::Array(blocks)) => {
            for block in blocks {
                let word = |key: &str| block.get(key).and_then(Value::as_str);
                match word("type") {
                    Some("thinking") => thoughts.extend(word("thinking")),
                    Some("text" | "output_text") => texts.extend(word("text")),
                    _ => {}
                }
            }
        }
        _ => texts.extend(message.get("text").and_then(Value::as_str)),
    }
    (thoughts.join("\n"), texts.join("\n"))
}
