//! The secret values that a tool host knows: those in secret files of its workspace, and in variables.
//!
//! The workspace is searched for secret files at the first call, after calls that may have changed
//! files, and from time to time; known files are checked at every call. A value that was known stays
//! known, so that moving a file away does not reveal it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zero_core::{SecretMask, SecretValue};
use zero_policy::SecretFileSet;
use zero_sandbox::path_survey::{self, ChangeStamp};

use super::secret_search::{FoundFiles, SecretSearch};
use super::secret_values::{self, FileSecrets};

/// Longest time between two searches of the workspace.
const SEARCH_INTERVAL: Duration = Duration::from_secs(10);
/// Most secret files.
const FILES_MAX: usize = 1_024;
/// Largest secret file whose values are known.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Most secret values.
const VALUES_MAX: usize = 4_096;
/// Most bytes of all secret values.
const VALUE_BYTES_MAX: usize = 2 << 20;

/// Where a host finds secret values. Nowhere by default.
#[derive(Clone, Debug, Default)]
pub struct SecretMaskConfig {
    /// The files of the workspace that contain secrets.
    pub files: SecretFileSet,
    /// Variables that may contain secrets.
    pub variables: Vec<(String, String)>,
}

/// The secret values of a workspace.
pub struct WorkspaceSecrets {
    roots: Vec<PathBuf>,
    files: SecretFileSet,
    variables: Vec<SecretValue>,
    state: Mutex<SecretState>,
    is_stale: AtomicBool,
}

#[derive(Default)]
struct SecretState {
    searched: Option<Instant>,
    search: SecretSearch,
    files: Vec<SecretFile>,
    /// All values that were ever known, in the order in which they became known. Later values cannot
    /// push out earlier ones.
    known: Vec<SecretValue>,
    /// Whether there were more values than can be known.
    is_full: bool,
    bounds: Vec<String>,
    mask: Arc<SecretMask>,
    is_built: bool,
}

