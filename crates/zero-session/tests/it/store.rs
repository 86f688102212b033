//! The SQLite store: the conformance suite, and tests specific to a file.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tempfile::TempDir;
use tokio::task::JoinSet;
use zero_core::{
    ErrorReason, ErrorType, FileLocation, ResultDisplay, RunId, ToolError, ToolOutcome,
    ToolResultPart,
};
use zero_session::event::{EventKind, RunOutcome, TokenUsage};
use zero_session::key::{SessionAddress, SessionKey};
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{
    BeginRunOutcome, ClaimEpoch, LedgerReadLimit, NewEvent, NewRun, NewSession, RunAddress,
    SessionRecord, Store, StoreError, ToolHostLocation,
};

use crate::store_conformance;

/// The only session of a test.
pub(crate) async fn session(store: &dyn Store) -> SessionRecord {
    store.create(new_session()).await.unwrap()
}

fn new_session() -> NewSession {
    NewSession {
        key: SessionKey::resolve("main", "main").unwrap(),
        label: None,
        cwd: None,
        model: None,
        mode: None,
        owner: "local".to_owned(),
        owned_max: 1,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    }
}

pub(crate) fn text_event(text: impl Into<String>) -> NewEvent {
    NewEvent { run: None, time_ms: 1, kind: EventKind::Text { text: text.into() } }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_store_passes_conformance() {
    let folders: Mutex<Vec<TempDir>> = Mutex::default();
    store_conformance::check_store(|| async {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("sessions.db")).unwrap();
        folders.lock().unwrap().push(folder);
        Arc::new(store) as Arc<dyn Store>
    })
    .await;
}

#[tokio::test]
async fn stored_data_survives_reopen() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let made = session(&store).await;
    let events =
        store.append(&made.id, None, vec![text_event("a"), text_event("b")]).await.unwrap();
    drop(store);
    assert_eq!(names(temp.path()), ["sessions.db"], "closed, with nothing beside it");
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(session(&store).await, made);
    assert_eq!(store.events(&made.id, 0, LedgerReadLimit::with_entries(9)).await.unwrap(), events);
}

#[tokio::test]
async fn foreign_mark_tells_of_writes_of_others_only() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let (ours, theirs) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    let before = ours.foreign_mark().await.unwrap();
    assert_eq!(ours.foreign_mark().await, Some(before), "nothing was written");
    let made = session(&ours).await;
    ours.append(&made.id, None, vec![text_event("a")]).await.unwrap();
    assert_eq!(ours.foreign_mark().await, Some(before), "nobody else wrote");
    theirs.append(&made.id, None, vec![text_event("b")]).await.unwrap();
    let after = ours.foreign_mark().await.unwrap();
    assert_ne!(after, before);
    assert_eq!(ours.foreign_mark().await, Some(after));
    // A log that has been at rest is not asked about again, until somebody writes.
    let log = std::fs::File::options().write(true).open(temp.path().join("sessions.db-wal"));
    let earlier = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
    log.unwrap().set_modified(earlier).unwrap();
    for _ in 0..2 {
        assert_eq!(ours.foreign_mark().await, Some(after));
    }
    theirs.append(&made.id, None, vec![text_event("c")]).await.unwrap();
    assert_ne!(ours.foreign_mark().await, Some(after));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn several_processes_may_open_file() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    // All of them find no file and create it.
    let opening: Vec<_> = (0..4)
        .map(|_| {
            let path = path.clone();
            std::thread::spawn(move || SqliteStore::open(&path).unwrap())
        })
        .collect();
    let stores: Vec<Arc<SqliteStore>> =
        opening.into_iter().map(|thread| Arc::new(thread.join().unwrap())).collect();
    let mut tasks = JoinSet::new();
    for store in &stores {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            let id = session(&*store).await.id;
            let run = NewRun {
                id: RunId::new("r1").unwrap(),
                session: id.clone(),
                node: "n".to_owned(),
                started_ms: 1,
                options: Default::default(),
                first: vec![],
            };
            let begun = store.begin_run(run).await.unwrap();
            let mut seqs = Vec::new();
            for n in 0..50 {
                let events =
                    store.append(&id, None, vec![text_event(n.to_string())]).await.unwrap();
                seqs.extend(events.iter().map(|event| event.seq));
            }
            (matches!(begun, BeginRunOutcome::Started { .. }), seqs)
        });
    }
    let done = tasks.join_all().await;
    assert_eq!(done.iter().filter(|(begun, _)| *begun).count(), 1);
    let mut seqs: Vec<u64> = done.into_iter().flat_map(|(_, seqs)| seqs).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=200).collect::<Vec<_>>());
    assert_eq!(stores[0].count().await.unwrap(), 1);
}

