//! Runs on the production store and bus.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use super::fixture::{ScriptedBackendFactory, model, run_id};
use crate::agent::AgentRegistry;
use crate::direct_model::DirectModel;
use crate::event::{Event, EventKind, RunOutcome};
use crate::event_bus::{EventBus as _, delivery_channel};
use crate::key::SessionAddress;
use crate::local_event_bus::LocalEventBus;
use crate::model::ModelClient;
use crate::model::catalog::ModelCatalog;
use crate::sessions::*;
use crate::sqlite_store::SqliteStore;
use crate::store::LedgerReadLimit;
use zero_runtime::tool_backend::FolderAccess;

const PATIENCE: Duration = Duration::from_secs(60);

async fn start(folder: &Path, bus: &Arc<LocalEventBus>, answers: &[&str]) -> SessionManager {
    start_as(folder, bus, answers, Arc::new(crate::node_membership::SingleNode::new("node"))).await
}

async fn start_as(
    folder: &Path,
    bus: &Arc<LocalEventBus>,
    answers: &[&str],
    nodes: Arc<dyn NodeMembership>,
) -> SessionManager {
    let models: Vec<Arc<dyn ModelClient>> =
        vec![Arc::new(model("scripted", answers)), Arc::new(DirectModel::new())];
    let config = SessionManagerConfig {
        store: Arc::new(SqliteStore::open(&folder.join("sessions.db")).unwrap()),
        bus: Arc::clone(bus) as _,
        agents: AgentRegistry::new(Vec::new(), None),
        models: ModelCatalog::new(models, Some("scripted".to_owned())),
        backend_factory: Arc::new(ScriptedBackendFactory::default()),
        cwd: PathBuf::from("/w"),
        nodes,
        limits: SessionLimits::default(),
    };
    SessionManager::start(config).await.unwrap()
}

async fn open(sessions: &SessionManager, key: &str) -> SessionRecord {
    let wanted = OpenSessionOptions { key: Some(key.to_owned()), ..OpenSessionOptions::default() };
    sessions.open(wanted).await.unwrap()
}

async fn run(sessions: &SessionManager, key: &SessionAddress, text: &str) -> RunOutcome {
    let prompt = Prompt {
        text: text.to_owned(),
        folder_access: FolderAccess::Anywhere,
        ..Prompt::default()
    };
    let run = run_id(&format!("{text}{}", key.key));
    assert_eq!(sessions.send(key, run.clone(), prompt).await, Ok(SendOutcome::Started));
    sessions.wait_for_run(&key.owner, &run, PATIENCE).await.unwrap().unwrap().end.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn published_events_match_stored_events() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalEventBus::default()));
    let sessions = start(folder.path(), &bus, &["Hi Read:1 Read:2", "Tell:3", "done"]).await;
    let record = open(&sessions, "main").await;
    let (ear, mut listener) = delivery_channel(1000);
    let _subscription = bus.subscribe(&record.id, &ear);
    for text in ["go", "/status", "/help", "/mode plan"] {
        assert_eq!(run(&sessions, &record.address(), text).await, RunOutcome::Completed, "{text}");
    }
    let reset = sessions.reset(&record.address()).await.unwrap();
    assert_eq!((reset.transcript, reset.context_tokens), (2, None));
    let kept =
        sessions.events(&record.address(), 0, LedgerReadLimit::with_entries(1000)).await.unwrap();
    let mut delivered: Vec<Event> = Vec::new();
    while delivered.len() < kept.len() {
        delivered.push((*listener.next().await.unwrap().event).clone());
    }
    assert_eq!(delivered, kept);
    let old = sessions.transcript(&record.address(), Some(1)).await.unwrap();
    assert_eq!(old.messages.len(), 6);
    sessions.shut_down(PATIENCE).await;
    drop(sessions);

    let next = start(folder.path(), &bus, &[]).await;
    assert_eq!(
        next.events(&record.address(), 0, LedgerReadLimit::with_entries(1000)).await.unwrap(),
        kept
    );
    assert_eq!(next.get(&record.address()).await.unwrap().unwrap().title.as_deref(), Some("go"));
    assert!(next.delete(&record.address()).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_concurrent_runs_all_end() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalEventBus::default()));
    let sessions = start(folder.path(), &bus, &[]).await;
    let mut runs = JoinSet::new();
    for number in 0..100 {
        let sessions = sessions.clone();
        runs.spawn(async move {
            let record = open(&sessions, &format!("s{number}")).await;
            run(&sessions, &record.address(), "go").await
        });
    }
    while let Some(end) = runs.join_next().await {
        assert_eq!(end.unwrap(), RunOutcome::Completed);
    }
    assert_eq!(sessions.stats().ended, 100);
}

