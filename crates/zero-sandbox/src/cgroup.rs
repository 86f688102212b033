//! Limits that the kernel keeps for a whole tree: one control group per command.
//!
//! A group is made below the one this process is in, never beside it where that would leave a limit
//! somebody set for us. Where a group cannot be made or a limit not set, that limit is left to the
//! watchdog. The name of a group says which process keeps it, so that what a crash left behind can
//! be told from what is in use.
//!
//! With version 2 a process begins in its group, which costs nothing. With version 1 it has to join,
//! and the kernel then waits for every processor, some ten milliseconds. So a keeper goes into the
//! groups ahead of its command, while nobody waits, and what it starts begins there too. It leaves
//! when the command has lived for a while; where it has not, the warden removes the groups.

mod cgroup_parents;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::kernel_file;
use crate::process_tree::ProcessInfo;
use crate::profile::ProcessLimits;
use crate::running_command::{ExitCause, LimitEnforcer, LimitsReport};
pub(crate) use cgroup_parents::{CgroupParents, CgroupVersion};

/// How often a group is tried to be removed: its last process may just be going.
const REMOVE_TRIES_MAX: u32 = 100;
const REMOVE_PAUSE: Duration = Duration::from_millis(2);
/// The span in which processor time is shared out, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;

/// Memory that a command may leave to the next one in the same groups: what the walls themselves hold,
/// and what the kernel keeps for them.
const REUSE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The kernel counts threads like processes, and a build may have many of them. It gets a bound
/// that stops a bomb, and processes alone are counted every now and then.
const TASKS_PER_PROCESS: u64 = 8;
/// There are never more tasks on a machine.
const TASKS_MAX: u64 = 4 * 1024 * 1024;

/// The control groups of one command. Dropping them removes them, once their processes are gone.
#[derive(Debug, Default)]
pub(crate) struct CommandCgroups {
    memory: Option<ControlGroup>,
    cpu: Option<ControlGroup>,
    processes: Option<ControlGroup>,
    limits: Option<ProcessLimits>,
    /// What was made, each folder once.
    made: Vec<PathBuf>,
    /// Those of them in which this process is itself.
    inside: Vec<PathBuf>,
    /// Those in which what it starts begins.
    joined: Vec<PathBuf>,
    has_left: bool,
    /// What was counted before the command that runs now.
    before: CgroupCounters,
}

/// What the kernel counts for as long as a group is there, for however many commands.
#[derive(Clone, Copy, Debug, Default)]
struct CgroupCounters {
    /// Processes that were killed for want of memory.
    killed: u64,
    /// Processes that were not let come into being.
    refused: u64,
    /// The most memory that was held.
    peak: u64,
}

/// How a process gets into its groups.
#[derive(Debug, Default)]
pub(crate) struct CgroupEntryHandles {
    /// The only group, where a process can begin in it.
    pub(crate) folder: Option<OwnedFd>,
    /// Files of all groups; who writes `0` to one joins.
    pub(crate) files: Vec<OwnedFd>,
}

#[derive(Clone, Debug)]
struct ControlGroup {
    version: CgroupVersion,
    folder: PathBuf,
}

impl CommandCgroups {
    /// Makes groups for a command this process keeps. What cannot be had is not there.
    pub(crate) fn create(places: &CgroupParents, limits: &ProcessLimits) -> Self {
        let mut groups = Self::default();
        groups.set_limits(places, limits);
        groups
    }

    /// Goes into groups of version 1, without limits yet, ahead of a command that this process
    /// will start.
    pub(crate) fn join_ahead(places: &CgroupParents) -> Self {
        let mut groups = Self::default();
        let Some(name) = CgroupName::for_self().map(|name| name.to_string()) else { return groups };
        for folder in places.v1_parents().map(|parent| parent.join(&name)) {
            if !groups.create_folder(&folder) {
                continue;
            }
            if kernel_file::write(&folder.join("cgroup.procs"), "0").is_ok() {
                groups.inside.push(folder.clone());
                groups.joined.push(folder);
            }
        }
        groups
    }

