//! A server with the real tools in a temporary folder, and a client that sends lines of JSON.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::RoleServer;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use zero_mcp::server::{
    McpApprover, McpCallRouter, McpElicitor, McpObserver, McpServiceConfig, McpServiceError,
    serve_lines,
};
use zero_mcp::wire;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{ApprovalAnswer, ApprovalQuestion, Approver, ToolHost, ToolHostConfig};
use zero_sandbox::{StateDir, Workspace};

/// Time limit for every step of a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct AllowAll;

impl Approver for AllowAll {
    fn name(&self) -> &str {
        "test"
    }

    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}

/// Who answers approvals.
#[derive(Clone, Copy)]
pub(crate) enum ApprovalSource {
    /// An approver that allows everything.
    AllowAll,
    /// The client.
    Client,
}

/// A host with the real tools.
pub(crate) struct ServerFixture {
    temp: tempfile::TempDir,
    pub(crate) host: Arc<ToolHost>,
    pub(crate) router: Arc<McpCallRouter>,
    pub(crate) elicitor: Arc<McpElicitor>,
}

impl ServerFixture {
    pub(crate) fn new(asked: ApprovalSource) -> Self {
        // Not in `/tmp`, because commands have a `/tmp` of their own.
        let temp = tempfile::tempdir_in("/var/tmp").unwrap();
        let work = temp.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let router = McpCallRouter::new();
        let workspace = Workspace::open(&[work], None).unwrap();
        let mut config = ToolHostConfig::new(workspace, StateDir::new(temp.path().join("state")));
        config.approver = Some(match asked {
            ApprovalSource::AllowAll => Arc::new(AllowAll),
            ApprovalSource::Client => McpApprover::new(Arc::clone(&router)),
        });
        config.observer = Some(McpObserver::new(Arc::clone(&router)));
        let host = Arc::new(ToolHost::new(config));
        host.registry().add("builtin", zero_tools::builtin_tools()).unwrap();
        let elicitor = McpElicitor::new(Arc::clone(&router));
        Self { temp, host, router, elicitor }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join("work").join(name)
    }

    pub(crate) fn write_file(&self, name: &str, content: &str) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn config(&self) -> McpServiceConfig {
        let mut config = McpServiceConfig::new(Arc::clone(&self.host), Arc::clone(&self.router));
        config.folders = vec![self.path("")];
        config
    }

    /// A client before its first message.
    pub(crate) fn connect(&self) -> JsonLineClient {
        self.connect_to(self.config())
    }

    pub(crate) fn connect_to(&self, config: McpServiceConfig) -> JsonLineClient {
        self.connect_within(config, 1 << 20, wire::McpMessageLimits::default())
    }

    /// A client with a pipe of this capacity.
    pub(crate) fn connect_within(
        &self,
        config: McpServiceConfig,
        pipe_bytes: usize,
        limits: wire::McpMessageLimits,
    ) -> JsonLineClient {
        let (ours, theirs) = tokio::io::duplex(pipe_bytes);
        let (input, output) = tokio::io::split(theirs);
        let troubles = wire::ConnectionDiagnostics::default();
        let lines = wire::LineTransport::<RoleServer>::new(input, output, limits, troubles);
        let served = tokio::spawn(serve_lines(config, lines));
        let (read, write) = tokio::io::split(ours);
        JsonLineClient {
            lines: BufReader::new(read).lines(),
            write: Some(write),
            served,
            next_id: 0,
        }
    }

    /// The client's end of a connection, for an SDK client.
    pub(crate) fn pipe(&self) -> (ClientPipe, JoinHandle<Result<(), McpServiceError>>) {
        let JsonLineClient { lines, write, served, .. } = self.connect();
        ((lines.into_inner().into_inner(), write.unwrap()), served)
    }

    /// A client with these capabilities after its handshake.
    pub(crate) async fn connect_initialized(&self, capabilities: Value) -> JsonLineClient {
        let mut client = self.connect();
        client.initialize("2025-11-25", capabilities).await;
        client
    }
}

