//! The git repositories of a workspace: what a command may change in them so that git works, and
//! what it may not because git would run it later.
//!
//! A `.git` file names another folder. A command could have written it, so that folder becomes
//! writable only if it points back at this workspace, which no command can forge.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_sandbox::path_survey::{self, ChangeStamp, ScanOutcome};
use zero_sandbox::{FileType, quarantine};

use super::folder_scanner::{FolderScanResult, WritableRoots};
use super::helper_programs::list_program_files;
use super::protected_settings::UNHELD_ENTRIES_MAX;
use crate::local_machine::{self, HelperValue, PointerTarget, RepositoryLocation};

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
    pub(crate) held: Vec<PathBuf>,
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
    /// Files with settings of git that cannot be read, or that include too many others.
    pub(crate) unread_configs: Vec<PathBuf>,
    /// The number of repositories that are read-only.
    pub(crate) closed: usize,
    /// Paths beyond the mount limit, with a stamp that shows later changes.
    pub(crate) unheld: Vec<(PathBuf, Option<ChangeStamp>)>,
    /// Files that git runs because a configuration names them, as written, with descriptions.
    pub(crate) programs: Vec<(PathBuf, &'static str)>,
    /// The hooks folders that the user's own configuration names, for every repository.
    hooks_of_user: Vec<String>,
    /// The programs that it names, likewise.
    helpers_of_user: Vec<HelperValue>,
    /// Submodules that are still to be inspected.
    pending: Vec<(PathBuf, usize)>,
}

/// A path that must not be created beneath a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForbiddenPath {
    pub(crate) folder: PathBuf,
    pub(crate) relative: PathBuf,
    pub(crate) why: &'static str,
}

/// Lists what must be protected in the repositories that were found.
pub(crate) fn find_repositories(
    scope: &WritableRoots,
    found: &FolderScanResult,
) -> GitRepositories {
    let mut all = GitRepositories::default();
    // The user's own configuration may name files of the workspace.
    for config in scope.home.iter().flat_map(|home| USER_CONFIGS.map(|name| home.join(name))) {
        all.protect_included_files(&config, scope);
        all.hooks_of_user.extend(read_hooks_paths(&config, scope));
        all.helpers_of_user.extend(read_helpers(&config, scope));
    }
    for root in &scope.roots {
        all.add_root(root, scope);
    }
    for folder in &found.repositories {
        all.add_nested(folder, scope);
    }
    // Last, so that a repository with many submodules displaces no other one. The loop ends because
    // each nested repository has a smaller depth limit.
    while let Some((module, depth)) = all.pending.pop() {
        all.protect_git_folder(&module, None, scope, depth);
    }
    all
}

/// The git folder that the `.git` file of a working folder names, if it points back.
pub(super) fn find_linked_folder(work: &Path) -> Option<PathBuf> {
    LinkedGitFolders::find(work).map(|linked| linked.outermost_folder().to_owned())
}

impl GitRepositories {
    /// The protected paths that may contain links to files that git runs or reads.
    pub(crate) fn linking_paths(&self) -> Vec<PathBuf> {
        let held = self.held.iter().filter(|path| !self.uninspected.contains(*path));
        let (whole, single): (Vec<&PathBuf>, Vec<&PathBuf>) =
            held.partition(|path| self.git_folders.contains(*path));
        let names = || HELD_FOLDERS.iter().chain(HELD_FILES).chain(REMOTE_FOLDERS);
        let inner = whole.into_iter().flat_map(|git| names().map(|name| git.join(name)));
        let own = self.folders.iter().chain(&self.files).chain(single).cloned();
        own.chain(inner).collect()
    }

    fn add_root(&mut self, root: &Path, scope: &WritableRoots) {
        let git = root.join(".git");
        if is_link(&git) {
            self.links.push(git.clone());
        }
        if path_survey::exists(&git) {
            self.work_folders.insert(root.to_owned());
        }
        match path_survey::file_type(&git) {
            Some(FileType::Directory) => {
                if let Some(git) = path_survey::canonicalize(&git) {
                    self.protect_git_folder(&git, Some(root), scope, DEPTH_MAX);
                }
            }
            Some(FileType::File) if !is_link(&git) => {
                self.held.push(git.clone());
                if let Some(linked) = LinkedGitFolders::find(root) {
                    let folder = linked.outermost_folder();
                    if !scope.roots.iter().any(|root| folder.starts_with(root)) {
                        self.writable.push(folder.to_owned());
                    }
                    self.protect_git_folder(folder, Some(root), scope, DEPTH_MAX);
                }
            }
            _ => {}
        }
        // Where its files lead, or the workspace itself, such as a bare repository.
        self.protect_location(root, scope);
    }

