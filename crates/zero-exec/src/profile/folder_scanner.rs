//! Scans the writable folders for files that run code later.
//!
//! The scan runs before and after each command, so it must be fast: a folder or a file with settings
//! whose change time has not changed is not read again, and links are not followed again as long as
//! no folder on the way has changed. And it must resist attacks: filling folders until a
//! bound is reached hides nothing that was known before, and reaching the bound is reported.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use zero_policy::protected_paths;
use zero_sandbox::path_survey::{self, ScanOutcome};
use zero_sandbox::quarantine;

use super::helper_programs::{self, ProgramList};
use super::link_targets::{LinkQuery, LinkTargetCache, LinkTargets};
use super::protection_limit::ProtectionLimit;
use super::stamped_cache::StampedCache;
use crate::git_facts::{
    self, ConfigError, ConfigSummary, HelperValue, IndexSummary, RepositoryLocation,
};

/// Most folders visited, and most names read.
const FOLDERS_MAX: usize = 20_000;
const NAMES_MAX: usize = 400_000;
/// Most folders of dependencies that are searched for repositories.
const DEPENDENCIES_MAX: usize = 2 * FOLDERS_MAX;
/// Most folders whose summary is cached.
const REMEMBERED_MAX: usize = 2 * (FOLDERS_MAX + DEPENDENCIES_MAX);
/// Most repositories that are remembered.
const KNOWN_MAX: usize = 4_096;
/// Most settings of git whose programs are remembered.
const PROGRAM_LISTS_MAX: usize = 16_384;
/// Most folders named when the scan was incomplete.
const OVERLOOKED_MAX: usize = 3;

/// Folders of dependencies and build output, in which users do not edit files.
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
/// Names that make a folder a repository: the first, and the second or both others.
const BARE_REPOSITORY_NAMES: [&str; 4] = ["HEAD", "commondir", "objects", "refs"];
/// On the policy's list, but checked with repositories here: git creates it in each new one.
const REPOSITORY_ONLY: &str = "HEAD";

/// The folders in which commands may write.
#[derive(Clone, Debug, Default)]
pub(crate) struct WritableRoots {
    /// The folders of the workspace.
    pub(crate) roots: Vec<PathBuf>,
    /// Folders that settings open in addition.
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    /// zero's state folder, which commands do not see.
    pub(crate) state: PathBuf,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub(crate) struct FolderScanResult {
    /// Repositories beneath the workspace folders, those known longest first.
    pub(crate) repositories: Vec<PathBuf>,
    /// Entries of the policy's list, except those that are looked up by name in a writable folder.
    pub(crate) settings: Vec<SettingPath>,
    /// Folders that could not be scanned completely.
    pub(crate) overlooked: Vec<PathBuf>,
    /// How many folders were not scanned completely, as far as they are known.
    pub(crate) overlooked_count: usize,
    /// Repositories with what their indexes list.
    pub(crate) indexed: Vec<IndexedRepository>,
    /// Indexes of repositories that could not be read.
    pub(crate) unread_indexes: Vec<PathBuf>,
    /// Folders of dependencies and build output, which were not scanned.
    pub(crate) dependency_folders: Vec<PathBuf>,
}

/// The result of a scan of folders of dependencies and build output.
#[derive(Debug, Default)]
pub(crate) struct DependencyScan {
    /// Folders that git may take for a repository.
    pub(crate) repositories: Vec<PathBuf>,
    /// Folders that could not be scanned completely.
    pub(crate) overlooked: Vec<PathBuf>,
}

/// A repository with what its index lists.
#[derive(Clone, Debug)]
pub(crate) struct IndexedRepository {
    /// The working folder.
    pub(crate) folder: PathBuf,
    /// The git folder.
    pub(crate) git: PathBuf,
    pub(crate) index: Arc<IndexSummary>,
}

/// A path on the policy's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SettingPath {
    /// The writable folder, and the relative path from there.
    pub(crate) base: PathBuf,
    pub(crate) relative: PathBuf,
    pub(crate) why: &'static str,
}

