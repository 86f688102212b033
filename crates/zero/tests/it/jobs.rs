//! Background jobs that go on after the command that started them, and `zero jobs`.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::process_cleanup::{find_sleepers, unique_seconds};
use crate::test_program::TestProgram;

/// How long anything may be left after it was ended, on a machine with a lot to do.
const CLEANUP_TIME_MAX: Duration = Duration::from_secs(30);

#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + CLEANUP_TIME_MAX;
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Jobs of a program, which are killed at the latest when its test fails.
struct JobsGuard<'a>(&'a TestProgram);

impl Drop for JobsGuard<'_> {
    fn drop(&mut self) {
        for job in list(self.0) {
            let _ = self.0.command(&["jobs", "kill", job["job_id"].as_str().unwrap()]).output();
        }
    }
}

fn list(zero: &TestProgram) -> Vec<Value> {
    let listed: Value = serde_json::from_str(&zero.stdout(&["jobs", "list", "--json"])).unwrap();
    listed["jobs"].as_array().unwrap().clone()
}

/// The structured result of a call.
fn call(zero: &TestProgram, tool: &str, input: &Value) -> Value {
    let printed = zero.stdout(&["tools", "call", tool, &input.to_string(), "--yes", "--json"]);
    let printed: Value = serde_json::from_str(&printed).unwrap();
    printed["result"]["structured"].clone()
}

/// The processes that hold jobs.
fn holders(zero: &TestProgram) -> usize {
    let folder = zero.folder().join("home/.local/state/zero/job-holders");
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

/// The process that holds a job: it has the command line of the call that started the job.
fn find_holder(mark: &str) -> Pid {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut found = processes.filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let is_it = line.contains("run_in_background") && line.contains(mark);
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(pid).filter(|_| is_it)
    });
    let holder = found.next().unwrap();
    assert_eq!(found.next(), None, "the first process has ended");
    holder
}

#[test]
fn job_of_single_call_outlives_it_and_is_read_and_killed_later() {
    let zero = TestProgram::new();
    let _guard = JobsGuard(&zero);
    let seconds = unique_seconds(60);
    let command = format!("echo begun; read x; echo got $x; sleep {seconds}");
    let started = call(&zero, "Bash", &json!({"command": command, "run_in_background": true}));
    assert_eq!(started["job_id"], "job_1");
    assert_eq!(started["exit_code"], Value::Null);

    let jobs = list(&zero);
    assert_eq!((jobs.len(), &jobs[0]["status"]), (1, &json!("running")), "{jobs:?}");
    let folder = zero.folder().canonicalize().unwrap();
    assert_eq!(jobs[0]["workspace"], folder.to_str().unwrap());

    let input = json!({"job_id": "job_1", "wait_ms": 60_000});
    let read = call(&zero, "BashOutput", &input);
    assert_eq!(read["stdout"], "begun\n", "{read}");
    let input = json!({"job_id": "job_1", "stdin": "it\n", "wait_ms": 60_000});
    let read = call(&zero, "BashOutput", &input);
    assert_eq!(read["stdout"], "got it\n", "only what is new: {read}");
    wait_for("the sleeper", || find_sleepers(seconds).len() == 1);
    assert_eq!(zero.stdout(&["jobs", "output", "job_1"]), "begun\ngot it\n");
    let listed = zero.stdout(&["jobs"]);
    assert!(listed.contains("job_1") && listed.contains("running"), "{listed}");

    assert_eq!(zero.stdout(&["jobs", "kill", "1"]), "killed `job_1`\n");
    let listed = zero.stdout(&["jobs"]);
    assert!(listed.contains(" killed ") && !listed.contains("signal"), "{listed}");
    assert!(find_sleepers(seconds).is_empty());
    wait_for("the holder ends with its last job", || holders(&zero) == 0);
    let killed = call(&zero, "BashKill", &json!({"job_id": "job_1"}));
    assert_eq!(killed["killed"], false);
    let shown: Value =
        serde_json::from_str(&zero.stdout(&["jobs", "show", "job_1", "--json"])).unwrap();
    assert_eq!((&shown["status"], &shown["signal"]), (&json!("exited"), &json!(9)), "{shown}");
    assert_eq!(list(&zero).len(), 1);
    for args in [&["jobs", "list", "--running"][..], &["jobs", "--running"]] {
        assert_eq!(zero.stdout(args), "no jobs\n");
    }

    let rows = zero.stdout(&["audit", "tail", "--json", "-n", "100"]);
    let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    let start = rows.iter().find(|row| row["tool"] == "Bash").unwrap();
    let end = rows.iter().find(|row| row["tool"] == "job").unwrap();
    assert_eq!((&end["status"], &end["job"]["of_call"]), (&json!("cancelled"), &start["call"]));
    zero.stdout(&["audit", "verify"]);
}

