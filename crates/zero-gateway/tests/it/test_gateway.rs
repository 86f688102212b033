//! A gateway with real sessions, a scripted model, and clients on pipes.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zero_gateway::{AuthConfig, Gateway, GatewayConfig, GatewayLimits, MetricsSource, Principal};
use zero_runtime::metrics::{SessionCallStats, ToolStats};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    ToolBackend, ToolBackendError, ToolBackendFactory, ToolBackendRequest,
};
use zero_session::agent::AgentRegistry;
use zero_session::event::TokenUsage;
use zero_session::local_event_bus::LocalEventBus;
use zero_session::message::{MessageBlock, ToolInput};
use zero_session::model::catalog::ModelCatalog;
use zero_session::model::{
    ModelClient, ModelEvent, ModelInfo, ModelReply, ModelRequest, ModelStopReason, ModelStream,
};
use zero_session::sessions::{SessionLimits, SessionManager, SessionManagerConfig};
use zero_session::sqlite_store::SqliteStore;
use zero_wire::client::{
    ConnectOptions, GatewayClient, GatewayClientError, GatewayEvents, GatewayTarget,
};
use zero_wire::handshake::{ClientId, ClientInfo, ClientMode};
use zero_wire::method::TokenScope;
use zero_wire::pipe::pipe;
use zero_wire::{EventFrame, GatewayMethod};

/// Longer than any step here takes, so that a test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct TestGateway {
    pub(crate) gateway: Gateway,
    pub(crate) sessions: SessionManager,
    _folder: TempDir,
}

impl TestGateway {
    /// Starts a gateway whose model gives these answers in order.
    pub(crate) async fn start(answers: &[&str]) -> Self {
        Self::with_limits(answers, GatewayLimits::default()).await
    }

    /// Like [`Self::start`], with other limits.
    pub(crate) async fn with_limits(answers: &[&str], limits: GatewayLimits) -> Self {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::open(&folder.path().join("sessions.db")).unwrap();
        let model: Arc<dyn ModelClient> = Arc::new(ScriptedModel::new(answers));
        let sessions = SessionManager::start(SessionManagerConfig {
            store: Arc::new(store),
            bus: Arc::new(LocalEventBus::new()),
            agents: AgentRegistry::new(Vec::new(), None),
            models: ModelCatalog::new(vec![model], Some("scripted".to_owned())),
            backend_factory: Arc::new(NoToolBackend),
            cwd: PathBuf::from("/"),
            nodes: Arc::new(zero_session::node_membership::SingleNode::new("test")),
            limits: SessionLimits::default(),
        })
        .await
        .unwrap();
        let gateway = Gateway::new(GatewayConfig {
            sessions: sessions.clone(),
            auth: AuthConfig::deny_all(),
            limits,
            version: "1.2.3".to_owned(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            tool_metrics: Arc::new(EmptyMetrics),
            console: zero_gateway::ConsoleConfig::default(),
        });
        Self { gateway, sessions, _folder: folder }
    }

    /// Connects a client as the given principal.
    pub(crate) async fn connect(
        &self,
        name: &str,
        scopes: &[TokenScope],
        caps: &[&str],
    ) -> TestClient {
        self.connect_as(Principal::new(name, scopes.to_vec()), caps).await
    }

    pub(crate) async fn connect_as(&self, who: Principal, caps: &[&str]) -> TestClient {
        let (client, server) = pipe();
        self.gateway.attach_pipe(server, who);
        let mut options = ConnectOptions::new(ClientInfo {
            id: ClientId::Cli,
            display_name: None,
            version: "1".to_owned(),
            build_id: None,
            platform: "linux".to_owned(),
            device_family: None,
            model_identifier: None,
            time_zone: None,
            mode: ClientMode::Cli,
            instance_id: None,
        });
        options.caps = caps.iter().map(|cap| (*cap).to_owned()).collect();
        let (client, events) =
            GatewayClient::connect(GatewayTarget::Pipe(client), options).await.unwrap();
        TestClient { client, events }
    }
}

/// A client and the events it receives.
pub(crate) struct TestClient {
    pub(crate) client: GatewayClient,
    pub(crate) events: GatewayEvents,
}

impl TestClient {
    /// Sends a request with JSON parameters.
    pub(crate) async fn request<M: GatewayMethod>(&self, params: Value) -> M::Result {
        let params = serde_json::from_value(params).unwrap();
        timeout(PATIENCE, self.client.request::<M>(params)).await.unwrap().unwrap()
    }

    /// Sends a request that is expected to fail; returns code and message.
    pub(crate) async fn expect_refusal<M: GatewayMethod>(&self, params: Value) -> String {
        let params = serde_json::from_value(params).unwrap();
        match timeout(PATIENCE, self.client.request::<M>(params)).await.unwrap() {
            Err(GatewayClientError::Refused { error }) => {
                format!("{:?} {}", error.code, error.message)
            }
            Err(other) => panic!("not refused but {other}"),
            Ok(_) => panic!("not refused"),
        }
    }

