//! A dialog with the user: it takes over the keyboard, and gives it back however it ends.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use zero_sandbox::typed_input::SignalKeys;

use super::key::Key;
use super::key_reader::{KeyPress, KeyReader, QuestionRow};
use super::live_area::{CursorPosition, LiveArea};
use super::prompt_turn::PromptTurnGuard;
use super::text_field::{FieldEvent, TextField};
use super::{
    AnswerSource, FAINT, STRONG, TerminalStream, escape_line, text_columns, truncate_to_columns,
    wrap_words,
};

/// How long a dialog that is cancelled may take to restore the screen.
const RESTORE_WAIT: Duration = Duration::from_millis(500);
/// Most rows of a text that is edited.
const FIELD_ROWS_MAX: usize = 6;
/// Blank columns between the answers of a legend.
const LEGEND_GAP: usize = 3;
/// Most keys that have a row each.
const NARROW_CHOICES_MAX: usize = 3;

/// A dialog that waits to be shown.
pub struct DialogRun<'a> {
    /// Where it is shown.
    pub stream: &'a TerminalStream,
    /// Where its keys come from.
    pub answers: &'a AnswerSource,
    /// What Ctrl-C does meanwhile.
    pub signal_keys: SignalKeys,
    /// Says why the dialog is withdrawn, if the future that runs it is dropped.
    pub withdrawal: &'a (dyn Fn() -> String + Send + Sync),
}

impl DialogRun<'_> {
    /// Runs a dialog on a thread of its own, because reading keys blocks. If the returned future is
    /// dropped, the dialog ends: it reads no more keys. `None` if it could not be shown.
    pub async fn run<T: Send + 'static>(
        self,
        turn: &PromptTurnGuard,
        dialog: impl FnOnce(&KeyReader) -> io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let keys = self.answers.open_keys(self.signal_keys).ok()?;
        let keys = Arc::new(keys.with_caution(turn.take_caution()));
        let (alive, ended) = sync_channel(1);
        let mut guard = DialogGuard {
            keys: Arc::clone(&keys),
            stream: self.stream.clone(),
            ended,
            end: DialogEnd::Withdrawn,
            turn,
            withdrawal: self.withdrawal,
        };
        let shown = tokio::task::spawn_blocking(move || {
            // Dropped at the end of the dialog.
            let _alive = alive;
            dialog(&keys)
        });
        let outcome = shown.await;
        guard.end = DialogEnd::CutOff;
        let outcome = outcome.ok()?;
        if outcome.is_ok() {
            guard.end = DialogEnd::Finished;
        }
        outcome.ok()
    }
}

/// How a dialog ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialogEnd {
    Finished,
    /// The dialog failed and has not finished its line.
    CutOff,
    /// Its answer is no longer needed.
    Withdrawn,
}

/// Restores the terminal at the end of a dialog.
struct DialogGuard<'a> {
    keys: Arc<KeyReader>,
    stream: TerminalStream,
    /// Disconnected once the dialog has ended.
    ended: Receiver<()>,
    end: DialogEnd,
    turn: &'a PromptTurnGuard,
    withdrawal: &'a (dyn Fn() -> String + Send + Sync),
}

impl Drop for DialogGuard<'_> {
    fn drop(&mut self) {
        match self.end {
            DialogEnd::Finished => self.keys.close(),
            DialogEnd::CutOff => {
                self.keys.close();
                let _ = self.stream.write("\n");
            }
            DialogEnd::Withdrawn => {
                self.turn.set_withdrawn();
                self.keys.withdraw((self.withdrawal)());
                // A dialog without keys ends at once; its screen must be restored before zero exits.
                if self.ended.recv_timeout(RESTORE_WAIT) == Err(RecvTimeoutError::Timeout) {
                    let _ = self.stream.write("\n");
                }
            }
        }
    }
}

/// An answer that a key gives.
pub struct KeyChoice {
    /// The key, in lower case.
    pub key: char,
    /// The digit that does the same, if one does.
    pub digit: Option<char>,
    /// What it does, for the user.
    pub label: String,
}

impl KeyChoice {
    /// The answer that this key gives.
    pub fn new(key: char, label: impl Into<String>) -> Self {
        Self { key, digit: None, label: label.into() }
    }

    /// The same answers, the first nine of which have a digit as well.
    pub fn numbered(choices: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let digits = ('1'..='9').map(Some).chain(std::iter::repeat(None));
        choices.into_iter().zip(digits).map(|(choice, digit)| Self { digit, ..choice }).collect()
    }
}

