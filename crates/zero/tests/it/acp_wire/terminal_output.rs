//! What a command prints is seen while it runs.

use serde_json::{Value, json};

use super::acp_client::AcpClient;
use super::{AcpFixture, call_step, call_text, make_script, only_call, statuses};

fn terminal_capabilities() -> Value {
    json!({"_meta": {"terminal_output": true}})
}

fn open_with(fixture: &AcpFixture, can: Value) -> (AcpClient, String) {
    let mut acp = fixture.start_client_with(&[], can);
    let session = acp.open_session(fixture);
    (acp, session)
}

/// All that a terminal was sent.
fn printed_output(updates: &[Value]) -> String {
    let pieces = updates.iter().map(|update| &update["_meta"]["terminal_output"]["data"]);
    pieces.filter_map(Value::as_str).collect()
}

/// Prints, waits for a file of the test, and prints again.
fn waiting_command_step() -> String {
    let command = "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second";
    call_step("Bash", json!({"command": command}))
}

#[test]
fn terminal_output_is_streamed() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, terminal_capabilities());
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &make_script(&[&waiting_command_step()]));
    acp.wait_for_update(from, "the first words", |update| {
        let data = &update["_meta"]["terminal_output"]["data"];
        data.as_str().is_some_and(|data| data.contains("first"))
    });
    assert!(!acp.is_answered(&turn));
    fixture.write_project_file("go", "");
    acp.expect_end(&turn, "end_turn");
    let updates = acp.updates(from, &session);
    let text = printed_output(&updates);
    assert_eq!(text.matches("first").count(), 1, "{text}");
    assert!(text.find("first") < text.find("second"), "{text}");
    let announced = updates.iter().find(|it| it["sessionUpdate"] == "tool_call").unwrap();
    let terminal = &announced["_meta"]["terminal_info"]["terminal_id"];
    assert!(terminal.is_string(), "{announced}");
    assert_eq!(announced["_meta"]["terminal_info"]["cwd"], json!(fixture.project));
    assert_eq!(announced["content"][0]["terminalId"], *terminal, "{announced}");
    let call = only_call(&updates);
    assert_eq!(call["content"][0]["terminalId"], *terminal, "it stays: {call}");
    assert_eq!(call["_meta"]["terminal_exit"]["exit_code"], 0, "{call}");
    assert_eq!(call["_meta"]["terminal_exit"]["terminal_id"], *terminal, "{call}");
    for update in updates.iter().filter(|it| it["_meta"]["terminal_output"].is_object()) {
        assert_eq!(update["_meta"]["terminal_output"]["terminal_id"], *terminal, "{update}");
    }
    acp.close();
}

#[test]
fn client_without_terminals_gets_content() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, json!({}));
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &make_script(&[&waiting_command_step()]));
    acp.wait_for_update(from, "the first words", |update| {
        update["sessionUpdate"] == "tool_call_update" && call_text(update).contains("first")
    });
    assert!(!acp.is_answered(&turn));
    fixture.write_project_file("go", "");
    acp.expect_end(&turn, "end_turn");
    let updates = acp.updates(from, &session);
    let call = only_call(&updates);
    assert!(call_text(&call).contains("second"), "{call}");
    assert!(updates.iter().all(|update| update["_meta"]["terminal_output"].is_null()));
    let is_terminal = |update: &Value| update["content"][0]["type"] == "terminal";
    assert!(!updates.iter().any(is_terminal));
    acp.close();
}

#[test]
fn command_exit_is_reported() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, terminal_capabilities());
    for (command, code) in
        [("exit 0", 0), ("exit 3", 3), ("nosuchprogram", 127), ("echo '(exit code 7)'", 0)]
    {
        let from = acp.log_position();
        let run = call_step("Bash", json!({"command": command}));
        acp.run_turn(&session, &make_script(&[&run]), "end_turn");
        let call = only_call(&acp.updates(from, &session));
        assert_eq!(call["_meta"]["terminal_exit"]["exit_code"], code, "{command}: {call}");
        assert_eq!(call["rawOutput"]["metadata"]["exitCode"], code, "{command}: {call}");
    }
    acp.close();
}

#[test]
fn approved_command_gets_its_terminal_afterwards() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, terminal_capabilities());
    let from = acp.log_position();
    let run = call_step("Bash", json!({"command": "touch made; echo visible"}));
    acp.run_turn(&session, &make_script(&[&run]), "end_turn");
    let updates = acp.updates(from, &session);
    let call = only_call(&updates);
    assert_eq!(statuses(&updates, &call["toolCallId"]), ["pending", "in_progress", "completed"]);
    assert_eq!(call["content"][0]["type"], "terminal", "{call}");
    assert!(printed_output(&updates).contains("visible"));
    let asked = acp.requests(from, "session/request_permission");
    let first = &asked[0]["params"]["toolCall"]["content"][0];
    assert!(first.to_string().contains("touch made"), "the command is the first thing: {first}");
    acp.close();
}

#[test]
fn control_sequences_are_removed() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, terminal_capabilities());
    let from = acp.log_position();
    let command = r"printf '\033[31mred\033[0m \033]0;title\007 \033]52;c;aGk=\007 \033[2J end'";
    acp.run_turn(
        &session,
        &make_script(&[&call_step("Bash", json!({"command": command}))]),
        "end_turn",
    );
    let text = printed_output(&acp.updates(from, &session));
    assert!(text.contains("red") && text.contains("end"), "{text:?}");
    assert!(!text.contains("]52;") && !text.contains("]0;"), "{text:?}");
    acp.close();
}
