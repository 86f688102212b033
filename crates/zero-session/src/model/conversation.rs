//! A conversation in the strict form that some APIs require: alternating user and model turns, the
//! user first, and each call answered once in the following turn.
//!
//! A transcript may differ: it was compacted, a run was interrupted between a call and its result,
//! or another model wrote it. This module normalizes it, so that such a session can continue.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zero_core::hexadecimal::to_hex;

use crate::event::ResultContent;
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput};

/// Result of a call that has none.
pub(crate) const NEVER_RUN: &str = "This call was not run.";
/// First user message if the conversation would begin with the model.
const MISSING_START: &str = "(The beginning of this conversation is not shown.)";

/// Maximum length of a tool name that every API accepts.
const NAME_LEN_MAX: usize = 64;

/// Consecutive content of one side. Never empty.
#[derive(Debug, PartialEq)]
pub(crate) struct ConversationTurn<'a> {
    pub(crate) role: MessageRole,
    pub(crate) pieces: Vec<TurnPart<'a>>,
}

/// One part of a turn.
#[derive(Debug, PartialEq)]
pub(crate) enum TurnPart<'a> {
    /// Text; never blank.
    Text(&'a str),
    /// Text that introduces a result whose call is missing.
    OrphanedResult(String),
    Image(TurnImage<'a>),
    /// Only in turns of the model.
    Thinking {
        text: &'a str,
        opaque: &'a Value,
    },
    /// Only in turns of the model.
    Call(TurnToolCall<'a>),
    /// Only in turns of the user, before all other parts, in the order of the calls.
    ToolResult(TurnToolResult<'a>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TurnImage<'a> {
    pub(crate) mime: &'a str,
    pub(crate) data: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TurnToolCall<'a> {
    /// Its number in the conversation, from 0.
    pub(crate) number: usize,
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) input: &'a ToolInput,
    pub(crate) opaque: &'a Value,
}

/// Result of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TurnToolResult<'a> {
    pub(crate) call: TurnToolCall<'a>,
    /// `None` if there is no result.
    pub(crate) content: Option<&'a [ResultContent]>,
    pub(crate) is_error: bool,
}

/// Builds the turns of a conversation. Omits thoughts that `keeps_thought` rejects, and blank
/// texts, which some APIs reject.
pub(crate) fn build_turns<'a>(
    messages: &'a [Arc<ModelMessage>],
    keeps_thought: impl Fn(&Value) -> bool,
) -> Vec<ConversationTurn<'a>> {
    let mut turns = Vec::new();
    let mut open: Vec<TurnToolCall<'a>> = Vec::new();
    let mut calls = 0;
    for (role, blocks) in merge_messages(messages, keeps_thought) {
        let pieces = match role {
            MessageRole::User => user_parts(std::mem::take(&mut open), &blocks),
            MessageRole::Assistant => {
                let pieces = model_parts(&blocks, &mut calls);
                open = pieces.iter().filter_map(TurnPart::as_call).collect();
                pieces
            }
        };
        turns.push(ConversationTurn { role, pieces });
    }
    if !open.is_empty() {
        turns.push(ConversationTurn { role: MessageRole::User, pieces: user_parts(open, &[]) });
    }
    if turns.first().is_some_and(|turn| turn.role == MessageRole::Assistant) {
        turns.insert(
            0,
            ConversationTurn {
                role: MessageRole::User,
                pieces: vec![TurnPart::Text(MISSING_START)],
            },
        );
    }
    turns
}

/// A tool name that all APIs accept. Names of registered tools already are; a model may have called
/// any name.
pub(crate) fn sanitize_tool_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_well && name.len() <= NAME_LEN_MAX && name.chars().all(is_plain) {
        return name.to_owned();
    }
    let start = name.chars().take(NAME_LEN_MAX / 2).map(|c| if is_plain(c) { c } else { '_' });
    format!("_{}_{}", start.collect::<String>(), short_hash(name))
}

/// The arguments as an object, the only form that APIs accept.
pub(crate) fn arguments_object(input: &ToolInput) -> Value {
    match input {
        ToolInput::Json(json) if json.is_object() => json.to_value(),
        ToolInput::Json(other) => json!({"value": other}),
        ToolInput::Unreadable { unreadable, .. } => json!({"unreadable": unreadable}),
    }
}

/// A stable hash of `text` with sixteen digits.
pub(crate) fn short_hash(text: &str) -> String {
    to_hex(Sha256::digest(text).get(..8).unwrap_or_default())
}

impl<'a> TurnPart<'a> {
    fn as_call(&self) -> Option<TurnToolCall<'a>> {
        match self {
            Self::Call(call) => Some(*call),
            _ => None,
        }
    }
}

