//! Checks after a command that it created no forbidden files.
//!
//! The kernel can refuse the creation of a name only by a placeholder at that name, and an empty
//! `.vscode` misleads everyone who lists the folder. So most names that decide what runs later are
//! checked when no process of the command is left. New ones are moved to quarantine instead of
//! deleted, because the user may have created them meanwhile.

mod dependency_repositories;
mod known_repository;
mod mounted_paths;
mod repository_checks;
mod watch_registry;
mod watch_report;
mod watched_path;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::text_shortening::excerpt;
use zero_sandbox::output_collector::OutputGate;
use zero_sandbox::path_survey::{self, ChangeStamp};
use zero_sandbox::quarantine::{self, EntryKind, Quarantine};
use zero_sandbox::spawner::Spawner;
use zero_sandbox::{SandboxProfile, Workspace};

use self::mounted_paths::{HiddenMounts, MountedPath};
pub(crate) use self::watch_registry::{WatchRegistry, WatchStart};
use self::watch_report::DENIED_CHANGE;
pub use self::watch_report::{QuarantinedFile, WatchReport};
pub(crate) use self::watched_path::WatchedPath;
use crate::command_policy::CommandPolicy;
use crate::confined_git::ConfinedGit;
use crate::new_files::{ChangeableFolders, NewFiles};
use crate::profile::folder_scanner::{FolderScanResult, SettingPath, WritableRoots};
use crate::profile::forbidden_path::UNHELD_ENTRIES_MAX;
use crate::profile::git_repositories::GitRepositories;
use crate::repository_contents::RepositoryContents;
use crate::sequencer_steps::SequencerSteps;
use crate::watch_lease::{QuarantineList, WatchLease};
use crate::write_failure::CommandLocation;

/// The description of a `.git` file or of a pointer inside a repository.
const REPOSITORY: &str = "a file that says where the repository is";
/// Most files that a command created although a rule denies it, and that are quarantined.
const DENIED_AFTER_MAX: usize = 50_000;
/// The description of a file beyond the mount limit.
const CHANGED: &str = "a file that decides what runs later, which was changed";
/// Longest path in a warning, in characters.
const PATH_CHARS_MAX: usize = 200;

/// The state of the tree before a command.
#[derive(Debug)]
pub(super) struct TreeSnapshot {
    pub(super) start: WatchStart,
    pub(super) scope: WritableRoots,
    /// Paths that do not exist and must not be created.
    pub(super) watched: Vec<WatchedPath>,
    /// Paths that exist and are read-only for the command.
    pub(super) existing: Vec<WatchedPath>,
    /// Existing settings further down, where new ones must not be created.
    pub(super) nested_settings: BTreeSet<PathBuf>,
    /// Paths beyond the mount limit.
    pub(super) unmounted: Vec<(PathBuf, Option<ChangeStamp>)>,
    /// Folders that could not be scanned completely.
    pub(super) overlooked: Vec<PathBuf>,
    /// What the repositories hold.
    pub(super) contents: RepositoryContents,
    /// Existing paths that a rule denies commands to change, if any rule does.
    pub(super) denied_changes: Option<BTreeSet<PathBuf>>,
}

/// The state before a command, to be compared with the state after it.
pub struct TreeWatch {
    before: TreeSnapshot,
    /// Paths that exist because another running command created them; that command's watch
    /// quarantines them.
    inherited: Vec<WatchedPath>,
    watch_registry: Arc<WatchRegistry>,
    work_folders: BTreeSet<PathBuf>,
    git_folders: BTreeSet<PathBuf>,
    worktrees: BTreeSet<PathBuf>,
    /// Folders of repositories outside the writable folders that commands may change.
    opened: Vec<PathBuf>,
    /// The steps of unfinished rebases, by the folder of the repository or worktree.
    steps: BTreeMap<PathBuf, SequencerSteps>,
    /// Folders that could not be inspected before.
    uninspected: BTreeSet<PathBuf>,
    /// The number of read-only repositories.
    closed: usize,
    policy: Arc<dyn CommandPolicy>,
    quarantine: Quarantine,
    /// Reads the repositories afterwards.
    git: ConfinedGit,
    /// The folders that the command can change; everywhere, if that is not known.
    writable: Option<Vec<PathBuf>>,
    /// The existing paths that a mount made read-only for the command.
    mounted: Vec<MountedPath>,
    /// The existing paths that a mount hides from the command.
    hidden: Arc<HiddenMounts>,
    location: CommandLocation,
}

