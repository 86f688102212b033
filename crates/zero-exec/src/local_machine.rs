//! The facts about this machine that policy needs.
//!
//! The policy engine is pure; this module answers its questions with bounded lookups of names and
//! small files. It opens nothing that could block and changes nothing.

mod git_config;
mod git_helpers;
mod git_index;
mod git_location;
mod git_refs;
mod glob_expansion;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use zero_policy::{FileSearchOutcome, FolderMember, Machine};
use zero_sandbox::{FileType, path_survey};

/// Most files and folders visited by all searches of one decision.
const SEARCHED_MAX: usize = 100_000;
/// Longest time that the lookups of one decision take. What is not found by then is not known, so
/// that the decision is a question.
const LOOKUP_TIME_MAX: Duration = Duration::from_millis(200);
/// Names that are compared between two looks at the clock.
const NAMES_PER_LOOK: usize = 256;
/// Stands for what git would run if there was no time to look.
const NOT_LOOKED_UP: &str = "(the repository was not checked in time)";
/// Most entries of one folder that a pattern is compared with.
const FOLDER_ENTRIES_MAX: usize = 10_000;
/// Folders that are not searched: the search would not end, or their contents change meanwhile.
const UNSEARCHABLE_FOLDERS: &[&str] = &["/", "/proc", "/sys", "/dev"];

pub(crate) use self::git_helpers::HelperValue;
pub(crate) use self::git_index::{IndexSummary, StagedFile};
pub(crate) use self::git_location::{
    PointerTarget, RepositoryLocation, may_be_git_folder, read_pointer,
};
pub(crate) use self::git_refs::GitRefs;

/// The programs that a repository's configuration and hooks run, by its git folder.
pub(crate) fn list_git_helpers(git: &Path) -> Vec<String> {
    git_helpers::find_repository_helpers(git)
}

/// The programs that a file with settings of git runs; the file itself if it cannot be read.
pub(crate) fn list_git_config_helpers(config: &Path) -> Vec<String> {
    git_helpers::find_config_helpers(config)
}

/// The values of the settings in a file that make git run something.
pub(crate) fn read_git_helper_values(config: &Path) -> Vec<HelperValue> {
    git_helpers::read_helper_values(config)
}

/// The values of a setting in a file with settings of git.
pub(crate) fn read_git_values(config: &Path, name: &str) -> Vec<String> {
    git_helpers::read_values(config, name)
}

/// The last value of a setting in a text with settings of git; `None` if the text is malformed.
pub(crate) fn read_git_text(content: &[u8], name: &str) -> Option<Option<String>> {
    let settings = git_config::parse_settings(&String::from_utf8_lossy(content))?;
    Some(settings.into_iter().rev().find(|setting| setting.name == name).map(|found| found.value))
}

/// The files that a git configuration includes; `None` if there are too many, or one cannot be read.
pub(crate) fn list_git_includes(config: &Path, home: Option<&Path>) -> Option<Vec<PathBuf>> {
    git_helpers::list_includes(config, home)
}

/// What matters in the index of a git folder; `None` if the index cannot be read. `is_setting` tells
/// which files count as settings.
pub(crate) fn read_git_index(git: &Path, is_setting: fn(&Path) -> bool) -> Option<IndexSummary> {
    git_index::read_index(git, is_setting)
}

/// This machine, for the duration of one decision: lookups are cached.
pub struct LocalMachine<'a> {
    /// Folders in which programs are searched, in order.
    search_path: &'a [PathBuf],
    programs: RefCell<HashMap<String, Option<PathBuf>>>,
    helpers: RefCell<HashMap<PathBuf, Vec<String>>>,
    budget: LookupBudget,
}

/// What all lookups of one decision may use.
struct LookupBudget {
    /// Names that may still be visited.
    names: Cell<usize>,
    deadline: Instant,
}

impl LookupBudget {
    fn new(names: usize, time: Duration) -> Self {
        Self { names: Cell::new(names), deadline: Instant::now() + time }
    }

    fn is_spent(&self) -> bool {
        self.names.get() == 0 || Instant::now() >= self.deadline
    }
}

impl<'a> LocalMachine<'a> {
    /// The machine as seen by a process with this `PATH`.
    pub fn new(search_path: &'a [PathBuf]) -> Self {
        Self {
            search_path,
            programs: RefCell::default(),
            helpers: RefCell::default(),
            budget: LookupBudget::new(SEARCHED_MAX, LOOKUP_TIME_MAX),
        }
    }
}

