//! Guarantees about runs.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{
    StoreConformanceCheck, assert_no_session, claim, create_session, event_seqs, event_text,
    new_run, new_session, read_session, run_address, run_id, text_event, unknown_session,
};
use zero_session::event::{EventKind, RunOutcome, TokenUsage};
use zero_session::run_usage::{RunUsageQuery, UsageTotal};
use zero_session::store::{
    BeginRunOutcome, LedgerReadLimit, NewEvent, NewRun, NewSession, RunRecord, Store, StoreError,
};

pub(super) const CHECKS: &[StoreConformanceCheck] = &[
    ("a run is begun once", |store| Box::pin(run_begins_once(store))),
    ("each owner has run ids of their own", |store| Box::pin(owners_share_no_run_ids(store))),
    ("a run raced for is begun once", |store| Box::pin(concurrent_begin_starts_once(store))),
    ("a run is settled once", |store| Box::pin(run_ends_once(store))),
    ("a run raced for is settled once", |store| Box::pin(concurrent_end_finishes_once(store))),
    ("unsettled runs are known by node", |store| {
        Box::pin(unfinished_runs_are_listed_by_node(store))
    }),
    ("what runs took adds up", |store| Box::pin(usage_adds_up(store))),
    ("the usage of runs is that of the ledger", |store| Box::pin(usage_follows_ledger(store))),
    ("the total usage is the sum of runs", |store| Box::pin(usage_total_is_sum_of_runs(store))),
    ("entries are added to open runs only", |store| {
        Box::pin(entries_are_added_to_open_runs_only(store))
    }),
    ("no entry follows the end of its run", |store| {
        Box::pin(concurrent_appends_do_not_follow_end_of_run(store))
    }),
];

const USAGE: TokenUsage = TokenUsage {
    input_tokens: 10,
    output_tokens: 20,
    cache_read_tokens: 3,
    cache_write_tokens: 4,
    cost_usd: Some(0.25),
    requests: 2,
    tool_calls: 5,
    work_ms: 7,
    failed_calls: 1,
    call_ms: 6,
    failed_runs: 1,
};

async fn owners_share_no_run_ids(store: Arc<dyn Store>) {
    let mine = create_session(&store, "a").await.id;
    let theirs = NewSession { owner: "other".to_owned(), ..new_session("a") };
    let theirs = store.create(theirs).await.unwrap().id;
    let mut claims = Vec::new();
    for session in [&mine, &theirs] {
        let started =
            EventKind::RunStarted { agent: "main".to_owned(), model: "m".to_owned(), parent: None };
        let first = vec![NewEvent { run: Some(run_id("r")), time_ms: 5, kind: started }];
        let begun = store.begin_run(new_run("r", session, first)).await.unwrap();
        let BeginRunOutcome::Started { claim, .. } = begun else { panic!("{begun:?}") };
        claims.push(claim);
    }
    // A third session of the same owner is refused.
    let third = create_session(&store, "b").await.id;
    let again = store.begin_run(new_run("r", &third, vec![])).await.unwrap();
    let BeginRunOutcome::AlreadyStarted(found) = again else { panic!("{again:?}") };
    assert_eq!(found.session, mine);

    let last = NewEvent {
        run: Some(run_id("r")),
        time_ms: 6,
        kind: EventKind::RunEnded { end: RunOutcome::Completed, usage: USAGE },
    };
    let address = run_address(&theirs, "r");
    let ended = store.end_run(&address, claims[1], RunOutcome::Completed, USAGE, vec![last]).await;
    assert_eq!(ended.unwrap().unwrap().len(), 1);
    let run = async |owner| store.find_run(owner, &run_id("r")).await.unwrap();
    assert_eq!(run(Some("local")).await.unwrap().end, None, "that of the other owner goes on");
    assert_eq!(run(Some("other")).await.unwrap().end, Some(RunOutcome::Completed));
    assert_eq!(run(None).await.unwrap().session, theirs, "it is the newest");
    assert_eq!(run(Some("nobody")).await, None);
    let unfinished = store.unfinished_runs(None).await.unwrap();
    assert_eq!(unfinished.iter().map(|run| &run.session).collect::<Vec<_>>(), [&mine]);

    let usages = store.run_usages(RunUsageQuery::default()).await.unwrap();
    let mut owners: Vec<_> = usages.iter().map(|usage| (&*usage.owner, usage.usage)).collect();
    owners.sort_by_key(|(owner, _)| *owner);
    assert_eq!(owners, [("local", TokenUsage::default()), ("other", USAGE)]);
    // Pages do not lose one of two runs with the same time and id.
    let after = Some((usages[0].started_ms, usages[0].address()));
    let rest = store.run_usages(RunUsageQuery { after, ..Default::default() }).await.unwrap();
    assert_eq!(rest, usages[1..]);
    let total = |run| store.usage_total(RunUsageQuery::default(), run);
    assert_eq!(total(Some(run_address(&mine, "r"))).await.unwrap().usage, USAGE);
    assert_eq!(total(Some(address)).await.unwrap().usage, TokenUsage::default());
}

