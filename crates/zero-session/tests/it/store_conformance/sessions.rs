//! Guarantees about sessions: keys, labels, lists and grants.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinSet;
use zero_policy::{GrantScope, PermissionMode};

use super::{
    StoreConformanceCheck, address, assert_no_session, claim, create_session, delete, event_text,
    key, new_run, new_session, read_session, run_address, run_id, text_event, unknown_session,
};
use zero_core::SessionId;
use zero_session::event::{EventKind, RunOutcome, TokenUsage};
use zero_session::key::SessionAddress;
use zero_session::message::ModelMessage;
use zero_session::store::{
    ClaimEpoch, ForkPoint, GrantRecord, IdleSession, IdleSessionQuery, LedgerReadLimit, NewEvent,
    NewFork, NewSession, SessionPatch, SessionQuery, SessionRecord, Store, StoreError,
    ToolHostLocation, TranscriptStart,
};

pub(super) const CHECKS: &[StoreConformanceCheck] = &[
    ("a session is made once", |store| Box::pin(session_is_created_once(store))),
    ("a session raced for is made once", |store| Box::pin(concurrent_create_makes_one(store))),
    ("a session is kept as it was wanted", |store| Box::pin(session_round_trips_unchanged(store))),
    ("a patch changes what it names", |store| Box::pin(patch_changes_named_fields(store))),
    ("a key is unique per owner", |store| Box::pin(key_is_unique_per_owner(store))),
    ("a label is unique per owner", |store| Box::pin(label_is_unique_per_owner(store))),
    ("a label has one owner", |store| Box::pin(label_has_one_owner(store))),
    ("a label raced for has one owner", |store| Box::pin(concurrent_label_has_one_owner(store))),
    ("sessions are listed newest first, by pages", |store| {
        Box::pin(sessions_are_listed_by_pages(store))
    }),
    ("sessions are listed by what they are", |store| Box::pin(sessions_are_filtered(store))),
    ("a search finds letters, not patterns", |store| Box::pin(search_matches_literal_text(store))),
    ("a removed session leaves nothing", |store| Box::pin(deleted_session_leaves_nothing(store))),
    ("an owner has so many and no more", |store| Box::pin(owner_session_limit_holds(store))),
    ("sub-agents count to their parent", |store| {
        Box::pin(subagent_sessions_count_to_their_parent(store))
    }),
    ("what a session takes is counted", |store| Box::pin(session_size_is_counted(store))),
    ("grants stand until others do", |store| Box::pin(grants_are_replaced(store))),
    ("grants of two processes are merged", |store| {
        Box::pin(grants_of_two_processes_are_merged(store))
    }),
    ("idle sessions are listed oldest first", |store| Box::pin(idle_sessions_are_listed(store))),
    ("an idle session is deleted only as it was listed", |store| {
        Box::pin(idle_session_is_deleted_only_unchanged(store))
    }),
    ("a family of sessions is idle as a whole", |store| Box::pin(family_is_idle_as_a_whole(store))),
    ("a use without an entry keeps a session", |store| Box::pin(use_keeps_session(store))),
    ("sessions are counted by owner", |store| Box::pin(owners_are_counted_singly(store))),
    ("a copy has the conversation of its session", |store| Box::pin(fork_copies_session(store))),
    ("a copy has nothing of a run that goes on", |store| {
        Box::pin(fork_leaves_unfinished_runs_out(store))
    }),
    ("a copy begins after the last reset", |store| Box::pin(fork_begins_after_reset(store))),
    ("a copy that cannot be made leaves nothing", |store| {
        Box::pin(refused_fork_leaves_nothing(store))
    }),
    ("it says that it is ready", |store| Box::pin(store_reports_ready(store))),
];

async fn session_is_created_once(store: Arc<dyn Store>) {
    assert_eq!(store.session(&address("a")).await.unwrap(), None);
    let made = create_session(&store, "a").await;
    let again = NewSession { label: Some("other".to_owned()), ..new_session("a") };
    assert_eq!(store.create(again).await.unwrap(), made, "unchanged");
    assert_eq!(store.session(&address("a")).await.unwrap(), Some(made.clone()));
    assert_eq!(store.session_by_id(&made.id).await.unwrap(), Some(made.clone()));
    assert_eq!(store.session_by_id(&unknown_session()).await.unwrap(), None);
    assert_ne!(create_session(&store, "b").await.id, made.id);
    assert_eq!(store.count().await.unwrap(), 2);
}

async fn key_is_unique_per_owner(store: Arc<dyn Store>) {
    let of = |owner: &str| NewSession { owner: owner.to_owned(), ..new_session("a") };
    let at = |owner: &str| SessionAddress::new(owner, key("a"));
    let mine = store.create(of("me")).await.unwrap();
    let theirs = store.create(of("them")).await.unwrap();
    assert_ne!(mine.id, theirs.id);
    assert_eq!(store.create(of("them")).await.unwrap(), theirs, "unchanged");
    assert_eq!(store.session(&at("me")).await.unwrap(), Some(mine.clone()));
    assert_eq!(store.session(&at("them")).await.unwrap(), Some(theirs.clone()));
    assert_eq!(store.session(&at("nobody")).await.unwrap(), None);
    let title = SessionPatch { title: Some(Some("mine".to_owned())), ..Default::default() };
    store.patch(&at("me"), title.clone()).await.unwrap();
    assert_eq!(store.patch(&at("nobody"), title).await.unwrap(), None);
    assert_eq!(store.session(&at("them")).await.unwrap(), Some(theirs.clone()), "not its patch");
    store.append(&mine.id, None, vec![text_event("mine")]).await.unwrap();
    assert_eq!(store.last_seq(&theirs.id).await.unwrap(), 0);
    delete(&store, &mine.id).await;
    assert_eq!(store.session(&at("me")).await.unwrap(), None);
    assert_eq!(store.session(&at("them")).await.unwrap(), Some(theirs));
}

