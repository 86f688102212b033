//! Renders a cell completely, as rows for a window of some width.
//!
//! The same rows go into the scrollback and into a full-screen transcript. Lines of output and code are
//! not wrapped, so that a copy of them is what was written; prose is wrapped at words.

pub(crate) mod call_view;
mod diff_view;
pub(crate) mod marks;
pub(crate) mod row_writer;
pub(crate) mod run_end_view;

use anstyle::Style;
use zero_terminal::markdown::{MarkdownLayout, render_markdown};
use zero_terminal::{FAINT, GOOD, NOTABLE, STRONG, TerminalStream};

use self::marks::Marks;
use self::row_writer::{INDENT, RowWriter};
use self::run_end_view::format_elapsed;
use crate::cell::{AnswerCell, Cell, PlanCell, PromptCell, QuestionCell, ThoughtCell};
use crate::styled_row::{clean_prose, expand_tabs, wrap_words};

/// Lines of a prompt that are shown in the scrollback.
const PROMPT_LINES_MAX: usize = 40;
/// Characters of them: a paste may be one long line.
const PROMPT_CHARS_MAX: usize = 4_000;

/// How Markdown is laid out. Its bullets are not zero's own mark, and there is room to indent a row
/// that begins with one.
pub(crate) const ANSWER_LAYOUT: MarkdownLayout =
    MarkdownLayout { bullet: '-', wraps_code: false, margin: INDENT };

/// What is shown besides the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewOptions {
    /// The model's thinking.
    pub thoughts: bool,
    /// All output of commands, not only its last lines.
    pub whole_output: bool,
    /// The answer as the model wrote it, and words in place of marks that are not ASCII.
    pub plain: bool,
    /// Everything as it was written, without indents and rendering, so that a selection on the screen
    /// has nothing else in it.
    pub raw: bool,
    /// Only ASCII in what zero adds.
    pub ascii: bool,
}

/// How much of a cell is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// What is worth a place in the scrollback.
    Folded,
    /// Everything that is kept.
    Open,
}

/// The rows of a cell, escaped and styled, without line ends. Lines of output and code may be wider
/// than `columns`; [`wrap_row`](crate::wrap_row) fits them into a window that does not wrap itself.
pub fn render_cell(
    cell: &Cell,
    stream: &TerminalStream,
    columns: usize,
    options: ViewOptions,
    fold: Fold,
) -> Vec<String> {
    let mut writer = RowWriter::new(stream, columns, options);
    if options.raw && push_source(&mut writer, cell) {
        return writer.into_rows();
    }
    match cell {
        Cell::Prompt(prompt) => push_prompt(&mut writer, prompt, fold),
        Cell::Answer(answer) => push_answer(&mut writer, answer),
        Cell::Thought(thought) => push_thought(&mut writer, thought, fold),
        Cell::Call(call) => call_view::push_call(&mut writer, call, fold),
        Cell::Plan(plan) => push_plan(&mut writer, plan),
        Cell::Notice(text) => push_notice(&mut writer, text.as_str()),
        Cell::Printed(text) => {
            text.as_str().lines().for_each(|row| writer.push_row(row.to_owned()));
        }
        Cell::Question(question) => push_question(&mut writer, question),
        Cell::Compaction(compaction) => {
            push_notice(&mut writer, &compaction.description);
            if fold == Fold::Open {
                writer.push_prose(row_writer::BODY_INDENT, FAINT, compaction.summary.as_str());
            }
        }
        Cell::RunEnd(run_end) => run_end_view::push_run_end(&mut writer, run_end),
    }
    writer.into_rows()
}

/// Adds a cell as it was written; false if it is neither the user's nor the model's text.
fn push_source(writer: &mut RowWriter<'_>, cell: &Cell) -> bool {
    let text = match cell {
        Cell::Prompt(prompt) => prompt.text.as_str(),
        Cell::Answer(answer) => answer.text.as_str(),
        Cell::Call(call) if !call.report.is_output_repeated => {
            writer.push_source(&call.source_text());
            return true;
        }
        _ => return false,
    };
    writer.push_source(text);
    true
}

fn push_prompt(writer: &mut RowWriter<'_>, prompt: &PromptCell, fold: Fold) {
    let text = prompt.text.as_str();
    let lines_max = if fold == Fold::Open { usize::MAX } else { PROMPT_LINES_MAX };
    let shown = match text.match_indices('\n').nth(lines_max - 1) {
        Some((end, _)) => text.get(..end).unwrap_or(text),
        None => text,
    };
    if fold == Fold::Folded
        && let Some((end, _)) = shown.char_indices().nth(PROMPT_CHARS_MAX)
    {
        let start = shown.get(..end).unwrap_or(shown);
        let ellipsis = writer.marks.ellipsis;
        writer.push_marked(writer.marks.prompt, STRONG, STRONG, &format!("{start}{ellipsis}"));
        writer.push_line(INDENT, FAINT, &format!("{ellipsis} the rest is cut (Ctrl-T shows all)"));
    } else {
        writer.push_marked(writer.marks.prompt, STRONG, STRONG, shown);
        let left = text.get(shown.len()..).unwrap_or_default();
        writer.push_more(INDENT, left.lines().skip(1).count());
    }
    for note in &prompt.attachments {
        writer.push_line(INDENT, FAINT, note);
    }
}

