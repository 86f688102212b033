//! Proves that zero wrote a note on this machine and that it is unchanged.
//!
//! A seal is a digest of the note, its path and a secret of this machine. No other program can create a valid
//! one for a note that was changed, copied from elsewhere or written by hand.

use std::path::Path;

use zero_sandbox::StateDir;
use zero_sandbox::journal::sha256;

/// The file with the secret, in the state folder.
const SECRET: &str = "notes.key";

/// Seals the notes of one folder.
pub(super) struct NoteSeal {
    secret: [u8; 32],
    place: String,
}

impl NoteSeal {
    /// The seal for notes in a folder; `None` if no note was ever sealed.
    pub(super) fn load(state: &StateDir, folder: &Path) -> Option<Self> {
        Some(Self::from_secret(state.read_secret(SECRET).ok()??, folder))
    }

    /// The seal for notes in a folder; creates the secret if necessary.
    pub(super) fn load_or_create(state: &StateDir, folder: &Path) -> std::io::Result<Self> {
        Ok(Self::from_secret(state.read_or_create_secret(SECRET)?, folder))
    }

    fn from_secret(secret: [u8; 32], folder: &Path) -> Self {
        Self { secret, place: folder.display().to_string() }
    }

    /// The seal of a note with these parts. Each part is length-prefixed, so that parts cannot be
    /// merged; the secret is hashed at both ends, so that nothing can be appended.
    pub(super) fn compute(&self, parts: &[String]) -> String {
        let mut bytes = self.secret.to_vec();
        for part in [&self.place].into_iter().chain(parts) {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        let inner = sha256(&bytes);
        sha256(&[&self.secret[..], inner.as_bytes()].concat())
    }
}
