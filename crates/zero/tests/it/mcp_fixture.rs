//! Real servers behind `zero`, and clients in front of it.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::test_program::TestProgram;

/// How long anything may take that has to happen.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A workspace with the script of a server.
pub(crate) fn make_workspace() -> TestProgram {
    let zero = TestProgram::new();
    write_file(&zero, "server.py", include_str!("mcp_server.py"));
    zero
}

/// The settings of a server that behaves in some way.
pub(crate) fn server_setting(zero: &TestProgram, alias: &str, behaviour: &str) -> Value {
    let script = zero.folder().join("server.py");
    json!({"command": "/usr/bin/python3", "args": [script, alias, behaviour]})
}

/// A workspace with one server that works, `a`, and these permissions of the person.
pub(crate) fn program_with_server(permissions: Value) -> TestProgram {
    let zero = make_workspace();
    let servers = json!({"a": server_setting(&zero, "a", "")});
    write_settings(&zero, json!({"mcpServers": servers, "permissions": permissions}));
    zero
}

/// Writes the person's settings.
pub(crate) fn write_settings(zero: &TestProgram, settings: Value) {
    write_file(zero, USER_FILE, settings.to_string());
}

/// How often a server was started.
pub(crate) fn start_count(zero: &TestProgram, alias: &str) -> usize {
    std::fs::read(zero.folder().join(format!("started-{alias}"))).map_or(0, |marks| marks.len())
}

/// How many processes of servers there are.
pub(crate) fn process_count(zero: &TestProgram) -> usize {
    let script = zero.folder().join("server.py").display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.map(|entry| std::fs::read(entry.path().join("cmdline")));
    lines.flatten().filter(|line| String::from_utf8_lossy(line).contains(&script)).count()
}

#[track_caller]
pub(crate) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "{what} within {TIMEOUT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A client of `zero mcp` that runs it.
pub(crate) struct McpTestClient {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Value>,
    /// What was said and not asked for.
    pub(crate) others: Vec<Value>,
    last_id: u64,
}

impl McpTestClient {
    /// Starts it, and shakes hands.
    pub(crate) fn start(zero: &TestProgram, args: &[&str], capabilities: Value) -> Self {
        Self::start_with_revision("2025-11-25", zero, args, capabilities)
    }

