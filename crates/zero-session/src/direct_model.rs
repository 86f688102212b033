//! The agent without a model: it runs one tool command per prompt.
//!
//! It is available without any configuration. `/read README.md` or `/bash cargo test` goes through
//! the whole lifecycle of a call, with approvals, ledger and sandbox, but without a model. It has
//! no memory: its reply depends on the last message only.

mod direct_command;

use futures_util::stream;
use tokio_util::sync::CancellationToken;
use zero_core::prompt_folder::strip_folder;

use self::direct_command::DirectAction;
use crate::agent::DIRECT;
use crate::event::{ResultContent, TokenUsage};
use crate::message::{MessageBlock, ModelMessage, ToolInput};
use crate::model::{
    ModelClient, ModelEvent, ModelInfo, ModelReply, ModelRequest, ModelStopReason, ModelStream,
    UNBOUNDED,
};

/// Explains to the user how to configure a model.
pub const ATTACH_MODEL_HINT: &str = "to set one up, run `zero login`, or set OPENAI_API_KEY, \
ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST, and start again";

/// Whether a model is the direct model, which does not understand prose.
pub(crate) fn is_direct(model: &dyn ModelClient) -> bool {
    model.info().name == DIRECT
}

/// Error for a prompt that must not be parsed as a command, in a session without a model.
pub(crate) fn verbatim_refusal() -> String {
    format!(
        "this prompt is not a command, and this session has no model; `/model` lists the models and \
         selects one; {ATTACH_MODEL_HINT}"
    )
}

/// Runs commands without a model.
#[derive(Debug)]
pub struct DirectModel {
    info: ModelInfo,
}

impl DirectModel {
    /// Creates the direct model.
    pub fn new() -> Self {
        let info = ModelInfo {
            name: DIRECT.to_owned(),
            id: DIRECT.to_owned(),
            family: DIRECT.to_owned(),
            // It reads only the last message, so no conversation is too long for it.
            context_window: UNBOUNDED,
            output_tokens_max: UNBOUNDED,
            takes_images: false,
            prices: None,
        };
        Self { info }
    }
}

/// Whether a word after a slash is a shorthand for a tool.
pub fn is_shorthand(word: &str) -> bool {
    direct_command::SHORTHANDS.iter().any(|shorthand| shorthand.word.eq_ignore_ascii_case(word))
}

/// What is wrong with the arguments of a shorthand such as `/read`; `None` for any other text.
pub fn find_usage_error(text: &str) -> Option<String> {
    direct_command::find_usage_error(text)
}

impl Default for DirectModel {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelClient for DirectModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, request: ModelRequest, _cancel: CancellationToken) -> ModelStream {
        let (event, block, stop) = match next_action(&request) {
            DirectAction::Reply(text) => {
                (ModelEvent::Text(text.clone()), MessageBlock::Text { text }, ModelStopReason::End)
            }
            DirectAction::Call { name, input } => {
                let id = format!("direct-{}", request.messages.len());
                let event = ModelEvent::ToolUse { id: id.clone(), name: name.clone() };
                let input = ToolInput::from(input);
                let call =
                    MessageBlock::ToolUse { id, name, input, opaque: serde_json::Value::Null };
                (event, call, ModelStopReason::ToolUse)
            }
        };
        let reply = ModelReply { blocks: vec![block], stop, usage: TokenUsage::default() };
        Box::pin(stream::iter([Ok(event), Ok(ModelEvent::Done(reply))]))
    }
}

