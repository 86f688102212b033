//! Commands through the tool host: their results, jobs, timeouts and processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{
    CallUsage, CommandExecution, Effect, Effects, ErrorReason, ErrorType, HostLimits, SessionId,
    ToolCall, ToolError,
};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    CallContext, CallDescription, CallEvent, CallEventObserver, CommandRequest, CommandSettings,
    Dialect, DialectName, StreamMode, TimeoutAction, Tool, ToolHostSessionConfig, ToolInfo,
    ToolReply, erase,
};
use zero_sandbox::Workspace;

use crate::fixture::{ToolFixture, command_facts, result_text};

impl ToolFixture {
    /// Runs a line in a shell, and returns the text for the model.
    async fn run_bash(&self, command: &str) -> String {
        result_text(&self.call("Bash", json!({"command": command})).await.unwrap())
    }

    /// Runs a command, and returns the structured output.
    async fn run_structured(&self, input: Value) -> Value {
        command_facts(self.call("Bash", input).await.unwrap())
    }
}

/// Longer than anything here takes on a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);

/// A timeout that no command here reaches by itself.
const TIMEOUT_MS: u64 = 500_000;

/// Waits for an event, then lets [`TIMEOUT_MS`] pass.
async fn pass_timeout_after(has_happened: impl AsyncFn() -> bool) {
    wait_until(has_happened).await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(TIMEOUT_MS)).await;
    tokio::time::resume();
}

/// Shell code that waits until everything written so far was read, since two streams have no order
/// between them.
const WAIT_UNTIL_READ: &str = "until python3 -c 'import fcntl, termios, sys\n\
    sys.exit(any(any(fcntl.ioctl(fd, termios.FIONREAD, bytes(4))) for fd in (1, 2)))'; do :; done";

/// Returns a duration for `sleep` that no other test uses, nor another run of the same test.
fn unique_sleep(seconds: u32) -> String {
    format!("{seconds}.{}", std::process::id())
}

/// Waits until a condition holds.
async fn wait_until(what: impl AsyncFn() -> bool) {
    let deadline = Instant::now() + LONG_TIMEOUT;
    while !what().await {
        assert!(Instant::now() < deadline, "it does not happen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns whether `sleep` runs with this duration. The arguments of its shell contain it earlier.
fn is_sleeping(duration: &str) -> bool {
    let command = format!("sleep\0{duration}\0");
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == command.as_bytes())
    })
}

/// Returns whether a process exists whose arguments contain this text.
fn is_running(text: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let args: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        args.first() == Some(&b"sleep".as_slice()) && args.contains(&text.as_bytes())
    })
}

#[tokio::test]
async fn resources_of_commands_are_counted() {
    let f = ToolFixture::one_shot();
    let work =
        "x=$(head -c 20000000 /dev/zero | tr '\\0' x); i=0; while ((i++ < 20000)); do :; done";
    f.call("Bash", json!({"command": work})).await.unwrap();
    // The kernel's own count of the same shell; it is zero where the folder is in memory.
    let write = "head -c 2000000 /dev/zero > out; \
        while read -r name count; do [[ $name != write_bytes: ]] || echo $count; done < /proc/$$/io";
    let written: u64 = f.run_bash(write).await.trim().parse().unwrap();
    let usage = f.host.metrics().tools()["Bash"].usage;
    assert_eq!(usage.commands, 2, "{usage:?}");
    assert!(usage.cpu_us >= 10_000, "{usage:?}");
    assert!(usage.memory_bytes >= 15_000_000, "{usage:?}");
    assert!(usage.written_bytes + 512 > written, "{usage:?} {written}");
    f.call("Glob", json!({"pattern": "*"})).await.unwrap();
    assert_eq!(f.host.metrics().tools()["Glob"].usage, CallUsage::default());
}

#[tokio::test]
async fn bash_returns_output_and_exit_code() {
    let f = ToolFixture::one_shot();
    let in_turns =
        format!("printf a; {WAIT_UNTIL_READ}; printf b >&2; {WAIT_UNTIL_READ}; printf c");
    #[rustfmt::skip]
    let rows = [
        ("echo hi", "hi\n", "", 0, "hi\n"),
        ("true", "", "", 0, "(no output)"),
        ("exit 3", "", "", 3, "(exit code 3)"),
        ("false", "", "", 1, "(exit code 1)"),
        ("echo oops >&2; exit 2", "", "oops\n", 2, "oops\n(exit code 2)"),
        (in_turns.as_str(), "ac", "b", 0, "abc"),
        ("no-such-program-zero", "", "bash: line 1: no-such-program-zero: command not found\n", 127,
         "bash: line 1: no-such-program-zero: command not found\n(exit code 127)"),
        ("printf '\\033[31mred\\033[0m\\n'", "red\n", "", 0, "red\n"),
        ("printf '1%%\\r2%%\\r100%%\\n'", "100%\n", "", 0, "100%\n"),
        ("printf 'a\\377b'", "a\u{fffd}b", "", 0, "a\u{fffd}b"),
        ("cat", "", "", 0, "(no output)"),
        ("read x || echo closed", "closed\n", "", 0, "closed\n"),
        ("trap 'echo mine' EXIT; exit 4", "mine\n", "", 4, "mine\n(exit code 4)"),
        ("echo $# $0 $*", "0 bash\n", "", 0, "0 bash\n"),
        ("set -eu; false; echo not here", "", "", 1, "(exit code 1)"),
        ("-x", "", "bash: line 1: -x: command not found\n", 127,
         "bash: line 1: -x: command not found\n(exit code 127)"),
        ("cat <<E\nhere\nE", "here\n", "", 0, "here\n"),
        ("set -x; exit 4", "", "++ exit 4\n", 4, "++ exit 4\n(exit code 4)"),
        ("echo \"$TERM $PAGER\"; tty >/dev/null && echo tty", "dumb cat\n", "", 1,
         "dumb cat\n(exit code 1)"),
    ];
    for (command, stdout, stderr, code, text) in rows {
        let outcome = f.call("Bash", json!({"command": command})).await.unwrap();
        let expected = json!({"stdout": stdout, "stderr": stderr, "exit_code": code});
        assert_eq!(outcome.result.structured, expected, "{command}");
        assert_eq!(result_text(&outcome), text, "{command}");
    }
}

