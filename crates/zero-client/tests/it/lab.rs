//! Real sessions with a scripted model behind a gateway, reached by a pipe or by the network.

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
    Dial, Dialled, Heard, Link, LinkError, Near, News, Opening, Overlap, Place, Sending,
};
use zero_core::event::{Event, RunEnd, ToolStatus, What};
use zero_gateway::{
    AuthConfig, Gateway, GatewayConfig, GatewayLimits, MetricsSource, Plaintext, Principal,
};
use zero_runtime::DialectName;
use zero_runtime::metrics::ToolStats;
use zero_runtime::tool::BoxFuture;
use zero_session::Mode;
use zero_session::agent::Agents;
use zero_session::event::Usage;
use zero_session::hands::{
    Bench, BenchTool, CallEnd, Hands, HandsCall, HandsError, HandsFactory, HandsOrder, HandsWatch,
};
use zero_session::local_bus::LocalBus;
use zero_session::message::{Block, ToolInput};
use zero_session::model::catalogue::Models;
use zero_session::model::{Model, ModelEvent, ModelInfo, ModelRequest, ModelStream, Reply, Stop};
use zero_session::sessions::{SessionLimits, Sessions, SessionsConfig};
use zero_session::sqlite_store::SqliteStore;
use zero_wire::client::{Client, ConnectOptions, Credentials, Target};
use zero_wire::method::Scope;
use zero_wire::pipe::pipe;

/// Longer than anything here takes, so that a test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const TOKEN: &str = "a-token-0123456789abcdef";

pub(crate) struct Lab {
    pub(crate) gateway: Gateway,
    pub(crate) sessions: Sessions,
    /// The model waits for one of these at each `@wait`.
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) folder: Arc<TempDir>,
}

impl Lab {
    /// A gateway whose model gives these answers, one after the other.
    pub(crate) async fn start(answers: &[&str]) -> Self {
        Self::over(Arc::new(TempDir::new().unwrap()), answers).await
    }

    /// The same, on what another one left.
    pub(crate) async fn over(folder: Arc<TempDir>, answers: &[&str]) -> Self {
        let store = SqliteStore::open(&folder.path().join("sessions.db")).unwrap();
        let gate = Arc::new(Semaphore::new(0));
        let model: Arc<dyn Model> = Arc::new(Scripted::new(answers, Arc::clone(&gate)));
        let sessions = Sessions::start(SessionsConfig {
            store: Arc::new(store),
            bus: Arc::new(LocalBus::new()),
            agents: Agents::new(Vec::new(), None),
            models: Models::new(vec![model], Some("scripted".to_owned())),
            hands: Arc::new(NoHands),
            cwd: PathBuf::from("/"),
            nodes: Arc::new(zero_session::nodes::Alone::new("test")),
            limits: SessionLimits::default(),
        })
        .await
        .unwrap();
        let me = Principal::new("me", vec![Scope::Admin]);
        let gateway = Gateway::new(GatewayConfig {
            sessions: sessions.clone(),
            auth: AuthConfig::nobody().with_token(TOKEN, me).unwrap(),
            limits: GatewayLimits::default(),
            version: "1.2.3".to_owned(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            tool_metrics: Arc::new(NoTools),
        });
        Self { gateway, sessions, gate, folder }
    }

    /// Serves on a port.
    pub(crate) async fn listen(&self, at: SocketAddr) -> SocketAddr {
        let listening = self.gateway.listen(at, None, Plaintext::ThisMachine).await.unwrap();
        let address = listening.address();
        let gateway = self.gateway.clone();
        tokio::spawn(async move { gateway.serve(listening, CancellationToken::new()).await });
        address
    }

    /// A link by pipe.
    pub(crate) fn link(&self) -> Link {
        self.link_of(Principal::new("me", vec![Scope::Admin]))
    }

    /// The same for somebody else.
    pub(crate) fn link_of(&self, who: Principal) -> Link {
        Link::new(Arc::new(PipeDial(self.gateway.clone(), who)))
    }

    /// Lets the model go on, so often.
    pub(crate) fn go_on(&self, times: usize) {
        self.gate.add_permits(times);
    }
}

struct PipeDial(Gateway, Principal);

impl Dial for PipeDial {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, LinkError>> {
        Box::pin(async {
            let (near, far) = pipe();
            self.0.attach(far, self.1.clone());
            let (client, events) = Client::connect(Target::Pipe(near), options()).await?;
            Ok(Dialled { client, events, place: Place::Here })
        })
    }