async fn label_is_unique_per_owner(store: Arc<dyn Store>) {
    let of = |owner: &str, name| NewSession { owner: owner.to_owned(), ..new_session(name) };
    let labelled = |owner, name| NewSession { label: Some("one".to_owned()), ..of(owner, name) };
    store.create(labelled("me", "a")).await.unwrap();
    store.create(labelled("them", "b")).await.expect("the label of another owner");
    store.create(of("them", "a")).await.unwrap();
    let theirs = SessionAddress::new("them", key("a"));
    let taken = StoreError::LabelTaken { label: "one".to_owned(), key: key("b") };
    assert_eq!(store.patch(&theirs, label_patch("one")).await.unwrap_err(), taken);
    let (owner, label) = (Some("them".to_owned()), Some("one".to_owned()));
    let query = SessionQuery { owner, label, ..Default::default() };
    assert_eq!(list_keys(&store, query).await, ("b".to_owned(), 1));
}

async fn owner_session_limit_holds(store: Arc<dyn Store>) {
    let wanted = |name, owner: &str| NewSession {
        owner: owner.to_owned(),
        owned_max: 2,
        ..new_session(name)
    };
    let made = store.create(wanted("a", "local")).await.unwrap();
    store.create(wanted("b", "other")).await.unwrap();
    let mut racing = JoinSet::new();
    for name in ["c", "d", "e", "f"] {
        let (store, wanted) = (Arc::clone(&store), wanted(name, "local"));
        racing.spawn(async move { store.create(wanted).await.map(drop) });
    }
    let mut ends = racing.join_all().await;
    ends.sort_by_key(Result::is_err);
    assert_eq!(ends[0], Ok(()));
    assert!(ends[1..].iter().all(|end| *end == Err(StoreError::TooMany(2))), "{ends:?}");
    assert_eq!(store.create(wanted("a", "local")).await.unwrap(), made, "that is no more");
    store.create(wanted("g", "other")).await.unwrap();
    assert_eq!(store.count().await.unwrap(), 4);
    delete(&store, &made.id).await;
    store.create(wanted("h", "local")).await.unwrap();
}

async fn subagent_sessions_count_to_their_parent(store: Arc<dyn Store>) {
    let most = |name: &str, parent: Option<&SessionId>| NewSession {
        owned_max: 2,
        parent: parent.cloned(),
        ..new_session(name)
    };
    let parent = store.create(most("a", None)).await.unwrap().id;
    for name in ["a/1", "a/2"] {
        store.create(most(name, Some(&parent))).await.unwrap();
    }
    let full = store.create(most("a/3", Some(&parent))).await;
    assert_eq!(full.map(drop), Err(StoreError::TooMany(2)));
    let other = store.create(most("b", None)).await.unwrap().id;
    store.create(most("b/1", Some(&other))).await.unwrap();
    assert_eq!(store.create(most("c", None)).await.map(drop), Err(StoreError::TooMany(2)));
}

async fn session_size_is_counted(store: Arc<dyn Store>) {
    let made = create_session(&store, "a").await;
    assert_no_session(store.size(&unknown_session()).await);
    let size = || async { store.size(&made.id).await.unwrap() };
    assert_eq!(size().await, 0);
    // Every operation that stores data; the encoding is up to the store.
    let text = "ü".repeat(1000);
    let mut before = 0;
    for (way, least) in
        [("append", 2000), ("begin", 2000), ("end", 2000), ("add", 2000), ("new", 4000)]
    {
        match way {
            "append" => drop(store.append(&made.id, None, vec![text_event(&*text)]).await.unwrap()),
            "begin" => {
                let run = new_run("r", &made.id, vec![text_event(&*text)]);
                store.begin_run(run).await.unwrap();
            }
            "end" => {
                let (end, usage) = (
                    zero_session::event::RunOutcome::Completed,
                    zero_session::event::TokenUsage::default(),
                );
                let last = vec![text_event(&*text)];
                store
                    .end_run(
                        &run_address(&made.id, "r"),
                        claim(&*store, &made.id).await,
                        end,
                        usage,
                        last,
                    )
                    .await
                    .unwrap();
            }
            "add" => store
                .add_messages(
                    &made.id,
                    claim(&*store, &made.id).await,
                    vec![ModelMessage::user(&*text).into()],
                )
                .await
                .unwrap(),
            _ => {
                let messages =
                    vec![ModelMessage::user(&*text).into(), ModelMessage::user(&*text).into()];
                let why = TranscriptStart::Reset;
                store
                    .start_transcript(&made.id, claim(&*store, &made.id).await, why, messages)
                    .await
                    .unwrap();
            }
        }
        let after = size().await;
        let more = after - before;
        assert!((least..least + 1000).contains(&more), "{way}: {more} bytes more");
        before = after;
    }
    delete(&store, &made.id).await;
    let gone = store.size(&made.id).await;
    assert_eq!(gone, Err(StoreError::NoSession(made.id.to_string())));
    assert_eq!(
        store.size(&create_session(&store, "a").await.id).await.unwrap(),
        0,
        "a new one is empty"
    );
}

