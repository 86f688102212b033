//! [`EncodedParams`], the parameters of a request as JSON text, and [`read_answer`], which turns an
//! answer into its type.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use zero_core::text_shortening::excerpt;

use super::error::GatewayClientError;

/// Parameters of a request as JSON text, encoded once however often they are sent.
#[derive(Debug, Hash)]
pub struct EncodedParams(String);

impl EncodedParams {
    /// Encodes the parameters of a method.
    pub fn encode(method: &str, params: &impl Serialize) -> Result<Self, GatewayClientError> {
        let encoded = serde_json::to_string(params);
        encoded.map(Self).map_err(|error| mismatch_error("parameters", method, &error))
    }

    /// Returns the request frame as JSON text.
    pub(super) fn to_request(&self, id: u64, method: &str) -> Result<String, GatewayClientError> {
        let named = serde_json::to_string(method);
        let named = named.map_err(|error| mismatch_error("parameters", method, &error))?;
        let params = &self.0;
        Ok(format!(r#"{{"type":"req","id":"{id}","method":{named},"params":{params}}}"#))
    }
}

/// Reads the answer to a request as its type.
pub fn read_answer<T: DeserializeOwned>(
    method: &str,
    answer: Value,
) -> Result<T, GatewayClientError> {
    serde_json::from_value(answer).map_err(|error| mismatch_error("answer", method, &error))
}

fn mismatch_error(what: &str, method: &str, error: &serde_json::Error) -> GatewayClientError {
    let error = shorten_error(error);
    GatewayClientError::Protocol { what: format!("invalid {what} of `{method}`: {error}") }
}

/// Shortens a serde_json error, because it quotes the input, which may be long.
pub(super) fn shorten_error(error: &serde_json::Error) -> String {
    excerpt(&error.to_string(), 200)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::frame::{self, GatewayFrame, RequestFrame};

    #[test]
    fn encoded_request_parses_back() {
        for params in [json!({"a": "\"}\n\u{1f600}", "b": [1, null]}), json!({}), json!("text")] {
            for method in ["tools/offer", "a \"method\" {of} others\\"] {
                let written = EncodedParams::encode(method, &params).unwrap();
                let expected = GatewayFrame::Request(RequestFrame {
                    id: "7".to_owned(),
                    method: method.to_owned(),
                    params: Some(params.clone()),
                    traceparent: None,
                });
                let text = written.to_request(7, method).unwrap();
                assert_eq!(frame::parse(&text), Ok(expected.clone()));
                assert_eq!(text, serde_json::to_string(&expected).unwrap());
            }
        }
    }

    #[test]
    fn mismatch_is_reported_briefly() {
        let answer = Value::String("x".repeat(10_000));
        let error = read_answer::<u8>("some.method", answer).unwrap_err().to_string();
        assert!(error.contains("invalid answer of `some.method`"), "{error}");
        assert!(error.len() < 400, "{error}");
        let keys = std::collections::BTreeMap::from([(vec![1], 1)]);
        let error = EncodedParams::encode("some.method", &keys).unwrap_err().to_string();
        assert!(error.contains("invalid parameters of `some.method`"), "{error}");
    }
}