async fn run_begins_once(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let other = create_session(&store, "b").await.id;
    assert_eq!(store.find_run(None, &run_id("r1")).await.unwrap(), None);
    let run = new_run("r1", &id, vec![text_event("1"), text_event("2")]);
    let BeginRunOutcome::Started { events: first, .. } =
        store.begin_run(run.clone()).await.unwrap()
    else {
        panic!("it was not there")
    };
    assert_eq!(event_seqs(&first), [1, 2]);
    assert_eq!(store.events(&id, 0, LedgerReadLimit::with_entries(9)).await.unwrap(), first);
    let record = RunRecord {
        id: run.id.clone(),
        session: id.clone(),
        node: "here".to_owned(),
        started_ms: 7,
        ended_ms: None,
        end: None,
        usage: TokenUsage::default(),
        options: Default::default(),
        has_open_question: false,
    };
    assert_eq!(store.find_run(None, &run.id).await.unwrap(), Some(record.clone()));
    let again = NewRun { node: "there".to_owned(), session: other.clone(), ..run.clone() };
    assert_eq!(store.begin_run(again).await.unwrap(), BeginRunOutcome::AlreadyStarted(record));
    assert_eq!(store.last_seq(&id).await.unwrap(), 2);
    assert_eq!(store.last_seq(&other).await.unwrap(), 0);
    store
        .end_run(
            &run_address(&id, "r1"),
            claim(&*store, &id).await,
            RunOutcome::Completed,
            USAGE,
            vec![],
        )
        .await
        .unwrap();
    let BeginRunOutcome::AlreadyStarted(ended) = store.begin_run(run).await.unwrap() else {
        panic!("it was there")
    };
    assert_eq!(ended.end, Some(RunOutcome::Completed));
    assert_no_session(
        store.begin_run(new_run("r2", &unknown_session(), vec![text_event("x")])).await,
    );
    assert_eq!(store.find_run(None, &run_id("r2")).await.unwrap(), None, "nothing is left of it");
}

async fn concurrent_begin_starts_once(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let (store, id) = (Arc::clone(&store), id.clone());
        let run = new_run("r1", &id, vec![text_event(task.to_string())]);
        tasks.spawn(async move { (task, store.begin_run(run).await.unwrap()) });
    }
    let begun = tasks.join_all().await;
    let winners: Vec<i32> = begun
        .iter()
        .filter(|(_, begun)| matches!(begun, BeginRunOutcome::Started { .. }))
        .map(|(task, _)| *task)
        .collect();
    let events = store.events(&id, 0, LedgerReadLimit::with_entries(99)).await.unwrap();
    let texts: Vec<&str> = events.iter().map(event_text).collect();
    assert_eq!(texts, winners.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(winners.len(), 1);
}

