//! Read-only queries about paths, for policy decisions: names, types and small files.
//!
//! Policy must know what a path denotes before anything opens it. Nothing here opens a pipe or a
//! device, and every result is bounded.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::canonical_path::{self, CanonicalPath, CanonicalPathError, FinalLinkMode};
use crate::open_beneath;

/// The coarsest resolution of change times in file systems.
const CLOCK_STEP_MAX: Duration = Duration::from_secs(1);
/// Most links that are followed on the way to one unreadable folder.
const LINKS_MAX: usize = 16;
/// Most names of a folder that are indexed: listing more takes longer than asking for each.
const INDEXED_NAMES_MAX: usize = 1_000;
/// Most bytes of the machine's list of users.
const USERS_BYTES_MAX: u64 = 4 << 20;

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanEntry {
    /// Its full path.
    pub path: PathBuf,
    /// Whether it is a folder; a link to one is not.
    pub is_folder: bool,
    /// Whether it is a link.
    pub is_link: bool,
}

/// Changes whenever an entry of a folder is created, removed or renamed, or a file is written.
/// Based on the kernel's change time, which programs cannot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeStamp {
    device: u64,
    inode: u64,
    changed: Duration,
}

impl ChangeStamp {
    fn from_stat(stat: &rustix::fs::Stat) -> Self {
        let seconds = u64::try_from(stat.st_ctime).unwrap_or(0);
        let nanos = u32::try_from(stat.st_ctime_nsec).unwrap_or(0);
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            changed: Duration::from_secs(seconds) + Duration::from_nanos(nanos.into()),
        }
    }

    /// Whether any later change would show. Change times are coarse, so a change right after
    /// another may not.
    pub fn is_stable(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.changed + CLOCK_STEP_MAX < now
    }

    /// Whether it changed after `moment`, or may have.
    pub fn is_changed_since(&self, moment: SystemTime) -> bool {
        let moment = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.changed + CLOCK_STEP_MAX >= moment
    }
}

/// The stamp of what is at a path; links are not followed.
pub fn read_stamp(path: &Path) -> Option<ChangeStamp> {
    rustix::fs::lstat(path).ok().map(|stat| ChangeStamp::from_stat(&stat))
}

/// The stamp of what is at a path, behind all links: another one if a link was changed.
pub fn read_target_stamp(path: &Path) -> Option<ChangeStamp> {
    rustix::fs::stat(path).ok().map(|stat| ChangeStamp::from_stat(&stat))
}

/// The latest stamp of a path and everything beneath it; links are not followed. `None` if it does
/// not exist, has more than `most` entries, or cannot be read.
pub fn read_tree_stamp(path: &Path, most: usize) -> Option<ChangeStamp> {
    let mut latest = read_stamp(path)?;
    let mut open = vec![path.to_owned()];
    let mut left = most;
    while let Some(folder) = open.pop() {
        let mut changed = Some(latest.changed);
        let scanned = scan_folder(&folder, left, |name, is_folder| {
            left -= 1;
            let inner = folder.join(name);
            changed = changed.max(read_stamp(&inner).map(|stamp| stamp.changed));
            if is_folder {
                open.push(inner);
            }
        });
        if scanned == ScanOutcome::Part {
            return None;
        }
        latest.changed = changed?;
    }
    Some(latest)
}

/// The space on the disk that a folder and everything beneath it takes, in bytes; links are not
/// followed. `None` if it has more than `most` entries.
pub fn read_tree_bytes(path: &Path, most: usize) -> Option<u64> {
    let mut open = vec![path.to_owned()];
    let (mut bytes, mut left) = (0_u64, most);
    while let Some(folder) = open.pop() {
        let (before, mut count) = (left, 0);
        scan_folder(&folder, before.saturating_add(1), |name, is_folder| {
            count += 1;
            let inner = folder.join(name);
            let blocks = rustix::fs::lstat(&inner).map_or(0, |stat| stat.st_blocks);
            bytes = bytes.saturating_add(u64::try_from(blocks).unwrap_or(0).saturating_mul(512));
            if is_folder {
                open.push(inner);
            }
        });
        left = before.checked_sub(count)?;
    }
    Some(bytes)
}

