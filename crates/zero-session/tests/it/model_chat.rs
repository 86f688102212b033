//! Chat completions with a server that splits its replies at the worst positions.

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_session::model::ModelEvent;
use zero_session::model::catalog::ModelApi;

use crate::model_server::{
    FakeProvider, ReplyPace, STREAM_HEAD, ServerReply, byte_stream_reply, chunk, request, sse,
};

const CHAT: ModelApi = ModelApi::OpenAiChat;

fn delta(delta: Value) -> String {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string()
}

fn end(reason: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}).to_string()
}

fn done() -> String {
    "[DONE]".to_owned()
}

fn call(index: usize, id: &str, name: &str, arguments: &str) -> Value {
    json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn more(index: usize, arguments: &str) -> Value {
    json!({"index": index, "function": {"arguments": arguments}})
}

#[track_caller]
fn check(output: &crate::model_server::ModelOutput, expected: &str) {
    assert_eq!(output.summary(), expected);
}

#[tokio::test]
async fn request_matches_chat_api() {
    let provider =
        FakeProvider::with_events(&[delta(json!({"content": "hi"})), end("stop"), done()]).await;
    check(&provider.ask(CHAT).await, "text hi | = hi | End");
    let requests = provider.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    for line in [
        "authorization: Bearer sk-test-0123456789",
        "accept: text/event-stream",
        "content-type: application/json",
        "x-title: zero",
    ] {
        assert!(head.lines().any(|header| header == line), "{line} in {head}");
    }
    let expected = json!({
        "model": "scripted",
        "messages": [{"role": "user", "content": "hello"}],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
}

#[tokio::test]
async fn stream_split_at_every_byte_is_decoded() {
    let events = [
        delta(json!({"reasoning_content": "größer?"})),
        delta(json!({"content": "Grüße 🦀 "})),
        delta(json!({"content": "日本"})),
        delta(json!({"tool_calls": [call(0, "a", "Read", "{\"pa")]})),
        delta(json!({"tool_calls": [more(0, "th\":\"é🦀\"}")]})),
        end("tool_calls"),
        json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}).to_string(),
        done(),
    ];
    let provider = FakeProvider::start(vec![byte_stream_reply(&events)]).await;
    let output = provider.ask(CHAT).await;
    check(
        &output,
        "thought größer? | text Grüße 🦀  | text 日本 | tool a Read | = (größer?) | = Grüße 🦀 日本 | = a Read{\"path\":\"é🦀\"} | ToolUse",
    );
    assert_eq!(output.end.unwrap().usage.input_tokens, 5);
}

/// Each chunk ends within a character and is read before the next one is written.
#[tokio::test]
async fn character_split_across_chunks_is_joined() {
    // Written without serde, so that its escaping cannot make the test pass.
    let events = ["ä", "🦀", "é"]
        .map(|text| format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#));
    let whole = sse(&[events.as_slice(), &[end("stop"), done()]].concat()).into_bytes();
    let cuts: Vec<usize> = ["ä", "🦀", "é"]
        .iter()
        .map(|letter| {
            let letter = letter.as_bytes();
            whole.windows(letter.len()).position(|at| at == letter).unwrap() + 1
        })
        .collect();
    let pieces =
        [&whole[..cuts[0]], &whole[cuts[0]..cuts[1]], &whole[cuts[1]..cuts[2]], &whole[cuts[2]..]];
    let mut script = vec![[STREAM_HEAD.as_bytes(), &chunk(pieces[0])].concat()];
    script.extend(pieces[1..].iter().map(|piece| chunk(piece)));
    let provider = FakeProvider::start(vec![ServerReply::Chunks(script, ReplyPace::Stepped)]).await;
    let mut stream = provider.model(CHAT).stream(request(), CancellationToken::new());
    for expected in ["ä", "🦀", "é"] {
        provider.release_next();
        let event = stream.next().await.unwrap().unwrap();
        assert_eq!(event, ModelEvent::Text(expected.to_owned()));
    }
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Done(_)))));
}

#[tokio::test]
async fn calls_arrive_as_model_wrote_them() {
    let events = [
        delta(
            json!({"tool_calls": [call(0, "a", "NoSuchTool", "{\"x\":"), call(1, "b", "Read", "{oops")]}),
        ),
        delta(json!({"tool_calls": [more(0, "1}")]})),
        end("tool_calls"),
        done(),
    ];
    let provider = FakeProvider::with_events(&events).await;
    check(
        &provider.ask(CHAT).await,
        "tool a NoSuchTool | tool b Read | = a NoSuchTool{\"x\":1} | = b Read?{oops | ToolUse",
    );
}

#[tokio::test]
async fn hundred_calls_keep_order_and_arguments() {
    let begun = (0..100).map(|index| call(index, &format!("c{index}"), "Read", ""));
    let mut events = vec![delta(json!({"tool_calls": begun.collect::<Vec<_>>()}))];
    // The ends come in a different order than the beginnings.
    for index in (0..100).rev() {
        events.push(delta(json!({"tool_calls": [more(index, "{\"n\"")]})));
    }
    for index in 0..100 {
        events.push(delta(json!({"tool_calls": [more(index, &format!(":{index}}}"))]})));
    }
    events.extend([end("tool_calls"), done()]);
    let provider = FakeProvider::with_events(&events).await;
    let begun = (0..100).map(|index| format!("tool c{index} Read | "));
    let made = (0..100).map(|index| format!("= c{index} Read{{\"n\":{index}}} | "));
    let expected: String = begun.chain(made).chain(["ToolUse".to_owned()]).collect();
    check(&provider.ask(CHAT).await, &expected);
}

#[tokio::test]
async fn mid_stream_error_ends_reply_without_retry() {
    let error = json!({"error": {"message": "The server had an error", "type": "server_error"}});
    let provider =
        FakeProvider::with_events(&[delta(json!({"content": "I th"})), error.to_string()]).await;
    check(
        &provider.ask(CHAT).await,
        "text I th | server: the provider reported an error: The server had an error",
    );
    assert_eq!(provider.requests().len(), 1);
}

#[tokio::test]
async fn content_filter_is_refusal() {
    let provider = FakeProvider::with_events(&[
        delta(json!({"content": "Well"})),
        end("content_filter"),
        done(),
    ])
    .await;
    check(
        &provider.ask(CHAT).await,
        "text Well | = Well | Refusal(\"the provider's content filter stopped the answer\")",
    );
    let body = json!({"error": {"message": "triggered content management policy", "code": "content_filter"}});
    let refused = crate::model_server::immediate_reply(
        "400 Bad Request",
        "content-type: application/json\r\n",
        &body.to_string(),
    );
    let provider = FakeProvider::start(vec![refused]).await;
    assert_eq!(provider.ask(CHAT).await.error().kind.as_str(), "refusal");
}
