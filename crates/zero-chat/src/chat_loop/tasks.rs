//! What takes time: requests to the gateway, questions, other programs. Each task ends with a
//! [`TaskOutcome`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use zero_client::wire::PromptInfo;
use zero_client::{ListRequest, OpenRequest, OverlapPolicy, SessionChange};
use zero_core::event::{ApprovalRequest, UserQuestion};
use zero_policy::PermissionMode;
use zero_runtime::{QuestionWithdrawal, WithdrawalNote};
use zero_terminal::key::Key;
use zero_terminal::raw_input::SignalKeys;
use zero_terminal::{AnswerSource, ScreenLease, ScreenOwner as _, TerminalStream, format_age};

use super::{ChatLoop, WatchedRun};
use crate::chat_command::ChatCommand;
use crate::chat_host::ClipboardImage;
use crate::chat_session::{ChatSession, UnfinishedWork};
use crate::chat_transcript::ChatTranscript;
use crate::composer::ComposerEvent;
use crate::screen_lease::ChatScreenOwner;
use crate::session_row::describe_session;

/// Sessions that the picker offers.
const PICKED_MAX: u64 = 500;

/// What a rewind takes back: the word of the command, and what it means.
const REWIND_SCOPES: [(&str, &str); 3] = [
    ("both", "files and conversation"),
    ("conversation", "only the conversation; files stay as they are"),
    ("files", "only files; the model still knows the conversation"),
];

/// How a task ended.
pub(super) enum TaskOutcome {
    /// Nothing needs to be said.
    Done,
    /// The user should know this.
    Notice(String),
    /// What was at the head of the queue arrived, with notes about it.
    Sent(Vec<String>),
    /// It could not be sent.
    Unsent(String),
    /// Another session could not be opened.
    NotOpened(String),
    /// Another session is open.
    Opened(Box<ChatSession>),
    Files(Vec<String>),
    Branch(Option<String>),
    /// What the user wrote in their editor.
    Edited(String),
    /// The image on the clipboard, if there is one.
    Clipboard(Option<ClipboardImage>),
    /// The session that the user picked.
    Picked(String),
    /// A question was answered or withdrawn.
    Answered(String),
    /// A command was completed by a choice.
    Chosen(ChatCommand),
    /// A text that is sent as if it had been typed.
    Typed(String),
    /// Rows of zero's own commands, or why one failed.
    Printed(Result<String, String>),
    /// What commands can do at most.
    Sandbox(String),
    /// A model was set up.
    LoggedIn,
    /// What the user's own program makes of the status.
    StatusLine(Option<Result<String, String>>),
}

/// A question of the gateway that waits for its answer.
pub(super) struct ShownQuestion {
    withdrawal: WithdrawalNote,
    task: AbortHandle,
}

impl ChatLoop {
    pub(super) fn handle_task(&mut self, outcome: TaskOutcome) {
        match outcome {
            TaskOutcome::Done => {}
            TaskOutcome::Notice(text) => self.notice(&text),
            TaskOutcome::Sent(notes) => self.handle_sent(notes),
            TaskOutcome::Unsent(why) => self.handle_unsent(&why),
            TaskOutcome::NotOpened(why) => self.handle_not_opened(&why),
            TaskOutcome::Opened(session) => self.switch_to(*session),
            TaskOutcome::Files(files) => {
                self.is_listing_files = false;
                self.files = Some(files);
                self.refresh_menu();
                self.apply_waiting_enter();
            }
            TaskOutcome::Branch(branch) => self.status.branch = branch,
            TaskOutcome::Edited(text) => {
                self.composer.set_text(text.trim_end_matches('\n'));
                self.note_edit();
            }
            TaskOutcome::Clipboard(image) => self.insert_image(image),
            TaskOutcome::Picked(key) => self.open_session(OpenRequest {
                key: Some(key),
                require_existing: true,
                ..self.config.open.clone()
            }),
            TaskOutcome::Answered(id) => {
                self.questions.remove(&id);
                self.focus.note_key();
            }
            TaskOutcome::Chosen(command) => self.run_command(command),
            TaskOutcome::Typed(text) => self.submit(&text, OverlapPolicy::Queue),
            TaskOutcome::Printed(printed) => {
                match printed {
                    Ok(rows) => self.print_rows_of(&rows),
                    Err(why) => self.notice(&why),
                }
                self.run_next_programs();
            }
            TaskOutcome::Sandbox(state) => self.status.facts.sandbox = state,
            TaskOutcome::LoggedIn => self.run_command(ChatCommand::New),
            TaskOutcome::StatusLine(line) => self.set_status_line(line),
        }
        self.paint_soon();
    }

