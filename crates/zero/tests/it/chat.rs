//! A chat on a terminal, as somebody sees it who types.

use serde_json::json;

use crate::config::{USER_FILE, write_file};
use crate::model_server::ModelServer;
use crate::terminal_process::TerminalProcess;
use crate::test_program::TestProgram;

/// The end of the status line: the chat is ready for keys.
const READY: &str = " · ask · ";

fn program_with_model() -> (TestProgram, ModelServer) {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    (zero, model)
}

fn start_chat(zero: &TestProgram, args: &[&str]) -> TerminalProcess {
    let mut command = zero.command(args);
    command.env("NO_COLOR", "1").env("TERM", "xterm-256color");
    let mut terminal = TerminalProcess::start(command);
    terminal.wait_for_text(READY);
    terminal
}

/// Leaves a chat whose input is empty.
fn leave(mut terminal: TerminalProcess) -> String {
    terminal.type_keys("\u{4}");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    seen
}

#[test]
fn prompt_is_answered_and_the_session_can_be_continued() {
    let (zero, model) = program_with_model();
    let mut terminal = start_chat(&zero, &[]);
    terminal.type_keys("script:\\\rsay The answer is\\\rsay  42.\r");
    terminal.wait_for_text("The answer is 42.");
    let seen = leave(terminal);
    assert!(seen.contains("to continue this session, run `zero chat --session "), "{seen}");
    // Modes of the terminal are as before.
    assert!(seen.rfind("\u{1b}[?2004l") > seen.rfind("\u{1b}[?2004h"), "{seen}");
    let mut terminal = start_chat(&zero, &["chat", "--continue"]);
    terminal.wait_for_text("The answer is 42.");
    terminal.type_keys("script:\\\rsay Second.\r");
    terminal.wait_for_text("\r\nSecond.");
    leave(terminal);
    let requests = model.requests();
    assert!(requests.last().unwrap()["messages"].to_string().contains("42."));
}

#[test]
fn question_takes_the_keyboard_and_gives_it_back() {
    for (key, is_made, line, mark) in
        [("y", true, "Allow? allowed once", "• Write"), ("n", false, "Allow? rejected", "⊘ Write")]
    {
        let (zero, _model) = program_with_model();
        let mut terminal = start_chat(&zero, &["chat", "[write]"]);
        terminal.wait_for_text("Allow? ");
        terminal.type_keys(key);
        terminal.wait_for_text(line);
        terminal.wait_for_text_below(line, mark);
        terminal.wait_for_text_below(mark, READY);
        terminal.type_keys("typed again");
        terminal.wait_for_text("typed again");
        // The first Ctrl-C empties the line.
        terminal.type_keys("\u{3}");
        leave(terminal);
        assert_eq!(zero.folder().join("made.txt").exists(), is_made, "{key}");
    }
}

#[test]
fn command_runs_without_a_model_and_escape_stops_it() {
    let zero = TestProgram::new();
    let mut terminal = start_chat(&zero, &[]);
    terminal.wait_for_text("no model is set up");
    terminal.type_keys("!echo out; sleep 600\r");
    terminal.wait_for_text("sleep 600` (");
    terminal.type_keys("\u{1b}");
    terminal.wait_for_text("stopped");
    leave(terminal);
}

#[test]
fn interrupt_at_a_question_stops_the_run_and_the_chat_goes_on() {
    let (zero, _model) = program_with_model();
    let mut terminal = start_chat(&zero, &["chat", "[write]"]);
    terminal.wait_for_text("Allow? ");
    terminal.interrupt();
    terminal.wait_for_text("withdrawn: the call was cancelled");
    terminal.wait_for_text_below("withdrawn", READY);
    leave(terminal);
    assert!(!zero.folder().join("made.txt").exists());
}

#[test]
fn mode_that_is_shown_is_the_one_that_applies() {
    let (zero, _model) = program_with_model();
    let mut terminal = start_chat(&zero, &[]);
    terminal.type_keys("\u{1b}[Z");
    terminal.wait_for_text(" · accept-edits · ");
    terminal.type_keys("[write]\r");
    terminal.wait_for_text("• Write");
    assert!(!terminal.seen().contains("Allow?"), "{}", terminal.seen());
    terminal.type_keys("\u{1b}[Z");
    terminal.wait_for_text(" · plan · ");
    leave(terminal);
    assert!(zero.folder().join("made.txt").exists());
}

#[test]
fn chat_that_was_not_used_leaves_no_session() {
    let zero = TestProgram::new();
    leave(start_chat(&zero, &[]));
    let listed = zero.run(&["sessions", "list"]);
    assert!(!listed.contains("agent:"), "{listed}");
}

#[test]
fn unknown_command_keeps_the_text_and_ctrl_c_twice_leaves() {
    let (zero, _model) = program_with_model();
    let mut terminal = start_chat(&zero, &[]);
    terminal.type_keys("/nope x\r");
    terminal.wait_for_text("there is no command `/nope`");
    terminal.type_keys("\u{3}\u{3}");
    terminal.wait_for_text("press Ctrl-C again to leave");
    terminal.type_keys("\u{3}");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    assert!(!seen.contains("to continue this session"), "nothing was sent: {seen}");
}

#[test]
fn text_that_was_not_sent_comes_back() {
    let zero = TestProgram::new();
    let mut terminal = start_chat(&zero, &[]);
    terminal.type_keys("half a thought");
    terminal.wait_for_text("half a thought");
    terminal.hang_up();
    terminal.wait_for_exit();
    let mut terminal = start_chat(&zero, &[]);
    terminal.wait_for_text("half a thought");
    terminal.type_keys("\u{3}");
    leave(terminal);
}

#[test]
fn nothing_that_is_printed_controls_the_terminal() {
    let zero = TestProgram::new();
    let mut terminal = start_chat(&zero, &[]);
    terminal
        .type_keys("!printf 'a\\033[31mred\\033]0;title\\007\\342\\200\\256x\\n'; echo end-mark\r");
    terminal.wait_for_text("\nend-mark");
    let seen = leave(terminal);
    assert!(!seen.contains("\u{1b}[31m") && !seen.contains("\u{1b}]0;"), "{seen}");
    assert!(!seen.contains('\u{202e}'), "{seen}");
}

#[test]
fn chat_without_a_terminal_is_refused() {
    let zero = TestProgram::new();
    let seen = zero.run(&["chat"]);
    assert!(seen.starts_with("exit 2\n") && seen.contains("a chat needs a terminal"), "{seen}");
}
