//! Whatever is at work can be stopped, once, at any moment, and the session goes on.

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, cancelled_outcome, selected_outcome};
use super::{AcpFixture, call_step, calls, make_script};

fn open_client(fixture: &AcpFixture) -> (AcpClient, String) {
    let mut acp = fixture.start_client();
    let session = acp.open_session(fixture);
    (acp, session)
}

fn write_step(name: &str) -> String {
    call_step("Write", json!({"file_path": name, "content": "new\n"}))
}

fn cancel_session(acp: &mut AcpClient, session: &str) {
    acp.notify("session/cancel", json!({"sessionId": session}));
}

/// A turn that talks and does not end.
fn begin_hanging_prompt(acp: &mut AcpClient, session: &str) -> Value {
    let from = acp.log_position();
    let turn = acp.begin_prompt(session, &make_script(&["say one two", "hang"]));
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    turn
}

#[test]
fn cancel_001_cancelled_turn_reports_cancelled() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let turn = begin_hanging_prompt(&mut acp, &session);
    cancel_session(&mut acp, &session);
    acp.expect_end(&turn, "cancelled");
    fixture.model.wait_for_disconnect();
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn new_prompt_replaces_running_one_if_configured() {
    let fixture = AcpFixture::with_settings(json!({"acp": {"overlap": "replace"}}));
    let (mut acp, session) = open_client(&fixture);
    let first = begin_hanging_prompt(&mut acp, &session);
    let second = begin_hanging_prompt(&mut acp, &session);
    acp.expect_end(&first, "cancelled");
    fixture.model.wait_for_disconnect();
    let from = acp.log_position();
    let third = acp.begin_prompt(&session, &make_script(&["say Here I am."]));
    acp.expect_end(&second, "cancelled");
    acp.expect_end(&third, "end_turn");
    // What the others said last may have come after it began.
    let words = acp.message_text(from, &session);
    assert!(words.ends_with("Here I am."), "{words}");
    acp.close();
}

#[test]
fn cancel_002_no_updates_after_the_answer() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let from = acp.log_position();
    let steps = [&*call_step("Bash", json!({"command": "yes"})), "turn", "say Never."];
    let turn = acp.begin_prompt(&session, &make_script(&steps));
    acp.wait_for_update(from, "a start", |update| update["status"] == "in_progress");
    cancel_session(&mut acp, &session);
    acp.expect_end(&turn, "cancelled");
    let calls = calls(&acp.updates(from, &session));
    assert_eq!(calls[0]["status"], "failed", "it is settled before: {calls:#?}");
    // Had there been more, it would have come by the end of the talk, which the rules look at.
    acp.call_ok("session/list", json!({}));
    acp.close();
}

#[test]
fn request_can_be_cancelled_by_id() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let turn = begin_hanging_prompt(&mut acp, &session);
    acp.notify("$/cancel_request", json!({"requestId": turn}));
    acp.expect_end(&turn, "cancelled");
    fixture.model.wait_for_disconnect();
    acp.notify("$/cancel_request", json!({"requestId": turn}));
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn second_cancel_has_no_effect() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let turn = begin_hanging_prompt(&mut acp, &session);
    for _ in 0..5 {
        cancel_session(&mut acp, &session);
    }
    acp.notify("$/cancel_request", json!({"requestId": turn}));
    acp.expect_end(&turn, "cancelled");
    cancel_session(&mut acp, &session);
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn cancel_without_turn_has_no_effect() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    cancel_session(&mut acp, &session);
    cancel_session(&mut acp, "nobody");
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn turn_can_be_cancelled_before_it_starts() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    for _ in 0..10 {
        let turn = acp.begin_prompt(&session, &make_script(&["say one two", "hang"]));
        cancel_session(&mut acp, &session);
        acp.expect_end(&turn, "cancelled");
    }
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

/// A client answers `cancelled` as it should, answers something else, or never. However quick the model
/// is, it is not asked to go on; and a yes comes too late, however soon it comes.
#[test]
fn turn_can_be_cancelled_while_permission_is_pending() {
    let fixture = AcpFixture::new();
    let yes = || Some(selected_outcome("allow_once"));
    for (at_once, at_the_end) in
        [(Some(cancelled_outcome()), None), (yes(), None), (None, yes()), (None, None)]
    {
        let (mut acp, session) = open_client(&fixture);
        acp.set_reply_policy(|_, _| ClientReply::Defer);
        let (from, told) = (acp.log_position(), fixture.model.requests().len());
        let turn = acp
            .begin_prompt(&session, &make_script(&[&write_step("new.txt"), "turn", "say Never."]));
        let asked = acp.wait_for_request(from, "session/request_permission");
        cancel_session(&mut acp, &session);
        if let Some(answer) = at_once {
            acp.reply(&asked["id"], answer);
        }
        acp.expect_end(&turn, "cancelled");
        if let Some(answer) = at_the_end {
            acp.reply(&asked["id"], answer);
        }
        let updates = acp.updates(from, &session);
        assert_eq!(super::only_call(&updates)["status"], "failed");
        assert_eq!(acp.message_text(from, &session), "");
        assert_eq!(fixture.model.requests().len(), told + 1);
        assert!(!fixture.project_path("new.txt").exists());
        acp.set_reply_policy(|_, _| ClientReply::Result(selected_outcome("reject_once")));
        acp.run_turn(
            &session,
            &make_script(&[&write_step("new.txt"), "turn", "say Ok."]),
            "end_turn",
        );
        assert!(!fixture.project_path("new.txt").exists());
        acp.close();
    }
}

