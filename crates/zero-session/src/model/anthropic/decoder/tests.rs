//! Event streams and the replies they produce.

use proptest::prelude::*;

use super::*;
use crate::model::arbitrary_json::any_json;
use crate::model::reply_limiter::{BYTES_MAX, PARTS_MAX};

/// The streamed events and the final reply.
fn read(events: &[Value]) -> (Vec<ModelEvent>, Result<ModelReply, ModelError>) {
    let mut decoder = MessagesDecoder::default();
    let mut decoded = Vec::new();
    for event in events {
        match decoder.decode_event(event["type"].as_str().unwrap_or_default(), &event.to_string()) {
            Ok(events) => decoded.extend(events),
            Err(error) => return (decoded, Err(error)),
        }
    }
    let stopped = events.iter().any(|event| event["type"] == "message_stop");
    assert_eq!(decoder.is_done(), stopped);
    (decoded, decoder.finish())
}

#[track_caller]
fn check(
    events: &[Value],
    expected: &[ModelEvent],
    blocks: &[MessageBlock],
    stop: ModelStopReason,
) {
    let (found, reply) = read(events);
    assert_eq!(found, expected);
    let reply = reply.unwrap();
    assert_eq!(reply.blocks, blocks);
    assert_eq!(reply.stop, stop);
}

#[track_caller]
fn check_error(events: &[Value], kind: ModelErrorKind, words: &str) {
    let error = read(events).1.unwrap_err();
    assert_eq!(error.kind, kind, "{}", error.message);
    assert!(error.message.contains(words), "{}", error.message);
}

fn begin() -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_1", "role": "assistant", "model": "claude-sonnet-4-5-20250929", "content": [],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 1000, "output_tokens": 1}}})
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text_delta(index: u64, text: &str) -> Value {
    delta(index, json!({"type": "text_delta", "text": text}))
}

fn json_delta(index: u64, text: &str) -> Value {
    delta(index, json!({"type": "input_json_delta", "partial_json": text}))
}

fn call_start(index: u64, id: &str, name: &str) -> Value {
    start(index, json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
}

fn stop_block(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 42}})
}

fn stop_message() -> Value {
    json!({"type": "message_stop"})
}

fn ping() -> Value {
    json!({"type": "ping"})
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.into())
}

fn tool(id: &str, name: &str) -> ModelEvent {
    ModelEvent::ToolUse { id: id.into(), name: name.into() }
}

fn call(id: &str, name: &str, input: Value) -> MessageBlock {
    MessageBlock::ToolUse {
        id: id.into(),
        name: name.into(),
        input: ToolInput::from(input),
        opaque: Value::Null,
    }
}

#[test]
fn text_streams_in_pieces() {
    let empty = json!({"type": "text", "text": ""});
    let events = [
        begin(),
        ping(),
        start(0, empty.clone()),
        text_delta(0, "Hé"),
        text_delta(0, ""),
        text_delta(0, "llo"),
        stop_block(0),
        start(1, empty),
        stop_block(1),
        end("end_turn"),
        stop_message(),
    ];
    check(
        &events,
        &[text("Hé"), text("llo")],
        &[MessageBlock::text("Héllo")],
        ModelStopReason::End,
    );
    let usage = read(&events).1.unwrap().usage;
    let expected = TokenUsage {
        input_tokens: 1110,
        output_tokens: 42,
        cache_read_tokens: 100,
        cache_write_tokens: 1000,
        ..TokenUsage::default()
    };
    assert_eq!(usage, expected);
}

#[test]
fn final_usage_replaces_earlier_counts() {
    let end = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {
        "input_tokens": 20, "cache_read_input_tokens": null, "output_tokens": 7}});
    let usage = read(&[begin(), end]).1.unwrap().usage;
    assert_eq!((usage.input_tokens, usage.output_tokens), (1120, 7));
}

#[test]
fn calls_are_assembled_from_deltas() {
    let events = [
        begin(),
        start(0, json!({"type": "text", "text": "Let me look."})),
        call_start(1, "toolu_1", "Read"),
        json_delta(1, ""),
        json_delta(1, "{\"path\": \"a\\"),
        call_start(2, "toolu_2", "Glob"),
        json_delta(1, "nb\"}"),
        stop_block(1),
        stop_block(2),
        end("tool_use"),
        stop_message(),
    ];
    check(
        &events,
        &[text("Let me look."), tool("toolu_1", "Read"), tool("toolu_2", "Glob")],
        &[
            MessageBlock::text("Let me look."),
            call("toolu_1", "Read", json!({"path": "a\nb"})),
            call("toolu_2", "Glob", json!({})),
        ],
        ModelStopReason::ToolUse,
    );
}

#[test]
fn arguments_may_come_whole_with_call() {
    let start = start(0, json!({"type": "tool_use", "id": "a", "name": "X", "input": {"b": 1}}));
    let block = call("a", "X", json!({"b": 1}));
    check(
        &[begin(), start, end("tool_use")],
        &[tool("a", "X")],
        &[block],
        ModelStopReason::ToolUse,
    );
}

