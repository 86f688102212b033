//! Tells those who follow a run that its end cannot be recorded.
//!
//! Events are stored before they are shown, so clients do not see the end of such a run. Without this, they
//! would wait for it and not know why.

use tokio::sync::broadcast;
use zero_core::{RunId, SessionId};

/// Messages that a slow listener can be behind. It hears of the same runs again.
const MESSAGES_MAX: usize = 64;

/// A run that has ended, and whose end the store does not have.
#[derive(Clone, Debug, PartialEq)]
pub struct UnrecordedEnd {
    /// Its session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// What happened and what to do.
    pub message: String,
    /// Whether the end will not be recorded, because the store is damaged. Otherwise each attempt that fails
    /// is reported.
    pub is_abandoned: bool,
}

/// The sending half, of which a manager has one.
pub(super) struct UnrecordedEndReporter(broadcast::Sender<UnrecordedEnd>);

impl Default for UnrecordedEndReporter {
    fn default() -> Self {
        Self(broadcast::channel(MESSAGES_MAX).0)
    }
}

impl UnrecordedEndReporter {
    pub(super) fn subscribe(&self) -> broadcast::Receiver<UnrecordedEnd> {
        self.0.subscribe()
    }

    pub(super) fn report(&self, end: UnrecordedEnd) {
        // There may be no receiver.
        let _ = self.0.send(end);
    }
}
