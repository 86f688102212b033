//! The guarantees of every [`Store`], as checks for any implementation.

// With paths, since the tests of sessions include this file too.
#[path = "store_conformance/claims.rs"]
mod claims;
#[path = "store_conformance/ledger.rs"]
mod ledger;
#[path = "store_conformance/open_questions.rs"]
mod open_questions;
#[path = "store_conformance/rewinds.rs"]
mod rewinds;
#[path = "store_conformance/runs.rs"]
mod runs;
#[path = "store_conformance/sessions.rs"]
mod sessions;

use std::sync::Arc;

use zero_core::{RunId, SessionId};
use zero_runtime::tool::BoxFuture;
use zero_session::event::{Event, EventKind};
use zero_session::key::{SessionAddress, SessionKey};
use zero_session::store::{
    ClaimEpoch, ClaimOutcome, NewEvent, NewRun, NewSession, RunAddress, SessionRecord, Store,
    StoreError, ToolHostLocation,
};

/// One guarantee: its name and its check. Each check needs its own empty store.
type StoreConformanceCheck = (&'static str, fn(Arc<dyn Store>) -> BoxFuture<'static, ()>);

/// All guarantees.
const CHECKS: &[&[StoreConformanceCheck]] = &[
    sessions::CHECKS,
    ledger::CHECKS,
    runs::CHECKS,
    claims::CHECKS,
    rewinds::CHECKS,
    open_questions::CHECKS,
];

/// Runs every check; `make` returns a new and empty store each time. Needs a multi-threaded runtime
/// to test concurrency.
pub(crate) async fn check_store<F>(make: impl Fn() -> F)
where
    F: Future<Output = Arc<dyn Store>>,
{
    for (name, check) in CHECKS.iter().copied().flatten() {
        tracing::info!(name, "checking a store");
        check(make().await).await;
    }
}

fn key(name: &str) -> SessionKey {
    SessionKey::resolve(name, "main").unwrap()
}

/// Address of the session that [`new_session`] makes.
fn address(name: &str) -> SessionAddress {
    SessionAddress::new("local", key(name))
}

fn new_session(name: &str) -> NewSession {
    NewSession {
        key: key(name),
        label: None,
        cwd: None,
        model: None,
        mode: None,
        owner: "local".to_owned(),
        owned_max: u64::MAX,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    }
}

async fn create_session(store: &Arc<dyn Store>, name: &str) -> SessionRecord {
    store.create(new_session(name)).await.unwrap()
}

async fn read_session(store: &Arc<dyn Store>, name: &str) -> SessionRecord {
    store.session(&address(name)).await.unwrap().expect("the session is there")
}

/// An id that no session has.
fn unknown_session() -> SessionId {
    SessionId::new("sess_nobody").unwrap()
}

fn text_event(text: impl Into<String>) -> NewEvent {
    NewEvent { run: None, time_ms: 1, kind: EventKind::Text { text: text.into() } }
}

fn event_text(event: &Event) -> &str {
    match &event.kind {
        EventKind::Text { text } => text,
        other => panic!("no text: {other:?}"),
    }
}

fn event_seqs(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

fn run_id(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

fn run_address(session: &SessionId, name: &str) -> RunAddress {
    RunAddress::new(session, &run_id(name))
}

fn new_run(name: &str, session: &SessionId, first: Vec<NewEvent>) -> NewRun {
    NewRun {
        id: run_id(name),
        session: session.clone(),
        node: "here".to_owned(),
        started_ms: 7,
        options: Default::default(),
        first,
    }
}

/// The claim of the process that [`new_run`] names.
pub(crate) async fn claim(store: &dyn Store, session: &SessionId) -> ClaimEpoch {
    match store.claim(session, "here", None).await.unwrap() {
        ClaimOutcome::Claimed(claim) => claim,
        ClaimOutcome::Held(holder) => panic!("held by {holder:?}"),
    }
}

async fn delete(store: &Arc<dyn Store>, session: &SessionId) {
    store.delete(session, claim(&**store, session).await).await.unwrap();
}

#[track_caller]
fn assert_no_session<T: std::fmt::Debug>(result: Result<T, StoreError>) {
    let error = result.expect_err("there is no such session");
    assert_eq!(error, StoreError::NoSession("sess_nobody".to_owned()));
}