#[tokio::test]
async fn foreign_writer_delays_writes_but_not_reads() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let store = Arc::new(SqliteStore::open(&path).unwrap());
    let id = session(&*store).await.id;
    let other = Connection::open(&path).unwrap();
    // The number of the next entry shows which of the two wrote first.
    other.execute_batch("BEGIN IMMEDIATE; UPDATE sessions SET last_seq = 5").unwrap();
    let writing = tokio::spawn({
        let (store, id) = (Arc::clone(&store), id.clone());
        async move { store.append(&id, None, vec![text_event("x")]).await }
    });
    assert_eq!(store.last_seq(&id).await.unwrap(), 0, "reads do not wait");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(writing.await.unwrap().unwrap()[0].seq, 6, "the other one had the lock");
}

#[tokio::test]
async fn file_is_readable_by_owner_only() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("state/deep");
    let path = folder.join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    session(&store).await;
    assert_eq!(names(&folder), ["sessions.db", "sessions.db-shm", "sessions.db-wal"]);
    let check = || {
        assert_eq!(mode(&folder), 0o700);
        for name in names(&folder) {
            assert_eq!(mode(&folder.join(&name)), 0o600, "{name}");
        }
    };
    check();
    for name in names(&folder) {
        let wide = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(folder.join(name), wide).unwrap();
    }
    let _second = SqliteStore::open(&path).unwrap();
    check();
}

#[tokio::test]
async fn deleted_data_is_absent_from_file() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let made = session(&store).await;
    let secret = || "a-secret-of-somebody ".repeat(1000);
    for _ in 0..10 {
        store
            .append(&made.id, None, vec![text_event("a-secret-of-somebody"), text_event(secret())])
            .await
            .unwrap();
    }
    store.delete(&made.id, store_conformance::claim(&store, &made.id).await).await.unwrap();
    drop(store);
    assert_eq!(names(temp.path()), ["sessions.db"]);
    let bytes = std::fs::read(&path).unwrap();
    let needle = b"a-secret-of-somebody";
    assert!(!bytes.windows(needle.len()).any(|window| window == needle));
}

#[tokio::test]
async fn first_version_file_is_measured_on_open() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let made = session(&store).await;
    store
        .append(&made.id, None, vec![text_event("größer"), text_event("x".repeat(5000))])
        .await
        .unwrap();
    let message = zero_session::message::ModelMessage::user("ü".repeat(100));
    store
        .add_messages(
            &made.id,
            store_conformance::claim(&store, &made.id).await,
            vec![message.into()],
        )
        .await
        .unwrap();
    let size = store.size(&made.id).await.unwrap();
    assert!(size > 5200, "{size}");
    drop(store);
    let first = "DROP TABLE rewind_points; DROP TABLE run_usage; DROP VIEW live_sessions;
                 DROP TABLE open_questions; ALTER TABLE runs DROP COLUMN options;
                 DROP INDEX sessions_by_parent; ALTER TABLE sessions DROP COLUMN parent;
                 DROP INDEX sessions_by_key; DROP INDEX sessions_by_label;
                 DROP INDEX sessions_removed; ALTER TABLE sessions DROP COLUMN removed;
                 DROP INDEX runs_unfinished_by_session; ALTER TABLE sessions DROP COLUMN node;
                 ALTER TABLE sessions DROP COLUMN epoch;
                 ALTER TABLE sessions DROP COLUMN bytes;
                 PRAGMA user_version = 1";
    Connection::open(&path).unwrap().execute_batch(first).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.size(&made.id).await.unwrap(), size);
}

