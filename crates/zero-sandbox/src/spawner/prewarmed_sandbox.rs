//! Walls that stand before there is a command to go behind them.
//!
//! Most of what it takes to start a command is to put up its walls, and commands come one after
//! another under the same profile. So walls in which a command left nothing wait for the next one.
//! And where there are none such, a keeper that waits for an order puts up those that the last one had,
//! once there is nothing else to do. They stand for a while only: what stands in for missing files on
//! the host goes with them.
//!
//! An order that asks for anything else, or comes when the host has changed, gets walls of its own.

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
use crate::confinement::PreparedCommand;
use crate::layer_probe::SandboxLayers;

/// How long walls may take to stand. Nobody waits for them, but an order may come, which would take as
/// long to have its own.
const PREPARE_MAX: Duration = Duration::from_secs(10);

/// Walls that stand, and nothing behind them but our last step.
pub(super) struct PrewarmedSandbox {
    /// The order they are like.
    like: SpawnSpecMessage,
    /// Nothing when a command has taken them.
    walls: Option<Namespaces>,
    until: Instant,
}

/// The walls of a command, of one before it, or of one to come.
pub(super) struct Namespaces {
    /// The process that holds the namespaces.
    pub(super) main: i32,
    pub(super) prepared: PreparedCommand,
    /// Commands that were behind them and have ended.
    pub(super) commands: u32,
    /// Processor time that was used for these.
    pub(super) used_before: Duration,
}

impl Namespaces {
    /// Those that have just been put up.
    pub(super) fn new(main: i32, prepared: PreparedCommand) -> Self {
        let used_before = syscalls::children_usage().cpu_time;
        Self { main, prepared, commands: 0, used_before }
    }
}

/// The keeper is to end.
struct SupervisorShutdown;

/// Waits for an order, with the walls of the last one if they are there, putting up others meanwhile
/// as often as that is asked for. Nothing when there will be no order.
pub(super) fn wait_for_command(
    orders: &OwnedFd,
    signals: &OwnedFd,
    mut ahead: Option<PrewarmedSandbox>,
    groups: &mut CommandCgroups,
    spare: &server::HostCapabilities<'_>,
) -> Option<(Vec<OwnedFd>, Option<PrewarmedSandbox>)> {
    loop {
        let left = ahead.as_ref().map(|it| it.until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            ahead = None;
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
            Ok(Some((WorkerTask::Keep, fds))) => return Some((fds, ahead)),
            Ok(Some((WorkerTask::PutUp, handles))) => {
                if let (None, Some(like)) = (&ahead, handles.first()) {
                    ahead = match PrewarmedSandbox::prepare(like, groups, spare, signals) {
                        Ok(ahead) => ahead,
                        Err(SupervisorShutdown) => return None,
                    };
                }
                if ahead.is_none() {
                    report_bare(orders, groups);
                }
            }
            Ok(Some((WorkerTask::TakeDown, handles))) => {
                ahead = None;
                drop(handles);
                report_bare(orders, groups);
            }
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Says that no walls stand here any more. The warden may have given an order meanwhile, so it is the
/// warden who lets go of a keeper: one that left its groups would have to go there again, which takes
/// as long as another keeper does.
fn report_bare(orders: &OwnedFd, groups: &CommandCgroups) {
    let word = if groups.has_left() { WorkerEvent::Useless } else { WorkerEvent::Bare };
    // A warden that is gone is seen as a closed channel.
    let _ = message::send(orders, &word, &[]);
}

impl PrewarmedSandbox {
    /// The walls of an order whose command has ended and left nothing, for the next one until then.
    pub(super) fn from_finished(like: SpawnSpecMessage, walls: Namespaces, until: Instant) -> Self {
        Self { like, walls: Some(walls), until }
    }

    /// Puts up the walls of an order like the one in this file, and waits until they stand. None
    /// where there is nothing to put up or it does not work: then the next command finds out why.
    fn prepare(
        like: &OwnedFd,
        groups: &mut CommandCgroups,
        spare: &server::HostCapabilities<'_>,
        signals: &OwnedFd,
    ) -> Result<Option<Self>, SupervisorShutdown> {
        let Some(mut ahead) = Self::start_preparing(like, groups, spare) else { return Ok(None) };
        let Some(Namespaces { prepared, .. }) = &mut ahead.walls else { return Ok(None) };
        let until = Instant::now() + PREPARE_MAX;
        while let Some(door) = prepared.init_channel() {
            let left = until.saturating_duration_since(Instant::now());
            let mut fds = [door, signals].map(|fd| PollFd::new(fd, PollFlags::IN));
            let _ = rustix::event::poll(&mut fds, Timespec::try_from(left).ok().as_ref());
            let [is_news, signal] = fds.map(|fd| !fd.revents().is_empty());
            if signal && syscalls::read_signals(signals).contains(&libc::SIGTERM) {
                return Err(SupervisorShutdown);
            }
            if is_news {
                return Ok(prepared.is_ready().then_some(ahead));
            }
            if left.is_zero() {
                break;
            }
        }
        Ok(None)
    }

    /// Begins to put them up.
    fn start_preparing(
        like: &OwnedFd,
        groups: &mut CommandCgroups,
        spare: &server::HostCapabilities<'_>,
    ) -> Option<Self> {
        let like = SpawnSpecMessage::from_memfd(like).ok()?;
        // A network that several share is one of the order's handles.
        if like.joins || like.ready_for.is_zero() {
            return None;
        }
        let layers = like.layers.apply(spare.layers.clone());
        let folder = &like.command.folder;
        let prepared =
            PreparedCommand::prewarm(&like.profile, &layers, folder, &like.stood_in).ok()??;
        if like.limits_by == LimitEnforcerChoice::Best {
            groups.set_limits(spare.places, &supervisor::limits_with_sandbox(&like, &prepared));
        }
        let launch =
            LaunchContext { prepared: &prepared, folder: "/".as_ref(), stdio: &[], net: None };
        let main = launch.start_in_cgroups(groups).ok()?;
        let until = Instant::now().checked_add(like.ready_for)?;
        let mut walls = Namespaces::new(main, prepared);
        walls.prepared.release_launch_handles();
        Some(Self { like, walls: Some(walls), until })
    }

    /// Gives them the command of an order, if they are the walls it asks for; they end otherwise.
    pub(super) fn assign_command(
        mut self,
        order: &SpawnSpecMessage,
        layers: &SandboxLayers,
        stdio: &[OwnedFd],
    ) -> Option<Namespaces> {
        let SpawnSpecMessage { command, profile, limits_by, layers: used, joins, .. } = order;
        let like = &self.like;
        if *joins || (profile, limits_by, used) != (&like.profile, &like.limits_by, &like.layers) {
            return None;
        }
        let streams = launch::split_streams(stdio)?;
        let walls = &mut self.walls.as_mut()?.prepared;
        if walls.assign_command(profile, layers, command, streams) {
            self.walls.take()
        } else {
            None
        }
    }
}

impl Drop for PrewarmedSandbox {
    fn drop(&mut self) {
        let Some(Namespaces { mut prepared, .. }) = self.walls.take() else { return };
        supervisor::kill_descendants(&BTreeSet::new(), KILL_MAX, || {
            while let ReapOutcome::Exited(_) = syscalls::reap() {}
            matches!(syscalls::reap(), ReapOutcome::NoChildren)
        });
        prepared.cleanup();
        // What a command could not take away because these walls stood on it too.
        crate::confinement::sweep_placeholders(&self.like.profile.tmp);
    }
}
