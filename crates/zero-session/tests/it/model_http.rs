//! Behaviour common to all protocols: retries, cancellation, limits, and use of the key.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use zero_session::model::catalog::{ApiKey, ModelApi, ModelConfig, open_model_with_limits};
use zero_session::model::{
    ModelError, ModelErrorKind, ModelEvent, ModelHttpLimits, ModelRequest, RetryLimits,
};

use crate::model_server::{
    FakeProvider, KEY, ModelOutput, ReplyPace, STREAM_HEAD, ServerReply, chunk, collect_output,
    immediate_reply, request, response, short_limits, sse, stream_reply,
};

const CHAT: ModelApi = ModelApi::OpenAiChat;
const JSON: &str = "content-type: application/json\r\n";

fn hello_event() -> String {
    r#"{"choices":[{"delta":{"content":"hi"}}]}"#.to_owned()
}

fn stop_event() -> String {
    r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#.to_owned()
}

fn good_reply() -> ServerReply {
    stream_reply(&[hello_event(), stop_event(), "[DONE]".to_owned()])
}

/// A stream that begins with these events and breaks off.
fn broken_reply_after(events: &[String]) -> ServerReply {
    let bytes = [STREAM_HEAD.as_bytes(), &chunk(sse(events).as_bytes())].concat();
    ServerReply::Chunks(vec![bytes], ReplyPace::Free)
}

async fn check(answers: Vec<ServerReply>, expected: &str) {
    let count = answers.len();
    let provider = FakeProvider::start(answers).await;
    let output = provider.ask(CHAT).await;
    assert_eq!(output.summary().replace(&provider.origin, "ORIGIN"), expected);
    assert!(provider.requests().len() <= count);
}

#[tokio::test]
async fn transient_failure_is_retried() {
    let slow_down = immediate_reply("429 Too Many Requests", "retry-after: 0\r\n", "slow down");
    check(vec![slow_down.clone(), good_reply()], "retry rate_limit #1 | text hi | = hi | End")
        .await;
    let failed = immediate_reply("500 Internal Server Error", "", "oops");
    let overloaded = immediate_reply("529 Overloaded", "", "");
    check(
        vec![failed.clone(), overloaded, good_reply()],
        "retry server #1 | retry server #2 | text hi | = hi | End",
    )
    .await;
    check(vec![ServerReply::Drop, good_reply()], "retry network #1 | text hi | = hi | End").await;
    // Neither a response head nor an empty event counts as content.
    let nothing = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#.to_owned();
    check(
        vec![broken_reply_after(&[nothing]), good_reply()],
        "retry network #1 | text hi | = hi | End",
    )
    .await;
    check(
        vec![failed; 5],
        "retry server #1 | retry server #2 | retry server #3 | retry server #4 | server: `test/scripted`: ORIGIN failed (HTTP 500): oops; try again later, or choose another model; tried 5 times",
    )
    .await;
}

#[tokio::test]
async fn provider_retry_delay_is_honored() {
    let slow_down = immediate_reply("429 Too Many Requests", "retry-after-ms: 30\r\n", "");
    let provider = FakeProvider::start(vec![slow_down, good_reply()]).await;
    let output = provider.ask(CHAT).await;
    let Some(ModelEvent::Retrying { after, error, .. }) = output.events.first() else { panic!() };
    assert_eq!((*after, error.retry_after), (Duration::from_millis(30), Some(*after)));
    let tomorrow = immediate_reply("429 Too Many Requests", "retry-after: 80000\r\n", "");
    let expected = "rate_limit: `test/scripted`: ORIGIN has reached its rate limit (HTTP 429); wait, or choose another model; try again in 23 h";
    check(vec![tomorrow, good_reply()], expected).await;
}

#[tokio::test]
async fn partly_shown_reply_is_never_retried() {
    let provider =
        FakeProvider::start(vec![broken_reply_after(&[hello_event()]), good_reply()]).await;
    let output = provider.ask(CHAT).await;
    assert_eq!((output.text().as_str(), output.error().kind), ("hi", ModelErrorKind::Network));
    assert!(output.error().message.contains("the connection broke in mid-answer"));
    assert_eq!(provider.requests().len(), 1);
    // After a complete reply the provider may close the connection in any way.
    check(vec![broken_reply_after(&[hello_event(), stop_event()])], "text hi | = hi | End").await;
    // A truncated event is ignored.
    let cut = [
        STREAM_HEAD.as_bytes(),
        &chunk(format!("{}data: {{\"cho", sse(&[hello_event()])).as_bytes()),
        b"0\r\n\r\n",
    ]
    .concat();
    check(
        vec![ServerReply::Chunks(vec![cut], ReplyPace::Free)],
        "text hi | network: the connection broke in mid-answer; send the message again",
    )
    .await;
}

