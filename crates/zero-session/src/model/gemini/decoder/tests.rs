//! Event streams and the replies they produce.

use proptest::prelude::*;

use super::*;
use crate::model::arbitrary_json::any_json;
use crate::model::reply_limiter::{BYTES_MAX, PARTS_MAX};

/// The streamed events, whether the stream was done, and the final reply.
fn read(chunks: &[Value]) -> (Vec<ModelEvent>, bool, Result<ModelReply, ModelError>) {
    let mut decoder = GeminiDecoder::default();
    let mut decoded = Vec::new();
    for chunk in chunks {
        match decoder.decode_event("", &chunk.to_string()) {
            Ok(events) => decoded.extend(events),
            Err(error) => return (decoded, false, Err(error)),
        }
    }
    let done = decoder.is_done();
    (decoded, done, decoder.finish())
}

#[track_caller]
fn check(chunks: &[Value], events: &[ModelEvent], blocks: &[MessageBlock], stop: ModelStopReason) {
    let (found, _, reply) = read(chunks);
    assert_eq!(found, events);
    let reply = reply.unwrap();
    assert_eq!(reply.blocks, blocks);
    assert_eq!(reply.stop, stop);
}

#[track_caller]
fn check_error(chunks: &[Value], kind: ModelErrorKind, words: &str) -> ModelError {
    let error = read(chunks).2.unwrap_err();
    assert_eq!(error.kind, kind, "{}", error.message);
    assert!(error.message.contains(words), "{}", error.message);
    error
}

fn parts(parts: Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
        "modelVersion": "gemini-3-pro-preview"})
}

fn last(parts: Value, reason: &str) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts},
        "finishReason": reason}], "modelVersion": "gemini-3-pro-preview", "usageMetadata": {
        "promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5, "totalTokenCount": 112}})
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.into())
}

fn tool(id: &str, name: &str) -> ModelEvent {
    ModelEvent::ToolUse { id: id.into(), name: name.into() }
}

fn call(id: &str, name: &str, input: Value, opaque: Value) -> MessageBlock {
    MessageBlock::ToolUse {
        id: id.into(),
        name: name.into(),
        input: ToolInput::from(input),
        opaque,
    }
}

fn thought(text: &str, opaque: Value) -> MessageBlock {
    MessageBlock::Thinking { text: text.into(), opaque }
}

#[test]
fn text_streams_in_pieces() {
    let chunks = [
        parts(json!([{"text": "Hé"}])),
        parts(json!([{"text": "l"}, {"text": ""}, {"text": "lo"}])),
        last(json!([{"text": "."}]), "STOP"),
    ];
    let events = [text("Hé"), text("l"), text("lo"), text(".")];
    check(&chunks, &events, &[MessageBlock::text("Héllo.")], ModelStopReason::End);
    let (_, done, reply) = read(&chunks);
    assert!(done);
    let expected = TokenUsage {
        input_tokens: 100,
        output_tokens: 12,
        cache_read_tokens: 60,
        cache_write_tokens: 0,
        ..TokenUsage::default()
    };
    assert_eq!(reply.unwrap().usage, expected);
}

#[test]
fn usage_may_follow_stop_reason() {
    let stop = json!({"candidates": [{"finishReason": "STOP"}]});
    let counts = json!({"usageMetadata": {"promptTokenCount": 3, "toolUsePromptTokenCount": 1}});
    let (_, done, reply) = read(std::slice::from_ref(&stop));
    assert!(!done, "the counts may follow");
    assert_eq!(reply.unwrap().stop, ModelStopReason::End);
    let (_, done, reply) = read(&[stop, counts]);
    assert!(done);
    assert_eq!(reply.unwrap().usage.input_tokens, 4);
}

