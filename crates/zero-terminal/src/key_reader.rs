//! Reads the keys that the user presses, one by one and without showing them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use terminal_size::{Height, Width, terminal_size};
use zero_sandbox::typed_input::{RawInput, RawRead};

use super::input_decoder::InputDecoder;
use super::input_event::InputEvent;
use super::key::{Key, into_keys};

/// Time after which an Escape is a key of its own and not the start of a sequence.
const SEQUENCE_WAIT: Duration = Duration::from_millis(50);
/// How often the size of the window is looked at while a question waits.
const SIZE_WAIT: Duration = Duration::from_millis(250);
/// Most bytes that are read at once.
const READ_BYTES_MAX: usize = 256;

/// A user does not press a second key this soon: keys that follow each other faster are pasted.
const PASTE_WAIT: Duration = Duration::from_millis(20);

/// How long a question is on the screen before it takes keys: no user reads and answers it this soon.
pub(crate) const READING_WAIT: Duration = Duration::from_millis(250);

/// How long a question ignores keys that are probably meant for something else. It says so meanwhile.
const MISDIRECTED_WAIT: Duration = Duration::from_millis(700);

/// Why keys do not count for a moment after a question appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuietReason {
    /// Nobody can have read it yet. Its last row is painted after that.
    Reading,
    /// The question before was withdrawn: the user may be about to answer that one.
    Replacement,
    /// The user was typing something else. Each key that does not count restarts the wait.
    Typing,
}

impl QuietReason {
    fn wait(self) -> Duration {
        match self {
            Self::Reading => READING_WAIT,
            Self::Replacement | Self::Typing => MISDIRECTED_WAIT,
        }
    }
}

/// What a question shows in its last row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionRow {
    /// Nothing yet: nobody can have read the rows above it.
    Hidden,
    /// The question, and why keys do not count.
    Quiet(&'static str),
    /// The question: keys count.
    Open,
}

/// A time in which keys do not count.
#[derive(Clone, Copy, Debug)]
struct QuietTime {
    reason: QuietReason,
    until: Instant,
}

/// Source of keys. Closing it restores the terminal and ends a pending read.
#[derive(Debug)]
pub struct KeyReader {
    source: KeySource,
    state: Mutex<KeyReaderState>,
    /// Why keys do not count at the first question, besides the time to read it.
    caution: Option<QuietReason>,
    /// Why the question was withdrawn, once it is.
    withdrawal: OnceLock<String>,
}

#[derive(Debug)]
pub(crate) enum KeySource {
    Terminal(RawInput),
    /// Prepared input.
    #[cfg(any(test, feature = "scripted"))]
    Script(std::sync::Arc<Mutex<VecDeque<String>>>),
}

/// What was pressed at a question that one key answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPress {
    /// One key.
    Key(Key),
    /// Several keys at once, as a paste sends them: they were meant for something else, so none of
    /// them counts.
    Burst,
}

#[derive(Debug, Default)]
struct KeyReaderState {
    decoder: InputDecoder,
    ready: VecDeque<Key>,
    /// Whether a question has begun.
    has_begun: bool,
    /// While keys do not count.
    quiet: Option<QuietTime>,
    /// The size of the window when it was looked at last.
    size: Option<(Width, Height)>,
}

impl KeyReader {
    pub(crate) fn new(source: KeySource) -> Self {
        Self { source, state: Mutex::default(), caution: None, withdrawal: OnceLock::new() }
    }

    /// Keys do not count for a longer moment after the first question was painted.
    pub(crate) fn with_caution(self, caution: Option<QuietReason>) -> Self {
        Self { caution, ..self }
    }

    /// Begins a question: keys that were pressed before do not answer it, and neither do those that come
    /// before the user can have read it. A [`Key::Repaint`] follows once keys count.
    pub fn begin_question(&self) -> io::Result<()> {
        self.discard()?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Prepared keys need no time.
        let reading = matches!(self.source, KeySource::Terminal(_)).then_some(QuietReason::Reading);
        let caution = self.caution.filter(|_| !state.has_begun);
        state.begin(caution.or(reading));
        Ok(())
    }

    /// What the question on the screen shows in its last row.
    pub fn question_row(&self) -> QuestionRow {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.quiet.map(|quiet| quiet.reason) {
            None => QuestionRow::Open,
            Some(QuietReason::Reading) => QuestionRow::Hidden,
            Some(QuietReason::Replacement) => {
                QuestionRow::Quiet("a new question; the one before was withdrawn")
            }
            Some(QuietReason::Typing) => {
                QuestionRow::Quiet("what you typed for the chat does not answer this")
            }
        }
    }

    /// What is shown instead of an answer: that the question was withdrawn and why, or `otherwise`
    /// if the user is gone.
    pub fn describe_end(&self, otherwise: &str) -> String {
        match self.withdrawal.get() {
            Some(why) => format!("withdrawn: {why}"),
            None => otherwise.to_owned(),
        }
    }