impl Drop for TreeWatch {
    fn drop(&mut self) {
        let mut missing = self.watch_registry.lock();
        for watched in self.before.watched.iter().chain(&self.inherited) {
            let path = watched.path().as_os_str();
            match missing.get_mut(path) {
                Some(1) => _ = missing.remove(path),
                Some(count) => *count -= 1,
                None => {}
            }
        }
    }
}

impl TreeWatch {
    pub(super) fn new(
        mut before: TreeSnapshot,
        git: &GitRepositories,
        policy: Arc<dyn CommandPolicy>,
        (quarantine, watch_registry): (Quarantine, Arc<WatchRegistry>),
    ) -> io::Result<Self> {
        // After the files were inspected: a command that created one of them is known by now.
        before.start.read_others()?;
        let in_folder = |path: &PathBuf| {
            let watched =
                WatchedPath::new(path.parent()?, Path::new(path.file_name()?), REPOSITORY);
            Some(watched.closed_to_rules())
        };
        let links = git.links.iter().filter_map(in_folder);
        let of_git = git.missing.iter();
        let of_git = of_git.map(|path| WatchedPath::new(&path.folder, &path.relative, path.why));
        let of_git = of_git.map(WatchedPath::closed_to_rules);
        before.watched.extend(of_git.chain(links).map(|watched| {
            let kind = watched.inspect_ignoring_placeholders();
            watched.with_previous(kind)
        }));
        before.unmounted.extend(git.unmounted.iter().cloned());
        let (work_folders, git_folders) = (git.work_folders.clone(), git.git_folders.clone());
        let worktrees = git.worktrees.clone();
        let steps = git_folders.iter().chain(&worktrees);
        let steps = steps.map(|git| (git.clone(), SequencerSteps::read(git))).collect();
        let mut missing = watch_registry.lock();
        let others = &before.start.others;
        let is_new = |held: &WatchedPath| {
            let path = held.path().as_os_str();
            missing.contains_key(path) || others.contains(path)
        };
        let of_git = git.held_paths.iter().filter_map(in_folder);
        let existing = std::mem::take(&mut before.existing);
        let inherited: Vec<WatchedPath> =
            existing.into_iter().chain(of_git).filter(is_new).collect();
        if let Some(lease) = &before.start.lease {
            let paths = before.watched.iter().map(WatchedPath::path);
            lease.publish(paths, inherited.iter().map(WatchedPath::path))?;
        }
        for watched in before.watched.iter().chain(&inherited) {
            match missing.get_mut(watched.path().as_os_str()) {
                Some(count) => *count += 1,
                None => _ = missing.insert(watched.path().into(), 1),
            }
        }
        drop(missing);
        Ok(Self {
            before,
            inherited,
            watch_registry,
            work_folders,
            git_folders,
            worktrees,
            opened: git.writable.clone(),
            steps,
            uninspected: git.uninspected.clone(),
            closed: git.closed,
            policy,
            quarantine,
            git: ConfinedGit::default(),
            writable: None,
            mounted: Vec::new(),
            hidden: Arc::default(),
            location: CommandLocation::default(),
        })
    }

    /// The same watch, of a command that runs here.
    pub(super) fn with_location(mut self, location: CommandLocation) -> Self {
        self.location = location;
        self
    }

    /// Where the command runs.
    pub(crate) fn location(&self) -> &CommandLocation {
        &self.location
    }

