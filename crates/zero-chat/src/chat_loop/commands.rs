//! What submitted lines do.

use zero_client::{OpenRequest, OverlapPolicy, SessionChange};
use zero_core::sanitize::escape_line;
use zero_policy::PermissionMode;
use zero_terminal::{STRONG, TerminalTheme};

use super::ChatLoop;
use super::tasks::TaskOutcome;
use crate::chat_command::{self, COMMANDS, ChatCommand, ChatInput, own_words};

/// The modes that Shift-Tab goes through.
const CYCLED_MODES: [&str; 3] = ["ask", "accept-edits", "plan"];

/// Widest first column of a list; a wider entry has a row of its own.
const LEFT_COLUMNS_MAX: usize = 24;
/// Columns that the second column needs to be beside the first.
const RIGHT_COLUMNS_MIN: usize = 30;

/// Keys and what they do, for `/keys`.
const KEYS: &[(&str, &str)] = &[
    ("Enter", "send; while the agent works, the prompt waits for its turn"),
    ("Ctrl-Enter", "stop the active run and send the prompt at once; queued prompts run after it"),
    ("Shift-Enter, Alt-Enter, Ctrl-J, \\ Enter", "new line"),
    ("Esc", "stop the run; twice on an empty line: rewind to an earlier prompt"),
    ("Ctrl-C", "empty the line, or stop the run; twice: leave"),
    ("Ctrl-D", "leave, on an empty line"),
    ("Alt-Up", "move the last queued prompt back into the input"),
    ("Ctrl-T", "the whole conversation: search, fold, copy"),
    ("Ctrl-G", "edit the prompt in $VISUAL or $EDITOR"),
    ("Ctrl-O", "unfold a folded paste"),
    ("Ctrl-V", "paste an image"),
    ("Shift-Tab", "next permission mode"),
    ("Up, Down", "earlier prompts that begin like this one"),
    ("Tab", "complete a /command or an @file"),
    ("!COMMAND", "run a command"),
    ("#NOTE", "add a note that agents read"),
];

/// What happens in a mode where no rule or grant applies.
fn describe_mode(mode: PermissionMode) -> &'static str {
    match mode {
        PermissionMode::Ask => "reads in the folder; asks before everything that no rule allows",
        PermissionMode::AcceptEdits => {
            "reads and changes files in the folder; asks before everything else that no rule allows"
        }
        PermissionMode::Plan => "reads in the folder; changes nothing, whatever rules allow",
        PermissionMode::Auto => {
            "works in the folder without questions; asks before everything else that no rule allows"
        }
    }
}

impl ChatLoop {
    pub(super) fn submit_composer(&mut self, overlap: OverlapPolicy) {
        let text = self.composer.text();
        if text.trim().is_empty() {
            return;
        }
        self.composer.take();
        self.menu.hide();
        // The draft is removed after a moment, unless something new is typed.
        self.note_edit();
        self.spawn_history(text.clone());
        self.submit(&text, overlap);
    }

    pub(super) fn submit(&mut self, text: &str, overlap: OverlapPolicy) {
        let key = self.session.handle.info().session_key;
        let is_session_command =
            |word: &str| self.session.has_command(word) || self.config.host.is_direct_command(word);
        match chat_command::parse(text, &key, &is_session_command) {
            ChatInput::Prompt(prompt) => self.send_prompt(prompt, overlap),
            ChatInput::Command(command @ (ChatCommand::Leave | ChatCommand::ShowTranscript)) => {
                self.run_command(command);
            }
            ChatInput::Command(command) => {
                self.print_command(text);
                self.run_command(command);
            }
            ChatInput::Programs(commands) => {
                self.print_command(text);
                self.spawn_programs(commands);
            }
            ChatInput::Dialog(args) => {
                self.print_command(text);
                self.spawn_dialog(args);
            }
            ChatInput::Mistake(why) => {
                self.notice(&why);
                // Nothing that was typed is lost.
                self.return_text(text);
            }
        }
    }

    /// Shows a command above what it prints. Where lines are only appended, it is there already.
    fn print_command(&mut self, line: &str) {
        if !self.is_plain() {
            let lines = self.transcript.add_command(line.trim());
            self.print(&lines);
        }
    }