fn push_answer(writer: &mut RowWriter<'_>, answer: &AnswerCell) {
    let text = answer.text.as_str();
    if !answer.is_markdown || writer.options.plain || writer.options.raw {
        text.trim_end().lines().for_each(|line| push_plain_line(writer, line));
        return;
    }
    let rows = render_markdown(writer.stream, writer.columns, ANSWER_LAYOUT, text);
    rows.lines().for_each(|row| push_answer_row(writer, row));
}

/// Adds a line of an answer that is not rendered.
pub(crate) fn push_plain_line(writer: &mut RowWriter<'_>, line: &str) {
    push_answer_row(writer, &clean_prose(line));
}

/// Adds a row of an answer, which is escaped already.
pub(crate) fn push_answer_row(writer: &mut RowWriter<'_>, row: &str) {
    if writer.options.raw {
        return writer.push_row(row.to_owned());
    }
    let row = expand_tabs(row);
    let row = writer.marks.guard_row(&row).into_owned();
    writer.push_row(row);
}

fn push_thought(writer: &mut RowWriter<'_>, thought: &ThoughtCell, fold: Fold) {
    let elapsed = thought.ended_ms.map(|ended| ended.saturating_sub(thought.started_ms));
    let elapsed = elapsed.and_then(|elapsed| u64::try_from(elapsed).ok());
    let text = match elapsed {
        Some(elapsed_ms @ 1_000..) => format!("thought for {}", format_elapsed(elapsed_ms)),
        _ => "thought".to_owned(),
    };
    push_thought_head(writer, &text);
    if fold == Fold::Open || writer.options.thoughts {
        push_thought_text(writer, thought.text.as_str());
    }
}

/// Adds the row that begins a thought.
pub(crate) fn push_thought_head(writer: &mut RowWriter<'_>, text: &str) {
    // In words, the mark says the same.
    match (writer.marks.thought, text.strip_prefix("thought ")) {
        (mark @ "[thought]", Some(rest)) => writer.push_marked(mark, FAINT, FAINT, rest),
        (mark, _) => writer.push_marked(mark, FAINT, FAINT, text),
    }
}

/// Adds lines of a thought.
pub(crate) fn push_thought_text(writer: &mut RowWriter<'_>, text: &str) {
    writer.push_prose(INDENT, FAINT, text);
}

fn push_plan(writer: &mut RowWriter<'_>, plan: &PlanCell) {
    let Marks { step_done, current_step, step_open, .. } = writer.marks;
    for entry in &plan.entries {
        let (mark, mark_style, style) = match entry.status.as_str() {
            "completed" => (step_done, GOOD, FAINT),
            "in_progress" => (current_step, NOTABLE, STRONG),
            _ => (step_open, FAINT, Style::new()),
        };
        let content = zero_core::sanitize::escape_line(&entry.content);
        let indent = " ".repeat(INDENT);
        let used = INDENT + mark.chars().count() + 1;
        let room = writer.columns.saturating_sub(used);
        for (at, row) in wrap_words(&content, room, room).iter().enumerate() {
            let before = match at {
                0 => format!("{indent}{} ", writer.stream.paint(mark_style, mark)),
                _ => " ".repeat(used),
            };
            let row = format!("{before}{}", writer.stream.paint(style, row));
            writer.push_row(row);
        }
    }
    if plan.more > 0 {
        let text = format!("{} {} more steps", writer.marks.ellipsis, plan.more);
        writer.push_line(INDENT, FAINT, &text);
    }
}

fn push_notice(writer: &mut RowWriter<'_>, text: &str) {
    writer.push_marked(writer.marks.notice, NOTABLE, Style::new(), text.trim_end());
}

fn push_question(writer: &mut RowWriter<'_>, question: &QuestionCell) {
    let answer = match question.action.as_deref() {
        Some("accept") => " (answered)",
        Some("decline") => " (declined)",
        Some(_) => " (cancelled)",
        None => "",
    };
    let QuestionCell { origin, message, .. } = question;
    let text = format!("{origin} asks: {}{answer}", message.as_str().trim_end());
    writer.push_marked(writer.marks.question, NOTABLE, Style::new(), &text);
}
