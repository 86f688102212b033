//! Decodes the chunk stream of the Gemini API.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::event::TokenUsage;
use crate::message::{MessageBlock, ToolInput};
use crate::model::protocol::ReplyDecoder;
use crate::model::provider_error::{
    invalid_response_error, provider_error, to_printable, truncated_stream_error,
};
use crate::model::reply_limiter::ReplyLimiter;
use crate::model::{ModelError, ModelErrorKind, ModelEvent, ModelReply, ModelStopReason};

/// Maximum retry delay that is accepted from a provider.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Decodes one reply.
#[derive(Default)]
pub(super) struct GeminiDecoder {
    parts: Vec<GeminiReplyPart>,
    tally: ReplyLimiter,
    calls: usize,
    /// The provider's name for the model; signatures are valid for the same model only.
    model: Option<String>,
    prompt_tokens: u64,
    tool_prompt_tokens: u64,
    answer_tokens: u64,
    thought_tokens: u64,
    cached_tokens: u64,
    stop: Option<ModelStopReason>,
    done: bool,
}

/// One part of the reply, as received so far.
enum GeminiReplyPart {
    Text(String),
    /// The signature of the preceding text. It is a separate part because adjacent texts are
    /// merged, and a signed text must not be merged with an unsigned one.
    TextSignature(String),
    Thought {
        text: String,
        signature: String,
    },
    Call {
        id: String,
        is_given_id: bool,
        name: String,
        input: Value,
        signature: String,
    },
}

impl ReplyDecoder for GeminiDecoder {
    fn decode_event(&mut self, _name: &str, data: &str) -> Result<Vec<ModelEvent>, ModelError> {
        if self.done || data.trim().is_empty() {
            return Ok(Vec::new());
        }
        let event: Value = serde_json::from_str(data)
            .map_err(|_| invalid_response_error("it sent an event that is not JSON"))?;
        let mut events = Vec::new();
        // Errors may come in a list.
        let chunks = match event {
            Value::Array(chunks) => chunks,
            chunk => vec![chunk],
        };
        for chunk in &chunks {
            self.apply_chunk(chunk, &mut events)?;
        }
        Ok(events)
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(&mut self) -> Result<ModelReply, ModelError> {
        let stop = self.stop.take().ok_or_else(truncated_stream_error)?;
        let model = self.model.take();
        let blocks: Vec<MessageBlock> = std::mem::take(&mut self.parts)
            .into_iter()
            .map(|part| part.into_block(model.as_deref()))
            .collect();
        let stop = if self.calls > 0 && stop == ModelStopReason::End {
            ModelStopReason::ToolUse
        } else {
            stop
        };
        Ok(ModelReply { blocks, stop, usage: self.usage() })
    }
}

impl GeminiDecoder {
    fn apply_chunk(
        &mut self,
        chunk: &Value,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), ModelError> {
        if !chunk["error"].is_null() {
            return Err(parse_error(&chunk["error"]));
        }
        // Only usage counts may follow the stop reason.
        let had_stopped = self.stop.is_some();
        let usage = &chunk["usageMetadata"];
        self.count_usage(usage);
        if let Some(model) = chunk["modelVersion"].as_str() {
            self.model = Some(to_printable(model));
        }
        if let Some(stop) = block_reason(&chunk["promptFeedback"]) {
            self.stop = Some(stop);
        }
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            events.extend(self.apply_part(part)?);
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.stop = Some(parse_stop_reason(reason, candidate["finishMessage"].as_str())?);
        }
        self.done = had_stopped || (self.stop.is_some() && usage.is_object());
        Ok(())
    }

    fn apply_part(&mut self, part: &Value) -> Result<Option<ModelEvent>, ModelError> {
        let signature = part["thoughtSignature"].as_str().unwrap_or_default();
        let text = part["text"].as_str().unwrap_or_default();
        self.tally.count_bytes(signature.len().saturating_add(text.len()))?;
        if part["functionCall"].is_object() {
            return self.apply_call(&part["functionCall"], signature).map(Some);
        }
        if text.is_empty() && signature.is_empty() {
            return Ok(None);
        }
        if part["thought"] == true {
            match self.parts.last_mut() {
                Some(GeminiReplyPart::Thought { text: before, signature: sign })
                    if sign.is_empty() =>
                {
                    before.push_str(text);
                    sign.push_str(signature);
                }
                _ => {
                    let (text, signature) = (text.to_owned(), signature.to_owned());
                    self.push(GeminiReplyPart::Thought { text, signature })?;
                }
            }
            return Ok((!text.is_empty()).then(|| ModelEvent::Thought(text.to_owned())));
        }
        if !text.is_empty() {
            match self.parts.last_mut() {
                Some(GeminiReplyPart::Text(before)) => before.push_str(text),
                _ => self.push(GeminiReplyPart::Text(text.to_owned()))?,
            }
        }
        if !signature.is_empty() {
            self.push(GeminiReplyPart::TextSignature(signature.to_owned()))?;
        }
        Ok((!text.is_empty()).then(|| ModelEvent::Text(text.to_owned())))
    }

