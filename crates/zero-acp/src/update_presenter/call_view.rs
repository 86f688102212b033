//! One call as the client knows it: what was sent, and what has to be sent next.
//!
//! A call is pending, then in progress, then ended, and never goes back. Facts about it come from
//! the ledger and from the tools here, in any order; each is sent once.

use std::path::Path;
use std::time::{Duration, Instant};

use agent_client_protocol::v1::schema::{
    self as acp, Meta, Terminal, TerminalId, ToolCall, ToolCallContent, ToolCallId,
    ToolCallLocation, ToolCallUpdate, ToolCallUpdateFields,
};
use serde_json::{Value, json};
use zero_core::ansi_filter::{AnsiFilter, AnsiFilterMode};
use zero_core::event::ToolCallStatus;
use zero_core::text_shortening::tail;
use zero_core::{CallProgress, FileLocation, RunId, ToolKind};

use super::call_content::{self, CallResultView, SHOWN_BYTES_MAX, call_locations, text_content};
use crate::text_sanitizer::{code_block, shorten_for_display, visible_line};

/// Longest title, in characters.
pub(super) const TITLE_CHARS_MAX: usize = 200;
/// Longest progress message, in characters.
const PROGRESS_CHARS_MAX: usize = 500;
/// Most bytes of output shown to a client without a terminal.
const SNAPSHOT_BYTES_MAX: usize = 64 * 1024;
/// Interval between such snapshots.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(250);
/// Most bytes sent to a terminal while a command runs; the rest follows at its end.
const STREAMED_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most bytes of one chunk for a terminal.
const PIECE_BYTES_MAX: usize = 256 * 1024;

/// The reliability of a fact: a late fact of a lower rank does not replace a better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FactRank {
    /// Only the existence of the call is known.
    Guessed,
    /// What the model requested.
    Named,
    /// How the tool describes it.
    Described,
    /// What the user is asked.
    Asked,
}

/// Facts about a call.
pub(super) struct CallFacts<'a> {
    pub(super) rank: FactRank,
    pub(super) title: Option<String>,
    pub(super) kind: Option<ToolKind>,
    pub(super) name: Option<&'a str>,
    pub(super) input: Option<Value>,
    /// Whether this is the input that runs, which may differ from the model's.
    pub(super) is_rewritten: bool,
    pub(super) locations: &'a [FileLocation],
}

impl CallFacts<'_> {
    /// No facts.
    pub(super) fn empty(rank: FactRank) -> Self {
        let (title, kind, name, input) = (None, None, None, None);
        Self { rank, title, kind, name, input, is_rewritten: false, locations: &[] }
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
    /// The run it belongs to, once known from the ledger.
    pub(super) run: Option<RunId>,
    /// How often its id was used before.
    pub(super) uses: u32,
    title: String,
    title_rank: FactRank,
    kind: ToolKind,
    rank: FactRank,
    name: Option<String>,
    locations: Vec<ToolCallLocation>,
    input: Option<Value>,
    /// Whether the input is the one that runs, which may differ from the model's.
    is_rewritten: bool,
    stage: CallStage,
    /// Ids of its pending questions.
    questions: Vec<String>,
    /// Whether it represents only a question, and ends with its answer.
    is_question: bool,
    has_terminal: bool,
    /// The terminal of the client that runs its command.
    client_terminal: Option<TerminalId>,
    /// Whether the client shows the question in place of the terminal.
    shows_question: bool,
    printed: CallOutput,
}

/// The output of a command so far.
#[derive(Debug)]
struct CallOutput {
    ansi_filter: AnsiFilter,
    /// For clients without terminals: the tail of the output.
    tail: String,
    /// For terminals: the bytes sent so far.
    sent_bytes: usize,
    is_full: bool,
    ends_line: bool,
    shown_at: Option<Instant>,
    is_stale: bool,
}

