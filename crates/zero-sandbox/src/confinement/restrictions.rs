//! Restrictions that a process applies to itself right before it executes a program.
//!
//! [`ProcessRestrictions`] describes them. Everything that can fail for lack of memory or of a file
//! is done beforehand, in [`PreparedRestrictions::new`]. [`PreparedRestrictions::apply`] only makes
//! system calls, so it may run between fork and exec.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use seccompiler::{BpfProgram, sock_filter};
use serde::{Deserialize, Serialize};

use super::landlock::{self, LandlockRule, TcpAccess};
use super::syscall_filter::{self, SocketAccess, SyscallFilterError};

/// All restrictions of a process, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessRestrictions {
    /// The kernel's version of Landlock, and what to allow.
    pub(crate) landlock: Option<(i32, Vec<LandlockRule>, TcpAccess)>,
    /// The sockets it may open; `None` if system calls cannot be filtered.
    pub(crate) sockets: Option<SocketAccess>,
    /// The compiled filter for them; empty if it has to be compiled.
    pub(crate) filter: Vec<u64>,
    /// Most open files per process.
    pub(crate) open_files: u64,
    /// The largest file it may write, in bytes.
    pub(crate) file_bytes: u64,
}

/// Why restrictions could not be prepared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RestrictionError {
    /// The kernel refused the Landlock rules.
    #[error("the kernel refused the Landlock rules")]
    Landlock(#[source] io::Error),
    /// The seccomp filter cannot be built.
    #[error(transparent)]
    Filter(#[from] SyscallFilterError),
    /// The folder's path contains a null byte.
    #[error("the folder's name contains a null byte")]
    FolderName,
}

/// Restrictions with everything that the kernel needs to apply them.
#[derive(Debug)]
pub(crate) struct PreparedRestrictions {
    ruleset: Option<OwnedFd>,
    filter: Option<BpfProgram>,
    open_files: u64,
    file_bytes: u64,
    folder: CString,
}

impl PreparedRestrictions {
    /// Prepares the restrictions, with paths as they are now.
    pub(crate) fn new(
        restrictions: &ProcessRestrictions,
        folder: &Path,
    ) -> Result<Self, RestrictionError> {
        let ruleset = match &restrictions.landlock {
            Some((abi, rules, tcp)) => Some(
                landlock::build_ruleset(*abi, rules, *tcp).map_err(RestrictionError::Landlock)?,
            ),
            None => None,
        };
        let filter = match restrictions.sockets {
            None => None,
            Some(sockets) if restrictions.filter.is_empty() => {
                Some(syscall_filter::filter_program(sockets)?)
            }
            Some(_) => Some(syscall_filter::from_numbers(&restrictions.filter)),
        };
        let folder = CString::new(folder.as_os_str().as_bytes())
            .map_err(|_| RestrictionError::FolderName)?;
        let ProcessRestrictions { open_files, file_bytes, .. } = *restrictions;
        Ok(Self { ruleset, filter, open_files, file_bytes, folder })
    }

    /// Enters the folder and applies all restrictions.
    pub(crate) fn apply(&self) -> Result<(), RestrictionApplyError> {
        reset_inherited_state()?;
        change_folder(&self.folder).map_err(RestrictionApplyError::Folder)?;
        set_rlimit(libc::RLIMIT_NOFILE, self.open_files)?;
        set_rlimit(libc::RLIMIT_FSIZE, self.file_bytes)?;
        close_on_exec(&[])?;
        drop_privileges()?;
        if let Some(ruleset) = &self.ruleset {
            landlock::restrict_self(ruleset.as_raw_fd()).map_err(Errno::from_raw_os_error)?;
        }
        match &self.filter {
            Some(filter) => Ok(install_filter(filter)?),
            None => Ok(()),
        }
    }
}

/// Why restrictions could not be applied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RestrictionApplyError {
    /// The folder cannot be entered.
    Folder(Errno),
    Other(Errno),
}

impl From<Errno> for RestrictionApplyError {
    fn from(errno: Errno) -> Self {
        Self::Other(errno)
    }
}

