//! Renders the end of a call: its title, what it changed and sent, what its command printed, and its
//! error.

use anstyle::Style;
use serde_json::Value;
use zero_core::event::{ResultContent, ToolCallStatus};
use zero_core::{ResultDisplay, ToolKind, ToolOutcome};
use zero_runtime::dialect::render_plain;
use zero_runtime::redaction;

use crate::approval::error_for_user;
use crate::terminal::{BAD, FAINT, GOOD, NOTABLE, STRONG, TerminalStream, escape_line};

/// Lines shown of the error of a failed call.
pub(super) const ERROR_LINES_MAX: usize = 8;
/// Notes shown about a command.
const NOTES_MAX: usize = 20;
/// Last lines that are shown of what a command printed, unless all are wanted.
pub(super) const OUTPUT_LINES_MAX: usize = 5;
/// Lines that are shown of a command's other stream, whatever the first one has.
const OTHER_LINES_MAX: usize = 2;
/// Lines shown of a diff.
const DIFF_LINES_MAX: usize = 60;
/// Lines shown of a web request; the tool's own limit.
const SENT_LINES_MAX: usize = 200;

/// A call that has not ended.
pub(super) struct PrintedCall {
    pub(super) title: String,
    pub(super) kind: ToolKind,
    /// Web request of the call, with secrets redacted; only for WebRequest.
    request: Option<String>,
}

impl PrintedCall {
    pub(super) fn new(name: &str, title: &str, kind: ToolKind, input: &Value) -> Self {
        Self { title: title.to_owned(), kind, request: describe_request(name, input) }
    }

    /// A call of which only the title is known.
    pub(super) fn with_title(title: &str) -> Self {
        Self { title: title.to_owned(), kind: ToolKind::Other, request: None }
    }

    /// How the call ended, without what its command printed and its error.
    pub(super) fn render_end(
        &self,
        stream: &TerminalStream,
        status: ToolCallStatus,
        outcome: &ToolOutcome,
    ) -> String {
        let display = outcome.result().map(|result| &result.display);
        let exit_code = failed_exit_code(outcome).filter(|_| self.kind == ToolKind::Execute);
        let mut text = self.render_title(stream, status, exit_code);
        if let Some(ResultDisplay::Diff(diff)) = display {
            text.push_str(&render_bounded_diff(stream, &diff.unified));
        }
        let request = self.sent_request(status, display).unwrap_or_default();
        for line in request.lines().take(SENT_LINES_MAX) {
            match line.is_empty() {
                true => text.push('\n'),
                false => text.push_str(&stream.render_foreign_line(FAINT, line)),
            }
        }
        // Such as files that were moved to quarantine: the model is not the only one to know.
        if self.kind == ToolKind::Execute {
            for note in command_notes(outcome).take(NOTES_MAX) {
                push_wrapped(&mut text, stream, NOTABLE, note);
            }
        }
        text
    }

    fn render_title(
        &self,
        stream: &TerminalStream,
        status: ToolCallStatus,
        exit_code: Option<i64>,
    ) -> String {
        let (mark, style) = match status {
            ToolCallStatus::Completed if exit_code.is_some() => ("✗", BAD),
            ToolCallStatus::Completed => ("●", GOOD),
            ToolCallStatus::Denied => ("⊘", BAD),
            ToolCallStatus::Failed | ToolCallStatus::Interrupted => ("✗", BAD),
            ToolCallStatus::Cancelled => ("■", NOTABLE),
        };
        let ending = exit_code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
        let title = stream.truncate_line(&escape_line(&self.title), 2 + ending.len());
        let title = stream.paint(STRONG, &title);
        format!("{} {title}{}\n", stream.paint(style, mark), stream.paint(BAD, &ending))
    }

    /// The web request that was sent, with its target.
    fn sent_request<'a>(
        &'a self,
        status: ToolCallStatus,
        display: Option<&'a ResultDisplay>,
    ) -> Option<&'a str> {
        match (status, self.kind, display) {
            (
                ToolCallStatus::Completed,
                ToolKind::Fetch,
                Some(ResultDisplay::Markdown { text }),
            ) => Some(text),
            (ToolCallStatus::Completed | ToolCallStatus::Denied, ..) => None,
            // The request may have been sent partly or completely.
            _ => self.request.as_deref(),
        }
    }

    /// The error of a call that failed or was denied, without the title, which is above it.
    pub(super) fn render_error(&self, stream: &TerminalStream, outcome: &ToolOutcome) -> String {
        let error = join_text(outcome);
        let error = error_for_user(&error);
        let untitled = error.strip_prefix(&*self.title).and_then(|rest| rest.strip_prefix(": "));
        let error = untitled.unwrap_or(&error);
        let mut text = String::new();
        for line in error.lines().take(ERROR_LINES_MAX) {
            push_wrapped(&mut text, stream, FAINT, line);
        }
        let more = error.lines().count().saturating_sub(ERROR_LINES_MAX);
        if more > 0 {
            let note = format!("  … {} more; --json shows all\n", count_lines(more));
            text.push_str(&stream.paint(FAINT, &note));
        }
        text
    }
}