/// One of several processes with a shared list of live ones.
struct LiveNodes {
    name: &'static str,
    alive: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl NodeMembership for LiveNodes {
    fn local_name(&self) -> &str {
        self.name
    }

    fn is_alive(&self, node: &str) -> zero_runtime::tool::BoxFuture<'_, bool> {
        Box::pin(std::future::ready(self.alive.lock().unwrap().contains(node)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_in_use_by_live_process_is_left_alone() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalEventBus::default()));
    let alive = Arc::new(Mutex::new(BTreeSet::from(["here", "there"])));
    let node = |name| Arc::new(LiveNodes { name, alive: Arc::clone(&alive) });
    let there = start_as(folder.path(), &bus, &["Hang:1"], node("there")).await;
    let record = open(&there, "main").await;
    let (ear, mut listener) = delivery_channel(1000);
    let _subscription = bus.subscribe(&record.id, &ear);
    let prompt = Prompt {
        text: "go".to_owned(),
        folder_access: FolderAccess::Anywhere,
        ..Prompt::default()
    };
    let theirs = run_id("theirs");
    assert_eq!(
        there.send(&record.address(), theirs.clone(), prompt.clone()).await,
        Ok(SendOutcome::Started)
    );
    let called = async {
        while !matches!(listener.next().await.unwrap().event.kind, EventKind::ToolStarted { .. }) {}
    };
    tokio::time::timeout(PATIENCE, called).await.unwrap();

    let here = start_as(folder.path(), &bus, &["mine"], node("here")).await;
    let key = &record.address();
    let before = here.events(key, 0, LedgerReadLimit::with_entries(1000)).await.unwrap();
    let refused = [
        here.reset(key).await.map(drop).unwrap_err(),
        here.delete(key).await.map(drop).unwrap_err(),
        here.send(key, run_id("mine"), prompt.clone()).await.map(drop).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(&error, SessionError::Busy(_)), "{error}");
        assert!(error.to_string().contains("another process of zero is at work"), "{error}");
    }
    let now = here.get(key).await.unwrap().expect("it was not removed");
    assert_eq!((&now.id, now.transcript), (&record.id, 1));
    assert_eq!(
        here.events(key, 0, LedgerReadLimit::with_entries(1000)).await.unwrap(),
        before,
        "nothing was written"
    );
    let run = here.wait_for_run(&key.owner, &theirs, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!((run.node.as_str(), run.end), ("there", None), "it goes on");

    // Runs of a dead process do not block others.
    alive.lock().unwrap().remove("there");
    assert_eq!(here.reset(key).await.unwrap().transcript, 2);
    let run = here.wait_for_run(&key.owner, &theirs, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(run.end, Some(RunOutcome::Interrupted));
    assert!(here.delete(key).await.unwrap());
    assert_eq!(here.get(key).await, Ok(None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_never_run_in_one_session_at_once() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalEventBus::default()));
    let alive = Arc::new(Mutex::new(BTreeSet::from(["here", "there"])));
    let node = |name| Arc::new(LiveNodes { name, alive: Arc::clone(&alive) });
    let here = start_as(folder.path(), &bus, &[], node("here")).await;
    let there = start_as(folder.path(), &bus, &[], node("there")).await;
    let prompt = || Prompt {
        text: "go".to_owned(),
        folder_access: FolderAccess::Anywhere,
        ..Prompt::default()
    };
    for round in 0..50 {
        let key = open(&here, &format!("s{round}")).await.address();
        let (mine, theirs) = (run_id(&format!("mine{round}")), run_id(&format!("theirs{round}")));
        let (one, other) = tokio::join!(
            here.send(&key, mine.clone(), prompt()),
            there.send(&key, theirs.clone(), prompt()),
        );
        for (sent, sessions, run) in [(one, &here, mine), (other, &there, theirs)] {
            match sent {
                Ok(_) => {
                    let ended =
                        sessions.wait_for_run(&key.owner, &run, PATIENCE).await.unwrap().unwrap();
                    assert_eq!(ended.end, Some(RunOutcome::Completed), "{round}");
                }
                Err(SessionError::Busy(_)) => {}
                Err(error) => panic!("{round}: {error}"),
            }
        }
        let events = here.events(&key, 0, LedgerReadLimit::with_entries(1000)).await.unwrap();
        let mut running = None;
        for event in events {
            match event.kind {
                EventKind::Prompt { .. } => {
                    assert_eq!(running, None, "{round}: two runs at once");
                    running = event.run;
                }
                EventKind::RunEnded { .. } => running = None,
                _ => {}
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_was_taken_for_dead_writes_nothing() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalEventBus::default()));
    let alive = Arc::new(Mutex::new(BTreeSet::from(["here", "there"])));
    let node = |name| Arc::new(LiveNodes { name, alive: Arc::clone(&alive) });
    let there = start_as(folder.path(), &bus, &["Hang:1"], node("there")).await;
    let record = open(&there, "main").await;
    let (key, theirs) = (&record.address(), run_id("theirs"));
    let prompt = Prompt {
        text: "go".to_owned(),
        folder_access: FolderAccess::Anywhere,
        ..Prompt::default()
    };
    let (ear, mut listener) = delivery_channel(1000);
    let _subscription = bus.subscribe(&record.id, &ear);
    there.send(key, theirs.clone(), prompt.clone()).await.unwrap();
    let called = async {
        while !matches!(listener.next().await.unwrap().event.kind, EventKind::ToolStarted { .. }) {}
    };
    tokio::time::timeout(PATIENCE, called).await.unwrap();

    alive.lock().unwrap().remove("there");
    let here = start_as(folder.path(), &bus, &["mine"], node("here")).await;
    assert_eq!(run(&here, key, "mine").await, RunOutcome::Completed);
    let read = || here.events(key, 0, LedgerReadLimit::with_entries(1000));
    let (ledger, transcript) = (read().await.unwrap(), here.transcript(key, None).await.unwrap());
    // It wakes up, its call ends, and it wants to record that.
    there.abort(key, Some(&theirs), "rpc").await.unwrap();
    let ended = async {
        while !there.active_runs().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    assert_eq!(read().await.unwrap(), ledger);
    assert_eq!(here.transcript(key, None).await.unwrap(), transcript);
    let run = there.wait_for_run(&key.owner, &theirs, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(run.end, Some(RunOutcome::Interrupted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_session_is_deleted_and_does_not_stop_prune() {
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalEventBus::default()));
    let sessions = start(folder.path(), &bus, &[]).await;
    let mut records = Vec::new();
    for key in ["usage", "id", "prunable"] {
        records.push(open(&sessions, key).await);
    }
    assert_eq!(run(&sessions, &records[0].address(), "/help").await, RunOutcome::Completed);
    let file = rusqlite::Connection::open(folder.path().join("sessions.db")).unwrap();
    for sql in [
        "UPDATE sessions SET usage = 'x' WHERE key LIKE '%usage'",
        "UPDATE sessions SET id = '' WHERE key LIKE '%:id'",
        // As a run that a killed process left; its row is damaged, too.
        "UPDATE runs SET usage = 'x', end = NULL, node = 'dead'",
    ] {
        assert_eq!(file.execute(sql, []).unwrap(), 1, "{sql}");
    }
    file.execute("UPDATE sessions SET updated_ms = updated_ms - ?", [9 * DAY_MS]).unwrap();
    let idle_max = Some(std::time::Duration::from_secs(5 * 24 * 60 * 60));
    let rules = RetentionRules { idle_max, store_bytes_max: None };
    let report = sessions.prune(rules, PruneMode::Remove).await.unwrap();
    let removed: Vec<_> = report.removed.iter().map(|idle| &idle.id).collect();
    assert_eq!((removed, report.failed, report.unremoved), (vec![&records[2].id], vec![], vec![]));
    for record in &records[..2] {
        let address = record.address();
        sessions.get(&address).await.unwrap_err();
        assert!(sessions.delete(&address).await.unwrap(), "{address:?}");
        assert_eq!(sessions.get(&address).await, Ok(None));
    }
}
