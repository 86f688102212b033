//! No more files can be open: what needs one fails and says so, nothing ends, and when there is room
//! again all goes on.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use super::acp_client::AcpClient;
use super::{AcpFixture, call_text, only_call};

/// Lets the agent have so many files open at a time.
fn set_open_files_limit(acp: &AcpClient, files: u32) {
    let set = Command::new("prlimit")
        .args(["--pid", &acp.process_id().to_string(), &format!("--nofile={files}:")])
        .status();
    assert!(set.expect("`prlimit` of util-linux is needed").success());
}

/// How long it has worked so far, in hundredths of a second.
fn cpu_ticks(acp: &AcpClient) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", acp.process_id())).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    [11, 12].iter().map(|field| fields[*field].parse::<u64>().unwrap()).sum()
}

#[test]
fn fd_exhaustion_is_reported_and_recovered() {
    let fixture = AcpFixture::without_model();
    let mut acp = fixture.start_client();
    let session = acp.open_session(&fixture);
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    set_open_files_limit(&acp, 1);
    for _ in 0..3 {
        let error = acp.call("session/new", fixture.session_params()).unwrap_err();
        assert!(error["message"].to_string().contains("open files"), "{error}");
    }
    let from = acp.log_position();
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["status"], "failed", "{call:#}");
    assert!(call_text(&call).contains("open files"), "{call:#}");
    // It waits for what comes; it does not try and try.
    let before = cpu_ticks(&acp);
    std::thread::sleep(Duration::from_secs(1));
    assert!(cpu_ticks(&acp) - before < 50, "it works though there is nothing to do");
    set_open_files_limit(&acp, 1024);
    let from = acp.log_position();
    acp.run_turn(&session, "/read hello.txt", "end_turn");
    assert_eq!(only_call(&acp.updates(from, &session))["status"], "completed");
    let another = acp.call_ok("session/new", fixture.session_params());
    let another = another["sessionId"].as_str().unwrap().to_owned();
    acp.run_turn(&another, "/bash echo again", "end_turn");
    acp.call_ok("session/close", json!({"sessionId": another}));
    acp.close();
}