/// Identifies a file or folder, and tells it from a later one that reuses its inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    device: (u32, u32),
    inode: u64,
    born: (i64, u32),
}

/// The identity of what is at a path; links are not followed. If the file system does not record
/// creation times, a file that is written to counts as another one.
pub fn read_identity(path: &Path) -> Option<FileIdentity> {
    let statx_flags = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat =
        rustix::fs::statx(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW, statx_flags).ok()?;
    let is_file = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::RegularFile;
    let born = match (stat.stx_mask & StatxFlags::BTIME.bits() != 0, is_file) {
        (true, _) => (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec),
        (false, true) => (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        (false, false) => (0, 0),
    };
    Some(FileIdentity {
        device: (stat.stx_dev_major, stat.stx_dev_minor),
        inode: stat.stx_ino,
        born,
    })
}

/// The hard links of a file: what it is, and the number of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardLinks {
    /// Device and inode number.
    pub identity: (u64, u64),
    /// The number of names, anywhere on the device.
    pub names: u64,
}

/// The hard links of a regular file; links are not followed.
pub fn read_hard_links(path: &Path) -> Option<HardLinks> {
    let facts = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some(HardLinks { identity: (facts.dev(), facts.ino()), names: facts.nlink() })
}

/// How much of a folder was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanOutcome {
    /// All of it, as it was at this stamp.
    Whole(ChangeStamp),
    /// Not all: it has more entries than requested, or could not be read.
    Part,
    /// Nothing: it is not a folder, or belongs to another user who does not let us read it.
    Nothing,
}

/// Calls `show` for each name in a folder, with whether it is a folder; at most `most`, in no
/// order.
pub fn scan_folder(folder: &Path, most: usize, mut show: impl FnMut(&OsStr, bool)) -> ScanOutcome {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let dir = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return ScanOutcome::Nothing,
        Err(_) => {
            let own = rustix::process::geteuid().as_raw();
            let is_own = rustix::fs::lstat(folder).map_or(true, |stat| stat.st_uid == own);
            return if is_own { ScanOutcome::Part } else { ScanOutcome::Nothing };
        }
    };
    let Ok(stat) = rustix::fs::fstat(&dir) else { return ScanOutcome::Part };
    let Ok(entries) = rustix::fs::Dir::read_from(&dir) else { return ScanOutcome::Part };
    let mut count = 0;
    for entry in entries {
        let Ok(entry) = entry else { return ScanOutcome::Part };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if count >= most {
            return ScanOutcome::Part;
        }
        count += 1;
        show(name, entry_file_type(&dir, &entry) == FileType::Directory);
    }
    ScanOutcome::Whole(ChangeStamp::from_stat(&stat))
}

/// Whether a path is in none of these folders, neither as written nor with its links resolved. A
/// relative path may be anywhere.
pub fn is_outside(path: &Path, folders: &[PathBuf]) -> bool {
    let is_in = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
    path.is_absolute() && !is_in(path) && canonicalize(path).is_some_and(|real| !is_in(&real))
}

/// What an absolute path denotes, with links resolved as far as it exists. `None` if that is not
/// known: a loop of links, a link of the kernel, no access.
pub fn canonicalize(absolute: &Path) -> Option<PathBuf> {
    trace_links(absolute).target
}

/// The way from a path to what it denotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTrace {
    /// The links on the way, by their canonical paths, in the order in which they are followed.
    pub links: Vec<PathBuf>,
    /// What the path denotes, as [`canonicalize`] says.
    pub target: Option<PathBuf>,
}

/// Follows the links on the way to an absolute path.
pub fn trace_links(absolute: &Path) -> LinkTrace {
    let mut links = Vec::new();
    let found = canonical_path::canonicalize_with(
        Path::new("/"),
        absolute,
        FinalLinkMode::Follow,
        |link| links.push(link),
    );
    LinkTrace { links, target: target_of(found, absolute) }
}

