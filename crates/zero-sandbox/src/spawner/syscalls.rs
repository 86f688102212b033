//! The system calls that need `unsafe`: fork, spawn, execute, signals as a descriptor, used resources.
//!
//! The warden and its keepers have one thread, which is what makes `fork` sound here: the child
//! has all there is, no lock is held by a thread it does not have.

#![expect(unsafe_code, reason = "the one place of the warden that calls the C library")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use crate::kernel_file;

/// Who one is after a fork.
pub(crate) enum ForkOutcome {
    /// The new process.
    Child,
    /// The old one; with the number of the new one.
    Parent(i32),
}

/// Makes a second process of this one. The child must leave through [`exit`] or [`execute`].
pub(crate) fn fork() -> io::Result<ForkOutcome> {
    // SAFETY: the process has one thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkOutcome::Child),
        pid => Ok(ForkOutcome::Parent(pid)),
    }
}

/// Makes a second process of this one, which begins in a control group of version 2.
///
/// Going into a group later makes the kernel wait for every processor, some ten milliseconds; to
/// begin there costs nothing.
pub(super) fn fork_into(group: &OwnedFd) -> io::Result<ForkOutcome> {
    /// The kernel's record, in its second version.
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
    // SAFETY: as for `fork`: one thread, and without a stack of its own the child goes on with a
    // copy of ours. The record is as long as is said and lives during the call.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkOutcome::Child),
        pid => i32::try_from(pid).map(ForkOutcome::Parent).map_err(io::Error::other),
    }
}

