//! In-memory servers and a host that uses them, for the tests of the client.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zero_core::{HostLimits, SessionId, ToolCall, ToolError, ToolResultPart};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    ApprovalAnswer, ApprovalQuestion, Approver, CallEvent, CallEventObserver, Dialect, DialectName,
    Elicitation, ElicitationAnswer, Elicitor, ToolHost, ToolHostConfig, ToolHostSession,
    ToolRegistry,
};
use zero_sandbox::{StateDir, Workspace};

use super::client_transport::{
    ClientTransport, ClientTransportError, ServerChannel, ServerConnector, ServerMonitor,
};
use super::connector::RemoteServerAccess;
use super::credentials::EmptyLoginStore;
use super::error::ServerUnavailableError;
use super::http::NetworkGuard;
use super::{McpServerSet, McpServerSetConfig};
use crate::server_definition::{
    CALL_TIMEOUT_MAX, McpServerDefinition, STARTUP_TIMEOUT, ServerAlias, ServerLaunch,
    ServerTransport,
};

/// A client transport over channels, for a server in the same process.
struct MemoryTransport {
    to_server: mpsc::Sender<Value>,
    from_server: mpsc::Receiver<Value>,
}

impl Transport<RoleClient> for MemoryTransport {
    type Error = ClientTransportError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), ClientTransportError>> + Send + 'static {
        let (to_server, item) = (self.to_server.clone(), serde_json::to_value(item).unwrap());
        async move { to_server.send(item).await.map_err(|_| ClientTransportError::new("gone")) }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.from_server.recv().await?;
        let parsed = serde_json::from_value(message.clone());
        Some(parsed.unwrap_or_else(|error| panic!("{error}: {message}")))
    }

    async fn close(&mut self) -> Result<(), ClientTransportError> {
        self.from_server.close();
        Ok(())
    }
}

/// An in-memory server and its behaviour.
pub(crate) struct FakeServer {
    /// Its tools; may change while it runs.
    pub(crate) tools: Mutex<Vec<Value>>,
    /// Which handshake requests it answers: `discover`, `initialize`.
    pub(crate) answers: Mutex<Vec<&'static str>>,
    /// Whether it answers the others with an error, or not at all.
    pub(crate) is_silent: bool,
    /// The version in its answer to `initialize`.
    pub(crate) version: &'static str,
    /// Delay before it reads.
    pub(crate) slow_start: Duration,
    /// Whether starting it fails.
    pub(crate) is_broken: Mutex<bool>,
    /// Every message that it received.
    pub(crate) received: Mutex<Vec<Value>>,
    pub(crate) starts: AtomicU32,
    /// Instances up to this start count as outdated.
    pub(crate) outdated: Arc<AtomicU32>,
    /// Number of running instances.
    pub(crate) running: Arc<AtomicU32>,
    /// Sends a message by itself, on the open connection.
    pub(crate) server_role: Mutex<Option<mpsc::Sender<Value>>>,
}

impl Default for FakeServer {
    fn default() -> Self {
        Self {
            tools: Mutex::new(vec![tool_json("echo"), tool_json("fail"), tool_json("hang")]),
            answers: Mutex::new(vec!["server/discover", "initialize"]),
            is_silent: false,
            version: "2025-11-25",
            slow_start: Duration::ZERO,
            is_broken: Mutex::new(false),
            received: Mutex::default(),
            starts: AtomicU32::new(0),
            outdated: Arc::default(),
            running: Arc::default(),
            server_role: Mutex::default(),
        }
    }
}

/// A tool with any input.
pub(crate) fn tool_json(name: &str) -> Value {
    json!({"name": name, "description": format!("does {name}"), "inputSchema": {"type": "object"}})
}

struct LiveConnectionGuard(Arc<AtomicU32>);

impl Drop for LiveConnectionGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl FakeServer {
    /// Supports only the older protocol.
    pub(crate) fn legacy() -> Self {
        Self { answers: Mutex::new(vec!["initialize"]), ..Self::default() }
    }

    /// The methods that it received, in order.
    pub(crate) fn methods(&self) -> Vec<String> {
        let received = self.received.lock().unwrap();
        received
            .iter()
            .filter_map(|message| Some(message.get("method")?.as_str()?.to_owned()))
            .collect()
    }

