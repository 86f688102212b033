//! Switches what a terminal reports while a chat reads its keys, and switches it back.

use std::io;

use zero_terminal::TerminalStream;

/// Bracketed paste, focus reports, and keys with their modifiers where the terminal knows them.
const ENABLE: &str = "\x1b[?2004h\x1b[?1004h\x1b[>1u";
const DISABLE: &str = "\x1b[<u\x1b[?1004l\x1b[?2004l";

/// The modes are on until this is dropped.
pub(crate) struct TerminalModes {
    stream: TerminalStream,
}

impl TerminalModes {
    pub(crate) fn enable(stream: &TerminalStream) -> io::Result<Self> {
        stream.write(ENABLE)?;
        Ok(Self { stream: stream.clone() })
    }
}

impl Drop for TerminalModes {
    fn drop(&mut self) {
        // A terminal that is gone has no modes.
        let _ = self.stream.write(DISABLE);
    }
}