    /// The same watch, which reads repositories afterwards in a sandbox like that of the command.
    /// Git is searched in `search_path`.
    pub(super) fn with_profile(mut self, profile: &SandboxProfile, search_path: String) -> Self {
        self.git = ConfinedGit::new(profile, search_path);
        self.writable = Some(profile.writable.clone());
        self.mounted = MountedPath::list(profile);
        self.hidden = Arc::new(HiddenMounts::list(profile));
        self
    }

    /// Withholds the output of the command once another program has replaced a file that is hidden
    /// from it: the command can read the new file. Its earlier output is not affected, because the
    /// files are compared after each piece of output was read.
    pub(crate) fn output_gate(&self) -> OutputGate {
        let (hidden, roots) = (Arc::clone(&self.hidden), self.location.roots.clone());
        Box::new(move || {
            let path = hidden.find_replaced()?;
            let below = roots.iter().find_map(|root| path.strip_prefix(root).ok());
            Some(format!(
                "zero: `{}` is hidden from this command, but another program replaced it while the command ran, and the command can read the new file; the rest of the output is withheld. Run the command again.",
                show_path(below.unwrap_or(path))
            ))
        })
    }

    /// Quarantines forbidden files. Call it when no process of the command is left.
    pub fn finish(&self) -> WatchReport {
        let mut report = WatchReport::default();
        let lease = self.before.start.lease.as_ref();
        lease.into_iter().for_each(WatchLease::begin_check);
        // If the others are not known, nothing is left to them.
        let others = lease.and_then(|lease| lease.read_others().ok()).unwrap_or_default();
        for watched in &self.before.watched {
            self.check_path(watched, &mut report);
        }
        for watched in &self.inherited {
            // A watch that saw the path missing at its start reports more about it.
            let path = watched.path().as_os_str();
            let is_last = self.watch_registry.lock().get(path).is_none_or(|count| *count <= 1);
            if is_last && !others.unchecked.contains(path) {
                self.check_path(watched, &mut report);
            }
        }
        let found = self.watch_registry.scanner.scan(&self.before.scope);
        self.quarantine_deep(&found, &mut report);
        let settings = report.quarantined.len();
        self.check_repositories(&found, &mut report);
        self.check_dependencies(&found, &mut report);
        self.quarantine_denied(&mut report);
        for quarantined in report.quarantined.iter_mut().skip(settings) {
            quarantined.opens_by_rule = false;
        }
        self.quarantine_changed(&mut report);
        self.check_mounts(&mut report);
        self.check_contents(&found, &mut report);
        report.warnings.extend(self.list_gaps(&found));
        report.bound();
        report
    }

    /// Quarantines forbidden settings that exist while the program runs, so that no editor or shell of
    /// the user obeys them until its end.
    pub(crate) fn quarantine_settings(&self) -> WatchReport {
        let mut report = WatchReport::default();
        for watched in &self.before.watched {
            self.check_path(watched, &mut report);
        }
        let found = self.watch_registry.scanner.scan(&self.before.scope);
        self.quarantine_deep(&found, &mut report);
        for (path, why) in self.inspect_dependencies(&found).code {
            self.quarantine_path(&path, &why, &mut report);
        }
        report
    }

    /// The same for what was reported as new.
    pub(crate) fn quarantine_new_settings(&self, new: &NewFiles) -> WatchReport {
        if new.is_incomplete || self.is_beside_workspace(new) {
            return self.quarantine_settings();
        }
        let mut report = WatchReport::default();
        for watched in &self.before.watched {
            self.check_path(watched, &mut report);
        }
        let found = self.watch_registry.scanner.scan_near(&new.paths, &self.before.scope.roots);
        self.quarantine_deep(&found, &mut report);
        report
    }