fn target_of(found: Result<CanonicalPath, CanonicalPathError>, absolute: &Path) -> Option<PathBuf> {
    match found {
        Ok(found) => Some(found.into_path()),
        Err(CanonicalPathError::DotsBelowMissing) => Some(normalize_dots(absolute)),
        Err(_) => None,
    }
}

/// Follows the links on the way to many paths. Each folder is resolved once: most paths are in few folders, and
/// the way to a folder costs two system calls for each of its names.
#[derive(Debug, Default)]
pub struct LinkTracer {
    /// The folders that were resolved, as they were written; `None` for those whose paths are resolved one by one.
    folders: HashMap<PathBuf, Option<TracedFolder>>,
}

/// What the path of a folder denotes.
#[derive(Debug)]
struct TracedFolder {
    links: Vec<PathBuf>,
    canonical: CanonicalPath,
}

impl LinkTracer {
    /// Like [`canonicalize`]; a folder that changed since it was resolved is not noticed.
    pub fn canonicalize(&mut self, absolute: &Path) -> Option<PathBuf> {
        self.trace(absolute).target
    }

    /// Like [`trace_links`]; a folder that changed since it was resolved is not noticed.
    pub fn trace(&mut self, absolute: &Path) -> LinkTrace {
        let (Some(folder), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return trace_links(absolute);
        };
        if !self.folders.contains_key(folder) {
            self.folders.insert(folder.to_owned(), TracedFolder::resolve(folder));
        }
        let Some(Some(traced)) = self.folders.get(folder) else { return trace_links(absolute) };
        let mut links = traced.links.clone();
        if !traced.canonical.missing.is_empty() {
            // Nothing is below a folder that does not exist.
            let target = Some(traced.canonical.clone().into_path().join(name));
            return LinkTrace { links, target };
        }
        let found = canonical_path::canonicalize_with(
            &traced.canonical.existing,
            Path::new(name),
            FinalLinkMode::Follow,
            |link| links.push(link),
        );
        LinkTrace { links, target: target_of(found, absolute) }
    }
}

impl TracedFolder {
    fn resolve(folder: &Path) -> Option<Self> {
        let mut links = Vec::new();
        let found = canonical_path::canonicalize_with(
            Path::new("/"),
            folder,
            FinalLinkMode::Follow,
            |link| links.push(link),
        );
        found.ok().map(|canonical| Self { links, canonical })
    }
}

/// The names in a folder, sorted; `None` if there are more than `most` or it cannot be listed.
pub fn list_sorted(folder: &Path, most: usize) -> Option<Vec<ScanEntry>> {
    let FolderListing::Names(names) = list_folder(folder, most) else { return None };
    let seen = |name: ListingEntry| ScanEntry {
        path: folder.join(name.name),
        is_folder: name.is_folder,
        is_link: name.is_link,
    };
    let mut seen: Vec<ScanEntry> = names.into_iter().map(seen).collect();
    seen.sort_by(|a, b| a.path.cmp(&b.path));
    Some(seen)
}

/// A name in a folder, without the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingEntry {
    /// The name within its folder.
    pub name: OsString,
    /// Whether it is a folder; a link to one is not.
    pub is_folder: bool,
    /// Whether it is a link.
    pub is_link: bool,
}

/// The result of listing a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FolderListing {
    /// Its names, in no order.
    Names(Vec<ListingEntry>),
    /// It has more names than requested.
    TooMany,
    /// The folder does not exist.
    NoFolder,
    /// It may have entries, but it cannot be listed, entered, or both.
    Closed,
}