    /// Sends a message by itself.
    pub(crate) async fn send(&self, message: Value) {
        let server_role = self.server_role.lock().unwrap().clone().unwrap();
        server_role.send(message).await.unwrap();
    }

    /// Ends without a message.
    pub(crate) fn disconnect(&self) {
        self.server_role.lock().unwrap().take();
    }

    /// Answers on its own connection, even if another instance was started since.
    async fn serve(
        self: Arc<Self>,
        mut inbox: mpsc::Receiver<Value>,
        server_role: mpsc::Sender<Value>,
        _counted: LiveConnectionGuard,
    ) {
        tokio::time::sleep(self.slow_start).await;
        loop {
            // A disconnect takes effect immediately.
            let message = tokio::select! {
                message = inbox.recv() => message,
                () = self.wait_for_disconnect() => return,
            };
            let Some(message) = message else { return };
            self.received.lock().unwrap().push(message.clone());
            if self.server_role.lock().unwrap().is_none() {
                return;
            }
            let Some(id) = message.get("id").cloned() else { continue };
            if let Some(answer) = self.answer(&message) {
                if answer == json!("die") {
                    self.disconnect();
                    return;
                }
                let mut answer = answer;
                answer["jsonrpc"] = json!("2.0");
                if answer.get("id").is_none() && answer.get("method").is_none() {
                    answer["id"] = id;
                }
                let _ = server_role.send(answer).await;
            }
        }
    }

