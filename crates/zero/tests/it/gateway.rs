//! `zero gateway`, and commands that use it.

#![expect(clippy::disallowed_methods, reason = "tests stand outside zero and look at its files")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::config::{USER, write};
use crate::gateway_process::{GatewayProcess, signal};
use crate::model_server::ModelServer;
use crate::program::Program;

const TOKEN_FILE: &str = "home/.local/state/zero/gateway.token";

fn get(gateway: &GatewayProcess, path: &str) -> String {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    let host = gateway.address();
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_starts_answers_and_ends_when_asked() {
    let zero = Program::new();
    let mut gateway = GatewayProcess::start(&zero);
    assert_eq!(gateway.ready["ready"], true);
    let mode = std::fs::metadata(zero.folder().join(TOKEN_FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for (path, holds) in [("/healthz", "ok"), ("/readyz", "ready"), ("/metrics", "# TYPE zero_")] {
        let answer = get(&gateway, path);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(holds), "{path}: {answer}");
    }
    let port = gateway.address().rsplit_once(':').unwrap().1.to_owned();
    let seen = zero.run(&["gateway", "--port", &port]);
    assert!(seen.starts_with("exit 2") && seen.contains("take another port"), "{seen}");
    let wrong = "wrong-token-0123456789abcdef0123456789";
    write(&zero, "wrong", wrong);
    let args = ["sessions", "list", "--url", &gateway.url, "--token-file", "wrong"];
    let seen = zero.run(&args);
    assert!(seen.starts_with("exit 1") && seen.contains("not a token of this gateway"), "{seen}");
    assert!(!seen.contains(wrong), "{seen}");
    signal(&zero, "TERM", gateway.id());
    assert_eq!(gateway.ended().code(), Some(0));
}

#[test]
fn others_are_not_let_in_without_a_token_and_tls() {
    let zero = Program::new();
    let seen = zero.run(&["gateway", "--bind", "0.0.0.0", "--port", "0"]);
    assert!(seen.starts_with("exit 2") && seen.contains("--token-file"), "{seen}");
    write(&zero, "token", "token-0123456789abcdef0123456789abcdef");
    let seen = zero.run(&["gateway", "--bind", "0.0.0.0", "--port", "0", "--token-file", "token"]);
    assert!(seen.starts_with("exit 2") && seen.contains("TLS"), "{seen}");
    let schema: Value = serde_json::from_str(&zero.stdout(&["gateway", "schema"])).unwrap();
    assert!(schema.is_object());
}

#[test]
fn settings_name_the_gateway_and_hide_its_token() {
    let (there, here, model) = (Program::new(), Program::new(), ModelServer::start());
    write(&there, USER, model.settings(json!({})));
    let gateway = GatewayProcess::start(&there);
    let token = std::fs::read_to_string(there.folder().join(TOKEN_FILE)).unwrap();
    here.stdout(&["config", "set", "gateway.remote.url", &gateway.url]);
    here.stdout(&["config", "set", "gateway.remote.token", token.trim()]);
    let listed = here.stdout(&["config", "list"]);
    assert!(listed.contains(&gateway.url) && !listed.contains(token.trim()), "{listed}");
    assert_eq!(here.stdout(&["run", "--session", "far", "hi"]), "Hello from the model.\n");
    assert!(here.stdout(&["sessions", "list"]).contains("agent:main:far"));
    assert!(there.stdout(&["sessions", "list"]).contains("agent:main:far"));
}

#[test]
fn tools_run_where_the_client_is_and_by_its_rules() {
    let (there, here, model) = (Program::new(), Program::new(), ModelServer::start());
    let allow = json!({"permissions": {"allow": ["Write(made.txt)"]}});
    let deny = json!({"permissions": {"deny": ["Write(made.txt)"]}});
    write(&there, USER, model.settings(allow.clone()));
    let gateway = GatewayProcess::start(&there);
    let token = std::fs::read_to_string(there.folder().join(TOKEN_FILE)).unwrap();
    write(&here, "token", token);
    let args = ["run", "--yes", "--url", &gateway.url, "--token-file", "token", "[write]"];
    write(&here, USER, deny.to_string());
    let seen = here.run(&args);
    assert!(seen.starts_with("exit 3") && seen.contains("⊘ Write"), "{seen}");
    let made = |zero: &Program| zero.folder().join("made.txt").exists();
    assert!(!made(&here) && !made(&there));
    write(&here, USER, allow.to_string());
    write(&there, USER, model.settings(deny));
    let seen = here.run(&args);
    assert!(seen.starts_with("exit 0"), "{seen}");
    assert!(made(&here) && !made(&there), "the gateway never does it");
}
