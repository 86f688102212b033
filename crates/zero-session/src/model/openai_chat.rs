//! `POST /chat/completions`: OpenAI's older protocol, which nearly all servers support.
//!
//! Implementations differ. Requests use only what all of them accept; decoding handles the variants
//! of Ollama, llama.cpp, vLLM, OpenRouter, DeepSeek, Mistral and Gemini.

mod decoder;
mod request_body;

use std::borrow::Cow;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use self::decoder::ChatDecoder;
use self::request_body::{
    ChatAssistantMessage, ChatContentPart, ChatFunctionCall, ChatRequestBody, ChatRequestMessage,
    ChatStreamOptions, ChatToolCall, ChatUserContent, to_json,
};
use crate::message::{MessageBlock, MessageRole, ModelMessage, join_text};
use crate::model::known_models::{self, MISTRAL};
use crate::model::model_config::ApiKey;
use crate::model::openai::{self, OpenAiServer};
use crate::model::protocol::{ModelProtocol, ReplyDecoder};
use crate::model::{ModelError, ModelInfo, ModelRequest};

/// Key of the data that is stored with thoughts and calls and sent back with them.
const OPAQUE: &str = "openai_chat";
/// Fields in which servers put thoughts. A server that sends both sends the same text in them.
const THOUGHT_FIELDS: [&str; 2] = [REASONING_CONTENT, REASONING];
const REASONING_CONTENT: &str = "reasoning_content";
const REASONING: &str = "reasoning";

/// The chat completions protocol of a server.
pub(crate) struct OpenAiChatProtocol {
    server: OpenAiServer,
}

impl OpenAiChatProtocol {
    /// The protocol variant of the server at that address.
    pub(crate) fn for_base_url(base: Option<&Url>) -> Self {
        Self { server: base.map_or(OpenAiServer::Other, OpenAiServer::from_base_url) }
    }
}

impl ModelProtocol for OpenAiChatProtocol {
    fn url(&self, base: &Url, _: &ModelInfo) -> Result<Url, ModelError> {
        Ok(openai::join_url(base, "chat/completions"))
    }

    fn headers(&self, key: Option<&ApiKey>) -> Vec<(&'static str, String)> {
        self.server.headers(key)
    }

    fn encode_body(&self, info: &ModelInfo, request: &ModelRequest) -> String {
        // OpenAI's newer models reject the old field name, and other servers do not know the new
        // one.
        let is_new =
            self.server != OpenAiServer::Other || known_models::is_openai_reasoner(&info.id);
        let tokens_max = request.output_tokens_max;
        let body = ChatRequestBody {
            model: &info.id,
            messages: build_messages(info, request),
            stream: true,
            stream_options: ChatStreamOptions { include_usage: true },
            max_completion_tokens: tokens_max.filter(|_| is_new),
            max_tokens: tokens_max.filter(|_| !is_new),
            reasoning_effort: known_models::reasoning_effort(&info.id, request.thinking),
            // Other servers constrain the reply so that it cannot call a tool.
            response_format: (self.server != OpenAiServer::Other || request.tools.is_empty())
                .then(|| openai::answer_format(request))
                .flatten()
                .map(|format| json!({"type": "json_schema", "json_schema": format})),
        };
        to_json(&body)
    }

    fn encode_tools(&self, request: &ModelRequest) -> Option<Value> {
        let tools = request.tools.iter().map(|tool| {
            json!({ "type": "function", "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
            }})
        });
        (!request.tools.is_empty()).then(|| tools.collect())
    }

    fn new_decoder(&self) -> Box<dyn ReplyDecoder> {
        Box::new(ChatDecoder::default())
    }
}

fn build_messages<'a>(info: &ModelInfo, request: &'a ModelRequest) -> Vec<ChatRequestMessage<'a>> {
    let turn_start = openai::turn_start(&request.messages);
    let mut messages = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        messages.push(ChatRequestMessage::System { content: &request.system });
    }
    for (index, message) in request.messages.iter().enumerate() {
        match message.role {
            MessageRole::User => push_user_messages(info, message, &mut messages),
            MessageRole::Assistant => {
                let answer = assistant_message(info, message, index >= turn_start);
                messages.extend(answer.map(ChatRequestMessage::Assistant));
            }
        }
    }
    messages
}