    /// Ends a pending read because its answer is no longer needed.
    pub fn withdraw(&self, why: String) {
        let _ = self.withdrawal.set(why);
        self.close();
    }

    /// Waits for a key; `None` if there will be none.
    pub fn next_key(&self) -> io::Result<Option<Key>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.has_begun {
            state.begin(self.caution);
        }
        loop {
            if let Some(key) = state.ready.pop_front() {
                return Ok(Some(key));
            }
            let is_pending = state.decoder.is_pending();
            let now = Instant::now();
            let quiet_left = state.quiet.map(|quiet| quiet.until.saturating_duration_since(now));
            let wait = match (is_pending, quiet_left) {
                (true, _) => SEQUENCE_WAIT,
                (false, Some(Duration::ZERO)) => {
                    state.quiet = None;
                    return Ok(Some(Key::Repaint));
                }
                (false, left) => left.unwrap_or(SIZE_WAIT).min(SIZE_WAIT),
            };
            let mut bytes = [0; READ_BYTES_MAX];
            let read = match &self.source {
                KeySource::Terminal(input) => input.read(&mut bytes, Some(wait))?,
                #[cfg(any(test, feature = "scripted"))]
                KeySource::Script(lines) => read_script(lines, &mut bytes),
            };
            match read {
                RawRead::Bytes(count) => {
                    let mut events = Vec::new();
                    state.decoder.push(bytes.get(..count).unwrap_or_default(), &mut events);
                    state.accept_keys(events);
                }
                RawRead::TimedOut if is_pending => {
                    let event = state.decoder.finish();
                    state.accept_keys(event);
                }
                RawRead::TimedOut => {
                    let size = terminal_size();
                    if std::mem::replace(&mut state.size, size) != size {
                        return Ok(Some(Key::Repaint));
                    }
                }
                RawRead::Ended => return Ok(None),
            }
        }
    }

    /// Waits for a key that answers a question alone; `None` if there will be none.
    pub fn next_press(&self) -> io::Result<Option<KeyPress>> {
        let Some(first) = self.next_key()? else { return Ok(None) };
        if first == Key::Repaint {
            return Ok(Some(KeyPress::Key(first)));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Prepared keys are pressed one after the other.
        #[cfg(any(test, feature = "scripted"))]
        if let KeySource::Script(_) = &self.source {
            return Ok(Some(KeyPress::Key(first)));
        }
        #[cfg_attr(
            not(any(test, feature = "scripted")),
            expect(irrefutable_let_patterns, reason = "tests have another one")
        )]
        let KeySource::Terminal(input) = &self.source else { return Ok(None) };
        let mut is_burst = false;
        let mut only_leaves = is_leaving(first);
        loop {
            for key in std::mem::take(&mut state.ready) {
                is_burst = true;
                only_leaves &= is_leaving(key);
            }
            is_burst |= state.decoder.is_pending();
            let mut bytes = [0; READ_BYTES_MAX];
            match input.read(&mut bytes, Some(PASTE_WAIT))? {
                RawRead::Bytes(count) => {
                    is_burst = true;
                    let mut events = Vec::new();
                    state.decoder.push(bytes.get(..count).unwrap_or_default(), &mut events);
                    state.ready.extend(events.into_iter().flat_map(into_keys));
                }
                RawRead::TimedOut => break,
                RawRead::Ended => return Ok(None),
            }
        }
        if is_burst {
            only_leaves &= !state.decoder.is_pending();
            state.decoder = InputDecoder::default();
        }
        // Who presses Ctrl-C again and again wants to leave.
        Ok(Some(if is_burst && !only_leaves { KeyPress::Burst } else { KeyPress::Key(first) }))
    }

    /// Discards the keys that were pressed and not read yet.
    pub fn discard(&self) -> io::Result<()> {
        match &self.source {
            KeySource::Terminal(input) => input.discard()?,
            #[cfg(any(test, feature = "scripted"))]
            KeySource::Script(_) => return Ok(()),
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.decoder, state.ready) = Default::default();
        Ok(())
    }

    /// Restores the terminal and ends a pending read.
    pub fn close(&self) {
        match &self.source {
            KeySource::Terminal(input) => input.close(),
            #[cfg(any(test, feature = "scripted"))]
            KeySource::Script(_) => {}
        }
    }
}

impl KeyReaderState {
    /// A question appears. Keys do not count for as long as the reason demands.
    fn begin(&mut self, reason: Option<QuietReason>) {
        self.has_begun = true;
        self.quiet =
            reason.map(|reason| QuietTime { reason, until: Instant::now() + reason.wait() });
        self.size = terminal_size();
    }

    /// Keeps the keys that count. Those that leave a question always do.
    fn accept_keys(&mut self, events: impl IntoIterator<Item = InputEvent>) {
        for key in events.into_iter().flat_map(into_keys) {
            match &mut self.quiet {
                Some(quiet) if !is_leaving(key) => {
                    if quiet.reason == QuietReason::Typing {
                        quiet.until = Instant::now() + quiet.reason.wait();
                    }
                }
                _ => self.ready.push_back(key),
            }
        }
    }
}

