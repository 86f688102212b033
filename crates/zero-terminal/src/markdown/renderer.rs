//! Renders complete blocks of Markdown as rows of text that fit a window.

use std::borrow::Cow;
use std::ops::Range;

use anstyle::{AnsiColor, Style};
use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::MarkdownLayout;
use super::span_wrap::{StyledRow, StyledSpan, measure_spans, wrap_spans};
use crate::code_highlight::{CodeHighlighter, CodeSpan};
use crate::{FAINT, STRONG, TerminalStream, diff_line_style, text_columns, wrap_chars};

/// Style of code within a sentence.
const CODE: Style = AnsiColor::Cyan.on_default();
/// Quotes and lists in each other that are indented; deeper ones are not.
const NESTING_MAX: usize = 8;
/// Columns between the columns of a table.
const TABLE_GAP: usize = 2;
/// A column of a table is not made narrower than this.
const TABLE_COLUMN_MIN: usize = 16;
/// Columns of a line across the text.
const RULE_COLUMNS: usize = 40;
/// What stands before each line of code.
const CODE_INDENT: &str = "  ";

/// What stands before the rows after the first of a line of code.
const CODE_CONTINUATION: &str = "↪ ";

/// Renders one line of a code block in rows of at most `room` columns. A mark shows that a row goes on.
pub(crate) fn render_code_line(
    stream: &TerminalStream,
    room: usize,
    language: &str,
    highlighter: &mut CodeHighlighter,
    line: &str,
) -> Vec<String> {
    let mut spans = highlighter.highlight(line);
    if language == "diff" {
        spans = vec![CodeSpan { text: line, style: diff_line_style(line) }];
    }
    let mut escaped = String::with_capacity(line.len());
    // Where each style ends in the escaped line.
    let mut styles = Vec::with_capacity(spans.len());
    for CodeSpan { text, style } in spans {
        escaped.push_str(&stream.escape_foreign(text));
        styles.push((escaped.len(), style));
    }
    let room = room.saturating_sub(CODE_INDENT.len());
    if text_columns(&escaped.replace('\t', "        ")) <= room {
        return vec![format!("{CODE_INDENT}{}", paint_part(stream, &escaped, 0, &styles))];
    }
    let mark = format!("{CODE_INDENT}{}", stream.paint(FAINT, CODE_CONTINUATION));
    let rows = wrap_chars(&escaped, room.saturating_sub(CODE_CONTINUATION.chars().count()));
    let mut start = 0;
    let mut shown = Vec::with_capacity(rows.len());
    for row in rows {
        let before = if shown.is_empty() { CODE_INDENT } else { &mark };
        shown.push(format!("{before}{}", paint_part(stream, &row, start, &styles)));
        start += row.len();
    }
    shown
}

/// Paints a part of a line that begins at `start`, by the ends of the styles of the line.
fn paint_part(
    stream: &TerminalStream,
    part: &str,
    start: usize,
    styles: &[(usize, Style)],
) -> String {
    let mut painted = String::with_capacity(part.len());
    let mut from = 0;
    for (end, style) in styles {
        let to = end.saturating_sub(start).min(part.len());
        if let Some(text) = part.get(from..to).filter(|text| !text.is_empty()) {
            painted.push_str(&stream.paint(*style, text));
            from = to;
        }
    }
    painted
}

fn heading_style(level: HeadingLevel) -> Style {
    match level {
        HeadingLevel::H1 => STRONG.underline(),
        HeadingLevel::H2 => STRONG,
        _ => STRONG.italic(),
    }
}

/// Renders blocks.
pub(crate) struct BlockRenderer<'a> {
    stream: &'a TerminalStream,
    columns: usize,
    layout: MarkdownLayout,
    shown: String,
    /// The text of the current paragraph, heading, item or cell.
    spans: Vec<StyledSpan>,
    styles: Vec<Style>,
    containers: Vec<Container>,
    /// The next number of each open list; `None` for a list of bullets.
    lists: Vec<Option<u64>>,
    /// The addresses of open links and images, and where their text begins.
    links: Vec<(String, usize)>,
    /// The code block that is open: its language, and the colors of its code.
    code: Option<(String, CodeHighlighter)>,
    table: TableRows,
    /// Whether a blank line is printed before the next row.
    needs_blank: bool,
}

