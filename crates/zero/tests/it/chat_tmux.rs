//! Chats in tmux: what is on the screen and in the scrollback, command by command.

#![expect(clippy::disallowed_methods, reason = "tests use real files directly")]

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
        let mut command = zero.command(args);
        command.env("NO_COLOR", "1");
        Self::start_command(&command, columns, rows)
    }

    /// Starts a chat with an environment of its own.
    fn start_command(command: &Command, columns: usize, rows: usize) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = format!("zerochat-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&socket);
        std::fs::create_dir_all(&folder).unwrap();
        let settings = "set -g history-limit 50000\nset -g status off\nset -s escape-time 0\nset -g default-terminal tmux-256color\nset -g remain-on-exit on\n";
        std::fs::write(folder.join("tmux.conf"), settings).unwrap();
        // The pane has the environment and the folder of the test, and nothing else.
        let mut script = File::create(folder.join("start")).unwrap();
        write_script(&mut script, command);
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

    /// Waits until the last question takes keys: at first, those do not count that may be meant for the
    /// chat, and it says so.
    #[track_caller]
    fn wait_for_open_question(&self) {
        self.wait_until("a question without a note", |screen| {
            screen.trim_end().lines().next_back() == Some("Allow?")
        });
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

/// The digit of an answer that a question offers.
#[track_caller]
fn digit_of(screen: &str, answer: &str) -> String {
    let at = screen.find(answer).unwrap_or_else(|| panic!("no `{answer}` in:\n{screen}"));
    // Before it are its letter and a space.
    screen[..at - 3].chars().next_back().unwrap().to_string()
}

/// A script that runs a command with exactly its environment.
fn write_script(script: &mut File, command: &Command) {
    use std::io::Write as _;
    let quote =
        |text: &std::ffi::OsStr| format!("'{}'", text.to_str().unwrap().replace('\'', r"'\''"));
    let folder = command.get_current_dir().unwrap();
    writeln!(script, "cd {}", quote(folder.as_os_str())).unwrap();
    let mut words = vec!["exec env -i TERM=\"$TERM\" TMUX=\"$TMUX\"".to_owned()];
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
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let rules = json!({"permissions": {"deny": ["Read(secret.txt)"]}});
    write_file(&zero, USER_FILE, model.settings_json(rules));
    let chat = TmuxChat::start(&zero, &[], 100, 60);
    chat.wait_for(READY);
    for (command, answer) in [
        ("/keys", "Ctrl-Enter"),
        ("/usage", "no runs in this time span"),
        ("/grants", "this session has no grants"),
        ("/permissions", "asks before everything that no rule allows; /mode changes it"),
        ("/permissions", "permissions.allow  []"),
        ("/permissions", "permissions.deny   Read(secret.txt)"),
        ("/permissions git push", "no rule allows it"),
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
    let screen = chat.wait_for("Search:");
    assert!(screen.contains("› ask  (current)"), "{screen}");
    chat.submit("accept");
    chat.wait_for(" · accept-edits · ");
    chat.submit("/mode");
    chat.wait_for("› accept-edits  (current)");
    chat.press(&["Enter"]);
    chat.wait_for(" · accept-edits · ");
    chat.submit("/model");
    chat.wait_for("Search:");
    chat.press(&["Escape"]);
    chat.wait_for("(nothing chosen)");
    chat.wait_for(" · accept-edits · ");
}

#[test]
fn models_and_agents_are_chosen_from_lists() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    let address = format!("http://127.0.0.1:{}/v1", model.port());
    let entry = |name: &str| json!({"api": "chat", "model": name, "baseUrl": address});
    let settings = json!({
        "models": {"scripted": entry("scripted"), "other": entry("large")},
        "model": "scripted",
        "agents": {"reviewer": {"model": "other", "mode": "plan"}},
    });
    write_file(&zero, USER_FILE, settings.to_string());
    let chat = TmuxChat::start(&zero, &[], 100, 40);
    chat.wait_for(READY);
    chat.submit("/model");
    let screen = chat.wait_for("› scripted  (current)");
    assert!(screen.contains("  other\n"), "{screen}");
    chat.submit("oth");
    chat.wait_for("other · ask · ");
    chat.submit("which model?");
    chat.wait_for_run_end("Hello from the model");
    assert_eq!(model.requests().last().unwrap()["model"], "large");
    chat.submit("/agents");
    let screen = chat.wait_for("› main  (current)");
    assert!(screen.contains("  reviewer\n"), "{screen}");
    chat.submit("rev");
    chat.wait_for(" · plan · ");
    let listed = zero.stdout(&["sessions", "list", "--json"]);
    assert!(listed.contains("agent:reviewer:"), "{listed}");
}

#[test]
fn grants_are_shown_and_revoked() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &["chat", "[write]"], 100, 50);
    chat.wait_for("Allow?");
    chat.type_text("s");
    chat.wait_for("Allow? allowed in this session");
    chat.wait_for_run_end("The tool said");
    chat.submit("/permissions");
    chat.wait_for("Edit(/made.txt)");
    chat.submit("[write]");
    chat.wait_until("a second run without a question", |screen| {
        screen.matches("The tool said").count() == 2 && !screen.contains("Esc stops")
    });
    chat.submit("/grants Edit(/made.txt)");
    chat.wait_for("revoked 1 grant");
    chat.submit("/grants");
    chat.wait_for("this session has no grants");
    chat.submit("[write]");
    chat.wait_for_open_question();
    chat.press(&["n"]);
    chat.wait_for("Allow? rejected");
}

