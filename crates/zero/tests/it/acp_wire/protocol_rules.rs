//! What holds for every talk between a client and the agent, whatever it is about.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::acp_client::{MessagePeer, RecordedMessage};
use super::schema::{self, MessagePart};

/// Updates that belong to a turn: nothing of the kind is told when none is at work.
const TURN_UPDATES: [&str; 6] = [
    "agent_message_chunk",
    "agent_thought_chunk",
    "user_message_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
];

/// Requests in the course of which such updates are told.
const TURN_REQUESTS: [&str; 4] = ["session/prompt", "session/load", "_zero/tools/use", "tools/use"];

/// The client's requests that have no answer.
pub(crate) fn unanswered_requests(log: &[RecordedMessage]) -> Vec<Value> {
    let answers: HashSet<String> = log
        .iter()
        .filter(|entry| entry.by == MessagePeer::Agent && is_answer(&entry.message))
        .map(|entry| entry.message["id"].to_string())
        .collect();
    let requests =
        log.iter().filter(|entry| entry.by == MessagePeer::Client && is_request(&entry.message));
    let ids = requests.map(|entry| entry.message["id"].clone());
    ids.filter(|id| !answers.contains(&id.to_string())).collect()
}

/// Everything in a talk that may not be.
pub(crate) fn find_violations(log: &[RecordedMessage], garbage: usize) -> Vec<String> {
    let mut talk = ConversationState { left: garbage, ..ConversationState::default() };
    for RecordedMessage { by, message } in log {
        match by {
            MessagePeer::Agent => talk.check_agent_message(message),
            MessagePeer::Client => talk.check_client_message(message),
        }
    }
    talk.faults
}

/// A talk as far as it was followed.
#[derive(Default)]
struct ConversationState {
    faults: Vec<String>,
    /// The client's requests that wait: method and parameters.
    waiting: HashMap<String, (String, Value)>,
    /// Those of the agent.
    asked: HashMap<String, (String, Value)>,
    /// Ids of all that it ever asked.
    known: HashSet<String>,
    /// Answers to nothing that are still to come.
    left: usize,
    /// The calls of each session.
    calls: HashMap<(String, String), ClientCallState>,
}

/// A call as the client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientCallState {
    Open,
    /// A person is asked about it.
    AwaitingApproval,
    Finished,
}

impl ConversationState {
    fn add_violation(&mut self, message: &Value, what: impl Into<String>) {
        let text: String = message.to_string().chars().take(400).collect();
        self.faults.push(format!("{}: {text}", what.into()));
    }

    fn check_client_message(&mut self, message: &Value) {
        let id = message["id"].to_string();
        if is_request(message) {
            let method = message["method"].as_str().unwrap_or_default().to_owned();
            if method == "session/load" {
                // It is told anew.
                let session = to_key(&message["params"]["sessionId"]);
                self.calls.retain(|(of, _), _| *of != session);
            }
            self.waiting.insert(id, (method, message["params"].clone()));
        } else if is_answer(message)
            && let Some((method, params)) = self.asked.remove(&id)
        {
            if let Some(result) = message.get("result") {
                let faults = schema::find_violations(&method, MessagePart::Response, result);
                faults.into_iter().for_each(|fault| self.add_violation(message, fault));
            }
            if method == "session/request_permission" {
                let key = (to_key(&params["sessionId"]), to_key(&params["toolCall"]["toolCallId"]));
                if let Some(call) = self
                    .calls
                    .get_mut(&key)
                    .filter(|call| **call == ClientCallState::AwaitingApproval)
                {
                    *call = ClientCallState::Open;
                }
            }
        }
    }

    fn check_agent_message(&mut self, message: &Value) {
        if message["jsonrpc"] != "2.0" {
            self.add_violation(message, "no `jsonrpc`");
        }
        let names = ["jsonrpc", "id", "method", "params", "result", "error"];
        if message.as_object().unwrap().keys().any(|key| !names.contains(&key.as_str())) {
            self.add_violation(message, "a field that messages do not have");
        }
        match (message["method"].as_str(), message.get("id")) {
            (Some(method), Some(_)) => self.check_request(method, message),
            (Some(method), None) => self.check_notification(method, message),
            (None, Some(_)) => self.check_answer(message),
            (None, None) => self.add_violation(message, "neither a request nor an answer"),
        }
    }

