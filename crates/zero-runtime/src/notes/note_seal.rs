//! What shows that zero wrote a note here, and that it is as it was.
//!
//! A digest of the note, its place and a secret of this machine's own. Whoever changes the note, brings
//! it from elsewhere or writes one of their own cannot make it.

use std::path::Path;

use zero_sandbox::StateDir;
use zero_sandbox::journal::sha256;

/// The secret, among what is zero's own.
const SECRET: &str = "notes.key";

/// Seals the notes of one folder.
pub(super) struct NoteSeal {
    secret: [u8; 32],
    place: String,
}

impl NoteSeal {
    /// For notes in a folder; `None` where none was ever sealed.
    pub(super) fn load(state: &StateDir, folder: &Path) -> Option<Self> {
        Some(Self::from_secret(state.read_secret(SECRET).ok()??, folder))
    }

    /// For notes that are to be sealed.
    pub(super) fn load_or_create(state: &StateDir, folder: &Path) -> std::io::Result<Self> {
        Ok(Self::from_secret(state.read_or_create_secret(SECRET)?, folder))
    }

    fn from_secret(secret: [u8; 32], folder: &Path) -> Self {
        Self { secret, place: folder.display().to_string() }
    }

    /// The seal of a note with these parts. Each is counted, so that none can pass for two; and the
    /// secret goes in twice, so that nobody can add to what was sealed.
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
