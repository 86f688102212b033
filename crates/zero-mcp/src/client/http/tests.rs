//! HTTP servers with both protocols, and servers that misbehave.

pub(crate) mod test_servers;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::{RunningService, ServiceError};
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use url::Url;
use zero_runtime::{ResolverConfig, RiskPolicy};

use self::test_servers::{RawServer, RecordedRequest, default_reply, result_reply, status_reply};
use super::*;
use crate::client::credentials::EmptyLoginStore;
use crate::server_definition::LoginSettings;

type TestClient = RunningService<RoleClient, ()>;

fn test_guard() -> NetworkGuard {
    NetworkGuard::new(Arc::new(RiskPolicy), ResolverConfig::default())
}

fn endpoint(url: &Url, headers: &[(&str, &str)]) -> HttpEndpoint {
    let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    HttpEndpoint { url: url.clone(), headers: headers.collect(), login: LoginSettings::default() }
}

/// Time limit for something with a timeout of a second or two.
const ELAPSED_MAX: Duration = Duration::from_secs(60);
/// Number of attempts for what a busy machine may delay beyond its time limit.
const TRIES_MAX: u32 = 20;

fn auto_lifecycle() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

async fn connect_client(url: &Url, headers: &[(&str, &str)]) -> Result<TestClient, String> {
    connect_client_within(McpHttpClientLimits::default(), url, headers).await
}

async fn connect_client_within(
    limits: McpHttpClientLimits,
    url: &Url,
    headers: &[(&str, &str)],
) -> Result<TestClient, String> {
    let alias = ServerAlias::new("test").unwrap();
    let endpoint = endpoint(url, headers);
    let transport = connect_within(
        limits,
        &alias,
        &endpoint,
        &test_guard(),
        Arc::new(EmptyLoginStore),
        ConnectionDiagnostics::default(),
    )
    .map_err(|error| error.to_string())?;
    ().serve_with_lifecycle(transport, auto_lifecycle()).await.map_err(
        |error| match find_http_error(&error) {
            Some(error) => error.to_string(),
            None => format!("not ours: {error}"),
        },
    )
}

fn error_text(error: &ServiceError) -> String {
    find_http_error(error).map_or_else(|| format!("not ours: {error}"), ToString::to_string)
}

async fn assert_echo(client: &TestClient) {
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.len(), 1);
    let arguments = json!({"text": "hello"}).as_object().unwrap().clone();
    let call = CallToolRequestParams::new("echo").with_arguments(arguments);
    let reply = client.call_tool(call).await.unwrap();
    let reply = serde_json::to_string(&reply).unwrap();
    assert!(reply.contains("hello"), "{reply}");
}

#[tokio::test]
async fn client_speaks_both_protocol_eras() {
    let url = test_servers::start_echo(StreamableHttpServerConfig::default()).await;
    let modern = connect_client(&url, &[]).await.unwrap();
    assert_echo(&modern).await;
    modern.cancel().await.unwrap();

    for is_stateful in [true, false] {
        let mut config = StreamableHttpServerConfig::default();
        config.legacy_session_mode = is_stateful;
        config.json_response = !is_stateful;
        let url = test_servers::start_echo(config).await;
        let alias = ServerAlias::new("test").unwrap();
        let endpoint = endpoint(&url, &[]);
        let transport = connect(
            &alias,
            &endpoint,
            &test_guard(),
            Arc::new(EmptyLoginStore),
            ConnectionDiagnostics::default(),
        )
        .unwrap();
        let mode = ClientLifecycleMode::Initialize;
        let legacy = ().serve_with_lifecycle(transport, mode).await.unwrap();
        assert_echo(&legacy).await;
        legacy.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn legacy_server_is_detected_by_its_answer() {
    let json = RawServer::start_mcp("nothing", |_, _| async {}).await;
    connect_client(&json.url, &[]).await.unwrap().list_all_tools().await.unwrap();
    for answer in ["404 Not Found", "400 Bad Request", "422 Unprocessable Content"] {
        let plain =
            RawServer::start_mcp("server/discover", move |_, mut stream: TcpStream| async move {
                let _ = stream.write_all(&status_reply(answer, "")).await;
            })
            .await;
        let client = connect_client(&plain.url, &[]).await.unwrap();
        assert_eq!(client.list_all_tools().await.unwrap().len(), 1, "{answer}");
    }
}

/// Returns the outcome of a call that the server answers like this, and how long it took.
async fn call_outcome<A, F>(answer: A) -> (String, Duration)
where
    A: Fn(RecordedRequest, TcpStream) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    call_outcome_within(McpHttpClientLimits::default(), answer).await
}

async fn call_outcome_within<A, F>(limits: McpHttpClientLimits, answer: A) -> (String, Duration)
where
    A: Fn(RecordedRequest, TcpStream) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let server = RawServer::start_mcp("tools/call", answer).await;
    let mut client = connect_client_within(limits, &server.url, &[]).await;
    for _ in 0..TRIES_MAX {
        if client.is_err() {
            client = connect_client_within(limits, &server.url, &[]).await;
        }
    }
    let client = client.unwrap();
    let start = Instant::now();
    let reply = client.call_tool(CallToolRequestParams::new("echo")).await;
    let took = start.elapsed();
    // In any case, the connection keeps working.
    let mut listed = client.list_all_tools().await;
    for _ in 0..TRIES_MAX {
        if listed.is_err() {
            listed = client.list_all_tools().await;
        }
    }
    assert_eq!(listed.unwrap().len(), 1);
    match reply {
        Ok(reply) => (serde_json::to_string(&reply).unwrap(), took),
        Err(error) => (error_text(&error), took),
    }
}

