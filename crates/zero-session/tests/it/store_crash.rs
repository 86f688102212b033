//! Processes that are killed while they write to the store.
#![expect(clippy::print_stdout, reason = "the one that is killed tells what it was told")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rusqlite::Connection;
use tokio::task::JoinSet;
use zero_core::{RunId, SessionId};
use zero_session::event::{EventKind, RunOutcome, TokenUsage};
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{BeginRunOutcome, LedgerReadLimit, NewRun, RunAddress, Store};

use crate::store::{session, text_event};
use crate::store_conformance::claim;

const KILLS: u32 = 100;
const TASKS: u32 = 4;
/// Number of lines that a writer prints before it is killed.
const LINES_MIN: usize = 12;
/// Path of the store; set in the process that writes until it is killed.
const STORE_PATH_ENV: &str = "ZERO_TEST_STORE";

/// The test binary runs a second time as the process that is killed: see [`STORE_PATH_ENV`].
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_loses_no_acknowledged_write() {
    if let Some(path) = std::env::var_os(STORE_PATH_ENV) {
        return write_until_killed(Path::new(&path)).await;
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("sessions.db");
    let mut random = fastrand::Rng::with_seed(7);
    let mut sum = CrashTotals::default();
    let mut seen = 0;
    for kill in 0..KILLS {
        // Every second process is killed while another one has the file open.
        let beside = (kill % 2 == 0).then(|| SqliteStore::open(&path).unwrap());
        let mut writer = CrashWriterProcess::start(&path);
        writer.wait_for_lines(LINES_MIN);
        std::thread::sleep(Duration::from_micros(random.u64(..30_000)));
        if let Some(beside) = &beside {
            beside.check_ready().await.unwrap();
        }
        let lines = writer.kill();
        let store = match beside {
            Some(beside) => beside,
            None => SqliteStore::open(&path).unwrap(),
        };
        seen = check(&store, &lines, seen, &mut sum).await;
        check_file(&path);
    }
    assert!(sum.acknowledged > 1000, "the writers got to write: {sum:?}");
    assert!(sum.unsettled > 50, "kills hit runs under way: {sum:?}");
}

#[derive(Debug, Default)]
struct CrashTotals {
    acknowledged: usize,
    unsettled: usize,
}

/// Compares the entries after a sequence number with the acknowledged ones; returns the last
/// number.
async fn check(store: &SqliteStore, lines: &[String], after: u64, sum: &mut CrashTotals) -> u64 {
    let id = session(store).await.id;
    let events = store.events(&id, after, LedgerReadLimit::with_entries(usize::MAX)).await.unwrap();
    let last = store.last_seq(&id).await.unwrap();
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (after + 1..=last).collect::<Vec<_>>(), "no gap");
    let texts: HashMap<u64, &str> = events
        .iter()
        .map(|event| match &event.kind {
            EventKind::Text { text } => (event.seq, text.as_str()),
            other => panic!("nobody wrote {other:?}"),
        })
        .collect();
    for line in lines {
        let (seq, text) = line.split_once(' ').unwrap();
        assert_eq!(texts.get(&seq.parse().unwrap()), Some(&text), "it was acknowledged");
    }
    sum.acknowledged += lines.len();
    // A run and its first entry, and its end and last entry: both or neither.
    let mut open: Vec<&str> = Vec::new();
    for event in &events {
        let Some((run, what)) = texts[&event.seq].split_once(' ') else { unreachable!() };
        match what {
            "begins" => open.push(run),
            "ends" => open.retain(|open| *open != run),
            _ => {}
        }
    }
    let unsettled = store.unfinished_runs(None).await.unwrap();
    let mut names: Vec<&str> = unsettled.iter().map(|run| run.id.as_str()).collect();
    names.sort_unstable();
    open.sort_unstable();
    assert_eq!(names, open);
    sum.unsettled += open.len();
    // What a start does.
    for run in &unsettled {
        let text = format!("{} ends", run.id);
        let end = store.end_run(
            &run.address(),
            claim(store, &run.session).await,
            RunOutcome::Interrupted,
            TokenUsage::default(),
            vec![text_event(text)],
        );
        assert!(end.await.unwrap().is_some());
    }
    assert_eq!(store.unfinished_runs(None).await.unwrap(), []);
    store.last_seq(&id).await.unwrap()
}

#[track_caller]
fn check_file(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let integrity: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(integrity, "ok");
    let mut keys = connection.prepare("PRAGMA foreign_key_check").unwrap();
    assert!(!keys.exists([]).unwrap());
}

/// The writing process and its output.
struct CrashWriterProcess {
    child: Child,
    /// Receives a message for each line of output.
    told: mpsc::Receiver<()>,
    reader: Option<std::thread::JoinHandle<Vec<String>>>,
}

impl CrashWriterProcess {
    /// Starts the process and waits until it writes.
    fn start(path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store_crash::sigkill_loses_no_acknowledged_write", "--nocapture"])
            .env(STORE_PATH_ENV, path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while line != "writing\n" {
            line.clear();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "the writer did not start");
        }
        let (tell, told) = mpsc::sync_channel(LINES_MIN);
        let reader = std::thread::spawn(move || {
            let mut lines = Vec::new();
            loop {
                let mut line = String::new();
                stdout.read_line(&mut line).unwrap();
                // The last line may be incomplete.
                let Some(whole) = line.strip_suffix('\n') else { return lines };
                lines.push(whole.to_owned());
                // Further messages are not needed if the channel is full.
                let _ = tell.try_send(());
            }
        });
        Self { child, told, reader: Some(reader) }
    }

    /// Waits until this many writes were acknowledged, without a time limit.
    fn wait_for_lines(&self, lines: usize) {
        assert_eq!(self.told.iter().take(lines).count(), lines, "the writer writes no more");
    }

    /// Kills the process and returns the acknowledged writes: sequence numbers and texts.
    fn kill(&mut self) -> Vec<String> {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), None, "it was killed while it wrote");
        self.reader.take().unwrap().join().unwrap()
    }
}

async fn write_until_killed(path: &Path) {
    let store = Arc::new(SqliteStore::open(path).unwrap());
    let id = session(&*store).await.id;
    println!("\nwriting");
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (store, id) = (Arc::clone(&store), id.clone());
        tasks.spawn(async move {
            // Bounded, in case the process is never killed.
            for n in 0..100_000 {
                let run = format!("r{}-{task}-{n}", std::process::id());
                write_run(&*store, &id, &run).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn write_run(store: &dyn Store, session: &SessionId, name: &str) {
    let tell = |events: Vec<zero_session::event::Event>| {
        for event in events {
            let EventKind::Text { text } = event.kind else { unreachable!() };
            println!("{} {text}", event.seq);
        }
    };
    let run = NewRun {
        id: RunId::new(name).unwrap(),
        session: session.clone(),
        node: "here".to_owned(),
        started_ms: 1,
        options: Default::default(),
        first: vec![text_event(format!("{name} begins"))],
    };
    let id = run.id.clone();
    let BeginRunOutcome::Started { events: first, claim } = store.begin_run(run).await.unwrap()
    else {
        unreachable!()
    };
    tell(first);
    for n in 0..5 {
        let entries = (0..n).map(|m| text_event(format!("{name} {n}.{m}"))).collect();
        tell(store.append(session, Some(claim), entries).await.unwrap());
    }
    let last = vec![text_event(format!("{name} ends"))];
    let ended = store
        .end_run(
            &RunAddress::new(session, &id),
            claim,
            RunOutcome::Completed,
            TokenUsage::default(),
            last,
        )
        .await
        .unwrap();
    tell(ended.unwrap());
}