    /// Puts a text that was not sent back into the input, before what is there.
    pub(super) fn return_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let now = self.composer.text();
        let both = if now.is_empty() { text.to_owned() } else { format!("{text}\n\n{now}") };
        self.composer.set_text(&both);
        self.note_edit();
    }

    fn switch_to(&mut self, session: ChatSession) {
        let waiting = self.transcript.queued_count();
        let runs = self.unfinished_runs();
        let rest = self.transcript.finish();
        self.print(&rest);
        let before = std::mem::replace(&mut self.session, session);
        let stopped = self.active_run.take().is_some();
        self.tasks.spawn(async move {
            for run in runs {
                // It would go on without tools.
                let _ = before.handle.abort(&run).await;
            }
            before.handle.leave().await;
            TaskOutcome::Done
        });
        for (_, question) in self.questions.drain() {
            question.task.abort();
        }
        self.transcript = ChatTranscript::new(&self.config.stream, self.config.view)
            .with_error_text(self.config.error_text);
        if let Some(full) = &mut self.full {
            full.view.forget_rows();
        }
        let header = super::header(&self.config, &self.session);
        let mut text = format!("\n{}", self.transcript.add_printed(&header));
        for event in &self.session.history {
            text.push_str(&self.transcript.apply(event));
        }
        self.print(&text);
        if stopped {
            let others = match waiting {
                0 => String::new(),
                1 => " and the prompt that waited".to_owned(),
                count => format!(" and the {count} prompts that waited"),
            };
            self.notice(&format!(
                "the run of the session before is stopped{others}; /resume goes back to that session"
            ));
        }
        self.spawn_status_program();
        self.show_unfinished_work();
        self.handle_opened();
    }

    /// The runs of the session that have not ended, those that wait first: none begins while the others
    /// are stopped.
    pub(super) fn unfinished_runs(&self) -> Vec<String> {
        let queued = self.transcript.queued_runs().map(|run| run.as_str().to_owned());
        queued.chain(self.active_run.iter().map(|run| run.id.clone())).collect()
    }

    /// Takes up the run that answers in a session that was opened, and its questions.
    pub(super) fn show_unfinished_work(&mut self) {
        let UnfinishedWork { run, questions, approvals } = self.session.unfinished_work();
        self.active_run =
            run.map(|run| WatchedRun { id: run.as_str().to_owned(), since: Instant::now() });
        questions.into_iter().for_each(|question| self.spawn_question(question));
        approvals.into_iter().for_each(|request| self.spawn_approval(request));
    }

    /// Changes the permission mode of this session.
    pub(super) fn spawn_mode(&mut self, mode: PermissionMode) {
        let (handle, own) = (self.session.handle.clone(), Arc::clone(&self.session.mode));
        let backend = Arc::clone(&self.session.backend);
        let before = own.choose(mode);
        self.tasks.spawn(async move {
            let change = SessionChange { mode: Some(mode), ..SessionChange::default() };
            let problem = match handle.change(change).await {
                Ok(info) => {
                    own.confirm_stored(info.last_seq);
                    None
                }
                Err(error) => {
                    own.revert_choice(mode, before);
                    Some(error.to_string())
                }
            };
            let applied = backend.set_mode(Some(own.chosen_mode())).await;
            match problem.or_else(|| applied.err().map(|error| error.to_string())) {
                Some(why) => TaskOutcome::Notice(format!("the mode was not changed: {why}")),
                None => TaskOutcome::Done,
            }
        });
    }

    /// Applies a mode that the ledger says was chosen.
    pub(super) fn spawn_ledger_mode(&mut self, mode: Option<&str>, seq: u64) {
        let own = Arc::clone(&self.session.mode);
        own.apply_ledger_mode(mode.and_then(|mode| mode.parse().ok()), seq);
        let backend = Arc::clone(&self.session.backend);
        self.tasks.spawn(async move {
            match backend.set_mode(Some(own.chosen_mode())).await {
                Ok(()) => TaskOutcome::Done,
                Err(error) => TaskOutcome::Notice(error.to_string()),
            }
        });
    }

    pub(super) fn spawn_abort(&mut self, run: String) {
        let handle = self.session.handle.clone();
        self.tasks.spawn(async move {
            match handle.abort(&run).await {
                Ok(()) => TaskOutcome::Done,
                Err(error) => TaskOutcome::Notice(format!("could not stop the run: {error}")),
            }
        });
    }

    pub(super) fn spawn_fork(&mut self) {
        let key = self.session.handle.info().session_key;
        let link = self.config.link.clone();
        let copy = self.config.host.new_session_name();
        self.tasks.spawn(async move {
            match link.fork(&key, &copy, None).await {
                Ok(copy) => TaskOutcome::Picked(copy),
                Err(error) => TaskOutcome::Notice(format!("could not copy the session: {error}")),
            }
        });
    }

    pub(super) fn spawn_question(&mut self, question: UserQuestion) {
        let (handle, host) = (self.session.handle.clone(), Arc::clone(&self.config.host));
        let (turn, withdrawal) = (self.turn.clone(), WithdrawalNote::default());
        let (id, note) = (question.id.clone(), withdrawal.clone());
        let answered = id.clone();
        let task = self.tasks.spawn(async move {
            let (action, content) = host.ask_question(question, note, &turn).await;
            if let Err(error) = handle.resolve_question(&answered, action, content).await {
                return TaskOutcome::Notice(format!("the answer was not sent: {error}"));
            }
            TaskOutcome::Answered(answered)
        });
        self.questions.insert(id, ShownQuestion { withdrawal, task });
    }

    pub(super) fn spawn_approval(&mut self, request: ApprovalRequest) {
        let (handle, host) = (self.session.handle.clone(), Arc::clone(&self.config.host));
        let (turn, withdrawal) = (self.turn.clone(), WithdrawalNote::default());
        let (id, note) = (request.id.clone(), withdrawal.clone());
        let answered = id.clone();
        let task = self.tasks.spawn(async move {
            let answer = host.ask_approval(request, note, &turn).await;
            if let Err(error) = handle.resolve_approval(&answered, answer).await {
                return TaskOutcome::Notice(format!("the answer was not sent: {error}"));
            }
            TaskOutcome::Answered(answered)
        });
        self.questions.insert(id, ShownQuestion { withdrawal, task });
    }

    /// Takes a question off the screen that was answered elsewhere.
    pub(super) fn withdraw_question(&mut self, id: &str, answer: &str) {
        if let Some(question) = self.questions.remove(id) {
            question.withdrawal.set(match answer {
                "cancelled" | "cancel" => QuestionWithdrawal::CallCancelled,
                "expired" => QuestionWithdrawal::Expired,
                _ => QuestionWithdrawal::AnsweredElsewhere,
            });
            question.task.abort();
        }
    }

    /// Runs commands of zero, one after the other, and shows their output.
    pub(super) fn spawn_programs(&mut self, commands: Vec<Vec<String>>) {
        self.programs.push_back(commands);
        if !self.runs_program {
            self.run_next_programs();
        }
    }

    /// Runs what was typed first: one may depend on what the other stores.
    fn run_next_programs(&mut self) {
        let next = self.programs.pop_front();
        self.runs_program = next.is_some();
        let Some(commands) = next else { return };
        let host = Arc::clone(&self.config.host);
        self.tasks.spawn(async move {
            let mut rows = String::new();
            for args in commands {
                match host.run_command(args).await {
                    Ok(output) => rows.push_str(&output),
                    Err(why) => return TaskOutcome::Printed(Err(rows + &why)),
                }
            }
            TaskOutcome::Printed(Ok(rows))
        });
    }

    /// Runs a command of zero that asks, on the screen.
    pub(super) fn spawn_dialog(&mut self, args: Vec<String>) {
        self.spawn_dialog_then(args, TaskOutcome::Done);
    }

    /// Lets the user set up a model, and begins a session with it.
    pub(super) fn spawn_login(&mut self) {
        self.spawn_dialog_then(vec!["login".to_owned()], TaskOutcome::LoggedIn);
    }

    fn spawn_dialog_then(&mut self, args: Vec<String>, done: TaskOutcome) {
        let (owner, host) = (Arc::clone(&self.owner), Arc::clone(&self.config.host));
        // On the alternate screen, the output would be gone at once.
        let pause = self.config.fullscreen.then(|| self.picker());
        self.tasks.spawn(async move {
            let lease = owner.lease_screen(None).await;
            let ended = host.run_dialog(args).await;
            if let Some(picker) = pause {
                picker.wait_for_key(lease).await;
            }
            match ended {
                Ok(()) => done,
                Err(why) => TaskOutcome::Notice(why),
            }
        });
    }

    /// Lets the user edit the prompt in their editor.
    pub(super) fn edit_in_editor(&mut self) {
        let (owner, host) = (Arc::clone(&self.owner), Arc::clone(&self.config.host));
        let text = self.composer.text();
        self.tasks.spawn(async move {
            let _lease = owner.lease_screen(None).await;
            match host.edit_text(&text).await {
                Ok(edited) => TaskOutcome::Edited(edited),
                Err(why) => TaskOutcome::Notice(why),
            }
        });
    }

    /// Looks for an image on the clipboard.
    pub(super) fn spawn_clipboard_read(&mut self) {
        let host = Arc::clone(&self.config.host);
        self.tasks.spawn(async move {
            match host.read_clipboard_image().await {
                Ok(image) => TaskOutcome::Clipboard(image),
                Err(why) => TaskOutcome::Notice(why),
            }
        });
    }

    fn insert_image(&mut self, image: Option<ClipboardImage>) {
        let Some(image) = image else {
            let hint = "there is no image on the clipboard; your terminal's own key pastes text";
            self.status.hint = Some(hint.to_owned());
            return;
        };
        let mark = self.images.add(image);
        match self.composer.paste(&format!("{mark} ")) {
            ComposerEvent::Refused => self.refuse_text(),
            _ => self.note_edit(),
        }
    }

    /// Lets the user pick a session of the folder.
    pub(super) fn spawn_session_picker(&mut self) {
        let (picker, link) = (self.picker(), self.config.link.clone());
        let current = self.session.handle.info();
        self.tasks.spawn(async move {
            let request = ListRequest { cwd: current.cwd, offset: 0, limit: PICKED_MAX };
            let sessions = match link.list(request).await {
                Ok(list) => list.sessions,
                Err(error) => return TaskOutcome::Notice(error.to_string()),
            };
            let others: Vec<_> = sessions
                .into_iter()
                .filter(|session| session.session_key != current.session_key)
                .collect();
            if others.is_empty() {
                return TaskOutcome::Notice("there is no other session of this folder".to_owned());
            }
            let now = zero_client::now_ms();
            let rows = others.iter().map(|session| describe_session(session, now)).collect();
            match picker.pick(rows).await {
                Ok(Some(at)) => match others.get(at) {
                    Some(session) => TaskOutcome::Picked(session.session_key.clone()),
                    None => TaskOutcome::Done,
                },
                Ok(None) => TaskOutcome::Done,
                Err(why) => TaskOutcome::Notice(why),
            }
        });
    }

    /// Lets the user choose one of some names.
    pub(super) fn spawn_picker(
        &mut self,
        names: Vec<String>,
        current: &str,
        chosen: impl FnOnce(String) -> TaskOutcome + Send + 'static,
    ) {
        let picker = self.picker();
        let current = names.iter().position(|name| name == current);
        let mark = |(at, name): (usize, &String)| match current == Some(at) {
            true => format!("{name}  (current)"),
            false => name.clone(),
        };
        let rows: Vec<String> = names.iter().enumerate().map(mark).collect();
        self.tasks.spawn(async move {
            match picker.pick_from(rows, current).await {
                Ok(Some(at)) => names.into_iter().nth(at).map_or(TaskOutcome::Done, chosen),
                Ok(None) => TaskOutcome::Done,
                Err(why) => TaskOutcome::Notice(why),
            }
        });
    }

    /// Lets the user pick a prompt, and what to take back to before it.
    pub(super) fn spawn_rewind_picker(&mut self) {
        let (picker, handle) = (self.picker(), self.session.handle.clone());
        self.tasks.spawn(async move {
            let prompts = match handle.prompts(PICKED_MAX).await {
                Ok(prompts) => prompts,
                Err(error) => return TaskOutcome::Notice(error.to_string()),
            };
            let now = zero_client::now_ms();
            // The newest first: most often, it is the last one that went wrong.
            let mut offered: Vec<_> =
                prompts.into_iter().filter(|prompt| prompt.in_effect).collect();
            offered.reverse();
            if offered.is_empty() {
                return TaskOutcome::Notice("there is no prompt to go back to yet".to_owned());
            }
            let rows = offered.iter().map(|prompt| describe_prompt(prompt, now)).collect();
            let number = match picker.pick(rows).await {
                Ok(Some(at)) => offered.get(at).map(|prompt| prompt.number),
                Ok(None) => None,
                Err(why) => return TaskOutcome::Notice(why),
            };
            let Some(number) = number else { return TaskOutcome::Done };
            let scopes = REWIND_SCOPES.map(|(_, about)| about.to_owned()).to_vec();
            match picker.pick(scopes).await {
                Ok(Some(at)) => match REWIND_SCOPES.get(at) {
                    Some((scope, _)) => TaskOutcome::Typed(format!("/rewind {number} {scope}")),
                    None => TaskOutcome::Done,
                },
                Ok(None) => TaskOutcome::Done,
                Err(why) => TaskOutcome::Notice(why),
            }
        });
    }

    fn picker(&self) -> RowPicker {
        RowPicker {
            owner: Arc::clone(&self.owner),
            stream: self.config.stream.clone(),
            keys: self.config.keys.clone(),
        }
    }

    /// Looks for models that could be set up, if there is none.
    pub(super) fn spawn_model_search(&mut self) {
        if self.session.handle.info().model != crate::chat_session::DIRECT {
            return;
        }
        let host = Arc::clone(&self.config.host);
        self.tasks.spawn(async move {
            let found = host.find_models().await;
            match found.is_empty() {
                true => TaskOutcome::Done,
                false => TaskOutcome::Notice(format!(
                    "found {}; to use it, run /login",
                    found.join(", ")
                )),
            }
        });
    }

    /// Lets the user's own program make the status line, if there is one.
    pub(super) fn spawn_status_program(&mut self) {
        if !self.status.facts.has_program || self.is_status_asked {
            self.is_status_stale = self.is_status_asked;
            return;
        }
        (self.is_status_asked, self.is_status_stale) = (true, false);
        self.refresh_status();
        let status = self.status.to_json(&self.session.handle.info().session_key);
        let host = Arc::clone(&self.config.host);
        self.tasks
            .spawn(async move { TaskOutcome::StatusLine(host.run_status_program(status).await) });
    }

    fn set_status_line(&mut self, line: Option<Result<String, String>>) {
        self.is_status_asked = false;
        match line {
            Some(Ok(line)) => self.status.program_line = Some(line),
            Some(Err(why)) => {
                // It would fail again and again.
                self.status.facts.has_program = false;
                self.status.program_line = None;
                self.notice(&format!("the program of the status line is not run again: {why}"));
            }
            None => self.status.facts.has_program = false,
        }
        if self.is_status_stale {
            self.spawn_status_program();
        }
    }

    pub(super) fn spawn_file_listing(&mut self) {
        self.is_listing_files = true;
        let host = Arc::clone(&self.config.host);
        self.tasks.spawn(async move { TaskOutcome::Files(host.list_files().await) });
    }

    pub(super) fn spawn_branch_lookup(&mut self) {
        let host = Arc::clone(&self.config.host);
        self.tasks.spawn(async move { TaskOutcome::Branch(host.current_branch().await) });
    }

    pub(super) fn spawn_sandbox_lookup(&mut self) {
        let host = Arc::clone(&self.config.host);
        self.tasks.spawn(async move { TaskOutcome::Sandbox(host.sandbox_state().await) });
    }

    pub(super) fn spawn_draft(&mut self) {
        let (host, text) = (Arc::clone(&self.config.host), self.composer.text());
        self.tasks.spawn_blocking(move || {
            host.save_draft(&text);
            TaskOutcome::Done
        });
    }

    pub(super) fn spawn_history(&mut self, text: String) {
        let host = Arc::clone(&self.config.host);
        self.tasks.spawn_blocking(move || {
            host.add_history(&text);
            TaskOutcome::Done
        });
    }
}

