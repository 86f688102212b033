//! The facts about this machine that policy needs.
//!
//! The policy engine is pure; this module answers its questions with bounded lookups of names and
//! small files. It opens nothing that could block and changes nothing.

mod default_registries;
mod glob_expansion;
pub(crate) mod package_registries;
mod private_temp;
mod toolchain_file;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use zero_policy::program::FileAccess;
use zero_policy::{FileSearchOutcome, HostName, Machine, PackageManager, TargetProtection};
use zero_sandbox::{FileType, path_survey};

use self::private_temp::{PrivateTemp, TEMP};
use crate::git_facts;
use crate::host_commands::HostCommands;
use crate::profile::folder_scanner::{FolderScanner, WritableRoots};
use crate::profile::target_protection::ProtectedTargets;

/// Most files and folders visited by all searches of one decision.
const SEARCHED_MAX: usize = 100_000;
/// Longest time that the lookups of one decision take. Facts that are not found by then count as
/// unknown, so that the user is asked.
const LOOKUP_TIME_MAX: Duration = Duration::from_millis(200);
/// Names that are compared between two looks at the clock.
const NAMES_PER_LOOK: usize = 256;
/// Stands for what git would run if there was no time to look.
const NOT_LOOKED_UP: &str = "(the repository was not checked in time)";
/// Most entries of one folder that a pattern is compared with.
const FOLDER_ENTRIES_MAX: usize = 10_000;
/// Folders that are not searched: the search would not end, or their contents change meanwhile.
const UNSEARCHABLE_FOLDERS: &[&str] = &["/", "/proc", "/sys", "/dev"];

/// This machine, for the duration of one decision: lookups are cached.
pub struct LocalMachine<'a> {
    /// Folders in which programs are searched, in order.
    search_path: &'a [PathBuf],
    programs: RefCell<HashMap<String, Option<PathBuf>>>,
    helpers: RefCell<HashMap<PathBuf, Vec<String>>>,
    budget: LookupBudget,
    /// The commands of the host, which have scanned the workspace already.
    commands: Option<&'a HostCommands>,
    /// The temporary folder that commands have of their own.
    temp: Option<PrivateTemp>,
    /// Scans the workspace if there is no host.
    scanner: FolderScanner,
    /// The files that something protected leads to, by the folders of the workspace.
    targets: RefCell<HashMap<Vec<PathBuf>, Rc<ProtectedTargets>>>,
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
            commands: None,
            temp: None,
            scanner: FolderScanner::default(),
            targets: RefCell::default(),
        }
    }

    /// The same machine, with what the commands of a host know about the workspace.
    pub fn with_commands(mut self, commands: Option<&'a HostCommands>) -> Self {
        self.commands = commands;
        self
    }

    /// The same machine, for commands whose private temporary folder is at `folder`, if the sandbox
    /// gives them one. `roots` are the folders of their workspace.
    pub fn with_temp<'p>(
        mut self,
        folder: Option<&Path>,
        roots: impl Iterator<Item = &'p Path>,
    ) -> Self {
        let (Some(folder), Some(commands)) = (folder, self.commands) else { return self };
        let settings = &commands.settings;
        // Without a sandbox that is complete, a command may have the machine's folder.
        if settings.weaknesses.is_empty() {
            let opened = [&settings.writable, &settings.readable, &settings.own].into_iter();
            let opened = opened.flatten().chain(&settings.home).chain([&commands.state]);
            let roots: Vec<&Path> = roots.collect();
            // Commands of a worktree may write to the repository that it belongs to.
            let of_git = roots.iter().filter_map(|root| git_facts::find_linked_folder(root));
            let shown: Vec<PathBuf> = roots
                .iter()
                .map(|root| root.to_path_buf())
                .chain(of_git)
                .chain(opened.cloned())
                .collect();
            let shown = shown.iter().map(PathBuf::as_path);
            self.temp = PrivateTemp::new(folder.to_owned(), shown);
        }
        self
    }

    fn find_targets(&self, roots: &[PathBuf], home: Option<&Path>) -> Rc<ProtectedTargets> {
        if let Some(known) = self.targets.borrow().get(roots) {
            return Rc::clone(known);
        }
        let scope = WritableRoots {
            roots: roots.to_vec(),
            writable: Vec::new(),
            home: home.map(Path::to_owned),
            state: self.commands.map(|commands| commands.state.clone()).unwrap_or_default(),
        };
        let found = Rc::new(ProtectedTargets::find(self.scanner(), scope));
        self.targets.borrow_mut().insert(roots.to_vec(), Rc::clone(&found));
        found
    }

    fn scanner(&self) -> &FolderScanner {
        self.commands.map_or(&self.scanner, |commands| &commands.watch_registry.scanner)
    }
}

