//! Tracks how much a run adds to its session. Measuring a session reads the disk, so it is done
//! only after a significant increase.

use crate::event::EventKind;

/// Maximum number of bytes added between two measurements.
const STEP_BYTES_MAX: u64 = 1024 * 1024;
/// Shown content is also stored in the transcript.
const STORAGE_FACTOR: u64 = 2;

/// Bytes that a run has added since its session was last measured.
#[derive(Debug)]
pub(super) struct SessionGrowth {
    bytes: u64,
    step: u64,
}

impl SessionGrowth {
    /// Creates a tracker for a session with that limit.
    pub(super) fn with_limit(session_bytes_max: u64) -> Self {
        Self { bytes: 0, step: (session_bytes_max / 1024).clamp(1, STEP_BYTES_MAX) }
    }

    /// Adds an event.
    pub(super) fn add(&mut self, kind: &EventKind) {
        let bytes = u64::try_from(kind.bytes()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(STORAGE_FACTOR));
    }

    /// Whether the session should be measured now.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.bytes >= self.step;
        if is_due {
            self.bytes = 0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_due_after_enough_bytes() {
        let text = |bytes: usize| EventKind::Text { text: "x".repeat(bytes) };
        let mut growth = SessionGrowth::with_limit(1024 * 1024 * 1024);
        assert!(!growth.is_due());
        growth.add(&text(STEP_BYTES_MAX as usize / 2 - 1));
        assert!(!growth.is_due());
        growth.add(&text(1));
        assert!(growth.is_due() && !growth.is_due());
        let mut growth = SessionGrowth::with_limit(10);
        growth.add(&text(1));
        assert!(growth.is_due(), "a small one is measured all the time");
    }
}
