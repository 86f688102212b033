//! Whatever a server does, the caller gets a result or an error that says what happened, and other
//! callers are not affected.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use zero_lsp::{DocumentText, LanguageServerLimits, LspError, PositionEncoding};
use zero_runtime::{CommandPolicy, DeniedFiles, Policy, PolicyDecision, PolicyRequest, RiskPolicy};
use zero_sandbox::Workspace;

use crate::fixture::{LONG_TIMEOUT, LspFixture, is_process_alive, test_limits, wait_until};

/// Checks the result of a query to a misbehaving server: its text, or a part of the error.
#[track_caller]
fn check_hover(found: Result<Option<String>, LspError>, mode: &str, expected: Result<&str, &str>) {
    match (found, expected) {
        (Ok(Some(text)), Ok(expected)) => assert_eq!(text, expected, "{mode}"),
        (Err(error), Err(part)) => {
            let text = error.to_string();
            assert!(text.contains(part), "{mode}: {text}");
            assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{mode}: {text:?}");
        }
        (found, expected) => panic!("{mode}: {found:?}, not {expected:?}"),
    }
}

#[tokio::test]
async fn misbehaving_server_yields_answer_or_error() {
    let rows = [
        ("good", Ok("fine")),
        ("garbage", Err("not a language server message: `Server ready")),
        ("crash", Err("exit code 3; stderr: cannot find my configuration")),
        ("refuses", Err("not today")),
        ("odd-units", Err("ebcdic")),
        ("offers-nothing", Err("does not offer `textDocument/hover`")),
        ("crash-on-ask", Err("killed by signal 6")),
        ("garbage-later", Err("not a language server message")),
        ("giant", Err("99999999999 bytes")),
        ("giant-number", Err("not a language server message")),
        ("deep", Err("deeper than")),
        ("wrong-ids", Ok("right")),
        ("no-result", Err("invalid result")),
        ("odd-result", Err("invalid result")),
        ("error", Err("refused `textDocument/hover`: it")),
        ("overtaken", Ok("settled")),
        ("floods", Err("faster than it reads")),
        ("nonsense", Err("too many malformed messages")),
        ("long-names", Err("too many malformed messages")),
    ];
    let modes: Vec<&str> = rows.iter().map(|(mode, _)| *mode).collect();
    let arena = LspFixture::with_limits(
        &modes,
        LanguageServerLimits { servers_max: 50, ..test_limits() },
        |_| {},
    );
    for (mode, expected) in rows {
        check_hover(arena.hover(mode).await, mode, expected);
    }
    check_hover(arena.hover("good").await, "good", Ok("fine"));
}

#[tokio::test]
async fn silent_server_times_out() {
    let short = Duration::from_millis(500);
    let arena = LspFixture::with_limits(
        &["silent"],
        LanguageServerLimits { start_max: short, ..test_limits() },
        |_| {},
    );
    check_hover(arena.hover("silent").await, "silent", Err("did not answer within"));
    let arena = LspFixture::with_limits(
        &["never-answers"],
        LanguageServerLimits { answer_max: short, ..test_limits() },
        |_| {},
    );
    let server = arena.start_server("never-answers").await.unwrap();
    for _ in 0..3 {
        let found = arena.hover_with(&server, "never-answers").await;
        check_hover(found, "never-answers", Err("did not answer `textDocument/hover`"));
    }
    // Considered hung: no caller waits for it again.
    assert!(!server.is_alive());
    check_hover(
        arena.hover_with(&server, "never-answers").await,
        "never-answers",
        Err("did not answer 3 requests in a row"),
    );
}