/// A secret file as it was read.
struct SecretFile {
    path: PathBuf,
    /// The file behind links.
    target: PathBuf,
    stamp: Option<ChangeStamp>,
    /// What it contains; `None` if that is not known.
    secrets: Option<FileSecrets>,
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
        Self {
            roots,
            files: config.files.clone(),
            variables,
            state: Mutex::default(),
            is_stale: AtomicBool::new(false),
        }
    }

    fn is_disabled(&self) -> bool {
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
        self.is_stale.store(true, Ordering::Relaxed);
    }

    fn needs_search(&self) -> bool {
        let is_due = |searched: Instant| searched.elapsed() > SEARCH_INTERVAL;
        self.is_stale.load(Ordering::Relaxed) || self.lock().searched.is_none_or(is_due)
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
            state.files.push(SecretFile::read(path.to_owned()));
            state.is_built = false;
        }
        self.build(&mut state);
        let has_room = !state.is_full;
        let known = state.files.iter().find(|file| file.path == path);
        known.is_some_and(|file| file.secrets.is_some()) && has_room
    }

    /// Brings the values up to date: blocks.
    fn refresh(&self) -> Arc<SecretMask> {
        let is_search_due = self.needs_search();
        let mut state = self.lock();
        if is_search_due {
            // A change from now on makes it stale again.
            self.is_stale.store(false, Ordering::Relaxed);
            self.search(&mut state);
        }
        self.read_changed_files(&mut state);
        self.build(&mut state);
        Arc::clone(&state.mask)
    }

    fn search(&self, state: &mut SecretState) {
        let FoundFiles { mut paths, mut bounds, is_late } =
            state.search.find_files(&self.roots, &self.files);
        if paths.len() > FILES_MAX {
            bounds.push(format!("only {FILES_MAX} of {} secret files were read", paths.len()));
            paths.truncate(FILES_MAX);
        }
        // Files that calls named stay known wherever they are.
        let mut kept = std::mem::take(&mut state.files);
        kept.retain(|file| paths.contains(&file.path) || path_survey::exists(&file.path));
        for path in paths {
            if kept.len() < FILES_MAX && !kept.iter().any(|file| file.path == path) {
                kept.push(SecretFile::read(path));
                state.is_built = false;
            }
        }
        state.files = kept;
        state.bounds = bounds;
        if is_late {
            self.mark_stale();
        }
        state.searched = Some(Instant::now());
    }

    fn read_changed_files(&self, state: &mut SecretState) {
        for file in &mut state.files {
            if file.is_changed() {
                let read = SecretFile::read(file.path.clone());
                let old = std::mem::replace(file, read);
                state.is_built &= old.secrets == file.secrets;
            }
        }
    }

    fn build(&self, state: &mut SecretState) {
        if std::mem::replace(&mut state.is_built, true) {
            return;
        }
        state.learn(&self.variables);
        state.mask = Arc::new(SecretMask::new(state.known.iter().cloned()));
    }

    /// What is masked now: blocks.
    pub fn report(&self) -> SecretReport {
        if self.is_disabled() {
            return SecretReport::default();
        }
        self.refresh();
        let state = self.lock();
        let mut report = SecretReport { bounds: state.bounds.clone(), ..SecretReport::default() };
        for SecretFile { path, secrets, .. } in &state.files {
            report.files.push((path.clone(), secrets.is_some()));
            let Some(secrets) = secrets else {
                report.bounds.push(format!("the values in `{}` are not known", path.display()));
                continue;
            };
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
    /// Adds the values of variables and files to those that are known. Files with few values come
    /// first, so that one with very many does not take their places.
    fn learn(&mut self, variables: &[SecretValue]) {
        let mut files: Vec<&FileSecrets> =
            self.files.iter().filter_map(|file| file.secrets.as_ref()).collect();
        files.sort_by_key(|secrets| secrets.values.len());
        self.is_full = false;
        let mut bytes: usize = self.known.iter().map(|value| value.text.len()).sum();
        for value in variables.iter().chain(files.iter().flat_map(|secrets| &secrets.values)) {
            if self.known.contains(value) {
                continue;
            }
            bytes += value.text.len();
            if self.known.len() >= VALUES_MAX || bytes > VALUE_BYTES_MAX {
                self.is_full = true;
                break;
            }
            self.known.push(value.clone());
        }
    }
}

impl SecretFile {
    fn read(path: PathBuf) -> Self {
        let target = path_survey::canonicalize(&path).unwrap_or_else(|| path.clone());
        // Read before the content, so that a change meanwhile shows at the next check.
        let stamp = path_survey::read_stamp(&target);
        let content = path_survey::read_small_file(&target, FILE_BYTES_MAX);
        let secrets = content.and_then(|content| secret_values::read_file(&path, &content));
        Self { path, target, stamp, secrets }
    }

    /// Whether it has to be read again. Two changes in a moment may have the same stamp.
    fn is_changed(&self) -> bool {
        let now = path_survey::read_stamp(&self.target);
        let is_moved = path_survey::canonicalize(&self.path).is_some_and(|to| to != self.target);
        is_moved || now != self.stamp || now.is_some_and(|stamp| !stamp.is_stable())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    struct Fixture {
        temp: tempfile::TempDir,
        secrets: Arc<WorkspaceSecrets>,
    }

    impl Fixture {
        fn new(files: &[(&str, &str)]) -> Self {
            let temp = tempfile::tempdir().unwrap();
            let config = SecretMaskConfig {
                files: SecretFileSet::standard(),
                variables: vec![("CI_TOKEN".to_owned(), "variable-9fK2mQ4x".to_owned())],
            };
            let root = temp.path().canonicalize().unwrap();
            let fixture =
                Self { temp, secrets: Arc::new(WorkspaceSecrets::new(&config, vec![root])) };
            files.iter().for_each(|(path, text)| fixture.write(path, text));
            fixture
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.temp.path().join(path);
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
        let inner = f.temp.path().canonicalize().unwrap().join("node_modules/x/.env");
        assert!(f.secrets.learn_file(&inner));
        f.check("fourth-9fK2mQ4x", "‹secret D_TOKEN›");
    }

    #[test]
    fn changed_file_is_read_again_and_old_values_stay_known() {
        let f = Fixture::new(&[(".env", "A_TOKEN=first-9fK2mQ4x\n")]);
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        f.write(".env", "A_TOKEN=other-9fK2mQ4x\n");
        f.check("first-9fK2mQ4x other-9fK2mQ4x", "‹secret A_TOKEN› ‹secret A_TOKEN›");
        std::fs::remove_file(f.temp.path().join(".env")).unwrap();
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
        let root = f.temp.path().canonicalize().unwrap();
        assert!(!f.secrets.learn_file(&root.join(".env")));
        assert!(!f.secrets.learn_file(&root.join("x.p12")));
        assert!(f.secrets.learn_file(&root.join("missing/.env")));
        assert_eq!(f.secrets.report().bounds.len(), 2);
    }

    #[test]
    fn linked_file_is_followed() {
        let f = Fixture::new(&[("shared/conf", "A_TOKEN=first-9fK2mQ4x\n")]);
        std::os::unix::fs::symlink("shared/conf", f.temp.path().join(".env")).unwrap();
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        f.write("shared/conf", "A_TOKEN=other-9fK2mQ4x\n");
        f.check("other-9fK2mQ4x", "‹secret A_TOKEN›");
        f.write("shared/next", "A_TOKEN=third-9fK2mQ4x\n");
        std::fs::remove_file(f.temp.path().join(".env")).unwrap();
        std::os::unix::fs::symlink("shared/next", f.temp.path().join(".env")).unwrap();
        f.check("third-9fK2mQ4x", "‹secret A_TOKEN›");
    }

    #[test]
    fn many_new_values_do_not_push_out_a_known_one() {
        let decoys = |prefix: &str| -> String {
            (0..VALUES_MAX - 2).map(|n| format!("K{n}_KEY={prefix}-{n}-9fK2mQ4x\n")).collect()
        };
        // A file with few values comes first, whatever its name is.
        let f = Fixture::new(&[(".env", "A_TOKEN=first-9fK2mQ4x\n"), (".env.a", &decoys("one"))]);
        f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        std::fs::rename(f.temp.path().join(".env"), f.temp.path().join("notes")).unwrap();
        for prefix in ["two", "three"] {
            f.write(".env.a", &decoys(prefix));
            f.secrets.mark_stale();
            f.check("first-9fK2mQ4x", "‹secret A_TOKEN›");
        }
        assert_eq!(
            f.secrets.report().bounds,
            ["only 4096 values are masked; there is room for 4096 with 2 MiB"]
        );
        assert!(!f.secrets.learn_file(&f.temp.path().canonicalize().unwrap().join(".env.a")));
    }
}
