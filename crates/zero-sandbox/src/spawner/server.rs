//! The main loop of the spawner process: it receives requests and passes each to a worker.
//!
//! [`SpawnerServer`] neither reads specs nor starts programs, so little can go wrong in it. It ends
//! when zero ends, and then ends every worker and everything below it.
//!
//! A worker is a process forked from the spawner that supervises one command at a time. Workers
//! without a command wait in the [`worker_pool`](super::worker_pool), some with the sandbox of an
//! earlier command.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};

use super::message::{self, LaunchFailure, LaunchStep, SpawnerReply, SpawnerRequest};
use super::supervisor::SpawnHandles;
use super::syscalls::{self, ForkOutcome, ReapOutcome};
use super::worker_pool::{PoolEvent, Worker, WorkerPool};
use super::{prewarmed_sandbox, supervisor};
use crate::cgroup::{self, CgroupParents, CommandCgroups};
use crate::layer_probe::SandboxLayers;

/// How long workers may take to end their process trees before the spawner kills them. A killed
/// worker leaves placeholders for missing files behind, so this is longer than the delay on a busy
/// machine.
const SUPERVISORS_EXIT_MAX: Duration = Duration::from_secs(5);
/// How long the spawner must be idle before it prepares a worker for the next command. Joining a
/// control group blocks every process that starts or ends meanwhile, the last command included, so
/// this is longer than a command takes to start.
const IDLE_BEFORE_PREWARM: Duration = Duration::from_millis(10);
/// How often a command is offered to a worker: waiting workers may have been killed from outside.
const OFFERS_MAX: u32 = 8;
/// How long the spawner tries to kill remaining processes.
const KILL_MAX: Duration = Duration::from_secs(5);

/// Runs the spawner process on a descriptor, usually its standard input, until the other side is
/// closed. Returns the exit code.
#[must_use]
pub(crate) fn main(socket: RawFd) -> i32 {
    match SpawnerServer::start(socket) {
        Ok(mut server) => {
            server.serve();
            server.shut_down();
            0
        }
        Err(_) => 1,
    }
}

struct SpawnerServer {
    orders: OwnedFd,
    signals: OwnedFd,
    workers: BTreeSet<i32>,
    /// The names of the control groups of the workers, by process ID.
    groups: BTreeMap<i32, String>,
    pool: WorkerPool,
    /// The spec of the last command, the network that it joined, and the key of its sandbox, to prewarm another one.
    last: Option<(u64, Vec<OwnedFd>)>,
    /// Whether to prewarm a sandbox when idle.
    is_due: bool,
    places: CgroupParents,
    layers: SandboxLayers,
}

/// What the next command is likely to need.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextCommandHint {
    /// The same sandbox as this command.
    Same,
    /// The same, in the network that this command joined.
    SameNetwork,
    /// Another sandbox, like the commands before this one.
    Other,
}

/// What a waiting worker knows about the machine.
pub(super) struct HostCapabilities<'a> {
    pub(super) places: &'a CgroupParents,
    pub(super) layers: &'a SandboxLayers,
}

impl SpawnerServer {
    fn start(socket: RawFd) -> std::io::Result<Self> {
        // In its own session: a key that interrupts zero must not end the spawner before zero.
        let _ = rustix::process::setsid();
        let orders = syscalls::detach_keeping(socket)?;
        // Probed before signals are blocked and children are counted, since probing starts
        // processes.
        let layers = SandboxLayers::probe();
        crate::confinement::syscall_filter::compile_all();
        // Every started process inherits this; signals that zero ignores must not be ignored there.
        syscalls::reset_signals();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let signals = syscalls::open_signal_fd(&[
            libc::SIGCHLD,
            libc::SIGTERM,
            libc::SIGINT,
            libc::SIGHUP,
            libc::SIGPIPE,
        ])?;
        let places = CgroupParents::find();
        cgroup::sweep(&places);
        Ok(Self {
            orders,
            signals,
            workers: BTreeSet::new(),
            groups: BTreeMap::new(),
            pool: WorkerPool::default(),
            last: None,
            is_due: false,
            places,
            layers,
        })
    }

