//! A client of `zero acp` that speaks the wire itself: lines of JSON, as any editor would write them.
//!
//! Everything that is said, by either side, is kept in the order in which it was said and heard, and
//! held against [`protocol_rules`](super::rules) when the client leaves.

#![expect(clippy::disallowed_methods, reason = "tests use real processes directly")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::protocol_rules;
use crate::gateway_process::wait_for_child;
use crate::test_program::TestProgram;

/// Longer than any step here takes, so that a test fails instead of hanging.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessagePeer {
    Agent,
    Client,
}

/// Something that was said.
#[derive(Clone, Debug)]
pub(crate) struct RecordedMessage {
    pub(crate) by: MessagePeer,
    pub(crate) message: Value,
}

/// How the client answers what the agent asks.
pub(crate) enum ClientReply {
    Result(Value),
    Error(i64),
    /// An error as it is.
    Failure(Value),
    /// Later, or never.
    Defer,
}

type ReplyPolicy = Box<dyn FnMut(&str, &Value) -> ClientReply>;

/// The client, and the agent that it started.
pub(crate) struct AcpClient {
    child: Child,
    /// What the kernel calls the pipe that is the agent's stdout.
    pub(crate) wire: PathBuf,
    stdin: Option<ChildStdin>,
    ear: Arc<AgentReader>,
    heard: Receiver<Vec<u8>>,
    stderr: Option<JoinHandle<String>>,
    log: Vec<RecordedMessage>,
    policy: ReplyPolicy,
    last_id: u64,
    /// Lines that are no messages; each has an answer that belongs to nothing.
    garbage: usize,
    has_left: bool,
}

