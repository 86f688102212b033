//! Chats in tmux: what is on the screen and in the scrollback, command by command.

#![expect(clippy::disallowed_methods, reason = "tests stand outside zero and look at its files")]

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::json;

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::TIMEOUT;
use crate::model_server::ModelServer;
use crate::test_program::TestProgram;

/// A part of the status line: the chat is ready for keys.
const READY: &str = " · ask · ";

/// A program in a pane of tmux. Its server ends with it.
struct TmuxChat {
    socket: String,
    folder: PathBuf,
}

impl TmuxChat {
    /// Starts a chat in a window of this many columns and rows.
    fn start(zero: &TestProgram, args: &[&str], columns: usize, rows: usize) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = format!("zerochat-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&socket);
        std::fs::create_dir_all(&folder).unwrap();
        let settings = "set -g history-limit 50000\nset -g status off\nset -s escape-time 0\nset -g default-terminal tmux-256color\n";
        std::fs::write(folder.join("tmux.conf"), settings).unwrap();
        // The pane has the environment and the folder of the test, and nothing else.
        let command = zero.command(args);
        let mut script = File::create(folder.join("start")).unwrap();
        write_script(&mut script, &command);
        let chat = Self { socket, folder };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let start = format!("sh '{}'", chat.folder.join("start").display());
        chat.call(&["new-session", "-d", "-x", &columns, "-y", &rows, &start]);
        chat
    }

    fn call(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-L", &self.socket, "-f"]).arg(self.folder.join("tmux.conf"));
        let Output { status, stdout, stderr } =
            tmux.args(arguments).env_remove("TMUX").output().unwrap();
        assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    fn type_text(&self, text: &str) {
        self.call(&["send-keys", "-l", "--", text]);
    }

    fn press(&self, keys: &[&str]) {
        let arguments: Vec<&str> = ["send-keys"].iter().chain(keys).copied().collect();
        self.call(&arguments);
    }

    fn submit(&self, text: &str) {
        self.type_text(text);
        self.press(&["Enter"]);
    }

    /// What is on the screen.
    fn screen(&self) -> String {
        self.call(&["capture-pane", "-p"])
    }

    /// The scrollback and the screen, with wrapped lines in one.
    fn history(&self) -> String {
        self.call(&["capture-pane", "-p", "-J", "-S", "-"])
    }

    #[track_caller]
    fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits until a text is on the screen and nothing runs.
    #[track_caller]
    fn wait_for_run_end(&self, text: &str) -> String {
        self.wait_until(text, |screen| {
            screen.contains(text) && screen.contains(READY) && !screen.contains("Esc stops")
        })
    }

    #[track_caller]
    fn wait_until(&self, what: &str, is_reached: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.screen();
            if is_reached(&screen) {
                return screen;
            }
            assert!(start.elapsed() < TIMEOUT, "no `{what}` in:\n{screen}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for TmuxChat {
    fn drop(&mut self) {
        let mut tmux = Command::new("tmux");
        let _ = tmux.args(["-L", &self.socket, "kill-server"]).output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A script that runs a command with exactly its environment.
fn write_script(script: &mut File, command: &Command) {
    use std::io::Write as _;
    let quote =
        |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', r"'\''"));
    let folder = command.get_current_dir().unwrap();
    writeln!(script, "cd {}", quote(folder.as_os_str())).unwrap();
    let mut words = vec!["exec env -i TERM=\"$TERM\" TMUX=\"$TMUX\" NO_COLOR=1".to_owned()];
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    words.extend(
        variables.map(|(name, value)| format!("{}={}", name.to_str().unwrap(), quote(value))),
    );
    words.push(quote(command.get_program()));
    words.extend(command.get_args().map(quote));
    writeln!(script, "{}", words.join(" ")).unwrap();
}

fn program_with_model() -> (TestProgram, ModelServer) {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, USER_FILE, model.settings_json(json!({})));
    (zero, model)
}

#[test]
fn commands_of_the_list_answer_in_the_chat() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 60);
    chat.wait_for(READY);
    for (command, answer) in [
        ("/keys", "Ctrl-Enter"),
        ("/usage", "no runs in this time span"),
        ("/permissions", "SETTING"),
        ("/permissions git push", "no rule allows it"),
        ("/grants", "this session has no grants"),
        ("/mcp", "no MCP servers are configured"),
        ("/memory", "no notes"),
        ("/skills", "no skills"),
        ("/jobs", "no jobs"),
        ("/theme dark", "theme: dark"),
        ("/theme blue", "there is no theme `blue`"),
        ("/raw", "as it was written"),
        ("/agents nobody", "there is no agent `nobody`"),
        ("/context", "Free"),
        ("/copy", "copied the last answer"),
    ] {
        chat.submit(command);
        chat.wait_for(answer);
    }
    let stored = zero.run(&["config", "get", "chat.theme"]);
    assert!(stored.contains("dark"), "{stored}");
}

#[test]
fn pickers_choose_and_can_be_left() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 30);
    chat.wait_for(READY);
    chat.submit("/mode");
    chat.wait_for("Search:");
    chat.submit("accept");
    chat.wait_for(" · accept-edits · ");
    chat.submit("/model");
    chat.wait_for("Search:");
    chat.press(&["Escape"]);
    chat.wait_for("(nothing chosen)");
    chat.wait_for(" · accept-edits · ");
}

