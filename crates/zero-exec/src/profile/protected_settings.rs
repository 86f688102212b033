//! Workspace files that decide what runs later: the policy's list, looked up in each folder of the
//! workspace, and matches that the scan found further down.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_policy::protected_paths;
use zero_sandbox::path_survey::{self, ChangeStamp, FolderNames};
use zero_sandbox::quarantine::{self, EntryKind};

use super::folder_scanner::{FolderScanResult, WritableRoots};
use super::forbidden_path::UNHELD_ENTRIES_MAX;
use crate::command_policy::CommandPolicy;
use crate::tree_watch::WatchedPath;

/// zero's project settings. The only missing name that gets an empty placeholder, because these
/// settings hold permissions.
const ZERO_SETTINGS: &str = ".zero";
/// The description of a path that the user's own setting protects.
pub(crate) const CONFIGURED: &str = "protected by a setting";

/// Most matches further down that are made read-only: a sandbox with many hundred mounts takes
/// seconds to build.
const DEEP_MAX: usize = 200;

/// The protected paths, by mechanism.
#[derive(Debug, Default)]
pub(super) struct ProtectedSettings {
    /// Made read-only by the kernel.
    pub(super) held_paths: Vec<PathBuf>,
    /// Checked after the command.
    pub(super) watched: Vec<WatchedPath>,
    /// The read-only paths, as they would be watched if another command had created them.
    pub(super) held_names: Vec<WatchedPath>,
    /// What names that are links lead to, each with the name.
    pub(super) link_targets: Vec<(PathBuf, PathBuf)>,
    /// Matches that the scan found further down.
    pub(super) nested_settings: BTreeSet<PathBuf>,
    /// Paths beyond the mount limit, with a stamp that shows later changes.
    pub(super) unmounted: Vec<(PathBuf, Option<ChangeStamp>)>,
}

/// Looks up all protected settings, except those that a rule lets commands change.
pub(super) fn find_protected_settings(
    scope: &WritableRoots,
    found: &FolderScanResult,
    configured: &[PathBuf],
    policy: &dyn CommandPolicy,
) -> ProtectedSettings {
    let mut all = ProtectedSettings::default();
    let bases: Vec<PathBuf> = [&*scope.roots, &*scope.writable].concat();
    for base in &bases {
        all.protect_zero_settings(base, scope);
        let here = FolderNames::list(base);
        for name in protected_paths::settings_names().filter(|name| name.name != ZERO_SETTINGS) {
            let watched = WatchedPath::new(base, Path::new(name.name), name.why);
            if policy.may_change(watched.path()) {
                continue;
            }
            match here.certainly_lacks(Path::new(name.name)) {
                true => all.watched.push(watched),
                false => all.add(watched, &bases),
            }
        }
        for path in configured {
            if let Ok(relative) = path.strip_prefix(base) {
                all.add(WatchedPath::new(base, relative, CONFIGURED).closed_to_rules(), &bases);
            }
        }
    }
    for setting in found.settings.iter().filter(|setting| !policy.may_change(&setting.path())) {
        let stamp = match all.nested_settings.len() < DEEP_MAX {
            true => None,
            false => path_survey::read_tree_stamp(&setting.path(), UNHELD_ENTRIES_MAX),
        };
        match stamp {
            Some(_) => all.unmounted.push((setting.path(), stamp)),
            None => {
                all.add(WatchedPath::new(&setting.base, &setting.relative, setting.why), &bases)
            }
        }
        all.nested_settings.insert(setting.path());
    }
    all
}

impl ProtectedSettings {
    fn protect_zero_settings(&mut self, base: &Path, scope: &WritableRoots) {
        let path = base.join(ZERO_SETTINGS);
        let is_there = path_survey::exists(&path);
        // Also watched: then nothing is lost if the placeholder is removed too early.
        if !is_there || quarantine::is_empty(&path) {
            self.watched.push(
                WatchedPath::new(base, Path::new(ZERO_SETTINGS), "zero's own settings")
                    .closed_to_rules(),
            );
        }
        // No placeholder in a folder that is writable but not part of the workspace.
        if is_there || scope.roots.iter().any(|root| root == base) {
            self.held_paths.push(path);
        }
    }

    fn watch_target(&mut self, real: &Path, roots: &[PathBuf], why: &'static str) {
        let inside = roots.iter().find_map(|root| Some((root, real.strip_prefix(root).ok()?)));
        if let Some((root, relative)) = inside {
            self.watched.push(WatchedPath::new(root, relative, why).closed_to_rules());
        }
    }

    fn add(&mut self, watched: WatchedPath, roots: &[PathBuf]) {
        let before = watched.inspect();
        match &before {
            EntryKind::Present => {
                self.held_paths.push(watched.path().to_owned());
                return self.held_names.push(watched);
            }
            // The target is made read-only; a link itself cannot be.
            EntryKind::Link { .. } => {
                let real = path_survey::canonicalize(watched.path());
                let named = |real: &PathBuf| (real.clone(), watched.path().to_owned());
                self.link_targets.extend(real.as_ref().map(named));
                match real {
                    Some(real) if path_survey::exists(&real) => self.held_paths.push(real),
                    // The target does not exist yet, and must not be created.
                    Some(real) => self.watch_target(&real, roots, watched.why),
                    None => {}
                }
            }
            EntryKind::Missing => {}
        }
        self.watched.push(watched.with_previous(before));
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::command_policy::StrictestPolicy;

    #[test]
    fn existing_settings_are_held_and_missing_are_watched() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for folder in [".vscode", ".github", "shared/idea"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("shared/idea", root.join(".idea")).unwrap();
        std::os::unix::fs::symlink("shared/none", root.join(".fleet")).unwrap();
        std::fs::write(root.join("mine"), "").unwrap();
        let configured = [root.join("mine"), root.join("theirs"), "/elsewhere".into()];
        let scope = WritableRoots { roots: vec![root.clone()], ..WritableRoots::default() };
        let found = find_protected_settings(
            &scope,
            &FolderScanResult::default(),
            &configured,
            &StrictestPolicy,
        );
        let names = [".zero", ".vscode", "shared/idea", "mine"];
        assert_eq!(found.held_paths, names.map(|name| root.join(name)));
        let watched = |name: &str| found.watched.iter().any(|w| w.path() == root.join(name));
        for name in [
            ".github/workflows",
            ".npmrc",
            ".idea",
            "theirs",
            "Jenkinsfile",
            ".fleet",
            "shared/none",
        ] {
            assert!(watched(name), "{name}");
        }
        assert!(watched(".zero"), "its placeholder could be removed too early");
        assert!(!watched(".vscode") && !watched("mine"));
    }

    #[test]
    fn excess_deep_settings_are_only_checked_afterwards() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for number in 0..=DEEP_MAX {
            std::fs::create_dir(root.join(number.to_string())).unwrap();
            std::fs::write(root.join(format!("{number}/.envrc")), "").unwrap();
        }
        let scope = WritableRoots { roots: vec![root.clone()], ..WritableRoots::default() };
        let found = super::super::folder_scanner::FolderScanner::default().scan(&scope);
        let found = find_protected_settings(&scope, &found, &[], &StrictestPolicy);
        assert_eq!(found.held_paths.len(), 1 + DEEP_MAX);
        assert_eq!((found.unmounted.len(), found.nested_settings.len()), (1, DEEP_MAX + 1));
    }
}
