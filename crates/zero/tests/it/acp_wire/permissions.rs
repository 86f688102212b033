//! A person is asked before something is done that no rule allows, and the answer holds.

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, MessagePeer, cancelled_outcome, selected_outcome};
use super::{AcpFixture, call_step, call_text, calls, make_script, only_call, statuses};

fn write_step(name: &str) -> String {
    call_step("Write", json!({"file_path": name, "content": "new\n"}))
}

fn open_client(fixture: &AcpFixture) -> (AcpClient, String) {
    let mut acp = fixture.start_client();
    let session = acp.open_session(fixture);
    (acp, session)
}

/// Where in the log the agent said something.
#[track_caller]
fn find_agent_message(acp: &AcpClient, what: &str, is_it: impl Fn(&Value) -> bool) -> usize {
    let found = acp
        .log()
        .iter()
        .position(|message| message.by == MessagePeer::Agent && is_it(&message.message));
    found.unwrap_or_else(|| panic!("{what} was never said"))
}

#[test]
fn call_is_announced_approved_started_and_finished() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let from = acp.log_position();
    acp.run_turn(
        &session,
        &make_script(&["say I write.", &write_step("new.txt"), "turn", "say Ok."]),
        "end_turn",
    );
    let updates = acp.updates(from, &session);
    let made = only_call(&updates);
    let id = &made["toolCallId"];
    assert_eq!(statuses(&updates, id), ["pending", "in_progress", "completed"]);
    let asked = acp.requests(from, "session/request_permission");
    let [question] = &asked[..] else { panic!("{asked:?}") };
    let question = &question["params"];
    assert_eq!(question["sessionId"], json!(session));
    assert_eq!(&question["toolCall"]["toolCallId"], id);
    assert_eq!(question["toolCall"]["kind"], "edit");
    let announced = find_agent_message(&acp, "the call", |message| {
        message["params"]["update"]["sessionUpdate"] == "tool_call"
    });
    let questioned = find_agent_message(&acp, "the question", |message| {
        message["method"] == "session/request_permission"
    });
    let begun = find_agent_message(&acp, "the start", |message| {
        message["params"]["update"]["status"] == "in_progress"
    });
    assert!(announced < questioned && questioned < begun);
    assert_eq!(fixture.read_project_file("new.txt").as_deref(), Some("new\n"));
    acp.close();
}

#[test]
fn change_is_shown_in_full_before_approval() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    for (step, old, new) in [
        (
            call_step("Write", json!({"file_path": "hello.txt", "content": "bye\n"})),
            "hello\n",
            "bye\n",
        ),
        (
            call_step(
                "Edit",
                json!({"file_path": "hello.txt", "old_string": "bye", "new_string": "ciao"}),
            ),
            "bye\n",
            "ciao\n",
        ),
    ] {
        let from = acp.log_position();
        acp.run_turn(
            &session,
            &make_script(&[
                "say ok",
                &call_step("Read", json!({"file_path": "hello.txt"})),
                "turn",
                &step,
            ]),
            "end_turn",
        );
        let asked = acp.requests(from, "session/request_permission");
        let [question] = &asked[..] else { panic!("{asked:?}") };
        let diff = json!({"type": "diff", "path": fixture.project_path("hello.txt"), "oldText": old, "newText": new});
        assert_eq!(question["params"]["toolCall"]["content"][0], diff);
        // It stays when it is done.
        let calls = calls(&acp.updates(from, &session));
        let last = calls.last().unwrap();
        assert_eq!((&last["status"], &last["content"][0]), (&json!("completed"), &diff));
        assert_eq!(last["locations"][0]["path"], json!(fixture.project_path("hello.txt")));
    }
    acp.close();
}

#[test]
fn new_file_diff_has_no_old_text() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let from = acp.log_position();
    acp.run_turn(&session, &make_script(&[&write_step("new.txt")]), "end_turn");
    let made = only_call(&acp.updates(from, &session));
    let diff = &made["content"][0];
    assert_eq!((&diff["type"], &diff["newText"]), (&json!("diff"), &json!("new\n")), "{made}");
    assert!(diff["oldText"].is_null(), "{diff}");
    acp.close();
}

