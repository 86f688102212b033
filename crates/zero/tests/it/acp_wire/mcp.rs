//! Servers that the editor names for a session, and the questions they ask.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, TIMEOUT, selected_outcome};
use super::{
    AcpFixture, call_step, call_text, calls, check_all_ended, chunk_text, make_script, only_call,
};
use crate::config::{USER_FILE, write_file};
use crate::mcp_fixture::{process_count, start_count, wait_for};

fn make_fixture() -> AcpFixture {
    let fixture = AcpFixture::new();
    write_file(&fixture.zero, "server.py", include_str!("../mcp_server.py"));
    // Servers leave marks beside their script, and so it has to lie where they may.
    let project = fixture.zero.folder().canonicalize().unwrap();
    AcpFixture { project, ..fixture }
}

fn server_params(fixture: &AcpFixture, alias: &str) -> Value {
    server_with_behavior(fixture, alias, "")
}

fn server_with_behavior(fixture: &AcpFixture, alias: &str, behaves: &str) -> Value {
    let script = fixture.zero.folder().join("server.py");
    json!({"name": alias, "command": "/usr/bin/python3", "args": [script, alias, behaves],
        "env": [{"name": "EDITORS_OWN", "value": "12345"}]})
}

/// The names of the tools that the model was last offered.
fn offered_tools(fixture: &AcpFixture) -> Vec<String> {
    let request = fixture.model.requests().pop().unwrap();
    let tools = request["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

fn is_echo_offered(fixture: &AcpFixture) -> bool {
    offered_tools(fixture).iter().any(|name| name.contains("a__echo"))
}

/// A session with servers, once `a` among them is up.
fn open_with_servers(fixture: &AcpFixture, acp: &mut AcpClient, servers: Value) -> String {
    let made =
        acp.call_ok("session/new", fixture.session_params_with(json!({"mcpServers": servers})));
    let session = made["sessionId"].as_str().unwrap().to_owned();
    wait_for_server(acp, &session);
    session
}

/// Waits until the tools of `a` are there.
fn wait_for_server(acp: &mut AcpClient, session: &str) {
    let by = Instant::now() + TIMEOUT;
    loop {
        let listed = acp.call_ok("_zero/tools/list", json!({"sessionId": session}));
        if listed.to_string().contains("a__echo") {
            return;
        }
        assert!(Instant::now() < by, "{listed}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn first_prompt_waits_for_starting_server() {
    // The editor's, and that of the settings.
    for is_editors in [true, false] {
        let fixture = make_fixture();
        let late = server_with_behavior(&fixture, "a", "late");
        if !is_editors {
            let named = json!({"command": late["command"], "args": late["args"]});
            let settings = fixture.model.settings_json(json!({"mcpServers": {"a": named}}));
            write_file(&fixture.zero, USER_FILE, settings);
        }
        let mut acp = fixture.start_client();
        let servers = if is_editors { json!([late]) } else { json!([]) };
        // Opening a session does not wait: the server answers nobody yet.
        let made =
            acp.call_ok("session/new", fixture.session_params_with(json!({"mcpServers": servers})));
        let session = made["sessionId"].as_str().unwrap().to_owned();
        wait_for("the server", || start_count(&fixture.zero, "a") == 1);
        let from = acp.log_position();
        let echo = call_step("a__echo", json!({"text": "just in time"}));
        let turn = acp.begin_prompt(&session, &make_script(&[&echo, "turn", "say Ok."]));
        let second = acp.begin_prompt(&session, "and then?");
        write_file(&fixture.zero, "go", "");
        acp.expect_end(&turn, "end_turn");
        let called = only_call(&acp.updates(from, &session));
        assert!(call_text(&called).contains("just in time"), "{called}");
        acp.expect_end(&second, "end_turn");
        // They were worked on in the order in which they came.
        let prompts = fixture.model.requests();
        let has = |at: usize| prompts[at].to_string().contains("and then?");
        assert!(!has(0) && has(prompts.len() - 1), "{prompts:#?}");
        acp.close();
    }
}

#[test]
fn late_server_is_reported_and_joins_next_prompt() {
    // Side by side, because each waits for a server that does not start in time.
    std::thread::scope(|scope| {
        for can in [json!({}), json!({"session": {"notices": {}}})] {
            scope.spawn(move || check_late_server(&can));
        }
    });
}

/// Checks how a client with these capabilities learns of a server that starts late.
fn check_late_server(can: &Value) {
    let fixture = make_fixture();
    let mut acp = fixture.start_client_with(&[], can.clone());
    let servers = json!([server_with_behavior(&fixture, "a", "late")]);
    let made =
        acp.call_ok("session/new", fixture.session_params_with(json!({"mcpServers": servers})));
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let from = acp.log_position();
    acp.run_turn(&session, "hi", "end_turn");
    assert!(!is_echo_offered(&fixture), "{:?}", offered_tools(&fixture));
    let updates = acp.updates(from, &session);
    let notice = match can.get("session") {
        None => chunk_text(&updates, "agent_thought_chunk"),
        Some(_) => updates.iter().filter_map(|update| update["title"].as_str()).collect(),
    };
    assert!(notice.contains("MCP server `a` is still starting"), "{updates:#?}");
    write_file(&fixture.zero, "go", "");
    wait_for_server(&mut acp, &session);
    let from = acp.log_position();
    acp.run_turn(&session, "and now?", "end_turn");
    assert!(is_echo_offered(&fixture), "{:?}", offered_tools(&fixture));
    assert!(!format!("{:?}", acp.updates(from, &session)).contains("still starting"));
    acp.close();
}

#[test]
fn prompt_waiting_for_server_can_be_cancelled() {
    let fixture = make_fixture();
    let mut acp = fixture.start_client();
    let servers = json!([server_with_behavior(&fixture, "a", "hang")]);
    let made =
        acp.call_ok("session/new", fixture.session_params_with(json!({"mcpServers": servers})));
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let turn = acp.begin_prompt(&session, "hi");
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    assert_eq!(fixture.model.requests().len(), 0);
    acp.close();
    wait_for("no server", || process_count(&fixture.zero) == 0);
}

#[test]
fn editor_server_tools_can_be_called() {
    let fixture = make_fixture();
    let mut acp = fixture.start_client();
    let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
    for (tool, input, holds) in [
        ("a__echo", json!({"text": "said twice"}), "said twice"),
        ("a__env", json!({}), "EDITORS_OWN"),
    ] {
        let from = acp.log_position();
        acp.run_turn(
            &session,
            &make_script(&[&call_step(tool, input), "turn", "say Ok."]),
            "end_turn",
        );
        let called = only_call(&acp.updates(from, &session));
        assert_eq!(called["status"], "completed", "{called}");
        assert!(call_text(&called).contains(holds), "{called}");
    }
    // They are of that session alone.
    let other = acp.open_session(&fixture);
    let from = acp.log_position();
    let echo = call_step("a__echo", json!({"text": "x"}));
    acp.run_turn(&other, &make_script(&[&echo, "turn", "say Ok."]), "end_turn");
    assert_eq!(only_call(&acp.updates(from, &other))["status"], "failed");
    acp.close();
    wait_for("no server", || process_count(&fixture.zero) == 0);
}

#[test]
fn servers_end_with_session() {
    let fixture = make_fixture();
    let mut acp = fixture.start_client();
    let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
    let echo = call_step("a__echo", json!({"text": "x"}));
    acp.run_turn(&session, &make_script(&[&echo]), "end_turn");
    assert_eq!(start_count(&fixture.zero, "a"), 1);
    wait_for("a server", || process_count(&fixture.zero) > 0);
    acp.call_ok("session/close", json!({"sessionId": session}));
    wait_for("no server", || process_count(&fixture.zero) == 0);
    acp.close();
}

#[test]
fn failing_server_blocks_nothing() {
    let fixture = make_fixture();
    let mut acp = fixture.start_client();
    let broken = json!({"name": "broken", "command": "/nowhere/server", "args": [], "env": []});
    let session =
        open_with_servers(&fixture, &mut acp, json!([broken, server_params(&fixture, "a")]));
    let from = acp.log_position();
    let echo = call_step("a__echo", json!({"text": "still here"}));
    acp.run_turn(&session, &make_script(&[&echo, "turn", "say Ok."]), "end_turn");
    let updates = acp.updates(from, &session);
    assert!(call_text(&only_call(&updates)).contains("still here"));
    let thoughts = chunk_text(&updates, "agent_thought_chunk");
    assert!(thoughts.contains("MCP server `broken` did not start"), "{updates:#?}");
    acp.close();
}

#[test]
fn form_is_shown_by_client_with_forms() {
    let fixture = make_fixture();
    let mut acp = fixture.start_client_with(&[], json!({"elicitation": {"form": {}}}));
    acp.set_reply_policy(|method, params| match method {
        "session/request_permission" => ClientReply::Result(selected_outcome("allow_once")),
        "elicitation/create" => {
            assert!(params["message"].as_str().unwrap().contains("Who are you?"), "{params}");
            ClientReply::Result(json!({"action": "accept", "content": {"name": "Ada"}}))
        }
        _ => ClientReply::Error(-32601),
    });
    let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
    let from = acp.log_position();
    acp.run_turn(
        &session,
        &make_script(&[&call_step("a__ask", json!({})), "turn", "say Ok."]),
        "end_turn",
    );
    let called = only_call(&acp.updates(from, &session));
    assert!(call_text(&called).contains("Ada"), "{called}");
    let asked = acp.requests(from, "elicitation/create");
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["params"]["sessionId"], json!(session));
    assert_eq!(asked[0]["params"]["mode"], "form");
    acp.close();
}

#[test]
fn client_without_forms_is_not_asked() {
    let fixture = make_fixture();
    // That it has no mode means that it has none.
    for can in [json!({}), json!({"elicitation": {}})] {
        let mut acp = fixture.start_client_with(&[], can);
        let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
        let from = acp.log_position();
        acp.run_turn(
            &session,
            &make_script(&[&call_step("a__ask", json!({})), "turn", "say Ok."]),
            "end_turn",
        );
        assert_eq!(acp.requests(from, "elicitation/create").len(), 0);
        acp.close();
    }
}

/// What `a__ask` comes to: what the server was answered.
fn run_server_question(acp: &mut AcpClient, session: &str, what: &str) -> String {
    let from = acp.log_position();
    let ask = call_step("a__ask", json!({"text": what}));
    acp.run_turn(session, &make_script(&[&ask, "turn", "say Ok."]), "end_turn");
    let updates = acp.updates(from, session);
    let of_server = |call: &&Value| call["rawInput"]["text"] == what;
    calls(&updates).iter().find(of_server).map(call_text).unwrap_or_default()
}

#[test]
fn url_is_shown_by_client_that_opens_urls() {
    let fixture = make_fixture();
    for (action, expected) in [("accept", "accept"), ("decline", "decline"), ("cancel", "cancel")] {
        let mut acp = fixture.start_client_with(&[], json!({"elicitation": {"url": {}}}));
        acp.set_reply_policy(move |method, params| match method {
            "session/request_permission" => ClientReply::Result(selected_outcome("allow_once")),
            "elicitation/create" => {
                assert_eq!(params["mode"], "url", "{params}");
                assert_eq!(params["url"], "https://example.org/login", "{params}");
                assert!(params["elicitationId"].is_string(), "{params}");
                assert!(params["message"].as_str().unwrap().contains("Log in there"), "{params}");
                ClientReply::Result(json!({"action": action}))
            }
            _ => ClientReply::Error(-32601),
        });
        let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
        let answer = run_server_question(&mut acp, &session, "visit");
        assert!(answer.contains(&format!("\"action\": \"{expected}\"")), "{answer}");
        assert_eq!(acp.requests(0, "elicitation/create").len(), 1);
        // It opens pages, and shows no forms.
        let answer = run_server_question(&mut acp, &session, "");
        assert!(answer.contains("\"cancel\""), "{answer}");
        assert_eq!(acp.requests(0, "elicitation/create").len(), 1);
        acp.close();
    }
}

#[test]
fn url_is_not_shown_by_client_without_support() {
    let fixture = make_fixture();
    for can in [json!({}), json!({"elicitation": {"form": {}}})] {
        let mut acp = fixture.start_client_with(&[], can);
        let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
        let answer = run_server_question(&mut acp, &session, "visit");
        assert!(answer.contains("\"cancel\""), "{answer}");
        assert_eq!(acp.requests(0, "elicitation/create").len(), 0);
        acp.close();
    }
}

/// A client without forms is asked as for a permission, where one of a few values is wanted.
#[test]
fn choice_uses_permission_options_without_forms() {
    let fixture = make_fixture();
    for (chosen, expected) in [("green", "\"colour\": \"green\""), ("None of these", "\"decline\"")]
    {
        let mut acp = fixture.start_client();
        acp.set_reply_policy(move |method, params| {
            assert_eq!(method, "session/request_permission");
            let options = params["options"].as_array().unwrap();
            let option = options.iter().find(|option| option["name"] == chosen);
            match option {
                Some(option) => {
                    let title = params["toolCall"]["title"].as_str().unwrap();
                    assert!(title.contains("Which colour?"), "{params}");
                    ClientReply::Result(selected_outcome(option["optionId"].as_str().unwrap()))
                }
                None => ClientReply::Result(selected_outcome("allow_once")),
            }
        });
        let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
        let answer = run_server_question(&mut acp, &session, "choose");
        assert!(answer.contains(expected), "{chosen}: {answer}");
        assert_eq!(acp.requests(0, "elicitation/create").len(), 0);
        acp.close();
    }
}

/// A client without forms chooses among options, by a call that stands for the question.
#[test]
fn choice_call_is_finished_however_it_ends() {
    let fixture = make_fixture();
    for (option, ends, status) in [
        (Some("1"), "end_turn", "completed"),
        (Some("none"), "end_turn", "failed"),
        (Some("whatever"), "end_turn", "failed"),
        (None, "cancelled", "failed"),
    ] {
        let mut acp = fixture.start_client();
        acp.set_reply_policy(move |_, params| match (is_choice_form(params), option) {
            (false, _) => ClientReply::Result(selected_outcome("allow_once")),
            (true, Some(option)) => ClientReply::Result(selected_outcome(option)),
            (true, None) => ClientReply::Defer,
        });
        let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
        let from = acp.log_position();
        let asks = call_step("a__ask", json!({"text": "colour"}));
        let turn = acp.begin_prompt(&session, &make_script(&[&asks, "turn", "say Ok."]));
        let asked =
            acp.wait_for_message(from, "a choice", |message| is_choice_form(&message["params"]));
        if option.is_none() {
            acp.notify("session/cancel", json!({"sessionId": session}));
        }
        acp.expect_end(&turn, ends);
        let calls = calls(&acp.updates(from, &session));
        let of = |id: &Value| calls.iter().find(|call| call["toolCallId"] == *id).unwrap();
        let choice = of(&asked["params"]["toolCall"]["toolCallId"]);
        assert_eq!(choice["status"], status, "{option:?}: {choice}");
        assert!(choice["title"].as_str().unwrap().contains("Who are you?"), "{choice}");
        let told = calls.iter().map(call_text).collect::<String>();
        assert_eq!(told.contains("blue"), option == Some("1"), "{calls:#?}");
        acp.close();
    }
}

#[test]
fn session_can_be_closed_while_choice_is_pending() {
    let fixture = make_fixture();
    let mut acp = fixture.start_client();
    acp.set_reply_policy(|_, params| match is_choice_form(params) {
        false => ClientReply::Result(selected_outcome("allow_once")),
        true => ClientReply::Defer,
    });
    let session = open_with_servers(&fixture, &mut acp, json!([server_params(&fixture, "a")]));
    let from = acp.log_position();
    let turn = acp
        .begin_prompt(&session, &make_script(&[&call_step("a__ask", json!({"text": "colour"}))]));
    acp.wait_for_message(from, "a choice", |message| is_choice_form(&message["params"]));
    acp.call_ok("session/close", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    check_all_ended(&acp.updates(from, &session), 2, "failed");
    acp.close();
}

fn is_choice_form(params: &Value) -> bool {
    let call = params["toolCall"]["toolCallId"].as_str();
    call.is_some_and(|call| call.starts_with("question_"))
}
