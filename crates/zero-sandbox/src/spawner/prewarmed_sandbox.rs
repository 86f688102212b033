//! Sandboxes that are set up before there is a command for them.
//!
//! Setting up the sandbox takes most of the time to start a command, and consecutive commands
//! usually have the same profile. So a sandbox in which a command left nothing is kept for the next
//! one. If there is none, an idle worker sets up a sandbox like that of the last command. A
//! [`PrewarmedSandbox`] is kept for a limited time only, because the placeholders for missing files
//! stay on the host as long as it exists.
//!
//! A command with another profile, or one that comes after the host has changed, gets a new
//! sandbox.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::launch::{self, LaunchContext};
use super::message::{self, SpawnSpecMessage, WorkerEvent, WorkerTask};
use super::supervisor::{self, KILL_MAX};
use super::syscalls::{self, ReapOutcome};
use super::{LimitEnforcerChoice, server};
use crate::cgroup::CommandCgroups;
use crate::confinement::{NetworkOwner, PreparedCommand};
use crate::layer_probe::SandboxLayers;
use crate::shared_network::{NetworkEntryHandles, NetworkIdentity};

/// How long prewarming may take. Nothing waits for it, but a command may arrive meanwhile and would
/// take as long to set up its own.
const PREPARE_MAX: Duration = Duration::from_secs(10);

/// A running sandbox that contains no process but our init process.
pub(super) struct PrewarmedSandbox {
    /// The spec it was set up for.
    like: SpawnSpecMessage,
    /// `None` once a command has taken it.
    namespaces: Option<Namespaces>,
    until: Instant,
}

/// The namespaces of a sandbox: of a running, finished or future command.
pub(super) struct Namespaces {
    /// The process that holds the namespaces.
    pub(super) main: i32,
    pub(super) prepared: PreparedCommand,
    /// How many commands have run in it and ended.
    pub(super) commands: u32,
    /// Processor time that these commands used.
    pub(super) used_before: Duration,
    /// The network of a session that they joined, which its processes keep alive.
    pub(super) network: Option<NetworkIdentity>,
}

impl Namespaces {
    /// Namespaces that have just been created.
    pub(super) fn new(
        main: i32,
        prepared: PreparedCommand,
        network: Option<NetworkIdentity>,
    ) -> Self {
        let used_before = syscalls::children_usage().cpu_time;
        Self { main, prepared, commands: 0, used_before, network }
    }
}

/// The worker was asked to exit.
struct SupervisorShutdown;

