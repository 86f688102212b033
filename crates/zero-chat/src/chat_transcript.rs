//! Folds the events of a session into cells, and knows which of them are finished.
//!
//! Finished parts are returned once, as lines for the scrollback; unfinished ones can be painted at
//! any time. Events of the past and of the present are treated alike.

mod live_view;
mod numbered_cells;
mod open_text;
mod usage_counter;

use std::borrow::Cow;
use std::collections::VecDeque;

use zero_core::event::{
    Event, EventKind, RunOutcome, TokenUsage, ToolCallStatus, describe_fallback,
};
use zero_core::{RunId, ToolKind, ToolOutcome};
use zero_terminal::TerminalStream;

use self::open_text::OpenText;
pub use self::usage_counter::SessionUsage;
use self::usage_counter::UsageCounter;
use crate::call_cell::{CallCell, CallState, join_outcome};
use crate::cell::{Cell, CellKind, CompactionCell, PlanCell, PromptCell, QuestionCell, RunEndCell};
use crate::cell_view::call_view::is_whole_error;
use crate::cell_view::row_writer::RowWriter;
use crate::cell_view::{Fold, ViewOptions, render_cell};

/// Most cells that are kept; older ones are dropped.
const CELLS_MAX: usize = 50_000;
/// Most bytes of cells that are kept.
const CELLS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most calls that are open at a time.
const OPEN_CALLS_MAX: usize = 1_000;
/// Most prompts in the queue, and questions that are not answered.
const QUEUED_MAX: usize = 100;
const QUESTIONS_MAX: usize = 100;
/// Most messages that wait for the end of a text.
const DEFERRED_MAX: usize = 100;
/// Name of the model of a run that has none.
const DIRECT_MODEL: &str = "direct";
/// Topic of the notice that a prompt waits for others.
const QUEUED_TOPIC: &str = "queued";

/// The transcript of a session.
pub struct ChatTranscript {
    stream: TerminalStream,
    options: ViewOptions,
    error_text: fn(&str) -> Cow<'_, str>,
    finished: VecDeque<Cell>,
    finished_bytes: usize,
    /// Number of older cells that were dropped.
    dropped_cells: u64,
    /// The rows of the unfinished text that were returned.
    open_rows: VecDeque<String>,
    /// Number of its rows that are not kept any more.
    dropped_open_rows: u64,
    /// What zero had to say while a text was being written, which it would have cut in two.
    deferred: Vec<Cell>,
    /// The kind of the cell that was shown last.
    last_kind: Option<CellKind>,
    /// The text that is being written.
    text: Option<OpenText>,
    /// Calls that have not ended, in the order of their start; each is a [`Cell::Call`].
    open_calls: Vec<Cell>,
    held_call: Option<HeldCall>,
    queued: VecDeque<WaitingPrompt>,
    /// Runs whose prompts the user took back into the input.
    withdrawn: Vec<RunId>,
    questions: Vec<QuestionCell>,
    plan: PlanCell,
    run: Option<CurrentRun>,
    /// The last prompt, until its run starts.
    pending_prompt: Option<UnstartedPrompt>,
    /// The error of the last call, if it was shown whole.
    shown_error: Option<String>,
    usage: UsageCounter,
    model: Option<String>,
    /// Time of the last event.
    time_ms: i64,
}

/// A call of a slash command, until it is known whether the answer repeats its output.
struct HeldCall {
    cell: Cell,
    /// The answer that would repeat it.
    answer: String,
}

/// A prompt that waits for the end of another run.
struct WaitingPrompt {
    run: Option<RunId>,
    is_slash_command: bool,
    cell: Cell,
}

/// A prompt whose run has not started.
struct UnstartedPrompt {
    run: Option<RunId>,
    is_slash_command: bool,
}

struct CurrentRun {
    id: Option<RunId>,
    started_ms: i64,
    /// Whether no model answers.
    is_direct: bool,
    /// Whether a call has ended. Without a model, the answer is its output then.
    has_output: bool,
    is_slash_command: bool,
}

