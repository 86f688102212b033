//! Reads the keys that the user presses, one by one and without showing them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use zero_sandbox::typed_input::{RawInput, RawRead};

use super::key::{Key, KeyDecoder};

/// Time after which an Escape is a key of its own and not the start of a sequence.
const SEQUENCE_WAIT: Duration = Duration::from_millis(50);
/// Most bytes that are read at once.
const READ_BYTES_MAX: usize = 256;

/// Source of keys. Closing it restores the terminal and ends a pending read.
#[derive(Debug)]
pub(crate) struct KeyReader {
    source: KeySource,
    state: Mutex<KeyReaderState>,
}

#[derive(Debug)]
pub(super) enum KeySource {
    Terminal(RawInput),
    /// Prepared input.
    #[cfg(test)]
    Script(std::sync::Arc<Mutex<VecDeque<String>>>),
}

#[derive(Debug, Default)]
struct KeyReaderState {
    decoder: KeyDecoder,
    ready: VecDeque<Key>,
}

impl KeyReader {
    pub(super) fn new(source: KeySource) -> Self {
        Self { source, state: Mutex::default() }
    }

    /// Waits for a key; `None` if there will be none.
    pub(crate) fn next_key(&self) -> io::Result<Option<Key>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(key) = state.ready.pop_front() {
                return Ok(Some(key));
            }
            let wait = state.decoder.is_pending().then_some(SEQUENCE_WAIT);
            let mut bytes = [0; READ_BYTES_MAX];
            let read = match &self.source {
                KeySource::Terminal(input) => input.read(&mut bytes, wait)?,
                #[cfg(test)]
                KeySource::Script(lines) => read_script(lines, &mut bytes),
            };
            match read {
                RawRead::Bytes(count) => {
                    let KeyReaderState { decoder, ready } = &mut *state;
                    let read = bytes.iter().take(count);
                    ready.extend(read.filter_map(|byte| decoder.push(*byte)));
                }
                RawRead::TimedOut => {
                    let key = state.decoder.finish();
                    state.ready.extend(key);
                }
                RawRead::Ended => return Ok(None),
            }
        }
    }

    /// Discards the keys that were pressed and not read yet.
    pub(crate) fn discard(&self) -> io::Result<()> {
        match &self.source {
            KeySource::Terminal(input) => input.discard()?,
            #[cfg(test)]
            KeySource::Script(_) => return Ok(()),
        }
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = KeyReaderState::default();
        Ok(())
    }

    /// Restores the terminal and ends a pending read.
    pub(crate) fn close(&self) {
        match &self.source {
            KeySource::Terminal(input) => input.close(),
            #[cfg(test)]
            KeySource::Script(_) => {}
        }
    }
}

/// The next prepared line as keys; its end is Enter.
#[cfg(test)]
fn read_script(lines: &Mutex<VecDeque<String>>, bytes: &mut [u8]) -> RawRead {
    let mut lines = lines.lock().unwrap();
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
