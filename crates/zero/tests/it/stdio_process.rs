//! A zero that speaks JSON-RPC on stdin and stdout, as its caller sees it.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::test_program::TestProgram;

/// Lines that wait to be heard; a program that says more waits.
const LINES_MAX: usize = 4_096;
/// How long anything may take here.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running program. What it says is JSON, line by line, or the test fails.
pub(crate) struct StdioProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// What was said and nobody asked for yet.
    pub(crate) unheard: VecDeque<Value>,
    /// What is said to every question about permission; nothing where this is `None`.
    pub(crate) answer: Option<&'static str>,
    next_id: u64,
}

impl StdioProcess {
    pub(crate) fn start(zero: &TestProgram, args: &[&str]) -> Self {
        let mut command = zero.command(args);
        command.env("PATH", "/usr/bin:/bin");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = sync_channel(LINES_MAX);
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let (unheard, answer) = (VecDeque::new(), Some("allow_once"));
        Self { child, stdin, lines, unheard, answer, next_id: 1 }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line as it is.
    pub(crate) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Asks, without waiting.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&message.to_string());
        id
    }

    /// Asks, and waits for the whole answer.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.wait_for_answer(id)
    }

    /// Asks what must succeed.
    #[track_caller]
    pub(crate) fn request_ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.request(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Asks what must fail; its code and message.
    #[track_caller]
    pub(crate) fn request_error(&mut self, method: &str, params: Value) -> (i64, String) {
        let answer = self.request(method, params);
        let error = &answer["error"];
        assert!(error.is_object(), "{method}: {answer}");
        (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    #[track_caller]
    pub(crate) fn wait_for_answer(&mut self, id: u64) -> Value {
        self.wait_for_message(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Waits for a request or notification of that name.
    #[track_caller]
    pub(crate) fn wait_for_call(&mut self, method: &str) -> Value {
        self.wait_for_message(|message| message["method"] == method)
    }

    /// Waits for something that fits; what comes before is kept.
    #[track_caller]
    pub(crate) fn wait_for_message(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.unheard.iter().position(&fits) {
            return self.unheard.remove(at).unwrap();
        }
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                panic!("it did not come; what came: {:?}", self.unheard);
            };
            let message: Value = serde_json::from_str(&line).expect("only JSON on stdout");
            if message["method"] == "session/request_permission"
                && let Some(option) = self.answer
            {
                let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
                let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": outcome});
                self.write(&answer.to_string());
            }
            if fits(&message) {
                return message;
            }
            self.unheard.push_back(message);
        }
    }

    /// What was said of a session so far, by kind.
    pub(crate) fn drain_updates(&mut self) -> Vec<Value> {
        let (updates, rest) = self
            .unheard
            .drain(..)
            .partition::<VecDeque<Value>, _>(|message| message["method"] == "session/update");
        self.unheard = rest;
        updates.into_iter().map(|message| message["params"]["update"].clone()).collect()
    }

    /// Closes its stdin, and waits for its end.
    pub(crate) fn close(&mut self) -> ExitStatus {
        self.stdin = None;
        self.wait_for_exit()
    }

    /// Waits for its end.
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for StdioProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