#[test]
fn reports_name_what_there_is() {
    let (zero, model) = (TestProgram::new(), ModelServer::start());
    write_file(&zero, "server.py", include_str!("mcp_server.py"));
    let script = zero.folder().join("server.py");
    let server = json!({"command": "/usr/bin/python3", "args": [script, "shelf", ""]});
    write_file(&zero, USER_FILE, model.settings_json(json!({"mcpServers": {"shelf": server}})));
    let skill = "---\nname: release\ndescription: How to release.\n---\nRun it.\n";
    write_file(&zero, ".zero/skills/release/SKILL.md", skill);
    let chat = TmuxChat::start(&zero, &[], 100, 50);
    chat.wait_for(READY);
    chat.submit("hello");
    chat.wait_for_run_end("Hello from the model");
    chat.submit("#use tabs");
    chat.wait_until("the note", |screen| screen.contains("tabs") && screen.contains(READY));
    for (command, answer) in [
        ("/memory", "use tabs"),
        ("/skills", "How to release."),
        ("/usage", "tokens out"),
        ("/mcp", "shelf"),
    ] {
        chat.press(&["C-l"]);
        chat.submit(command);
        chat.wait_until(command, |screen| {
            let below = screen.rfind("Hello from the model").map_or("", |at| &screen[at..]);
            below.contains(answer)
        });
    }
}

#[test]
fn sessions_are_copied_resumed_compacted_and_exported() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 40);
    chat.wait_for(READY);
    chat.submit("/help");
    for shown in ["/model [NAME]", "/rewind [NUMBER]", "/compact", "/context", "/exit"] {
        assert!(chat.wait_for(shown).contains(shown));
    }
    chat.submit("first words");
    chat.wait_for_run_end("Hello from the model");
    chat.submit("/fork");
    chat.wait_for("forked from `agent:main:");
    chat.submit("/compact keep the names");
    chat.wait_for_run_end("the conversation was compacted");
    chat.submit("/export");
    chat.wait_for("> /compact keep the names");
    // Only the session that was copied is another one.
    chat.submit("/resume");
    let screen = chat.wait_for("Search:");
    assert!(screen.contains("1 of 1; Enter: choose"), "{screen}");
    chat.submit("first");
    chat.wait_until("the session before", |screen| {
        let last = screen.rfind("/help lists the commands").unwrap_or(0);
        last > screen.rfind("Search:").unwrap_or(0) || !screen.contains("Search:")
    });
    chat.wait_for_run_end("Hello from the model");
    chat.submit("/new");
    chat.wait_until("a new session", |screen| {
        let (header, _) = screen.rsplit_once("/help lists the commands").unwrap_or_default();
        screen[header.len()..].lines().filter(|line| line.starts_with('›')).count() == 1
    });
    chat.submit("/exit");
    chat.wait_until("the end", |screen| screen.contains("to continue this session"));
}

#[test]
fn changes_are_undone_and_prompts_taken_back_by_commands() {
    let (zero, _model) = program_with_model();
    let made = zero.folder().join("made.txt");
    let chat = TmuxChat::start(&zero, &["chat", "--mode", "accept-edits"], 100, 40);
    let ready = " · accept-edits · ";
    chat.wait_for(ready);
    chat.submit("[write]");
    chat.wait_until("the end of the run", |screen| {
        screen.contains("The tool said") && !screen.contains("Esc stops")
    });
    assert!(made.exists());
    chat.submit("/undo");
    chat.wait_for("removed `made.txt`");
    assert!(!made.exists());
    chat.wait_for(ready);
    chat.submit("/rewind 1 conversation");
    chat.wait_for("rewound");
    chat.submit("/rewind");
    chat.wait_for("there is no prompt to go back to");
}

