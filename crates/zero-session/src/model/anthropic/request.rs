//! Encodes requests of the Messages API.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::event::ResultContent;
use crate::message::{MessageBlock, MessageRole, ModelMessage};
use crate::model::conversation::{
    ConversationTurn, NEVER_RUN, TurnImage, TurnPart, TurnToolCall, TurnToolResult,
    arguments_object, build_turns, sanitize_tool_name, short_hash,
};
use crate::model::model_name::{ParsedModelName, can_be_same_model};
use crate::model::{ModelInfo, ModelRequest, ThinkingEffort};

/// Vendor prefix in the names of its models.
const VENDOR_PREFIX: &str = "claude";
/// Minimum thinking budget that the API accepts, in tokens.
const BUDGET_MIN: u64 = 1_024;
/// Number of user turns with a cache mark, besides the tools and the system prompt; the API allows
/// four marks. The second-to-last turn was the last one of the previous request, so its cached
/// prefix is found again however much this request adds.
const CACHED_TURNS: usize = 2;

/// The body of a request without the tools.
pub(super) fn build_body(info: &ModelInfo, request: &ModelRequest) -> Value {
    // If the conversation has calls but the request has no tools, the request is about the
    // conversation and not part of it. Newer models accept their thoughts only in the conversation
    // they belong to.
    let is_about = request.tools.is_empty() && has_calls(&request.messages);
    let turns =
        build_turns(&request.messages, |opaque| !is_about && is_readable_thought(opaque, info));
    let ids = call_ids(&turns);
    let output_tokens_max =
        request.output_tokens_max.unwrap_or(u64::MAX).min(info.output_tokens_max).max(1);

    let mut body = Map::new();
    body.insert("model".into(), json!(info.id));
    body.insert("max_tokens".into(), json!(output_tokens_max));
    body.insert("stream".into(), json!(true));
    if !request.system.trim().is_empty() {
        let mut system = json!({"type": "text", "text": request.system});
        mark_for_cache(&mut system);
        body.insert("system".into(), json!([system]));
    }
    if is_about && build_tools(request).is_some() {
        body.insert("tool_choice".into(), json!({"type": "none"}));
    }
    body.extend(thinking_fields(info, request.thinking, output_tokens_max, &turns));
    let mut messages: Vec<Value> = turns.iter().map(|turn| encode_turn(turn, &ids, info)).collect();
    let of_user = messages.iter_mut().rev().filter(|message| message["role"] == "user");
    for message in of_user.take(CACHED_TURNS) {
        if let Some(last) =
            message.get_mut("content").and_then(Value::as_array_mut).and_then(|c| c.last_mut())
        {
            mark_for_cache(last);
        }
    }
    body.insert("messages".into(), Value::Array(messages));
    Value::Object(body)
}

/// Asks the provider to cache the request up to and including `block`.
fn mark_for_cache(block: &mut Value) {
    if let Some(block) = block.as_object_mut() {
        block.insert("cache_control".into(), json!({"type": "ephemeral"}));
    }
}

/// Whether a thought can be sent back: it comes from this API, has a signature, and is not from
/// another model, which would reject it.
fn is_readable_thought(opaque: &Value, info: &ModelInfo) -> bool {
    let proof = match opaque["type"].as_str() {
        Some("thinking") => opaque["signature"].as_str(),
        Some("redacted_thinking") => opaque["data"].as_str(),
        _ => None,
    };
    let model = opaque["model"].as_str().unwrap_or(&info.id);
    proof.is_some_and(|proof| !proof.is_empty())
        && can_be_same_model(model, &info.id, VENDOR_PREFIX)
}

