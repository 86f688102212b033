//! Guarantees about the process that holds a session.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{
    StoreConformanceCheck, claim, create_session, new_run, read_session, run_address, run_id,
    text_event,
};
use zero_session::event::{RunOutcome, TokenUsage};
use zero_session::message::ModelMessage;
use zero_session::store::{
    BeginRunOutcome, ClaimEpoch, ClaimOutcome, LedgerReadLimit, NewRun, SessionClaim, Store,
    StoreError, TranscriptStart,
};

pub(super) const CHECKS: &[StoreConformanceCheck] = &[
    ("one process runs in a session", |store| Box::pin(session_is_held_by_one_process(store))),
    ("a session raced for is claimed once", |store| Box::pin(concurrent_begin_claims_once(store))),
    ("a claim that is renewed refuses earlier writes", |store| {
        Box::pin(renewed_claim_refuses_earlier_writes(store))
    }),
    ("a process that was replaced cannot write", |store| {
        Box::pin(replaced_process_cannot_write(store))
    }),
];

fn run_of(node: &str, name: &str, session: &zero_core::SessionId) -> NewRun {
    NewRun { node: node.to_owned(), ..new_run(name, session, vec![text_event(name)]) }
}

async fn session_is_held_by_one_process(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let idle = claim(&*store, &id).await;
    assert_eq!(claim(&*store, &id).await, idle, "it stays the same");
    // Nothing runs in it, so anybody may have it.
    let BeginRunOutcome::Started { claim: first, .. } =
        store.begin_run(run_of("x", "r1", &id)).await.unwrap()
    else {
        panic!("it is free")
    };
    assert!(first.0 > idle.0);
    let held = SessionClaim { node: "x".to_owned(), epoch: first };
    assert_eq!(
        store.begin_run(run_of("y", "r2", &id)).await.unwrap(),
        BeginRunOutcome::Held(held.clone())
    );
    assert_eq!(store.find_run(None, &run_id("r2")).await.unwrap(), None, "nothing is left of it");
    assert_eq!(store.claim(&id, "y", None).await.unwrap(), ClaimOutcome::Held(held.clone()));
    assert_eq!(store.claim(&id, "y", Some(idle)).await.unwrap(), ClaimOutcome::Held(held));
    let usage = TokenUsage::default();
    store
        .end_run(&run_address(&id, "r1"), first, RunOutcome::Completed, usage, vec![])
        .await
        .unwrap();
    let begun = store.begin_run(run_of("y", "r2", &id)).await.unwrap();
    assert!(matches!(begun, BeginRunOutcome::Started { .. }), "{begun:?}");
}

async fn concurrent_begin_claims_once(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let (store, run) =
            (Arc::clone(&store), run_of(&format!("n{task}"), &format!("r{task}"), &id));
        tasks.spawn(async move { store.begin_run(run).await.unwrap() });
    }
    let begun = tasks.join_all().await;
    let is_started = |begun: &&BeginRunOutcome| matches!(begun, BeginRunOutcome::Started { .. });
    assert_eq!(begun.iter().filter(is_started).count(), 1);
    assert_eq!(store.unfinished_runs(Some(&id)).await.unwrap().len(), 1);
}

async fn renewed_claim_refuses_earlier_writes(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let BeginRunOutcome::Started { claim: old, .. } =
        store.begin_run(run_of("x", "r1", &id)).await.unwrap()
    else {
        panic!("it is free")
    };
    let renewed = ClaimOutcome::Claimed(ClaimEpoch(old.0 + 1));
    assert_eq!(store.claim(&id, "x", Some(old)).await.unwrap(), renewed);
    assert_eq!(store.claim(&id, "x", Some(old)).await.unwrap(), renewed, "once for each number");
    let late = store.append(&id, Some(old), vec![text_event("late")]).await;
    assert_eq!(late.unwrap_err(), StoreError::ClaimLost(id.to_string()));
    store.append(&id, Some(ClaimEpoch(old.0 + 1)), vec![text_event("in time")]).await.unwrap();
}

async fn replaced_process_cannot_write(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let BeginRunOutcome::Started { claim: old, .. } =
        store.begin_run(run_of("x", "r1", &id)).await.unwrap()
    else {
        panic!("it is free")
    };
    let ClaimOutcome::Claimed(new) = store.claim(&id, "y", Some(old)).await.unwrap() else {
        panic!("its process is dead")
    };
    let lost = StoreError::ClaimLost(id.to_string());
    let message = || vec![ModelMessage::user("late").into()];
    let (usage, why) = (TokenUsage::default(), TranscriptStart::Compacted);
    let late = store.append(&id, Some(old), vec![text_event("late")]).await;
    assert_eq!(late.unwrap_err(), lost);
    assert_eq!(store.add_messages(&id, old, message()).await.unwrap_err(), lost);
    assert_eq!(store.start_transcript(&id, old, why, message()).await.unwrap_err(), lost);
    let ended =
        store.end_run(&run_address(&id, "r1"), old, RunOutcome::Completed, usage, vec![]).await;
    assert_eq!(ended.unwrap_err(), lost);
    assert_eq!(store.delete(&id, old).await.unwrap_err(), lost);
    let ledger = store.events(&id, 0, LedgerReadLimit::with_entries(9)).await.unwrap();
    assert_eq!(ledger.len(), 1, "{ledger:?}");
    assert_eq!(store.transcript(&id, None).await.unwrap().messages, []);
    let last = vec![text_event("r1 is interrupted")];
    let ended =
        store.end_run(&run_address(&id, "r1"), new, RunOutcome::Interrupted, usage, last).await;
    assert!(ended.unwrap().is_some());
    // The process that was replaced comes back for a new run, under a new claim.
    let begun = store.begin_run(run_of("x", "r3", &id)).await.unwrap();
    assert!(
        matches!(begun, BeginRunOutcome::Started { claim, .. } if claim.0 > new.0),
        "{begun:?}"
    );
    assert_eq!(read_session(&store, "a").await.transcript, 1);
}
