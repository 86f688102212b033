//! Table: requests sent and replies decoded.

use serde_json::{Value, json};
use url::Url;

use super::OpenAiResponsesProtocol;
use crate::event::ResultContent;
use crate::message::{MessageBlock, MessageRole, ModelMessage, ToolInput, share_messages};
use crate::model::http_model::complete_body;
use crate::model::protocol::ModelProtocol;
use crate::model::{
    ModelError, ModelEvent, ModelInfo, ModelReply, ModelRequest, ModelStopReason,
    ModelToolDefinition, ThinkingEffort,
};

fn protocol() -> OpenAiResponsesProtocol {
    OpenAiResponsesProtocol::for_base_url(Some(&Url::parse("https://api.openai.com/v1").unwrap()))
}

fn request_body(id: &str, request: &ModelRequest) -> Value {
    let info = ModelInfo {
        name: format!("openai/{id}"),
        id: id.to_owned(),
        family: "gpt".to_owned(),
        context_window: 100_000,
        output_tokens_max: 1000,
        takes_images: true,
        prices: None,
    };
    complete_body(&protocol(), &info, request)
}

fn thought(text: &str) -> MessageBlock {
    let item =
        json!({"summary": [{"type": "summary_text", "text": text}], "encrypted_content": text});
    MessageBlock::Thinking { text: text.to_owned(), opaque: json!({"openai_responses": item}) }
}

fn call(id: &str) -> MessageBlock {
    let input = ToolInput::from(json!({"p": 1}));
    MessageBlock::ToolUse { id: id.into(), name: "Read".into(), input, opaque: Value::Null }
}

fn result(id: &str, content: Vec<ResultContent>) -> ModelMessage {
    let result =
        MessageBlock::ToolResult { id: id.into(), name: "Read".into(), content, is_error: false };
    ModelMessage { role: MessageRole::User, blocks: vec![result] }
}

#[test]
fn conversation_is_encoded_as_items() {
    let image = ResultContent::Image { mime: "image/png".into(), data: "AA==".into() };
    let text = ResultContent::Text { text: "hello".into() };
    let request = ModelRequest {
        system: "You help.".into(),
        messages: share_messages(vec![
            ModelMessage::user("one"),
            ModelMessage::assistant(vec![thought("old"), call("0")]),
            result("0", vec![]),
            ModelMessage::assistant(vec![MessageBlock::text("well"), thought("at the end")]),
            ModelMessage {
                role: MessageRole::User,
                blocks: vec![
                    MessageBlock::text("two"),
                    MessageBlock::Image { mime: "image/png".into(), data: "BB==".into() },
                ],
            },
            ModelMessage::assistant(vec![
                thought("new"),
                MessageBlock::text("I look"),
                call("1"),
                thought("cut"),
            ]),
            result("1", vec![text, image]),
        ]),
        tools: [ModelToolDefinition {
            name: "Read".into(),
            description: "Reads".into(),
            input_schema: json!({"type": "object"}),
        }]
        .into(),
        output_tokens_max: Some(500),
        thinking: ThinkingEffort::High,
        output_schema: None,
    };
    assert_eq!(
        request_body("gpt-5", &request),
        json!({
            "model": "gpt-5",
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]},
                {"type": "function_call", "call_id": "0", "name": "Read", "arguments": "{\"p\":1}"},
                {"type": "function_call_output", "call_id": "0", "output": "(no output)"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "well"}]},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "two"},
                    {"type": "input_image", "image_url": "data:image/png;base64,BB=="},
                ]},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "new"}], "encrypted_content": "new"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look"}]},
                {"type": "function_call", "call_id": "1", "name": "Read", "arguments": "{\"p\":1}"},
                {"type": "function_call_output", "call_id": "1", "output": "hello"},
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "From `Read`:"},
                    {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
                ]},
            ],
            "stream": true,
            "store": false,
            "instructions": "You help.",
            "tools": [{"type": "function", "name": "Read", "description": "Reads", "parameters": {"type": "object"}, "strict": false}],
            "max_output_tokens": 500,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "high", "summary": "auto"},
        })
    );
}

#[test]
fn only_reasoning_models_request_thoughts() {
    #[track_caller]
    fn check(id: &str, thinking: ThinkingEffort, expected: Value) {
        let body = request_body(id, &ModelRequest { thinking, ..ModelRequest::default() });
        assert_eq!(json!([body.get("include").is_some(), body["reasoning"]]), expected, "{id}");
    }
    check("gpt-4o", ThinkingEffort::High, json!([false, null]));
    check("gpt-5", ThinkingEffort::Default, json!([true, null]));
    check("gpt-5", ThinkingEffort::Off, json!([true, {"effort": "minimal"}]));
    check("o4-mini", ThinkingEffort::Low, json!([true, {"effort": "low", "summary": "auto"}]));
}

fn decode(events: &[Value]) -> (Vec<ModelEvent>, Result<ModelReply, ModelError>) {
    let mut decoder = protocol().new_decoder();
    let mut given = Vec::new();
    for event in events {
        assert!(!decoder.is_done());
        match decoder.decode_event("", &event.to_string()) {
            Ok(more) => given.extend(more),
            Err(error) => return (given, Err(error)),
        }
    }
    (given, decoder.finish())
}

