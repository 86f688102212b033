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

/// How long after it was painted a question ignores keys that may be meant for something else. It says
/// so meanwhile.
const CAUTION_WAIT: Duration = Duration::from_millis(700);

/// Why keys do not count for a moment after a question appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyCaution {
    /// The question before was withdrawn: the user may be about to answer that one.
    Replacement,
    /// The user was typing something else. Each key that does not count restarts the wait.
    Typing,
}

/// Source of keys. Closing it restores the terminal and ends a pending read.
#[derive(Debug)]
pub struct KeyReader {
    source: KeySource,
    state: Mutex<KeyReaderState>,
    /// Why keys do not count at first.
    caution: Option<KeyCaution>,
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
    /// When keys begin to count; `None` until the first one is waited for.
    counts_from: Option<Instant>,
    /// Whether it was said that they do.
    is_caution_over: bool,
    /// The size of the window when it was looked at last.
    size: Option<(Width, Height)>,
}

impl KeyReader {
    pub(crate) fn new(source: KeySource) -> Self {
        Self { source, state: Mutex::default(), caution: None, withdrawal: OnceLock::new() }
    }

    /// Keys do not count for a moment after the question was painted.
    pub(crate) fn with_caution(self, caution: Option<KeyCaution>) -> Self {
        Self { caution, ..self }
    }

    /// What the question says as long as keys do not count.
    pub fn caution_note(&self) -> Option<&'static str> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let caution = self.caution.filter(|_| !state.is_caution_over)?;
        Some(match caution {
            KeyCaution::Replacement => "a new question; the one before was withdrawn",
            KeyCaution::Typing => "what you typed for the chat does not answer this",
        })
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

    /// Whether a question is on the screen for a moment before it takes keys. Not where a caution says the
    /// same, and prepared keys need no time.
    pub(crate) fn needs_reading_time(&self) -> bool {
        matches!(self.source, KeySource::Terminal(_)) && self.caution.is_none()
    }

    /// Discards the keys that come while the user cannot have read the question yet, except for those that
    /// leave it. Its last row is painted after that.
    pub(crate) fn discard_while_reading(&self) -> io::Result<()> {
        #[cfg_attr(
            not(any(test, feature = "scripted")),
            expect(irrefutable_let_patterns, reason = "tests have another one")
        )]
        let KeySource::Terminal(input) = &self.source else { return Ok(()) };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + READING_WAIT;
        let mut bytes = [0; READ_BYTES_MAX];
        while let RawRead::Bytes(count) =
            input.read(&mut bytes, Some(until.saturating_duration_since(Instant::now())))?
        {
            let mut events = Vec::new();
            state.decoder.push(bytes.get(..count).unwrap_or_default(), &mut events);
            let leaving = events.into_iter().flat_map(into_keys).find(|key| is_leaving(*key));
            if let Some(key) = leaving {
                state.ready.push_back(key);
                break;
            }
        }
        state.decoder = InputDecoder::default();
        Ok(())
    }

    /// Waits for a key; `None` if there will be none.
    pub fn next_key(&self) -> io::Result<Option<Key>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = if self.caution.is_some() { CAUTION_WAIT } else { Duration::ZERO };
        // The first key is waited for once the question is painted.
        if state.counts_from.is_none() {
            state.counts_from = Some(Instant::now() + wait);
            state.size = terminal_size();
        }
        loop {
            if let Some(key) = state.ready.pop_front() {
                return Ok(Some(key));
            }
            let is_pending = state.decoder.is_pending();
            let caution_left = self.caution_left(&state);
            let wait = match (is_pending, caution_left) {
                (true, _) => SEQUENCE_WAIT,
                (false, Some(Duration::ZERO)) => {
                    state.is_caution_over = true;
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
                    self.accept_keys(&mut state, events);
                }
                RawRead::TimedOut if is_pending => {
                    let event = state.decoder.finish();
                    self.accept_keys(&mut state, event);
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

    /// How long keys will not count; `None` if it was said that they do, or if they always did.
    fn caution_left(&self, state: &KeyReaderState) -> Option<Duration> {
        let from =
            state.counts_from.filter(|_| self.caution.is_some() && !state.is_caution_over)?;
        Some(from.saturating_duration_since(Instant::now()))
    }

    /// Keeps the keys that count. Those that leave a question always do.
    fn accept_keys(
        &self,
        state: &mut KeyReaderState,
        events: impl IntoIterator<Item = InputEvent>,
    ) {
        for key in events.into_iter().flat_map(into_keys) {
            let now = Instant::now();
            if is_leaving(key) || state.counts_from.is_none_or(|from| now >= from) {
                state.ready.push_back(key);
            } else if self.caution == Some(KeyCaution::Typing) {
                state.counts_from = Some(now + CAUTION_WAIT);
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
        *state = KeyReaderState {
            counts_from: state.counts_from,
            is_caution_over: state.is_caution_over,
            size: state.size,
            ..KeyReaderState::default()
        };
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
        keys.discard_while_reading().unwrap();
        keyboard.write_all(b"n").unwrap();
        assert_eq!(keys.next_press().unwrap(), Some(KeyPress::Key(Key::Char('n'))));
        keyboard.write_all(b"y\x03").unwrap();
        keys.discard_while_reading().unwrap();
        assert_eq!(keys.next_press().unwrap(), Some(KeyPress::Key(Key::Ctrl('c'))));
    }

    #[test]
    fn keys_of_a_typing_user_do_not_count_at_first() {
        let (mut keyboard, answers) = AnswerSource::from_pty();
        let keys = answers.open_keys_for_test().with_caution(Some(KeyCaution::Typing));
        assert!(keys.caution_note().is_some());
        keyboard.write_all(b"y").unwrap();
        // The question is painted again once keys count.
        assert_eq!(keys.next_key().unwrap(), Some(Key::Repaint));
        assert_eq!(keys.caution_note(), None);
        keyboard.write_all(b"n").unwrap();
        assert_eq!(keys.next_key().unwrap(), Some(Key::Char('n')));
        // The keys that leave always count.
        let (mut keyboard, answers) = AnswerSource::from_pty();
        let keys = answers.open_keys_for_test().with_caution(Some(KeyCaution::Typing));
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