#[test]
fn command_is_shown_in_full_before_approval() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    let command = format!("touch made-{} && touch 'and \"this\"'", "x".repeat(100));
    let from = acp.log_position();
    acp.run_turn(
        &session,
        &make_script(&[&call_step("Bash", json!({"command": command}))]),
        "end_turn",
    );
    let asked = acp.requests(from, "session/request_permission");
    let [question] = &asked[..] else { panic!("{asked:?}") };
    let question = &question["params"]["toolCall"];
    let first = question["content"][0]["content"]["text"].as_str().unwrap();
    assert!(first.contains(&command), "{first}");
    assert!(question["title"].as_str().unwrap().starts_with("touch made-"), "{question}");
    assert_eq!(question["rawInput"]["command"], json!(command));
    assert_eq!(question["kind"], "execute");
    assert!(fixture.project_path("and \"this\"").exists());
    acp.close();
}

#[test]
fn each_option_kind_appears_once_and_names_its_grant() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    acp.run_turn(&session, &make_script(&[&write_step("new.txt")]), "end_turn");
    let asked = acp.requests(0, "session/request_permission");
    let options = asked[0]["params"]["options"].as_array().unwrap();
    let of = |kind: &str| {
        let of_kind: Vec<&Value> = options.iter().filter(|it| it["kind"] == kind).collect();
        assert!(of_kind.len() <= 1, "{options:?}");
        of_kind.first().map(|option| option["name"].as_str().unwrap())
    };
    assert!(of("allow_once").is_some() && of("reject_once").is_some(), "{options:?}");
    let always = of("allow_always").unwrap();
    assert!(always.contains("new.txt") || always.contains('`'), "{always}");
    acp.close();
}

#[test]
fn always_allowed_call_is_asked_once() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    acp.always_select("allow_always");
    for text in ["one\n", "two\n"] {
        let write = call_step("Write", json!({"file_path": "new.txt", "content": text}));
        acp.run_turn(&session, &make_script(&[&write]), "end_turn");
    }
    assert_eq!(acp.requests(0, "session/request_permission").len(), 1);
    assert_eq!(fixture.read_project_file("new.txt").as_deref(), Some("two\n"));
    acp.close();
}

/// However no is said: the call fails, nothing is done, the model hears of it and the turn goes on.
#[test]
fn rejection_fails_call_and_turn_continues() {
    let fixture = AcpFixture::new();
    for (name, reply) in [
        ("rejected", Ok("reject_once")),
        ("unknown", Ok("yes-to-everything")),
        ("empty", Ok("")),
        ("no-method", Err(-32601)),
        ("internal", Err(-32603)),
        ("taken-back", Err(-32800)),
        ("own", Err(1)),
    ] {
        let (mut acp, session) = open_client(&fixture);
        acp.set_reply_policy(move |_, _| match reply {
            Ok(option) => ClientReply::Result(selected_outcome(option)),
            Err(code) => ClientReply::Error(code),
        });
        let from = acp.log_position();
        acp.run_turn(
            &session,
            &make_script(&[&write_step(name), "turn", "say I see."]),
            "end_turn",
        );
        let updates = acp.updates(from, &session);
        let refused = only_call(&updates);
        assert_eq!(statuses(&updates, &refused["toolCallId"]), ["pending", "failed"], "{name}");
        assert_eq!(acp.message_text(from, &session), "I see.", "{name}");
        assert!(!fixture.project_path(name).exists(), "{name}");
        let told = fixture.model.requests().pop().unwrap();
        let last = told["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["role"], "tool", "{name}: {told}");
        acp.close();
    }
}

#[test]
fn cancelled_permission_ends_turn() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    acp.set_reply_policy(|_, _| ClientReply::Result(cancelled_outcome()));
    let from = acp.log_position();
    acp.run_turn(
        &session,
        &make_script(&[&write_step("new.txt"), "turn", "say Never."]),
        "cancelled",
    );
    let updates = acp.updates(from, &session);
    assert_eq!(only_call(&updates)["status"], "failed");
    assert_eq!(acp.message_text(from, &session), "");
    assert_eq!(fixture.model.requests().len(), 1, "it is not asked to go on");
    assert!(!fixture.project_path("new.txt").exists());
    // The session is not stuck.
    acp.always_select("allow_once");
    acp.run_turn(&session, &make_script(&[&write_step("new.txt")]), "end_turn");
    assert!(fixture.project_path("new.txt").exists());
    acp.close();
}