impl SettingPath {
    pub(crate) fn path(&self) -> PathBuf {
        self.base.join(&self.relative)
    }
}

/// Scans folders and caches what it found.
#[derive(Debug, Default)]
pub(crate) struct FolderScanner {
    memory: Mutex<ScanCache>,
}

#[derive(Debug, Default)]
struct ScanCache {
    folders: StampedCache<Arc<FolderSummary>, REMEMBERED_MAX>,
    /// What an index lists, by the path of the index.
    indexes: StampedCache<Arc<IndexSummary>, KNOWN_MAX>,
    /// Files with settings of git.
    configs: StampedCache<Result<Arc<ConfigSummary>, ConfigError>, KNOWN_MAX>,
    /// The programs that a value of such a setting names in a working folder.
    programs: HashMap<(HelperValue, PathBuf), ProgramList>,
    /// Where links in protected paths lead.
    links: LinkTargetCache,
    /// Repositories, in the order in which they were found.
    known: Vec<PathBuf>,
}

/// The relevant contents of a folder.
#[derive(Debug, Default)]
struct FolderSummary {
    folders: Vec<OsString>,
    skipped: Vec<OsString>,
    is_repository: bool,
    /// Names that are the last component of an entry of the policy's list, or end like one.
    names: Vec<OsString>,
}

/// An entry of the policy's list: the components before its last one, innermost first.
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

/// The description of a name whose end is on the policy's list.
fn match_ending(name: &OsStr) -> Option<&'static str> {
    static ENDINGS: LazyLock<Vec<protected_paths::ProtectedName>> =
        LazyLock::new(|| protected_paths::settings_endings().collect());
    let name = name.as_encoded_bytes();
    ENDINGS.iter().find(|ending| name.ends_with(ending.name.as_bytes())).map(|ending| ending.why)
}

/// Whether a name is the end of an entry of the policy's list, or ends like one.
pub(crate) fn may_end_setting(name: &OsStr) -> bool {
    BY_LAST_PART.contains_key(name) || match_ending(name).is_some()
}

/// Whether folders with this name are not scanned.
pub(crate) fn is_skipped(name: &OsStr) -> bool {
    SKIPPED_FOLDERS.iter().any(|skipped| name == *skipped)
}

impl FolderScanner {
    /// Scans all writable folders.
    pub(crate) fn scan(&self, scope: &WritableRoots) -> FolderScanResult {
        let mut memory = self.lock();
        let mut walk =
            FolderScan { memory: &mut memory, found: FolderScanResult::default(), names: 0 };
        let bases: Vec<&Path> =
            scope.roots.iter().chain(&scope.writable).map(PathBuf::as_path).collect();
        let apart = [&*bases, &[&*scope.state]].concat();
        let mut done = BTreeSet::new();
        for (at, base) in bases.iter().enumerate() {
            if done.insert(*base) {
                walk.scan_base(base, at < scope.roots.len(), &apart);
            }
        }
        walk.scan_indexes(&scope.roots);
        let mut found = walk.found;
        memory.merge_known(&mut found, &bases);
        found
    }

    /// Searches folders of dependencies for repositories, except for these folders themselves.
    pub(crate) fn scan_dependencies(&self, folders: &[PathBuf]) -> DependencyScan {
        let mut memory = self.lock();
        let mut walk =
            FolderScan { memory: &mut memory, found: FolderScanResult::default(), names: 0 };
        let mut repositories = Vec::new();
        let mut open: VecDeque<(PathBuf, bool)> =
            folders.iter().map(|folder| (folder.clone(), true)).collect();
        let mut visited = 0;
        while let Some((path, is_outermost)) = open.pop_front() {
            visited += 1;
            if visited > DEPENDENCIES_MAX {
                walk.record_overlooked(&path);
                break;
            }
            let inside = walk.summarize_folder(&path);
            let inner = inside.folders.iter().chain(&inside.skipped);
            let inner = inner.filter(|name| *name != ".git").map(|name| (path.join(name), false));
            open.extend(inner);
            if inside.is_repository && !is_outermost {
                repositories.push(path);
            }
        }
        DependencyScan { repositories, overlooked: walk.found.overlooked }
    }

