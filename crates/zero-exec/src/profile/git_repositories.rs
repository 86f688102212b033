//! The git repositories of a workspace: what a command may change in them so that git works, and
//! what it may not because git would run it later.
//!
//! A `.git` file names another folder. A command could have written it, so that folder becomes
//! writable only if it points back at this workspace, which no command can forge.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_policy::path;
use zero_sandbox::path_survey::{self, ChangeStamp, ScanOutcome};
use zero_sandbox::{FileType, quarantine};

use super::folder_scanner::{FolderScanResult, FolderScanner, WritableRoots};
use super::forbidden_path::{ForbiddenPath, UNHELD_ENTRIES_MAX};
use crate::git_facts::{self, ConfigChain, ConfigError, HelperValue, RepositoryLocation};

/// Folders in a repository that must not be created: an empty placeholder is mounted instead.
const HELD_FOLDERS: &[&str] = &["hooks"];
/// The same for files; git accepts empty ones.
const HELD_FILES: &[&str] = &["config", "config.worktree", "info/attributes"];
/// Names that may be placeholders if they are empty, in a repository or in a workspace.
pub(crate) const STAND_INS: &[&str] =
    &[".zero", "hooks", "config", "config.worktree", "info/attributes"];
/// Files that make git use another folder as the repository: read-only if they exist, watched if
/// not.
const POINTERS: &[&str] = &["commondir", "gitdir"];
/// Folders in which older versions of git kept the URLs of remotes, and which all versions read:
/// read-only if they exist, watched if not.
pub(crate) const REMOTE_FOLDERS: &[&str] = &["remotes", "branches"];

/// How deep repositories of submodules are searched, and how many names are visited for that.
const DEPTH_MAX: usize = 8;
const NAMES_MAX: usize = 20_000;
/// Most repositories that commands can change, that they can only read, and that are only checked
/// afterwards: a sandbox with many hundred mounts takes seconds to build.
const OPEN_MAX: usize = 48;
const CLOSED_MAX: usize = 80;
const LOOKED_AT_MAX: usize = 4_096;

/// Most working folders for which the configurations of their repositories are read. With more, it is
/// not known which programs git runs.
const CONFIGURED_MAX: usize = 8_192;
/// Most existing files and folders that are made read-only because a configuration names them.
const NAMED_HELD_MAX: usize = 200;
/// Most programs that configurations name and that are protected.
const PROGRAMS_MAX: usize = 1_000;

/// The configuration of a repository, in its folder.
const CONFIG_FILES: [&str; 2] = ["config", "config.worktree"];
/// The user's own configuration, relative to the home folder.
const USER_CONFIGS: [&str; 2] = [".gitconfig", ".config/git/config"];
/// The description of a file that a repository's configuration includes.
const INCLUDED: &str = "a file with settings of git, which can run a command";
/// The description of a `.git` file or of a pointer inside a repository.
const REPOSITORY: &str = "a file that says where the repository is";
/// The description of a file that git runs because a configuration names it.
const PROGRAM: &str = "a program that a setting of git names";
/// The description of a folder with the URLs of remotes.
pub(crate) const REMOTES: &str = "a place for URLs that git fetches from and pushes to";
/// The description of a file that must not be created in a repository.
const IN_GIT: &str = "a setting or hook of git, which can run a command";

/// What must be protected in the repositories of a workspace.
#[derive(Debug, Default)]
pub(crate) struct GitRepositories {
    /// Folders outside the workspace that belong to its repositories.
    pub(crate) writable: Vec<PathBuf>,
    /// Folders and files that must not change, even if they do not exist.
    pub(super) folders: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    /// Existing paths that must not change.
    pub(crate) held_paths: Vec<PathBuf>,
    /// Symbolic links that lead to a repository.
    pub(crate) links: Vec<PathBuf>,
    /// Paths that must not be created, whether or not the kernel refuses it.
    pub(crate) missing: Vec<ForbiddenPath>,
    /// Working folders of repositories.
    pub(crate) work_folders: BTreeSet<PathBuf>,
    /// The git folders of these repositories.
    pub(crate) git_folders: BTreeSet<PathBuf>,
    /// The folders of their worktrees, which may have settings of their own.
    pub(crate) worktrees: BTreeSet<PathBuf>,
    /// Folders in git folders with more repositories than are inspected.
    pub(crate) uninspected: BTreeSet<PathBuf>,
    /// Files with settings of git that cannot be read.
    pub(crate) unread_configs: Vec<PathBuf>,
    /// Files with settings of git that are too large to tell what they make git run.
    pub(crate) unbounded_configs: Vec<PathBuf>,
    /// A repository whose configuration was not read, because there are too many.
    pub(super) unread_repository: Option<PathBuf>,
    /// The number of repositories that are read-only.
    pub(crate) closed: usize,
    /// Paths beyond the mount limit, with a stamp that shows later changes.
    pub(crate) unmounted: Vec<(PathBuf, Option<ChangeStamp>)>,
    /// Files that git runs because a configuration names them, as written.
    programs: BTreeSet<PathBuf>,
    /// Files and folders that configurations name for other purposes: more settings and hooks.
    pub(super) named: Vec<(PathBuf, &'static str)>,
}

/// A search for what must be protected.
struct RepositorySearch<'a> {
    scope: &'a WritableRoots,
    scanner: &'a FolderScanner,
    all: GitRepositories,
    /// The hooks folders that the user's own configuration names, for every repository.
    hooks_of_user: Vec<String>,
    /// The programs that it names, likewise.
    helpers_of_user: Vec<HelperValue>,
    /// Submodules that are still to be inspected.
    pending: Vec<(PathBuf, usize)>,
    /// The git folders whose configurations were read, each with a working folder.
    configured: BTreeSet<(PathBuf, PathBuf)>,
    /// The number of existing paths that configurations name and that are read-only.
    named_held: usize,
}

