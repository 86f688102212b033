//! `--reset-session` and `resetSession`: a new transcript before the first use, and nobody's run is
//! stopped.

use serde_json::json;

use super::{AcpFixture, make_script};
use crate::gateway_process::GatewayProcess;

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
