//! Tools that the client brings in its capabilities, and runs itself.

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, selected_outcome};
use super::{AcpFixture, call_step, call_text, make_script, only_call};
use crate::config::{USER_FILE, write_file};

fn definition(name: &str) -> Value {
    json!({"name": name, "description": "Deploys a branch", "inputSchema": {
        "type": "object", "properties": {"branch": {"type": "string"}}, "required": ["branch"]}})
}

/// Capabilities as the tool protocol writes them.
fn plain_capabilities(definitions: &[Value]) -> Value {
    json!({"tools": {"definitions": definitions}})
}

fn start(fixture: &AcpFixture, can: Value) -> (AcpClient, String) {
    let mut acp = AcpClient::spawn(&fixture.zero, &[]);
    let params = json!({"protocolVersion": 1, "clientCapabilities": can});
    acp.call_ok("initialize", params);
    let session = acp.open_session(fixture);
    (acp, session)
}

/// A client whose capabilities are in no schema is not held against it.
fn leave(mut acp: AcpClient) {
    let (status, stderr) = acp.disconnect_unchecked();
    assert_eq!(status.code(), Some(0), "{stderr}");
}

fn deploy_script(tool: &str, branch: &str) -> String {
    make_script(&[&call_step(tool, json!({"branch": branch})), "turn", "say Ok."])
}

/// Waits for the agent's `tools/use` and returns its parameters.
fn wait_for_use(acp: &mut AcpClient, from: usize, method: &str) -> Value {
    let message = acp.wait_for_message(from, method, |message| message["method"] == method);
    message["params"].clone()
}

#[test]
fn tool_of_client_is_judged_and_called_by_notification() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = start(&fixture, plain_capabilities(&[definition("deploy")]));
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &deploy_script("acp__deploy", "main"));
    let used = wait_for_use(&mut acp, from, "tools/use");
    // The user was asked before.
    let asked = acp.requests(from, "session/request_permission");
    assert_eq!(asked.len(), 1);
    assert!(asked[0].to_string().contains("`deploy` of the editor"), "{}", asked[0]);
    assert_eq!(used["sessionId"], json!(session));
    assert_eq!(used["toolName"], "deploy");
    assert_eq!(used["input"], json!({"branch": "main"}));
    let result = json!({"sessionId": session, "toolCallId": used["toolCallId"],
        "content": [{"type": "text", "text": "deployed main"}], "isError": false});
    assert_eq!(acp.call_ok("tools/result", result.clone()), json!({}));
    acp.expect_end(&turn, "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["status"], "completed", "{call}");
    assert!(call_text(&call).contains("deployed main"), "{call}");
    let asked = fixture.model.requests();
    let tools = asked[0]["tools"].to_string();
    assert!(tools.contains("acp__deploy") && tools.contains("Deploys a branch"), "{tools}");
    assert!(asked.last().unwrap()["messages"].to_string().contains("deployed main"));
    // A second result has nothing to belong to.
    assert_eq!(acp.call_ok("tools/result", result), json!({}));
    leave(acp);
}

#[test]
fn rules_about_arguments_apply_to_tools_of_client() {
    let fixture = AcpFixture::new();
    let rules = json!({"permissions": {"allow": ["acp__deploy"],
        "deny": ["acp__deploy(branch:prod*)"]}});
    write_file(&fixture.zero, USER_FILE, fixture.model.settings_json(rules));
    let (mut acp, session) = start(&fixture, plain_capabilities(&[definition("deploy")]));
    let from = acp.log_position();
    acp.run_turn(&session, &deploy_script("acp__deploy", "production"), "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["rawOutput"]["metadata"]["status"], "denied", "{call}");
    assert!(acp.agent_messages().all(|message| message["method"] != "tools/use"));
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &deploy_script("acp__deploy", "test"));
    let used = wait_for_use(&mut acp, from, "tools/use");
    assert_eq!(acp.requests(from, "session/request_permission").len(), 0);
    acp.notify(
        "tools/result",
        json!({"sessionId": session, "toolCallId": used["toolCallId"],
        "content": [{"type": "text", "text": "no such host"}], "isError": true}),
    );
    acp.expect_end(&turn, "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["status"], "failed", "{call}");
    assert!(call["rawOutput"]["error"].as_str().unwrap().contains("no such host"), "{call}");
    leave(acp);
}

#[test]
fn tool_of_client_can_be_called_by_request() {
    let fixture = AcpFixture::new();
    let can = json!({"_meta": {"zero": {"tools": {"definitions": [definition("deploy")]}}}});
    let mut acp = AcpClient::start(&fixture.zero, &[], can);
    acp.set_reply_policy(|method, params| match method {
        "session/request_permission" => ClientReply::Result(selected_outcome("allow_once")),
        "_zero/tools/use" => ClientReply::Result(json!({"sessionId": params["sessionId"],
            "toolCallId": params["toolCallId"], "isError": false,
            "content": [{"type": "text", "text": format!("got {}", params["input"]["branch"])}]})),
        _ => ClientReply::Error(-32601),
    });
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    acp.run_turn(&session, &deploy_script("acp__deploy", "main"), "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert!(call_text(&call).contains("got \"main\""), "{call}");
    acp.close();
}

