//! Hostile peers, one behaviour a row, on streams in memory.

use std::time::Duration;

use rmcp::model::{
    ClientRequest, ErrorCode, JsonRpcMessage, ListToolsRequest, PingRequest, RequestId,
    ServerResult,
};
use rmcp::service::{RoleClient, RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::{Closed, Limits, Lines, Role, Troubles};

/// A connection whose other end is in the hands of a test.
struct Bench<R: Role> {
    lines: Lines<R>,
    there: DuplexStream,
}

fn bench<R: Role>(limits: Limits) -> Bench<R> {
    let (here, there) = tokio::io::duplex(64 << 10);
    let (input, output) = tokio::io::split(here);
    Bench { lines: Lines::new(input, output, limits, Troubles::default()), there }
}

/// Asks for tools (id 1), calls one (id 2) and pings (id 3), then takes what the server says, and
/// shows what the SDK gets: an id and a word on what it is.
async fn told(server_says: &[u8]) -> (Vec<String>, Troubles) {
    let mut bench = bench::<RoleClient>(Limits { line_bytes_max: 1 << 20, ..Limits::default() });
    for (id, request) in [
        (1, json!({"method": "tools/list"})),
        (2, json!({"method": "tools/call", "params": {"name": "t"}})),
        (3, json!({"method": "ping"})),
    ] {
        bench.lines.send(request_of(id, request)).await.unwrap();
    }
    let bytes = server_says.to_vec();
    let (mut unread, mut writing) = tokio::io::split(bench.there);
    let server = tokio::spawn(async move {
        writing.write_all(&bytes).await.unwrap();
        writing.shutdown().await.unwrap();
    });
    let mut shown = Vec::new();
    let receiving = async {
        while let Some(message) = bench.lines.receive().await {
            shown.push(show(&message));
        }
    };
    tokio::time::timeout(Duration::from_secs(20), receiving).await.expect("it hangs");
    server.await.unwrap();
    assert_eq!(bench.lines.closed_because(), Some(Closed::ByPeer));
    let _ = unread.read(&mut [0; 16]).await;
    (shown, bench.lines.troubles().clone())
}

fn request_of(id: i64, request: Value) -> TxJsonRpcMessage<RoleClient> {
    let request: ClientRequest = serde_json::from_value(request).unwrap();
    JsonRpcMessage::request(request, RequestId::Number(id))
}

fn show(message: &RxJsonRpcMessage<RoleClient>) -> String {
    match message {
        JsonRpcMessage::Response(response) => {
            let what = match &response.result {
                ServerResult::ListToolsResult(list) => {
                    let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
                    format!("tools {}", names.join(" "))
                }
                ServerResult::CallToolResult(result) => {
                    let texts: Vec<&str> =
                        result.content.iter().filter_map(|c| Some(&*c.as_text()?.text)).collect();
                    format!("call {}", texts.join(" "))
                }
                ServerResult::EmptyResult(_) => "empty".into(),
                other => format!("{other:?}"),
            };
            format!("{}: {what}", response.id)
        }
        JsonRpcMessage::Error(error) => {
            format!("{}: error {}", error.id.as_ref().unwrap(), error.error.message)
        }
        JsonRpcMessage::Request(request) => format!("{}? {:?}", request.id, request.request),
        JsonRpcMessage::Notification(_) => "notification".into(),
    }
}

/// What the server says, and what the SDK is told in the end.
async fn check(server_says: impl AsRef<[u8]>, expected: &[&str]) -> Troubles {
    let says = server_says.as_ref();
    let (shown, troubles) = told(says).await;
    let head = String::from_utf8_lossy(says.get(..300).unwrap_or(says)).into_owned();
    assert_eq!(shown, expected, "{head}");
    troubles
}

const PONG: &str = r#"{"jsonrpc":"2.0","id":3,"result":{}}"#;
const CALLED: &str =
    r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hi"}]}}"#;

#[tokio::test]
async fn what_a_decent_server_says_arrives() {
    check(format!("{PONG}\n{CALLED}\n"), &["3: empty", "2: call hi"]).await;
    check(format!("{PONG}\r\n\r\n\u{feff}{CALLED}\r\n"), &["3: empty", "2: call hi"]).await;
    check(format!("{PONG}\n{CALLED}"), &["3: empty", "2: call hi"]).await;
    check(PONG.replace("3", r#""3""#), &["3: empty"]).await;
}

#[tokio::test]
async fn a_server_gets_requests_and_answers_once() {
    let mut bench = bench::<RoleServer>(Limits::default());
    bench.there.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n").await.unwrap();
    let message = bench.lines.receive().await.unwrap();
    assert!(
        matches!(message, JsonRpcMessage::Request(request) if request.id == RequestId::Number(7))
    );
}