/// A quote or an item of a list, as what it puts before each row.
struct Container {
    /// Before the first row, until that is printed.
    first: Option<String>,
    rest: String,
}

/// The rows of a table; each cell has spans.
#[derive(Default)]
struct TableRows {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<StyledSpan>>>,
}

impl<'a> BlockRenderer<'a> {
    pub(crate) fn new(stream: &'a TerminalStream, columns: usize, layout: MarkdownLayout) -> Self {
        Self {
            stream,
            columns,
            layout,
            shown: String::new(),
            spans: Vec::new(),
            styles: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            links: Vec::new(),
            code: None,
            table: TableRows::default(),
            needs_blank: false,
        }
    }

    pub(crate) fn render(mut self, text: &str) -> String {
        let options =
            Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(tag @ (Tag::Emphasis | Tag::Strong))
                    if is_within_word(text, &range) =>
                {
                    let length = if matches!(tag, Tag::Strong) { 2 } else { 1 };
                    self.push_text(text.get(range.start..range.start + length).unwrap_or("*"));
                }
                Event::End(tag @ (TagEnd::Emphasis | TagEnd::Strong))
                    if is_within_word(text, &range) =>
                {
                    let length = if tag == TagEnd::Strong { 2 } else { 1 };
                    self.push_text(text.get(range.end - length..range.end).unwrap_or("*"));
                }
                Event::Start(tag) => self.start(tag),
                Event::End(tag) => self.end(tag),
                Event::Text(text) => match self.code.take() {
                    Some((language, mut highlighter)) => {
                        self.print_code(&language, &mut highlighter, &text);
                        self.code = Some((language, highlighter));
                    }
                    None => self.push_text(&text),
                },
                Event::Code(text) => self.push_code(&text),
                Event::Html(text) | Event::InlineHtml(text) => self.push_text(&text),
                Event::SoftBreak | Event::HardBreak => self.push_text("\n"),
                Event::Rule => {
                    let columns = RULE_COLUMNS.min(self.room());
                    let line = self.stream.paint(FAINT, &"─".repeat(columns)).into_owned();
                    self.print_row(&line);
                    self.needs_blank = true;
                }
                Event::TaskListMarker(is_done) => {
                    self.push_text(if is_done { "[x] " } else { "[ ] " });
                }
                // Not enabled.
                Event::InlineMath(text) | Event::DisplayMath(text) => self.push_text(&text),
                Event::FootnoteReference(text) => self.push_text(&text),
            }
        }
        self.print_spans();
        self.shown
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => {
                self.styles.push(heading_style(level));
                if !self.stream.has_colours() {
                    self.push_text(&format!("{} ", "#".repeat(heading_depth(level))));
                }
            }
            Tag::BlockQuote(_) => {
                self.print_spans();
                self.print_blank();
                self.containers.push(Container { first: None, rest: "│ ".to_owned() });
            }
            Tag::List(first) => {
                self.print_spans();
                self.lists.push(first);
            }
            Tag::Item => {
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let mark = format!("{number}. ");
                        *number = number.saturating_add(1);
                        mark
                    }
                    _ => format!("{} ", self.layout.bullet),
                };
                let rest = " ".repeat(mark.chars().count());
                self.containers.push(Container { first: Some(mark), rest });
            }
            Tag::CodeBlock(kind) => {
                self.print_spans();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => {
                        info.split_whitespace().next().unwrap_or_default().to_owned()
                    }
                    CodeBlockKind::Indented => String::new(),
                };
                let highlighter = CodeHighlighter::new(self.stream, &language);
                self.code = Some((language, highlighter));
            }
            Tag::Table(alignments) => self.table = TableRows { alignments, rows: Vec::new() },
            Tag::TableHead => {
                self.styles.push(STRONG);
                self.table.rows.push(Vec::new());
            }
            Tag::TableRow => self.table.rows.push(Vec::new()),
            Tag::Emphasis => self.push_style(Style::italic, "*"),
            Tag::Strong => self.push_style(Style::bold, "**"),
            Tag::Strikethrough => self.push_style(Style::strikethrough, "~~"),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.into_string(), self.spans.len()));
                self.styles.push(self.style().underline());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block();
            }
            TagEnd::BlockQuote(_) => {
                self.print_spans();
                self.containers.pop();
                self.needs_blank = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.needs_blank |= self.lists.is_empty();
            }
            TagEnd::Item => {
                if self.containers.last().is_some_and(|item| item.first.is_some()) {
                    // Also an item without text is one.
                    self.push_text(" ");
                }
                self.print_spans();
                self.containers.pop();
            }
            TagEnd::CodeBlock => {
                self.code = None;
                self.needs_blank = true;
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.rows.last_mut() {
                    row.push(cell);
                }
            }
            TagEnd::TableHead => {
                self.styles.pop();
            }
            TagEnd::Table => {
                self.print_table();
                self.needs_blank = true;
            }
            TagEnd::Emphasis => self.pop_style("*"),
            TagEnd::Strong => self.pop_style("**"),
            TagEnd::Strikethrough => self.pop_style("~~"),
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.push_address();
            }
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    /// Adds a style; without colours, the marks of Markdown stay.
    fn push_style(&mut self, add: fn(Style) -> Style, mark: &str) {
        let style = add(self.style());
        self.styles.push(style);
        if !self.stream.has_colours() {
            self.push_text(mark);
        }
    }

    fn pop_style(&mut self, mark: &str) {
        if !self.stream.has_colours() {
            self.push_text(mark);
        }
        self.styles.pop();
    }

    fn push_text(&mut self, text: &str) {
        let style = self.style();
        self.push_span(text, style);
    }

    fn push_span(&mut self, text: &str, style: Style) {
        let text = self.stream.escape_foreign(text).into_owned();
        self.spans.push(StyledSpan { text, style });
    }

    fn push_code(&mut self, text: &str) {
        match self.stream.has_colours() {
            true => self.push_span(text, CODE),
            false => self.push_span(&format!("`{text}`"), Style::new()),
        }
    }

    /// Adds the address of a link, unless its text is the address.
    fn push_address(&mut self) {
        let Some((address, start)) = self.links.pop() else { return };
        let spans = self.spans.get(start..).unwrap_or_default();
        let text: String = spans.iter().map(|span| span.text.as_str()).collect();
        if !address.is_empty() && *text != *self.stream.escape_foreign(&address) {
            self.push_span(&format!(" ({address})"), FAINT);
        }
    }

    fn end_block(&mut self) {
        self.print_spans();
        self.needs_blank = true;
    }

    /// Prints the text of the current block.
    fn print_spans(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if spans.is_empty() {
            return;
        }
        for row in wrap_spans(&spans, self.room()) {
            let row = row.paint(self.stream);
            self.print_row(&row);
        }
    }

    fn print_code(&mut self, language: &str, highlighter: &mut CodeHighlighter, text: &str) {
        let room = if self.layout.wraps_code { self.room() } else { usize::MAX };
        for line in text.lines() {
            for row in render_code_line(self.stream, room, language, highlighter, line) {
                self.print_row(&row);
            }
        }
    }

    fn room(&self) -> usize {
        let containers = self.containers.iter().take(NESTING_MAX);
        let used: usize = containers.map(|container| container.rest.chars().count()).sum();
        self.columns.saturating_sub(used)
    }

    /// Prints the blank line between two blocks, if there is one.
    fn print_blank(&mut self) {
        if std::mem::take(&mut self.needs_blank) {
            let rest: String =
                self.containers.iter().take(NESTING_MAX).map(Container::rest).collect();
            self.push_prefix(rest.trim_end());
            self.shown.push('\n');
        }
    }

    /// Prints a row with what its containers put before it.
    fn print_row(&mut self, row: &str) {
        self.print_blank();
        let mut before = String::new();
        for container in self.containers.iter_mut().take(NESTING_MAX) {
            before.push_str(&container.first.take().unwrap_or_else(|| container.rest.clone()));
        }
        if row.is_empty() {
            before.truncate(before.trim_end().len());
        }
        self.push_prefix(&before);
        self.shown.push_str(row);
        self.shown.push('\n');
    }

    /// Adds what stands before a row; blanks have no style.
    fn push_prefix(&mut self, prefix: &str) {
        let prefix = match prefix.trim().is_empty() {
            true => Cow::Borrowed(prefix),
            false => self.stream.paint(FAINT, prefix),
        };
        self.shown.push_str(&prefix);
    }

    fn print_table(&mut self) {
        let TableRows { alignments, rows } = std::mem::take(&mut self.table);
        let Some(widths) = fit_columns(&rows, self.room()) else {
            return self.print_wide_table(&rows);
        };
        for (at, row) in rows.iter().enumerate() {
            let cells: Vec<Vec<StyledRow>> =
                row.iter().zip(&widths).map(|(cell, width)| wrap_spans(cell, *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let mut shown = String::new();
                for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                    let (text, used) = match cell.get(line) {
                        Some(row) => (row.paint(self.stream), row.columns),
                        None => (String::new(), 0),
                    };
                    let padding = " ".repeat(width.saturating_sub(used));
                    if column > 0 {
                        shown.push_str(&" ".repeat(TABLE_GAP));
                    }
                    match alignments.get(column) {
                        Some(Alignment::Right) => shown.extend([padding, text]),
                        _ => shown.extend([text, padding]),
                    }
                }
                self.print_row(shown.trim_end());
            }
            if at == 0 {
                let lines: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                let line = self.stream.paint(FAINT, &lines.join("  ")).into_owned();
                self.print_row(&line);
            }
        }
    }

    /// Prints a table that does not fit as one paragraph for each row, with the headings before the
    /// values.
    fn print_wide_table(&mut self, rows: &[Vec<Vec<StyledSpan>>]) {
        let Some((headings, rows)) = rows.split_first() else { return };
        for row in rows {
            for (heading, cell) in headings.iter().zip(row) {
                self.spans.extend(heading.iter().cloned());
                self.push_text(": ");
                self.spans.extend(cell.iter().cloned());
                self.print_spans();
            }
            self.needs_blank = true;
        }
    }
}