async fn run_ends_once(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    store.begin_run(new_run("r1", &id, vec![text_event("1")])).await.unwrap();
    let end = RunOutcome::Failed { kind: "network".to_owned(), message: "é".to_owned() };
    let last = vec![text_event("2"), NewEvent { time_ms: 99, ..text_event("3") }];
    let events = store
        .end_run(&run_address(&id, "r1"), claim(&*store, &id).await, end.clone(), USAGE, last)
        .await
        .unwrap()
        .expect("settled");
    assert_eq!(event_seqs(&events), [2, 3]);
    assert_eq!(store.events(&id, 1, LedgerReadLimit::with_entries(9)).await.unwrap(), events);
    let record = store.find_run(None, &run_id("r1")).await.unwrap().unwrap();
    assert_eq!((record.ended_ms, record.end, record.usage), (Some(99), Some(end), USAGE));
    let again = store.end_run(
        &run_address(&id, "r1"),
        claim(&*store, &id).await,
        RunOutcome::Completed,
        USAGE,
        vec![text_event("x")],
    );
    assert_eq!(again.await.unwrap(), None);
    let unknown = store.end_run(
        &run_address(&id, "r2"),
        claim(&*store, &id).await,
        RunOutcome::Completed,
        USAGE,
        vec![text_event("x")],
    );
    assert_eq!(unknown.await.unwrap(), None);
    assert_eq!(store.last_seq(&id).await.unwrap(), 3);
    assert_eq!(read_session(&store, "a").await.usage, USAGE);
}

async fn concurrent_end_finishes_once(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    store.begin_run(new_run("r1", &id, vec![])).await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..50 {
        let (store, id) = (Arc::clone(&store), id.clone());
        tasks.spawn(async move {
            let last = vec![text_event(task.to_string())];
            store
                .end_run(
                    &run_address(&id, "r1"),
                    claim(&*store, &id).await,
                    RunOutcome::Completed,
                    USAGE,
                    last,
                )
                .await
                .unwrap()
        });
    }
    let ended: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(
        store.events(&id, 0, LedgerReadLimit::with_entries(99)).await.unwrap(),
        ended.concat()
    );
    assert_eq!(read_session(&store, "a").await.usage, USAGE);
}

async fn unfinished_runs_are_listed_by_node(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let other = create_session(&store, "b").await.id;
    let idle = create_session(&store, "c").await.id;
    for (name, session, node, started_ms) in [
        ("r1", &id, "here", 30),
        ("r2", &other, "x", 10),
        ("r3", &id, "here", 20),
        ("r4", &id, "here", 5),
    ] {
        let run = NewRun { node: node.to_owned(), started_ms, ..new_run(name, session, vec![]) };
        store.begin_run(run).await.unwrap();
    }
    store
        .end_run(
            &run_address(&id, "r4"),
            claim(&*store, &id).await,
            RunOutcome::Interrupted,
            USAGE,
            vec![],
        )
        .await
        .unwrap();
    for (session, expected) in
        [(None, "r2 r3 r1"), (Some(&id), "r3 r1"), (Some(&other), "r2"), (Some(&idle), "")]
    {
        let runs = store.unfinished_runs(session).await.unwrap();
        let names: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(names.join(" "), expected, "{session:?}");
    }
}

/// The usage of a run follows its entries, in every state of the run, and outlives the session.
async fn usage_follows_ledger(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let entry = |name: &str, time_ms, kind| NewEvent { run: Some(run_id(name)), time_ms, kind };
    // Old ones are not kept.
    let base = zero_runtime::clock::now_ms();
    let list = |query: RunUsageQuery| {
        let store = Arc::clone(&store);
        async move { store.run_usages(query).await.unwrap() }
    };
    let started = |model: &str| EventKind::RunStarted {
        agent: "main".into(),
        model: model.into(),
        parent: None,
    };
    let reported =
        |run_usage| EventKind::UsageReported { run_usage, context_tokens: 0, context_window: 0 };
    for (name, time_ms) in [("r1", base), ("r2", base + 1)] {
        store.begin_run(new_run(name, &id, vec![text_event("x")])).await.unwrap();
        let claim = Some(claim(&*store, &id).await);
        let half = TokenUsage { input_tokens: 1, ..TokenUsage::default() };
        let entries = vec![entry(name, time_ms, started(name)), entry(name, 30, reported(half))];
        store.append(&id, claim, entries).await.unwrap();
        let [.., last] = &list(RunUsageQuery::default()).await[..] else { panic!("no usage") };
        assert_eq!((last.usage, &*last.model), (half, name));
        store.append(&id, claim, vec![entry(name, 40, reported(USAGE))]).await.unwrap();
    }
    let end = EventKind::RunEnded { end: RunOutcome::Completed, usage: USAGE };
    let claim_now = claim(&*store, &id).await;
    for name in ["r1", "r2"] {
        let last = vec![entry(name, 50, end.clone())];
        store
            .end_run(&run_address(&id, name), claim_now, RunOutcome::Completed, USAGE, last)
            .await
            .unwrap();
    }
    super::delete(&store, &id).await;
    let all = list(RunUsageQuery::default()).await;
    let names: Vec<_> = all.iter().map(|usage| (usage.run.as_str(), usage.started_ms)).collect();
    assert_eq!(names, [("r1", base), ("r2", base + 1)]);
    assert!(all.iter().all(|usage| usage.usage == USAGE && usage.owner == "local"));
    let after = Some((base, run_address(&id, "r1")));
    assert_eq!(list(RunUsageQuery { after, ..Default::default() }).await, all[1..]);
    assert_eq!(list(RunUsageQuery { since_ms: base + 1, ..Default::default() }).await, all[1..]);
    let agent = Some("other".to_owned());
    assert_eq!(list(RunUsageQuery { agent, ..Default::default() }).await, []);
    let session = Some(id.clone());
    let of_session = RunUsageQuery { session, owner: Some("local".into()), ..Default::default() };
    let spent = store.usage_total(of_session, Some(run_address(&id, "r1"))).await.unwrap();
    assert_eq!((spent.runs, spent.usage), (1, USAGE));
    let none = RunUsageQuery { owner: Some("other".into()), ..Default::default() };
    assert_eq!(store.usage_total(none, None).await.unwrap(), UsageTotal::default());
}

