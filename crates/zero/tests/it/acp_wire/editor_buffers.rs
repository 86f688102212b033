//! The editor's buffers: what is not saved yet is read, and what is written goes through it.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, selected_outcome};
use super::{AcpFixture, call_step, call_text, calls, check_all_ended, make_script, only_call};
use crate::config::write_file;

/// What an editor was asked, and how it deals with it.
type EditorRequestLog = Arc<Mutex<Vec<(String, String)>>>;

fn fs_capabilities() -> Value {
    json!({"fs": {"readTextFile": true, "writeTextFile": true}})
}

/// An editor that has this text in every buffer, and saves what it is given.
fn install_editor(acp: &mut AcpClient, buffer: Option<&'static str>) -> EditorRequestLog {
    let asked = EditorRequestLog::default();
    let heard = Arc::clone(&asked);
    acp.set_reply_policy(move |method, params| {
        let path = params["path"].as_str().unwrap_or_default().to_owned();
        if method.starts_with("fs/") {
            heard.lock().unwrap().push((method.to_owned(), path.clone()));
        }
        match (method, buffer) {
            ("session/request_permission", _) => {
                ClientReply::Result(selected_outcome("allow_once"))
            }
            ("fs/read_text_file", Some(text)) => ClientReply::Result(json!({"content": text})),
            ("fs/read_text_file", None) => match std::fs::read_to_string(&path) {
                Ok(text) => ClientReply::Result(json!({"content": text})),
                Err(_) => ClientReply::Error(-32002),
            },
            ("fs/write_text_file", _) => {
                std::fs::write(path, params["content"].as_str().unwrap()).unwrap();
                ClientReply::Result(json!({}))
            }
            _ => ClientReply::Error(-32601),
        }
    });
    asked
}

fn open_with(fixture: &AcpFixture, can: Value) -> (AcpClient, String) {
    let mut acp = fixture.start_client_with(&[], can);
    let session = acp.open_session(fixture);
    (acp, session)
}

fn requested_paths(asked: &EditorRequestLog, method: &str) -> Vec<String> {
    let asked = asked.lock().unwrap();
    asked.iter().filter(|(of, _)| of == method).map(|(_, path)| path.clone()).collect()
}

fn read_step(name: &str) -> String {
    make_script(&[&call_step("Read", json!({"file_path": name})), "turn", "say Ok."])
}

#[test]
fn read_returns_unsaved_buffer() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, fs_capabilities());
    let asked = install_editor(&mut acp, Some("not saved yet\n"));
    let from = acp.log_position();
    acp.run_turn(&session, &read_step("hello.txt"), "end_turn");
    let path = fixture.project_path("hello.txt").display().to_string();
    assert_eq!(requested_paths(&asked, "fs/read_text_file"), [path]);
    let told = fixture.model.requests().pop().unwrap()["messages"].to_string();
    assert!(told.contains("not saved yet") && !told.contains("hello\\n"), "{told}");
    assert_eq!(only_call(&acp.updates(from, &session))["status"], "completed");
    let questions = acp.requests(from, "fs/read_text_file");
    assert_eq!(questions[0]["params"]["sessionId"], json!(session));
    acp.close();
}

#[test]
fn write_goes_through_editor() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, fs_capabilities());
    let asked = install_editor(&mut acp, None);
    let from = acp.log_position();
    let made = call_step("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    acp.run_turn(&session, &make_script(&[&made, "turn", "say Ok."]), "end_turn");
    let path = fixture.project_path("new.txt").display().to_string();
    assert_eq!(requested_paths(&asked, "fs/write_text_file"), [path]);
    assert_eq!(fixture.read_project_file("new.txt").as_deref(), Some("new\n"));
    // The person first, then the editor.
    let methods: Vec<&str> = acp
        .agent_messages()
        .filter(|message| message.get("id").is_some())
        .filter_map(|message| message["method"].as_str())
        .filter(|method| *method != "fs/read_text_file")
        .collect();
    assert_eq!(methods, ["session/request_permission", "fs/write_text_file"]);
    assert_eq!(only_call(&acp.updates(from, &session))["content"][0]["newText"], "new\n");
    acp.close();
}

#[test]
fn edit_changes_the_buffer() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, fs_capabilities());
    install_editor(&mut acp, Some("one two three\n"));
    let edit = json!({"file_path": "hello.txt", "old_string": "two", "new_string": "2"});
    let from = acp.log_position();
    let steps = [
        &*call_step("Read", json!({"file_path": "hello.txt"})),
        "turn",
        &call_step("Edit", edit),
        "turn",
        "say Ok.",
    ];
    acp.run_turn(&session, &make_script(&steps), "end_turn");
    let calls = calls(&acp.updates(from, &session));
    let diff = &calls[1]["content"][0];
    assert_eq!(
        (&diff["oldText"], &diff["newText"]),
        (&json!("one two three\n"), &json!("one 2 three\n")),
        "{calls:#?}"
    );
    assert_eq!(fixture.read_project_file("hello.txt").as_deref(), Some("one 2 three\n"));
    acp.close();
}

