//! One call, as the client knows it: what was told of it, and what has to be told next.
//!
//! It is pending, then in progress, then over, and never goes back. What is heard of it comes from two
//! sides, the ledger and the tools here, in any order; each fact is told once.

use std::path::Path;
use std::time::{Duration, Instant};

use agent_client_protocol::v1::schema::{
    self as acp, Meta, Terminal, ToolCall, ToolCallContent, ToolCallId, ToolCallLocation,
    ToolCallUpdate, ToolCallUpdateFields,
};
use serde_json::{Value, json};
use zero_core::ansi_filter::{AnsiFilter, AnsiFilterMode};
use zero_core::event::ToolCallStatus;
use zero_core::text_shortening::tail;
use zero_core::{FileLocation, RunId, ToolKind};

use super::call_content::{self, CallResultView, SHOWN_BYTES_MAX, call_locations, text_content};
use crate::text_sanitizer::{code_block, one_line, shorten_middle};

/// Longest title.
pub(super) const TITLE_CHARS_MAX: usize = 200;
/// Longest word on progress.
const PROGRESS_CHARS_MAX: usize = 500;
/// How much of what is printed a client sees that has no terminal.
const SNAPSHOT_BYTES_MAX: usize = 64 * 1024;
/// How often it sees more.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(250);
/// Most bytes that a terminal is sent while a command runs; the end comes when it has ended.
const STREAMED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes of one piece for a terminal.
const PIECE_BYTES_MAX: usize = 256 * 1024;

/// How good a fact is: a better one is not replaced by one that was known before and comes late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FactRank {
    /// Only that there is a call.
    Guessed,
    /// What the model wants.
    Named,
    /// What the tool says it will do.
    Described,
    /// What the person is asked.
    Asked,
}

/// What is heard of a call.
pub(super) struct CallFacts<'a> {
    pub(super) rank: FactRank,
    pub(super) title: Option<String>,
    pub(super) kind: Option<ToolKind>,
    pub(super) name: Option<&'a str>,
    pub(super) input: Option<Value>,
    /// Whether the call runs with this input, whatever the model wrote.
    pub(super) is_rewritten: bool,
    pub(super) places: &'a [FileLocation],
}