/// Starts a process that runs `child` in this one's memory, and gives its number when it has become
/// a program or has ended; until then this process stands still. Nothing is copied, which makes it
/// the fast way to start a program.
///
/// `child` makes system calls only, and what it writes to memory is written here. It becomes a
/// program, or gives the code to exit with.
pub(crate) fn spawn(mut child: impl FnMut() -> i32) -> io::Result<i32> {
    /// More than what comes before a program needs, also in a build that is not optimised.
    const STACK_BYTES: usize = 256 * 1024;
    extern "C" fn enter<F: FnMut() -> i32>(child: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the pointer is that of the closure below, which lives until the child is gone
        // from this memory, and which nobody else uses meanwhile.
        unsafe { (*child.cast::<F>())() }
    }
    fn start<F: FnMut() -> i32>(
        child: &mut F,
        stack: &mut [std::mem::MaybeUninit<u128>],
    ) -> libc::c_int {
        let child = std::ptr::from_mut(child).cast();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the process has one thread and stands still while the child uses its memory. The
        // stack grows downwards from its end, which is aligned, and is nobody else's.
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

/// Strings in the form the kernel wants: pointers to them, and a null at the end.
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

/// Becomes another program. Comes back only with the error number.
pub(crate) fn execute(program: &CStr, argv: &CStringArray<'_>, envp: &CStringArray<'_>) -> i32 {
    // SAFETY: all pointers lead to strings that end with a null and live as long as the arguments;
    // both arrays end with a null pointer.
    unsafe { libc::execve(program.as_ptr(), argv.pointers.as_ptr(), envp.pointers.as_ptr()) };
    last_errno()
}

/// Gives every signal its usual meaning and lets all of them through, as a new program expects.
pub(crate) fn reset_signals() {
    // All zeros: the usual meaning, no flags, nothing held back. The C library would leave out two
    // signals it uses itself, which then stay ignored if they were when zero was started.
    let usual = [0_u64; 4];
    for signal in 1..=64 {
        // SAFETY: the kernel reads a record no longer than this one, and gives no old one back.
        // Signals that cannot be changed are refused, which changes nothing.
        unsafe {
            let old = std::ptr::null_mut::<u64>();
            libc::syscall(libc::SYS_rt_sigaction, signal, usual.as_ptr(), old, size_of::<u64>());
        }
    }
    unblock_signals();
}

/// To whom this process passes on that it is asked to end; to nobody when zero.
static SIGTERM_TARGET: AtomicI32 = AtomicI32::new(0);

/// Passes on to a child, from now on, that this process is asked to end from outside of its
/// namespace; what asks from inside is the child's own kind, and is not listened to. It goes on
/// itself. With zero, nobody is told.
pub(crate) fn forward_sigterm_to(pid: i32) {
    extern "C" fn forward(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        let pid = SIGTERM_TARGET.load(Ordering::Relaxed);
        // SAFETY: the kernel hands a record of a signal that was sent by `kill`; somebody outside
        // of the namespace has no number in it. `kill` may be called from a handler, and the error
        // number of whoever was interrupted is put back.
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
    // meaning is not asked.
    unsafe {
        let mut meaning: libc::sigaction = std::mem::zeroed();
        meaning.sa_sigaction = forward as *const () as libc::sighandler_t;
        meaning.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTERM, &raw const meaning, std::ptr::null_mut());
    }
}

/// Holds no signal back.
pub(crate) fn unblock_signals() {
    // SAFETY: a zeroed set is valid storage; `sigemptyset` makes it a set; the old one is not asked.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Holds these signals back and gives a descriptor that is readable when one came.
pub(super) fn open_signal_fd(signals: &[i32]) -> io::Result<OwnedFd> {
    // SAFETY: the set is made by `sigemptyset` before it is used; `signalfd` returns a new
    // descriptor that nobody else owns, or -1.
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

/// The signals that came since the last look.
pub(super) fn read_signals(fd: &OwnedFd) -> Vec<i32> {
    /// Looks at most that often: signals of a kind are not counted, so there are few.
    const READS_MAX: usize = 64;
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    let mut came = Vec::new();
    for _ in 0..READS_MAX {
        let mut record = [0; SIZE];
        match rustix::io::read(fd, &mut record) {
            Ok(SIZE) => {
                // The number is the first field, 32 bits wide.
                let number = record.first_chunk().map(|first| u32::from_ne_bytes(*first));
                came.extend(number.and_then(|number| i32::try_from(number).ok()));
            }
            _ => break,
        }
    }
    came
}

/// A child that ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildExit {
    pub(crate) pid: i32,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// What it used, and its children that it waited for.
    pub(crate) used: ResourceUsage,
}

/// What there is of children.
pub(crate) enum ReapOutcome {
    /// One ended.
    Exited(ChildExit),
    /// None ended, but some are there.
    StillRunning,
    /// There are none.
    NoChildren,
}

/// Takes note of one child that ended.
pub(crate) fn reap() -> ReapOutcome {
    reap_with(libc::WNOHANG)
}

/// Waits until a child ended, and takes note of it.
pub(crate) fn wait() -> ReapOutcome {
    reap_with(0)
}

fn reap_with(flags: libc::c_int) -> ReapOutcome {
    let mut status = 0;
    loop {
        // Whatever signal it was made to end with: one that ends silently is a child, too.
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

/// What processes used that were waited for, and what their children did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceUsage {
    pub(crate) cpu_time: Duration,
    /// Memory of the largest process, in bytes.
    pub(crate) largest_bytes: u64,
}

impl ResourceUsage {
    fn from_rusage(usage: &libc::rusage) -> Self {
        let time = |value: libc::timeval| {
            Duration::from_secs(u64::try_from(value.tv_sec).unwrap_or_default())
                + Duration::from_micros(u64::try_from(value.tv_usec).unwrap_or_default())
        };
        Self {
            cpu_time: time(usage.ru_utime) + time(usage.ru_stime),
            largest_bytes: u64::try_from(usage.ru_maxrss).unwrap_or_default().saturating_mul(1024),
        }
    }

    /// This and what another one used.
    pub(crate) fn add(self, other: Self) -> Self {
        Self {
            cpu_time: self.cpu_time + other.cpu_time,
            largest_bytes: self.largest_bytes.max(other.largest_bytes),
        }
    }
}

/// What the children that were reaped used so far.
pub(crate) fn children_usage() -> ResourceUsage {
    // SAFETY: a zeroed record is valid storage, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    ResourceUsage::from_rusage(&usage)
}

/// Makes `to` another number for what `from` is, which survives the execution of a program.
pub(crate) fn dup_onto(from: RawFd, to: RawFd) -> Result<(), i32> {
    // SAFETY: the numbers that are overwritten are those of streams; in a forked child or in a
    // warden that has just started, nobody owns them.
    match unsafe { libc::dup2(from, to) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

/// Closes a descriptor in a forked child that its owner, who is the parent, never drops there:
/// the child leaves through [`exit`].
pub(super) fn close_in_child(fd: &OwnedFd) {
    // SAFETY: nothing in the child uses the descriptor or its owner after this.
    unsafe { libc::close(fd.as_raw_fd()) };
}

/// In a process that has just started: keeps the streams and one descriptor it was given, and
/// closes every other one.
pub(crate) fn close_other_fds(given: RawFd) -> io::Result<OwnedFd> {
    const FIRST: RawFd = 3;
    if given < FIRST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let close = |first: RawFd, last: libc::c_uint| {
        // SAFETY: nobody owns a descriptor yet, so any number may be closed.
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
    // SAFETY: it is open, and nobody owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(given) })
}

/// In a process that has just started: keeps one descriptor it was given, and closes every other
/// one it was started with. The three streams lead nowhere.
pub(super) fn detach_keeping(given: RawFd) -> io::Result<OwnedFd> {
    /// Its number from now on.
    const KEPT: RawFd = 3;
    let checked = |result: libc::c_int| match result {
        -1 => Err(io::Error::last_os_error()),
        fd => Ok(fd),
    };
    // SAFETY: nobody owns a descriptor yet, so any number may be closed or taken. The name is a
    // string that ends with a null.
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

    /// A group of the second version as commands get it, where we may make one.
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
            // Nothing to begin in: then nobody may say that all limits are kept by such a group.
            let limits = ProcessLimits::default();
            let report = CommandCgroups::create(&CgroupParents::find(), &limits).report();
            let LimitsReport { memory, cpu, processes } = report;
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