async fn concurrent_create_makes_one(store: Arc<dyn Store>) {
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { create_session(&store, "a").await.id });
    }
    let mut ids = tasks.join_all().await;
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(store.count().await.unwrap(), 1);
}

async fn session_round_trips_unchanged(store: Arc<dyn Store>) {
    let wanted = NewSession {
        key: key("agent:qa:Bug 1 ✓"),
        label: Some("Größe".to_owned()),
        cwd: Some(PathBuf::from("/work/日本")),
        model: Some("one/model".to_owned()),
        mode: Some(PermissionMode::AcceptEdits),
        owner: "ci".to_owned(),
        owned_max: 1,
        tool_host: ToolHostLocation::Client { name: "an editor".to_owned() },
        parent: Some(SessionId::new("sess_parent").unwrap()),
    };
    let made = store.create(wanted.clone()).await.unwrap();
    let kept =
        store.session(&SessionAddress::new("ci", wanted.key.clone())).await.unwrap().unwrap();
    assert_eq!(made, kept);
    assert_eq!(kept.agent, "qa");
    assert_eq!((kept.transcript, kept.context_tokens), (1, None));
    assert_eq!((kept.created_ms, kept.usage), (kept.updated_ms, Default::default()));
    assert!(kept.created_ms > 0);
    let kept = NewSession {
        key: kept.key,
        label: kept.label,
        cwd: kept.cwd,
        model: kept.model,
        mode: kept.mode,
        owner: kept.owner,
        owned_max: 1,
        tool_host: kept.tool_host,
        parent: kept.parent,
    };
    assert_eq!(kept, wanted);
}

async fn patch_changes_named_fields(store: Arc<dyn Store>) {
    let made = create_session(&store, "a").await;
    let other = create_session(&store, "b").await;
    let patch = SessionPatch {
        label: Some(Some("label".to_owned())),
        title: Some(Some("title".to_owned())),
        agent: Some("qa".to_owned()),
        model: Some(Some("model".to_owned())),
        mode: Some(Some(PermissionMode::Plan)),
        thinking: Some(Some("high".to_owned())),
        cwd: Some(Some(PathBuf::from("/work"))),
        tool_host: Some(ToolHostLocation::Client { name: "editor".to_owned() }),
        context_tokens: Some(123),
        used_ms: None,
    };
    let changed = store.patch(&address("a"), patch.clone()).await.unwrap().unwrap();
    assert_eq!(changed, read_session(&store, "a").await);
    let now = SessionPatch {
        label: Some(changed.label.clone()),
        title: Some(changed.title.clone()),
        agent: Some(changed.agent.clone()),
        model: Some(changed.model.clone()),
        mode: Some(changed.mode),
        thinking: Some(changed.thinking.clone()),
        cwd: Some(changed.cwd.clone()),
        tool_host: Some(changed.tool_host.clone()),
        context_tokens: changed.context_tokens,
        used_ms: None,
    };
    assert_eq!(now, patch);
    let nothing = store.patch(&address("a"), SessionPatch::default()).await.unwrap();
    assert_eq!(nothing, Some(changed), "what is not named stays");
    let clear = SessionPatch {
        label: Some(None),
        title: Some(None),
        agent: Some(made.agent.clone()),
        model: Some(None),
        mode: Some(None),
        thinking: Some(None),
        cwd: Some(None),
        tool_host: Some(ToolHostLocation::Gateway),
        context_tokens: Some(0),
        used_ms: None,
    };
    let cleared = store.patch(&address("a"), clear).await.unwrap().unwrap();
    assert_eq!(cleared.context_tokens, Some(0));
    assert_eq!(zero_session::store::SessionRecord { context_tokens: None, ..cleared }, made);
    assert_eq!(read_session(&store, "b").await, other);
    assert_eq!(store.patch(&address("none"), SessionPatch::default()).await.unwrap(), None);
}

fn label_patch(label: &str) -> SessionPatch {
    SessionPatch { label: Some(Some(label.to_owned())), ..Default::default() }
}

async fn label_has_one_owner(store: Arc<dyn Store>) {
    let labelled = |name| NewSession { label: Some("one".to_owned()), ..new_session(name) };
    store.create(labelled("a")).await.unwrap();
    let taken = StoreError::LabelTaken { label: "one".to_owned(), key: key("a") };
    assert_eq!(store.create(labelled("b")).await.unwrap_err(), taken);
    assert_eq!(store.session(&address("b")).await.unwrap(), None, "nothing is left of it");
    create_session(&store, "b").await;
    let both = SessionPatch { title: Some(Some("t".to_owned())), ..label_patch("one") };
    assert_eq!(store.patch(&address("b"), both).await.unwrap_err(), taken);
    assert_eq!(read_session(&store, "b").await.title, None, "nothing else is changed");
    store.patch(&address("a"), label_patch("one")).await.expect("its own label");
    store.patch(&address("b"), label_patch("One")).await.expect("labels differ by case");
    store.patch(&address("a"), label_patch("two")).await.expect("another");
    store.patch(&address("b"), label_patch("one")).await.expect("it is free again");
    delete(&store, &read_session(&store, "b").await.id).await;
    store.patch(&address("a"), label_patch("one")).await.expect("it is free again");
}

async fn concurrent_label_has_one_owner(store: Arc<dyn Store>) {
    let mut tasks = JoinSet::new();
    for task in 0..20 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let name = format!("s{task}");
            create_session(&store, &name).await;
            store.patch(&address(&name), label_patch("wanted")).await
        });
    }
    let results = tasks.join_all().await;
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    let taken = |result: &&Result<_, _>| matches!(result, Err(StoreError::LabelTaken { .. }));
    assert_eq!(results.iter().filter(taken).count(), 19);
}

