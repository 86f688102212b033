//! Finds what must be protected in the writable folders: one scan for the sandbox and for policy.
//!
//! The sandbox makes these paths read-only or watches them; the judge asks before a tool changes one
//! of them. If the two looked in different places, a file tool could change what commands cannot.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_policy::protected_paths;

use super::folder_scanner::{FolderScanResult, FolderScanner, WritableRoots};
use super::git_repositories::{GitRepositories, find_repositories};
use super::link_targets::{LinkQuery, LinkTargets};
use super::protected_settings::{ProtectedSettings, find_protected_settings};
use super::protection_limit::ProtectionLimit;
use crate::command_policy::CommandPolicy;

/// The description of a file to which a setting in the home folder leads.
const HOME_TARGET: &str =
    "a file to which a link in the home folder leads, which decides what runs later";

/// Everything that must be protected.
pub(super) struct ProtectionScan {
    pub(super) found: FolderScanResult,
    pub(super) git: GitRepositories,
    pub(super) settings: ProtectedSettings,
    /// Where links in all of these lead.
    pub(super) linked: Arc<LinkTargets>,
    /// Where links in the home folder lead.
    pub(super) home: Arc<LinkTargets>,
}

impl ProtectionScan {
    /// Scans the writable folders. `configured` are paths that the user's settings protect. Fails if
    /// there is too much to check: then nothing may be changed.
    pub(super) fn run(
        scanner: &FolderScanner,
        scope: &WritableRoots,
        configured: &[PathBuf],
        policy: &dyn CommandPolicy,
    ) -> Result<Self, ProtectionLimit> {
        let found = scanner.scan(scope);
        let git = find_repositories(scope, &found, scanner);
        if let Some(config) = git.unbounded_configs.first() {
            return Err(unbounded_config(config));
        }
        if let Some(git) = &git.unread_repository {
            return Err(too_many_repositories(git));
        }
        let settings = find_protected_settings(scope, &found, configured, policy);
        let bases = [&*scope.roots, &*scope.writable, &*git.writable].concat();
        let linked = scanner.find_link_targets(LinkQuery {
            protected: [settings.held_paths.clone(), git.linking_paths()].concat(),
            named: git.programs().collect(),
            bases: bases.clone(),
            open: git.git_folders.clone(),
        })?;
        let home = scanner.find_link_targets(LinkQuery {
            protected: Vec::new(),
            named: list_home_settings(scope),
            bases,
            open: git.git_folders.clone(),
        })?;
        Ok(Self { found, git, settings, linked, home })
    }
}

/// The places in the home folder where settings that run code are. Links in it may lead to files of
/// the workspace, such as `~/.bashrc -> ~/dotfiles/bashrc`.
fn list_home_settings(scope: &WritableRoots) -> Vec<(PathBuf, &'static str)> {
    let Some(home) = scope.home.as_deref().filter(|_| !scope.roots.is_empty()) else {
        return Vec::new();
    };
    let settings = protected_paths::settings_names().map(|name| home.join(name.name));
    let git = home.join(".git");
    let hooks = protected_paths::git_names().map(|name| git.join(name.name));
    settings.chain(hooks).map(|path| (path, HOME_TARGET)).collect()
}

fn too_many_repositories(git: &Path) -> ProtectionLimit {
    ProtectionLimit {
        reason: format!(
            "there are too many git repositories to check which programs the settings of `{}` run",
            git.display()
        ),
        advice: "work in a folder with fewer repositories",
    }
}

fn unbounded_config(config: &Path) -> ProtectionLimit {
    ProtectionLimit {
        reason: format!(
            "`{}` has too many settings of git to check which programs they run (at most 1 MiB in a file, 1,000 included files and 1,000 programs)",
            config.display()
        ),
        advice: "remove settings from it, for example those of branches that no longer exist, or work in another folder",
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::command_policy::StrictestPolicy;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn targets_of_links_in_the_home_folder_are_held() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        for folder in ["home/.config", "w/shell/nvim", "w/.git"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("w/shell/bashrc"), "").unwrap();
        symlink(root.join("w/shell/bashrc"), root.join("home/.bashrc")).unwrap();
        symlink(root.join("w/shell/nvim"), root.join("home/.config/nvim")).unwrap();
        symlink(root.join("w/shell/zshrc"), root.join("home/.zshrc")).unwrap();
        symlink(root.join("w/shell/notes"), root.join("home/notes")).unwrap();
        let scope = WritableRoots {
            roots: vec![root.join("w")],
            home: Some(root.join("home")),
            ..WritableRoots::default()
        };
        let scanner = FolderScanner::default();
        let scan = ProtectionScan::run(&scanner, &scope, &[], &StrictestPolicy).unwrap();
        assert_eq!(
            scan.home.held_paths,
            ["bashrc", "nvim"].map(|name| root.join("w/shell").join(name))
        );
        let watched = scan.home.watched.iter().map(|path| path.folder.join(&path.relative));
        assert_eq!(watched.collect::<Vec<_>>(), [root.join("w/shell/zshrc")]);
        fs::create_dir_all(root.join("w/.git/objects")).unwrap();
        fs::write(root.join("w/.git/config"), "[a]\n".repeat(300_000)).unwrap();
        let limit = ProtectionScan::run(&scanner, &scope, &[], &StrictestPolicy).err().unwrap();
        let error = limit.to_error();
        assert_eq!(error.error_type, zero_core::ErrorType::PermissionDenied);
        assert!(error.message.contains(".git/config` has too many settings"), "{}", error.message);
    }
}
