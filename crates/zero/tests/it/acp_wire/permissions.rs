//! A person is asked before something is done that no rule allows, and the answer holds.

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, MessageSender, cancelled, selected};
use super::{AcpFixture, call, calls, only_call, script, shown, statuses};

fn write(name: &str) -> String {
    call("Write", json!({"file_path": name, "content": "new\n"}))
}

fn opened(desk: &AcpFixture) -> (AcpClient, String) {
    let mut acp = desk.acp();
    let session = acp.open(desk);
    (acp, session)
}

/// Where in the log the agent said something.
#[track_caller]
fn at(acp: &AcpClient, what: &str, is_it: impl Fn(&Value) -> bool) -> usize {
    let found =
        acp.log().iter().position(|said| said.by == MessageSender::Agent && is_it(&said.message));
    found.unwrap_or_else(|| panic!("{what} was never said"))
}

#[test]
fn a_call_is_announced_asked_about_begun_and_settled() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let from = acp.mark();
    acp.turn(
        &session,
        &script(&["say I write.", &write("new.txt"), "turn", "say Ok."]),
        "end_turn",
    );
    let updates = acp.updates(from, &session);
    let made = only_call(&updates);
    let id = &made["toolCallId"];
    assert_eq!(statuses(&updates, id), ["pending", "in_progress", "completed"]);
    let asked = acp.asked(from, "session/request_permission");
    let [question] = &asked[..] else { panic!("{asked:?}") };
    let question = &question["params"];
    assert_eq!(question["sessionId"], json!(session));
    assert_eq!(&question["toolCall"]["toolCallId"], id);
    assert_eq!(question["toolCall"]["kind"], "edit");
    let announced =
        at(&acp, "the call", |said| said["params"]["update"]["sessionUpdate"] == "tool_call");
    let questioned =
        at(&acp, "the question", |said| said["method"] == "session/request_permission");
    let begun = at(&acp, "the start", |said| said["params"]["update"]["status"] == "in_progress");
    assert!(announced < questioned && questioned < begun);
    assert_eq!(desk.text("new.txt").as_deref(), Some("new\n"));
    acp.leave();
}

#[test]
fn a_change_is_shown_first_and_whole() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    for (step, old, new) in [
        (call("Write", json!({"file_path": "hello.txt", "content": "bye\n"})), "hello\n", "bye\n"),
        (
            call(
                "Edit",
                json!({"file_path": "hello.txt", "old_string": "bye", "new_string": "ciao"}),
            ),
            "bye\n",
            "ciao\n",
        ),
    ] {
        let from = acp.mark();
        acp.turn(
            &session,
            &script(&["say ok", &call("Read", json!({"file_path": "hello.txt"})), "turn", &step]),
            "end_turn",
        );
        let asked = acp.asked(from, "session/request_permission");
        let [question] = &asked[..] else { panic!("{asked:?}") };
        let diff =
            json!({"type": "diff", "path": desk.file("hello.txt"), "oldText": old, "newText": new});
        assert_eq!(question["params"]["toolCall"]["content"][0], diff);
        // It stays when it is done.
        let calls = calls(&acp.updates(from, &session));
        let last = calls.last().unwrap();
        assert_eq!((&last["status"], &last["content"][0]), (&json!("completed"), &diff));
        assert_eq!(last["locations"][0]["path"], json!(desk.file("hello.txt")));
    }
    acp.leave();
}

#[test]
fn a_new_file_has_no_old_text() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let from = acp.mark();
    acp.turn(&session, &script(&[&write("new.txt")]), "end_turn");
    let made = only_call(&acp.updates(from, &session));
    let diff = &made["content"][0];
    assert_eq!((&diff["type"], &diff["newText"]), (&json!("diff"), &json!("new\n")), "{made}");
    assert!(diff["oldText"].is_null(), "{diff}");
    acp.leave();
}

#[test]
fn a_command_is_shown_first_and_whole() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    let command = format!("touch made-{} && touch 'and \"this\"'", "x".repeat(100));
    let from = acp.mark();
    acp.turn(&session, &script(&[&call("Bash", json!({"command": command}))]), "end_turn");
    let asked = acp.asked(from, "session/request_permission");
    let [question] = &asked[..] else { panic!("{asked:?}") };
    let question = &question["params"]["toolCall"];
    let first = question["content"][0]["content"]["text"].as_str().unwrap();
    assert!(first.contains(&command), "{first}");
    assert!(question["title"].as_str().unwrap().starts_with("touch made-"), "{question}");
    assert_eq!(question["rawInput"]["command"], json!(command));
    assert_eq!(question["kind"], "execute");
    assert!(desk.file("and \"this\"").exists());
    acp.leave();
}

#[test]
fn there_is_one_option_of_a_kind_and_it_says_what_it_grants() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    acp.turn(&session, &script(&[&write("new.txt")]), "end_turn");
    let asked = acp.asked(0, "session/request_permission");
    let options = asked[0]["params"]["options"].as_array().unwrap();
    let of = |kind: &str| {
        let of_kind: Vec<&Value> = options.iter().filter(|it| it["kind"] == kind).collect();
        assert!(of_kind.len() <= 1, "{options:?}");
        of_kind.first().map(|option| option["name"].as_str().unwrap())
    };
    assert!(of("allow_once").is_some() && of("reject_once").is_some(), "{options:?}");
    let always = of("allow_always").unwrap();
    assert!(always.contains("new.txt") || always.contains('`'), "{always}");
    acp.leave();
}