#[test]
fn thoughts_and_signatures_stay_on_their_parts() {
    let signed =
        |signature: &str| json!({"thoughtSignature": signature, "model": "gemini-3-pro-preview"});
    let chunks = [
        parts(json!([{"text": "Hm", "thought": true}])),
        parts(json!([{"text": "m.", "thought": true, "thoughtSignature": "dDE="}])),
        parts(json!([{"text": "again", "thought": true}])),
        parts(json!([{"text": "So"}])),
        parts(json!([{"text": "", "thoughtSignature": "dDI="}])),
        parts(json!([
            {"functionCall": {"id": "x1", "name": "Read", "args": {"b": 1, "a": 2}},
             "thoughtSignature": "dDM="},
            {"functionCall": {"name": "Read"}},
            {"functionCall": {"id": "", "name": "Glob", "args": {}}},
        ])),
        last(json!([]), "STOP"),
    ];
    let thinks = |text: &str| ModelEvent::Thought(text.into());
    let events = [
        thinks("Hm"),
        thinks("m."),
        thinks("again"),
        text("So"),
        tool("x1", "Read"),
        tool("call_2", "Read"),
        tool("call_3", "Glob"),
    ];
    let mut of_text = signed("dDI=");
    of_text["part"] = json!("text");
    let mut of_call = signed("dDM=");
    of_call["id"] = json!("x1");
    let blocks = [
        thought("Hmm.", signed("dDE=")),
        thought("again", Value::Null),
        MessageBlock::text("So"),
        thought("", of_text),
        call("x1", "Read", json!({"b": 1, "a": 2}), of_call),
        call("call_2", "Read", json!({}), Value::Null),
        call("call_3", "Glob", json!({}), Value::Null),
    ];
    check(&chunks, &events, &blocks, ModelStopReason::ToolUse);
}

#[test]
fn unknown_parts_are_ignored() {
    let chunks = [
        json!(null),
        json!({"candidates": []}),
        json!({"candidates": [{"content": {}}], "promptFeedback": {"safetyRatings": []}}),
        parts(json!([{"executableCode": {"code": "1"}}, {"inlineData": {}}, 7, {"text": 1}])),
        parts(json!([{"text": "a"}])),
        last(json!([]), "STOP"),
        parts(json!([{"text": "too late"}])),
    ];
    check(&chunks, &[text("a")], &[MessageBlock::text("a")], ModelStopReason::End);
}

#[test]
fn stop_reasons_are_mapped() {
    let stopped = |reason: &str| {
        ModelStopReason::Refusal(format!("the provider stopped the answer ({reason})"))
    };
    for (reason, expected) in [
        ("STOP", ModelStopReason::End),
        ("MAX_TOKENS", ModelStopReason::MaxTokens),
        ("SAFETY", stopped("SAFETY")),
        ("RECITATION", stopped("RECITATION")),
        ("BLOCKLIST", stopped("BLOCKLIST")),
        ("PROHIBITED_CONTENT", stopped("PROHIBITED_CONTENT")),
        ("SPII", stopped("SPII")),
        ("LANGUAGE", stopped("LANGUAGE")),
    ] {
        check(&[last(json!([]), reason)], &[], &[], expected);
    }
    let mut chunk = last(json!([{"text": "a"}]), "SAFETY");
    chunk["candidates"][0]["finishMessage"] = json!("Harmful.");
    let stop = ModelStopReason::Refusal("the provider stopped the answer (SAFETY): Harmful".into());
    check(&[chunk], &[text("a")], &[MessageBlock::text("a")], stop);
}

#[test]
fn failure_reasons_become_errors() {
    use ModelErrorKind::*;
    for (reason, kind) in [
        ("MALFORMED_FUNCTION_CALL", Server),
        ("UNEXPECTED_TOOL_CALL", Server),
        ("TOO_MANY_TOOL_CALLS", Server),
        ("OTHER", Server),
        ("SOMETHING_NEW", Server),
        ("MISSING_THOUGHT_SIGNATURE", InvalidRequest),
    ] {
        let error = check_error(&[last(json!([{"text": "a"}]), reason)], kind, reason);
        assert_eq!(error.kind.is_transient(), kind == Server);
    }
}

#[test]
fn blocked_prompt_is_refusal() {
    let chunk = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 9}});
    let stop =
        ModelStopReason::Refusal("the provider declined the prompt (PROHIBITED_CONTENT)".into());
    check(std::slice::from_ref(&chunk), &[], &[], stop);
    assert!(read(&[chunk]).1);
}

#[test]
fn errors_are_classified() {
    use ModelErrorKind::*;
    let too_long = "The input token count (1200000) exceeds the maximum number of tokens allowed";
    for (code, status, message, expected) in [
        (429, "RESOURCE_EXHAUSTED", "Quota exceeded", RateLimit),
        (401, "UNAUTHENTICATED", "Who?", Auth),
        (403, "PERMISSION_DENIED", "Not yours", Auth),
        (400, "INVALID_ARGUMENT", "API key not valid", Auth),
        (400, "INVALID_ARGUMENT", too_long, ContextLength),
        (400, "INVALID_ARGUMENT", "Unknown name", InvalidRequest),
        (400, "FAILED_PRECONDITION", "User location is not supported", InvalidRequest),
        (404, "NOT_FOUND", "models/gemini-9 is not found", InvalidRequest),
        (503, "UNAVAILABLE", "The model is overloaded", Server),
        (500, "INTERNAL", "Internal error", Server),
        (504, "DEADLINE_EXCEEDED", "Deadline expired", Timeout),
        (499, "CANCELLED", "The operation was cancelled", Server),
        (429, "", "Slow down", RateLimit),
        (403, "", "Not yours", Auth),
        (400, "", too_long, ContextLength),
        (404, "", "Nothing there", InvalidRequest),
        (502, "", "Bad gateway", Server),
    ] {
        let error = json!({"error": {"code": code, "status": status, "message": message}});
        check_error(&[parts(json!([{"text": "a"}])), error.clone()], expected, message);
        check_error(&[json!([error])], expected, message);
    }
    check_error(&[json!({"error": "out of order"})], Server, "out of order");
}

