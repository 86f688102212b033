//! The server over HTTP: access, both protocols, and shutdown.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zero_mcp::server::{McpHttpConfig, McpServiceConfig, McpServiceError, serve_http};

use crate::server_fixture::{
    ApprovalSource, PATIENCE, ServerFixture, SleepCommand, stateless_params,
};

const TOKEN: &str = "0123456789abcdef";

struct TestHttpServer {
    address: SocketAddr,
    stop: CancellationToken,
    served: JoinHandle<Result<(), McpServiceError>>,
}

/// The parts of a response that tests check.
#[derive(Debug)]
struct TestHttpReply {
    status: u16,
    head: String,
    body: String,
}

impl TestHttpReply {
    /// The JSON of the body, or of the last event of its stream.
    fn json(&self) -> Value {
        let mut lines = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let event = lines.rfind(|line| line.starts_with('{'));
        let text = event.unwrap_or_else(|| &self.body[self.body.find('{').unwrap()..]);
        let text = &text[..=text.rfind('}').unwrap()];
        serde_json::from_str(text).unwrap()
    }

    fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .filter(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.to_owned())
            .next()
    }
}

impl TestHttpServer {
    async fn start(fixture: &ServerFixture, set_up: impl FnOnce(&mut McpHttpConfig)) -> Self {
        Self::start_with(fixture.config(), set_up).await
    }

    async fn start_with(config: McpServiceConfig, set_up: impl FnOnce(&mut McpHttpConfig)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut http = McpHttpConfig::new(listener, TOKEN);
        set_up(&mut http);
        let stop = http.stop.clone();
        let served = tokio::spawn(serve_http(config, http));
        Self { address, stop, served }
    }

    async fn open(&self, head: &[(&str, &str)], first: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let mut text =
            format!("{first} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in head {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).await.unwrap();
        stream
    }

    async fn exchange(&self, head: &[(&str, &str)], first: &str, body: &str) -> TestHttpReply {
        let mut stream = self.open(head, first, body).await;
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        let _ = tokio::time::timeout(PATIENCE, read).await.expect("no reply");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        TestHttpReply { status, head: head.to_owned(), body: body.to_owned() }
    }

    async fn post(&self, extra: &[(&str, &str)], message: &Value) -> TestHttpReply {
        let bearer = format!("Bearer {TOKEN}");
        let mut head = vec![
            ("host", "127.0.0.1"),
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        head.extend(extra);
        self.exchange(&head, "POST /mcp", &message.to_string()).await
    }

    async fn stop(self) -> Duration {
        let begun = Instant::now();
        self.stop.cancel();
        self.served.await.unwrap().unwrap();
        begun.elapsed()
    }
}

fn request_message(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn initialize_message() -> Value {
    request_message(
        "initialize",
        json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }),
    )
}

#[tokio::test]
async fn unauthorized_requests_are_refused() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let server = TestHttpServer::start(&fixture, |_| {}).await;
    let bearer = format!("Bearer {TOKEN}");
    let token = ("authorization", bearer.as_str());
    let host = ("host", "localhost:1");
    for (head, first, status) in [
        (vec![("host", "evil.example"), token], "POST /mcp", 403),
        (vec![host, token, ("origin", "http://evil.example")], "POST /mcp", 403),
        (vec![host, token, ("origin", "null")], "GET /mcp", 403),
        (vec![host], "POST /mcp", 401),
        (vec![host, ("authorization", "Bearer 0123456789abcdeg")], "POST /mcp", 401),
        (vec![host, token], "POST http://evil.example/mcp", 403),
        (vec![host, token], "GET /", 404),
        (vec![host, token], "GET /mcp/x", 404),
        (vec![host, token], "PUT /mcp", 405),
        (vec![host, token], "POST /mcp", 406),
    ] {
        let reply = server.exchange(&head, first, "").await;
        assert_eq!(reply.status, status, "{first} {head:?}: {reply:?}");
        let challenge = reply.header("www-authenticate");
        assert_eq!(challenge.is_some(), status == 401, "{reply:?}");
    }
    let reply = server.post(&[("origin", "http://localhost:5173")], &initialize_message()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    server.stop().await;
}

#[tokio::test]
async fn oversized_or_slow_request_is_refused() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let server = TestHttpServer::start(&fixture, |http| http.limits.body_bytes_max = 1_000).await;
    let long = request_message("tools/list", json!({"x": "y".repeat(2_000)}));
    assert_eq!(server.post(&[], &long).await.status, 413);
    let mut deep = json!(0);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    assert_eq!(
        server.post(&[], &request_message("tools/list", json!({"x": deep}))).await.status,
        400
    );
    server.stop().await;
    let short = Duration::from_millis(100);
    let server = TestHttpServer::start(&fixture, |http| http.limits.body_time = short).await;
    let bearer = format!("Bearer {TOKEN}");
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\ncontent-length: 9\r\n\r\n"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    slow.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 408"), "{text}");
    server.stop().await;
    let server = TestHttpServer::start(&fixture, |http| http.limits.head_time = short).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, silent.read_to_end(&mut bytes)).await;
    assert!(read.is_ok(), "whoever says nothing is sent away");
    server.stop().await;
}

