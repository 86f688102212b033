//! Repositories of a workspace: what of them a command may change so that git works, and what it
//! may not, because git would run it later.
//!
//! A `.git` that is a file names another folder. A command could have written it, so that folder is
//! opened for changes only when it points back at this very workspace, which no command can forge.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use zero_sandbox::{FileType, survey};

use crate::machine;

/// What in a repository must not be made: an empty folder stands in for it.
const HELD_FOLDERS: &[&str] = &["hooks"];
/// The same for files; git is at ease with empty ones.
const HELD_FILES: &[&str] = &["config", "config.worktree", "info/attributes"];
/// What makes git take another folder for the repository: held where it is, watched where not.
const POINTERS: &[&str] = &["commondir", "gitdir"];
/// Bytes of a file that says where something is.
const POINTER_BYTES_MAX: u64 = 4_096;

/// How deep repositories inside the workspace are looked for, how many names are looked at for
/// that, and how many repositories are protected.
const DEPTH_MAX: usize = 4;
const NAMES_MAX: usize = 5_000;
const REPOSITORIES_MAX: usize = 64;
/// Folders of other people's code, in which no one works.
const SKIPPED: &[&str] = &["node_modules", "target", ".git"];

/// What is known of the repositories of a workspace.
#[derive(Debug, Default)]
pub(in crate::commands) struct Repositories {
    /// Folders outside the workspace that belong to it.
    pub(super) writable: Vec<PathBuf>,
    /// What must stay as it is, also where it does not exist: folders and files.
    pub(super) folders: Vec<PathBuf>,
    pub(super) files: Vec<PathBuf>,
    /// What must stay as it is and exists.
    pub(in crate::commands) held: Vec<PathBuf>,
    /// Links at which a repository is found.
    pub(in crate::commands) links: Vec<PathBuf>,
    /// What must not come to be, beside what the kernel refuses: beneath a folder, a path.
    pub(in crate::commands) missing: Vec<(PathBuf, PathBuf)>,
    /// Folders in which people work that are repositories.
    pub(in crate::commands) work_folders: BTreeSet<PathBuf>,
    /// The folders in which git keeps them.
    pub(in crate::commands) git_folders: BTreeSet<PathBuf>,
}

/// Finds the repositories of a workspace.
pub(in crate::commands) fn repositories(roots: &[PathBuf]) -> Repositories {
    let mut found = Repositories::default();
    for root in roots {
        found.of_root(root, roots);
        for folder in inner_repositories(root) {
            found.of_inner(&folder);
        }
    }
    found
}

impl Repositories {
    fn of_root(&mut self, root: &Path, roots: &[PathBuf]) {
        let git = root.join(".git");
        if is_link(&git) {
            self.links.push(git.clone());
        }
        if survey::exists(&git) {
            self.work_folders.insert(root.to_owned());
        }
        match survey::kind(&git) {
            Some(FileType::Directory) => {
                if let Some(git) = survey::canonical(&git) {
                    self.of_git(&git, Some(root), DEPTH_MAX);
                }
            }
            Some(FileType::File) if !is_link(&git) => {
                self.held.push(git.clone());
                if let Some(linked) = Linked::of(root) {
                    let folder = linked.outermost();
                    if !roots.iter().any(|root| folder.starts_with(root)) {
                        self.writable.push(folder.to_owned());
                    }
                    self.of_git(folder, Some(root), DEPTH_MAX);
                }
            }
            _ => {}
        }
    }

    fn of_inner(&mut self, folder: &Path) {
        self.work_folders.insert(folder.to_owned());
        let git = folder.join(".git");
        match survey::kind(&git) {
            Some(FileType::Directory) if !is_link(&git) => {
                self.of_git(&git, Some(folder), DEPTH_MAX);
            }
            // Wherever it leads: it must lead there tomorrow.
            Some(FileType::File) if !is_link(&git) => self.held.push(git),
            Some(_) => self.links.push(git),
            None => self.of_git(folder, None, DEPTH_MAX),
        }
    }

    /// Protects what git runs or is steered by in a folder of its own.
    fn of_git(&mut self, git: &Path, work: Option<&Path>, depth: usize) {
        if self.git_folders.len() >= REPOSITORIES_MAX || !self.git_folders.insert(git.to_owned()) {
            return;
        }
        self.folders.extend(HELD_FOLDERS.iter().map(|name| git.join(name)));
        self.files.extend(HELD_FILES.iter().map(|name| git.join(name)));
        for pointer in POINTERS {
            self.hold_or_watch(git, Path::new(pointer));
        }
        if let Some(work) = work
            && let Some(folder) = hooks_path(git, work)
            && let Ok(relative) = folder.strip_prefix(work)
        {
            self.hold_or_watch(work, relative);
        }
        for worktree in folders_in(&git.join("worktrees")) {
            self.files.push(worktree.join("config.worktree"));
            for pointer in POINTERS {
                self.hold_or_watch(&worktree, Path::new(pointer));
            }
        }
        if depth > 0 {
            for module in modules(&git.join("modules")) {
                self.of_git(&module, None, depth - 1);
            }
        }
    }

