//! Messages that ask for what cannot be.

use serde_json::json;

use super::{AcpFixture, prompt_params};
use crate::config::{USER_FILE, write_file};

#[test]
fn unusable_folder_is_refused() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for (cwd, holds) in [
        (json!("project"), "absolute"),
        (json!("./project"), "absolute"),
        (json!(""), "absolute"),
        (json!("~/project"), "absolute"),
        (json!("/"), "root"),
        (json!(fixture.project_path("nowhere")), "nowhere"),
        (json!(fixture.project_path("hello.txt")), "hello.txt"),
    ] {
        let wanted = json!({"cwd": cwd, "mcpServers": []});
        let error = acp.call_error("session/new", wanted, -32602);
        assert!(error["message"].as_str().unwrap().contains(holds), "{cwd}: {error}");
    }
    acp.call_error("session/new", json!({"mcpServers": []}), -32602);
    assert_eq!(acp.call_ok("session/list", json!({}))["sessions"], json!([]), "nothing was made");
    acp.open_session(&fixture);
    acp.close();
}

#[test]
fn session_load_without_folder_is_refused() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    acp.call_ok("session/close", json!({"sessionId": session}));
    for method in ["session/load", "session/resume"] {
        for cwd in [json!("here"), json!("/"), json!(fixture.project_path("nowhere"))] {
            let wanted = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
            acp.call_error(method, wanted, -32602);
        }
    }
    acp.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    acp.close();
}

#[test]
fn unknown_session_is_not_found_for_any_method() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    for (method, params) in [
        ("session/prompt", prompt_params("nobody", "hi")),
        ("session/set_mode", json!({"sessionId": "nobody", "modeId": "ask"})),
        (
            "session/set_config_option",
            json!({"sessionId": "nobody", "configId": "mode", "value": "ask"}),
        ),
        ("session/close", json!({"sessionId": "nobody"})),
    ] {
        let error = acp.call_error(method, params, -32002);
        assert_eq!(error["data"]["sessionId"], "nobody", "{method}");
    }
    acp.close();
}

#[test]
fn broken_settings_are_reported_with_file_and_line() {
    for file in [USER_FILE, "project/.zero/settings.json"] {
        let fixture = AcpFixture::without_model();
        write_file(
            &fixture.zero,
            file,
            "{\n  \"permissions\": {\n    \"mode\": nonsense\n  }\n}\n",
        );
        let mut acp = fixture.start_client();
        let error = acp.call("session/new", fixture.session_params()).expect_err(file);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("settings.json") && message.contains('3'), "{file}: {message}");
        // Once they are mended, it works without a new start.
        write_file(&fixture.zero, file, "{}");
        acp.open_session_eventually(&fixture);
        acp.close();
    }
}

#[test]
fn wrong_arguments_are_reported_before_serving() {
    let fixture = AcpFixture::without_model();
    for (args, holds) in [(&["acp", "--nonsense"][..], "--nonsense"), (&["acp", "extra"], "extra")]
    {
        let seen = fixture.zero.run(args);
        assert!(seen.starts_with("exit 2") && seen.contains(holds), "{args:?}: {seen}");
    }
    // What goes with a gateway is looked at when one is needed.
    for (args, holds) in [
        (&["--token", "0123456789abcdef0123"], "`--token` needs a remote gateway"),
        (&["--url", "nonsense"], "write it like `wss://"),
    ] {
        let mut acp = fixture.start_client_with(args, json!({}));
        let error = acp.call_error("session/new", fixture.session_params(), -32603);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(holds), "{message}");
        assert!(!message.contains("0123456789abcdef"), "{message}");
        acp.close();
    }
}

#[test]
fn excessive_counts_are_refused() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let server = json!({"name": "a", "command": "/bin/true", "args": [], "env": []});
    for wanted in [
        fixture.session_params_with(json!({"mcpServers": vec![server; 1000]})),
        fixture.session_params_with(
            json!({"additionalDirectories": vec![fixture.project.clone(); 1000]}),
        ),
    ] {
        acp.call_error("session/new", wanted, -32602);
    }
    let relative = json!([{"name": "a", "command": "bin/server", "args": [], "env": []}]);
    acp.call_error(
        "session/new",
        fixture.session_params_with(json!({"mcpServers": relative})),
        -32602,
    );
    acp.close();
}