impl ChatTranscript {
    /// An empty transcript, shown on a stream.
    pub fn new(stream: &TerminalStream, options: ViewOptions) -> Self {
        Self {
            stream: stream.clone(),
            options,
            error_text: |message| Cow::Borrowed(message),
            finished: VecDeque::new(),
            finished_bytes: 0,
            dropped_cells: 0,
            open_rows: VecDeque::new(),
            dropped_open_rows: 0,
            deferred: Vec::new(),
            last_kind: None,
            text: None,
            open_calls: Vec::new(),
            held_call: None,
            queued: VecDeque::new(),
            withdrawn: Vec::new(),
            questions: Vec::new(),
            plan: PlanCell::default(),
            run: None,
            pending_prompt: None,
            shown_error: None,
            usage: UsageCounter::default(),
            model: None,
            time_ms: 0,
        }
    }

    /// Uses a function that makes the message of a call's error, which is for the model, one for the
    /// user.
    #[must_use]
    pub fn with_error_text(self, error_text: fn(&str) -> Cow<'_, str>) -> Self {
        Self { error_text, ..self }
    }

    /// Folds in one event; returns the finished lines to write into the scrollback, each ending with
    /// a line break, escaped and styled, possibly none.
    pub fn apply(&mut self, event: &Event) -> String {
        let mut shown = String::new();
        self.time_ms = event.time_ms;
        self.release_held(&event.kind, &mut shown);
        match &event.kind {
            EventKind::Prompt { text, attachments } => {
                let cell = Cell::Prompt(PromptCell::new(text, attachments));
                self.apply_prompt(event, text.starts_with('/'), cell, &mut shown);
            }
            EventKind::RunStarted { model, .. } => self.start_run(event, model, &mut shown),
            EventKind::Text { text } => self.apply_text(text, &mut shown),
            EventKind::Thought { text } => self.apply_thought(text, &mut shown),
            EventKind::ToolStarted { .. } => self.start_call(&event.kind, &mut shown),
            EventKind::ToolUpdated { .. } => self.update_call(&event.kind),
            EventKind::ToolEnded { call, status, outcome } => {
                self.end_call(call, *status, outcome, &mut shown);
            }
            EventKind::Plan { entries } => {
                let plan = PlanCell::new(entries);
                if self.plan != plan {
                    self.plan = plan.clone();
                    self.push_cell(Cell::Plan(plan), &mut shown);
                }
            }
            EventKind::ApprovalRequested(request) => {
                if let Some(call) = self.open_call_mut(&request.call) {
                    let has_begun = !request.subject.is_call();
                    call.state = CallState::NeedsApproval { id: request.id.clone(), has_begun };
                }
            }
            EventKind::ApprovalResolved { id, .. } => self.resolve_approval(id),
            EventKind::QuestionAsked(question) => {
                if self.questions.len() < QUESTIONS_MAX {
                    self.questions.push(QuestionCell::new(question));
                }
            }
            EventKind::QuestionAnswered { id, action } => {
                let at = self.questions.iter().position(|question| question.id == *id);
                if let Some(at) = at {
                    let mut question = self.questions.remove(at);
                    question.action = Some(action.clone());
                    self.push_cell(Cell::Question(question), &mut shown);
                }
            }
            EventKind::UsageReported { run_usage, context_tokens, context_window } => {
                self.usage.set_run(*run_usage);
                self.usage.set_context(*context_tokens, Some(*context_window));
            }
            // It is shown below the run, as a prompt that waits.
            EventKind::Notice { topic, .. }
                if topic == QUEUED_TOPIC
                    && !self.options.plain
                    && self.queued.iter().any(|queued| queued.run == event.run) => {}
            EventKind::Notice { text, .. } => self.add_cell(Cell::notice(text), &mut shown),
            EventKind::Compacted { summary, tokens_before, tokens_after, extent } => {
                self.usage.set_context(*tokens_after, None);
                let tokens = (*tokens_before, *tokens_after);
                let cell = CompactionCell::new(summary, tokens, *extent);
                self.push_cell(Cell::Compaction(cell), &mut shown);
            }
            EventKind::ModelFallback { from, to, reason } => {
                self.model = Some(to.clone());
                let text = describe_fallback(from, to, reason);
                self.push_cell(Cell::notice(&text), &mut shown);
            }
            EventKind::Reset { transcript } => {
                self.plan = PlanCell::default();
                self.usage.set_context(0, None);
                let text = format!(
                    "the session was reset; the conversation so far is its transcript {transcript}"
                );
                self.push_cell(Cell::notice(&text), &mut shown);
            }
            EventKind::Rewound { prompt, scope, files, .. } => {
                let text = scope.describe_rewind(*prompt, *files);
                self.push_cell(Cell::notice(&text), &mut shown);
            }
            EventKind::Changed { field, value } => {
                self.apply_change(field, value.as_deref(), &mut shown);
            }
            EventKind::RunEnded { end, usage } => self.end_run(event, end, *usage, &mut shown),
            EventKind::Opaque(opaque) => {
                self.push_cell(Cell::notice(&opaque.describe()), &mut shown);
            }
        }
        shown
    }

