//! The messages of a session as clients see them, built from the ledger.
//!
//! The ledger is used instead of the transcript because it has timestamps, keeps messages that a
//! compaction removed from the transcript, and contains replies that involved no model.

use std::io;
use std::sync::Arc;

use zero_core::event::{Event, EventKind, ResultContent, ToolCallStatus};
use zero_core::text_shortening::shorten_to_fit;
use zero_core::{RunId, SessionId};
use zero_runtime::dialect::render_plain;
use zero_session::sessions::is_in_effect;
use zero_session::store::{RewindPoint, RewindPointKind, Store, StoreError};
use zero_wire::chat::{ChatBlock, ChatMessage};
use zero_wire::sessions::PreviewItem;

use crate::ledger_tail;
use crate::read_limiter::run_blocking;

/// Maximum size of all messages of a response, in bytes of JSON. Older messages are omitted.
const BYTES_MAX: usize = 12 * 1024 * 1024;

/// Reads the newest messages since the last reset, oldest first, limited by the bytes read from the
/// ledger. `finish` converts them on a blocking thread.
pub(crate) async fn read_messages<T: Send + 'static>(
    store: &dyn Store,
    session: &SessionId,
    most: usize,
    bytes_max: usize,
    finish: impl FnOnce(Vec<ChatMessage>) -> T + Send + 'static,
) -> Result<T, StoreError> {
    let is_reset = |event: &Event| matches!(event.kind, EventKind::Reset { .. });
    let mut rewinds = store.rewind_points(session).await?;
    rewinds.retain(|point| matches!(point.kind, RewindPointKind::Rewind { .. }));
    let rewinds = Arc::new(rewinds);
    let known = Arc::clone(&rewinds);
    let enough = move |events: &[Event]| {
        let visible = visible_events(skip_partial_message(events), &known);
        events.iter().any(is_reset) || build_messages(visible).len() >= most
    };
    let tail = ledger_tail::read_tail(store, session, bytes_max, enough).await?;
    run_blocking(move || {
        let events = if tail.is_cut { skip_partial_message(&tail.events) } else { &tail.events };
        finish(take_newest(build_messages(visible_events(events, &rewinds)), most, BYTES_MAX))
    })
    .await
}

/// The entries that no rewind has taken back.
fn visible_events<'a>(
    events: &'a [Event],
    rewinds: &'a [RewindPoint],
) -> impl Iterator<Item = &'a Event> {
    events.iter().filter(|event| is_in_effect(rewinds, event.seq))
}

/// Skips entries up to the first that begins a message: the message before it is incomplete and
/// would look complete.
fn skip_partial_message(events: &[Event]) -> &[Event] {
    let begins = |event: &Event| {
        matches!(event.kind, EventKind::Prompt { .. } | EventKind::ToolEnded { .. })
    };
    let first = events.iter().position(begins);
    first.and_then(|first| events.get(first..)).unwrap_or_default()
}

/// The newest messages that fit both limits.
fn take_newest(mut messages: Vec<ChatMessage>, most: usize, bytes_max: usize) -> Vec<ChatMessage> {
    let mut bytes = 0_usize;
    let fits = |message: &&ChatMessage| {
        bytes = bytes.saturating_add(json_bytes(message));
        bytes <= bytes_max
    };
    let kept = messages.iter().rev().take(most).take_while(fits).count();
    messages.split_off(messages.len() - kept)
}