/// The sum of many runs is that of its parts, to the token: of priced, unpriced and huge ones.
async fn usage_total_is_sum_of_runs(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let base = zero_runtime::clock::now_ms();
    let mut expected = UsageTotal::default();
    for number in 0..20_u64 {
        let name = format!("r{number}");
        let cost_usd = (number % 3 > 0).then_some(0.25);
        let usage = TokenUsage {
            input_tokens: 1_000_000_007 * number,
            output_tokens: 3 * number + 1,
            cost_usd,
            ..USAGE
        };
        store.begin_run(new_run(&name, &id, vec![text_event("x")])).await.unwrap();
        let claim = claim(&*store, &id).await;
        let (agent, model) = ("main".to_owned(), "m".to_owned());
        let started = EventKind::RunStarted { agent, model, parent: None };
        let ended = EventKind::RunEnded { end: RunOutcome::Completed, usage };
        let entry = |kind| NewEvent { run: Some(run_id(&name)), time_ms: base, kind };
        store.append(&id, Some(claim), vec![entry(started)]).await.unwrap();
        let last = vec![entry(ended)];
        store
            .end_run(&run_address(&id, &name), claim, RunOutcome::Completed, usage, last)
            .await
            .unwrap();
        if number != 7 {
            expected += UsageTotal::of_run(usage);
        }
    }
    let query = RunUsageQuery { since_ms: base, agent: Some("main".into()), ..Default::default() };
    assert_eq!(store.usage_total(query, Some(run_address(&id, "r7"))).await.unwrap(), expected);
}

async fn usage_adds_up(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let free = TokenUsage { cost_usd: None, ..USAGE };
    for (name, usage) in [("r1", free), ("r2", USAGE), ("r3", USAGE)] {
        store.begin_run(new_run(name, &id, vec![])).await.unwrap();
        store
            .end_run(
                &run_address(&id, name),
                claim(&*store, &id).await,
                RunOutcome::Completed,
                usage,
                vec![],
            )
            .await
            .unwrap();
    }
    let expected = TokenUsage {
        input_tokens: 30,
        output_tokens: 60,
        cache_read_tokens: 9,
        cache_write_tokens: 12,
        cost_usd: Some(0.5),
        requests: 6,
        tool_calls: 15,
        work_ms: 21,
        failed_calls: 3,
        call_ms: 18,
        failed_runs: 3,
    };
    assert_eq!(read_session(&store, "a").await.usage, expected);
    let huge = TokenUsage { input_tokens: u64::MAX, ..USAGE };
    store.begin_run(new_run("r4", &id, vec![])).await.unwrap();
    store
        .end_run(
            &run_address(&id, "r4"),
            claim(&*store, &id).await,
            RunOutcome::Completed,
            huge,
            vec![],
        )
        .await
        .unwrap();
    assert_eq!(read_session(&store, "a").await.usage.input_tokens, u64::MAX);
}

