//! What a model is told and what it says: a transcript is a list of these.

pub(crate) mod image_placeholder;
mod tool_input;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use zero_core::event::ResultContent;

pub use self::tool_input::{JsonText, ToolInput};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// The person, and the tools that answer on their side.
    User,
    /// The model.
    Assistant,
}

/// One message of a transcript, as it is stored and sent to models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelMessage {
    /// Who speaks.
    pub role: MessageRole,
    /// What they say, in order.
    pub blocks: Vec<MessageBlock>,
}

impl ModelMessage {
    /// A message of the person with nothing but text.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: MessageRole::User, blocks: vec![MessageBlock::text(text)] }
    }

    /// A message of the model.
    pub fn assistant(blocks: Vec<MessageBlock>) -> Self {
        Self { role: MessageRole::Assistant, blocks }
    }

    /// Gives back what a reader took that did not know how much there would be: a transcript has
    /// thousands of messages.
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

/// Messages that several hold: a transcript goes into request after request.
pub(crate) fn share_messages(messages: Vec<ModelMessage>) -> Vec<Arc<ModelMessage>> {
    messages.into_iter().map(Arc::new).collect()
}

/// The text blocks among these, joined by line breaks.
pub(crate) fn join_text(blocks: &[MessageBlock]) -> Cow<'_, str> {
    join_lines(blocks.iter().filter_map(|block| match block {
        MessageBlock::Text { text } => Some(text.as_str()),
        _ => None,
    }))
}

/// Texts, joined by line breaks. Most often there is one at most, which is left where it is.
pub(crate) fn join_lines<'a>(mut texts: impl Iterator<Item = &'a str>) -> Cow<'a, str> {
    let mut joined = Cow::Borrowed(texts.next().unwrap_or_default());
    for text in texts {
        let joined = joined.to_mut();
        joined.push('\n');
        joined.push_str(text);
    }
    joined
}

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MessageBlock {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// What the model thought before it spoke.
    Thinking {
        /// The thought, as far as the provider shows it.
        text: String,
        /// What the provider wants back unchanged with the next request (signatures, encrypted
        /// thoughts), by its own names.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        opaque: Value,
    },
    /// A picture.
    Image {
        /// Media type.
        mime: String,
        /// The bytes, in base64.
        data: String,
    },
    /// The model wants a tool to run.
    ToolUse {
        /// What the result refers to.
        id: String,
        /// The tool, in the agent's dialect.
        name: String,
        /// Its arguments.
        input: ToolInput,
        /// What the provider wants back unchanged beside it.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        opaque: Value,
    },
    /// What became of it.
    ToolResult {
        /// The call.
        id: String,
        /// The tool, in the agent's dialect; some providers want it again.
        name: String,
        /// What the model is told.
        content: Vec<ResultContent>,
        /// Whether that is an error.
        is_error: bool,
    },
}

impl MessageBlock {
    /// Words.
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
