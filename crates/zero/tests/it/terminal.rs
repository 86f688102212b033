//! What somebody sees who sits at a terminal, and what becomes of what they type.

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::model_server::ModelServer;
use crate::terminal_process::TerminalProcess;
use crate::test_program::TestProgram;

fn program_with_model() -> (TestProgram, ModelServer) {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    (zero, model)
}

fn start_on_terminal(zero: &TestProgram, args: &[&str]) -> TerminalProcess {
    let mut command = zero.command(args);
    command.env("NO_COLOR", "1");
    TerminalProcess::start(command)
}

#[test]
fn permission_answer_at_terminal_is_applied() {
    for (keys, exit, is_made, line) in [
        ("y\n", 0, true, "[y/s/N/d] y\r\n● Write"),
        ("\n", 3, false, "[y/s/N/d] \r\n⊘ Write"),
        // Who goes away says no, and what comes next has a line of its own.
        ("\u{4}", 3, false, "[y/s/N/d] \r\n⊘ Write"),
    ] {
        let (zero, _model) = program_with_model();
        let mut terminal = start_on_terminal(&zero, &["run", "[write]"]);
        terminal.wait_for_text("Allow? [y/s/N/d] ");
        terminal.type_keys(keys);
        let (code, seen) = terminal.wait_for_exit();
        assert_eq!((code, zero.folder().join("made.txt").exists()), (exit, is_made), "{seen}");
        assert!(seen.contains(line), "{keys:?}: {seen}");
        assert!(seen.contains("to continue this session, run `zero run --session agent:main:run-"));
    }
}

#[test]
fn keys_typed_before_the_question_do_not_answer_it() {
    for early in ["y\n", "y\ny\n", "s\n", "y"] {
        let (zero, _model) = program_with_model();
        let mut terminal = start_on_terminal(&zero, &["run", "[write]"]);
        terminal.type_keys(early);
        terminal.wait_for_text("Allow? [y/s/N/d] ");
        terminal.type_keys("\n");
        let (code, seen) = terminal.wait_for_exit();
        let is_made = zero.folder().join("made.txt").exists();
        assert_eq!((code, is_made), (3, false), "{early:?}: {seen}");
    }
}

#[test]
fn long_change_can_be_viewed_before_the_answer() {
    let zero = TestProgram::new();
    let content: String = (1..=250).map(|line| format!("line {line}\n")).collect();
    let input = json!({"file_path": "long.txt", "content": content}).to_string();
    let mut terminal = start_on_terminal(&zero, &["tools", "call", "Write", &input]);
    terminal.wait_for_text("more lines; `v` shows all");
    terminal.wait_for_text("Allow? [y/N/v] ");
    terminal.type_keys("v\n");
    terminal.wait_for_text("+line 250");
    terminal.wait_for_repeated_text("Allow? [y/N/v] ", 2);
    terminal.type_keys("y\n");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    assert!(zero.folder().join("long.txt").exists(), "{seen}");
}

#[test]
fn json_output_cannot_control_terminal() {
    let (zero, _model) = program_with_model();
    let (code, seen) =
        start_on_terminal(&zero, &["run", "--session", "s", "--json", "[steer]"]).wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    for args in [
        &["sessions", "export", "s", "--format", "jsonl"][..],
        &["sessions", "show", "s", "--json"],
        &["sessions", "list", "--json"],
    ] {
        let (_, seen) = start_on_terminal(&zero, args).wait_for_exit();
        assert!(!seen.contains(['\u{9b}', '\u{202e}']), "{args:?}: {seen}");
        let shown: Vec<Value> = serde_json::Deserializer::from_str(&seen)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap();
        let plain = zero.stdout(args);
        let plain: Vec<Value> = serde_json::Deserializer::from_str(&plain)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(shown, plain, "{args:?}");
    }
    assert!(!seen.contains(['\u{9b}', '\u{202e}']), "{seen}");
    let event_text = |line: &str| serde_json::from_str::<Value>(line).unwrap()["text"].clone();
    let texts: Vec<Value> = seen.lines().map(event_text).collect();
    let all: String = texts.iter().filter_map(Value::as_str).collect();
    assert!(all.ends_with("\u{9b}2J \u{202e}txt.exe"), "{seen}");
}

#[test]
fn key_is_typed_without_echo() {
    let zero = TestProgram::new();
    for (keys, exit, holds) in [
        // There is no keyring in these surroundings.
        ("sk-se\u{7f}ecret\r", 1, "or store the key in a file"),
        ("sk-secret\u{3}", 2, "no key entered; nothing changed"),
        ("\r", 2, "invalid key: it is empty"),
    ] {
        let mut terminal = start_on_terminal(&zero, &["config", "set-key", "openai"]);
        terminal.wait_for_text("(input is hidden): ");
        terminal.type_keys(keys);
        let (code, seen) = terminal.wait_for_exit();
        assert_eq!(code, exit, "{seen}");
        assert!(seen.contains(holds) && !seen.contains("sk-"), "{keys:?}: {seen}");
    }
}

#[test]
fn protocol_commands_explain_themselves_at_terminal() {
    for (args, expected) in [
        (&["acp"][..], "this speaks the Agent Client Protocol on stdin and stdout"),
        (&["mcp"], "this speaks the Model Context Protocol on stdin and stdout"),
        (&["tools", "serve"], "this speaks JSON-RPC, one message per line on stdin and stdout"),
    ] {
        let zero = TestProgram::new();
        let mut terminal = start_on_terminal(&zero, args);
        terminal.wait_for_text(expected);
        terminal.type_keys("\u{4}");
        let (code, seen) = terminal.wait_for_exit();
        assert_eq!(code, 0, "{seen}");
    }
}
