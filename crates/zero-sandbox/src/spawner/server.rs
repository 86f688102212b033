//! The warden itself: takes orders and gives each to a keeper of its own.
//!
//! It reads no order and starts no program, so there is little that could go wrong in it. It ends
//! when the process it works for does, and takes every keeper and everything below with it.
//!
//! Keepers that have no command wait for one, some behind walls of the commands before: see
//! [`worker_pool`](super::posts).

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

/// How long keepers may take to end their trees before the warden does it itself. One that is killed
/// leaves what stands in for missing files, so it is longer than a busy machine makes them wait.
const SUPERVISORS_EXIT_MAX: Duration = Duration::from_secs(5);
/// How long there has to be nothing to do before a keeper is made ready for the next command: who
/// joins a group holds up whoever starts or ends a process meanwhile, the last command among them.
/// So it is longer than a command takes to start.
const IDLE_BEFORE_PREWARM: Duration = Duration::from_millis(10);
/// How often an order is offered to a keeper: somebody may kill those that wait.
const OFFERS_MAX: u32 = 8;
/// How long the warden kills then.
const KILL_MAX: Duration = Duration::from_secs(5);

/// Runs the warden on a descriptor, its standard input as a rule, until the other side is closed.
/// Gives the code to exit with.
#[must_use]
pub fn main(socket: RawFd) -> i32 {
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
    keepers: BTreeSet<i32>,
    /// The names of the groups they are in.
    groups: BTreeMap<i32, String>,
    /// Where they take orders.
    posts: WorkerPool,
    /// The last order, and which others are like it, for a keeper to put up the walls it asked for.
    last: Option<(u64, OwnedFd)>,
    /// Whether to tell one so, when there is nothing else to do.
    is_due: bool,
    places: CgroupParents,
    layers: SandboxLayers,
}

/// What the command after this one is likely to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextCommandHint {
    /// One that wants the same walls.
    Same,
    /// Another, like those before this one.
    Other,
}

/// What a keeper that waits for its command knows of the machine.
pub(super) struct HostCapabilities<'a> {
    pub(super) places: &'a CgroupParents,
    pub(super) layers: &'a SandboxLayers,
}

