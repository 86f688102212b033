//! Describes what has to be mounted where in a sandbox, and checks it from inside.
//!
//! Bubblewrap gets paths and resolves them again when it mounts, including links. A program that
//! renames folders of the workspace meanwhile, such as another command, could have a folder of the
//! host mounted into the workspace, or a mask mounted on another file. That cannot be prevented.
//! But the mounts belong to the sandbox and do not change once they are made. So the init process
//! checks [`ExpectedMounts`] before the command starts: each mount exists, it shows what was at
//! that path on the host when no link led there, and nothing else is mounted.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::mount_plan::{self, MountKind};
use crate::kernel_file;
use crate::open_beneath;
use crate::profile::wire;

/// The mount table of the process that reads it.
pub(super) const MOUNT_TABLE: &str = "/proc/self/mountinfo";

/// Folders in which bubblewrap mounts file systems that belong to the sandbox.
const OWN_MOUNT_FOLDERS: &[&str] = &["/dev", "/proc"];

/// Device and inode number, which identify a file independent of its name.
pub(crate) type DeviceInode = (u64, u64);

/// Opens what is at an absolute path with `O_PATH`, without following a link at any step.
pub(super) fn open_no_follow(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open("/", flags, Mode::empty())?;
    let there =
        open_beneath::open(root, path.strip_prefix("/").map_err(|_| Errno::INVAL)?, OFlags::PATH)?;
    // With `O_PATH`, the kernel opens a link itself if it is the last part.
    let facts = rustix::fs::fstat(&there)?;
    if FileType::from_raw_mode(facts.st_mode).is_symlink() { Err(Errno::LOOP) } else { Ok(there) }
}

/// The identity of what is at an absolute path, if no link leads there.
pub(super) fn read_identity(path: &Path) -> Option<DeviceInode> {
    let facts = rustix::fs::fstat(open_no_follow(path).ok()?).ok()?;
    Some((facts.st_dev, facts.st_ino))
}

/// All mounts that must exist, and all paths at which mounts may exist.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ExpectedMounts {
    mounts: Vec<ExpectedMount>,
    /// Mount points of the host, which the sandbox inherits.
    #[serde(with = "wire::paths")]
    others: Vec<PathBuf>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ExpectedMount {
    #[serde(with = "wire::path")]
    path: PathBuf,
    mount: MountKind,
    /// What was at the path on the host.
    shows: Option<DeviceInode>,
}

impl ExpectedMounts {
    /// Describes these mounts, each with what was at its path, on a host with the mount table
    /// `table`. The folder `tmp` becomes the sandbox's `/tmp`.
    pub(super) fn new<'a>(
        mounts: impl Iterator<Item = (&'a Path, MountKind, Option<DeviceInode>)>,
        table: &[u8],
        tmp: &Path,
    ) -> Self {
        let mounts = mounts.map(|(path, mount, shows)| ExpectedMount {
            path: path.to_owned(),
            mount,
            shows,
        });
        let tmp = tmp.canonicalize().unwrap_or_else(|_| tmp.to_owned());
        let points = parse_lines(table).map(|line| line.point);
        let others = points.flat_map(|point| {
            let in_tmp =
                point.strip_prefix(&tmp).ok().map(|rest| Path::new(mount_plan::TMP).join(rest));
            in_tmp.into_iter().chain([point])
        });
        let others: BTreeSet<PathBuf> = others.collect();
        Self { mounts: mounts.collect(), others: others.into_iter().collect() }
    }

    /// The identity of what was to be mounted at `path`.
    pub(super) fn identity(&self, path: &Path) -> Option<DeviceInode> {
        self.mounts.iter().find(|one| one.path == path)?.shows
    }

    /// Checks the mounts of the calling process. The error names the path that differs.
    pub(super) fn check(&self) -> Result<(), MountMismatchError> {
        let table = kernel_file::read_bytes(Path::new(MOUNT_TABLE))
            .map_err(MountMismatchError::Unreadable)?;
        let mounted: Vec<MountInfoLine> = parse_lines(&table).collect();
        let by_id: BTreeMap<u64, &MountInfoLine> =
            mounted.iter().map(|line| (line.id, line)).collect();
        for one in &self.mounts {
            if !one.is_as_expected(&by_id, &mounted).unwrap_or(false) {
                return Err(MountMismatchError::At(one.path.clone()));
            }
        }
        self.check_unexpected_mounts(&mounted)
    }

    fn check_unexpected_mounts(&self, mounted: &[MountInfoLine]) -> Result<(), MountMismatchError> {
        let asked_for = self.mounts.iter().map(|one| &one.path);
        let mut known: BTreeSet<PathBuf> = asked_for.chain(&self.others).cloned().collect();
        let fixed = [mount_plan::TMP, mount_plan::RUN].iter().chain(mount_plan::RUN_VISIBLE);
        for path in fixed.map(Path::new) {
            known.insert(path.to_owned());
            // If it is a link on this machine, the mount is at its target.
            known.extend(path.canonicalize());
        }
        let is_own = |point: &Path| {
            let asked_for = |one: &ExpectedMount| point.starts_with(&one.path);
            OWN_MOUNT_FOLDERS.iter().any(|own| point.starts_with(own))
                && !self.mounts.iter().any(asked_for)
        };
        match mounted.iter().find(|line| !known.contains(&line.point) && !is_own(&line.point)) {
            Some(line) => Err(MountMismatchError::At(line.point.clone())),
            None => Ok(()),
        }
    }
}

