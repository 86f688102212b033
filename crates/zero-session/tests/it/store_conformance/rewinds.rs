//! Guarantees about rewind points and rewinds.

use std::sync::Arc;

use super::{
    StoreConformanceCheck, address, assert_no_session, claim, create_session, new_run, run_address,
    text_event, unknown_session,
};
use zero_core::SessionId;
use zero_session::event::{EventKind, RewindScope, RunOutcome, TokenUsage};
use zero_session::message::ModelMessage;
use zero_session::store::{
    ClaimEpoch, ForkPoint, NewEvent, NewFork, RewindPoint, RewindPointKind, Store, StoreError,
    TranscriptPosition, TranscriptStart,
};

pub(super) const CHECKS: &[StoreConformanceCheck] = &[
    ("a prompt knows where its transcript was", |store| Box::pin(prompts_have_positions(store))),
    ("a rewind goes on before a prompt and keeps the rest", |store| {
        Box::pin(rewind_starts_transcript(store))
    }),
    ("a rewind of files changes no transcript", |store| Box::pin(files_leave_transcript(store))),
    ("a copy ends before a prompt", |store| Box::pin(fork_ends_before_prompt(store))),
    ("a rewind needs the claim", |store| Box::pin(rewind_needs_claim(store))),
];

fn prompt_event(text: &str) -> NewEvent {
    let kind = EventKind::Prompt { text: text.to_owned(), attachments: Vec::new() };
    NewEvent { run: None, time_ms: 1, kind }
}

fn rewind_event(id: &str, before: u64, scope: RewindScope) -> NewEvent {
    let (rewind, prompt, files) = (id.to_owned(), Some(1), 0);
    let kind = EventKind::Rewound { rewind, prompt, before, scope, files };
    NewEvent { run: None, time_ms: 2, kind }
}

async fn begin(store: &Arc<dyn Store>, session: &SessionId, run: &str) {
    store.begin_run(new_run(run, session, vec![prompt_event(run)])).await.unwrap();
}

async fn end(store: &Arc<dyn Store>, session: &SessionId, run: &str) {
    let claim = claim(&**store, session).await;
    let (end, usage) = (RunOutcome::Completed, TokenUsage::default());
    store
        .end_run(&run_address(session, run), claim, end, usage, vec![text_event("end")])
        .await
        .unwrap();
}

async fn add(store: &Arc<dyn Store>, session: &SessionId, text: &str) {
    let claim = claim(&**store, session).await;
    let message = vec![Arc::new(ModelMessage::user(text))];
    store.add_messages(session, claim, message).await.unwrap();
}

/// Runs one prompt to its end, with two messages.
async fn run_prompt(store: &Arc<dyn Store>, session: &SessionId, run: &str) {
    begin(store, session, run).await;
    add(store, session, run).await;
    add(store, session, "reply").await;
    end(store, session, run).await;
}

async fn message_texts(store: &Arc<dyn Store>, session: &SessionId) -> Vec<String> {
    let transcript = store.transcript(session, None).await.unwrap();
    transcript.messages.iter().map(ModelMessage::text).collect()
}

/// Number or id, entry, and position of a point.
type PointText = (String, u64, Option<(u64, u64)>);

fn describe(points: &[RewindPoint]) -> Vec<PointText> {
    let point = |point: &RewindPoint| {
        let name = match &point.kind {
            RewindPointKind::Prompt { number, words } => format!("{number} {words}"),
            RewindPointKind::Rewind { id, before, .. } => format!("{id} before {before:?}"),
        };
        (name, point.seq, point.position.map(|at| (at.transcript, at.messages)))
    };
    points.iter().map(point).collect()
}

async fn points(
    store: &Arc<dyn Store>,
    session: &SessionId,
) -> Vec<(String, u64, Option<(u64, u64)>)> {
    describe(&store.rewind_points(session).await.unwrap())
}

fn point(name: &str, seq: u64, at: (u64, u64)) -> (String, u64, Option<(u64, u64)>) {
    (name.to_owned(), seq, Some(at))
}

async fn prompts_have_positions(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    assert_eq!(points(&store, &id).await, []);
    run_prompt(&store, &id, "one").await;
    // Two wait for the second; the first of them is dropped.
    begin(&store, &id, "two").await;
    add(&store, &id, "two").await;
    begin(&store, &id, "three").await;
    begin(&store, &id, "four").await;
    let waiting = |name: &str, seq| (name.to_owned(), seq, None);
    let first = [point("1 one", 1, (1, 0)), point("2 two", 3, (1, 2))];
    let expected = [&first[..], &[waiting("3 three", 4), waiting("4 four", 5)]].concat();
    assert_eq!(points(&store, &id).await, expected);
    end(&store, &id, "three").await;
    add(&store, &id, "reply").await;
    end(&store, &id, "two").await;
    let expected = [&first[..], &[waiting("3 three", 4), point("4 four", 5, (1, 4))]].concat();
    assert_eq!(points(&store, &id).await, expected);
    end(&store, &id, "four").await;
    let claim = claim(&*store, &id).await;
    store.start_transcript(&id, claim, TranscriptStart::Compacted, Vec::new()).await.unwrap();
    begin(&store, &id, "five").await;
    assert_eq!(points(&store, &id).await.pop().unwrap().2, Some((2, 0)));
    // A run without a prompt has no point.
    let other = create_session(&store, "b").await.id;
    store.begin_run(new_run("six", &other, vec![text_event("x")])).await.unwrap();
    assert_eq!(points(&store, &other).await, []);
    assert_no_session(store.rewind_points(&unknown_session()).await);
}

