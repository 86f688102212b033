//! Sessions are made, found, closed and deleted.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::acp_client::AcpClient;
use super::{AcpFixture, call_step, make_script};
use crate::config::write_file;

fn list_sessions(acp: &mut AcpClient, params: Value) -> Vec<Value> {
    acp.call_ok("session/list", params)["sessions"].as_array().unwrap().clone()
}

fn session_ids(sessions: &[Value]) -> Vec<&str> {
    sessions.iter().map(|session| session["sessionId"].as_str().unwrap()).collect()
}

#[test]
fn session_001_session_is_created() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let from = acp.log_position();
    let session = acp.open_session(&fixture);
    assert!(session.starts_with("agent:main:acp:"), "{session}");
    // Clients know a session only when they have the answer: everything about it comes after.
    acp.wait_for_update(from, "commands", |update| {
        update["sessionUpdate"] == "available_commands_update"
    });
    let about: Vec<bool> =
        acp.agent_messages().skip(1).map(|message| message.get("method").is_some()).collect();
    assert_eq!(about.first(), Some(&false), "the answer is first: {about:?}");
    let updates = acp.updates(from, &session);
    let commands = updates.iter().find(|update| update["availableCommands"].is_array()).unwrap();
    let names: Vec<&Value> =
        commands["availableCommands"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert!(names.contains(&&json!("help")), "{names:?}");
    acp.close();
}

#[test]
fn session_002_session_ids_are_unique() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let sessions: HashSet<String> = (0..5).map(|_| acp.open_session(&fixture)).collect();
    assert_eq!(sessions.len(), 5);
    acp.close();
}

#[test]
fn one_process_runs_many_sessions() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let sessions: Vec<String> = (0..8).map(|_| acp.open_session(&fixture)).collect();
    let from = acp.log_position();
    let turns: Vec<Value> = sessions
        .iter()
        .enumerate()
        .map(|(at, session)| {
            let echo = call_step("Bash", json!({"command": format!("echo answer-{at}")}));
            acp.begin_prompt(session, &make_script(&[&echo, "turn", &format!("say It was {at}.")]))
        })
        .collect();
    for turn in &turns {
        acp.expect_end(turn, "end_turn");
    }
    for (at, session) in sessions.iter().enumerate() {
        let updates = acp.updates(from, session);
        assert_eq!(acp.message_text(from, session), format!("It was {at}."));
        assert!(super::call_text(&super::only_call(&updates)).contains(&format!("answer-{at}")));
    }
    acp.close();
}

