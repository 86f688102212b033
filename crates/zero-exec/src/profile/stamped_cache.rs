//! What was read from files and folders, valid as long as their stamps.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::ChangeStamp;

/// Values by path, at most `MAX`.
#[derive(Debug)]
pub(super) struct StampedCache<T, const MAX: usize> {
    entries: HashMap<PathBuf, (ChangeStamp, T)>,
}

impl<T, const MAX: usize> Default for StampedCache<T, MAX> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<T: Clone, const MAX: usize> StampedCache<T, MAX> {
    /// The value of a path that has this stamp now.
    pub(super) fn get(&self, path: &Path, stamp: ChangeStamp) -> Option<T> {
        self.entries.get(path).filter(|(known, _)| *known == stamp).map(|(_, value)| value.clone())
    }

    /// Stores what was read when the path had this stamp, unless a later change might not show.
    pub(super) fn insert(&mut self, path: &Path, stamp: ChangeStamp, value: T) {
        if !stamp.is_stable() {
            return;
        }
        if self.entries.len() >= MAX {
            self.entries.clear();
        }
        self.entries.insert(path.to_owned(), (stamp, value));
    }
}
