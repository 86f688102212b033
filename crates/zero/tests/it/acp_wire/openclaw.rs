//! `zero acp` at a gateway of the family that is no zero.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::AcpFixture;
use super::acp_client::{AcpClient, ClientReply, selected_outcome};
use super::openclaw_gateway::{OpenClawGateway, ScriptedResponse};

/// More than waits for anybody who does not listen.
const EVENT_COUNT: usize = 3_000;

/// A client of a gateway that does this.
fn start_with_script(
    script: impl Fn(&str, &Value) -> ScriptedResponse + Send + Sync + 'static,
) -> (AcpFixture, OpenClawGateway, AcpClient) {
    let (fixture, gateway) = (AcpFixture::without_model(), OpenClawGateway::start(script));
    let token = "a-token-0123456789abcdef";
    let acp = fixture.start_client_with(&["--url", &gateway.url, "--token", token], json!({}));
    (fixture, gateway, acp)
}

/// What a run says; `of` is what it was begun or stopped with.
fn chat_event(of: &Value, state: &str, text: &str) -> (&'static str, Value) {
    let message = json!({"role": "assistant", "content": [{"type": "text", "text": text}]});
    let run = of.get("runId").unwrap_or(&of["idempotencyKey"]);
    let payload = json!({"runId": run, "sessionKey": of["sessionKey"], "seq": 1, "state": state,
        "message": message});
    ("chat", payload)
}

#[test]
fn run_that_ignores_abort_is_aborted_again() {
    let begun = Arc::new(Mutex::new(Value::Null));
    let is_deaf = Arc::new(Mutex::new(true));
    let (sent, deaf) = (Arc::clone(&begun), Arc::clone(&is_deaf));
    let (fixture, gateway, mut acp) = start_with_script(move |method, params| match method {
        "chat.send" => {
            *sent.lock().unwrap() = params.clone();
            ScriptedResponse {
                after: vec![chat_event(params, "delta", "one")],
                ..ScriptedResponse::default()
            }
        }
        "chat.abort" if !*deaf.lock().unwrap() => ScriptedResponse {
            after: vec![chat_event(params, "aborted", "one two")],
            ..ScriptedResponse::default()
        },
        // Whoever looks hears that the run is still at work.
        "sessions.list" if !sent.lock().unwrap().is_null() => {
            let still = chat_event(&sent.lock().unwrap(), "delta", "one two");
            ScriptedResponse { before: vec![still], ..ScriptedResponse::default() }
        }
        _ => ScriptedResponse::default(),
    });
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, "count");
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    acp.notify("session/cancel", json!({"sessionId": session}));
    gateway.next_request("chat.abort");
    acp.expect_end(&turn, "cancelled");
    assert_eq!(acp.message_text(from, &session), "one");
    *is_deaf.lock().unwrap() = false;
    acp.call_ok("session/list", json!({}));
    let again = gateway.next_request("chat.abort");
    assert_eq!(again["runId"], begun.lock().unwrap()["idempotencyKey"]);
    assert_eq!(acp.message_text(from, &session), "one", "nothing is told of it any more");
    acp.close();
}

/// A client of a gateway whose runs ask for so many approvals at once, and then wait.
fn start_with_approvals(approvals: usize) -> (AcpFixture, OpenClawGateway, AcpClient) {
    start_with_script(move |method, params| match method {
        "chat.send" => {
            let asks = |number: usize| {
                let request = json!({"runId": params["idempotencyKey"], "command": "ls",
                    "sessionKey": params["sessionKey"], "toolCallId": format!("call-{number}")});
                let asked = json!({"id": format!("ask-{number}"), "request": request,
                    "createdAtMs": 1, "expiresAtMs": 9_000_000_000_000_i64});
                ("exec.approval.requested", asked)
            };
            let after = (0..approvals).map(asks).collect();
            ScriptedResponse { after, ..ScriptedResponse::default() }
        }
        "chat.abort" => ScriptedResponse {
            after: vec![chat_event(params, "aborted", "")],
            ..ScriptedResponse::default()
        },
        _ => ScriptedResponse::default(),
    })
}

