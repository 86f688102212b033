//! What the engine must be told about the machine. The engine itself looks at nothing.

use std::path::{Path, PathBuf};

/// Answers questions about the machine, without changing anything on it.
pub trait Machine {
    /// The path with every link, `.` and `..` settled as far as it exists; the rest is kept.
    /// `None` when it has no meaning: a loop of links, or no access.
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf>;

    /// The files an absolute pattern stands for (`*`, `?`, `[…]`; a backslash escapes), at most
    /// `most`; `None` when there are more or they cannot be listed.
    fn expand_glob(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>>;

    /// What the repository that `folder` lies in would run of its own when git works there:
    /// names of settings and hooks such as `core.fsmonitor`, `diff.external`, `hooks/pre-commit`.
    fn git_helpers(&self, folder: &Path) -> Vec<String>;

    /// The file that runs when `name` is called, where it can be found.
    fn find_program(&self, name: &str, folder: &Path) -> Option<PathBuf>;

    /// A file beneath `folder` for which `wanted` holds. Looks at a bounded number of them, and
    /// says so when there are more.
    fn find_file(&self, folder: &Path, wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome;
}

/// What came of looking for a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSearchOutcome {
    /// Path of a file for which the condition holds.
    Found(PathBuf),
    /// There is none.
    NotFound,
    /// There are too many to look at, or some that cannot be looked at: there may be one.
    Unfinished,
}

/// A machine of which nothing is known: no link, no file, no repository.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyMachine;

impl Machine for EmptyMachine {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        Some(crate::path::normalize_lexically(absolute))
    }

    fn expand_glob(&self, _pattern: &str, _most: usize) -> Option<Vec<PathBuf>> {
        Some(Vec::new())
    }

    fn git_helpers(&self, _folder: &Path) -> Vec<String> {
        Vec::new()
    }

    fn find_program(&self, _name: &str, _folder: &Path) -> Option<PathBuf> {
        None
    }

    fn find_file(&self, _folder: &Path, _wanted: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        FileSearchOutcome::NotFound
    }
}