/// Waits for a command, with the sandbox of the last one if there is one, and prewarms sandboxes on
/// request meanwhile. Returns `None` when the worker is to exit.
pub(super) fn wait_for_command(
    orders: &OwnedFd,
    signals: &OwnedFd,
    mut sandbox: Option<PrewarmedSandbox>,
    groups: &mut CommandCgroups,
    spare: &server::HostCapabilities<'_>,
) -> Option<(Vec<OwnedFd>, Option<PrewarmedSandbox>)> {
    loop {
        let left = sandbox.as_ref().map(|it| it.until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            sandbox = None;
            report_bare(orders, groups);
            continue;
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = [orders, signals].map(|fd| PollFd::new(fd, PollFlags::IN));
        let _ = rustix::event::poll(&mut fds, timeout.as_ref());
        let [order, signal] = fds.map(|fd| !fd.revents().is_empty());
        if signal && syscalls::read_signals(signals).contains(&libc::SIGTERM) {
            return None;
        }
        if !order {
            continue;
        }
        match message::receive::<WorkerTask>(orders) {
            Ok(Some((WorkerTask::Run, fds))) => return Some((fds, sandbox)),
            Ok(Some((WorkerTask::Prewarm, handles))) => {
                let mut handles = handles.into_iter();
                if let (None, Some(like)) = (&sandbox, handles.next()) {
                    let net = handles.next();
                    sandbox = match PrewarmedSandbox::prepare(&like, net, groups, spare, signals) {
                        Ok(sandbox) => sandbox,
                        Err(SupervisorShutdown) => return None,
                    };
                }
                if sandbox.is_none() {
                    report_bare(orders, groups);
                }
            }
            Ok(Some((WorkerTask::Discard, handles))) => {
                sandbox = None;
                drop(handles);
                report_bare(orders, groups);
            }
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Reports that this worker has no sandbox any more. The spawner may have sent a command meanwhile,
/// so it is the spawner that drops a worker. A worker that has left its groups would have to join
/// them again, which takes as long as starting another worker.
fn report_bare(orders: &OwnedFd, groups: &CommandCgroups) {
    let word = if groups.has_left() { WorkerEvent::Useless } else { WorkerEvent::Idle };
    // If the spawner process has ended, the closed channel is noticed later.
    let _ = message::send(orders, &word, &[]);
}

impl PrewarmedSandbox {
    /// Keeps the sandbox of a command that has ended and left nothing, until `until`.
    pub(super) fn from_finished(
        like: SpawnSpecMessage,
        namespaces: Namespaces,
        until: Instant,
    ) -> Self {
        Self { like, namespaces: Some(namespaces), until }
    }

    /// Sets up a sandbox for a spec like the one in this file, and waits until it runs. Returns
    /// `None` if nothing has to be set up or if it fails: the next command then reports why.
    fn prepare(
        like: &OwnedFd,
        net: Option<OwnedFd>,
        groups: &mut CommandCgroups,
        spare: &server::HostCapabilities<'_>,
        signals: &OwnedFd,
    ) -> Result<Option<Self>, SupervisorShutdown> {
        let Some(mut sandbox) = Self::start_preparing(like, net, groups, spare) else {
            return Ok(None);
        };
        let Some(Namespaces { prepared, .. }) = &mut sandbox.namespaces else { return Ok(None) };
        let until = Instant::now() + PREPARE_MAX;
        while let Some(init_channel) = prepared.init_channel() {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [init_channel, signals].map(|fd| PollFd::new(fd, PollFlags::IN));
            let _ = rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref());
            let [is_news, signal] = fds.map(|fd| !fd.revents().is_empty());
            if signal && syscalls::read_signals(signals).contains(&libc::SIGTERM) {
                return Err(SupervisorShutdown);
            }
            if is_news {
                return Ok(prepared.is_ready().then_some(sandbox));
            }
            if left.is_zero() {
                break;
            }
        }
        Ok(None)
    }

    /// Starts to set up a sandbox, in the network `net` if the last command joined one.
    fn start_preparing(
        like: &OwnedFd,
        net: Option<OwnedFd>,
        groups: &mut CommandCgroups,
        spare: &server::HostCapabilities<'_>,
    ) -> Option<Self> {
        let like = SpawnSpecMessage::from_memfd(like).ok()?;
        if like.joins != net.is_some() || like.ready_for.is_zero() {
            return None;
        }
        let net = match net {
            Some(net) => Some(NetworkEntryHandles::new(net).ok()?),
            None => None,
        };
        let network = match &net {
            Some(net) => Some(net.identity().ok()?),
            None => None,
        };
        let layers = like.layers.apply(spare.layers.clone());
        let folder = &like.command.folder;
        let owner = NetworkOwner::for_network(network);
        let prepared =
            PreparedCommand::prewarm(&like.profile, &layers, folder, owner, &like.stood_in)
                .ok()??;
        if like.limits_by == LimitEnforcerChoice::Best {
            groups.set_limits(spare.places, &supervisor::limits_with_sandbox(&like, &prepared));
        }
        let launch = LaunchContext {
            prepared: &prepared,
            folder: "/".as_ref(),
            stdio: &[],
            net: net.as_ref(),
        };
        let main = launch.start_in_cgroups(groups).ok()?;
        let until = Instant::now().checked_add(like.ready_for)?;
        let mut namespaces = Namespaces::new(main, prepared, network);
        namespaces.prepared.release_launch_handles();
        Some(Self { like, namespaces: Some(namespaces), until })
    }

    /// Starts a command in the sandbox if it matches; otherwise the sandbox is removed.
    pub(super) fn assign_command(
        mut self,
        order: &SpawnSpecMessage,
        layers: &SandboxLayers,
        network: Option<NetworkIdentity>,
        (stdio, capture): (&[OwnedFd], Option<&OwnedFd>),
    ) -> Option<Namespaces> {
        let SpawnSpecMessage { command, profile, limits_by, layers: used, .. } = order;
        let like = &self.like;
        if (profile, limits_by, used) != (&like.profile, &like.limits_by, &like.layers) {
            return None;
        }
        let streams = launch::split_streams(stdio)?;
        let namespaces = self.namespaces.as_mut()?;
        // A process cannot move from one network to another after it was confined.
        if namespaces.network != network {
            return None;
        }
        let owner = NetworkOwner::for_network(network);
        if namespaces.prepared.assign_command(profile, layers, command, owner, (streams, capture)) {
            self.namespaces.take()
        } else {
            None
        }
    }
}

impl Drop for PrewarmedSandbox {
    fn drop(&mut self) {
        let Some(Namespaces { mut prepared, .. }) = self.namespaces.take() else { return };
        supervisor::kill_descendants(&BTreeSet::new(), KILL_MAX, || {
            while let ReapOutcome::Exited(_) = syscalls::reap() {}
            matches!(syscalls::reap(), ReapOutcome::NoChildren)
        });
        prepared.cleanup();
        // Placeholders that a command could not remove because this sandbox used them too.
        crate::confinement::sweep_placeholders(&self.like.profile.tmp);
    }
}
