//! Hides the home folder from commands, except for what builds need.
//!
//! A file of the home folder that is outside the workspace is not read without a question, whatever
//! program reads it. So a home folder is hidden as a whole, and [`HOME_ENTRIES`], toolchains that
//! variables name, the workspace, and what settings, rules or the judgement of the call open are
//! visible in it. Credentials among them stay hidden.
//!
//! A home folder that the workspace contains is part of the workspace, and only credentials are
//! hidden in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_sandbox::FileType;
use zero_sandbox::path_survey::{self, LinkTracer};

use super::existing_entries::ExistingEntries;
use super::home_entries::{
    FOLDER_VARIABLES, GOPATH_ENTRIES, HOME_ENTRIES, MOVED_FOLDERS, PREFIX_ENTRIES,
};
use crate::command_settings::CommandSettings;
use crate::git_facts;

/// Folders of the system. A variable that takes one for a home folder does not hide it.
const SYSTEM_FOLDERS: &[&str] = &[
    "/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/nix", "/opt", "/proc", "/run", "/sbin",
    "/snap", "/srv", "/sys", "/usr", "/var",
];

/// The folders of a user's own, and what every command can read in them.
#[derive(Debug, Default)]
pub(crate) struct HomeFolders {
    /// The folders, with links resolved.
    hidden: Vec<PathBuf>,
    /// The same folders as they are usually written.
    written: Vec<PathBuf>,
    /// What every command can read in them, if it exists.
    readable: Vec<PathBuf>,
    /// What settings open, with all that is in it.
    opened: Vec<PathBuf>,
}

/// What one command sees of the home folders.
#[derive(Debug, Default)]
pub(crate) struct HomeView {
    /// The folders that are hidden.
    pub(crate) hidden: Vec<PathBuf>,
    /// What is visible in them.
    pub(super) readable: Vec<PathBuf>,
    /// A hidden file that may be visible by another name.
    pub(crate) exposed: Option<PathBuf>,
}

/// What a command needs besides what every command can read.
#[derive(Clone, Copy)]
pub(super) struct HomeNeeds<'a> {
    /// The folders of the workspace, and others that it may change.
    pub(super) work: &'a [PathBuf],
    /// What rules open, with all that is in it.
    pub(super) opened: &'a [PathBuf],
    /// The files and folders that the command was judged to read.
    pub(super) judged: &'a BTreeSet<PathBuf>,
    /// What must stay hidden.
    pub(super) masked: &'a [PathBuf],
}

impl HomeFolders {
    /// The home folders of the user who runs commands in a workspace whose first folder is `root`.
    pub(super) fn find(settings: &CommandSettings, homes: &[PathBuf], root: &Path) -> Self {
        let value = |name: &str| {
            let (_, value) = settings.environment.iter().find(|(n, _)| n == name)?;
            Some(value.as_str()).filter(|value| !value.is_empty())
        };
        let moved: Vec<(PathBuf, &str)> = MOVED_FOLDERS
            .iter()
            .filter_map(|(name, folder)| Some((root.join(value(name)?), *folder)))
            .collect();
        let mut found = Self { opened: settings.readable.clone(), ..Self::default() };
        for folder in homes.iter().chain(moved.iter().map(|(path, _)| path)) {
            found.hide(folder);
        }
        for home in homes {
            found.readable.extend(HOME_ENTRIES.iter().map(|name| home.join(name)));
        }
        for (path, folder) in &moved {
            let entries = HOME_ENTRIES.iter().map(Path::new);
            let entries = entries.filter_map(|entry| entry.strip_prefix(folder).ok());
            found.readable.extend(entries.map(|entry| path.join(entry)));
        }
        let folders = FOLDER_VARIABLES.iter().filter_map(|name| value(name));
        let folders = folders.flat_map(|folders| folders.split(':')).filter(|it| !it.is_empty());
        found.readable.extend(folders.map(|folder| root.join(folder)));
        for folder in value("GOPATH").into_iter().flat_map(|folders| folders.split(':')) {
            found.readable.extend(GOPATH_ENTRIES.iter().map(|name| root.join(folder).join(name)));
        }
        for folder in value("PATH").into_iter().flat_map(|folders| folders.split(':')) {
            found.add_search_folder(Path::new(folder));
        }
        let is_home = |path: &PathBuf| found.written.iter().any(|home| home.starts_with(path));
        found.readable = found.readable.iter().filter(|path| !is_home(path)).cloned().collect();
        found.readable.sort();
        found.readable.dedup();
        found
    }

