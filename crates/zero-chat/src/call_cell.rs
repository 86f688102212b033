//! A call of a tool, from its start to its outcome.

use std::borrow::Cow;

use serde::Deserialize as _;
use serde_json::Value;
use zero_core::event::{TokenUsage, ToolCallStatus};
use zero_core::text_shortening::{head, shorten_end};
use zero_core::{CallProgress, FileDiff, ResultDisplay, ToolKind, ToolOutcome, ToolResultPart};

use crate::bounded_text::BoundedText;
use crate::cell::{TEXT_BYTES_MAX, describe_media};

/// Name of the tool that starts a sub-agent.
const TASK_TOOL: &str = "Task";
/// Most characters of a title or a name.
const TITLE_CHARS_MAX: usize = 1_000;
/// Most bytes of a call's progress.
const PROGRESS_BYTES_MAX: usize = 8 * 1024;
/// Most notes about a command, and bytes of each.
const NOTES_MAX: usize = 20;
const NOTE_BYTES_MAX: usize = 4 * 1024;
/// Most images and files of a result that are named.
const MEDIA_MAX: usize = 10;

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct CallCell {
    /// Id of the call.
    pub id: String,
    /// One-line description.
    pub title: String,
    /// Kind of the tool.
    pub kind: ToolKind,
    /// Whether it starts a sub-agent.
    pub is_subagent: bool,
    /// The whole command, for a tool that runs one.
    pub command: Option<BoundedText>,
    /// When it started, or began after others, in milliseconds since the Unix epoch.
    pub started_ms: i64,
    /// Where it is.
    pub state: CallState,
    /// The last progress that the tool reported.
    pub progress: CallProgress,
    /// What it led to, once it has ended.
    pub report: FinishedCall,
}

/// Where a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallState {
    /// It waits for earlier calls of the same reply.
    Waiting,
    /// It waits for the user's answer to an approval request.
    NeedsApproval {
        /// Id of the request.
        id: String,
        /// Whether it runs already, and needs approval for a connection.
        has_begun: bool,
    },
    /// It runs.
    Running,
    /// It ended.
    Ended {
        /// How; absent if that is not known.
        status: Option<ToolCallStatus>,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
    },
}

/// What a call led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinishedCall {
    /// Exit code of a command that failed.
    pub exit_code: Option<i64>,
    /// The change to a file, as a unified diff.
    pub diff: Option<BoundedText>,
    /// The file that was changed.
    pub diff_path: String,
    /// The web request that was sent.
    pub request: Option<BoundedText>,
    /// Notes about a command, such as files that were moved to quarantine.
    pub notes: Vec<String>,
    /// What a command wrote to its output.
    pub stdout: Option<BoundedText>,
    /// What a command wrote as errors.
    pub stderr: Option<BoundedText>,
    /// The text that the model got; shown only on request.
    pub content: Option<BoundedText>,
    /// Images and files among the result, as notes.
    pub media: Vec<String>,
    /// Why there is no result, for the user.
    pub error: Option<BoundedText>,
    /// What a sub-agent used.
    pub subagent: Option<SubagentReport>,
    /// Whether the answer repeats the output, which is then not shown here.
    pub is_output_repeated: bool,
}

/// What a sub-agent used and was denied.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SubagentReport {
    /// Tokens, cost and calls.
    pub usage: TokenUsage,
    /// Number of its calls that were denied.
    pub denied_calls: u64,
}

impl CallCell {
    /// A call that starts.
    pub(crate) fn new(id: &str, title: &str, started_ms: i64) -> Self {
        Self {
            id: id.to_owned(),
            title: shorten_end(title, TITLE_CHARS_MAX),
            kind: ToolKind::Other,
            is_subagent: false,
            command: None,
            started_ms,
            state: CallState::Running,
            progress: CallProgress::default(),
            report: FinishedCall::default(),
        }
    }

    /// Adds what the call is made with.
    pub(crate) fn with_input(mut self, name: &str, kind: ToolKind, input: &Value) -> Self {
        let command = input.get("command").and_then(Value::as_str);
        let command = command.filter(|_| kind == ToolKind::Execute);
        self.command = command.map(bound_text);
        self.is_subagent = name == TASK_TOOL;
        self.kind = kind;
        self
    }

