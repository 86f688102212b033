//! Which files a session has seen, and in which state.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use zero_core::{ErrorReason, ToolError};
use zero_sandbox::journal::sha256;
use zero_sandbox::{FileFacts, FileSnapshot};

/// Files remembered per session; the longest unseen are forgotten first.
const FILES_MAX: usize = 10_000;

/// Which files a session has seen, and in which state: what a model has not seen it must not
/// overwrite.
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
    /// Known when all of it was read; then a mere touch does not make the file stale.
    sha256: Option<String>,
    /// Whether that was on disk, and not only in an editor.
    on_disk: bool,
    at: u64,
}

/// What a session knows of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFreshness {
    /// It was never seen.
    Unseen,
    /// It is as it was last seen.
    Fresh,
    /// It changed since it was last seen.
    Stale,
}

impl SeenFiles {
    /// Remembers a file as it is now. `bytes` is all of it, where all of it was seen.
    pub fn record(&self, path: &Path, facts: FileFacts, bytes: Option<&[u8]>) {
        self.insert(path, facts, bytes, true);
    }

    /// The same of a file whose bytes are in an editor and not on disk.
    pub fn record_unsaved(&self, path: &Path, facts: FileFacts, bytes: &[u8]) {
        self.insert(path, facts, Some(bytes), false);
    }

    /// Whether these bytes were on disk when the file was last seen.
    pub(crate) fn was_seen_on_disk(&self, path: &Path, bytes: &[u8]) -> bool {
        let seen = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let sight = seen.by_path.get(path).filter(|sight| sight.on_disk);
        sight.and_then(|sight| sight.sha256.as_ref()).is_some_and(|hash| *hash == sha256(bytes))
    }

    fn insert(&self, path: &Path, facts: FileFacts, bytes: Option<&[u8]>, on_disk: bool) {
        let mut seen = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clock += 1;
        let sight = SeenFile { facts, sha256: bytes.map(sha256), on_disk, at: seen.clock };
        seen.by_path.insert(path.to_owned(), sight);
        if seen.by_path.len() > FILES_MAX {
            // Dropping a tenth at once keeps the cost of this scan away from every call.
            let cutoff = seen.clock - (FILES_MAX as u64) * 9 / 10;
            seen.by_path.retain(|_, sight| sight.at > cutoff);
        }
    }

    /// Forgets a file that is gone.
    pub fn forget(&self, path: &Path) {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).by_path.remove(path);
    }

    /// How what stands at `path` now compares with what was seen.
    pub fn freshness(&self, path: &Path, now: &FileSnapshot) -> FileFreshness {
        let seen = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sight) = seen.by_path.get(path) else { return FileFreshness::Unseen };
        let FileSnapshot::File { bytes, facts, .. } = now else { return FileFreshness::Stale };
        let same = match &sight.sha256 {
            Some(hash) => *hash == sha256(bytes),
            None => sight.facts == *facts,
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