/// The keys and what they do, side by side as far as they fit: in columns, or one after the other in
/// a window that is too narrow for these.
pub fn render_legend(
    stream: &TerminalStream,
    choices: &[KeyChoice],
    columns: usize,
) -> Vec<String> {
    let room = columns.saturating_sub(1);
    let has_digits = choices.iter().any(|choice| choice.digit.is_some());
    let key_columns = if has_digits { 4 } else { 2 };
    let labels: Vec<String> = choices
        .iter()
        .map(|choice| {
            truncate_to_columns(&escape_line(&choice.label), room.saturating_sub(key_columns + 2))
        })
        .collect();
    let widest = labels.iter().map(|label| text_columns(label)).max().unwrap_or(0);
    let cell = widest + key_columns + 1 + LEGEND_GAP;
    let per_row = ((room + LEGEND_GAP) / cell).max(1);
    if per_row == 1 && choices.len() > NARROW_CHOICES_MAX {
        return render_narrow_legend(stream, choices, &labels, room);
    }
    // Filled by columns, so that related answers are below each other.
    let rows = choices.len().div_ceil(per_row);
    let row = |row: usize| {
        let mut text = String::from(" ");
        let cells: Vec<_> = choices.iter().zip(&labels).skip(row).step_by(rows.max(1)).collect();
        for (at, (choice, label)) in cells.iter().enumerate() {
            let key = stream.paint(STRONG, choice.key.encode_utf8(&mut [0; 4])).into_owned();
            let digit = match choice.digit {
                Some(digit) => format!("{} ", stream.paint(STRONG, digit.encode_utf8(&mut [0; 4]))),
                None if has_digits => "  ".to_owned(),
                None => String::new(),
            };
            text.push_str(&format!(" {digit}{key} {label}"));
            if at + 1 < cells.len() {
                let fill = widest - text_columns(label) + LEGEND_GAP - 1;
                text.push_str(&" ".repeat(fill));
            }
        }
        text
    };
    (0..rows).map(row).collect()
}

/// The keys and what they do, one after the other, in as few rows as possible, without the digits that
/// do the same.
fn render_narrow_legend(
    stream: &TerminalStream,
    choices: &[KeyChoice],
    labels: &[String],
    room: usize,
) -> Vec<String> {
    let mut rows: Vec<String> = Vec::new();
    let mut used = room;
    for (choice, label) in choices.iter().zip(labels) {
        let key = stream.paint(STRONG, choice.key.encode_utf8(&mut [0; 4])).into_owned();
        let columns = 4 + text_columns(label);
        match rows.last_mut() {
            Some(row) if used + columns <= room => {
                row.push_str(&format!("  {key} {label}"));
                used += columns;
            }
            _ => {
                rows.push(format!("  {key} {label}"));
                used = columns;
            }
        }
    }
    rows
}

/// How the editing of a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOutcome {
    /// The text is complete.
    Submitted,
    /// The user went back.
    Cancelled,
    /// The terminal is gone.
    Ended,
}

/// Lets the user edit a text after a label, below a line with a hint. Keys that were pressed before
/// do not count.
pub fn edit_text(
    area: &mut LiveArea<'_>,
    stream: &TerminalStream,
    keys: &KeyReader,
    label: &str,
    hint: &str,
    field: &mut TextField,
) -> io::Result<TextOutcome> {
    let label_columns = text_columns(label) + 1;
    keys.discard()?;
    loop {
        let size = stream.window_size();
        let room = size.columns.saturating_sub(label_columns + 1);
        let (lines, cursor) = field.layout(room, FIELD_ROWS_MAX);
        let hint = truncate_to_columns(&escape_line(hint), size.columns - 3);
        let mut rows = vec![format!("  {}", stream.paint(FAINT, &hint))];
        for (at, line) in lines.iter().enumerate() {
            let before = match at {
                0 => format!("{} ", stream.paint(STRONG, label)),
                _ => " ".repeat(label_columns),
            };
            rows.push(format!("{before}{line}"));
        }
        let cursor = CursorPosition { row: cursor.row + 1, column: cursor.column + label_columns };
        area.paint(&rows, Some(cursor))?;
        let Some(key) = keys.next_key()? else { return Ok(TextOutcome::Ended) };
        match field.apply_key(key) {
            FieldEvent::Edited => {}
            FieldEvent::Submitted => return Ok(TextOutcome::Submitted),
            FieldEvent::Cancelled => return Ok(TextOutcome::Cancelled),
        }
    }
}

