//! A running command, as the caller that started it sees it.
//!
//! Each [`RunningCommand`] has its own channel to the supervisor of the command. The supervisor
//! reports the end of the command there exactly once. Closing the channel, by dropping the
//! `RunningCommand` or by exiting, ends the whole process tree. Commands therefore share no state,
//! and no thread has to listen for them.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};

use crate::confinement::ConfinementGap;
use crate::layer_probe::LayerReport;
use crate::profile::SandboxProperty;
use crate::spawner::message::{self, SpawnerReply, StopRequest};

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
    ended: Mutex<Option<CommandExit>>,
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

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExit {
    /// The exit code of the main process, if it exited.
    pub exit_code: Option<i32>,
    /// The signal that killed the main process, if one did.
    pub signal: Option<i32>,
    /// What ended the command.
    pub why: ExitCause,
    /// Processor time of the whole process tree.
    pub cpu_time: Duration,
    /// The largest memory use that was observed, in bytes: of the process tree if the watchdog
    /// runs, of its largest process otherwise.
    pub max_memory_bytes: u64,
    /// Processes that were still running after the main process had ended, and were killed.
    pub leftover_processes: u32,
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExitCause {
    /// Its main process ended, by itself or by a signal that zero did not send.
    Finished,
    /// It ran longer than its timeout.
    TimedOut,
    /// It was killed on request.
    Killed,
    /// It wrote more output than allowed.
    OutputLimit,
    /// Its processes used more memory than allowed.
    MemoryLimit {
        /// The limit in bytes.
        limit: u64,
        /// The memory used, in bytes.
        used: u64,
    },
    /// It started more processes than allowed.
    ProcessLimit {
        /// The allowed number of processes.
        limit: u64,
        /// The number it had, or tried to have.
        used: u64,
    },
    /// Its supervisor was killed. The command has ended, but how is not known.
    Lost,
}

/// Why a command is to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillReason {
    /// The caller no longer wants it.
    Asked,
    /// It wrote more output than allowed.
    OutputLimit,
}

/// When the sandbox of a command was set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxReuse {
    /// When the command was started.
    PutUp,
    /// Before, and it still matched the command.
    Ready,
}

/// Which properties of its profile are enforced for a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfinementReport {
    /// Those that the kernel enforces.
    pub holds: Vec<SandboxProperty>,
    /// Those that are not enforced, which the profile accepts: why, and what would help.
    pub missing: Vec<ConfinementGap>,
}

/// What enforces a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitEnforcer {
    /// A control group of version 2: the kernel limits the whole process tree.
    CgroupV2,
    /// A control group of version 1: the kernel limits the whole process tree.
    CgroupV1,
    /// The watchdog, which checks the process tree many times a second.
    Watchdog,
}

/// What enforces each limit of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsReport {
    /// The limit of memory.
    pub memory: LimitEnforcer,
    /// The limit of processor time.
    pub cpu: LimitEnforcer,
    /// The limit of the number of processes.
    pub processes: LimitEnforcer,
}

impl LimitsReport {
    /// One row per limit, for `zero doctor`.
    #[must_use]
    pub fn report(&self) -> Vec<LayerReport> {
        let rows = [
            ("memory limit", self.memory, "memory"),
            ("processor limit", self.cpu, "cpu"),
            ("process limit", self.processes, "pids"),
        ];
        rows.into_iter().map(|(name, by, controller)| by.report(name, controller)).collect()
    }
}

impl LimitEnforcer {
    fn report(self, name: &'static str, controller: &str) -> LayerReport {
        let by_kernel = |version: &str| LayerReport {
            name,
            holds: true,
            why: format!("enforced by the kernel with a control group of {version}"),
            fix: None,
        };
        match self {
            Self::CgroupV2 => by_kernel("version 2"),
            Self::CgroupV1 => by_kernel("version 1"),
            // It is enforced, though a process tree can exceed it for a moment.
            Self::Watchdog => LayerReport {
                name,
                holds: true,
                why: format!(
                    "enforced by a watchdog that checks twenty times a second: no control group with \
                     `{controller}` can be created here"
                ),
                fix: Some(format!(
                    "delegate the controller `{controller}`, as `systemd-run --user --scope -p \
                     Delegate=yes` does"
                )),
            },
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
        let ended = Mutex::new(None);
        let channel = Arc::new(channel);
        Self { pid, confinement, limits, sandbox_reuse, stdin, stdout, stderr, channel, ended }
    }

    /// A descriptor that is readable from the end of the command on.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Returns how the command ended, or `None` while it runs.
    pub fn try_wait(&self) -> Option<CommandExit> {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.is_none() {
            *ended = match message::try_receive::<SpawnerReply>(&*self.channel) {
                Ok(Some(SpawnerReply::Ended(how))) => Some(how),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                Ok(_) | Err(_) => Some(CommandExit::new_lost()),
            };
        }
        ended.clone()
    }

    /// Waits until the command has ended, for at most `limit`. Returns `None` if it still runs.
    pub fn wait(&self, limit: Duration) -> Option<CommandExit> {
        let deadline = Instant::now().checked_add(limit);
        loop {
            if let Some(ended) = self.try_wait() {
                return Some(ended);
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

impl CommandExit {
    /// The exit of a command whose supervisor was killed.
    #[must_use]
    pub fn new_lost() -> Self {
        Self {
            exit_code: None,
            signal: None,
            why: ExitCause::Lost,
            cpu_time: Duration::ZERO,
            max_memory_bytes: 0,
            leftover_processes: 0,
        }
    }
}

impl From<KillReason> for ExitCause {
    fn from(reason: KillReason) -> Self {
        match reason {
            KillReason::Asked => Self::Killed,
            KillReason::OutputLimit => Self::OutputLimit,
        }
    }
}

/// Our ends of the standard streams of a command.
#[derive(Debug, Default)]
pub(crate) struct ParentStdio {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_reports_enforcer_and_fix() {
        let by = LimitsReport {
            memory: LimitEnforcer::CgroupV2,
            cpu: LimitEnforcer::CgroupV1,
            processes: LimitEnforcer::Watchdog,
        };
        let rows: Vec<_> = by.report().into_iter().map(|row| (row.why, row.fix)).collect();
        let [(memory, None), (cpu, None), (processes, Some(fix))] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        assert!(memory.contains("version 2") && cpu.contains("version 1"), "{rows:?}");
        assert!(processes.contains("watchdog") && fix.contains("`pids`"), "{rows:?}");
    }
}