async fn rewind_starts_transcript(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    for run in ["one", "two", "three"] {
        run_prompt(&store, &id, run).await;
    }
    let before = store.size(&id).await.unwrap();
    let claim = claim(&*store, &id).await;
    let to_two = TranscriptPosition { transcript: 1, messages: 2 };
    let entry = rewind_event("r1", 3, RewindScope::Both);
    let event = store.rewind(&id, claim, Some(to_two), entry.clone()).await.unwrap();
    assert_eq!((event.seq, &event.kind), (7, &entry.kind));
    assert_eq!(message_texts(&store, &id).await, ["one", "reply"]);
    let record = store.session_by_id(&id).await.unwrap().unwrap();
    assert_eq!((record.transcript, record.context_tokens), (2, None));
    assert!(store.size(&id).await.unwrap() > before, "the messages are stored again");
    assert_eq!(store.transcript(&id, Some(1)).await.unwrap().messages.len(), 6, "kept");
    assert_eq!(points(&store, &id).await.pop().unwrap(), point("r1 before Some(3)", 7, (1, 6)));
    // It goes on from there, and the rewind is taken back.
    run_prompt(&store, &id, "four").await;
    assert_eq!(points(&store, &id).await.pop().unwrap(), point("4 four", 8, (2, 2)));
    let back = TranscriptPosition { transcript: 1, messages: 6 };
    let entry = rewind_event("r2", 7, RewindScope::Both);
    store.rewind(&id, claim, Some(back), entry).await.unwrap();
    assert_eq!(
        message_texts(&store, &id).await,
        ["one", "reply", "two", "reply", "three", "reply"]
    );
    let nowhere = TranscriptPosition { transcript: 9, messages: 0 };
    let entry = rewind_event("r3", 1, RewindScope::Both);
    let error = store.rewind(&id, claim, Some(nowhere), entry).await.unwrap_err();
    assert!(matches!(error, StoreError::NoTranscript { number: 9, .. }), "{error}");
    assert_eq!(store.last_seq(&id).await.unwrap(), 10, "nothing is left of it");
}

async fn files_leave_transcript(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    run_prompt(&store, &id, "one").await;
    let claim = claim(&*store, &id).await;
    let entry = rewind_event("r1", 1, RewindScope::Files);
    store.rewind(&id, claim, None, entry).await.unwrap();
    assert_eq!(message_texts(&store, &id).await, ["one", "reply"]);
    assert_eq!(store.session_by_id(&id).await.unwrap().unwrap().transcript, 1);
    assert_eq!(points(&store, &id).await.pop().unwrap(), point("r1 before None", 3, (1, 2)));
}

async fn fork_ends_before_prompt(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    for run in ["one", "two", "three"] {
        run_prompt(&store, &id, run).await;
    }
    let fork = |name: &str| NewFork {
        id: SessionId::new(format!("sess_{name}")).unwrap(),
        key: super::key(name),
        title: None,
        owned_max: u64::MAX,
    };
    let position = TranscriptPosition { transcript: 1, messages: 4 };
    let before = ForkPoint::Before { seq: 5, position };
    let copy = store.fork(&id, before, fork("b"), text_event("forked")).await.unwrap();
    assert_eq!(message_texts(&store, &copy.id).await, ["one", "reply", "two", "reply"]);
    assert_eq!(store.last_seq(&copy.id).await.unwrap(), 5);
    let expected = [point("1 one", 1, (1, 0)), point("2 two", 3, (1, 2))];
    assert_eq!(points(&store, &copy.id).await, expected);
    assert_eq!(store.session(&address("b")).await.unwrap(), Some(copy));
    // A copy of a rewound session has the points, and the positions in its own transcript.
    let claim = claim(&*store, &id).await;
    let to_two = TranscriptPosition { transcript: 1, messages: 2 };
    store.rewind(&id, claim, Some(to_two), rewind_event("r1", 3, RewindScope::Both)).await.unwrap();
    run_prompt(&store, &id, "four").await;
    let end = ForkPoint::End(claim);
    let copy = store.fork(&id, end, fork("c"), text_event("forked")).await.unwrap();
    assert_eq!(message_texts(&store, &copy.id).await, ["one", "reply", "four", "reply"]);
    let elsewhere = |name: &str, seq| (name.to_owned(), seq, None);
    let expected = [
        elsewhere("1 one", 1),
        elsewhere("2 two", 3),
        elsewhere("3 three", 5),
        elsewhere("r1 before Some(3)", 7),
        point("4 four", 8, (1, 2)),
    ];
    assert_eq!(points(&store, &copy.id).await, expected);
}

async fn rewind_needs_claim(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    run_prompt(&store, &id, "one").await;
    let entry = rewind_event("r1", 1, RewindScope::Both);
    let position = Some(TranscriptPosition { transcript: 1, messages: 0 });
    let error = store.rewind(&id, ClaimEpoch(99), position, entry.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::ClaimLost(_)), "{error}");
    let claim = claim(&*store, &id).await;
    let error = store.rewind(&id, claim, position, text_event("x")).await.unwrap_err();
    assert_eq!(error, NewEvent::not_a_rewind());
    assert_eq!(message_texts(&store, &id).await, ["one", "reply"]);
    assert_no_session(store.rewind(&unknown_session(), claim, position, entry).await);
}