#[test]
fn tool_of_client_cannot_replace_a_tool_of_zero() {
    let fixture = AcpFixture::new();
    let read = json!({"name": "Read", "description": "Mine",
        "inputSchema": {"type": "object"}});
    let broken = json!({"name": "broken", "inputSchema": {"type": "string"}});
    let (mut acp, session) = start(&fixture, plain_capabilities(&[read, broken]));
    let from = acp.log_position();
    let script =
        make_script(&[&call_step("Read", json!({"file_path": "hello.txt"})), "turn", "say Ok."]);
    acp.run_turn(&session, &script, "end_turn");
    let updates = acp.updates(from, &session);
    assert!(call_text(&only_call(&updates)).contains("hello"), "zero's own ran");
    assert!(acp.agent_messages().all(|message| message["method"] != "tools/use"));
    let tools = fixture.model.requests()[0]["tools"].to_string();
    assert!(tools.contains("acp__Read") && !tools.contains("acp__broken"), "{tools}");
    let notes = super::chunk_text(&updates, "agent_thought_chunk");
    assert!(notes.contains("the tool `broken` of the editor is not used"), "{notes}");
    leave(acp);
}

#[test]
fn client_that_never_answers_is_not_waited_for() {
    let fixture = AcpFixture::new();
    let settings =
        json!({"limits": {"mcp-timeout": "1s"}, "permissions": {"allow": ["acp__deploy"]}});
    write_file(&fixture.zero, USER_FILE, fixture.model.settings_json(settings));
    let (mut acp, session) = start(&fixture, plain_capabilities(&[definition("deploy")]));
    let from = acp.log_position();
    acp.run_turn(&session, &deploy_script("acp__deploy", "main"), "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["status"], "failed", "{call}");
    assert!(call.to_string().contains("did not answer within 1 s"), "{call}");
    wait_for_use(&mut acp, from, "tools/cancel");
    // A turn that is cancelled does not wait for it either.
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &deploy_script("acp__deploy", "main"));
    wait_for_use(&mut acp, from, "tools/use");
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    wait_for_use(&mut acp, from, "tools/cancel");
    leave(acp);
}

#[test]
fn secrets_in_results_of_client_tools_are_masked() {
    let fixture = AcpFixture::with_settings(json!({"permissions": {"allow": ["acp__deploy"]}}));
    fixture.write_project_file(".env", "API_TOKEN=tok_4f9d8a7b6c5e4d3f2a1b\n");
    let (mut acp, session) = start(&fixture, plain_capabilities(&[definition("deploy")]));
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &deploy_script("acp__deploy", "main"));
    let used = wait_for_use(&mut acp, from, "tools/use");
    let text = "the token is tok_4f9d8a7b6c5e4d3f2a1b, keep it";
    acp.call_ok(
        "tools/result",
        json!({"sessionId": session, "toolCallId": used["toolCallId"],
        "content": [{"type": "text", "text": text}]}),
    );
    acp.expect_end(&turn, "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(
        asked.contains("the token is") && !asked.contains("tok_4f9d8a7b6c5e4d3f2a1b"),
        "{asked}"
    );
    leave(acp);
}