    /// Sets limits, on groups made ahead or now.
    pub(crate) fn set_limits(&mut self, places: &CgroupParents, limits: &ProcessLimits) {
        self.limits = Some(*limits);
        let Some(name) = CgroupName::for_self().map(|name| name.to_string()) else { return };
        self.memory = self
            .create_group(places.memory_parent(limits), &name, |group| group.limit_memory(limits));
        self.cpu =
            self.create_group(places.cpu_parent(limits), &name, |group| group.limit_cpu(limits));
        self.processes = self.create_group(places.processes_parent(limits), &name, |group| {
            group.limit_processes(limits)
        });
        self.before = self.read_counters();
    }

    /// Whether this process is in groups itself, and could leave.
    pub(crate) fn is_inside(&self) -> bool {
        !self.inside.is_empty()
    }

    /// Leaves the groups to the command, so that its limits are not this process's. What it starts
    /// from now on has to join.
    pub(crate) fn leave(&mut self) {
        self.inside.retain(|folder| {
            let above = folder.parent().map(|parent| parent.join("cgroup.procs"));
            above.is_none_or(|above| kernel_file::write(&above, "0").is_err())
        });
        self.joined.retain(|folder| self.inside.contains(folder));
        self.has_left = true;
    }

    /// Whether it left them.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left
    }

    /// After a command that left no process: whether it left so little memory that another one may
    /// have the same groups, and has all that it may have.
    ///
    /// What the kernel gives back when somebody needs it does not count, but for a bound: to give it
    /// back takes time.
    pub(crate) fn is_reusable(&self) -> bool {
        let (Some(group), Some(limits)) = (&self.memory, &self.limits) else { return true };
        let held = group.read_memory();
        held.is_some_and(|held| {
            held.all <= limits.memory_bytes / 2 && held.not_given_back <= REUSE_BYTES_MAX
        })
    }

    /// Begins to count for another command under the same limits.
    pub(crate) fn reset_counters(&mut self) {
        self.before = self.read_counters();
        if let (Some(group), Some(limits)) = (&self.cpu, &self.limits) {
            // A share that is set anew is whole again. Should it not be, the one that is set holds.
            let set = group.limit_cpu(limits);
            drop(set);
        }
    }

    /// What cannot be read was not counted.
    fn read_counters(&self) -> CgroupCounters {
        let (killed, peak) = match &self.memory {
            Some(group) => (
                group.oom_kill_count().unwrap_or_default(),
                group.peak_memory().unwrap_or_default(),
            ),
            None => (0, 0),
        };
        let refused =
            self.processes.as_ref().and_then(ControlGroup::refused_fork_count).unwrap_or_default();
        CgroupCounters { killed, refused, peak }
    }

    fn create_folder(&mut self, folder: &Path) -> bool {
        if self.made.iter().any(|made| made == folder) {
            return true;
        }
        match rustix::fs::mkdir(folder, rustix::fs::Mode::from_raw_mode(0o755)) {
            // Nobody but this process makes that name, so it is one of ours from before.
            Ok(()) | Err(rustix::io::Errno::EXIST) => {
                self.made.push(folder.to_owned());
                true
            }
            Err(_) => false,
        }
    }

    fn create_group(
        &mut self,
        place: Option<(CgroupVersion, &Path)>,
        name: &str,
        limit: impl FnOnce(&ControlGroup) -> io::Result<()>,
    ) -> Option<ControlGroup> {
        let (version, parent) = place?;
        let group = ControlGroup { version, folder: parent.join(name) };
        (self.create_folder(&group.folder) && limit(&group).is_ok()).then_some(group)
    }

    /// What enforces which limit.
    pub(crate) fn report(&self) -> LimitsReport {
        let by = |group: &Option<ControlGroup>| match group.as_ref().map(|group| group.version) {
            Some(CgroupVersion::V2) => LimitEnforcer::CgroupV2,
            Some(CgroupVersion::V1) => LimitEnforcer::CgroupV1,
            None => LimitEnforcer::Watchdog,
        };
        LimitsReport {
            memory: by(&self.memory),
            cpu: by(&self.cpu),
            processes: by(&self.processes),
        }
    }

    /// How a process gets into the groups.
    pub(crate) fn open_entries(&self) -> io::Result<CgroupEntryHandles> {
        let in_use = |folder: &&PathBuf| {
            !self.joined.contains(folder)
                && [&self.memory, &self.cpu, &self.processes]
                    .into_iter()
                    .flatten()
                    .any(|group| group.folder == **folder)
        };
        let entry = |folder: &PathBuf| kernel_file::open_to_write(&folder.join("cgroup.procs"));
        let used: Vec<&PathBuf> = self.made.iter().filter(in_use).collect();
        let files = used.iter().map(|folder| entry(folder)).collect::<io::Result<_>>()?;
        let is_v2 = |group: &ControlGroup| group.version == CgroupVersion::V2;
        // A process begins in one group only, so there must not be others to join.
        let folder = match used.as_slice() {
            [folder]
                if [&self.memory, &self.cpu, &self.processes].into_iter().flatten().all(is_v2) =>
            {
                Some(kernel_file::open_folder(folder)?)
            }
            _ => None,
        };
        Ok(CgroupEntryHandles { folder, files })
    }

    /// The limit the command went over, if it did.
    pub(crate) fn find_exceeded_limit(&self) -> Option<ExitCause> {
        let limits = self.limits.as_ref()?;
        if let Some(group) = &self.memory
            && group.oom_kill_count() > Some(self.before.killed)
        {
            let limit = limits.memory_bytes;
            // One that is no higher than before may be another command's.
            let peak =
                group.peak_memory().filter(|peak| *peak > self.before.peak).unwrap_or_default();
            return Some(ExitCause::MemoryLimit { limit, used: peak.max(limit) });
        }
        let group = self.processes.as_ref()?;
        // What cannot be read now says nothing: it was within the limit when it last could be, and
        // what the kernel refused counts all the same.
        let members = kernel_file::read(&group.folder.join("cgroup.procs")).unwrap_or_default();
        let refused = group.refused_fork_count() > Some(self.before.refused);
        let own = u64::from(self.inside.contains(&group.folder));
        let count = (members.lines().count() as u64).saturating_sub(own);
        let limit = limits.processes;
        let used = if refused { count.max(limit.saturating_add(1)) } else { count };
        (used > limit).then_some(ExitCause::ProcessLimit { limit, used })
    }

    /// Whether anything has to be asked now and then.
    pub(crate) fn has_any(&self) -> bool {
        self.memory.is_some() || self.processes.is_some()
    }

    /// Lets the tree make no new process, and kills what is there where the kernel can do that in
    /// one step. A tree that cannot grow can be killed one by one.
    pub(crate) fn kill(&self) {
        if let Some(group) = &self.processes {
            let _ = kernel_file::write(&group.folder.join("pids.max"), "0");
        }
        for group in [&self.memory, &self.cpu, &self.processes].into_iter().flatten() {
            if group.version == CgroupVersion::V2 {
                let _ = kernel_file::write(&group.folder.join("cgroup.kill"), "1");
            }
        }
    }
}

