//! Decodes replies of chat completions in all known variants.

mod text_chunk;

use std::collections::BTreeMap;
use std::mem;

use serde_json::{Value, json};

use super::{OPAQUE, THOUGHT_FIELDS};
use crate::event::TokenUsage;
use crate::message::{MessageBlock, ToolInput};
use crate::model::attempt_failure;
use crate::model::openai::{
    ARGUMENT_BYTES_MAX, CALLS_MAX, invalid_response_error, parse_json, read_tokens,
    truncated_stream_error,
};
use crate::model::protocol::ReplyDecoder;
use crate::model::{ModelError, ModelErrorKind, ModelEvent, ModelReply, ModelStopReason};

/// Maximum number of OpenRouter reasoning details.
const DETAILS_MAX: usize = 1024;

/// Decodes one reply.
#[derive(Default)]
pub(super) struct ChatDecoder {
    parts: Vec<ChatReplyPart>,
    calls: Vec<PartialToolCall>,
    /// Maps the provider's call index to the call. The index is an identifier, not a position.
    by_index: BTreeMap<u64, usize>,
    argument_bytes: usize,
    details: Vec<Value>,
    refusal: String,
    finish_reason: Option<String>,
    usage: TokenUsage,
    is_done: bool,
}

/// Content in order. Calls come last; no server sends them before text.
enum ChatReplyPart {
    Text(String),
    Thought { text: String, field: &'static str },
}

struct PartialToolCall {
    id: String,
    name: String,
    arguments: String,
    extra_content: Value,
    was_announced: bool,
}

impl ReplyDecoder for ChatDecoder {
    fn decode_event(&mut self, _: &str, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        let data = data.trim();
        if data == "[DONE]" {
            self.is_done = true;
            return Ok(Vec::new());
        }
        if data.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(words) = text_chunk::parse_text(data) {
            let mut events = Vec::new();
            if !words.is_empty() {
                self.push_text(&words, &mut events);
            }
            return Ok(events);
        }
        self.apply_chunk(&parse_json(data)?)
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(&mut self) -> Result<ModelReply, ModelError> {
        let stop = self.stop_reason()?;
        let mut details = Some(mem::take(&mut self.details)).filter(|details| !details.is_empty());
        let mut blocks = Vec::new();
        for part in mem::take(&mut self.parts) {
            blocks.push(match part {
                ChatReplyPart::Text(text) => MessageBlock::Text { text },
                ChatReplyPart::Thought { text, field } => {
                    let mut opaque = json!({ "field": field });
                    if let Some(details) = details.take() {
                        opaque = json!({ "details": details });
                    }
                    MessageBlock::Thinking { text, opaque: json!({ OPAQUE: opaque }) }
                }
            });
        }
        if let Some(details) = details {
            let opaque = json!({ OPAQUE: { "details": details } });
            blocks.insert(0, MessageBlock::Thinking { text: String::new(), opaque });
        }
        blocks.extend(mem::take(&mut self.calls).into_iter().map(PartialToolCall::into_block));
        Ok(ModelReply { blocks, stop, usage: self.usage })
    }
}

impl ChatDecoder {
    fn apply_chunk(&mut self, chunk: &Value) -> Result<Vec<ModelEvent>, ModelError> {
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = parse_usage(usage);
        }
        let mut events = Vec::new();
        // The final chunk with the usage has no choice; only one choice is ever requested.
        let Some(choice) = chunk.pointer("/choices/0") else { return Ok(events) };
        if let Some(error) = choice.get("error").filter(|error| error.is_object()) {
            return Err(attempt_failure::failure_from_object(error, None).error);
        }
        // A server that does not stream sends everything in `message`.
        if let Some(delta) = choice.get("delta").or_else(|| choice.get("message")) {
            self.apply_thought(delta, &mut events);
            self.apply_content(&delta["content"], &mut events);
            if let Some(refusal) = delta["refusal"].as_str() {
                self.refusal.push_str(refusal);
            }
            for call in delta["tool_calls"].as_array().into_iter().flatten() {
                self.apply_call(call, &mut events)?;
            }
            if delta["function_call"].is_object() {
                // The oldest format has a single call without id and index.
                let call = json!({ "index": u64::MAX, "function": delta["function_call"] });
                self.apply_call(&call, &mut events)?;
            }
        }
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(events)
    }