impl ExpectedMount {
    fn is_as_expected(
        &self,
        by_id: &BTreeMap<u64, &MountInfoLine>,
        mounted: &[MountInfoLine],
    ) -> Result<bool, Errno> {
        let there = open_no_follow(&self.path)?;
        let facts = rustix::fs::fstat(&there)?;
        // If the kernel does not report the mount ID, take the last mount at this path.
        let line = match read_mount_id(&there) {
            Some(id) => by_id.get(&id).copied(),
            None => mounted.iter().rev().find(|line| line.point == self.path),
        };
        let Some(line) = line.filter(|line| line.point == self.path) else { return Ok(false) };
        let kind = FileType::from_raw_mode(facts.st_mode);
        let shows = || self.shows == Some((facts.st_dev, facts.st_ino));
        let is_closed = |open_bits: u32| facts.st_mode & 0o777 & !open_bits == 0;
        let is_in_memory = line.kind == b"tmpfs" && line.access == MountAccess::ReadOnly;
        Ok(match self.mount {
            MountKind::Open => line.access == MountAccess::Writable && shows(),
            MountKind::ReadOnly => line.access == MountAccess::ReadOnly && shows(),
            MountKind::HiddenFile => {
                is_in_memory && is_closed(0) && kind.is_file() && facts.st_size == 0
            }
            MountKind::HiddenFolder => is_in_memory && is_closed(0o555) && kind.is_dir(),
        })
    }
}

fn read_mount_id(there: &OwnedFd) -> Option<u64> {
    let facts = rustix::fs::statx(there, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    (facts.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(facts.stx_mnt_id)
}

/// How the mounts differ from what is expected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MountMismatchError {
    /// At this path something else is mounted, or nothing, or with other options.
    #[error(
        "the workspace changed while the sandbox was set up (`{}` is not what it was); \
         try again when no other program renames files there",
        .0.display()
    )]
    At(PathBuf),
    /// The list of mounts cannot be read.
    #[error("the list of mounts cannot be read")]
    Unreadable(#[source] io::Error),
}

fn parse_lines(table: &[u8]) -> impl Iterator<Item = MountInfoLine> {
    table.split(|byte| *byte == b'\n').filter_map(MountInfoLine::parse)
}

/// One line of the mount table.
#[derive(Debug, PartialEq, Eq)]
struct MountInfoLine {
    id: u64,
    point: PathBuf,
    access: MountAccess,
    /// The type of the file system.
    kind: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MountAccess {
    ReadOnly,
    Writable,
}

impl MountInfoLine {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let point = unescape_path(words.nth(3)?);
        let options = words.next()?;
        let read_only = options.split(|byte| *byte == b',').any(|option| option == b"ro");
        let access = if read_only { MountAccess::ReadOnly } else { MountAccess::Writable };
        let kind = words.skip_while(|word| *word != b"-").nth(1)?.to_owned();
        Some(Self { id, point, access, kind })
    }
}

/// Decodes a path of the mount table, in which separators are written as octal numbers.
fn unescape_path(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, behind)) = rest.split_first() {
        let number = behind.get(..3).filter(|_| *first == b'\\');
        let number = number.and_then(|digits| std::str::from_utf8(digits).ok());
        match number.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    std::ffi::OsString::from_vec(bytes).into()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_line_is_parsed() {
        let line = b"36 35 98:0 /mnt1 /a\\040b\\134c\\011 ro,noatime master:1 - tmpfs /dev/root rw";
        let (point, kind) = ("/a b\\c\t".into(), b"tmpfs".to_vec());
        let expected = MountInfoLine { id: 36, point, access: MountAccess::ReadOnly, kind };
        assert_eq!(MountInfoLine::parse(line), Some(expected));
        assert_eq!(MountInfoLine::parse(b""), None);
    }

    /// Checks this process, which has no mounts of its own.
    #[track_caller]
    fn check(mounts: &[(&str, MountKind)], table: &[u8], expected: Option<&str>) {
        let mounts = mounts.iter().map(|(path, mount)| {
            let facts = rustix::fs::stat(*path).unwrap();
            (Path::new(*path), *mount, Some((facts.st_dev, facts.st_ino)))
        });
        match ExpectedMounts::new(mounts, table, Path::new("/nowhere")).check() {
            Ok(()) => assert_eq!(None, expected),
            Err(MountMismatchError::At(path)) => assert_eq!(path.to_str(), expected),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn mount_check_detects_missing_and_extra_mounts() {
        let table = kernel_file::read_bytes(Path::new(MOUNT_TABLE)).unwrap();
        check(&[], &table, None);
        check(&[("/proc", MountKind::Open)], &table, None);
        check(&[("/proc", MountKind::ReadOnly)], &table, Some("/proc"));
        check(&[("/proc", MountKind::HiddenFolder)], &table, Some("/proc"));
        check(&[("/proc/self", MountKind::Open)], &table, Some("/proc/self"));
        check(&[("/usr/bin", MountKind::Open)], &table, Some("/usr/bin"));
        let others = |line: &&[u8]| {
            MountInfoLine::parse(line).is_some_and(|line| line.point != Path::new("/sys"))
        };
        let known: Vec<&[u8]> = table.split(|byte| *byte == b'\n').filter(others).collect();
        check(&[], &known.join(&b'\n'), Some("/sys"));
    }

    #[test]
    fn identity_is_not_read_through_link() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        std::fs::write(root.join("real/file"), "").unwrap();
        assert!(open_no_follow(&root.join("real/file")).is_ok());
        assert!(open_no_follow(&root.join("link/file")).is_err());
        assert!(open_no_follow(&root.join("link")).is_err());
        assert!(open_no_follow(Path::new("relative")).is_err());
    }
}
