//! What is looked after once a command has ended: files that it may not make.
//!
//! The kernel can only refuse a name by something that stands in its place, and an empty `.vscode`
//! misleads whoever lists the folder. So most names that decide what runs later are looked at when
//! nothing of the command is left. One that was not there before is taken away again, and kept: it
//! may be a person's, who made it meanwhile.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use zero_sandbox::path_survey::{self, ChangeStamp};
use zero_sandbox::quarantine::{self, EntryKind, Quarantine};
use zero_sandbox::spawner::Spawner;

use crate::command_policy::CommandPolicy;
use crate::local_machine;
use crate::profile::folder_scanner::{FolderScanResult, FolderScanner, WritableRoots};
use crate::profile::git_repositories::{GitRepositories, STAND_INS, find_repositories};

/// What a link to a repository and a pointer in one are.
const REPOSITORY: &str = "a file that says where the repository is";
/// What git runs.
const HOOK: &str = "a hook, which git runs";
/// Hooks that git does not run, and makes in each new repository.
const SAMPLE_SUFFIX: &str = ".sample";
/// Hooks of a new repository that are looked at.
const HOOKS_MAX: usize = 1_000;
/// Set by git itself in the repository of a submodule.
const SUBMODULE_SETTING: &str = "core.worktree";
/// What one command is told it made; of more there is only the number.
const REPORTED_MAX: usize = 100;
/// What was taken away while other commands ran.
const QUARANTINED_MAX: usize = 10_000;

/// What commands that run now may not make, and how many of them each path is watched for.
///
/// A command that begins while another runs may find what that one made, which looks as if it had
/// always been there. Once it is taken away, the later command must not make it again.
#[derive(Debug, Default)]
pub(super) struct WatchRegistry {
    /// By their bytes: to compare paths part by part takes longer than to look at what lies there.
    missing: Mutex<HashMap<OsString, usize>>,
    taken: Mutex<QuarantinedPaths>,
    pub(super) terrain: FolderScanner,
}

/// What was taken away of what lies further down, where nobody can say beforehand what is missing.
#[derive(Debug, Default)]
struct QuarantinedPaths {
    running: usize,
    paths: Vec<PathBuf>,
}

/// The moment at which a command began.
#[derive(Debug)]
pub(super) struct WatchStart {
    live: Arc<WatchRegistry>,
    at: SystemTime,
    /// How much had been taken away by then.
    taken: usize,
}

impl WatchRegistry {
    /// To be called before anything is looked at.
    pub(super) fn start(self: &Arc<Self>) -> WatchStart {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.running += 1;
        WatchStart { live: Arc::clone(self), at: SystemTime::now(), taken: taken.paths.len() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<OsString, usize>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchStart {
    fn lock_quarantined(&self) -> MutexGuard<'_, QuarantinedPaths> {
        self.live.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was taken away since.
    fn quarantined_since(&self) -> BTreeSet<PathBuf> {
        self.lock_quarantined().paths.iter().skip(self.taken).cloned().collect()
    }
}

impl Drop for WatchStart {
    fn drop(&mut self) {
        let mut taken = self.lock_quarantined();
        taken.running = taken.running.saturating_sub(1);
        if taken.running == 0 {
            taken.paths.clear();
        }
    }
}

/// What was there before a command.
#[derive(Debug)]
pub(super) struct TreeSnapshot {
    pub(super) start: WatchStart,
    pub(super) ground: WritableRoots,
    /// What may not be made, and what is held.
    pub(super) watched: Vec<WatchedPath>,
    pub(super) held: Vec<WatchedPath>,
    /// What lies further down and may not be made there.
    pub(super) deep: BTreeSet<PathBuf>,
    /// What is too much to be held.
    pub(super) unheld: Vec<(PathBuf, Option<ChangeStamp>)>,
    /// Where not everything could be seen.
    pub(super) overlooked: Vec<PathBuf>,
}

/// What was there before a command, to be compared with what is there after it.
pub struct TreeWatch {
    before: TreeSnapshot,
    /// What is there because another command made it, which is to take it away.
    inherited: Vec<WatchedPath>,
    live: Arc<WatchRegistry>,
    work_folders: BTreeSet<PathBuf>,
    git_folders: BTreeSet<PathBuf>,
    /// Repositories that could only be read.
    closed: usize,
    policy: Arc<dyn CommandPolicy>,
    kept: Quarantine,
}

/// A path that commands may not make.
#[derive(Clone, Debug)]
pub(super) struct WatchedPath {
    path: PathBuf,
    /// How much of it is the folder beneath which it lies.
    root_len: usize,
    pub(super) why: &'static str,
    /// What was there: nothing, or a link.
    before: EntryKind,
}

/// What was found once a command had ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchReport {
    /// What was taken away.
    pub taken_away: Vec<QuarantinedFile>,
    /// What a person should look at.
    pub warnings: Vec<String>,
}

/// Something that a command may not make, and made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedFile {
    /// Where it was.
    pub path: PathBuf,
    /// Where it lies now.
    pub kept_at: PathBuf,
    /// What it is.
    pub why: String,
}

impl WatchedPath {
    /// A path beneath a folder, relative to it, as one where nothing was.
    pub(super) fn new(root: &Path, relative: &Path, why: &'static str) -> Self {
        let (path, root_len) = (root.join(relative), root.as_os_str().len());
        Self { path, root_len, why, before: EntryKind::Missing }
    }