    fn add_nested(&mut self, folder: &Path, scope: &WritableRoots) {
        let git = folder.join(".git");
        if is_link(&git) {
            self.links.push(git);
        } else {
            match path_survey::file_type(&git) {
                // Not a repository yet for git; if it becomes one, it counts as new.
                Some(FileType::Directory)
                    if !is_initialized(&git) && !local_machine::may_be_git_folder(folder) =>
                {
                    return;
                }
                Some(FileType::Directory) | None => {}
                // Wherever it points: it must not change.
                Some(_) => self.held.push(git),
            }
        }
        self.work_folders.insert(folder.to_owned());
        self.protect_location(folder, scope);
    }

    /// Protects every folder that git may use for a working folder, as far as commands can write to
    /// it.
    fn protect_location(&mut self, folder: &Path, scope: &WritableRoots) {
        let Some(found) = RepositoryLocation::find(folder) else { return };
        for git in found.git_folders.iter().filter_map(|git| path_survey::canonicalize(git)) {
            let is_there = path_survey::file_type(&git) == Some(FileType::Directory);
            if is_there && self.find_writable_base(&git, scope).is_some() {
                match path_survey::exists(&git.join("commondir")) {
                    true => self.protect_worktree(&git),
                    false => self.protect_git_folder(&git, Some(folder), scope, DEPTH_MAX),
                }
            }
        }
    }

    /// Protects the folder of a worktree, whose hooks and most settings are in the common folder.
    fn protect_worktree(&mut self, git: &Path) {
        if self.worktrees.insert(git.to_owned()) {
            self.files.push(git.join("config.worktree"));
            for pointer in POINTERS {
                self.hold_or_watch(git, Path::new(pointer), REPOSITORY);
            }
        }
    }

    fn find_writable_base(&self, path: &Path, scope: &WritableRoots) -> Option<PathBuf> {
        let writable = scope.roots.iter().chain(&scope.writable).chain(&self.writable);
        writable.into_iter().find(|base| path.starts_with(base)).cloned()
    }

    /// Protects the files in a git folder that git runs or that configure it.
    fn protect_git_folder(
        &mut self,
        git: &Path,
        work: Option<&Path>,
        scope: &WritableRoots,
        depth: usize,
    ) {
        if self.git_folders.contains(git) {
            return;
        }
        if self.git_folders.len() >= LOOKED_AT_MAX {
            return self.watch_changes(git);
        }
        self.git_folders.insert(git.to_owned());
        match list_submodules(&git.join("modules")) {
            Some(found) if depth > 0 || found.is_empty() => {
                self.pending.extend(found.into_iter().map(|at| (at, depth.saturating_sub(1))));
            }
            // Too many submodules to inspect: the whole folder becomes read-only, so that none can
            // be hidden in it.
            _ => {
                self.held.push(git.join("modules"));
                self.uninspected.insert(git.join("modules"));
            }
        }
        if self.git_folders.len() > OPEN_MAX {
            return self.make_read_only(git);
        }
        self.folders.extend(HELD_FOLDERS.iter().map(|name| git.join(name)));
        self.files.extend(HELD_FILES.iter().map(|name| git.join(name)));
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
        for name in CONFIG_FILES {
            self.protect_included_files(&git.join(name), scope);
        }
        if let Some(work) = work {
            self.protect_hooks_folders(git, work, scope);
            self.protect_programs(git, work, scope);
        }
        let worktrees = list_folders(&git.join("worktrees")).unwrap_or_else(|| {
            self.held.push(git.join("worktrees"));
            self.uninspected.insert(git.join("worktrees"));
            Vec::new()
        });
        for worktree in worktrees {
            self.protect_worktree(&worktree);
        }
    }

    /// Makes a repository read-only, up to the limit.
    fn make_read_only(&mut self, git: &Path) {
        if self.closed < CLOSED_MAX {
            self.closed += 1;
            return self.held.push(git.to_owned());
        }
        self.watch_changes(git);
    }