/// The non-empty blocks, with adjacent messages of the same role merged.
fn merge_messages<'a>(
    messages: &'a [Arc<ModelMessage>],
    keeps_thought: impl Fn(&Value) -> bool,
) -> Vec<(MessageRole, Vec<&'a MessageBlock>)> {
    let mut merged: Vec<(MessageRole, Vec<&'a MessageBlock>)> = Vec::new();
    for message in messages {
        let blocks = message.blocks.iter().filter(|block| match (block, message.role) {
            (MessageBlock::Text { text }, _) => !text.trim().is_empty(),
            (MessageBlock::Thinking { opaque, .. }, MessageRole::Assistant) => {
                keeps_thought(opaque)
            }
            (MessageBlock::ToolUse { .. }, role) => role == MessageRole::Assistant,
            (MessageBlock::Image { .. } | MessageBlock::ToolResult { .. }, role) => {
                role == MessageRole::User
            }
            (MessageBlock::Thinking { .. }, MessageRole::User) => false,
        });
        let blocks: Vec<&MessageBlock> = blocks.collect();
        match merged.last_mut() {
            _ if blocks.is_empty() => {}
            Some((role, before)) if *role == message.role => before.extend(blocks),
            _ => merged.push((message.role, blocks)),
        }
    }
    merged
}

fn model_parts<'a>(blocks: &[&'a MessageBlock], calls: &mut usize) -> Vec<TurnPart<'a>> {
    let pieces = blocks.iter().filter_map(|block| match block {
        MessageBlock::Text { text } => Some(TurnPart::Text(text)),
        MessageBlock::Thinking { text, opaque } => Some(TurnPart::Thinking { text, opaque }),
        MessageBlock::ToolUse { id, name, input, opaque } => {
            let number = *calls;
            *calls += 1;
            Some(TurnPart::Call(TurnToolCall { number, id, name, input, opaque }))
        }
        MessageBlock::Image { .. } | MessageBlock::ToolResult { .. } => None,
    });
    pieces.collect()
}

