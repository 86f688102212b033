//! Gateways as processes of their own that share a real database, over a real bus.

#![expect(clippy::disallowed_methods, reason = "tests stand outside zero and look at its files")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::watch;
use zero_core::event::{Event, EventKind, RunOutcome};
use zero_wire::GatewayMethod;
use zero_wire::chat::{AgentWait, ChatAbort, ChatSend};
use zero_wire::client::GatewayClient;
use zero_wire::sessions::SessionsReset;
use zero_wire::zero_sessions::{
    CAP_EVENTS, SESSION_EVENT, SessionEvent, ZeroApprovalsList, ZeroApprovalsResolve,
    ZeroSessionsChoices, ZeroSessionsEvents, ZeroSessionsOpen, ZeroSessionsSet,
};

use crate::config::{USER_FILE, write_file};
use crate::gateway::http_get;
use crate::gateway_process::{GatewayProcess, TIMEOUT, connect_with_token, send_signal};
use crate::model_server::ModelServer;
use crate::nats_server::NatsServer;
use crate::postgres_server::PostgresServer;
use crate::test_program::TestProgram;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// The agent without tools, whose sessions are nobody's.
const TALKER_KEY: &str = "agent:talker:main";

/// What gateways share.
struct Cluster {
    postgres: PostgresServer,
    nats: Option<NatsServer>,
    model: ModelServer,
}

/// A machine with a gateway.
struct GatewayMachine {
    zero: TestProgram,
    gateway: GatewayProcess,
}

/// A client, and what it was shown of a session.
struct Client {
    client: GatewayClient,
    shown: Arc<Mutex<Vec<Event>>>,
    count: watch::Receiver<usize>,
}

impl Cluster {
    fn start() -> Self {
        Self { postgres: PostgresServer::start(), nats: None, model: ModelServer::start() }
    }

    fn start_with_nats() -> Self {
        Self { nats: Some(NatsServer::start()), ..Self::start() }
    }

    fn machine(&self) -> GatewayMachine {
        let zero = TestProgram::outside_tmp();
        let more = json!({
            "agents": {"talker": {"tools": []}},
            "gateway": {"tokens": {"user": {"secret": {"file": "~/token"}, "scopes": ["admin"]}}},
        });
        write_file(&zero, USER_FILE, self.model.settings_json(more));
        std::fs::write(zero.folder().join("home/token"), TOKEN).unwrap();
        let gateway = GatewayProcess::start_with(&zero, &self.args());
        GatewayMachine { zero, gateway }
    }

    fn args(&self) -> Vec<&'static str> {
        let store = format!("postgres://zero@127.0.0.1:{}/postgres", self.postgres.port());
        let mut args = vec!["--store".to_owned(), store];
        if let Some(nats) = &self.nats {
            args.extend(["--bus".to_owned(), nats.url("")]);
        }
        args.into_iter().map(|arg| &*arg.leak()).collect()
    }
}

impl GatewayMachine {
    async fn client(&self) -> Client {
        let (client, mut events) =
            connect_with_token(TOKEN, &self.gateway.url, &[CAP_EVENTS]).await;
        let (shown, (counter, count)) = (Arc::new(Mutex::new(Vec::new())), watch::channel(0));
        let list = Arc::clone(&shown);
        tokio::spawn(async move {
            while let Some(frame) = events.next().await {
                if frame.event == SESSION_EVENT
                    && let Some(payload) = frame.payload
                {
                    let update: SessionEvent = serde_json::from_value(payload).unwrap();
                    list.lock().unwrap().push(update.event);
                    counter.send_modify(|count| *count += 1);
                }
            }
        });
        Client { client, shown, count }
    }