#[test]
fn question_takes_digits_another_command_and_a_reason() {
    let (zero, _model) = program_with_model();
    let file = |name: &str| zero.folder().join(name);
    let chat = TmuxChat::start(&zero, &["chat", "[append one]"], 100, 40);
    let screen = chat.wait_for("Allow?");
    for shown in ["risk", "│ echo one >> log.txt", "cover", "writes"] {
        assert!(screen.contains(shown), "{shown}:\n{screen}");
    }
    // The window changes while the question waits: it is asked once, and fits.
    for (columns, rows) in [("44", "30"), ("30", "30"), ("100", "40")] {
        chat.call(&["resize-window", "-x", columns, "-y", rows]);
        chat.wait_until("the question in the new window", |screen| {
            screen.matches("allow once").count() == 1
                && screen.matches("Allow?").count() == 1
                // A narrow window has no room for the digits.
                && screen.contains("1 y allow once") == (columns == "100")
        });
    }
    chat.type_text(&digit_of(&chat.screen(), "edit the command"));
    chat.wait_for("Enter: done");
    chat.type_text("2");
    chat.press(&["Enter"]);
    // What was edited is judged again.
    chat.wait_for("│ echo one >> log.txt2");
    let screen =
        chat.wait_until("a second question", |screen| screen.matches("Allow?").count() == 2);
    chat.type_text(&digit_of(&screen, "allow once"));
    chat.wait_for("Allow? allowed once");
    chat.wait_for_run_end("The tool said");
    assert!(file("log.txt2").exists() && !file("log.txt").exists());
    chat.submit("[append two]");
    chat.wait_for("│ echo two >> log.txt");
    chat.wait_for_open_question();
    chat.type_text("r");
    chat.wait_for("Why?");
    chat.submit("use another file");
    chat.wait_for("rejected: use another file");
    chat.wait_for_run_end("The tool said");
    assert!(!file("log.txt").exists());
}

#[test]
fn prompt_replaces_the_run_and_interrupts_leave() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 30);
    chat.wait_for(READY);
    chat.submit("!sleep 600");
    chat.wait_for("sleep 600` (");
    chat.type_text("now this");
    // Ctrl-Enter, as terminals with the kitty protocol send it.
    chat.type_text("\u{1b}[13;5u");
    chat.wait_for_run_end("Hello from the model");
    assert!(chat.history().contains("(stopped"), "{}", chat.history());
    chat.submit("!sleep 600");
    chat.wait_for("◦ Run `sleep 600`");
    chat.press(&["C-c"]);
    chat.wait_until("the end of the run", |screen| screen.matches("(stopped").count() == 2);
    chat.press(&["C-c"]);
    let left = "to continue this session";
    let screen = chat.wait_until("a hint, or the end", |screen| {
        screen.contains("press Ctrl-C again to leave") || screen.contains(left)
    });
    if !screen.contains(left) {
        chat.press(&["C-c"]);
    }
    chat.wait_for(left);
}

#[test]
fn prompt_that_replaces_the_run_leaves_those_that_wait() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 40);
    chat.wait_for(READY);
    chat.submit("!sleep 600");
    chat.wait_for("sleep 600` (");
    chat.submit("!echo was waiting");
    chat.wait_for("1 queued");
    chat.type_text("!echo goes first");
    chat.type_text("\u{1b}[13;5u");
    chat.wait_until("the end of all runs", |screen| {
        let is_over = !screen.contains("Esc stops") && !screen.contains("queued");
        is_over && screen.contains("\nwas waiting")
    });
    let history = chat.history();
    let place = |text: &str| history.find(text).unwrap_or_else(|| panic!("no {text}:\n{history}"));
    assert!(place("(stopped") < place("\ngoes first"), "{history}");
    assert!(place("\ngoes first") < place("\nwas waiting"), "{history}");
    assert_eq!(history.matches("(stopped").count(), 1, "{history}");
}