/// Lists a folder, with at most `most` names.
pub fn list_folder(folder: &Path, most: usize) -> FolderListing {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let dir = match rustix::fs::open(folder, flags, Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::NOENT | Errno::NOTDIR) => return FolderListing::NoFolder,
        Err(_) => return FolderListing::Closed,
    };
    // Names alone are of little use if their files cannot be inspected.
    if rustix::fs::statat(&dir, ".", AtFlags::empty()).is_err() {
        return FolderListing::Closed;
    }
    let Ok(entries) = rustix::fs::Dir::read_from(&dir) else { return FolderListing::Closed };
    let mut names = Vec::new();
    for entry in entries {
        let Ok(entry) = entry else { return FolderListing::Closed };
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        if names.len() >= most {
            return FolderListing::TooMany;
        }
        let kind = entry_file_type(&dir, &entry);
        let (is_folder, is_link) = (kind == FileType::Directory, kind == FileType::Symlink);
        names.push(ListingEntry { name: name.to_owned(), is_folder, is_link });
    }
    FolderListing::Names(names)
}

/// The names in a folder at one moment, to tell without another system call what is not there.
#[derive(Clone, Debug)]
pub struct FolderNames(Option<HashSet<Vec<u8>>>);

impl FolderNames {
    /// Lists a folder. If that fails, or it has too many names, nothing is known.
    pub fn list(folder: &Path) -> Self {
        let FolderListing::Names(names) = list_folder(folder, INDEXED_NAMES_MAX) else {
            return Self(None);
        };
        // Where names differ in more than the case of ASCII letters, only the file system knows
        // which of them it takes for the same.
        let is_ascii = names.iter().all(|entry| entry.name.as_bytes().is_ascii());
        let fold = |entry: ListingEntry| entry.name.as_bytes().to_ascii_lowercase();
        Self(is_ascii.then(|| names.into_iter().map(fold).collect()))
    }

    /// Whether the folder certainly had nothing at this relative path.
    pub fn certainly_lacks(&self, relative: &Path) -> bool {
        let Self(Some(names)) = self else { return false };
        match relative.components().next() {
            Some(Component::Normal(first)) if first.is_ascii() => {
                !names.contains(&first.as_bytes().to_ascii_lowercase())
            }
            _ => false,
        }
    }
}

/// Whether a path can be followed to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathReachability {
    /// Something exists there, possibly a dangling link.
    Open,
    /// Nothing exists there.
    Missing,
    /// This folder on the way cannot be entered, so it is not known.
    Closed(PathBuf),
}

/// Checks whether a path can be followed to its end.
pub fn check_reachability(path: &Path) -> PathReachability {
    match rustix::fs::lstat(path) {
        Ok(_) => PathReachability::Open,
        Err(Errno::NOENT | Errno::NOTDIR) => PathReachability::Missing,
        Err(_) => PathReachability::Closed(find_closed_folder(path, LINKS_MAX)),
    }
}

/// The first folder on the way that cannot be entered, following links.
fn find_closed_folder(path: &Path, links_left: usize) -> PathBuf {
    let mut from_root: Vec<&Path> = path.ancestors().collect();
    from_root.reverse();
    let is_closed = |folder: &&&Path| rustix::fs::access(**folder, Access::EXEC_OK).is_err();
    let Some(closed) = from_root.iter().find(is_closed) else { return path.to_owned() };
    match std::fs::read_link(closed) {
        Ok(target) if links_left > 0 => {
            let target = closed.parent().unwrap_or(Path::new("/")).join(target);
            find_closed_folder(&normalize_dots(&target), links_left - 1)
        }
        _ => closed.to_path_buf(),
    }
}

/// Whether the user could open a folder that is closed now, or use what is in it anyway: owners can
/// change modes, and files in a folder that can be entered can be opened by name.
pub fn can_open(folder: &Path) -> bool {
    let euid = rustix::process::geteuid();
    let is_own = |stat: rustix::fs::Stat| euid.is_root() || stat.st_uid == euid.as_raw();
    rustix::fs::access(folder, Access::EXEC_OK).is_ok()
        || rustix::fs::lstat(folder).is_ok_and(is_own)
}

