//! `POST /chat/completions`: OpenAI's older way of speaking, which nearly everybody understands.
//!
//! Everybody speaks it a little differently. What is sent keeps to what all of them take; what is
//! read allows for what Ollama, llama.cpp, vLLM, OpenRouter, DeepSeek, Mistral and Gemini do.

mod decoder;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use self::decoder::ChatDecoder;
use crate::message::{Block, Message, Role};
use crate::model::catalogue::Key;
use crate::model::known::{self, MISTRAL};
use crate::model::openai::{self, Server};
use crate::model::protocol::{Decoder, Protocol};
use crate::model::{ModelError, ModelInfo, ModelRequest};

/// What is kept beside thoughts and calls, to go back with them, stands under this name.
const OPAQUE: &str = "openai_chat";
/// Where servers put a model's thoughts. Who sends both means the same by them.
const THOUGHT_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Chat completions, as some server speaks it.
pub(crate) struct OpenAiChat {
    server: Server,
}

impl OpenAiChat {
    /// As the server at that address speaks it.
    pub(crate) fn at(base: Option<&Url>) -> Self {
        Self { server: base.map_or(Server::Other, Server::of) }
    }
}

impl Protocol for OpenAiChat {
    fn url(&self, base: &Url, _: &ModelInfo) -> Result<Url, ModelError> {
        Ok(openai::url(base, "chat/completions"))
    }

    fn headers(&self, key: Option<&Key>) -> Vec<(&'static str, String)> {
        self.server.headers(key)
    }

    fn body(&self, info: &ModelInfo, request: &ModelRequest) -> Value {
        let mut body = json!({
            "model": info.id,
            "messages": messages(info, request),
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({ "type": "function", "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                }})
            });
            body["tools"] = tools.collect();
        }
        if let Some(max) = request.output_tokens_max {
            // OpenAI's newer models refuse the old name, and other servers do not know the new one.
            let is_new = self.server != Server::Other || known::is_openai_reasoner(&info.id);
            let field = if is_new { "max_completion_tokens" } else { "max_tokens" };
            body[field] = max.into();
        }
        if let Some(effort) = known::effort(&info.id, request.thinking) {
            body["reasoning_effort"] = effort.into();
        }
        body
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(ChatDecoder::default())
    }
}

fn messages(info: &ModelInfo, request: &ModelRequest) -> Vec<Value> {
    let turn_start = openai::turn_start(&request.messages);
    let mut messages = Vec::new();
    if !request.system.is_empty() {
        messages.push(json!({ "role": "system", "content": request.system }));
    }
    for (place, message) in request.messages.iter().enumerate() {
        match message.role {
            Role::User => user_messages(info, message, &mut messages),
            Role::Assistant => {
                messages.extend(assistant_message(info, message, place >= turn_start));
            }
        }
    }
    messages
}

/// Results first, each as a message of its own: they must follow the calls. Their pictures have no
/// place in them, and come after with what else the person says.
fn user_messages(info: &ModelInfo, message: &Message, messages: &mut Vec<Value>) {
    let mut parts = Vec::new();
    let mut said = Vec::new();
    for block in &message.blocks {
        match block {
            Block::ToolResult { id, name, content, is_error } => {
                messages.push(json!({
                    "role": "tool",
                    "tool_call_id": call_id(info, id),
                    "content": openai::result_text(content, *is_error),
                }));
                let mut images = openai::images(content).peekable();
                if images.peek().is_some() {
                    parts.push(text_part(&format!("From `{name}`:")));
                    parts.extend(images.map(image_part));
                }
            }
            Block::Text { text } if !text.is_empty() => said.push(text_part(text)),
            Block::Image { mime, data } => said.push(image_part(openai::data_url(mime, data))),
            Block::Text { .. } | Block::Thinking { .. } | Block::ToolUse { .. } => {}
        }
    }
    parts.extend(said);
    let content = match parts.as_slice() {
        [] => return,
        // Some servers take nothing but a string, and most messages are one.
        [part] if part["type"] == "text" => part["text"].clone(),
        _ => Value::Array(parts),
    };
    messages.push(json!({ "role": "user", "content": content }));
}

fn text_part(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn image_part(url: String) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

fn assistant_message(info: &ModelInfo, message: &Message, is_in_turn: bool) -> Option<Value> {
    let mut answer = Map::new();
    answer.insert("role".to_owned(), "assistant".into());
    let text = message.text();
    let has_text = !text.is_empty();
    answer.insert("content".to_owned(), if has_text { text.into() } else { Value::Null });
    let calls: Vec<Value> = message.blocks.iter().filter_map(|block| call(info, block)).collect();
    if calls.is_empty() && !has_text {
        return None;
    }
    // Some models need their thoughts back while they use tools, and refuse them at other times.
    if is_in_turn && !calls.is_empty() {
        let thoughts = message.blocks.iter().filter_map(|block| match block {
            Block::Thinking { text, opaque } => Some((text, opaque.get(OPAQUE)?)),
            _ => None,
        });
        for (text, opaque) in thoughts {
            let field = opaque["field"].as_str();
            if let Some(field) = field.filter(|field| THOUGHT_FIELDS.contains(field)) {
                let field = answer.entry(field).or_insert_with(|| "".into());
                *field = format!("{}{text}", field.as_str().unwrap_or_default()).into();
            }
            if let Some(details) = opaque.get("details").filter(|details| details.is_array()) {
                answer.insert("reasoning_details".to_owned(), details.clone());
            }
        }
    }
    if !calls.is_empty() {
        answer.insert("tool_calls".to_owned(), calls.into());
    }
    Some(answer.into())
}

fn call(info: &ModelInfo, block: &Block) -> Option<Value> {
    let Block::ToolUse { id, name, input, opaque } = block else { return None };
    let mut call = json!({
        "id": call_id(info, id),
        "type": "function",
        "function": { "name": name, "arguments": openai::arguments(input) },
    });
    if let Some(extra) = opaque.pointer("/openai_chat/extra_content") {
        call["extra_content"] = extra.clone();
    }
    Some(call)
}

/// The id of a call. Mistral refuses any but nine letters and digits, and a conversation may hold
/// calls that another model made.
fn call_id(info: &ModelInfo, id: &str) -> String {
    let is_fine = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if info.family != MISTRAL || is_fine {
        return id.to_owned();
    }
    let digest = Sha256::digest(id.as_bytes());
    digest
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .chars()
        .take(9)
        .collect()
}

#[cfg(test)]
mod tests;
