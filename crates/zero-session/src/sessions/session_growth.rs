//! How much a run adds to its session. Measuring a session is a look at the disk, so that is done
//! now and then: when enough was added to make a difference.

use crate::event::EventKind;

/// Most bytes that are added without a look.
const STEP_BYTES_MAX: u64 = 1024 * 1024;
/// What is shown is also in the transcript, as the model is told it.
const STORAGE_FACTOR: u64 = 2;

/// How much a run has added since its session was last measured.
#[derive(Debug)]
pub(super) struct SessionGrowth {
    bytes: u64,
    step: u64,
}

impl SessionGrowth {
    /// For a session that may take so many bytes.
    pub(super) fn with_limit(session_bytes_max: u64) -> Self {
        Self { bytes: 0, step: (session_bytes_max / 1024).clamp(1, STEP_BYTES_MAX) }
    }

    /// This is added.
    pub(super) fn add(&mut self, what: &EventKind) {
        let bytes = u64::try_from(what.bytes()).unwrap_or(u64::MAX);
        self.bytes = self.bytes.saturating_add(bytes.saturating_mul(STORAGE_FACTOR));
    }

    /// Whether it is time to measure the session.
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