#[track_caller]
fn check(row: &str, (output, took): (String, Duration), expected: &str) {
    assert!(output.contains(expected), "{row}: {output}");
    assert!(took < ELAPSED_MAX, "{row}: took {took:?}");
}

const JSON_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
const EVENTS_HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// How much of an endless answer may be read, including the buffers of the kernel.
const TAKEN_MAX: usize = 32 << 20;

/// Returns the outcome of a call whose answer starts like this and continues for 200 MB.
async fn flood_outcome(start: String) -> (String, Duration) {
    let taken = Arc::new(AtomicUsize::new(0));
    let counted = taken.clone();
    let output = call_outcome(move |_, mut stream: TcpStream| {
        let (start, counted) = (start.clone(), counted.clone());
        async move {
            let _ = stream.write_all(start.as_bytes()).await;
            let filler = match start.starts_with("HTTP/1.1 200 OK\r\nX") {
                true => b"x: y\r\n".repeat(1 << 17),
                false => vec![b'x'; 1 << 20],
            };
            while counted.load(Ordering::SeqCst) < 200 << 20
                && stream.write_all(&filler).await.is_ok()
            {
                counted.fetch_add(filler.len(), Ordering::SeqCst);
            }
        }
    })
    .await;
    assert!(taken.load(Ordering::SeqCst) < TAKEN_MAX, "{output:?}: {taken:?}");
    output
}

#[tokio::test]
async fn endless_answers_are_cut_off() {
    let html = "HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\n\r\n<h1>";
    for (row, start, expected) in [
        ("a body", format!("{JSON_HEAD}\r\n{{\"x\":\""), "larger than 8388608 bytes"),
        (
            "a length that is a lie",
            format!("{JSON_HEAD}Content-Length: 18446744073709551000\r\n\r\n"),
            "larger than 8388608 bytes",
        ),
        ("an event", format!("{EVENTS_HEAD}data: "), "an event is larger than 8388608 bytes"),
        ("a line of an event", EVENTS_HEAD.to_owned(), "an event is larger than"),
        ("headers", "HTTP/1.1 200 OK\r\nX: y\r\n".to_owned(), "broke"),
        ("an error", html.to_owned(), "HTTP 500: <h1>xxx"),
    ] {
        check(row, flood_outcome(start).await, expected);
    }
}