    /// Sets a better title.
    pub(crate) fn set_title(&mut self, title: &str) {
        self.title = shorten_end(title, TITLE_CHARS_MAX);
    }

    /// Sets how far the call is.
    pub(crate) fn set_progress(&mut self, progress: &CallProgress) {
        let message = zero_core::text_shortening::tail(&progress.message, PROGRESS_BYTES_MAX);
        self.progress =
            CallProgress { message: message.to_owned(), percentage: progress.percentage };
    }

    /// Ends the call with an outcome. `error_text` makes the message of an error one for the user.
    pub(crate) fn finish(
        &mut self,
        status: ToolCallStatus,
        outcome: &ToolOutcome,
        now_ms: i64,
        error_text: fn(&str) -> Cow<'_, str>,
    ) {
        let unfinished = self.take_progress();
        self.end(Some(status), now_ms);
        self.report = FinishedCall::new(self.kind, status, outcome);
        if outcome.result().is_none() && status == ToolCallStatus::Cancelled {
            let output = outcome.error().and_then(|error| error.details.get("output")?.as_str());
            let output = output.filter(|output| !output.trim().is_empty());
            self.report.stdout = output.map(|output| bound_text(output.trim_end())).or(unfinished);
        }
        if self.is_subagent {
            self.report.subagent = SubagentReport::from_outcome(outcome);
        }
        let error = join_error(outcome);
        if matches!(status, ToolCallStatus::Failed | ToolCallStatus::Denied) && !error.is_empty() {
            let error = error_text(&error);
            // The line above has the title.
            let bare = error.strip_prefix(&*self.title).and_then(|rest| rest.strip_prefix(": "));
            self.report.error = Some(bound_text(bare.unwrap_or(&error)));
        }
    }

    /// Ends the call without an outcome.
    pub(crate) fn end(&mut self, status: Option<ToolCallStatus>, now_ms: i64) {
        let elapsed_ms = u64::try_from(now_ms.saturating_sub(self.started_ms)).unwrap_or(0);
        self.state = CallState::Ended { status, elapsed_ms };
        let unfinished = self.take_progress();
        self.report.stdout = self.report.stdout.take().or(unfinished);
    }

    /// The last output of a command that does not end by itself, which is shown nowhere else.
    fn take_progress(&mut self) -> Option<BoundedText> {
        let progress = std::mem::take(&mut self.progress).message;
        let is_output = self.kind == ToolKind::Execute && !self.is_subagent;
        (is_output && !progress.trim().is_empty()).then(|| bound_text(progress.trim_end()))
    }

    /// What was called, and what it printed.
    pub(crate) fn source_text(&self) -> String {
        let FinishedCall { diff, stdout, stderr, content, error, .. } = &self.report;
        let has_output = stdout.is_some() || stderr.is_some() || diff.is_some();
        let content = content.as_ref().filter(|_| !has_output);
        let head = self.command.as_ref().map_or(self.title.as_str(), BoundedText::as_str);
        let parts = [diff.as_ref(), stdout.as_ref(), stderr.as_ref(), content, error.as_ref()];
        let parts = parts.into_iter().flatten().map(BoundedText::as_str);
        std::iter::once(head).chain(parts).collect::<Vec<_>>().join("\n")
    }

    /// Estimated size of its texts.
    pub(crate) fn bytes(&self) -> usize {
        let FinishedCall { diff, request, notes, stdout, stderr, content, error, .. } =
            &self.report;
        let texts = [&self.command, diff, request, stdout, stderr, content, error];
        let texts: usize = texts.into_iter().flatten().map(BoundedText::bytes).sum();
        let notes: usize = notes.iter().map(String::len).sum();
        self.title.len() + self.progress.message.len() + texts + notes
    }
}

