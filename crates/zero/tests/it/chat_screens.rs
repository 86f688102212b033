//! Whole screens of a chat, as a terminal shows them.

#![expect(clippy::disallowed_methods, reason = "tests read their own files directly")]

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::json;

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::TIMEOUT;
use crate::model_server::ModelServer;
use crate::terminal_process::TerminalProcess;
use crate::test_program::TestProgram;

/// As long as the name of a folder of a test, so that rows keep their width.
const FOLDER: &str = "/var/tmp/.tmpFOLDER";

/// A chat in a terminal of this process.
struct ChatScreen {
    zero: TestProgram,
    _model: ModelServer,
    process: TerminalProcess,
    terminal: vt100::Parser,
}

impl ChatScreen {
    fn start(columns: u16, rows: u16, args: &[&str]) -> Self {
        Self::start_with(columns, rows, args, |_| {})
    }

    fn start_with(
        columns: u16,
        rows: u16,
        args: &[&str],
        adapt: impl FnOnce(&mut Command),
    ) -> Self {
        let (zero, model) = (TestProgram::outside_tmp(), ModelServer::start());
        write_file(&zero, USER_FILE, model.settings_json(json!({})));
        write_file(&zero, "notes.txt", "one\ntwo\nthree\nfour\nfive\n");
        let mut command = zero.command(&[&["chat", "--session", "demo"], args].concat());
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        adapt(&mut command);
        let process = TerminalProcess::start_sized(command, columns, rows);
        Self { zero, _model: model, process, terminal: vt100::Parser::new(rows, columns, 0) }
    }

    /// What is on the screen, without what differs from run to run.
    fn shown(&self) -> String {
        let folder = self.zero.folder().canonicalize().unwrap();
        let text = self.terminal.screen().contents().replace(folder.to_str().unwrap(), FOLDER);
        let rows: Vec<String> = text.lines().map(|row| mask(row.trim_end())).collect();
        rows.join("\n").trim_end().to_owned()
    }

    fn type_keys(&mut self, keys: &str) {
        self.process.type_keys(keys);
    }

    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        let start = Instant::now();
        while !self.shown().contains(text) {
            let output = self.process.next_output().filter(|_| start.elapsed() < TIMEOUT);
            let Some(output) = output else { panic!("no `{text}` in:\n{}", self.shown()) };
            self.terminal.process(&output);
        }
    }

    /// Compares the screen with its snapshot, once both are the same or a long time has passed.
    #[track_caller]
    fn check(&mut self, name: &str, last: &str) {
        self.wait_for(last);
        let start = Instant::now();
        if let Some(expected) = read_snapshot(name) {
            while self.shown() != expected && start.elapsed() < TIMEOUT {
                let Some(output) = self.process.next_output() else { break };
                self.terminal.process(&output);
            }
        }
        insta::assert_snapshot!(name, self.shown());
    }
}

/// The text of a snapshot, if there is one.
fn read_snapshot(name: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    let text =
        std::fs::read_to_string(folder.join(format!("it__chat_screens__{name}.snap"))).ok()?;
    let (_, text) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
    Some(text.trim_end().to_owned())
}

/// A row without what differs between machines: times, and what the sandbox can do.
fn mask(row: &str) -> String {
    let row = row.split(" · sandbox").next().unwrap_or_default();
    let row = row.split(", sandbox").next().unwrap_or_default();
    let mut parts = row.split('(');
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (inside, after) = part.split_once(')').unwrap_or((part, ""));
        let is_time = inside.starts_with(|letter: char| letter.is_ascii_digit())
            && [" s", "ms", "min"].iter().any(|unit| inside.ends_with(unit));
        match is_time {
            true => masked.push_str(&format!("(time){after}")),
            false => masked.push_str(&format!("({part}")),
        }
    }
    masked
}

fn bash(command: &str) -> String {
    format!("call Bash {}", json!({"command": command}))
}

fn script(steps: &[&str]) -> String {
    format!("script:\n{}", steps.join("\n"))
}

