//! Table: provider responses and the errors they become.

use jiff::Timestamp;
use serde_json::json;

use super::*;

fn subject() -> ModelDescriptor {
    ModelDescriptor {
        name: "openai/gpt-5".to_owned(),
        id: "gpt-5".to_owned(),
        origin: "https://api.openai.com".to_owned(),
        key_hint: "check the variable OPENAI_API_KEY".to_owned(),
        model_hint: "correct `models.gpt.model` in your settings".to_owned(),
        address_hint: "check `models.gpt.baseUrl` in your settings".to_owned(),
    }
}

#[track_caller]
fn check(status: u16, body: &str, expected: &str) {
    let status = StatusCode::from_u16(status).unwrap();
    let failed = failure_from_status(status, &HeaderMap::new(), body, &subject());
    let again = if failed.may_pass { " again" } else { "" };
    assert_eq!(format!("{}{again}", failed.error.kind.as_str()), expected, "{status} {body}");
}

#[test]
fn status_and_body_determine_kind() {
    check(401, r#"{"error":{"message":"Incorrect API key","code":"invalid_api_key"}}"#, "auth");
    check(403, "forbidden", "auth");
    check(
        400,
        r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}]"#,
        "auth",
    );
    check(402, "", "rate_limit");
    check(
        429,
        r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#,
        "rate_limit again",
    );
    check(
        429,
        r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#,
        "rate_limit",
    );
    check(
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#,
        "rate_limit",
    );
    check(
        400,
        r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
        "context_length",
    );
    check(
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens"}}"#,
        "context_length",
    );
    check(
        400,
        r#"{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        "context_length",
    );
    check(
        400,
        r#"{"error":{"message":"The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."}}"#,
        "context_length",
    );
    check(
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}"#,
        "context_length",
    );
    check(413, "<html>413 Request Entity Too Large</html>", "context_length");
    check(
        413,
        r#"{"error":{"message":"Request too large for model","code":"rate_limit_exceeded"}}"#,
        "rate_limit again",
    );
    check(
        429,
        r#"{"error":{"message":"too many tokens in your context window this minute"}}"#,
        "rate_limit again",
    );
    check(
        400,
        r#"{"error":{"message":"The response was filtered due to the prompt triggering content management policy","code":"content_filter"}}"#,
        "refusal",
    );
    check(403, r#"{"error":{"message":"Your input was flagged","code":403}}"#, "refusal");
    check(
        404,
        r#"{"error":{"message":"The model `x` does not exist","code":"model_not_found"}}"#,
        "invalid_request",
    );
    check(400, r#"{"detail":[{"msg":"field required"}]}"#, "invalid_request");
    check(418, "", "invalid_request");
    check(408, "", "server again");
    check(500, "oops", "server again");
    check(503, "<html>", "server again");
    check(
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        "server again",
    );
}

#[test]
fn mid_stream_errors_are_classified() {
    #[track_caller]
    fn check(object: Value, expected: &str) {
        assert_eq!(failure_from_object(&object, None).error.kind.as_str(), expected, "{object}");
    }
    check(json!({"error": {"message": "x", "code": 429}}), "rate_limit");
    check(json!({"error": {"message": "x", "code": 502}}), "server");
    check(
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}),
        "server",
    );
    check(
        json!({"type": "error", "error": {"type": "rate_limit_error", "message": "x"}}),
        "rate_limit",
    );
    check(json!({"code": "context_length_exceeded", "message": "x"}), "context_length");
    check(json!({"code": "server_error", "message": "x"}), "server");
    check(json!({"error": "model requires more system memory"}), "server");
    check(json!({"error": {"message": "x", "type": "invalid_request_error"}}), "invalid_request");
    check(json!({}), "server");
}

#[test]
fn messages_say_cause_and_next_step() {
    #[track_caller]
    fn check(status: u16, body: &str, expected: &str) {
        let status = StatusCode::from_u16(status).unwrap();
        let failed = failure_from_status(status, &HeaderMap::new(), body, &subject());
        assert_eq!(failed.error.message, expected);
    }
    check(
        401,
        r#"{"error":{"message":"Incorrect\n API key"}}"#,
        "`openai/gpt-5`: https://api.openai.com does not accept the key (HTTP 401): Incorrect API key; check the variable OPENAI_API_KEY",
    );
    check(
        404,
        r#"{"error":{"message":"The model does not exist"}}"#,
        "https://api.openai.com knows no model `gpt-5` (HTTP 404): The model does not exist; correct `models.gpt.model` in your settings",
    );
    check(
        404,
        "<html>",
        "`openai/gpt-5`: nothing answers at that address of https://api.openai.com (HTTP 404); check `models.gpt.baseUrl` in your settings, which often ends in /v1",
    );
    check(
        500,
        "<html>",
        "`openai/gpt-5`: https://api.openai.com failed (HTTP 500); try again later, or choose another model",
    );
    check(
        400,
        r#"{"error":{"message":"Provider returned error","metadata":{"raw":"no such tool"}}}"#,
        "`openai/gpt-5`: https://api.openai.com does not accept the request (HTTP 400): Provider returned error: no such tool",
    );
    let long = "x".repeat(10_000);
    check(
        418,
        &long,
        &format!(
            "`openai/gpt-5`: https://api.openai.com does not accept the request (HTTP 418): {}…",
            "x".repeat(400)
        ),
    );
}

#[test]
fn retry_after_is_read_from_headers_or_message() {
    #[track_caller]
    fn check(headers: &[(&'static str, &str)], message: &str, expected_ms: Option<u64>) {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
        let body = json!({"error": {"message": message}}).to_string();
        let failed = failure_from_status(
            StatusCode::TOO_MANY_REQUESTS,
            &headers.collect(),
            &body,
            &subject(),
        );
        assert_eq!(failed.error.retry_after, expected_ms.map(Duration::from_millis));
    }
    check(&[], "", None);
    check(&[("retry-after", "7")], "", Some(7000));
    check(&[("retry-after", "0.5")], "", Some(500));
    check(&[("retry-after", "7"), ("retry-after-ms", "1500")], "", Some(1500));
    check(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")], "", Some(0));
    check(&[("retry-after", "-1")], "", None);
    check(&[("retry-after", "1e300")], "", None);
    check(&[("retry-after", "soon")], "", None);
    check(&[], "Please try again in 1.5s. Visit", Some(1500));
    check(&[], "Please try again in 20ms.", Some(20));
    check(&[], "Please try again in a while", None);
    let later =
        (Timestamp::now() + jiff::SignedDuration::from_secs(90)).to_zoned(jiff::tz::TimeZone::UTC);
    let mut headers = HeaderMap::new();
    headers.insert(
        "retry-after",
        later.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string().parse().unwrap(),
    );
    let wait = retry_after_header(&headers).unwrap();
    assert!((80..=90).contains(&wait.as_secs()), "{wait:?}");
}
