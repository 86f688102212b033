//! Guarantees about ledgers and transcripts.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;
use zero_core::ToolKind;

use super::{
    StoreConformanceCheck, address, assert_no_session, claim, create_session, event_seqs,
    event_text, new_run, read_session, run_id, text_event, unknown_session,
};
use zero_session::event::{Event, EventKind};
use zero_session::message::{MessageBlock, ModelMessage};
use zero_session::store::{
    ClaimEpoch, LedgerReadLimit, NewEvent, SessionPatch, Store, StoreError, TranscriptStart,
};

pub(super) const CHECKS: &[StoreConformanceCheck] = &[
    ("entries are numbered without gaps", |store| {
        Box::pin(events_are_numbered_without_gaps(store))
    }),
    ("entries are read by pages", |store| Box::pin(events_are_read_by_pages(store))),
    ("entries are read by weight", |store| Box::pin(events_are_read_by_size(store))),
    ("entries come back as they were", |store| Box::pin(events_round_trip_unchanged(store))),
    ("a huge entry comes back as it was", |store| {
        Box::pin(huge_event_round_trips_unchanged(store))
    }),
    ("many write at once, each in its order", |store| {
        Box::pin(concurrent_appends_keep_order(store))
    }),
    ("many sessions are written at once", |store| Box::pin(concurrent_sessions_append(store))),
    ("who reads does not wait for who writes", |store| {
        Box::pin(reads_do_not_wait_for_writes(store))
    }),
    ("messages keep their order", |store| Box::pin(messages_keep_order(store))),
    ("older transcripts stay", |store| Box::pin(older_transcripts_are_kept(store))),
];

async fn events_are_numbered_without_gaps(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let other = create_session(&store, "b").await.id;
    assert_eq!(store.last_seq(&id).await.unwrap(), 0);
    let first = store.append(&id, None, vec![text_event("1"), text_event("2")]).await.unwrap();
    assert_eq!(event_seqs(&first), [1, 2]);
    assert_eq!(store.append(&id, None, vec![]).await.unwrap(), []);
    assert_eq!(event_seqs(&store.append(&other, None, vec![text_event("1")]).await.unwrap()), [1]);
    store
        .start_transcript(&id, claim(&*store, &id).await, TranscriptStart::Reset, vec![])
        .await
        .unwrap();
    let second = store.append(&id, None, vec![text_event("3")]).await.unwrap();
    assert_eq!(event_seqs(&second), [3], "numbers go on across transcripts");
    assert_eq!(store.last_seq(&id).await.unwrap(), 3);
    assert_eq!(
        store.events(&id, 0, LedgerReadLimit::with_entries(9)).await.unwrap(),
        [first, second].concat()
    );
    assert_no_session(store.append(&unknown_session(), None, vec![text_event("x")]).await);
    assert_no_session(store.append(&unknown_session(), None, vec![]).await);
    assert_no_session(store.events(&unknown_session(), 0, LedgerReadLimit::with_entries(9)).await);
    assert_no_session(
        store.last_events(&unknown_session(), u64::MAX, LedgerReadLimit::with_entries(9)).await,
    );
    assert_no_session(store.last_seq(&unknown_session()).await);
}

async fn events_are_read_by_pages(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    store.append(&id, None, (1..=10).map(|n| text_event(n.to_string())).collect()).await.unwrap();
    for (after, most, expected) in [
        (0, 3, vec![1, 2, 3]),
        (3, 3, vec![4, 5, 6]),
        (8, 3, vec![9, 10]),
        (10, 3, vec![]),
        (u64::MAX, usize::MAX, vec![]),
        (9, usize::MAX, vec![10]),
        (0, 0, vec![]),
    ] {
        let events = store.events(&id, after, LedgerReadLimit::with_entries(most)).await.unwrap();
        assert_eq!(event_seqs(&events), expected, "{most} after {after}");
        assert!(events.iter().all(|event| event_text(event) == event.seq.to_string()));
    }
    for (most, expected) in [(0, vec![]), (1, vec![10]), (3, vec![8, 9, 10])] {
        assert_eq!(
            event_seqs(
                &store
                    .last_events(&id, u64::MAX, LedgerReadLimit::with_entries(most))
                    .await
                    .unwrap()
            ),
            expected
        );
    }
    assert_eq!(
        store
            .last_events(&id, u64::MAX, LedgerReadLimit::with_entries(usize::MAX))
            .await
            .unwrap()
            .len(),
        10
    );
    for (before, expected) in [(9, vec![7, 8]), (2, vec![1]), (1, vec![]), (0, vec![])] {
        let events =
            store.last_events(&id, before, LedgerReadLimit::with_entries(2)).await.unwrap();
        assert_eq!(event_seqs(&events), expected, "before {before}");
    }
}

