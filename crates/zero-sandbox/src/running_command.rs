//! A running command, as the caller that started it sees it.
//!
//! Each [`RunningCommand`] has its own channel to the supervisor of the command. The supervisor
//! reports the end of the command there exactly once. Closing the channel, by dropping the
//! `RunningCommand` or by exiting, ends the whole process tree. Commands therefore share no state,
//! and no thread has to listen for them.

mod command_report;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::spawner::message::{self, SpawnerReply, StopRequest};
pub use command_report::{
    CommandExit, ConfinementReport, ExitCause, KillReason, LimitEnforcer, LimitsReport,
    SandboxReuse,
};

/// A command that runs. Dropping it kills all of its processes.
#[derive(Debug)]
pub struct RunningCommand {
    /// The ID of the process at the top of its tree, as this process sees it: the command itself,
    /// or the process that holds its namespaces.
    pub pid: i32,
    /// Which properties of its profile are enforced.
    pub confinement: ConfinementReport,
    /// What enforces its resource limits.
    pub limits: LimitsReport,
    /// Whether its sandbox was prewarmed.
    pub sandbox_reuse: SandboxReuse,
    /// Write its input here; drop it to end the input. `None` with a terminal.
    pub stdin: Option<OwnedFd>,
    /// Read its output here. With a terminal, this is the terminal, which also takes the input.
    pub stdout: Option<OwnedFd>,
    /// Read its error output here. `None` with a terminal.
    pub stderr: Option<OwnedFd>,
    channel: Arc<OwnedFd>,
    exit: Mutex<Option<CommandExit>>,
}

/// Ends a command that is owned elsewhere. It does not keep the command alive: once its
/// [`RunningCommand`] is dropped, the command has been killed.
#[derive(Clone, Debug)]
pub struct KillHandle {
    channel: Weak<OwnedFd>,
}

impl KillHandle {
    /// Asks the command to end, as [`RunningCommand::terminate`] does.
    pub fn terminate(&self) {
        if let Some(channel) = self.channel.upgrade() {
            let _ = message::send(&*channel, &StopRequest::Terminate, &[]);
        }
    }

    /// Kills the command, as [`RunningCommand::kill`] does.
    pub fn kill(&self, reason: KillReason) {
        if let Some(channel) = self.channel.upgrade() {
            let _ = message::send(&*channel, &StopRequest::Kill { reason }, &[]);
        }
    }
}

impl RunningCommand {
    pub(crate) fn new(
        pid: i32,
        limits: LimitsReport,
        confinement: ConfinementReport,
        sandbox_reuse: SandboxReuse,
        channel: OwnedFd,
        ends: ParentStdio,
    ) -> Self {
        let ParentStdio { stdin, stdout, stderr } = ends;
        let exit = Mutex::new(None);
        let channel = Arc::new(channel);
        Self { pid, confinement, limits, sandbox_reuse, stdin, stdout, stderr, channel, exit }
    }

    /// A descriptor that is readable from the end of the command on.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Returns how the command ended, or `None` while it runs.
    pub fn try_wait(&self) -> Option<CommandExit> {
        let mut exit = self.exit.lock().unwrap_or_else(PoisonError::into_inner);
        if exit.is_none() {
            *exit = match message::try_receive::<SpawnerReply>(&*self.channel) {
                Ok(Some(SpawnerReply::Ended(how))) => Some(how),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Ok(_) | Err(_) => Some(CommandExit::new_lost()),
            };
        }
        exit.clone()
    }

    /// Waits until the command has ended, for at most `limit`. Returns `None` if it still runs.
    pub fn wait(&self, limit: Duration) -> Option<CommandExit> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            if let Some(exit) = self.try_wait() {
                return Some(exit);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut fds = [PollFd::new(&*self.channel, PollFlags::IN)];
            match rustix::event::poll(&mut fds, timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    /// Kills the command. All of its processes are gone soon after, and [`Self::try_wait`] returns
    /// why. Does nothing if the command has ended already.
    pub fn kill(&self, reason: KillReason) {
        // If the channel is closed on the other side, the command has ended.
        let _ = message::send(&*self.channel, &StopRequest::Kill { reason }, &[]);
    }

    /// Sends SIGTERM to its main process, which may take its time or ignore it.
    pub fn terminate(&self) {
        let _ = message::send(&*self.channel, &StopRequest::Terminate, &[]);
    }

    /// Returns a handle that can end the command from elsewhere, for example while this thread
    /// reads its output.
    #[must_use]
    pub fn kill_handle(&self) -> KillHandle {
        KillHandle { channel: Arc::downgrade(&self.channel) }
    }
}

/// Our ends of the standard streams of a command.
#[derive(Debug, Default)]
pub(crate) struct ParentStdio {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}