/// Whether the user may create files in a folder.
pub fn can_add_to(folder: &Path) -> bool {
    rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// The home folder of this process's user according to `/etc/passwd`, whatever the environment
/// says. `None` if the user is not listed there.
pub fn find_user_home() -> Option<PathBuf> {
    let users = read_small_file(Path::new("/etc/passwd"), USERS_BYTES_MAX)?;
    parse_home(&String::from_utf8_lossy(&users), rustix::process::geteuid().as_raw())
}

fn parse_home(users: &str, uid: u32) -> Option<PathBuf> {
    let home = users.lines().find_map(|line| {
        let mut fields = line.split(':').skip(2);
        let of_user = fields.next()?.parse() == Ok(uid);
        of_user.then(|| fields.nth(2)).flatten()
    })?;
    // Service users have no home, which is written in several ways.
    Some(PathBuf::from(home)).filter(|home| home.is_absolute() && home.parent().is_some())
}

/// The contents of a regular file of at most `bytes_max` bytes; `None` if there is none or it is
/// larger.
pub fn read_small_file(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    read_regular_file(rustix::fs::open(path, flags, Mode::empty()).ok()?, bytes_max)
}

/// The same for a file beneath a folder, without following any link.
pub fn read_small_file_beneath(root: &Path, relative: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty()).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    read_regular_file(open_beneath::open(&root, relative, flags).ok()?, bytes_max)
}

fn read_regular_file(file: OwnedFd, bytes_max: u64) -> Option<Vec<u8>> {
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut content = Vec::new();
    std::fs::File::from(file).take(bytes_max + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= bytes_max).then_some(content)
}

/// Whether a regular file has more than `bytes` bytes; links are followed.
pub fn is_larger_than(path: &Path, bytes: u64) -> bool {
    rustix::fs::stat(path).is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && u64::try_from(stat.st_size).is_ok_and(|size| size > bytes)
    })
}

/// The beginning and the end of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEnds {
    /// The first bytes; the whole file if `tail` is `None`.
    pub head: Vec<u8>,
    /// The last bytes, if there are more than those of `head`.
    pub tail: Option<Vec<u8>>,
}

/// The first and the last bytes of a regular file, at most `bytes_max` each; `None` if there is none.
pub fn read_file_ends(path: &Path, bytes_max: u64) -> Option<FileEnds> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut file = std::fs::File::from(file);
    let mut head = Vec::new();
    file.by_ref().take(bytes_max).read_to_end(&mut head).ok()?;
    let size = file.seek(SeekFrom::End(0)).ok()?;
    if size <= head.len() as u64 {
        return Some(FileEnds { head, tail: None });
    }
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(size.saturating_sub(bytes_max).max(head.len() as u64))).ok()?;
    file.take(bytes_max).read_to_end(&mut tail).ok()?;
    Some(FileEnds { head, tail: Some(tail) })
}

/// The type of what is at a path; links are followed.
pub fn file_type(path: &Path) -> Option<crate::FileType> {
    let stat = rustix::fs::stat(path).ok()?;
    Some(crate::FileFacts::from_stat(&stat).file_type)
}

