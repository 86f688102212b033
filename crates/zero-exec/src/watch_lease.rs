//! What running commands of all zero processes of a user may not create.
//!
//! A command that starts while a command of another process runs may find a file that the other
//! created, which looks as if it had always been there. So each process has a folder in zero's state
//! that other processes read: with the paths that each of its commands may not create, and with those
//! that others quarantined meanwhile. The kernel releases its lock when the process dies.
//!
//! The folder stays as long as the process: to create and remove one takes longer than all that is
//! written to it.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use zero_policy::protected_paths::find_settings;
use zero_sandbox::append_file::LineStart;
use zero_sandbox::folder_lease::{self, FolderLease};
use zero_sandbox::{StateDir, path_survey};

/// Where the folders with watches are, in zero's state folder.
const SHELF: &str = "watches";
/// The paths that a command may not create, because they were missing when it started.
const MISSING: &str = "missing";
/// The paths that it may not create once the command that created them has ended.
const INHERITED: &str = "inherited";
/// The paths that other watches quarantined. Exists as long as the watch.
const QUARANTINED: &str = "quarantined";
/// Exists when the watch has begun to check what its command left.
const CHECKING: &str = "checking";

/// Most watches of other processes at the same time; no further command starts.
const WATCHES_MAX: usize = 4_096;
/// Most bytes of one file of a watch. No command starts that needs more.
const BYTES_MAX: u64 = 16 << 20;
/// Most bytes of quarantined paths that are noted for another watch.
const QUARANTINED_BYTES_MAX: u64 = 4 << 20;

/// The folder in which the watches of one process are, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct WatchFolder {
    state: StateDir,
    lease: FolderLease,
    name: String,
    /// The number of the next watch.
    next: AtomicU64,
}

impl WatchFolder {
    /// Creates the folder, and removes those of processes that have died.
    pub(crate) fn acquire(state: &StateDir) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        folder_lease::sweep(state, &[SHELF]);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{count}", std::process::id(), now.as_nanos());
        let lease = FolderLease::acquire(state, SHELF, &name)?;
        Ok(Self { state: state.clone(), lease, name, next: AtomicU64::new(0) })
    }

    /// Whether other processes can find it.
    pub(crate) fn is_intact(&self) -> bool {
        self.lease.is_intact()
    }

    /// The watches of other processes that live.
    fn list_others(&self) -> io::Result<Vec<WatchFiles>> {
        let mut processes = self.state.child(SHELF).list_names()?;
        processes.retain(|name| *name != self.name);
        list_watches(&self.state, &processes)
    }
}

/// The files of one watch in the folder of its process.
#[derive(Debug)]
struct WatchFiles {
    folder: StateDir,
    number: String,
}

impl WatchFiles {
    fn name(&self, kind: &str) -> String {
        format!("{}.{kind}", self.number)
    }

    /// Writes a file of paths; none if there are no paths.
    fn write_paths<'a>(&self, kind: &str, paths: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        let mut text = Vec::new();
        for path in paths {
            escape_into(path.as_os_str(), &mut text);
            text.push(b'\n');
        }
        if text.len() as u64 > BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many protected paths"));
        }
        match text.is_empty() {
            true => Ok(()),
            false => self.folder.create_new(&self.name(kind))?.write_all(&text),
        }
    }

    /// Reads a file of paths; none if it does not exist, or no longer.
    fn read_paths(&self, kind: &str) -> io::Result<Vec<OsString>> {
        let file = match self.folder.open(&self.name(kind)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut text = Vec::new();
        file.take(BYTES_MAX).read_to_end(&mut text)?;
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.map(unescape).collect())
    }
}

/// One watch, as other processes know it. Its files are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct WatchLease {
    process: Arc<WatchFolder>,
    files: WatchFiles,
}

/// The paths that commands of other processes may not create.
#[derive(Debug, Default)]
pub(crate) struct OtherWatches {
    /// All of them.
    pub(crate) paths: HashSet<OsString>,
    /// Those that another watch saw missing and is still going to check.
    pub(crate) unchecked: HashSet<OsString>,
}

/// The paths that other watches quarantined.
#[derive(Debug, Default)]
pub(crate) struct QuarantineList {
    pub(crate) paths: BTreeSet<PathBuf>,
    /// Whether some are missing from the list.
    pub(crate) is_full: bool,
}

