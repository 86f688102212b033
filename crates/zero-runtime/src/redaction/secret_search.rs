//! Finds the secret files of a workspace by their names.
//!
//! Near folders come first. A folder that did not change since the last search is not listed again, so
//! a search that ran out of time gets further the next time.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use zero_policy::SecretFileSet;
use zero_sandbox::path_survey::{self, ChangeStamp, ScanOutcome};

/// Longest time of one search.
const SEARCH_TIME_MAX: Duration = Duration::from_millis(250);
/// Most folders of a workspace.
const FOLDERS_MAX: usize = 20_000;
/// Most entries of a folder.
const ENTRIES_MAX: usize = 100_000;
/// The folder of a repository.
const GIT: &str = ".git";
/// Folders with files of others, or that are recreated at each build.
const SKIPPED_FOLDERS: &[&str] = &[
    ".cache",
    GIT,
    ".hg",
    ".jj",
    ".svn",
    ".tox",
    ".venv",
    "__pycache__",
    "node_modules",
    "target",
    "venv",
];

/// What is known about the folders of a workspace.
#[derive(Default)]
pub(super) struct SecretSearch {
    folders: HashMap<PathBuf, SearchedFolder>,
}

/// The names in a folder that a search needs.
struct SearchedFolder {
    /// `None` if not all names are known.
    stamp: Option<ChangeStamp>,
    folders: Vec<OsString>,
    secret_files: Vec<OsString>,
    /// Whether a repository is checked out here.
    has_git: bool,
}

/// What a search found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FoundFiles {
    pub(super) paths: Vec<PathBuf>,
    /// The `.git` of each repository: a folder, or a file that names one.
    pub(super) git_paths: Vec<PathBuf>,
    /// Bounds that were reached.
    pub(super) bounds: Vec<String>,
    /// Whether there was no time for all folders.
    pub(super) is_late: bool,
}

impl SecretSearch {
    /// Finds the files of a set in these folders and below: blocks.
    pub(super) fn find_files(&mut self, roots: &[PathBuf], set: &SecretFileSet) -> FoundFiles {
        self.find_files_until(roots, set, Instant::now() + SEARCH_TIME_MAX)
    }

    fn find_files_until(
        &mut self,
        roots: &[PathBuf],
        set: &SecretFileSet,
        deadline: Instant,
    ) -> FoundFiles {
        let mut found = FoundFiles::default();
        let mut earlier = std::mem::take(&mut self.folders);
        let mut open: VecDeque<PathBuf> = roots.iter().cloned().collect();
        while let Some(folder) = open.pop_front() {
            if self.folders.len() >= FOLDERS_MAX {
                found.bounds.push(format!("only {FOLDERS_MAX} folders are searched"));
                break;
            }
            if Instant::now() > deadline {
                found.is_late = true;
                let count = self.folders.len();
                found.bounds.push(format!(
                    "only {count} folders were searched so far; the next call goes on"
                ));
                // What is known beyond is used the next time.
                self.folders.extend(earlier);
                break;
            }
            let stamp = path_survey::read_stamp(&folder);
            let is_same = |names: &SearchedFolder| {
                names.stamp == stamp && stamp.is_some_and(|stamp| stamp.is_stable())
            };
            let names = match earlier.remove(&folder).filter(is_same) {
                Some(names) => names,
                None => SearchedFolder::read(&folder, set),
            };
            if names.stamp.is_none() && stamp.is_some() {
                found.bounds.push(format!("not all of `{}` could be searched", folder.display()));
            }
            found.paths.extend(names.secret_files.iter().map(|name| folder.join(name)));
            if names.has_git {
                found.git_paths.push(folder.join(GIT));
            }
            open.extend(names.folders.iter().map(|name| folder.join(name)));
            self.folders.insert(folder, names);
        }
        found
    }
}

impl SearchedFolder {
    fn read(folder: &Path, set: &SecretFileSet) -> Self {
        let mut names =
            Self { stamp: None, folders: Vec::new(), secret_files: Vec::new(), has_git: false };
        let scanned = path_survey::scan_folder(folder, ENTRIES_MAX, |name, is_folder| {
            names.has_git |= name == GIT;
            if !is_folder {
                if set.contains_entry(folder, name) {
                    names.secret_files.push(name.to_owned());
                }
            } else if !SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped) {
                names.folders.push(name.to_owned());
            }
        });
        match scanned {
            ScanOutcome::Whole(stamp) => names.stamp = Some(stamp),
            ScanOutcome::Nothing => names.stamp = path_survey::read_stamp(folder),
            ScanOutcome::Part => {}
        }
        names
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    fn write(root: &Path, name: &str) -> PathBuf {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        path
    }

    #[test]
    fn files_of_changed_folders_are_found() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let first = write(&root, "a/b/c/d/e/f/.env");
        write(&root, "node_modules/x/.env");
        write(&root, "a/plain");
        let (set, mut search) = (SecretFileSet::standard(), SecretSearch::default());
        let roots = [root.clone()];
        let found = search.find_files(&roots, &set);
        assert_eq!(found, FoundFiles { paths: vec![first.clone()], ..FoundFiles::default() });
        write(&root, "a/.git/config");
        assert_eq!(search.find_files(&roots, &set).git_paths, [root.join("a/.git")]);
        let second = write(&root, "a/b/key.pem");
        assert_eq!(search.find_files(&roots, &set).paths, [second.clone(), first.clone()]);
        std::fs::remove_file(&first).unwrap();
        assert_eq!(search.find_files(&roots, &set).paths, [second]);
    }

    #[test]
    fn search_without_time_is_late_and_keeps_what_it_knows() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        write(&root, "a/.env");
        let (set, mut search) = (SecretFileSet::standard(), SecretSearch::default());
        let roots = [root];
        search.find_files(&roots, &set);
        let known = search.folders.len();
        let past = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let found = search.find_files_until(&roots, &set, past);
        assert!(found.is_late && found.bounds.len() == 1, "{found:?}");
        assert_eq!(search.folders.len(), known);
    }
}