    fn hide(&mut self, folder: &Path) {
        let Some(real) = path_survey::canonicalize(folder) else { return };
        let is_folder = path_survey::file_type(&real) == Some(FileType::Directory);
        let is_system = SYSTEM_FOLDERS.iter().any(|system| Path::new(system).starts_with(&real))
            || ["/usr", "/etc", "/nix"].iter().any(|system| real.starts_with(system));
        if is_folder && !is_system && !self.hidden.contains(&real) {
            self.hidden.push(real.clone());
        }
        self.written.extend([folder.to_owned(), real]);
    }

    /// Adds a folder in which programs are searched, and what is installed with it.
    fn add_search_folder(&mut self, folder: &Path) {
        if !folder.is_absolute() {
            return;
        }
        self.readable.push(folder.to_owned());
        let is_bin = folder.file_name().is_some_and(|name| name == "bin" || name == "sbin");
        let Some(prefix) = folder.parent().filter(|_| is_bin) else { return };
        // Files beside `~/bin` and `~/.local/bin` belong to the user.
        let is_own = |home: &PathBuf| prefix == home || prefix == home.join(".local");
        if !self.written.iter().any(is_own) {
            self.readable.extend(PREFIX_ENTRIES.iter().map(|name| prefix.join(name)));
        }
    }

    /// What a command with these needs sees.
    pub(super) fn view_for(&self, needs: HomeNeeds<'_>) -> HomeView {
        let opened: Vec<PathBuf> =
            self.opened.iter().chain(needs.opened).filter_map(|path| find_real(path)).collect();
        let is_open = |home: &PathBuf| {
            let whole = opened.iter().chain(needs.work);
            whole.into_iter().any(|path| home.starts_with(path)) || needs.judged.contains(home)
        };
        let hidden: Vec<PathBuf> =
            self.hidden.iter().filter(|home| !is_open(home)).cloned().collect();
        if hidden.is_empty() {
            return HomeView::default();
        }
        let mut entries = ExistingEntries::default();
        let mut exists = |path: &PathBuf| {
            let home = self.written.iter().find(|home| path.starts_with(home));
            home.is_none_or(|home| entries.may_exist(home, path)) && path_survey::exists(path)
        };
        let usual = self.readable.iter().filter(|path| exists(path)).cloned();
        let repositories = needs.work.iter().flat_map(|root| find_repositories(root, &hidden));
        let judged = needs.judged.iter().cloned();
        let mut readable: Vec<PathBuf> = needs
            .work
            .iter()
            .cloned()
            .chain(repositories)
            .chain(opened.iter().cloned())
            .chain(judged)
            .chain(usual)
            .collect();
        // A workspace in a masked folder was chosen nevertheless.
        let is_masked = |path: &PathBuf| {
            needs.masked.iter().any(|masked| path.starts_with(masked)) && !needs.work.contains(path)
        };
        let is_in_home = |path: &Path| {
            self.written.iter().any(|home| path.starts_with(home) && path != home.as_path())
        };
        readable.retain(|path| is_in_home(path) && !is_masked(path));
        readable.sort();
        // The contents of a visible folder are visible.
        readable.dedup_by(|later, earlier| later.starts_with(earlier));
        retain_outside(&mut readable, &needs);
        HomeView { hidden, readable, exposed: None }
    }

    /// What a program of the settings needs: the folder in which it starts, and the project, or else
    /// the folder, of each file in a home folder that the words of its command line name.
    pub(super) fn list_named_folders(
        &self,
        words: &[String],
        start: Option<&Path>,
    ) -> BTreeSet<PathBuf> {
        let named = words.iter().map(Path::new).filter(|word| word.is_absolute());
        let folder_of = |path: &Path| {
            let real = find_real(path)?;
            let home = self.hidden.iter().find(|home| real.starts_with(home))?;
            let folders = || real.ancestors().skip(1).take_while(|folder| folder != home);
            let project = folders().find(|folder| is_project(folder));
            Some(project.or(folders().next()).unwrap_or(&real).to_owned())
        };
        let is_home = |folder: &&Path| self.hidden.iter().any(|home| home.starts_with(folder));
        let start = start.filter(|folder| !is_home(folder)).map(Path::to_owned);
        named.filter_map(folder_of).chain(start).collect()
    }
}

