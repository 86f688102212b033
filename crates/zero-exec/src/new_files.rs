//! Files that decide what runs later, reported as soon as a program that runs on creates them.
//!
//! One thread of the process has the kernel report what appears in the folders that such programs can
//! change, and picks the names that matter. A subscriber then examines these paths only. Files that
//! the kernel does not report are found by examining everything from time to time: folders beyond its
//! limit, and files that are changed in memory.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use zero_sandbox::folder_events::{FolderEvent, FolderWaker, WatchedFolders};
use zero_sandbox::path_survey;

use crate::check_pace::CheckPace;
use crate::profile::folder_scanner;

/// Most paths of one report; with more, everything is looked at.
const PATHS_MAX: usize = 256;
/// Most names of a folder that are read when it is watched.
const NAMES_MAX: usize = 100_000;
/// How long the thread rests between two reports of the kernel, which puts equal ones together.
const READ_INTERVAL: Duration = Duration::from_millis(1);
/// The folder of a repository, and the folder with hooks in it.
const GIT: &str = ".git";
const HOOKS: &str = "hooks";
/// Names by which git takes a folder for a repository, and those of what runs code in it.
const GIT_NAMES: &[&str] = &[
    GIT,
    HOOKS,
    "HEAD",
    "attributes",
    "branches",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "info",
    "modules",
    "objects",
    "refs",
    "remotes",
    "worktrees",
];
/// Folders in `.git` with contents only.
const GIT_CONTENTS: &[&str] = &["lfs", "logs", "objects", "refs"];

/// What appeared, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewFiles {
    /// What was created, or written and may be a part of a repository.
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Whether there may be more, anywhere.
    pub(crate) is_incomplete: bool,
}

/// The folders that programs can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChangeableFolders {
    /// The outermost folders.
    pub(crate) roots: BTreeSet<PathBuf>,
    /// Folders in these that the programs cannot change.
    pub(crate) excluded: BTreeSet<PathBuf>,
    /// Further names that the programs may not create.
    pub(crate) names: HashSet<OsString>,
}

/// A wait for new files. Ends when it is dropped.
#[derive(Debug)]
pub(crate) struct NewFileSubscription(Arc<SubscriptionState>);

#[derive(Debug, Default)]
struct SubscriptionState {
    folders: Mutex<ChangeableFolders>,
    report: Mutex<Report>,
    signal: Condvar,
}

#[derive(Debug, Default)]
struct Report {
    files: NewFiles,
    is_woken: bool,
}

/// The thread of this process, while it runs.
static MONITOR: Mutex<Option<MonitorHandle>> = Mutex::new(None);

#[derive(Debug)]
struct MonitorHandle {
    waker: FolderWaker,
    subscriptions: Vec<Weak<SubscriptionState>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NewFiles {
    pub(crate) fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.is_incomplete
    }

    /// Whether a repository may have changed.
    pub(crate) fn may_concern_git(&self) -> bool {
        self.is_incomplete || self.paths.iter().any(|path| is_git_path(path))
    }

    fn add(&mut self, path: PathBuf) {
        match self.paths.len() < PATHS_MAX {
            true => _ = self.paths.insert(path),
            false => self.is_incomplete = true,
        }
    }
}

impl ChangeableFolders {
    pub(crate) fn merge(&mut self, other: Self) {
        self.roots.extend(other.roots);
        self.excluded.extend(other.excluded);
        self.names.extend(other.names);
    }
}

impl NewFileSubscription {
    /// Waits for nothing yet. If the kernel reports nothing here, every wait ends with its time.
    pub(crate) fn new() -> Self {
        let subscription = Self(Arc::default());
        let mut monitor = lock(&MONITOR);
        let handle = match monitor.take() {
            Some(handle) => Ok(handle),
            None => start_monitor(),
        };
        match handle {
            Ok(mut handle) => {
                handle.subscriptions.push(Arc::downgrade(&subscription.0));
                *monitor = Some(handle);
            }
            Err(error) => {
                tracing::debug!(%error, "the kernel does not report new files here");
            }
        }
        subscription
    }

    /// Waits for new files in these folders from now on. When they are watched, the next wait says that
    /// there may be more: files created earlier are not reported.
    pub(crate) fn set_folders(&self, folders: ChangeableFolders) {
        let mut known = lock(&self.0.folders);
        if *known == folders {
            return;
        }
        *known = folders;
        drop(known);
        wake_monitor();
    }