/// Shows rows to choose from, on the screen of the chat.
struct RowPicker {
    owner: Arc<ChatScreenOwner>,
    stream: TerminalStream,
    keys: AnswerSource,
}

impl RowPicker {
    /// The number of the row that the user chose, if any; else why the rows could not be shown.
    async fn pick(&self, rows: Vec<String>) -> Result<Option<usize>, String> {
        self.pick_from(rows, None).await
    }

    /// The same, with the cursor at the current choice.
    async fn pick_from(
        &self,
        rows: Vec<String>,
        current: Option<usize>,
    ) -> Result<Option<usize>, String> {
        let lease = self.owner.lease_screen(None).await;
        let (stream, keys) = (self.stream.clone(), self.keys.clone());
        let chosen = tokio::task::spawn_blocking(move || {
            // Given back when the choice is made.
            let _lease = lease;
            let keys = keys.open_keys(SignalKeys::AreRead)?;
            zero_terminal::filter_list::choose_row(&stream, &keys, &rows, current)
        });
        match chosen.await {
            Ok(Ok(chosen)) => Ok(chosen),
            Ok(Err(error)) => Err(format!("could not show the list: {error}")),
            Err(_) => Ok(None),
        }
    }

    /// Waits until the user has read what is on the screen.
    async fn wait_for_key(&self, lease: ScreenLease) {
        let (stream, keys) = (self.stream.clone(), self.keys.clone());
        let read = tokio::task::spawn_blocking(move || -> io::Result<()> {
            let _lease = lease;
            stream.write("press a key to return to the chat ")?;
            let keys = keys.open_keys(SignalKeys::AreRead)?;
            while keys.next_key()? == Some(Key::Repaint) {}
            Ok(())
        });
        // Without a keyboard, there is no user who reads it.
        let _ = read.await;
    }
}

/// One line about a prompt.
fn describe_prompt(prompt: &PromptInfo, now_ms: i64) -> String {
    let age = now_ms.saturating_sub(prompt.time_ms).max(0).unsigned_abs();
    let age = format_age(Duration::from_millis(age));
    let count = |count: u64, what: &str| match count {
        0 => String::new(),
        1 => format!(", 1 {what}"),
        count => format!(", {count} {what}s"),
    };
    let (files, commands) = (count(prompt.files, "file"), count(prompt.commands, "command"));
    format!("{age:>6} ago  {}  {}{files}{commands}", prompt.number, prompt.words)
}
