//! Two windows with one session: each sees what happens in the other.

use serde_json::{Value, json};

use super::acp_client::AcpClient;
use super::{AcpFixture, call_step, call_text, chunk_text, make_script, only_call};
use crate::gateway_process::GatewayProcess;

/// The updates of the last run of another window, as soon as it has ended.
#[track_caller]
fn wait_for_observed(acp: &mut AcpClient, from: usize, session: &str, words: &str) -> Vec<Value> {
    acp.wait_for_message(from, words, |message| {
        let params = &message["params"];
        params["_meta"]["zero"]["observedRun"].is_string()
            && params["update"]["sessionUpdate"] == "agent_message_chunk"
            && params["update"]["content"]["text"]
                .as_str()
                .is_some_and(|text| text.ends_with(words))
    });
    acp.updates(from, session)
}

#[test]
fn window_sees_the_turns_of_another_window() {
    let fixture = AcpFixture::with_settings(json!({"permissions": {"allow": ["Write"]}}));
    let gateway = GatewayProcess::start(&fixture.zero);
    let args = ["--url", &gateway.url];
    let mut one = fixture.start_client_with(&args, json!({}));
    let session = one.open_session(&fixture);
    let mut other = fixture.start_client_with(&args, json!({}));
    other.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    let (from_one, from_other) = (one.log_position(), other.log_position());
    let write = call_step("Write", json!({"file_path": "made.txt", "content": "made\n"}));
    let script = make_script(&[&write, "turn", "say Finished."]);
    one.run_turn(&session, &script, "end_turn");
    let seen = wait_for_observed(&mut other, from_other, &session, "Finished.");
    assert_eq!(chunk_text(&seen, "user_message_chunk"), script);
    assert_eq!(chunk_text(&seen, "agent_message_chunk"), "Finished.");
    let call = only_call(&seen);
    assert_eq!((&call["name"], &call["status"]), (&json!("Write"), &json!("completed")), "{call}");
    assert!(!call_text(&call).is_empty() || call["content"].is_array(), "{call}");
    // In the window that asked, nothing is told twice and nothing is another's.
    let own = one.updates(from_one, &session);
    assert_eq!(chunk_text(&own, "agent_message_chunk"), "Finished.");
    assert_eq!(chunk_text(&own, "user_message_chunk"), "");
    // The other way round.
    other.run_turn(&session, "hi", "end_turn");
    let seen = wait_for_observed(&mut one, from_one, &session, "model.");
    assert_eq!(chunk_text(&seen, "user_message_chunk"), "hi");
    one.close();
    other.close();
}

/// Only the window that asked, or the one with the tools, asks the user.
#[test]
fn question_of_another_window_is_not_asked_twice() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let args = ["--url", &gateway.url];
    let mut host = fixture.start_client_with(&args, json!({}));
    let mut first = fixture.start_client_with(&args, json!({}));
    let session = first.open_session(&fixture);
    host.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    let write = call_step("Write", json!({"file_path": "made.txt", "content": "made\n"}));
    let from = host.log_position();
    let turn = first.begin_prompt(&session, &make_script(&[&write, "turn", "say Finished."]));
    host.wait_for_request(from, "session/request_permission");
    first.expect_end(&turn, "end_turn");
    assert_eq!(first.requests(0, "session/request_permission").len(), 0);
    assert_eq!(host.requests(0, "session/request_permission").len(), 1);
    assert!(fixture.project_path("made.txt").exists());
    wait_for_observed(&mut host, from, &session, "Finished.");
    first.close();
    host.close();
}

/// Two editors without a gateway: each sees the turns of the other, live.
#[test]
fn window_sees_the_turns_of_another_process() {
    let fixture = AcpFixture::new();
    let mut one = fixture.start_client();
    let session = one.open_session(&fixture);
    let mut other = fixture.start_client();
    other.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    let (from_one, from_other) = (one.log_position(), other.log_position());
    // The turn goes on while the other window shows what it has said.
    let turn = one.begin_prompt(&session, &make_script(&["say one two.", "hang"]));
    let seen = wait_for_observed(&mut other, from_other, &session, "two.");
    assert!(chunk_text(&seen, "user_message_chunk").contains("say one two"), "{seen:?}");
    one.notify("session/cancel", json!({"sessionId": session}));
    one.expect_end(&turn, "cancelled");
    other.run_turn(&session, "hi", "end_turn");
    let seen = wait_for_observed(&mut one, from_one, &session, "model.");
    assert_eq!(chunk_text(&seen, "user_message_chunk"), "hi");
    one.close();
    other.close();
}

/// Two editors without a gateway: each has a process of its own, and both the same store.
#[test]
fn processes_on_one_store_share_a_session_and_run_nothing_twice() {
    let fixture = AcpFixture::new();
    let mut one = fixture.start_client();
    let session = one.open_session(&fixture);
    one.run_turn(&session, "first words", "end_turn");
    let mut other = fixture.start_client();
    let load = fixture.session_params_with(json!({"sessionId": session}));
    other.call_ok("session/load", load.clone());
    let seen = other.updates(0, &session);
    assert_eq!(chunk_text(&seen, "user_message_chunk"), "first words");
    assert_eq!(chunk_text(&seen, "agent_message_chunk"), "Hello from the model.");
    let asked = || fixture.model.requests().pop().unwrap()["messages"].to_string();
    other.run_turn(&session, "second words", "end_turn");
    assert!(asked().contains("first words"), "{}", asked());
    // The first window continues what happened in the other.
    one.run_turn(&session, "third words", "end_turn");
    assert!(asked().contains("second words"), "{}", asked());
    // While one works, the other is told so, and its prompt is not run later.
    let (from, requests) = (one.log_position(), fixture.model.requests().len());
    let turn = one.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    one.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    let refused = other.prompt(&session, "too early").unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("another process of zero"), "{refused}");
    one.notify("session/cancel", json!({"sessionId": session}));
    one.expect_end(&turn, "cancelled");
    other.run_turn(&session, "fourth words", "end_turn");
    assert!(!asked().contains("too early"), "{}", asked());
    assert_eq!(fixture.model.requests().len(), requests + 2, "each prompt is run once");
    one.close();
    other.close();
    // A third process finds all turns once and in order.
    let mut third = fixture.start_client();
    third.call_ok("session/load", load);
    let told = chunk_text(&third.updates(0, &session), "user_message_chunk");
    let script = make_script(&["say one two", "hang"]);
    assert_eq!(told, format!("first wordssecond wordsthird words{script}fourth words"));
    third.close();
}

#[test]
fn session_that_does_not_exist_is_named_as_such() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for method in ["session/load", "session/resume"] {
        let wanted = fixture.session_params_with(json!({"sessionId": "agent:main:acp:nobody"}));
        let error = acp.call_error(method, wanted, -32002);
        assert!(
            error["message"].as_str().unwrap().starts_with("there is no such session"),
            "{error}"
        );
        assert_eq!(error["data"]["kind"], "no_session");
        assert!(error["data"]["advice"].as_str().unwrap().contains("`session/list`"), "{error}");
    }
    let error = acp.call_error(
        "session/prompt",
        super::prompt_params("agent:main:acp:nobody", "hi"),
        -32002,
    );
    assert!(error["data"]["advice"].as_str().unwrap().contains("`session/load`"), "{error}");
    acp.close();
}
