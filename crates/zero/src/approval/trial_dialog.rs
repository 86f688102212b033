//! Shows what a tried command changed, and asks whether to keep it.

use std::io;

use zero_runtime::{TrialReview, TrialVerdict};

use crate::change_view::change_lines;
use crate::terminal::dialog::{KeyChoice, KeyOutcome, ask_for_key};
use crate::terminal::key_reader::KeyReader;
use crate::terminal::pager::show_pages;
use crate::terminal::{FAINT, STRONG, TerminalStream, escape_line, wrap_chars, wrap_words};

/// Rows of the output that are shown.
const OUTPUT_ROWS_MAX: usize = 200;
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
    for (style, line) in review.files.iter().flat_map(change_lines) {
        let wrapped = wrap_chars(&escape_line(&line), columns);
        rows.extend(wrapped.iter().map(|row| stream.paint(style, row).into_owned()));
    }
    if let more @ 1.. = review.file_count.saturating_sub(review.files.len()) {
        rows.push(format!("and {more} more files"));
    }
    for loss in &review.losses {
        rows.extend(wrap_words(&format!("cannot be discarded: {}", escape_line(loss)), columns));
    }
    rows.push(stream.paint(STRONG, "output").into_owned());
    let output: Vec<&str> = review.output.lines().collect();
    let skipped = output.len().saturating_sub(OUTPUT_ROWS_MAX);
    if skipped > 0 {
        rows.push(stream.paint(FAINT, &format!("{skipped} lines of output before")).into_owned());
    }
    for line in output.iter().skip(skipped) {
        rows.extend(wrap_chars(&escape_line(line), columns));
    }
    rows
}