    /// Waits until an answer contains a text.
    async fn wait_for_answer(&self, path: &str, text: &str) -> String {
        let until = Instant::now() + TIMEOUT;
        loop {
            let answer = http_get(&self.gateway, path);
            if answer.contains(text) {
                return answer;
            }
            assert!(Instant::now() < until, "no `{text}` in {answer}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Client {
    async fn try_request<M: GatewayMethod>(&self, params: Value) -> Result<M::Result, String> {
        let params = serde_json::from_value(params).unwrap();
        let asked = tokio::time::timeout(TIMEOUT, self.client.request::<M>(params)).await;
        asked.expect("no answer").map_err(|error| error.to_string())
    }

    async fn request<M: GatewayMethod>(&self, params: Value) -> M::Result {
        self.try_request::<M>(params).await.unwrap_or_else(|error| panic!("{}: {error}", M::NAME))
    }

    async fn open(&self, key: &str) {
        self.request::<ZeroSessionsOpen>(json!({"sessionKey": key})).await;
    }

    async fn send(&self, key: &str, run: &str, text: &str) {
        let params = json!({"sessionKey": key, "message": text, "idempotencyKey": run});
        self.request::<ChatSend>(params).await;
    }

    /// Waits until an entry like this was shown, and returns all.
    async fn wait_for(&mut self, what: &str, is_it: impl Fn(&EventKind) -> bool) -> Vec<Event> {
        let shown = Arc::clone(&self.shown);
        let found = || shown.lock().unwrap().iter().any(|event| is_it(&event.kind));
        let waited = tokio::time::timeout(TIMEOUT, self.count.wait_for(|_| found())).await;
        let all = shown.lock().unwrap().clone();
        assert!(matches!(waited, Ok(Ok(_))), "no {what} in {all:#?}");
        drop(waited);
        all
    }

    async fn wait_for_text(&mut self, text: &str) -> Vec<Event> {
        let what = format!("text `{text}`");
        self.wait_for(
            &what,
            |kind| matches!(kind, EventKind::Text { text: shown } if shown.contains(text)),
        )
        .await
    }

    async fn wait_for_end(&mut self) -> Vec<Event> {
        self.wait_for("end", |kind| matches!(kind, EventKind::RunEnded { .. })).await
    }

    async fn ledger(&self, key: &str) -> Vec<Event> {
        self.request::<ZeroSessionsEvents>(json!({"sessionKey": key})).await.events
    }

    async fn wait_for_run(&self, run: &str) {
        let end = self.request::<AgentWait>(json!({"runId": run, "timeoutMs": 60_000})).await;
        assert!(end.ended_at.is_some(), "{run} is stuck: {end:?}");
    }
}

#[track_caller]
fn check_dense(events: &[Event]) {
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    let first = seqs.first().copied().unwrap_or(1);
    assert_eq!(seqs, (first..).take(seqs.len()).collect::<Vec<_>>(), "a gap or a repetition");
}

fn ends(events: &[Event]) -> Vec<RunOutcome> {
    let ends = events.iter().filter_map(|event| match &event.kind {
        EventKind::RunEnded { end, .. } => Some(end.clone()),
        _ => None,
    });
    ends.collect()
}

/// What happens in a session whose tools are on one machine, for a client of another one.
async fn requests_at_other_machine_have_same_result(cluster: &Cluster) {
    let (first, second) = (cluster.machine(), cluster.machine());
    let (near, mut far) = (first.client().await, second.client().await);
    let folder = first.zero.folder().canonicalize().unwrap();
    let key = "agent:main:shared";
    near.request::<ZeroSessionsOpen>(json!({"sessionKey": key, "cwd": folder})).await;
    // Its tools are used here, and so it stays here.
    near.send(key, "at-home", "[read]").await;
    near.wait_for_run("at-home").await;
    far.open(key).await;

    // A prompt and the answer to its question.
    far.send(key, "from-afar", "[write]").await;
    far.send(key, "from-afar", "[write]").await;
    let requested = |kind: &EventKind| matches!(kind, EventKind::ApprovalRequested { .. });
    far.wait_for("question", requested).await;
    let pending = far.request::<ZeroApprovalsList>(json!({"sessionKey": key})).await.approvals;
    let params = json!({"id": pending[0].request.id, "answer": "allow_once"});
    far.request::<ZeroApprovalsResolve>(params.clone()).await;
    let again = far.try_request::<ZeroApprovalsResolve>(params).await.unwrap_err();
    assert!(again.contains("pending"), "{again}");
    far.wait_for_end().await;
    assert_eq!(std::fs::read_to_string(folder.join("made.txt")).unwrap(), "made\n");
    assert!(!second.zero.folder().join("made.txt").exists());

    // Its mode, and its commands.
    let set = far.request::<ZeroSessionsSet>(json!({"sessionKey": key, "mode": "accept-edits"}));
    assert_eq!(set.await.mode.as_deref(), Some("accept-edits"));
    far.send(key, "without-question", "[write]").await;
    far.wait_for_run("without-question").await;
    let asked = |event: &&Event| matches!(event.kind, EventKind::ApprovalRequested { .. });
    assert_eq!(far.ledger(key).await.iter().filter(asked).count(), 1, "of the first prompt");
    let params = || json!({"sessionKey": key});
    let afar = far.request::<ZeroSessionsChoices>(params()).await;
    let at_home = near.request::<ZeroSessionsChoices>(params()).await;
    assert_eq!(serde_json::to_value(afar).unwrap(), serde_json::to_value(at_home).unwrap());

    // Stopping, and starting anew.
    far.send(key, "hangs", "script:\nsay so far\nhang").await;
    far.wait_for_text("far").await;
    let info = far.request::<ZeroSessionsOpen>(json!({"sessionKey": key})).await;
    assert_eq!(info.run_ids, ["hangs"]);
    let aborted = far.request::<ChatAbort>(json!({"sessionKey": key})).await;
    assert_eq!(aborted.run_ids, ["hangs"]);
    far.wait_for_run("hangs").await;
    far.request::<SessionsReset>(json!({"key": key})).await;
    let ledger = far.ledger(key).await;
    assert!(matches!(ledger.last().unwrap().kind, EventKind::Reset { .. }), "{ledger:#?}");
    assert_eq!(ledger, near.ledger(key).await);
    far.wait_for("reset", |kind| matches!(kind, EventKind::Reset { .. })).await;
    check_dense(&far.shown.lock().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_over_nats_have_same_result() {
    requests_at_other_machine_have_same_result(&Cluster::start_with_nats()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_over_database_have_same_result() {
    requests_at_other_machine_have_same_result(&Cluster::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_of_killed_gateway_continues_for_its_client() {
    let cluster = Cluster::start_with_nats();
    let (mut first, second) = (cluster.machine(), cluster.machine());
    let mut client = second.client().await;
    let mut at_first = first.client().await;
    at_first.open(TALKER_KEY).await;
    client.open(TALKER_KEY).await;
    at_first.send(TALKER_KEY, "go", "script:\nsay so far\nhang").await;
    at_first.wait_for_text("far").await;
    first.gateway.kill();
    client.wait_for_end().await;
    let ledger = client.ledger(TALKER_KEY).await;
    check_dense(&ledger);
    assert_eq!(ends(&ledger), [RunOutcome::Completed], "{ledger:#?}");
    let shown = client.shown.lock().unwrap().clone();
    check_dense(&shown);
    assert!(ledger.ends_with(&shown), "{shown:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_that_was_paused_too_long_writes_nothing_more() {
    let cluster = Cluster::start_with_nats();
    let (first, second) = (cluster.machine(), cluster.machine());
    let mut client = second.client().await;
    let mut at_first = first.client().await;
    at_first.open(TALKER_KEY).await;
    at_first.send(TALKER_KEY, "go", "script:\nsay so far\nhang").await;
    at_first.wait_for_text("far").await;
    client.open(TALKER_KEY).await;
    send_signal(&first.zero, "STOP", first.gateway.id());
    client.wait_for_end().await;
    let before = client.ledger(TALKER_KEY).await;
    send_signal(&first.zero, "CONT", first.gateway.id());
    // It notices that its run is over, and goes on with what is its own.
    first.wait_for_answer("/readyz", "200 OK").await;
    first.wait_for_answer("/metrics", "\nzero_runs_running 0\n").await;
    assert_eq!(client.ledger(TALKER_KEY).await, before);
    assert_eq!(ends(&before), [RunOutcome::Completed], "{before:#?}");
    at_first.send(TALKER_KEY, "more", "hello").await;
    at_first.wait_for_run("more").await;
    let all = client.ledger(TALKER_KEY).await;
    check_dense(&all);
    assert_eq!(ends(&all).len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drained_gateway_hands_its_runs_over_and_ends() {
    let cluster = Cluster::start_with_nats();
    let (mut first, second) = (cluster.machine(), cluster.machine());
    let mut client = second.client().await;
    let mut at_first = first.client().await;
    at_first.open(TALKER_KEY).await;
    at_first.send(TALKER_KEY, "go", "script:\nsay so far\nhang").await;
    at_first.wait_for_text("far").await;
    client.open(TALKER_KEY).await;
    let nodes = second.zero.stdout(&["gateway", "nodes", "--json", "--token-file", "home/token"]);
    let nodes: Value = serde_json::from_str(&nodes).unwrap();
    let of = |sessions: u64| {
        let nodes = nodes["nodes"].as_array().unwrap();
        let node = nodes.iter().find(|node| node["sessions"] == sessions).unwrap();
        assert!(node["answerMs"].as_f64().is_some_and(|took| took > 0.0), "{nodes:?}");
        node["name"].as_str().unwrap().to_owned()
    };
    let (owner, other) = (of(1), of(0));
    assert_eq!(nodes["node"], other);
    // It is asked over another one.
    let home = owner.split('/').next().unwrap();
    let drained = second.zero.run(&["gateway", "drain", home, "--token-file", "home/token"]);
    assert!(drained.starts_with("exit 0") && drained.contains(&owner), "{drained}");
    assert!(first.gateway.wait_for_exit().success());
    client.wait_for_end().await;
    let ledger = client.ledger(TALKER_KEY).await;
    check_dense(&ledger);
    assert_eq!(ends(&ledger), [RunOutcome::Completed], "{ledger:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_arrive_while_bus_is_down() {
    let mut cluster = Cluster::start_with_nats();
    let (first, second) = (cluster.machine(), cluster.machine());
    let (near, mut far) = (first.client().await, second.client().await);
    near.open(TALKER_KEY).await;
    far.open(TALKER_KEY).await;
    second.wait_for_answer("/readyz", "200 OK").await;
    cluster.nats.as_mut().unwrap().stop();
    second.wait_for_answer("/readyz", "other gateways cannot be reached").await;
    second.wait_for_answer("/metrics", "\nzero_bus_connected 0\n").await;
    near.send(TALKER_KEY, "go", "script:\nsay so far\nhang").await;
    far.wait_for_text("far").await;
    // What cannot be done there is refused, and not lost.
    let refused = far.try_request::<ChatAbort>(json!({"sessionKey": TALKER_KEY})).await;
    assert!(
        refused.as_ref().is_err_and(|error| error.contains("cannot be reached")),
        "{refused:?}"
    );
    cluster.nats.as_mut().unwrap().run();
    second.wait_for_answer("/readyz", "200 OK").await;
    first.wait_for_answer("/readyz", "200 OK").await;
    let aborted = far.request::<ChatAbort>(json!({"sessionKey": TALKER_KEY})).await;
    assert_eq!(aborted.run_ids, ["go"]);
    far.wait_for_end().await;
    check_dense(&far.shown.lock().unwrap());
}
