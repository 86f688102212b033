//! Gateways elsewhere: there, wrong, slow or gone.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

use super::acp_client::{AcpClient, TIMEOUT};
use super::cuttable_proxy::CuttableProxy;
use super::{AcpFixture, call_step, make_script, only_call};
use crate::config::{USER_FILE, write_file};
use crate::gateway_process::{GatewayProcess, send_signal};

pub(super) fn read_token(fixture: &AcpFixture) -> String {
    let file = fixture.zero.folder().join("home/.local/state/zero/gateway.token");
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

#[test]
fn tools_run_locally_and_model_remotely() {
    let (there, here) = (AcpFixture::new(), AcpFixture::without_model());
    let gateway = GatewayProcess::start(&there.zero);
    write_file(&here.zero, "token", read_token(&there));
    let args = ["--url", &gateway.url, "--token-file", "token"];
    let mut acp = here.start_client_with(&args, json!({}));
    let session = acp.open_session(&here);
    let from = acp.log_position();
    let made = call_step("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    acp.run_turn(&session, &make_script(&["say I write.", &made, "turn", "say Ok."]), "end_turn");
    assert_eq!(acp.message_text(from, &session), "I write.Ok.");
    assert_eq!(only_call(&acp.updates(from, &session))["status"], "completed");
    assert_eq!(acp.requests(from, "session/request_permission").len(), 1);
    assert!(here.project_path("new.txt").exists() && !there.project_path("new.txt").exists());
    acp.close();
    let mut acp = here.start_client_with(&args, json!({}));
    acp.call_ok("session/load", here.session_params_with(json!({"sessionId": session})));
    assert_eq!(acp.message_text(0, &session), "I write.Ok.");
    assert_eq!(only_call(&acp.updates(0, &session))["content"][0]["type"], "diff");
    acp.close();
}

/// A token that may not use the folder at the gateway uses it beside the tools, which are here.
#[test]
fn folder_forbidden_at_gateway_works_with_local_tools() {
    let (there, here) = (AcpFixture::new(), AcpFixture::without_model());
    let secret = "token-0123456789abcdef0123456789abcdef";
    write_file(&here.zero, "token", secret);
    write_file(&there.zero, "home/editor.token", secret);
    let token = json!({"secret": {"file": there.zero.folder().join("home/editor.token")},
        "scopes": ["read", "write", "approvals", "questions"], "folders": [there.project]});
    let settings = there.model.settings_json(json!({"gateway": {"tokens": {"editor": token}}}));
    write_file(&there.zero, USER_FILE, settings);
    let gateway = GatewayProcess::start(&there.zero);
    let args = ["--url", &gateway.url, "--token-file", "token"];
    let mut acp = here.start_client_with(&args, json!({}));
    let session = acp.open_session(&here);
    let made = call_step("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    acp.run_turn(&session, &make_script(&[&made, "turn", "say Ok."]), "end_turn");
    assert!(here.project_path("new.txt").exists() && !there.project_path("new.txt").exists());
    let listed = acp.call_ok("session/list", json!({"cwd": here.project}));
    assert_eq!(listed["sessions"][0]["sessionId"], session, "{listed}");
    assert_eq!(listed["sessions"][0]["cwd"], json!(here.project), "{listed}");
    acp.close();
}

#[test]
fn settings_can_name_the_gateway() {
    let (there, here) = (AcpFixture::new(), AcpFixture::without_model());
    let gateway = GatewayProcess::start(&there.zero);
    let remote = json!({"url": gateway.url, "token": read_token(&there)});
    write_file(&here.zero, USER_FILE, json!({"gateway": {"remote": remote}}).to_string());
    let mut acp = here.start_client();
    let session = acp.open_session(&here);
    acp.run_turn(&session, "hi", "end_turn");
    assert!(there.zero.stdout(&["sessions", "list"]).contains(&session));
    acp.close();
}

/// Where nobody answers, and where somebody answers that is no gateway.
#[test]
fn missing_gateway_is_clear_error() {
    let fixture = AcpFixture::without_model();
    write_file(&fixture.zero, "token", "token-0123456789abcdef0123456789abcdef");
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let silent_url = format!("ws://{}", silent.local_addr().unwrap());
    let asked = [
        ("session/new", fixture.session_params()),
        ("session/list", json!({})),
        ("session/load", fixture.session_params_with(json!({"sessionId": "agent:main:a"}))),
    ];
    for (url, asked) in [
        (format!("ws://{closed}"), &asked[..]),
        (format!("ws://127.0.0.1:{}", fixture.model.port()), &asked),
        // That takes as long as a gateway may take.
        (silent_url, &asked[..1]),
    ] {
        let mut acp =
            fixture.start_client_with(&["--url", &url, "--token-file", "token"], json!({}));
        for (method, params) in asked.iter().cloned() {
            let error = acp.call_error(method, params, -32603);
            let kind = error["data"]["kind"].as_str().unwrap();
            assert!(kind.starts_with("gateway"), "{url}: {error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("; "), "what to do: {error}");
        }
        acp.close();
    }
    drop(silent);
}

#[test]
fn wrong_token_is_clear_error_and_never_shown() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let wrong = "wrong-token-0123456789abcdef0123456789";
    let args = ["--verbose", "--url", &gateway.url, "--token", wrong];
    let mut acp = fixture.start_client_with(&args, json!({}));
    let error = acp.call_error("session/new", fixture.session_params(), -32603);
    assert!(error["message"].as_str().unwrap().contains("token"), "{error}");
    assert_eq!(error["data"]["retryable"], false, "{error}");
    let messages = acp.agent_messages().map(ToString::to_string).collect::<String>();
    let stderr = acp.close();
    assert!(!messages.contains(wrong) && !stderr.contains(wrong), "{stderr}");
}

#[test]
fn gateway_started_later_is_found() {
    let fixture = AcpFixture::new();
    // Its token has to be there, and its port free.
    let mut gateway = GatewayProcess::start(&fixture.zero);
    let url = gateway.url.clone();
    gateway.kill();
    let mut acp = fixture.start_client_with(&["--url", &url], json!({}));
    acp.call_error("session/new", fixture.session_params(), -32603);
    let port = url.rsplit_once(':').unwrap().1;
    let _gateway = GatewayProcess::start_at(&fixture.zero, port);
    let session = acp.open_session_eventually(&fixture);
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn gateway_death_mid_turn_answers_every_prompt() {
    let fixture = AcpFixture::new();
    let mut gateway = GatewayProcess::start(&fixture.zero);
    let mut acp: AcpClient = fixture.start_client_with(&["--url", &gateway.url], json!({}));
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    gateway.kill();
    // Whoever does not want to wait for it stops the turn.
    acp.notify("session/cancel", json!({"sessionId": session}));
    match acp.wait(&turn) {
        Ok(end) => assert_eq!(end["stopReason"], "cancelled"),
        Err(error) => assert_eq!(error["code"], -32603, "{error}"),
    }
    acp.call_error("session/new", fixture.session_params(), -32603);
    acp.close();
}

#[test]
fn run_resumes_after_gateway_restart_or_reports_unknown_end() {
    let fixture = AcpFixture::new();
    let mut gateway = GatewayProcess::start(&fixture.zero);
    let url = gateway.url.clone();
    let mut acp: AcpClient = fixture.start_client_with(&["--url", &url], json!({}));
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    gateway.kill();
    let port = url.rsplit_once(':').unwrap().1;
    let _gateway = GatewayProcess::start_at(&fixture.zero, port);
    // The gateway that was killed took the run with it; the new one knows that.
    let error = acp.wait(&turn).expect_err("it was interrupted");
    assert_eq!(error["code"], -32603, "{error}");
    assert!(error["data"]["kind"].is_string(), "{error}");
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

/// Where a gateway listens that lets in only devices, and none that it does not know; and what it is
/// greeted with.
fn start_device_gateway() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let (tell, greeted) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let Ok(mut socket) = accept(stream) else { continue };
            let payload = json!({"nonce": "a5981a70-f2ef-4293-a34b-457e38e52eb2", "ts": 1});
            let hello = json!({"type": "event", "event": "connect.challenge", "payload": payload});
            if socket.send(Message::text(hello.to_string())).is_err() {
                continue;
            }
            let Ok(Message::Text(text)) = socket.read() else { continue };
            let request: Value = serde_json::from_str(&text).unwrap();
            let code = match &request["params"]["device"] {
                Value::Null => "DEVICE_IDENTITY_REQUIRED",
                _ => "PAIRING_REQUIRED",
            };
            let error = json!({"code": "NOT_PAIRED", "message": "no", "details": {"code": code}});
            let no = json!({"type": "res", "id": request["id"], "ok": false, "error": error});
            let _ = socket.send(Message::text(no.to_string()));
            let _ = socket.close(None);
            let _ = socket.flush();
            if tell.send(request["params"].clone()).is_err() {
                return;
            }
        }
    });
    (url, greeted)
}

#[test]
fn device_key_shown_to_gateway_is_stable() {
    let fixture = AcpFixture::without_model();
    write_file(&fixture.zero, "token", "token-0123456789abcdef0123456789abcdef");
    let (url, greeted) = start_device_gateway();
    let file = fixture.zero.folder().join("home/.local/state/zero/device.key");
    let mut shown = Vec::new();
    for _ in 0..2 {
        let mut acp =
            fixture.start_client_with(&["--url", &url, "--token-file", "token"], json!({}));
        let error = acp.call_error("session/new", fixture.session_params(), -32603);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("approve this device at the gateway"), "{error}");
        acp.close();
        let greeting = || greeted.recv_timeout(TIMEOUT).unwrap()["device"].clone();
        assert_eq!(greeting(), Value::Null, "nobody asked for it yet");
        shown.push(greeting()["id"].as_str().unwrap().to_owned());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!((shown[0].len(), &shown[0]), (64, &shown[1]));
}

#[test]
fn cancel_during_outage_is_sent_after_reconnect() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let wire = CuttableProxy::to_address(gateway.address());
    let mut acp = fixture.start_client_with(&["--url", &wire.url], json!({}));
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &make_script(&["say one two", "hang"]));
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    wire.cut();
    acp.notify("session/cancel", json!({"sessionId": session}));
    // Nobody is made to wait for it.
    acp.expect_end(&turn, "cancelled");
    wire.restore();
    fixture.model.wait_for_disconnect();
    acp.run_turn(&session, "hi", "end_turn");
    acp.close();
}

#[test]
fn unresponsive_gateway_gets_all_aborts_at_once() {
    let fixture = AcpFixture::new();
    let gateway = GatewayProcess::start(&fixture.zero);
    let mut acp = fixture.start_client_with(&["--url", &gateway.url], json!({}));
    let session = acp.open_session(&fixture);
    let from = acp.log_position();
    let mut turns = vec![acp.begin_prompt(&session, &make_script(&["say one two", "hang"]))];
    acp.wait_for_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    turns.extend((0..15).map(|_| acp.begin_prompt(&session, "hi")));
    // They are all there before it stops to listen.
    acp.call_ok("session/list", json!({}));
    send_signal(&fixture.zero, "STOP", gateway.id());
    let begun = Instant::now();
    acp.call_ok("session/close", json!({"sessionId": session}));
    for turn in &turns {
        acp.expect_end(turn, "cancelled");
    }
    // One after another would take 32 seconds.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    send_signal(&fixture.zero, "CONT", gateway.id());
    fixture.model.wait_for_disconnect();
    acp.close();
}
