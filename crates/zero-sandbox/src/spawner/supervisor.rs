//! Supervises one command at a time: starts it, watches it, and makes sure that no process of it is
//! left.
//!
//! A supervisor is a process between the spawner and the command, and a reaper: all descendants of
//! the command, however they fork, stay below it. To end a command is therefore to kill everything
//! below the supervisor. The command has ended when the supervisor has no children left, or only
//! those of its sandbox.
//!
//! If a command leaves nothing behind, its supervisor keeps the sandbox and the control groups,
//! which take most of the time to start a command, and waits for another command of the same kind.
//! After anything unusual it exits with its command.
//!
//! A supervisor whose channel is closed kills its process tree. So does one whose spawner died,
//! which the kernel reports by a signal. If the supervisor itself is killed, the spawner kills its
//! process tree.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use super::LimitEnforcerChoice;
use super::launch::{self, LaunchContext};
use super::message::{
    self, LaunchFailure, LaunchStep, SpawnSpecMessage, SpawnerReply, StopRequest, WorkerEvent,
};
use super::prewarmed_sandbox::{Namespaces, PrewarmedSandbox};
use super::server::HostCapabilities;
use super::syscalls::{self, ChildExit, ReapOutcome, ResourceUsage};
use crate::cgroup::{CgroupParents, CommandCgroups};
use crate::confinement::host_sockets::HostSockets;
use crate::confinement::init_report::{ExitSummary, InitReport};
use crate::confinement::{ConfineError, NetworkOwner, PreparedCommand};
use crate::layer_probe::SandboxLayers;
use crate::limit_watchdog::disk_watch::{DISK_TICK, DiskWatch};
use crate::limit_watchdog::{self, LimitWatchdog};
use crate::process_tree::{self, LEFTOVER_GRACE};
use crate::profile::{NetworkAccess, ProcessLimits};
use crate::running_command::{CommandExit, ExitCause, SandboxReuse};
use crate::shared_network::{NetworkEntryHandles, NetworkIdentity};

/// How often to set up a sandbox that fails because the host changed meanwhile.
const SANDBOX_TRIES_MAX: u32 = 8;
/// How often to retry if a mount source has disappeared. Sockets come and go, and a single one that
/// disappears while it is being hidden makes the setup fail.
const CHANGES_MAX: u32 = 64;
/// Interval between two checks of the limits that the kernel enforces.
const EVENTS_TICK: Duration = Duration::from_millis(100);
/// How long to try to kill a process tree: only a process stuck in the kernel lasts longer.
pub(super) const KILL_MAX: Duration = Duration::from_secs(5);
/// After this time the supervisor leaves the control groups to the command. A shorter command is
/// over before leaving would be.
const LEAVE_AFTER: Duration = Duration::from_millis(50);
/// Pause between two rounds of killing.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// Most commands of one supervisor, so that anything that accumulates is freed eventually.
const COMMANDS_MAX: u32 = 256;

/// Makes this process the reaper of all its descendants. Returns a descriptor that reports their
/// end and SIGTERM.
pub(super) fn become_reaper() -> io::Result<OwnedFd> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    syscalls::open_signal_fd(&[libc::SIGCHLD, libc::SIGTERM])
}

/// The descriptors of a request to start a command.
pub(super) struct SpawnHandles {
    pub(super) order: OwnedFd,
    /// Where to report about the command.
    pub(super) channel: OwnedFd,
    pub(super) stdio: Vec<OwnedFd>,
}