/// The keys of matching sessions, without their agent, and the total number.
async fn list_keys(store: &Arc<dyn Store>, query: SessionQuery) -> (String, u64) {
    let page = store.list(query).await.unwrap();
    let names: Vec<&str> = page.sessions.iter().map(|session| session.key.name()).collect();
    (names.join(" "), page.total)
}

async fn sessions_are_listed_by_pages(store: Arc<dyn Store>) {
    let base = create_session(&store, "s0").await.created_ms;
    // The order of their activity differs from the order of their creation.
    for (name, later) in [("s1", 30), ("s2", 10), ("s3", 20), ("s4", 40)] {
        let id = create_session(&store, name).await.id;
        let event = NewEvent { time_ms: base + 1_000_000 + later, ..text_event("x") };
        store.append(&id, None, vec![event]).await.unwrap();
        assert_eq!(read_session(&store, name).await.updated_ms, base + 1_000_000 + later);
    }
    let page = |limit, offset| SessionQuery { limit, offset, ..Default::default() };
    let rows = [
        (page(None, 0), "s4 s1 s3 s2 s0"),
        (page(Some(2), 0), "s4 s1"),
        (page(Some(2), 2), "s3 s2"),
        (page(Some(2), 4), "s0"),
        (page(Some(2), 6), ""),
        (page(Some(0), 0), ""),
        (page(Some(usize::MAX), 1), "s1 s3 s2 s0"),
        (page(None, usize::MAX), ""),
    ];
    for (query, expected) in rows {
        let shown_query = format!("{query:?}");
        assert_eq!(list_keys(&store, query).await, (expected.to_owned(), 5), "{shown_query}");
    }
    let id = read_session(&store, "s4").await.id;
    store.append(&id, None, vec![NewEvent { time_ms: 5, ..text_event("x") }]).await.unwrap();
    let updated_ms = read_session(&store, "s4").await.updated_ms;
    assert_eq!(updated_ms, base + 1_000_040, "a clock that was set back does not count");
    for more in 5..105 {
        create_session(&store, &format!("s{more}")).await;
    }
    let page = store.list(SessionQuery::default()).await.unwrap();
    assert_eq!((page.sessions.len(), page.total), (100, 105));
}

async fn sessions_are_filtered(store: Arc<dyn Store>) {
    for (name, owner, cwd) in
        [("agent:qa:a", "ci", "/a"), ("agent:qa:b", "me", "/a"), ("agent:main:c", "me", "/b")]
    {
        let cwd = Some(PathBuf::from(cwd));
        let session = NewSession { owner: owner.to_owned(), cwd, ..new_session(name) };
        store.create(session).await.unwrap();
    }
    let mine = SessionAddress::new("me", key("agent:qa:b"));
    store.patch(&mine, label_patch("mine")).await.unwrap();
    let theirs = SessionAddress::new("ci", key("agent:qa:a"));
    let first = store.session(&theirs).await.unwrap().unwrap();
    let (base, id) = (first.updated_ms, first.id);
    let later = NewEvent { time_ms: base + 1_000_000, ..text_event("x") };
    store.append(&id, None, vec![later]).await.unwrap();
    let some = |text: &str| Some(text.to_owned());
    let rows = [
        (SessionQuery { agent: some("qa"), ..Default::default() }, "a b"),
        (SessionQuery { agent: some("q"), ..Default::default() }, ""),
        (SessionQuery { owner: some("me"), ..Default::default() }, "c b"),
        (SessionQuery { label: some("mine"), ..Default::default() }, "b"),
        (SessionQuery { label: some("min"), ..Default::default() }, ""),
        (SessionQuery { cwd: Some("/a".into()), ..Default::default() }, "a b"),
        (SessionQuery { updated_since_ms: Some(base + 999_999), ..Default::default() }, "a"),
        (SessionQuery { updated_since_ms: Some(base + 1_000_000), ..Default::default() }, "a"),
        (SessionQuery { updated_since_ms: Some(base + 1_000_001), ..Default::default() }, ""),
        (SessionQuery { agent: some("qa"), owner: some("me"), ..Default::default() }, "b"),
    ];
    for (query, expected) in rows {
        let shown_query = format!("{query:?}");
        let total = expected.split_whitespace().count() as u64;
        assert_eq!(list_keys(&store, query).await, (expected.to_owned(), total), "{shown_query}");
    }
}