    /// The same, where this was.
    pub(super) fn with_previous(self, before: EntryKind) -> Self {
        Self { before, ..self }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn root(&self) -> &Path {
        let bytes = self.path.as_os_str().as_bytes();
        Path::new(OsStr::from_bytes(bytes.get(..self.root_len).unwrap_or(bytes)))
    }

    fn relative(&self) -> &Path {
        self.path.strip_prefix(self.root()).unwrap_or(&self.path)
    }

    /// What lies there now.
    pub(super) fn inspect(&self) -> EntryKind {
        quarantine::inspect(self.root(), &self.path)
    }

    /// The same, but for what is empty and only stands in for it.
    fn inspect_ignoring_placeholders(&self) -> EntryKind {
        match self.inspect() {
            EntryKind::Present
                if is_placeholder(self.relative()) && quarantine::is_empty(&self.path) =>
            {
                EntryKind::Missing
            }
            standing => standing,
        }
    }
}

impl Drop for TreeWatch {
    fn drop(&mut self) {
        let mut missing = self.live.lock();
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
        (kept, live): (Quarantine, Arc<WatchRegistry>),
    ) -> Self {
        let in_folder = |path: &PathBuf| {
            Some(WatchedPath::new(path.parent()?, Path::new(path.file_name()?), REPOSITORY))
        };
        let links = git.links.iter().filter_map(in_folder);
        let of_git = git.missing.iter().map(|m| WatchedPath::new(&m.folder, &m.relative, m.why));
        before.watched.extend(of_git.chain(links).map(|watched| {
            let standing = watched.inspect_ignoring_placeholders();
            watched.with_previous(standing)
        }));
        before.unheld.extend(git.unheld.iter().cloned());
        let (work_folders, git_folders) = (git.work_folders.clone(), git.git_folders.clone());
        let mut missing = live.lock();
        let is_new = |held: &WatchedPath| missing.contains_key(held.path().as_os_str());
        let of_git = git.held.iter().filter_map(in_folder);
        let held = std::mem::take(&mut before.held);
        let inherited: Vec<WatchedPath> = held.into_iter().chain(of_git).filter(is_new).collect();
        for watched in before.watched.iter().chain(&inherited) {
            match missing.get_mut(watched.path().as_os_str()) {
                Some(count) => *count += 1,
                None => _ = missing.insert(watched.path().into(), 1),
            }
        }
        drop(missing);
        let closed = git.closed;
        Self { before, inherited, live, work_folders, git_folders, closed, policy, kept }
    }

    /// Takes away what must not be there. To be called when nothing of the command is left.
    pub fn finish(&self) -> WatchReport {
        let mut settled = WatchReport::default();
        for watched in &self.before.watched {
            self.check_path(watched, &mut settled);
        }
        for watched in &self.inherited {
            // Whoever has watched it from the start tells more about it.
            let is_last =
                self.live.lock().get(watched.path().as_os_str()).is_none_or(|count| *count <= 1);
            if is_last {
                self.check_path(watched, &mut settled);
            }
        }
        let found = self.live.terrain.scan(&self.before.ground);
        self.quarantine_deep(&found, &mut settled);
        self.check_new_repositories(&found, &mut settled);
        let changed = self
            .before
            .unheld
            .iter()
            .filter(|(path, stamp)| path_survey::read_stamp(path) != *stamp);
        settled.warnings.extend(changed.take(REPORTED_MAX).map(|(path, _)| {
            format!("`{}` decides what runs later and was changed; there is too much of that kind here for all of it to be protected, so look at it before you go on", path.display())
        }));
        settled.warnings.extend(self.list_gaps(&found));
        if settled.taken_away.len() > REPORTED_MAX {
            let more = settled.taken_away.len() - REPORTED_MAX;
            settled.taken_away.truncate(REPORTED_MAX);
            settled.warnings.push(format!("{more} more files of that kind were taken away"));
        }
        settled
    }

