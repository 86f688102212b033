//! The secret values that a tool host knows: those in secret files of its workspace, and in variables.
//!
//! The workspace is searched for secret files at the first call, after calls that may have changed
//! files, and from time to time; known files are checked at every call. A value that was known stays
//! known, also in later processes, so that moving a file away does not reveal it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zero_core::{SecretMask, SecretValue};
use zero_exec::TrackedFileFinder;
use zero_policy::SecretFileSet;
use zero_sandbox::path_survey::{self, ChangeStamp, FileEnds};
use zero_sandbox::{FileType, StateDir};

use super::git_settings;
use super::search_record::SearchRecord;
use super::secret_search::{FoundFiles, SecretSearch};
use super::secret_value_store::{SecretValueStore, StoreRoom, days_since_epoch};
use super::secret_values::{self, FileSecrets, VALUE_BYTES_MAX, VALUES_MAX};

/// Longest time between two searches of the workspace.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10);
/// Shortest time between two records of a process that searches often.
const RECORD_INTERVAL: Duration = Duration::from_secs(5);
/// Most searches in a row for a command that may read any file, if they run out of time.
const SEARCHES_MAX: usize = 12;
/// Most secret files.
const FILES_MAX: usize = 1_024;
/// Most files with settings of git.
const GIT_FILES_MAX: usize = 256;
/// Largest secret file whose values are all known, and how much of a larger one is read at both ends.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a value counts besides its text when files are compared by size.
const VALUE_COST_BYTES: usize = 64;

/// Where a host finds secret values. Nowhere by default.
#[derive(Clone, Debug, Default)]
pub struct SecretMaskConfig {
    /// The files of the workspace that contain secrets.
    pub files: SecretFileSet,
    /// Variables that may contain secrets.
    pub variables: Vec<(String, String)>,
    /// The user's own settings of git. Those of the workspace's repositories are found.
    pub git_settings: Vec<PathBuf>,
    /// Zero's state folder, where values are kept for later processes; nowhere if absent.
    pub store: Option<StateDir>,
}

/// The secret values of a workspace.
pub struct WorkspaceSecrets {
    roots: Vec<PathBuf>,
    files: SecretFileSet,
    variables: Vec<SecretValue>,
    git_settings: Vec<PathBuf>,
    state: Mutex<SecretState>,
    is_stale: AtomicBool,
    record: Option<SearchRecord>,
    tracked: Mutex<TrackedFileFinder>,
}

#[derive(Default)]
struct SecretState {
    searched: Option<Instant>,
    recorded: Option<Instant>,
    search: SecretSearch,
    files: Vec<SecretFile>,
    store: Option<SecretValueStore>,
    /// Whether the store is only read.
    is_read_only: bool,
    /// The day on which values were stored last.
    stored: Option<u64>,
    /// Why values may be unknown to later processes.
    store_problem: Option<String>,
    /// All values that were ever known, in the order in which they became known. Later values cannot
    /// push out earlier ones.
    known: Vec<SecretValue>,
    /// Whether there were more values than can be known.
    is_full: bool,
    bounds: Vec<String>,
    /// Whether the last search found all secret files.
    found_all: bool,
    mask: Arc<SecretMask>,
    is_built: bool,
}

/// A secret file as it was read.
struct SecretFile {
    path: PathBuf,
    /// The stamp of the file behind links.
    stamp: Option<ChangeStamp>,
    format: SourceFormat,
    secrets: FileSecrets,
}

/// How values are found in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceFormat {
    /// By its name and content.
    SecretFile,
    /// Settings of git, in the workspace.
    GitSettings,
    /// Settings of git that belong to the user. Commands cannot change them, so that their values
    /// need not be stored.
    UserGitSettings,
}

/// The secret files of a workspace that git does not track.
#[derive(Debug, Default)]
pub(crate) struct PrivateFiles {
    pub(crate) paths: Vec<PathBuf>,
    /// Whether the whole workspace was searched.
    pub(crate) is_complete: bool,
}