/// Builds the `tools` field; `None` if there is nothing to declare.
pub(super) fn build_tools(request: &ModelRequest) -> Option<Value> {
    let mut definitions: Vec<Value> = request
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": sanitize_tool_name(&tool.name),
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        })
        .collect();
    if definitions.is_empty() {
        // Calls in the conversation require the declaration of their tools even if none may be used
        // now.
        let turns = build_turns(&request.messages, |_| false);
        let used: BTreeSet<String> =
            calls(&turns).map(|call| sanitize_tool_name(call.name)).collect();
        definitions = used
            .iter()
            .map(|name| json!({"name": name, "input_schema": {"type": "object"}}))
            .collect();
    }
    mark_for_cache(definitions.last_mut()?);
    Some(Value::Array(definitions))
}

/// How the thinking effort of a model is configured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThinkingControl {
    /// Not configurable.
    None,
    /// With a token budget.
    Budget,
    /// With an effort level; without it, the model does not think.
    Effort,
    /// With an effort level; the model always thinks.
    EffortAlways,
}

impl ThinkingControl {
    /// Models from 4.6 on accept an effort level, and from 4.7 on nothing else; models before 3.7
    /// do not think. A name without a version is newer than those. Other vendors' models with this
    /// protocol support a budget, if anything.
    fn from_info(info: &ModelInfo) -> Self {
        match ParsedModelName::parse(&info.id, VENDOR_PREFIX).map(|name| name.version) {
            Some(Some(version)) if version < (3, 7) => Self::None,
            Some(Some(version)) if version < (4, 6) => Self::Budget,
            Some(Some(version)) if version < (5, 0) => Self::Effort,
            Some(_) => Self::EffortAlways,
            None => Self::Budget,
        }
    }
}