impl Container {
    fn rest(&self) -> &str {
        &self.rest
    }
}

/// Whether emphasised text touches letters or digits on both sides, as in `2*3*4`: such text is
/// arithmetic or a pattern, and would be another one without its marks.
fn is_within_word(text: &str, range: &Range<usize>) -> bool {
    let before = text.get(..range.start).and_then(|before| before.chars().next_back());
    let after = text.get(range.end..).and_then(|after| after.chars().next());
    let is_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    is_word(before) && is_word(after)
}

fn heading_depth(level: HeadingLevel) -> usize {
    match level {
        HeadingLevel::H1 => 1,
        HeadingLevel::H2 => 2,
        HeadingLevel::H3 => 3,
        HeadingLevel::H4 => 4,
        HeadingLevel::H5 => 5,
        HeadingLevel::H6 => 6,
    }
}

/// The widths of the columns of a table so that it fits; `None` if it cannot.
fn fit_columns(rows: &[Vec<Vec<StyledSpan>>], room: usize) -> Option<Vec<usize>> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| measure_spans(cell)).max().unwrap_or(0).max(1)
    };
    let widths: Vec<usize> = (0..count).map(widest).collect();
    let room = room.checked_sub(TABLE_GAP * count.saturating_sub(1))?;
    let narrow = |most: usize| widths.iter().map(move |width| (*width).min(most));
    let fits = |most: &usize| narrow(*most).sum::<usize>() <= room;
    // The widest columns are made narrower, all to the same width.
    let most = (TABLE_COLUMN_MIN..=room.max(TABLE_COLUMN_MIN)).rev().find(fits)?;
    Some(narrow(most).collect())
}
