//! Real sessions with a scripted model behind a gateway, and clients on pipes.

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
use zero_runtime::metrics::ToolStats;
use zero_runtime::tool::BoxFuture;
use zero_session::agent::Agents;
use zero_session::event::Usage;
use zero_session::hands::{Hands, HandsError, HandsFactory, HandsOrder};
use zero_session::local_bus::LocalBus;
use zero_session::message::{Block, ToolInput};
use zero_session::model::catalogue::Models;
use zero_session::model::{Model, ModelEvent, ModelInfo, ModelRequest, ModelStream, Reply, Stop};
use zero_session::sessions::{SessionLimits, Sessions, SessionsConfig};
use zero_session::sqlite_store::SqliteStore;
use zero_wire::client::{Client, ClientError, ConnectOptions, Events, Target};
use zero_wire::handshake::{ClientId, ClientInfo, ClientMode};
use zero_wire::method::Scope;
use zero_wire::pipe::pipe;
use zero_wire::{EventFrame, Method};

/// Longer than anything here takes, so that a test fails instead of hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Lab {
    pub(crate) gateway: Gateway,
    pub(crate) sessions: Sessions,
    _folder: TempDir,
}

impl Lab {
    /// A gateway whose model gives these answers, one after the other.
    pub(crate) async fn start(answers: &[&str]) -> Self {
        Self::with(answers, GatewayLimits::default()).await
    }

    /// The same with other bounds.
    pub(crate) async fn with(answers: &[&str], limits: GatewayLimits) -> Self {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::open(&folder.path().join("sessions.db")).unwrap();
        let model: Arc<dyn Model> = Arc::new(Scripted::new(answers));
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
        let gateway = Gateway::new(GatewayConfig {
            sessions: sessions.clone(),
            auth: AuthConfig::nobody(),
            limits,
            version: "1.2.3".to_owned(),
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            tool_metrics: Arc::new(NoTools),
        });
        Self { gateway, sessions, _folder: folder }
    }

    /// A client of somebody.
    pub(crate) async fn connect(&self, name: &str, scopes: &[Scope], caps: &[&str]) -> Desk {
        self.connect_as(Principal::new(name, scopes.to_vec()), caps).await
    }

    pub(crate) async fn connect_as(&self, who: Principal, caps: &[&str]) -> Desk {
        let (client, server) = pipe();
        self.gateway.attach(server, who);
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
        let (client, events) = Client::connect(Target::Pipe(client), options).await.unwrap();
        Desk { client, events }
    }
}

/// A client and what it hears.
pub(crate) struct Desk {
    pub(crate) client: Client,
    pub(crate) events: Events,
}

impl Desk {
    /// Asks, with parameters as JSON.
    pub(crate) async fn ask<M: Method>(&self, params: Value) -> M::Result {
        let params = serde_json::from_value(params).unwrap();
        timeout(PATIENCE, self.client.request::<M>(params)).await.unwrap().unwrap()
    }

    /// Asks for what will be refused; gives code and message.
    pub(crate) async fn refused<M: Method>(&self, params: Value) -> String {
        let params = serde_json::from_value(params).unwrap();
        match timeout(PATIENCE, self.client.request::<M>(params)).await.unwrap() {
            Err(ClientError::Refused { error }) => format!("{:?} {}", error.code, error.message),
            Err(other) => panic!("not refused but {other}"),
            Ok(_) => panic!("not refused"),
        }
    }

    /// The next event that is no tick.
    pub(crate) async fn next(&mut self) -> EventFrame {
        loop {
            let event = timeout(PATIENCE, self.events.next()).await.unwrap().unwrap();
            if event.event != "tick" {
                return event;
            }
        }
    }

    /// Events up to the first that is wanted, which is the last of them.
    pub(crate) async fn until(&mut self, wanted: impl Fn(&str, &Value) -> bool) -> Vec<EventFrame> {
        let mut heard = Vec::new();
        loop {
            let event = self.next().await;
            let found = wanted(&event.event, event.payload.as_ref().unwrap_or(&Value::Null));
            heard.push(event);
            if found {
                return heard;
            }
        }
    }

    /// Events up to the end of a run, as the family hears it.
    pub(crate) async fn until_end(&mut self) -> Vec<EventFrame> {
        let over = |state: &Value| ["final", "aborted", "error"].iter().any(|end| state == end);
        self.until(|name, payload| name == "chat" && over(&payload["state"])).await
    }
}

/// Answers by a script: words are text, `name:id` is a call, `@hang` never ends.
struct Scripted {
    info: ModelInfo,
    answers: Mutex<VecDeque<String>>,
}

impl Scripted {
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

impl Model for Scripted {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream(&self, _request: ModelRequest, _cancel: CancellationToken) -> ModelStream {
        let answer = self.answers.lock().unwrap().pop_front().unwrap_or_default();
        let (mut events, mut blocks, mut stop) = (Vec::new(), Vec::new(), Stop::End);
        for word in answer.split_whitespace().filter(|word| *word != "@hang") {
            if let Some((name, id)) = word.split_once(':') {
                stop = Stop::ToolUse;
                blocks.push(Block::ToolUse {
                    id: id.to_owned(),
                    name: name.to_owned(),
                    input: ToolInput::from(json!({"path": id})),
                    opaque: Value::Null,
                });
            } else {
                events.push(Ok(ModelEvent::Text(format!("{word} "))));
                blocks.push(Block::text(format!("{word} ")));
            }
        }
        if answer.ends_with("@hang") {
            return Box::pin(stream::iter(events).chain(stream::pending()));
        }
        let usage = Usage { input_tokens: 10, output_tokens: 1, ..Usage::default() };
        events.push(Ok(ModelEvent::Done(Reply { blocks, stop, usage })));
        Box::pin(stream::iter(events))
    }
}

/// Nothing can be done with the gateway itself.
struct NoHands;

impl HandsFactory for NoHands {
    fn open(&self, _order: HandsOrder) -> BoxFuture<'_, Result<Arc<dyn Hands>, HandsError>> {
        Box::pin(async { Ok(Arc::new(Bare) as Arc<dyn Hands>) })
    }
}

struct Bare;

impl Hands for Bare {
    fn bench(
        &self,
        _dialect: zero_runtime::DialectName,
    ) -> BoxFuture<'_, Result<zero_session::hands::Bench, HandsError>> {
        Box::pin(async { Ok(zero_session::hands::Bench::default()) })
    }

    fn call(
        &self,
        call: zero_session::hands::HandsCall,
        _cancel: CancellationToken,
        _watch: Arc<dyn zero_session::hands::HandsWatch>,
    ) -> BoxFuture<'_, zero_session::hands::CallEnd> {
        panic!("the gateway must not run `{}`", call.tool)
    }

    fn set_mode(&self, _mode: zero_session::Mode) -> BoxFuture<'_, Result<(), HandsError>> {
        Box::pin(async { Ok(()) })
    }

    fn whereabouts(&self) -> String {
        "nowhere".to_owned()
    }

    fn folder(&self) -> Option<std::path::PathBuf> {
        None
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
