//! A session goes back to before a prompt, from the editor and from the command line.

use serde_json::json;

use super::{AcpFixture, call_step, chunk_text, make_script};

fn write_script(path: &std::path::Path, content: &str) -> String {
    let write = call_step("Write", json!({"file_path": path, "content": content}));
    make_script(&[&write, "turn", "say Written."])
}

#[test]
fn slash_rewind_takes_files_of_editor_session_back() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.call_ok("session/set_mode", json!({"sessionId": session, "modeId": "accept-edits"}));
    let (a, b) = (fixture.project.join("a.txt"), fixture.project.join("b.txt"));
    acp.run_turn(&session, &write_script(&a, "one"), "end_turn");
    acp.run_turn(&session, &write_script(&b, "two"), "end_turn");
    assert!(a.exists() && b.exists());
    let from = acp.log_position();
    acp.run_turn(&session, "/rewind", "end_turn");
    let listed = chunk_text(&acp.updates(from, &session), "agent_message_chunk");
    assert!(listed.contains("2. ") && listed.contains("1 file"), "{listed}");
    let from = acp.log_position();
    acp.run_turn(&session, "/rewind 2", "end_turn");
    let done = chunk_text(&acp.updates(from, &session), "agent_message_chunk");
    assert!(done.contains("before prompt 2") && done.contains("removed `b.txt`"), "{done}");
    assert!(a.exists() && !b.exists());
    acp.run_turn(&session, "go on", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("a.txt") && !asked.contains("b.txt"), "{asked}");
    acp.close();
    // Another process shows it, and takes it back in the folder of the session.
    let seen = fixture.zero.run(&["sessions", "rewind", &session, "--undo"]);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert!(b.exists());
    let mut acp = fixture.start_client();
    let from = acp.log_position();
    acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    let told = chunk_text(&acp.updates(from, &session), "agent_thought_chunk");
    assert!(told.contains("took the last rewind back"), "{told}");
    acp.run_turn(&session, "and now", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("b.txt"), "{asked}");
    acp.close();
}

#[test]
fn rewind_is_advertised_and_fork_ends_before_prompt() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.wait_for_update(0, "the commands", |update| {
        let commands = update["availableCommands"].as_array();
        commands.is_some_and(|all| all.iter().any(|command| command["name"] == "rewind"))
    });
    acp.run_turn(&session, "first words", "end_turn");
    acp.run_turn(&session, "second words", "end_turn");
    let at = |prompt: serde_json::Value| json!({"sessionId": session, "cwd": fixture.project, "_meta": {"zero": {"prompt": prompt}}});
    let forked = acp.call_ok("session/fork", at(json!(2)));
    let fork = forked["sessionId"].as_str().unwrap().to_owned();
    acp.run_turn(&fork, "other words", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("first words") && !asked.contains("second words"), "{asked}");
    acp.call_error("session/fork", at(json!("two")), -32602);
    acp.call_error("session/fork", at(json!(0)), -32602);
    acp.close();
}
