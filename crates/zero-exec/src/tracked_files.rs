//! Files that git tracks, as the index of their repository says.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::{self, ChangeStamp};

use crate::git_facts::{self, RepositoryLocation};

/// Finds the files that git tracks. An index that did not change is not read again.
#[derive(Debug, Default)]
pub struct TrackedFileFinder {
    indexes: HashMap<PathBuf, IndexLookup>,
}

/// What an index says about some files of its working folder.
#[derive(Debug)]
struct IndexLookup {
    stamp: Option<ChangeStamp>,
    paths: BTreeSet<PathBuf>,
    tracked: BTreeSet<PathBuf>,
}

impl TrackedFileFinder {
    /// Removes the files that git tracks and whose changes it shows. The paths must be canonical. Where
    /// an index cannot be read, no file counts as tracked.
    pub fn remove_tracked(&mut self, files: &mut Vec<PathBuf>) {
        let mut by_folder: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
        for file in files.iter() {
            let Some(work) = find_working_folder(file) else { continue };
            let Ok(below) = file.strip_prefix(&work) else { continue };
            by_folder.entry(work.clone()).or_default().insert(below.to_owned());
        }
        // The facts about repositories without such files are not needed again.
        self.indexes.retain(|work, _| by_folder.contains_key(work));
        let mut tracked = BTreeSet::new();
        for (work, wanted) in by_folder {
            let found = self.find_tracked(&work, wanted);
            tracked.extend(found.iter().map(|below| work.join(below)));
        }
        files.retain(|file| !tracked.contains(file));
    }

    fn find_tracked(&mut self, work: &Path, paths: BTreeSet<PathBuf>) -> &BTreeSet<PathBuf> {
        let git =
            RepositoryLocation::find(work).and_then(|found| found.git_folders.into_iter().next());
        // Before it is read: a change in between shows the next time.
        let stamp = git.as_ref().and_then(|git| path_survey::read_target_stamp(&git.join("index")));
        let is_current = |known: &IndexLookup| {
            known.stamp == stamp
                && known.paths == paths
                && stamp.is_some_and(|stamp| stamp.is_stable())
        };
        if !self.indexes.get(work).is_some_and(is_current) {
            let tracked = git.map(|git| read_tracked(&git, &paths)).unwrap_or_default();
            self.indexes.insert(work.to_owned(), IndexLookup { stamp, paths, tracked });
        }
        const NONE: &BTreeSet<PathBuf> = &BTreeSet::new();
        self.indexes.get(work).map_or(NONE, |known| &known.tracked)
    }
}

/// The nearest folder above a file in which a repository is checked out.
fn find_working_folder(file: &Path) -> Option<PathBuf> {
    let mut above = file.ancestors().skip(1);
    above.find(|folder| path_survey::exists(&folder.join(".git"))).map(Path::to_owned)
}

/// Which of these files an index lists. One whose changes git ignores may have any content.
fn read_tracked(git: &Path, paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let Some(index) = git_facts::read_git_index(git, &|path| paths.contains(path)) else {
        return BTreeSet::new();
    };
    let ignored = [&index.assumed_unchanged, &index.skipped];
    if ignored.iter().any(|files| !files.is_complete()) {
        return BTreeSet::new();
    }
    let listed = index.settings.into_iter().map(|file| file.path);
    listed.filter(|path| ignored.iter().all(|files| !files.paths.contains(path))).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "the test runs git itself")]
    use super::*;

    fn run_git(folder: &Path, args: &[&str]) {
        let status = std::process::Command::new("git").current_dir(folder).args(args).status();
        assert!(status.unwrap().success(), "{args:?}");
    }

    #[test]
    fn files_whose_changes_git_shows_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for name in [".env", ".npmrc", "app/key.pem", "app/.env.local", "other/.env"] {
            std::fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            std::fs::write(root.join(name), name).unwrap();
        }
        run_git(&root, &["init", "-q"]);
        run_git(&root.join("other"), &["init", "-q"]);
        let left = |finder: &mut TrackedFileFinder| {
            let names = [".env", ".npmrc", "app/key.pem", "app/.env.local", "other/.env"];
            let mut files: Vec<PathBuf> = names.iter().map(|name| root.join(name)).collect();
            finder.remove_tracked(&mut files);
            let below = |file: &PathBuf| file.strip_prefix(&root).unwrap().display().to_string();
            files.iter().map(below).collect::<Vec<String>>()
        };
        let mut finder = TrackedFileFinder::default();
        assert_eq!(left(&mut finder).len(), 5);
        run_git(&root, &["add", ".npmrc", "app"]);
        assert_eq!(left(&mut finder), [".env", "other/.env"]);
        run_git(&root, &["update-index", "--skip-worktree", ".npmrc"]);
        run_git(&root, &["update-index", "--assume-unchanged", "app/key.pem"]);
        assert_eq!(left(&mut finder), [".env", ".npmrc", "app/key.pem", "other/.env"]);
        std::fs::write(root.join(".git/index"), "no index").unwrap();
        assert_eq!(left(&mut finder).len(), 5);
    }
}
