//! A client that sends prompts to one session, hosts its tools if it has some, and remembers everything that
//! it was told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zero_client::url_dialer::UrlDialer;
use zero_client::{
    GatewayConnection, GatewayDialer, GatewayLink, GatewayLinkError, GatewayUpdate, OpenRequest,
    OverlapPolicy, SendRequest, SessionHandle, SessionUpdates,
};
use zero_core::event::{Event, EventKind};
use zero_policy::PermissionMode;
use zero_runtime::tool::BoxFuture;
use zero_wire::client::{ConnectOptions, GatewayCredentials};

use crate::counting_tools::{CountingTools, TOOL};
use crate::gateway_node::TOKEN;

/// How long a lost connection is redialled: longer than any fault.
const RECONNECT_MAX: Duration = Duration::from_secs(120);
/// How long a gateway may take to accept a connection.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Pause before a request that was refused is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// Where the tools of a session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionKind {
    /// It has none.
    Talk,
    /// At its client.
    ClientTools,
}

/// What a client knows in the end.
pub(crate) struct ClientHistory {
    pub(crate) key: String,
    /// Runs whose prompts a gateway has acknowledged.
    pub(crate) acknowledged: Vec<String>,
    /// Entries that it was shown.
    pub(crate) shown: Vec<Event>,
    /// How often each effect happened.
    pub(crate) effects: BTreeMap<String, u64>,
    /// Reasons of refusals, and how often they were given. The prompts were sent again.
    pub(crate) refusals: BTreeMap<String, u64>,
    /// What it did not get in time.
    pub(crate) missing: Vec<String>,
}

/// The client as it works.
pub(crate) struct SessionClient {
    shared: Arc<SharedState>,
    worker: JoinHandle<()>,
}

struct SharedState {
    key: String,
    kind: SessionKind,
    tools: Arc<CountingTools>,
    is_stopping: AtomicBool,
    acknowledged: Mutex<Vec<String>>,
    shown: watch::Sender<Vec<Event>>,
    refusals: Mutex<BTreeMap<String, u64>>,
}

impl SessionClient {
    pub(crate) fn start(
        kind: SessionKind,
        number: usize,
        seed: u64,
        gateways: Vec<SocketAddr>,
    ) -> Self {
        let key = match kind {
            SessionKind::Talk => format!("agent:talker:talk-{number}"),
            SessionKind::ClientTools => format!("agent:main:tools-{number}"),
        };
        let shared = Arc::new(SharedState {
            key,
            kind,
            tools: Arc::default(),
            is_stopping: AtomicBool::new(false),
            acknowledged: Mutex::default(),
            shown: watch::Sender::new(Vec::new()),
            refusals: Mutex::default(),
        });
        let first = AtomicUsize::new(number);
        let link = GatewayLink::with_reconnect_max(
            Arc::new(AnyGateway { gateways, next: first }),
            RECONNECT_MAX,
        );
        let worker = tokio::spawn(work(Arc::clone(&shared), link, seed));
        Self { shared, worker }
    }

    /// Waits for the end of what it has begun.
    pub(crate) async fn finish(mut self, until: Instant) -> ClientHistory {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        let mut missing = Vec::new();
        let ended = tokio::time::timeout_at(until.into(), &mut self.worker).await;
        match ended {
            Ok(ended) => ended.unwrap(),
            Err(_) => {
                self.worker.abort();
                missing.push(format!("{}: its last run did not end in time", self.shared.key));
            }
        }
        ClientHistory {
            key: self.shared.key.clone(),
            acknowledged: self.shared.acknowledged.lock().unwrap().clone(),
            shown: self.shared.shown.borrow().clone(),
            effects: self.shared.tools.counts(),
            refusals: self.shared.refusals.lock().unwrap().clone(),
            missing,
        }
    }
}