#[tokio::test]
async fn server_that_never_reads_is_killed_and_restarted() {
    let bounds = LanguageServerLimits { stuck_max: Duration::from_millis(300), ..test_limits() };
    let arena = LspFixture::with_limits(&["deaf"], bounds, |_| {});
    let server = arena.start_server("deaf").await.unwrap();
    let (pid, path) = (server.pid(), arena.file_path("deaf"));
    // More than a pipe can hold.
    let long = "x".repeat(1 << 20);
    let text = DocumentText { path: &path, language: "x", text: &long, is_unsaved: true };
    server.sync_document(text).await.unwrap();
    check_hover(arena.hover_with(&server, "deaf").await, "deaf", Err("it read nothing for 0.3 s"));
    drop(server);
    wait_until("its end", || !is_process_alive(pid)).await;
    assert_ne!(arena.start_server("deaf").await.unwrap().pid(), pid);
}

#[tokio::test]
async fn server_that_closes_input_is_killed_and_restarted() {
    let bounds = LanguageServerLimits { stuck_max: Duration::from_millis(300), ..test_limits() };
    let arena = LspFixture::with_limits(&["hangs-up"], bounds, |_| {});
    let server = arena.start_server("hangs-up").await.unwrap();
    let (pid, path) = (server.pid(), arena.file_path("hangs-up"));
    // More than a pipe can hold. The server is alive, and the sandbox may keep the pipe open.
    let long = "x".repeat(1 << 20);
    let text = DocumentText { path: &path, language: "x", text: &long, is_unsaved: true };
    let _ = server.sync_document(text).await;
    let text = arena.hover_with(&server, "hangs-up").await.unwrap_err().to_string();
    let expected = ["it closed its input", "it read nothing for 0.3 s"];
    assert!(expected.iter().any(|why| text.contains(why)), "{text}");
    drop(server);
    wait_until("its end", || !is_process_alive(pid)).await;
    assert_ne!(arena.start_server("hangs-up").await.unwrap().pid(), pid);
}