impl Machine for LocalMachine<'_> {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        path_survey::canonicalize(absolute).or_else(|| canonicalize_below_file(absolute))
    }

    fn expand_glob(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>> {
        if self.budget.is_spent() {
            return None;
        }
        glob_expansion::expand(pattern, most)
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        if let Some(known) = self.helpers.borrow().get(folder) {
            return known.clone();
        }
        let found = match self.budget.is_spent() {
            true => vec![NOT_LOOKED_UP.to_owned()],
            false => git_helpers::find_helpers(folder),
        };
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

    fn find_file(&self, folder: &Path, matches: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        match UNSEARCHABLE_FOLDERS.iter().any(|endless| folder == Path::new(endless)) {
            true => FileSearchOutcome::Unfinished,
            false => search_folder(folder, &self.budget, matches),
        }
    }

    fn list_folder(&self, folder: &Path, most: usize) -> Option<Vec<FolderMember>> {
        if self.budget.is_spent() {
            return None;
        }
        match path_survey::list_sorted(folder, most.min(self.budget.names.get())) {
            Some(entries) => {
                self.budget.names.set(self.budget.names.get().saturating_sub(entries.len()));
                let entry = |seen: path_survey::ScanEntry| FolderMember {
                    path: seen.path,
                    is_folder: seen.is_folder,
                    is_link: seen.is_link,
                };
                Some(entries.into_iter().map(entry).collect())
            }
            None if path_survey::file_type(folder) == Some(FileType::Directory) => None,
            None => Some(Vec::new()),
        }
    }
}

/// Searches for a file beneath a folder, within the budget.
fn search_folder(
    folder: &Path,
    budget: &LookupBudget,
    matches: &dyn Fn(&Path) -> bool,
) -> FileSearchOutcome {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let Some(names) = path_survey::list_sorted(&folder, budget.names.get()) else {
            match path_survey::file_type(&folder) {
                // It has more entries than may be visited, or cannot be listed.
                Some(FileType::Directory) => return FileSearchOutcome::Unfinished,
                // A file or a missing path has no entries.
                _ => continue,
            }
        };
        budget.names.set(budget.names.get().saturating_sub(names.len()));
        for (at, seen) in names.into_iter().enumerate() {
            if at % NAMES_PER_LOOK == 0 && Instant::now() >= budget.deadline {
                return FileSearchOutcome::Unfinished;
            }
            // Some programs follow links and read the target.
            let leads_to = seen.is_link.then(|| path_survey::canonicalize(&seen.path)).flatten();
            if matches(&seen.path) || leads_to.is_some_and(|path| matches(&path)) {
                return FileSearchOutcome::Found(seen.path);
            }
            if seen.is_folder {
                open.push(seen.path);
            }
        }
    }
    FileSearchOutcome::NotFound
}

/// The canonical path of what would be beneath a file. Nothing can be there, so its place is as
/// certain as that of a path that does not exist; programs such as `diff` try it.
fn canonicalize_below_file(absolute: &Path) -> Option<PathBuf> {
    let mut above = absolute.ancestors().skip(1);
    let file = above.find(|path| path_survey::file_type(path).is_some())?;
    if path_survey::file_type(file) != Some(FileType::File) {
        return None;
    }
    let rest = absolute.strip_prefix(file).ok()?;
    let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then(|| path_survey::canonicalize(file).map(|file| file.join(rest)))?
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
        // A file or a missing path has no entries.
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
    fn path_below_file_has_its_place() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::write(root.join("a"), "").unwrap();
        fs::create_dir(root.join("d")).unwrap();
        symlink("a", root.join("link")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let machine = LocalMachine::new(&[]);
        let canonicalize = |path: &str| machine.canonicalize(&root.join(path));
        assert_eq!(canonicalize("a/b"), Some(root.join("a/b")));
        assert_eq!(canonicalize("link/b/c"), Some(root.join("a/b/c")));
        assert_eq!(canonicalize("d/b"), Some(root.join("d/b")));
        assert_eq!(canonicalize("loop/b"), None);
        assert_eq!(canonicalize("a/../b/../../x"), None);
    }

    #[test]
    fn listing_tells_links_from_folders() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("b"), "").unwrap();
        symlink("a", root.join("c")).unwrap();
        let machine = LocalMachine::new(&[]);
        let member = |name: &str, is_folder, is_link| FolderMember {
            path: root.join(name),
            is_folder,
            is_link,
        };
        let all =
            vec![member("a", true, false), member("b", false, false), member("c", false, true)];
        assert_eq!(machine.list_folder(&root, 3), Some(all));
        assert_eq!(machine.list_folder(&root, 2), None);
        assert_eq!(machine.list_folder(&root.join("b"), 3), Some(Vec::new()));
        assert_eq!(machine.list_folder(&root.join("none"), 3), Some(Vec::new()));
    }

    #[test]
    fn search_beyond_limit_gives_up() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for name in ["a", "b", "c/d", "c/e"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let search = |names: usize, time: Duration, times: usize| {
            let budget = LookupBudget::new(names, time);
            let search = || search_folder(&root, &budget, &|_: &Path| false);
            (1..times).for_each(|_| drop(search()));
            search()
        };
        let long = Duration::from_secs(600);
        assert_eq!(search(5, long, 1), FileSearchOutcome::NotFound);
        for most in 0..5 {
            assert_eq!(search(most, long, 1), FileSearchOutcome::Unfinished, "{most}");
        }
        // All searches of a decision share the budget, and the time.
        assert_eq!(search(10, long, 2), FileSearchOutcome::NotFound);
        assert_eq!(search(10, long, 3), FileSearchOutcome::Unfinished);
        assert_eq!(search(10, Duration::ZERO, 1), FileSearchOutcome::Unfinished);
    }
}