    /// Waits for new files, up to `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> NewFiles {
        let is_quiet = |report: &mut Report| report.files.is_empty() && !report.is_woken;
        let waited = self.0.signal.wait_timeout_while(lock(&self.0.report), limit, is_quiet);
        let mut report = waited.unwrap_or_else(PoisonError::into_inner).0;
        report.is_woken = false;
        std::mem::take(&mut report.files)
    }

    /// Ends the present wait, or the next one.
    pub(crate) fn wake(&self) {
        lock(&self.0.report).is_woken = true;
        self.0.signal.notify_all();
    }
}

impl Drop for NewFileSubscription {
    fn drop(&mut self) {
        // Dropped first, so that the thread finds no subscriber here when it is woken.
        drop(std::mem::take(&mut self.0));
        wake_monitor();
    }
}

impl SubscriptionState {
    fn report(&self, found: &NewFiles) {
        let folders = lock(&self.folders);
        let mut report = lock(&self.report);
        report.files.is_incomplete |= found.is_incomplete;
        for path in &found.paths {
            if folders.roots.iter().any(|base| path.starts_with(base)) {
                report.files.add(path.clone());
            }
        }
        if !report.files.is_empty() {
            self.signal.notify_all();
        }
    }
}

fn wake_monitor() {
    if let Some(handle) = lock(&MONITOR).as_ref() {
        handle.waker.wake();
    }
}

fn start_monitor() -> std::io::Result<MonitorHandle> {
    let folders = WatchedFolders::new()?;
    let waker = folders.waker();
    let monitor = Monitor { folders, wanted: ChangeableFolders::default() };
    std::thread::Builder::new().name("zero-new-files".to_owned()).spawn(move || monitor.run())?;
    Ok(MonitorHandle { waker, subscriptions: Vec::new() })
}

struct Monitor {
    folders: WatchedFolders,
    wanted: ChangeableFolders,
}

