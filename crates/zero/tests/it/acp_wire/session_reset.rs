//! `--reset-session` and `resetSession`: a new transcript before the first use, and nobody's run is
//! stopped.

use serde_json::json;
use zero_wire::sessions::SessionsPatch;
use zero_wire::zero_sessions::{SessionOpenParams, ZeroSessionsOpen};

use super::{AcpFixture, make_script};
use crate::gateway_process::{GatewayProcess, connect};

const ARGS: [&str; 3] = ["--session", "shared", "--reset-session"];

#[test]
fn reset_flag_applies_once_per_process() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client_with(&["--session", "shared"], json!({}));
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "old words", "end_turn");
    acp.close();
    let mut acp = fixture.start_client_with(&ARGS, json!({}));
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "new words", "end_turn");
    let messages = || fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(!messages().contains("old words"), "{}", messages());
    // The second thread of the same editor continues the first.
    let second = acp.open_session(&fixture);
    assert_ne!(second, session);
    acp.run_turn(&second, "more words", "end_turn");
    assert!(messages().contains("new words"), "{}", messages());
    acp.close();
}

#[test]
fn reset_does_not_stop_the_run_of_another_window() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let url = ["--url", &gateway.url];
    let mut one = fixture.start_client_with(&[&url[..], &ARGS[..2]].concat(), json!({}));
    let session = one.open_session(&fixture);
    let from = one.log_position();
    let turn = one.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    one.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    let mut other = fixture.start_client_with(&[&url[..], &ARGS].concat(), json!({}));
    let refused = other.call("session/new", fixture.session_params()).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("without a reset"), "{refused}");
    assert!(!one.is_answered(&turn));
    // It can be opened as it is.
    let meta = json!({"_meta": {"resetSession": false}});
    other.call_ok("session/new", fixture.session_params_with(meta));
    one.notify("session/cancel", json!({"sessionId": session}));
    one.expect_end(&turn, "cancelled");
    one.close();
    other.close();
}

#[test]
fn reset_by_another_window_is_told() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let url = ["--url", &gateway.url];
    let mut one = fixture.start_client_with(&[&url[..], &ARGS[..2]].concat(), json!({}));
    let session = one.open_session(&fixture);
    one.run_turn(&session, "old words", "end_turn");
    let mut other = fixture.start_client_with(&[&url[..], &ARGS].concat(), json!({}));
    let second = other.open_session(&fixture);
    other.run_turn(&second, "new words", "end_turn");
    // Outside a turn, this client is sent no remark; it comes with the next one.
    let from = one.log_position();
    one.run_turn(&session, "more words", "end_turn");
    let notes = super::chunk_text(&one.updates(from, &session), "agent_thought_chunk");
    assert!(notes.contains("the session was reset elsewhere"), "{notes}");
    one.close();
    other.close();
}

/// Without a gateway, the other window is another process on the same store.
#[test]
fn reset_does_not_stop_the_run_of_another_process() {
    let fixture = AcpFixture::new();
    let mut one = fixture.start_client_with(&ARGS[..2], json!({}));
    let session = one.open_session(&fixture);
    let from = one.log_position();
    let turn = one.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    one.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    let mut other = fixture.start_client_with(&ARGS, json!({}));
    let refused = other.call("session/new", fixture.session_params()).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("another process"), "{refused}");
    assert!(!one.is_answered(&turn));
    one.notify("session/cancel", json!({"sessionId": session}));
    one.expect_end(&turn, "cancelled");
    // The reset that was refused still takes place, before the first use.
    let again = other.open_session(&fixture);
    other.run_turn(&again, "new words", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("new words") && !asked.contains("one two"), "{asked}");
    one.close();
    other.close();
}

/// Makes a session with a label, as a client of the gateway does.
fn give_label(fixture: &AcpFixture, key: &str, label: &str) {
    let gateway = GatewayProcess::start(&fixture.zero);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, _events) = connect(fixture.zero.folder(), &gateway.url, &[]).await;
        let session_key = Some(key.to_owned());
        let open = SessionOpenParams { session_key, ..SessionOpenParams::default() };
        client.request::<ZeroSessionsOpen>(open).await.unwrap();
        let patch = serde_json::from_value(json!({"key": key, "label": label})).unwrap();
        client.request::<SessionsPatch>(patch).await.unwrap();
    });
}

#[test]
fn session_is_found_and_reset_by_its_label() {
    let fixture = AcpFixture::new();
    let by_label = ["--session-label", "support inbox"];
    let mut acp = fixture.start_client_with(&by_label, json!({}));
    let refused = acp.call("session/new", fixture.session_params()).unwrap_err();
    assert_eq!(refused["data"]["sessionId"], "support inbox", "{refused}");
    acp.close();
    give_label(&fixture, "inbox", "support inbox");
    let mut acp = fixture.start_client_with(&["--session", "inbox"], json!({}));
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "old words", "end_turn");
    acp.close();
    let messages = || fixture.model.requests().pop().unwrap()["messages"].to_string();
    let mut acp = fixture.start_client_with(&by_label, json!({}));
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "more words", "end_turn");
    assert!(messages().contains("old words"), "{}", messages());
    acp.close();
    let reset = [&by_label[..], &["--reset-session"]].concat();
    let mut acp = fixture.start_client_with(&reset, json!({}));
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "new words", "end_turn");
    assert!(!messages().contains("old words"), "{}", messages());
    let second = acp.open_session(&fixture);
    acp.run_turn(&second, "last words", "end_turn");
    assert!(messages().contains("new words"), "it is reset once: {}", messages());
    acp.close();
}
