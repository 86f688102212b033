//! The folders in which commands may write, looked through for what runs code later.
//!
//! It is looked through before each command and after it, so it must be quick: of a folder that has
//! not changed since it was read, the kernel's time says so, and one look at that is enough. And it
//! must not be outwitted: whoever fills folders until a bound is reached hides nothing that was
//! known before, and the bound is told.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use zero_policy::protected_paths;
use zero_sandbox::path_survey::{self, ChangeStamp, ScanOutcome};
use zero_sandbox::quarantine;

/// Folders that are looked at, and names that are read for it.
const FOLDERS_MAX: usize = 20_000;
const NAMES_MAX: usize = 400_000;
/// Folders of which is remembered what is in them.
const REMEMBERED_MAX: usize = 2 * FOLDERS_MAX;
/// Repositories that are remembered.
const KNOWN_MAX: usize = 4_096;
/// Places that are named when not everything could be seen.
const OVERLOOKED_MAX: usize = 3;

/// Folders of other people's code and of what tools make, in which no one works.
const SKIPPED_FOLDERS: &[&str] = &[
    ".git",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".tox",
    ".venv",
    "__pycache__",
    "bower_components",
    "node_modules",
    "target",
    "venv",
];
/// Three names that make a folder a repository.
const BARE_REPOSITORY_NAMES: &[&str] = &["HEAD", "objects", "refs"];
/// On the judge's list, but a matter of repositories here: git makes it in each new one.
const REPOSITORY_ONLY: &str = "HEAD";

/// Where commands may write.
#[derive(Clone, Debug, Default)]
pub(crate) struct WritableRoots {
    /// The folders of the workspace.
    pub(crate) roots: Vec<PathBuf>,
    /// Folders that settings open beside them.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    /// zero's own folder, which no command sees.
    pub(crate) state: PathBuf,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct FolderScanResult {
    /// Folders beneath those of the workspace that are repositories, those known longest first.
    pub(super) repositories: Vec<PathBuf>,
    /// What is on the judge's list, but for what lies right in a folder of the ground.
    pub(crate) settings: Vec<SettingPath>,
    /// Where not everything could be seen.
    pub(crate) overlooked: Vec<PathBuf>,
}

/// Something on the judge's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingPath {
    /// The folder of the ground, and the way from there.
    pub(crate) base: PathBuf,
    pub(crate) relative: PathBuf,
    pub(crate) why: &'static str,
}

impl SettingPath {
    pub(crate) fn path(&self) -> PathBuf {
        self.base.join(&self.relative)
    }
}

/// What is remembered of the ground.
#[derive(Debug, Default)]
pub(crate) struct FolderScanner {
    memory: Mutex<ScanCache>,
}

#[derive(Debug, Default)]
struct ScanCache {
    folders: HashMap<PathBuf, (ChangeStamp, Arc<FolderSummary>)>,
    /// Repositories, in the order in which they were found.
    known: Vec<PathBuf>,
}

/// What matters of a folder.
#[derive(Debug, Default)]
struct FolderSummary {
    folders: Vec<OsString>,
    skipped: Vec<OsString>,
    is_repository: bool,
    /// Names with which an entry of the judge's list ends.
    names: Vec<OsString>,
}

/// An entry of the judge's list: what comes before its last part, innermost first.
struct SettingPattern {
    above: Vec<&'static str>,
    why: &'static str,
}

static BY_LAST_PART: LazyLock<HashMap<&'static OsStr, Vec<SettingPattern>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static OsStr, Vec<SettingPattern>> = HashMap::new();
    for name in protected_paths::settings_names().filter(|name| name.name != REPOSITORY_ONLY) {
        let mut parts = name.name.rsplit('/');
        let last = OsStr::new(parts.next().unwrap_or_default());
        table
            .entry(last)
            .or_default()
            .push(SettingPattern { above: parts.collect(), why: name.why });
    }
    table
});

impl FolderScanner {
    /// Looks through all of it.
    pub(crate) fn scan(&self, ground: &WritableRoots) -> FolderScanResult {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut walk =
            FolderScan { memory: &mut memory, found: FolderScanResult::default(), names: 0 };
        let bases: Vec<&Path> =
            ground.roots.iter().chain(&ground.writable).map(PathBuf::as_path).collect();
        let apart = [&*bases, &[&*ground.state]].concat();
        let mut done = BTreeSet::new();
        for (at, base) in bases.iter().enumerate() {
            if done.insert(*base) {
                walk.scan_base(base, at < ground.roots.len(), &apart);
            }
        }
        let mut found = walk.found;
        memory.merge_known(&mut found, &bases);
        found
    }
}