    fn whereabouts(&self) -> String {
        "this process".to_owned()
    }
}

/// Dials an address, and counts how often.
pub(crate) struct NetDial {
    pub(crate) address: SocketAddr,
    pub(crate) token: &'static str,
    pub(crate) dials: AtomicUsize,
}

impl NetDial {
    pub(crate) fn to(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self { address, token: TOKEN, dials: AtomicUsize::new(0) })
    }
}

impl Dial for NetDial {
    fn dial(&self) -> BoxFuture<'_, Result<Dialled, LinkError>> {
        Box::pin(async {
            self.dials.fetch_add(1, Ordering::Relaxed);
            let target = Target::Url(format!("ws://{}", self.address).parse().unwrap());
            let options = ConnectOptions { auth: Credentials::token(self.token), ..options() };
            let (client, events) = Client::connect(target, options).await?;
            Ok(Dialled { client, events, place: Place::Elsewhere })
        })
    }

    fn whereabouts(&self) -> String {
        self.address.to_string()
    }
}

fn options() -> ConnectOptions {
    let caps = ["zero-events", "tool-events", "exec-approvals"].map(str::to_owned).to_vec();
    ConnectOptions { caps, ..ConnectOptions::default() }
}

pub(crate) fn keyed(key: &str) -> Opening {
    Opening { key: Some(key.to_owned()), ..Opening::default() }
}

pub(crate) fn sending(run: &str, text: &str) -> Sending {
    Sending {
        run: run.to_owned(),
        text: text.to_owned(),
        attachments: Vec::new(),
        thinking: None,
        overlap: Overlap::Queue,
    }
}

pub(crate) async fn open(link: &Link, key: &str) -> (Near, Heard) {
    timeout(PATIENCE, link.open(keyed(key))).await.unwrap().unwrap()
}

/// The next news.
pub(crate) async fn news(heard: &mut Heard) -> News {
    timeout(PATIENCE, heard.next()).await.expect("nothing came").expect("it was left")
}

/// Entries up to the first that is wanted, which is the last of them, and what else was heard.
pub(crate) async fn until(
    heard: &mut Heard,
    wanted: impl Fn(&News) -> bool,
) -> (Vec<Event>, Vec<News>) {
    let (mut entries, mut others) = (Vec::new(), Vec::new());
    loop {
        let news = news(heard).await;
        let found = wanted(&news);
        match news {
            News::Entry(event) => entries.push(event),
            other => others.push(other),
        }
        if found {
            return (entries, others);
        }
    }
}

pub(crate) fn is_end(news: &News) -> bool {
    matches!(news, News::Entry(Event { what: What::RunEnded { .. }, .. }))
}

pub(crate) fn is_text(news: &News) -> bool {
    matches!(news, News::Entry(Event { what: What::Text { .. }, .. }))
}

/// All that was said.
pub(crate) fn said(entries: &[Event]) -> String {
    let text = |event: &Event| match &event.what {
        What::Text { text } => Some(text.clone()),
        _ => None,
    };
    entries.iter().filter_map(text).collect()
}

/// How the run ended.
#[track_caller]
pub(crate) fn end(entries: &[Event]) -> RunEnd {
    let ends = entries.iter().filter_map(|event| match &event.what {
        What::RunEnded { end, .. } => Some(end.clone()),
        _ => None,
    });
    let mut ends: Vec<RunEnd> = ends.collect();
    assert_eq!(ends.len(), 1, "{entries:?}");
    ends.remove(0)
}

