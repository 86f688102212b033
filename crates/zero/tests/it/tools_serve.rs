//! `zero tools serve`: the tools for programs that speak JSON-RPC.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::stdio_process::StdioProcess;
use crate::test_program::TestProgram;

fn call_params(id: &str, tool: &str, input: Value) -> Value {
    json!({"sessionId": "s1", "toolCallId": id, "toolName": tool, "input": input})
}

fn start_serving(args: &[&str]) -> (TestProgram, StdioProcess) {
    let zero = TestProgram::outside_tmp();
    write_file(&zero, "README.md", "hello\n");
    let process = StdioProcess::start(&zero, &[&["tools", "serve"], args].concat());
    (zero, process)
}

#[test]
fn program_can_call_tools() {
    let (_zero, mut tools) = start_serving(&[]);
    let listed = tools.request_ok("tools/list", json!({}));
    let read = listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "read_file");
    let read = read.unwrap();
    assert_eq!((&read["inputSchema"]["type"], &read["kind"]), (&json!("object"), &json!("read")));
    assert_eq!(read["displayName"], "Read file");
    assert_eq!(read["outputSchema"]["properties"]["total_lines"]["type"], "integer");
    assert_eq!(read["categories"], json!(["file"]));
    let allowed = json!([{"kind": "read", "risk": "low", "default": "allow"}]);
    assert_eq!(read["permissions"], allowed);
    let write =
        listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "write_file");
    let asked = json!([{"kind": "edit", "risk": "medium", "default": "ask"}]);
    assert_eq!(write.unwrap()["permissions"], asked);
    let listed = tools.request_ok("_zero/tools/list", json!({"dialect": "canonical"}));
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "Read"));

    let input = json!({"path": "README.md"});
    let read = tools.request_ok("tools/use", call_params("c1", "read_file", input.clone()));
    assert_eq!(read["sessionId"], "s1");
    assert_eq!(read["toolCallId"], "c1");
    assert_eq!(read["isError"], false);
    assert!(read["content"][0]["text"].as_str().unwrap().contains("hello"), "{read}");

    // Without an id the result comes as a request, which need not be answered.
    tools.notify("tools/use", call_params("c2", "read_file", input));
    let told = tools.wait_for_call("tools/result");
    assert!(!told["id"].is_null(), "{told}");
    assert_eq!(told["params"]["toolCallId"], "c2");
    assert_eq!(told["params"]["isError"], false);
    assert_eq!(tools.request_ok("tools/result", json!({"sessionId": "s1"})), json!({}));
    assert!(tools.close().success());
}

#[test]
fn caller_is_asked_and_rejection_applies() {
    let (zero, mut tools) = start_serving(&[]);
    let wanted = json!({"path": "new.txt", "content": "a\n"});
    let made = tools.request_ok("tools/use", call_params("c1", "write_file", wanted.clone()));
    assert_eq!(made["isError"], false, "{made}");
    let asked = tools.wait_for_call("session/request_permission");
    assert_eq!(asked["params"]["toolCall"]["toolCallId"], "c1");
    assert_eq!(std::fs::read_to_string(zero.folder().join("new.txt")).unwrap(), "a\n");
    let edit = json!({"path": "new.txt",
        "edits": [{"type": "replace", "oldText": "a", "newText": "b"}]});
    let made = tools.request_ok("tools/use", call_params("c2", "edit_file", edit));
    let diff = made["content"].as_array().unwrap().iter().find(|piece| piece["type"] == "diff");
    assert!(diff.unwrap()["diff"].as_str().unwrap().contains("-a\n+b"), "{made}");

    for (id, answer) in [("c3", "reject_once"), ("c4", "whatever")] {
        tools.answer = Some(answer);
        let wanted = json!({"path": "never.txt", "content": "x"});
        let denied = tools.request_ok("tools/use", call_params(id, "write_file", wanted));
        assert_eq!(denied["isError"], true, "{denied}");
        assert!(!zero.folder().join("never.txt").exists());
    }
}

