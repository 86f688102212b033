//! Two editors with one session at a gateway elsewhere: the later one has its tools.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::acp_client::{AcpClient, PATIENCE};
use super::cuttable_proxy::CuttableProxy;
use super::{AcpFixture, call, chunks, script};
use crate::gateway_process::GatewayProcess;

/// Nobody is asked: the client of one editor does not listen while that of the other does.
fn desk() -> AcpFixture {
    AcpFixture::with(json!({"permissions": {"allow": ["Write"]}}))
}

fn touch(name: &str) -> String {
    script(&[&call("Write", json!({"file_path": name, "content": "x"})), "turn", "say Ok."])
}

/// A turn at a gateway that was away: a prompt is refused until it is back.
#[track_caller]
fn soon(acp: &mut AcpClient, session: &str, text: &str) {
    let by = Instant::now() + PATIENCE;
    while let Err(error) = acp.prompt(session, text) {
        assert!(Instant::now() < by, "{error}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What an editor was told of other hosts.
fn told(acp: &AcpClient, session: &str) -> Vec<String> {
    let updates = acp.updates(0, session);
    let notices = updates.iter().filter(|update| update["sessionUpdate"] == "notice");
    let notices = notices.map(|update| update.to_string());
    let thoughts = chunks(&updates, "agent_thought_chunk");
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

fn two(desk: &AcpFixture, url: &str, other_url: &str, can: Value) -> SharedSession {
    let elsewhere = desk.zero.folder().canonicalize().unwrap().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let mut one = desk.acp_with(&["--url", url], can);
    let session = one.open(desk);
    one.turn(&session, &touch("first.txt"), "end_turn");
    assert!(desk.file("first.txt").exists());
    let mut other = desk.acp_with(&["--url", other_url], json!({}));
    let load = json!({"cwd": elsewhere, "mcpServers": [], "sessionId": session});
    other.ok("session/load", load);
    SharedSession { one, other, session, elsewhere }
}

#[test]
fn an_editor_that_was_displaced_says_so_once_and_gives_way() {
    let desk = desk();
    let gateway = GatewayProcess::start(&desk.zero);
    let wire = CuttableProxy::to(gateway.address());
    let SharedSession { mut one, mut other, session, elsewhere } =
        two(&desk, &wire.url, &gateway.url, json!({}));
    // What is no notice waits for a turn.
    one.turn(&session, &touch("second.txt"), "end_turn");
    assert_eq!(told(&one, &session).len(), 1, "{:?}", told(&one, &session));
    assert!(told(&one, &session)[0].contains("zero acp (process "));
    // Whoever comes back does not fight for it.
    wire.cut();
    wire.mend();
    soon(&mut one, &session, &touch("third.txt"));
    for name in ["second.txt", "third.txt"] {
        assert!(elsewhere.join(name).exists() && !desk.file(name).exists(), "{name}");
    }
    assert_eq!(told(&one, &session).len(), 1);
    // Whoever opens it again has them again.
    one.ok("session/load", desk.wanted_with(json!({"sessionId": session})));
    one.turn(&session, &touch("fourth.txt"), "end_turn");
    assert!(desk.file("fourth.txt").exists());
    other.turn(&session, "hi", "end_turn");
    assert_eq!(told(&other, &session).len(), 1);
    one.leave();
    other.leave();
}

#[test]
fn an_editor_that_takes_notices_is_told_at_once() {
    let desk = desk();
    let gateway = GatewayProcess::start(&desk.zero);
    let can = json!({"session": {"notices": {}}});
    let SharedSession { mut one, other, session, .. } = two(&desk, &gateway.url, &gateway.url, can);
    one.until_update(0, "a notice", |update| {
        update["sessionUpdate"] == "notice" && update.to_string().contains("has its tools now")
    });
    one.turn(&session, "hi", "end_turn");
    assert_eq!(told(&one, &session).len(), 1);
    one.leave();
    other.leave();
}

#[test]
fn an_editor_that_is_displaced_while_it_is_away_hears_of_it() {
    let desk = desk();
    let gateway = GatewayProcess::start(&desk.zero);
    let wire = CuttableProxy::to(gateway.address());
    let mut one = desk.acp_with(&["--url", &wire.url], json!({}));
    let session = one.open(&desk);
    one.turn(&session, "hi", "end_turn");
    wire.cut();
    let mut other = desk.acp_with(&["--url", &gateway.url], json!({}));
    other.ok("session/load", desk.wanted_with(json!({"sessionId": session})));
    wire.mend();
    soon(&mut one, &session, "hi");
    assert_eq!(told(&one, &session).len(), 1);
    other.turn(&session, "hi", "end_turn");
    assert_eq!(told(&other, &session).len(), 0, "it keeps them");
    one.leave();
    other.leave();
}