    /// Whether something was reported in a folder that settings open in addition. Only the scan of
    /// everything knows what may not be there.
    fn is_beside_workspace(&self, new: &NewFiles) -> bool {
        let WritableRoots { roots, writable, .. } = &self.before.scope;
        let is_in = |folders: &[PathBuf], path: &Path| {
            folders.iter().any(|folder| path.starts_with(folder))
        };
        new.paths.iter().any(|path| is_in(writable, path) && !is_in(roots, path))
    }

    /// A forbidden file among what was reported as new. Changes nothing.
    pub(crate) fn find_new_forbidden(&self, new: &NewFiles) -> Option<PathBuf> {
        if new.is_incomplete || self.is_beside_workspace(new) {
            return self.find_forbidden();
        }
        let deep = || {
            let found = self.watch_registry.scanner.scan_near(&new.paths, &self.before.scope.roots);
            self.list_new_settings(&found).next().map(SettingPath::path)
        };
        let git = || new.may_concern_git().then(|| self.find_git_code()).flatten();
        self.find_created().or_else(deep).or_else(git)
    }

    /// The folders in which the program can create forbidden files.
    pub(crate) fn changeable_folders(&self) -> ChangeableFolders {
        let scope = &self.before.scope;
        let names = self.before.watched.iter().filter_map(|watched| watched.path().file_name());
        ChangeableFolders {
            roots: scope.roots.iter().chain(&scope.writable).cloned().collect(),
            excluded: BTreeSet::from([scope.state.clone()]),
            names: names.map(OsStr::to_owned).collect(),
        }
    }

    /// Whether the program can change folders of the workspace.
    pub(crate) fn covers_workspace(&self) -> bool {
        !self.before.scope.roots.is_empty() || !self.before.scope.writable.is_empty()
    }

    /// A forbidden file that exists while the command runs, if there is one. Changes nothing.
    pub fn find_forbidden(&self) -> Option<PathBuf> {
        let deep = || {
            let found = self.watch_registry.scanner.scan(&self.before.scope);
            self.list_new_settings(&found).next().map(SettingPath::path)
        };
        let denied = || {
            let before = self.before.denied_changes.as_ref()?;
            let workspace = Workspace::open(&self.before.scope.roots, None).ok()?;
            let now = self.policy.denied_changes(&workspace, DENIED_AFTER_MAX).unwrap_or_default();
            now.paths.into_iter().find(|path| !before.contains(path))
        };
        let in_dependencies = || {
            let found = self.watch_registry.scanner.scan(&self.before.scope);
            self.inspect_dependencies(&found).code.into_iter().next().map(|(path, _)| path)
        };
        let in_git = || self.find_git_code().or_else(in_dependencies);
        self.find_created().or_else(deep).or_else(denied).or_else(in_git)
    }

    /// A path that exists although it may not be created.
    fn find_created(&self) -> Option<PathBuf> {
        self.before.watched.iter().find_map(|watched| {
            let now = watched.inspect_ignoring_placeholders();
            watched.find_change(&now).map(|at| watched.root().join(at))
        })
    }

    /// Quarantines forbidden files that were created further down.
    fn quarantine_deep(&self, found: &FolderScanResult, report: &mut WatchReport) {
        for setting in self.list_new_settings(found) {
            self.quarantine(&setting.base, &setting.relative, setting.why, report);
        }
    }