#[test]
fn unusable_file_is_refused_unchanged() {
    let sqlite = |sql: &'static str| {
        move |path: &Path| {
            Connection::open(path).unwrap().execute_batch(sql).unwrap();
        }
    };
    check("`{path}` is a database, but not one of zero's", sqlite("CREATE TABLE theirs (x)"));
    check("`{path}` is a database, but not one of zero's", sqlite("PRAGMA user_version = 1"));
    check("`{path}` is a database, but not one of zero's", sqlite("PRAGMA application_id = 7"));
    check(
        "`{path}` was written by a newer zero (its version is 99, this zero knows 11); update zero",
        |path| {
            drop(SqliteStore::open(path).unwrap());
            sqlite("PRAGMA user_version = 99; PRAGMA journal_mode = DELETE")(path);
        },
    );
    check("`{path}` is damaged (file is not a database); nothing was removed", |path| {
        std::fs::write(path, "something else entirely ".repeat(1000)).unwrap();
    });
    check("`{path}` is damaged", |path| {
        drop(SqliteStore::open(path).unwrap());
        let mut bytes = std::fs::read(path).unwrap();
        bytes[100..4096].fill(0xff);
        std::fs::write(path, bytes).unwrap();
    });
    check("`{path}` is a link or a folder where a file should be", |path| {
        std::os::unix::fs::symlink("/dev/null", path).unwrap();
    });
    check("`{path}` is a link or a folder where a file should be", |path| {
        std::fs::create_dir(path).unwrap();
    });
    check("`{path}-wal` is a link or a folder where a file should be", |path| {
        std::os::unix::fs::symlink("/dev/null", with_suffix(path, "-wal")).unwrap();
    });
    let error = SqliteStore::open(Path::new("/")).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "the session store cannot open: `/` names no file");
    let error = SqliteStore::open(Path::new("/dev/null/x.db")).map(drop).unwrap_err();
    assert!(error.to_string().starts_with("the session store cannot open: `/dev/null`"), "{error}");
}

/// Opens the file that `prepare` made; it must fail and change nothing.
#[track_caller]
fn check(expected: &str, prepare: impl FnOnce(&Path)) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().canonicalize().unwrap().join("sessions.db");
    prepare(&path);
    if path.is_file() && !path.is_symlink() {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    }
    let state = || (std::fs::read(&path).ok(), path.is_file().then(|| mode(&path)));
    let before = state();
    let error = SqliteStore::open(&path).map(drop).unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Broken { verb: "open", .. } | StoreError::Damaged { verb: "open", .. }
        ),
        "{error}"
    );
    let expected = expected.replace("{path}", &path.display().to_string());
    assert!(error.to_string().contains(&expected), "{error}\nis not\n{expected}");
    assert_eq!(state(), before);
}

#[tokio::test]
async fn later_damage_is_reported_and_nothing_removed() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let made = session(&store).await;
    store.append(&made.id, None, vec![text_event("x".repeat(100_000))]).await.unwrap();
    drop(store);
    // The schema stays, which takes more than the first page.
    let pages: Vec<usize> = {
        let database = Connection::open(&path).unwrap();
        let mut roots =
            database.prepare("SELECT rootpage FROM sqlite_schema WHERE rootpage > 1").unwrap();
        let roots = roots.query_map([], |row| row.get::<_, u32>(0)).unwrap();
        roots.map(|root| usize::try_from(root.unwrap()).unwrap()).collect()
    };
    let mut bytes = std::fs::read(&path).unwrap();
    for page in pages {
        bytes[(page - 1) * 4096..page * 4096].fill(0xff);
    }
    std::fs::write(&path, &bytes).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let error = store.session(&made.address()).await.unwrap_err().to_string();
    assert!(
        error.contains("cannot look up a session: `") && error.contains("is damaged"),
        "{error}"
    );
    let run = RunId::new("r").unwrap();
    let error = store
        .end_run(
            &RunAddress::new(&made.id, &run),
            ClaimEpoch(1),
            RunOutcome::Completed,
            TokenUsage::default(),
            vec![],
        )
        .await
        .unwrap_err();
    assert!(error.to_string().contains("move it away together with"), "{error}");
    drop(store);
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn ledger_of_version_2_is_read() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions-v2.db");
    std::fs::write(&path, std::fs::read(old).unwrap()).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    let made = session(&store).await;
    let events = store.events(&made.id, 0, LedgerReadLimit::with_entries(100)).await.unwrap();
    let outcomes = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolEnded { call, status, outcome } => {
            assert_eq!(outcome.status(), *status, "{call}");
            Some(outcome.clone())
        }
        _ => None,
    });
    let outcomes: Vec<ToolOutcome> = outcomes.collect();
    let [diff, text, empty, failed, denied, cancelled, interrupted] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    let diff = diff.result().unwrap();
    let image = ToolResultPart::Image { mime: "image/png".into(), data: "AA==".into() };
    assert_eq!(diff.content, [ToolResultPart::Text("changed a.rs".into()), image]);
    assert!(matches!(&diff.display, ResultDisplay::Diff(diff) if diff.unified.ends_with("+b")));
    assert_eq!(diff.locations, [FileLocation { path: "/w/a.rs".into(), line: Some(3) }]);
    let text = text.result().unwrap();
    assert_eq!(text.content, [ToolResultPart::Text("a\0b\n\n(exit code 7)".into())]);
    assert_eq!(text.display, ResultDisplay::markdown("a"));
    assert_eq!(empty.result().unwrap().content, []);
    assert_eq!(failed.error().unwrap().message, "it broke\nbadly");
    assert_eq!(denied.error().unwrap().error_type, ErrorType::PermissionDenied);
    assert_eq!(cancelled.error().unwrap().reason(), Some(ErrorReason::Cancelled));
    assert_eq!(interrupted.error().unwrap().message, "zero was stopped");
    assert_eq!(store.transcript(&made.id, None).await.unwrap().messages.len(), 1);
    // New entries are read along with the old ones.
    let error = ToolError::failed(ErrorReason::Io, "no").with_detail("file", "a");
    let kind = EventKind::tool_ended("c8", error.into());
    let new = NewEvent { run: None, time_ms: 2, kind };
    let written = store.append(&made.id, None, vec![new]).await.unwrap();
    let last = store.events(&made.id, 9, LedgerReadLimit::with_entries(100)).await.unwrap();
    assert_eq!(last, written);
    drop(store);
    let version =
        Connection::open(&path)
            .unwrap()
            .pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    assert_eq!(version.unwrap(), 11);
}