    fn hold_or_watch(&mut self, folder: &Path, relative: &Path) {
        match survey::exists(&folder.join(relative)) {
            true => self.held.push(folder.join(relative)),
            false => self.missing.push((folder.to_owned(), relative.to_owned())),
        }
    }
}

/// The folders of a repository whose `.git` is a file, which point back at it.
struct Linked {
    own: PathBuf,
    /// The one that all worktrees share.
    common: Option<PathBuf>,
}

impl Linked {
    fn of(root: &Path) -> Option<Self> {
        let git_file = root.join(".git");
        // A link to the file of another worktree would be pointed back at, too.
        if is_link(&git_file) {
            return None;
        }
        let text = pointer(&git_file)?;
        let named = text.strip_prefix("gitdir:")?.trim();
        let own = survey::canonical(&root.join(named))?;
        match pointer(&own.join("commondir")) {
            Some(common) => {
                let common = survey::canonical(&own.join(common))?;
                let back = own.join(pointer(&own.join("gitdir"))?);
                let is_ours = survey::canonical(&back)? == git_file
                    && own.parent() == Some(&common.join("worktrees"))
                    && is_git_folder(&common);
                is_ours.then_some(Self { own, common: Some(common) })
            }
            None => {
                let back = machine::git_setting(&own, "core.worktree")?;
                let is_ours =
                    survey::canonical(&own.join(back))?.as_path() == root && is_git_folder(&own);
                is_ours.then_some(Self { own, common: None })
            }
        }
    }

    /// The folder that holds all of it: a shared one holds those of its worktrees.
    fn outermost(&self) -> &Path {
        self.common.as_deref().unwrap_or(&self.own)
    }
}

fn pointer(path: &Path) -> Option<String> {
    let text = String::from_utf8(survey::small_file(path, POINTER_BYTES_MAX)?).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn is_git_folder(folder: &Path) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|name| survey::exists(&folder.join(name)))
}

fn is_link(path: &Path) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
    let standing = zero_sandbox::kept::look(parent, Path::new(name));
    matches!(standing, zero_sandbox::kept::Standing::Link { .. })
}

/// Another folder for hooks in the folder one works in, when the repository names one. Not one
/// that holds the repository itself: nothing could be changed then.
fn hooks_path(git: &Path, work: &Path) -> Option<PathBuf> {
    let path = work.join(machine::git_setting(git, "core.hookspath")?);
    let path = survey::canonical(&path)?;
    (path != work && !git.starts_with(&path)).then_some(path)
}

/// Repositories of submodules, whose names may have several parts.
fn modules(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open: Vec<(PathBuf, usize)> =
        folders_in(folder).into_iter().map(|folder| (folder, DEPTH_MAX)).collect();
    while let Some((folder, depth)) = open.pop() {
        if survey::exists(&folder.join("HEAD")) {
            found.push(folder);
        } else if depth > 0 {
            open.extend(folders_in(&folder).into_iter().map(|inner| (inner, depth - 1)));
        }
        if found.len() + open.len() > NAMES_MAX {
            break;
        }
    }
    found
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let seen = survey::names(folder, NAMES_MAX).unwrap_or_default();
    seen.into_iter().filter(|seen| seen.is_folder).map(|seen| seen.path).collect()
}