    /// Scans only the folders above a path, up to the writable folder that contains it.
    pub(super) fn scan_above(&self, path: &Path, base: &Path) -> FolderScanResult {
        let mut memory = self.lock();
        let mut walk =
            FolderScan { memory: &mut memory, found: FolderScanResult::default(), names: 0 };
        for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(base)) {
            let inside = walk.summarize_folder(folder);
            let settings = inside.names.iter().filter_map(|name| match_setting(base, folder, name));
            walk.found.settings.extend(settings);
        }
        walk.found
    }

    /// Scans only the folders above these paths, up to the workspace folder that contains each.
    pub(crate) fn scan_near(
        &self,
        paths: &BTreeSet<PathBuf>,
        roots: &[PathBuf],
    ) -> FolderScanResult {
        let mut memory = self.lock();
        let mut walk =
            FolderScan { memory: &mut memory, found: FolderScanResult::default(), names: 0 };
        let mut seen = BTreeSet::new();
        for path in paths {
            let Some(root) = roots.iter().find(|root| path.starts_with(root)) else { continue };
            let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
            let below = path.parent().and_then(|folder| folder.strip_prefix(root).ok());
            if below.is_none_or(|below| below.iter().any(is_skipped)) {
                continue;
            }
            for folder in folders.filter(|folder| seen.insert(folder.to_path_buf())) {
                // The contents of a protected setting are protected with it.
                if folder.strip_prefix(root).is_ok_and(|below| describe_setting(below).is_some()) {
                    continue;
                }
                let inside = walk.summarize_folder(folder);
                let found =
                    inside.names.iter().filter_map(|name| match_setting(root, folder, name));
                walk.found.settings.extend(found);
            }
        }
        walk.found
    }

    /// Reads a file with settings of git.
    pub(super) fn read_config(&self, config: &Path) -> Result<Arc<ConfigSummary>, ConfigError> {
        // Before the file is read: a change in between shows the next time.
        let Some(stamp) = path_survey::read_target_stamp(config) else {
            return git_facts::read_git_config(config).map(Arc::new);
        };
        if let Some(known) = self.lock().configs.get(config, stamp) {
            return known;
        }
        let read = git_facts::read_git_config(config).map(Arc::new);
        self.lock().configs.insert(config, stamp, read.clone());
        read
    }

    /// The programs that the value of a setting of git names in a working folder.
    pub(super) fn list_programs(
        &self,
        helper: &HelperValue,
        work: &Path,
        home: Option<&Path>,
    ) -> ProgramList {
        let key = (helper.clone(), work.to_owned());
        if let Some(known) = self.lock().programs.get(&key) {
            return known.clone();
        }
        let programs = helper_programs::list_programs(helper, work, home);
        let mut memory = self.lock();
        if memory.programs.len() >= PROGRAM_LISTS_MAX {
            memory.programs.clear();
        }
        memory.programs.insert(key, programs.clone());
        programs
    }

    /// Finds what links in protected paths lead to.
    pub(super) fn find_link_targets(
        &self,
        query: LinkQuery,
    ) -> Result<Arc<LinkTargets>, ProtectionLimit> {
        self.lock().links.find(query)
    }

    fn lock(&self) -> MutexGuard<'_, ScanCache> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScanCache {
    /// Puts what was found earlier and still exists before the new findings.
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

/// A folder that is still to be scanned.
struct PendingFolder {
    path: PathBuf,
    /// Whether its contents count: a cache that a setting opens holds other people's files.
    counts: bool,
}