/// What is masked, without any value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretReport {
    /// Secret files, and whether their values are known.
    pub files: Vec<(PathBuf, bool)>,
    /// Names of files' values that are masked.
    pub names: Vec<String>,
    /// Names of variables that are masked.
    pub variables: Vec<String>,
    /// Number of masked values.
    pub values: usize,
    /// Names of files' values that are not masked.
    pub left_alone: Vec<String>,
    /// Bounds that were reached.
    pub bounds: Vec<String>,
}

impl WorkspaceSecrets {
    /// The secrets of a workspace with these folders. Nothing is read yet.
    pub fn new(config: &SecretMaskConfig, roots: Vec<PathBuf>) -> Self {
        let variables = secret_values::read_variables(&config.variables);
        let store = config.store.as_ref().zip(roots.first());
        let store = store.map(|(state, root)| SecretValueStore::new(state, root));
        let record = config.store.as_ref();
        let record = record.and_then(|state| SearchRecord::new(state, &roots, &config.files));
        Self {
            record,
            roots,
            files: config.files.clone(),
            variables,
            git_settings: config.git_settings.clone(),
            state: Mutex::new(SecretState { store, ..SecretState::default() }),
            is_stale: AtomicBool::new(false),
            tracked: Mutex::default(),
        }
    }

    /// The same for calls that are judged and not run: values are read, and nothing is written.
    pub fn for_simulation(config: &SecretMaskConfig, roots: Vec<PathBuf>) -> Self {
        let secrets = Self { record: None, ..Self::new(config, roots) };
        secrets.lock().is_read_only = true;
        secrets
    }

    pub(crate) fn is_disabled(&self) -> bool {
        self.files.is_empty() && self.variables.is_empty()
    }

    /// The values that were known last. Reads no file.
    pub(crate) fn last_mask(&self) -> Arc<SecretMask> {
        Arc::clone(&self.lock().mask)
    }

    /// The values that are known now. Searches the workspace on another thread if that is due.
    pub async fn current_mask(self: &Arc<Self>) -> Arc<SecretMask> {
        // The same mask each time: who caches by it would otherwise never find anything.
        if self.is_disabled() {
            return self.last_mask();
        }
        if !self.needs_search() {
            return self.refresh();
        }
        let own = Arc::clone(self);
        let refreshed = tokio::task::spawn_blocking(move || own.refresh()).await;
        refreshed.unwrap_or_else(|_| self.last_mask())
    }

    /// Has the workspace searched at the next call: files may have changed.
    pub(crate) fn mark_stale(&self) {
        self.remove_record();
        self.is_stale.store(true, Ordering::Relaxed);
    }

    /// Has the next process search the workspace: files are about to change.
    pub(crate) fn remove_record(&self) {
        self.record.iter().for_each(SearchRecord::remove);
    }

    fn needs_search(&self) -> bool {
        let is_due = |searched: Instant| searched.elapsed() > SEARCH_INTERVAL;
        self.is_stale.load(Ordering::Relaxed) || self.lock().searched.is_none_or(is_due)
    }

    /// The secret files of the workspace that are not shared with its repository, by their canonical
    /// paths. With `whole`, a search that ran out of time goes on for a while.
    pub(crate) async fn list_private_files(self: &Arc<Self>, whole: bool) -> PrivateFiles {
        for _ in 0..SEARCHES_MAX {
            if !whole || !self.is_stale.load(Ordering::Relaxed) {
                break;
            }
            self.current_mask().await;
        }
        let own = Arc::clone(self);
        let listed = tokio::task::spawn_blocking(move || own.find_private_files()).await;
        listed.unwrap_or_default()
    }

