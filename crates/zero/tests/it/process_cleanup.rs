//! What zero starts ends with it, however it ends, and what it leaves is moved to quarantine.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::test_program::TestProgram;

/// How long anything may be left after zero is gone, on a machine with a lot to do. By itself it would
/// stay for days.
const CLEANUP_TIME_MAX: Duration = Duration::from_secs(30);

/// Whether a process is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Stopped,
    Other,
}

/// Processes that sleep for this many seconds, which no others do.
pub(crate) fn find_sleepers(seconds: u32) -> Vec<ProcessState> {
    let seconds = seconds.to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let sleeping = processes.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        words.first() == Some(&b"sleep".as_slice()) && words.contains(&seconds.as_bytes())
    });
    let state = |entry: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        if stat.contains(") T ") { ProcessState::Stopped } else { ProcessState::Other }
    };
    sleeping.map(state).collect()
}

#[track_caller]
fn wait_for(limit: Duration, what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < until, "{what} within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A zero that is killed, at the latest when its test fails.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A number of seconds that nobody else sleeps for, in this run of the tests or another.
pub(crate) fn unique_seconds(number: usize) -> u32 {
    std::process::id() * 100 + u32::try_from(number).unwrap()
}

/// Starts a command that has two sleepers, and waits until they are what they are to be.
fn start_command(
    zero: &TestProgram,
    command: &str,
    seconds: u32,
    state: ProcessState,
) -> KillOnDrop {
    let input = json!({"command": command.replace("SLEEP", &format!("sleep {seconds}"))});
    let mut child = zero.command(&["tools", "call", "Bash", &input.to_string(), "--yes"]);
    let child = KillOnDrop(child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_for(Duration::from_secs(60), command, || find_sleepers(seconds) == [state; 2]);
    child
}

#[test]
fn killed_zero_leaves_no_processes() {
    let zero = TestProgram::new();
    let commands = [
        ("SLEEP & SLEEP", ProcessState::Other),
        ("setsid SLEEP & setsid SLEEP & wait", ProcessState::Other),
        ("(setsid sh -c 'SLEEP & SLEEP &' &); read x </dev/zero", ProcessState::Other),
        ("trap '' TERM INT HUP QUIT; SLEEP & SLEEP & wait", ProcessState::Other),
        (
            "SLEEP & a=$!; SLEEP & for it in $a $!; do until grep -q sleep /proc/$it/comm; do :; done; \
             done; kill -STOP $a $!; kill -STOP $$; wait",
            ProcessState::Stopped,
        ),
    ];
    for (number, (command, state)) in commands.into_iter().enumerate() {
        let seconds = unique_seconds(number);
        drop(start_command(&zero, command, seconds, state));
        wait_for(CLEANUP_TIME_MAX, command, || find_sleepers(seconds).is_empty());
    }
    // What their sessions kept is swept by the next call.
    let tmp = zero.folder().join("home/.local/state/zero/tmp");
    let folders = || {
        let entries = std::fs::read_dir(&tmp).unwrap().flatten();
        entries.filter(|entry| entry.path().is_dir()).count()
    };
    assert!(folders() > 0, "a killed zero takes nothing away");
    zero.stdout(&["tools", "call", "LS", "{}"]);
    assert_eq!(folders(), 0);
}

#[test]
fn signal_that_ends_zero_leaves_no_forbidden_file() {
    let zero = TestProgram::new();
    let made = zero.folder().join(".envrc");
    let signals = [Signal::TERM, Signal::HUP, Signal::QUIT];
    for (number, signal) in signals.into_iter().enumerate() {
        let seconds = unique_seconds(20 + number);
        let command = "echo x > \"$(echo .envrc)\"; SLEEP & SLEEP";
        let mut child = start_command(&zero, command, seconds, ProcessState::Other);
        assert!(made.exists(), "{signal:?}");
        let pid = Pid::from_raw(child.0.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        child.0.wait().unwrap();
        assert!(!made.exists(), "{signal:?}");
    }
}

#[test]
fn quarantine_holds_across_processes() {
    let zero = TestProgram::new();
    let path = |name: &str| zero.folder().join(name);
    let start = |command: &str| {
        let input = json!({"command": command}).to_string();
        let mut child = zero.command(&["tools", "call", "Bash", &input, "--yes"]);
        KillOnDrop(child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    };
    let begin = "echo x > \"$(echo .envrc)\" && echo x > \"$(echo $N)\"; until test -e go$N; do sleep 0.02; done";
    let mut first = start(&format!("N=1; {begin}"));
    wait_for(CLEANUP_TIME_MAX, "the first command", || path("1").exists());
    // To the second command it looks as if the file had always been there.
    let again = "N=2; echo x > \"$(echo $N)\"; until test -e go$N; do sleep 0.02; done; echo x > \"$(echo .envrc)\" && echo x > again";
    let mut second = start(again);
    wait_for(CLEANUP_TIME_MAX, "the second command", || path("2").exists());
    std::fs::write(path("go1"), "").unwrap();
    first.0.wait().unwrap();
    assert!(!path(".envrc").exists());
    std::fs::write(path("go2"), "").unwrap();
    second.0.wait().unwrap();
    assert!(path("again").exists(), "it could create the file");
    assert!(!path(".envrc").exists());
}

#[test]
fn open_pipe_of_background_process_does_not_block() {
    let zero = TestProgram::new();
    for (number, command) in
        ["SLEEP & echo done", "(setsid SLEEP &); echo done"].into_iter().enumerate()
    {
        let seconds = unique_seconds(10 + number);
        let input = json!({"command": command.replace("SLEEP", &format!("sleep {seconds}"))});
        let begun = Instant::now();
        let stdout = zero.stdout(&["tools", "call", "Bash", &input.to_string(), "--yes"]);
        assert_eq!((stdout.as_str(), find_sleepers(seconds).len()), ("done\n", 0), "{command}");
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }
}

#[test]
fn spilled_output_can_be_read_in_full() {
    let zero = TestProgram::new();
    let input = r#"{"command": "seq 1 100000"}"#;
    let answer = zero.stdout(&["tools", "call", "Bash", input, "--yes", "--json"]);
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let file = &answer["result"]["structured"]["spill_file"];
    let input = json!({"file_path": file, "offset": 50_000, "limit": 1}).to_string();
    let page = zero.stdout(&["tools", "call", "Read", &input]);
    assert!(page.starts_with(" 50000\t50000\n"), "{page}");
}

#[test]
fn spilled_output_lives_as_long_as_its_session() {
    let zero = TestProgram::outside_tmp();
    let run = |prompt: &str| {
        let args = ["run", "--session", "s", "--yes", prompt];
        let output = zero.command(&args).env("PATH", "/usr/bin:/bin").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run("/bash seq 1 100000");
    let folder = zero.folder().join("home/.local/state/zero/spill-sessions");
    let files = || -> Vec<std::path::PathBuf> {
        let list = |folder: &std::path::Path| -> Vec<std::path::PathBuf> {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        list(&folder).iter().flat_map(|session| list(session)).collect()
    };
    let [file] = &files()[..] else { panic!("{:?}", files()) };
    // Another process continues the session.
    let page = run(&format!("/read {} 50000-50000", file.display()));
    assert!(page.contains("50000"), "{page}");
    zero.stdout(&["sessions", "delete", "--yes", "s"]);
    assert_eq!(files(), Vec::<std::path::PathBuf>::new());
}

#[test]
fn job_input_is_never_allowed_silently() {
    let zero = TestProgram::new();
    let check = |input: &str| -> Value {
        let output = zero.command(&["policy", "check", "BashOutput", input]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!(check(r#"{"job_id": "job_1"}"#)["decision"], "allow");
    for text in ["ls\n", "rm -rf /\n", "print(1)\n", ""] {
        let input = json!({"job_id": "job_1", "stdin": text}).to_string();
        let answer = check(&input);
        assert_ne!(answer["decision"], "allow", "{answer}");
    }
}