/// Starts a command, in the sandbox `prewarmed` if it matches, and returns when no process of it is
/// left. Reports to the channel of the command. If the control groups and the sandbox can be
/// reused, tells the spawner so and returns them.
pub(super) fn supervise(
    handles: SpawnHandles,
    signals: &OwnedFd,
    groups: CommandCgroups,
    prewarmed: Option<PrewarmedSandbox>,
    spare: &HostCapabilities<'_>,
    spawner: &OwnedFd,
) -> Option<(CommandCgroups, PrewarmedSandbox)> {
    let SpawnHandles { order, channel, stdio } = handles;
    let (order, channel) = (&order, &channel);
    // Sent before anything is started: zero repeats a request only if it got no such reply.
    if message::send(channel, &SpawnerReply::Taken, &[]).is_err() {
        return None;
    }
    let reply = match Supervisor::start(order, channel, signals, stdio, groups, prewarmed, spare) {
        Err(failure) => SpawnerReply::Failed(failure),
        Ok((mut supervisor, sandbox_reuse, mut text)) => {
            let started = SpawnerReply::Started {
                pid: supervisor.main,
                limits: supervisor.groups.report(),
                confinement: supervisor.prepared.confinement().clone(),
                sandbox_reuse,
            };
            // If the receiver is gone, the closed channel is noticed below.
            let _ = message::send(channel, &started, &[]);
            // For the worker that prewarms such a sandbox. Without it, it creates no placeholders.
            text.stood_in = supervisor.prepared.placeholder_paths();
            let _ = text.update_memfd(order);
            let exit = supervisor.run();
            let until = Instant::now().checked_add(text.ready_for);
            let (Some(used_before), Some(until)) = (supervisor.stays_for_another, until) else {
                // Placeholders that are visible on the host are removed before the end is reported.
                supervisor.prepared.cleanup();
                let _ = message::send(channel, &SpawnerReply::Ended(exit), &[]);
                // The groups have no owner now and may be removed while zero goes on.
                return None;
            };
            // The spawner first: zero may request the next command as soon as it knows of the end.
            let is_free = message::send(spawner, &WorkerEvent::Prewarmed, &[]);
            let _ = message::send(channel, &SpawnerReply::Ended(exit), &[]);
            let Supervisor { main, prepared, mut groups, commands, network, .. } = supervisor;
            groups.reset_counters();
            let commands = commands + 1;
            let namespaces = Namespaces { main, prepared, commands, used_before, network };
            let sandbox = PrewarmedSandbox::from_finished(text, namespaces, until);
            return is_free.is_ok().then_some((groups, sandbox));
        }
    };
    let _ = message::send(channel, &reply, &[]);
    None
}

struct Supervisor<'a> {
    channel: &'a OwnedFd,
    signals: &'a OwnedFd,
    main: i32,
    prepared: PreparedCommand,
    groups: CommandCgroups,
    watch: LimitWatchdog,
    disks: DiskWatch,
    deadline: Option<Instant>,
    main_ended: Option<ChildExit>,
    /// How the command ended, as reported from inside the sandbox.
    exit_report: Option<(ChildExit, ExitSummary)>,
    /// Whether such a report may still come.
    is_listening: bool,
    /// Resources used before anything was killed: processor time, and memory of the largest
    /// process.
    killed: ResourceUsage,
    /// Resources used by the children that were reaped.
    reaped: ResourceUsage,
    /// How many commands ran in the same sandbox before this one.
    commands: u32,
    /// Processor time that the process tree had used before this command.
    used_before: Duration,
    /// The network of a session that it joined.
    network: Option<NetworkIdentity>,
    /// Whether the sandbox may be reused for another command of the same kind.
    may_stay: bool,
    /// Processor time of the process tree, if the command left nothing and the sandbox is kept.
    stays_for_another: Option<Duration>,
    /// Held until no process of the command is left: see [`crate::command_capture`].
    #[expect(dead_code, reason = "others look whether it is open")]
    capture: Option<OwnedFd>,
}

/// Whether there are children, exited or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChildPresence {
    Present,
    Absent,
}

