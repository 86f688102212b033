//! Checks the repositories that a command may have made or changed: git obeys their settings and hooks
//! without a question.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_sandbox::FileType;
use zero_sandbox::path_survey;
use zero_sandbox::quarantine::{self, EntryKind};

use super::{REPOSITORY, TreeWatch, WatchReport, show_path};
use crate::git_facts::{self, RepositoryLocation};
use crate::profile::folder_scanner::FolderScanResult;
use crate::profile::git_repositories::{REMOTE_FOLDERS, REMOTES, find_repositories};
use crate::sequencer_steps::SequencerSteps;

/// The description of a git hook.
pub(super) const HOOK: &str = "a hook, which git runs";
/// Suffix of sample hooks, which git creates in each new repository and does not run.
const SAMPLE_SUFFIX: &str = ".sample";
/// Most hooks of a new repository that are checked.
const HOOKS_MAX: usize = 1_000;
/// Files with the settings of a repository, in its folder.
pub(super) const CONFIG_FILES: &[&str] = &["config", "config.worktree"];
/// A setting that git itself writes in the repository of a submodule. It runs nothing.
const SUBMODULE_SETTING: &str = "core.worktree";
/// The description of the steps of a rebase.
const STEPS: &str = "a list of steps with a command, which git runs when the rebase continues";
/// The description of a folder with more repositories than can be inspected.
const UNINSPECTED: &str =
    "a folder with too many repositories to inspect, any of which can run code";

impl TreeWatch {
    /// A file in a new repository that makes git run code, if one exists while the command runs.
    /// Changes nothing. Unlike editors and shells, git obeys such a file without a question, and the
    /// user works in the same folder meanwhile. Steps of a rebase come and go while git works, so
    /// these are checked at the end only.
    pub fn find_git_code(&self) -> Option<PathBuf> {
        let found = self.watch_registry.scanner.scan(&self.before.scope);
        let now = find_repositories(&self.before.scope, &found, &self.watch_registry.scanner);
        let removed_paths = self.before.start.quarantined_since().paths;
        let in_git = |git: &PathBuf| {
            let hook =
                || self.find_base(&git.join("hooks")).and_then(|at| self.list_hooks(&at).pop());
            let config = self.list_code_configs(git).next().map(|(config, _)| config);
            config.or_else(|| hook().map(|(base, below)| base.join(below)))
        };
        let mut folders =
            now.git_folders.iter().filter(|git| is_new_git(&self.git_folders, &removed_paths, git));
        let in_worktree =
            |git: &PathBuf| self.list_code_configs(git).next().map(|(config, _)| config);
        let mut worktrees =
            now.worktrees.iter().filter(|git| is_new_git(&self.worktrees, &removed_paths, git));
        folders.find_map(in_git).or_else(|| worktrees.find_map(in_worktree))
    }

    /// Quarantines what would run code in new repositories, and new steps of unfinished rebases.
    pub(super) fn check_repositories(&self, found: &FolderScanResult, report: &mut WatchReport) {
        let now = find_repositories(&self.before.scope, found, &self.watch_registry.scanner);
        for folder in now.work_folders.difference(&self.work_folders) {
            self.check_new_pointers(folder, report);
        }
        // Another command's files were known at the start; if they were quarantined since, this
        // command may have created them again.
        let removed_paths = self.before.start.quarantined_since().paths;
        let is_new =
            |known: &BTreeSet<PathBuf>, git: &PathBuf| is_new_git(known, &removed_paths, git);
        for git in now.git_folders.iter().filter(|git| is_new(&self.git_folders, git)) {
            if let Some((base, below)) = self.find_base(&git.join("hooks")) {
                self.quarantine_hooks(&base, &below, report);
            }
            self.quarantine_configs(git, report);
            self.quarantine_remotes(git, report);
            report.warnings.extend(helper_warning(git));
        }
        for worktree in now.worktrees.iter().filter(|git| is_new(&self.worktrees, git)) {
            self.quarantine_configs(worktree, report);
        }
        for folder in now.uninspected.difference(&self.uninspected) {
            self.quarantine_path(folder, UNINSPECTED, report);
        }
        let unread = now.unread_configs.iter().chain(&now.unbounded_configs);
        report.warnings.extend(unread.map(|config| {
            format!("`{}` cannot be read or has too many settings, so not all of its settings could be protected; inspect it before you run git there", show_path(config))
        }));
        let none = SequencerSteps::default();
        for git in now.git_folders.iter().chain(&now.worktrees) {
            let steps = SequencerSteps::read(git);
            let before = match removed_paths.iter().any(|path| path.starts_with(git)) {
                true => &none,
                false => self.steps.get(git).unwrap_or(&none),
            };
            for file in steps.files_added_since(before) {
                self.quarantine_path(&git.join(file), STEPS, report);
            }
        }
    }

