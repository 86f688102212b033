//! Builds the rows of a cell: escapes untrusted text, then indents, wraps and paints it.

use std::borrow::Cow;

use anstyle::Style;
use zero_core::sanitize::escape_line;
use zero_terminal::{FAINT, TerminalStream, text_columns};

use super::marks::Marks;
use super::{Fold, ViewOptions};
use crate::styled_row::{
    clean_prose, letter_columns, row_columns, row_letters, truncate_row, wrap_row, wrap_words,
};

/// Columns at which a line is cut.
const LINE_COLUMNS_MAX: usize = 10_000;
/// Indent of the rows that continue a marked one.
pub(crate) const INDENT: usize = 2;
/// Indent of what belongs to a call.
pub(crate) const BODY_INDENT: usize = 4;
/// Columns that a title has at least, before what follows it is left out.
const TITLE_COLUMNS_MIN: usize = 8;

/// Rows that are being built.
pub(crate) struct RowWriter<'a> {
    pub(crate) stream: &'a TerminalStream,
    pub(crate) columns: usize,
    pub(crate) options: ViewOptions,
    pub(crate) marks: &'static Marks,
    rows: Vec<String>,
}

/// A row that begins with a mark and fits.
pub(crate) struct MarkedTitle<'a> {
    pub(crate) mark: &'a str,
    pub(crate) mark_style: Style,
    /// Untrusted.
    pub(crate) title: &'a str,
    /// What follows the title, in parentheses; untrusted.
    pub(crate) suffix: &'a str,
    pub(crate) suffix_style: Style,
}

impl<'a> RowWriter<'a> {
    pub(crate) fn new(stream: &'a TerminalStream, columns: usize, options: ViewOptions) -> Self {
        Self { stream, columns, options, marks: Marks::new(options), rows: Vec::new() }
    }

    pub(crate) fn into_rows(self) -> Vec<String> {
        self.rows
    }

    /// Adds a row of escaped text. The terminal wraps what is too wide: if a row that continues it could be
    /// taken for one of zero's own, it is divided here. Only what is shown as it was written stays whole.
    pub(crate) fn push_row(&mut self, row: String) {
        let row = match row.len() > LINE_COLUMNS_MAX {
            true => truncate_row(&row, LINE_COLUMNS_MAX, self.marks.ellipsis),
            false => row,
        };
        match !self.options.raw && self.has_lookalike(&row) {
            true => self.rows.extend(wrap_row(&row, self.columns)),
            false => self.rows.push(row),
        }
    }

    /// Adds a text as it was written.
    pub(crate) fn push_source(&mut self, text: &str) {
        for line in text.trim_end().lines() {
            self.push_row(zero_terminal::escape_prose(line.trim_end()).into_owned());
        }
    }

    /// Adds a line that is not wrapped, so that it can be copied as it is.
    pub(crate) fn push_line(&mut self, indent: usize, style: Style, line: &str) {
        self.push_indented(indent, style, &clean_prose(line));
    }

    /// Whether a row begins as one of zero's own where a terminal wraps a line.
    fn has_lookalike(&self, row: &str) -> bool {
        // No letter takes more columns than bytes.
        if row.len() <= self.columns {
            return false;
        }
        let mut used = 0;
        let mut letters = row_letters(row);
        letters.any(|(at, letter)| {
            let width = letter_columns(letter);
            let wraps = used + width > self.columns;
            used = if wraps { width } else { used + width };
            wraps && self.marks.begins(row.get(at..).unwrap_or_default())
        })
    }

    /// Adds prose, wrapped at words.
    pub(crate) fn push_prose(&mut self, indent: usize, style: Style, text: &str) {
        for line in text.lines() {
            let line = clean_prose(line);
            let room = self.columns.saturating_sub(indent);
            for row in wrap_words(&line, room, room) {
                self.push_indented(indent, style, &row);
            }
        }
    }

    /// Adds prose after a mark; its further rows are indented.
    pub(crate) fn push_marked(&mut self, mark: &str, mark_style: Style, style: Style, text: &str) {
        let mut is_first = true;
        let used = text_columns(mark) + 1;
        let mark = self.stream.paint(mark_style, mark).into_owned();
        for line in text.split('\n') {
            let line = clean_prose(line);
            let room = self.columns.saturating_sub(INDENT);
            let first = if is_first { self.columns.saturating_sub(used) } else { room };
            for row in wrap_words(&line, first, room) {
                match std::mem::take(&mut is_first) {
                    true => {
                        let row = format!("{mark} {}", self.stream.paint(style, &row));
                        self.push_row(row);
                    }
                    false => self.push_indented(INDENT, style, &row),
                }
            }
        }
    }

    fn push_indented(&mut self, indent: usize, style: Style, row: &str) {
        self.push_row(match row.is_empty() {
            true => String::new(),
            false => format!("{}{}", " ".repeat(indent), self.stream.paint(style, row)),
        });
    }

    /// Adds one row with a title; where the view is folded, it is cut to fit.
    pub(crate) fn push_title(&mut self, marked: &MarkedTitle<'_>, fold: Fold) {
        let row = self.render_title(marked, fold);
        self.push_row(row);
    }

    /// One row with a title; where the view is folded, it is cut to fit.
    pub(crate) fn render_title(&self, marked: &MarkedTitle<'_>, fold: Fold) -> String {
        let MarkedTitle { mark, mark_style, title, suffix, suffix_style } = marked;
        let title = escape_line(title);
        let suffix = match suffix.is_empty() {
            true => String::new(),
            false => format!(" ({})", escape_line(suffix)),
        };
        let title = match fold {
            Fold::Open => title.into_owned(),
            Fold::Folded => {
                let used = text_columns(mark) + 1 + row_columns(&suffix);
                let room = self.columns.saturating_sub(used).max(TITLE_COLUMNS_MIN);
                truncate_row(&title, room, self.marks.ellipsis)
            }
        };
        let mark = self.stream.paint(*mark_style, mark);
        let suffix = match suffix.is_empty() {
            true => Cow::Borrowed(""),
            false => self.stream.paint(*suffix_style, &suffix),
        };
        let row = format!("{mark} {title}{suffix}");
        match fold {
            Fold::Open => row,
            Fold::Folded => truncate_row(&row, self.columns, self.marks.ellipsis),
        }
    }

    /// Adds a row that says how many lines are not shown.
    pub(crate) fn push_more(&mut self, indent: usize, count: usize) {
        if count > 0 {
            let lines = if count == 1 { "line" } else { "lines" };
            let text = format!("{} {count} more {lines} (Ctrl-T shows all)", self.marks.ellipsis);
            self.push_line(indent, FAINT, &text);
        }
    }
}
