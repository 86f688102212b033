//! Limits that the kernel enforces for a whole process tree: the control groups of a command.
//!
//! A group is created below the one this process is in, and elsewhere only if that escapes no limit
//! set for this process. If a group cannot be created or a limit not be set, the watchdog enforces
//! that limit. The name of a group ([`CgroupName`]) contains the process that owns it, so that
//! groups left by a crash can be distinguished from those in use.
//!
//! With version 2, a process starts in its group, which costs nothing. With version 1, it has to
//! join, and the kernel then waits for every processor, about ten milliseconds. So a worker joins
//! its groups before it has a command, while nothing waits for it, and its children start there
//! too. It leaves the groups once the command has run for a while; otherwise the spawner removes
//! them.

mod cgroup_parents;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::kernel_file;
use crate::process_tree::ProcessInfo;
use crate::profile::ProcessLimits;
use crate::running_command::{ExitCause, LimitEnforcer, LimitsReport};
pub(crate) use cgroup_parents::{CgroupParents, CgroupVersion, own_memory_limit};

/// How often to try to remove a group: its last process may be just exiting.
const REMOVE_TRIES_MAX: u32 = 100;
const REMOVE_PAUSE: Duration = Duration::from_millis(2);
/// The period for which a share of processor time is granted, in microseconds.
const CPU_PERIOD_US: u64 = 100_000;

/// The usual weight of a group, and that of a command without a quota: it uses idle processors, and
/// gets half the share of another program where they compete.
const CPU_WEIGHTS: [u64; 2] = [100, 50];
/// The usual weight in the unit of version 1.
const CPU_SHARES: u64 = 1024;

/// Memory that may remain in the groups for the next command: what the sandbox itself uses, and
/// what the kernel allocates for it.
const REUSE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Where a process says how readily the kernel kills it when memory runs out, and the value with
/// which it goes first.
const OOM_SCORE: (&str, &str) = ("/proc/self/oom_score_adj", "1000");

/// The kernel counts threads as tasks, and a build may have many of them. The group gets a bound
/// that stops a fork bomb; processes alone are counted periodically.
const TASKS_PER_PROCESS: u64 = 8;
/// The kernel's upper bound of tasks on a machine.
const TASKS_MAX: u64 = 4 * 1024 * 1024;

/// Where the kernel lists disks, and the most that are limited.
const BLOCK_DEVICES: &str = "/sys/block";
const DISKS_MAX: usize = 256;

/// The control groups of one command. Dropping it removes them; their processes must have ended.
#[derive(Debug, Default)]
pub(crate) struct CommandCgroups {
    memory: Option<ControlGroup>,
    cpu: Option<ControlGroup>,
    processes: Option<ControlGroup>,
    /// Only if the use of disks is limited.
    io: Option<ControlGroup>,
    limits: Option<ProcessLimits>,
    /// All folders that were created, each once.
    made: Vec<PathBuf>,
    /// Those of them that contain this process.
    inside: Vec<PathBuf>,
    /// Those in which its children start.
    joined: Vec<PathBuf>,
    has_left: bool,
    /// Whether this process joined any of them.
    is_shared: bool,
    /// The counters before the current command.
    before: CgroupCounters,
}

/// What the kernel counts over the whole life of a group, for all its commands.
#[derive(Clone, Copy, Debug, Default)]
struct CgroupCounters {
    /// Processes that the kernel killed because memory ran out.
    killed: u64,
    /// Forks that the kernel refused.
    refused: u64,
    /// The largest memory use, in bytes.
    peak: u64,
}

/// Descriptors through which a process enters its groups.
#[derive(Debug, Default)]
pub(crate) struct CgroupEntryHandles {
    /// The only group, if a process can start in it.
    pub(crate) folder: Option<OwnedFd>,
    /// The `cgroup.procs` files of all groups; a process that writes `0` to one joins that group.
    pub(crate) files: Vec<OwnedFd>,
    /// Whether the supervisor is in a group with the process.
    is_shared: bool,
}

impl CgroupEntryHandles {
    /// In the child: if the supervisor is in its group, makes the kernel kill the child first when
    /// the group runs out of memory. A killed supervisor could not report that end.
    pub(crate) fn spare_supervisor(&self) -> io::Result<()> {
        let (file, first) = OOM_SCORE;
        if self.is_shared { kernel_file::write(Path::new(file), first) } else { Ok(()) }
    }
}

