//! `POST /responses`: OpenAI's newer protocol, which keeps thoughts between calls.
//!
//! Nothing is stored at OpenAI: thoughts arrive encrypted, are stored with the transcript, and are
//! sent with the next request of the same turn.

mod decoder;

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use self::decoder::ResponsesDecoder;
use crate::message::{MessageBlock, MessageRole, ModelMessage};
use crate::model::model_config::ApiKey;
use crate::model::openai::{self, OpenAiServer};
use crate::model::protocol::{ModelProtocol, ReplyDecoder};
use crate::model::{ModelError, ModelInfo, ModelRequest, ThinkingEffort, known_models};

/// Key of the encrypted thought that is sent back.
const OPAQUE: &str = "openai_responses";

/// The Responses protocol of a server.
pub(crate) struct OpenAiResponsesProtocol {
    server: OpenAiServer,
}

impl OpenAiResponsesProtocol {
    /// The protocol variant of the server at that address.
    pub(crate) fn for_base_url(base: Option<&Url>) -> Self {
        Self { server: base.map_or(OpenAiServer::Other, OpenAiServer::from_base_url) }
    }
}

impl ModelProtocol for OpenAiResponsesProtocol {
    fn url(&self, base: &Url, _: &ModelInfo) -> Result<Url, ModelError> {
        Ok(openai::join_url(base, "responses"))
    }

    fn headers(&self, key: Option<&ApiKey>) -> Vec<(&'static str, String)> {
        self.server.headers(key)
    }

    fn encode_body(&self, info: &ModelInfo, request: &ModelRequest) -> String {
        let mut body = json!({
            "model": info.id,
            "input": build_input(&request.messages),
            "stream": true,
            "store": false,
        });
        if !request.system.is_empty() {
            body["instructions"] = request.system.as_str().into();
        }
        if let Some(max) = request.output_tokens_max {
            body["max_output_tokens"] = max.into();
        }
        if let Some(mut format) = openai::answer_format(request) {
            format["type"] = "json_schema".into();
            body["text"] = json!({ "format": format });
        }
        // Models without reasoning reject these fields.
        if known_models::is_openai_reasoner(&info.id) {
            body["include"] = json!(["reasoning.encrypted_content"]);
            if let Some(effort) = known_models::reasoning_effort(&info.id, request.thinking) {
                body["reasoning"] = json!({ "effort": effort });
                // OpenAI shows thoughts only to verified organisations and rejects the request of
                // others, so they are requested only if the user chose a thinking effort.
                if request.thinking != ThinkingEffort::Off {
                    body["reasoning"]["summary"] = "auto".into();
                }
            }
        }
        body.to_string()
    }

    fn encode_tools(&self, request: &ModelRequest) -> Option<Value> {
        let tools = request.tools.iter().map(|tool| {
            json!({
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                "strict": false,
            })
        });
        (!request.tools.is_empty()).then(|| tools.collect())
    }

    fn new_decoder(&self) -> Box<dyn ReplyDecoder> {
        Box::new(ResponsesDecoder::default())
    }
}

fn build_input(messages: &[Arc<ModelMessage>]) -> Vec<Value> {
    let turn_start = openai::turn_start(messages);
    let mut items = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        match message.role {
            MessageRole::User => user_items(message, &mut items),
            MessageRole::Assistant => assistant_items(message, index >= turn_start, &mut items),
        }
    }
    items
}

/// Results first, since they must follow the calls. Images come with the user's other content.
fn user_items(message: &ModelMessage, items: &mut Vec<Value>) {
    let mut parts = Vec::new();
    let mut user_parts = Vec::new();
    for block in &message.blocks {
        match block {
            MessageBlock::ToolResult { id, name, content, is_error } => {
                items.push(json!({
                    "type": "function_call_output",
                    "call_id": id,
                    "output": openai::result_text(content, *is_error),
                }));
                let mut images = openai::image_urls(content).peekable();
                if images.peek().is_some() {
                    parts.push(text_part(&format!("From `{name}`:")));
                    parts.extend(images.map(image_part));
                }
            }
            MessageBlock::Text { text } if !text.is_empty() => user_parts.push(text_part(text)),
            MessageBlock::Image { mime, data } => {
                user_parts.push(image_part(openai::data_url(mime, data)))
            }
            MessageBlock::Text { .. }
            | MessageBlock::Thinking { .. }
            | MessageBlock::ToolUse { .. } => {}
        }
    }
    parts.extend(user_parts);
    if !parts.is_empty() {
        items.push(json!({ "type": "message", "role": "user", "content": parts }));
    }
}

fn text_part(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

fn image_part(url: String) -> Value {
    json!({ "type": "input_image", "image_url": url })
}

fn assistant_items(message: &ModelMessage, is_in_turn: bool, items: &mut Vec<Value>) {
    for (index, block) in message.blocks.iter().enumerate() {
        match block {
            MessageBlock::Text { text } if !text.is_empty() => items.push(json!({
                "type": "message",
                "role": "assistant",
                "content": [{ "type": "output_text", "text": text }],
            })),
            MessageBlock::ToolUse { id, name, input, .. } => items.push(json!({
                "type": "function_call",
                "call_id": id,
                "name": name,
                "arguments": openai::arguments_text(input),
            })),
            // A thought without a following item is rejected.
            MessageBlock::Thinking { opaque, .. }
                if is_in_turn && index + 1 < message.blocks.len() =>
            {
                let thought =
                    opaque.get(OPAQUE).filter(|thought| thought["encrypted_content"].is_string());
                items.extend(thought.map(|thought| {
                    json!({
                        "type": "reasoning",
                        "summary": thought["summary"].as_array().cloned().unwrap_or_default(),
                        "encrypted_content": thought["encrypted_content"],
                    })
                }));
            }
            MessageBlock::Text { .. }
            | MessageBlock::Thinking { .. }
            | MessageBlock::Image { .. }
            | MessageBlock::ToolResult { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
