//! What a person saw when they said yes.

use std::sync::OnceLock;

use zero_core::{ErrorReason, ToolError};
use zero_sandbox::FileSnapshot;
use zero_sandbox::journal::sha256;

/// Remembers the state of a file that was shown to a person, so that what they approved is what
/// happens: a file that changed while they looked is not touched.
#[derive(Debug, Default)]
pub struct PreviewFingerprint {
    shown: OnceLock<Option<String>>,
}

impl PreviewFingerprint {
    /// Remembers what was shown.
    pub fn record(&self, state: &FileSnapshot) {
        // Only the first showing counts; there is one question per call.
        let _ = self.shown.set(fingerprint(state));
    }

    /// Fails when the file is no longer what was shown. Fine when nothing was.
    pub fn check_unchanged(&self, now: &FileSnapshot, shown: &str) -> Result<(), ToolError> {
        match self.shown.get() {
            Some(seen) if *seen != fingerprint(now) => {
                let message = format!(
                    "`{shown}` changed after the change was shown; nothing was done, try again"
                );
                Err(ToolError::failed(ErrorReason::StaleFile, message).with_detail("file", shown))
            }
            _ => Ok(()),
        }
    }
}

fn fingerprint(state: &FileSnapshot) -> Option<String> {
    match state {
        FileSnapshot::Absent => None,
        FileSnapshot::File { bytes, .. } => Some(sha256(bytes)),
        FileSnapshot::Symlink { target } => Some(target.display().to_string()),
    }
}