#[tokio::test]
async fn handshake_client_has_a_session() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    fixture.write_file("a.txt", "one\n");
    let server = TestHttpServer::start(&fixture, |_| {}).await;
    let reply = server.post(&[], &initialize_message()).await;
    assert_eq!(reply.json()["result"]["protocolVersion"], "2025-11-25", "{reply:?}");
    let session = reply.header("mcp-session-id").unwrap();
    let session = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.post(&session, &initialized).await.status, 202);
    let call = |tool: &str, arguments: Value| {
        request_message("tools/call", json!({"name": tool, "arguments": arguments}))
    };
    let reply = server.post(&session, &call("Read", json!({"file_path": "a.txt"}))).await;
    assert_eq!(reply.json()["result"]["content"][0]["text"], "     1\tone", "{reply:?}");
    let over = json!({"file_path": "a.txt", "content": "two"});
    // Another client has not read the file.
    let other = server.post(&[], &initialize_message()).await.header("mcp-session-id").unwrap();
    let other = [("mcp-session-id", other.as_str())];
    let reply = server.post(&other, &call("Write", over.clone())).await;
    assert_eq!(reply.json()["result"]["isError"], true, "{reply:?}");
    let reply = server.post(&session, &call("Write", over)).await;
    assert_eq!(reply.json()["result"]["isError"], false, "{reply:?}");
    let unknown = [("mcp-session-id", "nobody")];
    assert_eq!(server.post(&unknown, &call("Read", json!({}))).await.status, 404);
    server.stop().await;
}

#[tokio::test]
async fn stateless_requests_are_answered_and_asked() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let server = TestHttpServer::start(&fixture, |_| {}).await;
    let head = |method: &'static str, name: &'static str| {
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)]
    };
    let list = request_message("tools/list", stateless_params(json!({}), json!({})));
    let reply = server.post(&head("tools/list", "")[..2], &list).await;
    let tools = reply.json()["result"]["tools"].as_array().unwrap().len();
    assert_eq!(tools, zero_tools::builtin_tools().len());
    let reply = server.post(&head("tools/call", "")[..2], &list).await;
    assert_eq!((reply.status, reply.json()["error"]["code"].clone()), (400, json!(-32020)));
    let write = json!({"name": "Write", "arguments": {"file_path": "a", "content": "x"}});
    let forms = json!({"elicitation": {"form": {}}});
    let call = request_message("tools/call", stateless_params(write.clone(), forms.clone()));
    let asked = server.post(&head("tools/call", "Write"), &call).await.json();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let mut again = write;
    again["requestState"] = asked["result"]["requestState"].clone();
    again["inputResponses"] =
        json!({"question": {"action": "accept", "content": {"answer": "allow_once"}}});
    let call = request_message("tools/call", stateless_params(again, forms));
    let done = server.post(&head("tools/call", "Write"), &call).await.json();
    assert_eq!(done["result"]["isError"], false, "{done}");
    assert!(fixture.path("a").exists());
    server.stop().await;
}

#[tokio::test]
async fn disconnect_stops_its_call_and_stop_ends_all() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let server = TestHttpServer::start(&fixture, |_| {}).await;
    let bearer = format!("Bearer {TOKEN}");
    let head = [
        ("host", "127.0.0.1"),
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "Bash"),
    ];
    let call = |sleep: &SleepCommand| {
        let call = json!({"name": "Bash", "arguments": {"command": sleep.command()}});
        request_message("tools/call", stateless_params(call, json!({}))).to_string()
    };
    let sleep = SleepCommand::new();
    let stream = server.open(&head, "POST /mcp", &call(&sleep)).await;
    sleep.wait_until_started().await;
    drop(stream);
    let took = sleep.wait_until_ended().await;
    assert!(took < PATIENCE, "{took:?}");
    let sleep = SleepCommand::new();
    let _stream = server.open(&head, "POST /mcp", &call(&sleep)).await;
    sleep.wait_until_started().await;
    let took = server.stop().await;
    assert!(took < PATIENCE, "{took:?}");
    assert!(!sleep.is_running());
}

#[tokio::test]
async fn client_beyond_session_limit_is_refused() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let mut config = fixture.config();
    config.limits.sessions_max = 1;
    let server = TestHttpServer::start_with(config, |_| {}).await;
    let first = server.post(&[], &initialize_message()).await;
    assert!(first.json()["result"].is_object(), "{first:?}");
    let second = server.post(&[], &initialize_message()).await;
    assert_eq!(second.json()["error"]["code"], -32603, "{second:?}");
    server.stop().await;
}