/// The size of an entry is the length of its content in JSON.
async fn events_are_read_by_size(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let words = ["é".repeat(500), "\u{1}".repeat(200), "x".repeat(10_000), "y".to_owned()];
    let written =
        store.append(&id, None, words.into_iter().map(text_event).collect()).await.unwrap();
    let weight = |event: &Event| serde_json::to_string(&event.kind).unwrap().len();
    let weights: Vec<usize> = written.iter().map(weight).collect();
    let [first, second, third, fourth] = weights[..] else { panic!("four were written") };
    let all = usize::MAX;
    for (after, entries, bytes, expected) in [
        (0, all, first + second + third + fourth, vec![1, 2, 3, 4]),
        (0, all, first + second + third + fourth - 1, vec![1, 2, 3]),
        (0, all, first + second, vec![1, 2]),
        (0, all, first + second - 1, vec![1]),
        // One entry always fits; otherwise a reader could not get past it.
        (0, all, 0, vec![1]),
        (2, all, 10, vec![3]),
        (4, all, 10, vec![]),
        (0, 1, all, vec![1]),
        (0, 0, all, vec![]),
    ] {
        let events = store.events(&id, after, LedgerReadLimit { entries, bytes }).await.unwrap();
        assert_eq!(event_seqs(&events), expected, "{entries} of {bytes} bytes after {after}");
    }
    for (before, entries, bytes, expected) in [
        (u64::MAX, all, third + fourth, vec![3, 4]),
        (u64::MAX, all, third + fourth - 1, vec![4]),
        (u64::MAX, all, 0, vec![4]),
        (4, all, third + second, vec![2, 3]),
        (4, all, 10, vec![3]),
        (3, all, first + second - 1, vec![2]),
        (u64::MAX, 0, all, vec![]),
    ] {
        let events =
            store.last_events(&id, before, LedgerReadLimit { entries, bytes }).await.unwrap();
        assert_eq!(event_seqs(&events), expected, "{entries} of {bytes} bytes before {before}");
    }
}

async fn events_round_trip_unchanged(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let mut entries: Vec<NewEvent> =
        ["", "\0", "a\0b", "\u{feff}é\u{301} 日本 🦀 \u{10ffff}", "'\"\\\n\r\t%_"]
            .into_iter()
            .map(text_event)
            .collect();
    entries.push(NewEvent {
        run: Some(run_id("r1")),
        time_ms: i64::MIN,
        kind: EventKind::ToolStarted {
            call: "c".to_owned(),
            name: "Write".to_owned(),
            title: "t".to_owned(),
            kind: ToolKind::Edit,
            input: json!({"z": [1, -2, 0.5, null, true, u64::MAX], "a": {"\0": "\0"}}),
            locations: vec![],
            waits: false,
            transcript_id: None,
        },
    });
    entries.push(NewEvent { time_ms: i64::MAX, ..text_event("later") });
    store.begin_run(new_run("r1", &id, vec![])).await.unwrap();
    let written = store.append(&id, None, entries.clone()).await.unwrap();
    let kept = store.events(&id, 0, LedgerReadLimit::with_entries(usize::MAX)).await.unwrap();
    assert_eq!(written, kept);
    let number = |(NewEvent { run, time_ms, kind }, seq)| Event { seq, run, time_ms, kind };
    assert_eq!(kept, entries.into_iter().zip(1..).map(number).collect::<Vec<_>>());
}

async fn huge_event_round_trips_unchanged(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let huge = "0123456789\n✓".repeat(5 * 1024 * 1024 / 14);
    let written =
        store.append(&id, None, vec![text_event(huge.clone()), text_event("small")]).await.unwrap();
    assert!(
        written == store.events(&id, 0, LedgerReadLimit::with_entries(9)).await.unwrap(),
        "it comes back as it was"
    );
    store
        .add_messages(&id, claim(&*store, &id).await, vec![ModelMessage::user(huge.clone()).into()])
        .await
        .unwrap();
    let messages = store.transcript(&id, None).await.unwrap().messages;
    assert!(messages == [ModelMessage::user(huge)], "it comes back as it was");
}

async fn concurrent_appends_keep_order(store: Arc<dyn Store>) {
    const TASKS: usize = 100;
    const EACH: usize = 20;
    let id = create_session(&store, "a").await.id;
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (store, id) = (Arc::clone(&store), id.clone());
        tasks.spawn(async move {
            let mut given = Vec::new();
            for n in (0..EACH).step_by(2) {
                let entries = vec![
                    text_event(format!("{task} {n}")),
                    text_event(format!("{task} {}", n + 1)),
                ];
                given.extend(store.append(&id, None, entries).await.unwrap());
            }
            given
        });
    }
    let mut given: Vec<Event> = tasks.join_all().await.into_iter().flatten().collect();
    given.sort_by_key(|event| event.seq);
    assert_eq!(event_seqs(&given), (1..=(TASKS * EACH) as u64).collect::<Vec<_>>());
    let kept = store.events(&id, 0, LedgerReadLimit::with_entries(usize::MAX)).await.unwrap();
    assert_eq!(kept, given);
    let mut next: HashMap<&str, usize> = HashMap::new();
    for pair in kept.chunks(2) {
        let mut tasks = Vec::new();
        for event in pair {
            let (task, n) = event_text(event).split_once(' ').unwrap();
            let expected = next.entry(task).or_default();
            assert_eq!(n, expected.to_string(), "the order of task {task}");
            *expected += 1;
            tasks.push(task);
        }
        assert_eq!(tasks.first(), tasks.last(), "what is written together stands together");
    }
}

