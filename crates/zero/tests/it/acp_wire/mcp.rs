//! Servers that the editor names for a session, and the questions they ask.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Acp, PATIENCE, Reply, selected};
use super::{Desk, call, calls, only_call, script, shown};
use crate::config::write;
use crate::mcp_fixture::{processes, starts, wait_for};

fn desk() -> Desk {
    let desk = Desk::new();
    write(&desk.zero, "server.py", include_str!("../mcp_server.py"));
    // Servers leave marks beside their script, and so it has to lie where they may.
    let project = desk.zero.folder().canonicalize().unwrap();
    Desk { project, ..desk }
}

fn server(desk: &Desk, alias: &str) -> Value {
    let script = desk.zero.folder().join("server.py");
    json!({"name": alias, "command": "/usr/bin/python3", "args": [script, alias],
        "env": [{"name": "EDITORS_OWN", "value": "12345"}]})
}

/// A session with servers, once `a` among them is up.
fn opened(desk: &Desk, acp: &mut Acp, servers: Value) -> String {
    let made = acp.ok("session/new", desk.wanted_with(json!({"mcpServers": servers})));
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let by = Instant::now() + PATIENCE;
    loop {
        let listed = acp.ok("_zero/tools/list", json!({"sessionId": session}));
        if listed.to_string().contains("a__echo") {
            return session;
        }
        assert!(Instant::now() < by, "{listed}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn tools_of_the_editors_servers_are_called() {
    let desk = desk();
    let mut acp = desk.acp();
    let session = opened(&desk, &mut acp, json!([server(&desk, "a")]));
    for (tool, input, holds) in [
        ("a__echo", json!({"text": "said twice"}), "said twice"),
        ("a__env", json!({}), "EDITORS_OWN"),
    ] {
        let from = acp.mark();
        acp.turn(&session, &script(&[&call(tool, input), "turn", "say Ok."]), "end_turn");
        let called = only_call(&acp.updates(from, &session));
        assert_eq!(called["status"], "completed", "{called}");
        assert!(shown(&called).contains(holds), "{called}");
    }
    // They are of that session alone.
    let other = acp.open(&desk);
    let from = acp.mark();
    let echo = call("a__echo", json!({"text": "x"}));
    acp.turn(&other, &script(&[&echo, "turn", "say Ok."]), "end_turn");
    assert_eq!(only_call(&acp.updates(from, &other))["status"], "failed");
    acp.leave();
    wait_for("no server", || processes(&desk.zero) == 0);
}

#[test]
fn servers_end_with_their_session() {
    let desk = desk();
    let mut acp = desk.acp();
    let session = opened(&desk, &mut acp, json!([server(&desk, "a")]));
    let echo = call("a__echo", json!({"text": "x"}));
    acp.turn(&session, &script(&[&echo]), "end_turn");
    assert_eq!(starts(&desk.zero, "a"), 1);
    wait_for("a server", || processes(&desk.zero) > 0);
    acp.ok("session/close", json!({"sessionId": session}));
    wait_for("no server", || processes(&desk.zero) == 0);
    acp.leave();
}

#[test]
fn a_server_that_does_not_start_holds_up_nothing() {
    let desk = desk();
    let mut acp = desk.acp();
    let broken = json!({"name": "broken", "command": "/nowhere/server", "args": [], "env": []});
    let session = opened(&desk, &mut acp, json!([broken, server(&desk, "a")]));
    let from = acp.mark();
    let echo = call("a__echo", json!({"text": "still here"}));
    acp.turn(&session, &script(&[&echo, "turn", "say Ok."]), "end_turn");
    assert!(shown(&only_call(&acp.updates(from, &session))).contains("still here"));
    acp.leave();
}

#[test]
fn a_form_is_shown_where_the_client_shows_forms() {
    let desk = desk();
    let mut acp = desk.acp_with(&[], json!({"elicitation": {"form": {}}}));
    acp.answers(|method, params| match method {
        "session/request_permission" => Reply::Result(selected("allow_once")),
        "elicitation/create" => {
            assert!(params["message"].as_str().unwrap().contains("Who are you?"), "{params}");
            Reply::Result(json!({"action": "accept", "content": {"name": "Ada"}}))
        }
        _ => Reply::Error(-32601),
    });
    let session = opened(&desk, &mut acp, json!([server(&desk, "a")]));
    let from = acp.mark();
    acp.turn(&session, &script(&[&call("a__ask", json!({})), "turn", "say Ok."]), "end_turn");
    let called = only_call(&acp.updates(from, &session));
    assert!(shown(&called).contains("Ada"), "{called}");
    let asked = acp.asked(from, "elicitation/create");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["params"]["sessionId"], json!(session));
    assert_eq!(asked[0]["params"]["mode"], "form");
    acp.leave();
}

#[test]
fn a_client_without_forms_is_not_asked() {
    let desk = desk();
    // That it has no mode means that it has none.
    for can in [json!({}), json!({"elicitation": {}})] {
        let mut acp = desk.acp_with(&[], can);
        let session = opened(&desk, &mut acp, json!([server(&desk, "a")]));
        let from = acp.mark();
        acp.turn(&session, &script(&[&call("a__ask", json!({})), "turn", "say Ok."]), "end_turn");
        assert_eq!(acp.asked(from, "elicitation/create").len(), 0);
        acp.leave();
    }
}

/// A client without forms chooses among options, by a call that stands for the question.
#[test]
fn a_choice_is_settled_however_it_ends() {
    let desk = desk();
    for (option, ends, status) in [
        (Some("1"), "end_turn", "completed"),
        (Some("none"), "end_turn", "failed"),
        (Some("whatever"), "end_turn", "failed"),
        (None, "cancelled", "failed"),
    ] {
        let mut acp = desk.acp();
        acp.answers(move |_, params| match (is_choice(params), option) {
            (false, _) => Reply::Result(selected("allow_once")),
            (true, Some(option)) => Reply::Result(selected(option)),
            (true, None) => Reply::Hold,
        });
        let session = opened(&desk, &mut acp, json!([server(&desk, "a")]));
        let from = acp.mark();
        let asks = call("a__ask", json!({"text": "colour"}));
        let turn = acp.begin(&session, &script(&[&asks, "turn", "say Ok."]));
        let asked = acp.until(from, "a choice", |said| is_choice(&said["params"]));
        if option.is_none() {
            acp.notify("session/cancel", json!({"sessionId": session}));
        }
        acp.ends(&turn, ends);
        let calls = calls(&acp.updates(from, &session));
        let of = |id: &Value| calls.iter().find(|call| call["toolCallId"] == *id).unwrap();
        let choice = of(&asked["params"]["toolCall"]["toolCallId"]);
        assert_eq!(choice["status"], status, "{option:?}: {choice}");
        assert!(choice["title"].as_str().unwrap().contains("Who are you?"), "{choice}");
        let told = calls.iter().map(shown).collect::<String>();
        assert_eq!(told.contains("blue"), option == Some("1"), "{calls:#?}");
        acp.leave();
    }
}

#[test]
fn a_session_can_be_closed_while_a_choice_is_asked() {
    let desk = desk();
    let mut acp = desk.acp();
    acp.answers(|_, params| match is_choice(params) {
        false => Reply::Result(selected("allow_once")),
        true => Reply::Hold,
    });
    let session = opened(&desk, &mut acp, json!([server(&desk, "a")]));
    let from = acp.mark();
    let turn = acp.begin(&session, &script(&[&call("a__ask", json!({"text": "colour"}))]));
    acp.until(from, "a choice", |said| is_choice(&said["params"]));
    acp.ok("session/close", json!({"sessionId": session}));
    acp.ends(&turn, "cancelled");
    let calls = calls(&acp.updates(from, &session));
    assert!(calls.iter().all(|call| call["status"] == "failed"), "{calls:#?}");
    acp.leave();
}

fn is_choice(params: &Value) -> bool {
    let call = params["toolCall"]["toolCallId"].as_str();
    call.is_some_and(|call| call.starts_with("question_"))
}