/// Whoever stops a turn and goes on with another one answers the question of the first as they should,
/// which stops nothing more.
#[test]
fn late_answer_of_cancelled_turn_does_not_stop_next() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    for _ in 0..5 {
        let from = acp.log_position();
        let first = acp
            .begin_prompt(&session, &make_script(&[&write_step("new.txt"), "turn", "say Never."]));
        let asked = acp.wait_for_request(from, "session/request_permission");
        cancel_session(&mut acp, &session);
        let second = acp.begin_prompt(&session, &make_script(&["say Second."]));
        acp.reply(&asked["id"], cancelled_outcome());
        acp.expect_end(&first, "cancelled");
        acp.expect_end(&second, "end_turn");
        assert_eq!(acp.message_text(from, &session), "Second.");
    }
    acp.close();
}

#[test]
fn session_can_be_closed_while_permission_is_pending() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    let from = acp.log_position();
    let turn =
        acp.begin_prompt(&session, &make_script(&[&write_step("new.txt"), "turn", "say Never."]));
    let asked = acp.wait_for_request(from, "session/request_permission");
    let closed = acp.request("session/close", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    acp.wait(&closed).unwrap();
    acp.wait_for_message(from, "that it is taken back", |message| {
        message["method"] == "$/cancel_request" && message["params"]["requestId"] == asked["id"]
    });
    assert_eq!(super::only_call(&acp.updates(from, &session))["status"], "failed");
    assert_eq!(fixture.model.requests().len(), 1, "it is not asked to go on");
    assert!(!fixture.project_path("new.txt").exists());
    acp.close();
}

#[test]
fn command_ends_with_its_turn() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let seconds = crate::process_cleanup::unique_seconds(60);
    let from = acp.log_position();
    let sleep = call_step("Bash", json!({"command": format!("sleep {seconds}")}));
    let turn = acp.begin_prompt(&session, &make_script(&[&sleep]));
    acp.wait_for_update(from, "a start", |update| update["status"] == "in_progress");
    crate::mcp_fixture::wait_for("a sleeper", || {
        !crate::process_cleanup::find_sleepers(seconds).is_empty()
    });
    cancel_session(&mut acp, &session);
    acp.expect_end(&turn, "cancelled");
    crate::mcp_fixture::wait_for("no sleeper", || {
        crate::process_cleanup::find_sleepers(seconds).is_empty()
    });
    acp.close();
}

#[test]
fn second_prompt_waits_for_first() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    let from = acp.log_position();
    let first =
        acp.begin_prompt(&session, &make_script(&[&write_step("one.txt"), "turn", "say First."]));
    let asked = acp.wait_for_request(from, "session/request_permission");
    let second = acp.begin_prompt(&session, &make_script(&["say Second."]));
    acp.call_ok("session/list", json!({}));
    assert!(!acp.is_answered(&first) && !acp.is_answered(&second));
    acp.reply(&asked["id"], selected_outcome("allow_once"));
    acp.expect_end(&first, "end_turn");
    acp.expect_end(&second, "end_turn");
    assert_eq!(acp.message_text(from, &session), "First.Second.");
    acp.close();
}

#[test]
fn cancel_stops_all_queued_prompts() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let first = begin_hanging_prompt(&mut acp, &session);
    let others: Vec<Value> = (0..3).map(|_| acp.begin_prompt(&session, "hi")).collect();
    cancel_session(&mut acp, &session);
    acp.expect_end(&first, "cancelled");
    for other in &others {
        acp.expect_end(other, "cancelled");
    }
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn one_of_two_prompts_can_be_cancelled() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let first = begin_hanging_prompt(&mut acp, &session);
    let second = acp.begin_prompt(&session, "never mind");
    acp.notify("$/cancel_request", json!({"requestId": second}));
    acp.expect_end(&second, "cancelled");
    assert!(!acp.is_answered(&first));
    cancel_session(&mut acp, &session);
    acp.expect_end(&first, "cancelled");
    acp.close();
}

#[test]
fn cancelling_one_prompt_keeps_permission_of_other() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    let from = acp.log_position();
    let first =
        acp.begin_prompt(&session, &make_script(&[&write_step("new.txt"), "turn", "say Ok."]));
    let asked = acp.wait_for_request(from, "session/request_permission");
    let second = acp.begin_prompt(&session, "never mind");
    acp.notify("$/cancel_request", json!({"requestId": second}));
    acp.expect_end(&second, "cancelled");
    acp.reply(&asked["id"], selected_outcome("allow_once"));
    acp.expect_end(&first, "end_turn");
    assert!(fixture.project_path("new.txt").exists());
    acp.close();
}

#[test]
fn excess_prompts_are_refused_and_others_kept() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let first = begin_hanging_prompt(&mut acp, &session);
    let turns: Vec<Value> = (0..30).map(|_| acp.begin_prompt(&session, "hi")).collect();
    // Those beyond what can wait are answered at once.
    let refused = acp.wait(turns.last().unwrap()).expect_err("there is no room");
    assert_eq!(refused["code"], -32600, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("cancel"), "{refused}");
    cancel_session(&mut acp, &session);
    acp.expect_end(&first, "cancelled");
    for turn in &turns {
        match acp.wait(turn) {
            Ok(end) => assert_eq!(end["stopReason"], "cancelled"),
            Err(error) => assert_eq!(error["code"], -32600, "{error}"),
        }
    }
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}