/// How a question that one key answers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOutcome {
    /// The key of an answer.
    Chosen(char),
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The user pressed Ctrl-D, or is gone.
    Ended,
}

/// What a question says about a key that is not offered, and about several keys at once.
pub const UNKNOWN_KEY_NOTE: &str = "press one of the keys shown";

/// The last rows of a question: none before it can have been read, and a note about it beside it, or above
/// it where both do not fit into a row.
pub fn question_rows(
    stream: &TerminalStream,
    keys: &KeyReader,
    question: &str,
    note: &str,
) -> Vec<String> {
    let note = match keys.question_row() {
        QuestionRow::Hidden => return Vec::new(),
        QuestionRow::Quiet(why) if note.is_empty() => why,
        QuestionRow::Quiet(_) | QuestionRow::Open => note,
    };
    let columns = stream.window_size().columns;
    let note = escape_line(note);
    let shown = stream.paint(STRONG, question);
    if note.is_empty() {
        return vec![format!("{shown} ")];
    }
    let note = format!("({note})");
    if text_columns(question) + text_columns(&note) + 2 < columns {
        return vec![format!("{shown} {} ", stream.paint(FAINT, &note))];
    }
    let rows = wrap_words(&note, columns.saturating_sub(3));
    let rows = rows.iter().map(|row| format!("  {}", stream.paint(FAINT, row)));
    rows.chain([format!("{shown} ")]).collect()
}

