//! Files of a workspace that decide what runs later: the judge's own list, looked up in each folder
//! of the workspace, with what was found of it further down.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zero_policy::protected_paths;
use zero_sandbox::path_survey::{self, ChangeStamp};
use zero_sandbox::quarantine::{self, EntryKind};

use super::folder_scanner::{FolderScanResult, WritableRoots};
use crate::command_policy::CommandPolicy;
use crate::tree_watch::WatchedPath;

/// zero's settings of a project: the one name for which an empty folder stands in where it does not
/// exist, since they say who may do what.
const ZERO_SETTINGS: &str = ".zero";
/// What a person's own setting is called in the list of what is protected.
const CONFIGURED: &str = "protected by a setting";

/// How much of what was found further down is held: a wall of many hundred mounts takes seconds.
const DEEP_MAX: usize = 200;

/// What is protected, by how.
#[derive(Debug, Default)]
pub(super) struct ProtectedSettings {
    /// The kernel keeps it as it is.
    pub(super) held: Vec<PathBuf>,
    /// It is looked at afterwards.
    pub(super) watched: Vec<WatchedPath>,
    /// What is held, as it would be watched if another command had made it.
    pub(super) held_names: Vec<WatchedPath>,
    /// What was found further down.
    pub(super) deep: BTreeSet<PathBuf>,
    /// What is too much to be held, with what tells that it was changed.
    pub(super) unheld: Vec<(PathBuf, Option<ChangeStamp>)>,
}

/// Looks all of it up. What a rule lets commands change is left out.
pub(super) fn find_protected_settings(
    ground: &WritableRoots,
    found: &FolderScanResult,
    configured: &[PathBuf],
    policy: &dyn CommandPolicy,
) -> ProtectedSettings {
    let mut all = ProtectedSettings::default();
    let bases: Vec<PathBuf> = [&*ground.roots, &*ground.writable].concat();
    for base in &bases {
        all.protect_zero_settings(base, ground);
        for name in protected_paths::settings_names().filter(|name| name.name != ZERO_SETTINGS) {
            let watched = WatchedPath::new(base, Path::new(name.name), name.why);
            if !policy.may_change(watched.path()) {
                all.add(watched, &bases);
            }
        }
        for path in configured {
            if let Ok(relative) = path.strip_prefix(base) {
                all.add(WatchedPath::new(base, relative, CONFIGURED), &bases);
            }
        }
    }
    for setting in found.settings.iter().filter(|setting| !policy.may_change(&setting.path())) {
        if all.deep.len() < DEEP_MAX {
            all.add(WatchedPath::new(&setting.base, &setting.relative, setting.why), &bases);
        } else {
            all.unheld.push((setting.path(), path_survey::read_stamp(&setting.path())));
        }
        all.deep.insert(setting.path());
    }
    all
}

impl ProtectedSettings {
    fn protect_zero_settings(&mut self, base: &Path, ground: &WritableRoots) {
        let path = base.join(ZERO_SETTINGS);
        let is_there = path_survey::exists(&path);
        // Watched as well: whatever takes away too early what stands in for it opens nothing.
        if !is_there || quarantine::is_empty(&path) {
            self.watched.push(WatchedPath::new(
                base,
                Path::new(ZERO_SETTINGS),
                "zero's own settings",
            ));
        }
        // Where nobody works, nothing is made to stand in.
        if is_there || ground.roots.iter().any(|root| root == base) {
            self.held.push(path);
        }
    }

    fn watch_target(&mut self, real: &Path, roots: &[PathBuf], why: &'static str) {
        let inside = roots.iter().find_map(|root| Some((root, real.strip_prefix(root).ok()?)));
        if let Some((root, relative)) = inside {
            self.watched.push(WatchedPath::new(root, relative, why));
        }
    }

    fn add(&mut self, watched: WatchedPath, roots: &[PathBuf]) {
        let before = watched.inspect();
        match &before {
            EntryKind::Present => {
                self.held.push(watched.path().to_owned());
                return self.held_names.push(watched);
            }
            // What it leads to is held; a link itself cannot be.
            EntryKind::Link { .. } => {
                let real = path_survey::canonicalize(watched.path());
                match real {
                    Some(real) if path_survey::exists(&real) => self.held.push(real),
                    // It leads nowhere yet; what would come to be there must not.
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
    use crate::command_policy::ClosedPolicy;

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
        let ground = WritableRoots { roots: vec![root.clone()], ..WritableRoots::default() };
        let found = find_protected_settings(
            &ground,
            &FolderScanResult::default(),
            &configured,
            &ClosedPolicy,
        );
        let names = [".zero", ".vscode", "shared/idea", "mine"];
        assert_eq!(found.held, names.map(|name| root.join(name)));
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
        assert!(watched(".zero"), "what stands in for it could be gone early");
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
        let ground = WritableRoots { roots: vec![root.clone()], ..WritableRoots::default() };
        let found = super::super::folder_scanner::FolderScanner::default().scan(&ground);
        let found = find_protected_settings(&ground, &found, &[], &ClosedPolicy);
        assert_eq!(found.held.len(), 1 + DEEP_MAX);
        assert_eq!((found.unheld.len(), found.deep.len()), (1, DEEP_MAX + 1));
    }
}