/// That each entry follows the one before it.
#[track_caller]
pub(crate) fn check_numbers(entries: &[Event]) {
    for pair in entries.windows(2) {
        assert_eq!(pair[1].seq, pair[0].seq + 1, "{:?} after {:?}", pair[1], pair[0]);
    }
}

/// Answers by a script: words are text, `name:id` is a call, `@wait` waits for the gate.
struct Scripted {
    info: ModelInfo,
    answers: Mutex<VecDeque<String>>,
    gate: Arc<Semaphore>,
}

impl Scripted {
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

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: ModelRequest, _cancel: CancellationToken) -> ModelStream {
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_default();
        let (mut steps, mut blocks, mut stop) = (Vec::new(), Vec::new(), Stop::End);
        for word in answer.split_whitespace() {
            if word == "@wait" {
                steps.push(None);
            } else if let Some((name, id)) = word.split_once(':') {
                stop = Stop::ToolUse;
                blocks.push(Block::ToolUse {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    input: ToolInput::from(json!({"path": id})),
                    opaque: Value::Null,
                });
            } else {
                steps.push(Some(ModelEvent::Text(format!("{word} "))));
                blocks.push(Block::text(format!("{word} ")));
            }
        }
        let usage = Usage { input_tokens: 10, output_tokens: 1, ..Usage::default() };
        steps.push(Some(ModelEvent::Done(Reply { blocks, stop, usage })));
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

/// Nothing can be done with the gateway itself.
struct NoHands;

impl HandsFactory for NoHands {
    fn open(&self, _order: HandsOrder) -> BoxFuture<'_, Result<Arc<dyn Hands>, HandsError>> {
        Box::pin(async { Ok(Arc::new(Looking::default()) as Arc<dyn Hands>) })
    }
}

/// Hands with one tool, which remember what they did.
#[derive(Default)]
pub(crate) struct Looking {
    pub(crate) calls: Mutex<Vec<String>>,
    pub(crate) modes: Mutex<Vec<Mode>>,
    /// How long a call takes after it said what it does.
    pub(crate) takes: Duration,
}

impl Hands for Looking {
    fn bench(&self, _dialect: DialectName) -> BoxFuture<'_, Result<Bench, HandsError>> {
        let look = BenchTool {
            name: "look".to_owned(),
            canonical: "Read".to_owned(),
            description: "Looks".to_owned(),
            input_schema: json!({"type": "object"}),
            kind: zero_core::Kind::Read,
            read_only: true,
        };
        let bench = Bench { tools: vec![look].into(), ..Bench::default() };
        Box::pin(async { Ok(bench) })
    }

    fn call(
        &self,
        call: HandsCall,
        _cancel: CancellationToken,
        watch: Arc<dyn HandsWatch>,
    ) -> BoxFuture<'_, CallEnd> {
        self.calls.lock().unwrap().push(call.id);
        let place = zero_core::event::Place { path: "a".to_owned(), line: None };
        watch.described("Look at a".to_owned(), zero_core::Kind::Search, vec![place]);
        Box::pin(async move {
            tokio::time::sleep(self.takes).await;
            CallEnd::words(ToolStatus::Completed, "seen")
        })
    }

    fn set_mode(&self, mode: Mode) -> BoxFuture<'_, Result<(), HandsError>> {
        self.modes.lock().unwrap().push(mode);
        Box::pin(async { Ok(()) })
    }

    fn folder(&self) -> Option<std::path::PathBuf> {
        None
    }

    fn whereabouts(&self) -> String {
        "a test".to_owned()
    }
}

struct NoTools;

impl MetricsSource for NoTools {
    fn tools(&self) -> BTreeMap<String, ToolStats> {
        BTreeMap::new()
    }

    fn queue_depth(&self) -> u64 {
        0
    }

    fn in_flight(&self) -> u64 {
        0
    }
}
