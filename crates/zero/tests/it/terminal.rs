//! What somebody sees who sits at a terminal, and what becomes of what they type.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

use serde_json::{Value, json};

use crate::config::{USER_FILE, write_file};
use crate::model_server::ModelServer;
use crate::terminal_process::TerminalProcess;
use crate::test_program::TestProgram;

/// Shown at a question after a key that is not offered, or several keys at once.
const KEY_HINT: &str = "(press one of the keys shown)";

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
        assert!(seen.contains("to continue this session, run `zero run --session "), "{seen}");
    }
}

#[test]
fn unknown_key_at_a_question_shows_a_hint() {
    let (zero, _model) = program_with_model();
    let mut terminal = start_on_terminal(&zero, &["run", "[write]"]);
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("\u{1b}[A");
    terminal.wait_for_text(KEY_HINT);
    terminal.type_keys("y");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
}

#[test]
fn pasted_text_answers_no_question() {
    for paste in ["au", "yes", "a\ru\r", "always use tabs\rand nothing else\r", "nn", "\u{4}y"] {
        let (zero, _model) = program_with_model();
        let mut terminal = start_on_terminal(&zero, &["run", &command_prompt("touch made.txt")]);
        terminal.wait_for_text("a allow always");
        terminal.wait_for_text("Allow? ");
        terminal.type_keys(paste);
        terminal.wait_for_text(KEY_HINT);
        assert!(!terminal.seen().contains("Add the rule to?"), "{}", terminal.seen());
        // The question that an answer opens is a question of its own.
        terminal.type_keys("a");
        terminal.wait_for_text("Add the rule to?");
        terminal.type_keys("user\r");
        terminal.wait_for_repeated_text(KEY_HINT, 2);
        terminal.type_keys("q");
        terminal.wait_for_text_below("Add the rule to? (", "Allow? ");
        terminal.type_keys("n");
        let (code, seen) = terminal.wait_for_exit();
        assert_eq!((code, zero.folder().join("made.txt").exists()), (3, false), "{seen}");
        let settings = std::fs::read_to_string(zero.folder().join(USER_FILE)).unwrap();
        assert!(!settings.contains("made.txt"), "{settings}");
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
    terminal.type_keys("v");
    terminal.wait_for_text("lines 1 to ");
    terminal.type_keys("G");
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
fn edited_command_is_judged_again_and_reported_to_the_model() {
    let (zero, model) = program_with_model();
    let mut terminal = start_on_terminal(&zero, &["run", &command_prompt("touch made.txt")]);
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("e");
    terminal.wait_for_text("Enter: done");
    terminal.type_keys("\u{17}other.txt\r");
    // The edited command asks like any other.
    terminal.wait_for_text_below("run     │ touch other.txt", "Allow? ");
    terminal.type_keys("y");
    let (code, seen) = terminal.wait_for_exit();
    let exists = |name: &str| zero.folder().join(name).exists();
    assert_eq!((code, exists("made.txt"), exists("other.txt")), (0, false, true), "{seen}");
    let told = tool_message(&model);
    assert!(told.contains("The user edited the command of this call"), "{told}");
    assert!(told.contains("touch other.txt"), "{told}");
}

#[test]
fn host_that_a_command_connects_to_is_asked_about_while_it_runs() {
    let (zero, model) = program_with_model();
    write_file(&zero, "fetch.sh", "curl -sS -m 60 http://held.invalid/x");
    let prompt = command_prompt("bash fetch.sh");
    let start = |args: &[&str]| {
        let mut terminal = start_on_terminal(&zero, args);
        if !args.contains(&"--yes") {
            terminal.wait_for_text("Allow? ");
            terminal.type_keys("y");
        }
        terminal
    };
    let mut terminal = start(&["run", &prompt]);
    terminal.wait_for_text("Connect to held.invalid:80");
    terminal.wait_for_text("run     │ bash fetch.sh");
    terminal.wait_for_text_below("WebFetch(domain:held.invalid)", "Allow? ");
    terminal.type_keys("n");
    let (_, seen) = terminal.wait_for_exit();
    let told = tool_message(&model);
    assert!(told.contains("held.invalid:80 was refused: the user rejected it"), "{told} {seen}");

    // `--yes` approves calls, and no host that nobody has seen.
    let (_, seen) = start(&["run", "--yes", &prompt]).wait_for_exit();
    let told = tool_message(&model);
    assert!(told.contains("to allow held.invalid: zero config add"), "{told} {seen}");

    // The rule that is shown is the rule that is added.
    let mut terminal = start(&["run", &prompt]);
    terminal.wait_for_text_below("WebFetch(domain:held.invalid)", "Allow? ");
    terminal.type_keys("a");
    terminal.wait_for_text("Add the rule to?");
    terminal.type_keys("u");
    let (_, seen) = terminal.wait_for_exit();
    assert!(tool_message(&model).contains("could not resolve its address"), "{seen}");
    let settings = zero.stdout(&["config", "get", "permissions.allow"]);
    assert!(settings.contains("WebFetch(domain:held.invalid)"), "{settings}");
    let (_, seen) = start(&["run", &prompt]).wait_for_exit();
    assert!(!seen.contains("Connect to"), "{seen}");
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
    // Only in this folder.
    let folder = zero.folder().canonicalize().unwrap();
    assert!(listed.contains(&format!("Edit(/{}/made.txt)", folder.display())), "{listed}");
    let seen = zero.run(&["run", &prompt]);
    assert!(seen.starts_with("exit 0"), "{seen}");
}

#[test]
fn session_grant_holds_in_the_next_run_until_it_is_revoked() {
    let (zero, _model) = program_with_model();
    let prompt = command_prompt("touch made.txt");
    let mut terminal = start_on_terminal(&zero, &["run", "--session", "s", &prompt]);
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("s");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    let again = zero.run(&["run", "--session", "s", &prompt]);
    assert!(again.starts_with("exit 0"), "{again}");
    // Not in another session, and not in another folder.
    let other = zero.run(&["run", "--session", "t", &prompt]);
    assert!(other.starts_with("exit 3"), "{other}");
    let listed = zero.stdout(&["sessions", "grants", "s"]);
    assert!(listed.contains("Edit(/made.txt)"), "{listed}");
    let unknown = zero.run(&["sessions", "grants", "s", "--revoke", "Bash(x)"]);
    assert!(unknown.starts_with("exit 2") && unknown.contains("nothing was revoked"), "{unknown}");
    zero.stdout(&["sessions", "grants", "s", "--revoke", "Edit(/made.txt)"]);
    let after = zero.run(&["run", "--session", "s", &prompt]);
    assert!(after.starts_with("exit 3"), "{after}");
}

#[test]
fn grant_revoked_by_another_process_asks_again_in_the_same_run() {
    // An answered question is repeated without its choices.
    const QUESTION: &str = "e edit the command\r\nAllow? ";
    let (zero, _model) = program_with_model();
    let touch = |file: &str| format!("call Bash {}\n", json!({"command": format!("touch {file}")}));
    let steps = ["made.txt", "other.txt", "made.txt"].map(touch).join("turn\n");
    let prompt = format!("script:\n{steps}turn\nsay Well.");
    let mut terminal = start_on_terminal(&zero, &["run", "--session", "s", &prompt]);
    terminal.wait_for_text(QUESTION);
    terminal.type_keys("s");
    terminal.wait_for_repeated_text(QUESTION, 2);
    let listed = zero.stdout(&["sessions", "grants", "s"]);
    assert!(listed.contains("Edit(/made.txt)"), "{listed}");
    let revoked = zero.stdout(&["sessions", "grants", "s", "--revoke", "Edit(/made.txt)"]);
    assert_eq!(revoked, "revoked 1 grant\n");
    terminal.type_keys("s");
    terminal.wait_for_repeated_text(QUESTION, 3);
    terminal.type_keys("n");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 3, "{seen}");
    // The other grant stays, and the revoked one does not come back with it.
    let listed = zero.stdout(&["sessions", "grants", "s", "--json"]);
    assert!(listed.contains("Edit(/other.txt)") && !listed.contains("made.txt"), "{listed}");
}

#[test]
fn stored_mode_applies_to_later_runs_of_the_session() {
    let (zero, _model) = program_with_model();
    for first in [
        &["run", "--session", "a", "--mode", "accept-edits", "hello"][..],
        &["run", "--session", "b", "/mode accept-edits"],
    ] {
        let seen = zero.run(first);
        assert!(seen.starts_with("exit 0"), "{seen}");
        let session = first[2];
        let seen = zero.run(&["run", "--session", session, "[write]"]);
        assert!(seen.starts_with("exit 0"), "{session}: {seen}");
        std::fs::remove_file(zero.folder().join("made.txt")).unwrap();
    }
    let seen = zero.run(&["run", "--session", "c", "[write]"]);
    assert!(seen.starts_with("exit 3"), "{seen}");
}

/// A prompt that makes the model ask the user.
fn question_prompt() -> String {
    let option = |label: &str| json!({"label": label, "description": format!("take {label}")});
    let question = json!({"question": "Which milk?", "header": "Milk",
        "options": [option("oat"), option("soy")], "multiSelect": false});
    let input = json!({"questions": [question]});
    format!("script:\ncall AskUserQuestion {input}\nturn\nsay Well.")
}

#[test]
fn option_key_answers_the_agent_at_once() {
    // Each with what is on the screen before it.
    for (presses, expected) in [
        (&[("", "2")][..], r"Which milk?\n  soy"),
        (&[("", "\u{1b}[B"), ("› 2", "\r")], r"Which milk?\n  soy"),
        (&[("", "3"), ("Esc: back", "almond\r")], r"Which milk?\n  almond"),
        (&[("", "\u{1b}")], "the user chose not to answer"),
    ] {
        let (zero, model) = program_with_model();
        let mut terminal = start_on_terminal(&zero, &["run", &question_prompt()]);
        terminal.wait_for_text("Esc: no answer");
        for (before, keys) in presses {
            terminal.wait_for_text(before);
            terminal.type_keys(keys);
        }
        let (_, seen) = terminal.wait_for_exit();
        let told = tool_message(&model);
        assert!(told.contains(expected), "{presses:?}: {told}: {seen}");
        assert!(!seen.contains("Send this"), "{seen}");
    }
}

#[test]
fn interrupt_at_a_form_ends_the_run_without_another_request() {
    let (zero, model) = program_with_model();
    for keys in ["", "3"] {
        let mut terminal = start_on_terminal(&zero, &["run", &question_prompt()]);
        terminal.wait_for_text("Esc: no answer");
        if !keys.is_empty() {
            terminal.type_keys(keys);
            terminal.wait_for_text("Esc: back");
        }
        let count = model.requests().len();
        terminal.interrupt();
        let (code, seen) = terminal.wait_for_exit();
        assert_eq!((code, model.requests().len()), (130, count), "{keys:?}: {seen}");
        assert!(seen.contains("withdrawn: "), "{seen}");
    }
}

#[test]
fn call_that_cannot_succeed_fails_before_it_asks() {
    let (zero, model) = program_with_model();
    write_file(&zero, "a.txt", "one\n");
    let call = |tool: &str, input: Value| format!("script:\ncall {tool} {input}\nturn\nsay Well.");
    for (prompt, expected) in [
        (
            call("Edit", json!({"file_path": "a.txt", "old_string": "two", "new_string": "x"})),
            "is not in `a.txt`",
        ),
        (call("Write", json!({"file_path": "a.txt", "content": "x"})), "read"),
        (command_prompt("touch /opt/zero-test"), "`sandbox.writable`"),
    ] {
        let seen = zero.run(&["run", &prompt]);
        let told = tool_message(&model);
        assert!(told.contains(expected) && !told.contains("nobody can approve"), "{told}: {seen}");
    }
}

#[test]
fn last_session_of_the_folder_is_continued() {
    let (zero, model) = program_with_model();
    let none = zero.run(&["run", "-c", "go on"]);
    assert!(none.starts_with("exit 2") && none.contains("there is no session in"), "{none}");
    let first = zero.run(&["remember the milk"]);
    assert!(first.starts_with("exit 0"), "{first}");
    for args in [&["run", "-c", "go on"][..], &["go on now", "--continue"]] {
        let seen = zero.run(args);
        assert!(seen.starts_with("exit 0"), "{seen}");
        let request = model.requests().pop().unwrap().to_string();
        assert!(request.contains("remember the milk"), "{request}");
    }
    let rows: Value = serde_json::from_str(&zero.stdout(&["sessions", "list", "--json"])).unwrap();
    let name = rows[0]["key"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
    assert_eq!((rows.as_array().unwrap().len(), name.split('-').count()), (1, 2), "{rows}");
    for args in [
        vec!["run", "--session", &name, "more"],
        vec!["run", &format!("--resume={name}"), "more"],
        vec!["sessions", "show", &name],
    ] {
        let seen = zero.run(&args);
        assert!(seen.starts_with("exit 0"), "{args:?}: {seen}");
    }
    let listed = zero.run(&["run", "--resume", "more"]);
    assert!(listed.starts_with("exit 2") && listed.contains(&name), "{listed}");
    let unknown = zero.run(&["run", "--resume=none", "more"]);
    assert!(unknown.starts_with("exit 2"), "{unknown}");
}

#[test]
fn session_is_picked_from_a_list() {
    let (zero, model) = program_with_model();
    for prompt in ["about apples", "about pears"] {
        let seen = zero.run(&["run", prompt]);
        assert!(seen.starts_with("exit 0"), "{seen}");
    }
    let mut terminal = start_on_terminal(&zero, &["run", "--resume", "go on"]);
    terminal.wait_for_text("2 of 2");
    terminal.type_keys("apples");
    terminal.wait_for_text("1 of 2");
    terminal.type_keys("\r");
    let (code, seen) = terminal.wait_for_exit();
    let request = model.requests().pop().unwrap().to_string();
    assert!(code == 0 && request.contains("about apples"), "{request}: {seen}");
    assert!(!request.contains("about pears"), "{request}");
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

#[test]
fn provider_is_picked_at_login_and_escape_leaves() {
    let zero = TestProgram::new();
    let mut terminal = start_on_terminal(&zero, &["login"]);
    terminal.wait_for_text("Enter: choose");
    terminal.type_keys("deep\r");
    terminal.wait_for_text("Model [deepseek-chat]: ");
    terminal.type_keys("\u{4}");
    let (code, seen) = terminal.wait_for_exit();
    assert!(code != 0 && !seen.contains("stored"), "{seen}");
    let mut terminal = start_on_terminal(&zero, &["login"]);
    terminal.wait_for_text("Enter: choose");
    terminal.type_keys("\u{1b}");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 2, "{seen}");
    assert!(seen.contains("no provider chosen; nothing changed"), "{seen}");
}

#[test]
fn new_session_with_a_similar_name_is_noted() {
    let zero = TestProgram::new();
    let run = |name: &str| zero.run(&["run", "--session", name, "/help"]);
    assert!(!run("bug-42").contains("similar"));
    let noted = "note: new session `bgu-42`; similar: `bug-42`";
    let text = run("bgu-42");
    assert!(text.starts_with("exit 0\n") && text.contains(noted), "{text}");
    assert!(!run("bgu-42").contains("similar"));
    assert!(!run("other").contains("similar"));
}

#[test]
fn session_key_is_not_broken_in_a_list() {
    for length in [4, 40, 66, 90] {
        let zero = TestProgram::new();
        let name = "x".repeat(length);
        zero.run(&["run", "--session", &name, "/help"]);
        let (code, seen) = start_on_terminal(&zero, &["sessions", "list"]).wait_for_exit();
        assert_eq!(code, 0, "{seen}");
        let is_whole = |line: &str| line.split(' ').any(|word| word.ends_with(&format!(":{name}")));
        assert!(seen.lines().any(is_whole), "{seen}");
        assert!(seen.contains("WHEN") && seen.contains("FOLDER"), "{seen}");
    }
}

#[test]
fn options_of_run_work_without_it() {
    let (zero, model) = program_with_model();
    zero.run(&["hello"]);
    let text = zero.run(&["-c", "again"]);
    assert!(text.starts_with("exit 0\n"), "{text}");
    let requests = model.requests();
    let messages = requests.last().unwrap()["messages"].to_string();
    assert!(messages.contains("hello") && messages.contains("again"), "{messages}");
}

/// Waits for the question about a command, tries it, and answers with these keys.
fn try_command(zero: &TestProgram, command: &str, keys: &str) -> (i32, String) {
    let mut terminal = start_on_terminal(zero, &["run", &command_prompt(command)]);
    terminal.wait_for_text("t try it");
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("t");
    terminal.wait_for_text("Keep these changes? ");
    terminal.type_keys(keys);
    terminal.wait_for_exit()
}

#[test]
fn tried_command_is_kept_or_discarded_after_its_changes_were_shown() {
    let command = "sed -i s/one/two/ a.txt; echo new > b.txt; echo out; false";
    for (keys, is_kept) in [("k", true), ("d", false), ("\u{4}", false)] {
        let (zero, model) = program_with_model();
        write_file(&zero, "a.txt", "one\n");
        let (code, seen) = try_command(&zero, command, keys);
        assert!(seen.contains("2 files changed"), "{seen}");
        assert!(seen.contains("-one") && seen.contains("+two") && seen.contains("+new"), "{seen}");
        let text = std::fs::read_to_string(zero.folder().join("a.txt")).unwrap();
        let told = tool_message(&model);
        let rows = zero.stdout(&["audit", "tail", "-n", "50", "--json"]);
        match is_kept {
            true => {
                assert_eq!((text.as_str(), code), ("two\n", 0), "{seen}");
                assert!(told.contains("out") && !told.contains("tried"), "{told}");
                assert!(rows.contains("person: try it, then keep"), "{rows}");
            }
            false => {
                assert_eq!((text.as_str(), code), ("one\n", 3), "{keys:?}: {seen}");
                assert!(!zero.folder().join("b.txt").exists(), "{seen}");
                assert!(told.contains("discarded the changes"), "{told}");
                assert!(!told.contains("out\\n"), "{told}");
                assert!(rows.contains("person: try it, then discard"), "{rows}");
            }
        }
    }
}

#[test]
fn trial_ends_with_its_run_and_discards() {
    let (zero, _model) = program_with_model();
    write_file(&zero, "a.txt", "one\n");
    let mut terminal = start_on_terminal(&zero, &["run", &command_prompt("echo two > a.txt")]);
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("t");
    terminal.wait_for_text("Keep these changes? ");
    terminal.interrupt();
    let (code, seen) = terminal.wait_for_exit();
    let text = std::fs::read_to_string(zero.folder().join("a.txt")).unwrap();
    assert_eq!((code, text.as_str()), (130, "one\n"), "{seen}");
}

#[test]
fn trial_that_cannot_be_taken_back_names_what_is_left() {
    let (zero, _model) = program_with_model();
    write_file(&zero, "a.txt", "one\n");
    let mut terminal = start_on_terminal(&zero, &["run", &command_prompt("echo two > a.txt")]);
    terminal.wait_for_text("Allow? ");
    terminal.type_keys("t");
    terminal.wait_for_text("Keep these changes? ");
    write_file(&zero, "a.txt", "three\n");
    terminal.type_keys("d");
    let (_, seen) = terminal.wait_for_exit();
    assert!(seen.contains("zero undo"), "{seen}");
    let text = std::fs::read_to_string(zero.folder().join("a.txt")).unwrap();
    assert_eq!(text, "three\n", "what somebody else wrote stays: {seen}");
}

#[test]
fn trial_is_offered_only_where_all_changes_can_be_taken_back() {
    for (input, is_offered) in [
        (json!({"command": "echo two > a.txt"}), true),
        (json!({"command": "curl https://example.com/x"}), false),
        (json!({"command": "make", "network_access": true}), false),
        (json!({"command": "sleep 1000 > a.txt", "run_in_background": true}), false),
    ] {
        let (zero, _model) = program_with_model();
        let prompt = format!("script:\ncall Bash {input}\nturn\nsay Well.");
        let mut terminal = start_on_terminal(&zero, &["run", &prompt]);
        terminal.wait_for_text("Allow? ");
        if !is_offered {
            terminal.type_keys("t");
            terminal.wait_for_text(KEY_HINT);
        }
        terminal.type_keys("n");
        let (code, seen) = terminal.wait_for_exit();
        assert_eq!((code, seen.contains("t try it")), (3, is_offered), "{input}: {seen}");
    }
    let (zero, _model) = program_with_model();
    let denied = json!({"permissions": {"deny": ["Bash(touch:*)"]}});
    write_file(&zero, ".zero/settings.json", denied.to_string());
    let terminal = start_on_terminal(&zero, &["run", &command_prompt("touch x")]);
    let (_, seen) = terminal.wait_for_exit();
    assert!(!seen.contains("try it") && !zero.folder().join("x").exists(), "{seen}");
}

#[test]
fn tried_command_reaches_only_the_workspace() {
    let (zero, model) = program_with_model();
    let outside = tempfile::tempdir().unwrap();
    let settings = json!({
        "sandbox": {"writable": [outside.path().display().to_string()], "network": ["localhost"]}
    });
    write_file(&zero, USER_FILE, model.settings_json(settings));
    let script = format!(
        "echo made > {}/file\n(exec 3<>/dev/tcp/127.0.0.1/{}) && echo connected\necho two > a.txt\n",
        outside.path().display(),
        model.port()
    );
    write_file(&zero, "s.sh", script);
    let (_, seen) = try_command(&zero, "bash s.sh", "d");
    assert!(!outside.path().join("file").exists(), "{seen}");
    assert!(!seen.contains("\nconnected"), "{seen}");
    assert!(!zero.folder().join("a.txt").exists(), "{seen}");
}

#[test]
fn interrupted_question_of_dry_run_discards() {
    for (keys, exit) in [("\u{3}", 130), ("n", 0), ("\u{4}", 0), ("y", 0)] {
        let zero = TestProgram::new();
        write_file(&zero, "a.txt", "one\n");
        let input = json!({"command": "echo two > a.txt"}).to_string();
        let mut terminal =
            start_on_terminal(&zero, &["tools", "call", "Bash", &input, "--yes", "--dry-run"]);
        terminal.wait_for_text("Keep these changes? ");
        terminal.type_keys(keys);
        let (code, seen) = terminal.wait_for_exit();
        let text = std::fs::read_to_string(zero.folder().join("a.txt")).unwrap();
        assert_eq!((code, text == "one\n"), (exit, keys != "y"), "{keys:?}: {seen}");
    }
}

#[test]
fn wrong_command_is_a_usage_error_and_leaves_no_session() {
    let (with_model, model) = program_with_model();
    write_file(&with_model, ".zero/commands/mine.md", "Say hello.");
    for zero in [&with_model, &TestProgram::new()] {
        for (prompt, expected) in [
            ("/nope", "there is no command"),
            ("/nope with words", "there is no command"),
            ("/read", "write `/read"),
            ("/bash", "write `/bash"),
            ("/status now", "takes no arguments"),
        ] {
            let seen = zero.run(&["run", prompt]);
            assert!(seen.starts_with("exit 2") && seen.contains(expected), "{prompt}: {seen}");
        }
        let listed = zero.stdout(&["sessions", "list", "--json"]);
        assert_eq!(serde_json::from_str::<Value>(&listed).unwrap(), json!([]), "{listed}");
        write_file(zero, "a.txt", "one\n");
        for prompt in ["/help", "/status", "/read a.txt", "/Read {\"file_path\": \"a.txt\"}"] {
            let seen = zero.run(&["run", prompt]);
            assert!(seen.starts_with("exit 0"), "{prompt}: {seen}");
        }
    }
    assert!(model.requests().is_empty());
}