#[tokio::test]
async fn missing_answers_time_out() {
    // The limit under test is short, all others are long.
    let usual = McpHttpClientLimits::default();
    let second = Duration::from_secs(1);
    let hasty = McpHttpClientLimits { call_head_time: second, ..usual };
    let silent = call_outcome_within(hasty, |_, stream: TcpStream| async move {
        tokio::time::sleep(10 * ELAPSED_MAX).await;
        drop(stream);
    });
    check("no head", silent.await, "an answer did not arrive within 1 s");
    let hasty = McpHttpClientLimits { body_time: 2 * second, ..usual };
    let drip = call_outcome_within(hasty, |_, mut stream: TcpStream| async move {
        let _ = stream.write_all(format!("{JSON_HEAD}\r\n").as_bytes()).await;
        while stream.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    check("a byte at a time", drip.await, "the whole of the server's answer did not arrive");
    let hasty = McpHttpClientLimits { idle_time: second, ..usual };
    let stops = call_outcome_within(hasty, |_, mut stream: TcpStream| async move {
        let _ = stream.write_all(format!("{JSON_HEAD}\r\n{{").as_bytes()).await;
        tokio::time::sleep(10 * ELAPSED_MAX).await;
    });
    check("half a body", stops.await, "the rest of the server's answer did not arrive");
    let cut = call_outcome(|_, mut stream: TcpStream| async move {
        let head = format!("{JSON_HEAD}Content-Length: 100\r\n\r\n{{");
        let _ = stream.write_all(head.as_bytes()).await;
    });
    check("a body that is cut off", cut.await, "broke");
    let stream = call_outcome(|_, mut stream: TcpStream| async move {
        let _ = stream.write_all(EVENTS_HEAD.as_bytes()).await;
    });
    check("a stream that ends without an answer", stream.await, "ended before the answer arrived");
}

#[tokio::test]
async fn unusable_answers_are_reported() {
    let html = call_outcome(|_, mut stream: TcpStream| async move {
        let _ = stream
            .write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<p>",
            )
            .await;
    });
    check("a page", html.await, "it has `text/html`, but");
    let error = call_outcome(|_, mut stream: TcpStream| async move {
        let page = "HTTP/1.1 500 x\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n\
                    <h1>\x1b[31mBroken\r\n\u{202e}here</h1>";
        let _ = stream.write_all(page.as_bytes()).await;
    });
    check("a page with an error", error.await, "HTTP 500: <h1> [31mBroken here</h1>");
    let gzip = call_outcome(|_, mut stream: TcpStream| async move {
        let head = format!("{JSON_HEAD}Content-Encoding: gzip\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(b"\x1f\x8b\x08\x00\x00\x00\x00\x00").await;
    });
    check("something compressed", gzip.await, "not an answer to the request");
    let deep = call_outcome(|request: RecordedRequest, mut stream: TcpStream| async move {
        let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let id = &request.json()["id"];
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{nested}}}"#);
        let _ = stream.write_all(format!("{JSON_HEAD}\r\n{body}").as_bytes()).await;
    });
    check("something deep", deep.await, "the answer was refused");
    let rpc = call_outcome(|request: RecordedRequest, mut stream: TcpStream| async move {
        let _ = request;
        let body = r#"{"jsonrpc":"2.0","id":"other","error":{"code":-1,"message":"mine"}}"#;
        let head = "HTTP/1.1 400 Bad\r\nContent-Type: application/json\r\nConnection: close\r\n";
        let _ = stream.write_all(format!("{head}\r\n{body}").as_bytes()).await;
    });
    check("an error in the words of the protocol", rpc.await, "mine");
    let event = call_outcome(|request: RecordedRequest, mut stream: TcpStream| async move {
        let id = &request.json()["id"];
        let noise = "data: {\"level\":\"info\"}\n\n: ping\n\ndata: hello\n\n";
        let reply = json!({"jsonrpc": "2.0", "id": id, "result":
            {"content": [{"type": "hologram"}, {"type": "text", "text": "seen"}]}});
        let text = format!("{EVENTS_HEAD}{noise}data: {reply}\n\n");
        let _ = stream.write_all(text.as_bytes()).await;
    });
    check("noise, an unknown block and an answer", event.await, "seen");
}

