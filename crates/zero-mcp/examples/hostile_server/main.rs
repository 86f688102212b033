//! A server that misbehaves in the way that its first argument names, for the tests of the client.
//! It implements the protocol itself, because no SDK would allow most of this: the older one with a
//! handshake, and in modes that start with `modern-` the newer one without.
//!
//! Its second argument is a unique number of seconds to sleep for. All its processes have that
//! number among their arguments, so that a test can tell whether one is left.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "it misbehaves on purpose, and is no part of the product"
)]

mod modern_protocol;
mod output;
mod tool_calls;
mod tool_lists;

use std::io::{BufRead as _, BufReader, Stdin, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::output::{error_reply, reply, write_message, write_raw};

/// Longer than any test waits.
const LONG_SLEEP: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let input = BufReader::new(std::io::stdin());
    let mut server = HostileMcpServer { input, mode, calls: 0, lists: 0, listens: 0 };
    if let Some(code) = server.misbehave_before_reading() {
        return code;
    }
    while let Some(message) = server.next_message() {
        if let Some(code) = server.answer(&message) {
            return code;
        }
    }
    match server.mode.as_str() {
        "ignores-the-end" => sleep(LONG_SLEEP),
        "ignores-every-end" => {
            exec_script("trap '' TERM INT HUP; while :; do sleep $0 & wait; done")
        }
        _ => {}
    }
    ExitCode::SUCCESS
}

struct HostileMcpServer {
    input: BufReader<Stdin>,
    mode: String,
    calls: u32,
    lists: u32,
    listens: u32,
}

impl HostileMcpServer {
    fn is_mode(&self, mode: &str) -> bool {
        self.mode == mode
    }

    /// What it does before it reads.
    fn misbehave_before_reading(&mut self) -> Option<ExitCode> {
        match self.mode.as_str() {
            "exits-at-once" => {
                eprintln!("cannot find my configuration");
                return Some(ExitCode::from(3));
            }
            "dies-by-signal" => std::process::abort(),
            "never-answers" => sleep(LONG_SLEEP),
            "talks-text" => loop {
                write_raw(b"Server listening! No MCP here.\n");
                sleep(Duration::from_millis(20));
            },
            "logs-json-first" => {
                for number in 0..20_000 {
                    write_message(
                        &json!({"level": "info", "number": number, "text": "starting up, please wait"}),
                    );
                }
                for _ in 0..1_000 {
                    write_raw(b"[]\n17\n\"text\"\nnull\n{}\n");
                }
            }
            "prints-a-banner" => write_raw(b"\xef\xbb\xbfWelcome!\r\n\r\n   \r\n"),
            "speaks-bytes" => {
                let noise: Vec<u8> = (0..=255_u8).filter(|byte| *byte != b'\n').collect();
                for _ in 0..2_000 {
                    write_raw(&noise);
                }
                write_raw(b"\n");
            }
            "endless-line" => loop {
                write_raw(&[b'a'; 65_536]);
            },
            "closes-its-output" => close_output(),
            "floods-errors" => {
                std::thread::spawn(|| {
                    let line = [b'e'; 4096];
                    for _ in 0..25_000 {
                        let _ = std::io::stderr().write_all(&line);
                        let _ = std::io::stderr().write_all(b"\n");
                    }
                });
            }
            "leaves-a-child" => {
                for _ in 0..3 {
                    let _ =
                        Command::new("setsid").args(["-f", "sleep", &sleep_seconds_arg()]).spawn();
                }
            }
            "answers-ahead" => {
                for id in 0..200 {
                    let forged = json!({"content": [{"type": "text", "text": "forged"}]});
                    write_message(&reply(&json!(id), forged));
                }
            }
            "drips-for-ever" => loop {
                write_raw(b" ");
                sleep(Duration::from_millis(20));
            },
            "talks-on-the-wrong-stream" => loop {
                eprintln!("{}", reply(&json!(1), json!({})));
                sleep(Duration::from_millis(50));
            },
            _ => {}
        }
        None
    }

    fn next_message(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Ok(message) = serde_json::from_str(&line) {
                return Some(message);
            }
        }
    }

    fn answer(&mut self, message: &Value) -> Option<ExitCode> {
        let id = &message["id"];
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" => self.discover(id),
            "subscriptions/listen" => self.listen(id),
            "initialize" => self.initialize(id),
            "tools/list" => self.list(id, &message["params"]["cursor"]),
            "tools/call" if self.mode.starts_with("modern-") => {
                self.call_without_handshake(id, &message["params"])
            }
            "tools/call" => self.call(id, &message["params"]),
            "notifications/initialized" if self.is_mode("asks-back") => {
                write_message(
                    &json!({"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}),
                );
                write_message(&json!({"jsonrpc": "2.0", "id": "s2", "method": "roots/list"}));
                write_message(
                    &json!({"jsonrpc": "2.0", "id": "s3", "method": "elicitation/create", "params": {"message": "your password?", "requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}}}}),
                );
                write_message(&json!({"jsonrpc": "2.0", "id": "s4", "method": "no/such/method"}));
                None
            }
            "ping" => {
                write_message(&reply(id, json!({})));
                None
            }
            _ => None,
        }
    }

    fn initialize(&mut self, id: &Value) -> Option<ExitCode> {
        match self.mode.as_str() {
            "greets-with-nonsense" => {
                write_message(&reply(id, json!({"protocolVersion": 7, "hello": "world"})));
                return None;
            }
            "greets-with-a-list" => {
                write_message(&reply(id, json!([1, 2, 3])));
                return None;
            }
            "refuses-to-begin" => {
                write_message(&error_reply(id, -32000, "the licence of this server has expired"));
                return None;
            }
            "exits-on-hello" => {
                eprintln!("panicked at hello");
                return Some(ExitCode::from(101));
            }
            _ => {}
        }
        let version = match self.mode.as_str() {
            "speaks-the-future" => "9999-01-01",
            "speaks-nonsense" => "yes",
            _ => "2025-11-25",
        };
        let mut capabilities = json!({"tools": {"listChanged": true}});
        if self.is_mode("declares-nothing") {
            capabilities = json!({});
        }
        let result = json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "hostile", "version": "1"}});
        if self.is_mode("drips") {
            for byte in format!("{}\n", reply(id, result)).bytes() {
                write_raw(&[byte]);
                sleep(Duration::from_micros(200));
            }
        } else {
            write_message(&reply(id, result));
        }
        if self.is_mode("stops-reading") {
            sleep(Duration::from_millis(200));
        }
        None
    }

    /// Counts the earlier starts in this folder, with a file.
    fn count_earlier_starts(&self) -> usize {
        let seen = std::fs::read("started").unwrap_or_default().len();
        let _ = std::fs::write("started", vec![b'x'; seen + 1]);
        seen
    }

    fn is_first_start_in_folder(&self) -> bool {
        self.count_earlier_starts() == 0
    }
}

/// The unique number of seconds.
fn sleep_seconds_arg() -> String {
    std::env::args().nth(2).unwrap_or_else(|| "600".to_owned())
}

/// Replaces itself by a process that closes its output and keeps running.
fn close_output() -> ! {
    exec_script("exec >&-; exec sleep $0")
}

/// Replaces itself by a shell that runs this, with the unique number as `$0`.
fn exec_script(script: &str) -> ! {
    let error = Command::new("sh").args(["-c", script, &sleep_seconds_arg()]).exec();
    eprintln!("{error}");
    std::process::exit(1)
}
