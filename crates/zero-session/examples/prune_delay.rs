//! Measures how long writes of a turn wait while 10,000 sessions are deleted, one of them large.
//! Prints JSON.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement, not a program")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use zero_core::SessionId;
use zero_session::event::EventKind;
use zero_session::key::SessionKey;
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{IdleSessionQuery, NewEvent, NewSession, Store, ToolHostLocation};

const SESSIONS: usize = 10_000;
/// Sessions that are created at the same time.
const BATCH: usize = 250;
const ENTRY_BYTES: usize = 4 * 1024;
/// Entries of 1 MiB in the large session.
const LARGE_ENTRIES: usize = 100;
/// Pause between two writes of the turn.
const PAUSE: Duration = Duration::from_millis(1);

fn new_session(name: &str, owner: &str) -> NewSession {
    NewSession {
        key: SessionKey::resolve(name, "main").unwrap(),
        label: None,
        cwd: None,
        model: None,
        mode: None,
        owner: owner.to_owned(),
        owned_max: u64::MAX,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    }
}

fn entry(bytes: usize) -> Vec<NewEvent> {
    vec![NewEvent { run: None, time_ms: 1, kind: EventKind::Text { text: "x".repeat(bytes) } }]
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // `/tmp` may be memory, which has nothing to flush to.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = Arc::new(SqliteStore::open(&folder.path().join("sessions.sqlite")).unwrap());
    for batch in 0..SESSIONS / BATCH {
        let made = (0..BATCH).map(|number| {
            let store = Arc::clone(&store);
            async move {
                let name = format!("s{batch}-{number}");
                let id = store.create(new_session(&name, "old")).await.unwrap().id;
                store.append(&id, None, entry(ENTRY_BYTES)).await.unwrap();
                id
            }
        });
        let ids = futures_util::future::join_all(made).await;
        if batch == SESSIONS / BATCH / 2 {
            for _ in 0..LARGE_ENTRIES {
                store.append(&ids[0], None, entry(1024 * 1024)).await.unwrap();
            }
        }
    }
    let turn = store.create(new_session("turn", "busy")).await.unwrap().id;
    let quiet = worst_write(&store, &turn, || false, 500).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let pruning = tokio::spawn({
        let (store, is_done) = (Arc::clone(&store), Arc::clone(&is_done));
        async move {
            let began = Instant::now();
            prune(&store).await;
            is_done.store(true, Ordering::Relaxed);
            began.elapsed()
        }
    });
    let busy = worst_write(&store, &turn, || is_done.load(Ordering::Relaxed), usize::MAX).await;
    let took = pruning.await.unwrap();
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
    let figures = json!({
        "quiet_ns": nanos(quiet), "busy_ns": nanos(busy), "prune_ns": nanos(took),
        "left": store.usage().await.unwrap().sessions,
    });
    println!("{figures}");
}

/// The longest of the writes until `is_over`, or of that many.
async fn worst_write(
    store: &SqliteStore,
    session: &SessionId,
    is_over: impl Fn() -> bool,
    most: usize,
) -> Duration {
    let mut worst = Duration::ZERO;
    for _ in 0..most {
        if is_over() {
            break;
        }
        let began = Instant::now();
        store.append(session, None, entry(100)).await.unwrap();
        worst = worst.max(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    worst
}

async fn prune(store: &SqliteStore) {
    let query = IdleSessionQuery {
        owner: Some("old".to_owned()),
        updated_before_ms: i64::MAX,
        limit: SESSIONS,
    };
    for session in store.idle_sessions(query).await.unwrap() {
        assert!(store.delete_idle(&session).await.unwrap());
    }
    store.reclaim().await.unwrap();
}
