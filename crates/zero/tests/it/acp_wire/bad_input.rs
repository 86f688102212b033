//! Messages that ask for what cannot be.

use serde_json::json;

use super::{AcpFixture, said};
use crate::config::{USER, write};

#[test]
fn a_folder_that_cannot_be_worked_in_is_refused() {
    let desk = AcpFixture::direct();
    let mut acp = desk.acp();
    for (cwd, holds) in [
        (json!("project"), "absolute"),
        (json!("./project"), "absolute"),
        (json!(""), "absolute"),
        (json!("~/project"), "absolute"),
        (json!("/"), "root"),
        (json!(desk.file("nowhere")), "nowhere"),
        (json!(desk.file("hello.txt")), "hello.txt"),
    ] {
        let wanted = json!({"cwd": cwd, "mcpServers": []});
        let error = acp.error("session/new", wanted, -32602);
        assert!(error["message"].as_str().unwrap().contains(holds), "{cwd}: {error}");
    }
    acp.error("session/new", json!({"mcpServers": []}), -32602);
    assert_eq!(acp.ok("session/list", json!({}))["sessions"], json!([]), "nothing was made");
    acp.open(&desk);
    acp.leave();
}

#[test]
fn a_session_cannot_be_loaded_where_there_is_no_folder() {
    let desk = AcpFixture::direct();
    let mut acp = desk.acp();
    let session = acp.open(&desk);
    acp.turn(&session, "/read hello.txt", "end_turn");
    acp.ok("session/close", json!({"sessionId": session}));
    for method in ["session/load", "session/resume"] {
        for cwd in [json!("here"), json!("/"), json!(desk.file("nowhere"))] {
            let wanted = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
            acp.error(method, wanted, -32602);
        }
    }
    acp.ok("session/load", desk.wanted_with(json!({"sessionId": session})));
    acp.leave();
}

#[test]
fn an_unknown_session_is_not_found_whatever_is_asked_of_it() {
    let desk = AcpFixture::direct();
    let mut acp = desk.acp();
    for (method, params) in [
        ("session/prompt", said("nobody", "hi")),
        ("session/set_mode", json!({"sessionId": "nobody", "modeId": "ask"})),
        (
            "session/set_config_option",
            json!({"sessionId": "nobody", "configId": "mode", "value": "ask"}),
        ),
        ("session/close", json!({"sessionId": "nobody"})),
    ] {
        let error = acp.error(method, params, -32002);
        assert_eq!(error["data"]["sessionId"], "nobody", "{method}");
    }
    acp.leave();
}

#[test]
fn settings_that_are_broken_are_told_with_file_and_line() {
    for file in [USER, "project/.zero/settings.json"] {
        let desk = AcpFixture::direct();
        write(&desk.zero, file, "{\n  \"permissions\": {\n    \"mode\": nonsense\n  }\n}\n");
        let mut acp = desk.acp();
        let error = acp.call("session/new", desk.wanted()).expect_err(file);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("settings.json") && message.contains('3'), "{file}: {message}");
        // Once they are mended, it works without a new start.
        write(&desk.zero, file, "{}");
        acp.open_soon(&desk);
        acp.leave();
    }
}

#[test]
fn arguments_that_are_wrong_are_told_before_anything_is_served() {
    let desk = AcpFixture::direct();
    for (args, holds) in [(&["acp", "--nonsense"][..], "--nonsense"), (&["acp", "extra"], "extra")]
    {
        let seen = desk.zero.run(args);
        assert!(seen.starts_with("exit 2") && seen.contains(holds), "{args:?}: {seen}");
    }
    // What goes with a gateway is looked at when one is needed.
    for (args, holds) in [
        (&["--token", "0123456789abcdef0123"], "`--token` is for a gateway, and none is named"),
        (&["--url", "nonsense"], "write it like `wss://"),
    ] {
        let mut acp = desk.acp_with(args, json!({}));
        let error = acp.error("session/new", desk.wanted(), -32603);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(holds), "{message}");
        assert!(!message.contains("0123456789abcdef"), "{message}");
        acp.leave();
    }
}

#[test]
fn too_many_things_are_refused() {
    let desk = AcpFixture::direct();
    let mut acp = desk.acp();
    let server = json!({"name": "a", "command": "/bin/true", "args": [], "env": []});
    for wanted in [
        desk.wanted_with(json!({"mcpServers": vec![server; 1000]})),
        desk.wanted_with(json!({"additionalDirectories": vec![desk.project.clone(); 1000]})),
    ] {
        acp.error("session/new", wanted, -32602);
    }
    let relative = json!([{"name": "a", "command": "bin/server", "args": [], "env": []}]);
    acp.error("session/new", desk.wanted_with(json!({"mcpServers": relative})), -32602);
    acp.leave();
}