#[test]
fn list_001_sessions_are_listed() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    assert_eq!(list_sessions(&mut acp, json!({})), Vec::<Value>::new());
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "Name the colours", "end_turn");
    let sessions = list_sessions(&mut acp, json!({}));
    assert_eq!(session_ids(&sessions), [&session]);
    assert_eq!(sessions[0]["cwd"], json!(fixture.project));
    let updated = sessions[0]["updatedAt"].as_str().unwrap();
    assert!(updated.ends_with('Z') && updated.contains('T'), "{updated}");
    assert!(sessions[0]["title"].as_str().unwrap().contains("colours"), "{sessions:?}");
    acp.close();
    // Parameters may be absent, and another process knows the same.
    let mut acp = fixture.start_client();
    acp.send_message_text(r#"{"jsonrpc":"2.0","id":"l","method":"session/list"}"#);
    let sessions = acp.wait(&json!("l")).unwrap();
    assert_eq!(sessions["sessions"][0]["sessionId"], json!(session));
    let (status, _) = acp.disconnect_unchecked();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn list_002_lists_are_filtered_and_paged() {
    let fixture = AcpFixture::without_model();
    write_file(&fixture.zero, "other/a", "");
    let other = fixture.zero.folder().join("other").canonicalize().unwrap();
    let mut acp = fixture.start_client();
    let mut here: Vec<String> = (0..3).map(|_| acp.open_session(&fixture)).collect();
    let there = acp.call_ok("session/new", json!({"cwd": other, "mcpServers": []}));
    let there = there["sessionId"].as_str().unwrap();
    assert_eq!(session_ids(&list_sessions(&mut acp, json!({"cwd": other}))), [there]);
    assert_eq!(list_sessions(&mut acp, json!({"cwd": "/nowhere"})), Vec::<Value>::new());
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    for page in 0..3 {
        let mut params = json!({"cwd": fixture.project, "_meta": {"limit": 1}});
        if page > 0 {
            params["cursor"] = cursor;
        }
        let listed = acp.call_ok("session/list", params);
        let sessions = listed["sessions"].as_array().unwrap().clone();
        assert_eq!(sessions.len(), 1, "{listed}");
        found.push(session_ids(&sessions)[0].to_owned());
        cursor = listed.get("nextCursor").cloned().unwrap_or_default();
        assert_eq!(cursor.is_string(), page < 2, "{listed}");
    }
    here.sort_unstable();
    found.sort_unstable();
    assert_eq!(here, found);
    acp.close();
}

#[test]
fn resume_001_session_continues_in_another_process() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "first words", "end_turn");
    acp.close();
    let mut acp = fixture.start_client();
    let resume = fixture.session_params_with(json!({"sessionId": session}));
    let resumed = acp.call_ok("session/resume", resume);
    assert!(resumed["modes"]["currentModeId"].is_string(), "{resumed}");
    acp.run_turn(&session, "second words", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("first words") && asked.contains("second words"), "{asked}");
    acp.close();
}

#[test]
fn resume_002_resume_replays_nothing() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "first words", "end_turn");
    acp.close();
    let mut acp = fixture.start_client();
    // The servers may be left out here.
    acp.call_ok("session/resume", json!({"sessionId": session, "cwd": fixture.project}));
    acp.run_turn(&session, "/status", "end_turn");
    let updates = acp.updates(0, &session);
    assert!(!super::chunk_text(&updates, "user_message_chunk").contains("first"));
    assert!(!super::chunk_text(&updates, "agent_message_chunk").contains("Hello"), "{updates:#?}");
    let gone = json!({"sessionId": "agent:main:acp:nobody", "cwd": fixture.project});
    let error = acp.call_error("session/resume", gone, -32002);
    assert_eq!(error["data"]["sessionId"], "agent:main:acp:nobody");
    acp.close();
}

#[test]
fn delete_001_deleted_session_is_gone() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let (gone, stays) = (acp.open_session(&fixture), acp.open_session(&fixture));
    acp.run_turn(&gone, "/read hello.txt", "end_turn");
    acp.call_ok("session/delete", json!({"sessionId": gone}));
    assert_eq!(session_ids(&list_sessions(&mut acp, json!({}))), [&stays]);
    acp.call_error("session/prompt", super::prompt_params(&gone, "/help"), -32002);
    acp.call_error("session/load", fixture.session_params_with(json!({"sessionId": gone})), -32002);
    acp.run_turn(&stays, "/read hello.txt", "end_turn");
    acp.close();
}

#[test]
fn session_open_elsewhere_is_not_deleted() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    let delete = ["sessions", "delete", session.as_str(), "--yes"];
    let seen = fixture.zero.run(&delete);
    assert!(seen.contains("another process of zero has the session open"), "{seen}");
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    acp.close();
    let seen = fixture.zero.run(&delete);
    assert!(seen.starts_with("exit 0"), "{seen}");
}

#[test]
fn delete_002_deleting_missing_session_succeeds() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    for id in [&session, &session, "agent:main:acp:nobody", "nobody"] {
        acp.call_ok("session/delete", json!({"sessionId": id}));
    }
    acp.close();
}

#[test]
fn close_001_closed_session_still_exists() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.call_ok("session/close", json!({"sessionId": session}));
    let error = acp.call_error("session/prompt", super::prompt_params(&session, "/help"), -32002);
    assert_eq!(error["data"]["sessionId"], json!(session));
    acp.call_error("session/close", json!({"sessionId": session}), -32002);
    acp.call_error("session/set_mode", json!({"sessionId": session, "modeId": "ask"}), -32002);
    assert_eq!(session_ids(&list_sessions(&mut acp, json!({}))), [&session]);
    acp.call_ok("session/resume", fixture.session_params_with(json!({"sessionId": session})));
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    acp.close();
}

