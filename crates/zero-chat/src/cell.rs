//! The cells of a transcript: what is kept of a session's events to show it, in bounded memory.

use std::borrow::Cow;

use zero_core::event::{
    CompactionExtent, PlanEntry, PromptAttachment, RunOutcome, TokenUsage, UserQuestion,
    describe_compaction,
};
use zero_core::text_shortening::shorten_end;
use zero_runtime::prompt_mentions::split_mentions;

use crate::bounded_text::BoundedText;
use crate::call_cell::CallCell;
use crate::styled_row::row_text;

/// Most bytes that are kept of a prompt, an output, an error or a summary.
pub(crate) const TEXT_BYTES_MAX: usize = 64 * 1024;
/// Most bytes that are kept of an answer, which the user may copy as a whole.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Most attachments of a prompt that are named.
const ATTACHMENTS_MAX: usize = 20;
/// Most characters of the name of an attachment.
const NAME_CHARS_MAX: usize = 200;
/// Most steps of a plan that are kept, and characters of each.
const STEPS_MAX: usize = 200;
const STEP_CHARS_MAX: usize = 1_000;
/// Estimated size of a cell besides its texts.
const CELL_BYTES: usize = 256;

/// One part of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A prompt of the user.
    Prompt(PromptCell),
    /// A part of the model's reply, without a call in between.
    Answer(AnswerCell),
    /// A part of the model's reasoning.
    Thought(ThoughtCell),
    /// A call of a tool.
    Call(Box<CallCell>),
    /// The plan at that time.
    Plan(PlanCell),
    /// A message from zero.
    Notice(BoundedText),
    /// Output of one of zero's own commands: escaped and styled rows.
    Printed(BoundedText),
    /// A question to the user, with the answer.
    Question(QuestionCell),
    /// A compaction.
    Compaction(CompactionCell),
    /// The end of a run.
    RunEnd(RunEndCell),
}

/// The kind of a cell, which decides where blank lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CellKind {
    Prompt,
    Answer,
    Thought,
    Call,
    Plan,
    Notice,
    Printed,
    RunEnd,
}

impl Cell {
    pub(crate) fn kind(&self) -> CellKind {
        match self {
            Self::Prompt(_) => CellKind::Prompt,
            Self::Answer(_) => CellKind::Answer,
            Self::Thought(_) => CellKind::Thought,
            Self::Call(_) => CellKind::Call,
            Self::Plan(_) => CellKind::Plan,
            Self::Notice(_) | Self::Question(_) | Self::Compaction(_) => CellKind::Notice,
            Self::Printed(_) => CellKind::Printed,
            Self::RunEnd(_) => CellKind::RunEnd,
        }
    }

    /// What was written, without anything that only the view adds: what a copy of the cell has.
    pub fn source_text(&self) -> Cow<'_, str> {
        match self {
            Self::Prompt(cell) => Cow::Borrowed(cell.text.as_str()),
            Self::Answer(cell) => Cow::Borrowed(cell.text.as_str()),
            Self::Thought(cell) => Cow::Borrowed(cell.text.as_str()),
            Self::Call(cell) => Cow::Owned(cell.source_text()),
            Self::Plan(cell) => {
                let steps = cell.entries.iter().map(|entry| entry.content.as_str());
                Cow::Owned(steps.collect::<Vec<_>>().join("\n"))
            }
            Self::Notice(text) => Cow::Borrowed(text.as_str()),
            Self::Printed(text) => row_text(text.as_str()),
            Self::Question(cell) => Cow::Borrowed(cell.message.as_str()),
            Self::Compaction(cell) => {
                Cow::Owned(format!("{}\n{}", cell.description, cell.summary.as_str()))
            }
            Self::RunEnd(_) => Cow::Borrowed(""),
        }
    }

    /// A message from zero.
    pub(crate) fn notice(text: &str) -> Self {
        Self::Notice(BoundedText::from_text(text, TEXT_BYTES_MAX))
    }

    /// Output of a command of zero.
    pub(crate) fn printed(rows: &str) -> Self {
        Self::Printed(BoundedText::from_text(rows.trim_end(), ANSWER_BYTES_MAX))
    }

    /// Estimated size in memory.
    pub(crate) fn bytes(&self) -> usize {
        let texts = match self {
            Self::Prompt(cell) => cell.text.bytes(),
            Self::Answer(cell) => cell.text.bytes(),
            Self::Thought(cell) => cell.text.bytes(),
            Self::Call(cell) => cell.bytes(),
            Self::Plan(cell) => cell.entries.iter().map(|entry| entry.content.len()).sum(),
            Self::Notice(text) | Self::Printed(text) => text.bytes(),
            Self::Question(cell) => cell.message.bytes(),
            Self::Compaction(cell) => cell.summary.bytes(),
            Self::RunEnd(_) => 0,
        };
        CELL_BYTES + texts
    }
}

impl CellKind {
    /// Whether a blank line separates a cell of this kind from one of `next`.
    pub(crate) fn is_separated_from(self, next: Self) -> bool {
        self != next || matches!(next, Self::Prompt | Self::Answer | Self::Plan)
    }
}

/// What the user sent.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptCell {
    /// Its text.
    pub text: BoundedText,
    /// What was sent with it, such as `[image]`.
    pub attachments: Vec<String>,
}

