//! A language server for tests that misbehaves in the way that its first argument names. It
//! implements the protocol by hand, since no library would let it do most of this.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "it misbehaves on purpose, and is not part of the product"
)]

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Stdin, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match mode.as_str() {
        "garbage" => send_raw(b"Server ready, listening on stdio\n"),
        "silent" => sleep(FOR_EVER),
        "crash" => {
            eprintln!("cannot find my configuration\u{1b}[2J");
            return ExitCode::from(3);
        }
        "stand-in" => {
            eprintln!("error: Unknown binary 'rust-analyzer' in official toolchain 'stable'.\n");
            return ExitCode::from(1);
        }
        _ => {}
    }
    let mut server = HostileServer {
        input: BufReader::new(std::io::stdin()),
        mode,
        root: PathBuf::new(),
        open: HashSet::new(),
        wrong: Vec::new(),
    };
    while let Some(message) = server.next_message() {
        if let Some(code) = server.handle_message(&message) {
            return code;
        }
    }
    if server.mode == "ignores-the-end" {
        sleep(FOR_EVER);
    }
    ExitCode::SUCCESS
}

struct HostileServer {
    input: BufReader<Stdin>,
    mode: String,
    root: PathBuf,
    /// The open files, and the notifications that did not match that state.
    open: HashSet<String>,
    wrong: Vec<String>,
}

impl HostileServer {
    fn next_message(&mut self) -> Option<Value> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim().split_once(':') {
                Some(("Content-Length", number)) => length = number.trim().parse().ok()?,
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.input.read_exact(&mut body).ok()?;
        serde_json::from_slice(&body).ok()
    }

