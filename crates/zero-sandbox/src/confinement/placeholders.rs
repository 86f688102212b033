//! Empty folders and files that stand where a mount needs something to lie on.
//!
//! A path that must not be created gets something empty on the host for as long as the command
//! runs, and so does a folder of the host's `/tmp` that is shown in a private one. They are taken
//! away afterwards: a folder with `rmdir`, which removes nothing that holds anything, a file only
//! when it is still empty.
//!
//! Two things make this safe. Each one is written down beside the private `/tmp`, in a record of the
//! command's own, before it is made, so that what a crash leaves is found the next time. And
//! everybody who relies on one holds a lock on it: removing it takes away the mounts that lie on it
//! in other namespaces, so only the last to leave may.
//!
//! The folder in which one stands is opened without following a link and held: who swaps it for a
//! link meanwhile has nothing made or removed elsewhere.

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

/// How often something that another process takes away meanwhile is tried again. Some seconds: it may
/// be kept from it in the middle.
const TRIES_MAX: u32 = 4096;

/// How long to wait between tries.
const PAUSE: Duration = Duration::from_millis(2);

/// How much of one record is read.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// How many files beside the private `/tmp` are looked at.
const RECORDS_MAX: usize = 4096;

/// A line of a record: one path, with the number of what stands there once it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PlaceholderRecord {
    #[serde(with = "wire::path")]
    path: PathBuf,
    inode: Option<u64>,
}

/// Whose records are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordOwner {
    Anyone,
    Others,
}

/// What stands in for one command. It goes when this does.
#[derive(Debug)]
pub(crate) struct Placeholders {
    /// The private `/tmp`, beside which the record stands.
    tmp: PathBuf,
    record: Option<(PathBuf, File)>,
    held: Vec<HeldPlaceholder>,
}

/// One that stands, and that we rely on.
#[derive(Debug)]
struct HeldPlaceholder {
    path: PathBuf,
    spot: PlaceholderLocation,
    /// Itself, locked.
    there: File,
}

/// A name in a folder, found without following a link.
#[derive(Debug)]
struct PlaceholderLocation {
    folder: OwnedFd,
    name: OsString,
}

impl Placeholders {
    /// None yet; their record will stand beside `tmp`.
    pub(crate) fn new(tmp: &Path) -> Self {
        Self { tmp: tmp.to_owned(), record: None, held: Vec::new() }
    }

    /// Makes something empty at `path`, or shares what another command made.
    pub(crate) fn create(&mut self, path: &Path, shape: PlaceholderKind) -> io::Result<()> {
        for _ in 0..TRIES_MAX {
            self.append_record(path, None)?;
            let spot = PlaceholderLocation::from_path(path)?;
            match spot.create(shape) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(create_error(path, shape, &error));
                }
                _ => {}
            }
            if self.hold(path, spot)? {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        let why =
            format!("`{}` is locked by another program: end it, or try again", path.display());
        Err(io::Error::new(io::ErrorKind::WouldBlock, why))
    }

    /// Shares what is at `path`, beneath `root`, when it is one of ours, made for another command.
    pub(crate) fn share(&mut self, path: &Path, root: &Path) -> io::Result<()> {
        // What cannot be looked into was not made by us. Whoever it was made for may have just
        // ended, or somebody swapped it: the walls notice and are put up again.
        let Ok(spot) = PlaceholderLocation::from_path(path) else { return Ok(()) };
        let Some(shape) = spot.empty_kind() else { return Ok(()) };
        if self.is_recorded(path, RecordOwner::Anyone) {
            self.share_above(path, root)?;
            self.create(path, shape)?;
        }
        Ok(())
    }

    /// Shares the folders between `root` and `path` that are ours: another command made the first
    /// part that was missing, and could not take it away with something of this one in it.
    pub(crate) fn share_above(&mut self, path: &Path, root: &Path) -> io::Result<()> {
        let above = path.ancestors().skip(1).take_while(|folder| *folder != root);
        let above: Vec<&Path> = above.filter(|folder| folder.starts_with(root)).collect();
        for folder in above.into_iter().rev() {
            if !self.held.iter().any(|held| held.path == folder) {
                self.share_folder(folder)?;
            }
        }
        Ok(())
    }

    /// Shares a folder in which more may stand in, when it is one of ours.
    pub(crate) fn share_folder(&mut self, path: &Path) -> io::Result<()> {
        if self.is_recorded(path, RecordOwner::Anyone) {
            self.create(path, PlaceholderKind::Folder)?;
        }
        Ok(())
    }

