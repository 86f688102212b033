//! The loop of a chat: keys, updates of the session, questions and paints, one after the other.
//!
//! Nothing here waits for the gateway, a tool or a file: slow work is a task, whose result comes
//! back as a [`TaskOutcome`]. So the user can type at any moment.

mod commands;
mod full_view;
mod input;
mod pasted_images;
mod plain_view;
mod send_queue;
mod tasks;
mod updates;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use zero_client::SessionChange;
use zero_terminal::input_event::InputEvent;
use zero_terminal::live_area::CursorPosition;
use zero_terminal::{ElapsedCounter, PromptTurn, STRONG};

use self::full_view::FullView;
use self::pasted_images::PastedImages;
use self::send_queue::OutgoingQueue;
use self::tasks::{ShownQuestion, TaskOutcome};
use crate::chat::{ChatConfig, ChatEnd};
use crate::chat_error::ChatError;
use crate::chat_session::{ChatSession, DIRECT};
use crate::chat_transcript::ChatTranscript;
use crate::completion_menu::CompletionMenu;
use crate::composer::Composer;
use crate::inline_screen::{CursorDisplay, InlineScreen, live_rows_max};
use crate::keyboard::Keyboard;
use crate::screen_lease::{self, ChatScreenOwner, LeaseRequest, LentScreen};
use crate::status_line::StatusLine;
use crate::stream_writer::StreamWriter;
use crate::styled_row::wrap_words;
use crate::terminal_focus::TerminalFocus;
use crate::terminal_modes::{self, TerminalModes};

/// Shortest time between two paints that no key caused.
const PAINT_INTERVAL: Duration = Duration::from_millis(16);
/// The rest after a paint that took long, as a multiple of its time: a long block that is being written
/// must not take a processor of its own.
const PAINT_REST: u32 = 3;
/// Longest time between two paints, if something has changed.
const PAINT_REST_MAX: Duration = Duration::from_millis(250);
/// How often the time of a running call is counted.
const TICK: Duration = Duration::from_secs(1);
/// How long after the last key the draft is kept.
const DRAFT_WAIT: Duration = Duration::from_millis(500);
/// How soon the same key has to be pressed again to count as pressed twice.
const TWICE_WAIT: Duration = Duration::from_secs(2);
/// How long the window has to keep its size before the terminal's own cursor is shown.
const STILL_AFTER: Duration = Duration::from_millis(500);
/// How long a chat that shows an earlier conversation waits to learn the color of the background.
const BACKGROUND_WAIT: Duration = Duration::from_millis(40);
/// How long after a key the user counts as typing.
const TYPING_WAIT: Duration = Duration::from_secs(1);
/// What the header of a chat begins with.
const NAME: &str = "zero";
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
    /// What was typed before the chat could take it.
    early_input: VecDeque<InputEvent>,
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
    active_run: Option<WatchedRun>,
    /// Files of the folder, once the user has typed `@`.
    files: Option<Vec<String>>,
    is_listing_files: bool,
    /// Whether Enter was pressed on a mention before the files were listed.
    enter_waits: bool,
    /// Images that were pasted in this chat.
    images: PastedImages,
    /// When to paint next; `None` if nothing changed.
    paint_at: Option<Instant>,
    last_paint: Instant,
    /// How long it took.
    paint_time: Duration,
    draft_at: Option<Instant>,
    /// When the window changed last.
    resized_at: Instant,
    /// The key that means more if it is pressed again soon.
    pressed: Option<(RepeatKey, Instant)>,
    /// When a key was pressed last.
    typed_at: Option<Instant>,
    /// What the gateway does not know yet.
    outgoing: OutgoingQueue,
    /// Commands of zero that wait for the one that runs.
    programs: VecDeque<Vec<Vec<String>>>,
    runs_program: bool,
    /// Whether the user's own program makes the status line now, and whether it has to do so again.
    is_status_asked: bool,
    is_status_stale: bool,
    focus: TerminalFocus,
    /// What the user types, as it is on the last line, where lines are only appended.
    plain_line: Option<String>,
    was_used: bool,
    leaving: bool,
}

