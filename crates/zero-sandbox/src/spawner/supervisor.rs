//! Keeps one command at a time: starts it, watches it, and sees to it that nothing of it is left.
//!
//! Each command has a keeper, a process between the warden and the command that is a reaper: what
//! comes of the command, however it forks, stays below its keeper and below nobody else's. So to
//! end a command is to end all that is below, and it is over when the keeper has no children left,
//! or none but those of its walls.
//!
//! A keeper whose command has gone without a trace waits for another of the same kind, with its walls
//! and its groups, which take most of the time that a command takes. Whatever is out of the ordinary
//! ends it with its command.
//!
//! A keeper whose channel closes has nobody to work for and ends its tree; so does one whose warden
//! died, which the kernel tells it by a signal. A keeper that is killed itself leaves its tree to
//! the warden, which ends it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Signal;

use super::launch::{self, LaunchContext};
use super::message::{
    self, LaunchFailure, LaunchStep, SpawnSpecMessage, SpawnerReply, StopRequest, WorkerEvent,
};
use super::prewarmed_sandbox::{Namespaces, PrewarmedSandbox};
use super::server::HostCapabilities;
use super::syscalls::{self, ChildExit, ReapOutcome, ResourceUsage};
use super::{LEFTOVER_GRACE, LimitEnforcerChoice};
use crate::cgroup::{CgroupParents, CommandCgroups};
use crate::confinement::host_sockets::HostSockets;
use crate::confinement::init_report::{ExitSummary, InitReport};
use crate::confinement::{ConfineError, NetworkOwner, PreparedCommand};
use crate::layer_probe::SandboxLayers;
use crate::limit_watchdog::{self, LimitWatchdog};
use crate::process_tree;
use crate::profile::{NetworkAccess, ProcessLimits};
use crate::running_command::{CommandExit, ExitCause, SandboxReuse};
use crate::shared_network::NetworkEntryHandles;

/// How often walls are put up that could not be: what changed on the host meanwhile has changed.
const SANDBOX_TRIES_MAX: u32 = 8;
/// How often they are when something is gone on which they were to stand. Sockets come and go, and
/// one that went while it was to be hidden is enough.
const CHANGES_MAX: u32 = 64;
/// Between two looks at what the kernel says of limits it keeps.
const EVENTS_TICK: Duration = Duration::from_millis(100);
/// How long a tree is killed at most: only a process stuck in the kernel lasts longer.
pub(super) const KILL_MAX: Duration = Duration::from_secs(5);
/// A command that lives longer than this has its groups to itself. A shorter one is over before
/// leaving them would be.
const LEAVE_AFTER: Duration = Duration::from_millis(50);
/// Between two rounds of killing.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// Commands that one keeper keeps, one after another. Whatever adds up is gone after so many.
const COMMANDS_MAX: u32 = 256;

/// Makes this process one that keeps what comes of its children, and gives where it is told of them
/// and of its own end.
pub(super) fn become_reaper() -> io::Result<OwnedFd> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    syscalls::open_signal_fd(&[libc::SIGCHLD, libc::SIGTERM])
}

/// An order as it was given.
pub(super) struct SpawnHandles {
    pub(super) order: OwnedFd,
    /// Where to tell of its command.
    pub(super) channel: OwnedFd,
    pub(super) stdio: Vec<OwnedFd>,
}