impl SpawnerServer {
    fn start(socket: RawFd) -> std::io::Result<Self> {
        // Not in the terminal's group: what ends zero by a key must not end the warden before it.
        let _ = rustix::process::setsid();
        let orders = syscalls::detach_keeping(socket)?;
        // Tried before signals are held back and children counted: it starts some.
        let layers = SandboxLayers::probe();
        crate::confinement::syscall_filter::compile_all();
        // Inherited by everything that is started: nothing is ignored that zero ignores.
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
            keepers: BTreeSet::new(),
            groups: BTreeMap::new(),
            posts: WorkerPool::default(),
            last: None,
            is_due: false,
            places,
            layers,
        })
    }

    /// Takes orders until there can be no more.
    fn serve(&mut self) {
        loop {
            let own = [&self.orders, &self.signals].map(|fd| PollFd::new(fd, PollFlags::IN));
            let posts = self.posts.channels().map(|fd| PollFd::new(fd, PollFlags::IN));
            let mut fds: Vec<PollFd<'_>> = own.into_iter().chain(posts).collect();
            let has_work = self.is_due || !self.posts.has_bare_worker();
            let timeout = has_work.then(|| Timespec::try_from(IDLE_BEFORE_PREWARM).ok());
            let count = rustix::event::poll(&mut fds, timeout.flatten().as_ref());
            let mut news = fds.iter().map(|fd| !fd.revents().is_empty());
            let (order, signal) = (news.next() == Some(true), news.next() == Some(true));
            // Before any order: whoever told of the end of a command was free before that.
            let news: Vec<bool> = news.collect();
            if self.posts.receive_events(&news) == PoolEvent::WorkerExited {
                // Its walls are gone with it. The next command may be long in coming: others stand for
                // a while from now on.
                self.is_due = true;
            }
            if count == Ok(0) && has_work {
                self.do_idle_work();
            }
            if signal {
                let came = syscalls::read_signals(&self.signals);
                if came.contains(&libc::SIGTERM) {
                    return;
                }
                self.reap();
            }
            if order {
                match message::receive::<SpawnerRequest>(&self.orders) {
                    Ok(Some((SpawnerRequest::Command { like }, fds))) => {
                        self.assign_command(&fds, like, NextCommandHint::Same);
                    }
                    Ok(Some((SpawnerRequest::Single { like }, fds))) => {
                        self.assign_command(&fds, like, NextCommandHint::Other)
                    }
                    Ok(Some((SpawnerRequest::Rest, fds))) => self.release_prewarmed(&fds),
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }

    /// Does what is done ahead: nothing of it is needed, and what fails is tried again when there is
    /// an order, and told then.
    fn do_idle_work(&mut self) {
        if !self.posts.has_bare_worker() {
            let _ = self.fork_worker(&[]);
        }
        self.is_due = false;
        if let Some((like, order)) = &self.last {
            self.posts.prewarm(*like, order);
        }
    }

    /// Has no walls stand ready until there is another command.
    fn release_prewarmed(&mut self, fds: &[OwnedFd]) {
        self.last = None;
        let passed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        self.posts.release_prewarmed(&passed);
    }

    /// Gives an order to a keeper that waits: if there is one, behind walls of another order like it.
    fn assign_command(&mut self, fds: &[OwnedFd], like: u64, next: NextCommandHint) {
        let [order, channel, ..] = fds else { return };
        let passed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let mut failed = None;
        for _ in 0..OFFERS_MAX {
            if !self.posts.has_worker_for(like)
                && let Err(error) = self.fork_worker(fds)
            {
                failed = Some(error);
            }
            match self.posts.offer(like, &passed) {
                Some(Ok(())) => {
                    if next == NextCommandHint::Same {
                        self.last = order.try_clone().ok().map(|order| (like, order));
                    }
                    return;
                }
                // Somebody killed it; there are others.
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

    /// Forks a keeper that waits for its first command, in groups of its own where joining
    /// them takes time. What the warden holds of an order is not for it: it gets its own, and what
    /// else it held of a command's streams would hide that the command has closed them. Nor are the
    /// ways to other keepers, each of which ends when the warden has let go of it.
    fn fork_worker(&mut self, held: &[OwnedFd]) -> std::io::Result<()> {
        let (ready, orders) = message::create_channel()?;
        let warden = rustix::process::getpid();
        match syscalls::fork()? {
            ForkOutcome::Parent(pid) => {
                self.keepers.insert(pid);
                if let Some(name) = cgroup::name_for_process(pid) {
                    self.groups.insert(pid, name);
                }
                self.posts.add(Worker::new(ready));
            }
            ForkOutcome::Child => {
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
                drop(ready);
                held.iter().for_each(syscalls::close_in_child);
                if rustix::process::getppid() == Some(warden) {
                    self.drop_spawner_state();
                    self.run_worker(&orders);
                }
                syscalls::exit(0)
            }
        }
        Ok(())
    }

    /// In a keeper: waits for an order and keeps its command, and the next one if it can.
    fn run_worker(&mut self, orders: &OwnedFd) {
        let Ok(signals) = supervisor::become_reaper() else { return };
        let spare = HostCapabilities { places: &self.places, layers: &self.layers };
        let (mut groups, mut walls) = (CommandCgroups::join_ahead(&self.places), None);
        // Ends with a keeper that is not to go on.
        loop {
            let order =
                prewarmed_sandbox::wait_for_command(orders, &signals, walls, &mut groups, &spare);
            let Some((fds, ahead)) = order else { return };
            let mut fds = fds.into_iter();
            let (Some(order), Some(channel)) = (fds.next(), fds.next()) else { return };
            let given = SpawnHandles { order, channel, stdio: fds.collect() };
            match supervisor::supervise(given, &signals, groups, ahead, &spare, orders) {
                Some((kept, ahead)) => (groups, walls) = (kept, Some(ahead)),
                None => return,
            }
        }
    }

    /// In a keeper: lets go of what is the warden's.
    fn drop_spawner_state(&mut self) {
        self.keepers.clear();
        self.groups.clear();
        self.posts = WorkerPool::default();
        self.last = None;
        syscalls::close_in_child(&self.orders);
        syscalls::close_in_child(&self.signals);
    }

    /// Takes note of keepers that ended. What a killed one leaves is ours now, and ends.
    fn reap(&mut self) {
        let mut lost = false;
        while let ReapOutcome::Exited(reaped) = syscalls::reap() {
            let was_kept = self.keepers.remove(&reaped.pid);
            let name = self.groups.remove(&reaped.pid);
            match name {
                _ if was_kept && reaped.exit_code != Some(0) => lost = true,
                Some(name) => cgroup::remove_named(&self.places, &name),
                None => {}
            }
        }
        if lost {
            let keepers = &mut self.keepers;
            supervisor::kill_descendants(&keepers.clone(), KILL_MAX, || {
                while let ReapOutcome::Exited(reaped) = syscalls::reap() {
                    keepers.remove(&reaped.pid);
                }
                let own = rustix::process::getpid().as_raw_nonzero().get();
                crate::process_tree::descendants(own, keepers).is_empty()
            });
            cgroup::sweep(&self.places);
        }
    }

    /// Ends every keeper and everything below.
    fn shut_down(&mut self) {
        self.posts = WorkerPool::default();
        for keeper in self.keepers.iter().filter_map(|pid| Pid::from_raw(*pid)) {
            let _ = rustix::process::kill_process(keeper, Signal::TERM);
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