    /// Whether what is at `path` is one that we hold, as empty as it was made.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        let Ok(spot) = PlaceholderLocation::from_path(path) else { return false };
        let is_ours = |held: &HeldPlaceholder| held.path == path && spot.still_holds(&held.there);
        self.held.iter().any(is_ours) && spot.empty_kind().is_some()
    }

    /// The paths of those that we hold.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.held.iter().map(|held| held.path.as_path())
    }

    fn is_recorded(&self, path: &Path, whose: RecordOwner) -> bool {
        let records = self.tmp.parent().map(find_records).unwrap_or_default();
        let own = self.record.as_ref().map(|(own, _)| own).filter(|_| whose == RecordOwner::Others);
        records.iter().filter(|record| Some(*record) != own).any(|record| {
            open_record(record)
                .is_some_and(|record| read_lines(&record).iter().any(|line| line.path == path))
        })
    }

    /// Locks it so that nobody takes it away. False when it was taken away meanwhile.
    fn hold(&mut self, path: &Path, spot: PlaceholderLocation) -> io::Result<bool> {
        let there = match spot.open(OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            there => there?,
        };
        if rustix::fs::flock(&there, FlockOperation::NonBlockingLockShared).is_err() {
            return Ok(false);
        }
        if !spot.still_holds(&there) {
            return Ok(false);
        }
        self.append_record(path, Some(there.metadata()?.ino()))?;
        self.held.push(HeldPlaceholder { path: path.to_owned(), spot, there });
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
    /// Takes them away, which dropping does too.
    pub(crate) fn remove_all(&mut self) {
        let mut settled = true;
        // What was made last lies furthest in.
        for HeldPlaceholder { path, spot, there } in
            std::mem::take(&mut self.held).into_iter().rev()
        {
            // Somebody who relies on it wrote it down as well, and takes it away in the end. Ours
            // would be one more record to read for every command as long as that one runs.
            // It may also have gone right after we tried.
            settled &= spot.remove_if_unused(&there)
                || self.is_recorded(&path, RecordOwner::Others)
                || spot.remove_if_unused(&there);
        }
        if settled && let Some((path, _locked)) = self.record.take() {
            // Without its record nothing could be found again, so it goes last.
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

/// Takes away what commands left behind whose process is gone. Returns how many there were.
pub(crate) fn sweep(tmp: &Path) -> usize {
    let Some(parent) = tmp.parent() else { return 0 };
    let mut swept = 0;
    for path in find_records(parent) {
        let Some(record) = open_record(&path) else { continue };
        // Whoever is still at work holds the lock.
        if rustix::fs::flock(&record, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        let mut all_gone = true;
        for line in read_lines(&record).iter().rev() {
            let Ok(spot) = PlaceholderLocation::from_path(&line.path) else { continue };
            let Ok(there) = spot.open(OFlags::RDONLY) else { continue };
            let same = there
                .metadata()
                .is_ok_and(|facts| line.inode.is_none_or(|inode| inode == facts.ino()));
            if same && spot.remove_if_unused(&there) {
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

    /// Opens what is there. A link is not ours.
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

    /// What is there, when it is empty.
    fn empty_kind(&self) -> Option<PlaceholderKind> {
        let facts = self.stat().ok()?;
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::RegularFile => (facts.st_size == 0).then_some(PlaceholderKind::File),
            FileType::Directory => {
                let folder = self.open(OFlags::RDONLY | OFlags::DIRECTORY).ok()?;
                let mut entries = rustix::fs::Dir::read_from(&folder).ok()?;
                // Two entries are itself and the folder above.
                (entries.by_ref().take(3).count() < 3).then_some(PlaceholderKind::Folder)
            }
            _ => None,
        }
    }

    /// Removes something empty that nobody relies on. True when it is settled: gone, or filled by
    /// a person, who keeps it.
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

/// Says what keeps something empty from being made, and what to do about it.
fn create_error(path: &Path, shape: PlaceholderKind, error: &io::Error) -> io::Error {
    let what = match shape {
        PlaceholderKind::Folder => "folder",
        PlaceholderKind::File => "file",
    };
    let folder = path.parent().unwrap_or(path);
    let fix = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("make room on the disk of `{}`", folder.display())
        }
        _ => format!("let zero write to `{}`, or make it yourself", folder.display()),
    };
    let path = path.display();
    let why = format!(
        "commands must not create `{path}`, so an empty {what} has to stand there while one runs, \
         and it cannot be made: {error}; {fix}"
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

/// Opens a record, if it is one of ours: a file that only we can write to.
fn open_record(path: &Path) -> Option<File> {
    let record = open_own(path, OFlags::RDONLY).ok()?;
    let facts = record.metadata().ok()?;
    let ours = facts.uid() == rustix::process::geteuid().as_raw();
    (facts.is_file() && ours && facts.mode() & 0o077 == 0).then_some(record)
}

/// Makes a record that only this command writes to, and locks it.
fn create_record(tmp: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0..RECORDS_MAX {
        let mut path = tmp.as_os_str().to_owned();
        path.push(format!(".{}-{number}.{RECORD_SUFFIX}", std::process::id()));
        let path = PathBuf::from(path);
        let record =
            match open_own(&path, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL) {
                // Of another command of this process, or of one that is gone and had its number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                record => record?,
            };
        // Whoever sweeps may just be taking it away.
        let locked = rustix::fs::flock(&record, FlockOperation::NonBlockingLockExclusive).is_ok();
        if locked && is_same_file(&path, &record) {
            return Ok((path, record));
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "there is no room for another record"))
}

/// Opens something of ours. A link is not ours.
fn open_own(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

#[expect(clippy::disallowed_methods, reason = "zero's own files, never a path someone else named")]
fn remove_record(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

fn read_lines(record: &File) -> Vec<PlaceholderRecord> {
    // A line that a crash cut short names a folder that was not made.
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

        /// What is there beside records.
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
        let record = std::mem::take(&mut made.held);
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
        // A crash: locks go, nothing else does.
        made.held.clear();
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
        let (held, record) = (std::mem::take(&mut made.held), made.record.take());
        // Kept open, so that the number is not given out again.
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
