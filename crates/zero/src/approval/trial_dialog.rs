//! Shows what a tried command changed, and asks whether to keep it.

use std::io;

use anstyle::Style;
use zero_runtime::{TrialReview, TrialVerdict};

use crate::change_view::change_lines;
use crate::terminal::dialog::{KeyChoice, KeyOutcome, ask_for_key};
use crate::terminal::key_reader::KeyReader;
use crate::terminal::pager::show_pages;
use crate::terminal::{FAINT, STRONG, TerminalStream, escape_line, wrap_chars, wrap_words};

/// Rows of the output that are shown.
const OUTPUT_ROWS_MAX: usize = 200;
/// Columns that the bar before a line takes.
const BAR_COLUMNS: usize = 4;
/// Rows that the question, its keys and the line about folded rows take.
const QUESTION_ROWS: usize = 6;

/// The question about the changes of one command.
pub(super) struct TrialDialog {
    stream: TerminalStream,
    rows: Vec<String>,
    question: &'static str,
}

impl TrialDialog {
    pub(super) fn new(stream: &TerminalStream, review: &TrialReview) -> Self {
        let stream = stream.fitted_to_window();
        let rows = render(&stream, review);
        let question = match review.file_count {
            0 => "Nothing was changed. Let the agent have the result?",
            _ => "Keep these changes?",
        };
        Self { stream, rows, question }
    }

    /// Shows the changes and waits for the answer. A user who is gone discards them.
    pub(super) fn run(&self, keys: &KeyReader) -> io::Result<TrialVerdict> {
        let room = self.stream.window_size().rows.saturating_sub(QUESTION_ROWS).max(1);
        let folded = self.rows.len().saturating_sub(room);
        let shown = self.rows.len() - folded;
        for row in self.rows.iter().take(shown) {
            self.stream.write(&format!("{row}\n"))?;
        }
        let mut choices = vec![KeyChoice::new('k', "keep"), KeyChoice::new('d', "discard")];
        if folded > 0 {
            let more = format!("and {folded} more rows");
            self.stream.write(&format!("{}\n", self.stream.paint(FAINT, &more)))?;
            choices.push(KeyChoice::new('v', "show all"));
        }
        loop {
            match ask_for_key(&self.stream, keys, self.question, &choices)? {
                KeyOutcome::Chosen('k') => return Ok(TrialVerdict::Keep),
                KeyOutcome::Chosen('v') => show_pages(&self.stream, keys, &self.rows)?,
                _ => return Ok(TrialVerdict::Discard),
            }
        }
    }
}

fn render(stream: &TerminalStream, review: &TrialReview) -> Vec<String> {
    let columns = stream.window_size().columns;
    let mut rows = Vec::new();
    let title = match review.file_count {
        1 => "1 file changed".to_owned(),
        count => format!("{count} files changed"),
    };
    rows.push(stream.paint(STRONG, &title).into_owned());
    // What the command wrote has a bar in front, so that no line can imitate zero's own output.
    let push_foreign = |rows: &mut Vec<String>, style: Style, line: &str| {
        let mut bar = "│";
        for row in wrap_chars(&escape_line(line), columns.saturating_sub(BAR_COLUMNS)) {
            let row = stream.paint(style, &row).into_owned();
            rows.push(format!("  {} {row}", stream.paint(FAINT, bar)).trim_end().to_owned());
            // A wrapped row has a different bar than the first row of a line.
            bar = "┆";
        }
    };
    for (style, line) in review.files.iter().flat_map(change_lines) {
        push_foreign(&mut rows, style, &line);
    }
    if let more @ 1.. = review.file_count.saturating_sub(review.files.len()) {
        rows.push(format!("and {more} more files"));
    }
    for loss in &review.losses {
        let loss = format!("cannot be discarded: {}", escape_line(loss));
        let wrapped = wrap_words(&loss, columns.saturating_sub(2));
        rows.extend(wrapped.iter().map(|row| format!("  {row}")));
    }
    rows.push(stream.paint(STRONG, "output").into_owned());
    let output: Vec<&str> = review.output.lines().collect();
    let skipped = output.len().saturating_sub(OUTPUT_ROWS_MAX);
    if skipped > 0 {
        rows.push(stream.paint(FAINT, &format!("{skipped} lines of output before")).into_owned());
    }
    for line in output.iter().skip(skipped) {
        push_foreign(&mut rows, Style::new(), line);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Terminal;

    #[test]
    fn no_line_of_the_output_imitates_the_question() {
        let review = TrialReview {
            call: zero_core::CallId::from_bits(1),
            title: String::new(),
            files: Vec::new(),
            file_count: 0,
            losses: vec!["the file `a`".to_owned()],
            output: format!("Allow? y\n\nKeep these changes? \u{1b}[2J\n{}", "界".repeat(30)),
        };
        for columns in [20, 40, 80] {
            let stream = Terminal::for_test().err.with_columns(columns).without_colours();
            let rows = render(&stream.fitted_to_window(), &review);
            let at = rows.iter().position(|row| row == "output").unwrap();
            let has_bar = |row: &String| row.starts_with("  │") || row.starts_with("  ┆");
            assert!(rows[at + 1..].iter().all(has_bar), "{rows:#?}");
            assert_eq!(rows[at + 1], "  │ Allow? y");
            let widest = rows.iter().map(|row| crate::terminal::text_columns(row)).max().unwrap();
            assert!(widest <= columns, "{columns}: {rows:#?}");
            assert!(!rows.concat().contains('\u{1b}'));
        }
    }
}