impl Monitor {
    fn run(mut self) {
        while let Some(subscriptions) = self.find_subscriptions() {
            let mut found = NewFiles::default();
            self.watch_wanted(&subscriptions, &mut found);
            match self.folders.wait() {
                Ok(reported) => {
                    if reported.is_incomplete {
                        found.is_incomplete = true;
                        self.watch_again();
                    }
                    for event in &reported.events {
                        self.inspect_event(event, &mut found);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the kernel no longer reports new files");
                    lock(&MONITOR).take();
                    return;
                }
            }
            if !found.is_empty() {
                subscriptions.iter().for_each(|subscription| subscription.report(&found));
            }
            std::thread::sleep(READ_INTERVAL);
        }
    }

    /// Those who wait. Without any, the thread ends.
    fn find_subscriptions(&self) -> Option<Vec<Arc<SubscriptionState>>> {
        let mut monitor = lock(&MONITOR);
        let handle = monitor.as_mut()?;
        handle.subscriptions.retain(|subscription| subscription.strong_count() > 0);
        let live: Vec<_> = handle.subscriptions.iter().filter_map(Weak::upgrade).collect();
        if live.is_empty() {
            *monitor = None;
            return None;
        }
        Some(live)
    }

    /// Watches the folders that are wanted now. Reports at once what may have appeared meanwhile.
    fn watch_wanted(&mut self, subscriptions: &[Arc<SubscriptionState>], found: &mut NewFiles) {
        let mut wanted = ChangeableFolders::default();
        subscriptions.iter().for_each(|state| wanted.merge(lock(&state.folders).clone()));
        if wanted == self.wanted {
            return;
        }
        let before = std::mem::replace(&mut self.wanted, wanted);
        let Self { folders, wanted } = self;
        folders.retain(|folder| wanted.covers(folder));
        let new: Vec<PathBuf> =
            self.wanted.roots.iter().filter(|base| !before.covers(base)).cloned().collect();
        if new.is_empty() && self.wanted.names == before.names {
            return;
        }
        self.watch_trees(new, &mut NewFiles::default());
        let all = NewFiles { is_incomplete: true, ..std::mem::take(found) };
        subscriptions.iter().for_each(|subscription| subscription.report(&all));
    }

    /// Watches everything again: the kernel left out what happened, and new folders may be among it.
    fn watch_again(&mut self) {
        let started_at = Instant::now();
        let roots = self.wanted.roots.iter().cloned().collect();
        self.watch_trees(roots, &mut NewFiles::default());
        // A program that goes on like that does not keep a processor busy.
        std::thread::sleep(CheckPace::rest_after(started_at.elapsed()));
    }

    fn inspect_event(&mut self, event: &FolderEvent, found: &mut NewFiles) {
        let path = event.folder.join(&event.name);
        if self.matters(&event.folder, &event.name) {
            found.add(path.clone());
        }
        if event.is_folder && self.wanted.covers(&path) {
            match holds_watched_folders(&event.folder, &event.name) {
                // Builds make many folders.
                true if event.name != GIT && self.wanted.is_skipped(&event.folder) => {}
                true => self.watch_trees(vec![path], found),
                // A folder of dependencies can itself be a repository.
                false if is_in_git(&event.folder) || self.wanted.is_skipped(&event.folder) => {}
                false => _ = self.folders.add(&path),
            }
        }
    }

    /// Watches folders with all the folders in them, the outermost first. Adds the names that matter:
    /// they may have been created before their folder was watched.
    fn watch_trees(&mut self, roots: Vec<PathBuf>, found: &mut NewFiles) {
        let mut open = VecDeque::from(roots);
        while let Some(folder) = open.pop_front() {
            if !self.folders.add(&folder) {
                if self.folders.is_full() {
                    found.is_incomplete = true;
                    return;
                }
                continue;
            }
            let mut inner = Vec::new();
            path_survey::scan_folder(&folder, NAMES_MAX, |name, is_folder| {
                if self.matters(&folder, name) {
                    found.add(folder.join(name));
                }
                if is_folder {
                    inner.push(name.to_owned());
                }
            });
            for name in inner {
                let path = folder.join(&name);
                if !self.wanted.covers(&path) {
                    continue;
                }
                match holds_watched_folders(&folder, &name) {
                    true => open.push_back(path),
                    false if is_in_git(&folder) => {}
                    false => _ = self.folders.add(&path),
                }
            }
        }
    }

    fn matters(&self, folder: &Path, name: &OsStr) -> bool {
        let is_git_content = is_in_git(folder) && GIT_CONTENTS.iter().any(|part| name == *part);
        !is_git_content && (is_git_name(name) || is_hook(folder))
            || folder_scanner::may_end_setting(name)
            || self.wanted.names.contains(name)
    }
}

impl ChangeableFolders {
    /// Whether the programs can change a path.
    fn covers(&self, path: &Path) -> bool {
        self.roots.iter().any(|base| path.starts_with(base))
            && !self.excluded.iter().any(|excluded| path.starts_with(excluded))
    }

