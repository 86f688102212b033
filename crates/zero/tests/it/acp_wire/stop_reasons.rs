//! How a turn ends, in the protocol's words.

use serde_json::{Value, json};

use super::{AcpFixture, call_step, make_script};

#[test]
fn every_turn_end_has_its_stop_reason() {
    let fixture = AcpFixture::with_settings(json!({"agents": {"brief": {"maxTurns": 2}}}));
    let read = call_step("Read", json!({"file_path": "hello.txt"}));
    let full = r#"fail 400 {"error": {"message": "too long", "code": "context_length_exceeded"}}"#;
    let rounds = [&*read, "turn", &read, "turn", &read, "turn", "say Never."];
    for (steps, reason) in [
        (&["say All."][..], "end_turn"),
        (&["say Cut", "stop length"], "max_tokens"),
        (&["stop content_filter"], "refusal"),
        (&[full], "max_tokens"),
        (&rounds, "max_turn_requests"),
    ] {
        let mut acp = fixture.start_client_with(&["--agent", "brief"], json!({}));
        let session = acp.open_session(&fixture);
        let end = acp.prompt(&session, &make_script(steps)).unwrap();
        assert_eq!(end["stopReason"], reason, "{steps:?}: {end}");
        acp.run_turn(&session, "and now?", "end_turn");
        acp.close();
    }
}

#[test]
fn model_failure_error_says_if_retryable() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    for (failure, code, kind, retryable) in [
        (r#"fail 401 {"error": {"message": "bad key"}}"#, -32000, "auth", false),
        (r#"fail 500 {"error": {"message": "oh no"}}"#, -32603, "server", true),
        (r#"fail 429 {"error": {"message": "slow down"}}"#, -32603, "rate_limit", true),
    ] {
        let error = acp.prompt(&session, &make_script(&[failure])).expect_err(failure);
        assert_eq!(error["code"], code, "{error}");
        assert_eq!(error["data"]["kind"], kind, "{error}");
        assert_eq!(error["data"]["retryable"], retryable, "{error}");
        assert!(error["data"]["runId"].is_string(), "{error}");
        // The session goes on.
        acp.run_turn(&session, "hi", "end_turn");
    }
    acp.close();
}

#[test]
fn failure_after_text_and_calls_completes_them() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let read = call_step("Read", json!({"file_path": "hello.txt"}));
    let failure = r#"fail 401 {"error": {"message": "bad key"}}"#;
    let end = acp.prompt(&session, &make_script(&["say I look.", &read, "turn", failure]));
    assert_eq!(end.expect_err("it fails")["data"]["kind"], "auth");
    assert_eq!(acp.message_text(from, &session), "I look.");
    assert_eq!(super::only_call(&acp.updates(from, &session))["status"], "completed");
    acp.close();
}

#[test]
fn usage_is_reported_before_turn_end() {
    let fixture = AcpFixture::new();
    let mut settings: Value =
        serde_json::from_str(&fixture.model.settings_json(json!({}))).unwrap();
    settings["models"]["scripted"]["contextWindow"] = json!(100_000);
    crate::config::write_file(&fixture.zero, crate::config::USER_FILE, settings.to_string());
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    acp.run_turn(&session, "hi", "end_turn");
    let updates = acp.updates(from, &session);
    let usage = updates.iter().find(|update| update["sessionUpdate"] == "usage_update");
    let usage = usage.expect("usage is told");
    assert_eq!(usage["size"], 100_000, "{usage}");
    assert!(usage["used"].as_u64().unwrap() > 0, "{usage}");
    acp.close();
}

/// Without a model, there is no context window to report.
#[test]
fn no_context_window_is_reported_without_model() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    acp.run_turn(&session, "/status", "end_turn");
    assert!(
        !acp.message_text(from, &session).contains("window"),
        "{}",
        acp.message_text(from, &session)
    );
    acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    let updates = acp.updates(0, &session);
    let is_usage = |update: &Value| update["sessionUpdate"] == "usage_update";
    assert!(!updates.iter().any(is_usage), "{updates:#?}");
    acp.close();
}

#[test]
fn session_has_title_after_first_turn() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "Paint the shed", "end_turn");
    let update = acp.wait_for_update(0, "a title", |update| {
        update["sessionUpdate"] == "session_info_update" && update["title"].is_string()
    });
    assert!(update["title"].as_str().unwrap().contains("shed"), "{update}");
    acp.close();
}
