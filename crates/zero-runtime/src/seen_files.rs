//! The files that a session has seen, and in which state.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use zero_core::{ErrorReason, ToolError};
use zero_sandbox::journal::sha256;
use zero_sandbox::{FileFacts, FileSnapshot};

/// Most files per session; the least recently seen are dropped first.
const FILES_MAX: usize = 10_000;

/// The files that a session has seen, and in which state: a model must not overwrite a file that it
/// has not seen.
#[derive(Debug, Default)]
pub struct SeenFiles {
    files: Mutex<SeenFileTable>,
}

#[derive(Debug, Default)]
struct SeenFileTable {
    clock: u64,
    by_path: HashMap<PathBuf, SeenFile>,
}

#[derive(Clone, Debug)]
struct SeenFile {
    facts: FileFacts,
    /// Known if the whole file was read; then a changed modification time alone does not make it
    /// stale.
    sha256: Option<String>,
    /// Whether the content was on disk, and not only in an editor.
    on_disk: bool,
    at: u64,
}

/// What a session knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFreshness {
    /// It was never seen.
    Unseen,
    /// It is unchanged since it was last seen.
    Fresh,
    /// It changed since it was last seen.
    Stale,
}

impl SeenFiles {
    /// Records the current state of a file. `bytes` is its whole content, if all of it was seen.
    pub fn record(&self, path: &Path, facts: FileFacts, bytes: Option<&[u8]>) {
        self.insert(path, facts, bytes, true);
    }

    /// Records a file whose content is in an editor and not on disk.
    pub fn record_unsaved(&self, path: &Path, facts: FileFacts, bytes: &[u8]) {
        self.insert(path, facts, Some(bytes), false);
    }

    /// Whether these bytes were on disk when the file was last seen.
    pub(crate) fn was_seen_on_disk(&self, path: &Path, bytes: &[u8]) -> bool {
        let seen = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let seen_file = seen.by_path.get(path).filter(|sight| sight.on_disk);
        seen_file.and_then(|sight| sight.sha256.as_ref()).is_some_and(|hash| *hash == sha256(bytes))
    }

    fn insert(&self, path: &Path, facts: FileFacts, bytes: Option<&[u8]>, on_disk: bool) {
        let mut seen = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clock += 1;
        let seen_file = SeenFile { facts, sha256: bytes.map(sha256), on_disk, at: seen.clock };
        seen.by_path.insert(path.to_owned(), seen_file);
        if seen.by_path.len() > FILES_MAX {
            // Removing a tenth at once keeps the cost of this scan off most calls.
            let cutoff = seen.clock - (FILES_MAX as u64) * 9 / 10;
            seen.by_path.retain(|_, sight| sight.at > cutoff);
        }
    }

    /// Removes a file that no longer exists.
    pub fn forget(&self, path: &Path) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).by_path.remove(path);
    }

    /// Compares the current state of `path` with the recorded one.
    pub fn freshness(&self, path: &Path, now: &FileSnapshot) -> FileFreshness {
        let seen = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(seen_file) = seen.by_path.get(path) else { return FileFreshness::Unseen };
        let FileSnapshot::File { bytes, facts, .. } = now else { return FileFreshness::Stale };
        let same = match &seen_file.sha256 {
            Some(hash) => *hash == sha256(bytes),
            None => seen_file.facts == *facts,
        };
        if same { FileFreshness::Fresh } else { FileFreshness::Stale }
    }
}

/// The error for a file that must be read first.
pub fn stale_file_error(shown: &str, freshness: FileFreshness) -> ToolError {
    let message = match freshness {
        FileFreshness::Unseen => format!(
            "`{shown}` exists but was not read in this session; read it before you change it"
        ),
        FileFreshness::Fresh | FileFreshness::Stale => {
            format!("`{shown}` changed since it was last read; read it again before you change it")
        }
    };
    ToolError::invalid(ErrorReason::StaleFile, message).with_detail("file", shown)
}