#[tokio::test]
async fn syntax_error_hides_shell_wrapper() {
    let f = ToolFixture::one_shot();
    let facts = f.run_structured(json!({"command": "echo a; | b"})).await;
    let stderr = facts["stderr"].as_str().unwrap();
    assert!(stderr.contains("syntax error") && !stderr.contains("_zero"), "{stderr}");
    assert_ne!(facts["exit_code"], 0);
}

#[tokio::test]
async fn signal_is_named() {
    let f = ToolFixture::one_shot();
    let facts = f.run_structured(json!({"command": "kill -SEGV $$"})).await;
    assert_eq!((&facts["signal"], &facts["exit_code"]), (&json!("SIGSEGV"), &json!(139)));
}

#[tokio::test]
async fn program_arguments_are_passed_verbatim() {
    let f = ToolFixture::one_shot();
    let facts =
        f.run_structured(json!({"command": "printf", "args": ["%s|", "$HOME", "a b", "*"]})).await;
    assert_eq!(facts["stdout"], "$HOME|a b|*|");
    let error = f.call("Bash", json!({"command": "no-such-zero", "args": []})).await.unwrap_err();
    assert_eq!(error.error_type, ErrorType::NotFound);
    assert!(error.message.starts_with("program `no-such-zero` was not found"), "{error}");
}

#[tokio::test]
async fn terminal_is_allocated_on_request() {
    let f = ToolFixture::one_shot();
    let facts = f
        .run_structured(json!({"command": "tty >/dev/null && echo $TERM; cat; cat", "tty": true}))
        .await;
    assert_eq!((&facts["stdout"], &facts["exit_code"]), (&json!("xterm-256color\n"), &json!(0)));
}

#[tokio::test]
async fn colors_are_shown_to_user_not_model() {
    let f = ToolFixture::one_shot();
    let input = json!({"command": "printf '\\033[31mred\\033[0m'"});
    let outcome = f.call("Bash", input).await.unwrap();
    assert_eq!(result_text(&outcome), "red");
    assert_eq!(outcome.rendered.display["text"], "\u{1b}[31mred\u{1b}[0m");
}

#[tokio::test]
async fn working_folder_carries_over_within_workspace() {
    let f = ToolFixture::session();
    f.write_file("src/deep/x", "").write_file("other/x", "");
    let root = f.path("").canonicalize().unwrap();
    let at = |name: &str| format!("{}\n", root.join(name).display());
    assert_eq!(f.run_bash("cd src").await, "(now in `src`)");
    assert_eq!(f.run_structured(json!({"command": "pwd"})).await["stdout"], at("src"));
    // Whatever the exit code, and with symlinks resolved.
    let facts = f.run_structured(json!({"command": "cd deep; exit 7"})).await;
    assert_eq!((&facts["cwd"], &facts["exit_code"]), (&json!("src/deep"), &json!(7)));
    // A subshell does not change the folder, and a `cwd` applies to its call only.
    assert_eq!(f.run_bash("(cd /); exit 0").await, "(no output)");
    let facts = f.run_structured(json!({"command": "pwd", "cwd": "other"})).await;
    assert_eq!((&facts["stdout"], &facts["cwd"]), (&json!(at("other")), &Value::Null));
    assert_eq!(f.run_bash("pwd").await, at("src/deep"));
    let facts = f.run_structured(json!({"command": "cd /; echo out"})).await;
    assert_eq!((&facts["stdout"], &facts["cwd"]), (&json!("out\n"), &json!(".")));
    let note = facts["notes"][0].as_str().unwrap();
    assert!(note.starts_with("the shell ended in `/`, which is outside the workspace"), "{note}");
    let root_line = format!("{}\n", root.display());
    assert_eq!(f.run_structured(json!({"command": "pwd"})).await["stdout"], root_line);
    // A folder that was deleted is forgotten.
    f.run_bash("cd other").await;
    std::fs::remove_dir_all(f.path("other")).unwrap();
    assert_eq!(f.run_structured(json!({"command": "pwd"})).await["stdout"], root_line);
}