impl CallView {
    /// Creates a call that the client does not know, and its announcement.
    pub(super) fn announce(
        id: String,
        facts: CallFacts<'_>,
        shows_output: bool,
        cwd: &Path,
    ) -> (Self, ToolCall) {
        let kind = facts.kind.unwrap_or(ToolKind::Other);
        // A terminal can only be set in the announcement.
        let has_terminal = shows_output && kind == ToolKind::Execute;
        let call = Self {
            id: ToolCallId::new(id),
            run: None,
            uses: 0,
            title_rank: if facts.title.is_some() { facts.rank } else { FactRank::Guessed },
            title: facts.title.unwrap_or_else(|| "Tool call".to_owned()),
            kind,
            // Facts from a question yield to facts from the call itself.
            rank: if facts.rank == FactRank::Asked { FactRank::Guessed } else { facts.rank },
            name: facts.name.map(str::to_owned),
            locations: call_locations(facts.locations, cwd),
            input: facts.input,
            is_rewritten: facts.is_rewritten,
            stage: CallStage::Pending,
            questions: Vec::new(),
            is_question: false,
            has_terminal,
            client_terminal: None,
            shows_question: false,
            printed: CallOutput {
                ansi_filter: AnsiFilter::new(if has_terminal {
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
        let mut started = ToolCall::new(call.id.clone(), call.title.clone())
            .name(call.name.clone())
            .kind(call_content::tool_kind(kind))
            .locations(call.locations.clone())
            .raw_input(call.input.clone());
        if has_terminal {
            let info = json!({ "terminal_id": &*call.id.0, "cwd": cwd });
            started = started
                .content(vec![call.terminal_content()])
                .meta(meta_entry("terminal_info", info));
        }
        (call, started)
    }

    pub(super) fn is_over(&self) -> bool {
        self.stage == CallStage::Over
    }

    /// Merges further facts; returns an update with what is new.
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
        // A question's kind counts only if no other source gave one.
        let knows_kind = match facts.rank {
            FactRank::Asked => self.kind == ToolKind::Other,
            _ => is_better || self.kind == ToolKind::Other,
        };
        if let Some(kind) = facts.kind.filter(|kind| knows_kind && *kind != self.kind) {
            self.kind = kind;
            fields.kind = Some(call_content::tool_kind(kind));
        }
        let locations = call_locations(facts.locations, cwd);
        let knows_places = is_better || self.locations.is_empty();
        if knows_places && !locations.is_empty() && locations != self.locations {
            self.locations.clone_from(&locations);
            fields.locations = Some(locations);
        }
        if let (None, Some(name)) = (&self.name, facts.name) {
            self.name = Some(name.to_owned());
            fields.name.clone_from(&self.name);
        }
        // The model's input is better than the question's, unless the call was rewritten.
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

    /// The call runs.
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

    /// The command of the call runs in a terminal of the client. It takes the place of the one that
    /// zero would fill.
    pub(super) fn open_client_terminal(&mut self, terminal: TerminalId) -> Vec<ToolCallUpdate> {
        if self.is_over() {
            return Vec::new();
        }
        self.has_terminal = false;
        self.shows_question = false;
        self.client_terminal = Some(terminal);
        let mut updates: Vec<ToolCallUpdate> = self.start().into_iter().collect();
        let shown: Vec<_> = self.client_terminal_content().into_iter().collect();
        updates.push(self.build_update(ToolCallUpdateFields::new().content(shown)));
        updates
    }

    fn client_terminal_content(&self) -> Option<ToolCallContent> {
        let terminal = self.client_terminal.clone()?;
        Some(ToolCallContent::Terminal(Terminal::new(terminal)))
    }

    /// The call was allowed, so no question is pending.
    pub(super) fn clear_questions(&mut self) {
        self.questions.clear();
    }

    /// The user is asked about the call: returns the call as shown in the question.
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

    /// Marks a call that represents only a question.
    pub(super) fn mark_lone_question(&mut self) {
        self.is_question = true;
    }

    /// Whether it represents a question that is not answered yet.
    pub(super) fn is_lone_question(&self) -> bool {
        self.is_question && !self.is_over()
    }

    /// Handles the answer to a question; `None` if the question is not about this call.
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

    /// The call reports progress.
    pub(super) fn report_progress(&mut self, progress: &CallProgress) -> Vec<ToolCallUpdate> {
        if self.is_over() {
            return Vec::new();
        }
        let mut updates: Vec<ToolCallUpdate> = self.start().into_iter().collect();
        let message = visible_line(&progress.message, PROGRESS_CHARS_MAX);
        let mut fields = ToolCallUpdateFields::new();
        let has_terminal = self.has_terminal || self.client_terminal.is_some();
        let shows_more = has_terminal || self.shows_question || !self.printed.tail.is_empty();
        if !shows_more {
            fields.content = text_content(&message).map(|words| vec![words]);
        }
        let mut shown = json!({ "message": message });
        if let Some(percentage) = progress.percentage {
            shown["percentage"] = json!(percentage);
        }
        let meta = meta_entry("zero/progress", shown);
        updates.push(self.build_update(fields).meta(meta));
        updates
    }

    /// The call prints output.
    pub(super) fn append_output(&mut self, text: &str, now: Instant) -> Vec<ToolCallUpdate> {
        if self.is_over() {
            return Vec::new();
        }
        let mut updates: Vec<ToolCallUpdate> = self.start().into_iter().collect();
        if self.has_terminal {
            updates.extend(self.stream_output(text));
            return updates;
        }
        let CallOutput { ansi_filter: washer, tail: kept, is_stale, .. } = &mut self.printed;
        washer.filter(text, kept);
        if kept.len() > SNAPSHOT_BYTES_MAX.saturating_mul(2) {
            *kept = tail(kept, SNAPSHOT_BYTES_MAX).to_owned();
        }
        *is_stale = true;
        updates.extend(self.take_snapshot(now));
        updates
    }

    /// When more output can be shown; `None` if all was shown.
    pub(super) fn snapshot_due(&self) -> Option<Instant> {
        let is_waiting = self.printed.is_stale && self.stage == CallStage::Running;
        let last = self.printed.shown_at.filter(|_| is_waiting)?;
        Some(last.checked_add(SNAPSHOT_EVERY).unwrap_or(last))
    }

    /// The current output, if a snapshot is due.
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

    /// The call has ended.
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
        // A full terminal does not show the end of the output.
        let is_streamed = self.has_terminal && self.printed.sent_bytes > 0 && !self.printed.is_full;
        if !is_streamed {
            shown.extend(outcome.error_output_content());
        }
        let is_command = self.has_terminal || self.kind == ToolKind::Execute;
        let exit = is_command.then(|| outcome.exit_status());
        if self.has_terminal && outcome.status == ToolCallStatus::Completed {
            updates.extend(self.stream_remaining_output(outcome));
            shown.retain(|content| !is_text(content));
            shown.insert(0, self.terminal_content());
        } else if self.has_terminal && self.printed.sent_bytes > 0 {
            shown.insert(0, self.terminal_content());
        }
        if let Some(terminal) = self.client_terminal_content() {
            // It shows what the command printed.
            if outcome.status == ToolCallStatus::Completed {
                shown.retain(|content| !is_text(content));
            }
            shown.insert(0, terminal);
        }
        let mut fields = ToolCallUpdateFields::new().status(status).content(shown).raw_output(raw);
        let locations = call_locations(&outcome.locations(), cwd);
        if !locations.is_empty() && locations != self.locations {
            fields.locations = Some(locations);
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

    /// Ends the call; nothing more is expected of it.
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
            let terminal = match self.client_terminal_content() {
                None => (self.printed.sent_bytes > 0).then(|| self.terminal_content()),
                terminal => terminal,
            };
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

    /// Drops the details that an ended call does not need.
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
        self.printed.ansi_filter.filter(text, &mut clean);
        if self.printed.is_full || clean.is_empty() {
            return Vec::new();
        }
        if self.printed.sent_bytes.saturating_add(clean.len()) > STREAMED_BYTES_MAX {
            self.printed.is_full = true;
            return self
                .build_output_updates("\n[… more output than is shown here; its end follows …]\n");
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

    /// The output of an ended command that the terminal does not show yet.
    fn stream_remaining_output(&mut self, outcome: &CallResultView<'_>) -> Vec<ToolCallUpdate> {
        let notes = outcome.command_notes();
        let missing = match (self.printed.sent_bytes, self.printed.is_full) {
            (0, _) => {
                let wrote =
                    shorten_for_display(&outcome.command_output(), SHOWN_BYTES_MAX).into_owned();
                let missing = notes.iter().filter(|note| !wrote.ends_with(note.as_str()));
                let notes: String = missing.map(|note| format!("\n{note}")).collect();
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
