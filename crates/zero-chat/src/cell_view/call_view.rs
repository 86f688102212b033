//! The rows of a call: its title, and what is worth showing of its outcome.

use anstyle::Style;
use zero_core::event::ToolCallStatus;
use zero_terminal::{BAD, FAINT, GOOD, NOTABLE};

use super::Fold;
use super::diff_view::push_diff;
use super::row_writer::{BODY_INDENT, MarkedTitle, RowWriter};
use super::run_end_view::{NOTED_MS_MIN, format_elapsed};
use crate::bounded_text::BoundedText;
use crate::call_cell::{CallCell, CallState, FinishedCall};

/// Last lines that are shown of what a command printed, unless all are wanted.
const OUTPUT_LINES_MAX: usize = 5;
/// Of these, lines that the other stream of a command has at least.
const OTHER_LINES_MAX: usize = 2;
/// Characters that are shown of each of these lines: one line of a minified file must not fill the screen.
const OUTPUT_LINE_CHARS_MAX: usize = 400;
/// Lines that are shown of an error, a diff and a web request, unless all are wanted.
const ERROR_LINES_MAX: usize = 8;
const DIFF_LINES_MAX: usize = 60;
const REQUEST_LINES_MAX: usize = 20;

/// Whether an error is short enough to be shown whole.
pub(crate) fn is_whole_error(error: &str) -> bool {
    error.lines().count() <= ERROR_LINES_MAX
}

/// Adds the rows of a call.
pub(super) fn push_call(writer: &mut RowWriter<'_>, cell: &CallCell, fold: Fold) {
    let head = CallHead::new(writer, cell, None);
    writer.push_title(&head.to_marked(cell), fold);
    let report = &cell.report;
    let lines_max = |lines: usize| if fold == Fold::Open { usize::MAX } else { lines };
    if fold == Fold::Open
        && let Some(command) = &cell.command
        && !cell.title.contains(command.as_str())
    {
        command.as_str().lines().for_each(|line| writer.push_line(BODY_INDENT, FAINT, line));
    }
    if let Some(diff) = &report.diff {
        push_diff(writer, diff.as_str(), &report.diff_path, lines_max(DIFF_LINES_MAX));
    }
    if let Some(request) = &report.request {
        push_first_lines(writer, request.as_str(), lines_max(REQUEST_LINES_MAX));
    }
    for note in &report.notes {
        writer.push_prose(BODY_INDENT, NOTABLE, note);
    }
    push_output(writer, report, fold);
    for note in &report.media {
        writer.push_line(BODY_INDENT, FAINT, note);
    }
    if let Some(error) = &report.error {
        push_error(writer, error.as_str(), lines_max(ERROR_LINES_MAX));
    }
}

/// The mark of a call and what follows its title.
pub(crate) struct CallHead {
    mark: &'static str,
    mark_style: Style,
    suffix: String,
    suffix_style: Style,
}

impl CallHead {
    /// The head of a call; `now_ms` is the present time, for a call that runs.
    pub(crate) fn new(writer: &RowWriter<'_>, cell: &CallCell, now_ms: Option<i64>) -> Self {
        use ToolCallStatus::{Cancelled, Completed, Denied, Failed, Interrupted};
        let marks = writer.marks;
        let (mark, mark_style, word) = match &cell.state {
            CallState::Waiting => (marks.running, FAINT, "waiting"),
            CallState::NeedsApproval { .. } => (marks.question, NOTABLE, "needs your approval"),
            CallState::Running => (marks.running, NOTABLE, ""),
            CallState::Ended { status: None, .. } => (marks.stopped, NOTABLE, "no result"),
            CallState::Ended { status: Some(status), .. } => match status {
                Completed if cell.report.exit_code.is_some() => (marks.failed, BAD, ""),
                Completed => (marks.done, GOOD, ""),
                Failed => (marks.failed, BAD, ""),
                Interrupted => (marks.failed, BAD, "interrupted"),
                Denied => (marks.denied, BAD, ""),
                Cancelled => (marks.stopped, NOTABLE, "stopped"),
            },
        };
        let mut parts = Vec::new();
        // A mark in words says it already.
        if !word.is_empty() && !mark.contains(word) {
            parts.push(word.to_owned());
        }
        if let Some(code) = cell.report.exit_code {
            parts.push(format!("exit code {code}"));
        }
        if let Some(subagent) = &cell.report.subagent {
            parts.push(match subagent.usage.tool_calls {
                1 => "1 call".to_owned(),
                calls => format!("{calls} calls"),
            });
            if subagent.denied_calls > 0 {
                parts.push(format!("{} denied", subagent.denied_calls));
            }
        }
        match (&cell.state, now_ms) {
            (CallState::Ended { elapsed_ms, .. }, _) if *elapsed_ms >= NOTED_MS_MIN => {
                parts.push(format_elapsed(*elapsed_ms));
            }
            (CallState::Running, Some(now_ms)) => {
                let elapsed = now_ms.saturating_sub(cell.started_ms);
                parts.push(format_elapsed(u64::try_from(elapsed).unwrap_or(0)));
                parts.extend(cell.progress.percentage.map(|share| format!("{share} %")));
            }
            _ => {}
        }
        let suffix_style = if cell.report.exit_code.is_some() { BAD } else { FAINT };
        Self { mark, mark_style, suffix: parts.join(", "), suffix_style }
    }

