//! Several machines that share a real database. Each has a runtime of its own, so that it can be killed
//! in the middle of everything.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::fixture::{
    PATIENCE, ScriptedBackendFactory, ScriptedToolBackend, event_line, model, run_id,
};
use super::postgres_server::PostgresServer;
use crate::agent::{AgentProfile, AgentRegistry};
use crate::cluster_node::ClusterNode;
use crate::direct_model::DirectModel;
use crate::event::{Event, EventKind, RunOutcome};
use crate::event_bus::{DeliveryReceiver, EventBus as _, Subscription, delivery_channel};
use crate::model::ModelClient;
use crate::model::catalog::ModelCatalog;
use crate::node_lease::LeaseRules;
use crate::node_membership::NodeMembership as _;
use crate::postgres_store::{PostgresOptions, PostgresStore};
use crate::sessions::*;
use crate::shared_event_bus::SharedEventBus;
use crate::store::{
    LedgerReadLimit, NewEvent, NewRun, RunFolders, RunOptions, SessionRecord, Store,
};
use zero_core::SessionId;
use zero_runtime::tool_backend::FolderAccess;

const RULES: LeaseRules = LeaseRules {
    duration: Duration::from_millis(1_500),
    renewal_interval: Duration::from_millis(300),
    margin: Duration::from_millis(100),
};

/// A gateway's process, which a test can kill.
struct KillableNode {
    runtime: Option<Runtime>,
    sessions: SessionManager,
    log: Arc<Mutex<Vec<String>>>,
}

impl KillableNode {
    fn start(url: &str, home: &str, answers: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (url, home) = (url.to_owned(), home.to_owned());
        let models: Vec<Arc<dyn ModelClient>> =
            vec![Arc::new(model("scripted", answers)), Arc::new(DirectModel::new())];
        let backend = Arc::new(ScriptedBackendFactory::default());
        let log = Arc::clone(&backend.log);
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        runtime.spawn(async move {
            let options = PostgresOptions { url, ..PostgresOptions::default() };
            let ports = PostgresStore::open(&options).await.unwrap();
            let shared = Arc::clone(&ports.sessions);
            let node =
                ClusterNode::start(ports.leases, ports.sessions, &home, RULES).await.unwrap();
            let node_bus = ports.bus.join(node.local_name()).await.unwrap();
            let bus = SharedEventBus::start(shared, Arc::clone(&node_bus));
            let node = node.with_bus(node_bus);
            let talker = AgentProfile {
                id: "talker".to_owned(),
                tools: Some(Vec::new()),
                ..AgentProfile::default()
            };
            let config = SessionManagerConfig {
                store: ports.store,
                bus: Arc::new(bus),
                agents: AgentRegistry::new(vec![talker], None),
                models: ModelCatalog::new(models, Some("scripted".to_owned())),
                backend_factory: backend,
                cwd: PathBuf::from("/w"),
                nodes: Arc::new(node),
                limits: SessionLimits::default(),
            };
            sender.send(SessionManager::start(config).await.unwrap()).unwrap();
        });
        let sessions = receiver.recv().expect("it starts");
        Self { runtime: Some(runtime), sessions, log }
    }