#[test]
fn what_is_allowed_always_is_asked_once() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    acp.chooses("allow_always");
    for text in ["one\n", "two\n"] {
        let write = call("Write", json!({"file_path": "new.txt", "content": text}));
        acp.turn(&session, &script(&[&write]), "end_turn");
    }
    assert_eq!(acp.asked(0, "session/request_permission").len(), 1);
    assert_eq!(desk.text("new.txt").as_deref(), Some("two\n"));
    acp.leave();
}

/// However no is said: the call fails, nothing is done, the model hears of it and the turn goes on.
#[test]
fn no_is_no_and_the_turn_goes_on() {
    let desk = AcpFixture::new();
    for (name, reply) in [
        ("rejected", Ok("reject_once")),
        ("unknown", Ok("yes-to-everything")),
        ("empty", Ok("")),
        ("no-method", Err(-32601)),
        ("internal", Err(-32603)),
        ("taken-back", Err(-32800)),
        ("own", Err(1)),
    ] {
        let (mut acp, session) = opened(&desk);
        acp.answers(move |_, _| match reply {
            Ok(option) => ClientReply::Result(selected(option)),
            Err(code) => ClientReply::Error(code),
        });
        let from = acp.mark();
        acp.turn(&session, &script(&[&write(name), "turn", "say I see."]), "end_turn");
        let updates = acp.updates(from, &session);
        let refused = only_call(&updates);
        assert_eq!(statuses(&updates, &refused["toolCallId"]), ["pending", "failed"], "{name}");
        assert_eq!(acp.words(from, &session), "I see.", "{name}");
        assert!(!desk.file(name).exists(), "{name}");
        let told = desk.model.requests().pop().unwrap();
        let last = told["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["role"], "tool", "{name}: {told}");
        acp.leave();
    }
}

#[test]
fn whoever_gives_up_on_a_question_ends_the_turn() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    acp.answers(|_, _| ClientReply::Result(cancelled()));
    let from = acp.mark();
    acp.turn(&session, &script(&[&write("new.txt"), "turn", "say Never."]), "cancelled");
    let updates = acp.updates(from, &session);
    assert_eq!(only_call(&updates)["status"], "failed");
    assert_eq!(acp.words(from, &session), "");
    assert_eq!(desk.model.requests().len(), 1, "it is not asked to go on");
    assert!(!desk.file("new.txt").exists());
    // The session is not stuck.
    acp.chooses("allow_once");
    acp.turn(&session, &script(&[&write("new.txt")]), "end_turn");
    assert!(desk.file("new.txt").exists());
    acp.leave();
}

#[test]
fn two_calls_at_once_are_asked_about_and_settled_each() {
    let desk = AcpFixture::new();
    let (mut acp, session) = opened(&desk);
    acp.answers(|_, params| {
        let is_first = params["toolCall"].to_string().contains("one.txt");
        ClientReply::Result(selected(if is_first { "allow_once" } else { "reject_once" }))
    });
    let from = acp.mark();
    let steps = [&*write("one.txt"), &write("two.txt"), "turn", "say Ok."];
    acp.turn(&session, &script(&steps), "end_turn");
    let calls = calls(&acp.updates(from, &session));
    let ends: Vec<&Value> = calls.iter().map(|call| &call["status"]).collect();
    assert_eq!(ends, ["completed", "failed"], "{calls:#?}");
    assert!(desk.file("one.txt").exists() && !desk.file("two.txt").exists());
    acp.leave();
}

#[test]
fn what_policy_denies_is_not_asked() {
    let desk = AcpFixture::with(
        json!({"permissions": {"deny": ["Write(hello.txt)", "Bash(git push:*)"]}}),
    );
    let (mut acp, session) = opened(&desk);
    for step in [
        call("Write", json!({"file_path": "hello.txt", "content": "x"})),
        call("Bash", json!({"command": "git push"})),
        call("Read", json!({"file_path": "nowhere.txt"})),
    ] {
        let from = acp.mark();
        acp.turn(&session, &script(&[&step, "turn", "say Ok."]), "end_turn");
        let refused = only_call(&acp.updates(from, &session));
        assert_eq!(refused["status"], "failed", "{refused}");
        assert!(!shown(&refused).is_empty(), "it says why: {refused}");
    }
    assert_eq!(acp.asked(0, "session/request_permission").len(), 0);
    assert_eq!(desk.text("hello.txt").as_deref(), Some("hello\n"));
    acp.leave();
}

#[test]
fn sessions_ask_apart() {
    let desk = AcpFixture::new();
    let mut acp = desk.acp();
    let sessions: Vec<String> = (0..3).map(|_| acp.open(&desk)).collect();
    acp.answers(|_, _| ClientReply::Hold);
    let turns: Vec<Value> = sessions
        .iter()
        .enumerate()
        .map(|(at, session)| acp.begin(session, &script(&[&write(&format!("{at}.txt"))])))
        .collect();
    // All ask, though nobody was answered yet; they are answered backwards.
    for (session, turn) in sessions.iter().zip(&turns).rev() {
        let asked = acp.until(0, "a question", |said| {
            said["method"] == "session/request_permission"
                && said["params"]["sessionId"] == json!(session)
        });
        acp.reply(&asked["id"], selected("allow_once"));
        acp.ends(turn, "end_turn");
    }
    assert!((0..3).all(|at| desk.file(&format!("{at}.txt")).exists()));
    acp.leave();
}
