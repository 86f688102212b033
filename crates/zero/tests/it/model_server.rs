//! A model on loopback that says what the prompt asks it to, in chat completions.
//!
//! A prompt can hold a whole script, see [`find_script`].

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than any step here takes, so that a test fails instead of hanging.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The model. Its threads end with the test.
pub(crate) struct ModelServer {
    port: u16,
    requests: Arc<Mutex<Vec<Value>>>,
    billed: Arc<Mutex<Option<Vec<BilledAnswer>>>>,
    hung_up: Receiver<()>,
}

/// What an answer was billed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BilledAnswer {
    pub(crate) model: String,
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
}

impl ModelServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (tell, hung_up) = sync_channel(64);
        let heard = Arc::clone(&requests);
        let billed = Arc::new(Mutex::new(None));
        let bills = Arc::clone(&billed);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heard, bills) = (Arc::clone(&heard), Arc::clone(&bills));
                let tell = tell.clone();
                // Whoever is cut off in the middle is what these tests are about.
                std::thread::spawn(move || drop(serve_connection(stream, &heard, &bills, &tell)));
            }
        });
        Self { port, requests, billed, hung_up }
    }

    /// Bills each answer another number of tokens from now on, and keeps what it billed.
    pub(crate) fn bill_each(&self) {
        *self.billed.lock().unwrap() = Some(Vec::new());
    }

    /// What it billed since [`Self::bill_each`].
    pub(crate) fn billed(&self) -> Vec<BilledAnswer> {
        self.billed.lock().unwrap().clone().unwrap_or_default()
    }

    /// Settings in which this is the model, with more of them.
    pub(crate) fn settings_json(&self, more: Value) -> String {
        let base_url = format!("http://127.0.0.1:{}/v1", self.port);
        let scripted =
            json!({"api": "chat", "model": "scripted", "baseUrl": base_url, "images": true});
        let mut settings = json!({"models": {"scripted": scripted}, "model": "scripted"});
        for (name, value) in more.as_object().unwrap() {
            settings[name] = value.clone();
        }
        settings.to_string()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// What it was asked so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().clone()
    }

    /// Waits until somebody does not listen any more to an answer that never ends.
    pub(crate) fn wait_for_disconnect(&self) {
        self.hung_up.recv_timeout(TIMEOUT).expect("nobody hung up");
    }
}