impl FolderScan<'_> {
    /// Scans one writable folder, except for the folders in `apart`.
    fn scan_base(&mut self, base: &Path, is_root: bool, apart: &[&Path]) {
        let mut open = VecDeque::from([PendingFolder { path: base.to_owned(), counts: is_root }]);
        let mut looked_at = 0;
        while let Some(PendingFolder { path, mut counts }) = open.pop_front() {
            looked_at += 1;
            if looked_at > FOLDERS_MAX {
                self.record_overlooked(&path);
                open.iter().for_each(|folder| self.record_overlooked(&folder.path));
                break;
            }
            let inside = self.summarize_folder(&path);
            if inside.is_repository {
                counts = true;
                // The root's own repository is handled separately.
                if !(is_root && path == base) {
                    self.found.repositories.push(path.clone());
                }
            }
            let mut held = Vec::new();
            if counts {
                for name in &inside.names {
                    if let Some(setting) = match_setting(base, &path, name) {
                        held.push(name);
                        self.found.settings.push(setting);
                    }
                }
            }
            for folder in inside.skipped.iter().filter(|name| *name != ".git") {
                let folder = path.join(folder);
                if is_repository(&folder) {
                    self.found.repositories.push(folder.clone());
                }
                self.found.dependency_folders.push(folder);
            }
            // A protected folder is protected with all its contents.
            let inner = inside.folders.iter().filter(|name| !held.contains(name));
            let inner = inner.map(|name| PendingFolder { path: path.join(name), counts });
            open.extend(inner.filter(|inner| !apart.contains(&inner.path.as_path())));
        }
    }

    fn summarize_folder(&mut self, folder: &Path) -> Arc<FolderSummary> {
        let stamp = path_survey::read_stamp(folder);
        if let Some(inside) = stamp.and_then(|stamp| self.memory.folders.get(folder, stamp)) {
            return inside;
        }
        let mut inside = FolderSummary::default();
        let mut bare = [false; BARE_REPOSITORY_NAMES.len()];
        let left = NAMES_MAX.saturating_sub(self.names);
        let scanned = path_survey::scan_folder(folder, left, |name, is_folder| {
            self.names += 1;
            if let Some(at) = BARE_REPOSITORY_NAMES.iter().position(|part| name == *part) {
                bare[at] = true;
            }
            inside.is_repository |= name == ".git";
            if may_end_setting(name) {
                inside.names.push(name.to_owned());
            }
            if is_folder {
                let list = if is_skipped(name) { &mut inside.skipped } else { &mut inside.folders };
                list.push(name.to_owned());
            }
        });
        let [head, common, objects, refs] = bare;
        inside.is_repository |= head && (common || objects && refs);
        inside.folders.sort();
        let inside = Arc::new(inside);
        match scanned {
            ScanOutcome::Whole(stamp) => {
                self.memory.folders.insert(folder, stamp, Arc::clone(&inside));
            }
            ScanOutcome::Nothing => {}
            ScanOutcome::Part => self.record_overlooked(folder),
        }
        inside
    }

    /// Adds the repositories that an index lists where folders are not scanned: git runs in these
    /// too.
    fn scan_indexes(&mut self, roots: &[PathBuf]) {
        let mut open: Vec<PathBuf> =
            roots.iter().chain(&self.found.repositories).cloned().collect();
        let mut known: BTreeSet<PathBuf> = open.iter().cloned().collect();
        while let Some(folder) = open.pop() {
            let Some(found) = RepositoryLocation::find(&folder) else { continue };
            for git in &found.git_folders {
                let index = self.read_index(git);
                self.found.indexed.push(IndexedRepository {
                    folder: folder.clone(),
                    git: git.clone(),
                    index: Arc::clone(&index),
                });
                for link in &index.links {
                    let inner = folder.join(link);
                    if is_repository(&inner) && known.insert(inner.clone()) {
                        self.found.repositories.push(inner.clone());
                        open.push(inner);
                    }
                }
            }
        }
    }

    fn read_index(&mut self, git: &Path) -> Arc<IndexSummary> {
        let index = git.join("index");
        let Some(stamp) = path_survey::read_stamp(&index) else { return Arc::default() };
        if let Some(summary) = self.memory.indexes.get(&index, stamp) {
            return summary;
        }
        let is_setting = |path: &Path| describe_setting(path).is_some();
        let Some(summary) = git_facts::read_git_index(git, &is_setting) else {
            if self.found.unread_indexes.len() < OVERLOOKED_MAX {
                self.found.unread_indexes.push(index);
            }
            return Arc::default();
        };
        let summary = Arc::new(summary);
        self.memory.indexes.insert(&index, stamp, Arc::clone(&summary));
        summary
    }

    fn record_overlooked(&mut self, folder: &Path) {
        self.found.overlooked_count += 1;
        if self.found.overlooked.len() < OVERLOOKED_MAX {
            self.found.overlooked.push(folder.to_owned());
        }
    }
}