/// The repositories outside a folder of the workspace without which git does not work in it: the
/// one around it, and the one to which it is linked.
fn find_repositories(root: &Path, hidden: &[PathBuf]) -> Vec<PathBuf> {
    let is_inside =
        |folder: &&Path| hidden.iter().any(|home| *folder != home && folder.starts_with(home));
    let mut folders = root.ancestors().take_while(is_inside);
    let Some(work) = folders.find(|folder| path_survey::exists(&folder.join(".git"))) else {
        return Vec::new();
    };
    let linked = git_facts::find_linked_folder(work);
    linked.into_iter().chain([work.to_owned()]).collect()
}

/// Removes the paths that lead into a masked folder by a link.
fn retain_outside(readable: &mut Vec<PathBuf>, needs: &HomeNeeds<'_>) {
    let mut tracer = LinkTracer::default();
    let mut has_link = |path: &PathBuf| tracer.canonicalize(path).as_ref() != Some(path);
    // Most home folders have no links, and then the masked paths need not be resolved.
    if !readable.iter().any(&mut has_link) && needs.opened.is_empty() && needs.judged.is_empty() {
        return;
    }
    let masked = needs.masked.iter().filter_map(|path| tracer.canonicalize(path));
    let masked: Vec<PathBuf> = masked.collect();
    readable.retain(|path| {
        let is_masked = |real: &PathBuf| masked.iter().any(|masked| real.starts_with(masked));
        let real = tracer.canonicalize(path);
        needs.work.contains(path) || real.is_some_and(|real| !is_masked(&real))
    });
}

/// A path that exists, with links resolved.
fn find_real(path: &Path) -> Option<PathBuf> {
    path_survey::exists(path).then(|| path_survey::canonicalize(path)).flatten()
}

/// Names that show that a folder is a project.
const PROJECT_MARKS: &[&str] = &[".git", "package.json", "pyproject.toml", "go.mod", "Cargo.toml"];

/// Whether a folder is a project.
fn is_project(folder: &Path) -> bool {
    PROJECT_MARKS.iter().any(|name| path_survey::exists(&folder.join(name)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[test]
    fn configured_program_opens_its_project_but_no_home() {
        let temp = tempfile::tempdir().unwrap();
        let home = temp.path().canonicalize().unwrap();
        for name in ["servers/one/build", "plain/deep", ".git"] {
            std::fs::create_dir_all(home.join(name)).unwrap();
        }
        for name in ["servers/one/package.json", "servers/one/build/index.js", "plain/x", "y"] {
            std::fs::write(home.join(name), "").unwrap();
        }
        let folders = HomeFolders::find(
            &CommandSettings::default(),
            std::slice::from_ref(&home),
            Path::new("/work"),
        );
        let check = |word: &str, start: Option<&str>, expected: &[&str]| {
            let words = ["node".to_owned(), home.join(word).to_str().unwrap().to_owned()];
            let start = start.map(|name| home.join(name));
            let found = folders.list_named_folders(&words, start.as_deref());
            let expected: BTreeSet<PathBuf> = expected.iter().map(|name| home.join(name)).collect();
            assert_eq!(found, expected, "{word} {start:?}");
        };
        check("servers/one/build/index.js", None, &["servers/one"]);
        check("plain/x", None, &["plain"]);
        check("y", None, &["y"]);
        check("none", Some("plain/deep"), &["plain/deep"]);
        check("none", Some(""), &[]);
    }

    #[test]
    fn system_folder_is_not_taken_for_home() {
        for home in ["/", "/usr", "/usr/share", "/etc", "/nonexistent"] {
            let homes = [PathBuf::from(home)];
            let folders =
                HomeFolders::find(&CommandSettings::default(), &homes, Path::new("/work"));
            assert_eq!(folders.hidden, Vec::<PathBuf>::new(), "{home}");
        }
    }

    #[test]
    fn no_entry_for_builds_is_a_credential() {
        for row in zero_policy::protected_paths::credential_paths() {
            let is_inside = |entry: &&&str| Path::new(entry).starts_with(row.path);
            assert_eq!(HOME_ENTRIES.iter().find(is_inside), None, "{}", row.path);
        }
    }
}