impl Drop for CommandCgroups {
    fn drop(&mut self) {
        for folder in self.made.iter().filter(|folder| !self.inside.contains(folder)) {
            remove(folder);
        }
    }
}

/// The name of the groups that a process keeps, to remove them when it is gone.
pub(crate) fn name_for_process(keeper: i32) -> Option<String> {
    CgroupName::for_process(keeper).map(|name| name.to_string())
}

/// Removes the groups that a process went into and did not leave before it ended.
pub(crate) fn remove_named(places: &CgroupParents, name: &str) {
    for parent in places.v1_parents() {
        remove(&parent.join(name));
    }
}

/// Memory of a group.
struct CgroupMemory {
    all: u64,
    /// That of it which somebody has to free.
    not_given_back: u64,
}

impl ControlGroup {
    /// How many of its processes were killed for want of memory.
    fn oom_kill_count(&self) -> Option<u64> {
        let events = match self.version {
            CgroupVersion::V2 => "memory.events",
            CgroupVersion::V1 => "memory.oom_control",
        };
        kernel_file::read_counter(&self.folder.join(events), "oom_kill")
    }

    /// The most memory that it held.
    fn peak_memory(&self) -> Option<u64> {
        let peak = match self.version {
            CgroupVersion::V2 => "memory.peak",
            CgroupVersion::V1 => "memory.max_usage_in_bytes",
        };
        kernel_file::read_number(&self.folder.join(peak))
    }

