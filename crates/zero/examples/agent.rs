//! An agent in Rust on `zero mcp`. To try it with a model on this machine:
//! MODEL_ADDRESS=127.0.0.1:11434 cargo run --example agent -- "what does notes.txt say?"
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it starts zero from outside")]

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

const TURNS_MAX: usize = 20;

struct StdioConnection {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last_id: u64,
}

impl StdioConnection {
    fn send(&mut self, mut message: Value) -> Result<(), Box<dyn Error>> {
        message["jsonrpc"] = json!("2.0");
        Ok(writeln!(self.input, "{message}")?)
    }

    /// Sends a request and returns its result. Forms, with which zero asks, are declined.
    fn request(&mut self, method: &str, params: Value) -> Result<Value, Box<dyn Error>> {
        self.last_id += 1;
        let wanted = self.last_id;
        self.send(json!({"id": wanted, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                return Err("zero ended".into());
            }
            let mut message: Value = serde_json::from_str(&line)?;
            let is_answer = message["id"] == wanted && message.get("method").is_none();
            if message.get("method").is_some() && message.get("id").is_some() {
                self.send(json!({"id": message["id"], "result": {"action": "decline"}}))?;
            } else if is_answer && message.get("error").is_some() {
                return Err(message["error"]["message"].to_string().into());
            } else if is_answer {
                return Ok(message["result"].take());
            }
        }
    }
}

/// Asks a model on this machine, which speaks chat completions over plain HTTP.
fn complete(messages: &[Value], tools: &[Value]) -> Result<Value, Box<dyn Error>> {
    let address = std::env::var("MODEL_ADDRESS")?;
    let model = std::env::var("MODEL").unwrap_or_default();
    let body = json!({"model": model, "messages": messages, "tools": tools}).to_string();
    let mut stream = TcpStream::connect(&address)?;
    write!(stream, "POST /v1/chat/completions HTTP/1.0\r\nhost: {address}\r\n")?;
    let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    write!(stream, "{head}\r\n\r\n{body}")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("the model sent no answer")?;
    Ok(serde_json::from_str::<Value>(body)?["choices"][0]["message"].take())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut zero =
        Command::new("zero").arg("mcp").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input = zero.stdin.take().ok_or("no stdin")?;
    let output = BufReader::new(zero.stdout.take().ok_or("no stdout")?);
    let mut mcp = StdioConnection { input, output, last_id: 0 };
    let client = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "agent", "version": "1.0"}});
    mcp.request("initialize", client)?;
    mcp.send(json!({"method": "notifications/initialized"}))?;
    let listed = mcp.request("tools/list", json!({}))?;
    let function = |tool: &Value| {
        json!({"type": "function", "function": {"name": tool["name"],
        "description": tool["description"], "parameters": tool["inputSchema"]}})
    };
    let tools: Vec<Value> =
        listed["tools"].as_array().into_iter().flatten().map(function).collect();
    let prompt = std::env::args().nth(1).ok_or("pass a prompt")?;
    let mut messages = vec![json!({"role": "user", "content": prompt})];
    for _ in 0..TURNS_MAX {
        let message = complete(&messages, &tools)?;
        messages.push(message.clone());
        let Some(calls) = message["tool_calls"].as_array() else {
            println!("{}", message["content"].as_str().unwrap_or_default());
            return Ok(());
        };
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().unwrap_or("{}");
            let call_input: Value = serde_json::from_str(arguments)?;
            let params = json!({"name": call["function"]["name"], "arguments": call_input});
            let text = mcp.request("tools/call", params)?["content"].to_string();
            messages.push(json!({"role": "tool", "tool_call_id": call["id"], "content": text}));
        }
    }
    Err("the model did not finish".into())
}
