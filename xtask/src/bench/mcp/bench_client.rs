//! A minimal client of `zero mcp`: lines of JSON over two pipes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The version of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchProtocolEra {
    /// It starts with a handshake, as of 2025-11-25.
    Handshake,
    /// Each request is self-contained, as of 2026-07-28.
    Stateless,
}

/// A connection to a server that was started for it.
pub(super) struct McpBenchClient {
    era: BenchProtocolEra,
    server: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: String,
    asked: u64,
}

impl McpBenchClient {
    /// Starts a server, with a handshake if the version has one.
    pub(super) fn start(mut command: Command, era: BenchProtocolEra) -> Result<Self> {
        let mut server = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {command:?}"))?;
        let (input, output) = (server.stdin.take(), server.stdout.take());
        let output = BufReader::new(output.context("the server has no output")?);
        let mut begun = Self { era, server, input, output, line: String::new(), asked: 0 };
        if era == BenchProtocolEra::Handshake {
            begun.request("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}))?;
            begun.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        }
        Ok(begun)
    }

    /// Sends a request, and returns the response as JSON text.
    pub(super) fn request(&mut self, method: &str, mut params: Value) -> Result<&str> {
        if self.era == BenchProtocolEra::Stateless {
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            });
        }
        self.asked += 1;
        self.send(
            &json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params}),
        )?;
        loop {
            self.line.clear();
            let read = self.output.read_line(&mut self.line)?;
            ensure!(read > 0, "the server ended instead of answering `{method}`");
            // A message without an ID is not a response but a notification, such as that the list
            // of tools has changed.
            if self.line.contains(r#""id":"#) {
                return Ok(&self.line);
            }
        }
    }

    /// The process ID of the server.
    pub(super) fn pid(&self) -> u32 {
        self.server.id()
    }

    /// Closes the server's input, and waits until it has ended.
    pub(super) fn finish(mut self) -> Result<()> {
        drop(self.input.take());
        let status = self.server.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let input = self.input.as_mut().context("the conversation is over")?;
        input.write_all(format!("{message}\n").as_bytes())?;
        Ok(())
    }
}
