//! Ensures that a change applies to the state of the file that the user approved.

use std::sync::OnceLock;

use zero_core::{ErrorReason, ToolError};
use zero_sandbox::FileSnapshot;
use zero_sandbox::journal::sha256;

/// The state of a file that was shown to the user for approval. A file that changed since then is
/// not touched.
#[derive(Debug, Default)]
pub struct PreviewFingerprint {
    shown: OnceLock<Option<String>>,
}

impl PreviewFingerprint {
    /// Records the state that was shown.
    pub fn record(&self, state: &FileSnapshot) {
        // Only the first preview counts; there is one question per call.
        let _ = self.shown.set(fingerprint(state));
    }

    /// Fails if the file differs from what was shown. Succeeds if nothing was shown.
    pub fn check_unchanged(&self, now: &FileSnapshot, shown: &str) -> Result<(), ToolError> {
        match self.shown.get() {
            Some(seen) if *seen != fingerprint(now) => {
                let message = format!(
                    "`{shown}` changed after the edit was shown for approval; nothing was done, try again"
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
