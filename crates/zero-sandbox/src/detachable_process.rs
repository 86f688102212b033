//! A process that can go on after the command that started it has returned.
//!
//! A shell waits for the process that it started. So a command that may leave jobs behind continues
//! in a child, early, while there is one thread. The first process does nothing but wait: it passes
//! on signals and ends as the child ends. If the child [detaches](detach), the first process ends
//! with the code that the child gives, and the child goes on in a session of its own, without the
//! terminal.
//!
//! Until then the kernel kills the child when the first process dies, so that nothing is left of a
//! command that was killed.

#![expect(unsafe_code, reason = "no safe function changes the signal mask or sets an action")]

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use crate::spawner::syscalls::{self, ForkOutcome};

/// The signals that the first process passes on.
const FORWARDED: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// The pipe to the first process, while this process can detach.
static REPORT: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Continues in a child process, which this function returns to. The calling process never returns:
/// it ends when the child does, or when the child detaches. Call it while the process has one
/// thread. If it fails, this process goes on, and cannot detach.
pub fn continue_in_child() -> io::Result<()> {
    let (reports, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // Before the fork, so that no signal arrives at the first process before it can pass it on.
    let (signals, previous) = block_signals()?;
    let first = rustix::process::getpid();
    match syscalls::fork() {
        Ok(ForkOutcome::Parent(child)) => {
            drop(report);
            syscalls::exit(wait_for_child(child, reports, &signals))
        }
        Ok(ForkOutcome::Child) => {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            if rustix::process::getppid() != Some(first) {
                syscalls::exit(libc::EXIT_FAILURE);
            }
            set_mask(&previous);
            *lock_report() = Some(report);
            Ok(())
        }
        Err(error) => {
            set_mask(&previous);
            Err(error)
        }
    }
}

/// Whether this process can detach.
pub fn can_detach() -> bool {
    lock_report().is_some()
}

/// Ends the first process with `code`, and goes on in a session of its own, without its terminal and
/// its standard streams. Signals that end a process end it at once. If this fails, nothing has
/// changed.
pub fn detach(code: u8) -> io::Result<()> {
    let mut report = lock_report();
    let Some(pipe) = report.take() else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "this process cannot detach"));
    };
    let null = match rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        Ok(null) => null,
        Err(error) => {
            *report = Some(pipe);
            return Err(error.into());
        }
    };
    // The handlers belong to tasks that have ended.
    for signal in FORWARDED {
        // SAFETY: the default action runs no code of this process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    rustix::process::set_parent_process_death_signal(None)?;
    // It is not the leader of its group, which is the first process, so this cannot fail.
    rustix::process::setsid()?;
    let _ = rustix::process::chdir("/");
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    std::fs::File::from(pipe).write_all(&[code])
}

/// Waits for the child, passes signals on to it, and returns the exit code.
fn wait_for_child(child: i32, reports: OwnedFd, signals: &OwnedFd) -> i32 {
    let mut report = std::fs::File::from(reports);
    loop {
        let mut fds = [PollFd::new(&report, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        if poll(&mut fds, None).is_err() {
            continue;
        }
        let [has_report, has_signal] = fds.map(|fd| !fd.revents().is_empty());
        if has_signal {
            for signal in read_sent_signals(signals) {
                // A child that has ended needs no signal.
                // SAFETY: the child was not waited for, so the number is still its own.
                unsafe { libc::kill(child, signal) };
            }
        }
        if has_report {
            let mut code = [0];
            return match report.read(&mut code) {
                Ok(1) => i32::from(code[0]),
                _ => exit_code(child),
            };
        }
    }
}

/// Waits for the end of the child. If a signal ended it, this process ends in the same way.
fn exit_code(child: i32) -> i32 {
    let status = loop {
        match rustix::process::waitpid(Pid::from_raw(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => break status,
            Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(_) => return libc::EXIT_FAILURE,
        }
    };
    if let Some(code) = status.exit_status() {
        return code;
    }
    let signal = status.terminating_signal().unwrap_or(libc::SIGKILL);
    // The child has left its dump already.
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Core,
        rustix::process::Rlimit { current: Some(0), maximum: Some(0) },
    );
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    syscalls::unblock_signals();
    // SAFETY: sends a signal to this process, as the child got it.
    unsafe { libc::raise(signal) };
    128 + signal
}

/// Blocks the signals that are passed on. Returns a descriptor for them and the mask before.
fn block_signals() -> io::Result<(OwnedFd, libc::sigset_t)> {
    use std::os::fd::FromRawFd as _;
    // SAFETY: `sigemptyset` initialises the sets before they are used; `signalfd` returns a new
    // descriptor without another owner, or -1.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut previous: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigemptyset(&raw mut previous);
        for signal in FORWARDED {
            libc::sigaddset(&raw mut set, signal);
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        let fd = OwnedFd::from_raw_fd(fd);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut previous) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((fd, previous))
    }
}

fn set_mask(mask: &libc::sigset_t) {
    // SAFETY: the mask is one that the kernel returned.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}

/// The signals that arrived for this process alone. Those of the terminal go to the whole group, the
/// child among it.
fn read_sent_signals(signals: &OwnedFd) -> Vec<i32> {
    /// Upper bound of reads: signals of one kind are not queued, so there are few.
    const READS_MAX: usize = 64;
    const SIZE: usize = size_of::<libc::signalfd_siginfo>();
    /// `si_code` of a signal that the kernel sent.
    const SI_KERNEL: i32 = 0x80;
    let mut sent = Vec::new();
    for _ in 0..READS_MAX {
        let mut record = [0_u8; SIZE];
        if !matches!(rustix::io::read(signals.as_fd(), &mut record), Ok(SIZE)) {
            break;
        }
        // The number of the signal, an error number, and the code, 32 bits each.
        let field = |at: usize| {
            let bytes = record.get(at..at + 4).and_then(|bytes| bytes.first_chunk::<4>());
            bytes.map_or(0, |bytes| i32::from_ne_bytes(*bytes))
        };
        if field(8) != SI_KERNEL {
            sent.push(field(0));
        }
    }
    sent
}

fn lock_report() -> MutexGuard<'static, Option<OwnedFd>> {
    REPORT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_process_cannot_detach() {
        assert!(!can_detach());
        assert_eq!(detach(0).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
