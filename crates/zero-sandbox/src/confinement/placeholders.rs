//! Placeholders: empty folders and files on the host that serve as mount points.
//!
//! A missing path that commands must not create gets a placeholder while a command runs. So does a
//! folder of the host's `/tmp` that is visible in a private one. Placeholders are removed
//! afterwards: a folder with `rmdir`, which removes only empty folders, a file only if it is still
//! empty.
//!
//! Two rules make this safe. Before a placeholder is created, it is written to a record file of the
//! command beside the private `/tmp`, so that the next run finds what a crash left. And every
//! command that relies on a placeholder holds a lock on it: removing it would remove the mounts on
//! it in other namespaces, so only the last user may do so.
//!
//! The parent folder of a placeholder is opened without following links and kept open: if it is
//! replaced by a link meanwhile, nothing is created or removed elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::expected_mounts;
use super::path_layout::PlaceholderKind;
use crate::profile::wire;

const RECORD_SUFFIX: &str = "placeholders";

/// How often to retry if another process is removing a placeholder meanwhile. Together some
/// seconds: that process may be delayed.
const TRIES_MAX: u32 = 4096;

/// How long to wait between tries.
const PAUSE: Duration = Duration::from_millis(2);

/// How much of one record is read.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// Most files beside the private `/tmp` that are considered.
const RECORDS_MAX: usize = 4096;

/// A line of a record: a path, and the inode number of the placeholder once it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PlaceholderRecord {
    #[serde(with = "wire::path")]
    path: PathBuf,
    inode: Option<u64>,
}

/// Whose records are searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordOwner {
    Anyone,
    Others,
}

/// The placeholders of one command. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Placeholders {
    /// The private `/tmp`; the record is created beside it.
    tmp: PathBuf,
    record: Option<(PathBuf, File)>,
    placeholders: Vec<HeldPlaceholder>,
}

/// A placeholder that exists and that this command relies on.
#[derive(Debug)]
struct HeldPlaceholder {
    path: PathBuf,
    location: PlaceholderLocation,
    /// The placeholder itself, locked.
    there: File,
}

/// A name in a folder that was opened without following links.
#[derive(Debug)]
struct PlaceholderLocation {
    folder: OwnedFd,
    name: OsString,
}

impl Placeholders {
    /// Creates an empty set; its record will be beside `tmp`.
    pub(crate) fn new(tmp: &Path) -> Self {
        Self { tmp: tmp.to_owned(), record: None, placeholders: Vec::new() }
    }

    /// Creates a placeholder at `path`, or shares the one of another command.
    pub(crate) fn create(&mut self, path: &Path, shape: PlaceholderKind) -> io::Result<()> {
        for _ in 0..TRIES_MAX {
            self.append_record(path, None)?;
            let location = PlaceholderLocation::from_path(path)?;
            match location.create(shape) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(create_error(path, shape, &error));
                }
                _ => {}
            }
            if self.hold(path, location)? {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        let why =
            format!("`{}` is locked by another program: end it, or try again", path.display());
        Err(io::Error::new(io::ErrorKind::WouldBlock, why))
    }

    /// Shares what is at `path`, below `root`, if it is a placeholder of another command.
    pub(crate) fn share(&mut self, path: &Path, root: &Path) -> io::Result<()> {
        // A file that cannot be inspected was not created by zero. Its command may have just ended,
        // or it was replaced: the check of the mounts notices that, and the sandbox is set up
        // again.
        let Ok(location) = PlaceholderLocation::from_path(path) else { return Ok(()) };
        let Some(shape) = location.empty_kind() else { return Ok(()) };
        if self.is_recorded(path, RecordOwner::Anyone) {
            self.share_above(path, root)?;
            self.create(path, shape)?;
        }
        Ok(())
    }

    /// Shares those folders between `root` and `path` that are placeholders: another command
    /// created the first missing part, and could not remove it while this command has something in
    /// it.
    pub(crate) fn share_above(&mut self, path: &Path, root: &Path) -> io::Result<()> {
        let above = path.ancestors().skip(1).take_while(|folder| *folder != root);
        let above: Vec<&Path> = above.filter(|folder| folder.starts_with(root)).collect();
        for folder in above.into_iter().rev() {
            if !self.placeholders.iter().any(|placeholder| placeholder.path == folder) {
                self.share_folder(folder)?;
            }
        }
        Ok(())
    }

    /// Shares a folder that may contain more placeholders, if it is a placeholder itself.
    pub(crate) fn share_folder(&mut self, path: &Path) -> io::Result<()> {
        if self.is_recorded(path, RecordOwner::Anyone) {
            self.create(path, PlaceholderKind::Folder)?;
        }
        Ok(())
    }

