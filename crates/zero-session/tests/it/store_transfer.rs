//! Copies of all sessions between a file and a real Postgres.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zero_session::key::SessionKey;
use zero_session::postgres_store::{PostgresOptions, PostgresStore};
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{LedgerReadLimit, NewSession, Store, ToolHostLocation};
use zero_session::store_transfer::{StoreTransfer, TransferMode, TransferReport};

use crate::postgres_server::PostgresServer;
use crate::postgres_store;
use crate::store::text_event;
use crate::store_conformance;

const HOME: &str = "box";

/// What is copied from or to.
#[derive(Clone)]
enum End {
    File(PathBuf),
    Database(String),
}

impl End {
    async fn open(&self) -> zero_session::store_transfer::TransferStore {
        match self {
            Self::File(path) => SqliteStore::open_transfer(path).unwrap(),
            Self::Database(url) => {
                let options = PostgresOptions { url: url.clone(), ..PostgresOptions::default() };
                PostgresStore::open_transfer(&options, HOME).await.unwrap()
            }
        }
    }
}

async fn transfer(from: &End, to: &End, mode: TransferMode) -> TransferReport {
    let mut transfer = StoreTransfer::new(from.open().await, to.open().await);
    transfer.run(mode, &mut |_| {}).await.unwrap()
}

async fn database(server: &PostgresServer) -> End {
    End::Database(server.url("zero", &server.create_database().await))
}

/// Copied, present and refused sessions.
fn counts(report: &TransferReport) -> (u64, u64, u64) {
    (report.copied, report.present, report.refused)
}

fn named(key: &str) -> NewSession {
    NewSession {
        key: SessionKey::resolve(key, "main").unwrap(),
        label: Some(format!("label of {key}")),
        cwd: Some(PathBuf::from("/work")),
        model: None,
        mode: None,
        owner: "local".to_owned(),
        owned_max: 100,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    }
}

