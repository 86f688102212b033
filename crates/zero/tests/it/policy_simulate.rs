//! Recorded calls, judged again.

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::test_program::TestProgram;

/// A program that made calls of several kinds.
fn program_with_calls() -> TestProgram {
    let zero = TestProgram::new();
    write_file(&zero, "a.txt", "hello\n");
    write_file(&zero, ".conf", "SECRET=1\n");
    let call = |tool: &str, input: Value, more: &[&str]| {
        let input = input.to_string();
        zero.run(&[&["tools", "call", tool, &input], more].concat());
    };
    call("Read", json!({"file_path": "a.txt"}), &[]);
    call("Read", json!({"file_path": ".conf"}), &[]);
    call("Write", json!({"file_path": "a.txt", "content": "x"}), &["--yes"]);
    call("Write", json!({"file_path": "a.txt", "content": "y"}), &[]);
    call("Write", json!({"file_path": "b.txt", "content": "y"}), &[]);
    call("Write", json!({"path": "b.txt"}), &[]);
    call("NoSuchTool", json!({}), &[]);
    call("Read", json!({"file_path": "x".repeat(2_000)}), &[]);
    zero.stdout(&["undo"]);
    zero
}

fn run_simulate(zero: &TestProgram, args: &[&str]) -> Value {
    let output = zero.stdout(&[&["policy", "simulate", "--json"], args].concat());
    serde_json::from_str(&output).unwrap()
}

#[test]
fn simulate_reports_changes_and_suggested_rules() {
    let zero = program_with_calls();
    let same = run_simulate(&zero, &[]);
    assert_eq!(same["then"], same["now"], "{same}");
    assert_eq!(same["then"], json!({"allow": 2, "ask": 3, "deny": 0}), "{same}");
    assert_eq!(same["changes"], json!([]));
    assert_eq!(same["never_judged"], 2, "{same}");
    assert_eq!(
        same["suggested_rules"],
        json!([
            {"rules": ["Edit(/a.txt)"], "questions_saved": 2},
            {"rules": ["Edit(/b.txt)"], "questions_saved": 1},
        ])
    );
    write_file(
        &zero,
        "tomorrow.json",
        r#"{"permissions": {"deny": ["Read(.conf)"], "allow": ["Edit(a.txt)"]}}"#,
    );
    let changed = run_simulate(&zero, &["--settings", "tomorrow.json"]);
    assert_eq!(changed["now"], json!({"allow": 3, "ask": 1, "deny": 1}));
    let change = &changed["changes"][0];
    assert_eq!(change["calls"], 2);
    assert_eq!((&change["then"], &change["now"]), (&json!("ask"), &json!("allow")));
    assert_eq!((&change["tool"], &change["title"]), (&json!("Write"), &json!("Write `a.txt`")));
    let plan = run_simulate(&zero, &["--mode", "plan"]);
    assert_eq!(plan["now"], json!({"allow": 2, "ask": 0, "deny": 3}));
    let text = zero.run(&["policy", "simulate", "--settings", "tomorrow.json"]);
    let text = text.split_once("calls since").unwrap().1.split_once("Z, ").unwrap().1;
    insta::assert_snapshot!(text, @"
    evaluated again

           THEN  NOW
    allow  2     3
    ask    3     1
    deny   0     1

    Different decisions:
    CALLS  THEN   NOW    CALL           WHY
    2      ask    allow  Write `a.txt`  changing `[FOLDER]/a.txt`: rule `Edit(a.txt)` allows it
    1      allow  deny   Read `.conf`   reading `[FOLDER]/.conf`: rule `Read(.conf)` denies it

    Allow rules that would have avoided prompts:
    PROMPTS  RULE
    1        Edit(/b.txt)

    Could not evaluate: 1 truncated in the log
    ");
}

#[test]
fn simulate_uses_settings_of_recorded_workspace() {
    let zero = program_with_calls();
    write_file(&zero, USER_FILE, r#"{"permissions": {"mode": "accept-edits"}}"#);
    assert_eq!(run_simulate(&zero, &[])["now"], json!({"allow": 5, "ask": 0, "deny": 0}));
    let elsewhere = run_simulate(&zero, &["--workspace", "home"]);
    assert_eq!(elsewhere["calls"], 0);
    assert_eq!(run_simulate(&zero, &["--workspace", "."])["calls"], 5);
    write_file(&zero, USER_FILE, r#"{"permissions": {"mode": "yolo"}}"#);
    assert!(zero.run(&["policy", "simulate"]).starts_with("exit 2\n--- stderr\n"));
    write_file(&zero, USER_FILE, "{}");
    write_file(&zero, ".zero/settings.json", "{");
    let broken = run_simulate(&zero, &[]);
    assert_eq!(
        (&broken["calls"], &broken["cannot_be_replayed"]),
        (&json!(0), &json!({"settings": 8}))
    );
}

#[test]
fn simulate_of_empty_log_succeeds() {
    let zero = TestProgram::new();
    let seen = zero.run(&["policy", "simulate", "--since", "1h"]);
    assert!(seen.starts_with("exit 0\nno calls"), "{seen}");
}

#[test]
fn secret_file_is_asked_about_as_in_a_call() {
    let zero = TestProgram::new();
    write_file(&zero, ".env", "TOKEN=sk-0123456789abcdef\n");
    let refused = zero.run(&["tools", "call", "Read", r#"{"file_path": ".env"}"#]);
    assert!(refused.starts_with("exit 3\n"), "{refused}");
    let report: serde_json::Value =
        serde_json::from_str(&zero.stdout(&["policy", "simulate", "--json"])).unwrap();
    assert_eq!(
        (&report["now"]["ask"], &report["now"]["allow"]),
        (&1.into(), &0.into()),
        "{report}"
    );
    assert_eq!(report["changes"], serde_json::json!([]), "{report}");
}