#[derive(Clone, Debug)]
struct ControlGroup {
    version: CgroupVersion,
    folder: PathBuf,
}

impl CommandCgroups {
    /// Creates groups for a command that this process supervises. Limits that no group can enforce
    /// are left out.
    pub(crate) fn create(places: &CgroupParents, limits: &ProcessLimits) -> Self {
        let mut groups = Self::default();
        groups.set_limits(places, limits);
        groups
    }

    /// Joins groups of version 1, still without limits, before this process starts a command.
    pub(crate) fn join_ahead(places: &CgroupParents) -> Self {
        let mut groups = Self::default();
        let Some(name) = CgroupName::for_self().map(|name| name.to_string()) else { return groups };
        for folder in places.v1_parents_to_join().map(|parent| parent.join(&name)) {
            if !groups.create_folder(&folder) {
                continue;
            }
            if kernel_file::write(&folder.join("cgroup.procs"), "0").is_ok() {
                groups.inside.push(folder.clone());
                groups.joined.push(folder);
            }
        }
        groups.is_shared = groups.is_inside();
        groups
    }

    /// Sets limits, on existing groups or on new ones.
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
        self.io = limits.has_disk_rate().then(|| places.io_parent()).and_then(|place| {
            self.create_group(place, &name, |group| group.limit_disk_rate(limits))
        });
        self.before = self.read_counters();
    }

    /// Whether this process is in any of the groups.
    pub(crate) fn is_inside(&self) -> bool {
        !self.inside.is_empty()
    }

    /// Leaves the groups to the command, so that its limits do not apply to this process. Later
    /// children have to join.
    pub(crate) fn leave(&mut self) {
        self.inside.retain(|folder| {
            let above = folder.parent().map(|parent| parent.join("cgroup.procs"));
            above.is_none_or(|above| kernel_file::write(&above, "0").is_err())
        });
        self.joined.retain(|folder| self.inside.contains(folder));
        self.has_left = true;
    }

    /// Whether [`Self::leave`] was called.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left
    }

    /// After a command that left no process: whether so little memory is left in the groups that
    /// another command can use them with its full limit.
    ///
    /// Memory that the kernel can reclaim counts only towards half of the limit: reclaiming takes
    /// time.
    pub(crate) fn is_reusable(&self) -> bool {
        let (Some(group), Some(limits)) = (&self.memory, &self.limits) else { return true };
        let memory = group.read_memory();
        memory.is_some_and(|held| {
            held.all <= limits.memory_bytes / 2 && held.not_given_back <= REUSE_BYTES_MAX
        })
    }

    /// Starts to count for another command with the same limits.
    pub(crate) fn reset_counters(&mut self) {
        self.before = self.read_counters();
        if let (Some(group), Some(limits)) = (&self.cpu, &self.limits) {
            // Writing the limit again renews the quota. If that fails, the limit that is set still
            // applies.
            let set = group.limit_cpu(limits);
            drop(set);
        }
    }

    /// A counter that cannot be read is taken as zero.
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
            // Only this process uses this name, so an existing group is ours from before.
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

    fn groups(&self) -> impl Iterator<Item = &ControlGroup> {
        [&self.memory, &self.cpu, &self.processes, &self.io].into_iter().flatten()
    }

    /// Reports what enforces which limit.
    pub(crate) fn report(&self) -> LimitsReport {
        let by = |group: &Option<ControlGroup>| match group.as_ref().map(|group| group.version) {
            Some(CgroupVersion::V2) => LimitEnforcer::CgroupV2,
            Some(CgroupVersion::V1) => LimitEnforcer::CgroupV1,
            None => LimitEnforcer::Watchdog,
        };
        let has_disk_rate = self.limits.is_some_and(|limits| limits.has_disk_rate());
        LimitsReport {
            memory: by(&self.memory),
            cpu: by(&self.cpu),
            processes: by(&self.processes),
            disk_rate: has_disk_rate.then(|| match by(&self.io) {
                // It could only look on.
                LimitEnforcer::Watchdog => LimitEnforcer::Nothing,
                kernel => kernel,
            }),
        }
    }

    /// Opens the descriptors for a process that is to enter the groups.
    pub(crate) fn open_entries(&self) -> io::Result<CgroupEntryHandles> {
        let in_use = |folder: &&PathBuf| {
            !self.joined.contains(folder) && self.groups().any(|group| group.folder == **folder)
        };
        let entry = |folder: &PathBuf| kernel_file::open_to_write(&folder.join("cgroup.procs"));
        let used: Vec<&PathBuf> = self.made.iter().filter(in_use).collect();
        let files = used.iter().map(|folder| entry(folder)).collect::<io::Result<_>>()?;
        let is_v2 = |group: &ControlGroup| group.version == CgroupVersion::V2;
        // A process can start in one group only, so there must be no other groups to join.
        let folder = match used.as_slice() {
            [folder] if self.groups().all(is_v2) => Some(kernel_file::open_folder(folder)?),
            _ => None,
        };
        Ok(CgroupEntryHandles { folder, files, is_shared: self.is_shared })
    }

    /// The limit that the command exceeded, if any.
    pub(crate) fn find_exceeded_limit(&self) -> Option<ExitCause> {
        let limits = self.limits.as_ref()?;
        if let Some(group) = &self.memory
            && group.oom_kill_count() > Some(self.before.killed)
        {
            let limit = limits.memory_bytes;
            // A peak that is not higher than before may belong to an earlier command.
            let peak =
                group.peak_memory().filter(|peak| *peak > self.before.peak).unwrap_or_default();
            return Some(ExitCause::MemoryLimit { limit, used: peak.max(limit) });
        }
        let group = self.processes.as_ref()?;
        // A failure to read is not a violation: the number was within the limit when it was last
        // read, and forks that the kernel refused are counted anyway.
        let members = kernel_file::read(&group.folder.join("cgroup.procs")).unwrap_or_default();
        let refused = group.refused_fork_count() > Some(self.before.refused);
        let own = u64::from(self.inside.contains(&group.folder));
        let count = (members.lines().count() as u64).saturating_sub(own);
        let limit = limits.processes;
        let used = if refused { count.max(limit.saturating_add(1)) } else { count };
        (used > limit).then_some(ExitCause::ProcessLimit { limit, used })
    }

    /// Whether limits have to be checked periodically.
    pub(crate) fn has_any(&self) -> bool {
        self.memory.is_some() || self.processes.is_some()
    }

    /// Forbids new processes in the groups, and kills all members where the kernel can do that in
    /// one step. Members of a group that cannot grow can be killed one by one.
    pub(crate) fn kill(&self) {
        if let Some(group) = &self.processes {
            let _ = kernel_file::write(&group.folder.join("pids.max"), "0");
        }
        for group in self.groups() {
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

/// The name of the groups that a process owns, to remove them when it has ended.
pub(crate) fn name_for_process(supervisor: i32) -> Option<String> {
    CgroupName::for_process(supervisor).map(|name| name.to_string())
}

/// Removes the version 1 groups of a process that did not leave them before it ended.
pub(crate) fn remove_named(places: &CgroupParents, name: &str) {
    for parent in places.v1_parents() {
        remove(&parent.join(name));
    }
}

/// Memory use of a group, in bytes.
struct CgroupMemory {
    all: u64,
    /// The part that the kernel cannot reclaim.
    not_given_back: u64,
}

impl ControlGroup {
    /// How many of its processes the kernel killed because memory ran out.
    fn oom_kill_count(&self) -> Option<u64> {
        let events = match self.version {
            CgroupVersion::V2 => "memory.events",
            CgroupVersion::V1 => "memory.oom_control",
        };
        kernel_file::read_counter(&self.folder.join(events), "oom_kill")
    }

    /// Its largest memory use, in bytes.
    fn peak_memory(&self) -> Option<u64> {
        let peak = match self.version {
            CgroupVersion::V2 => "memory.peak",
            CgroupVersion::V1 => "memory.max_usage_in_bytes",
        };
        kernel_file::read_number(&self.folder.join(peak))
    }

    /// How many forks the kernel refused in it.
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
        // Only read if needed: the kernel takes long to add up these numbers.
        let stat = self.folder.join("memory.stat");
        let text = kernel_file::read(&stat).ok()?;
        let value = |word: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
            found.and_then(|number| number.trim().parse::<u64>().ok())
        };
        // Files in shared memory are counted as files but cannot be reclaimed.
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
                // Missing without swap.
                let _ = self.write_value("memory.swap.max", "0");
                let _ = self.write_value("memory.oom.group", "1");
            }
            CgroupVersion::V1 => {
                // A previous command may have set it, and the limit of memory must not exceed that
                // of memory and swap.
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
        let quota = limits.has_cpu_quota().then(|| quota.to_string());
        let [usual, low] = CPU_WEIGHTS;
        let weight = if quota.is_some() { usual } else { low };
        match self.version {
            CgroupVersion::V2 => {
                // A courtesy to other programs; the limit does not depend on it.
                let _ = self.write_value("cpu.weight", &weight.to_string());
                let quota = quota.as_deref().unwrap_or("max");
                self.write_value("cpu.max", &format!("{quota} {CPU_PERIOD_US}"))
            }
            CgroupVersion::V1 => {
                let _ = self.write_value("cpu.shares", &(CPU_SHARES * weight / usual).to_string());
                self.write_value("cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
                self.write_value("cpu.cfs_quota_us", quota.as_deref().unwrap_or("-1"))
            }
        }
    }

    /// Limits each disk alike. Fails if no disk can be limited.
    fn limit_disk_rate(&self, limits: &ProcessLimits) -> io::Result<()> {
        let rate = limits.disk_rate;
        let limit = |disk: &str| match self.version {
            CgroupVersion::V2 => {
                self.write_value("io.max", &format!("{disk} rbps={rate} wbps={rate}"))
            }
            CgroupVersion::V1 => {
                let value = format!("{disk} {rate}");
                self.write_value("blkio.throttle.read_bps_device", &value)?;
                self.write_value("blkio.throttle.write_bps_device", &value)
            }
        };
        let mut limited = Err(io::Error::from(io::ErrorKind::NotFound));
        for disk in kernel_file::list_names(Path::new(BLOCK_DEVICES))?.iter().take(DISKS_MAX) {
            // Not every device takes requests, and so a limit; those that a command uses do.
            let number = kernel_file::read(&Path::new(BLOCK_DEVICES).join(disk).join("dev"))?;
            if limit(number.trim()).is_ok() {
                limited = Ok(());
            }
        }
        limited
    }

    fn limit_processes(&self, limits: &ProcessLimits) -> io::Result<()> {
        let tasks = limits.processes.saturating_mul(TASKS_PER_PROCESS);
        let tasks = if tasks < TASKS_MAX { tasks.to_string() } else { "max".to_owned() };
        self.write_value("pids.max", &tasks)
    }
}

/// Removes groups whose owners have ended, and kills the processes in them.
pub(crate) fn sweep(places: &CgroupParents) {
    let Some(own) = CgroupName::for_self() else { return };
    for parent in places.parents() {
        for name in kernel_file::list_names(parent).unwrap_or_default() {
            let Some(found) = CgroupName::parse(&name) else { continue };
            // Process IDs are comparable only within one PID namespace.
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

/// The name of a group, which identifies the process that owns it.
#[derive(Debug, PartialEq, Eq)]
struct CgroupName {
    /// The PID namespace of `pid`.
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

    /// Where no group can be created, there is nothing to sweep, and the test passes trivially.
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
        // The child is reaped meanwhile, as the reaper of orphans does.
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
    #[expect(clippy::disallowed_methods, reason = "tests set up files that look like a group")]
    fn share_of_all_processors_has_a_weight_and_no_quota() {
        let all = u32::try_from(crate::machine_resources::processor_count() * 100).unwrap();
        for (percent, v2, v1) in [
            (all, ["max 100000", "50"], ["-1", "512"]),
            (50, ["50000 100000", "100"], ["50000", "1024"]),
        ] {
            let limits = ProcessLimits { cpu_percent: percent, ..ProcessLimits::default() };
            for (version, expected) in [
                (CgroupVersion::V2, [("cpu.max", v2[0]), ("cpu.weight", v2[1])]),
                (CgroupVersion::V1, [("cpu.cfs_quota_us", v1[0]), ("cpu.shares", v1[1])]),
            ] {
                let temp = tempfile::tempdir().unwrap();
                for file in
                    ["cpu.max", "cpu.weight", "cpu.cfs_quota_us", "cpu.shares", "cpu.cfs_period_us"]
                {
                    std::fs::write(temp.path().join(file), "").unwrap();
                }
                let group = ControlGroup { version, folder: temp.path().to_owned() };
                group.limit_cpu(&limits).unwrap();
                for (file, text) in expected {
                    let seen = std::fs::read_to_string(temp.path().join(file)).unwrap();
                    assert_eq!(seen, text, "{version:?} {file} with {percent}%");
                }
            }
        }
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
