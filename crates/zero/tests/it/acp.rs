//! `zero acp`: the agent in an editor, with the gateway in its own process.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::stdio_process::StdioProcess;
use crate::test_program::TestProgram;

fn start_editor(zero: &TestProgram, args: &[&str]) -> StdioProcess {
    let mut agent = StdioProcess::start(zero, &[&["acp"], args].concat());
    agent.request_ok("initialize", json!({"protocolVersion": 1, "clientCapabilities": {}}));
    agent
}

fn open_session(zero: &TestProgram, agent: &mut StdioProcess) -> String {
    let made = agent.request_ok("session/new", json!({"cwd": zero.folder(), "mcpServers": []}));
    made["sessionId"].as_str().unwrap().to_owned()
}

fn prompt_params(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

fn make_program() -> TestProgram {
    let zero = TestProgram::outside_tmp();
    write_file(&zero, "README.md", "hello\n");
    zero
}

#[test]
fn prompt_is_answered_and_replayed() {
    let zero = make_program();
    let mut agent = start_editor(&zero, &[]);
    let session = open_session(&zero, &mut agent);
    assert!(session.starts_with("agent:main:acp:") || session.starts_with("acp:"), "{session}");
    let answer = agent.request_ok("session/prompt", prompt_params(&session, "/read README.md"));
    assert_eq!(answer["stopReason"], "end_turn", "{answer}");
    let updates = agent.drain_updates();
    let kinds = |updates: &[Value]| -> Vec<String> {
        let kind = |update: &Value| update["sessionUpdate"].as_str().unwrap().to_owned();
        updates.iter().map(kind).collect()
    };
    let live = kinds(&updates);
    assert!(live.contains(&"tool_call".to_owned()), "{live:?}");
    assert!(live.contains(&"agent_message_chunk".to_owned()), "{live:?}");
    assert!(agent.close().success());

    let mut agent = start_editor(&zero, &[]);
    let load = json!({"sessionId": session, "cwd": zero.folder(), "mcpServers": []});
    agent.request_ok("session/load", load);
    let again = kinds(&agent.drain_updates());
    for kind in ["user_message_chunk", "tool_call", "agent_message_chunk"] {
        assert!(again.contains(&kind.to_owned()), "{kind}: {again:?}");
    }
    let listed = agent.request_ok("session/list", json!({"cwd": zero.folder()}));
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str(), "{listed}");
}

#[test]
fn cancelled_prompt_ends_cancelled() {
    let zero = make_program();
    let mut agent = start_editor(&zero, &[]);
    let session = open_session(&zero, &mut agent);
    let id = agent
        .send_request("session/prompt", prompt_params(&session, "/bash touch begun; sleep 600"));
    agent.wait_for_call("session/request_permission");
    agent.notify("session/cancel", json!({"sessionId": session}));
    agent.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(agent.wait_for_answer(id)["result"]["stopReason"], "cancelled");
    assert!(agent.close().success());
}

#[test]
fn client_tool_calls_use_same_path() {
    let zero = make_program();
    let mut agent = start_editor(&zero, &[]);
    let session = open_session(&zero, &mut agent);
    let call = |id: &str, tool: &str, input: Value| json!({"sessionId": session, "toolCallId": id, "toolName": tool, "input": input});
    let listed = agent.request_ok("_zero/tools/list", json!({}));
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "Read"));
    let read = agent.request_ok("tools/use", call("c1", "read_file", json!({"path": "README.md"})));
    assert!(read["content"][0]["text"].as_str().unwrap().contains("hello"), "{read}");
    let shown = agent.drain_updates();
    let of_call = |update: &&Value| update["toolCallId"] == "c1";
    let last = shown.iter().rfind(of_call).expect("the call is shown");
    assert_eq!(last["status"], "completed", "{shown:?}");

    agent.answer = Some("reject_once");
    let wanted = json!({"file_path": "new.txt", "content": "x"});
    let denied = agent.request_ok("_zero/tools/use", call("c2", "Write", wanted));
    assert_eq!(denied["isError"], true, "{denied}");
    let asked = agent.wait_for_call("session/request_permission");
    assert_eq!(asked["params"]["toolCall"]["toolCallId"], "c2");
    assert!(!zero.folder().join("new.txt").exists());

    agent.notify("tools/use", call("c3", "read_file", json!({"path": "README.md"})));
    assert_eq!(agent.wait_for_call("tools/result")["params"]["isError"], false);
    let mut foreign = call("c4", "read_file", json!({"path": "README.md"}));
    foreign["sessionId"] = json!("acp:none");
    assert_eq!(agent.request_error("tools/use", foreign).0, -32002);
}

#[test]
fn settings_mistake_is_reported_and_can_be_fixed() {
    let zero = make_program();
    write_file(&zero, USER_FILE, "{\n  \"permissions\": {\"mode\": \"bold\"}\n}");
    let mut agent = start_editor(&zero, &[]);
    let new = json!({"cwd": zero.folder(), "mcpServers": []});
    let (_, message) = agent.request_error("session/new", new.clone());
    assert!(message.contains("settings.json:2"), "{message}");
    write_file(&zero, USER_FILE, "{}");
    agent.request_ok("session/new", new);
    assert!(agent.close().success());
}

#[test]
fn unreachable_gateway_is_session_error() {
    let zero = make_program();
    // Nobody listens there: the port was given back.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut agent = start_editor(&zero, &["--url", &format!("ws://127.0.0.1:{port}")]);
    let (code, message) =
        agent.request_error("session/new", json!({"cwd": zero.folder(), "mcpServers": []}));
    assert_eq!(code, -32603, "{message}");
    assert!(agent.close().success());
}

#[test]
fn agent_exits_on_request_in_any_state() {
    let zero = make_program();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        let mut agent = start_editor(&zero, &[]);
        let session = open_session(&zero, &mut agent);
        agent.send_request(
            "session/prompt",
            prompt_params(&session, "/bash touch begun; sleep 600"),
        );
        agent.wait_for_call("session/request_permission");
        let pid = Pid::from_raw(agent.pid().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        assert!(agent.wait_for_exit().success());
    }
}

#[test]
fn flags_select_the_session() {
    let zero = make_program();
    let mut agent = start_editor(&zero, &["--session", "agent:main:notes", "--require-existing"]);
    let new = json!({"cwd": zero.folder(), "mcpServers": []});
    assert_eq!(agent.request_error("session/new", new.clone()).0, -32002);
    let mut agent = start_editor(&zero, &["--session", "agent:main:notes"]);
    assert_eq!(agent.request_ok("session/new", new)["sessionId"], "agent:main:notes");
    let seen = zero.run(&["acp", "--session", "a", "--session-label", "b"]);
    assert!(seen.starts_with("exit 2"), "{seen}");
}
