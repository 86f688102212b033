//! Discards what was typed before a question appeared, so that it cannot answer it.

use std::io;
use std::os::fd::AsFd;

use rustix::termios::{QueueSelector, tcflush};

/// Discards what was typed at a terminal and not read yet, including a line without its end.
pub fn discard_typed_input(terminal: impl AsFd) -> io::Result<()> {
    Ok(tcflush(terminal, QueueSelector::IFlush)?)
}