/// A run that has not ended.
struct WatchedRun {
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
enum LoopEvent {
    Input(Option<InputEvent>),
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
        let mut keyboard = open_keyboard(&config)?;
        let early_input = match config.stream.can_have_colours() && !config.view.plain {
            true => {
                ask_for_background(&config, &mut keyboard.0, !session.history.is_empty()).await?
            }
            false => VecDeque::new(),
        };
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
            early_input,
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
            images: PastedImages::default(),
            paint_at: Some(Instant::now()),
            last_paint: Instant::now(),
            paint_time: Duration::ZERO,
            draft_at: None,
            resized_at: Instant::now(),
            pressed: None,
            typed_at: None,
            outgoing: OutgoingQueue::default(),
            programs: VecDeque::new(),
            runs_program: false,
            is_status_asked: false,
            is_status_stale: false,
            focus: TerminalFocus::default(),
            plain_line: None,
            enter_waits: false,
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
        chat.show_unfinished_work();
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
    ) -> LoopEvent {
        let never = || Instant::now() + Duration::from_secs(24 * 60 * 60);
        let (paint_at, draft_at) = (self.paint_at, self.draft_at);
        let tick_at = self.last_paint + TICK;
        let is_ticking = self.transcript.is_running() && self.lent_screen.is_none();
        let is_lent = self.lent_screen.is_some();
        if let Some(event) = self.early_input.pop_front() {
            return LoopEvent::Input(Some(event));
        }
        tokio::select! {
            input = async {
                match &mut self.keyboard {
                    Some((keyboard, _)) => keyboard.next().await,
                    None => std::future::pending().await,
                }
            } => LoopEvent::Input(input),
            update = self.session.updates.next() => LoopEvent::Update(update),
            Some(request) = self.leases.recv(), if !is_lent => LoopEvent::Lease(request),
            () = async {
                match &mut self.lent_screen {
                    Some(lent_screen) => lent_screen.wait().await,
                    None => std::future::pending().await,
                }
            } => LoopEvent::Returned,
            Some(done) = self.tasks.join_next() => match done {
                Ok(outcome) => LoopEvent::Task(outcome),
                // A question that was withdrawn.
                Err(error) if error.is_cancelled() => LoopEvent::Task(TaskOutcome::Done),
                Err(error) => LoopEvent::Task(TaskOutcome::Notice(format!("a task failed: {error}"))),
            },
            _ = resized.recv() => LoopEvent::Resized,
            event = end_signals.wait() => event,
            () = sleep_until(paint_at.unwrap_or_else(never)), if paint_at.is_some() && !is_lent => {
                LoopEvent::Paint
            }
            () = sleep_until(draft_at.unwrap_or_else(never)), if draft_at.is_some() => {
                LoopEvent::KeepDraft
            }
            () = sleep_until(tick_at), if is_ticking => LoopEvent::Tick,
        }
    }