/// Describes the setting that a relative path is, or is part of.
pub(crate) fn describe_setting(path: &Path) -> Option<&'static str> {
    path.ancestors().find_map(|path| {
        let name = path.file_name()?;
        let above: Vec<&OsStr> = path.iter().rev().skip(1).collect();
        let fits = |entry: &&SettingPattern| {
            entry.above.len() <= above.len()
                && entry.above.iter().zip(&above).all(|(part, name)| OsStr::new(part) == *name)
        };
        match BY_LAST_PART.get(name).and_then(|entries| entries.iter().find(fits)) {
            Some(entry) => Some(entry.why),
            None => match_ending(name),
        }
    })
}

/// Returns the setting that a name in a folder is, if it matches the policy's list somewhere below
/// `base`.
fn match_setting(base: &Path, folder: &Path, name: &OsStr) -> Option<SettingPath> {
    let below = folder.strip_prefix(base).ok()?;
    let fits = |entry: &&SettingPattern| {
        let mut parts = below.iter().rev();
        let all = entry.above.iter().all(|part| parts.next() == Some(OsStr::new(part)));
        // A path directly in the base is looked up there by its name.
        all && parts.next().is_some()
    };
    let why = match BY_LAST_PART.get(name).and_then(|entries| entries.iter().find(fits)) {
        Some(entry) => entry.why,
        None => match_ending(name)?,
    };
    let relative = below.join(name);
    // An empty folder may be the placeholder of a running command.
    let setting = SettingPath { base: base.to_owned(), relative, why };
    (name != ".zero" || !quarantine::is_empty(&setting.path())).then_some(setting)
}