    /// Whether `path` is a placeholder of this command and still empty.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        let Ok(location) = PlaceholderLocation::from_path(path) else { return false };
        let is_ours =
            |held: &HeldPlaceholder| held.path == path && location.still_holds(&held.there);
        self.placeholders.iter().any(is_ours) && location.empty_kind().is_some()
    }

    /// The paths of the placeholders of this command.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.placeholders.iter().map(|placeholder| placeholder.path.as_path())
    }

    fn is_recorded(&self, path: &Path, owner: RecordOwner) -> bool {
        let records = self.tmp.parent().map(find_records).unwrap_or_default();
        let own = self.record.as_ref().map(|(own, _)| own).filter(|_| owner == RecordOwner::Others);
        records.iter().filter(|record| Some(*record) != own).any(|record| {
            open_record(record)
                .is_some_and(|record| read_lines(&record).iter().any(|line| line.path == path))
        })
    }

    /// Locks a placeholder so that it is not removed. Returns false if it was removed meanwhile.
    fn hold(&mut self, path: &Path, location: PlaceholderLocation) -> io::Result<bool> {
        let there = match location.open(OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            there => there?,
        };
        if rustix::fs::flock(&there, FlockOperation::NonBlockingLockShared).is_err() {
            return Ok(false);
        }
        if !location.still_holds(&there) {
            return Ok(false);
        }
        self.append_record(path, Some(there.metadata()?.ino()))?;
        self.placeholders.push(HeldPlaceholder { path: path.to_owned(), location, there });
        Ok(true)
    }

    fn append_record(&mut self, path: &Path, inode: Option<u64>) -> io::Result<()> {
        if self.record.is_none() {
            self.record = Some(create_record(&self.tmp)?);
        }
        let Some((_, record)) = &mut self.record else { return Ok(()) };
        let mut line = serde_json::to_vec(&PlaceholderRecord { path: path.to_owned(), inode })?;
        line.push(b'\n');
        record.write_all(&line)
    }
}

impl Placeholders {
    /// Removes the placeholders, as dropping does.
    pub(crate) fn remove_all(&mut self) {
        let mut all_removed = true;
        // Innermost placeholders were created last.
        for HeldPlaceholder { path, location, there } in
            std::mem::take(&mut self.placeholders).into_iter().rev()
        {
            // Another user of the placeholder has recorded it as well and will remove it. Keeping
            // our record would mean one more record to read for every command while that one runs.
            // It may also have ended right after our first attempt, so try again.
            all_removed &= location.remove_if_unused(&there)
                || self.is_recorded(&path, RecordOwner::Others)
                || location.remove_if_unused(&there);
        }
        if all_removed && let Some((path, _locked)) = self.record.take() {
            // The record is removed last, since nothing could be found without it.
            let gone = remove_record(&path);
            drop(gone);
        }
    }
}

impl Drop for Placeholders {
    fn drop(&mut self) {
        self.remove_all();
    }
}