    fn check_request(&mut self, method: &str, message: &Value) {
        let params = &message["params"];
        for fault in schema::find_violations(method, MessagePart::Request, params) {
            self.add_violation(message, fault);
        }
        let id = message["id"].to_string();
        if !self.known.insert(id.clone()) {
            self.add_violation(message, "an id that was used before");
        }
        self.asked.insert(id, (method.to_owned(), params.clone()));
        if method == "session/request_permission" {
            let key = (to_key(&params["sessionId"]), to_key(&params["toolCall"]["toolCallId"]));
            match self.calls.insert(key, ClientCallState::AwaitingApproval) {
                Some(ClientCallState::Open) => {}
                call => self.add_violation(message, format!("asked about a call that is {call:?}")),
            }
            let mut kinds = HashSet::new();
            let options = params["options"].as_array().cloned().unwrap_or_default();
            let is_question = to_key(&params["toolCall"]["toolCallId"]).starts_with("question_");
            if !is_question && !options.iter().all(|option| kinds.insert(to_key(&option["kind"]))) {
                self.add_violation(message, "two options of a kind");
            }
            if params["toolCall"]["title"].as_str().is_none_or(str::is_empty) {
                self.add_violation(message, "a question without a title");
            }
        }
    }

    fn check_answer(&mut self, message: &Value) {
        match (message.get("result"), message.get("error")) {
            (Some(_), None) => {}
            (None, Some(error)) => {
                for fault in schema::find_definition_violations("Error", error) {
                    self.add_violation(message, fault);
                }
                let words = to_key(&error["message"]);
                if words.is_empty() || words.contains('\n') || words.chars().count() > 1_000 {
                    self.add_violation(message, "the message of an error is one short line");
                }
            }
            _ => self.add_violation(message, "an answer is a result or an error"),
        }
        let id = &message["id"];
        let Some((method, params)) = self.waiting.remove(&id.to_string()) else {
            match id.is_null() && self.left > 0 {
                true => self.left -= 1,
                false => self.add_violation(message, "an answer to nothing, or a second one"),
            }
            return;
        };
        let Some(result) = message.get("result") else { return };
        for fault in schema::find_violations(&method, MessagePart::Response, result) {
            self.add_violation(message, fault);
        }
        for fault in schema::find_violations(&method, MessagePart::Request, &params) {
            self.add_violation(&params, format!("it was answered, and yet: {fault}"));
        }
        if method == "session/prompt" {
            let session = to_key(&params["sessionId"]);
            if !self.is_turn_running(&session) {
                let open = self.calls.iter().filter(|((of, _), call)| {
                    *of == session && **call != ClientCallState::Finished
                });
                let open: Vec<String> = open.map(|((_, call), _)| call.clone()).collect();
                if !open.is_empty() {
                    self.add_violation(message, format!("calls that were never settled: {open:?}"));
                }
            }
        }
    }

    fn check_notification(&mut self, method: &str, message: &Value) {
        for fault in schema::find_violations(method, MessagePart::Notification, &message["params"])
        {
            self.add_violation(message, fault);
        }
        if method == "session/update" {
            self.check_update(message);
        }
        if method == "$/cancel_request" {
            let id = message["params"]["requestId"].to_string();
            match self.asked.get(&id).cloned() {
                Some((method, params)) if method == "session/request_permission" => {
                    let key =
                        (to_key(&params["sessionId"]), to_key(&params["toolCall"]["toolCallId"]));
                    if let Some(call) = self
                        .calls
                        .get_mut(&key)
                        .filter(|call| **call == ClientCallState::AwaitingApproval)
                    {
                        *call = ClientCallState::Open;
                    }
                }
                // An answer may be under way to somebody who takes the question back.
                _ if self.known.contains(&id) => {}
                _ => self.add_violation(message, "takes back what was never asked"),
            }
        }
    }

