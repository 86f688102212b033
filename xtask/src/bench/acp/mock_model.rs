//! A model that answers at once with what the prompt contains, over chat completions on loopback.
//!
//! It records the time it needs itself, so that this can be subtracted; and it compares the results
//! of calls with what is expected, so that a fast wrong answer is noticed.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Precedes a script in a prompt.
const SCRIPT_MARK: &str = "bench:";
/// Placeholder for the number of a call.
const NUMBER_PLACEHOLDER: &str = "{n}";
/// Largest request that is accepted.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The model's answer to a prompt without a script.
pub(super) const HELLO: &str = "Hello.";

/// The script of a turn: a number of calls.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ModelScript {
    pub(super) tool: String,
    /// The input; `{n}` in a text is the call's number, with three digits.
    pub(super) input: Value,
    pub(super) times: usize,
    /// The text that each result must contain; `{n}` as above.
    pub(super) expected: String,
    /// Whether all calls are in one reply; otherwise, one follows the other.
    #[serde(default)]
    pub(super) at_once: bool,
    /// How long the model waits before its last words, in milliseconds.
    #[serde(default)]
    pub(super) pause_ms: u64,
}

impl ModelScript {
    /// The prompt that contains this script.
    pub(super) fn to_prompt(&self) -> Result<String> {
        Ok(format!("{SCRIPT_MARK}{}", serde_json::to_string(self)?))
    }
}

/// How many results the model received, and whether they were right.
#[derive(Clone, Debug, Default)]
pub(super) struct ResultTally {
    pub(super) right: usize,
    pub(super) wrong: usize,
    /// The first wrong one, and what was expected.
    pub(super) first_wrong: Option<String>,
}

/// The model. It runs as long as this process.
#[derive(Clone)]
pub(super) struct MockModel {
    port: u16,
    kept: Arc<MockModelState>,
}

#[derive(Default)]
struct MockModelState {
    /// The time it needed itself, in nanoseconds.
    own_ns: AtomicU64,
    calls: AtomicU64,
    tally: Mutex<ResultTally>,
}