#[test]
fn file_unknown_to_editor_is_accessed_locally() {
    let fixture = AcpFixture::new();
    for code in [-32002, -32601, -32603, 7] {
        let (mut acp, session) = open_with(&fixture, fs_capabilities());
        acp.set_reply_policy(move |method, _| match method {
            "session/request_permission" => ClientReply::Result(selected_outcome("allow_once")),
            _ => ClientReply::Error(code),
        });
        let from = acp.log_position();
        let name = format!("made{code}.txt");
        let steps = [
            &*call_step("Read", json!({"file_path": "hello.txt"})),
            "turn",
            &call_step("Write", json!({"file_path": name, "content": "new\n"})),
        ];
        acp.run_turn(&session, &make_script(&steps), "end_turn");
        let calls = calls(&acp.updates(from, &session));
        assert!(call_text(&calls[0]).contains("hello"), "{calls:#?}");
        assert_eq!(fixture.read_project_file(&name).as_deref(), Some("new\n"), "{code}");
        acp.close();
    }
}

/// As clients say it that ask their own person about each write.
#[test]
fn refused_editor_write_is_not_bypassed() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, fs_capabilities());
    acp.set_reply_policy(|method, _| match method {
        "session/request_permission" => ClientReply::Result(selected_outcome("allow_once")),
        "fs/write_text_file" => {
            ClientReply::Failure(json!({"code": -32603, "message": "Internal error",
            "data": {"details": "Permission denied for fs/write_text_file"}}))
        }
        _ => ClientReply::Error(-32002),
    });
    let from = acp.log_position();
    let made = call_step("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    acp.run_turn(&session, &make_script(&[&made, "turn", "say Ok."]), "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["status"], "failed", "{call:#}");
    assert!(call_text(&call).contains("the editor refused to write `new.txt`"), "{call:#}");
    assert_eq!(fixture.read_project_file("new.txt"), None);
    acp.close();
}

/// One capability does not stand for the other.
#[test]
fn only_offered_editor_capabilities_are_used() {
    let fixture = AcpFixture::new();
    for (can, method) in [
        (json!({"fs": {"readTextFile": true}}), "fs/read_text_file"),
        (json!({"fs": {"writeTextFile": true}}), "fs/write_text_file"),
        (json!({}), "nothing"),
    ] {
        let (mut acp, session) = open_with(&fixture, can.clone());
        let asked = install_editor(&mut acp, None);
        let steps = [
            &*call_step("Read", json!({"file_path": "hello.txt"})),
            "turn",
            &call_step("Write", json!({"file_path": "hello.txt", "content": "again\n"})),
        ];
        acp.run_turn(&session, &make_script(&steps), "end_turn");
        let asked = asked.lock().unwrap().clone();
        assert!(asked.iter().all(|(of, _)| of == method), "{can}: {asked:?}");
        assert_eq!(asked.is_empty(), method == "nothing", "{can}: {asked:?}");
        acp.close();
    }
}

#[test]
fn denied_call_never_reaches_editor() {
    let fixture =
        AcpFixture::with_settings(json!({"permissions": {"deny": ["Read(.env)", "Write(.env)"]}}));
    fixture.write_project_file(".env", "KEY=1\n");
    // A key of a model is closed whatever the rules say, and so is what lies elsewhere.
    fixture.write_project_file("model.key", "model-key-0123456789abcdef");
    write_file(&fixture.zero, "outside.txt", "outside\n");
    let mut settings: Value =
        serde_json::from_str(&fixture.model.settings_json(json!({}))).unwrap();
    settings["permissions"] = json!({"deny": ["Read(.env)", "Write(.env)"]});
    settings["models"]["scripted"]["apiKey"] = json!({"file": fixture.project_path("model.key")});
    write_file(&fixture.zero, crate::config::USER_FILE, settings.to_string());
    let (mut acp, session) = open_with(&fixture, fs_capabilities());
    let asked = install_editor(&mut acp, Some("from the buffer\n"));
    let from = acp.log_position();
    let outside = fixture.zero.folder().join("outside.txt");
    for name in [Path::new(".env"), Path::new("model.key")] {
        acp.run_turn(&session, &read_step(name.to_str().unwrap()), "end_turn");
    }
    let made = call_step("Write", json!({"file_path": ".env", "content": "KEY=2\n"}));
    acp.run_turn(&session, &make_script(&[&made, "turn", "say Ok."]), "end_turn");
    check_all_ended(&acp.updates(from, &session), 3, "failed");
    assert_eq!(*asked.lock().unwrap(), Vec::new());
    // What a person allows elsewhere is read from the disk: it is not of the project.
    acp.run_turn(&session, &read_step(outside.to_str().unwrap()), "end_turn");
    assert_eq!(*asked.lock().unwrap(), Vec::new());
    assert_eq!(fixture.read_project_file(".env").as_deref(), Some("KEY=1\n"));
    acp.close();
}

