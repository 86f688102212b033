//! What the tests need of a terminal.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use zero_chat::inline_screen::TerminalKind;
use zero_terminal::WindowSize;

use crate::shown_row::ShownRow;

/// A terminal whose scrollback and screen can be read.
pub(crate) trait TerminalUnderTest {
    /// What the screen is told about it.
    fn kind(&self) -> TerminalKind;

    /// Shows bytes, and waits until they are shown.
    fn write(&mut self, bytes: &[u8]);

    /// Changes the size of the window, and waits until it has changed.
    fn resize(&mut self, size: WindowSize);

    /// The rows of scrollback and screen, without the empty ones at the end. A terminal that rewraps its lines joins them here.
    fn rows(&mut self) -> Vec<ShownRow>;

    /// Row and column of the cursor, from the top of the screen, and whether it is visible.
    fn cursor(&mut self) -> (usize, usize, bool);
}

/// Collects the bytes that a screen writes, until a terminal shows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteQueue(Arc<Mutex<Vec<u8>>>);

impl ByteQueue {
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Write for ByteQueue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