#[tokio::test]
async fn version_4_file_gets_keys_per_owner() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions-v4.db");
    std::fs::write(&path, std::fs::read(old).unwrap()).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    // Sessions of two owners, with everything that belongs to them.
    let address =
        |owner, name| SessionAddress::new(owner, SessionKey::resolve(name, "main").unwrap());
    for (owner, name) in [("this machine", "main"), ("bob", "other")] {
        let kept = store.session(&address(owner, name)).await.unwrap().unwrap();
        assert_eq!(kept.title.as_deref(), Some("/read a.txt"));
        let events = store.events(&kept.id, 0, LedgerReadLimit::with_entries(99)).await.unwrap();
        assert_eq!(events.len(), 10);
        let run = store.find_run(None, events[0].run.as_ref().unwrap()).await.unwrap().unwrap();
        assert_eq!((run.session, run.end), (kept.id.clone(), Some(RunOutcome::Completed)));
        assert_eq!(store.transcript(&kept.id, None).await.unwrap().messages.len(), 4);
        assert_eq!(store.size(&kept.id).await.unwrap(), 1573);
    }
    let taken = store.session(&address("this machine", "main")).await.unwrap().unwrap();
    assert_eq!(store.session(&address("bob", "main")).await.unwrap(), None);
    let wanted = NewSession {
        key: taken.key.clone(),
        label: None,
        cwd: None,
        model: None,
        mode: None,
        owner: "bob".to_owned(),
        owned_max: 2,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    };
    let new = store.create(wanted).await.unwrap();
    assert_ne!(new.id, taken.id);
    // What refers to a session still goes with it.
    let claim = store_conformance::claim(&store, &taken.id).await;
    store.delete(&taken.id, claim).await.unwrap();
    drop(store);
    let file = Connection::open(&path).unwrap();
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        file.query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
    };
    let counts = ["sessions", "events", "runs", "messages", "transcripts"].map(count);
    assert_eq!(counts, [2, 10, 1, 4, 2]);
}

