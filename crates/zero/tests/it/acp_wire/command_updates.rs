//! The editor knows the slash commands of a session, also after they have changed.

use serde_json::{Value, json};

use super::AcpFixture;
use super::acp_client::AcpClient;
use crate::gateway_process::GatewayProcess;

/// Waits until the commands of a session are told with, or without, one of them.
#[track_caller]
fn wait_for_commands(acp: &mut AcpClient, from: usize, name: &str, is_there: bool) -> Value {
    acp.wait_for_update(from, name, |update| {
        let commands = update["availableCommands"].as_array();
        update["sessionUpdate"] == "available_commands_update"
            && commands.unwrap().iter().any(|command| command["name"] == name) == is_there
    })
}

#[test]
fn commands_are_sent_again_when_files_change() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let from = acp.log_position();
    let session = acp.open_session(&fixture);
    wait_for_commands(&mut acp, from, "review", false);
    let from = acp.log_position();
    fixture.write_project_file(
        ".zero/commands/review.md",
        "---\ndescription: Reviews it\nargument-hint: FILE\n---\nReview $1 now.\n",
    );
    let update = wait_for_commands(&mut acp, from, "review", true);
    let commands = update["availableCommands"].as_array().unwrap();
    let review = commands.iter().find(|command| command["name"] == "review").unwrap();
    assert_eq!(
        *review,
        json!({"name": "review", "description": "Reviews it", "input": {"hint": "FILE"}})
    );
    assert!(commands.iter().any(|command| command["name"] == "help"), "the others stay: {update}");
    acp.run_turn(&session, "/review hello.txt", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("Review hello.txt now."), "{asked}");
    let from = acp.log_position();
    std::fs::remove_file(fixture.project_path(".zero/commands/review.md")).unwrap();
    wait_for_commands(&mut acp, from, "review", false);
    acp.close();
}

#[test]
fn commands_are_sent_when_session_is_loaded_or_resumed() {
    let fixture = AcpFixture::without_model();
    fixture.write_project_file(".zero/commands/tidy.md", "Tidy up.");
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.close();
    for method in ["session/load", "session/resume"] {
        let mut acp = fixture.start_client();
        acp.call_ok(method, fixture.session_params_with(json!({"sessionId": session})));
        wait_for_commands(&mut acp, 0, "tidy", true);
        acp.close();
    }
}

#[test]
fn commands_of_remote_session_are_those_of_the_editor() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let mut acp = fixture.start_client_with(&["--url", &gateway.url], json!({}));
    acp.open_session(&fixture);
    let from = acp.log_position();
    fixture.write_project_file(".zero/commands/tidy.md", "Tidy up.");
    wait_for_commands(&mut acp, from, "tidy", true);
    acp.close();
}
