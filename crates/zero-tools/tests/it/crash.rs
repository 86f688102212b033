//! Processes killed in the middle of a change.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use zero_core::ToolCall;
use zero_runtime::host::new_call_id;
use zero_runtime::{Dialect, DialectName, ToolHost};
use zero_sandbox::EntryState;
use zero_sandbox::journal::Conflicts;

use crate::fixture::host_in;

const KILLS: u32 = 1_000;
/// Set in the process that writes until it is killed: the folder to write in.
const WRITE_IN: &str = "ZERO_TEST_WRITE_IN";
const FILES: [(&str, usize); 3] =
    [("small.txt", 1), ("middle.txt", 400), ("deep/large.txt", 8_000)];

/// The content of a file at a version; it can be told from every other, whole or torn.
fn content(version: u64, lines: usize) -> String {
    format!("{version:>8}\n").repeat(lines)
}

/// The version a file holds; 0 when it is not there. Panics when it is torn.
#[track_caller]
fn version(folder: &Path, (name, lines): (&str, usize)) -> u64 {
    let Ok(found) = std::fs::read_to_string(folder.join("work").join(name)) else { return 0 };
    let version =
        found.lines().next().and_then(|line| line.trim().parse().ok()).expect("a version");
    assert!(found == content(version, lines), "{name} is torn at version {version}");
    version
}

/// The test is run a second time as the process that is killed: see [`WRITE_IN`].
#[tokio::test]
async fn kill_dash_nine_leaves_old_or_new_and_a_way_back() {
    if let Some(folder) = std::env::var_os(WRITE_IN) {
        return write_until_killed(&host_in(Path::new(&folder)), Path::new(&folder)).await;
    }
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    std::fs::create_dir(folder.join("work")).unwrap();
    let mut random = generator(7);
    let (mut undone, mut recovered) = (0, 0);
    for kill in 0..KILLS {
        let mut child = writer(folder);
        std::thread::sleep(Duration::from_micros(random() % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();

        let host = host_in(folder);
        let versions: Vec<u64> = FILES.iter().map(|file| version(folder, *file)).collect();
        recovered += host.journal().recover().unwrap();
        assert_eq!(strays(&folder.join("work")), Vec::<PathBuf>::new(), "after kill {kill}");
        // The way back, now and then, from whatever the last complete change was.
        if kill % 5 == 0
            && let Some(newest) = host.journal().newest().unwrap()
        {
            assert_eq!(newest.state, EntryState::Applied);
            let at =
                FILES.iter().position(|(name, _)| newest.path == *name).expect("one of our files");
            host.journal().undo(newest.id, Conflicts::Refuse).unwrap();
            assert_eq!(version(folder, FILES[at]), versions[at] - 1, "after kill {kill}");
            undone += 1;
        }
    }
    assert!(undone > 100, "the writer got to write: {undone}");
    assert!(recovered > 10, "some kills hit a change under way: {recovered}");
}

/// Starts the process that writes, and waits until it does.
fn writer(folder: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::kill_dash_nine_leaves_old_or_new_and_a_way_back", "--nocapture"])
        .env(WRITE_IN, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap().take(10_000));
    while !line.contains("writing") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "the writer did not start");
    }
    child
}

async fn write_until_killed(host: &ToolHost, folder: &Path) {
    let session = host.one_shot().unwrap();
    let dialect = Dialect::new(DialectName::Canonical);
    println!("\nwriting");
    // Bounded, should nobody come to kill it.
    for round in 0..10_000 {
        let (name, lines) = FILES[round % FILES.len()];
        let next = version(folder, (name, lines)) + 1;
        let input = json!({"file_path": name, "content": content(next, lines)});
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: "Write".into(),
            input,
            timeout: None,
        };
        host.call(&session, &dialect, call, &Default::default()).await.outcome.unwrap();
    }
}

/// Files beneath `folder` that are none of ours.
fn strays(folder: &Path) -> Vec<PathBuf> {
    let mut strays = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            strays.extend(self::strays(&path));
        } else if !FILES.iter().any(|(name, _)| path.ends_with(name)) {
            strays.push(path);
        }
    }
    strays
}

/// A small generator, so that a failure can be repeated.
fn generator(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}