impl Machine for LocalMachine<'_> {
    fn canonicalize(&self, absolute: &Path) -> Option<PathBuf> {
        path_survey::canonicalize(absolute).or_else(|| canonicalize_below_file(absolute))
    }

    fn command_path(&self, absolute: &Path, access: FileAccess) -> Option<PathBuf> {
        let Some(temp) = &self.temp else { return self.canonicalize(absolute) };
        let found = temp.canonicalize(absolute, access);
        found.or_else(|| canonicalize_below_file(absolute).filter(|path| !path.starts_with(TEMP)))
    }

    fn is_private_temp(&self, canonical: &Path, access: FileAccess) -> bool {
        self.temp.as_ref().is_some_and(|temp| temp.is_private(canonical, access))
    }

    fn host_path(&self, path: &Path) -> Option<PathBuf> {
        self.temp.as_ref().map(|temp| temp.to_host(path)).filter(|host| host != path)
    }

    fn private_temp(&self) -> Option<&Path> {
        self.temp.as_ref().map(|_| Path::new(TEMP))
    }

    fn expand_glob(&self, pattern: &str, most: usize) -> Option<Vec<PathBuf>> {
        if self.budget.is_spent() {
            return None;
        }
        let in_temp = self.temp.as_ref().and_then(|temp| temp.expand_glob(pattern, most));
        in_temp.unwrap_or_else(|| glob_expansion::expand(pattern, most))
    }

    fn git_helpers(&self, folder: &Path) -> Vec<String> {
        if let Some(known) = self.helpers.borrow().get(folder) {
            return known.clone();
        }
        let found = match self.budget.is_spent() {
            true => vec![NOT_LOOKED_UP.to_owned()],
            false => git_facts::find_git_helpers(folder),
        };
        self.helpers.borrow_mut().insert(folder.to_owned(), found.clone());
        found
    }

    fn registry_hosts(&self, manager: PackageManager, folder: &Path) -> Vec<HostName> {
        let home = self.commands.and_then(|commands| commands.settings.home.as_deref());
        let variables = self.commands.map_or(&[][..], |commands| commands.environment.variables());
        match self.budget.is_spent() {
            true => Vec::new(),
            false => package_registries::find_hosts(manager, folder, home, variables, || {
                let find_program = |name: &str| self.find_program(name, folder);
                let find = || default_registries::find_default_hosts(manager, &find_program, home);
                self.commands
                    .map_or_else(find, |commands| commands.default_registries(manager, find))
            }),
        }
    }

    fn push_repository(&self, folder: &Path, remote: &str) -> Option<PathBuf> {
        let commands = self.commands?;
        let is_path = |text: &str| text.starts_with(['/', '.']);
        let address = match is_path(remote) {
            true => remote.to_owned(),
            false => ["pushurl", "url"].iter().find_map(|key| {
                git_facts::read_setting(folder, &format!("remote.{remote}.{key}"))?.pop()
            })?,
        };
        let address = address.strip_prefix("file://").unwrap_or(&address);
        let path = is_path(address).then(|| path_survey::canonicalize(&folder.join(address)));
        let path = path.flatten()?;
        let is_closed = git_facts::may_be_git_folder(&path) && !commands.may_write(&path, &[]);
        is_closed.then_some(path)
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

    fn git_setting(&self, folder: &Path, name: &str) -> Option<Vec<String>> {
        git_facts::read_setting(folder, name)
    }

    fn git_branch(&self, folder: &Path) -> Option<String> {
        git_facts::read_current_branch(folder)
    }

    fn has_git_branch(&self, folder: &Path, name: &str) -> bool {
        git_facts::has_branch(folder, name)
    }

    fn is_folder(&self, canonical: &Path) -> bool {
        // Looking up `.` needs the permission to enter the folder.
        let on_host = self.temp.as_ref().and_then(|temp| temp.search_root(canonical));
        let folder = on_host.as_deref().unwrap_or(canonical);
        path_survey::file_type(&folder.join(".")) == Some(FileType::Directory)
    }

    fn names_toolchain_folder(&self, file: &Path) -> bool {
        toolchain_file::names_folder(file)
    }

    fn find_file(&self, folder: &Path, matches: &dyn Fn(&Path) -> bool) -> FileSearchOutcome {
        if let Some(temp) = &self.temp
            && let Some(on_host) = temp.search_root(folder)
        {
            return temp.rename_found(search_folder(&on_host, &self.budget, &|path| {
                matches(&temp.to_command(path))
            }));
        }
        match UNSEARCHABLE_FOLDERS.iter().any(|endless| folder == Path::new(endless)) {
            true => FileSearchOutcome::Unfinished,
            false => search_folder(folder, &self.budget, matches),
        }
    }

    fn target_protection(
        &self,
        roots: &[PathBuf],
        home: Option<&Path>,
        canonical: &Path,
    ) -> TargetProtection {
        self.find_targets(roots, home).check(self.scanner(), canonical)
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
    fn only_enterable_folder_is_folder() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        fs::write(root.join("a"), "").unwrap();
        fs::create_dir(root.join("d")).unwrap();
        let is_folder = |name: &str| LocalMachine::new(&[]).is_folder(&root.join(name));
        assert!(is_folder("d"));
        assert!(!is_folder("a"));
        assert!(!is_folder("none"));
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