impl MockModel {
    /// Starts the server.
    pub(super) fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let model = Self { port: listener.local_addr()?.port(), kept: Arc::default() };
        let kept = Arc::clone(&model.kept);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(|stream| stream.ok()) {
                let kept = Arc::clone(&kept);
                // If a connection breaks, zero has closed it.
                thread::spawn(move || kept.serve(stream));
            }
        });
        Ok(model)
    }

    /// Its address.
    pub(super) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// The time it needed itself since the last call of this function.
    pub(super) fn take_own_time(&self) -> Duration {
        Duration::from_nanos(self.kept.own_ns.swap(0, Ordering::Relaxed))
    }

    /// The results it received since the last call of this function.
    pub(super) fn take_tally(&self) -> ResultTally {
        std::mem::take(&mut *self.kept.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl MockModelState {
    fn serve(&self, stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        while let Some(body) = read_request_body(&mut reader)? {
            let start = Instant::now();
            let request: CompletionRequest =
                serde_json::from_slice(&body).context("the request is no JSON of a chat")?;
            let (reply, checked) = next_reply(&request.messages);
            if let Some(result) = checked {
                self.record_result(result);
            }
            if let ScriptedReply::Done { pause_ms } = reply {
                thread::sleep(Duration::from_millis(pause_ms));
            }
            let events = self.encode_events(reply);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length:";
            let answer = format!("{head} {}\r\n\r\n{events}", events.len());
            let own = start.elapsed().as_nanos().try_into().unwrap_or(u64::MAX);
            // Counted before the answer is sent, so that no reader is too early.
            self.own_ns.fetch_add(own, Ordering::Relaxed);
            writer.write_all(answer.as_bytes())?;
        }
        Ok(())
    }

    fn record_result(&self, result: Result<(), String>) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(()) => tally.right += 1,
            Err(wrong) => {
                tally.wrong += 1;
                tally.first_wrong.get_or_insert(wrong);
            }
        }
    }

    fn encode_events(&self, reply: ScriptedReply) -> String {
        let (delta, reason) = match reply {
            ScriptedReply::Hello => (json!({ "content": HELLO }), "stop"),
            ScriptedReply::Done { .. } => (json!({ "content": "Done." }), "stop"),
            ScriptedReply::Calls { tool, inputs } => {
                let call = |(index, input): (usize, Value)| {
                    let id = format!("call_{}", self.calls.fetch_add(1, Ordering::Relaxed));
                    let function = json!({"name": tool, "arguments": input.to_string()});
                    json!({"index": index, "id": id, "type": "function", "function": function})
                };
                let calls: Vec<Value> = inputs.into_iter().enumerate().map(call).collect();
                (json!({ "tool_calls": calls }), "tool_calls")
            }
        };
        let piece = json!({"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]});
        let usage = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
        let end = json!({"id": "c", "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage});
        format!("data: {piece}\n\ndata: {end}\n\ndata: [DONE]\n\n")
    }
}

/// The body of the next request; `None` if the other side has closed the connection.
fn read_request_body(reader: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut length = None;
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = Some(value.trim().parse::<usize>()?);
            }
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let length = length.context("the request does not say how long it is")?;
    if length > REQUEST_BYTES_MAX {
        bail!("a request of {length} bytes is too large");
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(body))
}

#[derive(Deserialize)]
struct CompletionRequest {
    messages: Vec<CompletionMessage>,
}

#[derive(Deserialize)]
struct CompletionMessage {
    role: String,
    #[serde(default)]
    content: Value,
}

impl CompletionMessage {
    /// The text, whole or in parts.
    fn text(&self) -> String {
        let of_part = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(parts) => parts.iter().filter_map(of_part).collect(),
            _ => String::new(),
        }
    }
}

#[derive(Debug, PartialEq)]
enum ScriptedReply {
    /// To a prompt without a script.
    Hello,
    Calls {
        tool: String,
        inputs: Vec<Value>,
    },
    /// At the end of a script.
    Done {
        pause_ms: u64,
    },
}

/// The next answer, and whether the last result was right.
fn next_reply(messages: &[CompletionMessage]) -> (ScriptedReply, Option<Result<(), String>>) {
    let asked = messages.iter().rposition(|message| message.role == "user");
    let since = asked.and_then(|asked| messages.get(asked..)).unwrap_or_default();
    let Some(script) = since.first().and_then(|asked| parse_script(&asked.text())) else {
        return (ScriptedReply::Hello, None);
    };
    let results: Vec<_> = since.iter().filter(|message| message.role == "tool").collect();
    let checked = results.last().map(|last| {
        let expected = fill_number(&script.expected, results.len() - 1);
        let text = last.text();
        if text.contains(&expected) {
            return Ok(());
        }
        let text: String = text.chars().take(500).collect();
        Err(format!("expected `{expected}`, got `{text}`"))
    });
    let next = if results.len() < script.times {
        let until = if script.at_once { script.times } else { results.len() + 1 };
        let inputs = (results.len()..until)
            .map(|number| fill_number_in_input(script.input.clone(), number))
            .collect();
        ScriptedReply::Calls { tool: script.tool, inputs }
    } else {
        ScriptedReply::Done { pause_ms: script.pause_ms }
    };
    (next, checked)
}

fn parse_script(text: &str) -> Option<ModelScript> {
    let (_, script) = text.split_once(SCRIPT_MARK)?;
    serde_json::Deserializer::from_str(script).into_iter().next()?.ok()
}

fn fill_number(text: &str, number: usize) -> String {
    text.replace(NUMBER_PLACEHOLDER, &format!("{number:03}"))
}

fn fill_number_in_input(mut input: Value, number: usize) -> Value {
    for value in input.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
        if let Value::String(text) = value {
            *text = fill_number(text, number);
        }
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(role: &str, text: &str) -> CompletionMessage {
        CompletionMessage { role: role.to_owned(), content: Value::String(text.to_owned()) }
    }

    fn echo_script() -> ModelScript {
        ModelScript {
            tool: "Bash".to_owned(),
            input: json!({"command": "echo {n}", "timeout": 1000}),
            times: 2,
            expected: "{n}".to_owned(),
            ..ModelScript::default()
        }
    }

    #[track_caller]
    fn check(turns: &[(&str, &str)], expected: (ScriptedReply, Option<Result<(), String>>)) {
        let mut messages = vec![message("system", "be good"), message("user", "before")];
        messages.push(message(
            "user",
            &format!("[here]\n{}\nthere", echo_script().to_prompt().unwrap()),
        ));
        messages.extend(turns.iter().map(|(role, text)| message(role, text)));
        assert_eq!(next_reply(&messages), expected);
    }

    fn call_reply(number: &str) -> ScriptedReply {
        let input = json!({"command": format!("echo {number}"), "timeout": 1000});
        ScriptedReply::Calls { tool: "Bash".to_owned(), inputs: vec![input] }
    }

    #[test]
    fn script_is_followed_to_its_end() {
        check(&[], (call_reply("000"), None));
        check(&[("assistant", ""), ("tool", "000\n")], (call_reply("001"), Some(Ok(()))));
        let both = [("tool", "000\n"), ("assistant", ""), ("tool", "001\n")];
        check(&both, (ScriptedReply::Done { pause_ms: 0 }, Some(Ok(()))));
    }

    #[test]
    fn calls_of_one_reply_are_made_at_once() {
        let script = ModelScript { at_once: true, pause_ms: 7, ..echo_script() };
        let asked = message("user", &script.to_prompt().unwrap());
        let (reply, _) = next_reply(std::slice::from_ref(&asked));
        let ScriptedReply::Calls { inputs, .. } = reply else { panic!("{reply:?}") };
        let commands: Vec<_> =
            inputs.iter().filter_map(|input| input["command"].as_str()).collect();
        assert_eq!(commands, ["echo 000", "echo 001"]);
        let results = [asked, message("tool", "000"), message("tool", "001")];
        assert_eq!(next_reply(&results), (ScriptedReply::Done { pause_ms: 7 }, Some(Ok(()))));
    }

    #[test]
    fn wrong_result_is_counted() {
        let wrong = Err("expected `001`, got `000`".to_owned());
        check(
            &[("tool", "000"), ("tool", "000")],
            (ScriptedReply::Done { pause_ms: 0 }, Some(wrong)),
        );
    }

    #[test]
    fn prompt_without_script_gets_hello() {
        assert_eq!(next_reply(&[message("user", "hi")]), (ScriptedReply::Hello, None));
        assert_eq!(next_reply(&[]), (ScriptedReply::Hello, None));
    }

    #[test]
    fn content_parts_are_read_as_text() {
        let content = json!([{"type": "text", "text": "a"}, {"type": "image_url"}, {"text": "b"}]);
        assert_eq!(CompletionMessage { role: "user".to_owned(), content }.text(), "ab");
    }

    #[test]
    fn consecutive_requests_are_read() {
        let wire = "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\ncontent-length:1\r\n\r\n7";
        let mut wire = wire.as_bytes();
        assert_eq!(read_request_body(&mut wire).unwrap().as_deref(), Some(&b"{}"[..]));
        assert_eq!(read_request_body(&mut wire).unwrap().as_deref(), Some(&b"7"[..]));
        assert_eq!(read_request_body(&mut wire).unwrap(), None);
        assert!(read_request_body(&mut &b"POST / HTTP/1.1\r\n\r\n"[..]).is_err());
    }

    #[test]
    fn mock_model_answers_over_http_and_reports_own_time() {
        let model = MockModel::start().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", model.port)).unwrap();
        let body = r#"{"messages":[{"role":"user","content":"hi"}]}"#;
        let request = format!("POST /v1 HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = BufReader::new(stream);
        let events = read_request_body(&mut answer).unwrap().unwrap();
        let events = String::from_utf8(events).unwrap();
        assert!(events.contains(HELLO) && events.ends_with("data: [DONE]\n\n"), "{events}");
        assert!(model.take_own_time() > Duration::ZERO);
        assert_eq!(model.take_own_time(), Duration::ZERO);
    }
}