    /// How many of its processes were not let come into being.
    fn refused_fork_count(&self) -> Option<u64> {
        kernel_file::read_counter(&self.folder.join("pids.events"), "max")
    }

    fn read_memory(&self) -> Option<CgroupMemory> {
        let (usage, in_files) = match self.version {
            CgroupVersion::V2 => ("memory.current", "file"),
            CgroupVersion::V1 => ("memory.usage_in_bytes", "cache"),
        };
        let all = kernel_file::read_number(&self.folder.join(usage))?;
        if all <= REUSE_BYTES_MAX {
            return Some(CgroupMemory { all, not_given_back: all });
        }
        // The kernel takes long to add this up.
        let stat = self.folder.join("memory.stat");
        let text = kernel_file::read(&stat).ok()?;
        let value = |word: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
            found.and_then(|number| number.trim().parse::<u64>().ok())
        };
        // Files in memory are counted as files, and stay.
        let given_back = value(in_files)?.saturating_sub(value("shmem")?);
        Some(CgroupMemory { all, not_given_back: all.saturating_sub(given_back) })
    }

    fn write_value(&self, file: &str, value: &str) -> io::Result<()> {
        kernel_file::write(&self.folder.join(file), value)
    }

    fn limit_memory(&self, limits: &ProcessLimits) -> io::Result<()> {
        let bytes = limits.memory_bytes.to_string();
        match self.version {
            CgroupVersion::V2 => {
                self.write_value("memory.max", &bytes)?;
                // Not there without swap.
                let _ = self.write_value("memory.swap.max", "0");
                let _ = self.write_value("memory.oom.group", "1");
            }
            CgroupVersion::V1 => {
                // Set before, for another command: memory alone may never have more than both.
                let _ = self.write_value("memory.memsw.limit_in_bytes", "-1");
                self.write_value("memory.limit_in_bytes", &bytes)?;
                // Memory and swap together, where swap is counted; otherwise avoid swap.
                if self.write_value("memory.memsw.limit_in_bytes", &bytes).is_err() {
                    let _ = self.write_value("memory.swappiness", "0");
                }
            }
        }
        Ok(())
    }

    fn limit_cpu(&self, limits: &ProcessLimits) -> io::Result<()> {
        let quota = CPU_PERIOD_US * u64::from(limits.cpu_percent.max(1)) / 100;
        match self.version {
            CgroupVersion::V2 => self.write_value("cpu.max", &format!("{quota} {CPU_PERIOD_US}")),
            CgroupVersion::V1 => {
                self.write_value("cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
                self.write_value("cpu.cfs_quota_us", &quota.to_string())
            }
        }
    }

    fn limit_processes(&self, limits: &ProcessLimits) -> io::Result<()> {
        let tasks = limits.processes.saturating_mul(TASKS_PER_PROCESS);
        let tasks = if tasks < TASKS_MAX { tasks.to_string() } else { "max".to_owned() };
        self.write_value("pids.max", &tasks)
    }
}

