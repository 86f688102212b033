//! Real programs as servers: their start, their last output, and that no process of them is left.

use std::time::Instant;

use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::transport::Transport as _;
use serde_json::json;
use zero_runtime::{ToolHost, ToolHostConfig};
use zero_sandbox::{StateDir, Workspace};

use super::*;

// The sandbox runs this test program again, under another name, as its helper.
zero_sandbox::dispatch_helper_before_main!();

#[test]
fn stderr_tail_holds_last_bytes() {
    let tail = ServerStderrTail::default();
    tail.add(&[b'a'; 3 * STDERR_TAIL_BYTES]);
    assert_eq!(tail.to_text(&ServerSecrets::default()).len(), STDERR_TAIL_BYTES);
    tail.add(b"the end\x1b[2J");
    let shown = tail.to_text(&ServerSecrets::default());
    assert!(shown.ends_with("the end\\u{1b}[2J"), "{shown:?}");
    assert!(shown.starts_with('a'));
    tail.add("\u{202E}back".as_bytes());
    let shown = tail.to_text(&ServerSecrets::default());
    assert!(shown.ends_with("\\u{202e}back"), "{shown:?}");
}

#[test]
fn refusal_names_setting_that_allows_it() {
    #[track_caller]
    fn check(notes: &[&str], stderr: &str, expected: &[&str]) {
        let notes = notes.iter().map(ToString::to_string).collect();
        let explained = explain_refusals(notes, stderr);
        assert_eq!(explained.len(), expected.len(), "{explained:?}");
        for (note, text) in explained.iter().zip(expected) {
            assert!(note.contains(text), "{note:?} does not contain {text:?}");
        }
    }
    check(&[], "boom", &[]);
    check(&["network: a.com:443 was refused"], "", &["a.com:443", "`network` of this server"]);
    check(&[], "npm ERR! code EAI_AGAIN", &["`network` of this server"]);
    check(&[], "mkdir: cannot create: Read-only file system", &["`writable` of this server"]);
    check(&["a gap"], "EACCES, ENOTFOUND", &["a gap", "`network`", "`writable`"]);
    let many = ["note"; 50];
    assert_eq!(explain_refusals(many.map(str::to_owned).to_vec(), "").len(), NOTES_MAX);
}

/// Time limit for every step, generous enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct StartedServer {
    process: ServerProcess,
    lines: LineTransport<RoleClient>,
    _host: ToolHost,
    _folder: tempfile::TempDir,
}

/// Starts a script as a server.
async fn start(command: &str, script: &str) -> Result<StartedServer, ServerUnavailableError> {
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().join("work");
    #[expect(clippy::disallowed_methods, reason = "a test sets up real folders")]
    std::fs::create_dir(&work).unwrap();
    let workspace = Workspace::open(std::slice::from_ref(&work), None).unwrap();
    let host =
        ToolHost::new(ToolHostConfig::new(workspace, StateDir::new(folder.path().join("state"))));
    let launch = ServerLaunch {
        command: command.into(),
        args: vec!["-c".into(), script.into()],
        variables: vec![("GREETING".into(), "hello".into())],
        folder: work,
        network: Vec::new(),
        writable: Vec::new(),
    };
    let alias = ServerAlias::new("test").unwrap();
    let (process, lines) = ServerProcess::start(&host.services(), &launch, &alias).await?;
    Ok(StartedServer { process, lines, _host: host, _folder: folder })
}

async fn ping(lines: &mut LineTransport<RoleClient>) -> Option<String> {
    let request: ClientRequest = serde_json::from_value(json!({"method": "ping"})).unwrap();
    lines.send(JsonRpcMessage::request(request, RequestId::Number(1))).await.unwrap();
    let limit = PATIENCE;
    let message = tokio::time::timeout(limit, lines.receive()).await.expect("it hangs");
    message.map(|message| serde_json::to_string(&message).unwrap())
}

#[tokio::test]
async fn server_exchanges_messages_and_ends_with_its_input() {
    let script = r#"echo "$GREETING" >&2; read line
        echo '{"jsonrpc":"2.0","id":1,"result":{}}'; cat >/dev/null; exit 3"#;
    // It has limited time to end. A busy machine may prevent that, but not every time.
    let mut exit = None;
    for _ in 0..5 {
        let mut started = start("bash", script).await.unwrap();
        let answer = ping(&mut started.lines).await.unwrap();
        assert_eq!(answer, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        assert_eq!(started.process.exit(), None);
        started.process.shut_down().await;
        assert_eq!(started.process.stderr_tail(), "hello\n");
        exit = started.process.exit();
        if exit == Some(ServerExit { code: Some(3), signal: None }) {
            break;
        }
    }
    assert_eq!(exit, Some(ServerExit { code: Some(3), signal: None }));
}

#[tokio::test]
async fn crashed_server_reports_its_stderr_tail() {
    let mut started = start("bash", "echo 'no key: set KEY' >&2; exit 7").await.unwrap();
    assert_eq!(ping(&mut started.lines).await, None);
    let failure = started.process.describe_failure("it did not answer").await;
    assert_eq!(failure.message, "it did not answer: it ended with exit code 7");
    assert_eq!((failure.exit_code, failure.stderr_tail.as_str()), (Some(7), "no key: set KEY\n"));
}

#[tokio::test]
async fn stderr_flood_does_not_block_server() {
    let script = r#"for i in {1..20000}; do echo "a line of log number $i" >&2; done; read line
        echo '{"jsonrpc":"2.0","id":1,"result":{}}'; cat >/dev/null"#;
    let mut started = start("bash", script).await.unwrap();
    assert!(ping(&mut started.lines).await.is_some());
    // Its last output may not have been read yet.
    let begin = Instant::now();
    while !started.process.stderr_tail().ends_with("number 20000\n") {
        assert!(begin.elapsed() < PATIENCE, "{}", started.process.stderr_tail());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(started.process.stderr_tail().len() <= STDERR_TAIL_BYTES);
}

#[tokio::test]
async fn server_ignoring_shutdown_is_killed() {
    let script = "trap '' TERM; while :; do sleep 0.1; done";
    let started = start("bash", script).await.unwrap();
    let begin = Instant::now();
    started.process.shut_down().await;
    assert!(started.process.exit().is_some());
    assert!(begin.elapsed() < PATIENCE, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn missing_program_is_reported() {
    let Err(error) = start("no-such-program-at-all", "").await else {
        panic!("it started");
    };
    assert!(error.message.contains("no-such-program-at-all"), "{error}");
}