/// Whoever gives up on a question gives up on all calls of the session, and goes on with others.
#[test]
fn caller_can_cancel_a_question() {
    let (zero, mut tools) = start_serving(&[]);
    tools.answer = None;
    let wanted = |name: &str| json!({"path": name, "content": "x"});
    for round in ["1", "2"] {
        let names = [format!("a{round}"), format!("b{round}")];
        let calls = [(&names[0], "never.txt"), (&names[1], "nor.txt")].map(|(name, file)| {
            tools.send_request("tools/use", call_params(name, "write_file", wanted(file)))
        });
        // Both have begun.
        for name in &names {
            tools.wait_for_message(|message| {
                message["method"] == "tools/progress" && message["params"]["toolCallId"] == **name
            });
        }
        let asked = tools.wait_for_call("session/request_permission");
        let outcome = json!({"outcome": {"outcome": "cancelled"}});
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": outcome});
        tools.write(&answer.to_string());
        for call in calls {
            assert_eq!(tools.wait_for_answer(call)["result"]["isError"], true);
        }
        let other = tools.unheard.iter().find(|message| message["method"] == asked["method"]);
        assert_eq!(other, None, "the next question is not asked any more");
    }
    assert!(!zero.folder().join("never.txt").exists() && !zero.folder().join("nor.txt").exists());
    tools.answer = Some("allow_once");
    let made = tools.request_ok("tools/use", call_params("c", "write_file", wanted("new.txt")));
    assert_eq!(made["isError"], false, "{made}");
}