impl AcpClient {
    /// Starts the agent and says nothing.
    pub(crate) fn spawn(zero: &TestProgram, args: &[&str]) -> Self {
        let mut child = zero
            .command(&[&["acp"], args].concat())
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, heard) = channel();
        let ear = Arc::new(AgentReader::default());
        let (stdout, listening) = (child.stdout.take().unwrap(), Arc::clone(&ear));
        let wire = format!("/proc/self/fd/{}", stdout.as_raw_fd());
        let wire = std::fs::read_link(wire).unwrap();
        std::thread::spawn(move || listening.forward_lines(stdout, &tell));
        let mut words = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = words.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self {
            stdin: child.stdin.take(),
            child,
            wire,
            ear,
            heard,
            stderr: Some(stderr),
            log: Vec::new(),
            policy: Box::new(default_reply),
            last_id: 0,
            garbage: 0,
            has_left: false,
        }
    }

    /// Reads nothing more that the agent writes, but for a line that is read already.
    pub(crate) fn stop_reading(&self) {
        *self.ear.is_shut.lock().unwrap() = true;
    }

    /// Reads again.
    pub(crate) fn resume_reading(&self) {
        *self.ear.is_shut.lock().unwrap() = false;
        self.ear.opened.notify_all();
    }

    /// Starts the agent and shakes hands.
    pub(crate) fn start(zero: &TestProgram, args: &[&str], can: Value) -> Self {
        let mut acp = Self::spawn(zero, args);
        acp.initialize(can);
        acp
    }

    pub(crate) fn initialize(&mut self, can: Value) -> Value {
        let params = json!({"protocolVersion": 1, "clientCapabilities": can,
            "clientInfo": {"name": "test", "version": "1"}});
        self.call_ok("initialize", params)
    }

    /// Answers what the agent asks from now on in this way.
    pub(crate) fn set_reply_policy(
        &mut self,
        policy: impl FnMut(&str, &Value) -> ClientReply + 'static,
    ) {
        self.policy = Box::new(policy);
    }

    /// Answers every permission with this option.
    pub(crate) fn always_select(&mut self, option: &'static str) {
        self.set_reply_policy(move |method, _| match method {
            "session/request_permission" => ClientReply::Result(selected_outcome(option)),
            _ => ClientReply::Error(-32601),
        });
    }

    /// Asks, and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.wait(&id)
    }

    /// The result of a request that must succeed.
    #[track_caller]
    pub(crate) fn call_ok(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params);
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The error of a request that must fail, with this code.
    #[track_caller]
    pub(crate) fn call_error(&mut self, method: &str, params: Value, code: i64) -> Value {
        let shown = truncate_json(&params);
        let answer = self.call(method, params);
        let error = answer.expect_err(&format!("{method} {shown}"));
        assert_eq!(error["code"], code, "{method} {shown}: {error}");
        error
    }

    /// Asks; the answer is [waited for](Self::wait) later.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let id = json!(self.last_id);
        self.request_as(&id, method, params);
        id
    }

    pub(crate) fn request_as(&mut self, id: &Value, method: &str, params: Value) {
        self.send_message(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.send_message(json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub(crate) fn wait(&mut self, id: &Value) -> Result<Value, Value> {
        let answer = self.wait_for_message(0, &format!("answer to {id}"), |message| {
            message["id"] == *id && message.get("method").is_none()
        });
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// Whether a request has its answer already.
    pub(crate) fn is_answered(&self, id: &Value) -> bool {
        self.agent_messages().any(|message| message["id"] == *id && message.get("method").is_none())
    }

    /// Says a line that is no message, and gives back the error that it gets.
    pub(crate) fn send_garbage(&mut self, line: &[u8]) -> Value {
        self.garbage += 1;
        let from = self.log_position();
        self.send_bytes(line);
        self.send_bytes(b"\n");
        let answer = self.wait_for_message(from, "answer to a line that is none", |message| {
            message.get("error").is_some() && message["id"].is_null()
        });
        answer["error"].clone()
    }

    /// Says a message in this very spelling.
    pub(crate) fn send_message_text(&mut self, line: &str) {
        let message = serde_json::from_str(line).unwrap();
        self.log.push(RecordedMessage { by: MessagePeer::Client, message });
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// Writes bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Answers something that was held.
    pub(crate) fn reply(&mut self, id: &Value, result: Value) {
        self.send_message(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Where the log stands.
    pub(crate) fn log_position(&self) -> usize {
        self.log.len()
    }

    pub(crate) fn log(&self) -> &[RecordedMessage] {
        &self.log
    }

    /// Everything that the agent said so far.
    pub(crate) fn agent_messages(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.log.iter().filter(|entry| entry.by == MessagePeer::Agent).map(|entry| &entry.message)
    }

    /// Waits until the agent has said something, from a mark on.
    #[track_caller]
    pub(crate) fn wait_for_message(
        &mut self,
        from: usize,
        what: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Value {
        let by = Instant::now() + TIMEOUT;
        let mut at = from;
        loop {
            while let Some(entry) = self.log.get(at) {
                at += 1;
                if entry.by == MessagePeer::Agent && is_it(&entry.message) {
                    return entry.message.clone();
                }
            }
            if let Err(why) = self.receive_next(by) {
                self.fail(&format!("waiting for {what}: {why}"));
            }
        }
    }

    /// Waits until the agent asks something.
    #[track_caller]
    pub(crate) fn wait_for_request(&mut self, from: usize, method: &str) -> Value {
        self.wait_for_message(from, method, |message| {
            message["method"] == method && message.get("id").is_some()
        })
    }

    /// Waits until an update of a session is told.
    #[track_caller]
    pub(crate) fn wait_for_update(
        &mut self,
        from: usize,
        what: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Value {
        let message = self.wait_for_message(from, what, |message| {
            message["method"] == "session/update" && is_it(&message["params"]["update"])
        });
        message["params"]["update"].clone()
    }

    /// The updates of a session that were told since a mark.
    pub(crate) fn updates(&self, from: usize, session: &str) -> Vec<Value> {
        let entry = self.log.iter().skip(from).filter(|entry| entry.by == MessagePeer::Agent);
        let of_session = entry.filter(|entry| {
            entry.message["method"] == "session/update"
                && entry.message["params"]["sessionId"] == session
        });
        of_session.map(|entry| entry.message["params"]["update"].clone()).collect()
    }

    /// What the agent asked since a mark.
    pub(crate) fn requests(&self, from: usize, method: &str) -> Vec<Value> {
        let entry = self.log.iter().skip(from).filter(|entry| entry.by == MessagePeer::Agent);
        let asked = entry
            .filter(|entry| entry.message["method"] == method && entry.message.get("id").is_some());
        asked.map(|entry| entry.message.clone()).collect()
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// A number of kilobytes out of what the kernel says of the agent, such as `VmHWM`.
    pub(crate) fn memory_kb(&self, name: &str) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process_id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Leaves when everything is answered; the agent must end well. Gives back what it wrote for
    /// people.
    #[track_caller]
    pub(crate) fn close(mut self) -> String {
        for id in protocol_rules::unanswered_requests(&self.log) {
            let _ = self.wait(&id);
        }
        let (status, stderr) = self.disconnect();
        assert_eq!(status.code(), Some(0), "{stderr}");
        stderr
    }

    /// Closes stdin, whatever is going on, and waits for the end.
    #[track_caller]
    pub(crate) fn disconnect(&mut self) -> (ExitStatus, String) {
        let (status, stderr) = self.disconnect_unchecked();
        let faults = protocol_rules::find_violations(&self.log, self.garbage);
        assert!(faults.is_empty(), "{faults:#?}\n{}--- stderr\n{stderr}", self.render_log());
        (status, stderr)
    }

    /// The same after a talk that the rules cannot follow: the client itself broke them.
    #[track_caller]
    pub(crate) fn disconnect_unchecked(&mut self) -> (ExitStatus, String) {
        self.resume_reading();
        self.has_left = true;
        drop(self.stdin.take());
        let status = wait_for_child(&mut self.child);
        let by = Instant::now() + TIMEOUT;
        loop {
            match self.receive_next(by) {
                Ok(()) => {}
                Err("it said no more") => break,
                Err(why) => self.fail(why),
            }
        }
        (status, self.stderr.take().unwrap().join().unwrap())
    }

    /// Hears one line, and answers it if it is a question.
    fn receive_next(&mut self, by: Instant) -> Result<(), &'static str> {
        let left = by.saturating_duration_since(Instant::now());
        let line = match self.heard.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err("it takes too long"),
            Err(RecvTimeoutError::Disconnected) => return Err("it said no more"),
        };
        let text = std::str::from_utf8(&line).expect("what is said is UTF-8");
        assert!(text.ends_with('\n'), "a line ends: {text:?}");
        let message: Value = serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("what is said is JSON ({error}): {text:?}"));
        assert!(message.is_object(), "what is said is an object: {text:?}");
        self.log.push(RecordedMessage { by: MessagePeer::Agent, message: message.clone() });
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            return Ok(());
        };
        if self.stdin.is_none() {
            return Ok(());
        }
        match (self.policy)(method, &message["params"]) {
            ClientReply::Result(result) => self.reply(id, result),
            ClientReply::Error(code) => {
                let error = json!({"code": code, "message": "no"});
                self.send_message(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            ClientReply::Failure(error) => {
                self.send_message(json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            ClientReply::Defer => {}
        }
        Ok(())
    }

    fn send_message(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.log.push(RecordedMessage { by: MessagePeer::Client, message });
        self.send_bytes(line.as_bytes());
    }

    #[track_caller]
    fn fail(&mut self, why: &str) -> ! {
        let _ = self.child.kill();
        let stderr = self.stderr.take().map(|stderr| stderr.join().unwrap()).unwrap_or_default();
        panic!("{why}\n{}--- stderr\n{stderr}", self.render_log());
    }

    /// The talk, for a person.
    fn render_log(&self) -> String {
        let line = |entry: &RecordedMessage| {
            let arrow = if entry.by == MessagePeer::Agent { "<" } else { ">" };
            format!("{arrow} {}\n", truncate_json(&entry.message))
        };
        self.log.iter().map(line).collect()
    }
}

impl Drop for AcpClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        assert!(
            self.has_left || std::thread::panicking(),
            "a client leaves, so that it is checked"
        );
    }
}

/// What listens to the agent, unless it is shut.
#[derive(Default)]
struct AgentReader {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl AgentReader {
    fn forward_lines(&self, stdout: ChildStdout, tell: &Sender<Vec<u8>>) {
        let mut reader = BufReader::new(stdout);
        loop {
            let is_shut = self.is_shut.lock().unwrap();
            drop(self.opened.wait_while(is_shut, |is_shut| *is_shut).unwrap());
            let mut line = Vec::new();
            match reader.read_until(b'\n', &mut line) {
                Ok(1..) if tell.send(line).is_ok() => {}
                _ => return,
            }
        }
    }
}

/// The usual client: says yes once, and can nothing else.
fn default_reply(method: &str, _params: &Value) -> ClientReply {
    match method {
        "session/request_permission" => ClientReply::Result(selected_outcome("allow_once")),
        _ => ClientReply::Error(-32601),
    }
}

/// The answer to a permission that chooses an option.
pub(crate) fn selected_outcome(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}

/// The answer to a permission of somebody who gives up.
pub(crate) fn cancelled_outcome() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

fn truncate_json(value: &Value) -> String {
    const CHARS_MAX: usize = 1_000;
    let text = value.to_string();
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
