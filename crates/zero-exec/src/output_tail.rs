//! The last lines of a running command's output, as a rate-limited progress message.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zero_core::ansi_filter;
use zero_core::text_shortening::char_remainder_len;

/// Time between two messages.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// Most bytes of output that a message is made from.
const BYTES_MAX: usize = 2_000;
/// Most lines of a message.
const LINES_MAX: usize = 5;

/// The end of the output. The reader thread adds to it; the waiting caller asks every [`PAUSE`] for
/// a new message.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputTail {
    tail: Arc<Mutex<TailBuffer>>,
}

#[derive(Debug, Default)]
struct TailBuffer {
    bytes: Vec<u8>,
    is_new: bool,
}

impl OutputTail {
    /// Adds output.
    pub(super) fn add(&self, bytes: &[u8]) {
        let newest = bytes.get(bytes.len().saturating_sub(BYTES_MAX)..).unwrap_or_default();
        let mut tail = self.lock();
        tail.bytes.extend_from_slice(newest);
        let surplus = tail.bytes.len().saturating_sub(BYTES_MAX);
        tail.bytes.drain(..surplus);
        if surplus > 0 || newest.len() < bytes.len() {
            let rest = char_remainder_len(&tail.bytes);
            tail.bytes.drain(..rest);
        }
        tail.is_new = true;
    }

    /// The last lines, if they changed since the last call.
    pub(super) fn take_new_lines(&self) -> Option<String> {
        let mut tail = self.lock();
        if !std::mem::take(&mut tail.is_new) {
            return None;
        }
        let text = ansi_filter::strip(&tail.bytes);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let last = lines.get(lines.len().saturating_sub(LINES_MAX)..)?.join("\n");
        (!last.trim().is_empty()).then_some(last)
    }

    fn lock(&self) -> MutexGuard<'_, TailBuffer> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_reported_once() {
        let live = OutputTail::default();
        assert_eq!(live.take_new_lines(), None);
        live.add(b"\n");
        assert_eq!(live.take_new_lines(), None);
        live.add(b"a\nb\nc\nd\n");
        live.add(b"e\nf\n");
        assert_eq!(live.take_new_lines().as_deref(), Some("b\nc\nd\ne\nf"));
        assert_eq!(live.take_new_lines(), None);
        live.add("x".repeat(3 * BYTES_MAX).as_bytes());
        assert_eq!(live.take_new_lines(), Some("x".repeat(BYTES_MAX)));
        live.add(format!("{}x", "é".repeat(BYTES_MAX)).as_bytes());
        assert!(live.take_new_lines().unwrap().starts_with('é'), "no part of a character");
    }
}