/// The client's end of the connection.
pub(crate) type ClientPipe = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// A client that sends and reads lines of JSON.
pub(crate) struct JsonLineClient {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: Option<WriteHalf<DuplexStream>>,
    served: JoinHandle<Result<(), McpServiceError>>,
    next_id: u64,
}

impl JsonLineClient {
    pub(crate) async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = self.request_and_wait("initialize", params).await;
        self.notify("notifications/initialized", json!({})).await;
        answer
    }

    /// Sends many requests at once, with the ids from 1000 on.
    pub(crate) async fn burst(&mut self, count: u64, method: &str, params: &Value) {
        let lines: String = (1000..1000 + count)
            .map(|id| {
                let (version, params) = ("2.0", params.clone());
                json!({"jsonrpc": version, "id": id, "method": method, "params": params})
            })
            .map(|message| format!("{message}\n"))
            .collect();
        self.write.as_mut().unwrap().write_all(lines.as_bytes()).await.unwrap();
    }

    pub(crate) async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.write.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Sends a request, and returns its id.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next_id += 1;
        let id = self.next_id;
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Returns the next message of any kind.
    pub(crate) async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("nothing was said").unwrap().expect("the server is gone");
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request, and returns its answer, which must be the next message.
    pub(crate) async fn request_and_wait(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        let answer = self.receive().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Calls a tool after a handshake.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request_and_wait("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Closes the client's output, and returns all remaining messages.
    pub(crate) async fn half_close(mut self) -> Vec<Value> {
        self.write.take().unwrap().shutdown().await.unwrap();
        let mut heard = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            heard.push(serde_json::from_str(&line).unwrap());
        }
        heard
    }

    /// Closes the client's output, and returns how the server ended and its messages until then.
    pub(crate) async fn end_unread(mut self) -> (Result<(), McpServiceError>, Vec<Value>) {
        self.write.take().unwrap().shutdown().await.unwrap();
        let outcome = tokio::time::timeout(PATIENCE, self.served).await.unwrap().unwrap();
        let mut heard = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            heard.push(serde_json::from_str(&line).unwrap());
        }
        (outcome, heard)
    }

    /// Returns how the server ended by itself.
    pub(crate) async fn wait_for_outcome(self) -> Result<(), McpServiceError> {
        tokio::time::timeout(PATIENCE, self.served).await.unwrap().unwrap()
    }

    /// Returns how long it takes until the server has ended by itself.
    pub(crate) async fn wait_for_end(self) -> Duration {
        let begun = Instant::now();
        tokio::time::timeout(PATIENCE, self.served).await.unwrap().unwrap().unwrap();
        begun.elapsed()
    }

    /// Closes the connection, and returns how long the server took to end.
    pub(crate) async fn disconnect(mut self) -> Duration {
        let begun = Instant::now();
        self.write.take().unwrap().shutdown().await.unwrap();
        tokio::time::timeout(PATIENCE, self.served).await.unwrap().unwrap().unwrap();
        begun.elapsed()
    }
}

/// Parameters of a stateless request.
pub(crate) fn stateless_params(mut params: Value, capabilities: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    params
}

/// A unique command that sleeps for long.
pub(crate) struct SleepCommand(String);

impl SleepCommand {
    pub(crate) fn new() -> Self {
        Self(format!("300.{:09}", fastrand::u32(..1_000_000_000)))
    }

    pub(crate) fn command(&self) -> String {
        format!("sleep {}", self.0)
    }

    pub(crate) fn seconds(&self) -> &str {
        &self.0
    }

    pub(crate) fn is_running(&self) -> bool {
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).any(|word| word == self.0.as_bytes())
        })
    }

    pub(crate) async fn wait_until_started(&self) {
        wait_until(|| self.is_running()).await;
    }

    /// Returns how long it takes until it has ended.
    pub(crate) async fn wait_until_ended(&self) -> Duration {
        let begun = Instant::now();
        wait_until(|| !self.is_running()).await;
        begun.elapsed()
    }
}

pub(crate) async fn wait_until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it never came to it");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