#[tokio::test]
async fn public_address_is_refused_by_default() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = serve_http(fixture.config(), McpHttpConfig::new(listener, TOKEN)).await;
    assert!(matches!(refused, Err(McpServiceError::OpenAddress(_))), "{refused:?}");
}

#[tokio::test]
async fn deleted_session_ends_its_calls_at_once() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let server = TestHttpServer::start(&fixture, |_| {}).await;
    let session = server.post(&[], &initialize_message()).await.header("mcp-session-id").unwrap();
    let bearer = format!("Bearer {TOKEN}");
    let head = [
        ("host", "127.0.0.1"),
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-session-id", session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(server.post(&head[4..], &initialized).await.status, 202);
    let sleep = SleepCommand::new();
    let call = json!({"name": "Bash", "arguments": {"command": sleep.command()}});
    let call = request_message("tools/call", call).to_string();
    let _stream = server.open(&head, "POST /mcp", &call).await;
    sleep.wait_until_started().await;
    let stranger = server.exchange(&[head[0], head[4]], "DELETE /mcp", "").await;
    assert_eq!(stranger.status, 401);
    assert!(sleep.is_running());
    let reply = server.exchange(&head, "DELETE /mcp", "").await;
    assert!((200..300).contains(&reply.status), "{reply:?}");
    let took = sleep.wait_until_ended().await;
    assert!(took < PATIENCE, "{took:?}");
    server.stop().await;
}

#[tokio::test]
async fn client_without_handshake_cannot_be_asked_on_connection() {
    let fixture = ServerFixture::new(ApprovalSource::Client);
    let server = TestHttpServer::start(&fixture, |_| {}).await;
    let write = json!({"name": "Write", "arguments": {"file_path": "a", "content": "x"}});
    let mut params = stateless_params(write, json!({"elicitation": {}}));
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-11-25");
    let call = request_message("tools/call", params);
    let head = [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "Write"),
    ];
    let answer = server.post(&head, &call).await;
    let text = answer.json()["result"]["content"][0]["text"].to_string();
    assert!(text.contains("permissions.allow"), "{answer:?}");
    assert!(!fixture.path("a").exists());
    server.stop().await;
}

#[tokio::test]
async fn configured_origin_pages_can_use_server() {
    const PAGE: &str = "https://app.example";
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    let server = TestHttpServer::start(&fixture, |http| http.origins = vec![PAGE.to_owned()]).await;
    let head = |origin| {
        let wants = ("access-control-request-method", "POST");
        [("host", "localhost:1"), ("origin", origin), wants]
    };
    let asked = server.exchange(&head(PAGE), "OPTIONS /mcp", "").await;
    assert_eq!(asked.status, 204, "{asked:?}");
    assert_eq!(asked.header("access-control-allow-origin").as_deref(), Some(PAGE));
    assert!(asked.header("access-control-allow-methods").unwrap().contains("POST"));
    let headers = asked.header("access-control-allow-headers").unwrap();
    for name in ["authorization", "content-type", "mcp-protocol-version", "mcp-session-id"] {
        assert!(headers.contains(name), "{headers}");
    }
    assert_eq!(asked.header("vary").as_deref(), Some("Origin"));
    let reply = server.post(&[("origin", PAGE)], &initialize_message()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("access-control-allow-origin").as_deref(), Some(PAGE));
    assert!(reply.header("access-control-expose-headers").unwrap().contains("mcp-session-id"));
    // A page of this machine that is not configured gets no CORS headers, and no other page is
    // allowed.
    for (origin, first, status) in [
        ("http://localhost:5173", "OPTIONS /mcp", 401),
        ("http://evil.example", "OPTIONS /mcp", 403),
        (PAGE, "OPTIONS /", 401),
        (PAGE, "POST /mcp", 401),
    ] {
        let reply = server.exchange(&head(origin), first, "").await;
        assert_eq!(reply.status, status, "{origin} {first}: {reply:?}");
        let shown = reply.header("access-control-allow-origin");
        assert_eq!(shown.is_some(), origin == PAGE, "{origin} {first}: {reply:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn silent_connections_do_not_block_others() {
    let fixture = ServerFixture::new(ApprovalSource::AllowAll);
    // Silent connections may stay for longer than the test waits.
    let server =
        TestHttpServer::start(&fixture, |http| http.limits.head_time = 10 * PATIENCE).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(server.address).await.unwrap());
    }
    let begun = Instant::now();
    assert_eq!(server.post(&[], &initialize_message()).await.status, 200);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    server.stop().await;
}
