//! What running commands of all zero processes of a user may not create.
//!
//! A command that starts while a command of another process runs may find a file that the other
//! created, which looks as if it had always been there. So each watch has a folder in zero's state
//! that other processes read: with the paths that its command may not create, and with those that
//! others quarantined meanwhile. The kernel releases its lock when the process dies.

use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use zero_sandbox::StateDir;
use zero_sandbox::append_file::LineStart;
use zero_sandbox::folder_lease::{self, FolderLease};

/// Where the folders of watches are, in zero's state folder.
const SHELF: &str = "watches";
/// The paths that a command may not create, because they were missing when it started.
const MISSING: &str = "missing";
/// The paths that it may not create once the command that created them has ended.
const INHERITED: &str = "inherited";
/// The paths that other watches quarantined.
const QUARANTINED: &str = "quarantined";
/// Exists when the watch has begun to check what its command left.
const CHECKING: &str = "checking";

/// Most watches at the same time; no further command starts.
const WATCHES_MAX: usize = 4_096;
/// Most bytes of one file of a watch. No command starts that needs more.
const BYTES_MAX: u64 = 16 << 20;
/// Most bytes of quarantined paths that are noted for another watch.
const QUARANTINED_BYTES_MAX: u64 = 4 << 20;

/// The folder of one watch, which is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct WatchLease {
    state: StateDir,
    lease: FolderLease,
    name: String,
}

/// The paths that commands of other watches may not create.
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
    /// Creates the folder of a new watch. Call it before inspecting any file of the workspace.
    pub(crate) fn acquire(state: &StateDir) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        folder_lease::sweep(state, &[SHELF]);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{}-{count}", std::process::id(), now.as_nanos());
        let lease = FolderLease::acquire(state, SHELF, &name)?;
        Ok(Self { state: state.clone(), lease, name })
    }

    /// Says what the command of this watch may not create. Call it before the command starts.
    pub(crate) fn publish<'a>(
        &self,
        missing: impl Iterator<Item = &'a Path>,
        inherited: impl Iterator<Item = &'a Path>,
    ) -> io::Result<()> {
        self.write_paths(INHERITED, inherited)?;
        self.write_paths(MISSING, missing)
    }

    fn write_paths<'a>(&self, name: &str, paths: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        let mut text = Vec::new();
        for path in paths {
            text.extend(escape(path.as_os_str()));
            text.push(b'\n');
        }
        if text.len() as u64 > BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "too many protected paths"));
        }
        self.lease.folder().create_new(name)?.write_all(&text)
    }

    /// Reads what commands of other watches may not create.
    pub(crate) fn read_others(&self) -> io::Result<OtherWatches> {
        let mut others = OtherWatches::default();
        for name in self.list_others()? {
            let folder = self.state.child(SHELF).child(&name);
            let missing = read_paths(&folder, MISSING)?;
            if folder.size(CHECKING).is_err() {
                others.unchecked.extend(missing.iter().cloned());
            }
            others.paths.extend(missing);
            others.paths.extend(read_paths(&folder, INHERITED)?);
        }
        Ok(others)
    }

    /// Tells other watches that this one checks its paths now, and later no more.
    pub(crate) fn begin_check(&self) {
        // Without it, another watch leaves to this one what this one checks.
        let _ = self.lease.folder().create_new(CHECKING);
    }

    /// Tells other watches that a path was quarantined: their commands must not create it again.
    pub(crate) fn report_quarantined(&self, path: &Path) -> io::Result<()> {
        for name in self.list_others()? {
            let folder = self.state.child(SHELF).child(&name);
            let line = escape(path.as_os_str());
            let mut list = folder.open_append(QUARANTINED)?;
            if list.size()?.is_some_and(|size| size < QUARANTINED_BYTES_MAX) {
                list.append_line(LineStart::Fresh, &line)?;
            }
        }
        Ok(())
    }

    /// The paths that other watches quarantined since this one was acquired.
    pub(crate) fn list_quarantined(&self) -> QuarantineList {
        let folder = self.lease.folder();
        let is_full = folder.size(QUARANTINED).is_ok_and(|size| size >= QUARANTINED_BYTES_MAX);
        match read_paths(&folder, QUARANTINED) {
            Ok(paths) => {
                let paths = paths.into_iter().map(PathBuf::from).collect();
                QuarantineList { paths, is_full }
            }
            Err(_) => QuarantineList { is_full: true, ..QuarantineList::default() },
        }
    }

    /// The names of the other watches whose process lives.
    fn list_others(&self) -> io::Result<Vec<String>> {
        let mut names = self.state.child(SHELF).list_names()?;
        if names.len() > WATCHES_MAX {
            return Err(io::Error::other("too many commands run at the same time"));
        }
        names.retain(|name| *name != self.name && FolderLease::is_held(&self.state, SHELF, name));
        Ok(names)
    }
}

/// Reads a file of paths; none if it does not exist, or no longer.
fn read_paths(folder: &StateDir, name: &str) -> io::Result<Vec<OsString>> {
    let file = match folder.open(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut text)?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(unescape).collect())
}

/// A path on one line.
fn escape(path: &OsStr) -> Vec<u8> {
    let mut line = Vec::with_capacity(path.len());
    for byte in path.as_bytes() {
        match byte {
            b'\n' => line.extend(b"\\n"),
            b'\\' => line.extend(b"\\\\"),
            byte => line.push(*byte),
        }
    }
    line
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

    #[test]
    fn watches_see_each_other_while_they_live() {
        let temp = tempfile::tempdir().unwrap();
        let state = StateDir::new(temp.path().join("state"));
        let (one, other) =
            (WatchLease::acquire(&state).unwrap(), WatchLease::acquire(&state).unwrap());
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
        drop(other);
        assert!(state.child(SHELF).list_names().unwrap().is_empty());
    }
}