/// Asks a question with its keys above it and waits for one of the keys; other keys show a hint once.
/// The question itself appears when keys begin to count, a moment after the rest. Ctrl-C is a key only where it does not send a signal.
pub fn ask_for_key(
    stream: &TerminalStream,
    keys: &KeyReader,
    question: &str,
    choices: &[KeyChoice],
) -> io::Result<KeyOutcome> {
    let mut area = LiveArea::new(stream);
    let paint = |area: &mut LiveArea<'_>, has_hint: bool| {
        let note = if has_hint { UNKNOWN_KEY_NOTE } else { "" };
        let mut rows = render_legend(stream, choices, stream.window_size().columns);
        rows.extend(question_rows(stream, keys, question, note));
        area.paint(&rows, None)
    };
    let question = stream.paint(STRONG, question).into_owned();
    keys.begin_question()?;
    let mut has_hint = false;
    paint(&mut area, has_hint)?;
    loop {
        let chosen = match keys.next_press()? {
            Some(KeyPress::Key(Key::Char(key))) => {
                let key = key.to_ascii_lowercase();
                choices.iter().find(|choice| choice.key == key)
            }
            end @ (Some(KeyPress::Key(Key::Ctrl('c' | 'd'))) | None) => {
                let line = format!("{question} {}", escape_line(&keys.describe_end("")));
                area.finish(line.trim_end())?;
                return Ok(match end {
                    Some(KeyPress::Key(Key::Ctrl('c'))) => KeyOutcome::Interrupted,
                    _ => KeyOutcome::Ended,
                });
            }
            Some(KeyPress::Key(Key::Repaint)) => {
                paint(&mut area, has_hint)?;
                continue;
            }
            Some(_) => None,
        };
        if let Some(choice) = chosen {
            area.finish(&format!("{question} {}", escape_line(&choice.label)))?;
            return Ok(KeyOutcome::Chosen(choice.key));
        }
        if !has_hint {
            has_hint = true;
            paint(&mut area, has_hint)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::{ElapsedCounter, PromptTurn, Terminal};

    fn choices(labels: &[(char, &str)]) -> Vec<KeyChoice> {
        labels.iter().map(|(key, label)| KeyChoice::new(*key, *label)).collect()
    }

    #[test]
    fn legend_uses_the_width() {
        let stream = Terminal::for_test().err.with_columns(80).without_colours();
        let choices = choices(&[('y', "once"), ('s', "in this session"), ('n', "no")]);
        assert_eq!(
            render_legend(&stream, &choices, 80),
            ["  y once              s in this session   n no"]
        );
        assert_eq!(
            render_legend(&stream, &choices, 40),
            ["  y once              n no", "  s in this session"]
        );
        let narrow = render_legend(&stream, &choices, 24);
        assert_eq!(narrow, ["  y once", "  s in this session", "  n no"]);
        let numbered = KeyChoice::numbered(choices);
        assert_eq!(
            render_legend(&stream, &numbered, 44),
            ["  1 y once              3 n no", "  2 s in this session"]
        );
        // Many keys share rows even where no columns fit.
        let many = [('y', "once"), ('s', "allow in this session"), ('n', "no"), ('v', "show all")];
        let many = many.map(|(key, label)| KeyChoice::new(key, label));
        assert_eq!(
            render_legend(&stream, &many, 40),
            ["  y once  s allow in this session  n no", "  v show all"]
        );
    }

    #[test]
    fn only_offered_keys_answer() {
        #[track_caller]
        fn check(typed: &str, expected: KeyOutcome, last_line: &str) {
            let terminal = Terminal::for_test();
            let stream = terminal.err.with_columns(80).without_colours();
            let keys = AnswerSource::from_keys(typed).open_keys_for_test();
            let choices = choices(&[('y', "Yes"), ('n', "No")]);
            let answer = ask_for_key(&stream, &keys, "Go on?", &choices).unwrap();
            assert_eq!(answer, expected, "{typed:?}");
            let text = stream.written_text();
            assert!(text.ends_with(last_line), "{text:?}");
        }
        use KeyOutcome::{Chosen, Ended, Interrupted};
        check("y", Chosen('y'), "Go on? Yes\n");
        check("N", Chosen('n'), "Go on? No\n");
        check("xq\r\x1b[1;2yz\x1by n", Chosen('n'), "Go on? No\n");
        check("\x04y", Ended, "Go on?\n");
        check("\x03y", Interrupted, "Go on?\n");
        check("x", Ended, "Go on?\n");
    }

    /// Starts a question and waits until it is painted.
    fn run_question<'a>(
        stream: &'a TerminalStream,
        answers: &'a AnswerSource,
        turn: &'a PromptTurnGuard,
        question: &'static str,
    ) -> impl Future<Output = Option<KeyOutcome>> + 'a {
        let run = DialogRun {
            stream,
            answers,
            signal_keys: SignalKeys::AreRead,
            withdrawal: &|| "the call was cancelled".to_owned(),
        };
        let shown = stream.clone();
        run.run(turn, move |keys| {
            let choices = choices(&[('y', "Yes"), ('n', "No")]);
            ask_for_key(&shown, keys, question, &choices)
        })
    }

    async fn wait_for_text(stream: &TerminalStream, text: &str) {
        wait_until(stream, |written| written.contains(text)).await;
    }

    async fn wait_until(stream: &TerminalStream, is_reached: impl Fn(&str) -> bool) {
        while !is_reached(&stream.written_text()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn question_after_a_withdrawn_one_ignores_keys_for_a_moment() {
        let terminal = Terminal::for_test();
        let stream = terminal.err.with_columns(80).without_colours();
        let turns = PromptTurn::new(ElapsedCounter::new(&stream));
        let (mut keyboard, answers) = AnswerSource::from_pty();
        {
            let turn = turns.begin().await;
            let mut asked = Box::pin(run_question(&stream, &answers, &turn, "Old?"));
            tokio::select! {
                _ = &mut asked => panic!("nobody answered"),
                () = wait_for_text(&stream, "Old? ") => {}
            }
        }
        wait_for_text(&stream, "Old? withdrawn: the call was cancelled\n").await;
        let turn = turns.begin().await;
        let asked = run_question(&stream, &answers, &turn, "New?");
        let typing = async {
            wait_for_text(&stream, "New? (a new question; the one before was withdrawn) ").await;
            keyboard.write_all(b"y").unwrap();
            // The note is gone once keys count.
            wait_until(&stream, |text| text.ends_with("New? ")).await;
            keyboard.write_all(b"n").unwrap();
        };
        let (answer, ()) = tokio::join!(asked, typing);
        assert_eq!(answer, Some(KeyOutcome::Chosen('n')));
        drop(turn);
        // The next one takes keys at once.
        let turn = turns.begin().await;
        let asked = run_question(&stream, &answers, &turn, "Next?");
        let typing = async {
            wait_for_text(&stream, "Next? ").await;
            keyboard.write_all(b"y").unwrap();
        };
        let (answer, ()) = tokio::join!(asked, typing);
        assert_eq!(answer, Some(KeyOutcome::Chosen('y')));
        assert!(!stream.written_text().contains("Next? ("));
    }
}