impl From<RestrictionApplyError> for Errno {
    fn from(error: RestrictionApplyError) -> Self {
        match error {
            RestrictionApplyError::Folder(errno) | RestrictionApplyError::Other(errno) => errno,
        }
    }
}

/// Detaches from the terminal, so that nothing can be typed into it. A process that already leads a
/// session stays in it and keeps its terminal.
#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
pub(crate) fn become_session_leader() {
    // SAFETY: touches no memory of ours. Fails for a process that leads a session already.
    unsafe { libc::setsid() };
}

/// Resets inherited settings to safe defaults.
#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
pub(crate) fn reset_inherited_state() -> Result<(), Errno> {
    // SAFETY: touches no memory of ours, and cannot fail.
    unsafe { libc::umask(0o022) };
    set_rlimit(libc::RLIMIT_CORE, 0)
}

/// Marks every descriptor but the first three and those in `kept` as close-on-exec.
#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
pub(crate) fn close_on_exec(kept_descriptors: &[RawFd]) -> Result<(), Errno> {
    // SAFETY: sets flags; closes nothing.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done != 0 {
        return Err(last_error());
    }
    for fd in kept_descriptors {
        // SAFETY: sets the flags of one descriptor.
        check_result(unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) })?;
    }
    Ok(())
}

pub(crate) fn enter_folder(folder: &Path) -> Result<(), Errno> {
    let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    change_folder(&folder)
}

#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
fn change_folder(folder: &CStr) -> Result<(), Errno> {
    // SAFETY: the name ends with a zero and lives across the call.
    check_result(unsafe { libc::chdir(folder.as_ptr()) })
}

#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
fn set_rlimit(resource: libc::__rlimit_resource_t, most: u64) -> Result<(), Errno> {
    let mut now = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `now` is live and of the type the kernel fills in.
    check_result(unsafe { libc::getrlimit(resource, &raw mut now) })?;
    // A tighter limit stays.
    let most = most.min(now.rlim_max);
    let new = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: `new` is live and only read.
    check_result(unsafe { libc::setrlimit(resource, &raw const new) })
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops every capability, and the ways to gain one: set-user-ID programs no longer change the
/// user.
///
/// Root without capabilities is an ordinary user who owns root's files. For files of other users,
/// their modes apply.
#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
fn drop_privileges() -> Result<(), Errno> {
    const VERSION_3: u32 = 0x2008_0522;
    const CAPABILITIES_MAX: libc::c_ulong = 64;
    // SAFETY: takes numbers only.
    check_result(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) })?;
    for capability in 0..CAPABILITIES_MAX {
        // Fails past the last one, and for processes that have no capabilities to drop.
        // SAFETY: takes numbers only.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0_u64, 0_u64, 0_u64) } != 0 {
            break;
        }
    }
    let header = CapabilityHeader { version: VERSION_3, pid: 0 };
    let nothing = [CapabilityData { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: version 3 of the call reads one header and two sets, all of them live.
    let done =
        unsafe { libc::syscall(libc::SYS_capset, std::ptr::from_ref(&header), nothing.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

#[repr(C)]
pub(super) struct SeccompProgram {
    pub(super) len: u16,
    pub(super) filter: *const sock_filter,
}

#[expect(unsafe_code, reason = "between fork and exec only bare system calls are sound")]
fn install_filter(filter: &BpfProgram) -> Result<(), Errno> {
    let len = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = SeccompProgram { len, filter: filter.as_ptr() };
    // SAFETY: `program` points at `len` live instructions, which the kernel copies and checks.
    let done = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0_u32,
            std::ptr::from_ref(&program),
        )
    };
    if done == 0 { Ok(()) } else { Err(last_error()) }
}

fn check_result(result: libc::c_int) -> Result<(), Errno> {
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

#[expect(unsafe_code, reason = "the standard library's function may allocate")]
fn last_error() -> Errno {
    // SAFETY: the location of this thread's error number is always valid.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}