#[test]
fn yes_flag_approves_but_denied_stays_denied() {
    let zero = TestProgram::outside_tmp();
    write_file(&zero, USER_FILE, r#"{"permissions": {"deny": ["Read(.env)"]}}"#);
    write_file(&zero, ".env", "secret");
    let mut tools = StdioProcess::start(&zero, &["tools", "serve", "--yes"]);
    tools.answer = None;
    let wanted = json!({"path": "new.txt", "content": "a\n"});
    assert_eq!(
        tools.request_ok("tools/use", call_params("c1", "write_file", wanted))["isError"],
        false
    );
    let denied =
        tools.request_ok("tools/use", call_params("c2", "read_file", json!({"path": ".env"})));
    assert_eq!(denied["isError"], true);
    assert!(!denied.to_string().contains("secret"), "{denied}");
}

#[test]
fn call_can_be_followed_and_cancelled() {
    let (_zero, mut tools) = start_serving(&["--yes"]);
    let slow = json!({"command": "echo begun; sleep 600"});
    let id = tools.send_request("tools/use", call_params("c1", "run_command", slow.clone()));
    let progress = tools.wait_for_call("tools/progress");
    assert_eq!(progress["params"]["toolCallId"], "c1");
    let (code, message) =
        tools.request_error("tools/use", call_params("c1", "run_command", slow.clone()));
    assert_eq!(code, -32602);
    assert!(message.contains("toolCallId"), "{message}");
    tools.notify("tools/cancel", json!({"sessionId": "s1", "toolCallId": "c1"}));
    assert_eq!(tools.wait_for_answer(id)["result"]["isError"], true);

    let id = tools.send_request("tools/use", call_params("c2", "run_command", slow.clone()));
    tools.wait_for_message(|message| message["params"]["toolCallId"] == "c2");
    tools.notify("$/cancel_request", json!({"requestId": id}));
    assert_eq!(tools.wait_for_answer(id)["error"]["code"], -32800);

    let id = tools.send_request("tools/use", call_params("c3", "run_command", slow.clone()));
    tools.wait_for_message(|message| message["params"]["toolCallId"] == "c3");
    assert_eq!(tools.request_ok("tools/close", json!({"sessionId": "s1"})), json!({}));
    assert_eq!(tools.wait_for_answer(id)["result"]["isError"], true);
    assert_eq!(tools.request_error("tools/close", json!({"sessionId": "s1"})).0, -32002);

    // Who goes away in the middle of it leaves nothing behind.
    let id = tools.send_request("tools/use", call_params("c4", "run_command", slow));
    tools.wait_for_message(|message| message["params"]["toolCallId"] == "c4");
    assert!(tools.close().success(), "{id}");
}

/// A session is opened by its first call; who closes it meanwhile has closed it.
#[test]
fn session_can_be_closed_while_opening() {
    let (zero, mut tools) = start_serving(&["--yes"]);
    for round in 0..20 {
        let touch = json!({"command": format!("touch made{round}")});
        let id = tools.send_request("tools/use", call_params("c1", "run_command", touch.clone()));
        let close = tools.send_request("tools/close", json!({"sessionId": "s1"}));
        tools.notify("tools/use", call_params("c2", "run_command", touch));
        tools.notify("tools/close", json!({"sessionId": "s1"}));
        assert_eq!(tools.wait_for_answer(close)["result"], json!({}));
        assert_eq!(tools.wait_for_answer(id)["result"]["isError"], true);
        assert_eq!(tools.wait_for_call("tools/result")["params"]["isError"], true);
        assert!(!zero.folder().join(format!("made{round}")).exists());
        assert_eq!(tools.request_error("tools/close", json!({"sessionId": "s1"})).0, -32002);
    }
    let read = call_params("c3", "read_file", json!({"path": "README.md"}));
    assert_eq!(tools.request_ok("tools/use", read)["isError"], false);
}

#[test]
fn bad_input_gets_error_and_serving_continues() {
    let (_zero, mut tools) = start_serving(&[]);
    tools.write("this is no JSON");
    assert_eq!(
        tools.wait_for_message(|message| message["error"].is_object())["error"]["code"],
        -32700
    );
    tools.write("[]");
    assert_eq!(
        tools.wait_for_message(|message| message["error"].is_object())["error"]["code"],
        -32600
    );
    for (method, params, code) in [
        ("tools/use", json!({}), -32602),
        ("tools/use", json!({"sessionId": 1, "toolCallId": "c", "toolName": "t"}), -32602),
        ("tools/use", call_params("c", "read_file", json!([])), -32602),
        ("tools/use", call_params("", "read_file", json!({})), -32602),
        ("tools/list", json!({"dialect": "klingon"}), -32602),
        ("tools/list", json!({"sessionId": ""}), -32602),
        ("tools/close", json!({}), -32602),
        ("tools/make", json!({}), -32601),
        ("session/new", json!({"cwd": "/", "mcpServers": []}), -32601),
    ] {
        assert_eq!(tools.request_error(method, params.clone()).0, code, "{method} {params}");
    }
    let unknown = tools.request_ok("tools/use", call_params("c", "no_such_tool", json!({})));
    assert_eq!(unknown["isError"], true, "{unknown}");
    // Of a call without an id that cannot be made, the caller is told by its result.
    let mut missing = call_params("c9", "read_file", json!({"path": "README.md"}));
    missing["dialect"] = json!("klingon");
    tools.notify("tools/use", missing);
    assert_eq!(tools.wait_for_call("tools/result")["params"]["isError"], true);
    tools.notify("tools/use", json!({"nothing": "fits"}));
    assert_eq!(tools.request_error("initialize", json!({"protocolVersion": "x"})).0, -32602);
    assert_eq!(tools.request_ok("initialize", json!({"protocolVersion": 7}))["protocolVersion"], 1);
}

#[test]
fn session_count_is_limited() {
    let (_zero, mut tools) = start_serving(&[]);
    for number in 0..64 {
        tools.request_ok("tools/list", json!({"sessionId": format!("s{number}")}));
    }
    let (code, message) = tools.request_error("tools/list", json!({"sessionId": "one more"}));
    assert_eq!(code, -32600);
    assert!(message.contains("tools/close"), "{message}");
    tools.request_ok("tools/close", json!({"sessionId": "s0"}));
    tools.request_ok("tools/list", json!({"sessionId": "one more"}));
}

#[test]
fn wrong_command_line_is_reported_before_serving() {
    let zero = TestProgram::new();
    let seen = zero.run(&["tools", "serve", "--workspace", "nowhere"]);
    assert!(seen.starts_with("exit 2") && seen.contains("nowhere"), "{seen}");
    write_file(&zero, USER_FILE, "{ broken");
    let seen = zero.run(&["tools", "serve"]);
    assert!(seen.starts_with("exit 2") && seen.contains("settings.json"), "{seen}");
}
