//! The guarantees of every [`NodeBus`], as checks for any implementation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use zero_core::SessionId;
use zero_runtime::tool::BoxFuture;
use zero_session::node_bus::{
    BODY_BYTES_MAX, Doorbell, DoorbellSignal, NodeBus, NodeBusError, NodeBusState,
    NodeRequestHandler, REQUESTS_MAX,
};

/// Longer than any test.
const LONG: Duration = Duration::from_secs(120);

/// Adds processes to clusters that share one network or server.
pub(crate) trait TestNetwork: Send + Sync {
    /// Adds a process. No two of a cluster have the same name.
    fn join<'a>(&'a self, cluster: &'a str, node: &'a str) -> BoxFuture<'a, Arc<dyn NodeBus>>;

    /// Writes to the store of a cluster that a session has entries up to a number, if it has a store.
    fn store_seq<'a>(
        &'a self,
        cluster: &'a str,
        session: &'a SessionId,
        seq: u64,
    ) -> BoxFuture<'a, ()>;
}

/// One guarantee: its name and its check. Each check needs a network of its own.
type Check = (&'static str, fn(Arc<dyn TestNetwork>) -> BoxFuture<'static, ()>);

macro_rules! checks {
    ($($name:ident),* $(,)?) => {
        &[$((stringify!($name), |network| Box::pin($name(network)))),*]
    };
}

const CHECKS: &[Check] = checks![
    ring_reaches_doorbells_of_all_nodes,
    last_of_many_rings_arrives,
    doorbell_rings_for_its_session_only,
    request_is_answered,
    many_requests_get_their_own_answers,
    node_that_is_not_there_is_reported,
    node_that_has_ended_is_reported,
    late_answer_is_not_taken_for_another,
    request_runs_to_its_end_without_a_waiting_client,
    too_many_requests_are_refused,
    failed_handler_is_reported,
    sizes_are_bounded,
    clusters_do_not_meet,
    node_without_handler_is_busy,
];

