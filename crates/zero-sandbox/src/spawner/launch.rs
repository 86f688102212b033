//! Starts the process of a prepared command.
//!
//! Until `execve`, the child uses the memory of its parent or a copy of it, and only makes system
//! calls: everything it needs is built before. A failure in the child is reported through a pipe,
//! which is closed automatically when the program runs.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::Signal;

use super::message::{LaunchFailure, LaunchStep};
use super::syscalls::{self, CStringArray, ForkOutcome};
use crate::cgroup::{CgroupEntryHandles, CommandCgroups};
use crate::confinement::PreparedCommand;
use crate::shared_network::NetworkEntryHandles;

/// Everything needed to start a program.
pub(super) struct LaunchContext<'a> {
    pub(super) prepared: &'a PreparedCommand,
    pub(super) folder: &'a Path,
    /// Three streams, or one terminal.
    pub(super) stdio: &'a [OwnedFd],
    /// The network namespace to join. `None` for the host's network or a network of its own.
    pub(super) net: Option<&'a NetworkEntryHandles>,
}

impl LaunchContext<'_> {
    /// Starts the program in these groups and returns its process ID. If the groups were created
    /// but cannot be joined, they are dropped and the watchdog enforces the limits.
    pub(super) fn start_in_cgroups(
        &self,
        groups: &mut CommandCgroups,
    ) -> Result<i32, LaunchFailure> {
        let start = |groups: &CommandCgroups| {
            let entries = groups.open_entries();
            self.start_with_entries(
                &entries
                    .map_err(|error| LaunchFailure::from_io_error(LaunchStep::Cgroup, &error))?,
            )
        };
        let started = start(groups);
        if started.as_ref().is_err_and(|failure| failure.step == LaunchStep::Cgroup) {
            *groups = CommandCgroups::default();
            return start(groups);
        }
        started
    }

    fn start_with_entries(&self, groups: &CgroupEntryHandles) -> Result<i32, LaunchFailure> {
        let fork_failure =
            |error: std::io::Error| LaunchFailure::from_io_error(LaunchStep::Fork, &error);
        let folder = CString::new(self.folder.as_os_str().as_bytes()).unwrap_or_default();
        let argv = CStringArray::new(self.prepared.argv());
        let envp = CStringArray::new(self.prepared.envp());
        let (report, child_report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .map_err(|errno| fork_failure(errno.into()))?;
        let supervisor = rustix::process::getpid();
        let child = |joins: &[OwnedFd]| {
            let (step, errno) = match self.prepare_child(supervisor, &folder, groups, joins) {
                Ok(()) => {
                    (LaunchStep::Execute, syscalls::execute(self.prepared.program(), &argv, &envp))
                }
                Err(failure) => failure,
            };
            let [a, b, c, d] = errno.to_ne_bytes();
            let _ = rustix::io::write(&child_report, &[step as u8, a, b, c, d]);
            127
        };
        let CgroupEntryHandles { folder: group, files, .. } = groups;
        // Old kernels cannot start a process in a group, and a seccomp filter may forbid it.
        let pid = match group.as_ref().and_then(|group| syscalls::fork_into(group).ok()) {
            Some(ForkOutcome::Child) => syscalls::exit(child(&[])),
            Some(ForkOutcome::Parent(pid)) => pid,
            None => syscalls::spawn(|| child(files)).map_err(fork_failure)?,
        };
        drop(child_report);
        let mut bytes = [0; 5];
        match read_full(&report, &mut bytes) {
            0 => Ok(pid),
            _ => {
                syscalls::wait_for(pid);
                let [step, a, b, c, d] = bytes;
                let errno = i32::from_ne_bytes([a, b, c, d]);
                let error = std::io::Error::from_raw_os_error(errno);
                Err(LaunchFailure::from_io_error(LaunchStep::from_byte(step), &error))
            }
        }
    }

    /// Runs in the child: everything that comes before the program.
    fn prepare_child(
        &self,
        supervisor: rustix::process::Pid,
        folder: &CString,
        groups: &CgroupEntryHandles,
        joins: &[OwnedFd],
    ) -> Result<(), (LaunchStep, i32)> {
        let at = |step: LaunchStep| move |errno: rustix::io::Errno| (step, errno.raw_os_error());
        rustix::process::setsid().map_err(at(LaunchStep::Stdio))?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(at(LaunchStep::Fork))?;
        // A supervisor that died before this signal was set up does not send it.
        if rustix::process::getppid() != Some(supervisor) {
            syscalls::exit(127);
        }
        for group in joins {
            rustix::io::write(group, b"0").map_err(at(LaunchStep::Cgroup))?;
        }
        groups
            .spare_supervisor()
            .map_err(|error| (LaunchStep::Cgroup, error.raw_os_error().unwrap_or(libc::EIO)))?;
        // A program with streams of its own passes the command's streams and terminal on.
        let given = || split_streams(self.stdio).map(|streams| streams.map(|fd| fd.as_raw_fd()));
        let own = self.prepared.program_streams();
        let streams = own.or_else(given).ok_or((LaunchStep::Stdio, libc::EBADF))?;
        if let ([terminal], None) = (self.stdio, self.prepared.program_streams()) {
            rustix::process::ioctl_tiocsctty(terminal).map_err(at(LaunchStep::Stdio))?;
        }
        for (number, from) in (0..).zip(streams) {
            syscalls::dup_onto(from, number).map_err(|errno| (LaunchStep::Stdio, errno))?;
        }
        rustix::process::chdir(folder.as_c_str()).map_err(at(LaunchStep::Folder))?;
        syscalls::unblock_signals();
        // Groups and folder come first: a process in another user namespace is refused both.
        if let Some(net) = self.net {
            net.enter().map_err(at(LaunchStep::Network))?;
        }
        #[expect(unsafe_code, reason = "the interface of confinement")]
        // SAFETY: this is the forked child, right before it executes its program.
        unsafe { self.prepared.restrict_self() }.map_err(at(LaunchStep::Confine))
    }
}

/// The three streams of a command. A terminal serves as all three.
pub(super) fn split_streams(stdio: &[OwnedFd]) -> Option<[&OwnedFd; 3]> {
    match stdio {
        [terminal] => Some([terminal; 3]),
        [stdin, stdout, stderr] => Some([stdin, stdout, stderr]),
        _ => None,
    }
}

impl LaunchFailure {
    pub(super) fn from_io_error(step: LaunchStep, error: &std::io::Error) -> Self {
        Self { step, errno: error.raw_os_error(), text: error.to_string(), gaps: Vec::new() }
    }
}

/// Reads until the buffer is full or the other side is closed.
fn read_full(from: &OwnedFd, bytes: &mut [u8]) -> usize {
    let mut len = 0;
    while let Some(rest) = bytes.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match rustix::io::read(from, rest) {
            Ok(0) => break,
            Ok(count) => len += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => break,
        }
    }
    len
}