    /// Adds a message from zero that is not in the ledger; returns its lines. A text that is being
    /// written is finished first.
    pub fn add_note(&mut self, text: &str) -> String {
        let mut shown = String::new();
        self.add_cell(Cell::notice(text), &mut shown);
        shown
    }

    /// Adds rows of one of zero's own commands, escaped and styled; returns them as [`Self::add_note`]
    /// does.
    pub fn add_printed(&mut self, rows: &str) -> String {
        let mut shown = String::new();
        self.add_cell(Cell::printed(rows), &mut shown);
        shown
    }

    /// Shows a command that the chat itself runs, as it was typed.
    pub fn add_command(&mut self, line: &str) -> String {
        let mut shown = String::new();
        self.add_cell(Cell::Prompt(PromptCell::new(line, &[])), &mut shown);
        shown
    }

    /// Takes the time in which a call waited for the user from the time that it took. The ledger has no
    /// question that is asked where the call runs.
    pub fn exclude_waiting(&mut self, call: &str, waited_ms: i64) {
        if let Some(call) = self.open_call_mut(call) {
            call.started_ms = call.started_ms.saturating_add(waited_ms);
        }
    }

    /// Notes that a question was shown below the last cell: a blank line separates the next one from it.
    pub(crate) fn note_question(&mut self) {
        self.last_kind = Some(CellKind::Prompt);
    }

    /// Shows everything as it was written from now on, or no longer.
    pub fn set_raw(&mut self, is_raw: bool) {
        self.options.raw = is_raw;
    }

    /// How cells are shown.
    pub fn options(&self) -> ViewOptions {
        self.options
    }

    /// The last prompt in the queue: its run, and its text.
    pub fn last_queued(&self) -> Option<(&RunId, &str)> {
        let queued = self.queued.back()?;
        match (&queued.run, &queued.cell) {
            (Some(run), Cell::Prompt(prompt)) => Some((run, prompt.text.as_str())),
            _ => None,
        }
    }

    /// The runs of the prompts in the queue, the last one first.
    pub(crate) fn queued_runs(&self) -> impl Iterator<Item = &RunId> {
        self.queued.iter().rev().filter_map(|queued| queued.run.as_ref())
    }

    /// Takes a prompt out of the queue whose run was withdrawn before it began: it is not shown.
    pub fn withdraw_queued(&mut self, run: &RunId) {
        self.queued.retain(|queued| queued.run.as_ref() != Some(run));
        self.withdrawn.push(run.clone());
        if self.withdrawn.len() > QUEUED_MAX {
            self.withdrawn.remove(0);
        }
    }

    /// Ends what is not finished, as when the connection is lost; returns the rest of its lines.
    pub fn finish(&mut self) -> String {
        let mut shown = String::new();
        self.show_held(&mut shown);
        self.close_text(&mut shown);
        self.close_calls(&mut shown);
        while let Some(queued) = self.queued.pop_front() {
            self.push_cell(queued.cell, &mut shown);
        }
        for question in std::mem::take(&mut self.questions) {
            self.push_cell(Cell::Question(question), &mut shown);
        }
        self.run = None;
        self.pending_prompt = None;
        shown
    }