/// Size of a value in bytes of JSON.
pub(crate) fn json_bytes(value: &impl serde::Serialize) -> usize {
    struct ByteCounter(usize);
    impl io::Write for ByteCounter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ByteCounter(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// Builds the messages of these entries. A queued prompt is placed before its reply, regardless of
/// when it was sent.
fn build_messages<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<ChatMessage> {
    let mut runs: Vec<(&RunId, Vec<ChatMessage>)> = Vec::new();
    for event in events {
        if let EventKind::Reset { .. } = event.kind {
            runs.clear();
        }
        let Some(run) = &event.run else { continue };
        match runs.iter_mut().rfind(|(known, _)| *known == run) {
            Some((_, messages)) => add_event(messages, event),
            None => {
                let mut messages = Vec::new();
                add_event(&mut messages, event);
                runs.push((run, messages));
            }
        }
    }
    runs.into_iter().flat_map(|(_, messages)| messages).collect()
}

fn add_event(messages: &mut Vec<ChatMessage>, event: &Event) {
    match &event.kind {
        EventKind::Prompt { text, attachments } => {
            let text = ChatBlock::Text { text: text.clone() };
            let images = attachments.iter().map(|image| ChatBlock::Image {
                data: image.data.clone(),
                mime_type: image.mime.clone(),
            });
            let content = std::iter::once(text).chain(images).collect();
            messages.push(new_message("user", content, event.time_ms));
        }
        EventKind::Text { text } => extend_reply(messages, event.time_ms, |last| match last {
            Some(ChatBlock::Text { text: before }) => {
                before.push_str(text);
                None
            }
            _ => Some(ChatBlock::Text { text: text.clone() }),
        }),
        EventKind::Thought { text } => extend_reply(messages, event.time_ms, |last| match last {
            Some(ChatBlock::Thinking { thinking }) => {
                thinking.push_str(text);
                None
            }
            _ => Some(ChatBlock::Thinking { thinking: text.clone() }),
        }),
        EventKind::ToolStarted { call, name, input, .. } => {
            let (id, name, arguments) = (call.clone(), name.clone(), input.clone());
            let call = ChatBlock::ToolCall { id, name, arguments };
            extend_reply(messages, event.time_ms, |_| Some(call));
        }
        EventKind::ToolEnded { call, status, outcome } => {
            let result = ChatBlock::ToolResult {
                tool_call_id: call.clone(),
                text: result_text(&render_plain(outcome)),
                is_error: *status != ToolCallStatus::Completed,
            };
            messages.push(new_message("toolResult", vec![result], event.time_ms));
        }
        _ => {}
    }
}

/// Extends the current reply, or begins a new one after any other message. `more` receives the last
/// block of the reply and either extends it or returns a new block.
fn extend_reply(
    messages: &mut Vec<ChatMessage>,
    time_ms: i64,
    more: impl FnOnce(Option<&mut ChatBlock>) -> Option<ChatBlock>,
) {
    match messages.last_mut() {
        Some(last) if last.role == "assistant" => {
            let piece = more(last.content.last_mut());
            last.content.extend(piece);
        }
        _ => messages.push(new_message("assistant", more(None).into_iter().collect(), time_ms)),
    }
}

fn new_message(role: &str, content: Vec<ChatBlock>, timestamp: i64) -> ChatMessage {
    ChatMessage { role: role.to_owned(), content, timestamp }
}

fn result_text(content: &[ResultContent]) -> String {
    let words = content.iter().map(|piece| match piece {
        ResultContent::Text { text } => text.clone(),
        ResultContent::Image { mime, .. } => format!("[{mime}]"),
    });
    words.collect::<Vec<_>>().join("\n")
}

/// Truncates every text of these messages to `chars_max` characters.
pub(crate) fn shorten_messages(messages: &mut [ChatMessage], chars_max: usize) {
    for block in messages.iter_mut().flat_map(|message| &mut message.content) {
        match block {
            ChatBlock::Text { text }
            | ChatBlock::Thinking { thinking: text }
            | ChatBlock::ToolResult { text, .. } => *text = shorten_to_fit(text, chars_max),
            ChatBlock::Image { .. } | ChatBlock::ToolCall { .. } | ChatBlock::Other(_) => {}
        }
    }
}

/// The last texts of the messages, each truncated to `chars_max` characters.
pub(crate) fn preview_items(
    messages: &[ChatMessage],
    most: usize,
    chars_max: usize,
) -> Vec<PreviewItem> {
    let item = |message: &ChatMessage| {
        let texts = message.content.iter().filter_map(|block| match block {
            ChatBlock::Text { text } => Some(text.trim()),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        let role = message.role.clone();
        (!text.is_empty()).then(|| PreviewItem { role, text: shorten_to_fit(&text, chars_max) })
    };
    let mut items: Vec<PreviewItem> = messages.iter().rev().filter_map(item).take(most).collect();
    items.reverse();
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run_id, run_ledger};
    use serde_json::json;
    use zero_core::{ErrorReason, ToolError, ToolKind};

    fn prompt(text: &str) -> EventKind {
        EventKind::Prompt { text: text.to_owned(), attachments: Vec::new() }
    }

    fn text(text: &str) -> EventKind {
        EventKind::Text { text: text.to_owned() }
    }

    fn tool(call: &str) -> [EventKind; 2] {
        let started = EventKind::ToolStarted {
            call: call.to_owned(),
            name: "Read".to_owned(),
            title: "Read a".to_owned(),
            kind: ToolKind::Read,
            input: json!({"path": "a"}),
            locations: Vec::new(),
            waits: false,
            transcript_id: None,
        };
        let error = ToolError::not_found(ErrorReason::Io, "no such file");
        let ended = EventKind::tool_ended(call, error.into());
        [started, ended]
    }

    fn format_messages(messages: &[ChatMessage]) -> Vec<String> {
        let block = |block: &ChatBlock| match block {
            ChatBlock::Text { text } => text.clone(),
            ChatBlock::Thinking { thinking } => format!("({thinking})"),
            ChatBlock::Image { mime_type, .. } => mime_type.clone(),
            ChatBlock::ToolCall { id, name, .. } => format!("{name}#{id}"),
            ChatBlock::Other(other) => other.to_string(),
            ChatBlock::ToolResult { tool_call_id, text, is_error } => {
                format!("{tool_call_id}={text}{}", if *is_error { "!" } else { "" })
            }
        };
        let line = |message: &ChatMessage| {
            let content: Vec<String> = message.content.iter().map(block).collect();
            format!("{} {}", message.role, content.join(" | "))
        };
        messages.iter().map(line).collect()
    }

    #[test]
    fn ledger_events_become_messages() {
        let [started, ended] = tool("c1");
        let events = run_ledger(
            "r",
            [
                prompt("hi"),
                EventKind::Thought { text: "hm".into() },
                text("I "),
                text("look"),
                started,
                ended,
                text("gone"),
            ],
        );
        let expected = [
            "user hi",
            "assistant (hm) | I look | Read#c1",
            "toolResult c1=no such file!",
            "assistant gone",
        ];
        let messages = build_messages(&events);
        assert_eq!(format_messages(&messages), expected);
        assert_eq!(messages[0].timestamp, 1_000);
    }

    #[test]
    fn queued_prompt_precedes_its_reply() {
        let mut events =
            run_ledger("a", [prompt("one"), text("1"), prompt("two"), text("1"), text("2")]);
        events[2].run = Some(run_id("b"));
        events[4].run = Some(run_id("b"));
        let expected = ["user one", "assistant 11", "user two", "assistant 2"];
        assert_eq!(format_messages(&build_messages(&events)), expected);
    }

    #[test]
    fn reset_hides_earlier_messages() {
        let mut events =
            run_ledger("a", [prompt("old"), EventKind::Reset { transcript: 1 }, prompt("new")]);
        events[1].run = None;
        events[2].run = Some(run_id("b"));
        assert_eq!(format_messages(&build_messages(&events)), ["user new"]);
    }

    #[test]
    fn only_newest_messages_that_fit_are_kept() {
        let events = run_ledger("a", [prompt("one"), text("two")]);
        assert_eq!(
            format_messages(&take_newest(build_messages(&events), 1, 1_000)),
            ["assistant two"]
        );
        assert_eq!(
            format_messages(&take_newest(build_messages(&events), 9, 100)),
            ["assistant two"]
        );
        assert_eq!(format_messages(&take_newest(build_messages(&events), 9, 10)), [""; 0]);
        assert_eq!(format_messages(&build_messages(skip_partial_message(&events[1..]))), [""; 0]);
    }

    #[test]
    fn truncated_run_starts_at_whole_message() {
        let [started, ended] = tool("c");
        let events =
            run_ledger("a", [prompt("ask"), text("I "), text("look"), started, ended, text("so")]);
        let shown = format_messages(&build_messages(skip_partial_message(&events[2..])));
        assert_eq!(shown, ["toolResult c=no such file!", "assistant so"]);
    }

    #[test]
    fn preview_is_truncated() {
        let [started, ended] = tool("c");
        let events = run_ledger("a", [prompt("ask"), text("äöü and more"), started, ended]);
        let items = preview_items(&build_messages(&events), 5, 5);
        let items: Vec<_> =
            items.iter().map(|item| (item.role.as_str(), item.text.as_str())).collect();
        assert_eq!(items, [("user", "ask"), ("assistant", "äöü …")]);
    }
}