#[tokio::test]
async fn permanent_failure_is_not_retried() {
    let wrong_key =
        immediate_reply("401 Unauthorized", JSON, r#"{"error":{"message":"no such key"}}"#);
    check(
        vec![wrong_key, good_reply()],
        "auth: `test/scripted`: ORIGIN does not accept the key (HTTP 401): no such key; check `models.test.apiKey` in your settings",
    )
    .await;
    let long = immediate_reply(
        "400 Bad Request",
        JSON,
        r#"{"error":{"code":"context_length_exceeded","message":"too long"}}"#,
    );
    check(
        vec![long, good_reply()],
        "context_length: the conversation is longer than `test/scripted` can take (HTTP 400): too long; shorten it with /compact",
    )
    .await;
    let poor = immediate_reply(
        "429 Too Many Requests",
        JSON,
        r#"{"error":{"code":"insufficient_quota","message":"no money"}}"#,
    );
    check(
        vec![poor, good_reply()],
        "rate_limit: `test/scripted`: there is no credit left at ORIGIN (HTTP 429): no money; look at your plan there, or choose another model",
    )
    .await;
}

#[tokio::test]
async fn non_stream_response_is_explained() {
    let page = immediate_reply(
        "200 OK",
        "content-type: text/html; charset=utf-8\r\n",
        "<html>Log in</html>",
    );
    check(
        vec![page, good_reply()],
        "server: `test/scripted`: ORIGIN answers with a web page; look at its base URL, and at proxies in between",
    )
    .await;
    let error = immediate_reply(
        "200 OK",
        JSON,
        r#"{"error":{"message":"no such model","code":"model_not_found"}}"#,
    );
    check(
        vec![error, good_reply()],
        "invalid_request: ORIGIN knows no model `scripted`: no such model; name another one, such as `test/…`, with `--model` or in ZERO_MODEL",
    )
    .await;
    let whole = immediate_reply("200 OK", JSON, r#"{"choices":[{"message":{"content":"hi"}}]}"#);
    check(
        vec![whole, good_reply()],
        "server: `test/scripted`: ORIGIN answers all at once; it must be able to stream",
    )
    .await;
}

#[tokio::test]
async fn cancel_closes_connection_at_once() {
    let begun = [STREAM_HEAD.as_bytes(), &chunk(sse(&[hello_event()]).as_bytes())].concat();
    // In the middle of a reply; after the head; before the head.
    for (bytes, has_text) in [(begun, true), (STREAM_HEAD.into(), false), (Vec::new(), false)] {
        let provider = FakeProvider::start(vec![ServerReply::Hang(bytes)]).await;
        let cancel = CancellationToken::new();
        let mut stream = provider.model(CHAT).stream(request(), cancel.clone());
        if has_text {
            assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
        }
        let waiting = tokio::spawn(async move { (stream.next().await, stream) });
        provider.wait_for_request().await;
        cancel.cancel();
        let (error, mut stream) = waiting.await.unwrap();
        assert_eq!(error.unwrap().unwrap_err().kind, ModelErrorKind::Cancelled);
        // The stream still exists, but its connection is closed.
        provider.wait_for_disconnect().await;
        assert!(stream.next().await.is_none());
    }
}

#[tokio::test]
async fn cancel_before_request_sends_nothing() {
    let provider = FakeProvider::start(vec![good_reply()]).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut stream = provider.model(CHAT).stream(request(), cancel);
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Cancelled);
    assert!(provider.requests().is_empty());
}

#[tokio::test]
async fn echoed_key_is_redacted() {
    let body = format!(r#"{{"error":{{"message":"bad key {KEY}"}}}}"#);
    // The shortened text must not end within the key either.
    let long = format!(r#"{{"error":{{"message":"{}{KEY}"}}}}"#, "x".repeat(390));
    let in_stream = format!(r#"{{"error":{{"message":"{KEY} is wrong"}}}}"#);
    let in_text = format!(r#"{{"choices":[{{"delta":{{"content":"you are {KEY}"}}}}]}}"#);
    let location = format!("location: https://{KEY}.example/\r\n");
    let media_type = format!("content-type: {KEY}\r\n");
    let answers = [
        immediate_reply("401 Unauthorized", JSON, &body),
        immediate_reply("401 Unauthorized", JSON, &long),
        immediate_reply("200 OK", JSON, &body),
        immediate_reply("401 Unauthorized", "", KEY),
        immediate_reply("307 Temporary Redirect", &location, ""),
        immediate_reply("200 OK", &media_type, ""),
        stream_reply(&[hello_event(), in_stream]),
        stream_reply(&[in_text, stop_event()]),
    ];
    for answer in answers {
        let provider = FakeProvider::start(vec![answer]).await;
        let ModelOutput { events, end } = provider.ask(CHAT).await;
        let shown = format!("{events:?} {end:?}");
        assert!(!shown.contains("sk-test"), "{shown}");
        assert!(shown.contains("[hidden]") || shown.contains("redirects to elsewhere"), "{shown}");
        assert!(provider.requests()[0].contains(KEY));
    }
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = format!("http://{}", other.local_addr().unwrap());
    for status in
        ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"]
    {
        let redirect = immediate_reply(status, &format!("location: {to}/v1/chat\r\n"), "");
        let expected = format!(
            "invalid_request: `test/scripted`: ORIGIN redirects to {to}, where no key is sent; if that is right, change the model's base URL"
        );
        check(vec![redirect], &expected).await;
    }
    let visit = tokio::time::timeout(Duration::ZERO, other.accept()).await;
    assert!(visit.is_err(), "somebody went there");
}

#[tokio::test]
async fn response_size_is_bounded() {
    async fn check_refused(limits: ModelHttpLimits, answer: ServerReply) -> String {
        let provider = FakeProvider::start(vec![answer, good_reply()]).await;
        let output =
            collect_output(open_model_with_limits(limits, provider.config(CHAT)).unwrap()).await;
        assert_eq!(provider.requests().len(), 1, "it was asked again");
        assert_eq!(output.error().kind, ModelErrorKind::Server);
        output.error().message.replace(&provider.origin, "ORIGIN")
    }
    let limits =
        ModelHttpLimits { event_bytes_max: 1000, answer_bytes_max: 5000, ..short_limits() };
    let giant = format!(r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "x".repeat(2000));
    assert_eq!(
        check_refused(limits, stream_reply(&[giant])).await,
        "`test/scripted`: ORIGIN sent an event of more than 1000 bytes, which is not read further"
    );
    let endless = vec![hello_event(); 200];
    assert_eq!(
        check_refused(limits, stream_reply(&endless)).await,
        "`test/scripted`: ORIGIN sent an answer of more than 5000 bytes, which is not read further"
    );
    // A line without end, and an error body of one megabyte.
    let endless_line = [STREAM_HEAD.as_bytes(), &chunk(&vec![b'x'; 17 << 20])].concat();
    let message = check_refused(short_limits(), ServerReply::Hang(endless_line.clone())).await;
    assert!(message.contains("more than 16777216 bytes"), "{message}");
    let long = response("400 Bad Request", "", &"x".repeat(1 << 20));
    let provider =
        FakeProvider::start(vec![ServerReply::Chunks(vec![long], ReplyPace::Free)]).await;
    let error = provider.ask(CHAT).await.end.unwrap_err();
    assert!(error.message.len() < 1000, "{}", error.message.len());
}

#[tokio::test]
async fn silent_provider_times_out() {
    let short = Duration::from_millis(100);
    let once = ModelHttpLimits {
        retry: RetryLimits { attempts_max: 1, ..short_limits().retry },
        ..short_limits()
    };
    let begun = [STREAM_HEAD.as_bytes(), &chunk(sse(&[hello_event()]).as_bytes())].concat();
    let rows = [
        (ModelHttpLimits { head_time: short, ..once }, vec![], "began no answer within 0.1 s"),
        (
            ModelHttpLimits { idle_time: short, ..once },
            begun.clone(),
            "sent nothing more within 0.1 s",
        ),
        (
            ModelHttpLimits { answer_time: short, ..once },
            begun,
            "did not end its answer within 0.1 s",
        ),
    ];
    for (limits, bytes, expected) in rows {
        let provider = FakeProvider::start(vec![ServerReply::Hang(bytes)]).await;
        let output =
            collect_output(open_model_with_limits(limits, provider.config(CHAT)).unwrap()).await;
        let origin = &provider.origin;
        assert_eq!(output.error().message, format!("`test/scripted`: {origin} {expected}"));
        assert_eq!(output.error().kind, ModelErrorKind::Timeout);
        provider.wait_for_disconnect().await;
    }
}

#[tokio::test]
async fn key_is_never_sent_unencrypted() {
    let provider = FakeProvider::start(vec![]).await;
    // Nothing listens at these addresses: requests must be refused before they are sent.
    let config =
        ModelConfig { base_url: "http://192.0.2.1/v1".to_owned(), ..provider.config(CHAT) };
    let expected = "`test/scripted`: http://192.0.2.1 is not encrypted, so the key is not sent there; use https, or configure the model without a key";
    let error = collect_output(open_model_with_limits(short_limits(), config.clone()).unwrap())
        .await
        .end
        .unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ModelErrorKind::InvalidRequest, expected));
    let header = ("Authorization".to_owned(), format!("Bearer {KEY}"));
    let config = ModelConfig { key: None, headers: vec![header], ..config };
    let error = collect_output(open_model_with_limits(short_limits(), config).unwrap())
        .await
        .end
        .unwrap_err();
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn unusable_key_error_does_not_show_key() {
    let provider = FakeProvider::start(vec![]).await;
    let missing = || Err(ModelError::new(ModelErrorKind::Auth, "the file with the key is gone"));
    let config = ModelConfig { key: Some(Arc::new(missing)), ..provider.config(CHAT) };
    let error = collect_output(open_model_with_limits(short_limits(), config).unwrap())
        .await
        .end
        .unwrap_err();
    assert_eq!(error.message, "the file with the key is gone");
    let broken = ModelConfig {
        key: Some(Arc::new(|| Ok(ApiKey::new("two\nlines")))),
        ..provider.config(CHAT)
    };
    let error = collect_output(open_model_with_limits(short_limits(), broken).unwrap())
        .await
        .end
        .unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Auth);
    assert_eq!(
        error.message,
        "the key of `test/scripted` holds characters that no key has; check `models.test.apiKey` in your settings"
    );
}

#[tokio::test]
async fn unreachable_server_error_suggests_check() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let provider = FakeProvider::start(vec![]).await;
    let config = ModelConfig { base_url: origin.clone(), ..provider.config(CHAT) };
    let output = collect_output(open_model_with_limits(short_limits(), config).unwrap()).await;
    let error = output.error();
    assert_eq!(error.kind, ModelErrorKind::Network);
    assert!(
        error.message.starts_with(&format!("`test/scripted`: {origin} could not be reached: ")),
        "{error}"
    );
    assert!(
        error.message.ends_with("; check that the server is running there; tried 5 times"),
        "{error}"
    );
    assert_eq!(output.events.len(), 4);
}

#[tokio::test]
async fn images_are_left_out_for_text_only_model() {
    let provider = FakeProvider::start(vec![good_reply(), good_reply()]).await;
    let ask = |takes_images: bool| {
        let config = ModelConfig { takes_images: Some(takes_images), ..provider.config(CHAT) };
        let mut request = request();
        let image = zero_session::message::MessageBlock::Image {
            mime: "image/png".into(),
            data: "PICTURE".into(),
        };
        std::sync::Arc::make_mut(&mut request.messages[0]).blocks.push(image);
        open_model_with_limits(short_limits(), config)
            .unwrap()
            .stream(request, CancellationToken::new())
            .collect::<Vec<_>>()
    };
    assert!(ask(false).await.iter().all(Result::is_ok));
    assert!(ask(true).await.iter().all(Result::is_ok));
    let requests = provider.requests();
    assert!(!requests[0].contains("PICTURE") && requests[0].contains("[image omitted: "));
    assert!(requests[1].contains("data:image/png;base64,PICTURE"));
}

#[tokio::test]
async fn cost_is_counted_and_output_bounded() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":1000000,"completion_tokens":1000000}}"#;
    let answer =
        stream_reply(&[hello_event(), stop_event(), usage.to_owned(), "[DONE]".to_owned()]);
    let provider = FakeProvider::start(vec![answer]).await;
    let config = ModelConfig { id: "gpt-4.1".into(), ..provider.config(CHAT) };
    let model = open_model_with_limits(short_limits(), config).unwrap();
    let request = ModelRequest { output_tokens_max: Some(u64::MAX), ..request() };
    let last = model.stream(request, CancellationToken::new()).collect::<Vec<_>>().await.pop();
    let Some(Ok(ModelEvent::Done(reply))) = last else { panic!("{last:?}") };
    assert_eq!(reply.usage.cost_usd, Some(10.0));
    assert!(provider.requests()[0].contains(r#""max_tokens":32768"#));
}
