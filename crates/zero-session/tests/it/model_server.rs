//! A scripted provider: raw bytes on loopback, which can be split anywhere.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use zero_session::message::{MessageBlock, ModelMessage, ToolInput};
use zero_session::model::catalog::{ApiKey, ModelApi, ModelConfig, open_model_with_limits};
use zero_session::model::{
    ModelClient, ModelError, ModelEvent, ModelHttpLimits, ModelReply, ModelRequest, RetryLimits,
};

/// The key that clients send.
pub(crate) const KEY: &str = "sk-test-0123456789";

/// Time limit for expected events.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the provider does with one connection after it has read the request.
#[derive(Clone)]
pub(crate) enum ServerReply {
    /// Writes these chunks and closes the connection. With [`ReplyPace::Stepped`], each chunk but
    /// the first waits for [`FakeProvider::release_next`].
    Chunks(Vec<Vec<u8>>, ReplyPace),
    /// Writes this and waits until the client closes the connection.
    Hang(Vec<u8>),
    /// Closes the connection without a response.
    Drop,
}

/// When the next chunk is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyPace {
    /// Immediately.
    Free,
    /// When the test releases it, after the client has read all earlier chunks.
    Stepped,
}

/// The provider.
pub(crate) struct FakeProvider {
    /// Its origin.
    pub(crate) origin: String,
    requests: Arc<Mutex<Vec<String>>>,
    steps: Arc<Semaphore>,
    was_asked: CancellationToken,
    hung_up: CancellationToken,
    stop: CancellationToken,
}

impl FakeProvider {
    /// Answers each connection with the next reply, then stops.
    pub(crate) async fn start(answers: Vec<ServerReply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Self {
            origin: format!("http://{}", listener.local_addr().unwrap()),
            requests: Arc::default(),
            steps: Arc::new(Semaphore::new(0)),
            was_asked: CancellationToken::new(),
            hung_up: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        let connections = FakeConnections {
            requests: provider.requests.clone(),
            steps: provider.steps.clone(),
            was_asked: provider.was_asked.clone(),
            hung_up: provider.hung_up.clone(),
        };
        let stop = provider.stop.clone();
        tokio::spawn(async move {
            for answer in answers {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = stop.cancelled() => return,
                };
                let (stream, _) = accepted.unwrap();
                stream.set_nodelay(true).unwrap();
                connections.serve(stream, answer).await;
            }
        });
        provider
    }

    /// A provider that answers once, with an event stream.
    pub(crate) async fn with_events(events: &[String]) -> Self {
        Self::start(vec![stream_reply(events)]).await
    }

    /// The received requests: heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Releases the next chunk.
    pub(crate) fn release_next(&self) {
        self.steps.add_permits(1);
    }

    /// Waits for a request.
    pub(crate) async fn wait_for_request(&self) {
        let waited = tokio::time::timeout(PATIENCE, self.was_asked.cancelled()).await;
        waited.expect("nobody asked");
    }

    /// Waits until the client has closed its connection.
    pub(crate) async fn wait_for_disconnect(&self) {
        let waited = tokio::time::timeout(PATIENCE, self.hung_up.cancelled()).await;
        waited.expect("the connection is still open");
    }

    /// The configuration of its model.
    pub(crate) fn config(&self, api: ModelApi) -> ModelConfig {
        ModelConfig {
            name: "test/scripted".to_owned(),
            id: "scripted".to_owned(),
            api,
            base_url: format!("{}/v1", self.origin),
            key: Some(Arc::new(|| Ok(ApiKey::new(KEY)))),
            headers: vec![("x-title".to_owned(), "zero".to_owned())],
            context_window: None,
            output_tokens_max: None,
            takes_images: None,
            prices: None,
            fallback: Vec::new(),
            is_trial: false,
        }
    }

    /// Its model, with short delays.
    pub(crate) fn model(&self, api: ModelApi) -> Arc<dyn ModelClient> {
        open_model_with_limits(short_limits(), self.config(api)).unwrap()
    }

    /// Sends a request and collects the output.
    pub(crate) async fn ask(&self, api: ModelApi) -> ModelOutput {
        collect_output(self.model(api)).await
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct FakeConnections {
    requests: Arc<Mutex<Vec<String>>>,
    steps: Arc<Semaphore>,
    was_asked: CancellationToken,
    hung_up: CancellationToken,
}

impl FakeConnections {
    async fn serve(&self, mut stream: TcpStream, answer: ServerReply) {
        if matches!(answer, ServerReply::Drop) {
            return;
        }
        let Some(request) = read_request(&mut stream).await else {
            self.hung_up.cancel();
            return;
        };
        self.requests.lock().unwrap().push(request);
        self.was_asked.cancel();
        match answer {
            ServerReply::Drop => {}
            ServerReply::Chunks(pieces, pace) => {
                for (index, piece) in pieces.iter().enumerate() {
                    if pace == ReplyPace::Stepped && index > 0 {
                        self.steps.acquire().await.unwrap().forget();
                    }
                    // The client may already have closed the connection.
                    if stream.write_all(piece).await.is_err() {
                        return;
                    }
                }
            }
            ServerReply::Hang(bytes) => {
                // The client may close the connection before it has read everything.
                if stream.write_all(&bytes).await.is_ok() {
                    while let Ok(1..) = stream.read(&mut [0; 1024]).await {}
                }
                self.hung_up.cancel();
            }
        }
    }
}

/// Reads a request; `None` if the client closes the connection before it is complete.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let read = stream.read_buf(&mut bytes).await.ok().filter(|read| *read > 0);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        read?;
    }
}