    fn check_update(&mut self, message: &Value) {
        let update = &message["params"]["update"];
        let session = to_key(&message["params"]["sessionId"]);
        let what = to_key(&update["sessionUpdate"]);
        // What another client of the session does is told whenever it happens, and says so.
        let is_observed = message["params"]["_meta"]["zero"]["observedRun"].is_string();
        let is_due = is_observed || self.is_turn_running(&session);
        if TURN_UPDATES.contains(&what.as_str()) && !is_due {
            self.add_violation(message, "told when nothing was at work");
        }
        let key = (session, to_key(&update["toolCallId"]));
        let is_over = matches!(update["status"].as_str(), Some("completed" | "failed"));
        let next = if is_over { ClientCallState::Finished } else { ClientCallState::Open };
        match (what.as_str(), self.calls.get(&key).copied()) {
            ("tool_call", None) => {
                self.calls.insert(key, next);
            }
            ("tool_call", Some(_)) => self.add_violation(message, "a call that was told before"),
            ("tool_call_update", None) => self.add_violation(message, "a call that nobody knows"),
            ("tool_call_update", Some(ClientCallState::Finished)) => {
                self.add_violation(message, "a call that is over")
            }
            ("tool_call_update", Some(ClientCallState::AwaitingApproval)) => {
                if update["status"] == "in_progress" {
                    self.add_violation(message, "a call goes on while a person is asked about it");
                }
                if is_over {
                    self.calls.insert(key, next);
                }
            }
            ("tool_call_update", Some(ClientCallState::Open)) => {
                self.calls.insert(key, next);
            }
            _ => {}
        }
        if what.starts_with("tool_call") {
            self.check_paths(message, update);
        }
    }

    /// Paths are absolute.
    fn check_paths(&mut self, message: &Value, update: &Value) {
        let places = update["locations"].as_array().into_iter().flatten();
        let diffs = update["content"].as_array().into_iter().flatten();
        let diffs = diffs.filter(|content| content["type"] == "diff");
        let paths: Vec<String> = places.chain(diffs).map(|at| to_key(&at["path"])).collect();
        if paths.iter().any(|path| !path.starts_with('/')) {
            self.add_violation(message, "a path that is not absolute");
        }
    }

    fn is_turn_running(&self, session: &str) -> bool {
        self.waiting.values().any(|(method, params)| {
            TURN_REQUESTS.contains(&method.as_str()) && params["sessionId"] == session
        })
    }
}

fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

fn is_answer(message: &Value) -> bool {
    message.get("method").is_none() && message.get("id").is_some()
}

fn to_key(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[test]
fn rules_detect_violations() {
    use serde_json::json;
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "session/prompt",
        "params": {"sessionId": "s", "prompt": []}});
    let end = json!({"jsonrpc": "2.0", "id": 1, "result": {"stopReason": "end_turn"}});
    let tell = |update: Value| {
        json!({"jsonrpc": "2.0", "method": "session/update",
            "params": {"sessionId": "s", "update": update}})
    };
    let call = tell(json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t"}));
    let over =
        tell(json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "failed"}));
    let check = |agent: &[&Value], faults: usize| {
        let mut log = vec![RecordedMessage { by: MessagePeer::Client, message: ask.clone() }];
        log.extend(
            agent
                .iter()
                .map(|entry| RecordedMessage { by: MessagePeer::Agent, message: (*entry).clone() }),
        );
        let found = find_violations(&log, 0);
        assert_eq!(found.len(), faults, "{agent:?}: {found:?}");
    };
    check(&[&call, &over, &end], 0);
    check(&[&call, &end], 1);
    check(&[&over, &end], 1);
    check(&[&end, &end], 1);
    check(&[&end, &call, &over], 2);
    check(&[&call, &call, &over, &end], 1);
    check(&[&call, &over, &over, &end], 1);
    check(&[&json!({"jsonrpc": "2.0", "id": 7, "result": {}}), &end], 1);
    let note = json!({"jsonrpc": "2.0", "method": "session/news", "params": {}});
    check(&[&note, &end], 1);
}
