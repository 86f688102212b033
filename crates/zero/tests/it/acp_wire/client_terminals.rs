//! Commands in a terminal of the client: only if the settings say so, and never without a question.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::{Value, json};

use super::acp_client::{AcpClient, ClientReply, selected_outcome};
use super::{AcpFixture, call_step, make_script, only_call};

/// What the agent asked of terminals, in order.
type TerminalLog = Rc<RefCell<Vec<(String, Value)>>>;

fn can() -> Value {
    json!({"terminal": true})
}

fn settings(terminal: &str) -> Value {
    // Nothing of this allows a command in the editor.
    json!({"acp": {"terminal": terminal}, "limits": {"command-timeout": "5s"},
        "permissions": {"mode": "auto", "allow": ["acp__terminal", "acp__*", "Bash"],
            "deny": ["Bash(curl *)"]}})
}

/// A client that says yes and whose commands end in this way; `None` for one that never ends.
fn start(fixture: &AcpFixture, exit: Option<Value>) -> (AcpClient, String, TerminalLog) {
    let mut acp = fixture.start_client_with(&[], can());
    let log = TerminalLog::default();
    let noted = Rc::clone(&log);
    acp.set_reply_policy(move |method, params| {
        if method.starts_with("terminal/") {
            noted.borrow_mut().push((method.to_owned(), params.clone()));
        }
        match (method, &exit) {
            ("session/request_permission", _) => {
                ClientReply::Result(selected_outcome("allow_once"))
            }
            ("terminal/create", _) => ClientReply::Result(json!({"terminalId": "t1"})),
            ("terminal/wait_for_exit", Some(exit)) => ClientReply::Result(exit.clone()),
            ("terminal/wait_for_exit", None) => ClientReply::Defer,
            ("terminal/output", _) => {
                ClientReply::Result(json!({"output": "printed\n", "truncated": false}))
            }
            ("terminal/kill" | "terminal/release", _) => ClientReply::Result(json!({})),
            _ => ClientReply::Error(-32601),
        }
    });
    let session = acp.open_session(fixture);
    (acp, session, log)
}

fn run_script(command: &str) -> String {
    make_script(&[&call_step("acp__terminal", json!({"command": command})), "turn", "say Ok."])
}

fn methods(log: &TerminalLog) -> Vec<String> {
    log.borrow().iter().map(|(method, _)| method.clone()).collect()
}

#[test]
fn command_in_editor_terminal_is_asked_about_and_run() {
    let fixture = AcpFixture::with_settings(settings("ask"));
    let (mut acp, session, log) = start(&fixture, Some(json!({"exitCode": 0})));
    let from = acp.log_position();
    acp.run_turn(&session, &run_script("make && ls"), "end_turn");
    let asked = acp.requests(from, "session/request_permission");
    assert_eq!(asked.len(), 1, "no rule, mode or grant answers it");
    let question = asked[0].to_string();
    assert!(
        question.contains("outside the sandbox") && question.contains("make && ls"),
        "{question}"
    );
    let options = asked[0]["params"]["options"].as_array().unwrap();
    assert!(options.iter().all(|option| option["kind"] != "allow_always"), "{question}");
    let created = log.borrow()[0].1.clone();
    assert_eq!(created["command"], "/bin/sh");
    assert_eq!(created["args"], json!(["-c", "make && ls"]));
    assert_eq!(created["cwd"], json!(fixture.project));
    assert!(created["outputByteLimit"].is_u64(), "{created}");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["status"], "completed", "{call}");
    assert_eq!(call["content"], json!([{"type": "terminal", "terminalId": "t1"}]), "{call}");
    assert!(call["rawOutput"].to_string().contains("printed"), "{call}");
    acp.wait_for_request(from, "terminal/release");
    let expected =
        ["terminal/create", "terminal/wait_for_exit", "terminal/output", "terminal/release"];
    assert_eq!(methods(&log), expected);
    acp.close();
}

#[test]
fn failed_command_in_editor_terminal_reports_its_end() {
    let fixture = AcpFixture::with_settings(settings("ask"));
    for (exit, expected) in [
        (json!({"exitCode": 3}), "ended with exit code 3"),
        (json!({"exitCode": null, "signal": "SIGKILL"}), "was killed by SIGKILL"),
    ] {
        let (mut acp, session, _log) = start(&fixture, Some(exit));
        let from = acp.log_position();
        acp.run_turn(&session, &run_script("false"), "end_turn");
        let call = only_call(&acp.updates(from, &session));
        assert_eq!(call["status"], "failed", "{call}");
        assert!(
            call.to_string().contains(expected) && call.to_string().contains("printed"),
            "{call}"
        );
        acp.wait_for_request(from, "terminal/release");
        acp.close();
    }
}

#[test]
fn command_that_does_not_end_is_killed_and_released() {
    let fixture = AcpFixture::with_settings(settings("ask"));
    let (mut acp, session, _log) = start(&fixture, None);
    let from = acp.log_position();
    acp.run_turn(&session, &run_script("sleep 1000"), "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["status"], "failed", "{call}");
    assert!(call.to_string().contains("did not end within 5 s"), "{call}");
    acp.wait_for_request(from, "terminal/kill");
    acp.wait_for_request(from, "terminal/release");
    // A turn that is cancelled takes its command along.
    let from = acp.log_position();
    let turn = acp.begin_prompt(&session, &run_script("sleep 1000"));
    acp.wait_for_request(from, "terminal/wait_for_exit");
    acp.notify("session/cancel", json!({"sessionId": session}));
    acp.expect_end(&turn, "cancelled");
    acp.wait_for_request(from, "terminal/kill");
    acp.wait_for_request(from, "terminal/release");
    acp.close();
}

#[test]
fn deny_rules_for_commands_apply_in_editor_terminal() {
    let fixture = AcpFixture::with_settings(settings("ask"));
    let (mut acp, session, log) = start(&fixture, Some(json!({"exitCode": 0})));
    let from = acp.log_position();
    acp.run_turn(&session, &run_script("curl example.org"), "end_turn");
    let call = only_call(&acp.updates(from, &session));
    assert_eq!(call["rawOutput"]["metadata"]["status"], "denied", "{call}");
    assert_eq!(methods(&log), Vec::<String>::new());
    acp.close();
}

#[test]
fn editor_terminal_is_not_used_unless_settings_say_so() {
    for (settings, can) in
        [(settings("never"), can()), (json!({}), can()), (settings("ask"), json!({}))]
    {
        let fixture = AcpFixture::with_settings(settings);
        let mut acp = fixture.start_client_with(&[], can);
        let session = acp.open_session(&fixture);
        acp.run_turn(&session, &run_script("ls"), "end_turn");
        let tools = fixture.model.requests()[0]["tools"].to_string();
        assert!(!tools.contains("acp__terminal"), "{tools}");
        assert!(acp.requests(0, "terminal/create").is_empty());
        acp.close();
    }
}