/// The `thinking` field, and `output_config` if needed.
fn thinking_fields(
    info: &ModelInfo,
    level: ThinkingEffort,
    output_tokens_max: u64,
    turns: &[ConversationTurn<'_>],
) -> Map<String, Value> {
    let control = ThinkingControl::from_info(info);
    let mut fields = Map::new();
    match control {
        ThinkingControl::None => {}
        ThinkingControl::Budget => {
            let tokens = match level {
                ThinkingEffort::Default | ThinkingEffort::Off => return fields,
                ThinkingEffort::Low => 4_096,
                ThinkingEffort::Medium => 12_288,
                ThinkingEffort::High => 32_768,
            };
            // The budget is part of the output limit; a quarter remains for the reply.
            let budget = tokens.min(output_tokens_max - output_tokens_max / 4);
            if budget >= BUDGET_MIN && budget < output_tokens_max && can_continue_thinking(turns) {
                let thinking = json!({"type": "enabled", "budget_tokens": budget});
                fields.insert("thinking".into(), thinking);
            }
        }
        ThinkingControl::Effort | ThinkingControl::EffortAlways => {
            let effort = match level {
                ThinkingEffort::Default => None,
                ThinkingEffort::Off if control == ThinkingControl::Effort => return fields,
                // Models that always think reject an explicit off; this is their minimum.
                ThinkingEffort::Off | ThinkingEffort::Low => Some("low"),
                ThinkingEffort::Medium => Some("medium"),
                ThinkingEffort::High => Some("high"),
            };
            // `adaptive` lets the model decide how much to think. Without `display`, newer models
            // hide their thoughts and the text between two calls.
            let thinking = json!({"type": "adaptive", "display": "summarized"});
            fields.insert("thinking".into(), thinking);
            if let Some(effort) = effort {
                fields.insert("output_config".into(), json!({"effort": effort}));
            }
        }
    }
    fields
}

/// With a budget, an unfinished turn must have begun with a thought. A turn that began without one,
/// or with another model, continues without thinking.
fn can_continue_thinking(turns: &[ConversationTurn<'_>]) -> bool {
    match turns {
        [.., reply, results] if matches!(results.pieces.first(), Some(TurnPart::ToolResult(_))) => {
            matches!(reply.pieces.first(), Some(TurnPart::Thinking { .. }))
        }
        _ => true,
    }
}

fn encode_turn(turn: &ConversationTurn<'_>, ids: &[String], info: &ModelInfo) -> Value {
    let role = match turn.role {
        MessageRole::User => "user",
        MessageRole::Assistant => "assistant",
    };
    let content: Vec<Value> =
        turn.pieces.iter().map(|piece| encode_part(piece, ids, info)).collect();
    json!({"role": role, "content": content})
}

fn encode_part(piece: &TurnPart<'_>, ids: &[String], info: &ModelInfo) -> Value {
    match piece {
        TurnPart::Text(text) => text_block(text),
        TurnPart::OrphanedResult(text) => text_block(text),
        TurnPart::Image(image) => image_block(*image, info),
        TurnPart::Thinking { opaque, .. } if opaque["type"] == "redacted_thinking" => {
            json!({"type": "redacted_thinking", "data": opaque["data"]})
        }
        TurnPart::Thinking { text, opaque } => {
            json!({"type": "thinking", "thinking": text, "signature": opaque["signature"]})
        }
        TurnPart::Call(call) => json!({
            "type": "tool_use",
            "id": call_id(call, ids),
            "name": sanitize_tool_name(call.name),
            "input": arguments_object(call.input),
        }),
        TurnPart::ToolResult(answer) => result_block(answer, ids, info),
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// An image, or a text in its place if the model or the API would reject it.
fn image_block(image: TurnImage<'_>, info: &ModelInfo) -> Value {
    let TurnImage { mime, data } = image;
    if !info.takes_images {
        return text_block("(An image, which this model cannot see.)");
    }
    match mime {
        "image/jpeg" | "image/png" | "image/gif" | "image/webp" => json!({
            "type": "image",
            "source": {"type": "base64", "media_type": mime, "data": data},
        }),
        other => text_block(&format!("(An image of the type `{other}`, which is not supported.)")),
    }
}

fn result_block(answer: &TurnToolResult<'_>, ids: &[String], info: &ModelInfo) -> Value {
    let content: Vec<Value> = match answer.content {
        None => vec![text_block(NEVER_RUN)],
        Some(content) => content
            .iter()
            .filter_map(|content| match content {
                ResultContent::Text { text } if text.trim().is_empty() => None,
                ResultContent::Text { text } => Some(text_block(text)),
                ResultContent::Image { mime, data } => {
                    Some(image_block(TurnImage { mime, data }, info))
                }
            })
            .collect(),
    };
    let mut block = Map::new();
    block.insert("type".into(), json!("tool_result"));
    block.insert("tool_use_id".into(), json!(call_id(&answer.call, ids)));
    if !content.is_empty() {
        block.insert("content".into(), Value::Array(content));
    }
    if answer.is_error {
        block.insert("is_error".into(), json!(true));
    }
    Value::Object(block)
}

fn has_calls(messages: &[Arc<ModelMessage>]) -> bool {
    let mut blocks = messages.iter().flat_map(|message| &message.blocks);
    blocks.any(|block| matches!(block, MessageBlock::ToolUse { .. }))
}

fn calls<'t, 'a>(turns: &'t [ConversationTurn<'a>]) -> impl Iterator<Item = &'t TurnToolCall<'a>> {
    turns.iter().flat_map(|turn| &turn.pieces).filter_map(|piece| match piece {
        TurnPart::Call(call) => Some(call),
        _ => None,
    })
}

/// Unique ids of all calls, by their number; valid ids stay unchanged. An id does not depend on
/// later calls, so the cached prefix stays valid.
fn call_ids(turns: &[ConversationTurn<'_>]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut ids = Vec::new();
    for call in calls(turns) {
        let id = if is_plain_id(call.id) {
            call.id.to_owned()
        } else {
            format!("call_{}", short_hash(call.id))
        };
        let mut free = id;
        // Each candidate is longer than the previous one, so the loop ends.
        while !taken.insert(free.clone()) {
            free.push_str("_again");
        }
        ids.push(free);
    }
    ids
}

/// Whether the id matches the API's pattern and has a plausible length.
fn is_plain_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
}

fn call_id<'i>(call: &TurnToolCall<'_>, ids: &'i [String]) -> &'i str {
    ids.get(call.number).map_or("", String::as_str)
}

#[cfg(test)]
pub(super) mod tests;
