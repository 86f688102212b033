//! The loop of a chat: keys, updates of the session, questions and paints, one after the other.
//!
//! Nothing here waits for the gateway, a tool or a file: what takes time is a task, whose result
//! comes back as a [`TaskOutcome`]. So the user can type at any moment.

mod commands;
mod full_view;
mod input;
mod tasks;
mod updates;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use zero_client::SessionChange;
use zero_terminal::live_area::CursorPosition;
use zero_terminal::{ElapsedCounter, PromptTurn, STRONG};

use self::full_view::FullView;
use self::tasks::{ShownQuestion, TaskOutcome};
use crate::chat::{ChatConfig, ChatEnd, ChatError};
use crate::chat_session::{ChatSession, DIRECT};
use crate::chat_transcript::ChatTranscript;
use crate::completion_menu::CompletionMenu;
use crate::composer::Composer;
use crate::inline_screen::{CursorDisplay, InlineScreen, live_rows_max};
use crate::keyboard::Keyboard;
use crate::screen_lease::{self, ChatScreenOwner, LeaseRequest, LentScreen};
use crate::status_line::StatusLine;
use crate::stream_writer::StreamWriter;
use crate::terminal_modes::TerminalModes;

/// Shortest time between two paints that nobody waits for.
const PAINT_INTERVAL: Duration = Duration::from_millis(16);
/// How often the time of a running call is counted.
const TICK: Duration = Duration::from_secs(1);
/// How long after the last key the draft is kept.
const DRAFT_WAIT: Duration = Duration::from_millis(500);
/// How soon the same key has to be pressed again to count as pressed twice.
const TWICE_WAIT: Duration = Duration::from_secs(2);
/// How long the window has to keep its size before the terminal's own cursor is shown.
const STILL_AFTER: Duration = Duration::from_millis(500);
/// How long after a key somebody counts as typing.
const TYPING_WAIT: Duration = Duration::from_secs(1);
/// Mark before the text that the user types.
const PROMPT_MARK: &str = "› ";
const PLAIN_PROMPT_MARK: &str = "> ";

/// A chat that runs.
pub(crate) struct ChatLoop {
    config: ChatConfig,
    session: ChatSession,
    transcript: ChatTranscript,
    composer: Composer,
    menu: CompletionMenu,
    status: StatusLine,
    screen: InlineScreen<StreamWriter>,
    /// The transcript on the alternate screen, while it is there.
    full: Option<FullView>,
    /// The keyboard and the modes of the terminal; `None` while the screen is lent.
    keyboard: Option<(Keyboard, TerminalModes)>,
    /// Finished lines that are not on the screen yet.
    finished: String,
    owner: Arc<ChatScreenOwner>,
    leases: mpsc::Receiver<LeaseRequest>,
    lent_screen: Option<LentScreen>,
    turn: PromptTurn,
    tasks: JoinSet<TaskOutcome>,
    /// Questions of the gateway that are on the screen or wait for it.
    questions: HashMap<String, ShownQuestion>,
    /// Stops what belongs to the chat when it ends.
    cancel: CancellationToken,
    /// The run that answers now, and since when.
    active_run: Option<ActiveRun>,
    /// Files of the folder, once somebody typed `@`.
    files: Option<Vec<String>>,
    is_listing_files: bool,
    /// When to paint next; `None` if nothing changed.
    paint_at: Option<Instant>,
    last_paint: Instant,
    draft_at: Option<Instant>,
    /// When the window changed last.
    resized_at: Instant,
    /// The key that means more if it is pressed again soon.
    pressed: Option<(RepeatKey, Instant)>,
    /// When a key was pressed last.
    typed_at: Option<Instant>,
    /// Prompts that are being sent, with their numbers.
    sending: Vec<(u64, String)>,
    /// Prompts that wait until another session is open.
    held_prompts: Vec<(String, zero_client::OverlapPolicy)>,
    is_opening: bool,
    /// Whether the user's own program makes the status line now, and whether it has to do so again.
    is_status_asked: bool,
    is_status_stale: bool,
    is_focused: bool,
    was_used: bool,
    leaving: bool,
}