    pub(super) fn run_command(&mut self, command: ChatCommand) {
        match command {
            ChatCommand::Help => self.print_help(),
            ChatCommand::Keys => self.print_keys(),
            ChatCommand::Leave => self.leaving = true,
            ChatCommand::New => self.open_new(None),
            ChatCommand::Copy => match self.transcript.last_answer().map(str::to_owned) {
                Some(answer) => match self.config.host.copy_text(&answer) {
                    Ok(()) => self.notice("copied the last answer"),
                    Err(why) => self.notice(&format!("could not copy: {why}")),
                },
                None => self.notice("there is no answer to copy yet"),
            },
            ChatCommand::Model(None) if self.session.choices.models.is_empty() => {
                self.notice("no model is set up; /login does it");
            }
            ChatCommand::Model(None) => {
                let models = self.session.choices.models.clone();
                let current = self.session.handle.info().model;
                self.spawn_picker(models, &current, |model| {
                    TaskOutcome::Chosen(ChatCommand::Model(Some(model)))
                });
            }
            ChatCommand::Model(Some(model)) => {
                self.send_change(SessionChange { model: Some(model), ..SessionChange::default() });
            }
            ChatCommand::Mode(None) => {
                let modes = self.session.choices.modes.clone();
                let current = self.session.mode.effective_mode().to_string();
                self.spawn_picker(modes, &current, |mode| {
                    TaskOutcome::Chosen(ChatCommand::Mode(Some(mode)))
                });
            }
            ChatCommand::Agent(None) => {
                let agents = self.session.choices.agents.clone();
                let current = self.session.handle.info().agent;
                self.spawn_picker(agents, &current, |agent| {
                    TaskOutcome::Chosen(ChatCommand::Agent(Some(agent)))
                });
            }
            ChatCommand::Agent(Some(agent)) => match self.session.choices.agents.contains(&agent) {
                true => self.open_new(Some(agent)),
                false => {
                    let agents = self.session.choices.agents.join(", ");
                    self.notice(&format!("there is no agent `{agent}`; use one of: {agents}"));
                }
            },
            ChatCommand::Rewind => self.spawn_rewind_picker(),
            ChatCommand::Raw => self.toggle_raw(),
            ChatCommand::Theme(None) => {
                let themes = TerminalTheme::ALL.map(|theme| theme.name().to_owned()).to_vec();
                let current = self.config.stream.theme().name();
                self.spawn_picker(themes, current, |theme| {
                    TaskOutcome::Chosen(ChatCommand::Theme(Some(theme)))
                });
            }
            ChatCommand::Theme(Some(theme)) => self.change_theme(&theme),
            ChatCommand::Permissions => self.print_permissions(),
            ChatCommand::LogIn => self.spawn_login(),
            ChatCommand::Mode(Some(mode)) => self.change_mode(&mode),
            ChatCommand::Resume(Some(key)) => self.open_session(OpenRequest {
                key: Some(key),
                require_existing: true,
                ..self.config.open.clone()
            }),
            ChatCommand::Resume(None) => self.spawn_session_picker(),
            ChatCommand::Fork => self.spawn_fork(),
            ChatCommand::ShowTranscript => self.show_transcript(),
        }
    }

    /// Begins a new session, with the agent of this one or another.
    fn open_new(&mut self, agent: Option<String>) {
        let open = self.config.open.clone();
        self.open_session(OpenRequest {
            key: None,
            label: None,
            require_existing: false,
            reset: false,
            agent: agent.or(open.agent.clone()),
            ..open
        });
    }

    fn toggle_raw(&mut self) {
        let is_raw = !self.transcript.options().raw;
        self.transcript.set_raw(is_raw);
        self.config.view.raw = is_raw;
        if let Some(full) = &mut self.full {
            full.view.forget_rows();
        }
        if !is_raw {
            return self.notice("text is rendered again");
        }
        self.notice("text is shown as it was written from now on; /raw ends this");
        // Output that is already on the screen cannot change, so the last answer is printed again.
        if let Some(answer) = self.transcript.last_answer().filter(|_| self.full.is_none()) {
            let answer = zero_terminal::escape_prose(answer.trim_end()).into_owned();
            self.print(&format!("{answer}\n"));
        }
    }