    /// The forbidden files further down that were not there before.
    fn list_new_settings<'a>(
        &self,
        found: &'a FolderScanResult,
    ) -> impl Iterator<Item = &'a SettingPath> {
        let start = &self.before.start;
        let QuarantineList { paths: gone, is_full } = start.quarantined_since();
        // Without the whole list, a path that was changed may have been quarantined before.
        let is_gone = move |path: &Path| {
            gone.contains(path)
                || is_full
                    && path_survey::read_stamp(path)
                        .is_none_or(|stamp| stamp.is_changed_since(start.at))
        };
        found.settings.iter().filter(move |setting| {
            let path = setting.path();
            let was_there = self.before.nested_settings.contains(&path) && !is_gone(&path);
            !was_there && self.is_new(&path) && !self.policy.may_change(&path)
        })
    }

    /// Quarantines new files that a rule denies commands to change. Existing files are read-only.
    fn quarantine_denied(&self, report: &mut WatchReport) {
        let Some(before) = &self.before.denied_changes else { return };
        let uninspected = || {
            let roots = self.before.scope.roots.iter();
            let roots: Vec<String> = roots.map(|root| format!("`{}`", root.display())).collect();
            format!(
                "not all files that the command created although a rule denies it could be found in {}: there are too many files, or it cannot be opened; inspect it before you continue",
                roots.join(", ")
            )
        };
        let Ok(workspace) = Workspace::open(&self.before.scope.roots, None) else {
            report.warnings.push(uninspected());
            return;
        };
        let now = self.policy.denied_changes(&workspace, DENIED_AFTER_MAX).unwrap_or_default();
        // Another command may have ended meanwhile, and quarantined a file that was there before.
        let removed_paths = self.before.start.quarantined_since().paths;
        for path in
            now.paths.iter().filter(|path| !before.contains(*path) || removed_paths.contains(*path))
        {
            self.quarantine_path(path, DENIED_CHANGE, report);
        }
        if now.too_many.is_some() {
            report.warnings.push(uninspected());
        }
    }

    /// Quarantines paths beyond the mount limit that were changed.
    fn quarantine_changed(&self, report: &mut WatchReport) {
        for (path, stamp) in &self.before.unmounted {
            if path_survey::read_tree_stamp(path, UNHELD_ENTRIES_MAX) != *stamp
                && path_survey::exists(path)
            {
                self.quarantine_path(path, CHANGED, report);
            }
        }
    }

    /// Reports read-only files that another program replaced meanwhile, because the kernel then takes
    /// the mount away and the command could change the new file. Settings of git that run code and
    /// came with it are quarantined.
    fn check_mounts(&self, report: &mut WatchReport) {
        for mounted in self.mounted.iter().filter(|mounted| mounted.is_replaced()) {
            let path = mounted.path();
            let helpers = mounted.new_helpers();
            if !helpers.is_empty() {
                let why =
                    format!("a file with settings of git that run code ({})", helpers.join(", "));
                self.quarantine_path(path, &why, report);
            }
            report.warnings.push(format!(
                "`{}` was replaced by another program while the command ran, so that the command could change it too; inspect it before you continue",
                show_path(path)
            ));
        }
    }

    /// Reports settings that the command put into a repository without writing them to a file.
    fn check_contents(&self, found: &FolderScanResult, report: &mut WatchReport) {
        let now = RepositoryContents::read(&found.indexed);
        let quarantined = report
            .quarantined
            .iter()
            .map(|quarantined_file| quarantined_file.path.clone())
            .collect();
        let is_open = |path: &Path| self.policy.may_change(path);
        let warnings = now.warnings_since(&self.before.contents, &self.git, is_open, &quarantined);
        report.warnings.extend(warnings);
    }

    /// The writable folder that contains a path, and the path relative to it.
    fn find_base(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        let scope = &self.before.scope;
        let mut bases = scope.roots.iter().chain(&scope.writable).chain(&self.opened);
        bases.find_map(|base| {
            let below = path.strip_prefix(base).ok()?;
            (below != Path::new("")).then(|| (base.clone(), below.to_owned()))
        })
    }

    /// Whether a path that was not seen before may be the command's work. Where the earlier scan
    /// was incomplete, it may have existed.
    fn is_new(&self, path: &Path) -> bool {
        self.before.overlooked.is_empty()
            || path_survey::read_stamp(path)
                .is_none_or(|stamp| stamp.is_changed_since(self.before.start.at))
    }

    /// Quarantines a path. Returns false if that fails.
    fn quarantine(&self, root: &Path, at: &Path, why: &str, report: &mut WatchReport) -> bool {
        let path = root.join(at);
        // A sandbox being prepared for the next command may have a mount on it and would recreate
        // it.
        Spawner::release_shared_prewarmed();
        match self.quarantine.move_in(root, at) {
            Ok(kept_at) => {
                if let Err(error) = self.before.start.record_quarantined(&path) {
                    report.warnings.push(format!(
                        "other zero processes could not be told that `{}` was moved to quarantine ({error}); inspect the workspace when their commands have ended",
                        path.display()
                    ));
                }
                let why = why.to_owned();
                report.quarantined.push(QuarantinedFile {
                    path,
                    kept_at,
                    why,
                    opens_by_rule: true,
                });
                true
            }
            // Another command that ended at the same time was faster.
            Err(_) if !path_survey::exists(&path) => true,
            Err(error) => {
                report.warnings.push(format!(
                    "`{}` is {why}, which commands may not create, and it could not be moved to quarantine ({error}); inspect it before you continue",
                    path.display()
                ));
                false
            }
        }
    }

    /// Quarantines a path in a writable folder, or the link on the way to it.
    fn quarantine_path(&self, path: &Path, why: &str, report: &mut WatchReport) {
        let Some((base, below)) = self.find_base(path) else { return };
        match quarantine::inspect(&base, path) {
            EntryKind::Link { at, .. } => self.quarantine(&base, &at, why, report),
            EntryKind::Present | EntryKind::Missing => self.quarantine(&base, &below, why, report),
        };
    }

    /// Reports what could not be protected.
    fn list_gaps(&self, found: &FolderScanResult) -> Vec<String> {
        let mut gaps = Vec::new();
        let overlooked: BTreeSet<&PathBuf> =
            self.before.overlooked.iter().chain(&found.overlooked).collect();
        if !overlooked.is_empty() {
            let mut shown: Vec<String> =
                overlooked.iter().map(|path| format!("`{}`", show_path(path))).collect();
            let more = found.overlooked_count.saturating_sub(overlooked.len());
            if more > 0 {
                shown.push(format!("{more} more folders"));
            }
            gaps.push(format!(
                "not all repositories and settings that run code could be protected: too many files to scan, or not listable, in {}; files found earlier are still protected; inspect these folders before you open them in an editor or run git there",
                shown.join(", ")
            ));
        }
        for index in &found.unread_indexes {
            gaps.push(format!(
                "`{}` could not be read, so repositories that it lists may not be protected",
                show_path(index)
            ));
        }
        if self.closed > 0 {
            gaps.push(format!(
                "too many repositories: commands can only read {} of them; work in a smaller folder to change those",
                self.closed
            ));
        }
        if !self.before.unmounted.is_empty() {
            gaps.push(format!(
                "not all repositories and settings that run code could be protected: {} files are only checked afterwards; work in a smaller folder",
                self.before.unmounted.len()
            ));
        }
        gaps
    }

    fn check_path(&self, watched: &WatchedPath, report: &mut WatchReport) {
        let (after, before) = (watched.inspect_ignoring_placeholders(), &watched.before);
        let root = watched.root();
        let Some(at) = watched.find_change(&after) else { return };
        let first = report.quarantined.len();
        if path_survey::exists(&root.join(at)) && !self.quarantine(root, at, watched.why, report) {
            return;
        }
        for quarantined in report.quarantined.iter_mut().skip(first) {
            quarantined.opens_by_rule = watched.opens_by_rule;
        }
        if let EntryKind::Link { at, target } = before {
            let shown = root.join(at);
            let (shown, target_shown) = (shown.display(), target.display());
            report.warnings.push(match quarantine::create_link(root, at, target) {
                Ok(()) => format!("the link `{shown}` to `{target_shown}` was restored; commands may not replace it"),
                Err(error) => format!("the link `{shown}` to `{target_shown}` is gone and could not be restored ({error})"),
            });
        }
    }
}

/// A path in a warning that every later result repeats. The end of a long one is left out.
fn show_path(path: &Path) -> String {
    excerpt(&path.display().to_string(), PATH_CHARS_MAX)
}

#[cfg(test)]
mod tests;
