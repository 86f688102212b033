//! No more files can be open: what needs one fails and says so, nothing ends, and when there is room
//! again all goes on.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::acp_client::AcpClient;
use super::{AcpFixture, call_text, only_call};

/// How often the threads of an idle agent are scheduled in a second, at most.
const IDLE_SWITCHES_MAX: u64 = 10;

/// Lets the agent have so many files open at a time.
fn set_open_files_limit(acp: &AcpClient, files: u32) {
    let set = Command::new("prlimit")
        .args(["--pid", &acp.process_id().to_string(), &format!("--nofile={files}:")])
        .status();
    assert!(set.expect("`prlimit` of util-linux is needed").success());
}

/// How often its threads were scheduled so far, and whether one of them works or wants to.
fn read_activity(acp: &AcpClient) -> (u64, bool) {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", acp.process_id())).unwrap();
    let (mut switches, mut is_busy) = (0, false);
    for task in tasks {
        // A thread may end meanwhile.
        let status = std::fs::read_to_string(task.unwrap().path().join("status"));
        for line in status.unwrap_or_default().lines() {
            match line.split_once(':') {
                Some(("State", state)) => is_busy |= state.trim().starts_with('R'),
                Some((name, count)) if name.ends_with("ctxt_switches") => {
                    switches += count.trim().parse::<u64>().unwrap();
                }
                _ => {}
            }
        }
    }
    (switches, is_busy)
}

/// Waits for a second in which it does next to nothing. Who tries again and again never has one,
/// however slow the machine is: it works, or is scheduled for each try.
fn wait_until_idle(acp: &AcpClient) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let (before, mut is_busy) = read_activity(acp);
        let mut after = before;
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(50));
            let (switches, is_working) = read_activity(acp);
            (after, is_busy) = (switches, is_busy || is_working);
        }
        let switches = after.saturating_sub(before);
        if !is_busy && switches < IDLE_SWITCHES_MAX {
            return;
        }
        assert!(Instant::now() < deadline, "it works without end: {switches} switches in a second");
    }
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
    wait_until_idle(&acp);
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
