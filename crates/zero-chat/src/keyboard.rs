//! Reads keys on a thread of its own and passes them on, until it is closed.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;
use zero_terminal::AnswerSource;
use zero_terminal::input_decoder::InputDecoder;
use zero_terminal::input_event::InputEvent;
use zero_terminal::raw_input::{RawInput, RawRead, SignalKeys};

/// Time after which an Escape is a key of its own and not the start of a sequence.
const SEQUENCE_WAIT: Duration = Duration::from_millis(50);
/// Most bytes that are read at once.
const READ_BYTES_MAX: usize = 4096;
/// Events that may wait to be handled; more wait in the terminal.
const QUEUE_MAX: usize = 1024;

/// The keyboard of a terminal. Dropping it restores the terminal.
pub(crate) struct Keyboard {
    input: Arc<RawInput>,
    events: mpsc::Receiver<InputEvent>,
    thread: Option<JoinHandle<()>>,
}

impl Keyboard {
    /// Takes over the keyboard.
    pub(crate) fn open(source: &AnswerSource) -> io::Result<Self> {
        let input = Arc::new(source.open_raw(SignalKeys::AreRead)?);
        let (sender, events) = mpsc::channel(QUEUE_MAX);
        let reader = Arc::clone(&input);
        let thread = std::thread::Builder::new()
            .name("keyboard".to_owned())
            .spawn(move || read_events(&reader, &sender))?;
        Ok(Self { input, events, thread: Some(thread) })
    }

    /// The next event; `None` if the terminal is gone. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<InputEvent> {
        self.events.recv().await
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.input.close();
        // A thread that waits for room in the queue ends as well.
        self.events.close();
        while self.events.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn read_events(input: &RawInput, sender: &mpsc::Sender<InputEvent>) {
    let mut decoder = InputDecoder::default();
    let mut bytes = [0; READ_BYTES_MAX];
    let mut decoded = Vec::new();
    loop {
        let wait = decoder.is_pending().then_some(SEQUENCE_WAIT);
        match input.read(&mut bytes, wait) {
            Ok(RawRead::Bytes(count)) => {
                decoder.push(bytes.get(..count).unwrap_or_default(), &mut decoded);
            }
            Ok(RawRead::TimedOut) => decoded.extend(decoder.finish()),
            Ok(RawRead::Ended) | Err(_) => return,
        }
        for event in decoded.drain(..) {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    }
}