/// Runs every check; `make` returns a new network each time. Needs a multi-threaded runtime.
pub(crate) async fn check_node_bus<F>(make: impl Fn() -> F)
where
    F: Future<Output = Arc<dyn TestNetwork>>,
{
    for (name, check) in CHECKS {
        tracing::info!(name, "checking a bus");
        let checked = tokio::time::timeout(LONG, check(make().await)).await;
        assert!(checked.is_ok(), "{name} takes too long");
    }
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

/// Waits until a doorbell has rung for this number.
pub(crate) async fn wait_for(doorbell: &mut Doorbell, seq: u64) {
    loop {
        match doorbell.rung().await {
            DoorbellSignal::UpTo(newest) if newest >= seq => return assert_eq!(newest, seq),
            DoorbellSignal::UpTo(_) => {}
            DoorbellSignal::Removed => panic!("the session was not removed"),
        }
    }
}

type Answer = Box<dyn Fn(String, Bytes) -> BoxFuture<'static, Bytes> + Send + Sync>;

/// A handler that is a function.
pub(crate) struct TestHandler(Answer);

impl TestHandler {
    pub(crate) fn new<F>(answer: impl Fn(String, Bytes) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = Bytes> + Send + 'static,
    {
        Arc::new(Self(Box::new(move |from, body| Box::pin(answer(from, body)))))
    }

    /// Answers with the name of the process that asks, and what it asks.
    pub(crate) fn echo() -> Arc<Self> {
        Self::new(
            |from, body| async move { Bytes::from([from.as_bytes(), b": ", &body[..]].concat()) },
        )
    }
}

impl NodeRequestHandler for TestHandler {
    fn answer(self: Arc<Self>, from: String, body: Bytes) -> BoxFuture<'static, Bytes> {
        (self.0)(from, body)
    }
}

async fn ring_reaches_doorbells_of_all_nodes(network: Arc<dyn TestNetwork>) {
    let nodes = [network.join("c", "x").await, network.join("c", "y").await];
    let a = session("a");
    let mut doorbells: Vec<Doorbell> = Vec::new();
    for node in &nodes {
        assert_eq!(node.status().state, NodeBusState::Connected);
        doorbells.extend([node.doorbell(&a), node.doorbell(&a)]);
    }
    for (seq, node) in (1..).zip(&nodes) {
        network.store_seq("c", &a, seq).await;
        node.ring(&a, seq);
        for doorbell in &mut doorbells {
            wait_for(doorbell, seq).await;
        }
    }
}

async fn last_of_many_rings_arrives(network: Arc<dyn TestNetwork>) {
    const LAST: u64 = 5_000;
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    let mut waiting = JoinSet::new();
    for number in 0..10 {
        let a = session(&format!("s{number}"));
        let mut doorbell = y.doorbell(&a);
        waiting.spawn(async move { wait_for(&mut doorbell, LAST).await });
    }
    for seq in 1..=LAST {
        for number in 0..10 {
            if seq == LAST {
                network.store_seq("c", &session(&format!("s{number}")), LAST).await;
            }
            x.ring(&session(&format!("s{number}")), seq);
        }
        // Rings that follow each other closely are merged, and later ones are not forgotten.
        if seq % 1_000 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    waiting.join_all().await;
}

async fn doorbell_rings_for_its_session_only(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    let (a, b) = (session("a"), session("b"));
    let (mut on_a, mut on_b) = (y.doorbell(&a), y.doorbell(&b));
    network.store_seq("c", &a, 7).await;
    x.ring(&a, 7);
    wait_for(&mut on_a, 7).await;
    network.store_seq("c", &b, 2).await;
    x.ring(&b, 2);
    // The first that it hears of.
    assert_eq!(on_b.rung().await, DoorbellSignal::UpTo(2));
    drop(on_a);
    let mut later = y.doorbell(&a);
    network.store_seq("c", &a, 8).await;
    x.ring(&a, 8);
    wait_for(&mut later, 8).await;
}

async fn request_is_answered(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    assert_eq!((x.local_node(), y.local_node()), ("x", "y"));
    x.serve(TestHandler::echo());
    y.serve(TestHandler::echo());
    for body in ["hello", "", "\0\u{ff}"] {
        let body = Bytes::from(body);
        let expected = [b"x: ", &body[..]].concat();
        assert_eq!(x.request("y", body.clone(), LONG).await.unwrap(), expected);
        // Also its own.
        assert_eq!(x.request("x", body, LONG).await.unwrap(), expected);
    }
    assert_eq!(x.status().counts.requests_sent, 6);
    assert_eq!(y.status().counts.requests_served, 3);
}

async fn many_requests_get_their_own_answers(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    x.serve(TestHandler::echo());
    y.serve(TestHandler::echo());
    let mut asking = JoinSet::new();
    for number in 0..200_u64 {
        let (from, to) = if number % 2 == 0 { (&x, "y") } else { (&y, "x") };
        let (from, to) = (Arc::clone(from), to.to_owned());
        asking.spawn(async move {
            let answer = from.request(&to, Bytes::from(number.to_string()), LONG).await.unwrap();
            assert_eq!(answer, format!("{}: {number}", from.local_node()));
        });
    }
    asking.join_all().await;
}

async fn node_that_is_not_there_is_reported(network: Arc<dyn TestNetwork>) {
    let x = network.join("c", "x").await;
    for name in ["nobody", "", "x.>", "*", "x y", "ä\n", &"n".repeat(300)] {
        let error = x.request(name, Bytes::new(), LONG).await.unwrap_err();
        assert_eq!(error, NodeBusError::NoSuchNode(name.to_owned()));
        assert!(!error.may_have_run());
    }
}

async fn node_that_has_ended_is_reported(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    y.serve(TestHandler::echo());
    x.request("y", Bytes::new(), LONG).await.unwrap();
    drop(y);
    loop {
        match x.request("y", Bytes::new(), Duration::from_secs(5)).await {
            Err(NodeBusError::NoSuchNode(name)) => return assert_eq!(name, "y"),
            // It takes a moment until others know.
            Ok(_) | Err(NodeBusError::TimedOut { .. } | NodeBusError::Interrupted { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

async fn late_answer_is_not_taken_for_another(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    let gate = Arc::new(Notify::new());
    let passing = Arc::clone(&gate);
    y.serve(TestHandler::new(move |_, body| {
        let gate = Arc::clone(&passing);
        async move {
            if &body[..] == b"slow" {
                gate.notified().await;
            }
            body
        }
    }));
    let within = Duration::from_millis(300);
    let error = x.request("y", Bytes::from("slow"), within).await.unwrap_err();
    assert_eq!(error, NodeBusError::TimedOut { node: "y".to_owned(), within });
    assert!(error.may_have_run());
    gate.notify_one();
    for number in 0..20 {
        let body = Bytes::from(number.to_string());
        assert_eq!(x.request("y", body.clone(), LONG).await.unwrap(), body);
    }
}

async fn request_runs_to_its_end_without_a_waiting_client(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    let gate = Arc::new(Notify::new());
    let (sender, mut events) = mpsc::channel(10);
    let passing = Arc::clone(&gate);
    y.serve(TestHandler::new(move |_, _| {
        let (gate, sender) = (Arc::clone(&passing), sender.clone());
        async move {
            sender.send("begun").await.unwrap();
            gate.notified().await;
            sender.send("ended").await.unwrap();
            Bytes::new()
        }
    }));
    let asking = Arc::clone(&x);
    let request = tokio::spawn(async move { asking.request("y", Bytes::new(), LONG).await });
    assert_eq!(events.recv().await, Some("begun"));
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    drop(x);
    gate.notify_one();
    assert_eq!(events.recv().await, Some("ended"));
}

async fn too_many_requests_are_refused(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    let gate = Arc::new(Notify::new());
    let begun = Arc::new(AtomicU64::new(0));
    let (passing, count) = (Arc::clone(&gate), Arc::clone(&begun));
    y.serve(TestHandler::new(move |_, body| {
        count.fetch_add(1, Ordering::SeqCst);
        let gate = Arc::clone(&passing);
        async move {
            gate.notified().await;
            body
        }
    }));
    let mut asking = JoinSet::new();
    for _ in 0..REQUESTS_MAX {
        let x = Arc::clone(&x);
        asking.spawn(async move { x.request("y", Bytes::from("1"), LONG).await.unwrap() });
    }
    while begun.load(Ordering::SeqCst) < REQUESTS_MAX as u64 {
        tokio::task::yield_now().await;
    }
    let error = x.request("y", Bytes::from("2"), LONG).await.unwrap_err();
    assert_eq!(error, NodeBusError::Busy("y".to_owned()));
    assert!(!error.may_have_run());
    assert_eq!(begun.load(Ordering::SeqCst), REQUESTS_MAX as u64, "nothing of it was executed");
    assert_eq!(y.status().counts.requests_refused, 1);
    while !asking.is_empty() {
        gate.notify_waiters();
        while let Some(answer) = asking.try_join_next() {
            assert_eq!(answer.unwrap(), "1");
        }
        tokio::task::yield_now().await;
    }
    gate.notify_one();
    assert_eq!(x.request("y", Bytes::from("3"), LONG).await.unwrap(), "3");
}

async fn failed_handler_is_reported(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    y.serve(TestHandler::new(|_, body| async move {
        assert_eq!(body, "good", "a panic of a test");
        body
    }));
    let error = x.request("y", Bytes::from("bad"), LONG).await.unwrap_err();
    assert!(matches!(&error, NodeBusError::Interrupted { node, .. } if node == "y"), "{error}");
    assert!(error.may_have_run());
    assert_eq!(x.request("y", Bytes::from("good"), LONG).await.unwrap(), "good");
}

async fn sizes_are_bounded(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    let seen = Arc::new(Mutex::new(0));
    let count = Arc::clone(&seen);
    y.serve(TestHandler::new(move |_, body| {
        *count.lock().unwrap() += 1;
        async move {
            match &body[..] {
                b"more" => Bytes::from(vec![b'm'; BODY_BYTES_MAX + 1]),
                _ => body,
            }
        }
    }));
    let bytes: Vec<u8> = (0..BODY_BYTES_MAX).map(|at| (at % 251) as u8).collect();
    let largest = Bytes::from(bytes);
    // No `assert_eq!`, which would print it.
    assert!(x.request("y", largest.clone(), LONG).await.unwrap() == largest);
    let too_large = Bytes::from(vec![b'x'; BODY_BYTES_MAX + 1]);
    let error = x.request("y", too_large, LONG).await.unwrap_err();
    assert_eq!(error, NodeBusError::TooLarge { bytes: BODY_BYTES_MAX + 1 });
    assert_eq!(*seen.lock().unwrap(), 1, "it was not sent");
    let error = x.request("y", Bytes::from("more"), LONG).await.unwrap_err();
    assert!(error.to_string().contains("its answer is too large"), "{error}");
    assert!(error.may_have_run());
}

async fn clusters_do_not_meet(network: Arc<dyn TestNetwork>) {
    let (x, other_x) = (network.join("c", "x").await, network.join("d", "x").await);
    let other_y = network.join("d", "y").await;
    other_x.serve(TestHandler::echo());
    other_y.serve(TestHandler::echo());
    x.serve(TestHandler::new(|_, _| async { Bytes::from("here") }));
    let error = x.request("y", Bytes::new(), LONG).await.unwrap_err();
    assert_eq!(error, NodeBusError::NoSuchNode("y".to_owned()));
    assert_eq!(x.request("x", Bytes::new(), LONG).await.unwrap(), "here");
    assert_eq!(other_y.request("x", Bytes::from("?"), LONG).await.unwrap(), "y: ?");
    let a = session("a");
    let (mut here, mut there) = (x.doorbell(&a), other_x.doorbell(&a));
    network.store_seq("d", &a, 9).await;
    other_y.ring(&a, 9);
    wait_for(&mut there, 9).await;
    network.store_seq("c", &a, 1).await;
    x.ring(&a, 1);
    assert_eq!(here.rung().await, DoorbellSignal::UpTo(1), "the first that it hears of");
}

async fn node_without_handler_is_busy(network: Arc<dyn TestNetwork>) {
    let (x, y) = (network.join("c", "x").await, network.join("c", "y").await);
    let error = x.request("y", Bytes::new(), LONG).await.unwrap_err();
    assert_eq!(error, NodeBusError::Busy("y".to_owned()));
    y.serve(TestHandler::echo());
    assert_eq!(x.request("y", Bytes::new(), LONG).await.unwrap(), "x: ");
}