/// A reply in short form: events, then blocks and the stop reason.
#[track_caller]
fn check(events: &[Value], expected: &str) {
    let (events, end) = decode(events);
    let mut lines: Vec<String> = events
        .iter()
        .map(|event| match event {
            ModelEvent::Text(text) => format!("text {text}"),
            ModelEvent::Thought(text) => format!("thought {}", text.escape_debug()),
            ModelEvent::ToolUse { id, name } => format!("tool {id} {name}"),
            other => format!("{other:?}"),
        })
        .collect();
    match end {
        Err(error) => lines.push(format!("{}: {}", error.kind.as_str(), error.message)),
        Ok(reply) => {
            lines.extend(reply.blocks.iter().map(|block| match block {
                MessageBlock::Text { text } => format!("= {text}"),
                MessageBlock::Thinking { text, opaque } => {
                    format!("= ({}) {opaque}", text.escape_debug())
                }
                MessageBlock::ToolUse { id, name, input: ToolInput::Json(input), .. } => {
                    format!("= {id} {name}{input}")
                }
                MessageBlock::ToolUse {
                    id,
                    name,
                    input: ToolInput::Unreadable { unreadable, .. },
                    ..
                } => {
                    format!("= {id} {name}?{unreadable}")
                }
                other => format!("{other:?}"),
            }));
            lines.push(format!("{:?}", reply.stop));
        }
    }
    assert_eq!(lines.join(" | "), expected);
}

fn text(index: u64, delta: &str) -> Value {
    json!({"type": "response.output_text.delta", "output_index": index, "delta": delta})
}

fn item_added(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn item_done(index: u64, item: Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

fn response_completed() -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "error": null, "output": []}})
}

#[test]
fn items_are_assembled_from_deltas() {
    let message_item =
        |text: &str| json!({"type": "message", "content": [{"type": "output_text", "text": text}]});
    let thought = json!({"type": "reasoning", "summary": [{"text": "a"}, {"text": "b"}], "encrypted_content": "E"});
    let summary = |delta: &str| json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": delta});
    let part = json!({"type": "response.reasoning_summary_part.added", "output_index": 0});
    check(
        &[
            json!({"type": "response.created", "response": {}}),
            item_added(0, json!({"type": "reasoning", "summary": []})),
            part.clone(),
            summary("a"),
            part,
            summary("b"),
            item_done(0, thought),
            item_added(1, message_item("")),
            text(1, "He"),
            text(1, "llo"),
            item_done(1, message_item("Hello")),
            response_completed(),
        ],
        r#"thought a | thought \n\n | thought b | text He | text llo | = (a\n\nb) {"openai_responses":{"summary":[{"text":"a"},{"text":"b"}],"encrypted_content":"E"}} | = Hello | End"#,
    );
    // A server that omits the deltas, or the items.
    check(&[item_done(0, message_item("hi")), response_completed()], "text hi | = hi | End");
    check(&[text(0, "hi"), response_completed()], "text hi | = hi | End");
    let at_once =
        json!({"type": "response.completed", "response": {"output": [message_item("hi")]}});
    check(&[at_once], "text hi | = hi | End");
}

#[test]
fn calls_are_assembled_from_any_split() {
    let call = |id: &str, arguments: &str| json!({"type": "function_call", "id": "fc", "call_id": id, "name": "Read", "arguments": arguments});
    let delta = |index: u64, delta: &str| json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta});
    check(
        &[
            item_added(0, call("a", "")),
            item_added(1, call("b", "")),
            delta(0, "{\"p\""),
            delta(1, "{}"),
            delta(0, ":1}"),
            json!({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"p\":1}"}),
            item_done(0, call("a", "{\"p\":1}")),
            item_done(1, call("b", "{}")),
            response_completed(),
        ],
        r#"tool a Read | tool b Read | = a Read{"p":1} | = b Read{} | ToolUse"#,
    );
    check(
        &[item_done(0, call("a", "{oops")), response_completed()],
        "tool a Read | = a Read?{oops | ToolUse",
    );
    check(
        &[item_added(0, call("a", "")), delta(0, "{}"), response_completed()],
        "tool a Read | = a Read{} | ToolUse",
    );
}

#[test]
fn reply_ends_on_completed_event() {
    check(
        &[text(0, "hi")],
        "text hi | network: the connection broke in mid-answer; send the message again",
    );
    let incomplete = |reason: &str| json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}});
    check(&[text(0, "hi"), incomplete("max_output_tokens")], "text hi | = hi | MaxTokens");
    check(
        &[incomplete("content_filter")],
        r#"Refusal("the provider's content filter stopped the answer")"#,
    );
    let failed = |code: &str| json!({"type": "response.failed", "response": {"error": {"code": code, "message": "no"}}});
    check(
        &[text(0, "hi"), failed("server_error")],
        "text hi | server: the provider reported an error: no",
    );
    check(
        &[failed("context_length_exceeded")],
        "context_length: the provider reported an error: no",
    );
    check(
        &[json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow"})],
        "rate_limit: the provider reported an error: slow",
    );
    check(
        &[json!({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}})],
        "invalid_request: the provider reported an error: no",
    );
    let refusal =
        |delta: &str| json!({"type": "response.refusal.delta", "output_index": 0, "delta": delta});
    check(&[refusal("I "), refusal("cannot"), response_completed()], r#"Refusal("I cannot")"#);
}

#[test]
fn usage_includes_cached_tokens() {
    let usage = json!({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 7});
    let (_, reply) = decode(&[json!({"type": "response.completed", "response": {"usage": usage}})]);
    let ModelReply { usage, stop, .. } = reply.unwrap();
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (100, 7, 64));
    assert_eq!(stop, ModelStopReason::End);
}

#[test]
fn items_and_calls_are_bounded() {
    let calls: Vec<Value> = (0..257)
        .map(|index| {
            item_added(index, json!({"type": "function_call", "call_id": "a", "name": "Read"}))
        })
        .collect();
    assert!(decode(&calls).1.unwrap_err().message.contains("more than 256 tool calls"));
    let items: Vec<Value> = (0..1025).map(|index| text(index, "x")).collect();
    assert!(decode(&items).1.unwrap_err().message.contains("more than 1024 items"));
}