    /// Whether a folder is one of dependencies or build output, or in one, and not in a repository.
    fn is_skipped(&self, folder: &Path) -> bool {
        let mut below = self.roots.iter().filter_map(|base| folder.strip_prefix(base).ok());
        !is_in_git(folder) && below.all(|below| below.iter().any(folder_scanner::is_skipped))
    }
}

/// Whether the folders in a folder are watched, too.
fn holds_watched_folders(parent: &Path, name: &OsStr) -> bool {
    match is_in_git(parent) {
        true => !GIT_CONTENTS.iter().any(|part| name == *part),
        false => name == GIT || !folder_scanner::is_skipped(name),
    }
}

fn is_in_git(folder: &Path) -> bool {
    folder.components().any(|part| part.as_os_str() == GIT)
}

fn is_hook(folder: &Path) -> bool {
    folder.file_name() == Some(OsStr::new(HOOKS))
}

fn is_git_name(name: &OsStr) -> bool {
    GIT_NAMES.iter().any(|part| name == *part)
}

fn is_git_path(path: &Path) -> bool {
    path.file_name().is_some_and(is_git_name) || path.parent().is_some_and(is_hook)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::fs;

    const LIMIT: Duration = Duration::from_secs(20);

    struct MonitoredFolder {
        temp: tempfile::TempDir,
        subscription: NewFileSubscription,
    }

    impl MonitoredFolder {
        /// Watches a folder that contains these ones.
        fn new(folders: &[&str]) -> Self {
            let temp = tempfile::tempdir().unwrap();
            fs::create_dir(temp.path().join("w")).unwrap();
            for folder in folders {
                fs::create_dir_all(temp.path().join("w").join(folder)).unwrap();
            }
            let subscription = NewFileSubscription::new();
            subscription.set_folders(ChangeableFolders {
                roots: BTreeSet::from([temp.path().join("w")]),
                excluded: BTreeSet::from([temp.path().join("w/state")]),
                names: HashSet::from(["named".into()]),
            });
            assert!(subscription.wait(LIMIT).is_incomplete, "what was there before is looked at");
            Self { temp, subscription }
        }

        fn create(&self, path: &str) {
            let path = self.temp.path().join("w").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }

        /// Waits until a path is reported, and returns everything until then.
        fn wait_for(&self, expected: &str) -> BTreeSet<PathBuf> {
            let (root, until) = (self.temp.path().join("w"), Instant::now() + LIMIT);
            let mut paths = BTreeSet::new();
            while !paths.contains(Path::new(expected)) {
                assert!(Instant::now() < until, "{expected} is missing in {paths:?}");
                let found = self.subscription.wait(LIMIT);
                assert!(!found.is_incomplete);
                let below = found.paths.iter().filter_map(|path| path.strip_prefix(&root).ok());
                paths.extend(below.map(Path::to_owned));
            }
            paths
        }
    }

    #[test]
    fn names_that_matter_are_reported_at_any_depth() {
        let watched = MonitoredFolder::new(&["a/b", ".git/hooks", "node_modules/x", "state"]);
        for path in [
            "a/b/plain.txt",
            "state/.envrc",
            "node_modules/x/.envrc",
            "node_modules/y/deep/.envrc",
            "node_modules/target/.envrc",
            ".git/objects/ab/config",
            "a/b/.envrc",
            "new/deep/er/.envrc",
            ".git/hooks/post-merge",
            "a/named",
            "node_modules/.git/config",
            "vendored/.git/config",
            "end/.envrc",
        ] {
            watched.create(path);
        }
        let paths = watched.wait_for("end/.envrc");
        let lists = |path: &str| paths.contains(Path::new(path));
        for path in [
            "a/b/.envrc",
            "new/deep/er/.envrc",
            ".git/hooks/post-merge",
            "a/named",
            "node_modules/.git",
            "vendored/.git",
        ] {
            assert!(lists(path), "{path} is missing in {paths:?}");
        }
        for path in [
            "a/b/plain.txt",
            "state/.envrc",
            "node_modules/x/.envrc",
            "node_modules/y/deep/.envrc",
            "node_modules/target/.envrc",
            ".git/objects/ab/config",
        ] {
            assert!(!lists(path), "{path}");
        }
    }

    #[test]
    fn file_of_a_repository_that_is_written_later_is_reported() {
        let watched = MonitoredFolder::new(&["vendored/.git"]);
        watched.create("vendored/.git/config");
        watched.wait_for("vendored/.git/config");
        let config = watched.temp.path().join("w/vendored/.git/config");
        // Whatever the first write still reports comes before it.
        let mut file = fs::OpenOptions::new().append(true).open(config).unwrap();
        watched.create("mark/.envrc");
        watched.wait_for("mark/.envrc");
        std::io::Write::write_all(&mut file, b"[core]").unwrap();
        watched.wait_for("vendored/.git/config");
    }

    #[test]
    fn tree_that_is_moved_into_a_folder_is_watched() {
        let watched = MonitoredFolder::new(&[]);
        let outside = watched.temp.path().join("outside");
        fs::create_dir_all(outside.join("deep")).unwrap();
        fs::write(outside.join("deep/.envrc"), "").unwrap();
        fs::rename(&outside, watched.temp.path().join("w/inside")).unwrap();
        watched.wait_for("inside/deep/.envrc");
        watched.create("inside/deep/named");
        watched.wait_for("inside/deep/named");
    }

    #[test]
    fn paths_of_others_are_not_reported_and_too_many_are_incomplete() {
        let (one, other) = (MonitoredFolder::new(&[]), MonitoredFolder::new(&[]));
        one.create(".envrc");
        other.create("a/.envrc");
        let paths = other.wait_for("a/.envrc");
        assert_eq!(paths, BTreeSet::from(["a/.envrc".into()]));
        let mut files = NewFiles::default();
        (0..=PATHS_MAX).for_each(|number| files.add(number.to_string().into()));
        assert!(files.is_incomplete && files.paths.len() == PATHS_MAX);
    }

    #[test]
    fn wait_ends_with_its_time_or_when_woken() {
        let subscription = NewFileSubscription::new();
        assert!(subscription.wait(Duration::ZERO).is_empty());
        subscription.wake();
        assert!(subscription.wait(LIMIT).is_empty());
    }
}