#[test]
fn retry_delay_is_read_from_details() {
    for (delay, expected) in [
        (json!("34s"), Some(Duration::from_secs(34))),
        (json!("1.5s"), Some(Duration::from_millis(1500))),
        (json!("1e300s"), None),
        (json!("999999s"), Some(RETRY_AFTER_MAX)),
        (json!("-3s"), None),
        (json!("NaNs"), None),
        (json!(34), None),
    ] {
        let error = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "details": [
            {"@type": "type.googleapis.com/google.rpc.Help"},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]}});
        let error = check_error(&[error], ModelErrorKind::RateLimit, "no more for now");
        assert_eq!(error.retry_after, expected, "{delay}");
    }
}

#[test]
fn truncated_stream_is_error() {
    let words = "the connection broke in mid-answer";
    check_error(&[], ModelErrorKind::Network, words);
    check_error(&[parts(json!([{"text": "a"}]))], ModelErrorKind::Network, words);
    let mut decoder = GeminiDecoder::default();
    assert_eq!(decoder.decode_event("", "").unwrap(), []);
    assert_eq!(decoder.decode_event("", "{").unwrap_err().kind, ModelErrorKind::Server);
}

#[test]
fn hundred_parallel_calls_form_one_reply() {
    let calls: Vec<Value> =
        (0..100).map(|n| json!({"functionCall": {"name": "Read", "args": {"n": n}}})).collect();
    let events: Vec<_> = (1..=100).map(|n| tool(&format!("call_{n}"), "Read")).collect();
    let blocks: Vec<_> = (0..100)
        .map(|n| call(&format!("call_{}", n + 1), "Read", json!({"n": n}), Value::Null))
        .collect();
    check(&[last(json!(calls), "STOP")], &events, &blocks, ModelStopReason::ToolUse);
}

#[test]
fn reply_size_is_bounded() {
    let one = json!({"functionCall": {"name": "Read"}});
    let too_many = vec![one; PARTS_MAX + 1];
    check_error(&[parts(json!(too_many))], ModelErrorKind::InvalidRequest, "256 parts");
    let long = json!({"functionCall": {"name": "Read", "args": {"a": "x".repeat(BYTES_MAX)}}});
    check_error(&[parts(json!([long]))], ModelErrorKind::InvalidRequest, "8 MiB");
}

const WORDS: &[&str] = &[
    "candidates",
    "content",
    "parts",
    "text",
    "thought",
    "thoughtSignature",
    "functionCall",
    "id",
    "name",
    "args",
    "finishReason",
    "finishMessage",
    "promptFeedback",
    "blockReason",
    "error",
    "code",
    "status",
    "message",
    "details",
    "retryDelay",
    "usageMetadata",
    "promptTokenCount",
    "candidatesTokenCount",
    "modelVersion",
    "STOP",
    "SAFETY",
    "INVALID_ARGUMENT",
    "1e9s",
];

fn chunk() -> impl Strategy<Value = Value> {
    (any_json(WORDS), any_json(WORDS), any_json(WORDS)).prop_map(|(one, two, three)| {
        json!({"candidates": [{"content": {"parts": [one, {"functionCall": two}, {
            "text": "t", "thought": three, "thoughtSignature": one}]}, "finishReason": three}],
            "usageMetadata": two, "promptFeedback": one, "modelVersion": three})
    })
}

proptest! {
    #[test]
    fn no_event_panics(chunks in proptest::collection::vec(
        prop_oneof![any_json(WORDS), chunk()], 0..12,
    )) {
        let mut decoder = GeminiDecoder::default();
        for chunk in &chunks {
            if decoder.decode_event("", &chunk.to_string()).is_err() {
                break;
            }
        }
        let _ = decoder.finish();
    }

    #[test]
    fn no_data_panics(data in ".{0,40}") {
        let _ = GeminiDecoder::default().decode_event("", &data);
    }
}