    async fn wait_for_disconnect(&self) {
        loop {
            if self.server_role.lock().unwrap().is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn answer(&self, message: &Value) -> Option<Value> {
        let method = message.get("method").and_then(Value::as_str)?;
        let refused = || {
            let error = json!({"code": -32601, "message": format!("no {method} here")});
            (!self.is_silent).then(|| json!({"error": error}))
        };
        match method {
            "server/discover" | "initialize" if !self.answers.lock().unwrap().contains(&method) => {
                refused()
            }
            "server/discover" => Some(json!({"result": {
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
            }})),
            "initialize" => Some(json!({"result": {
                "protocolVersion": self.version, "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            }})),
            "tools/list" => Some(self.list_page(message)),
            "tools/call" => self.answer_call(message),
            _ => refused(),
        }
    }

    /// Each tool named `page*` is on a separate page.
    fn list_page(&self, message: &Value) -> Value {
        let tools = self.tools.lock().unwrap().clone();
        let cursor = message.pointer("/params/cursor").and_then(Value::as_str);
        match tools.first().and_then(|tool| tool["name"].as_str()) {
            Some("endless") => {
                let page: u32 = cursor.map_or(0, |cursor| cursor.parse().unwrap());
                let name = format!("page{page}");
                json!({"result": {"tools": [tool_json(&name)], "nextCursor": (page + 1).to_string()}})
            }
            Some("circle") => json!({"result": {"tools": [tool_json("round")], "nextCursor": ""}}),
            _ => json!({"result": {"tools": tools}}),
        }
    }

    fn answer_call(&self, message: &Value) -> Option<Value> {
        let params = &message["params"];
        let text = |text: String| json!({"content": [{"type": "text", "text": text}]});
        match params["name"].as_str().unwrap() {
            "fail" => Some(
                json!({"result": {"isError": true, "content": [{"type": "text", "text": "it broke"}]}}),
            ),
            "hang" => None,
            "die" => Some(json!("die")),
            "refuse" => Some(json!({"error": {"code": -32602, "message": "wrong arguments"}})),
            "nonsense" => Some(json!({"result": {"contents": []}})),
            "need" => match params.get("inputResponses") {
                Some(answers) => {
                    let state = &params["requestState"];
                    Some(json!({"result": text(format!("{answers} {state}"))}))
                }
                None => Some(json!({"result": {
                    "resultType": "input_required", "requestState": "s1",
                    "inputRequests": {"who": {"method": "elicitation/create", "params": {
                        "mode": "form", "message": "Who are you?",
                        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
                    }}},
                }})),
            },
            _ => Some(json!({"result": text(params["arguments"].to_string())})),
        }
    }
}

/// Connects to one in-memory server, whatever the definition says.
pub(crate) struct FakeConnector(pub(crate) Arc<FakeServer>);

struct FakeMonitor {
    start: u32,
    outdated: Arc<AtomicU32>,
}

impl ServerMonitor for FakeMonitor {
    fn stderr_tail(&self) -> String {
        "last words".to_owned()
    }

    fn is_outdated(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(self.start <= self.outdated.load(Ordering::SeqCst)))
    }
}

impl ServerConnector for FakeConnector {
    fn connect<'a>(
        &'a self,
        _definition: &'a McpServerDefinition,
    ) -> BoxFuture<'a, Result<ServerChannel, ServerUnavailableError>> {
        Box::pin(async move {
            let fake = Arc::clone(&self.0);
            let start = fake.starts.fetch_add(1, Ordering::SeqCst) + 1;
            let server_monitor = FakeMonitor { start, outdated: Arc::clone(&fake.outdated) };
            if *fake.is_broken.lock().unwrap() {
                return Err(ServerUnavailableError::new("it cannot be started"));
            }
            let (to_server, inbox) = mpsc::channel(64);
            let (server_role, from_server) = mpsc::channel(64);
            *fake.server_role.lock().unwrap() = Some(server_role.clone());
            fake.running.fetch_add(1, Ordering::SeqCst);
            let counted = LiveConnectionGuard(Arc::clone(&fake.running));
            tokio::spawn(fake.serve(inbox, server_role, counted));
            let link = ClientTransport::new(MemoryTransport { to_server, from_server });
            Ok(ServerChannel { link, monitor: Arc::new(server_monitor) })
        })
    }
}

/// The definition of a server with this alias.
pub(crate) fn fake_definition(alias: &str) -> McpServerDefinition {
    McpServerDefinition {
        alias: ServerAlias::new(alias).unwrap(),
        transport: ServerTransport::Command(ServerLaunch {
            command: "fake".into(),
            args: vec![],
            variables: vec![],
            folder: "/".into(),
            network: vec![],
            writable: vec![],
        }),
        startup_timeout: STARTUP_TIMEOUT,
        call_timeout: None,
        call_timeout_max: CALL_TIMEOUT_MAX,
        tool_timeouts: Default::default(),
        tools_allowed: None,
        tools_denied: vec![],
        written_at: "settings.json:1".into(),
    }
}

/// A user who allows everything, and records the questions and events.
#[derive(Default)]
pub(crate) struct RecordingUser {
    pub(crate) questions: Mutex<Vec<ApprovalQuestion>>,
    pub(crate) elicitations: Mutex<Vec<Elicitation>>,
    pub(crate) progress: Mutex<Vec<zero_core::CallProgress>>,
}

impl Approver for RecordingUser {
    fn name(&self) -> &str {
        "person"
    }

    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        self.questions.lock().unwrap().push(question.clone());
        Box::pin(std::future::ready(ApprovalAnswer::AllowOnce))
    }
}

impl Elicitor for RecordingUser {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        self.elicitations.lock().unwrap().push(elicitation.clone());
        let values: Map<String, Value> = Map::from_iter([("name".to_owned(), json!("Ada"))]);
        Box::pin(std::future::ready(ElicitationAnswer::Accept(values)))
    }
}

impl CallEventObserver for RecordingUser {
    fn on_event(&self, event: &CallEvent) {
        if let CallEvent::Progress { progress, .. } = event {
            self.progress.lock().unwrap().push(progress.clone());
        }
    }
}

/// A host that uses one in-memory server.
pub(crate) struct McpTestHost {
    pub(crate) temp: Arc<tempfile::TempDir>,
    pub(crate) fake: Arc<FakeServer>,
    pub(crate) person: Arc<RecordingUser>,
    pub(crate) host: ToolHost,
    pub(crate) servers: Arc<McpServerSet>,
    session: ToolHostSession,
}

impl McpTestHost {
    pub(crate) fn new(fake: FakeServer) -> Self {
        Self::build(Arc::new(fake), vec![fake_definition("fake")], |_| {})
    }

    pub(crate) fn build(
        fake: Arc<FakeServer>,
        definitions: Vec<McpServerDefinition>,
        change: impl FnOnce(&mut McpServerSetConfig),
    ) -> Self {
        Self::with_state(Arc::new(tempfile::tempdir().unwrap()), fake, definitions, change)
    }

    /// A host with limits of its own.
    pub(crate) fn with_limits(fake: FakeServer, limits: HostLimits) -> Self {
        let (temp, fake) = (Arc::new(tempfile::tempdir().unwrap()), Arc::new(fake));
        let connector = Arc::new(FakeConnector(Arc::clone(&fake)));
        let start = |config| McpServerSet::with_connector(config, connector);
        Self::assemble((temp, limits), fake, vec![fake_definition("fake")], |_| {}, start)
    }