#[test]
fn image_on_the_clipboard_is_attached() {
    use std::os::unix::fs::PermissionsExt;

    let (zero, model) = program_with_model();
    // The clipboard of a desktop that has a picture as PNG.
    let desktop = tempfile::tempdir().unwrap();
    let picture = desktop.path().join("picture.png");
    std::fs::write(&picture, include_bytes!("red.png")).unwrap();
    let reader = desktop.path().join("xclip");
    let script = format!(
        "#!/bin/sh\n[ \"$5 $DISPLAY\" = 'image/png :7' ] && exec cat '{}'\nexit 1\n",
        picture.display()
    );
    std::fs::write(&reader, script).unwrap();
    std::fs::set_permissions(&reader, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = zero.command(&[]);
    command.env("NO_COLOR", "1").env("DISPLAY", ":7");
    command.env("PATH", format!("{}:/usr/bin:/bin", desktop.path().display()));
    let chat = TmuxChat::start_command(&command, 100, 30);
    chat.wait_for(READY);
    chat.type_text("what is ");
    chat.press(&["C-v"]);
    chat.wait_for("› what is [clipboard-1.png]");
    chat.press(&["Enter"]);
    chat.wait_for_run_end("I see 1 picture.");
    assert!(chat.screen().contains("[image: clipboard-1.png]"), "{}", chat.screen());
    let sent = model.requests().last().unwrap().to_string();
    assert!(sent.contains("data:image/png;base64,"), "{sent}");
    // Without its mark, it is not sent.
    chat.press(&["C-v"]);
    chat.wait_for("› [clipboard-2.png]");
    chat.press(&["C-u"]);
    chat.submit("only words");
    chat.wait_for_run_end("Hello from the model");
}

#[test]
fn signs_are_ascii_where_the_locale_is() {
    let (zero, _model) = program_with_model();
    let prompt = "script:\nsay > a quote…\ncall Bash {\"command\":\"seq 1 30\"}";
    let mut command = zero.command(&["chat", "--mode", "auto", prompt]);
    command.env("NO_COLOR", "1").env("LANG", "C");
    let chat = TmuxChat::start_command(&command, 80, 40);
    chat.wait_until("the end of the run", |screen| {
        screen.contains("| a quote~") && screen.contains("Done.") && !screen.contains("Esc stops")
    });
    chat.submit("/mode");
    chat.wait_for("Search:");
    let history = chat.history();
    assert!(history.is_ascii(), "{history}");
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
fn question_on_the_whole_screen_follows_the_window() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &["chat", "--fullscreen", "[append one]"], 80, 30);
    chat.wait_for("Allow?");
    for (columns, rows) in [(44, 24), (20, 30), (100, 40), (57, 20), (58, 30)] {
        let (columns_text, rows_text) = (columns.to_string(), rows.to_string());
        chat.call(&["resize-window", "-x", &columns_text, "-y", &rows_text]);
        chat.wait_until("the question in the new window", |screen| {
            ["Allow?", "risk", "allow once"].iter().all(|text| screen.matches(text).count() == 1)
                && screen.lines().all(|line| line.chars().count() <= columns)
                // Long names have a row of their own where there is no room beside them.
                && screen.contains("  risk\n") == (columns < 40)
        });
    }
    chat.press(&["n"]);
    chat.wait_for(READY);
    chat.press(&["C-d"]);
}

#[test]
fn mention_is_accepted_and_not_sent_by_enter() {
    let (zero, model) = program_with_model();
    std::fs::write(zero.folder().join("hello.txt"), "hello\n").unwrap();
    let chat = TmuxChat::start(&zero, &[], 100, 30);
    chat.wait_for(READY);
    // Also before the list is there.
    chat.type_text("see @hell");
    chat.press(&["Enter"]);
    chat.wait_until("the mention", |screen| screen.contains("› see @hello.txt\n  scripted"));
    chat.type_text("and @hel");
    chat.wait_for("  › @hello.txt");
    chat.press(&["Enter"]);
    let both = "› see @hello.txt and @hello.txt\n  scripted";
    chat.wait_until("both mentions", |screen| screen.contains(both));
    assert!(model.requests().is_empty(), "nothing was sent");
}

#[test]
fn escape_counts_twice_only_without_another_key_between() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 30);
    chat.wait_for(READY);
    chat.submit("first");
    chat.wait_for_run_end("Hello from the model");
    let escape = || {
        chat.press(&["Escape"]);
        chat.wait_for("press Esc again to go back to an earlier prompt");
    };
    escape();
    chat.type_text("x");
    chat.wait_for("› x");
    chat.press(&["BSpace"]);
    chat.wait_until("an empty line", |screen| !screen.contains("› x"));
    escape();
    chat.type_text("typed");
    chat.wait_for("› typed");
}

#[test]
fn new_session_says_that_the_run_before_is_stopped() {
    let (zero, _model) = program_with_model();
    let chat = TmuxChat::start(&zero, &[], 100, 30);
    chat.wait_for(READY);
    chat.submit("!sleep 600");
    chat.wait_for("sleep 600` (");
    chat.submit("!echo later");
    chat.wait_for("1 queued");
    chat.submit("/new");
    chat.wait_for("the run of the session before is stopped and the prompt that waited");
    chat.submit("/resume");
    chat.wait_for("Search:");
    chat.press(&["Enter"]);
    chat.wait_until("both ends", |screen| screen.matches("stopped").count() >= 3);
    assert!(!chat.screen().contains("\nlater"), "{}", chat.screen());
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
    let screen = chat.wait_for("›");
    // Words that fit are whole.
    for whole in ["session\n", "/help lists the\n", "commands\n"] {
        assert!(screen.contains(whole), "{whole}:\n{screen}");
    }
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
