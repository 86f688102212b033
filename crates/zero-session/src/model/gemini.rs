//! Gemini API: `POST /v1beta/models/…:streamGenerateContent`.

mod decoder;
mod request;

use serde_json::Value;
use url::Url;

use crate::model::endpoint::endpoint;
use crate::model::model_config::ApiKey;
use crate::model::protocol::{ModelProtocol, ReplyDecoder};
use crate::model::{ModelError, ModelInfo, ModelRequest};

/// Vendor prefix in the names of its models.
const VENDOR_PREFIX: &str = "gemini";

/// The protocol of Google's Gemini API (`streamGenerateContent`).
pub(crate) struct GeminiProtocol;

impl ModelProtocol for GeminiProtocol {
    fn url(&self, base: &Url, info: &ModelInfo) -> Result<Url, ModelError> {
        let id = info.id.strip_prefix("models/").unwrap_or(&info.id);
        let call = format!("{id}:streamGenerateContent");
        let mut url = endpoint(base, &["v1beta", "v1", "v1alpha"], &["models", &call])?;
        url.set_query(Some("alt=sse"));
        Ok(url)
    }

    fn headers(&self, key: Option<&ApiKey>) -> Vec<(&'static str, String)> {
        key.map(|key| ("x-goog-api-key", key.reveal().to_owned())).into_iter().collect()
    }

    fn encode_body(&self, info: &ModelInfo, request: &ModelRequest) -> String {
        request::build_body(info, request).to_string()
    }

    fn encode_tools(&self, request: &ModelRequest) -> Option<Value> {
        request::build_tools(&request.tools)
    }

    fn new_decoder(&self) -> Box<dyn ReplyDecoder> {
        Box::new(decoder::GeminiDecoder::default())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{ModelMessage, share_messages};
    use crate::model::conversation::tests::{result, user};

    #[track_caller]
    fn check(base: &str, id: &str, expected: &str) {
        let url =
            GeminiProtocol.url(&Url::parse(base).unwrap(), &request::tests::info(id)).unwrap();
        assert_eq!(url.as_str(), expected);
    }

    #[test]
    fn endpoint_accepts_optional_version() {
        let expected = "https://x.test/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse";
        check("https://x.test", "gemini-3-pro", expected);
        check("https://x.test/v1beta/", "gemini-3-pro", expected);
        check("https://x.test/v1beta?key=secret", "models/gemini-3-pro", expected);
        let other = "https://x.test/v1alpha/models/a%3Fb%2F..:streamGenerateContent?alt=sse";
        check("https://x.test/v1alpha", "a?b/..", other);
    }

    #[test]
    fn key_is_sent_only_in_its_header() {
        let headers = GeminiProtocol.headers(Some(&ApiKey::new("k")));
        assert_eq!(headers, [("x-goog-api-key", "k".to_owned())]);
        assert!(GeminiProtocol.headers(None).is_empty());
    }

    #[test]
    fn reply_round_trips_into_next_request() {
        let parts = json!([
            {"text": "Hm", "thought": true, "thoughtSignature": "czA="},
            {"text": "Now."},
            {"text": "", "thoughtSignature": "czE="},
            {"functionCall": {"id": "x", "name": "Read", "args": {"z": 1, "a": 2}},
             "thoughtSignature": "czI="},
            {"functionCall": {"name": "Read", "args": {}}},
        ]);
        let chunk = json!({"modelVersion": "gemini-3-pro-preview", "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]});
        let mut decoder = GeminiProtocol.new_decoder();
        decoder.decode_event("", &chunk.to_string()).unwrap();
        let blocks = decoder.finish().unwrap().blocks;

        let request = ModelRequest {
            messages: share_messages(vec![
                ModelMessage::user("Go"),
                ModelMessage::assistant(blocks),
                user(vec![result("x", "Read", "1"), result("call_2", "Read", "2")]),
            ]),
            ..ModelRequest::default()
        };
        let body = request::build_body(&request::tests::info("gemini-3-pro"), &request);
        assert_eq!(body["contents"][1]["parts"], parts);
        let answers = json!([
            {"functionResponse": {"id": "x", "name": "Read", "response": {"output": "1"}}},
            {"functionResponse": {"name": "Read", "response": {"output": "2"}}},
        ]);
        assert_eq!(body["contents"][2]["parts"], answers);
    }
}
