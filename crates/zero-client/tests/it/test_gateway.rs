//! Real sessions with a scripted model behind a gateway, connected by a pipe or over the network.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zero_client::{
    GatewayConnection, GatewayDialer, GatewayLink, GatewayLinkError, GatewayLocality,
    GatewayUpdate, OpenRequest, OverlapPolicy, SendRequest, SessionHandle, SessionUpdates,
};
use zero_core::event::{Event, EventKind, RunOutcome};
use zero_core::{ToolCall, ToolError, ToolOutcome, ToolResult};
use zero_gateway::{
    AuthConfig, Gateway, GatewayConfig, GatewayLimits, MetricsSource, PlaintextPolicy, Principal,
};
use zero_runtime::DialectName;
use zero_runtime::file_rewind::{FileRewindReport, FileRewindRequest, RewindRequester};
use zero_runtime::metrics::{SessionCallStats, ToolStats};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::{
    CallObserver, CatalogEntry, ToolBackend, ToolBackendError, ToolBackendFactory,
    ToolBackendRequest, ToolCatalog,
};
use zero_session::PermissionMode;
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
use zero_wire::client::{ConnectOptions, GatewayClient, GatewayCredentials, GatewayTarget};
use zero_wire::method::TokenScope;
use zero_wire::pipe::pipe;

/// Longer than any test step takes, so that a test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TOKEN: &str = "a-token-0123456789abcdef";

pub(crate) struct TestGateway {
    pub(crate) gateway: Gateway,
    pub(crate) sessions: SessionManager,
    /// The model takes one permit at each `@wait`.
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) folder: Arc<TempDir>,
}

impl TestGateway {
    /// Starts a gateway whose model gives these answers in order.
    pub(crate) async fn start(answers: &[&str]) -> Self {
        Self::with_folder(Arc::new(TempDir::new().unwrap()), answers).await
    }

    /// The same on the store of a previous gateway.
    pub(crate) async fn with_folder(folder: Arc<TempDir>, answers: &[&str]) -> Self {
        Self::with_limits(folder, answers, GatewayLimits::default()).await
    }

    /// The same with other limits.
    pub(crate) async fn with_limits(
        folder: Arc<TempDir>,
        answers: &[&str],
        limits: GatewayLimits,
    ) -> Self {
        let store = SqliteStore::open(&folder.path().join("sessions.db")).unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let model: Arc<dyn ModelClient> = Arc::new(ScriptedModel::new(answers, Arc::clone(&gate)));
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
        let me = Principal::new("me", vec![TokenScope::Admin]);
        let gateway = Gateway::new(GatewayConfig {
            sessions: sessions.clone(),
            auth: AuthConfig::deny_all().with_token(TOKEN, me).unwrap(),
            limits,
            version: "1.2.3".to_owned(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            tool_metrics: Arc::new(EmptyMetrics),
            console: zero_gateway::ConsoleConfig::default(),
        });
        Self { gateway, sessions, gate, folder }
    }

    /// Serves on a port.
    pub(crate) async fn listen(&self, at: SocketAddr) -> SocketAddr {
        let listening = self.gateway.listen(at, None, PlaintextPolicy::ThisMachine).await.unwrap();
        let address = listening.address();
        let gateway = self.gateway.clone();
        tokio::spawn(async move { gateway.serve(listening, CancellationToken::new()).await });
        address
    }

    /// A link by pipe.
    pub(crate) fn link(&self) -> GatewayLink {
        self.link_as(Principal::new("me", vec![TokenScope::Admin]))
    }

    /// The same for another principal.
    pub(crate) fn link_as(&self, who: Principal) -> GatewayLink {
        GatewayLink::new(Arc::new(PipeDialer(self.gateway.clone(), who)))
    }

    /// Releases the model this many times.
    pub(crate) fn release_model(&self, times: usize) {
        self.gate.add_permits(times);
    }
}

struct PipeDialer(Gateway, Principal);

impl GatewayDialer for PipeDialer {
    fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>> {
        Box::pin(async {
            let (near, far) = pipe();
            self.0.attach_pipe(far, self.1.clone());
            let (client, events) =
                GatewayClient::connect(GatewayTarget::Pipe(near), options()).await?;
            Ok(GatewayConnection { client, events, locality: GatewayLocality::InProcess })
        })
    }