impl ScanCache {
    /// Adds what was found earlier and is still there, and puts it first.
    fn merge_known(&mut self, found: &mut FolderScanResult, bases: &[&Path]) {
        let seen: BTreeSet<PathBuf> = found.repositories.drain(..).collect();
        self.known.retain(|known| seen.contains(known) || is_repository(known));
        for new in &seen {
            if self.known.len() < KNOWN_MAX && !self.known.contains(new) {
                self.known.push(new.clone());
            }
        }
        let here = |known: &&PathBuf| bases.iter().any(|base| known.starts_with(base));
        found.repositories = self.known.iter().filter(here).cloned().collect();
        let known: BTreeSet<&PathBuf> = self.known.iter().collect();
        found.repositories.extend(seen.iter().filter(|seen| !known.contains(seen)).cloned());
    }
}

struct FolderScan<'a> {
    memory: &'a mut ScanCache,
    found: FolderScanResult,
    names: usize,
}

/// A folder that is still to be looked at.
struct PendingFolder {
    path: PathBuf,
    /// Whether what lies in it counts: in caches that a setting opens, other people's files lie.
    counts: bool,
}

impl FolderScan<'_> {
    /// Looks through one folder of the ground, but for what lies `apart` from it.
    fn scan_base(&mut self, base: &Path, is_root: bool, apart: &[&Path]) {
        let mut open = VecDeque::from([PendingFolder { path: base.to_owned(), counts: is_root }]);
        let mut looked_at = 0;
        while let Some(PendingFolder { path, mut counts }) = open.pop_front() {
            looked_at += 1;
            if looked_at > FOLDERS_MAX {
                self.record_overlooked(&path);
                break;
            }
            let inside = self.summarize_folder(&path);
            if inside.is_repository {
                counts = true;
                // That of a folder of the workspace itself is somebody else's business.
                if !(is_root && path == base) {
                    self.found.repositories.push(path.clone());
                }
            }
            let mut held = Vec::new();
            if counts && path != base {
                for name in &inside.names {
                    if let Some(setting) = match_setting(base, &path, name) {
                        held.push(name);
                        self.found.settings.push(setting);
                    }
                }
            }
            for name in &inside.skipped {
                let folder = path.join(name);
                if name != ".git" && path_survey::exists(&folder.join(".git")) {
                    self.found.repositories.push(folder);
                }
            }
            // What is held is held with all that is in it.
            let inner = inside.folders.iter().filter(|name| !held.contains(name));
            let inner = inner.map(|name| PendingFolder { path: path.join(name), counts });
            open.extend(inner.filter(|inner| !apart.contains(&inner.path.as_path())));
        }
    }

    fn summarize_folder(&mut self, folder: &Path) -> Arc<FolderSummary> {
        if let Some((stamp, inside)) = self.memory.folders.get(folder)
            && path_survey::read_stamp(folder) == Some(*stamp)
        {
            return Arc::clone(inside);
        }
        let mut inside = FolderSummary::default();
        let mut bare = 0;
        let left = NAMES_MAX.saturating_sub(self.names);
        let scanned = path_survey::scan_folder(folder, left, |name, is_folder| {
            self.names += 1;
            bare += usize::from(BARE_REPOSITORY_NAMES.iter().any(|part| name == *part));
            inside.is_repository |= name == ".git";
            if BY_LAST_PART.contains_key(name) {
                inside.names.push(name.to_owned());
            }
            if is_folder {
                let is_skipped = SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped);
                let list = if is_skipped { &mut inside.skipped } else { &mut inside.folders };
                list.push(name.to_owned());
            }
        });
        inside.is_repository |= bare == BARE_REPOSITORY_NAMES.len();
        inside.folders.sort();
        let inside = Arc::new(inside);
        match scanned {
            ScanOutcome::Whole(stamp) if stamp.is_stable() => {
                if self.memory.folders.len() >= REMEMBERED_MAX {
                    self.memory.folders.clear();
                }
                self.memory.folders.insert(folder.to_owned(), (stamp, Arc::clone(&inside)));
            }
            ScanOutcome::Whole(_) | ScanOutcome::Nothing => {}
            ScanOutcome::Part => self.record_overlooked(folder),
        }
        inside
    }

    fn record_overlooked(&mut self, folder: &Path) {
        if self.found.overlooked.len() < OVERLOOKED_MAX {
            self.found.overlooked.push(folder.to_owned());
        }
    }
}

/// What a name in a folder is, if it is on the judge's list from somewhere below `base` on.
fn match_setting(base: &Path, folder: &Path, name: &OsStr) -> Option<SettingPath> {
    let below = folder.strip_prefix(base).ok()?;
    let fits = |entry: &&SettingPattern| {
        let mut parts = below.iter().rev();
        let all = entry.above.iter().all(|part| parts.next() == Some(OsStr::new(part)));
        // What begins right in the base is looked up there by its name.
        all && parts.next().is_some()
    };
    let entry = BY_LAST_PART.get(name)?.iter().find(fits)?;
    let relative = below.join(name);
    // An empty folder stands in for it while another command runs.
    let setting = SettingPath { base: base.to_owned(), relative, why: entry.why };
    (name != ".zero" || !quarantine::is_empty(&setting.path())).then_some(setting)
}

