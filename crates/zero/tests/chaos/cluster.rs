//! Three gateways, a database, a bus and a model.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;
use zero_core::event::Event;
use zero_wire::client::{ConnectOptions, GatewayClient, GatewayCredentials, GatewayTarget};
use zero_wire::zero_sessions::{SessionEventsParams, ZeroSessionsEvents};

use crate::database_history::DatabaseHistory;
use crate::gateway_node::{GatewayNode, TOKEN};
use crate::link_proxy::LinkMode;
use crate::model_server::ModelServer;
use crate::nats_server::NatsServer;
use crate::postgres_server::PostgresServer;
use crate::session_client::ClientHistory;

/// Number of gateways.
pub(crate) const NODES: usize = 3;
/// How long a gateway may take to answer when nothing is wrong any more.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Everything that faults happen to.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<GatewayNode>,
    pub(crate) postgres: PostgresServer,
    pub(crate) nats: NatsServer,
    _model: ModelServer,
}

/// What each gateway says that the ledger of each session is.
pub(crate) type Ledgers = BTreeMap<String, Vec<Vec<Event>>>;

impl Cluster {
    pub(crate) async fn start() -> Self {
        let (postgres, nats, model) =
            (PostgresServer::start(), NatsServer::start(), ModelServer::start());
        let settings = model.settings_json(json!({
            "agents": {"talker": {"tools": []}},
            "gateway": {"tokens": {"user": {"secret": {"file": "~/token"}, "scopes": ["admin"]}}},
        }));
        let local = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let (database, bus) = (local(postgres.port()), local(nats.port()));
            let mut node = GatewayNode::new(number, &settings, database, bus).await;
            node.start().await;
            nodes.push(node);
        }
        DatabaseHistory::record(&postgres).await;
        Self { nodes, postgres, nats, _model: model }
    }

    /// Where clients find the gateways.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.clients.address()).collect()
    }

    /// Opens all links.
    pub(crate) async fn heal(&mut self) {
        for node in &self.nodes {
            for link in [&node.database, &node.bus, &node.clients] {
                link.set(LinkMode::Open);
            }
        }
    }

    /// Waits until each gateway is ready and has no run.
    pub(crate) async fn wait_until_idle(&self, until: Instant) {
        for node in &self.nodes {
            for (path, text) in [("/readyz", "200 OK"), ("/metrics", "\nzero_runs_running 0\n")] {
                loop {
                    let answer = http_get(node.address(), path);
                    if answer.contains(text) {
                        break;
                    }
                    assert!(Instant::now() < until, "no `{text}` in {answer}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    pub(crate) async fn read_ledgers(&self, histories: &[ClientHistory]) -> Ledgers {
        let mut ledgers = Ledgers::new();
        for node in &self.nodes {
            let auth = GatewayCredentials::token(TOKEN);
            let options = ConnectOptions { auth, ..ConnectOptions::default() };
            let target = GatewayTarget::Url(format!("ws://{}", node.address()).parse().unwrap());
            let (client, _events) = GatewayClient::connect(target, options).await.unwrap();
            for history in histories {
                let mut ledger: Vec<Event> = Vec::new();
                loop {
                    let after = ledger.last().map_or(0, |event| event.seq);
                    let session_key = history.key.clone();
                    let params = SessionEventsParams { session_key, after, limit: None };
                    let page = client.request_within::<ZeroSessionsEvents>(params, ANSWER_MAX);
                    let page = page.await.unwrap();
                    ledger.extend(page.events);
                    if !page.has_more {
                        break;
                    }
                }
                ledgers.entry(history.key.clone()).or_default().push(ledger);
            }
        }
        ledgers
    }

    pub(crate) async fn database_history(&self) -> DatabaseHistory {
        DatabaseHistory::read(&self.postgres).await
    }

    /// Copies the logs of the gateways to where somebody can read them.
    pub(crate) fn keep_logs(&self) -> PathBuf {
        let folder = tempfile::Builder::new().prefix("zero-chaos-").tempdir_in("/var/tmp").unwrap();
        let folder = folder.keep();
        for node in &self.nodes {
            node.copy_log(&folder);
        }
        folder
    }
}

fn http_get(address: SocketAddr, path: &str) -> String {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    ask().unwrap_or_else(|error| error.to_string())
}