/// Sessions with some entries each.
async fn fill(path: &Path, keys: &[&str]) {
    let store = SqliteStore::open(path).unwrap();
    for key in keys {
        let made = store.create(named(key)).await.unwrap();
        let entries = (0..700).map(|n| text_event(format!("{key} {n}"))).collect();
        store.append(&made.id, None, entries).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everything_that_stores_keep_is_copied_both_ways() {
    let temp = tempfile::tempdir().unwrap();
    let number = AtomicUsize::default();
    let path = |name: String| temp.path().join(name);
    // Whatever the suite of all stores writes.
    store_conformance::check_store(|| async {
        let number = number.fetch_add(1, Ordering::Relaxed);
        Arc::new(SqliteStore::open(&path(format!("{number}.db"))).unwrap()) as Arc<dyn Store>
    })
    .await;
    let server = PostgresServer::start();
    let name = server.create_database().await;
    let middle = End::Database(server.url("zero", &name));
    let (mut sessions, mut rows, mut usages) = (0, 0, 0);
    for number in 0..number.into_inner() {
        let file = End::File(path(format!("{number}.db")));
        let back = End::File(path(format!("back-{number}.db")));
        let there = transfer(&file, &middle, TransferMode::Copy).await;
        assert_eq!((there.present, there.refused), (0, 0), "{there:?}");
        let returned = transfer(&middle, &back, TransferMode::Copy).await;
        assert_eq!(returned, there);
        let again = transfer(&file, &back, TransferMode::Copy).await;
        assert_eq!(counts(&again), (0, there.copied, 0));
        (sessions, rows, usages) =
            (sessions + there.copied, rows + there.rows, usages + there.usages);
        let empty = "TRUNCATE zero.sessions, zero.events, zero.messages, zero.run_usage CASCADE";
        server.execute(&name, empty).await;
    }
    assert!(sessions > 50 && rows > 1_000 && usages > 10, "{sessions} {rows} {usages}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn copy_is_used_like_its_source() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.db");
    fill(&path, &["one"]).await;
    let server = PostgresServer::start();
    let target = database(&server).await;
    let End::Database(url) = &target else { unreachable!() };
    let (file, planned) = (End::File(path.clone()), TransferMode::Plan);
    assert_eq!(counts(&transfer(&file, &target, planned).await), (1, 0, 0));
    let there = postgres_store::open(url).await;
    assert_eq!(there.count().await.unwrap(), 0, "a plan writes nothing");
    transfer(&file, &target, TransferMode::Copy).await;
    let source = SqliteStore::open(&path).unwrap();
    let made = source.create(named("one")).await.unwrap();
    let limit = LedgerReadLimit::with_entries(1_000);
    assert_eq!(
        there.events(&made.id, 0, limit).await.unwrap(),
        source.events(&made.id, 0, limit).await.unwrap()
    );
    let (session, claim) = (&made.id, store_conformance::claim(&*there, &made.id).await);
    let next = there.append(session, Some(claim), vec![text_event("next")]).await.unwrap();
    assert_eq!(next[0].seq, 701);
    // It was continued there: the source does not overwrite it, and is not taken for equal.
    let again = transfer(&file, &target, TransferMode::Copy).await;
    assert_eq!(counts(&again), (0, 0, 1));
    assert!(again.problems[0].problem.contains("continued on one side"), "{again:?}");
    assert_eq!(there.last_seq(session).await.unwrap(), 701);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn interrupted_copy_leaves_whole_sessions_and_resumes() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.db");
    fill(&path, &["one", "two", "three", "four"]).await;
    let server = PostgresServer::start();
    let (file, target) = (End::File(path), database(&server).await);
    let seen = Mutex::new(0);
    let mut first = StoreTransfer::new(file.open().await, target.open().await);
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut stop = Some(stop);
    let mut progress = |report: &TransferReport| {
        *seen.lock().unwrap() = report.copied;
        if report.copied == 2
            && let Some(stop) = stop.take()
        {
            stop.send(()).unwrap();
        }
    };
    tokio::select! {
        biased;
        _ = stopped => {}
        done = first.run(TransferMode::Copy, &mut progress) => panic!("not interrupted: {done:?}"),
    }
    drop(first);
    let copied = *seen.lock().unwrap();
    let End::Database(url) = &target else { unreachable!() };
    let there = postgres_store::open(url).await;
    assert_eq!(there.count().await.unwrap(), copied);
    let report = transfer(&file, &target, TransferMode::Copy).await;
    assert_eq!(counts(&report), (4 - copied, copied, 0));
    assert_eq!(counts(&transfer(&file, &target, TransferMode::Copy).await), (0, 4, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn names_that_are_taken_are_refused_one_by_one() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.db");
    fill(&path, &["one", "two", "three"]).await;
    let server = PostgresServer::start();
    let target = database(&server).await;
    let End::Database(url) = &target else { unreachable!() };
    let there = postgres_store::open(url).await;
    there.create(NewSession { label: None, ..named("one") }).await.unwrap();
    let label = named("two").label;
    there.create(NewSession { label, ..named("other") }).await.unwrap();
    let report = transfer(&End::File(path), &target, TransferMode::Copy).await;
    assert_eq!(counts(&report), (1, 0, 2));
    let problems: BTreeSet<&str> =
        report.problems.iter().map(|problem| problem.problem.as_str()).collect();
    let expected = [
        "the target has another session with its label: change one of them",
        "the target has another session with this key: delete or rename one of them",
    ];
    assert_eq!(problems, BTreeSet::from(expected));
    assert_eq!(there.count().await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn damaged_session_does_not_keep_others_from_being_copied() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.db");
    fill(&path, &["one", "two"]).await;
    let file = rusqlite::Connection::open(&path).unwrap();
    // A text that is none.
    let damage = "UPDATE events SET body = CAST(x'ff' AS TEXT)
        WHERE seq = 600 AND session = (SELECT row FROM sessions WHERE key LIKE '%two')";
    assert_eq!(file.execute(damage, []).unwrap(), 1);
    drop(file);
    let server = PostgresServer::start();
    let target = database(&server).await;
    let report = transfer(&End::File(path), &target, TransferMode::Copy).await;
    assert_eq!(counts(&report), (1, 0, 1));
    assert!(report.problems[0].problem.contains("`body` of `events`"), "{report:?}");
    let End::Database(url) = &target else { unreachable!() };
    assert_eq!(postgres_store::open(url).await.count().await.unwrap(), 1, "nothing is left of it");
}