#[tokio::test]
async fn rustup_proxy_is_not_taken_for_server() {
    let arena = LspFixture::with_limits(&["good", "stand-in"], test_limits(), |server| {
        if server.name == "stand-in" {
            server.name = "rust-analyzer".to_owned();
            server.how_to_get = "`rustup component add rust-analyzer`".to_owned();
        }
    });
    // Repeated, since this must not count as a failure.
    for _ in 0..=test_limits().failures_max {
        let error = arena.start_server("stand-in").await.err().unwrap();
        assert!(matches!(error, LspError::RustupProxy { .. }), "{error}");
        let how = "is only a rustup proxy; install it with `rustup component add rust-analyzer`";
        assert!(error.to_string().ends_with(how), "{error}");
    }
    check_hover(arena.hover("good").await, "good", Ok("fine"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn documents_open_and_close_in_server_order() {
    let arena = Arc::new(LspFixture::new(&["minds-the-order"]));
    let server = Arc::new(arena.start_server("minds-the-order").await.unwrap());
    let path = arena.file_path("minds-the-order");
    let tasks = (0..8).map(|task| {
        let (server, path) = (Arc::clone(&server), path.clone());
        tokio::spawn(async move {
            for round in 0..50 {
                let text = format!("{task} {round}");
                let text =
                    DocumentText { path: &path, language: "x", text: &text, is_unsaved: true };
                server.sync_document(text).await.unwrap();
                server.notify_saved(&path).await.unwrap();
                server.close_file(&path).await.unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        tokio::time::timeout(LONG_TIMEOUT, task).await.unwrap().unwrap();
    }
    let text = arena.hover_with(&server, "minds-the-order").await.unwrap().unwrap();
    assert_eq!(text, "wrong:");
}

/// Many servers are scripts, whose interpreter is found by name.
#[tokio::test]
async fn interpreter_is_not_found_in_workspace() {
    let put = |path: &Path, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    };
    let arena = LspFixture::with_host(
        &["good"],
        test_limits(),
        |server| {
            let program = Path::new(&server.commands[0][0]);
            let tools = program.with_file_name("tools");
            put(&tools.join("server"), "#!/usr/bin/env -S my-node good\n");
            std::os::unix::fs::symlink(program, tools.join("my-node")).unwrap();
            server.commands = vec![vec!["server".to_owned()]];
        },
        |config| {
            let work = config.workspace.cwd().to_owned();
            put(&work.join("bin/my-node"), "#!/bin/sh\necho from the project >&2; exit 9\n");
            put(&work.join("bin/server"), "#!/bin/sh\nexit 8\n");
            let (bin, tools) = (work.join("bin"), work.with_file_name("tools"));
            let path = format!("{}:{}:/usr/bin:/bin", bin.display(), tools.display());
            config.commands.environment = vec![("PATH".to_owned(), path)];
        },
    );
    check_hover(arena.hover("good").await, "good", Ok("fine"));
}

/// Decides by risk. A file named `late.txt` is denied if it exists.
struct LateFileDenyPolicy;

impl Policy for LateFileDenyPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        RiskPolicy.decide(request)
    }
}

impl CommandPolicy for LateFileDenyPolicy {
    fn denied_files(&self, workspace: &Workspace, _: usize) -> DeniedFiles {
        let late = workspace.cwd().join("late.txt");
        DeniedFiles::All(if late.exists() { vec![late] } else { Vec::new() })
    }
}

#[tokio::test]
async fn newly_denied_file_is_withheld_and_server_replaced() {
    let arena = LspFixture::with_host(
        &["peeks"],
        test_limits(),
        |_| {},
        |config| config.policy = Arc::new(LateFileDenyPolicy),
    );
    let (late, other) =
        (arena.workspace_path().join("late.txt"), arena.workspace_path().join("other"));
    let nothing = "sees `` and knows ``";
    let server = arena.start_server("peeks").await.unwrap();
    check_hover(arena.hover_with(&server, "peeks").await, "peeks", Ok(nothing));
    assert_eq!(arena.servers.verify_lease(&server).await, Ok(()));
    // More rounds than a server may fail, each with another way to create the file.
    for round in 0..4 {
        let server = arena.start_server("peeks").await.unwrap();
        check_hover(arena.hover_with(&server, "peeks").await, "peeks", Ok(nothing));
        match round {
            0 => std::fs::write(&late, "s3cret").unwrap(),
            1 => {
                // Another file replaces the hidden one.
                std::fs::write(&other, "s3cret").unwrap();
                std::fs::rename(&other, &late).unwrap();
            }
            2 => {
                std::fs::remove_file(&late).unwrap();
                std::fs::write(&late, "s3cret").unwrap();
            }
            _ => {
                // Written in place, it stays hidden.
                std::fs::write(&late, "s3cret too").unwrap();
                check_hover(arena.hover_with(&server, "peeks").await, "peeks", Ok(nothing));
                continue;
            }
        }
        let seen = "sees `s3cret` and knows ``";
        check_hover(arena.hover_with(&server, "peeks").await, "peeks", Ok(seen));
        let refused = arena.servers.verify_lease(&server).await.unwrap_err();
        assert!(refused.is_worth_restart(), "{refused}");
        assert!(!server.is_alive() && !is_process_alive(server.pid()), "{round}");
    }
    // The caches of the earlier servers were removed with them, so nothing is known even when
    // nothing is hidden any more.
    std::fs::remove_file(&late).unwrap();
    arena.servers.stop().await;
    check_hover(arena.hover("peeks").await, "peeks", Ok(nothing));
}

#[tokio::test]
async fn server_requests_change_nothing() {
    let arena = LspFixture::new(&["asks-back"]);
    let told = arena.hover("asks-back").await.unwrap().unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["workspace/configuration"], json!([[1, 2], null]));
    assert_eq!(told["client/registerCapability"], Value::Null);
    assert_eq!(told["workspace/applyEdit"]["applied"], false);
    assert_eq!(told["window/showMessageRequest"], Value::Null);
    assert_eq!(told["window/showDocument"], json!({"success": false}));
    let folder = format!("file://{}", arena.workspace_path().display());
    assert_eq!(told["workspace/workspaceFolders"][0]["uri"], folder.as_str());
    assert_eq!(told["zero/unknown"]["code"], -32601);
    assert!(!arena.workspace_path().join("evil").exists());
}

/// Decides by risk. Files named `secret.txt` are denied, and so is a command.
struct SecretDenyPolicy;

impl Policy for SecretDenyPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        RiskPolicy.decide(request)
    }
}

impl CommandPolicy for SecretDenyPolicy {
    fn denied_files(&self, workspace: &Workspace, _: usize) -> DeniedFiles {
        DeniedFiles::All(vec![workspace.cwd().join("secret.txt")])
    }
}

#[tokio::test]
async fn server_reads_project_without_writes_or_network() {
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port().to_string();
    let arena = LspFixture::with_host(
        &["confined"],
        test_limits(),
        |server| {
            server.commands[0].push(port.clone());
            server.variables = vec![("MY_VARIABLE".to_owned(), "mine".to_owned())];
        },
        |config| {
            config.policy = Arc::new(SecretDenyPolicy);
            let environment = [("OPENAI_API_KEY", "s3cret"), ("PATH", "/usr/bin:/bin")];
            config.commands.environment =
                environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        },
    );
    for name in ["plain.txt", "secret.txt"] {
        std::fs::write(arena.workspace_path().join(name), "words").unwrap();
    }
    let text = arena.hover("confined").await.unwrap().unwrap();
    assert_eq!(
        text,
        "read=yes secret=no write=no change=no git=no cache=yes tmp=yes connect=no variable=yes secrets of others=no"
    );
    assert_eq!(std::fs::read_to_string(arena.workspace_path().join("plain.txt")).unwrap(), "words");
    assert!(
        !arena.workspace_path().join("evil").exists()
            && !arena.workspace_path().join(".git").exists()
    );
}

#[tokio::test]
async fn encoding_is_negotiated_and_diagnostics_match_version() {
    let arena = LspFixture::new(&["utf-8", "good", "publishes"]);
    assert_eq!(arena.start_server("utf-8").await.unwrap().encoding(), PositionEncoding::Utf8);
    assert_eq!(arena.start_server("good").await.unwrap().encoding(), PositionEncoding::Utf16);
    let server = arena.start_server("publishes").await.unwrap();
    let path = arena.file_path("publishes");
    let text = DocumentText { path: &path, language: "x", text: "mine", is_unsaved: true };
    let told = server.sync_document(text).await.unwrap();
    let report = server.wait_for_diagnostics(&path, told, LONG_TIMEOUT).await.unwrap().unwrap();
    let messages: Vec<&str> = report.found.items.iter().map(|f| f.message.as_str()).collect();
    assert_eq!((messages, report.found.total), (vec!["saw mine"], 2));
    assert_eq!(server.unsaved_files().await, std::slice::from_ref(&path));
    // There is no report about another version.
    let later = zero_lsp::DocumentVersion { version: told.version + 1, ..told };
    let report = server.wait_for_diagnostics(&path, later, Duration::ZERO).await.unwrap();
    assert!(report.is_none());
}

#[tokio::test]
async fn file_without_server_is_reported() {
    let arena = LspFixture::with_limits(&["good", "gone"], test_limits(), |server| {
        if server.name == "gone" {
            server.commands = vec![vec!["no-such-language-server".to_owned()]];
            server.how_to_get = "`apt install gone`".to_owned();
        }
    });
    let known = arena.servers.lease_for_file(&arena.workspace_path().join("x.txt"), "x.txt").await;
    let text = known.err().unwrap().to_string();
    assert!(text.contains("`x.txt`") && text.contains(".gone .good"), "{text}");
    let text = arena.start_server("gone").await.err().unwrap().to_string();
    assert!(text.contains("is installed: install `gone` with `apt install gone`"), "{text}");
    assert!(arena.servers.lease_for_file(Path::new("/etc/x.good"), "/etc/x.good").await.is_err());
}