impl<'a> Supervisor<'a> {
    fn start(
        order: &OwnedFd,
        channel: &'a OwnedFd,
        signals: &'a OwnedFd,
        mut stdio: Vec<OwnedFd>,
        groups: CommandCgroups,
        prewarmed: Option<PrewarmedSandbox>,
        spare: &HostCapabilities<'_>,
    ) -> Result<(Self, SandboxReuse, SpawnSpecMessage), LaunchFailure> {
        let at =
            |step: LaunchStep| move |error: io::Error| LaunchFailure::from_io_error(step, &error);
        let order = SpawnSpecMessage::from_memfd(order).map_err(at(LaunchStep::Order))?;
        let layers = order.layers.apply(spare.layers.clone());
        let net = match (order.joins, &layers.bubblewrap) {
            (false, _) => None,
            // Joining the network needs a user namespace below its owner's, which bubblewrap
            // creates. The report lists what is missing.
            (true, Err(_)) => stdio.pop().and(None),
            (true, Ok(_)) => {
                let net = stdio.pop().ok_or(io::ErrorKind::InvalidInput.into());
                Some(net.and_then(NetworkEntryHandles::new).map_err(at(LaunchStep::Network))?)
            }
        };
        let capture = if order.captures { stdio.pop() } else { None };
        let net = net.as_ref();
        let network = net.map(NetworkEntryHandles::identity).transpose();
        let network = network.map_err(at(LaunchStep::Network))?;
        let start = CommandStart {
            order: &order,
            channel,
            signals,
            stdio: &stdio,
            capture: capture.as_ref(),
            layers,
            net,
            network,
        };
        let disks = DiskWatch::start(&order.profile);
        let StartedCommand { namespaces, groups, when } =
            start.start_in_sandbox(prewarmed, groups, spare.places)?;
        let Namespaces { main, prepared, commands, used_before, network: _ } = namespaces;
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let limits = limits_with_sandbox(&order, &prepared);
        let watch = LimitWatchdog::new(own, &limits, groups.report(), used_before);
        // A private network may keep state of the command: see
        // [`residue`](crate::confinement::residue). That of a session is shared by its commands.
        let has_no_own_network =
            network.is_some() || order.profile.network != NetworkAccess::Loopback;
        let may_wait =
            !order.ready_for.is_zero() && Instant::now().checked_add(order.ready_for).is_some();
        let may_stay = has_no_own_network && may_wait && commands + 1 < COMMANDS_MAX;
        // Only the command may hold the streams, so that their end is noticed.
        drop(stdio);
        let deadline = order.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let supervisor = Self {
            channel,
            signals,
            main,
            is_listening: prepared.report_fd().is_some(),
            exit_report: None,
            prepared,
            groups,
            watch,
            disks,
            deadline,
            main_ended: None,
            killed: ResourceUsage::default(),
            reaped: ResourceUsage::default(),
            commands,
            used_before,
            network,
            may_stay,
            stays_for_another: None,
            capture,
        };
        Ok((supervisor, when, order))
    }

    fn run(&mut self) -> CommandExit {
        let mut leftover_processes = 0;
        let why = match self.wait_for_end() {
            Some(why) => {
                self.kill_all();
                why
            }
            None => {
                leftover_processes = self.resolve_exit();
                let is_only_sandbox = self.is_only_sandbox_left();
                let left =
                    if is_only_sandbox { ChildPresence::Absent } else { self.wait_for_leftovers() };
                // Asked before the killing, which makes the process tree exceed its limits.
                let over = self.groups.find_exceeded_limit().or_else(|| self.disks.inspect());
                let why = over.unwrap_or(ExitCause::Finished);
                if is_only_sandbox {
                    if self.may_stay && why == ExitCause::Finished {
                        self.stays_for_another = self.check_clean();
                    }
                    if self.stays_for_another.is_none() {
                        self.prepared.close();
                        self.wait_for_sandbox_exit();
                    }
                }
                if left == ChildPresence::Present {
                    // One that keeps forking and exiting is killed with its group, and may have
                    // another ID whenever they are counted.
                    leftover_processes += self.kill_all().max(1);
                }
                why
            }
        };
        let why = self.exclude_sandbox_processes(why);
        let used = self.resource_usage();
        let main = self.main_ended.as_ref();
        CommandExit {
            exit_code: main.and_then(|main| main.exit_code),
            signal: main.and_then(|main| main.signal),
            why,
            cpu_time: used.cpu_time,
            max_memory_bytes: used.largest_bytes.max(self.watch.peak_bytes),
            read_bytes: used.read_bytes,
            written_bytes: used.written_bytes,
            leftover_processes,
        }
    }

    /// The resources the command used: as reported from inside the sandbox, or as seen from here if
    /// there is no report or a process was left. Earlier commands in the same sandbox are not
    /// counted.
    fn resource_usage(&self) -> ResourceUsage {
        let mut used = self.killed;
        if let Some((_, last)) = &self.exit_report {
            used.cpu_time = used.cpu_time.max(last.used.cpu_time);
            used.largest_bytes = used.largest_bytes.max(last.used.largest_bytes);
            (used.read_bytes, used.written_bytes) = (last.used.read_bytes, last.used.written_bytes);
        }
        if self.stays_for_another.is_none() {
            let ended = syscalls::children_usage().cpu_time.saturating_sub(self.used_before);
            used.cpu_time = used.cpu_time.max(ended);
            // The largest process may have belonged to an earlier command.
            if self.commands == 0 {
                used.largest_bytes = used.largest_bytes.max(self.reaped.largest_bytes);
                used.read_bytes = used.read_bytes.max(self.reaped.read_bytes);
                used.written_bytes = used.written_bytes.max(self.reaped.written_bytes);
            }
        }
        used
    }