fn is_repository(folder: &Path) -> bool {
    let has = |name: &str| path_survey::exists(&folder.join(name));
    has(".git") || BARE_REPOSITORY_NAMES.iter().all(|name| has(name))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::fs;

    struct ScanFixture {
        temp: tempfile::TempDir,
        terrain: FolderScanner,
    }

    impl ScanFixture {
        fn new(files: &[&str]) -> Self {
            let place =
                Self { temp: tempfile::tempdir().unwrap(), terrain: FolderScanner::default() };
            for file in files {
                place.create_file(file);
            }
            place
        }

        fn path(&self, name: &str) -> PathBuf {
            self.temp.path().canonicalize().unwrap().join(name)
        }

        fn create_file(&self, name: &str) {
            fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
            fs::write(self.path(name), "").unwrap();
        }

        fn scan(&self, roots: &[&str], writable: &[&str]) -> FolderScanResult {
            let paths = |names: &[&str]| names.iter().map(|name| self.path(name)).collect();
            let (roots, writable) = (paths(roots), paths(writable));
            let ground = WritableRoots { roots, writable, ..WritableRoots::default() };
            self.terrain.scan(&ground)
        }

        #[track_caller]
        fn check(&self, found: &FolderScanResult, repositories: &[&str], settings: &[&str]) {
            let paths = |names: &[&str]| names.iter().map(|name| self.path(name)).collect();
            let expected: Vec<PathBuf> = paths(repositories);
            assert_eq!(found.repositories, expected);
            let mut shown: Vec<PathBuf> = found.settings.iter().map(SettingPath::path).collect();
            shown.sort();
            let expected: Vec<PathBuf> = paths(settings);
            assert_eq!(shown, expected);
            assert!(found.overlooked.is_empty(), "{:?}", found.overlooked);
        }
    }

    #[test]
    fn settings_are_found_at_every_depth() {
        let place = ScanFixture::new(&[
            "w/.envrc",
            "w/a/.envrc",
            "w/a/.github/workflows/ci.yml",
            "w/a/workflows/x",
            "w/.github/workflows/ci.yml",
            "w/1/2/3/4/5/6/7/.git/HEAD",
            "w/node_modules/x/.npmrc",
            "w/node_modules/x/.git/HEAD",
            "w/target/.git/HEAD",
            "w/b/.zero/settings.json",
        ]);
        fs::create_dir_all(place.path("w/c/.zero")).unwrap();
        let repositories = ["w/1/2/3/4/5/6/7", "w/target"];
        let settings = ["w/a/.envrc", "w/a/.github/workflows", "w/b/.zero"];
        place.check(&place.scan(&["w"], &[]), &repositories, &settings);
        place.check(&place.scan(&["w", "w/a"], &[]), &repositories, &["w/b/.zero"]);
    }

    #[test]
    fn writable_folder_counts_only_inside_repositories() {
        let place = ScanFixture::new(&["cache/x/.npmrc", "cache/r/.git/HEAD", "cache/r/s/.npmrc"]);
        let found = place.scan(&[], &["cache"]);
        place.check(&found, &["cache/r"], &["cache/r/s/.npmrc"]);
        place.create_file("cache/.git/HEAD");
        let found = place.scan(&[], &["cache"]);
        place.check(&found, &["cache/r", "cache"], &["cache/r/s/.npmrc", "cache/x/.npmrc"]);
    }

    #[test]
    fn cached_folder_is_rescanned_when_changed() {
        let place = ScanFixture::new(&["w/a/b/file"]);
        place.check(&place.scan(&["w"], &[]), &[], &[]);
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        place.check(&place.scan(&["w"], &[]), &[], &[]);
        assert!(place.terrain.memory.lock().unwrap().folders.contains_key(&place.path("w/a/b")));
        place.create_file("w/a/b/.envrc");
        place.create_file("w/a/b/.git/HEAD");
        place.check(&place.scan(&["w"], &[]), &["w/a/b"], &["w/a/b/.envrc"]);
    }

    #[test]
    fn scan_limit_is_reported_and_hides_nothing_known() {
        let place = ScanFixture::new(&["w/z/.git/HEAD"]);
        place.check(&place.scan(&["w"], &[]), &["w/z"], &[]);
        let mut memory = place.terrain.memory.lock().unwrap();
        let mut walk = FolderScan {
            memory: &mut memory,
            found: FolderScanResult::default(),
            names: NAMES_MAX,
        };
        let root = place.path("w");
        walk.scan_base(&root, true, &[&root]);
        let mut found = walk.found;
        assert_eq!(found.overlooked, [place.path("w")]);
        assert!(found.repositories.is_empty());
        memory.merge_known(&mut found, &[&root]);
        assert_eq!(found.repositories, [place.path("w/z")]);
        fs::remove_dir_all(place.path("w/z/.git")).unwrap();
        memory.merge_known(&mut found, &[&root]);
        assert!(memory.known.len() == 1, "it was handed in again");
        memory.merge_known(&mut FolderScanResult::default(), &[&root]);
        assert!(memory.known.is_empty());
    }
}
