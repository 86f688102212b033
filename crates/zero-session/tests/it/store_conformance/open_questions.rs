//! Guarantees about questions that wait for an answer.

use std::sync::Arc;

use zero_core::event::{ApprovalRequest, ApprovalSubject};
use zero_session::event::{EventKind, RunOutcome, TokenUsage};
use zero_session::open_question::{OpenQuestion, QuestionScope};
use zero_session::store::{
    BeginRunOutcome, ClaimEpoch, ClaimOutcome, NewEvent, NewSession, SessionPatch, Store,
    StoreError, ToolHostLocation,
};

use super::{
    StoreConformanceCheck, address, create_session, new_run, new_session, run_address, run_id,
    text_event,
};

pub(super) const CHECKS: &[StoreConformanceCheck] = &[
    ("a question is open until it is answered", |store| {
        Box::pin(question_is_open_until_answered(store))
    }),
    ("questions of one owner do not hide those of another", |store| {
        Box::pin(owners_do_not_hide_each_other(store))
    }),
    ("questions of a run end with it", |store| Box::pin(questions_end_with_run(store))),
    ("a session whose run is parked is free for all", |store| {
        Box::pin(parked_session_can_be_claimed(store))
    }),
    ("questions of a client's tools are not kept", |store| {
        Box::pin(client_questions_are_not_kept(store))
    }),
];

fn asked(run: &str, id: &str, subject: ApprovalSubject) -> NewEvent {
    let request = ApprovalRequest {
        id: id.to_owned(),
        subject,
        call: format!("call of {id}"),
        tool: "Bash".to_owned(),
        title: String::new(),
        reason: String::new(),
        risk: "high".to_owned(),
        commands: Vec::new(),
        effects: Vec::new(),
        preview: None,
        input: None,
        options: Vec::new(),
        cwd: String::new(),
        expires_ms: 0,
        subagent: None,
    };
    let kind = EventKind::ApprovalRequested(request);
    NewEvent { run: Some(run_id(run)), time_ms: 9, kind }
}

fn answered(run: &str, id: &str) -> NewEvent {
    let (answer, by) = ("allow_once".to_owned(), "me".to_owned());
    let kind = EventKind::ApprovalResolved { id: id.to_owned(), answer, by };
    NewEvent { run: Some(run_id(run)), time_ms: 9, kind }
}

async fn begin(
    store: &Arc<dyn Store>,
    session: &str,
    run: &str,
) -> (zero_core::SessionId, ClaimEpoch) {
    let id = create_session(store, session).await.id;
    let begun = store.begin_run(new_run(run, &id, vec![text_event(run)])).await.unwrap();
    let BeginRunOutcome::Started { claim, .. } = begun else { panic!("it is free") };
    (id, claim)
}

async fn open_ids(store: &Arc<dyn Store>, session: Option<&zero_core::SessionId>) -> Vec<String> {
    let open = store.open_questions(QuestionScope::of_session(session)).await.unwrap();
    open.iter().map(|question| question.content.id().to_owned()).collect()
}

async fn question_is_open_until_answered(store: Arc<dyn Store>) {
    let (one, claim) = begin(&store, "one", "r1").await;
    let (two, other) = begin(&store, "two", "r2").await;
    let call = ApprovalSubject::Call;
    let first = vec![asked("r1", "a", call), asked("r1", "b", call)];
    store.append(&one, Some(claim), first).await.unwrap();
    store.append(&two, Some(other), vec![asked("r2", "c", call)]).await.unwrap();
    // A command that runs cannot wait for days.
    let connection = vec![asked("r2", "d", ApprovalSubject::Connection)];
    store.append(&two, Some(other), connection).await.unwrap();
    assert_eq!(open_ids(&store, None).await, ["a", "b", "c"]);
    assert_eq!(open_ids(&store, Some(&one)).await, ["a", "b"]);
    let found = store.open_question("a").await.unwrap().unwrap();
    assert_eq!((&found.session, &found.run, found.asked_ms), (&one, &run_id("r1"), 9));
    assert_eq!(store.open_question("d").await.unwrap(), None);
    assert!(store.find_run(None, &run_id("r1")).await.unwrap().unwrap().has_open_question);
    store.append_durable(&one, Some(claim), vec![answered("r1", "a")]).await.unwrap();
    assert_eq!(store.open_question("a").await.unwrap(), None);
    store.append(&one, Some(claim), vec![answered("r1", "b")]).await.unwrap();
    assert!(!store.find_run(None, &run_id("r1")).await.unwrap().unwrap().has_open_question);
    assert_eq!(open_ids(&store, None).await, ["c"]);
    store.delete(&two, other).await.unwrap();
    assert!(open_ids(&store, None).await.is_empty());
}

