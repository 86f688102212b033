//! A list of options to choose from, with number keys or with the arrows and Enter.

use std::io;

use super::key::Key;
use super::key_reader::{KeyPress, KeyReader, QuestionRow};
use super::live_area::LiveArea;
use super::{FAINT, STRONG, TerminalStream, WindowSize, escape_line, truncate_to_columns};

/// Columns before the text of an option.
const MARK_COLUMNS: usize = 8;
/// Options that have a number key.
const NUMBERED_MAX: usize = 9;

/// How many options can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceCount {
    /// Exactly one.
    One,
    /// Any number of them.
    Many,
}

/// Options to choose from.
pub struct ChoiceList<'a> {
    options: &'a [String],
    count: ChoiceCount,
    cursor: usize,
    chosen: Vec<bool>,
    /// Whether the user has ticked or unticked an option.
    is_touched: bool,
}

/// What the user did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChoiceOutcome {
    /// The indexes of the chosen options, in their order.
    Chosen(Vec<usize>),
    /// The user declined to choose.
    Declined,
    /// The terminal is gone.
    Ended,
}

impl<'a> ChoiceList<'a> {
    /// A list with these options chosen already.
    pub fn new(options: &'a [String], count: ChoiceCount, chosen: &[usize]) -> Self {
        let is_chosen = |at: usize| count == ChoiceCount::Many && chosen.contains(&at);
        Self {
            options,
            count,
            cursor: chosen.first().copied().unwrap_or(0),
            chosen: (0..options.len()).map(is_chosen).collect(),
            is_touched: false,
        }
    }

    /// Shows the list until the user has chosen; then only `label` and the choice stay.
    pub fn run(
        mut self,
        stream: &TerminalStream,
        keys: &KeyReader,
        label: &str,
    ) -> io::Result<ChoiceOutcome> {
        let mut area = LiveArea::new(stream);
        keys.begin_question()?;
        let outcome = loop {
            let size = stream.window_size();
            let mut rows = self.render(stream, size);
            // The row with the keys appears when they begin to count.
            match keys.question_row() {
                QuestionRow::Open => {}
                QuestionRow::Hidden => drop(rows.pop()),
                QuestionRow::Quiet(why) => {
                    rows.pop();
                    let why = truncate_to_columns(&format!("({why})"), size.columns - 3);
                    rows.push(format!("  {}", stream.paint(FAINT, &why)));
                }
            }
            area.paint(&rows, None)?;
            let outcome = match keys.next_press()? {
                Some(KeyPress::Key(key)) => self.apply_key(key),
                Some(KeyPress::Burst) => None,
                None => Some(ChoiceOutcome::Ended),
            };
            if let Some(outcome) = outcome {
                break outcome;
            }
        };
        let answer = match &outcome {
            ChoiceOutcome::Chosen(chosen) => {
                let names = chosen.iter().filter_map(|at| self.options.get(*at));
                let names: Vec<&str> = names.map(String::as_str).collect();
                if names.is_empty() { "(nothing)".to_owned() } else { names.join("; ") }
            }
            ChoiceOutcome::Declined => "(no answer)".to_owned(),
            ChoiceOutcome::Ended => keys.describe_end("(no answer)"),
        };
        let columns = stream.window_size().columns;
        let line = truncate_to_columns(&format!("  {} {answer}", escape_line(label)), columns - 1);
        area.finish(&escape_line(&line))?;
        Ok(outcome)
    }