#[tokio::test]
async fn one_shot_calls_keep_no_folder() {
    let f = ToolFixture::one_shot();
    f.write_file("src/x", "");
    assert_eq!(f.run_bash("cd src").await, "(no output)");
    let root = f.path("").canonicalize().unwrap();
    assert_eq!(f.run_bash("pwd").await, format!("{}\n", root.display()));
}

#[tokio::test]
async fn folder_must_be_a_directory() {
    let f = ToolFixture::one_shot();
    f.write_file("file", "");
    let error = f.call_error("Bash", json!({"command": "pwd", "cwd": "file"})).await;
    assert_eq!(error, "not_directory: `file` is a file; name a folder");
    let error = f.call_error("Bash", json!({"command": "pwd", "cwd": "none"})).await;
    assert!(error.starts_with("io: `none` does not exist"), "{error}");
    let error = f.call_error("Bash", json!({"command": "  "})).await;
    assert_eq!(error, "schema_violation: `command` is empty; say what to run");
}

#[tokio::test]
async fn nul_byte_is_refused_by_field() {
    let f = ToolFixture::one_shot();
    let nul = "contains a NUL character, which cannot be passed to a program; remove it";
    let name = "is not a variable name: it is empty, or contains `=` or NUL";
    #[rustfmt::skip]
    let rows = [
        (json!({"command": "a\0b"}), format!("`command` {nul}")),
        (json!({"command": "a", "args": ["b", "\0"]}), format!("`args/1` {nul}")),
        (json!({"command": "a", "env": {"A": "\0"}}), format!("`env/A` {nul}")),
        (json!({"command": "a", "env": {"A=B": ""}}), format!("`env/A=B` {name}")),
        (json!({"command": "a", "env": {"": ""}}), format!("`env/` {name}")),
    ];
    for (input, expected) in rows {
        let error = f.call_error("Bash", input).await;
        assert_eq!(error, format!("schema_violation: {expected}"));
    }
    #[rustfmt::skip]
    let rows = [
        (json!({"args": ["a"]}), "/command"),
        (json!({"command": "a", "timeout": 0}), "/timeout"),
        (json!({"command": "a", "timeout": 600_001}), "/timeout"),
        (json!({"command": "a", "cmd": "b"}), "/cmd"),
        (json!({"command": "a", "env": {"A": 1}}), "/env/A"),
    ];
    for (input, field) in rows {
        let error = f.call_error("Bash", input).await;
        assert!(error.contains(&format!("- {field}: ")), "{error}");
    }
}

#[tokio::test]
async fn long_command_line_is_accepted() {
    let f = ToolFixture::one_shot();
    let line = format!("printf %s '{}€' | wc -c", "x".repeat(1_000_000));
    assert_eq!(f.run_bash(&line).await.trim(), "1000003");
    let line = format!("echo '{}'", "x".repeat(7_000_000));
    let error = f.call_error("Bash", json!({"command": line})).await;
    let expected = "too_large: the arguments and the environment are larger than the kernel accepts; give long text \
                    through standard input or a file";
    assert!(error.starts_with(expected), "{error}");
}

#[tokio::test]
async fn environment_contains_no_secrets() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let settings = CommandSettings {
        environment: vec![
            pair("PATH", "/usr/bin:/bin"),
            pair("HOME", "/home/me"),
            pair("OPENAI_API_KEY", "s3cret"),
            pair("SSH_AUTH_SOCK", "/tmp/agent"),
            pair("MY_FLAG", "1"),
            pair("MY_TOKEN", "s3cret"),
        ],
        environment_allowed: vec!["MY_*".to_owned()],
        ..CommandSettings::default()
    };
    let f = ToolFixture::with_commands(settings);
    let facts = f.run_structured(json!({"command": "env", "env": {"MINE": "yes"}})).await;
    let seen = facts["stdout"].as_str().unwrap();
    let mut names: Vec<&str> = seen.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    let shell_own = ["OLDPWD", "PWD", "SHLVL", "_"];
    names.retain(|name| !shell_own.contains(name));
    let expected =
        ["GIT_PAGER", "GIT_TERMINAL_PROMPT", "HOME", "MINE", "MY_FLAG", "PAGER", "PATH", "TERM"];
    // Package managers have caches of their own.
    let caches = ["BUNDLE_USER_CACHE", "GEM_HOME", "GEM_SPEC_CACHE", "GOCACHE", "PIP_CACHE_DIR"];
    let caches =
        [&caches[..], &["TMPDIR", "UV_CACHE_DIR", "UV_TOOL_DIR", "npm_config_cache"]].concat();
    let mut expected = [&expected[..], &caches].concat();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(!seen.contains("s3cret") && seen.contains("MINE=yes"), "{seen}");
}

#[tokio::test]
async fn temp_files_live_as_long_as_session() {
    let f = ToolFixture::session();
    f.run_bash("echo kept >$TMPDIR/x").await;
    assert_eq!(f.run_bash("cat $TMPDIR/x; ls -A $TMPDIR").await, "kept\nx\n");
    let tmp = f.outside().join("state/tmp");
    // A prewarmed sandbox has a record beside it.
    zero_sandbox::spawner::Spawner::release_shared_prewarmed();
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 1);
    let _temp = f.into_temp_dir();
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
}

