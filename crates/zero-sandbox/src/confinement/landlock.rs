//! Landlock: rules about files that a process applies to itself and cannot revoke.
//!
//! A right applies to a folder and everything below it, and cannot be taken away further down.
//! "Everything but X" is therefore expressed by granting what is beside X.

use std::ffi::CString;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::expected_mounts::{self, DeviceInode};
use crate::profile::wire;

const EXECUTE: u64 = 1 << 0;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const REMOVE_FILE: u64 = 1 << 5;
const MAKE_DIR: u64 = 1 << 7;
const MAKE_REG: u64 = 1 << 8;
const MAKE_SOCK: u64 = 1 << 9;
const MAKE_FIFO: u64 = 1 << 10;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;

/// Rights that a rule on an ordinary file may contain; the kernel refuses others there.
const FILE_RIGHTS: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

const NET_BIND_TCP: u64 = 1 << 0;
const NET_CONNECT_TCP: u64 = 1 << 1;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1 << 0;
const SCOPE_SIGNAL: u64 = 1 << 1;

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

/// From this version on, truncating a file is a separate right; before, it cannot be denied.
pub(crate) const ABI_TRUNCATE: i32 = 3;
/// From this version on, signals and abstract sockets can be restricted to the sandbox.
pub(crate) const ABI_SCOPE: i32 = 6;

/// What a rule grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LandlockAccess {
    /// List the folder and those below it.
    List,
    /// Read, list and execute.
    Read,
    /// Everything but creating devices.
    Change,
    /// Read and write what exists: for devices.
    Use,
}

impl LandlockAccess {
    fn rights(self) -> u64 {
        let read = EXECUTE | READ_FILE | READ_DIR;
        match self {
            Self::List => READ_DIR,
            Self::Read => read,
            Self::Use => read | WRITE_FILE | TRUNCATE | IOCTL_DEV,
            Self::Change => {
                let folders = REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SYM | REFER;
                read | WRITE_FILE | TRUNCATE | IOCTL_DEV | folders | MAKE_SOCK | MAKE_FIFO
            }
        }
    }
}

/// One rule, for a path as the process sees it when the ruleset is built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LandlockRule {
    #[serde(with = "wire::path")]
    pub(crate) path: PathBuf,
    pub(crate) grant: LandlockAccess,
    /// If known, the identity of what must be at the path, without links; otherwise the ruleset
    /// fails.
    #[serde(skip)]
    pub(crate) exactly: Option<DeviceInode>,
}

impl LandlockRule {
    pub(crate) fn new(path: impl Into<PathBuf>, grant: LandlockAccess) -> Self {
        Self { path: path.into(), grant, exactly: None }
    }
}

/// Whether TCP is denied as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TcpAccess {
    Open,
    Closed,
}

#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: i32,
}

/// The version of Landlock that the kernel supports; `None` if it has none or it is disabled.
#[expect(unsafe_code, reason = "the system call has no wrapper")]
pub(crate) fn detect_abi() -> Option<i32> {
    // SAFETY: with this flag the kernel reads no memory and only returns its version.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttr>(),
            0_usize,
            CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).ok().filter(|version| *version >= 1)
}

/// Builds a ruleset that allows only what `rules` grant. A rule for a path that does not exist
/// grants nothing.
pub(crate) fn build_ruleset(
    abi: i32,
    rules: &[LandlockRule],
    tcp: TcpAccess,
) -> io::Result<OwnedFd> {
    let attr = ruleset_attr(abi, tcp);
    let ruleset = create_ruleset(&attr)?;
    for rule in rules {
        add_rule(&ruleset, &attr, rule)?;
    }
    Ok(ruleset)
}

fn ruleset_attr(abi: i32, tcp: TcpAccess) -> RulesetAttr {
    // All rights up to the last one that this version knows, also those for devices.
    let last = match abi {
        ..=1 => 12,
        2 => 13,
        3 | 4 => 14,
        _ => 15,
    };
    let closed = abi >= 4 && tcp == TcpAccess::Closed;
    RulesetAttr {
        handled_access_fs: (1 << (last + 1)) - 1,
        handled_access_net: if closed { NET_BIND_TCP | NET_CONNECT_TCP } else { 0 },
        scoped: if abi >= ABI_SCOPE { SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL } else { 0 },
    }
}

#[expect(unsafe_code, reason = "the system call has no wrapper")]
fn create_ruleset(attr: &RulesetAttr) -> io::Result<OwnedFd> {
    // Older kernels accept a longer structure if the fields that they do not know are zero.
    // SAFETY: `attr` is a live structure of the size given, which the kernel only reads.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::from_ref(attr),
            size_of::<RulesetAttr>(),
            0_u32,
        )
    };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just created this descriptor, and it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[expect(unsafe_code, reason = "the system call has no wrapper")]