#[test]
fn bad_arguments_are_kept_and_reported() {
    let events = [call_start(0, "a", "X"), json_delta(0, "{\"b\": "), end("tool_use")];
    let reply = read(&events).1.unwrap();
    let [MessageBlock::ToolUse { input: ToolInput::Unreadable { unreadable, .. }, .. }] =
        &reply.blocks[..]
    else {
        panic!("{reply:?}");
    };
    assert_eq!(unreadable, "{\"b\": ");
}

#[test]
fn truncated_call_is_never_complete() {
    let cut = |block: &MessageBlock| {
        matches!(block, MessageBlock::ToolUse { input: ToolInput::Unreadable { .. }, .. })
    };
    let two = |last: &str| {
        [call_start(0, "a", "X"), call_start(1, "b", "X"), json_delta(1, last), end("max_tokens")]
    };
    for last in ["", "{", "{\"a\":"] {
        let reply = read(&two(last)).1.unwrap();
        assert_eq!(reply.stop, ModelStopReason::MaxTokens);
        assert_eq!(reply.blocks.iter().map(cut).collect::<Vec<_>>(), [false, true], "{last}");
    }
    let reply = read(&two("{\"a\": 1}")).1.unwrap();
    assert!(!reply.blocks.iter().any(cut));
}

#[test]
fn thoughts_keep_signatures() {
    let events = [
        begin(),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
        delta(0, json!({"type": "thinking_delta", "thinking": "m."})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        stop_block(0),
        start(1, json!({"type": "redacted_thinking", "data": "ZW5j"})),
        start(2, json!({"type": "thinking", "thinking": "", "signature": "aGlkZGVu"})),
        start(3, json!({"type": "thinking", "thinking": "cut", "signature": ""})),
        start(4, json!({"type": "thinking", "thinking": "", "signature": ""})),
        text_delta(0, "not a text"),
        end("end_turn"),
        stop_message(),
    ];
    let model = "claude-sonnet-4-5-20250929";
    let thinking = |text: &str, opaque| MessageBlock::Thinking { text: text.into(), opaque };
    check(
        &events,
        &[
            ModelEvent::Thought("Hm".into()),
            ModelEvent::Thought("m.".into()),
            ModelEvent::Thought("cut".into()),
        ],
        &[
            thinking("Hmm.", json!({"type": "thinking", "signature": "c2ln", "model": model})),
            thinking("", json!({"type": "redacted_thinking", "data": "ZW5j", "model": model})),
            thinking("", json!({"type": "thinking", "signature": "aGlkZGVu", "model": model})),
            thinking("cut", Value::Null),
        ],
        ModelStopReason::End,
    );
}

#[test]
fn unknown_events_are_ignored() {
    let events = [
        json!({"type": "message_began", "x": 1}),
        json!([1, 2]),
        json!(null),
        begin(),
        start(0, json!({"type": "server_tool_use", "id": "s", "name": "web_search"})),
        json_delta(0, "{\"query\": 1}"),
        start(1, json!({"type": "web_search_tool_result", "content": []})),
        start(2, json!({"type": "text", "text": "a"})),
        delta(2, json!({"type": "citations_delta", "citation": {}})),
        text_delta(99, "of nothing"),
        end("end_turn"),
        stop_message(),
        start(0, json!({"type": "text", "text": "too late"})),
    ];
    check(&events, &[text("a")], &[MessageBlock::text("a")], ModelStopReason::End);
}

#[test]
fn event_name_is_used_when_data_has_no_type() {
    let mut decoder = MessagesDecoder::default();
    let data = json!({"delta": {"stop_reason": "end_turn"}}).to_string();
    decoder.decode_event("message_delta", &data).unwrap();
    decoder.decode_event("message_stop", "{}").unwrap();
    assert!(decoder.is_done());
    assert_eq!(decoder.finish().unwrap().stop, ModelStopReason::End);
}

#[test]
fn stop_reasons_are_mapped() {
    let refusal = |words: &str| ModelStopReason::Refusal(words.into());
    for (reason, details, expected) in [
        ("end_turn", Value::Null, ModelStopReason::End),
        ("stop_sequence", Value::Null, ModelStopReason::End),
        ("pause_turn", Value::Null, ModelStopReason::End),
        ("something_new", Value::Null, ModelStopReason::End),
        ("tool_use", Value::Null, ModelStopReason::ToolUse),
        ("max_tokens", Value::Null, ModelStopReason::MaxTokens),
        ("model_context_window_exceeded", Value::Null, ModelStopReason::MaxTokens),
        ("refusal", Value::Null, refusal("the model declined to answer")),
        ("refusal", json!({"category": "cyber", "explanation": null}), refusal("cyber")),
        ("refusal", json!({"category": "cyber", "explanation": "No.\n"}), refusal("No")),
    ] {
        let event = json!({"type": "message_delta",
            "delta": {"stop_reason": reason, "stop_details": details}});
        check(&[begin(), event, stop_message()], &[], &[], expected);
    }
    // A call is answered whatever the stop reason is.
    let events = [call_start(0, "a", "X"), end("end_turn")];
    check(&events, &[tool("a", "X")], &[call("a", "X", json!({}))], ModelStopReason::ToolUse);
}

#[test]
fn errors_are_classified() {
    use ModelErrorKind::*;
    for (kind, message, expected) in [
        ("overloaded_error", "Overloaded", Server),
        ("api_error", "Internal server error", Server),
        ("something_new", "x", Server),
        ("rate_limit_error", "Too many tokens per minute", RateLimit),
        ("billing_error", "Pay first", RateLimit),
        ("authentication_error", "invalid x-api-key", Auth),
        ("permission_error", "Not yours", Auth),
        ("not_found_error", "model: claude-9", InvalidRequest),
        ("timeout_error", "x", Timeout),
        ("request_too_large", "Request exceeds the maximum size", ContextLength),
        ("invalid_request_error", "prompt is too long: 205547 tokens > 200000", ContextLength),
        (
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
            ContextLength,
        ),
        ("invalid_request_error", "Your credit balance is too low", RateLimit),
        ("invalid_request_error", "messages: at least one message is required", InvalidRequest),
    ] {
        let event = json!({"type": "error", "error": {"type": kind, "message": message}});
        check_error(&[begin(), event], expected, message);
    }
    check_error(&[json!({"type": "error"})], Server, "the provider failed");
    check_error(&[json!({"type": "error", "error": "out of order"})], Server, "out of order");
}

#[test]
fn truncated_stream_is_error() {
    let words = "the connection broke in mid-answer";
    check_error(&[], ModelErrorKind::Network, words);
    let text = start(0, json!({"type": "text", "text": "a"}));
    check_error(&[begin(), text.clone(), stop_block(0)], ModelErrorKind::Network, words);
    // All content arrived; only the final event is missing.
    let events = [begin(), text, end("end_turn")];
    assert_eq!(read(&events).1.unwrap().blocks, [MessageBlock::text("a")]);
}

#[test]
fn invalid_json_is_error() {
    let mut decoder = MessagesDecoder::default();
    assert_eq!(decoder.decode_event("ping", "").unwrap(), []);
    let error = decoder.decode_event("ping", "{\"type\"").unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Server);
}

