//! The bus over a real NATS server: the conformance suite, what happens when the server is away, and what
//! others on the server can do.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use tokio::sync::Notify;
use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;
use zero_session::last_seq_store::LastSeqStore;
use zero_session::nats_node_bus::{NatsNodeBus, NatsOptions};
use zero_session::node_bus::{
    BusSecret, ClusterIdentity, ClusterName, DoorbellSignal, NodeBus, NodeBusError, NodeBusState,
    NodeBusStore,
};
use zero_session::store::StoreError;

use crate::nats_server::NatsServer;
use crate::node_bus_conformance::{TestHandler, TestNetwork, check_node_bus, session, wait_for};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(60);

/// What the processes of one cluster share.
struct TestStore {
    name: ClusterName,
    secret: u8,
    seqs: Mutex<HashMap<SessionId, u64>>,
}

impl TestStore {
    fn new(name: &str, secret: u8) -> Arc<Self> {
        let name = ClusterName::new(name).unwrap();
        Arc::new(Self { name, secret, seqs: Mutex::default() })
    }

    fn set(&self, session: &SessionId, seq: u64) {
        self.seqs.lock().unwrap().insert(session.clone(), seq);
    }
}

impl LastSeqStore for TestStore {
    fn last_seqs(
        &self,
        sessions: Vec<SessionId>,
    ) -> BoxFuture<'_, Result<Vec<(SessionId, u64)>, StoreError>> {
        let seqs = self.seqs.lock().unwrap();
        let found = sessions.into_iter().filter_map(|session| {
            let seq = *seqs.get(&session)?;
            Some((session, seq))
        });
        let found = found.collect();
        Box::pin(std::future::ready(Ok(found)))
    }
}

impl NodeBusStore for TestStore {
    fn cluster(&self) -> BoxFuture<'_, Result<ClusterIdentity, StoreError>> {
        let secret = BusSecret::new([self.secret; BusSecret::BYTES]);
        let identity = ClusterIdentity { name: self.name.clone(), secret };
        Box::pin(std::future::ready(Ok(identity)))
    }

    fn join(
        self: Arc<Self>,
        _node: &str,
    ) -> BoxFuture<'static, Result<Arc<dyn NodeBus>, StoreError>> {
        Box::pin(std::future::ready(Err(StoreError::Busy)))
    }
}

async fn join_at(options: NatsOptions, node: &str, store: &Arc<TestStore>) -> NatsNodeBus {
    NatsNodeBus::open(&options, node, store.clone()).await.unwrap()
}

async fn join(server: &NatsServer, node: &str, store: &Arc<TestStore>) -> NatsNodeBus {
    join_at(NatsOptions { url: server.url(""), ..NatsOptions::default() }, node, store).await
}

fn is_connected(bus: &NatsNodeBus) -> bool {
    bus.status().state == NodeBusState::Connected
}

/// Why there is no connection.
fn problem(bus: &NatsNodeBus) -> String {
    match bus.status().state {
        NodeBusState::Connected => String::new(),
        NodeBusState::Disconnected { why } => why,
    }
}

