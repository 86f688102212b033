//! Normalizes gateway frames so that two conversations can be compared: removes what differs
//! between runs and nothing else.

use serde_json::{Value, json};

/// Fields with a time or duration, or with tokens that are estimated when a reply breaks off: any number
/// matches.
const NUMBER_FIELDS: [&str; 11] = [
    "inputTokens",
    "outputTokens",
    "ts",
    "timestamp",
    "startedAt",
    "endedAt",
    "updatedAt",
    "createdAtMs",
    "expiresAtMs",
    "uptimeMs",
    "seq",
];
/// Prefixes of the ids that a gateway assigns.
const ID_PREFIXES: [&str; 3] = ["call_", "ask_", "sess_"];

/// A line of a recording.
pub(crate) struct RecordedFrame {
    pub(crate) is_from_gateway: bool,
    pub(crate) frame: Value,
}

pub(crate) fn parse_recording(text: &str) -> Vec<RecordedFrame> {
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let is_from_gateway = match line["from"].as_str() {
            Some("gateway") => true,
            Some("client") => false,
            other => panic!("{other:?} speaks"),
        };
        RecordedFrame { is_from_gateway, frame: line["frame"].take() }
    };
    let lines: Vec<RecordedFrame> = text.lines().map(line).collect();
    assert!(lines.len() > 10, "there is hardly anything in the recording");
    without_races(lines)
}

/// The lines in an order that decides which prompts wait for another run. The bridge does not wait
/// for the end of a run that it has aborted, so in the recording that depended on timing.
fn without_races(mut lines: Vec<RecordedFrame>) -> Vec<RecordedFrame> {
    let is_prompt =
        |line: &RecordedFrame| !line.is_from_gateway && line.frame["method"] == "chat.send";
    let prompts: Vec<Value> =
        lines.iter().filter(|line| is_prompt(line)).map(|line| line.frame.clone()).collect();
    for prompt in prompts {
        let (id, run) = (&prompt["id"], &prompt["params"]["idempotencyKey"]);
        let line = lines.remove(find_line(&lines, id, &is_prompt));
        let answered = find_line(&lines, id, &|line| line.is_from_gateway);
        let is_notice = |line: &RecordedFrame| {
            line.frame["payload"]["data"]["topic"] == "queued"
                && line.frame["payload"]["runId"] == *run
        };
        if !lines.iter().any(is_notice) {
            // What came before the response is there before the prompt is sent.
            lines.insert(answered, line);
            continue;
        }
        // The run before it goes on until it is aborted, which is asked for once the prompt waits.
        let is_abort = |line: &RecordedFrame| line.frame["method"] == "chat.abort";
        let aborted = lines[..answered].iter().rposition(is_abort).expect("nothing ends that run");
        let abort = std::mem::replace(&mut lines[aborted], line);
        let response = find_line(&lines, &abort.frame["id"], &|line| line.is_from_gateway);
        let response = lines.remove(response);
        let waits = lines.iter().position(is_notice).unwrap();
        lines.splice(waits + 1..waits + 1, [abort, response]);
    }
    lines
}

/// The position of a line of the exchange with this id.
fn find_line(
    lines: &[RecordedFrame],
    id: &Value,
    is_wanted: &dyn Fn(&RecordedFrame) -> bool,
) -> usize {
    lines.iter().position(|line| line.frame["id"] == *id && is_wanted(line)).unwrap()
}

/// The frames a gateway has sent so far.
#[derive(Default)]
pub(crate) struct FrameLog {
    events: Vec<Value>,
    responses: Vec<Value>,
    /// Kept separately: call updates may come just before or just after the approval request.
    updates: Vec<Value>,
    /// The assigned ids, in order of first use.
    names: Vec<String>,
    /// The sequence number of each event, on the connection and in its run.
    counts: Vec<(u64, Option<(String, u64)>)>,
}

impl FrameLog {
    /// Adds a frame.
    pub(crate) fn add(&mut self, mut frame: Value) {
        if frame["event"] == "tick" {
            return;
        }
        self.record_count(&frame);
        self.normalise(&mut frame);
        if frame["type"] == "res" {
            self.responses.push(frame);
        } else if frame["payload"]["data"]["phase"] == "update" {
            self.updates.push(frame);
        } else if !self.merge_streamed(&frame) {
            self.events.push(frame);
        }
    }

