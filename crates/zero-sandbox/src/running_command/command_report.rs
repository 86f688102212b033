//! What is reported about a command: how it is confined, and how it ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::confinement::ConfinementGap;
use crate::layer_probe::LayerReport;
use crate::profile::SandboxProperty;

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
    /// Bytes that its ended processes read from disks; bytes from the page cache are not counted.
    #[serde(default)]
    pub read_bytes: u64,
    /// Bytes that its ended processes wrote to files on disks.
    #[serde(default)]
    pub written_bytes: u64,
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
    /// It filled a disk by more than allowed.
    DiskLimit {
        /// The bytes it may add.
        limit: u64,
        /// By how much the free space of the disk fell, in bytes.
        used: u64,
    },
    /// A disk that it can change is nearly full.
    DiskFull {
        /// The bytes that stay free.
        reserve: u64,
        /// The bytes that are free.
        free: u64,
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
    New,
    /// Before, and it still matched the command.
    Prewarmed,
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
    /// Nothing on this machine.
    Nothing,
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
    /// The limit of the use of disks per second; `None` if there is none.
    pub disk_rate: Option<LimitEnforcer>,
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
        let disk_rate = self.disk_rate.map(|by| ("disk rate limit", by, "io"));
        let rows = rows.into_iter().chain(disk_rate);
        rows.map(|(name, by, controller)| by.report(name, controller)).collect()
    }

    /// Whether the use of disks should be limited per second and is not.
    #[must_use]
    pub fn lacks_disk_rate(&self) -> bool {
        self.disk_rate == Some(LimitEnforcer::Nothing)
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
            Self::Nothing => LayerReport {
                name,
                holds: false,
                why: format!(
                    "not enforced: no control group with `{controller}` can be created here, or it \
                     has no disk"
                ),
                fix: Some(format!(
                    "delegate the controller `{controller}`, as `systemd-run --user --scope -p \
                     Delegate=yes` does, or set `command-disk-rate` to `off`"
                )),
            },
        }
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
            read_bytes: 0,
            written_bytes: 0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_reports_enforcer_and_fix() {
        let by = LimitsReport {
            memory: LimitEnforcer::CgroupV2,
            cpu: LimitEnforcer::CgroupV1,
            processes: LimitEnforcer::Watchdog,
            disk_rate: None,
        };
        let without = LimitsReport { disk_rate: Some(LimitEnforcer::Nothing), ..by };
        let rate = without.report().pop().unwrap();
        assert!(!rate.holds && rate.why.starts_with("not enforced"), "{rate:?}");
        assert!(without.lacks_disk_rate() && !by.lacks_disk_rate());
        let rows: Vec<_> = by.report().into_iter().map(|row| (row.why, row.fix)).collect();
        let [(memory, None), (cpu, None), (processes, Some(fix))] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        assert!(memory.contains("version 2") && cpu.contains("version 1"), "{rows:?}");
        assert!(processes.contains("watchdog") && fix.contains("`pids`"), "{rows:?}");
    }
}