    /// Notes the state of a repository that cannot be protected, to notice changes.
    fn watch_changes(&mut self, git: &Path) {
        let names = HELD_FOLDERS.iter().chain(HELD_FILES).chain(POINTERS).chain(REMOTE_FOLDERS);
        for name in names.chain(&["modules"]) {
            let path = git.join(name);
            match path_survey::read_tree_stamp(&path, UNHELD_ENTRIES_MAX) {
                None if path_survey::exists(&path) => self.held.push(path),
                stamp => self.unheld.push((path, stamp)),
            }
        }
    }

    /// Protects the files that a configuration includes.
    fn protect_included_files(&mut self, config: &Path, scope: &WritableRoots) {
        match local_machine::list_git_includes(config, scope.home.as_deref()) {
            Some(files) => files.iter().for_each(|file| self.protect_included_file(file, scope)),
            None => self.unread_configs.push(config.to_owned()),
        }
    }

    /// Protects the hooks folders in the working folder that a configuration names.
    fn protect_hooks_folders(&mut self, git: &Path, work: &Path, scope: &WritableRoots) {
        let own = CONFIG_FILES.iter().flat_map(|name| read_hooks_paths(&git.join(name), scope));
        for named in own.chain(self.hooks_of_user.clone()) {
            if let Some(folder) = find_hooks_folder(git, work, &named)
                && let Ok(relative) = folder.strip_prefix(work)
            {
                self.hold_or_watch(work, relative, IN_GIT);
            }
        }
    }

    /// Protects the files in the working folder that git runs because a configuration names them.
    fn protect_programs(&mut self, git: &Path, work: &Path, scope: &WritableRoots) {
        for config in CONFIG_FILES.iter().map(|name| git.join(name)) {
            let helpers = read_helpers(&config, scope);
            for helper in helpers.into_iter().chain(self.helpers_of_user.clone()) {
                let files = match helper.is_path {
                    true => vec![helper.text],
                    false => list_program_files(&helper.text),
                };
                for file in files {
                    if self.programs.len() >= PROGRAMS_MAX {
                        return self.unread_configs.push(config);
                    }
                    let in_home = file
                        .strip_prefix("~/")
                        .and_then(|rest| Some(scope.home.as_ref()?.join(rest)));
                    let path = in_home.unwrap_or_else(|| work.join(&file));
                    let program = (path, PROGRAM);
                    if !self.programs.contains(&program) {
                        self.programs.push(program);
                    }
                }
            }
        }
    }

    fn protect_included_file(&mut self, file: &Path, scope: &WritableRoots) {
        if let Some(base) = self.find_writable_base(file, scope)
            && let Ok(relative) = file.strip_prefix(&base)
        {
            self.hold_or_watch(&base, relative, INCLUDED);
        }
    }

    fn hold_or_watch(&mut self, folder: &Path, relative: &Path, why: &'static str) {
        match path_survey::exists(&folder.join(relative)) {
            true => self.held.push(folder.join(relative)),
            false => self.watch(folder, relative, why),
        }
    }

    fn watch(&mut self, folder: &Path, relative: &Path, why: &'static str) {
        let (folder, relative) = (folder.to_owned(), relative.to_owned());
        self.missing.push(ForbiddenPath { folder, relative, why });
    }
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

/// The git folders of a repository whose `.git` is a file, if they point back at it.
struct LinkedGitFolders {
    own: PathBuf,
    /// The folder that all worktrees share.
    common: Option<PathBuf>,
}

impl LinkedGitFolders {
    fn find(root: &Path) -> Option<Self> {
        let git_file = root.join(".git");
        // A link to another worktree's file would be pointed back at as well.
        if is_link(&git_file) {
            return None;
        }
        let PointerTarget::Folder(named) = local_machine::read_pointer(&git_file, b"gitdir: ")
        else {
            return None;
        };
        let own = path_survey::canonicalize(&named)?;
        match local_machine::read_pointer(&own.join("commondir"), b"") {
            PointerTarget::Folder(common) => {
                let common = path_survey::canonicalize(&common)?;
                let PointerTarget::Folder(back) =
                    local_machine::read_pointer(&own.join("gitdir"), b"")
                else {
                    return None;
                };
                let is_ours = path_survey::canonicalize(&back)? == git_file
                    && own.parent() == Some(&common.join("worktrees"))
                    && local_machine::may_be_git_folder(&common);
                is_ours.then_some(Self { own, common: Some(common) })
            }
            PointerTarget::Missing => {
                let back = local_machine::read_git_values(&own.join("config"), "core.worktree");
                let back = back.last()?;
                let is_ours = path_survey::canonicalize(&own.join(back))?.as_path() == root
                    && local_machine::may_be_git_folder(&own);
                is_ours.then_some(Self { own, common: None })
            }
            PointerTarget::Unknown => None,
        }
    }