    /// Processes a call, which arrives complete. Generates an id if it has none.
    fn apply_call(&mut self, call: &Value, signature: &str) -> Result<ModelEvent, ModelError> {
        self.calls = self.calls.saturating_add(1);
        let given = call["id"].as_str().filter(|id| !id.is_empty());
        let id = given.map_or_else(|| format!("call_{}", self.calls), str::to_owned);
        let name = call["name"].as_str().unwrap_or_default().to_owned();
        let input = match &call["args"] {
            Value::Null => json!({}),
            input => input.clone(),
        };
        let bytes = id.len().saturating_add(name.len()).saturating_add(input.to_string().len());
        self.tally.count_bytes(bytes)?;
        let event = ModelEvent::ToolUse { id: id.clone(), name: name.clone() };
        let signature = signature.to_owned();
        let is_given_id = given.is_some();
        self.push(GeminiReplyPart::Call { id, is_given_id, name, input, signature })?;
        Ok(event)
    }

    fn push(&mut self, part: GeminiReplyPart) -> Result<(), ModelError> {
        self.tally.count_part()?;
        self.parts.push(part);
        Ok(())
    }

    /// Updates the counts, which cover the whole reply so far; missing fields are unchanged.
    fn count_usage(&mut self, usage: &Value) {
        for (field, kept) in [
            ("promptTokenCount", &mut self.prompt_tokens),
            ("toolUsePromptTokenCount", &mut self.tool_prompt_tokens),
            ("candidatesTokenCount", &mut self.answer_tokens),
            ("thoughtsTokenCount", &mut self.thought_tokens),
            ("cachedContentTokenCount", &mut self.cached_tokens),
        ] {
            *kept = usage[field].as_u64().unwrap_or(*kept);
        }
    }

    /// The prompt's tokens include the cached ones; the reply's do not include the thoughts.
    fn usage(&self) -> TokenUsage {
        TokenUsage {
            input_tokens: self.prompt_tokens.saturating_add(self.tool_prompt_tokens),
            output_tokens: self.answer_tokens.saturating_add(self.thought_tokens),
            cache_read_tokens: self.cached_tokens,
            cache_write_tokens: 0,
            ..TokenUsage::default()
        }
    }
}

impl GeminiReplyPart {
    fn into_block(self, model: Option<&str>) -> MessageBlock {
        match self {
            Self::Text(text) => MessageBlock::Text { text },
            Self::TextSignature(signature) => {
                let mut opaque = signature_fields(&signature, model);
                opaque.insert("part".into(), json!("text"));
                MessageBlock::Thinking { text: String::new(), opaque: Value::Object(opaque) }
            }
            Self::Thought { text, signature } => MessageBlock::Thinking {
                text,
                opaque: or_null(signature_fields(&signature, model)),
            },
            Self::Call { id, is_given_id, name, input, signature } => {
                let mut opaque = signature_fields(&signature, model);
                if is_given_id {
                    opaque.insert("id".into(), json!(id));
                }
                let input = ToolInput::from(input);
                MessageBlock::ToolUse { id, name, input, opaque: or_null(opaque) }
            }
        }
    }
}

fn signature_fields(signature: &str, model: Option<&str>) -> Map<String, Value> {
    let mut opaque = Map::new();
    if !signature.is_empty() {
        opaque.insert("thoughtSignature".into(), json!(signature));
        if let Some(model) = model {
            opaque.insert("model".into(), json!(model));
        }
    }
    opaque
}

fn or_null(fields: Map<String, Value>) -> Value {
    if fields.is_empty() { Value::Null } else { Value::Object(fields) }
}