/// Renders the web request in a tool input, with secrets redacted.
fn describe_request(name: &str, input: &Value) -> Option<String> {
    let text = |name: &str| input.get(name).and_then(Value::as_str);
    let url = text("url").filter(|_| name == "WebRequest")?;
    let mut request =
        format!("{} {}\n", text("method").unwrap_or("GET"), redaction::redact_text(url));
    for (name, value) in input.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let value = redaction::redact_field(name, value.as_str().unwrap_or_default());
        request.push_str(&format!("{name}: {value}\n"));
    }
    if let Some(body) = text("body").filter(|body| !body.is_empty()) {
        request.push_str(&format!("\n{}", redaction::redact_text(body)));
    }
    Some(request)
}

/// What a command printed: the last lines of its output and of its errors, and how many are left out.
/// Of the two, the one that says more about its end has more lines.
pub(super) fn render_output(
    stream: &TerminalStream,
    outcome: &ToolOutcome,
    is_whole: bool,
) -> String {
    let facts = outcome.result().map(|result| &result.structured);
    let lines_of = |name: &str| -> Vec<&str> {
        let text = facts.and_then(|facts| facts.get(name)).and_then(Value::as_str);
        text.unwrap_or_default().trim_end().lines().collect()
    };
    let (stdout, stderr) = (lines_of("stdout"), lines_of("stderr"));
    // Test runners write to either, so that neither is left out.
    let beside = |main: &[&str]| OUTPUT_LINES_MAX.saturating_sub(main.len()).max(OTHER_LINES_MAX);
    let has_failed = failed_exit_code(outcome).is_some();
    let (stdout_max, stderr_max) = match has_failed && !stderr.is_empty() {
        true => (beside(&stderr), OUTPUT_LINES_MAX),
        false => (OUTPUT_LINES_MAX, beside(&stdout)),
    };
    let mut text = String::new();
    let mut push = |line: &str| text.push_str(&stream.render_foreign_line(FAINT, line));
    for (lines, lines_max) in [(&stdout, stdout_max), (&stderr, stderr_max)] {
        let hidden = match is_whole {
            true => 0,
            false => lines.len().saturating_sub(lines_max),
        };
        if hidden > 0 {
            push(&format!("… {} before; --verbose shows all", count_lines(hidden)));
        }
        lines.iter().skip(hidden).for_each(|line| push(line));
    }
    text
}

/// The notes about a command besides its output, and about jobs that it asks for.
fn command_notes(outcome: &ToolOutcome) -> impl Iterator<Item = &str> {
    let facts = outcome.result().map(|result| &result.structured);
    let jobs = facts.and_then(|facts| facts.get("jobs")).and_then(Value::as_array);
    let all = facts.into_iter().chain(jobs.into_iter().flatten());
    let notes = all.filter_map(|facts| facts.get("notes").and_then(Value::as_array));
    let reported_lines =
        outcome.result().map(|result| &result.metadata.notes[..]).unwrap_or_default();
    reported_lines.iter().map(String::as_str).chain(notes.flatten().filter_map(Value::as_str))
}

/// The exit code of a command that failed.
pub(super) fn failed_exit_code(outcome: &ToolOutcome) -> Option<i64> {
    let code = outcome.result()?.structured.get("exit_code")?.as_i64()?;
    (code != 0).then_some(code)
}

/// Adds a line of prose below a call, wrapped between words.
pub(super) fn push_wrapped(text: &mut String, stream: &TerminalStream, style: Style, line: &str) {
    let rows = stream.wrap_prose(&format!("  {}", escape_line(line)), 0);
    for row in rows.lines() {
        text.push_str(&format!(
            "  {}\n",
            stream.paint(style, row.strip_prefix("  ").unwrap_or(row))
        ));
    }
}

fn count_lines(count: usize) -> String {
    if count == 1 { "1 line".to_owned() } else { format!("{count} lines") }
}

pub(super) fn is_error(status: ToolCallStatus) -> bool {
    matches!(status, ToolCallStatus::Failed | ToolCallStatus::Denied)
}

/// Joins the text parts of an outcome.
pub(super) fn join_text(outcome: &ToolOutcome) -> String {
    let texts = render_plain(outcome).into_iter().filter_map(|piece| match piece {
        ResultContent::Text { text } => Some(text),
        ResultContent::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Error text of a failed call, if it is short enough to be shown completely.
pub(super) fn extract_error(status: ToolCallStatus, outcome: &ToolOutcome) -> Option<String> {
    let text = join_text(outcome);
    let is_whole = text.lines().count() <= ERROR_LINES_MAX;
    (is_error(status) && is_whole && !text.is_empty()).then_some(text)
}

/// The first lines of a diff, and how many more there are.
pub(in crate::commands) fn render_bounded_diff(stream: &TerminalStream, unified: &str) -> String {
    let count = unified.lines().count();
    let shown: Vec<&str> = unified.lines().take(DIFF_LINES_MAX).collect();
    let mut text = stream.render_diff(&shown.join("\n"));
    if count > shown.len() {
        let more = format!("… {} more lines\n", count - shown.len());
        text.push_str(&stream.paint(FAINT, &more));
    }
    text
}