    fn handle_message(&mut self, message: &Value) -> Option<ExitCode> {
        let id = &message["id"];
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                self.root = message["params"]["rootPath"].as_str().unwrap_or_default().into();
                self.reply_initialize(id);
            }
            "textDocument/hover" => return self.handle_hover(id),
            "initialized" if self.mode == "deaf" => sleep(FOR_EVER),
            "initialized" if self.mode == "hangs-up" => close_input(),
            method if self.mode == "minds-the-order" => self.check_document_state(method, message),
            "textDocument/didOpen" if self.mode == "publishes" => publish_diagnostics(message),
            "shutdown" if self.mode != "ignores-the-end" => send_reply(id, Value::Null),
            "exit" if self.mode != "ignores-the-end" => return Some(ExitCode::SUCCESS),
            _ => {}
        }
        None
    }

    /// Records a notification that does not match the open or closed state of its file.
    fn check_document_state(&mut self, method: &str, message: &Value) {
        let uri = message["params"]["textDocument"]["uri"].as_str().unwrap_or_default().to_owned();
        let is_right = match method {
            "textDocument/didOpen" => self.open.insert(uri),
            "textDocument/didClose" => self.open.remove(&uri),
            "textDocument/didChange" | "textDocument/didSave" => self.open.contains(&uri),
            _ => true,
        };
        if !is_right {
            self.wrong.push(method.to_owned());
        }
    }

    fn reply_initialize(&self, id: &Value) {
        match self.mode.as_str() {
            "refuses" => send_message(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "not\u{7} today"}}),
            ),
            "odd-units" => send_reply(id, json!({"capabilities": {"positionEncoding": "ebcdic"}})),
            "offers-nothing" => send_reply(id, json!({"capabilities": {}})),
            "utf-8" => send_reply(
                id,
                json!({"capabilities": {"positionEncoding": "utf-8", "hoverProvider": true}}),
            ),
            _ => send_reply(id, json!({"capabilities": {"hoverProvider": true}})),
        }
    }

    fn handle_hover(&mut self, id: &Value) -> Option<ExitCode> {
        match self.mode.as_str() {
            "never-answers" => {}
            "crash-on-ask" => std::process::abort(),
            "crash-once" => {
                let mark = cache_dir().join("crashed");
                if !mark.exists() {
                    std::fs::write(mark, "").unwrap_or_default();
                    eprintln!("out of luck");
                    return Some(ExitCode::from(7));
                }
                reply_hover(id, "recovered");
            }
            "garbage-later" => send_raw(b"\x00\x01\x02 what is this"),
            "giant" => send_raw(b"Content-Length: 99999999999\r\n\r\n"),
            "giant-number" => send_raw(b"Content-Length: 999999999999999999999999\r\n\r\n{}"),
            "deep" => {
                let deep = "[".repeat(100_000);
                send_raw(format!("Content-Length: {}\r\n\r\n{deep}", deep.len()).as_bytes());
            }
            "wrong-ids" => {
                for wrong in [json!(999_999), json!("1"), Value::Null, json!([1]), json!(-5)] {
                    send_reply(&wrong, json!({"contents": "wrong"}));
                }
                send_raw(b"Content-Length: 3\r\n\r\n{]x");
                reply_hover(id, "right");
                send_reply(id, json!({"contents": "twice"}));
            }
            "no-result" => send_message(&json!({"jsonrpc": "2.0", "id": id})),
            "odd-result" => send_reply(id, json!([1, 2, 3])),
            "error" => send_message(
                &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "it\u{1b}[2J broke"}}),
            ),
            "overtaken" => {
                let mark = cache_dir().join("overtaken");
                match mark.exists() {
                    true => reply_hover(id, "settled"),
                    false => {
                        std::fs::write(mark, "").unwrap_or_default();
                        send_message(
                            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32801, "message": "content modified"}}),
                        );
                    }
                }
            }
            "asks-back" => self.send_client_requests(id),
            "floods" => loop {
                send_message(
                    &json!({"jsonrpc": "2.0", "id": 1, "method": "workspace/configuration", "params": {"items": [{"section": ""}]}}),
                );
            },
            "nonsense" => loop {
                send_message(&json!({"jsonrpc": "2.0", "id": 12_345, "result": 1}));
            },
            "confined" => reply_hover(id, &self.probe_sandbox()),
            "minds-the-order" => reply_hover(id, &format!("wrong: {}", self.wrong.join(" "))),
            "peeks" => {
                let seen = std::fs::read_to_string(self.root.join("late.txt")).unwrap_or_default();
                let known = std::fs::read_to_string(cache_dir().join("seen")).unwrap_or_default();
                if !seen.is_empty() {
                    std::fs::write(cache_dir().join("seen"), &seen).unwrap_or_default();
                }
                reply_hover(id, &format!("sees `{seen}` and knows `{known}`"));
            }
            "long-names" => {
                let name = "x".repeat(1 << 20);
                loop {
                    send_message(
                        &json!({"jsonrpc": "2.0", "id": name, "method": "workspace/workspaceFolders"}),
                    );
                }
            }
            _ => reply_hover(id, "fine"),
        }
        None
    }

    /// Sends every request that a server can send to a client, and reports the replies.
    fn send_client_requests(&mut self, id: &Value) {
        let root = self.root.display();
        let edit = json!({"changes": {format!("file://{root}/evil"): [{"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}, "newText": "evil"}]}});
        let questions = [
            ("workspace/configuration", json!({"items": [{"section": "a.b"}, {"section": "zzz"}]})),
            (
                "client/registerCapability",
                json!({"registrations": [{"id": "1", "method": "workspace/didChangeWatchedFiles"}]}),
            ),
            ("workspace/applyEdit", json!({"edit": edit})),
            (
                "window/showMessageRequest",
                json!({"type": 1, "message": "Delete all?", "actions": [{"title": "Yes"}]}),
            ),
            ("window/showDocument", json!({"uri": "https://example.com", "external": true})),
            ("workspace/workspaceFolders", Value::Null),
            ("zero/unknown", json!({})),
        ];
        let mut answers = serde_json::Map::new();
        for (number, (method, params)) in questions.into_iter().enumerate() {
            let question = format!("q{number}");
            send_message(
                &json!({"jsonrpc": "2.0", "id": question, "method": method, "params": params}),
            );
            while let Some(message) = self.next_message() {
                if message["id"] == question.as_str() {
                    let answer = message.get("result").or_else(|| message.get("error"));
                    answers.insert(method.to_owned(), answer.cloned().unwrap_or_default());
                    break;
                }
            }
        }
        reply_hover(id, &Value::Object(answers).to_string());
    }

    /// Tries what the sandbox must prevent, and reports what succeeded.
    fn probe_sandbox(&self) -> String {
        let works = |what: &str, done: bool| format!("{what}={}", if done { "yes" } else { "no" });
        let read =
            |name: &str| std::fs::read(self.root.join(name)).is_ok_and(|text| !text.is_empty());
        let write = |path: PathBuf| std::fs::write(path, "evil").is_ok();
        let port = std::env::args().nth(2).unwrap_or_default();
        let messages = [
            works("read", read("plain.txt")),
            works("secret", read("secret.txt")),
            works("write", write(self.root.join("evil"))),
            works("change", write(self.root.join("plain.txt"))),
            works("git", std::fs::create_dir_all(self.root.join(".git/hooks")).is_ok()),
            works("cache", write(cache_dir().join("made"))),
            works("tmp", write(std::env::temp_dir().join("made"))),
            works("connect", std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()),
            works("variable", std::env::var("MY_VARIABLE").is_ok_and(|value| value == "mine")),
            works("secrets of others", std::env::var("OPENAI_API_KEY").is_ok()),
        ];
        messages.join(" ")
    }
}

/// Closes stdin and keeps running, as the same process with another stdin.
fn close_input() {
    let Ok(program) = std::env::current_exe() else { return };
    let _ = Command::new(program).arg("silent").stdin(Stdio::null()).exec();
}

/// Returns the cache folder of this server.
fn cache_dir() -> PathBuf {
    std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).unwrap_or_default()
}

fn publish_diagnostics(message: &Value) {
    let document = &message["params"]["textDocument"];
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}});
    let text = document["text"].as_str().unwrap_or_default();
    send_message(
        &json!({"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": {
            "uri": document["uri"],
            "version": document["version"],
            "diagnostics": [{"range": range, "message": format!("saw {text}"), "severity": 1}, 7],
        }}),
    );
}

fn reply_hover(id: &Value, text: &str) {
    send_reply(id, json!({"contents": text}));
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass a new value")]
fn send_reply(id: &Value, result: Value) {
    send_message(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn send_message(message: &Value) {
    let body = message.to_string();
    send_raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
}

fn send_raw(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    // The client closed the pipe.
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