    fn find_private_files(&self) -> PrivateFiles {
        let state = self.lock();
        let is_found_all = state.found_all;
        let secret = state.files.iter().filter(|file| file.format == SourceFormat::SecretFile);
        let paths: Vec<PathBuf> = secret.map(|file| file.path.clone()).collect();
        drop(state);
        // The sandbox hides what a link leads to. Outside the workspace that may be any file of the
        // machine, which commands read by its own name.
        let is_inside = |path: &PathBuf| {
            self.roots.iter().any(|root| path.starts_with(root))
                && path_survey::file_type(path) == Some(FileType::File)
        };
        let resolved = paths.iter().filter_map(|path| path_survey::canonicalize(path));
        let mut paths: Vec<PathBuf> = resolved.filter(is_inside).collect();
        paths.sort();
        paths.dedup();
        let mut tracked = self.tracked.lock().unwrap_or_else(PoisonError::into_inner);
        tracked.remove_tracked(&mut paths);
        PrivateFiles { paths, is_complete: is_found_all }
    }

    /// Whether a path is that of a secret file.
    pub(crate) fn is_secret_file(&self, path: &Path) -> bool {
        self.files.contains(path)
    }

    /// Reads a secret file that the search does not reach. Returns whether all of its values are
    /// known. A file that does not exist has none.
    pub(crate) fn learn_file(&self, path: &Path) -> bool {
        if !path_survey::exists(path) {
            return true;
        }
        let mut state = self.lock();
        if !state.files.iter().any(|file| file.path == path) {
            if state.files.len() >= FILES_MAX {
                return false;
            }
            state.files.push(SecretFile::read(path.to_owned(), SourceFormat::SecretFile));
            state.is_built = false;
        }
        if self.build(&mut state) {
            state.save();
        }
        let has_room = !state.is_full;
        let known = state.files.iter().find(|file| file.path == path);
        known.is_some_and(|file| file.secrets.is_complete) && has_room
    }

    /// The known secret files in a folder, at any depth.
    pub(crate) fn secret_files_beneath(&self, folder: &Path) -> Vec<PathBuf> {
        let state = self.lock();
        let secret = state.files.iter().filter(|file| file.format == SourceFormat::SecretFile);
        secret.map(|file| &file.path).filter(|path| path.starts_with(folder)).cloned().collect()
    }

    /// Brings the values up to date, and stores them: blocks.
    pub(crate) fn refresh(&self) -> Arc<SecretMask> {
        let mut state = self.lock();
        let is_built = self.update(&mut state);
        if is_built || state.stored != Some(days_since_epoch()) {
            state.save();
        }
        Arc::clone(&state.mask)
    }

    /// Brings the values up to date. Returns whether they changed.
    fn update(&self, state: &mut SecretState) -> bool {
        let is_due = |searched: Instant| searched.elapsed() > SEARCH_INTERVAL;
        let is_search_due =
            self.is_stale.load(Ordering::Relaxed) || state.searched.is_none_or(is_due);
        state.load();
        if is_search_due {
            // A change from now on makes it stale again.
            let is_stale = self.is_stale.swap(false, Ordering::Relaxed);
            self.search(state, is_stale);
        }
        self.read_changed_files(state);
        self.build(state)
    }

    /// Finds the secret files. A search of another process counts unless files changed since.
    fn search(&self, state: &mut SecretState, is_stale: bool) {
        let record = self.record.as_ref().filter(|_| !is_stale);
        let (found, age) =
            record.and_then(|record| record.read(SEARCH_INTERVAL)).unwrap_or_else(|| {
                let found = state.search.find_files(&self.roots, &self.files);
                self.write_record(state, &found);
                (found, Duration::ZERO)
            });
        let FoundFiles { mut paths, git_paths, mut bounds, is_late } = found;
        state.found_all = bounds.is_empty() && paths.len() <= FILES_MAX;
        if paths.len() > FILES_MAX {
            bounds.push(format!("only {FILES_MAX} of {} secret files were read", paths.len()));
            paths.truncate(FILES_MAX);
        }
        let mut git_files = self.find_git_files(git_paths);
        if git_files.len() > GIT_FILES_MAX {
            bounds.push(format!(
                "only {GIT_FILES_MAX} of {} git settings were read",
                git_files.len()
            ));
            git_files.truncate(GIT_FILES_MAX);
        }
        let paths = paths.into_iter().map(|path| (path, SourceFormat::SecretFile));
        let sources: Vec<(PathBuf, SourceFormat)> = git_files.into_iter().chain(paths).collect();
        if state.keep_files(sources) {
            state.is_built = false;
        }
        state.bounds = bounds;
        if is_late {
            self.is_stale.store(true, Ordering::Relaxed);
        }
        let now = Instant::now();
        state.searched = Some(now.checked_sub(age).unwrap_or(now));
    }

