//! Enforces limits of a process tree by polling, where the kernel cannot.
//!
//! [`LimitWatchdog`] adds up what the processes of a tree use. If they use too much memory or too
//! many processes, the tree is killed. If they use too much processor time, the tree is stopped
//! until its average is within the limit again, and then continued.

pub(crate) mod disk_watch;
mod unmapped_memory;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use self::unmapped_memory::UnmappedMemory;
use crate::kernel_file;
use crate::process_tree::{self, ProcessInfo};
use crate::profile::ProcessLimits;
use crate::running_command::{ExitCause, LimitEnforcer, LimitsReport};
use crate::spawner::syscalls;

/// Interval between two checks.
pub(crate) const TICK: Duration = Duration::from_millis(50);
/// Processor time that a tree may save up, so that short commands are not stopped at all.
const SAVED_MAX: Duration = Duration::from_millis(100);

/// Watches the process tree below one process.
#[derive(Debug)]
pub(crate) struct LimitWatchdog {
    root: i32,
    limits: ProcessLimits,
    by: LimitsReport,
    /// Whether the processes are stopped when they use too much processor time.
    watches_cpu: bool,
    budget: CpuBudget,
    /// Processes that the watchdog stopped, with their start times: only those are continued.
    stopped: BTreeMap<i32, u64>,
    /// The largest observed memory use of the tree, in bytes.
    pub(crate) peak_bytes: u64,
}

impl LimitWatchdog {
    /// Watches the limits that nothing else enforces. `used_before` is processor time that earlier
    /// commands used in the tree.
    pub(crate) fn new(
        root: i32,
        limits: &ProcessLimits,
        by: LimitsReport,
        used_before: Duration,
    ) -> Self {
        let watches_cpu = by.cpu == LimitEnforcer::Watchdog && limits.has_cpu_quota();
        Self {
            root,
            limits: *limits,
            by,
            watches_cpu,
            budget: CpuBudget {
                used: used_before,
                ..CpuBudget::new(limits.cpu_percent, Instant::now())
            },
            stopped: BTreeMap::new(),
            peak_bytes: 0,
        }
    }

    /// Whether there is a limit to watch.
    pub(crate) fn is_needed(&self) -> bool {
        let LimitsReport { memory, processes, .. } = self.by;
        self.watches_cpu || [memory, processes].contains(&LimitEnforcer::Watchdog)
    }

    /// Checks the tree, and returns the limit that it exceeds.
    pub(crate) fn inspect(&mut self) -> Option<ExitCause> {
        let tree = process_tree::descendants(self.root, &BTreeSet::new());
        let count = tree.iter().filter(|process| !process.is_zombie()).count() as u64;
        if self.by.processes == LimitEnforcer::Watchdog && count > self.limits.processes {
            return Some(ExitCause::ProcessLimit { limit: self.limits.processes, used: count });
        }
        if self.by.memory == LimitEnforcer::Watchdog {
            let limit = self.limits.memory_bytes;
            let used = measure_memory(&tree, limit);
            self.peak_bytes = self.peak_bytes.max(used);
            if used > limit {
                return Some(ExitCause::MemoryLimit { limit, used });
            }
        }
        if self.watches_cpu {
            self.throttle(&tree);
        }
        None
    }

    fn throttle(&mut self, tree: &[ProcessInfo]) {
        match self.budget.update(Instant::now(), cpu_time(tree)) {
            CpuBudgetState::Over => {
                // A process that was stopped by another program must not be continued.
                let to_stop: Vec<&ProcessInfo> = tree
                    .iter()
                    .filter(|process| !process.is_stopped() && !process.is_zombie())
                    .collect();
                let pids: BTreeSet<i32> = to_stop.iter().map(|process| process.pid).collect();
                process_tree::send_signal(self.root, tree, Signal::STOP, |process| {
                    pids.contains(&process.pid)
                });
                self.stopped.extend(to_stop.iter().map(|process| (process.pid, process.started)));
            }
            CpuBudgetState::Within if self.stopped.is_empty() => {}
            CpuBudgetState::Within => {
                let stopped = std::mem::take(&mut self.stopped);
                process_tree::send_signal(self.root, tree, Signal::CONT, |process| {
                    stopped.get(&process.pid) == Some(&process.started)
                });
            }
        }
    }
}

/// Processor time of a tree below this process, including processes that have ended.
pub(crate) fn cpu_time(tree: &[ProcessInfo]) -> Duration {
    let ticks: u64 = tree.iter().map(|process| process.cpu_ticks).sum();
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let running = Duration::from_millis(ticks.saturating_mul(1000) / per_second);
    running + syscalls::children_usage().cpu_time
}

