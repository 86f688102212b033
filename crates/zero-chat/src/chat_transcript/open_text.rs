//! An answer or a thought that is still being written.

use zero_terminal::TerminalStream;
use zero_terminal::markdown::MarkdownStream;

use crate::cell::{AnswerCell, Cell, ThoughtCell};
use crate::cell_view::row_writer::RowWriter;
use crate::cell_view::run_end_view::format_elapsed;
use crate::cell_view::{
    ANSWER_LAYOUT, ViewOptions, push_answer_row, push_plain_line, push_thought_head,
    push_thought_text,
};

/// Most bytes that wait for the end of their line; more are shown as a line.
const LINE_BYTES_MAX: usize = 32 * 1024;

/// A text that is still being written. Its complete rows are returned once.
pub(super) struct OpenText {
    /// The cell that it will be.
    pub(super) cell: Cell,
    /// Whether rows were returned.
    pub(super) has_shown: bool,
    renderer: TextRenderer,
}

enum TextRenderer {
    Markdown(Box<MarkdownStream>),
    /// Lines of an answer that is not Markdown; has the one that is not complete.
    PlainLines(String),
    /// Lines of a thought; has the one that is not complete.
    ThoughtLines(String),
    /// A thought that is shown only as one line, when it ends.
    Hidden,
}

impl OpenText {
    pub(super) fn new_answer(
        stream: &TerminalStream,
        options: ViewOptions,
        is_markdown: bool,
    ) -> Self {
        let renderer = match is_markdown && !options.plain && !options.raw {
            true => {
                let markdown = MarkdownStream::new(stream).with_layout(ANSWER_LAYOUT);
                TextRenderer::Markdown(Box::new(markdown))
            }
            false => TextRenderer::PlainLines(String::new()),
        };
        Self { cell: Cell::Answer(AnswerCell::new(is_markdown)), has_shown: false, renderer }
    }

    pub(super) fn new_thought(options: ViewOptions, started_ms: i64) -> Self {
        let renderer = match options.thoughts {
            true => TextRenderer::ThoughtLines(String::new()),
            false => TextRenderer::Hidden,
        };
        Self { cell: Cell::Thought(ThoughtCell::new(started_ms)), has_shown: false, renderer }
    }

    pub(super) fn is_answer(&self) -> bool {
        matches!(self.cell, Cell::Answer(_))
    }

    /// Whether nothing but blanks was written.
    pub(super) fn is_blank(&self) -> bool {
        match &self.cell {
            Cell::Answer(answer) => answer.text.is_blank(),
            Cell::Thought(thought) => thought.text.is_blank(),
            _ => true,
        }
    }

    /// Adds text, and returns the rows that are complete.
    pub(super) fn push(&mut self, text: &str, mut writer: RowWriter<'_>) -> Vec<String> {
        match &mut self.cell {
            Cell::Answer(answer) => answer.text.push(text),
            Cell::Thought(thought) => thought.text.push(text),
            _ => {}
        }
        let has_shown = self.has_shown;
        match &mut self.renderer {
            TextRenderer::Markdown(markdown) => {
                let rows = markdown.push(text);
                rows.lines().for_each(|row| push_answer_row(&mut writer, row));
            }
            TextRenderer::PlainLines(pending) | TextRenderer::ThoughtLines(pending) => {
                pending.push_str(text);
                let is_long = pending.len() > LINE_BYTES_MAX;
                let complete = match is_long {
                    true => pending.len(),
                    false => pending.rfind('\n').map_or(0, |end| end + 1),
                };
                let lines: String = pending.drain(..complete).collect();
                self.push_lines(&lines, has_shown, &mut writer);
            }
            TextRenderer::Hidden => {}
        }
        self.note_shown(writer)
    }

    /// Ends the text, and returns the rest of its rows.
    pub(super) fn finish(&mut self, now_ms: i64, mut writer: RowWriter<'_>) -> Vec<String> {
        if let Cell::Thought(thought) = &mut self.cell {
            thought.ended_ms = Some(now_ms);
        }
        let has_shown = self.has_shown;
        match &mut self.renderer {
            TextRenderer::Markdown(markdown) => {
                let rows = markdown.finish();
                rows.lines().for_each(|row| push_answer_row(&mut writer, row));
            }
            TextRenderer::PlainLines(pending) | TextRenderer::ThoughtLines(pending) => {
                let rest = std::mem::take(pending);
                self.push_lines(rest.trim_end(), has_shown, &mut writer);
            }
            TextRenderer::Hidden => {
                return crate::render_cell(
                    &self.cell,
                    writer.stream,
                    writer.columns,
                    writer.options,
                    crate::Fold::Folded,
                );
            }
        }
        self.note_shown(writer)
    }

    fn push_lines(&self, lines: &str, has_shown: bool, writer: &mut RowWriter<'_>) {
        // Blank lines at the start say nothing.
        let lines = if has_shown { lines } else { lines.trim_start_matches(['\n', '\r']) };
        if lines.is_empty() {
            return;
        }
        match &self.cell {
            Cell::Thought(_) => {
                if !has_shown {
                    push_thought_head(writer, "thinking");
                }
                push_thought_text(writer, lines);
            }
            _ => lines.lines().for_each(|line| push_plain_line(writer, line)),
        }
    }

    fn note_shown(&mut self, writer: RowWriter<'_>) -> Vec<String> {
        let rows = writer.into_rows();
        self.has_shown |= !rows.is_empty();
        rows
    }

    /// The rows of what is not complete, at least the last `rows_max` of them.
    pub(super) fn render_pending(
        &self,
        now_ms: i64,
        rows_max: usize,
        mut writer: RowWriter<'_>,
    ) -> Vec<String> {
        match (&self.renderer, &self.cell) {
            (TextRenderer::Markdown(markdown), _) => {
                let rows = markdown.render_pending();
                let hidden = rows.lines().count().saturating_sub(rows_max);
                rows.lines().skip(hidden).for_each(|row| push_answer_row(&mut writer, row));
            }
            (TextRenderer::PlainLines(pending), _) => {
                pending.lines().for_each(|line| push_plain_line(&mut writer, line));
            }
            (TextRenderer::ThoughtLines(pending), _) if self.has_shown || !pending.is_empty() => {
                push_thought_text(&mut writer, pending);
            }
            (_, Cell::Thought(thought)) => {
                let elapsed = now_ms.saturating_sub(thought.started_ms);
                let elapsed = format_elapsed(u64::try_from(elapsed).unwrap_or(0));
                push_thought_head(&mut writer, &format!("thinking ({elapsed})"));
            }
            _ => {}
        }
        writer.into_rows()
    }
}