    /// Takes away what came to be further down.
    fn quarantine_deep(&self, found: &FolderScanResult, settled: &mut WatchReport) {
        let gone = self.before.start.quarantined_since();
        for setting in &found.settings {
            let path = setting.path();
            let was_there = self.before.deep.contains(&path) && !gone.contains(&path);
            if was_there || !self.is_new(&path) || self.policy.may_change(&path) {
                continue;
            }
            self.quarantine(&setting.base, &setting.relative, setting.why, settled);
        }
    }

    /// Whether something that was not seen before may be the command's work. Where not everything
    /// was seen, it may have been there.
    fn is_new(&self, path: &Path) -> bool {
        self.before.overlooked.is_empty()
            || path_survey::read_stamp(path)
                .is_none_or(|stamp| stamp.is_changed_since(self.before.start.at))
    }

    /// Takes something away. False when it cannot be.
    fn quarantine(&self, root: &Path, at: &Path, why: &str, settled: &mut WatchReport) -> bool {
        let path = root.join(at);
        // Walls that are being put up for the next command may lie on it, and would make it anew.
        Spawner::release_shared_prewarmed();
        match self.kept.move_in(root, at) {
            Ok(kept_at) => {
                let mut taken = self.before.start.lock_quarantined();
                if taken.paths.len() < QUARANTINED_MAX {
                    taken.paths.push(path.clone());
                }
                settled.taken_away.push(QuarantinedFile { path, kept_at, why: why.to_owned() });
                true
            }
            // Another command that ended at the same time was quicker.
            Err(_) if !path_survey::exists(&path) => true,
            Err(error) => {
                settled.warnings.push(format!(
                    "`{}` is {why}, which commands may not create, and it cannot be taken away ({error}); look at it before you go on",
                    path.display()
                ));
                false
            }
        }
    }

    /// What could not be protected, for whoever relies on it.
    fn list_gaps(&self, found: &FolderScanResult) -> Vec<String> {
        let mut gaps = Vec::new();
        let overlooked: BTreeSet<&PathBuf> =
            self.before.overlooked.iter().chain(&found.overlooked).collect();
        if !overlooked.is_empty() {
            let shown: Vec<String> =
                overlooked.iter().map(|path| format!("`{}`", path.display())).collect();
            gaps.push(format!(
                "not all repositories and settings that run code could be protected: there are too many files to look through, or they cannot be listed, in {}; what was known before is protected",
                shown.join(", ")
            ));
        }
        if self.closed > 0 {
            gaps.push(format!(
                "there are so many repositories here that commands can only read {} of them; work in a smaller folder to change those",
                self.closed
            ));
        }
        if !self.before.unheld.is_empty() {
            gaps.push(format!(
                "not all repositories and settings that run code could be protected: {} files are only looked at afterwards; work in a smaller folder",
                self.before.unheld.len()
            ));
        }
        gaps
    }

    fn check_path(&self, watched: &WatchedPath, settled: &mut WatchReport) {
        let (after, before) = (watched.inspect_ignoring_placeholders(), &watched.before);
        if after == *before {
            return;
        }
        let (root, relative) = (watched.root(), watched.relative());
        let at = match (before, &after) {
            // The way is barred by a link that was there, now by something else or nothing.
            (EntryKind::Link { at, .. }, _) => at,
            (_, EntryKind::Present) => relative,
            (_, EntryKind::Link { at, .. })
                if at == relative || path_survey::exists(watched.path()) =>
            {
                at
            }
            _ => return,
        };
        if path_survey::exists(&root.join(at)) && !self.quarantine(root, at, watched.why, settled) {
            return;
        }
        if let EntryKind::Link { at, target } = before {
            let shown = root.join(at);
            let (shown, target_shown) = (shown.display(), target.display());
            settled.warnings.push(match quarantine::create_link(root, at, target) {
                Ok(()) => format!("the link `{shown}` to `{target_shown}` was put back; commands may not replace it"),
                Err(error) => format!("the link `{shown}` to `{target_shown}` is gone and cannot be put back ({error})"),
            });
        }
    }