fn add_rule(ruleset: &OwnedFd, attr: &RulesetAttr, rule: &LandlockRule) -> io::Result<()> {
    let found = match rule.exactly {
        Some(identity) => Some(open_verified(&rule.path, identity)?),
        None => open_for_rule(&rule.path)?,
    };
    let Some((target, is_folder)) = found else { return Ok(()) };
    let mut allowed_access = rule.grant.rights() & attr.handled_access_fs;
    if !is_folder {
        allowed_access &= FILE_RIGHTS;
    }
    if allowed_access == 0 {
        return Ok(());
    }
    let beneath = PathBeneathAttr { allowed_access, parent_fd: target.as_raw_fd() };
    // SAFETY: `beneath` is live and only read; both handles are open.
    let done = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            RULE_PATH_BENEATH,
            std::ptr::from_ref(&beneath),
            0_u32,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens a path and checks its identity.
fn open_verified(path: &Path, identity: DeviceInode) -> io::Result<(OwnedFd, bool)> {
    let target = expected_mounts::open_no_follow(path)?;
    let facts = rustix::fs::fstat(&target)?;
    if (facts.st_dev, facts.st_ino) != identity {
        return Err(io::Error::other("a folder was replaced while the sandbox was set up"));
    }
    Ok((target, rustix::fs::FileType::from_raw_mode(facts.st_mode).is_dir()))
}

/// Opens a path for a rule, and returns whether it is a folder.
#[expect(unsafe_code, reason = "opens without reading, which the standard library cannot")]
fn open_for_rule(path: &Path) -> io::Result<Option<(OwnedFd, bool)>> {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return Ok(None) };
    // SAFETY: `name` ends with a zero and lives across the call.
    let fd = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        // A path that does not exist, or cannot be reached anyway, needs no rule.
        let nothing = [libc::ENOENT, libc::ENOTDIR, libc::EACCES, libc::ELOOP];
        return match error.raw_os_error() {
            Some(code) if nothing.contains(&code) => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: the kernel has just made this handle for us.
    let target = unsafe { OwnedFd::from_raw_fd(fd) };
    let stat = rustix::fs::fstat(&target)?;
    let is_folder = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
    Ok(Some((target, is_folder)))
}

/// Applies a ruleset to the calling thread. Safe between fork and exec: one system call.
#[expect(unsafe_code, reason = "the system call has no wrapper")]
pub(crate) fn restrict_self(ruleset: RawFd) -> Result<(), i32> {
    // SAFETY: takes two numbers; a descriptor that is not a ruleset is refused.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0_u32) };
    // SAFETY: the location of this thread's error number is always valid.
    if done == 0 { Ok(()) } else { Err(unsafe { *libc::__errno_location() }) }
}

/// Rules to read everything but `masked`, and what is `readable` in it: whole folders if nothing in
/// them is masked, otherwise their current entries one by one. `None` if that would take more than
/// `rules_max`.
///
/// Folders on the way to a masked path can be listed, and so can names in a masked folder:
/// otherwise not even the working folder could be listed.
#[expect(clippy::disallowed_methods, reason = "lists folders to name them to the kernel")]
pub(crate) fn read_rules_except(
    masked: &[PathBuf],
    readable: Vec<PathBuf>,
    rules_max: usize,
) -> Option<Vec<LandlockRule>> {
    // Normalised, so that they can be compared byte by byte: there are many comparisons.
    let masked: Vec<PathBuf> = masked.iter().map(|path| path.components().collect()).collect();
    let mut rules = Vec::new();
    let mut open = readable;
    open.push(PathBuf::from("/"));
    while let Some(folder) = open.pop() {
        if masked.iter().any(|hidden| hidden.as_os_str() == folder.as_os_str()) {
            continue;
        }
        if !masked.iter().any(|hidden| is_beneath(hidden, &folder)) {
            rules.push(LandlockRule::new(folder, LandlockAccess::Read));
        } else {
            rules.push(LandlockRule::new(&folder, LandlockAccess::List));
            for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
                // Links are followed before rights are checked, so they need none.
                if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                    open.push(entry.path());
                }
            }
        }
        if rules.len() + open.len() > rules_max {
            return None;
        }
    }
    Some(rules)
}

/// Whether a normalised path is below a normalised folder.
fn is_beneath(path: &Path, folder: &Path) -> bool {
    let [path, folder] = [path, folder].map(|path| path.as_os_str().as_bytes());
    path.strip_prefix(folder).is_some_and(|rest| folder == b"/" || rest.starts_with(b"/"))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
mod tests {
    use super::*;

    #[test]
    fn read_rules_are_granted_beside_masked_paths() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home/a", "home/secret", "home/b/deep"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        // In any spelling.
        let masked = [root.join("home//./secret/"), root.join("home/b/deep/key")];
        let rules =
            read_rules_except(&masked, vec![root.join("home/secret/open")], 10_000).unwrap();
        let granted = |name: &str, grant: LandlockAccess| {
            rules.contains(&LandlockRule::new(root.join(name), grant))
        };
        assert!(granted("home/a", LandlockAccess::Read));
        assert!(granted("home/secret/open", LandlockAccess::Read));
        assert!(granted("home", LandlockAccess::List));
        assert!(granted("home/b/deep", LandlockAccess::List));
        let read: Vec<_> = rules.iter().filter(|rule| rule.grant == LandlockAccess::Read).collect();
        assert!(read.iter().all(|rule| masked.iter().all(|path| !path.starts_with(&rule.path))));
    }

    #[test]
    fn too_many_read_rules_give_none() {
        assert_eq!(read_rules_except(&["/etc/shadow".into()], Vec::new(), 3), None);
    }

    #[test]
    fn no_masked_paths_give_one_rule() {
        assert_eq!(
            read_rules_except(&[], Vec::new(), 1),
            Some(vec![LandlockRule::new("/", LandlockAccess::Read)])
        );
    }
}
