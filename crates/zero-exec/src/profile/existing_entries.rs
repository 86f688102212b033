//! Which of many paths in a folder exist, with a few listings instead of a look at each.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::{self, FolderListing};

/// Most names of a folder that are listed. In a larger one each path is looked at.
const NAMES_MAX: usize = 4_096;

/// The names in folders, as far as they were asked for.
#[derive(Default)]
pub(super) struct ExistingEntries {
    /// `None` if the names are not known.
    folders: HashMap<PathBuf, Option<HashSet<OsString>>>,
}

impl ExistingEntries {
    /// Whether there may be something at `path`, which is in `folder`.
    pub(super) fn may_exist(&mut self, folder: &Path, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(folder) else { return true };
        let mut at = folder.to_owned();
        for part in below.components() {
            let names = self.folders.entry(at.clone()).or_insert_with(|| list_names(&at));
            let Some(names) = names else { return true };
            if !names.contains(part.as_os_str()) {
                return false;
            }
            at.push(part);
        }
        true
    }
}

fn list_names(folder: &Path) -> Option<HashSet<OsString>> {
    match path_survey::list_folder(folder, NAMES_MAX) {
        FolderListing::Names(names) => Some(names.into_iter().map(|entry| entry.name).collect()),
        FolderListing::NoFolder => Some(HashSet::new()),
        FolderListing::TooMany | FolderListing::Closed => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn listing_tells_what_exists() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path();
        std::fs::create_dir_all(home.join(".config/git")).unwrap();
        std::fs::write(home.join(".netrc"), "").unwrap();
        let mut entries = ExistingEntries::default();
        for (name, expected) in [
            (".config/git", true),
            (".config/gh", false),
            (".netrc", true),
            (".netrc/x", false),
            (".cargo/bin", false),
        ] {
            assert_eq!(entries.may_exist(home, &home.join(name)), expected, "{name}");
        }
        assert!(entries.may_exist(&home.join("none"), Path::new("/elsewhere")));
    }
}