#[test]
fn close_002_close_stops_running_turn() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    let close = acp.request("session/close", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    acp.wait(&close).unwrap();
    fixture.model.wait_for_disconnect();
    acp.close();
}

#[test]
fn adddirs_001_additional_folders_belong_to_project() {
    let fixture = AcpFixture::without_model();
    write_file(&fixture.zero, "other/far.txt", "far away\n");
    let other = fixture.zero.folder().join("other").canonicalize().unwrap();
    let mut acp = fixture.start_client();
    acp.always_select("reject_once");
    let read = format!("/read {}", other.join("far.txt").display());
    let further = fixture.session_params_with(json!({"additionalDirectories": [other]}));
    let made = acp.call_ok("session/new", further);
    let with = made["sessionId"].as_str().unwrap().to_owned();
    let from = acp.log_position();
    acp.run_turn(&with, &read, "end_turn");
    let updates = acp.updates(from, &with);
    assert!(super::call_text(&super::only_call(&updates)).contains("far away"), "{updates:#?}");
    assert_eq!(acp.requests(from, "session/request_permission").len(), 0);
    // Where they are not named, they are not.
    let without = acp.open_session(&fixture);
    let from = acp.log_position();
    let _ = acp.prompt(&without, &read);
    let updates = acp.updates(from, &without);
    assert_eq!(super::only_call(&updates)["status"], "failed", "{updates:#?}");
    for folders in [json!(["relative"]), json!(["/nowhere/at/all"]), json!(["/"])] {
        let wanted = fixture.session_params_with(json!({"additionalDirectories": folders}));
        acp.call_error("session/new", wanted, -32602);
    }
    acp.close();
}

#[test]
fn client_can_choose_its_session() {
    let fixture = AcpFixture::new();
    let mut acp = fixture.start_client();
    let wanted = |meta: Value| fixture.session_params_with(json!({"_meta": meta}));
    acp.call_error(
        "session/new",
        wanted(json!({"sessionKey": "fixture", "requireExisting": true})),
        -32002,
    );
    for meta in [json!({"sessionKey": "fixture"}), json!({"zero": {"sessionKey": "fixture"}})] {
        let made = acp.call_ok("session/new", wanted(meta));
        assert!(made["sessionId"].as_str().unwrap().starts_with("agent:main:fixture"), "{made}");
    }
    acp.run_turn("agent:main:fixture", "first words", "end_turn");
    acp.call_ok("session/close", json!({"sessionId": "agent:main:fixture"}));
    acp.call_ok("session/close", json!({"sessionId": "agent:main:fixture#2"}));
    let made =
        acp.call_ok("session/new", wanted(json!({"sessionKey": "fixture", "resetSession": true})));
    assert_eq!(made["sessionId"], "agent:main:fixture");
    acp.run_turn("agent:main:fixture", "second words", "end_turn");
    let asked = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(!asked.contains("first words"), "{asked}");
    for meta in [json!({"sessionKey": 1}), json!({"resetSession": "yes"})] {
        acp.call_error("session/new", wanted(meta), -32602);
    }
    acp.close();
}

#[test]
fn arguments_choose_session_unless_client_does() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client_with(&["--session", "always"], json!({}));
    assert_eq!(acp.open_session(&fixture), "agent:main:always");
    let other = fixture.session_params_with(json!({"_meta": {"sessionKey": "other"}}));
    assert_eq!(acp.call_ok("session/new", other)["sessionId"], "agent:main:other");
    acp.close();
    let mut acp =
        fixture.start_client_with(&["--session", "nobody", "--require-existing"], json!({}));
    acp.call_error("session/new", fixture.session_params(), -32002);
    acp.close();
}
