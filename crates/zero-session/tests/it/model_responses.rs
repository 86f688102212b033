//! The Responses API with a server that splits its replies at the worst positions.

use serde_json::{Value, json};
use zero_session::model::catalog::ModelApi;

use crate::model_server::{FakeProvider, ModelOutput, byte_stream_reply};

const RESPONSES: ModelApi = ModelApi::OpenAiResponses;

fn text(delta: &str) -> String {
    json!({"type": "response.output_text.delta", "output_index": 0, "delta": delta}).to_string()
}

fn call(index: usize, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": format!("c{index}"), "name": "Read", "arguments": arguments})
}

fn item_added(index: usize, item: Value) -> String {
    json!({"type": "response.output_item.added", "output_index": index, "item": item}).to_string()
}

fn arguments(index: usize, delta: &str) -> String {
    json!({"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta})
        .to_string()
}

fn response_completed() -> String {
    let usage = json!({"input_tokens": 9, "output_tokens": 2});
    json!({"type": "response.completed", "response": {"usage": usage}}).to_string()
}

#[track_caller]
fn check(output: &ModelOutput, expected: &str) {
    assert_eq!(output.summary(), expected);
}

#[tokio::test]
async fn stream_split_at_every_byte_is_decoded() {
    let events = [
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "größer?"}).to_string(),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "🦀"}).to_string(),
        item_added(2, call(2, "")),
        arguments(2, "{\"pa"),
        arguments(2, "th\":\"é\"}"),
        response_completed(),
    ];
    let provider = FakeProvider::start(vec![byte_stream_reply(&events)]).await;
    let output = provider.ask(RESPONSES).await;
    check(
        &output,
        "thought größer? | text 🦀 | tool c2 Read | = (größer?) | = 🦀 | = c2 Read{\"path\":\"é\"} | ToolUse",
    );
    assert_eq!(output.end.unwrap().usage.input_tokens, 9);
    let request = &provider.requests()[0];
    assert!(request.starts_with("POST /v1/responses HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(r#""store":false"#), "{request}");
}

#[tokio::test]
async fn hundred_calls_keep_order_and_arguments() {
    let mut events: Vec<String> =
        (0..100).map(|index| item_added(index, call(index, ""))).collect();
    events.extend((0..100).rev().map(|index| arguments(index, "{\"n\"")));
    events.extend((0..100).map(|index| arguments(index, &format!(":{index}}}"))));
    events.push(response_completed());
    let provider = FakeProvider::with_events(&events).await;
    let begun = (0..100).map(|index| format!("tool c{index} Read | "));
    let made = (0..100).map(|index| format!("= c{index} Read{{\"n\":{index}}} | "));
    let expected: String = begun.chain(made).chain(["ToolUse".to_owned()]).collect();
    check(&provider.ask(RESPONSES).await, &expected);
}

#[tokio::test]
async fn calls_arrive_as_model_wrote_them() {
    let unknown =
        json!({"type": "function_call", "call_id": "a", "name": "NoSuchTool", "arguments": ""});
    let events = [
        item_added(0, unknown),
        arguments(0, "{}"),
        item_added(1, call(1, "")),
        arguments(1, "{oops"),
        response_completed(),
    ];
    let provider = FakeProvider::with_events(&events).await;
    check(
        &provider.ask(RESPONSES).await,
        "tool a NoSuchTool | tool c1 Read | = a NoSuchTool{} | = c1 Read?{oops | ToolUse",
    );
}

#[tokio::test]
async fn abnormal_end_is_explained() {
    async fn check_end(events: &[String], expected: &str) {
        let provider = FakeProvider::with_events(events).await;
        check(&provider.ask(RESPONSES).await, expected);
        assert_eq!(provider.requests().len(), 1);
    }
    check_end(
        &[text("hi")],
        "text hi | network: the connection broke in mid-answer; send the message again",
    )
    .await;
    let failed = json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "oops"}}});
    check_end(
        &[text("hi"), failed.to_string()],
        "text hi | server: the provider reported an error: oops",
    )
    .await;
    let error = json!({"type": "error", "code": "context_length_exceeded", "message": "too long"});
    check_end(&[error.to_string()], "context_length: the provider reported an error: too long")
        .await;
    let filtered = json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "content_filter"}}});
    check_end(
        &[text("hi"), filtered.to_string()],
        "text hi | = hi | Refusal(\"the provider's content filter stopped the answer\")",
    )
    .await;
    let cut = json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}});
    check_end(&[text("hi"), cut.to_string()], "text hi | = hi | MaxTokens").await;
}

#[tokio::test]
async fn failure_before_first_text_is_retried() {
    let failed = json!({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "oops"}}});
    let answers = vec![
        crate::model_server::stream_reply(&[failed.to_string()]),
        crate::model_server::stream_reply(&[text("hi"), response_completed()]),
    ];
    let provider = FakeProvider::start(answers).await;
    check(&provider.ask(RESPONSES).await, "retry server #1 | text hi | = hi | End");
}