/// Removes the placeholders of commands whose process has ended. Returns how many were removed.
pub(crate) fn sweep(tmp: &Path) -> usize {
    let Some(parent) = tmp.parent() else { return 0 };
    let mut swept = 0;
    for path in find_records(parent) {
        let Some(record) = open_record(&path) else { continue };
        // A command that still runs holds the lock.
        if rustix::fs::flock(&record, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let mut all_gone = true;
        for line in read_lines(&record).iter().rev() {
            let Ok(location) = PlaceholderLocation::from_path(&line.path) else { continue };
            let Ok(there) = location.open(OFlags::RDONLY) else { continue };
            let same = there
                .metadata()
                .is_ok_and(|facts| line.inode.is_none_or(|inode| inode == facts.ino()));
            if same && location.remove_if_unused(&there) {
                swept += 1;
            } else {
                all_gone &= !same;
            }
        }
        if all_gone {
            let gone = remove_record(&path);
            drop(gone);
        }
    }
    swept
}

impl PlaceholderLocation {
    fn from_path(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        Ok(Self { folder: expected_mounts::open_no_follow(folder)?, name: name.to_owned() })
    }

    fn name(&self) -> &OsStr {
        &self.name
    }

    fn create(&self, shape: PlaceholderKind) -> io::Result<()> {
        match shape {
            PlaceholderKind::Folder => {
                Ok(rustix::fs::mkdirat(&self.folder, self.name(), Mode::from_raw_mode(0o755))?)
            }
            PlaceholderKind::File => {
                self.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL).map(drop)
            }
        }
    }

    /// Opens the placeholder. A link is refused.
    fn open(&self, flags: OFlags) -> io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::RUSR | Mode::WUSR;
        Ok(rustix::fs::openat(&self.folder, self.name(), flags, mode)?.into())
    }

    fn stat(&self) -> io::Result<rustix::fs::Stat> {
        Ok(rustix::fs::statat(&self.folder, self.name(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn still_holds(&self, held: &File) -> bool {
        let (Ok(there), Ok(held)) = (self.stat(), held.metadata()) else { return false };
        (there.st_dev, there.st_ino) == (held.dev(), held.ino())
    }

    /// The kind of an existing empty file or folder.
    fn empty_kind(&self) -> Option<PlaceholderKind> {
        let facts = self.stat().ok()?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => (facts.st_size == 0).then_some(PlaceholderKind::File),
            FileType::Directory => {
                let folder = self.open(OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
                let mut entries = rustix::fs::Dir::read_from(&folder).ok()?;
                // Two entries are the folder itself and its parent.
                (entries.by_ref().take(3).count() < 3).then_some(PlaceholderKind::Folder)
            }
            _ => None,
        }
    }

    /// Removes a placeholder that nothing relies on. Returns true if it is gone, or if the user has
    /// put something there, which is kept.
    fn remove_if_unused(&self, there: &File) -> bool {
        if rustix::fs::flock(there, FlockOperation::NonBlockingLockExclusive).is_err() {
            return false;
        }
        if !self.still_holds(there) {
            return true;
        }
        let remove = |flags| rustix::fs::unlinkat(&self.folder, self.name(), flags);
        match there.metadata() {
            Ok(facts) if facts.is_dir() => {
                matches!(remove(AtFlags::REMOVEDIR), Ok(()) | Err(Errno::NOTEMPTY))
            }
            Ok(facts) if facts.is_file() && facts.len() == 0 => remove(AtFlags::empty()).is_ok(),
            Ok(_) => true,
            Err(_) => false,
        }
    }
}

/// Explains why a placeholder cannot be created, and what to do about it.
fn create_error(path: &Path, shape: PlaceholderKind, error: &io::Error) -> io::Error {
    let what = match shape {
        PlaceholderKind::Folder => "folder",
        PlaceholderKind::File => "file",
    };
    let folder = path.parent().unwrap_or(path);
    let fix = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("free space on the disk of `{}`", folder.display())
        }
        _ => format!("let zero write to `{}`, or create it yourself", folder.display()),
    };
    let path = path.display();
    let why = format!(
        "commands must not create `{path}`, so zero puts an empty {what} there while one runs, \
         which failed: {error}; {fix}"
    );
    io::Error::new(error.kind(), why)
}

fn is_same_file(path: &Path, held: &File) -> bool {
    let (Ok(there), Ok(held)) = (path.symlink_metadata(), held.metadata()) else { return false };
    (there.dev(), there.ino()) == (held.dev(), held.ino())
}

fn find_records(parent: &Path) -> Vec<PathBuf> {
    let entries = list_files(parent);
    let ours = |path: &PathBuf| path.extension().is_some_and(|suffix| suffix == RECORD_SUFFIX);
    entries.into_iter().filter(ours).collect()
}

#[expect(clippy::disallowed_methods, reason = "zero's own files, never a path someone else named")]
fn list_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.take(RECORDS_MAX).map(|entry| entry.path()).collect()
}

/// Opens a record if it belongs to this user and only this user can write to it.
fn open_record(path: &Path) -> Option<File> {
    let record = open_own(path, OFlags::RDONLY).ok()?;
    let facts = record.metadata().ok()?;
    let ours = facts.uid() == rustix::process::geteuid().as_raw();
    (facts.is_file() && ours && facts.mode() & 0o077 == 0).then_some(record)
}

/// Creates a record that only this command writes to, and locks it.
fn create_record(tmp: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0..RECORDS_MAX {
        let mut path = tmp.as_os_str().to_owned();
        path.push(format!(".{}-{number}.{RECORD_SUFFIX}", std::process::id()));
        let path = PathBuf::from(path);
        let record =
            match open_own(&path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL) {
                // The record of another command of this process, or of an ended process with the
                // same ID.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                record => record?,
            };
        // A concurrent sweep may be removing it.
        let locked = rustix::fs::flock(&record, FlockOperation::NonBlockingLockExclusive).is_ok();
        if locked && is_same_file(&path, &record) {
            return Ok((path, record));
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "there are too many placeholder records"))
}

