//! A [`TerminalStream`] as a writer of bytes.

use std::io::{self, Write};

use zero_terminal::TerminalStream;

/// Collects what is written until it is flushed, so that a paint reaches the terminal at once.
pub(crate) struct StreamWriter {
    stream: TerminalStream,
    pending: Vec<u8>,
}

impl StreamWriter {
    pub(crate) fn new(stream: &TerminalStream) -> Self {
        Self { stream: stream.clone(), pending: Vec::new() }
    }
}

impl Write for StreamWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.stream.write(&String::from_utf8_lossy(&pending))
    }
}
