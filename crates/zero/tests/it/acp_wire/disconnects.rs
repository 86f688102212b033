//! Clients that go away, or do not listen.

use std::time::{Duration, Instant};

use serde_json::json;
use zero_wire::client::EncodedParams;

use super::acp_client::ClientReply;
use super::{AcpFixture, call, only_call, script, shown};
use crate::gateway_process::{GatewayProcess, connect};
use crate::mcp_fixture::wait_for;
use crate::process_cleanup::{seconds, sleepers};

#[test]
fn a_client_that_goes_away_in_mid_turn_leaves_nothing_behind() {
    let desk = AcpFixture::new();
    let mut acp = desk.acp();
    let session = acp.open(&desk);
    let seconds = seconds(61);
    let command = format!("sleep {seconds} & setsid sleep {seconds} & wait");
    let from = acp.mark();
    acp.begin(&session, &script(&[&call("Bash", json!({"command": command}))]));
    acp.until_update(from, "a start", |update| update["status"] == "in_progress");
    wait_for("two sleepers", || sleepers(seconds).len() == 2);
    let begun = Instant::now();
    let (status, stderr) = acp.hang_up();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    wait_for("no sleepers", || sleepers(seconds).is_empty());
    // The next one finds the session in order.
    let mut acp = desk.acp();
    acp.ok("session/load", desk.wanted_with(json!({"sessionId": session})));
    assert_eq!(only_call(&acp.updates(0, &session))["status"], "failed");
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn a_client_that_goes_away_from_a_question_has_not_said_yes() {
    let desk = AcpFixture::new();
    let mut acp = desk.acp();
    acp.answers(|_, _| ClientReply::Hold);
    let session = acp.open(&desk);
    let from = acp.mark();
    let write = call("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    acp.begin(&session, &script(&[&write]));
    acp.until_asked(from, "session/request_permission");
    let (status, _) = acp.hang_up();
    assert_eq!(status.code(), Some(0));
    assert!(!desk.file("new.txt").exists());
}

#[test]
fn a_client_that_goes_away_from_a_model_hangs_up_on_it() {
    let desk = AcpFixture::new();
    let mut acp = desk.acp();
    let session = acp.open(&desk);
    let from = acp.mark();
    acp.begin(&session, &script(&["say one two", "hang"]));
    acp.until_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    let (status, _) = acp.hang_up();
    assert_eq!(status.code(), Some(0));
    desk.model.until_hung_up();
}

/// Whether a run of a session is at work at a gateway; it is stopped.
fn was_at_work(desk: &AcpFixture, gateway: &GatewayProcess, session: &str) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, _events) = connect(desk.zero.folder(), &gateway.url, &[]).await;
        let params = EncodedParams::of("chat.abort", &json!({"sessionKey": session})).unwrap();
        let stopped = client.request_written("chat.abort", &params).await;
        stopped.unwrap()["aborted"] == true
    })
}

#[test]
fn runs_elsewhere_end_with_the_client_or_go_on_as_settings_say() {
    for (on_exit, goes_on) in [(None, false), (Some("abort"), false), (Some("detach"), true)] {
        let desk = AcpFixture::with(match on_exit {
            Some(on_exit) => json!({"acp": {"onExit": on_exit}}),
            None => json!({}),
        });
        let gateway = GatewayProcess::start(&desk.zero);
        let mut acp = desk.acp_with(&["--url", &gateway.url], json!({}));
        let session = acp.open(&desk);
        let from = acp.mark();
        acp.begin(&session, &script(&["say one two", "hang"]));
        acp.until_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
        let (status, _) = acp.hang_up();
        assert_eq!(status.code(), Some(0));
        assert_eq!(was_at_work(&desk, &gateway, &session), goes_on, "{on_exit:?}");
        desk.model.until_hung_up();
    }
}

/// The run may go on elsewhere; what it started here may not.
#[test]
fn nothing_is_left_of_what_runs_elsewhere_did_here() {
    let desk = AcpFixture::with(json!({"acp": {"onExit": "detach"}}));
    let gateway = GatewayProcess::start(&desk.zero);
    let mut acp = desk.acp_with(&["--url", &gateway.url], json!({}));
    let session = acp.open(&desk);
    let seconds = seconds(62);
    let command = format!("sleep {seconds} & setsid sh -c 'sleep {seconds} & wait' & wait");
    let from = acp.mark();
    acp.begin(&session, &script(&[&call("Bash", json!({"command": command}))]));
    acp.until_update(from, "a start", |update| update["status"] == "in_progress");
    wait_for("two sleepers", || sleepers(seconds).len() == 2);
    let (status, stderr) = acp.hang_up();
    assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
    wait_for("no sleepers", || sleepers(seconds).is_empty());
}

#[test]
fn half_a_line_at_the_end_is_no_message() {
    let desk = AcpFixture::direct();
    let mut acp = desk.acp();
    acp.raw(br#"{"jsonrpc":"2.0","id":99,"method":"session/ne"#);
    let (status, _) = acp.hang_up_unchecked();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn a_client_that_does_not_read_holds_up_little_and_misses_nothing() {
    let desk = AcpFixture::new();
    let mut acp = desk.acp_with(&[], json!({"_meta": {"terminal_output": true}}));
    let session = acp.open(&desk);
    let printing = call("Bash", json!({"command": "seq 1 3000000; touch printed"}));
    acp.chooses("allow_once");
    acp.ok("session/set_mode", json!({"sessionId": session, "modeId": "auto"}));
    acp.stop_reading();
    let turn = acp.begin(&session, &script(&[&printing, "turn", "say Done."]));
    // Whether the command waits for the client or not, little is kept for it.
    let until = Instant::now() + Duration::from_secs(5);
    let mut most = 0;
    while !desk.file("printed").exists() && Instant::now() < until {
        most = most.max(acp.memory_kb("VmRSS"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(most < 200 * 1024, "{most} kB while nobody reads");
    assert!(!acp.is_answered(&turn));
    acp.read();
    acp.ends(&turn, "end_turn");
    assert!(desk.file("printed").exists());
    assert_eq!(acp.words(0, &session), "Done.");
    assert_eq!(only_call(&acp.updates(0, &session))["status"], "completed");
    let peak = acp.memory_kb("VmHWM");
    assert!(peak < 300 * 1024, "{peak} kB");
    acp.leave();
}

#[test]
fn a_client_that_asks_much_and_does_not_read_is_made_to_wait() {
    let desk = AcpFixture::direct();
    let mut acp = desk.acp();
    acp.stop_reading();
    let ids: Vec<_> = (0..500).map(|_| acp.request("session/nothing", json!({}))).collect();
    acp.read();
    for id in &ids {
        assert_eq!(acp.wait(id).expect_err("there is no such method")["code"], -32601);
    }
    acp.leave();
}

#[test]
fn what_a_command_says_reaches_the_client_even_if_it_crashes() {
    let desk = AcpFixture::new();
    let mut acp = desk.acp();
    let session = acp.open(&desk);
    let from = acp.mark();
    let crash = call("Bash", json!({"command": "echo last words; kill -SEGV $$"}));
    acp.turn(&session, &script(&[&crash]), "end_turn");
    assert!(shown(&only_call(&acp.updates(from, &session))).contains("last words"));
    acp.leave();
}