/// Lists what must be protected in the repositories that were found.
pub(crate) fn find_repositories(
    scope: &WritableRoots,
    found: &FolderScanResult,
    scanner: &FolderScanner,
) -> GitRepositories {
    let mut search = RepositorySearch {
        scope,
        scanner,
        all: GitRepositories::default(),
        hooks_of_user: Vec::new(),
        helpers_of_user: Vec::new(),
        pending: Vec::new(),
        configured: BTreeSet::new(),
        named_held: 0,
    };
    // The user's own configuration may name files of the workspace.
    for config in scope.home.iter().flat_map(|home| USER_CONFIGS.map(|name| home.join(name))) {
        let chain = search.read_config(&config);
        for summary in &chain.summaries {
            search.hooks_of_user.extend(summary.hooks_folders.iter().cloned());
            search.helpers_of_user.extend(summary.helpers.iter().cloned());
        }
    }
    for root in &scope.roots {
        search.add_root(root);
    }
    for folder in &found.repositories {
        search.add_nested(folder);
    }
    // Last, so that a repository with many submodules displaces no other one. The loop ends because
    // each nested repository has a smaller depth limit.
    while let Some((module, depth)) = search.pending.pop() {
        search.protect_git_folder(&module, None, depth);
    }
    search.all
}

impl GitRepositories {
    /// The protected paths that may contain links to files that git runs or reads.
    pub(crate) fn linking_paths(&self) -> Vec<PathBuf> {
        let held = self.held_paths.iter().filter(|path| !self.uninspected.contains(*path));
        let (whole, single): (Vec<&PathBuf>, Vec<&PathBuf>) =
            held.partition(|path| self.git_folders.contains(*path));
        let names = || HELD_FOLDERS.iter().chain(HELD_FILES).chain(REMOTE_FOLDERS);
        let inner = whole.into_iter().flat_map(|git| names().map(|name| git.join(name)));
        let own = self.folders.iter().chain(&self.files).chain(single).cloned();
        own.chain(inner).collect()
    }

    /// The files that git runs because a configuration names them, as written, with descriptions.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (PathBuf, &'static str)> {
        self.programs.iter().map(|path| (path.clone(), PROGRAM))
    }
}

