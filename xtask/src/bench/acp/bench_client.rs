//! A minimal client of `zero acp`: lines of JSON over two pipes.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

/// A message of the agent.
pub(super) enum AgentMessage<'a> {
    /// The response to the request with this number, as JSON text.
    Response { id: u64, line: &'a str },
    /// An update of a session, as JSON text.
    Update { line: &'a str },
}

/// A connection to an agent that was started for it.
pub(in crate::bench) struct AcpBenchClient {
    agent: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: String,
    asked: u64,
}

impl AcpBenchClient {
    /// Starts an agent, and initializes it.
    pub(super) fn start(mut command: Command) -> Result<Self> {
        let mut agent = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("could not start {command:?}"))?;
        let (input, output) = (agent.stdin.take(), agent.stdout.take());
        let output = BufReader::new(output.context("the agent has no output")?);
        let mut begun = Self { agent, input, output, line: String::new(), asked: 0 };
        let client = json!({"name": "bench", "version": "1"});
        let hello = json!({"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": client});
        begun.request("initialize", &hello)?;
        Ok(begun)
    }

    /// Opens a session and returns its ID.
    pub(in crate::bench) fn open_session(&mut self, folder: &Path) -> Result<String> {
        let answer = self.request("session/new", &json!({"cwd": folder, "mcpServers": []}))?;
        let answer: Value = serde_json::from_str(answer)?;
        let id = answer.pointer("/result/sessionId").and_then(Value::as_str);
        Ok(id.with_context(|| format!("no session was opened: {answer}"))?.to_owned())
    }

    /// Starts a turn and returns the number of its request.
    pub(super) fn send_prompt(&mut self, session: &str, text: &str) -> Result<u64> {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send_request("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    /// Runs a turn to its end.
    pub(in crate::bench) fn run_turn(&mut self, session: &str, text: &str) -> Result<()> {
        let asked = self.send_prompt(session, text)?;
        loop {
            if let AgentMessage::Response { id, line } = self.read_message()? {
                ensure!(id == asked, "an answer to nothing: {line:.500}");
                return check_turn_completed(line);
            }
        }
    }

    /// Sends a request, and returns the response as JSON text.
    pub(in crate::bench) fn request(&mut self, method: &str, params: &Value) -> Result<&str> {
        let asked = self.send_request(method, params)?;
        while !matches!(self.read_message()?, AgentMessage::Response { id, .. } if id == asked) {}
        ensure!(!self.line.contains(r#""error":"#), "`{method}` was refused: {:.500}", self.line);
        Ok(&self.line)
    }

    /// Reads the next message of the agent. Requests of the agent are not expected here.
    pub(super) fn read_message(&mut self) -> Result<AgentMessage<'_>> {
        self.line.clear();
        ensure!(self.output.read_line(&mut self.line)? > 0, "the agent has ended");
        let line = self.line.trim_end();
        match classify_line(line)? {
            AgentMessageKind::Response(id) => Ok(AgentMessage::Response { id, line }),
            AgentMessageKind::Update => Ok(AgentMessage::Update { line }),
            AgentMessageKind::Request => bail!("unexpected request of the agent: {line:.500}"),
        }
    }

    /// The process ID of the agent.
    pub(super) fn pid(&self) -> u32 {
        self.agent.id()
    }

    /// Closes the agent's input, and waits until it has ended.
    pub(in crate::bench) fn finish(mut self) -> Result<()> {
        drop(self.input.take());
        let status = self.agent.wait()?;
        ensure!(status.success(), "the agent ended with {status}");
        Ok(())
    }

    fn send_request(&mut self, method: &str, params: &Value) -> Result<u64> {
        let input = self.input.as_mut().context("the conversation is over")?;
        self.asked += 1;
        let id = self.asked;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        input.write_all(format!("{message}\n").as_bytes())?;
        Ok(id)
    }
}

impl Drop for AcpBenchClient {
    /// Ends an agent that was not finished properly.
    fn drop(&mut self) {
        drop(self.input.take());
        if !matches!(self.agent.try_wait(), Ok(Some(_))) {
            let _ = self.agent.kill();
            let _ = self.agent.wait();
        }
    }
}

/// Checks that a turn was completed.
pub(super) fn check_turn_completed(answer: &str) -> Result<()> {
    ensure!(answer.contains(r#""stopReason":"end_turn""#), "the turn did not end: {answer:.500}");
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum AgentMessageKind {
    Response(u64),
    Update,
    Request,
}

/// The kind of a line. The rest of it is not parsed: it may be a megabyte.
fn classify_line(line: &str) -> Result<AgentMessageKind> {
    #[derive(Deserialize)]
    struct RpcLine<'a> {
        id: Option<Value>,
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
    }
    let read: RpcLine<'_> =
        serde_json::from_str(line).with_context(|| format!("no message: {line:.500}"))?;
    match (read.id, read.method) {
        (Some(id), None) => {
            let id = id.as_u64().with_context(|| format!("an answer to nothing: {line:.500}"))?;
            Ok(AgentMessageKind::Response(id))
        }
        (Some(_), Some(_)) => Ok(AgentMessageKind::Request),
        (None, _) => Ok(AgentMessageKind::Update),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: AgentMessageKind) {
        assert_eq!(classify_line(line).unwrap(), expected);
    }

    #[test]
    fn lines_are_classified() {
        check(
            r#"{"jsonrpc":"2.0","id":7,"result":{"id":8,"method":"x"}}"#,
            AgentMessageKind::Response(7),
        );
        check(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603}}"#, AgentMessageKind::Response(7));
        check(r#"{"method":"session/update","params":{"id":1}}"#, AgentMessageKind::Update);
        check(
            r#"{"method":"session/request_permission","id":"a","params":{}}"#,
            AgentMessageKind::Request,
        );
        assert!(classify_line(r#"{"id":"a","result":{}}"#).is_err());
        assert!(classify_line("panicked at").is_err());
    }

    #[test]
    fn only_completed_turn_passes_check() {
        assert!(check_turn_completed(r#"{"id":1,"result":{"stopReason":"end_turn"}}"#).is_ok());
        assert!(check_turn_completed(r#"{"id":1,"result":{"stopReason":"cancelled"}}"#).is_err());
        assert!(
            check_turn_completed(r#"{"id":1,"error":{"code":-32603,"message":"no"}}"#).is_err()
        );
    }
}