    fn apply_key(&mut self, key: Key) -> Option<ChoiceOutcome> {
        let last = self.options.len().saturating_sub(1);
        match key {
            Key::Up => self.cursor = self.cursor.checked_sub(1).unwrap_or(last),
            Key::Down => self.cursor = if self.cursor >= last { 0 } else { self.cursor + 1 },
            Key::Home => self.cursor = 0,
            Key::End => self.cursor = last,
            Key::Enter | Key::Ctrl('j') => return Some(self.finish()),
            Key::Char(' ') if self.count == ChoiceCount::Many => self.toggle(),
            Key::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                if at <= last {
                    self.cursor = at;
                    match self.count {
                        ChoiceCount::One => return Some(self.finish()),
                        ChoiceCount::Many => self.toggle(),
                    }
                }
            }
            Key::Escape | Key::Ctrl('c' | 'd') => return Some(ChoiceOutcome::Declined),
            _ => {}
        }
        None
    }

    fn toggle(&mut self) {
        self.is_touched = true;
        if let Some(chosen) = self.chosen.get_mut(self.cursor) {
            *chosen = !*chosen;
        }
    }

    fn finish(&self) -> ChoiceOutcome {
        let chosen = match self.count {
            ChoiceCount::One => vec![self.cursor],
            // Enter alone means the option that it is pressed on. Who unticks all means none.
            ChoiceCount::Many if !self.is_touched && !self.chosen.contains(&true) => {
                vec![self.cursor]
            }
            ChoiceCount::Many => {
                let chosen = self.chosen.iter().enumerate().filter(|(_, chosen)| **chosen);
                chosen.map(|(at, _)| at).collect()
            }
        };
        ChoiceOutcome::Chosen(chosen)
    }

    /// The options around the cursor, one or more rows each, and the keys.
    fn render(&self, stream: &TerminalStream, size: WindowSize) -> Vec<String> {
        let room = size.columns.saturating_sub(MARK_COLUMNS + 1);
        let rows_max = size.rows.saturating_sub(4).max(1);
        let shown = self.options.len().min(rows_max);
        let first = (self.cursor + 1).saturating_sub(shown);
        let rows_each = (rows_max / shown.max(1)).max(1);
        let mut rows = Vec::new();
        for (at, option) in self.options.iter().enumerate().skip(first).take(shown) {
            let is_here = at == self.cursor;
            let pointer = if is_here { "›" } else { " " };
            let number = match at + 1 {
                number @ ..=NUMBERED_MAX => number.to_string(),
                _ => " ".to_owned(),
            };
            let check = match (self.count, self.chosen.get(at)) {
                (ChoiceCount::One, _) => "  ",
                (ChoiceCount::Many, Some(true)) => "☑ ",
                (ChoiceCount::Many, _) => "☐ ",
            };
            let option = escape_line(option);
            let mut lines = super::wrap_words(&option, room);
            if lines.len() > rows_each {
                lines.truncate(rows_each);
                if let Some(line) = lines.last_mut() {
                    *line = truncate_to_columns(&format!("{line} …"), room);
                }
            }
            for (row, line) in lines.iter().enumerate() {
                let before = match row {
                    0 => format!(" {pointer} {number} {check}"),
                    _ => " ".repeat(MARK_COLUMNS - 1),
                };
                let text = format!("{before}{line}");
                let style = if is_here { STRONG } else { anstyle::Style::new() };
                rows.push(stream.paint(style, &text).into_owned());
            }
        }
        let keys = match self.count {
            ChoiceCount::One => "  number, or arrows and Enter; Esc: no answer",
            ChoiceCount::Many => "  number or space: tick; Enter: done; Esc: no answer",
        };
        let keys = truncate_to_columns(keys, size.columns - 1);
        rows.push(stream.paint(FAINT, &keys).into_owned());
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnswerSource, Terminal};

    fn options(count: usize) -> Vec<String> {
        (1..=count).map(|number| format!("option {number}")).collect()
    }

    #[track_caller]
    fn check(count: ChoiceCount, typed: &str, expected: ChoiceOutcome, line: &str) {
        let stream = Terminal::for_test().err.with_columns(80).without_colours();
        let keys = AnswerSource::from_keys(typed).open_keys_for_test();
        let options = options(3);
        let outcome = ChoiceList::new(&options, count, &[]).run(&stream, &keys, "Which?").unwrap();
        assert_eq!(outcome, expected, "{typed:?}");
        let seen = stream.written_text();
        assert!(seen.ends_with(&format!("\x1b[J  Which? {line}\n")), "{seen:?}");
    }

    #[test]
    fn choice_is_the_answer() {
        use ChoiceCount::{Many, One};
        use ChoiceOutcome::{Chosen, Declined, Ended};
        check(One, "2", Chosen(vec![1]), "option 2");
        check(One, "\r", Chosen(vec![0]), "option 1");
        check(One, "\x1b[B\x1b[B\r", Chosen(vec![2]), "option 3");
        check(One, "\x1b[A\r", Chosen(vec![2]), "option 3");
        check(One, "9x3", Chosen(vec![2]), "option 3");
        check(One, "\x03", Declined, "(no answer)");
        check(One, "", Ended, "(no answer)");
        check(Many, "13\r", Chosen(vec![0, 2]), "option 1; option 3");
        check(Many, "\x1b[B \r", Chosen(vec![1]), "option 2");
        check(Many, "\r", Chosen(vec![0]), "option 1");
        check(Many, "\x1b[B\r", Chosen(vec![1]), "option 2");
        check(Many, "22\r", Chosen(vec![]), "(nothing)");
        check(Many, "1\x03", Declined, "(no answer)");
    }

    #[test]
    fn long_list_fits_window_and_follows_cursor() {
        let stream = Terminal::for_test().err.with_columns(80).without_colours();
        let options = options(200);
        let list = ChoiceList::new(&options, ChoiceCount::One, &[150]);
        let rows = list.render(&stream, WindowSize { rows: 24, columns: 80 });
        assert_eq!(rows.len(), 21);
        assert!(rows.iter().any(|row| row.starts_with(" › ") && row.ends_with("option 151")));
        let long = vec!["word ".repeat(300), "short".to_owned()];
        let rows = ChoiceList::new(&long, ChoiceCount::Many, &[1])
            .render(&stream, WindowSize { rows: 24, columns: 80 });
        assert!(rows.len() < 24 && rows.iter().all(|row| row.chars().count() < 80), "{rows:?}");
        assert!(rows.iter().any(|row| row.contains("☑ short")), "{rows:?}");
    }
}
