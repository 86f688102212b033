//! Facts about the machine that the engine needs. The engine itself does no I/O.

use std::path::{Path, PathBuf};

use crate::host::HostName;
use crate::program::{FileAccess, PackageManager};

/// Provides facts about the machine, without changing anything on it.
pub trait Machine {
    /// The path with every symlink, `.` and `..` resolved as far as it exists; the rest is kept.
    /// `None` if it cannot be resolved: a symlink loop, or no access.
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf>;

    /// The path that a command means by an absolute path that it accesses: as
    /// [`Machine::canonicalize`] says, but as the command sees the machine, with a temporary folder of
    /// its own.
    fn command_path(&self, absolute: &Path, _access: FileAccess) -> Option<PathBuf> {
        self.canonicalize(absolute)
    }

    /// Whether a command that accesses this path, as [`Machine::command_path`] returned it, reaches
    /// nothing but a file in the temporary folder of its session.
    fn is_private_temp(&self, _canonical: &Path, _access: FileAccess) -> bool {
        false
    }

    /// Where a file that a command sees at a path may be on the machine, if that is another path.
    fn host_path(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    /// The temporary folder that commands have of their own, which `TMPDIR` names; `None` if they have
    /// that of the machine.
    fn private_temp(&self) -> Option<&Path> {
        None
    }

    /// The files that an absolute glob (`*`, `?`, `[…]`; a backslash escapes) matches, at most
    /// `most`; `None` if there are more or they cannot be listed.
    fn expand_glob(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>>;

    /// What git would run when used in `folder`, because the repository configures it: names of
    /// settings and hooks such as `core.fsmonitor`, `diff.external`, `hooks/pre-commit`.
    fn git_helpers(&self, folder: &Path) -> Vec<String>;

    /// The file that runs when `name` is called, if it is found.
    fn find_program(&self, name: &str, folder: &Path) -> Option<PathBuf>;

    /// The values of a setting in the repository that contains `folder`; `None` if they are not known.
    fn git_setting(&self, _folder: &Path, _name: &str) -> Option<Vec<String>> {
        None
    }

    /// The branch that is checked out in the repository that contains `folder`; `None` if it is not
    /// known, or no branch is.
    fn git_branch(&self, _folder: &Path) -> Option<String> {
        None
    }

    /// Whether the repository that contains `folder` has a branch of this name of its own.
    fn has_git_branch(&self, _folder: &Path, _name: &str) -> bool {
        false
    }

    /// Whether a command can enter this folder. `false` if that is not known.
    fn is_folder(&self, _canonical: &Path) -> bool {
        false
    }

    /// Whether a `rust-toolchain` file may make rustup run a program other than that of a toolchain
    /// that the user installed: it names a folder, or cannot be understood.
    fn names_toolchain_folder(&self, _file: &Path) -> bool {
        true
    }

    /// A file beneath `folder` for which `wanted` returns true. Checks a bounded number of files,
    /// and returns `Unfinished` if there are more.
    fn find_file(&self, folder: &Path, accepts: &dyn Fn(&Path) -> bool) -> FileSearchOutcome;

    /// The hosts from which a package manager downloads when used in `folder`, as far as the
    /// configuration of the project and the user names them.
    fn registry_hosts(&self, _manager: PackageManager, _folder: &Path) -> Vec<HostName> {
        Vec::new()
    }

    /// The bare repository of this machine to which `git push` in `folder` sends, if it is one that
    /// commands cannot change: its canonical path. `remote` is a name or a path.
    fn push_repository(&self, _folder: &Path, _remote: &str) -> Option<PathBuf> {
        None
    }

    /// Whether a file in the workspace folders `roots` decides what runs later although its name does
    /// not say so: a protected name is a link to it, or a setting of git names it.
    fn target_protection(
        &self,
        roots: &[PathBuf],
        home: Option<&Path>,
        canonical: &Path,
    ) -> TargetProtection;
}

/// Whether something with a protected name leads to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetProtection {
    /// Nothing does.
    Unprotected,
    /// Something does: a clause such as "`/w/.envrc` leads to it".
    Protected(String),
    /// It cannot be checked, with the reason as a clause.
    Unknown(String),
}

/// The result of a file search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileSearchOutcome {
    /// The path of a matching file.
    Found(PathBuf),
    /// No file matches.
    NotFound,
    /// Too many files to check, or some are inaccessible: one may match.
    Unfinished,
}

/// A machine without any facts: no symlinks, files or repositories.
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

    fn target_protection(&self, _: &[PathBuf], _: Option<&Path>, _: &Path) -> TargetProtection {
        TargetProtection::Unprotected
    }
}