#[test]
fn answer_appears_while_it_is_written() {
    let answer = "say The **first** paragraph has `enough words` to fill more than one row of the window, so that these rows are finished. The *rest* of it";
    let mut chat = ChatScreen::start(80, 24, &[&script(&[answer, "hang"])]);
    chat.check("streaming_answer", "rest of it");
}

#[test]
fn running_call_shows_its_last_lines() {
    let call = bash("seq 1 9; sleep 600");
    let mut chat = ChatScreen::start(80, 24, &["--mode", "auto", &script(&[&call])]);
    chat.check("running_call", "    9\n");
}

#[test]
fn change_of_a_file_is_a_diff() {
    let input = json!({"file_path": "notes.txt", "old_string": "three", "new_string": "3\n3.5"});
    let read = "call Read {\"file_path\": \"notes.txt\"}";
    let edit = format!("call Edit {input}");
    let prompt = script(&[read, "turn", &edit, "turn", "say The list has **six** lines now."]);
    let mut chat = ChatScreen::start(80, 30, &["--mode", "accept-edits", &prompt]);
    chat.check("diff", "six lines now.");
}

#[test]
fn question_shows_command_verdicts_and_answers() {
    let call = bash("git push origin main && rm -r build");
    let mut chat = ChatScreen::start(100, 40, &[&script(&[&call])]);
    chat.check("question", "Allow?");
}

#[test]
fn prompts_wait_below_the_run() {
    let call = bash("echo begun; sleep 600");
    let mut chat = ChatScreen::start(80, 24, &["--mode", "auto", &script(&[&call])]);
    chat.wait_for("    begun");
    chat.type_keys("and then this\r");
    chat.wait_for("queued");
    chat.type_keys("a prompt that is\\\rnot sent yet");
    chat.check("queue", "not sent yet");
}

#[test]
fn help_lists_the_commands() {
    let mut chat = ChatScreen::start(90, 50, &[]);
    chat.wait_for(" · ask · ");
    chat.type_keys("/help\r");
    chat.check("help", "/exit");
}

#[test]
fn picker_has_a_search_and_marks_the_current_choice() {
    let mut chat = ChatScreen::start(80, 24, &[]);
    chat.wait_for(" · ask · ");
    chat.type_keys("/mode\r");
    chat.check("picker", "Search:");
}

#[test]
fn suggestions_are_below_the_input() {
    let mut chat = ChatScreen::start(80, 24, &[]);
    chat.wait_for(" · ask · ");
    chat.type_keys("/re");
    chat.check("suggestions", "/resume");
}

#[test]
fn twenty_columns_are_enough() {
    let answer = "say A [link](https://example.org) and `code`.";
    let prompt = script(&[&bash("seq 1 3"), "turn", answer]);
    let mut chat = ChatScreen::start(20, 40, &["--mode", "auto", &prompt]);
    chat.check("twenty_columns", "code");
}

#[test]
fn letters_are_ascii_without_colors_where_the_locale_is() {
    let prompt = script(&["think First I look.", "say - one…", &bash("seq 1 9")]);
    let adapt = |command: &mut Command| {
        command.env("LANG", "C").env("NO_COLOR", "1");
    };
    let mut chat = ChatScreen::start_with(80, 30, &["--mode", "auto", &prompt], adapt);
    chat.check("ascii", "Done.");
    let screen = chat.terminal.screen();
    let (rows, columns) = screen.size();
    let cells = (0..rows).flat_map(|row| (0..columns).filter_map(move |at| screen.cell(row, at)));
    let mut colors = cells.map(|cell| (cell.fgcolor(), cell.bgcolor()));
    let none = (vt100::Color::Default, vt100::Color::Default);
    assert!(colors.all(|color| color == none) && chat.shown().is_ascii());
}

#[test]
fn plain_lines_say_what_the_signs_say() {
    let prompt = script(&["think First I look.", &bash("seq 1 9")]);
    let mut chat = ChatScreen::start(80, 30, &["--plain", "--mode", "auto", &prompt]);
    chat.wait_for("Done.");
    chat.check("plain", "\n>");
}