    /// The head with the call's title.
    pub(crate) fn to_marked<'a>(&'a self, cell: &'a CallCell) -> MarkedTitle<'a> {
        let Self { mark, mark_style, suffix, suffix_style } = self;
        MarkedTitle {
            mark,
            mark_style: *mark_style,
            title: &cell.title,
            suffix,
            suffix_style: *suffix_style,
        }
    }
}

/// Adds what a command printed: the last lines of its output and of its errors, and how many are left
/// out. Of the two, the one that says more about its end has more lines.
fn push_output(writer: &mut RowWriter<'_>, report: &FinishedCall, fold: Fold) {
    let FinishedCall { stdout, stderr, content, diff, .. } = report;
    if report.is_output_repeated {
        return;
    }
    if fold == Fold::Open && stdout.is_none() && stderr.is_none() && diff.is_none() {
        let content = content.as_ref().map_or("", BoundedText::as_str);
        content.lines().for_each(|line| writer.push_line(BODY_INDENT, FAINT, line));
    }
    let count =
        |text: &Option<BoundedText>| text.as_ref().map_or(0, |text| text.as_str().lines().count());
    let (stdout_lines, stderr_lines) = (count(stdout), count(stderr));
    let share = |main: usize, other: usize| {
        let main_max = OUTPUT_LINES_MAX - other.min(OTHER_LINES_MAX);
        (main_max, OUTPUT_LINES_MAX - main.min(main_max))
    };
    let (stdout_max, stderr_max) = match report.exit_code.is_some() && stderr_lines > 0 {
        true => {
            let (stderr_max, stdout_max) = share(stderr_lines, stdout_lines);
            (stdout_max, stderr_max)
        }
        false => share(stdout_lines, stderr_lines),
    };
    let is_whole = fold == Fold::Open || writer.options.whole_output;
    let mut is_cut = false;
    for (text, lines, lines_max) in
        [(stdout, stdout_lines, stdout_max), (stderr, stderr_lines, stderr_max)]
    {
        let Some(text) = text else { continue };
        let before = if is_whole { 0 } else { lines.saturating_sub(lines_max) };
        if before > 0 {
            writer.push_more(BODY_INDENT, before + text.lines_left_out());
        }
        for line in text.as_str().lines().skip(before) {
            match line.char_indices().nth(OUTPUT_LINE_CHARS_MAX).filter(|_| !is_whole) {
                Some((end, _)) => {
                    let start = line.get(..end).unwrap_or(line);
                    writer.push_line(
                        BODY_INDENT,
                        FAINT,
                        &format!("{start}{}", writer.marks.ellipsis),
                    );
                    is_cut = true;
                }
                None => writer.push_line(BODY_INDENT, FAINT, line),
            }
        }
    }
    if is_cut {
        let text = format!("{} long lines are cut (Ctrl-T shows all)", writer.marks.ellipsis);
        writer.push_line(BODY_INDENT, FAINT, &text);
    }
}

fn push_first_lines(writer: &mut RowWriter<'_>, text: &str, lines_max: usize) {
    text.lines().take(lines_max).for_each(|line| writer.push_line(BODY_INDENT, FAINT, line));
    writer.push_more(BODY_INDENT, text.lines().count().saturating_sub(lines_max));
}

fn push_error(writer: &mut RowWriter<'_>, error: &str, lines_max: usize) {
    for line in error.lines().take(lines_max) {
        writer.push_prose(BODY_INDENT, FAINT, line);
        if line.is_empty() {
            writer.push_row(String::new());
        }
    }
    writer.push_more(BODY_INDENT, error.lines().count().saturating_sub(lines_max));
}
