//! Processes killed in the middle of a change.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use zero_core::ToolCall;
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{Dialect, DialectName, ToolHost};
use zero_sandbox::ChangeState;
use zero_sandbox::journal::UndoConflictPolicy;

use crate::fixture::host_in;

const KILLS: u32 = 1_000;
/// Environment variable of the writer process: the folder to write in.
const WRITER_FOLDER_VARIABLE: &str = "ZERO_TEST_WRITE_IN";
/// The lines that the writer prints.
const READY_LINE: &str = "writing";
const WROTE_LINE: &str = "wrote";
/// The writer is killed after one to this many writes.
const WRITES_MAX: u64 = 4;
/// Longest duration assumed for a write: a stall of the machine says nothing about the next write.
const WRITE_TIME_MAX: Duration = Duration::from_millis(100);
const FILES: [(&str, usize); 3] =
    [("small.txt", 1), ("middle.txt", 400), ("deep/large.txt", 8_000)];

/// Returns the content of a file at a version. It differs from all others, also if torn.
fn versioned_content(version: u64, lines: usize) -> String {
    format!("{version:>8}\n").repeat(lines)
}

/// Returns the version of a file, or 0 if it does not exist. Panics if it is torn.
#[track_caller]
fn read_version(folder: &Path, (name, lines): (&str, usize)) -> u64 {
    let Ok(found) = std::fs::read_to_string(folder.join("work").join(name)) else { return 0 };
    let version =
        found.lines().next().and_then(|line| line.trim().parse().ok()).expect("a version");
    assert!(found == versioned_content(version, lines), "{name} is torn at version {version}");
    version
}

/// The test runs itself again as the process that is killed: see [`WRITER_FOLDER_VARIABLE`].
#[tokio::test]
async fn sigkill_leaves_old_or_new_content_and_undo() {
    if let Some(folder) = std::env::var_os(WRITER_FOLDER_VARIABLE) {
        return write_until_killed(&host_in(Path::new(&folder)), Path::new(&folder)).await;
    }
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path();
    std::fs::create_dir(folder.join("work")).unwrap();
    let mut random = random_numbers(7);
    let (mut undone, mut recovered) = (0, 0);
    for kill in 0..KILLS {
        let mut writer = WriterProcess::start(folder);
        writer.wait_for_writes(random() % WRITES_MAX);
        // At some point during the next write, however long that takes here.
        let one = u64::try_from(writer.one_took.as_micros()).unwrap();
        std::thread::sleep(Duration::from_micros(random() % (one + 1)));
        writer.kill();

        let host = host_in(folder);
        let versions: Vec<u64> = FILES.iter().map(|file| read_version(folder, *file)).collect();
        recovered += host.journal().recover().unwrap();
        assert_eq!(
            leftover_files(&folder.join("work")),
            Vec::<PathBuf>::new(),
            "after kill {kill}"
        );
        // Now and then, undo the last complete change.
        if kill % 5 == 0
            && let Some(newest) = host.journal().newest_undoable().unwrap()
        {
            assert_eq!(newest.state, ChangeState::Applied);
            let at =
                FILES.iter().position(|(name, _)| newest.path == *name).expect("one of our files");
            host.journal().undo(newest.id, UndoConflictPolicy::Refuse).unwrap();
            assert_eq!(read_version(folder, FILES[at]), versions[at] - 1, "after kill {kill}");
            undone += 1;
        }
    }
    assert!(undone > 100, "the writer got to write: {undone}");
    assert!(recovered > 10, "some kills hit a change under way: {recovered}");
}

/// The process that writes.
struct WriterProcess {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Duration of the last write that was waited for.
    one_took: Duration,
}

impl WriterProcess {
    /// Starts it, and waits until it writes.
    fn start(folder: &Path) -> Self {
        let test = "crash::sigkill_leaves_old_or_new_content_and_undo";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(WRITER_FOLDER_VARIABLE, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut writer = Self { child, stdout, one_took: Duration::ZERO };
        writer.wait_for_line(READY_LINE);
        writer
    }

    fn wait_for_line(&mut self, word: &str) {
        let (begun, mut line) = (Instant::now(), String::new());
        while !line.contains(word) {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the writer did not say {word}");
        }
        self.one_took = begun.elapsed().min(WRITE_TIME_MAX);
    }

    /// Waits for one write and then so many more.
    fn wait_for_writes(&mut self, count: u64) {
        for _ in 0..=count {
            self.wait_for_line(WROTE_LINE);
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

async fn write_until_killed(host: &ToolHost, folder: &Path) {
    let session = host.open_one_shot_session().unwrap();
    let dialect = Dialect::new(DialectName::Canonical);
    println!("\n{READY_LINE}");
    // Bounded, in case the process is not killed.
    for round in 0..10_000 {
        let (name, lines) = FILES[round % FILES.len()];
        let next = read_version(folder, (name, lines)) + 1;
        let input = json!({"file_path": name, "content": versioned_content(next, lines)});
        let call = ToolCall {
            id: new_call_id(),
            session: None,
            tool: "Write".into(),
            input,
            timeout: None,
        };
        host.call(&session, &dialect, call, &Default::default()).await.outcome.unwrap();
        println!("{WROTE_LINE}");
    }
}

/// Returns files below `folder` that the test did not write.
fn leftover_files(folder: &Path) -> Vec<PathBuf> {
    let mut strays = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            strays.extend(self::leftover_files(&path));
        } else if !FILES.iter().any(|(name, _)| path.ends_with(name)) {
            strays.push(path);
        }
    }
    strays
}

/// A small random number generator, so that a failure can be reproduced.
fn random_numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}
