//! Setting up a model: `zero login`, `zero logout`, `zero models`, and what zero says without one.

#![expect(clippy::disallowed_methods, reason = "tests set up and read real files")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::config::USER_FILE;
use crate::model_server::ModelServer;
use crate::terminal_process::TerminalProcess;
use crate::test_program::TestProgram;

const KEY: &str = "sk-test-0123456789abcdef";
const KEY_FILE: &str = "home/.local/state/zero/keys/work";

/// A server that refuses every request with a status, and keeps the heads of requests.
fn refusing_server(status: &'static str) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&heads);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let before = head.len();
                if reader.read_line(&mut head).unwrap_or(0) == 0 {
                    break;
                }
                let line = head[before..].to_ascii_lowercase();
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or(0);
                }
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            kept.lock().unwrap().push(head);
            let answer = format!(
                "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, heads)
}

fn settings(zero: &TestProgram) -> Value {
    serde_json::from_str(&std::fs::read_to_string(zero.folder().join(USER_FILE)).unwrap()).unwrap()
}

#[test]
fn login_tests_stores_key_privately_and_sets_default() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let url = format!("http://127.0.0.1:{}/v1", model.port());
    let args =
        ["login", "--provider", "work", "--base-url", &url, "--model", "large", "--key-stdin"];
    let text = zero.run_with_input(&args, &format!("{KEY}\n"));
    assert!(text.starts_with("exit 0\nstored the key in ~/.local/state/zero/keys/work"), "{text}");
    assert!(!text.contains(KEY), "{text}");
    assert_eq!(model.requests().len(), 1, "one test request");
    assert_eq!(model.requests()[0]["model"], "large");
    let file = zero.folder().join(KEY_FILE);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), KEY);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let expected = json!({
        "models": {"work": {"api": "chat", "model": "large", "baseUrl": url,
            "apiKey": {"file": "~/.local/state/zero/keys/work"}}},
        "model": "work",
    });
    assert_eq!(settings(&zero), expected);

    let answered = zero.run(&["run", "hello"]);
    assert!(answered.starts_with("exit 0\n"), "{answered}");
    // Other models of the same server need no entry of their own.
    zero.run(&["run", "--model", "work/small", "hello"]);
    assert_eq!(model.requests().last().unwrap()["model"], "small");
    let listed: Value = serde_json::from_str(&zero.stdout(&["models", "--json"])).unwrap();
    assert_eq!(listed["default"], "work");
    assert_eq!(
        (&listed["models"][0]["name"], &listed["models"][0]["key"]),
        (&json!("work"), &json!("found"))
    );

    let gone = zero.run(&["logout", "work"]);
    assert!(gone.starts_with("exit 0\nremoved the key of `work`\n"), "{gone}");
    assert!(!file.exists());
    assert_eq!(settings(&zero), json!({"models": {}}));
    assert!(zero.run(&["logout", "work"]).starts_with("exit 1\n"));
}

#[test]
fn failed_test_stores_nothing_and_says_what_to_check() {
    for (status, expected) in [
        ("401 Unauthorized", "check the key\nnothing was stored"),
        ("404 Not Found", "check `--base-url`"),
    ] {
        let zero = TestProgram::new();
        let (port, heads) = refusing_server(status);
        let url = format!("http://127.0.0.1:{port}/v1");
        let args =
            ["login", "--provider", "work", "--base-url", &url, "--model", "m", "--key-stdin"];
        let text = zero.run_with_input(&args, KEY);
        assert!(text.starts_with("exit 1\n") && text.contains(expected), "{text}");
        assert!(text.contains("nothing was stored") && !text.contains(KEY), "{text}");
        assert!(heads.lock().unwrap()[0].contains(&format!("Bearer {KEY}")));
        assert!(!zero.folder().join(USER_FILE).exists() && !zero.folder().join(KEY_FILE).exists());
    }
}

#[test]
fn login_without_terminal_says_what_is_missing() {
    let zero = TestProgram::new();
    for (args, expected) in [
        (&["login"][..], "cannot ask without a terminal; pass `--provider`"),
        (&["login", "--provider", "anthropic"], "Anthropic needs a key; pass `--key-stdin`"),
        (
            &["login", "--provider", "nobody"],
            "`nobody` is not a known provider; use one of openai,",
        ),
        (
            &["login", "--provider", "work", "--base-url", "http://127.0.0.1:9/v1"],
            "no model server answers at http://127.0.0.1:9/v1; start it, or pass its name with `--model`",
        ),
    ] {
        let text = zero.run(args);
        assert!(text.starts_with("exit 2\n") && text.contains(expected), "{args:?}: {text}");
    }
    assert!(std::fs::read_dir(zero.folder().join("home")).unwrap().next().is_none());
}