impl RepositorySearch<'_> {
    fn add_root(&mut self, root: &Path) {
        let git = root.join(".git");
        if is_link(&git) {
            self.all.links.push(git.clone());
        }
        if path_survey::exists(&git) {
            self.all.work_folders.insert(root.to_owned());
        }
        match path_survey::file_type(&git) {
            Some(FileType::Directory) => {
                if let Some(git) = path_survey::canonicalize(&git) {
                    self.protect_git_folder(&git, Some(root), DEPTH_MAX);
                }
            }
            Some(FileType::File) if !is_link(&git) => {
                self.all.held_paths.push(git.clone());
                if let Some(folder) = git_facts::find_linked_folder(root) {
                    if !self.scope.roots.iter().any(|root| folder.starts_with(root)) {
                        self.all.writable.push(folder.clone());
                    }
                    self.protect_git_folder(&folder, Some(root), DEPTH_MAX);
                }
            }
            _ => {}
        }
        // Where its files lead, or the workspace itself, such as a bare repository.
        self.protect_location(root);
    }

    fn add_nested(&mut self, folder: &Path) {
        let git = folder.join(".git");
        if is_link(&git) {
            self.all.links.push(git);
        } else {
            match path_survey::file_type(&git) {
                // Not a repository yet for git; if it becomes one, it counts as new.
                Some(FileType::Directory)
                    if !is_initialized(&git) && !git_facts::may_be_git_folder(folder) =>
                {
                    return;
                }
                Some(FileType::Directory) | None => {}
                // Wherever it points: it must not change.
                Some(_) => self.all.held_paths.push(git),
            }
        }
        self.all.work_folders.insert(folder.to_owned());
        self.protect_location(folder);
    }

    /// Protects every folder that git may use for a working folder, as far as commands can write to
    /// it.
    fn protect_location(&mut self, folder: &Path) {
        let Some(found) = RepositoryLocation::find(folder) else { return };
        for git in found.git_folders.iter().filter_map(|git| path_survey::canonicalize(git)) {
            let is_there = path_survey::file_type(&git) == Some(FileType::Directory);
            if is_there && self.find_writable_base(&git).is_some() {
                match path_survey::exists(&git.join("commondir")) {
                    true => self.protect_worktree(&git),
                    false => self.protect_git_folder(&git, Some(folder), DEPTH_MAX),
                }
            }
        }
    }

    /// Protects the folder of a worktree, whose hooks and most settings are in the common folder.
    fn protect_worktree(&mut self, git: &Path) {
        if self.all.worktrees.insert(git.to_owned()) {
            self.all.files.push(git.join("config.worktree"));
            for pointer in POINTERS {
                self.hold_or_watch(git, Path::new(pointer), REPOSITORY);
            }
        }
    }

    fn find_writable_base(&self, path: &Path) -> Option<PathBuf> {
        let writable =
            self.scope.roots.iter().chain(&self.scope.writable).chain(&self.all.writable);
        writable.into_iter().find(|base| path.starts_with(base)).cloned()
    }

    /// Protects the files in a git folder that git runs or that configure it.
    fn protect_git_folder(&mut self, git: &Path, work: Option<&Path>, depth: usize) {
        // However many repositories there are, and however many working folders this one has: the
        // user may run git in each of them.
        self.protect_configured_files(git, work);
        if self.all.git_folders.contains(git) {
            return;
        }
        if self.all.git_folders.len() >= LOOKED_AT_MAX {
            return self.watch_changes(git);
        }
        self.all.git_folders.insert(git.to_owned());
        match list_submodules(&git.join("modules")) {
            Some(found) if depth > 0 || found.is_empty() => {
                self.pending.extend(found.into_iter().map(|at| (at, depth.saturating_sub(1))));
            }
            // Too many submodules to inspect: the whole folder becomes read-only, so that none can
            // be hidden in it.
            _ => {
                self.all.held_paths.push(git.join("modules"));
                self.all.uninspected.insert(git.join("modules"));
            }
        }
        if self.all.git_folders.len() > OPEN_MAX {
            return self.make_read_only(git);
        }
        self.all.folders.extend(HELD_FOLDERS.iter().map(|name| git.join(name)));
        self.all.files.extend(HELD_FILES.iter().map(|name| git.join(name)));
        for name in
            HELD_FOLDERS.iter().chain(HELD_FILES).filter(|name| is_missing_or_empty(git, name))
        {
            self.watch(git, Path::new(name), IN_GIT);
        }
        for pointer in POINTERS {
            self.hold_or_watch(git, Path::new(pointer), REPOSITORY);
        }
        for folder in REMOTE_FOLDERS {
            self.hold_or_watch(git, Path::new(folder), REMOTES);
        }
        let worktrees = list_folders(&git.join("worktrees")).unwrap_or_else(|| {
            self.all.held_paths.push(git.join("worktrees"));
            self.all.uninspected.insert(git.join("worktrees"));
            Vec::new()
        });
        for worktree in worktrees {
            self.protect_worktree(&worktree);
        }
    }

    /// Protects what the configuration of a repository names, as seen from a working folder and from
    /// that which the configuration itself names: a submodule has one, whether or not it is there.
    fn protect_configured_files(&mut self, git: &Path, work: Option<&Path>) {
        let is_known = |work: &Path| self.configured.contains(&(git.to_owned(), work.to_owned()));
        if work.is_some_and(is_known) {
            return;
        }
        let chains = CONFIG_FILES.map(|name| {
            let config = git.join(name);
            let chain = self.read_config(&config);
            (config, chain)
        });
        let summaries = chains.iter().flat_map(|(_, chain)| &chain.summaries);
        let named = summaries.flat_map(|summary| &summary.work_folders);
        let mut folders: BTreeSet<PathBuf> = named.map(|named| resolve(&git.join(named))).collect();
        folders.extend(work.map(Path::to_owned));
        if folders.is_empty() {
            folders.insert(git.to_owned());
        }
        for work in folders {
            if self.configured.len() >= CONFIGURED_MAX {
                self.all.unread_repository.get_or_insert_with(|| git.to_owned());
                return;
            }
            if !self.configured.insert((git.to_owned(), work.clone())) {
                continue;
            }
            for (config, chain) in &chains {
                self.protect_hooks_folders(git, &work, chain);
                self.add_programs(config, &work, chain);
            }
        }
    }

    /// Makes a repository read-only, up to the limit.
    fn make_read_only(&mut self, git: &Path) {
        if self.all.closed < CLOSED_MAX {
            self.all.closed += 1;
            return self.all.held_paths.push(git.to_owned());
        }
        self.watch_changes(git);
    }

    /// Notes the state of a repository that cannot be protected, to notice changes.
    fn watch_changes(&mut self, git: &Path) {
        let names = HELD_FOLDERS.iter().chain(HELD_FILES).chain(POINTERS).chain(REMOTE_FOLDERS);
        for name in names.chain(&["modules"]) {
            let path = git.join(name);
            match path_survey::read_tree_stamp(&path, UNHELD_ENTRIES_MAX) {
                None if path_survey::exists(&path) => self.all.held_paths.push(path),
                stamp => self.all.unmounted.push((path, stamp)),
            }
        }
    }

    /// Reads a configuration, and protects the files that it includes.
    fn read_config(&mut self, config: &Path) -> ConfigChain {
        let home = self.scope.home.as_deref();
        let read = |file: &Path| self.scanner.read_config(file);
        let chain = git_facts::read_git_config_chain(config, home, read);
        for (file, error) in &chain.errors {
            let files = match error {
                ConfigError::Malformed => &mut self.all.unread_configs,
                ConfigError::TooLarge => &mut self.all.unbounded_configs,
            };
            // Another working folder of the same repository may have been first.
            if !files.contains(file) {
                files.push(file.clone());
            }
        }
        chain.included.iter().for_each(|file| self.protect_included_file(file));
        chain
    }

    /// Protects the folders of hooks that a configuration names.
    fn protect_hooks_folders(&mut self, git: &Path, work: &Path, chain: &ConfigChain) {
        let own = chain.summaries.iter().flat_map(|summary| &summary.hooks_folders);
        let named: Vec<String> = own.chain(&self.hooks_of_user).cloned().collect();
        for named in named {
            if let Some(folder) = self.find_hooks_folder(git, work, &named)
                && let Some(base) = self.find_writable_base(&folder)
                && let Ok(relative) = folder.strip_prefix(&base)
            {
                self.hold_named(&base, relative, IN_GIT);
                self.all.named.push((folder, IN_GIT));
            }
        }
    }

    /// The hooks folder that a configuration names. Not one that contains a repository or a folder of
    /// the workspace: then nothing could be changed.
    fn find_hooks_folder(&self, git: &Path, work: &Path, named: &str) -> Option<PathBuf> {
        let in_home =
            named.strip_prefix("~/").and_then(|rest| Some(self.scope.home.as_ref()?.join(rest)));
        let path = path_survey::canonicalize(&in_home.unwrap_or_else(|| work.join(named)))?;
        let contains = |inner: &Path| inner.starts_with(&path);
        let WritableRoots { roots, writable, .. } = self.scope;
        let mut bases = roots.iter().chain(writable).chain(&self.all.writable);
        let is_above = contains(git) || contains(work) || bases.any(|base| contains(base));
        (!is_above).then_some(path)
    }

    /// Collects the files that git runs in a working folder because a configuration names them.
    fn add_programs(&mut self, config: &Path, work: &Path, chain: &ConfigChain) {
        let home = self.scope.home.as_deref();
        let own = chain.summaries.iter().flat_map(|summary| &summary.helpers);
        for helper in own.chain(&self.helpers_of_user) {
            let Some(programs) = self.scanner.list_programs(helper, work, home) else {
                return self.all.unbounded_configs.push(config.to_owned());
            };
            for program in programs.iter() {
                let is_file = || path_survey::file_type(&program.path) == Some(FileType::File);
                if program.needs_file && !is_file() || self.all.programs.contains(&program.path) {
                    continue;
                }
                if self.all.programs.len() >= PROGRAMS_MAX {
                    return self.all.unbounded_configs.push(config.to_owned());
                }
                self.all.programs.insert(program.path.clone());
            }
        }
    }

    fn protect_included_file(&mut self, file: &Path) {
        if let Some(base) = self.find_writable_base(file)
            && let Ok(relative) = file.strip_prefix(&base)
        {
            self.hold_named(&base, relative, INCLUDED);
            self.all.named.push((file.to_owned(), INCLUDED));
        }
    }

    /// Protects a path that a configuration names. Beyond the mount limit, changes are noticed.
    fn hold_named(&mut self, folder: &Path, relative: &Path, why: &'static str) {
        let path = folder.join(relative);
        let exists = path_survey::exists(&path);
        if !exists || self.named_held < NAMED_HELD_MAX || self.all.held_paths.contains(&path) {
            self.named_held += usize::from(exists && !self.all.held_paths.contains(&path));
            return self.hold_or_watch(folder, relative, why);
        }
        match path_survey::read_tree_stamp(&path, UNHELD_ENTRIES_MAX) {
            None => self.all.held_paths.push(path),
            stamp => self.all.unmounted.push((path, stamp)),
        }
    }

    fn hold_or_watch(&mut self, folder: &Path, relative: &Path, why: &'static str) {
        match path_survey::exists(&folder.join(relative)) {
            true => self.all.held_paths.push(folder.join(relative)),
            false => self.watch(folder, relative, why),
        }
    }

    fn watch(&mut self, folder: &Path, relative: &Path, why: &'static str) {
        let (folder, relative) = (folder.to_owned(), relative.to_owned());
        self.all.missing.push(ForbiddenPath { folder, relative, why });
    }
}

