//! Decodes the event stream of the Messages API.

use serde_json::{Value, json};

use crate::event::TokenUsage;
use crate::message::{MessageBlock, ToolInput};
use crate::model::protocol::ReplyDecoder;
use crate::model::provider_error::{
    invalid_response_error, provider_error, to_printable, truncated_stream_error,
};
use crate::model::reply_limiter::ReplyLimiter;
use crate::model::{ModelError, ModelErrorKind, ModelEvent, ModelReply, ModelStopReason};

/// Decodes one reply.
#[derive(Default)]
pub(super) struct MessagesDecoder {
    /// In order of their start, each with the index that its events refer to.
    parts: Vec<(u64, AnthropicReplyBlock)>,
    tally: ReplyLimiter,
    /// The provider's name for the model; thoughts are valid for the same model only.
    model: Option<String>,
    fresh_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    output_tokens: u64,
    stop: Option<ModelStopReason>,
    done: bool,
}

/// One block of the reply, as received so far.
enum AnthropicReplyBlock {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call {
        id: String,
        name: String,
        input: Value,
        arguments: String,
    },
    /// A block kind that is not used here, such as a search that the provider ran itself.
    Other,
}

impl ReplyDecoder for MessagesDecoder {
    fn decode_event(&mut self, name: &str, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        if self.done || data.trim().is_empty() {
            return Ok(Vec::new());
        }
        let event: Value = serde_json::from_str(data)
            .map_err(|_| invalid_response_error("it sent an event that is not JSON"))?;
        let model_event = match event["type"].as_str().unwrap_or(name) {
            "message_start" => {
                let message = &event["message"];
                self.model = message["model"].as_str().map(to_printable);
                self.count_usage(&message["usage"]);
                None
            }
            "content_block_start" => self.start_block(&event)?,
            "content_block_delta" => self.apply_delta(&event)?,
            "message_delta" => {
                self.count_usage(&event["usage"]);
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.stop = Some(parse_stop_reason(reason, &event["delta"]["stop_details"]));
                }
                None
            }
            "message_stop" => {
                self.done = true;
                None
            }
            "error" => return Err(parse_error(&event["error"])),
            // `ping`, `content_block_stop`, and future events.
            _ => None,
        };
        Ok(model_event.into_iter().collect())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(&mut self) -> Result<ModelReply, ModelError> {
        // The stop reason comes after all content.
        let stop = self.stop.take().ok_or_else(truncated_stream_error)?;
        let is_cut = stop == ModelStopReason::MaxTokens;
        let model = self.model.take();
        let parts: Vec<AnthropicReplyBlock> =
            std::mem::take(&mut self.parts).into_iter().map(|(_, part)| part).collect();
        let last = parts.len().saturating_sub(1);
        let blocks: Vec<MessageBlock> = parts
            .into_iter()
            .enumerate()
            .filter_map(|(at, part)| part.into_block(model.as_deref(), is_cut && at == last))
            .collect();
        let calls = blocks.iter().any(|block| matches!(block, MessageBlock::ToolUse { .. }));
        let stop =
            if calls && stop == ModelStopReason::End { ModelStopReason::ToolUse } else { stop };
        Ok(ModelReply { blocks, stop, usage: self.usage() })
    }
}

impl MessagesDecoder {
    fn start_block(&mut self, event: &Value) -> Result<Option<ModelEvent>, ModelError> {
        let block = &event["content_block"];
        let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
        self.tally.count_part()?;
        let (part, model_event) = match block["type"].as_str() {
            Some("text") => {
                let text = text("text");
                (AnthropicReplyBlock::Text(text.clone()), nonempty_event(text, ModelEvent::Text))
            }
            Some("thinking") => {
                let (text, signature) = (text("thinking"), text("signature"));
                let model_event = nonempty_event(text.clone(), ModelEvent::Thought);
                (AnthropicReplyBlock::Thinking { text, signature }, model_event)
            }
            Some("redacted_thinking") => (AnthropicReplyBlock::Redacted(text("data")), None),
            Some("tool_use") => {
                let (id, name) = (text("id"), text("name"));
                let model_event = ModelEvent::ToolUse { id: id.clone(), name: name.clone() };
                let input = block["input"].clone();
                (
                    AnthropicReplyBlock::Call { id, name, input, arguments: String::new() },
                    Some(model_event),
                )
            }
            _ => (AnthropicReplyBlock::Other, None),
        };
        self.tally.count_bytes(part.len())?;
        self.parts.push((event["index"].as_u64().unwrap_or_default(), part));
        Ok(model_event)
    }

    fn apply_delta(&mut self, event: &Value) -> Result<Option<ModelEvent>, ModelError> {
        let index = event["index"].as_u64().unwrap_or_default();
        let delta = &event["delta"];
        // The newest block of that index: an index that is reused starts a new block.
        let Some((_, part)) = self.parts.iter_mut().rev().find(|(at, _)| *at == index) else {
            return Ok(None);
        };
        let (kept, field) = match (part, delta["type"].as_str()) {
            (AnthropicReplyBlock::Text(text), Some("text_delta")) => (text, "text"),
            (AnthropicReplyBlock::Thinking { text, .. }, Some("thinking_delta")) => {
                (text, "thinking")
            }
            (AnthropicReplyBlock::Thinking { signature, .. }, Some("signature_delta")) => {
                (signature, "signature")
            }
            (AnthropicReplyBlock::Call { arguments, .. }, Some("input_json_delta")) => {
                (arguments, "partial_json")
            }
            _ => return Ok(None),
        };
        let new = delta[field].as_str().unwrap_or_default();
        self.tally.count_bytes(new.len())?;
        kept.push_str(new);
        Ok(match field {
            "text" => nonempty_event(new.to_owned(), ModelEvent::Text),
            "thinking" => nonempty_event(new.to_owned(), ModelEvent::Thought),
            _ => None,
        })
    }