#[test]
fn login_at_terminal_asks_step_by_step_and_hides_key() {
    let zero = TestProgram::new();
    let mut command = zero.command(&["login", "--no-test"]);
    command.env("NO_COLOR", "1");
    let mut terminal = TerminalProcess::start(command);
    terminal.wait_for_text("Enter: choose");
    terminal.type_keys("anthropic\r");
    terminal.wait_for_text("Model [claude-sonnet-4-5]: ");
    terminal.type_keys("\n");
    terminal.wait_for_text("(input is hidden): ");
    terminal.type_keys(&format!("{KEY}\n"));
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("API key of Anthropic") && !seen.contains(KEY), "{seen}");
    assert_eq!(settings(&zero)["models"]["anthropic"]["api"], "anthropic");
    assert_eq!(settings(&zero)["model"], "anthropic");
}

#[test]
fn server_that_wants_key_is_asked_with_one() {
    let zero = TestProgram::new();
    let (port, heads) = refusing_server("401 Unauthorized");
    let url = format!("http://127.0.0.1:{port}/v1");
    let args = ["login", "--provider", "work", "--base-url", &url, "--model", "m"];
    let text = zero.run(&args);
    assert!(text.contains("pass the key with `--key-stdin`"), "{text}");
    let mut command = zero.command(&args);
    command.env("NO_COLOR", "1");
    let mut terminal = TerminalProcess::start(command);
    terminal.wait_for_text("API key of work (input is hidden): ");
    terminal.type_keys(&format!("{KEY}\n"));
    let (code, seen) = terminal.wait_for_exit();
    assert!(code == 1 && !seen.contains(KEY), "{seen}");
    // Messages are wrapped at words.
    let words = seen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("; check the key nothing was stored"), "{seen}");
    assert!(heads.lock().unwrap().last().unwrap().contains(&format!("Bearer {KEY}")));
}

#[test]
fn prompt_without_model_fails_with_what_to_do() {
    let zero = TestProgram::new();
    for args in [&["run", "hello"][..], &["run", "--json", "hello"]] {
        let text = zero.run(args);
        assert!(text.starts_with("exit 1\n--- stderr\n"), "{text}");
        assert!(text.contains("no model is configured; run `zero login`"), "{text}");
    }
    let sessions: Value =
        serde_json::from_str(&zero.stdout(&["sessions", "list", "--json"])).unwrap();
    assert_eq!(sessions.as_array().map(Vec::len), Some(0), "{sessions}");
    std::fs::write(zero.folder().join("a.txt"), "needs no model\n").unwrap();
    assert!(zero.stdout(&["run", "/read a.txt"]).contains("needs no model"));
    assert!(zero.run(&["run", "--agent", "direct", "hello"]).starts_with("exit 0\n"));
    let models = zero.run(&["models"]);
    assert!(models.starts_with("exit 1\n"), "{models}");
    assert!(models.contains("to set one up, run `zero login`"), "{models}");
}

#[test]
fn second_login_keeps_other_settings_of_the_model() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let url = format!("http://127.0.0.1:{}/v1", model.port());
    let args = ["login", "--provider", "work", "--base-url", &url, "--model", "large"];
    zero.stdout(&args);
    zero.stdout(&["config", "set", "models.work.contextWindow", "32768"]);
    zero.stdout(&["login", "--provider", "work", "--base-url", &url, "--model", "small"]);
    let expected = json!({"api": "chat", "model": "small", "baseUrl": url, "contextWindow": 32768});
    assert_eq!(settings(&zero)["models"]["work"], expected);
}

#[test]
fn key_goes_to_the_server_that_the_environment_names() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let url = format!("http://127.0.0.1:{}/v1", model.port());
    let mut command = zero.command(&["login", "--provider", "openai", "--key-stdin"]);
    command.env("OPENAI_BASE_URL", &url).stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut login = command.spawn().unwrap();
    writeln!(login.stdin.take().unwrap(), "{KEY}").unwrap();
    let text = zero.render_output(&login.wait_with_output().unwrap());
    assert!(
        text.starts_with("exit 0") && text.contains("OPENAI_BASE_URL names the server"),
        "{text}"
    );
    assert_eq!(model.requests().len(), 1);
    assert_eq!(settings(&zero)["models"]["openai"]["baseUrl"], json!(url));
}
