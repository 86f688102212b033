//! `zero acp` at a gateway of the family that is no zero.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::AcpFixture;
use super::acp_client::{AcpClient, ClientReply};
use super::openclaw_gateway::{OpenClawGateway, ScriptedResponse};

/// More than waits for anybody who does not listen.
const MANY: usize = 3_000;

/// A client of a gateway that does this.
fn started(
    script: impl Fn(&str, &Value) -> ScriptedResponse + Send + Sync + 'static,
) -> (AcpFixture, OpenClawGateway, AcpClient) {
    let (desk, gateway) = (AcpFixture::direct(), OpenClawGateway::start(script));
    let token = "a-token-0123456789abcdef";
    let acp = desk.acp_with(&["--url", &gateway.url, "--token", token], json!({}));
    (desk, gateway, acp)
}

/// What a run says; `of` is what it was begun or stopped with.
fn chat(of: &Value, state: &str, text: &str) -> (&'static str, Value) {
    let message = json!({"role": "assistant", "content": [{"type": "text", "text": text}]});
    let run = of.get("runId").unwrap_or(&of["idempotencyKey"]);
    let payload = json!({"runId": run, "sessionKey": of["sessionKey"], "seq": 1, "state": state,
        "message": message});
    ("chat", payload)
}

#[test]
fn a_run_that_goes_on_although_it_was_stopped_is_stopped_again() {
    let begun = Arc::new(Mutex::new(Value::Null));
    let is_deaf = Arc::new(Mutex::new(true));
    let (sent, deaf) = (Arc::clone(&begun), Arc::clone(&is_deaf));
    let (desk, gateway, mut acp) = started(move |method, params| match method {
        "chat.send" => {
            *sent.lock().unwrap() = params.clone();
            ScriptedResponse {
                after: vec![chat(params, "delta", "one")],
                ..ScriptedResponse::default()
            }
        }
        "chat.abort" if !*deaf.lock().unwrap() => ScriptedResponse {
            after: vec![chat(params, "aborted", "one two")],
            ..ScriptedResponse::default()
        },
        // Whoever looks hears that the run is still at work.
        "sessions.list" if !sent.lock().unwrap().is_null() => {
            let still = chat(&sent.lock().unwrap(), "delta", "one two");
            ScriptedResponse { before: vec![still], ..ScriptedResponse::default() }
        }
        _ => ScriptedResponse::default(),
    });
    let session = acp.open(&desk);
    let from = acp.mark();
    let turn = acp.begin(&session, "count");
    acp.until_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    acp.notify("session/cancel", json!({"sessionId": session}));
    gateway.asked("chat.abort");
    acp.ends(&turn, "cancelled");
    assert_eq!(acp.words(from, &session), "one");
    *is_deaf.lock().unwrap() = false;
    acp.ok("session/list", json!({}));
    let again = gateway.asked("chat.abort");
    assert_eq!(again["runId"], begun.lock().unwrap()["idempotencyKey"]);
    assert_eq!(acp.words(from, &session), "one", "nothing is told of it any more");
    acp.leave();
}

#[test]
fn whoever_asks_more_than_can_be_asked_is_told_no() {
    let (desk, gateway, mut acp) = started(|method, params| match method {
        "chat.send" => {
            let asks = |number: usize| {
                let request = json!({"runId": params["idempotencyKey"], "command": "ls",
                    "sessionKey": params["sessionKey"], "toolCallId": format!("call-{number}")});
                let asked = json!({"id": format!("ask-{number}"), "request": request,
                    "createdAtMs": 1, "expiresAtMs": 9_000_000_000_000_i64});
                ("exec.approval.requested", asked)
            };
            ScriptedResponse { after: (0..70).map(asks).collect(), ..ScriptedResponse::default() }
        }
        "chat.abort" => ScriptedResponse {
            after: vec![chat(params, "aborted", "")],
            ..ScriptedResponse::default()
        },
        _ => ScriptedResponse::default(),
    });
    acp.answers(|_, _| ClientReply::Hold);
    let session = acp.open(&desk);
    let turn = acp.begin(&session, "look");
    // All of them are shown, and one is asked at a time.
    for number in 64..70 {
        let refused = gateway.asked("exec.approval.resolve");
        assert_eq!(refused["id"], format!("ask-{number}"), "{refused}");
        assert_eq!(refused["decision"], "deny", "{refused}");
    }
    acp.until_asked(0, "session/request_permission");
    assert_eq!(acp.asked(0, "session/request_permission").len(), 1);
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.ends(&turn, "cancelled");
    acp.leave();
}

#[test]
fn what_others_do_while_a_session_is_loaded_holds_nothing_up() {
    let (desk, _gateway, mut acp) = started(|method, params| match method {
        "sessions.get" => {
            let of = json!({"runId": "of-another", "sessionKey": params["key"]});
            let words = |number: usize| {
                let text: String = (0..=number % 10).map(|word| format!("{word} ")).collect();
                let end = if number + 1 == MANY { "final" } else { "delta" };
                chat(&of, end, &text)
            };
            let messages = json!([{"role": "user", "content": "before"},
                {"role": "assistant", "content": "it was"}]);
            let before = (0..MANY).map(words).collect();
            ScriptedResponse {
                before,
                answer: Some(json!({ "messages": messages })),
                ..ScriptedResponse::default()
            }
        }
        "chat.send" => ScriptedResponse {
            after: vec![chat(params, "final", "Here.")],
            ..ScriptedResponse::default()
        },
        _ => ScriptedResponse::default(),
    });
    let session = "agent:main:acp-bridge:1";
    acp.ok("session/load", desk.wanted_with(json!({"sessionId": session})));
    assert_eq!(acp.words(0, session), "it was");
    let from = acp.mark();
    acp.turn(session, "hi", "end_turn");
    assert_eq!(acp.words(from, session), "Here.");
    acp.leave();
}

#[test]
fn a_session_of_which_nobody_knows_the_folder_is_of_none() {
    let (desk, _gateway, mut acp) = started(|method, params| match method {
        "sessions.list" if params.get("search").is_none() => {
            let rows = json!([{"key": "agent:main:known", "spawnedCwd": "/known"},
                {"key": "agent:main:unknown"}, {"key": "agent:main:open"}]);
            ScriptedResponse {
                answer: Some(json!({"sessions": rows, "hasMore": false})),
                ..ScriptedResponse::default()
            }
        }
        _ => ScriptedResponse::default(),
    });
    let meta = json!({"_meta": {"sessionKey": "agent:main:open"}});
    acp.ok("session/new", desk.wanted_with(meta));
    let mut listed = |params: Value| {
        let sessions = acp.ok("session/list", params)["sessions"].as_array().unwrap().clone();
        let row = |row: &Value| {
            let is_unknown = row["_meta"]["zero"]["cwdUnknown"] == true;
            json!([row["sessionId"], row["cwd"], is_unknown])
        };
        sessions.iter().map(row).collect::<Vec<Value>>()
    };
    let known = json!(["agent:main:known", "/known", false]);
    let unknown = json!(["agent:main:unknown", "/", true]);
    let open = json!(["agent:main:open", desk.project, false]);
    assert_eq!(listed(json!({})), [known.clone(), unknown, open.clone()]);
    assert_eq!(listed(json!({"cwd": "/known"})), [known]);
    assert_eq!(listed(json!({"cwd": desk.project})), [open]);
    assert_eq!(listed(json!({"cwd": "/elsewhere"})), Vec::<Value>::new());
    acp.leave();
}