    /// The same as a client of this revision.
    pub(crate) fn start_with_revision(
        revision: &str,
        zero: &TestProgram,
        args: &[&str],
        capabilities: Value,
    ) -> Self {
        let mut child = zero.command(&[&["mcp"], args].concat());
        let mut child = child
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, heard) = channel();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let mut client = Self { child, stdin, heard, others: Vec::new(), last_id: 0 };
        client.request("initialize", initialize_params(revision, capabilities));
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// Says something.
    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Asks, without waiting for the answer.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Asks, and waits for the answer.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send_request(method, params);
        self.wait_for_message(method, |message| {
            message["id"] == id && message.get("method").is_none()
        })
    }

    /// The first message that is meant, said before or from now on.
    #[track_caller]
    pub(crate) fn wait_for_message(
        &mut self,
        what: &str,
        is_meant: impl Fn(&Value) -> bool,
    ) -> Value {
        if let Some(place) = self.others.iter().position(&is_meant) {
            return self.others.remove(place);
        }
        let until = Instant::now() + TIMEOUT;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.heard.recv_timeout(left);
            let message =
                message.unwrap_or_else(|error| panic!("{what}: {error}; {:?}", self.others));
            if is_meant(&message) {
                return message;
            }
            self.others.push(message);
        }
    }

    /// The names of the tools that are listed.
    pub(crate) fn list_tools(&mut self) -> Vec<String> {
        let answer = self.request("tools/list", json!({}));
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until a tool is listed.
    #[track_caller]
    pub(crate) fn wait_for_tool(&mut self, name: &str) {
        let until = Instant::now() + TIMEOUT;
        while !self.list_tools().iter().any(|tool| tool == name) {
            assert!(Instant::now() < until, "{name} within {TIMEOUT:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What a call gives, as text.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> String {
        result_text(&self.request("tools/call", json!({"name": tool, "arguments": arguments})))
    }

    /// Ends its input, and gives how long it took to end.
    pub(crate) fn close(mut self) -> Duration {
        let begun = Instant::now();
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
        begun.elapsed()
    }

    /// Tells it to end by a signal, and gives how long it took to end.
    pub(crate) fn terminate(mut self, zero: &TestProgram) -> Duration {
        let begun = Instant::now();
        send_signal(zero, "TERM", self.child.id());
        self.child.wait().unwrap();
        begun.elapsed()
    }
}

impl Drop for McpTestClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process.
pub(crate) fn send_signal(zero: &TestProgram, signal: &str, pid: u32) {
    let mut kill = zero.external_command("kill");
    assert!(kill.args([format!("-{signal}"), pid.to_string()]).status().unwrap().success());
}

/// The text of an answer to a call.
pub(crate) fn result_text(answer: &Value) -> String {
    let content = answer["result"]["content"].as_array();
    let content = content.unwrap_or_else(|| panic!("no result of a call: {answer}"));
    content.iter().map(|part| part["text"].as_str().unwrap_or_default()).collect()
}

fn initialize_params(revision: &str, capabilities: Value) -> Value {
    json!({
        "protocolVersion": revision, "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "1"},
    })
}

/// A `zero mcp` that serves by HTTP.
pub(crate) struct McpHttpServer {
    child: Child,
    address: String,
    token: String,
}

impl McpHttpServer {
    pub(crate) fn start(zero: &TestProgram) -> Self {
        let mut child = zero
            .command(&["mcp", "--http", "localhost:0", "--allow-host", "Box.example.com"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let mut after = |mark: &str| -> String {
            let line = lines.find(|line| line.contains(mark)).unwrap();
            let rest = line.split_once(mark).unwrap().1;
            rest.split(['/', '`']).next().unwrap().to_owned()
        };
        let (address, token) = (after("http://"), after("Bearer "));
        // Whatever else it says is read, so that it never waits for it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, token }
    }

    /// Opens a session, and gives its id.
    pub(crate) fn open_session(&self) -> String {
        let (head, _) = self.post(None, "initialize", initialize_params("2025-11-25", json!({})));
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        let id = lines
            .filter(|(name, _)| name.eq_ignore_ascii_case("mcp-session-id"))
            .map(|(_, id)| id.to_owned())
            .next();
        id.unwrap_or_else(|| panic!("no session: {head}"))
    }

    /// What a call gives, as text.
    pub(crate) fn call(&self, session: &str, tool: &str) -> String {
        let params = json!({"name": tool, "arguments": {}});
        let (head, body) = self.post(Some(session), "tools/call", params);
        let mut events = body.lines().filter_map(|line| line.strip_prefix("data: "));
        let event = events.rfind(|event| event.contains("\"result\""));
        let json = event.or_else(|| body.lines().find(|line| line.starts_with('{')));
        let json = json.unwrap_or_else(|| panic!("no answer: {head}\n{body}"));
        result_text(&serde_json::from_str(json).unwrap())
    }

    /// The status of a request that is addressed to some host.
    pub(crate) fn status_for(&self, host: &str) -> String {
        let (head, _) =
            self.post_to(host, None, "initialize", initialize_params("2025-11-25", json!({})));
        head.split(' ').nth(1).unwrap().to_owned()
    }

    fn post(&self, session: Option<&str>, method: &str, params: Value) -> (String, String) {
        self.post_to(&self.address, session, method, params)
    }

    fn post_to(
        &self,
        host: &str,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> (String, String) {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let body = body.to_string();
        let session = session
            .map(|id| format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n"));
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             accept: application/json, text/event-stream\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n{}\r\n",
            host,
            self.token,
            body.len(),
            session.unwrap_or_default()
        );
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }
}

impl Drop for McpHttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