fn entry_of(run: &str, kind: EventKind) -> NewEvent {
    NewEvent { run: Some(run_id(run)), time_ms: zero_runtime::clock::now_ms(), kind }
}

fn text_of(run: &str) -> NewEvent {
    entry_of(run, text_event(run).kind)
}

/// An entry that changes more than the ledger.
fn usage_of(run: &str) -> NewEvent {
    let (context_tokens, context_window) = (0, 0);
    entry_of(run, EventKind::UsageReported { run_usage: USAGE, context_tokens, context_window })
}

fn ended(run: &str) -> Vec<NewEvent> {
    vec![entry_of(run, EventKind::RunEnded { end: RunOutcome::Completed, usage: USAGE })]
}

/// A write that was under way when its sender was taken for dead may arrive after the end.
async fn entries_are_added_to_open_runs_only(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let other = NewSession { owner: "other".to_owned(), ..new_session("a") };
    let other = store.create(other).await.unwrap().id;
    let not_open = |run: &str| StoreError::RunNotOpen(run.to_owned());
    let never_begun = store.append(&id, None, vec![text_of("r1")]).await;
    assert_eq!(never_begun.unwrap_err(), not_open("r1"));
    for (session, run) in [(&id, "r1"), (&id, "r2"), (&other, "r1"), (&other, "r3")] {
        store.begin_run(new_run(run, session, vec![])).await.unwrap();
    }
    let claim = claim(&*store, &id).await;
    let both = vec![text_of("r1"), text_event("of no run"), usage_of("r2")];
    store.append(&id, Some(claim), both).await.unwrap();
    let r1 = run_address(&id, "r1");
    store.end_run(&r1, claim, RunOutcome::Completed, USAGE, ended("r1")).await.unwrap();
    let before = store.events(&id, 0, LedgerReadLimit::with_entries(99)).await.unwrap();
    let usages = store.run_usages(RunUsageQuery::default()).await.unwrap();
    for late in [text_of("r1"), usage_of("r1")] {
        // All or none, also of those that belong to an open run.
        let late = || vec![text_of("r2"), late.clone()];
        for claim in [None, Some(claim)] {
            assert_eq!(store.append(&id, claim, late()).await.unwrap_err(), not_open("r1"));
            let durable = store.append_durable(&id, claim, late()).await;
            assert_eq!(durable.unwrap_err(), not_open("r1"));
        }
    }
    // Open in the session of another owner only.
    assert_eq!(
        store.append(&id, Some(claim), vec![text_of("r3")]).await.unwrap_err(),
        not_open("r3")
    );
    assert_eq!(store.events(&id, 0, LedgerReadLimit::with_entries(99)).await.unwrap(), before);
    assert_eq!(store.run_usages(RunUsageQuery::default()).await.unwrap(), usages);
    store.append(&id, Some(claim), vec![text_of("r2")]).await.unwrap();
    store.append(&id, None, vec![text_event("of no run")]).await.unwrap();
}

async fn concurrent_appends_do_not_follow_end_of_run(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    for round in 0..20 {
        let run = format!("r{round}");
        store.begin_run(new_run(&run, &id, vec![])).await.unwrap();
        let claim = claim(&*store, &id).await;
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let (store, id, run) = (Arc::clone(&store), id.clone(), run.clone());
            writers.spawn(async move {
                loop {
                    let entry = if writer % 2 == 0 { text_of(&run) } else { usage_of(&run) };
                    if let Err(error) = store.append(&id, Some(claim), vec![entry]).await {
                        return error;
                    }
                }
            });
        }
        // So that some of them are under way.
        while store.last_seq(&id).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
        let address = run_address(&id, &run);
        let last = ended(&run);
        let end = store.end_run(&address, claim, RunOutcome::Completed, USAGE, last).await;
        let end_seq = end.unwrap().expect("it ends once")[0].seq;
        for error in writers.join_all().await {
            assert_eq!(error, StoreError::RunNotOpen(run.clone()));
        }
        assert_eq!(store.last_seq(&id).await.unwrap(), end_seq, "nothing follows its end");
    }
}