/// Folders inside `root` that are repositories, as far as a bounded look reaches.
fn inner_repositories(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = VecDeque::from([(root.to_owned(), 0)]);
    let mut left = NAMES_MAX;
    while let Some((folder, depth)) = open.pop_front() {
        let Some(names) = survey::names(&folder, left) else { continue };
        left -= names.len();
        let has =
            |name: &str| names.iter().any(|seen| seen.path.file_name() == Some(name.as_ref()));
        let is_repository = has(".git") || ["HEAD", "objects", "refs"].into_iter().all(has);
        if depth > 0 && is_repository {
            found.push(folder);
        }
        let is_skipped = |name: &OsStr| SKIPPED.iter().any(|skipped| name == *skipped);
        let inner = names
            .into_iter()
            .filter(|seen| seen.is_folder && !seen.path.file_name().is_some_and(is_skipped));
        if depth < DEPTH_MAX {
            open.extend(inner.map(|seen| (seen.path, depth + 1)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::fs;

    /// What of the judge's list git itself has to change: the lock that keeps it from changing its
    /// configuration, and the list of a rebase that goes on.
    const LEFT_TO_GIT: &[&str] =
        &["config.lock", "git-rebase-todo", "rebase-merge/git-rebase-todo"];

    struct Place {
        temp: tempfile::TempDir,
    }

    impl Place {
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

        /// A folder with the parts of a repository.
        fn git(&self, name: &str) {
            for folder in ["objects", "refs"] {
                fs::create_dir_all(self.path(name).join(folder)).unwrap();
            }
            fs::write(self.path(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
        }

        fn put(&self, name: &str, text: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), text).unwrap();
        }

        fn found(&self, root: &str) -> Repositories {
            repositories(&[self.path(root)])
        }
    }

    #[test]
    fn everything_on_the_judges_list_is_dealt_with() {
        let known = [HELD_FOLDERS, HELD_FILES, POINTERS, LEFT_TO_GIT].concat();
        for name in zero_policy::protected::git_names() {
            assert!(known.contains(&name.name), "{}", name.name);
        }
    }

    #[test]
    fn a_repository_is_protected_once_there_is_one() {
        let place = Place::new(&["w"]);
        assert!(place.found("w").folders.is_empty());
        place.git("w/.git");
        let found = place.found("w");
        assert_eq!(found.folders, [place.path("w/.git/hooks")]);
        assert_eq!(found.files, HELD_FILES.map_in(&place.path("w/.git")));
        assert!(found.missing.contains(&(place.path("w/.git"), "commondir".into())));
        assert!(found.writable.is_empty());
    }

    #[test]
    fn modules_worktrees_and_inner_repositories_are_found() {
        let place = Place::new(&["w", "w/node_modules"]);
        for git in [
            "w/.git",
            "w/.git/modules/vendor/lib",
            "w/a/b/.git",
            "w/bare.git",
            "w/node_modules/x/.git",
        ] {
            place.git(git);
        }
        place.put("w/.git/worktrees/x/gitdir", "/elsewhere/.git\n");
        place.put("w/.git/config", "[core]\nhooksPath = tools/hooks\n");
        place.put("w/tools/hooks/pre-commit", "");
        let found = place.found("w");
        let folders = ["w/.git", "w/.git/modules/vendor/lib", "w/bare.git", "w/a/b/.git"];
        for folder in folders {
            assert!(found.folders.contains(&place.path(folder).join("hooks")), "{folder}");
        }
        assert_eq!(found.folders.len(), folders.len());
        assert!(found.held.contains(&place.path("w/.git/worktrees/x/gitdir")));
        assert!(found.held.contains(&place.path("w/tools/hooks")));
        assert!(found.files.contains(&place.path("w/.git/worktrees/x/config.worktree")));
    }

    #[test]
    fn a_worktree_opens_its_repository_only_when_that_knows_it() {
        let place = Place::new(&["tree"]);
        place.git("main/.git");
        let own = place.path("main/.git/worktrees/tree");
        place.put("main/.git/worktrees/tree/commondir", "../..\n");
        place.put("main/.git/worktrees/tree/gitdir", place.path("tree/.git").to_str().unwrap());
        place.put("tree/.git", &format!("gitdir: {}\n", own.display()));
        let found = place.found("tree");
        assert_eq!(found.writable, [place.path("main/.git")]);
        assert!(found.folders.contains(&place.path("main/.git/hooks")));
        assert!(found.held.contains(&place.path("tree/.git")));
        // Another's.
        place.put("evil/.git", &format!("gitdir: {}\n", own.display()));
        assert!(place.found("evil").writable.is_empty());
        // One's own in all but the shared folder.
        place.put("evil/fake/worktrees/x/commondir", place.path("main/.git").to_str().unwrap());
        place.put("evil/fake/worktrees/x/gitdir", place.path("evil/.git").to_str().unwrap());
        place.put("evil/.git", "gitdir: fake/worktrees/x\n");
        assert!(place.found("evil").writable.is_empty());
        // By a link to the file of the one that is known.
        fs::remove_file(place.path("evil/.git")).unwrap();
        std::os::unix::fs::symlink(place.path("tree/.git"), place.path("evil/.git")).unwrap();
        assert!(place.found("evil").writable.is_empty());
        fs::remove_file(place.path("evil/.git")).unwrap();
        // The main repository, straight.
        place.put("evil/.git", &format!("gitdir: {}\n", place.path("main/.git").display()));
        assert!(place.found("evil").writable.is_empty());
    }

    #[test]
    fn a_submodule_opens_its_repository_only_when_that_knows_it() {
        let place = Place::new(&["top/sub", "evil"]);
        place.git("top/.git/modules/sub");
        place.put("top/.git/modules/sub/config", "[core]\nworktree = ../../../sub\n");
        place.put("top/sub/.git", "gitdir: ../.git/modules/sub\n");
        assert_eq!(place.found("top/sub").writable, [place.path("top/.git/modules/sub")]);
        place.put("evil/.git", "gitdir: ../top/.git/modules/sub\n");
        assert!(place.found("evil").writable.is_empty());
    }

    trait MapIn {
        fn map_in(&self, folder: &Path) -> Vec<PathBuf>;
    }

    impl MapIn for [&str] {
        fn map_in(&self, folder: &Path) -> Vec<PathBuf> {
            self.iter().map(|name| folder.join(name)).collect()
        }
    }
}
