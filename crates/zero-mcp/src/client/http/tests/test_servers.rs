//! Servers on this machine: one built with the SDK, and one that a test scripts.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex};

use hyper_util::rt::TokioIo;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

/// A server with one tool that echoes its arguments.
#[derive(Clone)]
struct EchoService;

impl ServerHandler for EchoService {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object"}).as_object().unwrap().clone();
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Says it back", schema)]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = serde_json::to_string(&request.arguments).unwrap();
        Ok(CallToolResult::success(vec![ContentBlock::text(arguments)]).into())
    }
}

/// Serves a tool that echoes its arguments.
pub(crate) async fn start_echo(config: StreamableHttpServerConfig) -> Url {
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(EchoService), sessions, config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service.clone();
            tokio::spawn(async move {
                let service = hyper::service::service_fn(move |request| {
                    let service = service.clone();
                    async move { Ok::<_, Infallible>(service.handle(request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Url::parse(&url).unwrap()
}

/// A request as received.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl RecordedRequest {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The method of the message, or else that of HTTP.
    pub(crate) fn method(&self) -> String {
        match self.json()["method"].as_str() {
            Some(method) => method.to_owned(),
            None => self.head.split(' ').next().unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        let mut found = lines.filter(|(key, _)| key.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.trim().to_owned())
    }
}

/// A server that answers each request with a function of the test.
#[derive(Clone)]
pub(crate) struct RawServer {
    pub(crate) url: Url,
    seen: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl RawServer {
    /// Starts a server; every connection has one request.
    pub(crate) async fn start<A, F>(answer: A) -> Self
    where
        A: Fn(RecordedRequest, TcpStream) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<RecordedRequest>>> = Arc::default();
        let noted = seen.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, noted) = (answer.clone(), noted.clone());
                tokio::spawn(async move {
                    let Some(request) = read_request(&mut stream).await else { return };
                    noted.lock().unwrap().push(request.clone());
                    answer(request, stream).await;
                });
            }
        });
        Self { url: Url::parse(&url).unwrap(), seen }
    }

    /// An MCP server with the older protocol that answers one method with a function of the test.
    pub(crate) async fn start_mcp<A, F>(method: &'static str, answer: A) -> Self
    where
        A: Fn(RecordedRequest, TcpStream) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        Self::start(move |request: RecordedRequest, mut stream: TcpStream| {
            let answer = answer.clone();
            async move {
                if request.method() == method {
                    answer(request, stream).await;
                } else {
                    let usual = default_reply(&request);
                    let _ = stream.write_all(&usual).await;
                }
            }
        })
        .await
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.seen.lock().unwrap().clone()
    }
}

/// The answers of an MCP server with the older protocol.
pub(crate) fn default_reply(request: &RecordedRequest) -> Vec<u8> {
    match request.method().as_str() {
        "initialize" => result_reply(
            request,
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "raw", "version": "1"},
            }),
        ),
        "tools/list" => result_reply(
            request,
            json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        ),
        "tools/call" => {
            result_reply(request, json!({"content": [{"type": "text", "text": "done"}]}))
        }
        method if method.starts_with("notifications/") => status_reply("202 Accepted", ""),
        "GET" | "DELETE" => status_reply("405 Method Not Allowed", ""),
        _ => json_reply(&json!({
            "jsonrpc": "2.0",
            "id": request.json()["id"],
            "error": {"code": -32601, "message": "no such method"},
        })),
    }
}

pub(crate) fn result_reply(request: &RecordedRequest, result: Value) -> Vec<u8> {
    json_reply(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result}))
}

pub(crate) fn json_reply(body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A response without content, with these header lines.
pub(crate) fn status_reply(status: &str, lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{lines}Content-Length: 0\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

async fn read_request(stream: &mut TcpStream) -> Option<RecordedRequest> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let mut body = bytes.split_off(head_end);
    let head = String::from_utf8(bytes).unwrap();
    let length = RecordedRequest { head: head.clone(), body: Vec::new() }.header("content-length");
    let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(RecordedRequest { head, body })
}