impl FinishedCall {
    fn new(kind: ToolKind, status: ToolCallStatus, outcome: &ToolOutcome) -> Self {
        let Some(result) = outcome.result() else { return Self::default() };
        let is_command = kind == ToolKind::Execute;
        let text_of = |name: &str| {
            let text = result.structured.get(name).and_then(Value::as_str);
            let text = text.filter(|text| is_command && !text.trim().is_empty());
            text.map(|text| bound_text(text.trim_end()))
        };
        let exit_code = result.structured.get("exit_code").and_then(Value::as_i64);
        let request = match (&result.display, kind, status) {
            (ResultDisplay::Markdown { text }, ToolKind::Fetch, ToolCallStatus::Completed) => {
                (!text.trim().is_empty()).then(|| bound_text(text.trim_end()))
            }
            _ => None,
        };
        let (diff, diff_path) = match &result.display {
            ResultDisplay::Diff(FileDiff { unified, path, .. }) => {
                (Some(bound_text(unified)), shorten_end(path, TITLE_CHARS_MAX))
            }
            ResultDisplay::Markdown { .. } | ResultDisplay::Plan { .. } => (None, String::new()),
        };
        let content = join_content(&result.content);
        Self {
            exit_code: exit_code.filter(|code| is_command && *code != 0),
            diff,
            diff_path,
            request,
            notes: if is_command { collect_notes(outcome) } else { Vec::new() },
            stdout: text_of("stdout"),
            stderr: text_of("stderr"),
            content: (!content.trim().is_empty()).then(|| bound_text(&content)),
            media: collect_media(&result.content),
            ..Self::default()
        }
    }
}

impl SubagentReport {
    fn from_outcome(outcome: &ToolOutcome) -> Option<Self> {
        let totals = match outcome.error() {
            Some(error) => error.details.get("totals"),
            None => outcome.result()?.structured.get("totals"),
        }?;
        let usage = TokenUsage::deserialize(totals.get("usage")?).ok()?;
        let denied_calls = totals.get("deniedCalls").and_then(Value::as_u64).unwrap_or(0);
        Some(Self { usage, denied_calls })
    }
}

fn bound_text(text: &str) -> BoundedText {
    BoundedText::from_text(text, TEXT_BYTES_MAX)
}

/// The text of an outcome: what an answer that repeats it consists of.
pub(crate) fn join_outcome(outcome: &ToolOutcome) -> String {
    match outcome.result() {
        Some(result) => join_content(&result.content),
        None => join_error(outcome),
    }
}

fn join_content(parts: &[ToolResultPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ToolResultPart::Text(text) | ToolResultPart::Lines { text, .. } => {
            Some(Cow::Borrowed(&**text))
        }
        ToolResultPart::Diff { summary, .. } => Some(Cow::Borrowed(&**summary)),
        ToolResultPart::Matches { hits, .. } => {
            let lines = hits.iter().map(|hit| format!("{}:{}: {}", hit.file, hit.line, hit.text));
            Some(Cow::Owned(lines.collect::<Vec<_>>().join("\n")))
        }
        ToolResultPart::Image { .. }
        | ToolResultPart::Audio { .. }
        | ToolResultPart::Resource { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The message of an error, with the output of what failed.
fn join_error(outcome: &ToolOutcome) -> String {
    let Some(error) = outcome.error() else { return String::new() };
    let output = error.details.get("output").and_then(Value::as_str).unwrap_or_default().trim_end();
    match (error.message.is_empty(), output.is_empty()) {
        (false, false) => format!("{}\n\n{output}", error.message),
        (true, _) => output.to_owned(),
        (false, true) => error.message.clone(),
    }
}

fn collect_media(parts: &[ToolResultPart]) -> Vec<String> {
    let media = parts.iter().filter_map(|part| match part {
        ToolResultPart::Image { .. } => Some(describe_media("image", None)),
        ToolResultPart::Audio { .. } => Some(describe_media("audio", None)),
        ToolResultPart::Resource { uri, .. } => Some(describe_media("file", Some(uri))),
        _ => None,
    });
    let mut media: Vec<String> = media.collect();
    let more = media.len().saturating_sub(MEDIA_MAX);
    media.truncate(MEDIA_MAX);
    media.extend((more > 0).then(|| format!("[{more} more]")));
    media
}

/// The notes about a command besides its output, and about jobs that it asks for.
fn collect_notes(outcome: &ToolOutcome) -> Vec<String> {
    let Some(result) = outcome.result() else { return Vec::new() };
    let jobs = result.structured.get("jobs").and_then(Value::as_array);
    let facts = std::iter::once(&result.structured).chain(jobs.into_iter().flatten());
    let written = facts.filter_map(|facts| facts.get("notes").and_then(Value::as_array));
    let written = written.flatten().filter_map(Value::as_str);
    let all = result.metadata.notes.iter().map(String::as_str).chain(written);
    all.take(NOTES_MAX).map(|note| head(note, NOTE_BYTES_MAX).to_owned()).collect()
}