impl PromptCell {
    pub(crate) fn new(text: &str, attachments: &[PromptAttachment]) -> Self {
        let describe = |attachment: &PromptAttachment| {
            let what = if attachment.mime.starts_with("image/") { "image" } else { "file" };
            describe_media(what, attachment.name.as_deref())
        };
        let mut notes: Vec<String> =
            attachments.iter().take(ATTACHMENTS_MAX).map(describe).collect();
        // The contents of mentioned files are for the model.
        let (text, files) = split_mentions(text);
        let room = ATTACHMENTS_MAX.saturating_sub(notes.len());
        notes.extend(files.iter().take(room).map(|path| describe_media("file", Some(path))));
        let more = (attachments.len() + files.len()).saturating_sub(ATTACHMENTS_MAX);
        notes.extend((more > 0).then(|| format!("[{more} more]")));
        let text = BoundedText::from_text(text.trim_end(), TEXT_BYTES_MAX);
        Self { text, attachments: notes }
    }
}

/// A note in place of an image or a file.
pub(crate) fn describe_media(what: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("[{what}: {}]", shorten_end(name, NAME_CHARS_MAX)),
        None => format!("[{what}]"),
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerCell {
    /// What the model wrote.
    pub text: BoundedText,
    /// Whether it is Markdown. The answer of a run without a model is the output of a tool.
    pub is_markdown: bool,
}

impl AnswerCell {
    pub(crate) fn new(is_markdown: bool) -> Self {
        Self { text: BoundedText::new(ANSWER_BYTES_MAX), is_markdown }
    }
}

/// A part of the model's reasoning.
#[derive(Clone, Debug, PartialEq)]
pub struct ThoughtCell {
    /// Its text.
    pub text: BoundedText,
    /// When it began, in milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// When it ended; absent while it goes on.
    pub ended_ms: Option<i64>,
}

impl ThoughtCell {
    pub(crate) fn new(started_ms: i64) -> Self {
        Self { text: BoundedText::new(TEXT_BYTES_MAX), started_ms, ended_ms: None }
    }
}

/// The agent's list of steps, as it was last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanCell {
    /// Its steps.
    pub entries: Vec<PlanEntry>,
    /// Number of further steps, which are not kept.
    pub more: usize,
}

impl PlanCell {
    pub(crate) fn new(entries: &[PlanEntry]) -> Self {
        let keep = |entry: &PlanEntry| PlanEntry {
            content: shorten_end(&entry.content, STEP_CHARS_MAX),
            priority: shorten_end(&entry.priority, NAME_CHARS_MAX),
            status: shorten_end(&entry.status, NAME_CHARS_MAX),
        };
        let more = entries.len().saturating_sub(STEPS_MAX);
        Self { entries: entries.iter().take(STEPS_MAX).map(keep).collect(), more }
    }

    /// The step that is being worked on, and its number from 1.
    pub(crate) fn current_step(&self) -> Option<(usize, &PlanEntry)> {
        let mut steps = self.entries.iter().enumerate();
        steps.find(|(_, entry)| entry.status == "in_progress").map(|(at, entry)| (at + 1, entry))
    }
}

/// A question to the user.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionCell {
    /// Id of the question.
    pub id: String,
    /// Who asks.
    pub origin: String,
    /// The question.
    pub message: BoundedText,
    /// `accept`, `decline` or `cancel`; absent if it is not answered.
    pub action: Option<String>,
}

impl QuestionCell {
    pub(crate) fn new(question: &UserQuestion) -> Self {
        Self {
            id: question.id.clone(),
            origin: shorten_end(&question.origin, NAME_CHARS_MAX),
            message: BoundedText::from_text(&question.message, TEXT_BYTES_MAX),
            action: None,
        }
    }
}

/// Marks where older messages were replaced by a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionCell {
    /// What it did.
    pub description: String,
    /// The summary from which the model continues.
    pub summary: BoundedText,
}

impl CompactionCell {
    pub(crate) fn new(summary: &str, tokens: (u64, u64), extent: Option<CompactionExtent>) -> Self {
        Self {
            description: describe_compaction(tokens.0, tokens.1, extent),
            summary: BoundedText::from_text(summary, TEXT_BYTES_MAX),
        }
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunEndCell {
    /// How it ended.
    pub end: RunOutcome,
    /// What it used, with its sub-agents.
    pub usage: TokenUsage,
    /// How long it took, in milliseconds, without the time in which it waited for the user.
    pub elapsed_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attachments_are_notes() {
        let attachment = |mime: &str, name: Option<&str>| PromptAttachment {
            mime: mime.to_owned(),
            data: String::new(),
            name: name.map(str::to_owned),
        };
        let mut sent = vec![attachment("image/png", None), attachment("text/plain", Some("a.txt"))];
        assert_eq!(PromptCell::new("", &sent).attachments, ["[image]", "[file: a.txt]"]);
        sent.extend(vec![attachment("image/png", None); ATTACHMENTS_MAX]);
        assert_eq!(PromptCell::new("", &sent).attachments.last().unwrap(), "[2 more]");
    }

    #[test]
    fn plan_is_bounded_and_knows_its_step() {
        let entry = |status: &str| PlanEntry {
            content: "x".repeat(STEP_CHARS_MAX + 1),
            priority: "high".to_owned(),
            status: status.to_owned(),
        };
        let mut entries = vec![entry("completed"), entry("in_progress")];
        entries.extend(vec![entry("pending"); STEPS_MAX]);
        let plan = PlanCell::new(&entries);
        assert_eq!((plan.entries.len(), plan.more), (STEPS_MAX, 2));
        assert_eq!(plan.current_step().map(|(number, _)| number), Some(2));
        assert_eq!(plan.entries[0].content.chars().count(), STEP_CHARS_MAX + 1);
    }
}
