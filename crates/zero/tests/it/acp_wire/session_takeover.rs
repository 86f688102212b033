//! Two editors with one session at a gateway elsewhere: the later one has its tools.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::acp_client::{AcpClient, TIMEOUT};
use super::cuttable_proxy::CuttableProxy;
use super::{AcpFixture, call_step, chunk_text, make_script};
use crate::gateway_process::GatewayProcess;

/// Nobody is asked: the client of one editor does not listen while that of the other does.
fn make_fixture() -> AcpFixture {
    AcpFixture::with_settings(json!({"permissions": {"allow": ["Write"]}}))
}

fn touch_step(name: &str) -> String {
    make_script(&[
        &call_step("Write", json!({"file_path": name, "content": "x"})),
        "turn",
        "say Ok.",
    ])
}

/// A turn at a gateway that was away: a prompt is refused until it is back.
#[track_caller]
fn prompt_until_ok(acp: &mut AcpClient, session: &str, text: &str) {
    let by = Instant::now() + TIMEOUT;
    while let Err(error) = acp.prompt(session, text) {
        assert!(Instant::now() < by, "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What an editor was told of other hosts.
fn takeover_notices(acp: &AcpClient, session: &str) -> Vec<String> {
    let updates = acp.updates(0, session);
    let notices = updates.iter().filter(|update| update["sessionUpdate"] == "notice");
    let notices = notices.map(|update| update.to_string());
    let thoughts = chunk_text(&updates, "agent_thought_chunk");
    let thoughts = thoughts.lines().map(str::to_owned).collect::<Vec<_>>();
    notices.chain(thoughts).filter(|text| text.contains("has its tools now")).collect()
}

/// A session that is open in one editor, and then in another folder by another one.
struct SharedSession {
    one: AcpClient,
    other: AcpClient,
    session: String,
    elsewhere: PathBuf,
}

fn open_twice(fixture: &AcpFixture, url: &str, other_url: &str, can: Value) -> SharedSession {
    let elsewhere = fixture.zero.folder().canonicalize().unwrap().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut one = fixture.start_client_with(&["--url", url], can);
    let session = one.open_session(fixture);
    one.run_turn(&session, &touch_step("first.txt"), "end_turn");
    assert!(fixture.project_path("first.txt").exists());
    let mut other = fixture.start_client_with(&["--url", other_url], json!({}));
    let load = json!({"cwd": elsewhere, "mcpServers": [], "sessionId": session});
    other.call_ok("session/load", load);
    SharedSession { one, other, session, elsewhere }
}

#[test]
fn displaced_editor_reports_takeover_once_and_yields() {
    let fixture = make_fixture();
    let gateway = GatewayProcess::start(&fixture.zero);
    let wire = CuttableProxy::to_address(gateway.address());
    let SharedSession { mut one, mut other, session, elsewhere } =
        open_twice(&fixture, &wire.url, &gateway.url, json!({}));
    // What is no notice waits for a turn.
    one.run_turn(&session, &touch_step("second.txt"), "end_turn");
    assert_eq!(takeover_notices(&one, &session).len(), 1, "{:?}", takeover_notices(&one, &session));
    assert!(takeover_notices(&one, &session)[0].contains("zero acp (process "));
    // Whoever comes back does not fight for it.
    wire.cut();
    wire.restore();
    prompt_until_ok(&mut one, &session, &touch_step("third.txt"));
    for name in ["second.txt", "third.txt"] {
        assert!(elsewhere.join(name).exists() && !fixture.project_path(name).exists(), "{name}");
    }
    assert_eq!(takeover_notices(&one, &session).len(), 1);
    // Whoever opens it again has them again.
    one.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    one.run_turn(&session, &touch_step("fourth.txt"), "end_turn");
    assert!(fixture.project_path("fourth.txt").exists());
    other.run_turn(&session, "hi", "end_turn");
    assert_eq!(takeover_notices(&other, &session).len(), 1);
    one.close();
    other.close();
}

#[test]
fn editor_with_notices_is_notified_of_takeover() {
    let fixture = make_fixture();
    let gateway = GatewayProcess::start(&fixture.zero);
    let can = json!({"session": {"notices": {}}});
    let SharedSession { mut one, other, session, .. } =
        open_twice(&fixture, &gateway.url, &gateway.url, can);
    one.wait_for_update(0, "a notice", |update| {
        update["sessionUpdate"] == "notice" && update.to_string().contains("has its tools now")
    });
    one.run_turn(&session, "hi", "end_turn");
    assert_eq!(takeover_notices(&one, &session).len(), 1);
    one.close();
    other.close();
}

#[test]
fn disconnected_editor_learns_of_takeover_later() {
    let fixture = make_fixture();
    let gateway = GatewayProcess::start(&fixture.zero);
    let wire = CuttableProxy::to_address(gateway.address());
    let mut one = fixture.start_client_with(&["--url", &wire.url], json!({}));
    let session = one.open_session(&fixture);
    one.run_turn(&session, "hi", "end_turn");
    wire.cut();
    let mut other = fixture.start_client_with(&["--url", &gateway.url], json!({}));
    other.call_ok("session/load", fixture.session_params_with(json!({"sessionId": session})));
    wire.restore();
    prompt_until_ok(&mut one, &session, "hi");
    assert_eq!(takeover_notices(&one, &session).len(), 1);
    other.run_turn(&session, "hi", "end_turn");
    assert_eq!(takeover_notices(&other, &session).len(), 0, "it keeps them");
    one.close();
    other.close();
}
