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

/// A prompt that makes the model run a command, and then say what it was told.
fn command_prompt(command: &str) -> String {
    format!("script:\ncall Bash {}\nturn\nsay Well.", json!({"command": command}))
}

/// What the model was told last about its call.
fn tool_message(model: &ModelServer) -> String {
    let requests = model.requests();
    let messages = requests.last().unwrap()["messages"].as_array().unwrap();
    let told = messages.iter().rfind(|message| message["role"] == "tool").unwrap();
    told["content"].to_string()
}

#[test]
fn permission_answer_at_terminal_is_applied() {
    for (keys, exit, is_made, line) in [
        ("y", 0, true, "Allow? allowed once\r\n● Write"),
        ("n", 3, false, "Allow? rejected\r\n⊘ Write"),
        // Keys without a meaning do nothing.
        ("\n \u{1b}[A?xy", 0, true, "Allow? allowed once\r\n● Write"),
        // Who goes away says no, and what comes next has a line of its own.
        ("\u{4}", 3, false, "Allow? rejected\r\n⊘ Write"),
    ] {
        let (zero, _model) = program_with_model();
        let mut terminal = start_on_terminal(&zero, &["run", "[write]"]);
        terminal.wait_for_text("Allow? ");
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
        terminal.wait_for_text("Allow? ");
        terminal.type_keys("n");
        let (code, seen) = terminal.wait_for_exit();
        let is_made = zero.folder().join("made.txt").exists();
        assert_eq!((code, is_made), (3, false), "{early:?}: {seen}");
    }
}

#[test]
fn interrupt_at_a_question_ends_the_run_and_restores_the_terminal() {
    let (zero, _model) = program_with_model();
    let mut terminal = start_on_terminal(&zero, &["run", "[write]"]);
    terminal.wait_for_text("Allow? ");
    terminal.interrupt();
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!((code, zero.folder().join("made.txt").exists()), (130, false), "{seen}");
}

#[test]
fn long_change_can_be_viewed_before_the_answer() {
    let zero = TestProgram::new();
    let content: String = (1..=250).map(|line| format!("line {line}\n")).collect();
    let input = json!({"file_path": "long.txt", "content": content}).to_string();
    let mut terminal = start_on_terminal(&zero, &["tools", "call", "Write", &input]);
    terminal.wait_for_text("more rows; v shows all");
    terminal.wait_for_text("v show all");
    terminal.wait_for_text("Allow? ");
    assert!(!terminal.seen().contains("line 30"), "the question fits: {}", terminal.seen());
    terminal.type_keys("vG");
    terminal.wait_for_text("+line 250");
    terminal.type_keys("q");
    terminal.wait_for_repeated_text("Allow? ", 2);
    terminal.type_keys("y");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    assert!(zero.folder().join("long.txt").exists(), "{seen}");
}

#[test]
fn reason_of_a_rejection_reaches_the_model() {
    let (zero, model) = program_with_model();
    let mut terminal = start_on_terminal(&zero, &["run", &command_prompt("touch made.txt")]);
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("r");
    terminal.wait_for_text("Why? ");
    terminal.type_keys("use b.txt instead\r");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!((code, zero.folder().join("made.txt").exists()), (3, false), "{seen}");
    let told = tool_message(&model);
    assert!(told.contains("the user rejected this call and says: use b.txt instead"), "{told}");
    assert!(seen.contains("rejected: use b.txt instead"), "{seen}");
    assert!(!seen.contains("the user rejected"), "{seen}");
}

#[test]
fn edited_command_is_judged_again_and_the_model_is_told() {
    let (zero, model) = program_with_model();
    let mut terminal = start_on_terminal(&zero, &["run", &command_prompt("touch made.txt")]);
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("e");
    terminal.wait_for_text("Enter: done");
    terminal.type_keys("\u{17}other.txt\r");
    // The edited command asks like any other.
    terminal.wait_for_text("run     │ touch other.txt");
    terminal.wait_for_repeated_text("Allow? ", 2);
    terminal.type_keys("y");
    let (code, seen) = terminal.wait_for_exit();
    let exists = |name: &str| zero.folder().join(name).exists();
    assert_eq!((code, exists("made.txt"), exists("other.txt")), (0, false, true), "{seen}");
    let told = tool_message(&model);
    assert!(told.contains("The user edited the command of this call"), "{told}");
    assert!(told.contains("touch other.txt"), "{told}");
}

#[test]
fn rule_added_from_a_question_allows_later_calls() {
    let (zero, _model) = program_with_model();
    let prompt = command_prompt("touch made.txt");
    let mut terminal = start_on_terminal(&zero, &["run", &prompt]);
    terminal.wait_for_text("rules   Edit(/made.txt)");
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("a");
    terminal.wait_for_text("Add the rule to? ");
    terminal.type_keys("u");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    let listed = zero.stdout(&["config", "get", "permissions.allow"]);
    assert!(listed.contains("Edit(/made.txt)"), "{listed}");
    let seen = zero.run(&["run", &prompt]);
    assert!(seen.starts_with("exit 0"), "{seen}");
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