#[tokio::test]
async fn long_output_keeps_head_tail_and_spill_file() {
    let f = ToolFixture::session();
    let outcome = f.call("Bash", json!({"command": "seq 1 100000"})).await.unwrap();
    let facts = &outcome.result.structured;
    let text = result_text(&outcome);
    assert!(text.starts_with("1\n2\n") && text.ends_with("99999\n100000\n"), "{}", text.len());
    assert!(
        text.len() <= 50_000 && text.contains(" of 588.8 KB left out; the complete output is in ")
    );
    assert_eq!(outcome.result.content.len(), 1, "it was not cut a second time");
    assert_eq!(facts["truncated"], true);
    let file = facts["spill_file"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 100_000);
    let read = f.call("Read", json!({"file_path": file, "offset": 50_000, "limit": 1})).await;
    assert_eq!(read.unwrap().result.structured["content"], " 50000\t50000");
    f.run_bash("echo short").await;
    let spilled = std::fs::read_dir(f.outside().join("state/spill/test")).unwrap().count();
    assert_eq!(spilled, 1, "what is kept whole needs no file");
}

#[tokio::test]
async fn timeout_kills_whole_process_tree() {
    let f = ToolFixture::one_shot();
    let nap = unique_sleep(98711);
    let command = format!("echo begun; {WAIT_UNTIL_READ}; sleep {nap} & sleep {nap}");
    let work = f.call("Bash", json!({"command": command, "timeout": TIMEOUT_MS}));
    let (outcome, ()) = tokio::join!(work, pass_timeout_after(async || is_sleeping(&nap)));
    let error = outcome.unwrap_err();
    let kind = (error.error_type, error.reason());
    assert_eq!(kind, (ErrorType::Timeout, Some(ErrorReason::Deadline)));
    assert_eq!(error.details["limit_ms"], TIMEOUT_MS);
    wait_until(async || !is_running(&nap)).await;
    assert_eq!(error.details["output"], "begun\n", "{error:?}");
    assert_eq!(
        error.message,
        "timed out after 500 s; pass a larger `timeout` (up to 600000 ms) or use `run_in_background`"
    );
    // However often that happens, the tool stays available.
    for _ in 0..6 {
        f.call("Bash", json!({"command": "sleep 600", "timeout": 20})).await.unwrap_err();
    }
    assert_eq!(f.run_bash("echo well").await, "well\n");
}

#[tokio::test]
async fn timed_out_command_can_continue_as_job() {
    let settings = CommandSettings { on_timeout: TimeoutAction::Job, ..CommandSettings::default() };
    let f = ToolFixture::session_with_commands(settings.clone());
    // A command that ends in time is not affected.
    assert_eq!(f.run_bash("echo quick; exit 3").await, "quick\n(exit code 3)");
    // A cancelled call does not become a job.
    let stop = CancellationToken::new();
    let nap = unique_sleep(98716);
    let input = json!({"command": format!("sleep {nap}")});
    let tool = "Bash".to_owned();
    let call = ToolCall { id: new_call_id(), session: None, tool, input, timeout: None };
    let dialect = Dialect::new(DialectName::Canonical);
    let work = f.host.call(f.open_session(), &dialect, call, &stop);
    let stopper = async {
        wait_until(async || is_running(&nap)).await;
        stop.cancel();
    };
    let (report, ()) = tokio::join!(work, stopper);
    assert_eq!(report.outcome.unwrap_err().reason(), Some(ErrorReason::Cancelled));
    wait_until(async || !is_running(&nap)).await;
    let command = format!("echo first; echo second >&2; {WAIT_UNTIL_READ}; sleep {nap}");
    let work = f.call("Bash", json!({"command": command, "timeout": TIMEOUT_MS}));
    let (outcome, ()) = tokio::join!(work, pass_timeout_after(async || is_sleeping(&nap)));
    let outcome = outcome.unwrap();
    let facts = &outcome.result.structured;
    assert_eq!(facts["job_id"], "job_1");
    assert_eq!(facts.get("exit_code"), Some(&Value::Null), "{facts}");
    let shown = result_text(&outcome);
    assert!(shown.contains("continues as job `job_1`"), "{shown}");
    assert_eq!(json!([facts["stdout"], facts["stderr"]]), json!(["first\n", "second\n"]));
    wait_until(async || is_running(&nap)).await;
    let job = f.call("BashOutput", json!({"job_id": "job_1"})).await.unwrap().result.structured;
    assert_eq!((&job["stdout"], &job["jobs"][0]["status"]), (&json!(""), &json!("running")));
    let error = f.call_error("BashOutput", json!({"job_id": "job_1", "stdin": "x"})).await;
    assert!(error.contains("has no input"), "{error}");
    assert!(is_running(&nap));
    let _temp = f.into_temp_dir();
    assert!(!is_running(&nap), "it is gone when the session is");
    // Without a session there is nothing that a job could belong to.
    let f = ToolFixture::with_commands(settings);
    let work =
        f.call_error("Bash", json!({"command": format!("sleep {nap}"), "timeout": TIMEOUT_MS}));
    let (error, ()) = tokio::join!(work, pass_timeout_after(async || is_sleeping(&nap)));
    assert!(error.starts_with("deadline: timed out"), "{error}");
}