async fn work(shared: Arc<SharedState>, link: GatewayLink, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let handle = loop {
        match open(&shared, &link).await {
            Ok((handle, updates)) => {
                tokio::spawn(remember(Arc::clone(&shared), updates));
                break handle;
            }
            Err(error) => shared.refuse("open", &error).await,
        }
    };
    let name = shared.key.replace(':', "-");
    for number in 0.. {
        if shared.is_stopping.load(Ordering::Relaxed) {
            break;
        }
        let run = format!("{name}-{number}");
        let sending = SendRequest {
            run: run.clone(),
            text: script(shared.kind, &run, &mut random),
            attachments: Vec::new(),
            thinking: None,
            overlap: OverlapPolicy::Queue,
        };
        // With the same id, it is the same prompt.
        while let Err(error) = handle.send(sending.clone()).await {
            shared.refuse("send", &error).await;
        }
        shared.acknowledged.lock().unwrap().push(run.clone());
        let mut shown = shared.shown.subscribe();
        let has_ended = |events: &Vec<Event>| {
            events.iter().rev().any(|event| {
                matches!(event.kind, EventKind::RunEnded { .. })
                    && event.run.as_ref().is_some_and(|id| id.to_string() == run)
            })
        };
        let _ = shown.wait_for(has_ended).await;
        tokio::time::sleep(Duration::from_millis(random.u64(0..300))).await;
    }
    link.close().await;
}

async fn open(
    shared: &SharedState,
    link: &GatewayLink,
) -> Result<(SessionHandle, SessionUpdates), GatewayLinkError> {
    let key = Some(shared.key.clone());
    let (handle, updates) = link.open(OpenRequest { key, ..OpenRequest::default() }).await?;
    if shared.kind == SessionKind::ClientTools {
        handle.host_tools("counter", shared.tools.clone(), PermissionMode::Auto).await?;
    }
    Ok((handle, updates))
}

async fn remember(shared: Arc<SharedState>, mut updates: SessionUpdates) {
    while let Some(update) = updates.next().await {
        match update {
            GatewayUpdate::Entry(event) => shared.shown.send_modify(|shown| shown.push(event)),
            GatewayUpdate::Lost(error) => shared.count_refusal("updates", &error.to_string()),
            GatewayUpdate::Displaced { host } => shared.count_refusal("displaced by", &host),
            GatewayUpdate::Unrecorded(_) => shared.count_refusal("unrecorded", ""),
            GatewayUpdate::Disconnected | GatewayUpdate::Reconnected => {}
        }
    }
}

impl SharedState {
    async fn refuse(&self, what: &str, error: &GatewayLinkError) {
        self.count_refusal(what, &error.to_string());
        tokio::time::sleep(RETRY_PAUSE).await;
    }

    fn count_refusal(&self, what: &str, error: &str) {
        *self.refusals.lock().unwrap().entry(format!("{what}: {error}")).or_default() += 1;
    }
}

/// What the model says and calls in a run.
fn script(kind: SessionKind, run: &str, random: &mut fastrand::Rng) -> String {
    let mut text = "script:\n".to_owned();
    for number in 0..random.usize(1..4) {
        let (before, takes) = (random.u64(0..400), random.u64(0..400));
        text.push_str(&format!("say words before {number}\nwait {before}\nsay and after\n"));
        if kind == SessionKind::ClientTools {
            let effect = format!("{run}-{number}");
            text.push_str(&format!(
                "call {TOOL} {{\"effect\":\"{effect}\",\"ms\":{takes}}}\nturn\n"
            ));
        }
    }
    text.push_str("say the end");
    text
}

/// Dials one gateway after the other, as clients behind a load balancer do.
struct AnyGateway {
    gateways: Vec<SocketAddr>,
    next: AtomicUsize,
}

impl GatewayDialer for AnyGateway {
    fn dial(&self) -> BoxFuture<'_, Result<GatewayConnection, GatewayLinkError>> {
        Box::pin(async {
            let number = self.next.fetch_add(1, Ordering::Relaxed) % self.gateways.len();
            let url = format!("ws://{}", self.gateways[number]).parse().unwrap();
            let auth = GatewayCredentials::token(TOKEN);
            let options =
                ConnectOptions { auth, timeout: CONNECT_MAX, ..ConnectOptions::default() };
            UrlDialer::new(url, options).dial().await
        })
    }

    fn location(&self) -> String {
        "the cluster".to_owned()
    }
}