/// A project that the editor has opened by a link: its buffers have that name.
#[test]
fn editor_is_asked_by_its_own_path_names() {
    let fixture = AcpFixture::new();
    let link = fixture.zero.folder().canonicalize().unwrap().join("link");
    std::os::unix::fs::symlink(&fixture.project, &link).unwrap();
    let fixture = AcpFixture { project: link.clone(), ..fixture };
    let (mut acp, session) = open_with(&fixture, fs_capabilities());
    let asked = install_editor(&mut acp, None);
    let steps = [
        &*call_step("Read", json!({"file_path": "hello.txt"})),
        "turn",
        &call_step("Write", json!({"file_path": "new.txt", "content": "new\n"})),
    ];
    acp.run_turn(&session, &make_script(&steps), "end_turn");
    let named = |name: &str| link.join(name).display().to_string();
    assert_eq!(requested_paths(&asked, "fs/read_text_file").first(), Some(&named("hello.txt")));
    assert_eq!(requested_paths(&asked, "fs/write_text_file"), [named("new.txt")]);
    assert_eq!(fixture.read_project_file("new.txt").as_deref(), Some("new\n"));
    acp.close();
}

#[test]
fn changed_link_does_not_redirect_editor() {
    let fixture = AcpFixture::new();
    write_file(&fixture.zero, "other/hello.txt", "of the other\n");
    let folder = fixture.zero.folder().canonicalize().unwrap();
    let link = folder.join("link");
    std::os::unix::fs::symlink(&fixture.project, &link).unwrap();
    let mut acp = fixture.start_client_with(&[], fs_capabilities());
    let made = acp.call_ok("session/new", json!({"cwd": link, "mcpServers": []}));
    let session = made["sessionId"].as_str().unwrap().to_owned();
    let asked = install_editor(&mut acp, None);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(folder.join("other"), &link).unwrap();
    let made = call_step("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    let from = acp.log_position();
    acp.run_turn(&session, &read_step("hello.txt"), "end_turn");
    acp.run_turn(&session, &make_script(&[&made]), "end_turn");
    assert_eq!(*asked.lock().unwrap(), Vec::new());
    let calls = calls(&acp.updates(from, &session));
    assert!(call_text(&calls[0]).contains("hello"), "{calls:#?}");
    assert_eq!(fixture.read_project_file("new.txt").as_deref(), Some("new\n"));
    assert!(!folder.join("other/new.txt").exists());
    acp.close();
}

#[test]
fn link_out_of_project_is_not_sent_to_editor() {
    let fixture = AcpFixture::new();
    write_file(&fixture.zero, "outside.txt", "outside\n");
    std::os::unix::fs::symlink(
        fixture.zero.folder().join("outside.txt"),
        fixture.project_path("link.txt"),
    )
    .unwrap();
    let (mut acp, session) = open_with(&fixture, fs_capabilities());
    let asked = install_editor(&mut acp, Some("from the buffer\n"));
    acp.run_turn(&session, &read_step("link.txt"), "end_turn");
    assert_eq!(*asked.lock().unwrap(), Vec::new());
    acp.close();
}

#[test]
fn reformatting_on_save_is_noticed() {
    let fixture = AcpFixture::new();
    let (mut acp, session) = open_with(&fixture, fs_capabilities());
    acp.set_reply_policy(|method, params| match method {
        "session/request_permission" => ClientReply::Result(selected_outcome("allow_once")),
        "fs/write_text_file" => {
            let text = params["content"].as_str().unwrap().replace('=', " = ");
            std::fs::write(params["path"].as_str().unwrap(), text).unwrap();
            ClientReply::Result(json!({}))
        }
        "fs/read_text_file" => match std::fs::read_to_string(params["path"].as_str().unwrap()) {
            Ok(content) => ClientReply::Result(json!({"content": content})),
            Err(_) => ClientReply::Error(-32002),
        },
        _ => ClientReply::Error(-32601),
    });
    let made = call_step("Write", json!({"file_path": "a.txt", "content": "a=1\n"}));
    let edit = call_step(
        "Edit",
        json!({"file_path": "a.txt", "old_string": "a = 1", "new_string": "b = 2"}),
    );
    let read = call_step("Read", json!({"file_path": "a.txt"}));
    let steps = [&*made, "turn", &read, "turn", &edit, "turn", "say Ok."];
    let from = acp.log_position();
    acp.run_turn(&session, &make_script(&steps), "end_turn");
    check_all_ended(&acp.updates(from, &session), 3, "completed");
    // The model is told at once that the file is not what it wrote.
    let told = fixture.model.requests();
    let after_write =
        told[1]["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
    assert!(after_write.contains("format") || after_write.contains("a = 1"), "{after_write}");
    assert_eq!(fixture.read_project_file("a.txt").as_deref(), Some("b  =  2\n"));
    acp.close();
}