    fn location(&self) -> String {
        "this process".to_owned()
    }
}

/// Dials an address and counts the dials.
pub(crate) struct TcpDialer {
    pub(crate) address: SocketAddr,
    pub(crate) token: &'static str,
    pub(crate) dials: AtomicUsize,
}

impl TcpDialer {
    pub(crate) fn new(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self { address, token: TOKEN, dials: AtomicUsize::new(0) })
    }
}

impl GatewayDialer for TcpDialer {
    fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>> {
        Box::pin(async {
            self.dials.fetch_add(1, Ordering::Relaxed);
            let target = GatewayTarget::Url(format!("ws://{}", self.address).parse().unwrap());
            let options =
                ConnectOptions { auth: GatewayCredentials::token(self.token), ..options() };
            let (client, events) = GatewayClient::connect(target, options).await?;
            Ok(GatewayConnection { client, events, locality: GatewayLocality::Remote })
        })
    }

    fn location(&self) -> String {
        self.address.to_string()
    }
}

fn options() -> ConnectOptions {
    let caps = ["zero-events", "tool-events", "exec-approvals"].map(str::to_owned).to_vec();
    ConnectOptions { caps, ..ConnectOptions::default() }
}

pub(crate) fn open_request(key: &str) -> OpenRequest {
    OpenRequest { key: Some(key.to_owned()), ..OpenRequest::default() }
}

pub(crate) fn send_request(run: &str, text: &str) -> SendRequest {
    SendRequest {
        run: run.to_owned(),
        text: text.to_owned(),
        attachments: Vec::new(),
        thinking: None,
        overlap: OverlapPolicy::Queue,
    }
}

pub(crate) async fn open_session(link: &GatewayLink, key: &str) -> (SessionHandle, SessionUpdates) {
    timeout(PATIENCE, link.open(open_request(key))).await.unwrap().unwrap()
}

/// The next update.
pub(crate) async fn next_update(heard: &mut SessionUpdates) -> GatewayUpdate {
    timeout(PATIENCE, heard.next()).await.expect("nothing came").expect("it was left")
}

/// Collects entries up to the first that matches, which is the last one returned, and the other
/// updates.
pub(crate) async fn collect_until(
    heard: &mut SessionUpdates,
    wanted: impl Fn(&GatewayUpdate) -> bool,
) -> (Vec<Event>, Vec<GatewayUpdate>) {
    let (mut entries, mut others) = (Vec::new(), Vec::new());
    loop {
        let news = next_update(heard).await;
        let found = wanted(&news);
        match news {
            GatewayUpdate::Entry(event) => entries.push(event),
            other => others.push(other),
        }
        if found {
            return (entries, others);
        }
    }
}

pub(crate) fn is_end(news: &GatewayUpdate) -> bool {
    matches!(news, GatewayUpdate::Entry(Event { kind: EventKind::RunEnded { .. }, .. }))
}

pub(crate) fn is_call_end(news: &GatewayUpdate) -> bool {
    matches!(news, GatewayUpdate::Entry(Event { kind: EventKind::ToolEnded { .. }, .. }))
}

pub(crate) fn is_text(news: &GatewayUpdate) -> bool {
    matches!(news, GatewayUpdate::Entry(Event { kind: EventKind::Text { .. }, .. }))
}

/// The text of all entries.
pub(crate) fn joined_text(entries: &[Event]) -> String {
    let text = |event: &Event| match &event.kind {
        EventKind::Text { text } => Some(text.clone()),
        _ => None,
    };
    entries.iter().filter_map(text).collect()
}

/// The end of the run.
#[track_caller]
pub(crate) fn run_end(entries: &[Event]) -> RunOutcome {
    let ends = entries.iter().filter_map(|event| match &event.kind {
        EventKind::RunEnded { end, .. } => Some(end.clone()),
        _ => None,
    });
    let mut ends: Vec<RunOutcome> = ends.collect();
    assert_eq!(ends.len(), 1, "{entries:?}");
    ends.remove(0)
}

/// Checks that entry numbers are consecutive.
#[track_caller]
pub(crate) fn check_numbers(entries: &[Event]) {
    for pair in entries.windows(2) {
        assert_eq!(pair[1].seq, pair[0].seq + 1, "{:?} after {:?}", pair[1], pair[0]);
    }
}

/// Answers by a script: words are text, `name:id` is a call, `@wait` waits for the gate.
struct ScriptedModel {
    info: ModelInfo,
    answers: Mutex<VecDeque<String>>,
    gate: Arc<Semaphore>,
}