/// The next action for a request.
fn next_action(request: &ModelRequest) -> DirectAction {
    let Some(message) = request.messages.last() else {
        return DirectAction::Reply(direct_command::no_model_message());
    };
    if let Some(results) = result_text(message) {
        return DirectAction::Reply(results);
    }
    // Only the first text is the command; attachments follow it, and a client may put the folder
    // before it.
    let text = message.blocks.iter().find_map(|block| match block {
        MessageBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    direct_command::parse(strip_folder(text.unwrap_or_default()), &request.tools)
}

/// The text of the tool results, unchanged; `None` if the message has no result.
fn result_text(message: &ModelMessage) -> Option<String> {
    let mut texts: Option<Vec<String>> = None;
    for block in &message.blocks {
        let MessageBlock::ToolResult { content, .. } = block else { continue };
        let texts = texts.get_or_insert_default();
        texts.extend(content.iter().map(|content| match content {
            ResultContent::Text { text } => text.clone(),
            ResultContent::Image { mime, .. } => format!("(image, {mime})"),
        }));
    }
    let text = texts?.join("\n");
    Some(if text.trim().is_empty() { "(nothing)".to_owned() } else { text })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::message::{MessageRole, share_messages};
    use crate::model::ModelToolDefinition;

    fn request(last: ModelMessage) -> ModelRequest {
        let tool = |name: &str, schema: Value| ModelToolDefinition {
            name: name.to_owned(),
            description: "Reads.".to_owned(),
            input_schema: schema,
        };
        let earlier = [ModelMessage::user("/bash rm -rf /"), ModelMessage::assistant(vec![])];
        ModelRequest {
            messages: share_messages(earlier.into_iter().chain([last]).collect()),
            tools: [tool("Read", json!({}))].into(),
            ..ModelRequest::default()
        }
    }

    async fn events(last: ModelMessage) -> Vec<ModelEvent> {
        let model = DirectModel::new();
        let stream = model.stream(request(last), CancellationToken::new());
        stream.map(Result::unwrap).collect().await
    }

    #[tokio::test]
    async fn command_becomes_tool_call() {
        let events = events(ModelMessage::user("/read a.txt")).await;
        let name = "Read".to_owned();
        let id = "direct-3".to_owned();
        assert_eq!(events[0], ModelEvent::ToolUse { id: id.clone(), name: name.clone() });
        let input = ToolInput::from(json!({"file_path": "a.txt"}));
        let call = MessageBlock::ToolUse { id, name, input, opaque: Value::Null };
        let reply = ModelReply {
            blocks: vec![call],
            stop: ModelStopReason::ToolUse,
            usage: TokenUsage::default(),
        };
        assert_eq!(events[1..], [ModelEvent::Done(reply)]);
    }

    #[tokio::test]
    async fn folder_before_command_is_ignored() {
        let text = "[Working directory: ~/project]\n\n/read a.txt";
        assert_eq!(
            events(ModelMessage::user(text)).await,
            events(ModelMessage::user("/read a.txt")).await
        );
    }

    #[tokio::test]
    async fn tool_result_becomes_answer() {
        let result = |content: Vec<ResultContent>, is_error| ModelMessage {
            role: MessageRole::User,
            blocks: vec![
                MessageBlock::ToolResult { id: "1".into(), name: "Read".into(), content, is_error },
                // Further blocks are not part of the command.
                MessageBlock::text("/bash touch x"),
            ],
        };
        let text = |text: &str| ResultContent::Text { text: text.to_owned() };
        let image = ResultContent::Image { mime: "image/png".into(), data: "AA==".into() };
        for (message, expected) in [
            (result(vec![text("one"), text("two")], false), "one\ntwo"),
            (result(vec![text("`Read`: denied")], true), "`Read`: denied"),
            (result(vec![image], false), "(image, image/png)"),
            (result(vec![], false), "(nothing)"),
        ] {
            let events = events(message).await;
            assert_eq!(events[0], ModelEvent::Text(expected.to_owned()));
            let [_, ModelEvent::Done(reply)] = &events[..] else { panic!("{events:?}") };
            assert_eq!(
                (&reply.blocks[..], &reply.stop),
                (&[MessageBlock::text(expected)][..], &ModelStopReason::End)
            );
        }
    }

    #[tokio::test]
    async fn only_last_user_line_is_read() {
        let image = MessageBlock::Image { mime: "image/png".into(), data: "AA==".into() };
        let blocks =
            vec![image, MessageBlock::text("/read a.txt"), MessageBlock::text("/read b.txt")];
        let events = events(ModelMessage { role: MessageRole::User, blocks }).await;
        let [_, ModelEvent::Done(reply)] = &events[..] else { panic!("{events:?}") };
        let MessageBlock::ToolUse { input, .. } = &reply.blocks[0] else { panic!("{reply:?}") };
        assert_eq!(*input, ToolInput::from(json!({"file_path": "a.txt"})));
    }
}