    /// After the report that only the sandbox is left: checks that the kernel agrees, and that
    /// another command would find the sandbox as this one did. Returns the processor time that the
    /// process tree has used.
    fn check_clean(&mut self) -> Option<Duration> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        // All processes inside are descendants of the first one there. Once it has no children, no
        // process can appear.
        let tree = process_tree::descendants(own, &BTreeSet::new());
        let is_alone = match tree.as_slice() {
            [outer, inner] => {
                let is_alive = !outer.is_zombie() && !inner.is_zombie();
                is_alive && outer.pid == self.main && inner.parent == self.main
            }
            _ => false,
        };
        let is_as_new = is_alone && self.prepared.is_reusable() && self.groups.is_reusable();
        is_as_new.then(|| limit_watchdog::cpu_time(&tree))
    }

    /// Reads the report from inside the sandbox about the end of the command, if there is one.
    fn read_init_reports(&mut self) {
        let Some(report_fd) = self.prepared.report_fd().filter(|_| self.is_listening) else {
            return;
        };
        let pid = self.main;
        self.exit_report = match InitReport::read(report_fd) {
            Ok(Some(InitReport::Returned { code, last })) => {
                let used = last.used;
                Some((ChildExit { pid, exit_code: Some(code), signal: None, used }, last))
            }
            Ok(Some(InitReport::Signalled { signal, last })) => {
                let used = last.used;
                Some((ChildExit { pid, exit_code: None, signal: Some(signal), used }, last))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            _ => None,
        };
        self.is_listening = false;
    }

    /// After the end of the process that holds the namespaces, or of all processes of the command:
    /// takes the report from inside as the end of the command, which is another process. Returns
    /// the number of processes that were left.
    fn resolve_exit(&mut self) -> u32 {
        if self.prepared.report_fd().is_none() {
            return 0;
        }
        self.read_init_reports();
        self.is_listening = false;
        // Without a report, all processes inside were killed from outside.
        let (signal, used) = (Some(libc::SIGKILL), ResourceUsage::default());
        let killed = ChildExit { pid: self.main, exit_code: None, signal, used };
        self.main_ended = Some(self.exit_report.as_ref().map_or(killed, |(exit, _)| *exit));
        self.exit_report.as_ref().map_or(0, |(_, last)| last.leftover)
    }

    /// Whether all processes of the command are gone and only the sandbox is left.
    fn is_only_sandbox_left(&self) -> bool {
        self.exit_report.as_ref().is_some_and(|(_, last)| last.leftover == 0)
    }

    /// After the report that only the sandbox is left: waits until the sandbox is gone too.
    ///
    /// The first process of a PID namespace ends only after all others, which the kernel
    /// guarantees. The report from inside is not enough to remove placeholders for missing files: a
    /// process that can falsify the report could create these files.
    fn wait_for_sandbox_exit(&mut self) {
        let until = Instant::now() + LEFTOVER_GRACE;
        while self.reap() == ChildPresence::Present {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.kill_all();
                return;
            }
            let mut fds = [PollFd::new(self.signals, PollFlags::IN)];
            let _ = rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref());
            syscalls::read_signals(self.signals);
        }
    }

    /// Subtracts the processes of the sandbox, which are not the command's, from the numbers of a
    /// limit.
    fn exclude_sandbox_processes(&self, why: ExitCause) -> ExitCause {
        let own = self.prepared.sandbox_process_count();
        match why {
            ExitCause::ProcessLimit { limit, used } => ExitCause::ProcessLimit {
                limit: limit.saturating_sub(own),
                used: used.saturating_sub(own),
            },
            why => why,
        }
    }

    /// Waits until the main process has ended and returns `None`, or until there is a reason to
    /// kill everything.
    fn wait_for_end(&mut self) -> Option<ExitCause> {
        let tick = if self.watch.is_needed() {
            Some(limit_watchdog::TICK)
        } else {
            self.groups.has_any().then_some(EVENTS_TICK)
        };
        let mut next_tick = tick.map(|tick| Instant::now() + tick);
        let mut next_disk_tick = self.disks.is_needed().then(|| Instant::now() + DISK_TICK);
        let mut leave_at = self.groups.is_inside().then(|| Instant::now() + LEAVE_AFTER);
        loop {
            // Checked first: the signal may have arrived before we waited for it.
            if self.has_ended() {
                return None;
            }
            let ticks = next_tick.into_iter().chain(next_disk_tick);
            let wake = self.deadline.into_iter().chain(ticks).chain(leave_at).min();
            if let Some(why) = self.wait_for_event(wake) {
                return Some(why);
            }
            if self.has_ended() {
                return None;
            }
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                return Some(ExitCause::TimedOut);
            }
            if leave_at.is_some_and(|at| now >= at) {
                self.groups.leave();
                leave_at = None;
            }
            if next_tick.is_some_and(|at| now >= at) {
                let over = self.groups.find_exceeded_limit();
                let over = over.or_else(|| self.watch.is_needed().then(|| self.watch.inspect())?);
                if over.is_some() {
                    return over;
                }
                next_tick = tick.map(|tick| Instant::now() + tick);
            }
            if next_disk_tick.is_some_and(|at| now >= at) {
                let over = self.disks.inspect();
                if over.is_some() {
                    return over;
                }
                next_disk_tick = Some(Instant::now() + DISK_TICK);
            }
        }
    }

    /// Whether the main process has ended, or nothing is left of the command in its sandbox.
    fn has_ended(&mut self) -> bool {
        self.reap();
        self.read_init_reports();
        self.main_ended.is_some() || self.is_only_sandbox_left()
    }

    /// After the main process has ended: gives other processes a moment to end by themselves.
    fn wait_for_leftovers(&mut self) -> ChildPresence {
        let until = Instant::now() + LEFTOVER_GRACE;
        while self.reap() == ChildPresence::Present {
            if self.wait_for_event(Some(until)).is_some() || Instant::now() >= until {
                return self.reap();
            }
        }
        ChildPresence::Absent
    }

    /// Sleeps until something happens or until `until`. Returns a reason to kill everything, if
    /// there is one.
    fn wait_for_event(&mut self, until: Option<Instant>) -> Option<ExitCause> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let report_fd = self.prepared.report_fd().filter(|_| self.is_listening);
        // If no report can come, the channel takes its place.
        let mut fds = [self.channel, self.signals, report_fd.unwrap_or(self.channel)]
            .map(|fd| PollFd::new(fd, PollFlags::IN));
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let [channel, signals, _] = fds.map(|fd| !fd.revents().is_empty());
        if signals && syscalls::read_signals(self.signals).contains(&libc::SIGTERM) {
            return Some(ExitCause::Killed);
        }
        if !channel {
            return None;
        }
        match message::try_receive::<StopRequest>(self.channel) {
            Ok(Some(StopRequest::Kill { reason })) => Some(reason.into()),
            Ok(Some(StopRequest::Terminate)) => {
                self.terminate();
                None
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Ok(None) | Err(_) => Some(ExitCause::Killed),
        }
    }

    /// Asks the command to end. In a sandbox, our init process knows which process that is and
    /// forwards the signal.
    fn terminate(&self) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let tree = process_tree::descendants(own, &BTreeSet::new());
        process_tree::send_signal(own, &tree, Signal::TERM, |process| {
            match self.prepared.report_fd() {
                Some(_) => process.parent == self.main,
                None => process.pid == self.main,
            }
        });
    }

    /// Reaps children that ended, the main process among them.
    fn reap(&mut self) -> ChildPresence {
        loop {
            match syscalls::reap() {
                ReapOutcome::NoChildren => return ChildPresence::Absent,
                ReapOutcome::StillRunning => return ChildPresence::Present,
                ReapOutcome::Exited(reaped) => {
                    self.reaped = self.reaped.add(reaped.used);
                    if reaped.pid == self.main && self.main_ended.is_none() {
                        self.main_ended = Some(reaped);
                    }
                }
            }
        }
    }

    /// Kills everything below until nothing is left, and returns the number of killed processes.
    fn kill_all(&mut self) -> u32 {
        // Read before the killing: a PID namespace that ends takes the usage of its processes
        // along.
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let tree = process_tree::descendants(own, &BTreeSet::new());
        let page = rustix::param::page_size() as u64;
        let largest = tree.iter().map(|process| process.resident_pages.saturating_mul(page)).max();
        self.killed = ResourceUsage {
            cpu_time: limit_watchdog::cpu_time(&tree).saturating_sub(self.used_before),
            largest_bytes: largest.unwrap_or_default(),
            ..ResourceUsage::default()
        };
        self.groups.kill();
        kill_descendants(&BTreeSet::new(), KILL_MAX, || self.reap() == ChildPresence::Absent)
    }
}