    fn write_record(&self, state: &mut SecretState, found: &FoundFiles) {
        let is_recent = |recorded: Instant| recorded.elapsed() < RECORD_INTERVAL;
        let Some(record) = self.record.as_ref() else { return };
        if !state.recorded.is_some_and(is_recent) {
            record.write(found);
            state.recorded = Some(Instant::now());
        }
    }

    /// The settings of git that commands in the workspace use.
    fn find_git_files(&self, found: Vec<PathBuf>) -> Vec<(PathBuf, SourceFormat)> {
        if self.files.is_empty() {
            return Vec::new();
        }
        let above = self.roots.iter().flat_map(|root| root.ancestors().skip(1));
        let above = above.map(|folder| folder.join(".git"));
        let of_workspace =
            found.into_iter().chain(above).flat_map(|path| git_settings::find_files(&path));
        let of_user = self.git_settings.iter().filter(|path| path_survey::exists(path)).cloned();
        let of_user = of_user.map(|path| (path, SourceFormat::UserGitSettings));
        of_user.chain(of_workspace.map(|path| (path, SourceFormat::GitSettings))).collect()
    }

    fn read_changed_files(&self, state: &mut SecretState) {
        for file in &mut state.files {
            if file.is_changed() {
                let read = SecretFile::read(file.path.clone(), file.format);
                let old = std::mem::replace(file, read);
                state.is_built &= old.secrets == file.secrets;
            }
        }
    }

    /// Prepares the values if they changed. Returns whether they did.
    fn build(&self, state: &mut SecretState) -> bool {
        if std::mem::replace(&mut state.is_built, true) {
            return false;
        }
        state.learn(&self.variables);
        state.mask = Arc::new(SecretMask::new(state.known.iter().cloned()));
        true
    }

    /// What is masked now: blocks. Stores nothing.
    pub fn report(&self) -> SecretReport {
        if self.is_disabled() {
            return SecretReport::default();
        }
        let mut state = self.lock();
        self.update(&mut state);
        let mut report = SecretReport { bounds: state.bounds.clone(), ..SecretReport::default() };
        report.bounds.extend(state.store_problem.clone());
        for SecretFile { path, secrets, format, .. } in &state.files {
            if *format == SourceFormat::SecretFile {
                report.files.push((path.clone(), secrets.is_complete));
            }
            if !secrets.is_complete {
                report.bounds.push(format!("not all values in `{}` are known", path.display()));
            }
            report.names.extend(secrets.values.iter().map(|value| value.name.clone()));
            report.left_alone.extend(secrets.left_alone.iter().cloned());
        }
        report.values = state.known.len();
        if state.is_full {
            report.bounds.push(format!(
                "only {} values are masked; there is room for {VALUES_MAX} with {} MiB",
                state.known.len(),
                VALUE_BYTES_MAX >> 20
            ));
        }
        report.variables = self.variables.iter().map(|value| value.name.clone()).collect();
        for names in [&mut report.names, &mut report.variables, &mut report.left_alone] {
            names.sort();
            names.dedup();
        }
        report
    }

