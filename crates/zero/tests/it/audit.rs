//! The audit log from the outside: one record, the check of all, and the check that others can do.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;
use zero_runtime::audit::{AuditConnection, AuditLog, AuditRow};
use zero_runtime::tool_host::new_call_id;
use zero_sandbox::{StateDir, Workspace};

use crate::test_program::TestProgram;

/// A program that made three calls, all of the same day. None of them ran, so each has one row.
fn program_with_calls() -> TestProgram {
    let try_once = |_| {
        let zero = TestProgram::new();
        std::fs::write(zero.folder().join("a.txt"), "hello\n").unwrap();
        zero.run(&["tools", "call", "Read", r#"{"no_such_field": 1}"#]);
        zero.run(&["tools", "call", "Write", r#"{"file_path": "a.txt", "content": "x"}"#]);
        zero.run(&["tools", "call", "NoSuchTool", "{}"]);
        // Once in a while, midnight passes in between.
        (std::fs::read_to_string(audit_day_file(&zero)).unwrap().lines().count() == 3)
            .then_some(zero)
    };
    (0..2).find_map(try_once).unwrap()
}

fn audit_day_file(zero: &TestProgram) -> PathBuf {
    let folder = zero.folder().join("home/.local/state/zero/audit");
    let mut files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap()
}

fn edit_audit_log(zero: &TestProgram, change: impl FnOnce(&str) -> String) {
    let text = std::fs::read_to_string(audit_day_file(zero)).unwrap();
    std::fs::write(audit_day_file(zero), change(&text)).unwrap();
}

/// What `verify` says, without what differs from run to run.
fn run_verify(zero: &TestProgram, args: &[&str]) -> String {
    let output = zero.run(&[&["audit", "verify"], args].concat());
    let name = audit_day_file(zero).file_name().unwrap().to_str().unwrap().to_owned();
    let output = output.replace(&name, "[DAY].jsonl");
    let is_hash = |word: &str| word.len() == 64;
    let words = output.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| is_hash(word));
    words.fold(output.clone(), |text, hash| text.replace(hash, "[HASH]"))
}

#[test]
fn verify_locates_changed_record() {
    let zero = program_with_calls();
    insta::assert_snapshot!(run_verify(&zero, &[]), @"
    exit 0
    intact; 3 rows, 1 day, head 3:[HASH]
    ");
    let report: Value = serde_json::from_str(&zero.stdout(&["audit", "verify", "--json"])).unwrap();
    assert_eq!((&report["intact"], &report["rows"]), (&true.into(), &3.into()));
    let pin = format!("3:{}", report["head"]["hash"].as_str().unwrap());
    zero.stdout(&["audit", "verify", "--from-start", "--expect", &pin]);

    edit_audit_log(&zero, |text| text.replace("NoSuchTool", "SomeTool"));
    insta::assert_snapshot!(run_verify(&zero, &["--expect", &pin]), @"
    exit 1
    [DAY].jsonl:3: row 3 was changed: it does not match its hash
    [DAY].jsonl:3: row 3 does not have the expected hash
    not intact: 2 findings; 3 rows, 1 day, head 3:[HASH]
    ");
    edit_audit_log(&zero, |text| text.lines().take(1).map(|line| format!("{line}\n")).collect());
    insta::assert_snapshot!(run_verify(&zero, &[]), @"
    exit 1
    [DAY].jsonl: rows 2 to 3 are missing at the end
    not intact: 1 finding; 1 row, 1 day, head 1:[HASH]
    ");
    let output = zero.command(&["audit", "verify", "--json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &report["findings"][0];
    assert_eq!((output.status.code(), &report["intact"]), (Some(1), &false.into()));
    assert_eq!((&finding["kind"], &finding["seq"]), (&"cut_off".into(), &2.into()));
}

#[test]
fn verify_separates_unusual_from_wrong() {
    let zero = program_with_calls();
    edit_audit_log(&zero, |text| {
        let rest: String = text.lines().skip(1).map(|line| format!("{line}\n")).collect();
        rest + "{\"time\":\"20"
    });
    insta::assert_snapshot!(run_verify(&zero, &[]), @"
    exit 0
    intact; 2 rows, 1 day, head 3:[HASH]
    --- stderr
    note: the log starts at row 2; earlier rows are missing
    note: [DAY].jsonl:3: truncated line, because its writer was stopped
    ");
    insta::assert_snapshot!(run_verify(&zero, &["--from-start"]), @"
    exit 1
    [DAY].jsonl:1: row 1 is missing before this line
    not intact: 1 finding; 2 rows, 1 day, head 3:[HASH]
    --- stderr
    note: [DAY].jsonl:3: truncated line, because its writer was stopped
    ");
    insta::assert_snapshot!(TestProgram::new().run(&["audit", "verify"]), @"
    exit 0
    intact; 0 rows, 0 days
    ");
    insta::assert_snapshot!(zero.run(&["audit", "verify", "--expect", "3"]), @"
    exit 2
    --- stderr
    error: invalid value '3' for '--expect <SEQ:HASH>': write it as SEQ:HASH, as `zero audit verify` prints it: a number and 64 hexadecimal digits

    For more information, try '--help'.
    ");
    insta::assert_snapshot!(zero.run(&["audit", "verify", "--since", "monday"]), @"
    exit 2
    --- stderr
    error: invalid value 'monday' for '--since <DAY>': `monday` is not a day such as `2026-01-31`

    For more information, try '--help'.
    ");
}

#[test]
fn show_prints_full_record() {
    let zero = program_with_calls();
    let shown = zero.stdout(&["audit", "show", "2"]);
    for part in [
        "call        call_",
        "tool        Write",
        "title       Write `a.txt`",
        "\"file_path\": \"a.txt\"",
        "effects     write ",
        "decision    ask: ",
        "outcome     denied (permission_denied, no_approver)",
        "took        ",
        "chain       row 2; the record matches its hash",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    let id = shown.lines().next().unwrap().split_whitespace().nth(1).unwrap().to_owned();
    for wanted in [&id[..], &id[..12], &id[5..]] {
        assert_eq!(zero.stdout(&["audit", "show", wanted]), shown, "{wanted}");
    }
    let record: Value =
        serde_json::from_str(&zero.stdout(&["audit", "show", "2", "--json"])).unwrap();
    assert_eq!(record["record"]["call"], id.as_str());
    assert_eq!(record["chain"]["hash_is_right"], true);
    edit_audit_log(&zero, |text| text.replace("\"tool\":\"Write\"", "\"tool\":\"Wrote\""));
    let shown = zero.stdout(&["audit", "show", "2"]);
    assert!(shown.contains("row 2; the record was changed"), "{shown}");
}

#[test]
fn show_of_unknown_record_gives_advice() {
    let zero = program_with_calls();
    insta::assert_snapshot!(zero.run(&["audit", "show", "4"]), @"
    exit 2
    --- stderr
    error: there is no record `4`; the log has rows 1 to 3
    ");
    let ambiguous = zero.run(&["audit", "show", "call_"]);
    assert!(
        ambiguous.starts_with("exit 2\n--- stderr\nerror: `call_` matches more than one record:\n")
    );
    for part in ["     1  call_", "  Read\n", "     3  call_", "  NoSuchTool\npass the number"] {
        assert!(ambiguous.contains(part), "{part:?} is not in\n{ambiguous}");
    }
    let shown = zero.stdout(&["audit", "show", "1"]);
    let id = shown.lines().next().unwrap().split_whitespace().nth(1).unwrap();
    let slip = format!("{}zz", &id[..id.len() - 2]);
    let output = zero.run(&["audit", "show", &slip]);
    assert!(output.contains(&format!("did you mean {id}")), "{output}");
    insta::assert_snapshot!(TestProgram::new().run(&["audit", "show", "call_1"]), @"
    exit 2
    --- stderr
    error: there is no record `call_1`; run `zero audit tail --json` to see the newest rows with their IDs
    ");
}

#[test]
fn tail_prints_rows_byte_for_byte() {
    let zero = program_with_calls();
    let recorded = std::fs::read_to_string(audit_day_file(&zero)).unwrap();
    assert_eq!(zero.stdout(&["audit", "tail", "--json"]), recorded);
}

/// Runs the check that `docs/concepts/audit.md` teaches.
fn run_documented_check(zero: &TestProgram) -> String {
    let page = include_str!("../../../../docs/concepts/audit.md");
    let begin = page.find("prev=$(").unwrap();
    let recipe = page[begin..].split("```").next().unwrap();
    let mut shell = zero.external_command("sh");
    shell.args(["-c", recipe]).current_dir(audit_day_file(zero).parent().unwrap());
    let output = shell.output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn documented_chain_check_works() {
    let zero = program_with_calls();
    assert_eq!(run_documented_check(&zero), "");
    edit_audit_log(&zero, |text| text.replace("NoSuchTool", "SomeTool"));
    assert!(run_documented_check(&zero).starts_with("changed: {\"time\""));
    let zero = program_with_calls();
    edit_audit_log(&zero, |text| text.lines().skip(1).map(|line| format!("{line}\n")).collect());
    assert!(run_documented_check(&zero).starts_with("does not follow the row before: {\"time\""));
}

#[test]
fn connection_record_is_shown_and_not_counted_as_call() {
    let zero = TestProgram::new();
    let state = StateDir::new(zero.folder().join("home/.local/state/zero"));
    let workspace = Workspace::open(&[zero.folder().to_owned()], None).unwrap();
    let row = AuditRow {
        title: Some("a.test:443".to_owned()),
        connection: Some(AuditConnection {
            protocol: "connect".to_owned(),
            of_call: Some("call_1".to_owned()),
            address: Some("93.184.216.34".to_owned()),
            sent_bytes: 12,
            received_bytes: 34,
        }),
        ..AuditRow::new(Timestamp::now(), &new_call_id(), &workspace, "connection")
    };
    AuditLog::new(&state).write(&row).unwrap();
    let shown = zero.stdout(&["audit", "show", "1"]);
    for part in ["a.test:443", "connect", "call_1", "93.184.216.34", "12 bytes sent, 34 received"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(zero.stdout(&["audit", "tail"]).contains("a.test:443"));
    assert!(zero.stdout(&["stats"]).starts_with("no calls in this time span"));
    assert!(run_verify(&zero, &[]).contains("intact; 1 row, 1 day"));
}

/// Waits until the log has the begin of a call, and returns the call's id.
fn wait_for_begin(zero: &TestProgram) -> String {
    let folder = zero.folder().join("home/.local/state/zero/audit");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let rows = std::fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
        let rows = rows.collect::<String>();
        let started = rows.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(call) = started.rev().find(|row| row["status"] == "started") {
            return call["call"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < deadline, "the call does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn killed_call_is_named_as_unfinished() {
    let zero = TestProgram::outside_tmp();
    let call = ["tools", "call", "--yes", "Bash", r#"{"command": "sleep 600"}"#];
    let mut running = zero
        .command(&call)
        .env("PATH", "/usr/bin:/bin")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let id = wait_for_begin(&zero);
    insta::assert_snapshot!(run_verify(&zero, &[]), @"
    exit 0
    intact; 1 row, 1 day, head 1:[HASH]
    --- stderr
    note: still running: 1 call
    ");
    assert!(zero.stdout(&["audit", "tail"]).contains("  running    Bash"));
    running.kill().unwrap();
    running.wait().unwrap();
    insta::assert_snapshot!(run_verify(&zero, &[]).replace(&id, "[CALL]"), @"
    exit 0
    intact; 1 row, 1 day, head 1:[HASH]
    --- stderr
    note: [DAY].jsonl:1: Bash [CALL] is unfinished: zero was stopped while it ran, so its effects are not known
    ");
    let report: Value = serde_json::from_str(&zero.stdout(&["audit", "verify", "--json"])).unwrap();
    assert_eq!(report["unfinished_calls"][0]["call"], id.as_str());
    assert_eq!((&report["intact"], &report["running_calls"]), (&true.into(), &0.into()));
    assert!(zero.stdout(&["audit", "tail"]).contains("  unfinished  Bash"));
    let shown = zero.stdout(&["audit", "show", &id]);
    assert!(shown.contains("outcome     none here: ") && shown.contains("sleep 600"), "{shown}");
    let stats: Value = serde_json::from_str(&zero.stdout(&["stats", "--json"])).unwrap();
    assert_eq!((&stats["unfinished"], &stats["tools"]), (&1.into(), &serde_json::json!({})));

    // A call that ends has its begin and its end in the log, and one line in the lists.
    std::fs::write(zero.folder().join("a.txt"), "hello\n").unwrap();
    zero.stdout(&["tools", "call", "Read", r#"{"file_path": "a.txt"}"#]);
    assert!(run_verify(&zero, &[]).contains("intact; 3 rows"));
    let tail = zero.stdout(&["audit", "tail"]);
    let tools: Vec<_> = tail.lines().filter_map(|line| line.split_whitespace().nth(4)).collect();
    assert_eq!(tools, ["Bash", "Read"], "{tail}");
    assert_eq!(run_documented_check(&zero), "");
}
