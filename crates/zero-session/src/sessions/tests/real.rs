//! Runs on the store and the bus that ship.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

use super::lab::{ScriptedFactory, model, run_of};
use crate::agent::Agents;
use crate::bus::{Bus as _, listen};
use crate::direct::DirectModel;
use crate::event::{Event, RunEnd, What};
use crate::key::SessionKey;
use crate::local_bus::LocalBus;
use crate::model::Model;
use crate::model::catalogue::Models;
use crate::reach::Reach;
use crate::sessions::*;
use crate::sqlite_store::SqliteStore;
use crate::store::Most;

const PATIENCE: Duration = Duration::from_secs(60);

async fn start(folder: &Path, bus: &Arc<LocalBus>, answers: &[&str]) -> Sessions {
    start_as(folder, bus, answers, Arc::new(crate::nodes::Alone::new("node"))).await
}

async fn start_as(
    folder: &Path,
    bus: &Arc<LocalBus>,
    answers: &[&str],
    nodes: Arc<dyn Nodes>,
) -> Sessions {
    let models: Vec<Arc<dyn Model>> =
        vec![Arc::new(model("scripted", answers)), Arc::new(DirectModel::new())];
    let config = SessionsConfig {
        store: Arc::new(SqliteStore::open(&folder.join("sessions.db")).unwrap()),
        bus: Arc::clone(bus) as _,
        agents: Agents::new(Vec::new(), None),
        models: Models::new(models, Some("scripted".to_owned())),
        hands: Arc::new(ScriptedFactory::default()),
        cwd: PathBuf::from("/w"),
        nodes,
        limits: SessionLimits::default(),
    };
    Sessions::start(config).await.unwrap()
}

async fn open(sessions: &Sessions, key: &str) -> SessionRecord {
    let wanted = OpenSession { key: Some(key.to_owned()), ..OpenSession::default() };
    sessions.open(wanted).await.unwrap()
}

async fn run(sessions: &Sessions, key: &SessionKey, text: &str) -> RunEnd {
    let prompt = Prompt { text: text.to_owned(), reach: Reach::Anywhere, ..Prompt::default() };
    let run = run_of(&format!("{text}{key}"));
    assert_eq!(sessions.send(key, run.clone(), prompt).await, Ok(Sent::Started));
    sessions.wait(&run, PATIENCE).await.unwrap().unwrap().end.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_heard_is_what_is_kept() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalBus::default()));
    let sessions = start(folder.path(), &bus, &["Hi Read:1 Read:2", "Tell:3", "done"]).await;
    let record = open(&sessions, "main").await;
    let (ear, mut listener) = listen(1000);
    let _subscription = bus.subscribe(&record.id, &ear);
    for text in ["go", "/status", "/help", "/mode plan"] {
        assert_eq!(run(&sessions, &record.key, text).await, RunEnd::Completed, "{text}");
    }
    let reset = sessions.reset(&record.key).await.unwrap();
    assert_eq!((reset.transcript, reset.context_tokens), (2, None));
    let kept = sessions.events(&record.key, 0, Most::entries(1000)).await.unwrap();
    let mut heard: Vec<Event> = Vec::new();
    while heard.len() < kept.len() {
        heard.push((*listener.next().await.unwrap().event).clone());
    }
    assert_eq!(heard, kept);
    let old = sessions.transcript(&record.key, Some(1)).await.unwrap();
    assert_eq!(old.messages.len(), 6);
    sessions.shut_down(PATIENCE).await;
    drop(sessions);

    let next = start(folder.path(), &bus, &[]).await;
    assert_eq!(next.events(&record.key, 0, Most::entries(1000)).await.unwrap(), kept);
    assert_eq!(next.get(&record.key).await.unwrap().unwrap().title.as_deref(), Some("go"));
    assert!(next.delete(&record.key).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_at_once_all_come_to_their_end() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalBus::default()));
    let sessions = start(folder.path(), &bus, &[]).await;
    let mut runs = JoinSet::new();
    for number in 0..100 {
        let sessions = sessions.clone();
        runs.spawn(async move {
            let record = open(&sessions, &format!("s{number}")).await;
            run(&sessions, &record.key, "go").await
        });
    }
    while let Some(end) = runs.join_next().await {
        assert_eq!(end.unwrap(), RunEnd::Completed);
    }
    assert_eq!(sessions.stats().ended, 100);
}

/// One of several processes, of which those that live are known.
struct OneOf {
    name: &'static str,
    alive: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Nodes for OneOf {
    fn name(&self) -> &str {
        self.name
    }

    fn is_alive(&self, node: &str) -> bool {
        self.alive.lock().unwrap().contains(node)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_takes_away_a_session_in_which_another_process_works() {
    let (folder, bus) = (tempfile::tempdir().unwrap(), Arc::new(LocalBus::default()));
    let alive = Arc::new(Mutex::new(BTreeSet::from(["here", "there"])));
    let node = |name| Arc::new(OneOf { name, alive: Arc::clone(&alive) });
    let there = start_as(folder.path(), &bus, &["Hang:1"], node("there")).await;
    let record = open(&there, "main").await;
    let (ear, mut listener) = listen(1000);
    let _subscription = bus.subscribe(&record.id, &ear);
    let prompt = Prompt { text: "go".to_owned(), reach: Reach::Anywhere, ..Prompt::default() };
    let theirs = run_of("theirs");
    assert_eq!(there.send(&record.key, theirs.clone(), prompt.clone()).await, Ok(Sent::Started));
    let called = async {
        while !matches!(listener.next().await.unwrap().event.what, What::ToolStarted { .. }) {}
    };
    tokio::time::timeout(PATIENCE, called).await.unwrap();

    let here = start_as(folder.path(), &bus, &["mine"], node("here")).await;
    let key = &record.key;
    let before = here.events(key, 0, Most::entries(1000)).await.unwrap();
    let refused = [
        here.reset(key).await.map(drop).unwrap_err(),
        here.delete(key).await.map(drop).unwrap_err(),
        here.send(key, run_of("mine"), prompt.clone()).await.map(drop).unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(&error, SessionError::Busy(_)), "{error}");
        assert!(error.to_string().contains("another process of zero is at work"), "{error}");
    }
    let now = here.get(key).await.unwrap().expect("it was not removed");
    assert_eq!((&now.id, now.transcript), (&record.id, 1));
    assert_eq!(
        here.events(key, 0, Most::entries(1000)).await.unwrap(),
        before,
        "nothing was written"
    );
    let run = here.wait(&theirs, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!((run.node.as_str(), run.end), ("there", None), "it goes on");

    // What a dead process has left is in nobody's way.
    alive.lock().unwrap().remove("there");
    assert_eq!(here.reset(key).await.unwrap().transcript, 2);
    let run = here.wait(&theirs, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!(run.end, Some(RunEnd::Interrupted));
    assert!(here.delete(key).await.unwrap());
    assert_eq!(here.get(key).await, Ok(None));
}
