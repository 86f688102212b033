//! The messages of a transcript, exchanged with a model.

pub(crate) mod image_placeholder;
mod tool_input;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zero_core::event::ResultContent;

pub use self::tool_input::{JsonText, ToolInput};

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// The user, and the tools whose results are sent on the user's side.
    User,
    /// The model.
    Assistant,
}

/// One message of a transcript, as it is stored and sent to models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelMessage {
    /// Author of the message.
    pub role: MessageRole,
    /// Content of the message, in order.
    pub blocks: Vec<MessageBlock>,
}

impl ModelMessage {
    /// A user message with text only.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: MessageRole::User, blocks: vec![MessageBlock::text(text)] }
    }

    /// A message of the model.
    pub fn assistant(blocks: Vec<MessageBlock>) -> Self {
        Self { role: MessageRole::Assistant, blocks }
    }

    /// Releases excess capacity left over from parsing; a transcript has thousands of messages.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.blocks.shrink_to_fit();
        for block in &mut self.blocks {
            if let MessageBlock::ToolResult { content, .. } = block {
                content.shrink_to_fit();
            }
        }
    }

    /// Its text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        join_text(&self.blocks).into_owned()
    }
}

/// Shares messages, since a transcript is part of many requests.
pub(crate) fn share_messages(messages: Vec<ModelMessage>) -> Vec<Arc<ModelMessage>> {
    messages.into_iter().map(Arc::new).collect()
}

/// The text blocks, joined by line breaks.
pub(crate) fn join_text(blocks: &[MessageBlock]) -> Cow<'_, str> {
    join_lines(blocks.iter().filter_map(|block| match block {
        MessageBlock::Text { text } => Some(text.as_str()),
        _ => None,
    }))
}

/// Joins texts by line breaks. Borrows if there is at most one, which is the usual case.
pub(crate) fn join_lines<'a>(mut texts: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
    let mut joined = Cow::Borrowed(texts.next().unwrap_or_default());
    for text in texts {
        let joined = joined.to_mut();
        joined.push('\n');
        joined.push_str(text);
    }
    joined
}

/// One part of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// Thinking of the model before its reply.
    Thinking {
        /// The thought, as far as the provider shows it.
        text: String,
        /// Data that the provider expects back unchanged with the next request (signatures,
        /// encrypted thoughts), under the provider's own names.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        opaque: Value,
    },
    /// An image.
    Image {
        /// Media type.
        mime: String,
        /// The image data, in base64.
        data: String,
    },
    /// A tool call of the model.
    ToolUse {
        /// Id that the result refers to.
        id: String,
        /// Name of the tool in the agent's dialect.
        name: String,
        /// Its arguments.
        input: ToolInput,
        /// Data that the provider expects back unchanged with the call.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        opaque: Value,
    },
    /// Result of a tool call.
    ToolResult {
        /// Id of the call.
        id: String,
        /// Name of the tool in the agent's dialect, which some providers require.
        name: String,
        /// Content for the model.
        content: Vec<ResultContent>,
        /// Whether the call failed.
        is_error: bool,
    },
}

impl MessageBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shrink_to_fit_keeps_content() {
        let written = json!({"role": "assistant", "blocks": [
            {"type": "text", "text": "a"},
            {"type": "tool_use", "id": "1", "name": "Read", "input": {"z": {"b": 1, "a": 2}, "a": []}},
            {"type": "tool_use", "id": "2", "name": "Read", "input": {"unreadable": "{", "why": "EOF"}},
            {"type": "tool_result", "id": "1", "name": "Read", "is_error": false,
                "content": [{"type": "text", "text": "x"}]},
        ]});
        let message: ModelMessage = serde_json::from_value(written.clone()).unwrap();
        let mut same = message.clone();
        same.shrink_to_fit();
        assert_eq!(same, message);
        assert_eq!(serde_json::to_value(&same).unwrap(), written, "fields stay in their order");
    }
}