/// Removes groups whose keepers are gone, and kills what is still in them.
pub(crate) fn sweep(places: &CgroupParents) {
    let Some(own) = CgroupName::for_self() else { return };
    for parent in places.parents() {
        for name in kernel_file::list_names(parent).unwrap_or_default() {
            let Some(found) = CgroupName::parse(&name) else { continue };
            // Numbers mean something only among those who count alike.
            if found.namespace != own.namespace || found.is_owner_alive() {
                continue;
            }
            let folder = parent.join(&name);
            let left = kernel_file::read(&folder.join("cgroup.procs")).unwrap_or_default();
            for pid in left.split_whitespace().filter_map(|pid| pid.parse().ok()) {
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            remove(&folder);
        }
    }
}

fn remove(folder: &Path) {
    for _ in 0..REMOVE_TRIES_MAX {
        match rustix::fs::rmdir(folder) {
            Err(rustix::io::Errno::BUSY) => std::thread::sleep(REMOVE_PAUSE),
            _ => return,
        }
    }
}

/// The name of a group: who keeps it.
#[derive(Debug, PartialEq, Eq)]
struct CgroupName {
    /// In which numbers of processes are counted.
    namespace: u64,
    pid: i32,
    started: u64,
}

impl CgroupName {
    fn for_self() -> Option<Self> {
        Self::for_process(rustix::process::getpid().as_raw_nonzero().get())
    }

    fn for_process(pid: i32) -> Option<Self> {
        let namespace = rustix::fs::stat("/proc/self/ns/pid").ok()?.st_ino;
        Some(Self { namespace, pid, started: ProcessInfo::read(pid)?.started })
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("zero-")?.split('-');
        let name = Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(name)
    }

    /// Whether its keeper is alive.
    fn is_owner_alive(&self) -> bool {
        ProcessInfo::read(self.pid)
            .is_some_and(|now| now.started == self.started && !now.is_zombie())
    }
}

impl std::fmt::Display for CgroupName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "zero-{}-{}-{}", self.namespace, self.pid, self.started)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where no group can be made, there is nothing to sweep, and this says just that.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "a process to be left behind")]
    fn sweep_removes_only_cgroups_without_owner() {
        let places = CgroupParents::find();
        let kept = CommandCgroups::create(&places, &ProcessLimits::default());
        let own = CgroupName::for_self().unwrap();
        let stale = CgroupName { started: own.started + 1, ..own }.to_string();
        let mut left = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        for parent in places.parents() {
            rustix::fs::mkdir(parent.join(&stale), rustix::fs::Mode::RWXU).unwrap();
            let joined = parent.join(&stale).join("cgroup.procs");
            kernel_file::write(&joined, &left.id().to_string()).unwrap();
        }
        // Its end is noticed meanwhile, as the reaper of orphans does it.
        std::thread::scope(|scope| {
            scope.spawn(|| sweep(&places));
            if places.parents().is_empty() {
                left.kill().unwrap();
            }
            left.wait().unwrap();
        });
        for parent in places.parents() {
            assert!(rustix::fs::stat(parent.join(&stale)).is_err(), "{parent:?} has {stale}");
        }
        for folder in &kept.made {
            assert!(rustix::fs::stat(folder).is_ok(), "{folder:?} is kept");
        }
        let made = kept.made.clone();
        drop(kept);
        assert!(made.iter().all(|folder| rustix::fs::stat(folder).is_err()), "{made:?}");
    }

    #[test]
    fn unreadable_cgroup_exceeds_no_limit() {
        let folder = PathBuf::from("/sys/fs/cgroup/zero-test-of-none");
        let group = ControlGroup { version: CgroupVersion::V1, folder: folder.clone() };
        let mut groups = CommandCgroups::default();
        groups.processes = Some(group);
        groups.limits = Some(ProcessLimits::default());
        groups.inside = vec![folder];
        assert_eq!(groups.find_exceeded_limit(), None);
    }

    #[test]
    fn cgroup_name_identifies_owner() {
        let own = CgroupName::for_self().unwrap();
        assert_eq!(CgroupName::parse(&own.to_string()), Some(CgroupName::for_self().unwrap()));
        assert!(own.is_owner_alive());
        assert!(!CgroupName { started: own.started + 1, ..own }.is_owner_alive());
        for other in ["zero-1-2", "zero-1-2-3-4", "user.slice", "zero-a-b-c", ""] {
            assert_eq!(CgroupName::parse(other), None, "{other}");
        }
    }
}