/// The results of the `open` calls, then the other parts. If calls share an id, results are
/// assigned in order.
fn user_parts<'a>(open: Vec<TurnToolCall<'a>>, blocks: &[&'a MessageBlock]) -> Vec<TurnPart<'a>> {
    let mut blocks: Vec<Option<&'a MessageBlock>> = blocks.iter().copied().map(Some).collect();
    let mut pieces = Vec::new();
    for call in open {
        let result = blocks.iter_mut().find_map(|slot| match slot {
            Some(MessageBlock::ToolResult { id, content, is_error, .. }) if id == call.id => {
                *slot = None;
                Some((content.as_slice(), *is_error))
            }
            _ => None,
        });
        let (content, is_error) = match result {
            Some((content, is_error)) => (Some(content), is_error),
            None => (None, true),
        };
        pieces.push(TurnPart::ToolResult(TurnToolResult { call, content, is_error }));
    }
    for block in blocks.into_iter().flatten() {
        match block {
            MessageBlock::Text { text } => pieces.push(TurnPart::Text(text)),
            MessageBlock::Image { mime, data } => {
                pieces.push(TurnPart::Image(TurnImage { mime, data }))
            }
            MessageBlock::ToolResult { name, content, .. } => {
                pieces.extend(orphaned_result_parts(name, content))
            }
            MessageBlock::Thinking { .. } | MessageBlock::ToolUse { .. } => {}
        }
    }
    pieces
}

/// A result whose call is missing, as text: an API would reject it, and the model may need it.
fn orphaned_result_parts<'a>(name: &str, content: &'a [ResultContent]) -> Vec<TurnPart<'a>> {
    let mut pieces =
        vec![TurnPart::OrphanedResult(format!("(Result of an earlier call of `{name}`:)"))];
    pieces.extend(content.iter().filter_map(|content| match content {
        ResultContent::Text { text } if text.trim().is_empty() => None,
        ResultContent::Text { text } => Some(TurnPart::Text(text)),
        ResultContent::Image { mime, data } => Some(TurnPart::Image(TurnImage { mime, data })),
    }));
    pieces
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::message::share_messages;
    use serde_json::json;

    pub(crate) fn call(id: &str, name: &str) -> MessageBlock {
        MessageBlock::ToolUse {
            id: id.into(),
            name: name.into(),
            input: ToolInput::from(json!({})),
            opaque: Value::Null,
        }
    }

    pub(crate) fn result(id: &str, name: &str, text: &str) -> MessageBlock {
        let content = vec![ResultContent::Text { text: text.into() }];
        MessageBlock::ToolResult { id: id.into(), name: name.into(), content, is_error: false }
    }

    pub(crate) fn user(blocks: Vec<MessageBlock>) -> ModelMessage {
        ModelMessage { role: MessageRole::User, blocks }
    }

    /// Renders turns in short form: `U text =a:result | M text +a`.
    fn render_short(messages: Vec<ModelMessage>) -> String {
        let messages = share_messages(messages);
        let turns = build_turns(&messages, |opaque| !opaque.is_null());
        let turns = turns.iter().map(|turn| {
            let who = if turn.role == MessageRole::User { "U" } else { "M" };
            let pieces = turn.pieces.iter().map(|piece| match piece {
                TurnPart::Text(text) => (*text).to_owned(),
                TurnPart::OrphanedResult(text) => text.clone(),
                TurnPart::Image(image) => format!("<{}>", image.mime),
                TurnPart::Thinking { text, .. } => format!("~{text}"),
                TurnPart::Call(call) => format!("+{}#{}", call.id, call.number),
                TurnPart::ToolResult(answer) => match answer.content {
                    Some([ResultContent::Text { text }]) => {
                        format!("={}#{}:{text}", answer.call.id, answer.call.number)
                    }
                    other => format!("={}#{}:{other:?}", answer.call.id, answer.call.number),
                },
            });
            format!("{who} {}", pieces.collect::<Vec<_>>().join(" "))
        });
        turns.collect::<Vec<_>>().join(" | ")
    }

    #[track_caller]
    fn check(messages: Vec<ModelMessage>, expected: &str) {
        assert_eq!(render_short(messages), expected);
    }

    fn model_message(blocks: Vec<MessageBlock>) -> ModelMessage {
        ModelMessage::assistant(blocks)
    }

    fn thought(text: &str, opaque: Value) -> MessageBlock {
        MessageBlock::Thinking { text: text.into(), opaque }
    }

    #[test]
    fn adjacent_messages_merge_into_one_turn() {
        check(vec![], "");
        check(vec![ModelMessage::user("a"), ModelMessage::user("b")], "U a b");
        let blank = model_message(vec![MessageBlock::text(" \n")]);
        check(vec![ModelMessage::user("a"), blank, ModelMessage::user("b")], "U a b");
        let thoughts =
            vec![thought("x", Value::Null), thought("y", json!(1)), MessageBlock::text("z")];
        check(vec![ModelMessage::user("a"), model_message(thoughts)], "U a | M ~y z");
        check(
            vec![model_message(vec![MessageBlock::text("a")]), ModelMessage::user("b")],
            "U (The beginning of this conversation is not shown.) | M a | U b",
        );
    }

    #[test]
    fn each_call_is_answered_once_in_next_turn() {
        let ask = || ModelMessage::user("q");
        let calls = || model_message(vec![call("a", "Read"), call("b", "Read")]);
        check(
            vec![
                ask(),
                calls(),
                user(vec![
                    MessageBlock::text("t"),
                    result("b", "Read", "2"),
                    result("a", "Read", "1"),
                ]),
            ],
            "U q | M +a#0 +b#1 | U =a#0:1 =b#1:2 t",
        );
        check(
            vec![ask(), calls(), user(vec![result("b", "Read", "2")])],
            "U q | M +a#0 +b#1 | U =a#0:None =b#1:2",
        );
        check(vec![ask(), calls()], "U q | M +a#0 +b#1 | U =a#0:None =b#1:None");
        check(
            vec![
                ask(),
                model_message(vec![call("a", "X"), call("a", "X")]),
                user(vec![result("a", "X", "1")]),
                user(vec![result("a", "X", "2"), result("a", "X", "3")]),
            ],
            "U q | M +a#0 +a#1 | U =a#0:1 =a#1:2 (Result of an earlier call of `X`:) 3",
        );
        check(
            vec![user(vec![result("gone", "Grep", "1")])],
            "U (Result of an earlier call of `Grep`:) 1",
        );
        check(
            vec![
                ask(),
                calls(),
                user(vec![result("a", "Read", "1"), result("b", "Read", "2")]),
                model_message(vec![call("a", "Read")]),
                user(vec![result("a", "Read", "3")]),
            ],
            "U q | M +a#0 +b#1 | U =a#0:1 =b#1:2 | M +a#2 | U =a#2:3",
        );
    }

    #[test]
    fn tool_names_are_sanitized() {
        for name in ["Read", "github__create_issue", "_x", "a-b"] {
            assert_eq!(sanitize_tool_name(name), name);
        }
        assert_eq!(sanitize_tool_name("a.b"), "_a_b_2e7336dc8eba87ef");
        assert_ne!(sanitize_tool_name("a.b"), sanitize_tool_name("a/b"));
        for name in ["", "1x", "ünïcödé", &"x".repeat(500)] {
            let plain = sanitize_tool_name(name);
            assert_eq!(sanitize_tool_name(&plain), plain, "{name}");
        }
    }

    #[test]
    fn arguments_become_object() {
        let unreadable = ToolInput::Unreadable { unreadable: "{\"a".into(), why: "EOF".into() };
        for (input, expected) in [
            (ToolInput::from(json!({"b": 1, "a": 2})), json!({"b": 1, "a": 2})),
            (ToolInput::from(json!([1])), json!({"value": [1]})),
            (ToolInput::from(Value::Null), json!({"value": null})),
            (unreadable, json!({"unreadable": "{\"a"})),
        ] {
            assert_eq!(arguments_object(&input), expected);
        }
    }

    #[test]
    fn blocks_invalid_for_role_are_left_out() {
        let image = || MessageBlock::Image { mime: "image/png".into(), data: "AA==".into() };
        check(vec![user(vec![call("a", "X"), thought("t", json!(1)), image()])], "U <image/png>");
        check(
            vec![ModelMessage::user("q"), model_message(vec![image(), result("a", "X", "1")])],
            "U q",
        );
    }
}
