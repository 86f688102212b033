//! Limits of sessions per owner and of listings.

use std::sync::Arc;

use tokio::time::Instant;

use super::fixture::{ScriptedToolBackend, SessionTestBed, run_id};
use super::mem_store::MemStore;
use crate::event::{EventKind, PromptAttachment, RunOutcome};
use crate::key::{SessionAddress, SessionKey};
use crate::sessions::ledger_recorder::new_event;
use crate::sessions::run_events::read_run_events;
use crate::sessions::{
    OpenSessionOptions, Prompt, PruneMode, PruneReport, RetentionRules, SessionError, SessionLimits,
};
use crate::store::{
    IdleSessionQuery, NewRun, NewSession, SessionPatch, Store as _, ToolHostLocation,
};
use zero_runtime::tool_backend::FolderAccess;

#[tokio::test]
async fn owner_session_count_is_bounded() {
    let few = SessionLimits { sessions_max: 3, ..SessionLimits::default() };
    // The fixture has already opened one session of `me`.
    let fixture = SessionTestBed::with_limits(&[], few).await;
    let open = |key: String, owner: &str| {
        let wanted = OpenSessionOptions {
            key: Some(key),
            owner: owner.to_owned(),
            ..OpenSessionOptions::default()
        };
        fixture.sessions.open(wanted)
    };
    let opened = (0..8).map(|number| open(format!("s{number}"), "me"));
    let opened = futures_util::future::join_all(opened).await;
    let refused: Vec<_> = opened.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 6, "however many come at once");
    for error in refused {
        assert!(matches!(error, SessionError::Full(_)), "{error}");
        assert!(
            error.to_string().contains("remove old ones with `zero prune --days 90`"),
            "{error}"
        );
    }
    open("main".to_owned(), "me").await.expect("what is there can be opened");
    open("theirs".to_owned(), "you").await.expect("others are not concerned");
    assert!(fixture.sessions.delete(&fixture.key).await.unwrap());
    open("new".to_owned(), "me").await.expect("there is room again");
}

/// Ten days, in milliseconds.
const TEN_DAYS: i64 = 10 * 24 * 60 * 60 * 1000;

fn idle_for(days: u64) -> RetentionRules {
    let idle_max = Some(std::time::Duration::from_secs(days * 24 * 60 * 60));
    RetentionRules { idle_max, ..RetentionRules::default() }
}