/// Why the prompt was blocked, if it was.
fn block_reason(feedback: &Value) -> Option<ModelStopReason> {
    let reason = feedback["blockReason"].as_str()?;
    if reason == "BLOCK_REASON_UNSPECIFIED" {
        return None;
    }
    let message = feedback["blockReasonMessage"].as_str();
    Some(ModelStopReason::Refusal(refusal_text(
        "the provider declined the prompt",
        reason,
        message,
    )))
}

fn parse_stop_reason(reason: &str, message: Option<&str>) -> Result<ModelStopReason, ModelError> {
    let failed = |kind, what: &str| {
        let message = message.unwrap_or_default();
        let colon = if message.is_empty() { "" } else { ": " };
        Err(provider_error(kind, &format!("{what} ({reason}){colon}{message}")))
    };
    match reason {
        "STOP" => Ok(ModelStopReason::End),
        "MAX_TOKENS" => Ok(ModelStopReason::MaxTokens),
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "LANGUAGE"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => Ok(ModelStopReason::Refusal(refusal_text(
            "the provider stopped the answer",
            reason,
            message,
        ))),
        // The provider could not parse the call that the model wrote and does not return it.
        // Nothing was run. The model may write a valid call the next time, so this is retried like
        // a server failure.
        "MALFORMED_FUNCTION_CALL"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MALFORMED_RESPONSE" => {
            failed(ModelErrorKind::Server, "the model wrote a call that cannot be read")
        }
        "MISSING_THOUGHT_SIGNATURE" => {
            failed(ModelErrorKind::InvalidRequest, "a call of the conversation is not signed")
        }
        // `OTHER` and future reasons: the text may be truncated anywhere, so it is not a complete
        // reply.
        _ => failed(ModelErrorKind::Server, "the answer was stopped"),
    }
}

fn refusal_text(what: &str, reason: &str, message: Option<&str>) -> String {
    let reason = to_printable(reason);
    match message.map(to_printable) {
        Some(message) if !message.is_empty() => format!("{what} ({reason}): {message}"),
        _ => format!("{what} ({reason})"),
    }
}

fn parse_error(error: &Value) -> ModelError {
    let message = error["message"].as_str().or(error.as_str()).unwrap_or_default();
    let status = error["status"].as_str().unwrap_or_default();
    let kind = classify_error(status, error["code"].as_u64(), message);
    ModelError { retry_after: retry_after(error), ..provider_error(kind, message) }
}

fn classify_error(status: &str, code: Option<u64>, message: &str) -> ModelErrorKind {
    let message = message.to_ascii_lowercase();
    match (status, code) {
        ("UNAUTHENTICATED" | "PERMISSION_DENIED", _) | ("", Some(401 | 403)) => {
            ModelErrorKind::Auth
        }
        ("RESOURCE_EXHAUSTED", _) | ("", Some(429)) => ModelErrorKind::RateLimit,
        ("DEADLINE_EXCEEDED", _) | ("", Some(504)) => ModelErrorKind::Timeout,
        // Gemini reports a wrong key as an invalid argument.
        ("INVALID_ARGUMENT", _) | ("", Some(400)) if message.contains("api key") => {
            ModelErrorKind::Auth
        }
        ("INVALID_ARGUMENT", _) | ("", Some(400)) if is_too_long(&message) => {
            ModelErrorKind::ContextLength
        }
        ("INVALID_ARGUMENT" | "NOT_FOUND" | "FAILED_PRECONDITION" | "OUT_OF_RANGE", _)
        | ("UNIMPLEMENTED" | "ALREADY_EXISTS", _)
        | ("", Some(400..=499)) => ModelErrorKind::InvalidRequest,
        // `UNAVAILABLE`, `INTERNAL`, `UNKNOWN`, `ABORTED`, `CANCELLED`, and future codes.
        _ => ModelErrorKind::Server,
    }
}

/// Matches "The input token count (1200000) exceeds the maximum number of tokens allowed
/// (1048576)."
fn is_too_long(message: &str) -> bool {
    message.contains("token") && (message.contains("exceed") || message.contains("too long"))
}

/// The retry delay of `google.rpc.RetryInfo`: `"retryDelay": "34.07s"`.
fn retry_after(error: &Value) -> Option<Duration> {
    let details = error["details"].as_array()?;
    let delay = details.iter().find_map(|detail| detail["retryDelay"].as_str())?;
    let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok().map(|delay| delay.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests;
