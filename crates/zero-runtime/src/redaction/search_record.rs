//! What the last search of a workspace for secret files found, for processes that start soon after it.
//!
//! A search lists every folder. A host repeats it after some time and after calls that may change
//! files; commands such as `zero tools call` start a process for each call, and would search for each.
//! The record is an optimization: one that is missing, damaged or old means a search.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zero_policy::SecretFileSet;
use zero_sandbox::StateDir;

use super::secret_search::FoundFiles;
use super::workspace_key::{STATE_FOLDER, workspace_key};
use crate::clock::now_ms;

/// Largest record. A search that found more is not recorded.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// The record of one workspace.
pub(super) struct SearchRecord {
    folder: StateDir,
    name: String,
    /// Which folders were searched for which files, by which version of zero.
    fingerprint: u64,
}

#[derive(Serialize, Deserialize)]
struct RecordContent {
    fingerprint: u64,
    /// Milliseconds since 1970.
    searched: i64,
    paths: Vec<PathBuf>,
    git_paths: Vec<PathBuf>,
    bounds: Vec<String>,
}

impl SearchRecord {
    /// The record of a search of these folders. Nothing is read or created yet.
    pub(super) fn new(state: &StateDir, roots: &[PathBuf], files: &SecretFileSet) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        (env!("CARGO_PKG_VERSION"), roots, files).hash(&mut hasher);
        let key = workspace_key(roots.first()?);
        Some(Self {
            folder: state.child(STATE_FOLDER),
            name: format!("{key}.search"),
            fingerprint: hasher.finish(),
        })
    }

    /// What was found at most `age_max` ago, and how long ago.
    pub(super) fn read(&self, age_max: Duration) -> Option<(FoundFiles, Duration)> {
        let mut bytes = Vec::new();
        let file = self.folder.open(&self.name).ok()?;
        file.take(RECORD_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
        let content: RecordContent = serde_json::from_slice(&bytes).ok()?;
        // A time in the future is that of a clock which was set back since.
        let age = Duration::from_millis(now_ms().checked_sub(content.searched)?.try_into().ok()?);
        let is_valid = content.fingerprint == self.fingerprint && age <= age_max;
        let found = FoundFiles {
            paths: content.paths,
            git_paths: content.git_paths,
            bounds: content.bounds,
            is_late: false,
        };
        is_valid.then_some((found, age))
    }

    /// Records a search that ended now.
    pub(super) fn write(&self, found: &FoundFiles) {
        let content = RecordContent {
            fingerprint: self.fingerprint,
            searched: now_ms(),
            paths: found.paths.clone(),
            git_paths: found.git_paths.clone(),
            bounds: found.bounds.clone(),
        };
        // Paths that are no Unicode cannot be written, and a search finds them again.
        let Ok(bytes) = serde_json::to_vec(&content) else { return };
        if bytes.len() > RECORD_BYTES_MAX {
            return;
        }
        // Not flushed to the disk: a power cut leaves no record or an old one.
        let temporary = format!("{}.{}.new", self.name, std::process::id());
        let written =
            self.folder.create_new(&temporary).and_then(|mut file| file.write_all(&bytes));
        let written = written.and_then(|()| self.folder.rename(&temporary, &self.name));
        if let Err(error) = written {
            tracing::debug!(%error, "cannot record a search for secret files");
            let _ = self.folder.remove(&temporary);
        }
    }

    /// Has the next process search: files may change now.
    pub(super) fn remove(&self) {
        if let Err(error) = self.folder.remove(&self.name) {
            tracing::warn!(%error, "cannot remove the record of a search for secret files");
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    const AGE_MAX: Duration = Duration::from_secs(3_600);

    #[test]
    fn record_is_used_for_same_search_only() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let roots = [PathBuf::from("/w")];
        let open = |roots: &[PathBuf], files| SearchRecord::new(&state, roots, files).unwrap();
        let standard = SecretFileSet::standard();
        let record = open(&roots, &standard);
        assert!(record.read(AGE_MAX).is_none(), "there is none");
        let paths = vec![PathBuf::from("/w/.env")];
        let found = FoundFiles { paths, ..FoundFiles::default() };
        record.write(&found);
        assert_eq!(open(&roots, &standard).read(AGE_MAX).unwrap().0, found);
        let mut more = SecretFileSet::standard();
        more.add("*.own");
        assert!(open(&roots, &more).read(AGE_MAX).is_none());
        let wider = [PathBuf::from("/w"), PathBuf::from("/x")];
        assert!(open(&wider, &standard).read(AGE_MAX).is_none());
        record.remove();
        assert!(record.read(AGE_MAX).is_none());
    }

    #[test]
    fn old_damaged_or_future_record_is_not_used() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path());
        let files = SecretFileSet::standard();
        let record = SearchRecord::new(&state, &[PathBuf::from("/w")], &files).unwrap();
        let path = record.folder.path().join(&record.name);
        record.write(&FoundFiles::default());
        let text = std::fs::read_to_string(&path).unwrap();
        let content: RecordContent = serde_json::from_str(&text).unwrap();
        let put = |searched: i64| {
            let old = format!("\"searched\":{}", content.searched);
            let text = text.replace(&old, &format!("\"searched\":{searched}"));
            std::fs::write(&path, text).unwrap();
            record.read(AGE_MAX).is_some()
        };
        assert!(put(now_ms()));
        assert!(!put(now_ms() - 2 * 3_600_000), "old");
        assert!(!put(now_ms() + 3_600_000), "in the future");
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert!(record.read(AGE_MAX).is_none(), "damaged");
    }
}
