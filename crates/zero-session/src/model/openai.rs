//! Common parts of OpenAI's two protocols.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};
use url::{Host, Url};

use crate::event::ResultContent;
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput, join_lines};
use crate::model::attempt_failure;
use crate::model::model_config::ApiKey;
use crate::model::{ModelError, ModelErrorKind, ModelRequest};

/// Maximum number of calls per reply.
pub(crate) const CALLS_MAX: usize = 256;
/// Maximum size of the arguments of all calls of a reply, in bytes.
pub(crate) const ARGUMENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Kind of server, if it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenAiServer {
    /// OpenAI's own servers.
    OpenAi,
    /// OpenAI's models on Azure.
    Azure,
    /// Any other server.
    Other,
}

impl OpenAiServer {
    /// The kind of server at a base URL.
    pub(crate) fn from_base_url(base: &Url) -> Self {
        match base.host() {
            Some(Host::Domain("api.openai.com")) => Self::OpenAi,
            Some(Host::Domain(name)) if name.ends_with(".openai.com") => Self::OpenAi,
            Some(Host::Domain(name)) if name.ends_with(".azure.com") => Self::Azure,
            _ => Self::Other,
        }
    }

    /// The header with the key.
    pub(crate) fn headers(self, key: Option<&ApiKey>) -> Vec<(&'static str, String)> {
        let Some(key) = key else { return Vec::new() };
        match self {
            Self::Azure => vec![("api-key", key.reveal().to_owned())],
            Self::OpenAi | Self::Other => {
                vec![("authorization", format!("Bearer {}", key.reveal()))]
            }
        }
    }
}

/// The schema of the answer, in the form of OpenAI's structured output. It is not strict: strict
/// schemas must follow further rules, and zero validates the answer itself.
pub(crate) fn answer_format(request: &ModelRequest) -> Option<Value> {
    let schema = request.output_schema.as_ref()?.as_object_schema()?;
    Some(json!({"name": "answer", "schema": schema, "strict": false}))
}

/// `{base}/{path}`, with the query of the base. A base that already ends with the path is
/// unchanged.
pub(crate) fn join_url(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_fragment(None);
    let base_path = url.path().trim_end_matches('/').to_owned();
    if !base_path.ends_with(&format!("/{path}")) {
        url.set_path(&format!("{base_path}/{path}"));
    }
    url
}

/// Parses the data of an event; an error object in it becomes an error.
pub(crate) fn parse_json(data: &str) -> Result<Value, ModelError> {
    let value: Value = serde_json::from_str(data)
        .map_err(|error| invalid_response_error(&format!("an event that is not JSON ({error})")))?;
    match value.get("error") {
        Some(error) if !error.is_null() => {
            Err(attempt_failure::failure_from_object(&value, None).error)
        }
        _ => Ok(value),
    }
}

/// The provider sent an invalid response.
pub(crate) fn invalid_response_error(what: &str) -> ModelError {
    let message = format!("the provider sent {what}; try again, or choose another model");
    ModelError::new(ModelErrorKind::Server, message)
}

/// The stream ended before the reply was complete.
pub(crate) fn truncated_stream_error() -> ModelError {
    ModelError::new(
        ModelErrorKind::Network,
        "the connection broke in mid-answer; send the message again",
    )
}

/// Index of the message that starts the current turn. Thoughts since then are sent back; older ones
/// are not, since they may be from another model.
pub(crate) fn turn_start(messages: &[Arc<ModelMessage>]) -> usize {
    let is_prompt = |message: &Arc<ModelMessage>| {
        let has_result =
            message.blocks.iter().any(|block| matches!(block, MessageBlock::ToolResult { .. }));
        message.role == MessageRole::User && !has_result
    };
    messages.iter().rposition(is_prompt).unwrap_or(0)
}

/// The text of a tool result. Neither protocol has a field for errors, so the text marks them.
pub(crate) fn result_text(content: &[ResultContent], is_error: bool) -> Cow<'_, str> {
    let texts = content.iter().filter_map(|part| match part {
        ResultContent::Text { text } => Some(text.as_str()),
        ResultContent::Image { .. } => None,
    });
    let text = join_lines(texts);
    let says_so = text.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("error"));
    match (text.trim().is_empty(), is_error) {
        (true, true) => "error: no output".into(),
        (true, false) if image_urls(content).next().is_some() => "the image follows".into(),
        (true, false) => "(no output)".into(),
        (false, true) if !says_so => format!("error: {text}").into(),
        (false, _) => text,
    }
}

/// The images of a tool result, as data URLs.
pub(crate) fn image_urls(content: &[ResultContent]) -> impl Iterator<Item = String> {
    content.iter().filter_map(|part| match part {
        ResultContent::Image { mime, data } => Some(data_url(mime, data)),
        ResultContent::Text { .. } => None,
    })
}

/// An image as a data URL.
pub(crate) fn data_url(mime: &str, data: &str) -> String {
    format!("data:{mime};base64,{data}")
}

/// Arguments as sent back to a model. Many servers require JSON, so other text is wrapped.
pub(crate) fn arguments_text(input: &ToolInput) -> Cow<'_, str> {
    match input {
        ToolInput::Json(json) => json.as_str().into(),
        ToolInput::Unreadable { unreadable, .. } => {
            json!({ "unreadable_arguments": unreadable }).to_string().into()
        }
    }
}

/// A token count at a JSON pointer; 0 if missing.
pub(crate) fn read_tokens(usage: &Value, at: &str) -> u64 {
    usage.pointer(at).and_then(Value::as_u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_url_adds_path_once_and_keeps_query() {
        #[track_caller]
        fn check(base: &str, expected: &str) {
            assert_eq!(join_url(&Url::parse(base).unwrap(), "chat/completions").as_str(), expected);
        }
        check("https://a.b", "https://a.b/chat/completions");
        check("https://a.b/v1/", "https://a.b/v1/chat/completions");
        check("https://a.b/v1/chat/completions", "https://a.b/v1/chat/completions");
        check("https://a.b/x?api-version=2#f", "https://a.b/x/chat/completions?api-version=2");
    }

    #[test]
    fn result_text_reports_outcome() {
        #[track_caller]
        fn check(content: &[ResultContent], is_error: bool, expected: &str) {
            assert_eq!(result_text(content, is_error), expected);
        }
        let text = |text: &str| ResultContent::Text { text: text.to_owned() };
        let image = ResultContent::Image { mime: "image/png".into(), data: "AA==".into() };
        check(&[text("a"), text("b")], false, "a\nb");
        check(&[text("not found")], true, "error: not found");
        check(&[text("Error: not found")], true, "Error: not found");
        check(&[], false, "(no output)");
        check(&[], true, "error: no output");
        check(std::slice::from_ref(&image), false, "the image follows");
        check(&[text("a"), image], false, "a");
    }

    #[test]
    fn turn_starts_at_last_prompt() {
        let result = ModelMessage {
            role: MessageRole::User,
            blocks: vec![MessageBlock::ToolResult {
                id: "1".into(),
                name: "Read".into(),
                content: vec![],
                is_error: false,
            }],
        };
        let message = ModelMessage::assistant(vec![MessageBlock::text("a")]);
        let messages = [
            ModelMessage::user("1"),
            message.clone(),
            ModelMessage::user("2"),
            message.clone(),
            result,
            message,
        ];
        let messages = messages.map(Arc::new);
        assert_eq!(turn_start(&messages), 2);
        assert_eq!(turn_start(&messages[..2]), 0);
        assert_eq!(turn_start(&[]), 0);
    }
}