    /// The folder that contains all others: a shared one contains those of its worktrees.
    fn outermost_folder(&self) -> &Path {
        self.common.as_deref().unwrap_or(&self.own)
    }
}

fn is_link(path: &Path) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
    matches!(quarantine::inspect(parent, &parent.join(name)), quarantine::EntryKind::Link { .. })
}

/// The hooks folders that a configuration and the files that it includes name.
fn read_hooks_paths(config: &Path, scope: &WritableRoots) -> Vec<String> {
    let included = local_machine::list_git_includes(config, scope.home.as_deref());
    let files = included.unwrap_or_default();
    let files = std::iter::once(config).chain(files.iter().map(PathBuf::as_path));
    files.flat_map(|file| local_machine::read_git_values(file, "core.hookspath")).collect()
}

/// The settings that make git run something, in a configuration and the files that it includes.
fn read_helpers(config: &Path, scope: &WritableRoots) -> Vec<HelperValue> {
    let included = local_machine::list_git_includes(config, scope.home.as_deref());
    let files = included.unwrap_or_default();
    let files = std::iter::once(config).chain(files.iter().map(PathBuf::as_path));
    files.flat_map(local_machine::read_git_helper_values).collect()
}

/// The hooks folder that a configuration names. Not one that contains the repository itself: then
/// nothing could be changed.
fn find_hooks_folder(git: &Path, work: &Path, named: &str) -> Option<PathBuf> {
    let path = path_survey::canonicalize(&work.join(named))?;
    (path != work && !git.starts_with(&path)).then_some(path)
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
            find_repositories(&scope, &scanner.scan(&scope))
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
        assert!(found.held.contains(&fixture.path("w/.git/worktrees/x/gitdir")));
        assert!(found.held.contains(&fixture.path("w/tools/hooks")));
        assert!(found.held.contains(&fixture.path("w/.git/remotes")));
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
        assert_eq!(found.held.iter().filter(|path| closed(path)).count(), CLOSED_MAX);
        let unheld = [HELD_FOLDERS, HELD_FILES, POINTERS, REMOTE_FOLDERS, &["modules"]].concat();
        assert_eq!(found.unheld.len(), unheld.len());
    }

    #[test]
    fn unscannable_modules_folder_is_held_whole() {
        let fixture = RepositoryFixture::new(&[]);
        fixture.create_repository("w/.git");
        let deep: String = (0..=DEPTH_MAX + 1).map(|number| format!("{number}/")).collect();
        fixture.create_repository(&format!("w/.git/modules/{deep}"));
        assert!(fixture.find("w").held.contains(&fixture.path("w/.git/modules")));
        // The same for submodules of submodules.
        fixture.create_repository("x/.git");
        let mut nested = "x/.git".to_owned();
        for _ in 0..=DEPTH_MAX {
            nested.push_str("/modules/m");
            fixture.create_repository(&nested);
        }
        let found = fixture.find("x");
        let innermost = fixture.path(nested.strip_suffix("/m").unwrap());
        assert!(found.held.contains(&innermost), "{:?}", found.held);
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
        assert!(found.held.contains(&fixture.path("w/common.gitconfig")));
        assert!(found.held.contains(&fixture.path("w/more")));
        assert!(!found.held.contains(&fixture.path("home/x")), "no command can write to it");
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
        let mut programs: Vec<PathBuf> =
            found.programs.into_iter().map(|(program, _)| program).collect();
        programs.sort();
        let names = [
            "w/./edit.sh",
            "w/./tools/fsm.sh",
            "w/my tools/gpg",
            "w/sub/./edit.sh",
            "w/tools/alias.sh",
            "w/tools/clean.sh",
        ];
        let mut expected = names.map(|name| fixture.path(name));
        expected.sort();
        assert_eq!(programs, expected);
    }

    #[test]
    fn files_that_the_user_config_includes_are_held() {
        let fixture = RepositoryFixture::new(&["w"]);
        fixture.write_file("home/.gitconfig", "[include]\npath = ../w/team.ini\n");
        fixture.write_file("w/team.ini", "");
        assert!(fixture.find("w").held.contains(&fixture.path("w/team.ini")));
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
        assert!(found.held.contains(&fixture.path("tree/.git")));
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