    /// The assigned ids.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether this log contains all frames of the other. It may contain more.
    pub(crate) fn contains_all(&self, other: &Self) -> bool {
        self.events.starts_with(&other.events)
            && self.updates.starts_with(&other.updates)
            && other.responses.iter().all(|response| self.responses.contains(response))
    }

    /// Panics at the first difference and reports it.
    #[track_caller]
    pub(crate) fn compare(&self, ours: &Self) {
        for (number, recorded) in self.events.iter().enumerate() {
            assert_same(recorded, ours.events.get(number).unwrap_or(&Value::Null));
        }
        assert_eq!(ours.events.get(self.events.len()), None, "this was not said");
        for recorded in &self.responses {
            let answer = ours.responses.iter().find(|response| response["id"] == recorded["id"]);
            assert_same(recorded, answer.unwrap_or(&Value::Null));
        }
        for (number, recorded) in self.updates.iter().enumerate() {
            assert_same(recorded, ours.updates.get(number).unwrap_or(&Value::Null));
        }
        assert_eq!(ours.updates.get(self.updates.len()), None, "this was not said");
        assert_eq!(self.responses.len(), ours.responses.len(), "each request is answered once");
    }

    /// Checks that sequence numbers have no gaps, on the connection and per run.
    #[track_caller]
    pub(crate) fn check_sequence_numbers(&self) {
        let mut runs = std::collections::HashMap::new();
        for (number, (seq, of_run)) in self.counts.iter().enumerate() {
            assert_eq!(*seq, number as u64 + 1, "the events of the connection");
            if let Some((run, seq)) = of_run {
                let last = runs.insert(run, *seq).unwrap_or(0);
                assert_eq!(*seq, last + 1, "the events of run {run}");
            }
        }
    }

    fn record_count(&mut self, frame: &Value) {
        if frame["type"] != "event" || frame["event"] == "connect.challenge" {
            return;
        }
        let payload = &frame["payload"];
        let of_run = payload["seq"].as_u64().map(|seq| {
            let run = payload["runId"].as_str().expect("what is counted in a run says which");
            (run.to_owned(), seq)
        });
        self.counts.push((frame["seq"].as_u64().expect("events are counted"), of_run));
    }

