//! What the judge is told about this machine.
//!
//! The engine is pure; this is where its questions are answered, with bounded looks at names and
//! small files. Nothing is opened that could hang, and nothing is changed.

mod git_config;
mod git_helpers;
mod glob_expansion;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use zero_policy::{FileSearchOutcome, Machine};
use zero_sandbox::{FileType, path_survey};

/// Folders and files looked at when something is sought beneath a folder.
const SEARCHED_MAX: usize = 100_000;
/// Entries of one folder that a pattern is compared with.
const FOLDER_ENTRIES_MAX: usize = 10_000;
/// Where looking for something comes to no end, or where it changes while one looks.
const UNSEARCHABLE_FOLDERS: &[&str] = &["/", "/proc", "/sys", "/dev"];

/// What a repository would run of its own, by the folder that git keeps it in.
pub(crate) fn list_git_helpers(git: &Path) -> Vec<String> {
    git_helpers::find_repository_helpers(git)
}

/// Where git keeps the repository that `folder` is; empty when it is none.
pub(crate) fn list_git_folders(folder: &Path) -> Vec<PathBuf> {
    git_helpers::find_git_folders(folder).unwrap_or_default()
}

/// The last value of a setting in a repository's own configuration.
pub(crate) fn read_git_setting(git: &Path, name: &str) -> Option<String> {
    git_helpers::read_setting(git, name)
}

/// The files that a configuration of git takes in, as far down as a bounded look reaches.
pub(crate) fn list_git_includes(config: &Path, home: Option<&Path>) -> Vec<PathBuf> {
    git_helpers::list_includes(config, home)
}

/// This machine, seen for the length of one decision: what was looked up once is not looked up
/// again.
pub struct LocalMachine<'a> {
    /// Folders in which programs are found, in order.
    search_path: &'a [PathBuf],
    programs: RefCell<HashMap<String, Option<PathBuf>>>,
    helpers: RefCell<HashMap<PathBuf, Vec<String>>>,
}

impl<'a> LocalMachine<'a> {
    /// The machine as a process with this `PATH` sees it.
    pub fn new(search_path: &'a [PathBuf]) -> Self {
        Self { search_path, programs: RefCell::default(), helpers: RefCell::default() }
    }
}

impl Machine for LocalMachine<'_> {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        path_survey::canonicalize(absolute)
    }

    fn expand_glob(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>> {
        glob_expansion::expand(pattern, most)
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        if let Some(known) = self.helpers.borrow().get(folder) {
            return known.clone();
        }
        let found = git_helpers::find_helpers(folder);
        self.helpers.borrow_mut().insert(folder.to_owned(), found.clone());
        found
    }

    fn find_program(&self, name: &str, folder: &Path) -> Option<PathBuf> {
        if name.is_empty() {
            return None;
        }
        if name.contains('/') {
            let path = folder.join(name);
            return path_survey::is_program(&path)
                .then(|| path_survey::canonicalize(&path))
                .flatten();
        }
        if let Some(known) = self.programs.borrow().get(name) {
            return known.clone();
        }
        let found = self.search_path.iter().map(|folder| folder.join(name));
        let found = found
            .filter(|path| path_survey::is_program(path))
            .find_map(|path| path_survey::canonicalize(&path));
        self.programs.borrow_mut().insert(name.to_owned(), found.clone());
        found
    }

    fn find_file(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        match UNSEARCHABLE_FOLDERS.iter().any(|endless| folder == Path::new(endless)) {
            true => FileSearchOutcome::Unfinished,
            false => search_folder(folder, SEARCHED_MAX, wanted),
        }
    }
}

/// Looks for a file beneath a folder, at no more than `most` names.
fn search_folder(folder: &Path, most: usize, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
    let mut open = vec![folder.to_owned()];
    let mut left = most;
    while let Some(folder) = open.pop() {
        let Some(names) = path_survey::list_sorted(&folder, left) else {
            match path_survey::file_type(&folder) {
                // It has more names than are left to look at, or cannot be listed.
                Some(FileType::Directory) => return FileSearchOutcome::Unfinished,
                // A file has nothing beneath it, and what is gone neither.
                _ => continue,
            }
        };
        left -= names.len();
        for seen in names {
            // Some programs follow a link, and then read what it leads to.
            let leads_to = seen.is_link.then(|| path_survey::canonicalize(&seen.path)).flatten();
            if wanted(&seen.path) || leads_to.is_some_and(|path| wanted(&path)) {
                return FileSearchOutcome::Found(seen.path);
            }
            if seen.is_folder {
                open.push(seen.path);
            }
        }
    }
    FileSearchOutcome::NotFound
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn find(folder: &Path, name: &str) -> FileSearchOutcome {
        LocalMachine::new(&[]).find_file(folder, &|path| path.ends_with(name))
    }

    #[test]
    fn find_reports_found_nowhere_or_gave_up() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/deep")).unwrap();
        fs::create_dir_all(root.join("b")).unwrap();
        fs::write(root.join("a/deep/.env"), "").unwrap();
        symlink(root.join("a/deep/.env"), root.join("b/harmless")).unwrap();
        assert_eq!(find(&root, ".env"), FileSearchOutcome::Found(root.join("b/harmless")));
        assert_eq!(
            find(&root.join("a"), ".env"),
            FileSearchOutcome::Found(root.join("a/deep/.env"))
        );
        assert_eq!(find(&root.join("b"), "other"), FileSearchOutcome::NotFound);
        // A file has nothing beneath it, and neither has what is not there.
        assert_eq!(find(&root.join("a/deep/.env"), ".env"), FileSearchOutcome::NotFound);
        assert_eq!(find(&root.join("none"), ".env"), FileSearchOutcome::NotFound);
        for endless in ["/", "/proc", "/sys", "/dev"] {
            assert_eq!(
                find(Path::new(endless), ".env"),
                FileSearchOutcome::Unfinished,
                "{endless}"
            );
        }
    }

    #[test]
    fn search_beyond_limit_gives_up() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for name in ["a", "b", "c/d", "c/e"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let none = |_: &Path| false;
        assert_eq!(search_folder(&root, 5, &none), FileSearchOutcome::NotFound);
        for most in 0..5 {
            assert_eq!(search_folder(&root, most, &none), FileSearchOutcome::Unfinished, "{most}");
        }
    }
}
