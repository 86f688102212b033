//! The chat as plain lines, for screen readers: output is never repainted, and nothing moves the cursor.
//! Typed text is written letter by letter; after a change in the middle, the line is written again,
//! below.

use std::io;

use super::{ChatLoop, PLAIN_PROMPT_MARK};
use crate::cell_view::marks::Marks;
use zero_core::sanitize::escape_line;
use zero_terminal::escape_prose;

impl ChatLoop {
    pub(super) fn is_plain(&self) -> bool {
        self.config.view.plain
    }

    /// Says that a call begins: until it ends, it would not be heard of.
    pub(super) fn announce_call(&mut self, title: &str) {
        let mark = Marks::new(self.config.view).running;
        self.print(&format!("{mark} {}\n", escape_line(title)));
    }

    /// Writes what is new: finished lines, a hint, and what the user types.
    pub(super) fn paint_plain(&mut self) -> io::Result<()> {
        let mut text = std::mem::take(&mut self.finished);
        if let Some(hint) = self.status.hint.take() {
            text.push_str(&format!("{}\n", escape_line(&hint)));
        }
        let is_idle = !self.transcript.is_running() && !self.outgoing.is_busy();
        let is_shown = is_idle || !self.composer.is_empty();
        if (!text.is_empty() || !is_shown) && self.plain_line.take().is_some() {
            text.insert(0, '\n');
        }
        if is_shown {
            let line = format!("{PLAIN_PROMPT_MARK}{}", escape_prose(&self.composer.text()));
            match self.plain_line.as_deref() {
                None => text.push_str(&line),
                Some(before) => match line.strip_prefix(before) {
                    Some(rest) => text.push_str(rest),
                    None => text.push_str(&format!("\n{line}")),
                },
            }
            self.plain_line = Some(line);
        }
        match text.is_empty() {
            true => Ok(()),
            false => self.config.stream.write(&text),
        }
    }

    /// Ends the line that the user types, so that other output starts on a new one.
    pub(super) fn end_plain_line(&mut self) -> io::Result<()> {
        match self.plain_line.take() {
            Some(_) => self.config.stream.write("\n"),
            None => Ok(()),
        }
    }
}