async fn concurrent_sessions_append(store: Arc<dyn Store>) {
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let id = create_session(&store, &format!("s{task}")).await.id;
            for n in 1..=20_u64 {
                let written =
                    store.append(&id, None, vec![text_event(n.to_string())]).await.unwrap();
                assert_eq!(event_seqs(&written), [n]);
                // An acknowledged entry can be read.
                assert_eq!(store.last_seq(&id).await.unwrap(), n);
            }
            // A refused write in the same transaction does not affect the others.
            assert_no_session(store.append(&unknown_session(), None, vec![text_event("x")]).await);
        });
    }
    tasks.join_all().await;
    assert_eq!(store.count().await.unwrap(), 50);
}

async fn reads_do_not_wait_for_writes(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let writing = tokio::spawn({
        let (store, id) = (Arc::clone(&store), id.clone());
        async move {
            for n in 0..50 {
                let batch = (0..20).map(|m| text_event(format!("{n} {m}"))).collect();
                store.append(&id, None, batch).await.unwrap();
            }
        }
    });
    let mut seen = 0;
    while seen < 1000 {
        let events = store.events(&id, 0, LedgerReadLimit::with_entries(usize::MAX)).await.unwrap();
        assert_eq!(events.len() % 20, 0, "all of a batch, or none");
        assert_eq!(event_seqs(&events), (1..=events.len() as u64).collect::<Vec<_>>());
        assert!(events.len() >= seen, "what was seen stays");
        seen = events.len();
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
}

async fn messages_keep_order(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let empty = store.transcript(&id, None).await.unwrap();
    assert_eq!((empty.number, empty.messages), (1, vec![]));
    let messages = vec![
        ModelMessage::user("é\0"),
        ModelMessage::assistant(vec![MessageBlock::Thinking {
            text: "hm".to_owned(),
            opaque: json!({"signature": "x"}),
        }]),
        ModelMessage::user(""),
    ];
    let shared = messages.iter().cloned().map(Arc::new).collect::<Vec<_>>();
    store.add_messages(&id, claim(&*store, &id).await, shared[..1].to_vec()).await.unwrap();
    store.add_messages(&id, claim(&*store, &id).await, vec![]).await.unwrap();
    store.add_messages(&id, claim(&*store, &id).await, shared[1..].to_vec()).await.unwrap();
    assert_eq!(store.transcript(&id, None).await.unwrap().messages, messages);
    assert_no_session(store.add_messages(&unknown_session(), ClaimEpoch(1), shared).await);
    assert_no_session(store.transcript(&unknown_session(), None).await);
}

async fn older_transcripts_are_kept(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    store
        .add_messages(&id, claim(&*store, &id).await, vec![ModelMessage::user("first").into()])
        .await
        .unwrap();
    let known = SessionPatch { context_tokens: Some(9), ..Default::default() };
    store.patch(&address("a"), known).await.unwrap();
    let reset = store
        .start_transcript(&id, claim(&*store, &id).await, TranscriptStart::Reset, vec![])
        .await
        .unwrap();
    assert_eq!(reset, 2);
    let session = read_session(&store, "a").await;
    assert_eq!((session.transcript, session.context_tokens), (2, None));
    store
        .add_messages(&id, claim(&*store, &id).await, vec![ModelMessage::user("second").into()])
        .await
        .unwrap();
    let summary = vec![ModelMessage::user("in short").into(), ModelMessage::user("go on").into()];
    let compacted = TranscriptStart::Compacted;
    assert_eq!(
        store.start_transcript(&id, claim(&*store, &id).await, compacted, summary).await.unwrap(),
        3
    );
    store
        .add_messages(&id, claim(&*store, &id).await, vec![ModelMessage::user("third").into()])
        .await
        .unwrap();
    for (wanted, number, expected) in [
        (Some(1), 1, vec!["first"]),
        (Some(2), 2, vec!["second"]),
        (Some(3), 3, vec!["in short", "go on", "third"]),
        (None, 3, vec!["in short", "go on", "third"]),
    ] {
        let transcript = store.transcript(&id, wanted).await.unwrap();
        let texts: Vec<String> = transcript.messages.iter().map(ModelMessage::text).collect();
        assert_eq!(
            (transcript.number, texts),
            (number, expected.iter().map(|&text| text.to_owned()).collect())
        );
    }
    for number in [0, 4] {
        let none = StoreError::NoTranscript { session: id.to_string(), number };
        assert_eq!(store.transcript(&id, Some(number)).await.unwrap_err(), none);
    }
    assert_no_session(
        store.start_transcript(&unknown_session(), ClaimEpoch(1), compacted, vec![]).await,
    );
}