    /// The cells that are finished, and then those that are not. Older ones than the last 50,000, or
    /// than those of the last 64 MB, are dropped.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        let text = self.text.iter().map(|text| &text.cell);
        let held = self.held_call.iter().map(|held_call| &held_call.cell);
        self.finished.iter().chain(held).chain(text).chain(&self.open_calls)
    }

    /// Whether a run is under way, or a prompt waits for one.
    pub fn is_running(&self) -> bool {
        self.run.is_some() || self.pending_prompt.is_some() || !self.queued.is_empty()
    }

    /// Number of prompts that wait for their turn.
    pub fn queued_count(&self) -> usize {
        self.queued.len()
    }

    /// What the session used, as far as events were seen.
    pub fn usage(&self) -> SessionUsage {
        self.usage.session_usage()
    }

    /// Name of the model that answers, or answered last.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// The last part of an answer, as the model wrote it.
    pub fn last_answer(&self) -> Option<&str> {
        let open = self.text.iter().map(|text| &text.cell);
        open.chain(self.finished.iter().rev()).find_map(|cell| match cell {
            Cell::Answer(answer) if !answer.text.is_blank() => Some(answer.text.as_str()),
            _ => None,
        })
    }

    fn apply_prompt(
        &mut self,
        event: &Event,
        is_slash_command: bool,
        cell: Cell,
        shown: &mut String,
    ) {
        let run = event.run.clone();
        let is_queued = self.run.as_ref().is_some_and(|current| current.id != run);
        if is_queued && self.queued.len() < QUEUED_MAX {
            self.queued.push_back(WaitingPrompt { run, is_slash_command, cell });
            return;
        }
        self.push_cell(cell, shown);
        self.pending_prompt = Some(UnstartedPrompt { run, is_slash_command });
    }

    fn start_run(&mut self, event: &Event, model: &str, shown: &mut String) {
        let is_slash_command = match self.show_queued(event.run.as_ref(), shown) {
            Some(is_slash_command) => is_slash_command,
            None => {
                let pending = self.pending_prompt.as_ref().filter(|it| it.run == event.run);
                pending.is_some_and(|pending| pending.is_slash_command)
            }
        };
        self.pending_prompt = None;
        self.shown_error = None;
        self.usage.start_run();
        self.run = Some(CurrentRun {
            id: event.run.clone(),
            started_ms: event.time_ms,
            is_direct: model == DIRECT_MODEL,
            has_output: false,
            is_slash_command,
        });
        self.model = Some(model.to_owned());
    }

    /// Shows the prompt of a run that was in the queue; returns whether it is a slash command.
    fn show_queued(&mut self, run: Option<&RunId>, shown: &mut String) -> Option<bool> {
        let at = self.queued.iter().position(|queued| queued.run.as_ref() == run)?;
        let queued = self.queued.remove(at)?;
        self.push_cell(queued.cell, shown);
        Some(queued.is_slash_command)
    }

    fn end_run(&mut self, event: &Event, end: &RunOutcome, usage: TokenUsage, shown: &mut String) {
        if let Some(at) = self.withdrawn.iter().position(|run| Some(run) == event.run.as_ref()) {
            self.withdrawn.remove(at);
            return;
        }
        let current = match &self.run {
            Some(current) if current.id != event.run => {
                // A prompt that left the queue without a run.
                self.show_queued(event.run.as_ref(), shown);
                let cell = RunEndCell { end: end.clone(), usage, elapsed_ms: 0 };
                return self.push_cell(Cell::RunEnd(cell), shown);
            }
            _ => self.run.take(),
        };
        self.show_queued(event.run.as_ref(), shown);
        self.pending_prompt = None;
        self.close_text(shown);
        self.close_calls(shown);
        let usage = self.usage.end_run(usage);
        let started_ms = current.map_or(event.time_ms, |current| current.started_ms);
        let elapsed = event.time_ms.saturating_sub(started_ms);
        let elapsed_ms = match usage.work_ms {
            0 => u64::try_from(elapsed).unwrap_or(0),
            work_ms => work_ms,
        };
        let cell = RunEndCell { end: end.clone(), usage, elapsed_ms };
        self.push_cell(Cell::RunEnd(cell), shown);
    }

    fn apply_text(&mut self, text: &str, shown: &mut String) {
        if self.shown_error.as_deref() == Some(text) {
            // A slash command answers with the error of its call, which is shown already.
            self.set_direct();
            return;
        }
        if !self.text.as_ref().is_some_and(OpenText::is_answer) {
            self.close_text(shown);
            let is_output = self.run.as_ref().is_some_and(|run| run.is_direct && run.has_output);
            let is_markdown = !is_output;
            self.text = Some(OpenText::new_answer(&self.stream, self.options, is_markdown));
        }
        self.push_text(text, shown);
    }

    fn apply_thought(&mut self, text: &str, shown: &mut String) {
        if self.text.as_ref().is_none_or(OpenText::is_answer) {
            self.close_text(shown);
            self.text = Some(OpenText::new_thought(self.options, self.time_ms));
        }
        self.push_text(text, shown);
    }

    fn push_text(&mut self, text: &str, shown: &mut String) {
        let Some(mut open) = self.text.take() else { return };
        let was_shown = open.has_shown;
        let rows = open.push(text, self.writer(self.columns()));
        self.show_part(&open, was_shown, &rows, shown);
        self.text = Some(open);
    }

    /// Shows further rows of a text; a blank line precedes only its first ones.
    fn show_part(&mut self, open: &OpenText, was_shown: bool, rows: &[String], shown: &mut String) {
        let before = shown.len();
        if was_shown {
            rows.iter().for_each(|row| push_line(row, shown));
        } else {
            self.show_rows(open.cell.kind(), rows, shown);
        }
        let added = shown.get(before..).unwrap_or_default();
        self.open_rows.extend(added.lines().map(str::to_owned));
        let excess = self.open_rows.len().saturating_sub(numbered_cells::OPEN_ROWS_MAX);
        self.open_rows.drain(..excess);
        self.dropped_open_rows += excess as u64;
    }

    fn close_text(&mut self, shown: &mut String) {
        if let Some(mut open) = self.text.take()
            && (!open.is_blank() || open.has_shown)
        {
            let was_shown = open.has_shown;
            let rows = open.finish(self.time_ms, self.writer(self.columns()));
            self.show_part(&open, was_shown, &rows, shown);
            self.store_cell(open.cell);
        }
        self.open_rows.clear();
        self.dropped_open_rows = 0;
        for cell in std::mem::take(&mut self.deferred) {
            self.push_cell(cell, shown);
        }
    }

    fn start_call(&mut self, kind: &EventKind, shown: &mut String) {
        let EventKind::ToolStarted { call, name, title, kind, input, waits, .. } = kind else {
            return;
        };
        self.close_text(shown);
        if self.open_calls.len() >= OPEN_CALLS_MAX {
            self.close_calls(shown);
        }
        let mut cell = CallCell::new(call, title, self.time_ms).with_input(name, *kind, input);
        if *waits {
            cell.state = CallState::Waiting;
        }
        self.open_calls.push(Cell::Call(Box::new(cell)));
    }

    fn update_call(&mut self, kind: &EventKind) {
        let EventKind::ToolUpdated { call, title, kind, progress, begins, .. } = kind else {
            return;
        };
        let time_ms = self.time_ms;
        let Some(cell) = self.open_call_mut(call) else { return };
        if let Some(title) = title {
            cell.set_title(title);
        }
        cell.kind = kind.unwrap_or(cell.kind);
        if let Some(progress) = progress {
            cell.set_progress(progress);
        }
        if *begins {
            (cell.state, cell.started_ms) = (CallState::Running, time_ms);
        }
    }

    fn end_call(
        &mut self,
        id: &str,
        status: ToolCallStatus,
        outcome: &ToolOutcome,
        shown: &mut String,
    ) {
        let at =
            self.open_calls.iter().position(|cell| call_of(cell).is_some_and(|it| it.id == id));
        let mut cell = match at.map(|at| self.open_calls.remove(at)) {
            Some(Cell::Call(cell)) => cell,
            // Its start was not seen.
            _ => Box::new(CallCell::new(id, id, self.time_ms)),
        };
        cell.finish(status, outcome, self.time_ms, self.error_text);
        if let Some(subagent) = &cell.report.subagent {
            self.usage.add_subagent(subagent.usage);
        }
        let (is_direct, is_slash_command) = self.run.as_mut().map_or((false, false), |run| {
            run.has_output = true;
            (run.is_direct, run.is_slash_command)
        });
        cell.report.is_output_repeated = is_direct;
        let answer = join_outcome(outcome);
        let has_error = cell.report.error.is_some() && is_whole_error(&answer);
        let is_held = is_slash_command && !is_direct && cell.kind == ToolKind::Execute;
        self.shown_error = has_error.then(|| answer.clone());
        match is_held && !has_error {
            true => self.held_call = Some(HeldCall { cell: Cell::Call(cell), answer }),
            false => self.push_cell(Cell::Call(cell), shown),
        }
    }

    /// Shows a call that is held, once the next event shows whether its output follows as an answer.
    fn release_held(&mut self, next: &EventKind, shown: &mut String) {
        let Some(held_call) = &mut self.held_call else { return };
        match (next, &mut held_call.cell) {
            (EventKind::UsageReported { .. } | EventKind::ToolUpdated { .. }, _) => return,
            (EventKind::Text { text }, Cell::Call(call)) if *text == held_call.answer => {
                call.report.is_output_repeated = true;
                self.set_direct();
            }
            _ => {}
        }
        self.show_held(shown);
    }

    fn show_held(&mut self, shown: &mut String) {
        if let Some(held_call) = self.held_call.take() {
            self.push_cell(held_call.cell, shown);
        }
    }

    fn set_direct(&mut self) {
        if let Some(run) = &mut self.run {
            run.is_direct = true;
        }
    }

    fn resolve_approval(&mut self, resolved: &str) {
        let time_ms = self.time_ms;
        for call in self.open_calls.iter_mut().filter_map(call_of_mut) {
            if let CallState::NeedsApproval { id, has_begun } = &call.state
                && id == resolved
            {
                // The time in which it waited for the user does not count.
                call.started_ms = if *has_begun { call.started_ms } else { time_ms };
                call.state = CallState::Running;
            }
        }
    }

    fn apply_change(&mut self, field: &str, value: Option<&str>, shown: &mut String) {
        if !matches!(field, "mode" | "model" | "thinking" | "agent") {
            return;
        }
        if field == "model" {
            self.model = value.map(str::to_owned);
        }
        let text = match value {
            Some(value) => format!("{field}: {value}"),
            None => format!("{field}: default"),
        };
        self.add_cell(Cell::notice(&text), shown);
    }

    /// Ends the calls of which no end was seen.
    fn close_calls(&mut self, shown: &mut String) {
        for mut cell in std::mem::take(&mut self.open_calls) {
            if let Some(call) = call_of_mut(&mut cell) {
                call.end(None, self.time_ms);
            }
            self.push_cell(cell, shown);
        }
    }

    fn open_calls(&self) -> impl Iterator<Item = &CallCell> {
        let held = self.held_call.iter().map(|held_call| &held_call.cell);
        held.chain(&self.open_calls).filter_map(call_of)
    }

    fn open_call_mut(&mut self, id: &str) -> Option<&mut CallCell> {
        self.open_calls.iter_mut().filter_map(call_of_mut).find(|call| call.id == id)
    }

    /// Shows a cell, or waits until the text that is being written has ended.
    fn add_cell(&mut self, cell: Cell, shown: &mut String) {
        let is_writing =
            self.text.as_ref().is_some_and(|text| text.is_answer() && !text.is_blank());
        match is_writing && self.deferred.len() < DEFERRED_MAX {
            true => self.deferred.push(cell),
            false => self.push_cell(cell, shown),
        }
    }

    /// Shows a finished cell and keeps it.
    fn push_cell(&mut self, cell: Cell, shown: &mut String) {
        self.close_text(shown);
        let rows = render_cell(&cell, &self.stream, self.columns(), self.options, Fold::Folded);
        self.show_rows(cell.kind(), &rows, shown);
        self.store_cell(cell);
    }

    fn show_rows(&mut self, kind: CellKind, rows: &[String], shown: &mut String) {
        if rows.is_empty() {
            return;
        }
        if self.last_kind.is_some_and(|last| last.is_separated_from(kind)) {
            shown.push('\n');
        }
        self.last_kind = Some(kind);
        rows.iter().for_each(|row| push_line(row, shown));
    }

    fn store_cell(&mut self, cell: Cell) {
        self.finished_bytes += cell.bytes();
        self.finished.push_back(cell);
        while self.finished.len() > CELLS_MAX || self.finished_bytes > CELLS_BYTES_MAX {
            let Some(oldest) = self.finished.pop_front() else { break };
            self.finished_bytes = self.finished_bytes.saturating_sub(oldest.bytes());
            self.dropped_cells += 1;
        }
    }

    fn columns(&self) -> usize {
        self.stream.window_size().columns
    }

    fn writer(&self, columns: usize) -> RowWriter<'_> {
        RowWriter::new(&self.stream, columns, self.options)
    }
}

fn push_line(row: &str, shown: &mut String) {
    shown.push_str(row);
    shown.push('\n');
}

fn call_of(cell: &Cell) -> Option<&CallCell> {
    match cell {
        Cell::Call(call) => Some(call),
        _ => None,
    }
}

fn call_of_mut(cell: &mut Cell) -> Option<&mut CallCell> {
    match cell {
        Cell::Call(call) => Some(call),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
