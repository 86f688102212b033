//! Clients that make calls themselves. By its older name a call speaks the older dialect, `acp`.

use serde_json::{Value, json};

use super::AcpFixture;
use super::acp_client::{AcpClient, ClientReply, selected_outcome};

fn open_client(fixture: &AcpFixture) -> (AcpClient, String) {
    let mut acp = fixture.start_client();
    let session = acp.open_session(fixture);
    (acp, session)
}

fn tool_use_params(session: &str, id: &str, tool: &str, input: Value) -> Value {
    json!({"sessionId": session, "toolCallId": id, "toolName": tool, "input": input})
}

#[test]
fn tools_are_listed() {
    let fixture = AcpFixture::without_model();
    let (mut acp, session) = open_client(&fixture);
    let listed = acp.call_ok("_zero/tools/list", json!({"sessionId": session}));
    let tools = listed["tools"].as_array().unwrap();
    let read = tools.iter().find(|tool| tool["name"] == "Read").expect("there is `Read`");
    assert!(read["inputSchema"]["properties"].is_object(), "{read}");
    assert!(read["description"].is_string(), "{read}");
    acp.close();
}

#[test]
fn either_method_name_runs_the_same_call() {
    let fixture = AcpFixture::without_model();
    let (mut acp, session) = open_client(&fixture);
    for (method, tool, input) in [
        ("_zero/tools/use", "Read", json!({"file_path": "hello.txt"})),
        ("tools/use", "read_file", json!({"path": "hello.txt"})),
    ] {
        let id = format!("own_{tool}");
        let end = acp.call_ok(method, tool_use_params(&session, &id, tool, input));
        assert_eq!(end["toolCallId"], json!(id), "{end}");
        assert_ne!(end["isError"], true, "{end}");
        assert!(end["content"].to_string().contains("hello"), "{end}");
    }
    acp.close();
}

#[test]
fn client_call_needs_permission_like_any_other() {
    let fixture = AcpFixture::without_model();
    for (method, answer, is_made) in [
        ("_zero/tools/use", "allow_once", true),
        ("tools/use", "allow_once", true),
        ("_zero/tools/use", "reject_once", false),
        ("tools/use", "reject_once", false),
    ] {
        let (mut acp, session) = open_client(&fixture);
        acp.always_select(answer);
        let name = format!("{}-{answer}", method.replace('/', "-"));
        let (tool, input) = match method {
            "tools/use" => ("write_file", json!({"path": name, "content": "new\n"})),
            _ => ("Write", json!({"file_path": name, "content": "new\n"})),
        };
        let end = acp.call_ok(method, tool_use_params(&session, "own", tool, input));
        assert_eq!(end["isError"].as_bool().unwrap_or(false), !is_made, "{end}");
        assert_eq!(fixture.project_path(&name).exists(), is_made);
        assert_eq!(acp.requests(0, "session/request_permission").len(), 1);
        acp.close();
    }
}

#[test]
fn call_without_id_gets_result() {
    let fixture = AcpFixture::without_model();
    let (mut acp, session) = open_client(&fixture);
    acp.set_reply_policy(|method, _| match method {
        "session/request_permission" => ClientReply::Result(selected_outcome("reject_once")),
        "tools/result" => ClientReply::Result(json!({})),
        _ => ClientReply::Error(-32601),
    });
    let from = acp.log_position();
    acp.notify(
        "tools/use",
        tool_use_params(&session, "own", "read_file", json!({"path": "hello.txt"})),
    );
    let told =
        acp.wait_for_message(from, "the result", |message| message["method"] == "tools/result");
    assert_eq!(told["params"]["toolCallId"], "own", "{told}");
    assert!(told["params"]["content"].to_string().contains("hello"), "{told}");
    // The rules know no such work, so only the end is looked at.
    let (status, _) = acp.disconnect_unchecked();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn invalid_calls_are_refused() {
    let fixture = AcpFixture::without_model();
    let (mut acp, session) = open_client(&fixture);
    acp.call_error("_zero/tools/use", tool_use_params("nobody", "own", "Read", json!({})), -32002);
    acp.call_error("_zero/tools/use", json!({"sessionId": session}), -32602);
    let end =
        acp.call_ok("_zero/tools/use", tool_use_params(&session, "own", "Nothing", json!({})));
    assert_eq!(end["isError"], true, "{end}");
    acp.call_ok("tools/result", json!({"sessionId": session, "toolCallId": "x", "content": []}));
    acp.close();
}