fn is_leaving(key: Key) -> bool {
    matches!(key, Key::Ctrl('c' | 'd'))
}

/// The next prepared line as keys; its end is Enter.
#[cfg(any(test, feature = "scripted"))]
fn read_script(lines: &Mutex<VecDeque<String>>, bytes: &mut [u8]) -> RawRead {
    let mut lines = lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(line) = lines.pop_front() else { return RawRead::Ended };
    // A prepared line ends with Enter.
    let line = match line.strip_suffix('\n') {
        Some(line) => format!("{line}\r"),
        None => line,
    };
    let count = line.len().min(bytes.len());
    bytes[..count].copy_from_slice(&line.as_bytes()[..count]);
    if count < line.len() {
        lines.push_front(line[count..].to_owned());
    }
    RawRead::Bytes(count)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::AnswerSource;

    #[test]
    fn several_keys_at_once_do_not_answer() {
        let (mut keyboard, answers) = AnswerSource::from_pty();
        let keys = answers.open_keys_for_test();
        for (typed, expected) in [
            ("y", KeyPress::Key(Key::Char('y'))),
            ("yu", KeyPress::Burst),
            ("\x1b[B", KeyPress::Key(Key::Down)),
            ("\x1b[B\r", KeyPress::Burst),
            ("y\x1b", KeyPress::Burst),
            ("\x1b[200~y\x1b[201~", KeyPress::Burst),
            ("\x04y", KeyPress::Burst),
            ("\x03\x03", KeyPress::Key(Key::Ctrl('c'))),
            // Longer than one read.
            (&"y".repeat(3 * READ_BYTES_MAX), KeyPress::Burst),
            ("ü", KeyPress::Key(Key::Char('ü'))),
        ] {
            keyboard.write_all(typed.as_bytes()).unwrap();
            assert_eq!(keys.next_press().unwrap(), Some(expected), "{typed:?}");
        }
    }

    #[test]
    fn keys_pressed_before_a_question_was_read_do_not_count() {
        let (mut keyboard, answers) = AnswerSource::from_pty();
        let keys = answers.open_keys_for_test();
        keyboard.write_all(b"yyy\x1b[").unwrap();
        keys.begin_question().unwrap();
        assert_eq!(keys.question_row(), QuestionRow::Hidden);
        keyboard.write_all(b"yyy\x1b[").unwrap();
        // The last row is painted once keys count.
        assert_eq!(keys.next_press().unwrap(), Some(KeyPress::Key(Key::Repaint)));
        assert_eq!(keys.question_row(), QuestionRow::Open);
        keyboard.write_all(b"n").unwrap();
        assert_eq!(keys.next_press().unwrap(), Some(KeyPress::Key(Key::Char('n'))));
        // A second question of the same dialog is read, too; the keys that leave always count.
        keys.begin_question().unwrap();
        keyboard.write_all(b"y\x03").unwrap();
        assert_eq!(keys.next_press().unwrap(), Some(KeyPress::Key(Key::Ctrl('c'))));
    }

    #[test]
    fn keys_of_a_typing_user_do_not_count_at_first() {
        let (mut keyboard, answers) = AnswerSource::from_pty();
        let keys = answers.open_keys_for_test().with_caution(Some(QuietReason::Typing));
        keys.begin_question().unwrap();
        assert!(matches!(keys.question_row(), QuestionRow::Quiet(_)));
        keyboard.write_all(b"y").unwrap();
        // The question is painted again once keys count.
        assert_eq!(keys.next_key().unwrap(), Some(Key::Repaint));
        assert_eq!(keys.question_row(), QuestionRow::Open);
        keyboard.write_all(b"n").unwrap();
        assert_eq!(keys.next_key().unwrap(), Some(Key::Char('n')));
        // Only the first question of a dialog is cautious; the others are only read.
        keys.begin_question().unwrap();
        assert_eq!(keys.question_row(), QuestionRow::Hidden);
        // The keys that leave always count.
        let (mut keyboard, answers) = AnswerSource::from_pty();
        let keys = answers.open_keys_for_test().with_caution(Some(QuietReason::Typing));
        keyboard.write_all(b"y\x03").unwrap();
        assert_eq!(keys.next_key().unwrap(), Some(Key::Ctrl('c')));
    }

    #[test]
    fn discarded_keys_are_gone_from_the_buffer_too() {
        let (mut keyboard, answers) = AnswerSource::from_pty();
        let keys = answers.open_keys_for_test();
        keyboard.write_all(b"au").unwrap();
        assert_eq!(keys.next_key().unwrap(), Some(Key::Char('a')));
        keys.discard().unwrap();
        keyboard.write_all(b"n").unwrap();
        assert_eq!(keys.next_press().unwrap(), Some(KeyPress::Key(Key::Char('n'))));
    }
}