/// Starts a command, behind the walls that stand `ahead` if they are the right ones, and stays until
/// nothing of it is left, telling about it on its channel. Gives groups and walls for another one,
/// after having told the warden that they are there, if they are.
pub(super) fn supervise(
    given: SpawnHandles,
    signals: &OwnedFd,
    groups: CommandCgroups,
    ahead: Option<PrewarmedSandbox>,
    spare: &HostCapabilities<'_>,
    warden: &OwnedFd,
) -> Option<(CommandCgroups, PrewarmedSandbox)> {
    let SpawnHandles { order, channel, stdio } = given;
    let (order, channel) = (&order, &channel);
    // Before anything is started, so that an order is given out again only if nothing was.
    if message::send(channel, &SpawnerReply::Taken, &[]).is_err() {
        return None;
    }
    let told = match Supervisor::start(order, channel, signals, stdio, groups, ahead, spare) {
        Err(failure) => SpawnerReply::Failed(failure),
        Ok((mut keeper, walls, mut text)) => {
            let started = SpawnerReply::Started {
                pid: keeper.main,
                limits: keeper.groups.report(),
                confinement: keeper.prepared.confinement().clone(),
                walls,
            };
            // Nobody to tell is seen as a closed channel below.
            let _ = message::send(channel, &started, &[]);
            // For who puts up walls like these. Without it they stand in for nothing.
            text.stood_in = keeper.prepared.placeholder_paths();
            let _ = text.update_memfd(order);
            let ended = keeper.run();
            let until = Instant::now().checked_add(text.ready_for);
            let (Some(used_before), Some(until)) = (keeper.stays_for_another, until) else {
                // What was made for the command where others see it is removed before its end is
                // told.
                keeper.prepared.cleanup();
                let _ = message::send(channel, &SpawnerReply::Ended(ended), &[]);
                // The groups of nobody may go while zero goes on.
                return None;
            };
            // First the warden: whoever hears of the end may have the next command at once.
            let is_free = message::send(warden, &WorkerEvent::WithWalls, &[]);
            let _ = message::send(channel, &SpawnerReply::Ended(ended), &[]);
            let Supervisor { main, prepared, mut groups, commands, .. } = keeper;
            groups.reset_counters();
            let walls = Namespaces { main, prepared, commands: commands + 1, used_before };
            let ahead = PrewarmedSandbox::from_finished(text, walls, until);
            return is_free.is_ok().then_some((groups, ahead));
        }
    };
    let _ = message::send(channel, &told, &[]);
    None
}

struct Supervisor<'a> {
    channel: &'a OwnedFd,
    signals: &'a OwnedFd,
    main: i32,
    prepared: PreparedCommand,
    groups: CommandCgroups,
    watch: LimitWatchdog,
    deadline: Option<Instant>,
    main_ended: Option<ChildExit>,
    /// How the command ended behind its walls, as was said there.
    said: Option<(ChildExit, ExitSummary)>,
    /// Whether it may yet be said.
    is_listening: bool,
    /// What was used before anything was killed: processor time, and memory of the largest.
    killed: ResourceUsage,
    /// What the children used that were noticed to have ended.
    reaped: ResourceUsage,
    /// Commands before this one behind the same walls.
    commands: u32,
    /// Processor time that the tree had used before this one.
    used_before: Duration,
    /// Whether the next command may be one of the same kind.
    may_stay: bool,
    /// Once the command has ended without a trace, and the walls stay for the next one: processor time
    /// that the tree has used.
    stays_for_another: Option<Duration>,
}