#[test]
fn ended_job_can_be_read_without_its_holder() {
    let zero = TestProgram::new();
    let _guard = JobsGuard(&zero);
    call(&zero, "Bash", &json!({"command": "echo done; exit 5", "run_in_background": true}));
    wait_for("the holder ends with its last job", || holders(&zero) == 0);
    let read = call(&zero, "BashOutput", &json!({"job_id": "job_1"}));
    let expected = json!("done\n");
    assert_eq!((&read["stdout"], &read["jobs"][0]["exit_code"]), (&expected, &json!(5)));
    let again = call(&zero, "BashOutput", &json!({"job_id": "job_1"}));
    assert_eq!(again["stdout"], "", "it was read");
    assert_eq!(zero.stdout(&["jobs", "output", "job_1", "--follow"]), "done\n");
    // Calls in another folder do not reach it.
    std::fs::create_dir(zero.folder().join("other")).unwrap();
    let seen =
        zero.run(&["tools", "call", "BashOutput", r#"{"job_id":"job_1"}"#, "--workspace", "other"]);
    assert!(seen.contains("there is no job `job_1`"), "{seen}");
    let seen = zero.run(&["jobs", "show", "job_9"]);
    assert!(seen.starts_with("exit 2\n") && seen.contains("there is no job"), "{seen}");
}

#[test]
fn killed_holder_leaves_no_process_and_says_so() {
    let zero = TestProgram::new();
    let _guard = JobsGuard(&zero);
    let seconds = unique_seconds(61);
    let command = format!("sleep {seconds}");
    call(&zero, "Bash", &json!({"command": command, "run_in_background": true}));
    wait_for("the sleeper", || find_sleepers(seconds).len() == 1);
    let holder = find_holder(&command);
    kill_process(holder, Signal::KILL).unwrap();
    wait_for("nothing is left", || find_sleepers(seconds).is_empty());
    wait_for("the job has ended", || list(&zero)[0]["status"] == "exited");
    let job = &list(&zero)[0];
    assert_eq!((&job["exit_code"], &job["signal"]), (&Value::Null, &Value::Null));
    assert!(job["notes"][0].as_str().unwrap().contains("was killed"), "{job}");
}

#[test]
fn job_of_session_is_reached_in_next_turn() {
    let zero = TestProgram::new();
    let _guard = JobsGuard(&zero);
    let seconds = unique_seconds(62);
    let run =
        |session: &str, prompt: &str| zero.run(&["run", "--yes", "--session", session, prompt]);
    let input =
        json!({"command": format!("echo begun; sleep {seconds}"), "run_in_background": true});
    let seen = run("s", &format!("/Bash {input}"));
    assert!(seen.starts_with("exit 0\n") && seen.contains("job_1"), "{seen}");
    assert!(seen.contains("job_1 still runs in the background"), "{seen}");
    wait_for("the sleeper", || find_sleepers(seconds).len() == 1);
    let seen = run("s", r#"/BashOutput {"job_id":"job_1","wait_ms":60000}"#);
    assert!(seen.contains("begun") && seen.contains("job_1 running"), "{seen}");
    let seen = run("other", r#"/BashOutput {"job_id":"job_1"}"#);
    assert!(seen.contains("there is no job `job_1`"), "{seen}");
    // A job of the second turn has an id of its own.
    let seen = run("s", &format!("/Bash {input}"));
    assert!(seen.contains("job_2"), "{seen}");
    let seen = run("s", r#"/BashKill {"job_id":"job_1"}"#);
    assert!(seen.contains("Ended `job_1`"), "{seen}");
    wait_for("one sleeper", || find_sleepers(seconds).len() == 1);
    let shown = zero.stdout(&["jobs", "show", "job_1"]);
    assert!(shown.contains("session    s\n"), "its name, not its id: {shown}");
    // A session takes its jobs with it.
    zero.stdout(&["sessions", "delete", "s", "--yes"]);
    assert!(find_sleepers(seconds).is_empty());
    wait_for("the holders end with their last job", || holders(&zero) == 0);
}

#[test]
fn reset_ends_jobs_of_session() {
    let zero = TestProgram::new();
    let _guard = JobsGuard(&zero);
    let seconds = unique_seconds(63);
    let input = json!({"command": format!("sleep {seconds}"), "run_in_background": true});
    let seen = zero.run(&["run", "--yes", "--session", "s", &format!("/Bash {input}")]);
    assert!(seen.starts_with("exit 0\n"), "{seen}");
    wait_for("the sleeper", || find_sleepers(seconds).len() == 1);
    zero.stdout(&["sessions", "reset", "s"]);
    assert!(find_sleepers(seconds).is_empty());
    wait_for("the holder ends with its last job", || holders(&zero) == 0);
}

#[test]
fn job_that_creates_forbidden_file_is_killed_and_file_moved() {
    let zero = TestProgram::new();
    let _guard = JobsGuard(&zero);
    let made = zero.folder().join(".envrc");
    let command = "read x; echo x > \"$(echo .envrc)\"; echo made; read x";
    call(&zero, "Bash", &json!({"command": command, "run_in_background": true}));
    let input = json!({"job_id": "job_1", "stdin": "go\n", "wait_ms": 60_000});
    let read = call(&zero, "BashOutput", &input);
    assert_eq!(read["stdout"], "made\n", "{read}");
    wait_for("the job has ended", || list(&zero)[0]["status"] == "exited");
    assert!(!made.exists());
    let shown = zero.stdout(&["jobs", "show", "job_1"]);
    assert!(shown.contains("quarantine") && shown.contains("the job was killed"), "{shown}");
}
