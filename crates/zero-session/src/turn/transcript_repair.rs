//! Makes a transcript valid for models: every call has a result directly after it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use crate::event::ResultContent;
use crate::message::{MessageBlock, MessageRole, ModelMessage, image_placeholder};

/// Result of a call whose outcome is unknown.
const UNKNOWN_OUTCOME: &str = "interrupted; whether it happened is not known";

/// Returns the transcript with a result for every call and without results of missing calls. The
/// records of the ledger about a killed run were added before: see `sessions::transcript_recovery`.
/// Earlier versions did not, and a disk that fails leaves one without the other.
pub(crate) fn repair(messages: Vec<ModelMessage>) -> Vec<ModelMessage> {
    let mut mended: Vec<ModelMessage> = Vec::with_capacity(messages.len());
    let mut messages = messages.into_iter().peekable();
    while let Some(message) = messages.next() {
        let calls = match message.role {
            MessageRole::Assistant => tool_calls(&message),
            MessageRole::User => Vec::new(),
        };
        match message.role {
            MessageRole::Assistant => mended.push(message),
            // Reached only by a user message that follows no call: see below.
            MessageRole::User => push_unless_empty(&mut mended, without_results(message)),
        }
        if calls.is_empty() {
            continue;
        }
        let next = messages.next_if(|next| next.role == MessageRole::User);
        let next = next.unwrap_or(ModelMessage { role: MessageRole::User, blocks: Vec::new() });
        mended.push(with_answers(calls, next));
    }
    mended
}

/// Ids and names of the calls of a message.
pub(crate) fn tool_calls(message: &ModelMessage) -> Vec<(String, String)> {
    let calls = message.blocks.iter().filter_map(|block| match block {
        MessageBlock::ToolUse { id, name, .. } => Some((id.clone(), name.clone())),
        _ => None,
    });
    calls.collect()
}

/// The message with one result for each call, in order, before all other content.
fn with_answers(calls: Vec<(String, String)>, message: ModelMessage) -> ModelMessage {
    let mut results = BTreeMap::new();
    let mut others = Vec::new();
    for block in message.blocks {
        match block {
            MessageBlock::ToolResult { ref id, .. } => {
                results.entry(id.clone()).or_insert(block);
            }
            other => others.push(other),
        }
    }
    let lost = |id: String, name: String| MessageBlock::ToolResult {
        id,
        name,
        content: vec![ResultContent::Text { text: UNKNOWN_OUTCOME.to_owned() }],
        is_error: true,
    };
    let answers = calls.into_iter().map(|(id, name)| match results.remove(&id) {
        Some(result) => result,
        None => lost(id, name),
    });
    ModelMessage {
        role: MessageRole::User,
        blocks: answers.collect::<Vec<_>>().into_iter().chain(others).collect(),
    }
}

fn without_results(mut message: ModelMessage) -> ModelMessage {
    message.blocks.retain(|block| !matches!(block, MessageBlock::ToolResult { .. }));
    message
}

fn push_unless_empty(messages: &mut Vec<ModelMessage>, message: ModelMessage) {
    if !message.blocks.is_empty() {
        messages.push(message);
    }
}

/// The ids of all calls.
pub(super) fn call_ids(messages: &[Arc<ModelMessage>]) -> HashSet<&str> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    let ids = blocks.filter_map(|block| match block {
        MessageBlock::ToolUse { id, .. } => Some(id.as_str()),
        _ => None,
    });
    ids.collect()
}

/// The blocks without blank text, which some providers reject.
pub(super) fn drop_blank_text(mut blocks: Vec<MessageBlock>) -> Vec<MessageBlock> {
    blocks.retain(|block| !matches!(block, MessageBlock::Text { text } if text.trim().is_empty()));
    blocks
}

