//! What a person saw when they said yes.

use std::sync::OnceLock;

use zero_core::{Reason, ToolError};
use zero_sandbox::Snapshot;
use zero_sandbox::journal::sha256;

/// Remembers the state of a file that was shown to a person, so that what they approved is what
/// happens: a file that changed while they looked is not touched.
#[derive(Debug, Default)]
pub struct Previewed {
    shown: OnceLock<Option<String>>,
}

impl Previewed {
    /// Remembers what was shown.
    pub fn remember(&self, state: &Snapshot) {
        // Only the first showing counts; there is one question per call.
        let _ = self.shown.set(fingerprint(state));
    }

    /// Fails when the file is no longer what was shown. Fine when nothing was.
    pub fn check(&self, now: &Snapshot, shown: &str) -> Result<(), ToolError> {
        match self.shown.get() {
            Some(seen) if *seen != fingerprint(now) => {
                let message = format!(
                    "`{shown}` changed after the change was shown; nothing was done, try again"
                );
                Err(ToolError::failed(Reason::StaleFile, message).with("file", shown))
            }
            _ => Ok(()),
        }
    }
}

fn fingerprint(state: &Snapshot) -> Option<String> {
    match state {
        Snapshot::Absent => None,
        Snapshot::File { bytes, .. } => Some(sha256(bytes)),
        Snapshot::Symlink { target } => Some(target.display().to_string()),
    }
}