async fn wait_until(mut is_done: impl FnMut() -> bool) {
    let waiting = async {
        while !is_done() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.unwrap();
}

/// Clusters on one server.
struct NatsNetwork {
    server: NatsServer,
    stores: Mutex<HashMap<String, Arc<TestStore>>>,
}

impl NatsNetwork {
    fn store(&self, cluster: &str) -> Arc<TestStore> {
        let mut stores = self.stores.lock().unwrap();
        let store = || TestStore::new(cluster, cluster.as_bytes()[0]);
        Arc::clone(stores.entry(cluster.to_owned()).or_insert_with(store))
    }
}

impl TestNetwork for NatsNetwork {
    fn join<'a>(&'a self, cluster: &'a str, node: &'a str) -> BoxFuture<'a, Arc<dyn NodeBus>> {
        let store = self.store(cluster);
        Box::pin(async move {
            let bus = join(&self.server, node, &store).await;
            assert_eq!(bus.status().state, NodeBusState::Connected);
            Arc::new(bus) as Arc<dyn NodeBus>
        })
    }

    fn store_seq<'a>(
        &'a self,
        cluster: &'a str,
        session: &'a SessionId,
        seq: u64,
    ) -> BoxFuture<'a, ()> {
        self.store(cluster).set(session, seq);
        Box::pin(std::future::ready(()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nats_node_bus_passes_conformance() {
    check_node_bus(|| async {
        let network = NatsNetwork { server: NatsServer::start(), stores: Mutex::default() };
        Arc::new(network) as Arc<dyn TestNetwork>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lost_ring_is_found_in_the_store() {
    let server = NatsServer::start();
    let store = TestStore::new("c", 1);
    let bus = join(&server, "x", &store).await;
    let a = session("a");
    let mut doorbell = bus.doorbell(&a);
    // The last entry of a session, for which nobody rings.
    store.set(&a, 7);
    wait_for(&mut doorbell, 7).await;
    store.seqs.lock().unwrap().clear();
    assert_eq!(doorbell.rung().await, DoorbellSignal::Removed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn bus_survives_restart_of_the_server() {
    let mut server = NatsServer::start();
    let store = TestStore::new("c", 1);
    let (x, y) = (Arc::new(join(&server, "x", &store).await), join(&server, "y", &store).await);
    let (begun, gate) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (beginning, passing) = (Arc::clone(&begun), Arc::clone(&gate));
    y.serve(TestHandler::new(move |_, body| {
        let (begun, gate) = (Arc::clone(&beginning), Arc::clone(&passing));
        async move {
            if &body[..] == b"slow" {
                begun.notify_one();
                gate.notified().await;
            }
            body
        }
    }));
    assert!(x.status().round_trip.is_some());
    let asking = Arc::clone(&x);
    let waiting = tokio::spawn(async move { asking.request("y", "slow".into(), LONG).await });
    begun.notified().await;
    let a = session("a");
    let mut doorbell = y.doorbell(&a);
    server.stop();
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(&error, NodeBusError::Interrupted { .. }), "{error}");
    assert!(error.may_have_run());
    wait_until(|| !is_connected(&x) && !is_connected(&y)).await;
    let error = x.request("y", Bytes::new(), LONG).await.unwrap_err();
    assert!(matches!(&error, NodeBusError::Unavailable { .. }), "{error}");
    assert!(!error.may_have_run());
    // Its own requests need no server.
    x.serve(TestHandler::echo());
    assert_eq!(x.request("x", Bytes::new(), LONG).await.unwrap(), "x: ");
    // The ring may come before `y` is back, which then finds the entry in the store.
    store.set(&a, 3);
    x.ring(&a, 3);
    server.run();
    wait_until(|| is_connected(&x) && is_connected(&y)).await;
    wait_for(&mut doorbell, 3).await;
    assert_eq!(x.request("y", "again".into(), LONG).await.unwrap(), "again");
    assert_eq!(x.status().counts.connections_lost, 1);
    gate.notify_one();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn process_starts_while_the_server_is_away() {
    let mut server = NatsServer::start();
    server.stop();
    let store = TestStore::new("c", 1);
    let bus = join(&server, "x", &store).await;
    assert!(problem(&bus).contains("cannot be reached"), "{}", problem(&bus));
    server.run();
    wait_until(|| is_connected(&bus)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn login_is_checked_and_never_shown() {
    let users = "authorization { users = [{user: me, password: correct-horse}] }";
    let with_user = NatsServer::start_with(users);
    let with_token = NatsServer::start_with("authorization { token: correct-horse }");
    let store = TestStore::new("c", 1);
    for (server, login) in [(&with_user, "me@"), (&with_token, "")] {
        for (secret, is_right) in [("correct-horse", true), ("hunter2", false)] {
            let (url, secret) = (server.url(login), Some(secret.to_owned()));
            let options = NatsOptions { url, secret, ..NatsOptions::default() };
            assert!(!format!("{options:?}").contains("hunter2"));
            let bus = join_at(options, "x", &store).await;
            assert_eq!(is_connected(&bus), is_right);
            let problem = problem(&bus);
            assert_eq!(problem.contains("refuses the login"), !is_right, "{problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
    // In the address, as in that of a database.
    let url = with_user.url("me:correct%2Dhorse@");
    let bus = join_at(NatsOptions { url, ..NatsOptions::default() }, "x", &store).await;
    assert!(is_connected(&bus));
    for (login, secret, problem) in [
        ("me@", None, "no password is set"),
        ("", Some("-----BEGIN NATS USER JWT-----\nhunter2"), "not a valid `.creds` file"),
    ] {
        let (url, secret) = (with_user.url(login), secret.map(str::to_owned));
        let options = NatsOptions { url, secret, ..NatsOptions::default() };
        let opened = NatsNodeBus::open(&options, "x", store.clone()).await;
        let Err(error) = opened else { panic!("{problem}") };
        let error = error.to_string();
        assert!(error.contains(problem) && !error.contains("hunter2"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rights_on_the_server_that_are_missing_are_reported() {
    let server = NatsServer::start_with(
        "authorization { users = [{user: me, password: p, permissions: {subscribe: [\"other\"]}}] }",
    );
    let options = NatsOptions { url: server.url("me:p@"), ..NatsOptions::default() };
    let bus = join_at(options, "x", &TestStore::new("c", 1)).await;
    let problem = problem(&bus).to_lowercase();
    assert!(problem.contains("permissions violation"), "{problem}");
}

fn pem(kind: &str, content: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(content);
    format!("-----BEGIN {kind}-----\n{text}\n-----END {kind}-----\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn encrypted_connection_needs_trusted_certificate() {
    let authority = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root = params.self_signed(&authority).unwrap();
    let issuer = rcgen::Issuer::new(params, authority);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = certificate.signed_by(&key, &issuer).unwrap();
    let server = NatsServer::start_with_files(
        "tls { cert_file: \"FOLDER/server.crt\", key_file: \"FOLDER/server.key\" }",
        &[
            ("server.crt", pem("CERTIFICATE", certificate.der())),
            ("server.key", pem("PRIVATE KEY", key.serialized_der())),
        ],
    );
    let store = TestStore::new("c", 1);
    let url = server.url("").replace("nats://", "tls://");
    let untrusted =
        join_at(NatsOptions { url: url.clone(), ..NatsOptions::default() }, "x", &store).await;
    assert!(!is_connected(&untrusted), "nobody trusts its certificate");
    let extra_roots = vec![root.der().to_vec()];
    let trusted =
        join_at(NatsOptions { url, extra_roots, ..NatsOptions::default() }, "y", &store).await;
    assert!(is_connected(&trusted), "{}", problem(&trusted));
    // A server that encrypts nothing is not used.
    let plain = NatsServer::start();
    let url = plain.url("").replace("nats://", "tls://");
    let bus = join_at(NatsOptions { url, ..NatsOptions::default() }, "z", &store).await;
    assert!(!is_connected(&bus));
}

/// Somebody else on the server, who speaks its protocol.
struct Intruder(TcpStream);

impl Intruder {
    fn connect(server: &NatsServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        stream.write_all(b"CONNECT {\"verbose\":false,\"headers\":true}\r\nPING\r\n").unwrap();
        let mut intruder = Self(stream);
        intruder.read_until(|text| text.windows(4).any(|window| window == b"PONG"));
        intruder
    }

    fn listen(&mut self) {
        self.0.write_all(b"SUB zero.> 1\r\nPING\r\n").unwrap();
        self.read_until(|text| text.windows(4).any(|window| window == b"PONG"));
    }

    fn publish(&mut self, subject: &str, payload: &[u8]) {
        write!(self.0, "PUB {subject} {}\r\n", payload.len()).unwrap();
        self.0.write_all(payload).unwrap();
        self.0.write_all(b"\r\n").unwrap();
    }

    fn read_until(&mut self, is_enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let (mut text, mut buffer) = (Vec::new(), [0; 65_536]);
        for _ in 0..100 {
            match self.0.read(&mut buffer) {
                Ok(0) => panic!("the server has closed the connection"),
                Ok(count) => text.extend(&buffer[..count]),
                Err(_) => {}
            }
            if is_enough(&text) {
                return text;
            }
        }
        panic!("{}", String::from_utf8_lossy(&text));
    }
}

/// The messages in what a server sends: subject and payload.
fn parse_messages(text: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut messages = Vec::new();
    let mut rest = text;
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let line = String::from_utf8_lossy(&rest[..end]).into_owned();
        rest = &rest[end + 2..];
        let words: Vec<&str> = line.split(' ').collect();
        if words[0] == "MSG" {
            let bytes: usize = words.last().unwrap().parse().unwrap();
            if rest.len() < bytes + 2 {
                break;
            }
            messages.push((words[1].to_owned(), rest[..bytes].to_vec()));
            rest = &rest[bytes + 2..];
        }
    }
    messages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn intruder_can_neither_read_nor_repeat_nor_forge() {
    let server = NatsServer::start();
    let store = TestStore::new("c", 1);
    let (x, y) = (join(&server, "x", &store).await, join(&server, "y", &store).await);
    let executed = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&executed);
    y.serve(TestHandler::new(move |_, body| {
        count.fetch_add(1, Ordering::SeqCst);
        async move { body }
    }));
    let mut intruder = Intruder::connect(&server);
    intruder.listen();
    assert_eq!(x.request("y", "secret prompt".into(), LONG).await.unwrap(), "secret prompt");
    let text = intruder.read_until(|text| parse_messages(text).len() >= 4);
    assert!(!text.windows(6).any(|window| window == b"secret"), "bodies are encrypted");
    let messages = parse_messages(&text);
    let ignored = || x.status().counts.messages_ignored + y.status().counts.messages_ignored;
    let before = ignored();
    for (subject, payload) in &messages {
        intruder.publish(subject, payload);
        let mut changed = payload.clone();
        if let Some(last) = changed.last_mut() {
            *last ^= 1;
        }
        intruder.publish(subject, &changed);
        intruder.publish(subject, b"garbage");
        intruder.publish(subject, b"");
    }
    // Messages to inboxes are of no use to anybody else.
    let sent = 4 * messages.iter().filter(|(subject, _)| !subject.contains(".inbox.")).count();
    wait_until(|| ignored() >= before + sent as u64).await;
    assert_eq!(executed.load(Ordering::SeqCst), 1);
    // What it may not do does not disturb others.
    assert_eq!(x.request("y", "more".into(), LONG).await.unwrap(), "more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cluster_of_the_same_name_with_another_secret_is_ignored() {
    let server = NatsServer::start();
    let (store, other) = (TestStore::new("c", 1), TestStore::new("c", 2));
    let (x, stranger) = (join(&server, "x", &store).await, join(&server, "y", &other).await);
    x.serve(TestHandler::echo());
    stranger.serve(TestHandler::echo());
    let error = stranger.request("x", Bytes::new(), LONG).await.unwrap_err();
    assert_eq!(error, NodeBusError::NoSuchNode("x".to_owned()));
    let error = x.request("y", Bytes::new(), LONG).await.unwrap_err();
    assert_eq!(error, NodeBusError::NoSuchNode("y".to_owned()));
    let a = session("a");
    let mut doorbell = x.doorbell(&a);
    stranger.ring(&a, 9);
    wait_until(|| x.status().counts.messages_ignored >= 2).await;
    store.set(&a, 1);
    assert_eq!(doorbell.rung().await, DoorbellSignal::UpTo(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn process_with_a_stolen_name_is_ignored() {
    let server = NatsServer::start();
    let store = TestStore::new("c", 1);
    let (x, y) = (join(&server, "x", &store).await, join(&server, "y", &store).await);
    x.serve(TestHandler::echo());
    y.serve(TestHandler::echo());
    x.request("y", Bytes::new(), LONG).await.unwrap();
    let impostor = join(&server, "x", &store).await;
    let error = impostor.request("y", Bytes::new(), LONG).await.unwrap_err();
    assert_eq!(error, NodeBusError::NoSuchNode("y".to_owned()));
    assert!(y.status().counts.messages_ignored > 0);
    assert_eq!(x.request("y", Bytes::new(), LONG).await.unwrap(), "x: ");
}