    /// Takes the hooks of repositories that came to be away, and tells what else would run code.
    fn check_new_repositories(&self, found: &FolderScanResult, settled: &mut WatchReport) {
        let ground = &self.before.ground;
        let now = find_repositories(ground, found);
        let new = now.work_folders.difference(&self.work_folders);
        let of_new = new.flat_map(|folder| local_machine::list_git_folders(folder));
        let folders: BTreeSet<PathBuf> = of_new
            .filter_map(|git| path_survey::canonicalize(&git))
            .chain(now.git_folders.iter().cloned())
            .filter(|git| !self.git_folders.contains(git))
            .collect();
        for git in &folders {
            let mut bases = ground.roots.iter().chain(&ground.writable);
            // One that a new pointer leads to may be a person's, elsewhere.
            if let Some(base) = bases.find(|base| git.starts_with(base))
                && let Ok(below) = git.strip_prefix(base)
            {
                self.quarantine_hooks(base, &below.join("hooks"), settled);
            }
            settled.warnings.extend(helper_warning(git));
        }
    }

    fn quarantine_hooks(&self, base: &Path, hooks: &Path, settled: &mut WatchReport) {
        if let EntryKind::Link { .. } = quarantine::inspect(base, &base.join(hooks)) {
            self.quarantine(base, hooks, HOOK, settled);
            return;
        }
        let Some(names) = path_survey::list_sorted(&base.join(hooks), HOOKS_MAX) else {
            if path_survey::exists(&base.join(hooks)) {
                self.quarantine(base, hooks, HOOK, settled);
            }
            return;
        };
        let runs = |name: &OsStr| !name.to_string_lossy().ends_with(SAMPLE_SUFFIX);
        for hook in names.iter().filter(|hook| self.is_new(&hook.path)) {
            if let Some(name) = hook.path.file_name().filter(|name| runs(name)) {
                self.quarantine(base, &hooks.join(name), HOOK, settled);
            }
        }
    }
}

/// Whether something empty stands in for such a path while commands run.
fn is_placeholder(relative: &Path) -> bool {
    STAND_INS.iter().any(|name| relative == Path::new(name))
}

fn helper_warning(git: &Path) -> Option<String> {
    let mut helpers = local_machine::list_git_helpers(git);
    let is_submodule = git.components().any(|part| part.as_os_str() == "modules");
    helpers.retain(|helper| !(is_submodule && helper == SUBMODULE_SETTING));
    (!helpers.is_empty()).then(|| {
        format!(
            "the new repository in `{}` runs code of its own ({}); look before you run git there yourself",
            git.display(),
            helpers.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use crate::command_policy::ClosedPolicy;
    use std::fs;
    use std::os::unix::fs::symlink;
    use zero_sandbox::StateDir;

    struct WatchFixture {
        temp: tempfile::TempDir,
    }

    impl WatchFixture {
        fn new() -> Self {
            let temp = tempfile::tempdir().unwrap();
            for folder in ["work/shared", "outside/workflows"] {
                fs::create_dir_all(temp.path().join(folder)).unwrap();
            }
            Self { temp }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().canonicalize().unwrap().join(name)
        }

        fn watch(&self, names: &[&str]) -> TreeWatch {
            self.watch_with_registry(names, &Arc::default())
        }

        fn watch_with_registry(&self, names: &[&str], live: &Arc<WatchRegistry>) -> TreeWatch {
            let root = self.path("work");
            let watched = names.iter().map(|name| {
                let watched = WatchedPath::new(&root, Path::new(name), "a setting");
                let before = watched.inspect();
                watched.with_previous(before)
            });
            let (held, watched) = watched.partition(|w| w.before == EntryKind::Present);
            let held: Vec<WatchedPath> = held;
            let held = held.into_iter().map(|w| w.with_previous(EntryKind::Missing));
            let ground = WritableRoots { roots: vec![root], ..WritableRoots::default() };
            let start = live.start();
            let found = live.terrain.scan(&ground);
            let git = find_repositories(&ground, &found);
            let kept = Quarantine::new(StateDir::new(self.path("kept")));
            let before = TreeSnapshot {
                start,
                ground,
                watched,
                held: held.collect(),
                deep: found.settings.iter().map(|setting| setting.path()).collect(),
                unheld: Vec::new(),
                overlooked: found.overlooked,
            };
            TreeWatch::new(before, &git, Arc::new(ClosedPolicy), (kept, Arc::clone(live)))
        }

        /// The paths that were taken away.
        fn finish(&self, watch: &TreeWatch) -> Vec<PathBuf> {
            watch.finish().taken_away.into_iter().map(|taken| taken.path).collect()
        }
    }

    #[test]
    fn created_path_is_quarantined() {
        let place = WatchFixture::new();
        let watch = place.watch(&[".vscode", ".npmrc"]);
        assert_eq!(watch.finish(), WatchReport::default());
        fs::create_dir(place.path("work/.vscode")).unwrap();
        fs::write(place.path("work/.vscode/tasks.json"), "made").unwrap();
        let settled = watch.finish();
        let [taken] = &settled.taken_away[..] else { panic!("{settled:?}") };
        assert_eq!((&taken.path, &*taken.why), (&place.path("work/.vscode"), "a setting"));
        assert_eq!(fs::read_to_string(taken.kept_at.join("tasks.json")).unwrap(), "made");
        assert_eq!(watch.finish(), WatchReport::default());
    }

    #[test]
    fn link_on_path_is_quarantined_without_its_target() {
        let place = WatchFixture::new();
        let watch = place.watch(&[".github/workflows", ".config/fish"]);
        symlink(place.path("outside"), place.path("work/.github")).unwrap();
        symlink(place.path("outside"), place.path("work/.config")).unwrap();
        assert_eq!(place.finish(&watch), [place.path("work/.github")]);
        assert!(place.path("outside/workflows").exists());
        assert!(place.path("work/.config").exists(), "it leads to nothing of that name");
    }

    #[test]
    fn replaced_link_is_restored() {
        let place = WatchFixture::new();
        let link = place.path("work/.vscode");
        symlink("shared", &link).unwrap();
        let watch = place.watch(&[".vscode"]);
        assert_eq!(watch.finish(), WatchReport::default());
        fs::remove_file(&link).unwrap();
        fs::create_dir(&link).unwrap();
        assert_eq!(place.finish(&watch), std::slice::from_ref(&link));
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("shared"));
        fs::remove_file(&link).unwrap();
        symlink("elsewhere", &link).unwrap();
        assert_eq!(place.finish(&watch), std::slice::from_ref(&link));
        fs::remove_file(&link).unwrap();
        let settled = watch.finish();
        assert!(settled.taken_away.is_empty() && settled.warnings.len() == 1, "{settled:?}");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("shared"));
    }

    #[test]
    fn path_made_by_other_command_is_reported_once() {
        let place = WatchFixture::new();
        let live = Arc::default();
        let made = place.path("work/.vscode");
        let first = place.watch_with_registry(&[".vscode"], &live);
        fs::create_dir(&made).unwrap();
        let second = place.watch_with_registry(&[".vscode"], &live);
        assert!(place.finish(&second).is_empty(), "the first is to tell about it");
        assert_eq!(place.finish(&first), std::slice::from_ref(&made));
        drop(first);
        fs::create_dir(&made).unwrap();
        assert_eq!(place.finish(&second), std::slice::from_ref(&made));
        drop(second);
        // Nobody runs who could have made it: it is a person's.
        fs::create_dir(&made).unwrap();
        assert!(place.finish(&place.watch_with_registry(&[".vscode"], &live)).is_empty());
        assert!(live.lock().is_empty());
    }

    #[test]
    fn new_repository_is_checked() {
        let place = WatchFixture::new();
        let watch = place.watch(&[]);
        for folder in ["work/a/.git/hooks", "work/b/.git/hooks"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        assert_eq!(watch.finish(), WatchReport::default());
        fs::write(place.path("work/a/.git/config"), "[core]\nfsmonitor = ./x\n").unwrap();
        let settled = watch.finish();
        let [warning] = &settled.warnings[..] else { panic!("{settled:?}") };
        assert!(warning.contains("a/.git` runs code of its own (core.fsmonitor)"), "{warning}");
    }
}