/// Appends results first, each as a separate message, since they must follow the calls. Their
/// images cannot be part of them and follow with the user's other content.
fn push_user_messages<'a>(
    info: &ModelInfo,
    message: &'a ModelMessage,
    messages: &mut Vec<ChatRequestMessage<'a>>,
) {
    let mut parts = Vec::new();
    let mut user_parts = Vec::new();
    for block in &message.blocks {
        match block {
            MessageBlock::ToolResult { id, name, content, is_error } => {
                messages.push(ChatRequestMessage::Tool {
                    tool_call_id: call_id(info, id),
                    content: openai::result_text(content, *is_error),
                });
                let mut images = openai::image_urls(content).peekable();
                if images.peek().is_some() {
                    parts.push(ChatContentPart::Text { text: format!("From `{name}`:").into() });
                    parts.extend(images.map(ChatContentPart::image));
                }
            }
            MessageBlock::Text { text } if !text.is_empty() => {
                user_parts.push(ChatContentPart::Text { text: text.into() });
            }
            MessageBlock::Image { mime, data } => {
                user_parts.push(ChatContentPart::image(openai::data_url(mime, data)))
            }
            MessageBlock::Text { .. }
            | MessageBlock::Thinking { .. }
            | MessageBlock::ToolUse { .. } => {}
        }
    }
    parts.extend(user_parts);
    let content = match parts.as_mut_slice() {
        [] => return,
        // Some servers accept only a string, and most messages are a single text.
        [ChatContentPart::Text { text }] => ChatUserContent::Text(std::mem::take(text)),
        _ => ChatUserContent::Parts(parts),
    };
    messages.push(ChatRequestMessage::User { content });
}

fn assistant_message<'a>(
    info: &ModelInfo,
    message: &'a ModelMessage,
    is_in_turn: bool,
) -> Option<ChatAssistantMessage<'a>> {
    let text = join_text(&message.blocks);
    let tool_calls: Vec<ChatToolCall<'a>> =
        message.blocks.iter().filter_map(|block| encode_call(info, block)).collect();
    if tool_calls.is_empty() && text.is_empty() {
        return None;
    }
    let has_calls = !tool_calls.is_empty();
    let content = (!text.is_empty()).then_some(text);
    let mut answer =
        ChatAssistantMessage { content, tool_calls, ..ChatAssistantMessage::default() };
    // Some models require their thoughts back while they use tools, and reject them otherwise.
    if is_in_turn && has_calls {
        let thoughts = message.blocks.iter().filter_map(|block| match block {
            MessageBlock::Thinking { text, opaque } => Some((text, opaque.get(OPAQUE)?)),
            _ => None,
        });
        for (text, opaque) in thoughts {
            let field = opaque["field"].as_str().unwrap_or_default();
            if let Some(thoughts) = answer.reasoning_field(field) {
                thoughts.get_or_insert_default().push_str(text);
            }
            if let Some(details) = opaque.get("details").filter(|details| details.is_array()) {
                answer.reasoning_details = Some(details);
            }
        }
    }
    Some(answer)
}

fn encode_call<'a>(info: &ModelInfo, block: &'a MessageBlock) -> Option<ChatToolCall<'a>> {
    let MessageBlock::ToolUse { id, name, input, opaque } = block else { return None };
    Some(ChatToolCall {
        id: call_id(info, id),
        kind: "function",
        function: ChatFunctionCall { name, arguments: openai::arguments_text(input) },
        extra_content: opaque.pointer("/openai_chat/extra_content"),
    })
}

/// The id of a call. Mistral accepts only nine letters and digits, and a conversation may have
/// calls of another model.
fn call_id<'a>(info: &ModelInfo, id: &'a str) -> Cow<'a, str> {
    let is_fine = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if info.family != MISTRAL || is_fine {
        return id.into();
    }
    let digest = Sha256::digest(id.as_bytes());
    let id: String = digest
        .iter()
        .take(5)
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .chars()
        .take(9)
        .collect();
    id.into()
}

#[cfg(test)]
mod tests;