    fn handle(&mut self, event: LoopEvent) -> io::Result<()> {
        match event {
            LoopEvent::Input(Some(event)) => self.handle_input(event),
            // The terminal is gone.
            LoopEvent::Input(None) | LoopEvent::Hangup => self.leaving = true,
            // At a question, or while another command has the screen.
            LoopEvent::Interrupted if self.is_plain() && self.lent_screen.is_none() => {
                self.interrupt();
                self.paint_soon();
            }
            LoopEvent::Interrupted => {
                self.stop_run();
            }
            LoopEvent::Update(Some(update)) => self.handle_update(update),
            LoopEvent::Update(None) => self.leaving = true,
            LoopEvent::Lease(request) => self.lend_screen(request)?,
            LoopEvent::Returned => self.take_screen_back()?,
            LoopEvent::Task(outcome) => self.handle_task(outcome),
            LoopEvent::Resized => {
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
            LoopEvent::Paint | LoopEvent::Tick => self.paint()?,
            LoopEvent::KeepDraft => {
                self.draft_at = None;
                self.spawn_draft();
            }
        }
        Ok(())
    }

    /// Paints soon; more changes until then cost nothing.
    fn paint_soon(&mut self) {
        let rest = (self.paint_time * PAINT_REST).clamp(PAINT_INTERVAL, PAINT_REST_MAX);
        let at = self.last_paint + rest;
        self.paint_at = Some(self.paint_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Adds lines that are finished to the scrollback.
    fn print(&mut self, lines: &str) {
        if !lines.is_empty() {
            self.finished.push_str(lines);
            self.paint_soon();
        }
    }

    /// Shows a notice to the user.
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
        let begin = Instant::now();
        let painted = match (self.is_plain(), self.full.is_some()) {
            (true, _) => self.paint_plain(),
            (false, true) => self.paint_full(),
            (false, false) => self.paint_inline(),
        };
        self.last_paint = Instant::now();
        self.paint_time = self.last_paint.duration_since(begin);
        painted
    }

    fn paint_inline(&mut self) -> io::Result<()> {
        let (rows, cursor) = self.render_live_area();
        let finished = std::mem::take(&mut self.finished);
        // Input methods need the terminal's own cursor; it would disturb the rows when the window changes.
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
        // The prompt is set off from the transcript, where there is room.
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
        // Keys of a user who types must not answer a question that appears meanwhile.
        let is_typing = self.typed_at.is_some_and(|at| at.elapsed() < TYPING_WAIT);
        self.turn.set_typing(is_typing);
        self.turn.set_focused(self.focus.is_known());
        if self.config.fullscreen {
            self.lend_full_screen()?;
            self.keyboard = None;
            self.lent_screen = Some(request.grant());
            return Ok(());
        }
        self.end_plain_line()?;
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
        let lent = self.lent_screen.take();
        if let Some((call, waited_ms)) = lent.as_ref().and_then(LentScreen::waiting_call) {
            self.transcript.exclude_waiting(call, waited_ms);
            self.transcript.note_question();
        }
        self.focus.forget();
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
        let runs = self.unfinished_runs();
        let rest = self.transcript.finish();
        let finished = match self.config.fullscreen {
            true => self.last_rows(),
            false => std::mem::take(&mut self.finished) + &rest,
        };
        self.full = None;
        // A terminal that is gone cannot be restored.
        let _ = match self.is_plain() {
            true => self.end_plain_line().and_then(|()| self.config.stream.write(&finished)),
            false => self.screen.update(&finished, &[], None),
        };
        let _ = self.screen.leave();
        self.keyboard = None;
        let unsent = self.finish_sending().await;
        self.tasks.shutdown().await;
        let text = [unsent, vec![self.composer.text()]].concat();
        let text: Vec<&str> =
            text.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        self.config.host.save_draft(&text.join("\n\n"));
        for run in runs {
            // It would wait for tools that are gone.
            let _ = self.session.handle.abort(&run).await;
        }
        let session_key = self.session.handle.info().session_key;
        self.session.handle.leave().await;
        let was_used = self.was_used || !self.session.history.is_empty();
        if !was_used && self.session.handle.info().last_seq == 0 {
            // The user will not want to continue it.
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

    async fn wait(&mut self) -> LoopEvent {
        tokio::select! {
            _ = self.hangup.recv() => LoopEvent::Hangup,
            _ = self.terminate.recv() => LoopEvent::Hangup,
            _ = self.interrupt.recv() => LoopEvent::Interrupted,
            _ = self.quit.recv() => LoopEvent::Interrupted,
        }
    }
}

fn open_keyboard(config: &ChatConfig) -> io::Result<(Keyboard, TerminalModes)> {
    let modes = match config.view.plain {
        true => TerminalModes::unchanged(),
        false => TerminalModes::enable(&config.stream)?,
    };
    Ok((Keyboard::open(&config.keys)?, modes))
}

/// Asks the terminal which color its background has. Returns what was typed meanwhile; who `waits` gives
/// the answer a moment to arrive, and else it arrives among the keys.
async fn ask_for_background(
    config: &ChatConfig,
    keyboard: &mut Keyboard,
    waits: bool,
) -> io::Result<VecDeque<InputEvent>> {
    config.stream.write(terminal_modes::ASK_BACKGROUND)?;
    let mut typed = VecDeque::new();
    let until = Instant::now() + BACKGROUND_WAIT;
    while waits && let Ok(Some(event)) = timeout_at(until, keyboard.next()).await {
        if let InputEvent::Background { is_light } = event {
            config.stream.set_background(is_light);
            break;
        }
        typed.push_back(event);
    }
    Ok(typed)
}

/// What a chat says when it starts.
fn header(config: &ChatConfig, session: &ChatSession) -> String {
    let stream = &config.stream;
    let info = session.handle.info();
    let name = info.label.clone().or_else(|| info.title.clone());
    let session_name = name.unwrap_or_else(|| {
        info.session_key.rsplit(':').next().unwrap_or(&info.session_key).to_owned()
    });
    let columns = stream.window_size().columns;
    let wrap = |text: &str, used: usize| {
        let text = zero_core::sanitize::escape_line(text);
        let rows = wrap_words(&text, columns.saturating_sub(used), columns);
        let paint = |row: &String| stream.paint(zero_terminal::FAINT, row).into_owned();
        rows.iter().map(paint).collect::<Vec<_>>().join("\n") + "\n"
    };
    let place = format!("{}, session {session_name}; /help lists the commands", config.folder);
    let mut text = format!("{} {}", stream.paint(STRONG, NAME), wrap(&place, NAME.len() + 1));
    if info.model == DIRECT {
        text.push_str(&wrap("no model is set up: /login sets one up;", 0));
        let meanwhile = "until then, `/help` lists commands that need none, and `!ls` runs one";
        text.push_str(&wrap(meanwhile, 0));
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
