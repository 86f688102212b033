//! A session is copied, and both go on in their own way.

use serde_json::{Value, json};

use super::{AcpFixture, call_step, chunk_text, make_script};
use crate::gateway_process::GatewayProcess;

fn fork_params(fixture: &AcpFixture, session: &str) -> Value {
    json!({"sessionId": session, "cwd": fixture.project})
}

#[test]
fn fork_has_the_conversation_and_continues_apart() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "first words", "end_turn");
    let from = acp.log_position();
    let forked = acp.call_ok("session/fork", fork_params(&fixture, &session));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(fork, session);
    assert!(forked["modes"]["currentModeId"].is_string(), "{forked}");
    assert!(forked["configOptions"].is_array(), "{forked}");
    acp.wait_for_update(from, "the title", |update| {
        update["sessionUpdate"] == "session_info_update" && update["title"] == "first words (fork)"
    });
    let messages =
        |fixture: &AcpFixture| fixture.model.requests().pop().unwrap()["messages"].to_string();
    acp.run_turn(&fork, "words of the copy", "end_turn");
    let asked = messages(&fixture);
    assert!(asked.contains("first words") && asked.contains("words of the copy"), "{asked}");
    acp.run_turn(&session, "words of the source", "end_turn");
    let asked = messages(&fixture);
    assert!(asked.contains("first words") && !asked.contains("words of the copy"), "{asked}");
    acp.call_ok("session/delete", json!({"sessionId": session}));
    acp.close();
    // Another process finds it with all that was said, without the session that it came from.
    let mut acp = fixture.start_client();
    acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": fork})));
    let told = chunk_text(&acp.updates(0, &fork), "user_message_chunk");
    assert_eq!(told, "first wordswords of the copy");
    acp.close();
}

#[test]
fn fork_of_session_that_is_not_open_is_possible() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let mut acp = fixture.start_client_with(&["--url", &gateway.url], json!({}));
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "first words", "end_turn");
    acp.call_ok("session/close", json!({"sessionId": session}));
    let forked = acp.call_ok("session/fork", fork_params(&fixture, &session));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    acp.run_turn(&fork, "more", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("first words"), "{asked}");
    acp.close();
}

#[test]
fn fork_without_source_is_refused_and_during_a_run_has_what_was_before() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let error =
        acp.call_error("session/fork", fork_params(&fixture, "agent:main:acp:nobody"), -32002);
    assert_eq!(error["data"]["sessionId"], "agent:main:acp:nobody");
    assert_eq!(error["data"]["kind"], "no_session");
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "first words", "end_turn");
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    let forked = acp.call_ok("session/fork", fork_params(&fixture, &session));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    acp.run_turn(&fork, "words of the copy", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("first words") && asked.contains("words of the copy"), "{asked}");
    assert!(!asked.contains("say one two"), "{asked}");
    // Another process does so too.
    let seen = fixture.zero.run(&["sessions", "fork", &session, "by-hand"]);
    assert!(seen.starts_with("exit 0") && seen.contains("last completed prompt"), "{seen}");
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    acp.call_error("session/fork", json!({"sessionId": session, "cwd": "relative"}), -32602);
    let sessions = acp.call_ok("session/list", json!({}));
    assert_eq!(sessions["sessions"].as_array().unwrap().len(), 3, "{sessions}");
    acp.close();
}

/// A long output is in a file of the session; the copy has its own.
#[test]
fn stored_results_outlive_the_source() {
    let fixture = AcpFixture::with_settings(json!({"permissions": {"allow": ["Bash(seq *)"]}}));
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let long = call_step("Bash", json!({"command": "seq 1 40000"}));
    acp.run_turn(&session, &make_script(&[&long, "turn", "say Ok."]), "end_turn");
    let forked = acp.call_ok("session/fork", fork_params(&fixture, &session));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    acp.call_ok("session/delete", json!({"sessionId": session}));
    acp.run_turn(&fork, "hi", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    let file = asked
        .split(['`', '"', ' ', '\n', '\\', '(', ')', '\''])
        .find(|word| word.contains("spill-sessions/"));
    let file = file.expect("the result names its file").trim_end_matches(['.', ',', ';', ']']);
    assert!(std::path::Path::new(file).is_file(), "{file}");
    let from = acp.log_position();
    let read = call_step("Read", json!({"file_path": file, "offset": 39990, "limit": 5}));
    acp.run_turn(&fork, &make_script(&[&read, "turn", "say Ok."]), "end_turn");
    let call = super::only_call(&acp.updates(from, &fork));
    assert_eq!(call["status"], "completed", "{call}");
    assert!(super::call_text(&call).contains("39992"), "{call}");
    acp.close();
}