    fn change_theme(&mut self, name: &str) {
        let Ok(theme) = name.parse::<TerminalTheme>() else {
            let names = TerminalTheme::ALL.map(TerminalTheme::name).join(", ");
            return self.notice(&format!("there is no theme `{name}`; use one of: {names}"));
        };
        self.config.stream.set_theme(theme);
        if let Some(full) = &mut self.full {
            full.view.forget_rows();
        }
        match self.config.host.save_theme(theme) {
            Ok(()) => self.notice(&format!("theme: {name}")),
            Err(why) => self.notice(&format!("theme: {name}, for this chat only: {why}")),
        }
    }

    fn change_mode(&mut self, mode: &str) {
        match mode.parse() {
            Ok(mode) => self.spawn_mode(mode),
            Err(_) => {
                let modes = self.session.choices.modes.join(", ");
                self.notice(&format!("there is no mode `{mode}`; use one of: {modes}"));
            }
        }
    }

    /// Shift-Tab: the next mode. `auto` has to be chosen by name.
    pub(super) fn cycle_mode(&mut self) {
        let current = self.session.mode.effective_mode().to_string();
        let at = CYCLED_MODES.iter().position(|mode| *mode == current);
        let next = CYCLED_MODES.iter().cycle().nth(at.map_or(0, |at| at + 1));
        if let Some(mode) = next {
            self.change_mode(mode);
        }
    }

    /// Shows what applies here: the mode with its meaning, then the rules and the grants.
    fn print_permissions(&mut self) {
        let mode = self.session.mode.effective_mode();
        let stream = &self.config.stream;
        let about = format!("mode {mode}: {}; /mode changes it", describe_mode(mode));
        let rows = zero_terminal::wrap_words(&about, stream.window_size().columns);
        self.print_rows_of(&(rows.join("\n") + "\n"));
        let key = self.session.handle.info().session_key;
        self.spawn_programs(vec![
            own_words(&["config", "list", "permissions", "--defaults"]),
            own_words(&["sessions", "grants", &key]),
        ]);
    }

    fn print_help(&mut self) {
        let session = self.session.choices.commands.iter();
        let known = |name: &str| COMMANDS.iter().any(|command| command.name == name);
        let session = session.filter(|command| !known(&command.name)).map(|command| {
            let hint = command.argument_hint.clone().unwrap_or_default();
            (format!("/{} {hint}", command.name), command.description.clone())
        });
        let own = COMMANDS.iter().map(|command| {
            (format!("/{} {}", command.name, command.argument), command.about.to_owned())
        });
        let rows: Vec<(String, String)> = own.chain(session).collect();
        self.print_rows(&rows);
    }

    fn print_keys(&mut self) {
        let rows: Vec<(String, String)> =
            KEYS.iter().map(|(keys, about)| ((*keys).to_owned(), (*about).to_owned())).collect();
        self.print_rows(&rows);
    }

    /// Prints rows of two columns; the second one is below the first where there is no room.
    fn print_rows(&mut self, rows: &[(String, String)]) {
        let stream = &self.config.stream;
        let columns = stream.window_size().columns;
        let left_columns = |left: &str| left.trim_end().chars().count();
        let widths = rows.iter().map(|(left, _)| left_columns(left));
        let widest = widths.filter(|width| *width <= LEFT_COLUMNS_MAX).max().unwrap_or(0);
        let is_wide = columns >= widest + RIGHT_COLUMNS_MIN;
        let indent = if is_wide { widest + 4 } else { 6 };
        let mut text = String::new();
        for (left, right) in rows {
            let (left, right) = (escape_line(left.trim_end()), escape_line(right));
            text.push_str(&format!("  {}", stream.paint(STRONG, &left)));
            let used = left_columns(&left) + 2;
            let parts = zero_terminal::wrap_words(&right, columns.saturating_sub(indent + 1));
            for (at, part) in parts.iter().enumerate() {
                let before = match at {
                    0 if used + 2 <= indent => " ".repeat(indent - used),
                    _ => format!("\n{}", " ".repeat(indent)),
                };
                text.push_str(&format!("{before}{part}"));
            }
            text.push('\n');
        }
        self.print_rows_of(&text);
    }
}