    fn lock(&self) -> MutexGuard<'_, SecretState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SecretState {
    /// Replaces the known files by those that a search found. Files that calls named stay known wherever
    /// they are. A file that is known is not read again. Returns whether one was read.
    ///
    /// There can be more than a thousand, and this runs for each call that may have changed files.
    fn keep_files(&mut self, sources: Vec<(PathBuf, SourceFormat)>) -> bool {
        let found: HashSet<&Path> = sources.iter().map(|(path, _)| path.as_path()).collect();
        self.files
            .retain(|file| found.contains(file.path.as_path()) || path_survey::exists(&file.path));
        let mut known: HashSet<PathBuf> = self.files.iter().map(|file| file.path.clone()).collect();
        let before = self.files.len();
        for (path, format) in sources {
            if self.files.len() < FILES_MAX + GIT_FILES_MAX && known.insert(path.clone()) {
                self.files.push(SecretFile::read(path, format));
            }
        }
        self.files.len() > before
    }

    /// Adds the values of variables and files to those that are known. Files with little content come
    /// first, so that one with very much does not take their places.
    fn learn(&mut self, variables: &[SecretValue]) {
        let mut files: Vec<&FileSecrets> = self.files.iter().map(|file| &file.secrets).collect();
        let size = |secrets: &&FileSecrets| -> usize {
            secrets.values.iter().map(|value| value.text.len() + VALUE_COST_BYTES).sum()
        };
        files.sort_by_key(size);
        self.is_full = false;
        let mut bytes: usize = self.known.iter().map(|value| value.text.len()).sum();
        for value in variables.iter().chain(files.iter().flat_map(|secrets| &secrets.values)) {
            if self.known.contains(value) {
                continue;
            }
            if self.known.len() >= VALUES_MAX || bytes + value.text.len() > VALUE_BYTES_MAX {
                self.is_full = true;
                continue;
            }
            bytes += value.text.len();
            self.known.push(value.clone());
        }
    }

    /// Learns the values that earlier processes knew, or others that run now.
    fn load(&mut self) {
        let Some(store) = &mut self.store else { return };
        match store.read_changed() {
            Ok(None) => {}
            Ok(Some(values)) => {
                for value in values {
                    // The store has room for half as many at most.
                    if self.known.len() < VALUES_MAX && !self.known.contains(&value) {
                        self.known.push(value);
                        self.is_built = false;
                    }
                }
            }
            Err(error) => self.note_store_problem("read", &error),
        }
    }

    /// Keeps the values of files for later processes.
    fn save(&mut self) {
        let Some(store) = self.store.as_mut().filter(|_| !self.is_read_only) else { return };
        self.stored = Some(days_since_epoch());
        let files = self.files.iter().filter(|file| file.format != SourceFormat::UserGitSettings);
        // Files with few values come first, as above.
        let mut files: Vec<&FileSecrets> = files.map(|file| &file.secrets).collect();
        files.sort_by_key(|secrets| secrets.values.len());
        let values: Vec<&SecretValue> = files.iter().flat_map(|secrets| &secrets.values).collect();
        match store.save(&values) {
            Ok(StoreRoom::Enough) => self.store_problem = None,
            Ok(StoreRoom::Full) => {
                let problem = "there are too many secret values to keep all of them for later runs";
                self.store_problem = Some(problem.to_owned());
            }
            Err(error) => self.note_store_problem("write", &error),
        }
    }

    fn note_store_problem(&mut self, verb: &str, error: &zero_sandbox::ConfigFileError) {
        tracing::warn!(%error, verb, "cannot use the stored secret values");
        let problem = format!("cannot {verb} the secret values that earlier runs knew: {error}");
        self.store_problem = Some(problem);
    }
}