#[test]
fn hundred_parallel_calls_form_one_reply() {
    let mut events = vec![begin()];
    let ids: Vec<String> = (0..100).map(|n| format!("toolu_{n}")).collect();
    events.extend((0..).zip(&ids).map(|(n, id)| call_start(n, id, "Read")));
    for piece in ["{\"n\"", ":", "1}"] {
        events.extend((0..100).map(|n| json_delta(n, piece)));
    }
    events.extend([end("tool_use"), stop_message()]);
    let expected: Vec<_> = ids.iter().map(|id| tool(id, "Read")).collect();
    let blocks: Vec<_> = ids.iter().map(|id| call(id, "Read", json!({"n": 1}))).collect();
    check(&events, &expected, &blocks, ModelStopReason::ToolUse);
}

#[test]
fn reply_size_is_bounded() {
    let too_many: Vec<_> = (0..=PARTS_MAX as u64).map(|n| call_start(n, "a", "X")).collect();
    check_error(&too_many, ModelErrorKind::InvalidRequest, "256 parts");
    let piece = "x".repeat(BYTES_MAX / 4);
    let mut too_long = vec![call_start(0, "a", "X")];
    too_long.extend((0..5).map(|_| json_delta(0, &piece)));
    check_error(&too_long, ModelErrorKind::InvalidRequest, "8 MiB");
}

const WORDS: &[&str] = &[
    "type",
    "message",
    "usage",
    "model",
    "content_block",
    "delta",
    "index",
    "text",
    "thinking",
    "signature",
    "data",
    "id",
    "name",
    "input",
    "partial_json",
    "stop_reason",
    "stop_details",
    "explanation",
    "error",
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "message_stop",
    "text_delta",
    "input_json_delta",
    "thinking_delta",
    "signature_delta",
    "redacted_thinking",
    "tool_use",
    "refusal",
    "input_tokens",
    "output_tokens",
    "end_turn",
    "max_tokens",
];

fn named_event() -> impl Strategy<Value = Value> {
    const KINDS: &[&str] =
        &["message_start", "content_block_start", "content_block_delta", "message_delta"];
    (proptest::sample::select(KINDS), any_json(WORDS), any_json(WORDS), 0..3_u64).prop_map(
        |(kind, one, two, index)| {
            json!({"type": kind, "index": index, "message": one, "content_block": one,
                "delta": two, "usage": one, "error": two})
        },
    )
}

proptest! {
    #[test]
    fn no_event_panics(events in proptest::collection::vec(
        prop_oneof![any_json(WORDS), named_event()], 0..12,
    )) {
        let mut decoder = MessagesDecoder::default();
        for event in &events {
            if decoder.decode_event("content_block_delta", &event.to_string()).is_err() {
                break;
            }
        }
        let _ = decoder.finish();
    }

    #[test]
    fn no_data_panics(name in ".{0,10}", data in ".{0,40}") {
        let _ = MessagesDecoder::default().decode_event(&name, &data);
    }
}