/// Opens a file of zero's own. A link is refused.
fn open_own(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

#[expect(clippy::disallowed_methods, reason = "zero's own files, never a path someone else named")]
fn remove_record(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

fn read_lines(record: &File) -> Vec<PlaceholderRecord> {
    // A line that a crash cut short names a folder that was not created yet.
    let lines = BufReader::new(record.take(RECORD_BYTES_MAX)).lines().map_while(Result::ok);
    let mut latest: Vec<PlaceholderRecord> = Vec::new();
    for line in lines.filter_map(|line| serde_json::from_str::<PlaceholderRecord>(&line).ok()) {
        latest.retain(|earlier| earlier.path != line.path);
        latest.push(line);
    }
    latest
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
mod tests {
    use super::*;

    struct PlaceholderFixture {
        folder: tempfile::TempDir,
    }

    impl PlaceholderFixture {
        fn new() -> Self {
            Self { folder: tempfile::tempdir().unwrap() }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn placeholders_beside(&self, tmp: &str) -> Placeholders {
            Placeholders::new(&self.path(tmp))
        }

        fn list_names(&self) -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(self.folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }

        /// The names other than records.
        fn list_visible_names(&self) -> Vec<String> {
            self.list_names().into_iter().filter(|name| !name.ends_with(RECORD_SUFFIX)).collect()
        }

        fn count_records(&self) -> usize {
            find_records(self.folder.path()).len()
        }
    }

    #[test]
    fn placeholder_lasts_as_long_as_needed() {
        let place = PlaceholderFixture::new();
        let mut made = place.placeholders_beside("t");
        made.create(&place.path("ghost"), PlaceholderKind::Folder).unwrap();
        assert_eq!(
            (place.list_visible_names(), place.count_records()),
            (vec!["ghost".to_owned()], 1)
        );
        drop(made);
        assert!(place.list_names().is_empty());
    }

    #[test]
    fn commands_with_one_private_tmp_do_not_interfere() {
        let place = PlaceholderFixture::new();
        let (mut first, mut second) =
            (place.placeholders_beside("t"), place.placeholders_beside("t"));
        first.create(&place.path("ghost"), PlaceholderKind::Folder).unwrap();
        second.share(&place.path("ghost"), place.folder.path()).unwrap();
        second.create(&place.path("other"), PlaceholderKind::File).unwrap();
        assert_eq!(place.count_records(), 2);
        drop(first);
        assert_eq!(place.list_visible_names(), ["ghost", "other"]);
        drop(second);
        assert_eq!(sweep(&place.path("t")), 0);
        assert!(place.list_names().is_empty(), "{:?}", place.list_names());
    }

    #[test]
    fn commands_beside_a_long_one_leave_no_records() {
        let place = PlaceholderFixture::new();
        let (ghost, tmp) = (place.path("ghost"), place.path("t"));
        let mut job = place.placeholders_beside("t");
        job.create(&ghost, PlaceholderKind::Folder).unwrap();
        for _ in 0..200 {
            sweep(&tmp);
            let mut short = place.placeholders_beside("t");
            short.share(&ghost, place.folder.path()).unwrap();
            assert_eq!(place.count_records(), 2);
            drop(short);
            assert_eq!(
                (place.list_visible_names(), place.count_records()),
                (vec!["ghost".to_owned()], 1)
            );
        }
        drop(job);
        assert!(place.list_names().is_empty(), "{:?}", place.list_names());
    }

    #[test]
    fn placeholder_locked_by_other_process_stays_recorded() {
        let place = PlaceholderFixture::new();
        let ghost = place.path("ghost");
        let mut made = place.placeholders_beside("t");
        made.create(&ghost, PlaceholderKind::File).unwrap();
        let stranger = open_own(&ghost, OFlags::RDONLY).unwrap();
        rustix::fs::flock(&stranger, FlockOperation::LockShared).unwrap();
        drop(made);
        assert_eq!(
            (place.list_visible_names(), place.count_records()),
            (vec!["ghost".to_owned()], 1)
        );
        drop(stranger);
        assert_eq!(sweep(&place.path("t")), 1);
        assert!(place.list_names().is_empty(), "{:?}", place.list_names());
    }

    #[test]
    fn written_placeholder_file_is_kept() {
        let place = PlaceholderFixture::new();
        let mut made = place.placeholders_beside("t");
        for name in ["kept", "goes"] {
            made.create(&place.path(name), PlaceholderKind::File).unwrap();
        }
        fs::write(place.path("kept"), "mine").unwrap();
        drop(made);
        assert_eq!(place.list_names(), ["kept"]);
    }

    #[test]
    fn nested_placeholders_are_removed_innermost_first() {
        let place = PlaceholderFixture::new();
        let mut made = place.placeholders_beside("t");
        for name in ["a", "a/b"] {
            made.create(&place.path(name), PlaceholderKind::Folder).unwrap();
        }
        let record = std::mem::take(&mut made.placeholders);
        drop(record);
        made.record.take();
        assert_eq!(sweep(&place.path("t")), 2);
        assert!(place.list_names().is_empty(), "{:?}", place.list_names());
    }

    #[test]
    fn last_user_removes_placeholder() {
        let place = PlaceholderFixture::new();
        let ghost = place.path("ghost");
        let (mut first, mut second) =
            (place.placeholders_beside("a"), place.placeholders_beside("b"));
        first.create(&ghost, PlaceholderKind::Folder).unwrap();
        second.share(&ghost, place.folder.path()).unwrap();
        drop(first);
        assert_eq!(place.list_visible_names(), ["ghost"]);
        drop(second);
        assert_eq!(sweep(&place.path("a")), 0);
        assert!(place.list_names().is_empty(), "{:?}", place.list_names());
    }

    #[test]
    fn empty_folder_of_user_is_not_shared() {
        let place = PlaceholderFixture::new();
        fs::create_dir(place.path("mine")).unwrap();
        let mut made = place.placeholders_beside("t");
        made.share(&place.path("mine"), place.folder.path()).unwrap();
        drop(made);
        assert_eq!(place.list_names(), ["mine"]);
    }

    #[test]
    fn placeholder_filled_by_user_is_kept() {
        let place = PlaceholderFixture::new();
        let mut made = place.placeholders_beside("t");
        made.create(&place.path("ghost"), PlaceholderKind::Folder).unwrap();
        fs::write(place.path("ghost/file"), "kept").unwrap();
        drop(made);
        assert_eq!(place.list_names(), ["ghost"]);
    }

    #[test]
    fn placeholders_left_by_crash_are_swept() {
        let place = PlaceholderFixture::new();
        let mut made = place.placeholders_beside("t");
        made.create(&place.path("ghost"), PlaceholderKind::Folder).unwrap();
        // Simulates a crash: locks are released, nothing else happens.
        made.placeholders.clear();
        let record = made.record.take();
        drop(record);
        drop(made);
        assert_eq!(
            (place.list_visible_names(), place.count_records()),
            (vec!["ghost".to_owned()], 1)
        );
        assert_eq!(sweep(&place.path("next")), 1);
        assert!(place.list_names().is_empty());
    }

    #[test]
    fn folder_is_removed_with_last_placeholder_in_it() {
        let place = PlaceholderFixture::new();
        let root = place.folder.path();
        let (folder, file) = (place.path("ghost"), place.path("ghost/file"));
        let [mut first, mut second, mut third] =
            ["a", "b", "c"].map(|tmp| place.placeholders_beside(tmp));
        first.create(&folder, PlaceholderKind::Folder).unwrap();
        second.share_above(&file, root).unwrap();
        second.create(&file, PlaceholderKind::File).unwrap();
        third.share(&file, root).unwrap();
        drop(first);
        drop(second);
        assert!(file.exists() && third.holds(&file) && !third.holds(&folder));
        drop(third);
        assert!(place.list_visible_names().is_empty());
        sweep(&place.path("next"));
        assert_eq!(place.count_records(), 0);
    }

    #[test]
    fn held_placeholder_is_known_until_filled_or_replaced() {
        let place = PlaceholderFixture::new();
        let mut made = place.placeholders_beside("t");
        let (folder, file) = (place.path("ghost"), place.path("file"));
        made.create(&folder, PlaceholderKind::Folder).unwrap();
        made.create(&file, PlaceholderKind::File).unwrap();
        assert!(made.holds(&folder) && made.holds(&file) && !made.holds(&place.path("other")));
        fs::write(folder.join("x"), "").unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, "").unwrap();
        assert!(!made.holds(&folder) && !made.holds(&file));
    }

    #[test]
    fn replacement_folder_is_not_swept() {
        let place = PlaceholderFixture::new();
        let mut made = place.placeholders_beside("t");
        made.create(&place.path("ghost"), PlaceholderKind::Folder).unwrap();
        let (held, record) = (std::mem::take(&mut made.placeholders), made.record.take());
        // Kept open, so that the inode number is not reused.
        let still_open = held;
        drop(record);
        drop(made);
        fs::remove_dir(place.path("ghost")).unwrap();
        fs::create_dir(place.path("ghost")).unwrap();
        assert_eq!(sweep(&place.path("next")), 0);
        assert_eq!(place.list_names(), ["ghost"]);
        drop(still_open);
    }
}