#[test]
fn parallel_calls_are_approved_separately() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_client(&fixture);
    acp.set_reply_policy(|_, params| {
        let is_first = params["toolCall"].to_string().contains("one.txt");
        ClientReply::Result(selected_outcome(if is_first { "allow_once" } else { "reject_once" }))
    });
    let from = acp.log_position();
    let steps = [&*write_step("one.txt"), &write_step("two.txt"), "turn", "say Ok."];
    acp.run_turn(&session, &make_script(&steps), "end_turn");
    let calls = calls(&acp.updates(from, &session));
    let ends: Vec<&Value> = calls.iter().map(|call| &call["status"]).collect();
    assert_eq!(ends, ["completed", "failed"], "{calls:#?}");
    assert!(fixture.project_path("one.txt").exists() && !fixture.project_path("two.txt").exists());
    acp.close();
}

#[test]
fn denied_call_is_not_asked() {
    let fixture = AcpFixture::with_settings(
        json!({"permissions": {"deny": ["Write(hello.txt)", "Bash(git push:*)"]}}),
    );
    let (mut acp, session) = open_client(&fixture);
    for step in [
        call_step("Write", json!({"file_path": "hello.txt", "content": "x"})),
        call_step("Bash", json!({"command": "git push"})),
        call_step("Read", json!({"file_path": "nowhere.txt"})),
    ] {
        let from = acp.log_position();
        acp.run_turn(&session, &make_script(&[&step, "turn", "say Ok."]), "end_turn");
        let refused = only_call(&acp.updates(from, &session));
        assert_eq!(refused["status"], "failed", "{refused}");
        assert!(!call_text(&refused).is_empty(), "it says why: {refused}");
    }
    assert_eq!(acp.requests(0, "session/request_permission").len(), 0);
    assert_eq!(fixture.read_project_file("hello.txt").as_deref(), Some("hello\n"));
    acp.close();
}

#[test]
fn sessions_ask_separately() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let sessions: Vec<String> = (0..3).map(|_| acp.open_session(&fixture)).collect();
    acp.set_reply_policy(|_, _| ClientReply::Defer);
    let turns: Vec<Value> = sessions
        .iter()
        .enumerate()
        .map(|(at, session)| {
            acp.begin_prompt(session, &make_script(&[&write_step(&format!("{at}.txt"))]))
        })
        .collect();
    // All ask, though nobody was answered yet; they are answered backwards.
    for (session, turn) in sessions.iter().zip(&turns).rev() {
        let asked = acp.wait_for_message(0, "a question", |message| {
            message["method"] == "session/request_permission"
                && message["params"]["sessionId"] == json!(session)
        });
        acp.reply(&asked["id"], selected_outcome("allow_once"));
        acp.expect_end(turn, "end_turn");
    }
    assert!((0..3).all(|at| fixture.project_path(&format!("{at}.txt")).exists()));
    acp.close();
}

#[test]
fn host_that_command_connects_to_is_asked_about_while_it_runs() {
    let fixture = AcpFixture::new();
    fixture.write_project_file("fetch.sh", "curl -s -m 60 http://held.invalid/x");
    for (answer, expected) in [
        ("reject_once", "held.invalid:80 was refused: the user rejected it"),
        (
            "allow_once",
            "zero: no connection to held.invalid port 80: could not resolve its address",
        ),
    ] {
        let (mut acp, session) = open_client(&fixture);
        acp.set_reply_policy(move |method, params| {
            assert_eq!(method, "session/request_permission");
            let title = params["toolCall"]["title"].as_str().unwrap_or_default();
            let is_connection = title.contains("Connect to held.invalid:80");
            let option = if is_connection { answer } else { "allow_once" };
            ClientReply::Result(selected_outcome(option))
        });
        let from = acp.log_position();
        let step = call_step("Bash", json!({"command": "bash fetch.sh"}));
        acp.run_turn(&session, &make_script(&["say ok", &step]), "end_turn");
        let asked = acp.requests(from, "session/request_permission");
        let [_, question] = &asked[..] else { panic!("{asked:?}") };
        let call = &question["params"]["toolCall"];
        assert!(
            call.to_string().contains("bash fetch.sh"),
            "the question shows the command: {call}"
        );
        let options: Vec<&Value> = question["params"]["options"]
            .as_array()
            .unwrap()
            .iter()
            .map(|option| &option["optionId"])
            .collect();
        assert_eq!(options, ["allow_once", "allow_always", "reject_once", "reject_always"]);
        let updates = acp.updates(from, &session);
        let made = only_call(&updates);
        assert_eq!(statuses(&updates, &made["toolCallId"]).last().unwrap(), "completed");
        let text = updates.iter().map(Value::to_string).collect::<String>();
        assert!(text.contains(expected), "{answer}: {text}");
        acp.close();
    }
}
