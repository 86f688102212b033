//! The system calls that need `unsafe`: fork, spawn, execute, signals as a descriptor, resource
//! usage.
//!
//! The spawner and its workers have a single thread, which makes `fork` sound here: the child has
//! that thread too, and no lock can be held by a thread that is missing in the child.

#![expect(unsafe_code, reason = "the only part of the spawner that calls the C library")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::kernel_file;

/// In which process `fork` returned.
pub(crate) enum ForkOutcome {
    /// In the new process.
    Child,
    /// In the old process, with the ID of the new one.
    Parent(i32),
}

/// Forks this process. The child must leave through [`exit`] or [`execute`].
pub(crate) fn fork() -> io::Result<ForkOutcome> {
    // SAFETY: the process has one thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkOutcome::Child),
        pid => Ok(ForkOutcome::Parent(pid)),
    }
}

/// Forks this process; the child starts in a control group of version 2.
///
/// Joining a group later makes the kernel wait for every processor, about ten milliseconds;
/// starting in it costs nothing.
pub(super) fn fork_into(group: &OwnedFd) -> io::Result<ForkOutcome> {
    /// The kernel's `clone_args`, in its second version.
    #[repr(C)]
    #[derive(Default)]
    struct CloneArgs {
        flags: u64,
        pidfd: u64,
        child_tid: u64,
        parent_tid: u64,
        exit_signal: u64,
        stack: u64,
        stack_size: u64,
        tls: u64,
        set_tid: u64,
        set_tid_size: u64,
        cgroup: u64,
    }
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    let args = CloneArgs {
        flags: INTO_CGROUP,
        exit_signal: u64::try_from(libc::SIGCHLD).unwrap_or_default(),
        cgroup: u64::try_from(group.as_raw_fd()).unwrap_or_default(),
        ..CloneArgs::default()
    };
    // SAFETY: as for `fork`: one thread, and without a stack of its own the child continues on a
    // copy of ours. The record has the length that is passed and lives during the call.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkOutcome::Child),
        pid => i32::try_from(pid).map(ForkOutcome::Parent).map_err(io::Error::other),
    }
}

/// Starts a process that runs `child` in the memory of this one. Returns its ID when it has
/// executed a program or has ended; until then this process is suspended. Nothing is copied, which
/// makes this the fastest way to start a program.
///
/// `child` may only make system calls, and what it writes to memory is written here. It executes a
/// program, or returns the exit code.
pub(crate) fn spawn(mut child: impl FnMut() -> i32) -> io::Result<i32> {
    /// More than the code before a program needs, also in a build that is not optimised.
    const STACK_BYTES: usize = 256 * 1024;
    extern "C" fn enter<F: FnMut() -> i32>(child: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is that of the closure below, which lives until the child has left
        // this memory, and which is not used elsewhere meanwhile.
        unsafe { (*child.cast::<F>())() }
    }
    fn start<F: FnMut() -> i32>(
        child: &mut F,
        stack: &mut [std::mem::MaybeUninit<u128>],
    ) -> libc::c_int {
        let child = std::ptr::from_mut(child).cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the process has one thread and is suspended while the child uses its memory. The
        // stack grows downwards from its end, which is aligned, and is not used elsewhere.
        unsafe { libc::clone(enter::<F>, stack.as_mut_ptr_range().end.cast(), flags, child) }
    }
    let mut stack = Vec::with_capacity(STACK_BYTES / size_of::<u128>());
    match start(&mut child, stack.spare_capacity_mut()) {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(pid),
    }
}

/// Ends this process at once: no destructor of the process it was forked from runs.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// Strings in the form that the kernel expects: an array of pointers that ends with a null.
pub(crate) struct CStringArray<'a> {
    pointers: Vec<*const libc::c_char>,
    _strings: &'a [CString],
}

impl<'a> CStringArray<'a> {
    pub(crate) fn new(strings: &'a [CString]) -> Self {
        let pointers = strings.iter().map(|string| string.as_ptr());
        Self { pointers: pointers.chain([std::ptr::null()]).collect(), _strings: strings }
    }
}

