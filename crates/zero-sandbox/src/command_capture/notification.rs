//! The kernel's side of a capture: system calls that wait for an answer.

use std::ffi::OsString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::confinement::capture_filter::NOTIFY;

/// Longest path, as in the kernel.
const PATH_BYTES_MAX: usize = 4096;
/// A string is read page by page, since the next page may not exist.
const PAGE_BYTES: u64 = 4096;

/// Makes the kernel switch to zero at once, on the same processor.
const WAKE_AT_ONCE: u64 = 1;
const IOCTL_RECEIVE: libc::c_ulong = 0xc050_2100;
const IOCTL_SEND: libc::c_ulong = 0xc018_2101;
const IOCTL_SET_FLAGS: libc::c_ulong = 0x4008_2104;
const IOCTL_ID_VALID: libc::c_ulong = 0x4008_2102;
const CONTINUE: u32 = 1;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyscallAnswer {
    /// It happens as if it had not been intercepted.
    Continue,
    /// It does not happen: zero has done it instead, or it failed.
    Done(Result<(), Errno>),
}

/// A system call that waits.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitingCall {
    id: u64,
    pub(super) pid: u32,
    flags: u32,
    pub(super) call: i32,
    arch: u32,
    instruction: u64,
    pub(super) args: [u64; 6],
}

#[repr(C)]
#[derive(Debug, Default)]
struct NotificationReply {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// The listener of a filter.
pub(super) struct Listener {
    pub(super) handle: OwnedFd,
}

#[expect(unsafe_code, reason = "no crate has these requests")]
impl Listener {
    pub(super) fn new(handle: OwnedFd) -> Self {
        // Older kernels do without.
        // SAFETY: takes numbers only.
        unsafe { libc::ioctl(handle.as_raw_fd(), IOCTL_SET_FLAGS, WAKE_AT_ONCE) };
        Self { handle }
    }

    /// The next call, unless its process was killed meanwhile.
    pub(super) fn receive(&self) -> Option<WaitingCall> {
        let mut call = WaitingCall::default();
        // SAFETY: `call` is live, zeroed, and of the type that the kernel fills in.
        let done = unsafe { libc::ioctl(self.handle.as_raw_fd(), IOCTL_RECEIVE, &raw mut call) };
        (done == 0).then_some(call)
    }

    /// Whether the process still waits for the answer, so that its number is not that of another.
    pub(super) fn is_waiting(&self, call: &WaitingCall) -> bool {
        let id = call.id;
        // SAFETY: `id` is live and of the type that the kernel reads.
        unsafe { libc::ioctl(self.handle.as_raw_fd(), IOCTL_ID_VALID, &raw const id) == 0 }
    }

    /// Answers a call.
    pub(super) fn answer(&self, call: &WaitingCall, answer: SyscallAnswer) {
        let (flags, error) = match answer {
            SyscallAnswer::Continue => (CONTINUE, 0),
            SyscallAnswer::Done(Ok(())) => (0, 0),
            SyscallAnswer::Done(Err(errno)) => (0, -errno.raw_os_error()),
        };
        let mut answer = NotificationReply { id: call.id, value: 0, error, flags };
        // Fails if the process was killed meanwhile.
        // SAFETY: `answer` is live and of the type that the kernel reads.
        unsafe { libc::ioctl(self.handle.as_raw_fd(), IOCTL_SEND, &raw mut answer) };
    }
}

/// The time slice of a thread that answers calls, in nanoseconds: the shortest that the kernel has.
const TIME_SLICE_NS: u64 = 100_000;

/// Gives this thread short time slices, so that it soon runs where others compute: each of its answers
/// is waited for, and takes a few microseconds. It gets no larger share of the processors.
#[expect(unsafe_code, reason = "no crate has this call")]
pub(super) fn shorten_time_slice() {
    // SAFETY: all zeros is a valid value.
    let mut facts: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = u32::try_from(size_of::<libc::sched_attr>()).unwrap_or(0);
    // SAFETY: `facts` is live, and as large as `size` says. Zero is this thread.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut facts, size, 0) };
    if read == 0 {
        facts.sched_runtime = TIME_SLICE_NS;
        // Kernels before 6.12 do without.
        // SAFETY: `facts` is live and was filled in by the kernel.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const facts, 0) };
    }
}

/// The request whether the kernel knows an answer of filters.
const GET_ACTION_AVAILABLE: libc::c_uint = 2;

/// Whether filters can ask a listener.
#[expect(unsafe_code, reason = "no crate has this request")]
pub(super) fn is_available() -> bool {
    let action: u32 = NOTIFY;
    // SAFETY: `action` is live and of the type that the kernel reads.
    unsafe { libc::syscall(libc::SYS_seccomp, GET_ACTION_AVAILABLE, 0, &raw const action) == 0 }
}

/// Reads a path from the memory of a process; `None` if it cannot be read.
#[expect(unsafe_code, reason = "no crate reads the memory of another process")]
pub(super) fn read_path(pid: u32, address: u64) -> Option<PathBuf> {
    let mut bytes = [0_u8; PATH_BYTES_MAX];
    let mut have = 0;
    while have < PATH_BYTES_MAX {
        let from = address.checked_add(have as u64)?;
        let in_page = usize::try_from(PAGE_BYTES - from % PAGE_BYTES).ok()?;
        // Most paths are short.
        let most =
            in_page.min(PATH_BYTES_MAX - have).min(if have == 0 { 256 } else { PATH_BYTES_MAX });
        let free = bytes.get_mut(have..have + most)?;
        let to = libc::iovec { iov_base: free.as_mut_ptr().cast(), iov_len: free.len() };
        let at = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: free.len() };
        let pid = i32::try_from(pid).ok()?;
        // SAFETY: `to` is memory of ours that is live and as long as it says; the other memory is
        // that of another process, which the kernel checks.
        let read = unsafe { libc::process_vm_readv(pid, &raw const to, 1, &raw const at, 1, 0) };
        let read = usize::try_from(read).ok().filter(|read| *read > 0)?;
        let end = have + read;
        if let Some(len) = bytes.get(have..end)?.iter().position(|byte| *byte == 0) {
            return Some(OsString::from_vec(bytes.get(..have + len)?.to_vec()).into());
        }
        have = end;
    }
    None
}