    /// Another zero process with the same state directory.
    pub(crate) fn with_state(
        temp: Arc<tempfile::TempDir>,
        fake: Arc<FakeServer>,
        definitions: Vec<McpServerDefinition>,
        change: impl FnOnce(&mut McpServerSetConfig),
    ) -> Self {
        let connector = Arc::new(FakeConnector(Arc::clone(&fake)));
        let start = |config| McpServerSet::with_connector(config, connector);
        Self::assemble((temp, HostLimits::default()), fake, definitions, change, start)
    }

    /// Value of the variable `OWN_VALUE` of a script.
    pub(crate) const OWN_VALUE: &str = "q9-nobody-shall-see-this";

    /// A host whose server is a script.
    pub(crate) fn from_script(script: &str) -> Self {
        let temp = Arc::new(tempfile::tempdir().unwrap());
        let mut own = fake_definition("fake");
        if let ServerTransport::Command(launch) = &mut own.transport {
            launch.command = "bash".to_owned();
            launch.args = vec!["-c".to_owned(), script.to_owned()];
            launch.variables = vec![("OWN_VALUE".to_owned(), Self::OWN_VALUE.to_owned())];
            launch.folder = temp.path().join("work");
        }
        let usual = HostLimits::default();
        Self::assemble((temp, usual), Arc::default(), vec![own], |_| {}, McpServerSet::new)
    }

    fn assemble(
        (temp, limits): (Arc<tempfile::TempDir>, HostLimits),
        fake: Arc<FakeServer>,
        definitions: Vec<McpServerDefinition>,
        change: impl FnOnce(&mut McpServerSetConfig),
        start: impl FnOnce(McpServerSetConfig) -> Arc<McpServerSet>,
    ) -> Self {
        let state = StateDir::new(temp.path().join("state"));
        let work = temp.path().join("work");
        StateDir::new(&work).create().unwrap();
        let workspace = Workspace::open(&[work], None).unwrap();
        let person = Arc::new(RecordingUser::default());
        let host = ToolHost::new(ToolHostConfig {
            limits,
            approver: Some(Arc::clone(&person) as Arc<dyn Approver>),
            observer: Some(Arc::clone(&person) as Arc<dyn CallEventObserver>),
            ..ToolHostConfig::new(workspace, state.clone())
        });
        let mut config = McpServerSetConfig {
            services: host.services(),
            web: RemoteServerAccess {
                guard: NetworkGuard::new(Arc::clone(host.policy()), host.resolver_config().clone()),
                credentials: Arc::new(EmptyLoginStore),
            },
            registry: Arc::clone(host.registry()),
            state,
            definitions,
            schema_tokens_max: 20_000,
            elicitor: Some(Arc::clone(&person) as Arc<dyn Elicitor>),
            pool: Arc::default(),
            confined_by: String::new(),
        };
        change(&mut config);
        let servers = start(config);
        let session = host.open_session(SessionId::new("test").unwrap()).unwrap();
        Self { temp, fake, person, host, servers, session }
    }

    pub(crate) fn registry(&self) -> &Arc<ToolRegistry> {
        self.host.registry()
    }

    /// Returns the names of the tools in the registry.
    pub(crate) fn tool_names(&self) -> Vec<String> {
        self.registry().list().iter().map(|tool| tool.tool.spec().name.to_string()).collect()
    }

    /// Returns the outcome of a call as text.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> Result<String, ToolError> {
        self.call_until(tool, input, &CancellationToken::new()).await
    }

    pub(crate) async fn call_until(
        &self,
        tool: &str,
        input: Value,
        cancel: &CancellationToken,
    ) -> Result<String, ToolError> {
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: tool.to_owned(),
            input,
            timeout: None,
        };
        let dialect = Dialect::new(DialectName::Canonical);
        let report = self.host.call(&self.session, &dialect, call, cancel).await;
        report.outcome.map(|outcome| {
            let texts = outcome.result.content.iter().map(|content| match content {
                ToolResultPart::Text(text) => text.clone(),
                other => format!("{other:?}"),
            });
            texts.collect::<Vec<_>>().join("\n")
        })
    }
}

/// Waits until all tasks are idle.
pub(crate) async fn wait_until_idle() {
    for _ in 0..50 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