/// Replaces this process by another program. Returns only on failure, with the error number.
pub(crate) fn execute(program: &CStr, argv: &CStringArray<'_>, envp: &CStringArray<'_>) -> i32 {
    // SAFETY: all pointers lead to strings that end with a null and live as long as the arguments;
    // both arrays end with a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.pointers.as_ptr(), envp.pointers.as_ptr()) };
    last_errno()
}

/// Resets every signal to its default action and unblocks all of them, as a new program expects.
pub(crate) fn reset_signals() {
    // All zeros: default action, no flags, empty mask. The C library would skip two signals that it
    // uses itself; these would stay ignored if they were ignored when zero was started.
    let usual = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads a record no longer than this one, and returns no old one. For
        // signals that cannot be changed the call fails, which changes nothing.
        unsafe {
            let old = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, usual.as_ptr(), old, size_of::<u64>());
        }
    }
    unblock_signals();
}

/// The child to which SIGTERM is forwarded; none if zero.
static SIGTERM_TARGET: AtomicI32 = AtomicI32::new(0);

/// From now on, forwards SIGTERM to a child if it comes from outside of the namespace; SIGTERM from
/// inside is sent by the command itself and is ignored. This process goes on. With zero, nothing is
/// forwarded.
pub(crate) fn forward_sigterm_to(pid: i32) {
    extern "C" fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        let pid = SIGTERM_TARGET.load(Ordering::Relaxed);
        // SAFETY: the kernel passes the record of a signal that was sent by `kill`; a sender
        // outside of the namespace has process ID 0 in it. `kill` may be called from a handler, and
        // the error number of the interrupted code is restored.
        unsafe {
            if pid > 0 && (*info).si_pid() == 0 {
                let errno = last_errno();
                libc::kill(pid, signal);
                *libc::__errno_location() = errno;
            }
        }
    }
    SIGTERM_TARGET.store(pid, Ordering::Relaxed);
    // SAFETY: a zeroed record is valid storage; the handler makes one system call only. The old
    // action is not requested.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = forward as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTERM, &raw const action, std::ptr::null_mut());
    }
}

/// Unblocks all signals of the calling thread, so that a program starts with none blocked.
pub(crate) fn unblock_signals() {
    // SAFETY: a zeroed set is valid storage; `sigemptyset` initialises it; the old set is not
    // requested.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Blocks these signals and returns a descriptor that is readable when one has arrived.
pub(super) fn open_signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by `sigemptyset` before it is used; `signalfd` returns a new
    // descriptor without another owner, or -1.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// The signals that arrived since the last call.
pub(super) fn read_signals(fd: &OwnedFd) -> Vec<i32> {
    /// Upper bound of reads: signals of one kind are not queued, so there are few.
    const READS_MAX: usize = 64;
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut received = Vec::new();
    for _ in 0..READS_MAX {
        let mut record = [0; SIZE];
        match rustix::io::read(fd, &mut record) {
            Ok(SIZE) => {
                // The number is the first field, 32 bits wide.
                let number = record.first_chunk().map(|first| u32::from_ne_bytes(*first));
                received.extend(number.and_then(|number| i32::try_from(number).ok()));
            }
            _ => break,
        }
    }
    received
}

/// How a child ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildExit {
    pub(crate) pid: i32,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// Resources used by it and by the children it waited for.
    pub(crate) used: ResourceUsage,
}

/// The result of reaping a child.
pub(crate) enum ReapOutcome {
    /// A child has ended.
    Exited(ChildExit),
    /// There are children, but none has ended.
    StillRunning,
    /// There are none.
    NoChildren,
}

/// Reaps a child that has ended, without waiting.
pub(crate) fn reap() -> ReapOutcome {
    reap_with(libc::WNOHANG)
}

/// Waits until a child has ended, and reaps it.
pub(crate) fn wait() -> ReapOutcome {
    reap_with(0)
}