async fn search_matches_literal_text(store: Arc<dyn Store>) {
    let sessions = [
        ("percent%", "A_b", r"back\slash"),
        ("plain", "aXb", "Straße nach ÇORUM"),
        ("under_score", "ΑΣ", "100% of it"),
    ];
    for (name, label, title) in sessions {
        create_session(&store, name).await;
        let patch = SessionPatch {
            label: Some(Some(label.to_owned())),
            title: Some(Some(title.to_owned())),
            ..Default::default()
        };
        store.patch(&address(name), patch).await.unwrap();
    }
    let long = "a".repeat(SessionQuery::SEARCH_CHARS_MAX + 1);
    let rows = [
        ("%", "under_score percent%"),
        ("100%", "under_score"),
        ("_", "under_score percent%"),
        ("a_B", "percent%"),
        (r"\", "percent%"),
        (r"K\S", "percent%"),
        (r"\_", ""),
        ("STRASSE", "plain"),
        ("çorum", "plain"),
        ("ας", "under_score"),
        ("PLAIN", "plain"),
        ("agent:main:", "under_score plain percent%"),
        ("", "under_score plain percent%"),
        ("'; DROP TABLE sessions; --", ""),
        (&long, ""),
    ];
    for (search, expected) in rows {
        let query = SessionQuery { search: Some(search.to_owned()), ..Default::default() };
        let total = expected.split_whitespace().count() as u64;
        assert_eq!(list_keys(&store, query).await, (expected.to_owned(), total), "{search:?}");
    }
    let clear = SessionPatch { title: Some(None), ..label_patch("other") };
    store.patch(&address("percent%"), clear).await.unwrap();
    let query = SessionQuery { search: Some("slash".to_owned()), ..Default::default() };
    assert_eq!(list_keys(&store, query).await.1, 0, "what it was called before does not count");
}

async fn deleted_session_leaves_nothing(store: Arc<dyn Store>) {
    assert_no_session(store.delete(&unknown_session(), ClaimEpoch(1)).await);
    let other = create_session(&store, "b").await;
    store.append(&other.id, None, vec![text_event("stays")]).await.unwrap();
    let made = create_session(&store, "a").await;
    store.begin_run(new_run("r1", &made.id, vec![text_event("goes")])).await.unwrap();
    store
        .add_messages(
            &made.id,
            claim(&*store, &made.id).await,
            vec![ModelMessage::user("goes").into()],
        )
        .await
        .unwrap();
    store
        .start_transcript(&made.id, claim(&*store, &made.id).await, TranscriptStart::Reset, vec![])
        .await
        .unwrap();
    store.set_grants(&made.id, vec![grant("Read", true)]).await.unwrap();
    delete(&store, &made.id).await;
    assert_eq!(store.session(&address("a")).await.unwrap(), None);
    assert_eq!(store.session_by_id(&made.id).await.unwrap(), None);
    let gone = Err(StoreError::NoSession(made.id.to_string()));
    assert_eq!(store.events(&made.id, 0, LedgerReadLimit::with_entries(9)).await, gone);
    assert_eq!(store.unfinished_runs(None).await.unwrap(), []);
    assert_eq!(store.find_run(None, &super::run_id("r1")).await.unwrap(), None);
    let again = create_session(&store, "a").await;
    assert_ne!(again.id, made.id, "an id is never used again");
    assert_eq!((again.transcript, store.last_seq(&again.id).await.unwrap()), (1, 0));
    assert_eq!(store.transcript(&again.id, None).await.unwrap().messages, []);
    assert_eq!(store.grants(&again.id).await.unwrap(), []);
    assert_eq!(store.last_seq(&other.id).await.unwrap(), 1);
}

fn grant(rule: &str, allowed: bool) -> GrantRecord {
    let grant = GrantScope { rule: rule.to_owned(), folder: Some("/w".to_owned()), program: None };
    GrantRecord { allowed, grant, time_ms: 3, by: "me".to_owned() }
}

async fn grants_are_replaced(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    assert_eq!(store.grants(&id).await.unwrap(), []);
    let first = vec![grant("Bash(git push:*)", true), grant("Read", false), grant("Read", false)];
    store.set_grants(&id, first.clone()).await.unwrap();
    assert_eq!(store.grants(&id).await.unwrap(), first);
    let second = vec![grant("Edit", true)];
    store.set_grants(&id, second.clone()).await.unwrap();
    assert_eq!(store.grants(&id).await.unwrap(), second);
    store.set_grants(&id, vec![]).await.unwrap();
    assert_eq!(store.grants(&id).await.unwrap(), []);
    assert_no_session(store.grants(&unknown_session()).await);
    assert_no_session(store.set_grants(&unknown_session(), second).await);
}

/// Two processes that began with the same grants each change them.
async fn grants_of_two_processes_are_merged(store: Arc<dyn Store>) {
    let id = create_session(&store, "a").await.id;
    let first = vec![grant("Read", true), grant("Edit", true)];
    store.set_grants(&id, first.clone()).await.unwrap();
    let with = |more: GrantRecord| [first.clone(), vec![more]].concat();
    let (one, two) = (grant("Bash(git push:*)", true), grant("WebFetch", true));
    store.change_grants(&id, first.clone(), with(one.clone())).await.unwrap();
    store.change_grants(&id, first.clone(), with(two.clone())).await.unwrap();
    let both = [first.clone(), vec![one.clone(), two.clone()]].concat();
    assert_eq!(store.grants(&id).await.unwrap(), both);
    // A later answer about the same scope counts, and what one process revokes is gone.
    let (before, after) = (with(one.clone()), vec![grant("Read", false), grant("Edit", true)]);
    store.change_grants(&id, before, after.clone()).await.unwrap();
    assert_eq!(store.grants(&id).await.unwrap(), [grant("Edit", true), two, grant("Read", false)]);
    assert_no_session(store.change_grants(&unknown_session(), vec![], after).await);
}

async fn idle_sessions_are_listed(store: Arc<dyn Store>) {
    assert_eq!(store.usage().await.unwrap().sessions, 0);
    let base = create_session(&store, "s0").await.created_ms;
    for (name, later) in [("s1", 30), ("s2", 10), ("s3", 20)] {
        let id = create_session(&store, name).await.id;
        let event = NewEvent { time_ms: base + 1_000_000 + later, ..text_event("x") };
        store.append(&id, None, vec![event]).await.unwrap();
    }
    let theirs = NewSession { owner: "them".to_owned(), ..new_session("s4") };
    let theirs = store.create(theirs).await.unwrap();
    create_session(&store, "named").await;
    store.patch(&address("named"), label_patch("kept")).await.unwrap();
    let busy = create_session(&store, "busy").await;
    store.begin_run(new_run("r", &busy.id, Vec::new())).await.unwrap();
    let names = |owner: Option<&str>, updated_before_ms: i64, limit: usize| {
        let (store, owner) = (Arc::clone(&store), owner.map(str::to_owned));
        async move {
            let query = IdleSessionQuery { owner, updated_before_ms, limit };
            let idle = store.idle_sessions(query).await.unwrap();
            idle.iter().map(|idle| idle.address.key.name().to_owned()).collect::<Vec<_>>().join(" ")
        }
    };
    assert_eq!(names(None, i64::MAX, 9).await, "s0 s4 s2 s3 s1", "neither labelled nor at work");
    assert_eq!(names(None, i64::MAX, 2).await, "s0 s4");
    assert_eq!(names(Some("them"), i64::MAX, 9).await, "s4");
    assert_eq!(names(Some("local"), base + 1_000_020, 9).await, "s0 s2");
    let query = IdleSessionQuery { owner: None, updated_before_ms: i64::MAX, limit: 9 };
    for idle in store.idle_sessions(query).await.unwrap() {
        assert_eq!(idle.bytes, store.size(&idle.id).await.unwrap());
        assert_eq!(store.session(&idle.address).await.unwrap().unwrap().id, idle.id);
    }
    assert_eq!(store.session_by_id(&theirs.id).await.unwrap(), Some(theirs));
    assert_eq!(store.usage().await.unwrap().sessions, 7);
}

/// What happens between listing and deletion keeps a session.
async fn idle_session_is_deleted_only_unchanged(store: Arc<dyn Store>) {
    for name in ["plain", "named", "used", "busy", "claimed", "deleted"] {
        create_session(&store, name).await;
    }
    let query = IdleSessionQuery { owner: None, updated_before_ms: i64::MAX, limit: 9 };
    let listed = store.idle_sessions(query).await.unwrap();
    assert_eq!(listed.len(), 6);
    store.patch(&address("named"), label_patch("kept")).await.unwrap();
    let used = read_session(&store, "used").await;
    let later = NewEvent { time_ms: used.updated_ms + 1, ..text_event("x") };
    store.append(&used.id, None, vec![later]).await.unwrap();
    let busy = read_session(&store, "busy").await.id;
    store.begin_run(new_run("r", &busy, Vec::new())).await.unwrap();
    claim(&*store, &read_session(&store, "claimed").await.id).await;
    delete(&store, &read_session(&store, "deleted").await.id).await;
    let mut removed = Vec::new();
    for session in &listed {
        if store.delete_idle(session).await.unwrap() {
            removed.push(session.address.key.name());
        }
    }
    assert_eq!(removed, ["plain"]);
    assert_eq!(store.usage().await.unwrap().sessions, 4);
    assert_eq!(store.session(&address("plain")).await.unwrap(), None);
    assert_eq!(store.reclaim().await.unwrap(), [], "nothing is damaged");
}

/// Sessions of sub-agents are kept as long as the session that started them, however old they are.
async fn family_is_idle_as_a_whole(store: Arc<dyn Store>) {
    for (name, parent) in [("a", None), ("a1", Some("a")), ("a11", Some("a1")), ("b", None)] {
        let parent = match parent {
            Some(parent) => Some(read_session(&store, parent).await.id),
            None => None,
        };
        store.create(NewSession { parent, ..new_session(name) }).await.unwrap();
    }
    let list = |updated_before_ms: i64| {
        let store = Arc::clone(&store);
        async move {
            let query = IdleSessionQuery { owner: None, updated_before_ms, limit: 9 };
            store.idle_sessions(query).await.unwrap()
        }
    };
    let names = |idle: &[IdleSession]| {
        let names = idle.iter().map(|idle| idle.address.key.name().to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    let listed = list(i64::MAX).await;
    assert_eq!(names(&listed), "a a1 a11 b", "each with its size");
    // Something happens in the oldest: all of its family are as young.
    let oldest = read_session(&store, "a").await;
    let later = oldest.created_ms + 1_000_000;
    let event = NewEvent { time_ms: later, ..text_event("x") };
    store.append(&oldest.id, None, vec![event]).await.unwrap();
    assert_eq!(names(&list(later).await), "b");
    assert_eq!(names(&list(i64::MAX).await), "b a a1 a11");
    let listed = list(i64::MAX).await;
    store.patch(&address("a"), label_patch("kept")).await.unwrap();
    assert_eq!(names(&list(i64::MAX).await), "b", "a label keeps all of the family");
    for session in listed.iter().filter(|session| session.address != address("b")) {
        assert!(!store.delete_idle(session).await.unwrap(), "{:?}", session.address);
    }
    let no_label = SessionPatch { label: Some(None), ..SessionPatch::default() };
    store.patch(&address("a"), no_label).await.unwrap();
    store.begin_run(new_run("r", &oldest.id, Vec::new())).await.unwrap();
    assert_eq!(names(&list(i64::MAX).await), "b", "a run keeps all of the family");
    assert!(!store.delete_idle(&listed[2]).await.unwrap(), "{:?}", listed[2].address);
    delete(&store, &oldest.id).await;
    assert_eq!(names(&list(i64::MAX).await), "a1 a11 b", "nothing keeps what is left of it");
    assert!(store.delete_idle(&list(i64::MAX).await[1]).await.unwrap());
}

async fn use_keeps_session(store: Arc<dyn Store>) {
    let made = create_session(&store, "a").await;
    let query = IdleSessionQuery { owner: None, updated_before_ms: i64::MAX, limit: 9 };
    let listed = store.idle_sessions(query).await.unwrap();
    let used = |used_ms: i64| SessionPatch { used_ms: Some(used_ms), ..SessionPatch::default() };
    let later = made.updated_ms + 1_000;
    let patched = store.patch(&address("a"), used(later)).await.unwrap().unwrap();
    assert_eq!(patched, SessionRecord { updated_ms: later, ..made.clone() });
    assert_eq!(read_session(&store, "a").await, patched);
    assert!(!store.delete_idle(&listed[0]).await.unwrap());
    store.patch(&address("a"), used(made.updated_ms)).await.unwrap();
    assert_eq!(read_session(&store, "a").await.updated_ms, later, "an earlier use changes nothing");
}

async fn owners_are_counted_singly(store: Arc<dyn Store>) {
    for (owner, count) in [("ann", 3), ("bob", 2), ("eve", 1)] {
        for number in 0..count {
            let new = new_session(&format!("s{number}"));
            store.create(NewSession { owner: owner.to_owned(), ..new }).await.unwrap();
        }
    }
    // Those of sub-agents do not count to the limit of an owner.
    let parent = store.session_id(&SessionAddress::new("eve", key("s0"))).await.unwrap();
    for name in ["s1", "s2"] {
        let (owner, parent) = ("eve".to_owned(), parent.clone());
        store.create(NewSession { owner, parent, ..new_session(name) }).await.unwrap();
    }
    let counts = |least: u64| {
        let store = Arc::clone(&store);
        async move {
            let owners = store.large_owners(least).await.unwrap();
            let owners = owners.iter().map(|usage| format!("{} {}", usage.owner, usage.sessions));
            owners.collect::<Vec<_>>().join(", ")
        }
    };
    assert_eq!(counts(2).await, "ann 3, bob 2");
    assert_eq!(counts(4).await, "", "six sessions of all owners are not four of one");
    let mut sizes: BTreeMap<String, u64> = BTreeMap::new();
    for (owner, name, text) in [("bob", "s0", 9_000), ("bob", "s1", 50), ("eve", "s1", 100)] {
        let id = store.session_id(&SessionAddress::new(owner, key(name))).await.unwrap().unwrap();
        store.append(&id, None, vec![text_event("x".repeat(text))]).await.unwrap();
        *sizes.entry(owner.to_owned()).or_default() += store.size(&id).await.unwrap();
    }
    let listed = store.owner_sizes().await.unwrap();
    assert_eq!(listed.iter().map(|it| &*it.owner).collect::<Vec<_>>(), ["bob", "eve", "ann"]);
    assert_eq!([listed[0].bytes, listed[1].bytes], [sizes["bob"], sizes["eve"]]);
    let of_bob = SessionAddress::new("bob", key("s0"));
    let id = store.session_id(&of_bob).await.unwrap();
    assert_eq!(id, store.session(&of_bob).await.unwrap().map(|record| record.id));
    assert_eq!(store.session_id(&address("nobody")).await.unwrap(), None);
}

async fn store_reports_ready(store: Arc<dyn Store>) {
    store.check_ready().await.unwrap();
    assert_eq!(store.count().await.unwrap(), 0);
}

fn new_fork(name: &str) -> NewFork {
    NewFork {
        id: SessionId::new("sess_copy").unwrap(),
        key: key(name),
        title: Some("a copy".to_owned()),
        owned_max: u64::MAX,
    }
}

async fn event_texts(store: &Arc<dyn Store>, session: &SessionId) -> Vec<(u64, String)> {
    let events = store.events(session, 0, LedgerReadLimit::with_entries(100)).await.unwrap();
    events.iter().map(|event| (event.seq, event_text(event).to_owned())).collect()
}

async fn fork_copies_session(store: Arc<dyn Store>) {
    let wanted = NewSession {
        label: Some("mine".to_owned()),
        cwd: Some(PathBuf::from("/w")),
        mode: Some(PermissionMode::Plan),
        model: Some("big".to_owned()),
        ..new_session("a")
    };
    let source = store.create(wanted).await.unwrap();
    let claim = claim(&*store, &source.id).await;
    let named = format!("see /state/{}/x.txt", source.id);
    store.append(&source.id, None, vec![text_event("one"), text_event(&*named)]).await.unwrap();
    let messages = vec![Arc::new(ModelMessage::user("one")), ModelMessage::user(&*named).into()];
    store.add_messages(&source.id, claim, messages).await.unwrap();
    let more = SessionPatch {
        thinking: Some(Some("high".to_owned())),
        context_tokens: Some(7),
        ..SessionPatch::default()
    };
    store.patch(&address("a"), more).await.unwrap();
    let copy = store
        .fork(&source.id, ForkPoint::End(claim), new_fork("b"), text_event("end"))
        .await
        .unwrap();
    assert_eq!(store.session(&address("b")).await.unwrap(), Some(copy.clone()));
    assert_eq!((copy.label, copy.title.as_deref()), (None, Some("a copy")));
    assert_eq!((copy.cwd, copy.mode, copy.model), (source.cwd, source.mode, source.model));
    assert_eq!((copy.thinking.as_deref(), copy.context_tokens), (Some("high"), Some(7)));
    assert_eq!((copy.transcript, copy.usage), (1, Default::default()));
    let renamed = "see /state/sess_copy/x.txt".to_owned();
    let expected = [(1, "one".to_owned()), (2, renamed.clone()), (3, "end".to_owned())];
    assert_eq!(event_texts(&store, &copy.id).await, expected);
    assert_eq!(store.last_seq(&copy.id).await.unwrap(), 3);
    let transcript = store.transcript(&copy.id, None).await.unwrap().messages;
    assert_eq!(transcript, [ModelMessage::user("one"), ModelMessage::user(&*renamed)]);
    // Each goes on alone, and the copy stays when its session goes.
    store.append(&copy.id, None, vec![text_event("four")]).await.unwrap();
    assert_eq!(store.last_seq(&source.id).await.unwrap(), 2);
    delete(&store, &source.id).await;
    assert_eq!(event_texts(&store, &copy.id).await.len(), 4);
    assert_eq!(store.transcript(&copy.id, None).await.unwrap().messages.len(), 2);
    let alone = store.create(new_session("c")).await.unwrap();
    assert!(store.size(&copy.id).await.unwrap() > store.size(&alone.id).await.unwrap());
}

async fn fork_begins_after_reset(store: Arc<dyn Store>) {
    let source = create_session(&store, "a").await;
    let claim = claim(&*store, &source.id).await;
    let reset = NewEvent { kind: EventKind::Reset { transcript: 1 }, ..text_event("") };
    // A text about a reset is none.
    let about = text_event(r#"{"type":"reset"}"#);
    store.append(&source.id, None, vec![text_event("old"), reset, about]).await.unwrap();
    let old = vec![Arc::new(ModelMessage::user("old"))];
    store.add_messages(&source.id, claim, old).await.unwrap();
    let new = vec![Arc::new(ModelMessage::user("new"))];
    store.start_transcript(&source.id, claim, TranscriptStart::Reset, new).await.unwrap();
    let copy = store
        .fork(&source.id, ForkPoint::End(claim), new_fork("b"), text_event("end"))
        .await
        .unwrap();
    let expected = [(1, r#"{"type":"reset"}"#.to_owned()), (2, "end".to_owned())];
    assert_eq!(event_texts(&store, &copy.id).await, expected);
    let transcript = store.transcript(&copy.id, None).await.unwrap();
    assert_eq!((transcript.number, transcript.messages), (1, vec![ModelMessage::user("new")]));
}

async fn fork_leaves_unfinished_runs_out(store: Arc<dyn Store>) {
    let source = create_session(&store, "a").await;
    let entry = |text: &str| vec![NewEvent { run: Some(run_id(text)), ..text_event(text) }];
    let say = |text: &str| vec![Arc::new(ModelMessage::user(text))];
    let begin = |text: &str| store.begin_run(new_run(text, &source.id, entry(text)));
    let copy = async |name: &str| {
        let id = SessionId::new(format!("sess_{name}")).unwrap();
        let fork = NewFork { id, ..new_fork(name) };
        let copy = store.fork(&source.id, ForkPoint::LastCompleted, fork, text_event("end")).await;
        let copy = copy.unwrap().id;
        let texts = event_texts(&store, &copy).await;
        let messages = store.transcript(&copy, None).await.unwrap().messages;
        (texts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" "), messages.len())
    };
    begin("one").await.unwrap();
    let claim = claim(&*store, &source.id).await;
    store.add_messages(&source.id, claim, say("one")).await.unwrap();
    assert_eq!(copy("c1").await, ("end".to_owned(), 0), "the first run goes on");
    // The second and the third wait. The third is stopped before its turn.
    begin("two").await.unwrap();
    begin("three").await.unwrap();
    store.append(&source.id, None, vec![text_event("changed")]).await.unwrap();
    let end = async |text: &str| {
        let outcome = RunOutcome::Completed;
        let last = entry(text);
        store
            .end_run(&run_address(&source.id, text), claim, outcome, TokenUsage::default(), last)
            .await
            .unwrap();
    };
    end("three").await;
    assert_eq!(copy("c2").await, ("three changed three end".to_owned(), 0));
    store.add_messages(&source.id, claim, say("answer")).await.unwrap();
    end("one").await;
    store.add_messages(&source.id, claim, say("two")).await.unwrap();
    assert_eq!(copy("c3").await, ("one three changed three one end".to_owned(), 2));
    // The run compacts: the copy has the transcript before.
    let why = TranscriptStart::Compacted;
    store.start_transcript(&source.id, claim, why, say("summary")).await.unwrap();
    assert_eq!(copy("c4").await, ("one three changed three one end".to_owned(), 2));
    end("two").await;
    let all = "one two three changed three one two end".to_owned();
    assert_eq!(copy("c5").await, (all, 1), "no run goes on");
}

async fn refused_fork_leaves_nothing(store: Arc<dyn Store>) {
    let source = create_session(&store, "a").await;
    let claim = claim(&*store, &source.id).await;
    let fork = |fork: NewFork, claim: ClaimEpoch| {
        let (store, id) = (Arc::clone(&store), source.id.clone());
        async move { store.fork(&id, ForkPoint::End(claim), fork, text_event("end")).await }
    };
    assert_eq!(fork(new_fork("a"), claim).await, Err(StoreError::KeyTaken(key("a"))));
    let few = NewFork { owned_max: 1, ..new_fork("b") };
    assert_eq!(fork(few, claim).await, Err(StoreError::TooMany(1)));
    let lost = StoreError::ClaimLost(source.id.to_string());
    assert_eq!(fork(new_fork("b"), ClaimEpoch(claim.0 + 1)).await, Err(lost));
    assert_eq!(store.count().await.unwrap(), 1);
    assert_no_session(
        store.fork(&unknown_session(), ForkPoint::End(claim), new_fork("b"), text_event("x")).await,
    );
}
