//! Measures how long a durable begin of a run takes, beside a flushed write of the same size to the
//! same disk. Prints JSON.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement, not a program"
)]

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;
use zero_core::RunId;
use zero_session::event::{EventKind, RunOutcome, TokenUsage};
use zero_session::key::SessionKey;
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{
    BeginRunOutcome, NewEvent, NewRun, NewSession, RunAddress, Store, ToolHostLocation,
};

const RUNS: usize = 500;
const PROMPT_BYTES: usize = 1024;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // `/tmp` may be memory, which has nothing to flush to.
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = SqliteStore::open(&folder.path().join("sessions.sqlite")).unwrap();
    let mut beside = File::create(folder.path().join("beside")).unwrap();
    let session = NewSession {
        key: SessionKey::resolve("main", "main").unwrap(),
        label: None,
        cwd: None,
        model: None,
        mode: None,
        owner: "me".to_owned(),
        owned_max: u64::MAX,
        tool_host: ToolHostLocation::Gateway,
        parent: None,
    };
    let session = store.create(session).await.unwrap().id;
    let text = "x".repeat(PROMPT_BYTES);
    let (mut begins, mut floors) = (Vec::new(), Vec::new());
    // In turns, so that both meet the same disk.
    for number in 0..RUNS {
        let began = Instant::now();
        beside.write_all(text.as_bytes()).unwrap();
        beside.sync_data().unwrap();
        floors.push(began.elapsed());
        let id = RunId::new(format!("run-{number}")).unwrap();
        let kind = EventKind::Prompt { text: text.clone(), attachments: Vec::new() };
        let first = vec![NewEvent { run: Some(id.clone()), time_ms: 1, kind }];
        let run = NewRun {
            id: id.clone(),
            session: session.clone(),
            node: "here".to_owned(),
            started_ms: 1,
            options: Default::default(),
            first,
        };
        let began = Instant::now();
        let begun = store.begin_run(run).await.unwrap();
        begins.push(began.elapsed());
        let BeginRunOutcome::Started { claim, .. } = begun else { panic!("{begun:?}") };
        let usage = TokenUsage::default();
        store
            .end_run(
                &RunAddress::new(&session, &id),
                claim,
                RunOutcome::Completed,
                usage,
                Vec::new(),
            )
            .await
            .unwrap();
    }
    let figures = json!({"begin_ns": median(begins), "floor_ns": median(floors)});
    println!("{figures}");
}

fn median(mut times: Vec<Duration>) -> u64 {
    times.sort_unstable();
    u64::try_from(times[times.len() / 2].as_nanos()).unwrap()
}