fn is_repository(folder: &Path) -> bool {
    path_survey::exists(&folder.join(".git")) || git_facts::may_be_git_folder(folder)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::fs;

    struct ScanFixture {
        temp: tempfile::TempDir,
        scanner: FolderScanner,
    }

    #[test]
    fn setting_is_described_by_any_part_of_its_path() {
        for path in [
            ".envrc",
            "a/b/.envrc",
            ".vscode/tasks.json",
            "a/.vscode/x/y",
            ".github/workflows/x.yml",
            "a/.github/workflows/x.yml",
            "a/x.code-workspace",
        ] {
            assert!(describe_setting(Path::new(path)).is_some(), "{path}");
        }
        for path in ["", "a", "src/main.rs", "workflows/x.yml", "github/workflows", "HEAD"] {
            assert_eq!(describe_setting(Path::new(path)), None, "{path}");
        }
    }

    impl ScanFixture {
        fn new(files: &[&str]) -> Self {
            let fixture =
                Self { temp: tempfile::tempdir().unwrap(), scanner: FolderScanner::default() };
            for file in files {
                fixture.create_file(file);
            }
            fixture
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
            let scope = WritableRoots { roots, writable, ..WritableRoots::default() };
            self.scanner.scan(&scope)
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
        let fixture = ScanFixture::new(&[
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
        fs::create_dir_all(fixture.path("w/c/.zero")).unwrap();
        let repositories = ["w/1/2/3/4/5/6/7", "w/target"];
        let settings = ["w/a/.envrc", "w/a/.github/workflows", "w/b/.zero"];
        fixture.check(&fixture.scan(&["w"], &[]), &repositories, &settings);
        fixture.check(&fixture.scan(&["w", "w/a"], &[]), &repositories, &["w/b/.zero"]);
    }

    #[test]
    fn writable_folder_counts_only_inside_repositories() {
        let fixture =
            ScanFixture::new(&["cache/x/.npmrc", "cache/r/.git/HEAD", "cache/r/s/.npmrc"]);
        let found = fixture.scan(&[], &["cache"]);
        fixture.check(&found, &["cache/r"], &["cache/r/s/.npmrc"]);
        fixture.create_file("cache/.git/HEAD");
        let found = fixture.scan(&[], &["cache"]);
        fixture.check(&found, &["cache/r", "cache"], &["cache/r/s/.npmrc", "cache/x/.npmrc"]);
    }

    #[test]
    fn cached_folder_is_rescanned_when_changed() {
        let fixture = ScanFixture::new(&["w/a/b/file"]);
        let folder = fixture.path("w/a/b");
        let stamp = path_survey::read_stamp(&folder).unwrap();
        // A folder that has just changed is not remembered: change times are coarse.
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while fixture.scanner.lock().folders.get(&folder, stamp).is_none() {
            assert!(std::time::Instant::now() < until, "the folder is never remembered");
            fixture.check(&fixture.scan(&["w"], &[]), &[], &[]);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        fixture.create_file("w/a/b/.envrc");
        fixture.create_file("w/a/b/.git/HEAD");
        fixture.check(&fixture.scan(&["w"], &[]), &["w/a/b"], &["w/a/b/.envrc"]);
    }

    #[test]
    fn scan_limit_is_reported_and_hides_nothing_known() {
        let fixture = ScanFixture::new(&["w/z/.git/HEAD"]);
        fixture.check(&fixture.scan(&["w"], &[]), &["w/z"], &[]);
        let mut memory = fixture.scanner.memory.lock().unwrap();
        let mut walk = FolderScan {
            memory: &mut memory,
            found: FolderScanResult::default(),
            names: NAMES_MAX,
        };
        let root = fixture.path("w");
        walk.scan_base(&root, true, &[&root]);
        let mut found = walk.found;
        assert_eq!(found.overlooked, [fixture.path("w")]);
        assert_eq!(found.overlooked_count, 1);
        assert!(found.repositories.is_empty());
        memory.merge_known(&mut found, &[&root]);
        assert_eq!(found.repositories, [fixture.path("w/z")]);
        fs::remove_dir_all(fixture.path("w/z/.git")).unwrap();
        memory.merge_known(&mut found, &[&root]);
        assert!(memory.known.len() == 1, "the repository was listed twice");
        memory.merge_known(&mut FolderScanResult::default(), &[&root]);
        assert!(memory.known.is_empty());
    }

    #[test]
    fn every_repository_layout_is_found() {
        let fixture = ScanFixture::new(&[
            "w/a/HEAD",
            "w/a/commondir",
            "w/b/HEAD",
            "w/b/refs/x",
            "w/b/objects/x",
            "w/c/HEAD",
            "w/c/refs/x",
            "w/node_modules/HEAD",
            "w/node_modules/commondir",
        ]);
        let found = fixture.scan(&["w"], &[]);
        fixture.check(&found, &["w/a", "w/b", "w/node_modules"], &[]);
    }

    #[test]
    fn repository_in_index_is_found_in_skipped_folder() {
        let link = "node_modules/deep/x";
        let inner = format!("w/{link}/.git/HEAD");
        let fixture = ScanFixture::new(&["w/.git/HEAD", &inner, "w/target/a/.git/HEAD"]);
        fixture.check(&fixture.scan(&["w"], &[]), &[], &[]);
        let mut index = b"DIRC\0\0\0\x02\0\0\0\x01".to_vec();
        index.extend([0; 24]);
        index.extend(0o160_000_u32.to_be_bytes());
        index.extend([0; 33]);
        index.push(u8::try_from(link.len()).unwrap());
        index.extend(link.as_bytes());
        index.resize(12 + (62 + link.len() + 1).next_multiple_of(8) + 20, 0);
        fs::write(fixture.path("w/.git/index"), index).unwrap();
        fixture.check(&fixture.scan(&["w"], &[]), &["w/node_modules/deep/x"], &[]);
        fs::write(fixture.path("w/.git/index"), "DIRC").unwrap();
        let found = fixture.scan(&["w"], &[]);
        assert_eq!(found.unread_indexes, [fixture.path("w/.git/index")]);
    }
}
