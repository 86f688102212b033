//! Clients that go away, or do not listen.

use std::time::{Duration, Instant};

use serde_json::json;
use zero_wire::client::EncodedParams;

use super::acp_client::ClientReply;
use super::{AcpFixture, call_step, call_text, make_script, only_call};
use crate::gateway_process::{GatewayProcess, connect};
use crate::mcp_fixture::wait_for;
use crate::process_cleanup::{find_sleepers, unique_seconds};

#[test]
fn client_leaving_mid_turn_leaves_nothing_behind() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let seconds = unique_seconds(61);
    let command = format!("sleep {seconds} & setsid sleep {seconds} & wait");
    let from = acp.log_position();
    acp.begin_prompt(&session, &make_script(&[&call_step("Bash", json!({"command": command}))]));
    acp.wait_for_update(from, "a start", |update| update["status"] == "in_progress");
    wait_for("two sleepers", || find_sleepers(seconds).len() == 2);
    let begun = Instant::now();
    let (status, stderr) = acp.disconnect();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    wait_for("no sleepers", || find_sleepers(seconds).is_empty());
    // The next one finds the session in order.
    let mut acp = fixture.start_client();
    acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    assert_eq!(only_call(&acp.updates(0, &session))["status"], "failed");
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn client_leaving_a_permission_grants_nothing() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let write = call_step("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    acp.begin_prompt(&session, &make_script(&[&write]));
    acp.wait_for_request(from, "session/request_permission");
    let (status, _) = acp.disconnect();
    assert_eq!(status.code(), Some(0));
    assert!(!fixture.project_path("new.txt").exists());
}

#[test]
fn client_leaving_mid_turn_disconnects_model() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    acp.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    let (status, _) = acp.disconnect();
    assert_eq!(status.code(), Some(0));
    fixture.model.wait_for_disconnect();
}

/// Whether a run of a session is at work at a gateway; it is stopped.
fn was_running(fixture: &AcpFixture, gateway: &GatewayProcess, session: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, _events) = connect(fixture.zero.folder(), &gateway.url, &[]).await;
        let params = EncodedParams::encode("chat.abort", &json!({"sessionKey": session})).unwrap();
        let stopped = client.request_encoded("chat.abort", &params).await;
        stopped.unwrap()["aborted"] == true
    })
}

#[test]
fn remote_run_ends_or_continues_as_configured() {
    for (on_exit, goes_on) in [(None, false), (Some("abort"), false), (Some("detach"), true)] {
        let fixture = AcpFixture::with_settings(match on_exit {
            Some(on_exit) => json!({"acp": {"onExit": on_exit}}),
            None => json!({}),
        });
        let gateway = GatewayProcess::start(&fixture.zero);
        let mut acp = fixture.start_client_with(&["--url", &gateway.url], json!({}));
        let session = acp.open_session(&fixture);
        let from = acp.log_position();
        acp.begin_prompt(&session, &make_script(&["say one two", "hang"]));
        acp.wait_for_update(from, "words", |update| {
            update["sessionUpdate"] == "agent_message_chunk"
        });
        let (status, _) = acp.disconnect();
        assert_eq!(status.code(), Some(0));
        assert_eq!(was_running(&fixture, &gateway, &session), goes_on, "{on_exit:?}");
        fixture.model.wait_for_disconnect();
    }
}

/// The run may go on elsewhere; what it started here may not.
#[test]
fn local_commands_of_remote_run_end_with_client() {
    let fixture = AcpFixture::with_settings(json!({"acp": {"onExit": "detach"}}));
    let gateway = GatewayProcess::start(&fixture.zero);
    let mut acp = fixture.start_client_with(&["--url", &gateway.url], json!({}));
    let session = acp.open_session(&fixture);
    let seconds = unique_seconds(62);
    let command = format!("sleep {seconds} & setsid sh -c 'sleep {seconds} & wait' & wait");
    let from = acp.log_position();
    acp.begin_prompt(&session, &make_script(&[&call_step("Bash", json!({"command": command}))]));
    acp.wait_for_update(from, "a start", |update| update["status"] == "in_progress");
    wait_for("two sleepers", || find_sleepers(seconds).len() == 2);
    let (status, stderr) = acp.disconnect();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    wait_for("no sleepers", || find_sleepers(seconds).is_empty());
}

#[test]
fn partial_last_line_is_ignored() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    acp.send_bytes(br#"{"jsonrpc":"2.0","id":99,"method":"session/ne"#);
    let (status, _) = acp.disconnect_unchecked();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn client_that_stops_reading_misses_nothing() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client_with(&[], json!({"_meta": {"terminal_output": true}}));
    let session = acp.open_session(&fixture);
    let printing = call_step("Bash", json!({"command": "seq 1 3000000; touch printed"}));
    acp.always_select("allow_once");
    acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": "auto"}));
    acp.stop_reading();
    let turn = acp.begin_prompt(&session, &make_script(&[&printing, "turn", "say Done."]));
    // Whether the command waits for the client or not, little is kept for it.
    let until = Instant::now() + Duration::from_secs(5);
    let mut most = 0;
    while !fixture.project_path("printed").exists() && Instant::now() < until {
        most = most.max(acp.memory_kb("VmRSS"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(most < 200 * 1024, "{most} kB while nobody reads");
    assert!(!acp.is_answered(&turn));
    acp.resume_reading();
    acp.expect_end(&turn, "end_turn");
    assert!(fixture.project_path("printed").exists());
    assert_eq!(acp.message_text(0, &session), "Done.");
    assert_eq!(only_call(&acp.updates(0, &session))["status"], "completed");
    let peak = acp.memory_kb("VmHWM");
    assert!(peak < 300 * 1024, "{peak} kB");
    acp.close();
}

#[test]
fn flooding_client_that_does_not_read_is_throttled() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    acp.stop_reading();
    let ids: Vec<_> = (0..500).map(|_| acp.request("session/nothing", json!({}))).collect();
    acp.resume_reading();
    for id in &ids {
        assert_eq!(acp.wait(id).expect_err("there is no such method")["code"], -32601);
    }
    acp.close();
}

#[test]
fn command_output_reaches_client_despite_crash() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let crash = call_step("Bash", json!({"command": "echo last words; kill -SEGV $$"}));
    acp.run_turn(&session, &make_script(&[&crash]), "end_turn");
    assert!(call_text(&only_call(&acp.updates(from, &session))).contains("last words"));
    acp.close();
}