/// A path without links, or only without `..` if it does not exist.
fn resolve(path: &Path) -> PathBuf {
    path_survey::canonicalize(path).unwrap_or_else(|| path::normalize_lexically(path))
}

/// Whether the path is missing or only a placeholder of a running command.
fn is_missing_or_empty(git: &Path, name: &str) -> bool {
    let path = git.join(name);
    !path_survey::exists(&path) || quarantine::is_empty(&path)
}

/// Whether git, or a user who creates a repository manually, has begun to fill it.
fn is_initialized(git: &Path) -> bool {
    ["HEAD", "config", "objects", "hooks", "commondir"]
        .iter()
        .any(|name| path_survey::exists(&git.join(name)))
}

fn is_link(path: &Path) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
    matches!(quarantine::inspect(parent, &parent.join(name)), quarantine::EntryKind::Link { .. })
}

/// The repositories of submodules, whose names may have several components; `None` if there are too
/// many to inspect.
fn list_submodules(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, usize)> =
        list_folders(folder)?.into_iter().map(|folder| (folder, DEPTH_MAX)).collect();
    while let Some((folder, depth)) = open.pop() {
        if path_survey::exists(&folder.join("HEAD")) {
            found.push(folder);
        } else {
            let inner = list_folders(&folder)?;
            if depth == 0 && !inner.is_empty() {
                return None;
            }
            open.extend(inner.into_iter().map(|inner| (inner, depth.saturating_sub(1))));
        }
        if found.len() + open.len() > NAMES_MAX {
            return None;
        }
    }
    Some(found)
}