#[tokio::test]
async fn prune_removes_only_what_rules_no_longer_keep() {
    let mut fixture = SessionTestBed::new(&["Hang:1"]).await;
    for key in ["old", "older", "named", "busy", "attached", "new"] {
        fixture.switch_session(key, "me").await;
        let record = fixture.record().await;
        if key == "named" {
            let label = SessionPatch { label: Some(Some("x".into())), ..SessionPatch::default() };
            fixture.sessions.patch(&fixture.key, label).await.unwrap();
        }
        if key == "busy" {
            fixture.send("go").await;
            fixture.wait_for_line("tool Hang").await;
        }
        if key != "new" {
            let age = if key == "older" { 2 * TEN_DAYS } else { TEN_DAYS };
            fixture.store.set_age(&record.id, age);
        }
    }
    let (log, name) = (Arc::clone(&fixture.backend.log), "laptop".to_owned());
    let backend = ScriptedToolBackend { log, order: None, name, store: None, silent: true };
    let attached = fixture.address("attached");
    let lease = fixture.sessions.attach_backend(&attached, "laptop", Arc::new(backend));
    let lease = lease.await.unwrap();
    let names = |report: PruneReport| {
        let names = report.removed.iter().map(|session| session.address.key.name().to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    let prune = async |rules, mode| names(fixture.sessions.prune(rules, mode).await.unwrap());
    let kept = fixture.store.usage().await.unwrap().sessions;
    assert_eq!(prune(RetentionRules::default(), PruneMode::Remove).await, "", "no rule");
    assert_eq!(prune(idle_for(21), PruneMode::Remove).await, "");
    assert_eq!(prune(idle_for(15), PruneMode::DryRun).await, "older");
    assert_eq!(fixture.store.usage().await.unwrap().sessions, kept, "a dry run removes nothing");
    assert_eq!(prune(idle_for(15), PruneMode::Remove).await, "older");
    assert_eq!(prune(idle_for(5), PruneMode::Remove).await, "old");
    let all = RetentionRules { idle_max: None, store_bytes_max: Some(1) };
    assert_eq!(prune(all, PruneMode::Remove).await, "", "what is in use or new is kept");
    drop(lease);
    assert_eq!(prune(all, PruneMode::Remove).await, "", "it was used a moment ago");
    let id = fixture.sessions.get(&attached).await.unwrap().unwrap().id;
    fixture.store.set_age(&id, TEN_DAYS);
    assert_eq!(prune(all, PruneMode::Remove).await, "attached");
    assert_eq!(fixture.store.usage().await.unwrap().sessions, kept - 3);
}

/// An owner with many sessions does not push out the old ones of others.
#[tokio::test]
async fn size_limit_is_shared_by_owners() {
    let mut fixture = SessionTestBed::new(&[]).await;
    for (key, owner, age) in [
        ("small", "ann", 9 * TEN_DAYS),
        ("old", "bob", 3 * TEN_DAYS),
        ("newer", "bob", 2 * TEN_DAYS),
        ("newest", "bob", TEN_DAYS),
    ] {
        fixture.switch_session(key, owner).await;
        let id = fixture.record().await.id;
        let text = new_event(None, EventKind::Text { text: "x".repeat(1_000) });
        fixture.store.append(&id, None, vec![text]).await.unwrap();
        fixture.store.set_age(&id, age);
    }
    let size = fixture.store.usage().await.unwrap().bytes;
    let prune = async |most: u64, mode| {
        let rules = RetentionRules { idle_max: None, store_bytes_max: Some(most) };
        let report = fixture.sessions.prune(rules, mode).await.unwrap();
        let names = report.removed.iter().map(|session| session.address.key.name().to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    for mode in [PruneMode::DryRun, PruneMode::Remove] {
        assert_eq!(prune(size * 7 / 10, mode).await, "old newer", "{mode:?}");
    }
    assert_eq!(prune(size * 7 / 10, PruneMode::Remove).await, "", "they fit now");
    let removed = prune(1, PruneMode::Remove).await;
    assert!(removed == "newest small" || removed == "small newest", "{removed}");
}

#[tokio::test]
async fn session_that_another_process_serves_is_not_removed() {
    let mut fixture = SessionTestBed::new(&[]).await;
    fixture.switch_session("served", "me").await;
    let served = fixture.record().await;
    fixture.store.set_age(&served.id, TEN_DAYS);
    fixture.nodes.served_elsewhere.lock().unwrap().push(served.id.clone());
    for mode in [PruneMode::DryRun, PruneMode::Remove] {
        let report = fixture.sessions.prune(idle_for(5), mode).await.unwrap();
        assert_eq!(report, PruneReport::default(), "{mode:?}");
    }
    let refused = fixture.sessions.delete(&served.address()).await.unwrap_err();
    assert!(refused.to_string().contains("another process of zero"), "{refused}");
    assert!(fixture.backend.removed.lock().unwrap().is_empty(), "its results are kept");
    fixture.nodes.served_elsewhere.lock().unwrap().clear();
    let report = fixture.sessions.prune(idle_for(5), PruneMode::Remove).await.unwrap();
    assert_eq!(report.removed.len(), 1);
}

/// A process that prunes lists sessions first, and may look for leases before a client has one.
#[tokio::test]
async fn session_to_which_a_client_attaches_after_it_was_listed_is_kept() {
    let fixture = SessionTestBed::new(&[]).await;
    let record = fixture.record().await;
    fixture.store.set_age(&record.id, TEN_DAYS);
    let query = IdleSessionQuery { owner: None, updated_before_ms: i64::MAX, limit: 9 };
    let listed = fixture.store.idle_sessions(query).await.unwrap();
    assert_eq!(listed.len(), 1);
    let (log, name) = (Arc::clone(&fixture.backend.log), "laptop".to_owned());
    let backend = ScriptedToolBackend { log, order: None, name, store: None, silent: true };
    let attached = fixture.sessions.attach_backend(&fixture.key, "laptop", Arc::new(backend));
    let _attached = attached.await.unwrap();
    assert!(!fixture.store.delete_idle(&listed[0]).await.unwrap());
    assert!(fixture.sessions.get(&fixture.key).await.unwrap().is_some());
}

#[tokio::test]
async fn session_is_leased_while_a_client_hosts_its_tools() {
    let fixture = SessionTestBed::new(&[]).await;
    let is_leased = || {
        let served = fixture.nodes.served_here.lock().unwrap();
        served.iter().any(|(_, lease)| lease.upgrade().is_some())
    };
    assert!(!is_leased());
    let (log, name) = (Arc::clone(&fixture.backend.log), "laptop".to_owned());
    let backend = ScriptedToolBackend { log, order: None, name, store: None, silent: true };
    let attached = fixture.sessions.attach_backend(&fixture.key, "laptop", Arc::new(backend));
    let attached = attached.await.unwrap();
    assert!(is_leased());
    drop(attached);
    assert!(!is_leased());
}

#[tokio::test]
async fn full_owner_gets_room_where_retention_allows() {
    let limits =
        SessionLimits { sessions_max: 2, retention: idle_for(5), ..SessionLimits::default() };
    let mut fixture = SessionTestBed::with_limits(&[], limits).await;
    let first = fixture.record().await;
    fixture.switch_session("second", "me").await;
    let third = OpenSessionOptions { key: Some("third".into()), ..fixture.open_options() };
    let error = fixture.sessions.open(third.clone()).await.unwrap_err();
    assert!(matches!(error, SessionError::Full(_)), "{error}");
    fixture.store.set_age(&first.id, TEN_DAYS);
    fixture.sessions.open(third).await.expect("the oldest idle one makes room");
    assert_eq!(fixture.sessions.get(&first.address()).await, Ok(None));
    let removed = fixture.backend.removed.lock().unwrap().clone();
    assert_eq!(removed, [first.id], "its results are removed, too");
}

#[tokio::test]
async fn session_size_is_bounded() {
    let small = SessionLimits { session_bytes_max: 2000, ..SessionLimits::default() };
    let mut fixture = SessionTestBed::with_limits(&[], small).await;
    fixture.run(&"long words ".repeat(100)).await;
    let error = fixture.try_send("more").await.unwrap_err();
    assert!(matches!(error, SessionError::Full(_)), "{error}");
    let text = error.to_string();
    let how =
        "go on in a new session, and remove this one with `zero sessions delete agent:main:main`";
    assert!(text.contains(how), "{text}");
    assert_eq!(
        fixture.sessions.wait_for_run("me", &run_id("more"), std::time::Duration::ZERO).await,
        Ok(None)
    );
    fixture.switch_session("other", "me").await;
    assert!(fixture.run("more").await.ends_with("ended completed"), "another session has room");
}

/// One owner cannot fill the disk that all use.
#[tokio::test]
async fn size_of_all_sessions_of_an_owner_is_bounded() {
    let small = SessionLimits { owner_bytes_max: 10_000, ..SessionLimits::default() };
    let mut fixture = SessionTestBed::with_limits(&[], small).await;
    for key in ["one", "two"] {
        fixture.switch_session(key, "ann").await;
        let id = fixture.record().await.id;
        let text = new_event(None, EventKind::Text { text: "x".repeat(6_000) });
        fixture.store.append(&id, None, vec![text]).await.unwrap();
    }
    let error = fixture.try_send("more").await.unwrap_err();
    assert!(matches!(error, SessionError::Full(_)), "{error}");
    assert!(error.to_string().contains("`gateway.maxOwnerBytes`"), "{error}");
    fixture.switch_session("other", "bob").await;
    assert!(fixture.run("hers").await.ends_with("ended completed"), "another owner has room");
    fixture.switch_session("one", "ann").await;
    assert!(fixture.try_send("still too much").await.is_err());
    let two = SessionAddress::new("ann", fixture.address("two").key);
    assert!(fixture.sessions.delete(&two).await.unwrap());
    assert!(fixture.run("again").await.ends_with("ended completed"), "there is room at once");
}

#[tokio::test]
async fn run_ends_when_session_is_full() {
    let small = SessionLimits { session_bytes_max: 4000, ..SessionLimits::default() };
    let calls: Vec<String> = (0..100).map(|call| format!("Read:{call}")).collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let fixture = SessionTestBed::with_limits(&calls, small).await;
    fixture.send("go").await;
    let waited = fixture.wait_for_run("go").await;
    let Some(RunOutcome::Failed { kind, message }) = waited.run.end else {
        panic!("{:?}", waited.run)
    };
    assert_eq!(kind, "session_full");
    assert!(message.contains("4000 are the most; go on in a new session"), "{message}");
    // The work done so far is shown and stored for the model.
    fixture.check_ledger().await;
    let asked = fixture.model.requests.lock().unwrap().len();
    assert!((2..100).contains(&asked), "{asked}");
    let done = fixture.backend.log.lock().unwrap().len();
    assert_eq!(done, asked, "nothing was begun that came to nothing");
    let size = fixture.store.size(&waited.run.session).await.unwrap();
    assert!((4000..8000).contains(&size), "{size}");
}

#[tokio::test]
async fn check_prompt_predicts_refusals() {
    let fixture = SessionTestBed::new(&[]).await;
    let prompt = |text: &str, mime: Option<&str>| Prompt {
        text: text.to_owned(),
        attachments: mime
            .map(|mime| PromptAttachment {
                mime: mime.to_owned(),
                data: "AAAA".to_owned(),
                name: None,
            })
            .into_iter()
            .collect(),
        ..Prompt::default()
    };
    let check = |key: &str, prompt: Prompt, refused: Option<&str>| {
        let would = fixture.sessions.check_prompt(&fixture.address(key).key, &prompt);
        let error = would.as_ref().err().map(ToString::to_string);
        match refused {
            Some(text) => assert!(error.is_some_and(|error| error.contains(text)), "{would:?}"),
            None => assert_eq!(error, None),
        }
    };
    check("new", prompt("hi", None), None);
    check("new", prompt("hi", Some("image/png")), None);
    check("new", prompt(" ", None), Some("message or attachment required"));
    check("new", prompt("hi", Some("text/plain")), Some("only images can be attached"));
    check("agent:nobody:x", prompt("hi", None), Some("there is no agent `nobody`"));
    check("agent:nobody:x", prompt("/help", None), Some("there is no agent `nobody`"));
}

#[tokio::test(start_paused = true)]
async fn silent_tool_host_does_not_block_listing() {
    let fixture = SessionTestBed::new(&[]).await;
    let (log, name) = (Arc::clone(&fixture.backend.log), "laptop".to_owned());
    let backend = ScriptedToolBackend { log, order: None, name, store: None, silent: true };
    let _lease =
        fixture.sessions.attach_backend(&fixture.key, "laptop", Arc::new(backend)).await.unwrap();
    let began = Instant::now();
    let commands = fixture
        .sessions
        .list_commands(fixture.record().await, FolderAccess::Anywhere)
        .await
        .unwrap();
    assert!(commands.iter().any(|command| command.name == "help"), "{commands:?}");
    for text in ["/help", "/status", "/mode"] {
        assert!(fixture.run(text).await.ends_with("ended completed"), "{text}");
    }
    let took = began.elapsed();
    assert!(took.as_secs() <= 4 * 3, "{took:?}");
}

/// A run is longer than what is read at once, in entries and in bytes.
#[tokio::test]
async fn events_of_long_run_are_read_in_pages() {
    let store = MemStore::default();
    let new = NewSession {
        key: SessionKey::resolve("long", "main").unwrap(),
        label: None,
        cwd: None,
        model: None,
        mode: None,
        owner: "local".to_owned(),
        owned_max: u64::MAX,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    };
    let session = store.create(new).await.unwrap().id;
    let (earlier, run) = (run_id("earlier"), run_id("run"));
    for id in [&earlier, &run] {
        let new = NewRun {
            id: id.clone(),
            session: session.clone(),
            node: "here".to_owned(),
            started_ms: 1,
            options: Default::default(),
            first: Vec::new(),
        };
        store.begin_run(new).await.unwrap();
    }
    let prompt = || EventKind::Prompt { text: "go".to_owned(), attachments: Vec::new() };
    let notice = |text: String| EventKind::Notice { topic: "retry".to_owned(), text };
    let mut events = vec![new_event(Some(&earlier), prompt()), new_event(Some(&run), prompt())];
    events.extend((0..3_000).map(|number| new_event(Some(&run), notice(number.to_string()))));
    events.extend((0..5).map(|_| new_event(Some(&run), notice("x".repeat(1 << 20)))));
    store.append(&session, None, events).await.unwrap();
    let found = read_run_events(&store, &session, &run).await.unwrap();
    assert_eq!(found.len(), 3_006);
    assert_eq!(found.first().unwrap().kind, prompt());
    assert!(found.is_sorted_by_key(|event| event.seq));
}