/// Whether there is a symbolic link at a path.
pub fn is_link(path: &Path) -> bool {
    rustix::fs::lstat(path)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// What a symbolic link says; `None` if there is none at the path, or it cannot be read.
pub fn read_link(path: &Path) -> Option<PathBuf> {
    let target = rustix::fs::readlink(path, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// Whether something exists at a path, possibly a dangling link.
pub fn exists(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok()
}

/// Whether nothing exists at a path. A path that cannot be examined may exist.
pub fn is_absent(path: &Path) -> bool {
    matches!(rustix::fs::lstat(path), Err(Errno::NOENT | Errno::NOTDIR))
}

/// Whether a path leads to a file that may be executed.
pub fn is_program(path: &Path) -> bool {
    file_type(path) == Some(crate::FileType::File)
        && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

fn entry_file_type(dir: &OwnedFd, entry: &rustix::fs::DirEntry) -> FileType {
    match entry.file_type() {
        // Not every file system reports the type; then it takes a stat.
        FileType::Unknown => rustix::fs::statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
            .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
        kind => kind,
    }
}

fn normalize_dots(absolute: &Path) -> PathBuf {
    let mut normalized = PathBuf::from("/");
    for component in absolute.components() {
        match component {
            std::path::Component::Normal(name) => normalized.push(name),
            std::path::Component::ParentDir => {
                normalized.pop();
            }
            _ => {}
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn tracer_finds_what_single_traces_find() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        std::fs::create_dir_all(root.join("real/inner")).unwrap();
        std::fs::write(root.join("real/file"), "").unwrap();
        symlink("real", root.join("short")).unwrap();
        symlink("../short/file", root.join("real/up")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        symlink("none/deep", root.join("dangling")).unwrap();
        let mut tracer = LinkTracer::default();
        for folder in [
            "",
            "real",
            "short",
            "short/inner",
            "dangling",
            "loop",
            "real/file",
            "none",
            "real/../short",
            "none/..",
        ] {
            for name in [
                "file",
                "up",
                "inner",
                "x",
                "..",
                ".",
                "inner/../up",
                "short",
                "loop",
                "dangling/x",
            ] {
                let path = root.join(folder).join(name);
                assert_eq!(tracer.trace(&path), trace_links(&path), "{}", path.display());
            }
        }
        for path in ["/", "/..", "/none"] {
            assert_eq!(tracer.trace(Path::new(path)), trace_links(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn folder_names_tell_what_is_missing() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path();
        std::fs::create_dir_all(root.join(".GitHub/a")).unwrap();
        symlink("nowhere", root.join(".envrc")).unwrap();
        let names = FolderNames::list(root);
        for (path, lacks) in [
            (".npmrc", true),
            (".config/x", true),
            (".github/workflows", false),
            (".envrc", false),
            ("../x", false),
            ("ü", false),
        ] {
            assert_eq!(names.certainly_lacks(Path::new(path)), lacks, "{path}");
        }
        std::fs::write(root.join("ü"), "").unwrap();
        assert!(!FolderNames::list(root).certainly_lacks(Path::new(".npmrc")));
        assert!(!FolderNames::list(&root.join("none")).certainly_lacks(Path::new(".npmrc")));
        for number in 0..INDEXED_NAMES_MAX {
            std::fs::write(root.join(number.to_string()), "").unwrap();
        }
        assert!(!FolderNames::list(root).certainly_lacks(Path::new(".npmrc")));
    }

    #[test]
    fn tree_stamp_shows_changes_at_every_depth() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), "").unwrap();
        let before = read_tree_stamp(&root, 3);
        assert!(before.is_some() && before == read_tree_stamp(&root, 3));
        assert_eq!(read_tree_stamp(&root, 2), None, "more entries than asked for");
        assert_eq!(read_tree_stamp(&root.join("none"), 2), None);
        // Change times are coarse, so the change is repeated until it has another time.
        let file = root.join("a/b/file");
        let first = read_stamp(&file);
        while read_stamp(&file) == first {
            std::fs::write(&file, "x").unwrap();
        }
        assert_ne!(before, read_tree_stamp(&root, 3));
    }

    #[test]
    fn names_types_and_small_files_are_read() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("folder")).unwrap();
        std::fs::write(root.join("program"), "#!/bin/sh\n").unwrap();
        symlink("folder", root.join("link")).unwrap();
        let seen = list_sorted(&root, 10).unwrap();
        let shown: Vec<(bool, bool)> = seen.iter().map(|s| (s.is_folder, s.is_link)).collect();
        assert_eq!(shown, [(true, false), (false, true), (false, false)]);
        assert_eq!(list_sorted(&root, 2), None, "more than asked for");
        assert_eq!(read_small_file(&root.join("program"), 100).unwrap(), b"#!/bin/sh\n");
        assert_eq!(read_small_file(&root.join("program"), 3), None);
        assert!(is_larger_than(&root.join("program"), 9) && !is_larger_than(&root.join("none"), 0));
        assert!(!is_larger_than(&root.join("program"), 10) && !is_larger_than(&root, 0));
        assert_eq!(read_small_file(Path::new("/dev/zero"), 3), None);
        assert!(!is_program(&root.join("program")));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.join("program"), mode).unwrap();
        assert!(is_program(&root.join("program")));
        assert_eq!(canonicalize(&root.join("link/x")), Some(root.join("folder/x")));
        assert_eq!(canonicalize(&root.join("none/../x")), Some(root.join("x")));
        assert_eq!(canonicalize(Path::new("/proc/self/root/etc")), None);
    }

    /// Waits until changes get a later time than those before. The clock of files is coarse.
    fn wait_for_clock_step() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let touch = || {
            std::fs::write(file.path(), "x").unwrap();
            read_stamp(file.path()).unwrap()
        };
        let first = touch();
        while touch() == first {}
    }

    #[test]
    fn stamp_shows_change_in_folder() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("folder")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        let mut seen = Vec::new();
        let whole =
            scan_folder(&root, 2, |name, is_folder| seen.push((name.to_owned(), is_folder)));
        seen.sort();
        assert_eq!(seen, [("file".into(), false), ("folder".into(), true)]);
        let before = read_stamp(&root).unwrap();
        assert_eq!(whole, ScanOutcome::Whole(before));
        assert!(!before.is_stable() && before.is_changed_since(SystemTime::now()));
        assert!(!before.is_changed_since(SystemTime::now() + Duration::from_secs(60)));
        wait_for_clock_step();
        std::fs::write(root.join("new"), "").unwrap();
        assert_ne!(read_stamp(&root), Some(before));
        assert_eq!(scan_folder(&root, 2, |_, _| {}), ScanOutcome::Part, "there are three");
        assert_eq!(scan_folder(&root.join("file"), 2, |_, _| {}), ScanOutcome::Nothing);
        symlink("folder", root.join("link")).unwrap();
        assert_eq!(scan_folder(&root.join("link"), 2, |_, _| {}), ScanOutcome::Nothing);
    }

    #[test]
    fn replaced_file_has_other_identity() {
        let temp = tempfile::tempdir().unwrap();
        let (file, other) = (temp.path().join("file"), temp.path().join("other"));
        let make = |path: &Path| {
            std::fs::write(path, "text").unwrap();
            read_identity(path).unwrap()
        };
        let first = make(&file);
        assert_eq!(read_identity(&file), Some(first));
        let second = make(&other);
        std::fs::rename(&other, &file).unwrap();
        assert_eq!(read_identity(&file), Some(second));
        assert_ne!(first, second);
        // The inode number may be reused.
        std::fs::remove_file(&file).unwrap();
        wait_for_clock_step();
        assert_ne!(make(&file), second);
        assert_eq!(read_identity(&other), None);
    }

    #[test]
    fn home_is_parsed_by_uid() {
        let users = "root:x:0:0:root:/root:/bin/sh\nodd\n_apt:x:42:65534::/nonexistent:/bin/false\n\
             me:x:1000:1000:Me,,:/home/me:/bin/zsh\nsvc:x:7:7::/:/bin/false\n";
        let check =
            |uid, home: Option<&str>| assert_eq!(parse_home(users, uid), home.map(Into::into));
        check(0, Some("/root"));
        check(1000, Some("/home/me"));
        check(7, None);
        check(8, None);
    }

    #[test]
    fn listing_reports_why_it_is_empty() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("file"), "").unwrap();
        symlink("none", temp.path().join("dangling")).unwrap();
        assert_eq!(list_folder(&temp.path().join("none"), 9), FolderListing::NoFolder);
        assert_eq!(list_folder(&temp.path().join("file"), 9), FolderListing::NoFolder);
        assert_eq!(list_folder(temp.path(), 1), FolderListing::TooMany);
        assert_eq!(check_reachability(&temp.path().join("dangling")), PathReachability::Open);
        assert_eq!(check_reachability(&temp.path().join("file/x")), PathReachability::Missing);
        assert_eq!(check_reachability(&temp.path().join("none/x")), PathReachability::Missing);
    }
}