/// Everything needed to start a command.
struct CommandStart<'a> {
    order: &'a SpawnSpecMessage,
    channel: &'a OwnedFd,
    signals: &'a OwnedFd,
    stdio: &'a [OwnedFd],
    /// Where the listener of its changes is sent.
    capture: Option<&'a OwnedFd>,
    layers: SandboxLayers,
    net: Option<&'a NetworkEntryHandles>,
    network: Option<NetworkIdentity>,
}

/// Why a command does not run in its sandbox.
enum StartError {
    /// It cannot be started.
    Failed(LaunchFailure),
    /// Something on the host has changed since the sandbox was prepared.
    HostChanged(String),
}

/// A command in its sandbox.
struct StartedCommand {
    namespaces: Namespaces,
    groups: CommandCgroups,
    /// Whether the sandbox was prewarmed.
    when: SandboxReuse,
}

/// The limits of the process tree: those of the command plus the processes of its sandbox.
pub(super) fn limits_with_sandbox(
    order: &SpawnSpecMessage,
    prepared: &PreparedCommand,
) -> ProcessLimits {
    let limits = order.profile.limits;
    let processes = limits.processes.saturating_add(prepared.sandbox_process_count());
    ProcessLimits { processes, ..limits }
}

impl CommandStart<'_> {
    /// Starts the command in the prewarmed sandbox, or in a new one.
    fn start_in_sandbox(
        &self,
        prewarmed: Option<PrewarmedSandbox>,
        mut groups: CommandCgroups,
        places: &CgroupParents,
    ) -> Result<StartedCommand, LaunchFailure> {
        let SpawnSpecMessage { command, profile, limits_by, .. } = self.order;
        let ready = prewarmed.and_then(|prewarmed| {
            let handles = (self.stdio, self.capture);
            prewarmed.assign_command(self.order, &self.layers, self.network, handles)
        });
        if let Some(namespaces) = ready {
            match self.wait_until_started(&namespaces.prepared) {
                Ok(()) => {
                    return Ok(StartedCommand {
                        namespaces,
                        groups,
                        when: SandboxReuse::Prewarmed,
                    });
                }
                Err(StartError::Failed(failure)) => return Err(failure),
                // The sandbox was killed from outside; set up another one.
                Err(StartError::HostChanged(_)) => {}
            }
        }
        let streams = launch::split_streams(self.stdio).ok_or(io::ErrorKind::InvalidInput.into());
        let streams =
            streams.map_err(|error| LaunchFailure::from_io_error(LaunchStep::Stdio, &error))?;
        let network_owner = NetworkOwner::for_network(self.network);
        // Listed once. A socket that appears later is treated like one that appears while the
        // command runs; sockets that come and go could never all be hidden.
        let sockets = HostSockets::for_command(profile, &command.folder);
        let (mut reason, mut tries) = (String::new(), 0);
        for _ in 0..CHANGES_MAX {
            let prepared = PreparedCommand::new(
                profile,
                &self.layers,
                command,
                (streams, self.capture),
                network_owner,
                &sockets,
            );
            let mut prepared = match prepared {
                Err(ConfineError::Changed(changed)) => {
                    reason = changed.to_string();
                    continue;
                }
                prepared => prepared.map_err(LaunchFailure::from_confine_error)?,
            };
            if *limits_by == LimitEnforcerChoice::Best {
                groups.set_limits(places, &limits_with_sandbox(self.order, &prepared));
            }
            let Self { stdio, net, .. } = *self;
            let launch = LaunchContext { prepared: &prepared, folder: &command.folder, stdio, net };
            let main = launch.start_in_cgroups(&mut groups)?;
            prepared.release_launch_handles();
            match self.wait_until_started(&prepared) {
                Ok(()) => {
                    let namespaces = Namespaces::new(main, prepared, self.network);
                    return Ok(StartedCommand { namespaces, groups, when: SandboxReuse::New });
                }
                Err(StartError::Failed(failure)) => return Err(failure),
                Err(StartError::HostChanged(changed)) => reason = changed,
            }
            tries += u32::from(!prepared.is_mount_source_missing());
            if tries >= SANDBOX_TRIES_MAX {
                break;
            }
        }
        let text = format!("the sandbox could not be set up: {reason}");
        Err(LaunchFailure { step: LaunchStep::Confine, errno: None, text, gaps: Vec::new() })
    }

    /// Waits until the command runs in its sandbox.
    fn wait_until_started(&self, prepared: &PreparedCommand) -> Result<(), StartError> {
        let Some(report_fd) = prepared.report_fd() else { return Ok(()) };
        let failure = |step: LaunchStep, errno: i32| {
            let error = io::Error::from_raw_os_error(errno);
            StartError::Failed(LaunchFailure::from_io_error(step, &error))
        };
        loop {
            let not_up = match InitReport::read(report_fd) {
                Ok(Some(InitReport::Started)) => return Ok(()),
                Ok(Some(InitReport::NotRun { step, errno })) => {
                    failure(LaunchStep::from_byte(step), errno)
                }
                Ok(_) => StartError::HostChanged(prepared.read_error_output()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.wait_is_cancelled(report_fd) {
                        continue;
                    }
                    failure(LaunchStep::Order, libc::ECANCELED)
                }
                Err(error) => {
                    StartError::Failed(LaunchFailure::from_io_error(LaunchStep::Confine, &error))
                }
            };
            // A command that did not start must leave no process.
            kill_descendants(&BTreeSet::new(), KILL_MAX, || {
                while let ReapOutcome::Exited(_) = syscalls::reap() {}
                matches!(syscalls::reap(), ReapOutcome::NoChildren)
            });
            return Err(not_up);
        }
    }

    /// Sleeps until there is news, and returns whether the command is no longer wanted.
    fn wait_is_cancelled(&self, report_fd: &OwnedFd) -> bool {
        let mut fds = [
            PollFd::new(report_fd, PollFlags::IN),
            PollFd::new(self.channel, PollFlags::IN),
            PollFd::new(self.signals, PollFlags::IN),
        ];
        let _ = rustix::event::poll(&mut fds, None);
        let [_, channel, signals] = fds.map(|fd| !fd.revents().is_empty());
        // No request is sent before the start, so news on the channel means that it was closed.
        channel || (signals && syscalls::read_signals(self.signals).contains(&libc::SIGTERM))
    }
}

impl LaunchFailure {
    fn from_confine_error(error: ConfineError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let text = format!("{error}{}", cause.unwrap_or_default());
        let gaps = match error {
            ConfineError::Unenforceable(gaps) => gaps,
            _ => Vec::new(),
        };
        Self { step: LaunchStep::Confine, errno: None, text, gaps }
    }
}

/// Kills everything below this process, except what is below `skipped`, until `is_over`. Returns
/// the number of killed processes.
///
/// They are not stopped first: a killed process cannot fork either, and what one round misses is
/// found in the next.
pub(super) fn kill_descendants(
    skipped: &BTreeSet<i32>,
    limit: Duration,
    mut is_over: impl FnMut() -> bool,
) -> u32 {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let until = Instant::now() + limit;
    let mut killed = BTreeSet::new();
    loop {
        let tree = process_tree::descendants(own, skipped);
        process_tree::send_signal(own, &tree, Signal::KILL, |process| {
            killed.insert((process.pid, process.started));
            true
        });
        process_tree::send_signal_to_groups(&tree, Signal::KILL);
        if is_over() || Instant::now() >= until {
            return u32::try_from(killed.len()).unwrap_or(u32::MAX);
        }
        std::thread::sleep(KILL_PAUSE);
    }
}