fn serve_connection(
    stream: TcpStream,
    heard: &Mutex<Vec<Value>>,
    billed: &Mutex<Option<Vec<BilledAnswer>>>,
    hung_up: &SyncSender<()>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body)?;
    heard.lock().unwrap().push(request.clone());
    let mut writer = stream;
    let steps = find_script(&request);
    let limited = steps.iter().flatten().find_map(|step| step.strip_prefix("limit "));
    if limited.is_some_and(|model| request["model"] == model) {
        return send_refusal("429 {}", &mut writer);
    }
    if let Some(refusal) = steps.iter().flatten().find_map(|step| step.strip_prefix("fail ")) {
        return send_refusal(refusal, &mut writer);
    }
    writer.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    )?;
    let never_ends = match steps {
        Some(steps) => play_script(&request, &steps, &mut writer)?,
        None => send_answer(&request, &mut writer)?,
    };
    if never_ends {
        // Nothing more is asked on this connection: a read ends when the other side is gone, however
        // long that takes.
        reader.get_ref().set_read_timeout(None)?;
        let _ = reader.read(&mut [0]);
        let _ = hung_up.try_send(());
        return Ok(());
    }
    let bill = billed.lock().unwrap().as_mut().map(|billed| {
        let number = billed.len() as u64 + 1;
        let model = request["model"].as_str().unwrap_or_default().to_owned();
        let (input_tokens, output_tokens) = (10 + 7 * number, 5 + 3 * number * number);
        let answer = BilledAnswer { model, input_tokens, output_tokens };
        billed.push(answer.clone());
        answer
    });
    if let Some(BilledAnswer { input_tokens, output_tokens, .. }) = bill {
        // The last usage of an answer counts.
        let usage = json!({"prompt_tokens": input_tokens, "completion_tokens": output_tokens});
        let piece =
            json!({"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage});
        writer.write_all(format!("data: {piece}\n\n").as_bytes())?;
    }
    writer.write_all(b"data: [DONE]\n\n")
}

/// What a prompt with `script:` wants of this answer. Each of the following lines is a step:
/// `say WORDS`, `think WORDS`, `call TOOL JSON`, `stop REASON`, `wait MS`, `hang`, `fail STATUS JSON`, or
/// `limit MODEL`, which refuses requests to that model; a line
/// `turn` begins what is said after the tools have answered.
fn find_script(request: &Value) -> Option<Vec<String>> {
    let messages = request["messages"].as_array()?;
    let at = messages.iter().rposition(|message| message["role"] == "user")?;
    let (text, _) = message_text(&messages[at]["content"]);
    let (_, script) = text.split_once("script:\n")?;
    let round = messages.iter().skip(at).filter(|message| message["role"] == "assistant").count();
    let steps = script.split("\nturn\n").nth(round).unwrap_or("say Done.");
    Some(steps.lines().map(str::to_owned).collect())
}

/// Plays the steps; says whether the answer never ends.
fn play_script(request: &Value, steps: &[String], to: &mut TcpStream) -> std::io::Result<bool> {
    let round = request["messages"].as_array().map_or(0, Vec::len);
    let (mut calls, mut reason) = (0, "stop");
    for step in steps {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        match verb {
            "say" => send_text(rest, to)?,
            "think" => send_chunk(&json!({"reasoning_content": rest}), None, to)?,
            "call" => {
                let (name, input) = rest.split_once(' ').unwrap_or((rest, "{}"));
                let function = json!({"name": name, "arguments": input});
                let id = format!("call_{round}_{calls}");
                let call =
                    json!({"index": calls, "id": id, "type": "function", "function": function});
                send_chunk(&json!({"tool_calls": [call]}), None, to)?;
                (calls, reason) = (calls + 1, "tool_calls");
            }
            "stop" => reason = rest,
            "wait" => std::thread::sleep(Duration::from_millis(rest.parse().unwrap_or(0))),
            "hang" => return Ok(true),
            "limit" => {}
            _ => panic!("a script cannot have `{step}`"),
        }
    }
    send_end(reason, to)
}

/// Answers with a status and a text instead, and says that asking again is of no use.
fn send_refusal(refusal: &str, to: &mut TcpStream) -> std::io::Result<()> {
    let (status, body) = refusal.split_once(' ').unwrap_or((refusal, "{}"));
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\nx-should-retry: false\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    to.write_all(head.as_bytes())?;
    to.write_all(body.as_bytes())
}

/// Answers; says whether the answer never ends.
fn send_answer(request: &Value, to: &mut TcpStream) -> std::io::Result<bool> {
    let last = request["messages"].as_array().and_then(|messages| messages.last()).unwrap();
    let (text, pictures) = message_text(&last["content"]);
    if last["role"] == "tool" {
        let start: String = text.chars().take(60).collect();
        send_text(&format!("The tool said: {start}"), to)?;
        return send_end("stop", to);
    }
    if pictures > 0 {
        send_text(&format!("I see {pictures} picture."), to)?;
        return send_end("stop", to);
    }
    let between = |open: &str| text.split_once(open)?.1.split_once(']').map(|(word, _)| word);
    if text.contains("[read]") {
        send_text("I look first.", to)?;
        send_call("Read", &json!({"file_path": "hello.txt"}), to)?;
        send_end("tool_calls", to)
    } else if text.contains("[write]") {
        send_call("Write", &json!({"file_path": "made.txt", "content": "made\n"}), to)?;
        send_end("tool_calls", to)
    } else if let Some(word) = between("[append ") {
        send_text("I add a line now.", to)?;
        send_call("Bash", &json!({"command": format!("echo {word} >> log.txt")}), to)?;
        send_end("tool_calls", to)
    } else if text.contains("[job]") {
        let command =
            "while :; do echo x > .envrc; mkdir -p .vscode; echo x > .vscode/tasks.json; done";
        send_call("Bash", &json!({"command": command, "run_in_background": true}), to)?;
        send_end("tool_calls", to)
    } else if text.contains("[hang]") {
        send_text("one two three ", to)?;
        Ok(true)
    } else if text.contains("[steer]") {
        send_text("\u{9b}2J \u{202e}txt.exe", to)?;
        send_end("stop", to)
    } else if text.contains("[long]") {
        send_text("cut", to)?;
        send_end("length", to)
    } else {
        send_text("Hello from the model.", to)?;
        send_end("stop", to)
    }
}

/// The words of a message and the number of its pictures.
fn message_text(content: &Value) -> (String, usize) {
    match content {
        Value::String(text) => (text.clone(), 0),
        parts => {
            let parts = parts.as_array().cloned().unwrap_or_default();
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            (texts.join(" "), parts.iter().filter(|part| part["type"] == "image_url").count())
        }
    }
}

fn send_text(text: &str, to: &mut TcpStream) -> std::io::Result<()> {
    text.split_inclusive(' ').try_for_each(|word| send_chunk(&json!({"content": word}), None, to))
}

fn send_call(name: &str, input: &Value, to: &mut TcpStream) -> std::io::Result<()> {
    let function = json!({"name": name, "arguments": input.to_string()});
    let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
    send_chunk(&json!({"tool_calls": [call]}), None, to)
}

fn send_end(reason: &str, to: &mut TcpStream) -> std::io::Result<bool> {
    send_chunk(&json!({}), Some(reason), to).map(|()| false)
}

fn send_chunk(delta: &Value, end: Option<&str>, to: &mut TcpStream) -> std::io::Result<()> {
    let mut piece = json!({"id": "c", "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": end}]});
    if end.is_some() {
        piece["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
    }
    to.write_all(format!("data: {piece}\n\n").as_bytes())
}