impl SecretFile {
    fn read(path: PathBuf, format: SourceFormat) -> Self {
        // Read before the content, so that a change meanwhile shows at the next check.
        let stamp = path_survey::read_target_stamp(&path);
        let target = path_survey::canonicalize(&path).unwrap_or_else(|| path.clone());
        let secrets = match (path_survey::read_file_ends(&target, FILE_BYTES_MAX), format) {
            (None, _) => FileSecrets::default(),
            (Some(FileEnds { head, tail: None }), SourceFormat::SecretFile) => {
                secret_values::read_file(&path, &head)
            }
            (Some(FileEnds { head, tail: Some(tail) }), SourceFormat::SecretFile) => {
                secret_values::read_file_ends(&path, &head, &tail)
            }
            (Some(FileEnds { head, tail }), _) => {
                let content = [head, tail.unwrap_or_default()].join(&b'\n');
                git_settings::read_file(&content)
            }
        };
        Self { path, stamp, format, secrets }
    }

    /// Whether it has to be read again. Two changes in a moment may have the same stamp.
    fn is_changed(&self) -> bool {
        let now = path_survey::read_target_stamp(&self.path);
        now != self.stamp || now.is_some_and(|stamp| !stamp.is_stable())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    struct Fixture {
        temp: tempfile::TempDir,
        root: PathBuf,
        config: SecretMaskConfig,
        secrets: Arc<WorkspaceSecrets>,
    }

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let temp = tempfile::tempdir().unwrap();
            let config = SecretMaskConfig {
                files: SecretFileSet::standard(),
                variables: vec![("CI_TOKEN".to_owned(), "variable-9fK2mQ4x".to_owned())],
                git_settings: vec![temp.path().join("home/.gitconfig")],
                store: Some(StateDir::new(temp.path().join("state"))),
            };
            let root = temp.path().canonicalize().unwrap().join("w");
            std::fs::create_dir(&root).unwrap();
            let secrets = Arc::new(WorkspaceSecrets::new(&config, vec![root.clone()]));
            let fixture = Self { temp, root, config, secrets };
            files.iter().for_each(|(path, text)| fixture.write(path, text));
            fixture
        }

        /// The same workspace in another process.
        fn restart(&mut self) {
            self.secrets = Arc::new(WorkspaceSecrets::new(&self.config, vec![self.root.clone()]));
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        #[track_caller]
        fn check(&self, text: &str, expected: &str) {
            assert_eq!(self.secrets.refresh().mask_text(text), expected);
        }
    }

    #[test]
    fn values_of_files_and_variables_are_masked() {
        let f = Fixture::new(&[
            (".env", "A_TOKEN=first-9fK2mQ4x\nPORT=12345678\n"),
            ("a/b/c/d/.env.local", "B_TOKEN=second-9fK2mQ4x\n"),
            ("a/b/c/d/e/.env", "C_TOKEN=third-9fK2mQ4x\n"),
            ("node_modules/x/.env", "D_TOKEN=fourth-9fK2mQ4x\n"),
            (".env.example", "E_TOKEN=fifth-9fK2mQ4x\n"),
        ]);
        f.check(
            "first-9fK2mQ4x second-9fK2mQ4x third-9fK2mQ4x fourth-9fK2mQ4x fifth-9fK2mQ4x 12345678",
            "‹secret A_TOKEN› ‹secret B_TOKEN› ‹secret C_TOKEN› fourth-9fK2mQ4x fifth-9fK2mQ4x 12345678",
        );
        f.check("variable-9fK2mQ4x", "‹secret CI_TOKEN›");
        let report = f.secrets.report();
        assert_eq!(report.names, ["A_TOKEN", "B_TOKEN", "C_TOKEN"]);
        assert_eq!((report.values, &report.left_alone[..]), (4, &["PORT".to_owned()][..]));
        assert_eq!(report.bounds, Vec::<String>::new());
        // A file that a call names is read wherever it is.
        let inner = f.root.join("node_modules/x/.env");
        assert!(f.secrets.learn_file(&inner));
        f.check("fourth-9fK2mQ4x", "‹secret D_TOKEN›");
    }

