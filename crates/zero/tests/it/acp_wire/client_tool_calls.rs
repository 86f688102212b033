//! Clients that make calls themselves. By its older name a call speaks the older dialect, `acp`.

use serde_json::{Value, json};

use super::AcpFixture;
use super::acp_client::{AcpClient, ClientReply, selected};

fn opened(desk: &AcpFixture) -> (AcpClient, String) {
    let mut acp = desk.acp();
    let session = acp.open(desk);
    (acp, session)
}

fn used(session: &str, id: &str, tool: &str, input: Value) -> Value {
    json!({"sessionId": session, "toolCallId": id, "toolName": tool, "input": input})
}

#[test]
fn tools_are_listed() {
    let desk = AcpFixture::direct();
    let (mut acp, session) = opened(&desk);
    let listed = acp.ok("_zero/tools/list", json!({"sessionId": session}));
    let tools = listed["tools"].as_array().unwrap();
    let read = tools.iter().find(|tool| tool["name"] == "Read").expect("there is `Read`");
    assert!(read["inputSchema"]["properties"].is_object(), "{read}");
    assert!(read["description"].is_string(), "{read}");
    acp.leave();
}

#[test]
fn a_call_takes_the_same_way_by_either_name() {
    let desk = AcpFixture::direct();
    let (mut acp, session) = opened(&desk);
    for (method, tool, input) in [
        ("_zero/tools/use", "Read", json!({"file_path": "hello.txt"})),
        ("tools/use", "read_file", json!({"path": "hello.txt"})),
    ] {
        let id = format!("own_{tool}");
        let end = acp.ok(method, used(&session, &id, tool, input));
        assert_eq!(end["toolCallId"], json!(id), "{end}");
        assert_ne!(end["isError"], true, "{end}");
        assert!(end["content"].to_string().contains("hello"), "{end}");
    }
    acp.leave();
}

#[test]
fn a_call_of_a_client_is_asked_about_like_any_other() {
    let desk = AcpFixture::direct();
    for (method, answer, is_made) in [
        ("_zero/tools/use", "allow_once", true),
        ("tools/use", "allow_once", true),
        ("_zero/tools/use", "reject_once", false),
        ("tools/use", "reject_once", false),
    ] {
        let (mut acp, session) = opened(&desk);
        acp.chooses(answer);
        let name = format!("{}-{answer}", method.replace('/', "-"));
        let (tool, input) = match method {
            "tools/use" => ("write_file", json!({"path": name, "content": "new\n"})),
            _ => ("Write", json!({"file_path": name, "content": "new\n"})),
        };
        let end = acp.ok(method, used(&session, "own", tool, input));
        assert_eq!(end["isError"].as_bool().unwrap_or(false), !is_made, "{end}");
        assert_eq!(desk.file(&name).exists(), is_made);
        assert_eq!(acp.asked(0, "session/request_permission").len(), 1);
        acp.leave();
    }
}

#[test]
fn a_call_without_an_id_is_answered_with_a_result() {
    let desk = AcpFixture::direct();
    let (mut acp, session) = opened(&desk);
    acp.answers(|method, _| match method {
        "session/request_permission" => ClientReply::Result(selected("reject_once")),
        "tools/result" => ClientReply::Result(json!({})),
        _ => ClientReply::Error(-32601),
    });
    let from = acp.mark();
    acp.notify("tools/use", used(&session, "own", "read_file", json!({"path": "hello.txt"})));
    let told = acp.until(from, "the result", |said| said["method"] == "tools/result");
    assert_eq!(told["params"]["toolCallId"], "own", "{told}");
    assert!(told["params"]["content"].to_string().contains("hello"), "{told}");
    // The rules know no such work, so only the end is looked at.
    let (status, _) = acp.hang_up_unchecked();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn calls_that_cannot_be_are_refused() {
    let desk = AcpFixture::direct();
    let (mut acp, session) = opened(&desk);
    acp.error("_zero/tools/use", used("nobody", "own", "Read", json!({})), -32002);
    acp.error("_zero/tools/use", json!({"sessionId": session}), -32602);
    let end = acp.ok("_zero/tools/use", used(&session, "own", "Nothing", json!({})));
    assert_eq!(end["isError"], true, "{end}");
    acp.ok("tools/result", json!({"sessionId": session, "toolCallId": "x", "content": []}));
    acp.leave();
}
