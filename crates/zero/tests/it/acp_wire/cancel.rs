//! Whatever is at work can be stopped, once, at any moment, and the session goes on.

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, cancelled, selected};
use super::{AcpFixture, call, calls, script};

fn opened(desk: &AcpFixture) -> (AcpClient, String) {
    let mut acp = desk.acp();
    let session = acp.open(desk);
    (acp, session)
}

fn write(name: &str) -> String {
    call("Write", json!({"file_path": name, "content": "new\n"}))
}

fn stop(acp: &mut AcpClient, session: &str) {
    acp.notify("session/cancel", json!({"sessionId": session}));
}

/// A turn that talks and does not end.
fn hanging(acp: &mut AcpClient, session: &str) -> Value {
    let from = acp.mark();
    let turn = acp.begin(session, &script(&["say one two", "hang"]));
    acp.until_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    turn
}

#[test]
fn cancel_001_a_turn_that_is_stopped_says_so() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let turn = hanging(&mut acp, &session);
    stop(&mut acp, &session);
    acp.ends(&turn, "cancelled");
    desk.model.until_hung_up();
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn a_new_prompt_stops_the_one_at_work_where_settings_say_so() {
    let desk = AcpFixture::with(json!({"acp": {"overlap": "replace"}}));
    let (mut acp, session) = opened(&desk);
    let first = hanging(&mut acp, &session);
    let second = hanging(&mut acp, &session);
    acp.ends(&first, "cancelled");
    desk.model.until_hung_up();
    let from = acp.mark();
    let third = acp.begin(&session, &script(&["say Here I am."]));
    acp.ends(&second, "cancelled");
    acp.ends(&third, "end_turn");
    // What the others said last may have come after it began.
    let words = acp.words(from, &session);
    assert!(words.ends_with("Here I am."), "{words}");
    acp.leave();
}

#[test]
fn cancel_002_nothing_is_told_after_the_answer() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let from = acp.mark();
    let steps = [&*call("Bash", json!({"command": "yes"})), "turn", "say Never."];
    let turn = acp.begin(&session, &script(&steps));
    acp.until_update(from, "a start", |update| update["status"] == "in_progress");
    stop(&mut acp, &session);
    acp.ends(&turn, "cancelled");
    let calls = calls(&acp.updates(from, &session));
    assert_eq!(calls[0]["status"], "failed", "it is settled before: {calls:#?}");
    // Had there been more, it would have come by the end of the talk, which the rules look at.
    acp.ok("session/list", json!({}));
    acp.leave();
}

#[test]
fn a_request_can_be_taken_back_by_its_id() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let turn = hanging(&mut acp, &session);
    acp.notify("$/cancel_request", json!({"requestId": turn}));
    acp.ends(&turn, "cancelled");
    desk.model.until_hung_up();
    acp.notify("$/cancel_request", json!({"requestId": turn}));
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn stopping_twice_is_stopping_once() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let turn = hanging(&mut acp, &session);
    for _ in 0..5 {
        stop(&mut acp, &session);
    }
    acp.notify("$/cancel_request", json!({"requestId": turn}));
    acp.ends(&turn, "cancelled");
    stop(&mut acp, &session);
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn stopping_nothing_stops_nothing() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    stop(&mut acp, &session);
    stop(&mut acp, "nobody");
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn a_turn_can_be_stopped_before_it_began() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    for _ in 0..10 {
        let turn = acp.begin(&session, &script(&["say one two", "hang"]));
        stop(&mut acp, &session);
        acp.ends(&turn, "cancelled");
    }
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

/// A client answers `cancelled` as it should, answers something else, or never. However quick the model
/// is, it is not asked to go on; and a yes comes too late, however soon it comes.
#[test]
fn a_turn_can_be_stopped_while_a_person_is_asked() {
    let desk = AcpFixture::new();
    let yes = || Some(selected("allow_once"));
    for (at_once, at_the_end) in
        [(Some(cancelled()), None), (yes(), None), (None, yes()), (None, None)]
    {
        let (mut acp, session) = opened(&desk);
        acp.answers(|_, _| ClientReply::Hold);
        let (from, told) = (acp.mark(), desk.model.requests().len());
        let turn = acp.begin(&session, &script(&[&write("new.txt"), "turn", "say Never."]));
        let asked = acp.until_asked(from, "session/request_permission");
        stop(&mut acp, &session);
        if let Some(answer) = at_once {
            acp.reply(&asked["id"], answer);
        }
        acp.ends(&turn, "cancelled");
        if let Some(answer) = at_the_end {
            acp.reply(&asked["id"], answer);
        }
        let updates = acp.updates(from, &session);
        assert_eq!(super::only_call(&updates)["status"], "failed");
        assert_eq!(acp.words(from, &session), "");
        assert_eq!(desk.model.requests().len(), told + 1);
        assert!(!desk.file("new.txt").exists());
        acp.answers(|_, _| ClientReply::Result(selected("reject_once")));
        acp.turn(&session, &script(&[&write("new.txt"), "turn", "say Ok."]), "end_turn");
        assert!(!desk.file("new.txt").exists());
        acp.leave();
    }
}