/// A run that has not ended.
struct ActiveRun {
    id: String,
    since: Instant,
}

/// A key that means something else when it is pressed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RepeatKey {
    Interrupt,
    Escape,
}

/// What happened next.
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum ChatEvent {
    Input(Option<zero_terminal::input_event::InputEvent>),
    Update(Option<zero_client::GatewayUpdate>),
    Lease(LeaseRequest),
    Returned,
    Task(TaskOutcome),
    Resized,
    Interrupted,
    Hangup,
    Paint,
    Tick,
    KeepDraft,
}

impl ChatLoop {
    /// Opens the session and takes over the terminal.
    pub(crate) async fn start(config: ChatConfig) -> Result<Self, ChatError> {
        let (owner, leases) = screen_lease::channel();
        let owner = Arc::new(owner);
        let turn = PromptTurn::new(ElapsedCounter::new(&config.stream))
            .with_signal(config.signals.question.clone())
            .with_owner(Arc::clone(&owner) as _);
        let session =
            ChatSession::open(&config.link, &*config.host, config.open.clone(), &turn).await?;
        if config.change != SessionChange::default() {
            session.handle.change(config.change.clone()).await?;
        }
        let size = config.stream.true_window_size();
        let screen = InlineScreen::new(StreamWriter::new(&config.stream), size, config.terminal);
        let mut transcript =
            ChatTranscript::new(&config.stream, config.view).with_error_text(config.error_text);
        let mut finished = transcript.add_printed(&header(&config, &session));
        for event in &session.history {
            finished.push_str(&transcript.apply(event));
        }
        let mut composer = Composer::new(config.host.load_history(), config.edit_mode);
        if let Some(draft) = config.host.load_draft() {
            composer.set_text(&draft);
        }
        let keyboard = open_keyboard(&config)?;
        let mut chat = Self {
            session,
            transcript,
            composer,
            menu: CompletionMenu::default(),
            status: StatusLine {
                folder: config.folder.clone(),
                is_ascii: config.view.plain || config.view.ascii,
                facts: config.facts.clone(),
                ..StatusLine::default()
            },
            screen,
            full: None,
            keyboard: Some(keyboard),
            finished,
            owner,
            leases,
            lent_screen: None,
            turn,
            tasks: JoinSet::new(),
            questions: HashMap::new(),
            cancel: CancellationToken::new(),
            active_run: None,
            files: None,
            is_listing_files: false,
            paint_at: Some(Instant::now()),
            last_paint: Instant::now(),
            draft_at: None,
            resized_at: Instant::now(),
            pressed: None,
            typed_at: None,
            sending: Vec::new(),
            held_prompts: Vec::new(),
            is_opening: false,
            is_status_asked: false,
            is_status_stale: false,
            is_focused: true,
            was_used: false,
            leaving: false,
            config,
        };
        if chat.config.fullscreen {
            chat.enter_full_screen()?;
        }
        chat.spawn_branch_lookup();
        chat.spawn_sandbox_lookup();
        chat.spawn_status_program();
        chat.spawn_model_search();
        chat.take_up_open_matters();
        if let Some(prompt) = chat.config.prompt.take() {
            chat.submit(&prompt, zero_client::OverlapPolicy::Queue);
        }
        Ok(chat)
    }

    /// Runs until the user leaves or the terminal is gone.
    pub(crate) async fn run(mut self) -> Result<ChatEnd, ChatError> {
        let mut resized = signal(SignalKind::window_change())?;
        let mut end_signals = EndSignals::new()?;
        // A terminal that fails ends the chat, and not the care for its session.
        let mut failure = None;
        while !self.leaving && failure.is_none() {
            let event = self.next_event(&mut resized, &mut end_signals).await;
            failure = self.handle(event).err();
        }
        let end = self.close().await;
        match failure {
            Some(error) => Err(error.into()),
            None => end,
        }
    }