impl WatchLease {
    /// Begins a new watch. Call it before inspecting any file of the workspace.
    pub(crate) fn begin(process: &Arc<WatchFolder>) -> io::Result<Self> {
        let number = process.next.fetch_add(1, Ordering::Relaxed).to_string();
        let files = WatchFiles { folder: process.lease.folder(), number };
        files.folder.create_new(&files.name(QUARANTINED))?;
        Ok(Self { process: Arc::clone(process), files })
    }

    /// Says what the command of this watch may not create. Call it before the command starts.
    pub(crate) fn publish<'a>(
        &self,
        missing: impl Iterator<Item = &'a Path>,
        inherited: impl Iterator<Item = &'a Path>,
    ) -> io::Result<()> {
        self.files.write_paths(INHERITED, inherited)?;
        self.files.write_paths(MISSING, missing)
    }

    /// Reads what commands of other processes may not create.
    pub(crate) fn read_others(&self) -> io::Result<OtherWatches> {
        let mut others = OtherWatches::default();
        for watch in self.process.list_others()? {
            let missing = watch.read_paths(MISSING)?;
            if watch.folder.size(&watch.name(CHECKING)).is_err() {
                others.unchecked.extend(missing.iter().cloned());
            }
            others.paths.extend(missing);
            others.paths.extend(watch.read_paths(INHERITED)?);
        }
        Ok(others)
    }

    /// Tells other processes that this watch checks its paths now, and later no more.
    pub(crate) fn begin_check(&self) {
        // Without it, another watch leaves to this one what this one checks.
        let _ = self.files.folder.create_new(&self.files.name(CHECKING));
    }

    /// Tells other processes that a path was quarantined: their commands must not create it again.
    pub(crate) fn report_quarantined(&self, path: &Path) -> io::Result<()> {
        let mut line = Vec::new();
        escape_into(path.as_os_str(), &mut line);
        for watch in self.process.list_others()? {
            // A watch that has ended meanwhile needs no report.
            let list = watch.folder.open_existing_append(&watch.name(QUARANTINED))?;
            let Some(mut list) = list else { continue };
            if list.size()?.is_some_and(|size| size < QUARANTINED_BYTES_MAX) {
                list.append_line(LineStart::Fresh, &line)?;
            }
        }
        Ok(())
    }

    /// The paths that other processes quarantined since this watch began.
    pub(crate) fn list_quarantined(&self) -> QuarantineList {
        let size = self.files.folder.size(&self.files.name(QUARANTINED));
        let is_full = size.is_ok_and(|size| size >= QUARANTINED_BYTES_MAX);
        match self.files.read_paths(QUARANTINED) {
            Ok(paths) => {
                let paths = paths.into_iter().map(PathBuf::from).collect();
                QuarantineList { paths, is_full }
            }
            Err(_) => QuarantineList { is_full: true, ..QuarantineList::default() },
        }
    }
}

impl Drop for WatchLease {
    fn drop(&mut self) {
        // Files that cannot be removed now are removed with the folder.
        for kind in [MISSING, INHERITED, CHECKING, QUARANTINED] {
            let _ = self.files.folder.remove(&self.files.name(kind));
        }
    }
}

