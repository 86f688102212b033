//! Anthropic Messages API: `POST /v1/messages`, of Anthropic and compatible servers.

mod decoder;
mod request;

use serde_json::Value;
use url::Url;

use crate::model::endpoint::endpoint;
use crate::model::model_config::ApiKey;
use crate::model::protocol::{ModelProtocol, ReplyDecoder};
use crate::model::{ModelError, ModelInfo, ModelRequest};

/// API version of the requests and responses, which compatible servers support too.
const VERSION: &str = "2023-06-01";

/// The protocol of the Anthropic Messages API.
pub(crate) struct AnthropicProtocol;

impl ModelProtocol for AnthropicProtocol {
    fn url(&self, base: &Url, _info: &ModelInfo) -> Result<Url, ModelError> {
        endpoint(base, &["v1"], &["messages"])
    }

    fn headers(&self, key: Option<&ApiKey>) -> Vec<(&'static str, String)> {
        let mut headers = vec![("anthropic-version", VERSION.to_owned())];
        headers.extend(key.map(|key| ("x-api-key", key.reveal().to_owned())));
        headers
    }

    fn encode_body(&self, info: &ModelInfo, request: &ModelRequest) -> String {
        request::build_body(info, request).to_string()
    }

    fn encode_tools(&self, request: &ModelRequest) -> Option<Value> {
        request::build_tools(request)
    }

    fn new_decoder(&self) -> Box<dyn ReplyDecoder> {
        Box::new(decoder::MessagesDecoder::default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{ModelMessage, share_messages};
    use crate::model::ModelToolDefinition;
    use crate::model::conversation::tests::{result, user};

    #[track_caller]
    fn check(base: &str, expected: &str) {
        let info = request::tests::info("claude-sonnet-4-5");
        let url = AnthropicProtocol.url(&Url::parse(base).unwrap(), &info).unwrap();
        assert_eq!(url.as_str(), expected);
    }

    #[test]
    fn endpoint_accepts_optional_version() {
        check("https://api.anthropic.com", "https://api.anthropic.com/v1/messages");
        check("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages");
        check("http://127.0.0.1:1/proxy", "http://127.0.0.1:1/proxy/v1/messages");
    }

    #[test]
    fn key_is_sent_only_in_its_header() {
        let key = ApiKey::new(" k\n");
        let headers = AnthropicProtocol.headers(Some(&key));
        assert_eq!(
            headers,
            [("anthropic-version", "2023-06-01".to_owned()), ("x-api-key", "k".to_owned())]
        );
        assert_eq!(AnthropicProtocol.headers(None).len(), 1);
    }

    #[test]
    fn reply_round_trips_into_next_request() {
        let blocks = [
            json!({"type": "thinking", "thinking": "Hm", "signature": "c2ln"}),
            json!({"type": "redacted_thinking", "data": "ZW5j"}),
            json!({"type": "text", "text": "Now."}),
            json!({"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"z": 1, "a": 2}}),
        ];
        let mut decoder = AnthropicProtocol.new_decoder();
        let mut event = |event: Value| decoder.decode_event("", &event.to_string()).unwrap();
        let model = "claude-sonnet-4-5-20250929";
        event(json!({"type": "message_start", "message": {"model": model}}));
        for (index, block) in blocks.iter().enumerate() {
            event(json!({"type": "content_block_start", "index": index, "content_block": block}));
        }
        event(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}));
        let decoded = decoder.finish().unwrap().blocks;

        let tool = ModelToolDefinition {
            name: "Read".into(),
            description: String::new(),
            input_schema: json!({"type": "object"}),
        };
        let request = ModelRequest {
            messages: share_messages(vec![
                ModelMessage::user("Go"),
                ModelMessage::assistant(decoded),
                user(vec![result("toolu_1", "Read", "r")]),
            ]),
            tools: [tool].into(),
            ..ModelRequest::default()
        };
        let body = request::build_body(&request::tests::info("claude-sonnet-4-5"), &request);
        assert_eq!(body["messages"][1]["content"], json!(blocks));
        let elsewhere = request::build_body(&request::tests::info("claude-opus-4-5"), &request);
        assert_eq!(elsewhere["messages"][1]["content"], json!(blocks[2..]));
    }
}
