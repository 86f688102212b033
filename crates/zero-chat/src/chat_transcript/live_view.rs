//! The rows of what is not finished, which are painted again and again below the scrollback.

use zero_terminal::{FAINT, NOTABLE};

use super::ChatTranscript;
use crate::call_cell::{CallCell, CallState};
use crate::cell::Cell;
use crate::cell_view::call_view::CallHead;
use crate::cell_view::row_writer::{BODY_INDENT, MarkedTitle, RowWriter};
use crate::cell_view::{Fold, render_cell};
use crate::styled_row::{clean_exactly, truncate_row, wrap_row};

/// Last lines of output that are shown of a call that runs alone, and of one among others.
const OUTPUT_ROWS_MAX: usize = 5;
const SHARED_OUTPUT_ROWS_MAX: usize = 2;
/// Rows of messages that wait.
const DEFERRED_ROWS_MAX: usize = 4;
/// Most prompts in the queue that are shown.
const QUEUED_ROWS_MAX: usize = 3;

impl ChatTranscript {
    /// The rows of what is not finished: the text whose block is not complete, the calls that run or
    /// wait, the current step of the plan and the prompts in the queue. At most `rows_max` rows, none
    /// wider than `columns`. `now_ms` is the present time, in milliseconds since the Unix epoch.
    pub fn live_rows(&self, columns: usize, rows_max: usize, now_ms: i64) -> Vec<String> {
        let calls: Vec<&CallCell> = self.open_calls().collect();
        let writer = self.writer(columns);
        let mut heads: Vec<String> =
            calls.iter().map(|call| render_head(&writer, call, now_ms)).collect();
        let rows_left = |used: usize| rows_max.saturating_sub(used);
        if heads.len() > rows_max {
            let more = heads.len() - rows_left(1);
            heads.truncate(rows_left(1));
            let kept = if heads.is_empty() { "" } else { "more " };
            let text = format!("{} {more} {kept}calls", writer.marks.ellipsis);
            heads.push(self.stream.paint(FAINT, &text).into_owned());
        }
        let mut below: Vec<String> = self.render_deferred(&writer);
        below.extend(self.render_current_step(&writer));
        below.extend(self.render_queued(&writer));
        below.truncate(rows_left(heads.len()));
        let mut output_left = rows_left(heads.len() + below.len());
        let output_max = if calls.len() > 1 { SHARED_OUTPUT_ROWS_MAX } else { OUTPUT_ROWS_MAX };
        let mut call_rows = Vec::new();
        for (at, head) in heads.into_iter().enumerate() {
            call_rows.push(head);
            let Some(call) = calls.get(at) else { continue };
            let output = self.render_progress(call, output_max.min(output_left));
            output_left -= output.len();
            call_rows.extend(output);
        }
        let mut rows = self.render_open_text(columns, output_left, now_ms);
        rows.drain(..rows.len().saturating_sub(output_left));
        rows.extend(call_rows);
        rows.extend(below);
        rows.truncate(rows_max);
        rows.iter().map(|row| truncate_row(row, columns, writer.marks.ellipsis)).collect()
    }

    /// What waits for the end of a text, as far as there is room: it may be why the user looks here.
    fn render_deferred(&self, writer: &RowWriter<'_>) -> Vec<String> {
        let render =
            |cell| render_cell(cell, &self.stream, writer.columns, self.options, Fold::Folded);
        let rows = self.deferred.iter().flat_map(render);
        let mut rows: Vec<String> = rows.take(DEFERRED_ROWS_MAX + 1).collect();
        if rows.len() > DEFERRED_ROWS_MAX {
            rows.truncate(DEFERRED_ROWS_MAX - 1);
            let text = format!("{} more follows the answer", writer.marks.ellipsis);
            rows.push(self.stream.paint(FAINT, &text).into_owned());
        }
        rows
    }

    /// The rows of the text that is being written, of which no more than the last `rows_max` are needed.
    fn render_open_text(&self, columns: usize, rows_max: usize, now_ms: i64) -> Vec<String> {
        let Some(text) = &self.text else { return Vec::new() };
        let rows = text.render_pending(now_ms, rows_max, self.writer(columns));
        rows.iter().flat_map(|row| wrap_row(row, columns)).collect()
    }

    /// The last lines of what a call reported. A sub-agent's are in its own row.
    fn render_progress(&self, call: &CallCell, rows_max: usize) -> Vec<String> {
        if call.is_subagent || call.state != CallState::Running {
            return Vec::new();
        }
        let lines: Vec<&str> =
            call.progress.message.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.get(lines.len().saturating_sub(rows_max)..).unwrap_or_default();
        let render = |line: &&str| {
            let line = clean_exactly(line);
            format!("{}{}", " ".repeat(BODY_INDENT), self.stream.paint(FAINT, &line))
        };
        last.iter().map(render).collect()
    }

    fn render_current_step(&self, writer: &RowWriter<'_>) -> Option<String> {
        let (number, entry) = self.plan.current_step().filter(|_| self.is_running())?;
        let steps = self.plan.entries.len() + self.plan.more;
        let title = format!("{number}/{steps} {}", entry.content);
        let marked = MarkedTitle {
            mark: writer.marks.current_step,
            mark_style: NOTABLE,
            title: &title,
            suffix: "",
            suffix_style: FAINT,
        };
        Some(writer.render_title(&marked, Fold::Folded))
    }

    fn render_queued(&self, writer: &RowWriter<'_>) -> Vec<String> {
        let rows = self.queued.iter().take(QUEUED_ROWS_MAX).filter_map(|queued| {
            let Cell::Prompt(prompt) = &queued.cell else { return None };
            let marked = MarkedTitle {
                mark: writer.marks.prompt,
                mark_style: FAINT,
                title: prompt.text.as_str().lines().next().unwrap_or_default(),
                suffix: "queued",
                suffix_style: FAINT,
            };
            Some(writer.render_title(&marked, Fold::Folded))
        });
        rows.collect()
    }
}

/// The row of a call that has not ended.
fn render_head(writer: &RowWriter<'_>, call: &CallCell, now_ms: i64) -> String {
    let head = CallHead::new(writer, call, Some(now_ms));
    let row = writer.render_title(&head.to_marked(call), Fold::Folded);
    let doing = call.progress.message.lines().next_back().unwrap_or_default();
    if !call.is_subagent || doing.trim().is_empty() || call.state != CallState::Running {
        return row;
    }
    let separator = if writer.options.plain { "-" } else { "·" };
    let doing = format!(" {separator} {}", clean_exactly(doing));
    format!("{row}{}", writer.stream.paint(FAINT, &doing))
}