#[tokio::test]
async fn malformed_tool_does_not_affect_others() {
    let server = RawServer::start_mcp(
        "tools/list",
        |request: RecordedRequest, mut stream: TcpStream| async move {
            let tools = json!({"tools": [{"name": "bad"},
            {"name": "good", "inputSchema": {"type": "object"}}]});
            let _ = stream.write_all(&result_reply(&request, tools)).await;
        },
    )
    .await;
    let (alias, endpoint) = (ServerAlias::new("test").unwrap(), endpoint(&server.url, &[]));
    let troubles = ConnectionDiagnostics::default();
    let credentials = Arc::new(EmptyLoginStore);
    let transport =
        connect(&alias, &endpoint, &test_guard(), credentials, troubles.clone()).unwrap();
    let client = ().serve_with_lifecycle(transport, auto_lifecycle()).await.unwrap();
    let tools = client.list_all_tools().await.unwrap();
    assert_eq!(tools.iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(troubles.report().quarantined.len(), 1);
}

#[tokio::test]
async fn secrets_are_sent_only_to_their_origin() {
    let other = RawServer::start(|request: RecordedRequest, mut stream: TcpStream| async move {
        let _ = stream.write_all(&default_reply(&request)).await;
    })
    .await;
    for code in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let to = other.url.clone();
        let server = RawServer::start(move |_, mut stream: TcpStream| {
            let reply = status_reply(code, &format!("Location: {to}\r\n"));
            async move {
                let _ = stream.write_all(&reply).await;
            }
        })
        .await;
        let headers = [("Authorization", "Bearer hush"), ("X-Key", "hush")];
        let error = connect_client(&server.url, &headers).await.unwrap_err();
        assert!(error.contains("redirects to `http://127.0.0.1:"), "{code}: {error}");
        assert_eq!(server.requests()[0].header("x-key").as_deref(), Some("hush"));
        assert!(!error.contains("hush"));
    }
    assert!(other.requests().is_empty());

    let server = RawServer::start(|request: RecordedRequest, mut stream: TcpStream| async move {
        let reply = match request.path() {
            "/mcp" => status_reply("308 Permanent Redirect", "Location: /moved\r\n"),
            _ => default_reply(&request),
        };
        let _ = stream.write_all(&reply).await;
    })
    .await;
    connect_client(&server.url, &[]).await.unwrap();
    let circle = RawServer::start(|_, mut stream: TcpStream| async move {
        let _ = stream.write_all(&status_reply("307 x", "Location: /mcp\r\n")).await;
    })
    .await;
    let error = connect_client(&circle.url, &[]).await.unwrap_err();
    assert!(error.contains("too many redirects"), "{error}");
    assert_eq!(circle.requests().len(), 4);
}

#[tokio::test]
async fn configured_headers_are_checked_and_refusal_gives_hint() {
    let server = RawServer::start(|_, mut stream: TcpStream| async move {
        let _ = stream.write_all(&status_reply("401 Unauthorized", "")).await;
    })
    .await;
    for (headers, expected) in [
        (&[][..], "run `zero mcp login test`"),
        (&[("authorization", "Bearer hush")][..], "refuses the `Authorization`"),
        (&[("bad name", "hush")][..], "is not the name of a header"),
        (&[("x-key", "hush\r\nx: y")][..], "has an invalid value"),
        (&[("Mcp-Session-Id", "hush")][..], "is set by the protocol"),
        (&[("Host", "hush")][..], "is set by the protocol"),
    ] {
        let error = connect_client(&server.url, headers).await.unwrap_err();
        assert!(error.contains(expected), "{headers:?}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
    let gone = Url::parse("http://127.0.0.1:1/mcp").unwrap();
    let error = connect_client(&gone, &[]).await.unwrap_err();
    assert!(error.contains("could not connect to http://127.0.0.1:1"), "{error}");
    let https = Url::parse("https://127.0.0.1:1/mcp?key=hush").unwrap();
    let error = connect_client(&https, &[]).await.unwrap_err();
    assert!(error.contains("could not connect to") && !error.contains("hush"), "{error}");
}

#[tokio::test]
async fn expired_session_is_reopened() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let server = RawServer::start(move |request: RecordedRequest, mut stream: TcpStream| {
        let sessions = sessions.clone();
        async move {
            let current = sessions.load(Ordering::SeqCst).to_string();
            let reply = match request.method().as_str() {
                "initialize" => {
                    let next = sessions.fetch_add(1, Ordering::SeqCst) + 1;
                    let reply = String::from_utf8(default_reply(&request)).unwrap();
                    let line = format!("HTTP/1.1 200 OK\r\nMcp-Session-Id: {next}\r\n");
                    reply.replacen("HTTP/1.1 200 OK\r\n", &line, 1).into_bytes()
                }
                // The first session expires after the first list.
                "tools/call" if request.header("mcp-session-id").as_deref() == Some("1") => {
                    status_reply("404 Not Found", "")
                }
                _ => {
                    let given = request.header("mcp-session-id");
                    assert!(given.is_none_or(|given| given == current));
                    default_reply(&request)
                }
            };
            let _ = stream.write_all(&reply).await;
        }
    })
    .await;
    let client = connect_client(&server.url, &[]).await.unwrap();
    client.list_all_tools().await.unwrap();
    client.call_tool(CallToolRequestParams::new("echo")).await.unwrap();
    let calls = server.requests().into_iter().filter(|seen| seen.method() == "tools/call").count();
    assert_eq!(calls, 2);
}
