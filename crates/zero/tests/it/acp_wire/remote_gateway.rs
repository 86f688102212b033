//! Gateways elsewhere: there, wrong, slow or gone.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

use super::acp_client::{AcpClient, PATIENCE};
use super::cuttable_proxy::CuttableProxy;
use super::{AcpFixture, call, only_call, script};
use crate::config::{USER, write};
use crate::gateway_process::{GatewayProcess, signal};

pub(super) fn token(desk: &AcpFixture) -> String {
    let file = desk.zero.folder().join("home/.local/state/zero/gateway.token");
    std::fs::read_to_string(file).unwrap().trim().to_owned()
}

#[test]
fn tools_run_here_and_the_rest_there() {
    let (there, here) = (AcpFixture::new(), AcpFixture::direct());
    let gateway = GatewayProcess::start(&there.zero);
    write(&here.zero, "token", token(&there));
    let args = ["--url", &gateway.url, "--token-file", "token"];
    let mut acp = here.acp_with(&args, json!({}));
    let session = acp.open(&here);
    let from = acp.mark();
    let made = call("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    acp.turn(&session, &script(&["say I write.", &made, "turn", "say Ok."]), "end_turn");
    assert_eq!(acp.words(from, &session), "I write.Ok.");
    assert_eq!(only_call(&acp.updates(from, &session))["status"], "completed");
    assert_eq!(acp.asked(from, "session/request_permission").len(), 1);
    assert!(here.file("new.txt").exists() && !there.file("new.txt").exists());
    acp.leave();
    let mut acp = here.acp_with(&args, json!({}));
    acp.ok("session/load", here.wanted_with(json!({"sessionId": session})));
    assert_eq!(acp.words(0, &session), "I write.Ok.");
    assert_eq!(only_call(&acp.updates(0, &session))["content"][0]["type"], "diff");
    acp.leave();
}

/// A token that may not use the folder at the gateway uses it beside the tools, which are here.
#[test]
fn a_folder_out_of_reach_there_is_worked_in_here() {
    let (there, here) = (AcpFixture::new(), AcpFixture::direct());
    let secret = "token-0123456789abcdef0123456789abcdef";
    write(&here.zero, "token", secret);
    write(&there.zero, "home/editor.token", secret);
    let token = json!({"secret": {"file": there.zero.folder().join("home/editor.token")},
        "scopes": ["read", "write", "approvals", "questions"], "folders": [there.project]});
    let settings = there.model.settings(json!({"gateway": {"tokens": {"editor": token}}}));
    write(&there.zero, USER, settings);
    let gateway = GatewayProcess::start(&there.zero);
    let args = ["--url", &gateway.url, "--token-file", "token"];
    let mut acp = here.acp_with(&args, json!({}));
    let session = acp.open(&here);
    let made = call("Write", json!({"file_path": "new.txt", "content": "new\n"}));
    acp.turn(&session, &script(&[&made, "turn", "say Ok."]), "end_turn");
    assert!(here.file("new.txt").exists() && !there.file("new.txt").exists());
    let listed = acp.ok("session/list", json!({"cwd": here.project}));
    assert_eq!(listed["sessions"][0]["sessionId"], session, "{listed}");
    assert_eq!(listed["sessions"][0]["cwd"], json!(here.project), "{listed}");
    acp.leave();
}

#[test]
fn settings_name_the_gateway_too() {
    let (there, here) = (AcpFixture::new(), AcpFixture::direct());
    let gateway = GatewayProcess::start(&there.zero);
    let remote = json!({"url": gateway.url, "token": token(&there)});
    write(&here.zero, USER, json!({"gateway": {"remote": remote}}).to_string());
    let mut acp = here.acp();
    let session = acp.open(&here);
    acp.turn(&session, "hi", "end_turn");
    assert!(there.zero.stdout(&["sessions", "list"]).contains(&session));
    acp.leave();
}

/// Where nobody answers, and where somebody answers that is no gateway.
#[test]
fn a_gateway_that_is_not_there_is_a_clear_error() {
    let desk = AcpFixture::direct();
    write(&desk.zero, "token", "token-0123456789abcdef0123456789abcdef");
    let closed = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let silent_url = format!("ws://{}", silent.local_addr().unwrap());
    let asked = [
        ("session/new", desk.wanted()),
        ("session/list", json!({})),
        ("session/load", desk.wanted_with(json!({"sessionId": "agent:main:a"}))),
    ];
    for (url, asked) in [
        (format!("ws://{closed}"), &asked[..]),
        (format!("ws://127.0.0.1:{}", desk.model.port()), &asked),
        // That takes as long as a gateway may take.
        (silent_url, &asked[..1]),
    ] {
        let mut acp = desk.acp_with(&["--url", &url, "--token-file", "token"], json!({}));
        for (method, params) in asked.iter().cloned() {
            let error = acp.error(method, params, -32603);
            let kind = error["data"]["kind"].as_str().unwrap();
            assert!(kind.starts_with("gateway"), "{url}: {error}");
            let message = error["message"].as_str().unwrap();
            assert!(message.contains("; "), "what to do: {error}");
        }
        acp.leave();
    }
    drop(silent);
}

#[test]
fn a_wrong_token_is_a_clear_error_and_never_shown() {
    let desk = AcpFixture::new();
    let gateway = GatewayProcess::start(&desk.zero);
    let wrong = "wrong-token-0123456789abcdef0123456789";
    let args = ["--verbose", "--url", &gateway.url, "--token", wrong];
    let mut acp = desk.acp_with(&args, json!({}));
    let error = acp.error("session/new", desk.wanted(), -32603);
    assert!(error["message"].as_str().unwrap().contains("token"), "{error}");
    assert_eq!(error["data"]["retryable"], false, "{error}");
    let said = acp.heard().map(ToString::to_string).collect::<String>();
    let stderr = acp.leave();
    assert!(!said.contains(wrong) && !stderr.contains(wrong), "{stderr}");
}

#[test]
fn a_gateway_that_comes_later_is_found() {
    let desk = AcpFixture::new();
    // Its token has to be there, and its port free.
    let mut gateway = GatewayProcess::start(&desk.zero);
    let url = gateway.url.clone();
    gateway.kill();
    let mut acp = desk.acp_with(&["--url", &url], json!({}));
    acp.error("session/new", desk.wanted(), -32603);
    let port = url.rsplit_once(':').unwrap().1;
    let _gateway = GatewayProcess::start_at(&desk.zero, port);
    let session = acp.open_soon(&desk);
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn a_gateway_that_dies_in_mid_turn_leaves_no_prompt_unanswered() {
    let desk = AcpFixture::new();
    let mut gateway = GatewayProcess::start(&desk.zero);
    let mut acp: AcpClient = desk.acp_with(&["--url", &gateway.url], json!({}));
    let session = acp.open(&desk);
    let from = acp.mark();
    let turn = acp.begin(&session, &script(&["say one two", "hang"]));
    acp.until_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    gateway.kill();
    // Whoever does not want to wait for it stops the turn.
    acp.notify("session/cancel", json!({"sessionId": session}));
    match acp.wait(&turn) {
        Ok(end) => assert_eq!(end["stopReason"], "cancelled"),
        Err(error) => assert_eq!(error["code"], -32603, "{error}"),
    }
    acp.error("session/new", desk.wanted(), -32603);
    acp.leave();
}

#[test]
fn a_run_goes_on_when_its_gateway_is_back_or_says_that_nobody_knows() {
    let desk = AcpFixture::new();
    let mut gateway = GatewayProcess::start(&desk.zero);
    let url = gateway.url.clone();
    let mut acp: AcpClient = desk.acp_with(&["--url", &url], json!({}));
    let session = acp.open(&desk);
    let from = acp.mark();
    let turn = acp.begin(&session, &script(&["say one two", "hang"]));
    acp.until_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    gateway.kill();
    let port = url.rsplit_once(':').unwrap().1;
    let _gateway = GatewayProcess::start_at(&desk.zero, port);
    // The gateway that was killed took the run with it; the new one knows that.
    let error = acp.wait(&turn).expect_err("it was interrupted");
    assert_eq!(error["code"], -32603, "{error}");
    assert!(error["data"]["kind"].is_string(), "{error}");
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

/// Where a gateway listens that lets in only devices, and none that it does not know; and what it is
/// greeted with.
fn for_known_devices() -> (String, Receiver<Value>) {
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
fn a_gateway_that_wants_to_know_the_device_is_shown_the_same_one_each_time() {
    let desk = AcpFixture::direct();
    write(&desk.zero, "token", "token-0123456789abcdef0123456789abcdef");
    let (url, greeted) = for_known_devices();
    let file = desk.zero.folder().join("home/.local/state/zero/device.key");
    let mut shown = Vec::new();
    for _ in 0..2 {
        let mut acp = desk.acp_with(&["--url", &url, "--token-file", "token"], json!({}));
        let error = acp.error("session/new", desk.wanted(), -32603);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("approve this device at the gateway"), "{error}");
        acp.leave();
        let greeting = || greeted.recv_timeout(PATIENCE).unwrap()["device"].clone();
        assert_eq!(greeting(), Value::Null, "nobody asked for it yet");
        shown.push(greeting()["id"].as_str().unwrap().to_owned());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!((shown[0].len(), &shown[0]), (64, &shown[1]));
}

#[test]
fn a_run_that_is_stopped_while_its_gateway_is_away_is_stopped_when_it_is_back() {
    let desk = AcpFixture::new();
    let gateway = GatewayProcess::start(&desk.zero);
    let wire = CuttableProxy::to(gateway.address());
    let mut acp = desk.acp_with(&["--url", &wire.url], json!({}));
    let session = acp.open(&desk);
    let from = acp.mark();
    let turn = acp.begin(&session, &script(&["say one two", "hang"]));
    acp.until_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    wire.cut();
    acp.notify("session/cancel", json!({"sessionId": session}));
    // Nobody is made to wait for it.
    acp.ends(&turn, "cancelled");
    wire.mend();
    desk.model.until_hung_up();
    acp.turn(&session, "hi", "end_turn");
    acp.leave();
}

#[test]
fn a_gateway_that_does_not_answer_is_told_of_all_runs_at_once() {
    let desk = AcpFixture::new();
    let gateway = GatewayProcess::start(&desk.zero);
    let mut acp = desk.acp_with(&["--url", &gateway.url], json!({}));
    let session = acp.open(&desk);
    let from = acp.mark();
    let mut turns = vec![acp.begin(&session, &script(&["say one two", "hang"]))];
    acp.until_update(from, "words", |update| update["sessionUpdate"] == "agent_message_chunk");
    turns.extend((0..15).map(|_| acp.begin(&session, "hi")));
    // They are all there before it stops to listen.
    acp.ok("session/list", json!({}));
    signal(&desk.zero, "STOP", gateway.id());
    let begun = Instant::now();
    acp.ok("session/close", json!({"sessionId": session}));
    for turn in &turns {
        acp.ends(turn, "cancelled");
    }
    // One after another would take 32 seconds.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    signal(&desk.zero, "CONT", gateway.id());
    desk.model.until_hung_up();
    acp.leave();
}
