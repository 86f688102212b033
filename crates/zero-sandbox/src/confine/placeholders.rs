//! Empty folders that stand where a protected path does not exist yet.
//!
//! A mount needs something to lie on, so a path that must not be created gets an empty folder on
//! the host for as long as the command runs. A folder, because version control does not see an
//! empty one. It is taken away afterwards with `rmdir`, which removes nothing that holds anything.
//!
//! Two things make this safe. Each one is written down beside the private `/tmp` before it is made,
//! so that what a crash leaves is found the next time. And everybody who relies on one holds a lock
//! on it: removing a folder takes away the mounts that lie on it in other namespaces, so only the
//! last to leave may.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::profile::wire;

const SUFFIX: &str = "placeholders";

/// How often something that another process takes away meanwhile is tried again.
const TRIES_MAX: u32 = 8;

/// How long to wait between tries.
const PAUSE: Duration = Duration::from_millis(2);

/// How much of one record is read.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// How many files beside the private `/tmp` are looked at.
const RECORDS_MAX: usize = 4096;

/// A line of a record: one folder, with its number once it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    #[serde(with = "wire::path")]
    path: PathBuf,
    inode: Option<u64>,
}

/// The folders that stand in for one command. They go when this does.
#[derive(Debug)]
pub(crate) struct Placeholders {
    record_path: PathBuf,
    record: Option<File>,
    held: Vec<(PathBuf, File)>,
}

impl Placeholders {
    /// None yet; their record will stand beside `tmp`.
    pub(crate) fn beside(tmp: &Path) -> Self {
        let mut name = tmp.as_os_str().to_owned();
        name.push(".");
        name.push(SUFFIX);
        Self { record_path: name.into(), record: None, held: Vec::new() }
    }

    /// Makes an empty folder at `path`, or shares the one that another command made.
    pub(crate) fn stand_in(&mut self, path: &Path) -> io::Result<()> {
        for _ in 0..TRIES_MAX {
            self.write_down(path, None)?;
            match fs::DirBuilder::new().mode(0o755).create(path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            if self.hold(path)? {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "somebody else keeps it locked"))
    }

    /// Shares the folder at `path` when it is one of ours, made for another command.
    pub(crate) fn share(&mut self, path: &Path) -> io::Result<()> {
        let folder = open_folder(path)?;
        let mut entries = rustix::fs::Dir::read_from(&folder)?;
        // Two entries are itself and the folder above.
        let empty = entries.by_ref().take(3).count() < 3;
        if empty && self.is_on_record(path) { self.stand_in(path) } else { Ok(()) }
    }

    fn is_on_record(&self, path: &Path) -> bool {
        let records = self.record_path.parent().map(records).unwrap_or_default();
        records.iter().any(|record| {
            open_record(record)
                .is_some_and(|record| lines(&record).iter().any(|line| line.path == path))
        })
    }

    /// Locks the folder so that nobody takes it away. False when it was taken away meanwhile.
    fn hold(&mut self, path: &Path) -> io::Result<bool> {
        let folder = match open_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            folder => folder?,
        };
        if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockShared).is_err() {
            return Ok(false);
        }
        if !is_still(path, &folder) {
            return Ok(false);
        }
        self.write_down(path, Some(folder.metadata()?.ino()))?;
        self.held.push((path.to_owned(), folder));
        Ok(true)
    }

    fn write_down(&mut self, path: &Path, inode: Option<u64>) -> io::Result<()> {
        if self.record.is_none() {
            self.record = Some(create_record(&self.record_path)?);
        }
        let Some(record) = &mut self.record else { return Ok(()) };
        let mut line = serde_json::to_vec(&Line { path: path.to_owned(), inode })?;
        line.push(b'\n');
        record.write_all(&line)
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        let mut all_gone = true;
        for (path, folder) in self.held.drain(..) {
            all_gone &= take_away(&path, &folder);
        }
        if all_gone && self.record.is_some() {
            // Without its record a folder could not be found again, so it goes last.
            let gone = remove(&self.record_path);
            drop(gone);
        }
    }
}

/// Takes away what commands left behind whose process is gone. Returns how many there were.
pub(crate) fn sweep(tmp: &Path) -> usize {
    let Some(parent) = tmp.parent() else { return 0 };
    let mut swept = 0;
    for path in records(parent) {
        let Some(record) = open_record(&path) else { continue };
        // Whoever is still at work holds the lock.
        if rustix::fs::flock(&record, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let mut all_gone = true;
        for line in lines(&record) {
            let Ok(folder) = open_folder(&line.path) else { continue };
            let same = folder
                .metadata()
                .is_ok_and(|facts| line.inode.is_none_or(|inode| inode == facts.ino()));
            if same && take_away(&line.path, &folder) {
                swept += 1;
            } else {
                all_gone &= !same;
            }
        }
        if all_gone {
            let gone = remove(&path);
            drop(gone);
        }
    }
    swept
}

/// Removes an empty folder that nobody relies on. True when it is settled: gone, or filled by a
/// person, who keeps it.
fn take_away(path: &Path, folder: &File) -> bool {
    if rustix::fs::flock(folder, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    if !is_still(path, folder) {
        return true;
    }
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::DirectoryNotEmpty,
    }
}

fn is_still(path: &Path, folder: &File) -> bool {
    let (Ok(there), Ok(held)) = (path.symlink_metadata(), folder.metadata()) else { return false };
    (there.dev(), there.ino()) == (held.dev(), held.ino())
}

fn records(parent: &Path) -> Vec<PathBuf> {
    let entries = list(parent);
    let ours = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == SUFFIX);
    entries.into_iter().filter(ours).collect()
}

