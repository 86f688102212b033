//! Measures the memory of a process with 10,000 parked runs: it knows them as a gateway does at its
//! start, and lists their questions. Prints JSON.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement, not a program"
)]

use serde_json::json;
use zero_core::RunId;
use zero_core::event::{ApprovalOption, ApprovalRequest, ApprovalSubject};
use zero_session::event::EventKind;
use zero_session::key::SessionKey;
use zero_session::open_question::QuestionScope;
use zero_session::sqlite_store::SqliteStore;
use zero_session::store::{BeginRunOutcome, NewEvent, NewRun, NewSession, Store, ToolHostLocation};

const RUNS: usize = 10_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sessions.sqlite");
    if let Some(file) = std::env::args_os().nth(1) {
        return measure(std::path::Path::new(&file)).await;
    }
    let store = SqliteStore::open(&file).unwrap();
    for number in 0..RUNS {
        park_run(&store, number).await;
    }
    drop(store);
    // In another process, so that writing them does not count.
    let this = std::env::current_exe().unwrap();
    let measured = std::process::Command::new(this).arg(&file).output().unwrap();
    assert!(measured.status.success(), "{measured:?}");
    print!("{}", String::from_utf8(measured.stdout).unwrap());
}

async fn park_run(store: &SqliteStore, number: usize) {
    let session = NewSession {
        key: SessionKey::resolve(&format!("s{number}"), "main").unwrap(),
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
    let id = RunId::new(format!("run-{number}")).unwrap();
    let event = |kind| NewEvent { run: Some(id.clone()), time_ms: 1, kind };
    let first = EventKind::Prompt { text: "go".to_owned(), attachments: Vec::new() };
    let run = NewRun {
        id: id.clone(),
        session: session.clone(),
        node: String::new(),
        started_ms: 1,
        options: Default::default(),
        first: vec![event(first)],
    };
    let begun = store.begin_run(run).await.unwrap();
    let BeginRunOutcome::Started { claim, .. } = begun else { panic!("{begun:?}") };
    let asked = EventKind::ApprovalRequested(request(number));
    store.append(&session, Some(claim), vec![event(asked)]).await.unwrap();
    store.release_claim(&session, claim).await.unwrap();
}

fn request(number: usize) -> ApprovalRequest {
    ApprovalRequest {
        id: format!("ask_{number:032x}"),
        subject: ApprovalSubject::Call,
        call: format!("call_{number}"),
        tool: "Bash".to_owned(),
        title: "Run `cargo publish`".to_owned(),
        reason: "no rule allows `cargo publish`".to_owned(),
        risk: "high".to_owned(),
        commands: vec!["cargo publish".to_owned()],
        effects: Vec::new(),
        preview: None,
        input: None,
        options: vec![ApprovalOption {
            id: "allow_once".to_owned(),
            name: "Allow once".to_owned(),
        }],
        cwd: "/home/me/project".to_owned(),
        expires_ms: 0,
        subagent: None,
    }
}

async fn measure(file: &std::path::Path) {
    let before = resident_bytes();
    let store = SqliteStore::open(file).unwrap();
    let unfinished = store.unfinished_runs(None).await.unwrap();
    assert_eq!(unfinished.iter().filter(|run| run.has_open_question).count(), RUNS);
    let listed = store.open_questions(QuestionScope::All).await.unwrap();
    assert!(!listed.is_empty());
    let bytes = resident_bytes().saturating_sub(before);
    println!("{}", json!({ "questions": RUNS, "bytes": bytes }));
}

/// Resident memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}