    /// Runs something on this machine.
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.as_ref().unwrap().spawn(work).await.unwrap()
    }

    /// Ends the machine where it is: no task runs any further.
    fn kill(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    async fn open(&self, key: &str) -> SessionRecord {
        let (sessions, key) = (self.sessions.clone(), Some(key.to_owned()));
        let options = OpenSessionOptions { key, ..OpenSessionOptions::default() };
        self.run(async move { sessions.open(options).await }).await.unwrap()
    }

    async fn send(&self, session: &SessionRecord, text: &str) -> Result<SendOutcome, SessionError> {
        let (sessions, address) = (self.sessions.clone(), session.address());
        let (id, text) = (run_id(text), text.to_owned());
        let prompt = Prompt { text, folder_access: FolderAccess::Anywhere, ..Prompt::default() };
        self.run(async move { sessions.send(&address, id, prompt).await }).await
    }

    async fn attach(&self, session: &SessionRecord) -> AttachmentGuard {
        self.attach_as(session, ScriptedToolBackend::RETURNING_CLIENT).await
    }

    async fn attach_as(&self, session: &SessionRecord, client: &str) -> AttachmentGuard {
        let (sessions, address) = (self.sessions.clone(), session.address());
        let (log, name) = (Arc::clone(&self.log), client.to_owned());
        let backend = ScriptedToolBackend { log, order: None, name, store: None, silent: false };
        self.run(
            async move { sessions.attach_backend(&address, "laptop", Arc::new(backend)).await },
        )
        .await
        .unwrap()
    }

    async fn wait_for_end(&self, text: &str) -> RunOutcome {
        let (sessions, id) = (self.sessions.clone(), run_id(text));
        let ended = self.run(async move { sessions.wait_for_run("", &id, PATIENCE).await });
        ended.await.unwrap().unwrap().end.expect("it ends")
    }

    async fn ledger(&self, session: &SessionRecord) -> Vec<Event> {
        let (store, id) = (Arc::clone(self.sessions.store()), session.id.clone());
        let all = LedgerReadLimit::with_entries(usize::MAX);
        let events = self.run(async move { store.events(&id, 0, all).await }).await.unwrap();
        let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "dense");
        events
    }

    /// Waits until a line that begins with this is in the ledger.
    async fn wait_for_line(&self, session: &SessionRecord, line: &str) {
        let found = async {
            loop {
                let events = self.ledger(session).await;
                if events.iter().any(|event| event_line(&event.kind).starts_with(line)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no `{line}`"));
    }

    /// Waits until a tool is called.
    async fn wait_for_call(&self) {
        let called = async {
            while self.log().is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, called).await.unwrap();
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

impl Drop for KillableNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A client that reads a session as the gateway's watchers do.
struct Watcher {
    listener: DeliveryReceiver,
    store: Arc<dyn Store>,
    session: SessionRecord,
    next: u64,
    _subscription: Subscription,
}

impl Watcher {
    fn start(machine: &KillableNode, session: &SessionRecord, after: u64) -> Self {
        let (sender, listener) = delivery_channel(1_000);
        let _subscription = machine.sessions.bus().subscribe(&session.id, &sender);
        let store = Arc::clone(machine.sessions.store());
        Self { listener, store, session: session.clone(), next: after + 1, _subscription }
    }

    /// The entries up to the end of a run.
    async fn read_to_end(&mut self, machine: &KillableNode) -> Vec<u64> {
        let mut seqs = Vec::new();
        loop {
            let delivery = tokio::time::timeout(PATIENCE, self.listener.next()).await;
            let delivery = delivery.expect("something comes").unwrap();
            if delivery.event.seq < self.next {
                continue;
            }
            let (store, id, after) =
                (Arc::clone(&self.store), self.session.id.clone(), self.next - 1);
            let all = LedgerReadLimit::with_entries(usize::MAX);
            for event in
                machine.run(async move { store.events(&id, after, all).await }).await.unwrap()
            {
                seqs.push(event.seq);
                self.next = event.seq + 1;
                if event_line(&event.kind).starts_with("end") {
                    return seqs;
                }
            }
        }
    }
}

async fn database(server: &PostgresServer) -> String {
    server.url("zero", &server.create_database().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reply_of_dead_machine_continues_elsewhere() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let mut first = KillableNode::start(&url, "first", &["so far @hang"]);
    let second = KillableNode::start(&url, "second", &["and on"]);
    let session = first.open("agent:talker:main").await;
    let mut watcher = Watcher::start(&second, &session, 0);
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    assert_eq!(first.send(&session, "more").await, Ok(SendOutcome::Started));
    second.wait_for_line(&session, "text so").await;
    // The same prompt elsewhere does not run twice.
    assert_eq!(second.send(&session, "go").await, Ok(SendOutcome::InFlight));
    first.kill();
    assert_eq!(second.wait_for_end("go").await, RunOutcome::Completed);
    // The prompt that waited behind it runs after it.
    assert_eq!(second.wait_for_end("more").await, RunOutcome::Completed);
    let seqs = watcher.read_to_end(&second).await;
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "nothing is left out");
    let (sessions, address) = (second.sessions.clone(), session.address());
    let transcript = second.run(async move { sessions.transcript(&address, None).await });
    let texts: Vec<String> =
        transcript.await.unwrap().messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts[0], "go");
    assert!(texts[1].starts_with("so"), "{texts:?}");
    assert!(texts[2].contains("Continue exactly there"), "{texts:?}");
    assert_eq!(&texts[3..], ["and\non", "more", "ok"], "{texts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_made_twice_when_a_machine_dies() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let mut first = KillableNode::start(&url, "first", &["Write:1", "Hang:2"]);
    let second = KillableNode::start(&url, "second", &["done"]);
    let session = first.open("main").await;
    let _at_first = first.attach(&session).await;
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    let calls = async {
        while !first.log().iter().any(|line| line == "Hang 2") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, calls).await.unwrap();
    first.kill();
    // Its client connects to another machine, which continues the run.
    let _at_second = second.attach(&session).await;
    assert_eq!(second.wait_for_end("go").await, RunOutcome::Completed);
    assert_eq!(second.log(), Vec::<String>::new(), "nothing was repeated");
    let events = second.ledger(&session).await;
    let outcomes = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolEnded { outcome, .. } => Some(outcome),
        _ => None,
    });
    let texts: Vec<String> = outcomes.map(|outcome| format!("{outcome:?}")).collect();
    assert!(texts.len() == 2 && texts[0].contains("done"), "{texts:?}");
    assert!(texts[1].contains("its outcome is not known"), "{texts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outcome_that_the_client_has_kept_is_known_elsewhere() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let mut first = KillableNode::start(&url, "first", &["Hang:1"]);
    let second = KillableNode::start(&url, "second", &["done"]);
    let session = first.open("main").await;
    let _at_first = first.attach(&session).await;
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    let begun = async {
        while first.log().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.unwrap();
    first.kill();
    let _at_second = second.attach_as(&session, ScriptedToolBackend::KEEPING_CLIENT).await;
    assert_eq!(second.wait_for_end("go").await, RunOutcome::Completed);
    assert_eq!(second.log(), Vec::<String>::new(), "nothing was repeated");
    let events = second.ledger(&session).await;
    let outcome = events.iter().find_map(|event| match &event.kind {
        EventKind::ToolEnded { outcome, .. } => Some(format!("{outcome:?}")),
        _ => None,
    });
    assert!(outcome.as_ref().is_some_and(|text| text.contains("it was made")), "{outcome:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_follows_the_client_that_hosts_its_tools() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let first = KillableNode::start(&url, "first", &["so far @hang"]);
    let second = KillableNode::start(&url, "second", &["Write:1", "done"]);
    let session = first.open("main").await;
    let at_first = first.attach(&session).await;
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    second.wait_for_line(&session, "text so").await;
    // The connection is lost, and comes back at another machine while the first one lives.
    drop(at_first);
    let _at_second = second.attach(&session).await;
    assert_eq!(second.wait_for_end("go").await, RunOutcome::Completed);
    assert_eq!(second.log(), ["Write 1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_that_stops_hands_its_runs_over() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let first = KillableNode::start(&url, "first", &["so far @hang"]);
    let second = KillableNode::start(&url, "second", &["and on"]);
    let session = first.open("agent:talker:main").await;
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    second.wait_for_line(&session, "text so").await;
    let sessions = first.sessions.clone();
    first.run(async move { sessions.shut_down(Duration::ZERO).await }).await;
    assert_eq!(second.wait_for_end("go").await, RunOutcome::Completed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machine_that_stops_waits_for_the_calls_that_run() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let first = KillableNode::start(&url, "first", &["Write:slow Write:2", "wrong"]);
    let second = KillableNode::start(&url, "second", &["done"]);
    let session = first.open("main").await;
    let at_first = first.attach(&session).await;
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    let begun = async {
        while first.log().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, begun).await.unwrap();
    let sessions = first.sessions.clone();
    first.run(async move { sessions.shut_down(PATIENCE).await }).await;
    assert_eq!(first.log(), ["Write slow"], "nothing more began");
    drop(at_first);
    let _at_second = second.attach(&session).await;
    assert_eq!(second.wait_for_end("go").await, RunOutcome::Completed);
    assert_eq!(second.log(), Vec::<String>::new(), "nothing was repeated");
    let events = second.ledger(&session).await;
    let outcomes = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolEnded { outcome, .. } => Some(format!("{outcome:?}")),
        _ => None,
    });
    let outcomes: Vec<String> = outcomes.collect();
    assert!(outcomes.len() == 2 && outcomes[0].contains("done"), "{outcomes:?}");
    assert!(outcomes[1].contains("before it began"), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_that_was_stopped_is_not_handed_over() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let first = KillableNode::start(&url, "first", &["Stuck:1"]);
    let second = KillableNode::start(&url, "second", &["wrong"]);
    let session = first.open("main").await;
    let at_first = first.attach(&session).await;
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    first.wait_for_call().await;
    // The call does not end when it is cancelled, so the run waits for it.
    let (sessions, address) = (first.sessions.clone(), session.address());
    first.run(async move { sessions.abort(&address, None, "rpc").await }).await.unwrap();
    let sessions = first.sessions.clone();
    first.run(async move { sessions.shut_down(Duration::ZERO).await }).await;
    drop(at_first);
    let _at_second = second.attach(&session).await;
    let stopped = RunOutcome::Aborted { by: "rpc".to_owned() };
    assert_eq!(second.wait_for_end("go").await, stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_waits_for_its_client_is_handed_over_as_not_run() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let first = KillableNode::start(&url, "first", &["Write:slow Write:2", "wrong"]);
    let second = KillableNode::start(&url, "second", &["done"]);
    let session = first.open("main").await;
    let at_first = first.attach(&session).await;
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    first.wait_for_call().await;
    // The first call is lost, and the second one waits for the client.
    drop(at_first);
    let begun = |events: &[Event]| {
        let begins = |event: &&Event| matches!(event.kind, EventKind::ToolStarted { .. });
        events.iter().filter(begins).count()
    };
    let waiting = async {
        while begun(&first.ledger(&session).await) < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    let _at_second = second.attach(&session).await;
    assert_eq!(second.wait_for_end("go").await, RunOutcome::Completed);
    assert_eq!(second.log(), Vec::<String>::new());
    let events = second.ledger(&session).await;
    let outcomes = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolEnded { outcome, .. } => Some(format!("{outcome:?}")),
        _ => None,
    });
    let outcomes: Vec<String> = outcomes.collect();
    assert!(outcomes.len() == 2 && outcomes[1].contains("before it began"), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_with_files_stays_with_its_machine() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let mut first = KillableNode::start(&url, "first", &["Write:1", "so far @hang"]);
    let second = KillableNode::start(&url, "second", &["wrong"]);
    let session = first.open("main").await;
    assert_eq!(first.send(&session, "go").await, Ok(SendOutcome::Started));
    second.wait_for_line(&session, "text so").await;
    let refusal = |refused: Result<SendOutcome, SessionError>| refused.unwrap_err().to_string();
    let refused = refusal(second.send(&session, "other").await);
    assert!(refused.contains("`first`") && refused.contains("connect to that"), "{refused}");
    first.kill();
    // After its lease, the others know that it is gone.
    let gone = async {
        loop {
            let refused = refusal(second.send(&session, "other").await);
            if refused.contains("is gone") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
    // It comes back, and continues what it had begun.
    let again = KillableNode::start(&url, "first", &["rest"]);
    assert_eq!(again.wait_for_end("go").await, RunOutcome::Completed);
    assert_eq!(second.log(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_entries_of_several_sessions_are_read_within_limits() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let machine = KillableNode::start(&url, "first", &["one", "two"]);
    let (a, b) = (machine.open("agent:talker:a").await, machine.open("agent:talker:b").await);
    for (session, text) in [(&a, "to a"), (&b, "to b")] {
        assert_eq!(machine.send(session, text).await, Ok(SendOutcome::Started));
        machine.wait_for_end(text).await;
    }
    let options = PostgresOptions { url, ..PostgresOptions::default() };
    let shared = PostgresStore::open(&options).await.unwrap().sessions;
    let read = async |after: &[(&SessionId, u64)], entries, bytes| {
        let after = after.iter().map(|(session, seq)| ((*session).clone(), *seq)).collect();
        let read = shared.new_events(after, LedgerReadLimit { entries, bytes }).await.unwrap();
        let seqs = |events: Vec<Event>| events.iter().map(|event| event.seq).collect::<Vec<_>>();
        read.into_iter().map(|(session, events)| (session, seqs(events))).collect::<Vec<_>>()
    };
    let (a, b, gone) = (&a.id, &b.id, &SessionId::new("gone").unwrap());
    let last = machine.ledger(&machine.open("agent:talker:a").await).await.len() as u64;
    let found = read(&[(b, 1), (gone, 0), (a, last - 1), (a, last)], 2, 1 << 20).await;
    assert_eq!(found, [(b.clone(), vec![2, 3]), (a.clone(), vec![last])]);
    // The first entry always fits.
    assert_eq!(read(&[(b, 0), (a, 0)], 2, 1).await, [(b.clone(), vec![1])]);
    assert!(read(&[], 2, 1).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_machines_cannot_have_one_name() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let first = KillableNode::start(&url, "first", &[]);
    let options = PostgresOptions { url, ..PostgresOptions::default() };
    let ports = PostgresStore::open(&options).await.unwrap();
    let stolen = ClusterNode::start(ports.leases, ports.sessions, "first", RULES).await;
    let error = stolen.err().unwrap().to_string();
    assert!(error.contains("another gateway with the name `first`"), "{error}");
    drop(first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_whose_begin_was_stored_without_an_answer_is_executed() {
    let server = PostgresServer::start();
    let url = database(&server).await;
    let machine = KillableNode::start(&url, "first", &["hello"]);
    let session = machine.open("agent:talker:main").await;
    let node = machine.sessions.inner.config.nodes.local_name().to_owned();
    let (store, run) = (Arc::clone(machine.sessions.store()), run_id("go"));
    let prompt = EventKind::Prompt { text: "go".to_owned(), attachments: Vec::new() };
    let begun = NewRun {
        id: run.clone(),
        session: session.id.clone(),
        node,
        started_ms: 1,
        options: RunOptions { folders: Some(RunFolders::Anywhere), ..RunOptions::default() },
        first: vec![NewEvent { run: Some(run), time_ms: 1, kind: prompt }],
    };
    // The process knows nothing of it.
    machine.run(async move { store.begin_run(begun).await }).await.unwrap();
    assert_eq!(machine.wait_for_end("go").await, RunOutcome::Completed);
}