    /// The next event that is not a tick.
    pub(crate) async fn next_event(&mut self) -> EventFrame {
        loop {
            let event = timeout(PATIENCE, self.events.next()).await.unwrap().unwrap();
            if event.event != "tick" {
                return event;
            }
        }
    }

    /// The events up to and including the first that matches.
    pub(crate) async fn collect_until(
        &mut self,
        wanted: impl Fn(&str, &Value) -> bool,
    ) -> Vec<EventFrame> {
        let mut heard = Vec::new();
        loop {
            let event = self.next_event().await;
            let found = wanted(&event.event, event.payload.as_ref().unwrap_or(&Value::Null));
            heard.push(event);
            if found {
                return heard;
            }
        }
    }

    /// The events up to the end of a run, in the OpenClaw format.
    pub(crate) async fn collect_until_end(&mut self) -> Vec<EventFrame> {
        let over = |state: &Value| ["final", "aborted", "error"].iter().any(|end| state == end);
        self.collect_until(|name, payload| name == "chat" && over(&payload["state"])).await
    }
}

/// Answers by a script: words are text, `name:id` is a call, `@hang` never ends.
struct ScriptedModel {
    info: ModelInfo,
    answers: Mutex<VecDeque<String>>,
}

impl ScriptedModel {
    fn new(answers: &[&str]) -> Self {
        let info = ModelInfo {
            name: "scripted".to_owned(),
            id: "scripted".to_owned(),
            family: "other".to_owned(),
            context_window: 100_000,
            output_tokens_max: 1_000,
            takes_images: true,
            prices: None,
        };
        let answers = answers.iter().map(|answer| (*answer).to_owned()).collect();
        Self { info, answers: Mutex::new(answers) }
    }
}

impl ModelClient for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: ModelRequest, _cancel: CancellationToken) -> ModelStream {
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_default();
        let (mut events, mut blocks, mut stop) = (Vec::new(), Vec::new(), ModelStopReason::End);
        for word in answer.split_whitespace().filter(|word| *word != "@hang") {
            if let Some((name, id)) = word.split_once(':') {
                stop = ModelStopReason::ToolUse;
                blocks.push(MessageBlock::ToolUse {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    input: ToolInput::from(json!({"path": id})),
                    opaque: Value::Null,
                });
            } else {
                events.push(Ok(ModelEvent::Text(format!("{word} "))));
                blocks.push(MessageBlock::text(format!("{word} ")));
            }
        }
        if answer.ends_with("@hang") {
            return Box::pin(stream::iter(events).chain(stream::pending()));
        }
        let usage = TokenUsage { input_tokens: 10, output_tokens: 1, ..TokenUsage::default() };
        events.push(Ok(ModelEvent::Done(ModelReply { blocks, stop, usage })));
        Box::pin(stream::iter(events))
    }
}

/// A backend factory without any tools.
struct NoToolBackend;

impl ToolBackendFactory for NoToolBackend {
    fn open(
        &self,
        _order: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        Box::pin(async { Ok(Arc::new(EmptyToolBackend) as Arc<dyn ToolBackend>) })
    }
}

struct EmptyToolBackend;

impl ToolBackend for EmptyToolBackend {
    fn load_catalog(
        &self,
        _dialect: zero_runtime::DialectName,
    ) -> BoxFuture<'_, Result<zero_runtime::tool_backend::ToolCatalog, ToolBackendError>> {
        Box::pin(async { Ok(zero_runtime::tool_backend::ToolCatalog::default()) })
    }

    fn call(
        &self,
        call: zero_core::ToolCall,
        _dialect: zero_runtime::DialectName,
        _cancel: CancellationToken,
        _watch: Arc<dyn zero_runtime::tool_backend::CallObserver>,
    ) -> BoxFuture<'_, zero_core::ToolOutcome> {
        panic!("the gateway must not run `{}`", call.tool)
    }

    fn set_mode(
        &self,
        _mode: Option<zero_session::PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        Box::pin(async { Ok(()) })
    }

    fn location(&self) -> String {
        "nowhere".to_owned()
    }

    fn folder(&self) -> Option<std::path::PathBuf> {
        None
    }
}

struct EmptyMetrics;

impl MetricsSource for EmptyMetrics {
    fn tools(&self) -> BTreeMap<String, ToolStats> {
        BTreeMap::new()
    }

    fn sessions(&self) -> BTreeMap<String, SessionCallStats> {
        BTreeMap::new()
    }

    fn queue_depth(&self) -> u64 {
        0
    }

    fn in_flight(&self) -> u64 {
        0
    }
}