    fn stop_reason(&mut self) -> Result<ModelStopReason, ModelError> {
        let Some(reason) = self.finish_reason.take() else {
            // Some servers send only the final marker.
            return match self.is_done && !(self.parts.is_empty() && self.calls.is_empty()) {
                true => Ok(self.ordinary_stop_reason()),
                false => Err(truncated_stream_error()),
            };
        };
        match reason.as_str() {
            "length" | "model_length" | "max_tokens" => Ok(ModelStopReason::MaxTokens),
            "content_filter" | "safety" => {
                let words = mem::take(&mut self.refusal);
                Ok(ModelStopReason::Refusal(match words.is_empty() {
                    true => "the provider's content filter stopped the answer".to_owned(),
                    false => words,
                }))
            }
            "error" | "insufficient_system_resource" => Err(ModelError::new(
                ModelErrorKind::Server,
                "the provider failed in mid-answer; try again later, or choose another model",
            )),
            _ => Ok(self.ordinary_stop_reason()),
        }
    }

    /// Some servers report `stop` instead of `tool_calls`, and vice versa.
    fn ordinary_stop_reason(&mut self) -> ModelStopReason {
        match (self.calls.is_empty(), self.refusal.is_empty()) {
            (false, _) => ModelStopReason::ToolUse,
            (true, false) => ModelStopReason::Refusal(mem::take(&mut self.refusal)),
            (true, true) => ModelStopReason::End,
        }
    }

    fn apply_thought(&mut self, delta: &Value, events: &mut Vec<ModelEvent>) {
        let thought = THOUGHT_FIELDS.into_iter().find_map(|field| {
            let text = delta[field].as_str().filter(|text| !text.is_empty())?;
            Some((field, text))
        });
        if let Some((field, text)) = thought {
            self.push_thought(field, text, events);
        }
        for detail in delta["reasoning_details"].as_array().into_iter().flatten() {
            self.apply_detail(detail);
        }
    }

    fn push_thought(&mut self, field: &'static str, more: &str, events: &mut Vec<ModelEvent>) {
        match self.parts.last_mut() {
            Some(ChatReplyPart::Thought { text, .. }) => text.push_str(more),
            _ => self.parts.push(ChatReplyPart::Thought { text: more.to_owned(), field }),
        }
        events.push(ModelEvent::Thought(more.to_owned()));
    }