/// A complete HTTP response.
pub(crate) fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// A complete HTTP response, written at once.
pub(crate) fn immediate_reply(status: &str, headers: &str, body: &str) -> ServerReply {
    ServerReply::Chunks(vec![response(status, headers, body)], ReplyPace::Free)
}

/// The head of a stream that ends with the connection or a final chunk.
pub(crate) const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk of a stream.
pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Events as bytes.
pub(crate) fn sse(events: &[String]) -> String {
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

/// A complete stream of these events.
pub(crate) fn stream_reply(events: &[String]) -> ServerReply {
    let body = chunk(sse(events).as_bytes());
    ServerReply::Chunks(vec![STREAM_HEAD.into(), body, b"0\r\n\r\n".to_vec()], ReplyPace::Free)
}

/// A complete stream of these events, in chunks of one byte.
pub(crate) fn byte_stream_reply(events: &[String]) -> ServerReply {
    let mut pieces = vec![STREAM_HEAD.into()];
    pieces.extend(sse(events).as_bytes().iter().map(|byte| chunk(&[*byte])));
    pieces.push(b"0\r\n\r\n".to_vec());
    ServerReply::Chunks(pieces, ReplyPace::Free)
}

/// The default limits with very short delays.
pub(crate) fn short_limits() -> ModelHttpLimits {
    ModelHttpLimits {
        retry: RetryLimits { pause_first: Duration::from_millis(1), ..RetryLimits::default() },
        ..ModelHttpLimits::default()
    }
}

/// A request with one word.
pub(crate) fn request() -> ModelRequest {
    ModelRequest { messages: vec![ModelMessage::user("hello").into()], ..ModelRequest::default() }
}

/// The complete output of a model.
pub(crate) struct ModelOutput {
    pub(crate) events: Vec<ModelEvent>,
    pub(crate) end: Result<ModelReply, ModelError>,
}

/// Sends a request to a model and collects its output.
pub(crate) async fn collect_output(model: Arc<dyn ModelClient>) -> ModelOutput {
    let mut stream = model.stream(request(), CancellationToken::new());
    let mut events = Vec::new();
    loop {
        let next = tokio::time::timeout(PATIENCE, stream.next()).await;
        match next.expect("the model says nothing").expect("a stream ends with its end") {
            Ok(ModelEvent::Done(reply)) => {
                assert!(stream.next().await.is_none());
                return ModelOutput { events, end: Ok(reply) };
            }
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(stream.next().await.is_none());
                return ModelOutput { events, end: Err(error) };
            }
        }
    }
}

impl ModelOutput {
    /// The streamed text.
    pub(crate) fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            ModelEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Short form: events, then blocks and the stop reason, or the error.
    pub(crate) fn summary(&self) -> String {
        let mut lines: Vec<String> = self.events.iter().map(event_line).collect();
        match &self.end {
            Ok(reply) => {
                lines.extend(reply.blocks.iter().map(block_line));
                lines.push(format!("{:?}", reply.stop));
            }
            Err(error) => lines.push(format!("{}: {}", error.kind.as_str(), error.message)),
        }
        lines.join(" | ")
    }

    /// The error.
    #[track_caller]
    pub(crate) fn error(&self) -> &ModelError {
        self.end.as_ref().unwrap_err()
    }
}

fn event_line(event: &ModelEvent) -> String {
    match event {
        ModelEvent::Text(text) => format!("text {text}"),
        ModelEvent::Thought(text) => format!("thought {text}"),
        ModelEvent::ToolUse { id, name } => format!("tool {id} {name}"),
        ModelEvent::Retrying { error, attempts, .. } => {
            format!("retry {} #{attempts}", error.kind.as_str())
        }
        ModelEvent::FellBack(fallback) => format!("fallback {}", fallback.to.name),
        ModelEvent::Done(_) => "done".to_owned(),
    }
}

fn block_line(block: &MessageBlock) -> String {
    match block {
        MessageBlock::Text { text } => format!("= {text}"),
        MessageBlock::Thinking { text, .. } => format!("= ({text})"),
        MessageBlock::ToolUse { id, name, input: ToolInput::Json(input), .. } => {
            format!("= {id} {name}{input}")
        }
        MessageBlock::ToolUse {
            id, name, input: ToolInput::Unreadable { unreadable, .. }, ..
        } => {
            format!("= {id} {name}?{unreadable}")
        }
        MessageBlock::Image { .. } | MessageBlock::ToolResult { .. } => format!("{block:?}"),
    }
}
