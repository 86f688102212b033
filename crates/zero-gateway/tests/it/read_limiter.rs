//! Large reads do not block other clients.

use std::cell::Cell;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::json;
use tokio::time::timeout;
use zero_core::RunId;
use zero_gateway::GatewayLimits;
use zero_session::event::EventKind;
use zero_session::sessions::OpenSessionOptions;
use zero_session::store::{NewEvent, NewRun};
use zero_wire::chat::{ChatHistory, ChatHistoryParams, Health, HealthParams};
use zero_wire::client::GatewayClientError;
use zero_wire::method::TokenScope;
use zero_wire::sessions::{SessionsGet, SessionsPreview};
use zero_wire::zero_sessions::ZeroSessionsEvents;

use crate::test_gateway::{PATIENCE, TestClient, TestGateway};

/// Fills a session with a prompt and `entries` replies of `bytes` bytes.
async fn fill_ledger(fixture: &TestGateway, owner: &str, key: &str, entries: usize, bytes: usize) {
    let wanted = OpenSessionOptions {
        key: Some(key.to_owned()),
        owner: owner.to_owned(),
        ..OpenSessionOptions::default()
    };
    let session = fixture.sessions.open(wanted).await.unwrap();
    let prompt = EventKind::Prompt { text: "go".to_owned(), attachments: Vec::new() };
    let texts = (0..entries).map(|_| EventKind::Text { text: "x".repeat(bytes) });
    let run = RunId::new(format!("run-{key}")).unwrap();
    let new = NewRun {
        id: run.clone(),
        session: session.id.clone(),
        node: "test".to_owned(),
        started_ms: 1,
        options: Default::default(),
        first: Vec::new(),
    };
    fixture.sessions.store().begin_run(new).await.unwrap();
    let entry = |kind| NewEvent { run: Some(run.clone()), time_ms: 1, kind };
    let entries = std::iter::once(prompt).chain(texts).map(entry).collect();
    fixture.sessions.store().append(&session.id, None, entries).await.unwrap();
}

fn history_params(key: &str) -> ChatHistoryParams {
    ChatHistoryParams { session_key: key.to_owned(), ..ChatHistoryParams::default() }
}

#[tokio::test]
async fn repeated_history_reads_do_not_block_others() {
    const REQUESTS: usize = 100;
    let fixture = TestGateway::start(&[]).await;
    fill_ledger(&fixture, "ann", "main", 20, 50_000).await;
    fill_ledger(&fixture, "bob", "other", 1, 10).await;
    let ann = fixture.connect("ann", &[TokenScope::Read], &["zero-events"]).await;
    let bob = fixture.connect("bob", &[TokenScope::Read], &["zero-events"]).await;
    let flood = || ann.client.request::<ChatHistory>(history_params("main"));
    let mut flood: FuturesUnordered<_> = (0..REQUESTS).map(|_| flood()).collect();
    let answered = Cell::new(0_usize);
    let reading = async {
        while let Some(answer) = flood.next().await {
            assert_eq!(answer.unwrap().messages.len(), 2);
            answered.set(answered.get() + 1);
        }
    };
    let others = async {
        while answered.get() == 0 {
            tokio::task::yield_now().await;
        }
        bob.request::<Health>(json!({})).await;
        bob.request::<ChatHistory>(json!({"sessionKey": "other"})).await;
        answered.get()
    };
    let before = tokio::select! {
        () = reading => REQUESTS,
        before = others => before,
    };
    assert!(before < REQUESTS / 2, "{before} of {REQUESTS} were answered before");
}

#[tokio::test]
async fn answer_reads_bounded_part_of_ledger() {
    let fixture = TestGateway::start(&[]).await;
    fill_ledger(&fixture, "ann", "main", 25, 1_000_000).await;
    let ann = fixture.connect("ann", &[TokenScope::Read], &["zero-events"]).await;
    let events = ann.request::<ZeroSessionsEvents>(json!({"sessionKey": "main", "after": 0})).await;
    assert_eq!((events.events.len(), events.has_more), (9, true));
    let last = events.events.last().unwrap().seq;
    let rest = ann.request::<ZeroSessionsEvents>(json!({"sessionKey": "main", "after": 20})).await;
    assert_eq!((last, rest.events.len(), rest.has_more), (9, 6, false));
    // A reply of 25 MB began before the readable range, so no part of it is returned as a complete
    // message.
    let history = ann.request::<ChatHistory>(json!({"sessionKey": "main"})).await;
    assert_eq!(history.messages.len(), 0);
    assert_eq!(ann.request::<SessionsGet>(json!({"key": "main"})).await.messages.len(), 0);
    let preview = ann.request::<SessionsPreview>(json!({"keys": ["main"]})).await;
    assert_eq!(preview.previews[0].status, "empty");
}

/// The refusal of a history request, or `None` if it is queued; a `health` request sent after it
/// tells which.
async fn refusal_message(peer: &TestClient) -> Option<String> {
    let history = peer.client.request::<ChatHistory>(history_params("main"));
    let health = peer.client.request::<Health>(HealthParams::default());
    let answered = async {
        tokio::select! {
            biased;
            refused = history => match refused {
                Err(GatewayClientError::Refused { error }) => {
                    assert_eq!(error.retryable, Some(true));
                    Some(error.message)
                }
                other => panic!("not refused but {:?}", other.map(drop)),
            },
            health = health => {
                health.unwrap();
                None
            }
        }
    };
    timeout(PATIENCE, answered).await.unwrap()
}

#[tokio::test]
async fn departed_client_leaves_read_queue() {
    let limits = GatewayLimits { reads_max: 0, read_requests_max: 1, ..GatewayLimits::default() };
    let fixture = TestGateway::with_limits(&[], limits).await;
    let first = fixture.connect("ann", &[TokenScope::Read], &[]).await;
    let second = fixture.connect("ann", &[TokenScope::Read], &[]).await;
    assert_eq!(refusal_message(&first).await, None);
    let too_many = "1 requests of this owner that read sessions are not answered yet; wait for \
                    some";
    assert_eq!(refusal_message(&second).await.as_deref(), Some(too_many));
    // Another token has its own queue.
    let other = fixture.connect("bob", &[TokenScope::Read], &[]).await;
    assert_eq!(refusal_message(&other).await, None);
    drop(first);
    let freed = async { while refusal_message(&second).await.is_some() {} };
    timeout(PATIENCE, freed).await.unwrap();
}