#[expect(clippy::disallowed_methods, reason = "zero's own files, never a path someone else named")]
fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.take(RECORDS_MAX).map(|entry| entry.path()).collect()
}

/// Opens a record, if it is one of ours: a file that only we can write to.
fn open_record(path: &Path) -> Option<File> {
    let record = open(path, OFlags::RDONLY).ok()?;
    let facts = record.metadata().ok()?;
    let ours = facts.uid() == rustix::process::geteuid().as_raw();
    (facts.is_file() && ours && facts.mode() & 0o077 == 0).then_some(record)
}

fn create_record(path: &Path) -> io::Result<File> {
    for _ in 0..TRIES_MAX {
        let record = open(path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)?;
        // Whoever sweeps may just be taking it away.
        let locked = rustix::fs::flock(&record, FlockOperation::NonBlockingLockExclusive).is_ok();
        if locked && is_still(path, &record) {
            return Ok(record);
        }
        std::thread::sleep(PAUSE);
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "two commands share one private /tmp"))
}

fn open_folder(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Opens something of ours. A link is not ours.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

#[expect(clippy::disallowed_methods, reason = "zero's own files, never a path someone else named")]
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

fn lines(record: &File) -> Vec<Line> {
    // A line that a crash cut short names a folder that was not made.
    let lines = BufReader::new(record.take(RECORD_BYTES_MAX)).lines().map_while(Result::ok);
    let mut latest: Vec<Line> = Vec::new();
    for line in lines.filter_map(|line| serde_json::from_str::<Line>(&line).ok()) {
        latest.retain(|earlier| earlier.path != line.path);
        latest.push(line);
    }
    latest
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
mod tests {
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn with(&self, tmp: &str) -> Placeholders {
            Placeholders::beside(&self.path(tmp))
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(self.folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    #[test]
    fn it_stands_as_long_as_it_is_needed() {
        let place = Place::new();
        let mut made = place.with("t");
        made.stand_in(&place.path("ghost")).unwrap();
        assert_eq!(place.names(), ["ghost", "t.placeholders"]);
        drop(made);
        assert!(place.names().is_empty());
    }

    #[test]
    fn the_last_to_leave_takes_it_away() {
        let place = Place::new();
        let ghost = place.path("ghost");
        let (mut first, mut second) = (place.with("a"), place.with("b"));
        first.stand_in(&ghost).unwrap();
        second.share(&ghost).unwrap();
        drop(first);
        assert_eq!(place.names(), ["a.placeholders", "b.placeholders", "ghost"]);
        drop(second);
        assert_eq!(sweep(&place.path("a")), 0);
        assert!(place.names().is_empty(), "{:?}", place.names());
    }

    #[test]
    fn an_empty_folder_of_a_person_is_not_shared() {
        let place = Place::new();
        fs::create_dir(place.path("mine")).unwrap();
        let mut made = place.with("t");
        made.share(&place.path("mine")).unwrap();
        drop(made);
        assert_eq!(place.names(), ["mine"]);
    }

    #[test]
    fn what_a_person_put_into_it_stays() {
        let place = Place::new();
        let mut made = place.with("t");
        made.stand_in(&place.path("ghost")).unwrap();
        fs::write(place.path("ghost/file"), "kept").unwrap();
        drop(made);
        assert_eq!(place.names(), ["ghost"]);
    }

    #[test]
    fn what_a_crash_left_is_swept() {
        let place = Place::new();
        let mut made = place.with("t");
        made.stand_in(&place.path("ghost")).unwrap();
        // A crash: locks go, nothing else does.
        made.held.clear();
        let record = made.record.take();
        drop(record);
        drop(made);
        assert_eq!(place.names(), ["ghost", "t.placeholders"]);
        assert_eq!(sweep(&place.path("next")), 1);
        assert!(place.names().is_empty());
    }

    #[test]
    fn a_folder_that_took_its_place_is_not_swept() {
        let place = Place::new();
        let mut made = place.with("t");
        made.stand_in(&place.path("ghost")).unwrap();
        let (held, record) = (std::mem::take(&mut made.held), made.record.take());
        // Kept open, so that the number is not given out again.
        let still_open = held;
        drop(record);
        drop(made);
        fs::remove_dir(place.path("ghost")).unwrap();
        fs::create_dir(place.path("ghost")).unwrap();
        assert_eq!(sweep(&place.path("next")), 0);
        assert_eq!(place.names(), ["ghost"]);
        drop(still_open);
    }
}