#[test]
fn simultaneous_approval_requests_are_asked_in_order() {
    let (fixture, gateway, mut acp) = start_with_approvals(40);
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    let session = acp.open_session(&fixture);
    let mut from = acp.log_position();
    let turn = acp.begin_prompt(&session, "look");
    for number in 0..40 {
        let asked = acp.wait_for_message(from, "a question", |message| {
            message["method"] == "session/request_permission"
        });
        from = acp.log_position();
        acp.reply(&asked["id"], selected_outcome("allow_once"));
        let allowed = gateway.next_request("exec.approval.resolve");
        assert_eq!(allowed["id"], format!("ask-{number}"), "{allowed}");
    }
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    acp.close();
}

#[test]
fn excess_approval_requests_are_rejected() {
    let (fixture, gateway, mut acp) = start_with_approvals(70);
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    let session = acp.open_session(&fixture);
    let turn = acp.begin_prompt(&session, "look");
    // All of them are shown, and one is asked at a time.
    for number in 64..70 {
        let refused = gateway.next_request("exec.approval.resolve");
        assert_eq!(refused["id"], format!("ask-{number}"), "{refused}");
        assert_eq!(refused["decision"], "deny", "{refused}");
    }
    acp.wait_for_request(0, "session/request_permission");
    assert_eq!(acp.requests(0, "session/request_permission").len(), 1);
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    acp.close();
}

#[test]
fn events_during_session_load_do_not_block() {
    let (fixture, _gateway, mut acp) = start_with_script(|method, params| match method {
        "sessions.get" => {
            let of = json!({"runId": "of-another", "sessionKey": params["key"]});
            let words = |number: usize| {
                let text: String = (0..=number % 10).map(|word| format!("{word} ")).collect();
                let end = if number + 1 == EVENT_COUNT { "final" } else { "delta" };
                chat_event(&of, end, &text)
            };
            let messages = json!([{"role": "user", "content": "before"},
                {"role": "assistant", "content": "it was"}]);
            let before = (0..EVENT_COUNT).map(words).collect();
            ScriptedResponse {
                before,
                answer: Some(json!({ "messages": messages })),
                ..ScriptedResponse::default()
            }
        }
        "chat.send" => ScriptedResponse {
            after: vec![chat_event(params, "final", "Here.")],
            ..ScriptedResponse::default()
        },
        _ => ScriptedResponse::default(),
    });
    let session = "agent:main:acp-bridge:1";
    acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    assert_eq!(acp.message_text(0, session), "it was");
    let from = acp.log_position();
    acp.run_turn(session, "hi", "end_turn");
    assert_eq!(acp.message_text(from, session), "Here.");
    acp.close();
}

#[test]
fn session_with_unknown_folder_is_listed_without_folder() {
    let (fixture, _gateway, mut acp) = start_with_script(|method, params| match method {
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
    acp.call_ok("session/new", fixture.session_params_with(meta));
    let mut listed = |params: Value| {
        let sessions = acp.call_ok("session/list", params)["sessions"].as_array().unwrap().clone();
        let row = |row: &Value| {
            let is_unknown = row["_meta"]["zero"]["cwdUnknown"] == true;
            json!([row["sessionId"], row["cwd"], is_unknown])
        };
        sessions.iter().map(row).collect::<Vec<Value>>()
    };
    let known = json!(["agent:main:known", "/known", false]);
    let unknown = json!(["agent:main:unknown", "/", true]);
    let open = json!(["agent:main:open", fixture.project, false]);
    assert_eq!(listed(json!({})), [known.clone(), unknown, open.clone()]);
    assert_eq!(listed(json!({"cwd": "/known"})), [known]);
    assert_eq!(listed(json!({"cwd": fixture.project})), [open]);
    assert_eq!(listed(json!({"cwd": "/elsewhere"})), Vec::<Value>::new());
    acp.close();
}
