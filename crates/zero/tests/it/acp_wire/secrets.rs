//! What is secret is in no answer and in no log.

use serde_json::{Value, json};

use super::acp_client::AcpClient;
use super::{AcpFixture, call, script};
use crate::config::{USER, write};

const SECRET: &str = "hunter2-0123456789abcdef-hunter2";

/// Leaves, and finds the secret nowhere.
#[track_caller]
fn leave(mut acp: AcpClient) {
    let said: String = acp.heard().map(ToString::to_string).collect();
    assert!(!said.contains("hunter2"), "{said}");
    let (_, stderr) = acp.hang_up_unchecked();
    assert!(!stderr.contains("hunter2"), "{stderr}");
    let said: String = acp.heard().map(ToString::to_string).collect();
    assert!(!said.contains("hunter2"), "{said}");
}

fn stdio(command: &str) -> Value {
    json!({"name": "a", "command": command, "args": ["--key", SECRET],
        "env": [{"name": "API_KEY", "value": SECRET}]})
}

fn http(url: &str) -> Value {
    let header = json!({"name": "Authorization", "value": format!("Bearer {SECRET}")});
    json!({"type": "http", "name": "b", "url": url, "headers": [header]})
}

#[test]
fn what_servers_are_given_is_never_shown() {
    let desk = AcpFixture::new();
    for servers in [
        json!([stdio("/nowhere/server")]),
        json!([stdio("/bin/false")]),
        json!([http("http://127.0.0.1:9/mcp")]),
        json!([http("no address")]),
        json!([stdio("/bin/false"), http("http://127.0.0.1:9/mcp")]),
        json!([{"type": "sse", "name": "c", "url": "http://127.0.0.1:9", "headers": [{"name": "K", "value": SECRET}]}]),
        // Wrong in shape, with the secret where it is quoted first.
        json!([{"name": "a", "command": "/a", "args": SECRET, "env": []}]),
        json!([{"name": "a", "command": "/a", "args": [], "env": {"API_KEY": SECRET}}]),
        json!([{"type": SECRET, "name": "a"}]),
        json!(SECRET),
    ] {
        let mut acp = desk.acp_with(&["--verbose"], json!({}));
        let wanted = desk.wanted_with(json!({"mcpServers": servers}));
        if let Ok(made) = acp.call("session/new", wanted) {
            let session = made["sessionId"].as_str().unwrap().to_owned();
            let steps = [&*call("a__echo", json!({"text": "x"})), "turn", "say Ok."];
            acp.turn(&session, &script(&steps), "end_turn");
        }
        leave(acp);
    }
}

#[test]
fn lines_that_are_wrong_are_not_quoted() {
    let desk = AcpFixture::direct();
    let mut acp = desk.acp_with(&["--verbose"], json!({}));
    acp.garbage(format!("{{\"token\": \"{SECRET}\"").as_bytes());
    acp.garbage(SECRET.as_bytes());
    acp.error("session/new", json!({"cwd": {"hunter2": 1}, "mcpServers": []}), -32602);
    acp.error("session/prompt", json!({"sessionId": [SECRET], "prompt": []}), -32602);
    leave(acp);
}

#[test]
fn keys_and_passwords_are_not_shown() {
    let desk = AcpFixture::direct();
    write(&desk.zero, "secret", SECRET);
    let closed = "ws://127.0.0.1:9";
    for args in [
        &["--token", SECRET][..],
        &["--token-file", "secret"],
        &["--password", SECRET],
        &["--password-file", "secret"],
    ] {
        let args = [&["--verbose", "--url", closed], args].concat();
        let mut acp = desk.acp_with(&args, json!({}));
        acp.error("session/new", desk.wanted(), -32603);
        leave(acp);
    }
    let url = format!("http://127.0.0.1:{}/v1", desk.model.port());
    let model =
        json!({"api": "chat", "model": "m", "baseUrl": url, "apiKey": {"file": "~/../secret"}});
    write(&desk.zero, USER, json!({"models": {"m": model}, "model": "m"}).to_string());
    let mut acp = desk.acp_with(&["--verbose"], json!({}));
    let session = acp.open(&desk);
    let refused = format!(r#"fail 401 {{"error": {{"message": "the key {SECRET} is wrong"}}}}"#);
    let _ = acp.prompt(&session, &script(&[&refused]));
    leave(acp);
}
