//! Command output that waits to be shown.

use std::sync::{Mutex, PoisonError};

use zero_core::text_shortening::tail;

/// Bytes that may wait. Beyond that, the oldest are dropped: the result is complete.
const WAITING_BYTES_MAX: usize = 256 * 1024;

/// Command output that waits to be shown.
#[derive(Default)]
pub(crate) struct OutputBuffer {
    text: Mutex<String>,
}

impl OutputBuffer {
    /// Appends output. Returns true if the buffer was empty, so that the reader has to be notified.
    pub(crate) fn push(&self, more: &str) -> bool {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = text.is_empty();
        text.push_str(more);
        if text.len() > WAITING_BYTES_MAX {
            *text = tail(&text, WAITING_BYTES_MAX).to_owned();
        }
        was_empty
    }

    /// Takes the whole buffer.
    pub(crate) fn take(&self) -> String {
        std::mem::take(&mut *self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_buffer_is_bounded_and_signals_once() {
        let printed = OutputBuffer::default();
        assert!(printed.push("a"));
        assert!(!printed.push("b"));
        assert_eq!(printed.take(), "ab");
        assert!(printed.push(&"ä".repeat(WAITING_BYTES_MAX)));
        assert!(printed.take().len() <= WAITING_BYTES_MAX);
        assert_eq!(printed.take(), "");
    }
}