/// Whoever stops a turn and goes on with another one answers the question of the first as they should,
/// which stops nothing more.
#[test]
fn the_answer_to_a_question_of_a_stopped_turn_does_not_stop_the_next() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    acp.answers(|_, _| ClientReply::Hold);
    for _ in 0..5 {
        let from = acp.mark();
        let first = acp.begin(&session, &script(&[&write("new.txt"), "turn", "say Never."]));
        let asked = acp.until_asked(from, "session/request_permission");
        stop(&mut acp, &session);
        let second = acp.begin(&session, &script(&["say Second."]));
        acp.reply(&asked["id"], cancelled());
        acp.ends(&first, "cancelled");
        acp.ends(&second, "end_turn");
        assert_eq!(acp.words(from, &session), "Second.");
    }
    acp.leave();
}

#[test]
fn a_session_can_be_closed_while_a_person_is_asked() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    acp.answers(|_, _| ClientReply::Hold);
    let from = acp.mark();
    let turn = acp.begin(&session, &script(&[&write("new.txt"), "turn", "say Never."]));
    let asked = acp.until_asked(from, "session/request_permission");
    let closed = acp.request("session/close", json!({"sessionId": session}));
    acp.ends(&turn, "cancelled");
    acp.wait(&closed).unwrap();
    acp.until(from, "that it is taken back", |said| {
        said["method"] == "$/cancel_request" && said["params"]["requestId"] == asked["id"]
    });
    assert_eq!(super::only_call(&acp.updates(from, &session))["status"], "failed");
    assert_eq!(desk.model.requests().len(), 1, "it is not asked to go on");
    assert!(!desk.file("new.txt").exists());
    acp.leave();
}

#[test]
fn a_command_ends_with_its_turn() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let seconds = crate::process_cleanup::seconds(60);
    let from = acp.mark();
    let sleep = call("Bash", json!({"command": format!("sleep {seconds}")}));
    let turn = acp.begin(&session, &script(&[&sleep]));
    acp.until_update(from, "a start", |update| update["status"] == "in_progress");
    crate::mcp_fixture::wait_for("a sleeper", || {
        !crate::process_cleanup::sleepers(seconds).is_empty()
    });
    stop(&mut acp, &session);
    acp.ends(&turn, "cancelled");
    crate::mcp_fixture::wait_for("no sleeper", || {
        crate::process_cleanup::sleepers(seconds).is_empty()
    });
    acp.leave();
}

#[test]
fn a_second_prompt_waits_for_the_first() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    acp.answers(|_, _| ClientReply::Hold);
    let from = acp.mark();
    let first = acp.begin(&session, &script(&[&write("one.txt"), "turn", "say First."]));
    let asked = acp.until_asked(from, "session/request_permission");
    let second = acp.begin(&session, &script(&["say Second."]));
    acp.ok("session/list", json!({}));
    assert!(!acp.is_answered(&first) && !acp.is_answered(&second));
    acp.reply(&asked["id"], selected("allow_once"));
    acp.ends(&first, "end_turn");
    acp.ends(&second, "end_turn");
    assert_eq!(acp.words(from, &session), "First.Second.");
    acp.leave();
}

#[test]
fn stopping_stops_all_prompts_that_wait() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let first = hanging(&mut acp, &session);
    let others: Vec<Value> = (0..3).map(|_| acp.begin(&session, "hi")).collect();
    stop(&mut acp, &session);
    acp.ends(&first, "cancelled");
    for other in &others {
        acp.ends(other, "cancelled");
    }
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn one_of_two_prompts_can_be_taken_back() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let first = hanging(&mut acp, &session);
    let second = acp.begin(&session, "never mind");
    acp.notify("$/cancel_request", json!({"requestId": second}));
    acp.ends(&second, "cancelled");
    assert!(!acp.is_answered(&first));
    stop(&mut acp, &session);
    acp.ends(&first, "cancelled");
    acp.leave();
}

#[test]
fn whoever_takes_one_prompt_back_is_still_asked_about_the_other() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    acp.answers(|_, _| ClientReply::Hold);
    let from = acp.mark();
    let first = acp.begin(&session, &script(&[&write("new.txt"), "turn", "say Ok."]));
    let asked = acp.until_asked(from, "session/request_permission");
    let second = acp.begin(&session, "never mind");
    acp.notify("$/cancel_request", json!({"requestId": second}));
    acp.ends(&second, "cancelled");
    acp.reply(&asked["id"], selected("allow_once"));
    acp.ends(&first, "end_turn");
    assert!(desk.file("new.txt").exists());
    acp.leave();
}

#[test]
fn too_many_prompts_are_refused_and_the_others_are_kept() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let first = hanging(&mut acp, &session);
    let turns: Vec<Value> = (0..30).map(|_| acp.begin(&session, "hi")).collect();
    // Those beyond what can wait are answered at once.
    let refused = acp.wait(turns.last().unwrap()).expect_err("there is no room");
    assert_eq!(refused["code"], -32600, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("cancel"), "{refused}");
    stop(&mut acp, &session);
    acp.ends(&first, "cancelled");
    for turn in &turns {
        match acp.wait(turn) {
            Ok(end) => assert_eq!(end["stopReason"], "cancelled"),
            Err(error) => assert_eq!(error["code"], -32600, "{error}"),
        }
    }
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}
