//! What a running command says, in a few words and not too often.

use std::time::{Duration, Instant};

use super::plain;

/// Time between two messages.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of output that a message is made from.
const BYTES_MAX: usize = 2_000;
/// Lines of a message.
const LINES_MAX: usize = 5;

/// The end of what came, told now and then.
#[derive(Debug, Default)]
pub(super) struct Live {
    tail: Vec<u8>,
    told: Option<Instant>,
}

impl Live {
    /// Takes what came; the last lines, when it is time to tell them.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Option<String> {
        self.tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(BYTES_MAX)..)?);
        self.tail.drain(..self.tail.len().saturating_sub(BYTES_MAX));
        if self.told.is_some_and(|told| told.elapsed() < PAUSE) {
            return None;
        }
        let text = plain::text(&self.tail);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let last = lines.get(lines.len().saturating_sub(LINES_MAX)..)?.join("\n");
        if last.trim().is_empty() {
            return None;
        }
        self.told = Some(Instant::now());
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_told_and_not_too_often() {
        let mut live = Live::default();
        assert_eq!(live.add(b"\n"), None);
        assert_eq!(live.add(b"a\nb\nc\nd\ne\nf\n").as_deref(), Some("b\nc\nd\ne\nf"));
        assert_eq!(live.add(b"g\n"), None, "too soon");
        live.told = live.told.and_then(|told| told.checked_sub(PAUSE));
        let long = "x".repeat(3 * BYTES_MAX);
        assert_eq!(live.add(long.as_bytes()), Some("x".repeat(BYTES_MAX)));
    }
}
