//! Repositories in folders of dependencies and build output, such as `node_modules`.
//!
//! Users do not edit files there, and package managers and tests create many, so commands may change
//! everything in them. But an editor or a shell that shows the state of a repository runs git there, and
//! git obeys the settings that it finds. So settings and hooks that run code are quarantined if the
//! command created or changed them. Existing files are not listed before each command: their change
//! times, which programs cannot set, show whether the command changed them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use zero_sandbox::path_survey;

use super::known_repository::KnownRepository;
use super::repository_checks::{CONFIG_FILES, HOOK, code_settings, list_running_hooks};
use super::{REPOSITORY, TreeWatch, WatchReport, show_path};
use crate::git_facts::{self, RepositoryLocation};
use crate::profile::folder_scanner::FolderScanResult;
use crate::profile::git_repositories::{REMOTE_FOLDERS, REMOTES};

/// Most repositories that are remembered.
const KNOWN_MAX: usize = 4_096;

/// What a command left in repositories in folders of dependencies.
#[derive(Debug, Default)]
pub(super) struct DependencyFindings {
    /// What runs code, with a description.
    pub(super) code: Vec<(PathBuf, String)>,
    /// Folders with so many others that not all were searched.
    pub(super) overlooked: Vec<PathBuf>,
    git_folders: BTreeMap<PathBuf, KnownRepository>,
}

impl TreeWatch {
    /// Quarantines what the command left in folders of dependencies.
    pub(super) fn check_dependencies(&self, found: &FolderScanResult, report: &mut WatchReport) {
        let findings = self.inspect_dependencies(found);
        for (path, why) in &findings.code {
            self.quarantine_path(path, why, report);
        }
        self.remember_dependencies(&findings);
        report.warnings.extend(findings.overlooked.first().map(|folder| {
            format!(
                "too many folders of dependencies or build output to search for repositories that run code, from `{}` on; inspect one before you run git in it",
                show_path(folder)
            )
        }));
    }

    /// Finds what the command left in folders of dependencies.
    pub(super) fn inspect_dependencies(&self, found: &FolderScanResult) -> DependencyFindings {
        let may_change = |folder: &&PathBuf| {
            self.writable.as_ref().is_none_or(|writable| {
                writable.iter().any(|open| folder.starts_with(open) || open.starts_with(folder))
            })
        };
        let folders: Vec<PathBuf> =
            found.dependency_folders.iter().filter(may_change).cloned().collect();
        let scan = self.watch_registry.scanner.scan_dependencies(&folders);
        let mut findings =
            DependencyFindings { overlooked: scan.overlooked, ..DependencyFindings::default() };
        let known =
            self.watch_registry.dependencies.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for folder in scan.repositories {
            self.inspect_repository(&folder, &known, &mut findings);
        }
        findings
    }

    /// Remembers the repositories that were left alone.
    fn remember_dependencies(&self, findings: &DependencyFindings) {
        let mut known =
            self.watch_registry.dependencies.lock().unwrap_or_else(PoisonError::into_inner);
        // The number of a removed folder is given to a later one.
        known.retain(|git, checked| KnownRepository::read(git).as_ref() == Some(&*checked));
        for (git, checked) in &findings.git_folders {
            if known.len() < KNOWN_MAX {
                known.insert(git.clone(), checked.clone());
            }
        }
    }

    fn inspect_repository(
        &self,
        folder: &Path,
        known: &BTreeMap<PathBuf, KnownRepository>,
        findings: &mut DependencyFindings,
    ) {
        let Some(location) = RepositoryLocation::find(folder) else { return };
        let pointer = folder.join(".git");
        let outside = |git: &PathBuf| {
            path_survey::canonicalize(git).is_none_or(|git| self.find_base(&git).is_none())
        };
        // A repository elsewhere that runs code, or a pointer that cannot be followed.
        let runs_elsewhere = location
            .git_folders
            .iter()
            .any(|git| outside(git) && !git_facts::list_git_helpers(git).is_empty());
        let pointers = location.unknown_pointers.iter();
        for path in pointers.chain(runs_elsewhere.then_some(&pointer)) {
            if self.is_changed(path) {
                findings.code.push((path.clone(), REPOSITORY.to_owned()));
            }
        }
        for git in location.git_folders.iter().filter(|git| !outside(git)) {
            if self.git_folders.contains(git) {
                // It belongs to a repository whose settings the command could not change.
                continue;
            }
            let now = KnownRepository::read(git);
            let is_known = now.is_some() && known.get(git) == now.as_ref();
            // A repository that was moved here has older files. Git itself changes the folder of the
            // repository whenever it writes the index, so only the folder above it tells.
            let above = git.parent().filter(|above| *above != folder);
            let is_new = !is_known
                && (self.is_changed(folder) || above.is_some_and(|above| self.is_changed(above)));
            let matters = |path: &Path| is_new || self.is_changed(path);
            for config in CONFIG_FILES.iter().map(|name| git.join(name)).filter(|it| matters(it)) {
                if let Some(why) = code_settings(&config) {
                    findings.code.push((config, why));
                }
            }
            let hooks = git.join("hooks");
            // Hooks that were moved here together have older files, too.
            let are_hooks_new = is_new || !is_known && self.is_changed(&hooks);
            let running = match path_survey::is_link(&hooks) {
                true => vec![hooks],
                false => list_running_hooks(&hooks),
            };
            for hook in running.into_iter().filter(|hook| are_hooks_new || matters(hook)) {
                findings.code.push((hook, HOOK.to_owned()));
            }
            for remotes in REMOTE_FOLDERS.iter().map(|name| git.join(name)) {
                if path_survey::exists(&remotes)
                    && !zero_sandbox::quarantine::is_empty(&remotes)
                    && matters(&remotes)
                {
                    findings.code.push((remotes, REMOTES.to_owned()));
                }
            }
            if let Some(now) = now {
                findings.git_folders.insert(git.clone(), now);
            }
        }
    }

    /// Whether a path, or what a link there leads to, changed since the start.
    fn is_changed(&self, path: &Path) -> bool {
        let stamps = [path_survey::read_stamp(path), path_survey::read_target_stamp(path)];
        let since = self.before.start.at;
        stamps.into_iter().flatten().any(|stamp| stamp.is_changed_since(since))
    }
}
