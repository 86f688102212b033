//! `zero tools serve`: the tools for programs that speak JSON-RPC.

#![expect(clippy::disallowed_methods, reason = "tests stand outside zero and look at its files")]

use serde_json::{Value, json};

use crate::config::{USER, write};
use crate::stdio_process::StdioProcess;
use crate::test_program::TestProgram;

fn call(id: &str, tool: &str, input: Value) -> Value {
    json!({"sessionId": "s1", "toolCallId": id, "toolName": tool, "input": input})
}

fn served(args: &[&str]) -> (TestProgram, StdioProcess) {
    let zero = TestProgram::outside_tmp();
    write(&zero, "README.md", "hello\n");
    let process = StdioProcess::start(&zero, &[&["tools", "serve"], args].concat());
    (zero, process)
}

#[test]
fn a_program_uses_tools() {
    let (_zero, mut tools) = served(&[]);
    let listed = tools.result("tools/list", json!({}));
    let read = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "read_file");
    assert_eq!(read.unwrap()["inputSchema"]["type"], "object");
    let listed = tools.result("_zero/tools/list", json!({"dialect": "canonical"}));
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "Read"));

    let input = json!({"path": "README.md"});
    let read = tools.result("tools/use", call("c1", "read_file", input.clone()));
    assert_eq!(read["sessionId"], "s1");
    assert_eq!(read["toolCallId"], "c1");
    assert_eq!(read["isError"], false);
    assert!(read["content"][0]["text"].as_str().unwrap().contains("hello"), "{read}");

    // Without an id the result comes as a request, which need not be answered.
    tools.notify("tools/use", call("c2", "read_file", input));
    let told = tools.called("tools/result");
    assert!(!told["id"].is_null(), "{told}");
    assert_eq!(told["params"]["toolCallId"], "c2");
    assert_eq!(told["params"]["isError"], false);
    assert_eq!(tools.result("tools/result", json!({"sessionId": "s1"})), json!({}));
    assert!(tools.close().success());
}

#[test]
fn the_caller_is_asked_and_its_no_counts() {
    let (zero, mut tools) = served(&[]);
    let wanted = json!({"path": "new.txt", "content": "a\n"});
    let made = tools.result("tools/use", call("c1", "write_file", wanted.clone()));
    assert_eq!(made["isError"], false, "{made}");
    let asked = tools.called("session/request_permission");
    assert_eq!(asked["params"]["toolCall"]["toolCallId"], "c1");
    assert_eq!(std::fs::read_to_string(zero.folder().join("new.txt")).unwrap(), "a\n");
    let edit = json!({"path": "new.txt",
        "edits": [{"type": "replace", "oldText": "a", "newText": "b"}]});
    let made = tools.result("tools/use", call("c2", "edit_file", edit));
    let diff = made["content"].as_array().unwrap().iter().find(|piece| piece["type"] == "diff");
    assert!(diff.unwrap()["diff"].as_str().unwrap().contains("-a\n+b"), "{made}");

    for (id, answer) in [("c3", "reject_once"), ("c4", "whatever")] {
        tools.answer = Some(answer);
        let wanted = json!({"path": "never.txt", "content": "x"});
        let denied = tools.result("tools/use", call(id, "write_file", wanted));
        assert_eq!(denied["isError"], true, "{denied}");
        assert!(!zero.folder().join("never.txt").exists());
    }
}

/// Whoever gives up on a question gives up on all calls of the session, and goes on with others.
#[test]
fn a_caller_can_give_up_on_a_question() {
    let (zero, mut tools) = served(&[]);
    tools.answer = None;
    let wanted = |name: &str| json!({"path": name, "content": "x"});
    for round in ["1", "2"] {
        let (first, second) = (format!("a{round}"), format!("b{round}"));
        let first = tools.ask("tools/use", call(&first, "write_file", wanted("never.txt")));
        let second = tools.ask("tools/use", call(&second, "write_file", wanted("nor.txt")));
        let asked = tools.called("session/request_permission");
        let outcome = json!({"outcome": {"outcome": "cancelled"}});
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome});
        tools.write(&answer.to_string());
        for call in [first, second] {
            assert_eq!(tools.answer_to(call)["result"]["isError"], true);
        }
    }
    assert!(!zero.folder().join("never.txt").exists() && !zero.folder().join("nor.txt").exists());
    tools.answer = Some("allow_once");
    let made = tools.result("tools/use", call("c", "write_file", wanted("new.txt")));
    assert_eq!(made["isError"], false, "{made}");
}