fn reap_with(flags: libc::c_int) -> ReapOutcome {
    let mut status = 0;
    loop {
        // Any exit signal: also children that send none to their parent.
        // SAFETY: a zeroed record is valid storage; the call fills it and the status.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            let flags = flags | libc::__WALL;
            (libc::wait4(-1, &raw mut status, flags, &raw mut usage), usage)
        };
        match pid {
            -1 if last_errno() == libc::EINTR => {}
            -1 => return ReapOutcome::NoChildren,
            0 => return ReapOutcome::StillRunning,
            pid => {
                return ReapOutcome::Exited(ChildExit {
                    pid,
                    exit_code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
                    signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
                    used: ResourceUsage::from_rusage(&usage),
                });
            }
        }
    }
}

/// Waits for a child that is about to end.
pub(crate) fn wait_for(pid: i32) {
    // SAFETY: the status is not asked for.
    while unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } == -1
        && last_errno() == libc::EINTR
    {}
}

/// Resources used by processes that were waited for, including their children.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceUsage {
    pub(crate) cpu_time: Duration,
    /// Memory of the largest process, in bytes.
    pub(crate) largest_bytes: u64,
    /// Bytes read from disks; bytes from the page cache are not counted.
    pub(crate) read_bytes: u64,
    /// Bytes written to files that are on disks.
    pub(crate) written_bytes: u64,
}

/// Size of the blocks in which the kernel counts input and output, whatever the disk.
const USAGE_BLOCK_BYTES: u64 = 512;

impl ResourceUsage {
    fn from_rusage(usage: &libc::rusage) -> Self {
        let time = |value: libc::timeval| {
            Duration::from_secs(u64::try_from(value.tv_sec).unwrap_or_default())
                + Duration::from_micros(u64::try_from(value.tv_usec).unwrap_or_default())
        };
        let scaled = |count: libc::c_long, bytes: u64| {
            u64::try_from(count).unwrap_or_default().saturating_mul(bytes)
        };
        Self {
            cpu_time: time(usage.ru_utime) + time(usage.ru_stime),
            largest_bytes: scaled(usage.ru_maxrss, 1024),
            read_bytes: scaled(usage.ru_inblock, USAGE_BLOCK_BYTES),
            written_bytes: scaled(usage.ru_oublock, USAGE_BLOCK_BYTES),
        }
    }

    /// The sums of the processor times and bytes, and the larger of the memory sizes.
    pub(crate) fn add(self, other: Self) -> Self {
        Self {
            cpu_time: self.cpu_time + other.cpu_time,
            largest_bytes: self.largest_bytes.max(other.largest_bytes),
            read_bytes: self.read_bytes.saturating_add(other.read_bytes),
            written_bytes: self.written_bytes.saturating_add(other.written_bytes),
        }
    }
}

/// Resources used by all children that were reaped so far.
pub(crate) fn children_usage() -> ResourceUsage {
    // SAFETY: a zeroed record is valid storage, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    ResourceUsage::from_rusage(&usage)
}

