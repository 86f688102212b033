//! A command that runs, as the one who started it sees it.
//!
//! Each command has a channel of its own to the process that keeps it: its end is told there
//! exactly once, and closing it, by dropping the [`RunningCommand`] or by dying, ends the whole tree. So
//! there is nothing to share between commands, and no thread that listens for them.

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

/// A command that runs. Dropping it kills every process that came of it.
#[derive(Debug)]
pub struct RunningCommand {
    /// The number of the process at the top of its tree, as this process sees it: the command's
    /// own, or the one that holds its namespaces.
    pub pid: i32,
    /// What it is kept from.
    pub confinement: ConfinementReport,
    /// What enforces its limits.
    pub limits: LimitsReport,
    /// When its walls were put up.
    pub walls: SandboxReuse,
    /// Where its input is written to; dropping it ends the input. None with a terminal.
    pub stdin: Option<OwnedFd>,
    /// Where its output is read from. With a terminal, this is the terminal: input goes there too.
    pub stdout: Option<OwnedFd>,
    /// Where its error output is read from. None with a terminal.
    pub stderr: Option<OwnedFd>,
    channel: Arc<OwnedFd>,
    ended: Mutex<Option<CommandExit>>,
}

/// Asks for the end of a command that somebody else watches. It keeps nothing alive: a command
/// whose [`RunningCommand`] is gone has been ended by that.
#[derive(Clone, Debug)]
pub struct KillHandle {
    channel: Weak<OwnedFd>,
}

impl KillHandle {
    /// Asks the command itself to end, as [`RunningCommand::terminate`] does.
    pub fn terminate(&self) {
        if let Some(channel) = self.channel.upgrade() {
            let _ = message::send(&*channel, &StopRequest::Terminate, &[]);
        }
    }

    /// Asks for its end, as [`RunningCommand::kill`] does.
    pub fn kill(&self, reason: KillReason) {
        if let Some(channel) = self.channel.upgrade() {
            let _ = message::send(&*channel, &StopRequest::Kill { reason }, &[]);
        }
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExit {
    /// What the main process returned, if it returned.
    pub exit_code: Option<i32>,
    /// The signal that ended the main process, if one did.
    pub signal: Option<i32>,
    /// Why it ended.
    pub why: ExitCause,
    /// Processor time of the whole tree.
    pub cpu_time: Duration,
    /// The most memory it was seen to hold, in bytes: of the tree where the tree is watched, of its
    /// largest process otherwise.
    pub max_memory_bytes: u64,
    /// Processes that were still there after the main process had ended, and were killed.
    pub leftover_processes: u32,
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ExitCause {
    /// Its main process ended, by itself or by a signal that was not ours.
    Finished,
    /// It took longer than it was given.
    TimedOut,
    /// Somebody asked for its end.
    Killed,
    /// It wrote more than is taken.
    OutputLimit,
    /// Its processes held more memory than they may.
    MemoryLimit {
        /// How much they may hold, in bytes.
        limit: u64,
        /// How much they held, in bytes.
        used: u64,
    },
    /// It wanted more processes than it may have.
    ProcessLimit {
        /// How many it may have.
        limit: u64,
        /// How many it had, or wanted to have.
        used: u64,
    },
    /// The process that kept it was killed: how the command ended is not known, but it did.
    Lost,
}

/// Why somebody asks for the end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KillReason {
    /// It is not wanted any more.
    Asked,
    /// It wrote more than is taken.
    OutputLimit,
}

/// When the walls of a command were put up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SandboxReuse {
    /// When it was ordered.
    PutUp,
    /// Before, and they were still those that it would have got then.
    Ready,
}

/// Which promises of its profile hold for a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfinementReport {
    /// Those the kernel keeps.
    pub holds: Vec<SandboxProperty>,
    /// Those it does not, by leave of the profile: why, and what would help.
    pub missing: Vec<ConfinementGap>,
}

/// What enforces a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitEnforcer {
    /// A control group of version 2: the kernel, for the whole tree.
    CgroupV2,
    /// A control group of version 1: the kernel, for the whole tree.
    CgroupV1,
    /// A look at the tree many times a second.
    Watchdog,
}

/// What enforces each limit of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsReport {
    /// How much memory it may hold.
    pub memory: LimitEnforcer,
    /// How much processor time it may take.
    pub cpu: LimitEnforcer,
    /// How many processes it may have.
    pub processes: LimitEnforcer,
}

impl LimitsReport {
    /// Each limit, for people.
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
            why: format!("the kernel keeps it, by a control group of {version}"),
            fix: None,
        };
        match self {
            Self::CgroupV2 => by_kernel("version 2"),
            Self::CgroupV1 => by_kernel("version 1"),
            // It is kept, though a tree can be over it for a moment.
            Self::Watchdog => LayerReport {
                name,
                holds: true,
                why: format!(
                    "a watchdog keeps it, looking twenty times a second: no control group with \
                     `{controller}` can be made here"
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
        walls: SandboxReuse,
        channel: OwnedFd,
        ends: ParentStdio,
    ) -> Self {
        let ParentStdio { stdin, stdout, stderr } = ends;
        let ended = Mutex::new(None);
        let channel = Arc::new(channel);
        Self { pid, confinement, limits, walls, stdin, stdout, stderr, channel, ended }
    }

    /// Readable as soon as the command has ended, and from then on.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// How it ended, if it did.
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

    /// Waits until it has ended, though not longer than `limit`.
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

    /// Asks for its end. Every process of it is gone soon after, and [`Self::try_wait`] says why.
    /// Nothing happens when it has ended already.
    pub fn kill(&self, reason: KillReason) {
        // A channel that is closed on the other side belongs to a command that has ended.
        let _ = message::send(&*self.channel, &StopRequest::Kill { reason }, &[]);
    }

    /// Asks its main process to end, by SIGTERM. It may take its time, or not listen.
    pub fn terminate(&self) {
        let _ = message::send(&*self.channel, &StopRequest::Terminate, &[]);
    }

    /// A way to ask for its end from elsewhere, while somebody reads its output.
    #[must_use]
    pub fn kill_handle(&self) -> KillHandle {
        KillHandle { channel: Arc::downgrade(&self.channel) }
    }
}

impl CommandExit {
    /// That nobody knows how.
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

/// Our ends of what a command reads and writes.
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
        let said: Vec<_> = by.report().into_iter().map(|row| (row.why, row.fix)).collect();
        let [(memory, None), (cpu, None), (processes, Some(fix))] = said.as_slice() else {
            panic!("{said:?}")
        };
        assert!(memory.contains("version 2") && cpu.contains("version 1"), "{said:?}");
        assert!(processes.contains("watchdog") && fix.contains("`pids`"), "{said:?}");
    }
}