    async fn next_event(
        &mut self,
        resized: &mut Signal,
        end_signals: &mut EndSignals,
    ) -> ChatEvent {
        let never = || Instant::now() + Duration::from_secs(24 * 60 * 60);
        let (paint_at, draft_at) = (self.paint_at, self.draft_at);
        let tick_at = self.last_paint + TICK;
        let is_ticking = self.transcript.is_running() && self.lent_screen.is_none();
        let is_lent = self.lent_screen.is_some();
        tokio::select! {
            input = async {
                match &mut self.keyboard {
                    Some((keyboard, _)) => keyboard.next().await,
                    None => std::future::pending().await,
                }
            } => ChatEvent::Input(input),
            update = self.session.updates.next() => ChatEvent::Update(update),
            Some(request) = self.leases.recv(), if !is_lent => ChatEvent::Lease(request),
            () = async {
                match &mut self.lent_screen {
                    Some(lent_screen) => lent_screen.wait().await,
                    None => std::future::pending().await,
                }
            } => ChatEvent::Returned,
            Some(done) = self.tasks.join_next() => match done {
                Ok(outcome) => ChatEvent::Task(outcome),
                // A question that was withdrawn.
                Err(error) if error.is_cancelled() => ChatEvent::Task(TaskOutcome::Done),
                Err(error) => ChatEvent::Task(TaskOutcome::Notice(format!("a task failed: {error}"))),
            },
            _ = resized.recv() => ChatEvent::Resized,
            event = end_signals.wait() => event,
            () = sleep_until(paint_at.unwrap_or_else(never)), if paint_at.is_some() && !is_lent => {
                ChatEvent::Paint
            }
            () = sleep_until(draft_at.unwrap_or_else(never)), if draft_at.is_some() => {
                ChatEvent::KeepDraft
            }
            () = sleep_until(tick_at), if is_ticking => ChatEvent::Tick,
        }
    }

    fn handle(&mut self, event: ChatEvent) -> io::Result<()> {
        match event {
            ChatEvent::Input(Some(event)) => self.handle_input(event),
            // The terminal is gone.
            ChatEvent::Input(None) | ChatEvent::Hangup => self.leaving = true,
            // At a question, or while another command has the screen.
            ChatEvent::Interrupted => {
                self.stop_run();
            }
            ChatEvent::Update(Some(update)) => self.handle_update(update),
            ChatEvent::Update(None) => self.leaving = true,
            ChatEvent::Lease(request) => self.lend_screen(request)?,
            ChatEvent::Returned => self.take_screen_back()?,
            ChatEvent::Task(outcome) => self.handle_task(outcome),
            ChatEvent::Resized => {
                if self.lent_screen.is_none() {
                    let size = self.config.stream.true_window_size();
                    self.resized_at = Instant::now();
                    match &mut self.full {
                        Some(full) => full.screen.resize(size),
                        None => self.screen.resize(size)?,
                    }
                    self.paint()?;
                }
            }
            ChatEvent::Paint | ChatEvent::Tick => self.paint()?,
            ChatEvent::KeepDraft => {
                self.draft_at = None;
                self.spawn_draft();
            }
        }
        Ok(())
    }