    #[test]
    fn changed_file_is_read_again_and_old_values_stay_known() {
        let f = Fixture::new(&[(".env", "A_TOKEN=first-9fK2mQ4x\n")]);
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        f.write(".env", "A_TOKEN=other-9fK2mQ4x\n");
        f.check("first-9fK2mQ4x other-9fK2mQ4x", "‹secret A_TOKEN› ‹secret A_TOKEN›");
        std::fs::remove_file(f.root.join(".env")).unwrap();
        f.secrets.mark_stale();
        f.check("first-9fK2mQ4x other-9fK2mQ4x", "‹secret A_TOKEN› ‹secret A_TOKEN›");
        f.write("sub/.env", "B_TOKEN=new-9fK2mQ4x\n");
        f.check("new-9fK2mQ4x", "new-9fK2mQ4x");
        f.secrets.mark_stale();
        f.check("new-9fK2mQ4x", "‹secret B_TOKEN›");
    }

    #[test]
    fn file_beyond_bound_is_not_masked_and_reported() {
        let large = "x".repeat(FILE_BYTES_MAX as usize + 1);
        let f = Fixture::new(&[(".env", &large), ("x.p12", "\0")]);
        f.secrets.refresh();
        let root = f.root.clone();
        assert!(!f.secrets.learn_file(&root.join(".env")));
        assert!(!f.secrets.learn_file(&root.join("x.p12")));
        assert!(f.secrets.learn_file(&root.join("missing/.env")));
        assert_eq!(f.secrets.report().bounds.len(), 2);
    }

    #[test]
    fn ends_of_large_file_are_known() {
        let filler = "#\n".repeat(FILE_BYTES_MAX as usize + 10);
        let text = format!("A_TOKEN=first-9fK2mQ4x\n{filler}B_TOKEN=other-9fK2mQ4x\n");
        let f = Fixture::new(&[(".env", &text)]);
        f.check("first-9fK2mQ4x other-9fK2mQ4x", "‹secret A_TOKEN› ‹secret B_TOKEN›");
        assert!(!f.secrets.learn_file(&f.root.join(".env")));
    }

    #[test]
    fn later_process_knows_values_of_earlier_one() {
        let mut f = Fixture::new(&[(".env", "A_TOKEN=first-9fK2mQ4x\n")]);
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        std::fs::rename(f.root.join(".env"), f.root.join("notes.txt")).unwrap();
        f.restart();
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        // Another process that runs now learns what this one finds.
        let other = Arc::clone(&f.secrets);
        other.mark_stale();
        f.restart();
        f.write(".env", "B_TOKEN=other-9fK2mQ4x\n");
        f.check("other-9fK2mQ4x", "‹secret B_TOKEN›");
        std::fs::remove_file(f.root.join(".env")).unwrap();
        assert_eq!(other.refresh().mask_text("other-9fK2mQ4x"), "‹secret B_TOKEN›");
        // Variables are not stored.
        let stored = std::fs::read_dir(f.temp.path().join("state/secrets")).unwrap();
        for entry in stored {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            assert!(!text.contains("variable-9fK2mQ4x"), "{text}");
        }
        f.config.store = None;
        f.restart();
        f.check("first-9fK2mQ4x", "first-9fK2mQ4x");
    }

    #[test]
    fn process_that_starts_soon_after_a_search_uses_it_unless_files_may_have_changed() {
        let mut f = Fixture::new(&[("sub/.env", "A_TOKEN=first-9fK2mQ4x\n")]);
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        f.restart();
        f.write("new/.env", "B_TOKEN=other-9fK2mQ4x\n");
        f.write("sub/.env", "A_TOKEN=third-9fK2mQ4x\n");
        // Known files are read again, without a search for others.
        f.check("third-9fK2mQ4x other-9fK2mQ4x", "‹secret A_TOKEN› other-9fK2mQ4x");
        f.secrets.remove_record();
        f.restart();
        f.check("other-9fK2mQ4x", "‹secret B_TOKEN›");
        f.write("next/.env", "C_TOKEN=fourth-9fK2mQ4x\n");
        f.secrets.mark_stale();
        f.restart();
        f.check("fourth-9fK2mQ4x", "‹secret C_TOKEN›");
    }