/// Whether there are children, ended or not.
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
        ahead: Option<PrewarmedSandbox>,
        spare: &HostCapabilities<'_>,
    ) -> Result<(Self, SandboxReuse, SpawnSpecMessage), LaunchFailure> {
        let at =
            |step: LaunchStep| move |error: io::Error| LaunchFailure::from_io_error(step, &error);
        let order = SpawnSpecMessage::from_memfd(order).map_err(at(LaunchStep::Order))?;
        let layers = order.layers.apply(spare.layers.clone());
        let net = match (order.joins, &layers.bubblewrap) {
            (false, _) => None,
            // Not without users beneath those whose the network is. The profile is told so.
            (true, Err(_)) => stdio.pop().and(None),
            (true, Ok(_)) => {
                let net = stdio.pop().ok_or(io::ErrorKind::InvalidInput.into());
                Some(net.and_then(NetworkEntryHandles::new).map_err(at(LaunchStep::Network))?)
            }
        };
        let net = net.as_ref();
        let start = CommandStart { order: &order, channel, signals, stdio: &stdio, layers, net };
        let StartedCommand { walls, groups, when } =
            start.start_in_sandbox(ahead, groups, spare.places)?;
        let Namespaces { main, prepared, commands, used_before } = walls;
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let limits = limits_with_sandbox(&order, &prepared);
        let watch = LimitWatchdog::new(own, &limits, groups.report(), used_before);
        // In a network of one's own something may last that was said there: see `traces`.
        let is_anybodys = !order.joins && order.profile.network != NetworkAccess::Loopback;
        let may_wait =
            !order.ready_for.is_zero() && Instant::now().checked_add(order.ready_for).is_some();
        let may_stay = is_anybodys && may_wait && commands + 1 < COMMANDS_MAX;
        // The streams belong to the command alone: its end has to be seen on them.
        drop(stdio);
        let deadline = order.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let keeper = Self {
            channel,
            signals,
            main,
            is_listening: prepared.report_fd().is_some(),
            said: None,
            prepared,
            groups,
            watch,
            deadline,
            main_ended: None,
            killed: ResourceUsage::default(),
            reaped: ResourceUsage::default(),
            commands,
            used_before,
            may_stay,
            stays_for_another: None,
        };
        Ok((keeper, when, order))
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
                let is_only_walls = self.is_only_sandbox_left();
                let left =
                    if is_only_walls { ChildPresence::Absent } else { self.wait_for_leftovers() };
                // Asked before the killing, which makes the tree run into its limits.
                let why = self.groups.find_exceeded_limit().unwrap_or(ExitCause::Finished);
                if is_only_walls {
                    if self.may_stay && why == ExitCause::Finished {
                        self.stays_for_another = self.check_clean();
                    }
                    if self.stays_for_another.is_none() {
                        self.prepared.close();
                        self.wait_for_sandbox_exit();
                    }
                }
                if left == ChildPresence::Present {
                    leftover_processes += self.kill_all();
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
            leftover_processes,
        }
    }

    /// What the command used: as was said inside, and where nothing was said or something was left,
    /// as it looks from here. That the walls stood for others before does not count.
    fn resource_usage(&self) -> ResourceUsage {
        let mut used = self.killed;
        if let Some((_, last)) = &self.said {
            used.cpu_time = used.cpu_time.max(last.used.cpu_time);
            used.largest_bytes = used.largest_bytes.max(last.used.largest_bytes);
        }
        if self.stays_for_another.is_none() {
            let ended = syscalls::children_usage().cpu_time.saturating_sub(self.used_before);
            used.cpu_time = used.cpu_time.max(ended);
            // The largest of those before may have been larger.
            if self.commands == 0 {
                used.largest_bytes = used.largest_bytes.max(self.reaped.largest_bytes);
            }
        }
        used
    }

    /// After it was said that nothing is left but the walls: whether that is so by the kernel's word,
    /// and another command would find them as this one did. Gives the processor time that the tree has
    /// used.
    fn check_clean(&mut self) -> Option<Duration> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        // Who is inside is below the first process there. Once nobody is, nobody can come.
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

    /// Hears what is said inside about the end of the command, if it is.
    fn read_init_reports(&mut self) {
        let Some(word) = self.prepared.report_fd().filter(|_| self.is_listening) else { return };
        let pid = self.main;
        self.said = match InitReport::read(word) {
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

    /// After the end, of the process that holds the namespaces or of all that came of the command:
    /// takes what was said inside for the end of the command, which is another process. Gives the
    /// number of processes it left.
    fn resolve_exit(&mut self) -> u32 {
        if self.prepared.report_fd().is_none() {
            return 0;
        }
        self.read_init_reports();
        self.is_listening = false;
        // Nothing is said by who was killed from outside, and all inside with it.
        let (signal, used) = (Some(libc::SIGKILL), ResourceUsage::default());
        let killed = ChildExit { pid: self.main, exit_code: None, signal, used };
        self.main_ended = Some(self.said.as_ref().map_or(killed, |(ended, _)| *ended));
        self.said.as_ref().map_or(0, |(_, last)| last.leftover)
    }

    /// Whether all that came of the command is gone, and what is left are its walls.
    fn is_only_sandbox_left(&self) -> bool {
        self.said.as_ref().is_some_and(|(_, last)| last.leftover == 0)
    }

    /// After it was said that nothing is left but the walls: waits until they are gone too.
    ///
    /// The first process of their namespace is gone only when all the others are, by the kernel's
    /// word. What was said inside is not enough to take away what stands in for missing files: who
    /// can make the one that counts be wrong could create them.
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

    /// The processes of the walls are not the command's.
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

    /// Waits until the main process ended, which gives nothing, or until there is a reason to end
    /// everything.
    fn wait_for_end(&mut self) -> Option<ExitCause> {
        let tick = if self.watch.is_needed() {
            Some(limit_watchdog::TICK)
        } else {
            self.groups.has_any().then_some(EVENTS_TICK)
        };
        let mut next_tick = tick.map(|tick| Instant::now() + tick);
        let mut leave_at = self.groups.is_inside().then(|| Instant::now() + LEAVE_AFTER);
        loop {
            // First of all: the signal that says so may have come before anybody listened.
            if self.has_ended() {
                return None;
            }
            let wake = self.deadline.into_iter().chain(next_tick).chain(leave_at).min();
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
        }
    }

    /// Whether the main process ended, or nothing is left of the command behind its walls.
    fn has_ended(&mut self) -> bool {
        self.reap();
        self.read_init_reports();
        self.main_ended.is_some() || self.is_only_sandbox_left()
    }

    /// After the main process: gives the others a moment to end by themselves.
    fn wait_for_leftovers(&mut self) -> ChildPresence {
        let until = Instant::now() + LEFTOVER_GRACE;
        while self.reap() == ChildPresence::Present {
            if self.wait_for_event(Some(until)).is_some() || Instant::now() >= until {
                return self.reap();
            }
        }
        ChildPresence::Absent
    }

    /// Sleeps until something happens or it is time. Gives a reason to end everything, if that is
    /// what happened.
    fn wait_for_event(&mut self, until: Option<Instant>) -> Option<ExitCause> {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let word = self.prepared.report_fd().filter(|_| self.is_listening);
        // Where nothing will be said, the channel stands in for it.
        let mut fds = [self.channel, self.signals, word.unwrap_or(self.channel)]
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

    /// Asks the command to end. Behind walls the last step knows which process that is, and passes
    /// the signal on.
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

    /// Takes note of children that ended, the main process among them.
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

    /// Kills everything below until nothing is left, and says how many that were.
    fn kill_all(&mut self) -> u32 {
        // A namespace that ends takes the accounts of its processes along.
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let tree = process_tree::descendants(own, &BTreeSet::new());
        let page = rustix::param::page_size() as u64;
        let largest = tree.iter().map(|process| process.resident_pages.saturating_mul(page)).max();
        self.killed = ResourceUsage {
            cpu_time: limit_watchdog::cpu_time(&tree).saturating_sub(self.used_before),
            largest_bytes: largest.unwrap_or_default(),
        };
        self.groups.kill();
        kill_descendants(&BTreeSet::new(), KILL_MAX, || self.reap() == ChildPresence::Absent)
    }
}

/// What is needed to start a command.
struct CommandStart<'a> {
    order: &'a SpawnSpecMessage,
    channel: &'a OwnedFd,
    signals: &'a OwnedFd,
    stdio: &'a [OwnedFd],
    layers: SandboxLayers,
    net: Option<&'a NetworkEntryHandles>,
}

/// Why a command is not behind its walls.
enum StartError {
    /// It cannot be started.
    Failed(LaunchFailure),
    /// Something on the host is not as it was a moment ago.
    HostChanged(String),
}

/// A command behind its walls.
struct StartedCommand {
    walls: Namespaces,
    groups: CommandCgroups,
    /// When they were put up.
    when: SandboxReuse,
}

/// The limits of the tree: the command's, and room for its walls.
pub(super) fn limits_with_sandbox(
    order: &SpawnSpecMessage,
    prepared: &PreparedCommand,
) -> ProcessLimits {
    let limits = order.profile.limits;
    let processes = limits.processes.saturating_add(prepared.sandbox_process_count());
    ProcessLimits { processes, ..limits }
}

impl CommandStart<'_> {
    /// Starts the command behind the walls put up ahead, or puts up others.
    fn start_in_sandbox(
        &self,
        ahead: Option<PrewarmedSandbox>,
        mut groups: CommandCgroups,
        places: &CgroupParents,
    ) -> Result<StartedCommand, LaunchFailure> {
        let SpawnSpecMessage { command, profile, limits_by, .. } = self.order;
        let ready =
            ahead.and_then(|ahead| ahead.assign_command(self.order, &self.layers, self.stdio));
        if let Some(walls) = ready {
            match self.wait_until_started(&walls.prepared) {
                Ok(()) => return Ok(StartedCommand { walls, groups, when: SandboxReuse::Ready }),
                Err(StartError::Failed(failure)) => return Err(failure),
                // Somebody ended them meanwhile; there are others.
                Err(StartError::HostChanged(_)) => {}
            }
        }
        let streams = launch::split_streams(self.stdio).ok_or(io::ErrorKind::InvalidInput.into());
        let streams =
            streams.map_err(|error| LaunchFailure::from_io_error(LaunchStep::Stdio, &error))?;
        let whose = if self.net.is_some() { NetworkOwner::Session } else { NetworkOwner::Own };
        // Listed once: one that comes later is like one that comes while the command runs, and those
        // that come and go would have to be hidden for ever.
        let sockets = HostSockets::for_command(profile, &command.folder);
        let (mut said, mut tries) = (String::new(), 0);
        for _ in 0..CHANGES_MAX {
            let prepared =
                PreparedCommand::new(profile, &self.layers, command, streams, whose, &sockets);
            let mut prepared = match prepared {
                Err(ConfineError::Changed(changed)) => {
                    said = changed.to_string();
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
                    let walls = Namespaces::new(main, prepared);
                    return Ok(StartedCommand { walls, groups, when: SandboxReuse::PutUp });
                }
                Err(StartError::Failed(failure)) => return Err(failure),
                Err(StartError::HostChanged(words)) => said = words,
            }
            tries += u32::from(!prepared.is_mount_source_missing());
            if tries >= SANDBOX_TRIES_MAX {
                break;
            }
        }
        let text = format!("its walls could not be put up: {said}");
        Err(LaunchFailure { step: LaunchStep::Confine, errno: None, text, gaps: Vec::new() })
    }

    /// Waits until the command runs behind its walls.
    fn wait_until_started(&self, prepared: &PreparedCommand) -> Result<(), StartError> {
        let Some(word) = prepared.report_fd() else { return Ok(()) };
        let failure = |step: LaunchStep, errno: i32| {
            let error = io::Error::from_raw_os_error(errno);
            StartError::Failed(LaunchFailure::from_io_error(step, &error))
        };
        loop {
            let not_up = match InitReport::read(word) {
                Ok(Some(InitReport::Started)) => return Ok(()),
                Ok(Some(InitReport::NotRun { step, errno })) => {
                    failure(LaunchStep::from_byte(step), errno)
                }
                Ok(_) => StartError::HostChanged(prepared.read_error_output()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.wait_is_cancelled(word) {
                        continue;
                    }
                    failure(LaunchStep::Order, libc::ECANCELED)
                }
                Err(error) => {
                    StartError::Failed(LaunchFailure::from_io_error(LaunchStep::Confine, &error))
                }
            };
            // Nothing of a command runs that did not start.
            kill_descendants(&BTreeSet::new(), KILL_MAX, || {
                while let ReapOutcome::Exited(_) = syscalls::reap() {}
                matches!(syscalls::reap(), ReapOutcome::NoChildren)
            });
            return Err(not_up);
        }
    }

    /// Sleeps until there is news, and says whether it is that nobody wants the command any more.
    fn wait_is_cancelled(&self, word: &OwnedFd) -> bool {
        let mut fds = [
            PollFd::new(word, PollFlags::IN),
            PollFd::new(self.channel, PollFlags::IN),
            PollFd::new(self.signals, PollFlags::IN),
        ];
        let _ = rustix::event::poll(&mut fds, None);
        let [_, channel, signals] = fds.map(|fd| !fd.revents().is_empty());
        // Nothing is asked before it has started, but the end of the channel is an end.
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

/// Kills everything below this process, except what is below `skipped`, until `is_over`. Says how
/// many processes that were.
///
/// There is no stop before the kill: a killed process forks as little as a stopped one, and what
/// is missed in one round is found in the next.
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