/// The folders in a folder; `None` if it has too many entries.
fn list_folders(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut folders = Vec::new();
    let scanned = path_survey::scan_folder(folder, NAMES_MAX, |name, is_folder| {
        if is_folder {
            folders.push(folder.join(name));
        }
    });
    folders.sort();
    (scanned != ScanOutcome::Part).then_some(folders)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::profile::folder_scanner::FolderScanner;
    use std::fs;

    /// Names on the policy's list that git itself has to change: the lock of its configuration, and
    /// the steps of a running rebase, which are compared instead.
    const LEFT_TO_GIT: &[&str] = &[
        "config.lock",
        "git-rebase-todo",
        "rebase-merge/git-rebase-todo",
        "rebase-merge/strategy",
        "sequencer/todo",
        "sequencer/opts",
    ];

    struct RepositoryFixture {
        temp: tempfile::TempDir,
    }

    impl RepositoryFixture {
        fn new(folders: &[&str]) -> Self {
            let temp = tempfile::tempdir().unwrap();
            for folder in folders {
                fs::create_dir_all(temp.path().join(folder)).unwrap();
            }
            Self { temp }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().canonicalize().unwrap().join(name)
        }

        /// Creates a folder with the contents of a git folder.
        fn create_repository(&self, name: &str) {
            for folder in ["objects", "refs"] {
                fs::create_dir_all(self.path(name).join(folder)).unwrap();
            }
            fs::write(self.path(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
        }

        fn write_file(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        fn find(&self, root: &str) -> GitRepositories {
            self.find_with(&FolderScanner::default(), root)
        }

        fn find_with(&self, scanner: &FolderScanner, root: &str) -> GitRepositories {
            let home = Some(self.path("home"));
            let scope =
                WritableRoots { roots: vec![self.path(root)], home, ..WritableRoots::default() };
            find_repositories(&scope, &scanner.scan(&scope), scanner)
        }
    }

    #[test]
    fn every_protected_git_name_is_handled() {
        let known = [HELD_FOLDERS, HELD_FILES, POINTERS, REMOTE_FOLDERS, LEFT_TO_GIT].concat();
        for name in zero_policy::protected_paths::git_names() {
            assert!(known.contains(&name.name), "{}", name.name);
        }
        for name in [HELD_FOLDERS, HELD_FILES].concat() {
            assert!(STAND_INS.contains(&name), "{name}");
        }
    }

    #[test]
    fn new_repository_is_protected() {
        let fixture = RepositoryFixture::new(&["w"]);
        assert!(fixture.find("w").folders.is_empty());
        fixture.create_repository("w/.git");
        let found = fixture.find("w");
        assert_eq!(found.folders, [fixture.path("w/.git/hooks")]);
        assert_eq!(found.files, HELD_FILES.join_all(&fixture.path("w/.git")));
        let missing = |name: &str| found.missing.iter().any(|m| m.relative == Path::new(name));
        assert!(missing("commondir") && missing("hooks") && missing("config"));
        assert!(missing("remotes") && missing("branches"));
        assert!(found.writable.is_empty());
    }

    #[test]
    fn modules_worktrees_and_inner_repositories_are_found() {
        let fixture = RepositoryFixture::new(&["w", "w/node_modules"]);
        for git in [
            "w/.git",
            "w/.git/modules/vendor/lib",
            "w/a/b/.git",
            "w/bare.git",
            "w/node_modules/x/.git",
        ] {
            fixture.create_repository(git);
        }
        fixture.write_file("w/.git/worktrees/x/gitdir", "/elsewhere/.git\n");
        fixture.write_file("w/.git/remotes/origin", "URL: x\n");
        fixture.write_file("w/.git/config", "[core]\nhooksPath = tools/hooks\n");
        fixture.write_file("w/tools/hooks/pre-commit", "");
        fixture.write_file("w/.git/config.worktree", "[include]\npath = ../more.ini\n");
        fixture.write_file("w/more.ini", "[core]\nhooksPath = other\n");
        fixture.write_file("home/.gitconfig", "[core]\nhooksPath = third\n");
        let found = fixture.find("w");
        let folders = ["w/.git", "w/.git/modules/vendor/lib", "w/bare.git", "w/a/b/.git"];
        for folder in folders {
            assert!(found.folders.contains(&fixture.path(folder).join("hooks")), "{folder}");
        }
        assert_eq!(found.folders.len(), folders.len(), "{:?}", found.folders);
        assert!(found.held_paths.contains(&fixture.path("w/.git/worktrees/x/gitdir")));
        assert!(found.held_paths.contains(&fixture.path("w/tools/hooks")));
        assert!(found.held_paths.contains(&fixture.path("w/.git/remotes")));
        for name in ["other", "third"] {
            assert!(found.missing.iter().any(|m| m.relative == Path::new(name)), "{name}");
        }
        assert!(found.files.contains(&fixture.path("w/.git/worktrees/x/config.worktree")));
    }

    #[test]
    fn excess_repositories_become_read_only() {
        let fixture = RepositoryFixture::new(&["w"]);
        fixture.create_repository("w/zz/.git");
        let scanner = FolderScanner::default();
        let hooks = fixture.path("w/zz/.git/hooks");
        assert!(fixture.find_with(&scanner, "w").folders.contains(&hooks));
        for number in 0..100 {
            fs::create_dir_all(fixture.path(&format!("w/empty{number}/.git"))).unwrap();
        }
        let found = fixture.find_with(&scanner, "w");
        assert_eq!((found.git_folders.len(), found.closed), (1, 0));
        for number in 0..OPEN_MAX + CLOSED_MAX {
            fixture.create_repository(&format!("w/a{number}/.git"));
        }
        let found = fixture.find_with(&scanner, "w");
        assert!(found.folders.contains(&hooks), "it was known before");
        assert_eq!((found.folders.len(), found.closed), (OPEN_MAX, CLOSED_MAX));
        let closed = |path: &PathBuf| path.ends_with(".git");
        assert_eq!(found.held_paths.iter().filter(|path| closed(path)).count(), CLOSED_MAX);
        let unheld = [HELD_FOLDERS, HELD_FILES, POINTERS, REMOTE_FOLDERS, &["modules"]].concat();
        assert_eq!(found.unmounted.len(), unheld.len());
    }

    #[test]
    fn unscannable_modules_folder_is_held_whole() {
        let fixture = RepositoryFixture::new(&[]);
        fixture.create_repository("w/.git");
        let deep: String = (0..=DEPTH_MAX + 1).map(|number| format!("{number}/")).collect();
        fixture.create_repository(&format!("w/.git/modules/{deep}"));
        assert!(fixture.find("w").held_paths.contains(&fixture.path("w/.git/modules")));
        // The same for submodules of submodules.
        fixture.create_repository("x/.git");
        let mut nested = "x/.git".to_owned();
        for _ in 0..=DEPTH_MAX {
            nested.push_str("/modules/m");
            fixture.create_repository(&nested);
        }
        let found = fixture.find("x");
        let innermost = fixture.path(nested.strip_suffix("/m").unwrap());
        assert!(found.held_paths.contains(&innermost), "{:?}", found.held_paths);
    }

    #[test]
    fn included_config_files_are_held() {
        let fixture = RepositoryFixture::new(&["w", "home"]);
        fixture.create_repository("w/.git");
        let text = "[include]\npath = ../common.gitconfig\npath = ~/x\npath = ../none\n";
        fixture.write_file("w/.git/config", text);
        fixture.write_file("w/common.gitconfig", "[includeIf \"onbranch:x\"]\npath = more\n");
        fixture.write_file("w/more", "");
        fixture.write_file("home/x", "");
        let found = fixture.find("w");
        assert!(found.held_paths.contains(&fixture.path("w/common.gitconfig")));
        assert!(found.held_paths.contains(&fixture.path("w/more")));
        assert!(!found.held_paths.contains(&fixture.path("home/x")), "no command can write to it");
        assert!(found.missing.iter().any(|m| m.relative == Path::new("none")));
    }

    #[test]
    fn programs_that_settings_name_are_found() {
        let fixture = RepositoryFixture::new(&["w", "home"]);
        fixture.create_repository("w/.git");
        fixture.create_repository("w/sub/.git");
        let text = "[core]\nfsmonitor = ./tools/fsm.sh\nhooksPath = hooks\n[filter \"x\"]\nclean = sh tools/clean.sh %f\n[gpg]\nprogram = my tools/gpg\n[include]\npath = ../more.ini\n[url \"a/b\"]\ninsteadOf = c/d\n";
        fixture.write_file("w/.git/config", text);
        fixture.write_file("w/more.ini", "[alias]\nx = !tools/alias.sh\n");
        fixture.write_file("home/.gitconfig", "[core]\neditor = ./edit.sh\n");
        let found = fixture.find("w");
        let programs: Vec<PathBuf> = found.programs.into_iter().collect();
        let names = [
            "w/./edit.sh",
            "w/./tools/fsm.sh",
            "w/my tools/gpg",
            "w/sub/./edit.sh",
            "w/tools/alias.sh",
            "w/tools/clean.sh",
        ];
        let expected: BTreeSet<PathBuf> = names.map(|name| fixture.path(name)).into();
        assert_eq!(programs, expected.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn programs_of_repositories_beyond_the_limits_are_found() {
        let fixture = RepositoryFixture::new(&["w"]);
        let count = OPEN_MAX + CLOSED_MAX + 10;
        for number in 0..count {
            fixture.create_repository(&format!("w/r{number:03}/.git"));
            let text = "[core]\nfsmonitor = ../tools/fsm.sh\nhooksPath = hooks\n[diff]\nexternal = ./diff.sh\n[include]\npath = ../more.ini\n";
            fixture.write_file(&format!("w/r{number:03}/.git/config"), text);
            fixture.write_file(&format!("w/r{number:03}/more.ini"), "");
            fs::create_dir_all(fixture.path(&format!("w/r{number:03}/hooks"))).unwrap();
        }
        let found = fixture.find("w");
        assert_eq!((found.closed, &found.unread_repository), (CLOSED_MAX, &None));
        let is_protected = |path: &PathBuf| {
            found.held_paths.contains(path)
                || found.unmounted.iter().any(|(unheld, _)| unheld == path)
        };
        for number in 0..count {
            let work = fixture.path(&format!("w/r{number:03}"));
            for program in ["../tools/fsm.sh", "./diff.sh"] {
                assert!(found.programs.contains(&work.join(program)), "{number} {program}");
            }
            for name in ["hooks", "more.ini"] {
                assert!(is_protected(&work.join(name)), "{number} {name}");
            }
        }
        let named = |path: &&PathBuf| path.ends_with("hooks") || path.ends_with("more.ini");
        assert_eq!(found.held_paths.iter().filter(named).count(), NAMED_HELD_MAX);
    }

    #[test]
    fn programs_of_submodule_without_working_folder_are_found() {
        let fixture = RepositoryFixture::new(&["w"]);
        for git in ["w/.git", "w/.git/modules/gone", "w/.git/modules/bare"] {
            fixture.create_repository(git);
        }
        let text = "[core]\nworktree = ../../../lib/gone\nfsmonitor = ../../tools/fsm.sh\nhooksPath = ../hooks\n";
        fixture.write_file("w/.git/modules/gone/config", text);
        fixture.write_file("w/.git/modules/bare/config", "[core]\neditor = ../../../edit.sh\n");
        fs::create_dir_all(fixture.path("w/lib/hooks")).unwrap();
        let found = fixture.find("w");
        let expected = ["w/lib/gone/../../tools/fsm.sh", "w/.git/modules/bare/../../../edit.sh"];
        for program in expected {
            assert!(
                found.programs.contains(&fixture.path(program)),
                "{program}: {:?}",
                found.programs
            );
        }
    }

    #[test]
    fn programs_are_found_for_each_working_folder() {
        let fixture = RepositoryFixture::new(&["w/tree"]);
        fixture.create_repository("w/.git");
        fixture.write_file("w/.git/config", "[core]\nfsmonitor = ./tools/fsm.sh\n");
        let own = fixture.path("w/.git/worktrees/tree");
        fixture.write_file("w/.git/worktrees/tree/commondir", "../..\n");
        fixture.write_file("w/.git/worktrees/tree/HEAD", "ref: refs/heads/x\n");
        let back = fixture.path("w/tree/.git");
        fixture.write_file("w/.git/worktrees/tree/gitdir", back.to_str().unwrap());
        fixture.write_file("w/tree/.git", &format!("gitdir: {}\n", own.display()));
        let programs = fixture.find("w").programs;
        for program in ["w/./tools/fsm.sh", "w/tree/./tools/fsm.sh"] {
            assert!(programs.contains(&fixture.path(program)), "{program}: {programs:?}");
        }
    }

    #[test]
    fn file_that_a_setting_names_counts_if_it_exists() {
        let fixture = RepositoryFixture::new(&["w"]);
        fixture.create_repository("w/.git");
        fixture.write_file("w/.git/config", "[alias]\nx = !make -f build.mk out src\n");
        fixture.write_file("w/src/main.rs", "");
        assert!(fixture.find("w").programs.is_empty());
        fixture.write_file("w/build.mk", "");
        assert_eq!(fixture.find("w").programs, BTreeSet::from([fixture.path("w/build.mk")]));
    }

    #[test]
    fn hooks_folder_beside_a_nested_repository_is_held() {
        let fixture = RepositoryFixture::new(&["w/hooks", "home"]);
        fixture.create_repository("w/sub/.git");
        fixture.write_file("w/sub/.git/config", "[core]\nhooksPath = ../hooks\n");
        let found = fixture.find("w");
        assert!(found.held_paths.contains(&fixture.path("w/hooks")));
        // Not one that contains the repository.
        fixture.write_file("w/sub/.git/config", "[core]\nhooksPath = ..\n");
        assert!(!fixture.find("w").held_paths.contains(&fixture.path("w")));
    }

    #[test]
    fn configuration_that_is_too_large_is_reported() {
        let fixture = RepositoryFixture::new(&["w"]);
        fixture.create_repository("w/.git");
        let branch = "[branch \"x\"]\nremote = origin\n";
        fixture.write_file("w/.git/config", &branch.repeat(10_000));
        assert!(fixture.find("w").unbounded_configs.is_empty());
        fixture.write_file("w/.git/config", &branch.repeat(50_000));
        assert_eq!(fixture.find("w").unbounded_configs, [fixture.path("w/.git/config")]);
        // Git does not run with a malformed one.
        fixture.write_file("w/.git/config", "[core");
        let found = fixture.find("w");
        assert_eq!(found.unread_configs, [fixture.path("w/.git/config")]);
        assert!(found.unbounded_configs.is_empty());
        // Each program counts.
        let alias = |number: usize| format!("a{number} = !./tool{number}\n");
        let text: String = (0..=PROGRAMS_MAX).map(alias).collect();
        fixture.write_file("w/.git/config", &format!("[alias]\n{text}"));
        assert_eq!(fixture.find("w").unbounded_configs, [fixture.path("w/.git/config")]);
    }

    #[test]
    fn files_that_the_user_config_includes_are_held() {
        let fixture = RepositoryFixture::new(&["w"]);
        fixture.write_file("home/.gitconfig", "[include]\npath = ../w/team.ini\n");
        fixture.write_file("w/team.ini", "");
        assert!(fixture.find("w").held_paths.contains(&fixture.path("w/team.ini")));
    }

    #[test]
    fn worktree_opens_repository_only_if_linked_back() {
        let fixture = RepositoryFixture::new(&["tree"]);
        fixture.create_repository("main/.git");
        let own = fixture.path("main/.git/worktrees/tree");
        fixture.write_file("main/.git/worktrees/tree/commondir", "../..\n");
        fixture.write_file(
            "main/.git/worktrees/tree/gitdir",
            fixture.path("tree/.git").to_str().unwrap(),
        );
        fixture.write_file("tree/.git", &format!("gitdir: {}\n", own.display()));
        let found = fixture.find("tree");
        assert_eq!(found.writable, [fixture.path("main/.git")]);
        assert!(found.folders.contains(&fixture.path("main/.git/hooks")));
        assert!(found.held_paths.contains(&fixture.path("tree/.git")));
        // A repository of another worktree.
        fixture.write_file("evil/.git", &format!("gitdir: {}\n", own.display()));
        assert!(fixture.find("evil").writable.is_empty());
        // Its own, except for the shared folder.
        fixture.write_file(
            "evil/fake/worktrees/x/commondir",
            fixture.path("main/.git").to_str().unwrap(),
        );
        fixture.write_file(
            "evil/fake/worktrees/x/gitdir",
            fixture.path("evil/.git").to_str().unwrap(),
        );
        fixture.write_file("evil/.git", "gitdir: fake/worktrees/x\n");
        assert!(fixture.find("evil").writable.is_empty());
        // By a link to the known worktree's file.
        fs::remove_file(fixture.path("evil/.git")).unwrap();
        std::os::unix::fs::symlink(fixture.path("tree/.git"), fixture.path("evil/.git")).unwrap();
        assert!(fixture.find("evil").writable.is_empty());
        fs::remove_file(fixture.path("evil/.git")).unwrap();
        // The main repository itself.
        fixture
            .write_file("evil/.git", &format!("gitdir: {}\n", fixture.path("main/.git").display()));
        assert!(fixture.find("evil").writable.is_empty());
    }

    #[test]
    fn submodule_opens_repository_only_if_linked_back() {
        let fixture = RepositoryFixture::new(&["top/sub", "evil"]);
        fixture.create_repository("top/.git/modules/sub");
        fixture.write_file("top/.git/modules/sub/config", "[core]\nworktree = ../../../sub\n");
        fixture.write_file("top/sub/.git", "gitdir: ../.git/modules/sub\n");
        assert_eq!(fixture.find("top/sub").writable, [fixture.path("top/.git/modules/sub")]);
        fixture.write_file("evil/.git", "gitdir: ../top/.git/modules/sub\n");
        assert!(fixture.find("evil").writable.is_empty());
    }

    trait JoinPaths {
        fn join_all(&self, folder: &Path) -> Vec<PathBuf>;
    }

    impl JoinPaths for [&str] {
        fn join_all(&self, folder: &Path) -> Vec<PathBuf> {
            self.iter().map(|name| folder.join(name)).collect()
        }
    }
}
