//! What is secret is in no answer and in no log.

use serde_json::{Value, json};

use super::acp_client::AcpClient;
use super::{AcpFixture, call_step, make_script};
use crate::config::{USER_FILE, write_file};

const SECRET: &str = "hunter2-0123456789abcdef-hunter2";

/// Leaves, and finds the secret nowhere.
#[track_caller]
fn close_and_check_secrets(mut acp: AcpClient) {
    let messages: String = acp.agent_messages().map(ToString::to_string).collect();
    assert!(!messages.contains("hunter2"), "{messages}");
    let (_, stderr) = acp.disconnect_unchecked();
    assert!(!stderr.contains("hunter2"), "{stderr}");
    let messages: String = acp.agent_messages().map(ToString::to_string).collect();
    assert!(!messages.contains("hunter2"), "{messages}");
}

fn stdio_server(command: &str) -> Value {
    json!({"name": "a", "command": command, "args": ["--key", SECRET],
        "env": [{"name": "API_KEY", "value": SECRET}]})
}

fn http_server(url: &str) -> Value {
    let header = json!({"name": "Authorization", "value": format!("Bearer {SECRET}")});
    json!({"type": "http", "name": "b", "url": url, "headers": [header]})
}

#[test]
fn server_secrets_are_never_shown() {
    let fixture = AcpFixture::new();
    for servers in [
        json!([stdio_server("/nowhere/server")]),
        json!([stdio_server("/bin/false")]),
        json!([http_server("http://127.0.0.1:9/mcp")]),
        json!([http_server("no address")]),
        json!([stdio_server("/bin/false"), http_server("http://127.0.0.1:9/mcp")]),
        json!([{"type": "sse", "name": "c", "url": "http://127.0.0.1:9", "headers": [{"name": "K", "value": SECRET}]}]),
        // Wrong in shape, with the secret where it is quoted first.
        json!([{"name": "a", "command": "/a", "args": SECRET, "env": []}]),
        json!([{"name": "a", "command": "/a", "args": [], "env": {"API_KEY": SECRET}}]),
        json!([{"type": SECRET, "name": "a"}]),
        json!(SECRET),
    ] {
        let mut acp = fixture.start_client_with(&["--verbose"], json!({}));
        let wanted = fixture.session_params_with(json!({"mcpServers": servers}));
        if let Ok(made) = acp.call("session/new", wanted) {
            let session = made["sessionId"].as_str().unwrap().to_owned();
            let steps = [&*call_step("a__echo", json!({"text": "x"})), "turn", "say Ok."];
            acp.run_turn(&session, &make_script(&steps), "end_turn");
        }
        close_and_check_secrets(acp);
    }
}

#[test]
fn wrong_lines_are_not_quoted() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client_with(&["--verbose"], json!({}));
    acp.send_garbage(format!("{{\"token\": \"{SECRET}\"").as_bytes());
    acp.send_garbage(SECRET.as_bytes());
    acp.call_error("session/new", json!({"cwd": {"hunter2": 1}, "mcpServers": []}), -32602);
    acp.call_error("session/prompt", json!({"sessionId": [SECRET], "prompt": []}), -32602);
    close_and_check_secrets(acp);
}

#[test]
fn keys_and_passwords_are_not_shown() {
    let fixture = AcpFixture::without_model();
    write_file(&fixture.zero, "secret", SECRET);
    let closed = "ws://127.0.0.1:9";
    for args in [
        &["--token", SECRET][..],
        &["--token-file", "secret"],
        &["--password", SECRET],
        &["--password-file", "secret"],
    ] {
        let args = [&["--verbose", "--url", closed], args].concat();
        let mut acp = fixture.start_client_with(&args, json!({}));
        acp.call_error("session/new", fixture.session_params(), -32603);
        close_and_check_secrets(acp);
    }
    let url = format!("http://127.0.0.1:{}/v1", fixture.model.port());
    let model =
        json!({"api": "chat", "model": "m", "baseUrl": url, "apiKey": {"file": "~/../secret"}});
    write_file(&fixture.zero, USER_FILE, json!({"models": {"m": model}, "model": "m"}).to_string());
    let mut acp = fixture.start_client_with(&["--verbose"], json!({}));
    let session = acp.open_session(&fixture);
    let refused = format!(r#"fail 401 {{"error": {{"message": "the key {SECRET} is wrong"}}}}"#);
    let _ = acp.prompt(&session, &make_script(&[&refused]));
    close_and_check_secrets(acp);
}