#[tokio::test]
async fn session_end_kills_all_commands() {
    let f = ToolFixture::session();
    let nap = unique_sleep(98717);
    let work = f.call("Bash", json!({"command": format!("setsid sleep {nap} & sleep {nap}")}));
    let ender = async {
        wait_until(async || is_running(&nap)).await;
        f.open_session().end();
        assert!(!is_running(&nap));
    };
    let (outcome, ()) = tokio::join!(work, ender);
    assert_eq!(outcome.unwrap_err().reason(), Some(ErrorReason::Cancelled));
    assert!(!f.outside().join("state/tmp/session-test").exists());
    let error = f.call_error("Bash", json!({"command": "echo late"})).await;
    assert!(error.contains("the session is over"), "{error}");
}

/// The session ends at every moment of the start of its command: before it, while the sandbox is
/// built, and when the command runs but the session does not have it yet.
#[tokio::test]
async fn session_end_during_start_leaves_no_process() {
    for moment in 0..24 {
        let f = ToolFixture::session();
        let nap = unique_sleep(98_800 + moment);
        let input = json!({"command": format!("sleep {nap}")});
        let input = if moment % 2 == 0 {
            input
        } else {
            json!({"command": input["command"], "run_in_background": true})
        };
        let ender = async {
            let deadline = Instant::now() + Duration::from_millis(4 * u64::from(moment));
            while Instant::now() < deadline && !is_running(&nap) {
                tokio::task::yield_now().await;
            }
            f.open_session().end();
            assert!(!is_running(&nap), "it runs on, after moment {moment}");
            assert!(!f.outside().join("state/tmp/session-test").exists());
        };
        let (_, ()) = tokio::join!(f.call("Bash", input), ender);
        assert!(!is_running(&nap), "it starts late, after moment {moment}");
    }
}

#[tokio::test]
async fn dropped_call_leaves_no_process() {
    let f = ToolFixture::session();
    let nap = unique_sleep(98718);
    {
        let work = f.call("Bash", json!({"command": format!("sleep {nap}")}));
        let mut work = std::pin::pin!(work);
        let started = async { wait_until(async || is_running(&nap)).await };
        tokio::select! {
            _ = &mut work => panic!("it ends"),
            () = started => {}
        }
    }
    wait_until(async || !is_running(&nap)).await;
}

#[tokio::test]
async fn leftovers_of_killed_sessions_are_swept() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir(temp.path().join("work")).unwrap();
    for folder in ["tmp/session-dead", "tmp/calls-dead", "spill/dead"] {
        std::fs::create_dir_all(temp.path().join("state").join(folder)).unwrap();
        std::fs::write(temp.path().join("state").join(folder).join("file"), "x").unwrap();
    }
    let host = crate::fixture::host_in(temp.path());
    host.open_session(zero_core::SessionId::new("first").unwrap()).unwrap();
    // Another process has created it for the same session meanwhile.
    std::fs::create_dir(temp.path().join("state/spill/alive")).unwrap();
    let session = host.open_session(zero_core::SessionId::new("alive").unwrap()).unwrap();
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(temp.path().join("state").join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert!(names("tmp").is_empty(), "{:?}", names("tmp"));
    assert_eq!(names("spill"), ["alive"]);
    // Another process, which shares only the lock files with this one.
    crate::fixture::host_in(temp.path()).open_one_shot_session().unwrap();
    assert_eq!(names("spill"), ["alive"]);
    drop(session);
    assert!(names("spill").is_empty());
}

#[tokio::test]
async fn cancelled_call_leaves_no_process() {
    let f = ToolFixture::session();
    let (stop, nap) = (CancellationToken::new(), unique_sleep(98712));
    let call = ToolCall {
        id: new_call_id(),
        session: None,
        tool: "Bash".to_owned(),
        input: json!({"command": format!("setsid sleep {nap} & sleep {nap}")}),
        timeout: None,
    };
    let dialect = Dialect::new(DialectName::Canonical);
    let work = f.host.call(f.open_session(), &dialect, call, &stop);
    let stopper = async {
        wait_until(async || is_running(&nap)).await;
        stop.cancel();
    };
    let (report, ()) = tokio::join!(work, stopper);
    assert_eq!(report.outcome.unwrap_err().reason(), Some(ErrorReason::Cancelled));
    wait_until(async || !is_running(&nap)).await;
}

#[tokio::test]
async fn background_child_does_not_block_call() {
    let f = ToolFixture::one_shot();
    let (begun, nap) = (Instant::now(), unique_sleep(98713));
    assert_eq!(f.run_bash(&format!("sleep {nap} & echo done")).await, "done\n");
    assert!(begun.elapsed() < LONG_TIMEOUT, "{:?}", begun.elapsed());
    wait_until(async || !is_running(&nap)).await;
}