/// Whether a running command may not create this canonical path. A file that appears there is
/// attributed to the command, even if another process creates it, and moved to quarantine.
pub(crate) fn is_watched(state: &StateDir, path: &Path) -> io::Result<bool> {
    // Further down, the names that may not be created cannot be listed in advance. Existing folders
    // are read-only for the command, so it created nothing in them.
    let is_new_setting = find_settings(path).is_some_and(|setting| !path_survey::exists(setting));
    let covers = |watched: &OsString| {
        let watched = Path::new(watched);
        let is_beside = || watched.parent().is_some_and(|folder| path.starts_with(folder));
        path.starts_with(watched) || is_new_setting && is_beside()
    };
    let state_dir = state.child(SHELF);
    for watch in list_watches(state, &state_dir.list_names()?)? {
        if watch.read_paths(MISSING)?.iter().any(covers) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The watches of the processes with these folders, if they live.
fn list_watches(state: &StateDir, processes: &[String]) -> io::Result<Vec<WatchFiles>> {
    let mut watches = Vec::new();
    for name in processes.iter().filter(|name| FolderLease::is_held(state, SHELF, name)) {
        let folder = state.child(SHELF).child(name);
        for file in folder.list_names()? {
            let number = file.split_once('.').filter(|(_, kind)| *kind == QUARANTINED);
            if let Some((number, _)) = number {
                watches.push(WatchFiles { folder: folder.clone(), number: number.to_owned() });
            }
        }
        if watches.len() > WATCHES_MAX {
            return Err(io::Error::other("too many commands run at the same time"));
        }
    }
    Ok(watches)
}

/// Appends a path as one line.
fn escape_into(path: &OsStr, line: &mut Vec<u8>) {
    let mut rest = path.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\\')) {
        let (plain, special) = rest.split_at(at);
        line.extend_from_slice(plain);
        line.extend_from_slice(if special.starts_with(b"\n") { b"\\n" } else { b"\\\\" });
        rest = special.get(1..).unwrap_or_default();
    }
    line.extend_from_slice(rest);
}

fn unescape(line: &[u8]) -> OsString {
    let mut path = Vec::with_capacity(line.len());
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => path.push(b'\n'),
                other => path.extend(other),
            },
            byte => path.push(*byte),
        }
    }
    OsString::from_vec(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &HashSet<OsString>) -> Vec<&str> {
        let mut names: Vec<&str> = paths.iter().filter_map(|path| path.to_str()).collect();
        names.sort_unstable();
        names
    }

    /// The watches of another process.
    fn folder(state: &StateDir) -> Arc<WatchFolder> {
        Arc::new(WatchFolder::acquire(state).unwrap())
    }

    #[test]
    fn watches_see_each_other_while_they_live() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let (here, there) = (folder(&state), folder(&state));
        let (one, other) = (WatchLease::begin(&here).unwrap(), WatchLease::begin(&there).unwrap());
        let (missing, inherited) = ([Path::new("/a\n\\b"), Path::new("/c")], [Path::new("/d")]);
        one.publish(missing.into_iter(), inherited.into_iter()).unwrap();
        other.publish(std::iter::empty(), std::iter::empty()).unwrap();
        let seen = other.read_others().unwrap();
        assert_eq!(names(&seen.paths), ["/a\n\\b", "/c", "/d"]);
        assert_eq!(names(&seen.unchecked), ["/a\n\\b", "/c"]);
        assert!(one.read_others().unwrap().paths.is_empty());
        one.begin_check();
        assert!(other.read_others().unwrap().unchecked.is_empty());
        one.report_quarantined(Path::new("/c")).unwrap();
        assert_eq!(other.list_quarantined().paths, BTreeSet::from(["/c".into()]));
        assert!(one.list_quarantined().paths.is_empty());
        drop(one);
        assert!(other.read_others().unwrap().paths.is_empty());
        drop((other, here, there));
        assert!(state.child(SHELF).list_names().unwrap().is_empty());
    }

    #[test]
    fn path_that_a_running_command_may_not_create_is_watched() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let is_watched = |path: &str| is_watched(&state, Path::new(path)).unwrap();
        assert!(!is_watched("/w/.vscode"), "nothing runs");
        let lease = WatchLease::begin(&folder(&state)).unwrap();
        lease.publish([Path::new("/w/.zero")].into_iter(), std::iter::empty()).unwrap();
        for (path, expected) in [
            ("/w/.zero", true),
            ("/w/.zero/memory/a.md", true),
            ("/w/a/b/.vscode/tasks.json", true),
            ("/w/.zerox", false),
            ("/w/a.txt", false),
            ("/other/.vscode/tasks.json", false),
        ] {
            assert_eq!(is_watched(path), expected, "{path}");
        }
        drop(lease);
        assert!(!is_watched("/w/.zero"));
    }

    #[test]
    fn watches_of_a_process_share_a_folder_and_leave_no_files() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let (here, there) = (folder(&state), folder(&state));
        let reader = WatchLease::begin(&there).unwrap();
        let leases = ["/a", "/b"].map(|path| {
            let lease = WatchLease::begin(&here).unwrap();
            lease.publish([Path::new(path)].into_iter(), std::iter::empty()).unwrap();
            lease
        });
        assert_eq!(names(&reader.read_others().unwrap().paths), ["/a", "/b"]);
        assert_eq!(state.child(SHELF).list_names().unwrap().len(), 2);
        let [first, second] = leases;
        drop(first);
        assert_eq!(names(&reader.read_others().unwrap().paths), ["/b"]);
        // A report to a watch that has ended creates nothing.
        second.begin_check();
        drop(second);
        reader.report_quarantined(Path::new("/c")).unwrap();
        assert!(here.lease.folder().list_names().unwrap().is_empty());
    }
}