async fn owners_do_not_hide_each_other(store: Arc<dyn Store>) {
    let most = OpenQuestion::OWNER_LIST_MAX;
    let (busy, claim) = begin(&store, "busy", "r1").await;
    let call = ApprovalSubject::Call;
    let many = (0..most + 5).map(|number| asked("r1", &format!("q{number}"), call)).collect();
    store.append(&busy, Some(claim), many).await.unwrap();
    let other = NewSession { owner: "other".to_owned(), ..new_session("quiet") };
    let quiet = store.create(other).await.unwrap().id;
    let begun = store.begin_run(new_run("r2", &quiet, vec![])).await.unwrap();
    let BeginRunOutcome::Started { claim, .. } = begun else { panic!("it is free") };
    store.append(&quiet, Some(claim), vec![asked("r2", "mine", call)]).await.unwrap();
    let list = async |scope| {
        let open = store.open_questions(scope).await.unwrap();
        open.iter().map(|question| question.content.id().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(QuestionScope::Owner("other")).await, ["mine"]);
    assert_eq!(list(QuestionScope::Owner("nobody")).await, [""; 0]);
    let theirs = list(QuestionScope::Owner("local")).await;
    assert_eq!((theirs.len(), theirs[0].as_str()), (most, "q0"), "the oldest");
    let all = list(QuestionScope::All).await;
    assert_eq!((all.len(), all.last().map(String::as_str)), (most + 1, Some("mine")));
}

async fn questions_end_with_run(store: Arc<dyn Store>) {
    let (id, claim) = begin(&store, "one", "r1").await;
    let question = vec![asked("r1", "a", ApprovalSubject::Call)];
    store.append(&id, Some(claim), question).await.unwrap();
    let (end, usage) = (RunOutcome::Interrupted, TokenUsage::default());
    let kind = EventKind::RunEnded { end: end.clone(), usage };
    let last = vec![NewEvent { run: Some(run_id("r1")), time_ms: 9, kind }];
    store.end_run(&run_address(&id, "r1"), claim, end, usage, last).await.unwrap();
    assert!(open_ids(&store, None).await.is_empty());
}

async fn parked_session_can_be_claimed(store: Arc<dyn Store>) {
    let (id, claim) = begin(&store, "one", "r1").await;
    store.release_claim(&id, claim).await.unwrap();
    // Not without naming the claim, so that no run begins beside the parked one.
    let held = store.begin_run(new_run("r2", &id, vec![])).await.unwrap();
    let BeginRunOutcome::Held(holder) = held else { panic!("{held:?}") };
    assert_eq!((&*holder.node, holder.epoch), ("", claim));
    let taken = store.claim(&id, "there", Some(claim)).await.unwrap();
    let ClaimOutcome::Claimed(next) = taken else { panic!("{taken:?}") };
    assert!(matches!(
        store.adopt_run(&run_address(&id, "r1"), claim, "here").await,
        Err(StoreError::ClaimLost(_))
    ));
    store.adopt_run(&run_address(&id, "r1"), next, "there").await.unwrap();
    assert_eq!(store.find_run(None, &run_id("r1")).await.unwrap().unwrap().node, "there");
    assert!(matches!(store.release_claim(&id, claim).await, Err(StoreError::ClaimLost(_))));
}

async fn client_questions_are_not_kept(store: Arc<dyn Store>) {
    let (id, claim) = begin(&store, "one", "r1").await;
    let tool_host = Some(ToolHostLocation::Client { name: "laptop".to_owned() });
    let patch = SessionPatch { tool_host, ..SessionPatch::default() };
    store.patch(&address("one"), patch).await.unwrap();
    let question = vec![asked("r1", "a", ApprovalSubject::Call)];
    store.append(&id, Some(claim), question).await.unwrap();
    assert!(open_ids(&store, None).await.is_empty());
}