#[tokio::test]
async fn truncated_output_has_whole_characters() {
    let f = ToolFixture::session();
    // Both cuts, and each offset within a character of three bytes.
    for offset in 0..3 {
        let command =
            format!("printf '%{offset}s' ''; head -c 30000 /dev/zero | sed 's/\\x00/€/g'");
        let outcome = f.call("Bash", json!({"command": command})).await.unwrap();
        let structured = &outcome.result.structured;
        assert_eq!(structured["truncated"], true, "{structured}");
        let shown = serde_json::to_string(&outcome.result.display).unwrap();
        for text in [&result_text(&outcome), structured["stdout"].as_str().unwrap(), &shown] {
            assert!(!text.contains('\u{fffd}'), "{offset}: a character is split");
        }
    }
}

#[tokio::test]
async fn job_runs_beside_calls() {
    let f = ToolFixture::session();
    let command = "echo one; echo two >&2; while read line; do echo got $line; done; exit 5";
    let started = f.run_structured(json!({"command": command, "run_in_background": true})).await;
    assert_eq!(started["job_id"], "job_1");
    assert_eq!(started, json!({"stdout": "", "stderr": "", "exit_code": null, "job_id": "job_1"}));
    let job = async |more: Value| {
        let mut input = json!({"job_id": "job_1"});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        f.call("BashOutput", input).await.unwrap().result.structured
    };
    let unread = async || {
        let all = f.call("BashOutput", json!({})).await.unwrap().result.structured;
        all["jobs"][0]["unread_bytes"].as_u64().unwrap()
    };
    wait_until(async || unread().await == 8).await;
    let first = job(json!({})).await;
    assert_eq!((&first["stdout"], &first["stderr"]), (&json!("one\n"), &json!("two\n")));
    assert_eq!(first["jobs"][0]["status"], "running");
    assert_eq!(job(json!({})).await["stdout"], "", "it was read");
    // Its reply may come in the same call that sends the text, or later.
    let told = std::cell::RefCell::new(String::new());
    let add = |facts: Value| told.borrow_mut().push_str(facts["stdout"].as_str().unwrap());
    add(job(json!({"stdin": "a\nb\n", "filter": "b$"})).await);
    wait_until(async || {
        add(job(json!({"filter": "b$"})).await);
        *told.borrow() == "got b\n"
    })
    .await;
    let killed = f.call("BashKill", json!({"job_id": "job_1"})).await.unwrap();
    assert_eq!(killed.result.structured, json!({"job_id": "job_1", "killed": true}));
    let last = job(json!({})).await;
    assert_eq!(last["jobs"][0]["status"], "exited");
    let again = f.call("BashKill", json!({"job_id": "job_1"})).await.unwrap();
    assert_eq!(again.result.structured["killed"], false);
    let error = f.call_error("BashOutput", json!({"job_id": "job_9"})).await;
    assert_eq!(error, "io: there is no job `job_9`; the jobs are job_1");
    let error = f.call_error("BashOutput", json!({"job_id": "job_1", "stdin": "x"})).await;
    assert!(error.contains("has ended"), "{error}");
}

#[tokio::test]
async fn job_output_waits_for_progress() {
    let f = ToolFixture::session();
    let command = "echo one; read line; echo two; read line; exit 5";
    f.run_structured(json!({"command": command, "run_in_background": true})).await;
    let read = async |more: Value| {
        let mut input = json!({"job_id": "job_1", "wait_ms": 60_000});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let outcome = f.call("BashOutput", input).await.unwrap();
        (result_text(&outcome), outcome.result.structured)
    };
    let (text, first) = read(json!({})).await;
    assert_eq!((&first["stdout"], &first["new_bytes"]), (&json!("one\n"), &json!(4)));
    assert!(text.contains("(job_1 running for ") && text.contains("4 new bytes"), "{text}");
    // The wait ends when it is over, too.
    let (text, none) = read(json!({"wait_ms": 1})).await;
    assert_eq!((&none["stdout"], &none["new_bytes"]), (&json!(""), &json!(0)));
    assert!(text.ends_with("; no new output)"), "{text}");
    let ran = |facts: &Value| facts["jobs"][0]["run_ms"].as_u64().unwrap();
    assert!(ran(&none) >= ran(&first), "{none}");
    assert_eq!(read(json!({"stdin": "\n"})).await.1["stdout"], "two\n");
    let (_, last) = read(json!({"stdin": "\n"})).await;
    assert_eq!(last["jobs"][0]["exit_code"], 5, "the end of a job ends the wait: {last}");
    let error = f.call_error("BashOutput", json!({"job_id": "job_1", "wait_ms": 60_001})).await;
    assert!(error.starts_with("schema_violation") && error.contains("wait_ms"), "{error}");
    let error = f.call_error("BashOutput", json!({"wait_ms": 1})).await;
    assert!(error.contains("need a `job_id`"), "{error}");
}

#[tokio::test]
async fn job_reports_exit() {
    let f = ToolFixture::session();
    f.run_structured(json!({"command": "echo x; exit 5", "run_in_background": true})).await;
    let job = async || f.call("BashOutput", json!({})).await.unwrap().result.structured;
    wait_until(async || job().await["jobs"][0]["status"] == "exited").await;
    assert_eq!(job().await["jobs"][0]["exit_code"], 5);
    let outcome = f.call("BashOutput", json!({"job_id": "job_1"})).await.unwrap();
    assert_eq!(result_text(&outcome), "x\n(job_1 exited with code 5)");
}

