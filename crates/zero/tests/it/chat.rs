//! A chat on a terminal, as somebody sees it who types.

use serde_json::json;

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::TIMEOUT;
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
fn prompts_that_are_typed_fast_run_in_the_order_of_typing() {
    let (zero, model) = program_with_model();
    let large = (0..20_000).map(|line| format!("line {line} of many\n")).collect::<String>();
    write_file(&zero, "large.txt", large);
    let mut terminal = start_chat(&zero, &[]);
    // The first one takes longest to send.
    terminal.type_keys("prompt 1 @large.txt \r");
    for number in 2..=8 {
        terminal.type_keys(&format!("prompt {number}\r"));
    }
    let start = std::time::Instant::now();
    while model.requests().len() < 8 {
        assert!(start.elapsed() < TIMEOUT, "{} requests", model.requests().len());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    leave(terminal);
    let last_prompt = |request: &serde_json::Value| {
        let text = request["messages"].as_array()?.last()?["content"].to_string();
        let at = text.find("prompt ")? + "prompt ".len();
        text[at..].chars().next()
    };
    let order: String = model.requests().iter().filter_map(last_prompt).collect();
    assert_eq!(order, "12345678");
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
fn chat_without_a_model_names_the_keys_of_other_agents() {
    for (variable, provider) in
        [("MISTRAL_API_KEY", "Mistral"), ("GROQ_API_KEY", "Groq"), ("XAI_API_KEY", "xAI")]
    {
        let zero = TestProgram::new();
        let mut command = zero.command(&[]);
        command.env("NO_COLOR", "1").env("TERM", "xterm-256color").env(variable, "sk-secret");
        let mut terminal = TerminalProcess::start(command);
        terminal.wait_for_text(&format!("found a key of {provider} ({variable})"));
        terminal.wait_for_text("run /login");
        assert!(!leave(terminal).contains("sk-secret"));
    }
}

#[test]
fn plain_chat_only_appends_lines() {
    let (zero, _model) = program_with_model();
    let mut command = zero.command(&["chat", "--plain"]);
    command.env("TERM", "xterm-256color");
    let mut terminal = TerminalProcess::start(command);
    terminal.wait_for_text("\n> ");
    terminal.type_keys("hello\\\rthere\r");
    terminal.wait_for_text("Hello from the model.");
    terminal.wait_for_text_below("Hello from the model.", "\n> ");
    terminal.type_keys("[write]\r");
    terminal.wait_for_text("Allow? ");
    // At first, keys do not count that may be meant for the chat. Then it is asked again without a note.
    terminal.wait_for_end("Allow? ");
    terminal.type_keys("q");
    terminal.wait_for_text("press one of the keys shown");
    terminal.type_keys("r");
    terminal.wait_for_text("Why? ");
    terminal.type_keys("use another name\r");
    terminal.wait_for_text("rejected: use another name");
    terminal.wait_for_text_below("rejected: use another name", "\n> ");
    terminal.type_keys("!sleep 600\r");
    terminal.wait_for_text("[running] Run `sleep 600`");
    terminal.interrupt();
    terminal.wait_for_text("stopping; press Ctrl-C again to leave");
    terminal.wait_for_text_below("[stopped]", "\n> ");
    terminal.type_keys("\u{4}");
    let (code, seen) = terminal.wait_for_exit();
    assert_eq!(code, 0, "{seen}");
    assert!(!seen.contains('\u{1b}') && !seen.contains('\u{8}'), "{seen:?}");
    // Only line ends move the cursor back.
    assert!(!seen.replace("\r\n", "").contains('\r'), "{seen:?}");
    assert!(!zero.folder().join("made.txt").exists());
}

#[test]
fn interrupt_at_a_question_stops_the_run_and_not_the_chat() {
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
fn shown_mode_is_the_applied_mode() {
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
fn colors_follow_the_background_of_the_terminal() {
    for (background, color) in [("ffff/ffff/ffff", "130"), ("1e1e/1e1e/1e1e", "221")] {
        let (zero, _model) = program_with_model();
        let mut command = zero.command(&[]);
        command.env("TERM", "xterm-256color");
        let mut terminal = TerminalProcess::start(command);
        terminal.wait_for_text("\u{1b}]11;?\u{1b}\\");
        terminal.type_keys(&format!("\u{1b}]11;rgb:{background}\u{1b}\\"));
        terminal.wait_for_text(READY);
        terminal.type_keys("/theme blue\r");
        terminal.wait_for_text(&format!("\u{1b}[38;5;{color}m!"));
        assert!(!leave(terminal).contains("rgb:"));
    }
}

#[test]
fn printed_text_cannot_control_terminal() {
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