    /// Updates the counts, which cover the whole reply so far; missing fields are unchanged.
    fn count_usage(&mut self, usage: &Value) {
        for (field, kept) in [
            ("input_tokens", &mut self.fresh_tokens),
            ("cache_read_input_tokens", &mut self.cache_read_tokens),
            ("cache_creation_input_tokens", &mut self.cache_write_tokens),
            ("output_tokens", &mut self.output_tokens),
        ] {
            *kept = usage[field].as_u64().unwrap_or(*kept);
        }
    }

    fn usage(&self) -> TokenUsage {
        let cached = self.cache_read_tokens.saturating_add(self.cache_write_tokens);
        TokenUsage {
            input_tokens: self.fresh_tokens.saturating_add(cached),
            output_tokens: self.output_tokens,
            cache_read_tokens: self.cache_read_tokens,
            cache_write_tokens: self.cache_write_tokens,
            ..TokenUsage::default()
        }
    }
}

impl AnthropicReplyBlock {
    /// Number of bytes stored.
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Thinking { text, signature } => text.len().saturating_add(signature.len()),
            Self::Redacted(data) => data.len(),
            Self::Call { id, name, input, .. } => {
                let input = if input.is_null() { 0 } else { input.to_string().len() };
                id.len().saturating_add(name.len()).saturating_add(input)
            }
            Self::Other => 0,
        }
    }

    /// Converts the block; `None` if it is empty.
    fn into_block(self, model: Option<&str>, is_cut: bool) -> Option<MessageBlock> {
        match self {
            Self::Text(text) => (!text.is_empty()).then_some(MessageBlock::Text { text }),
            Self::Thinking { text, signature } => {
                let opaque = if signature.is_empty() {
                    Value::Null
                } else {
                    tag_with_model(json!({"type": "thinking", "signature": signature}), model)
                };
                let is_something = !text.is_empty() || !opaque.is_null();
                is_something.then_some(MessageBlock::Thinking { text, opaque })
            }
            Self::Redacted(data) => {
                let opaque =
                    tag_with_model(json!({"type": "redacted_thinking", "data": data}), model);
                (!data.is_empty()).then_some(MessageBlock::Thinking { text: String::new(), opaque })
            }
            Self::Call { id, name, input, arguments } => {
                let input = parse_call_input(input, &arguments, is_cut);
                Some(MessageBlock::ToolUse { id, name, input, opaque: Value::Null })
            }
            Self::Other => None,
        }
    }
}

/// Arguments arrive in pieces; some servers send them complete with the start of the call.
fn parse_call_input(input: Value, arguments: &str, is_cut: bool) -> ToolInput {
    let is_whole = input.as_object().is_some_and(|input| !input.is_empty());
    if arguments.trim().is_empty() && is_whole {
        return ToolInput::from(input);
    }
    if arguments.trim().is_empty() && is_cut {
        // Missing arguments and truncated arguments look the same; no tool may run by mistake.
        let why = "the answer was cut before the arguments".to_owned();
        return ToolInput::Unreadable { unreadable: arguments.to_owned(), why };
    }
    ToolInput::parse(arguments)
}

fn tag_with_model(mut opaque: Value, model: Option<&str>) -> Value {
    if let (Some(fields), Some(model)) = (opaque.as_object_mut(), model) {
        fields.insert("model".into(), json!(model));
    }
    opaque
}

fn nonempty_event(text: String, event: fn(String) -> ModelEvent) -> Option<ModelEvent> {
    (!text.is_empty()).then(|| event(text))
}

fn parse_stop_reason(reason: &str, details: &Value) -> ModelStopReason {
    match reason {
        "tool_use" => ModelStopReason::ToolUse,
        // A full context window ends a reply like any other limit.
        "max_tokens" | "model_context_window_exceeded" => ModelStopReason::MaxTokens,
        "refusal" => {
            let explanation =
                details["explanation"].as_str().or_else(|| details["category"].as_str());
            ModelStopReason::Refusal(match explanation.map(to_printable) {
                Some(explanation) if !explanation.is_empty() => explanation,
                _ => "the model declined to answer".to_owned(),
            })
        }
        // `end_turn` and `stop_sequence`. `pause_turn` occurs only with tools that the provider
        // runs, and zero requests none. Calls run even if a new stop reason is added.
        _ => ModelStopReason::End,
    }
}

fn parse_error(error: &Value) -> ModelError {
    let message = error["message"].as_str().or(error.as_str()).unwrap_or_default();
    provider_error(classify_error(error["type"].as_str().unwrap_or_default(), message), message)
}

fn classify_error(kind: &str, message: &str) -> ModelErrorKind {
    let message = message.to_ascii_lowercase();
    match kind {
        "authentication_error" | "permission_error" => ModelErrorKind::Auth,
        "rate_limit_error" | "billing_error" => ModelErrorKind::RateLimit,
        "timeout_error" => ModelErrorKind::Timeout,
        "request_too_large" => ModelErrorKind::ContextLength,
        "invalid_request_error"
            if ["prompt is too long", "input is too long", "exceed context limit"]
                .iter()
                .any(|words| message.contains(words)) =>
        {
            ModelErrorKind::ContextLength
        }
        "invalid_request_error" if message.contains("credit balance") => ModelErrorKind::RateLimit,
        "invalid_request_error" | "not_found_error" => ModelErrorKind::InvalidRequest,
        // `overloaded_error`, `api_error`, and future errors.
        _ => ModelErrorKind::Server,
    }
}

#[cfg(test)]
mod tests;