    /// Quarantines the file that makes a new repository use a folder elsewhere which runs code, or
    /// one that cannot be followed.
    fn check_new_pointers(&self, folder: &Path, report: &mut WatchReport) {
        let Some(location) = RepositoryLocation::find(folder) else { return };
        let outside = location.git_folders.iter().filter_map(|git| path_survey::canonicalize(git));
        let mut outside = outside.filter(|git| self.find_base(&git.join("config")).is_none());
        let mut pointers = location.unknown_pointers.clone();
        if let Some(git) = outside.find(|git| !git_facts::list_git_helpers(git).is_empty()) {
            report.warnings.extend(helper_warning(&git));
            let own = location.git_folders.first().map(|own| own.join("commondir"));
            let is_own = own.as_ref().is_some_and(|own| own.starts_with(folder));
            pointers.extend(own.filter(|_| is_own));
            pointers.push(folder.join(".git"));
        }
        let is_folder = |path: &Path| path_survey::file_type(path) == Some(FileType::Directory);
        let is_pointer = |path: &PathBuf| match quarantine::inspect(folder, path) {
            EntryKind::Missing => false,
            EntryKind::Present => !is_folder(path),
            EntryKind::Link { .. } => true,
        };
        for pointer in pointers.iter().filter(|path| is_pointer(path) && self.is_new(path)) {
            self.quarantine_path(pointer, REPOSITORY, report);
        }
    }

    /// Quarantines the files with settings of a repository that run code.
    fn quarantine_configs(&self, git: &Path, report: &mut WatchReport) {
        for (config, why) in self.list_code_configs(git) {
            self.quarantine_path(&config, &why, report);
        }
    }

    /// The new files with settings of a repository that run code, with descriptions.
    fn list_code_configs(&self, git: &Path) -> impl Iterator<Item = (PathBuf, String)> {
        CONFIG_FILES.iter().filter_map(move |name| {
            let config = git.join(name);
            let why = code_settings(&config).filter(|_| self.is_new(&config))?;
            Some((config, why))
        })
    }

    /// Quarantines the folders with URLs of remotes. Git creates only an empty one.
    fn quarantine_remotes(&self, git: &Path, report: &mut WatchReport) {
        for folder in REMOTE_FOLDERS.iter().map(|name| git.join(name)) {
            if path_survey::exists(&folder)
                && !quarantine::is_empty(&folder)
                && self.is_new(&folder)
            {
                self.quarantine_path(&folder, REMOTES, report);
            }
        }
    }

    fn quarantine_hooks(&self, base: &Path, hooks: &Path, report: &mut WatchReport) {
        for (base, hook) in self.list_hooks(&(base.to_owned(), hooks.to_owned())) {
            self.quarantine(&base, &hook, HOOK, report);
        }
    }

    /// The new hooks in a folder, or the folder itself if it is a link or cannot be listed. Each is
    /// a base folder and a path relative to it.
    fn list_hooks(&self, (base, hooks): &(PathBuf, PathBuf)) -> Vec<(PathBuf, PathBuf)> {
        let folder = base.join(hooks);
        if let EntryKind::Link { .. } = quarantine::inspect(base, &folder) {
            return vec![(base.clone(), hooks.clone())];
        }
        let new = list_running_hooks(&folder).into_iter().filter(|hook| self.is_new(hook));
        new.filter_map(|hook| Some((base.clone(), hook.strip_prefix(base).ok()?.to_owned())))
            .collect()
    }
}

/// The description of a file with settings of git that run code.
pub(super) fn code_settings(config: &Path) -> Option<String> {
    let mut helpers = git_facts::list_git_config_helpers(config);
    helpers.retain(|helper| helper != SUBMODULE_SETTING);
    (!helpers.is_empty())
        .then(|| format!("a file with settings of git that run code ({})", helpers.join(", ")))
}

/// The hooks in a folder, except samples. The folder itself if it cannot be listed.
pub(super) fn list_running_hooks(folder: &Path) -> Vec<PathBuf> {
    let Some(names) = path_survey::list_sorted(folder, HOOKS_MAX) else {
        return path_survey::exists(folder).then(|| folder.to_owned()).into_iter().collect();
    };
    let runs = |hook: &PathBuf| {
        hook.file_name().is_some_and(|name| !name.to_string_lossy().ends_with(SAMPLE_SUFFIX))
    };
    names.into_iter().map(|hook| hook.path).filter(runs).collect()
}

/// Whether a git folder was not there before the command, or what was quarantined in it may have been
/// made again.
fn is_new_git(known: &BTreeSet<PathBuf>, quarantined: &BTreeSet<PathBuf>, git: &Path) -> bool {
    !known.contains(git) || quarantined.iter().any(|path| path.starts_with(git))
}

fn helper_warning(git: &Path) -> Option<String> {
    let mut helpers = git_facts::list_git_helpers(git);
    let is_submodule = git.components().any(|part| part.as_os_str() == "modules");
    helpers.retain(|helper| !(is_submodule && helper == SUBMODULE_SETTING));
    (!helpers.is_empty()).then(|| {
        format!(
            "the new repository in `{}` configures git to run code ({}); inspect it before you run git there",
            git.display(),
            helpers.join(", ")
        )
    })
}