    /// Handles requests until zero ends or SIGTERM arrives.
    fn serve(&mut self) {
        loop {
            let own = [&self.orders, &self.signals].map(|fd| PollFd::new(fd, PollFlags::IN));
            let pool = self.pool.channels().map(|fd| PollFd::new(fd, PollFlags::IN));
            let mut fds: Vec<PollFd<'_>> = own.into_iter().chain(pool).collect();
            let has_work = self.is_due || !self.pool.has_bare_worker();
            let timeout = has_work.then(|| Timespec::try_from(IDLE_BEFORE_PREWARM).ok());
            let count = rustix::event::poll(&mut fds, timeout.flatten().as_ref());
            let mut ready_sockets = fds.iter().map(|fd| !fd.revents().is_empty());
            let (order, signal) =
                (ready_sockets.next() == Some(true), ready_sockets.next() == Some(true));
            // Before requests: a worker reports that it is free before it reports the end of its
            // command.
            let readable: Vec<bool> = ready_sockets.collect();
            if self.pool.receive_events(&readable) == PoolEvent::WorkerExited {
                // Its sandbox is gone with it. Prewarm another one now, since the next command may
                // take a while to arrive.
                self.is_due = true;
            }
            if count == Ok(0) && has_work {
                self.do_idle_work();
            }
            if signal {
                let received = syscalls::read_signals(&self.signals);
                if received.contains(&libc::SIGTERM) {
                    return;
                }
                self.reap();
            }
            if order {
                match message::receive::<SpawnerRequest>(&self.orders) {
                    Ok(Some((SpawnerRequest::Command { like, joins: false }, fds))) => {
                        self.assign_command(&fds, like, NextCommandHint::Same);
                    }
                    Ok(Some((SpawnerRequest::Command { like, joins: true }, fds))) => {
                        self.assign_command(&fds, like, NextCommandHint::SameNetwork);
                    }
                    Ok(Some((SpawnerRequest::Single { like }, fds))) => {
                        self.assign_command(&fds, like, NextCommandHint::Other)
                    }
                    Ok(Some((SpawnerRequest::Discard, fds))) => self.release_prewarmed(&fds),
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }

    /// Does work ahead of the next command. None of it is required: a step that fails here is tried
    /// again, and reported, when a command is requested.
    fn do_idle_work(&mut self) {
        if !self.pool.has_bare_worker() {
            let _ = self.fork_worker(&[]);
        }
        self.is_due = false;
        if let Some((like, order)) = &self.last {
            self.pool.prewarm(*like, order);
        }
    }

    /// Removes prewarmed sandboxes, and prewarms none until the next command.
    fn release_prewarmed(&mut self, fds: &[OwnedFd]) {
        self.last = None;
        let passed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        self.pool.release_prewarmed(&passed);
    }

    /// Passes a command to a waiting worker, preferably one with a matching sandbox.
    fn assign_command(&mut self, fds: &[OwnedFd], like: u64, next: NextCommandHint) {
        let [order, channel, ..] = fds else { return };
        let passed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let mut failed = None;
        for _ in 0..OFFERS_MAX {
            if !self.pool.has_worker_for(like)
                && let Err(error) = self.fork_worker(fds)
            {
                failed = Some(error);
            }
            match self.pool.offer(like, &passed) {
                Some(Ok(())) => {
                    let kept_descriptors = match next {
                        NextCommandHint::Same => Some(vec![order]),
                        NextCommandHint::SameNetwork => fds.last().map(|net| vec![order, net]),
                        NextCommandHint::Other => None,
                    };
                    if let Some(descriptors) = kept_descriptors {
                        let copies = descriptors.into_iter().map(OwnedFd::try_clone);
                        self.last = copies.collect::<Result<_, _>>().ok().map(|kept| (like, kept));
                    }
                    return;
                }
                // The worker was killed; try another one.
                Some(Err(error)) => failed = Some(error),
                None => {}
            }
        }
        if let Some(error) = failed {
            let failed =
                SpawnerReply::Failed(LaunchFailure::from_io_error(LaunchStep::Fork, &error));
            let _ = message::send(channel, &failed, &[]);
        }
    }

    /// Forks a worker that waits for its first command, already in its own control groups where
    /// joining them is slow.
    ///
    /// The worker closes the descriptors of the request in `held`: it receives its own copies, and
    /// a second copy of a command's streams would hide that the command has closed them. It also
    /// closes the channels to other workers, each of which ends when the spawner closes its
    /// channel.
    fn fork_worker(&mut self, descriptors: &[OwnedFd]) -> std::io::Result<()> {
        let (ready, orders) = message::create_channel()?;
        let spawner = rustix::process::getpid();
        match syscalls::fork()? {
            ForkOutcome::Parent(pid) => {
                self.workers.insert(pid);
                if let Some(name) = cgroup::name_for_process(pid) {
                    self.groups.insert(pid, name);
                }
                self.pool.add(Worker::new(ready));
            }
            ForkOutcome::Child => {
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
                drop(ready);
                descriptors.iter().for_each(syscalls::close_in_child);
                if rustix::process::getppid() == Some(spawner) {
                    self.drop_spawner_state();
                    self.run_worker(&orders);
                }
                syscalls::exit(0)
            }
        }
        Ok(())
    }

    /// Runs in a worker: waits for commands and supervises them one after another.
    fn run_worker(&mut self, orders: &OwnedFd) {
        let Ok(signals) = supervisor::become_reaper() else { return };
        let capabilities = HostCapabilities { places: &self.places, layers: &self.layers };
        let (mut groups, mut next_sandbox) = (CommandCgroups::join_ahead(&self.places), None);
        // Ends when the worker is not to be reused.
        loop {
            let order = prewarmed_sandbox::wait_for_command(
                orders,
                &signals,
                next_sandbox,
                &mut groups,
                &capabilities,
            );
            let Some((fds, sandbox)) = order else { return };
            let mut fds = fds.into_iter();
            let (Some(order), Some(channel)) = (fds.next(), fds.next()) else { return };
            let handles = SpawnHandles { order, channel, stdio: fds.collect() };
            match supervisor::supervise(handles, &signals, groups, sandbox, &capabilities, orders) {
                Some((kept, sandbox)) => (groups, next_sandbox) = (kept, Some(sandbox)),
                None => return,
            }
        }
    }

    /// Runs in a worker: drops the state that belongs to the spawner.
    fn drop_spawner_state(&mut self) {
        self.workers.clear();
        self.groups.clear();
        self.pool = WorkerPool::default();
        self.last = None;
        syscalls::close_in_child(&self.orders);
        syscalls::close_in_child(&self.signals);
    }

    /// Reaps workers that ended. The processes of a killed worker are now children of the spawner
    /// and are killed.
    fn reap(&mut self) {
        let mut lost = false;
        while let ReapOutcome::Exited(reaped) = syscalls::reap() {
            let was_worker = self.workers.remove(&reaped.pid);
            let name = self.groups.remove(&reaped.pid);
            match name {
                _ if was_worker && reaped.exit_code != Some(0) => lost = true,
                Some(name) => cgroup::remove_named(&self.places, &name),
                None => {}
            }
        }
        if lost {
            let workers = &mut self.workers;
            supervisor::kill_descendants(&workers.clone(), KILL_MAX, || {
                while let ReapOutcome::Exited(reaped) = syscalls::reap() {
                    workers.remove(&reaped.pid);
                }
                let own = rustix::process::getpid().as_raw_nonzero().get();
                crate::process_tree::descendants(own, workers).is_empty()
            });
            cgroup::sweep(&self.places);
        }
    }

    /// Ends every worker and everything below it.
    fn shut_down(&mut self) {
        self.pool = WorkerPool::default();
        for worker in self.workers.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = rustix::process::kill_process(worker, Signal::TERM);
        }
        let until = Instant::now() + SUPERVISORS_EXIT_MAX;
        while Instant::now() < until {
            if has_no_children() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if !has_no_children() {
            supervisor::kill_descendants(&BTreeSet::new(), KILL_MAX, has_no_children);
        }
        cgroup::sweep(&self.places);
    }
}

fn has_no_children() -> bool {
    loop {
        match syscalls::reap() {
            ReapOutcome::Exited(_) => {}
            ReapOutcome::StillRunning => return false,
            ReapOutcome::NoChildren => return true,
        }
    }
}