    #[test]
    fn store_that_cannot_be_written_is_reported() {
        let f = Fixture::new(&[(".env", "A_TOKEN=first-9fK2mQ4x\n")]);
        std::fs::write(f.temp.path().join("state"), "in the way").unwrap();
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        let bounds = f.secrets.report().bounds;
        assert!(bounds.len() == 1 && bounds[0].contains("earlier runs knew"), "{bounds:?}");
    }

    #[test]
    fn values_of_git_settings_are_masked() {
        let f = Fixture::new(&[
            (".git/config", "[remote \"o\"]\nurl = https://me:first-9fK2mQ4x@example.com/x\n"),
            ("a/b/.git/config", "[github]\ntoken = second-9fK2mQ4x\n"),
        ]);
        std::fs::create_dir(f.temp.path().join("home")).unwrap();
        let own = "[sendemail]\nsmtppass = third-9fK2mQ4x\n";
        std::fs::write(f.temp.path().join("home/.gitconfig"), own).unwrap();
        f.check(
            "https://me:first-9fK2mQ4x@example.com/x second-9fK2mQ4x third-9fK2mQ4x",
            "https://me:‹secret remote.url›@example.com/x ‹secret github.token› ‹secret sendemail.smtppass›",
        );
        assert_eq!(f.secrets.report().files, []);
        let inner = WorkspaceSecrets::new(&f.config, vec![f.root.join("a")]);
        assert_eq!(inner.refresh().mask_text("first-9fK2mQ4x"), "‹secret remote.url›");
    }

    #[test]
    fn linked_file_is_followed() {
        let f = Fixture::new(&[("shared/conf", "A_TOKEN=first-9fK2mQ4x\n")]);
        std::os::unix::fs::symlink("shared/conf", f.root.join(".env")).unwrap();
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        f.write("shared/conf", "A_TOKEN=other-9fK2mQ4x\n");
        f.check("other-9fK2mQ4x", "‹secret A_TOKEN›");
        f.write("shared/next", "A_TOKEN=third-9fK2mQ4x\n");
        std::fs::remove_file(f.root.join(".env")).unwrap();
        std::os::unix::fs::symlink("shared/next", f.root.join(".env")).unwrap();
        f.check("third-9fK2mQ4x", "‹secret A_TOKEN›");
    }

    #[test]
    fn huge_values_leave_room_for_others() {
        let huge = format!("A_TOKEN={}\n", "aB3x".repeat(262_000));
        let f = Fixture::new(&[
            (".env", "A_TOKEN=first-9fK2mQ4x\nB_TOKEN=other-9fK2mQ4x\n"),
            (".env.a", &huge),
            (".env.b", &huge.replace("aB3x", "cB3x")),
            (".env.c", &huge.replace("aB3x", "dB3x")),
        ]);
        f.check("first-9fK2mQ4x other-9fK2mQ4x", "‹secret A_TOKEN› ‹secret B_TOKEN›");
    }

    #[test]
    fn many_new_values_do_not_push_out_a_known_one() {
        let decoys = |prefix: &str| -> String {
            (0..VALUES_MAX - 2).map(|n| format!("K{n}_KEY={prefix}-{n}-9fK2mQ4x\n")).collect()
        };
        // A file with few values comes first, whatever its name is.
        let f = Fixture::new(&[(".env", "A_TOKEN=first-9fK2mQ4x\n"), (".env.a", &decoys("one"))]);
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        std::fs::rename(f.root.join(".env"), f.root.join("notes")).unwrap();
        for prefix in ["two", "three"] {
            f.write(".env.a", &decoys(prefix));
            f.secrets.mark_stale();
            f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        }
        assert_eq!(
            f.secrets.report().bounds,
            [
                "there are too many secret values to keep all of them for later runs",
                "only 4096 values are masked; there is room for 4096 with 2 MiB"
            ]
        );
        assert!(!f.secrets.learn_file(&f.root.join(".env.a")));
    }
}