/// Adapts messages to the model: replaces images by text if the model does not accept them.
pub(crate) fn adapt_for_model(
    messages: &[Arc<ModelMessage>],
    takes_images: bool,
) -> Vec<Arc<ModelMessage>> {
    let mut messages = messages.to_vec();
    if !takes_images {
        let words = |mime: &str| format!("[an image ({mime}), which this model cannot see]");
        image_placeholder::replace_images(&mut messages, words);
    }
    messages
}

#[cfg(test)]
pub(crate) mod tests {
    use std::borrow::Borrow;

    use super::*;
    use crate::message::ToolInput;

    /// Finds the first defect for which a model would reject the transcript.
    pub(crate) fn find_flaw<M: Borrow<ModelMessage>>(messages: &[M]) -> Option<String> {
        let mut open: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for message in messages.iter().map(Borrow::borrow) {
            let results: Vec<String> = message
                .blocks
                .iter()
                .filter_map(|block| match block {
                    MessageBlock::ToolResult { id, .. } => Some(id.clone()),
                    _ => None,
                })
                .collect();
            if results != open {
                return Some(format!("calls {open:?} are answered by {results:?}"));
            }
            if message.blocks.is_empty() {
                return Some("a message is empty".to_owned());
            }
            open = tool_calls(message).into_iter().map(|(id, _)| id).collect();
            for id in &open {
                if id.is_empty() || !seen.insert(id.clone()) {
                    return Some(format!("the id {id:?} is empty or used twice"));
                }
            }
        }
        (!open.is_empty()).then(|| format!("calls {open:?} are not answered"))
    }

    /// `u` and `a` are texts of user and model, `c1` is a call and `r1` its result.
    fn parse_script(script: &str) -> Vec<ModelMessage> {
        script
            .split_whitespace()
            .map(|message| {
                let blocks = message.split('+').map(|block| match block.split_at(1) {
                    ("c", id) => MessageBlock::ToolUse {
                        id: id.to_owned(),
                        name: "Read".to_owned(),
                        input: ToolInput::parse(""),
                        opaque: serde_json::Value::Null,
                    },
                    ("r", id) => MessageBlock::ToolResult {
                        id: id.to_owned(),
                        name: "Read".to_owned(),
                        content: Vec::new(),
                        is_error: false,
                    },
                    (words, _) => MessageBlock::text(words),
                });
                let speaks = message.starts_with(['a', 'c']);
                let role = if speaks { MessageRole::Assistant } else { MessageRole::User };
                ModelMessage { role, blocks: blocks.collect() }
            })
            .collect()
    }

    fn render_script(messages: &[ModelMessage]) -> String {
        let block = |block: &MessageBlock| match block {
            MessageBlock::ToolUse { id, .. } => format!("c{id}"),
            MessageBlock::ToolResult { id, content, .. } if content.is_empty() => format!("r{id}"),
            MessageBlock::ToolResult { id, .. } => format!("x{id}"),
            MessageBlock::Text { text } => text.clone(),
            _ => "?".to_owned(),
        };
        let message =
            |message: &ModelMessage| message.blocks.iter().map(block).collect::<Vec<_>>().join("+");
        messages.iter().map(message).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(script: &str, expected: &str) {
        let mended = repair(parse_script(script));
        assert_eq!(render_script(&mended), expected, "{script}");
        assert_eq!(find_flaw(&mended), None, "{script}");
        assert_eq!(repair(mended.clone()), mended, "mending twice changes nothing");
    }

    #[test]
    fn repair_answers_every_call_in_next_message() {
        check("u a u a+c1 r1 a", "u a u a+c1 r1 a");
        check("u c1+c2 r1+r2", "u c1+c2 r1+r2");
        check("u c1+c2 r2", "u c1+c2 x1+r2");
        check("u c1", "u c1 x1");
        check("u c1 u a", "u c1 x1+u a");
        check("u c1 a", "u c1 x1 a");
        check("u c1 c2 r2", "u c1 x1 c2 r2");
        check("r1 u", "u");
        check("u r1+u a", "u u a");
        check("u c1 r1+r9", "u c1 r1");
        check("", "");
    }
}