    /// Content is a string, or a list of parts that may include thoughts.
    fn apply_content(&mut self, content: &Value, events: &mut Vec<ModelEvent>) {
        match content {
            Value::String(text) if !text.is_empty() => self.push_text(text, events),
            Value::Array(parts) => {
                for part in parts {
                    if let Some(text) = part["text"].as_str().filter(|text| !text.is_empty()) {
                        self.push_text(text, events);
                    }
                    for thought in part["thinking"].as_array().into_iter().flatten() {
                        if let Some(text) = thought["text"].as_str().filter(|text| !text.is_empty())
                        {
                            self.push_thought("", text, events);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn push_text(&mut self, more: &str, events: &mut Vec<ModelEvent>) {
        match self.parts.last_mut() {
            Some(ChatReplyPart::Text(text)) => text.push_str(more),
            _ => self.parts.push(ChatReplyPart::Text(more.to_owned())),
        }
        events.push(ModelEvent::Text(more.to_owned()));
    }

    /// OpenRouter streams these in pieces, and expects them back complete and in order.
    fn apply_detail(&mut self, detail: &Value) {
        if let Some(last) = self.details.last_mut()
            && last["type"] == detail["type"]
            && last["index"] == detail["index"]
            && !detail["index"].is_null()
            && let (Some(whole), Some(more)) = (last.as_object_mut(), detail.as_object())
        {
            for (key, more) in more {
                match (whole.get_mut(key), more) {
                    (Some(Value::String(text)), Value::String(more))
                        if matches!(key.as_str(), "text" | "summary" | "data") =>
                    {
                        text.push_str(more);
                    }
                    (_, Value::Null) => {}
                    _ => drop(whole.insert(key.clone(), more.clone())),
                }
            }
        } else if self.details.len() < DETAILS_MAX {
            self.details.push(detail.clone());
        }
    }

    fn apply_call(
        &mut self,
        delta: &Value,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        let id = delta["id"].as_str().unwrap_or_default();
        let function = &delta["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let slot = match self.find_call(delta["index"].as_u64(), id, name) {
            Some(slot) => slot,
            None => self.begin_call(delta["index"].as_u64())?,
        };
        let Some(call) = self.calls.get_mut(slot) else { return Ok(()) };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        if let extra @ Value::Object(_) = &delta["extra_content"] {
            call.extra_content = extra.clone();
        }
        let before = call.arguments.len();
        match &function["arguments"] {
            Value::String(more) => call.arguments.push_str(more),
            // Some servers send the object itself, always complete.
            whole @ (Value::Object(_) | Value::Array(_)) => call.arguments = whole.to_string(),
            _ => {}
        }
        self.argument_bytes += call.arguments.len().saturating_sub(before);
        if self.argument_bytes > ARGUMENT_BYTES_MAX {
            return Err(invalid_response_error(&format!(
                "more than {ARGUMENT_BYTES_MAX} bytes of arguments"
            )));
        }
        if !call.was_announced && !call.name.is_empty() {
            call.was_announced = true;
            if call.id.is_empty() {
                call.id = new_id();
            }
            events.push(ModelEvent::ToolUse { id: call.id.clone(), name: call.name.clone() });
        }
        Ok(())
    }

    /// The call that a delta continues; `None` if it begins a new one.
    fn find_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let by_id = || self.calls.iter().rposition(|call| !id.is_empty() && call.id == id);
        match index {
            Some(index) => {
                let slot = *self.by_index.get(&index)?;
                // Some servers give every call the same index. A new id with a name begins a new
                // call.
                let known = self.calls.get(slot).map_or("", |call| &call.id);
                let is_other =
                    !id.is_empty() && !name.is_empty() && !known.is_empty() && id != known;
                if is_other { by_id() } else { Some(slot) }
            }
            None if !id.is_empty() => by_id(),
            None if !name.is_empty() => None,
            None => self.calls.len().checked_sub(1),
        }
    }

    fn begin_call(&mut self, index: Option<u64>) -> Result<usize, ModelError> {
        let slot = self.calls.len();
        if slot >= CALLS_MAX {
            return Err(invalid_response_error(&format!(
                "more than {CALLS_MAX} tool calls at once"
            )));
        }
        self.calls.push(PartialToolCall {
            id: String::new(),
            name: String::new(),
            arguments: String::new(),
            extra_content: Value::Null,
            was_announced: false,
        });
        if let Some(index) = index {
            self.by_index.insert(index, slot);
        }
        Ok(slot)
    }
}

impl PartialToolCall {
    fn into_block(self) -> MessageBlock {
        let opaque = match self.extra_content {
            Value::Null => Value::Null,
            extra => json!({ OPAQUE: { "extra_content": extra } }),
        };
        MessageBlock::ToolUse {
            id: if self.id.is_empty() { new_id() } else { self.id },
            // No tool has this name, so the model receives an error.
            name: if self.name.is_empty() { "unnamed".to_owned() } else { self.name },
            input: ToolInput::parse(&self.arguments),
            opaque,
        }
    }
}

fn new_id() -> String {
    format!("call_{:016x}", fastrand::u64(..))
}

fn parse_usage(usage: &Value) -> TokenUsage {
    let cached = read_tokens(usage, "/prompt_tokens_details/cached_tokens");
    TokenUsage {
        input_tokens: read_tokens(usage, "/prompt_tokens"),
        output_tokens: read_tokens(usage, "/completion_tokens"),
        // DeepSeek uses its own field name.
        cache_read_tokens: cached.max(read_tokens(usage, "/prompt_cache_hit_tokens")),
        cache_write_tokens: read_tokens(usage, "/prompt_tokens_details/cache_write_tokens"),
        ..TokenUsage::default()
    }
}