#[test]
fn escape_twice_picks_a_prompt_to_go_back_to() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &["chat", "--mode", "accept-edits"], 100, 30);
    chat.wait_for(" · accept-edits · ");
    chat.submit("[write]");
    chat.wait_for("• Write");
    chat.wait_until("the end of the run", |screen| !screen.contains("Esc stops"));
    assert!(zero.folder().join("made.txt").exists());
    chat.press(&["Escape"]);
    chat.press(&["Escape"]);
    chat.wait_for("Search:");
    chat.press(&["Enter"]);
    chat.wait_for("files and conversation");
    chat.press(&["Enter"]);
    chat.wait_for("rewound");
    assert!(!zero.folder().join("made.txt").exists());
}

#[test]
fn transcript_opens_at_its_end_and_is_searched_folded_and_left() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 80, 12);
    chat.wait_for(READY);
    chat.submit("!seq 1 60");
    chat.wait_for_run_end("\n60\n");
    chat.press(&["C-t"]);
    let screen = chat.wait_for("q: back");
    assert!(screen.contains("60"), "it opens at the end:\n{screen}");
    chat.press(&["g"]);
    chat.wait_for("session ");
    chat.type_text("/");
    chat.wait_for("search: _");
    chat.submit("31");
    chat.wait_until("the match", |screen| {
        screen.lines().any(|line| line.trim_end().ends_with("31"))
    });
    chat.press(&["Escape"]);
    chat.press(&["G"]);
    chat.wait_for("end; q: back");
    chat.press(&["q"]);
    chat.wait_for(READY);
    chat.type_text("typed again");
    chat.wait_for("typed again");
}

#[test]
fn fullscreen_chat_scrolls_asks_and_gives_the_screen_back() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &["chat", "--fullscreen", "[write]"], 80, 20);
    chat.wait_for("Allow?");
    chat.press(&["n"]);
    chat.wait_for("⊘ Write");
    chat.wait_for(READY);
    assert_eq!(chat.call(&["display-message", "-p", "#{alternate_on}"]).trim(), "1");
    chat.submit("!seq 1 60");
    chat.wait_for_run_end("60");
    chat.call(&["resize-window", "-x", "40", "-y", "15"]);
    chat.wait_until("the narrow screen", |screen| {
        screen.lines().all(|line| line.chars().count() <= 40) && screen.contains("· ask ·")
    });
    chat.submit("/help");
    chat.wait_for("/init");
    chat.press(&["PageUp"; 30]);
    chat.wait_for("session ");
    chat.press(&["C-d"]);
}

#[test]
fn queued_prompt_comes_back_into_the_input() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 30);
    chat.wait_for(READY);
    chat.submit("!sleep 600");
    chat.wait_for("sleep 600` (");
    chat.submit("and then this");
    chat.wait_for("1 queued");
    chat.press(&["M-Up"]);
    chat.wait_for("› and then this");
    chat.wait_until("no queue", |screen| !screen.contains("queued"));
    chat.press(&["C-c"]);
    chat.press(&["Escape"]);
    chat.wait_for("stopped");
}

#[test]
fn stopped_command_keeps_its_output() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 30);
    chat.wait_for(READY);
    chat.submit("!echo partial result; sleep 600");
    chat.wait_for("    partial result");
    chat.press(&["Escape"]);
    chat.wait_until("the end of the run", |screen| {
        let is_at_work = screen.contains("Esc stops") || screen.contains("stopping");
        screen.contains("(stopped") && !is_at_work
    });
    assert!(chat.history().contains("\n    partial result"), "{}", chat.history());
}

#[test]
fn chat_of_twenty_columns_is_usable() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 20, 24);
    chat.wait_for("›");
    chat.submit("!echo hello");
    chat.wait_until("the output", |screen| screen.matches("hello").count() > 1);
    chat.press(&["C-t"]);
    chat.wait_for("q: back");
    chat.press(&["q"]);
    chat.wait_for("›");
}

#[test]
fn status_line_is_made_by_the_program_of_the_user() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let outside = tempfile::tempdir().unwrap();
    let script = outside.path().join("status");
    std::fs::write(&script, "#!/bin/sh\nread facts\ncase $facts in *'\"mode\":\"ask\"'*) echo mine ask;; *) echo mine other;; esac\n").unwrap();
    let mut command = Command::new("chmod");
    assert!(command.arg("755").arg(&script).status().unwrap().success());
    let settings = model.settings_json(json!({"chat": {"statusLine": [script]}}));
    write_file(&zero, USER_FILE, settings);
    let chat = TmuxChat::start(&zero, &[], 80, 24);
    chat.wait_for("  mine ask");
    chat.submit("/mode plan");
    chat.wait_for("  mine other");
}

#[test]
fn dropped_image_is_mentioned() {
    let (zero, _model) = program_with_model();
    std::fs::write(zero.folder().join("a picture.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let chat = TmuxChat::start(&zero, &[], 80, 24);
    chat.wait_for(READY);
    let path = zero.folder().join("a\\ picture.png");
    chat.call(&["set-buffer", "--", path.to_str().unwrap()]);
    chat.call(&["paste-buffer", "-p"]);
    chat.wait_for("› @\"");
}
