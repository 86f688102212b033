//! The request as serialized. It borrows from the conversation, since a long one is serialized at
//! each step of a turn.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::{REASONING, REASONING_CONTENT};

/// A request without the tools.
#[derive(Serialize)]
pub(super) struct ChatRequestBody<'a> {
    pub(super) model: &'a str,
    pub(super) messages: Vec<ChatRequestMessage<'a>>,
    pub(super) stream: bool,
    pub(super) stream_options: ChatStreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_format: Option<Value>,
}

#[derive(Serialize)]
pub(super) struct ChatStreamOptions {
    pub(super) include_usage: bool,
}

/// A message of the request, tagged with its role.
#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub(super) enum ChatRequestMessage<'a> {
    System { content: &'a str },
    User { content: ChatUserContent<'a> },
    Assistant(ChatAssistantMessage<'a>),
    Tool { tool_call_id: Cow<'a, str>, content: Cow<'a, str> },
}

/// Content of a user message.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum ChatUserContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ChatContentPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ChatContentPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ChatImageUrl },
}

#[derive(Serialize)]
pub(super) struct ChatImageUrl {
    url: String,
}

impl ChatContentPart<'_> {
    /// An image at an address.
    pub(super) fn image(url: String) -> Self {
        Self::ImageUrl { image_url: ChatImageUrl { url } }
    }
}

/// A message of the model.
#[derive(Default, Serialize)]
pub(super) struct ChatAssistantMessage<'a> {
    /// Serialized as null if missing, since servers require the field.
    pub(super) content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_details: Option<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<ChatToolCall<'a>>,
}

impl ChatAssistantMessage<'_> {
    /// The field for thoughts that arrived under that name.
    pub(super) fn reasoning_field(&mut self, field: &str) -> Option<&mut Option<String>> {
        match field {
            REASONING_CONTENT => Some(&mut self.reasoning_content),
            REASONING => Some(&mut self.reasoning),
            _ => None,
        }
    }
}

/// A call of the model.
#[derive(Serialize)]
pub(super) struct ChatToolCall<'a> {
    pub(super) id: Cow<'a, str>,
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) function: ChatFunctionCall<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<&'a Value>,
}

#[derive(Serialize)]
pub(super) struct ChatFunctionCall<'a> {
    pub(super) name: &'a str,
    pub(super) arguments: Cow<'a, str>,
}

/// Serializes the request. Cannot fail, since its only maps are JSON objects.
pub(super) fn to_json(body: &ChatRequestBody<'_>) -> String {
    serde_json::to_string(body).unwrap_or_default()
}