impl ScriptedModel {
    fn new(answers: &[&str], gate: Arc<Semaphore>) -> Self {
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
        Self { info, answers: Mutex::new(answers), gate }
    }
}

impl ModelClient for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: ModelRequest, _cancel: CancellationToken) -> ModelStream {
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_default();
        let (mut steps, mut blocks, mut stop) = (Vec::new(), Vec::new(), ModelStopReason::End);
        for word in answer.split_whitespace() {
            if word == "@wait" {
                steps.push(None);
            } else if let Some((name, id)) = word.split_once(':') {
                stop = ModelStopReason::ToolUse;
                blocks.push(MessageBlock::ToolUse {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    input: ToolInput::from(json!({"path": id})),
                    opaque: Value::Null,
                });
            } else {
                steps.push(Some(ModelEvent::Text(format!("{word} "))));
                blocks.push(MessageBlock::text(format!("{word} ")));
            }
        }
        let usage = TokenUsage { input_tokens: 10, output_tokens: 1, ..TokenUsage::default() };
        steps.push(Some(ModelEvent::Done(ModelReply { blocks, stop, usage })));
        let gate = Arc::clone(&self.gate);
        let steps = stream::iter(steps).then(move |step| {
            let gate = Arc::clone(&gate);
            async move {
                if step.is_none() {
                    gate.acquire().await.unwrap().forget();
                }
                step
            }
        });
        Box::pin(steps.filter_map(|step| async move { step.map(Ok) }))
    }
}

/// The gateway itself has no tools.
struct NoToolBackend;

impl ToolBackendFactory for NoToolBackend {
    fn open(
        &self,
        _order: ToolBackendRequest,
    ) -> BoxFuture<'_, Result<Arc<dyn ToolBackend>, ToolBackendError>> {
        Box::pin(async { Ok(Arc::new(RecordingToolBackend::default()) as Arc<dyn ToolBackend>) })
    }
}

/// A tool backend with one tool; records its calls.
#[derive(Default)]
pub(crate) struct RecordingToolBackend {
    pub(crate) calls: Mutex<Vec<String>>,
    pub(crate) modes: Mutex<Vec<PermissionMode>>,
    /// How long a call takes after it was described.
    pub(crate) takes: Duration,
    /// Who asked for rewinds.
    pub(crate) rewinds: Mutex<Vec<&'static str>>,
}

impl ToolBackend for RecordingToolBackend {
    fn rewind_files(
        &self,
        _request: FileRewindRequest,
        requester: RewindRequester,
    ) -> BoxFuture<'_, Result<FileRewindReport, ToolError>> {
        self.rewinds.lock().unwrap().push(match requester {
            RewindRequester::User => "user",
            RewindRequester::Gateway(_) => "gateway",
        });
        Box::pin(async { Ok(FileRewindReport::default()) })
    }

    fn load_catalog(
        &self,
        _dialect: DialectName,
    ) -> BoxFuture<'_, Result<ToolCatalog, ToolBackendError>> {
        let look = CatalogEntry {
            name: "look".to_owned(),
            canonical: "Read".to_owned(),
            display_name: None,
            description: "Looks".to_owned(),
            input_schema: json!({"type": "object"}),
            kind: zero_core::ToolKind::Read,
            read_only: true,
            info: None,
        };
        let catalog = ToolCatalog { tools: vec![look].into(), ..ToolCatalog::default() };
        Box::pin(async { Ok(catalog) })
    }

    fn call(
        &self,
        call: ToolCall,
        _dialect: DialectName,
        _cancel: CancellationToken,
        watch: Arc<dyn CallObserver>,
    ) -> BoxFuture<'_, ToolOutcome> {
        self.calls.lock().unwrap().push(call.id.into());
        let locality = zero_core::FileLocation { path: "a".into(), line: None };
        watch.on_described("Look at a".to_owned(), zero_core::ToolKind::Search, vec![locality]);
        Box::pin(async move {
            tokio::time::sleep(self.takes).await;
            ToolResult::text("seen").into()
        })
    }

    fn set_mode(
        &self,
        mode: Option<PermissionMode>,
    ) -> BoxFuture<'_, Result<(), ToolBackendError>> {
        self.modes.lock().unwrap().extend(mode);
        Box::pin(async { Ok(()) })
    }

    fn folder(&self) -> Option<std::path::PathBuf> {
        None
    }

    fn location(&self) -> String {
        "a test".to_owned()
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
