//! Switches what a terminal reports while a chat reads its keys, and switches it back.

use std::io;

use zero_terminal::TerminalStream;

/// Bracketed paste, focus reports, and keys with their modifiers where the terminal knows them.
const ENABLE: &str = "\x1b[?2004h\x1b[?1004h\x1b[>1u";
const DISABLE: &str = "\x1b[<u\x1b[?1004l\x1b[?2004l";

/// Asks which color the background has. A terminal that does not know the question says nothing.
pub(crate) const ASK_BACKGROUND: &str = "\x1b]11;?\x1b\\";

/// The modes are on until this is dropped.
pub(crate) struct TerminalModes {
    /// Where they were enabled.
    stream: Option<TerminalStream>,
}

impl TerminalModes {
    pub(crate) fn enable(stream: &TerminalStream) -> io::Result<Self> {
        stream.write(ENABLE)?;
        Ok(Self { stream: Some(stream.clone()) })
    }

    /// The modes that the terminal has by itself.
    pub(crate) fn unchanged() -> Self {
        Self { stream: None }
    }
}

impl Drop for TerminalModes {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            // A terminal that is gone has no modes.
            let _ = stream.write(DISABLE);
        }
    }
}
