//! What is told in the course of a turn, and what a client without capabilities is never asked.

use serde_json::{Value, json};

use super::acp_client::{AcpClient, MessagePeer};
use super::{AcpFixture, call_step, call_text, check_all_ended, make_script, only_call};

fn open_client(fixture: &AcpFixture) -> (AcpClient, String) {
    let mut acp = fixture.start_client();
    let session = acp.open_session(fixture);
    (acp, session)
}

/// A turn that uses tools of every kind, with a client that said nothing of what it can.
fn check_bare_client(names: &[&str]) {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let steps = [
        &*call_step("Read", json!({"file_path": "hello.txt"})),
        "turn",
        &call_step(
            "Edit",
            json!({"file_path": "hello.txt", "old_string": "hello", "new_string": "bye"}),
        ),
        "turn",
        &call_step("Write", json!({"file_path": "new.txt", "content": "new\n"})),
        "turn",
        &call_step("Bash", json!({"command": "echo hi; touch made"})),
        "turn",
        &call_step("Grep", json!({"pattern": "new"})),
    ];
    acp.run_turn(&session, &make_script(&steps), "end_turn");
    assert!(
        fixture.project_path("made").exists()
            && fixture.read_project_file("hello.txt").as_deref() == Some("bye\n")
    );
    let asked = acp.log().iter().filter(|message| message.by == MessagePeer::Agent);
    let mut asked = asked.filter_map(|message| message.message["method"].as_str());
    assert!(asked.all(|method| names.iter().all(|name| !method.starts_with(name))));
    acp.close();
}

#[test]
fn clientcap_001_files_not_requested_without_capability() {
    check_bare_client(&["fs/"]);
}

#[test]
fn clientcap_002_terminals_not_requested_without_capability() {
    check_bare_client(&["terminal/"]);
}

#[test]
fn clientcap_003_forms_not_requested_without_capability() {
    check_bare_client(&["elicitation/"]);
}

#[test]
fn answer_has_the_usage_of_its_turn() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let read = call_step("Read", json!({"file_path": "hello.txt"}));
    let two_requests = make_script(&[&read, "turn", "say Ok."]);
    let turn = |tokens: [u64; 3]| json!({"totalTokens": tokens[0], "inputTokens": tokens[1], "outputTokens": tokens[2]});
    for (prompt, expected) in
        [(two_requests.as_str(), turn([30, 20, 10])), ("hi", turn([15, 10, 5]))]
    {
        let end = acp.prompt(&session, prompt).unwrap();
        assert_eq!(end["usage"], expected, "{end}");
    }
    // No model was asked.
    let end = acp.prompt(&session, "/help").unwrap();
    assert_eq!(end.get("usage"), None, "{end}");
    acp.close();
}

#[test]
fn commands_run_sandboxed_despite_client_terminals() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client_with(&[], json!({"terminal": true}));
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    acp.run_turn(
        &session,
        &make_script(&[&call_step("Bash", json!({"command": "echo hi"}))]),
        "end_turn",
    );
    assert!(call_text(&only_call(&acp.updates(from, &session))).contains("hi"));
    let methods = acp.agent_messages().filter_map(|message| message["method"].as_str());
    assert_eq!(methods.filter(|method| method.starts_with("terminal/")).count(), 0);
    acp.close();
}

#[test]
fn calls_have_title_kind_and_locations() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    for (step, kind, place) in [
        (call_step("Read", json!({"file_path": "hello.txt"})), "read", Some("hello.txt")),
        (call_step("Write", json!({"file_path": "a.txt", "content": "a"})), "edit", Some("a.txt")),
        (call_step("Bash", json!({"command": "echo hi"})), "execute", None),
        (call_step("Grep", json!({"pattern": "hello"})), "search", None),
        (call_step("Glob", json!({"pattern": "*.txt"})), "search", None),
        (call_step("Delete", json!({"file_path": "a.txt"})), "delete", Some("a.txt")),
    ] {
        let from = acp.log_position();
        acp.run_turn(&session, &make_script(&[&step]), "end_turn");
        let call = only_call(&acp.updates(from, &session));
        assert_eq!(call["kind"], kind, "{call}");
        assert_eq!(call["status"], "completed", "{call}");
        assert!(call["rawInput"].is_object(), "{call}");
        let title = call["title"].as_str().unwrap();
        assert!(title.len() > 4 && title != "Tool call", "{call}");
        if let Some(place) = place {
            assert_eq!(call["locations"][0]["path"], json!(fixture.project_path(place)), "{call}");
        }
    }
    acp.close();
}

#[test]
fn thoughts_and_text_are_separate() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let from = acp.log_position();
    let read = call_step("Read", json!({"file_path": "hello.txt"}));
    let steps = ["think Deep.", "say One.", &read, "turn", "think Deeper.", "say Two."];
    acp.run_turn(&session, &make_script(&steps), "end_turn");
    let updates = acp.updates(from, &session);
    assert_eq!(super::chunk_text(&updates, "agent_thought_chunk"), "Deep.Deeper.");
    assert_eq!(super::chunk_text(&updates, "agent_message_chunk"), "One.Two.");
    assert_eq!(
        super::chunk_text(&updates, "user_message_chunk"),
        "",
        "the client said that itself"
    );
    let ids = |kind: &str| -> Vec<Value> {
        let of_kind = updates.iter().filter(|update| update["sessionUpdate"] == kind);
        let mut ids: Vec<Value> = of_kind.map(|update| update["messageId"].clone()).collect();
        ids.dedup();
        ids
    };
    assert_eq!(ids("agent_message_chunk").len(), 2, "a call lies between: two messages");
    acp.close();
}

#[test]
fn unknown_tool_fails_and_turn_continues() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    for step in [
        call_step("Nothing", json!({})),
        call_step("Read", json!({"wrong": 1})),
        "call Read {".to_owned(),
    ] {
        let from = acp.log_position();
        acp.run_turn(&session, &make_script(&[&step, "turn", "say Ok."]), "end_turn");
        check_all_ended(&acp.updates(from, &session), 1, "failed");
        assert_eq!(acp.message_text(from, &session), "Ok.");
    }
    acp.close();
}

#[test]
fn long_output_is_bounded_and_in_order() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let from = acp.log_position();
    acp.run_turn(
        &session,
        &make_script(&[&call_step("Bash", json!({"command": "seq 1 50000"}))]),
        "end_turn",
    );
    let call = only_call(&acp.updates(from, &session));
    assert!(call_text(&call).contains("50000"), "the end of it is shown");
    let largest = acp.agent_messages().map(|message| message.to_string().len()).max().unwrap();
    assert!(largest < 4 * 1024 * 1024, "{largest}");
    acp.close();
}