    /// Removes values that differ between conversations.
    fn normalise(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.replace_ids(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.normalise(value)),
            Value::Object(fields) => {
                for (name, value) in fields {
                    if NUMBER_FIELDS.contains(&name.as_str()) && value.as_u64().is_some() {
                        *value = json!("a number");
                    } else if ["nonce", "connId"].contains(&name.as_str()) && value.is_string() {
                        *value = json!("a name");
                    } else {
                        remove_own_features(name, value);
                        self.normalise(value);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The text with the gateway's ids replaced by numbers.
    fn replace_ids(&mut self, text: &str) -> String {
        let Some(prefix) = ID_PREFIXES.into_iter().find(|prefix| text.starts_with(prefix)) else {
            return text.to_owned();
        };
        let digits = text.chars().skip(prefix.len()).take_while(char::is_ascii_hexdigit).count();
        let (name, rest) = text.split_at(prefix.len() + digits);
        assert!(digits >= 24, "`{text}` can be guessed");
        let known = self.names.iter().position(|known| known == name);
        let number = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        format!("{prefix}#{number}{rest}")
    }

    /// Merges streamed text: how it is split depends on timing, its content does not. The agent
    /// text and the chat text are both cumulative and carry the new part.
    fn merge_streamed(&mut self, frame: &Value) -> bool {
        let Some((new, text)) = streamed_text(frame) else { return false };
        let of_this = |other: &&mut Value| {
            other["event"] == frame["event"]
                && other["payload"]["runId"] == frame["payload"]["runId"]
        };
        // The two kinds alternate.
        let last =
            self.events.iter_mut().rev().take(2).take_while(|last| streamed_text(last).is_some());
        let Some(last) = last.into_iter().find(of_this) else { return false };
        let (new_before, text_before) = streamed_text(last).unwrap();
        assert_eq!(text, format!("{text_before}{new}"), "the text so far and what is new");
        let new = format!("{new_before}{new}");
        *last = frame.clone();
        match frame["event"].as_str() {
            Some("chat") => last["payload"]["deltaText"] = json!(new),
            _ => last["payload"]["data"]["delta"] = json!(new),
        }
        true
    }
}

/// The new part of a streamed text, and the whole text.
fn streamed_text(frame: &Value) -> Option<(String, String)> {
    let payload = &frame["payload"];
    let (new, text) = match frame["event"].as_str()? {
        "chat" if payload["state"] == "delta" => {
            (&payload["deltaText"], &payload["message"]["content"][0]["text"])
        }
        "agent" if payload["stream"] == "assistant" => {
            (&payload["data"]["delta"], &payload["data"]["text"])
        }
        _ => return None,
    };
    Some((new.as_str()?.to_owned(), text.as_str()?.to_owned()))
}

#[track_caller]
fn assert_same(recorded: &Value, ours: &Value) {
    let pretty = |value| serde_json::to_string_pretty(value).unwrap();
    assert_eq!(pretty(recorded), pretty(ours), "left: recorded, right: said now");
}

/// Removes zero's own methods, events and capabilities from the lists of a handshake: the bridge knows none of
/// them, and the schema's snapshot has them all.
fn remove_own_features(name: &str, value: &mut Value) {
    if let ("methods" | "events" | "capabilities", Value::Array(names)) = (name, value) {
        names.retain(|one| !one.as_str().is_some_and(|name| name.starts_with("zero.")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: &str = r#"{"type": "event", "event": "agent", "seq": 1, "payload": {"runId": "r",
        "seq": 1, "ts": 5, "stream": "tool", "data": {"toolCallId": "call_0123456789abcdef01234567"}}}"#;

    /// Whether a replay of these frames passes for a recording of the others.
    fn passes(recorded: &[&str], said: &[&str]) -> bool {
        let frames = |lines: &[&str]| {
            let mut frames = FrameLog::default();
            lines.iter().for_each(|line| frames.add(serde_json::from_str(line).unwrap()));
            frames
        };
        let (recorded, said) = (frames(recorded), frames(said));
        std::panic::catch_unwind(|| recorded.compare(&said)).is_ok()
    }

    #[test]
    fn missing_additional_or_moved_frame_is_a_difference() {
        let queued = FRAME.replace(r#""toolCallId""#, r#""topic": "queued", "toolCallId""#);
        assert!(passes(&[FRAME, &queued], &[FRAME, &queued]));
        assert!(!passes(&[FRAME, &queued], &[FRAME]));
        assert!(!passes(&[FRAME], &[FRAME, &queued]));
        assert!(!passes(&[FRAME, &queued], &[&queued, FRAME]));
        let response = r#"{"type": "res", "id": "1", "ok": true, "payload": {}}"#;
        assert!(!passes(&[response], &[]));
        assert!(!passes(&[response], &[response, response]));
    }

    #[track_caller]
    fn check(from: &str, to: &str, is_same: bool) {
        let frames = |text: &str| {
            let mut frames = FrameLog::default();
            frames.add(serde_json::from_str(text).unwrap());
            frames
        };
        let changed = FRAME.replace(from, to);
        assert!(from == to || changed != FRAME, "{from} is not there");
        assert_eq!(frames(&changed).contains_all(&frames(FRAME)), is_same, "{from} {to}");
    }

    #[test]
    fn frame_comparison_ignores_only_volatile_fields() {
        check("", "", true);
        check(r#""ts": 5"#, r#""ts": 7"#, true);
        check("abcdef", "fedcba", true);
        check(r#""ts": 5"#, r#""ts": "5""#, false);
        check(r#""ts": 5"#, r#""time": 5"#, false);
        check(r#""ts": 5, "#, "", false);
        check(r#""ts": 5"#, r#""ts": 5, "more": null"#, false);
        check("toolCallId", "callId", false);
        check(r#""tool""#, r#""tools""#, false);
        check("call_", "tool_", false);
    }
}