#[tokio::test]
async fn version_10_file_gets_run_ids_per_owner() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions-v10.db");
    std::fs::write(&path, std::fs::read(old).unwrap()).unwrap();
    let store = SqliteStore::open(&path).unwrap();
    // A finished run of each of two owners, and one that waits for an answer.
    let read = async |owner, name| {
        let key = SessionKey::resolve(name, "main").unwrap();
        let kept = store.session(&SessionAddress::new(owner, key)).await.unwrap().unwrap();
        let events = store.events(&kept.id, 0, LedgerReadLimit::with_entries(99)).await.unwrap();
        let id = events[0].run.clone().unwrap();
        let run = store.find_run(Some(owner), &id).await.unwrap().unwrap();
        assert_eq!(store.run(&RunAddress::new(&kept.id, &id)).await.unwrap(), Some(run.clone()));
        assert_eq!(run.session, kept.id);
        run
    };
    let mine = read("this machine", "main").await;
    let theirs = read("bob", "other").await;
    let parked = read("this machine", "parked").await;
    assert_eq!(
        [&mine, &theirs].map(|run| run.end.clone()),
        [const { Some(RunOutcome::Completed) }; 2]
    );
    assert_eq!((parked.end, parked.has_open_question), (None, true));
    let unfinished = store.unfinished_runs(None).await.unwrap();
    assert_eq!(unfinished.iter().map(|run| &run.id).collect::<Vec<_>>(), [&parked.id]);
    assert_eq!(store.find_run(Some("bob"), &mine.id).await.unwrap(), None);
    let usages = store.run_usages(Default::default()).await.unwrap();
    let mut owners: Vec<_> = usages.iter().map(|usage| usage.owner.as_str()).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["bob", "this machine", "this machine"]);
    assert!(usages.iter().all(|usage| usage.usage.tool_calls == 1));

    // The other owner may use an id that is taken.
    let run = NewRun {
        id: mine.id.clone(),
        session: theirs.session.clone(),
        node: "here".to_owned(),
        started_ms: 1,
        options: Default::default(),
        first: vec![text_event("begins")],
    };
    let begun = store.begin_run(run).await.unwrap();
    let BeginRunOutcome::Started { claim, .. } = begun else { panic!("{begun:?}") };
    let address = RunAddress::new(&theirs.session, &mine.id);
    let end = RunOutcome::Interrupted;
    let ended = store.end_run(&address, claim, end.clone(), TokenUsage::default(), vec![]).await;
    assert!(ended.unwrap().is_some());
    assert_eq!(store.run(&mine.address()).await.unwrap(), Some(mine));
    assert_eq!(store.run(&address).await.unwrap().unwrap().end, Some(end));
}

/// Number of pages of a file, and how many of them are free.
fn pages(path: &Path) -> (i64, i64) {
    let file = Connection::open(path).unwrap();
    let number = |name| file.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    (number("page_count"), number("freelist_count"))
}

#[tokio::test]
async fn large_session_is_deleted_in_pieces_between_other_writes() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let store = Arc::new(SqliteStore::open(&path).unwrap());
    let large = session(&*store).await;
    for _ in 0..24 {
        let entry = text_event("x".repeat(1024 * 1024));
        store.append(&large.id, None, vec![entry]).await.unwrap();
    }
    let (full, _) = pages(&path);
    let other = NewSession { owner: "other".to_owned(), ..new_session() };
    let other = store.create(other).await.unwrap().id;
    let claim = store_conformance::claim(&*store, &large.id).await;
    let deleting = tokio::spawn({
        let (store, id) = (Arc::clone(&store), large.id.clone());
        async move { store.delete(&id, claim).await }
    });
    // Each write is committed in turn with the pieces, so several fit in before the last piece.
    let mut between = 0;
    while !deleting.is_finished() {
        store.append(&other, None, vec![text_event("y")]).await.unwrap();
        between += 1;
    }
    deleting.await.unwrap().unwrap();
    assert!(between > 8, "{between} writes while 24 pieces were removed");
    assert_eq!(store.session(&large.address()).await.unwrap(), None);
    drop(store);
    let (left, free) = pages(&path);
    assert!(left < full / 4 && free <= 256, "{left} of {full} pages are left, {free} are free");
}

#[tokio::test]
async fn interrupted_deletion_is_completed_later() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let store = SqliteStore::open(&path).unwrap();
    let made = session(&store).await;
    store.append(&made.id, None, vec![text_event("a"), text_event("b")]).await.unwrap();
    drop(store);
    // As after the first transaction of a deletion.
    let file = Connection::open(&path).unwrap();
    file.execute_batch("UPDATE sessions SET removed = 1").unwrap();
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.session(&made.address()).await.unwrap(), None);
    assert_eq!(store.session_by_id(&made.id).await.unwrap(), None);
    assert_eq!(store.count().await.unwrap(), 0);
    let again = session(&store).await;
    assert_ne!(again.id, made.id, "its key is free");
    store.reclaim().await.unwrap();
    let left: i64 = file.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
    assert_eq!(store.session(&made.address()).await.unwrap(), Some(again));
}