#[test]
fn yes_is_said_beforehand_and_denied_stays_denied() {
    let zero = TestProgram::outside_tmp();
    write(&zero, USER, r#"{"permissions": {"deny": ["Read(.env)"]}}"#);
    write(&zero, ".env", "secret");
    let mut tools = StdioProcess::start(&zero, &["tools", "serve", "--yes"]);
    tools.answer = None;
    let wanted = json!({"path": "new.txt", "content": "a\n"});
    assert_eq!(tools.result("tools/use", call("c1", "write_file", wanted))["isError"], false);
    let denied = tools.result("tools/use", call("c2", "read_file", json!({"path": ".env"})));
    assert_eq!(denied["isError"], true);
    assert!(!denied.to_string().contains("secret"), "{denied}");
}

#[test]
fn a_call_is_followed_and_stopped() {
    let (_zero, mut tools) = served(&["--yes"]);
    let slow = json!({"command": "echo begun; sleep 600"});
    let id = tools.ask("tools/use", call("c1", "run_command", slow.clone()));
    let progress = tools.called("tools/progress");
    assert_eq!(progress["params"]["toolCallId"], "c1");
    let (code, message) = tools.error("tools/use", call("c1", "run_command", slow.clone()));
    assert_eq!(code, -32602);
    assert!(message.contains("toolCallId"), "{message}");
    tools.notify("tools/cancel", json!({"sessionId": "s1", "toolCallId": "c1"}));
    assert_eq!(tools.answer_to(id)["result"]["isError"], true);

    let id = tools.ask("tools/use", call("c2", "run_command", slow.clone()));
    tools.hear(|said| said["params"]["toolCallId"] == "c2");
    tools.notify("$/cancel_request", json!({"requestId": id}));
    assert_eq!(tools.answer_to(id)["error"]["code"], -32800);

    let id = tools.ask("tools/use", call("c3", "run_command", slow.clone()));
    tools.hear(|said| said["params"]["toolCallId"] == "c3");
    assert_eq!(tools.result("tools/close", json!({"sessionId": "s1"})), json!({}));
    assert_eq!(tools.answer_to(id)["result"]["isError"], true);
    assert_eq!(tools.error("tools/close", json!({"sessionId": "s1"})).0, -32002);

    // Who goes away in the middle of it leaves nothing behind.
    let id = tools.ask("tools/use", call("c4", "run_command", slow));
    tools.hear(|said| said["params"]["toolCallId"] == "c4");
    assert!(tools.close().success(), "{id}");
}

/// A session is opened by its first call; who closes it meanwhile has closed it.
#[test]
fn a_session_can_be_closed_while_it_is_being_opened() {
    let (zero, mut tools) = served(&["--yes"]);
    for round in 0..20 {
        let touch = json!({"command": format!("touch made{round}")});
        let id = tools.ask("tools/use", call("c1", "run_command", touch.clone()));
        let close = tools.ask("tools/close", json!({"sessionId": "s1"}));
        tools.notify("tools/use", call("c2", "run_command", touch));
        tools.notify("tools/close", json!({"sessionId": "s1"}));
        assert_eq!(tools.answer_to(close)["result"], json!({}));
        assert_eq!(tools.answer_to(id)["result"]["isError"], true);
        assert_eq!(tools.called("tools/result")["params"]["isError"], true);
        assert!(!zero.folder().join(format!("made{round}")).exists());
        assert_eq!(tools.error("tools/close", json!({"sessionId": "s1"})).0, -32002);
    }
    let read = call("c3", "read_file", json!({"path": "README.md"}));
    assert_eq!(tools.result("tools/use", read)["isError"], false);
}

#[test]
fn bad_input_gets_an_error_and_nothing_else_breaks() {
    let (_zero, mut tools) = served(&[]);
    tools.write("this is no JSON");
    assert_eq!(tools.hear(|said| said["error"].is_object())["error"]["code"], -32700);
    tools.write("[]");
    assert_eq!(tools.hear(|said| said["error"].is_object())["error"]["code"], -32600);
    for (method, params, code) in [
        ("tools/use", json!({}), -32602),
        ("tools/use", json!({"sessionId": 1, "toolCallId": "c", "toolName": "t"}), -32602),
        ("tools/use", call("c", "read_file", json!([])), -32602),
        ("tools/use", call("", "read_file", json!({})), -32602),
        ("tools/list", json!({"dialect": "klingon"}), -32602),
        ("tools/list", json!({"sessionId": ""}), -32602),
        ("tools/close", json!({}), -32602),
        ("tools/make", json!({}), -32601),
        ("session/new", json!({"cwd": "/", "mcpServers": []}), -32601),
    ] {
        assert_eq!(tools.error(method, params.clone()).0, code, "{method} {params}");
    }
    let unknown = tools.result("tools/use", call("c", "no_such_tool", json!({})));
    assert_eq!(unknown["isError"], true, "{unknown}");
    // Of a call without an id that cannot be made, the caller is told by its result.
    let mut missing = call("c9", "read_file", json!({"path": "README.md"}));
    missing["dialect"] = json!("klingon");
    tools.notify("tools/use", missing);
    assert_eq!(tools.called("tools/result")["params"]["isError"], true);
    tools.notify("tools/use", json!({"nothing": "fits"}));
    assert_eq!(tools.error("initialize", json!({"protocolVersion": "x"})).0, -32602);
    assert_eq!(tools.result("initialize", json!({"protocolVersion": 7}))["protocolVersion"], 1);
}

#[test]
fn there_are_so_many_sessions() {
    let (_zero, mut tools) = served(&[]);
    for number in 0..64 {
        tools.result("tools/list", json!({"sessionId": format!("s{number}")}));
    }
    let (code, message) = tools.error("tools/list", json!({"sessionId": "one more"}));
    assert_eq!(code, -32600);
    assert!(message.contains("tools/close"), "{message}");
    tools.result("tools/close", json!({"sessionId": "s0"}));
    tools.result("tools/list", json!({"sessionId": "one more"}));
}

#[test]
fn a_wrong_command_line_is_told_before_anything_is_served() {
    let zero = TestProgram::new();
    let seen = zero.run(&["tools", "serve", "--workspace", "nowhere"]);
    assert!(seen.starts_with("exit 2") && seen.contains("nowhere"), "{seen}");
    write(&zero, USER, "{ broken");
    let seen = zero.run(&["tools", "serve"]);
    assert!(seen.starts_with("exit 2") && seen.contains("settings.json"), "{seen}");
}