/// The memory that a tree uses, in bytes.
///
/// Processes share pages, and each counts them. If the sum exceeds the limit, it is computed again
/// with each page counted once, which takes longer. Searching for files in memory takes longer too,
/// and is skipped while all such files of the machine together would not exceed the limit.
fn measure_memory(tree: &[ProcessInfo], limit: u64) -> u64 {
    let page = rustix::param::page_size() as u64;
    let resident = |process: &ProcessInfo| process.resident_pages.saturating_mul(page);
    let sum: u64 = tree.iter().map(resident).sum();
    if read_shmem_bytes().is_some_and(|more| sum.saturating_add(more) <= limit) {
        return sum;
    }
    let unmapped = UnmappedMemory::measure(tree);
    let more = unmapped.bytes();
    if sum.saturating_add(more) <= limit {
        return sum.saturating_add(more);
    }
    let share = |process: &ProcessInfo| {
        let path = format!("/proc/{}/smaps_rollup", process.pid);
        let text = kernel_file::read(Path::new(&path)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        // A process may hide what it shares; then all of its memory counts.
        kilobytes.map_or(resident(process), |kilobytes| kilobytes.saturating_mul(1024))
    };
    let shares = tree.iter().map(share).sum::<u64>().saturating_add(more);
    if more == 0 || shares <= limit {
        return shares;
    }
    shares.saturating_sub(tree.iter().map(|process| unmapped.mapped_bytes(process.pid)).sum())
}

/// The size of all files in memory of the whole machine, in bytes.
fn read_shmem_bytes() -> Option<u64> {
    let text = kernel_file::read(Path::new("/proc/meminfo")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Shmem:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.saturating_mul(1024))
}

/// A budget of processor time that grows steadily and is spent unevenly.
#[derive(Debug)]
struct CpuBudget {
    percent: u32,
    /// When it was last updated.
    at: Instant,
    /// The processor time used until then.
    used: Duration,
    /// What may be spent, in seconds; if negative, the debt.
    saved: f64,
}

#[derive(Debug, PartialEq, Eq)]
enum CpuBudgetState {
    Within,
    Over,
}

impl CpuBudget {
    fn new(percent: u32, now: Instant) -> Self {
        Self {
            percent: percent.max(1),
            at: now,
            used: Duration::ZERO,
            saved: SAVED_MAX.as_secs_f64(),
        }
    }

    fn update(&mut self, now: Instant, used: Duration) -> CpuBudgetState {
        let share = f64::from(self.percent) / 100.0;
        let income = now.saturating_duration_since(self.at).as_secs_f64() * share;
        let spent = used.saturating_sub(self.used).as_secs_f64();
        // The income counts before the limit of savings: it could be spent meanwhile.
        self.saved = (self.saved + income - spent).min(SAVED_MAX.as_secs_f64());
        (self.at, self.used) = (now, self.used.max(used));
        if self.saved < 0.0 { CpuBudgetState::Over } else { CpuBudgetState::Within }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Simulates a load that uses `cores` whenever it may, and checks which share of one core it
    /// got.
    #[track_caller]
    fn check(percent: u32, cores: u32, expected: f64) {
        let start = Instant::now();
        let mut budget = CpuBudget::new(percent, start);
        let (mut used, mut state) = (Duration::ZERO, CpuBudgetState::Within);
        for tick in 1..=1000 {
            if state == CpuBudgetState::Within {
                used += TICK * cores;
            }
            state = budget.update(start + TICK * tick, used);
        }
        let got = used.as_secs_f64() / (TICK * 1000).as_secs_f64();
        assert!((got - expected).abs() < 0.02, "{percent} % with {cores} cores: {got}");
    }

    #[test]
    fn cpu_budget_grants_configured_average() {
        check(50, 1, 0.5);
        check(10, 1, 0.1);
        check(50, 8, 0.5);
        check(150, 8, 1.5);
        check(200, 1, 1.0);
        check(0, 1, 0.01);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process to watch")]
    fn memory_is_allowed_up_to_the_limit() {
        const MB: u64 = 1 << 20;
        let file = rustix::fs::memfd_create("held", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        for _ in 0..15 {
            assert_eq!(rustix::io::write(&file, &vec![1; 1 << 20]).unwrap(), 1 << 20);
        }
        let mut holder = Command::new("sleep").arg("600").stdin(file).spawn().unwrap();
        let nothing = LimitEnforcer::Nothing;
        let memory = LimitEnforcer::Watchdog;
        let by = LimitsReport { memory, cpu: nothing, processes: nothing, disk_rate: None };
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let inspect = |memory_bytes: u64| {
            let limits = ProcessLimits { memory_bytes, ..ProcessLimits::default() };
            LimitWatchdog::new(own, &limits, by, Duration::ZERO).inspect()
        };
        let exceeded = inspect(12 * MB);
        let within = inspect(40 * MB);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(matches!(exceeded, Some(ExitCause::MemoryLimit { .. })), "{exceeded:?}");
        assert_eq!(within, None);
    }

    #[test]
    fn shared_pages_count_once_near_limit() {
        let own = ProcessInfo::read(rustix::process::getpid().as_raw_nonzero().get()).unwrap();
        let resident = own.resident_pages * rustix::param::page_size() as u64;
        assert_eq!(measure_memory(std::slice::from_ref(&own), u64::MAX), resident);
        let share = measure_memory(std::slice::from_ref(&own), 0);
        assert!(share > 0 && share <= resident * 2, "{share} of {resident}");
        let gone = ProcessInfo { pid: i32::MAX, ..own };
        assert_eq!(measure_memory(&[gone], 0), resident);
    }
}