#[tokio::test]
async fn job_reports_limit_that_stopped_it() {
    let f = ToolFixture::session();
    let hungry = "x=$(head -c 800M /dev/zero | tr '\\0' x); echo ${#x}";
    for (command, timeout, reason, what) in [
        (hungry, 60_000, "resource_exhausted", "limits.Bash.command-memory"),
        ("sleep 98719", 200, "deadline", "timed out"),
    ] {
        let job = json!({"command": command, "run_in_background": true, "timeout": timeout});
        let id = f.run_structured(job).await["job_id"].clone();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let facts = loop {
            let told = f.call("BashOutput", json!({"job_id": id})).await.unwrap();
            let facts = told.result.structured["jobs"][0].clone();
            if facts["status"] == "exited" {
                break facts;
            }
            assert!(std::time::Instant::now() < until, "{facts}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        };
        assert_eq!(facts["reason"], reason, "{facts}");
        assert!(facts["notes"][0].as_str().unwrap().contains(what), "{facts}");
    }
}

#[tokio::test]
async fn jobs_are_bounded_and_end_with_session() {
    let f = ToolFixture::session();
    let nap = unique_sleep(98714);
    let job = json!({"command": format!("sleep {nap}"), "run_in_background": true});
    for _ in 0..16 {
        f.run_structured(job.clone()).await;
    }
    let error = f.call_error("Bash", job.clone()).await;
    assert!(
        error.starts_with("resource_exhausted: the limit of 16 running jobs is reached"),
        "{error}"
    );
    f.call("BashKill", json!({"job_id": "job_3"})).await.unwrap();
    assert_eq!(f.run_structured(job).await["job_id"], "job_17", "an ended job makes room");
    wait_until(async || is_running(&nap)).await;
    let _temp = f.into_temp_dir();
    assert!(!is_running(&nap), "they are gone when the session is");
    let f = ToolFixture::one_shot();
    let error =
        f.call_error("Bash", json!({"command": "sleep 1", "run_in_background": true})).await;
    assert!(error.starts_with("schema_violation: background jobs need a session"), "{error}");
}

#[tokio::test]
async fn every_dialect_runs_commands_in_its_format() {
    let f = ToolFixture::session();
    f.write_file("src/x", "");
    let root = f.path("src").canonicalize().unwrap();
    #[rustfmt::skip]
    let rows = [
        (DialectName::Acp, "run_command", json!({"command": "printf", "args": ["%s", "$A"], "cwd": "src", "env": {"A": "1"}}), json!([{"type": "text", "text": "$A"}])),
        (DialectName::Acp, "run_command", json!({"command": "echo $A", "env": {"A": "1"}}), json!([{"type": "text", "text": "1\n"}])),
        (DialectName::Qwen, "run_shell_command", json!({"command": "pwd", "directory": root, "is_background": false, "description": "Where"}), json!([{"text": format!("{}\n", root.display())}])),
        (DialectName::Opencode, "bash", json!({"command": "exit 2", "workdir": ".", "description": "Fails"}), json!([{"type": "content", "content": {"type": "text", "text": "(exit code 2)"}}])),
        (DialectName::Opencode, "bash", json!({"command": "printf '<%s>'\n", "args": ["a b", "it's $A", "; exit 3"], "env": {"A": "1"}}), json!([{"type": "content", "content": {"type": "text", "text": "<a b><it's $A><; exit 3>"}}])),
        (DialectName::Opencode, "bash", json!({"command": "echo $A $(basename $PWD)", "args": [], "cwd": "src", "workdir": ".", "env": {"A": "1"}}), json!([{"type": "content", "content": {"type": "text", "text": "1 src\n"}}])),
        (DialectName::Opencode, "run", json!({"command": "echo", "args": ["a", "b"], "timeout": 60000}), json!([{"type": "content", "content": {"type": "text", "text": "a b\n"}}])),
    ];
    for (dialect, tool, input, expected) in rows {
        let outcome = f.call_as(dialect, tool, input).await.unwrap();
        assert_eq!(json!(outcome.rendered.content), expected, "{dialect} {tool}");
        let again = f.call_as(dialect, tool, json!({"command": 1})).await.unwrap_err();
        assert_eq!(again.error_type, ErrorType::InvalidInput);
    }
}

/// A name of opencode has the time of its platform, and the tool's own name another.
#[tokio::test]
async fn dialect_name_has_own_deadline() {
    let limits = HostLimits {
        command_timeout: Duration::from_secs(1),
        development_timeout: Duration::from_secs(10 * 60),
        ..HostLimits::default()
    };
    let f = ToolFixture::with_limits(CommandSettings::default(), limits);
    let input = json!({"command": "sleep 1.5; echo awake"});
    for tool in ["bash", "run"] {
        let outcome = f.call_as(DialectName::Opencode, tool, input.clone()).await.unwrap();
        assert_eq!(outcome.result.structured["stdout"], "awake\n", "{tool}");
    }
    for (dialect, tool) in [(DialectName::Canonical, "Bash"), (DialectName::Acp, "run_command")] {
        let error = f.call_as(dialect, tool, input.clone()).await.unwrap_err();
        assert_eq!(error.reason(), Some(ErrorReason::Deadline), "{tool}");
    }
}

#[tokio::test]
async fn every_dialect_can_follow_jobs() {
    let f = ToolFixture::session();
    let input = json!({"command": "echo x", "is_background": true});
    let started = f.call_as(DialectName::Qwen, "run_shell_command", input).await.unwrap();
    assert_eq!(started.result.structured["job_id"], "job_1");
    for dialect in DialectName::ALL {
        let input = json!({"job_id": "job_1"});
        f.call_as(dialect, "BashOutput", input.clone()).await.unwrap();
        f.call_as(dialect, "BashKill", input).await.unwrap();
    }
}

#[tokio::test]
async fn session_calls_run_concurrently() {
    let f = ToolFixture::session();
    // Each waits for the other.
    let meets = |one: &str, other: &str| {
        format!("touch {one}; until [ -e {other} ]; do sleep 0.02; done; echo {one}")
    };
    let (one, two) = (meets("one", "two"), meets("two", "one"));
    let (one, two) = tokio::join!(f.run_bash(&one), f.run_bash(&two));
    assert_eq!((one.as_str(), two.as_str()), ("one\n", "two\n"));
}

/// Declares one command and runs another.
struct MismatchedCommandTool;

impl Tool for MismatchedCommandTool {
    type Args = NoFields;
    type Output = NoFields;
    type Plan = ();
    const NAME: &'static str = "Liar";

    fn info(&self) -> ToolInfo {
        zero_tools::bash::BashTool.info()
    }

    fn plan(&self, _: NoFields, _: &Workspace) -> Result<(), ToolError> {
        Ok(())
    }

    fn describe(&self, (): &()) -> CallDescription {
        CallDescription::default()
    }

    fn effects(&self, (): &()) -> Effects {
        vec![Effect::Exec(CommandExecution::from_shell("true"))]
    }

    async fn run(&self, _: Arc<()>, cx: CallContext) -> Result<ToolReply<NoFields>, ToolError> {
        let execution = CommandExecution::from_shell("touch made");
        cx.run_command(CommandRequest { execution, streams: StreamMode::Pipes, input: None })
            .await?;
        panic!("it ran")
    }
}

#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
struct NoFields {}

#[tokio::test]
async fn only_authorized_command_runs() {
    let f = ToolFixture::one_shot();
    f.host.registry().add("other", vec![erase(MismatchedCommandTool)]).unwrap();
    let error = f.call("Liar", json!({})).await.unwrap_err();
    let message = "the tool tried to run a command other than the one that was authorized";
    assert_eq!(error.message, message);
    assert!(!f.path("made").exists());
}

/// Observes the output of commands, and creates a file once it has seen all of these words.
struct OutputWatcher {
    heard: std::sync::Mutex<String>,
    events: std::sync::Mutex<usize>,
    words: &'static [&'static str],
    file: std::sync::OnceLock<std::path::PathBuf>,
}

impl CallEventObserver for OutputWatcher {
    fn on_event(&self, event: &CallEvent) {
        let CallEvent::Output { text, .. } = event else { return };
        let mut heard = self.heard.lock().unwrap();
        heard.push_str(text);
        *self.events.lock().unwrap() += 1;
        if self.words.iter().all(|word| heard.contains(word)) {
            std::fs::write(self.file.get().unwrap(), "").unwrap();
        }
    }

    fn wants_output(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn output_streams_while_command_runs() {
    let listener = Arc::new(OutputWatcher {
        heard: Default::default(),
        events: Default::default(),
        words: &["first é", "an error"],
        file: Default::default(),
    });
    let observer = Some(Arc::clone(&listener) as Arc<dyn CallEventObserver>);
    let config = ToolHostSessionConfig { observer, ..ToolHostSessionConfig::default() };
    let f = ToolFixture::session_opened_with(
        |_| {},
        |host| host.open_session_with(SessionId::new("test").unwrap(), config),
    );
    listener.file.set(f.path("go")).unwrap();
    // The command ends only if its output was observed before its end.
    let line = "printf 'first \\xc3'; sleep 0.2; printf '\\xa9\\n'; echo an error >&2; \
                until [ -e go ]; do sleep 0.02; done; echo last";
    let facts = f.run_structured(json!({"command": line, "timeout": 60_000})).await;
    assert_eq!((&facts["stdout"], &facts["exit_code"]), (&json!("first é\nlast\n"), &json!(0)));
    assert_eq!(facts["stderr"], "an error\n");
    let heard = std::mem::take(&mut *listener.heard.lock().unwrap());
    assert!(heard.starts_with("first ") && heard.ends_with("last\n"), "{heard:?}");
    assert!(!heard.contains('\u{fffd}'), "{heard:?}");

    // However often it writes, the observer is called only now and then, with all output that fits.
    *listener.events.lock().unwrap() = 0;
    let facts = f.run_structured(json!({"command": "seq 1 5000"})).await;
    let heard = std::mem::take(&mut *listener.heard.lock().unwrap());
    assert_eq!(json!(heard), facts["stdout"]);
    assert!(*listener.events.lock().unwrap() < 100);
}