impl CallFacts<'_> {
    /// Nothing yet.
    pub(super) fn empty(rank: FactRank) -> Self {
        let (title, kind, name, input) = (None, None, None, None);
        Self { rank, title, kind, name, input, is_rewritten: false, places: &[] }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallStage {
    Pending,
    Running,
    Over,
}

/// What the client was shown of one tool call.
#[derive(Debug)]
pub(super) struct CallView {
    id: ToolCallId,
    /// The run it belongs to, once the ledger said so.
    pub(super) run: Option<RunId>,
    /// How often its name was used before.
    pub(super) uses: u32,
    title: String,
    title_rank: FactRank,
    kind: ToolKind,
    rank: FactRank,
    name: Option<String>,
    locations: Vec<ToolCallLocation>,
    input: Option<Value>,
    /// Whether the input is the one it runs with, which another may have written than the model.
    is_rewritten: bool,
    stage: CallStage,
    /// The questions about it that wait for an answer.
    questions: Vec<String>,
    /// Whether it stands for a question alone, and ends with its answer.
    is_question: bool,
    has_terminal: bool,
    /// Whether the client sees the question where the terminal was.
    shows_question: bool,
    printed: CallOutput,
}

/// What a command printed so far.
#[derive(Debug)]
struct CallOutput {
    washer: AnsiFilter,
    /// Of a client without terminals: the end of it.
    tail: String,
    /// Of a terminal: how much it was sent.
    sent_bytes: usize,
    is_full: bool,
    ends_line: bool,
    shown_at: Option<Instant>,
    is_stale: bool,
}

impl CallView {
    /// A call that the client has not heard of, and how it is told.
    pub(super) fn announce(
        id: String,
        facts: CallFacts<'_>,
        shows_output: bool,
        cwd: &Path,
    ) -> (Self, ToolCall) {
        let kind = facts.kind.unwrap_or(ToolKind::Other);
        // A terminal can only be given with the announcement.
        let has_terminal = shows_output && kind == ToolKind::Execute;
        let call = Self {
            id: ToolCallId::new(id),
            run: None,
            uses: 0,
            title_rank: if facts.title.is_some() { facts.rank } else { FactRank::Guessed },
            title: facts.title.unwrap_or_else(|| "Tool call".to_owned()),
            kind,
            // What a question says of a call gives way to what the call says.
            rank: if facts.rank == FactRank::Asked { FactRank::Guessed } else { facts.rank },
            name: facts.name.map(str::to_owned),
            locations: call_locations(facts.places, cwd),
            input: facts.input,
            is_rewritten: facts.is_rewritten,
            stage: CallStage::Pending,
            questions: Vec::new(),
            is_question: false,
            has_terminal,
            shows_question: false,
            printed: CallOutput {
                washer: AnsiFilter::new(if has_terminal {
                    AnsiFilterMode::Styled
                } else {
                    AnsiFilterMode::PlainText
                }),
                tail: String::new(),
                sent_bytes: 0,
                is_full: false,
                ends_line: true,
                shown_at: None,
                is_stale: false,
            },
        };
        let mut told = ToolCall::new(call.id.clone(), call.title.clone())
            .name(call.name.clone())
            .kind(call_content::tool_kind(kind))
            .locations(call.locations.clone())
            .raw_input(call.input.clone());
        if has_terminal {
            let info = json!({ "terminal_id": &*call.id.0, "cwd": cwd });
            told =
                told.content(vec![call.terminal_content()]).meta(meta_entry("terminal_info", info));
        }
        (call, told)
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == CallStage::Over
    }

    /// Hears more; what is new is told.
    pub(super) fn merge_facts(
        &mut self,
        facts: CallFacts<'_>,
        cwd: &Path,
    ) -> Option<ToolCallUpdate> {
        if self.is_over() {
            return None;
        }
        let mut fields = ToolCallUpdateFields::new();
        if let Some(title) = facts.title.filter(|_| facts.rank >= self.title_rank) {
            self.title_rank = facts.rank;
            if title != self.title {
                self.title.clone_from(&title);
                fields.title = Some(title);
            }
        }
        let is_better = facts.rank >= self.rank;
        // A question knows a kind only where nobody else did.
        let knows_kind = match facts.rank {
            FactRank::Asked => self.kind == ToolKind::Other,
            _ => is_better || self.kind == ToolKind::Other,
        };
        if let Some(kind) = facts.kind.filter(|kind| knows_kind && *kind != self.kind) {
            self.kind = kind;
            fields.kind = Some(call_content::tool_kind(kind));
        }
        let places = call_locations(facts.places, cwd);
        let knows_places = is_better || self.locations.is_empty();
        if knows_places && !places.is_empty() && places != self.locations {
            self.locations.clone_from(&places);
            fields.locations = Some(places);
        }
        if let (None, Some(name)) = (&self.name, facts.name) {
            self.name = Some(name.to_owned());
            fields.name.clone_from(&self.name);
        }
        // What the model wrote is better than what a question says of it, unless the call is another.
        let wrote_it = facts.rank == FactRank::Named && self.rank != FactRank::Named;
        let knows_input =
            facts.is_rewritten || self.input.is_none() || (wrote_it && !self.is_rewritten);
        self.is_rewritten |= facts.is_rewritten;
        if let Some(input) = facts.input.filter(|_| knows_input) {
            if self.input.as_ref() != Some(&input) {
                fields.raw_input = Some(input.clone());
            }
            self.input = Some(input);
        }
        if facts.rank != FactRank::Asked {
            self.rank = self.rank.max(facts.rank);
        }
        (fields != ToolCallUpdateFields::new()).then(|| self.build_update(fields))
    }

    /// It runs.
    pub(super) fn start(&mut self) -> Option<ToolCallUpdate> {
        if self.stage != CallStage::Pending || !self.questions.is_empty() {
            return None;
        }
        self.stage = CallStage::Running;
        let mut fields = ToolCallUpdateFields::new().status(acp::ToolCallStatus::InProgress);
        if self.has_terminal && std::mem::take(&mut self.shows_question) {
            fields.content = Some(vec![self.terminal_content()]);
        }
        Some(self.build_update(fields))
    }

    /// It was allowed, so nobody is asked any more.
    pub(super) fn clear_questions(&mut self) {
        self.questions.clear();
    }

    /// A person is asked about it: the call as the question shows it.
    pub(super) fn ask_question(
        &mut self,
        question: &str,
        shown: Vec<ToolCallContent>,
    ) -> ToolCallUpdate {
        let mut fields = ToolCallUpdateFields::new()
            .title(self.title.clone())
            .kind(call_content::tool_kind(self.kind))
            .content(shown)
            .raw_input(self.input.clone());
        if !self.locations.is_empty() {
            fields.locations = Some(self.locations.clone());
        }
        if self.stage == CallStage::Pending {
            fields.status = Some(acp::ToolCallStatus::Pending);
        }
        if !self.is_over() {
            self.questions.push(question.to_owned());
            self.shows_question = true;
        }
        self.build_update(fields)
    }

    /// It stands for the question alone.
    pub(super) fn mark_lone_question(&mut self) {
        self.is_question = true;
    }

    /// Whether it stands for a question that nobody answered yet.
    pub(super) fn is_lone_question(&self) -> bool {
        self.is_question && !self.is_over()
    }

    /// A question about it was answered; `None` if it was not about this.
    pub(super) fn answer_question(
        &mut self,
        question: &str,
        answer: &str,
    ) -> Option<Vec<ToolCallUpdate>> {
        let at = self.questions.iter().position(|open| open == question)?;
        self.questions.remove(at);
        let is_allowed = answer.starts_with("allow_");
        let update = match (self.is_question, is_allowed) {
            (true, true) => self.close(acp::ToolCallStatus::Completed, None),
            (true, false) => self.close(acp::ToolCallStatus::Failed, text_content(answer)),
            (false, true) => self.start(),
            (false, false) => None,
        };
        Some(update.into_iter().collect())
    }

    /// It says how far it is.
    pub(super) fn report_progress(&mut self, message: &str) -> Vec<ToolCallUpdate> {
        if self.is_over() {
            return Vec::new();
        }
        let mut updates: Vec<ToolCallUpdate> = self.start().into_iter().collect();
        let message = one_line(message, PROGRESS_CHARS_MAX);
        let mut fields = ToolCallUpdateFields::new();
        let shows_more = self.has_terminal || self.shows_question || !self.printed.tail.is_empty();
        if !shows_more {
            fields.content = text_content(&message).map(|words| vec![words]);
        }
        let meta = meta_entry("zero/progress", json!({ "message": message }));
        updates.push(self.build_update(fields).meta(meta));
        updates
    }

    /// It prints.
    pub(super) fn append_output(&mut self, text: &str, now: Instant) -> Vec<ToolCallUpdate> {
        if self.is_over() {
            return Vec::new();
        }
        let mut updates: Vec<ToolCallUpdate> = self.start().into_iter().collect();
        if self.has_terminal {
            updates.extend(self.stream_output(text));
            return updates;
        }
        let CallOutput { washer, tail: kept, is_stale, .. } = &mut self.printed;
        washer.filter(text, kept);
        if kept.len() > SNAPSHOT_BYTES_MAX.saturating_mul(2) {
            *kept = tail(kept, SNAPSHOT_BYTES_MAX).to_owned();
        }
        *is_stale = true;
        updates.extend(self.take_snapshot(now));
        updates
    }

    /// When more of what it printed can be shown; `None` where all is.
    pub(super) fn snapshot_due(&self) -> Option<Instant> {
        let is_waiting = self.printed.is_stale && self.stage == CallStage::Running;
        let last = self.printed.shown_at.filter(|_| is_waiting)?;
        Some(last.checked_add(SNAPSHOT_EVERY).unwrap_or(last))
    }

    /// What it printed, where it is time to show more.
    pub(super) fn take_snapshot(&mut self, now: Instant) -> Option<ToolCallUpdate> {
        let is_due = self.snapshot_due().is_none_or(|due| due <= now);
        if !self.printed.is_stale || !is_due || self.stage != CallStage::Running {
            return None;
        }
        self.printed.is_stale = false;
        self.printed.shown_at = Some(now);
        let text = tail(&self.printed.tail, SNAPSHOT_BYTES_MAX);
        let shown = ToolCallContent::from(code_block(text, "console"));
        Some(self.build_update(ToolCallUpdateFields::new().content(vec![shown])))
    }

    /// It is over.
    pub(super) fn finish(
        &mut self,
        outcome: &CallResultView<'_>,
        cwd: &Path,
    ) -> Vec<ToolCallUpdate> {
        if self.is_over() {
            return Vec::new();
        }
        let status = match outcome.status {
            ToolCallStatus::Completed => acp::ToolCallStatus::Completed,
            _ => acp::ToolCallStatus::Failed,
        };
        let attempted = self.locations.first().map(|place| place.path.as_path());
        let raw = outcome.raw_output(attempted);
        let mut updates = Vec::new();
        let mut shown = outcome.display_content(self.kind, cwd);
        let is_command = self.has_terminal || self.kind == ToolKind::Execute;
        let exit = is_command.then(|| outcome.exit_status());
        if self.has_terminal && outcome.status == ToolCallStatus::Completed {
            updates.extend(self.stream_remaining_output(outcome));
            shown.retain(|content| !is_text(content));
            shown.insert(0, self.terminal_content());
        } else if self.has_terminal && self.printed.sent_bytes > 0 {
            shown.insert(0, self.terminal_content());
        }
        let mut fields = ToolCallUpdateFields::new().status(status).content(shown).raw_output(raw);
        let places = call_locations(outcome.locations(), cwd);
        if !places.is_empty() && places != self.locations {
            fields.locations = Some(places);
        }
        let mut last = self.build_update(fields);
        if let (true, Some((code, signal))) = (self.has_terminal, exit) {
            let exit = json!({ "terminal_id": &*self.id.0, "exit_code": code, "signal": signal });
            last = last.meta(meta_entry("terminal_exit", exit));
        }
        updates.push(last);
        self.release_details();
        updates
    }

    /// Nothing more will be heard of it.
    pub(super) fn abandon(&mut self, words: &str) -> Option<ToolCallUpdate> {
        self.close(acp::ToolCallStatus::Failed, text_content(words))
    }

    fn close(
        &mut self,
        status: acp::ToolCallStatus,
        words: Option<ToolCallContent>,
    ) -> Option<ToolCallUpdate> {
        if self.is_over() {
            return None;
        }
        let mut fields = ToolCallUpdateFields::new().status(status);
        if let Some(words) = words {
            let terminal = (self.printed.sent_bytes > 0).then(|| self.terminal_content());
            fields.content = Some(terminal.into_iter().chain([words]).collect());
        }
        let mut last = self.build_update(fields);
        if self.has_terminal {
            let exit = json!({ "terminal_id": &*self.id.0, "exit_code": null, "signal": null });
            last = last.meta(meta_entry("terminal_exit", exit));
        }
        self.release_details();
        Some(last)
    }

    /// Only that it is over has to be known from now on.
    fn release_details(&mut self) {
        self.stage = CallStage::Over;
        self.questions = Vec::new();
        self.input = None;
        self.locations = Vec::new();
        self.printed.tail = String::new();
        self.printed.is_stale = false;
    }

    fn stream_output(&mut self, text: &str) -> Vec<ToolCallUpdate> {
        let mut clean = String::with_capacity(text.len());
        self.printed.washer.filter(text, &mut clean);
        if self.printed.is_full || clean.is_empty() {
            return Vec::new();
        }
        if self.printed.sent_bytes.saturating_add(clean.len()) > STREAMED_BYTES_MAX {
            self.printed.is_full = true;
            return self.build_output_updates(
                "\n[… it prints more than is shown here; its end follows …]\n",
            );
        }
        self.build_output_updates(&clean)
    }

    fn build_output_updates(&mut self, clean: &str) -> Vec<ToolCallUpdate> {
        self.printed.sent_bytes = self.printed.sent_bytes.saturating_add(clean.len());
        self.printed.ends_line = clean.ends_with('\n');
        let mut updates = Vec::new();
        let mut left = clean;
        while !left.is_empty() {
            let (piece, rest) = left.split_at(left.floor_char_boundary(PIECE_BYTES_MAX));
            left = rest;
            let output = json!({ "terminal_id": &*self.id.0, "data": piece });
            let update = self.build_update(ToolCallUpdateFields::new());
            updates.push(update.meta(meta_entry("terminal_output", output)));
        }
        updates
    }

    /// What the terminal does not show yet of a command that has ended.
    fn stream_remaining_output(&mut self, outcome: &CallResultView<'_>) -> Vec<ToolCallUpdate> {
        let notes = outcome.command_notes();
        let missing = match (self.printed.sent_bytes, self.printed.is_full) {
            (0, _) => {
                let wrote = shorten_middle(&outcome.command_output(), SHOWN_BYTES_MAX).into_owned();
                let unsaid = notes.iter().filter(|note| !wrote.ends_with(note.as_str()));
                let notes: String = unsaid.map(|note| format!("\n{note}")).collect();
                wrote + &notes
            }
            (_, true) => tail(&outcome.command_output(), SNAPSHOT_BYTES_MAX).to_owned(),
            (_, false) => notes.join("\n"),
        };
        let mut clean = AnsiFilter::filter_all(AnsiFilterMode::Styled, &missing);
        if !clean.is_empty() && !self.printed.ends_line {
            clean.insert(0, '\n');
        }
        self.build_output_updates(&clean)
    }

    fn terminal_content(&self) -> ToolCallContent {
        ToolCallContent::Terminal(Terminal::new(self.id.0.to_string()))
    }

    fn build_update(&self, fields: ToolCallUpdateFields) -> ToolCallUpdate {
        ToolCallUpdate::new(self.id.clone(), fields)
    }
}

fn is_text(content: &ToolCallContent) -> bool {
    use agent_client_protocol::v1::schema::ContentBlock;
    matches!(content, ToolCallContent::Content(content) if matches!(content.content, ContentBlock::Text(_)))
}

fn meta_entry(name: &str, value: Value) -> Meta {
    let mut meta = Meta::new();
    meta.insert(name.to_owned(), value);
    meta
}