    /// Paints soon; more changes until then cost nothing.
    fn paint_soon(&mut self) {
        let at = self.last_paint + PAINT_INTERVAL;
        self.paint_at = Some(self.paint_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Adds lines that are finished to the scrollback.
    fn print(&mut self, lines: &str) {
        if !lines.is_empty() {
            self.finished.push_str(lines);
            self.paint_soon();
        }
    }

    /// Tells the user something.
    fn notice(&mut self, text: &str) {
        let lines = self.transcript.add_note(text);
        self.print(&lines);
        self.paint_soon();
    }

    /// Shows rows of one of zero's own commands.
    fn print_rows_of(&mut self, rows: &str) {
        let lines = self.transcript.add_printed(rows);
        self.print(&lines);
        self.paint_soon();
    }

    fn paint(&mut self) -> io::Result<()> {
        if self.lent_screen.is_some() {
            return Ok(());
        }
        self.paint_at = None;
        self.last_paint = Instant::now();
        if self.full.is_some() {
            return self.paint_full();
        }
        let (rows, cursor) = self.render_live_area();
        let finished = std::mem::take(&mut self.finished);
        // Input methods need the terminal's own cursor; it stands in the way of a window that changes.
        let is_still = !self.transcript.is_running() && self.resized_at.elapsed() > STILL_AFTER;
        let display = if is_still { CursorDisplay::Real } else { CursorDisplay::Drawn };
        self.screen.set_cursor_display(display);
        self.screen.update(&finished, &rows, Some(cursor))
    }

    /// The rows below the scrollback: what runs, what the user types, suggestions, the status.
    fn render_live_area(&mut self) -> (Vec<String>, CursorPosition) {
        let stream = &self.config.stream;
        let size = stream.true_window_size();
        let columns = size.columns.saturating_sub(1);
        let rows_max = live_rows_max(size);
        let is_ascii = self.config.view.plain || self.config.view.ascii;
        let mark = if is_ascii { PLAIN_PROMPT_MARK } else { PROMPT_MARK };
        let mark_columns = mark.chars().count();
        let layout = self
            .composer
            .layout(columns.saturating_sub(mark_columns), rows_max.saturating_sub(1).max(1));
        let menu = self.menu.render(
            stream,
            columns,
            rows_max.saturating_sub(layout.rows.len() + 1),
            is_ascii,
        );
        let left = rows_max.saturating_sub(layout.rows.len() + menu.len() + 2);
        let mut rows = self.transcript.live_rows(columns, left, zero_client::now_ms());
        // What the user types is set off from what was said, where there is room.
        if rows_max > layout.rows.len() + menu.len() + 1 {
            rows.push(String::new());
        }
        let first = rows.len();
        for (at, row) in layout.rows.iter().enumerate() {
            let mark = match at {
                0 => stream.paint(STRONG, mark).into_owned(),
                _ => " ".repeat(mark_columns),
            };
            rows.push(format!("{mark}{row}"));
        }
        rows.extend(menu);
        self.refresh_status();
        rows.push(self.status.render(&self.config.stream, columns));
        let cursor = CursorPosition {
            row: first + layout.cursor.row,
            column: mark_columns + layout.cursor.column,
        };
        (rows, cursor)
    }

    fn refresh_status(&mut self) {
        let info = self.session.handle.info();
        let usage = self.transcript.usage();
        self.status.model = self.transcript.model().map_or(info.model, str::to_owned);
        self.status.mode = self.session.mode.effective_mode().to_string();
        self.status.queued = self.transcript.queued_count();
        let is_known = usage.context_window > 0;
        let (tokens, window) = match is_known {
            true => (Some(usage.context_tokens), Some(usage.context_window)),
            false => (info.context_tokens, info.context_window),
        };
        self.status.context_percent = tokens
            .zip(window)
            .and_then(|(tokens, window)| tokens.saturating_mul(100).checked_div(window));
        self.status.cost = usage.total.cost_usd;
        self.status.editor = self.composer.mode_label();
        self.status.is_running = self.active_run.is_some();
    }

    fn lend_screen(&mut self, request: LeaseRequest) -> io::Result<()> {
        // Somebody who types must not answer a question that appears meanwhile.
        let is_typing = self.typed_at.is_some_and(|at| at.elapsed() < TYPING_WAIT);
        self.turn.set_typing(is_typing);
        if self.config.fullscreen {
            self.lend_full_screen()?;
            self.keyboard = None;
            self.lent_screen = Some(request.grant());
            return Ok(());
        }
        self.leave_transcript();
        self.screen.suspend()?;
        // Lines that were finished before the question belong above it.
        let finished = std::mem::take(&mut self.finished);
        self.config.stream.write(&finished)?;
        self.keyboard = None;
        self.lent_screen = Some(request.grant());
        Ok(())
    }

    fn take_screen_back(&mut self) -> io::Result<()> {
        self.lent_screen = None;
        self.keyboard = Some(open_keyboard(&self.config)?);
        let size = self.config.stream.true_window_size();
        match &mut self.full {
            Some(full) => full.screen.resume(size)?,
            None => self.screen.resize(size)?,
        }
        self.paint()
    }

    async fn close(mut self) -> Result<ChatEnd, ChatError> {
        self.cancel.cancel();
        let rest = self.transcript.finish();
        let finished = match self.config.fullscreen {
            true => self.last_rows(),
            false => std::mem::take(&mut self.finished) + &rest,
        };
        self.full = None;
        // A terminal that is gone cannot be restored.
        let _ = self.screen.update(&finished, &[], None);
        let _ = self.screen.leave();
        self.keyboard = None;
        let unsent = self.finish_sending().await;
        self.tasks.shutdown().await;
        let text = [unsent, vec![self.composer.text()]].concat();
        let text: Vec<&str> =
            text.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        self.config.host.save_draft(&text.join("\n\n"));
        if let Some(run) = &self.active_run {
            // The run would wait for tools that are gone.
            let _ = self.session.handle.abort(&run.id).await;
        }
        let session_key = self.session.handle.info().session_key;
        self.session.handle.leave().await;
        let was_used = self.was_used || !self.session.history.is_empty();
        if !was_used && self.session.handle.info().last_seq == 0 {
            // Nobody will want to continue it.
            let _ = self.config.link.delete(&session_key).await;
        }
        Ok(ChatEnd { session_key, was_used })
    }
}

/// The signals that end a chat.
struct EndSignals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl EndSignals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    async fn wait(&mut self) -> ChatEvent {
        tokio::select! {
            _ = self.hangup.recv() => ChatEvent::Hangup,
            _ = self.terminate.recv() => ChatEvent::Hangup,
            _ = self.interrupt.recv() => ChatEvent::Interrupted,
            _ = self.quit.recv() => ChatEvent::Interrupted,
        }
    }
}

fn open_keyboard(config: &ChatConfig) -> io::Result<(Keyboard, TerminalModes)> {
    Ok((Keyboard::open(&config.keys)?, TerminalModes::enable(&config.stream)?))
}

/// What a chat says when it starts.
fn header(config: &ChatConfig, session: &ChatSession) -> String {
    let stream = &config.stream;
    let info = session.handle.info();
    let name = info.label.clone().or_else(|| info.title.clone());
    let session_name = name.unwrap_or_else(|| {
        info.session_key.rsplit(':').next().unwrap_or(&info.session_key).to_owned()
    });
    let line = |text: &str| {
        stream.paint(zero_terminal::FAINT, &zero_core::sanitize::escape_line(text)).into_owned()
    };
    let mut text = format!(
        "{} {}\n",
        stream.paint(STRONG, "zero"),
        line(&format!("{}, session {session_name}; /help lists the commands", config.folder))
    );
    if info.model == DIRECT {
        text.push_str(&line("no model is set up: /login sets one up;"));
        text.push('\n');
        text.push_str(&line(
            "until then, `/help` lists commands that need none, and `!ls` runs one",
        ));
        text.push('\n');
    }
    text
}

impl Drop for ChatLoop {
    /// Gives the terminal back, also after an error.
    fn drop(&mut self) {
        // A terminal that is gone cannot be restored.
        let _ = self.screen.leave();
    }
}