/// Duplicates `from` onto the number `to`, without the close-on-exec flag.
pub(crate) fn dup_onto(from: RawFd, to: RawFd) -> Result<(), i32> {
    // SAFETY: the overwritten numbers are those of streams; in a forked child or in a spawner that
    // has just started, they have no owner.
    match unsafe { libc::dup2(from, to) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

/// Closes a descriptor in a forked child. Its owner belongs to the parent and is never dropped in
/// the child, which leaves through [`exit`].
pub(super) fn close_in_child(fd: &OwnedFd) {
    // SAFETY: nothing in the child uses the descriptor or its owner after this.
    unsafe { libc::close(fd.as_raw_fd()) };
}

/// In a process that has just started: keeps the standard streams and the descriptor `given`, and
/// closes every other one.
pub(crate) fn close_other_fds(given: RawFd) -> io::Result<OwnedFd> {
    const FIRST: RawFd = 3;
    if given < FIRST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let close = |first: RawFd, last: libc::c_uint| {
        // SAFETY: no descriptor has an owner yet, so any number may be closed.
        match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    if given > FIRST {
        close(FIRST, given.cast_unsigned() - 1)?;
    }
    close(given + 1, u32::MAX)?;
    // SAFETY: sets the flags of one descriptor, whatever it is.
    if unsafe { libc::fcntl(given, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(given) })
}

/// In a process that has just started: keeps the descriptor `given`, closes every other one, and
/// connects the standard streams to `/dev/null`.
pub(super) fn detach_keeping(given: RawFd) -> io::Result<OwnedFd> {
    /// The number of the kept descriptor from now on.
    const KEPT: RawFd = 3;
    let checked = |result: libc::c_int| match result {
        -1 => Err(io::Error::last_os_error()),
        fd => Ok(fd),
    };
    // SAFETY: no descriptor has an owner yet, so any number may be closed or reused. The name ends
    // with a null byte.
    unsafe {
        let moved = checked(libc::fcntl(given, libc::F_DUPFD_CLOEXEC, KEPT))?;
        let nothing = checked(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC))?;
        for stream in 0..KEPT {
            if stream != nothing {
                checked(libc::dup2(nothing, stream))?;
            }
        }
        if moved != KEPT {
            checked(libc::dup3(moved, KEPT, libc::O_CLOEXEC))?;
        }
        let first = KEPT + 1;
        if libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) != 0 {
            for name in kernel_file::list_names(Path::new("/proc/self/fd")).unwrap_or_default() {
                if let Some(fd) = name.parse().ok().filter(|fd| *fd >= first) {
                    libc::close(fd);
                }
            }
        }
        Ok(OwnedFd::from_raw_fd(KEPT))
    }
}

fn last_errno() -> i32 {
    // SAFETY: the pointer leads to the error number of this thread.
    unsafe { *libc::__errno_location() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::{CgroupParents, CommandCgroups};
    use crate::profile::ProcessLimits;
    use crate::running_command::{LimitEnforcer, LimitsReport};

    /// A group of version 2 as commands get it, if we may create one.
    fn create_cgroup() -> Option<(CommandCgroups, OwnedFd)> {
        let groups = CommandCgroups::create(&CgroupParents::find(), &ProcessLimits::default());
        let folder = groups.open_entries().unwrap().folder?;
        Some((groups, folder))
    }

    #[test]
    fn spawned_process_shares_memory_until_it_exits() {
        let mut seen = 0;
        let pid = spawn(|| {
            seen = rustix::process::getpid().as_raw_nonzero().get();
            3
        });
        let pid = pid.unwrap();
        wait_for(pid);
        assert_eq!(seen, pid);
    }

    #[test]
    fn forked_process_starts_in_its_cgroup() {
        let no_group = kernel_file::open_folder(&std::env::temp_dir()).unwrap();
        assert!(fork_into(&no_group).is_err());
        let Some((groups, folder)) = create_cgroup() else {
            // No group to start in: then the report must not claim that such a group enforces all
            // limits.
            let limits = ProcessLimits::default();
            let report = CommandCgroups::create(&CgroupParents::find(), &limits).report();
            let LimitsReport { memory, cpu, processes, .. } = report;
            let is_v2 = |by: LimitEnforcer| by == LimitEnforcer::CgroupV2;
            assert!(![memory, cpu, processes].into_iter().all(is_v2), "{report:?}");
            return;
        };
        let (wait, go) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let pid = match fork_into(&folder).unwrap() {
            ForkOutcome::Child => {
                close_in_child(&go);
                let _ = rustix::io::read(&wait, &mut [0]);
                exit(0)
            }
            ForkOutcome::Parent(pid) => pid,
        };
        let entered = format!("/proc/self/fd/{}/cgroup.procs", folder.as_raw_fd());
        let members = kernel_file::read(Path::new(&entered)).unwrap();
        drop(go);
        wait_for(pid);
        assert_eq!(members.trim(), pid.to_string());
        drop(groups);
    }
}
